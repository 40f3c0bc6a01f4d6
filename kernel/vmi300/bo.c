// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Buffers: GEM objects with pages of shmem, of the process, or of the device.
 *
 * Video memory and host memory are the same pages here. No buffer is moved,
 * so nothing is ever evicted for lack of memory.
 */
#include <linux/shmem_fs.h>
#include <linux/vmalloc.h>

#include "vmi300.h"

static void vmi300_bo_free(struct drm_gem_object *obj)
{
	struct vmi300_bo *bo = container_of(obj, struct vmi300_bo, bo.tbo.base);
	size_t count = obj->size >> PAGE_SHIFT;
	unsigned long index;
	struct page *page;

	/* Engines write through page tables that tell nothing of it. */
	xa_for_each(&bo->resident, index, page) {
		set_page_dirty(page);
		put_page(page);
	}
	xa_destroy(&bo->resident);
	vunmap(bo->kernel);
	if (bo->backing == VMI300_USER && bo->pages) {
		unpin_user_pages(bo->pages, count);
		kvfree(bo->pages);
	} else if (bo->pages) {
		drm_gem_put_pages(obj, bo->pages, true, false);
	}
	drm_gem_object_release(obj);
	kfree(bo);
}

static int vmi300_bo_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	struct vmi300_bo *bo = container_of(obj, struct vmi300_bo, bo.tbo.base);
	int ret;

	if (bo->backing != VMI300_SHMEM)
		return -EINVAL;

	vma->vm_pgoff -= drm_vma_node_start(&obj->vma_node);
	vm_flags_set(vma, VM_DONTEXPAND);
	ret = call_mmap(obj->filp, vma);
	if (ret)
		return ret;
	vma_set_file(vma, obj->filp);
	/* The mapping holds the file now, not the object. */
	drm_gem_object_put(obj);
	return 0;
}

static const struct drm_gem_object_funcs vmi300_bo_funcs = {
	.free = vmi300_bo_free,
	.mmap = vmi300_bo_mmap,
};

struct vmi300_bo *vmi300_bo_create(struct amdgpu_device *adev, u64 size)
{
	struct vmi300_bo *bo = kzalloc(sizeof(*bo), GFP_KERNEL);

	if (!bo)
		return NULL;
	xa_init(&bo->resident);
	bo->bo.tbo.base.funcs = &vmi300_bo_funcs;
	bo->bo.tbo.bdev = &adev->mman.bdev;
	if (drm_gem_object_init(adev_to_drm(adev), &bo->bo.tbo.base, PAGE_ALIGN(size))) {
		kfree(bo);
		return NULL;
	}
	return bo;
}

/* Returns a page with a reference, or NULL. May sleep. */
struct page *vmi300_bo_page(struct vmi300_bo *bo, pgoff_t index)
{
	struct drm_gem_object *obj = &bo->bo.tbo.base;
	struct page *page;

	if (index >= obj->size >> PAGE_SHIFT)
		return NULL;
	switch (bo->backing) {
	case VMI300_USER:
		page = bo->pages[index];
		get_page(page);
		return page;
	case VMI300_PHYSICAL:
		page = pfn_to_page((bo->physical >> PAGE_SHIFT) + index);
		get_page(page);
		return page;
	default:
		page = shmem_read_mapping_page(obj->filp->f_mapping, index);
		return IS_ERR(page) ? NULL : page;
	}
}

/*
 * Returns a page that stays where it is as long as the buffer lives, or NULL.
 * The reference keeps the kernel from moving a page that only page tables of
 * an engine's window name.
 */
struct page *vmi300_bo_resident(struct vmi300_bo *bo, pgoff_t index)
{
	struct page *page = xa_load(&bo->resident, index), *first;

	if (page)
		return page;
	page = vmi300_bo_page(bo, index);
	if (!page)
		return NULL;
	/* Engines of two devices may meet here. */
	first = xa_cmpxchg(&bo->resident, index, NULL, page, GFP_KERNEL);
	if (!first)
		return page;
	put_page(page);
	return xa_is_err(first) ? NULL : first;
}

struct amdgpu_bo *amdgpu_bo_ref(struct amdgpu_bo *bo)
{
	if (bo)
		drm_gem_object_get(&bo->tbo.base);
	return bo;
}

void amdgpu_bo_unref(struct amdgpu_bo **bo)
{
	if (*bo)
		drm_gem_object_put(&(*bo)->tbo.base);
	*bo = NULL;
}

/* Called when a reservation ends. There is no list of buffers by use. */
void ttm_bo_move_to_lru_tail(struct ttm_buffer_object *bo)
{
}

u64 amdgpu_bo_gpu_offset(struct amdgpu_bo *bo)
{
	return to_vmi300_bo(bo)->doorbell;
}

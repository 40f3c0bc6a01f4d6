// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The doorbell bar: host memory in which stores leave a value that the
 * firmware polls. On hardware a store is seen when it arrives.
 */
#include <linux/bitmap.h>

#include "vmi300.h"

#define VMI300_DOORBELL_ORDER	10
#define VMI300_DOORBELL_PAGES	BIT(VMI300_DOORBELL_ORDER)
#define VMI300_DOORBELL_SIZE	((size_t)VMI300_DOORBELL_PAGES << PAGE_SHIFT)

static void *vmi300_doorbells(struct vmi300 *dev)
{
	return page_address(dev->doorbell_bar);
}

int vmi300_doorbell_init(struct vmi300 *dev)
{
	mutex_init(&dev->doorbell_lock);
	dev->doorbell_pages = bitmap_zalloc(VMI300_DOORBELL_PAGES, GFP_KERNEL);
	dev->doorbell_bar = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_COMP,
					VMI300_DOORBELL_ORDER);
	dev->remap_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!dev->doorbell_pages || !dev->doorbell_bar || !dev->remap_page) {
		vmi300_doorbell_fini(dev);
		return -ENOMEM;
	}
	/* The first page is amdgpu's own on hardware. */
	bitmap_set(dev->doorbell_pages, 0, 1);
	dev->adev.doorbell.base = page_to_phys(dev->doorbell_bar);
	dev->adev.doorbell.size = VMI300_DOORBELL_SIZE;
	/* Programs flush host writes to video memory here: nothing to do. */
	dev->adev.rmmio_remap.bus_addr = page_to_phys(dev->remap_page);
	return 0;
}

void vmi300_doorbell_fini(struct vmi300 *dev)
{
	bitmap_free(dev->doorbell_pages);
	dev->doorbell_pages = NULL;
	if (dev->doorbell_bar)
		__free_pages(dev->doorbell_bar, VMI300_DOORBELL_ORDER);
	dev->doorbell_bar = NULL;
	if (dev->remap_page)
		__free_page(dev->remap_page);
	dev->remap_page = NULL;
}

/* Returns a doorbell by its place on the bar, or NULL. */
u64 *vmi300_doorbell(struct vmi300 *dev, u32 dwords)
{
	u64 bytes = (u64)dwords * sizeof(u32);

	if (bytes & 7 || bytes >= VMI300_DOORBELL_SIZE)
		return NULL;
	return vmi300_doorbells(dev) + bytes;
}

int amdgpu_bo_create_kernel(struct amdgpu_device *adev, unsigned long size,
			    int align, u32 domain, struct amdgpu_bo **bo_ptr,
			    u64 *gpu_addr, void **cpu_addr)
{
	struct vmi300 *dev = to_vmi300(adev);
	unsigned int pages = PAGE_ALIGN(size) >> PAGE_SHIFT;
	struct vmi300_bo *bo;
	unsigned long first;

	if (WARN_ON(domain != AMDGPU_GEM_DOMAIN_DOORBELL))
		return -EINVAL;
	bo = vmi300_bo_create(adev, size);
	if (!bo)
		return -ENOMEM;

	mutex_lock(&dev->doorbell_lock);
	first = bitmap_find_next_zero_area(dev->doorbell_pages, VMI300_DOORBELL_PAGES, 0,
					   pages, roundup_pow_of_two(pages) - 1);
	if (first < VMI300_DOORBELL_PAGES)
		bitmap_set(dev->doorbell_pages, first, pages);
	mutex_unlock(&dev->doorbell_lock);
	if (first >= VMI300_DOORBELL_PAGES) {
		drm_gem_object_put(&bo->bo.tbo.base);
		return -ENOMEM;
	}

	bo->backing = VMI300_PHYSICAL;
	bo->doorbell = first << PAGE_SHIFT;
	bo->physical = adev->doorbell.base + bo->doorbell;
	/*
	 * The first packet of a queue is announced with the value 0: no
	 * doorbell may hold it before.
	 */
	memset(vmi300_doorbells(dev) + bo->doorbell, 0xff, PAGE_ALIGN(size));
	if (cpu_addr)
		*cpu_addr = vmi300_doorbells(dev) + bo->doorbell;
	*bo_ptr = &bo->bo;
	return 0;
}

void amdgpu_bo_free_kernel(struct amdgpu_bo **bo_ptr, u64 *gpu_addr, void **cpu_addr)
{
	struct vmi300_bo *bo;
	struct vmi300 *dev;

	if (!*bo_ptr)
		return;
	bo = to_vmi300_bo(*bo_ptr);
	dev = to_vmi300(drm_to_adev(bo->bo.tbo.base.dev));
	mutex_lock(&dev->doorbell_lock);
	bitmap_clear(dev->doorbell_pages, bo->doorbell >> PAGE_SHIFT,
		     bo->bo.tbo.base.size >> PAGE_SHIFT);
	mutex_unlock(&dev->doorbell_lock);
	amdgpu_bo_unref(bo_ptr);
	if (cpu_addr)
		*cpu_addr = NULL;
}

u32 amdgpu_doorbell_index_on_bar(struct amdgpu_device *adev, struct amdgpu_bo *bo,
				 u32 doorbell_index, u32 db_size)
{
	return to_vmi300_bo(bo)->doorbell / sizeof(u32) +
		doorbell_index * DIV_ROUND_UP(db_size, sizeof(u32));
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * GPU address spaces: what amdgpu_amdkfd_gpuvm.c and amdgpu_vm.c do for
 * amdkfd, with their rules about sizes, alignment and overlap, and without
 * page tables: a maple tree says which buffer lies where.
 *
 * What is not here: eviction, MMU notifiers of user pages (they are pinned
 * instead), buffers shared between processes.
 */
#include <linux/highmem.h>
#include <linux/mm.h>

#include <linux/vmalloc.h>
#include <uapi/linux/kfd_ioctl.h>

#include "vmi300.h"

struct vmi300_vm *vmi300_vm_create(struct vmi300 *dev, struct amdgpu_vm *avm, unsigned int node)
{
	struct vmi300_vm *vm = kzalloc(sizeof(*vm), GFP_KERNEL);

	if (!vm)
		return NULL;
	kref_init(&vm->ref);
	mutex_init(&vm->lock);
	mt_init(&vm->ranges);
	mt_init_flags(&vm->window, MT_FLAGS_ALLOC_RANGE);
	INIT_LIST_HEAD(&vm->attachments);
	vm->dev = dev;
	vm->avm = avm;
	vm->node = node;
	mutex_lock(&dev->vms_lock);
	list_add(&vm->list, &dev->vms);
	mutex_unlock(&dev->vms_lock);
	return vm;
}

static void vmi300_vm_release(struct kref *ref)
{
	struct vmi300_vm *vm = container_of(ref, struct vmi300_vm, ref);

	if (vm->client)
		vmi300_client_put(vm->client);
	mtree_destroy(&vm->window);
	mtree_destroy(&vm->ranges);
	mutex_destroy(&vm->lock);
	kfree(vm);
}

void vmi300_vm_put(struct vmi300_vm *vm)
{
	if (vm)
		kref_put(&vm->ref, vmi300_vm_release);
}

/* Returns the address space of a process on a partition, with a reference, or NULL. */
struct vmi300_vm *vmi300_vm_get(struct vmi300_mec *mec, u32 pasid)
{
	struct vmi300 *dev = mec->dev;
	struct vmi300_vm *vm, *found = NULL;

	mutex_lock(&dev->vms_lock);
	list_for_each_entry(vm, &dev->vms, list) {
		if (vm->node == mec->node && vm->avm->process_info && vm->avm->pasid == pasid) {
			kref_get(&vm->ref);
			found = vm;
			break;
		}
	}
	mutex_unlock(&dev->vms_lock);
	return found;
}

/* The engine's next table does not have the buffer any more. */
static void vmi300_hide(struct vmi300_vm *vm, struct vmi300_attachment *at)
{
	unsigned int i;

	for (i = 0; i < at->mappings; i++)
		mtree_erase(&vm->ranges, at->mapping[i].start);
	list_del_init(&at->list);
}

static void vmi300_detach(struct vmi300_vm *vm, struct vmi300_attachment *at)
{
	unsigned int i;

	if (!list_empty(&at->list))
		vmi300_hide(vm, at);
	for (i = 0; i < at->mappings; i++) {
		struct amdgpu_bo_va_mapping *mapping = &at->mapping[i];

		if (at->window[i] == ULONG_MAX)
			continue;
		mtree_erase(&vm->window, at->window[i]);
		vmi300_window_zap(at->window[i], mapping->last - mapping->start + 1);
	}
	amdgpu_bo_unref(&at->va.base.bo);
	kfree(at);
}

/* The file is closed. The firmware may hold the object a little longer. */
void vmi300_vm_close(struct vmi300_vm *vm)
{
	struct vmi300_attachment *at, *next;

	mutex_lock(&vm->dev->vms_lock);
	list_del(&vm->list);
	mutex_unlock(&vm->dev->vms_lock);
	if (vm->dev->engine->close)
		vm->dev->engine->close(vm);
	mutex_lock(&vm->lock);
	list_for_each_entry_safe(at, next, &vm->attachments, list)
		vmi300_detach(vm, at);
	vm->avm = NULL;
	mutex_unlock(&vm->lock);
	vmi300_vm_put(vm);
}

static struct vmi300_vm *vmi300_vm_of(struct amdgpu_vm *avm)
{
	struct amdgpu_fpriv *fpriv = container_of(avm, struct amdgpu_fpriv, vm);

	return container_of(fpriv, struct vmi300_file, fpriv)->vm;
}

/* Returns the page at an address, with a reference, or NULL: a GPU page fault. */
static struct page *vmi300_vm_page(struct vmi300_vm *vm, u64 va)
{
	struct amdgpu_bo_va_mapping *mapping;
	struct page *page = NULL;

	mutex_lock(&vm->lock);
	mapping = mtree_load(&vm->ranges, va >> PAGE_SHIFT);
	if (mapping)
		page = vmi300_bo_page(to_vmi300_bo(mapping->bo_va->base.bo),
				      (mapping->offset >> PAGE_SHIFT) +
				      (va >> PAGE_SHIFT) - mapping->start);
	mutex_unlock(&vm->lock);
	return page;
}

static int vmi300_vm_copy(struct vmi300_vm *vm, u64 va, void *buffer, size_t size, bool write)
{
	while (size) {
		size_t part = min_t(size_t, size, PAGE_SIZE - offset_in_page(va));
		struct page *page = vmi300_vm_page(vm, va);

		if (!page)
			return -EFAULT;
		if (write)
			memcpy_to_page(page, offset_in_page(va), buffer, part);
		else
			memcpy_from_page(buffer, page, offset_in_page(va), part);
		if (write)
			set_page_dirty(page);
		put_page(page);
		va += part;
		buffer += part;
		size -= part;
	}
	return 0;
}

int vmi300_vm_read(struct vmi300_vm *vm, u64 va, void *to, size_t size)
{
	return vmi300_vm_copy(vm, va, to, size, false);
}

int vmi300_vm_write(struct vmi300_vm *vm, u64 va, const void *from, size_t size)
{
	return vmi300_vm_copy(vm, va, (void *)from, size, true);
}

/* Adds to an aligned counter as an atomic instruction of the GPU does. */
int vmi300_vm_add(struct vmi300_vm *vm, u64 va, s64 value)
{
	struct page *page;

	if (va & 7)
		return -EINVAL;
	page = vmi300_vm_page(vm, va);
	if (!page)
		return -EFAULT;
	atomic64_add(value, (atomic64_t *)(page_address(page) + offset_in_page(va)));
	set_page_dirty(page);
	put_page(page);
	return 0;
}

/* Lists the ranges of GPU addresses; returns how many there are, also if there is no room. */
u32 vmi300_vm_ranges(struct vmi300_vm *vm, struct vmi300_engine_range *ranges, u32 room)
{
	struct vmi300_attachment *at;
	u32 count = 0;
	unsigned int i;

	mutex_lock(&vm->lock);
	list_for_each_entry(at, &vm->attachments, list) {
		for (i = 0; i < at->mappings; i++) {
			const struct amdgpu_bo_va_mapping *mapping = &at->mapping[i];

			if (at->window[i] == ULONG_MAX || count++ >= room)
				continue;
			ranges[count - 1] = (struct vmi300_engine_range) {
				.va = mapping->start << PAGE_SHIFT,
				.size = (mapping->last - mapping->start + 1) << PAGE_SHIFT,
				.window = (u64)at->window[i] << PAGE_SHIFT,
				.flags = at->flags,
			};
		}
	}
	mutex_unlock(&vm->lock);
	return count;
}

/*
 * Inserts the page of a window. Under vm->lock, so that a buffer which leaves
 * either is not found here or has the page zapped afterwards. Takes no other
 * lock of this module or of the driver: the driver may hold them while it
 * waits for the engine that faults here.
 */
vm_fault_t vmi300_vm_window_fault(struct vmi300_vm *vm, struct vm_fault *vmf)
{
	MA_STATE(mas, &vm->window, vmf->pgoff, vmf->pgoff);
	struct amdgpu_bo_va_mapping *mapping;
	vm_fault_t ret = VM_FAULT_SIGBUS;
	struct page *page;

	mutex_lock(&vm->lock);
	mtree_lock(&vm->window);
	mapping = mas_walk(&mas);
	mtree_unlock(&vm->window);
	if (mapping) {
		page = vmi300_bo_resident(to_vmi300_bo(mapping->bo_va->base.bo),
					  (mapping->offset >> PAGE_SHIFT) +
					  vmf->pgoff - mas.index);
		if (page)
			ret = vmf_insert_pfn(vmf->vma, vmf->address, page_to_pfn(page));
	}
	mutex_unlock(&vm->lock);
	return ret;
}

/* The caller has the root of the address space reserved, as amdkfd does. */
struct amdgpu_bo_va_mapping *amdgpu_vm_bo_lookup_mapping(struct amdgpu_vm *vm, u64 addr)
{
	return mtree_load(&vmi300_vm_of(vm)->ranges, addr);
}

struct amdgpu_bo_va *amdgpu_vm_bo_find(struct amdgpu_vm *vm, struct amdgpu_bo *bo)
{
	struct vmi300_attachment *at;

	list_for_each_entry(at, &vmi300_vm_of(vm)->attachments, list) {
		if (at->va.base.bo == bo)
			return &at->va;
	}
	return NULL;
}

int amdgpu_amdkfd_gpuvm_acquire_process_vm(struct amdgpu_device *adev, struct amdgpu_vm *avm,
					   void **process_info, struct dma_fence **ef)
{
	struct amdkfd_process_info *info = *process_info;

	/* As amdgpu: an address space serves one process. */
	if (avm->process_info)
		return -EINVAL;
	if (!info) {
		info = kzalloc(sizeof(*info), GFP_KERNEL);
		if (!info)
			return -ENOMEM;
		mutex_init(&info->lock);
		mutex_init(&info->notifier_lock);
		INIT_LIST_HEAD(&info->vm_list_head);
		INIT_LIST_HEAD(&info->kfd_bo_list);
		info->pid = get_task_pid(current->group_leader, PIDTYPE_PID);
		*process_info = info;
		/* No eviction fence: nothing is evicted. */
		if (ef)
			*ef = NULL;
	}
	avm->process_info = info;
	avm->is_compute_context = true;
	info->n_vms++;
	return 0;
}

void amdgpu_amdkfd_gpuvm_destroy_cb(struct amdgpu_device *adev, struct amdgpu_vm *vm)
{
	static DEFINE_MUTEX(count_lock);	/* an info may be of several devices */
	struct vmi300 *dev = to_vmi300(adev);
	struct amdkfd_process_info *info;
	bool last;

	mutex_lock(&dev->vms_lock);
	info = vm->process_info;
	vm->process_info = NULL;
	mutex_unlock(&dev->vms_lock);
	if (!info)
		return;
	mutex_lock(&count_lock);
	last = !--info->n_vms;
	mutex_unlock(&count_lock);
	if (!last)
		return;
	put_pid(info->pid);
	mutex_destroy(&info->notifier_lock);
	mutex_destroy(&info->lock);
	kfree(info);
}

void amdgpu_amdkfd_gpuvm_release_process_vm(struct amdgpu_device *adev, void *drm_priv)
{
	/* amdgpu gives the compute PASID back here; the file lives on. */
	drm_priv_to_vm(drm_priv)->pasid = 0;
}

int amdgpu_amdkfd_gpuvm_set_vm_pasid(struct amdgpu_device *adev, struct amdgpu_vm *avm, u32 pasid)
{
	struct vmi300_vm *vm = vmi300_vm_of(avm);

	avm->pasid = pasid;
	return pasid && vm->dev->engine->open ? vm->dev->engine->open(vm) : 0;
}

/* The firmware finds the address space by PASID; this only shows up in packets. */
u64 amdgpu_amdkfd_gpuvm_get_process_page_dir(void *drm_priv)
{
	return ((u64)drm_priv_to_vm(drm_priv)->pasid << PAGE_SHIFT) | AMDGPU_PTE_VALID;
}

static int vmi300_pin_user(struct vmi300_bo *bo, u64 address, u64 size)
{
	unsigned int count = size >> PAGE_SHIFT;
	int pinned;

	bo->pages = kvcalloc(count, sizeof(*bo->pages), GFP_KERNEL);
	if (!bo->pages)
		return -ENOMEM;
	pinned = pin_user_pages_fast(address, count, FOLL_WRITE | FOLL_LONGTERM, bo->pages);
	if (pinned == count) {
		bo->backing = VMI300_USER;
		return 0;
	}
	if (pinned > 0)
		unpin_user_pages(bo->pages, pinned);
	kvfree(bo->pages);
	bo->pages = NULL;
	return pinned < 0 ? pinned : -EFAULT;
}

/* Where a buffer comes from, in the order in which amdgpu looks at the flags. */
static int vmi300_back(struct vmi300_bo *bo, u64 *offset, u64 size, u32 flags)
{
	if (flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT))
		return 0;
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		return vmi300_pin_user(bo, untagged_addr(*offset), size);
	bo->backing = VMI300_PHYSICAL;
	bo->physical = *offset;
	return 0;
}

static int vmi300_check_alloc(u64 *offset, u64 size, u32 flags)
{
	if (flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT))
		return 0;
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		return offset && *offset ? 0 : -EINVAL;
	if (flags & (KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP))
		return size > UINT_MAX ? -EINVAL : 0;
	return -EINVAL;
}

int amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu(struct amdgpu_device *adev, u64 va,
					    u64 size, void *drm_priv, struct kgd_mem **mem,
					    u64 *offset, u32 flags, bool criu_resume)
{
	struct amdgpu_vm *avm = drm_priv_to_vm(drm_priv);
	struct drm_gem_object *obj;
	struct vmi300_bo *bo;
	struct kgd_mem *new;
	int ret;

	ret = vmi300_check_alloc(offset, size, flags);
	if (ret)
		return ret;
	/* amdgpu maps such memory twice and allocates half of it. */
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM)
		size >>= 1;
	size = PAGE_ALIGN(size);
	if (!size)
		return -EINVAL;
	if (size > amdgpu_amdkfd_get_available_memory(adev, 0))
		return -ENOMEM;

	new = kzalloc(sizeof(*new), GFP_KERNEL);
	bo = vmi300_bo_create(adev, size);
	if (!new || !bo) {
		ret = -ENOMEM;
		goto err;
	}
	obj = &bo->bo.tbo.base;
	ret = vmi300_back(bo, offset, size, flags);
	if (ret)
		goto err;
	ret = drm_gem_create_mmap_offset(obj);
	if (!ret)
		ret = drm_vma_node_allow(&obj->vma_node, drm_priv);
	if (ret)
		goto err;

	mutex_init(&new->lock);
	INIT_LIST_HEAD(&new->attachments);
	INIT_LIST_HEAD(&new->validate_list);
	new->bo = &bo->bo;
	new->va = va;
	new->alloc_flags = flags;
	new->aql_queue = flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM;
	new->domain = flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM ? AMDGPU_GEM_DOMAIN_VRAM :
							     AMDGPU_GEM_DOMAIN_GTT;
	new->process_info = avm->process_info;
	bo->bo.kfd_bo = new;
	if (offset)
		*offset = drm_vma_node_offset_addr(&obj->vma_node);
	*mem = new;
	return 0;

err:
	if (bo)
		drm_gem_object_put(&bo->bo.tbo.base);
	kfree(new);
	return ret;
}

/* amdgpu_vm_verify_parameters. */
static int vmi300_check_map(struct amdgpu_device *adev, u64 va, u64 size)
{
	u64 end;

	if (offset_in_page(va) || offset_in_page(size) || !size ||
	    check_add_overflow(va, size, &end))
		return -EINVAL;
	return (end - 1) >> PAGE_SHIFT >= adev->vm_manager.max_pfn ? -EINVAL : 0;
}

/* Finds room in the engine's window, if there is one. */
static int vmi300_show(struct vmi300_vm *vm, struct vmi300_attachment *at, unsigned int i)
{
	struct amdgpu_bo_va_mapping *mapping = &at->mapping[i];

	at->window[i] = ULONG_MAX;
	if (!vm->dev->engine->open)
		return 0;
	return mtree_alloc_range(&vm->window, &at->window[i], mapping,
				 mapping->last - mapping->start + 1, 0,
				 (VMI300_WINDOW_SIZE >> PAGE_SHIFT) - 1, GFP_KERNEL);
}

static u32 vmi300_range_flags(u32 alloc_flags)
{
	u32 flags = 0;

	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)
		flags |= VMI300_RANGE_WRITABLE;
	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE)
		flags |= VMI300_RANGE_EXECUTABLE;
	return flags;
}

static int vmi300_attach(struct vmi300_vm *vm, struct kgd_mem *mem)
{
	u64 pages = mem->bo->tbo.base.size >> PAGE_SHIFT;
	struct vmi300_attachment *at = kzalloc(sizeof(*at), GFP_KERNEL);
	unsigned int i, count = mem->aql_queue ? 2 : 1;
	int ret = 0;

	if (!at)
		return -ENOMEM;
	at->va.base.bo = amdgpu_bo_ref(mem->bo);
	at->va.base.vm = vm->avm;
	at->flags = vmi300_range_flags(mem->alloc_flags);
	INIT_LIST_HEAD(&at->list);

	mutex_lock(&vm->lock);
	for (i = 0; i < count && !ret; i++) {
		struct amdgpu_bo_va_mapping *mapping = &at->mapping[i];

		mapping->bo_va = &at->va;
		mapping->start = (mem->va >> PAGE_SHIFT) + i * pages;
		mapping->last = mapping->start + pages - 1;
		/* amdgpu_vm_bo_map refuses what overlaps. */
		ret = mtree_insert_range(&vm->ranges, mapping->start, mapping->last, mapping,
					 GFP_KERNEL);
		if (ret == -EEXIST)
			ret = -EINVAL;
		if (ret)
			break;
		ret = vmi300_show(vm, at, i);
		if (ret)
			mtree_erase(&vm->ranges, mapping->start);
		else
			at->mappings++;
	}
	list_add(&at->list, &vm->attachments);
	if (ret)
		vmi300_detach(vm, at);
	mutex_unlock(&vm->lock);
	return ret;
}

/* As long as a TLB flush would take, the engine may use the old addresses. */
static void vmi300_space_changed(struct vmi300_vm *vm)
{
	if (vm->dev->engine->space_changed)
		vm->dev->engine->space_changed(vm);
}

int amdgpu_amdkfd_gpuvm_map_memory_to_gpu(struct amdgpu_device *adev, struct kgd_mem *mem,
					  void *drm_priv)
{
	struct amdgpu_vm *avm = drm_priv_to_vm(drm_priv);
	u64 size = mem->bo->tbo.base.size << mem->aql_queue;
	int ret;

	mutex_lock(&mem->lock);
	ret = amdgpu_bo_reserve(avm->root.bo, true);
	if (ret)
		goto out;
	if (!amdgpu_vm_bo_find(avm, mem->bo)) {
		ret = vmi300_check_map(adev, mem->va, size);
		if (!ret)
			ret = vmi300_attach(vmi300_vm_of(avm), mem);
		if (!ret)
			mem->mapped_to_gpu_memory++;
	}
	amdgpu_bo_unreserve(avm->root.bo);
	if (!ret)
		vmi300_space_changed(vmi300_vm_of(avm));
out:
	mutex_unlock(&mem->lock);
	return ret;
}

int amdgpu_amdkfd_gpuvm_unmap_memory_from_gpu(struct amdgpu_device *adev, struct kgd_mem *mem,
					      void *drm_priv)
{
	struct amdgpu_vm *avm = drm_priv_to_vm(drm_priv);
	struct vmi300_vm *vm = vmi300_vm_of(avm);
	struct vmi300_attachment *at = NULL;
	struct amdgpu_bo_va *va;
	int ret;

	mutex_lock(&mem->lock);
	ret = amdgpu_bo_reserve(avm->root.bo, true);
	if (ret)
		goto out;
	va = amdgpu_vm_bo_find(avm, mem->bo);
	if (!va) {
		/* As amdgpu: unmapping what is not mapped is an error. */
		ret = -EINVAL;
	} else if (va->queue_refcount) {
		ret = -EBUSY;
	} else {
		at = container_of(va, struct vmi300_attachment, va);
		mutex_lock(&vm->lock);
		vmi300_hide(vm, at);
		mutex_unlock(&vm->lock);
		mem->mapped_to_gpu_memory--;
	}
	amdgpu_bo_unreserve(avm->root.bo);
	if (at) {
		vmi300_space_changed(vm);
		mutex_lock(&vm->lock);
		vmi300_detach(vm, at);
		mutex_unlock(&vm->lock);
	}
out:
	mutex_unlock(&mem->lock);
	return ret;
}

int amdgpu_amdkfd_gpuvm_free_memory_of_gpu(struct amdgpu_device *adev, struct kgd_mem *mem,
					   void *drm_priv, u64 *size)
{
	struct drm_gem_object *obj = &mem->bo->tbo.base;
	unsigned int mapped;

	mutex_lock(&mem->lock);
	mapped = mem->mapped_to_gpu_memory;
	mutex_unlock(&mem->lock);
	if (mapped)
		return -EBUSY;

	if (size) {
		*size = 0;
		if (mem->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
			*size = obj->size;
	}
	drm_vma_node_revoke(&obj->vma_node, drm_priv);
	mem->bo->kfd_bo = NULL;
	amdgpu_bo_unref(&mem->bo);
	mutex_destroy(&mem->lock);
	kfree(mem);
	return 0;
}

int amdgpu_amdkfd_gpuvm_map_gtt_bo_to_kernel(struct kgd_mem *mem, void **kptr, u64 *size)
{
	struct vmi300_bo *bo = to_vmi300_bo(mem->bo);
	struct drm_gem_object *obj = &bo->bo.tbo.base;

	if (bo->backing != VMI300_SHMEM)
		return -EINVAL;
	if (!bo->kernel) {
		bo->pages = drm_gem_get_pages(obj);
		if (IS_ERR(bo->pages)) {
			bo->pages = NULL;
			return -ENOMEM;
		}
		bo->kernel = vmap(bo->pages, obj->size >> PAGE_SHIFT, VM_MAP, PAGE_KERNEL);
		if (!bo->kernel)
			return -ENOMEM;
	}
	*kptr = bo->kernel;
	if (size)
		*size = obj->size;
	return 0;
}

void amdgpu_amdkfd_gpuvm_unmap_gtt_bo_from_kernel(struct kgd_mem *mem)
{
	/* The mapping goes with the buffer. */
}

bool amdgpu_amdkfd_bo_mapped_to_dev(void *drm_priv, struct kgd_mem *mem)
{
	return amdgpu_vm_bo_find(drm_priv_to_vm(drm_priv), mem->bo);
}

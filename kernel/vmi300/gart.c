// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Kernel memory that the firmware reads and writes: rings, MQDs, fences,
 * runlists. An address of the GART belongs to exactly one allocation.
 */
#include <linux/vmalloc.h>

#include "vmi300.h"

/* Above all addresses of processes, so that a mix-up is noticed. */
#define VMI300_GART_START	0x7f0000000000ULL

struct vmi300_gart_entry {
	struct kref ref;
	struct list_head list;
	u64 address;
	size_t size;
	void *cpu;
};

static void vmi300_gart_free(struct kref *ref)
{
	struct vmi300_gart_entry *entry = container_of(ref, struct vmi300_gart_entry, ref);

	vfree(entry->cpu);
	kfree(entry);
}

void vmi300_gart_put(struct vmi300_gart_entry *entry)
{
	if (entry)
		kref_put(&entry->ref, vmi300_gart_free);
}

static struct vmi300_gart_entry *vmi300_gart_find(struct vmi300 *dev, u64 address, size_t size)
{
	struct vmi300_gart_entry *entry;

	list_for_each_entry(entry, &dev->gart, list) {
		if (address >= entry->address && size <= entry->size &&
		    address - entry->address <= entry->size - size)
			return entry;
	}
	return NULL;
}

/* Translates an address; NULL if not all of the bytes are in one allocation. */
void *vmi300_gart(struct vmi300 *dev, u64 address, size_t size)
{
	struct vmi300_gart_entry *entry;
	void *cpu = NULL;

	spin_lock(&dev->gart_lock);
	entry = vmi300_gart_find(dev, address, size);
	if (entry)
		cpu = entry->cpu + (address - entry->address);
	spin_unlock(&dev->gart_lock);
	return cpu;
}

/*
 * Returns the allocation of an address with a reference, or NULL. Its memory
 * stays if the driver frees it, as it does with the MQD of a queue after it has
 * waited for the firmware in vain.
 */
struct vmi300_gart_entry *vmi300_gart_get(struct vmi300 *dev, u64 address)
{
	struct vmi300_gart_entry *entry;

	spin_lock(&dev->gart_lock);
	entry = vmi300_gart_find(dev, address, 1);
	if (entry)
		kref_get(&entry->ref);
	spin_unlock(&dev->gart_lock);
	return entry;
}

int amdgpu_amdkfd_alloc_gtt_mem(struct amdgpu_device *adev, size_t size,
				void **mem_obj, uint64_t *gpu_addr,
				void **cpu_ptr, bool mqd_gfx9)
{
	struct vmi300 *dev = to_vmi300(adev);
	struct vmi300_gart_entry *entry = kzalloc(sizeof(*entry), GFP_KERNEL);

	if (!entry)
		return -ENOMEM;
	kref_init(&entry->ref);
	entry->size = PAGE_ALIGN(size);
	entry->cpu = vzalloc(entry->size);
	if (!entry->cpu) {
		kfree(entry);
		return -ENOMEM;
	}

	spin_lock(&dev->gart_lock);
	if (!dev->gart_next)
		dev->gart_next = VMI300_GART_START;
	entry->address = dev->gart_next;
	/* A page between allocations, so that overruns are noticed. */
	dev->gart_next += entry->size + PAGE_SIZE;
	list_add(&entry->list, &dev->gart);
	spin_unlock(&dev->gart_lock);

	*mem_obj = entry;
	*gpu_addr = entry->address;
	*cpu_ptr = entry->cpu;
	return 0;
}

void amdgpu_amdkfd_free_gtt_mem(struct amdgpu_device *adev, void **mem_obj)
{
	struct vmi300 *dev = to_vmi300(adev);
	struct vmi300_gart_entry *entry = *mem_obj;

	if (!entry)
		return;
	spin_lock(&dev->gart_lock);
	list_del(&entry->list);
	spin_unlock(&dev->gart_lock);
	if (dev->engine->gart_freed)
		dev->engine->gart_freed(dev, entry->address, entry->size);
	vmi300_gart_put(entry);
	*mem_obj = NULL;
}

void vmi300_gart_fini(struct vmi300 *dev)
{
	struct vmi300_gart_entry *entry, *next;

	list_for_each_entry_safe(entry, next, &dev->gart, list) {
		dev_warn(dev->adev.dev, "%zu bytes of the GART were not freed\n", entry->size);
		list_del(&entry->list);
		vmi300_gart_put(entry);
	}
}

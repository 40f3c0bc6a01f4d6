// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Reading the memory of a process: its rings, indices and signals.
 *
 * A worker borrows the memory of the process and copies with page faults off,
 * so that the process cannot keep it: not with a userfaultfd, not with a file
 * system of its own. A page that is not there is brought in by one fault that
 * does not wait, where that is known to be true: anonymous memory and buffers
 * of the gpu's own driver. FAULT_FLAG_RETRY_NOWAIT gives up instead of waiting
 * for a page that is locked or read, for a userfaultfd and for a buffer that is
 * reserved, and keeps the mmap lock. Shared memory is left alone: its fault
 * waits for a hole that is being punched, and for the lock of a page.
 *
 * Nothing here may be called with gp.lock or a lock of the driver held.
 */

#include <drm/drm_ioctl.h>
#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>

#include "internal.h"

/* Faults of one look at a tenant. */
#define GP_MOST_FAULTS		4
/* Buffers of the driver may have to be moved for a fault: not at every look. */
#define GP_DEVICE_FAULT_NS	(10 * NSEC_PER_MSEC)

/**
 * struct gp_eyes - memory that is being looked at
 *
 * @tenant:	whose
 * @mm:		its memory
 * @now:	when
 * @faults:	how many faults are left
 */
struct gp_eyes {
	struct gp_tenant *tenant;
	struct mm_struct *mm;
	u64 now;
	unsigned int faults;
};

static bool gp_is_drm(const struct vm_area_struct *vma)
{
	struct inode *inode = vma->vm_file ? file_inode(vma->vm_file) : NULL;

	return inode && S_ISCHR(inode->i_mode) &&
	       MAJOR(inode->i_rdev) == DRM_MAJOR;
}

/* Whether a fault in a mapping does not wait for its owner. */
static bool gp_may_fault(struct gp_eyes *eyes, struct vm_area_struct *vma)
{
	struct gp_tenant *t = eyes->tenant;

	if (!(vma->vm_flags & VM_READ) || !eyes->faults)
		return false;
	if (vma_is_anonymous(vma))
		return true;
	if (!(vma->vm_flags & (VM_PFNMAP | VM_MIXEDMAP)) || !gp_is_drm(vma) ||
	    eyes->now - t->faulted_at < GP_DEVICE_FAULT_NS)
		return false;

	t->faulted_at = eyes->now;
	return true;
}

/* Tries to bring the page in. Returns zero if it may be there now. */
static int gp_fault_in(struct gp_eyes *eyes, unsigned long address)
{
	struct vm_area_struct *vma;
	int r = GPC_READ_AWAY;
	vm_fault_t fault;

	if (!mmap_read_trylock(eyes->mm))
		return GPC_READ_AWAY;
	vma = vma_lookup(eyes->mm, address);
	if (!vma) {
		r = GPC_READ_GONE;
	} else if (gp_may_fault(eyes, vma)) {
		eyes->faults--;
		fault = handle_mm_fault(vma, address,
					FAULT_FLAG_REMOTE |
					FAULT_FLAG_ALLOW_RETRY |
					FAULT_FLAG_RETRY_NOWAIT, NULL);
		/* The lock is gone. */
		if (fault & VM_FAULT_COMPLETED)
			return 0;
		if (!(fault & (VM_FAULT_ERROR | VM_FAULT_RETRY)))
			r = 0;
	}
	mmap_read_unlock(eyes->mm);

	return r;
}

static int gp_read(void *context, u64 address, void *to, size_t size)
{
	const void __user *from = u64_to_user_ptr(address);
	struct gp_eyes *eyes = context;
	u64 page, last;
	int r;

	if (!size || check_add_overflow(address, (u64)size - 1, &last))
		return GPC_READ_GONE;
	if (!copy_from_user_nofault(to, from, size))
		return 0;

	/* At most 4096 bytes: the page that is not there is one of two, or both. */
	for (page = address & PAGE_MASK; page <= last; page += PAGE_SIZE) {
		r = gp_fault_in(eyes, max(page, address));
		if (r)
			return r;
		if (!copy_from_user_nofault(to, from, size))
			return 0;
	}

	return GPC_READ_AWAY;
}

/* Borrows the memory of a tenant. */
static bool gp_open_eyes(struct gp_eyes *eyes, struct gp_tenant *t, u64 now)
{
	*eyes = (struct gp_eyes) {
		.tenant = t,
		.mm = kfd_sched_get_mm(t->process),
		.now = now,
		.faults = GP_MOST_FAULTS,
	};
	if (!eyes->mm)
		return false;
	kthread_use_mm(eyes->mm);

	return true;
}

static void gp_close_eyes(struct gp_eyes *eyes)
{
	kthread_unuse_mm(eyes->mm);
	/* The last reference ends the process in the driver: not in a worker. */
	mmput_async(eyes->mm);
}

/**
 * gp_probe_process - look at the queues of a tenant
 *
 * @t:		the tenant
 * @now:	when
 * @seen:	what was found
 *
 * Returns -EAGAIN if memory is away and nothing is known to have changed,
 * -EFAULT if nothing can be read any more.
 */
int gp_probe_process(struct gp_tenant *t, u64 now, struct gpc_activity *seen)
{
	struct gp_eyes eyes;
	struct gpc_memory memory = { .read = gp_read, .context = &eyes };
	int r;

	if (!gp_open_eyes(&eyes, t, now))
		return -EFAULT;
	r = gpc_probe_poll(t->probe, &memory, now, t->stopped > 0, seen);
	gp_close_eyes(&eyes);

	return r;
}

/**
 * gp_probe_sampled - tell the probe of a tenant its occupancy
 *
 * @t:		the tenant
 * @at:		when that was
 * @cus:	compute units, or negative
 * @alone:	no other tenant may have had waves on the gpu
 */
void gp_probe_sampled(struct gp_tenant *t, u64 at, int cus, bool alone)
{
	struct gp_eyes eyes;
	struct gpc_memory memory = { .read = gp_read, .context = &eyes };

	if (!t->probe || !gp_open_eyes(&eyes, t, at))
		return;
	gpc_probe_sampled(t->probe, &memory, at, cus, -1, alone);
	gp_close_eyes(&eyes);
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Fault injection: eviction of a process, as amdgpu's memory manager demands
 * it. This device moves no buffers, so nothing is ever evicted by itself.
 *
 * Writing PID to /sys/kernel/debug/vmi300/PCI-ADDRESS/evict takes the queues
 * of that process off, while its address space is reserved and its
 * process_info locked, as in amdgpu_amdkfd_evict_userptr and TTM's moves;
 * writing -PID puts them back.
 */
#include <linux/debugfs.h>
#include <linux/sched/mm.h>

#include "vmi300.h"
#include "kfd_priv.h"
#include "amdgpu_amdkfd.h"

static struct vmi300_vm *vmi300_vm_of_pid(struct vmi300 *dev, struct pid *pid)
{
	struct vmi300_vm *vm, *found = NULL;

	mutex_lock(&dev->vms_lock);
	list_for_each_entry(vm, &dev->vms, list) {
		if (vm->avm->process_info && vm->avm->process_info->pid == pid) {
			kref_get(&vm->ref);
			found = vm;
			break;
		}
	}
	mutex_unlock(&dev->vms_lock);
	return found;
}

static int vmi300_evict(struct vmi300_vm *vm, struct mm_struct *mm)
{
	struct amdkfd_process_info *info = vm->avm->process_info;
	int ret;

	mutex_lock(&info->lock);
	ret = amdgpu_bo_reserve(vm->avm->root.bo, true);
	if (!ret) {
		ret = kgd2kfd_quiesce_mm(mm, KFD_QUEUE_EVICTION_TRIGGER_TTM);
		amdgpu_bo_unreserve(vm->avm->root.bo);
	}
	mutex_unlock(&info->lock);
	return ret;
}

static int vmi300_evict_set(void *data, u64 value)
{
	struct vmi300 *dev = data;
	s64 number = value;
	struct pid *pid = find_get_pid(abs(number));
	struct task_struct *task = pid ? get_pid_task(pid, PIDTYPE_TGID) : NULL;
	struct mm_struct *mm = task ? get_task_mm(task) : NULL;
	struct vmi300_vm *vm = pid ? vmi300_vm_of_pid(dev, pid) : NULL;
	int ret = -ESRCH;

	if (mm && vm)
		ret = number > 0 ? vmi300_evict(vm, mm) : kgd2kfd_resume_mm(mm);
	vmi300_vm_put(vm);
	if (mm)
		mmput_async(mm);
	if (task)
		put_task_struct(task);
	put_pid(pid);
	return ret;
}
DEFINE_DEBUGFS_ATTRIBUTE_SIGNED(vmi300_evict_fops, NULL, vmi300_evict_set, "%lld\n");

void vmi300_evict_init(struct vmi300 *dev)
{
	debugfs_create_file_unsafe("evict", 0200, dev->debugfs, dev, &vmi300_evict_fops);
}

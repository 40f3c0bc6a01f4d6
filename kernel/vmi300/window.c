// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * /dev/vmi300: the engine processes' side of the executing engine, and the
 * window in which they see GPU memory. engine_ioctl.h has the rules.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "vmi300.h"

/* More ranges than an address space of a test has. */
#define VMI300_MOST_RANGES	1000000

static unsigned int vmi300_window_users;
static DEFINE_MUTEX(vmi300_window_lock);
/* The node that was opened first, with a reference: its mapping has all windows. */
static struct inode *vmi300_window_inode;

static int vmi300_window_open(struct inode *inode, struct file *file)
{
	struct inode *first;

	file->private_data = NULL;
	/* Without the lock: the caller holds one that misc_deregister takes. */
	ihold(inode);
	first = cmpxchg(&vmi300_window_inode, NULL, inode);
	if (!first)
		return 0;
	iput(inode);
	/* Pages of a second node would not be zapped. */
	return first == inode ? 0 : -EBUSY;
}

static int vmi300_window_release(struct inode *inode, struct file *file)
{
	struct vmi300_client *client = file->private_data;

	if (client) {
		vmi300_client_detach(client);
		vmi300_client_put(client);
	}
	return 0;
}

static vm_fault_t vmi300_window_fault(struct vm_fault *vmf)
{
	struct vmi300_client *client = vmf->vma->vm_private_data;
	struct vmi300_vm *vm;
	vm_fault_t ret;

	if (vmf->pgoff == VMI300_PAGE_OFFSET >> PAGE_SHIFT)
		return vmf_insert_pfn(vmf->vma, vmf->address,
				      page_to_pfn(vmi300_client_page(client)));
	vm = vmi300_client_vm(client);
	if (!vm)
		return VM_FAULT_SIGBUS;
	ret = vmi300_vm_window_fault(vm, vmf);
	vmi300_vm_put(vm);
	return ret;
}

static const struct vm_operations_struct vmi300_window_vm_ops = {
	.fault = vmi300_window_fault,
};

static int vmi300_window_mmap(struct file *file, struct vm_area_struct *vma)
{
	u64 end = (u64)vma->vm_pgoff + vma_pages(vma);

	/* The file holds the client, and the mapping the file. */
	if (!file->private_data || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (end > (VMI300_PAGE_OFFSET >> PAGE_SHIFT) + 1)
		return -EINVAL;
	vma->vm_private_data = file->private_data;
	vma->vm_ops = &vmi300_window_vm_ops;
	vm_flags_set(vma, VM_PFNMAP | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	return 0;
}

/* Pages left an address space. Windows of others lose them, too, and fault again. */
void vmi300_window_zap(unsigned long page, unsigned long pages)
{
	struct inode *inode = READ_ONCE(vmi300_window_inode);

	if (inode)
		unmap_mapping_pages(inode->i_mapping, page, pages, true);
}

static long vmi300_ioc_next(struct file *file, void __user *argument)
{
	struct vmi300_engine_next args = {};
	int ret;

	if (file->private_data)
		return -EINVAL;
	ret = vmi300_client_next(&args);
	if (ret)
		return ret;
	return copy_to_user(argument, &args, sizeof(args)) ? -EFAULT : 0;
}

static long vmi300_ioc_attach(struct file *file, void __user *argument)
{
	struct vmi300_engine_attach args;
	struct vmi300_client *client;
	int ret;

	if (copy_from_user(&args, argument, sizeof(args)))
		return -EFAULT;
	if (READ_ONCE(file->private_data))
		return -EBUSY;
	client = vmi300_client_get(args.id);
	if (!client)
		return -ESRCH;
	ret = vmi300_client_attach(client);
	if (!ret && cmpxchg(&file->private_data, NULL, client)) {
		vmi300_client_detach(client);
		ret = -EBUSY;
	}
	if (ret)
		vmi300_client_put(client);
	return ret;
}

static long vmi300_ioc_ranges(struct vmi300_client *client, void __user *argument)
{
	struct vmi300_engine_range *ranges;
	struct vmi300_engine_ranges args;
	struct vmi300_vm *vm;
	long ret = 0;

	if (copy_from_user(&args, argument, sizeof(args)))
		return -EFAULT;
	if (args.room > VMI300_MOST_RANGES)
		return -EINVAL;
	ranges = kvcalloc(args.room + 1, sizeof(*ranges), GFP_KERNEL);
	if (!ranges)
		return -ENOMEM;
	vm = vmi300_client_vm(client);
	args.count = vm ? vmi300_vm_ranges(vm, ranges, args.room) : 0;
	vmi300_vm_put(vm);
	if (args.count <= args.room &&
	    copy_to_user(u64_to_user_ptr(args.ranges), ranges, args.count * sizeof(*ranges)))
		ret = -EFAULT;
	if (copy_to_user(argument, &args, sizeof(args)))
		ret = -EFAULT;
	kvfree(ranges);
	return ret;
}

static long vmi300_ioc_order(struct vmi300_client *client, void __user *argument)
{
	struct vmi300_engine_order args;
	int ret;

	if (copy_from_user(&args, argument, sizeof(args)))
		return -EFAULT;
	ret = vmi300_client_order(client, &args);
	if (ret)
		return ret;
	return copy_to_user(argument, &args, sizeof(args)) ? -EFAULT : 0;
}

static long vmi300_ioc_answer(struct vmi300_client *client, void __user *argument)
{
	struct vmi300_engine_answer args;

	if (copy_from_user(&args, argument, sizeof(args)))
		return -EFAULT;
	return vmi300_client_answer(client, &args);
}

static long vmi300_ioc_interrupt(struct vmi300_client *client, void __user *argument)
{
	struct vmi300_engine_interrupt args;

	if (copy_from_user(&args, argument, sizeof(args)))
		return -EFAULT;
	return vmi300_client_interrupt(client, &args);
}

static long vmi300_window_ioctl(struct file *file, unsigned int command, unsigned long address)
{
	struct vmi300_client *client = READ_ONCE(file->private_data);
	void __user *argument = (void __user *)address;

	switch (command) {
	case VMI300_IOC_NEXT:
		return vmi300_ioc_next(file, argument);
	case VMI300_IOC_ATTACH:
		return vmi300_ioc_attach(file, argument);
	}
	if (!client)
		return -ENOTCONN;
	switch (command) {
	case VMI300_IOC_RANGES:
		return vmi300_ioc_ranges(client, argument);
	case VMI300_IOC_ORDER:
		return vmi300_ioc_order(client, argument);
	case VMI300_IOC_ANSWER:
		return vmi300_ioc_answer(client, argument);
	case VMI300_IOC_INTERRUPT:
		return vmi300_ioc_interrupt(client, argument);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations vmi300_window_fops = {
	.owner = THIS_MODULE,
	.open = vmi300_window_open,
	.release = vmi300_window_release,
	.mmap = vmi300_window_mmap,
	.unlocked_ioctl = vmi300_window_ioctl,
};

static struct miscdevice vmi300_window_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "vmi300",
	.mode = 0600,
	.fops = &vmi300_window_fops,
};

int vmi300_window_init(void)
{
	int ret = 0;

	mutex_lock(&vmi300_window_lock);
	if (!vmi300_window_users)
		ret = misc_register(&vmi300_window_device);
	if (!ret)
		vmi300_window_users++;
	mutex_unlock(&vmi300_window_lock);
	return ret;
}

void vmi300_window_fini(void)
{
	mutex_lock(&vmi300_window_lock);
	if (!--vmi300_window_users) {
		misc_deregister(&vmi300_window_device);
		if (vmi300_window_inode)
			unmap_mapping_range(vmi300_window_inode->i_mapping, 0, 0, 1);
		iput(vmi300_window_inode);
		vmi300_window_inode = NULL;
	}
	mutex_unlock(&vmi300_window_lock);
}

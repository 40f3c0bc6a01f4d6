// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Reset of the whole device, in the order of amdgpu_device_gpu_recover: new
 * calls are kept out, amdkfd puts its processes away, the hardware forgets
 * everything, amdkfd starts again.
 */
#include "vmi300.h"

static void vmi300_reset_work(struct work_struct *work)
{
	struct amdgpu_device *adev = container_of(work, struct amdgpu_device, kfd.reset_work);
	struct vmi300 *dev = to_vmi300(adev);
	struct amdgpu_reset_context context = { .reset_req_dev = adev };
	unsigned int i;

	atomic_set(&adev->reset_domain->in_gpu_reset, 1);
	down_write(&adev->reset_domain->sem);
	kgd2kfd_pre_reset(adev->kfd.dev, &context);
	for (i = 0; i < dev->nodes; i++)
		vmi300_mec_reset(&dev->mecs[i]);
	if (kgd2kfd_post_reset(adev->kfd.dev))
		dev_err(adev->dev, "amdkfd does not start again after a reset\n");
	up_write(&adev->reset_domain->sem);
	atomic_set(&adev->reset_domain->in_gpu_reset, 0);
	atomic_inc(&dev->resets);
	dev_info(adev->dev, "the device was reset\n");
}

int vmi300_reset_init(struct vmi300 *dev)
{
	struct amdgpu_device *adev = &dev->adev;

	adev->reset_domain = kzalloc(sizeof(*adev->reset_domain), GFP_KERNEL);
	if (!adev->reset_domain)
		return -ENOMEM;
	init_rwsem(&adev->reset_domain->sem);
	adev->reset_domain->wq = system_unbound_wq;
	INIT_WORK(&adev->kfd.reset_work, vmi300_reset_work);
	return 0;
}

void vmi300_reset_fini(struct vmi300 *dev)
{
	cancel_work_sync(&dev->adev.kfd.reset_work);
	kfree(dev->adev.reset_domain);
	dev->adev.reset_domain = NULL;
}

void amdgpu_amdkfd_gpu_reset(struct amdgpu_device *adev)
{
	dev_warn(adev->dev, "the driver asks for a reset\n");
	queue_work(adev->reset_domain->wq, &adev->kfd.reset_work);
}

int amdgpu_in_reset(struct amdgpu_device *adev)
{
	return atomic_read(&adev->reset_domain->in_gpu_reset);
}

void amdgpu_reset_get_desc(struct amdgpu_reset_context *rst_ctxt, char *buf, size_t len)
{
	strscpy(buf, "unknown", len);
}

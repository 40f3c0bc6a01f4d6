// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The render nodes: opening one makes an address space, mmap maps buffers. */
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>

#include "vmi300.h"

struct amdgpu_device *vmi300_adev(struct drm_device *ddev)
{
	/* A render node of a partition has a drm device of its own. */
	if (ddev->dev_private)
		return ddev->dev_private;
	return drm_to_adev(ddev);
}

static int vmi300_open(struct drm_device *ddev, struct drm_file *filp)
{
	struct amdgpu_device *adev = vmi300_adev(ddev);
	struct vmi300_file *file = kzalloc(sizeof(*file), GFP_KERNEL);
	unsigned int node = vmi300_xcp_of(to_vmi300(adev), ddev);
	struct vmi300_bo *root;

	if (!file)
		return -ENOMEM;
	/* amdkfd reserves the root of an address space to look at it. */
	root = vmi300_bo_create(adev, PAGE_SIZE);
	file->vm = vmi300_vm_create(to_vmi300(adev), &file->fpriv.vm, node);
	if (!root || !file->vm)
		goto err;
	file->fpriv.vm.root.bo = &root->bo;
	file->fpriv.xcp_id = adev->xcp_mgr ? node : AMDGPU_XCP_NO_PARTITION;
	filp->driver_priv = &file->fpriv;
	return 0;

err:
	if (root)
		drm_gem_object_put(&root->bo.tbo.base);
	if (file->vm)
		vmi300_vm_close(file->vm);
	kfree(file);
	return -ENOMEM;
}

static void vmi300_postclose(struct drm_device *ddev, struct drm_file *filp)
{
	struct amdgpu_fpriv *fpriv = filp->driver_priv;
	struct vmi300_file *file = container_of(fpriv, struct vmi300_file, fpriv);

	amdgpu_amdkfd_gpuvm_destroy_cb(vmi300_adev(ddev), &fpriv->vm);
	vmi300_vm_close(file->vm);
	amdgpu_bo_unref(&fpriv->vm.root.bo);
	kfree(file);
}

static const struct file_operations vmi300_fops = {
	.owner = THIS_MODULE,
	.open = drm_open,
	.release = drm_release,
	.unlocked_ioctl = drm_ioctl,
	.compat_ioctl = drm_compat_ioctl,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.mmap = drm_gem_mmap,
	.fop_flags = FOP_UNSIGNED_OFFSET,
};

const struct drm_driver vmi300_drm_driver = {
	.driver_features = DRIVER_GEM | DRIVER_RENDER,
	.open = vmi300_open,
	.postclose = vmi300_postclose,
	.fops = &vmi300_fops,
	.ioctls = vmi300_ioctls,
	.num_ioctls = VMI300_IOCTLS,
	.name = "amdgpu",
	.desc = "virtual MI300 below amdkfd",
	.date = "20261118",
	.major = 3,
	.minor = 59,
};

int amdgpu_file_to_fpriv(struct file *filp, struct amdgpu_fpriv **fpriv)
{
	struct drm_file *file = filp->private_data;

	if (filp->f_op != &vmi300_fops)
		return -EINVAL;
	*fpriv = file->driver_priv;
	return 0;
}

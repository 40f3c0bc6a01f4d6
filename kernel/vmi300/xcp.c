// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Partitions. SPX: one partition with all XCCs. CPX: one for each XCC, with a
 * render node of its own, as on hardware.
 */
#include <linux/platform_device.h>

#include <drm/drm_drv.h>
#include <drm/drm_managed.h>

#include "vmi300.h"

int vmi300_xcp_init(struct vmi300 *dev)
{
	struct amdgpu_xcp_mgr *mgr;
	unsigned int i;

	if (dev->nodes == 1)
		return 0;
	mgr = kzalloc(sizeof(*mgr), GFP_KERNEL);
	if (!mgr)
		return -ENOMEM;
	mgr->adev = &dev->adev;
	mutex_init(&mgr->xcp_lock);
	mgr->num_xcps = dev->nodes;
	mgr->mode = AMDGPU_CPX_PARTITION_MODE;
	mgr->num_xcp_per_mem_partition = dev->nodes;
	for (i = 0; i < dev->nodes; i++) {
		mgr->xcp[i].id = i;
		mgr->xcp[i].valid = true;
		mgr->xcp[i].ip[AMDGPU_XCP_GFX].inst_mask = BIT(i);
		mgr->xcp[i].ip[AMDGPU_XCP_GFX].valid = true;
	}
	dev->adev.xcp_mgr = mgr;
	return 0;
}

/* Gives each partition but the first a drm device; the first has the gpu's. */
int vmi300_xcp_register(struct vmi300 *dev)
{
	struct amdgpu_xcp_mgr *mgr = dev->adev.xcp_mgr;
	unsigned int i;
	int ret;

	if (!mgr)
		return 0;
	mgr->xcp[0].ddev = &dev->adev.ddev;
	for (i = 1; i < dev->nodes; i++) {
		struct platform_device *pdev;
		struct drm_device *ddev;

		pdev = platform_device_register_simple("amdgpu_xcp", PLATFORM_DEVID_AUTO, NULL, 0);
		if (IS_ERR(pdev))
			return PTR_ERR(pdev);
		ddev = drm_dev_alloc(&vmi300_drm_driver, &pdev->dev);
		if (IS_ERR(ddev)) {
			platform_device_unregister(pdev);
			return PTR_ERR(ddev);
		}
		ddev->dev_private = &dev->adev;
		/* Buffers are made on the gpu's device: their offsets must be found here, too. */
		mgr->xcp[i].vma_offset_manager = ddev->vma_offset_manager;
		ddev->vma_offset_manager = dev->adev.ddev.vma_offset_manager;
		mgr->xcp[i].ddev = ddev;
		ret = drm_dev_register(ddev, 0);
		if (ret)
			return ret;
	}
	return 0;
}

void vmi300_xcp_fini(struct vmi300 *dev)
{
	struct amdgpu_xcp_mgr *mgr = dev->adev.xcp_mgr;
	unsigned int i;

	if (!mgr)
		return;
	for (i = 1; i < dev->nodes; i++) {
		struct drm_device *ddev = mgr->xcp[i].ddev;
		struct platform_device *pdev;

		if (!ddev)
			continue;
		pdev = to_platform_device(ddev->dev);
		drm_dev_unplug(ddev);
		ddev->vma_offset_manager = mgr->xcp[i].vma_offset_manager;
		drm_dev_put(ddev);
		platform_device_unregister(pdev);
	}
	dev->adev.xcp_mgr = NULL;
	kfree(mgr);
}

/* Returns the partition of a render node. */
unsigned int vmi300_xcp_of(struct vmi300 *dev, const struct drm_device *ddev)
{
	struct amdgpu_xcp_mgr *mgr = dev->adev.xcp_mgr;
	unsigned int i;

	for (i = 0; mgr && i < dev->nodes; i++) {
		if (mgr->xcp[i].ddev == ddev)
			return i;
	}
	return 0;
}

int amdgpu_xcp_get_inst_details(struct amdgpu_xcp *xcp, enum AMDGPU_XCP_IP_BLOCK ip,
				u32 *inst_mask)
{
	if (!xcp->valid || !inst_mask || !xcp->ip[ip].valid)
		return -EINVAL;
	*inst_mask = xcp->ip[ip].inst_mask;
	return 0;
}

int amdgpu_xcp_query_partition_mode(struct amdgpu_xcp_mgr *xcp_mgr, u32 flags)
{
	return xcp_mgr ? xcp_mgr->mode : AMDGPU_SPX_PARTITION_MODE;
}

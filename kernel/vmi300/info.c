// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * AMDGPU_INFO: what libdrm and the HSA runtime ask a render node before they
 * use the device. The rest of amdgpu's render interface is not here: compute
 * programs reach their memory and queues through amdkfd.
 */
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_ioctl.h>
#include <uapi/drm/amdgpu_drm.h>

#include "vmi300.h"

#define VMI300_CLOCK_KHZ	(VMI300_CLOCK_MHZ * 1000)
#define VMI300_COUNTER_KHZ	100000
/* mmGB_ADDR_CONFIG, as libdrm asks for it, and GOLDEN_GB_ADDR_CONFIG of gfx_v9_4_3.c. */
#define VMI300_GB_ADDR_CONFIG	0x263e
#define VMI300_GB_ADDR_VALUE	0x2a114042

static int vmi300_info_give(const struct drm_amdgpu_info *info, const void *answer, size_t size)
{
	size = min_t(size_t, size, info->return_size);
	return copy_to_user(u64_to_user_ptr(info->return_pointer), answer, size) ? -EFAULT : 0;
}

static void vmi300_info_device(struct vmi300 *dev, struct drm_amdgpu_info_device *out)
{
	const struct amdgpu_device *adev = &dev->adev;
	unsigned int i;

	out->device_id = adev->pdev->device;
	out->pci_rev = adev->pdev->revision;
	/* soc15_common_early_init: external revisions of GC 9.4.3 begin at 0x46. */
	out->chip_rev = 1;
	out->external_rev = 0x47;
	out->family = AMDGPU_FAMILY_AI;
	out->num_shader_engines = VMI300_ENGINES;
	out->num_shader_arrays_per_engine = 1;
	out->gpu_counter_freq = VMI300_COUNTER_KHZ;
	out->max_engine_clock = VMI300_CLOCK_KHZ;
	out->max_memory_clock = 1300000;
	out->cu_active_number = dev->xccs / dev->nodes * dev->cus;
	for (i = 0; i < VMI300_ENGINES; i++)
		out->cu_bitmap[i][0] = adev->gfx.cu_info.bitmap[0][i][0];
	out->virtual_address_offset = SZ_2M;
	out->virtual_address_max = 1ULL << 47;
	out->virtual_address_alignment = PAGE_SIZE;
	out->pte_fragment_size = SZ_2M;
	out->gart_page_size = PAGE_SIZE;
	out->vram_type = AMDGPU_VRAM_TYPE_HBM;
	out->vram_bit_width = 8192;
	out->wave_front_size = 64;
}

static int vmi300_info_memory(struct vmi300 *dev, const struct drm_amdgpu_info *info)
{
	u64 size = amdgpu_amdkfd_get_available_memory(&dev->adev, 0);
	struct drm_amdgpu_heap_info heap = {
		.total_heap_size = size,
		.usable_heap_size = size,
		.max_allocation = size / 4 * 3,
	};
	struct drm_amdgpu_memory_info memory = {
		.vram = heap,
		.cpu_accessible_vram = heap,
		.gtt = heap,
	};
	u64 sizes[3] = { size, size, size };

	if (info->query == AMDGPU_INFO_VRAM_GTT)
		return vmi300_info_give(info, sizes, sizeof(sizes));
	return vmi300_info_give(info, &memory, sizeof(memory));
}

static int vmi300_info(struct drm_device *ddev, void *data, struct drm_file *filp)
{
	struct vmi300 *dev = to_vmi300(vmi300_adev(ddev));
	struct drm_amdgpu_info_device device = {};
	struct drm_amdgpu_info *info = data;
	u32 word = 1, firmware[2] = {};
	u64 none = 0;

	if (!info->return_size || !info->return_pointer)
		return -EINVAL;
	switch (info->query) {
	case AMDGPU_INFO_ACCEL_WORKING:
		return vmi300_info_give(info, &word, sizeof(word));
	case AMDGPU_INFO_DEV_INFO:
		vmi300_info_device(dev, &device);
		return vmi300_info_give(info, &device, sizeof(device));
	case AMDGPU_INFO_VRAM_GTT:
	case AMDGPU_INFO_MEMORY:
		return vmi300_info_memory(dev, info);
	case AMDGPU_INFO_VRAM_USAGE:
	case AMDGPU_INFO_VIS_VRAM_USAGE:
	case AMDGPU_INFO_GTT_USAGE:
		return vmi300_info_give(info, &none, sizeof(none));
	case AMDGPU_INFO_FW_VERSION:
		return vmi300_info_give(info, firmware, sizeof(firmware));
	case AMDGPU_INFO_READ_MMR_REG:
		if (info->read_mmr_reg.count != 1 ||
		    info->read_mmr_reg.dword_offset != VMI300_GB_ADDR_CONFIG)
			return -EFAULT;
		word = VMI300_GB_ADDR_VALUE;
		return vmi300_info_give(info, &word, sizeof(word));
	default:
		return -EINVAL;
	}
}

const struct drm_ioctl_desc vmi300_ioctls[VMI300_IOCTLS] = {
	DRM_IOCTL_DEF_DRV(AMDGPU_INFO, vmi300_info, DRM_RENDER_ALLOW),
};

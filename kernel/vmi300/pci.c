// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The device: bound to QEMU's `edu`, which is only a place on the PCI bus, and
 * described to amdkfd as an MI300X.
 */
#include <linux/module.h>
#include <linux/pci.h>

#include <drm/drm_drv.h>

#include "vmi300.h"
#include "kfd_priv.h"

#define VMI300_VENDOR		0x1002
#define VMI300_DEVICE		0x74a1
#define VMI300_FIRST_VMID	3
/* QEMU, Educational device. */
#define VMI300_EDU_VENDOR	0x1234
#define VMI300_EDU_DEVICE	0x11e8

static unsigned int xccs = 1;
module_param(xccs, uint, 0444);
MODULE_PARM_DESC(xccs, "accelerator complexes of a device: 1, 2, 4 or 8");

static unsigned int partitions = 1;
module_param(partitions, uint, 0444);
MODULE_PARM_DESC(partitions, "1 (SPX), or as many as XCCs (CPX)");

static unsigned int cus = 38;
module_param(cus, uint, 0444);
MODULE_PARM_DESC(cus, "compute units of an XCC, at most 40");

static char *engine = "timed";
module_param(engine, charp, 0444);
MODULE_PARM_DESC(engine, "compute units: timed (packets last a stated time) or executing (vmi300-engine runs code)");

/* The first device starts amdkfd, the last one ends it. */
static DEFINE_MUTEX(vmi300_users_lock);
static unsigned int vmi300_users;
static DEFINE_IDA(vmi300_numbers);
/* The executing engine knows no more: MAX_GPUS of the virtual gpu. */
#define VMI300_EXECUTING_GPUS	8

static int vmi300_kfd_get(void)
{
	int ret = 0;

	mutex_lock(&vmi300_users_lock);
	if (!vmi300_users)
		ret = kgd2kfd_init();
	if (!ret)
		vmi300_users++;
	mutex_unlock(&vmi300_users_lock);
	return ret;
}

static void vmi300_kfd_put(void)
{
	mutex_lock(&vmi300_users_lock);
	if (!--vmi300_users)
		kgd2kfd_exit();
	mutex_unlock(&vmi300_users_lock);
}

static enum amdgpu_pkg_type vmi300_pkg_type(struct amdgpu_device *adev)
{
	return AMDGPU_PKG_TYPE_OAM;
}

static const struct amdgpu_smuio_funcs vmi300_smuio_funcs = {
	.get_pkg_type = vmi300_pkg_type,
};

static enum amdgpu_memory_partition vmi300_mem_partition(struct amdgpu_device *adev)
{
	return AMDGPU_NPS1_PARTITION_MODE;
}

static const struct amdgpu_gmc_funcs vmi300_gmc_funcs = {
	.query_mem_partition_mode = vmi300_mem_partition,
};

static const struct vmi300_engine *vmi300_chosen_engine(void)
{
	if (!strcmp(engine, "timed"))
		return &vmi300_timed;
	if (!strcmp(engine, "executing"))
		return &vmi300_executing;
	return NULL;
}

static bool vmi300_check_parameters(struct device *dev)
{
	if (!vmi300_chosen_engine()) {
		dev_err(dev, "engine=%s: must be timed or executing\n", engine);
		return false;
	}
	if (!is_power_of_2(xccs) || xccs > VMI300_MAX_XCC) {
		dev_err(dev, "xccs=%u: must be 1, 2, 4 or 8\n", xccs);
		return false;
	}
	if (partitions != 1 && partitions != xccs) {
		dev_err(dev, "partitions=%u: must be 1, or %u as xccs\n", partitions, xccs);
		return false;
	}
	if (!cus || cus > VMI300_ENGINES * 10) {
		dev_err(dev, "cus=%u: must be 1 to %u\n", cus, VMI300_ENGINES * 10);
		return false;
	}
	return true;
}

/* Spreads the compute units of each XCC over its shader engines. */
static void vmi300_describe_cus(struct vmi300 *dev)
{
	struct amdgpu_device *adev = &dev->adev;
	unsigned int xcc, se, left;

	for (xcc = 0; xcc < dev->xccs; xcc++) {
		left = dev->cus;
		for (se = 0; se < VMI300_ENGINES; se++) {
			unsigned int here = DIV_ROUND_UP(left, VMI300_ENGINES - se);

			adev->gfx.cu_info.bitmap[xcc][se][0] = BIT(here) - 1;
			left -= here;
		}
	}
	adev->gfx.cu_info.number = dev->cus * dev->xccs;
	adev->gfx.cu_info.simd_per_cu = 4;
	adev->gfx.cu_info.max_waves_per_simd = VMI300_WAVES_PER_CU / 4;
	adev->gfx.cu_info.wave_front_size = 64;
	adev->gfx.cu_info.max_scratch_slots_per_cu = 32;
	adev->gfx.cu_info.lds_size = 64;
}

/* Fields of struct amdgpu_device that amdkfd reads, as discovery fills them. */
static void vmi300_describe(struct vmi300 *dev, struct pci_dev *pdev)
{
	struct amdgpu_device *adev = &dev->adev;
	unsigned int i;

	adev->dev = &pdev->dev;
	adev->pdev = pdev;
	adev->asic_type = CHIP_IP_DISCOVERY;
	adev->rev_id = 1;
	adev->ip_versions[GC_HWIP][0] = IP_VERSION(9, 4, 3);
	adev->ip_versions[SDMA0_HWIP][0] = IP_VERSION(4, 4, 2);
	adev->smuio.funcs = &vmi300_smuio_funcs;
	adev->gmc.gmc_funcs = &vmi300_gmc_funcs;
	adev->gmc.real_vram_size = 192ULL << 30;
	adev->gmc.noretry = 1;
	adev->gds.gws_size = 64;
	adev->vm_manager.first_kfd_vmid = VMI300_FIRST_VMID;
	adev->vm_manager.max_pfn = 1ULL << 36;
	spin_lock_init(&adev->mman.bdev.lru_lock);

	adev->gfx.xcc_mask = BIT(dev->xccs) - 1;
	adev->gfx.num_xcc_per_xcp = dev->xccs / dev->nodes;
	adev->aid_mask = BIT(DIV_ROUND_UP(dev->xccs, 2)) - 1;
	adev->sdma.num_instances = 2 * dev->xccs;
	adev->sdma.sdma_mask = BIT(2 * dev->xccs) - 1;
	adev->gfx.config.max_shader_engines = VMI300_ENGINES;
	adev->gfx.config.max_sh_per_se = 1;
	adev->gfx.config.max_cu_per_sh = 10;
	/* Caches in KiB, as the topology of an MI300X shows them. */
	adev->gfx.config.gc_tcp_size_per_cu = 32;
	adev->gfx.config.gc_l1_instruction_cache_size_per_sqc = 64;
	adev->gfx.config.gc_l1_data_cache_size_per_sqc = 16;
	adev->gfx.config.gc_num_cu_per_sqc = 2;
	adev->gfx.config.gc_tcc_size = 4096;
	/* Registers and LDS have ECC: runtimes choose code for it (sramecc+). */
	adev->ras_enabled = BIT(AMDGPU_RAS_BLOCK__GFX) | BIT(AMDGPU_RAS_BLOCK__UMC);
	vmi300_describe_cus(dev);

	adev->gfx.mec.num_pipe_per_mec = 4;
	adev->gfx.mec.num_queue_per_pipe = 8;
	/* Queues 0 and 1 of each pipe are amdgpu's own. */
	for (i = 0; i < VMI300_SLOTS; i++) {
		if (i % 8 < 2)
			set_bit(i, adev->gfx.mec_bitmap[0].queue_bitmap);
	}
	for (i = 0; i < VMI300_MAX_XCC; i++) {
		struct amdgpu_ring *ring = &adev->gfx.kiq[i].ring;

		ring->adev = adev;
		ring->ring = dev->kiq[i];
		ring->buf_mask = ARRAY_SIZE(dev->kiq[i]) - 1;
		ring->ptr_mask = ARRAY_SIZE(dev->kiq[i]) - 1;
		spin_lock_init(&adev->gfx.kiq[i].ring_lock);
	}
	for (i = 0; i < ARRAY_SIZE(adev->doorbell_index.sdma_engine); i++)
		adev->doorbell_index.sdma_engine[i] = 0x100 + i * 10;
}

static int vmi300_kfd_start(struct vmi300 *dev)
{
	struct amdgpu_device *adev = &dev->adev;
	struct kgd2kfd_shared_resources *res;
	unsigned int i;
	bool ok;

	adev->kfd.dev = kgd2kfd_probe(adev, false);
	if (!adev->kfd.dev)
		return -ENODEV;
	res = kzalloc(sizeof(*res), GFP_KERNEL);
	if (!res)
		return -ENOMEM;
	res->compute_vmid_bitmap = GENMASK(15, VMI300_FIRST_VMID);
	res->num_pipe_per_mec = adev->gfx.mec.num_pipe_per_mec;
	res->num_queue_per_pipe = adev->gfx.mec.num_queue_per_pipe;
	res->gpuvm_size = 1ULL << 47;
	res->drm_render_minor = adev->ddev.render->index;
	res->sdma_doorbell_idx = adev->doorbell_index.sdma_engine;
	res->non_cp_doorbells_start = 0x100;
	res->non_cp_doorbells_end = 0x1ff;
	for (i = 0; i < VMI300_SLOTS; i++) {
		if (!test_bit(i, adev->gfx.mec_bitmap[0].queue_bitmap))
			set_bit(i, res->cp_queue_bitmap);
	}
	ok = kgd2kfd_device_init(adev->kfd.dev, res);
	kfree(res);
	adev->kfd.init_complete = ok;
	return ok ? 0 : -EIO;
}

static int vmi300_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct vmi300 *dev;
	int ret;

	if (!vmi300_check_parameters(&pdev->dev))
		return -EINVAL;
	dev = devm_drm_dev_alloc(&pdev->dev, &vmi300_drm_driver, struct vmi300, adev.ddev);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	ret = ida_alloc(&vmi300_numbers, GFP_KERNEL);
	if (ret < 0)
		return ret;
	dev->number = ret;
	dev->engine = vmi300_chosen_engine();
	if (dev->engine == &vmi300_executing &&
	    (dev->number + 1) * partitions > VMI300_EXECUTING_GPUS) {
		dev_err(&pdev->dev, "engine=executing serves %u gpus at most\n",
			VMI300_EXECUTING_GPUS);
		ret = -EINVAL;
		goto err_number;
	}
	dev->xccs = xccs;
	dev->nodes = partitions;
	dev->cus = cus;
	mutex_init(&dev->vms_lock);
	INIT_LIST_HEAD(&dev->vms);
	spin_lock_init(&dev->gart_lock);
	INIT_LIST_HEAD(&dev->gart);
	pci_set_drvdata(pdev, dev);
	/* Programs look for the vendor and the product here. */
	pdev->vendor = VMI300_VENDOR;
	pdev->device = VMI300_DEVICE;
	pdev->subsystem_vendor = VMI300_VENDOR;
	pdev->subsystem_device = VMI300_DEVICE;

	vmi300_describe(dev, pdev);
	vmi300_regs_init(dev);
	ret = dev->engine->init ? dev->engine->init(dev) : 0;
	if (ret)
		goto err_regs;
	ret = vmi300_doorbell_init(dev);
	if (ret)
		goto err_engine;
	ret = vmi300_reset_init(dev);
	if (ret)
		goto err_doorbell;
	ret = vmi300_mec_init(dev);
	if (ret)
		goto err_reset;
	ret = vmi300_xcp_init(dev);
	if (ret)
		goto err_mec;
	ret = drm_dev_register(&dev->adev.ddev, 0);
	if (ret)
		goto err_xcp;
	ret = vmi300_xcp_register(dev);
	if (ret)
		goto err_drm;
	ret = vmi300_kfd_get();
	if (ret)
		goto err_drm;
	ret = vmi300_kfd_start(dev);
	if (ret)
		goto err_kfd;
	vmi300_counters_init(dev);
	vmi300_evict_init(dev);
	return 0;

err_kfd:
	vmi300_kfd_put();
err_drm:
	drm_dev_unplug(&dev->adev.ddev);
err_xcp:
	vmi300_xcp_fini(dev);
err_mec:
	vmi300_mec_fini(dev);
err_reset:
	vmi300_reset_fini(dev);
err_doorbell:
	vmi300_doorbell_fini(dev);
err_engine:
	if (dev->engine->fini)
		dev->engine->fini(dev);
err_regs:
	vmi300_regs_fini(dev);
err_number:
	ida_free(&vmi300_numbers, dev->number);
	return ret;
}

static void vmi300_remove(struct pci_dev *pdev)
{
	struct vmi300 *dev = pci_get_drvdata(pdev);

	vmi300_counters_fini(dev);
	cancel_work_sync(&dev->adev.kfd.reset_work);
	vmi300_mec_abandon(dev);
	kgd2kfd_suspend(dev->adev.kfd.dev, false);
	kgd2kfd_device_exit(dev->adev.kfd.dev);
	vmi300_kfd_put();
	drm_dev_unplug(&dev->adev.ddev);
	vmi300_xcp_fini(dev);
	/* What could not be unmapped has asked for a reset. */
	cancel_work_sync(&dev->adev.kfd.reset_work);
	vmi300_mec_fini(dev);
	vmi300_reset_fini(dev);
	vmi300_doorbell_fini(dev);
	vmi300_gart_fini(dev);
	if (dev->engine->fini)
		dev->engine->fini(dev);
	vmi300_regs_fini(dev);
	ida_free(&vmi300_numbers, dev->number);
	/* The bus is QEMU's again. */
	pdev->vendor = VMI300_EDU_VENDOR;
	pdev->device = VMI300_EDU_DEVICE;
}

static const struct pci_device_id vmi300_ids[] = {
	{ PCI_DEVICE(VMI300_EDU_VENDOR, VMI300_EDU_DEVICE) },
	{}
};
MODULE_DEVICE_TABLE(pci, vmi300_ids);

static struct pci_driver vmi300_driver = {
	.name = "amdgpu",
	.id_table = vmi300_ids,
	.probe = vmi300_probe,
	.remove = vmi300_remove,
};
module_pci_driver(vmi300_driver);

MODULE_IMPORT_NS(DMA_BUF);
MODULE_DESCRIPTION("AMD's amdkfd on a virtual MI300");
MODULE_LICENSE("Dual MIT/GPL");

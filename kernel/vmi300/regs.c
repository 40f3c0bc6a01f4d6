// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Registers, as far as AMD's kfd2kgd code for MI300 touches them.
 *
 * Most are memory. The registers of a hardware queue (HQD) are those of the
 * MQD of the queue that the firmware put there, in the same order; counts of
 * waves come from the engine.
 */
#include "vmi300.h"
#include "soc15_common.h"
#include "gc/gc_9_0_offset.h"
#include "gc/gc_9_0_sh_mask.h"

/* Distance between the registers of two XCCs; hardware has its own. */
#define VMI300_XCC_STRIDE	0x100000
#define VMI300_HQD_FIRST	mmCP_MQD_BASE_ADDR
#define VMI300_HQD_LAST		mmCP_HQD_PQ_WPTR_HI

/* Bases of a block by segment; only segments that amdkfd uses matter. */
static u32 vmi300_segments[VMI300_MAX_XCC][3];

static u32 vmi300_selection(u32 me, u32 pipe, u32 queue, u32 vmid)
{
	return me << 24 | pipe << 16 | queue << 8 | vmid;
}

void soc15_grbm_select(struct amdgpu_device *adev, u32 me, u32 pipe, u32 queue, u32 vmid,
		       int xcc_id)
{
	if (xcc_id >= 0 && xcc_id < VMI300_MAX_XCC)
		to_vmi300(adev)->select[xcc_id] = vmi300_selection(me, pipe, queue, vmid);
}

static void vmi300_select_se_sh(struct amdgpu_device *adev, u32 se_num, u32 sh_num, u32 instance,
				int xcc_id)
{
	if (xcc_id >= 0 && xcc_id < VMI300_MAX_XCC)
		to_vmi300(adev)->engine_select[xcc_id] = se_num;
}

static const struct amdgpu_gfx_funcs vmi300_gfx_funcs = {
	.select_se_sh = vmi300_select_se_sh,
};

/* Splits waves over XCCs and shader engines so that the parts add up. */
static u32 vmi300_share(u32 waves, unsigned int parts, unsigned int part)
{
	return waves / parts + (part < waves % parts);
}

static u32 vmi300_waves_in_slot(struct vmi300_mec *mec, unsigned int xcc, u32 engine,
				unsigned int slot)
{
	unsigned long flags;
	u32 waves = 0;

	spin_lock_irqsave(&mec->slots_lock, flags);
	if (mec->slots[slot])
		waves = mec->dev->engine->waves(mec->slots[slot]);
	spin_unlock_irqrestore(&mec->slots_lock, flags);
	waves = vmi300_share(waves, mec->xccs, xcc - mec->first_xcc);
	return engine < VMI300_ENGINES ? vmi300_share(waves, VMI300_ENGINES, engine) : waves;
}

static u32 vmi300_active_slots(struct vmi300_mec *mec)
{
	unsigned long flags;
	u32 mask = 0;
	int i;

	spin_lock_irqsave(&mec->slots_lock, flags);
	for (i = 0; i < VMI300_SLOTS; i++) {
		if (mec->slots[i])
			mask |= BIT(i);
	}
	spin_unlock_irqrestore(&mec->slots_lock, flags);
	return mask;
}

static u32 vmi300_hiq_register(struct vmi300_mec *mec, u32 reg, unsigned int xcc)
{
	struct v9_mqd *mqd = mec->hiq.mqd[xcc - mec->first_xcc];

	if (!mec->hiq.on || !mqd)
		return 0;
	switch (reg) {
	case mmCP_HQD_ACTIVE:
		return 1;
	case mmCP_HQD_PQ_RPTR:
		return mec->hiq.rptr % mec->hiq.dwords;
	case mmCP_HQD_PQ_WPTR_LO:
		return lower_32_bits(READ_ONCE(*mec->hiq.doorbell));
	case mmCP_HQD_PQ_WPTR_HI:
		return upper_32_bits(READ_ONCE(*mec->hiq.doorbell));
	default:
		return (&mqd->cp_mqd_base_addr_lo)[reg - VMI300_HQD_FIRST];
	}
}

static u32 vmi300_hqd_register(struct vmi300 *dev, u32 reg, unsigned int xcc)
{
	struct vmi300_mec *mec = vmi300_mec_of_xcc(dev, xcc);
	u32 select = dev->select[xcc];
	unsigned int me = select >> 24, pipe = select >> 16 & 0xff, queue = select >> 8 & 0xff;
	unsigned int slot = pipe * 8 + queue, part = xcc - mec->first_xcc;
	struct vmi300_queue *q;
	unsigned long flags;
	u32 value = 0;

	/* The HIQ is on the second micro engine, where kfd_priv.h puts it. */
	if (me == 2)
		return vmi300_hiq_register(mec, reg, xcc);
	if (me != 1 || slot >= VMI300_SLOTS)
		return 0;
	spin_lock_irqsave(&mec->slots_lock, flags);
	q = mec->slots[slot];
	if (q && reg == mmCP_HQD_ACTIVE)
		value = 1;
	else if (q && q->mqd[part])
		value = (&q->mqd[part]->cp_mqd_base_addr_lo)[reg - VMI300_HQD_FIRST];
	spin_unlock_irqrestore(&mec->slots_lock, flags);
	return value;
}

u32 amdgpu_device_rreg(struct amdgpu_device *adev, u32 reg, u32 acc_flags)
{
	struct vmi300 *dev = to_vmi300(adev);
	unsigned int xcc = reg / VMI300_XCC_STRIDE;
	u32 base = vmi300_segments[0][0];
	u32 local = reg % VMI300_XCC_STRIDE - base;

	if (xcc < dev->xccs) {
		if (local >= VMI300_HQD_FIRST && local <= VMI300_HQD_LAST)
			return vmi300_hqd_register(dev, local, xcc);
		if (local == mmSPI_CSQ_WF_ACTIVE_STATUS)
			return vmi300_active_slots(vmi300_mec_of_xcc(dev, xcc));
		if (local >= mmSPI_CSQ_WF_ACTIVE_COUNT_0 && local <= mmSPI_CSQ_WF_ACTIVE_COUNT_7)
			return vmi300_waves_in_slot(vmi300_mec_of_xcc(dev, xcc), xcc,
						    dev->engine_select[xcc],
						    (dev->select[xcc] >> 16 & 0xff) * 8 +
						    local - mmSPI_CSQ_WF_ACTIVE_COUNT_0);
		if (local == mmCP_IQ_WAIT_TIME2)
			return READ_ONCE(vmi300_mec_of_xcc(dev, xcc)->wait_times);
	}
	return xa_to_value(xa_load(&dev->registers, reg) ?: xa_mk_value(0));
}

/* A queue whose preemption failed is taken off by force. */
static void vmi300_queue_reset(struct vmi300 *dev, unsigned int xcc)
{
	struct vmi300_mec *mec = vmi300_mec_of_xcc(dev, xcc);
	u32 select = dev->select[xcc];
	unsigned int slot = (select >> 16 & 0xff) * 8 + (select >> 8 & 0xff);

	if (slot >= VMI300_SLOTS)
		return;
	mutex_lock(&mec->lock);
	if (mec->slots[slot])
		vmi300_queue_off(mec->slots[slot]);
	mutex_unlock(&mec->lock);
}

void amdgpu_device_wreg(struct amdgpu_device *adev, u32 reg, u32 v, u32 acc_flags)
{
	struct vmi300 *dev = to_vmi300(adev);
	unsigned int xcc = reg / VMI300_XCC_STRIDE;
	u32 local = reg % VMI300_XCC_STRIDE - vmi300_segments[0][0];

	if (xcc < dev->xccs && local == mmSPI_COMPUTE_QUEUE_RESET && v & 1)
		vmi300_queue_reset(dev, xcc);
	xa_store(&dev->registers, reg, xa_mk_value(v), GFP_ATOMIC);
}

void amdgpu_device_xcc_wreg(struct amdgpu_device *adev, u32 reg, u32 v,
			    u32 acc_flags, u32 xcc_id)
{
	amdgpu_device_wreg(adev, reg, v, acc_flags);
}

u32 amdgpu_sriov_rreg(struct amdgpu_device *adev, u32 offset, u32 acc_flags, u32 hwip, u32 xcc_id)
{
	return amdgpu_device_rreg(adev, offset, acc_flags);
}

void amdgpu_sriov_wreg(struct amdgpu_device *adev, u32 offset, u32 value, u32 acc_flags, u32 hwip,
		       u32 xcc_id)
{
	amdgpu_device_wreg(adev, offset, value, acc_flags);
}

void vmi300_regs_init(struct vmi300 *dev)
{
	/* Segments of GC on gfx9, from the driver's own tables for Vega (vega20_ip_offset.h). */
	static const u32 bases[] = { 0x2000, 0xa000, 0x2402c00 % VMI300_XCC_STRIDE };
	struct amdgpu_device *adev = &dev->adev;
	int ip, i;

	xa_init_flags(&dev->registers, XA_FLAGS_LOCK_IRQ);
	for (i = 0; i < VMI300_MAX_XCC; i++) {
		u32 *segments = vmi300_segments[i];

		segments[0] = bases[0] + i * VMI300_XCC_STRIDE;
		segments[1] = bases[1] + i * VMI300_XCC_STRIDE;
		segments[2] = bases[2] + i * VMI300_XCC_STRIDE;
	}
	/* Instances of other blocks share the registers of an XCC: they are only memory. */
	for (ip = 0; ip < MAX_HWIP; ip++) {
		for (i = 0; i < HWIP_MAX_INSTANCE; i++)
			adev->reg_offset[ip][i] = vmi300_segments[i % VMI300_MAX_XCC];
	}
	adev->gfx.funcs = &vmi300_gfx_funcs;
	mutex_init(&adev->srbm_mutex);
	mutex_init(&adev->grbm_idx_mutex);
}

void vmi300_regs_fini(struct vmi300 *dev)
{
	xa_destroy(&dev->registers);
	mutex_destroy(&dev->adev.grbm_idx_mutex);
	mutex_destroy(&dev->adev.srbm_mutex);
}

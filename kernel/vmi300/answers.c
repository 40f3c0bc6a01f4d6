// SPDX-License-Identifier: GPL-2.0 OR MIT
/* What amdkfd asks of amdgpu and the answer is a constant, or nearly. */
#include <linux/idr.h>

#include "vmi300.h"
#include "kfd_priv.h"

#define VMI300_MEMORY	(192ULL << 30)

/* Parameters of amdgpu that amdkfd reads, with amdgpu's defaults. */
int sched_policy = KFD_SCHED_POLICY_HWS;
module_param(sched_policy, int, 0444);
MODULE_PARM_DESC(sched_policy, "0: hardware scheduler, 1: without over-subscription, 2: none");

int hws_max_conc_proc = -1;
module_param(hws_max_conc_proc, int, 0444);
MODULE_PARM_DESC(hws_max_conc_proc, "processes on the device at once; -1: as many as VMIDs");

int cwsr_enable = 1;
module_param(cwsr_enable, int, 0444);
MODULE_PARM_DESC(cwsr_enable, "save waves of preempted queues");

int max_num_of_queues_per_device = KFD_MAX_NUM_OF_QUEUES_PER_DEVICE_DEFAULT;
module_param(max_num_of_queues_per_device, int, 0444);
MODULE_PARM_DESC(max_num_of_queues_per_device, "queues on a device");

int queue_preemption_timeout_ms = 9000;
module_param(queue_preemption_timeout_ms, int, 0644);
MODULE_PARM_DESC(queue_preemption_timeout_ms, "how long the driver waits for a preemption");

int halt_if_hws_hang;
module_param(halt_if_hws_hang, int, 0644);
MODULE_PARM_DESC(halt_if_hws_hang, "stop the driver when the scheduler hangs");

int amdgpu_gpu_recovery = -1;
module_param_named(gpu_recovery, amdgpu_gpu_recovery, int, 0444);
MODULE_PARM_DESC(gpu_recovery, "reset hung queues and the device");

int send_sigterm;
int debug_largebar;
int amdgpu_noretry = -1;
bool hws_gws_support;
int amdgpu_no_queue_eviction_on_vm_fault;
bool debug_evictions;
int amdgpu_use_xgmi_p2p = 1;
int amdgpu_emu_mode;
int amdgpu_exp_hw_support;
uint amdgpu_sdma_phase_quantum = 32;

/* Firmware versions of an MI300X with ROCm 6.2: new enough for everything. */
u32 amdgpu_amdkfd_get_fw_version(struct amdgpu_device *adev, enum kgd_engine_type type)
{
	return type == KGD_ENGINE_SDMA1 || type == KGD_ENGINE_SDMA2 ? 22 : 166;
}

void amdgpu_amdkfd_get_local_mem_info(struct amdgpu_device *adev,
				      struct kfd_local_mem_info *mem_info, struct amdgpu_xcp *xcp)
{
	memset(mem_info, 0, sizeof(*mem_info));
	mem_info->local_mem_size_public = VMI300_MEMORY / to_vmi300(adev)->nodes;
	mem_info->vram_width = 8192;
	mem_info->mem_clk_max = 1300;
}

u64 amdgpu_amdkfd_xcp_memory_size(struct amdgpu_device *adev, int xcp_id)
{
	return VMI300_MEMORY / to_vmi300(adev)->nodes;
}

/* Backed by the memory of the machine: what is free is told as it is. */
size_t amdgpu_amdkfd_get_available_memory(struct amdgpu_device *adev, u8 xcp_id)
{
	return (size_t)si_mem_available() << PAGE_SHIFT;
}

/* 100 MHz, as the reference clock of MI300. */
u64 amdgpu_amdkfd_get_gpu_clock_counter(struct amdgpu_device *adev)
{
	return ktime_get_ns() / 10;
}

u32 amdgpu_amdkfd_get_max_engine_clock_in_mhz(struct amdgpu_device *adev)
{
	return VMI300_CLOCK_MHZ;
}

bool amdgpu_amdkfd_have_atomics_support(struct amdgpu_device *adev)
{
	return true;
}

/* A token: global wave sync is not executed here. */
int amdgpu_amdkfd_alloc_gws(struct amdgpu_device *adev, size_t size, void **mem_obj)
{
	*mem_obj = kzalloc(sizeof(u64), GFP_KERNEL);
	return *mem_obj ? 0 : -ENOMEM;
}

void amdgpu_amdkfd_free_gws(struct amdgpu_device *adev, void *mem_obj)
{
	kfree(mem_obj);
}

static DEFINE_IDA(vmi300_pasids);

int amdgpu_pasid_alloc(unsigned int bits)
{
	return ida_alloc_range(&vmi300_pasids, BIT(bits - 1), BIT(bits) - 1, GFP_KERNEL);
}

void amdgpu_pasid_free(u32 pasid)
{
	ida_free(&vmi300_pasids, pasid);
}

void amdgpu_queue_mask_bit_to_mec_queue(struct amdgpu_device *adev, int bit, int *mec, int *pipe,
					int *queue)
{
	*queue = bit % adev->gfx.mec.num_queue_per_pipe;
	*pipe = bit / adev->gfx.mec.num_queue_per_pipe % adev->gfx.mec.num_pipe_per_mec;
	*mec = bit / adev->gfx.mec.num_queue_per_pipe / adev->gfx.mec.num_pipe_per_mec;
}

int amdgpu_queue_mask_bit_to_set_resource_bit(struct amdgpu_device *adev, int queue_bit)
{
	return queue_bit;
}

bool amdgpu_amdkfd_is_kfd_vmid(struct amdgpu_device *adev, u32 vmid)
{
	return vmid >= adev->vm_manager.first_kfd_vmid;
}

/*
 * What amdgpu answers when its interrupt ring is empty: the time left, which
 * amdkfd takes for "nothing to wait for". 0 would make the exit of every
 * debugged process wait for an entry that nobody sends.
 */
int amdgpu_amdkfd_send_close_event_drain_irq(struct amdgpu_device *adev, u32 *payload)
{
	return HZ;
}

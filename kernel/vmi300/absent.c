// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What amdkfd can ask of amdgpu and this device never does: other generations
 * of hardware, MES, RAS, CRIU, DMA buffers, direct command submission. A
 * caller learns of it by an error where it can fail; elsewhere nothing happens.
 */
#include "vmi300.h"
#include "amdgpu_dpm.h"
#include "amdgpu_mes.h"
#include "amdgpu_ras.h"
#include "kfd_priv.h"

const struct kfd2kgd_calls gfx_v7_kfd2kgd = {};
const struct kfd2kgd_calls gfx_v8_kfd2kgd = {};
const struct kfd2kgd_calls gfx_v10_kfd2kgd = {};
const struct kfd2kgd_calls gfx_v10_3_kfd2kgd = {};
const struct kfd2kgd_calls gfx_v11_kfd2kgd = {};
const struct kfd2kgd_calls gfx_v12_kfd2kgd = {};

/* Indexed by asic_type; the topology of this device says "ip discovery". */
const char *amdgpu_asic_name[CHIP_LAST] = {
	[0 ... CHIP_LAST - 1] = "ip discovery",
};

/* Global wave sync and other ways to submit. */
int amdgpu_amdkfd_add_gws_to_process(void *info, void *gws, struct kgd_mem **mem)
{
	return -EOPNOTSUPP;
}

int amdgpu_amdkfd_remove_gws_from_process(void *info, void *mem)
{
	return -EOPNOTSUPP;
}

int amdgpu_amdkfd_submit_ib(struct amdgpu_device *adev, enum kgd_engine_type engine, u32 vmid,
			    u64 gpu_addr, u32 *ib_cmd, u32 ib_len)
{
	return -EOPNOTSUPP;
}

/* Buffers of other processes and drivers, and buffers that move. */
int amdgpu_amdkfd_get_dmabuf_info(struct amdgpu_device *adev, int dma_buf_fd,
				  struct amdgpu_device **dmabuf_adev, u64 *bo_size,
				  void **metadata_buffer, size_t buffer_size, u32 *metadata_size,
				  u32 *flags, s8 *xcp_id)
{
	return -EOPNOTSUPP;
}

int amdgpu_amdkfd_gpuvm_export_dmabuf(struct kgd_mem *mem, struct dma_buf **dmabuf)
{
	return -EOPNOTSUPP;
}

int amdgpu_amdkfd_gpuvm_import_dmabuf_fd(struct amdgpu_device *adev, int fd, u64 va, void *drm_priv,
					 struct kgd_mem **mem, u64 *size, u64 *mmap_offset)
{
	return -EOPNOTSUPP;
}

int amdgpu_amdkfd_map_gtt_bo_to_gart(struct amdgpu_bo *bo, struct amdgpu_bo **bo_gart)
{
	return -EOPNOTSUPP;
}

int amdgpu_ttm_tt_get_userptr(const struct ttm_buffer_object *tbo, u64 *user_addr)
{
	return -EOPNOTSUPP;
}

int amdgpu_amdkfd_gpuvm_dmaunmap_mem(struct kgd_mem *mem, void *drm_priv)
{
	return 0;
}

int amdgpu_amdkfd_gpuvm_sync_memory(struct amdgpu_device *adev, struct kgd_mem *mem, bool intr)
{
	return 0;
}

int amdgpu_amdkfd_gpuvm_restore_process_bos(void *process_info, struct dma_fence __rcu **ef)
{
	return 0;
}

int amdgpu_amdkfd_gpuvm_get_vm_fault_info(struct amdgpu_device *adev,
					  struct kfd_vm_fault_info *info)
{
	return 0;
}

int amdgpu_vm_flush_compute_tlb(struct amdgpu_device *adev, struct amdgpu_vm *vm, u32 flush_type,
				u32 xcc_mask)
{
	return 0;
}

void amdgpu_amdkfd_debug_mem_fence(struct amdgpu_device *adev)
{
}

void amdgpu_device_flush_hdp(struct amdgpu_device *adev, struct amdgpu_ring *ring)
{
}

/* Checkpoints. */
int amdgpu_amdkfd_criu_resume(void *p)
{
	return -EOPNOTSUPP;
}

void amdgpu_amdkfd_block_mmu_notifications(void *p)
{
}

/* Links to other devices, tiling, memory limits. */
int amdgpu_amdkfd_get_pcie_bandwidth_mbytes(struct amdgpu_device *adev, bool is_min)
{
	return 0;
}

int amdgpu_amdkfd_get_xgmi_bandwidth_mbytes(struct amdgpu_device *dst, struct amdgpu_device *src,
					    bool is_min)
{
	return 0;
}

int amdgpu_amdkfd_get_tile_config(struct amdgpu_device *adev, struct tile_config *config)
{
	return 0;
}

int kfd_debugfs_kfd_mem_limits(struct seq_file *m, void *data)
{
	return 0;
}

u8 amdgpu_amdkfd_get_xgmi_hops_count(struct amdgpu_device *dst, struct amdgpu_device *src)
{
	return 0;
}

/* Power. */
int amdgpu_amdkfd_resume(struct amdgpu_device *adev, bool run_pm)
{
	return 0;
}

int amdgpu_device_ip_wait_for_idle(struct amdgpu_device *adev, enum amd_ip_block_type block_type)
{
	return 0;
}

int amdgpu_fence_wait_empty(struct amdgpu_ring *ring)
{
	return 0;
}

void amdgpu_amdkfd_suspend(struct amdgpu_device *adev, bool run_pm)
{
}

void amdgpu_amdkfd_set_compute_idle(struct amdgpu_device *adev, bool idle)
{
}

void amdgpu_gfx_off_ctrl(struct amdgpu_device *adev, bool enable)
{
}

void amdgpu_gfx_rlc_enter_safe_mode(struct amdgpu_device *adev, int xcc_id)
{
}

void amdgpu_gfx_rlc_exit_safe_mode(struct amdgpu_device *adev, int xcc_id)
{
}

u64 amdgpu_dpm_get_thermal_throttling_counter(struct amdgpu_device *adev)
{
	return 0;
}

bool amdgpu_ring_sched_ready(struct amdgpu_ring *ring)
{
	return false;
}

bool amdgpu_sriov_xnack_support(struct amdgpu_device *adev)
{
	return false;
}

/* The scheduler of newer hardware. */
int amdgpu_mes_suspend(struct amdgpu_device *adev)
{
	return -EOPNOTSUPP;
}

int amdgpu_mes_resume(struct amdgpu_device *adev)
{
	return -EOPNOTSUPP;
}

int amdgpu_mes_doorbell_process_slice(struct amdgpu_device *adev)
{
	return -EOPNOTSUPP;
}

int amdgpu_mes_flush_shader_debugger(struct amdgpu_device *adev, u64 process_context_addr)
{
	return -EOPNOTSUPP;
}

int amdgpu_mes_set_shader_debugger(struct amdgpu_device *adev, u64 process_context_addr,
				   u32 spi_gdbg_per_vmid_cntl, const u32 *tcp_watch_cntl, u32 flags,
				   bool trap_en)
{
	return -EOPNOTSUPP;
}

/* Errors of memory. */
int amdgpu_ras_mark_ras_event_caller(struct amdgpu_device *adev, enum ras_event_type type,
				     const void *caller)
{
	return 0;
}

void amdgpu_ras_event_log_print(struct amdgpu_device *adev, u64 event_id, const char *fmt, ...)
{
}

void amdgpu_amdkfd_ras_poison_consumption_handler(struct amdgpu_device *adev,
						  enum amdgpu_ras_block block, u32 reset)
{
}

void amdgpu_amdkfd_ras_pasid_poison_consumption_handler(struct amdgpu_device *adev,
							enum amdgpu_ras_block block, u16 pasid,
							pasid_notify pasid_fn, void *data,
							u32 reset)
{
}

u64 amdgpu_ras_acquire_event_id(struct amdgpu_device *adev, enum ras_event_type type)
{
	return 0;
}

/* Names of tasks in messages about faults. */
void amdgpu_vm_put_task_info(struct amdgpu_task_info *task_info)
{
}

struct amdgpu_task_info *amdgpu_vm_get_task_info_pasid(struct amdgpu_device *adev, u32 pasid)
{
	return NULL;
}

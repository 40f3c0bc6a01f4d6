// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Runlists: which queues are mapped. Packets are those of
 * kfd_packet_manager_v9.c for MI200 and MI300.
 */
#include "vmi300.h"
#include "kfd_priv.h"
#include "kfd_pm4_headers_ai.h"
#include "kfd_pm4_headers_aldebaran.h"
#include "kfd_pm4_opcodes.h"

/*
 * How long a turn of a runlist that does not fit lasts. MAP_PROCESS says
 * process_quantum 10 and no unit; the firmware's behaviour is not public.
 */
static unsigned int quantum_us = 10000;
module_param(quantum_us, uint, 0644);
MODULE_PARM_DESC(quantum_us, "turn of an over-subscribed runlist");

static struct vmi300_queue *vmi300_queue_create(struct vmi300_mec *mec, u32 pasid)
{
	struct vmi300_queue *q = kzalloc(sizeof(*q), GFP_KERNEL);

	if (!q)
		return NULL;
	q->mec = mec;
	q->pasid = pasid;
	q->slot = -1;
	INIT_LIST_HEAD(&q->polled);
	q->vm = vmi300_vm_get(mec, pasid);
	return q;
}

static void vmi300_queue_free(struct vmi300_queue *q)
{
	vmi300_gart_put(q->mqd_memory);
	vmi300_vm_put(q->vm);
	kfree(q);
}

/* Finds what the MQDs say. False if they are not where the driver puts them. */
static bool vmi300_queue_load(struct vmi300_queue *q, u64 mqd_address)
{
	struct vmi300_mec *mec = q->mec;
	struct v9_mqd *mqd = vmi300_gart(mec->dev, mqd_address, sizeof(*mqd));
	unsigned int i;

	if (!mqd || !q->vm)
		return false;
	for (i = 0; i < mec->xccs; i++) {
		u64 address = mqd_address + (u64)i * mqd->cp_mqd_stride_size;

		q->mqd[i] = vmi300_gart(mec->dev, address, sizeof(*mqd));
		if (!q->mqd[i])
			return false;
	}
	q->ring = ((u64)mqd->cp_hqd_pq_base_hi << 32 | mqd->cp_hqd_pq_base_lo) << 8;
	q->ring_bytes = 8ULL << (mqd->cp_hqd_pq_control & 0x3f);
	q->packets = q->ring_bytes / 64;
	q->read_index_va = (u64)mqd->cp_hqd_pq_rptr_report_addr_hi << 32 |
			   mqd->cp_hqd_pq_rptr_report_addr_lo;
	q->save_area = (u64)mqd->cp_hqd_ctx_save_base_addr_hi << 32 |
		       mqd->cp_hqd_ctx_save_base_addr_lo;
	return q->packets;
}

/* The same for a copy queue. Its ring has 2^n dwords: update_mqd_sdma. */
static bool vmi300_copy_queue_load(struct vmi300_queue *q, u64 mqd_address)
{
	struct v9_sdma_mqd *mqd = vmi300_gart(q->mec->dev, mqd_address, sizeof(*mqd));

	if (!mqd || !q->vm)
		return false;
	q->sdma_mqd = mqd;
	q->ring = ((u64)mqd->sdmax_rlcx_rb_base_hi << 32 | mqd->sdmax_rlcx_rb_base) << 8;
	q->ring_bytes = 4ULL << (mqd->sdmax_rlcx_rb_cntl >> 1 & 0x1f);
	q->read_index_va = (u64)mqd->sdmax_rlcx_rb_rptr_addr_hi << 32 |
			   mqd->sdmax_rlcx_rb_rptr_addr_lo;
	return true;
}

/* What a runlist says of the process to which queues belong. */
struct vmi300_listed_process {
	unsigned int number;
	unsigned int vmid;
	u32 pasid;
	u64 trap_memory;
};

static int vmi300_map_queues(struct vmi300_mec *mec, const struct pm4_mes_map_queues *p,
			     const struct vmi300_listed_process *process)
{
	struct vmi300_queue *q = vmi300_queue_create(mec, process->pasid);
	u64 mqd = (u64)p->mqd_addr_hi << 32 | p->mqd_addr_lo;

	if (!q)
		return -ENOMEM;
	q->vmid = process->vmid;
	q->process = process->number;
	q->trap_memory = process->trap_memory;
	q->mqd_address = mqd;
	q->mqd_memory = vmi300_gart_get(mec->dev, mqd);
	q->compute = p->bitfields2.engine_sel == engine_sel__mes_map_queues__compute_vi &&
		     p->bitfields2.extended_engine_sel ==
			extended_engine_sel__mes_map_queues__legacy_engine_sel;
	q->is_static = p->bitfields2.queue_type ==
		       queue_type__mes_map_queues__normal_latency_static_queue_vi;
	q->write_index_va = (u64)p->wptr_addr_hi << 32 | p->wptr_addr_lo;
	q->doorbell_offset = p->bitfields3.doorbell_offset;
	q->doorbell = vmi300_doorbell(mec->dev, q->doorbell_offset);
	if (q->compute ? !q->doorbell || !vmi300_queue_load(q, mqd) :
			 mec->dev->engine->copies && !vmi300_copy_queue_load(q, mqd)) {
		dev_err(mec->dev->adev.dev, "MAP_QUEUES names no queue: doorbell %x, mqd %llx\n",
			q->doorbell_offset, mqd);
		vmi300_queue_free(q);
		return -EINVAL;
	}
	list_add_tail(&q->list, &mec->queues);
	return 0;
}

/* Gives each process a VMID of the mask; they repeat where processes take turns. */
static unsigned int vmi300_vmid(const struct vmi300_mec *mec, unsigned int process)
{
	unsigned int nth = process % max(hweight32(mec->vmid_mask), 1u), vmid;

	for (vmid = 0; vmid < 16; vmid++) {
		if (mec->vmid_mask & BIT(vmid) && !nth--)
			return vmid;
	}
	return 0;
}

/* Reads a runlist. Replaces the one before, whose queues the driver has unmapped. */
int vmi300_runlist_load(struct vmi300_mec *mec, u32 *ib, u32 dwords)
{
	struct vmi300_listed_process process = {};
	u32 at = 0;
	int ret = 0;

	vmi300_runlist_clear(mec);
	while (at < dwords && !ret) {
		union PM4_MES_TYPE_3_HEADER header = { .u32All = ib[at] };
		u32 size = header.count + 2;

		if (size > dwords - at)
			return -EINVAL;
		switch (header.opcode) {
		case IT_MAP_PROCESS: {
			const struct pm4_mes_map_process_aldebaran *p = (void *)&ib[at];

			process.pasid = p->bitfields2.pasid;
			process.vmid = vmi300_vmid(mec, process.number++);
			process.trap_memory = ((u64)p->sq_shader_tma_hi << 32 |
					       p->sq_shader_tma_lo) << 8;
			break;
		}
		case IT_MAP_QUEUES:
			if (size * sizeof(u32) < sizeof(struct pm4_mes_map_queues))
				return -EINVAL;
			ret = vmi300_map_queues(mec, (void *)&ib[at], &process);
			break;
		case IT_RUN_LIST:
			/* The list refers to itself: it does not fit, and goes round. */
			mec->chained = true;
			break;
		default:
			dev_err(mec->dev->adev.dev, "opcode %x in a runlist\n", header.opcode);
			return -EINVAL;
		}
		at += size;
	}
	return ret;
}

/* Puts a queue into a slot; false if there is none. */
static bool vmi300_queue_on(struct vmi300_queue *q)
{
	struct vmi300_mec *mec = q->mec;
	unsigned long flags;
	int slot = -1;

	if (q->compute) {
		for (slot = 0; slot < VMI300_SLOTS; slot++) {
			if (mec->queue_mask & BIT(slot) && !mec->slots[slot])
				break;
		}
		if (slot == VMI300_SLOTS)
			return false;
	}
	q->mapped = true;
	if (!q->compute && (!mec->dev->engine->copies || !q->doorbell))
		return true;
	/*
	 * A queue that was destroyed may have left the very value that
	 * this one is going to store.
	 */
	q->doorbell_seen = U64_MAX;
	WRITE_ONCE(*q->doorbell, q->doorbell_seen);
	/* The write index, read below, is older than a doorbell that this wiped out. */
	smp_mb();
	spin_lock_irqsave(&mec->slots_lock, flags);
	q->slot = slot;
	if (slot >= 0)
		mec->slots[slot] = q;
	list_add_tail(&q->polled, &mec->polled);
	spin_unlock_irqrestore(&mec->slots_lock, flags);
	mec->dev->engine->map(q);
	return true;
}

void vmi300_queue_off(struct vmi300_queue *q)
{
	struct vmi300_mec *mec = q->mec;
	unsigned long flags;

	spin_lock_irqsave(&mec->slots_lock, flags);
	if (q->slot >= 0)
		mec->slots[q->slot] = NULL;
	q->slot = -1;
	list_del_init(&q->polled);
	spin_unlock_irqrestore(&mec->slots_lock, flags);
	q->mapped = false;
	WRITE_ONCE(q->running, false);
}

/* Maps as many queues as there are slots and VMIDs for, beginning at the turn. */
void vmi300_runlist_map(struct vmi300_mec *mec)
{
	struct vmi300_queue *q, *first = mec->turn;
	unsigned int processes = 0, last = 0;
	bool fits = true;

	mec->turn = NULL;
	if (list_empty(&mec->queues))
		return;
	if (!first)
		first = list_first_entry(&mec->queues, struct vmi300_queue, list);
	q = first;
	do {
		if (!q->mapped) {
			if (q->process != last) {
				last = q->process;
				processes++;
			}
			if (processes > mec->processes || !vmi300_queue_on(q)) {
				fits = false;
				mec->turn = q;
				break;
			}
		}
		q = list_next_entry_circular(q, &mec->queues, list);
	} while (q != first);
	mec->turn_ends = fits ? 0 : ktime_get_ns() + (u64)quantum_us * NSEC_PER_USEC;
}

/* Returns how many queues left. */
unsigned int vmi300_runlist_unmap(struct vmi300_mec *mec, vmi300_select select, u32 argument,
				  bool save)
{
	struct vmi300_queue *q;
	unsigned int count = 0;

	mec->dev->engine->stop(mec, select, argument, save);
	if (mec->hung)
		return 0;
	list_for_each_entry(q, &mec->queues, list) {
		if (!q->mapped || !select(q, argument))
			continue;
		vmi300_queue_off(q);
		count++;
	}
	return count;
}

static void vmi300_queue_forget(struct vmi300_queue *q)
{
	struct vmi300_mec *mec = q->mec;

	if (mec->turn == q)
		mec->turn = NULL;
	if (mec->last_begun == q)
		mec->last_begun = NULL;
	list_del(&q->list);
	vmi300_queue_free(q);
}

/*
 * The driver has unmapped queues, those that wait for their turn included. It
 * may free their MQDs now: they come back with another runlist only.
 */
void vmi300_runlist_drop(struct vmi300_mec *mec, vmi300_select select, u32 argument)
{
	struct vmi300_queue *q, *next;

	list_for_each_entry_safe(q, next, &mec->queues, list) {
		if (!q->mapped && select(q, argument))
			vmi300_queue_forget(q);
	}
	if (list_empty(&mec->queues))
		mec->turn_ends = 0;
}

void vmi300_runlist_clear(struct vmi300_mec *mec)
{
	struct vmi300_queue *q, *next;

	list_for_each_entry_safe(q, next, &mec->queues, list) {
		if (q->running)
			dev_warn(mec->dev->adev.dev, "a running queue was dropped\n");
		vmi300_queue_off(q);
		vmi300_queue_forget(q);
	}
	mec->turn_ends = 0;
	mec->chained = false;
}

bool vmi300_select_all(const struct vmi300_queue *q, u32 argument)
{
	return true;
}

/* Lets the next queues of an over-subscribed runlist run when the turn is over. */
u64 vmi300_runlist_turn(struct vmi300_mec *mec, u64 now)
{
	if (!mec->turn_ends || mec->hung)
		return U64_MAX;
	if (now >= mec->turn_ends) {
		mec->counters.rotations++;
		vmi300_runlist_unmap(mec, vmi300_select_all, 0, true);
		if (mec->hung)
			return U64_MAX;
		vmi300_runlist_map(mec);
	}
	return mec->turn_ends ?: U64_MAX;
}

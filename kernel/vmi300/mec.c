// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The firmware's side of the driver's packets. A thread for each partition
 * plays the microcontroller: it reads the HIQ, applies its packets in order
 * and runs the engine.
 *
 * What the packets mean is taken from the packet builders of
 * kfd_packet_manager_v9.c and from the driver's comments; AMD's firmware is
 * not public. In particular:
 *
 *  - UNMAP_QUEUES of all non-static queues preempts every running wave of the
 *    partition and is done when the last one is saved. QUERY_STATUS behind it
 *    writes its fence after that: packets are applied one after the other.
 *  - A queue that cannot be preempted is named in queue_doorbell_id0 of the
 *    HIQ's MQD (kfd_check_hiq_mqd_doorbell_id) and stays in its slot.
 *  - All XCCs of a partition follow one HIQ; the first one reports.
 */
#include <linux/delay.h>
#include <linux/sched.h>

#include <drm/drm_managed.h>

#include "vmi300.h"
#include "kfd_priv.h"
#include "kfd_pm4_headers_ai.h"
#include "kfd_pm4_opcodes.h"

static unsigned int doorbell_poll_us = 20;
module_param(doorbell_poll_us, uint, 0644);
MODULE_PARM_DESC(doorbell_poll_us, "how often doorbells are looked at; hardware sees each store");

static unsigned int inject_lost_fence;
module_param(inject_lost_fence, uint, 0644);
MODULE_PARM_DESC(inject_lost_fence, "so many QUERY_STATUS write no fence");

static unsigned int inject_late_unmap_ms;
module_param(inject_late_unmap_ms, uint, 0644);
MODULE_PARM_DESC(inject_late_unmap_ms, "the next UNMAP_QUEUES with queues takes so much longer");

static unsigned int inject_unpreemptable;
module_param(inject_unpreemptable, uint, 0644);
MODULE_PARM_DESC(inject_unpreemptable, "so many UNMAP_QUEUES leave a queue on the device");

static bool trace_packets;
module_param(trace_packets, bool, 0644);
MODULE_PARM_DESC(trace_packets, "log the packets of the HIQ");

#define mec_trace(mec, fmt, ...) do {						\
	struct vmi300_mec *_mec = (mec);					\
										\
	if (trace_packets)							\
		dev_info(_mec->dev->adev.dev, "mec %u: " fmt, _mec->node,	\
			 ##__VA_ARGS__);					\
} while (0)

/* How many looks at the HIQ's doorbell, a microsecond apart, follow the driver's announcement. */
#define VMI300_EAGER		64
/*
 * How often it is looked at while no queue is mapped. The driver's thread can
 * lose its CPU between announcement and doorbell, for any time.
 */
#define VMI300_IDLE_NS		NSEC_PER_MSEC

struct vmi300_mec *vmi300_mec_of_xcc(struct vmi300 *dev, unsigned int xcc)
{
	return &dev->mecs[xcc / (dev->xccs / dev->nodes)];
}

static void vmi300_mec_wake(struct vmi300_mec *mec)
{
	WRITE_ONCE(mec->kicked, true);
	wake_up(&mec->wait);
}

/* The driver is about to ring the HIQ: looks soon, and often. */
void vmi300_mec_kick(struct vmi300_mec *mec)
{
	unsigned long flags;

	spin_lock_irqsave(&mec->slots_lock, flags);
	mec->eager = VMI300_EAGER;
	hrtimer_start(&mec->poll, ns_to_ktime(NSEC_PER_USEC), HRTIMER_MODE_REL);
	spin_unlock_irqrestore(&mec->slots_lock, flags);
}

void vmi300_sleep(u64 ns)
{
	ktime_t end = ktime_add_ns(ktime_get(), ns);

	while (ns && ktime_before(ktime_get(), end)) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&end, HRTIMER_MODE_ABS);
	}
}

/*
 * SCH_WAVE of CP_IQ_WAIT_TIME2 in units of 1000 clocks (kfd_ioctl.h,
 * grace_period). 0 never ends, as kgd_gfx_v9_build_grace_period_packet_info
 * says.
 */
u64 vmi300_grace_ns(const struct vmi300_mec *mec)
{
	u32 units = mec->wait_times >> 8 & 0xff;

	if (!units)
		return VMI300_LONGEST_NS;
	return (u64)units * 1000 * 1000 / VMI300_CLOCK_MHZ;
}

static bool vmi300_hiq_pending(const struct vmi300_mec *mec)
{
	return mec->hiq.on && READ_ONCE(*mec->hiq.doorbell) != mec->hiq.rptr;
}

/* Returns when the doorbells are looked at again; under slots_lock. */
static u64 vmi300_poll_period(struct vmi300_mec *mec, bool mapped)
{
	if (mec->eager) {
		mec->eager--;
		return NSEC_PER_USEC;
	}
	return mapped ? (u64)max(doorbell_poll_us, 1u) * NSEC_PER_USEC : VMI300_IDLE_NS;
}

/* Polls doorbells; in interrupt context. */
static enum hrtimer_restart vmi300_poll(struct hrtimer *timer)
{
	struct vmi300_mec *mec = container_of(timer, struct vmi300_mec, poll);
	bool rung = vmi300_hiq_pending(mec), mapped = false;
	struct vmi300_queue *q;
	unsigned long flags;

	spin_lock_irqsave(&mec->slots_lock, flags);
	list_for_each_entry(q, &mec->polled, polled) {
		u64 value = READ_ONCE(*q->doorbell);

		mapped = true;
		if (value == q->doorbell_seen)
			continue;
		q->doorbell_seen = value;
		q->rung = true;
		rung = true;
	}
	/* Not by its return value: another CPU may have started it meanwhile. */
	if (!mec->ending)
		hrtimer_start(timer, ns_to_ktime(vmi300_poll_period(mec, mapped)),
			      HRTIMER_MODE_REL);
	spin_unlock_irqrestore(&mec->slots_lock, flags);
	if (rung)
		vmi300_mec_wake(mec);
	return HRTIMER_NORESTART;
}

static enum hrtimer_restart vmi300_alarm(struct hrtimer *timer)
{
	vmi300_mec_wake(container_of(timer, struct vmi300_mec, alarm));
	return HRTIMER_NORESTART;
}

/* The KIQ was told to map the HIQ of an XCC. The first XCC's is read. */
static void vmi300_hiq_load(struct vmi300_mec *mec, unsigned int index, u64 address)
{
	struct v9_mqd *mqd = vmi300_gart(mec->dev, address, sizeof(*mqd));
	struct vmi300_hiq *hiq = &mec->hiq;
	u64 base, report;

	if (!mqd) {
		dev_err(mec->dev->adev.dev, "the HIQ's MQD %llx is not in the GART\n", address);
		return;
	}
	hiq->mqd[index] = mqd;
	if (index)
		return;
	base = ((u64)mqd->cp_hqd_pq_base_hi << 32 | mqd->cp_hqd_pq_base_lo) << 8;
	report = (u64)mqd->cp_hqd_pq_rptr_report_addr_hi << 32 | mqd->cp_hqd_pq_rptr_report_addr_lo;
	hiq->dwords = 2u << (mqd->cp_hqd_pq_control & 0x3f);
	hiq->ring = vmi300_gart(mec->dev, base, hiq->dwords * sizeof(u32));
	hiq->rptr_report = vmi300_gart(mec->dev, report, sizeof(u32));
	hiq->doorbell = vmi300_doorbell(mec->dev, mqd->cp_hqd_pq_doorbell_control >> 2 & 0x3ffffff);
	hiq->rptr = 0;
	hiq->on = hiq->ring && hiq->rptr_report && hiq->doorbell;
	if (!hiq->on)
		dev_err(mec->dev->adev.dev, "the HIQ at %llx cannot be read\n", base);
}

static bool vmi300_select_dynamic(const struct vmi300_queue *q, u32 argument)
{
	return !q->is_static;
}

static bool vmi300_select_pasid(const struct vmi300_queue *q, u32 argument)
{
	return q->pasid == argument;
}

/* Names one running queue in the HIQ's MQDs and keeps it on the device. */
static struct vmi300_queue *vmi300_unpreemptable(struct vmi300_mec *mec)
{
	struct vmi300_queue *q;

	if (!inject_unpreemptable)
		return NULL;
	list_for_each_entry(q, &mec->queues, list) {
		if (q->mapped && q->compute && q->running) {
			inject_unpreemptable--;
			mec->hiq.mqd[0]->queue_doorbell_id0 = q->doorbell_offset;
			return q;
		}
	}
	return NULL;
}

static void vmi300_unmap_queues(struct vmi300_mec *mec, const struct pm4_mes_unmap_queues *p)
{
	bool save = p->bitfields2.action == action__mes_unmap_queues__preempt_queues;
	vmi300_select select = vmi300_select_all;
	struct vmi300_queue *kept;
	unsigned int count;
	u32 argument = 0;

	switch (p->bitfields2.queue_sel) {
	case queue_sel__mes_unmap_queues__perform_request_on_pasid_queues:
		select = vmi300_select_pasid;
		argument = p->bitfields3a.pasid;
		break;
	case queue_sel__mes_unmap_queues__unmap_all_non_static_queues:
		select = vmi300_select_dynamic;
		break;
	default:
		break;
	}
	kept = vmi300_unpreemptable(mec);
	if (kept) {
		/* Hides it from the selection, and shows it again. */
		kept->mapped = false;
		count = vmi300_runlist_unmap(mec, select, argument, save) + 1;
		kept->mapped = true;
	} else {
		count = vmi300_runlist_unmap(mec, select, argument, save);
	}
	vmi300_runlist_drop(mec, select, argument);
	if (count)
		mec->counters.unmaps++;
	else
		mec->counters.idle_unmaps++;
	if (count && inject_late_unmap_ms) {
		unsigned int late = inject_late_unmap_ms;

		inject_late_unmap_ms = 0;
		vmi300_sleep((u64)late * NSEC_PER_MSEC);
	}
	mec_trace(mec, "UNMAP_QUEUES action %u selection %u: %u queues\n", p->bitfields2.action,
		  p->bitfields2.queue_sel, count);
}

static void vmi300_run_list(struct vmi300_mec *mec, const struct pm4_mes_runlist *p)
{
	u64 address = (u64)p->ib_base_hi << 32 | p->ordinal2;
	u32 dwords = p->bitfields4.ib_size;
	u32 *ib = vmi300_gart(mec->dev, address, (size_t)dwords * sizeof(u32));

	mec->counters.runlists++;
	mec->processes = p->bitfields4.process_cnt ?: 1;
	if (!ib || vmi300_runlist_load(mec, ib, dwords)) {
		dev_err(mec->dev->adev.dev, "the runlist at %llx cannot be read\n", address);
		return;
	}
	vmi300_runlist_map(mec);
	mec_trace(mec, "RUN_LIST %llx, %u dwords, %u processes%s\n", address, dwords,
		  mec->processes, mec->chained ? ", goes round" : "");
}

static void vmi300_query_status(struct vmi300_mec *mec, const struct pm4_mes_query_status *p)
{
	u64 address = (u64)p->addr_hi << 32 | p->addr_lo;
	u64 *fence = vmi300_gart(mec->dev, address, sizeof(*fence));

	mec->counters.queries++;
	if (!fence) {
		dev_err(mec->dev->adev.dev, "the fence at %llx is not in the GART\n", address);
		return;
	}
	if (inject_lost_fence) {
		inject_lost_fence--;
		return;
	}
	/* The driver reads what the packets before this one wrote. */
	smp_store_release(fence, (u64)p->data_hi << 32 | p->data_lo);
	mec_trace(mec, "QUERY_STATUS %llx\n", address);
}

static void vmi300_packet(struct vmi300_mec *mec, const u32 *p)
{
	union PM4_MES_TYPE_3_HEADER header = { .u32All = p[0] };

	switch (header.opcode) {
	case IT_SET_RESOURCES: {
		const struct pm4_mes_set_resources *set = (const void *)p;

		mec->vmid_mask = set->bitfields2.vmid_mask;
		mec->queue_mask = set->queue_mask_lo;
		mec_trace(mec, "SET_RESOURCES vmids %x queues %x\n", mec->vmid_mask,
			  mec->queue_mask);
		break;
	}
	case IT_RUN_LIST:
		vmi300_run_list(mec, (const void *)p);
		break;
	case IT_UNMAP_QUEUES:
		vmi300_unmap_queues(mec, (const void *)p);
		break;
	case IT_QUERY_STATUS:
		vmi300_query_status(mec, (const void *)p);
		break;
	case IT_WRITE_DATA:
		/* The driver writes one register so: the wait times. */
		WRITE_ONCE(mec->wait_times, ((const struct pm4_mec_write_data_mmio *)p)->data);
		mec_trace(mec, "WRITE_DATA wait times %x\n", mec->wait_times);
		break;
	default:
		dev_err(mec->dev->adev.dev, "opcode %x in the HIQ\n", header.opcode);
	}
}

/* The driver fills the end of the ring with NOPs of one dword. */
static void vmi300_hiq_run(struct vmi300_mec *mec)
{
	struct vmi300_hiq *hiq = &mec->hiq;

	while (vmi300_hiq_pending(mec) && !mec->hung) {
		u32 at = hiq->rptr % hiq->dwords;
		union PM4_MES_TYPE_3_HEADER header = { .u32All = READ_ONCE(hiq->ring[at]) };
		u32 size = header.opcode == IT_NOP ? 1 : header.count + 2;

		if (size > hiq->dwords - at) {
			dev_err(mec->dev->adev.dev, "a packet of %u dwords at the end of the HIQ\n",
				size);
			hiq->on = false;
			return;
		}
		if (header.opcode != IT_NOP)
			vmi300_packet(mec, hiq->ring + at);
		if (mec->hung) {
			dev_warn(mec->dev->adev.dev, "the engine hangs; the firmware waits for a reset\n");
			return;
		}
		hiq->rptr += size;
		/* The driver reuses what lies before it. */
		smp_store_release(hiq->rptr_report, (u32)(hiq->rptr % hiq->dwords));
	}
}

/* Tells the engine of doorbells. */
static void vmi300_rung(struct vmi300_mec *mec)
{
	struct vmi300_queue *q;
	unsigned long flags;

	list_for_each_entry(q, &mec->queues, list) {
		bool rung;

		spin_lock_irqsave(&mec->slots_lock, flags);
		rung = q->rung;
		q->rung = false;
		spin_unlock_irqrestore(&mec->slots_lock, flags);
		if (rung)
			mec->dev->engine->rung(q);
	}
}

static u64 vmi300_mec_step(struct vmi300_mec *mec)
{
	unsigned int i;
	u64 next;

	mutex_lock(&mec->lock);
	for (i = 0; i < mec->xccs; i++) {
		u64 mqd = xchg(&mec->kiq_mqd[i], 0);

		if (mqd)
			vmi300_hiq_load(mec, i, mqd);
	}
	vmi300_hiq_run(mec);
	vmi300_rung(mec);
	next = vmi300_runlist_turn(mec, ktime_get_ns());
	next = min(next, mec->dev->engine->run(mec, ktime_get_ns()));
	mutex_unlock(&mec->lock);
	return next;
}

static int vmi300_mec_thread(void *data)
{
	struct vmi300_mec *mec = data;

	/*
	 * Before the scheduler's threads: a driver that spins for the fence on
	 * this CPU must not keep the firmware from writing it.
	 */
	sched_set_fifo(current);
	while (!kthread_should_stop()) {
		u64 next;

		WRITE_ONCE(mec->kicked, false);
		next = vmi300_mec_step(mec);
		if (next != U64_MAX)
			hrtimer_start(&mec->alarm, ns_to_ktime(next), HRTIMER_MODE_ABS);
		wait_event_interruptible(mec->wait, READ_ONCE(mec->kicked) ||
					 kthread_should_stop());
	}
	return 0;
}

static int vmi300_mec_start(struct vmi300 *dev, struct vmi300_mec *mec, unsigned int node)
{
	struct task_struct *thread;

	mec->dev = dev;
	mec->node = node;
	mec->xccs = dev->xccs / dev->nodes;
	mec->first_xcc = node * mec->xccs;
	/* The register's value after reset: gc_9_0_default.h. */
	mec->wait_times = 0x40404040;
	mutex_init(&mec->lock);
	spin_lock_init(&mec->slots_lock);
	init_waitqueue_head(&mec->wait);
	init_waitqueue_head(&mec->answered);
	INIT_LIST_HEAD(&mec->queues);
	INIT_LIST_HEAD(&mec->polled);
	hrtimer_init(&mec->poll, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	mec->poll.function = vmi300_poll;
	hrtimer_init(&mec->alarm, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	mec->alarm.function = vmi300_alarm;
	hrtimer_start(&mec->poll, ns_to_ktime(VMI300_IDLE_NS), HRTIMER_MODE_REL);
	thread = kthread_run(vmi300_mec_thread, mec, "vmi300-mec/%u", node);
	if (IS_ERR(thread)) {
		hrtimer_cancel(&mec->poll);
		return PTR_ERR(thread);
	}
	mec->thread = thread;
	return 0;
}

int vmi300_mec_init(struct vmi300 *dev)
{
	unsigned int i;
	int ret;

	/* Until the last client of an engine is gone, which may be after the device. */
	dev->mecs = drmm_kcalloc(&dev->adev.ddev, dev->nodes, sizeof(*dev->mecs), GFP_KERNEL);
	if (!dev->mecs)
		return -ENOMEM;
	for (i = 0; i < dev->nodes; i++) {
		ret = vmi300_mec_start(dev, &dev->mecs[i], i);
		if (ret) {
			vmi300_mec_fini(dev);
			return ret;
		}
	}
	return 0;
}

void vmi300_mec_fini(struct vmi300 *dev)
{
	unsigned int i;

	if (!dev->mecs)
		return;
	for (i = 0; i < dev->nodes; i++) {
		struct vmi300_mec *mec = &dev->mecs[i];

		if (!mec->thread)
			continue;
		kthread_stop(mec->thread);
		spin_lock_irq(&mec->slots_lock);
		mec->ending = true;
		spin_unlock_irq(&mec->slots_lock);
		hrtimer_cancel(&mec->poll);
		hrtimer_cancel(&mec->alarm);
		mutex_lock(&mec->lock);
		vmi300_runlist_clear(mec);
		mutex_unlock(&mec->lock);
	}
	WRITE_ONCE(dev->mecs, NULL);
}

/* The device is taken away: waits for no engine any more. */
void vmi300_mec_abandon(struct vmi300 *dev)
{
	unsigned int i;

	for (i = 0; i < dev->nodes; i++) {
		WRITE_ONCE(dev->mecs[i].resetting, true);
		wake_up_all(&dev->mecs[i].answered);
	}
}

/* All waves and queues are gone; the driver maps the HIQ again. */
void vmi300_mec_reset(struct vmi300_mec *mec)
{
	/* The thread may wait for an engine, with the lock held. */
	WRITE_ONCE(mec->resetting, true);
	wake_up_all(&mec->answered);
	mutex_lock(&mec->lock);
	WRITE_ONCE(mec->resetting, false);
	mec->hiq.on = false;
	mec->hung = false;
	vmi300_runlist_clear(mec);
	mec->wait_times = 0x40404040;
	if (mec->dev->engine->reset)
		mec->dev->engine->reset(mec);
	mutex_unlock(&mec->lock);
}

/*
 * Asked right before the driver rings the HIQ (kq_submit_packet): the wire by
 * which the firmware hears of it. The device has no fatal errors.
 */
bool amdgpu_amdkfd_is_fed(struct amdgpu_device *adev)
{
	struct vmi300 *dev = to_vmi300(adev);
	unsigned int i;

	for (i = 0; i < dev->nodes; i++)
		vmi300_mec_kick(&dev->mecs[i]);
	return false;
}

int amdgpu_amdkfd_unmap_hiq(struct amdgpu_device *adev, u32 doorbell_off, u32 inst)
{
	struct vmi300_mec *mec = vmi300_mec_of_xcc(to_vmi300(adev), inst);

	mutex_lock(&mec->lock);
	mec->hiq.on = false;
	vmi300_runlist_clear(mec);
	mutex_unlock(&mec->lock);
	return 0;
}

/* The KIQ: one packet at a time, under its lock, in atomic context. */
int amdgpu_ring_alloc(struct amdgpu_ring *ring, unsigned int ndw)
{
	ring->wptr = 0;
	ring->count_dw = ndw;
	return 0;
}

void amdgpu_ring_commit(struct amdgpu_ring *ring)
{
	struct amdgpu_kiq *kiq = container_of(ring, struct amdgpu_kiq, ring);
	struct vmi300 *dev = to_vmi300(ring->adev);
	unsigned int xcc = kiq - dev->adev.gfx.kiq;
	struct vmi300_mec *mec = vmi300_mec_of_xcc(dev, xcc);
	union PM4_MES_TYPE_3_HEADER header = { .u32All = ring->ring[0] };
	u64 *doorbell = vmi300_doorbell(dev, ring->ring[2] >> 2 & 0x3ffffff);

	if (header.opcode != IT_MAP_QUEUES) {
		dev_err(dev->adev.dev, "opcode %x in the KIQ\n", header.opcode);
		return;
	}
	/* Before the driver rings it: a ring begins at 0. */
	if (doorbell)
		WRITE_ONCE(*doorbell, 0);
	xchg(&mec->kiq_mqd[xcc - mec->first_xcc], (u64)ring->ring[4] << 32 | ring->ring[3]);
	vmi300_mec_wake(mec);
}

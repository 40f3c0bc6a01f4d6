// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The timed engine: compute units that execute nothing.
 *
 * A dispatch occupies as many waves as its grid has, at most all of the
 * device, for the time that its packet states. It begins when there is room;
 * queues take turns. While it lasts, no CPU of the guest works for it.
 *
 * Preemption saves what is left of a dispatch in the save area of the
 * application, as hardware saves waves there; mapping the queue continues it.
 */
#include "vmi300.h"

static unsigned int unmap_us = 20;
module_param(unmap_us, uint, 0644);
MODULE_PARM_DESC(unmap_us, "how long UNMAP_QUEUES takes with running waves, beside saving them (estimate)");

/*
 * 512 KiB of vector registers and 64 KiB of LDS for 32 waves of a CU, over
 * 5.3 TB/s, shared by 304 CUs: 171 MiB in 34 us. An estimate from the data
 * sheet; nobody has published a measurement.
 */
static unsigned int save_ps_per_wave = 3500;
module_param(save_ps_per_wave, uint, 0644);
MODULE_PARM_DESC(save_ps_per_wave, "how long saving or restoring one wave takes (estimate)");

/* How often a barrier, or a packet whose header is not there yet, is looked at again. */
#define VMI300_LOOK_AGAIN_NS	(20 * NSEC_PER_USEC)
/* What packets that start no waves take. */
#define VMI300_SHORT_NS		NSEC_PER_USEC
#define VMI300_SAVED_MAGIC	0x3030334d49564d54ULL

/* In the save area, behind the control stack. Its owner may change it. */
struct vmi300_saved {
	u64 magic;
	u64 packet;
	u64 left;
	u32 waves;
	u32 reserved;
};

static u32 vmi300_capacity(const struct vmi300_mec *mec)
{
	return mec->xccs * mec->dev->cus * VMI300_WAVES_PER_CU;
}

static u32 vmi300_timed_waves(const struct vmi300_queue *q)
{
	return READ_ONCE(q->running) ? READ_ONCE(q->waves) : 0;
}

static u64 vmi300_saved_va(const struct vmi300_queue *q)
{
	return q->save_area + q->mqd[0]->cp_hqd_cntl_stack_size;
}

/* Writes the state of a queue to its MQDs, as firmware does when it unmaps. */
static void vmi300_store(struct vmi300_queue *q)
{
	u64 read = q->next * 16, write = q->limit * 16;
	unsigned int i;

	for (i = 0; i < q->mec->xccs; i++) {
		struct v9_mqd *mqd = q->mqd[i];
		bool saved = q->saved && !i;

		mqd->cp_hqd_pq_rptr = read % (q->packets * 16);
		mqd->cp_hqd_pq_wptr_lo = lower_32_bits(write);
		mqd->cp_hqd_pq_wptr_hi = upper_32_bits(write);
		/* Words that the driver leaves to the firmware. */
		mqd->reserved_184 = lower_32_bits(q->next);
		mqd->reserved_185 = upper_32_bits(q->next);
		mqd->cp_hqd_cntl_stack_offset = mqd->cp_hqd_cntl_stack_size - (saved ? 8 : 0);
		mqd->cp_hqd_wg_state_offset = mqd->cp_hqd_cntl_stack_size +
			(saved ? sizeof(struct vmi300_saved) : 0);
	}
}

static void vmi300_timed_map(struct vmi300_queue *q)
{
	struct v9_mqd *mqd = q->mqd[0];
	struct vmi300_saved saved;

	q->next = (u64)mqd->reserved_185 << 32 | mqd->reserved_184;
	/*
	 * The write index is read once when a queue is mapped: doorbells that
	 * were rung meanwhile are lost on hardware, too (comment in hqd_load).
	 */
	q->limit = vmi300_ring_limit(q);
	if (mqd->cp_hqd_cntl_stack_offset == mqd->cp_hqd_cntl_stack_size)
		return;
	if (vmi300_vm_read(q->vm, vmi300_saved_va(q), &saved, sizeof(saved)) ||
	    saved.magic != VMI300_SAVED_MAGIC || saved.packet != q->next) {
		dev_dbg(q->mec->dev->adev.dev, "a save area was changed; its packet begins again\n");
		return;
	}
	q->saved = clamp_t(u64, saved.left, 1, VMI300_LONGEST_NS);
	q->waves = min_t(u32, saved.waves, vmi300_capacity(q->mec));
}

/* The write index says how far a ring goes. */
static void vmi300_timed_rung(struct vmi300_queue *q)
{
	q->limit = vmi300_ring_limit(q);
}

static void vmi300_save(struct vmi300_queue *q, u64 now)
{
	struct vmi300_saved saved = {
		.magic = VMI300_SAVED_MAGIC,
		.packet = q->next,
		.left = q->ends > now ? q->ends - now : 1,
		.waves = q->waves,
	};

	q->running = false;
	if (vmi300_vm_write(q->vm, vmi300_saved_va(q), &saved, sizeof(saved))) {
		vmi300_ih_fault(vmi300_ih_source(q), vmi300_saved_va(q));
		return;
	}
	q->saved = saved.left;
	q->mec->counters.saved++;
	vmi300_packet_rewind(q);
}

static void vmi300_retire_ended(struct vmi300_mec *mec, u64 now)
{
	struct vmi300_queue *q;

	list_for_each_entry(q, &mec->queues, list) {
		if (!q->running || q->ends > now)
			continue;
		q->running = false;
		vmi300_packet_retire(q, now);
	}
}

/* Returns how long the grace period of an UNMAP_QUEUES lasts. */
static u64 vmi300_grace(struct vmi300_mec *mec, vmi300_select select, u32 argument, u64 now)
{
	u64 grace = vmi300_grace_ns(mec), longest = 0;
	struct vmi300_queue *q;

	list_for_each_entry(q, &mec->queues, list) {
		if (q->running && select(q, argument) && q->ends > now)
			longest = max(longest, q->ends - now);
	}
	return min(grace, longest);
}

/*
 * Takes the waves of queues off. Waves may run on for the grace period; it is
 * over early when none is left.
 */
static void vmi300_timed_stop(struct vmi300_mec *mec, vmi300_select select, u32 argument,
			      bool save)
{
	u64 waves = 0, now = ktime_get_ns();
	struct vmi300_queue *q;

	if (save) {
		vmi300_sleep(vmi300_grace(mec, select, argument, now));
		now = ktime_get_ns();
		vmi300_retire_ended(mec, now);
	}
	list_for_each_entry(q, &mec->queues, list) {
		if (!q->mapped || !q->compute || !select(q, argument))
			continue;
		if (q->running && save) {
			waves += q->waves;
			vmi300_save(q, now);
		} else if (!save) {
			/* Reset: what ran is lost, and so is what was saved. */
			q->running = false;
			q->saved = 0;
		}
		vmi300_store(q);
	}
	if (waves)
		vmi300_sleep((u64)unmap_us * NSEC_PER_USEC + waves * save_ps_per_wave / 1000);
}

static void vmi300_begin(struct vmi300_queue *q, u64 now, u64 duration, u32 waves)
{
	WRITE_ONCE(q->waves, waves);
	q->begun = now;
	q->ends = now + duration;
	WRITE_ONCE(q->running, true);
	q->mec->last_begun = q;
}

/* Begins the next packet of a queue if there is one and it fits. */
static void vmi300_try(struct vmi300_queue *q, u64 now, u32 *room)
{
	struct vmi300_packet packet;
	u32 waves;

	q->look_again = 0;
	if (q->saved) {
		if (q->waves > *room)
			return;
		*room -= q->waves;
		vmi300_begin(q, now, q->saved + (u64)q->waves * save_ps_per_wave / 1000, q->waves);
		q->saved = 0;
		q->mec->counters.restored++;
		return;
	}
	switch (vmi300_packet_fetch(q, &packet)) {
	case VMI300_PACKET_NONE:
		if (q->next < q->limit)
			q->look_again = now + VMI300_LOOK_AGAIN_NS;
		return;
	case VMI300_PACKET_WAITS:
		q->look_again = now + VMI300_LOOK_AGAIN_NS;
		return;
	case VMI300_PACKET_BAD:
		q->stuck = true;
		vmi300_ih_bad_packet(vmi300_ih_source(q), packet.error);
		return;
	case VMI300_PACKET_READY:
		break;
	}
	waves = min_t(u64, packet.waves, vmi300_capacity(q->mec));
	if (waves > *room)
		return;
	*room -= waves;
	vmi300_packet_begin(q);
	vmi300_begin(q, now, packet.duration ?: VMI300_SHORT_NS, waves);
}

static u32 vmi300_room(struct vmi300_mec *mec)
{
	u32 used = 0, capacity = vmi300_capacity(mec);
	struct vmi300_queue *q;

	list_for_each_entry(q, &mec->queues, list) {
		if (q->running)
			used += q->waves;
	}
	return used < capacity ? capacity - used : 0;
}

/* Ends and begins packets; returns when to be called again, or U64_MAX. */
static u64 vmi300_timed_run(struct vmi300_mec *mec, u64 now)
{
	struct vmi300_queue *q, *first = mec->last_begun;
	u64 next = U64_MAX;
	u32 room;

	vmi300_retire_ended(mec, now);
	room = vmi300_room(mec);
	if (list_empty(&mec->queues))
		return next;
	if (!first)
		first = list_last_entry(&mec->queues, struct vmi300_queue, list);
	/* Begin behind the queue that began last. */
	q = first;
	do {
		q = list_next_entry_circular(q, &mec->queues, list);
		if (q->mapped && q->compute && !q->running && !q->stuck)
			vmi300_try(q, now, &room);
	} while (q != first);

	list_for_each_entry(q, &mec->queues, list) {
		if (q->running)
			next = min(next, q->ends);
		else if (q->mapped && q->look_again)
			next = min(next, q->look_again);
	}
	return next;
}

const struct vmi300_engine vmi300_timed = {
	.map = vmi300_timed_map,
	.rung = vmi300_timed_rung,
	.stop = vmi300_timed_stop,
	.run = vmi300_timed_run,
	.waves = vmi300_timed_waves,
};

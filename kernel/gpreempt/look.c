// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Looking at tenants, and being told instead: which tenants are looked at when,
 * samples of the occupancy, armed doorbells.
 *
 * Everything here is called by the worker of the gpu, without gp.lock.
 * Statistics of a gpu are written by its worker alone; their readers are on
 * machines that read 64 bits at once.
 */

#include "internal.h"
#include "trace.h"

/* A stopped tenant changes nothing by itself. */
#define GP_STOPPED_NS		(10 * NSEC_PER_MSEC)
/* No tenant is kept stopped for one that hides what it does. */
#define GP_HIDDEN_NS		NSEC_PER_SEC
/* Samples read registers: not more often than this for one tenant. */
#define GP_SAMPLE_NS		NSEC_PER_MSEC
/* A resumed queue has its waves back after this long: the driver answers before. */
#define GP_RESTORED_NS		(10 * NSEC_PER_MSEC)
/* Doorbells that could not be armed are tried again after this long. */
#define GP_REARM_NS		NSEC_PER_SEC

/* Notes which tenants rang. */
void gp_take_bells(struct gp_gpu *gpu)
{
	struct gp_bell bells[GP_MOST_BELLS];
	unsigned int count, i;
	struct gp_tenant *t;
	bool lost;

	spin_lock_irq(&gpu->bells_lock);
	count = gpu->num_bells;
	lost = gpu->bells_lost;
	memcpy(bells, gpu->bells, count * sizeof(*bells));
	gpu->num_bells = 0;
	gpu->bells_lost = false;
	spin_unlock_irq(&gpu->bells_lock);

	list_for_each_entry(t, &gpu->tenants, list) {
		bool rang = lost && t->armed;

		for (i = 0; i < count && !rang; i++) {
			rang = bells[i].tgid == t->tgid;
			if (rang)
				t->bell_at = bells[i].at_ns;
		}
		if (!rang)
			continue;
		t->rang = true;
		t->armed = false;
	}
}

/* What a tenant does now; -EAGAIN if that cannot be told. */
static int gp_see(struct gp_tenant *t, u64 now, struct gpc_activity *seen)
{
	bool had_work = gp_has_work(t->activity);
	int r;

	seen->since_ns = had_work ? now : t->since_ns;
	if (t->evicted) {
		seen->activity = GPREEMPT_ACTIVITY_EVICTED;
		return 0;
	}
	seen->activity = GPREEMPT_ACTIVITY_IDLE;
	if (!t->probe || !t->rings)
		return 0;

	t->gpu->status.look_queues += t->rings;
	r = gp_probe_process(t, now, seen);
	t->away = r == -EAGAIN;
	if (r != -EAGAIN)
		t->away_since = 0;
	if (!r)
		return 0;
	if (r == -EAGAIN) {
		t->gpu->status.away++;
		if (!t->away_since)
			t->away_since = now;
		if (now - t->away_since < GP_HIDDEN_NS)
			return r;
	}
	/* It ends, or hides its memory: nothing is kept stopped for either. */
	*seen = (struct gpc_activity) {
		.activity = GPREEMPT_ACTIVITY_IDLE,
		.since_ns = had_work ? now : t->since_ns,
	};

	return 0;
}

/* An index that has passed unfinished work of one tenant is believed of none there. */
static void gp_note_index(struct gp_tenant *t)
{
	struct gp_gpu *gpu = t->gpu;
	struct gp_tenant *other;

	if (!t->probe || gpu->index_refuted ||
	    !(gpc_probe_index(t->probe) & GPC_INDEX_REFUTED))
		return;
	gpu->index_refuted = true;
	list_for_each_entry(other, &gpu->tenants, list)
		if (other->probe)
			gpc_probe_refute(other->probe);
}

static void gp_look_at(struct gp_tenant *t, u64 now)
{
	struct gpc_activity seen = {};
	u32 before = t->activity;
	int r = gp_see(t, now, &seen);

	t->gpu->status.looks++;
	trace_gpreempt_look(t->gpu->id, t->tgid, r ? before : seen.activity,
			    seen.pending, r);
	t->looked = true;
	t->looked_at = now;
	if (r)
		return;

	WRITE_ONCE(t->activity, seen.activity);
	t->unsure = seen.unsure;
	t->since_ns = seen.since_ns;
	t->pending = seen.pending;
	t->changed |= before != seen.activity;
	if (!gp_has_work(seen.activity)) {
		t->clear_at = now;
	} else {
		t->risen |= !gp_has_work(before);
		if (t->armed) {
			/* A store that did not fault: of the gpu, or before the doorbell. */
			t->missed = true;
			t->armed = false;
			kfd_sched_disarm_doorbells(t->process, t->gpu->id);
		}
	}
	gp_note_index(t);
}

static bool gp_is_due(const struct gp_tenant *t, u64 now, bool all, bool net)
{
	if (!READ_ONCE(t->placed))
		return false;
	if (all)
		return true;
	if (t->stopped)
		return now - t->looked_at >= GP_STOPPED_NS;

	return net || t->rang || !t->armed;
}

/* Completions of processes that others wait for are told. */
static void gp_note_working(struct gp_gpu *gpu)
{
	DECLARE_BITMAP(working, 1 << GP_PID_BITS) = {};
	struct gp_tenant *t;

	list_for_each_entry(t, &gpu->tenants, list)
		if (READ_ONCE(t->placed) && READ_ONCE(t->upper) && gp_runs(t))
			__set_bit(hash_32(t->tgid, GP_PID_BITS), working);
	bitmap_copy(gpu->working, working, 1 << GP_PID_BITS);
}

/**
 * gp_look_around - look at the tenants that matter
 *
 * @gpu:	the gpu
 * @all:	at all of them: something has changed
 * @net:	at those whose doorbells are armed, too
 *
 * Returns whether a tenant was looked at.
 */
bool gp_look_around(struct gp_gpu *gpu, bool all, bool net)
{
	u64 start = ktime_get_ns(), now = start;
	bool works = false, any = false;
	struct gp_tenant *t;

	if (!READ_ONCE(gpu->contested) || READ_ONCE(gpu->resetting)) {
		bitmap_zero(gpu->working, 1 << GP_PID_BITS);
		return false;
	}

	list_for_each_entry(t, &gpu->tenants, list) {
		if (!READ_ONCE(t->upper))
			continue;
		if (gp_is_due(t, now, all, net)) {
			gp_look_at(t, now);
			any = true;
		}
		works |= READ_ONCE(t->placed) && gp_runs(t);
	}
	list_for_each_entry(t, &gpu->tenants, list) {
		if (READ_ONCE(t->upper) || !(works || all) ||
		    !gp_is_due(t, now, all, true))
			continue;
		gp_look_at(t, now);
		any = true;
	}
	gp_note_working(gpu);
	if (any) {
		gpu->look_ns = ktime_get_ns() - start;
		gp_times_note(&gpu->status.look, gpu->look_ns);
	}

	return any;
}

/* Whether no other tenant may have waves on the gpu. */
static bool gp_is_alone(const struct gp_tenant *t)
{
	const struct gp_tenant *other;

	list_for_each_entry(other, &t->gpu->tenants, list)
		if (other != t && other->stopped < other->queues &&
		    (!other->probe || !READ_ONCE(other->placed) ||
		     other->activity == GPREEMPT_ACTIVITY_UNKNOWN ||
		     gp_has_work(other->activity)))
			return false;

	return true;
}

/* Takes samples of the tenants for which they were asked, and looks at these again. */
void gp_sample(struct gp_gpu *gpu)
{
	struct gp_tenant *t;
	u64 now;
	int cus;

	list_for_each_entry(t, &gpu->tenants, list) {
		now = ktime_get_ns();
		if (!t->wants_sample || t->stopped ||
		    now - t->sampled_at < GP_SAMPLE_NS)
			continue;
		cus = kfd_sched_occupancy(t->process, gpu->id);
		t->sampled_at = now;
		/* Waves that are on their way back tell nothing by being away. */
		if (!cus && now - gpu->cycle_ended_at < GP_RESTORED_NS)
			continue;
		t->occupancy = cus < 0 ? -1 :
			       min(cus * 1000 / (int)gpu->compute_units, 1000);
		t->occupancy_at = now;
		gp_probe_sampled(t, now, cus, gp_is_alone(t));
		gp_look_at(t, ktime_get_ns());
	}
}

static bool gp_may_arm(const struct gp_tenant *t, u64 now, u64 period)
{
	return READ_ONCE(t->placed) && READ_ONCE(t->upper) && !t->armed &&
	       !t->stopped && !t->away &&
	       t->activity == GPREEMPT_ACTIVITY_IDLE &&
	       now - t->since_ns >= period && now >= t->arm_at;
}

/**
 * gp_arm - arm the doorbells of idle tenants
 *
 * @gpu:	the gpu
 *
 * Each is looked at once more, since a store before that is not noticed.
 * Returns whether one has work now.
 */
bool gp_arm(struct gp_gpu *gpu)
{
	u64 period = READ_ONCE(gp.settings.period_us) * (u64)NSEC_PER_USEC;
	u64 now = ktime_get_ns();
	struct gp_tenant *t;
	bool works = false;
	int r;

	if (READ_ONCE(gp.settings.watch) != GPREEMPT_WATCH_DOORBELL ||
	    !READ_ONCE(gpu->contested) || READ_ONCE(gpu->resetting))
		return false;

	list_for_each_entry(t, &gpu->tenants, list) {
		if (!gp_may_arm(t, now, period))
			continue;
		r = kfd_sched_arm_doorbells(gp.host, t->process, gpu->id);
		t->cannot_arm = r && r != -EAGAIN;
		if (r) {
			gpu->status.arm_failed++;
			t->arm_at = now + (t->cannot_arm ? GP_REARM_NS : period);
			continue;
		}
		gpu->status.armed++;
		gp_look_at(t, ktime_get_ns());
		if (gp_has_work(t->activity)) {
			/* It came just before: no doorbell could tell. */
			kfd_sched_disarm_doorbells(t->process, gpu->id);
			works = true;
		} else {
			t->armed = true;
		}
	}

	return works;
}

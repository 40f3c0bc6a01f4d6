// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Telling the core what was seen, and carrying out what it decides.
 *
 * Only the worker of a gpu switches its tenants: all entries for the gpu in one
 * call of the driver, which is one cycle at most.
 */

#include "internal.h"
#include "trace.h"

/* Occupancy that is older says nothing. */
#define GP_SAMPLE_VALID_NS	(20 * NSEC_PER_MSEC)
/* A stray that could not be resumed is tried again after this long. */
#define GP_STRAY_NS		(10 * NSEC_PER_MSEC)

/* Tells the core what was last seen of a tenant. Under gp.lock. */
void gp_observe_tenant(struct gp_tenant *t, u64 at)
{
	bool known = t->activity != GPREEMPT_ACTIVITY_UNKNOWN;
	bool fresh = t->occupancy >= 0 &&
		     at - t->occupancy_at <= GP_SAMPLE_VALID_NS;
	struct gpc_look look = {
		.at_ns = at,
		.since_ns = t->since_ns,
		.activity = known ? t->activity : GPREEMPT_ACTIVITY_IDLE,
		.occupancy = fresh ? t->occupancy : -1,
		.queues = t->queues,
		.stopped = t->stopped,
	};
	int r;

	if (!t->placed)
		return;
	r = gpc_observe(gp.core, t->core, &look);
	WARN_ONCE(r, "gpreempt: an observation was refused: %d\n", r);
}

/* Tells of a tenant that would be stopped for another. */
static void gp_would_preempt(const struct gp_tenant *t,
			     const struct gp_tenant *victim, int reason)
{
	struct gpreempt_event event = {
		.kind = GPREEMPT_EVENT_WOULD_PREEMPT,
		.gpu_id = victim->gpu->id,
		.job = victim->job->number,
		.cause = t->job->number,
		.reason = reason,
		.seen_ns = t->noticed_at,
		.queues = victim->queues,
		.activity = victim->activity,
	};

	gp_event(&event, victim->pid, victim->start_ns);
}

/* A tenant has work that it did not have before. */
static void gp_burst_began(struct gp_tenant *t)
{
	struct gp_gpu *gpu = t->gpu;
	struct gp_tenant *other;
	bool met = false;
	u64 from;
	int r;

	t->noticed_at = ktime_get_ns();
	list_for_each_entry(other, &gpu->tenants, list) {
		if (other == t || !other->placed || !gp_runs(other))
			continue;
		r = gpc_could_displace(gp.core, t->job->core, other->job->core,
				       gpu->index);
		if (r < 0)
			continue;
		met = true;
		if (gp.settings.mode == GPREEMPT_MODE_OBSERVE)
			gp_would_preempt(t, other, r);
	}
	if (!met)
		return;

	gpu->status.inversions++;
	from = max(t->clear_at, gpu->contested_since);
	if (t->rang && t->bell_at > t->clear_at)
		from = t->bell_at;
	if (t->looked_at > from)
		gp_times_note(&gpu->status.detection, t->looked_at - from);
}

/**
 * gp_observe - tell the core of the last looks
 *
 * @gpu:	the gpu
 *
 * Under gp.lock. Returns whether a sample of a tenant is wanted.
 */
bool gp_observe(struct gp_gpu *gpu)
{
	bool wanted = false;
	struct gp_tenant *t;

	list_for_each_entry(t, &gpu->tenants, list) {
		t->wants_sample = false;
		if (!t->looked)
			continue;
		t->looked = false;
		gpu->status.missed_by_doorbell += t->missed;
		if (t->placed) {
			gp_observe_tenant(t, t->looked_at);
			if (t->changed)
				gp_event_of(t, GPREEMPT_EVENT_ACTIVITY);
			if (t->risen)
				gp_burst_began(t);
			t->wants_sample = t->unsure ||
					  gpc_wants_occupancy(gp.core, t->core);
			wanted |= t->wants_sample;
		}
		t->missed = false;
		t->changed = false;
		t->risen = false;
		t->rang = false;
	}

	return wanted;
}

static struct gp_tenant *gp_find_core_tenant(u64 core)
{
	struct gp_tenant *t;

	hash_for_each_possible(gp.tenants_by_core, t, by_core, core)
		if (t->core == core)
			return t;

	return NULL;
}

/**
 * gp_decide - have the core decide, for all gpus
 *
 * @gpu:	the gpu whose worker asks
 *
 * Under gp.lock. Entries lie with their tenants; their workers are woken.
 */
void gp_decide(struct gp_gpu *gpu)
{
	u64 start = ktime_get_ns(), wake = GP_NEVER, took;
	struct gp_tenant *t;
	int count, i;

	count = gpc_decide(gp.core, start, gp.entries, gp.max_tenants, &wake);
	took = ktime_get_ns() - start;
	gp_times_note(&gpu->status.decision, took);
	trace_gpreempt_decision(gpu->id, count, took);
	gp.core_wake = wake;
	gp.core_waiter = gpu;
	if (WARN_ONCE(count < 0, "gpreempt: no decision: %d\n", count))
		return;

	for (i = 0; i < count; i++) {
		t = gp_find_core_tenant(gp.entries[i].tenant);
		if (WARN_ON_ONCE(!t))
			continue;
		t->entry = gp.entries[i];
		t->planned = true;
		t->planned_at = start;
		if (t->gpu != gpu)
			gp_wake(t->gpu, GP_WAKE_ENTRIES);
	}
}

/**
 * gp_collect - collect the entries for a gpu
 *
 * @gpu:	the gpu
 *
 * Under gp.lock. Returns how many there are.
 */
unsigned int gp_collect(struct gp_gpu *gpu)
{
	u64 now = ktime_get_ns();
	unsigned int count = 0;
	struct gp_tenant *t;

	if (gpu->resetting)
		return 0;

	list_for_each_entry(t, &gpu->tenants, list) {
		struct gp_act *act = &gpu->acts[count];

		if (t->planned) {
			act->entry = t->entry;
			act->planned_at = t->planned_at;
		} else if (t->stray && now >= gpu->stray_at) {
			memset(&act->entry, 0, sizeof(act->entry));
			act->entry.reason = GPREEMPT_REASON_RELEASED;
			act->planned_at = now;
		} else {
			continue;
		}
		t->planned = false;
		act->tenant = t;
		gpu->requests[count++] = (struct kfd_sched_hook_request) {
			.process = t->process,
			.preempt = act->entry.preempt,
		};
	}

	return count;
}

/* Notes how many queues of a tenant are stopped. Under gp.lock, by its worker. */
void gp_note_stopped(struct gp_tenant *t, u16 stopped, u64 now)
{
	t->stopped = stopped;
	if (stopped && !t->stopped_at) {
		t->stopped_at = now;
		t->preempted++;
		atomic_inc(&gp.stopped);
		gp_watchdog_start();
	} else if (!stopped && t->stopped_at) {
		gp_times_note(&t->gpu->status.stopped, now - t->stopped_at);
		t->stopped_ns += now - t->stopped_at;
		t->stopped_at = 0;
		atomic_dec(&gp.stopped);
	}
}

/* When the work of a job on a gpu was first seen, or zero. */
static u64 gp_noticed(const struct gp_gpu *gpu, u64 core)
{
	u64 first = GP_NEVER;
	struct gp_tenant *t;

	list_for_each_entry(t, &gpu->tenants, list)
		if (t->placed && t->job->core == core &&
		    gp_has_work(t->activity))
			first = min(first, t->noticed_at);

	return first == GP_NEVER ? 0 : first;
}

static void gp_tell_switched(const struct gp_act *act, int status,
			     unsigned int changed, u32 cycles, u64 now)
{
	struct gp_tenant *t = act->tenant;
	const struct gpc_entry *entry = &act->entry;
	struct gpreempt_event event = {
		.kind = status ? GPREEMPT_EVENT_FAILED :
			entry->preempt ? GPREEMPT_EVENT_PREEMPTED :
					 GPREEMPT_EVENT_RESUMED,
		.gpu_id = t->gpu->id,
		.job = t->job ? t->job->number : 0,
		.cause = gp_job_number(entry->cause),
		.reason = entry->reason,
		.bound = entry->bound,
		.after_ns = entry->preempt || !t->stopped_at ?
			    entry->after_ns : now - t->stopped_at,
		.took_ns = now - act->planned_at,
		.seen_ns = entry->cause ? gp_noticed(t->gpu, entry->cause) : 0,
		.cycles = cycles,
		.queues = changed,
		.activity = t->activity,
		.status = status,
	};

	gp_event(&event, t->pid, t->start_ns);
	if (entry->preempt)
		trace_gpreempt_preempted(t->gpu->id, t->tgid, entry->reason,
					 status, event.took_ns);
	else
		trace_gpreempt_resumed(t->gpu->id, t->tgid, entry->reason,
				       status, event.took_ns);
}

/* Notes the answer of the driver for one tenant. Under gp.lock. */
static void gp_settle(const struct gp_act *act, int status,
		      unsigned int changed, u32 cycles, u64 took, u64 now)
{
	struct gp_tenant *t = act->tenant;
	struct gpreempt_gpu_status *stats = &t->gpu->status;
	const struct gpc_entry *entry = &act->entry;
	struct gpc_report report = {
		.at_ns = now,
		.took_ns = cycles ? took : 0,
		.cycles = status ? -1 : cycles,
		.stopped = -1,
	};

	gp_tell_switched(act, status, changed, cycles, now);
	if (status) {
		stats->failures++;
		t->gpu->relist = true;
	} else {
		gp_times_note(entry->preempt ? &stats->preempt : &stats->resume,
			      now - act->planned_at);
		if (entry->preempt)
			stats->preempts++;
		else
			stats->resumes++;
		gp_note_stopped(t, entry->preempt ? t->queues : 0, now);
		report.stopped = t->stopped;
	}
	/* The answer is late if it is stale: what is stopped now is observed. */
	if (entry->number && t->placed && t->core == entry->tenant)
		gpc_report(gp.core, t->core, entry->number, &report);
	gp_observe_tenant(t, now);
	if (t->placed)
		return;
	t->stray = t->stopped > 0;
	if (!t->stray)
		gp_place(t);
}

/**
 * gp_act - carry out collected entries, in one switch
 *
 * @gpu:	the gpu
 * @count:	how many there are
 */
void gp_act(struct gp_gpu *gpu, unsigned int count)
{
	struct kfd_sched_hook_result result = {};
	u32 cycles;
	unsigned int i;
	u64 now;
	int r;

	r = kfd_sched_switch_gpu(gp.host, gpu->id, gpu->requests, count,
				 READ_ONCE(gp.settings.grace), &result);
	now = ktime_get_ns();
	gpu->cycle_ended_at = now;
	gpu->status.switches++;
	gpu->status.cycles += result.num_cycles;

	gp_lock();
	cycles = result.num_cycles;
	for (i = 0; i < count; i++) {
		int status = r ?: gpu->requests[i].status;
		bool counts = !status && gpu->acts[i].entry.number;

		gp_settle(&gpu->acts[i], status, gpu->requests[i].num_changed,
			  counts ? cycles : 0, result.duration_ns, now);
		if (counts)
			cycles = 0;
		if (status && !gpu->acts[i].entry.number)
			gpu->stray_at = now + GP_STRAY_NS;
	}
	gp_unlock();
}

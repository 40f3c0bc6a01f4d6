// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The worker of a gpu: waits, looks, has the core decide, acts, arms doorbells.
 *
 * It wakes when it is told something, when the core wants to decide, and every
 * period as long as work is to be seen that nobody tells of. Where no two jobs
 * compete it wakes only when queues come and go.
 */

#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/sched/signal.h>

#include "internal.h"
#include "trace.h"

/* Rounds of one wake-up: a decision may follow from the result of the last. */
#define GP_MOST_ROUNDS		4
/* Queues that could not be listed are listed again after this long. */
#define GP_RELIST_NS		(100 * NSEC_PER_MSEC)
/* A worker rests this many times as long as its last look took. */
#define GP_LOOK_REST		4
/* Timers may be this late, so that some expire together. */
#define GP_SLACK_NS		(5 * NSEC_PER_USEC)

/**
 * gp_wake - wake the worker of a gpu
 *
 * @gpu:	the gpu
 * @why:	the reason
 *
 * From any context.
 */
void gp_wake(struct gp_gpu *gpu, enum gp_wake why)
{
	u64 now = ktime_get_ns();

	set_bit(why, &gpu->pending);
	if (READ_ONCE(gpu->due_at) > now)
		WRITE_ONCE(gpu->due_at, now);
	/* The worker tests the bits after it has set its state. */
	smp_mb__after_atomic();
	if (gpu->worker)
		wake_up_process(gpu->worker);
}

void gp_wake_all(enum gp_wake why)
{
	struct gp_gpu *gpu;

	list_for_each_entry(gpu, &gp.gpus, list)
		gp_wake(gpu, why);
}

/* Why the worker has to wake next, and when. */
struct gp_alarm {
	u64 at;
	enum gp_wake why;
};

static void gp_sooner(struct gp_alarm *alarm, u64 at, enum gp_wake why)
{
	if (at < alarm->at)
		*alarm = (struct gp_alarm) { .at = at, .why = why };
}

/* Whether tenants have to be looked at every period, or doorbells tell. */
static bool gp_needs_period(struct gp_gpu *gpu, bool *armed)
{
	bool needs = false;
	struct gp_tenant *t;

	*armed = false;
	list_for_each_entry(t, &gpu->tenants, list) {
		if (!t->placed || !t->upper)
			continue;
		if (t->armed)
			*armed = true;
		else if (!t->stopped && t->activity != GPREEMPT_ACTIVITY_EVICTED)
			needs = true;
	}

	return needs;
}

/* Finds out when to wake next. */
static struct gp_alarm gp_next_alarm(struct gp_gpu *gpu, u64 now)
{
	u64 period = (u64)gp.settings.period_us * NSEC_PER_USEC;
	u64 net = (u64)gp.settings.net_ms * NSEC_PER_MSEC;
	struct gp_alarm alarm = { .at = GP_NEVER, .why = GP_WAKE_OTHER };
	struct gp_tenant *t;
	bool armed;

	gp_lock();
	if (gp.core_waiter == gpu)
		gp_sooner(&alarm, gp.core_wake, GP_WAKE_CORE);
	gp_sooner(&alarm, gp.classify_at, GP_WAKE_OTHER);
	if (gpu->contested && !gpu->resetting) {
		/* Processes with very many queues cost a fifth of a processor at most. */
		period = max(period, GP_LOOK_REST * gpu->look_ns);
		if (gp_needs_period(gpu, &armed))
			gp_sooner(&alarm, gpu->period_at + period,
				  GP_WAKE_PERIOD);
		if (armed)
			gp_sooner(&alarm, gpu->net_at + net, GP_WAKE_NET);
	}
	if (!gpu->resetting)
		list_for_each_entry(t, &gpu->tenants, list)
			if (t->stray)
				gp_sooner(&alarm, gpu->stray_at, GP_WAKE_OTHER);
	if (gpu->relist)
		gp_sooner(&alarm, now + GP_RELIST_NS, GP_WAKE_OTHER);
	gp_unlock();

	return alarm;
}

static enum gp_wake gp_first_cause(unsigned long bits)
{
	enum gp_wake why;

	for (why = GP_WAKE_DOORBELL; why < GP_WAKE_CORE; why++)
		if (bits & BIT(why))
			return why;

	return GP_WAKE_OTHER;
}

/* Sleeps until there is something to do. Returns the bits of what was told. */
static unsigned long gp_wait(struct gp_gpu *gpu, enum gp_wake *cause)
{
	struct gp_alarm alarm = gp_next_alarm(gpu, ktime_get_ns());
	ktime_t at = min_t(u64, alarm.at, KTIME_MAX);
	unsigned long bits = 0;
	bool expired = false;

	WRITE_ONCE(gpu->due_at, alarm.at);
	for (;;) {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		bits = xchg(&gpu->pending, 0);
		if (bits || expired)
			break;
		expired = !schedule_hrtimeout_range(&at, GP_SLACK_NS,
						    HRTIMER_MODE_ABS);
	}
	__set_current_state(TASK_RUNNING);
	WRITE_ONCE(gpu->due_at, ktime_get_ns());
	*cause = bits ? gp_first_cause(bits) : alarm.why;

	return bits;
}

static void gp_count_wakeup(struct gp_gpu *gpu, enum gp_wake cause)
{
	struct gpreempt_gpu_status *stats = &gpu->status;

	stats->wakeups++;
	stats->wakeups_doorbell += cause == GP_WAKE_DOORBELL;
	stats->wakeups_completed += cause == GP_WAKE_COMPLETED;
	stats->wakeups_queues += cause == GP_WAKE_QUEUES;
	stats->wakeups_period += cause == GP_WAKE_PERIOD;
	stats->wakeups_net += cause == GP_WAKE_NET;
	stats->wakeups_core += cause == GP_WAKE_CORE ||
			       cause == GP_WAKE_ENTRIES;
	trace_gpreempt_wake(gpu->id, cause);
}

/* A reset begins, or is over. The last of both counts: they come in turn. */
static void gp_note_reset(struct gp_gpu *gpu, unsigned long bits)
{
	bool begins = bits & BIT(GP_WAKE_RESET);
	bool ends = bits & BIT(GP_WAKE_RECOVERED);

	if (!begins && !ends)
		return;
	gp_lock();
	if (begins)
		gp_event_gpu(gpu, GPREEMPT_EVENT_RESET);
	if (ends)
		gp_event_gpu(gpu, GPREEMPT_EVENT_RECOVERED);
	WRITE_ONCE(gpu->resetting, !ends);
	if (gpu->managed)
		gpc_set_resetting(gp.core, gpu->index, gpu->resetting);
	gp_unlock();
}

/* Decides and acts until nothing follows any more. */
static void gp_decide_and_act(struct gp_gpu *gpu)
{
	unsigned int count, round;

	for (round = 0; round < GP_MOST_ROUNDS; round++) {
		gp_lock();
		gp_decide(gpu);
		count = gp_collect(gpu);
		gp_unlock();
		if (!count)
			return;
		gp_act(gpu, count);
	}
	/* There may be more: in a moment, after a look. */
	gp_wake(gpu, GP_WAKE_ENTRIES);
}

/* One round of work. */
static void gp_work(struct gp_gpu *gpu, unsigned long bits, enum gp_wake cause)
{
	bool listed = bits & BIT(GP_WAKE_QUEUES) || gpu->relist;
	u64 now = ktime_get_ns();
	bool all, net, wanted;

	gp_note_reset(gpu, bits);
	listed |= bits & BIT(GP_WAKE_RECOVERED);
	if (listed)
		gpu->relist = gp_tenants_sync(gpu) < 0;
	gp_take_bells(gpu);

	gp_lock();
	gp_classify(now);
	gp_unlock();

	all = listed || bits & BIT(GP_WAKE_POLICY);
	net = now - gpu->net_at >=
	      (u64)READ_ONCE(gp.settings.net_ms) * NSEC_PER_MSEC;
	gpu->period_at = now;
	if (net || all)
		gpu->net_at = now;
	gp_look_around(gpu, all, net);

	gp_lock();
	wanted = gp_observe(gpu);
	gp_unlock();
	if (wanted) {
		gp_sample(gpu);
		gp_lock();
		gp_observe(gpu);
		gp_unlock();
	}
	gp_decide_and_act(gpu);
	if (gp_arm(gpu)) {
		gp_lock();
		gp_observe(gpu);
		gp_unlock();
		gp_decide_and_act(gpu);
	}
}

/* The thread of a gpu. */
int gp_worker(void *data)
{
	struct gp_gpu *gpu = data;
	enum gp_wake cause;
	unsigned long bits;

	sched_set_fifo_low(current);
	while (!kthread_should_stop()) {
		bits = gp_wait(gpu, &cause);
		if (kthread_should_stop())
			break;
		gp_count_wakeup(gpu, cause);
		gp_work(gpu, bits, cause);
	}

	return 0;
}

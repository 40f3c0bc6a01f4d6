// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The watchdog: a worker that hangs must not leave anything stopped.
 *
 * It runs only while something is stopped, and takes no lock of ours: a worker
 * that hangs may hold it. What it has resumed the workers find in the list of
 * queues.
 */

#include "internal.h"

static u64 gp_watchdog_ns(void)
{
	return (u64)max(READ_ONCE(gp_watchdog_ms), 10U) * NSEC_PER_MSEC;
}

static void gp_watchdog_queue(void)
{
	unsigned long delay = nsecs_to_jiffies(gp_watchdog_ns() / 2) + 1;

	queue_delayed_work(system_unbound_wq, &gp.watchdog, delay);
}

/* Resumes everything that is stopped, whatever the workers do. */
void gp_resume_everything(void)
{
	kfd_sched_resume_all(gp.host);
	gp_wake_all(GP_WAKE_QUEUES);
}

static void gp_watchdog_work(struct work_struct *work)
{
	u64 now = ktime_get_ns(), limit = gp_watchdog_ns();
	struct gp_gpu *gpu, *stuck = NULL;

	if (!atomic_read(&gp.stopped))
		return;
	list_for_each_entry(gpu, &gp.gpus, list) {
		u64 due = READ_ONCE(gpu->due_at);

		if (due < now && now - due > limit) {
			gpu->status.watchdog++;
			gp_event_gpu(gpu, GPREEMPT_EVENT_WATCHDOG);
			stuck = gpu;
		}
	}
	if (stuck) {
		pr_warn_ratelimited("gpreempt: the worker of gpu %u did not answer: everything is resumed\n",
				    stuck->id);
		gp_resume_everything();
	}
	gp_watchdog_queue();
}

void gp_watchdog_init(void)
{
	INIT_DELAYED_WORK(&gp.watchdog, gp_watchdog_work);
}

/* Something is stopped. */
void gp_watchdog_start(void)
{
	if (!delayed_work_pending(&gp.watchdog))
		gp_watchdog_queue();
}

/* There are no workers any more. */
void gp_watchdog_exit(void)
{
	cancel_delayed_work_sync(&gp.watchdog);
}

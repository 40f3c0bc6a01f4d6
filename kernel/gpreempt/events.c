// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Events: a ring of the last ones, which each reader goes through at its own
 * position. Readers that are too slow lose the oldest, and are told how many.
 */

#include <linux/fs.h>
#include <linux/pid_namespace.h>
#include <linux/poll.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>

#include "internal.h"

/* A module parameter: main.c. */
unsigned int gp_events = 4096;

struct gp_record {
	struct gpreempt_event event;
	struct pid *pid;
	u64 start_ns;
};

static struct gp_record *gp_ring;
/* Number of the next event; the first is 1. */
static u64 gp_next_sequence = 1;
static DEFINE_SPINLOCK(gp_ring_lock); /* for both */
static DECLARE_WAIT_QUEUE_HEAD(gp_readers);

int gp_events_init(void)
{
	gp_events = clamp(gp_events, 16U, 1U << 20);
	gp_ring = vcalloc(gp_events, sizeof(*gp_ring));
	return gp_ring ? 0 : -ENOMEM;
}

void gp_events_exit(void)
{
	unsigned int i;

	for (i = 0; gp_ring && i < gp_events; i++)
		put_pid(gp_ring[i].pid);
	vfree(gp_ring);
}

/**
 * gp_event - note an event
 *
 * @event:	all but its time, number and process
 * @pid:	the process, or NULL
 * @start_ns:	its start
 */
void gp_event(struct gpreempt_event *event, struct pid *pid, u64 start_ns)
{
	struct gp_record *record;
	struct pid *old;

	event->at_ns = ktime_get_ns();
	spin_lock(&gp_ring_lock);
	event->sequence = gp_next_sequence++;
	record = &gp_ring[event->sequence % gp_events];
	old = record->pid;
	record->event = *event;
	record->pid = get_pid(pid);
	record->start_ns = start_ns;
	spin_unlock(&gp_ring_lock);
	put_pid(old);
	if (wq_has_sleeper(&gp_readers))
		wake_up_interruptible(&gp_readers);
}

/* Notes an event that says no more than to whom it happened. Under gp.lock. */
void gp_event_of(const struct gp_tenant *t, u32 kind)
{
	struct gpreempt_event event = {
		.kind = kind,
		.gpu_id = t->gpu->id,
		.job = t->job ? t->job->number : 0,
		.queues = t->queues,
		.activity = t->activity,
	};

	gp_event(&event, t->pid, t->start_ns);
}

void gp_event_gpu(const struct gp_gpu *gpu, u32 kind)
{
	struct gpreempt_event event = { .kind = kind, .gpu_id = gpu->id };

	gp_event(&event, NULL, 0);
}

/* The number of the next event. */
u64 gp_events_next(void)
{
	u64 next;

	spin_lock(&gp_ring_lock);
	next = gp_next_sequence;
	spin_unlock(&gp_ring_lock);

	return next;
}

/* Takes the event at a position, or the oldest. Returns whether there is one. */
static bool gp_take(u64 *next, struct gpreempt_event *event)
{
	struct gp_record *record;
	struct pid *pid = NULL;
	u64 start_ns, oldest;

	spin_lock(&gp_ring_lock);
	if (*next >= gp_next_sequence) {
		spin_unlock(&gp_ring_lock);
		return false;
	}
	oldest = gp_next_sequence > gp_events ?
		 gp_next_sequence - gp_events : 1;
	record = &gp_ring[max(*next, oldest) % gp_events];
	*event = record->event;
	start_ns = record->start_ns;
	pid = get_pid(record->pid);
	spin_unlock(&gp_ring_lock);

	event->lost = min_t(u64, event->sequence - *next, U32_MAX);
	event->pid = pid_nr_ns(pid, task_active_pid_ns(current));
	event->start_time = pid ? gp_start_time(start_ns) : 0;
	put_pid(pid);
	*next = event->sequence + 1;

	return true;
}

/**
 * gp_events_read - read whole events
 *
 * @file:	the descriptor
 * @next:	its position
 * @to:		where they go
 * @size:	how many bytes there are
 */
ssize_t gp_events_read(struct file *file, u64 *next, char __user *to,
		       size_t size)
{
	struct gpreempt_event event;
	ssize_t done = 0;
	u64 at;
	int r;

	if (size < sizeof(event))
		return -EINVAL;
	while (gp_events_next() <= *next) {
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		r = wait_event_interruptible(gp_readers,
					     gp_events_next() > *next);
		if (r)
			return r;
	}
	for (at = *next; size - done >= sizeof(event); *next = at) {
		if (!gp_take(&at, &event))
			break;
		if (copy_to_user(to + done, &event, sizeof(event)))
			return done ?: -EFAULT;
		done += sizeof(event);
	}

	return done;
}

__poll_t gp_events_poll(struct file *file, u64 next,
			struct poll_table_struct *wait)
{
	poll_wait(file, &gp_readers, wait);
	return gp_events_next() > next ? EPOLLIN | EPOLLRDNORM : 0;
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The tenants of a gpu, brought up to date from the driver's list of queues.
 *
 * A tenant has a reference to its process in the driver. It would keep queues
 * and memory of a process that has ended: the driver tells of the end, lists
 * the process no more, and the reference is given back at once.
 */

#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "internal.h"

#define GP_FIRST_QUEUES		64
/* More than all processes together can have on a gpu. */
#define GP_MOST_QUEUES		BIT(18)

/* A pid that survives the process, to tell it from others. NULL if it has ended. */
static struct pid *gp_get_pid(pid_t tgid, u64 start_ns)
{
	struct task_struct *task;
	struct pid *pid;

	rcu_read_lock();
	pid = find_pid_ns(tgid, &init_pid_ns);
	task = pid ? pid_task(pid, PIDTYPE_TGID) : NULL;
	pid = task && task->start_boottime == start_ns ? get_pid(pid) : NULL;
	rcu_read_unlock();

	return pid;
}

/* The memory of a probe has to be aligned to 64 bytes. */
static struct gpc_probe *gp_new_probe(u32 rings)
{
	size_t size = gpc_probe_size(rings);
	void *memory;

	if (!size)
		return NULL;
	memory = kvzalloc(roundup_pow_of_two(max_t(size_t, size, 64)),
			  GFP_KERNEL);
	if (memory && gpc_probe_init(memory, size, rings)) {
		kvfree(memory);
		memory = NULL;
	}

	return memory;
}

/* Gives a tenant a probe for so many rings. One that grows begins anew. */
static void gp_fit_probe(struct gp_tenant *t, u32 rings)
{
	struct gpc_probe *probe;
	u32 room;

	if (t->probe && rings <= t->probe_room)
		return;
	room = min_t(u32, roundup_pow_of_two(max(rings, 4U)), GP_MOST_RINGS);
	probe = gp_new_probe(room);
	if (!probe)
		return;
	kvfree(t->probe);
	t->probe = probe;
	t->probe_room = room;
	if (t->gpu->index_refuted)
		gpc_probe_refute(probe);
}

/* Room to switch so many tenants at once: a switch allocates nothing. */
static bool gp_fit_acts(struct gp_gpu *gpu, unsigned int tenants)
{
	struct kfd_sched_hook_request *requests, *old_requests;
	unsigned int room = roundup_pow_of_two(max(tenants, 16U));
	struct gp_act *acts, *old_acts;

	if (tenants <= gpu->acts_room)
		return true;
	requests = kvcalloc(room, sizeof(*requests), GFP_KERNEL);
	acts = kvcalloc(room, sizeof(*acts), GFP_KERNEL);
	if (!requests || !acts) {
		kvfree(requests);
		kvfree(acts);
		return false;
	}
	gp_lock();
	old_requests = gpu->requests;
	old_acts = gpu->acts;
	gpu->requests = requests;
	gpu->acts = acts;
	gpu->acts_room = room;
	gp_unlock();
	kvfree(old_requests);
	kvfree(old_acts);

	return true;
}

static struct gp_tenant *gp_new_tenant(struct gp_gpu *gpu,
				       const struct kfd_sched_hook_queue *first)
{
	struct gp_tenant *t;

	if (!gp_fit_acts(gpu, gpu->num_tenants + 1))
		return NULL;
	t = kzalloc(sizeof(*t), GFP_KERNEL);
	if (!t)
		return NULL;
	t->gpu = gpu;
	t->tgid = first->pid;
	t->start_ns = first->start_time;
	t->pid = gp_get_pid(first->pid, first->start_time);
	t->activity = GPREEMPT_ACTIVITY_UNKNOWN;
	t->occupancy = -1;
	t->since_ns = ktime_get_ns();
	t->process = first->process;
	kfd_sched_get_process(t->process);

	gp_lock();
	list_add_tail(&t->list, &gpu->tenants);
	gpu->num_tenants++;
	gp_event_of(t, GPREEMPT_EVENT_TENANT_NEW);
	gp_unlock();

	return t;
}

static void gp_free_tenant(struct gp_tenant *t)
{
	gp_lock();
	gp_note_stopped(t, 0, ktime_get_ns());
	gp_displace(t);
	gp_event_of(t, GPREEMPT_EVENT_TENANT_GONE);
	list_del(&t->list);
	t->gpu->num_tenants--;
	gp_unlock();

	if (t->armed)
		kfd_sched_disarm_doorbells(t->process, t->gpu->id);
	kfd_sched_put_process(t->process);
	put_pid(t->pid);
	kvfree(t->probe);
	kfree(t);
}

static struct gp_tenant *gp_find_tenant(struct gp_gpu *gpu,
					const struct kfd_sched_hook_queue *queue)
{
	struct gp_tenant *t;

	list_for_each_entry(t, &gpu->tenants, list)
		if (t->process == queue->process && t->tgid == queue->pid &&
		    t->start_ns == queue->start_time)
			return t;

	return NULL;
}

/* The queues of a tenant are these now. */
static void gp_set_queues(struct gp_tenant *t,
			  const struct kfd_sched_hook_queue *queues,
			  unsigned int count)
{
	struct gpc_ring *rings = t->gpu->rings;
	unsigned int i, all = 0, stopped = 0, off = 0, used = 0;

	for (i = 0; i < count; i++) {
		const struct kfd_sched_hook_queue *q = &queues[i];

		/* A queue that hung is lost: nothing runs there any more. */
		if (q->flags & KFD_SCHED_HOOK_RESET)
			continue;
		all++;
		stopped += !!(q->flags & KFD_SCHED_HOOK_MINE);
		/* What a debugger or its owner keeps off is no work for now. */
		if (q->flags & (KFD_SCHED_HOOK_OFF | KFD_SCHED_HOOK_EVICTED)) {
			off += !!(q->flags & KFD_SCHED_HOOK_EVICTED);
			continue;
		}
		if (used == GP_MOST_RINGS)
			continue;
		rings[used++] = (struct gpc_ring) {
			.base = q->ring_base,
			.bytes = q->ring_size,
			.read_index = q->read_pointer,
			.write_index = q->write_pointer,
			.is_aql = !!(q->flags & KFD_SCHED_HOOK_AQL),
		};
	}
	gp_fit_probe(t, used);
	if (t->probe)
		gpc_probe_set_rings(t->probe, rings, used);

	gp_lock();
	t->queues = min_t(unsigned int, all, U16_MAX);
	t->rings = used;
	t->evicted = off && !used;
	gp_note_stopped(t, min_t(unsigned int, stopped, U16_MAX),
			ktime_get_ns());
	gp_place(t);
	/* Stopped by us, but not as the core knows it. */
	if (t->stopped && !t->placed)
		t->stray = true;
	gp_unlock();
}

/* Lists all queues; the room grows with them. */
static int gp_list(struct gp_gpu *gpu)
{
	struct kfd_sched_hook_queue *queues;
	unsigned int room;
	int found;

	for (;;) {
		found = kfd_sched_get_queues(gp.host, gpu->id, gpu->queues,
					     gpu->queues_room);
		if (found <= (int)gpu->queues_room)
			return found;
		kfd_sched_put_queues(gpu->queues, gpu->queues_room);
		if (found > GP_MOST_QUEUES)
			return -E2BIG;
		room = max_t(unsigned int, GP_FIRST_QUEUES,
			     roundup_pow_of_two(found + found / 4));
		queues = kvcalloc(room, sizeof(*queues), GFP_KERNEL);
		if (!queues)
			return -ENOMEM;
		kvfree(gpu->queues);
		gpu->queues = queues;
		gpu->queues_room = room;
	}
}

/**
 * gp_tenants_sync - bring the tenants of a gpu up to date
 *
 * @gpu:	the gpu
 *
 * Called by its worker. Waits for a cycle that is under way. Returns an error
 * if the queues could not be listed, or there is no memory for a tenant, which
 * is not managed then: it has to be called again.
 */
int gp_tenants_sync(struct gp_gpu *gpu)
{
	struct gp_tenant *t, *next;
	int found, i, end, r = 0;

	found = gp_list(gpu);
	/* A gpu that is gone, as after a repartition, has no tenants. */
	if (found < 0 && found != -ENODEV)
		return found;

	/* Those that are gone leave their place to new ones. */
	list_for_each_entry(t, &gpu->tenants, list)
		t->listed = false;
	for (i = 0; i < found; i++) {
		if (i && gpu->queues[i].process == gpu->queues[i - 1].process)
			continue;
		t = gp_find_tenant(gpu, &gpu->queues[i]);
		if (t)
			t->listed = true;
	}
	list_for_each_entry_safe(t, next, &gpu->tenants, list)
		if (!t->listed)
			gp_free_tenant(t);

	for (i = 0; i < found; i = end) {
		for (end = i + 1; end < found; end++)
			if (gpu->queues[end].process != gpu->queues[i].process)
				break;
		t = gp_find_tenant(gpu, &gpu->queues[i]);
		if (!t)
			t = gp_new_tenant(gpu, &gpu->queues[i]);
		if (t)
			gp_set_queues(t, &gpu->queues[i], end - i);
		else
			r = -ENOMEM;
	}
	if (found > 0)
		kfd_sched_put_queues(gpu->queues, found);

	return r;
}

/* Forgets all tenants. There is no worker any more. */
void gp_tenants_free(struct gp_gpu *gpu)
{
	struct gp_tenant *t, *next;

	list_for_each_entry_safe(t, next, &gpu->tenants, list)
		gp_free_tenant(t);
	kvfree(gpu->queues);
	kvfree(gpu->rings);
	kvfree(gpu->requests);
	kvfree(gpu->acts);
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Lists of gpus, jobs and tenants, for GPREEMPT_IOC_QUERY and debugfs.
 */

#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/pid_namespace.h>
#include <linux/slab.h>
#include <linux/time_namespace.h>
#include <linux/uaccess.h>

#include "internal.h"

/* A start time as the caller reads it in /proc/PID/stat. */
u64 gp_start_time(u64 start_ns)
{
	return div_u64(timens_add_boottime_ns(start_ns),
		       NSEC_PER_SEC / USER_HZ);
}

/* Under gp.lock. */
void gp_gpu_status(const struct gp_gpu *gpu, struct gpreempt_gpu_status *to)
{
	struct gpc_gpu_state state = {};

	*to = gpu->status;
	to->flags = (gpu->managed ? GPREEMPT_GPU_MANAGED : 0) |
		    (gpu->resetting ? GPREEMPT_GPU_RESETTING : 0) |
		    (gpu->contested ? GPREEMPT_GPU_CONTESTED : 0);
	if (!gpu->managed || gpc_gpu_state(gp.core, gpu->index, &state))
		return;
	to->flags |= (state.measured ? GPREEMPT_GPU_MEASURED : 0) |
		     (state.overcommitted ? GPREEMPT_GPU_OVERCOMMITTED : 0);
	to->holder = gp_job_number(state.holder);
	to->cycle_ns = state.cycle_ns;
}

static void gp_job_status(const struct gp_job *job,
			  struct gpreempt_job_status *to)
{
	struct gpc_job_state state = {};

	*to = (struct gpreempt_job_status) {
		.job = job->number,
		.tenants = job->tenants,
	};
	if (gpc_job_state(gp.core, job->core, &state))
		return;
	to->phase = state.stopped;
	to->works = state.works;
	if (!state.stopped)
		return;
	to->reason = state.reason;
	to->cause = gp_job_number(state.cause);
	to->stopped_at_ns = state.stopped_at_ns;
}

/* Under gp.lock. */
void gp_tenant_status(const struct gp_tenant *t,
		      struct gpreempt_tenant_status *to)
{
	u64 now = ktime_get_ns();
	bool known = t->placed && t->gpu->contested;
	int index = t->probe ? gpc_probe_index(t->probe) : 0;

	*to = (struct gpreempt_tenant_status) {
		.pid = pid_nr_ns(t->pid, task_active_pid_ns(current)),
		.gpu_id = t->gpu->id,
		.start_time = gp_start_time(t->start_ns),
		.job = t->job ? t->job->number : 0,
		.activity = known ? READ_ONCE(t->activity) :
				    GPREEMPT_ACTIVITY_UNKNOWN,
		.flags = (t->placed && t->stoppable ?
					GPREEMPT_TENANT_STOPPABLE : 0) |
			 (t->armed ? GPREEMPT_TENANT_ARMED : 0) |
			 (t->cannot_arm ? GPREEMPT_TENANT_POLLED : 0) |
			 (t->away ? GPREEMPT_TENANT_AWAY : 0) |
			 (index > 0 && index & GPC_INDEX_RETIRES ?
					GPREEMPT_TENANT_RETIRES : 0) |
			 (t->no_room ? GPREEMPT_TENANT_NO_ROOM : 0),
		.queues = t->queues,
		.stopped_queues = t->stopped,
		.since_ns = t->since_ns,
		.stopped_at_ns = t->stopped_at,
		.pending = t->pending,
		.preempted = t->preempted,
		.stopped_ns = t->stopped_ns +
			      (t->stopped_at ? now - t->stopped_at : 0),
	};
}

static const size_t gp_record_sizes[] = {
	[GPREEMPT_QUERY_GPUS] = sizeof(struct gpreempt_gpu_status),
	[GPREEMPT_QUERY_JOBS] = sizeof(struct gpreempt_job_status),
	[GPREEMPT_QUERY_TENANTS] = sizeof(struct gpreempt_tenant_status),
};

/* Writes up to @room records. Returns how many there are. Under gp.lock. */
static u32 gp_list_gpus(struct gpreempt_gpu_status *to, u32 room)
{
	struct gp_gpu *gpu;
	u32 count = 0;

	list_for_each_entry(gpu, &gp.gpus, list)
		if (count++ < room)
			gp_gpu_status(gpu, to++);

	return count;
}

static u32 gp_list_jobs(struct gpreempt_job_status *to, u32 room)
{
	struct gp_job *job;
	u32 count = 0;
	int bucket;

	hash_for_each(gp.jobs, bucket, job, by_number)
		if (count++ < room)
			gp_job_status(job, to++);

	return count;
}

static u32 gp_list_tenants(struct gpreempt_tenant_status *to, u32 room)
{
	struct gp_tenant *t;
	struct gp_gpu *gpu;
	u32 count = 0;

	list_for_each_entry(gpu, &gp.gpus, list)
		list_for_each_entry(t, &gpu->tenants, list)
			if (count++ < room)
				gp_tenant_status(t, to++);

	return count;
}

static u32 gp_list_kind(u32 kind, void *to, u32 room)
{
	switch (kind) {
	case GPREEMPT_QUERY_GPUS:
		return gp_list_gpus(to, room);
	case GPREEMPT_QUERY_JOBS:
		return gp_list_jobs(to, room);
	default:
		return gp_list_tenants(to, room);
	}
}

/**
 * gp_query - list what exists
 *
 * @query:	what, and where it goes; gets the count
 */
int gp_query(struct gpreempt_query *query)
{
	u8 __user *to = u64_to_user_ptr(query->records);
	size_t size, known;
	u32 room, i;
	u8 *records;
	int r = 0;

	if (query->kind >= ARRAY_SIZE(gp_record_sizes) || query->reserved ||
	    query->record_size > PAGE_SIZE ||
	    (query->room && !query->record_size))
		return -EINVAL;
	size = gp_record_sizes[query->kind];
	known = min_t(size_t, size, query->record_size);
	/* More than there may be of anything. */
	room = min_t(u32, query->room, 2 * GPREEMPT_MAX_TENANTS);
	records = kvcalloc(max(room, 1U), size, GFP_KERNEL);
	if (!records)
		return -ENOMEM;

	gp_lock();
	query->count = gp_list_kind(query->kind, records, room);
	gp_unlock();

	for (i = 0; i < min(room, query->count) && !r; i++) {
		if (copy_to_user(to, records + i * size, known) ||
		    clear_user(to + known, query->record_size - known))
			r = -EFAULT;
		to += query->record_size;
	}
	kvfree(records);

	return r;
}

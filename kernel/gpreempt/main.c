// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A preemptive priority scheduler for the compute queues of AMD gpus.
 *
 * The driver tells of queues, doorbells, completions and resets, and switches
 * sets of processes in one runlist cycle (kfd_sched_hooks.h). A policy host in
 * user space says which jobs there are (uapi/gpreempt.h). The core, which is
 * the daemon's, decides (gpreempt_core.h).
 */

#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "internal.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

struct gp gp;

/* A decision goes through all places, used or not. */
static unsigned int max_jobs = 256;
module_param(max_jobs, uint, 0444);
MODULE_PARM_DESC(max_jobs, "Most jobs (default 256, at most 1024)");

static unsigned int max_tenants = 512;
module_param(max_tenants, uint, 0444);
MODULE_PARM_DESC(max_tenants, "Most processes on gpus (default 512, at most 4096)");

module_param_named(events, gp_events, uint, 0444);
MODULE_PARM_DESC(events, "Events that are kept for readers (default 4096)");

unsigned int gp_watchdog_ms = 3000;
module_param_named(watchdog_ms, gp_watchdog_ms, uint, 0644);
MODULE_PARM_DESC(watchdog_ms, "Time after which a worker counts as stuck and everything is resumed (default 3000)");

struct gp_gpu *gp_find_gpu(u32 id)
{
	struct gp_gpu *gpu;

	list_for_each_entry(gpu, &gp.gpus, list)
		if (gpu->id == id)
			return gpu;

	return NULL;
}

static void gp_note_bell(struct gp_gpu *gpu, pid_t tgid)
{
	unsigned long flags;

	spin_lock_irqsave(&gpu->bells_lock, flags);
	if (gpu->num_bells < GP_MOST_BELLS)
		gpu->bells[gpu->num_bells++] = (struct gp_bell) {
			.tgid = tgid,
			.at_ns = ktime_get_ns(),
		};
	else
		gpu->bells_lost = true;
	spin_unlock_irqrestore(&gpu->bells_lock, flags);
	gp_wake(gpu, GP_WAKE_DOORBELL);
}

/* Work of a process has ended, on some gpu: it matters where others wait for it. */
static void gp_note_completed(pid_t tgid)
{
	struct gp_gpu *gpu;

	list_for_each_entry(gpu, &gp.gpus, list)
		if (test_bit(hash_32(tgid, GP_PID_BITS), gpu->working))
			gp_wake(gpu, GP_WAKE_COMPLETED);
}

/* Called with locks of the driver held, and in page faults: it only wakes. */
static void gp_notify(const struct kfd_sched_hooks *hooks,
		      enum kfd_sched_event event, u32 gpu_id, pid_t pid)
{
	struct gp_gpu *gpu = gp_find_gpu(gpu_id);

	if (event == KFD_SCHED_EVENT_COMPLETED) {
		gp_note_completed(pid);
		return;
	}
	/* Its queues are destroyed when we have given it back, on all gpus. */
	if (event == KFD_SCHED_EVENT_EXIT) {
		gp_wake_all(GP_WAKE_QUEUES);
		return;
	}
	if (!gpu)
		return;

	switch (event) {
	case KFD_SCHED_EVENT_QUEUES:
		gp_wake(gpu, GP_WAKE_QUEUES);
		break;
	case KFD_SCHED_EVENT_DOORBELL:
		gp_note_bell(gpu, pid);
		break;
	case KFD_SCHED_EVENT_RESET:
		gp_wake(gpu, GP_WAKE_RESET);
		break;
	case KFD_SCHED_EVENT_RECOVERED:
		gp_wake(gpu, GP_WAKE_RECOVERED);
		break;
	default:
		break;
	}
}

static const struct kfd_sched_hooks gp_hooks = {
	.version = KFD_SCHED_HOOKS_VERSION,
	.owner = THIS_MODULE,
	.notify = gp_notify,
};

static int __init gp_init_core(void)
{
	/* The core has one gpu at least, which is never used if there is none. */
	const u32 gpus = max(gp.num_gpus, 1U);
	size_t size;

	gp.max_jobs = clamp(max_jobs, 1U, (unsigned int)GPREEMPT_MAX_JOBS);
	gp.max_tenants = clamp(max_tenants, 1U,
			       (unsigned int)GPREEMPT_MAX_TENANTS);
	size = gpc_size(gpus, gp.max_jobs, gp.max_tenants);
	if (!size)
		return -EINVAL;
	gp.core = vzalloc(size);
	gp.entries = vcalloc(gp.max_tenants, sizeof(*gp.entries));
	gp.jobs_here = vcalloc(gp.max_jobs, sizeof(*gp.jobs_here));
	if (!gp.core || !gp.entries || !gp.jobs_here)
		return -ENOMEM;

	return gpc_init(gp.core, size, gpus, gp.max_jobs, gp.max_tenants);
}

static int __init gp_init_gpus(void)
{
	unsigned int index = 0;
	struct gp_gpu *gpu;
	u32 id;

	gp.all_gpus = kvcalloc(GPREEMPT_MAX_GPUS, sizeof(*gp.all_gpus),
			       GFP_KERNEL);
	if (!gp.all_gpus)
		return -ENOMEM;
	while (gp.num_gpus < GPREEMPT_MAX_GPUS) {
		id = kfd_sched_next_gpu(&index);
		if (!id)
			break;
		gpu = &gp.all_gpus[gp.num_gpus];
		gpu->id = id;
		gpu->index = gp.num_gpus;
		gpu->compute_units = max(kfd_sched_compute_units(id), 1);
		gpu->due_at = GP_NEVER;
		gpu->status.gpu_id = id;
		INIT_LIST_HEAD(&gpu->tenants);
		spin_lock_init(&gpu->bells_lock);
		gpu->rings = kvcalloc(GP_MOST_RINGS, sizeof(*gpu->rings),
				      GFP_KERNEL);
		list_add_tail(&gpu->list, &gp.gpus);
		gp.num_gpus++;
		if (!gpu->rings)
			return -ENOMEM;
	}

	/* Without a gpu there is nothing to schedule, and nothing is done. */
	return 0;
}

/* Workers begin with a list of all queues. */
static int __init gp_start_workers(void)
{
	struct task_struct *task;
	struct gp_gpu *gpu;

	list_for_each_entry(gpu, &gp.gpus, list) {
		task = kthread_create(gp_worker, gpu, "gpreempt/%u", gpu->id);
		if (IS_ERR(task))
			return PTR_ERR(task);
		gpu->worker = get_task_struct(task);
		gp_wake(gpu, GP_WAKE_QUEUES);
	}

	return 0;
}

static void gp_stop(void)
{
	struct gp_gpu *gpu;

	/* No worker stops anything any more, and then everything is resumed. */
	list_for_each_entry(gpu, &gp.gpus, list)
		if (gpu->worker)
			kthread_stop(gpu->worker);
	gp_watchdog_exit();
	if (!IS_ERR_OR_NULL(gp.host))
		kfd_sched_unregister(gp.host);
	list_for_each_entry(gpu, &gp.gpus, list)
		if (gpu->worker)
			put_task_struct(gpu->worker);
}

static void gp_free(void)
{
	struct gp_gpu *gpu;

	if (gp.core)
		gp_clear();
	list_for_each_entry(gpu, &gp.gpus, list)
		gp_tenants_free(gpu);
	gp_events_exit();
	kvfree(gp.all_gpus);
	vfree(gp.jobs_here);
	vfree(gp.entries);
	vfree(gp.core);
}

static int __init gp_module_init(void)
{
	int r;

	rt_mutex_init(&gp.lock);
	hash_init(gp.jobs);
	hash_init(gp.jobs_by_core);
	hash_init(gp.processes);
	hash_init(gp.tenants_by_core);
	INIT_LIST_HEAD(&gp.gpus);
	INIT_LIST_HEAD(&gp.cgroups);
	gp.core_wake = GP_NEVER;
	gp.classify_at = GP_NEVER;
	gp.settings = (struct gpreempt_settings) {
		.mode = GPREEMPT_MODE_OBSERVE,
		.watch = GPREEMPT_WATCH_DOORBELL,
		.period_us = 1000,
		.net_ms = 100,
		.grace = U32_MAX,
	};
	gp_watchdog_init();
	INIT_DELAYED_WORK(&gp.expire, gp_expire);

	r = gp_events_init();
	if (!r)
		r = gp_init_gpus();
	if (!r)
		r = gp_init_core();
	if (r)
		goto free;

	gp.host = kfd_sched_register(&gp_hooks);
	if (IS_ERR(gp.host)) {
		r = PTR_ERR(gp.host);
		goto free;
	}
	r = gp_start_workers();
	if (r)
		goto stop;
	gp_stats_init();
	r = gp_control_init();
	if (!r)
		return 0;
	gp_stats_exit();
stop:
	gp_stop();
free:
	gp_free();
	return r;
}

static void __exit gp_module_exit(void)
{
	gp_control_exit();
	cancel_delayed_work_sync(&gp.expire);
	gp_stats_exit();
	gp_stop();
	gp_free();
}

module_init(gp_module_init);
module_exit(gp_module_exit);
MODULE_DESCRIPTION("Preemptive priority scheduler for compute queues of AMD gpus");
MODULE_LICENSE("Dual MIT/GPL");

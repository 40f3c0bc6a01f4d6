// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Statistics, and /sys/kernel/debug/gpreempt.
 */

#include <linux/debugfs.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "internal.h"

void gp_times_note(struct gpreempt_times *times, u64 ns)
{
	u64 us = div_u64(ns, NSEC_PER_USEC);
	unsigned int bucket = us ? ilog2(us) + 1 : 0;

	times->count++;
	times->sum_ns += ns;
	times->max_ns = max(times->max_ns, ns);
	times->buckets[min(bucket, GPREEMPT_BUCKETS - 1U)]++;
}

static void gp_show_times(struct seq_file *file, const char *name,
			  const struct gpreempt_times *times)
{
	seq_printf(file, "%s_count %llu\n", name, times->count);
	seq_printf(file, "%s_sum_ns %llu\n", name, times->sum_ns);
	seq_printf(file, "%s_max_ns %llu\n", name, times->max_ns);
}

/* The counters of a gpu, by name. */
static const struct {
	const char *name;
	size_t offset;
} gp_counters[] = {
	{ "holder", offsetof(struct gpreempt_gpu_status, holder) },
	{ "cycle_ns", offsetof(struct gpreempt_gpu_status, cycle_ns) },
	{ "inversions", offsetof(struct gpreempt_gpu_status, inversions) },
	{ "preempts", offsetof(struct gpreempt_gpu_status, preempts) },
	{ "resumes", offsetof(struct gpreempt_gpu_status, resumes) },
	{ "failures", offsetof(struct gpreempt_gpu_status, failures) },
	{ "cycles", offsetof(struct gpreempt_gpu_status, cycles) },
	{ "switches", offsetof(struct gpreempt_gpu_status, switches) },
	{ "wakeups", offsetof(struct gpreempt_gpu_status, wakeups) },
	{ "wakeups_doorbell", offsetof(struct gpreempt_gpu_status, wakeups_doorbell) },
	{ "wakeups_completed", offsetof(struct gpreempt_gpu_status, wakeups_completed) },
	{ "wakeups_queues", offsetof(struct gpreempt_gpu_status, wakeups_queues) },
	{ "wakeups_period", offsetof(struct gpreempt_gpu_status, wakeups_period) },
	{ "wakeups_net", offsetof(struct gpreempt_gpu_status, wakeups_net) },
	{ "wakeups_core", offsetof(struct gpreempt_gpu_status, wakeups_core) },
	{ "missed_by_doorbell", offsetof(struct gpreempt_gpu_status, missed_by_doorbell) },
	{ "looks", offsetof(struct gpreempt_gpu_status, looks) },
	{ "look_queues", offsetof(struct gpreempt_gpu_status, look_queues) },
	{ "away", offsetof(struct gpreempt_gpu_status, away) },
	{ "armed", offsetof(struct gpreempt_gpu_status, armed) },
	{ "arm_failed", offsetof(struct gpreempt_gpu_status, arm_failed) },
	{ "watchdog", offsetof(struct gpreempt_gpu_status, watchdog) },
};

static int stats_show(struct seq_file *file, void *unused)
{
	struct gpreempt_gpu_status *status;
	unsigned int i;

	status = kzalloc(sizeof(*status), GFP_KERNEL);
	if (!status)
		return -ENOMEM;
	gp_lock();
	gp_gpu_status(file->private, status);
	gp_unlock();

	seq_printf(file, "gpu_id %u\nflags %u\n", status->gpu_id,
		   status->flags);
	for (i = 0; i < ARRAY_SIZE(gp_counters); i++)
		seq_printf(file, "%s %llu\n", gp_counters[i].name,
			   *(u64 *)((u8 *)status + gp_counters[i].offset));
	gp_show_times(file, "detection", &status->detection);
	gp_show_times(file, "decision", &status->decision);
	gp_show_times(file, "look", &status->look);
	gp_show_times(file, "preempt", &status->preempt);
	gp_show_times(file, "resume", &status->resume);
	gp_show_times(file, "stopped", &status->stopped);
	kfree(status);

	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

static int tenants_show(struct seq_file *file, void *unused)
{
	struct gp_gpu *gpu = file->private;
	struct gpreempt_tenant_status status;
	struct gp_tenant *t;

	gp_lock();
	list_for_each_entry(t, &gpu->tenants, list) {
		gp_tenant_status(t, &status);
		seq_printf(file, "pid %d job %llu activity %u flags %u queues %u stopped_queues %u pending %llu preempted %llu stopped_ns %llu\n",
			   status.pid, status.job, status.activity,
			   status.flags, status.queues, status.stopped_queues,
			   status.pending, status.preempted, status.stopped_ns);
	}
	gp_unlock();

	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tenants);

void gp_stats_init(void)
{
	struct gp_gpu *gpu;
	char name[16];

	gp.directory = debugfs_create_dir("gpreempt", NULL);
	list_for_each_entry(gpu, &gp.gpus, list) {
		scnprintf(name, sizeof(name), "%u", gpu->id);
		gpu->directory = debugfs_create_dir(name, gp.directory);
		debugfs_create_file("stats", 0400, gpu->directory, gpu,
				    &stats_fops);
		debugfs_create_file("tenants", 0400, gpu->directory, gpu,
				    &tenants_fops);
	}
}

void gp_stats_exit(void)
{
	debugfs_remove(gp.directory);
}

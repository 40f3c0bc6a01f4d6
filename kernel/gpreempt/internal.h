/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The scheduler in the kernel: what its files share.
 *
 * One core (gpreempt_core.h) decides for all gpus, under one lock. Each gpu has
 * a worker, which alone looks at the tenants of the gpu and switches them. It
 * does both without the lock: looking reads memory of processes, switching
 * waits for the driver.
 *
 * Lock order: gp.lock, then the locks of bells and events. Functions of the
 * driver are called with none of them held; notify() takes that of the bells
 * with locks of the driver held.
 */

#ifndef GPREEMPT_INTERNAL_H_INCLUDED
#define GPREEMPT_INTERNAL_H_INCLUDED

#include <linux/bitmap.h>
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/pid.h>
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "kfd_sched_hooks.h"
#include "gpreempt_core.h"

struct cgroup;
struct dentry;
struct file;
struct poll_table_struct;

/* Of a tenant with more queues, these are looked at. */
#define GP_MOST_RINGS		255
#define GP_MOST_BELLS		32
#define GP_PID_BITS		8
#define GP_HASH_BITS		8
#define GP_NEVER		U64_MAX

/* Why a worker is woken: bits of gp_gpu.pending. */
enum gp_wake {
	GP_WAKE_DOORBELL,
	GP_WAKE_COMPLETED,
	GP_WAKE_QUEUES,
	GP_WAKE_RESET,
	GP_WAKE_RECOVERED,
	/* Another worker has planned entries for this gpu. */
	GP_WAKE_ENTRIES,
	GP_WAKE_POLICY,
	/* These are no bits: the time that was waited for has come. */
	GP_WAKE_CORE,
	GP_WAKE_PERIOD,
	GP_WAKE_NET,
	GP_WAKE_OTHER,
};

/* A store to an armed doorbell. */
struct gp_bell {
	pid_t tgid;
	u64 at_ns;
};

/* A job of the policy. Under gp.lock. */
struct gp_job {
	struct hlist_node by_number;
	struct hlist_node by_core;
	/* The number that the policy host gave it, and the core's. */
	u64 number;
	u64 core;
	u64 hold_until_ns;
	unsigned int tenants;
	/* Scratch of gp_classify(). */
	bool counted;
	bool displaces;
	bool could_stop;
};

/* The job that the policy has for a process. Under gp.lock. */
struct gp_process {
	struct hlist_node node;
	struct pid *pid;
	u64 job;
	bool stoppable;
};

/* The job that the policy has for a cgroup. Under gp.lock. */
struct gp_cgroup {
	struct list_head list;
	struct cgroup *cgroup;
	u64 job;
	bool stoppable;
};

/**
 * struct gp_tenant - a process on a gpu
 *
 * Only the worker of the gpu makes and frees tenants, and it alone uses the
 * first group of fields, some of which others read. The second is under
 * gp.lock.
 */
struct gp_tenant {
	struct list_head list;
	struct gp_gpu *gpu;
	struct kfd_process *process;
	struct pid *pid;
	pid_t tgid;
	u64 start_ns;

	struct gpc_probe *probe;
	u32 probe_room;
	/* Queues that are not lost, of them those stopped by us, and those looked at. */
	u16 queues;
	u16 stopped;
	u16 rings;
	bool evicted;
	bool listed;
	bool looked;
	bool risen;
	bool changed;
	bool rang;
	/* The net has seen its work while its doorbells were armed. */
	bool missed;
	bool wants_sample;

	u32 activity;
	u32 unsure;
	u64 looked_at;
	/* The last look that showed no work. */
	u64 clear_at;
	u64 since_ns;
	u64 pending;
	u64 away_since;
	u64 faulted_at;
	u64 bell_at;

	bool armed;
	bool cannot_arm;
	u64 arm_at;

	u64 sampled_at;
	u64 occupancy_at;
	s32 occupancy;

	struct hlist_node by_core;
	bool placed;
	bool stoppable;
	bool no_room;
	bool upper;
	bool away;
	/* It is stopped, and the core does not know it any more. */
	bool stray;
	bool planned;
	u64 core;
	struct gp_job *job;
	struct gpc_entry entry;
	u64 planned_at;
	u64 noticed_at;
	u64 stopped_at;
	u64 stopped_ns;
	u64 preempted;
};

/* An entry that is being carried out. A stray has no number. */
struct gp_act {
	struct gp_tenant *tenant;
	struct gpc_entry entry;
	u64 planned_at;
};

/* A gpu, and its worker. */
struct gp_gpu {
	struct list_head list;
	u32 id;
	u32 index;
	unsigned int compute_units;
	struct task_struct *worker;

	/* enum gp_wake. */
	unsigned long pending;
	/* Completions of these processes matter now, by hash. */
	DECLARE_BITMAP(working, 1 << GP_PID_BITS);
	spinlock_t bells_lock; /* for the next three */
	struct gp_bell bells[GP_MOST_BELLS];
	unsigned int num_bells;
	bool bells_lost;

	/* When the worker has to have looked after its work: for the watchdog. */
	u64 due_at;

	/* The worker's own. */
	struct kfd_sched_hook_queue *queues;
	unsigned int queues_room;
	struct gpc_ring *rings;
	/* The queues have to be listed again. */
	bool relist;
	bool index_refuted;
	u64 cycle_ended_at;
	u64 look_ns;
	u64 period_at;
	u64 net_at;

	/* Under gp.lock; the worker may walk the list without it. */
	struct list_head tenants;
	unsigned int num_tenants;
	struct kfd_sched_hook_request *requests;
	struct gp_act *acts;
	unsigned int acts_room;
	bool managed;
	bool resetting;
	bool contested;
	u64 contested_since;
	u64 stray_at;
	struct gpreempt_gpu_status status;
	struct dentry *directory;
};

/* All there is. */
struct gp {
	struct rt_mutex lock;
	struct kfd_sched_host *host;
	struct gpc *core;
	u32 max_jobs;
	u32 max_tenants;
	struct gpc_entry *entries;
	/* When the core wants to decide again, and the worker that waits for it. */
	u64 core_wake;
	struct gp_gpu *core_waiter;

	/* Does not change while there are workers. */
	struct list_head gpus;
	struct gp_gpu *all_gpus;
	unsigned int num_gpus;

	struct gpreempt_settings settings;
	DECLARE_HASHTABLE(jobs, GP_HASH_BITS);
	DECLARE_HASHTABLE(jobs_by_core, GP_HASH_BITS);
	DECLARE_HASHTABLE(processes, GP_HASH_BITS);
	DECLARE_HASHTABLE(tenants_by_core, GP_HASH_BITS);
	struct list_head cgroups;
	unsigned int num_jobs;
	unsigned int num_processes;
	unsigned int num_cgroups;
	/* Members, levels or settings have changed since gp_classify(), or will have then. */
	bool unclassified;
	u64 classify_at;
	struct gp_job **jobs_here;

	/* The descriptor of the policy host, and what happens when there is none. */
	struct file *policy_host;
	u32 keep_ms;
	struct delayed_work expire;

	struct delayed_work watchdog;
	/* Tenants that are stopped. */
	atomic_t stopped;
	struct dentry *directory;
};

extern struct gp gp;

static inline void gp_lock(void)
{
	rt_mutex_lock(&gp.lock);
}

static inline void gp_unlock(void)
{
	rt_mutex_unlock(&gp.lock);
}

static inline bool gp_has_work(u32 activity)
{
	return activity == GPREEMPT_ACTIVITY_WANTS ||
	       activity == GPREEMPT_ACTIVITY_RUNNING;
}

/* Its work is on the gpu, as far as known. */
static inline bool gp_runs(const struct gp_tenant *t)
{
	return gp_has_work(t->activity) && t->stopped < t->queues;
}

/* main.c */
extern unsigned int gp_watchdog_ms;
struct gp_gpu *gp_find_gpu(u32 id);

/* worker.c */
void gp_wake(struct gp_gpu *gpu, enum gp_wake why);
void gp_wake_all(enum gp_wake why);
int gp_worker(void *gpu);

/* look.c */
bool gp_look_around(struct gp_gpu *gpu, bool all, bool net);
void gp_take_bells(struct gp_gpu *gpu);
void gp_sample(struct gp_gpu *gpu);
bool gp_arm(struct gp_gpu *gpu);

/* act.c */
bool gp_observe(struct gp_gpu *gpu);
void gp_observe_tenant(struct gp_tenant *t, u64 at);
void gp_decide(struct gp_gpu *gpu);
unsigned int gp_collect(struct gp_gpu *gpu);
void gp_act(struct gp_gpu *gpu, unsigned int count);
void gp_note_stopped(struct gp_tenant *t, u16 stopped, u64 now);

/* tenants.c */
int gp_tenants_sync(struct gp_gpu *gpu);
void gp_tenants_free(struct gp_gpu *gpu);

/* memory.c */
int gp_probe_process(struct gp_tenant *t, u64 now, struct gpc_activity *seen);
void gp_probe_sampled(struct gp_tenant *t, u64 at, int cus, bool alone);

/* policy.c */
struct gp_job *gp_find_job(u64 number);
u64 gp_job_number(u64 core);
int gp_set_gpu(struct gp_gpu *gpu, bool managed,
	       const struct gpreempt_gpu_params *params);
int gp_set_job(const struct gpreempt_job *job);
int gp_remove_job(u64 number);
int gp_set_process(struct pid *pid, u64 job, bool stoppable);
int gp_set_cgroup(struct cgroup *cgroup, u64 job, bool stoppable);
void gp_clear(void);
void gp_place(struct gp_tenant *t);
void gp_displace(struct gp_tenant *t);
void gp_classify(u64 now);
void gp_policy_changed(void);
void gp_set_mode(void);

/* control.c */
int gp_control_init(void);
void gp_control_exit(void);
void gp_expire(struct work_struct *work);

/* query.c */
int gp_query(struct gpreempt_query *query);
u64 gp_start_time(u64 start_ns);
void gp_tenant_status(const struct gp_tenant *t,
		      struct gpreempt_tenant_status *to);
void gp_gpu_status(const struct gp_gpu *gpu, struct gpreempt_gpu_status *to);

/* events.c */
extern unsigned int gp_events;
int gp_events_init(void);
void gp_events_exit(void);
void gp_event(struct gpreempt_event *event, struct pid *pid, u64 start_ns);
void gp_event_of(const struct gp_tenant *t, u32 kind);
void gp_event_gpu(const struct gp_gpu *gpu, u32 kind);
u64 gp_events_next(void);
ssize_t gp_events_read(struct file *file, u64 *next, char __user *to,
		       size_t size);
__poll_t gp_events_poll(struct file *file, u64 next,
			struct poll_table_struct *wait);

/* stats.c */
void gp_times_note(struct gpreempt_times *times, u64 ns);
void gp_stats_init(void);
void gp_stats_exit(void);

/* watchdog.c */
void gp_watchdog_init(void);
void gp_watchdog_exit(void);
void gp_watchdog_start(void);
void gp_resume_everything(void);

#endif

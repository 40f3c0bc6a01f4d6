/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The scheduling core and the rules of observation as C functions.
 *
 * They are Rust without a runtime: crates/gpreempt-core decides, and
 * crates/gpreempt-observe says what the queues of a process do. The caller
 * allocates, serialises and has the clock; no function sleeps, allocates or
 * keeps a pointer beyond its call, except to the memory that *_init() was
 * given. Errors are negative error numbers: -EINVAL for an argument that cannot
 * be, -ENOENT for what does not exist (any more), -ENOSPC for no room, -ESTALE
 * for a report of an entry that was planned again, -EBUSY for what is in use.
 * A structure that was not initialised, or moved, is -EINVAL as well.
 *
 * Settings have the layout of the control device (uapi/gpreempt.h).
 */

#ifndef GPREEMPT_CORE_H_INCLUDED
#define GPREEMPT_CORE_H_INCLUDED

#include <linux/types.h>
#include "gpreempt.h"

struct gpc;
struct gpc_probe;

/* Memory of a scheduler for so many gpus, jobs and tenants; zero if that cannot be. */
size_t gpc_size(u32 gpus, u32 jobs, u32 tenants);
/* Fills memory of that size, aligned to 64 bytes. The scheduler is what lies there. */
int gpc_init(void *memory, size_t size, u32 gpus, u32 jobs, u32 tenants);

int gpc_set_gpu(struct gpc *gpc, u32 gpu, const struct gpreempt_gpu_params *params);
int gpc_remove_gpu(struct gpc *gpc, u32 gpu);
int gpc_set_resetting(struct gpc *gpc, u32 gpu, bool resetting);

int gpc_add_job(struct gpc *gpc, const struct gpreempt_job_params *params, u64 *job);
int gpc_set_job(struct gpc *gpc, u64 job, const struct gpreempt_job_params *params);
int gpc_hold(struct gpc *gpc, u64 job, u64 until_ns);
int gpc_remove_job(struct gpc *gpc, u64 job);

int gpc_add_tenant(struct gpc *gpc, u64 job, u32 gpu, bool stoppable, u64 *tenant);
int gpc_set_stoppable(struct gpc *gpc, u64 tenant, bool stoppable);
int gpc_remove_tenant(struct gpc *gpc, u64 tenant);

/**
 * struct gpc_look - what was seen of a tenant
 *
 * @at_ns:	when
 * @since_ns:	since when it has, or lacks, work
 * @activity:	enum gpreempt_activity, not UNKNOWN
 * @occupancy:	share of the gpu in thousandths, or -1
 * @queues:	its queues
 * @stopped:	those that are stopped
 */
struct gpc_look {
	u64 at_ns;
	u64 since_ns;
	u32 activity;
	s32 occupancy;
	u16 queues;
	u16 stopped;
	u32 reserved;
};

int gpc_observe(struct gpc *gpc, u64 tenant, const struct gpc_look *look);

/* An entry of a plan. @cause is zero where there is none. */
struct gpc_entry {
	u64 number;
	u64 tenant;
	u64 job;
	u64 cause;
	u32 gpu;
	u32 preempt;
	u32 reason;
	u32 bound;
	u64 after_ns;
};

/*
 * Decides. @entries has room for as many entries as there may be tenants;
 * @wake_ns is when to decide again if nothing is seen. Returns the number of
 * entries. A plan costs one cycle of a gpu.
 */
int gpc_decide(struct gpc *gpc, u64 now_ns, struct gpc_entry *entries, u32 room, u64 *wake_ns);

/* @cycles or @stopped are negative where they are not known, or the driver refused. */
struct gpc_report {
	u64 at_ns;
	u64 took_ns;
	s32 cycles;
	s32 stopped;
};

int gpc_report(struct gpc *gpc, u64 tenant, u64 number, const struct gpc_report *report);

/* State of a job and of a gpu, for display. Return -ENOENT. */
struct gpc_job_state {
	u64 cause;
	u64 stopped_at_ns;
	u32 stopped;
	u32 reason;
	u32 works;
	u32 reserved;
};

struct gpc_gpu_state {
	u64 holder;
	u64 cycle_ns;
	u64 cycles;
	u32 measured;
	u32 overcommitted;
};

int gpc_job_state(const struct gpc *gpc, u64 job, struct gpc_job_state *state);
int gpc_gpu_state(const struct gpc *gpc, u32 gpu, struct gpc_gpu_state *state);

/* Whether the next decision may depend on a sample of the occupancy of a tenant. */
bool gpc_wants_occupancy(const struct gpc *gpc, u64 tenant);
/* The reason for which the policy could ever stop one job for another, or -ENOENT. */
int gpc_could_displace(const struct gpc *gpc, u64 upper, u64 lower, u32 gpu);
/* Whether the policy could ever stop a job although no other wants the gpu. */
bool gpc_could_throttle(const struct gpc *gpc, u64 job, u32 gpu);

/**
 * struct gpc_ring - where the ring of a queue is, in its process
 */
struct gpc_ring {
	u64 base;
	u64 bytes;
	u64 read_index;
	u64 write_index;
	u32 is_aql;
	u32 reserved;
};

/* Reading failed: the memory is gone for good, or not there now. */
#define GPC_READ_GONE	1
#define GPC_READ_AWAY	2

/**
 * struct gpc_memory - reads memory of a process
 *
 * @read:	copies @size bytes, at most 4096, from @address to @to. Must not
 *		sleep for the process. Returns zero, GPC_READ_GONE or
 *		GPC_READ_AWAY
 * @context:	for @read
 */
struct gpc_memory {
	int (*read)(void *context, u64 address, void *to, size_t size);
	void *context;
};

/**
 * struct gpc_activity - what a probe found
 *
 * @activity:	enum gpreempt_activity
 * @unsure:	only a sample of the occupancy can tell
 * @since_ns:	since when it has, or lacks, work
 * @pending:	packets that the read index has not passed
 */
struct gpc_activity {
	u32 activity;
	u32 unsure;
	u64 since_ns;
	u64 pending;
};

/* Memory of a probe of so many rings, and the probe in memory of that size, aligned to 64 bytes. */
size_t gpc_probe_size(u32 rings);
int gpc_probe_init(void *memory, size_t size, u32 rings);
/*
 * The rings are these now; what is known of those that stay is kept. Returns how
 * many found no room or cannot be.
 */
int gpc_probe_set_rings(struct gpc_probe *probe, const struct gpc_ring *rings, u32 count);
/*
 * Looks. -EAGAIN: memory is away, nothing is known to have changed; -EFAULT:
 * nothing can be read.
 */
int gpc_probe_poll(struct gpc_probe *probe, const struct gpc_memory *memory, u64 now_ns,
		   bool stopped, struct gpc_activity *activity);
/*
 * Takes a sample, and looks whether it says something about the read index.
 * @occupied_cus and @evicted_ms are negative where they are not known.
 */
int gpc_probe_sampled(struct gpc_probe *probe, const struct gpc_memory *memory, u64 at_ns,
		      s64 occupied_cus, s64 evicted_ms, bool alone);
/*
 * What is known of the read index: believed to wait for the end of packets; seen
 * to pass unfinished ones.
 */
#define GPC_INDEX_RETIRES	(1 << 0)
#define GPC_INDEX_REFUTED	(1 << 1)
int gpc_probe_index(const struct gpc_probe *probe);
/* The read index passes unfinished work on this gpu, by evidence of another tenant. */
int gpc_probe_refute(struct gpc_probe *probe);

#endif

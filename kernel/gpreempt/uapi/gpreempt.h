/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * /dev/gpreempt: the control device of the scheduler in the kernel.
 *
 * The module watches the compute queues of all processes, decides and switches.
 * A *policy host*, the gpreempt daemon, tells it what it cannot know: which job
 * a process belongs to, and the level of a job. Processes without a job are
 * never stopped, and nothing is stopped for them.
 *
 * Any number of descriptors may be open. GPREEMPT_IOC_CLAIM makes one of them
 * that of the policy host; it needs a descriptor that is open for writing, and
 * CAP_SYS_NICE or CAP_SYS_ADMIN in the initial user namespace. All calls that
 * set something are refused with EPERM on any other descriptor. When the last
 * copy of the policy host's descriptor is closed, its policy stays in force for
 * keep_ms; then everything is resumed and the policy is forgotten, unless
 * another policy host came.
 *
 * read() returns whole struct gpreempt_event, the oldest first; each descriptor
 * has its own position and begins with the next event after it was opened.
 * Events that were overwritten before they were read are counted in @lost of
 * the next one. poll() tells when there are some. Without CLAIM, read() needs
 * the capability.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Structures begin with their size in
 * bytes, as the caller knows them: a kernel that knows a longer one takes zeros
 * for the rest, and refuses bytes that it does not know with E2BIG unless they
 * are zero. Reserved fields must be zero. Unknown numbers, flags and values are
 * EINVAL.
 */

#ifndef _UAPI_GPREEMPT_H
#define _UAPI_GPREEMPT_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define GPREEMPT_ABI_VERSION		1

/* Most of each that a policy may have. */
#define GPREEMPT_MAX_GPUS		64
#define GPREEMPT_MAX_JOBS		1024
#define GPREEMPT_MAX_TENANTS		4096
#define GPREEMPT_MAX_CGROUPS		256

/**
 * struct gpreempt_version - what the module is
 *
 * @size:	size of the structure
 * @abi:	GPREEMPT_ABI_VERSION
 * @hooks:	version of the hooks of the driver that it uses
 * @features:	GPREEMPT_FEATURE_*
 * @max_jobs:	room for jobs
 * @max_tenants: room for tenants
 */
struct gpreempt_version {
	__u32 size;
	__u32 abi;
	__u32 hooks;
	__u32 features;
	__u32 max_jobs;
	__u32 max_tenants;
};

/* Doorbells can be armed: no polling while tenants are idle. */
#define GPREEMPT_FEATURE_DOORBELLS	(1 << 0)
/* Jobs can be given by cgroup. */
#define GPREEMPT_FEATURE_CGROUPS	(1 << 1)

/**
 * struct gpreempt_claim - become the policy host
 *
 * @size:	size of the structure
 * @keep_ms:	how long the policy stays in force without a policy host
 *
 * The policy of an earlier policy host stays until it is changed; one that
 * begins anew calls GPREEMPT_IOC_CLEAR. EBUSY while there is a policy host.
 */
struct gpreempt_claim {
	__u32 size;
	__u32 keep_ms;
};

enum gpreempt_mode {
	/* Nothing is stopped; what would be is told as events. */
	GPREEMPT_MODE_OBSERVE = 0,
	GPREEMPT_MODE_ENFORCE = 1,
};

enum gpreempt_watch {
	/* Look at the indices of queues every period. */
	GPREEMPT_WATCH_POLL = 0,
	/*
	 * Be told by a page fault of the first doorbell; look every period only
	 * while work is on the gpu.
	 */
	GPREEMPT_WATCH_DOORBELL = 1,
};

/**
 * struct gpreempt_settings - how the module works
 *
 * @size:	size of the structure
 * @mode:	enum gpreempt_mode
 * @watch:	enum gpreempt_watch
 * @period_us:	time between two looks, 50 to 1000000
 * @net_ms:	time between two looks at tenants whose doorbells are armed,
 *		10 to 60000: stores of the gpu itself do not fault
 * @grace:	how long waves may run on before they are saved, in the unit of
 *		the driver, or 0xffffffff for its own
 */
struct gpreempt_settings {
	__u32 size;
	__u32 mode;
	__u32 watch;
	__u32 period_us;
	__u32 net_ms;
	__u32 grace;
};

enum gpreempt_policy {
	GPREEMPT_POLICY_PRIORITY = 0,
	GPREEMPT_POLICY_FAIR = 1,
	GPREEMPT_POLICY_DEADLINE = 2,
};

/**
 * struct gpreempt_gpu_params - settings of a gpu
 *
 * As GpuParams of the scheduling core, where they are described.
 */
struct gpreempt_gpu_params {
	__u32 policy;
	__u32 cycles_per_second;
	__u32 cycle_burst;
	__u16 small_permille;
	__u16 weigh;
	__u64 slice_ns;
	__u64 linger_max_ns;
	__u64 cycle_estimate_ns;
	__u64 report_timeout_ns;
};

/**
 * struct gpreempt_gpu - a gpu and its settings
 *
 * @size:	size of the structure
 * @gpu_id:	the driver's id of the gpu
 * @managed:	0: left to the hardware
 * @reserved:	zero
 * @params:	its settings
 */
struct gpreempt_gpu {
	__u32 size;
	__u32 gpu_id;
	__u32 managed;
	__u32 reserved;
	struct gpreempt_gpu_params params;
};

enum gpreempt_patience {
	GPREEMPT_PATIENCE_FIXED = 0,
	GPREEMPT_PATIENCE_ADAPTIVE = 1,
};

/**
 * struct gpreempt_job_params - settings of a job
 *
 * As JobParams of the scheduling core, where they are described.
 */
struct gpreempt_job_params {
	__u8 level;
	__u8 patience;
	__u16 stop_share_permille;
	__u16 weight;
	__u16 request_permille;
	__u16 limit_permille;
	__u16 reserved[3];
	__u64 patience_ns;
	__u64 min_run_ns;
	__u64 max_stop_ns;
	__u64 age_step_ns;
	__u64 period_ns;
	__u64 deadline_ns;
	__u64 runtime_ns;
};

/**
 * struct gpreempt_job - a job and its settings
 *
 * @size:	size of the structure
 * @reserved:	zero
 * @job:	its number, chosen by the policy host; not zero
 * @hold_until_ns: stopped until then; zero: not held
 * @params:	its settings
 */
struct gpreempt_job {
	__u32 size;
	__u32 reserved;
	__u64 job;
	__u64 hold_until_ns;
	struct gpreempt_job_params params;
};

/**
 * struct gpreempt_remove_job - end a job
 *
 * @size:	size of the structure
 * @reserved:	zero
 * @job:	its number
 *
 * Its processes belong to no job then, and run.
 */
struct gpreempt_remove_job {
	__u32 size;
	__u32 reserved;
	__u64 job;
};

/* The process may be stopped. Without it, its job is protected only. */
#define GPREEMPT_PROCESS_STOPPABLE	(1 << 0)

/**
 * struct gpreempt_process - the job of a process
 *
 * @size:	size of the structure
 * @pid:	the process, in the namespace of the caller
 * @start_time:	its start in clock ticks since boot, as in /proc/PID/stat:
 *		another process of that number is ESRCH
 * @job:	its job; zero: none
 * @flags:	GPREEMPT_PROCESS_*
 * @reserved:	zero
 *
 * Valid until the process ends, whether it has queues or not. It comes before
 * what cgroups say.
 */
struct gpreempt_process {
	__u32 size;
	__s32 pid;
	__u64 start_time;
	__u64 job;
	__u32 flags;
	__u32 reserved;
};

/**
 * struct gpreempt_cgroup - the job of a cgroup
 *
 * @size:	size of the structure
 * @fd:		a descriptor of a directory of the cgroup v2 file system
 * @job:	the job of all processes there and below, but for those that a
 *		nearer cgroup or GPREEMPT_IOC_SET_PROCESS names; zero: none any
 *		more
 * @flags:	GPREEMPT_PROCESS_*
 * @reserved:	zero
 */
struct gpreempt_cgroup {
	__u32 size;
	__s32 fd;
	__u64 job;
	__u32 flags;
	__u32 reserved;
};

enum gpreempt_query_kind {
	/* struct gpreempt_gpu_status */
	GPREEMPT_QUERY_GPUS = 0,
	/* struct gpreempt_job_status */
	GPREEMPT_QUERY_JOBS = 1,
	/* struct gpreempt_tenant_status */
	GPREEMPT_QUERY_TENANTS = 2,
};

/**
 * struct gpreempt_query - list what exists
 *
 * @size:	size of the structure
 * @kind:	enum gpreempt_query_kind
 * @records:	where records are written to
 * @record_size: size of one, as the caller knows it
 * @room:	how many fit
 * @count:	out: how many there are, of which @room at most were written
 * @reserved:	zero
 *
 * Needs the capability.
 */
struct gpreempt_query {
	__u32 size;
	__u32 kind;
	__u64 records;
	__u32 record_size;
	__u32 room;
	__u32 count;
	__u32 reserved;
};

/* Flags of a struct gpreempt_gpu_status. */
#define GPREEMPT_GPU_MANAGED		(1 << 0)
#define GPREEMPT_GPU_RESETTING		(1 << 1)
/* Jobs there could get into each other's way. */
#define GPREEMPT_GPU_CONTESTED		(1 << 2)
/* A cycle was measured. */
#define GPREEMPT_GPU_MEASURED		(1 << 3)
/* Its deadline jobs together need more than all of its time. */
#define GPREEMPT_GPU_OVERCOMMITTED	(1 << 4)

/*
 * Times of one kind: how often, their sum, the longest, and a histogram whose
 * bucket n has those below 2^n us.
 */
#define GPREEMPT_BUCKETS		24
struct gpreempt_times {
	__u64 count;
	__u64 sum_ns;
	__u64 max_ns;
	__u64 buckets[GPREEMPT_BUCKETS];
};

/**
 * struct gpreempt_gpu_status - state and statistics of a gpu
 *
 * Counters have the names of the daemon's statistics (docs/control.md).
 *
 * @gpu_id:		the driver's id
 * @flags:		GPREEMPT_GPU_*
 * @holder:		the job that has the gpu reserved, or zero
 * @cycle_ns:		time of a cycle, measured or estimated
 * @inversions:		bursts that met work which they could displace
 * @preempts:		tenants stopped
 * @resumes:		tenants resumed
 * @failures:		entries of plans that the driver refused
 * @cycles:		runlist cycles of the module's switches
 * @switches:		switches
 * @wakeups:		times the worker woke
 * @wakeups_doorbell:	because of an armed doorbell
 * @wakeups_completed:	because of a completion interrupt
 * @wakeups_queues:	because queues came, went or were evicted
 * @wakeups_period:	because a period was over
 * @wakeups_net:	because the net was due
 * @wakeups_core:	because the core had asked for it
 * @missed_by_doorbell:	bursts of armed tenants that the net saw first
 * @looks:		tenants looked at
 * @look_queues:	queues looked at
 * @away:		looks that met memory which was not there
 * @armed:		times doorbells were armed
 * @arm_failed:		times that failed
 * @watchdog:		times the watchdog resumed everything
 * @detection:		from the last look without work, or the doorbell, to the
 *			look that saw it
 * @decision:		time of a decision
 * @look:		time of a look at all tenants that were looked at
 * @preempt:		from decision to the driver's answer, stops
 * @resume:		the same, resumes
 * @stopped:		how long tenants were stopped
 */
struct gpreempt_gpu_status {
	__u32 gpu_id;
	__u32 flags;
	__u64 holder;
	__u64 cycle_ns;
	__u64 inversions;
	__u64 preempts;
	__u64 resumes;
	__u64 failures;
	__u64 cycles;
	__u64 switches;
	__u64 wakeups;
	__u64 wakeups_doorbell;
	__u64 wakeups_completed;
	__u64 wakeups_queues;
	__u64 wakeups_period;
	__u64 wakeups_net;
	__u64 wakeups_core;
	__u64 missed_by_doorbell;
	__u64 looks;
	__u64 look_queues;
	__u64 away;
	__u64 armed;
	__u64 arm_failed;
	__u64 watchdog;
	struct gpreempt_times detection;
	struct gpreempt_times decision;
	struct gpreempt_times look;
	struct gpreempt_times preempt;
	struct gpreempt_times resume;
	struct gpreempt_times stopped;
};

/**
 * struct gpreempt_job_status - state of a job
 *
 * @job:	its number
 * @phase:	0 runs, 1 stopped
 * @reason:	enum gpreempt_reason of the stop
 * @cause:	job for which it was stopped, or zero
 * @stopped_at_ns: since when
 * @tenants:	tenants that it has
 * @works:	whether it had work at the last decision
 */
struct gpreempt_job_status {
	__u64 job;
	__u32 phase;
	__u32 reason;
	__u64 cause;
	__u64 stopped_at_ns;
	__u32 tenants;
	__u32 works;
};

enum gpreempt_activity {
	GPREEMPT_ACTIVITY_IDLE = 0,
	GPREEMPT_ACTIVITY_WANTS = 1,
	GPREEMPT_ACTIVITY_RUNNING = 2,
	GPREEMPT_ACTIVITY_BLOCKED = 3,
	GPREEMPT_ACTIVITY_EVICTED = 4,
	/* Nobody looked: no two jobs compete for the gpu. */
	GPREEMPT_ACTIVITY_UNKNOWN = 5,
};

/* Flags of a struct gpreempt_tenant_status. */
#define GPREEMPT_TENANT_STOPPABLE	(1 << 0)
/* Its doorbells are armed. */
#define GPREEMPT_TENANT_ARMED		(1 << 1)
/* Its doorbells cannot be armed: it is polled. */
#define GPREEMPT_TENANT_POLLED		(1 << 2)
/* Its memory could not be read at the last look. */
#define GPREEMPT_TENANT_AWAY		(1 << 3)
/* Its read index is known to pass packets only when they have retired. */
#define GPREEMPT_TENANT_RETIRES		(1 << 4)
/* There was no room for it: it is not managed. */
#define GPREEMPT_TENANT_NO_ROOM		(1 << 5)

/**
 * struct gpreempt_tenant_status - state of a process on a gpu
 *
 * @pid:	the process, in the namespace of the caller; zero if it is not
 *		seen there
 * @gpu_id:	the gpu
 * @start_time:	as in struct gpreempt_process
 * @job:	its job, or zero
 * @activity:	enum gpreempt_activity
 * @flags:	GPREEMPT_TENANT_*
 * @queues:	its compute queues
 * @stopped_queues: those that the module has stopped
 * @since_ns:	since when it has, or lacks, work
 * @stopped_at_ns: since when it is stopped, or zero
 * @pending:	packets that the read index has not passed
 * @preempted:	how often it was stopped
 * @stopped_ns:	how long, in all
 */
struct gpreempt_tenant_status {
	__s32 pid;
	__u32 gpu_id;
	__u64 start_time;
	__u64 job;
	__u32 activity;
	__u32 flags;
	__u32 queues;
	__u32 stopped_queues;
	__u64 since_ns;
	__u64 stopped_at_ns;
	__u64 pending;
	__u64 preempted;
	__u64 stopped_ns;
};

/* Why an entry was planned: Reason of the scheduling core. */
enum gpreempt_reason {
	GPREEMPT_REASON_HIGHER_WANTS = 0,
	GPREEMPT_REASON_SLICE_OVER = 1,
	GPREEMPT_REASON_SHARE_DUE = 2,
	GPREEMPT_REASON_LIMIT_REACHED = 3,
	GPREEMPT_REASON_EARLIER_DEADLINE = 4,
	GPREEMPT_REASON_HELD = 5,
	GPREEMPT_REASON_JOB_STOPPED = 6,
	GPREEMPT_REASON_NOTHING_ABOVE = 7,
	GPREEMPT_REASON_TURN_DUE = 8,
	GPREEMPT_REASON_AGED = 9,
	GPREEMPT_REASON_STOP_SHARE_SPENT = 10,
	GPREEMPT_REASON_RELEASED = 11,
	GPREEMPT_REASON_GAVE_UP = 12,
};

/* What set the time of an entry: Bound of the scheduling core. */
enum gpreempt_bound {
	GPREEMPT_BOUND_DETECTION = 0,
	GPREEMPT_BOUND_PATIENCE = 1,
	GPREEMPT_BOUND_EXEMPT = 2,
	GPREEMPT_BOUND_BUDGET = 3,
	GPREEMPT_BOUND_SMALL = 4,
	GPREEMPT_BOUND_LINGER = 5,
	GPREEMPT_BOUND_SLICE = 6,
	GPREEMPT_BOUND_AGE = 7,
	GPREEMPT_BOUND_RETRY = 8,
};

enum gpreempt_event_kind {
	/* A tenant was stopped. */
	GPREEMPT_EVENT_PREEMPTED = 0,
	/* A tenant was resumed. */
	GPREEMPT_EVENT_RESUMED = 1,
	/* In observe mode: a tenant would have been stopped. */
	GPREEMPT_EVENT_WOULD_PREEMPT = 2,
	/* The driver refused an entry: status. */
	GPREEMPT_EVENT_FAILED = 3,
	/* What a tenant does has changed: activity. */
	GPREEMPT_EVENT_ACTIVITY = 4,
	/* A process has its first queue on a gpu. */
	GPREEMPT_EVENT_TENANT_NEW = 5,
	/* A process has its last queue on a gpu no more, or ended. */
	GPREEMPT_EVENT_TENANT_GONE = 6,
	/* A gpu is being reset. */
	GPREEMPT_EVENT_RESET = 7,
	/* Its reset is over. */
	GPREEMPT_EVENT_RECOVERED = 8,
	/* The worker of a gpu did not answer: everything was resumed. */
	GPREEMPT_EVENT_WATCHDOG = 9,
	/* The policy host is gone for keep_ms: everything was resumed. */
	GPREEMPT_EVENT_EXPIRED = 10,
};

/**
 * struct gpreempt_event - something that happened
 *
 * @at_ns:	when
 * @sequence:	its number
 * @lost:	events before it that this descriptor did not read in time
 * @kind:	enum gpreempt_event_kind
 * @pid:	the process, as in struct gpreempt_tenant_status, or zero
 * @gpu_id:	the gpu
 * @start_time:	start of the process
 * @job:	job of the process, or zero
 * @cause:	job for which it was stopped, or zero
 * @reason:	enum gpreempt_reason
 * @bound:	enum gpreempt_bound
 * @after_ns:	how long the inversion, or the stop, had lasted
 * @took_ns:	from the decision to the answer of the driver
 * @seen_ns:	when the work of @cause was seen, or zero
 * @cycles:	cycles of the switch; of its entries, one has them
 * @queues:	queues that changed
 * @activity:	enum gpreempt_activity
 * @status:	negative error number
 */
struct gpreempt_event {
	__u64 at_ns;
	__u64 sequence;
	__u32 lost;
	__u32 kind;
	__s32 pid;
	__u32 gpu_id;
	__u64 start_time;
	__u64 job;
	__u64 cause;
	__u32 reason;
	__u32 bound;
	__u64 after_ns;
	__u64 took_ns;
	__u64 seen_ns;
	__u32 cycles;
	__u32 queues;
	__u32 activity;
	__s32 status;
};

#define GPREEMPT_IOC			0xB9

#define GPREEMPT_IOC_VERSION	 _IOWR(GPREEMPT_IOC, 0x00, struct gpreempt_version)
#define GPREEMPT_IOC_CLAIM	 _IOW(GPREEMPT_IOC, 0x01, struct gpreempt_claim)
/* Forgets gpus, jobs, processes and cgroups of the policy, and resumes everything. */
#define GPREEMPT_IOC_CLEAR	 _IO(GPREEMPT_IOC, 0x02)
#define GPREEMPT_IOC_SETTINGS	 _IOW(GPREEMPT_IOC, 0x03, struct gpreempt_settings)
#define GPREEMPT_IOC_SET_GPU	 _IOW(GPREEMPT_IOC, 0x04, struct gpreempt_gpu)
#define GPREEMPT_IOC_SET_JOB	 _IOW(GPREEMPT_IOC, 0x05, struct gpreempt_job)
#define GPREEMPT_IOC_REMOVE_JOB	 _IOW(GPREEMPT_IOC, 0x06, struct gpreempt_remove_job)
#define GPREEMPT_IOC_SET_PROCESS _IOW(GPREEMPT_IOC, 0x07, struct gpreempt_process)
#define GPREEMPT_IOC_SET_CGROUP	 _IOW(GPREEMPT_IOC, 0x08, struct gpreempt_cgroup)
#define GPREEMPT_IOC_QUERY	 _IOWR(GPREEMPT_IOC, 0x09, struct gpreempt_query)

#endif

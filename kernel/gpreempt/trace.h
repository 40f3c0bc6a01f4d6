/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM gpreempt

#if !defined(GPREEMPT_TRACE_H_INCLUDED) || defined(TRACE_HEADER_MULTI_READ)
#define GPREEMPT_TRACE_H_INCLUDED

#include <linux/tracepoint.h>

/* A worker woke; cause is enum gp_wake. */
TRACE_EVENT(gpreempt_wake,
	    TP_PROTO(u32 gpu_id, u32 cause),
	    TP_ARGS(gpu_id, cause),
	    TP_STRUCT__entry(__field(u32, gpu_id)
			     __field(u32, cause)
			     ),
	    TP_fast_assign(__entry->gpu_id = gpu_id;
			   __entry->cause = cause;
			   ),
	    TP_printk("gpu=%u cause=%u", __entry->gpu_id, __entry->cause)
);

/* A tenant was looked at; activity is enum gpreempt_activity. */
TRACE_EVENT(gpreempt_look,
	    TP_PROTO(u32 gpu_id, pid_t pid, u32 activity, u64 pending, int result),
	    TP_ARGS(gpu_id, pid, activity, pending, result),
	    TP_STRUCT__entry(__field(u32, gpu_id)
			     __field(pid_t, pid)
			     __field(u32, activity)
			     __field(u64, pending)
			     __field(int, result)
			     ),
	    TP_fast_assign(__entry->gpu_id = gpu_id;
			   __entry->pid = pid;
			   __entry->activity = activity;
			   __entry->pending = pending;
			   __entry->result = result;
			   ),
	    TP_printk("gpu=%u pid=%d activity=%u pending=%llu result=%d",
		      __entry->gpu_id, __entry->pid, __entry->activity,
		      __entry->pending, __entry->result)
);

/* The core has decided. */
TRACE_EVENT(gpreempt_decision,
	    TP_PROTO(u32 gpu_id, int entries, u64 took_ns),
	    TP_ARGS(gpu_id, entries, took_ns),
	    TP_STRUCT__entry(__field(u32, gpu_id)
			     __field(int, entries)
			     __field(u64, took_ns)
			     ),
	    TP_fast_assign(__entry->gpu_id = gpu_id;
			   __entry->entries = entries;
			   __entry->took_ns = took_ns;
			   ),
	    TP_printk("gpu=%u entries=%d took_ns=%llu", __entry->gpu_id,
		      __entry->entries, __entry->took_ns)
);

/* A tenant was stopped or resumed, or the driver refused; reason is enum gpreempt_reason. */
DECLARE_EVENT_CLASS(gpreempt_switched,
		    TP_PROTO(u32 gpu_id, pid_t pid, u32 reason, int status, u64 took_ns),
		    TP_ARGS(gpu_id, pid, reason, status, took_ns),
		    TP_STRUCT__entry(__field(u32, gpu_id)
				     __field(pid_t, pid)
				     __field(u32, reason)
				     __field(int, status)
				     __field(u64, took_ns)
				     ),
		    TP_fast_assign(__entry->gpu_id = gpu_id;
				   __entry->pid = pid;
				   __entry->reason = reason;
				   __entry->status = status;
				   __entry->took_ns = took_ns;
				   ),
		    TP_printk("gpu=%u pid=%d reason=%u status=%d took_ns=%llu",
			      __entry->gpu_id, __entry->pid, __entry->reason,
			      __entry->status, __entry->took_ns)
);

DEFINE_EVENT(gpreempt_switched, gpreempt_preempted,
	     TP_PROTO(u32 gpu_id, pid_t pid, u32 reason, int status, u64 took_ns),
	     TP_ARGS(gpu_id, pid, reason, status, took_ns)
);

DEFINE_EVENT(gpreempt_switched, gpreempt_resumed,
	     TP_PROTO(u32 gpu_id, pid_t pid, u32 reason, int status, u64 took_ns),
	     TP_ARGS(gpu_id, pid, reason, status, took_ns)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>

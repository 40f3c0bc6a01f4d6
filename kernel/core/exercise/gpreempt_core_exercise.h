/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Random decisions of the core, made through gpreempt_core.h, and a checksum of
 * all that it answered. The same seed gives the same checksum in every program
 * and kernel.
 */

#ifndef GPREEMPT_CORE_EXERCISE_H_INCLUDED
#define GPREEMPT_CORE_EXERCISE_H_INCLUDED

#include <linux/types.h>

struct gpcx;

/**
 * struct gpcx_result - what was done so far
 *
 * @checksum:	of all answers
 * @decisions:	decisions
 * @plans:	those that planned something
 * @entries:	entries of these plans
 * @preempts:	entries that preempt
 * @polls:	looks at rings
 * @decide_ns:	time of all decisions, by the caller's clock
 * @longest_ns:	time of the longest
 */
struct gpcx_result {
	u64 checksum;
	u64 decisions;
	u64 plans;
	u64 entries;
	u64 preempts;
	u64 polls;
	u64 decide_ns;
	u64 longest_ns;
};

/* Bytes of an exercise. */
size_t gpcx_size(void);
/* Begins an exercise in memory of that size, aligned to 64 bytes. */
int gpcx_init(void *memory, size_t size, u64 seed);
/* Makes so many decisions more. @clock is in nanoseconds. */
int gpcx_run(struct gpcx *exercise, u32 decisions, u64 (*clock)(void));
int gpcx_result(const struct gpcx *exercise, struct gpcx_result *result);

#endif

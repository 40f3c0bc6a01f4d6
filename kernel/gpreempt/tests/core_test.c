// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Random decisions of the scheduling core in the kernel. Loading the module makes
 * them; parameters in sysfs have the result, which a program compares with its
 * own.
 */

#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include "gpreempt_core_exercise.h"

/* Decisions between two chances for other work. */
#define CHUNK	100

static unsigned int decisions = 100000;
module_param(decisions, uint, 0444);
MODULE_PARM_DESC(decisions, "Decisions to make (default 100000)");

static ulong seed = 1;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "Seed of the random numbers (default 1)");

static char result_text[256];
module_param_string(result, result_text, sizeof(result_text), 0444);
MODULE_PARM_DESC(result, "What came out, as JSON");

static u64 exercise_clock(void)
{
	return ktime_get_ns();
}

static int run(struct gpcx *exercise)
{
	struct gpcx_result result;
	unsigned int left;
	int ret;

	for (left = decisions; left; left -= min(left, CHUNK)) {
		ret = gpcx_run(exercise, min(left, CHUNK), exercise_clock);
		if (ret)
			return ret;
		cond_resched();
	}
	ret = gpcx_result(exercise, &result);
	if (ret)
		return ret;
	snprintf(result_text, sizeof(result_text),
		 "{\"checksum\": \"%016llx\", \"decisions\": %llu, \"plans\": %llu, \"entries\": %llu, \"preempts\": %llu, \"polls\": %llu, \"ns_per_decision\": %llu, \"longest_ns\": %llu}",
		 result.checksum, result.decisions, result.plans, result.entries,
		 result.preempts, result.polls,
		 result.decisions ? div64_u64(result.decide_ns, result.decisions) : 0,
		 result.longest_ns);
	return 0;
}

static int __init core_test_init(void)
{
	size_t size = gpcx_size();
	void *memory = vzalloc(size);
	int ret;

	if (!memory)
		return -ENOMEM;
	ret = gpcx_init(memory, size, seed);
	if (!ret)
		ret = run(memory);
	vfree(memory);
	return ret;
}

static void __exit core_test_exit(void)
{
}

module_init(core_test_init);
module_exit(core_test_exit);

MODULE_DESCRIPTION("Random decisions of gpreempt's scheduling core");
MODULE_LICENSE("Dual MIT/GPL");

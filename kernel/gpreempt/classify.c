// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Which tenants matter: the core is asked about every pair of jobs after
 * something has changed. Where no job could get into the way of another, and
 * none is held, nothing is looked at.
 */

#include "internal.h"

/* With more jobs on a gpu, each counts as one that could stop any other. */
#define GP_MOST_PAIRED_JOBS	128

static bool gp_is_held(const struct gp_job *job, u64 now)
{
	return job->hold_until_ns > now;
}

static unsigned int gp_jobs_on(struct gp_gpu *gpu)
{
	unsigned int count = 0, i;
	struct gp_tenant *t;

	list_for_each_entry(t, &gpu->tenants, list) {
		if (!t->placed || t->job->counted)
			continue;
		t->job->counted = true;
		t->job->displaces = false;
		gp.jobs_here[count++] = t->job;
	}
	for (i = 0; i < count; i++)
		gp.jobs_here[i]->counted = false;

	return count;
}

/* Asks the core about all pairs of jobs on a gpu. */
static bool gp_compare(struct gp_gpu *gpu)
{
	unsigned int count = gp_jobs_on(gpu), i, j;
	bool many = count > GP_MOST_PAIRED_JOBS;
	bool any = many;

	for (i = 0; i < count; i++) {
		struct gp_job *lower = gp.jobs_here[i];

		if (many || gpc_could_throttle(gp.core, lower->core,
					       gpu->index)) {
			lower->displaces = true;
			lower->could_stop = true;
			any = true;
		}
		for (j = 0; j < count && !many; j++) {
			struct gp_job *upper = gp.jobs_here[j];

			if (upper == lower ||
			    gpc_could_displace(gp.core, upper->core,
					       lower->core, gpu->index) < 0)
				continue;
			upper->displaces = true;
			lower->could_stop = true;
			any = true;
		}
	}

	return any;
}

/* Divides the tenants of a gpu: those on whose work a decision depends, and the others. */
static void gp_divide(struct gp_gpu *gpu)
{
	bool any = gp_compare(gpu);
	struct gp_tenant *t;

	list_for_each_entry(t, &gpu->tenants, list)
		if (t->placed)
			WRITE_ONCE(t->upper, !any || t->job->displaces);
}

/* A job stops as a whole: it counts on all its gpus where it meets another on one of them. */
static bool gp_is_contested(struct gp_gpu *gpu, u64 now)
{
	struct gp_tenant *t;

	list_for_each_entry(t, &gpu->tenants, list)
		if (t->placed &&
		    (t->job->could_stop || gp_is_held(t->job, now)))
			return true;

	return false;
}

/**
 * gp_classify - find out which tenants matter, if something has changed
 *
 * @now:	the time
 */
void gp_classify(u64 now)
{
	struct gp_gpu *gpu;
	struct gp_job *job;
	int bucket;

	if (!gp.unclassified && now < gp.classify_at)
		return;
	gp.unclassified = false;
	gp.classify_at = GP_NEVER;
	hash_for_each(gp.jobs, bucket, job, by_number) {
		job->could_stop = false;
		if (gp_is_held(job, now))
			gp.classify_at = min(gp.classify_at,
					     job->hold_until_ns);
	}
	list_for_each_entry(gpu, &gp.gpus, list)
		gp_divide(gpu);
	list_for_each_entry(gpu, &gp.gpus, list) {
		bool contested = gp_is_contested(gpu, now);

		if (contested == gpu->contested)
			continue;
		if (contested)
			gpu->contested_since = now;
		WRITE_ONCE(gpu->contested, contested);
		gp_wake(gpu, GP_WAKE_POLICY);
	}
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What the policy host has said: gpus, jobs, processes and cgroups, and the
 * place of each tenant in the core that follows from it.
 *
 * All functions are called with gp.lock held. They allocate without waiting for
 * memory, since a worker that has to resume something may wait for the lock.
 */

#include <linux/cgroup.h>
#include <linux/rcupdate.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "internal.h"

struct gp_job *gp_find_job(u64 number)
{
	struct gp_job *job;

	hash_for_each_possible(gp.jobs, job, by_number, number)
		if (job->number == number)
			return job;

	return NULL;
}

static struct gp_job *gp_find_core_job(u64 core)
{
	struct gp_job *job;

	hash_for_each_possible(gp.jobs_by_core, job, by_core, core)
		if (job->core == core)
			return job;

	return NULL;
}

/* The policy host's number of a job of the core, or zero. */
u64 gp_job_number(u64 core)
{
	struct gp_job *job = core ? gp_find_core_job(core) : NULL;

	return job ? job->number : 0;
}

static struct gp_process *gp_find_process(const struct pid *pid)
{
	struct gp_process *process;

	hash_for_each_possible(gp.processes, process, node, (unsigned long)pid)
		if (process->pid == pid)
			return process;

	return NULL;
}

static void gp_forget_process(struct gp_process *process)
{
	hash_del(&process->node);
	put_pid(process->pid);
	kfree(process);
	gp.num_processes--;
}

static void gp_forget_cgroup(struct gp_cgroup *entry)
{
	list_del(&entry->list);
	cgroup_put(entry->cgroup);
	kfree(entry);
	gp.num_cgroups--;
}

/* The entry of the nearest cgroup above a process. */
static struct gp_cgroup *gp_cgroup_of(struct pid *pid)
{
	struct gp_cgroup *entry, *nearest = NULL;
	struct task_struct *task;
	struct cgroup *cgroup;

	if (list_empty(&gp.cgroups))
		return NULL;

	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_TGID);
	cgroup = task ? task_dfl_cgroup(task) : NULL;
	if (cgroup)
		list_for_each_entry(entry, &gp.cgroups, list)
			if (cgroup_is_descendant(cgroup, entry->cgroup) &&
			    (!nearest || entry->cgroup->level >
					 nearest->cgroup->level))
				nearest = entry;
	rcu_read_unlock();

	return nearest;
}

/* The job that a tenant has to have, or NULL. */
static struct gp_job *gp_job_of(const struct gp_tenant *t, bool *stoppable)
{
	struct gp_process *process;
	struct gp_cgroup *entry;

	if (!t->gpu->managed || !t->pid || !t->probe)
		return NULL;
	process = gp_find_process(t->pid);
	if (process) {
		*stoppable = process->stoppable;
		return process->job ? gp_find_job(process->job) : NULL;
	}
	entry = gp_cgroup_of(t->pid);
	if (!entry)
		return NULL;
	*stoppable = entry->stoppable;

	return gp_find_job(entry->job);
}

static bool gp_enforces(void)
{
	return gp.settings.mode == GPREEMPT_MODE_ENFORCE;
}

/**
 * gp_displace - take a tenant out of the core
 *
 * @t:		the tenant
 *
 * What of it is stopped is resumed by its worker.
 */
void gp_displace(struct gp_tenant *t)
{
	t->stray = t->stopped > 0;
	if (!t->placed)
		return;
	gpc_remove_tenant(gp.core, t->core);
	hash_del(&t->by_core);
	t->job->tenants--;
	WRITE_ONCE(t->placed, false);
	t->job = NULL;
	t->planned = false;
	gp.unclassified = true;
}

/**
 * gp_place - give a tenant the place in the core that the policy says
 *
 * @t:		the tenant
 *
 * One that is stopped for another job is resumed first, and placed then.
 */
void gp_place(struct gp_tenant *t)
{
	bool stoppable = false;
	struct gp_job *job = gp_job_of(t, &stoppable);

	t->no_room = !t->probe;
	if (t->placed && t->job == job) {
		if (t->stoppable != stoppable) {
			t->stoppable = stoppable;
			gpc_set_stoppable(gp.core, t->core,
					  stoppable && gp_enforces());
		}
		gp_observe_tenant(t, ktime_get_ns());
		return;
	}
	gp_displace(t);
	if (!job || t->stray)
		return;

	t->stoppable = stoppable;
	if (gpc_add_tenant(gp.core, job->core, t->gpu->index,
			   stoppable && gp_enforces(), &t->core)) {
		t->no_room = true;
		return;
	}
	hash_add(gp.tenants_by_core, &t->by_core, t->core);
	t->job = job;
	job->tenants++;
	WRITE_ONCE(t->placed, true);
	gp.unclassified = true;
	gp_observe_tenant(t, ktime_get_ns());
}

static void gp_place_all(void)
{
	struct gp_tenant *t;
	struct gp_gpu *gpu;

	list_for_each_entry(gpu, &gp.gpus, list)
		list_for_each_entry(t, &gpu->tenants, list)
			gp_place(t);
}

/* Workers have to look at everything again. */
void gp_policy_changed(void)
{
	gp.unclassified = true;
	gp_wake_all(GP_WAKE_POLICY);
}

/* The mode has changed: in observe mode the core may stop nothing. */
void gp_set_mode(void)
{
	struct gp_tenant *t;
	struct gp_gpu *gpu;

	list_for_each_entry(gpu, &gp.gpus, list)
		list_for_each_entry(t, &gpu->tenants, list)
			if (t->placed)
				gpc_set_stoppable(gp.core, t->core,
						  t->stoppable &&
						  gp_enforces());
}

int gp_set_gpu(struct gp_gpu *gpu, bool managed,
	       const struct gpreempt_gpu_params *params)
{
	struct gp_tenant *t;
	int r = 0;

	if (managed) {
		r = gpc_set_gpu(gp.core, gpu->index, params);
		if (r)
			return r;
		gpc_set_resetting(gp.core, gpu->index, gpu->resetting);
	}
	gpu->managed = managed;
	list_for_each_entry(t, &gpu->tenants, list)
		gp_place(t);
	if (!managed)
		gpc_remove_gpu(gp.core, gpu->index);

	return 0;
}

int gp_set_job(const struct gpreempt_job *from)
{
	struct gp_job *job = gp_find_job(from->job);
	int r;

	if (job) {
		r = gpc_set_job(gp.core, job->core, &from->params);
	} else {
		if (gp.num_jobs >= gp.max_jobs)
			return -ENOSPC;
		job = kzalloc(sizeof(*job), GFP_NOWAIT | __GFP_NOWARN);
		if (!job)
			return -ENOMEM;
		r = gpc_add_job(gp.core, &from->params, &job->core);
		if (r) {
			kfree(job);
			return r;
		}
		job->number = from->job;
		hash_add(gp.jobs, &job->by_number, job->number);
		hash_add(gp.jobs_by_core, &job->by_core, job->core);
		gp.num_jobs++;
	}
	if (!r && job->hold_until_ns != from->hold_until_ns) {
		r = gpc_hold(gp.core, job->core, from->hold_until_ns);
		job->hold_until_ns = from->hold_until_ns;
	}

	return r;
}

static void gp_forget_job(struct gp_job *job)
{
	int r = gpc_remove_job(gp.core, job->core);

	WARN_ONCE(r, "gpreempt: a job of the core stays: %d\n", r);
	hash_del(&job->by_number);
	hash_del(&job->by_core);
	kfree(job);
	gp.num_jobs--;
}

int gp_remove_job(u64 number)
{
	struct gp_job *job = gp_find_job(number);
	struct gp_cgroup *entry, *next;
	struct gp_process *process;
	struct gp_tenant *t;
	struct gp_gpu *gpu;
	int bucket;

	if (!job)
		return -ENOENT;
	hash_for_each(gp.processes, bucket, process, node)
		if (process->job == number)
			process->job = 0;
	list_for_each_entry_safe(entry, next, &gp.cgroups, list)
		if (entry->job == number)
			gp_forget_cgroup(entry);
	list_for_each_entry(gpu, &gp.gpus, list)
		list_for_each_entry(t, &gpu->tenants, list)
			if (t->job == job)
				gp_place(t);
	gp_forget_job(job);

	return 0;
}

/* Forgets processes that have ended. */
static void gp_forget_dead(void)
{
	struct gp_process *process;
	struct hlist_node *next;
	bool dead;
	int bucket;

	hash_for_each_safe(gp.processes, bucket, next, process, node) {
		rcu_read_lock();
		dead = !pid_task(process->pid, PIDTYPE_TGID);
		rcu_read_unlock();
		if (dead)
			gp_forget_process(process);
	}
}

/**
 * gp_set_process - note the job of a process
 *
 * @pid:	the process
 * @number:	the job, or zero
 * @stoppable:	whether it may be stopped
 */
int gp_set_process(struct pid *pid, u64 number, bool stoppable)
{
	struct gp_process *process = gp_find_process(pid);
	struct gp_tenant *t;
	struct gp_gpu *gpu;

	if (number && !gp_find_job(number))
		return -ENOENT;
	if (!process) {
		if (gp.num_processes >= GPREEMPT_MAX_TENANTS)
			gp_forget_dead();
		if (gp.num_processes >= GPREEMPT_MAX_TENANTS)
			return -ENOSPC;
		process = kzalloc(sizeof(*process), GFP_NOWAIT | __GFP_NOWARN);
		if (!process)
			return -ENOMEM;
		process->pid = get_pid(pid);
		hash_add(gp.processes, &process->node, (unsigned long)pid);
		gp.num_processes++;
	}
	process->job = number;
	process->stoppable = stoppable;
	list_for_each_entry(gpu, &gp.gpus, list)
		list_for_each_entry(t, &gpu->tenants, list)
			if (t->pid == pid)
				gp_place(t);

	return 0;
}

int gp_set_cgroup(struct cgroup *cgroup, u64 number, bool stoppable)
{
	struct gp_cgroup *entry, *found = NULL;

	if (number && !gp_find_job(number))
		return -ENOENT;
	list_for_each_entry(entry, &gp.cgroups, list)
		if (entry->cgroup == cgroup)
			found = entry;
	if (!number) {
		if (!found)
			return -ENOENT;
		gp_forget_cgroup(found);
	} else {
		if (!found) {
			if (gp.num_cgroups >= GPREEMPT_MAX_CGROUPS)
				return -ENOSPC;
			found = kzalloc(sizeof(*found), GFP_NOWAIT | __GFP_NOWARN);
			if (!found)
				return -ENOMEM;
			cgroup_get(cgroup);
			found->cgroup = cgroup;
			list_add_tail(&found->list, &gp.cgroups);
			gp.num_cgroups++;
		}
		found->job = number;
		found->stoppable = stoppable;
	}
	gp_place_all();

	return 0;
}

/* Forgets the whole policy. */
void gp_clear(void)
{
	struct gp_cgroup *entry, *next_entry;
	struct gp_process *process;
	struct hlist_node *next;
	struct gp_tenant *t;
	struct gp_gpu *gpu;
	struct gp_job *job;
	int bucket;

	list_for_each_entry(gpu, &gp.gpus, list) {
		list_for_each_entry(t, &gpu->tenants, list)
			gp_displace(t);
		if (gpu->managed)
			gpc_remove_gpu(gp.core, gpu->index);
		gpu->managed = false;
	}
	hash_for_each_safe(gp.processes, bucket, next, process, node)
		gp_forget_process(process);
	list_for_each_entry_safe(entry, next_entry, &gp.cgroups, list)
		gp_forget_cgroup(entry);
	hash_for_each_safe(gp.jobs, bucket, next, job, by_number)
		gp_forget_job(job);
}

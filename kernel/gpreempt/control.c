// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * /dev/gpreempt, the control device: see uapi/gpreempt.h.
 */

#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pid_namespace.h>
#include <linux/poll.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

/* An open descriptor, and its position in the events. */
struct gp_file {
	struct mutex lock; /* for the position: descriptors can be shared */
	u64 next;
};

/* Whether the caller may see and control the processes of all users. */
static bool gp_may_control(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN) ||
	       capable(CAP_SYS_NICE);
}

/*
 * Reads a structure that begins with its size. Callers know at least the first
 * version of it, which is this one.
 */
static int gp_get(void *to, size_t size, const void __user *from)
{
	u32 known;

	if (get_user(known, (const u32 __user *)from))
		return -EFAULT;
	if (known < size)
		return -EINVAL;
	if (known > PAGE_SIZE)
		return -E2BIG;

	return copy_struct_from_user(to, size, from, known);
}

static int gp_ioctl_version(void __user *arg)
{
	struct gpreempt_version version;
	int r = gp_get(&version, sizeof(version), arg);

	if (r)
		return r;
	version = (struct gpreempt_version) {
		.size = sizeof(version),
		.abi = GPREEMPT_ABI_VERSION,
		.hooks = KFD_SCHED_HOOKS_VERSION,
		.features = GPREEMPT_FEATURE_DOORBELLS |
			    GPREEMPT_FEATURE_CGROUPS,
		.max_jobs = gp.max_jobs,
		.max_tenants = gp.max_tenants,
	};

	return copy_to_user(arg, &version, sizeof(version)) ? -EFAULT : 0;
}

static int gp_ioctl_claim(struct file *file, void __user *arg)
{
	struct gpreempt_claim claim;
	int r = gp_get(&claim, sizeof(claim), arg);

	if (r)
		return r;
	if (!(file->f_mode & FMODE_WRITE) || !gp_may_control())
		return -EPERM;

	gp_lock();
	if (gp.policy_host && gp.policy_host != file) {
		r = -EBUSY;
	} else {
		gp.policy_host = file;
		gp.keep_ms = claim.keep_ms;
	}
	gp_unlock();
	if (!r)
		cancel_delayed_work(&gp.expire);

	return r;
}

static int gp_ioctl_query(void __user *arg)
{
	struct gpreempt_query query;
	int r = gp_get(&query, sizeof(query), arg);

	if (r)
		return r;
	if (!gp_may_control())
		return -EPERM;
	r = gp_query(&query);
	if (r)
		return r;

	return put_user(query.count,
			&((struct gpreempt_query __user *)arg)->count);
}

static int gp_ioctl_settings(void __user *arg)
{
	struct gpreempt_settings settings;
	int r = gp_get(&settings, sizeof(settings), arg);
	bool observes;

	if (r)
		return r;
	if (settings.mode > GPREEMPT_MODE_ENFORCE ||
	    settings.watch > GPREEMPT_WATCH_DOORBELL ||
	    settings.period_us < 50 || settings.period_us > 1000000 ||
	    settings.net_ms < 10 || settings.net_ms > 60000)
		return -EINVAL;

	gp_lock();
	observes = gp.settings.mode == GPREEMPT_MODE_ENFORCE &&
		   settings.mode == GPREEMPT_MODE_OBSERVE;
	gp.settings = settings;
	gp_set_mode();
	gp_policy_changed();
	gp_unlock();
	if (observes)
		gp_resume_everything();

	return 0;
}

static int gp_ioctl_set_gpu(void __user *arg)
{
	struct gpreempt_gpu from;
	struct gp_gpu *gpu;
	int r = gp_get(&from, sizeof(from), arg);

	if (r)
		return r;
	if (from.managed > 1 || from.reserved)
		return -EINVAL;
	gpu = gp_find_gpu(from.gpu_id);
	if (!gpu)
		return -ENODEV;

	gp_lock();
	r = gp_set_gpu(gpu, from.managed, &from.params);
	gp_policy_changed();
	gp_unlock();

	return r;
}

static int gp_ioctl_set_job(void __user *arg)
{
	struct gpreempt_job job;
	int r = gp_get(&job, sizeof(job), arg);

	if (r)
		return r;
	if (!job.job || job.reserved ||
	    memchr_inv(job.params.reserved, 0, sizeof(job.params.reserved)))
		return -EINVAL;

	gp_lock();
	r = gp_set_job(&job);
	gp_policy_changed();
	gp_unlock();

	return r;
}

static int gp_ioctl_remove_job(void __user *arg)
{
	struct gpreempt_remove_job job;
	int r = gp_get(&job, sizeof(job), arg);

	if (r)
		return r;
	if (!job.job || job.reserved)
		return -EINVAL;

	gp_lock();
	r = gp_remove_job(job.job);
	gp_policy_changed();
	gp_unlock();

	return r;
}

static int gp_ioctl_set_process(void __user *arg)
{
	struct gpreempt_process from;
	struct task_struct *task;
	struct pid *pid;
	int r = gp_get(&from, sizeof(from), arg);

	if (r)
		return r;
	if (from.pid <= 0 || from.reserved ||
	    from.flags & ~GPREEMPT_PROCESS_STOPPABLE)
		return -EINVAL;

	pid = find_get_pid(from.pid);
	task = get_pid_task(pid, PIDTYPE_TGID);
	if (!task || gp_start_time(task->start_boottime) != from.start_time) {
		r = -ESRCH;
	} else {
		gp_lock();
		r = gp_set_process(pid, from.job,
				   from.flags & GPREEMPT_PROCESS_STOPPABLE);
		gp_policy_changed();
		gp_unlock();
	}
	if (task)
		put_task_struct(task);
	put_pid(pid);

	return r;
}

static int gp_ioctl_set_cgroup(void __user *arg)
{
	struct gpreempt_cgroup from;
	struct cgroup *cgroup;
	int r = gp_get(&from, sizeof(from), arg);

	if (r)
		return r;
	if (from.reserved || from.flags & ~GPREEMPT_PROCESS_STOPPABLE)
		return -EINVAL;
	cgroup = cgroup_get_from_fd(from.fd);
	if (IS_ERR(cgroup))
		return PTR_ERR(cgroup);

	gp_lock();
	r = gp_set_cgroup(cgroup, from.job,
			  from.flags & GPREEMPT_PROCESS_STOPPABLE);
	gp_policy_changed();
	gp_unlock();
	cgroup_put(cgroup);

	return r;
}

static int gp_ioctl_clear(void)
{
	gp_lock();
	gp_clear();
	gp_policy_changed();
	gp_unlock();
	gp_resume_everything();

	return 0;
}

/* Calls that set something. */
static int gp_ioctl_set(unsigned int number, void __user *arg)
{
	switch (number) {
	case _IOC_NR(GPREEMPT_IOC_CLEAR):
		return gp_ioctl_clear();
	case _IOC_NR(GPREEMPT_IOC_SETTINGS):
		return gp_ioctl_settings(arg);
	case _IOC_NR(GPREEMPT_IOC_SET_GPU):
		return gp_ioctl_set_gpu(arg);
	case _IOC_NR(GPREEMPT_IOC_SET_JOB):
		return gp_ioctl_set_job(arg);
	case _IOC_NR(GPREEMPT_IOC_REMOVE_JOB):
		return gp_ioctl_remove_job(arg);
	case _IOC_NR(GPREEMPT_IOC_SET_PROCESS):
		return gp_ioctl_set_process(arg);
	case _IOC_NR(GPREEMPT_IOC_SET_CGROUP):
		return gp_ioctl_set_cgroup(arg);
	default:
		return -ENOTTY;
	}
}

/* The size in a number is that of the caller's structure: it says so itself. */
static long gp_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	unsigned int number = _IOC_NR(cmd);
	bool is_host;

	if (_IOC_TYPE(cmd) != GPREEMPT_IOC ||
	    number > _IOC_NR(GPREEMPT_IOC_QUERY))
		return -ENOTTY;

	switch (number) {
	case _IOC_NR(GPREEMPT_IOC_VERSION):
		return gp_ioctl_version(user);
	case _IOC_NR(GPREEMPT_IOC_CLAIM):
		return gp_ioctl_claim(file, user);
	case _IOC_NR(GPREEMPT_IOC_QUERY):
		return gp_ioctl_query(user);
	}

	gp_lock();
	is_host = gp.policy_host == file;
	gp_unlock();

	return is_host ? gp_ioctl_set(number, user) : -EPERM;
}

static int gp_open(struct inode *inode, struct file *file)
{
	struct gp_file *open = kzalloc(sizeof(*open), GFP_KERNEL_ACCOUNT);

	if (!open)
		return -ENOMEM;
	mutex_init(&open->lock);
	open->next = gp_events_next();
	file->private_data = open;

	return nonseekable_open(inode, file);
}

/* The policy host is gone for as long as its policy is kept. */
void gp_expire(struct work_struct *work)
{
	struct gpreempt_event event = { .kind = GPREEMPT_EVENT_EXPIRED };
	bool gone;

	gp_lock();
	gone = !gp.policy_host;
	if (gone) {
		gp_clear();
		gp_policy_changed();
		gp_event(&event, NULL, 0);
	}
	gp_unlock();
	if (gone)
		gp_resume_everything();
}

static int gp_release(struct inode *inode, struct file *file)
{
	gp_lock();
	if (gp.policy_host == file) {
		gp.policy_host = NULL;
		mod_delayed_work(system_unbound_wq, &gp.expire,
				 msecs_to_jiffies(gp.keep_ms));
	}
	gp_unlock();
	kfree(file->private_data);

	return 0;
}

static ssize_t gp_read(struct file *file, char __user *to, size_t size,
		       loff_t *at)
{
	struct gp_file *open = file->private_data;
	ssize_t r;

	if (READ_ONCE(gp.policy_host) != file && !gp_may_control())
		return -EPERM;
	if (mutex_lock_interruptible(&open->lock))
		return -ERESTARTSYS;
	r = gp_events_read(file, &open->next, to, size);
	mutex_unlock(&open->lock);

	return r;
}

static __poll_t gp_poll(struct file *file, struct poll_table_struct *wait)
{
	struct gp_file *open = file->private_data;

	return gp_events_poll(file, READ_ONCE(open->next), wait);
}

static const struct file_operations gp_fops = {
	.owner = THIS_MODULE,
	.open = gp_open,
	.release = gp_release,
	.read = gp_read,
	.poll = gp_poll,
	.unlocked_ioctl = gp_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice gp_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "gpreempt",
	.fops = &gp_fops,
	.mode = 0600,
};

int gp_control_init(void)
{
	return misc_register(&gp_device);
}

/* No descriptor is open: each has a reference to the module. */
void gp_control_exit(void)
{
	misc_deregister(&gp_device);
}

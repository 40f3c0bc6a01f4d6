// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A scheduler that does what it is told, to test the hooks of the patched driver
 * (kfd_sched_hooks.h).
 *
 * /sys/kernel/debug/kfd_hooks_test/command takes a line; result has one JSON
 * object about the last one. All commands concern the first gpu.
 *
 *	list			queues, how many of them are stopped, their processes;
 *				compute units of the gpu
 *	switch PID[:PID]	preempt the first process and resume the second, in
 *				one call; 0 is none
 *	arm PID			arm the doorbells of a process
 *	disarm PID		disarm them
 *	occupancy PID		compute units that a process occupies
 *	events			counts of what was notified, and the last process
 *				whose doorbell was
 *	register		try to register once more, and another version
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "kfd_sched_hooks.h"

#define MOST_QUEUES	256
#define DEFAULT_GRACE	0xffffffffU

static struct kfd_sched_host *host;
static struct dentry *directory;
static u32 gpu_id;
static DEFINE_MUTEX(lock);
static struct kfd_sched_hook_queue queues[MOST_QUEUES];
static char result[256];

static atomic_t counts[KFD_SCHED_EVENT_EXIT + 1];
static pid_t last_doorbell;

static void test_notify(const struct kfd_sched_hooks *hooks,
			enum kfd_sched_event event, u32 gpu, pid_t pid)
{
	atomic_inc(&counts[event]);
	if (event == KFD_SCHED_EVENT_DOORBELL)
		WRITE_ONCE(last_doorbell, pid);
}

static const struct kfd_sched_hooks hooks = {
	.version = KFD_SCHED_HOOKS_VERSION,
	.owner = THIS_MODULE,
	.notify = test_notify,
};

/* Lists the queues; test_put() gives them back. */
static unsigned int test_get(void)
{
	int count = kfd_sched_get_queues(host, gpu_id, queues, MOST_QUEUES);

	return count < 0 ? 0 : min(count, MOST_QUEUES);
}

static struct kfd_process *test_find(unsigned int count, pid_t pid)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (queues[i].pid == pid)
			return queues[i].process;
	return NULL;
}

static void test_list(void)
{
	unsigned int count = test_get(), stopped = 0, processes = 0, i;

	for (i = 0; i < count; i++) {
		stopped += !!(queues[i].flags & KFD_SCHED_HOOK_MINE);
		processes += !i || queues[i].process != queues[i - 1].process;
	}
	kfd_sched_put_queues(queues, count);
	scnprintf(result, sizeof(result),
		  "{\"queues\": %u, \"stopped\": %u, \"processes\": %u, \"units\": %d}",
		  count, stopped, processes, kfd_sched_compute_units(gpu_id));
}

static int test_switch(pid_t preempt, pid_t resume)
{
	struct kfd_sched_hook_request requests[2] = {};
	struct kfd_sched_hook_result cost = {};
	unsigned int count = test_get(), used = 0;
	int r = -ESRCH;

	if (preempt)
		requests[used++] = (struct kfd_sched_hook_request) {
			.process = test_find(count, preempt), .preempt = true };
	if (resume)
		requests[used++] = (struct kfd_sched_hook_request) {
			.process = test_find(count, resume) };
	if (used && requests[0].process && (used < 2 || requests[1].process))
		r = kfd_sched_switch_gpu(host, gpu_id, requests, used,
					 DEFAULT_GRACE, &cost);
	kfd_sched_put_queues(queues, count);
	if (!r)
		scnprintf(result, sizeof(result),
			  "{\"cycles\": %u, \"changed\": %u, \"status\": %d}",
			  cost.num_cycles,
			  requests[0].num_changed + requests[1].num_changed,
			  requests[0].status ?: requests[1].status);
	return r;
}

/* Does something with one process, of which it holds a reference meanwhile. */
static int test_one(const char *command, pid_t pid)
{
	unsigned int count = test_get();
	struct kfd_process *process = test_find(count, pid);
	int r = 0;

	if (process)
		kfd_sched_get_process(process);
	kfd_sched_put_queues(queues, count);
	if (!process)
		return -ESRCH;

	if (!strcmp(command, "arm"))
		r = kfd_sched_arm_doorbells(host, process, gpu_id);
	else if (!strcmp(command, "disarm"))
		kfd_sched_disarm_doorbells(process, gpu_id);
	else if (!strcmp(command, "occupancy"))
		r = kfd_sched_occupancy(process, gpu_id);
	else
		r = -EINVAL;
	kfd_sched_put_process(process);
	scnprintf(result, sizeof(result), "{\"%s\": %d}", command, r);
	return r < 0 ? r : 0;
}

static void test_events(void)
{
	scnprintf(result, sizeof(result),
		  "{\"queues\": %d, \"completed\": %d, \"doorbells\": %d, \"resets\": %d, \"recovered\": %d, \"exits\": %d, \"last\": %d}",
		  atomic_read(&counts[KFD_SCHED_EVENT_QUEUES]),
		  atomic_read(&counts[KFD_SCHED_EVENT_COMPLETED]),
		  atomic_read(&counts[KFD_SCHED_EVENT_DOORBELL]),
		  atomic_read(&counts[KFD_SCHED_EVENT_RESET]),
		  atomic_read(&counts[KFD_SCHED_EVENT_RECOVERED]),
		  atomic_read(&counts[KFD_SCHED_EVENT_EXIT]),
		  READ_ONCE(last_doorbell));
}

static void test_register(void)
{
	struct kfd_sched_hooks other = hooks;
	struct kfd_sched_host *again, *newer;

	again = kfd_sched_register(&hooks);
	other.version++;
	newer = kfd_sched_register(&other);
	scnprintf(result, sizeof(result), "{\"again\": %ld, \"newer\": %ld}",
		  PTR_ERR(again), PTR_ERR(newer));
}

static ssize_t command_write(struct file *file, const char __user *from,
			     size_t size, loff_t *at)
{
	pid_t pid = 0, other = 0;
	char line[64], command[16];
	int r = 0;

	if (!size || size >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, size))
		return -EFAULT;
	line[size] = 0;
	if (sscanf(line, "%15s %d:%d", command, &pid, &other) < 1)
		return -EINVAL;

	mutex_lock(&lock);
	if (!strcmp(command, "list"))
		test_list();
	else if (!strcmp(command, "events"))
		test_events();
	else if (!strcmp(command, "register"))
		test_register();
	else if (!strcmp(command, "switch"))
		r = test_switch(pid, other);
	else
		r = test_one(command, pid);
	mutex_unlock(&lock);

	return r ?: size;
}

static const struct file_operations command_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = command_write,
};

static int result_show(struct seq_file *file, void *unused)
{
	mutex_lock(&lock);
	seq_printf(file, "%s\n", result);
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(result);

static int __init test_init(void)
{
	unsigned int index = 0;

	gpu_id = kfd_sched_next_gpu(&index);
	if (!gpu_id)
		return -ENODEV;
	host = kfd_sched_register(&hooks);
	if (IS_ERR(host))
		return PTR_ERR(host);
	directory = debugfs_create_dir("kfd_hooks_test", NULL);
	debugfs_create_file("command", 0200, directory, NULL, &command_fops);
	debugfs_create_file("result", 0400, directory, NULL, &result_fops);
	return 0;
}

static void __exit test_exit(void)
{
	debugfs_remove(directory);
	kfd_sched_unregister(host);
}

module_init(test_init);
module_exit(test_exit);
MODULE_DESCRIPTION("Test of the hooks for a scheduler in a module");
MODULE_LICENSE("Dual MIT/GPL");

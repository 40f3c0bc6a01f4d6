// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Mistakes on purpose, to show that a debug kernel notices them. A mistake is
 * made when its name is written to the parameter `make`.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/workqueue.h>

static DEFINE_SPINLOCK(spin);
static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);
static int __rcu *shared;
static unsigned long counter;

static void sleep_in_atomic(void)
{
	spin_lock(&spin);
	might_sleep();
	spin_unlock(&spin);
}

static void read_without_rcu(void)
{
	if (rcu_dereference(shared))
		pr_info("shared is set\n");
}

struct timed {
	struct timer_list timer;
};

static void tick(struct timer_list *timer)
{
}

/* The checker stops the timer before its memory goes. */
static void free_active_timer(void)
{
	struct timed *timed = kzalloc(sizeof(*timed), GFP_KERNEL);

	if (!timed)
		return;
	timer_setup(&timed->timer, tick, 0);
	mod_timer(&timed->timer, jiffies + 100 * HZ);
	kfree(timed);
}

static void invert_locks(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);
	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static void use_after_free(void)
{
	char *text = kmalloc(32, GFP_KERNEL);

	if (!text)
		return;
	OPTIMIZER_HIDE_VAR(text);
	kfree(text);
	WRITE_ONCE(text[3], 1);
}

static void count_up(struct work_struct *work)
{
	unsigned long i;

	for (i = 0; i < 2000000; i++) {
		counter++;
		barrier();
	}
}

static void race(void)
{
	struct work_struct one, two;

	INIT_WORK_ONSTACK(&one, count_up);
	INIT_WORK_ONSTACK(&two, count_up);
	queue_work_on(0, system_long_wq, &one);
	queue_work_on(1, system_long_wq, &two);
	flush_work(&one);
	flush_work(&two);
	destroy_work_on_stack(&one);
	destroy_work_on_stack(&two);
}

static const struct {
	const char *name;
	void (*make)(void);
} mistakes[] = {
	{ "sleep_in_atomic", sleep_in_atomic },
	{ "read_without_rcu", read_without_rcu },
	{ "free_active_timer", free_active_timer },
	{ "invert_locks", invert_locks },
	{ "use_after_free", use_after_free },
	{ "race", race },
};

static int make(const char *name, const struct kernel_param *parameter)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mistakes); i++) {
		if (sysfs_streq(name, mistakes[i].name)) {
			mistakes[i].make();
			return 0;
		}
	}
	return -EINVAL;
}

static const struct kernel_param_ops make_ops = { .set = make };
module_param_cb(make, &make_ops, NULL, 0200);
MODULE_PARM_DESC(make, "the mistake to make now");

MODULE_DESCRIPTION("Mistakes that a debug kernel notices");
MODULE_LICENSE("Dual MIT/GPL");

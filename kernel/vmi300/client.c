// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Clients of the executing engine: GPU address spaces, the orders that the
 * engine process of each has to carry out, its answers and its interrupts.
 *
 * An engine process takes none of the driver's locks: it reads tables of this
 * module under locks inside which nothing is waited for. So it can save waves
 * while the driver evicts the very process and holds its reservations.
 */
#include <linux/slab.h>

#include <drm/drm_drv.h>

#include "client.h"

/* KFD_MAX_NUM_OF_QUEUES_PER_PROCESS, and the copy queues. */
#define VMI300_MOST_QUEUES	2048

static DEFINE_XARRAY_ALLOC1(vmi300_clients);
static u32 vmi300_next_client;
static DECLARE_WAIT_QUEUE_HEAD(vmi300_newcomers);

static void vmi300_client_free(struct kref *ref)
{
	struct vmi300_client *client = container_of(ref, struct vmi300_client, ref);
	struct vmi300_known_queue *known, *next;
	struct vmi300_order *order, *after;

	list_for_each_entry_safe(known, next, &client->queues, list)
		kfree(known);
	list_for_each_entry_safe(order, after, &client->orders, list)
		kfree(order);
	__free_page(client->page);
	drm_dev_put(&client->mec->dev->adev.ddev);
	kfree(client);
}

void vmi300_client_put(struct vmi300_client *client)
{
	kref_put(&client->ref, vmi300_client_free);
}

struct vmi300_client *vmi300_client_get(u64 id)
{
	struct vmi300_client *client;

	xa_lock(&vmi300_clients);
	client = xa_load(&vmi300_clients, id);
	if (client)
		kref_get(&client->ref);
	xa_unlock(&vmi300_clients);
	return client;
}

/* Calls a function for each client of a device, without a lock. */
void vmi300_client_each(struct vmi300 *dev, void (*act)(struct vmi300_client *client, void *data),
			void *data)
{
	struct vmi300_client *client;
	unsigned long id;

	xa_lock(&vmi300_clients);
	xa_for_each(&vmi300_clients, id, client) {
		if (client->mec->dev != dev)
			continue;
		kref_get(&client->ref);
		xa_unlock(&vmi300_clients);
		act(client, data);
		vmi300_client_put(client);
		xa_lock(&vmi300_clients);
	}
	xa_unlock(&vmi300_clients);
}

/* Returns the address space with a reference, or NULL after it was closed. */
struct vmi300_vm *vmi300_client_vm(struct vmi300_client *client)
{
	struct vmi300_vm *vm;

	spin_lock(&client->lock);
	vm = client->vm;
	if (vm)
		kref_get(&vm->ref);
	spin_unlock(&client->lock);
	return vm;
}

struct page *vmi300_client_page(struct vmi300_client *client)
{
	return client->page;
}

int vmi300_client_open(struct vmi300_vm *vm)
{
	struct vmi300_client *client = kzalloc(sizeof(*client), GFP_KERNEL);
	u32 id;
	int ret;

	if (!client)
		return -ENOMEM;
	client->page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!client->page) {
		kfree(client);
		return -ENOMEM;
	}
	kref_init(&client->ref);
	spin_lock_init(&client->lock);
	init_waitqueue_head(&client->wait);
	INIT_LIST_HEAD(&client->orders);
	INIT_LIST_HEAD(&client->taken);
	INIT_LIST_HEAD(&client->queues);
	client->mec = &vm->dev->mecs[vm->node];
	/* The process of an engine may outlive the device. */
	drm_dev_get(&vm->dev->adev.ddev);
	client->pasid = vm->avm->pasid;
	kref_get(&vm->ref);
	client->vm = vm;
	vm->client = client;
	/* Not one that an engine process on its way here still means another by. */
	ret = xa_alloc_cyclic(&vmi300_clients, &id, client, xa_limit_31b, &vmi300_next_client,
			      GFP_KERNEL);
	if (ret < 0) {
		vm->client = NULL;
		vmi300_vm_put(vm);
		vmi300_client_put(client);
		return ret;
	}
	client->id = id;
	xa_set_mark(&vmi300_clients, id, XA_MARK_1);
	wake_up(&vmi300_newcomers);
	return 0;
}

void vmi300_client_close(struct vmi300_vm *vm)
{
	struct vmi300_client *client = vm->client;
	struct vmi300_engine_page *page;

	if (!client)
		return;
	page = vmi300_page_of(client);
	xa_erase(&vmi300_clients, client->id);
	spin_lock(&client->lock);
	client->state = VMI300_CLIENT_CLOSED;
	client->vm = NULL;
	/* The engine looks at the count while it is busy. */
	WRITE_ONCE(page->orders, READ_ONCE(page->orders) + 1);
	spin_unlock(&client->lock);
	wake_up(&client->wait);
	wake_up_all(&client->mec->answered);
	/* vm->client stays: the firmware may look at it until the last reference is gone. */
	vmi300_vm_put(vm);
}

/* Waits for an address space that has no engine. */
int vmi300_client_next(struct vmi300_engine_next *args)
{
	struct vmi300_client *client = NULL;
	unsigned long id;

	while (!client) {
		if (wait_event_interruptible(vmi300_newcomers,
					     xa_marked(&vmi300_clients, XA_MARK_1)))
			return -ERESTARTSYS;
		xa_lock(&vmi300_clients);
		xa_for_each_marked(&vmi300_clients, id, client, XA_MARK_1) {
			struct vmi300_mec *mec = client->mec;

			__xa_clear_mark(&vmi300_clients, id, XA_MARK_1);
			args->id = id;
			args->gpu = mec->dev->number * mec->dev->nodes + mec->node;
			args->xccs = mec->xccs;
			args->cus = mec->xccs * mec->dev->cus;
			args->read_index = vmi300_read_index;
			break;
		}
		xa_unlock(&vmi300_clients);
	}
	return 0;
}

int vmi300_client_attach(struct vmi300_client *client)
{
	int ret = 0;

	spin_lock(&client->lock);
	if (client->state == VMI300_CLIENT_NEW)
		client->state = VMI300_CLIENT_ATTACHED;
	else
		ret = client->state == VMI300_CLIENT_CLOSED ? -ESRCH : -EBUSY;
	spin_unlock(&client->lock);
	return ret;
}

/* The engine process has ended. */
void vmi300_client_detach(struct vmi300_client *client)
{
	spin_lock(&client->lock);
	if (client->state == VMI300_CLIENT_ATTACHED)
		client->state = VMI300_CLIENT_LOST;
	spin_unlock(&client->lock);
	memset(vmi300_page_of(client)->waves, 0, sizeof(vmi300_page_of(client)->waves));
	wake_up_all(&client->mec->answered);
}

struct vmi300_order *vmi300_order_create(struct vmi300_client *client, u32 kind, gfp_t more)
{
	struct vmi300_order *order = kzalloc(sizeof(*order), GFP_KERNEL | more);

	if (!order)
		return NULL;
	INIT_LIST_HEAD(&order->list);
	INIT_LIST_HEAD(&order->batch);
	order->client = client;
	order->args.kind = kind;
	return order;
}

/*
 * Gives an order; one that is answered gets its number here. Orders that no
 * engine will take and no thread waits for are dropped.
 */
void vmi300_order_give(struct vmi300_order *order, bool answered)
{
	struct vmi300_client *client = order->client;
	struct vmi300_engine_page *page = vmi300_page_of(client);
	bool served;

	spin_lock(&client->lock);
	served = client->state == VMI300_CLIENT_NEW || client->state == VMI300_CLIENT_ATTACHED;
	if (answered)
		order->args.number = ++client->numbers;
	if (answered || served)
		list_add_tail(&order->list, &client->orders);
	WRITE_ONCE(page->orders, READ_ONCE(page->orders) + 1);
	spin_unlock(&client->lock);
	if (!answered && !served)
		kfree(order);
	wake_up(&client->wait);
}

/* Takes an order back that was given, whatever has happened to it, and frees it. */
void vmi300_order_free(struct vmi300_order *order)
{
	spin_lock(&order->client->lock);
	list_del(&order->list);
	spin_unlock(&order->client->lock);
	kvfree(order->unmapped);
	kfree(order);
}

bool vmi300_order_over(struct vmi300_order *order)
{
	struct vmi300_client *client = order->client;
	bool over;

	spin_lock(&client->lock);
	over = order->done || client->state != VMI300_CLIENT_ATTACHED;
	spin_unlock(&client->lock);
	return over;
}

static bool vmi300_has_orders(struct vmi300_client *client)
{
	bool has;

	spin_lock(&client->lock);
	has = !list_empty(&client->orders) || client->rung ||
	      client->state == VMI300_CLIENT_CLOSED;
	spin_unlock(&client->lock);
	return has;
}

/* Hands the next order to the engine process, which waits for it. */
int vmi300_client_order(struct vmi300_client *client, struct vmi300_engine_order *args)
{
	u64 timeout = min_t(u64, args->timeout_ns, NSEC_PER_SEC);
	struct vmi300_order *order;
	int ret;

	ret = wait_event_interruptible_hrtimeout(client->wait, vmi300_has_orders(client),
						 ns_to_ktime(timeout));
	if (ret == -ERESTARTSYS)
		return ret;
	memset(args, 0, sizeof(*args));
	spin_lock(&client->lock);
	client->rung = false;
	order = list_first_entry_or_null(&client->orders, struct vmi300_order, list);
	if (!order) {
		if (client->state == VMI300_CLIENT_CLOSED)
			args->kind = VMI300_ORDER_END;
		spin_unlock(&client->lock);
		return 0;
	}
	*args = order->args;
	if (order->args.number)
		list_move_tail(&order->list, &client->taken);
	else
		list_del(&order->list);
	spin_unlock(&client->lock);
	if (!args->number)
		kfree(order);
	return 0;
}

int vmi300_client_answer(struct vmi300_client *client, const struct vmi300_engine_answer *args)
{
	struct vmi300_engine_unmapped *unmapped = NULL;
	struct vmi300_order *order;
	int ret = -ENOENT;

	if (args->count > VMI300_MOST_QUEUES)
		return -EINVAL;
	if (args->count) {
		unmapped = vmemdup_array_user(u64_to_user_ptr(args->queues), args->count,
					      sizeof(*unmapped));
		if (IS_ERR(unmapped))
			return PTR_ERR(unmapped);
	}
	spin_lock(&client->lock);
	list_for_each_entry(order, &client->taken, list) {
		if (order->args.number != args->number || order->done)
			continue;
		swap(order->unmapped, unmapped);
		order->count = args->count;
		order->done = true;
		ret = 0;
		break;
	}
	spin_unlock(&client->lock);
	kvfree(unmapped);
	wake_up_all(&client->mec->answered);
	return ret;
}

struct vmi300_known_queue *vmi300_known(struct vmi300_client *client, u64 serial)
{
	struct vmi300_known_queue *known;

	list_for_each_entry(known, &client->queues, list) {
		if (known->serial == serial)
			return known;
	}
	return NULL;
}

int vmi300_client_interrupt(struct vmi300_client *client,
			    const struct vmi300_engine_interrupt *args)
{
	struct vmi300_ih_source from = { .mec = client->mec, .pasid = client->pasid };
	struct vmi300_known_queue *known;

	/* After the device was taken away there is no driver to hear of it. */
	if (!READ_ONCE(client->mec->dev->mecs))
		return -ENODEV;
	spin_lock(&client->lock);
	known = vmi300_known(client, args->serial);
	if (!known)
		known = list_first_entry_or_null(&client->queues, struct vmi300_known_queue, list);
	if (known) {
		from.vmid = known->vmid;
		from.doorbell_offset = known->doorbell_offset;
	}
	spin_unlock(&client->lock);
	if (!known)
		return -ENOENT;

	switch (args->kind) {
	case VMI300_INTERRUPT_EVENT:
		vmi300_ih_event(from, args->value);
		return 0;
	case VMI300_INTERRUPT_MESSAGE:
		vmi300_ih_message(from, args->value, false);
		return 0;
	case VMI300_INTERRUPT_TRAP:
		vmi300_ih_message(from, args->value, true);
		return 0;
	case VMI300_INTERRUPT_FAULT:
		vmi300_ih_fault(from, args->address);
		return 0;
	case VMI300_INTERRUPT_BAD_PACKET:
		vmi300_ih_bad_packet(from, args->value);
		return 0;
	default:
		return -EINVAL;
	}
}

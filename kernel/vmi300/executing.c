// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The executing engine: compute units that are processes of the guest.
 *
 * The firmware's thread gives orders when queues are mapped and unmapped, and
 * waits until the waves of an unmapped queue lie in the save area of the
 * application. The driver's threads give orders when memory comes and goes, and
 * wait as they would for a TLB flush.
 *
 * An engine process that dies with queues mapped leaves waves that never
 * leave: the firmware hangs until the driver resets the device.
 */
#include <linux/slab.h>

#include "client.h"
#include "kfd_priv.h"

/* How long a thread of the driver waits for an engine before it says so. */
#define VMI300_SPACE_WARNING	(5 * HZ)
/* The driver gives up after queue_preemption_timeout_ms and resets; this only bounds the wait. */
#define VMI300_STOP_TIMEOUT	(120 * HZ)

/*
 * Words of the MQDs that the driver leaves to the firmware hold the number of
 * a queue. They are zero in the MQD of a new one.
 */
static u64 vmi300_stored_serial(const struct vmi300_queue *q)
{
	if (q->compute)
		return (u64)q->mqd[0]->reserved_185 << 32 | q->mqd[0]->reserved_184;
	return (u64)q->sdma_mqd->reserved_43 << 32 | q->sdma_mqd->reserved_42;
}

static void vmi300_store_serial(struct vmi300_queue *q)
{
	if (q->compute) {
		q->mqd[0]->reserved_184 = lower_32_bits(q->serial);
		q->mqd[0]->reserved_185 = upper_32_bits(q->serial);
	} else {
		q->sdma_mqd->reserved_42 = lower_32_bits(q->serial);
		q->sdma_mqd->reserved_43 = upper_32_bits(q->serial);
	}
}

static void vmi300_forget(struct vmi300_client *client, struct vmi300_known_queue *known)
{
	struct vmi300_order *order = vmi300_order_create(client, VMI300_ORDER_FORGET, 0);

	if (order) {
		order->args.queue.serial = known->serial;
		vmi300_order_give(order, false);
	}
	kfree(known);
}

/* Forgets the queues whose MQDs lie in a range of addresses. */
static void vmi300_forget_range(struct vmi300_client *client, u64 address, size_t size)
{
	struct vmi300_known_queue *known, *next;
	LIST_HEAD(gone);

	spin_lock(&client->lock);
	list_for_each_entry_safe(known, next, &client->queues, list) {
		if (known->mqd_address >= address && known->mqd_address - address < size)
			list_move(&known->list, &gone);
	}
	spin_unlock(&client->lock);
	list_for_each_entry_safe(known, next, &gone, list)
		vmi300_forget(client, known);
}

struct vmi300_gart_range {
	u64 address;
	size_t size;
};

static void vmi300_client_gart_freed(struct vmi300_client *client, void *data)
{
	struct vmi300_gart_range *range = data;

	vmi300_forget_range(client, range->address, range->size);
}

static void vmi300_executing_gart_freed(struct vmi300 *dev, u64 address, size_t size)
{
	struct vmi300_gart_range range = { .address = address, .size = size };

	vmi300_client_each(dev, vmi300_client_gart_freed, &range);
}

/* Finds the queue by the number in its MQD, or makes it known. */
static bool vmi300_know(struct vmi300_queue *q)
{
	struct vmi300_client *client = q->vm->client;
	struct vmi300_known_queue *known, *new;
	u64 serial = vmi300_stored_serial(q);

	if (!serial)
		vmi300_forget_range(client, q->mqd_address, 1);
	new = kzalloc(sizeof(*new), GFP_KERNEL);
	if (!new)
		return false;
	spin_lock(&client->lock);
	known = serial ? vmi300_known(client, serial) : NULL;
	if (!known) {
		known = new;
		new = NULL;
		known->serial = ++client->serials;
		known->mqd_address = q->mqd_address;
		list_add_tail(&known->list, &client->queues);
	}
	known->doorbell_offset = q->doorbell_offset;
	known->vmid = q->vmid;
	q->serial = known->serial;
	spin_unlock(&client->lock);
	kfree(new);
	vmi300_store_serial(q);
	return true;
}

static u32 vmi300_format(const struct vmi300_queue *q)
{
	if (!q->compute)
		return VMI300_FORMAT_SDMA;
	return q->mqd[0]->cp_hqd_aql_control ? VMI300_FORMAT_AQL : VMI300_FORMAT_PM4;
}

/* What MQDs say of a compute queue and not of a copy queue. */
static void vmi300_describe_compute(const struct vmi300_queue *q, struct vmi300_engine_queue *to)
{
	const struct v9_mqd *mqd = q->mqd[0];
	unsigned int i;

	to->save_area = q->save_area;
	to->save_bytes = mqd->cp_hqd_ctx_save_size;
	to->control_stack = mqd->cp_hqd_cntl_stack_size;
	to->priority = mqd->cp_hqd_queue_priority;
	for (i = 0; i < q->mec->xccs; i++) {
		to->cu_mask[i][0] = q->mqd[i]->compute_static_thread_mgmt_se0;
		to->cu_mask[i][1] = q->mqd[i]->compute_static_thread_mgmt_se1;
		to->cu_mask[i][2] = q->mqd[i]->compute_static_thread_mgmt_se2;
		to->cu_mask[i][3] = q->mqd[i]->compute_static_thread_mgmt_se3;
	}
}

static void vmi300_executing_map(struct vmi300_queue *q)
{
	struct vmi300_client *client = q->vm ? q->vm->client : NULL;
	struct vmi300_order *order;

	if (!client || !vmi300_know(q))
		return;
	order = vmi300_order_create(client, VMI300_ORDER_MAP, 0);
	if (!order)
		return;
	order->args.queue = (struct vmi300_engine_queue) {
		.serial = q->serial,
		.ring = q->ring,
		.ring_bytes = q->ring_bytes,
		.read_index = q->read_index_va,
		.write_index = q->write_index_va,
		.format = vmi300_format(q),
		.slot = q->slot,
		.doorbell = vmi300_doorbell_id(q->doorbell_offset),
		.trap_memory = q->trap_memory,
	};
	if (q->compute)
		vmi300_describe_compute(q, &order->args.queue);
	vmi300_order_give(order, false);
}

static void vmi300_executing_rung(struct vmi300_queue *q)
{
	struct vmi300_client *client = q->vm ? q->vm->client : NULL;

	if (!client)
		return;
	spin_lock(&client->lock);
	client->rung = true;
	spin_unlock(&client->lock);
	wake_up(&client->wait);
}

/*
 * What the firmware writes when a queue has left. The hardware keeps control
 * stacks behind the MQDs, from where the driver copies them to the save area;
 * the engine writes them to the save area, whose owner may have changed them
 * meanwhile: then none is shown.
 */
static void vmi300_write_back(struct vmi300_queue *q, const struct vmi300_engine_unmapped *left)
{
	unsigned int i;

	for (i = 0; i < q->mec->xccs; i++) {
		struct v9_mqd *mqd = q->mqd[i];
		u32 stack = mqd->cp_hqd_cntl_stack_size, at = stack, end = stack;
		u64 part = q->save_area + (u64)i * mqd->cp_hqd_ctx_save_size;
		struct kfd_context_save_area_header header;
		void *copy;

		if (left->waves &&
		    !vmi300_vm_read(q->vm, part, &header, sizeof(header.wave_state)) &&
		    header.wave_state.control_stack_offset <= stack &&
		    header.wave_state.wave_state_offset >= stack) {
			at = header.wave_state.control_stack_offset;
			end = header.wave_state.wave_state_offset;
		}
		copy = vmi300_gart(q->mec->dev, mqd->cp_mqd_base_addr_lo |
				   (u64)mqd->cp_mqd_base_addr_hi << 32, PAGE_SIZE + stack);
		if (at < stack && (!copy || vmi300_vm_read(q->vm, part + at,
							   copy + PAGE_SIZE + at, stack - at)))
			at = stack;
		mqd->cp_hqd_cntl_stack_offset = at;
		mqd->cp_hqd_wg_state_offset = at < stack ? end : stack;
		mqd->cp_hqd_pq_rptr = (left->read_index * 16) % (q->packets * 16);
		mqd->cp_hqd_pq_wptr_lo = lower_32_bits(left->write_index * 16);
		mqd->cp_hqd_pq_wptr_hi = upper_32_bits(left->write_index * 16);
	}
	if (left->waves)
		q->mec->counters.saved++;
}

/* Looks for each queue of an answer among those that were to leave. */
static void vmi300_left(struct vmi300_mec *mec, const struct vmi300_order *order)
{
	struct vmi300_queue *q;
	u32 i;

	list_for_each_entry(q, &mec->queues, list) {
		if (!q->compute || !q->vm || q->vm->client != order->client)
			continue;
		for (i = 0; i < order->count; i++) {
			if (order->unmapped[i].serial == q->serial)
				vmi300_write_back(q, &order->unmapped[i]);
		}
	}
}

/* Gives the order to a client, unless it has it already or no engine has come yet. */
static bool vmi300_order_once(struct list_head *batch, struct vmi300_client *client, u32 kind,
			      u64 grace)
{
	struct vmi300_order *order, *next;
	bool fresh;

	list_for_each_entry(order, batch, batch) {
		if (order->client == client)
			return true;
	}
	spin_lock(&client->lock);
	fresh = client->state == VMI300_CLIENT_NEW;
	list_for_each_entry_safe(order, next, &client->orders, list) {
		/* Nothing has run: what was to be mapped is not. */
		if (fresh && order->args.kind == VMI300_ORDER_MAP) {
			list_del(&order->list);
			kfree(order);
		}
	}
	spin_unlock(&client->lock);
	if (fresh)
		return true;
	order = vmi300_order_create(client, kind, 0);
	if (!order)
		return false;
	order->args.grace_ns = grace;
	list_add_tail(&order->batch, batch);
	vmi300_order_give(order, true);
	return true;
}

static void vmi300_executing_stop(struct vmi300_mec *mec, vmi300_select select, u32 argument,
				  bool save)
{
	u32 kind = save ? VMI300_ORDER_UNMAP : VMI300_ORDER_DROP;
	struct vmi300_order *order, *next;
	struct vmi300_queue *q;
	LIST_HEAD(batch);

	list_for_each_entry(q, &mec->queues, list) {
		if (q->mapped && q->serial && select(q, argument) &&
		    !vmi300_order_once(&batch, q->vm->client, kind, vmi300_grace_ns(mec)))
			mec->hung = true;
	}
	list_for_each_entry_safe(order, next, &batch, batch) {
		wait_event_timeout(mec->answered, vmi300_order_over(order) ||
				   READ_ONCE(mec->resetting), VMI300_STOP_TIMEOUT);
		if (order->done)
			vmi300_left(mec, order);
		else if (order->client->state != VMI300_CLIENT_CLOSED)
			mec->hung = true;
		vmi300_order_free(order);
	}
}

static u64 vmi300_executing_run(struct vmi300_mec *mec, u64 now)
{
	return U64_MAX;
}

static u32 vmi300_executing_waves(const struct vmi300_queue *q)
{
	u32 most = q->mec->xccs * q->mec->dev->cus * VMI300_WAVES_PER_CU;

	if (q->slot < 0 || !q->vm || !q->vm->client)
		return 0;
	return min(READ_ONCE(vmi300_page_of(q->vm->client)->waves[q->slot]), most);
}

static void vmi300_client_reset(struct vmi300_client *client, void *data)
{
	struct vmi300_order *order;

	if (client->mec != data)
		return;
	order = vmi300_order_create(client, VMI300_ORDER_RESET, 0);
	if (order)
		vmi300_order_give(order, false);
}

static void vmi300_executing_reset(struct vmi300_mec *mec)
{
	vmi300_client_each(mec->dev, vmi300_client_reset, mec);
}

static void vmi300_executing_space_changed(struct vmi300_vm *vm)
{
	struct vmi300_client *client = vm->client;
	struct vmi300_order *order;

	if (!client || client->state != VMI300_CLIENT_ATTACHED)
		return;
	/* An engine that missed it would use old addresses. */
	order = vmi300_order_create(client, VMI300_ORDER_SPACE, __GFP_NOFAIL);
	vmi300_order_give(order, true);
	while (!wait_event_timeout(client->mec->answered, vmi300_order_over(order),
				   VMI300_SPACE_WARNING))
		dev_warn(vm->dev->adev.dev, "an engine process does not answer\n");
	vmi300_order_free(order);
}

static int vmi300_executing_init(struct vmi300 *dev)
{
	return vmi300_window_init();
}

static void vmi300_executing_fini(struct vmi300 *dev)
{
	vmi300_window_fini();
}

const struct vmi300_engine vmi300_executing = {
	.copies = true,
	.init = vmi300_executing_init,
	.fini = vmi300_executing_fini,
	.map = vmi300_executing_map,
	.rung = vmi300_executing_rung,
	.stop = vmi300_executing_stop,
	.run = vmi300_executing_run,
	.waves = vmi300_executing_waves,
	.reset = vmi300_executing_reset,
	.open = vmi300_client_open,
	.close = vmi300_client_close,
	.space_changed = vmi300_executing_space_changed,
	.gart_freed = vmi300_executing_gart_freed,
};

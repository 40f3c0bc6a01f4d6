/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Clients of the executing engine: for client.c and executing.c. */
#ifndef VMI300_CLIENT_H
#define VMI300_CLIENT_H

#include "vmi300.h"

enum vmi300_client_state {
	VMI300_CLIENT_NEW,	/* no engine process has come yet */
	VMI300_CLIENT_ATTACHED,
	VMI300_CLIENT_LOST,	/* its engine process has ended */
	VMI300_CLIENT_CLOSED,	/* the address space is gone */
};

struct vmi300_order {
	struct list_head list;		/* vmi300_client.orders or .taken */
	struct list_head batch;		/* orders that are waited for together */
	struct vmi300_client *client;
	struct vmi300_engine_order args;
	bool done;
	struct vmi300_engine_unmapped *unmapped;
	u32 count;
};

/* A queue as long as its MQD lives, mapped or not. */
struct vmi300_known_queue {
	struct list_head list;
	u64 serial;
	u64 mqd_address;
	u32 doorbell_offset;
	u32 vmid;
};

struct vmi300_client {
	struct kref ref;
	u64 id;
	struct vmi300_mec *mec;
	u32 pasid;
	struct page *page;		/* struct vmi300_engine_page */
	wait_queue_head_t wait;		/* the engine process, for orders */

	/* Protects what follows. Nothing is taken inside it. */
	spinlock_t lock;
	struct vmi300_vm *vm;		/* with a reference; NULL: closed */
	enum vmi300_client_state state;
	struct list_head orders;	/* not taken yet */
	struct list_head taken;		/* taken, and waited for */
	struct list_head queues;
	u64 numbers;
	u64 serials;
	bool rung;
};

static inline struct vmi300_engine_page *vmi300_page_of(const struct vmi300_client *client)
{
	return page_address(client->page);
}

int vmi300_client_open(struct vmi300_vm *vm);
void vmi300_client_close(struct vmi300_vm *vm);
void vmi300_client_each(struct vmi300 *dev, void (*act)(struct vmi300_client *client, void *data),
			void *data);
struct vmi300_known_queue *vmi300_known(struct vmi300_client *client, u64 serial);
struct vmi300_order *vmi300_order_create(struct vmi300_client *client, u32 kind, gfp_t more);
void vmi300_order_give(struct vmi300_order *order, bool answered);
void vmi300_order_free(struct vmi300_order *order);
bool vmi300_order_over(struct vmi300_order *order);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * /dev/vmi300: the interface of the executing engine.
 *
 * The engine is a program of the guest (crates/vmi300-engine). Its first
 * process asks with NEXT for GPU address spaces that have no engine. For each
 * it starts a process, which opens the device again, calls ATTACH, and from
 * then on takes orders, answers those that are waited for, and raises
 * interrupts.
 *
 * An attached file can be mapped. The first VMI300_WINDOW_SIZE bytes are a
 * window onto GPU memory: RANGES tells which GPU addresses lie where in it.
 * Pages come when they are touched; a page that left the address space raises
 * SIGBUS. The page behind the window is struct vmi300_engine_page.
 */
#ifndef VMI300_ENGINE_IOCTL_H
#define VMI300_ENGINE_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define VMI300_WINDOW_SIZE	0x4000000000ULL	/* 256 GiB */
#define VMI300_PAGE_OFFSET	VMI300_WINDOW_SIZE

/* Written by both sides, believed by neither. */
struct vmi300_engine_page {
	__u32 orders;		/* ever given; the engine looks whether it changed */
	__u32 reserved;
	__u32 waves[32];	/* of the queue in each slot; written by the engine */
};

/* An address space that has no engine, and the gpu that it belongs to. */
struct vmi300_engine_next {
	__u64 id;
	__u32 gpu;		/* number among those of the module */
	__u32 xccs;
	__u32 cus;		/* of all XCCs */
	__u32 read_index;	/* parameter of the module */
};

struct vmi300_engine_attach {
	__u64 id;
};

#define VMI300_RANGE_WRITABLE	1
#define VMI300_RANGE_EXECUTABLE	2

struct vmi300_engine_range {
	__u64 va;
	__u64 size;
	__u64 window;		/* offset in the window */
	__u32 flags;
	__u32 reserved;
};

struct vmi300_engine_ranges {
	__u64 ranges;		/* pointer to room for so many */
	__u32 room;
	__u32 count;		/* out: there are; more than room: none was copied */
};

enum vmi300_order_kind {
	VMI300_ORDER_NONE,	/* a doorbell rang, or the time is up */
	VMI300_ORDER_MAP,	/* a queue comes to the device, or comes back */
	VMI300_ORDER_UNMAP,	/* all queues leave; answered when their waves are saved */
	VMI300_ORDER_DROP,	/* all queues leave; what they have under way is lost; answered */
	VMI300_ORDER_SPACE,	/* RANGES changed; answered when the old ones are not used */
	VMI300_ORDER_FORGET,	/* a queue was destroyed */
	VMI300_ORDER_RESET,	/* the device was reset */
	VMI300_ORDER_END,	/* the address space is closed */
};

#define VMI300_FORMAT_AQL	0
#define VMI300_FORMAT_PM4	1
#define VMI300_FORMAT_SDMA	2

struct vmi300_engine_queue {
	__u64 serial;		/* unique in the address space */
	__u64 ring;
	__u64 ring_bytes;
	__u64 read_index;
	__u64 write_index;
	__u64 save_area;
	__u32 save_bytes;	/* of one XCC */
	__u32 control_stack;	/* bytes of header and control stack */
	__u32 format;
	__u32 priority;
	__u32 slot;		/* index of vmi300_engine_page.waves; ~0: none */
	__u32 doorbell;		/* number by which trap handlers name the queue */
	__u64 trap_memory;	/* TMA of the first-level trap handler */
	__u32 cu_mask[8][4];	/* compute units of each XCC and shader engine */
};

struct vmi300_engine_order {
	__u64 timeout_ns;	/* in: how long to wait for an order */
	__u64 number;		/* to answer with; 0: no answer */
	__u32 kind;
	__u32 reserved;
	__u64 grace_ns;		/* of UNMAP; ~0: waves have for ever */
	struct vmi300_engine_queue queue;	/* of MAP; of FORGET its serial */
};

/* A queue that UNMAP took off. */
struct vmi300_engine_unmapped {
	__u64 serial;
	__u64 read_index;
	__u64 write_index;
	__u32 waves;		/* saved; 0: the save area was left alone */
	__u32 reserved;
};

struct vmi300_engine_answer {
	__u64 number;
	__u64 queues;		/* pointer to struct vmi300_engine_unmapped */
	__u32 count;
	__u32 reserved;
};

enum vmi300_interrupt_kind {
	VMI300_INTERRUPT_EVENT,		/* of the packet processor; value: event */
	VMI300_INTERRUPT_MESSAGE,	/* s_sendmsg of a wave; value: M0 */
	VMI300_INTERRUPT_TRAP,		/* the same of a trap handler */
	VMI300_INTERRUPT_FAULT,		/* address */
	VMI300_INTERRUPT_BAD_PACKET,	/* value: exception code */
};

struct vmi300_engine_interrupt {
	__u64 serial;		/* of the queue */
	__u64 address;
	__u32 kind;
	__u32 value;
};

#define VMI300_IOC_NEXT		_IOR('v', 0, struct vmi300_engine_next)
#define VMI300_IOC_ATTACH	_IOW('v', 1, struct vmi300_engine_attach)
#define VMI300_IOC_RANGES	_IOWR('v', 2, struct vmi300_engine_ranges)
#define VMI300_IOC_ORDER	_IOWR('v', 3, struct vmi300_engine_order)
#define VMI300_IOC_ANSWER	_IOW('v', 4, struct vmi300_engine_answer)
#define VMI300_IOC_INTERRUPT	_IOW('v', 5, struct vmi300_engine_interrupt)

#endif

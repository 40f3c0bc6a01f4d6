// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * AQL packets as the packet processor sees them: HSA Platform System
 * Architecture Specification 1.2, section 2.8, and amd_hsa_signal.h of ROCr.
 *
 * A kernel dispatch lasts as many nanoseconds as its reserved2 field says.
 * Hardware ignores that field, programs leave it zero: such a packet lasts
 * default_packet_us.
 */
#include <linux/unaligned.h>

#include "vmi300.h"
#include "kfd_priv.h"

#define AQL_SIZE		64
#define AQL_TYPE_VENDOR		0
#define AQL_TYPE_INVALID	1
#define AQL_TYPE_DISPATCH	2
#define AQL_TYPE_BARRIER_AND	3
#define AQL_TYPE_BARRIER_OR	5

/* Fields of a packet, by offset. */
#define AQL_HEADER		0
#define AQL_WORKGROUP		4
#define AQL_GRID		12
#define AQL_DURATION		48
#define AQL_SIGNAL		56
#define AQL_DEPENDENCIES	8
#define AQL_MAX_DEPENDENCIES	5

/* Fields of struct amd_signal. */
#define SIGNAL_VALUE		8
#define SIGNAL_MAILBOX		16
#define SIGNAL_EVENT		24
#define SIGNAL_START		32

#define WAVE_LANES		64

enum {
	READ_INDEX_RETIRE,
	READ_INDEX_FETCH_REWOUND,
	READ_INDEX_FETCH,
};

/*
 * When the read index passes a packet. AMD's debugger library wants that of a
 * suspended queue not to have passed a packet with waves, which leaves 0 and 1
 * (ROCdbgapi, queue.cpp, os_queue_packet_id). 2 is what that excludes.
 */
unsigned int vmi300_read_index = READ_INDEX_RETIRE;
module_param_named(read_index, vmi300_read_index, uint, 0644);
MODULE_PARM_DESC(read_index, "the read index passes a packet: 0 when it retires, 1 when fetched, rewound at save, 2 when fetched");

static unsigned int default_packet_us = 10;
module_param(default_packet_us, uint, 0644);
MODULE_PARM_DESC(default_packet_us, "how long a dispatch lasts that states no time");

static u64 vmi300_packet_va(struct vmi300_queue *q)
{
	return q->ring + q->next % q->packets * AQL_SIZE;
}

static u16 field16(const u8 *packet, unsigned int at)
{
	return get_unaligned_le16(packet + at);
}

static u32 field32(const u8 *packet, unsigned int at)
{
	return get_unaligned_le32(packet + at);
}

static u64 field64(const u8 *packet, unsigned int at)
{
	return get_unaligned_le64(packet + at);
}

/* Reads the write index. The old limit stays where it cannot be read. */
u64 vmi300_ring_limit(struct vmi300_queue *q)
{
	u64 limit;

	if (vmi300_vm_read(q->vm, q->write_index_va, &limit, sizeof(limit)))
		return q->limit;
	return limit;
}

/* A barrier is passed when all signals, or one, are zero; none counts as passed. */
static bool vmi300_barrier_passed(struct vmi300_queue *q, const u8 *packet, bool any)
{
	unsigned int i, named = 0, fired = 0;

	for (i = 0; i < AQL_MAX_DEPENDENCIES; i++) {
		u64 signal = field64(packet, AQL_DEPENDENCIES + 8 * i);
		s64 value;

		if (!signal)
			continue;
		named++;
		if (!vmi300_vm_read(q->vm, signal + SIGNAL_VALUE, &value, sizeof(value)) && !value)
			fired++;
	}
	if (!named)
		return true;
	return any ? fired : fired == named;
}

static enum vmi300_packet_kind vmi300_dispatch(const u8 *raw, struct vmi300_packet *packet)
{
	u64 workgroups = 1, lanes = 1;
	int i;

	for (i = 0; i < 3; i++) {
		u32 workgroup = field16(raw, AQL_WORKGROUP + 2 * i);
		u32 grid = field32(raw, AQL_GRID + 4 * i);

		if (!workgroup || !grid) {
			packet->error = EC_QUEUE_PACKET_DISPATCH_DIM_INVALID;
			return VMI300_PACKET_BAD;
		}
		lanes *= workgroup;
		/* Bounded: more than fits on the device is the same as all of it. */
		workgroups = min_t(u64, workgroups * DIV_ROUND_UP(grid, workgroup), U32_MAX);
	}
	packet->waves = workgroups * min_t(u64, DIV_ROUND_UP(lanes, WAVE_LANES), U32_MAX);
	packet->duration = field64(raw, AQL_DURATION);
	if (!packet->duration)
		packet->duration = (u64)default_packet_us * NSEC_PER_USEC;
	/* A packet of a hostile program ends some day. */
	packet->duration = min_t(u64, packet->duration, VMI300_LONGEST_NS);
	return VMI300_PACKET_READY;
}

/* Looks at the next packet of a ring, without any effect. */
enum vmi300_packet_kind vmi300_packet_fetch(struct vmi300_queue *q, struct vmi300_packet *packet)
{
	u8 raw[AQL_SIZE];

	memset(packet, 0, sizeof(*packet));
	if (q->next >= q->limit)
		return VMI300_PACKET_NONE;
	if (vmi300_vm_read(q->vm, vmi300_packet_va(q), raw, sizeof(raw))) {
		packet->error = EC_QUEUE_PACKET_RESERVED;
		return VMI300_PACKET_BAD;
	}
	switch (field16(raw, AQL_HEADER) & 0xff) {
	case AQL_TYPE_INVALID:
		return VMI300_PACKET_NONE;
	case AQL_TYPE_DISPATCH:
		return vmi300_dispatch(raw, packet);
	case AQL_TYPE_BARRIER_AND:
	case AQL_TYPE_BARRIER_OR:
		if (vmi300_barrier_passed(q, raw,
					  (field16(raw, AQL_HEADER) & 0xff) == AQL_TYPE_BARRIER_OR))
			return VMI300_PACKET_READY;
		return VMI300_PACKET_WAITS;
	case AQL_TYPE_VENDOR:
		/* Cache maintenance, timestamps: takes no time here. */
		return VMI300_PACKET_READY;
	default:
		packet->error = EC_QUEUE_PACKET_UNSUPPORTED;
		return VMI300_PACKET_BAD;
	}
}

static void vmi300_report_read_index(struct vmi300_queue *q, u64 index)
{
	if (vmi300_vm_write(q->vm, q->read_index_va, &index, sizeof(index)))
		vmi300_ih_fault(vmi300_ih_source(q), q->read_index_va);
}

void vmi300_packet_begin(struct vmi300_queue *q)
{
	if (vmi300_read_index != READ_INDEX_RETIRE)
		vmi300_report_read_index(q, q->next + 1);
}

void vmi300_packet_rewind(struct vmi300_queue *q)
{
	if (vmi300_read_index == READ_INDEX_FETCH_REWOUND)
		vmi300_report_read_index(q, q->next);
}

static void vmi300_signal(struct vmi300_queue *q, u64 signal, u64 now)
{
	u64 times[2] = { q->begun, now };
	u64 mailbox = 0, value;
	u32 event = 0;

	/* Programs that do not profile have no use for the times; an error shows below. */
	vmi300_vm_write(q->vm, signal + SIGNAL_START, times, sizeof(times));
	if (vmi300_vm_add(q->vm, signal + SIGNAL_VALUE, -1)) {
		vmi300_ih_fault(vmi300_ih_source(q), signal);
		return;
	}
	if (vmi300_vm_read(q->vm, signal + SIGNAL_MAILBOX, &mailbox, sizeof(mailbox)) ||
	    vmi300_vm_read(q->vm, signal + SIGNAL_EVENT, &event, sizeof(event)) || !mailbox)
		return;
	value = event;
	vmi300_vm_write(q->vm, mailbox, &value, sizeof(value));
	vmi300_ih_event(vmi300_ih_source(q), event);
}

/* The next packet is done: frees it, fires its signal, advances the index. */
void vmi300_packet_retire(struct vmi300_queue *q, u64 now)
{
	u16 invalid = AQL_TYPE_INVALID;
	u64 signal = 0;

	vmi300_vm_read(q->vm, vmi300_packet_va(q) + AQL_SIGNAL, &signal, sizeof(signal));
	vmi300_vm_write(q->vm, vmi300_packet_va(q), &invalid, sizeof(invalid));
	q->next++;
	q->mec->counters.retired++;
	vmi300_report_read_index(q, q->next);
	if (signal)
		vmi300_signal(q, signal, now);
}

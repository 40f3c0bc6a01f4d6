// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Interrupts: entries of the interrupt ring in the layout that
 * kfd_int_process_v9.c decodes.
 */
#include "vmi300.h"
#include "kfd_priv.h"
#include "gc/gc_9_0_sh_mask.h"
#include "soc15_ih_clientid.h"
#include "soc15_int.h"
#include "ivsrcid/gfx/irqsrcs_gfx_9_0.h"
#include "ivsrcid/vmc/irqsrcs_vmc_1_0.h"

struct vmi300_ih_entry {
	u32 dw[8];
};

/*
 * Interrupts of an XCC carry the number of its die times four plus one or
 * two: set_pasid_vmid_mapping of gc_9_4_3 programs the tables so.
 */
static u32 vmi300_ih_node(struct vmi300_mec *mec)
{
	return mec->first_xcc / 2 * 4 + mec->first_xcc % 2 + 1;
}

struct vmi300_ih_source vmi300_ih_source(const struct vmi300_queue *q)
{
	return (struct vmi300_ih_source) {
		.mec = q->mec,
		.pasid = q->pasid,
		.vmid = q->vmid,
		.doorbell_offset = q->doorbell_offset,
	};
}

static void vmi300_ih_send(struct vmi300_ih_source from, u8 client, u8 source, u32 context0,
			   u32 context1)
{
	struct vmi300_ih_entry entry = {};

	entry.dw[0] = client | source << 8 | from.vmid << 24;
	entry.dw[3] = from.pasid | vmi300_ih_node(from.mec) << 16;
	entry.dw[4] = context0;
	entry.dw[5] = context1;
	atomic64_inc(&from.mec->counters.interrupts);
	kgd2kfd_interrupt(from.mec->dev->adev.kfd.dev, &entry);
}

/* The packet processor writes an event's number and interrupts. */
void vmi300_ih_event(struct vmi300_ih_source from, u32 event)
{
	vmi300_ih_send(from, SOC15_IH_CLIENTID_GRBM_CP, SOC15_INTSRC_CP_END_OF_PIPE, event, 0);
}

/*
 * A wave interrupts with 24 bits of M0, spread over the context words as
 * KFD_CONTEXT_ID_GET_SQ_INT_DATA reads them. Encoding 1 is that of an
 * instruction; a bit tells trap handlers from programs.
 */
void vmi300_ih_message(struct vmi300_ih_source from, u32 payload, bool privileged)
{
	u32 context0 = (payload & 0xfff) | (payload & 0xf000) << 16 |
		       1 << SQ_INTERRUPT_WORD_WAVE_CTXID__ENCODING__SHIFT;

	if (privileged)
		context0 |= SQ_INTERRUPT_WORD_WAVE_CTXID__PRIV_MASK;
	vmi300_ih_send(from, SOC15_IH_CLIENTID_SE0SH, SOC15_INTSRC_SQ_INTERRUPT_MSG, context0,
		       payload >> 16 & 0xff);
}

/* A packet that cannot be processed: exception code in bits 25 to 10, doorbell below. */
void vmi300_ih_bad_packet(struct vmi300_ih_source from, u32 code)
{
	vmi300_ih_send(from, SOC15_IH_CLIENTID_GRBM_CP, SOC15_INTSRC_CP_BAD_OPCODE,
		       code << 10 | vmi300_doorbell_id(from.doorbell_offset), 0);
}

/* An access outside of the address space. */
void vmi300_ih_fault(struct vmi300_ih_source from, u64 va)
{
	atomic64_inc(&from.mec->counters.faults);
	vmi300_ih_send(from, SOC15_IH_CLIENTID_UTCL2, VMC_1_0__SRCID__VM_FAULT,
		       lower_32_bits(va >> PAGE_SHIFT), upper_32_bits(va >> PAGE_SHIFT));
}

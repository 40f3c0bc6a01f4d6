/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A virtual MI300 below AMD's amdkfd.
 *
 * amdkfd is compiled from the distribution's source as it is. This module
 * answers what amdkfd asks of amdgpu, of the firmware and of the hardware:
 *
 *   pci.c, drm.c, xcp.c     the device, its render nodes, its partitions
 *   info.c                  what libdrm asks a render node
 *   bo.c, gpuvm.c           buffers and GPU address spaces
 *   gart.c, doorbell.c      kernel memory and doorbells as the firmware sees them
 *   regs.c                  registers that amdkfd reads and writes
 *   mec.c, runlist.c        the firmware: HIQ packets, runlists, slots
 *   timed.c, aql.c          the timed engine: packets that last a stated time
 *   executing.c, client.c   the executing engine: a program of the guest
 *   window.c                the device file of that program
 *   evict.c                 fault injection: eviction of a process
 *   ih.c, reset.c           interrupts, reset
 *   answers.c, absent.c     constants; what this device never does
 *
 * Nothing here was measured on an MI300. Each assumption about firmware says
 * where it comes from and has a module parameter for the other behaviour.
 */
#ifndef VMI300_H
#define VMI300_H

#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/maple_tree.h>
#include <linux/wait.h>

#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <uapi/drm/amdgpu_drm.h>

#include "amdgpu.h"
#include "amdgpu_amdkfd.h"
#include "amdgpu_reset.h"
#include "amdgpu_vm.h"
#include "amdgpu_xcp.h"
#include "engine_ioctl.h"
#include "v9_structs.h"

#define VMI300_MAX_XCC		8
#define VMI300_SLOTS		32	/* 4 pipes with 8 queues */
#define VMI300_ENGINES		4	/* shader engines of an XCC */
#define VMI300_WAVES_PER_CU	32
#define VMI300_DOORBELLS	1024	/* of a process: KFD_MAX_NUM_OF_QUEUES_PER_PROCESS */
#define VMI300_CLOCK_MHZ	2100
/* Nothing that a program or a register asks for lasts longer. */
#define VMI300_LONGEST_NS	(3600ULL * NSEC_PER_SEC)

struct vmi300;
struct vmi300_gart_entry;
struct vmi300_mec;

/*
 * The GPU address space of one process on one device. The firmware and the
 * engines hold references, so that translation needs no lock of the driver.
 */
struct vmi300_vm {
	struct kref ref;
	struct list_head list;		/* vmi300.vms */
	struct vmi300 *dev;
	struct amdgpu_vm *avm;
	unsigned int node;		/* partition */
	/* Protects ranges and attachments. Nothing is taken inside it. */
	struct mutex lock;
	/* Page frame of the GPU to struct amdgpu_bo_va_mapping. */
	struct maple_tree ranges;
	struct list_head attachments;
	/* Page of the executing engine's window to the same. */
	struct maple_tree window;
	struct vmi300_client *client;	/* of the executing engine, or NULL */
};

/* A buffer in an address space. Ring buffers of old gpus lie there twice. */
struct vmi300_attachment {
	struct list_head list;
	struct amdgpu_bo_va va;
	struct amdgpu_bo_va_mapping mapping[2];
	unsigned long window[2];	/* page of the window; ULONG_MAX: none */
	unsigned int mappings;
	u32 flags;			/* VMI300_RANGE_* */
};

struct vmi300_file {
	struct amdgpu_fpriv fpriv;
	struct vmi300_vm *vm;
};

enum vmi300_backing {
	VMI300_SHMEM,		/* video memory and host memory alike */
	VMI300_USER,		/* pages of the process, pinned */
	VMI300_PHYSICAL,	/* doorbells, registers */
};

struct vmi300_bo {
	struct amdgpu_bo bo;
	enum vmi300_backing backing;
	struct page **pages;	/* of VMI300_USER, or while mapped into the kernel */
	struct xarray resident;	/* pages in a window, with a reference */
	void *kernel;
	phys_addr_t physical;
	u32 doorbell;		/* first doorbell, in bytes on the bar */
};

static inline struct vmi300_bo *to_vmi300_bo(struct amdgpu_bo *bo)
{
	return container_of(bo, struct vmi300_bo, bo);
}

/* One queue of the runlist. Its state between two runlists is in its MQD. */
struct vmi300_queue {
	struct list_head list;		/* vmi300_mec.queues */
	struct list_head polled;	/* vmi300_mec.polled; under slots_lock */
	struct vmi300_mec *mec;
	struct vmi300_vm *vm;
	u32 pasid;
	unsigned int vmid;
	unsigned int process;		/* number of its process in the runlist */
	bool compute;
	bool is_static;
	bool mapped;
	int slot;			/* of a mapped compute queue, else -1 */
	u32 doorbell_offset;		/* in dwords on the bar */
	u64 *doorbell;
	u64 doorbell_seen;
	bool rung;			/* by vmi300_mec.poll; under slots_lock */
	u64 mqd_address;
	struct vmi300_gart_entry *mqd_memory;	/* with a reference */
	u64 trap_memory;		/* TMA of its process */
	struct v9_mqd *mqd[VMI300_MAX_XCC];
	struct v9_sdma_mqd *sdma_mqd;	/* of a copy queue, which has no other */
	u64 ring;
	u64 ring_bytes;
	u32 packets;			/* in the ring */
	u64 read_index_va;
	u64 write_index_va;
	u64 save_area;

	/* Of the timed engine. */
	u64 next;			/* packet to be processed next */
	u64 limit;			/* packets before this one are there */
	bool running;
	bool stuck;			/* after an error; runs nothing more */
	u64 begun;
	u64 ends;
	u64 saved;			/* what is left of a saved packet, in ns */
	u32 waves;			/* of the running or saved packet */
	u64 look_again;			/* at a packet that waits; 0: not */

	/* Of the executing engine. */
	u64 serial;
};

struct vmi300_hiq {
	bool on;
	u32 *ring;
	u32 dwords;
	u64 rptr;
	u64 *doorbell;
	u32 *rptr_report;
	struct v9_mqd *mqd[VMI300_MAX_XCC];
};

/* Counters of a partition, shown in debugfs. */
struct vmi300_counters {
	u64 runlists;
	u64 unmaps;		/* UNMAP_QUEUES that took at least one queue off */
	u64 idle_unmaps;	/* the others */
	u64 queries;
	u64 saved;		/* packets that were saved in the middle */
	u64 restored;
	u64 retired;
	u64 rotations;		/* turns of an over-subscribed runlist */
	/* Raised by an engine's process, too, which takes no lock. */
	atomic64_t interrupts;
	atomic64_t faults;
};

/* The microcontroller of one partition: one firmware, one runlist. */
struct vmi300_mec {
	struct vmi300 *dev;
	unsigned int node;
	unsigned int first_xcc;
	unsigned int xccs;
	struct task_struct *thread;
	wait_queue_head_t wait;
	bool kicked;
	/* Looks at doorbells. */
	struct hrtimer poll;
	unsigned int eager;		/* under slots_lock */
	bool ending;			/* under slots_lock */
	/* An engine answered, or is gone. */
	wait_queue_head_t answered;
	bool resetting;
	/* Ends packets and turns; wakes the thread. */
	struct hrtimer alarm;

	/* Protects everything below; taken by the thread and by resets. */
	struct mutex lock;
	struct vmi300_hiq hiq;
	u64 kiq_mqd[VMI300_MAX_XCC];	/* HIQ that the KIQ was told to map */
	u32 vmid_mask;
	u32 queue_mask;
	u32 wait_times;			/* CP_IQ_WAIT_TIME2 */
	struct list_head queues;
	bool chained;			/* the runlist does not fit */
	unsigned int processes;		/* that may be mapped at once */
	struct vmi300_queue *turn;	/* first queue of the next turn */
	u64 turn_ends;
	struct vmi300_queue *last_begun;
	bool hung;			/* waves do not leave; until a reset */
	struct vmi300_counters counters;

	/* Slots as registers show them; also read in interrupt context. */
	spinlock_t slots_lock;
	struct vmi300_queue *slots[VMI300_SLOTS];
	struct list_head polled;	/* queues whose doorbells are looked at */
};

/*
 * The compute units. Functions are called with mec->lock held unless they say
 * otherwise; those that an engine leaves out do nothing.
 */
struct vmi300_engine {
	bool copies;			/* serves SDMA queues */
	int (*init)(struct vmi300 *dev);
	void (*fini)(struct vmi300 *dev);
	/* A queue has its slot. */
	void (*map)(struct vmi300_queue *q);
	void (*rung)(struct vmi300_queue *q);
	/* Takes the waves of queues off. Sets mec->hung where it cannot. */
	void (*stop)(struct vmi300_mec *mec, bool (*select)(const struct vmi300_queue *q,
							    u32 argument),
		     u32 argument, bool save);
	/* Ends and begins packets; returns when to be called again, or U64_MAX. */
	u64 (*run)(struct vmi300_mec *mec, u64 now);
	/* In any context. */
	u32 (*waves)(const struct vmi300_queue *q);
	void (*reset)(struct vmi300_mec *mec);
	/* An address space serves a process, or no longer. Without locks. */
	int (*open)(struct vmi300_vm *vm);
	void (*close)(struct vmi300_vm *vm);
	/* Returns when the engine has the new table of ranges. Without vm->lock. */
	void (*space_changed)(struct vmi300_vm *vm);
	/* Memory of the kernel is freed, and with it perhaps an MQD. Without locks. */
	void (*gart_freed)(struct vmi300 *dev, u64 address, size_t size);
};

struct vmi300 {
	struct amdgpu_device adev;
	const struct vmi300_engine *engine;
	unsigned int number;		/* among the devices of the module */
	unsigned int xccs;
	unsigned int nodes;
	unsigned int cus;		/* of an XCC */
	struct vmi300_mec *mecs;
	struct mutex vms_lock;		/* protects vms */
	struct list_head vms;

	spinlock_t gart_lock;		/* protects gart and gart_next */
	struct list_head gart;
	u64 gart_next;

	struct mutex doorbell_lock;	/* protects doorbell_pages */
	unsigned long *doorbell_pages;
	struct page *doorbell_bar;
	struct page *remap_page;

	struct xarray registers;
	u32 select[VMI300_MAX_XCC];	/* GRBM: micro engine, pipe, queue, vmid */
	u32 engine_select[VMI300_MAX_XCC];
	u32 kiq[VMI300_MAX_XCC][64];
	struct dentry *debugfs;
	atomic_t resets;
};

static inline struct vmi300 *to_vmi300(struct amdgpu_device *adev)
{
	return container_of(adev, struct vmi300, adev);
}

/* drm.c */
extern const struct drm_driver vmi300_drm_driver;
struct amdgpu_device *vmi300_adev(struct drm_device *ddev);

/* info.c: the calls of a render node, by number. */
#define VMI300_IOCTLS		(DRM_AMDGPU_INFO + 1)
extern const struct drm_ioctl_desc vmi300_ioctls[VMI300_IOCTLS];

/* xcp.c */
int vmi300_xcp_init(struct vmi300 *dev);
int vmi300_xcp_register(struct vmi300 *dev);
void vmi300_xcp_fini(struct vmi300 *dev);
unsigned int vmi300_xcp_of(struct vmi300 *dev, const struct drm_device *ddev);

/* bo.c */
struct vmi300_bo *vmi300_bo_create(struct amdgpu_device *adev, u64 size);
struct page *vmi300_bo_page(struct vmi300_bo *bo, pgoff_t index);
struct page *vmi300_bo_resident(struct vmi300_bo *bo, pgoff_t index);

/* gpuvm.c */
struct vmi300_vm *vmi300_vm_create(struct vmi300 *dev, struct amdgpu_vm *avm, unsigned int node);
void vmi300_vm_close(struct vmi300_vm *vm);
struct vmi300_vm *vmi300_vm_get(struct vmi300_mec *mec, u32 pasid);
void vmi300_vm_put(struct vmi300_vm *vm);
int vmi300_vm_read(struct vmi300_vm *vm, u64 va, void *to, size_t size);
int vmi300_vm_write(struct vmi300_vm *vm, u64 va, const void *from, size_t size);
int vmi300_vm_add(struct vmi300_vm *vm, u64 va, s64 value);
u32 vmi300_vm_ranges(struct vmi300_vm *vm, struct vmi300_engine_range *ranges, u32 room);
vm_fault_t vmi300_vm_window_fault(struct vmi300_vm *vm, struct vm_fault *vmf);

/* gart.c */
void *vmi300_gart(struct vmi300 *dev, u64 address, size_t size);
struct vmi300_gart_entry *vmi300_gart_get(struct vmi300 *dev, u64 address);
void vmi300_gart_put(struct vmi300_gart_entry *entry);
void vmi300_gart_fini(struct vmi300 *dev);

/* doorbell.c */
int vmi300_doorbell_init(struct vmi300 *dev);
void vmi300_doorbell_fini(struct vmi300 *dev);
u64 *vmi300_doorbell(struct vmi300 *dev, u32 dwords);

/*
 * Interrupts name a queue by the number of its doorbell, of 8 bytes, in the
 * slice of its process: kfd_set_dbg_ev_from_interrupt compares it with the
 * doorbell_id that allocate_doorbell gave out. Slices are aligned.
 */
static inline u32 vmi300_doorbell_id(u32 dwords)
{
	return dwords / 2 % VMI300_DOORBELLS;
}

/* regs.c */
void vmi300_regs_init(struct vmi300 *dev);
void vmi300_regs_fini(struct vmi300 *dev);

/* mec.c */
int vmi300_mec_init(struct vmi300 *dev);
void vmi300_mec_fini(struct vmi300 *dev);
void vmi300_mec_abandon(struct vmi300 *dev);
void vmi300_mec_reset(struct vmi300_mec *mec);
void vmi300_mec_kick(struct vmi300_mec *mec);
struct vmi300_mec *vmi300_mec_of_xcc(struct vmi300 *dev, unsigned int xcc);
u64 vmi300_grace_ns(const struct vmi300_mec *mec);
void vmi300_sleep(u64 ns);

/* runlist.c: called with mec->lock held. */
typedef bool (*vmi300_select)(const struct vmi300_queue *q, u32 argument);

bool vmi300_select_all(const struct vmi300_queue *q, u32 argument);
int vmi300_runlist_load(struct vmi300_mec *mec, u32 *ib, u32 dwords);
void vmi300_runlist_map(struct vmi300_mec *mec);
unsigned int vmi300_runlist_unmap(struct vmi300_mec *mec, vmi300_select select, u32 argument,
				  bool save);
void vmi300_runlist_drop(struct vmi300_mec *mec, vmi300_select select, u32 argument);
void vmi300_runlist_clear(struct vmi300_mec *mec);
u64 vmi300_runlist_turn(struct vmi300_mec *mec, u64 now);
void vmi300_queue_off(struct vmi300_queue *q);

/* timed.c */
extern const struct vmi300_engine vmi300_timed;

/* executing.c */
extern const struct vmi300_engine vmi300_executing;

/* client.c */
struct vmi300_client *vmi300_client_get(u64 id);
void vmi300_client_put(struct vmi300_client *client);
int vmi300_client_next(struct vmi300_engine_next *args);
int vmi300_client_attach(struct vmi300_client *client);
void vmi300_client_detach(struct vmi300_client *client);
int vmi300_client_order(struct vmi300_client *client, struct vmi300_engine_order *args);
int vmi300_client_answer(struct vmi300_client *client, const struct vmi300_engine_answer *args);
int vmi300_client_interrupt(struct vmi300_client *client,
			    const struct vmi300_engine_interrupt *args);
struct vmi300_vm *vmi300_client_vm(struct vmi300_client *client);
struct page *vmi300_client_page(struct vmi300_client *client);

/* window.c */
int vmi300_window_init(void);
void vmi300_window_fini(void);
void vmi300_window_zap(unsigned long page, unsigned long pages);

/* evict.c */
void vmi300_evict_init(struct vmi300 *dev);

/* aql.c */
extern unsigned int vmi300_read_index;

enum vmi300_packet_kind {
	VMI300_PACKET_NONE,	/* not there yet */
	VMI300_PACKET_WAITS,	/* a barrier whose signals have not fired */
	VMI300_PACKET_READY,
	VMI300_PACKET_BAD,
};

struct vmi300_packet {
	u64 duration;		/* in ns */
	u64 waves;
	u32 error;		/* exception code of VMI300_PACKET_BAD */
};

enum vmi300_packet_kind vmi300_packet_fetch(struct vmi300_queue *q, struct vmi300_packet *packet);
void vmi300_packet_begin(struct vmi300_queue *q);
void vmi300_packet_rewind(struct vmi300_queue *q);
void vmi300_packet_retire(struct vmi300_queue *q, u64 now);
u64 vmi300_ring_limit(struct vmi300_queue *q);

/* ih.c: from any context. */
struct vmi300_ih_source {
	struct vmi300_mec *mec;
	u32 pasid;
	u32 vmid;
	u32 doorbell_offset;	/* in dwords on the bar */
};

struct vmi300_ih_source vmi300_ih_source(const struct vmi300_queue *q);
void vmi300_ih_event(struct vmi300_ih_source from, u32 event);
void vmi300_ih_message(struct vmi300_ih_source from, u32 payload, bool privileged);
void vmi300_ih_bad_packet(struct vmi300_ih_source from, u32 code);
void vmi300_ih_fault(struct vmi300_ih_source from, u64 va);

/* reset.c */
int vmi300_reset_init(struct vmi300 *dev);
void vmi300_reset_fini(struct vmi300 *dev);

/* counters.c */
void vmi300_counters_init(struct vmi300 *dev);
void vmi300_counters_fini(struct vmi300 *dev);

#endif

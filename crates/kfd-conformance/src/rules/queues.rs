//! Creating, changing and destroying queues.

use kfd_abi::PAGE_SIZE;
use kfd_abi::memory::{MmapKind, MmapOffset};
use kfd_abi::queue::{
    CreateQueueArgs, DOORBELL_SLICE, GetQueueWaveStateArgs, MAX_QUEUES_PER_GPU, MAX_QUEUES_PER_GPU_GFX942, QueueType,
    SetCuMaskArgs, UpdateQueueArgs,
};

use super::{NOWHERE, UNMAPPED};
use crate::bench::{Bench, Client};
use crate::queue::RING;
use crate::rule::driver_rules;
use crate::verdict::{ENOTSUPP, Verdict, equal, require};

// tidy: table
driver_rules! { Driver:
    "queue-doorbell-offset" doorbell_offset, "kfd_chardev.c: kfd_ioctl_create_queue; kfd_priv.h: KFD_MMAP_GPU_ID",
        "doorbell_offset has kind 3 in its two upper bits, the gpu id in the 16 below 62, and the place in the slice.";
    "queue-doorbell-map" doorbell_map, "kfd_doorbell.c: kfd_doorbell_mmap",
        "The slice of 8192 bytes at doorbell_offset can be mapped as a whole, and only so.";
    "queue-doorbell-shared" doorbell_shared, "kfd_process_queue_manager.c: pqm_create_queue",
        "Queues of one process on one gpu have different places in the same slice.";
    "queue-lowest-id" lowest_id, "kfd_process_queue_manager.c: find_available_queue_slot",
        "Queue ids count from 0, and the lowest that is free is given out.";
    "queue-unknown-type" unknown_type, "kfd_chardev.c: set_queue_properties_from_user",
        "CREATE_QUEUE of an unknown kind is answered with 524, the kernel's ENOTSUPP.";
    "queue-percentage" percentage, "kfd_chardev.c: set_queue_properties_from_user",
        "A percentage of more than 100 is answered with EINVAL; bits 8 to 15 are another field.";
    "queue-priority" priority, "kfd_chardev.c: set_queue_properties_from_user",
        "Priorities are 0 to 15; others are answered with EINVAL.";
    "queue-ring-power-of-two" ring_power, "kfd_chardev.c: set_queue_properties_from_user",
        "A ring whose size is no power of two is answered with EINVAL.";
    "queue-small-ring" small_ring, "kfd_chardev.c: set_queue_properties_from_user",
        "A ring of less than 1024 bytes silently becomes one of 1024.";
    "queue-bad-address" bad_address, "kfd_chardev.c: set_queue_properties_from_user",
        "Addresses outside of user space are answered with EFAULT.";
    "queue-bad-gpu" bad_gpu, "kfd_chardev.c: kfd_ioctl_create_queue",
        "CREATE_QUEUE on an unknown gpu is answered with EINVAL.";
    "queue-no-address-space" no_address_space, "kfd_chardev.c: kfd_ioctl_create_queue; kfd_bind_process_to_device",
        "CREATE_QUEUE before ACQUIRE_VM is answered with ESRCH.";
    "queue-ring-mapping" ring_mapping, "kfd_queue.c: kfd_queue_buffer_get",
        "A ring has to be exactly one mapping of the gpu: EINVAL if it is unmapped, in the middle, or of another size.";
    "queue-index-mapping" index_mapping, "kfd_queue.c: kfd_queue_acquire_buffers",
        "Each index has to lie in a mapping of exactly one page; otherwise EINVAL.";
    "queue-eop-size" eop_size, "kfd_queue.c: kfd_queue_acquire_buffers",
        "An end-of-packet buffer that is too small is answered with EINVAL; none at all is accepted.";
    "queue-control-stack" control_stack, "kfd_queue.c: kfd_queue_acquire_buffers",
        "ctl_stack_size has to be exactly that of the topology; otherwise EINVAL.";
    "queue-save-area" save_area, "kfd_queue.c: kfd_queue_acquire_buffers",
        "A save area smaller than cwsr_size is answered with EINVAL, and so is one whose mapping has another size.";
    "queue-keeps-buffers" keeps_buffers, "amdgpu_amdkfd_gpuvm.c: unmap_bo_from_gpuvm",
        "The ring of a queue cannot be unmapped from the gpu: EBUSY until the queue is destroyed.";
    "queue-limit" limit, "kfd_process_queue_manager.c: pqm_create_queue",
        "A process has at most 255 queues on a gfx942, 127 on others; then ENOSPC.";
    "queue-destroy-unknown" destroy_unknown, "kfd_process_queue_manager.c: pqm_destroy_queue",
        "DESTROY_QUEUE of an unknown queue is answered with EINVAL.";
    "update-unknown" update_unknown, "kfd_process_queue_manager.c: pqm_update_queue_properties",
        "UPDATE_QUEUE of an unknown queue is answered with EFAULT.";
    "update-bad-values" update_bad_values, "kfd_chardev.c: kfd_ioctl_update_queue",
        "UPDATE_QUEUE refuses percentages, priorities and ring sizes as CREATE_QUEUE does.";
    "update-other-ring" update_other_ring, "kfd_process_queue_manager.c: pqm_update_queue_properties",
        "UPDATE_QUEUE to a ring that is no mapping of the gpu is answered with EFAULT.";
    "update-no-ring" update_no_ring, "kfd_process_queue_manager.c: pqm_update_queue_properties",
        "UPDATE_QUEUE without a ring succeeds and turns the queue off.";
    "cu-mask-bad-values" cu_mask, "kfd_chardev.c: kfd_ioctl_set_cu_mask",
        "SET_CU_MASK wants a multiple of 32 bits, not none (EINVAL), a readable mask and a known queue (EFAULT).";
    "wave-state-active" wave_state_active, "kfd_device_queue_manager.c: get_wave_state",
        "GET_QUEUE_WAVE_STATE stops nothing: an active queue is answered with EINVAL, an unknown one with EFAULT.";
}

/// Requires that CREATE_QUEUE with a changed argument fails with this.
fn refused(client: &mut Client, what: &str, errno: i32, change: impl FnOnce(&mut CreateQueueArgs)) -> Verdict {
    let (mut args, _) = client.queue_args()?;
    change(&mut args);
    client.call(args)?.fails(what, errno).map(drop)
}

fn doorbell_offset(bench: &Bench<'_>) -> Verdict {
    let queue = bench.program()?.queue()?;
    let offset = MmapOffset(queue.args.doorbell_offset);
    let expected = (MmapKind::DOORBELL, bench.subject.id() & 0xFFFF);
    equal(&format!("kind and gpu of {:#x}", offset.0), (offset.kind(), offset.gpu_id()), expected)?;
    let place = offset.position();
    require(place < DOORBELL_SLICE.into() && place.is_multiple_of(8), format_args!("place {place:#x} in the slice"))
}

/// The start of a slice.
fn slice(doorbell_offset: u64) -> u64 {
    doorbell_offset & !u64::from(DOORBELL_SLICE - 1)
}

fn doorbell_map(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let offset = slice(client.queue()?.args.doorbell_offset);
    let fd = client.kfd;
    let whole = client.actor.map_refused(DOORBELL_SLICE as usize, fd, offset)?;
    equal("mmap of the slice", whole, 0)?;
    let part = client.actor.map_refused(PAGE_SIZE as usize, fd, offset)?;
    equal("mmap of half of it", part, libc::EINVAL)
}

fn doorbell_shared(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let (first, second) = (client.queue()?.args.doorbell_offset, client.queue()?.args.doorbell_offset);
    require(first != second, format_args!("both have {first:#x}"))?;
    equal("slice", slice(first), slice(second))
}

fn lowest_id(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let ids = [client.queue()?.id, client.queue()?.id, client.queue()?.id];
    equal("ids", ids, [0, 1, 2])?;
    client.destroy(1)?.ok("DESTROY_QUEUE")?;
    equal("next id", client.queue()?.id, 1)
}

fn unknown_type(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    for kind in [5, 99] {
        refused(&mut client, &format!("CREATE_QUEUE of kind {kind}"), ENOTSUPP, |args| {
            args.queue_type = QueueType(kind);
        })?;
    }
    Ok(())
}

fn percentage(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    refused(&mut client, "101 percent", libc::EINVAL, |args| args.queue_percentage = 101)?;
    client.queue_with(|args| args.queue_percentage = 0x100 | 100)?;
    client.queue_with(|args| args.queue_percentage = 0).map(drop)
}

fn priority(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    refused(&mut client, "priority 16", libc::EINVAL, |args| args.queue_priority = 16)?;
    client.queue_with(|args| args.queue_priority = 15)?;
    client.queue_with(|args| args.queue_priority = 0).map(drop)
}

fn ring_power(bench: &Bench<'_>) -> Verdict {
    refused(&mut bench.program()?, "ring of 3000 bytes", libc::EINVAL, |args| args.ring_size = 3000)
}

fn small_ring(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue = client.queue_with(|args| args.ring_size = 256)?;
    equal("ring_size", queue.args.ring_size, 1024)?;
    let path = format!("{}/{}/queues/{}/size", kfd_abi::sysfs::PROCESS_DIR, client.pid(), queue.id);
    equal("size in sysfs", crate::bench::driver_file(&path)?.as_str(), "1024")
}

fn bad_address(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    refused(&mut client, "bad ring", libc::EFAULT, |args| args.ring_base_address = NOWHERE)?;
    refused(&mut client, "bad read index", libc::EFAULT, |args| args.read_pointer_address = NOWHERE)?;
    refused(&mut client, "bad write index", libc::EFAULT, |args| args.write_pointer_address = NOWHERE)?;
    refused(&mut client, "bad end-of-packet buffer", libc::EFAULT, |args| args.eop_buffer_address = NOWHERE)?;
    refused(&mut client, "bad save area", libc::EFAULT, |args| args.ctx_save_restore_address = NOWHERE)
}

fn bad_gpu(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    for gpu in [0, 1, u32::MAX] {
        refused(&mut client, &format!("gpu {gpu}"), libc::EINVAL, |args| args.gpu_id = gpu)?;
    }
    Ok(())
}

fn no_address_space(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let args = CreateQueueArgs {
        ring_base_address: UNMAPPED,
        write_pointer_address: UNMAPPED,
        read_pointer_address: UNMAPPED,
        ring_size: RING,
        gpu_id: bench.subject.id(),
        queue_type: QueueType::COMPUTE_AQL,
        ..CreateQueueArgs::default()
    };
    client.call(args)?.fails("CREATE_QUEUE without ACQUIRE_VM", libc::ESRCH).map(drop)
}

fn ring_mapping(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    refused(&mut client, "unmapped ring", libc::EINVAL, |args| args.ring_base_address = UNMAPPED)?;
    refused(&mut client, "ring larger than its mapping", libc::EINVAL, |args| args.ring_size = 2 * RING)?;
    let large = client.shared_buffer(u64::from(2 * RING))?;
    refused(&mut client, "ring smaller than its mapping", libc::EINVAL, |args| args.ring_base_address = large.at)?;
    refused(&mut client, "ring in the middle", libc::EINVAL, |args| {
        args.ring_base_address = large.at + u64::from(RING);
    })
}

fn index_mapping(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    refused(&mut client, "unmapped read index", libc::EINVAL, |args| args.read_pointer_address = UNMAPPED)?;
    refused(&mut client, "unmapped write index", libc::EINVAL, |args| args.write_pointer_address = UNMAPPED)?;
    let large = client.shared_buffer(u64::from(2 * PAGE_SIZE))?;
    refused(&mut client, "read index in two pages", libc::EINVAL, |args| args.read_pointer_address = large.at)?;
    refused(&mut client, "write index in two pages", libc::EINVAL, |args| args.write_pointer_address = large.at)
}

fn eop_size(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    refused(&mut client, "small end-of-packet buffer", libc::EINVAL, |args| args.eop_buffer_size -= 1)?;
    client.queue_with(|args| (args.eop_buffer_address, args.eop_buffer_size) = (0, 0)).map(drop)
}

fn control_stack(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    refused(&mut client, "smaller control stack", libc::EINVAL, |args| args.ctl_stack_size -= PAGE_SIZE)?;
    refused(&mut client, "larger control stack", libc::EINVAL, |args| args.ctl_stack_size += PAGE_SIZE)
}

fn save_area(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    refused(&mut client, "smaller save area", libc::EINVAL, |args| args.ctx_save_restore_size -= PAGE_SIZE)?;
    refused(&mut client, "save area larger than its mapping", libc::EINVAL, |args| {
        args.ctx_save_restore_size += PAGE_SIZE;
    })?;
    refused(&mut client, "unmapped save area", libc::EINVAL, |args| args.ctx_save_restore_address = UNMAPPED)?;
    // A larger one whose mapping is as large as it says is accepted.
    let size = bench.subject.save_area;
    let more = (u64::from(size.cwsr + PAGE_SIZE) + u64::from(size.debug)) * u64::from(bench.subject.gpu.xccs);
    let area = client.buffer(more.next_multiple_of(PAGE_SIZE.into()), crate::queue::VIDEO)?;
    client
        .queue_with(|args| {
            args.ctx_save_restore_address = area.at;
            args.ctx_save_restore_size += PAGE_SIZE;
        })
        .map(drop)
}

fn keeps_buffers(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue = client.queue()?;
    client.unmap_on_gpu(queue.ring.handle)?.fails("UNMAP_MEMORY_FROM_GPU of the ring", libc::EBUSY)?;
    client.destroy(queue.id)?.ok("DESTROY_QUEUE")?;
    client.unmap_on_gpu(queue.ring.handle)?.ok("UNMAP_MEMORY_FROM_GPU after DESTROY_QUEUE").map(drop)
}

fn limit(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let (mut args, _) = client.queue_args()?;
    // Queues that are off cost no cycle, and may share their buffers.
    args.queue_percentage = 0;
    let most = if bench.subject.gpu.gfx.0 == 90402 { MAX_QUEUES_PER_GPU_GFX942 } else { MAX_QUEUES_PER_GPU };
    for nth in 0..most {
        client.call(args)?.ok(&format!("CREATE_QUEUE number {}", nth + 1))?;
    }
    client.call(args)?.fails(&format!("CREATE_QUEUE number {}", most + 1), libc::ENOSPC)?;
    client.destroy(7)?.ok("DESTROY_QUEUE")?;
    client.call(args)?.ok("CREATE_QUEUE after DESTROY_QUEUE").map(drop)
}

fn destroy_unknown(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    client.destroy(0)?.fails("DESTROY_QUEUE of 0", libc::EINVAL)?;
    client.destroy(u32::MAX)?.fails("DESTROY_QUEUE of no number", libc::EINVAL)?;
    let id = client.queue()?.id;
    client.destroy(id)?.ok("DESTROY_QUEUE")?;
    client.destroy(id)?.fails("DESTROY_QUEUE again", libc::EINVAL).map(drop)
}

fn update_unknown(bench: &Bench<'_>) -> Verdict {
    let args = UpdateQueueArgs { queue_id: 77, queue_percentage: 100, ..UpdateQueueArgs::default() };
    bench.program()?.call(args)?.fails("UPDATE_QUEUE of 77", libc::EFAULT).map(drop)
}

fn update_bad_values(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue = client.queue()?;
    client.update(&queue, |args| args.queue_percentage = 101)?.fails("101 percent", libc::EINVAL)?;
    client.update(&queue, |args| args.queue_priority = 16)?.fails("priority 16", libc::EINVAL)?;
    client.update(&queue, |args| args.ring_size = 3000)?.fails("ring of 3000 bytes", libc::EINVAL)?;
    client.update(&queue, |args| args.ring_base_address = NOWHERE)?.fails("bad ring", libc::EFAULT)?;
    client.update(&queue, |args| args.queue_priority = 15)?.ok("priority 15").map(drop)
}

fn update_other_ring(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue = client.queue()?;
    client.update(&queue, |args| args.ring_base_address = UNMAPPED)?.fails("unmapped ring", libc::EFAULT)?;
    client.update(&queue, |args| args.ring_size = 2 * RING)?.fails("larger ring", libc::EFAULT)?;
    let other = client.shared_buffer(RING.into())?;
    client.update(&queue, |args| args.ring_base_address = other.at)?.ok("another ring").map(drop)
}

fn update_no_ring(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue = client.queue()?;
    client.update(&queue, |args| (args.ring_base_address, args.ring_size) = (0, 0))?.ok("UPDATE_QUEUE to no ring")?;
    let area = client.shared_buffer(bench.subject.save_area.total)?.at;
    let args = GetQueueWaveStateArgs { ctl_stack_address: area, queue_id: queue.id, ..Default::default() };
    client.call(args)?.ok("GET_QUEUE_WAVE_STATE of a queue that is off").map(drop)
}

fn cu_mask(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue_id = client.queue()?.id;
    let mask = client.actor.memory(PAGE_SIZE as usize)?;
    client.actor.write(mask, vec![0xFF; 128])?;
    let args = SetCuMaskArgs { queue_id, num_cu_mask: 32, cu_mask_ptr: mask };
    client.call(SetCuMaskArgs { num_cu_mask: 0, ..args })?.fails("no bits", libc::EINVAL)?;
    client.call(SetCuMaskArgs { num_cu_mask: 33, ..args })?.fails("33 bits", libc::EINVAL)?;
    client.call(SetCuMaskArgs { cu_mask_ptr: NOWHERE, ..args })?.fails("bad mask", libc::EFAULT)?;
    client.call(SetCuMaskArgs { queue_id: 77, ..args })?.fails("unknown queue", libc::EFAULT)?;
    client.call(args)?.ok("SET_CU_MASK").map(drop)
}

fn wave_state_active(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue_id = client.queue()?.id;
    let area = client.shared_buffer(bench.subject.save_area.total)?.at;
    let args = GetQueueWaveStateArgs { ctl_stack_address: area, queue_id, ..Default::default() };
    client.call(args)?.fails("GET_QUEUE_WAVE_STATE of an active queue", libc::EINVAL)?;
    let args = GetQueueWaveStateArgs { queue_id: 77, ..args };
    client.call(args)?.fails("GET_QUEUE_WAVE_STATE of an unknown queue", libc::EFAULT)?;
    let copies = client.copy_queue()?;
    client.update(&copies, |args| args.queue_percentage = 0)?.ok("UPDATE_QUEUE to 0 percent")?;
    let args = GetQueueWaveStateArgs { queue_id: copies.id, ..args };
    client.call(args)?.fails("GET_QUEUE_WAVE_STATE of a copy queue", libc::EINVAL).map(drop)
}

//! Address spaces, buffers and apertures.

use kfd_abi::Abi;
use kfd_abi::PAGE_SIZE;
use kfd_abi::event::{CreateEventArgs, EVENT_PAGE_SIZE, EventType};
use kfd_abi::memory::{
    AllocFlags, AllocMemoryArgs, AvailableMemoryArgs, DeviceApertures, FreeMemoryArgs, GetProcessAperturesNewArgs,
    MapMemoryArgs, MmapKind, MmapOffset, handle,
};
use kfd_abi::process::{AcquireVmArgs, GetClockCountersArgs};
use kfd_abi::queue::DOORBELL_SLICE;

use super::NOWHERE;
use crate::bench::Bench;
use crate::queue::{SYSTEM, VIDEO};
use crate::rule::driver_rules;
use crate::verdict::{Verdict, broken, equal, require};

// tidy: table
driver_rules! { Driver:
    "vm-bad-descriptor" vm_bad_descriptor, "kfd_chardev.c: kfd_ioctl_acquire_vm",
        "ACQUIRE_VM with a closed descriptor or an unknown gpu is answered with EINVAL.";
    "vm-twice" vm_twice, "kfd_chardev.c: kfd_ioctl_acquire_vm",
        "ACQUIRE_VM again with the same opening of the render node succeeds; with another it is answered with EBUSY.";
    "memory-bad-values" bad_values, "kfd_chardev.c: kfd_ioctl_alloc_memory_of_gpu",
        "ALLOC_MEMORY_OF_GPU of no bytes or on an unknown gpu is answered with EINVAL.";
    "memory-no-address-space" no_address_space, "kfd_process.c: kfd_bind_process_to_device",
        "ALLOC_MEMORY_OF_GPU before ACQUIRE_VM is answered with ENODEV.";
    "memory-doorbell-size" doorbell_size, "kfd_chardev.c: kfd_ioctl_alloc_memory_of_gpu",
        "Doorbells are allocated as the whole slice of the process; any other size is answered with EINVAL.";
    "memory-registers-offset" registers_offset, "kfd_chardev.c: kfd_ioctl_alloc_memory_of_gpu",
        "The page of registers is mapped through /dev/kfd at an offset of kind 0 with the gpu id.";
    "memory-handle" handle_parts, "kfd_chardev.c: MAKE_HANDLE",
        "A handle has the gpu id in its upper 32 bits.";
    "memory-free-mapped" free_mapped, "amdgpu_amdkfd_gpuvm.c: amdgpu_amdkfd_gpuvm_free_memory_of_gpu",
        "FREE_MEMORY_OF_GPU of a buffer that a gpu has mapped is answered with EBUSY.";
    "memory-free-unknown" free_unknown, "kfd_chardev.c: kfd_ioctl_free_memory_of_gpu",
        "FREE_MEMORY_OF_GPU of an unknown handle is answered with EINVAL.";
    "memory-free-event-page" free_event_page, "kfd_chardev.c: kfd_ioctl_free_memory_of_gpu",
        "The buffer that is the event page cannot be freed: EPERM.";
    "memory-map-bad-values" map_bad_values, "kfd_chardev.c: kfd_ioctl_map_memory_to_gpu",
        "MAP_MEMORY_TO_GPU wants gpus (EINVAL), a readable list (EFAULT), a known buffer (ENOMEM), known gpus (EINVAL).";
    "memory-map-twice" map_twice, "amdgpu_amdkfd_gpuvm.c: amdgpu_amdkfd_gpuvm_map_memory_to_gpu",
        "MAP_MEMORY_TO_GPU of a buffer that is mapped succeeds.";
    "memory-overlap" overlap, "amdgpu_vm.c: amdgpu_vm_bo_map",
        "Two buffers cannot be mapped at the same address of a gpu: EINVAL.";
    "memory-available" available, "kfd_chardev.c: kfd_ioctl_get_available_memory",
        "AVAILABLE_MEMORY of an unknown gpu is answered with EINVAL, and of a known one with a number.";
    "apertures-count" apertures_count, "kfd_chardev.c: kfd_ioctl_get_process_apertures_new",
        "GET_PROCESS_APERTURES_NEW with room for none answers how many gpus there are.";
    "apertures-too-many" apertures_too_many, "kfd_chardev.c: kfd_ioctl_get_process_apertures_new",
        "GET_PROCESS_APERTURES_NEW with room for more nodes than the topology has is answered with EINVAL.";
    "apertures-bad-room" apertures_bad_room, "kfd_chardev.c: kfd_ioctl_get_process_apertures_new",
        "GET_PROCESS_APERTURES_NEW that cannot be written is answered with EFAULT.";
    "apertures-values" apertures_values, "kfd_flat_memory.c: kfd_init_apertures_v9",
        "Apertures of gfx9: local memory from 2^48, scratch from 2^49, 4 GiB each; buffers from 0x10000 to 2^47 or more.";
    "clock-counters" clock_counters, "kfd_chardev.c: kfd_ioctl_get_clock_counters",
        "Clocks advance; those of the processor are nanoseconds; an unknown gpu has the clock 0.";
    "mmap-unknown-gpu" mmap_unknown_gpu, "kfd_chardev.c: kfd_mmap",
        "mmap of the doorbells of an unknown gpu is answered with ENODEV.";
}

fn vm_bad_descriptor(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let gpu_id = bench.subject.id();
    client.call(AcquireVmArgs { drm_fd: 9999, gpu_id })?.fails("closed descriptor", libc::EINVAL)?;
    let path = format!("/dev/dri/renderD{}", bench.subject.gpu.render_minor);
    let drm_fd = client.actor.open(&path)?.cast_unsigned();
    client.call(AcquireVmArgs { drm_fd, gpu_id: 1 })?.fails("unknown gpu", libc::EINVAL).map(drop)
}

fn vm_twice(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let gpu_id = bench.subject.id();
    let Some(render) = client.render else { return broken("no render node") };
    client.call(AcquireVmArgs { drm_fd: render.cast_unsigned(), gpu_id })?.ok("the same opening again")?;
    let path = format!("/dev/dri/renderD{}", bench.subject.gpu.render_minor);
    let drm_fd = client.actor.open(&path)?.cast_unsigned();
    client.call(AcquireVmArgs { drm_fd, gpu_id })?.fails("another opening", libc::EBUSY).map(drop)
}

fn page(gpu_id: u32) -> AllocMemoryArgs {
    AllocMemoryArgs { va_addr: 0x10_0000_0000, size: PAGE_SIZE.into(), gpu_id, flags: SYSTEM, ..Default::default() }
}

fn bad_values(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let args = page(bench.subject.id());
    client.call(AllocMemoryArgs { size: 0, ..args })?.fails("no bytes", libc::EINVAL)?;
    client.call(AllocMemoryArgs { gpu_id: 1, ..args })?.fails("unknown gpu", libc::EINVAL).map(drop)
}

fn no_address_space(bench: &Bench<'_>) -> Verdict {
    let args = page(bench.subject.id());
    bench.client()?.call(args)?.fails("ALLOC_MEMORY_OF_GPU", libc::ENODEV).map(drop)
}

fn doorbell_size(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let flags = AllocFlags::DOORBELL | AllocFlags::WRITABLE | AllocFlags::COHERENT;
    let args = AllocMemoryArgs { flags, ..page(bench.subject.id()) };
    client.call(args)?.fails("one page of doorbells", libc::EINVAL)?;
    client.call(AllocMemoryArgs { size: DOORBELL_SLICE.into(), ..args })?.ok("the slice").map(drop)
}

fn registers_offset(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let flags = AllocFlags::MMIO_REMAP | AllocFlags::WRITABLE | AllocFlags::COHERENT;
    let reply = client.call(AllocMemoryArgs { flags, ..page(bench.subject.id()) })?;
    if reply.result == -i64::from(libc::ENOMEM) {
        return crate::verdict::unchecked("this gpu has no page of registers for programs");
    }
    let offset = MmapOffset(reply.ok("MMIO_REMAP")?.mmap_offset);
    equal(&format!("{:#x}", offset.0), offset, MmapOffset::new(MmapKind::MMIO, bench.subject.id()))
}

fn handle_parts(bench: &Bench<'_>) -> Verdict {
    let memory = bench.bound()?.allocate(PAGE_SIZE.into(), SYSTEM)?;
    let (gpu, _) = kfd_abi::memory::handle_parts(memory.handle);
    equal("gpu of the handle", gpu, bench.subject.id())
}

fn free_mapped(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let memory = client.buffer(PAGE_SIZE.into(), SYSTEM)?;
    client.call(FreeMemoryArgs { handle: memory.handle })?.fails("mapped buffer", libc::EBUSY)?;
    client.unmap_on_gpu(memory.handle)?.ok("UNMAP_MEMORY_FROM_GPU")?;
    client.call(FreeMemoryArgs { handle: memory.handle })?.ok("unmapped buffer").map(drop)
}

fn free_unknown(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let unknown = [handle(bench.subject.id(), 99), handle(1, 0)];
    for handle in unknown {
        client.call(FreeMemoryArgs { handle })?.fails(&format!("handle {handle:#x}"), libc::EINVAL)?;
    }
    Ok(())
}

fn free_event_page(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let memory = client.buffer(EVENT_PAGE_SIZE.into(), SYSTEM)?;
    let args = CreateEventArgs {
        event_page_offset: memory.handle,
        event_type: EventType::SIGNAL,
        ..CreateEventArgs::default()
    };
    client.call(args)?.ok("CREATE_EVENT with a page")?;
    client.call(FreeMemoryArgs { handle: memory.handle })?.fails("FREE_MEMORY_OF_GPU", libc::EPERM).map(drop)
}

fn map_bad_values(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let memory = client.allocate(PAGE_SIZE.into(), SYSTEM)?;
    let device_ids_array_ptr = client.gpu_list()?;
    let args = MapMemoryArgs { handle: memory.handle, device_ids_array_ptr, n_devices: 1, n_success: 0 };
    client.call(MapMemoryArgs { n_devices: 0, ..args })?.fails("no gpus", libc::EINVAL)?;
    client.call(MapMemoryArgs { n_success: 2, ..args })?.fails("more done than listed", libc::EINVAL)?;
    client.call(MapMemoryArgs { device_ids_array_ptr: NOWHERE, ..args })?.fails("bad list", libc::EFAULT)?;
    let unknown = handle(bench.subject.id(), 99);
    client.call(MapMemoryArgs { handle: unknown, ..args })?.fails("unknown buffer", libc::ENOMEM)?;
    client.actor.write(device_ids_array_ptr, 1_u32.to_le_bytes().to_vec())?;
    let failed = client.call(args)?.fails("unknown gpu", libc::EINVAL)?;
    equal("n_success", failed.n_success, 0)
}

fn map_twice(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let memory = client.buffer(PAGE_SIZE.into(), SYSTEM)?;
    equal("n_success", client.map_on_gpu(memory.handle)?.ok("MAP_MEMORY_TO_GPU again")?.n_success, 1)
}

fn overlap(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let memory = client.buffer(PAGE_SIZE.into(), SYSTEM)?;
    let args = AllocMemoryArgs { va_addr: memory.at, flags: VIDEO, ..page(bench.subject.id()) };
    let other = client.call(args)?.ok("ALLOC_MEMORY_OF_GPU")?;
    client.map_on_gpu(other.handle)?.fails("MAP_MEMORY_TO_GPU at a taken address", libc::EINVAL).map(drop)
}

fn available(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let args = AvailableMemoryArgs { gpu_id: bench.subject.id(), ..AvailableMemoryArgs::default() };
    client.call(AvailableMemoryArgs { gpu_id: 1, ..args })?.fails("unknown gpu", libc::EINVAL)?;
    require(client.call(args)?.ok("AVAILABLE_MEMORY")?.available > 0, "nothing is available")
}

fn apertures(room: u64, num_of_nodes: u32) -> GetProcessAperturesNewArgs {
    GetProcessAperturesNewArgs { kfd_process_device_apertures_ptr: room, num_of_nodes, pad: 0 }
}

fn apertures_count(bench: &Bench<'_>) -> Verdict {
    let args = bench.client()?.call(apertures(0, 0))?.ok("GET_PROCESS_APERTURES_NEW")?;
    equal("number of gpus", args.num_of_nodes, bench.subject.gpus)
}

fn apertures_too_many(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let room = client.actor.memory(16 * PAGE_SIZE as usize)?;
    let (nodes, gpus) = (bench.subject.nodes, bench.subject.gpus);
    let answered = client.call(apertures(room, nodes))?.ok("as many as the topology has nodes")?;
    equal("number of gpus", answered.num_of_nodes, gpus)?;
    client.call(apertures(room, nodes + 1))?.fails("one more", libc::EINVAL).map(drop)
}

fn apertures_bad_room(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    client.call(apertures(NOWHERE, 1))?.fails("bad room", libc::EFAULT)?;
    client.call(apertures(0, 1))?.fails("null", libc::EFAULT).map(drop)
}

fn apertures_values(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let gpus = bench.subject.gpus;
    let room = client.actor.memory(PAGE_SIZE as usize)?;
    client.call(apertures(room, gpus))?.ok("GET_PROCESS_APERTURES_NEW")?;
    let bytes = client.actor.read(room, gpus as usize * DeviceApertures::SIZE)?;
    let mut all = bytes.chunks_exact(DeviceApertures::SIZE).filter_map(DeviceApertures::decode);
    let Some(seen) = all.find(|entry| entry.gpu_id == bench.subject.id()) else {
        return broken("the gpu is not in the list");
    };
    equal("local memory", (seen.lds_base, seen.lds_limit), (LDS, LDS + 0xFFFF_FFFF))?;
    equal("scratch", (seen.scratch_base, seen.scratch_limit), (SCRATCH, SCRATCH + 0xFFFF_FFFF))?;
    equal("first address of buffers", seen.gpuvm_base, 0x10000)?;
    require(seen.gpuvm_limit >= (1 << 47) - 1, format_args!("last address of buffers: {:#x}", seen.gpuvm_limit))
}

/// `MAKE_LDS_APP_BASE_V9` and `MAKE_SCRATCH_APP_BASE_V9`.
const LDS: u64 = 1 << 48;
const SCRATCH: u64 = 2 << 48;

fn clock_counters(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let args = GetClockCountersArgs { gpu_id: bench.subject.id(), ..GetClockCountersArgs::default() };
    let first = client.call(args)?.ok("GET_CLOCK_COUNTERS")?;
    std::thread::sleep(std::time::Duration::from_millis(2));
    let second = client.call(args)?.ok("GET_CLOCK_COUNTERS")?;
    require(second.gpu_clock_counter > first.gpu_clock_counter, "the clock of the gpu stands still")?;
    let elapsed = second.cpu_clock_counter.wrapping_sub(first.cpu_clock_counter);
    require(elapsed >= 2_000_000, format_args!("2 ms are {elapsed} counts of the processor's clock"))?;
    equal("system_clock_freq", second.system_clock_freq, 1_000_000_000)?;
    let unknown = client.call(GetClockCountersArgs { gpu_id: 1, ..args })?.ok("GET_CLOCK_COUNTERS of gpu 1")?;
    equal("clock of an unknown gpu", unknown.gpu_clock_counter, 0)
}

fn mmap_unknown_gpu(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let fd = client.kfd;
    for gpu in [0, 1] {
        let MmapOffset(offset) = MmapOffset::new(MmapKind::DOORBELL, gpu);
        let errno = client.actor.map_refused(DOORBELL_SLICE as usize, fd, offset)?;
        equal(&format!("mmap of the doorbells of gpu {gpu}"), errno, libc::ENODEV)?;
    }
    Ok(())
}

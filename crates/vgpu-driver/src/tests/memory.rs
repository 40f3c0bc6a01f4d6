use kfd_abi::memory::{AvailableMemoryArgs, ExportDmabufArgs, GetDmabufInfoArgs, ImportDmabufArgs};
use kfd_abi::memory::{MmapKind, MmapOffset};

use super::*;

const VA: u64 = 0x7000_0000_0000;

#[test]
fn a_buffer_lives_from_allocation_to_free() {
    let mut machine = Machine::new("mi300x");
    let gpu_id = machine.gpu_id(0);
    let flags = AllocFlags::VRAM | RW;
    // Sizes need not be whole pages.
    let answer = machine.alloc(ALICE, VA, 0x100, flags).ok();
    assert_eq!(answer.mmap_offset, layout::BUFFERS_START);
    let handle = answer.handle;
    let map = machine.map(ALICE, handle, &[gpu_id]);
    let backing = Backing::Vram { offset: answer.mmap_offset };
    assert_eq!(
        map.call.effects.process,
        [ProcessEffect::MapMemory { gpu: 0, handle, va: VA, size: PAGE, backing, flags }]
    );
    assert_eq!(map.ok().n_success, 1);
    // Once more is fine and does nothing.
    let again = machine.map(ALICE, handle, &[gpu_id]);
    assert!(again.call.effects.is_empty());
    assert_eq!(again.ok().n_success, 1);
    assert_eq!(machine.free(ALICE, handle).errno(), Some(Errno::EBUSY));
    let unmap = machine.unmap(ALICE, handle, &[gpu_id]);
    assert_eq!(unmap.call.effects.process, [ProcessEffect::UnmapMemory { gpu: 0, handle, va: VA, size: PAGE }]);
    assert_eq!(unmap.ok().n_success, 1);
    assert_eq!(machine.unmap(ALICE, handle, &[gpu_id]).errno(), Some(Errno::EINVAL));
    let free = machine.free(ALICE, handle);
    assert_eq!(free.call.effects.process, [ProcessEffect::FreeMemory { handle, backing, size: PAGE }]);
    free.ok();
    assert_eq!(machine.free(ALICE, handle).errno(), Some(Errno::EINVAL));
    // Handle and offset are used again.
    let next = machine.alloc(ALICE, VA, PAGE, flags).ok();
    assert_eq!((next.handle, next.mmap_offset), (handle, layout::BUFFERS_START));
}

#[test]
fn every_kind_says_where_it_is_mapped() {
    let mut machine = Machine::new("mi300x-cpx");
    let gpu_id = machine.gpu_id(1);
    let mut offset = |flags: AllocFlags, size: u64, mmap_offset: u64| {
        let args = AllocMemoryArgs { va_addr: VA, size, mmap_offset, gpu_id, flags: flags | RW, handle: 0 };
        machine.run(ALICE, args).ok().mmap_offset
    };
    assert_eq!(offset(AllocFlags::DOORBELL, 8192, 0), layout::doorbells(1));
    assert_eq!(offset(AllocFlags::MMIO_REMAP, PAGE, 0), MmapOffset::new(MmapKind::MMIO, gpu_id).0);
    assert_eq!(offset(AllocFlags::USERPTR, PAGE, 0x5000), 0x5000);
    let (vram, gtt) = (offset(AllocFlags::VRAM, 3 * PAGE, 0), offset(AllocFlags::GTT, PAGE, 0));
    assert_eq!(gtt, vram + 3 * PAGE);
}

#[test]
fn a_userptr_keeps_its_own_address_on_the_gpu() {
    let mut machine = Machine::new("mi300x");
    let gpu_id = machine.gpu_id(0);
    let flags = AllocFlags::USERPTR | RW;
    let args = AllocMemoryArgs { va_addr: VA, size: PAGE, mmap_offset: 0x5555_0000, gpu_id, flags, handle: 0 };
    let handle = machine.run(ALICE, args).ok().handle;
    let map = machine.map(ALICE, handle, &[gpu_id]);
    let backing = Backing::UserPtr { address: 0x5555_0000 };
    assert_eq!(
        map.call.effects.process,
        [ProcessEffect::MapMemory { gpu: 0, handle, va: VA, size: PAGE, backing, flags }]
    );
}

#[test]
fn allocations_that_cannot_be_are_refused() {
    let mut machine = Machine::new("mi300x");
    let gpu_id = machine.gpu_id(0);
    let fine = AllocMemoryArgs { va_addr: VA, size: PAGE, gpu_id, flags: AllocFlags::GTT, ..AllocMemoryArgs::ZERO };
    assert_eq!(machine.run(ALICE, fine).errno(), None);
    for (broken, errno) in [
        (AllocMemoryArgs { size: 0, ..fine }, Errno::EINVAL),
        (AllocMemoryArgs { size: 1 << 60, ..fine }, Errno::ENOMEM),
        // Rounded up to pages it is nothing.
        (AllocMemoryArgs { size: u64::MAX, ..fine }, Errno::EINVAL),
        // The kind is looked at before the size.
        (AllocMemoryArgs { size: 1 << 60, flags: AllocFlags::WRITABLE, ..fine }, Errno::EINVAL),
        (AllocMemoryArgs { gpu_id: 0, ..fine }, Errno::EINVAL),
        (AllocMemoryArgs { flags: AllocFlags::WRITABLE, ..fine }, Errno::EINVAL),
        (AllocMemoryArgs { flags: AllocFlags::VRAM | AllocFlags::GTT, ..fine }, Errno::EINVAL),
        (AllocMemoryArgs { flags: AllocFlags::GTT | AllocFlags::AQL_QUEUE_MEM, ..fine }, Errno::EINVAL),
        (AllocMemoryArgs { flags: AllocFlags::DOORBELL, ..fine }, Errno::EINVAL),
        (AllocMemoryArgs { flags: AllocFlags::MMIO_REMAP, size: 8192, ..fine }, Errno::EINVAL),
        (AllocMemoryArgs { flags: AllocFlags::USERPTR, ..fine }, Errno::EINVAL),
        (AllocMemoryArgs { flags: AllocFlags::USERPTR, mmap_offset: 0x1234, ..fine }, Errno::EINVAL),
    ] {
        assert_eq!(machine.run(ALICE, broken).errno(), Some(errno), "{broken:?}");
    }
    let carol = ProcessKey::new(300, 3);
    machine.driver.open(carol).unwrap();
    assert_eq!(machine.run(carol, fine).errno(), Some(Errno::ENODEV));
}

#[test]
fn memory_is_shared_by_all_processes_and_ends() {
    let mut profile = Profile::load("mi300x").unwrap();
    (profile.vram_mib, profile.gtt_mib) = (64, 64);
    let mut machine = Machine::with(profile);
    let gpu_id = machine.gpu_id(0);
    let available = |machine: &mut Machine| {
        machine.run(BOB, AvailableMemoryArgs { gpu_id, ..AvailableMemoryArgs::ZERO }).ok().available
    };
    let mib = 1 << 20;
    assert_eq!(available(&mut machine), 64 * mib);
    let first = machine.alloc(ALICE, VA, 40 * mib, AllocFlags::VRAM | RW).ok().handle;
    assert_eq!(available(&mut machine), 24 * mib);
    assert_eq!(machine.alloc(BOB, VA, 25 * mib, AllocFlags::VRAM | RW).errno(), Some(Errno::ENOMEM));
    machine.alloc(BOB, VA, PAGE, AllocFlags::VRAM | RW).ok();
    // What is left is told in steps of 2 MiB, and a smaller buffer takes a whole one.
    assert_eq!(available(&mut machine), 22 * mib);
    let second = machine.alloc(BOB, VA, PAGE, AllocFlags::VRAM | RW).ok().handle;
    assert_eq!(available(&mut machine), 20 * mib);
    machine.free(BOB, second).ok();
    assert_eq!(available(&mut machine), 22 * mib);
    machine.alloc(BOB, VA, 24 * mib - PAGE, AllocFlags::VRAM | RW).ok();
    assert_eq!(available(&mut machine), 0);
    assert_eq!(machine.alloc(BOB, VA, 1, AllocFlags::VRAM | RW).errno(), Some(Errno::ENOMEM));
    machine.free(ALICE, first).ok();
    assert_eq!(available(&mut machine), 38 * mib);
    // System memory has its own account, in which a process's own memory counts too.
    machine.alloc(ALICE, VA, 32 * mib, AllocFlags::GTT | RW).ok();
    machine.alloc(ALICE, VA, 32 * mib, AllocFlags::USERPTR | RW).ok();
    assert_eq!(machine.alloc(ALICE, VA, 1, AllocFlags::GTT | RW).errno(), Some(Errno::ENOMEM));
    machine.alloc(ALICE, VA, 8192, AllocFlags::DOORBELL | RW).ok();
    let unknown = AvailableMemoryArgs { gpu_id: gpu_id ^ 1, ..AvailableMemoryArgs::ZERO };
    assert_eq!(machine.run(BOB, unknown).errno(), Some(Errno::EINVAL));
}

#[test]
fn mappings_must_be_possible_and_must_not_overlap() {
    let mut machine = Machine::new("mi300x");
    let gpu_id = machine.gpu_id(0);
    machine.mapped(ALICE, VA + PAGE, PAGE, AllocFlags::GTT | RW);
    for va in [0, VA + 1, VA, VA + PAGE, (1 << 48) - PAGE, u64::MAX - 4095] {
        let handle = machine.alloc(ALICE, va, 2 * PAGE, AllocFlags::GTT | RW).ok().handle;
        let map = machine.map(ALICE, handle, &[gpu_id]);
        assert_eq!((map.errno(), map.args.n_success), (Some(Errno::EINVAL), 0), "{va:#x}");
    }
    // The neighbours are free, and another process has addresses of its own.
    machine.mapped(ALICE, VA + 2 * PAGE, PAGE, AllocFlags::GTT | RW);
    machine.mapped(ALICE, VA - PAGE, 2 * PAGE, AllocFlags::GTT | RW);
    machine.mapped(BOB, VA, 4 * PAGE, AllocFlags::GTT | RW);
}

#[test]
fn lists_of_gpus_are_done_one_by_one() {
    let mut machine = Machine::new("mi300x-cpx");
    let (first, second) = (machine.gpu_id(0), machine.gpu_id(1));
    let handle = machine.alloc(ALICE, VA, PAGE, AllocFlags::GTT | RW).ok().handle;
    // The second gpu is mapped although the third does not exist, and the effect is there.
    let partial = machine.map(ALICE, handle, &[second, 0xDEAD]);
    assert_eq!((partial.errno(), partial.args.n_success), (Some(Errno::EINVAL), 1));
    assert!(matches!(partial.call.effects.process[..], [ProcessEffect::MapMemory { gpu: 1, .. }]));
    let args = MapMemoryArgs { handle, device_ids_array_ptr: 1, n_devices: 2, n_success: 1 };
    let rest = machine.run_with(ALICE, args, &[second, first]);
    assert!(matches!(rest.call.effects.process[..], [ProcessEffect::MapMemory { gpu: 0, .. }]));
    assert_eq!(rest.ok().n_success, 2);
    assert_eq!(machine.unmap(ALICE, handle, &[first, second]).ok().n_success, 2);

    assert_eq!(machine.map(ALICE, handle, &[]).errno(), Some(Errno::EINVAL));
    let args = MapMemoryArgs { n_devices: 1, n_success: 2, handle, device_ids_array_ptr: 1 };
    assert_eq!(machine.run_with(ALICE, args, &[first]).errno(), Some(Errno::EINVAL));
    let unreadable = MapMemoryArgs { n_devices: 1, n_success: 0, handle, device_ids_array_ptr: 1 };
    assert_eq!(machine.run(ALICE, unreadable).errno(), Some(Errno::EFAULT));
    assert_eq!(machine.map(ALICE, handle + 1, &[first]).errno(), Some(Errno::ENOMEM));
    assert_eq!(machine.unmap(ALICE, handle + 1, &[first]).errno(), Some(Errno::ENOMEM));
    assert_eq!(machine.map(ALICE, 1, &[first]).errno(), Some(Errno::EINVAL));
    assert_eq!(machine.map(BOB, handle, &[first]).errno(), Some(Errno::ENOMEM));
    let carol = ProcessKey::new(300, 3);
    machine.driver.open(carol).unwrap();
    assert_eq!(machine.map(carol, handle, &[first]).errno(), Some(Errno::ENODEV));
    machine.acquire(carol, 0).ok();
    let handle = machine.alloc(carol, VA, PAGE, AllocFlags::GTT | RW).ok().handle;
    assert_eq!(machine.map(carol, handle, &[second]).errno(), Some(Errno::ENODEV));
}

#[test]
fn a_dma_buffer_holds_its_memory() {
    let mut machine = Machine::new("mi300x");
    let gpu_id = machine.gpu_id(0);
    let flags = AllocFlags::VRAM | AllocFlags::PUBLIC | RW;
    let handle = machine.alloc(ALICE, VA, PAGE, flags).ok().handle;
    let export = machine.run(ALICE, ExportDmabufArgs { handle, flags: 2, dmabuf_fd: 0 });
    let [ProcessEffect::ExportDmabuf { token, fd_flags: 2, argument: 12 }] = export.call.effects.process[..] else {
        panic!("{export:?}");
    };
    let [ShareEffect::ExportDmabuf { token: same, buffer, offset, size: PAGE }] = export.call.effects.share[..] else {
        panic!("{export:?}");
    };
    assert_eq!((same, offset), (token, layout::BUFFERS_START));
    let backing = Backing::Vram { offset };
    let with_fd = |machine: &mut Machine, fd| {
        let mut call = Call::new(&GetDmabufInfoArgs::ZERO);
        call.fd = fd;
        machine.call::<GetDmabufInfoArgs>(ALICE, call)
    };
    let fd = Some(FdKind::Dmabuf { token });
    let info = with_fd(&mut machine, fd).ok();
    assert_eq!((info.size, info.gpu_id, info.flags), (PAGE, gpu_id, AllocFlags::VRAM | AllocFlags::PUBLIC));
    assert_eq!(with_fd(&mut machine, None).errno(), Some(Errno::EBADF));
    assert_eq!(with_fd(&mut machine, Some(FdKind::Other)).errno(), Some(Errno::EINVAL));
    assert_eq!(with_fd(&mut machine, Some(FdKind::Dmabuf { token: 999 })).errno(), Some(Errno::EINVAL));

    let mut call = Call::new(&ImportDmabufArgs { va_addr: 2 * VA, gpu_id, ..ImportDmabufArgs::ZERO });
    call.fd = fd;
    let import = machine.call::<ImportDmabufArgs>(ALICE, call).ok().handle;
    assert_ne!(import, handle);
    // No page is counted twice, and none is given back while a handle holds it.
    assert_eq!(machine.driver.gpus[0].vram_used, PAGE);
    assert!(machine.free(ALICE, handle).call.effects.is_empty());
    // The descriptor holds it as well.
    let free = machine.free(ALICE, import).call.effects;
    assert_eq!(free.process, [ProcessEffect::ForgetMemory { backing, size: PAGE }]);
    assert!(free.share.is_empty());
    assert_eq!(machine.driver.gpus[0].vram_used, PAGE);
    assert_eq!(machine.driver.dmabuf_closed(token), [ShareEffect::DiscardBuffer { buffer }]);
    assert_eq!(machine.driver.gpus[0].vram_used, 0);
    assert!(machine.driver.dmabuf_closed(token).is_empty());

    let userptr = machine.alloc(ALICE, VA, PAGE, AllocFlags::USERPTR | RW).ok().handle;
    let export = ExportDmabufArgs { handle: userptr, ..ExportDmabufArgs::ZERO };
    assert_eq!(machine.run(ALICE, export).errno(), Some(Errno::EPERM));
    let export = ExportDmabufArgs { handle: userptr + 1, ..ExportDmabufArgs::ZERO };
    assert_eq!(machine.run(ALICE, export).errno(), Some(Errno::EINVAL));

    machine.free(ALICE, userptr).ok();
    assert_eq!(machine.driver.close(ALICE).process, []);
}

#[test]
fn a_process_that_imports_a_buffer_may_do_everything_with_it() {
    let mut machine = Machine::new("mi300x-cpx");
    let (first, second) = (machine.gpu_id(0), machine.gpu_id(1));
    // Read-only, on the second gpu; of system memory it is not remembered whether the host may reach it.
    let flags = AllocFlags::GTT | AllocFlags::PUBLIC;
    let args = AllocMemoryArgs { va_addr: VA, size: PAGE, gpu_id: second, flags, ..AllocMemoryArgs::ZERO };
    let handle = machine.run(ALICE, args).ok().handle;
    let export = machine.run(ALICE, ExportDmabufArgs { handle, flags: 0, dmabuf_fd: 0 });
    let [ProcessEffect::ExportDmabuf { token, .. }] = export.call.effects.process[..] else { panic!("{export:?}") };
    let fd = Some(FdKind::Dmabuf { token });
    let call = Call { fd, ..Call::new(&GetDmabufInfoArgs::ZERO) };
    let info = machine.call::<GetDmabufInfoArgs>(ALICE, call).ok();
    assert_eq!((info.flags, info.gpu_id), (AllocFlags::GTT, first));
    let args = ImportDmabufArgs { va_addr: VA + PAGE, gpu_id: first, ..ImportDmabufArgs::ZERO };
    let import = machine.call::<ImportDmabufArgs>(ALICE, Call { fd, ..Call::new(&args) }).ok().handle;
    for (handle, gpu_id, allowed) in [(handle, second, flags), (import, first, AllocFlags::GTT | RW)] {
        let map = machine.map(ALICE, handle, &[gpu_id]);
        assert!(
            matches!(map.call.effects.process[..], [ProcessEffect::MapMemory { flags, .. }] if flags == allowed),
            "{map:?}"
        );
    }
}

#[test]
fn sysfs_shows_what_a_process_has() {
    let mut machine = Machine::new("mi300x");
    let gpu_id = machine.gpu_id(0);
    machine.alloc(ALICE, VA, PAGE, AllocFlags::VRAM | RW).ok();
    let file = |path: &str| match machine.driver.sysfs(path) {
        Some(sysfs::Node::File(text)) => text,
        other => panic!("{path}: {other:?}"),
    };
    assert_eq!(file(&format!("/sys/class/kfd/kfd/proc/100/vram_{gpu_id}")), "4096\n");
    assert_eq!(file(&format!("/sys/devices/virtual/kfd/kfd/proc/200/vram_{gpu_id}")), "0\n");
    assert_eq!(file("/sys/class/kfd/kfd/proc/100/pasid"), "32768\n");
    assert_eq!(file(&format!("/sys/class/kfd/kfd/proc/100/stats_{gpu_id}/cu_occupancy")), "0\n");
    assert_eq!(file(&format!("/sys/class/kfd/kfd/proc/100/stats_{gpu_id}/evicted_ms")), "0\n");
    assert_eq!(file(&format!("/sys/class/kfd/kfd/proc/100/counters_{gpu_id}/page_out")), "0\n");
    assert_eq!(machine.driver.sysfs(&format!("/sys/class/kfd/kfd/proc/100/stats_{gpu_id}/faults")), None);
    assert_eq!(file("/sys/class/kfd/kfd/topology/generation_id"), "2\n");
    assert_eq!(machine.driver.sysfs("/sys/class/kfd/kfd/proc/101"), None);
    assert_eq!(machine.driver.sysfs("/sys/class/kfd/kfd/process"), None);
}

//! Buffers and the address space of a render node.

use kfd_abi::drm::{
    GemCloseArgs, GemCreateArgs, GemCreateFlags, GemDomains, GemMetadataArgs, GemMmapArgs, GemOpArgs, GemVaArgs,
    PRIME_FD_TO_HANDLE, PRIME_HANDLE_TO_FD, PrimeHandleArgs, VaFlags, VaOperation,
};

use kfd_abi::memory::GetDmabufInfoArgs;

use super::sharing::export;
use super::*;
use crate::memory::{Mapping, MappingOf};

const VA: u64 = 0x7000_0000_0000;
const MIB: u64 = 1 << 20;
const RWX: VaFlags = VaFlags(VaFlags::READABLE.0 | VaFlags::WRITEABLE.0 | VaFlags::EXECUTABLE.0);

fn call_drm<T: Abi>(machine: &mut Machine, process: ProcessKey, file: u64, nr: u8, mut call: Call) -> Answer<T> {
    call.fd = Some(FdKind::Render { minor: machine.driver.gpus[0].gpu.render_minor, file });
    let result = machine.driver.drm_ioctl(process, nr.into(), &mut call);
    Answer { result, args: call.decode(), call }
}

/// A call on the opening whose address space `/dev/kfd` has acquired.
pub(super) fn run_drm<T: Argument>(machine: &mut Machine, process: ProcessKey, args: T) -> Answer<T> {
    call_drm(machine, process, 7, T::COMMAND.nr, Call::new(&args))
}

pub(super) fn close(machine: &mut Machine, process: ProcessKey, args: GemCloseArgs) -> Answer<GemCloseArgs> {
    run_drm(machine, process, args)
}

pub(super) fn import_gem(machine: &mut Machine, process: ProcessKey, token: u64) -> Answer<PrimeHandleArgs> {
    let named = Some(FdKind::Dmabuf { token });
    let call = Call { named, ..Call::new(&PrimeHandleArgs::ZERO) };
    call_drm(machine, process, 7, PRIME_FD_TO_HANDLE.nr, call)
}

fn create(machine: &mut Machine, size: u64) -> u32 {
    let args = GemCreateArgs { bo_size: size, domains: GemDomains::VRAM.0, ..GemCreateArgs::ZERO };
    run_drm(machine, ALICE, args).ok().bo_size as u32
}

fn va(handle: u32, operation: VaOperation, va_address: u64, offset_in_bo: u64, map_size: u64) -> GemVaArgs {
    GemVaArgs { handle, operation, flags: RWX, va_address, offset_in_bo, map_size, pad: 0 }
}

/// The address ranges that the gpu sees, applied from effects.
fn seen(effects: &[ProcessEffect]) -> Vec<(bool, u64, u64, Option<u64>)> {
    let change = |effect: &ProcessEffect| match *effect {
        ProcessEffect::MapMemory { va, size, backing, .. } => (true, va, size, backing.render_offset()),
        ProcessEffect::UnmapMemory { va, size, .. } => (false, va, size, None),
        ref other => panic!("{other:?}"),
    };
    effects.iter().map(change).collect()
}

#[test]
fn a_buffer_of_the_render_node_lives_from_create_to_close() {
    let mut machine = Machine::new("mi300x");
    let handle = create(&mut machine, 100);
    assert_eq!((handle, machine.driver.gpus[0].vram_used), (1, PAGE));
    let mmap = GemMmapArgs { handle_or_offset: handle.into() };
    assert_eq!(run_drm(&mut machine, ALICE, mmap).ok().handle_or_offset, layout::BUFFERS_START);
    let mut call = Call::new(&GemOpArgs { handle, op: GemOpArgs::GET_CREATE_INFO, value: 1 });
    call.buffers = vec![vec![0; 32]];
    let info = call_drm::<GemOpArgs>(&mut machine, ALICE, 7, GemOpArgs::COMMAND.nr, call);
    let info = GemCreateArgs::decode(&info.call.buffers[0]).unwrap();
    assert_eq!((info.bo_size, info.alignment, info.domains), (PAGE, PAGE, GemDomains::VRAM.0));
    let bob = run_drm(&mut machine, BOB, mmap);
    assert_eq!(bob.errno(), Some(Errno::ENOENT), "handles belong to an opening");
    let free = close(&mut machine, ALICE, GemCloseArgs { handle, pad: 0 });
    assert!(matches!(free.call.effects.process[..], [ProcessEffect::FreeMemory { size: PAGE, .. }]), "{free:?}");
    assert_eq!(machine.driver.gpus[0].vram_used, 0);
    assert_eq!(close(&mut machine, ALICE, GemCloseArgs { handle, pad: 0 }).errno(), Some(Errno::EINVAL));
    assert_eq!(run_drm(&mut machine, ALICE, mmap).errno(), Some(Errno::ENOENT));
}

#[test]
fn what_is_attached_to_a_buffer_goes_with_it() {
    let mut machine = Machine::new("mi300x");
    let memory = machine.alloc(ALICE, 0, PAGE, AllocFlags::VRAM | RW).ok().handle;
    let (token, _) = export(&mut machine, ALICE, memory);
    let handle = import_gem(&mut machine, ALICE, token).ok().handle;
    let fine =
        GemMetadataArgs { handle, op: GemMetadataArgs::SET, flags: 5, data_size_bytes: 6, ..GemMetadataArgs::ZERO };
    let mut set = fine;
    set.data[0][..2].copy_from_slice(&[0x1234_5678, 0x9ABC_DEF0]);
    run_drm(&mut machine, ALICE, set).ok();
    let long = GemMetadataArgs { data_size_bytes: 257, ..fine };
    assert_eq!(run_drm(&mut machine, ALICE, long).errno(), Some(Errno::EINVAL));
    assert_eq!(run_drm(&mut machine, ALICE, GemMetadataArgs { op: 3, ..fine }).errno(), Some(Errno::EPERM));
    assert_eq!(run_drm(&mut machine, ALICE, GemMetadataArgs { handle: 9, ..fine }).errno(), Some(Errno::ENOENT));
    let handle = import_gem(&mut machine, BOB, token).ok().handle;
    let get = GemMetadataArgs { handle, op: GemMetadataArgs::GET, ..GemMetadataArgs::ZERO };
    let got = run_drm(&mut machine, BOB, get).ok();
    assert_eq!((got.flags, got.data_size_bytes, got.data[0][..3].to_vec()), (5, 6, vec![0x1234_5678, 0xDEF0, 0]));

    let mut info = |room: u32| {
        let mut call =
            Call::new(&GetDmabufInfoArgs { metadata_ptr: 1, metadata_size: room, ..GetDmabufInfoArgs::ZERO });
        call.fd = Some(FdKind::Dmabuf { token });
        call.buffers = vec![vec![0; room as usize]];
        machine.call::<GetDmabufInfoArgs>(BOB, call)
    };
    let short = info(5);
    assert_eq!((short.errno(), short.args.metadata_size), (Some(Errno::EINVAL), 6));
    let enough = info(64);
    assert_eq!((enough.errno(), enough.args.metadata_size), (None, 6));
    assert_eq!(enough.call.buffers, [[0x78, 0x56, 0x34, 0x12, 0xF0, 0xDE]]);
}

#[test]
fn buffers_that_cannot_be_are_refused() {
    let mut machine = Machine::new("mi300x");
    let fine = GemCreateArgs { bo_size: PAGE, domains: GemDomains::GTT.0, ..GemCreateArgs::ZERO };
    for (broken, errno) in [
        (GemCreateArgs { domains: GemDomains::DOORBELL.0, ..fine }, Errno::EINVAL),
        (GemCreateArgs { domains: 0x80, ..fine }, Errno::EINVAL),
        (GemCreateArgs { domain_flags: 1 << 40, ..fine }, Errno::EINVAL),
        (GemCreateArgs { domain_flags: GemCreateFlags::ENCRYPTED.0, ..fine }, Errno::EINVAL),
        (GemCreateArgs { bo_size: 1 << 50, ..fine }, Errno::ENOMEM),
    ] {
        assert_eq!(run_drm(&mut machine, ALICE, broken).errno(), Some(errno), "{broken:?}");
    }
    let hidden = GemCreateArgs { domain_flags: GemCreateFlags::NO_CPU_ACCESS.0, ..fine };
    let handle = run_drm(&mut machine, ALICE, hidden).ok().bo_size;
    let mmap = GemMmapArgs { handle_or_offset: handle };
    assert_eq!(run_drm(&mut machine, ALICE, mmap).errno(), Some(Errno::EPERM));
}

#[test]
fn a_buffer_is_mapped_in_parts_and_unmapped_by_its_start() {
    let mut machine = Machine::new("mi300x");
    let handle = create(&mut machine, 4 * MIB);
    let start = layout::BUFFERS_START;
    let map = run_drm(&mut machine, ALICE, va(handle, VaOperation::MAP, VA, MIB, 2 * MIB));
    assert_eq!(seen(&map.call.effects.process), [(true, VA, 2 * MIB, Some(start + MIB))]);
    map.ok();
    // Twice at different addresses is fine, over itself is not.
    run_drm(&mut machine, ALICE, va(handle, VaOperation::MAP, VA + 8 * MIB, 0, MIB)).ok();
    let over = va(handle, VaOperation::MAP, VA + MIB, 0, MIB);
    assert_eq!(run_drm(&mut machine, ALICE, over).errno(), Some(Errno::EINVAL));
    let inside = va(handle, VaOperation::UNMAP, VA + MIB, 0, MIB);
    assert_eq!(run_drm(&mut machine, ALICE, inside).errno(), Some(Errno::ENOENT));
    let unmap = run_drm(&mut machine, ALICE, va(handle, VaOperation::UNMAP, VA, 0, 2 * MIB));
    assert_eq!(seen(&unmap.call.effects.process), [(false, VA, 2 * MIB, None)]);
    // The other mapping goes with the handle.
    let close = close(&mut machine, ALICE, GemCloseArgs { handle, pad: 0 }).call.effects.process;
    assert_eq!(seen(&close[..1]), [(false, VA + 8 * MIB, MIB, None)]);
}

#[test]
fn a_range_is_cleared_or_replaced_and_the_rest_stays() {
    let mut machine = Machine::new("mi300x");
    let (first, second) = (create(&mut machine, 4 * MIB), create(&mut machine, 4 * MIB));
    let start = layout::BUFFERS_START;
    run_drm(&mut machine, ALICE, va(first, VaOperation::MAP, VA, 0, 4 * MIB)).ok();
    let replace = run_drm(&mut machine, ALICE, va(second, VaOperation::REPLACE, VA + MIB, 0, MIB));
    assert_eq!(
        seen(&replace.call.effects.process),
        [(false, VA + MIB, MIB, None), (true, VA + MIB, MIB, Some(start + 4 * MIB))]
    );
    let ranges = |machine: &Machine| {
        let mappings = &machine.driver.process(ALICE).unwrap().gpus[0].mappings;
        let range = |(at, mapping): (&u64, &Mapping)| match mapping.of {
            MappingOf::Gem { offset, .. } => ((at - VA) / MIB, mapping.size / MIB, offset / MIB),
            MappingOf::Kfd { .. } => panic!("{mapping:?}"),
        };
        mappings.iter().map(range).collect::<Vec<_>>()
    };
    assert_eq!(ranges(&machine), [(0, 1, 0), (1, 1, 0), (2, 2, 2)]);
    let clear = run_drm(&mut machine, ALICE, va(0, VaOperation::CLEAR, VA + MIB / 2, 0, 2 * MIB));
    assert_eq!(clear.call.effects.process.len(), 3);
    clear.ok();
    let left = &machine.driver.process(ALICE).unwrap().gpus[0].mappings;
    assert_eq!(
        left.iter().map(|(at, mapping)| (at - VA, mapping.size)).collect::<Vec<_>>(),
        [(0, MIB / 2), (5 * MIB / 2, 3 * MIB / 2)]
    );
    // What /dev/kfd mapped stays its own.
    machine.mapped(ALICE, VA + 64 * MIB, PAGE, AllocFlags::VRAM | RW);
    let kfd = va(first, VaOperation::REPLACE, VA + 64 * MIB, 0, PAGE);
    assert_eq!(run_drm(&mut machine, ALICE, kfd).errno(), Some(Errno::EINVAL));
}

#[test]
fn addresses_and_flags_are_checked() {
    let mut machine = Machine::new("mi300x");
    let handle = create(&mut machine, 4 * PAGE);
    let fine = va(handle, VaOperation::MAP, VA, 0, PAGE);
    for (broken, errno) in [
        (GemVaArgs { va_address: 0x8000, ..fine }, Errno::EINVAL),
        (GemVaArgs { va_address: 1 << 47, ..fine }, Errno::EINVAL),
        (GemVaArgs { va_address: VA + 1, ..fine }, Errno::EINVAL),
        (GemVaArgs { offset_in_bo: 4 * PAGE, ..fine }, Errno::EINVAL),
        (GemVaArgs { offset_in_bo: u64::MAX - PAGE + 1, ..fine }, Errno::EINVAL),
        (GemVaArgs { map_size: 0, ..fine }, Errno::EINVAL),
        (GemVaArgs { map_size: u64::MAX, ..fine }, Errno::EINVAL),
        (GemVaArgs { map_size: 100, ..fine }, Errno::EINVAL),
        (GemVaArgs { flags: VaFlags(1 << 20), ..fine }, Errno::EINVAL),
        (GemVaArgs { operation: VaOperation(9), ..fine }, Errno::EINVAL),
        (GemVaArgs { handle: 99, ..fine }, Errno::ENOENT),
        (GemVaArgs { operation: VaOperation::UNMAP, ..fine }, Errno::ENOENT),
    ] {
        assert_eq!(run_drm(&mut machine, ALICE, broken).errno(), Some(errno), "{broken:?}");
    }
    // Access rights reach the gpu; without any there is nothing to reach.
    let flags = |machine: &mut Machine, flags: VaFlags, at: u64| {
        let args = GemVaArgs { flags, va_address: at, ..fine };
        match run_drm(machine, ALICE, args).call.effects.process[..] {
            [ProcessEffect::MapMemory { flags, .. }] => Some(flags),
            _ => None,
        }
    };
    assert_eq!(flags(&mut machine, RWX, VA), Some(AllocFlags::VRAM | RW));
    assert_eq!(flags(&mut machine, VaFlags::READABLE, VA + MIB), Some(AllocFlags::VRAM));
    assert_eq!(flags(&mut machine, VaFlags::EMPTY, VA / 2), None);
    let again = GemVaArgs { va_address: VA / 2, ..fine };
    assert_eq!(run_drm(&mut machine, ALICE, again).errno(), Some(Errno::EINVAL), "its addresses are taken");
}

#[test]
fn only_the_acquired_address_space_is_the_gpus() {
    let mut machine = Machine::new("mi300x");
    let carol = ProcessKey::new(300, 3);
    machine.driver.open(carol).unwrap();
    let args = GemCreateArgs { bo_size: PAGE, domains: GemDomains::GTT.0, ..GemCreateArgs::ZERO };
    let mut handle_on = |file: u64| {
        let create = call_drm::<GemCreateArgs>(&mut machine, carol, file, GemCreateArgs::COMMAND.nr, Call::new(&args));
        let handle = create.ok().bo_size as u32;
        let map = Call::new(&va(handle, VaOperation::MAP, VA, 0, PAGE));
        let map = call_drm::<GemVaArgs>(&mut machine, carol, file, GemVaArgs::COMMAND.nr, map);
        assert!(map.call.effects.is_empty());
        map.ok();
    };
    handle_on(7);
    // Another opening has an address space of its own.
    handle_on(8);
    let acquire = machine.acquire(carol, 0);
    assert_eq!(seen(&acquire.call.effects.process), [(true, VA, PAGE, Some(layout::BUFFERS_START))]);
}

#[test]
fn a_handle_becomes_a_descriptor_and_a_handle_again() {
    let mut machine = Machine::new("mi300x");
    let handle = create(&mut machine, PAGE);
    let call = Call::new(&PrimeHandleArgs { handle, flags: 0o2_000_000, fd: 0 });
    let exported = call_drm::<PrimeHandleArgs>(&mut machine, ALICE, 7, PRIME_HANDLE_TO_FD.nr, call);
    let [ProcessEffect::ExportDmabuf { token, fd_flags: 0o2_000_000, argument: 8 }] = exported.call.effects.process[..]
    else {
        panic!("{exported:?}");
    };
    assert_eq!(import_gem(&mut machine, ALICE, token).ok().handle, handle, "the opening has it already");
    assert_eq!(import_gem(&mut machine, BOB, token).ok().handle, 1);
    let wrong = Call::new(&PrimeHandleArgs { handle, flags: 4, fd: 0 });
    let wrong = call_drm::<PrimeHandleArgs>(&mut machine, ALICE, 7, PRIME_HANDLE_TO_FD.nr, wrong);
    assert_eq!(wrong.errno(), Some(Errno::EINVAL));
    let none = Call::new(&PrimeHandleArgs { handle: 9, ..PrimeHandleArgs::ZERO });
    let none = call_drm::<PrimeHandleArgs>(&mut machine, ALICE, 7, PRIME_HANDLE_TO_FD.nr, none);
    assert_eq!(none.errno(), Some(Errno::ENOENT));
    let closed = call_drm::<PrimeHandleArgs>(&mut machine, ALICE, 7, PRIME_FD_TO_HANDLE.nr, Call::default());
    assert_eq!(closed.errno(), Some(Errno::EBADF));
    assert_eq!(import_gem(&mut machine, ALICE, 999).errno(), Some(Errno::EINVAL));

    // A buffer of /dev/kfd without an address of its own, as runtimes allocate it for programs to place.
    let memory = machine.alloc(ALICE, 0, PAGE, AllocFlags::VRAM | RW).ok().handle;
    let (token, _) = export(&mut machine, ALICE, memory);
    let placed = import_gem(&mut machine, ALICE, token).ok().handle;
    run_drm(&mut machine, ALICE, va(placed, VaOperation::MAP, VA, 0, PAGE)).ok();
}

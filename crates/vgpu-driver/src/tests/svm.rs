use kfd_abi::svm::{LOCATION_SYSMEM, LOCATION_UNDEFINED, SvmArgs, SvmAttr, SvmAttribute, SvmFlags, SvmOp};

use super::*;

const BASE: u64 = 0x7100_0000_0000;

/// An `SVM` call with its attributes behind it.
pub(super) fn svm_call(machine: &mut Machine, args: SvmArgs, attributes: &[(SvmAttr, u32)]) -> Answer<SvmArgs> {
    let mut call = Call::new(&SvmArgs { nattr: attributes.len() as u32, ..args });
    for &(kind, value) in attributes {
        call.args.extend(call::encode(&SvmAttribute { kind, value }));
    }
    machine.call(ALICE, call)
}

fn set(machine: &mut Machine, start: u64, pages: u64, attributes: &[(SvmAttr, u32)]) -> Answer<SvmArgs> {
    let args = SvmArgs { start_addr: start, size: pages * PAGE, op: SvmOp::SET_ATTR, nattr: 0 };
    svm_call(machine, args, attributes)
}

fn get(machine: &mut Machine, start: u64, pages: u64, asked: &[(SvmAttr, u32)]) -> Vec<(SvmAttr, u32)> {
    let args = SvmArgs { start_addr: start, size: pages * PAGE, op: SvmOp::GET_ATTR, nattr: 0 };
    let answer = svm_call(machine, args, asked);
    assert_eq!(answer.result, Ok(0));
    let tail = answer.call.args[SvmArgs::SIZE..].chunks_exact(SvmAttribute::SIZE);
    tail.map(|bytes| SvmAttribute::decode(bytes).unwrap()).map(|attribute| (attribute.kind, attribute.value)).collect()
}

#[test]
fn what_is_set_is_answered() {
    let mut machine = Machine::new("mi300x-cpx");
    let (first, second) = (machine.gpu_id(0), machine.gpu_id(1));
    let answer = set(
        &mut machine,
        BASE,
        4,
        &[
            (SvmAttr::PREFERRED_LOC, first),
            (SvmAttr::PREFETCH_LOC, 0),
            (SvmAttr::ACCESS, first),
            (SvmAttr::ACCESS_IN_PLACE, second),
            (SvmAttr::SET_FLAGS, SvmFlags::GPU_EXEC.0),
            (SvmAttr::CLR_FLAGS, SvmFlags::COHERENT.0),
            (SvmAttr::GRANULARITY, 0xFF),
        ],
    );
    let effect = |gpu| ProcessEffect::SvmAccess {
        gpu,
        va: BASE,
        size: 4 * PAGE,
        access: true,
        writable: true,
        executable: true,
    };
    assert_eq!(answer.call.effects.process, [effect(0), effect(1)]);
    let flags = SvmFlags::HOST_ACCESS | SvmFlags::GPU_EXEC;
    let asked = [
        (SvmAttr::PREFERRED_LOC, 9),
        (SvmAttr::PREFETCH_LOC, 9),
        (SvmAttr::ACCESS, first),
        (SvmAttr::ACCESS, second),
        (SvmAttr::SET_FLAGS, 0),
        (SvmAttr::CLR_FLAGS, 0),
        (SvmAttr::GRANULARITY, 0),
    ];
    assert_eq!(
        get(&mut machine, BASE + PAGE, 1, &asked),
        [
            (SvmAttr::PREFERRED_LOC, first),
            (SvmAttr::PREFETCH_LOC, 0),
            (SvmAttr::ACCESS, first),
            (SvmAttr::ACCESS_IN_PLACE, second),
            (SvmAttr::SET_FLAGS, flags.0),
            (SvmAttr::CLR_FLAGS, !flags.0),
            (SvmAttr::GRANULARITY, 0x3F),
        ]
    );
    // Nothing is known elsewhere.
    let defaults = SvmFlags::HOST_ACCESS | SvmFlags::COHERENT;
    assert_eq!(
        get(&mut machine, BASE + 4 * PAGE, 1, &asked[..6]),
        [
            (SvmAttr::PREFERRED_LOC, LOCATION_UNDEFINED),
            (SvmAttr::PREFETCH_LOC, LOCATION_UNDEFINED),
            (SvmAttr::NO_ACCESS, first),
            (SvmAttr::NO_ACCESS, second),
            (SvmAttr::SET_FLAGS, defaults.0),
            (SvmAttr::CLR_FLAGS, !defaults.0),
        ]
    );
}

#[test]
fn ranges_split_where_they_differ() {
    let mut machine = Machine::new("mi300x");
    let gpu = machine.gpu_id(0);
    set(&mut machine, BASE, 10, &[(SvmAttr::ACCESS, gpu), (SvmAttr::GRANULARITY, 5)]).ok();
    let middle = set(&mut machine, BASE + 4 * PAGE, 2, &[(SvmAttr::NO_ACCESS, gpu), (SvmAttr::GRANULARITY, 3)]);
    let effect = ProcessEffect::SvmAccess {
        gpu: 0,
        va: BASE + 4 * PAGE,
        size: 2 * PAGE,
        access: false,
        writable: true,
        executable: false,
    };
    assert_eq!(middle.call.effects.process, [effect]);
    let asked = [(SvmAttr::ACCESS, gpu), (SvmAttr::GRANULARITY, 0)];
    for (page, pages, access, granularity) in [
        (0, 4, SvmAttr::ACCESS, 5),
        (4, 2, SvmAttr::NO_ACCESS, 3),
        (6, 4, SvmAttr::ACCESS, 5),
        (3, 2, SvmAttr::NO_ACCESS, 3),
        (0, 10, SvmAttr::NO_ACCESS, 3),
    ] {
        let answer = get(&mut machine, BASE + page * PAGE, pages, &asked);
        assert_eq!(answer, [(access, gpu), (SvmAttr::GRANULARITY, granularity)], "{page}+{pages}");
    }
    // A range over known and unknown parts fills the holes.
    set(&mut machine, BASE - 2 * PAGE, 20, &[(SvmAttr::SET_FLAGS, SvmFlags::GPU_RO.0)]).ok();
    assert!(machine.driver.process(ALICE).unwrap().svm.overlaps(BASE + 17 * PAGE, PAGE));
    assert!(!machine.driver.process(ALICE).unwrap().svm.overlaps(BASE + 18 * PAGE, PAGE));
    let [(_, flags)] = get(&mut machine, BASE - 2 * PAGE, 20, &[(SvmAttr::SET_FLAGS, 0)])[..] else { panic!() };
    assert!(SvmFlags(flags).has(SvmFlags::GPU_RO));
}

#[test]
fn impossible_ranges_and_attributes_are_refused_and_change_nothing() {
    let mut machine = Machine::new("mi300x");
    let gpu = machine.gpu_id(0);
    let fine = SvmArgs { start_addr: BASE, size: PAGE, op: SvmOp::SET_ATTR, nattr: 0 };
    for broken in [
        SvmArgs { start_addr: BASE + 1, ..fine },
        SvmArgs { size: 1, ..fine },
        SvmArgs { start_addr: 0, ..fine },
        SvmArgs { size: 0, ..fine },
        SvmArgs { op: SvmOp(2), ..fine },
    ] {
        assert_eq!(svm_call(&mut machine, broken, &[]).errno(), Some(Errno::EINVAL), "{broken:?}");
    }
    for attribute in [
        (SvmAttr(8), 0),
        (SvmAttr::ACCESS, 0),
        (SvmAttr::NO_ACCESS, gpu ^ 1),
        (SvmAttr::PREFERRED_LOC, gpu ^ 1),
        (SvmAttr::PREFETCH_LOC, 1),
        // It may be preferred that nothing is, but memory is not moved to nowhere.
        (SvmAttr::PREFETCH_LOC, LOCATION_UNDEFINED),
    ] {
        let answer = svm_call(&mut machine, fine, &[(SvmAttr::GRANULARITY, 1), attribute]);
        assert_eq!(answer.errno(), Some(Errno::EINVAL), "{attribute:?}");
    }
    let ask = SvmArgs { op: SvmOp::GET_ATTR, ..fine };
    for broken in [SvmArgs { size: u64::MAX - 4095, ..fine }, SvmArgs { start_addr: (1 << 47) - PAGE, ..fine }] {
        for op in [SvmOp::SET_ATTR, SvmOp::GET_ATTR] {
            let answer = svm_call(&mut machine, SvmArgs { op, ..broken }, &[]);
            assert_eq!(answer.errno(), Some(Errno::EFAULT), "{broken:?}");
        }
    }
    let carol = ProcessKey::new(300, 3);
    machine.driver.open(carol).unwrap();
    // A process without a gpu shares nothing.
    assert_eq!(machine.run(carol, fine).errno(), Some(Errno::EINVAL));
    assert_eq!(machine.run(carol, ask).errno(), None);
    assert_eq!(svm_call(&mut machine, ask, &[(SvmAttr::NO_ACCESS, gpu)]).errno(), Some(Errno::EINVAL));
    assert_eq!(get(&mut machine, BASE, 1, &[(SvmAttr::GRANULARITY, 0)]), [(SvmAttr::GRANULARITY, 9)]);
    // More attributes announced than there are.
    assert_eq!(machine.run(ALICE, SvmArgs { nattr: 1, ..fine }).errno(), Some(Errno::EINVAL));
    assert_eq!(machine.run(ALICE, SvmArgs { nattr: u32::MAX, ..fine }).errno(), Some(Errno::EINVAL));
}

#[test]
fn buffers_and_shared_ranges_exclude_each_other() {
    let mut machine = Machine::new("mi300x");
    let gpu = machine.gpu_id(0);
    machine.mapped(ALICE, BASE, 2 * PAGE, AllocFlags::GTT | RW);
    let over = set(&mut machine, BASE + PAGE, 4, &[(SvmAttr::ACCESS, gpu)]);
    assert_eq!(over.errno(), Some(Errno::EADDRINUSE));
    let ask = SvmArgs { start_addr: BASE, size: PAGE, op: SvmOp::GET_ATTR, nattr: 0 };
    assert_eq!(svm_call(&mut machine, ask, &[]).errno(), Some(Errno::EADDRINUSE));
    set(&mut machine, BASE + 2 * PAGE, 4, &[(SvmAttr::ACCESS, gpu)]).ok();
    let alloc = machine.alloc(ALICE, BASE + 5 * PAGE, PAGE, AllocFlags::GTT | RW);
    assert_eq!(alloc.errno(), Some(Errno::EADDRINUSE));
    let flags = AllocFlags::USERPTR | RW;
    let args = AllocMemoryArgs {
        va_addr: BASE + 64 * PAGE,
        size: PAGE,
        mmap_offset: BASE + 3 * PAGE,
        gpu_id: gpu,
        flags,
        handle: 0,
    };
    assert_eq!(machine.run(ALICE, args).errno(), Some(Errno::EADDRINUSE));
    machine.alloc(BOB, BASE + 5 * PAGE, PAGE, AllocFlags::GTT | RW).ok();
}

#[test]
fn memory_that_the_process_gave_up_is_forgotten() {
    let mut machine = Machine::new("mi300x");
    let gpu = machine.gpu_id(0);
    set(&mut machine, BASE, 8, &[(SvmAttr::ACCESS, gpu)]).ok();
    let gone = ProcessEffect::SvmAccess {
        gpu: 0,
        va: BASE + 2 * PAGE,
        size: 3 * PAGE,
        access: false,
        writable: false,
        executable: false,
    };
    assert_eq!(machine.driver.svm_unmapped(ALICE, BASE + 2 * PAGE, 3 * PAGE), [gone]);
    assert!(machine.driver.svm_unmapped(ALICE, BASE + 2 * PAGE, 3 * PAGE).is_empty());
    assert!(machine.driver.svm_unmapped(ALICE, BASE, 0).is_empty());
    assert!(machine.driver.svm_unmapped(BOB, BASE, 8 * PAGE).is_empty());
    machine.mapped(ALICE, BASE + 2 * PAGE, 3 * PAGE, AllocFlags::GTT | RW);
    let alloc = machine.alloc(ALICE, BASE + 5 * PAGE, PAGE, AllocFlags::GTT | RW);
    assert_eq!(alloc.errno(), Some(Errno::EADDRINUSE));
}

/// A place is answered if all that is known of the range has it; parts of which nothing is known do not count.
#[test]
fn a_place_that_a_part_of_the_range_does_not_have_is_none() {
    let mut machine = Machine::new("mi300x-cpx");
    let (first, second) = (machine.gpu_id(0), machine.gpu_id(1));
    for kind in [SvmAttr::PREFERRED_LOC, SvmAttr::PREFETCH_LOC] {
        let start = BASE + u64::from(kind.0) * 64 * PAGE;
        // The first two pages and the last two are on a gpu, and nothing is known of those between.
        set(&mut machine, start, 2, &[(kind, first)]).ok();
        set(&mut machine, start + 4 * PAGE, 2, &[(kind, first)]).ok();
        let place = |machine: &mut Machine, page: u64, pages| get(machine, start + page * PAGE, pages, &[(kind, 9)]);
        assert_eq!(place(&mut machine, 0, 6), [(kind, first)]);
        assert_eq!(place(&mut machine, 1, 8), [(kind, first)]);
        assert_eq!(place(&mut machine, 2, 2), [(kind, LOCATION_UNDEFINED)]);
        // Known for another reason, they have no place.
        set(&mut machine, start + 2 * PAGE, 1, &[(SvmAttr::GRANULARITY, 9)]).ok();
        assert_eq!(place(&mut machine, 0, 6), [(kind, LOCATION_UNDEFINED)]);
        assert_eq!(place(&mut machine, 3, 3), [(kind, first)]);
        // The last one that is set counts, and system memory is a place like others.
        set(&mut machine, start, 6, &[(kind, first), (kind, second)]).ok();
        assert_eq!(place(&mut machine, 0, 6), [(kind, second)]);
        set(&mut machine, start + 5 * PAGE, 1, &[(kind, LOCATION_SYSMEM)]).ok();
        assert_eq!(place(&mut machine, 0, 5), [(kind, second)]);
        assert_eq!(place(&mut machine, 0, 6), [(kind, LOCATION_UNDEFINED)]);
        assert_eq!(place(&mut machine, 5, 1), [(kind, LOCATION_SYSMEM)]);
    }
    // Preferring nothing is possible, and does not change where memory was moved to.
    let attributes = [(SvmAttr::PREFERRED_LOC, first), (SvmAttr::PREFETCH_LOC, second)];
    set(&mut machine, BASE, 1, &attributes).ok();
    set(&mut machine, BASE, 1, &[(SvmAttr::PREFERRED_LOC, LOCATION_UNDEFINED)]).ok();
    assert_eq!(get(&mut machine, BASE, 1, &attributes), [(SvmAttr::PREFERRED_LOC, LOCATION_UNDEFINED), attributes[1]]);
}

#[test]
fn gpus_with_access_are_told_what_they_may_do() {
    let mut machine = Machine::new("mi300x-cpx");
    let (first, second) = (machine.gpu_id(0), machine.gpu_id(1));
    let effect = |gpu, access, writable, executable| ProcessEffect::SvmAccess {
        gpu,
        va: BASE,
        size: PAGE,
        access,
        writable,
        executable,
    };
    let mut told = |attributes: &[(SvmAttr, u32)]| set(&mut machine, BASE, 1, attributes).call.effects.process;
    // No gpu has access: there is nothing to tell.
    assert_eq!(told(&[(SvmAttr::PREFETCH_LOC, first), (SvmAttr::SET_FLAGS, SvmFlags::GPU_RO.0)]), []);
    assert_eq!(told(&[(SvmAttr::ACCESS, second)]), [effect(1, true, false, false)]);
    assert_eq!(told(&[(SvmAttr::SET_FLAGS, SvmFlags::GPU_EXEC.0)]), [effect(1, true, false, true)]);
    let both = [effect(0, true, true, true), effect(1, true, true, true)];
    assert_eq!(told(&[(SvmAttr::ACCESS_IN_PLACE, first), (SvmAttr::CLR_FLAGS, SvmFlags::GPU_RO.0)]), both);
    // The last word about a gpu counts.
    let last = [effect(0, true, true, true), effect(1, false, true, true)];
    assert_eq!(told(&[(SvmAttr::ACCESS, second), (SvmAttr::NO_ACCESS, second)]), last);
}

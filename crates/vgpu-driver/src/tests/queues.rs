use kfd_abi::memory::{MmapKind, MmapOffset};
use kfd_abi::queue::{
    CreateQueueArgs, DestroyQueueArgs, GetQueueWaveStateArgs, QueueType, SetCuMaskArgs, UpdateQueueArgs,
};
use kfd_abi::svm::{SvmArgs, SvmAttr, SvmFlags, SvmOp};

use super::svm::svm_call;
use super::*;

const BASE: u64 = 0x7000_0000_0000;
pub(super) const RING: u64 = BASE;
const POINTERS: u64 = BASE + 0x10_0000;
const EOP: u64 = BASE + 0x20_0000;
pub(super) const SAVE: u64 = BASE + 0x1000_0000;

/// Buffers for queues of a process, and the arguments that fit them.
pub(super) fn prepare(machine: &mut Machine, process: ProcessKey) -> CreateQueueArgs {
    let size = machine.driver.profile().save_area().unwrap();
    machine.mapped(process, RING, 0x10000, AllocFlags::GTT | RW);
    machine.mapped(process, POINTERS, PAGE, AllocFlags::GTT | RW);
    machine.mapped(process, EOP, PAGE, AllocFlags::VRAM | RW);
    machine.mapped(process, SAVE, size.total, AllocFlags::VRAM | RW);
    args(machine)
}

/// The arguments that fit those buffers.
pub(super) fn args(machine: &Machine) -> CreateQueueArgs {
    let size = machine.driver.profile().save_area().unwrap();
    CreateQueueArgs {
        ring_base_address: RING,
        ring_size: 0x10000,
        write_pointer_address: POINTERS + 0x38,
        read_pointer_address: POINTERS + 0x80,
        gpu_id: machine.gpu_id(0),
        queue_type: QueueType::COMPUTE_AQL,
        queue_percentage: 100,
        queue_priority: 7,
        eop_buffer_address: EOP,
        eop_buffer_size: PAGE,
        ctx_save_restore_address: SAVE,
        ctx_save_restore_size: size.cwsr,
        ctl_stack_size: size.ctl_stack,
        ..CreateQueueArgs::ZERO
    }
}

/// What the driver answers for the doorbells of the first gpu.
fn slice(machine: &Machine) -> u64 {
    let MmapOffset(offset) = MmapOffset::new(MmapKind::DOORBELL, machine.gpu_id(0));
    offset
}

#[test]
fn a_queue_lives_from_creation_to_destruction() {
    let mut machine = Machine::new("mi300x");
    let args = prepare(&mut machine, ALICE);
    let create = machine.run(ALICE, args);
    let [DeviceEffect::Queue(QueueChange::Create(spec)), cycle] = &create.call.effects.device[..] else {
        panic!("{create:?}")
    };
    assert_eq!(*cycle, cycled(0, Cause::CreateQueue));
    assert_eq!((spec.id, spec.kind, spec.gpu), (0, QueueKind::Aql, 0));
    assert_eq!((spec.rptr, spec.wptr, spec.eop), (POINTERS + 0x80, POINTERS + 0x38, EOP));
    assert_eq!((spec.ctx_save, spec.ctl_stack_size), (SAVE, args.ctl_stack_size));
    let active =
        QueueSettings { ring: RING, ring_size: 0x10000, percent: 100, priority: 7, target_xcc: 0, active: true };
    assert_eq!(spec.settings, active);
    let answer = create.ok();
    assert_eq!((answer.queue_id, answer.doorbell_offset), (0, slice(&machine)));
    let second = machine.run(ALICE, args).ok();
    assert_eq!((second.queue_id, second.doorbell_offset), (1, slice(&machine) + 8));
    // Another process starts at the beginning of its own doorbells.
    let other = prepare(&mut machine, BOB);
    assert_eq!(machine.run(BOB, other).ok().doorbell_offset, slice(&machine));

    let dir = "/sys/class/kfd/kfd/proc/100/queues";
    let file = |name: &str| machine.driver.sysfs(&format!("{dir}/1/{name}"));
    assert_eq!(file("size"), Some(sysfs::Node::File("65536".into())));
    assert_eq!(file("type"), Some(sysfs::Node::File("0".into())));
    assert_eq!(file("gpuid"), Some(sysfs::Node::File(machine.gpu_id(0).to_string())));

    let destroy = machine.run(ALICE, DestroyQueueArgs { queue_id: 0, pad: 0 });
    // It leaves the gpu before it is gone.
    assert_eq!(destroy.call.effects.device, [cycled(0, Cause::DestroyQueue), QueueChange::Destroy { id: 0 }.into()]);
    assert_eq!(machine.run(ALICE, DestroyQueueArgs { queue_id: 0, pad: 0 }).errno(), Some(Errno::EINVAL));
    assert_eq!(machine.run(ALICE, args).ok().queue_id, 0);
    let effects = machine.driver.close(ALICE).device;
    let gone =
        [cycled(0, Cause::ProcessEnd), QueueChange::Destroy { id: 0 }.into(), QueueChange::Destroy { id: 1 }.into()];
    assert_eq!(effects[..3], gone);
    assert_eq!(machine.driver.gpus[0].queues, 1);
}

/// What a change of the queues of a gpu entails.
pub(super) fn cycled(gpu: u32, cause: Cause) -> DeviceEffect {
    DeviceEffect::Cycle { gpu, cause, grace: None }
}

#[test]
fn only_what_is_on_the_gpu_has_to_leave_it() {
    let mut machine = Machine::new("mi300x");
    let args = CreateQueueArgs { queue_percentage: 0, ..prepare(&mut machine, ALICE) };
    let off = machine.run(ALICE, args);
    assert!(matches!(off.call.effects.device[..], [DeviceEffect::Queue(QueueChange::Create(_))]), "{off:?}");
    // The driver changes what it keeps of a queue only while nothing runs, even if the queue does not.
    let on = UpdateQueueArgs {
        queue_id: 0,
        ring_base_address: RING,
        ring_size: 0x10000,
        queue_percentage: 1,
        ..UpdateQueueArgs::ZERO
    };
    for queue_percentage in [0, 1, 0] {
        let update = machine.run(ALICE, UpdateQueueArgs { queue_percentage, ..on });
        assert_eq!(update.call.effects.device[1..], [cycled(0, Cause::UpdateQueue)]);
        let listed = machine.driver.runlist(0).groups.len();
        assert_eq!(listed, queue_percentage as usize);
    }
    let destroy = machine.run(ALICE, DestroyQueueArgs { queue_id: 0, pad: 0 });
    assert_eq!(destroy.call.effects.device, [QueueChange::Destroy { id: 0 }.into()]);
}

#[test]
fn buffers_of_a_queue_must_fit_exactly() {
    let mut machine = Machine::new("mi300x");
    let fine = prepare(&mut machine, ALICE);
    let carol = ProcessKey::new(300, 3);
    machine.driver.open(carol).unwrap();
    assert_eq!(machine.run(carol, fine).errno(), Some(Errno::ESRCH));
    for (broken, errno) in [
        (CreateQueueArgs { queue_percentage: 101, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { queue_priority: 16, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { ring_base_address: 1 << 63, ..fine }, Errno::EFAULT),
        (CreateQueueArgs { ring_size: 3 << 10, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { read_pointer_address: 1 << 47, ..fine }, Errno::EFAULT),
        (CreateQueueArgs { write_pointer_address: u64::MAX, ..fine }, Errno::EFAULT),
        (CreateQueueArgs { eop_buffer_address: u64::MAX, ..fine }, Errno::EFAULT),
        (CreateQueueArgs { ctx_save_restore_address: u64::MAX, ..fine }, Errno::EFAULT),
        (CreateQueueArgs { queue_type: QueueType(5), ..fine }, Errno::ENOTSUPP),
        (CreateQueueArgs { gpu_id: 0, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { write_pointer_address: RING, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { read_pointer_address: POINTERS + PAGE, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { ring_size: 0x8000, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { ring_base_address: 0, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { ring_base_address: RING + PAGE, ring_size: 4096, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { eop_buffer_size: 8192, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { eop_buffer_size: 4095, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { eop_buffer_size: 1 << 32, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { eop_buffer_address: RING, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { ctl_stack_size: fine.ctl_stack_size + 4096, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { ctx_save_restore_size: fine.ctx_save_restore_size - 1, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { ctx_save_restore_size: fine.ctx_save_restore_size + 4096, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { ctx_save_restore_address: 0, ..fine }, Errno::EINVAL),
        (CreateQueueArgs { queue_type: QueueType::SDMA_BY_ENG_ID, sdma_engine_id: 16, ..fine }, Errno::EINVAL),
    ] {
        let answer = machine.run(ALICE, broken);
        assert_eq!(answer.errno(), Some(errno), "{broken:?}");
        assert!(answer.call.effects.is_empty());
    }
    // An end-of-packet buffer is not needed, and a ring of less than a page may lie in any buffer.
    machine.run(ALICE, CreateQueueArgs { eop_buffer_address: 0, eop_buffer_size: 1, ..fine }).ok();
    // The caller sees that its ring was made larger.
    assert_eq!(machine.run(ALICE, CreateQueueArgs { ring_size: 512, ..fine }).ok().ring_size, 1024);
    assert_eq!(machine.run(ALICE, CreateQueueArgs { ring_size: 0, gpu_id: 0, ..fine }).args.ring_size, 1024);
    // A larger end-of-packet buffer than needed is fine if it is all of its own buffer.
    machine.mapped(ALICE, BASE + 0x40_0000, 3 * PAGE, AllocFlags::VRAM | RW);
    let larger = CreateQueueArgs { eop_buffer_address: BASE + 0x40_0000, eop_buffer_size: 2 * PAGE + 1, ..fine };
    machine.run(ALICE, larger).ok();
    machine.run(ALICE, fine).ok();
}

#[test]
fn a_save_area_may_be_ordinary_memory_that_stays_mapped() {
    let mut machine = Machine::new("mi300x");
    let area = BASE + 0x2000_0000;
    let size = machine.driver.profile().save_area().unwrap().total;
    let args = CreateQueueArgs { ctx_save_restore_address: area, ..prepare(&mut machine, ALICE) };
    let gpu_id = machine.gpu_id(0);
    let range = SvmArgs { start_addr: area, size, op: SvmOp::SET_ATTR, nattr: 0 };
    assert_eq!(machine.run(ALICE, args).errno(), Some(Errno::EINVAL));
    svm_call(&mut machine, range, &[(SvmAttr::ACCESS, gpu_id)]).ok();
    assert_eq!(machine.run(ALICE, args).errno(), Some(Errno::EINVAL));
    // Half of it is not enough.
    let flags = SvmFlags::GPU_ALWAYS_MAPPED.0;
    svm_call(&mut machine, SvmArgs { size: PAGE, ..range }, &[(SvmAttr::SET_FLAGS, flags)]).ok();
    assert_eq!(machine.run(ALICE, args).errno(), Some(Errno::EINVAL));
    svm_call(&mut machine, range, &[(SvmAttr::SET_FLAGS, flags)]).ok();
    let queue = machine.run(ALICE, args).ok().queue_id;
    let in_a_buffer = machine.run(ALICE, CreateQueueArgs { ctx_save_restore_address: SAVE, ..args }).ok().queue_id;
    // The processor writes to it when a debugger has stopped a queue, and it stays where that has moved it.
    let to_host = |machine: &Machine| [queue, in_a_buffer].map(|id| machine.driver.saves_to_host(ALICE, id));
    assert_eq!(to_host(&machine), [Some(false); 2]);
    machine.driver.wave_states_copied(ALICE);
    assert_eq!(to_host(&machine), [Some(true), Some(false)]);
    assert_eq!(machine.driver.saves_to_host(BOB, queue), None);
}

#[test]
fn copy_queues_have_slots_of_their_engines() {
    let mut machine = Machine::new("mi300x");
    let args = CreateQueueArgs { queue_type: QueueType::SDMA, ..prepare(&mut machine, ALICE) };
    let first = machine.run(ALICE, args);
    let [DeviceEffect::Queue(QueueChange::Create(spec)), _] = &first.call.effects.device[..] else {
        panic!("{first:?}")
    };
    assert_eq!((spec.kind, spec.ctx_save, spec.eop), (QueueKind::Sdma { engine: 0 }, 0, 0));
    assert_eq!(first.args.doorbell_offset, slice(&machine) + 0x100 * 8);
    for _ in 1..16 {
        machine.run(ALICE, args).ok();
    }
    // All processes share the engines.
    let other = CreateQueueArgs { queue_type: QueueType::SDMA, ..prepare(&mut machine, BOB) };
    assert_eq!(machine.run(BOB, other).errno(), Some(Errno::ENOMEM));
    let by_engine = CreateQueueArgs { queue_type: QueueType::SDMA_BY_ENG_ID, sdma_engine_id: 1, ..other };
    assert_eq!(machine.run(BOB, by_engine).errno(), Some(Errno::ENOMEM));
    // The second queue of all is the first one of the second engine.
    machine.run(ALICE, DestroyQueueArgs { queue_id: 1, pad: 0 }).ok();
    let chosen = machine.run(BOB, by_engine);
    assert_eq!(chosen.args.doorbell_offset, slice(&machine) + (0x100 + 10) * 8);
    chosen.ok();
    let xgmi = machine.run(BOB, CreateQueueArgs { queue_type: QueueType::SDMA_XGMI, ..other });
    let [DeviceEffect::Queue(QueueChange::Create(spec)), _] = &xgmi.call.effects.device[..] else { panic!("{xgmi:?}") };
    assert_eq!(spec.kind, QueueKind::Sdma { engine: 2 });
    let chosen = CreateQueueArgs { queue_type: QueueType::SDMA_BY_ENG_ID, sdma_engine_id: 2, ..other };
    machine.run(BOB, chosen).ok();
    // In sysfs a queue on a chosen engine is one of that engine's kind.
    for (id, kind) in [(0, "1"), (1, "4"), (2, "4")] {
        let path = format!("/sys/class/kfd/kfd/proc/{}/queues/{id}/type", BOB.pid);
        assert_eq!(machine.driver.sysfs(&path), Some(sysfs::Node::File(kind.to_owned())));
    }
    machine.run(BOB, DestroyQueueArgs { queue_id: 2, pad: 0 }).ok();
    // The queue that could not be made left no trace.
    assert_eq!(machine.driver.process(BOB).unwrap().queues.keys().copied().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn queues_end_at_the_limits_of_process_and_gpu() {
    for (profile, most) in [("mi300x", 255), ("mi210", 127)] {
        let mut machine = Machine::new(profile);
        let args = prepare(&mut machine, ALICE);
        for _ in 0..most {
            machine.run(ALICE, args).ok();
        }
        assert_eq!(machine.run(ALICE, args).errno(), Some(Errno::ENOSPC), "{profile}");
        let other = prepare(&mut machine, BOB);
        machine.run(BOB, other).ok();
    }
}

#[test]
fn a_process_has_1024_queue_ids_on_all_gpus_together() {
    let mut profile = Profile::load("mi300x-cpx").unwrap();
    profile.gpus = 5;
    let mut machine = Machine::with(profile);
    let args = prepare(&mut machine, ALICE);
    let ids: Vec<u32> = (0..5).map(|gpu| machine.gpu_id(gpu)).collect();
    let handles: Vec<u64> =
        machine.driver.process(ALICE).unwrap().gpus[0].mappings.values().map(|m| m.of.handle()).collect();
    for handle in handles {
        machine.map(ALICE, handle, &ids).ok();
    }
    for queue in 0..1024 {
        machine.run(ALICE, CreateQueueArgs { gpu_id: ids[queue % 5], ..args }).ok();
    }
    assert_eq!(machine.run(ALICE, args).errno(), Some(Errno::ENOMEM));
}

#[test]
fn an_update_changes_every_setting() {
    let mut machine = Machine::new("mi300x");
    let args = prepare(&mut machine, ALICE);
    let queue_id = machine.run(ALICE, args).ok().queue_id;
    let fine = UpdateQueueArgs {
        ring_base_address: RING,
        ring_size: 0x10000,
        queue_id,
        queue_percentage: 0,
        queue_priority: 3,
    };
    let off = machine.run(ALICE, fine);
    let [DeviceEffect::Queue(QueueChange::Update { id, settings }), ref cycle] = off.call.effects.device[..] else {
        panic!("{off:?}")
    };
    assert_eq!(*cycle, cycled(0, Cause::UpdateQueue));
    assert_eq!((id, settings.active, settings.priority, settings.ring), (queue_id, false, 3, RING));
    for (broken, errno) in [
        (UpdateQueueArgs { queue_percentage: 101, ..fine }, Errno::EINVAL),
        (UpdateQueueArgs { queue_priority: 16, ..fine }, Errno::EINVAL),
        (UpdateQueueArgs { ring_size: 5000, ..fine }, Errno::EINVAL),
        (UpdateQueueArgs { ring_base_address: 1 << 60, ..fine }, Errno::EFAULT),
        (UpdateQueueArgs { queue_id: 9, ..fine }, Errno::EFAULT),
        (UpdateQueueArgs { ring_size: 0x8000, ..fine }, Errno::EFAULT),
        (UpdateQueueArgs { ring_base_address: RING + PAGE, ..fine }, Errno::EFAULT),
    ] {
        assert_eq!(machine.run(ALICE, broken).errno(), Some(errno), "{broken:?}");
    }
    assert_eq!(machine.run(ALICE, UpdateQueueArgs { ring_size: 0, queue_id: 9, ..fine }).args.ring_size, 1024);
    let target = machine.run(ALICE, UpdateQueueArgs { queue_percentage: 3 << 8 | 100, ..fine });
    assert!(matches!(
        target.call.effects.device[..],
        [
            DeviceEffect::Queue(QueueChange::Update {
                settings: QueueSettings { percent: 100, target_xcc: 3, active: true, .. },
                ..
            }),
            _
        ]
    ));
    let none = machine.run(ALICE, UpdateQueueArgs { ring_base_address: 0, queue_percentage: 100, ..fine });
    assert!(matches!(
        none.call.effects.device[..],
        [DeviceEffect::Queue(QueueChange::Update { settings: QueueSettings { active: false, .. }, .. }), _]
    ));
}

#[test]
fn buffers_stay_while_a_queue_needs_them() {
    let mut machine = Machine::new("mi300x");
    let args = prepare(&mut machine, ALICE);
    let gpu_id = machine.gpu_id(0);
    let other_ring = BASE + 0x30_0000;
    let handle_at =
        |machine: &Machine, va: u64| machine.driver.process(ALICE).unwrap().gpus[0].mappings[&va].of.handle();
    machine.mapped(ALICE, other_ring, 0x10000, AllocFlags::GTT | RW);
    let queue_id = machine.run(ALICE, args).ok().queue_id;
    for va in [RING, POINTERS, EOP, SAVE] {
        let handle = handle_at(&machine, va);
        assert_eq!(machine.unmap(ALICE, handle, &[gpu_id]).errno(), Some(Errno::EBUSY), "{va:#x}");
    }
    // With another ring the old one is free.
    let update = UpdateQueueArgs {
        ring_base_address: other_ring,
        ring_size: 0x10000,
        queue_id,
        queue_percentage: 100,
        queue_priority: 7,
    };
    machine.run(ALICE, update).ok();
    let (old, new) = (handle_at(&machine, RING), handle_at(&machine, other_ring));
    assert_eq!(machine.unmap(ALICE, new, &[gpu_id]).errno(), Some(Errno::EBUSY));
    machine.unmap(ALICE, old, &[gpu_id]).ok();
    machine.run(ALICE, DestroyQueueArgs { queue_id, pad: 0 }).ok();
    for va in [other_ring, POINTERS, EOP, SAVE] {
        let handle = handle_at(&machine, va);
        machine.unmap(ALICE, handle, &[gpu_id]).ok();
    }
}

#[test]
fn masks_wave_state_and_wave_sync_have_their_rules() {
    let mut machine = Machine::new("mi300x");
    let args = prepare(&mut machine, ALICE);
    let queue_id = machine.run(ALICE, args).ok().queue_id;
    let sdma = machine.run(ALICE, CreateQueueArgs { queue_type: QueueType::SDMA, queue_percentage: 0, ..args });
    let sdma = sdma.ok().queue_id;

    let mask = |machine: &mut Machine, queue_id, num_cu_mask, words: &[u32]| {
        machine.run_with(ALICE, SetCuMaskArgs { queue_id, num_cu_mask, cu_mask_ptr: 1 }, words)
    };
    let effect = DeviceEffect::from(QueueChange::SetCuMask { id: queue_id, mask: vec![5, 6] });
    assert_eq!(mask(&mut machine, queue_id, 64, &[5, 6]).call.effects.device, [effect, cycled(0, Cause::CuMask)]);
    assert_eq!(mask(&mut machine, queue_id, 4096, &[1; 32]).errno(), None);
    assert_eq!(mask(&mut machine, queue_id, 0, &[]).errno(), Some(Errno::EINVAL));
    assert_eq!(mask(&mut machine, queue_id, 33, &[0, 0]).errno(), Some(Errno::EINVAL));
    assert_eq!(mask(&mut machine, queue_id, 64, &[0]).errno(), Some(Errno::EFAULT));
    assert_eq!(mask(&mut machine, 9, 32, &[1]).errno(), Some(Errno::EFAULT));

    let state = |machine: &mut Machine, queue_id| {
        machine.run(ALICE, GetQueueWaveStateArgs { queue_id, ctl_stack_address: SAVE, ..GetQueueWaveStateArgs::ZERO })
    };
    assert_eq!(state(&mut machine, queue_id).errno(), Some(Errno::EINVAL));
    assert_eq!(state(&mut machine, sdma).errno(), Some(Errno::EINVAL));
    assert_eq!(state(&mut machine, 9).errno(), Some(Errno::EFAULT));
    let off = UpdateQueueArgs { queue_id, ring_base_address: RING, ring_size: 0x10000, ..UpdateQueueArgs::ZERO };
    machine.run(ALICE, off).ok();
    let effect = DeviceEffect::from(FollowUp::ReadWaveState { id: queue_id, address: SAVE });
    assert_eq!(state(&mut machine, queue_id).call.effects.device, [effect]);
}

#[test]
fn a_gpu_has_4096_queues_of_all_processes_together() {
    let mut machine = Machine::new("mi300x");
    let mut made = 0;
    for pid in 1000.. {
        let process = ProcessKey::new(pid, 1);
        machine.driver.open(process).unwrap();
        machine.acquire(process, 0).ok();
        let args = prepare(&mut machine, process);
        for _ in 0..255 {
            let answer = machine.run(process, args);
            if made == 4096 {
                assert_eq!(answer.errno(), Some(Errno::EPERM));
                return;
            }
            // The id of a queue that is refused is free again.
            assert_eq!(answer.ok().queue_id, made % 255);
            made += 1;
        }
    }
}

/// What tinygrad does with every gfx942 gpu, its sizes computed from sysfs with its own formulas.
#[test]
fn the_queues_of_tinygrad_are_accepted() {
    for (name, cus) in [("mi300x", 16), ("mi300x", 304), ("mi300x-cpx", 38), ("mi308x", 80), ("mi308x", 8)] {
        let mut profile = Profile::load(name).unwrap().with_cus(cus).unwrap();
        profile.vram_mib = 4096;
        let xccs = u64::from(profile.xcc);
        let mut machine = Machine::with(profile);
        let Some(sysfs::Node::File(text)) =
            machine.driver.sysfs("/sys/devices/virtual/kfd/kfd/topology/nodes/1/properties")
        else {
            panic!("no properties");
        };
        let get = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap().parse().unwrap()
        };
        let engines = get("array_count") / get("simd_arrays_per_engine") / xccs;
        let cus = get("simd_count") / get("simd_per_cu") / xccs;
        let waves = (cus * 40).min(engines * xccs * 512);
        let data = (cus * 0x9_5000).next_multiple_of(PAGE);
        let ctl_stack = (8 * waves + 8 + 40).next_multiple_of(PAGE);
        let debug = (waves * 32).next_multiple_of(64);
        let gtt = AllocFlags::GTT | RW | AllocFlags::UNCACHED | AllocFlags::COHERENT;
        machine.mapped(ALICE, RING, 16 << 20, gtt | AllocFlags::PUBLIC);
        machine.mapped(ALICE, BASE + (32 << 20), 0x100, gtt);
        machine.mapped(ALICE, BASE + (33 << 20), PAGE, AllocFlags::VRAM | RW);
        machine.mapped(ALICE, SAVE, (data + ctl_stack + debug) * xccs, AllocFlags::VRAM | RW);
        let compute = CreateQueueArgs {
            ring_base_address: RING,
            ring_size: 16 << 20,
            gpu_id: machine.gpu_id(0),
            queue_type: QueueType::COMPUTE_AQL,
            queue_percentage: 100,
            queue_priority: 7,
            eop_buffer_address: BASE + (33 << 20),
            eop_buffer_size: PAGE,
            ctx_save_restore_address: SAVE,
            ctx_save_restore_size: (data + ctl_stack) as u32,
            ctl_stack_size: ctl_stack as u32,
            write_pointer_address: BASE + (32 << 20) + 0x38,
            read_pointer_address: BASE + (32 << 20) + 0x80,
            ..CreateQueueArgs::ZERO
        };
        assert_eq!(machine.run(ALICE, compute).errno(), None, "{name} {cus}");
        let copy = CreateQueueArgs {
            queue_type: QueueType::SDMA,
            eop_buffer_address: 0,
            eop_buffer_size: 0,
            ctx_save_restore_address: 0,
            ctx_save_restore_size: 0,
            ctl_stack_size: 0,
            ..compute
        };
        assert_eq!(machine.run(ALICE, copy).errno(), None, "{name} {cus}");
    }
}

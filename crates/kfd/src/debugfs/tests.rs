use std::fmt::Write;

use proptest::prelude::*;

use super::*;

/// A dump of words in the driver's form.
fn dump(text: &mut String, words: &[u32]) {
    for (at, row) in words.chunks(8).enumerate() {
        write!(text, "    {:08x}:", at * 32).unwrap();
        row.iter().for_each(|word| write!(text, " {word:08x}").unwrap());
        text.push('\n');
    }
}

fn compute(xcc: u32) -> Vec<u32> {
    let mut words = vec![0; mqd::SIZE / 4];
    let values = [
        (mqd::ACTIVE, 1),
        (mqd::PIPE_PRIORITY, 2),
        (mqd::PQ_BASE, 0x41B5_2000),
        (mqd::PQ_BASE + 4, 0x7F),
        (mqd::PQ_RPTR_REPORT_ADDR, 0xC157_6080),
        (mqd::PQ_RPTR_REPORT_ADDR + 4, 0x7F61),
        (mqd::PQ_WPTR_POLL_ADDR, 0xC157_6038),
        (mqd::PQ_WPTR_POLL_ADDR + 4, 0x7F61),
        (mqd::CTX_SAVE_BASE_ADDR, 0xA400_0000 + xcc * 0x1000),
        (mqd::CTX_SAVE_BASE_ADDR + 4, 0x7F41),
        (mqd::CTX_SAVE_SIZE, 0x1000),
        (mqd::PQ_CONTROL, 0x1401_C511),
        (mqd::AQL_CONTROL, 1),
    ];
    values.iter().for_each(|(offset, value)| words[offset / 4] = *value);
    words
}

fn sdma() -> Vec<u32> {
    let mut words = vec![0; mqd::SDMA_SIZE / 4];
    words[mqd::sdma::RB_BASE / 4] = 0x1234;
    words[mqd::sdma::RB_RPTR_ADDR_HI / 4] = 0x7F00;
    words[mqd::sdma::RB_RPTR_ADDR_LO / 4] = 0x80;
    words
}

#[test]
fn queues_are_read_from_both_forms_of_the_text() {
    let mut text = "Process 17 PASID 0x8001:\n  Compute queue on device f7bc\n".to_owned();
    dump(&mut text, &compute(0));
    dump(&mut text, &compute(1));
    // The driver shows the next slots too.
    text.push_str("  SDMA queue on device f7bc\n");
    dump(&mut text, &sdma());
    dump(&mut text, &[7; mqd::SDMA_SIZE / 4]);
    text.push_str("Process 18 PASID 32769:\n  DIQ on device f7bc\n");
    dump(&mut text, &compute(0));

    let processes = parse_queues(&text);
    assert!(processes.iter().map(|process| process.pid).eq([17, 18]));
    assert!(processes[1].queues.is_empty());
    let [queue, copies] = &processes[0].queues[..] else { panic!("{processes:?}") };
    assert_eq!((queue.kind, queue.gpu_id, queue.descriptors.len()), (MqdKind::Compute, 0xF7BC, 2));
    assert_eq!(
        (queue.ring(), queue.pipe_priority(), queue.is_active()),
        (Some(0x7F41_B520_0000), Some(PipePriority::HIGH), Some(true))
    );
    assert_eq!(queue.rptr_address(), Some(0x7F61_C157_6080));
    assert_eq!(queue.wptr_address(), Some(0x7F61_C157_6038));
    assert_eq!(queue.save_area(1), Some((0x7F41_A400_1000, 0x1000)));
    assert_eq!(queue.save_area(2), None);
    assert_eq!((queue.ring_bytes(), queue.is_aql()), (Some(1 << 20), Some(true)));
    assert_eq!((copies.ring_bytes(), copies.is_aql()), (None, None));
    assert_eq!((copies.kind, copies.descriptors.len()), (MqdKind::Sdma, 1));
    assert_eq!((copies.ring(), copies.rptr_address()), (Some(0x12_3400), Some(0x7F00_0000_0080)));
    assert_eq!((copies.wptr_address(), copies.pipe_priority(), copies.is_active()), (None, None, None));
}

#[test]
fn incomplete_descriptors_are_left_out() {
    let mut text = "Process 17 PASID 1:\n  Compute queue on device 1\n".to_owned();
    dump(&mut text, &compute(0));
    let cut: Vec<&str> = text.lines().collect();
    for missing in 2..cut.len() {
        let mut lines = cut.clone();
        lines.remove(missing);
        let processes = parse_queues(&lines.join("\n"));
        assert!(processes[0].queues[0].descriptors.is_empty(), "without line {missing}");
        assert_eq!(processes[0].queues[0].ring(), None);
    }
}

#[test]
fn slots_are_read() {
    let text = "Node 2, gpu_id f7bc:\n   Inst 0, HIQ on MEC 2 Pipe 0 Queue 0\n    0000c914: 006e3000 00000000 00000001\n \
                Inst 1,  CP Pipe 3, Queue 7\n    000cc914: 017ba000 00000000 00000000 00000303\n  SDMA Engine 4, RLC 5\n    \
                00004e40: 00040000\n    00004ee0: 00000001\n";
    let [node] = &parse_slots(text)[..] else { panic!() };
    assert_eq!((node.node, node.gpu_id), (2, 0xF7BC));
    let places: Vec<HqdPlace> = node.slots.iter().map(|slot| slot.place).collect();
    let expected = [
        HqdPlace::Driver { xcc: 0 },
        HqdPlace::Compute { xcc: 1, pipe: 3, queue: 7 },
        HqdPlace::Sdma { engine: 4, queue: 5 },
    ];
    assert_eq!(places, expected);
    assert_eq!(node.slots.iter().map(HqdSlot::is_active).collect::<Vec<_>>(), [Some(true), Some(false), None]);
    assert_eq!(node.slots[1].register(mqd::VMID), Some(0x303));
    assert_eq!(node.slots[2].registers, [(0x4E40, 0x4_0000), (0x4EE0, 1)]);
}

/// The text of a real MI308X, if `GPREEMPT_FIXTURES` names the directory it is in.
#[test]
fn a_real_gpu_can_be_read() {
    let Some(fixtures) = std::env::var_os("GPREEMPT_FIXTURES") else {
        eprintln!("skipped: GPREEMPT_FIXTURES is not set");
        return;
    };
    let read = |name: &str| std::fs::read_to_string(Path::new(&fixtures).join("mi308x").join(name)).unwrap();
    let processes = parse_queues(&read("debugfs-kfd-mqds.txt"));
    let [process] = &processes[..] else { panic!("{} processes", processes.len()) };
    assert_eq!((process.pid, process.queues.len()), (94314, 5));
    for queue in &process.queues {
        assert_eq!((queue.kind, queue.gpu_id, queue.descriptors.len()), (MqdKind::Compute, 0xF7BC, 4));
        assert_eq!((queue.pipe_priority(), queue.is_active()), (Some(PipePriority::MEDIUM), Some(true)));
        // ROCr's queue structure begins a page.
        let indices = (queue.rptr_address().unwrap(), queue.wptr_address().unwrap());
        assert_eq!((indices.0 % 4096, indices.1 % 4096), (0x80, 0x38));
        assert_eq!(queue.is_aql(), Some(true));
        assert!([1 << 20, 1 << 12].map(Some).contains(&queue.ring_bytes()));
        let [first, second] = [0, 1].map(|xcc| queue.save_area(xcc).unwrap());
        assert_eq!(first.0 + u64::from(first.1), second.0);
    }
    let nodes = parse_slots(&read("debugfs-kfd-hqds.txt"));
    assert_eq!(nodes.len(), 8);
    for node in &nodes {
        assert_eq!(node.slots.len(), 4 * (1 + 24) + 8 * 8);
        let compute = |slot: &&HqdSlot| matches!(slot.place, HqdPlace::Compute { .. });
        assert!(node.slots.iter().filter(compute).all(|slot| slot.registers.len() == 56));
    }
    // Every queue has a slot on each XCC.
    let rings = |node: &HqdNode, wanted: u64| {
        let ring = |slot: &HqdSlot| {
            Some(u64::from(slot.register(mqd::PQ_BASE)?) | u64::from(slot.register(mqd::PQ_BASE + 4)?) << 32)
        };
        node.slots.iter().filter(|slot| slot.is_active() == Some(true) && ring(slot) == Some(wanted >> 8)).count()
    };
    assert!(process.queues.iter().all(|queue| rings(&nodes[0], queue.ring().unwrap()) == 4));
}

/// Text made of the parts that real text has, in any order.
fn almost() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("Process 1 PASID 0x1:\n".to_owned()),
        Just("  Compute queue on device 1\n".to_owned()),
        Just("  SDMA queue on device 1\n".to_owned()),
        Just("Node 1, gpu_id 1:\n".to_owned()),
        Just(" Inst 0,  CP Pipe 0, Queue 2\n".to_owned()),
        Just("  SDMA Engine 1, RLC 1\n".to_owned()),
        (0..80_u32).prop_map(|row| format!("    {:08x}: 00000001 00000002\n", row * 32)),
        Just("    00000000: 00000001 00000002 00000003 00000004 00000005 00000006 00000007 00000008\n".to_owned()),
        "\\PC{0,40}\n",
        any::<String>(),
    ];
    prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in almost()) {
        for queue in parse_queues(&text).iter().flat_map(|process| &process.queues) {
            prop_assert!(queue.descriptors.iter().all(|descriptor| descriptor.word(mqd::SDMA_SIZE - 4).is_some()));
            let _ = (queue.ring(), queue.rptr_address(), queue.wptr_address(), queue.save_area(0), queue.ring_bytes());
        }
        for slot in parse_slots(&text).iter().flat_map(|node| &node.slots) {
            let _ = (slot.is_active(), slot.register(usize::MAX));
        }
    }

    #[test]
    fn every_descriptor_is_read_back(words in prop::collection::vec(any::<u32>(), mqd::SIZE / 4), xccs in 1..5_usize) {
        let mut text = "Process 1 PASID 0x1:\n  Compute queue on device 2\n".to_owned();
        (0..xccs).for_each(|_| dump(&mut text, &words));
        let processes = parse_queues(&text);
        let descriptors = &processes[0].queues[0].descriptors;
        prop_assert_eq!(descriptors.len(), xccs);
        for descriptor in descriptors {
            let read: Vec<u32> = (0..words.len()).map(|at| descriptor.word(at * 4).unwrap()).collect();
            prop_assert_eq!(&read, &words);
        }
    }
}

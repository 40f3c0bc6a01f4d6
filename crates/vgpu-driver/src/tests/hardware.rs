//! Descriptors, slots and files that show them. Words that are compared with were read from an MI308X whose process had
//! five AQL queues: four that never had a packet, and the oldest one that had had one.

use kfd_abi::mqd;
use kfd_abi::queue::{CreateQueueArgs, QueueType, SetCuMaskArgs};

use super::queues::prepare;
use super::*;
use crate::sysfs::Node;

const RING: u64 = 0x7F41_B520_0000;
const INDICES: u64 = 0x7F61_C157_6000;
const SAVE: u64 = 0x7F41_A400_0000;

/// The nonzero words of the newest queue's descriptor on the second XCC, without its address at 0x200.
const NEW_QUEUE: &[(usize, u32)] = &[
    (0x000, 0xC031_0800),
    (0x02C, 0x0000_0001),
    (0x050, 0x0000_0040),
    (0x05C, 0xFFFF_FFFF),
    (0x060, 0xFFFF_FFFF),
    (0x068, 0xFFFF_FFFF),
    (0x06C, 0xFFFF_FFFF),
    (0x09C, 0x0000_0001),
    (0x0A0, 0xFFFF_FFFF),
    (0x0A4, 0x0000_0001),
    (0x0A8, 0xFFFF_FFFF),
    (0x208, 0x0000_0001),
    (0x210, 0x4000_5301),
    (0x214, 0x0000_0001),
    (0x218, 0x0000_0007),
    (0x21C, 0x0000_0111),
    (0x220, 0x41B5_2000),
    (0x224, 0x0000_007F),
    (0x22C, 0xC157_6080),
    (0x230, 0x0000_7F61),
    (0x234, 0xC157_6038),
    (0x238, 0x0000_7F61),
    (0x23C, 0x0000_4022),
    (0x244, 0x1C01_4511),
    (0x254, 0x00B0_0000),
    (0x280, 0x0000_4000),
    (0x288, 0x0000_0100),
    (0x2AC, 0xA4BA_6000),
    (0x2B0, 0x0000_7F41),
    (0x2B8, 0x0000_2000),
    (0x2BC, 0x0000_2000),
    (0x2C0, 0x0000_2000),
    (0x2C4, 0x00BA_6000),
    (0x2D4, 0x0000_0001),
    (0x388, 0x0000_3000),
];
/// What differs in a queue that was taken off once: the address space, and the marks of the hardware.
const TAKEN_OFF: &[(usize, u32)] = &[
    (0x20C, 0x0000_0303),
    (0x23C, 0x6000_4022),
    (0x244, 0x1C01_C511),
    (0x280, 0x4000_4000),
    (0x2A0, 0x4000_0000),
    (0x2A4, 0x007F_8000),
];

/// The machine those words are from, with that process's five queues. Answers the newest.
fn mi308x() -> (Machine, u32) {
    let mut profile = Profile::load("mi308x").unwrap();
    profile.cus = 80;
    let mut machine = Machine::with(profile);
    let size = machine.driver.profile().save_area().unwrap();
    for (va, size) in [(RING, 1 << 20), (INDICES, PAGE), (SAVE, size.total)] {
        machine.mapped(ALICE, va, size, AllocFlags::GTT | RW);
    }
    let args = CreateQueueArgs {
        ring_base_address: RING,
        ring_size: 1 << 20,
        write_pointer_address: INDICES + 0x38,
        read_pointer_address: INDICES + 0x80,
        gpu_id: machine.gpu_id(0),
        queue_type: QueueType::COMPUTE_AQL,
        queue_percentage: 100,
        queue_priority: 7,
        ctx_save_restore_address: SAVE,
        ctx_save_restore_size: size.cwsr,
        ctl_stack_size: size.ctl_stack,
        ..CreateQueueArgs::ZERO
    };
    let mut newest = 0;
    for _ in 0..5 {
        newest = machine.run(ALICE, args).ok().queue_id;
    }
    (machine, newest)
}

fn map_all(machine: &mut Machine, connected: Connected) {
    for mapped in machine.driver.runlist(0).groups.concat() {
        for queue in mapped.queues {
            machine.driver.mapped(mapped.process, queue.id, queue.place, connected);
        }
    }
}

/// The words of a queue's descriptor on an XCC.
pub(super) fn words(machine: &Machine, queue: u32, xcc: usize) -> Vec<u32> {
    let process = &machine.driver.processes[&ALICE];
    let descriptors = machine.driver.descriptors(process, &process.queues[&queue]);
    let bytes = descriptors[xcc].bytes();
    (0..bytes.len()).step_by(4).map(|offset| mqd::word(bytes, offset).unwrap()).collect()
}

fn nonzero(words: &[u32]) -> BTreeMap<usize, u32> {
    let mut nonzero: BTreeMap<usize, u32> =
        words.iter().enumerate().filter(|(_, word)| **word != 0).map(|(at, word)| (at * 4, *word)).collect();
    nonzero.remove(&mqd::MQD_BASE);
    nonzero
}

fn text(driver: &Driver, path: &str, observed: &dyn Observed) -> String {
    match driver.sysfs_observed(path, observed) {
        Some(Node::File(text)) => text,
        other => panic!("{path}: {other:?}"),
    }
}

fn debug_text(machine: &Machine, name: &str) -> String {
    text(&machine.driver, &format!("/sys/kernel/debug/kfd/{name}"), &Unobserved)
}

/// The lines that follow a heading, as one text.
fn under<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| line.starts_with("    ")).collect()
}

#[test]
fn a_new_queue_has_the_descriptor_of_an_mi308x() {
    let (mut machine, newest) = mi308x();
    map_all(&mut machine, Connected::default());
    assert_eq!(nonzero(&words(&machine, newest, 1)), NEW_QUEUE.iter().copied().collect());
    // The first XCC reports how far all have come; each has its own part of the save area.
    let first = words(&machine, newest, 0);
    assert_eq!((first[0x9C / 4], first[0x244 / 4], first[0x2AC / 4]), (0, 0x1401_4511, 0xA400_0000));
    let addresses: Vec<u32> = (0..4).map(|xcc| words(&machine, newest, xcc)[0x200 / 4]).collect();
    assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] == 0x3000));
}

#[test]
fn a_queue_that_was_taken_off_shows_the_marks_of_an_mi308x() {
    let (mut machine, newest) = mi308x();
    map_all(&mut machine, Connected::default());
    let unmapped = UnmappedQueue { id: newest, ..UnmappedQueue::default() };
    machine.driver.unmapped(ALICE, &unmapped, Span::default());
    assert_eq!((words(&machine, newest, 0)[0x208 / 4], machine.driver.place(ALICE, newest)), (0, None));
    map_all(&mut machine, Connected::default());
    let mut expected: BTreeMap<usize, u32> = NEW_QUEUE.iter().copied().collect();
    expected.extend(TAKEN_OFF.iter().copied());
    assert_eq!(nonzero(&words(&machine, newest, 1)), expected);
}

#[test]
fn what_was_saved_is_in_the_descriptor_of_its_xcc() {
    let (mut machine, newest) = mi308x();
    map_all(&mut machine, Connected::default());
    let saved = SaveExtent { control_stack: 0x80, wave_state: 0x3000, ..SaveExtent::default() };
    let save = Span { start: 0x1_0000_0001, end: 0x1_0000_0100 };
    let (rptr, wptr) = (Some(1 << 14), Some((1 << 28) + 3));
    machine.driver.unmapped(ALICE, &UnmappedQueue { id: newest, rptr, wptr, saved, written: true, idle: false }, save);
    let first = words(&machine, newest, 0);
    let at = |offset: usize| first[offset / 4];
    assert_eq!((at(mqd::CNTL_STACK_OFFSET), at(mqd::WG_STATE_OFFSET)), (0x1F80, 0x5000));
    assert_eq!((at(mqd::SAVE_START_TIME), at(mqd::SAVE_START_TIME + 4), at(mqd::SAVE_END_TIME)), (1, 1, 0x100));
    // 64-byte packets in words; reads are counted modulo the ring, writes are not.
    assert_eq!((at(mqd::PQ_RPTR), at(mqd::PQ_WPTR), at(mqd::PQ_WPTR + 4)), (0, 0x30, 1));
    assert_eq!(at(mqd::PQ_CONTROL) >> 15 & 1, 0, "the ring is not empty");
    let second = words(&machine, newest, 1);
    assert_eq!((second[mqd::CNTL_STACK_OFFSET / 4], second[mqd::SAVE_START_TIME / 4]), (0x2000, 0));

    let restore = Some(Span { start: 0x200, end: 0x300 });
    let connect = Span { start: 0x1F0, end: 0x310 };
    map_all(&mut machine, Connected { connect, restore, waves: 5, ..Connected::default() });
    let first = words(&machine, newest, 0);
    let at = |offset: usize| first[offset / 4];
    assert_eq!((at(mqd::RESTORE_START_TIME), at(mqd::RESTORE_END_TIME)), (0x200, 0x300));
    assert_eq!((at(mqd::CONNECT_START_TIME), at(mqd::CONNECT_END_TIME)), (0x1F0, 0x310));
    assert_eq!((at(mqd::CONNECT_END_WAVE_COUNT), at(mqd::CONNECT_END_WPTR)), (5, 0x30));
}

/// A device on which the read index of every queue is 1 and the write index 5, and which has waves and copies.
struct Busy;

impl Observed for Busy {
    fn read(&self, _: ProcessKey, address: u64) -> Option<u64> {
        Some(if address % PAGE == 0x80 { 1 } else { 5 })
    }

    fn waves(&self, _: ProcessKey, gpu: u32) -> u32 {
        225 + gpu
    }

    fn sdma_us(&self, _: ProcessKey, gpu: u32) -> u64 {
        1234 + u64::from(gpu)
    }
}

#[test]
fn slots_are_shown_as_on_an_mi308x() {
    let (mut machine, _) = mi308x();
    map_all(&mut machine, Connected::default());
    let hqds = debug_text(&machine, "hqds");
    assert_eq!(hqds.lines().next(), Some(&*format!("Node 1, gpu_id {:x}:", machine.gpu_id(0))));
    assert_eq!(hqds.matches(",  CP Pipe ").count(), 4 * 24);
    assert_eq!(hqds.matches("HIQ on MEC 2 Pipe 0 Queue 0\n").count(), 4);
    assert_eq!(hqds.matches("  SDMA Engine ").count(), 8 * 8);
    assert_eq!(
        under(&hqds, " Inst 2,  CP Pipe 0, Queue 4"),
        [
            "    0010c914: 00000000 00000000 00000000 00000000 0be05301 00000000 00000000 00000000",
            "    0010c934: 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000",
            "    0010c954: 00000000 00308509 00000000 00000000 00000000 00300000 00000000 00000000",
            "    0010c974: 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000",
            "    0010c994: 40000000 00000000 00000100 00000000 00000000 00000000 00000000 00000006",
            "    0010c9b4: 40000000 007f8000 00000000 00000000 00000000 00000000 00000000 00000000",
            "    0010c9d4: 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000",
        ]
    );
    assert_eq!(
        under(&hqds, "  SDMA Engine 2, RLC 1"),
        [
            "    000e5620: 00040000 00000000 00000000 00000000 00000000 00000000 00000000 00403000",
            "    000e5640: 00000000 00000001 00000100 00000000 00000000 00000000 00000000 00000000",
            "    000e5660: 00000000 00000004 00000000",
            "    000e56c0: 00000000 00000000 00000000 00000000 00000000 00000000",
            "    000e56dc: 00000000 00000000 0000000f 00000000 00000000 00004000 00000000",
            "    000e5720: 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000",
            "    000e5740: 00000000 00000000 00000000 00000000",
        ]
    );
    // The newest queue is in the first slot.
    let newest = under(&hqds, " Inst 1,  CP Pipe 0, Queue 2");
    assert!(newest[0].starts_with("    000cc914: "));
    assert_eq!(
        newest[1..3],
        [
            "    000cc934: 41b52000 0000007f 00000000 c1576080 00007f61 c1576038 00007f61 60004022",
            "    000cc954: 00000000 1c01c511 00000000 00000000 00000000 00b00000 00000000 00000000",
        ]
    );
    // Indices are those of this moment if the device can tell.
    let busy = text(&machine.driver, "/sys/kernel/debug/kfd/hqds", &Busy);
    let newest = under(&busy, " Inst 1,  CP Pipe 0, Queue 2");
    assert_eq!(newest[1].split_whitespace().nth(3), Some("00000010"));
    assert!(newest[6].ends_with(" 00000050 00000000"));
}

#[test]
fn descriptors_are_listed_newest_first() {
    let mut machine = Machine::new("mi308x");
    let compute = prepare(&mut machine, ALICE);
    let sdma = CreateQueueArgs { queue_type: QueueType::SDMA, ..compute };
    let gpu_id = machine.gpu_id(0);
    for args in [sdma, compute, sdma] {
        machine.run(ALICE, args).ok();
    }
    let mqds = debug_text(&machine, "mqds");
    let headings: Vec<&str> = mqds.lines().filter(|line| !line.starts_with("    ")).collect();
    let (a, b) = (format!("  SDMA queue on device {gpu_id:x}"), format!("  Compute queue on device {gpu_id:x}"));
    assert_eq!(headings, ["Process 100 PASID 0x8000:", &a, &b, &a, "Process 200 PASID 0x8001:"]);
    // One descriptor of 512 bytes; four of 2048; and after a compute queue the driver shows four for a copy queue too.
    let parts: Vec<usize> =
        mqds.split("queue on device").skip(1).map(|part| part.matches("    0000").count()).collect();
    assert_eq!(parts, [16, 4 * 64, 4 * 16]);
    let slot = "    000001e0: 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000000";
    assert_eq!(under(&mqds, &a)[15], slot, "the second queue is on engine 1");
    assert_eq!(mqds.lines().filter(|line| *line == slot).count(), 1);
}

#[test]
fn the_runlist_is_dumped_if_there_is_one() {
    let mut machine = Machine::new("mi300x");
    let gpu_id = machine.gpu_id(0);
    assert_eq!(debug_text(&machine, "rls"), format!("Node 1, gpu_id {gpu_id:x}:\n  No active runlist\n"));
    let args = prepare(&mut machine, ALICE);
    machine.run(ALICE, args).ok();
    let rls = debug_text(&machine, "rls");
    assert!(rls.lines().nth(1).unwrap().starts_with("  00000000: c013a100 14008000 "), "{rls}");
    // 84 and 28 bytes: three full lines and four words.
    assert_eq!(
        rls.lines().map(|line| line.split(": ").nth(1).map_or(0, str::len)).collect::<Vec<_>>(),
        [0, 71, 71, 71, 35]
    );
}

#[test]
fn the_debug_directory_is_complete() {
    let machine = Machine::new("mi300x");
    let Some(Node::Dir(entries)) = machine.driver.sysfs("/sys/kernel/debug/kfd") else { panic!() };
    for entry in &entries {
        assert!(matches!(machine.driver.sysfs(&format!("/sys/kernel/debug/kfd/{}", entry.name)), Some(Node::File(_))));
    }
    assert_eq!(entries.len(), 5);
    for path in ["/sys/kernel/debug/kfd2", "/sys/kernel/debug/kfd/", "/sys/kernel/debug/kfd/other"] {
        assert_eq!(machine.driver.sysfs(path), None, "{path}");
    }
    let limit = machine.driver.profile().gtt_mib;
    let line = format!("mem used 0M out of {limit}M\n");
    assert_eq!(debug_text(&machine, "mem_limit"), format!("System {line}TTM {line}"));
}

#[test]
fn a_mask_goes_round_xccs_then_engines() {
    let (mut machine, newest) = mi308x();
    let masks = |machine: &Machine, xcc| {
        let words = words(machine, newest, xcc);
        [0x5C, 0x60, 0x68, 0x6C].map(|offset| words[offset / 4])
    };
    let set = |machine: &mut Machine, mask: &[u32]| {
        let args = SetCuMaskArgs { queue_id: newest, num_cu_mask: mask.len() as u32 * 32, cu_mask_ptr: 1 };
        machine.run_with(ALICE, args, mask).ok();
    };
    // Bits 0 to 3 are the XCCs' first units of the first engine, bits 4 to 7 those of the second.
    set(&mut machine, &[0b1_0001_0010_0001]);
    assert_eq!([masks(&machine, 0), masks(&machine, 1)], [[1, 0, 1, 1], [0, 1, 0, 0]]);
    assert_eq!([masks(&machine, 2), masks(&machine, 3)], [[0; 4]; 2]);
    // Five units of each engine, however many bits there are.
    set(&mut machine, &[u32::MAX; 4]);
    assert_eq!(masks(&machine, 3), [0x1F; 4]);
    // The chunk size is not taken for a mask.
    assert_eq!(words(&machine, newest, 0)[0xA4 / 4], 1);
}

#[test]
fn use_of_the_gpu_is_what_the_device_tells() {
    let (mut machine, _) = mi308x();
    let gpu_id = machine.gpu_id(0);
    let file = |machine: &Machine, name: &str, observed: &dyn Observed| {
        text(
            &machine.driver,
            &format!("/sys/class/kfd/kfd/proc/100/{}", name.replace('@', &gpu_id.to_string())),
            observed,
        )
    };
    assert_eq!(file(&machine, "sdma_@", &Busy), "1234\n");
    // A compute unit has room for 32 waves.
    assert_eq!(file(&machine, "stats_@/cu_occupancy", &Busy), "8\n");
    assert_eq!(file(&machine, "stats_@/cu_occupancy", &Unobserved), "0\n");
    assert_eq!(file(&machine, "counters_@/faults", &Busy), "0\n");

    let evict = machine.driver.evict(ALICE, 0, 5_000_000);
    assert_eq!(evict, Some(DeviceEffect::Cycle { gpu: 0, cause: Cause::Evict, grace: None }));
    assert_eq!(machine.driver.evict(ALICE, 0, 6_000_000), None);
    assert!(machine.driver.runlist(0).groups.is_empty());
    assert_eq!(machine.driver.restore(ALICE, 0, 7_000_000), None);
    // It counts when it ends.
    assert_eq!(file(&machine, "stats_@/evicted_ms", &Unobserved), "0\n");
    let restore = machine.driver.restore(ALICE, 0, 12_500_000);
    assert_eq!(restore, Some(DeviceEffect::Cycle { gpu: 0, cause: Cause::Restore, grace: None }));
    assert_eq!(file(&machine, "stats_@/evicted_ms", &Unobserved), "7\n");
    assert_eq!(machine.driver.restore(ALICE, 0, 13_000_000), None);
}

use std::collections::{BTreeMap, BTreeSet};

use kfd_abi::queue::{CreateQueueArgs, DestroyQueueArgs, QueueType, UpdateQueueArgs};
use proptest::prelude::*;

use super::queues::prepare;
use super::*;

/// A process as a list of packets names it: its number, the queues it has, and of the active ones the descriptor and
/// the address of the write index.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    pasid: u32,
    queues: u32,
    active: Vec<(u64, u64)>,
}

/// Reads a list of packets as the headers of the packets define them. Answers the processes, and if the list goes back
/// to its start, how many of its words and of its processes that counts.
fn decode(packets: &[u8]) -> (Vec<Listed>, Option<(u32, u32)>) {
    let words: Vec<u32> = packets.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let (mut listed, mut chain, mut at) = (Vec::new(), None, 0);
    while at < words.len() {
        let header = words[at];
        assert_eq!((header >> 30, header & 0xFF), (3, 0), "type 3 at word {at}");
        let body = &words[at + 1..][..(header >> 16 & 0x3FFF) as usize + 1];
        let double = |word: usize| u64::from(body[word]) | u64::from(body[word + 1]) << 32;
        match header >> 8 & 0xFF {
            0xA1 => {
                assert_eq!((body.len(), body[0] >> 25), (20, 10));
                listed.push(Listed { pasid: body[0] & 0xFFFF, queues: body[12] >> 22, active: Vec::new() });
            }
            0xA2 => {
                assert_eq!((body.len(), body[0] >> 29, body[0] >> 4 & 3), (6, 1, 1));
                listed.last_mut().unwrap().active.push((double(2), double(4)));
            }
            0xA5 => {
                assert_eq!((body.len(), body[2] >> 20 & 0xF), (3, 0b1101));
                chain = Some((body[2] & 0xF_FFFF, body[2] >> 24 & 0xF));
            }
            other => panic!("no packet {other:#x}"),
        }
        at += body.len() + 1;
    }
    (listed, chain)
}

/// What a list must be, kept by the order of calls.
#[derive(Default)]
struct Model {
    /// Processes and their queues, oldest first, and whether each queue is on.
    order: Vec<(ProcessKey, Vec<(u32, bool)>)>,
    evicted: BTreeMap<ProcessKey, u32>,
}

impl Model {
    fn create(&mut self, key: ProcessKey, id: u32) {
        match self.order.iter_mut().find(|(known, _)| *known == key) {
            Some((_, queues)) => queues.push((id, true)),
            None => self.order.push((key, vec![(id, true)])),
        }
    }

    fn destroy(&mut self, key: ProcessKey, id: u32) {
        for (known, queues) in &mut self.order {
            queues.retain(|(queue, _)| *known != key || *queue != id);
        }
        self.order.retain(|(_, queues)| !queues.is_empty());
    }

    fn turn(&mut self, key: ProcessKey, id: u32, on: bool) {
        let of = self.order.iter_mut().filter(|(known, _)| *known == key).flat_map(|(_, queues)| queues);
        of.filter(|(queue, _)| *queue == id).for_each(|queue| queue.1 = on);
    }

    fn queue(&self, pick: usize) -> Option<(ProcessKey, u32)> {
        let all: Vec<_> =
            self.order.iter().flat_map(|(key, queues)| queues.iter().map(|queue| (*key, queue.0))).collect();
        all.get(pick.checked_rem(all.len())?).copied()
    }

    /// Newest first, with the active queues only.
    fn listed(&self) -> Vec<(ProcessKey, Vec<u32>)> {
        let evicted = |key: &ProcessKey| self.evicted.get(key).is_some_and(|count| *count > 0);
        let active = |(key, queues): &(ProcessKey, Vec<(u32, bool)>)| {
            let on = queues.iter().rev().filter(|queue| queue.1 && !evicted(key));
            (*key, on.map(|queue| queue.0).collect())
        };
        self.order.iter().rev().map(active).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create { process: usize, sdma: bool },
    CreateMany { process: usize, count: usize },
    Destroy { pick: usize },
    Turn { pick: usize, on: bool },
    Evict { process: usize },
    Restore { process: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..16_usize, prop::bool::weighted(0.2)).prop_map(|(process, sdma)| Step::Create { process, sdma }),
        1 => (0..16_usize, 1..40_usize).prop_map(|(process, count)| Step::CreateMany { process, count }),
        2 => any::<usize>().prop_map(|pick| Step::Destroy { pick }),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(pick, on)| Step::Turn { pick, on }),
        1 => (0..16_usize).prop_map(|process| Step::Evict { process }),
        1 => (0..16_usize).prop_map(|process| Step::Restore { process }),
    ];
    prop::collection::vec(step, 1..60)
}

/// Sixteen processes whose pids do not follow the order in which they come.
fn crowd(profile: &str) -> (Machine, Vec<(ProcessKey, CreateQueueArgs)>) {
    let mut machine = Machine { driver: Driver::new(Profile::load(profile).unwrap()) };
    let processes = (0..16_u32).map(|n| {
        let key = ProcessKey::new(100 + n * 7 % 16, n.into());
        machine.driver.open(key).unwrap();
        machine.acquire(key, 0).ok();
        let args = prepare(&mut machine, key);
        (key, args)
    });
    let processes = processes.collect();
    (machine, processes)
}

fn check(machine: &Machine, model: &Model) -> Result<(), TestCaseError> {
    let driver = &machine.driver;
    let runlist = driver.runlist(0);
    let is_sdma =
        |key: ProcessKey, id: u32| matches!(driver.processes[&key].queues[&id].spec.kind, QueueKind::Sdma { .. });
    let listed = model.listed();

    // All groups together are the list, in order.
    let mut together: Vec<(ProcessKey, Vec<u32>)> = Vec::new();
    for mapped in runlist.groups.iter().flatten() {
        let ids = mapped.queues.iter().map(|queue| queue.id);
        match together.last_mut() {
            Some((key, queues)) if *key == mapped.process => queues.extend(ids),
            _ => together.push((mapped.process, ids.collect())),
        }
    }
    let active: Vec<_> = listed.iter().filter(|(_, queues)| !queues.is_empty()).cloned().collect();
    prop_assert_eq!(&together, &active);

    // No group is more than the hardware holds, and no two of it have the same place.
    let (first_vmid, vmids) = if driver.profile().partitions { (4, 6) } else { (3, 13) };
    for group in &runlist.groups {
        let mut slots = BTreeSet::new();
        prop_assert!(!group.is_empty() && group.len() <= vmids);
        for (at, mapped) in group.iter().enumerate() {
            prop_assert!(!mapped.queues.is_empty());
            for queue in &mapped.queues {
                prop_assert_eq!(queue.place.vmid, first_vmid + at as u32);
                prop_assert!(slots.insert(queue.place.slot));
                prop_assert_eq!(queue.place.slot.is_compute(), !is_sdma(mapped.process, queue.id));
                if let HqdSlot::Compute { pipe, queue } = queue.place.slot {
                    prop_assert!(pipe < 4 && (2..8).contains(&queue));
                }
            }
        }
    }
    // A process is in more than one group only if one cannot hold it.
    for (key, queues) in &active {
        let compute = queues.iter().filter(|id| !is_sdma(*key, **id)).count();
        let groups = runlist.groups.iter().filter(|group| group.iter().any(|mapped| mapped.process == *key)).count();
        prop_assert_eq!(groups, compute.div_ceil(24).max(1));
    }

    // The packets say the same.
    let compute = active.iter().flat_map(|(key, queues)| queues.iter().filter(|id| !is_sdma(*key, **id))).count();
    prop_assert_eq!(runlist.over_subscribed, listed.len() > vmids || compute > 24);
    let (decoded, chain) = decode(&runlist.packets);
    if active.is_empty() {
        prop_assert!(decoded.is_empty());
        return Ok(());
    }
    let expected: Vec<Listed> = listed
        .iter()
        .map(|(key, queues)| {
            let process = &driver.processes[key];
            let of = |id: &u32| (process.queues[id].hardware.descriptor, process.queues[id].spec.wptr);
            Listed {
                pasid: process.pasid,
                queues: process.queues.len() as u32,
                active: queues.iter().map(of).collect(),
            }
        })
        .collect();
    prop_assert_eq!(decoded, expected);
    let words = runlist.packets.len() as u32 / 4;
    prop_assert_eq!(chain, runlist.over_subscribed.then(|| (words, listed.len().min(vmids) as u32)));
    Ok(())
}

fn run(profile: &str, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (mut machine, processes) = crowd(profile);
    let mut model = Model::default();
    let mut now = 0;
    for step in steps {
        now += 1_000_000;
        match step {
            Step::Create { process, sdma } => {
                let (key, mut args) = processes[process];
                if sdma {
                    args.queue_type = QueueType::SDMA;
                }
                let answer = machine.run(key, args);
                if answer.result.is_ok() {
                    model.create(key, answer.args.queue_id);
                }
            }
            Step::CreateMany { process, count } => {
                let (key, args) = processes[process];
                for _ in 0..count {
                    let answer = machine.run(key, args);
                    if answer.result.is_ok() {
                        model.create(key, answer.args.queue_id);
                    }
                }
            }
            Step::Destroy { pick } => {
                let Some((key, queue_id)) = model.queue(pick) else { continue };
                machine.run(key, DestroyQueueArgs { queue_id, pad: 0 }).ok();
                model.destroy(key, queue_id);
            }
            Step::Turn { pick, on } => {
                let Some((key, queue_id)) = model.queue(pick) else { continue };
                let (_, args) = processes.iter().find(|(known, _)| *known == key).unwrap();
                let update = UpdateQueueArgs {
                    ring_base_address: args.ring_base_address,
                    queue_id,
                    ring_size: args.ring_size,
                    queue_percentage: if on { 100 } else { 0 },
                    queue_priority: 7,
                };
                machine.run(key, update).ok();
                model.turn(key, queue_id, on);
            }
            Step::Evict { process } => {
                let key = processes[process].0;
                machine.driver.evict(key, 0, now);
                *model.evicted.entry(key).or_default() += 1;
            }
            Step::Restore { process } => {
                let key = processes[process].0;
                machine.driver.restore(key, 0, now);
                let count = model.evicted.entry(key).or_default();
                *count = count.saturating_sub(1);
            }
        }
        check(&machine, &model)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_active_queue_is_listed_once_in_order_and_within_limits(steps in steps()) {
        run("mi300x", steps)?;
    }

    #[test]
    fn partitions_of_one_xcc_hold_fewer_processes(steps in steps()) {
        run("mi300x-cpx", steps)?;
    }
}

#[test]
fn queues_take_the_slots_that_an_mi308x_gave_them() {
    let mut machine = Machine::new("mi308x");
    let args = prepare(&mut machine, ALICE);
    for _ in 0..5 {
        machine.run(ALICE, args).ok();
    }
    let runlist = machine.driver.runlist(0);
    let [group] = &runlist.groups[..] else { panic!("{runlist:?}") };
    let places: Vec<(u32, u32, HqdSlot)> =
        group[0].queues.iter().map(|queue| (queue.id, queue.place.vmid, queue.place.slot)).collect();
    let slot = |pipe, queue| HqdSlot::Compute { pipe, queue };
    let expected = [(4, 3, slot(0, 2)), (3, 3, slot(1, 2)), (2, 3, slot(2, 2)), (1, 3, slot(3, 2)), (0, 3, slot(0, 3))];
    assert_eq!(places, expected);
}

#[test]
fn idle_processes_over_subscribe_too() {
    let (mut machine, processes) = crowd("mi300x");
    for (key, args) in &processes[..14] {
        let off = CreateQueueArgs { queue_percentage: 0, ..*args };
        machine.run(*key, off).ok();
    }
    assert_eq!(machine.driver.runlist(0), Runlist { over_subscribed: true, ..Runlist::default() });
    let (key, args) = processes[15];
    machine.run(key, args).ok();
    let runlist = machine.driver.runlist(0);
    assert_eq!((runlist.groups.len(), runlist.over_subscribed), (1, true));
    let (listed, chain) = decode(&runlist.packets);
    assert_eq!((listed.len(), chain.unwrap().1), (15, 13));
}

#[test]
fn a_process_that_comes_back_is_the_newest() {
    let mut machine = Machine::new("mi300x");
    let (alice, bob) = (prepare(&mut machine, ALICE), prepare(&mut machine, BOB));
    let order = |machine: &Machine| -> Vec<ProcessKey> {
        machine.driver.runlist(0).groups.concat().iter().map(|mapped| mapped.process).collect()
    };
    machine.run(ALICE, alice).ok();
    machine.run(BOB, bob).ok();
    machine.run(ALICE, alice).ok();
    machine.run(ALICE, DestroyQueueArgs { queue_id: 0, pad: 0 }).ok();
    // It never was without a queue.
    assert_eq!(order(&machine), [BOB, ALICE]);
    machine.run(ALICE, DestroyQueueArgs { queue_id: 1, pad: 0 }).ok();
    machine.run(ALICE, alice).ok();
    assert_eq!(order(&machine), [ALICE, BOB]);
}

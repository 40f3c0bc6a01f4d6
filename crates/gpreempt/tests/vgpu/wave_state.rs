//! What a debugger finds in the save area of a queue that was stopped in the middle of a kernel: the whole truth.

use std::ops::Range;
use std::sync::Arc;

use gpreempt_testkit::scene::{status, waves};
use gpreempt_testkit::{Actor, play, this_test, until};
use kfd::{Grace, Kfd, ProcessMemory, QueueId, QueueSnapshotEntry, Tracer};
use kfd_abi::Abi;
use kfd_abi::control_stack::{CONTROL_STACK_SKIP, ControlWord, StateWord, Variant};
use kfd_abi::save_area::{SaveAreaHeader, WaveLayout, hwreg};
use kfd_suite::suite;
use object::{Object, ObjectSymbol};

const GROUPS: u32 = 24;
const LANES: u32 = 64;
const FACTOR: u32 = 1_664_525;

/// A saved wave: where it lies in the process, and what it consists of.
struct Wave {
    address: u64,
    layout: WaveLayout,
    bytes: Vec<u8>,
}

impl Wave {
    fn word(&self, offset: u32) -> u32 {
        u32::decode(&self.bytes[offset as usize..]).expect("within the wave")
    }

    fn pc(&self) -> u64 {
        let [low, high] = [hwreg::PC_LO, hwreg::PC_HI].map(|index| self.word(self.layout.hwreg(index)));
        u64::from(high & 0xFFFF) << 32 | u64::from(low)
    }

    fn lanes(&self, register: u32) -> Vec<u32> {
        (0..LANES).map(|lane| self.word(self.layout.arch_vgpr(register) + lane * 4)).collect()
    }

    /// The register in which the walk stands, and the group that walks: every lane is where its item must be after the
    /// same number of steps, or between the two halves of a step. How many steps is about what some scalar register
    /// says.
    fn walk(&self) -> Option<(u32, u32)> {
        let counts: Vec<u32> = (0..self.layout.sgprs)
            .map(|register| self.word(self.layout.sgpr(register)))
            .filter(|count| (1..1 << 30).contains(count) && count.is_multiple_of(64))
            .collect();
        let stands = |lanes: &[u32], group: u32, steps: u32| {
            let at = |lane: usize| suite::walk_result(group * LANES + lane as u32, steps);
            let all = |step: fn(u32) -> u32| lanes.iter().enumerate().all(|(lane, &value)| value == step(at(lane)));
            all(|value| value) || all(|value| value.wrapping_mul(FACTOR))
        };
        (0..self.layout.arch_vgprs).find_map(|register| {
            let lanes = self.lanes(register);
            let near = |count: &u32| count.saturating_sub(64).max(1)..=count + 64;
            let found = |group: &u32| counts.iter().flat_map(near).any(|steps| stands(&lanes, *group, steps));
            (0..GROUPS).find(found).map(|group| (register, group))
        })
    }
}

/// All waves of a stopped queue, by the control stacks alone.
fn saved_waves(memory: &ProcessMemory, queue: &QueueSnapshotEntry, xccs: u32) -> Vec<Wave> {
    (0..xccs).flat_map(|xcc| saved_on(memory, queue, xcc)).collect()
}

fn saved_on(memory: &ProcessMemory, queue: &QueueSnapshotEntry, xcc: u32) -> Vec<Wave> {
    let size = queue.ctx_save_restore_area_size;
    let base = queue.ctx_save_restore_address + u64::from(xcc) * u64::from(size);
    let read = |from: u32, to: u32| {
        assert!(from <= to && to <= size, "{from:#x} to {to:#x} of {size:#x}");
        let mut bytes = vec![0; (to - from) as usize];
        memory.read(base + u64::from(from), &mut bytes).expect("mapped");
        bytes
    };
    let header = SaveAreaHeader::decode(&read(0, SaveAreaHeader::SIZE as u32)).expect("a header");
    let (from, to) = header.wave_state.control_stack();
    let (lowest, mut end) = header.wave_state.waves();
    let stack = read(from, to);
    let words = stack.chunks_exact(4).skip(CONTROL_STACK_SKIP).map(|word| u32::decode(word).expect("a word"));
    let (mut state, mut waves) = (None::<StateWord>, Vec::new());
    for word in words {
        match ControlWord::of(word) {
            ControlWord::Event(_) => {}
            ControlWord::State(word) => state = Some(word),
            ControlWord::Wave(word) => {
                let layout = state.expect("a state word first").layout(Variant::Gfx90a, word.is_first());
                let start = end - layout.size();
                waves.push(Wave { address: base + u64::from(start), layout, bytes: read(start, end) });
                end = start;
            }
        }
    }
    assert_eq!(end, lowest, "the control stack uses up what the header says, on XCC {xcc}");
    waves
}

/// Where the code of the kernel lies.
fn code(client: &mut Actor) -> Range<u64> {
    let descriptor: u64 = client.ask("kernel").parse().expect("a number");
    let job = suite::find("walk").and_then(|test| test.job(1)).expect("in the suite");
    let file = object::File::parse(job.object).expect("an ELF file");
    let symbol = |name: &str| file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name)).expect("a symbol");
    let (kernel, base) = (symbol("walk"), descriptor - symbol("walk.kd").address());
    base + kernel.address()..base + kernel.address() + kernel.size()
}

fn spoil_one_bit(client: &mut Actor, queue: u32, xccs: u32) {
    let code = code(client);
    let (tracer, _events) = Tracer::attach(Arc::new(Kfd::open().unwrap()), client.pid()).unwrap();
    let memory = ProcessMemory::open(client.pid()).unwrap();
    // Not all workgroups may have begun, or a wave may be stopped before its first step; then all go on for a while.
    let (wave, register, group) = loop {
        // A test that stops them again at once, on a busy machine, may never see them walk.
        until("all workgroups have a place", || waves(&status(), client.pid().0) == u64::from(GROUPS));
        assert!(tracer.suspend(&[QueueId(queue)], Grace::SHORTEST).unwrap().all_done());
        let entry = tracer.snapshot().unwrap()[0];
        let waves = saved_waves(&memory, &entry, xccs);
        for wave in &waves {
            assert!(code.contains(&wave.pc()), "{:#x} is not in {code:#x?}", wave.pc());
            let exec = [hwreg::EXEC_LO, hwreg::EXEC_HI].map(|index| wave.word(wave.layout.hwreg(index)));
            assert_eq!(exec, [u32::MAX; 2]);
        }
        let walking: Vec<(u32, u32)> = waves.iter().filter_map(Wave::walk).collect();
        assert!(waves.len() <= GROUPS as usize);
        if walking.len() == GROUPS as usize {
            let mut groups: Vec<u32> = walking.iter().map(|(_, group)| *group).collect();
            groups.sort_unstable();
            assert_eq!(groups, (0..GROUPS).collect::<Vec<_>>(), "every workgroup is there once");
            let (register, group) = walking[GROUPS as usize / 2];
            break (waves.into_iter().nth(GROUPS as usize / 2).expect("counted"), register, group);
        }
        assert!(tracer.resume(&[QueueId(queue)]).unwrap().all_done());
    };
    const LANE: u32 = 37;
    let offset = wave.layout.arch_vgpr(register) + LANE * 4;
    let spoilt = wave.word(offset) ^ 1 << 31;
    memory.write(wave.address + u64::from(offset), &spoilt.to_le_bytes()).unwrap();
    client.enough();
    assert!(tracer.resume(&[QueueId(queue)]).unwrap().all_done());
    let said = client.ask("wait 0");
    let words: Vec<u32> = said.split(' ').skip(1).map(|word| word.parse().expect("a number")).collect();
    let [count, item, steps, found] = words[..] else { panic!("{said}") };
    assert_eq!((count, item), (1, group * LANES + LANE), "{said}");
    assert_eq!(found, suite::walk_result(item, steps) ^ 1 << 31, "{said}");
    tracer.close().unwrap();
}

#[test]
fn a_bit_that_is_flipped_in_a_saved_register_is_the_only_difference_on_one_xcc() {
    play(this_test!(), &["--profile", "mi300x-cpx"], |scene| {
        let (mut client, queue) = scene.walker(GROUPS);
        spoil_one_bit(&mut client, queue, 1);
        client.leave();
    });
}

#[test]
fn a_bit_that_is_flipped_in_a_saved_register_is_the_only_difference_on_eight_xccs() {
    play(this_test!(), &["--profile", "mi300x"], |scene| {
        let (mut client, queue) = scene.walker(GROUPS);
        spoil_one_bit(&mut client, queue, 8);
        client.leave();
    });
}

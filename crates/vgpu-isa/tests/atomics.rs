//! Atomics of lanes that share memory: they count as if each lane had gone by itself, in the order of the lanes.

use vgpu_isa::decode::decode;
use vgpu_isa::inst::{Env, Flow, Stop, Target};
use vgpu_isa::memory::{Access, Fault, Mapping, Port, Space};
use vgpu_isa::wave::{LANES, Lanes, Wave};

const START: u64 = 0x7000_0000_0000;
/// Words of memory: an odd number, so that the last one has no neighbour.
const WORDS: usize = 127;

/// `global_atomic_add v5, v0, v4, s[2:3] sc0` and the same with 64 bits, by llvm-mc-19.
const ADD: [u32; 2] = [0xDD09_8000, 0x0502_0400];
const ADD_X2: [u32; 2] = [0xDD89_8000, 0x0602_0400];

/// The words and one that is not mapped, aligned as memory of a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(8))]
struct Words([u32; WORDS + 1]);

/// Memory, and a wave in front of it.
struct Scene {
    memory: Words,
    wave: Box<Wave>,
}

impl Scene {
    fn new(offsets: Lanes, exec: u64) -> Self {
        let mut wave = Wave::new();
        wave.set_s64(2, START);
        wave.set_exec(exec);
        wave.v[0] = offsets;
        for (register, factor) in [(4, 0x9E37_79B9_u32), (5, 0x85EB_CA6B)] {
            wave.v[register] = std::array::from_fn(|lane| (lane as u32 + 1).wrapping_mul(factor));
        }
        let memory = std::array::from_fn(|word| (word as u32).wrapping_mul(0xC2B2_AE35));
        Self { memory: Words(memory), wave }
    }

    /// Runs an instruction on memory that its owner may take away, or not.
    fn run(&mut self, words: [u32; 2], guarded: bool) -> (Flow, Option<Stop>) {
        let mut space = Space::new();
        let (host, end) = (self.memory.0.as_mut_ptr().cast(), START + 4 * WORDS as u64);
        // SAFETY: the memory outlives the space.
        unsafe { space.insert(Mapping { start: START, end, host, writable: true, executable: false, guarded }) };
        let mut env = Env { memory: Port::new(&space), lds: &mut [], clock: || 0, stop: None };
        let inst = decode([words[0], words[1], 0], Target::Gfx942).expect("an atomic");
        // SAFETY: the handler came from the table, which chose it for this CPU.
        let flow = unsafe { (inst.handler)(&mut self.wave, &inst, &mut env) };
        (flow, env.stop)
    }
}

/// Offsets of the lanes: one word for all, runs, pairs in either order, a permutation, and neighbours without one.
fn patterns() -> Vec<Lanes> {
    let each = |word: fn(usize) -> usize| std::array::from_fn(|lane| 4 * word(lane) as u32);
    vec![
        each(|_| 9),
        each(|lane| lane / 5),
        each(|lane| lane),
        each(|lane| lane ^ 1),
        each(|lane| lane * 37 % 127),
        each(|lane| WORDS - 1 - lane % 3),
        each(|lane| lane % 2 * 2 + lane / 8),
    ]
}

const MASKS: [u64; 5] = [!0, 0x5555_5555_5555_5555, 0xFFFF_0000_0000_00FF, 1 << 63, 0];

#[test]
fn lanes_that_share_words_add_one_after_the_other() {
    for (offsets, exec) in patterns().into_iter().flat_map(|offsets| MASKS.map(|exec| (offsets, exec))) {
        for guarded in [false, true] {
            let mut scene = Scene::new(offsets, exec);
            let (mut memory, mut old, data) = (scene.memory.clone(), scene.wave.v[5], scene.wave.v[4]);
            for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
                let word = &mut memory.0[offsets[lane] as usize / 4];
                old[lane] = *word;
                *word = word.wrapping_add(data[lane]);
            }
            assert_eq!(scene.run(ADD, guarded), (Flow::Next, None));
            assert_eq!((scene.memory, scene.wave.v[5]), (memory, old), "{offsets:?} {exec:#x} {guarded}");
        }
    }
}

#[test]
fn lanes_that_share_double_words_add_one_after_the_other() {
    for (offsets, exec) in patterns().into_iter().flat_map(|offsets| MASKS.map(|exec| (offsets, exec))) {
        // Pairs of words: half as many, twice as far apart.
        let offsets = offsets.map(|offset| offset / 8 * 8 % (4 * (WORDS as u32 - 1)));
        let mut scene = Scene::new(offsets, exec);
        let wave = &mut scene.wave;
        let (mut memory, mut old) = (scene.memory.clone(), [wave.v[6], wave.v[7]]);
        let data: [u64; LANES] =
            std::array::from_fn(|lane| u64::from(wave.v[4][lane]) | u64::from(wave.v[5][lane]) << 32);
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            let at = offsets[lane] as usize / 4;
            let before = u64::from(memory.0[at]) | u64::from(memory.0[at + 1]) << 32;
            let after = before.wrapping_add(data[lane]);
            (old[0][lane], old[1][lane]) = (before as u32, (before >> 32) as u32);
            (memory.0[at], memory.0[at + 1]) = (after as u32, (after >> 32) as u32);
        }
        assert_eq!(scene.run(ADD_X2, false), (Flow::Next, None));
        assert_eq!((scene.memory, [scene.wave.v[6], scene.wave.v[7]]), (memory, old), "{offsets:?} {exec:#x}");
    }
}

#[test]
fn the_first_lane_outside_memory_stops_the_wave_after_those_before_it() {
    for (lane, offset) in [(1, 4 * WORDS as u32), (0, 4 * WORDS as u32 + 4), (2, 0x1_0000)] {
        // The lanes before it are the neighbours of the last word.
        let mut offsets = [4 * WORDS as u32 - 4; LANES];
        offsets[lane] = offset;
        let mut scene = Scene::new(offsets, !0);
        let (mut memory, data) = (scene.memory.clone(), scene.wave.v[4]);
        let last = &mut memory.0[WORDS - 1];
        data[..lane].iter().for_each(|value| *last = last.wrapping_add(*value));
        let fault = Fault { address: START + u64::from(offset), access: Access::Write, mapped: false };
        assert_eq!(scene.run(ADD, false), (Flow::Stop, Some(Stop::Memory(fault))));
        assert_eq!(scene.memory, memory);
    }
}

//! Memory instructions where the address space is not one plain mapping: borders, guarded and read-only memory,
//! addresses around four gigabytes, and two waves at once.

use vgpu_isa::decode::decode;
use vgpu_isa::inst::{Env, Flow, Stop, Target};
use vgpu_isa::memory::{Access, Fault, Mapping, Port, Space};
use vgpu_isa::wave::Wave;

/// global_load_dword v8, v[2:3], off
const LOAD: [u32; 2] = [0xDC50_8000, 0x087F_0002];
/// global_load_dwordx4 v[8:11], v[2:3], off
const LOAD_4: [u32; 2] = [0xDC5C_8000, 0x087F_0002];
/// global_store_dword v[2:3], v8, off
const STORE: [u32; 2] = [0xDC70_8000, 0x007F_0802];
/// global_store_dwordx2 v[2:3], v[8:9], off
const STORE_2: [u32; 2] = [0xDC74_8000, 0x007F_0802];
/// global_atomic_add v[2:3], v8, off
const ADD: [u32; 2] = [0xDD08_8000, 0x007F_0802];

fn words(count: u32, seed: u32) -> Vec<u32> {
    (0..count).map(|n| (n ^ seed).wrapping_mul(0x9E37_79B9)).collect()
}

fn map(space: &mut Space, start: u64, memory: &mut [u32], writable: bool, guarded: bool) {
    let end = start + 4 * memory.len() as u64;
    let host = memory.as_mut_ptr().cast();
    // SAFETY: every test keeps its memory alive longer than the address space, and looks at it only afterwards.
    unsafe { space.insert(Mapping { start, end, host, writable, executable: false, guarded }) };
}

fn addresses(wave: &mut Wave, address: impl Fn(u64) -> u64) {
    wave.v[2] = std::array::from_fn(|lane| address(lane as u64) as u32);
    wave.v[3] = std::array::from_fn(|lane| (address(lane as u64) >> 32) as u32);
}

fn run(space: &Space, wave: &mut Wave, words: [u32; 2]) -> Result<(), Stop> {
    let inst = decode([words[0], words[1], 0], Target::Gfx942).expect("the instruction exists");
    let mut env = Env { memory: Port::new(space), lds: &mut [], clock: || 0, stop: None };
    // SAFETY: the handler came from the table, which chose it for this CPU.
    let flow = unsafe { (inst.handler)(wave, &inst, &mut env) };
    assert_eq!(flow == Flow::Stop, env.stop.is_some());
    env.stop.map_or(Ok(()), Err)
}

#[test]
fn lanes_that_follow_each_other_may_cross_from_one_mapping_into_the_next() {
    for guarded in [false, true] {
        let (mut one, mut two) = (words(64, 1), words(512, 2));
        let both = [one.clone(), two.clone()].concat();
        let mut space = Space::new();
        map(&mut space, 0x10_0000, &mut one, true, false);
        map(&mut space, 0x10_0100, &mut two, true, guarded);
        let mut wave = Wave::new();
        addresses(&mut wave, |lane| 0x10_0080 + 4 * lane);
        assert_eq!(run(&space, &mut wave, LOAD), Ok(()));
        assert_eq!(wave.v[8][..], both[32..96]);
        // Values themselves lie across the border too.
        addresses(&mut wave, |lane| 0x10_0000 + 12 + 16 * lane);
        assert_eq!(run(&space, &mut wave, LOAD_4), Ok(()));
        for lane in 0..64 {
            let got: Vec<u32> = (8..12).map(|register| wave.v[register][lane]).collect();
            assert_eq!(got, both[3 + 4 * lane..][..4], "lane {lane}");
        }
        addresses(&mut wave, |lane| 0x10_0004 + 8 * lane);
        wave.v[8] = std::array::from_fn(|lane| lane as u32);
        wave.v[9] = std::array::from_fn(|lane| 1000 + lane as u32);
        assert_eq!(run(&space, &mut wave, STORE_2), Ok(()));
        drop(space);
        let stored = [one, two].concat();
        for lane in 0..64 {
            assert_eq!(stored[1 + 2 * lane..][..2], [lane as u32, 1000 + lane as u32]);
        }
        assert_eq!((stored[0], &stored[129..]), (both[0], &both[129..]));
    }
}

#[test]
fn guarded_memory_is_loaded_and_stored_like_any_other() {
    let mut memory = words(256, 3);
    let before = memory.clone();
    let mut space = Space::new();
    map(&mut space, 0x10_0000, &mut memory, true, true);
    let mut wave = Wave::new();
    addresses(&mut wave, |lane| 0x10_0000 + 16 * lane);
    assert_eq!(run(&space, &mut wave, LOAD_4), Ok(()));
    for lane in 0..64 {
        assert_eq!(wave.v[11][lane], before[4 * lane + 3]);
    }
    addresses(&mut wave, |lane| 0x10_0000 + 4 * (lane * 37 % 64));
    assert_eq!(run(&space, &mut wave, STORE), Ok(()));
    let registers = wave.v[8];
    assert_eq!(run(&space, &mut wave, ADD), Ok(()));
    drop(space);
    for lane in 0..64 {
        assert_eq!(memory[lane * 37 % 64], registers[lane].wrapping_mul(2));
    }
    assert_eq!(memory[64..], before[64..]);
}

#[test]
fn addresses_may_cross_a_multiple_of_four_gigabytes() {
    let mut memory = words(256, 4);
    let before = memory.clone();
    let mut space = Space::new();
    map(&mut space, 0x1_FFFF_FF00, &mut memory, true, false);
    let mut wave = Wave::new();
    addresses(&mut wave, |lane| 0x1_FFFF_FF80 + 4 * lane);
    assert_eq!(run(&space, &mut wave, LOAD), Ok(()));
    assert_eq!(wave.v[8][..], before[32..96]);
    wave.v[8] = [5; 64];
    assert_eq!(run(&space, &mut wave, ADD), Ok(()));
    wave.set_exec(0xFFFF_0000_FFFF_0000);
    assert_eq!(run(&space, &mut wave, STORE), Ok(()));
    drop(space);
    for lane in 0..64 {
        let want = if lane / 16 % 2 == 1 { 5 } else { before[32 + lane].wrapping_add(5) };
        assert_eq!(memory[32 + lane], want, "lane {lane}");
    }
}

#[test]
fn a_fault_names_its_lane_and_the_lanes_before_it_are_done() {
    let (mut one, mut two) = (words(64, 5), words(64, 6));
    let before = two.clone();
    let mut space = Space::new();
    map(&mut space, 0x10_0000, &mut one, true, false);
    map(&mut space, 0x10_0100, &mut two, false, false);
    let mut wave = Wave::new();
    wave.v[8] = [9; 64];
    addresses(&mut wave, |lane| 0x10_00C0 + 4 * lane);
    let forbidden = Stop::Memory(Fault { address: 0x10_0100, access: Access::Write, mapped: true });
    assert_eq!(run(&space, &mut wave, STORE), Err(forbidden.clone()));
    assert_eq!(run(&space, &mut wave, ADD), Err(forbidden));
    addresses(&mut wave, |lane| 0x10_01C0 + 4 * lane);
    let missing = Stop::Memory(Fault { address: 0x10_0200, access: Access::Read, mapped: false });
    assert_eq!(run(&space, &mut wave, LOAD), Err(missing));
    assert_eq!(wave.v[8], [9; 64], "a load that faults writes no register");
    drop(space);
    assert_eq!(one[48..], [18; 16]);
    assert_eq!(two, before);
}

#[test]
fn atomics_of_two_waves_at_once_lose_nothing() {
    const ROUNDS: u32 = 2000;
    let mut memory = vec![0; 2];
    let mut space = Space::new();
    map(&mut space, 0x10_0000, &mut memory, true, false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut wave = Wave::new();
                wave.v[8] = std::array::from_fn(|lane| lane as u32 + 1);
                addresses(&mut wave, |lane| 0x10_0000 + lane % 2 * 4);
                for _ in 0..ROUNDS {
                    assert_eq!(run(&space, &mut wave, ADD), Ok(()));
                }
            });
        }
    });
    drop(space);
    assert_eq!(memory, [2 * ROUNDS * 1024, 2 * ROUNDS * 1056]);
}

//! Measures memory instructions on this machine: nanoseconds for one instruction of one wave, in the best of many short
//! batches, so that other work on the machine counts little.

use std::time::Instant;

use vgpu_isa::decode::decode;
use vgpu_isa::inst::{Env, Target};
use vgpu_isa::memory::{Mapping, Port, Space};
use vgpu_isa::wave::Wave;

const MEMORY: u64 = 0x7000_0000_0000;
const SIZE: usize = 1 << 22;
const BATCHES: u32 = 300;
const ROUNDS: u32 = 1000;

/// Offsets of the lanes.
type Pattern = (&'static str, fn(u32) -> u32);

const CONSECUTIVE: Pattern = ("consecutive", |lane| lane * 4);
const CONSECUTIVE_16: Pattern = ("consecutive", |lane| lane * 16);
const CONSECUTIVE_8: Pattern = ("consecutive", |lane| lane * 8);
const BYTES: Pattern = ("consecutive", |lane| lane);
const SAME: Pattern = ("same", |_| 64);
const SCATTERED: Pattern = ("scattered", |lane| lane * 37 % 64 * 16);
const SPREAD: Pattern = ("over 4 MiB", |lane| lane * 37 % 64 * 65_472);

/// What to measure: mnemonic with operands, encoding, pattern.
const CASES: &[(&str, [u32; 2], Pattern)] = &[
    ("global_load_dword v8, v2, s[4:5]", [0xDC50_8000, 0x0804_0002], CONSECUTIVE),
    ("global_load_dword v8, v2, s[4:5]", [0xDC50_8000, 0x0804_0002], SAME),
    ("global_load_dword v8, v2, s[4:5]", [0xDC50_8000, 0x0804_0002], SCATTERED),
    ("global_load_dword v8, v2, s[4:5]", [0xDC50_8000, 0x0804_0002], SPREAD),
    ("global_load_dword v8, v[2:3], off", [0xDC50_8000, 0x087F_0002], CONSECUTIVE),
    ("global_load_dword v8, v[2:3], off", [0xDC50_8000, 0x087F_0002], SCATTERED),
    ("global_load_dwordx2 v[8:9], v2, s[4:5]", [0xDC54_8000, 0x0804_0002], CONSECUTIVE_8),
    ("global_load_dwordx4 v[8:11], v2, s[4:5]", [0xDC5C_8000, 0x0804_0002], CONSECUTIVE_16),
    ("global_load_dwordx4 v[8:11], v2, s[4:5]", [0xDC5C_8000, 0x0804_0002], SCATTERED),
    ("global_load_ubyte v8, v2, s[4:5]", [0xDC40_8000, 0x0804_0002], BYTES),
    ("global_store_dword v2, v8, s[4:5]", [0xDC70_8000, 0x0004_0802], CONSECUTIVE),
    ("global_store_dword v2, v8, s[4:5]", [0xDC70_8000, 0x0004_0802], SCATTERED),
    ("global_store_dwordx4 v2, v[8:11], s[4:5]", [0xDC7C_8000, 0x0004_0802], CONSECUTIVE_16),
    ("global_atomic_add v2, v8, s[4:5]", [0xDD08_8000, 0x0004_0802], CONSECUTIVE),
    ("global_atomic_add v2, v8, s[4:5]", [0xDD08_8000, 0x0004_0802], SAME),
    ("flat_load_dword v8, v[2:3]", [0xDC50_0000, 0x0800_0002], CONSECUTIVE),
    ("buffer_load_dword v8, v2, s[4:7], 0 offen", [0xE050_1000, 0x8001_0802], CONSECUTIVE),
    ("scratch_load_dword v8, off, s10", [0xDC50_4000, 0x080A_0000], SAME),
    ("scratch_load_dword v8, v2, off", [0xDC50_6000, 0x087F_0002], SCATTERED),
    ("ds_read_b32 v8, v2", [0xD86C_0000, 0x0800_0002], CONSECUTIVE),
    ("ds_read_b32 v8, v2", [0xD86C_0000, 0x0800_0002], SAME),
    ("ds_read_b32 v8, v2", [0xD86C_0000, 0x0800_0002], SCATTERED),
    ("ds_read_b128 v[8:11], v2", [0xD9FE_0000, 0x0800_0002], CONSECUTIVE_16),
    ("ds_write_b32 v2, v8", [0xD81A_0000, 0x0000_0802], CONSECUTIVE),
    ("ds_write_b32 v2, v8", [0xD81A_0000, 0x0000_0802], SCATTERED),
    ("ds_write_b128 v2, v[8:11]", [0xD9BE_0000, 0x0000_0802], CONSECUTIVE_16),
    ("ds_add_u32 v2, v8", [0xD800_0000, 0x0000_0802], CONSECUTIVE),
    ("ds_bpermute_b32 v8, v2, v9", [0xD87E_0000, 0x0800_0902], SCATTERED),
    ("ds_swizzle_b32 v8, v2 offset:swizzle(SWAP,16)", [0xD87A_401F, 0x0800_0002], SAME),
];

fn main() {
    let mut memory = vec![0_u8; SIZE];
    let mut space = Space::new();
    let host = memory.as_mut_ptr();
    let end = MEMORY + SIZE as u64;
    let mapping = Mapping { start: MEMORY, end, host, writable: true, executable: false, guarded: false };
    // SAFETY: the vector outlives the space.
    unsafe { space.insert(mapping) };
    let mut lds = vec![0; 65536];
    let mut env = Env { memory: Port::new(&space), lds: &mut lds, clock: || 0, stop: None };
    let mut wave = Wave::new();
    wave.scratch.size = 4096;
    wave.scratch.memory = vec![0; 4096 * 64].into();
    for (text, words, (pattern, offset)) in CASES {
        let inst = match decode([words[0], words[1], 0], Target::Gfx942) {
            Ok(inst) => inst,
            Err(illegal) => panic!("{text}: {illegal:?}"),
        };
        // The address is a scalar pair with a vector offset, a vector pair, or a buffer of the whole memory.
        wave.set_s64(4, MEMORY);
        (wave.s[6], wave.s[7], wave.s[10]) = (SIZE as u32, 0, 64);
        wave.v[2] = std::array::from_fn(|lane| offset(lane as u32));
        wave.v[3] = [(MEMORY >> 32) as u32; 64];
        let mut best = f64::INFINITY;
        for _ in 0..BATCHES {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                // SAFETY: the handler came from the table, which chose it for this CPU.
                let flow = unsafe { (inst.handler)(&mut wave, &inst, &mut env) };
                std::hint::black_box(flow);
            }
            best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS));
        }
        assert_eq!(env.stop, None, "{text}");
        println!("{best:8.1} ns  {text:<46} {pattern}");
    }
}

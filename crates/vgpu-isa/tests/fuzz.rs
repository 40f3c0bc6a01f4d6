//! Random instructions: whatever a program holds, the interpreter neither panics nor hangs, and it may be stopped after
//! any instruction without a difference.
#![allow(clippy::needless_range_loop, reason = "a lane number indexes several registers at once")]

use proptest::prelude::*;
use vgpu_isa::code::Code;
use vgpu_isa::decode::decode;
use vgpu_isa::inst::{Encoding, Env, Target};
use vgpu_isa::memory::{Mapping, Port, Space};
use vgpu_isa::run::{RunEnd, run};
use vgpu_isa::table;
use vgpu_isa::wave::{Wave, status, trapsts};

const CODE: u64 = 0x1000_0000;
const DATA: u64 = 0x7000_0000_0000;
const DATA_BYTES: usize = 4096;
const LDS_BYTES: usize = 1024;
const SCRATCH_BYTES: u32 = 64;
/// Instructions granted to one program.
const GRANT: u64 = 400;

/// Fixed bits of an encoding, and where its opcode stands: low bit and number of bits.
fn layout(encoding: Encoding) -> (u32, u32, u32, u32) {
    match encoding {
        Encoding::Sop2 => (0xC000_0000, 0x8000_0000, 23, 7),
        Encoding::Sopk => (0xF000_0000, 0xB000_0000, 23, 5),
        Encoding::Sop1 => (0xFF80_0000, 0xBE80_0000, 8, 8),
        Encoding::Sopc => (0xFF80_0000, 0xBF00_0000, 16, 7),
        Encoding::Sopp => (0xFF80_0000, 0xBF80_0000, 16, 7),
        Encoding::Smem => (0xFC00_0000, 0xC000_0000, 18, 8),
        Encoding::Vop2 => (0x8000_0000, 0, 25, 6),
        Encoding::Vop1 => (0xFE00_0000, 0x7E00_0000, 9, 8),
        Encoding::Vopc => (0xFE00_0000, 0x7C00_0000, 17, 8),
        Encoding::Vop3 => (0xFC00_0000, 0xD000_0000, 16, 10),
        Encoding::Vop3p => (0xFF80_0000, 0xD380_0000, 16, 7),
        Encoding::Ds => (0xFC00_0000, 0xD800_0000, 17, 8),
        Encoding::Flat => (0xFC00_C000, 0xDC00_0000, 18, 7),
        Encoding::Scratch => (0xFC00_C000, 0xDC00_4000, 18, 7),
        Encoding::Global => (0xFC00_C000, 0xDC00_8000, 18, 7),
        Encoding::Mubuf => (0xFC00_0000, 0xE000_0000, 18, 7),
        Encoding::Mtbuf => (0xFC00_0000, 0xE800_0000, 15, 4),
        Encoding::Mimg => (0xFC00_0000, 0xF000_0000, 18, 7),
    }
}

/// A random instruction that decodes: one of those implemented with random operands, or random altogether.
fn instruction(target: Target) -> impl Strategy<Value = Vec<u32>> {
    let ops = table::all();
    let known = (0..ops.len(), any::<[u32; 3]>()).prop_map(move |(n, mut words)| {
        let op = ops[n];
        let (mask, fixed, low, bits) = layout(op.encoding);
        let opcode_mask = ((1 << bits) - 1) << low;
        words[0] = words[0] & !mask & !opcode_mask | fixed | u32::from(op.opcode) << low;
        words
    });
    let any_words = any::<[u32; 3]>();
    prop_oneof![8 => known, 1 => any_words].prop_map(move |words| match decode(words, target) {
        Ok(inst) => words[..usize::from(inst.size) / 4].to_vec(),
        Err(_) => Vec::new(),
    })
}

/// What a wave starts with.
#[derive(Clone, Debug)]
struct Start {
    target: Target,
    program: Vec<u32>,
    seed: u64,
    exec: u64,
    mode: u32,
}

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![Just(Target::Gfx90a), Just(Target::Gfx942)].prop_flat_map(|target| {
        let exec = prop_oneof![Just(!0), Just(0), any::<u64>()];
        let mode = prop_oneof![4 => Just(vgpu_isa::wave::mode::USUAL), 1 => any::<u32>()];
        (prop::collection::vec(instruction(target), 1..40), any::<u64>(), exec, mode)
            .prop_map(move |(program, seed, exec, mode)| Start { target, program: program.concat(), seed, exec, mode })
    })
}

/// A wave, its memory, and how it ended.
struct Machine {
    wave: Box<Wave>,
    data: Vec<u64>,
    lds: Vec<u8>,
    outcomes: Vec<RunEnd>,
    left: u64,
}

/// Registers hold addresses of memory and LDS, small numbers and rubbish.
fn fill(wave: &mut Wave, mut seed: u64) {
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut pair = || {
        let random = next();
        match random % 4 {
            0 => random,
            1 => random >> 8 & 0x3F,
            _ => DATA + (random >> 8) % DATA_BYTES as u64,
        }
    };
    for n in (0..124).step_by(2) {
        wave.set_s64(n, pair());
    }
    wave.s[124] = pair() as u32;
    for registers in [&mut wave.v, &mut wave.a] {
        for two in registers.chunks_exact_mut(2) {
            for lane in 0..64 {
                let value = pair();
                two[0][lane] = value as u32;
                two[1][lane] = (value >> 32) as u32;
            }
        }
    }
}

/// Runs a program with `step` instructions at a time. An instruction that stops the wave is stepped over.
fn execute(start: &Start, step: u64) -> Machine {
    let mut program = start.program.clone();
    let mut wave = Wave::new();
    fill(&mut wave, start.seed | 1);
    wave.set_exec(start.exec);
    wave.set_mode(start.mode);
    wave.lds_size = LDS_BYTES as u32;
    wave.scratch.size = SCRATCH_BYTES;
    wave.scratch.memory = vec![0; SCRATCH_BYTES as usize * 64].into();
    wave.pc = CODE;
    let data = (0..DATA_BYTES as u64 / 8).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let mut machine = Machine { wave, data, lds: vec![0x5A; LDS_BYTES], outcomes: Vec::new(), left: GRANT };
    let mut space = Space::new();
    let code = Mapping {
        start: CODE,
        end: CODE + 4 * program.len() as u64,
        host: program.as_mut_ptr().cast(),
        writable: false,
        executable: true,
        guarded: false,
    };
    let data = Mapping {
        start: DATA,
        end: DATA + DATA_BYTES as u64,
        host: machine.data.as_mut_ptr().cast(),
        writable: true,
        executable: false,
        guarded: false,
    };
    // SAFETY: both vectors outlive the space.
    unsafe {
        space.insert(code);
        space.insert(data);
    }
    let mut code = Code::new(start.target);
    let mut env = Env { memory: Port::new(&space), lds: &mut machine.lds, clock: || 1234, stop: None };
    while machine.left > 0 {
        let granted = step.min(machine.left);
        let mut budget = granted;
        let outcome = run(&mut machine.wave, &mut code, &mut env, &mut budget);
        assert!(budget <= granted, "more instructions than granted");
        machine.left -= granted - budget;
        match &outcome {
            RunEnd::Budget => {
                assert_eq!(budget, 0, "gave up with instructions left");
                continue;
            }
            RunEnd::End => break,
            RunEnd::Barrier => {}
            RunEnd::Sleep => {
                machine.wave.take_interrupt();
                if machine.wave.status & status::HALT != 0 {
                    break;
                }
            }
            // As a trap handler would that goes on.
            RunEnd::Exception => machine.wave.trapsts &= !trapsts::UNMASKED,
            RunEnd::Stopped(_) => {
                let Ok(size) = size_at(start, machine.wave.pc) else { break };
                machine.wave.pc += size;
            }
        }
        machine.outcomes.push(outcome);
    }
    machine
}

/// Bytes of the instruction at an address.
fn size_at(start: &Start, pc: u64) -> Result<u64, ()> {
    let program = &start.program;
    let index = usize::try_from(pc.wrapping_sub(CODE) / 4).map_err(drop)?;
    let words: [u32; 3] = std::array::from_fn(|n| program.get(index.wrapping_add(n)).copied().unwrap_or(0));
    program.get(index).ok_or(())?;
    decode(words, start.target).map(|inst| u64::from(inst.size)).map_err(drop)
}

/// So many cases, or as many as PROPTEST_CASES says.
fn cases(usually: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(usually),
    }
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn any_dwords_decode_or_are_refused(words in any::<[u32; 3]>()) {
        for target in [Target::Gfx90a, Target::Gfx942] {
            if let Ok(inst) = decode(words, target) {
                prop_assert!(matches!(inst.size, 4 | 8 | 12));
                prop_assert_eq!(inst.words[0], words[0]);
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn programs_may_be_stopped_after_any_instruction(start in start()) {
        let whole = execute(&start, GRANT);
        for step in [1, 3] {
            let stepped = execute(&start, step);
            prop_assert_eq!(&stepped.outcomes, &whole.outcomes);
            prop_assert_eq!(stepped.left, whole.left);
            prop_assert_eq!(stepped.wave.pc, whole.wave.pc);
            prop_assert_eq!(stepped.wave.s, whole.wave.s);
            prop_assert_eq!(stepped.wave.scc, whole.wave.scc);
            prop_assert_eq!(stepped.wave.mode(), whole.wave.mode());
            prop_assert_eq!(stepped.wave.status, whole.wave.status);
            prop_assert_eq!(stepped.wave.trapsts, whole.wave.trapsts);
            prop_assert!(stepped.wave.v == whole.wave.v && stepped.wave.a == whole.wave.a);
            prop_assert!(stepped.wave.scratch.memory == whole.wave.scratch.memory);
            prop_assert!(stepped.data == whole.data && stepped.lds == whole.lds);
        }
    }
}

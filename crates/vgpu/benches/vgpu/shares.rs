//! Where the time of a kernel goes: its instructions by kind, and what each kind costs by itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;

use vgpu::device::{WaveProgress, Worker, WorkgroupOutcome};
use vgpu_isa::decode::{MAX_DWORDS, decode};
use vgpu_isa::inst::{Encoding, Form, Inst, Target};
use vgpu_isa::memory::Port;

use crate::machine::{Loaded, Machine};
use crate::report::Report;

/// Kinds of instructions, each with the instruction whose cost stands for it.
const KINDS: [(&str, &str); 12] = [
    ("vector, 32 bits", "v_fmac_f32"),
    ("vector, 64 bits", "v_lshl_add_u64"),
    ("vector, exponential", "v_exp_f32"),
    ("vector compare", "v_cmp_gt_u32"),
    ("LDS", "ds_read2_b32"),
    ("global memory", "global_load_dword"),
    ("scalar memory", "s_load_dwordx4"),
    ("scalar", "s_add_u32"),
    ("branch, barrier, end", "s_branch"),
    ("vector with DPP or SDWA", "v_add_f32 dpp row_shr:1"),
    ("matrix", "v_mfma_f32_16x16x16_f16"),
    ("atomics", "global_atomic_add, scattered"),
];

fn kind(inst: &Inst) -> usize {
    let name = inst.op.name;
    if inst.form != Form::Plain {
        return 9;
    }
    if name.contains("mfma") {
        return 10;
    }
    if name.contains("atomic") {
        return 11;
    }
    let vector = if name == "v_exp_f32" {
        2
    } else if name.ends_with("64") {
        1
    } else {
        0
    };
    match inst.op.encoding {
        Encoding::Vopc => 3,
        Encoding::Vop1 | Encoding::Vop2 | Encoding::Vop3 | Encoding::Vop3p => vector,
        Encoding::Ds => 4,
        Encoding::Flat | Encoding::Global | Encoding::Scratch | Encoding::Mubuf => 5,
        Encoding::Smem => 6,
        Encoding::Sopp if !matches!(name, "s_waitcnt" | "s_nop") => 8,
        _ => 7,
    }
}

/// Wave instructions by kind.
pub(crate) type Counts = BTreeMap<usize, u64>;

/// Steps through a dispatch instruction by instruction and counts; then says what share of `seconds` each kind
/// explains.
pub(crate) fn report(
    report: &mut Report,
    machine: &mut Machine,
    name: &str,
    loaded: &Loaded,
    seconds: f64,
    costs: &[(&str, f64)],
) {
    let counts = count(machine, loaded);
    explain(report, name, &counts, seconds, costs);
}

/// Says what share of `seconds` each kind of instruction explains.
pub(crate) fn explain(report: &mut Report, name: &str, counts: &Counts, seconds: f64, costs: &[(&str, f64)]) {
    let all: u64 = counts.values().sum();
    report.section(&format!("where the time of {name} goes ({all} instructions)"));
    report.row(&format!("{name}: average of an instruction"), seconds * 1e9 / all as f64, "ns");
    let mut explained = 0.0;
    for (&kind, &count) in counts {
        let (title, stands) = KINDS[kind];
        let cost = costs.iter().find(|(name, _)| *name == stands).map_or(0.0, |(_, cost)| *cost);
        let share = count as f64 * cost * 1e-9 / seconds * 100.0;
        explained += share;
        let part = count as f64 / all as f64 * 100.0;
        report.row(&format!("{name}: {title} ({part:.0} % of instructions), time"), share, "%");
    }
    report.row(&format!("{name}: the rest: launch, turns between waves, cache misses"), 100.0 - explained, "%");
}

/// Runs a dispatch instruction by instruction and counts.
pub(crate) fn count(machine: &mut Machine, loaded: &Loaded) -> Counts {
    let (mut counts, mut kinds) = (Counts::new(), HashMap::new());
    let mut step = Worker::new(machine.config, 1);
    machine.submit(loaded);
    loop {
        let mut device = machine.device.lock().unwrap_or_else(PoisonError::into_inner);
        device.advance();
        let Some(mut work) = device.take() else { return counts };
        drop(device);
        while work.outcome == WorkgroupOutcome::Unfinished {
            for member in work.group.waves.iter().filter(|member| member.state == WaveProgress::Running) {
                let pc = member.wave.pc;
                let kind = *kinds.entry(pc).or_insert_with(|| kind(&next(machine, pc)));
                *counts.entry(kind).or_default() += 1;
            }
            step.run(&mut work);
        }
        machine.device.lock().unwrap_or_else(PoisonError::into_inner).put_back(work);
    }
}

/// The instruction at an address.
fn next(machine: &Machine, pc: u64) -> Inst {
    let mut port = Port::new(&machine.space);
    let words: [u32; MAX_DWORDS] =
        std::array::from_fn(|n| port.read_u32(pc + 4 * n as u64).expect("code lies in the machine's memory"));
    decode(words, Target::Gfx942).expect("the kernel runs, so it decodes")
}

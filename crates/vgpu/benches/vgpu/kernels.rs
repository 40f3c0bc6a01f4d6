//! Kernels against what a CPU does in one thread.

use kfd_runtime::Launch;

use crate::host::Host;
use crate::machine::{Loaded, Machine};
use crate::measure::{by_turns, fastest};
use crate::report::{Aim, Report};
use crate::shares;

/// Numbers of a vadd: all three arrays fit into a second-level cache.
const COUNT: u32 = 64 << 10;
const SIDE: u32 = 96;
const ROWS: u32 = 64;
const COLUMNS: u32 = 512;
const AIM: Aim = Aim::AtMost(15.0);

/// Numbers without a pattern that a CPU could use, from -1 to 1.
fn numbers(count: u32) -> Vec<f32> {
    (0..count).map(|n| (n.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// A kernel on the machine, where its result goes, and how it is counted.
struct Case {
    name: &'static str,
    title: String,
    loaded: Loaded,
    out: u64,
    length: usize,
    tolerance: f32,
}

pub(crate) fn run(report: &mut Report, costs: &[(&str, f64)]) {
    report.section("kernels, one worker, against host code of one thread (clang-19 -O2, not vectorised)");
    let mut machine = Machine::new();
    let (a, b) = (numbers(COUNT), numbers(2 * COUNT).split_off(COUNT as usize));
    let (at_a, at_b, out) = (machine.floats(&a), machine.floats(&b), machine.floats(&a));
    let vadd = Case {
        name: "vadd",
        title: format!("vadd of {COUNT}"),
        loaded: machine.load("vadd", &[at_a, at_b, out], COUNT, Launch::linear(COUNT / 256, 256)),
        out,
        length: COUNT as usize,
        tolerance: 0.0,
    };
    let tiles = Launch { grid: [SIDE, SIDE, 1], group: [16, 16, 1] };
    let matmul = Case {
        name: "matmul",
        title: format!("tiled matmul of {SIDE} x {SIDE}"),
        loaded: machine.load("matmul", &[at_a, at_b, out], SIDE, tiles),
        out,
        length: (SIDE * SIDE) as usize,
        tolerance: 0.0,
    };
    let softmax = Case {
        name: "softmax",
        title: format!("softmax of {ROWS} x {COLUMNS}"),
        loaded: machine.load("softmax", &[at_a, out], COLUMNS, Launch::linear(ROWS, 64)),
        out,
        length: (ROWS * COLUMNS) as usize,
        // The machine's exponential is good to about one unit in the last place.
        tolerance: 1e-4,
    };
    let empty = machine.load("vadd", &[at_a, at_b, out], 0, Launch::linear(COUNT / 256, 256));

    let mut result = vec![0.0; COUNT as usize];
    let times = match Host::compile() {
        Ok(host) => {
            let (a, b, to) = (a.as_ptr(), b.as_ptr(), result.as_mut_ptr());
            // SAFETY: the arrays have at least as many numbers as the functions are told.
            let sides: [&dyn Fn(); 3] = unsafe {
                [&|| (host.vadd)(a, b, to, COUNT), &|| (host.matmul)(a, b, to, SIDE), &|| {
                    (host.softmax)(a, to, ROWS, COLUMNS);
                }]
            };
            [&vadd, &matmul, &softmax]
                .into_iter()
                .zip(sides)
                .map(|(case, side)| compare(report, &mut machine, case, side, to))
                .collect()
        }
        Err(why) => {
            for case in [&vadd, &matmul, &softmax] {
                report.skip(&case.title, &why);
            }
            [&vadd, &matmul, &softmax].into_iter().map(|case| fastest(|| machine.run(&case.loaded))).collect::<Vec<_>>()
        }
    };
    let wave = fastest(|| machine.run(&empty)) / f64::from(COUNT / 64);
    report.row("a wave of vadd that has nothing to add, launch and end", wave * 1e9, "ns");
    for (case, seconds) in [&vadd, &matmul, &softmax].into_iter().zip(times) {
        shares::report(report, &mut machine, case.name, &case.loaded, seconds, costs);
    }
}

/// Both sides by turns; the seconds of the kernel. `result` is where the host's side writes.
fn compare(report: &mut Report, machine: &mut Machine, case: &Case, host: &dyn Fn(), result: *const f32) -> f64 {
    let (virtual_gpu, cpu) = by_turns(|| machine.run(&case.loaded), host);
    // SAFETY: the host's side has written so many numbers there, and no thread writes now.
    let expected = unsafe { std::slice::from_raw_parts(result, case.length) };
    let found = machine.read_floats(case.out, case.length);
    let far = found.iter().zip(expected).position(|(a, b)| (a - b).abs() > case.tolerance * b.abs() || a.is_nan());
    assert_eq!(far, None, "{}: the kernel and the host's code disagree", case.name);
    report.aimed(&case.title, virtual_gpu / cpu, "x", AIM);
    report.row(&format!("{}: kernel", case.title), virtual_gpu * 1e6, "us");
    report.row(&format!("{}: host", case.title), cpu * 1e6, "us");
    virtual_gpu
}

//! Time of a wave instruction in each kernel of the suite, and where the time of all of them goes.

use kfd_suite::suite;

use crate::machine::Machine;
use crate::measure::fastest_of;
use crate::report::Report;
use crate::shares::{self, Counts};

/// Rounds of each kernel: some of them are long.
const ROUNDS: u32 = 5;

pub(crate) fn run(report: &mut Report, costs: &[(&str, f64)]) {
    report.section("kernels of the suite, one worker: time of a wave instruction, launch and end included");
    let (mut counts, mut seconds) = (Counts::new(), 0.0);
    for test in suite::ALL {
        let Some(job) = test.job(1) else { continue };
        let mut machine = Machine::new();
        let loaded = machine.load_job(&job);
        let of_this = shares::count(&mut machine, &loaded);
        let time = fastest_of(ROUNDS, || machine.run(&loaded));
        let instructions: u64 = of_this.values().sum();
        let name = format!("{} ({instructions} instructions)", test.name);
        report.row(&name, time * 1e9 / instructions as f64, "ns");
        for (kind, count) in of_this {
            *counts.entry(kind).or_default() += count;
        }
        seconds += time;
    }
    shares::explain(report, "suite", &counts, seconds, costs);
}

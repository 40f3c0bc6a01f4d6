//! What it costs to take waves off the device and to bring them back, against copying as many bytes.

use std::sync::PoisonError;
use std::time::Instant;

use kfd_runtime::Launch;

use crate::machine::{Machine, Needs, QUEUE};
use crate::measure::ROUNDS;
use crate::report::{Aim, Report};

/// Loops of the kernel: more than it gets to do.
const LOOPS: u32 = 1 << 24;
const LANES: u32 = 64;

/// Waves of one kind that fill the machine's compute units.
struct Shape {
    name: &'static str,
    groups: u32,
    needs: Needs,
}

const SHAPES: [Shape; 3] = [
    Shape { name: "256 + 256 vector registers", groups: 16, needs: Needs { registers: Some((256, 256)), lds: 0 } },
    Shape { name: "64 KiB of LDS", groups: 4, needs: Needs { registers: None, lds: 64 << 10 } },
    Shape { name: "small", groups: 128, needs: Needs { registers: None, lds: 0 } },
];

/// Seconds of the fastest round of each.
struct Fastest {
    save: f64,
    restore: f64,
    copy: f64,
}

pub(crate) fn run(report: &mut Report) {
    report.section("save and restore of waves (against memcpy of the same bytes)");
    for shape in SHAPES {
        let mut machine = Machine::new();
        let out = machine.alloc(4 * u64::from(shape.groups * LANES));
        let launch = Launch::linear(shape.groups, LANES as u16);
        let loaded = machine.load_with("spin", &[out], LOOPS, launch, shape.needs);
        machine.submit(&loaded);
        // Every workgroup has run a little, and none has come to its end.
        for _ in 0..10 * shape.groups {
            machine.worker.turn(&machine.device);
        }
        let (waves, bytes) = extent(&machine);
        let name = format!("{waves} waves, {}: ", shape.name);
        report.row(&format!("{name}size"), bytes as f64 / 1024.0, "KiB");
        let Fastest { save, restore, copy } = measure(&machine, bytes);
        report.row(&format!("{name}memcpy"), copy * 1e6, "us");
        report.aimed(&format!("{name}save"), save / copy, "x", Aim::AtMost(2.5));
        report.aimed(&format!("{name}restore"), restore / copy, "x", Aim::AtMost(2.5));
    }
}

/// Waves that are saved, and their bytes.
fn extent(machine: &Machine) -> (u32, usize) {
    let mut device = machine.device.lock().unwrap_or_else(PoisonError::into_inner);
    device.suspend(QUEUE);
    let extent = device.save(QUEUE).expect("the waves fit");
    device.restore(QUEUE).expect("the saved waves are untouched");
    (extent.waves, extent.bytes as usize)
}

fn measure(machine: &Machine, bytes: usize) -> Fastest {
    let mut fastest = Fastest { save: f64::INFINITY, restore: f64::INFINITY, copy: f64::INFINITY };
    let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    let mut device = machine.device.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..ROUNDS {
        device.suspend(QUEUE);
        let begin = Instant::now();
        device.save(QUEUE).expect("the waves fit");
        let saved = begin.elapsed();
        device.restore(QUEUE).expect("the saved waves are untouched");
        let both = begin.elapsed();
        let begin = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
        fastest.copy = fastest.copy.min(begin.elapsed().as_secs_f64());
        fastest.save = fastest.save.min(saved.as_secs_f64());
        fastest.restore = fastest.restore.min((both - saved).as_secs_f64());
    }
    fastest
}

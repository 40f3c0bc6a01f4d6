//! `gpreempt load`: programs that use a gpu as applications do, for demonstrations and measurements.
//!
//! They print one JSON document per line. Times are those of the machine's monotonic clock, so that lines of several
//! programs can be put together.

mod args;
mod arrivals;
mod calibrate;
mod doorbell;
mod idle;
mod offline;
mod online;

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use kfd_suite::chain::{Chain, State, Work};
use linux_host::clock::monotonic_ns;
use serde::{Deserialize, Serialize};

pub use args::{Load, LoadCalibrate, LoadDoorbell, LoadIdle, LoadOffline, LoadOnline};

use arrivals::arrivals;

/// A kernel that takes longer is taken for lost.
const LOST: Duration = Duration::from_secs(120);

/// Runs one of the programs to its end.
///
/// # Errors
/// If the gpu or the driver refuses something, or the output cannot be written.
pub fn run(load: &Load, out: &mut impl Write) -> Result<()> {
    match load {
        Load::Online(options) => online::run(options, out),
        Load::Offline(options) => offline::run(options, out),
        Load::Calibrate(options) => calibrate::run(options, out),
        Load::Doorbell(options) => doorbell::run(options, out),
        Load::Idle(options) => idle::run(options, out),
    }
}

/// A line that a program prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(crate) enum Line {
    /// Everything is prepared.
    Ready {
        /// Workgroups of a kernel.
        groups: u32,
    },
    /// The first request could arrive from now on.
    Begin {
        /// Monotonic clock.
        at_ns: u64,
    },
    /// A request was answered, or given up.
    Request {
        /// Its number, from 0.
        request: u32,
        /// When it arrived, monotonic clock.
        arrived_ns: u64,
        /// When its first kernel was submitted; absent if that never happened.
        submitted_ns: Option<u64>,
        /// When it was answered; absent if it was given up.
        answered_ns: Option<u64>,
        /// Until it was answered, or given up: then it would have been longer.
        latency_us: f64,
    },
    /// A kernel has ended.
    Kernel {
        /// Its number, from 0.
        kernel: u32,
        /// Monotonic clock.
        ended_ns: u64,
    },
    /// A step of a training has ended.
    Step {
        /// Its number, from 0.
        step: u32,
        /// Monotonic clock.
        ended_ns: u64,
        /// Hash of all losses and parameters since the training began.
        checksum: String,
    },
    /// The training is over.
    Trained {
        /// Monotonic clock.
        at_ns: u64,
        /// Steps that ended.
        steps: u32,
    },
    /// Kernels of the wanted length have so many steps.
    Calibrated {
        /// Workgroups of a kernel.
        groups: u32,
        /// Steps of a kernel.
        steps: u32,
        /// How long one takes.
        kernel_us: f64,
    },
    /// Doorbells were rung.
    Doorbells {
        /// How long one took, the packet included: the median of batches.
        each_ns: f64,
    },
    /// Everything is over.
    End(End),
}

/// The result of the computation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// When the last kernel had ended, monotonic clock.
    pub(crate) at_ns: u64,
    /// Kernels that ran.
    pub(crate) kernels: u32,
    /// Runs of workgroups that are missing.
    pub(crate) lost: u64,
    /// Runs of workgroups that are too many.
    pub(crate) repeated: u64,
    /// Checksum of the result.
    pub(crate) checksum: String,
    /// Checksum of the same computation on the host.
    pub(crate) expected: String,
    /// Whether result and expectation agree in every bit.
    pub(crate) bit_identical: bool,
}

impl End {
    /// Compares what a chain computed with what it should have.
    fn of(chain: &Chain, work: Work) -> Result<End> {
        let at_ns = monotonic_ns();
        let kernels = chain.submitted();
        let (state, expected) = (chain.state()?, State::after(work, kernels));
        let (lost, repeated) = state.lost_and_repeated(kernels);
        let bits = |state: &State| state.values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let bit_identical =
            bits(&state) == bits(&expected) && state.marks == expected.marks && state.counts == expected.counts;
        Ok(End {
            at_ns,
            kernels,
            lost,
            repeated,
            checksum: state.checksum().to_string(),
            expected: expected.checksum().to_string(),
            bit_identical,
        })
    }
}

/// Prints a line at once: the trial waits for it.
fn say(line: &Line, out: &mut impl Write) -> Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

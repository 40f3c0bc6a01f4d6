//! Programs that other commands start on a virtual gpu. What they print is for those commands.

mod corpus;
mod tracer;
mod workload;

use std::io::Write;

use anyhow::Result;

use super::StormProgram;

pub(crate) use tracer::Summary;

/// Runs one of the programs that a storm starts.
///
/// # Errors
/// If a result is wrong, or the driver refuses something.
pub fn run(client: StormProgram, out: &mut impl Write) -> Result<()> {
    match client {
        StormProgram::Workload { rounds, long } => workload::run(rounds, long, out),
        StormProgram::Corpus { rounds, manifest, directory, long } => {
            corpus::run(rounds, &manifest, &directory, long, out)
        }
        StormProgram::Tracer { pid, suspends, seed } => tracer::run(kfd::Pid(pid), suspends, seed, out),
    }
}

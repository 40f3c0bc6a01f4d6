//! Programs that other commands start on a virtual gpu. What they print is for those commands.

mod corpus;
mod tracer;
mod workload;

use std::io::Write;

use anyhow::Result;

use crate::cli::VgpuClient;

pub(crate) use tracer::Summary;

pub(crate) fn run(client: VgpuClient, out: &mut impl Write) -> Result<()> {
    match client {
        VgpuClient::Workload { rounds, long } => workload::run(rounds, long, out),
        VgpuClient::Corpus { rounds, manifest, directory, long } => {
            corpus::run(rounds, &manifest, &directory, long, out)
        }
        VgpuClient::Tracer { pid, suspends, seed } => tracer::run(kfd::Pid(pid), suspends, seed, out),
    }
}

//! The kernels of the corpus, and one that counts its workgroups.

use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, bail};
use kfd_runtime::Runtime;
use kfd_suite::corpus::Corpus;
use kfd_suite::{Bench, suite};

use super::workload;

pub(super) fn run(rounds: u64, manifest: &Path, directory: &Path, steps: u32, out: &mut impl Write) -> Result<()> {
    let corpus = Corpus::open(manifest, directory)?;
    let runtime = Runtime::open()?;
    let device = runtime.device(0)?;
    let mut bench = Bench::new(device)?;
    let mut loaded = Vec::new();
    for kernel in corpus.kernels() {
        loaded.extend(corpus.load(kernel, &mut bench)?);
    }
    let counting = suite::find("exactly_once").context("the self-test has no kernel that counts workgroups")?;
    let (sender, lines) = mpsc::channel();
    thread::scope(|scope| {
        let long = scope.spawn(move || workload::keep_busy(device, rounds, steps, &sender));
        for round in 0..rounds {
            for kernel in &loaded {
                let checksum = corpus.run(kernel, &mut bench, round + 1)?;
                writeln!(out, "{} {round} {checksum}", kernel.name())?;
                out.flush()?;
            }
            writeln!(out, "{}", workload::run_one(counting, &mut bench, round)?)?;
        }
        for line in lines {
            writeln!(out, "{line}")?;
        }
        long.join().unwrap_or_else(|_| bail!("a thread panicked"))
    })
}

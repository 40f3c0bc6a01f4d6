//! Flags of `gpreempt vgpu storm`, and of the programs that it starts.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// A program that a storm is let loose on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StormClient {
    /// Kernels of the corpus, compiled with clang-19 and compared with the host bit by bit. Needs a checkout.
    Corpus,
    /// The kernels of `gpreempt selftest`, on several queues at once.
    Workload,
    /// A HIP program on real ROCm libraries. Needs a checkout and `cargo xtask setup`.
    Hip,
    /// Training with tinygrad. Its runtime does not offer itself to debuggers, so nobody can suspend its queues.
    Tinygrad,
}

/// Flags of `gpreempt vgpu storm`.
#[derive(Args)]
pub struct StormArgs {
    /// What to run.
    #[arg(long, value_enum)]
    pub client: StormClient,

    /// Preemptions by the device itself, at random instruction counts; at least so many.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub preemptions: u64,

    /// Preemptions by a tracer that suspends and resumes queues at random moments; at least so many.
    ///
    /// Without effect on tinygrad.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub suspends: u64,

    /// Instructions that a workgroup executes between two preemptions by the device, on average.
    ///
    /// Few instructions find more places to stop at, and slow everything down.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub mean_instructions: u64,

    /// Seed of everything random. Each run has a seed of its own that follows from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The programs that `gpreempt vgpu storm` and `stress` start on their virtual gpu.
#[derive(Subcommand)]
pub enum StormProgram {
    /// Run the kernels of the self-test on several queues and print a checksum for each.
    Workload {
        /// How often.
        #[arg(long, value_name = "N")]
        rounds: u64,
        /// Steps of the long kernel that runs beside the others. Results do not depend on them.
        #[arg(long, value_name = "N", default_value_t = 400_000)]
        long: u32,
    },

    /// Run the kernels of the corpus and print a checksum for each.
    Corpus {
        /// How often.
        #[arg(long, value_name = "N")]
        rounds: u64,
        /// The file that describes the corpus.
        #[arg(long, value_name = "FILE")]
        manifest: PathBuf,
        /// Where it was built.
        #[arg(long, value_name = "DIR")]
        directory: PathBuf,
        /// Steps of the long kernel that runs beside the others. Results do not depend on them.
        #[arg(long, value_name = "N", default_value_t = 400_000)]
        long: u32,
    },

    /// Suspend and resume queues of a process at random.
    Tracer {
        /// The process.
        #[arg(long, value_name = "PID")]
        pid: u32,
        /// How often.
        #[arg(long, value_name = "N")]
        suspends: u64,
        /// Of the random choices.
        #[arg(long, value_name = "N")]
        seed: u64,
    },
}

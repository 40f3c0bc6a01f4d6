//! Flags of `gpreempt vgpu`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use vgpu::launch::{KernelProfile, Mutant, Name, Storm};
use vgpu::profile::ReadIndexKind;

/// Options that select or define the virtual gpu.
#[derive(Args)]
pub(crate) struct VgpuGpu {
    /// Share one virtual gpu: the first command of this name starts it, the others join.
    ///
    /// Names are yours alone; other users have theirs. The gpu ends with its last program. Commands that join
    /// take it as it is: asking for another profile, other numbers or other faults than it has is an error.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<Name>,

    /// Share the gpu with other users: root starts it, the others join root's gpu of this name.
    ///
    /// Processes act on themselves alone, and debug others by the kernel's rules. Users who share a gpu can disturb
    /// each other's work.
    #[arg(long, requires = "name")]
    pub(crate) shared: bool,

    /// Built-in profile (see `gpreempt vgpu profiles`) or a TOML file; mi300x unless given.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) profile: Option<String>,

    /// Compute units of each gpu, a multiple of its XCCs.
    ///
    /// More units mean more waves in flight, which costs memory, not speed: the work is shared by the CPU's cores
    /// anyway.
    #[arg(long, value_name = "N")]
    pub(crate) cus: Option<u32>,

    /// Number of equal gpus; of partitions, if the profile is a partitioned gpu.
    ///
    /// Each has a runlist, compute units and memory of its own.
    #[arg(long, value_name = "N")]
    pub(crate) gpus: Option<u32>,

    /// When the read index of an AQL queue passes a packet: retire, fetch-rewound-at-save or fetch; as the profile says
    /// unless given.
    ///
    /// No document says which kind hardware has. Schedulers and debuggers that read the index must be right with each.
    #[arg(long, value_name = "KIND")]
    pub(crate) read_index: Option<ReadIndexKind>,

    /// Kernel whose driver is imitated (see `gpreempt vgpu kernels`): 6.12.107, 6.12.115, 7.2 or dkms; 6.12.115 unless
    /// given.
    ///
    /// Only 6.12.115 was run beside the real driver; the others were read, not run.
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Option<KernelProfile>,
}

/// Options that make the gpu misbehave.
#[derive(Args)]
#[command(next_help_heading = "Fault injection")]
pub(crate) struct VgpuFaults {
    /// Let the device preempt work at random: a seed, and instructions between two preemptions on average.
    ///
    /// Results must not change. For example `--storm 7:500`.
    #[arg(long, value_name = "SEED:MEAN")]
    pub(crate) storm: Option<Storm>,

    /// Let the device ignore the driver in this unmap-and-map cycle, counted from 1 over all gpus, or in the next that
    /// has a queue to unmap.
    ///
    /// The driver waits for the preemption timeout and then resets the gpu, as it does with a hung one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) hang_at_cycle: Option<u64>,

    /// How long the driver waits for queues to leave the device; 9000 unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=600_000))]
    pub(crate) preemption_timeout_ms: Option<u32>,

    /// Let every process sample program counters for so long after each stop of its queues by a debugger.
    ///
    /// AMD's DKMS driver answers EBUSY to every debug call about such a process, those that resume its queues among
    /// them; other drivers have no such sampling, so this needs `--kernel dkms`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=600_000))]
    pub(crate) sampling_after_stop_ms: Option<u32>,

    /// Break the driver on purpose, for tests of `gpreempt conformance`.
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) mutant: Option<Mutant>,
}

#[derive(Args)]
pub(crate) struct VgpuRun {
    #[command(flatten)]
    pub(crate) gpu: VgpuGpu,

    #[command(flatten)]
    pub(crate) faults: VgpuFaults,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct VgpuEnv {
    #[command(flatten)]
    pub(crate) gpu: VgpuGpu,

    /// Process that keeps the gpu alive; the parent of this command unless given.
    #[arg(long, value_name = "PID")]
    pub(crate) hold: Option<u32>,
}

#[derive(Args)]
pub(crate) struct VgpuShell {
    #[command(flatten)]
    pub(crate) gpu: VgpuGpu,

    /// Arguments for the shell.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct VgpuStatus {
    /// The gpu of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<Name>,

    /// The gpu is root's and shared.
    #[arg(long, requires = "name")]
    pub(crate) shared: bool,

    /// Print JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Instruction sets that the interpreter knows.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum IsaTarget {
    Gfx90a,
    Gfx942,
}

impl From<IsaTarget> for vgpu_isa::inst::Target {
    fn from(target: IsaTarget) -> Self {
        match target {
            IsaTarget::Gfx90a => Self::Gfx90a,
            IsaTarget::Gfx942 => Self::Gfx942,
        }
    }
}

//! The command line. These comments are the manual: the first line is the summary, the rest says effects, limits and
//! exit codes.

mod conformance;
mod control;
mod duration;
mod groups;
mod lab;
mod vgpu;

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueHint};
pub(crate) use conformance::Conformance;
pub(crate) use control::{
    Config, ConfigFile, Daemon, Hold, Launch, Log, Notify, OneProcess, Reach, Release, Report, Selector, Set, Watch,
};
use gpreempt_trials::bench::BenchArgs;
use gpreempt_trials::demo::DemoArgs;
use gpreempt_trials::load::Load;
use gpreempt_trials::soak::SoakArgs;
use gpreempt_trials::storm::{StormArgs, StormProgram};
use gpreempt_trials::stress::{StressArgs, StressClientArgs, StressTracerArgs};
use gpreemptd::actuate::{ActuatorChoice, ActuatorOptions};
pub(crate) use groups::{GROUPS, command, summaries};
use kfd_suite::suite::{self, Test};
pub(crate) use lab::{Compare, Lab, Plausibility, Run, Timeline};
pub(crate) use vgpu::{IsaTarget, VgpuEnv, VgpuFaults, VgpuGpu, VgpuRun, VgpuShell, VgpuStatus};

/// Preemptive priority scheduling for AMD GPUs.
///
/// Latency-critical work gets the gpu when it needs it: running work of lower priority is stopped between two
/// instructions and later continues where it stopped. Applications are neither modified nor aware.
///
/// Without a subcommand: `gpreempt ps`. `gpreempt COMMAND --help` explains a subcommand.
#[derive(Parser)]
#[command(name = "gpreempt", version, propagate_version = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) ps: Report,
}

/// Of the processes that the daemon starts.
#[derive(Args)]
pub(crate) struct ActuatorFlags {
    /// Which actuator: `auto`, `debug-trap`, `combined` or `kernel`.
    #[arg(long, default_value_t)]
    pub(crate) actuator: ActuatorChoice,

    /// How long the scheduler in the kernel keeps the policy without a daemon, in milliseconds.
    #[arg(long, default_value_t)]
    pub(crate) keep_ms: u64,

    /// Only print why the driver does not have it, if so.
    #[arg(long)]
    pub(crate) check: bool,
}

impl ActuatorFlags {
    /// Returns what the actuator is started with.
    pub(crate) fn options(&self) -> ActuatorOptions {
        ActuatorOptions { choice: self.actuator, keep: std::time::Duration::from_millis(self.keep_ms) }
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Manage the gpus of this machine, in the foreground.
    ///
    /// Only observes unless the configuration or --mode says `enforce`. SIGTERM and Ctrl-C end it and resume everything
    /// that it stopped. SIGHUP reloads the configuration. Messages go to stderr; GPREEMPT_LOG selects them, for example
    /// `debug`.
    Daemon(Daemon),

    /// Watches the actuator; started by `daemon`.
    #[command(hide = true)]
    Guardian(ActuatorFlags),

    /// Stops and resumes queues; started by `guardian`.
    #[command(hide = true)]
    Actuator(ActuatorFlags),

    /// Compare latencies with and without gpreempt, in one minute.
    ///
    /// Runs on this machine's gpu or on a virtual one. Requests that arrive at random meet kernels that fill the gpu:
    /// alone, without gpreempt and with gpreempt, in turns. Exits with code 1 if a single bit of a result is wrong, or
    /// if the requests were not delayed without gpreempt, so that the comparison shows nothing. Times are not judged on
    /// a machine that is busy with other work.
    Demo(DemoArgs),

    /// Kill and stop processes at random under gpreempt; check results.
    ///
    /// Several programs compute on this machine's gpu or on a virtual one under the daemon. Daemon, guardian, actuator
    /// and programs are killed or stopped and replaced while levels, holds and rules change. Exits with code 1 if a
    /// result is wrong, a program makes no progress, a process stays stopped or traced without a daemon, anything is
    /// left at the end, or too little happened.
    Soak(SoakArgs),

    /// Measure overhead and latencies against their goals.
    ///
    /// Runs on this machine's gpu or on a virtual one. Added latency, throughput kept, detection against processor
    /// time, doorbells, many tenants, cycles: each against its goal, all ratios within the run. Takes about four
    /// minutes and needs a machine without other load: on a busy one no goal is judged. A missed goal is reported with
    /// its measurements and does not change the exit code.
    Bench(BenchArgs),

    /// Programs that `demo`, `bench` and `soak` start.
    #[command(hide = true)]
    Load {
        #[command(subcommand)]
        load: Load,
    },

    /// List processes on the gpus: level, state, and why stopped.
    ///
    /// One line for each process and gpu. States: running, wants (its work waits for the gpu), blocked (it waits for
    /// something that gpu time does not bring), evicted (the driver took its memory), idle, stopped, unknown (no
    /// other job competes on the gpu, or the rings are not known or not polled yet). Level `-` means that
    /// the process is never stopped and never protected: no rule gives it a level, it or the gpu is unmanaged, or there
    /// is no room for another job. Users see their own processes, operators see all.
    Ps(Report),

    /// Run a program at a level.
    ///
    /// Sets GPREEMPT_LEVEL and GPREEMPT_JOB, permits the daemon to trace the program, and becomes the program: exit
    /// code, signals and job control are the program's own. Without a daemon the program runs as usual, with a warning.
    Run(Launch),

    /// Change the level of a job until it ends.
    ///
    /// Users may change their own jobs up to the `max_level` of the rule; operators may set any level.
    Set(Set),

    /// Stop a job for a time.
    ///
    /// The hold ends after --for, with `gpreempt release`, or with the job. The waves of the job are saved and continue
    /// where they stopped.
    Hold(Hold),

    /// End a hold early.
    Release(Release),

    /// Take a process out of scheduling: never stopped, never protected.
    ///
    /// The daemon resumes and detaches from the process, for instance so that a debugger can attach. Lasts until
    /// `gpreempt manage` or the end of the process, across restarts of the daemon. Only for operators: root and the
    /// user who runs the daemon.
    Unmanage(OneProcess),

    /// Undo `unmanage`: the rules apply to the process again.
    ///
    /// A process that is managed already stays as it is. Only for operators: root and the user who runs the daemon.
    Manage(OneProcess),

    /// Show past events: stops, their causes, reasons and durations.
    Log(Log),

    /// Show counters, latencies and processor use of the daemon.
    ///
    /// Since the daemon started, by gpu: detection, plan, actuation, stopped time and cycles.
    Stats(Report),

    /// Show events as they happen, until Ctrl-C.
    Watch(Watch),

    /// Check whether this machine can be managed, with remedies.
    ///
    /// Exits with code 1 if a check fails. `warn` means that gpreempt works less well; `unknown`, that this machine
    /// does not provide the information.
    Doctor(Report),

    /// Check, print or create a configuration.
    Config {
        #[command(subcommand)]
        action: Config,
    },

    /// Reload the configuration of the daemon.
    ///
    /// A file with an error is refused with file and line, and the old configuration stays in effect. Only for
    /// operators: root and the user who runs the daemon.
    Reload(Report),

    /// Tell the daemon that work was submitted just now.
    ///
    /// The daemon looks at the rings at once instead of at its next period.
    Notify(Notify),

    /// Compare preemption mechanisms in simulated time; needs no gpu.
    ///
    /// A model of gpus, rings, runlists and compute units runs a workload under each mechanism. All numbers are
    /// simulated: they rank mechanisms and show what dominates, they do not predict a machine.
    Lab {
        #[command(subcommand)]
        experiment: Lab,
    },

    /// Run kernels with known results on every gpu and compare.
    ///
    /// Talks to the driver directly: memory, queues, copies, signals and code of its own, no other runtime. Exits with
    /// code 1 if any result is wrong. Without a gpu, `gpreempt vgpu run -- gpreempt selftest` uses a virtual one.
    Selftest(Selftest),

    /// Test the rules of the driver that gpreempt relies on.
    ///
    /// Processes of its own create queues, debug each other and make mistakes on purpose; nothing of any other process
    /// is touched, but each stop takes all queues off the gpu for a moment, so it refuses to run while other processes
    /// have queues there. Exits with code 1 if a rule is broken. Without a gpu, `gpreempt vgpu run -- gpreempt
    /// conformance` tests the virtual one.
    Conformance(Conformance),

    /// A process of a test, started by `conformance`.
    #[command(hide = true)]
    ConformanceActor,

    /// Run programs on a virtual MI300; needs no gpu.
    ///
    /// Unmodified programs find a gpu, load code and launch kernels through the normal driver interface; the machine
    /// code is executed on the CPU. Results are real, times are not those of any gpu.
    Vgpu {
        #[command(subcommand)]
        action: Vgpu,
    },

    /// Print the completion script of a shell.
    ///
    /// For example `gpreempt completions bash > /etc/bash_completion.d/gpreempt`.
    Completions {
        /// The shell to complete in.
        shell: clap_complete::Shell,
    },

    /// Write the manual pages, one file per subcommand.
    Man {
        /// An existing directory, such as /usr/local/share/man/man1.
        #[arg(value_hint = ValueHint::DirPath)]
        directory: PathBuf,
    },
}

#[derive(Subcommand)]
pub(crate) enum Vgpu {
    /// Run a program that finds a virtual gpu.
    ///
    /// The program, and everything it starts, sees /dev/kfd, a render node and the driver's files in /sys. This command
    /// becomes the program: exit code, signals and job control are the program's own. The directory of this executable
    /// comes first in its PATH, so `gpreempt` inside is this build.
    Run(VgpuRun),

    /// Print shell commands that put a virtual gpu under everything a shell starts from now on.
    ///
    /// For example `eval "$(gpreempt vgpu env --hold $$)"`. The gpu lives as long as the process named with --hold and
    /// the programs that use it.
    Env(VgpuEnv),

    /// Run your shell with a virtual gpu under everything it starts.
    ///
    /// The shell is the one in SHELL. GPREEMPT_VGPU_PROMPT holds text for its prompt:
    /// `PS1="$GPREEMPT_VGPU_PROMPT$PS1"` in the shell's start-up file shows it.
    Shell(VgpuShell),

    /// List your virtual gpus that have a name.
    List {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },

    /// Report processes, queues, memory and preemptions of a virtual gpu.
    ///
    /// Inside a virtual gpu, reports that gpu; elsewhere, the one that --name selects.
    Status(VgpuStatus),

    /// Describe the built-in gpus, or print one as a file to start from.
    Profiles {
        /// Print this profile as TOML.
        name: Option<String>,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },

    /// Describe the kernels whose driver can be imitated, and where they differ.
    Kernels {
        /// Print JSON instead of tables.
        #[arg(long)]
        json: bool,
    },

    /// Report which instructions the interpreter executes.
    ///
    /// An opcode counts only if a passing test names it.
    Isa {
        /// Instruction set: MI200 has gfx90a, MI300 gfx942.
        #[arg(long, value_enum, default_value_t = IsaTarget::Gfx942)]
        target: IsaTarget,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },

    /// Preempt a program thousands of times and compare what it computes.
    ///
    /// The program runs once undisturbed, then again and again while the device stops its waves at random instructions
    /// and a tracer suspends and resumes its queues through the driver's debug interface. Exits with code 1 if a single
    /// bit of a result differs.
    Storm(StormArgs),

    /// Programs that `storm` starts.
    #[command(hide = true)]
    Client {
        #[command(subcommand)]
        client: StormProgram,
    },

    /// Run, stop and kill many processes on one virtual gpu, and check that nothing is left of them.
    ///
    /// Processes run kernels with known results on queues that come and go; others stop and resume those queues; all
    /// are killed at critical points of the code and replaced. Exits with code 1 if a result is wrong, a surviving
    /// process cannot finish its work, or anything is left after all have ended.
    Stress(StressArgs),

    /// A process that computes, started by `stress`.
    #[command(hide = true)]
    StressClient(StressClientArgs),

    /// A process that stops others, started by `stress`.
    #[command(hide = true)]
    StressTracer(StressTracerArgs),

    /// The driver's process, started by `run`.
    #[command(hide = true)]
    Supervise {
        /// Leave the launcher first.
        #[arg(long)]
        detach: bool,
    },
}

#[derive(Args)]
pub(crate) struct Selftest {
    /// Only this gpu, counted from 0 in the order of the driver's topology.
    #[arg(long, value_name = "N")]
    pub(crate) gpu: Option<usize>,

    /// Only these kernels, in this order. May be repeated.
    #[arg(long = "kernel", value_name = "NAME", value_parser = test_by_name(), hide_possible_values = true)]
    pub(crate) kernels: Vec<&'static Test>,

    /// Seed of the inputs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Takes the names of all kernels of the suite, which completion offers, too.
fn test_by_name() -> impl TypedValueParser<Value = &'static Test> {
    let name = |test: &Test| PossibleValue::new(test.name).help(test.about);
    PossibleValuesParser::new(suite::ALL.iter().map(name))
        .try_map(|name| suite::find(&name).ok_or("there is no such kernel"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

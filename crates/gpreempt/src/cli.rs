//! The command line. These comments are the manual: the first line is the summary, what follows is the trade-off.

mod control;
mod duration;
mod lab;
mod vgpu;

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueHint};
pub(crate) use control::{
    Config, ConfigFile, Daemon, Hold, Launch, Log, Notify, OneProcess, Reach, Release, Report, Set, Watch, Whom,
};
use gpreempt_trials::bench::BenchArgs;
use gpreempt_trials::demo::DemoArgs;
use gpreempt_trials::load::Load;
use gpreempt_trials::soak::SoakArgs;
use gpreempt_trials::storm::{StormArgs, StormProgram};
use gpreempt_trials::stress::{StressArgs, StressClientArgs, StressTracerArgs};
use kfd_suite::suite::{self, Test};
pub(crate) use lab::{Compare, Lab, Plausibility, Run, Timeline};
pub(crate) use vgpu::{VgpuEnv, VgpuFaults, VgpuGpu, VgpuRun, VgpuShell, VgpuStatus};

/// Preemptive priority scheduling for AMD GPUs.
///
/// Latency-critical work gets the gpu when it needs it: running work of lower priority is stopped between two
/// instructions and later continues where it was. Applications are neither modified nor aware.
///
/// Without a subcommand: `gpreempt ps`.
#[derive(Parser)]
#[command(name = "gpreempt", version, propagate_version = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) ps: Report,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Manage the gpus of this machine, in the foreground.
    ///
    /// Only observes unless the configuration or --mode says `enforce`. SIGTERM and Ctrl-C end it: everything it stopped runs
    /// again. SIGHUP reads the configuration again. Messages go to stderr; GPREEMPT_LOG chooses which, such as `debug`.
    Daemon(Daemon),

    /// Watches the actuator, started by `daemon`.
    #[command(hide = true)]
    Guardian,

    /// Carries out orders, started by `guardian`.
    #[command(hide = true)]
    Actuator,

    /// Show what gpreempt is worth, on this machine's gpu or on a virtual one.
    ///
    /// Requests that arrive at random meet kernels that fill the gpu: alone, without gpreempt and with it, in turns. Takes
    /// about a minute. Ends with code 1 if a single bit of a result is wrong, or if the requests did not suffer without
    /// gpreempt, so that nothing was shown.
    Demo(DemoArgs),

    /// Kill and stop everybody at random moments while gpreempt works, and look for what goes wrong.
    ///
    /// Several programs compute on this machine's gpu or on a virtual one, the daemon comes between them, and daemon, guardian,
    /// actuator and programs are killed or stopped and replaced while levels, holds and rules change. Ends with code 1 if a
    /// result is wrong, a program does not move on, anybody stays stopped or traced without a daemon, anything is left at the
    /// end, or too little happened.
    Soak(SoakArgs),

    /// Measure what gpreempt costs and promises, on this machine's gpu or on a virtual one.
    ///
    /// Added latency, throughput kept, detection against processor time, doorbells, many tenants, cycles: each against its
    /// goal, all ratios within the run. Takes about four minutes and wants a machine that does nothing else. A missed goal is
    /// reported with what was measured beside it and does not change the exit code.
    Bench(BenchArgs),

    /// Programs that `demo`, `bench` and `soak` start.
    #[command(hide = true)]
    Load {
        #[command(subcommand)]
        load: Load,
    },

    /// Show who uses the gpus, at which level, and what is stopped and why.
    ///
    /// One line for each process and gpu. States: running, wants (its work waits for the gpu), blocked (it waits for
    /// something that gpu time does not bring), evicted (the driver needs its memory), idle, stopped. Level `-` means that
    /// no rule matches: such a process is never stopped and causes no stop. Users see their own processes, root sees all.
    Ps(Report),

    /// Run a program at a level.
    ///
    /// Asks with GPREEMPT_LEVEL and GPREEMPT_JOB in its environment, lets the daemon trace it, and becomes the program: exit
    /// code, signals and job control are the program's own. Without a daemon the program runs all the same, with a warning.
    Run(Launch),

    /// Give a process or a job another level, until it ends.
    ///
    /// Users may lower the level of their own, and raise it up to what the rules allow them.
    Set(Set),

    /// Stop a job by hand, for a time.
    ///
    /// A lease: it ends after --for, with `gpreempt release`, or with the job. Its waves are saved and go on where they were.
    Hold(Hold),

    /// End a hold before its time.
    Release(Release),

    /// Leave a process alone: it is never stopped and never protected. Operators only.
    ///
    /// The daemon detaches from the process, for instance so that a debugger can attach, and resumes what it had stopped.
    /// Lasts until `gpreempt manage` or the end of the process, across restarts of the daemon. For root and the user who runs
    /// the daemon.
    Unmanage(OneProcess),

    /// Apply the rules to an unmanaged process again. Operators only.
    ///
    /// Undoes `gpreempt unmanage`. A process that is managed already stays as it is.
    Manage(OneProcess),

    /// Show what happened: who stopped whom, under which rule, for how long.
    Log(Log),

    /// Show counters and times since the daemon started: detection, plan, actuation, stopped; cycles; processor use.
    Stats(Report),

    /// Show what happens, as it happens. Ctrl-C ends it.
    Watch(Watch),

    /// Check whether this machine can be managed, and say what to do where it cannot.
    ///
    /// Ends with code 1 if a check failed. A warning means that something works less well; `unknown`, that this machine does
    /// not tell.
    Doctor(Report),

    /// Check, print or begin a configuration.
    Config {
        #[command(subcommand)]
        action: Config,
    },

    /// Let the daemon read its configuration again. Root only.
    ///
    /// A file with a fault is refused with its place, and the old rules stay.
    Reload(Report),

    /// Tell the daemon that work was submitted just now, so that it looks at once.
    Notify(Notify),

    /// Compare preemption mechanisms in virtual time. Needs no gpu.
    ///
    /// A model of gpus, rings, runlists and compute units runs a workload under each mechanism. All numbers are simulated:
    /// they rank mechanisms and show what dominates, they do not predict a machine.
    Lab {
        #[command(subcommand)]
        experiment: Lab,
    },

    /// Run kernels with known results on every gpu and check what they compute.
    ///
    /// Talks to the driver directly: memory, queues, copies, signals and code of its own, no other runtime. Ends with code 1
    /// if any result is wrong. Without a gpu, `gpreempt vgpu run -- gpreempt selftest` tries the virtual one.
    Selftest(Selftest),

    /// Run programs on a virtual MI300. Needs no gpu.
    ///
    /// Unmodified programs find a gpu, load code and launch kernels through the normal driver interface; the machine code
    /// is executed on the CPU. Results are real, times are not those of any gpu.
    Vgpu {
        #[command(subcommand)]
        action: Vgpu,
    },

    /// Print completions for a shell.
    ///
    /// For example `gpreempt completions bash > /etc/bash_completion.d/gpreempt`.
    Completions {
        /// The shell to complete in.
        shell: clap_complete::Shell,
    },

    /// Write the manual pages into a directory, one file per subcommand.
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
    /// For example `eval "$(gpreempt vgpu env --hold $$)"`. The gpu is gone when the process named with --hold is.
    Env(VgpuEnv),

    /// Run your shell with a virtual gpu under everything it starts.
    ///
    /// The shell is the one in SHELL. GPREEMPT_VGPU_PROMPT holds a few words for its prompt: `PS1="$GPREEMPT_VGPU_PROMPT$PS1"`
    /// in the shell's start-up file shows them.
    Shell(VgpuShell),

    /// List your virtual gpus that have a name.
    List {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },

    /// Report processes, queues, memory and preemptions of a virtual gpu.
    ///
    /// Inside a virtual gpu, that one; elsewhere the one that is named.
    Status(VgpuStatus),

    /// Describe the built-in gpus, or print one as a file to start from.
    Profiles {
        /// Print this profile as TOML.
        name: Option<String>,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },

    /// Report which instructions the interpreter executes.
    ///
    /// An opcode counts only if a passing test of that very opcode names it.
    Isa {
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },

    /// Preempt a program thousands of times and compare what it computes.
    ///
    /// The program runs once undisturbed, then again and again while the device stops its waves at random instructions and
    /// a tracer suspends and resumes its queues through the driver's debug interface. Ends with code 1 if a single bit of
    /// a result differs.
    Storm(StormArgs),

    /// Programs that `storm` starts.
    #[command(hide = true)]
    Client {
        #[command(subcommand)]
        client: StormProgram,
    },

    /// Let many processes compute, be stopped and be killed on one virtual gpu, and look for what is left of them.
    ///
    /// Processes run kernels with known results on queues that come and go; others stop and resume those queues; all are
    /// killed at points of the code where it hurts, and replaced. Ends with code 1 if a result is wrong, somebody who
    /// survived cannot end its work, or anything is left when all are gone.
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

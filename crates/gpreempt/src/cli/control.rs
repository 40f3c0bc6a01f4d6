//! Flags of the commands that talk to the daemon, and of the daemon.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use gpreempt_proto::{Mode, Target};

use super::duration;

/// Options that select the daemon.
#[derive(Args)]
pub(crate) struct Reach {
    /// Socket of the daemon.
    ///
    /// Default: GPREEMPT_SOCKET; else /run/gpreempt/control.sock, if it exists; else gpreempt/control.sock below
    /// XDG_RUNTIME_DIR, where a daemon without root listens.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
}

/// Options of all commands that print a report.
#[derive(Args)]
pub(crate) struct Report {
    /// Print JSON instead of text.
    ///
    /// Keys carry their unit (`since_s`) and do not change within a schema version.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// A process or a job.
#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct Selector {
    /// A process, by its number outside of containers.
    ///
    /// The command applies to the whole job of the process: the processes of a job stop and run together.
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,

    /// A job, by the name that `gpreempt ps` shows.
    #[arg(long, value_name = "NAME")]
    pub(crate) job: Option<String>,
}

impl Selector {
    pub(crate) fn target(&self) -> Option<Target> {
        let job = || self.job.clone().map(Target::Job);
        self.pid.map(Target::Pid).or_else(job)
    }
}

#[derive(Args)]
pub(crate) struct Set {
    /// The level, 0 to 15; higher wins.
    #[arg(value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=15))]
    pub(crate) level: u8,

    #[command(flatten)]
    pub(crate) selector: Selector,

    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Args)]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) selector: Selector,

    /// Duration, such as 90s, 10m or 1h; at most `hold_max_s` of the configuration.
    ///
    /// A hold ends by itself, so that no job stays stopped by oversight.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = duration::whole_seconds)]
    pub(crate) seconds: u64,

    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Args)]
pub(crate) struct Release {
    /// Taken only to be refused with the name of the command that was perhaps meant.
    #[arg(hide = true)]
    pub(crate) bare: Option<String>,

    #[command(flatten)]
    pub(crate) selector: Selector,

    #[command(flatten)]
    pub(crate) report: Report,
}

/// Options of `unmanage` and `manage`.
#[derive(Args)]
pub(crate) struct OneProcess {
    /// The process, by its number outside of containers.
    #[arg(value_name = "PID")]
    pub(crate) pid: u32,

    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Args)]
pub(crate) struct Log {
    /// Show only events of the last 30s, 10m, 2h or the like.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) since: Option<Duration>,

    #[command(flatten)]
    pub(crate) selector: Selector,

    /// Show at most this many events, the newest.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=3000))]
    pub(crate) limit: u32,

    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Args)]
pub(crate) struct Watch {
    /// Print one JSON document per line instead of text.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

#[derive(Args)]
pub(crate) struct Notify {
    /// The process that submitted the work; the parent of this command unless given.
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,

    #[command(flatten)]
    pub(crate) report: Report,
}

/// Options of `run`, not to be confused with `lab run`.
#[derive(Args)]
pub(crate) struct Launch {
    /// The level to ask for, 0 to 15; higher wins.
    ///
    /// The rules of the configuration limit the level by user, group or container.
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=15))]
    pub(crate) level: u8,

    /// Name of the job. Processes of one job stop and run together.
    ///
    /// Give all ranks of a distributed program the same name: stopping one of them only makes the others spin.
    #[arg(long, value_name = "NAME", value_parser = job_name)]
    pub(crate) job: Option<String>,

    #[command(flatten)]
    pub(crate) reach: Reach,

    /// The program and its arguments.
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub(crate) command: Vec<OsString>,
}

#[derive(Subcommand)]
pub(crate) enum Config {
    /// Report errors and warnings. Exits with code 2 if the daemon would refuse the file.
    Check(ConfigFile),

    /// Print the configuration in effect with all defaults, and the bounds that follow from it.
    ///
    /// Bounds are printed as comments beside each rule: the longest time that its jobs wait for lower jobs, and the
    /// longest time that they stay stopped. They depend on the estimated cycle time until a cycle has been measured.
    Print(ConfigFile),

    /// Print a commented configuration to start from.
    ///
    /// For example `gpreempt config init > /etc/gpreempt/gpreempt.toml`. The configuration only observes.
    Init,
}

#[derive(Args)]
pub(crate) struct ConfigFile {
    /// The file; /etc/gpreempt/gpreempt.toml unless given.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,

    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Daemon {
    /// The configuration; /etc/gpreempt/gpreempt.toml unless given. Without a file nothing is managed.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,

    /// Path of the control socket, instead of the default.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,

    /// The mode, instead of that of the configuration.
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<ModeName>,

    /// Poll rings without sleeping, on this core.
    ///
    /// Detects work within microseconds and uses all of the core. For servers with cores to spare.
    #[arg(long, value_name = "N")]
    pub(crate) spin_core: Option<usize>,
}

/// Whether the daemon acts.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ModeName {
    /// Report inversions and the stops that would have been made. Nothing is traced, nothing is stopped.
    Observe,
    /// Stop and resume.
    Enforce,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Mode {
        match name {
            ModeName::Observe => Mode::Observe,
            ModeName::Enforce => Mode::Enforce,
        }
    }
}

/// Checks a name of a job as the daemon does.
fn job_name(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if (1..=64).contains(&text.len()) && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err("expected 1 to 64 letters, digits, dots, dashes or underscores".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jobs_can_be_shown_and_typed() {
        assert_eq!(job_name("train-7"), Ok("train-7".to_owned()));
        for text in ["", "a b", "a\n", "a/b", "ä", &"x".repeat(65)] {
            assert!(job_name(text).is_err(), "{text:?} was accepted");
        }
    }
}

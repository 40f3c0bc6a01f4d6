//! Loads for the timed engine: packets that last a stated time and compute nothing.
//!
//! They run in the guest of `cargo xtask kernel`, whose device takes the duration of a packet from the packet. Under
//! counted instructions all times are virtual.
#![forbid(unsafe_code)]

mod latency;
mod offline;
mod online;
mod queues;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, value_parser};
use kfd_runtime::Device;
use serde::Serialize;

/// Longest wait for a packet before the gpu is taken for lost.
const LOST: Duration = Duration::from_secs(120);

/// Most packets that a queue holds at once. Rings have some more slots.
const MOST_QUEUED: i64 = 1000;

/// Most waves of a packet: its grid counts work-items, 64 a wave, in 32 bits.
const MOST_WAVES: i64 = (u32::MAX / 64) as i64;

/// Loads for the timed engine of kernel/vmi300: packets that last a stated time and compute nothing.
///
/// They name no kernel. Only the timed engine can run them: the virtual gpu of `gpreempt vgpu` and a real gpu execute
/// code and stop the queue with an error. Times are those of the clock of the machine, which is virtual in a guest
/// whose instructions are counted.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    load: Load,
}

#[derive(Subcommand)]
enum Load {
    /// Send one packet per request, wait for it, and print the latencies of the requests.
    Online(Online),
    /// Keep the queue full until SIGTERM, SIGINT or the end of the time, and count packets.
    Offline(Offline),
    /// Open many queues in many processes at once and run packets on each of them.
    Queues(Queues),
}

/// Options of every load.
#[derive(Args, Clone)]
struct Common {
    /// The gpu, counted from 0.
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    gpu: usize,

    /// How many waves a packet occupies meanwhile; without it, as many as the gpu holds.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=MOST_WAVES))]
    waves: Option<u32>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Online {
    /// How many requests to send.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..))]
    requests: u32,

    /// How long the packet of a request lasts.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1000, value_parser = value_parser!(u64).range(1..))]
    duration_us: u64,

    /// Pause between the end of a request and the next one.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 10_000)]
    gap_us: u64,

    /// Lengthen each pause by a random time below this. The sequence is the same in every run.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    jitter_us: u64,

    /// Send so many requests more, before those that count.
    #[arg(long, value_name = "N", default_value_t = 0)]
    warm_up: u32,

    /// Tell the daemon of each request, after its doorbell.
    #[arg(long)]
    notify: bool,

    /// Also print when each request arrived, in nanoseconds of the monotonic clock.
    #[arg(long)]
    arrivals: bool,

    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Offline {
    /// How long a packet lasts.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 20_000, value_parser = value_parser!(u64).range(1..))]
    duration_us: u64,

    /// How many packets are queued at any time.
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = value_parser!(u32).range(1..=MOST_QUEUED))]
    depth: u32,

    /// End after so many seconds.
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    seconds: Option<Duration>,

    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Queues {
    /// How many processes to start.
    #[arg(long, value_name = "P", default_value_t = 2, value_parser = value_parser!(u32).range(1..))]
    processes: u32,

    /// How many queues each process opens.
    #[arg(long, value_name = "Q", default_value_t = 4, value_parser = value_parser!(u32).range(1..))]
    queues: u32,

    /// How many packets each queue runs.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u32).range(1..=MOST_QUEUED))]
    packets: u32,

    /// How long a packet lasts.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 200, value_parser = value_parser!(u64).range(1..))]
    duration_us: u64,

    /// Be one of the processes: open the queues, say so, wait for a line, run.
    #[arg(long, hide = true)]
    member: bool,

    #[command(flatten)]
    common: Common,
}

impl Common {
    /// Returns how many waves a packet occupies.
    fn waves(&self, device: &Device) -> u32 {
        let gpu = &device.node().gpu;
        self.waves.unwrap_or_else(|| gpu.cus.saturating_mul(gpu.waves_per_cu).max(1))
    }
}

fn main() -> ExitCode {
    let result = match Cli::parse().load {
        Load::Online(options) => online::run(&options),
        Load::Offline(options) => offline::run(&options),
        Load::Queues(options) => queues::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a report: as JSON if that was asked for, else as the lines of `text`.
fn print(report: &impl Serialize, common: &Common, text: impl FnOnce() -> String) -> Result<()> {
    if common.json {
        println!("{}", serde_json::to_string(report)?);
    } else {
        println!("{}", text());
    }
    Ok(())
}

/// Reads a time in seconds.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_and_counts_that_make_no_sense_are_refused() {
        let parse = |words: &str| Cli::try_parse_from(words.split(' ')).is_ok();
        assert!(parse("load offline --seconds 1.5 --depth 1000 --duration-us 1"));
        for words in ["--seconds -1", "--seconds x", "--depth 0", "--depth 1001", "--duration-us 0"] {
            assert!(!parse(&format!("load offline {words}")), "{words}");
        }
        assert!(!parse("load online --waves 0") && parse("load online --waves 9728"));
        assert!(!parse("load online --requests 0") && !parse("load queues --processes 0"));
    }

    #[test]
    fn help_says_which_device_can_run_it() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("Only the timed engine can run them"), "{help}");
    }
}

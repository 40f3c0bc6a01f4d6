//! Reads the text of a configuration: every key with its range and default.

mod gpu;
mod rule;
mod values;

use gpreempt_proto::Mode;
use toml_source::{Document, Source, Table};

use crate::actuate::ActuatorChoice;

use super::accounts::Accounts;
use super::{Account, Breaker, Config, ConfigError, Watch, WatchMethod};

pub(super) use self::gpu::KEYS as GPU_KEYS;
pub(super) use self::rule::KEYS as RULE_KEYS;

/// Keys outside of tables.
pub(super) const TOP_KEYS: &[&str] = &[
    "mode",
    "actuator",
    "keep_s",
    "scan_ms",
    "grace_kiloclocks",
    "term_grace_ms",
    "hold_max_s",
    "log_events",
    "watch",
    "breaker",
    "rule",
    "gpu",
];

/// Keys of `[watch]`.
pub(super) const WATCH_KEYS: &[&str] =
    &["cpu", "period_us", "fixed", "spin_core", "method", "kernel_period_ms", "net_ms"];

/// Keys of `[breaker]`.
pub(super) const BREAKER_KEYS: &[&str] =
    &["failures", "slow", "slow_after_ms", "window_s", "pause_s", "longest_s", "control_one_in"];

/// Most rules of a file: each new process is compared with all of them.
const MAX_RULES: usize = 1000;

/// Most `[[gpu]]` entries: as many as a machine may have gpus.
const MAX_GPUS: usize = gpreempt_core::GpuSet::CAPACITY;

/// Reads a configuration. Reports every mistake of the text, not only the first.
pub(super) fn config(source: &Source) -> Result<Config, ConfigError> {
    let document = Document::parse(source)?;
    let config = top(&document.root(TOP_KEYS));
    Ok(document.finish(config)?)
}

fn top(root: &Table<'_>) -> Config {
    let default = Config::default();
    let modes = [("observe", Mode::Observe), ("enforce", Mode::Enforce)];
    let rules = rule::rules(&root.field("rule").tables(MAX_RULES, RULE_KEYS));
    let gpus = root.field("gpu").tables(MAX_GPUS, GPU_KEYS).iter().filter_map(gpu::gpu).collect();

    // Only rules need names of users.
    let mut accounts = if rules.is_empty() { Accounts::default() } else { Accounts::of_this_machine() };
    for rule in &rules {
        if let Some(Account::One { id, name: Some(name) }) = &rule.trusted.user {
            accounts.add(*id, name);
        }
    }
    Config {
        source: None,
        mode: root.field("mode").choice(&modes).unwrap_or_default(),
        actuator: root.field("actuator").choice(&ActuatorChoice::WORDS).unwrap_or_default(),
        keep: root.field("keep_s").duration(0.0..=3600.0).unwrap_or(default.keep),
        scan: root.field("scan_ms").duration(1.0..=10.0).unwrap_or(default.scan),
        watch: root.field("watch").table(WATCH_KEYS).map_or(default.watch, |table| watch(&table)),
        grace_kiloclocks: root.field("grace_kiloclocks").byte(1..=u8::MAX),
        term_grace: root.field("term_grace_ms").duration(0.0..=600_000.0).unwrap_or(default.term_grace),
        hold_max: root.field("hold_max_s").duration(1.0..=604_800.0).unwrap_or(default.hold_max),
        breaker: root.field("breaker").table(BREAKER_KEYS).map_or(default.breaker, |table| breaker(&table)),
        log_events: root.field("log_events").whole(0..=1_000_000).map_or(default.log_events, |events| events as usize),
        rules,
        gpus,
        accounts,
    }
}

fn watch(table: &Table<'_>) -> Watch {
    let default = Watch::default();
    Watch {
        cpu: table.field("cpu").number(0.001..=1.0, "").unwrap_or(default.cpu),
        period: table.field("period_us").duration(10.0..=10_000.0).unwrap_or(default.period),
        fixed: table.field("fixed").flag().unwrap_or(default.fixed),
        spin_core: table.field("spin_core").whole(0..=4095).map(|core| core as usize),
        method: table.field("method").choice(&WatchMethod::WORDS).unwrap_or_default(),
        kernel_period: table.field("kernel_period_ms").duration(0.05..=1000.0).unwrap_or(default.kernel_period),
        net: table.field("net_ms").duration(10.0..=60_000.0).unwrap_or(default.net),
    }
}

fn breaker(table: &Table<'_>) -> Breaker {
    let default = Breaker::default();
    let breaker = Breaker {
        failures: table.field("failures").whole(1..=10_000).unwrap_or(default.failures),
        slow: table.field("slow").whole(1..=10_000).unwrap_or(default.slow),
        slow_after: table.field("slow_after_ms").duration(1.0..=9_000.0).unwrap_or(default.slow_after),
        window: table.field("window_s").duration(1.0..=3_600.0).unwrap_or(default.window),
        pause: table.field("pause_s").duration(1.0..=86_400.0).unwrap_or(default.pause),
        longest: table.field("longest_s").duration(1.0..=86_400.0).unwrap_or(default.longest),
        control_one_in: table.field("control_one_in").whole(0..=1_000_000).unwrap_or(default.control_one_in),
    };
    if breaker.longest < breaker.pause {
        let (pause, longest) = (breaker.pause.as_secs_f64(), breaker.longest.as_secs_f64());
        let key = if table.has("longest_s") { "longest_s" } else { "pause_s" };
        table.field(key).complain(format!(
            "the first pause ({pause} s) is longer than the longest ({longest} s); raise longest_s or lower pause_s"
        ));
    }
    breaker
}

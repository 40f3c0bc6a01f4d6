//! From text to configuration: every key, its range and its default.

mod gpu;
mod rule;

use gpreempt_proto::Mode;
use toml::de::DeTable;

use super::accounts::Accounts;
use super::error::Problems;
use super::section::Section;
use super::{Account, Breaker, Config, ConfigError, Watch};

pub(super) use self::gpu::{KEYS as GPU_KEYS, POLICIES};
#[cfg(test)]
pub(super) use self::rule::KEYS as RULE_KEYS;

/// Keys outside of tables.
pub(super) const TOP_KEYS: &[&str] = &[
    "mode",
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
pub(super) const WATCH_KEYS: &[&str] = &["cpu", "period_us", "fixed", "spin_core"];

/// Keys of `[breaker]`.
pub(super) const BREAKER_KEYS: &[&str] =
    &["failures", "slow", "slow_after_ms", "window_s", "pause_s", "longest_s", "sample_one_in"];

/// Most rules of a file. Each new process is compared with all of them.
const MOST_RULES: usize = 1000;

/// Most entries for gpus: as many as a machine may have gpus.
const MOST_GPUS: usize = gpreempt_core::GpuSet::CAPACITY;

/// Reads a text.
pub(super) fn config(file: &str, text: &str) -> Result<Config, ConfigError> {
    let mut problems = Problems::new(text);
    let (root, faults) = DeTable::parse_recoverable(text);
    for fault in &faults {
        let span = fault.span().unwrap_or(0..0);
        problems.add(span, format!("this is not TOML: {}", fault.message().trim().replace('\n', ", ")));
    }
    // Where the syntax is broken, what was understood of the rest would only add wrong complaints.
    if !faults.is_empty() {
        return problems.finish(file, Config::default());
    }
    let config = top(root.get_ref(), &mut problems);
    problems.finish(file, config)
}

fn top<'t>(root: &DeTable<'t>, problems: &mut Problems<'t>) -> Config {
    let default = Config::default();
    let mut section = Section::new("the top of the file", TOP_KEYS, root, 0..0, problems);
    let modes = [("observe", Mode::Observe), ("enforce", Mode::Enforce)];
    let mode = section.choice("mode", &modes).unwrap_or_default();
    let scan = section.duration("scan_ms", 1.0..=10.0).unwrap_or(default.scan);
    let grace_kiloclocks = section.small("grace_kiloclocks", 1..=u8::MAX);
    let term_grace = section.duration("term_grace_ms", 0.0..=600_000.0).unwrap_or(default.term_grace);
    let hold_max = section.duration("hold_max_s", 1.0..=604_800.0).unwrap_or(default.hold_max);
    let log_events = section.whole("log_events", 0..=1_000_000).map_or(default.log_events, |events| events as usize);
    let watch_table = section.table("watch");
    let breaker_table = section.table("breaker");
    let rule_tables = section.tables("rule", MOST_RULES);
    let gpu_tables = section.tables("gpu", MOST_GPUS);

    let watch = watch_table.map_or_else(Watch::default, |(table, span)| {
        watch(&mut Section::new("[watch]", WATCH_KEYS, table, span, problems))
    });
    let breaker = breaker_table.map_or_else(Breaker::default, |(table, span)| {
        breaker(&mut Section::new("[breaker]", BREAKER_KEYS, table, span, problems))
    });
    let rules = rule::rules(rule_tables, problems);
    let gpus = gpu_tables
        .into_iter()
        .filter_map(|(table, span)| gpu::gpu(&mut Section::new("[[gpu]]", GPU_KEYS, table, span, problems)))
        .collect();

    // Without rules nobody gets a name.
    let mut accounts = if rules.is_empty() { Accounts::default() } else { Accounts::of_this_machine() };
    for rule in &rules {
        if let Some(Account::One { id, name: Some(name) }) = &rule.trusted.user {
            accounts.add(*id, name);
        }
    }
    Config {
        source: None,
        mode,
        scan,
        watch,
        grace_kiloclocks,
        term_grace,
        hold_max,
        breaker,
        log_events,
        rules,
        gpus,
        accounts,
    }
}

fn watch(section: &mut Section<'_, '_, '_>) -> Watch {
    let default = Watch::default();
    Watch {
        cpu: section.number("cpu", 0.001..=1.0, "").unwrap_or(default.cpu),
        period: section.duration("period_us", 10.0..=10_000.0).unwrap_or(default.period),
        fixed: section.flag("fixed").unwrap_or(default.fixed),
        spin_core: section.whole("spin_core", 0..=4095).map(|core| core as usize),
    }
}

fn breaker(section: &mut Section<'_, '_, '_>) -> Breaker {
    let default = Breaker::default();
    let breaker = Breaker {
        failures: section.whole("failures", 1..=10_000).unwrap_or(default.failures),
        slow: section.whole("slow", 1..=10_000).unwrap_or(default.slow),
        slow_after: section.duration("slow_after_ms", 1.0..=9_000.0).unwrap_or(default.slow_after),
        window: section.duration("window_s", 1.0..=3_600.0).unwrap_or(default.window),
        pause: section.duration("pause_s", 1.0..=86_400.0).unwrap_or(default.pause),
        longest: section.duration("longest_s", 1.0..=86_400.0).unwrap_or(default.longest),
        sample_one_in: section.whole("sample_one_in", 0..=1_000_000).unwrap_or(default.sample_one_in),
    };
    if breaker.longest < breaker.pause {
        let (pause, longest) = (breaker.pause.as_secs_f64(), breaker.longest.as_secs_f64());
        let key = if section.value("longest_s").is_some() { "longest_s" } else { "pause_s" };
        section.complain(
            key,
            format!(
                "the first pause ({pause} s) is longer than the longest ({longest} s); raise longest_s or lower pause_s"
            ),
        );
    }
    breaker
}

//! `[[rule]]`.

use std::collections::{BTreeMap, BTreeSet};

use gpreempt_core::{JobParams, Level, Patience};
use toml_source::{Field, Table};

use super::values::{glob, refuse_unmanaged, share, time};
use crate::config::{Account, Glob, Grouping, Requests, Rule, RuleSettings, Trusted, accounts};

/// Keys of `[[rule]]`.
pub(in crate::config) const KEYS: &[&str] = &[
    "name",
    "user",
    "uid",
    "group",
    "gid",
    "cgroup",
    "container",
    "executable",
    "command",
    "environment",
    "manage",
    "level",
    "max_level",
    "job",
    "patience_us",
    "patience_max_us",
    "min_run_ms",
    "max_stop_ms",
    "age_step_ms",
    "stop_share",
    "weight",
    "request",
    "limit",
    "period_ms",
    "deadline_ms",
    "runtime_ms",
];

/// Index in [`KEYS`] of the first key that `manage = false` excludes.
const SETTINGS: usize = 11;

/// Most characters of names.
const MAX_NAME: usize = 64;

/// Reads all rules of a file.
pub(super) fn rules(tables: &[Table<'_>]) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut names = BTreeSet::new();
    for (index, table) in tables.iter().enumerate() {
        let rule = rule(table, index + 1);
        if !names.insert(rule.name.clone()) {
            table.field("name").complain(format!(
                "a second rule {:?}; names tell rules apart in `gpreempt log`: choose another",
                rule.name
            ));
        }
        rules.push(rule);
    }
    rules
}

/// Reads one rule; `number` counts from one and names it if the file does not.
fn rule(table: &Table<'_>, number: usize) -> Rule {
    let name = table.field("name").text("a name in quotes").map(str::to_string);
    if name.as_ref().is_some_and(|name| !is_name(name)) {
        table.field("name").complain(format!("a name has 1 to {MAX_NAME} printable characters"));
    }
    let trusted = Trusted {
        user: account(table, ("user", "uid"), accounts::user),
        group: account(table, ("group", "gid"), accounts::group),
        cgroup: glob(table.field("cgroup")),
        container: glob(table.field("container")),
    };
    let trusted_keys = ["user", "uid", "group", "gid", "cgroup", "container"];
    if !trusted_keys.iter().any(|key| table.has(key)) {
        table.field("user").complain(
            "this rule matches only what a process chooses itself; add user, group, cgroup or container \
             (user = \"*\" matches every user)",
        );
    }
    let requests = Requests {
        executable: glob(table.field("executable")),
        command: glob(table.field("command")),
        environment: environment(table),
    };
    Rule { name: name.unwrap_or_else(|| format!("rule-{number}")), trusted, requests, settings: settings(table) }
}

/// Returns whether a text can be a name in a table of `gpreempt ps`.
fn is_name(text: &str) -> bool {
    let fits = (1..=MAX_NAME).contains(&text.chars().count());
    fits && !text.chars().any(char::is_control) && text.trim() == text
}

/// Reads a user or group, by name or by number.
fn account(
    table: &Table<'_>,
    (name_key, number_key): (&str, &str),
    look_up: fn(&str) -> Result<u32, String>,
) -> Option<Account> {
    if table.has(name_key) && table.has(number_key) {
        table.field(number_key).complain(format!("{name_key} and {number_key} say the same thing; remove one"));
    }
    if let Some(id) = table.field(number_key).whole(0..=u32::MAX - 1) {
        return Some(Account::One { id, name: None });
    }
    let name = table.field(name_key).text(&format!("a name in quotes, or {number_key} = N"))?;
    if name == "*" {
        return Some(Account::Any);
    }
    let id = look_up(name).map_err(|message| table.field(name_key).complain(message)).ok()?;
    Some(Account::One { id, name: Some(name.to_string()) })
}

fn environment(table: &Table<'_>) -> BTreeMap<String, Glob> {
    let mut variables = BTreeMap::new();
    let Some(map) = table.field("environment").map() else {
        return variables;
    };
    for (key, value) in map.entries() {
        let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
        if key.name.is_empty() || !key.name.chars().all(is_plain) {
            key.report(&map, "the name of a variable consists of letters, digits and _ here");
        }
        if let Some(pattern) = glob(value) {
            variables.insert(key.name.to_string(), pattern);
        }
    }
    variables
}

fn settings(table: &Table<'_>) -> Option<RuleSettings> {
    if table.field("manage").flag() == Some(false) {
        refuse_unmanaged(table, &KEYS[SETTINGS..]);
        return None;
    }
    if !table.has("level") {
        table.field("level").complain("this rule has no level: add level = 0 to 15, or manage = false");
    }
    let level = level(table.field("level")).unwrap_or_default();
    let max_level = self::level(table.field("max_level")).unwrap_or(level);
    let default = JobParams::default();
    let params = JobParams {
        level,
        patience: patience(table).unwrap_or(default.patience),
        min_run: time(table.field("min_run_ms"), 0.0..=60_000.0).unwrap_or(default.min_run),
        max_stop: time(table.field("max_stop_ms"), 1.0..=86_400_000.0).unwrap_or(default.max_stop),
        age_step: time(table.field("age_step_ms"), 0.0..=3_600_000.0).unwrap_or(default.age_step),
        stop_share: share(table.field("stop_share"), 0.0).unwrap_or(default.stop_share),
        weight: table.field("weight").whole(1..=10_000).map_or(default.weight, |weight| weight as u16),
        request: share(table.field("request"), 0.0).unwrap_or(default.request),
        limit: share(table.field("limit"), 0.01).unwrap_or(default.limit),
        period: time(table.field("period_ms"), 0.0..=3_600_000.0).unwrap_or(default.period),
        deadline: time(table.field("deadline_ms"), 0.0..=3_600_000.0).unwrap_or(default.deadline),
        runtime: time(table.field("runtime_ms"), 0.0..=3_600_000.0).unwrap_or(default.runtime),
    };
    for key in ["deadline_ms", "runtime_ms"] {
        if table.has(key) && !table.has("period_ms") {
            table.field(key).complain(format!("{key} needs period_ms, the time between two releases"));
        }
    }
    Some(RuleSettings { max_level, grouping: grouping(table).unwrap_or_default(), params })
}

fn level(field: Field<'_, '_>) -> Option<Level> {
    field.byte(0..=Level::MAX.get()).and_then(Level::new)
}

/// Reads a number, or `"adaptive"` with an upper limit.
fn patience(table: &Table<'_>) -> Option<Patience> {
    const LONGEST: f64 = 1_000_000.0;
    let longest = time(table.field("patience_max_us"), 0.0..=LONGEST);
    let adaptive = Patience::Adaptive { max: longest.unwrap_or_else(|| JobParams::default().patience.longest()) };
    let patience = table.field("patience_us");
    match patience.as_text() {
        None if !patience.is_given() => return Some(adaptive),
        Some("adaptive") => return Some(adaptive),
        Some(_) => {
            patience.reject(format_args!("a number from 0 to {LONGEST} us, or \"adaptive\""));
            return None;
        }
        None => {}
    }
    if table.has("patience_max_us") {
        table.field("patience_max_us").complain(
            "patience_max_us has no effect beside a fixed patience; remove it, or write patience_us = \"adaptive\"",
        );
    }
    time(patience, 0.0..=LONGEST).map(Patience::Fixed)
}

/// Reads which processes form a job.
fn grouping(table: &Table<'_>) -> Option<Grouping> {
    let text = table.field("job").text("\"process\", \"cgroup\", \"user\", \"slurm\" or a name in quotes")?;
    let fixed = [Grouping::Process, Grouping::Cgroup, Grouping::User, Grouping::Slurm];
    if let Some(grouping) = fixed.into_iter().find(|grouping| grouping.as_str() == text) {
        return Some(grouping);
    }
    let literal = Grouping::PLACEHOLDERS.iter().fold(text.to_string(), |text, hole| text.replace(hole, ""));
    let message = if !is_name(text) {
        format!("a job's name has 1 to {MAX_NAME} printable characters")
    } else if text.contains('/') {
        "a job's name has no slash: that is for names users choose, which become USER/NAME".to_string()
    } else if literal.contains(['{', '}']) {
        format!("in a job's name only {} are filled in", Grouping::PLACEHOLDERS.join(", "))
    } else {
        return Some(Grouping::Named(text.to_string()));
    };
    table.field("job").complain(message);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_exempt_rules_refuse_begin_with_the_level() {
        assert_eq!(KEYS[SETTINGS], "level");
    }
}

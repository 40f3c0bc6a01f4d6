//! `[[rule]]`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use gpreempt_core::{JobParams, Level, Patience};
use toml::de::DeTable;

use crate::config::error::Problems;
use crate::config::section::Section;
use crate::config::{Account, Gives, Glob, Grouping, Requests, Rule, Trusted, accounts};

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

/// Where in [`KEYS`] those begin that a rule with `manage = false` has no use for.
const GIVES: usize = 11;

/// Most characters of names.
const LONGEST_NAME: usize = 64;

/// All rules of a file. Those that are faulty are left out; the file is refused then.
pub(super) fn rules<'t>(tables: Vec<(&DeTable<'t>, Range<usize>)>, problems: &mut Problems<'t>) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut names = BTreeSet::new();
    for (index, (table, span)) in tables.into_iter().enumerate() {
        let mut section = Section::new("[[rule]]", KEYS, table, span, problems);
        let rule = rule(&mut section, index + 1);
        if !names.insert(rule.name.clone()) {
            let message =
                format!("a second rule {:?}; names tell rules apart in `gpreempt ps`: choose another", rule.name);
            section.complain("name", message);
        }
        rules.push(rule);
    }
    rules
}

fn rule(section: &mut Section<'_, '_, '_>, number: usize) -> Rule {
    let name = section.text("name", "a name in quotes").map(str::to_string);
    if name.as_ref().is_some_and(|name| !is_name(name)) {
        let message = format!("a name has 1 to {LONGEST_NAME} characters that can be printed");
        section.complain("name", message);
    }
    let trusted = Trusted {
        user: account(section, ("user", "uid"), accounts::user),
        group: account(section, ("group", "gid"), accounts::group),
        cgroup: section.glob("cgroup"),
        container: section.glob("container"),
    };
    let trusted_keys = ["user", "uid", "group", "gid", "cgroup", "container"];
    if trusted.is_empty() && trusted_keys.iter().all(|key| section.value(key).is_none()) {
        let message = "this rule asks only for what a process says of itself; add user, group, cgroup or container \
                       (user = \"*\" lets everybody have it)";
        section.complain("user", message);
    }
    let requests = Requests {
        executable: section.glob("executable"),
        command: section.glob("command"),
        environment: environment(section),
    };
    Rule { name: name.unwrap_or_else(|| format!("rule-{number}")), trusted, requests, gives: gives(section) }
}

/// Whether a text can stand in a table of names.
fn is_name(text: &str) -> bool {
    let fits = (1..=LONGEST_NAME).contains(&text.chars().count());
    fits && !text.chars().any(char::is_control) && text.trim() == text
}

/// A user or group, by name or by number.
fn account(
    section: &mut Section<'_, '_, '_>,
    (name_key, number_key): (&str, &str),
    look_up: fn(&str) -> Result<u32, String>,
) -> Option<Account> {
    if section.value(name_key).is_some() && section.value(number_key).is_some() {
        let message = format!("{name_key} and {number_key} say the same thing; remove one");
        section.complain(number_key, message);
    }
    if let Some(id) = section.whole(number_key, 0..=u32::MAX - 1) {
        return Some(Account::One { id, name: None });
    }
    let name = section.text(name_key, &format!("a name in quotes, or {number_key} = N"))?;
    if name == "*" {
        return Some(Account::Any);
    }
    match look_up(name) {
        Ok(id) => Some(Account::One { id, name: Some(name.to_string()) }),
        Err(message) => {
            section.complain(name_key, message);
            None
        }
    }
}

fn environment(section: &mut Section<'_, '_, '_>) -> BTreeMap<String, Glob> {
    let mut variables = BTreeMap::new();
    let Some((table, _)) = section.table("environment") else {
        return variables;
    };
    for (name, value) in table {
        let word = name.get_ref().as_ref();
        if word.is_empty() || !word.chars().all(|character| character.is_ascii_alphanumeric() || character == '_') {
            section.problems.add(name.span(), "names of variables here consist of letters, digits and _");
        }
        let Some(text) = value.get_ref().as_str() else {
            section.problems.add(value.span(), "expected a pattern in quotes, like \"*\"");
            continue;
        };
        if let Some(pattern) = section.pattern(text, value.span()) {
            variables.insert(word.to_string(), pattern);
        }
    }
    variables
}

fn gives(section: &mut Section<'_, '_, '_>) -> Option<Gives> {
    if section.flag("manage") == Some(false) {
        section.refuse_unmanaged(&KEYS[GIVES..]);
        return None;
    }
    if section.value("level").is_none() {
        let message = "this rule gives nothing: add level = 0 to 15, or manage = false";
        section.complain("level", message);
    }
    let level = level(section, "level").unwrap_or_default();
    let max_level = self::level(section, "max_level").unwrap_or(level);
    let default = JobParams::default();
    let params = JobParams {
        level,
        patience: patience(section).unwrap_or(default.patience),
        min_run: section.time("min_run_ms", 0.0..=60_000.0).unwrap_or(default.min_run),
        max_stop: section.time("max_stop_ms", 1.0..=86_400_000.0).unwrap_or(default.max_stop),
        age_step: section.time("age_step_ms", 0.0..=3_600_000.0).unwrap_or(default.age_step),
        stop_share: section.share("stop_share", 0.0).unwrap_or(default.stop_share),
        weight: section.whole("weight", 1..=10_000).map_or(default.weight, |weight| weight as u16),
        request: section.share("request", 0.0).unwrap_or(default.request),
        limit: section.share("limit", 0.01).unwrap_or(default.limit),
        period: section.time("period_ms", 0.0..=3_600_000.0).unwrap_or(default.period),
        deadline: section.time("deadline_ms", 0.0..=3_600_000.0).unwrap_or(default.deadline),
        runtime: section.time("runtime_ms", 0.0..=3_600_000.0).unwrap_or(default.runtime),
    };
    for key in ["deadline_ms", "runtime_ms"] {
        let given = section.value(key).is_some();
        if given && section.value("period_ms").is_none() {
            section.complain(key, format!("{key} needs period_ms, the time between two releases"));
        }
    }
    Some(Gives { max_level, grouping: grouping(section).unwrap_or_default(), params })
}

fn level(section: &mut Section<'_, '_, '_>, key: &str) -> Option<Level> {
    section.small(key, 0..=Level::MAX.get()).and_then(Level::new)
}

/// A number, or `"adaptive"` with an upper limit.
fn patience(section: &mut Section<'_, '_, '_>) -> Option<Patience> {
    const LONGEST: f64 = 1_000_000.0;
    let longest = section.time("patience_max_us", 0.0..=LONGEST);
    let adaptive = Patience::Adaptive { max: longest.unwrap_or_else(|| JobParams::default().patience.longest()) };
    let Some(value) = section.value("patience_us") else {
        return Some(adaptive);
    };
    match value.get_ref().as_str() {
        Some("adaptive") => return Some(adaptive),
        Some(_) => {
            let message = format!("patience_us: expected a number from 0 to {LONGEST} us, or \"adaptive\"");
            section.problems.add(value.span(), message);
            return None;
        }
        None => {}
    }
    if section.value("patience_max_us").is_some() {
        let message =
            "patience_max_us means nothing beside a fixed patience; remove it, or write patience_us = \"adaptive\"";
        section.complain("patience_max_us", message);
    }
    section.time("patience_us", 0.0..=LONGEST).map(Patience::Fixed)
}

/// Which processes form a job.
fn grouping(section: &mut Section<'_, '_, '_>) -> Option<Grouping> {
    let text = section.text("job", "\"process\", \"cgroup\", \"user\", \"slurm\" or a name in quotes")?;
    let fixed = [Grouping::Process, Grouping::Cgroup, Grouping::User, Grouping::Slurm];
    if let Some(grouping) = fixed.into_iter().find(|grouping| grouping.as_str() == text) {
        return Some(grouping);
    }
    let literal = Grouping::PLACEHOLDERS.iter().fold(text.to_string(), |text, hole| text.replace(hole, ""));
    let message = if !is_name(text) {
        format!("a job's name has 1 to {LONGEST_NAME} characters that can be printed")
    } else if text.contains('/') {
        "a job's name has no slash: that is for names users choose, which become USER/NAME".to_string()
    } else if literal.contains(['{', '}']) {
        format!("in a job's name only {} are filled in", Grouping::PLACEHOLDERS.join(", "))
    } else {
        return Some(Grouping::Named(text.to_string()));
    };
    section.complain("job", message);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_exempt_rules_refuse_begin_with_the_level() {
        assert_eq!(KEYS[GIVES], "level");
    }
}

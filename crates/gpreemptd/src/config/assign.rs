//! Matches processes against the rules and assigns job and level.
//!
//! Facts from the kernel decide which rule applies. What a process requests in its environment (`GPREEMPT_LEVEL`,
//! `GPREEMPT_JOB`) is granted within the limits of that rule, and otherwise ignored with a note.

use std::collections::BTreeMap;

use gpreempt_core::Level;

use super::{Assignment, Config, Grouping, RuleMatch, RuleSettings};
use crate::identity::Identity;
use crate::identity::cgroup::{self, slurm_job};

/// Environment variable by which a process requests a level.
pub const LEVEL_VARIABLE: &str = "GPREEMPT_LEVEL";

/// Environment variable by which a process requests to join a job.
pub const JOB_VARIABLE: &str = "GPREEMPT_JOB";

/// Most characters of the name of a job that a process requests.
const LONGEST_JOB: usize = 64;

impl Config {
    /// Returns what the rules assign to a process; `None` if it is not managed.
    #[must_use]
    pub fn assignment(&self, process: &Identity) -> Option<Assignment> {
        match self.match_rules(process) {
            RuleMatch::Managed(assignment) => Some(assignment),
            RuleMatch::Exempt { .. } | RuleMatch::Unmatched => None,
        }
    }

    /// Returns the same with the reason why a process is not managed.
    #[must_use]
    pub fn match_rules(&self, process: &Identity) -> RuleMatch {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(process)) else {
            return RuleMatch::Unmatched;
        };
        let Some(settings) = &rule.settings else {
            return RuleMatch::Exempt { rule: rule.name.clone() };
        };
        let mut notes = Vec::new();
        let mut params = settings.params;
        params.level = level(settings, process, &mut notes);
        let job = self.requested_job(process, &mut notes).unwrap_or_else(|| self.job(&settings.grouping, process));
        RuleMatch::Managed(Assignment { rule: rule.name.clone(), job, max_level: settings.max_level, params, notes })
    }

    /// Returns a control group of which, and below which, every process has the job and the level of this one, unless
    /// it requests otherwise in its environment; `None` where that depends on the process. Users have no say in the
    /// names of such groups.
    #[must_use]
    pub fn whole_cgroup<'p>(&self, process: &'p Identity) -> Option<&'p str> {
        let assignment = self.assignment(process)?;
        let rule = self.rules.iter().find(|rule| rule.name == assignment.rule)?;
        let path = match &rule.settings.as_ref()?.grouping {
            Grouping::Cgroup => process.cgroup.as_str(),
            Grouping::Slurm => cgroup::unit_directory(&process.cgroup)?,
            Grouping::Named(name) if !name.contains("{user}") && !name.contains("{uid}") => process.cgroup.as_str(),
            Grouping::Named(_) | Grouping::Process | Grouping::User => return None,
        };
        let is_plain = path.len() > 1 && !path.contains("/..") && !cgroup::is_user_owned(path);
        let first = self.rules.iter().find(|rule| rule.could_match_below(path))?;
        let is_whole = first.name == rule.name && rule.matches_all_below(path);
        // One that requests another job says nothing about the others.
        let anyone = Identity { environment: BTreeMap::new(), ..process.clone() };
        let is_its_job = self.assignment(&anyone).is_some_and(|of_anyone| of_anyone.job == assignment.job);
        (is_plain && is_whole && is_its_job).then_some(path)
    }

    /// Returns the job that a process requests. It begins with the name of the user, so that no other user and no rule
    /// has a job of that name.
    fn requested_job(&self, process: &Identity, notes: &mut Vec<String>) -> Option<String> {
        let name = process.environment.get(JOB_VARIABLE)?;
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
        if (1..=LONGEST_JOB).contains(&name.len()) && name.chars().all(is_plain) {
            return Some(format!("{}/{name}", self.user_name(process.uid)));
        }
        notes.push(format!(
            "{JOB_VARIABLE}={} is ignored: a name has 1 to {LONGEST_JOB} letters, digits, dots, dashes or underscores",
            excerpt(name)
        ));
        None
    }

    /// Returns the job of a process that requests none. A process that lacks what the rule groups by is a job of its
    /// own.
    fn job(&self, grouping: &Grouping, process: &Identity) -> String {
        let alone = || format!("pid-{}", process.pid);
        match grouping {
            Grouping::Process => alone(),
            Grouping::Cgroup if process.cgroup.is_empty() => alone(),
            Grouping::Cgroup => format!("cgroup:{}", process.cgroup),
            Grouping::User => format!("user:{}", self.user_name(process.uid)),
            Grouping::Slurm => slurm_job(&process.cgroup).map_or_else(alone, |job| format!("slurm-{job}")),
            Grouping::Named(template) => self.fill(template, process).unwrap_or_else(alone),
        }
    }

    /// Replaces the placeholders of a name; `None` if the process lacks one of them.
    fn fill(&self, template: &str, process: &Identity) -> Option<String> {
        let mut name = String::new();
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            let (before, hole) = rest.split_at(open);
            name.push_str(before);
            let close = hole.find('}')?;
            match &hole[..=close] {
                "{user}" => name.push_str(&self.user_name(process.uid)),
                "{uid}" => name.push_str(&process.uid.to_string()),
                "{cgroup}" if !process.cgroup.is_empty() => name.push_str(&process.cgroup),
                "{slurm}" => name.push_str(slurm_job(&process.cgroup)?),
                _ => return None,
            }
            rest = &hole[close + 1..];
        }
        name.push_str(rest);
        Some(name)
    }
}

impl Assignment {
    /// Returns what applies to a job with these members, in any order: the settings of the member with the lowest
    /// `max_level`, and the lowest level. Otherwise a process could raise its level by joining a job.
    #[must_use]
    pub fn of_job<'m>(members: impl IntoIterator<Item = &'m Assignment>) -> Option<Assignment> {
        let members: Vec<&Assignment> = members.into_iter().collect();
        let lowest = members.iter().min_by_key(|member| (member.max_level, member.params.level, &member.rule))?;
        let mut assignment = (*lowest).clone();
        assignment.params.level = members.iter().map(|member| member.params.level).min()?;
        Some(assignment)
    }
}

/// Returns the level of a process: what it requests, up to what the rule allows.
fn level(settings: &RuleSettings, process: &Identity, notes: &mut Vec<String>) -> Level {
    let Some(requested) = process.environment.get(LEVEL_VARIABLE) else {
        return settings.level();
    };
    let Some(level) = requested.trim().parse().ok().and_then(Level::new) else {
        notes.push(format!("{LEVEL_VARIABLE}={} is ignored: a level is a number from 0 to 15", excerpt(requested)));
        return settings.level();
    };
    if level > settings.max_level {
        let (level, most) = (level.get(), settings.max_level.get());
        notes.push(format!("{LEVEL_VARIABLE}={level} is above max_level of the rule: the process gets {most}"));
    }
    level.min(settings.max_level)
}

/// Shortens and escapes a text that a process chose, for the log.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut short: String = text.chars().take(LONGEST).flat_map(char::escape_default).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push_str("...");
    }
    format!("\"{short}\"")
}

//! What the rules make of a process.
//!
//! Who it may be follows from what the kernel vouches for. What it asks for in its environment (`GPREEMPT_LEVEL`,
//! `GPREEMPT_JOB`) is granted within that, and otherwise ignored with a note.

use gpreempt_core::Level;

use super::{Config, Gives, Grouping, Treatment, Verdict};
use crate::identity::Identity;

/// The variable in which a process asks for a level.
pub const LEVEL_VARIABLE: &str = "GPREEMPT_LEVEL";

/// The variable in which a process asks to be part of a job.
pub const JOB_VARIABLE: &str = "GPREEMPT_JOB";

/// Most characters of a job's name that a process may ask for.
const LONGEST_JOB: usize = 64;

impl Config {
    /// What the rules make of a process; `None` if it is never stopped and causes no stop.
    #[must_use]
    pub fn treat(&self, process: &Identity) -> Option<Treatment> {
        match self.verdict(process) {
            Verdict::Managed(treatment) => Some(treatment),
            Verdict::Exempt { .. } | Verdict::Unmatched => None,
        }
    }

    /// The same, with the reason why a process is left alone.
    #[must_use]
    pub fn verdict(&self, process: &Identity) -> Verdict {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(process)) else {
            return Verdict::Unmatched;
        };
        let Some(gives) = &rule.gives else {
            return Verdict::Exempt { rule: rule.name.clone() };
        };
        let mut notes = Vec::new();
        let mut params = gives.params;
        params.level = level(gives, process, &mut notes);
        let job = self.asked_job(process, &mut notes).unwrap_or_else(|| self.job(&gives.grouping, process));
        Verdict::Managed(Treatment { rule: rule.name.clone(), job, max_level: gives.max_level, params, notes })
    }

    /// The job a process asks for. The user's name in front of it keeps others out, and the name apart from those that the
    /// rules give.
    fn asked_job(&self, process: &Identity, notes: &mut Vec<String>) -> Option<String> {
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

    /// The job of a process that asks for none. What lacks the thing to group by is a job of its own.
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

    /// A name with its placeholders filled in, if there is something for each.
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

impl Treatment {
    /// What holds for a job with these members, in whatever order they came: the settings of the member that may be least,
    /// and the lowest level. Otherwise a process could climb by joining a job whose other members may be more.
    #[must_use]
    pub fn of_job<'m>(members: impl IntoIterator<Item = &'m Treatment>) -> Option<Treatment> {
        let members: Vec<&Treatment> = members.into_iter().collect();
        let humblest = members.iter().min_by_key(|member| (member.max_level, member.params.level, &member.rule))?;
        let mut treatment = (*humblest).clone();
        treatment.params.level = members.iter().map(|member| member.params.level).min()?;
        Some(treatment)
    }
}

/// The level of a process: what it asks for, up to what it may have.
fn level(gives: &Gives, process: &Identity, notes: &mut Vec<String>) -> Level {
    let Some(asked) = process.environment.get(LEVEL_VARIABLE) else {
        return gives.level();
    };
    let Some(level) = asked.trim().parse().ok().and_then(Level::new) else {
        notes.push(format!("{LEVEL_VARIABLE}={} is ignored: a level is a number from 0 to 15", excerpt(asked)));
        return gives.level();
    };
    if level > gives.max_level {
        let (level, most) = (level.get(), gives.max_level.get());
        notes.push(format!("{LEVEL_VARIABLE}={level} is more than the rule allows: it gets {most}"));
    }
    level.min(gives.max_level)
}

/// The number of the Slurm job that a control group belongs to: `job_N` below a directory of Slurm's daemon. What users
/// name themselves, below `/user.slice`, proves nothing.
fn slurm_job(cgroup: &str) -> Option<&str> {
    if cgroup.starts_with("/user.slice/") {
        return None;
    }
    let mut names = cgroup.split('/').skip_while(|name| !name.contains("slurm"));
    let job = names.find_map(|name| name.strip_prefix("job_"))?;
    (!job.is_empty() && job.len() <= 20 && job.bytes().all(|byte| byte.is_ascii_digit())).then_some(job)
}

/// What a process wrote, fit for a log: short, and without characters that terminals obey.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut short: String = text.chars().take(LONGEST).flat_map(char::escape_default).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push_str("...");
    }
    format!("\"{short}\"")
}

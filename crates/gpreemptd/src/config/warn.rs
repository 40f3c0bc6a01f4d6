//! Warnings about settings that are valid but unlikely to be intended.

use gpreempt_core::{Batch, Cost, GpuIndex, GpuParams, JobParams, Level, Permille, PolicyKind};
use gpreempt_proto::Mode;

use super::{Account, Config, Glob, GpuRule, Grouping, Requests, Rule, RuleSettings, Trusted};
use crate::identity::cgroup::USER_SLICE;

impl Config {
    /// Returns a sentence for each setting that is valid but unlikely to be intended.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        self.whole(&mut warnings);
        for (index, rule) in self.rules.iter().enumerate() {
            let before = &self.rules[..index];
            if let Some(earlier) = before.iter().find(|earlier| covers(earlier, rule)) {
                let (name, earlier) = (&rule.name, &earlier.name);
                warnings
                    .push(format!("rule {name:?} is never reached: {earlier:?} before it matches the same processes"));
            }
            if let Some(pattern) = users_can_match(&rule.trusted) {
                warnings.push(format!(
                    "rule {:?}: users can create a control group below /user.slice that matches {pattern:?}; begin the \
                     pattern with a fixed directory, or add user or group",
                    rule.name
                ));
            }
            if let Some(settings) = &rule.settings {
                let found = self.warnings_for_rule(settings);
                warnings.extend(found.into_iter().map(|message| format!("rule {:?}: {message}", rule.name)));
                warnings.extend(different_job(rule, settings, before));
            }
        }
        for (index, gpu) in self.gpus.iter().enumerate() {
            if let Some(earlier) = self.gpus[..index].iter().find(|earlier| earlier.gpu.covers(&gpu.gpu)) {
                let (pattern, earlier) = (gpu.gpu.as_str(), earlier.gpu.as_str());
                warnings.push(format!("gpu {pattern:?} is never reached: {earlier:?} before it matches the same gpus"));
            }
            let found = self.warnings_for_gpu(gpu);
            warnings.extend(found.into_iter().map(|message| format!("gpu {:?}: {message}", gpu.gpu.as_str())));
        }
        warnings
    }

    /// Warns about the configuration as a whole.
    fn whole(&self, warnings: &mut Vec<String>) {
        let managed: Vec<&RuleSettings> = self.managed().collect();
        match self.mode {
            Mode::Observe if !managed.is_empty() => {
                warnings.push(
                    "mode is \"observe\": stops are only reported; set mode = \"enforce\" to stop processes"
                        .to_string(),
                );
            }
            Mode::Enforce if managed.is_empty() => {
                warnings.push(
                    "mode is \"enforce\" but no rule gives a level: nothing is ever stopped; add a [[rule]]"
                        .to_string(),
                );
            }
            _ => {}
        }
        if let Some((first, rest)) = managed.split_first()
            && rest.iter().all(|settings| settings.level() == first.level())
            && !self.classes().iter().any(|class| self.could_stop(&class.params))
        {
            let level = first.level().get();
            warnings.push(format!(
                "all rules give level {level}: equal levels run at the same time, nothing is ever stopped"
            ));
        }
        if let Some(core) = self.watch.spin_core
            && std::thread::available_parallelism().is_ok_and(|cores| core >= cores.get())
        {
            warnings.push(format!("watch.spin_core = {core}, but this machine has fewer cores (cores count from 0)"));
        }
    }

    /// Returns whether a process of some rule could ever be stopped on gpus with these settings.
    fn could_stop(&self, gpu: &GpuParams) -> bool {
        let mut lower = self.managed().flat_map(RuleSettings::extremes);
        lower.any(|lower| {
            let mut upper = self.managed().flat_map(RuleSettings::extremes);
            gpu.could_throttle(&lower) || upper.any(|upper| gpu.could_displace(&upper, &lower).is_some())
        })
    }

    /// Warns about the settings of one rule.
    fn warnings_for_rule(&self, settings: &RuleSettings) -> Vec<String> {
        let mut warnings = Vec::new();
        let params = &settings.params;
        let default = JobParams::default();
        if settings.max_level < params.level {
            let (level, most) = (params.level.get(), settings.max_level.get());
            warnings.push(format!("max_level {most} is below level {level}: processes get {most}"));
        }
        if params.stop_share == Permille::NONE && settings.max_level > Level::MIN {
            warnings.push("stop_share is 0: nothing is ever stopped for its jobs, whatever their level".to_string());
        }
        if params.limit < params.request {
            warnings.push("limit is below request: its jobs never get their guaranteed share".to_string());
        }
        if params.deadline > params.period {
            warnings.push("deadline_ms is above period_ms: a release is due after the next one has begun".to_string());
        }
        if params.has_deadline() && params.runtime > params.relative_deadline() {
            warnings
                .push("runtime_ms is above the deadline: the deadline cannot be met even on an idle gpu".to_string());
        }
        let shares = (params.weight, params.request, params.limit) != (default.weight, default.request, default.limit);
        if let (true, Some(policies)) = (shares, self.lacking(PolicyKind::has_shares)) {
            warnings.push(format!("weight, request and limit apply only under policy = {policies}, which no gpu has"));
        }
        if let (true, Some(policies)) = (params.has_deadline(), self.lacking(PolicyKind::has_deadlines)) {
            warnings.push(format!("period_ms applies only under policy = {policies}, which no gpu has"));
        }
        warnings
    }

    /// Returns the names of the policies that read a setting; `None` if a gpu has one of them.
    fn lacking(&self, reads: fn(PolicyKind) -> bool) -> Option<String> {
        if self.classes().iter().any(|class| reads(class.params.policy)) {
            return None;
        }
        let names = PolicyKind::ALL.into_iter().filter(|kind| reads(*kind)).map(|kind| format!("{:?}", kind.name()));
        Some(names.collect::<Vec<_>>().join(" or "))
    }

    /// Warns about the settings of one `[[gpu]]`.
    fn warnings_for_gpu(&self, gpu: &GpuRule) -> Vec<String> {
        let mut warnings = Vec::new();
        let params = &gpu.params;
        if params.cycles_per_second == 0 {
            return warnings;
        }
        let one = Batch::EMPTY.and(1);
        let needed = self.expected_actuator().cycles(GpuIndex(0), one, one);
        if params.cycle_burst < needed {
            let burst = params.cycle_burst;
            warnings
                .push(format!("cycle_burst {burst} is less than stopping and resuming one process takes ({needed})"));
        }
        let ageing: u64 =
            self.managed().map(|settings| u64::from(gpreempt_core::bounds::ageing(&settings.params, needed))).sum();
        if ageing >= u64::from(params.cycles_per_second) {
            let budget = params.cycles_per_second;
            warnings.push(format!(
                "turns of long-stopped jobs, one of each rule, can take {ageing} of {budget} cycles a second: no bound on \
                 waiting holds; raise cycles_per_second or max_stop_ms"
            ));
        }
        warnings
    }
}

/// Warns about a job that an earlier rule assigns with other settings.
fn different_job(rule: &Rule, settings: &RuleSettings, before: &[Rule]) -> Option<String> {
    if !matches!(settings.grouping, Grouping::Named(_)) {
        return None;
    }
    let same = |other: &&Rule| {
        let other = other.settings.as_ref();
        other.is_some_and(|other| other.grouping == settings.grouping && other.params != settings.params)
    };
    let earlier = before.iter().find(same)?;
    Some(format!(
        "rules {:?} and {:?} make one job {:?} with different settings: those of the lower level apply to all members",
        earlier.name,
        rule.name,
        settings.grouping.as_str()
    ))
}

/// Returns the pattern of a rule without user or group if a user can create a control group that matches it. `"*"` is
/// explicit and gives no warning.
fn users_can_match(trusted: &Trusted) -> Option<&str> {
    let pattern = trusted.cgroup.as_ref().filter(|pattern| !pattern.is_anything())?;
    if trusted.user.is_some() || trusted.group.is_some() {
        return None;
    }
    let prefix = pattern.prefix();
    let literal = prefix == pattern.as_str();
    let reaches = prefix.starts_with(USER_SLICE) || (!literal && USER_SLICE.starts_with(&prefix));
    reaches.then_some(pattern.as_str())
}

/// Returns whether the earlier rule certainly matches every process that the later one matches.
fn covers(earlier: &Rule, later: &Rule) -> bool {
    trusted_covers(&earlier.trusted, &later.trusted) && requests_cover(&earlier.requests, &later.requests)
}

fn trusted_covers(earlier: &Trusted, later: &Trusted) -> bool {
    // A container's name counts for more where a user or group is named as well.
    let container = match (&earlier.container, &later.container) {
        (None, _) => true,
        (Some(wide), Some(narrow)) => wide.covers(narrow) && (earlier.names_an_account() || !later.names_an_account()),
        (Some(_), None) => false,
    };
    account_covers(earlier.user.as_ref(), later.user.as_ref())
        && account_covers(earlier.group.as_ref(), later.group.as_ref())
        && glob_covers(earlier.cgroup.as_ref(), later.cgroup.as_ref())
        && container
}

fn account_covers(earlier: Option<&Account>, later: Option<&Account>) -> bool {
    match (earlier, later) {
        (None | Some(Account::Any), _) => true,
        (Some(Account::One { id, .. }), Some(Account::One { id: other, .. })) => id == other,
        (Some(Account::One { .. }), _) => false,
    }
}

fn glob_covers(earlier: Option<&Glob>, later: Option<&Glob>) -> bool {
    match (earlier, later) {
        (None, _) => true,
        (Some(wide), Some(narrow)) => wide.covers(narrow),
        (Some(wide), None) => wide.is_anything(),
    }
}

fn requests_cover(earlier: &Requests, later: &Requests) -> bool {
    // One pattern may be meant for paths and the other for names of files; those are not compared.
    let kind = |glob: &Glob| glob.as_str().contains('/');
    let executable = match (&earlier.executable, &later.executable) {
        (Some(wide), Some(narrow)) if kind(wide) != kind(narrow) => wide.is_anything(),
        (wide, narrow) => glob_covers(wide.as_ref(), narrow.as_ref()),
    };
    executable
        && glob_covers(earlier.command.as_ref(), later.command.as_ref())
        && earlier
            .environment
            .iter()
            .all(|(name, wide)| later.environment.get(name).is_some_and(|narrow| wide.covers(narrow)))
}

//! Bounds under a configuration: the formulas of the core for a gpu with one process of every rule.

use gpreempt_core::bounds::{self, Inversion, Starvation};
use gpreempt_core::{
    Batch, Cost, Entry, GpuIndex, GpuParams, GpuSlot, JobParams, JobSlot, Level, Nanos, Observation, Parts, Reason,
    Scheduler, TenantSlot,
};

use crate::actuate::ActuatorChoice;

use super::{Config, RuleSettings};

/// Bounds for the process of a rule.
pub(super) struct RuleBounds {
    /// Longest wait for lower levels; `None` under policies that do not go by levels alone.
    pub(super) inversion: Option<Inversion>,
    /// Longest time of being stopped.
    pub(super) starvation: Starvation,
    /// Time to execute the largest plan.
    pub(super) plan: Nanos,
    /// Largest deviation from its share; `None` under policies without shares.
    pub(super) share_error: Option<Nanos>,
    /// Whether a process of some rule could ever stop it.
    pub(super) above: bool,
    /// Whether some rule has a lower level.
    pub(super) below: bool,
}

/// Gpus with equal settings.
pub(super) struct GpuClass {
    /// The pattern, or a phrase for gpus without an entry.
    pub(super) name: String,
    pub(super) params: GpuParams,
}

impl RuleSettings {
    /// Returns the settings of a job of the rule at this level.
    fn at(&self, level: Level) -> JobParams {
        JobParams { level, ..self.params }
    }

    /// Returns the settings of a job of the rule at its own level and at the highest that it may request.
    pub(super) fn extremes(&self) -> [JobParams; 2] {
        [self.level(), self.max_level].map(|level| self.at(level))
    }
}

impl Config {
    /// Returns the settings of the rules that have any.
    pub(super) fn managed(&self) -> impl Iterator<Item = &RuleSettings> {
        self.rules.iter().filter_map(|rule| rule.settings.as_ref())
    }

    /// Returns the classes of gpus that are scheduled.
    pub(super) fn classes(&self) -> Vec<GpuClass> {
        let managed = self.gpus.iter().filter(|gpu| gpu.manage);
        let mut classes: Vec<GpuClass> =
            managed.map(|gpu| GpuClass { name: format!("gpu {:?}", gpu.gpu.as_str()), params: gpu.params }).collect();
        if !self.gpus.iter().any(|gpu| gpu.gpu.is_anything()) {
            let name = if self.gpus.is_empty() { "any gpu" } else { "any other gpu" };
            classes.push(GpuClass { name: name.to_string(), params: GpuParams::default() });
        }
        classes
    }

    /// Returns the longest time until a change is detected. Polling may slow down to keep to its share of a core, scans
    /// do not. The scheduler in the kernel keeps its period.
    pub(crate) fn detection(&self) -> Nanos {
        if self.actuator == ActuatorChoice::Kernel {
            return Nanos::from(self.watch.kernel_period);
        }
        let keeps_pace = self.watch.fixed || self.watch.spin_core.is_some();
        let time = if keeps_pace { self.watch.period.min(self.scan) } else { self.scan };
        Nanos::from(time)
    }

    /// Returns the bounds for each rule, in the order of the rules; `None` for rules with `manage = false`.
    pub(super) fn rule_bounds(&self, params: &GpuParams) -> Vec<Option<RuleBounds>> {
        // It fails only if the storage is too small, and that is sized by the number of rules.
        self.evaluate(params).unwrap_or_default()
    }

    fn evaluate(&self, params: &GpuParams) -> Result<Vec<Option<RuleBounds>>, gpreempt_core::Error> {
        let (gpu, actuator, detection) = (GpuIndex(0), self.expected_actuator(), self.detection());
        let count = self.rules.len();
        let mut core = Scheduler::new(Parts {
            gpus: [GpuSlot::EMPTY],
            jobs: vec![JobSlot::EMPTY; count],
            tenants: vec![TenantSlot::EMPTY; count],
            order: vec![0; count],
            plan: vec![Entry::EMPTY; count],
        })?;
        core.set_gpu(gpu, *params)?;
        let mut jobs = Vec::new();
        let mut all = Batch::EMPTY;
        for rule in &self.rules {
            let Some(settings) = &rule.settings else {
                jobs.push(None);
                continue;
            };
            let job = core.add_job(settings.at(settings.level()))?;
            let tenant = core.add_tenant(job, gpu, true)?;
            core.observe(tenant, Observation { queues: 1, ..Observation::default() })?;
            all = all.and(1);
            jobs.push(Some((job, settings)));
        }
        core.decide(Nanos::ZERO, &actuator);

        let plan = params.cycle_estimate.times(u64::from(actuator.cycles(gpu, all, all)));
        let share_error = core.share_error_bound(gpu, detection);
        let mut all_bounds = Vec::new();
        for job in jobs {
            let Some((job, settings)) = job else {
                all_bounds.push(None);
                continue;
            };
            let own = settings.at(settings.level());
            let is_higher = |lower: &JobParams| params.could_displace(&own, lower) == Some(Reason::HigherWants);
            let inversion = core.inversion_bound(gpu, job, detection, &actuator);
            all_bounds.push(core.starvation_bound(job, detection).map(|starvation| {
                RuleBounds {
                    inversion,
                    starvation,
                    plan,
                    share_error,
                    above: self
                        .managed()
                        .flat_map(RuleSettings::extremes)
                        .any(|upper| params.could_displace(&upper, &own).is_some()),
                    below: self.managed().any(|lower| is_higher(&lower.at(lower.level()))),
                }
            }));
        }
        Ok(all_bounds)
    }
}

impl RuleBounds {
    /// Describes the bounds, a sentence each.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        match &self.inversion {
            Some(terms) if self.below => {
                let parts = [
                    ("detection", terms.detection),
                    ("patience", terms.patience),
                    ("exempt time of lower levels", terms.exempt),
                    ("cycle budget", terms.refill),
                    ("plans", terms.cost),
                    ("turn of a long-stopped job", terms.turn),
                    ("small jobs that run on", terms.small),
                ];
                sentences.push(sum("waits for lower levels at most", bounds::inversion(terms), &parts));
            }
            Some(_) => sentences.push("never waits for lower levels: no rule has one".to_string()),
            None => {}
        }
        if let Some(error) = self.share_error {
            sentences.push(format!("gets its share to within {error}"));
        }
        if self.above {
            let terms = &self.starvation;
            let turns = bounds::starvation(&Starvation { age_limit: Nanos::ZERO, cycle: Nanos::ZERO, ..*terms })
                .since(terms.detection);
            let parts = [
                ("longest stop", terms.age_limit),
                ("turns of others", turns),
                ("two cycles", terms.cycle.times(2)),
                ("detection", terms.detection),
                ("plan", self.plan),
            ];
            let total = bounds::starvation(terms).plus(self.plan);
            sentences.push(sum("stays stopped at most", total, &parts));
        } else {
            sentences.push("is never stopped: no rule has a higher level".to_string());
        }
        sentences
    }
}

/// Writes a total and its terms, without those that are zero.
fn sum(what: &str, total: Nanos, parts: &[(&str, Nanos)]) -> String {
    let parts: Vec<String> =
        parts.iter().filter(|(_, part)| *part > Nanos::ZERO).map(|(name, part)| format!("{name} {part}")).collect();
    format!("{what} {total} = {}", parts.join(" + "))
}

//! Writes the configuration as a file: all settings with their defaults, and the bounds that follow as comments.

use std::fmt::{Display, Write};
use std::time::Duration;

use gpreempt_core::{Nanos, Patience, Permille};
use gpreempt_proto::Mode;

use super::bounds::{GpuClass, RuleBounds};
use super::{Account, Config, GpuRule, Rule, RuleSettings};

impl Config {
    /// Writes the settings in effect as a file. Reading the file gives an equal configuration.
    #[must_use]
    pub fn print(&self) -> String {
        let mut file = Printer::default();
        match &self.source {
            // A path may contain any character, a line end too.
            Some(path) => file.comment(&format!("Settings in effect with {path:?}, defaults included.")),
            None => file.comment("Settings in effect without a file: the defaults."),
        }
        file.pair("mode", if self.mode == Mode::Enforce { "\"enforce\"" } else { "\"observe\"" });
        file.pair("actuator", quoted(self.actuator.as_str()));
        file.pair("keep_s", decimal(self.keep, S));
        file.pair("scan_ms", decimal(self.scan, MS));
        match self.grace_kiloclocks {
            Some(grace) => file.pair("grace_kiloclocks", grace),
            None => file.comment("grace_kiloclocks: as the hardware is set"),
        }
        file.pair("term_grace_ms", decimal(self.term_grace, MS));
        file.pair("hold_max_s", decimal(self.hold_max, S));
        file.pair("log_events", self.log_events);

        file.table("[watch]");
        // The shortest form that reads back as the same number.
        file.pair("cpu", format_args!("{:?}", self.watch.cpu));
        file.pair("period_us", decimal(self.watch.period, US));
        file.pair("fixed", self.watch.fixed);
        match self.watch.spin_core {
            Some(core) => file.pair("spin_core", core),
            None => file.comment("spin_core: none, the thread sleeps between polls"),
        }
        file.pair("method", quoted(self.watch.method.as_str()));
        file.pair("kernel_period_ms", decimal(self.watch.kernel_period, MS));
        file.pair("net_ms", decimal(self.watch.net, MS));

        let breaker = &self.breaker;
        file.table("[breaker]");
        file.pair("failures", breaker.failures);
        file.pair("slow", breaker.slow);
        file.pair("slow_after_ms", decimal(breaker.slow_after, MS));
        file.pair("window_s", decimal(breaker.window, S));
        file.pair("pause_s", decimal(breaker.pause, S));
        file.pair("longest_s", decimal(breaker.longest, S));
        file.pair("control_one_in", breaker.control_one_in);

        let classes: Vec<(GpuClass, Vec<Option<RuleBounds>>)> = self
            .classes()
            .into_iter()
            .map(|class| {
                let bounds = self.rule_bounds(&class.params);
                (class, bounds)
            })
            .collect();
        for (index, rule) in self.rules.iter().enumerate() {
            file.table("[[rule]]");
            file.rule(rule);
            if rule.settings.is_none() {
                file.comment("Its processes are never stopped and never protected.");
            }
            for (class, bounds) in &classes {
                if let Some(Some(bounds)) = bounds.get(index) {
                    file.bounds(class, bounds);
                }
            }
        }
        for gpu in &self.gpus {
            file.table("[[gpu]]");
            file.gpu(gpu);
        }
        file.text
    }
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// Writes a time in a unit, exactly.
fn decimal(time: Duration, unit: u64) -> String {
    decimal_nanos(Nanos::from(time), unit)
}

fn decimal_nanos(time: Nanos, unit: u64) -> String {
    let (whole, rest) = (time.0 / unit, time.0 % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// Writes a share, exactly.
fn share(share: Permille) -> String {
    decimal_nanos(Nanos(u64::from(share.get())), 1000)
}

/// Writes a text in quotes.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// The file that is being written.
#[derive(Default)]
struct Printer {
    text: String,
}

impl Printer {
    fn line(&mut self, line: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn comment(&mut self, text: &str) {
        self.line(format_args!("# {text}"));
    }

    fn table(&mut self, title: &str) {
        self.line(format_args!("\n{title}"));
    }

    fn pair(&mut self, key: &str, value: impl Display) {
        self.line(format_args!("{key} = {value}"));
    }

    fn account(&mut self, name_key: &str, number_key: &str, account: Option<&Account>) {
        match account {
            None => {}
            Some(Account::Any) => self.pair(name_key, "\"*\""),
            Some(Account::One { name: Some(name), .. }) => self.pair(name_key, quoted(name)),
            Some(Account::One { id, name: None }) => self.pair(number_key, id),
        }
    }

    fn rule(&mut self, rule: &Rule) {
        self.pair("name", quoted(&rule.name));
        self.account("user", "uid", rule.trusted.user.as_ref());
        self.account("group", "gid", rule.trusted.group.as_ref());
        let patterns = [
            ("cgroup", &rule.trusted.cgroup),
            ("container", &rule.trusted.container),
            ("executable", &rule.requests.executable),
            ("command", &rule.requests.command),
        ];
        for (key, pattern) in patterns {
            if let Some(pattern) = pattern {
                self.pair(key, quoted(pattern.as_str()));
            }
        }
        let variables = rule.requests.environment.iter();
        let variables: Vec<String> =
            variables.map(|(name, glob)| format!("{name} = {}", quoted(glob.as_str()))).collect();
        if !variables.is_empty() {
            self.pair("environment", format_args!("{{ {} }}", variables.join(", ")));
        }
        match &rule.settings {
            Some(settings) => self.settings(settings),
            None => self.pair("manage", false),
        }
    }

    fn settings(&mut self, settings: &RuleSettings) {
        let params = &settings.params;
        self.pair("level", params.level.get());
        self.pair("max_level", settings.max_level.get());
        self.pair("job", quoted(settings.grouping.as_str()));
        match params.patience {
            Patience::Fixed(patience) => self.pair("patience_us", decimal_nanos(patience, US)),
            Patience::Adaptive { max } => {
                self.pair("patience_us", "\"adaptive\"");
                self.pair("patience_max_us", decimal_nanos(max, US));
            }
        }
        self.pair("min_run_ms", decimal_nanos(params.min_run, MS));
        self.pair("max_stop_ms", decimal_nanos(params.max_stop, MS));
        self.pair("age_step_ms", decimal_nanos(params.age_step, MS));
        self.pair("stop_share", share(params.stop_share));
        self.pair("weight", params.weight);
        self.pair("request", share(params.request));
        self.pair("limit", share(params.limit));
        self.pair("period_ms", decimal_nanos(params.period, MS));
        self.pair("deadline_ms", decimal_nanos(params.deadline, MS));
        self.pair("runtime_ms", decimal_nanos(params.runtime, MS));
    }

    fn bounds(&mut self, class: &GpuClass, bounds: &RuleBounds) {
        self.comment(&format!(
            "With one process of every rule on {} and cycles of {} (estimate), a process of this rule",
            class.name, class.params.cycle_estimate
        ));
        for sentence in bounds.sentences() {
            self.comment(&format!("- {sentence}"));
        }
    }

    fn gpu(&mut self, gpu: &GpuRule) {
        let params = &gpu.params;
        self.pair("gpu", quoted(gpu.gpu.as_str()));
        if !gpu.manage {
            self.pair("manage", false);
            return;
        }
        self.pair("policy", quoted(params.policy.name()));
        self.pair("slice_ms", decimal_nanos(params.slice, MS));
        self.pair("cycles_per_second", params.cycles_per_second);
        self.pair("cycle_burst", params.cycle_burst);
        self.pair("linger_max_us", decimal_nanos(params.linger_max, US));
        self.pair("small", share(params.small));
        self.pair("weigh", params.weigh);
        self.pair("cycle_estimate_us", decimal_nanos(params.cycle_estimate, US));
    }
}

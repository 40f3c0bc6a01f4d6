//! The laboratory's own workload format.
//!
//! ```toml
//! name = "mine"                  # default: the file's name
//! about = "One sentence."        # optional
//! seconds = 10                   # simulated time
//! gpus = 1                       # default 1
//!
//! [models.small]                 # optional: networks of this file, beside the built-in ones
//! about = "One sentence."        # optional
//! repeat = 2                     # the list runs twice in one request, default 1
//! kernels = [
//!     # `count` equal kernels: workgroups in the grid, how long one workgroup takes, waves per workgroup (default 4),
//!     # vector registers per lane (default 64), LDS per workgroup (default 0), collective over the task's gpus (default
//!     # false).
//!     { count = 20, workgroups = 304, duration_us = 500, waves = 4, vgprs = 128, lds_kib = 16, collective = false },
//! ]
//!
//! [[task]]                       # one process
//! name = "inference"             # unique
//! role = "online"                # "online": latency counts, "offline": throughput counts
//! level = 12                     # 0 to 15, higher wins; default 12 online, 3 offline
//! model = "small"                # or `kernels = [ ... ]` as above
//! gpus = [0]                     # default [0]
//! load = { type = "uniform", rate = 100 }             # requests per second; `offset_ms` for the first
//! # load = { type = "poisson", rate = 100 }           # random arrivals
//! # load = { type = "closed", think_us = 0 }          # the next request follows the last
//! # load = { type = "trace", at_ms = [0, 150, 258] }  # given instants
//! ```
//!
//! Uniform loads of online tasks that have the same rate and no `offset_ms` are staggered: each starts where the request
//! of the one before it would end if it ran alone, as DISB does it.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpreempt_core::Nanos;
use serde::Deserialize;

use super::model::{self, Models, RawGroup, RawModel};
use super::{Kernel, Load, Role, Task, Workload, limits, stagger};
use crate::input::{Checker, InputError, Text, TomlDocument};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkload {
    name: Option<String>,
    #[serde(default)]
    about: String,
    seconds: f64,
    gpus: Option<f64>,
    #[serde(default)]
    models: BTreeMap<String, RawModel>,
    #[serde(default)]
    task: Vec<RawTask>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTask {
    name: String,
    role: String,
    level: Option<f64>,
    load: RawLoad,
    model: Option<String>,
    kernels: Option<Vec<RawGroup>>,
    gpus: Option<Vec<f64>>,
}

/// Flat and not an enum, so that a fault is reported at the field it is in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLoad {
    r#type: String,
    rate: Option<f64>,
    offset_ms: Option<f64>,
    think_us: Option<f64>,
    at_ms: Option<Vec<f64>>,
}

/// Reads a workload; `stem` is its name when the file gives none.
pub(super) fn read(source: &Text, stem: &str) -> Result<Workload, InputError> {
    let document = TomlDocument::new(source);
    let raw: RawWorkload = document.read()?;
    let mut models = model::builtin()?;
    let mut checker = Checker::new(&document);

    // The file's own networks hide built-in ones of the same name.
    models.extend(model::read_models(&mut checker, &raw.models));
    let name = raw.name.unwrap_or_else(|| stem.to_string());
    checker.text("name", &name, "a name");
    let duration = checker.seconds("seconds", raw.seconds, limits::SECONDS);
    let gpus = checker.whole_if_valid("gpus", raw.gpus.unwrap_or(1.0), 1..=limits::GPUS);
    if raw.task.is_empty() || raw.task.len() > limits::TASKS {
        checker
            .note("task", format!("found {} tasks, expected 1 to {} `[[task]]` tables", raw.task.len(), limits::TASKS));
    }
    let mut reader = Reader { checker, models: &models, gpus, names: BTreeMap::new() };
    let mut tasks: Vec<Task> = Vec::new();
    let mut staggered = Vec::new();
    for (index, raw) in raw.task.iter().enumerate().take(limits::TASKS) {
        let task = reader.task(index, raw);
        if task.role == Role::Online && raw.load.offset_ms.is_none() {
            staggered.push(index);
        }
        tasks.push(task);
    }
    stagger(&mut tasks, &staggered);
    // Without a valid number there is an error to return and no workload.
    let gpus = gpus.unwrap_or(1) as usize;
    reader.checker.finish(Workload { name, about: raw.about, duration, gpus, tasks })
}

struct Reader<'d> {
    checker: Checker<'d>,
    models: &'d Models,
    /// None when the file's number is faulty.
    gpus: Option<u32>,
    /// Names so far, with the task that has each.
    names: BTreeMap<String, usize>,
}

impl Reader<'_> {
    fn task(&mut self, index: usize, raw: &RawTask) -> Task {
        let key = format!("task[{index}]");
        self.name(&key, index, &raw.name);
        let role = match raw.role.as_str() {
            "online" => Role::Online,
            "offline" => Role::Offline,
            _ => {
                self.checker.reject(&format!("{key}.role"), "\"online\" or \"offline\"");
                Role::Offline
            }
        };
        let level = raw.level.unwrap_or(f64::from(role.default_level()));
        let level = self.checker.whole(&format!("{key}.level"), level, 0..=15) as u8;
        Task {
            name: raw.name.clone(),
            role,
            level,
            load: self.load(&format!("{key}.load"), &raw.load),
            kernels: self.kernels(&key, raw),
            gpus: self.gpus(&format!("{key}.gpus"), raw.gpus.as_deref()),
        }
    }

    fn name(&mut self, key: &str, index: usize, name: &str) {
        let key = format!("{key}.name");
        self.checker.text(&key, name, "a name");
        if let Some(first) = self.names.insert(name.to_string(), index) {
            self.checker.reject(&key, format_args!("a name that task[{first}] does not have"));
        }
    }

    fn kernels(&mut self, key: &str, raw: &RawTask) -> Arc<[Kernel]> {
        match (&raw.model, &raw.kernels) {
            (Some(name), None) => match self.models.get(name) {
                Some(model) => Arc::clone(&model.kernels),
                None => {
                    let known: Vec<_> = self.models.keys().map(String::as_str).collect();
                    self.checker.reject(&format!("{key}.model"), format_args!("one of {}", known.join(", ")));
                    Arc::new([])
                }
            },
            (None, Some(groups)) => model::read_groups(&mut self.checker, &format!("{key}.kernels"), groups, 1),
            (both, _) => {
                let found = if both.is_some() { "both" } else { "neither" };
                let message = format!("found {found} of `model` and `kernels`, expected one of them");
                self.checker.note(key, message);
                Arc::new([])
            }
        }
    }

    fn gpus(&mut self, key: &str, raw: Option<&[f64]>) -> Vec<usize> {
        // A list can only be judged against a valid number of gpus; against another it would seem to have faults of its own.
        let (Some(raw), Some(machine)) = (raw, self.gpus) else {
            return vec![0];
        };
        if raw.is_empty() {
            self.checker.reject(key, "at least one gpu");
        }
        let mut gpus = Vec::new();
        // A valid list has no entry twice, so a longer one is faulty within these.
        for (index, gpu) in raw.iter().enumerate().take(limits::GPUS as usize + 1) {
            let key = format!("{key}[{index}]");
            let Some(gpu) = self.checker.whole_if_valid(&key, *gpu, 0..=machine - 1) else {
                continue;
            };
            let gpu = gpu as usize;
            if gpus.contains(&gpu) {
                self.checker.reject(&key, "each gpu once");
            }
            gpus.push(gpu);
        }
        gpus
    }

    fn load(&mut self, key: &str, raw: &RawLoad) -> Load {
        let known: &[&str] = match raw.r#type.as_str() {
            "uniform" => &["rate", "offset_ms"],
            "poisson" => &["rate"],
            "closed" => &["think_us"],
            "trace" => &["at_ms"],
            _ => {
                self.checker.reject(&format!("{key}.type"), "\"uniform\", \"poisson\", \"closed\" or \"trace\"");
                return Load::Closed { think: Nanos::ZERO };
            }
        };
        for (field, given) in [
            ("rate", raw.rate.is_some()),
            ("offset_ms", raw.offset_ms.is_some()),
            ("think_us", raw.think_us.is_some()),
            ("at_ms", raw.at_ms.is_some()),
        ] {
            if given && !known.contains(&field) {
                self.checker.note(
                    &format!("{key}.{field}"),
                    format!("does not belong to a load of type \"{}\", expected {}", raw.r#type, known.join(", ")),
                );
            }
        }
        match raw.r#type.as_str() {
            "uniform" => Load::Uniform {
                interval: self.interval(key, raw.rate),
                offset: self.checker.millis(&format!("{key}.offset_ms"), raw.offset_ms.unwrap_or(0.0), limits::MILLIS),
            },
            "poisson" => Load::Poisson { mean: self.interval(key, raw.rate) },
            "trace" => self.trace(&format!("{key}.at_ms"), raw.at_ms.as_deref().unwrap_or_default()),
            _ => Load::Closed {
                think: self.checker.micros(&format!("{key}.think_us"), raw.think_us.unwrap_or(0.0), limits::THINK_US),
            },
        }
    }

    fn interval(&mut self, key: &str, rate: Option<f64>) -> Nanos {
        // NaN stands for a missing rate: it is outside every range, so the check reports it.
        let rate = rate.unwrap_or(f64::NAN);
        self.checker.interval(&format!("{key}.rate"), rate, limits::RATE)
    }

    fn trace(&mut self, key: &str, at_ms: &[f64]) -> Load {
        if !(1..=limits::ARRIVALS).contains(&at_ms.len()) {
            self.checker.reject(key, limits::ARRIVALS_EXPECTED);
        }
        let mut at: Vec<Nanos> = at_ms
            .iter()
            .enumerate()
            .map(|(index, at)| self.checker.millis(&format!("{key}[{index}]"), *at, limits::MILLIS))
            .collect();
        at.sort_unstable();
        Load::Trace { at: at.into() }
    }
}

//! DISB's workload files, read as they are.
//!
//! DISB (github.com/SJTU-IPADS/disb) describes a benchmark as JSON: `time` in seconds and `tasks`, each with a `load`
//! (`periodic` and `poisson` with `frequency` per second, `trace` in milliseconds, `continuous` for a closed loop) and
//! a `client` with the name of its model. Keys the laboratory has no use for are ignored.
//!
//! DISB itself has no roles. A task is online when its client's priority is 0 or its name ends in `_rt`, offline when
//! the priority is greater or the name ends in `_be`; a task that says nothing is offline when it runs in a closed
//! loop.

use std::sync::Arc;

use gpreempt_core::Nanos;
use serde_json::Value;
use toml_source::Source;

use super::model::{self, Models};
use super::{Kernel, Load, Role, Task, Workload, limits, stagger};
use crate::input::{InputError, JsonDocument};

/// Reads a workload; `stem` becomes its name.
pub(super) fn read(source: &Source, stem: &str) -> Result<Workload, InputError> {
    let document = JsonDocument::parse(source)?;
    let models = model::builtin()?;
    let reader = Reader { document: &document, models: &models };
    let seconds = number(document.root.get("time"));
    let duration = document.seconds("time", seconds, limits::SECONDS);
    let raw: &[Value] = match document.root.get("tasks").and_then(Value::as_array) {
        Some(tasks) if (1..=limits::TASKS).contains(&tasks.len()) => tasks,
        _ => {
            let expected = format!("a list of 1 to {} tasks", limits::TASKS);
            document.reject("tasks", expected);
            &[]
        }
    };
    let mut tasks: Vec<Task> = Vec::new();
    let mut staggered = Vec::new();
    for (index, raw) in raw.iter().enumerate() {
        let task = reader.task(index, raw, &tasks);
        if coordinates(&raw["load"]) {
            staggered.push(index);
        }
        tasks.push(task);
    }
    stagger(&mut tasks, &staggered);
    let workload = Workload {
        name: stem.to_string(),
        about: format!("DISB workload {}", source.name()),
        duration,
        gpus: 1,
        tasks,
    };
    Ok(document.finish(workload)?)
}

/// DISB shifts periodic loads of one frequency against each other unless their priority is above 0.
fn coordinates(load: &Value) -> bool {
    load["type"] == "periodic" && load["priority"].as_f64().unwrap_or(0.0) <= 0.0
}

/// Derives the role of a task from what DISB says about it.
fn role(id: &str, raw: &Value) -> Role {
    let client = &raw["client"];
    let client_name = client["name"].as_str().unwrap_or_default();
    let ends = |suffix: &str| id.ends_with(suffix) || client_name.ends_with(suffix);
    let priority = client["priority"].as_f64();
    let load = &raw["load"];
    let load_priority = load["priority"].as_f64().unwrap_or(0.0);
    let offline = ends("_be") || priority.is_some() || load_priority > 0.0 || load["type"] == "continuous";
    if priority == Some(0.0) || ends("_rt") || !offline { Role::Online } else { Role::Offline }
}

/// Returns our name of a network in DISB's or REEF's spelling.
fn normalise(name: &str) -> String {
    let name = name.to_lowercase();
    let name = name.strip_suffix("-imagenet").unwrap_or(&name);
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let alias = match name.as_str() {
        "vgg" => "vgg19",
        "resnet" => "resnet152",
        "densenet" => "densenet201",
        "inception" => "inceptionv3",
        "bert" => "distilbert",
        other => other,
    };
    alias.to_string()
}

struct Reader<'d> {
    document: &'d JsonDocument<'d>,
    models: &'d Models,
}

impl Reader<'_> {
    fn task(&self, index: usize, raw: &Value, before: &[Task]) -> Task {
        let key = format!("tasks[{index}]");
        let id = raw["id"].as_str().unwrap_or_default();
        let role = role(id, raw);
        let (model, kernels) = self.kernels(&format!("{key}.client"), &raw["client"]);
        Task {
            name: self.name(&format!("{key}.id"), id, &model, role, before),
            role,
            level: role.default_level(),
            load: self.load(&format!("{key}.load"), &raw["load"], id),
            kernels,
            gpus: vec![0],
        }
    }

    /// The id, or a name made of model and role where a file (REEF's samples) gives none.
    fn name(&self, key: &str, id: &str, model: &str, role: Role, before: &[Task]) -> String {
        let taken = |name: &str| before.iter().any(|task| task.name == name);
        if !id.is_empty() {
            if taken(id) {
                self.document.reject(key, "an id no other task has");
            }
            return id.to_string();
        }
        let suffix = match role {
            Role::Online => "rt",
            Role::Offline => "be",
        };
        let stem = format!("{model}_{suffix}");
        if !taken(&stem) {
            return stem;
        }
        // At most as many names are taken as there are tasks, so one of these is free.
        (2..=before.len() + 2).map(|number| format!("{stem}_{number}")).find(|name| !taken(name)).unwrap_or(stem)
    }

    fn kernels(&self, key: &str, client: &Value) -> (String, Arc<[Kernel]>) {
        let name = normalise(client["model_name"].as_str().unwrap_or_default());
        let Some(model) = self.models.get(&name) else {
            let known: Vec<_> = self.models.keys().map(String::as_str).collect();
            self.document.reject(&format!("{key}.model_name"), format_args!("one of {}", known.join(", ")));
            return (name, Arc::new([]));
        };
        let batch = match client.get("batch_size") {
            None => 1,
            Some(batch) => {
                let key = format!("{key}.batch_size");
                let batch = number(Some(batch));
                self.document.whole(&key, batch, 1..=1024)
            }
        };
        if batch == 1 {
            return (name, Arc::clone(&model.kernels));
        }
        // The models are made for batch 1; a larger batch has as many more outputs to compute.
        let kernels = model
            .kernels
            .iter()
            .map(|kernel| Kernel { workgroups: kernel.workgroups.saturating_mul(batch), ..kernel.clone() });
        (name, kernels.collect())
    }

    fn load(&self, key: &str, load: &Value, id: &str) -> Load {
        let frequency = format!("{key}.frequency");
        match load["type"].as_str() {
            Some("continuous") => Load::Closed { think: Nanos::ZERO },
            Some("periodic") => {
                Load::Uniform { interval: self.interval(&frequency, load.get("frequency")), offset: Nanos::ZERO }
            }
            Some("poisson") => Load::Poisson { mean: self.interval(&frequency, load.get("frequency")) },
            Some("trace") => self.trace(&format!("{key}.trace"), load["trace"].as_array()),
            Some("dependent") => {
                let message = format!(
                    "task `{id}` starts when other tasks finish (load type \"dependent\"); the laboratory does not support that, \
                     expected \"periodic\", \"poisson\", \"continuous\" or \"trace\""
                );
                self.document.report(&format!("{key}.type"), message);
                Load::Closed { think: Nanos::ZERO }
            }
            _ => {
                self.document.reject(&format!("{key}.type"), "\"periodic\", \"poisson\", \"continuous\" or \"trace\"");
                Load::Closed { think: Nanos::ZERO }
            }
        }
    }

    fn trace(&self, key: &str, at_ms: Option<&Vec<Value>>) -> Load {
        let at_ms = at_ms.map(Vec::as_slice).unwrap_or_default();
        if !(1..=limits::ARRIVALS).contains(&at_ms.len()) {
            self.document.reject(key, limits::ARRIVALS_EXPECTED);
        }
        let mut at = Vec::with_capacity(at_ms.len());
        for (index, instant) in at_ms.iter().enumerate() {
            let key = format!("{key}[{index}]");
            let instant = number(Some(instant));
            at.push(self.document.millis(&key, instant, limits::MILLIS));
        }
        at.sort_unstable();
        Load::Trace { at: at.into() }
    }

    fn interval(&self, key: &str, frequency: Option<&Value>) -> Nanos {
        let frequency = number(frequency);
        self.document.interval(key, frequency, limits::RATE)
    }
}

/// NaN stands for what is missing or no number: it is outside every range, so the check that follows reports it.
fn number(value: Option<&Value>) -> f64 {
    value.and_then(Value::as_f64).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_disb_and_reef_lead_to_the_same_network() {
        for (given, meant) in [
            ("vgg19-imagenet", "vgg19"),
            ("vgg", "vgg19"),
            ("DenseNet-201", "densenet201"),
            ("inception", "inceptionv3"),
            ("bert", "distilbert"),
            ("resnet152", "resnet152"),
        ] {
            assert_eq!(normalise(given), meant);
        }
    }

    #[test]
    fn roles_follow_priority_then_suffix_then_load() {
        let task = |client: Value, load: &str| serde_json::json!({ "client": client, "load": { "type": load } });
        let plain = serde_json::json!({});
        assert_eq!(role("a_rt", &task(plain.clone(), "continuous")), Role::Online);
        assert_eq!(role("a_be", &task(plain.clone(), "periodic")), Role::Offline);
        assert_eq!(role("a", &task(plain.clone(), "continuous")), Role::Offline);
        assert_eq!(role("a", &task(plain, "poisson")), Role::Online);
        let first = serde_json::json!({ "priority": 0 });
        let second = serde_json::json!({ "priority": 1 });
        assert_eq!(role("", &task(first, "continuous")), Role::Online);
        assert_eq!(role("", &task(second, "periodic")), Role::Offline);
    }
}

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
//!     # `count` equal kernels: workgroups in the grid, time of one workgroup, waves per workgroup (default 4),
//!     # vector registers per lane (default 64), LDS per workgroup (default 0), collective over the task's gpus
//!     # (default false).
//!     { count = 20, workgroups = 304, duration_us = 500, waves = 4, vgprs = 128, lds_kib = 16, collective = false },
//! ]
//!
//! [[task]]                       # one process
//! name = "inference"             # unique
//! role = "online"                # "online": latency counts, "offline": throughput counts
//! level = 12                     # 0 to 15, higher wins; default 12 online, 3 offline
//! model = "small"                # or `kernels = [ ... ]`, as in a model
//! gpus = [0]                     # default [0]
//! load = { type = "uniform", rate = 100 }             # requests per second; `offset_ms` for the first
//! # load = { type = "poisson", rate = 100 }           # random arrivals
//! # load = { type = "closed", think_us = 0 }          # the next request follows the last
//! # load = { type = "trace", at_ms = [0, 150, 258] }  # given instants
//! ```
//!
//! Uniform loads of online tasks that have the same rate and no `offset_ms` are staggered: each starts where the
//! request of the one before it would end if it ran alone, as DISB does it.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpreempt_core::Nanos;
use toml_source::{Document, Field, Source, Table};

use super::model::{self, Models};
use super::{Kernel, Load, Role, Task, Workload, limits, stagger};
use crate::input::{self, InputError};

/// Keys at the top of the file.
const TOP_KEYS: &[&str] = &["name", "about", "seconds", "gpus", "models", "task"];

/// Keys of `[[task]]`.
const TASK_KEYS: &[&str] = &["name", "role", "level", "load", "model", "kernels", "gpus"];

/// Keys of `load`, of all types together.
const LOAD_KEYS: &[&str] = &["type", "rate", "offset_ms", "think_us", "at_ms"];

const ROLES: [(&str, Role); 2] = [("online", Role::Online), ("offline", Role::Offline)];

/// Reads a workload; `stem` is its name when the file gives none.
pub(super) fn read(source: &Source, stem: &str) -> Result<Workload, InputError> {
    let document = Document::parse(source)?;
    let root = document.root(TOP_KEYS);
    let mut models = model::builtin()?;
    // The file's own networks hide built-in ones of the same name.
    models.extend(root.field("models").map().map(|map| model::read_models(&map)).into_iter().flatten());
    let gpus = if root.has("gpus") { root.field("gpus").whole(1..=limits::GPUS) } else { Some(1) };
    let tables = root.field("task").tables(limits::TASKS, TASK_KEYS);
    if tables.is_empty() {
        root.field("task").report(format_args!("found 0 tasks, expected 1 to {} `[[task]]` tables", limits::TASKS));
    }
    let mut reader = Reader { models: &models, gpus, names: BTreeMap::new() };
    let mut tasks: Vec<Task> = Vec::new();
    let mut staggered = Vec::new();
    for (index, table) in tables.iter().enumerate() {
        let load = table.required("load").inline_table(LOAD_KEYS, "{ type = \"...\", ... }");
        let task = reader.task(index, table, load.as_ref());
        if task.role == Role::Online && load.is_some_and(|load| !load.has("offset_ms")) {
            staggered.push(index);
        }
        tasks.push(task);
    }
    stagger(&mut tasks, &staggered);
    let workload = Workload {
        name: root.field("name").words("a name").unwrap_or(stem).to_string(),
        about: root.field("about").text("a sentence in quotes").unwrap_or_default().to_string(),
        duration: input::time(root.required("seconds"), limits::SECONDS),
        // Without a valid number there is an error to return and no workload.
        gpus: gpus.unwrap_or(1) as usize,
        tasks,
    };
    Ok(document.finish(workload)?)
}

struct Reader<'m> {
    models: &'m Models,
    /// `None` if the number of the file is wrong.
    gpus: Option<u32>,
    /// Names so far, with the index of the task.
    names: BTreeMap<String, usize>,
}

impl Reader<'_> {
    fn task(&mut self, index: usize, table: &Table<'_>, load: Option<&Table<'_>>) -> Task {
        let role = table.required("role").choice(&ROLES).unwrap_or(Role::Offline);
        Task {
            name: self.name(index, table.required("name")),
            role,
            level: table.field("level").byte(0..=15).unwrap_or(role.default_level()),
            load: load.map_or(Load::Closed { think: Nanos::ZERO }, self::load),
            kernels: self.kernels(table),
            gpus: self.gpus(table.field("gpus")),
        }
    }

    fn name(&mut self, index: usize, field: Field<'_, '_>) -> String {
        let name = field.words("a name").unwrap_or_default();
        if let Some(first) = self.names.insert(name.to_string(), index)
            && !name.is_empty()
        {
            field.reject(format_args!("a name that task[{first}] does not have"));
        }
        name.to_string()
    }

    fn kernels(&self, table: &Table<'_>) -> Arc<[Kernel]> {
        match (table.has("model"), table.has("kernels")) {
            (true, false) => {
                let known = || self.models.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                let field = table.field("model");
                let Some(name) = field.text("the name of a model") else { return Arc::new([]) };
                match self.models.get(name) {
                    Some(model) => Arc::clone(&model.kernels),
                    None => {
                        field.reject(format_args!("one of {}", known()));
                        Arc::new([])
                    }
                }
            }
            (false, true) => model::read_groups(table.field("kernels"), 1),
            (both, _) => {
                let found = if both { "both" } else { "neither" };
                table.report(&format!("found {found} of `model` and `kernels`, expected one of them"));
                Arc::new([])
            }
        }
    }

    fn gpus(&self, field: Field<'_, '_>) -> Vec<usize> {
        // A list can only be judged against a valid number of gpus; against another it would seem to have mistakes
        // itself.
        let (Some(list), Some(machine)) = (field.list("a list of gpus"), self.gpus) else {
            return vec![0];
        };
        if list.is_empty() {
            field.reject("at least one gpu");
        }
        let mut gpus = Vec::new();
        // A valid list has no entry twice, so a longer one is wrong within these.
        for element in list.iter().take(limits::GPUS as usize + 1) {
            let Some(gpu) = element.whole(0..=machine - 1) else {
                continue;
            };
            let gpu = gpu as usize;
            if gpus.contains(&gpu) {
                element.reject("each gpu once");
            }
            gpus.push(gpu);
        }
        gpus
    }
}

/// Reads when the requests of a task arrive.
fn load(table: &Table<'_>) -> Load {
    const TYPES: [(&str, &[&str]); 4] =
        [("uniform", &["rate", "offset_ms"]), ("poisson", &["rate"]), ("closed", &["think_us"]), ("trace", &["at_ms"])];
    let kinds = TYPES.map(|(name, keys)| (name, (name, keys)));
    let Some((kind, keys)) = table.required("type").choice(&kinds) else {
        return Load::Closed { think: Nanos::ZERO };
    };
    for key in LOAD_KEYS.iter().filter(|key| **key != "type" && table.has(key) && !keys.contains(key)) {
        let message = format!("does not belong to a load of type \"{kind}\", expected {}", keys.join(", "));
        table.field(key).report(message);
    }
    let interval = || table.required("rate").number(limits::RATE, " per second").map_or(Nanos::ZERO, input::interval);
    match kind {
        "uniform" => {
            Load::Uniform { interval: interval(), offset: input::time(table.field("offset_ms"), limits::MILLIS) }
        }
        "poisson" => Load::Poisson { mean: interval() },
        "trace" => trace(table.required("at_ms")),
        _ => Load::Closed { think: input::time(table.field("think_us"), limits::THINK_US) },
    }
}

fn trace(field: Field<'_, '_>) -> Load {
    let list = field.list(limits::ARRIVALS_EXPECTED);
    if list.as_ref().is_some_and(|list| !(1..=limits::ARRIVALS).contains(&list.len())) {
        field.reject(limits::ARRIVALS_EXPECTED);
    }
    let instants = list.unwrap_or_default();
    let mut at: Vec<Nanos> = instants.into_iter().map(|instant| input::time(instant, limits::MILLIS)).collect();
    at.sort_unstable();
    Load::Trace { at: at.into() }
}

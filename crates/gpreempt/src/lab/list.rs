//! `gpreempt lab list`: lists mechanisms, workloads, profiles and models.

use std::io::Write;

use anyhow::Result;
use gpreempt_lab::workload::model;
use gpreempt_lab::{Profile, Workload, mechanism};
use serde::Serialize;

use crate::output;

#[derive(Serialize)]
struct Listing {
    schema: u32,
    mechanisms: Vec<Entry>,
    workloads: Vec<Entry>,
    profiles: Vec<Entry>,
    models: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    about: String,
    /// Assumptions of a mechanism; workloads, profiles and models have theirs in their files.
    #[serde(skip_serializing_if = "Option::is_none")]
    assumes: Option<&'static [&'static str]>,
}

impl Entry {
    fn new(name: &str, about: &str) -> Entry {
        Entry { name: name.to_string(), about: about.to_string(), assumes: None }
    }

    fn of_mechanism(entry: &mechanism::MechanismSpec) -> Entry {
        Entry { assumes: Some(entry.assumes), ..Entry::new(entry.name, entry.about) }
    }
}

pub(crate) fn run(json: bool, out: &mut impl Write) -> Result<()> {
    let listing = listing()?;
    if json {
        return output::json(&listing, out);
    }
    let sections = [
        ("Mechanisms (--mechanism)", &listing.mechanisms),
        ("Workloads (--workload)", &listing.workloads),
        ("Profiles (--profile)", &listing.profiles),
        ("Models (in workload files)", &listing.models),
    ];
    for (index, (title, entries)) in sections.into_iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{title}")?;
        for Entry { name, about, assumes } in entries {
            writeln!(out, "  {name:<20} {about}")?;
            for assumption in assumes.unwrap_or_default() {
                writeln!(out, "  {:<20}   assumes: {assumption}", "")?;
            }
        }
    }
    Ok(())
}

fn listing() -> Result<Listing> {
    let mechanisms = mechanism::all().iter();
    let mut workloads = Vec::new();
    for builtin in Workload::builtins() {
        workloads.push(Entry::new(builtin.name, &Workload::load(builtin.name)?.about));
    }
    let mut profiles = Vec::new();
    for builtin in Profile::builtins() {
        profiles.push(Entry::new(builtin.name, &Profile::load(builtin.name)?.about));
    }
    let models = model::builtin()?;
    Ok(Listing {
        schema: output::SCHEMA,
        mechanisms: mechanisms.map(Entry::of_mechanism).collect(),
        workloads,
        profiles,
        models: models.iter().map(|(name, model)| Entry::new(name, &model.about)).collect(),
    })
}

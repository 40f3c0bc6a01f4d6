//! Scenarios: what the guest runs, and what must be true of its results. They are data: `kernel/guest/scenarios`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::Variant;
use crate::accept::Check;
use crate::packages::files_in;
use crate::run::root;

/// One file of `kernel/guest/scenarios`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    /// Name of the file, without its ending.
    #[serde(skip)]
    pub(super) name: String,
    /// One sentence.
    pub(super) shows: String,
    /// The driver.
    #[serde(default = "stock")]
    pub(super) variant: Variant,
    /// How time passes in the guest.
    #[serde(default)]
    pub(super) time: GuestTime,
    /// Processors.
    #[serde(default = "two")]
    pub(super) smp: u32,
    /// Memory in QEMU's notation.
    #[serde(default = "memory")]
    pub(super) memory: String,
    /// Longest duration of the whole boot on the host's clock. Hosts may be busy: this is no measurement.
    #[serde(default = "limit")]
    pub(super) seconds: u64,
    /// Whether it runs with `--full` only.
    #[serde(default)]
    pub(super) full: bool,
    /// Whether it runs on the kernel of `cargo xtask kernel debug`.
    #[serde(default)]
    pub(super) debug: OnDebugKernel,
    /// How many devices there are for the module to bind to.
    #[serde(default = "one")]
    pub(super) gpus: u32,
    /// Parameters of the module, `name=value`.
    #[serde(default)]
    pub(super) module: Vec<String>,
    /// Modules that are compiled beside `amdgpu.ko` or, with the patched driver, in kernel/gpreempt, without `.ko`:
    /// files in `/lib/modules` that the script loads.
    #[serde(default)]
    pub(super) modules: Vec<String>,
    /// Programs of this workspace beside `gpreempt`: packages whose executable has the same name.
    #[serde(default)]
    pub(super) programs: Vec<String>,
    /// Files for the guest: path and content. A content that begins with `#!` is executable.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// Whether the guest has an image with ROCm and our HIP programs, at `/image`.
    #[serde(default)]
    pub(super) rocm: bool,
    /// Patterns of log lines that would be failures and are expected here; `*` stands for any text. Each must occur.
    #[serde(default)]
    pub(super) expected_log: Vec<String>,
    /// The same for lines that only a debug kernel writes. They need not occur.
    #[serde(default)]
    pub(super) debug_log: Vec<String>,
    /// Patterns that count on the kernel that is used, and need not occur.
    #[serde(skip)]
    pub(super) may_log: Vec<String>,
    /// What the guest's shell runs.
    pub(super) script: String,
    /// What must be true of the merged results.
    #[serde(default)]
    pub(super) check: Vec<Check>,
}

/// Which kernel a scenario is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OnDebugKernel {
    /// Debian's, and the debug kernel if nothing it needs is missing there.
    #[default]
    Also,
    /// Debian's alone.
    Never,
    /// The debug kernel with KASAN alone.
    Kasan,
    /// The debug kernel with KCSAN alone.
    Kcsan,
}

impl OnDebugKernel {
    /// Whether Debian's kernel is one of them.
    pub(super) fn on_debian(self) -> bool {
        matches!(self, OnDebugKernel::Also | OnDebugKernel::Never)
    }
}

/// How time passes in the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum GuestTime {
    /// Virtual time: counted instructions, two nanoseconds each; idle time is skipped. The host's load has no
    /// influence. One processor runs at a time.
    #[default]
    Icount,
    /// The host's time. Processors run at once, for races. Durations mean nothing.
    Multi,
}

impl fmt::Display for GuestTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GuestTime::Icount => "icount",
            GuestTime::Multi => "multi",
        })
    }
}

fn stock() -> Variant {
    Variant::Stock
}

fn one() -> u32 {
    1
}

fn two() -> u32 {
    2
}

fn memory() -> String {
    "2G".to_owned()
}

fn limit() -> u64 {
    180
}

impl Scenario {
    /// Reads the text of a scenario.
    fn parse(name: &str, text: &str) -> Result<Scenario> {
        let mut scenario: Scenario = toml::from_str(text)?;
        name.clone_into(&mut scenario.name);
        ensure!(!scenario.shows.trim().is_empty(), "`shows` says nothing");
        ensure!(
            scenario.debug.on_debian() || !scenario.executes(),
            "`debug` names a debug kernel alone, where no gpu code is executed"
        );
        ensure!((1..=16).contains(&scenario.smp), "`smp` is {}; 1 to 16 processors are possible", scenario.smp);
        ensure!(scenario.gpus <= 16, "`gpus` is {}; 16 at most are possible", scenario.gpus);
        if let Some(check) = scenario.check.iter().find(|check| !check.reads_json()) {
            bail!("the check \"{check}\" reads the output of a command; checks here read results");
        }
        if let Some(path) =
            scenario.files.keys().find(|path| path.split('/').any(|part| matches!(part, "" | "." | "..")))
        {
            bail!("the file `{path}` has no plain path; write it relative to the root, as in `etc/name`");
        }
        Ok(scenario)
    }

    /// Whether it executes gpu code, or brings ROCm.
    pub(super) fn executes(&self) -> bool {
        self.rocm || self.module.iter().any(|parameter| parameter == "engine=executing")
    }
}

fn folder() -> PathBuf {
    root().join("kernel/guest/scenarios")
}

/// Reads all scenarios, in the order of their names.
pub(super) fn all() -> Result<Vec<Scenario>> {
    let scenarios = files_in(&folder(), "toml").into_iter().map(|path| {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Scenario::parse(&name, &text).with_context(|| format!("{} is not a valid scenario", path.display()))
    });
    scenarios.collect()
}

/// Keeps the scenarios that are named; without names, those that run by default, or all with `full`.
///
/// # Errors
/// If there is no scenario of a name.
pub(super) fn select(scenarios: Vec<Scenario>, names: &[String], full: bool) -> Result<Vec<Scenario>> {
    if let Some(unknown) = names.iter().find(|name| scenarios.iter().all(|scenario| scenario.name != **name)) {
        let known: Vec<&str> = scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
        bail!("there is no scenario `{unknown}`; there are: {}", known.join(", "));
    }
    let wanted = |scenario: &Scenario| match names {
        [] => full || !scenario.full,
        names => names.contains(&scenario.name),
    };
    Ok(scenarios.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str = "shows = 'something'\nscript = 'true'\n";

    fn scenario(name: &str, more: &str) -> Scenario {
        Scenario::parse(name, &format!("{SHORT}{more}")).expect("a valid scenario")
    }

    #[test]
    fn every_scenario_of_the_repository_can_be_read() {
        let scenarios = all().expect("valid scenarios");
        assert!(scenarios.iter().any(|scenario| scenario.name == "boot"));
    }

    #[test]
    fn a_scenario_has_defaults() {
        let short = scenario("a", "");
        assert_eq!((short.variant, short.time, short.smp, short.gpus), (Variant::Stock, GuestTime::Icount, 2, 1));
        let long = scenario("a", "variant = 'patched'\ntime = 'multi'\nmodule = ['xccs=8']\n[files]\n'etc/x' = 'y'\n");
        assert_eq!((long.variant, long.time), (Variant::Patched, GuestTime::Multi));
        assert_eq!(long.files["etc/x"], "y");
    }

    #[test]
    fn mistakes_in_a_scenario_are_errors() {
        let error = |more: &str| format!("{:#}", Scenario::parse("a", &format!("{SHORT}{more}")).expect_err(more));
        assert!(error("smpp = 2\n").contains("smpp"));
        assert!(error("debug = 'kasan'\nrocm = true\n").contains("no gpu code is executed"));
        assert!(error("time = 'fast'\n").contains("fast"));
        assert!(error("smp = 0\n").contains("`smp` is 0"));
        assert!(error("[files]\n'../x' = ''\n").contains("no plain path"));
        assert!(error("[files]\n'/etc/x' = ''\n").contains("no plain path"));
        assert!(error("[[check]]\nwhat = 'stderr-lacks'\ntext = 'x'\n").contains("checks here read results"));
        assert!(Scenario::parse("a", "shows = 'x'\n").is_err(), "a script is needed");
    }

    #[test]
    fn long_scenarios_run_when_they_are_named_or_all_are_wanted() {
        let names = |names: &[&str], full: bool| {
            let all = vec![scenario("long", "full = true\n"), scenario("short", "")];
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let selected = select(all, &names, full).map_err(|error| error.to_string())?;
            Ok::<_, String>(selected.into_iter().map(|scenario| scenario.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[], false).unwrap(), ["short"]);
        assert_eq!(names(&[], true).unwrap(), ["long", "short"]);
        assert_eq!(names(&["long"], false).unwrap(), ["long"]);
        assert!(names(&["other"], false).unwrap_err().contains("there are: long, short"));
    }
}

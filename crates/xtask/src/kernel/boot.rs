//! `cargo xtask kernel boot`: one machine, shown as it runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::fetch::Fetched;
use super::judge::{Verdict, judge};
use super::machine::{self, Ended};
use super::scenario::{self, Scenario};
use super::{Variant, build, fetch, image, initramfs, remove_left_over};

/// The files of one run. What only QEMU reads is removed at the end.
struct RunFiles {
    initramfs: PathBuf,
    console: PathBuf,
    log: PathBuf,
}

impl RunFiles {
    fn new(fetched: &Fetched, name: &str) -> Result<RunFiles> {
        let logs = fetched.work()?.join("logs");
        fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        remove_left_over(&logs)?;
        let own = |ending: &str| logs.join(format!("{ending}.{name}.{}", std::process::id()));
        Ok(RunFiles { initramfs: own("initramfs"), console: own("console"), log: logs.join(format!("{name}.log")) })
    }
}

impl Drop for RunFiles {
    fn drop(&mut self) {
        for file in [&self.initramfs, &self.console] {
            // Interactive runs have no console file.
            let _ = fs::remove_file(file);
        }
    }
}

/// Boots a scenario in the open, or gives a shell.
///
/// # Errors
/// If something is missing, or the scenario fails.
pub(super) fn boot(name: &str, variant: Option<Variant>, shell: bool, module: &Path) -> Result<()> {
    let selected = scenario::select(scenario::all()?, &[name.to_owned()], false)?;
    let mut scenario = selected.into_iter().next().context("there is no scenario")?;
    scenario.variant = variant.unwrap_or(scenario.variant);
    let fetched = fetch::fetch(false)?;
    let module = build::build(&fetched, scenario.variant, module)?;
    let programs = initramfs::build_programs([&scenario])?;
    if scenario.rocm {
        image::build()?;
    }
    if shell {
        let files = RunFiles::new(&fetched, name)?;
        initramfs::write(&files.initramfs, &fetched, &scenario, &module, &programs, true)?;
        return machine::interactive(&fetched, &scenario, &files.initramfs);
    }
    let (ended, verdict) = run(&fetched, &scenario, &module, &programs, |line| println!("{line}"))?;
    println!("{name}: {:.1} s", ended.time.as_secs_f64());
    if !verdict.failures.is_empty() {
        bail!("scenario {name} failed:\n{}", verdict.failures.join("\n"));
    }
    Ok(())
}

/// Returns what the guest printed as `@transcript` lines: the answers of its driver, to be kept.
fn transcript(lines: &[String]) -> String {
    lines.iter().filter_map(|line| line.strip_prefix("@transcript ")).map(|line| format!("{line}\n")).collect()
}

/// Runs a scenario and judges it. All that was printed goes to `logs/NAME.log`, and its `@transcript` lines to
/// `logs/NAME.transcript`.
///
/// # Errors
/// If QEMU cannot be started.
pub(super) fn run(
    fetched: &Fetched,
    scenario: &Scenario,
    module: &Path,
    programs: &Path,
    show: impl FnMut(&str),
) -> Result<(Ended, Verdict)> {
    let files = RunFiles::new(fetched, &scenario.name)?;
    initramfs::write(&files.initramfs, fetched, scenario, module, programs, false)?;
    let ended = machine::run(fetched, scenario, &files.initramfs, &files.console, show)?;
    machine::save(&files.log, &ended)?;
    let transcript = transcript(&ended.lines);
    if !transcript.is_empty() {
        let path = files.log.with_extension("transcript");
        fs::write(&path, transcript).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let verdict = judge(scenario, &ended);
    Ok((ended, verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_what_the_guest_marked_as_one() {
        let lines = ["@transcript a 1: X -> EPERM", "other", "@transcript b 1: Y -> done", "@exit 0"].map(String::from);
        assert_eq!(transcript(&lines), "a 1: X -> EPERM\nb 1: Y -> done\n");
        assert_eq!(transcript(&lines[3..]), "");
    }
}

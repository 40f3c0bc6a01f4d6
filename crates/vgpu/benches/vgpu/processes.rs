//! What needs the whole virtual GPU: this executable runs itself under `gpreempt vgpu run`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client;
use crate::measure::percentile;
use crate::report::{Aim, Report};

const DOORBELL: &str = "doorbell to first wave";
const SHARE: &str = "share of a core the executor gets";
const HOOKS: &str = "python3 -c pass";

pub(crate) fn run(report: &mut Report) {
    report.section("processes (gpreempt vgpu run)");
    let gpreempt = match executable() {
        Ok(found) => found,
        Err(why) => return [DOORBELL, SHARE, HOOKS].into_iter().for_each(|name| report.skip(name, &why)),
    };
    match under(&gpreempt, "doorbell") {
        Ok(found) => {
            for (when, key) in [("1 ms after work", "soon"), ("80 ms after work", "calm")] {
                for percent in ["p50", "p99"] {
                    let name = format!("{DOORBELL}, {when}, {percent} of {}", found[key]["samples"]);
                    report.row(&name, number(&found[key][percent]), "us");
                }
            }
        }
        Err(why) => report.skip(DOORBELL, &why),
    }
    share(report, &gpreempt);
    hooks(report, &gpreempt);
}

fn share(report: &mut Report, gpreempt: &Path) {
    let found = match under(gpreempt, "share") {
        Ok(found) => found,
        Err(why) => return report.skip(SHARE, &why),
    };
    report.row(&format!("{SHARE}, alone"), number(&found["alone"]) * 100.0, "%");
    let name = format!("{SHARE}, beside two programs that spin");
    let beside = number(&found["beside"]) * 100.0;
    // SAFETY: a system call without arguments.
    if unsafe { libc::geteuid() } == 0 {
        report.aimed(&name, beside, "%", Aim::AtLeast(80.0));
    } else {
        report.row(&format!("{name} (the aim needs root)"), beside, "%");
    }
}

fn hooks(report: &mut Report, gpreempt: &Path) {
    match under(gpreempt, "hooks") {
        Ok(found) => {
            for (title, key) in [("without hooks", "without"), ("with hooks", "with")] {
                report.row(&format!("{HOOKS}, {title}, median"), number(&found[key]["median"]), "ms");
                report.row(&format!("{HOOKS}, {title}, fastest"), number(&found[key]["least"]), "ms");
            }
            let cost = number(&found["with"]["least"]) - number(&found["without"]["least"]);
            report.row(&format!("{HOOKS}, cost of the hooks (fastest of each)"), cost, "ms");
        }
        Err(why) => report.skip(HOOKS, &why),
    }
    let mut whole = Vec::new();
    for _ in 0..10 {
        let begin = Instant::now();
        let status = Command::new(gpreempt).args(["vgpu", "run", "--", "python3", "-c", "pass"]).status();
        if status.is_ok_and(|status| status.success()) {
            whole.push(begin.elapsed());
        }
    }
    let name = "gpreempt vgpu run -- python3 -c pass";
    if whole.is_empty() {
        return report.skip(name, "it fails");
    }
    report.row(&format!("{name}, median"), percentile(&mut whole, 50) / 1e3, "ms");
    report.row(&format!("{name}, fastest"), whole.first().map_or(f64::NAN, Duration::as_secs_f64) * 1e3, "ms");
}

/// What a task of [`client`] finds on a virtual GPU of its own.
pub(crate) fn under(gpreempt: &Path, task: &str) -> Result<Value, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(gpreempt)
        .args(["vgpu", "run", "--"])
        .arg(own)
        .args([client::OPTION, task])
        .output()
        .map_err(|error| format!("{}: {error}", gpreempt.display()))?;
    let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let found: Value = serde_json::from_slice(&output.stdout).map_err(|_| format!("no result; {}", said()))?;
    match found["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(found),
    }
}

/// A number that a task found.
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// The command, up to date with this bench: cargo builds it if need be.
pub(crate) fn executable() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    // The bench lies in target/release/deps.
    let release = own.ancestors().nth(2).ok_or("this executable lies in no target directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--quiet", "-p", "gpreempt"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    match built {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("building gpreempt ended with {status}")),
        // Without cargo, what lies there has to do.
        Err(_) => {}
    }
    let found = release.join("gpreempt");
    if found.is_file() { Ok(found) } else { Err(format!("{} does not exist", found.display())) }
}

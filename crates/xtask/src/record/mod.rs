//! `cargo xtask record`: runs the product and puts what it prints into the documentation.
//!
//! The demo's numbers are measured, so they are recorded by hand on a quiet machine now and then, not compared by a
//! test. The laboratory's table is simulated, and `crates/gpreempt/tests/lab.rs` compares it.

mod figure;

use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::run::{command, root};

/// What the README shows of `gpreempt demo --json`; docs/demo-json.md explains every key.
#[derive(Deserialize)]
struct Demo {
    kind: String,
    valid: bool,
    bit_identical: bool,
    alone: Online,
    without: Online,
    with: Online,
    offline: Offline,
    gpreempt: Daemon,
}

/// Latency of the requests in one arm of the demo.
#[derive(Deserialize)]
struct Online {
    p50_us: f64,
    p95_us: f64,
    p99_us: f64,
    /// Percentiles from here on are lower bounds.
    least_unanswered_us: Option<f64>,
}

#[derive(Deserialize)]
struct Offline {
    without_kept_share: f64,
    with_kept_share: f64,
    with_kept_of_ideal: f64,
}

#[derive(Deserialize)]
struct Daemon {
    stops: u64,
}

/// Runs the demo and records it.
///
/// # Errors
/// If the demo fails or is not valid; the README stays as it is then.
pub(crate) fn demo() -> Result<()> {
    let demo: Demo =
        serde_json::from_slice(&printed(&["demo", "--json"])?).context("the demo printed another document")?;
    if !demo.valid || !demo.bit_identical {
        bail!("the demo is not valid (was the machine busy?), and the README stays");
    }
    let caption = caption(&demo);
    replace("README.md", "demo", &caption)?;
    fs::write(root().join("docs/demo.svg"), figure::draw(&demo)).context("cannot write docs/demo.svg")?;
    println!("{caption}");
    Ok(())
}

/// Records the comparison of mechanisms.
///
/// # Errors
/// If the laboratory fails, or docs/lab.md lacks the marks.
pub(crate) fn lab() -> Result<()> {
    let text = String::from_utf8(printed(&["lab", "compare"])?).context("the laboratory prints text")?;
    let lines: Vec<String> = text.trim_end().lines().map(|line| format!("    {line}").trim_end().to_string()).collect();
    replace("docs/lab.md", "lab compare", &lines.join("\n"))
}

/// Runs `gpreempt` and returns what it prints.
fn printed(arguments: &[&str]) -> Result<Vec<u8>> {
    let line = arguments.join(" ");
    let output = command("cargo")
        .args(["run", "--release", "--quiet", "--"])
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run `gpreempt {line}`"))?;
    if !output.status.success() {
        bail!("`gpreempt {line}` failed, nothing is recorded:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// A time with three digits, and a sign if it is a lower bound.
fn time(online: &Online, us: f64) -> String {
    let (value, unit) = if us >= 1e6 { (us / 1e6, "s") } else { (us / 1e3, "ms") };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let bound = if is_lower_bound(online, us) { ">= " } else { "" };
    format!("{bound}{value:.digits$} {unit}")
}

fn is_lower_bound(online: &Online, us: f64) -> bool {
    online.least_unanswered_us.is_some_and(|least| us >= least)
}

/// What the picture shows, in words.
fn caption(demo: &Demo) -> String {
    let Demo { alone, without, with, offline, gpreempt, kind, .. } = demo;
    format!(
        "Latency at p95, {kind}: {} alone, {} beside training, {} with gpreempt ({:.2}x alone).\n\
         Training keeps {:.0} % of its throughput ({:.0} % without gpreempt), {:.0} % of what the requests leave over.\n\
         {} stops; every result is identical bit by bit to that of an undisturbed run.",
        time(alone, alone.p95_us),
        time(without, without.p95_us),
        time(with, with.p95_us),
        with.p95_us / alone.p95_us,
        offline.with_kept_share * 100.0,
        offline.without_kept_share * 100.0,
        offline.with_kept_of_ideal * 100.0,
        gpreempt.stops,
    )
}

/// Replaces the text between the marks of `name` in a file of the workspace.
fn replace(file: &str, name: &str, text: &str) -> Result<()> {
    let path = root().join(file);
    let old = fs::read_to_string(&path).with_context(|| format!("cannot read {file}"))?;
    let new =
        replaced(&old, name, text).with_context(|| format!("{file} does not mark where {name:?} begins and ends"))?;
    fs::write(&path, new).with_context(|| format!("cannot write {file}"))
}

/// The document with the text between the marks replaced; `None` without marks.
fn replaced(document: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->\n"));
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{text}\n\n{end}{after}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(super) fn example() -> Demo {
        let online =
            |p50_us, p95_us, p99_us, least_unanswered_us| Online { p50_us, p95_us, p99_us, least_unanswered_us };
        Demo {
            kind: "emulated".into(),
            valid: true,
            bit_identical: true,
            alone: online(15_200.0, 34_300.0, 43_100.0, None),
            without: online(369_000.0, 1_370_000.0, 1_430_000.0, Some(1_000_000.0)),
            with: online(16_200.0, 34_600.0, 44_900.0, None),
            offline: Offline { without_kept_share: 0.606, with_kept_share: 0.508, with_kept_of_ideal: 0.846 },
            gpreempt: Daemon { stops: 192 },
        }
    }

    #[test]
    fn only_the_text_between_the_marks_changes() {
        let document = "a\n<!-- demo: begin -->\nold\n<!-- demo: end -->\nb\n";
        let new = replaced(document, "demo", "x\ny").expect("has marks");
        assert_eq!(new, "a\n<!-- demo: begin -->\n\nx\ny\n\n<!-- demo: end -->\nb\n");
        assert_eq!(replaced(document, "lab", "x"), None);
    }

    #[test]
    fn a_lower_bound_is_marked_as_one() {
        let demo = example();
        assert_eq!(time(&demo.without, 369_000.0), "369 ms");
        assert_eq!(time(&demo.without, 1_370_000.0), ">= 1.37 s");
        let text = caption(&demo);
        assert!(text.contains(">= 1.37 s beside training, 34.6 ms with gpreempt (1.01x alone)"), "{text}");
        assert!(text.contains("51 %") && text.contains("61 % without") && text.contains("85 % of what"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    }
}

//! Recordings of real runs for the README: measured, so they are made by hand now and then, not compared by a test.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

const BEGIN: &str = "<!-- demo: begin -->\n";
const END: &str = "<!-- demo: end -->\n";

/// Runs the demo and puts what it prints into the README.
pub(crate) fn demo() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--release", "--quiet", "--", "demo"])
        .output()
        .context("cannot run the demo")?;
    if !output.status.success() {
        bail!("the demo failed, and the README stays:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout).context("the demo prints text")?;
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let old = fs::read_to_string(&readme).context("cannot read the README")?;
    fs::write(&readme, replaced(&old, &text)?).context("cannot write the README")?;
    print!("{text}");
    Ok(())
}

/// The document with what is between the marks replaced by a text, as a block of Markdown.
fn replaced(document: &str, text: &str) -> Result<String> {
    let (before, rest) = document.split_once(BEGIN).context("the README does not mark where the demo begins")?;
    let (_, after) = rest.split_once(END).context("the README does not mark where the demo ends")?;
    let lines: Vec<String> = text.trim_end().lines().map(|line| format!("    {line}").trim_end().to_string()).collect();
    Ok(format!("{before}{BEGIN}\n{}\n\n{END}{after}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let document = format!("a\n{BEGIN}old\n{END}b\n");
        let new = replaced(&document, "x \n\ny\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\n    x\n\n    y\n\n{END}b\n"));
        assert!(replaced("no marks", "x").is_err());
    }
}

//! `cargo xtask tidy`: the house rules that a machine can check. CONTRIBUTING.md gives the reasons.
//!
//! Every rule has a fixture below `fixtures/tidy` that violates it, so that a rule which finds nothing any more is
//! noticed.

mod allows;
mod lengths;
mod names;
mod prose;
mod source;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::run::root;
use source::{RustFile, TextFile};

/// One violation of one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Relative to the root.
    file: PathBuf,
    line: usize,
    rule: &'static str,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file.display(), self.line, self.rule, self.message)
    }
}

/// Checks the workspace and prints every violation.
///
/// # Errors
/// If there is a violation, or a file cannot be read or parsed.
pub(crate) fn tidy() -> Result<()> {
    let findings = check(&root())?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy: 1 violation; CONTRIBUTING.md explains the rules"),
        count => bail!("tidy: {count} violations; CONTRIBUTING.md explains the rules"),
    }
}

/// Applies every rule to the tree below `root`; violations are sorted by file and line.
fn check(root: &Path) -> Result<Vec<Finding>> {
    let files = source::files(root)?;
    let mut rust = Vec::new();
    let mut findings = Vec::new();
    for path in &files {
        let Some(text) = TextFile::read(root, path)? else { continue };
        prose::check(&text, &mut findings);
        words::check(&text, &mut findings)?;
        if let Some(file) = RustFile::parse(text)? {
            rust.push(file);
        }
    }
    for file in &rust {
        lengths::check(file, &mut findings);
        allows::check(file, &mut findings);
    }
    names::check(&rust, &mut findings);
    findings.sort();
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_in(fixture: &str) -> Vec<String> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tidy").join(fixture);
        check(&directory).expect("can be read").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_type_name_that_is_public_in_three_crates_is_found() {
        let found = findings_in("names");
        assert_eq!(found.len(), 3, "one for each crate: {found:#?}");
        assert!(found.iter().all(|line| line.contains("names: `Report` is public in 3 crates: a, b, c")), "{found:#?}");
    }

    #[test]
    fn a_long_function_and_a_long_file_are_found() {
        let found = findings_in("lengths");
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found[2].contains("provided.rs:4: lengths: function `provided` has 81 lines"), "{found:#?}");
        assert!(found[0].contains("long.rs:1: lengths: the file has 451 lines of code"), "{found:#?}");
        assert!(found[1].contains("long.rs:373: lengths: function `long` has 81 lines"), "{found:#?}");
    }

    #[test]
    fn a_comment_or_paragraph_of_121_columns_is_found() {
        let found = findings_in("prose");
        let expected = ["page.md:3: prose:", "prose.rs:2: prose:", "script.sh:2: prose:"];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (line, start) in found.iter().zip(expected) {
            assert!(line.starts_with(start) && line.contains("121 columns"), "{line}");
        }
    }

    #[test]
    fn an_allow_without_a_reason_is_found() {
        let found = findings_in("allows");
        let expected = ["allows.rs:1:", "allows.rs:3:", "allows.rs:9:", "allows.rs:15:"];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (line, start) in found.iter().zip(expected) {
            assert!(line.starts_with(start) && line.contains("allows:"), "{line}");
        }
    }

    #[test]
    fn vague_words_and_empty_documentation_are_found() {
        let found = findings_in("words");
        let expected = [
            "page.md:3: words: \"whoever\"",
            "page.md:5: words: \"what becomes of\"",
            "vague.rs:1: words: \"whoever\"",
            "vague.rs:5: words: \"Which.\"",
            "vague.rs:7: words: \"See above.\"",
            "vague.rs:17: words: \"what becomes of\"",
            "vague.rs:20: words: \"somebody\"",
            "vague.rs:21: words: \"somebody\"",
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (line, start) in found.iter().zip(expected) {
            assert!(line.starts_with(start), "{line} is not {start}");
        }
    }

    #[test]
    fn a_file_that_is_not_rust_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().expect("can be made");
        std::fs::write(directory.path().join("broken.rs"), "fn (").expect("can be written");
        let error = format!("{:#}", check(directory.path()).expect_err("is no Rust"));
        assert!(error.contains("broken.rs"), "{error}");
    }
}

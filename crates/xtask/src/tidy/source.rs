//! The files of a tree, as text and as syntax.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Directories that hold nothing written here, or the fixtures that violate the rules on purpose.
const SKIPPED: &[&str] = &["target", ".git", "fixtures", "node_modules"];

/// Endings of the files that rules apply to.
const ENDINGS: &[&str] = &["rs", "md", "c", "h", "py", "sh", "toml", "service"];

/// Paths of all files below `root` that a rule may apply to, relative to it and sorted.
pub(super) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let path = root.join(&directory);
        for entry in fs::read_dir(&path).with_context(|| format!("cannot list {}", path.display()))? {
            let entry = entry?;
            let name = entry.file_name();
            let relative = directory.join(&name);
            if entry.file_type()?.is_dir() {
                if !SKIPPED.iter().any(|skipped| name == *skipped) {
                    directories.push(relative);
                }
            } else if relative.extension().is_some_and(|found| ENDINGS.iter().any(|ending| found == *ending)) {
                found.push(relative);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// One file.
pub(super) struct TextFile {
    /// Relative to the root.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl TextFile {
    /// Reads a file; `None` if it is not UTF-8.
    pub(super) fn read(root: &Path, path: &Path) -> Result<Option<TextFile>> {
        let bytes = fs::read(root.join(path)).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8(bytes).ok().map(|text| TextFile { path: path.to_owned(), text }))
    }

    /// The file name's ending.
    pub(super) fn ending(&self) -> &str {
        self.path.extension().and_then(|ending| ending.to_str()).unwrap_or_default()
    }
}

/// A Rust source file and its syntax tree.
pub(super) struct RustFile {
    pub(super) source: TextFile,
    pub(super) syntax: syn::File,
}

impl RustFile {
    /// Parses a file; `None` if its name is not that of a Rust file.
    pub(super) fn parse(source: TextFile) -> Result<Option<RustFile>> {
        if source.ending() != "rs" {
            return Ok(None);
        }
        let syntax =
            syn::parse_file(&source.text).with_context(|| format!("cannot parse {}", source.path.display()))?;
        Ok(Some(RustFile { source, syntax }))
    }

    /// The directory below `crates` that the file belongs to.
    pub(super) fn crate_name(&self) -> Option<&str> {
        let mut parts = self.source.path.components().map(|part| part.as_os_str().to_str().unwrap_or_default());
        (parts.next()? == "crates").then(|| parts.next())?
    }

    /// Whether the whole file is compiled for tests and benchmarks only.
    pub(super) fn is_test(&self) -> bool {
        let name = |part: std::path::Component<'_>| {
            matches!(part.as_os_str().to_str(), Some("tests" | "benches" | "proofs" | "tests.rs"))
        };
        self.source.path.components().any(name)
    }
}

/// Whether an item is compiled for tests only.
pub(super) fn is_test_item(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

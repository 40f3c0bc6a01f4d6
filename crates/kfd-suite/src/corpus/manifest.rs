//! `corpus.toml`: the kernels, their data and their grids.

use std::path::Path;

use serde::Deserialize;

use super::error::CorpusError;

/// The kernels.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// In the order of the file.
    #[serde(rename = "kernel")]
    pub kernels: Vec<CorpusKernel>,
}

/// A kernel of the corpus.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusKernel {
    /// Its name, and that of its files.
    pub name: String,
    /// What it reads.
    #[serde(rename = "in")]
    pub input: Input,
    /// What it writes.
    #[serde(rename = "out")]
    pub output: Output,
    /// The kernel's last argument.
    pub items: i32,
    /// Work items of a workgroup.
    pub group: [u16; 3],
    grid: Option<[u32; 3]>,
    /// Private memory of a work item that the compiler cannot know of.
    #[serde(default)]
    pub stack: u32,
}

/// What a kernel reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Type of an element, such as `u32`.
    #[serde(rename = "type")]
    pub element: String,
    /// Number of elements.
    pub count: usize,
    /// Kind of values, as `corpus_fill` of the library names it.
    pub fill: String,
}

/// What a kernel writes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    #[serde(rename = "type")]
    element: String,
    count: usize,
    #[serde(default)]
    fill: u8,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    ///
    /// If it is missing or not one.
    pub fn read(path: &Path) -> Result<Manifest, CorpusError> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|source| CorpusError::Read { path: path.to_owned(), source })?;
        Manifest::parse(&text).map_err(|message| CorpusError::Manifest { path: path.to_owned(), message })
    }

    fn parse(text: &str) -> Result<Manifest, String> {
        let manifest: Manifest = toml::from_str(text).map_err(|error| error.to_string())?;
        for kernel in &manifest.kernels {
            for element in [&kernel.input.element, &kernel.output.element] {
                if width(element) == 0 {
                    return Err(format!("kernel {}: there is no type {element:?}", kernel.name));
                }
            }
        }
        if manifest.kernels.is_empty() { Err("it lists no kernel".to_owned()) } else { Ok(manifest) }
    }
}

/// Bytes of an element: its type ends with its bits. 0 if there is no such type.
fn width(element: &str) -> usize {
    let bits = element.strip_prefix(['i', 'u', 'f']).and_then(|bits| bits.parse().ok());
    match bits {
        Some(bits @ (8 | 16 | 32 | 64)) => bits / 8,
        _ => 0,
    }
}

impl CorpusKernel {
    /// Work items of the dispatch: without a grid of its own one for each item, in whole workgroups.
    #[must_use]
    pub fn grid(&self) -> [u32; 3] {
        let items = self.items.cast_unsigned().next_multiple_of(u32::from(self.group[0]).max(1));
        self.grid.unwrap_or([items, 1, 1])
    }
}

impl Input {
    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.count * width(&self.element)
    }
}

impl Output {
    /// Returns the contents before the kernel runs.
    #[must_use]
    pub fn start(&self) -> Vec<u8> {
        vec![self.fill; self.count * width(&self.element)]
    }

    /// Describes the first element that is not as expected and counts the others; `None` if all are.
    #[must_use]
    pub fn difference(&self, found: &[u8], expected: &[u8]) -> Option<String> {
        let width = width(&self.element).max(1);
        let elements = found.chunks(width).zip(expected.chunks(width)).enumerate();
        let mut wrong = elements.filter(|(_, (found, expected))| found != expected);
        let (first, (found, expected)) = wrong.next()?;
        let show = |bytes: &[u8]| -> String { bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect() };
        let (found, expected) = (show(found), show(expected));
        let count = 1 + wrong.count();
        Some(format!("element {first}: got {found}, expected {expected} ({count} of {} wrong)", self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(element: &str) -> Result<Manifest, String> {
        let shape = format!("{{ type = \"{element}\", count = 4");
        Manifest::parse(&format!(
            "[[kernel]]\nname = \"k\"\nin = {shape}, fill = \"bits\" }}\nout = {shape} }}\nitems = 100\ngroup = [64, 1, 1]\n"
        ))
    }

    #[test]
    fn a_kernel_without_a_grid_gets_whole_workgroups() {
        let manifest = manifest("u16").unwrap();
        assert_eq!(manifest.kernels[0].grid(), [128, 1, 1]);
        assert_eq!((manifest.kernels[0].input.bytes(), manifest.kernels[0].output.start().len()), (8, 8));
    }

    #[test]
    fn a_wrong_element_is_named_and_the_others_counted() {
        let output = &manifest("u16").unwrap().kernels[0].output;
        let expected = [1, 0, 2, 0, 3, 0, 4, 0];
        assert_eq!(output.difference(&expected, &expected), None);
        let said = output.difference(&[1, 0, 9, 8, 3, 0, 0, 0], &expected).unwrap();
        assert_eq!(said, "element 1: got 0809, expected 0002 (2 of 4 wrong)");
    }

    #[test]
    fn unknown_types_and_empty_lists_are_refused() {
        assert!(manifest("u33").unwrap_err().contains("u33"));
        assert!(manifest("").is_err());
        assert!(Manifest::parse("kernel = []").is_err());
    }
}

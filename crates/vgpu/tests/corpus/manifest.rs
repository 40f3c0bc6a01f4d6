//! `corpus.toml`: the kernels, their data and their grids.

use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
struct Manifest {
    kernel: Vec<Kernel>,
}

/// A kernel of the corpus.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    #[serde(rename = "in")]
    pub(crate) input: Input,
    #[serde(rename = "out")]
    pub(crate) output: Output,
    /// The kernel's last argument.
    pub(crate) items: i32,
    pub(crate) group: [u16; 3],
    grid: Option<[u32; 3]>,
    /// Private memory of a work item that the compiler cannot know of.
    #[serde(default)]
    pub(crate) stack: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    #[serde(rename = "type")]
    pub(crate) element: String,
    pub(crate) count: usize,
    pub(crate) fill: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Output {
    #[serde(rename = "type")]
    element: String,
    count: usize,
    #[serde(default)]
    fill: u8,
}

/// Reads the manifest.
pub(crate) fn read(file: &Path) -> Vec<Kernel> {
    let manifest: Manifest = toml::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    manifest.kernel
}

/// Bytes of an element: its type ends with its bits.
fn width(element: &str) -> usize {
    element[1..].parse::<usize>().unwrap() / 8
}

impl Kernel {
    /// Work items of the dispatch: without a grid of its own one for each item, in whole workgroups.
    pub(crate) fn grid(&self) -> [u32; 3] {
        let items = self.items.cast_unsigned().next_multiple_of(self.group[0].into());
        self.grid.unwrap_or([items, 1, 1])
    }
}

impl Input {
    pub(crate) fn bytes(&self) -> usize {
        self.count * width(&self.element)
    }
}

impl Output {
    /// What it holds before the kernel runs.
    pub(crate) fn start(&self) -> Vec<u8> {
        vec![self.fill; self.count * width(&self.element)]
    }

    /// The first element that is not as expected, and how many are not.
    pub(crate) fn difference(&self, found: &[u8], expected: &[u8]) -> Option<String> {
        let width = width(&self.element);
        let differ = |&element: &usize| found[element * width..][..width] != expected[element * width..][..width];
        let wrong: Vec<_> = (0..self.count).filter(differ).collect();
        let first = *wrong.first()?;
        let show = |bytes: &[u8]| -> String {
            bytes[first * width..][..width].iter().rev().map(|byte| format!("{byte:02x}")).collect()
        };
        let (found, expected) = (show(found), show(expected));
        Some(format!("element {first}: got {found}, expected {expected} ({} of {} wrong)", wrong.len(), self.count))
    }
}

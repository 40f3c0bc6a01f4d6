//! The committed objects are what the committed sources compile to.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

fn listing(directory: &Path, extension: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

#[test]
fn every_source_has_an_object_and_every_object_a_source() {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let sources = listing(&kernels, "c").expect("sources");
    assert_eq!(sources, listing(&kernels.join("gfx942"), "hsaco").expect("objects"));
    assert!(sources.len() >= 15);
}

#[test]
#[ignore = "needs clang-19, lld-19 and llvm-19"]
fn rebuilding_gives_the_committed_bytes() {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let status = Command::new(kernels.join("build.sh")).arg(folder.path()).status().expect("the script starts");
    assert!(status.success(), "the script failed");
    for name in listing(&kernels.join("gfx942"), "hsaco").expect("objects") {
        let file = format!("{name}.hsaco");
        let committed = fs::read(kernels.join("gfx942").join(&file)).expect("a committed object");
        let rebuilt = fs::read(folder.path().join(&file)).expect("a rebuilt object");
        assert!(committed == rebuilt, "{file} is not what its source compiles to; run kernels/build.sh");
    }
}

//! Computes the build id by which launcher and preloaded library recognise each other: a hash of the sources that make
//! up the virtual GPU.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

fn main() {
    let mut hasher = DefaultHasher::new();
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    for name in ["vgpu", "vgpu-isa", "vgpu-preload", "kfd-abi"] {
        let sources = Path::new(&here).join("..").join(name).join("src");
        println!("cargo::rerun-if-changed={}", sources.display());
        hash(&sources, &mut hasher);
    }
    std::env::var("PROFILE").unwrap_or_default().hash(&mut hasher);
    println!("cargo::rustc-env=VGPU_BUILD_ID={:016x}", hasher.finish());
}

fn hash(path: &Path, hasher: &mut DefaultHasher) {
    if path.is_dir() {
        let mut names: Vec<_> = path.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        names.sort();
        for name in names {
            hash(&name, hasher);
        }
    } else if let Ok(bytes) = std::fs::read(path) {
        path.file_name().hash(hasher);
        bytes.hash(hasher);
    }
}

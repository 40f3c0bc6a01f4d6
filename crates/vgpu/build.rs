//! Computes the build id by which launcher and preloaded library recognise each other: a hash of the sources that make
//! up the virtual gpu. Crates that are not beside this one, as outside of the workspace, count by the version alone.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// The crates whose code is in the library, with the directories that are compiled into them.
const SOURCES: [&str; 8] = [
    "vgpu/src",
    "vgpu-driver/src",
    "vgpu-driver/profiles",
    "vgpu-isa/src",
    "vgpu-preload/src",
    "kfd-abi/src",
    "linux-host/src",
    "toml-source/src",
];

fn main() {
    let mut hasher = DefaultHasher::new();
    let own = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rerun-if-changed={own}/src");
    for name in ["CARGO_PKG_VERSION", "PROFILE"] {
        std::env::var(name).unwrap_or_default().hash(&mut hasher);
    }
    for name in SOURCES {
        name.hash(&mut hasher);
        let sources = Path::new(&own).join("..").join(name);
        // A path that is missing would make cargo run this every time.
        if sources.is_dir() {
            println!("cargo::rerun-if-changed={}", sources.display());
            hash(&sources, &mut hasher);
        }
    }
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

//! Programs of the HIP runtime beside programs that talk to the driver themselves.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpreempt_testkit::daemon::{Rules, TestDaemon};
use gpreempt_testkit::program::Program;
use gpreempt_testkit::{Scene, play, this_test};

const ONLINE: &[&str] = &["online", "--requests", "20", "--kernels", "2", "--groups", "4", "--steps", "100"];
const ARRIVALS: &[&str] = &["--rate", "20", "--seed", "7", "--patience-ms", "60000", "--wait"];
const OFFLINE: &[&str] = &["offline", "--groups", "32", "--steps", "2000", "--depth", "2"];

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A HIP program with the words of `gpreempt load`.
fn hip_load() -> Command {
    let rocm = std::env::var_os("GPREEMPT_ROCM").map_or_else(|| file("../../target/rocm13"), PathBuf::from);
    assert!(rocm.join("run").is_file(), "no ROCm in {}: `cargo xtask setup` puts it there", rocm.display());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hip-beside");
    let build = Command::new(file("tests/clients/hip/build.sh")).arg(&rocm).arg(&directory).output();
    let build = build.expect("can be started");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let mut command = Command::new(rocm.join("run"));
    command.arg(directory.join("hip_load"));
    command
}

/// Requests of one program beside another that fills the gpu.
fn meet(scene: &Scene, hip_is_online: bool) {
    let service = TestDaemon::start(scene, Rules::default());
    let load = |level: u8, is_hip: bool, words: &[&str]| {
        if !is_hip {
            return service.load(level, words);
        }
        Program::start(hip_load().args(words).env("GPREEMPT_LEVEL", level.to_string()))
    };
    let offline = load(2, !hip_is_online, OFFLINE);
    offline.until("kernel");
    let online = load(12, hip_is_online, &[ONLINE, ARRIVALS].concat());
    service.must_serve(online, &offline);
    assert!(offline.must_end_right() > 0);
    assert_eq!(service.count(|gpu| gpu.failures), 0);
    service.stop();
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn other_programs_stop_for_a_hip_program_and_lose_nothing() {
    play(this_test!(), &["--cus", "8"], |scene| meet(scene, true));
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn a_hip_program_stops_for_other_programs_and_loses_nothing() {
    play(this_test!(), &["--cus", "8"], |scene| meet(scene, false));
}

//! ROCm 6.1, 6.4 and 7.2 on the virtual gpu: rocminfo, and HIP programs compiled here.
//!
//! `hip/hip_suite.c` says what the program does. For other tests: `hip/build.sh ROCM OUTDIR` builds it, and `gpreempt
//! vgpu run -- ROCM/run OUTDIR/hip_suite --rounds N [JOB ...]` runs it; its output depends on the arguments alone.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::{file, text};

/// Jobs that run if none is named.
const JOBS: usize = 27;

/// A release of ROCm that `cargo xtask setup` unpacks.
pub(super) struct Rocm {
    pub(super) version: &'static str,
    variable: &'static str,
    directory: &'static str,
    /// Whether HIP returns an error after the queue has failed if core files are off; older ones end the program.
    returns_errors: bool,
    suite: OnceLock<String>,
}

static ROCM13: Rocm = Rocm {
    version: "6.1",
    variable: "GPREEMPT_ROCM",
    directory: "rocm13",
    returns_errors: false,
    suite: OnceLock::new(),
};
static ROCM64: Rocm = Rocm {
    version: "6.4",
    variable: "GPREEMPT_ROCM64",
    directory: "rocm64",
    returns_errors: false,
    suite: OnceLock::new(),
};
pub(super) static ROCM72: Rocm = Rocm {
    version: "7.2",
    variable: "GPREEMPT_ROCM72",
    directory: "rocm72",
    returns_errors: true,
    suite: OnceLock::new(),
};

/// The releases, oldest first, without one that the archive no longer had when `cargo xtask setup` wanted it.
pub(super) fn releases() -> impl Iterator<Item = &'static Rocm> {
    [&ROCM13, &ROCM64, &ROCM72].into_iter().filter(|rocm| !rocm.has_vanished())
}

fn path(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("a path of text")
}

impl Rocm {
    fn directory(&self) -> PathBuf {
        let usual = || file("../../target").join(self.directory);
        std::env::var_os(self.variable).map_or_else(usual, PathBuf::from)
    }

    fn has_vanished(&self) -> bool {
        let reason = std::fs::read_to_string(self.directory().join("vanished"));
        if let Ok(reason) = &reason {
            println!("ROCm {} is {reason}", self.version);
        }
        reason.is_ok()
    }

    pub(super) fn path(&self) -> PathBuf {
        let directory = self.directory();
        assert!(directory.join("run").is_file(), "no {}: `cargo xtask setup` puts it there", directory.display());
        directory
    }

    /// Starts a program of that ROCm.
    pub(super) fn run(&self) -> String {
        path(self.path().join("run"))
    }

    /// Another program that is compiled with the suite.
    fn program(&self, name: &str) -> String {
        path(Path::new(self.suite()).with_file_name(name))
    }

    /// The suite, compiled for this release.
    fn suite(&self) -> &str {
        self.suite.get_or_init(|| {
            let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hip").join(self.directory);
            let build = Command::new(file("tests/clients/hip/build.sh"))
                .arg(self.path())
                .arg(&directory)
                .output()
                .expect("can be started");
            assert!(build.status.success(), "{}", text(&build));
            path(directory.join("hip_suite"))
        })
    }
}

fn on_vgpu(profile: &str, environment: Option<(&str, &str)>, words: &[&str]) -> Output {
    // A program that hangs is a failure that shows what it printed.
    Command::new("timeout")
        .args(["--kill-after=10", "600"])
        .arg(assert_cmd::cargo::cargo_bin!("gpreempt"))
        .args(["vgpu", "run", "--profile", profile, "--"])
        .args(words)
        .envs(environment)
        .output()
        .expect("can be started")
}

/// What the suite prints; it must succeed.
fn suite(rocm: &Rocm, profile: &str, environment: Option<(&str, &str)>, arguments: &[&str]) -> String {
    let run = rocm.run();
    let words = [&[run.as_str(), rocm.suite()], arguments].concat();
    let output = on_vgpu(profile, environment, &words);
    assert!(output.status.success(), "{profile} {environment:?}: {:?}\n{}", output.status, text(&output));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
#[ignore = "needs ROCm"]
fn rocminfo_describes_every_gpu_to_the_end() {
    for rocm in releases() {
        for (profile, gpus) in [("mi300x", 1), ("mi300x-cpx", 2), ("mi308x", 1)] {
            let output = on_vgpu(profile, None, &[&rocm.run(), "rocminfo"]);
            let printed = text(&output);
            assert!(output.status.success() && printed.contains("*** Done ***"), "{profile}: {printed}");
            let isa = printed.lines().filter(|line| line.contains("amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-")).count();
            assert_eq!(isa, gpus, "{profile}: {printed}");
        }
    }
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn hip_programs_compute_the_same_in_every_mode_and_on_every_profile() {
    let rounds = ["--rounds", "2"];
    let expected = suite(&ROCM13, "mi300x", None, &rounds);
    assert_eq!(expected.lines().count(), 2 * JOBS, "{expected}");
    for environment in [
        ("HSA_ENABLE_SDMA", "0"),
        ("HSA_ENABLE_SDMA", "1"),
        ("HIP_LAUNCH_BLOCKING", "1"),
        ("HSA_ENABLE_INTERRUPT", "0"),
        ("GPU_MAX_HW_QUEUES", "1"),
        ("GPREEMPT_VGPU_WORKERS", "3"),
    ] {
        assert_eq!(suite(&ROCM13, "mi300x", Some(environment), &rounds), expected, "{environment:?}");
    }
    for profile in ["mi300x-cpx", "mi308x"] {
        assert_eq!(suite(&ROCM13, profile, None, &rounds), expected, "{profile}");
    }
    for rocm in releases().skip(1) {
        for (profile, environment) in
            [("mi300x", None), ("mi300x-cpx", None), ("mi300x", Some(("HSA_ENABLE_INTERRUPT", "0")))]
        {
            let printed = suite(rocm, profile, environment, &rounds);
            assert_eq!(printed, expected, "ROCm {}, {profile} {environment:?}", rocm.version);
        }
    }
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn hip_programs_place_memory_themselves_and_share_it_with_other_processes() {
    // Without it, ROCr 6.4 shares memory by a call that AMD's own driver has and Linux has not.
    let environment = Some(("HSA_ENABLE_IPC_MODE_LEGACY", "0"));
    // Afterwards no process has memory, and none of it is in use.
    let script = r#"
        HIP_SHARING_RUN=$1 HIP_SHARING=$2 timeout 100 "$1" "$2" || exit
        for i in $(seq 200); do
            used=$("$3" vgpu status --json | grep '"vram_used_bytes"') || exit
            echo "$used" | grep -qv '"vram_used_bytes": 0,' || { echo nothing is in use; exit 0; }
            sleep 0.05
        done
        echo "$used"; exit 1"#;
    let gpreempt = assert_cmd::cargo::cargo_bin!("gpreempt").to_str().expect("a path of text");
    // The program wants HIP 6 or later.
    for rocm in releases().skip(1) {
        let (run, sharing) = (rocm.run(), rocm.program("hip_sharing"));
        for profile in ["mi300x", "mi300x-cpx"] {
            let output = on_vgpu(profile, environment, &["sh", "-c", script, "sh", &run, &sharing, gpreempt]);
            let printed = text(&output);
            assert!(output.status.success(), "ROCm {}, {profile}: {printed}", rocm.version);
            let lines = String::from_utf8_lossy(&output.stdout).lines().count();
            assert_eq!(lines, 9, "ROCm {}, {profile}: {printed}", rocm.version);
        }
    }
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn memory_and_queues_of_hip_programs_come_and_go_many_times() {
    let printed = suite(&ROCM13, "mi300x", None, &["--rounds", "20", "managed", "registered", "streams", "copies"]);
    assert_eq!(printed.lines().count(), 80, "{printed}");
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn hip_programs_share_a_gpu_one_after_another_and_at_the_same_time() {
    let alone = suite(&ROCM13, "mi300x", None, &["--rounds", "2"]);
    // HIP programs end without giving anything back: what they leave must not stay.
    let script = r#"
        "$1" "$2" --rounds 2 >"$3/first" & "$1" "$2" --rounds 2 >"$3/second"; wait $! || exit
        for i in 1 2 3; do "$1" "$2" axpy >/dev/null || exit; done
        cat "$3/first" "$3/second"
        # The driver notices the end of a process by itself, and maybe later than the parent that waits for it.
        for i in $(seq 100); do [ -z "$(ls /sys/class/kfd/kfd/proc)" ] && exit; sleep 0.05; done
        ls /sys/class/kfd/kfd/proc"#;
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().to_str().expect("a path of text");
    let output = on_vgpu("mi300x", None, &["sh", "-c", script, "sh", &ROCM13.run(), ROCM13.suite(), place]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{alone}{alone}"));
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn an_error_of_a_queue_calls_its_callback_once() {
    let expected = "abort HSA_STATUS_ERROR_EXCEPTION 1\n\
                    no_instruction HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION 1\n\
                    packet_type HSA_STATUS_ERROR_INVALID_PACKET_FORMAT 1\n\
                    dimensions HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS 1\n\
                    workgroup_size HSA_STATUS_ERROR_INVALID_ARGUMENT 1\n\
                    local_memory HSA_STATUS_ERROR_INVALID_ALLOCATION 1\n\
                    no_kernel HSA_STATUS_ERROR_INVALID_CODE_OBJECT 1\n";
    // The runtime may write a core file of the gpu.
    let script = r#"ulimit -c 0; exec timeout 100 "$@""#;
    for rocm in releases() {
        for environment in [None, Some(("HSA_ENABLE_INTERRUPT", "0"))] {
            let words = ["sh", "-c", script, "sh", &rocm.run(), &rocm.program("hsa_errors")];
            let output = on_vgpu("mi300x", environment, &words);
            assert!(output.status.success(), "ROCr {}, {environment:?}: {}", rocm.version, text(&output));
            let printed = String::from_utf8_lossy(&output.stdout);
            assert_eq!(printed, expected, "ROCr {}, {environment:?}", rocm.version);
        }
    }
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn an_error_of_a_queue_reaches_a_hip_program_once_with_the_runtimes_own_message() {
    let script = r#"cd "$1" && ulimit -c "$2" && shift 2 && exec timeout 60 "$@""#;
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().to_str().expect("a path of text");
    for rocm in releases() {
        for (job, message) in
            [("give_up", "HSA_STATUS_ERROR_EXCEPTION"), ("no_code", "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION")]
        {
            for core_limit in ["0", "1"] {
                let words = ["sh", "-c", script, "sh", place, core_limit, &rocm.run(), rocm.suite(), "axpy", job];
                let output = on_vgpu("mi300x", None, &words);
                let printed = text(&output);
                let case = format!("ROCm {}, {job}, core files up to {core_limit}: {printed}", rocm.version);
                assert!(printed.contains("axpy 0 "), "{case}");
                assert_eq!(printed.matches(message).count(), 1, "the callback is called once: {case}");
                assert!(printed.contains(&format!(" aborting with error : {message}")), "{case}");
                let returns = rocm.returns_errors && core_limit == "0";
                assert_eq!(printed.contains("is hipErrorLaunchFailure"), returns, "{case}");
                // What timeout makes of an abort depends on whether there is a core file.
                let aborted = output.status.code() == Some(128 + 6) || output.status.signal() == Some(6);
                assert!(!output.status.success() && aborted != returns, "{:?} {case}", output.status);
            }
        }
    }
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn an_assertion_of_a_hip_kernel_says_what_does_not_hold() {
    let script = r#"ulimit -c 0; exec timeout 60 "$@""#;
    for rocm in releases() {
        let output = on_vgpu("mi300x", None, &["sh", "-c", script, "sh", &rocm.run(), rocm.suite(), "assertion"]);
        let printed = text(&output);
        assert!(printed.contains("Device-side assertion `item < limit' failed."), "{printed}");
        assert_eq!(printed.matches("HSA_STATUS_ERROR_EXCEPTION").count(), 1, "{printed}");
        assert!(!output.status.success() && output.status.code() != Some(124), "{:?}", output.status);
    }
}

#[test]
#[ignore = "needs ROCm and clang-19"]
fn a_memory_fault_of_a_hip_kernel_is_reported_to_the_program() {
    // The runtime may abort, which is no reason to leave a core file.
    let script = r#"ulimit -c 0; exec timeout 60 "$@""#;
    for rocm in releases() {
        let words = ["sh", "-c", script, "sh", &rocm.run(), rocm.suite(), "axpy", "fault"];
        let output = on_vgpu("mi300x", None, &words);
        assert!(!output.status.success() && output.status.code() != Some(124), "{:?}", output.status);
        let printed = text(&output);
        assert!(printed.contains("axpy 0 "), "{printed}");
        if rocm.returns_errors {
            assert!(printed.contains("is hipErrorIllegalAddress"), "{printed}");
        } else {
            assert!(printed.contains("Memory access fault by GPU"), "{printed}");
            assert!(printed.contains("0x123456789000. Reason: Page not present"), "{printed}");
        }
    }
}

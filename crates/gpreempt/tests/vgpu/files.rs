//! What unmodified tools see of the virtual gpu.

use std::process::Command;

use super::{on_vgpu, shell};

#[test]
fn tools_find_device_nodes_and_topology() {
    let text = shell("ls -l /dev/kfd /dev/dri/renderD128; cat /sys/class/kfd/kfd/topology/nodes/1/gpu_id");
    assert!(text.contains("crw-rw-rw-") && text.contains("226, 128"), "{text}");
    let gpu_id = text.lines().last().and_then(|line| line.parse::<u32>().ok());
    assert!(gpu_id.is_some_and(|id| id > 0), "{text}");
}

#[test]
fn both_paths_of_the_topology_show_the_same_and_directories_can_be_walked() {
    let script = |root: &str| shell(&format!("cd /; ls -R {root}/topology; cat {root}/topology/nodes/*/properties"));
    let by_class = script("/sys/class/kfd/kfd").replace("/sys/class/kfd/kfd", "ROOT");
    let by_device = script("/sys/devices/virtual/kfd/kfd").replace("/sys/devices/virtual/kfd/kfd", "ROOT");
    assert_eq!(by_class, by_device);
    assert!(by_class.contains("gfx_target_version 90402"), "{by_class}");
}

#[test]
fn directories_of_the_machine_show_the_gpu_beside_their_own_entries() {
    let script = "ls /dev | grep -x kfd; ls /dev | grep -x null; ls /sys/bus/pci/devices | grep -x 0000:c1:00.0; \
                  cd /sys/class && ls . | grep -x kfd; ls /sys/class | grep -x net";
    assert_eq!(shell(script), "kfd\nnull\n0000:c1:00.0\nkfd\nnet\n");
}

#[test]
fn paths_relative_to_directories_of_the_machine_lead_to_the_gpu() {
    let script = r#"
import os
root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
print(os.read(os.open("sys/class/kfd/kfd/topology/generation_id", os.O_RDONLY, dir_fd=root), 8))
devices = os.open("sys/bus/pci/devices", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
print("0000:c1:00.0" in os.listdir(devices), os.stat("0000:c1:00.0/vendor", dir_fd=devices).st_size > 0)
os.chdir("/")
print(os.path.exists("dev/kfd"), os.path.exists("dev/kfd2"))
"#;
    let output = on_vgpu(&["python3", "-c", script]).output().expect("can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("True True\nTrue False\n"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn files_cannot_be_written_and_missing_ones_are_missing() {
    let text = shell(
        "echo 1 2>/dev/null > /sys/class/kfd/kfd/topology/generation_id || echo refused; \
         test -e /sys/class/kfd/kfd/topology/nodes/99 || echo absent; test -d /dev/dri && echo directory; \
         realpath /sys/class/kfd/kfd; grep amdgpu /proc/modules",
    );
    assert!(text.starts_with("refused\nabsent\ndirectory\n/sys/devices/virtual/kfd/kfd\namdgpu"), "{text}");
}

#[test]
fn debugfs_is_for_root_alone() {
    let script = "for path in /sys/kernel/debug/kfd /sys/kernel/debug/kfd/mqds /sys/kernel/debug/kfd/no-such-file; do \
                  stat -c %F $path; test -r $path && echo readable; done; \
                  ls /sys/kernel/debug/kfd; head -c 3 /sys/kernel/debug/kfd/rls; ls /sys/class/kfd/kfd/topology";
    let run = |program: &[&str]| {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).args(["vgpu", "run", "--", "sh", "-c", script]);
        let output = command.env("LC_ALL", "C").output().expect("can be started");
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let executable = super::executable();
    let executable = executable.to_str().expect("a path of text");
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--", executable];
    let is_root = nix::unistd::geteuid().is_root();
    let starts = |program: &[&str]| Command::new(program[0]).args(&program[1..]).arg("--version").output();
    if is_root {
        let [found, _] = run(&[executable]);
        assert!(
            found.starts_with("directory\nreadable\nregular file\nreadable\n") && found.contains("hqds\n"),
            "{found}"
        );
    }
    // Root may become the user nobody, if that user may read the program.
    if !is_root || starts(&nobody).is_ok_and(|output| output.status.success()) {
        let [found, refused] = run(if is_root { &nobody } else { &nobody[7..] });
        assert!(found.starts_with("generation_id"), "nothing else is found: {found}");
        assert_eq!(refused.matches("Permission denied").count(), 5, "{refused}");
    }
}

#[test]
fn exit_codes_and_arguments_are_the_programs_own() {
    let output = on_vgpu(&["sh", "-c", "echo \"$1\"; exit 7", "sh", "a b"]).output().expect("can be started");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"a b\n");
}

#[test]
fn a_program_that_does_not_exist_and_a_profile_that_does_not_are_named() {
    let output = on_vgpu(&["no-such-program"]).output().expect("can be started");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("no-such-program"), "{text}");
    let output = Command::new(super::executable())
        .args(["vgpu", "run", "--profile", "mi9", "--", "true"])
        .output()
        .expect("can be started");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("mi9") && text.contains("mi300x"), "{text}");
}

#[test]
fn wrong_flags_and_names_are_wrong_usage_and_start_nothing() {
    let run = |words: &[&str]| {
        let output = Command::new(super::executable()).args(words).output().expect("can be started");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = run(&["vgpu", "run", "--bogus", "--", "true"]);
    assert!(code == Some(2) && text.contains("unexpected argument '--bogus'"), "{text}");
    let (code, text) = run(&["vgpu", "profiles", "mi9"]);
    assert!(code == Some(2) && text.contains("mi9") && text.contains("mi300x-cpx"), "{text}");
    let (code, text) = run(&["vgpu", "run", "--profile", "/no/file.toml", "--", "true"]);
    assert_eq!((code, text.matches("no such file").count()), (Some(2), 1), "{text}");
    // Options of the program are the program's, with or without the two dashes.
    let (code, _) = run(&["vgpu", "run", "sh", "-c", "exit 9"]);
    assert_eq!(code, Some(9));
}

#[test]
fn this_commands_directory_comes_first_in_the_path() {
    let text = shell("command -v gpreempt");
    assert_eq!(std::path::Path::new(text.trim()), super::executable());
}

#[test]
fn the_machines_own_pci_devices_stay_visible_beside_the_gpu() {
    let script = "ls /sys/bus/pci/devices | while read device; do \
                  echo $device $(cat /sys/bus/pci/devices/$device/vendor); done";
    let outside = Command::new("sh").args(["-c", script]).output().expect("can be started");
    let listed = shell(script);
    for device in String::from_utf8_lossy(&outside.stdout).lines() {
        assert!(listed.lines().any(|line| line == device), "{device} is not in {listed}");
    }
    let of_amd = |text: &str| text.lines().filter(|line| line.ends_with(" 0x1002")).count();
    let outside = of_amd(&String::from_utf8_lossy(&outside.stdout));
    assert_eq!(of_amd(&listed), outside + 1, "{listed}");
    // The gpu itself is found by its address.
    let gpu = shell("readlink -f /sys/class/drm/renderD128/device; cat /sys/class/drm/renderD128/device/vendor");
    let address = gpu.lines().next().and_then(|line| line.rsplit('/').next()).unwrap_or_default().to_owned();
    assert_eq!(shell(&format!("cat /sys/bus/pci/devices/{address}/vendor")), "0x1002\n", "{gpu}");
}

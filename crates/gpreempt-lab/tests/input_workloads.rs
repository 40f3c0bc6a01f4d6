//! Our own workload format: what it means, and what is said about faults.

use std::fs;

use gpreempt_core::Nanos;
use gpreempt_lab::workload::{Load, Role, model};
use gpreempt_lab::{Profile, Workload};

/// Loads the text as a workload file; the message about it when it has a fault.
fn load(text: &str) -> Result<Workload, String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("mine.toml");
    fs::write(&file, text).expect("a writable file");
    let file = file.to_str().expect("a UTF-8 path");
    Workload::load(file).map_err(|error| error.to_string().replace(file, "mine.toml"))
}

/// A workload of one task with these lines added.
fn task(lines: &str) -> String {
    format!("seconds = 1\n[[task]]\nname = \"a\"\n{lines}\n")
}

/// The messages about a file, without snippets.
fn fault(text: &str) -> String {
    let listing = load(text).expect_err("the workload has a fault");
    let messages: Vec<&str> = listing.lines().filter(|line| line.starts_with("mine.toml")).collect();
    messages.join("\n")
}

#[test]
fn every_built_in_workload_loads_and_fits_every_profile() {
    for builtin in Workload::builtins() {
        let workload = Workload::load(builtin.name).expect("a valid built-in workload");
        assert_eq!(workload.name, builtin.name);
        assert!(!workload.about.is_empty());
        for profile in Profile::builtins() {
            let profile = Profile::load(profile.name).expect("a built-in profile");
            workload.fits(&profile).expect("kernels that fit");
        }
    }
}

#[test]
fn a_workload_gets_its_defaults() {
    let workload =
        load(&task("role = \"online\"\nmodel = \"vgg19\"\nload = { type = \"closed\" }")).expect("a valid workload");
    assert_eq!(workload.name, "mine");
    assert_eq!(workload.gpus, 1);
    assert_eq!(workload.duration, Nanos::from_secs(1));
    let task = &workload.tasks[0];
    assert_eq!((task.role, task.level), (Role::Online, 12));
    assert_eq!(task.gpus, [0]);
    assert!(matches!(task.load, Load::Closed { think: Nanos::ZERO }));
}

#[test]
fn kernels_of_a_task_are_written_out_in_order() {
    let workload = load(&task(
        "role = \"offline\"
load = { type = \"closed\", think_us = 1.5 }
kernels = [
    { count = 2, workgroups = 304, duration_us = 500, lds_kib = 16 },
    { workgroups = 1, duration_us = 0.5, waves = 1, vgprs = 512, collective = true },
]",
    ))
    .expect("a valid workload");
    let task = &workload.tasks[0];
    assert_eq!(task.level, 3);
    assert_eq!(task.kernels.len(), 3);
    assert_eq!(task.kernels[1].lds, 16 * 1024);
    assert_eq!(task.kernels[2].duration, Nanos(500));
    assert!(task.kernels[2].collective);
    assert!(matches!(task.load, Load::Closed { think: Nanos(1500) }));
}

#[test]
fn a_model_of_the_file_hides_the_built_in_one_and_repeats() {
    let workload = load(
        "seconds = 1
[models.vgg19]
repeat = 3
kernels = [ { workgroups = 1, duration_us = 1 } ]
[[task]]
name = \"a\"
role = \"online\"
model = \"vgg19\"
load = { type = \"poisson\", rate = 50 }
",
    )
    .expect("a valid workload");
    assert_eq!(workload.tasks[0].kernels.len(), 3);
    assert!(matches!(
        workload.tasks[0].load,
        Load::Poisson { mean } if mean == Nanos::from_millis(20)
    ));
}

#[test]
fn uniform_online_tasks_of_one_rate_are_staggered_by_their_time_alone() {
    let workload = Workload::load("disb-d").expect("a built-in workload");
    let models = model::builtin().expect("the built-in models");
    let alone = |name: &str| -> u64 {
        let kernels = &models[name].kernels;
        kernels.iter().map(|kernel| kernel.duration.0).sum()
    };
    let offsets: Vec<u64> = workload
        .tasks
        .iter()
        .filter_map(|task| match task.load {
            Load::Uniform { offset, .. } => Some(offset.0),
            _ => None,
        })
        .collect();
    let second = alone("resnet152");
    let third = second + alone("densenet201");
    let fourth = third + alone("vgg19");
    let fifth = fourth + alone("inceptionv3");
    assert_eq!(offsets, [0, second, third, fourth, fifth]);
}

#[test]
fn an_explicit_offset_is_kept() {
    let one = |name: &str, load: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\nrole = \"online\"\nmodel = \"vgg19\"\nload = {{ type = \"uniform\", {load} }}\n"
        )
    };
    let text = format!("seconds = 1\n{}{}", one("a", "rate = 10"), one("b", "rate = 10, offset_ms = 7"));
    let workload = load(&text).expect("a valid workload");
    assert!(matches!(
        workload.tasks[1].load,
        Load::Uniform { offset, .. } if offset == Nanos::from_millis(7)
    ));
}

#[test]
fn a_trace_is_sorted() {
    let workload =
        load(&task("role = \"online\"\nmodel = \"vgg19\"\nload = { type = \"trace\", at_ms = [3, 1.5, 2] }"))
            .expect("a valid workload");
    let Load::Trace { at } = &workload.tasks[0].load else {
        panic!("not a trace");
    };
    assert_eq!(**at, [1_500_000, 2_000_000, 3_000_000].map(Nanos));
}

#[test]
fn faults_name_place_key_finding_and_expectation() {
    let good = "role = \"online\"\nmodel = \"vgg19\"\nload = { type = \"closed\" }";
    for (lines, said) in [
        (
            "role = \"batch\"\nmodel = \"vgg19\"\nload = { type = \"closed\" }",
            "mine.toml:4:8: task[0].role: found \"batch\", expected \"online\" or \"offline\"",
        ),
        (
            "role = \"online\"\nmodel = \"vgg\"\nload = { type = \"closed\" }",
            "mine.toml:5:9: task[0].model: found \"vgg\", expected one of densenet201, distilbert, \
             inceptionv3, resnet152, training, training-allreduce, vgg19",
        ),
        (
            "role = \"online\"\nload = { type = \"closed\" }",
            "mine.toml:2:1: task[0]: found neither of `model` and `kernels`, expected one of them",
        ),
        (
            "role = \"online\"\nmodel = \"vgg19\"\nload = { type = \"uniform\" }",
            "mine.toml:6:8: task[0].load.rate: found nothing, expected a number from 0.001 to 1000000 \
             per second",
        ),
        (
            "role = \"online\"\nmodel = \"vgg19\"\nload = { type = \"closed\", rate = 3 }",
            "mine.toml:6:34: task[0].load.rate: does not belong to a load of type \"closed\", expected \
             think_us",
        ),
        (
            "role = \"online\"\nmodel = \"vgg19\"\nload = { type = \"weekly\" }",
            "mine.toml:6:17: task[0].load.type: found \"weekly\", expected \"uniform\", \"poisson\", \
             \"closed\" or \"trace\"",
        ),
        (
            "role = \"online\"\nmodel = \"vgg19\"\nload = { type = \"trace\", at_ms = [] }",
            "mine.toml:6:34: task[0].load.at_ms: found [], expected a list of 1 to 1000000 instants in \
             milliseconds",
        ),
        (
            &format!("{good}\nlevel = 16"),
            "mine.toml:7:9: task[0].level: found 16, expected a whole number from 0 to 15",
        ),
        (
            &format!("{good}\ngpus = [1]"),
            "mine.toml:7:9: task[0].gpus[0]: found 1, expected a whole number from 0 to 0",
        ),
        (&format!("{good}\ngpus = []"), "mine.toml:7:8: task[0].gpus: found [], expected at least one gpu"),
        (&format!("{good}\ngpus = [0, 0]"), "mine.toml:7:12: task[0].gpus[1]: found 0, expected each gpu once"),
        (
            "role = \"online\"\nload = { type = \"closed\" }\nkernels = []",
            "mine.toml:6:11: task[0].kernels: adds up to 0 kernels in a request, expected 1 to 100000",
        ),
        (
            "role = \"online\"\nload = { type = \"closed\" }\nkernels = [ { workgroups = 0, duration_us = 1 } ]",
            "mine.toml:6:28: task[0].kernels[0].workgroups: found 0, expected a whole number from 1 to \
             16777216",
        ),
    ] {
        assert_eq!(fault(&task(lines)), said);
    }
}

#[test]
fn a_fault_is_shown_with_its_line_and_a_caret() {
    let said = load(
        "seconds = 0\n[[task]]\nname = \"a\"\nrole = \"online\"\nmodel = \"vgg19\"\nload = { tpye = \"closed\" }\n",
    );
    assert_eq!(
        said.expect_err("two faults"),
        "mine.toml:1:11: seconds: found 0, expected a number from 0.001 to 3600 s\n  1 | seconds = 0\n    |           ^\n\
         mine.toml:6:10: unknown key `tpye` in task[0].load; did you mean `type`?\n  6 | load = { tpye = \"closed\" }\n    |          ^^^^"
    );
}

#[test]
fn one_fault_is_one_message() {
    let rest = "role = \"online\"\nmodel = \"vgg19\"\nload = { type = \"closed\" }";
    // Nothing can be said about the gpus of a task before the machine has a number of them.
    let text = format!("gpus = 65\n{}", task(&format!("{rest}\ngpus = [0, 1, 2]")));
    assert_eq!(fault(&text), "mine.toml:1:8: gpus: found 65, expected a whole number from 1 to 64");
    // What is no gpu is not the same gpu as another.
    let text = format!("gpus = 2\n{}", task(&format!("{rest}\ngpus = [0, 7]")));
    assert_eq!(fault(&text), "mine.toml:8:12: task[0].gpus[1]: found 7, expected a whole number from 0 to 1");
}

#[test]
fn tasks_must_exist_and_have_different_names() {
    assert_eq!(fault("seconds = 1\n"), "mine.toml:1:1: task: found 0 tasks, expected 1 to 256 `[[task]]` tables");
    let one = "[[task]]\nname = \"a\"\nrole = \"online\"\nmodel = \"vgg19\"\nload = { type = \"closed\" }\n";
    assert_eq!(
        fault(&format!("seconds = 1\n{one}{one}")),
        "mine.toml:8:8: task[1].name: found \"a\", expected a name that task[0] does not have"
    );
}

#[test]
fn time_must_pass_and_end() {
    let rest = "[[task]]\nname = \"a\"\nrole = \"online\"\nmodel = \"vgg19\"\nload = { type = \"closed\" }\n";
    for seconds in ["0", "-1", "nan", "inf", "1e9"] {
        assert_eq!(
            fault(&format!("seconds = {seconds}\n{rest}")),
            format!("mine.toml:1:11: seconds: found {seconds}, expected a number from 0.001 to 3600 s")
        );
    }
}

#[test]
fn a_list_that_would_fill_the_memory_is_refused() {
    let text = "seconds = 1
[models.big]
repeat = 100000
kernels = [ { count = 100000, workgroups = 1, duration_us = 1 } ]
[[task]]
name = \"a\"
role = \"online\"
model = \"big\"
load = { type = \"closed\" }
";
    assert_eq!(
        fault(text),
        "mine.toml:4:11: models.big.kernels: adds up to 10000000000 kernels in a request, expected 1 \
         to 100000"
    );
}

#[test]
fn a_workgroup_too_large_for_a_compute_unit_is_named() {
    let workload = load(&task(
        "role = \"online\"
load = { type = \"closed\" }
kernels = [
    { workgroups = 1, duration_us = 1 },
    { workgroups = 1, duration_us = 1, waves = 16, vgprs = 512 },
]",
    ))
    .expect("a valid file");
    let profile = Profile::load("gv100").expect("a built-in profile");
    let said = workload.fits(&profile).expect_err("too many registers");
    assert_eq!(
        said.to_string(),
        "mine: task a, kernel 1: a workgroup needs 2048 KiB of vector registers, expected at most 256, \
         the size of a compute unit of profile gv100"
    );
}

//! DISB's JSON files, in the shapes its repository has them.

use std::fs;

use gpreempt_core::Nanos;
use gpreempt_lab::Workload;
use gpreempt_lab::workload::{Load, Role};

fn load(text: &str) -> Result<Workload, String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("mine.json");
    fs::write(&file, text).expect("a writable file");
    let file = file.to_str().expect("a UTF-8 path");
    Workload::load(file).map_err(|error| error.to_string().replace(file, "mine.json"))
}

/// The messages about a file, without snippets.
fn fault(text: &str) -> String {
    let listing = load(text).expect_err("the workload has a fault");
    let messages: Vec<&str> = listing.lines().filter(|line| line.starts_with("mine.json")).collect();
    messages.join("\n")
}

#[test]
fn a_benchmark_file_with_ids_is_read_as_it_is() {
    let workload = load(
        r#"{ "time": 60, "tasks": [
            { "id": "vgg19_rt", "load": { "type": "periodic", "priority": 0, "frequency": 100 },
              "client": { "name": "vgg19_rt", "model_name": "vgg19-imagenet", "batch_size": 1,
                          "tfs_grpc_addr": "localhost:8500" } },
            { "id": "resnet152_be", "load": { "type": "continuous" },
              "client": { "name": "resnet152_be", "model_name": "resnet152-imagenet" } },
            { "id": "bert_rt", "load": { "type": "trace", "trace": [20, 10] },
              "client": { "model_name": "distilbert" } },
            { "id": "x_rt", "load": { "type": "poisson", "frequency": 20 },
              "client": { "model_name": "inception" } } ] }"#,
    )
    .expect("a valid file");
    assert_eq!(workload.name, "mine");
    assert_eq!(workload.duration, Nanos::from_secs(60));
    let tasks = &workload.tasks;
    assert_eq!(tasks[0].name, "vgg19_rt");
    assert_eq!((tasks[0].role, tasks[0].level), (Role::Online, 12));
    assert_eq!((tasks[1].role, tasks[1].level), (Role::Offline, 3));
    assert!(matches!(
        tasks[0].load,
        Load::Uniform { interval, offset: Nanos::ZERO } if interval == Nanos::from_millis(10)
    ));
    assert!(matches!(tasks[1].load, Load::Closed { think: Nanos::ZERO }));
    assert!(matches!(
        &tasks[2].load,
        Load::Trace { at } if **at == [Nanos::from_millis(10), Nanos::from_millis(20)]
    ));
    assert!(matches!(tasks[3].load, Load::Poisson { mean } if mean == Nanos::from_millis(50)));
}

#[test]
fn our_own_version_of_a_workload_says_the_same_as_disbs_file() {
    let own = Workload::load("disb-a").expect("a built-in workload");
    let theirs = load(
        r#"{ "time": 60, "tasks": [
            { "id": "vgg19_rt", "load": { "type": "periodic", "priority": 0, "frequency": 100 },
              "client": { "model_name": "vgg19-imagenet" } },
            { "id": "resnet152_be", "load": { "type": "continuous" },
              "client": { "model_name": "resnet152-imagenet" } } ] }"#,
    )
    .expect("a valid file");
    assert_eq!(format!("{:?}", own.tasks), format!("{:?}", theirs.tasks));
    assert_eq!(own.duration, theirs.duration);
}

#[test]
fn a_sample_without_ids_gets_names_from_model_and_priority() {
    let task = |model: &str, priority: u8| {
        format!(
            r#"{{ "load": {{ "type": "periodic", "priority": {priority}, "frequency": 100 }},
                 "client": {{ "model_name": "{model}", "priority": {priority} }} }}"#
        )
    };
    let text = format!(
        r#"{{ "time": 1, "tasks": [ {}, {}, {}, {} ] }}"#,
        task("vgg", 0),
        task("densenet", 0),
        task("vgg", 1),
        task("vgg", 1)
    );
    let workload = load(&text).expect("a valid file");
    let tasks = &workload.tasks;
    let names: Vec<_> = tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["vgg19_rt", "densenet201_rt", "vgg19_be", "vgg19_be_2"]);
    assert_eq!(tasks[2].role, Role::Offline);
    // Of equal frequency and priority 0: the second begins where the first would end; the others do not take part.
    let offset = |index: usize| match tasks[index].load {
        Load::Uniform { offset, .. } => offset.0,
        _ => panic!("not periodic"),
    };
    let kernels = &tasks[0].kernels;
    let first: u64 = kernels.iter().map(|kernel| kernel.duration.0).sum();
    assert_eq!([0, 1, 2, 3].map(offset), [0, first, 0, 0]);
}

#[test]
fn a_larger_batch_has_more_workgroups() {
    let text = |batch: u8| {
        format!(
            r#"{{ "time": 1, "tasks": [ {{ "load": {{ "type": "continuous" }},
                 "client": {{ "model_name": "vgg", "batch_size": {batch} }} }} ] }}"#
        )
    };
    let one = load(&text(1)).expect("a valid file");
    let eight = load(&text(8)).expect("a valid file");
    assert_eq!(eight.tasks[0].kernels[0].workgroups, 8 * one.tasks[0].kernels[0].workgroups);
}

#[test]
fn faults_name_place_key_finding_and_expectation() {
    let task = |load: &str, client: &str| {
        format!("{{ \"time\": 1,\n\"tasks\": [\n{{ \"id\": \"x\", \"load\": {load},\n\"client\": {client} }} ] }}")
    };
    let closed = "{ \"type\": \"continuous\" }";
    let vgg = "{ \"model_name\": \"vgg\" }";
    let known = "densenet201, distilbert, inceptionv3, resnet152, training, training-allreduce, vgg19";
    assert_eq!(
        fault(&task(closed, "{ \"model_name\": \"alexnet\" }")),
        format!("mine.json:4:27: tasks[0].client.model_name: found \"alexnet\", expected one of {known}")
    );
    assert_eq!(
        fault(&task(closed, "{ \"name\": \"my_name_is_D\" }")),
        format!("mine.json:4:11: tasks[0].client.model_name: found nothing, expected one of {known}")
    );
    assert_eq!(
        fault(&task("{ \"type\": \"periodic\", \"frequency\": \"often\" }", vgg)),
        "mine.json:3:57: tasks[0].load.frequency: found \"often\", expected a number from 0.001 to \
         1000000 per second"
    );
    assert_eq!(
        fault(&task("{ \"type\": \"trace\", \"trace\": [1, -2] }", vgg)),
        "mine.json:3:54: tasks[0].load.trace[1]: found -2, expected a number from 0 to 3600000 ms"
    );
    let said = fault(&task("{ \"type\": \"dependent\", \"prev_task_ids\": [\"y\"] }", vgg));
    let expected = "mine.json:3:32: tasks[0].load.type: task `x` starts when other tasks finish";
    assert!(said.starts_with(expected), "{said}");
}

/// Each fault is found by walking the text, so reporting every one of these would take minutes.
#[test]
fn a_long_trace_of_faults_is_refused_without_looking_at_each() {
    let trace = vec!["-1"; 200_000].join(",");
    let said = fault(&format!(
        r#"{{ "time": 1, "tasks": [ {{ "load": {{ "type": "trace", "trace": [{trace}] }}, "client": {{ "model_name": "vgg" }} }} ] }}"#
    ));
    assert!(said.contains("tasks[0].load.trace[19]: found -1"), "{said}");
    assert!(said.ends_with("and 199980 more"), "{said}");
}

#[test]
fn documents_of_the_wrong_shape_are_refused() {
    for text in ["[]", "3", "{}", "{ \"time\": 1 }", "{ \"time\": 1, \"tasks\": [] }", "{ \"time\": 1, \"tasks\": 7 }"]
    {
        let said = fault(text);
        assert!(said.contains("tasks: found"), "{text}: {said}");
    }
    let said = fault("{ \"time\": 1, \"tasks\": [7, null, []] }");
    assert!(said.contains("tasks[2].load.type"), "{said}");
    assert!(fault("{ \"time\": 1,").starts_with("mine.json:1:"));
}

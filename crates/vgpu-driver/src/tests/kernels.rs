//! Where the drivers of kernels differ for a process that computes.

use kfd_abi::mqd;
use kfd_abi::process::{GetVersionArgs, ProfilerArgs, ProfilerOp};
use kfd_abi::queue::{CreateQueueArgs, QueueType, UpdateQueueArgs};
use kfd_abi::sysfs::node;

use super::queues::{RING, prepare};
use super::*;

fn machine(kernel: KernelProfile) -> Machine {
    Machine::of(Profile::load("mi300x").unwrap(), kernel)
}

/// What each kernel answers, in the order of [`KernelProfile::ALL`].
fn each<T>(ask: impl FnMut(KernelProfile) -> T) -> Vec<T> {
    KernelProfile::ALL.into_iter().map(ask).collect()
}

fn file(machine: &Machine, path: &str) -> String {
    match machine.driver.sysfs(path) {
        Some(sysfs::Node::File(text)) => text,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn the_interface_has_the_version_of_its_kernel() {
    let version = |kernel| machine(kernel).run(ALICE, GetVersionArgs::ZERO).ok().minor_version;
    assert_eq!(each(version), [17, 17, 23, 18]);
}

#[test]
fn numbers_that_a_kernel_does_not_know_are_no_commands() {
    let answer = |nr: u32| each(|kernel| machine(kernel).driver.ioctl(ALICE, nr, &mut Call::default()));
    let unknown = Err(Errno::ENOTTY);
    assert_eq!(answer(0x27), [unknown, unknown, Ok(0), unknown]);
    // Operation 0 needs a capability.
    assert_eq!(answer(0x28), [unknown, unknown, Err(Errno::EPERM), unknown]);
    assert_eq!(answer(0x86), [unknown, unknown, unknown, Err(Errno::EPERM)]);
    assert_eq!(answer(0x85), [unknown, unknown, unknown, Err(Errno::EINVAL)]);
    assert_eq!((answer(0x29), answer(0x88)), (vec![unknown; 4], vec![unknown; 4]));
}

#[test]
fn the_profiler_tells_its_version_and_refuses_the_rest() {
    let mut machine = machine(KernelProfile::Linux7_2);
    let mut ask = |op| machine.run(ALICE, ProfilerArgs { op, ..ProfilerArgs::ZERO });
    assert_eq!(ask(ProfilerOp::VERSION).ok().version_or_gpu, 1);
    let refused = [ProfilerOp::PMC, ProfilerOp::PC_SAMPLE, ProfilerOp::PTL_CONTROL, ProfilerOp(9)];
    let errors = refused.map(|op| ask(op).errno().unwrap());
    assert_eq!(errors, [Errno::EPERM, Errno::EINVAL, Errno::EOPNOTSUPP, Errno::EINVAL]);
}

#[test]
fn the_number_of_an_address_space_is_shown_or_not() {
    let shown = each(|kernel| {
        let machine = machine(kernel);
        let header = file(&machine, "/sys/kernel/debug/kfd/mqds").lines().next().unwrap().to_owned();
        (file(&machine, "/sys/class/kfd/kfd/proc/100/pasid"), header)
    });
    let told = ("32768\n".to_owned(), "Process 100 PASID 0x8000:".to_owned());
    let hidden = ("0\n".to_owned(), "Process 100 PASID 100:".to_owned());
    assert_eq!(shown, [told.clone(), told, hidden.clone(), hidden]);
}

#[test]
fn copies_between_gpus_have_the_number_of_their_kernel() {
    let shown = each(|kernel| {
        let mut machine = machine(kernel);
        let args = prepare(&mut machine, ALICE);
        let id = machine.run(ALICE, CreateQueueArgs { queue_type: QueueType::SDMA_XGMI, ..args }).ok().queue_id;
        file(&machine, &format!("/sys/class/kfd/kfd/proc/100/queues/{id}/type"))
    });
    assert_eq!(shown, ["4", "4", "3", "3"]);
}

#[test]
fn a_descriptor_has_the_pipe_class_and_in_some_kernels_the_priority() {
    let words = each(|kernel| {
        let mut machine = machine(kernel);
        let args = prepare(&mut machine, ALICE);
        machine.run(ALICE, CreateQueueArgs { queue_priority: 12, ..args }).ok();
        let process = machine.driver.process(ALICE).unwrap();
        let descriptor = machine.driver.descriptors(process, process.queues_newest_first()[0]);
        [mqd::PIPE_PRIORITY, mqd::QUEUE_PRIORITY].map(|at| mqd::word(descriptor[0].bytes(), at).unwrap())
    });
    assert_eq!(words, [[2, 12], [2, 12], [2, 0], [2, 12]]);
}

#[test]
fn a_ring_smaller_than_a_page_needs_a_mapping_of_one_page_or_any() {
    let created = each(|kernel| {
        let mut machine = machine(kernel);
        // Its mapping has 16 pages.
        let args = prepare(&mut machine, ALICE);
        machine.run(ALICE, CreateQueueArgs { ring_size: 1024, ..args }).errno()
    });
    assert_eq!(created, [None, None, Some(Errno::EINVAL), None]);
}

#[test]
fn metadata_lies_behind_the_ring_in_the_same_mapping() {
    let mut later = machine(KernelProfile::Linux7_2);
    let args = prepare(&mut later, ALICE);
    let mut create =
        |ring_size, pad, queue_type| later.run(ALICE, CreateQueueArgs { ring_size, pad, queue_type, ..args }).result;
    assert_eq!(create(0x8000, 3, QueueType::COMPUTE_AQL), Err(Errno::EINVAL));
    assert_eq!(create(0x10000, 0x8000, QueueType::COMPUTE_AQL), Err(Errno::EINVAL), "more than the mapping");
    assert_eq!(create(0x8000, 0x8000, QueueType::COMPUTE_AQL), Ok(0));
    assert_eq!(create(0x10000, 0x8000, QueueType::COMPUTE), Ok(0), "only AQL queues have any");
    let update = |ring_size| UpdateQueueArgs {
        ring_base_address: RING,
        queue_id: 0,
        ring_size,
        queue_percentage: 100,
        queue_priority: 7,
    };
    assert_eq!(later.run(ALICE, update(0x8000)).result, Ok(0));
    assert_eq!(later.run(ALICE, update(0x10000)).errno(), Some(Errno::EFAULT));
    // Before, the field counted for nothing.
    let mut before = machine(KernelProfile::Linux6_12_115);
    let args = prepare(&mut before, ALICE);
    before.run(ALICE, CreateQueueArgs { pad: 3, ..args }).ok();
}

#[test]
fn the_topology_has_the_lines_of_its_kernel() {
    let names = |kernel| {
        let machine = machine(kernel);
        let path = format!("{}/nodes/1/properties", kfd_abi::sysfs::TOPOLOGY_DIR);
        let text = file(&machine, &path);
        let all: Vec<String> = text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        let at = all.iter().position(|name| name == node::CAPABILITY).unwrap();
        all[at + 1].clone()
    };
    assert_eq!(each(names), ["debug_prop", "debug_prop", "capability2", "debug_prop"]);
}

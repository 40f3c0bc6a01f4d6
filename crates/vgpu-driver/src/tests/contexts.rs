//! Contexts beside the first of a process.

use kfd_abi::debug::{DbgTrapArgs, Disable};
use kfd_abi::svm::{SvmArgs, SvmOp};
use kfd_abi::sysfs::PROCESS_DIR;

use super::queues::{args, prepare};
use super::*;

/// The opening that Alice makes a context of.
const SECOND: u64 = 7;

fn machine() -> Machine {
    Machine::of(Profile::load("mi300x").unwrap(), KernelProfile::Linux7_2)
}

fn create(machine: &mut Machine, opening: u64) -> Result<i64, Errno> {
    let mut call = Call { opening, ..Call::default() };
    machine.driver.ioctl(ALICE, ioctl::CREATE_PROCESS.nr.into(), &mut call)
}

/// A call through an opening of Alice's.
fn through<T: Argument>(machine: &mut Machine, opening: u64, args: &T) -> Answer<T> {
    machine.call(ALICE, Call { opening, ..Call::new(args) })
}

fn names(machine: &Machine, path: &str) -> Vec<String> {
    match machine.driver.sysfs(path) {
        Some(sysfs::Node::Dir(entries)) => entries.into_iter().map(|entry| entry.name).collect(),
        other => panic!("{path}: {other:?}"),
    }
}

/// A machine on which Alice has a queue in her first context and one in another.
fn with_queues() -> Machine {
    let mut machine = machine();
    prepare(&mut machine, ALICE);
    let queue = args(&machine);
    machine.run(ALICE, queue).ok();
    create(&mut machine, SECOND).unwrap();
    let context = machine.driver.behind(ALICE, SECOND);
    assert_eq!(machine.acquire(context, 0).errno(), None);
    prepare(&mut machine, context);
    assert_eq!(through(&mut machine, SECOND, &queue).ok().queue_id, 0, "ids of its own");
    machine
}

#[test]
fn an_opening_becomes_a_context_once() {
    let mut machine = machine();
    assert_eq!(create(&mut machine, SECOND), Ok(0));
    assert_eq!(create(&mut machine, SECOND), Err(Errno::EINVAL));
    assert_eq!(create(&mut machine, SECOND + 1), Ok(0));
    let listed = |machine: &Machine| {
        let mut names = names(machine, &format!("{PROCESS_DIR}/100"));
        names.retain(|name| name.starts_with("context_"));
        names
    };
    assert_eq!(listed(&machine), ["context_0", "context_1"]);
    assert_eq!(names(&machine, PROCESS_DIR), ["100", "200"]);
    // The lowest free number is next.
    machine.driver.close_opening(ALICE, SECOND);
    assert_eq!(listed(&machine), ["context_1"]);
    assert_eq!(create(&mut machine, SECOND), Ok(0));
    assert_eq!(listed(&machine), ["context_0", "context_1"]);
}

#[test]
fn its_queues_are_shown_and_cost_cycles_and_no_executor_hears_of_them() {
    let mut machine = with_queues();
    let queue = args(&machine);
    let second = through(&mut machine, SECOND, &queue);
    assert_eq!(second.call.effects.device, [DeviceEffect::Cycle { gpu: 0, cause: Cause::CreateQueue, grace: None }]);
    assert!(second.call.effects.process.is_empty());
    assert_eq!(names(&machine, &format!("{PROCESS_DIR}/100/queues")), ["0"]);
    assert_eq!(names(&machine, &format!("{PROCESS_DIR}/100/context_0/queues")), ["0", "1"]);
    let Some(sysfs::Node::File(mqds)) = machine.driver.sysfs("/sys/kernel/debug/kfd/mqds") else { panic!("no mqds") };
    assert_eq!(mqds.lines().filter(|line| *line == "Process 100 PASID 100:").count(), 2);
    let runlist = machine.driver.runlist(0);
    let mapped: Vec<ProcessKey> = runlist.groups.iter().flatten().map(|mapped| mapped.process).collect();
    assert_eq!(mapped, [ALICE]);
}

#[test]
fn no_debugger_reaches_it() {
    let mut machine = with_queues();
    let trap = DbgTrapArgs::new(ALICE.pid, Disable {});
    assert_eq!(through(&mut machine, SECOND, &trap).errno(), Some(Errno::EOPNOTSUPP));
    // A pid names the first context.
    assert_eq!(through(&mut machine, 0, &trap).errno(), Some(Errno::EINVAL));
}

#[test]
fn memory_of_the_process_is_not_for_it() {
    let mut machine = with_queues();
    let svm = SvmArgs { start_addr: PAGE, size: PAGE, op: SvmOp::SET_ATTR, ..SvmArgs::ZERO };
    assert_eq!(through(&mut machine, SECOND, &svm).errno(), Some(Errno::EOPNOTSUPP));
    let context = machine.driver.behind(ALICE, SECOND);
    let user =
        |machine: &mut Machine, process| machine.alloc(process, 0x4000_0000, PAGE, AllocFlags::USERPTR | RW).errno();
    assert_eq!(user(&mut machine, context), Some(Errno::EOPNOTSUPP));
    assert_eq!(user(&mut machine, ALICE), None);
    // Buffers of both lie in one file, apart from each other.
    let offset = |machine: &mut Machine, process| {
        machine.alloc(process, 0x5000_0000, PAGE, AllocFlags::VRAM | RW).ok().mmap_offset
    };
    assert!(offset(&mut machine, context) >= 1 << 45 && offset(&mut machine, ALICE) < 1 << 45);
}

#[test]
fn closing_the_opening_ends_it_with_one_cycle_of_each_gpu() {
    let mut machine = with_queues();
    let queues = machine.driver.snapshot().gpus[0].queues;
    let effects = machine.driver.close_opening(ALICE, SECOND);
    assert_eq!(effects.device, [DeviceEffect::Cycle { gpu: 0, cause: Cause::ProcessEnd, grace: None }]);
    assert_eq!(machine.driver.snapshot().gpus[0].queues, queues - 1);
    assert!(machine.driver.close_opening(ALICE, SECOND).is_empty());
    // The opening is one of the first context again, to whom it never belonged; that has its queue still.
    assert_eq!(names(&machine, &format!("{PROCESS_DIR}/100/queues")), ["0"]);
}

#[test]
fn a_process_ends_with_all_its_contexts() {
    let mut machine = with_queues();
    create(&mut machine, SECOND + 1).unwrap();
    let effects = machine.driver.close(ALICE);
    let ends = |effect: &&DeviceEffect| matches!(effect, DeviceEffect::Cycle { cause: Cause::ProcessEnd, .. });
    assert_eq!(effects.device.iter().filter(ends).count(), 3);
    assert_eq!(machine.driver.processes().collect::<Vec<_>>(), [BOB]);
    assert_eq!(machine.driver.snapshot().gpus[0].queues, 0);
    assert!(machine.driver.contexts.is_empty());
}

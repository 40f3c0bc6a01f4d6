//! Stopping queues and letting them go on.

use kfd_abi::debug::{QueueStatus, ResumeQueues, SuspendQueues};
use kfd_abi::exception::ExceptionMask;
use kfd_abi::ioctl::{self, Request as IoctlRequest};

use super::NOWHERE;
use super::session::{destroy_waits, returns};
use crate::actor::PATIENCE;
use crate::bench::{Bench, eventually};
use crate::rule::driver_rules;
use crate::session::Listed;
use crate::verdict::{Verdict, equal, require};
use crate::wire::Request;

// tidy: table
driver_rules! { Driver:
    "suspend-count" count, "kfd_device_queue_manager.c: suspend_queues",
        "SUSPEND_QUEUES returns how many queues it stopped and clears both status bits of their entries.";
    "suspend-unknown-queue" unknown, "kfd_device_queue_manager.c: suspend_queues, q_array_invalidate",
        "The entry of a queue that does not exist comes back with bit 31, and the others are stopped all the same.";
    "suspend-again" again, "kfd_device_queue_manager.c: suspend_single_queue",
        "A queue that is stopped already counts as handled.";
    "suspend-new-queue" new_queue, "kfd_device_queue_manager.c: suspend_single_queue",
        "A queue that no snapshot has cleared QUEUE_NEW of is not stopped: bit 31, and 0 handled.";
    "suspend-mask-too-late" mask_too_late, "kfd_device_queue_manager.c: suspend_queues",
        "The mask of SUSPEND_QUEUES does not clear QUEUE_NEW of a queue that it refused for that.";
    "suspend-null-list" null_list, "kfd_device_queue_manager.c: get_queue_ids",
        "SUSPEND_QUEUES of some queues without a list is answered with EINVAL.";
    "suspend-empty-list" empty_list, "kfd_device_queue_manager.c: get_queue_ids",
        "SUSPEND_QUEUES of no queues returns 0.";
    "suspend-too-many" too_many, "kfd_device_queue_manager.c: get_queue_ids",
        "A list of more than 1024 queues is answered with EINVAL.";
    "suspend-bad-list" bad_list, "kfd_device_queue_manager.c: get_queue_ids",
        "A list that cannot be read is answered with EFAULT.";
    "suspend-listed-twice" listed_twice, "kfd_device_queue_manager.c: q_array_get_index",
        "A queue that is listed twice is handled in its first entry; the second keeps bit 31.";
    "suspend-error-bit" error_bit, "kfd_device_queue_manager.c: q_array_get_index",
        "An entry that still has bit 30 of an earlier call matches no queue; one with bit 31 does.";
    "suspend-copy-queue" copy_queue, "kfd_device_queue_manager.c: suspend_queues",
        "Copy queues are stopped as compute queues are.";
    "suspend-stays-listed" stays_listed, "kfd_process.c: kfd_procfs_add_queue",
        "A stopped queue stays listed in sysfs.";
    "suspend-inactive-queue" inactive, "kfd_device_queue_manager.c: suspend_single_queue",
        "A queue that its process has turned off can be stopped and resumed, and counts.";
    "resume-count" resume_count, "kfd_device_queue_manager.c: resume_queues",
        "RESUME_QUEUES returns how many queues it resumed and clears bit 31 of their entries.";
    "resume-again" resume_again, "kfd_device_queue_manager.c: resume_single_queue",
        "A queue that runs counts as resumed.";
    "resume-unknown-queue" resume_unknown, "kfd_device_queue_manager.c: resume_queues",
        "RESUME_QUEUES leaves bit 31 in the entry of a queue that does not exist.";
    "resume-all" resume_all, "kfd_device_queue_manager.c: resume_queues",
        "RESUME_QUEUES without a list resumes all queues of the process and counts those that ran as well.";
    "resume-bad-list" resume_bad_list, "kfd_device_queue_manager.c: resume_queues, get_queue_ids",
        "RESUME_QUEUES refuses lists that are too long or cannot be read as SUSPEND_QUEUES does.";
    "destroy-waits" waits, "kfd_device_queue_manager.c: wait_on_destroy_queue",
        "DESTROY_QUEUE of a stopped queue waits until it is resumed.";
    "destroy-waits-visibly" waits_visibly, "kfd_device_queue_manager.c: wait_on_destroy_queue; fs/proc: task/syscall",
        "A waiting DESTROY_QUEUE shows as ioctl 0xC0084B03 in /proc/PID/task/TID/syscall.";
    "destroy-twice" twice, "kfd_device_queue_manager.c: wait_on_destroy_queue",
        "A second DESTROY_QUEUE while one waits is answered with EBUSY.",
        except Before6_12_115;
    "destroy-interrupted" interrupted, "kfd_device_queue_manager.c: wait_on_destroy_queue",
        "A signal ends the wait of DESTROY_QUEUE with EINTR, and the queue can be stopped and resumed as before.",
        except Before6_12_115 Dkms;
    "destroy-running" running, "kfd_device_queue_manager.c: wait_on_destroy_queue",
        "DESTROY_QUEUE of a queue that is not stopped does not wait.";
    "update-stopped" update_stopped, "kfd_priv.h: QUEUE_IS_ACTIVE",
        "UPDATE_QUEUE of a stopped queue succeeds and does not resume it.";
    "create-while-stopped" create_while_stopped, "kfd_process_queue_manager.c: pqm_create_queue",
        "A process whose queues are stopped can create another, which runs.";
}

const INVALID: u32 = QueueStatus::INVALID;

fn count(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queues = [target.queue()?.id, target.queue()?.id];
    let mut session = bench.debugger(&target)?;
    let listed = session.suspend(&queues)?;
    equal("SUSPEND_QUEUES", listed, Listed { result: 2, entries: queues.to_vec() })
}

fn unknown(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    let listed = session.suspend(&[77, queue, 900])?;
    equal("SUSPEND_QUEUES", listed, Listed { result: 1, entries: vec![77 | INVALID, queue, 900 | INVALID] })
}

fn again(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue])?;
    session.stop(&[queue])?;
    equal("RESUME_QUEUES after two", session.resume(&[queue])?.result, 1)?;
    require(!destroy_waits(&mut target, queue)?, "one RESUME_QUEUES did not undo two SUSPEND_QUEUES")
}

fn new_queue(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.session(&target)?;
    let refused = Listed { result: 0, entries: vec![queue | INVALID] };
    equal("SUSPEND_QUEUES of a new queue", session.suspend(&[queue])?, refused.clone())?;
    session.snapshot(ExceptionMask::EMPTY)?;
    equal("SUSPEND_QUEUES after a snapshot that clears nothing", session.suspend(&[queue])?, refused)?;
    session.see_queues()?;
    session.stop(&[queue])
}

fn mask_too_late(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.session(&target)?;
    for _ in 0..2 {
        let listed = session.suspend_with(&[queue], 1, ExceptionMask::QUEUE_NEW)?;
        equal("SUSPEND_QUEUES", listed, Listed { result: 0, entries: vec![queue | INVALID] })?;
    }
    Ok(())
}

fn null_list(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.debugger(&target)?;
    let args = SuspendQueues { num_queues: 1, ..SuspendQueues::default() };
    session.trap(args)?.fails("SUSPEND_QUEUES without a list", libc::EINVAL).map(drop)
}

fn empty_list(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    target.queue()?;
    let mut session = bench.debugger(&target)?;
    session.trap(SuspendQueues::default())?.returns("SUSPEND_QUEUES of nothing", 0).map(drop)
}

fn too_many(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.debugger(&target)?;
    let queue_array_ptr = session.list();
    let args = SuspendQueues { queue_array_ptr, num_queues: 1025, ..SuspendQueues::default() };
    session.trap(args)?.fails("SUSPEND_QUEUES of 1025", libc::EINVAL)?;
    let args = SuspendQueues { queue_array_ptr, num_queues: 1024, ..SuspendQueues::default() };
    session.trap(args)?.returns("SUSPEND_QUEUES of 1024 that do not exist", 0).map(drop)
}

fn bad_list(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.debugger(&target)?;
    let args = SuspendQueues { queue_array_ptr: NOWHERE, num_queues: 1, ..SuspendQueues::default() };
    session.trap(args)?.fails("SUSPEND_QUEUES with a bad list", libc::EFAULT).map(drop)
}

fn listed_twice(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    let listed = session.suspend(&[queue, queue])?;
    equal("SUSPEND_QUEUES", listed, Listed { result: 1, entries: vec![queue, queue | INVALID] })
}

fn error_bit(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    let error = queue | QueueStatus::ERROR;
    let listed = session.suspend(&[error])?;
    equal("SUSPEND_QUEUES", listed, Listed { result: 0, entries: vec![error | INVALID] })?;
    let listed = session.suspend(&[queue | INVALID])?;
    equal("SUSPEND_QUEUES", listed, Listed { result: 1, entries: vec![queue] })
}

fn copy_queue(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.copy_queue()?.id;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue])?;
    require(destroy_waits(&mut target, queue)?, "DESTROY_QUEUE of a stopped copy queue did not wait")?;
    equal("RESUME_QUEUES", session.resume(&[queue])?.result, 1)?;
    returns(&mut target, "DESTROY_QUEUE", PATIENCE, "success (0)")
}

fn stays_listed(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue])?;
    let path = format!("{}/{}/queues/{queue}/size", kfd_abi::sysfs::PROCESS_DIR, target.pid());
    require(std::fs::read_to_string(&path).is_ok(), format_args!("{path} cannot be read"))
}

fn inactive(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?;
    target.update(&queue, |args| args.queue_percentage = 0)?.ok("UPDATE_QUEUE to 0 percent")?;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue.id])?;
    equal("RESUME_QUEUES", session.resume(&[queue.id])?.result, 1)
}

fn resume_count(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queues = [target.queue()?.id, target.queue()?.id];
    let mut session = bench.debugger(&target)?;
    session.stop(&queues)?;
    let listed = session.resume(&queues)?;
    equal("RESUME_QUEUES", listed, Listed { result: 2, entries: queues.to_vec() })?;
    require(!destroy_waits(&mut target, queues[0])?, "the queue is still stopped")
}

fn resume_again(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    for _ in 0..2 {
        let listed = session.resume(&[queue])?;
        equal("RESUME_QUEUES of a running queue", listed, Listed { result: 1, entries: vec![queue] })?;
    }
    Ok(())
}

fn resume_unknown(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue])?;
    let listed = session.resume(&[77, queue])?;
    equal("RESUME_QUEUES", listed, Listed { result: 1, entries: vec![77 | INVALID, queue] })
}

fn resume_all(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queues = [target.queue()?.id, target.queue()?.id, target.queue()?.id];
    let mut session = bench.debugger(&target)?;
    session.stop(&queues[..2])?;
    equal("RESUME_QUEUES of all", session.resume_all()?, 3)?;
    require(!destroy_waits(&mut target, queues[0])?, "a queue is still stopped")
}

fn resume_bad_list(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.debugger(&target)?;
    let args = ResumeQueues { queue_array_ptr: session.list(), num_queues: 1025, pad: 0 };
    session.trap(args)?.fails("RESUME_QUEUES of 1025", libc::EINVAL)?;
    let args = ResumeQueues { queue_array_ptr: NOWHERE, num_queues: 1, pad: 0 };
    session.trap(args)?.fails("RESUME_QUEUES with a bad list", libc::EFAULT).map(drop)
}

fn waits(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue])?;
    require(destroy_waits(&mut target, queue)?, "it did not wait")?;
    equal("RESUME_QUEUES", session.resume(&[queue])?.result, 1)?;
    returns(&mut target, "DESTROY_QUEUE after RESUME_QUEUES", PATIENCE, "success (0)")
}

fn waits_visibly(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue])?;
    require(destroy_waits(&mut target, queue)?, "it did not wait")?;
    let IoctlRequest(request) = ioctl::DESTROY_QUEUE.request();
    let wanted = format!("{request:#x}");
    let tasks = format!("/proc/{}/task", target.pid());
    eventually("the waiting call shows in /proc", || {
        let Ok(entries) = std::fs::read_dir(&tasks) else { return Ok(false) };
        let calls = entries.flatten().filter_map(|entry| std::fs::read_to_string(entry.path().join("syscall")).ok());
        let mut shown = calls.map(|text| text.split_whitespace().nth(2) == Some(wanted.as_str()));
        Ok(shown.any(|shown| shown))
    })
}

fn twice(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue])?;
    require(destroy_waits(&mut target, queue)?, "it did not wait")?;
    target.destroy(queue)?.fails("second DESTROY_QUEUE", libc::EBUSY)?;
    equal("RESUME_QUEUES", session.resume(&[queue])?.result, 1)?;
    returns(&mut target, "first DESTROY_QUEUE", PATIENCE, "success (0)")
}

fn interrupted(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    session.detach()?;
    session.stop(&[queue])?;
    require(destroy_waits(&mut target, queue)?, "it did not wait")?;
    target.actor.done(&Request::Interrupt)?;
    returns(&mut target, "interrupted DESTROY_QUEUE", PATIENCE, "EINTR")?;
    equal("RESUME_QUEUES", session.resume(&[queue])?.result, 1)?;
    session.stop(&[queue])
}

fn running(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let _session = bench.debugger(&target)?;
    target.destroy(queue)?.ok("DESTROY_QUEUE").map(drop)
}

fn update_stopped(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue.id])?;
    target.update(&queue, |args| args.queue_priority = 11)?.ok("UPDATE_QUEUE")?;
    require(destroy_waits(&mut target, queue.id)?, "the queue runs again")
}

fn create_while_stopped(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue])?;
    let other = target.queue()?.id;
    target.destroy(other)?.ok("DESTROY_QUEUE of the new queue")?;
    require(destroy_waits(&mut target, queue)?, "the first queue runs again")
}

//! Which calls of a debugger are refused, in the order of the driver's checks.

use kfd_abi::Union;
use kfd_abi::debug::{DbgTrapArgs, Disable, GetQueueSnapshot, TrapOp};
use kfd_abi::exception::ExceptionMask;

use crate::bench::{Bench, Client};
use crate::rule::driver_rules;
use crate::session::Session;
use crate::verdict::{Verdict, broken, equal, outcome, require};

// tidy: table
driver_rules! { Driver:
    "ladder-unknown-pid" unknown_pid, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "DBG_TRAP about a pid that no process has is answered with ESRCH, whatever the operation.";
    "ladder-not-opened" not_opened, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "DBG_TRAP about a process that never opened the driver is answered with ESRCH.";
    "ladder-not-traced" not_traced, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "Every operation on another process is answered with EPERM unless the caller traces it or debugs it.",
        except Dkms;
    "ladder-permission-first" permission_first, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "Permission is checked before the operation: an unknown one of a stranger gets EPERM.";
    "ladder-not-enabled" not_enabled, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "Before ENABLE every other operation of the tracer is answered with EINVAL.";
    "ladder-needs-runtime" needs_runtime, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "Operations 4 to 10 are answered with EPERM while the runtime of the target is not enabled.";
    "ladder-snapshot-without-runtime" snapshot_without_runtime, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "GET_QUEUE_SNAPSHOT works while the runtime of the target is not enabled.";
    "ladder-unknown-operation" unknown_operation, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "An unknown operation of a debugger is answered with EINVAL.";
    "ladder-self" debugs_itself, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "A process may debug itself without being traced.";
    "ladder-tracing-thread" tracing_thread, "kfd_chardev.c: kfd_ioctl_set_debug_trap; ptrace_parent",
        "ENABLE has to come from the thread that traces the target; another thread of the tracer gets EPERM.";
    "ladder-any-thread-later" any_thread_later, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "After ENABLE any thread of the debugger may make the calls.",
        except Dkms;
    "ladder-detached-later" detached_later, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "After ENABLE the debugger may stop tracing and keeps the session.",
        except Dkms;
}

/// Operations that exist.
const OPERATIONS: std::ops::RangeInclusive<u32> = 0..=14;
/// A pid beyond the largest that the kernel gives out.
const NO_PID: u32 = 0x3FFF_FFFF;

/// Makes an operation with arguments that are all zero.
fn bare(session: &mut Session, pid: u32, op: u32) -> Verdict<i64> {
    let args = DbgTrapArgs { pid, op: TrapOp(op), args: Union::default() };
    Ok(session.tracer.call(args)?.result)
}

fn all_refused(session: &mut Session, pid: u32, operations: impl Iterator<Item = u32>, expected: &str) -> Verdict {
    for op in operations {
        let seen = outcome(bare(session, pid, op)?);
        require(seen == expected, format_args!("{:?}: {seen} instead of {expected}", TrapOp(op)))?;
    }
    Ok(())
}

fn unknown_pid(bench: &Bench<'_>) -> Verdict {
    let target = bench.client()?;
    let mut stranger = bench.stranger(&target)?;
    all_refused(&mut stranger, NO_PID, OPERATIONS, "ESRCH")?;
    all_refused(&mut stranger, NO_PID, 15..=15, "ESRCH")
}

fn not_opened(bench: &Bench<'_>) -> Verdict {
    let actor = bench.process()?;
    let target = Client { actor, kfd: -1, render: None, subject: bench.subject.clone() };
    let mut stranger = bench.stranger(&target)?;
    let pid = target.pid();
    all_refused(&mut stranger, pid, OPERATIONS, "ESRCH")
}

fn not_traced(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut stranger = bench.stranger(&target)?;
    let pid = target.pid();
    all_refused(&mut stranger, pid, OPERATIONS, "EPERM")
}

fn permission_first(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut stranger = bench.stranger(&target)?;
    let pid = target.pid();
    all_refused(&mut stranger, pid, 15..=16, "EPERM")
}

fn not_enabled(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut tracer = bench.tracer(&target)?;
    let pid = target.pid();
    all_refused(&mut tracer, pid, 1..=14, "EINVAL")
}

fn needs_runtime(bench: &Bench<'_>) -> Verdict {
    let target = bench.client()?;
    let mut session = bench.session(&target)?;
    let pid = target.pid();
    all_refused(&mut session, pid, 4..=10, "EPERM")
}

fn snapshot_without_runtime(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.bound()?;
    let queue = target.queue()?;
    let mut session = bench.session(&target)?;
    let seen: Vec<u32> = session.snapshot(ExceptionMask::EMPTY)?.iter().map(|entry| entry.queue_id).collect();
    equal("queues", seen, vec![queue.id])
}

fn unknown_operation(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.session(&target)?;
    let pid = target.pid();
    all_refused(&mut session, pid, [15, 1000, u32::MAX].into_iter(), "EINVAL")
}

fn debugs_itself(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?;
    let mut own = bench.stranger(&target)?;
    // The target's own descriptor and memory take the place of the tracer's.
    let (_, end) = target.actor.pipe()?;
    let room = target.actor.memory(4096)?;
    let mut enable = own.enable_args(ExceptionMask::EMPTY);
    (enable.rinfo_ptr, enable.dbg_fd) = (room, end.cast_unsigned());
    let (kfd, pid) = (target.kfd, target.pid());
    target.actor.trap(kfd, pid, enable)?.ok("ENABLE of itself")?;
    let snapshot = GetQueueSnapshot {
        exception_mask: ExceptionMask::QUEUE_NEW,
        snapshot_buf_ptr: room,
        num_queues: 1,
        entry_size: 64,
    };
    let seen = target.actor.trap(kfd, pid, snapshot)?.ok("GET_QUEUE_SNAPSHOT of itself")?;
    equal("number of queues", seen.num_queues, 1)?;
    target.actor.trap(kfd, pid, Disable {})?.ok("DISABLE of itself")?;
    target.destroy(queue.id)?.ok("DESTROY_QUEUE")?;
    own.tracer.actor.kill();
    Ok(())
}

/// Makes a call from another thread of the tracer.
fn from_another_thread(session: &mut Session, args: DbgTrapArgs) -> Verdict<String> {
    let kfd = session.tracer.kfd;
    session.tracer.actor.begin(kfd, args)?;
    match session.tracer.actor.result(crate::actor::PATIENCE)? {
        Some(result) => Ok(outcome(result)),
        None => broken("a call from another thread did not return"),
    }
}

fn tracing_thread(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut tracer = bench.tracer(&target)?;
    let enable = DbgTrapArgs::new(target.pid(), tracer.enable_args(ExceptionMask::EMPTY));
    let seen = from_another_thread(&mut tracer, enable)?;
    equal("ENABLE from another thread", seen.as_str(), "EPERM")?;
    tracer.enable(ExceptionMask::EMPTY)?.ok("ENABLE from the tracing thread")?;
    Ok(())
}

fn any_thread_later(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.session(&target)?;
    let room = session.room();
    let snapshot = GetQueueSnapshot { snapshot_buf_ptr: room, num_queues: 1, entry_size: 64, ..Default::default() };
    let seen = from_another_thread(&mut session, DbgTrapArgs::new(target.pid(), snapshot))?;
    equal("GET_QUEUE_SNAPSHOT from another thread", seen.as_str(), "success (0)")
}

fn detached_later(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?;
    let mut session = bench.debugger(&target)?;
    session.detach()?;
    session.stop(&[queue.id])?;
    equal("RESUME_QUEUES", session.resume(&[queue.id])?.result, 1)
}

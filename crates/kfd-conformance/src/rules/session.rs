//! A debug session begins and ends, and the runtime of its target does.

use std::time::Duration;

use kfd_abi::Abi;
use kfd_abi::debug::{QueryExceptionInfo, RuntimeEnableArgs, RuntimeInfo, RuntimeMode, RuntimeState};
use kfd_abi::exception::{ExceptionCode, ExceptionMask};

use super::NOWHERE;
use crate::actor::PATIENCE;
use crate::bench::{Bench, Client, WATCH, eventually};
use crate::rule::driver_rules;
use crate::verdict::{Verdict, equal, outcome, require};
use crate::wire::Request;

// tidy: table
driver_rules! { Driver:
    "enable-twice" twice, "kfd_debug.c: kfd_dbg_trap_enable",
        "ENABLE of a process that is debugged is answered with EALREADY.";
    "enable-bad-descriptor" bad_descriptor, "kfd_debug.c: kfd_dbg_trap_enable",
        "ENABLE with a descriptor for reports that is not open is answered with EBADF, and no session begins.";
    "enable-bad-room" bad_room, "kfd_debug.c: kfd_dbg_trap_enable",
        "ENABLE that cannot write the state of the runtime is answered with EFAULT, and no session begins.",
        except Before6_12_115;
    "enable-tells-runtime" tells_runtime, "kfd_debug.c: kfd_dbg_trap_enable",
        "ENABLE tells the state of the runtime and its address, and how large that record is.";
    "enable-tells-no-runtime" tells_no_runtime, "kfd_debug.c: kfd_dbg_trap_enable",
        "ENABLE of a process without runtime succeeds and tells that it is disabled.";
    "enable-small-room" small_room, "kfd_debug.c: kfd_dbg_trap_enable",
        "ENABLE writes no more of the state of the runtime than there is room for.";
    "enable-takes-over" takes_over, "kfd_chardev.c: kfd_ioctl_set_debug_trap",
        "ENABLE of a second tracer fails with EALREADY and yet takes the session from the first, who gets EPERM.";
    "disable-resumes" disable_resumes, "kfd_debug.c: kfd_dbg_trap_deactivate",
        "DISABLE resumes what the debugger stopped.";
    "disable-enable" disable_enable, "kfd_debug.c: kfd_dbg_trap_disable",
        "A session can begin again after DISABLE.";
    "disable-forgets" disable_forgets, "kfd_debug.c: kfd_dbg_clean_exception_status",
        "DISABLE clears recorded exceptions, QUEUE_NEW among them.";
    "death-resumes" death_resumes, "kfd_process.c: kfd_process_notifier_release_internal",
        "When the debugger ends, everything that it stopped runs again.";
    "close-keeps-stopped" close_keeps_stopped, "kfd_chardev.c: kfd_release",
        "Closing the descriptor of the debugger does not end the session: queues stay stopped.";
    "detach-keeps-stopped" detach_keeps_stopped, "kfd_process.c: kfd_process_notifier_release_internal",
        "The end of tracing does not end the session: queues stay stopped.";
    "death-of-target" death_of_target, "kfd_process.c: kfd_process_notifier_release_internal",
        "A process with stopped queues can be killed: it disappears, and calls about it get ESRCH.";
    "runtime-twice" runtime_twice, "kfd_chardev.c: runtime_enable",
        "RUNTIME_ENABLE of an enabled runtime is answered with EBUSY.";
    "runtime-after-queue" runtime_after_queue, "kfd_chardev.c: runtime_enable",
        "RUNTIME_ENABLE of a process that has queues is answered with EEXIST.";
    "runtime-mask-untouched" runtime_mask, "kfd_chardev.c: kfd_ioctl_runtime_enable",
        "RUNTIME_ENABLE leaves capabilities_mask as it is.";
    "runtime-enable-waits" runtime_enable_waits, "kfd_chardev.c: runtime_enable",
        "RUNTIME_ENABLE of a debugged process waits until the debugger sends PROCESS_RUNTIME.";
    "runtime-disable-waits" runtime_disable_waits, "kfd_chardev.c: runtime_disable",
        "RUNTIME_ENABLE without its mode, which disables, waits for the debugger in the same way.";
    "runtime-answer-in-advance" answer_in_advance, "kfd_debug.c: kfd_dbg_send_exception_to_runtime",
        "A PROCESS_RUNTIME that is sent before lets the next wait end at once.";
    "runtime-wait-interrupted" wait_interrupted, "kfd_chardev.c: runtime_enable",
        "A signal ends the wait of RUNTIME_ENABLE with EINTR.";
    "runtime-reported" runtime_reported, "kfd_debug.c: kfd_dbg_ev_raise, kfd_dbg_trap_query_exception_info",
        "A debugger that subscribed is told of RUNTIME_ENABLE with the state and the address that were given.";
}

fn twice(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.session(&target)?;
    session.enable(ExceptionMask::EMPTY)?.fails("second ENABLE", libc::EALREADY).map(drop)
}

fn bad_descriptor(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut tracer = bench.tracer(&target)?;
    let mut args = tracer.enable_args(ExceptionMask::EMPTY);
    args.dbg_fd = 9999;
    tracer.trap(args)?.fails("ENABLE with a closed descriptor", libc::EBADF)?;
    tracer.enable(ExceptionMask::EMPTY)?.ok("ENABLE after the failed one").map(drop)
}

fn bad_room(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut tracer = bench.tracer(&target)?;
    let mut args = tracer.enable_args(ExceptionMask::EMPTY);
    args.rinfo_ptr = NOWHERE;
    tracer.trap(args)?.fails("ENABLE without room", libc::EFAULT)?;
    tracer.enable(ExceptionMask::EMPTY)?.ok("ENABLE after the failed one").map(drop)
}

/// An address that a runtime tells; the driver only passes it on.
const R_DEBUG: u64 = 0x1234_5678;

fn enable_runtime(client: &mut Client) -> Verdict {
    let args = RuntimeEnableArgs { r_debug: R_DEBUG, mode_mask: RuntimeMode::ENABLE, capabilities_mask: 0 };
    client.call(args)?.ok("RUNTIME_ENABLE").map(drop)
}

fn tells_runtime(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.client()?;
    enable_runtime(&mut target)?;
    let mut tracer = bench.tracer(&target)?;
    let args = tracer.enable(ExceptionMask::EMPTY)?.ok("ENABLE")?;
    equal("rinfo_size", args.rinfo_size as usize, RuntimeInfo::SIZE)?;
    let info = tracer.runtime_info()?;
    equal("state and address", (info.runtime_state, info.r_debug), (RuntimeState::ENABLED, R_DEBUG))
}

fn tells_no_runtime(bench: &Bench<'_>) -> Verdict {
    let target = bench.client()?;
    let mut session = bench.session(&target)?;
    equal("state", session.runtime_info()?.runtime_state, RuntimeState::DISABLED)
}

fn small_room(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.client()?;
    enable_runtime(&mut target)?;
    let mut tracer = bench.tracer(&target)?;
    let at = tracer.list();
    tracer.tracer.actor.write(at, vec![0xEE; 16])?;
    let mut args = tracer.enable_args(ExceptionMask::EMPTY);
    args.rinfo_size = 8;
    let args = tracer.trap(args)?.ok("ENABLE with room for 8 bytes")?;
    equal("rinfo_size", args.rinfo_size as usize, RuntimeInfo::SIZE)?;
    let bytes = tracer.tracer.actor.read(at, 16)?;
    equal("bytes", bytes, [R_DEBUG.to_le_bytes(), [0xEE; 8]].concat())
}

fn takes_over(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut first = bench.session(&target)?;
    first.detach()?;
    let mut second = bench.tracer(&target)?;
    second.enable(ExceptionMask::EMPTY)?.fails("ENABLE of the second", libc::EALREADY)?;
    first.snapshot_with(ExceptionMask::EMPTY, 1, 64)?.fails("GET_QUEUE_SNAPSHOT of the first", libc::EPERM)?;
    second.snapshot_with(ExceptionMask::EMPTY, 1, 64)?.ok("GET_QUEUE_SNAPSHOT of the second")?;
    Ok(())
}

/// Begins DESTROY_QUEUE and returns whether it waits.
pub(super) fn destroy_waits(client: &mut Client, queue_id: u32) -> Verdict<bool> {
    let kfd = client.kfd;
    client.actor.begin(kfd, kfd_abi::queue::DestroyQueueArgs { queue_id, pad: 0 })?;
    Ok(client.actor.result(WATCH)?.is_none())
}

/// Requires that the call which was begun returns with this.
pub(super) fn returns(client: &mut Client, what: &str, limit: Duration, expected: &str) -> Verdict {
    match client.actor.result(limit)? {
        Some(result) => equal(what, outcome(result).as_str(), expected),
        None => crate::verdict::broken(format_args!("{what}: it did not return")),
    }
}

fn disable_resumes(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue.id])?;
    require(destroy_waits(&mut target, queue.id)?, "DESTROY_QUEUE of a stopped queue did not wait")?;
    session.disable()?.ok("DISABLE")?;
    returns(&mut target, "DESTROY_QUEUE after DISABLE", PATIENCE, "success (0)")
}

fn disable_enable(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.session(&target)?;
    for _ in 0..3 {
        session.disable()?.ok("DISABLE")?;
        session.enable(ExceptionMask::EMPTY)?.ok("ENABLE after DISABLE")?;
    }
    Ok(())
}

fn disable_forgets(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?;
    let mut session = bench.session(&target)?;
    session.disable()?.ok("DISABLE")?;
    session.enable(ExceptionMask::EMPTY)?.ok("ENABLE after DISABLE")?;
    session.stop(&[queue.id])
}

fn death_resumes(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue.id])?;
    require(destroy_waits(&mut target, queue.id)?, "DESTROY_QUEUE of a stopped queue did not wait")?;
    session.tracer.actor.kill();
    returns(&mut target, "DESTROY_QUEUE after the debugger's end", PATIENCE, "success (0)")
}

fn close_keeps_stopped(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue.id])?;
    let fd = session.tracer.kfd;
    session.tracer.actor.done(&Request::Close { fd })?;
    require(destroy_waits(&mut target, queue.id)?, "the queue runs again")?;
    session.tracer.kfd = session.tracer.actor.open(kfd::KFD)?;
    equal("RESUME_QUEUES through another opening", session.resume(&[queue.id])?.result, 1)
}

fn detach_keeps_stopped(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue.id])?;
    session.detach()?;
    require(destroy_waits(&mut target, queue.id)?, "the queue runs again")
}

fn death_of_target(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?;
    let mut session = bench.debugger(&target)?;
    session.stop(&[queue.id])?;
    session.detach()?;
    target.actor.kill();
    let path = format!("{}/{}", kfd_abi::sysfs::PROCESS_DIR, target.pid());
    eventually("the process is no longer listed", || Ok(!std::path::Path::new(&path).exists()))?;
    equal("RESUME_QUEUES", outcome(session.resume(&[queue.id])?.result).as_str(), "ESRCH")
}

fn runtime_twice(bench: &Bench<'_>) -> Verdict {
    bench.program()?.enable_runtime()?.fails("second RUNTIME_ENABLE", libc::EBUSY).map(drop)
}

fn runtime_after_queue(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    client.queue()?;
    client.enable_runtime()?.fails("RUNTIME_ENABLE after CREATE_QUEUE", libc::EEXIST).map(drop)
}

fn runtime_mask(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.client()?;
    let args = RuntimeEnableArgs { r_debug: 0, mode_mask: RuntimeMode::ENABLE, capabilities_mask: 0xABCD };
    equal("capabilities_mask", client.call(args)?.ok("RUNTIME_ENABLE")?.capabilities_mask, 0xABCD)
}

fn begin_runtime(target: &mut Client, mode_mask: RuntimeMode) -> Verdict<bool> {
    let kfd = target.kfd;
    target.actor.begin(kfd, RuntimeEnableArgs { r_debug: R_DEBUG, mode_mask, capabilities_mask: 0 })?;
    Ok(target.actor.result(WATCH)?.is_none())
}

fn runtime_enable_waits(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.client()?;
    let mut session = bench.session(&target)?;
    require(begin_runtime(&mut target, RuntimeMode::ENABLE)?, "RUNTIME_ENABLE did not wait")?;
    session.answer_runtime()?.ok("SEND_RUNTIME_EVENT")?;
    returns(&mut target, "RUNTIME_ENABLE after the answer", PATIENCE, "success (0)")
}

fn runtime_disable_waits(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let mut session = bench.session(&target)?;
    require(begin_runtime(&mut target, RuntimeMode::EMPTY)?, "RUNTIME_ENABLE with mode 0 did not wait")?;
    session.answer_runtime()?.ok("SEND_RUNTIME_EVENT")?;
    returns(&mut target, "RUNTIME_ENABLE with mode 0 after the answer", PATIENCE, "success (0)")
}

fn answer_in_advance(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let mut session = bench.session(&target)?;
    session.answer_runtime()?.ok("SEND_RUNTIME_EVENT")?;
    begin_runtime(&mut target, RuntimeMode::EMPTY).and_then(|waits| {
        if waits { returns(&mut target, "RUNTIME_ENABLE with mode 0", PATIENCE, "success (0)") } else { Ok(()) }
    })
}

fn wait_interrupted(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.client()?;
    let mut session = bench.session(&target)?;
    session.detach()?;
    require(begin_runtime(&mut target, RuntimeMode::ENABLE)?, "RUNTIME_ENABLE did not wait")?;
    target.actor.done(&Request::Interrupt)?;
    returns(&mut target, "interrupted RUNTIME_ENABLE", PATIENCE, "EINTR")
}

fn runtime_reported(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.client()?;
    let mut tracer = bench.tracer(&target)?;
    tracer.enable(ExceptionMask::PROCESS_RUNTIME)?.ok("ENABLE")?;
    begin_runtime(&mut target, RuntimeMode::ENABLE)?;
    eventually("a report through the pipe", || Ok(tracer.reports()? > 0))?;
    let raised = tracer.query(ExceptionMask::EMPTY)?.ok("QUERY_DEBUG_EVENT")?.exception_mask;
    require(raised.has(ExceptionMask::PROCESS_RUNTIME), format_args!("exceptions: {raised:?}"))?;
    let query = QueryExceptionInfo {
        info_ptr: tracer.room(),
        info_size: RuntimeInfo::SIZE as u32,
        source_id: 0,
        exception_code: ExceptionCode::PROCESS_RUNTIME,
        clear_exception: 1,
    };
    tracer.trap(query)?.ok("QUERY_EXCEPTION_INFO")?;
    let bytes = tracer.room_bytes(RuntimeInfo::SIZE)?;
    let info = RuntimeInfo::decode(&bytes).unwrap_or_default();
    equal("state and address", (info.runtime_state, info.r_debug), (RuntimeState::ENABLED, R_DEBUG))?;
    tracer.query(ExceptionMask::EMPTY)?.fails("QUERY_DEBUG_EVENT after it was cleared", libc::EAGAIN)?;
    tracer.answer_runtime()?.ok("SEND_RUNTIME_EVENT")?;
    returns(&mut target, "RUNTIME_ENABLE after the answer", PATIENCE, "success (0)")
}

//! What a debugger is told: lists of queues and gpus, and exceptions.

use kfd_abi::Abi;
use kfd_abi::debug::{
    DeviceSnapshotEntry, GetDeviceSnapshot, GetQueueSnapshot, QueryExceptionInfo, QueueSnapshotEntry,
    SetExceptionsEnabled,
};
use kfd_abi::exception::{ExceptionCode, ExceptionMask};
use kfd_abi::queue::QueueType;
use kfd_abi::sysfs::node;

use super::NOWHERE;
use crate::bench::{Bench, WATCH, eventually};
use crate::rule::driver_rules;
use crate::session::Session;
use crate::verdict::{Verdict, broken, equal, require};

// tidy: table
driver_rules! { Driver:
    "snapshot-entry" entry, "kfd_device_queue_manager.c: set_queue_snapshot_entry",
        "An entry of a snapshot has the addresses, sizes, kind and gpu with which the queue was created.";
    "snapshot-newest-first" newest_first, "kfd_process_queue_manager.c: pqm_create_queue, pqm_get_queue_snapshot",
        "A snapshot lists the newest queue first.";
    "snapshot-new-flag" new_flag, "kfd_process_queue_manager.c: init_user_queue",
        "A queue has QUEUE_NEW in its snapshot until a snapshot clears it, also if it is older than the session.";
    "snapshot-beyond-room" beyond_room, "kfd_process_queue_manager.c: pqm_get_queue_snapshot",
        "A snapshot without room for all queues fills what there is and answers how many queues there are.";
    "snapshot-no-room" no_room, "kfd_process_queue_manager.c: pqm_get_queue_snapshot",
        "A snapshot with room for no queue counts them and clears nothing.";
    "snapshot-size-zero" size_zero, "kfd_process_queue_manager.c: pqm_get_queue_snapshot",
        "A snapshot with entries of size 0 is answered with EINVAL.";
    "snapshot-smaller-entry" smaller_entry, "kfd_process_queue_manager.c: pqm_get_queue_snapshot",
        "Entries that are smaller than the driver's are filled as far as they go, one after the other.";
    "snapshot-larger-entry" larger_entry, "kfd_process_queue_manager.c: pqm_get_queue_snapshot",
        "Entries that are larger than the driver's lie at the caller's distance, and the answer says 64 bytes.";
    "snapshot-bad-room" bad_room, "kfd_process_queue_manager.c: pqm_get_queue_snapshot",
        "A snapshot that cannot be written is answered with EFAULT.";
    "devices-entry" device_entry, "kfd_debug.c: kfd_dbg_trap_device_snapshot",
        "GET_DEVICE_SNAPSHOT tells ids, instruction set and geometry as the topology does.";
    "devices-size" device_size, "kfd_debug.c: kfd_dbg_trap_device_snapshot",
        "GET_DEVICE_SNAPSHOT answers how many gpus there are and the bytes filled of an entry: 120, or 128 since 7.2.";
    "devices-null" device_null, "kfd_debug.c: kfd_dbg_trap_device_snapshot",
        "GET_DEVICE_SNAPSHOT without a buffer is answered with EINVAL.";
    "query-nothing" query_nothing, "kfd_debug.c: kfd_dbg_ev_query_debug_event",
        "QUERY_DEBUG_EVENT without a raised exception is answered with EAGAIN.";
    "query-queue-new" query_new, "kfd_debug.c: kfd_dbg_ev_query_debug_event",
        "A created queue is reported through the pipe and named by QUERY_DEBUG_EVENT with its gpu.";
    "query-queue-delete" query_delete, "kfd_debug.c: kfd_dbg_ev_raise; kfd_chardev.c: kfd_ioctl_destroy_queue",
        "A destroyed queue is reported as DEVICE_QUEUE_DELETE of its gpu.";
    "query-not-subscribed" not_subscribed, "kfd_debug.c: kfd_dbg_ev_raise",
        "Exceptions that the debugger did not subscribe to are neither reported nor found.";
    "query-subscribed-late" subscribed_late, "kfd_debug.c: kfd_dbg_set_enabled_debug_exception_mask",
        "Subscribing to an exception that was raised before reports it then.";
    "query-info-null" info_null, "kfd_debug.c: kfd_dbg_trap_query_exception_info",
        "QUERY_EXCEPTION_INFO without a buffer is answered with EINVAL.";
    "query-info-not-raised" info_not_raised, "kfd_debug.c: kfd_dbg_trap_query_exception_info",
        "QUERY_EXCEPTION_INFO about an exception that was not raised is answered with ENODATA.";
    "query-info-bad-source" info_bad_source, "kfd_debug.c: kfd_dbg_trap_query_exception_info",
        "QUERY_EXCEPTION_INFO about an unknown queue, gpu or exception is answered with EINVAL.";
}

const ENTRY: usize = QueueSnapshotEntry::SIZE;

fn entry(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let made = target.queue()?;
    let copies = target.copy_queue()?;
    let mut session = bench.session(&target)?;
    let entries = session.snapshot(ExceptionMask::EMPTY)?;
    let [copy, compute] = entries[..] else {
        return broken(format_args!("{} entries instead of 2", entries.len()));
    };
    let expected = QueueSnapshotEntry {
        exception_status: ExceptionMask::QUEUE_NEW,
        ring_base_address: made.args.ring_base_address,
        write_pointer_address: made.args.write_pointer_address,
        read_pointer_address: made.args.read_pointer_address,
        ctx_save_restore_address: made.args.ctx_save_restore_address,
        queue_id: made.id,
        gpu_id: target.subject.id(),
        ring_size: made.args.ring_size,
        queue_type: QueueType::COMPUTE_AQL,
        ctx_save_restore_area_size: made.args.ctx_save_restore_size,
        reserved: 0,
    };
    equal("compute queue", compute, expected)?;
    equal("copy queue", (copy.queue_id, copy.queue_type), (copies.id, QueueType::SDMA))
}

fn newest_first(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let ids = [target.queue()?.id, target.queue()?.id, target.queue()?.id];
    let mut session = bench.session(&target)?;
    let seen: Vec<u32> = session.snapshot(ExceptionMask::EMPTY)?.iter().map(|entry| entry.queue_id).collect();
    equal("queues", seen, ids.into_iter().rev().collect())
}

fn new_flag(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    target.queue()?;
    let mut session = bench.session(&target)?;
    for (clear, expected) in [
        (ExceptionMask::EMPTY, ExceptionMask::QUEUE_NEW),
        (ExceptionMask::QUEUE_NEW, ExceptionMask::QUEUE_NEW),
        (ExceptionMask::EMPTY, ExceptionMask::EMPTY),
    ] {
        let status = session.snapshot(clear)?.first().map(|entry| entry.exception_status);
        equal("exceptions", status, Some(expected))?;
    }
    Ok(())
}

fn beyond_room(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    target.queue()?;
    let newest = target.queue()?.id;
    let mut session = bench.session(&target)?;
    session.fill_room(0xEE, 2 * ENTRY)?;
    let args = session.snapshot_with(ExceptionMask::EMPTY, 1, ENTRY as u32)?.ok("GET_QUEUE_SNAPSHOT")?;
    equal("number of queues", args.num_queues, 2)?;
    let bytes = session.room_bytes(2 * ENTRY)?;
    equal("queue", QueueSnapshotEntry::decode(&bytes).map(|entry| entry.queue_id), Some(newest))?;
    require(bytes[ENTRY..].iter().all(|byte| *byte == 0xEE), "bytes behind the room were written")
}

fn no_room(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    target.queue()?;
    let mut session = bench.session(&target)?;
    let args = GetQueueSnapshot {
        exception_mask: ExceptionMask::QUEUE_NEW,
        snapshot_buf_ptr: 0,
        num_queues: 0,
        entry_size: ENTRY as u32,
    };
    equal("number of queues", session.trap(args)?.ok("GET_QUEUE_SNAPSHOT")?.num_queues, 1)?;
    let status = session.snapshot(ExceptionMask::EMPTY)?.first().map(|entry| entry.exception_status);
    equal("exceptions", status, Some(ExceptionMask::QUEUE_NEW))
}

fn size_zero(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.session(&target)?;
    session.snapshot_with(ExceptionMask::EMPTY, 1, 0)?.fails("GET_QUEUE_SNAPSHOT", libc::EINVAL).map(drop)
}

/// Takes a snapshot of two queues with entries of another size; returns the size answered and the bytes.
fn two_entries(session: &mut Session, size: usize) -> Verdict<(u32, Vec<u8>)> {
    session.fill_room(0xEE, 3 * size)?;
    let args = session.snapshot_with(ExceptionMask::EMPTY, 2, size as u32)?.ok("GET_QUEUE_SNAPSHOT")?;
    Ok((args.entry_size, session.room_bytes(3 * size)?))
}

fn smaller_entry(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let rings = [target.queue()?.args.ring_base_address, target.queue()?.args.ring_base_address];
    let mut session = bench.session(&target)?;
    let (size, bytes) = two_entries(&mut session, 16)?;
    equal("entry_size", size, 16)?;
    let ring = |at: usize| bytes.get(at + 8..).and_then(u64::decode);
    equal("rings", [ring(0), ring(16)], [Some(rings[1]), Some(rings[0])])?;
    require(bytes[32..].iter().all(|byte| *byte == 0xEE), "bytes behind the room were written")
}

fn larger_entry(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let ids = [target.queue()?.id, target.queue()?.id];
    let mut session = bench.session(&target)?;
    let (size, bytes) = two_entries(&mut session, 96)?;
    equal("entry_size", size as usize, ENTRY)?;
    let id = |at: usize| bytes.get(at..).and_then(QueueSnapshotEntry::decode).map(|entry| entry.queue_id);
    equal("queues", [id(0), id(96)], [Some(ids[1]), Some(ids[0])])?;
    require(bytes[ENTRY..96].iter().all(|byte| *byte == 0xEE), "bytes between the entries were written")
}

fn bad_room(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    target.queue()?;
    let mut session = bench.session(&target)?;
    let args =
        GetQueueSnapshot { snapshot_buf_ptr: NOWHERE, num_queues: 1, entry_size: ENTRY as u32, ..Default::default() };
    session.trap(args)?.fails("GET_QUEUE_SNAPSHOT", libc::EFAULT).map(drop)
}

fn devices(session: &mut Session, num_devices: u32, entry_size: u32) -> Verdict<GetDeviceSnapshot> {
    let snapshot_buf_ptr = session.room();
    let args = GetDeviceSnapshot { exception_mask: ExceptionMask::EMPTY, snapshot_buf_ptr, num_devices, entry_size };
    session.trap(args)?.ok("GET_DEVICE_SNAPSHOT")
}

fn device_entry(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.session(&target)?;
    let gpus = bench.subject.gpus;
    devices(&mut session, gpus, DeviceSnapshotEntry::SIZE as u32)?;
    let bytes = session.room_bytes(gpus as usize * DeviceSnapshotEntry::SIZE)?;
    let mut entries = bytes.chunks_exact(DeviceSnapshotEntry::SIZE).filter_map(DeviceSnapshotEntry::decode);
    let subject = bench.subject;
    let Some(seen) = entries.find(|entry| entry.gpu_id == subject.id()) else {
        return broken(format_args!("gpu {} is not in the list", subject.id()));
    };
    let property = |name| subject.properties.required::<u32>(name).unwrap_or_default();
    equal("gfx_target_version", seen.gfx_target_version, subject.gpu.gfx)?;
    equal("num_xcc", seen.num_xcc, subject.gpu.xccs)?;
    equal("simd_count", seen.simd_count, property(node::SIMD_COUNT))?;
    equal("vendor_id", seen.vendor_id, property(node::VENDOR_ID))?;
    equal("device_id", seen.device_id, property(node::DEVICE_ID))?;
    // sysfs shows the arrays of all XCCs, the snapshot those of one.
    equal("array_count", seen.array_count * seen.num_xcc.max(1), property(node::ARRAY_COUNT))
}

fn device_size(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.session(&target)?;
    let gpus = bench.subject.gpus;
    let whole = devices(&mut session, 1, 512)?;
    require([120, 128].contains(&whole.entry_size), format_args!("entry_size {}", whole.entry_size))?;
    equal("number of gpus", whole.num_devices, gpus)?;
    equal("entry_size", devices(&mut session, 1, 40)?.entry_size, 40)?;
    equal("number of gpus without room", devices(&mut session, 0, 512)?.num_devices, gpus)
}

fn device_null(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.session(&target)?;
    let args = GetDeviceSnapshot { num_devices: 1, entry_size: 120, ..GetDeviceSnapshot::default() };
    session.trap(args)?.fails("GET_DEVICE_SNAPSHOT", libc::EINVAL).map(drop)
}

fn query_nothing(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut tracer = bench.tracer(&target)?;
    tracer.enable(ExceptionMask::DEFINED)?.ok("ENABLE")?;
    tracer.query(ExceptionMask::DEFINED)?.fails("QUERY_DEBUG_EVENT", libc::EAGAIN).map(drop)
}

fn query_new(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let mut tracer = bench.tracer(&target)?;
    tracer.enable(ExceptionMask::QUEUE_NEW)?.ok("ENABLE")?;
    let queue = target.queue()?.id;
    eventually("a report through the pipe", || Ok(tracer.reports()? > 0))?;
    let found = tracer.query(ExceptionMask::QUEUE_NEW)?.ok("QUERY_DEBUG_EVENT")?;
    let expected = (ExceptionMask::QUEUE_NEW, bench.subject.id(), queue);
    equal("exception, gpu and queue", (found.exception_mask, found.gpu_id, found.queue_id), expected)?;
    tracer.query(ExceptionMask::EMPTY)?.fails("QUERY_DEBUG_EVENT after it was cleared", libc::EAGAIN)?;
    tracer.stop(&[queue])
}

fn query_delete(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut tracer = bench.tracer(&target)?;
    tracer.enable(ExceptionMask::DEVICE_QUEUE_DELETE)?.ok("ENABLE")?;
    target.destroy(queue)?.ok("DESTROY_QUEUE")?;
    eventually("a report through the pipe", || Ok(tracer.reports()? > 0))?;
    let found = tracer.query(ExceptionMask::DEVICE_QUEUE_DELETE)?.ok("QUERY_DEBUG_EVENT")?;
    let expected = (ExceptionMask::DEVICE_QUEUE_DELETE, bench.subject.id());
    equal("exception and gpu", (found.exception_mask, found.gpu_id), expected)
}

fn not_subscribed(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let mut session = bench.session(&target)?;
    let queue = target.queue()?.id;
    target.destroy(queue)?.ok("DESTROY_QUEUE")?;
    std::thread::sleep(WATCH);
    equal("reports", session.reports()?, 0)?;
    session.query(ExceptionMask::EMPTY)?.fails("QUERY_DEBUG_EVENT", libc::EAGAIN).map(drop)
}

fn subscribed_late(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let mut session = bench.session(&target)?;
    let queue = target.queue()?.id;
    session.trap(SetExceptionsEnabled { exception_mask: ExceptionMask::QUEUE_NEW })?.ok("SET_EXCEPTIONS_ENABLED")?;
    eventually("a report through the pipe", || Ok(session.reports()? > 0))?;
    equal("queue", session.query(ExceptionMask::EMPTY)?.ok("QUERY_DEBUG_EVENT")?.queue_id, queue)
}

fn info(session: &mut Session, code: ExceptionCode, source_id: u32, null: bool) -> Verdict<i64> {
    let info_ptr = if null { 0 } else { session.room() };
    let args = QueryExceptionInfo { info_ptr, info_size: 64, source_id, exception_code: code, clear_exception: 0 };
    Ok(session.trap(args)?.result)
}

fn refused(what: &str, result: i64, errno: i32) -> Verdict {
    equal(what, crate::verdict::outcome(result), crate::verdict::outcome(-i64::from(errno)))
}

fn info_null(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.session(&target)?;
    let result = info(&mut session, ExceptionCode::PROCESS_RUNTIME, 0, true)?;
    refused("QUERY_EXCEPTION_INFO", result, libc::EINVAL)
}

fn info_not_raised(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    let gpu = bench.subject.id();
    for (code, source) in [
        (ExceptionCode::PROCESS_RUNTIME, 0),
        (ExceptionCode::QUEUE_WAVE_ABORT, queue),
        (ExceptionCode::DEVICE_MEMORY_VIOLATION, gpu),
    ] {
        let result = info(&mut session, code, source, false)?;
        refused(&format!("QUERY_EXCEPTION_INFO about {code:?}"), result, libc::ENODATA)?;
    }
    Ok(())
}

fn info_bad_source(bench: &Bench<'_>) -> Verdict {
    let target = bench.program()?;
    let mut session = bench.session(&target)?;
    for (code, source) in [
        (ExceptionCode::QUEUE_NEW, 77),
        (ExceptionCode::DEVICE_QUEUE_DELETE, 1),
        (ExceptionCode::NONE, 0),
        (ExceptionCode(60), 0),
    ] {
        let result = info(&mut session, code, source, false)?;
        refused(&format!("QUERY_EXCEPTION_INFO about {code:?}"), result, libc::EINVAL)?;
    }
    Ok(())
}

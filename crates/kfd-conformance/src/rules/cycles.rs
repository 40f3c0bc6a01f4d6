//! How many cycles each call costs. Another process has a queue meanwhile, so that there is a runlist to take off.

use kfd_abi::debug::GRACE_PERIOD_DEFAULT;
use kfd_abi::exception::ExceptionMask;
use kfd_abi::queue::SetCuMaskArgs;

use crate::bench::{Bench, Client};
use crate::cycles::Cycle::{self, Graced, Plain};
use crate::queue::Made;
use crate::rule::driver_rules;
use crate::session::Session;
use crate::verdict::{Verdict, equal};

// tidy: table
driver_rules! { Driver:
    "cycles-create" create, "kfd_device_queue_manager.c: create_queue_cpsch",
        "CREATE_QUEUE of an active queue costs one cycle, of one that is off none.";
    "cycles-destroy" destroy, "kfd_device_queue_manager.c: destroy_queue_cpsch",
        "DESTROY_QUEUE of an active queue costs one cycle, of one that is off none.";
    "cycles-update" update, "kfd_device_queue_manager.c: update_queue",
        "UPDATE_QUEUE costs one cycle, whatever it changes.";
    "cycles-cu-mask" cu_mask, "kfd_device_queue_manager.c: update_queue",
        "SET_CU_MASK costs one cycle.";
    "cycles-enable" enable, "kfd_debug.c: kfd_dbg_trap_activate; debug_refresh_runlist",
        "ENABLE of a process whose runtime is enabled costs one cycle, with the shortest grace period.";
    "cycles-disable" disable, "kfd_debug.c: kfd_dbg_trap_deactivate",
        "DISABLE costs four cycles: one that resumes and three that refresh.";
    "cycles-suspend" suspend, "kfd_device_queue_manager.c: suspend_queues",
        "SUSPEND_QUEUES of several queues of one gpu costs one cycle.";
    "cycles-suspend-again" suspend_again, "kfd_device_queue_manager.c: suspend_queues",
        "SUSPEND_QUEUES of a queue that is stopped costs one cycle all the same.";
    "cycles-suspend-nothing" suspend_nothing, "kfd_device_queue_manager.c: suspend_queues",
        "SUSPEND_QUEUES of unknown or new queues costs no cycle.";
    "cycles-suspend-grace" suspend_grace, "kfd_device_queue_manager.c: unmap_queues_cpsch",
        "A grace period of its own costs two packets more in the same cycle.";
    "cycles-resume" resume, "kfd_device_queue_manager.c: resume_queues",
        "RESUME_QUEUES costs one cycle, whether or not the queue was stopped.";
    "cycles-snapshot" snapshot, "kfd_process_queue_manager.c: pqm_get_queue_snapshot",
        "GET_QUEUE_SNAPSHOT and QUERY_DEBUG_EVENT cost no cycle.";
    "cycles-exit" exit, "kfd_device_queue_manager.c: process_termination_cpsch",
        "The end of a process that opened the driver costs one cycle, also if it had no queue.";
}

/// A process with a queue, one that is watched, and its debugger, which has to go first: the end of a process is not
/// seen by its parent while another traces it.
struct Scene {
    session: Session,
    target: Client,
    queue: Made,
    _company: Client,
}

fn company(bench: &Bench<'_>) -> Verdict<Client> {
    let mut company = bench.program()?;
    company.queue()?;
    Ok(company)
}

fn scene(bench: &Bench<'_>) -> Verdict<Scene> {
    let company = company(bench)?;
    let mut target = bench.program()?;
    let queue = target.queue()?;
    let session = bench.debugger(&target)?;
    Ok(Scene { _company: company, target, queue, session })
}

fn expect(bench: &Bench<'_>, what: &str, cycles: &[Cycle], action: impl FnOnce() -> Verdict) -> Verdict {
    bench.counter.expect(bench.subject, what, cycles, action)
}

fn create(bench: &Bench<'_>) -> Verdict {
    let _company = company(bench)?;
    let mut client = bench.program()?;
    let (args, _) = client.queue_args()?;
    expect(bench, "CREATE_QUEUE", &[Plain], || client.call(args)?.ok("CREATE_QUEUE").map(drop))?;
    let (mut args, _) = client.queue_args()?;
    args.queue_percentage = 0;
    expect(bench, "CREATE_QUEUE at 0 percent", &[], || client.call(args)?.ok("CREATE_QUEUE").map(drop))
}

fn destroy(bench: &Bench<'_>) -> Verdict {
    let _company = company(bench)?;
    let mut client = bench.program()?;
    let (on, off) = (client.queue()?.id, client.queue_with(|args| args.queue_percentage = 0)?.id);
    expect(bench, "DESTROY_QUEUE", &[Plain], || client.destroy(on)?.ok("DESTROY_QUEUE").map(drop))?;
    expect(bench, "DESTROY_QUEUE at 0 percent", &[], || client.destroy(off)?.ok("DESTROY_QUEUE").map(drop))
}

fn update(bench: &Bench<'_>) -> Verdict {
    let _company = company(bench)?;
    let mut client = bench.program()?;
    let queue = client.queue()?;
    expect(bench, "UPDATE_QUEUE without a change", &[Plain], || {
        client.update(&queue, |_| {})?.ok("UPDATE_QUEUE").map(drop)
    })?;
    expect(bench, "UPDATE_QUEUE to 0 percent", &[Plain], || {
        client.update(&queue, |args| args.queue_percentage = 0)?.ok("UPDATE_QUEUE").map(drop)
    })
}

fn cu_mask(bench: &Bench<'_>) -> Verdict {
    let _company = company(bench)?;
    let mut client = bench.program()?;
    let queue_id = client.queue()?.id;
    let cu_mask_ptr = client.actor.memory(4096)?;
    client.actor.write(cu_mask_ptr, vec![0xFF; 128])?;
    expect(bench, "SET_CU_MASK", &[Plain], || {
        client.call(SetCuMaskArgs { queue_id, num_cu_mask: 1024, cu_mask_ptr })?.ok("SET_CU_MASK").map(drop)
    })
}

fn enable(bench: &Bench<'_>) -> Verdict {
    let _company = company(bench)?;
    let target = bench.program()?;
    let mut tracer = bench.tracer(&target)?;
    expect(bench, "ENABLE", &[Graced], || tracer.enable(ExceptionMask::EMPTY)?.ok("ENABLE").map(drop))
}

fn disable(bench: &Bench<'_>) -> Verdict {
    let mut scene = scene(bench)?;
    expect(bench, "DISABLE", &[Plain, Graced, Graced, Graced], || scene.session.disable()?.ok("DISABLE").map(drop))
}

fn suspend(bench: &Bench<'_>) -> Verdict {
    let mut scene = scene(bench)?;
    let queues = [scene.queue.id, scene.target.queue()?.id];
    scene.session.see_queues()?;
    expect(bench, "SUSPEND_QUEUES of two", &[Plain], || scene.session.stop(&queues))
}

fn suspend_again(bench: &Bench<'_>) -> Verdict {
    let mut scene = scene(bench)?;
    scene.session.stop(&[scene.queue.id])?;
    expect(bench, "SUSPEND_QUEUES again", &[Plain], || scene.session.stop(&[scene.queue.id]))
}

fn suspend_nothing(bench: &Bench<'_>) -> Verdict {
    let mut scene = scene(bench)?;
    let new = scene.target.queue()?.id;
    expect(bench, "SUSPEND_QUEUES of none", &[], || equal("handled", scene.session.suspend(&[77, new])?.result, 0))
}

fn suspend_grace(bench: &Bench<'_>) -> Verdict {
    let mut scene = scene(bench)?;
    let queue = [scene.queue.id];
    expect(bench, "SUSPEND_QUEUES with grace 1", &[Graced], || {
        equal("handled", scene.session.suspend_with(&queue, 1, ExceptionMask::EMPTY)?.result, 1)
    })?;
    expect(bench, "SUSPEND_QUEUES with the default", &[Plain], || {
        let listed = scene.session.suspend_with(&queue, GRACE_PERIOD_DEFAULT, ExceptionMask::EMPTY)?;
        equal("handled", listed.result, 1)
    })
}

fn resume(bench: &Bench<'_>) -> Verdict {
    let mut scene = scene(bench)?;
    let queue = [scene.queue.id];
    scene.session.stop(&queue)?;
    for what in ["RESUME_QUEUES", "RESUME_QUEUES again"] {
        expect(bench, what, &[Plain], || equal("handled", scene.session.resume(&queue)?.result, 1))?;
    }
    Ok(())
}

fn snapshot(bench: &Bench<'_>) -> Verdict {
    let mut scene = scene(bench)?;
    expect(bench, "GET_QUEUE_SNAPSHOT", &[], || scene.session.see_queues())?;
    expect(bench, "QUERY_DEBUG_EVENT", &[], || {
        scene.session.query(ExceptionMask::EMPTY)?.fails("QUERY_DEBUG_EVENT", libc::EAGAIN).map(drop)
    })
}

fn exit(bench: &Bench<'_>) -> Verdict {
    let _company = company(bench)?;
    let mut client = bench.client()?;
    expect(bench, "the end of a process", &[Plain], || {
        client.actor.kill();
        Ok(())
    })
}

//! What happens to waves: needs a gpu that executes code.

use kfd_abi::exception::ExceptionMask;
use kfd_abi::sysfs::PROCESS_DIR;

use crate::bench::{Bench, Client, driver_file, eventually};
use crate::rule::driver_rules;
use crate::session::Session;
use crate::verdict::{Verdict, broken, equal, require, unchecked};
use crate::wire::{Answer, Request};

// tidy: table
driver_rules! { Hardware:
    "waves-identical" identical, "cwsr_trap_handler_gfx9.asm",
        "Kernels that are stopped and resumed many times leave the same bits as undisturbed ones.";
    "waves-saved" saved, "cwsr_trap_handler_gfx9.asm; kfd_mqd_manager_v9.c: get_wave_state",
        "Of a queue that is stopped in the middle of a kernel the header of the save area tells saved waves.";
    "waves-halted" halted, "kfd_device_queue_manager.c: suspend_queues",
        "While the queues of a process are stopped, none of its kernels completes and no compute unit holds its waves.";
    "waves-occupancy" occupancy, "amdgpu_amdkfd_gfx_v9.c: kgd_gfx_v9_get_cu_occupancy",
        "cu_occupancy of a process whose kernels run becomes more than 0.";
    "waves-bystander" bystander, "kfd_device_queue_manager.c: unmap_queues_cpsch",
        "Kernels of a process leave the same bits when cycles of another process interrupt them.";
}

/// Workgroups and steps of a kernel: some compute units, and long enough to be met.
const GROUPS: u32 = 8;
const STEPS: u32 = 3000;
/// How often a rule stops the work.
const STOPS: u32 = 12;

fn begin(bench: &Bench<'_>) -> Verdict<Client> {
    let mut actor = bench.process()?;
    actor.done(&Request::BeginWork { groups: GROUPS, steps: STEPS })?;
    Ok(Client { actor, kfd: -1, render: None, subject: bench.subject.clone() })
}

/// Returns how many kernels have completed; none if the work ended.
fn done(client: &mut Client) -> Verdict<Option<u64>> {
    match client.actor.ask(&Request::WorkDone)? {
        Answer::Number(kernels) => Ok(Some(kernels)),
        _ => Ok(None),
    }
}

/// Ends the work; what is wrong with its results, if anything is.
fn end(client: &mut Client) -> Verdict<Option<String>> {
    match client.actor.ask(&Request::EndWork)? {
        Answer::Done => Ok(None),
        Answer::Bytes(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
        other => broken(format_args!("the work ended as {other:?}")),
    }
}

/// Starts work, after it was shown that this gpu executes code.
pub(crate) fn working(bench: &Bench<'_>) -> Verdict<Client> {
    let mut trial = begin(bench)?;
    eventually("a kernel completes", || Ok(done(&mut trial)?.is_none_or(|kernels| kernels > 0)))?;
    if let Some(why) = end(&mut trial)? {
        return unchecked(format_args!("this gpu executes no code, or not this: {why}"));
    }
    drop(trial);
    let mut client = begin(bench)?;
    eventually("the first kernel completes", || match done(&mut client)? {
        Some(kernels) => Ok(kernels > 0),
        None => broken("the work ended by itself"),
    })?;
    Ok(client)
}

fn right(client: &mut Client) -> Verdict {
    match end(client)? {
        None => Ok(()),
        Some(why) => broken(why),
    }
}

pub(crate) fn queues(session: &mut Session) -> Verdict<Vec<u32>> {
    let entries = session.snapshot(ExceptionMask::QUEUE_NEW)?;
    Ok(entries.iter().map(|entry| entry.queue_id).collect())
}

fn go_on(session: &mut Session, queues: &[u32]) -> Verdict {
    equal("RESUME_QUEUES", session.resume(queues)?.result, queues.len() as i64)
}

fn pause(milliseconds: u32) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds.into()));
}

fn identical(bench: &Bench<'_>) -> Verdict {
    let mut client = working(bench)?;
    let mut session = bench.session(&client)?;
    let queues = queues(&mut session)?;
    for nth in 0..STOPS {
        session.stop(&queues)?;
        pause(nth % 3);
        go_on(&mut session, &queues)?;
        pause(1 + nth % 5);
    }
    // The end of the runtime waits for its debugger's word.
    session.answer_runtime()?.ok("SEND_RUNTIME_EVENT")?;
    right(&mut client)
}

fn saved(bench: &Bench<'_>) -> Verdict {
    let mut client = working(bench)?;
    let mut session = bench.session(&client)?;
    let entries = session.snapshot(ExceptionMask::QUEUE_NEW)?;
    let queues: Vec<u32> = entries.iter().map(|entry| entry.queue_id).collect();
    let mut waves = false;
    for _ in 0..10 * STOPS {
        session.stop(&queues)?;
        for entry in entries.iter().filter(|entry| entry.queue_type.is_compute()) {
            for xcc in 0..bench.subject.gpu.xccs {
                let part = u64::from(xcc) * u64::from(entry.ctx_save_restore_area_size);
                // control_stack_offset, control_stack_size, wave_state_offset, wave_state_size
                let [_, stack, _, state]: [u32; 4] = client.actor.get(entry.ctx_save_restore_address + part)?;
                equal(&format!("control stack and waves of XCC {xcc}"), stack > 0, state > 0)?;
                waves |= state > 0;
            }
        }
        go_on(&mut session, &queues)?;
        if waves {
            return Ok(());
        }
        pause(3);
    }
    broken("no stop met a wave")
}

fn compute_units(bench: &Bench<'_>, client: &Client) -> Verdict<u64> {
    let text = driver_file(&format!("{PROCESS_DIR}/{}/stats_{}/cu_occupancy", client.pid(), bench.subject.id()))?;
    text.trim_end().parse().map_or_else(|_| broken(format_args!("cu_occupancy is {text:?}")), Ok)
}

fn halted(bench: &Bench<'_>) -> Verdict {
    let mut client = working(bench)?;
    let mut session = bench.session(&client)?;
    let queues = queues(&mut session)?;
    session.stop(&queues)?;
    // One kernel may have completed before, without its process having been told.
    pause(100);
    let before = done(&mut client)?;
    pause(300);
    equal("completed kernels", done(&mut client)?, before)?;
    equal("compute units", compute_units(bench, &client)?, 0)?;
    go_on(&mut session, &queues)?;
    eventually("kernels complete again", || Ok(done(&mut client)? > before))
}

fn occupancy(bench: &Bench<'_>) -> Verdict {
    let client = working(bench)?;
    eventually("compute units hold its waves", || Ok(compute_units(bench, &client)? > 0))
}

fn bystander(bench: &Bench<'_>) -> Verdict {
    let mut client = working(bench)?;
    let mut other = bench.program()?;
    let queue = other.queue()?;
    for nth in 0..STOPS {
        other.update(&queue, |args| args.queue_priority = nth % 16)?.ok("UPDATE_QUEUE")?;
        pause(2);
    }
    require(done(&mut client)?.is_some(), "the work ended by itself")?;
    right(&mut client)
}

//! What the driver writes to the save area of a queue that never had a wave.

use kfd_abi::queue::GetQueueWaveStateArgs;

use crate::bench::{Bench, Client};
use crate::queue::Made;
use crate::rule::driver_rules;
use crate::verdict::{Verdict, equal, require};

// tidy: table
driver_rules! { Driver:
    "save-header-suspend" header_suspend, "kfd_device_queue_manager.c: copy_context_work_handler; get_wave_state_v9_4_3",
        "SUSPEND_QUEUES writes the first 16 bytes of each XCC's part of the save area and leaves the next 24.";
    "save-header-empty" header_empty, "kfd_mqd_manager_v9.c: get_wave_state, init_mqd",
        "The header of a queue that never ran says: no control stack, no waves, both at ctl_stack_size.";
    "save-header-elsewhere" header_elsewhere, "kfd_mqd_manager_v9.c: get_wave_state_v9_4_3",
        "GET_QUEUE_WAVE_STATE writes the headers to the memory given, and answers the sizes of the first XCC.";
}

/// Bytes of a header that the driver writes, and all of its bytes.
const WRITTEN: usize = 16;
const HEADER: usize = 40;

/// Creates a queue whose save area the process can read, with all headers filled with a pattern.
fn queue(client: &mut Client) -> Verdict<Made> {
    let area = client.shared_buffer(client.subject.save_area.total)?;
    let made = client.queue_with(|args| args.ctx_save_restore_address = area.at)?;
    fill(client, area.at)?;
    Ok(made)
}

fn fill(client: &mut Client, area: u64) -> Verdict {
    let (xccs, stride) = (client.subject.gpu.xccs, u64::from(client.subject.save_area.cwsr));
    (0..u64::from(xccs)).try_for_each(|xcc| client.actor.write(area + xcc * stride, vec![0xEE; HEADER]))
}

/// Reads the headers: the words that the driver writes, and the bytes behind them.
fn headers(client: &mut Client, area: u64) -> Verdict<Vec<([u32; 4], Vec<u8>)>> {
    let (xccs, stride) = (client.subject.gpu.xccs, u64::from(client.subject.save_area.cwsr));
    let mut all = Vec::new();
    for xcc in 0..u64::from(xccs) {
        let bytes = client.actor.read(area + xcc * stride, HEADER)?;
        let words: [u32; 4] = client.actor.get(area + xcc * stride)?;
        all.push((words, bytes[WRITTEN..].to_vec()));
    }
    Ok(all)
}

fn header_suspend(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let made = queue(&mut target)?;
    bench.debugger(&target)?.stop(&[made.id])?;
    for (xcc, (words, rest)) in headers(&mut target, made.args.ctx_save_restore_address)?.into_iter().enumerate() {
        require(!words.contains(&0xEEEE_EEEE), format_args!("XCC {xcc}: {words:x?} was not written"))?;
        require(rest.iter().all(|byte| *byte == 0xEE), format_args!("XCC {xcc}: {rest:x?} was written"))?;
    }
    Ok(())
}

fn header_empty(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let made = queue(&mut target)?;
    bench.debugger(&target)?.stop(&[made.id])?;
    let stack = bench.subject.save_area.ctl_stack;
    for (xcc, (words, _)) in headers(&mut target, made.args.ctx_save_restore_address)?.into_iter().enumerate() {
        // control_stack_offset, control_stack_size, wave_state_offset, wave_state_size
        equal(&format!("header of XCC {xcc}"), words, [stack, 0, stack, 0])?;
    }
    Ok(())
}

fn header_elsewhere(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let made = client.queue_with(|args| args.queue_percentage = 0)?;
    let area = client.shared_buffer(bench.subject.save_area.total)?.at;
    fill(&mut client, area)?;
    let args = GetQueueWaveStateArgs { ctl_stack_address: area, queue_id: made.id, ..Default::default() };
    let answer = client.call(args)?.ok("GET_QUEUE_WAVE_STATE")?;
    equal("sizes", (answer.ctl_stack_used_size, answer.save_area_used_size), (0, 0))?;
    let stack = bench.subject.save_area.ctl_stack;
    for (words, _) in headers(&mut client, area)? {
        equal("header", words, [stack, 0, stack, 0])?;
    }
    Ok(())
}

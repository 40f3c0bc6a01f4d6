//! Descriptors, slots and runlists as debugfs shows them. Only the superuser may read them.

use kfd::debugfs::{MqdKind, MqdProcess, parse_queues};
use kfd_abi::mqd;
use kfd_abi::queue::PipePriority;
use kfd_abi::sysfs::DEBUG_DIR;

use crate::bench::{Bench, Client, driver_file};
use crate::queue::RING;
use crate::rule::driver_rules;
use crate::verdict::{Verdict, broken, equal, require};

// tidy: table
driver_rules! { Driver:
    "mqds-header" header, "kfd_process.c: kfd_debugfs_mqds_by_process",
        "mqds has a line for each process that opened the driver: `Process PID PASID N:`.";
    "mqds-queue-line" queue_line, "kfd_process_queue_manager.c: pqm_debugfs_mqds",
        "mqds has a line for each queue, newest first: `  Compute queue on device GPU` or `  SDMA queue ...`, hexadecimal.";
    "mqds-dump" dump, "kfd_mqd_manager_v9.c: debugfs_show_mqd",
        "A descriptor is dumped in lines of 32 bytes with its offset, 2048 bytes for each XCC.";
    "mqds-addresses" addresses, "kfd_mqd_manager_v9.c: update_mqd",
        "A descriptor has the addresses of ring and indices with which the queue was created, and the size of the ring.";
    "mqds-priority" priority, "kfd_mqd_manager_v9.c: set_priority; kfd_mqd_manager.c: pipe_priority_map",
        "Priorities 0 to 6, 7 to 10 and 11 to 15 are the pipe classes 0, 1 and 2 of a descriptor.";
    "mqds-save-area" save_area, "kfd_mqd_manager_v9.c: init_mqd, init_mqd_v9_4_3",
        "The descriptor of each XCC has its part of the save area, one after the other.";
    "hqds-node" hqds_node, "kfd_topology.c: kfd_debugfs_hqds_by_device; kfd_device_queue_manager.c: dqm_debugfs_hqds",
        "hqds has a line for each gpu and one for the driver's own queue on each XCC.";
    "rls-active" rls_active, "kfd_packet_manager.c: pm_debugfs_runlist; kfd_kernel_queue.c",
        "The runlist has a MAP_QUEUES packet for each active queue and none for one that is off or stopped.";
    "rls-process" rls_process, "kfd_packet_manager.c: pm_create_runlist_ib",
        "The runlist has a MAP_PROCESS packet for a process with queues, also while all of them are stopped.";
}

fn mqds() -> Verdict<String> {
    driver_file(&format!("{DEBUG_DIR}/mqds"))
}

/// The part of mqds about a client.
fn part(client: &Client) -> Verdict<String> {
    let text = mqds()?;
    let head = format!("Process {} PASID ", client.pid());
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&head));
    let Some(first) = lines.next() else { return broken(format_args!("there is no line `{head}...`")) };
    let rest: Vec<&str> = lines.take_while(|line| line.starts_with(' ')).collect();
    Ok(format!("{first}\n{}\n", rest.join("\n")))
}

fn parsed(client: &Client) -> Verdict<MqdProcess> {
    match parse_queues(&part(client)?).into_iter().next() {
        Some(process) => Ok(process),
        None => broken("the part of the process cannot be read"),
    }
}

fn header(bench: &Bench<'_>) -> Verdict {
    let client = bench.client()?;
    let text = part(&client)?;
    let line = text.lines().next().unwrap_or_default();
    let pasid = line.rsplit(' ').next().and_then(|word| word.strip_suffix(':')).unwrap_or_default();
    let digits = pasid.strip_prefix("0x").unwrap_or(pasid);
    let good = !digits.is_empty() && u64::from_str_radix(digits, 16).is_ok();
    require(good, format_args!("the line is {line:?}"))
}

fn queue_line(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    client.copy_queue()?;
    client.queue()?;
    let gpu = bench.subject.id();
    let text = part(&client)?;
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("queue on device")).collect();
    let expected = [format!("  Compute queue on device {gpu:x}"), format!("  SDMA queue on device {gpu:x}")];
    equal("lines", lines, expected.iter().map(String::as_str).collect())
}

fn dump(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    client.queue()?;
    let text = part(&client)?;
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("    ")).collect();
    let per_xcc = mqd::SIZE / 32;
    equal("lines", rows.len(), per_xcc * bench.subject.gpu.xccs as usize)?;
    for (nth, row) in rows.iter().enumerate() {
        let offset = nth % per_xcc * 32;
        let head = format!("    {offset:08x}:");
        let words: Vec<&str> = row.strip_prefix(&head).unwrap_or_default().split(' ').skip(1).collect();
        let hexadecimal = |word: &&str| word.len() == 8 && u32::from_str_radix(word, 16).is_ok();
        require(words.len() == 8 && words.iter().all(hexadecimal), format_args!("line {nth} is {row:?}"))?;
    }
    Ok(())
}

fn addresses(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue = client.queue()?;
    let process = parsed(&client)?;
    let Some(shown) = process.queues.iter().find(|queue| queue.kind == MqdKind::Compute) else {
        return broken("there is no compute queue");
    };
    equal("ring", shown.ring(), Some(queue.args.ring_base_address))?;
    equal("bytes of the ring", shown.ring_bytes(), Some(RING.into()))?;
    equal("read index", shown.rptr_address(), Some(queue.args.read_pointer_address))?;
    equal("write index", shown.wptr_address(), Some(queue.args.write_pointer_address))
}

fn priority(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue = client.queue()?;
    for priority in [0, 6, 7, 10, 11, 15] {
        client.update(&queue, |args| args.queue_priority = priority)?.ok("UPDATE_QUEUE")?;
        let process = parsed(&client)?;
        let shown = process.queues.first().and_then(|queue| queue.descriptors.first());
        let class = shown.and_then(|descriptor| descriptor.word(mqd::PIPE_PRIORITY));
        equal(&format!("class of priority {priority}"), class, Some(PipePriority::of(priority).0))?;
    }
    Ok(())
}

fn save_area(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue = client.queue()?;
    let process = parsed(&client)?;
    let Some(shown) = process.queues.first() else { return broken("there is no queue") };
    let (base, size) = (queue.args.ctx_save_restore_address, queue.args.ctx_save_restore_size);
    for xcc in 0..bench.subject.gpu.xccs as usize {
        let expected = Some((base + xcc as u64 * u64::from(size), size));
        equal(&format!("part of XCC {xcc}"), shown.save_area(xcc), expected)?;
    }
    Ok(())
}

fn hqds_node(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    client.queue()?;
    let text = driver_file(&format!("{DEBUG_DIR}/hqds"))?;
    let gpu = &bench.subject.gpu;
    let line = format!("Node {}, gpu_id {:x}:", gpu.node, gpu.id.0);
    require(text.lines().any(|found| found == line), format_args!("there is no line {line:?}"))?;
    let own = text.lines().filter(|line| line.starts_with("   Inst ") && line.contains(", HIQ on MEC ")).count();
    require(own >= gpu.xccs as usize, format_args!("{own} lines of the driver's own queue for {} XCCs", gpu.xccs))
}

/// Counts packets of the gpu's runlist: processes and queues.
fn runlist(bench: &Bench<'_>) -> Verdict<(usize, usize)> {
    let text = driver_file(&format!("{DEBUG_DIR}/rls"))?;
    let head = format!("gpu_id {:x}:", bench.subject.id());
    let rows = text.lines().skip_while(|line| !line.ends_with(&head)).skip(1);
    let rows = rows.take_while(|line| line.starts_with(' ') && line.contains(": "));
    let words: Vec<u32> = rows
        .flat_map(|row| row.split_whitespace().skip(1))
        .filter_map(|word| u32::from_str_radix(word, 16).ok())
        .collect();
    let (mut processes, mut queues, mut at) = (0, 0, 0);
    while let Some(header) = words.get(at) {
        // A packet of type 3: opcode in bits 8 to 15, words behind the header less one in bits 16 to 29.
        if header >> 30 != 3 {
            break;
        }
        match header >> 8 & 0xFF {
            0xA1 => processes += 1,
            0xA2 => queues += 1,
            _ => {}
        }
        at += (header >> 16 & 0x3FFF) as usize + 2;
    }
    Ok((processes, queues))
}

fn rls_active(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let mut session = bench.session(&target)?;
    let (_, before) = runlist(bench)?;
    let queues = [target.queue()?, target.queue()?];
    session.see_queues()?;
    let more = |what: &str, expected: usize| equal(what, runlist(bench)?.1 - before, expected);
    more("queues after CREATE_QUEUE twice", 2)?;
    session.stop(&[queues[0].id])?;
    more("queues after SUSPEND_QUEUES", 1)?;
    target.update(&queues[1], |args| args.queue_percentage = 0)?.ok("UPDATE_QUEUE to 0 percent")?;
    equal("RESUME_QUEUES", session.resume(&[queues[0].id])?.result, 1)?;
    more("queues after one was turned off and one resumed", 1)
}

fn rls_process(bench: &Bench<'_>) -> Verdict {
    let mut other = bench.program()?;
    other.queue()?;
    let mut target = bench.program()?;
    let (before, _) = runlist(bench)?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    equal("processes with a queue more", runlist(bench)?.0 - before, 1)?;
    session.stop(&[queue])?;
    equal("processes after SUSPEND_QUEUES", runlist(bench)?.0 - before, 1)
}

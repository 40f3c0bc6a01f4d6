//! Files of processes and of the topology.

use kfd_abi::sysfs::{PROCESS_DIR, TOPOLOGY_DIR, node};
use kfd_abi::topology::Capability;

use crate::bench::{Bench, Client, driver_file, eventually};
use crate::queue::{RING, VIDEO};
use crate::rule::driver_rules;
use crate::verdict::{Verdict, broken, equal, require};

// tidy: table
driver_rules! { Driver:
    "sysfs-queue-text" queue_text, "kfd_process.c: kfd_procfs_queue_show",
        "size, type and gpuid of a queue are decimal numbers without an end of line.";
    "sysfs-queue-type" queue_type, "kfd_process.c: kfd_procfs_queue_show; kfd_priv.h: enum kfd_queue_type",
        "type counts as the kernel does: compute 0, whether AQL or PM4, copies 1.";
    "sysfs-queue-gone" queue_gone, "kfd_process_queue_manager.c: pqm_destroy_queue; kfd_procfs_del_queue",
        "A destroyed queue is no longer listed.";
    "sysfs-queue-new-size" queue_new_size, "kfd_process_queue_manager.c: pqm_update_queue_properties",
        "UPDATE_QUEUE to another ring changes the size that sysfs shows.";
    "sysfs-pasid" pasid, "kfd_process.c: kfd_procfs_show",
        "pasid of a process is a decimal number with an end of line.";
    "sysfs-vram" vram, "kfd_process.c: kfd_procfs_show",
        "vram_GPU counts the bytes of video memory that the process allocated, in whole pages.";
    "sysfs-sdma" sdma, "kfd_process.c: kfd_procfs_show",
        "sdma_GPU of a process without copy queues is 0.";
    "sysfs-evicted" evicted, "kfd_process.c: kfd_procfs_stats_show",
        "stats_GPU/evicted_ms does not count time in which a debugger stopped the queues.";
    "sysfs-occupancy" occupancy, "kfd_process.c: kfd_get_cu_occupancy",
        "stats_GPU/cu_occupancy of a process without work is 0.";
    "topology-gpu-id" gpu_id, "kfd_topology.c: node_show",
        "gpu_id of a node is a decimal number with an end of line, 0 for processors.";
    "topology-text" topology_text, "kfd_topology.c: node_show",
        "properties of a node has one line for each name and number, in the driver's order.";
    "topology-save-area" save_area, "kfd_queue.c: kfd_queue_ctx_save_restore_size",
        "cwsr_size and ctl_stack_size follow from the geometry as the driver computes them.";
    "topology-debug" debug, "kfd_topology.c: kfd_topology_set_capabilities, kfd_topology_set_dbg_firmware_support",
        "The gpu says that it and its firmware can be debugged.";
    "topology-generation" generation, "kfd_topology.c: sysprops_show",
        "generation_id is the same before and after processes came and went.";
}

/// Reads a file of a client's process.
fn of(client: &Client, name: &str) -> Verdict<String> {
    driver_file(&format!("{PROCESS_DIR}/{}/{name}", client.pid()))
}

/// Requires a decimal number with an end of line.
fn number_line(what: &str, text: &str) -> Verdict<u64> {
    let digits = text.strip_suffix('\n').filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|text| text.parse().ok()) {
        Some(number) => Ok(number),
        None => broken(format_args!("{what} is {text:?}")),
    }
}

fn queue_text(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let id = client.queue()?.id;
    let expected = [("size", RING.to_string()), ("type", "0".to_owned()), ("gpuid", bench.subject.id().to_string())];
    for (name, text) in expected {
        equal(name, of(&client, &format!("queues/{id}/{name}"))?, text)?;
    }
    Ok(())
}

fn queue_type(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let pm4 = client.queue_with(|args| args.queue_type = kfd_abi::queue::QueueType::COMPUTE)?.id;
    let copies = client.copy_queue()?.id;
    equal("PM4", of(&client, &format!("queues/{pm4}/type"))?.as_str(), "0")?;
    equal("copies", of(&client, &format!("queues/{copies}/type"))?.as_str(), "1")
}

fn queue_gone(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let id = client.queue()?.id;
    let path = format!("{PROCESS_DIR}/{}/queues/{id}", client.pid());
    require(std::path::Path::new(&path).exists(), format_args!("{path} is not there"))?;
    client.destroy(id)?.ok("DESTROY_QUEUE")?;
    eventually("the queue is gone", || Ok(!std::path::Path::new(&path).exists()))
}

fn queue_new_size(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    let queue = client.queue()?;
    let other = client.shared_buffer(u64::from(2 * RING))?;
    let larger = client.update(&queue, |args| (args.ring_base_address, args.ring_size) = (other.at, 2 * RING))?;
    larger.ok("UPDATE_QUEUE")?;
    equal("size", of(&client, &format!("queues/{}/size", queue.id))?, (2 * RING).to_string())
}

fn pasid(bench: &Bench<'_>) -> Verdict {
    let client = bench.client()?;
    number_line("pasid", &of(&client, "pasid")?).map(drop)
}

fn vram(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.bound()?;
    let name = format!("vram_{}", bench.subject.id());
    let before = number_line(&name, &of(&client, &name)?)?;
    client.buffer(3 * 4096, VIDEO)?;
    client.buffer(4096, crate::queue::SYSTEM)?;
    let after = number_line(&name, &of(&client, &name)?)?;
    equal("bytes more", after - before, 3 * 4096)
}

fn sdma(bench: &Bench<'_>) -> Verdict {
    let client = bench.bound()?;
    let name = format!("sdma_{}", bench.subject.id());
    equal("activity", number_line(&name, &of(&client, &name)?)?, 0)
}

fn evicted(bench: &Bench<'_>) -> Verdict {
    let mut target = bench.program()?;
    let queue = target.queue()?.id;
    let mut session = bench.debugger(&target)?;
    let name = format!("stats_{}/evicted_ms", bench.subject.id());
    let before = number_line(&name, &of(&target, &name)?)?;
    session.stop(&[queue])?;
    std::thread::sleep(crate::bench::WATCH);
    equal("RESUME_QUEUES", session.resume(&[queue])?.result, 1)?;
    // A save area in memory that the driver migrates may cost an eviction of a moment.
    let after = number_line(&name, &of(&target, &name)?)?;
    require(after - before < crate::bench::WATCH.as_millis() as u64, format_args!("{} ms more", after - before))
}

fn occupancy(bench: &Bench<'_>) -> Verdict {
    let mut client = bench.program()?;
    client.queue()?;
    let name = format!("stats_{}/cu_occupancy", bench.subject.id());
    equal("compute units", number_line(&name, &of(&client, &name)?)?, 0)
}

fn gpu_id(bench: &Bench<'_>) -> Verdict {
    let mut processors = 0;
    for index in 0..bench.subject.nodes {
        let text = driver_file(&format!("{TOPOLOGY_DIR}/nodes/{index}/gpu_id"))?;
        let id = number_line("gpu_id", &text)?;
        processors += u32::from(id == 0);
        if index == bench.subject.gpu.node {
            equal("gpu_id", id, bench.subject.id().into())?;
        }
    }
    equal("nodes of gpus", bench.subject.nodes - processors, bench.subject.gpus)
}

fn topology_text(bench: &Bench<'_>) -> Verdict {
    let text = driver_file(&format!("{TOPOLOGY_DIR}/nodes/{}/properties", bench.subject.gpu.node))?;
    let mut names = Vec::new();
    for line in text.lines() {
        match line.split_once(' ') {
            Some((name, value)) if value.parse::<u64>().is_ok() => names.push(name),
            _ => return broken(format_args!("a line is {line:?}")),
        }
    }
    let known: Vec<&str> = node::EVERY.iter().copied().filter(|name| names.contains(name)).collect();
    let seen: Vec<&str> = names.into_iter().filter(|name| node::EVERY.contains(name)).collect();
    equal("order", seen, known)
}

fn save_area(bench: &Bench<'_>) -> Verdict {
    let property = |name| bench.subject.properties.optional::<u32>(name).ok().flatten();
    let size = bench.subject.save_area;
    equal("ctl_stack_size", property(node::CTL_STACK_SIZE), Some(size.ctl_stack))?;
    equal("cwsr_size", property(node::CWSR_SIZE), Some(size.cwsr))
}

fn debug(bench: &Bench<'_>) -> Verdict {
    let capability = bench.subject.gpu.capability;
    for needed in [Capability::TRAP_DEBUG_SUPPORT, Capability::TRAP_DEBUG_FIRMWARE_SUPPORTED] {
        require(capability.has(needed), format_args!("capability {capability:?} lacks {needed:?}"))?;
    }
    Ok(())
}

fn generation(bench: &Bench<'_>) -> Verdict {
    let path = format!("{TOPOLOGY_DIR}/generation_id");
    let before = number_line("generation_id", &driver_file(&path)?)?;
    bench.program()?.queue()?;
    equal("generation_id", number_line("generation_id", &driver_file(&path)?)?, before)
}

//! Checks of the processes on the gpus: other debuggers, and more processes or queues than the hardware holds.

use std::collections::BTreeMap;

use gpreempt_proto::Status;
use kfd::process::{self, GpuProcess};
use kfd::topology::{self, Gpu};
use kfd_abi::sysfs::SysfsQueueType;

use super::Check;

/// Address spaces that the hardware holds for compute: of a whole gpu, and of a partition.
const SPACES: u64 = 13;
const SPACES_OF_PARTITION: u64 = 6;

/// Contexts that processes make beside their first, with CREATE_PROCESS of Linux 7.2.
const CONTEXTS: &str = "contexts";

pub(super) fn checks(gpus: &[Gpu], status: Option<&Status>) -> Vec<Check> {
    match process::list() {
        Ok(processes) => {
            let ours = status.map_or_else(Vec::new, |status| [Some(status.daemon_pid), status.actuator_pid].into());
            let traced: Vec<(u32, u32)> = processes
                .iter()
                .filter_map(|process| Some((process.pid.0, linux_host::process::tracer(process.pid.0)?)))
                .collect();
            vec![debuggers(&traced, &ours), contexts(&processes), over_subscription(gpus, &processes, space_limit())]
        }
        Err(_) => ["other debuggers", CONTEXTS, "over-subscription"]
            .map(|name| Check::unknown(name, "the driver shows no processes"))
            .into(),
    }
}

fn debuggers(traced: &[(u32, u32)], ours: &[Option<u32>]) -> Check {
    const NAME: &str = "other debuggers";
    let foreign: Vec<String> = traced
        .iter()
        .filter(|(_, tracer)| !ours.contains(&Some(*tracer)))
        .map(|(pid, tracer)| format!("{pid} is traced by {tracer}"))
        .collect();
    if foreign.is_empty() {
        return Check::ok(NAME, "none");
    }
    Check::warn(
        NAME,
        foreign.join(", "),
        "gpreempt does not manage these processes while gdb, strace or a profiler is attached",
    )
}

/// Reports processes of which a part is out of reach of debug sessions.
fn contexts(processes: &[GpuProcess]) -> Check {
    let with_contexts = processes.iter().filter(|process| !process.contexts.is_empty());
    let found: Vec<String> =
        with_contexts.map(|process| format!("{} has {} more", process.pid, process.contexts.len())).collect();
    if found.is_empty() {
        return Check::ok(CONTEXTS, "each process has one");
    }
    let remedy =
        "gpreempt does not stop these processes: the driver lets no other process stop the queues of such a context";
    Check::warn(CONTEXTS, found.join(", "), remedy)
}

/// Returns the limit of the module's parameter; `None` for a negative number, with which the driver chooses itself.
fn space_limit() -> Option<u64> {
    topology::module_parameter("hws_max_conc_proc")?.parse().ok()
}

fn over_subscription(gpus: &[Gpu], processes: &[GpuProcess], limit: Option<u64>) -> Check {
    const NAME: &str = "over-subscription";
    let mut users: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for process in processes {
        let mut seen = BTreeMap::new();
        for queue in process.queues.iter().filter(|queue| queue.kind == SysfsQueueType::COMPUTE) {
            *seen.entry(queue.gpu.0).or_insert(0) += 1;
        }
        for (gpu, queues) in seen {
            let entry = users.entry(gpu).or_default();
            *entry = (entry.0 + 1, entry.1 + queues);
        }
    }
    let mut crowded = Vec::new();
    for gpu in gpus {
        let (spaces, queues) = users.get(&gpu.id.0).copied().unwrap_or_default();
        let room = if gpu.address.contains('/') { SPACES_OF_PARTITION } else { SPACES };
        let room = limit.map_or(room, |limit| limit.min(room));
        let slots = u64::from(gpu.hardware_queues);
        if spaces > room {
            crowded.push(format!("{}: {spaces} processes, the hardware holds {room}", gpu.address));
        } else if slots > 0 && queues > slots {
            crowded.push(format!("{}: {queues} compute queues, the hardware holds {slots}", gpu.address));
        }
    }
    if crowded.is_empty() {
        return Check::ok(NAME, "none");
    }
    let remedy =
        "the hardware makes them take turns and all of them wait longer; run fewer processes or streams on that gpu";
    Check::warn(NAME, crowded.join(", "), remedy)
}

#[cfg(test)]
mod tests {
    use kfd::process::SysfsQueue;
    use kfd::{GpuId, Pid, QueueId};
    use kfd_abi::topology::{Capability, GfxVersion};

    use super::super::CheckResult;
    use super::*;

    fn gpu() -> Gpu {
        Gpu {
            id: GpuId(7),
            node: 1,
            address: "0000:c1:00.0".to_owned(),
            name: "MI300X".to_owned(),
            gfx: GfxVersion::GFX942,
            unique_id: 1,
            cus: 304,
            waves_per_cu: 32,
            xccs: 8,
            hardware_queues: 24,
            capability: Capability(0),
            firmware: 1,
            render_minor: 128,
        }
    }

    fn of(pid: u32, queues: Vec<SysfsQueue>) -> GpuProcess {
        GpuProcess { pid: Pid(pid), queues, usage: Vec::new(), contexts: Vec::new() }
    }

    fn crowd(processes: u32, queues: u32) -> Vec<GpuProcess> {
        let queue = |id| SysfsQueue { id: QueueId(id), gpu: GpuId(7), kind: SysfsQueueType::COMPUTE, ring_size: 4096 };
        let process = |pid| of(pid, (0..queues).map(queue).collect());
        (0..processes).map(process).collect()
    }

    #[test]
    fn more_processes_or_queues_than_the_hardware_holds_are_told() {
        let found = |processes, queues, limit| over_subscription(&[gpu()], &crowd(processes, queues), limit).found;
        assert_eq!(found(12, 2, None), "none");
        assert_eq!(found(14, 1, None), "0000:c1:00.0: 14 processes, the hardware holds 13");
        assert_eq!(found(3, 1, Some(2)), "0000:c1:00.0: 3 processes, the hardware holds 2");
        assert_eq!(found(5, 5, None), "0000:c1:00.0: 25 compute queues, the hardware holds 24");
    }

    #[test]
    fn contexts_that_cannot_be_stopped_are_told() {
        assert_eq!(contexts(&[of(7, Vec::new())]).result, CheckResult::Ok);
        let check = contexts(&[of(7, Vec::new()), GpuProcess { contexts: vec![0, 3], ..of(8, Vec::new()) }]);
        assert_eq!((check.result, check.found.as_str()), (CheckResult::Warn, "8 has 2 more"));
    }

    #[test]
    fn our_own_actuator_is_no_other_debugger() {
        assert_eq!(debuggers(&[(5, 100)], &[Some(99), Some(100)]).result, CheckResult::Ok);
        let check = debuggers(&[(5, 100)], &[Some(99), None]);
        assert_eq!((check.result, check.found.as_str()), (CheckResult::Warn, "5 is traced by 100"));
    }
}

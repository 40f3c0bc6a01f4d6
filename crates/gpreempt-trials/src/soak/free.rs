//! Whether everything runs again after the daemon died, and what is left over at the end.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use linux_host::process;
use vgpu::protocol::{QueueState, Status};

use super::daemon::ROLE;
use crate::environment::gpu_under_test::GpuUnderTest;

/// How long all processes may take to notice a death.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until no process is stopped or traced. Returns how long that took, or what still is.
pub(super) fn wait_until_free(place: &GpuUnderTest, tenants: &[u32], gone: &[u32]) -> Result<Result<Duration, String>> {
    let begun = Instant::now();
    loop {
        let mut bound: Vec<String> = place.status()?.as_ref().map(bound).unwrap_or_default();
        let traced = |pid: &u32| process::tracer(*pid).map(|tracer| format!("{pid} is traced by {tracer}"));
        bound.extend(tenants.iter().filter_map(traced));
        let alive = |pid: &&u32| process::is_alive(**pid);
        bound.extend(gone.iter().filter(alive).map(|pid| format!("{pid} of the daemon's processes lives")));
        if bound.is_empty() {
            return Ok(Ok(begun.elapsed()));
        }
        if begun.elapsed() > PATIENCE {
            return Ok(Err(bound.join(", ")));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Lists debug sessions and suspended queues.
fn bound(status: &Status) -> Vec<String> {
    let mut bound = Vec::new();
    for process in &status.processes {
        let pid = process.pid;
        if let Some(debugger) = process.debugger {
            bound.push(format!("{debugger} debugs {pid}"));
        }
        let stopped = process.queues.iter().filter(|queue| queue.state == QueueState::Suspended);
        bound.extend(stopped.map(|queue| format!("queue {} of {pid} is stopped", queue.id)));
    }
    bound
}

/// Lists what is left over after all processes ended.
pub(super) fn left_over(place: &GpuUnderTest, token: &str) -> Result<Vec<String>> {
    let begun = Instant::now();
    loop {
        let mut left = process::with_variable(ROLE, token).map(process::describe).collect::<Vec<String>>();
        if let Some(status) = place.status()? {
            left.extend(status.processes.iter().map(|process| format!("process {} in the driver", process.pid)));
            let queues: u32 = status.gpus.iter().map(|gpu| gpu.queues).sum();
            left.extend((queues > 0).then(|| format!("{queues} queues")));
        }
        if left.is_empty() || begun.elapsed() > PATIENCE {
            return Ok(left);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use vgpu::protocol::{ProcessStatus, QueueKindStatus, QueueSnapshot};

    use super::*;

    #[test]
    fn debuggers_and_stopped_queues_are_named() {
        let queue = |id, state| QueueSnapshot { id, gpu: 0, kind: QueueKindStatus::Aql, state, priority: 7 };
        let mut process = ProcessStatus { pid: 4, ..ProcessStatus::default() };
        process.queues = vec![queue(1, QueueState::Mapped), queue(2, QueueState::Suspended)];
        let mut status = Status { processes: vec![process], ..Status::default() };
        assert_eq!(bound(&status), ["queue 2 of 4 is stopped"]);
        status.processes[0].debugger = Some(9);
        status.processes[0].queues.pop();
        assert_eq!(bound(&status), ["9 debugs 4"]);
    }
}

//! What is left of processes that are gone.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use linux_host::process;
use vgpu::launch::Started;
use vgpu::protocol::{ProcessStatus, SOCKET_VARIABLE, Status};

/// How long the virtual gpu may take to notice the last death. A thread of the supervisor may be inside a cycle, which
/// ends after 9 s at the latest, or wait for an answer for 10 s, and a loaded machine adds to that: less would report
/// lateness as a leak.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lists what a gpu without processes still holds.
fn held(status: &Status) -> Vec<String> {
    let mut left = Vec::new();
    let mut note = |count: u64, what: &str| {
        if count > 0 {
            left.push(format!("{count} {what}"));
        }
    };
    note(status.system_used_bytes, "bytes of system memory");
    note(status.tokens.held.into(), "execution tokens");
    note(status.process_slots.into(), "process slots");
    for gpu in &status.gpus {
        note(gpu.queues.into(), "queues");
        note(gpu.waves.into(), "wave slots");
        note(gpu.vram_used_bytes, "bytes of video memory");
    }
    left.extend(status.processes.iter().map(in_driver));
    left
}

/// Describes a process that the driver still knows: what it has, what the supervisor does for it, and what the kernel
/// says it does.
fn in_driver(known: &ProcessStatus) -> String {
    let mut text = format!("a process in the driver with {} queues", known.queues.len());
    if known.debugger.is_some() {
        text += ", debugged";
    }
    if known.exited {
        text += ", exited";
    }
    for call in &known.calls {
        text += &format!(", {} {} for {} ms", call.name, call.stage.name(), call.ms);
    }
    format!("{text}: {}", process::describe(known.pid))
}

/// Lists processes whose environment names this gpu: executors have their client's.
fn processes(socket: &str) -> Vec<String> {
    process::with_variable(SOCKET_VARIABLE, socket).map(process::describe).collect()
}

/// Describes each thread of the supervisor. A thread of its own watches every process and removes the process's entry
/// when it exits; where that thread waits shows what keeps the entry.
fn supervisor_threads(supervisor: u32) -> String {
    format!("the supervisor, {}", process::describe(supervisor))
}

/// What a crowd left behind.
pub(super) struct Left {
    /// Resets of all gpus. None is right: a stress kills processes, not gpus.
    pub(super) resets: u64,
    /// Everything that is still held, in words.
    pub(super) held: Vec<String>,
}

/// Lists what is left after all members of a crowd have ended: on the gpu, among the processes, and of the supervisor
/// once the gpu is given up.
pub(super) fn find(gpu: Started) -> Result<Left> {
    let socket = gpu.environment.variables.iter().find(|(name, _)| *name == SOCKET_VARIABLE);
    let socket = socket.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default();
    let supervisor = gpu.status()?.supervisor;
    let mut left = wait(PATIENCE, || {
        let mut left = held(&gpu.status()?);
        left.extend(processes(&socket));
        if !left.is_empty() {
            left.push(supervisor_threads(supervisor));
        }
        Ok(left)
    })?;
    let resets = gpu.status()?.gpus.iter().map(|gpu| gpu.resets).sum();
    drop(gpu);
    let still_runs = || {
        let left = process::is_alive(supervisor).then(|| supervisor_threads(supervisor));
        Ok(left.into_iter().collect())
    };
    left.extend(wait(PATIENCE, still_runs)?);
    Ok(Left { resets, held: left })
}

/// Looks until nothing is found. Otherwise returns what the first look found that began after `patience`: one that
/// began earlier may have been answered late with an old state.
fn wait(patience: Duration, mut look: impl FnMut() -> Result<Vec<String>>) -> Result<Vec<String>> {
    let begun = Instant::now();
    loop {
        let is_last = begun.elapsed() >= patience;
        let left = look()?;
        if left.is_empty() || is_last {
            return Ok(left);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use vgpu::protocol::{CallStage, CallStatus, GpuStatus, TokenStatus};

    use super::*;

    #[test]
    fn a_look_that_began_in_time_does_not_decide_however_late_its_answer_is() {
        let mut looks = 0;
        let left = wait(Duration::from_millis(20), || {
            looks += 1;
            thread::sleep(Duration::from_millis(30));
            Ok(if looks == 1 { vec!["old".to_owned()] } else { Vec::new() })
        });
        assert_eq!((left.unwrap(), looks), (Vec::new(), 2));
        let left = wait(Duration::from_millis(5), || Ok(vec!["leak".to_owned()]));
        assert_eq!(left.unwrap(), ["leak"]);
    }

    #[test]
    fn everything_that_is_held_is_named() {
        assert!(held(&Status::default()).is_empty());
        let gpu = GpuStatus { queues: 1, waves: 2, vram_used_bytes: 4096, vram_bytes: 1 << 30, ..GpuStatus::default() };
        let call = CallStatus { name: "CREATE_QUEUE".to_owned(), stage: CallStage::Executing, ms: 12 };
        let status = Status {
            processes: vec![ProcessStatus { exited: true, calls: vec![call], ..ProcessStatus::default() }],
            tokens: TokenStatus { total: 4, held: 3 },
            process_slots: 5,
            system_used_bytes: 8192,
            gpus: vec![gpu],
            ..Status::default()
        };
        let left = held(&status).join(", ");
        for words in [
            "in the driver with 0 queues, exited, CREATE_QUEUE executing for 12 ms: process 0",
            "8192 bytes of system",
            "3 execution",
            "5 process slots",
            "1 queues",
            "2 wave",
            "4096 bytes",
        ] {
            assert!(left.contains(words), "{words}: {left}");
        }
    }
}

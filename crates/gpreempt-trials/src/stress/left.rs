//! Whether anything is left of processes that are gone.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use vgpu::launch::Started;
use vgpu::protocol::{SOCKET_VARIABLE, Status};

/// How long the virtual gpu may take to notice the last death.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a gpu without processes still holds, in words.
fn held(status: &Status) -> Vec<String> {
    let mut left = Vec::new();
    let mut note = |count: u64, what: &str| {
        if count > 0 {
            left.push(format!("{count} {what}"));
        }
    };
    note(status.processes.len() as u64, "processes in the driver");
    note(status.system_used_bytes, "bytes of system memory");
    note(status.tokens.held.into(), "execution tokens");
    note(status.seats.into(), "seats");
    for gpu in &status.gpus {
        note(gpu.queues.into(), "queues");
        note(gpu.waves.into(), "wave slots");
        note(gpu.vram_used_bytes, "bytes of video memory");
    }
    left
}

/// Processes whose environment names this gpu: engines have their client's, and live on if nobody ends them.
fn processes(socket: &str) -> Vec<String> {
    let variable = format!("{SOCKET_VARIABLE}={socket}");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let runs_here = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == variable.as_bytes())
    };
    let describe = |pid: u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("process {pid} ({})", name.trim())
    };
    pids.filter(runs_here).map(describe).collect()
}

/// What is left after all members of a crowd have ended: on the gpu, among the processes, and of the supervisor once
/// nobody needs it.
pub(super) fn find(gpu: Started) -> Result<Vec<String>> {
    let socket = gpu.environment.variables.iter().find(|(name, _)| *name == SOCKET_VARIABLE);
    let socket = socket.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default();
    let mut left = wait(|| {
        let mut left = held(&gpu.status()?);
        left.extend(processes(&socket));
        Ok(left)
    })?;
    let supervisor = gpu.status()?.supervisor;
    drop(gpu);
    let still_runs = || {
        let state = fs::read_to_string(format!("/proc/{supervisor}/stat")).unwrap_or_default();
        let ended = state.is_empty() || state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'));
        Ok(if ended { Vec::new() } else { vec![format!("the supervisor, process {supervisor}")] })
    };
    left.extend(wait(still_runs)?);
    Ok(left)
}

/// What is there when time is up; nothing as soon as there is nothing.
fn wait(mut look: impl FnMut() -> Result<Vec<String>>) -> Result<Vec<String>> {
    let begun = Instant::now();
    loop {
        let left = look()?;
        if left.is_empty() || begun.elapsed() > PATIENCE {
            return Ok(left);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use vgpu::protocol::{GpuStatus, ProcessStatus, TokenStatus};

    use super::*;

    #[test]
    fn everything_that_is_held_is_named() {
        assert!(held(&Status::default()).is_empty());
        let gpu = GpuStatus { queues: 1, waves: 2, vram_used_bytes: 4096, vram_bytes: 1 << 30, ..GpuStatus::default() };
        let status = Status {
            processes: vec![ProcessStatus::default()],
            tokens: TokenStatus { total: 4, held: 3 },
            seats: 5,
            system_used_bytes: 8192,
            gpus: vec![gpu],
            ..Status::default()
        };
        let left = held(&status).join(", ");
        for words in
            ["1 processes", "8192 bytes of system", "3 execution", "5 seats", "1 queues", "2 wave", "4096 bytes"]
        {
            assert!(left.contains(words), "{words}: {left}");
        }
    }
}

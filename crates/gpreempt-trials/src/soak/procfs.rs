//! What `/proc` tells of processes.

use std::fs;

/// What `/proc/PID/stat` says after the name: state, parent and so on.
fn fields(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_ascii_whitespace().map(str::to_owned).collect())
}

/// The parent of a process.
pub(super) fn parent(pid: u32) -> Option<u32> {
    fields(pid)?.get(1)?.parse().ok()
}

/// Whether a process runs, or could.
pub(super) fn lives(pid: u32) -> bool {
    fields(pid).and_then(|fields| fields.into_iter().next()).is_some_and(|state| state != "Z" && state != "X")
}

/// Who traces a process.
pub(super) fn tracer(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    tracer.trim().parse().ok().filter(|&tracer| tracer != 0)
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Children of a process that have ended and that it has not taken notice of.
pub(super) fn zombies_of(pid: u32) -> Vec<u32> {
    let is_zombie = |child: &u32| {
        fields(*child).is_some_and(|fields| {
            fields.first().is_some_and(|state| state == "Z") && fields.get(1) == Some(&pid.to_string())
        })
    };
    all().filter(is_zombie).collect()
}

/// Processes with this in their environment, in words.
pub(super) fn with_variable(name: &str, prefix: &str) -> Vec<String> {
    let entry = format!("{name}={prefix}");
    let has = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|found| found.starts_with(entry.as_bytes()))
    };
    let describe = |pid: u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("process {pid} ({})", name.trim())
    };
    all().filter(has).map(describe).collect()
}

/// What the kernel says a process does: state, and system call of each thread.
pub(super) fn where_is(pid: u32) -> String {
    let state = fields(pid).and_then(|fields| fields.into_iter().next()).unwrap_or_default();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let call = |task: fs::DirEntry| {
        let call = fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
        call.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
    };
    format!("state {state}, traced by {:?}, calls [{}]", tracer(pid), tasks.map(call).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_seen_alive_then_as_a_zombie_then_not_at_all() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let (own, pid) = (std::process::id(), child.id());
        assert!(lives(pid) && parent(pid) == Some(own) && tracer(pid).is_none());
        drop(child.stdin.take());
        while lives(pid) {
            std::thread::yield_now();
        }
        assert!(zombies_of(own).contains(&pid));
        child.wait().unwrap();
        assert!(!lives(pid) && !zombies_of(own).contains(&pid));
    }
}

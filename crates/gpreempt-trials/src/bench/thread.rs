//! What a thread of another process used, from `/proc`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Used since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    /// Processor time.
    pub(super) cpu_ns: u64,
    /// How often it went to sleep.
    pub(super) sleeps: u64,
    /// Calls that read something.
    pub(super) reads: u64,
}

impl Usage {
    /// Used since `earlier`.
    pub(super) fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            sleeps: self.sleeps.saturating_sub(earlier.sleeps),
            reads: self.reads.saturating_sub(earlier.reads),
        }
    }
}

/// A thread of a process.
pub(super) struct Thread(PathBuf);

impl Thread {
    /// The thread of this name.
    pub(super) fn find(pid: u32, name: &str) -> Result<Thread> {
        let tasks = Path::new("/proc").join(pid.to_string()).join("task");
        let listed = fs::read_dir(&tasks).with_context(|| format!("cannot list {}", tasks.display()))?;
        let found = listed
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|task| fs::read_to_string(task.join("comm")).is_ok_and(|found| found.trim_end() == name));
        Ok(Thread(found.with_context(|| format!("process {pid} has no thread {name}"))?))
    }

    /// What it used so far.
    pub(super) fn usage(&self) -> Result<Usage> {
        let file = |name: &str| {
            let path = self.0.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let (schedstat, status, io) = (file("schedstat")?, file("status")?, file("io")?);
        let cpu_ns = schedstat.split_whitespace().next().and_then(|text| text.parse().ok());
        Ok(Usage {
            cpu_ns: cpu_ns.context("this kernel does not count the processor time of threads")?,
            sleeps: field(&status, "voluntary_ctxt_switches:")?,
            reads: field(&io, "syscr:")?,
        })
    }
}

fn field(text: &str, name: &str) -> Result<u64> {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    found.with_context(|| format!("this kernel does not tell {name}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn sleeps_and_reads_of_a_thread_are_counted() {
        let (to_thread, orders) = mpsc::channel::<()>();
        let (done, answers) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("counted".into()).spawn(move || {
            while orders.recv().is_ok() {
                let file = fs::File::open("/proc/self/mem").unwrap();
                for _ in 0..100 {
                    // Nothing is mapped there: a call that reads all the same.
                    let _ = file.read_at(&mut [0], 0);
                    std::thread::sleep(Duration::from_micros(10));
                }
                done.send(()).unwrap();
            }
        });
        to_thread.send(()).unwrap();
        answers.recv().unwrap();
        let counted = Thread::find(std::process::id(), "counted").unwrap();
        let before = counted.usage().unwrap();
        to_thread.send(()).unwrap();
        answers.recv().unwrap();
        let used = counted.usage().unwrap().since(before);
        drop(to_thread);
        thread.unwrap().join().unwrap();
        assert!((100..110).contains(&used.sleeps) && used.reads >= 100 && used.cpu_ns > 0, "{used:?}");
    }
}

//! Processes that use the driver and their queues, from `/sys/class/kfd/kfd/proc`.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use kfd_abi::sysfs::{PROCESS_DIR, SysfsQueueType, process};

use crate::error::{Error, Result};
use crate::id::{GpuId, Pid, QueueId};

/// A process that has the driver open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// The process in the initial pid namespace; tools inside a container show another number.
    pub pid: Pid,
    /// Its queues by number.
    pub queues: Vec<SysfsQueue>,
    /// Memory and evictions on each gpu, ordered by gpu id.
    pub usage: Vec<Usage>,
    /// Contexts that it made beside its first, by number: Linux 7.2. Their queues are not among [`GpuProcess::queues`],
    /// and no debug session reaches them.
    pub contexts: Vec<u32>,
}

/// A queue as sysfs shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysfsQueue {
    /// Its number.
    pub id: QueueId,
    /// Its gpu.
    pub gpu: GpuId,
    /// Kind; sysfs does not distinguish AQL from PM4.
    pub kind: SysfsQueueType,
    /// Bytes of the ring.
    pub ring_size: u64,
}

/// A queue in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedQueue {
    /// The queue. The driver reuses the lowest free id, so a new queue often has that of one just destroyed.
    pub id: QueueId,
    /// Inode of its directory, which differs between two queues of the same id.
    pub inode: u64,
}

/// Usage of one gpu by a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The gpu.
    pub gpu: GpuId,
    /// Bytes of video memory.
    pub vram: u64,
    /// Milliseconds in which the driver had evicted its queues for memory; suspensions by a debugger do not count.
    pub evicted_ms: Option<u64>,
}

/// Lists all processes that have the driver open, ordered by pid. Those that end meanwhile are left out.
///
/// # Errors
///
/// If the driver is not loaded, or its files hold something unknown.
pub fn list() -> Result<Vec<GpuProcess>> {
    Processes::default().list()
}

/// Reads one process; `None` if it does not have the driver open.
///
/// # Errors
///
/// As [`list`].
pub fn find(pid: Pid) -> Result<Option<GpuProcess>> {
    Processes::default().find(pid)
}

/// The driver's directory of processes. Each function reads only the files it needs: schedulers poll some of them.
///
/// Functions return `None` for a process, queue or gpu that does not exist (any more).
#[derive(Clone, Debug)]
pub struct Processes {
    directory: PathBuf,
}

impl Default for Processes {
    fn default() -> Processes {
        Processes::at(PROCESS_DIR)
    }
}

impl Processes {
    /// Uses another directory than the driver's.
    pub fn at(directory: impl Into<PathBuf>) -> Processes {
        Processes { directory: directory.into() }
    }

    /// As [`list`].
    ///
    /// # Errors
    ///
    /// As [`list`].
    pub fn list(&self) -> Result<Vec<GpuProcess>> {
        self.pids()?.into_iter().filter_map(|pid| self.find(pid).transpose()).collect()
    }

    /// As [`find`].
    ///
    /// # Errors
    ///
    /// As [`list`].
    pub fn find(&self, pid: Pid) -> Result<Option<GpuProcess>> {
        let Some(listing) = self.queue_ids(pid)? else { return Ok(None) };
        let mut queues = Vec::new();
        for listed in listing {
            queues.extend(self.queue(pid, listed.id)?);
        }
        let Some(usage) = self.usage(pid)? else { return Ok(None) };
        let Some(contexts) = self.contexts(pid)? else { return Ok(None) };
        Ok(Some(GpuProcess { pid, queues, usage, contexts }))
    }

    /// Lists the processes, ordered by pid, without reading their files.
    ///
    /// # Errors
    ///
    /// If the driver is not loaded.
    pub fn pids(&self) -> Result<Vec<Pid>> {
        let names = names(&self.directory).map_err(|error| Error::Sysfs { path: self.directory.clone(), error })?;
        let mut pids: Vec<Pid> = names.iter().filter_map(|name| name.parse().ok()).map(Pid).collect();
        pids.sort_unstable();
        Ok(pids)
    }

    /// Returns whether a process has the driver open, without reading its files.
    #[must_use]
    pub fn is_open_by(&self, pid: Pid) -> bool {
        self.process(pid).is_dir()
    }

    /// Lists the contexts of a process beside its first, by number.
    ///
    /// # Errors
    ///
    /// If the files of the driver cannot be read.
    pub fn contexts(&self, pid: Pid) -> Result<Option<Vec<u32>>> {
        let directory = self.process(pid);
        let Some(names) = existing(&directory, names(&directory))? else { return Ok(None) };
        let numbers = names.iter().filter_map(|name| name.strip_prefix(process::CONTEXT)?.parse().ok());
        let mut contexts: Vec<u32> = numbers.collect();
        contexts.sort_unstable();
        Ok(Some(contexts))
    }

    /// Reads the queues of a context of a process, ordered by id; those that go meanwhile are left out.
    ///
    /// # Errors
    ///
    /// As [`list`].
    pub fn context_queues(&self, pid: Pid, context: u32) -> Result<Vec<SysfsQueue>> {
        let directory = self.process(pid).join(format!("{}{context}", process::CONTEXT));
        let mut queues = Vec::new();
        for listed in queue_ids_in(&directory)?.unwrap_or_default() {
            queues.extend(queue_in(&directory, listed.id)?);
        }
        Ok(queues)
    }

    /// Lists the queues of a process, ordered by id, without reading their files.
    ///
    /// # Errors
    ///
    /// If the files of the driver cannot be read.
    pub fn queue_ids(&self, pid: Pid) -> Result<Option<Vec<ListedQueue>>> {
        queue_ids_in(&self.process(pid))
    }

    /// Reads one queue.
    ///
    /// # Errors
    ///
    /// If its files hold something unknown.
    pub fn queue(&self, pid: Pid, id: QueueId) -> Result<Option<SysfsQueue>> {
        queue_in(&self.process(pid), id)
    }

    /// Reads the usage of each gpu by a process, ordered by gpu id.
    ///
    /// # Errors
    ///
    /// If its files hold something unknown.
    pub fn usage(&self, pid: Pid) -> Result<Option<Vec<Usage>>> {
        let directory = self.process(pid);
        let Some(names) = existing(&directory, names(&directory))? else { return Ok(None) };
        let mut usage = Vec::new();
        for gpu in names.iter().filter_map(|name| name.strip_prefix(process::VRAM)?.parse().ok()).map(GpuId) {
            let Some(vram) = self.vram(pid, gpu)? else { continue };
            usage.push(Usage { gpu, vram, evicted_ms: self.evicted_ms(pid, gpu)? });
        }
        usage.sort_unstable_by_key(|usage| usage.gpu);
        Ok(Some(usage))
    }

    /// Reads the bytes of video memory that a process has on a gpu.
    ///
    /// # Errors
    ///
    /// If the file holds something unknown.
    pub fn vram(&self, pid: Pid, gpu: GpuId) -> Result<Option<u64>> {
        number(self.process(pid).join(format!("{}{gpu}", process::VRAM)))
    }

    /// Reads the milliseconds in which the driver had evicted the queues for memory. An eviction counts when it is
    /// over.
    ///
    /// # Errors
    ///
    /// If the file holds something unknown.
    pub fn evicted_ms(&self, pid: Pid, gpu: GpuId) -> Result<Option<u64>> {
        number(self.statistics(pid, gpu).join(process::EVICTED_MS))
    }

    /// Reads how many compute units of a gpu hold waves of a process. The driver reads registers of the gpu for this.
    ///
    /// # References
    ///
    /// `kfd_get_cu_occupancy` in `kfd_process.c`.
    ///
    /// # Errors
    ///
    /// If the file holds something unknown.
    pub fn cu_occupancy(&self, pid: Pid, gpu: GpuId) -> Result<Option<u64>> {
        number(self.statistics(pid, gpu).join(process::CU_OCCUPANCY))
    }

    fn process(&self, pid: Pid) -> PathBuf {
        self.directory.join(pid.to_string())
    }

    fn statistics(&self, pid: Pid, gpu: GpuId) -> PathBuf {
        self.process(pid).join(format!("{}{gpu}", process::STATS))
    }
}

/// Lists the queues in the directory of a process or of a context, ordered by id.
fn queue_ids_in(owner: &Path) -> Result<Option<Vec<ListedQueue>>> {
    let directory = owner.join(process::QUEUES);
    let listed = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        Ok(id.map(|id| ListedQueue { id: QueueId(id), inode: entry.ino() }))
    };
    let listing = fs::read_dir(&directory).and_then(|entries| entries.filter_map(|e| listed(e).transpose()).collect());
    let Some(mut listing): Option<Vec<ListedQueue>> = existing(&directory, listing)? else { return Ok(None) };
    listing.sort_unstable();
    Ok(Some(listing))
}

/// Reads one queue in the directory of a process or of a context.
fn queue_in(owner: &Path, id: QueueId) -> Result<Option<SysfsQueue>> {
    let directory = owner.join(process::QUEUES).join(id.to_string());
    let number = |name| number(directory.join(name));
    let all = (number(process::QUEUE_GPUID)?, number(process::QUEUE_TYPE)?, number(process::QUEUE_SIZE)?);
    let (Some(gpu), Some(kind), Some(ring_size)) = all else { return Ok(None) };
    let narrow = |value: u64| value.try_into().unwrap_or(u32::MAX);
    Ok(Some(SysfsQueue { id, gpu: GpuId(narrow(gpu)), kind: SysfsQueueType(narrow(kind)), ring_size }))
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// The number in a file; `None` if the file is gone, because its queue or process is.
fn number(path: PathBuf) -> Result<Option<u64>> {
    let mut bytes = [0; 64];
    let read = fs::File::open(&path).and_then(|mut file| file.read(&mut bytes));
    let Some(count) = existing(&path, read)? else { return Ok(None) };
    let text = String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).into_owned();
    match text.trim_end().parse() {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(Error::Number { path, text }),
    }
}

/// Files of sysfs vanish with what they describe: before they are opened, or with ENODEV when read after.
fn existing<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENOTDIR)) => Ok(None),
        Err(error) => Err(Error::Sysfs { path: path.to_owned(), error }),
    }
}

#[cfg(test)]
mod tests;

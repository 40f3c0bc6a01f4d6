//! Who uses the driver: the processes and queues of `/sys/class/kfd/kfd/proc`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kfd_abi::sysfs::{PROCESS_DIR, SysfsQueueType, process};

use crate::error::{Error, Result};
use crate::id::{GpuId, Pid, QueueId};

/// A process that has the driver open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its leader, in the initial namespace: in a container, not the number that its own tools show.
    pub pid: Pid,
    /// Its queues by number.
    pub queues: Vec<Queue>,
    /// What it uses of each gpu, by id.
    pub usage: Vec<Usage>,
}

/// A queue as sysfs shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its number.
    pub id: QueueId,
    /// Its gpu.
    pub gpu: GpuId,
    /// Kind; AQL is not told from PM4 here.
    pub kind: SysfsQueueType,
    /// Bytes of the ring.
    pub ring_size: u64,
}

/// What a process uses of a gpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The gpu.
    pub gpu: GpuId,
    /// Bytes of video memory.
    pub vram: u64,
    /// Milliseconds in which its queues were off the gpu because of memory; those of a debugger do not count.
    pub evicted_ms: Option<u64>,
}

/// All processes that have the driver open, by number. Those that end meanwhile are left out.
///
/// # Errors
///
/// If the driver is not loaded, or its files hold something unknown.
pub fn list() -> Result<Vec<GpuProcess>> {
    list_in(Path::new(PROCESS_DIR))
}

/// One process; `None` if it does not have the driver open.
///
/// # Errors
///
/// As [`list`].
pub fn find(pid: Pid) -> Result<Option<GpuProcess>> {
    read(&Path::new(PROCESS_DIR).join(pid.to_string()), pid)
}

fn list_in(directory: &Path) -> Result<Vec<GpuProcess>> {
    let names = names(directory).map_err(|error| Error::Sysfs { path: directory.to_owned(), error })?;
    let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    let read = |pid: &u32| read(&directory.join(pid.to_string()), Pid(*pid)).transpose();
    pids.iter().filter_map(read).collect()
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn read(directory: &Path, pid: Pid) -> Result<Option<GpuProcess>> {
    let Some(entries) = existing(directory, names(directory))? else { return Ok(None) };
    let mut found = GpuProcess { pid, queues: Vec::new(), usage: Vec::new() };
    let queues = directory.join(process::QUEUES);
    for name in existing(&queues, names(&queues))?.unwrap_or_default() {
        if let Ok(id) = name.parse() {
            found.queues.extend(queue(&queues.join(name), QueueId(id))?);
        }
    }
    for gpu in entries.iter().filter_map(|name| name.strip_prefix(process::VRAM)?.parse().ok()) {
        let Some(vram) = number(directory.join(format!("{}{gpu}", process::VRAM)))? else { continue };
        let statistics = directory.join(format!("{}{gpu}", process::STATS));
        let evicted_ms = number(statistics.join(process::EVICTED_MS))?;
        found.usage.push(Usage { gpu: GpuId(gpu), vram, evicted_ms });
    }
    found.queues.sort_unstable_by_key(|queue| queue.id);
    found.usage.sort_unstable_by_key(|usage| usage.gpu);
    Ok(Some(found))
}

fn queue(directory: &Path, id: QueueId) -> Result<Option<Queue>> {
    let number = |name| number(directory.join(name));
    let all = (number(process::QUEUE_GPUID)?, number(process::QUEUE_TYPE)?, number(process::QUEUE_SIZE)?);
    let (Some(gpu), Some(kind), Some(ring_size)) = all else { return Ok(None) };
    let narrow = |value: u64| value.try_into().unwrap_or(u32::MAX);
    Ok(Some(Queue { id, gpu: GpuId(narrow(gpu)), kind: SysfsQueueType(narrow(kind)), ring_size }))
}

/// The number in a file; `None` if the file is gone, because its queue or process is.
fn number(path: PathBuf) -> Result<Option<u64>> {
    let Some(text) = existing(&path, fs::read_to_string(&path))? else { return Ok(None) };
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
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn process_with_queue(root: &Path, pid: &str) {
        let process = root.join(pid);
        write(&process.join("pasid"), "32769\n");
        write(&process.join("vram_51234"), "4096\n");
        write(&process.join("sdma_51234"), "0\n");
        write(&process.join("stats_51234/evicted_ms"), "12\n");
        write(&process.join("queues/0/size"), "4096");
        write(&process.join("queues/0/type"), "0");
        write(&process.join("queues/0/gpuid"), "51234");
    }

    #[test]
    fn processes_and_queues_are_read_from_the_drivers_files() {
        let root = tempfile::tempdir().unwrap();
        process_with_queue(root.path(), "300");
        process_with_queue(root.path(), "7");
        fs::create_dir_all(root.path().join("8/queues")).unwrap();
        let found = list_in(root.path()).unwrap();
        assert!(found.iter().map(|process| process.pid.0).eq([7, 8, 300]));
        let queue = Queue { id: QueueId(0), gpu: GpuId(51234), kind: SysfsQueueType::COMPUTE, ring_size: 4096 };
        assert_eq!(found[0].queues, [queue]);
        assert_eq!(found[0].usage, [Usage { gpu: GpuId(51234), vram: 4096, evicted_ms: Some(12) }]);
        assert!(found[1].queues.is_empty() && found[1].usage.is_empty());
    }

    #[test]
    fn a_queue_that_vanishes_while_it_is_read_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        process_with_queue(root.path(), "7");
        fs::remove_file(root.path().join("7/queues/0/gpuid")).unwrap();
        assert!(list_in(root.path()).unwrap()[0].queues.is_empty());
        assert_eq!(read(&root.path().join("9"), Pid(9)).unwrap(), None);
    }

    #[test]
    fn a_file_that_holds_no_number_is_named() {
        let root = tempfile::tempdir().unwrap();
        process_with_queue(root.path(), "7");
        write(&root.path().join("7/queues/0/type"), "compute");
        let said = list_in(root.path()).unwrap_err().to_string();
        assert!(said.contains("queues/0/type") && said.contains("\"compute\""), "{said}");
    }

    #[test]
    fn without_a_driver_there_is_a_hint() {
        let said = list_in(Path::new("/nonexistent/proc")).unwrap_err().to_string();
        assert!(said.contains("is the amdgpu driver loaded?"), "{said}");
    }
}

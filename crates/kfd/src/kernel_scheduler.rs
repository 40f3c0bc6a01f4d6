//! `/dev/gpreempt`: the scheduler in the kernel (`kernel/gpreempt`), which watches, decides and switches by itself.
//!
//! A [`KernelScheduler`] tells it what it cannot know, the policy, and hears what it did. The header of the device
//! (`kernel/gpreempt/uapi/gpreempt.h`) describes every call; nothing is decided here.

use std::fs::File;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use gpreempt_kernel_abi::{
    ABI_VERSION, Abi, Argument, CLEAR, CgroupArgs, Claim, DEVICE, GpuArgs, GpuRecord, JobArgs, JobRecord, ModuleEvent,
    ModuleSettings, ModuleVersion, ProcessArgs, ProcessFlags, QueryArgs, QueryKind, RemoveJobArgs, TenantRecord,
};

use crate::device::ioctl;
use crate::error::{Error, Result};

/// Records that most machines do not exceed.
const FEW_RECORDS: usize = 64;

/// Events taken with one call.
const EVENTS: usize = 64;

/// An open control device.
#[derive(Debug)]
pub struct KernelScheduler {
    file: File,
    version: ModuleVersion,
}

impl KernelScheduler {
    /// Opens the control device and checks its version. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::NoKernelScheduler`] if the module is not loaded or this user may not open its device,
    /// [`Error::KernelSchedulerVersion`] if the module and this program are of different versions.
    pub fn open() -> Result<KernelScheduler> {
        KernelScheduler::open_at(Path::new(DEVICE))
    }

    fn open_at(path: &Path) -> Result<KernelScheduler> {
        let options = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = options.map_err(|error| Error::NoKernelScheduler { path: path.to_owned(), error })?;
        let mut version = ModuleVersion::SIZED;
        call(&file, "VERSION", || "the control device".into(), &mut version)?;
        if version.abi != ABI_VERSION {
            return Err(Error::KernelSchedulerVersion { found: version.abi, known: ABI_VERSION });
        }
        Ok(KernelScheduler { file, version })
    }

    /// Returns what the module is.
    #[must_use]
    pub fn version(&self) -> ModuleVersion {
        self.version
    }

    /// Becomes the policy host. An earlier policy stays in force until it is changed, and this one for `keep` after the
    /// descriptor is closed.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`], with `EBUSY` while there is another ([`Error::is_claimed`]).
    pub fn claim(&self, keep: Duration) -> Result<()> {
        let keep_ms = u32::try_from(keep.as_millis()).unwrap_or(u32::MAX);
        self.set("CLAIM", || "the policy".into(), Claim { keep_ms, ..Claim::SIZED })
    }

    /// Forgets the policy and resumes everything.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`].
    pub fn clear(&self) -> Result<()> {
        // SAFETY: the command has no argument.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), CLEAR.request().0.into(), 0) };
        if result < 0 { Err(failed("CLEAR", "the policy".into(), io::Error::last_os_error())) } else { Ok(()) }
    }

    /// Sets how the module works.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`].
    pub fn set_settings(&self, settings: ModuleSettings) -> Result<()> {
        self.set("SETTINGS", || format!("{settings:?}"), settings)
    }

    /// Sets a gpu.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`].
    pub fn set_gpu(&self, gpu: GpuArgs) -> Result<()> {
        self.set("SET_GPU", || format!("gpu {}", gpu.gpu_id), gpu)
    }

    /// Adds a job, or sets one that there is.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`].
    pub fn set_job(&self, job: JobArgs) -> Result<()> {
        self.set("SET_JOB", || format!("job {:#x}", job.job), job)
    }

    /// Ends a job; its processes run and belong to none.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`].
    pub fn remove_job(&self, job: u64) -> Result<()> {
        self.set("REMOVE_JOB", || format!("job {job:#x}"), RemoveJobArgs { job, ..RemoveJobArgs::SIZED })
    }

    /// Says which job a process belongs to, and whether it may be stopped.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`], with `ESRCH` if the process ended ([`Error::is_gone`]).
    pub fn set_process(&self, process: ProcessArgs) -> Result<()> {
        self.set("SET_PROCESS", || format!("process {}", process.pid), process)
    }

    /// Says which job the processes of a cgroup (version 2) belong to; `directory` is open on it. Job zero: none any
    /// more.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`].
    pub fn set_cgroup(&self, directory: BorrowedFd<'_>, path: &str, job: u64, flags: ProcessFlags) -> Result<()> {
        let args = CgroupArgs { fd: directory.as_raw_fd(), job, flags, ..CgroupArgs::SIZED };
        self.set("SET_CGROUP", || format!("control group {path}"), args)
    }

    /// Lists gpus with their statistics. Needs no claim, only the right to make one: a check without consequences.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`].
    pub fn gpus(&self) -> Result<Vec<GpuRecord>> {
        self.query(QueryKind::GPUS, "gpus")
    }

    /// Lists jobs.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`].
    pub fn jobs(&self) -> Result<Vec<JobRecord>> {
        self.query(QueryKind::JOBS, "jobs")
    }

    /// Lists processes with queues, by gpu.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`].
    pub fn tenants(&self) -> Result<Vec<TenantRecord>> {
        self.query(QueryKind::TENANTS, "tenants")
    }

    /// Returns events that have happened since the last call; none if there are none yet. Does not wait: the descriptor
    /// becomes readable when there are some.
    ///
    /// # Errors
    ///
    /// [`Error::KernelScheduler`].
    pub fn events(&self) -> Result<Vec<ModuleEvent>> {
        let mut bytes = [0; EVENTS * ModuleEvent::SIZE];
        loop {
            match (&self.file).read(&mut bytes) {
                Ok(count) => {
                    return Ok(bytes[..count].chunks_exact(ModuleEvent::SIZE).filter_map(Abi::decode).collect());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Vec::new()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("read", "events".into(), error)),
            }
        }
    }

    fn set<A: Argument>(&self, operation: &'static str, about: impl FnOnce() -> String, mut args: A) -> Result<()> {
        call(&self.file, operation, about, &mut args)
    }

    fn query<R: Abi>(&self, kind: QueryKind, about: &'static str) -> Result<Vec<R>> {
        let mut records = vec![R::ZERO; FEW_RECORDS];
        loop {
            let mut args = QueryArgs {
                kind,
                records: records.as_mut_ptr().expose_provenance() as u64,
                record_size: size_of::<R>() as u32,
                room: records.len() as u32,
                ..QueryArgs::SIZED
            };
            // SAFETY: the address is that of as many records as said, of the size said, which live until the call
            // returns and take any bytes.
            unsafe { ioctl(&self.file, &mut args) }.map_err(|error| failed("QUERY", about.into(), error))?;
            let count = args.count as usize;
            if count <= records.len() {
                records.truncate(count);
                return Ok(records);
            }
            records.resize(count, R::ZERO);
        }
    }
}

impl AsFd for KernelScheduler {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes a call whose argument holds no address.
fn call<A: Argument>(file: &File, operation: &'static str, about: impl FnOnce() -> String, args: &mut A) -> Result<()> {
    // SAFETY: the argument holds no address: only that of QUERY does, which is made by `query` alone.
    unsafe { ioctl(file, args) }.map_err(|error| failed(operation, about(), error))?;
    Ok(())
}

fn failed(operation: &'static str, about: String, error: io::Error) -> Error {
    Error::KernelScheduler { operation, about, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_is_named_with_the_remedy() {
        let said = KernelScheduler::open_at(Path::new("/no/such/gpreempt")).unwrap_err().to_string();
        assert!(said.contains("/no/such/gpreempt") && said.contains("modprobe gpreempt"), "{said}");
    }

    #[test]
    fn a_device_that_is_another_is_not_taken_for_the_scheduler() {
        let error = KernelScheduler::open_at(Path::new("/dev/null")).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOTTY));
        assert!(error.to_string().starts_with("VERSION of the control device failed: "), "{error}");
    }

    #[test]
    fn a_refusal_says_what_was_objected_to_and_what_to_do() {
        let said = |operation, about: &str, errno| {
            failed(operation, about.into(), io::Error::from_raw_os_error(errno)).to_string()
        };
        let claimed = said("CLAIM", "the policy", libc::EBUSY);
        assert!(claimed.contains("another daemon") && claimed.contains("end it"), "{claimed}");
        assert!(said("CLAIM", "the policy", libc::EPERM).contains("CAP_SYS_NICE"));
        let process = said("SET_PROCESS", "process 4711", libc::ESRCH);
        assert!(
            process.starts_with("SET_PROCESS of process 4711 failed: ") && process.contains("it ended"),
            "{process}"
        );
        assert!(said("SET_JOB", "job 0x7", libc::E2BIG).contains("older than this program"));
        assert!(said("SET_JOB", "job 0x7", libc::ENOSPC).contains("no room"));
    }
}

//! The debug operations of the driver (`AMDKFD_IOC_DBG_TRAP`), one safe function each.

use std::os::fd::{AsFd, AsRawFd};

use kfd_abi::debug::{
    DbgTrapArgs, Disable, Enable, GetQueueSnapshot, QueryDebugEvent, QueryExceptionInfo, QueueSnapshotEntry,
    ResumeQueues, RuntimeInfo, SendRuntimeEvent, SetExceptionsEnabled, SuspendQueues, TrapArgs,
};
use kfd_abi::exception::{ExceptionCode, ExceptionMask};
use kfd_abi::queue::MAX_QUEUES_PER_PROCESS;

use crate::device::{KfdDevice, Version};
use crate::error::{Error, Result};
use crate::id::{GpuId, Pid, QueueId};
use crate::queues::{self, Batch, Grace};

/// Queues that most processes do not exceed.
const FEW_QUEUES: u32 = 32;

/// Exceptions that a queue, a gpu or a process raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// The exceptions.
    pub exceptions: ExceptionMask,
    /// The gpu, for those of a gpu or a queue.
    pub gpu: GpuId,
    /// The queue, for those of a queue.
    pub queue: QueueId,
}

/// The debug operations of the driver.
///
/// All functions that name a process start a debug session with it or need one. Drivers differ in which caller they
/// accept: some take only the very thread that traces the process, so [`Tracer`](crate::Tracer) makes all calls from
/// one thread.
#[derive(Debug)]
pub struct Kfd(KfdDevice);

impl Kfd {
    /// Opens the driver.
    ///
    /// # Errors
    ///
    /// As [`KfdDevice::open`].
    pub fn open() -> Result<Kfd> {
        KfdDevice::open().map(Kfd)
    }

    /// Returns the version of the interface.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.version()
    }

    /// Makes one call of `DBG_TRAP`; returns its arguments as the driver left them, and the result of the call.
    ///
    /// # Safety
    ///
    /// As [`KfdDevice::call`].
    unsafe fn trap<T: TrapArgs>(&self, pid: Pid, operation: T) -> Result<(T, u32)> {
        let mut args = DbgTrapArgs::new(pid.0, operation);
        // SAFETY: the caller vouches for the addresses.
        let count = unsafe { self.0.call(&mut args) }.map_err(|error| Error::Trap { operation: T::OP, pid, error })?;
        Ok((args.args.get(), count))
    }

    /// Starts a session. The driver reports `exceptions` with one byte each into `notify`, a pipe that must not block;
    /// they no longer reach the program's own runtime.
    ///
    /// Success does not say that queues can be stopped: the answer's `runtime_state` does.
    ///
    /// # Errors
    ///
    /// [`Error::Trap`] if the caller does not trace the process, or another debugger has a session with it.
    ///
    /// # References
    ///
    /// `kfd_dbg_trap_enable` in `kfd_debug.c`.
    pub fn enable(&self, pid: Pid, exceptions: ExceptionMask, notify: impl AsFd) -> Result<RuntimeInfo> {
        let mut info = RuntimeInfo::default();
        let operation = Enable {
            exception_mask: exceptions,
            rinfo_ptr: (&raw mut info).expose_provenance() as u64,
            rinfo_size: size_of::<RuntimeInfo>() as u32,
            dbg_fd: notify.as_fd().as_raw_fd().cast_unsigned(),
        };
        // SAFETY: the address is that of `info`, which lives until the call returns, takes any bytes, and is as large
        // as said.
        unsafe { self.trap(pid, operation) }?;
        Ok(info)
    }

    /// Ends a session. Every queue that it suspended runs again.
    ///
    /// # Errors
    ///
    /// [`Error::Trap`] if there is no session.
    ///
    /// # References
    ///
    /// `kfd_dbg_trap_disable` in `kfd_debug.c`.
    pub fn disable(&self, pid: Pid) -> Result<()> {
        // SAFETY: no address.
        unsafe { self.trap(pid, Disable {}) }.map(drop)
    }

    /// Passes exceptions on to the program. With `PROCESS_RUNTIME` it lets a start or end of its runtime that waits for
    /// the debugger continue, or the next one if none waits.
    ///
    /// # Errors
    ///
    /// If there is no session.
    pub fn send_runtime_event(&self, pid: Pid, exceptions: ExceptionMask) -> Result<()> {
        let operation = SendRuntimeEvent { exception_mask: exceptions, ..SendRuntimeEvent::default() };
        // SAFETY: no address.
        unsafe { self.trap(pid, operation) }.map(drop)
    }

    /// Selects the exceptions that are reported.
    ///
    /// # Errors
    ///
    /// If there is no session.
    pub fn set_exceptions_enabled(&self, pid: Pid, exceptions: ExceptionMask) -> Result<()> {
        // SAFETY: no address.
        unsafe { self.trap(pid, SetExceptionsEnabled { exception_mask: exceptions }) }.map(drop)
    }

    /// Returns the next source of reported exceptions and clears those of `clear` there; `None` when there is no more.
    ///
    /// # Errors
    ///
    /// [`Error::Trap`] if there is no session.
    ///
    /// # References
    ///
    /// `kfd_dbg_ev_query_debug_event` in `kfd_debug.c`.
    pub fn query_debug_event(&self, pid: Pid, clear: ExceptionMask) -> Result<Option<Raised>> {
        let operation = QueryDebugEvent { exception_mask: clear, ..QueryDebugEvent::default() };
        // SAFETY: no address.
        match unsafe { self.trap(pid, operation) } {
            Ok((answer, _)) => Ok(Some(Raised {
                exceptions: answer.exception_mask,
                gpu: GpuId(answer.gpu_id),
                queue: QueueId(answer.queue_id),
            })),
            Err(Error::Trap { error, .. }) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Clears the report that the program's runtime started or ended, and returns its state.
    ///
    /// # Errors
    ///
    /// If there is no session, or no such report.
    pub fn take_runtime_report(&self, pid: Pid) -> Result<RuntimeInfo> {
        let mut info = RuntimeInfo::default();
        let operation = QueryExceptionInfo {
            info_ptr: (&raw mut info).expose_provenance() as u64,
            info_size: size_of::<RuntimeInfo>() as u32,
            source_id: 0,
            exception_code: ExceptionCode::PROCESS_RUNTIME,
            clear_exception: 1,
        };
        // SAFETY: the address is that of `info`, which lives until the call returns, takes any bytes, and is as large
        // as said.
        unsafe { self.trap(pid, operation) }?;
        Ok(info)
    }

    /// Returns all queues of the process, newest first, and clears the exceptions of `clear`. A queue that still has
    /// `QUEUE_NEW` cannot be suspended.
    ///
    /// # Errors
    ///
    /// [`Error::Trap`] if there is no session.
    ///
    /// # References
    ///
    /// `pqm_get_queue_snapshot` in `kfd_process_queue_manager.c`.
    pub fn queue_snapshot(&self, pid: Pid, clear: ExceptionMask) -> Result<Vec<QueueSnapshotEntry>> {
        let mut cleared: Vec<QueueSnapshotEntry> = Vec::new();
        let mut room = FEW_QUEUES;
        loop {
            let (mut entries, total) = self.queue_snapshot_of(pid, clear, room)?;
            for entry in &mut entries {
                // What an earlier call took back was raised when this one began.
                let earlier = cleared.iter().filter(|earlier| earlier.queue_id == entry.queue_id);
                entry.exception_status = earlier.fold(entry.exception_status, |all, one| all | one.exception_status);
            }
            if total <= room || room >= MAX_QUEUES_PER_PROCESS {
                return Ok(entries);
            }
            cleared = entries;
            room = MAX_QUEUES_PER_PROCESS;
        }
    }

    /// Returns the newest `room` queues, and how many there are.
    fn queue_snapshot_of(&self, pid: Pid, clear: ExceptionMask, room: u32) -> Result<(Vec<QueueSnapshotEntry>, u32)> {
        let mut entries = vec![QueueSnapshotEntry::default(); room as usize];
        let operation = GetQueueSnapshot {
            exception_mask: clear,
            snapshot_buf_ptr: entries.as_mut_ptr().expose_provenance() as u64,
            num_queues: room,
            entry_size: size_of::<QueueSnapshotEntry>() as u32,
        };
        // SAFETY: the address is that of as many entries as said, of the size said, which live until the call returns
        // and take any bytes.
        let (answer, _) = unsafe { self.trap(pid, operation) }?;
        entries.truncate(answer.num_queues as usize);
        Ok((entries, answer.num_queues))
    }

    /// Takes queues off the gpu and saves their waves. Every call that finds a queue stops all work of the gpu for a
    /// moment, even if nothing changes, so the queues of one process belong into one call. An empty list makes no call.
    ///
    /// # Errors
    ///
    /// [`Error::Trap`] if there is no session, the program's runtime is not enabled, or the gpu is being reset. The
    /// failure of a single queue is no error but its [`QueueResult`](crate::QueueResult).
    ///
    /// # References
    ///
    /// `suspend_queues` in `kfd_device_queue_manager.c`.
    pub fn suspend_queues(&self, pid: Pid, queues: &[QueueId], grace: Grace) -> Result<Batch> {
        let mut entries = queues::array(pid, queues)?;
        if entries.is_empty() {
            return Ok(Batch::default());
        }
        let operation = SuspendQueues {
            exception_mask: ExceptionMask::EMPTY,
            queue_array_ptr: entries.as_mut_ptr().expose_provenance() as u64,
            num_queues: entries.len() as u32,
            grace_period: grace.raw(),
        };
        // SAFETY: the address is that of as many entries as said, which live until the call returns and take any bytes.
        unsafe { self.trap(pid, operation) }?;
        Ok(Batch::read(&entries))
    }

    /// Puts queues back on the gpu; as [`Kfd::suspend_queues`]. They run some time after the call returns.
    ///
    /// # Errors
    ///
    /// As [`Kfd::suspend_queues`].
    ///
    /// # References
    ///
    /// `resume_queues` in `kfd_device_queue_manager.c`.
    pub fn resume_queues(&self, pid: Pid, queues: &[QueueId]) -> Result<Batch> {
        let mut entries = queues::array(pid, queues)?;
        // No list at all would mean every queue.
        if entries.is_empty() {
            return Ok(Batch::default());
        }
        let queue_array_ptr = entries.as_mut_ptr().expose_provenance() as u64;
        let operation = ResumeQueues { queue_array_ptr, num_queues: entries.len() as u32, pad: 0 };
        // SAFETY: as in `suspend_queues`.
        unsafe { self.trap(pid, operation) }?;
        Ok(Batch::read(&entries))
    }

    /// Puts every suspended queue of the process back; returns their number.
    ///
    /// # Errors
    ///
    /// As [`Kfd::suspend_queues`].
    pub fn resume_all(&self, pid: Pid) -> Result<u32> {
        // SAFETY: no address.
        unsafe { self.trap(pid, ResumeQueues::default()) }.map(|(_, count)| count)
    }
}

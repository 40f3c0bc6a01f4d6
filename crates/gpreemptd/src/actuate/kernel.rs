//! The actuator of the scheduler in the kernel: it makes the calls of the policy host, and tells the daemon what the
//! scheduler did. It stops and resumes nothing itself.
//!
//! One thread has the descriptor: it applies changes in the order of the commands and reads events. When this process
//! ends without [`ActuatorCommand::Clear`], the kernel keeps the policy for the time that the claim asked for.

use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};

use gpreempt_kernel_abi::{GpuRecord, JobRecord, ModuleEvent, ProcessArgs, TenantRecord};
use kfd::{Error, KernelScheduler};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::abi_text::AbiText;
use super::policy::{KernelPolicy, PolicyChange};
use super::reports::Reports;
use super::{ActuatorCommand, ActuatorEvent, KernelStatus, PolicyFailure};

/// Where control groups of version 2 are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Reads of events between two commands.
const READS: usize = 16;

/// Tenants in one answer: what the daemon can manage several times over, and what a line has room for.
const MOST_TENANTS: usize = 2048;

/// The calls of the control device, so that tests can take its place.
pub(super) trait KernelCalls: Send + 'static {
    /// The descriptor, which is readable when there are events.
    fn descriptor(&self) -> BorrowedFd<'_>;
    /// As [`KernelScheduler::events`].
    fn events(&self) -> kfd::Result<Vec<ModuleEvent>>;
    /// Makes a change of the policy.
    fn apply(&self, change: &PolicyChange) -> kfd::Result<()>;
    /// As [`KernelScheduler::clear`].
    fn clear(&self) -> kfd::Result<()>;
    /// As [`KernelScheduler::gpus`].
    fn gpus(&self) -> kfd::Result<Vec<GpuRecord>>;
    /// As [`KernelScheduler::jobs`].
    fn jobs(&self) -> kfd::Result<Vec<JobRecord>>;
    /// As [`KernelScheduler::tenants`].
    fn tenants(&self) -> kfd::Result<Vec<TenantRecord>>;
}

impl KernelCalls for KernelScheduler {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn events(&self) -> kfd::Result<Vec<ModuleEvent>> {
        KernelScheduler::events(self)
    }

    fn apply(&self, change: &PolicyChange) -> kfd::Result<()> {
        match change {
            PolicyChange::Settings(AbiText(settings)) => self.set_settings(*settings),
            PolicyChange::Gpu(AbiText(gpu)) => self.set_gpu(*gpu),
            PolicyChange::Job(AbiText(job)) => self.set_job(*job),
            PolicyChange::Process(AbiText(process)) => self.set_process(*process),
            PolicyChange::Cgroup { path, job } => {
                let directory = Path::new(CGROUPS).join(path.trim_start_matches('/'));
                let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
                let opened = OpenOptions::new().read(true).custom_flags(flags).open(&directory);
                let directory = opened.map_err(|error| Error::KernelScheduler {
                    operation: "SET_CGROUP",
                    about: format!("control group {path}"),
                    error,
                })?;
                self.set_cgroup(directory.as_fd(), path, job.job, job.flags())
            }
            PolicyChange::RemoveJob { job } => self.remove_job(*job),
        }
    }

    fn clear(&self) -> kfd::Result<()> {
        KernelScheduler::clear(self)
    }

    fn gpus(&self) -> kfd::Result<Vec<GpuRecord>> {
        KernelScheduler::gpus(self)
    }

    fn jobs(&self) -> kfd::Result<Vec<JobRecord>> {
        KernelScheduler::jobs(self)
    }

    fn tenants(&self) -> kfd::Result<Vec<TenantRecord>> {
        KernelScheduler::tenants(self)
    }
}

/// The thread that has the descriptor, as the main thread has it. Nothing here waits.
#[derive(Debug)]
pub(super) struct PolicyHost {
    commands: Sender<ActuatorCommand>,
    /// Wakes the thread; it ends when this is closed.
    wake: PipeWriter,
    thread: JoinHandle<()>,
}

impl PolicyHost {
    /// Starts the thread.
    pub(super) fn start(calls: impl KernelCalls, reports: Arc<Reports>) -> io::Result<PolicyHost> {
        let (commands, received) = mpsc::channel();
        let (woken, wake) = io::pipe()?;
        fcntl(&woken, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        fcntl(&wake, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let serve = move || {
            // What it got changes nothing here.
            let _ = crate::os::priority::raise();
            PolicyThread { calls, reports, applied: KernelPolicy::default() }.serve(&received, woken);
        };
        let thread = thread::Builder::new().name("policy".to_owned()).spawn(serve)?;
        Ok(PolicyHost { commands, wake, thread })
    }

    /// Executes a command after those before it.
    pub(super) fn obey(&mut self, command: ActuatorCommand) {
        // The thread ends after this handle; a panic of it ends the process.
        let _ = self.commands.send(command);
        // A full pipe wakes as well.
        let _ = self.wake.write(&[0]);
    }

    /// Ends the thread after the commands before, and with it the descriptor.
    pub(super) fn close(self) -> JoinHandle<()> {
        self.thread
    }
}

struct PolicyThread<C> {
    calls: C,
    reports: Arc<Reports>,
    /// What this process has told the kernel.
    applied: KernelPolicy,
}

impl<C: KernelCalls> PolicyThread<C> {
    fn serve(mut self, commands: &Receiver<ActuatorCommand>, mut woken: PipeReader) {
        loop {
            if let Err(error) = self.pass_events_on() {
                // Nothing is known any more of what is stopped: the daemon starts another actuator, or none.
                tracing::error!(%error, "the scheduler in the kernel is not heard any more");
                std::process::exit(1);
            }
            loop {
                match commands.try_recv() {
                    Ok(command) => self.obey(command),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let mut polled = [
                PollFd::new(woken.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.calls.descriptor(), PollFlags::POLLIN),
            ];
            // If it fails, there was a look too many.
            let _ = poll(&mut polled, PollTimeout::NONE);
            // What it has to do is in the channel.
            let _ = woken.read(&mut [0; 64]);
        }
    }

    /// Passes on the events that there are, but not for so long that commands wait.
    fn pass_events_on(&self) -> kfd::Result<()> {
        for _ in 0..READS {
            let events = self.calls.events()?;
            if events.is_empty() {
                break;
            }
            self.reports.tell(&ActuatorEvent::Kernel { events: events.into_iter().map(AbiText).collect() });
        }
        Ok(())
    }

    fn obey(&mut self, command: ActuatorCommand) {
        match command {
            ActuatorCommand::Policy { batch, changes, complete } => {
                let failed = changes.into_iter().filter_map(|change| self.make(change)).collect();
                if complete {
                    self.forget_others();
                }
                self.reports.tell(&ActuatorEvent::PolicyApplied { batch, failed });
            }
            ActuatorCommand::Query => self.describe(),
            ActuatorCommand::Clear => {
                self.applied = KernelPolicy::default();
                if let Err(error) = self.calls.clear() {
                    tracing::error!("{error}");
                }
            }
            // Of a daemon that has not heard yet which actuator this is: there are neither sessions nor plans here.
            ActuatorCommand::Attach { .. } | ActuatorCommand::Detach { .. } | ActuatorCommand::Switch { .. } => {}
        }
    }

    /// Makes a change, unless it was made before. Returns why not, if it was refused.
    fn make(&mut self, change: PolicyChange) -> Option<PolicyFailure> {
        let is_removal = matches!(&change, PolicyChange::RemoveJob { .. })
            || matches!(&change, PolicyChange::Process(AbiText(process)) if process.job == 0);
        // What is to be removed may be known to the kernel from an earlier policy host.
        if self.applied.has(&change) && !is_removal {
            return None;
        }
        let Err(error) = self.calls.apply(&change) else {
            self.applied.note(&change);
            return None;
        };
        self.applied.forget(&change);
        let gone = is_gone(&change, &error);
        let message = error.to_string();
        (!gone || !is_removal).then_some(PolicyFailure { change, gone, message })
    }

    /// The policy is complete: what else the kernel has is from an earlier policy host.
    fn forget_others(&mut self) {
        if let Err(error) = self.try_to_forget_others() {
            tracing::warn!("what an earlier daemon asked for may still be in force: {error}");
        }
    }

    fn try_to_forget_others(&mut self) -> kfd::Result<()> {
        for tenant in self.calls.tenants()? {
            let known = self.applied.processes.get(&tenant.pid);
            let is_known = known.is_some_and(|known| known.start_time == tenant.start_time);
            let by_cgroup = self.applied.cgroups.values().any(|cgroup| cgroup.job == tenant.job);
            if tenant.pid > 0 && tenant.job != 0 && !is_known && !by_cgroup {
                let (pid, start_time) = (tenant.pid, tenant.start_time);
                let process = ProcessArgs { pid, start_time, ..ProcessArgs::SIZED };
                // It may have ended.
                let _ = self.calls.apply(&PolicyChange::Process(AbiText(process)));
            }
        }
        for job in self.calls.jobs()? {
            if !self.applied.jobs.contains_key(&job.job) {
                self.calls.apply(&PolicyChange::RemoveJob { job: job.job })?;
            }
        }
        Ok(())
    }

    /// Answers with what the kernel has. Events from before are told before.
    fn describe(&self) {
        let described = self.pass_events_on().and_then(|()| {
            Ok(KernelStatus {
                gpus: self.calls.gpus()?.into_iter().map(AbiText).collect(),
                jobs: self.calls.jobs()?.into_iter().map(AbiText).collect(),
                tenants: self.calls.tenants()?.into_iter().take(MOST_TENANTS).map(AbiText).collect(),
            })
        });
        match described {
            Ok(status) => self.reports.tell(&ActuatorEvent::KernelStatus(Box::new(status))),
            Err(error) => tracing::warn!("{error}"),
        }
    }
}

/// Whether a change was refused because what it concerns is not there any more.
fn is_gone(change: &PolicyChange, error: &Error) -> bool {
    match change {
        PolicyChange::Process(_) => error.is_gone(),
        PolicyChange::Cgroup { .. } | PolicyChange::RemoveJob { .. } => {
            let errno = error.errno().map(Errno::from_raw);
            matches!(errno, Some(Errno::ENOENT | Errno::ESRCH | Errno::ENODEV))
        }
        PolicyChange::Settings(_) | PolicyChange::Gpu(_) | PolicyChange::Job(_) => false,
    }
}

#[cfg(test)]
mod tests;

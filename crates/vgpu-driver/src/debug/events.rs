//! Exceptions of queues, gpus and processes, recorded for their debugger.

use kfd_abi::debug::{QueryDebugEvent, QueryExceptionInfo, SendRuntimeEvent, SetExceptionsEnabled};
use kfd_abi::exception::{ExceptionCode, ExceptionMask};

use super::super::call::encode;
use super::super::process::Process;
use super::super::{Call, Cause, DeviceEffect, Driver, Errno, FollowUp, ProcessKey};
use super::{Memory, room};

/// What an exception concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Source {
    /// A queue, by id.
    Queue(u32),
    /// A gpu, by index.
    Gpu(usize),
    /// The process.
    Process,
}

impl Process {
    /// Where the exceptions of a source are kept.
    fn exceptions(&mut self, source: Source) -> Option<&mut ExceptionMask> {
        match source {
            Source::Queue(id) => self.queues.get_mut(&id).map(|queue| &mut queue.exceptions),
            Source::Gpu(gpu) => self.gpus.get_mut(gpu).map(|gpu| &mut gpu.exceptions),
            Source::Process => Some(&mut self.debug.exceptions),
        }
    }

    /// Every source that a debugger is told about, in the order in which it is: queues, gpus, the process.
    fn sources(&self) -> impl Iterator<Item = Source> + use<> {
        let queues = self.newest_first().into_iter().map(Source::Queue);
        queues.chain((0..self.gpus.len()).map(Source::Gpu)).chain([Source::Process])
    }

    /// Records exceptions if the process is debugged, and notifies the debugger if it subscribed to one of them.
    /// Returns whether it did.
    pub(in super::super) fn raise(
        &mut self,
        key: ProcessKey,
        source: Source,
        exceptions: ExceptionMask,
        effects: &mut Vec<DeviceEffect>,
    ) -> bool {
        if !self.debug.enabled {
            return false;
        }
        if let Some(kept) = self.exceptions(source) {
            *kept = *kept | exceptions;
        }
        let subscribed = !self.debug.subscribed.both(exceptions).is_empty();
        if subscribed {
            effects.push(FollowUp::NotifyDebugger { target: key }.into());
        }
        subscribed
    }
}

impl Driver {
    pub(super) fn set_exceptions_enabled(
        &mut self,
        target: ProcessKey,
        args: &mut SetExceptionsEnabled,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let process = self.process_mut(target)?;
        process.debug.subscribed = args.exception_mask;
        // What happened before the debugger wanted to hear of it is told now, all at once.
        let mut sources = process.sources();
        let pending =
            |source| process.exceptions(source).is_some_and(|kept| !kept.both(args.exception_mask).is_empty());
        if sources.any(pending) {
            call.effects.device.push(FollowUp::NotifyDebugger { target }.into());
        }
        Ok(0)
    }

    pub(super) fn query_debug_event(&mut self, target: ProcessKey, args: &mut QueryDebugEvent) -> Result<i64, Errno> {
        let cleared = std::mem::take(&mut args.exception_mask);
        (args.gpu_id, args.queue_id) = (0, 0);
        let process = self.process_mut(target)?;
        let subscribed = process.debug.subscribed;
        for source in process.sources() {
            let Some(kept) = process.exceptions(source).filter(|kept| !kept.both(subscribed).is_empty()) else {
                continue;
            };
            args.exception_mask = *kept;
            *kept = kept.without(cleared);
            let gpu = match source {
                Source::Queue(id) => {
                    args.queue_id = id;
                    process.queues.get(&id).map(|queue| queue.spec.gpu as usize)
                }
                Source::Gpu(gpu) => Some(gpu),
                Source::Process => None,
            };
            args.gpu_id = gpu.and_then(|gpu| self.gpus.get(gpu)).map_or(0, |state| state.gpu.gpu_id);
            return Ok(0);
        }
        Err(Errno::EAGAIN)
    }

    /// The exceptions of a runtime and failed memory accesses come with a record.
    pub(super) fn query_exception_info(
        &mut self,
        target: ProcessKey,
        args: &mut QueryExceptionInfo,
        memory: Memory,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        if args.info_ptr == 0 {
            return Err(Errno::EINVAL);
        }
        let mask = args.exception_code.mask();
        let is_of = |group: ExceptionMask| !mask.both(group).is_empty();
        let source = if is_of(ExceptionMask::QUEUE) {
            Source::Queue(args.source_id)
        } else if is_of(ExceptionMask::DEVICE) {
            Source::Gpu(self.gpu(args.source_id)?)
        } else if is_of(ExceptionMask::PROCESS) {
            Source::Process
        } else {
            return Err(Errno::EINVAL);
        };
        let process = self.process_mut(target)?;
        let fault = match source {
            Source::Gpu(gpu) if args.exception_code == ExceptionCode::DEVICE_MEMORY_VIOLATION => {
                process.gpus.get(gpu).and_then(|gpu| gpu.fault)
            }
            _ => None,
        };
        let info = match fault {
            Some(fault) => encode(&fault.record(args.source_id)),
            None if args.exception_code == ExceptionCode::PROCESS_RUNTIME => encode(&process.runtime.info()),
            None => Vec::new(),
        };
        let kept = process.exceptions(source).ok_or(Errno::EINVAL)?;
        if !kept.has(mask) {
            return Err(Errno::ENODATA);
        }
        let copied = (args.info_size as usize).min(info.len());
        room(memory, args.info_ptr, copied)?;
        call.answer(0, info.get(..copied).unwrap_or_default().to_vec())?;
        args.info_size = info.len() as u32;
        if args.clear_exception != 0 {
            *kept = kept.without(mask);
            if let (Source::Gpu(gpu), Some(_)) = (source, fault) {
                process.on(gpu)?.fault = None;
            }
        }
        Ok(0)
    }

    /// The debugger passes on to the runtime what it has heard of, or lets a runtime that waits for it go on.
    pub(super) fn send_runtime_event(
        &mut self,
        target: ProcessKey,
        args: &mut SendRuntimeEvent,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let mut exceptions = args.exception_mask;
        if exceptions.has(ExceptionMask::DEVICE_MEMORY_VIOLATION) {
            let gpu = self.gpu(args.gpu_id).map_err(|_| Errno::ENODEV)?;
            let process = self.process_mut(target)?;
            let bound = process.is_bound(gpu);
            let on_gpu = process.on(gpu)?;
            let fault = on_gpu.fault.unwrap_or_default();
            on_gpu.evicted = on_gpu.evicted.saturating_add(1);
            let gpu = gpu as u32;
            if on_gpu.evicted == 1 && bound {
                call.effects.device.push(DeviceEffect::Cycle { gpu, cause: Cause::Evict, grace: None });
            }
            call.effects.device.push(FollowUp::MemoryException { process: target, gpu, fault }.into());
            exceptions = exceptions.without(ExceptionMask::DEVICE_MEMORY_VIOLATION);
        }
        let process = self.process_mut(target)?;
        if exceptions.has(ExceptionMask::PROCESS_RUNTIME) {
            // Counts even if no call waits: the next one that would does not.
            process.runtime.permits = process.runtime.permits.saturating_add(1);
            call.effects.device.push(FollowUp::Wake { process: target }.into());
            exceptions = exceptions.without(ExceptionMask::PROCESS_RUNTIME);
        }
        if !exceptions.is_empty() && process.queues.contains_key(&args.queue_id) {
            call.effects
                .device
                .push(FollowUp::QueueException { process: target, queue: args.queue_id, exceptions }.into());
        }
        Ok(0)
    }
}

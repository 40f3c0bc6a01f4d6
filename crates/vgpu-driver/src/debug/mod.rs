//! The debugger's interface: `DBG_TRAP`, and `RUNTIME_ENABLE` on the side of the program.
//!
//! Order of checks and errors: `kfd_ioctl_set_debug_trap` and `runtime_enable` in `kfd_chardev.c`, `kfd_debug.c`, and
//! `suspend_queues` in `kfd_device_queue_manager.c` of Linux 6.12.115. The comments of the public header name other
//! errors in places; programs see those of the code.
//!
//! Every gpu here can debug several processes at once, and taking queues off it never fails, so a runtime is either
//! enabled or not: the states for gpus that are busy or in error do not come up.

mod events;
mod runtime;
mod session;
mod snapshots;
mod suspend;
mod waves;

use kfd_abi::debug::{DbgTrapArgs, RuntimeState, TrapArgs, TrapFlags, TrapOp};
use kfd_abi::exception::ExceptionMask;

use super::process::is_user_address;
use super::{Call, Cause, DeviceEffect, Driver, Errno, Mutant, ProcessKey};
pub(super) use events::Source;
pub(super) use runtime::Runtime;
use serde::Serialize;
pub use waves::WaveControl;

/// Which check the driver makes before one process may debug another. Kernels differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DebugPermission {
    /// As Linux 6.12 checks it: the first call must come from the thread that traces the process, later ones from its
    /// process.
    Current,
    /// As the first version of the interface checked it: every call must come from the thread that traces the process.
    Original,
}

/// Debugging state of a process.
#[derive(Debug, Default)]
pub(super) struct Debug {
    /// Whether it is being debugged.
    pub(super) enabled: bool,
    /// The debugger, if it is another process. Stays that of a process whose attempt failed because there was a
    /// debugger already.
    pub(super) debugger: Option<ProcessKey>,
    /// How many processes it debugs. An attempt on a process that is being debugged is not counted and yet counted
    /// off, so it can become negative.
    pub(super) targets: i32,
    /// Exceptions that its debugger subscribed to.
    subscribed: ExceptionMask,
    /// Exceptions that concern no queue and no gpu.
    exceptions: ExceptionMask,
    flags: TrapFlags,
    /// What the debugger wants of the waves.
    pub(super) waves: WaveControl,
    /// Until when it samples program counters.
    samples_until_ns: u64,
}

/// Memory of the caller that came with a call, taken out of it: whatever is not put back is not copied out.
type Memory = Option<Vec<u8>>;

/// Room of the caller; `EFAULT` if it cannot be written or is too small.
fn room(memory: Memory, address: u64, len: usize) -> Result<Vec<u8>, Errno> {
    if len == 0 {
        return Ok(Vec::new());
    }
    let reachable = address != 0 && is_user_address(address);
    let mut bytes = memory.filter(|bytes| reachable && bytes.len() >= len).ok_or(Errno::EFAULT)?;
    bytes.truncate(len);
    Ok(bytes)
}

impl Driver {
    pub(super) fn dbg_trap(
        &mut self,
        caller: ProcessKey,
        args: &mut DbgTrapArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let memory = call.buffers.first_mut().map(std::mem::take);
        if caller.is_secondary() {
            return Err(Errno::EOPNOTSUPP);
        }
        let target = self.debug_target(args, call)?;
        let process = self.process(target)?;
        let allowed = target == caller
            || call.traces_target
            || self.has(Mutant::PermissionForAll)
            || match self.kernel.debug_permission {
                DebugPermission::Current if self.has(Mutant::SessionNeedsTracing) => false,
                DebugPermission::Current => process.debug.debugger == Some(caller),
                DebugPermission::Original => args.op == TrapOp::DISABLE,
            };
        if !allowed {
            return Err(Errno::EPERM);
        }
        if self.kernel.sampling_excludes_debugging && call.clocks.monotonic_raw_ns < process.debug.samples_until_ns {
            return Err(Errno::EBUSY);
        }
        if args.op != TrapOp::ENABLE && !process.debug.enabled && !self.has(Mutant::EnableNotNeeded) {
            return Err(Errno::EINVAL);
        }
        let needs_runtime = args.op.needs_runtime() && !self.has(Mutant::RuntimeNotNeeded);
        if needs_runtime && process.runtime.state != RuntimeState::ENABLED {
            return Err(Errno::EPERM);
        }
        match args.op {
            TrapOp::ENABLE => view(args, |enable| self.debug_enable(caller, target, enable, memory, call)),
            TrapOp::DISABLE => {
                self.debug_disable(target, &mut call.effects.device);
                Ok(0)
            }
            TrapOp::SEND_RUNTIME_EVENT => view(args, |event| self.send_runtime_event(target, event, call)),
            TrapOp::SET_EXCEPTIONS_ENABLED => view(args, |set| self.set_exceptions_enabled(target, set, call)),
            TrapOp::SET_WAVE_LAUNCH_OVERRIDE => view(args, |set| self.set_launch_override(target, set, call)),
            TrapOp::SET_WAVE_LAUNCH_MODE => view(args, |set| self.set_launch_mode(target, set, call)),
            TrapOp::SUSPEND_QUEUES => view(args, |suspend| self.suspend_queues(target, suspend, memory, call)),
            TrapOp::RESUME_QUEUES => view(args, |resume| self.resume_queues(target, resume, memory, call)),
            TrapOp::SET_NODE_ADDRESS_WATCH => view(args, |watch| self.set_address_watch(watch)),
            TrapOp::CLEAR_NODE_ADDRESS_WATCH => view(args, |watch| self.clear_address_watch(watch)),
            TrapOp::SET_FLAGS => view(args, |flags| self.set_debug_flags(target, flags, call)),
            TrapOp::QUERY_DEBUG_EVENT => view(args, |query| self.query_debug_event(target, query)),
            TrapOp::QUERY_EXCEPTION_INFO => view(args, |query| self.query_exception_info(target, query, memory, call)),
            TrapOp::GET_QUEUE_SNAPSHOT => view(args, |get| self.queue_snapshot(target, get, memory, call)),
            TrapOp::GET_DEVICE_SNAPSHOT => view(args, |get| self.device_snapshot(target, get, memory, call)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The process that a call names. A debugger may come before its target has opened the driver: the target then has
    /// everything as if it had.
    fn debug_target(&mut self, args: &DbgTrapArgs, call: &Call) -> Result<ProcessKey, Errno> {
        let with_pid = |start| ProcessKey::new(args.pid, start);
        let newest = || {
            let mut known = self.processes.range(with_pid(0)..=with_pid(u64::MAX)).map(|(key, _)| *key);
            known.rfind(|key| !key.is_secondary())
        };
        let known = match call.target {
            Some(key) => self.processes.contains_key(&key).then_some(key),
            None => newest(),
        };
        match (known, call.target) {
            (Some(key), _) => Ok(key),
            (None, Some(key)) if args.op == TrapOp::ENABLE && call.traces_target => self.open(key).map(|()| key),
            _ => Err(Errno::ESRCH),
        }
    }

    /// Waves are told that there is a debugger (`kfd_dbg_trap_activate`).
    fn activate(&mut self, target: ProcessKey, effects: &mut Vec<DeviceEffect>) {
        if let Some(process) = self.processes.get_mut(&target) {
            process.debug.waves = WaveControl { is_debugged: true, ..WaveControl::default() };
        }
        self.refresh_runlists(effects);
    }

    /// A change of what a debugger wants of the gpus reaches them with their runlists, after the shortest grace period.
    fn refresh_runlists(&self, effects: &mut Vec<DeviceEffect>) {
        let gpus = 0..self.gpus.len() as u32;
        effects.extend(gpus.map(|gpu| DeviceEffect::Cycle { gpu, cause: Cause::Debug, grace: Some(0) }));
    }
}

/// Runs one operation on its own view of the arguments and puts that back whatever it says.
fn view<T: TrapArgs>(
    args: &mut DbgTrapArgs,
    operation: impl FnOnce(&mut T) -> Result<i64, Errno>,
) -> Result<i64, Errno> {
    let mut typed: T = args.args.get();
    let result = operation(&mut typed);
    let rest = args.args.0;
    args.args = kfd_abi::Union::of(&typed);
    // What the view does not cover stays the caller's.
    for (word, old) in args.args.0.iter_mut().zip(rest).skip(T::SIZE.div_ceil(8)) {
        *word = old;
    }
    result
}

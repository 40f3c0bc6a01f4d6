//! The program's side: its runtime offers itself to a debugger, and withdraws.

use kfd_abi::debug::{RuntimeEnableArgs, RuntimeInfo, RuntimeMode, RuntimeState};
use kfd_abi::exception::ExceptionMask;

use super::super::process::Process;
use super::super::{Blocked, Call, Driver, Errno, Mutant, ProcessEffect, ProcessKey};
use super::Source;

/// The runtime of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Runtime {
    pub(in super::super) state: RuntimeState,
    pub(in super::super) r_debug: u64,
    pub(in super::super) ttmp_setup: bool,
    /// A signal ended its last call while that waited for the debugger: the next one only waits on.
    pub(in super::super) retry: bool,
    /// How often a debugger let the runtime go on while no call waited for that.
    pub(super) permits: u32,
}

impl Runtime {
    /// As debuggers are told.
    pub(super) fn info(&self) -> RuntimeInfo {
        RuntimeInfo { r_debug: self.r_debug, runtime_state: self.state, ttmp_setup: self.ttmp_setup.into() }
    }

    /// Returns whether it offers itself to debuggers.
    pub(in super::super) fn is_enabled(&self) -> bool {
        self.state == RuntimeState::ENABLED
    }

    /// Goes on if the debugger said so, and waits otherwise.
    fn wait(&mut self, call: &mut Call) {
        match self.permits.checked_sub(1) {
            Some(left) => (self.permits, self.retry) = (left, false),
            None => call.blocked = Some(Blocked::Runtime),
        }
    }
}

impl Process {
    fn raise_runtime(&mut self, key: ProcessKey, call: &mut Call) {
        self.raise(key, Source::Process, ExceptionMask::PROCESS_RUNTIME, &mut call.effects.device);
    }
}

impl Driver {
    pub(in super::super) fn runtime_enable(
        &mut self,
        caller: ProcessKey,
        args: &mut RuntimeEnableArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let waited = call.blocked.take() == Some(Blocked::Runtime);
        if !args.mode_mask.has(RuntimeMode::ENABLE) {
            return self.disable_runtime(caller, waited, call);
        }
        let (twice, late) = (self.has(Mutant::RuntimeTwice), self.has(Mutant::RuntimeAfterQueue));
        let process = self.process_mut(caller)?;
        if waited {
            process.runtime.wait(call);
            return Ok(0);
        }
        if process.runtime.retry {
            if process.debug.enabled {
                process.runtime.wait(call);
            }
            return Ok(0);
        }
        if process.runtime.state != RuntimeState::DISABLED && !twice {
            return Err(Errno::EBUSY);
        }
        if !process.queues.is_empty() && !late {
            return Err(Errno::EEXIST);
        }
        let ttmp_setup = args.mode_mask.has(RuntimeMode::TTMP_SAVE);
        let runtime = &mut process.runtime;
        (runtime.state, runtime.r_debug, runtime.ttmp_setup) = (RuntimeState::ENABLED, args.r_debug, ttmp_setup);
        call.effects.process.push(ProcessEffect::RuntimeMode { enabled: true, ttmp_setup, r_debug: args.r_debug });
        if process.debug.enabled {
            self.activate(caller, &mut call.effects.device);
            let waits = !self.has(Mutant::RuntimeNeverWaits);
            let process = self.process_mut(caller)?;
            process.raise_runtime(caller, call);
            if waits {
                process.runtime.wait(call);
            }
        }
        Ok(0)
    }

    fn disable_runtime(&mut self, caller: ProcessKey, waited: bool, call: &mut Call) -> Result<i64, Errno> {
        let process = self.process_mut(caller)?;
        if waited {
            process.runtime.wait(call);
        } else {
            let was_enabled = process.runtime.state == RuntimeState::ENABLED;
            (process.runtime.state, process.runtime.r_debug) = (RuntimeState::DISABLED, 0);
            if was_enabled {
                call.effects.process.push(ProcessEffect::RuntimeMode { enabled: false, ttmp_setup: false, r_debug: 0 });
            }
            if process.debug.enabled {
                if was_enabled {
                    self.deactivate(caller, &mut call.effects.device);
                }
                let process = self.process_mut(caller)?;
                if !process.runtime.retry {
                    process.raise_runtime(caller, call);
                }
                process.runtime.wait(call);
            }
        }
        if call.blocked.is_none() {
            self.process_mut(caller)?.runtime.ttmp_setup = false;
            self.refresh_runlists(&mut call.effects.device);
        }
        Ok(0)
    }
}

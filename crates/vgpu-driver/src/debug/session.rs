//! A debugger comes and goes.

use kfd_abi::Abi;
use kfd_abi::debug::{Enable, RuntimeInfo, RuntimeState, TrapFlags};
use kfd_abi::exception::ExceptionMask;

use super::super::call::encode;
use super::super::{Call, DeviceEffect, Driver, Errno, Mutant, ProcessKey};
use super::{Memory, WaveControl, room};

impl Driver {
    pub(super) fn debug_enable(
        &mut self,
        caller: ProcessKey,
        target: ProcessKey,
        args: &mut Enable,
        memory: Memory,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let (twice, undone) = (self.has(Mutant::EnableTwice), self.has(Mutant::TakeOverUndone));
        let process = self.process_mut(target)?;
        // The real driver notes the caller before it checks for another debugger, and does not undo that.
        if target != caller && !(undone && process.debug.enabled) {
            process.debug.debugger = Some(caller);
        }
        if process.debug.enabled && !twice {
            return Err(Errno::EALREADY);
        }
        if call.fd.is_none() {
            return Err(Errno::EBADF);
        }
        let info = process.runtime.info();
        process.debug.enabled = true;
        let debugger = process.debug.debugger;
        self.count_target(debugger, 1);
        // Otherwise the runtime does it when it comes.
        if info.runtime_state == RuntimeState::ENABLED && !self.has(Mutant::EnableWithoutCycle) {
            self.activate(target, &mut call.effects.device);
        }
        let copied = (args.rinfo_size as usize).min(RuntimeInfo::SIZE);
        args.rinfo_size = RuntimeInfo::SIZE as u32;
        match room(memory, args.rinfo_ptr, copied) {
            Ok(_) => {
                let mut bytes = encode(&info);
                bytes.truncate(copied);
                call.answer(0, bytes)?;
            }
            Err(errno) => {
                self.deactivate(target, &mut call.effects.device);
                if self.kernel.undoes_failed_enable {
                    self.count_target(debugger, -1);
                    self.process_mut(target)?.debug.enabled = false;
                }
                return Err(errno);
            }
        }
        self.process_mut(target)?.debug.subscribed = args.exception_mask;
        call.effects.device.push(DeviceEffect::DebuggerFile { target, keep: true });
        Ok(0)
    }

    fn count_target(&mut self, debugger: Option<ProcessKey>, change: i32) {
        if let Some(debugger) = debugger.and_then(|key| self.processes.get_mut(&key)) {
            debugger.debug.targets += change;
        }
    }

    /// What a debugger changed about the gpus is undone, one thing after the other as in the real driver: its queues
    /// go on, then how waves start, then flags, then debugging itself.
    pub(super) fn deactivate(&mut self, target: ProcessKey, effects: &mut Vec<DeviceEffect>) {
        if !self.has(Mutant::DisableKeepsStopped) {
            self.resume_all(target, effects);
        }
        self.refresh_runlists(effects);
        if let Some(process) = self.processes.get_mut(&target) {
            process.debug.flags = TrapFlags::EMPTY;
            process.debug.waves = WaveControl::default();
        }
        self.refresh_runlists(effects);
        self.refresh_runlists(effects);
    }

    /// Ends debugging of a process, if there is any. Calls of it that wait for the debugger go on waiting.
    pub(super) fn debug_disable(&mut self, target: ProcessKey, effects: &mut Vec<DeviceEffect>) {
        let Some(process) = self.processes.get(&target).filter(|process| process.debug.enabled) else { return };
        if process.runtime.state == RuntimeState::ENABLED {
            self.deactivate(target, effects);
        }
        effects.push(DeviceEffect::DebuggerFile { target, keep: false });
        let forgets = !self.has(Mutant::DisableKeepsExceptions);
        let Some(process) = self.processes.get_mut(&target) else { return };
        process.debug.enabled = false;
        process.debug.exceptions = ExceptionMask::EMPTY;
        process.gpus.iter_mut().for_each(|gpu| gpu.exceptions = ExceptionMask::EMPTY);
        if forgets {
            process.queues.values_mut().for_each(|queue| queue.exceptions = ExceptionMask::EMPTY);
        }
        let debugger = process.debug.debugger.take();
        self.count_target(debugger, -1);
    }

    /// A process ends, as what is debugged and as what debugs (`kfd_process_notifier_release_internal`).
    pub(in super::super) fn end_debugging(&mut self, key: ProcessKey, effects: &mut Vec<DeviceEffect>) {
        self.debug_disable(key, effects);
        let of_it = self.processes.iter().filter(|(_, process)| process.debug.debugger == Some(key));
        for target in of_it.map(|(target, _)| *target).collect::<Vec<_>>() {
            // A process that only tried, while another debugger was there, is counted as having none.
            let counted = self.processes.get(&key).is_some_and(|process| process.debug.targets > 0);
            if counted && !self.has(Mutant::DeathKeepsStopped) {
                self.debug_disable(target, effects);
            }
        }
    }
}

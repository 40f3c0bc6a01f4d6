//! The debugger's calls: which processes may make them, and in which order they are refused. Bob debugs Alice.

mod events;
mod interrupts;
mod kernels;
mod queues;
mod random;
mod runtime;
mod snapshots;
mod waves;

use kfd_abi::debug::{
    ClearNodeAddressWatch, DbgTrapArgs, Disable, Enable, GetQueueSnapshot, LaunchMode, OverrideMode, QueryDebugEvent,
    QueryExceptionInfo, QueueSnapshotEntry, ResumeQueues, RuntimeEnableArgs, RuntimeInfo, RuntimeMode, RuntimeState,
    SendRuntimeEvent, SetExceptionsEnabled, SetFlags, SetNodeAddressWatch, SetWaveLaunchMode, SetWaveLaunchOverride,
    SuspendQueues, TrapArgs, TrapFlags, TrapMask, TrapOp,
};
use kfd_abi::exception::ExceptionMask;
use kfd_abi::queue::CreateQueueArgs;

use super::queues::prepare;
use super::*;

const CAROL: ProcessKey = ProcessKey::new(300, 3);
const NR: u32 = 0x26;

/// Whether the caller traces the target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ptrace {
    Attached,
    No,
}
use Ptrace::{Attached, No};

/// What an operation answered.
#[derive(Debug)]
struct Trapped<T> {
    result: Result<i64, Errno>,
    args: T,
    memory: Vec<u8>,
    effects: Vec<DeviceEffect>,
}

impl<T> Trapped<T> {
    fn ok(self) -> T {
        assert_eq!(self.result, Ok(0));
        self.args
    }

    fn errno(&self) -> Option<Errno> {
        self.result.err()
    }

    fn words(&self) -> Vec<u32> {
        self.memory.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }
}

impl Machine {
    /// A machine with two gpus, on which Alice's runtime is enabled and Carol has opened the driver and nothing else.
    fn to_debug() -> Machine {
        Machine::to_debug_on(KernelProfile::default())
    }

    /// The same with the driver of a kernel.
    fn to_debug_on(kernel: KernelProfile) -> Machine {
        let mut profile = Profile::load("mi300x-cpx").unwrap();
        profile.gpus = 2;
        let mut machine = Machine::of(profile, kernel);
        machine.driver.open(CAROL).unwrap();
        machine.runtime(ALICE, RuntimeMode::ENABLE).ok();
        machine
    }

    /// One that Bob debugs, and on which Alice has queues 0, 1 and 2, the second one on the second gpu.
    fn debugged() -> Machine {
        Machine::debugged_on(KernelProfile::default())
    }

    /// The same with the driver of a kernel.
    fn debugged_on(kernel: KernelProfile) -> Machine {
        let mut machine = Machine::to_debug_on(kernel);
        machine.enable(BOB, Attached).ok();
        machine.add_queues(ALICE, &[0, 1, 0]);
        machine
    }

    fn runtime(&mut self, process: ProcessKey, mode_mask: RuntimeMode) -> Answer<RuntimeEnableArgs> {
        self.run(process, RuntimeEnableArgs { r_debug: 0x77, mode_mask, capabilities_mask: 5 })
    }

    fn add_queues(&mut self, process: ProcessKey, gpus: &[usize]) {
        let args = prepare(self, process);
        let ids: Vec<u32> = (0..self.driver.gpus.len()).map(|gpu| self.gpu_id(gpu)).collect();
        let mappings = self.driver.process(process).unwrap().gpus[0].mappings.values();
        for handle in mappings.map(|mapping| mapping.of.handle()).collect::<Vec<_>>() {
            self.map(process, handle, &ids).ok();
        }
        for gpu in gpus {
            self.run(process, CreateQueueArgs { gpu_id: ids[*gpu], ..args }).ok();
        }
    }

    /// An operation on Alice. Memory that the driver fills is as large as the arguments say and full of `0xEE`.
    fn trap<T: TrapArgs>(&mut self, caller: ProcessKey, ptrace: Ptrace, args: T, memory: &[u8]) -> Trapped<T> {
        let mut call = Call::new(&DbgTrapArgs::new(ALICE.pid, args));
        (call.fd, call.traces_target) = (Some(FdKind::Other), ptrace == Attached);
        self.trap_call(caller, call, memory)
    }

    fn trap_call<T: TrapArgs>(&mut self, caller: ProcessKey, mut call: Call, memory: &[u8]) -> Trapped<T> {
        let specs = buffers(NR, &call.args).unwrap();
        call.buffers = specs
            .iter()
            .map(|spec| match spec.direction {
                BufferDirection::Out => vec![0xEE; spec.len],
                _ => memory.get(..spec.len).unwrap_or_default().to_vec(),
            })
            .collect();
        let result = self.driver.ioctl(caller, NR, &mut call);
        let args = call.decode::<DbgTrapArgs>().args.get();
        assert!(call.effects.process.is_empty(), "a debugger changes nothing of its own");
        Trapped { result, args, memory: call.buffers.pop().unwrap_or_default(), effects: call.effects.device }
    }

    fn enable(&mut self, caller: ProcessKey, ptrace: Ptrace) -> Trapped<Enable> {
        let args = Enable { rinfo_ptr: 0x1000, rinfo_size: RuntimeInfo::SIZE as u32, ..Enable::ZERO };
        self.trap(caller, ptrace, args, &[])
    }

    fn disable(&mut self, caller: ProcessKey) -> Trapped<Disable> {
        self.trap(caller, No, Disable {}, &[])
    }

    fn suspend(&mut self, ids: &[u32]) -> Trapped<SuspendQueues> {
        let args = SuspendQueues {
            queue_array_ptr: 0x1000,
            num_queues: ids.len() as u32,
            grace_period: 7,
            ..SuspendQueues::ZERO
        };
        self.trap(BOB, No, args, &bytes(ids))
    }

    fn resume(&mut self, ids: &[u32]) -> Trapped<ResumeQueues> {
        let args = ResumeQueues { queue_array_ptr: 0x1000, num_queues: ids.len() as u32, pad: 0 };
        self.trap(BOB, No, args, &bytes(ids))
    }

    /// Bob has seen all queues that there are.
    fn see_queues(&mut self) {
        let args = GetQueueSnapshot {
            exception_mask: ExceptionMask::QUEUE_NEW,
            snapshot_buf_ptr: 0x1000,
            num_queues: 1024,
            entry_size: QueueSnapshotEntry::SIZE as u32,
        };
        self.trap(BOB, No, args, &[]).ok();
    }

    fn suspended(&self, process: ProcessKey) -> Vec<u32> {
        let queues = &self.driver.process(process).unwrap().queues;
        queues.values().filter(|queue| queue.suspended).map(|queue| queue.spec.id).collect()
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Cycles of both gpus.
fn both(cause: Cause, grace: Option<u32>) -> Vec<DeviceEffect> {
    (0..2).map(|gpu| DeviceEffect::Cycle { gpu, cause, grace }).collect()
}

#[test]
fn the_target_must_exist_before_anything_else_counts() {
    let mut machine = Machine::to_debug();
    for op in TrapOp::DEFINED.iter().copied().chain([TrapOp(15)]) {
        let mut call = Call::new(&DbgTrapArgs { pid: 999, op, ..DbgTrapArgs::ZERO });
        call.traces_target = true;
        assert_eq!(machine.call::<DbgTrapArgs>(BOB, call).errno(), Some(Errno::ESRCH), "{op:?}");
    }
}

#[test]
fn of_two_processes_with_one_pid_the_newer_is_meant() {
    let mut machine = Machine::to_debug();
    let newer = ProcessKey { start: 50, ..ALICE };
    machine.driver.open(newer).unwrap();
    machine.enable(BOB, Attached).ok();
    assert!(machine.driver.process(newer).unwrap().debug.enabled);
    assert!(!machine.driver.process(ALICE).unwrap().debug.enabled);
    // The owner of the driver knows better.
    let mut call = Call::new(&DbgTrapArgs::new(ALICE.pid, Disable {}));
    call.target = Some(ALICE);
    assert_eq!(machine.trap_call::<Disable>(ALICE, call, &[]).errno(), Some(Errno::EINVAL));
}

#[test]
fn a_tracer_may_come_before_its_target_opens_the_driver() {
    let mut machine = Machine::to_debug();
    let early = ProcessKey::new(400, 4);
    let attempt = |machine: &mut Machine, op: Call, traces_target| {
        let call = Call { target: Some(early), traces_target, fd: Some(FdKind::Other), ..op };
        machine.trap_call::<Enable>(BOB, call, &[]).result
    };
    let enable = Call::new(&DbgTrapArgs::new(early.pid, Enable::ZERO));
    let disable = Call::new(&DbgTrapArgs::new(early.pid, Disable {}));
    assert_eq!(attempt(&mut machine, enable.clone(), false), Err(Errno::ESRCH));
    assert_eq!(attempt(&mut machine, disable, true), Err(Errno::ESRCH));
    assert_eq!(attempt(&mut machine, enable, true), Ok(0));
    // Its opening the driver then changes nothing about that, and its runtime finds the debugger.
    machine.driver.open(early).unwrap();
    let runtime = machine.runtime(early, RuntimeMode::ENABLE);
    assert_eq!(runtime.call.blocked, Some(Blocked::Runtime));
}

#[test]
fn permission_comes_before_state_and_state_before_arguments() {
    let mut machine = Machine::to_debug();
    let unknown = |machine: &mut Machine, caller, traces_target| {
        let mut call = Call::new(&DbgTrapArgs { pid: ALICE.pid, op: TrapOp(15), ..DbgTrapArgs::ZERO });
        call.traces_target = traces_target;
        machine.call::<DbgTrapArgs>(caller, call).errno()
    };
    assert_eq!(unknown(&mut machine, BOB, false), Some(Errno::EPERM));
    assert_eq!(unknown(&mut machine, BOB, true), Some(Errno::EINVAL));
    // Not debugged: no operation but one.
    for op in TrapOp::DEFINED[1..].iter().copied() {
        let mut call = Call::new(&DbgTrapArgs { pid: ALICE.pid, op, ..DbgTrapArgs::ZERO });
        call.traces_target = true;
        assert_eq!(machine.call::<DbgTrapArgs>(BOB, call).errno(), Some(Errno::EINVAL), "{op:?}");
    }
    // Debugged, but without a runtime: seven operations are refused whatever their arguments are.
    machine.runtime(ALICE, RuntimeMode::EMPTY).ok();
    machine.enable(BOB, Attached).ok();
    for op in (4..=10).map(TrapOp) {
        let call = Call::new(&DbgTrapArgs { pid: ALICE.pid, op, args: kfd_abi::Union([u64::MAX; 3]) });
        assert_eq!(machine.call::<DbgTrapArgs>(BOB, call).errno(), Some(Errno::EPERM), "{op:?}");
    }
    assert_eq!(unknown(&mut machine, BOB, false), Some(Errno::EINVAL));
    assert_eq!(unknown(&mut machine, CAROL, false), Some(Errno::EPERM));
}

#[test]
fn once_enabled_the_debugger_need_not_trace_any_more() {
    let mut machine = Machine::to_debug();
    assert_eq!(machine.enable(BOB, No).errno(), Some(Errno::EPERM));
    assert_eq!(machine.enable(BOB, Attached).errno(), None);
    assert_eq!(machine.suspend(&[]).result, Ok(0));
    assert_eq!(machine.disable(CAROL).errno(), Some(Errno::EPERM));
    machine.disable(BOB).ok();
    assert_eq!(machine.disable(BOB).errno(), Some(Errno::EPERM));
}

#[test]
fn drivers_as_first_published_want_a_tracer_at_every_call_but_the_last() {
    let mut machine = Machine::to_debug_on(KernelProfile::Dkms);
    machine.enable(BOB, Attached).ok();
    assert_eq!(machine.suspend(&[]).errno(), Some(Errno::EPERM));
    assert_eq!(machine.trap(BOB, Attached, ResumeQueues::ZERO, &[]).result, Ok(0));
    machine.disable(CAROL).ok();
    assert_eq!(machine.disable(CAROL).errno(), Some(Errno::EINVAL));
    // A process may always debug itself.
    machine.enable(ALICE, No).ok();
}

#[test]
fn enabling_tells_about_the_runtime_and_refreshes_every_gpu() {
    let mut machine = Machine::to_debug();
    let missing = {
        let mut call = Call::new(&DbgTrapArgs::new(ALICE.pid, Enable { rinfo_size: 3, ..Enable::ZERO }));
        call.traces_target = true;
        machine.trap_call::<Enable>(BOB, call, &[])
    };
    assert_eq!((missing.errno(), missing.args.rinfo_size), (Some(Errno::EBADF), 3));
    let enabled = machine.enable(BOB, Attached);
    let mut effects = both(Cause::Debug, Some(0));
    effects.push(DeviceEffect::DebuggerFile { target: ALICE, keep: true });
    assert_eq!(enabled.effects, effects);
    let info = RuntimeInfo { r_debug: 0x77, runtime_state: RuntimeState::ENABLED, ttmp_setup: 0 };
    assert_eq!(RuntimeInfo::decode(&enabled.memory), Some(info));
    machine.disable(BOB).ok();
    // A shorter structure is filled as far as it goes, and the caller learns how long it could be.
    let short = Enable { rinfo_ptr: 0x1000, rinfo_size: 5, ..Enable::ZERO };
    let enabled = machine.trap(BOB, Attached, short, &[]);
    assert_eq!((enabled.memory.len(), enabled.args.rinfo_size), (5, 16));
    machine.disable(BOB).ok();
    // Memory that is not there undoes it all.
    let nowhere = machine.trap(BOB, Attached, Enable { rinfo_ptr: 0, ..short }, &[]);
    assert_eq!((nowhere.errno(), nowhere.args.rinfo_size), (Some(Errno::EFAULT), 16));
    assert!(!nowhere.effects.iter().any(|effect| matches!(effect, DeviceEffect::DebuggerFile { .. })));
    assert!(!machine.driver.process(ALICE).unwrap().debug.enabled);
    assert_eq!(machine.driver.process(BOB).unwrap().debug.targets, 0);
    // Without a runtime there is nothing to refresh yet.
    machine.runtime(ALICE, RuntimeMode::EMPTY).ok();
    let effects = machine.enable(BOB, Attached).effects;
    assert_eq!(effects, [DeviceEffect::DebuggerFile { target: ALICE, keep: true }]);
}

#[test]
fn disabling_undoes_one_thing_after_the_other() {
    let mut machine = Machine::debugged();
    let disabled = machine.disable(BOB);
    let refresh = || both(Cause::Debug, Some(0));
    let mut effects = both(Cause::Resume, None);
    effects.push(FollowUp::Wake { process: ALICE }.into());
    effects.extend([refresh(), refresh(), refresh()].concat());
    effects.push(DeviceEffect::DebuggerFile { target: ALICE, keep: false });
    assert_eq!(disabled.effects, effects);
    // What had happened is forgotten: a queue is not new to the next debugger.
    machine.enable(BOB, Attached).ok();
    assert_eq!(machine.suspend(&[0]).result, Ok(1));
}

#[test]
fn a_second_debugger_fails_and_yet_becomes_the_debugger() {
    let mut machine = Machine::debugged();
    machine.see_queues();
    assert_eq!(machine.suspend(&[0]).result, Ok(1));
    let second = machine.enable(CAROL, Attached);
    assert_eq!((second.errno(), second.args.rinfo_size), (Some(Errno::EALREADY), 16));
    assert!(second.effects.is_empty() && second.memory.is_empty());
    assert_eq!(machine.resume(&[0]).errno(), Some(Errno::EPERM));
    // Neither death ends it: the first one is no longer the debugger, the second one never counted as one.
    let cycles = both(Cause::ProcessEnd, None);
    assert_eq!(machine.driver.close(BOB).device[..2], cycles);
    assert_eq!(machine.driver.close(CAROL).device, cycles);
    assert_eq!(machine.suspended(ALICE), vec![0_u32]);
    // The process itself still can.
    machine.trap(ALICE, No, Disable {}, &[]).ok();
    assert!(machine.suspended(ALICE).is_empty());
}

#[test]
fn when_the_debugger_dies_everything_goes_on() {
    let mut machine = Machine::debugged();
    machine.see_queues();
    assert_eq!(machine.suspend(&[0, 1]).result, Ok(2));
    let Effects { device: effects, process, .. } = machine.driver.close(BOB);
    assert!(process.is_empty(), "the debugger had nothing itself");
    assert!(machine.suspended(ALICE).is_empty());
    let process = machine.driver.process(ALICE).unwrap();
    assert_eq!((process.debug.enabled, process.debug.debugger), (false, None));
    assert_eq!(effects[..3], [both(Cause::Resume, None), vec![FollowUp::Wake { process: ALICE }.into()]].concat());
    assert!(effects.contains(&DeviceEffect::DebuggerFile { target: ALICE, keep: false }));
    // No queue of the debugger's own is among it.
    assert!(!effects.iter().any(|effect| matches!(effect, DeviceEffect::Queue(_))));
    machine.enable(CAROL, Attached).ok();
}

#[test]
fn when_the_target_dies_its_debugger_loses_the_descriptor() {
    let mut machine = Machine::debugged();
    machine.see_queues();
    assert_eq!(machine.suspend(&[2]).result, Ok(1));
    let effects = machine.driver.close(ALICE).device;
    assert!(effects.contains(&DeviceEffect::DebuggerFile { target: ALICE, keep: false }));
    assert_eq!(machine.driver.process(BOB).unwrap().debug.targets, 0);
    assert_eq!(machine.suspend(&[2]).errno(), Some(Errno::ESRCH));
    assert!(machine.driver.runlist(0).groups.is_empty());
}

#[test]
fn what_the_hardware_lacks_is_refused_as_where_it_is_missing() {
    let mut machine = Machine::debugged();
    let gpu_id = machine.gpu_id(1);
    let watch = SetNodeAddressWatch { gpu_id, ..SetNodeAddressWatch::ZERO };
    let answer = machine.trap(BOB, No, watch, &[]);
    assert_eq!((answer.errno(), answer.args.id), (Some(Errno::ENOMEM), u32::MAX));
    let clear = ClearNodeAddressWatch { gpu_id, id: 0 };
    assert_eq!(machine.trap(BOB, No, clear, &[]).errno(), Some(Errno::EINVAL));
    let elsewhere = SetNodeAddressWatch { gpu_id: 1, ..watch };
    assert_eq!(machine.trap(BOB, No, elsewhere, &[]).errno(), Some(Errno::ENODEV));
    assert_eq!(machine.trap(BOB, No, ClearNodeAddressWatch { gpu_id: 1, id: 9 }, &[]).errno(), Some(Errno::ENODEV));

    let flags = |machine: &mut Machine, flags| {
        let answer = machine.trap(BOB, No, SetFlags { flags, pad: 0 }, &[]);
        (answer.result, answer.args.flags)
    };
    assert_eq!(flags(&mut machine, TrapFlags::SINGLE_MEM_OP), (Ok(0), TrapFlags::EMPTY));
    assert_eq!(flags(&mut machine, TrapFlags::SINGLE_ALU_OP), (Err(Errno::EACCES), TrapFlags::SINGLE_MEM_OP));
    assert_eq!(flags(&mut machine, TrapFlags::EMPTY), (Ok(0), TrapFlags::SINGLE_MEM_OP));
}

//! Random histories of three processes that make queues, debug each other and die.

use kfd_abi::ioctl::Argument;
use kfd_abi::queue::{DestroyQueueArgs, UpdateQueueArgs};
use proptest::prelude::*;

use super::super::queues::{RING, args};
use super::*;

const KEYS: [ProcessKey; 3] = [ALICE, BOB, CAROL];

#[derive(Clone, Copy, Debug)]
enum Step {
    Create {
        process: usize,
        gpu: usize,
    },
    Destroy {
        process: usize,
        id: u32,
        abandon: bool,
    },
    Update {
        process: usize,
        id: u32,
        percent: u32,
    },
    Runtime {
        process: usize,
        enable: bool,
        abandon: bool,
    },
    Enable {
        debugger: usize,
        target: usize,
        attached: bool,
        mask: u64,
    },
    /// By the target's debugger if no caller is named.
    Trap {
        caller: Option<usize>,
        target: usize,
        op: u32,
        mask: u64,
        ids: [u32; 3],
    },
    Close {
        process: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let process = || 0..3_usize;
    let mask = prop_oneof![Just(0), Just(ExceptionMask::DEFINED.0), any::<u64>()].boxed();
    let ids = prop::array::uniform3(0..5_u32);
    // Most often what it takes to stop a queue: seeing it first.
    let op = prop_oneof![2 => 1..16_u32, 2 => Just(6), 1 => Just(7), 2 => Just(13)];
    let step = prop_oneof![
        5 => (process(), 0..2_usize).prop_map(|(process, gpu)| Step::Create { process, gpu }),
        3 => (process(), 0..4_u32, any::<bool>())
            .prop_map(|(process, id, abandon)| Step::Destroy { process, id, abandon }),
        2 => (process(), 0..4_u32, 0..2_u32)
            .prop_map(|(process, id, percent)| Step::Update { process, id, percent: percent * 100 }),
        3 => (process(), any::<bool>(), any::<bool>())
            .prop_map(|(process, enable, abandon)| Step::Runtime { process, enable, abandon }),
        4 => (process(), process(), any::<bool>(), mask.clone()).prop_map(|(debugger, target, attached, mask)| {
            Step::Enable { debugger, target, attached, mask }
        }),
        24 => (prop::option::weighted(0.2, process()), process(), op, mask, ids)
            .prop_map(|(caller, target, op, mask, ids)| Step::Trap { caller, target, op, mask, ids }),
        1 => process().prop_map(|process| Step::Close { process }),
    ];
    prop::collection::vec(step, 0..120)
}

/// The machine, and the calls that wait.
struct History {
    machine: Machine,
    waiting: Vec<(ProcessKey, u32, Call)>,
}

impl History {
    fn new() -> History {
        let mut machine = Machine::to_debug();
        for gpu in 0..2 {
            machine.acquire(CAROL, gpu).ok();
        }
        let mut history = History { machine, waiting: Vec::new() };
        for key in KEYS {
            history.machine.runtime(key, RuntimeMode::ENABLE);
            history.machine.add_queues(key, &[0, 1]);
        }
        history
    }

    fn call<T: Argument>(&mut self, process: usize, args: T, abandon: bool) {
        let nr = T::COMMAND.nr.into();
        let mut call = Call::new(&args);
        let _ = self.machine.driver.ioctl(KEYS[process], nr, &mut call);
        match call.blocked {
            Some(blocked) if abandon => self.machine.driver.abandon(KEYS[process], blocked),
            Some(_) => self.waiting.push((KEYS[process], nr, call)),
            None => {}
        }
    }

    fn step(&mut self, step: Step) {
        let machine = &mut self.machine;
        match step {
            Step::Create { process, gpu } => {
                let args = CreateQueueArgs { gpu_id: machine.gpu_id(gpu), ..args(machine) };
                self.call(process, args, false);
            }
            Step::Destroy { process, id, abandon } => {
                self.call(process, DestroyQueueArgs { queue_id: id, pad: 0 }, abandon);
            }
            Step::Update { process, id, percent } => {
                let args = UpdateQueueArgs {
                    queue_id: id,
                    ring_base_address: RING,
                    ring_size: 0x10000,
                    queue_percentage: percent,
                    queue_priority: 7,
                };
                self.call(process, args, false);
            }
            Step::Runtime { process, enable, abandon } => {
                let mode_mask = if enable { RuntimeMode::ENABLE } else { RuntimeMode::EMPTY };
                self.call(process, RuntimeEnableArgs { mode_mask, ..RuntimeEnableArgs::ZERO }, abandon);
            }
            Step::Enable { debugger, target, attached, mask } => {
                let args = Enable { exception_mask: ExceptionMask(mask), ..Enable::ZERO };
                let mut call = Call::new(&DbgTrapArgs::new(KEYS[target].pid, args));
                (call.fd, call.traces_target) = (Some(FdKind::Other), attached);
                machine.trap_call::<Enable>(KEYS[debugger], call, &[]);
            }
            Step::Trap { caller, target, op, mask, ids } => {
                let debugger = machine.driver.process(KEYS[target]).unwrap().debug.debugger;
                let caller = caller.map_or(debugger.unwrap_or(KEYS[target]), |caller| KEYS[caller]);
                let words = match op {
                    6 => [mask, 0x1000, 3 | 7 << 32],
                    7 if mask == 0 => [0; 3],
                    7 => [0x1000, 3, 0],
                    13 | 14 => [mask, 0x1000, 2 | 64 << 32],
                    _ => [mask, u64::from(ids[0]) | u64::from(ids[1]) << 32, 0],
                };
                let args = DbgTrapArgs { pid: KEYS[target].pid, op: TrapOp(op), args: kfd_abi::Union(words) };
                machine.trap_call::<SuspendQueues>(caller, Call::new(&args), &bytes(&ids));
            }
            Step::Close { process } => {
                let key = KEYS[process];
                machine.driver.close(key);
                self.waiting.retain(|(waiting, ..)| *waiting != key);
                self.machine.driver.open(key).unwrap();
                for gpu in 0..2 {
                    self.machine.acquire(key, gpu).ok();
                }
                self.machine.add_queues(key, &[]);
            }
        }
        // Calls that wait are tried again.
        for (key, nr, mut call) in std::mem::take(&mut self.waiting) {
            let _ = self.machine.driver.retry(key, nr, &mut call);
            if call.blocked.is_some() {
                self.waiting.push((key, nr, call));
            }
        }
    }

    fn check(&self) {
        let driver = &self.machine.driver;
        for (key, process) in &driver.processes {
            let suspended = process.queues.values().filter(|queue| queue.suspended).count();
            let debuggable = process.debug.enabled && process.runtime.state == RuntimeState::ENABLED;
            assert!(suspended == 0 || debuggable, "{key:?}");
            let waits = |id| {
                self.waiting
                    .iter()
                    .any(|(waiting, _, call)| waiting == key && call.blocked == Some(Blocked::DestroyQueue { id }))
            };
            for queue in process.queues.values() {
                let on_runlist = driver.runlist(queue.spec.gpu).groups.iter().flatten().any(|mapped| {
                    mapped.process == *key && mapped.queues.iter().any(|mapped| mapped.id == queue.spec.id)
                });
                assert_eq!(on_runlist, process.is_active(queue));
                // Every queue that is to be destroyed is one that a call waits for, and that is stopped.
                assert_eq!(queue.being_destroyed, waits(queue.spec.id));
                assert!(!queue.being_destroyed || queue.suspended);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_history_leaves_a_queue_stopped_without_a_debugger(steps in steps()) {
        let mut history = History::new();
        for step in steps {
            history.step(step);
            history.check();
        }
        let debuggers: Vec<_> = history.machine.driver.processes.keys().copied().collect();
        for key in debuggers {
            history.machine.driver.close(key);
            history.waiting.retain(|(waiting, ..)| *waiting != key);
        }
        prop_assert!(history.machine.driver.gpus.iter().all(|gpu| gpu.queues == 0 && gpu.vram_used == 0));
    }

    /// Without a second debugger that takes the process over, the debugger's death ends it.
    #[test]
    fn after_the_debugger_nothing_is_stopped(steps in steps()) {
        let mut history = History::new();
        for step in steps {
            let theft = matches!(step, Step::Enable { target, .. } if history.machine.is_debugged(KEYS[target]));
            if !theft {
                history.step(step);
            }
        }
        for debugger in KEYS {
            let targets: Vec<ProcessKey> = {
                let processes = history.machine.driver.processes.iter();
                processes.filter(|(_, process)| process.debug.debugger == Some(debugger)).map(|(key, _)| *key).collect()
            };
            history.machine.driver.close(debugger);
            for target in targets.into_iter().filter(|target| *target != debugger) {
                prop_assert!(!history.machine.is_debugged(target));
                prop_assert_eq!(history.machine.suspended(target), Vec::<u32>::new());
            }
        }
    }

    #[test]
    fn no_bytes_make_a_debugger_call_panic(
        calls in prop::collection::vec((0..16_u32, any::<[u64; 3]>(), any::<[u8; 3]>(), 0..300_usize), 1..40),
    ) {
        let mut machine = Machine::debugged();
        for (op, mut words, [small, readable, gpu], length) in calls {
            // Small numbers pass for counts and ids more often than large ones.
            words.iter_mut().enumerate().filter(|(at, _)| small >> at & 1 == 1).for_each(|(_, word)| *word &= 0x40_0000_0007);
            if gpu & 1 == 1 {
                words[1] = u64::from(machine.gpu_id(0)) << if gpu & 2 == 2 { 32 } else { 0 };
            }
            let args = DbgTrapArgs { pid: ALICE.pid, op: TrapOp(op), args: kfd_abi::Union(words) };
            let mut call = Call::new(&args);
            call.args.truncate(length.max(8));
            (call.fd, call.traces_target) = (Some(FdKind::Other), true);
            let lens: Vec<usize> = match buffers(NR, &call.args) {
                Ok(specs) => specs.iter().map(|spec| spec.len).collect(),
                Err(_) => continue,
            };
            if readable & 1 == 1 {
                call.buffers = lens.iter().map(|len| vec![1; *len]).collect();
            }
            let result = machine.driver.ioctl(BOB, NR, &mut call);
            prop_assert!(result.is_err() || call.buffers.iter().zip(&lens).all(|(buffer, len)| buffer.len() <= *len));
            prop_assert!(call.blocked.is_none());
        }
    }
}

impl Machine {
    fn is_debugged(&self, process: ProcessKey) -> bool {
        self.driver.process(process).is_ok_and(|process| process.debug.enabled)
    }
}

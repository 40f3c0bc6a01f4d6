//! An actor: a process that uses the gpu as its director says. Each line of input is an order, each answer is one line.
//!
//! Queues are named by their driver's number, jobs and gates by the order of their creation, from 0.
//!
//! | order | effect, answer |
//! |---|---|
//! | `open` | opens the driver |
//! | `execute` | replaces the process by the same program from its beginning |
//! | `runtime on\|off` | offers the runtime to debuggers, or withdraws it |
//! | `queue PRIORITY [GPU]` | creates a compute queue; its number |
//! | `walk QUEUE GROUPS [silent]` | starts a job, a kernel that runs until `enough`; silent: without a signal |
//! | `enough` | lets all jobs end |
//! | `done JOB`, `wait JOB` | whether it completed; waits and answers `right` or what is wrong |
//! | `gate QUEUE [value]` | a barrier packet that waits for `fire`: a signal of zero, or one of a value |
//! | `passed GATE`, `fire` | whether the queue has passed a gate; lets all gates pass |
//! | `copy`, `begin-copy`, `copying`, `copied` | copies and waits; begins; whether copies are under way; waits |
//! | `destroy QUEUE`, `update ...`, `cu-mask ...`, `wave-state ...` | calls of a queue's owner |
//! | `context`, `close-context` | makes a context beside the first; ends it |
//! | `hide` | allows tracing to privileged processes alone |
//! | `descriptor`, `kernel` | descriptor of the driver; address of the kernel's descriptor |
//! | `trace PID`, `debug`, `disable`, `snapshot`, `suspend QUEUE` | a debug session with another process |

use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::time::Duration;

use kfd::ptrace::Tracee;
use kfd::{ExceptionMask, Grace, Kfd, Pid, QueueId};
use kfd_abi::debug::{RuntimeEnableArgs, RuntimeMode};
use kfd_abi::ioctl::{Argument, CREATE_PROCESS};
use kfd_abi::queue::{DestroyQueueArgs, GetQueueWaveStateArgs, SetCuMaskArgs, UpdateQueueArgs};
use kfd_runtime::{
    Arguments, Buffer, CodeObject, CopyQueue, Executable, Launch, Order, Placement, Queue, Runtime, Signal,
};
use kfd_suite::suite;

/// Precedes an answer, to tell it from what the test harness prints.
pub const MARK: &str = "<actor>";

/// How long a job may take while all others are at work.
const LIMIT: Duration = Duration::from_secs(120);
const LANES: u32 = 64;
/// Bytes of one copy, and copies at a time.
const BYTES: usize = 32 << 20;
const COPIES: i64 = 8;

/// Why an order failed: the number of an error, or words.
enum Failure {
    Errno(i32),
    Words(String),
}

type Result<T> = std::result::Result<T, Failure>;

impl From<kfd_runtime::Error> for Failure {
    fn from(error: kfd_runtime::Error) -> Failure {
        match &error {
            kfd_runtime::Error::Call { source, .. } => source.into(),
            _ => Failure::Words(error.to_string()),
        }
    }
}

impl From<kfd::Error> for Failure {
    fn from(error: kfd::Error) -> Failure {
        error.errno().map_or_else(|| Failure::Words(error.to_string()), Failure::Errno)
    }
}

impl From<&std::io::Error> for Failure {
    fn from(error: &std::io::Error) -> Failure {
        error.raw_os_error().map_or_else(|| Failure::Words(error.to_string()), Failure::Errno)
    }
}

/// Carries out orders until the standard input ends.
///
/// # Panics
/// If an order is unknown, or the director forgot one before it.
pub fn perform() {
    catch_user_signals();
    vgpu::sys::allow_tracing();
    answer("ready");
    let mut actor = Actor::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        let words: Vec<&str> = line.split(' ').collect();
        match actor.obey(words[0], &words[1..]) {
            Ok(said) => answer(&said),
            Err(Failure::Errno(errno)) => answer(&format!("errno {errno}")),
            Err(Failure::Words(words)) => answer(&format!("failed: {words}")),
        }
    }
}

fn answer(text: &str) {
    println!("{MARK}{text}");
    std::io::stdout().flush().expect("the director listens");
}

/// Lets SIGUSR1 interrupt a waiting call and do nothing else.
fn catch_user_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all bytes zero is a valid action without flags; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

/// Calls the driver once, whatever interrupts it: the director may want to see `EINTR`.
fn call<A: Argument>(kfd: &File, args: &mut A) -> Result<()> {
    // SAFETY: addresses in the argument are those of memory of this process.
    unsafe { kfd::device::call_once(kfd, args) }.map(drop).map_err(|error| (&error).into())
}

fn open_driver() -> File {
    File::options().read(true).write(true).open("/dev/kfd").expect("there is a gpu")
}

/// Opens the driver once more, for a context of its own.
fn new_context() -> Result<File> {
    let file = open_driver();
    // SAFETY: the call takes no argument.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), CREATE_PROCESS.request().0.into()) };
    if result == 0 { Ok(file) } else { Err((&std::io::Error::last_os_error()).into()) }
}

/// A queue with the program that walks, so that a job needs nothing but a packet.
struct Way {
    queue: Queue,
    program: Executable,
}

/// A walk under way.
struct Job {
    way: u32,
    groups: u32,
    out: Buffer,
    taken: Buffer,
    enough: Buffer,
    _arguments: Buffer,
    done: Signal,
    silent: bool,
}

/// Copies under way.
struct Copies {
    queue: CopyQueue,
    from: Buffer,
    to: Buffer,
    done: Signal,
}

/// A barrier packet in a queue.
struct Gate {
    /// What the packet waits for, and the value that lets it pass.
    signal: Signal,
    passing: i64,
    /// Fires when the packet has completed.
    passed: Signal,
}

/// A debug session with another process, from the thread that traces it.
struct Debugger {
    kfd: Arc<Kfd>,
    leader: Tracee,
}

impl Debugger {
    fn call<T: Send + 'static>(&self, job: impl FnOnce(&Kfd, Pid) -> kfd::Result<T> + Send + 'static) -> Result<T> {
        let (kfd, pid) = (Arc::clone(&self.kfd), self.leader.pid());
        Ok(self.leader.run(move || job(&kfd, pid))??)
    }
}

#[derive(Default)]
struct Actor {
    debugger: Option<Debugger>,
    kfd: Option<File>,
    /// The driver, opened for a context of its own.
    context: Option<File>,
    runtime: Option<Runtime>,
    ways: Vec<Way>,
    jobs: Vec<Job>,
    copies: Option<Copies>,
    gates: Vec<Gate>,
}

impl Actor {
    fn kfd(&self) -> &File {
        self.kfd.as_ref().expect("the director said open before")
    }

    fn debugger(&self) -> &Debugger {
        self.debugger.as_ref().expect("the director said trace before")
    }

    fn way(&mut self, id: u32) -> &mut Way {
        self.ways.iter_mut().find(|way| way.queue.id() == id).expect("the director knows the queues")
    }

    fn obey(&mut self, verb: &str, words: &[&str]) -> Result<String> {
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        let small = |index: usize| number(index) as u32;
        let mut said = String::new();
        match verb {
            "open" => {
                self.kfd = Some(open_driver());
                self.runtime = Some(Runtime::open()?);
            }
            "execute" => {
                // The same program from its beginning, in this process.
                let mut arguments = std::env::args_os();
                let program = arguments.next().expect("it has a name");
                let error = std::process::Command::new(program).args(arguments).exec();
                return Err((&error).into());
            }
            "runtime" => {
                let mode = if words[0] == "on" { RuntimeMode::ENABLE } else { RuntimeMode(0) };
                call(self.kfd(), &mut RuntimeEnableArgs { mode_mask: mode, ..RuntimeEnableArgs::default() })?;
            }
            "queue" => said = self.create(small(0), words.get(1).map_or(0, |gpu| gpu.parse().expect("a number")))?,
            "walk" => {
                let job = self.start(small(0), small(1), words.get(2) == Some(&"silent"))?;
                self.jobs.push(job);
            }
            "copy" => {
                self.begin_copy()?;
                self.end_copy()?;
            }
            "begin-copy" => self.begin_copy()?,
            "copying" => {
                let done = self.copies.as_ref().map(|copies| copies.done.value()).transpose()?;
                said = done.is_some_and(|left| left > 0).to_string();
            }
            "copied" => self.end_copy()?,
            "enough" => {
                for job in &mut self.jobs {
                    job.enough.write(0, &1u32.to_le_bytes())?;
                }
            }
            "gate" => {
                let gate = self.gate(small(0), words.get(1) == Some(&"value"))?;
                self.gates.push(gate);
            }
            "passed" => said = (self.gates[number(0) as usize].passed.value()? == 0).to_string(),
            "fire" => self.gates.iter().try_for_each(|gate| gate.signal.set(gate.passing))?,
            "done" => said = (self.jobs[number(0) as usize].done.value()? == 0).to_string(),
            "wait" => said = self.finish(number(0) as usize)?,
            "destroy" | "update" | "cu-mask" | "wave-state" => said = self.change_queue(verb, words)?,
            "context" => self.context = Some(new_context()?),
            "close-context" => self.context = None,
            "hide" => {
                nix::sys::prctl::set_dumpable(false).map_err(|error| Failure::Errno(error as i32))?;
            }
            "descriptor" => said = self.kfd().as_raw_fd().to_string(),
            "kernel" => said = self.ways[0].program.kernel("walk")?.descriptor.0.to_string(),
            other => said = self.debug(other, words)?,
        }
        Ok(said)
    }

    /// Orders that a queue's owner gives the driver.
    fn change_queue(&mut self, verb: &str, words: &[&str]) -> Result<String> {
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        let small = |index: usize| number(index) as u32;
        let mut said = String::new();
        match verb {
            "destroy" => {
                call(self.kfd(), &mut DestroyQueueArgs { queue_id: small(0), pad: 0 })?;
                self.ways.retain(|way| way.queue.id() != small(0));
            }
            "update" => {
                let (ring_base_address, ring_size) = (number(1), small(2));
                let (queue_percentage, queue_priority) = (small(3), small(4));
                let queue_id = small(0);
                let mut args =
                    UpdateQueueArgs { ring_base_address, queue_id, ring_size, queue_percentage, queue_priority };
                call(self.kfd(), &mut args)?;
            }
            "cu-mask" => {
                let mask = [number(1)];
                let cu_mask_ptr = mask.as_ptr().expose_provenance() as u64;
                call(self.kfd(), &mut SetCuMaskArgs { queue_id: small(0), num_cu_mask: 64, cu_mask_ptr })?;
            }
            "wave-state" => {
                let mut args = GetQueueWaveStateArgs {
                    queue_id: small(0),
                    ctl_stack_address: number(1),
                    ..GetQueueWaveStateArgs::default()
                };
                call(self.kfd(), &mut args)?;
                said = format!("{} {}", args.ctl_stack_used_size, args.save_area_used_size);
            }
            other => panic!("unknown order {other}"),
        }
        Ok(said)
    }

    /// Orders about another process.
    fn debug(&mut self, verb: &str, words: &[&str]) -> Result<String> {
        let small = |index: usize| words[index].parse::<u32>().expect("a number");
        let mut said = String::new();
        match verb {
            "trace" => {
                let leader = Tracee::seize(Pid(small(0)), |_| ())?;
                self.debugger = Some(Debugger { kfd: Arc::new(Kfd::open()?), leader });
            }
            "debug" => {
                let (_, notify) = std::io::pipe().map_err(|error| Failure::from(&error))?;
                self.debugger().call(move |kfd, pid| kfd.enable(pid, ExceptionMask::EMPTY, &notify))?;
            }
            "disable" => self.debugger().call(Kfd::disable)?,
            "snapshot" => {
                let queues = self.debugger().call(|kfd, pid| kfd.queue_snapshot(pid, ExceptionMask::QUEUE_NEW))?;
                said = queues.len().to_string();
            }
            "suspend" => {
                let queue = QueueId(small(0));
                let batch = self.debugger().call(move |kfd, pid| kfd.suspend_queues(pid, &[queue], Grace::SHORTEST))?;
                said = batch.all_done().to_string();
            }
            other => panic!("unknown order {other}"),
        }
        Ok(said)
    }

    fn gate(&mut self, queue: u32, by_value: bool) -> Result<Gate> {
        let queue = &mut self.way(queue).queue;
        let passed = Signal::new(queue.device(), 1)?;
        let (closed, passing) = if by_value { (3, 5) } else { (1, 0) };
        let signal = Signal::new(queue.device(), closed)?;
        if by_value {
            queue.barrier_value(&signal, passing, &passed)?;
        } else {
            queue.barrier_and(&[&signal], Order::AfterPrevious, &passed)?;
        }
        Ok(Gate { signal, passing, passed })
    }

    fn create(&mut self, priority: u32, gpu: usize) -> Result<String> {
        let runtime = self.runtime.as_ref().expect("the director said open before");
        let mut queue = Queue::with_priority(runtime.device(gpu)?, priority)?;
        let job = suite::find("walk").and_then(|test| test.job(1)).expect("in the suite");
        let program = Executable::load(&mut queue, &CodeObject::parse(job.object).expect("compiled"))?;
        let id = queue.id().to_string();
        self.ways.push(Way { queue, program });
        Ok(id)
    }

    /// Begins copies that are under way long enough to be seen.
    fn begin_copy(&mut self) -> Result<()> {
        if self.copies.is_none() {
            let device = self.runtime.as_ref().expect("the director said open before").device(0)?;
            let buffer = || device.allocate(BYTES, Placement::Gtt);
            let (queue, done) = (CopyQueue::new(device)?, Signal::new(device, 0)?);
            self.copies = Some(Copies { queue, from: buffer()?, to: buffer()?, done });
        }
        let Some(Copies { queue, from, to, done }) = &mut self.copies else { return Ok(()) };
        done.set(COPIES)?;
        for _ in 0..COPIES {
            queue.copy(from, to, BYTES, done)?;
        }
        Ok(())
    }

    fn end_copy(&self) -> Result<()> {
        let Some(Copies { queue, done, .. }) = &self.copies else { return Ok(()) };
        Ok(queue.wait(done, LIMIT)?)
    }

    fn start(&mut self, way: u32, groups: u32, silent: bool) -> Result<Job> {
        let Way { queue, program } = self.way(way);
        let kernel = program.kernel("walk")?;
        let device = queue.device().clone();
        let bytes = (groups * LANES * 4) as usize;
        let out = device.allocate(bytes, Placement::Uncached)?;
        let taken = device.allocate(bytes, Placement::Uncached)?;
        let mut enough = device.allocate(4, Placement::Uncached)?;
        enough.write(0, &0u32.to_le_bytes())?;
        let block = Arguments::default().address(out.address()).address(taken.address()).address(enough.address());
        let block = block.u32(0).block(kernel.argument_bytes);
        let mut arguments = device.allocate(block.len(), Placement::Uncached)?;
        arguments.write(0, &block)?;
        let done = Signal::new(&device, 1)?;
        let launch = Launch::linear(groups, LANES as u16);
        let completion = (!silent).then_some(&done);
        queue.dispatch(&kernel, arguments.address(), &launch, Order::AfterPrevious, completion)?;
        Ok(Job { way, groups, out, taken, enough, _arguments: arguments, done, silent })
    }

    /// Waits for a job, unless it is silent: nothing but its waves tells of its end. Returns "right", or how many items
    /// are wrong and of the first of them its number, the steps it took and its value.
    fn finish(&mut self, job: usize) -> Result<String> {
        let job = &self.jobs[job];
        let way = self.ways.iter().find(|way| way.queue.id() == job.way).expect("not destroyed");
        if !job.silent {
            way.queue.wait(&job.done, LIMIT)?;
        }
        let items = job.groups * LANES;
        let words = |buffer: &Buffer| -> Result<Vec<u32>> {
            let bytes = buffer.read(0, items as usize * 4)?;
            Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
        };
        let (out, taken) = (words(&job.out)?, words(&job.taken)?);
        let wrong = |item: &u32| {
            let (found, steps) = (out[*item as usize], taken[*item as usize]);
            steps == 0 || found != suite::walk_result(*item, steps)
        };
        let wrong: Vec<u32> = (0..items).filter(wrong).collect();
        Ok(match wrong.first() {
            None => "right".to_owned(),
            Some(&first) => format!("wrong {} {first} {} {}", wrong.len(), taken[first as usize], out[first as usize]),
        })
    }
}

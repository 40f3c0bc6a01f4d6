//! A process that uses the gpu as its director says, one line each, and answers each with one.

use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::time::Duration;

use kfd::ptrace::Tracee;
use kfd::{ExceptionMask, Grace, Kfd, Pid, QueueId};
use kfd_abi::debug::{RuntimeEnableArgs, RuntimeMode};
use kfd_abi::ioctl::{Argument, Request};
use kfd_abi::queue::{DestroyQueueArgs, GetQueueWaveStateArgs, SetCuMaskArgs, UpdateQueueArgs};
use kfd_runtime::{
    Arguments, Buffer, CodeObject, CopyQueue, Executable, Launch, Order, Placement, Queue, Runtime, Signal,
};
use kfd_suite::suite;

/// What comes before an answer, so that it is told from what the test harness prints.
pub(super) const MARK: &str = "<actor>";

/// How long a job may take while everybody else is at work.
const LIMIT: Duration = Duration::from_secs(120);
const LANES: u32 = 64;
/// Bytes of one copy, and copies at a time.
const BYTES: usize = 32 << 20;
const COPIES: i64 = 8;

/// Why something did not work: the number of an error, or words.
enum Refusal {
    Errno(i32),
    Words(String),
}

type Result<T> = std::result::Result<T, Refusal>;

impl From<kfd_runtime::Error> for Refusal {
    fn from(error: kfd_runtime::Error) -> Refusal {
        match &error {
            kfd_runtime::Error::Call { source, .. } => source.into(),
            _ => Refusal::Words(error.to_string()),
        }
    }
}

impl From<kfd::Error> for Refusal {
    fn from(error: kfd::Error) -> Refusal {
        error.errno().map_or_else(|| Refusal::Words(error.to_string()), Refusal::Errno)
    }
}

impl From<&std::io::Error> for Refusal {
    fn from(error: &std::io::Error) -> Refusal {
        error.raw_os_error().map_or_else(|| Refusal::Words(error.to_string()), Refusal::Errno)
    }
}

/// Does what is asked until there is nothing more.
pub(super) fn perform() {
    catch_user_signals();
    vgpu::sys::allow_tracing();
    answer("ready");
    let mut actor = Actor::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        let words: Vec<&str> = line.split(' ').collect();
        match actor.obey(words[0], &words[1..]) {
            Ok(said) => answer(&said),
            Err(Refusal::Errno(errno)) => answer(&format!("errno {errno}")),
            Err(Refusal::Words(words)) => answer(&format!("failed: {words}")),
        }
    }
}

fn answer(text: &str) {
    println!("{MARK}{text}");
    std::io::stdout().flush().expect("somebody listens");
}

/// A signal ends a call that waits, and does nothing else.
fn catch_user_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all bytes zero is a valid action without flags; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

/// Calls the driver once, whatever interrupts it.
fn call<A: Argument>(kfd: &File, args: &mut A) -> Result<()> {
    let Request(request) = A::COMMAND.request();
    // SAFETY: the argument is as large as the request says; addresses in it are those of memory of this process.
    let result = unsafe { libc::ioctl(kfd.as_raw_fd(), request.into(), std::ptr::from_mut(args)) };
    if result < 0 {
        return Err((&std::io::Error::last_os_error()).into());
    }
    Ok(())
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
    runtime: Option<Runtime>,
    ways: Vec<Way>,
    jobs: Vec<Job>,
    copies: Option<Copies>,
    /// What queues wait for, and what fires when they have passed it.
    gates: Vec<(Signal, Signal)>,
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
                self.kfd = Some(File::options().read(true).write(true).open("/dev/kfd").expect("there is a gpu"));
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
            "copy" => self.copy()?,
            "enough" => {
                for job in &mut self.jobs {
                    job.enough.write(0, &1u32.to_le_bytes())?;
                }
            }
            "gate" => {
                let queue = &mut self.way(small(0)).queue;
                let (gate, passed) = (Signal::new(queue.device(), 1)?, Signal::new(queue.device(), 1)?);
                queue.barrier_and(&[&gate], Order::AfterPrevious, &passed)?;
                self.gates.push((gate, passed));
            }
            "passed" => said = (self.gates[number(0) as usize].1.value()? == 0).to_string(),
            "fire" => self.gates.iter().try_for_each(|(gate, _)| gate.set(0))?,
            "done" => said = (self.jobs[number(0) as usize].done.value()? == 0).to_string(),
            "wait" => said = self.finish(number(0) as usize)?,
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
            // From now on only those with special rights may trace it or look into it.
            "hide" => {
                nix::sys::prctl::set_dumpable(false).map_err(|error| Refusal::Errno(error as i32))?;
            }
            "descriptor" => said = self.kfd().as_raw_fd().to_string(),
            "kernel" => said = self.ways[0].program.kernel("walk")?.descriptor.0.to_string(),
            "trace" => {
                let leader = Tracee::seize(Pid(small(0)), |_| ())?;
                self.debugger = Some(Debugger { kfd: Arc::new(Kfd::open()?), leader });
            }
            "debug" => {
                let (_, notify) = std::io::pipe().map_err(|error| Refusal::from(&error))?;
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
            other => panic!("nobody taught {other}"),
        }
        Ok(said)
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

    /// Copies for a while, and waits for it.
    fn copy(&mut self) -> Result<()> {
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

    /// Waits for a job, unless it is silent: nothing but its waves tells of its end. "right", or how many items are wrong and the first of them: its number, the steps it took, what
    /// it holds.
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

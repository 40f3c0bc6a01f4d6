//! Other programs on the same virtual GPU: this executable again, with tasks that end when their input does.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use kfd_runtime::{Launch, Queue, Result, Runtime};
use serde_json::{Value, json};
use vgpu::sys::{self, Map};

use crate::client::{self, Program};

const PAGE: usize = 4096;
/// Loops of a kernel that never ends by itself within a bench.
pub(crate) const ENDLESS: u32 = u32::MAX;

/// A program that is ready. Ends when dropped.
pub(crate) struct Other(Child);

impl Other {
    /// Starts a task of [`client::main`] and waits until it is ready.
    pub(crate) fn start(arguments: &[&str]) -> io::Result<Self> {
        let mut other = Self::begin(arguments)?;
        other.await_ready()?;
        Ok(other)
    }

    /// Several at once.
    pub(crate) fn start_many(arguments: &[&str], count: usize) -> io::Result<Vec<Self>> {
        let mut others = (0..count).map(|_| Self::begin(arguments)).collect::<io::Result<Vec<_>>>()?;
        others.iter_mut().try_for_each(Self::await_ready)?;
        Ok(others)
    }

    fn begin(arguments: &[&str]) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(client::OPTION).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().map(Self)
    }

    fn await_ready(&mut self) -> io::Result<()> {
        let mut line = String::new();
        let stdout = self.0.stdout.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        BufReader::new(stdout).read_line(&mut line)?;
        if line == READY { Ok(()) } else { Err(io::Error::other(format!("another program failed: {line}"))) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the program is a child that has not been waited for, so the pid is still its own.
        unsafe { libc::kill(self.pid() as i32, signal) };
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Those that sleep in a kernel of their own do not see the end of their input.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const READY: &str = "ready\n";

/// Says that this program is ready; true when it is to end.
fn ready() -> Arc<AtomicBool> {
    print!("{READY}");
    // If this fails, the parent does not read any more, and then the input ends, too.
    let _ = io::Write::flush(&mut io::stdout());
    let ended = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&ended);
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        set.store(true, Ordering::Relaxed);
    });
    ended
}

/// Has a queue and does nothing.
pub(crate) fn idle() -> Result<Value> {
    let runtime = Runtime::open()?;
    let _queue = Queue::new(runtime.device(0)?)?;
    sys::allow_tracing();
    ready();
    loop {
        std::thread::park();
    }
}

/// Runs kernels one after the other: workgroups of a wave, loops of each, where finished workgroups are counted.
pub(crate) fn busy(arguments: &[String]) -> Result<Value> {
    let number = |n: usize| arguments.get(n).and_then(|text| text.parse::<u32>().ok());
    let (Some(groups), Some(loops)) = (number(0), number(1)) else {
        return Ok(json!({ "error": "needs workgroups and loops" }));
    };
    let shared = arguments.get(2).and_then(|path| Shared::open(Path::new(path)).ok());
    let mut program = Program::new(client::bench()?, "spin", &[loops])?;
    sys::allow_tracing();
    let ended = ready();
    while !ended.load(Ordering::Relaxed) {
        program.run(&Launch::linear(groups, 64))?;
        if let Some(shared) = &shared {
            shared.count().fetch_add(groups.into(), Ordering::Relaxed);
        }
    }
    Ok(Value::Null)
}

/// Answers every change of a word.
pub(crate) fn pong(arguments: &[String]) -> Result<Value> {
    let Some(Ok(shared)) = arguments.first().map(|path| Shared::open(Path::new(path))) else {
        return Ok(json!({ "error": "needs shared memory" }));
    };
    let ended = ready();
    let mut answered = 0;
    while !ended.load(Ordering::Relaxed) {
        let asked = shared.ping().load(Ordering::Acquire);
        if asked == answered {
            sys::wait(shared.ping(), asked, Some(Duration::from_millis(100)));
            continue;
        }
        answered = asked;
        shared.pong().store(asked, Ordering::Release);
        sys::wake(shared.pong());
    }
    Ok(Value::Null)
}

/// A page that programs share through a file.
pub(crate) struct Shared(Map);

impl Shared {
    /// The page of a file, which is made if need be.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len(PAGE as u64)?;
        Map::new(file.as_fd(), 0, PAGE).map(Self)
    }

    /// Finished workgroups.
    pub(crate) fn count(&self) -> &AtomicU64 {
        // SAFETY: an aligned word of the page, which lives as long as this and is accessed through atomics only.
        unsafe { &*self.0.start().cast() }
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: an aligned word of the page, behind the count; the page lives as long as this and is accessed through
        // atomics only.
        unsafe { &*self.0.start().add(64 * (1 + index)).cast() }
    }

    fn ping(&self) -> &AtomicU32 {
        self.word(0)
    }

    fn pong(&self) -> &AtomicU32 {
        self.word(1)
    }

    /// Wakes [`pong`] and waits for its answer.
    pub(crate) fn round_trip(&self) {
        let asked = self.ping().load(Ordering::Relaxed).wrapping_add(1);
        self.ping().store(asked, Ordering::Release);
        sys::wake(self.ping());
        loop {
            let answered = self.pong().load(Ordering::Acquire);
            if answered == asked {
                return;
            }
            sys::wait(self.pong(), answered, Some(Duration::from_millis(100)));
        }
    }
}

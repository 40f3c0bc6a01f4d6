//! A process that uses the gpu as its director says, one line each, and answers each with one.

use std::io::{BufRead, Write};
use std::time::Duration;

use kfd_runtime::{
    Arguments, Buffer, CodeObject, CopyQueue, Executable, Launch, Order, Placement, Queue, Result, Runtime, Signal,
};
use kfd_suite::suite;

/// What comes before an answer, so that it is told from what the test harness prints.
pub(super) const MARK: &str = "<actor>";

const LIMIT: Duration = Duration::from_secs(120);
const LANES: u32 = 64;
const GROUPS: u32 = 64;
/// Bytes of one copy, and copies at a time: long enough to be seen under way.
const BYTES: usize = 32 << 20;
const COPIES: i64 = 8;

/// Does what is asked until there is nothing more.
pub(super) fn perform() {
    vgpu::sys::allow_tracing();
    answer("ready");
    let mut actor: Option<Actor> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "open" {
            actor = Some(Actor::new().expect("there is a gpu"));
            answer("");
            continue;
        }
        let actor = actor.as_mut().expect("the director said open before");
        answer(&actor.obey(words[0], words.get(1).copied().unwrap_or_default()).expect("works"));
    }
}

fn answer(text: &str) {
    println!("{MARK}{text}");
    std::io::stdout().flush().expect("somebody listens");
}

struct Actor {
    queue: Queue,
    program: Executable,
    /// What the walk uses.
    enough: Buffer,
    arguments: Buffer,
    _out: [Buffer; 2],
    done: Signal,
    silent: bool,
    /// What a wait waits for: the value that lets it pass, and its own end.
    gate: Signal,
    passing: i64,
    passed: Signal,
    copies: CopyQueue,
    from: Buffer,
    to: Buffer,
    copied: Signal,
    _runtime: Runtime,
}

impl Actor {
    fn new() -> Result<Actor> {
        let runtime = Runtime::open()?;
        let device = runtime.device(0)?.clone();
        let mut queue = Queue::new(&device)?;
        let job = suite::find("walk").and_then(|test| test.job(1)).expect("in the suite");
        let program = Executable::load(&mut queue, &CodeObject::parse(job.object)?)?;
        let bytes = (GROUPS * LANES * 4) as usize;
        let out = [device.allocate(bytes, Placement::Uncached)?, device.allocate(bytes, Placement::Uncached)?];
        let enough = device.allocate(4, Placement::Uncached)?;
        let block = out.iter().fold(Arguments::default(), |block, buffer| block.address(buffer.address()));
        let block = block.address(enough.address()).u32(0).block(program.kernel("walk")?.argument_bytes);
        let mut arguments = device.allocate(block.len(), Placement::Uncached)?;
        arguments.write(0, &block)?;
        Ok(Actor {
            program,
            enough,
            arguments,
            _out: out,
            done: Signal::new(&device, 0)?,
            silent: false,
            gate: Signal::new(&device, 0)?,
            passing: 0,
            passed: Signal::new(&device, 0)?,
            copies: CopyQueue::new(&device)?,
            from: device.allocate(BYTES, Placement::Gtt)?,
            to: device.allocate(BYTES, Placement::Gtt)?,
            copied: Signal::new(&device, 0)?,
            queue,
            _runtime: runtime,
        })
    }

    fn obey(&mut self, verb: &str, word: &str) -> Result<String> {
        let mut said = String::new();
        match verb {
            "walk" => self.walk(word == "silent")?,
            "enough" => {
                self.enough.write(0, &1u32.to_le_bytes())?;
                if !self.silent {
                    self.queue.wait(&self.done, LIMIT)?;
                }
            }
            "gate" => {
                self.passed.set(1)?;
                if word == "all" {
                    self.gate.set(1)?;
                    self.passing = 0;
                    self.queue.barrier_and(&[&self.gate], Order::AfterPrevious, &self.passed)?;
                } else {
                    self.gate.set(3)?;
                    self.passing = 5;
                    self.queue.barrier_value(&self.gate, self.passing, &self.passed)?;
                }
            }
            "fire" => self.gate.set(self.passing)?,
            "copy" => {
                self.copied.set(COPIES)?;
                for _ in 0..COPIES {
                    self.copies.copy(&self.from, &self.to, BYTES, &self.copied)?;
                }
            }
            "copying" => said = (self.copied.value()? > 0).to_string(),
            "copied" => self.copies.wait(&self.copied, LIMIT)?,
            other => panic!("nobody taught {other}"),
        }
        Ok(said)
    }

    /// Begins a kernel that goes on until it is told that it is enough.
    fn walk(&mut self, silent: bool) -> Result<()> {
        self.silent = silent;
        self.enough.write(0, &0u32.to_le_bytes())?;
        self.done.set(1)?;
        let completion = (!silent).then_some(&self.done);
        let launch = Launch::linear(GROUPS, LANES as u16);
        let kernel = self.program.kernel("walk")?;
        self.queue.dispatch(&kernel, self.arguments.address(), &launch, Order::AfterPrevious, completion)
    }
}

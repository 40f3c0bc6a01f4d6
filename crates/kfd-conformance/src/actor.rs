//! The suite's end of an actor: a process that it started, asked one thing at a time, with a limit for each answer.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use kfd_abi::Abi;
use kfd_abi::debug::{DbgTrapArgs, TrapArgs};
use kfd_abi::ioctl::{Argument, Request as IoctlRequest};

use crate::interrupt;
use crate::transcript::{self, Recorder};
use crate::verdict::{Verdict, broken, outcome};
use crate::wire::{Answer, Request};

/// Longest time an actor may take to answer. Calls that may block are made in a thread of the actor.
const LIMIT: Duration = Duration::from_secs(20);
/// How often a wait looks whether the run was interrupted.
const SLICE: Duration = Duration::from_millis(50);
/// Longest time that the suite waits until something becomes true.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time for an actor to end after it was killed.
const END: Duration = Duration::from_secs(5);
/// How often a condition is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(2);

/// A process of the suite. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Actor {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<String>,
    /// How long the last call took.
    nanoseconds: u64,
    recorder: Recorder,
    /// Its number among the processes of the test.
    number: u32,
    /// The call that it makes in a thread.
    began: Option<String>,
}

/// What a call answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<A> {
    /// Result, an error number negated.
    pub(crate) result: i64,
    /// The argument as the driver left it.
    pub(crate) args: A,
}

impl<A> Reply<A> {
    /// Requires success.
    pub(crate) fn ok(self, what: &str) -> Verdict<A> {
        if self.result < 0 {
            return broken(format_args!("{what}: {}", outcome(self.result)));
        }
        Ok(self.args)
    }

    /// Requires this error.
    pub(crate) fn fails(self, what: &str, errno: i32) -> Verdict<A> {
        let expected = -i64::from(errno);
        if self.result != expected {
            let (seen, expected) = (outcome(self.result), outcome(expected));
            return broken(format_args!("{what}: {seen} instead of {expected}"));
        }
        Ok(self.args)
    }

    /// Requires success with this count.
    pub(crate) fn returns(self, what: &str, count: i64) -> Verdict<A> {
        if self.result != count {
            let (seen, expected) = (outcome(self.result), outcome(count));
            return broken(format_args!("{what}: {seen} instead of {expected}"));
        }
        Ok(self.args)
    }
}

impl Actor {
    /// Starts an actor: this executable with the arguments that make it one.
    pub(crate) fn start(arguments: &[&str], recorder: &Recorder) -> Verdict<Actor> {
        let started = Command::new("/proc/self/exe")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => return broken(format_args!("cannot start a process: {error}")),
        };
        let (sender, answers) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            // Ends with the actor, or with the receiver.
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let requests = child.stdin.take();
        let (recorder, number) = (recorder.clone(), recorder.process());
        Ok(Actor { child, requests, answers, nanoseconds: 0, recorder, number, began: None })
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks for one thing and waits for the answer.
    pub(crate) fn ask(&mut self, request: &Request) -> Verdict<Answer> {
        let mut text = serde_json::to_vec(request).unwrap_or_default();
        text.push(b'\n');
        let sent = self.requests.as_mut().map(|pipe| pipe.write_all(&text).and_then(|()| pipe.flush()));
        if !matches!(sent, Some(Ok(()))) {
            return broken(format_args!("a process of the test ended before {}", name(request)));
        }
        let begun = Instant::now();
        let answer = loop {
            match self.answers.recv_timeout(SLICE) {
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < LIMIT && !interrupt::came() => {}
                answer => break answer,
            }
        };
        match answer {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(answer) => {
                    self.record(request, &answer);
                    Ok(answer)
                }
                Err(_) => broken(format_args!("a process of the test said {line:?} to {}", name(request))),
            },
            Err(RecvTimeoutError::Timeout) => broken(format_args!("{} did not return", name(request))),
            Err(RecvTimeoutError::Disconnected) => {
                broken(format_args!("a process of the test ended during {}", name(request)))
            }
        }
    }

    fn record(&mut self, request: &Request, answer: &Answer) {
        if let Request::Begin { request, args, .. } = request {
            self.began = Some(transcript::call_name(*request, Some(args)));
        }
        self.recorder.note(self.number, request, self.began.as_deref(), answer);
    }

    fn number(&mut self, request: &Request) -> Verdict<u64> {
        match self.ask(request)? {
            Answer::Number(number) => Ok(number),
            Answer::Refused(errno) => broken(format_args!("{}: {}", name(request), outcome(-i64::from(errno)))),
            other => broken(format_args!("{}: {other:?}", name(request))),
        }
    }

    /// Requires that a step succeeds.
    pub(crate) fn done(&mut self, request: &Request) -> Verdict {
        match self.ask(request)? {
            Answer::Done => Ok(()),
            Answer::Refused(errno) => broken(format_args!("{}: {}", name(request), outcome(-i64::from(errno)))),
            other => broken(format_args!("{}: {other:?}", name(request))),
        }
    }

    /// Opens a device node.
    pub(crate) fn open(&mut self, path: &str) -> Verdict<i32> {
        self.number(&Request::Open { path: path.to_owned() }).map(|fd| fd as i32)
    }

    fn called(&mut self, answer: Answer) -> Verdict<(i64, Vec<u8>)> {
        match answer {
            Answer::Called { result, args, nanoseconds } => {
                self.nanoseconds = nanoseconds;
                Ok((result, args))
            }
            other => broken(format_args!("a call came back as {other:?}")),
        }
    }

    /// Returns how long the last call took, in nanoseconds on the actor's clock.
    pub(crate) fn last_call(&self) -> u64 {
        self.nanoseconds
    }

    /// Makes a raw call.
    pub(crate) fn raw(&mut self, fd: i32, request: u32, args: Option<Vec<u8>>) -> Verdict<(i64, Vec<u8>)> {
        let answer = self.ask(&Request::Call { fd, request, args })?;
        self.called(answer)
    }

    /// Makes a call.
    pub(crate) fn call<A: Argument>(&mut self, fd: i32, args: A) -> Verdict<Reply<A>> {
        let IoctlRequest(request) = A::COMMAND.request();
        let (result, bytes) = self.raw(fd, request, Some(encode(&args)))?;
        Ok(Reply { result, args: A::decode(&bytes).unwrap_or(args) })
    }

    /// Makes a call in a forked child.
    pub(crate) fn call_forked<A: Argument>(&mut self, fd: i32, args: A) -> Verdict<Reply<A>> {
        let IoctlRequest(request) = A::COMMAND.request();
        let call = Request::Call { fd, request, args: Some(encode(&args)) };
        let answer = self.ask(&Request::Forked(Box::new(call)))?;
        let (result, bytes) = self.called(answer)?;
        Ok(Reply { result, args: A::decode(&bytes).unwrap_or(args) })
    }

    /// Makes a call of the debugger.
    pub(crate) fn trap<T: TrapArgs>(&mut self, fd: i32, pid: u32, args: T) -> Verdict<Reply<T>> {
        let reply = self.call(fd, DbgTrapArgs::new(pid, args))?;
        Ok(Reply { result: reply.result, args: reply.args.get().unwrap_or(args) })
    }

    /// Begins a call that may block.
    pub(crate) fn begin<A: Argument>(&mut self, fd: i32, args: A) -> Verdict {
        let IoctlRequest(request) = A::COMMAND.request();
        self.done(&Request::Begin { fd, request, args: encode(&args) })
    }

    /// Returns the result of the call that [`Actor::begin`] began; none if it has not returned within `limit`.
    pub(crate) fn result(&mut self, limit: Duration) -> Verdict<Option<i64>> {
        let begun = Instant::now();
        loop {
            match self.ask(&Request::Finish)? {
                Answer::Pending if begun.elapsed() < limit => std::thread::sleep(LOOK),
                Answer::Pending => return Ok(None),
                answer => return self.called(answer).map(|(result, _)| Some(result)),
            }
        }
    }

    /// Maps fresh memory.
    pub(crate) fn memory(&mut self, length: usize) -> Verdict<u64> {
        self.number(&Request::Map { at: None, length, file: None, accessible: true })
    }

    /// Reserves addresses.
    pub(crate) fn reserve(&mut self, length: usize) -> Verdict<u64> {
        self.number(&Request::Map { at: None, length, file: None, accessible: false })
    }

    /// Maps memory of a file where addresses were reserved, or elsewhere.
    pub(crate) fn map_file(&mut self, at: Option<u64>, length: usize, fd: i32, offset: u64) -> Verdict<u64> {
        self.number(&Request::Map { at, length, file: Some((fd, offset)), accessible: true })
    }

    /// Returns the error with which a mapping of a file is refused; 0 if it is not.
    pub(crate) fn map_refused(&mut self, length: usize, fd: i32, offset: u64) -> Verdict<i32> {
        match self.ask(&Request::Map { at: None, length, file: Some((fd, offset)), accessible: true })? {
            Answer::Refused(errno) => Ok(errno),
            _ => Ok(0),
        }
    }

    /// Reads its memory.
    pub(crate) fn read(&mut self, at: u64, length: usize) -> Verdict<Vec<u8>> {
        match self.ask(&Request::Read { at, length })? {
            Answer::Bytes(bytes) => Ok(bytes),
            other => broken(format_args!("memory cannot be read: {other:?}")),
        }
    }

    /// Reads a value of its memory.
    pub(crate) fn get<T: Abi>(&mut self, at: u64) -> Verdict<T> {
        let bytes = self.read(at, T::SIZE)?;
        T::decode(&bytes).map_or_else(|| broken("memory came back too short"), Ok)
    }

    /// Writes its memory.
    pub(crate) fn write(&mut self, at: u64, bytes: Vec<u8>) -> Verdict {
        self.done(&Request::Write { at, bytes })
    }

    /// Creates a pipe; the end to read from first.
    pub(crate) fn pipe(&mut self) -> Verdict<(i32, i32)> {
        match self.ask(&Request::Pipe)? {
            Answer::Pipe(source, end) => Ok((source, end)),
            other => broken(format_args!("no pipe: {other:?}")),
        }
    }

    /// Returns how many bytes were in a pipe.
    pub(crate) fn drain(&mut self, fd: i32) -> Verdict<usize> {
        match self.ask(&Request::Drain { fd })? {
            Answer::Bytes(bytes) => Ok(bytes.len()),
            other => broken(format_args!("no pipe: {other:?}")),
        }
    }

    /// Ends the process and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.requests = None;
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < END {
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn encode<T: Abi>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; T::SIZE];
    // The room is exactly as large as the value.
    let _ = value.encode(&mut bytes);
    bytes
}

/// Returns what a request does, for messages.
fn name(request: &Request) -> String {
    match request {
        Request::Open { path } => format!("open of {path}"),
        Request::Call { request, args, .. } => transcript::call_name(*request, args.as_deref()),
        Request::Begin { request, args, .. } => transcript::call_name(*request, Some(args)),
        Request::Map { .. } => "mmap".to_owned(),
        Request::Seize { .. } => "PTRACE_SEIZE".to_owned(),
        Request::Detach { .. } => "PTRACE_DETACH".to_owned(),
        other => format!("{other:?}").chars().take(24).collect(),
    }
}

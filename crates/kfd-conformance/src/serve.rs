//! An actor: a process that makes the calls a rule needs, one after the other, from its first thread.

use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::time::Instant;

use crate::sys;
use crate::wire::{Answer, Request};
use crate::work::Running;

/// What an actor does beside serving.
#[derive(Default)]
struct State {
    background: Option<Background>,
    work: Option<Running>,
}

/// A call in a thread of its own.
struct Background {
    thread: i32,
    result: mpsc::Receiver<Answer>,
}

/// Serves requests of stdin until it ends; the main function of an actor.
#[must_use]
pub fn actor_main() -> ExitCode {
    sys::become_actor();
    sys::handle_interrupts();
    let mut state = State::default();
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(request) = serde_json::from_str::<Request>(&line) else { return ExitCode::FAILURE };
        let exec = matches!(request, Request::Exec);
        let answer = serve(request, &mut state);
        if say(&mut out, &answer).is_err() {
            break;
        }
        if exec {
            let arguments: Vec<_> = std::env::args_os().skip(1).collect();
            // Returns only if it failed, and then the suite notices an actor that ended.
            let _ = Command::new("/proc/self/exe").args(arguments).exec();
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn say(out: &mut impl Write, answer: &Answer) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    out.write_all(&text)?;
    out.flush()
}

fn serve(request: Request, state: &mut State) -> Answer {
    let State { background, work } = state;
    match request {
        Request::BeginWork { groups, steps } => {
            *work = Some(Running::begin(groups, steps));
            Answer::Done
        }
        Request::WorkDone => match work.as_ref().and_then(Running::done) {
            Some(kernels) => Answer::Number(kernels.into()),
            None => Answer::Pending,
        },
        Request::EndWork => match work.take().map(Running::end) {
            Some(Ok(())) => Answer::Done,
            Some(Err(why)) => Answer::Bytes(why.into_bytes()),
            None => Answer::Refused(libc::ECHILD),
        },
        Request::Begin { fd, request, args } => {
            *background = Some(begin(fd, request, args));
            Answer::Done
        }
        Request::Finish => match background.as_ref().map(|call| call.result.try_recv()) {
            Some(Ok(answer)) => {
                *background = None;
                answer
            }
            Some(Err(mpsc::TryRecvError::Empty)) => Answer::Pending,
            _ => Answer::Refused(libc::ECHILD),
        },
        Request::Interrupt => match background {
            Some(call) => done(sys::interrupt(call.thread)),
            None => Answer::Refused(libc::ECHILD),
        },
        Request::Forked(request) => {
            let job = || serde_json::to_vec(&simple(*request)).unwrap_or_default();
            let answer = sys::forked(job).map(|bytes| serde_json::from_slice(&bytes));
            match answer {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Answer::Refused(libc::ECHILD),
                Err(errno) => Answer::Refused(errno),
            }
        }
        other => simple(other),
    }
}

fn begin(fd: i32, request: u32, args: Vec<u8>) -> Background {
    let (started, thread) = mpsc::channel();
    let (sender, result) = mpsc::channel();
    std::thread::spawn(move || {
        // Without a receiver the suite has ended.
        let _ = started.send(sys::thread_id());
        let _ = sender.send(call(fd, request, Some(args)));
    });
    Background { thread: thread.recv().unwrap_or(0), result }
}

/// Serves a request that needs no state of the actor.
fn simple(request: Request) -> Answer {
    match request {
        Request::Open { path } => number(sys::open(&path)),
        Request::Close { fd } => done(sys::close(fd)),
        Request::Call { fd, request, args } => call(fd, request, args),
        Request::Map { at, length, file, accessible } => match sys::map(at, length, file, accessible) {
            Ok(address) => Answer::Number(address),
            Err(errno) => Answer::Refused(errno),
        },
        Request::Unmap { at, length } => done(sys::unmap(at, length)),
        Request::Read { at, length } => Answer::Bytes(sys::read(at, length)),
        Request::Write { at, bytes } => {
            sys::write(at, &bytes);
            Answer::Done
        }
        Request::Store { at, value } => {
            sys::store(at, value);
            Answer::Done
        }
        Request::Seize { pid } => done(sys::seize(pid)),
        Request::Detach { pid } => done(sys::detach(pid)),
        Request::Pipe => match sys::pipe() {
            Ok((source, end)) => Answer::Pipe(source, end),
            Err(errno) => Answer::Refused(errno),
        },
        Request::Drain { fd } => Answer::Bytes(sys::drain(fd)),
        Request::Exec => Answer::Done,
        Request::Begin { .. }
        | Request::Finish
        | Request::Interrupt
        | Request::Forked(_)
        | Request::BeginWork { .. }
        | Request::WorkDone
        | Request::EndWork => Answer::Refused(libc::EINVAL),
    }
}

/// Makes a call and measures it.
fn call(fd: i32, request: u32, mut args: Option<Vec<u8>>) -> Answer {
    let begun = Instant::now();
    let result = sys::ioctl(fd, request, args.as_deref_mut());
    let nanoseconds = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Answer::Called { result, args: args.unwrap_or_default(), nanoseconds }
}

fn number(result: Result<i32, i32>) -> Answer {
    match result {
        Ok(number) => Answer::Number(number.try_into().unwrap_or_default()),
        Err(errno) => Answer::Refused(errno),
    }
}

fn done<T>(result: Result<T, i32>) -> Answer {
    match result {
        Ok(_) => Answer::Done,
        Err(errno) => Answer::Refused(errno),
    }
}

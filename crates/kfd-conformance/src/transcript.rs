//! What a driver answered to the calls of the tests, in a form that two drivers can be compared by: no addresses, no
//! pids, no times.
//!
//! A line is `RULE PROCESS: CALL -> ANSWER`, where PROCESS counts the processes that the test of the rule started. The
//! same answer to the same call several times in a row is one line, because tests ask until something has happened.
//! Only rules of the driver are recorded: what firmware and hardware do has its own time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kfd_abi::Abi;
use kfd_abi::debug::DbgTrapArgs;
use kfd_abi::ioctl::{self, Request as IoctlRequest};

use crate::rule::{DriverRule, Layer};
use crate::verdict::outcome;
use crate::wire::{Answer, Request};

/// Takes down what all processes of a run are answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<Mutex<Recording>>);

#[derive(Debug, Default)]
struct Recording {
    /// The rule that is tested, if its calls are recorded.
    rule: Option<&'static str>,
    /// Processes that its test has started.
    processes: u32,
    lines: Vec<String>,
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the part of a rule.
    pub(crate) fn begin(&self, rule: &DriverRule) {
        let mut recording = self.lock();
        recording.rule = (rule.layer == Layer::Driver).then_some(rule.id);
        recording.processes = 0;
    }

    /// Returns the number of another process of the test.
    pub(crate) fn process(&self) -> u32 {
        let mut recording = self.lock();
        recording.processes += 1;
        recording.processes
    }

    /// Takes down an answer, if it is one of the driver's. `began` is the call that the process makes in a thread.
    pub(crate) fn note(&self, process: u32, request: &Request, began: Option<&str>, answer: &Answer) {
        let Some((call, answer)) = described(request, began, answer) else { return };
        let mut recording = self.lock();
        let Some(rule) = recording.rule else { return };
        let line = format!("{rule} {process}: {call} -> {answer}");
        if recording.lines.last() != Some(&line) {
            recording.lines.push(line);
        }
    }

    /// Returns all lines, and takes down no more.
    pub(crate) fn finish(&self) -> Vec<String> {
        let mut recording = self.lock();
        recording.rule = None;
        std::mem::take(&mut recording.lines)
    }
}

/// Returns the call and its answer in words; none if the driver has no part in it.
fn described(request: &Request, began: Option<&str>, answer: &Answer) -> Option<(String, String)> {
    let call = match request {
        Request::Call { request, args, .. } => call_name(*request, args.as_deref()),
        Request::Forked(inner) => {
            let (call, answer) = described(inner, began, answer)?;
            return Some((format!("in a child: {call}"), answer));
        }
        Request::Finish => began?.to_owned(),
        Request::Open { path } => format!("open {}", if path.contains("render") { "a render node" } else { path }),
        Request::Map { file: Some(_), .. } => "mmap".to_owned(),
        _ => return None,
    };
    let answer = match answer {
        Answer::Called { result, .. } => outcome(*result),
        Answer::Refused(errno) => outcome(-i64::from(*errno)),
        Answer::Number(_) => "done".to_owned(),
        _ => return None,
    };
    Some((call, answer))
}

/// Returns the name of a call, with the operation of the debugger's.
pub(crate) fn call_name(request: u32, args: Option<&[u8]>) -> String {
    let nr = IoctlRequest(request).nr();
    let known = ioctl::COMMANDS.iter().find(|command| command.nr == nr);
    let name = known.map_or_else(|| format!("call {nr:#x}"), |command| command.name.to_owned());
    let operation = args.filter(|_| nr == ioctl::DBG_TRAP.nr).and_then(DbgTrapArgs::decode).map(|args| args.op);
    match (operation, args) {
        (Some(op), _) => format!("{name} {}", op.name().map_or_else(|| op.0.to_string(), str::to_owned)),
        (None, None) => format!("{name} with a null argument"),
        (None, Some(_)) => name,
    }
}

#[cfg(test)]
mod tests {
    use kfd_abi::debug::Disable;

    use super::*;
    use crate::actor::encode;

    #[test]
    fn a_line_names_rule_process_call_and_answer_and_repetitions_are_one_line() {
        let recorder = Recorder::default();
        recorder.begin(crate::rule::find("ladder-not-traced").unwrap());
        let args = Some(encode(&DbgTrapArgs::new(5, Disable {})));
        let call = Request::Call { fd: 3, request: ioctl::DBG_TRAP.request().0, args };
        let refused = Answer::Called { result: -1, args: Vec::new(), nanoseconds: 7 };
        let process = recorder.process();
        for _ in 0..2 {
            recorder.note(process, &call, None, &refused);
        }
        recorder.note(process, &Request::Pipe, None, &Answer::Pipe(3, 4));
        recorder.note(process, &Request::Finish, Some("DESTROY_QUEUE"), &Answer::Pending);
        recorder.note(process, &Request::Finish, Some("DESTROY_QUEUE"), &refused);
        assert_eq!(
            recorder.finish(),
            ["ladder-not-traced 1: DBG_TRAP DISABLE -> EPERM", "ladder-not-traced 1: DESTROY_QUEUE -> EPERM",]
        );
    }

    #[test]
    fn only_rules_of_the_driver_are_recorded() {
        let recorder = Recorder::default();
        recorder.begin(crate::rule::all().find(|rule| rule.layer == Layer::Hardware).unwrap());
        recorder.note(1, &Request::Open { path: "/dev/kfd".to_owned() }, None, &Answer::Number(3));
        assert!(recorder.finish().is_empty());
    }
}

//! Dispatches control requests.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use gpreempt_core::Nanos;
use gpreempt_proto::{Answer, Event, LONGEST_LINE, Refusal, RefusalKind, Request, Target};

use super::client::{Client, Line, Question, Waiting};
use super::line;
use super::peer::Peer;
use super::publisher::{Published, Publisher};
use super::rate::{Limiter, Rate};
use super::reload::{LoadConfig, reload};
use crate::clock;
use crate::inbox::{ClientRequest, Input, InputSender, Responder};

/// Longest age of a publication in an answer, and shortest time between two requests for one.
const PUBLICATION: Nanos = Nanos::from_millis(20);
/// Longest time that a client waits for a publication.
const PUBLICATION_PATIENCE: Nanos = Nanos::from_millis(500);
/// Longest time that a client waits for the host to carry out a change. Clients themselves give up after 5 s.
const CHANGE_PATIENCE: Nanos = Nanos::from_secs(3);

const CHANGES: Rate = Rate { per_second: 50, burst: 100 };
const NOTIFICATIONS: Rate = Rate { per_second: 2_000, burst: 2_000 };
const QUESTIONS: Rate = Rate { per_second: 200, burst: 400 };

/// Calls of one client that are served before those of the next client.
const CALLS_PER_TURN: usize = 32;

/// Bytes of a log's line beside its events.
const LOG_FRAME: usize = 256;

/// Serves requests: from the publisher, or through the host.
pub(super) struct RequestHandler {
    publisher: Arc<Publisher>,
    to_host: InputSender,
    load: LoadConfig,
    changes: Limiter,
    notifications: Limiter,
    questions: Limiter,
    next_ticket: u64,
    answers: Receiver<(u64, Answer)>,
    answer: Sender<(u64, Answer)>,
    /// When the last change was answered: older publications are not used any more.
    changed: Nanos,
    /// When a publication was last requested.
    asked: Option<Nanos>,
}

impl RequestHandler {
    pub(super) fn new(publisher: Arc<Publisher>, to_host: InputSender, load: LoadConfig) -> RequestHandler {
        let (answer, answers) = channel();
        RequestHandler {
            publisher,
            to_host,
            load,
            changes: Limiter::new(CHANGES),
            notifications: Limiter::new(NOTIFICATIONS),
            questions: Limiter::new(QUESTIONS),
            next_ticket: 0,
            answers,
            answer,
            changed: Nanos::ZERO,
            asked: None,
        }
    }

    /// Serves the calls of a client, up to the limit per turn.
    pub(super) fn serve(&mut self, client: &mut Client, now: Nanos) {
        for _ in 0..CALLS_PER_TURN {
            let parsed = match client.next_line() {
                None => return,
                Some(Line::Whole(line)) => line::parse(&line),
                Some(Line::TooLong) => {
                    client.push(&Answer::Refused(line::too_long()));
                    client.close();
                    return;
                }
            };
            let answer = match parsed {
                Ok(request) => self.call(client, request, now),
                Err(refusal) => {
                    client.push(&Answer::Refused(refusal));
                    client.count_malformed();
                    continue;
                }
            };
            if let Some(answer) = answer.unwrap_or_else(|refusal| Some(Answer::Refused(refusal))) {
                client.push(&answer);
            }
        }
    }

    /// Returns the answer to a request, or `None` if it comes later.
    fn call(&mut self, client: &mut Client, request: Request, now: Nanos) -> Result<Option<Answer>, Refusal> {
        let peer = client.peer;
        peer.may(&request)?;
        self.limit(peer, &request, now)?;
        match request {
            Request::Status => Ok(self.ask(client, Question::Status, now)),
            Request::Stats => Ok(self.ask(client, Question::Stats, now)),
            Request::Log { since_ms, target, limit } => {
                Ok(Some(log(&self.publisher, peer, since_ms, target.as_ref(), limit)))
            }
            Request::Watch => {
                client.watches.get_or_insert_with(|| self.publisher.next_event());
                Ok(None)
            }
            Request::Notify { pid } => self.notify(client, pid).map(Some),
            Request::Reload => {
                let answer = reload(&self.load, &self.publisher, &self.to_host);
                self.changed = clock::now();
                Ok(Some(answer))
            }
            Request::Set { .. }
            | Request::Hold { .. }
            | Request::Release { .. }
            | Request::Unmanage { .. }
            | Request::Manage { .. } => self.change(client, request, now).map(|()| None),
        }
    }

    fn limit(&mut self, peer: Peer, request: &Request, now: Nanos) -> Result<(), Refusal> {
        let (limiter, what) = match request {
            Request::Status | Request::Stats | Request::Log { .. } | Request::Watch if peer.is_operator() => {
                return Ok(());
            }
            Request::Status | Request::Stats | Request::Log { .. } | Request::Watch => {
                (&mut self.questions, "questions")
            }
            Request::Notify { .. } => (&mut self.notifications, "notifications"),
            _ => (&mut self.changes, "changes"),
        };
        if limiter.take(peer.uid, now) {
            return Ok(());
        }
        let most = limiter.rate().per_second;
        Err(busy(format!("too many {what} by user {}; the daemon takes {most} per second: wait a moment", peer.uid)))
    }

    fn ask(&mut self, client: &mut Client, question: Question, now: Nanos) -> Option<Answer> {
        if let Some(published) = self.publisher.published().filter(|published| self.is_new_enough(published, now)) {
            return Some(answer(question, client.peer, &published));
        }
        client.waiting = Waiting::Publication { question, asked: now };
        None
    }

    fn is_new_enough(&self, published: &Published, asked: Nanos) -> bool {
        published.at > self.changed && published.at.plus(PUBLICATION) >= asked
    }

    fn notify(&mut self, client: &Client, pid: Option<u32>) -> Result<Answer, Refusal> {
        let message =
            || "the daemon does not see your process (another pid namespace); give its number as \"pid\"".to_owned();
        let pid = pid.or(client.pid).ok_or_else(|| Refusal { kind: RefusalKind::Unknown, message: message() })?;
        self.to_host.send(Input::Notified { pid, uid: client.peer.uid }).map_err(|_| ending())?;
        Ok(Answer::Done { note: None })
    }

    fn change(&mut self, client: &mut Client, request: Request, now: Nanos) -> Result<(), Refusal> {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let (to, waker) = (self.answer.clone(), self.publisher.waker().clone());
        let reply = Responder::new(move |answer| {
            // The control thread may have ended meanwhile, and its clients with it.
            let _ = to.send((ticket, answer));
            waker.wake();
        });
        let asked = ClientRequest { uid: client.peer.uid, request, answer: reply };
        self.to_host.send(Input::Request(asked)).map_err(|_| ending())?;
        client.waiting = Waiting::Host { ticket, until: now.plus(CHANGE_PATIENCE) };
        Ok(())
    }

    /// Passes the host's answers on, and refuses requests that waited too long.
    pub(super) fn deliver<'a>(&mut self, clients: impl Iterator<Item = &'a mut Client>, now: Nanos) {
        let answers: Vec<(u64, Answer)> = self.answers.try_iter().collect();
        if !answers.is_empty() {
            // After they were taken: a publication from before one of them must not pass for newer.
            self.changed = clock::now();
        }
        let published = self.publisher.published();
        let mut wanted = false;
        for client in clients {
            match client.waiting {
                Waiting::Nothing => continue,
                Waiting::Host { ticket, until } => {
                    match answers.iter().find(|(of, _)| *of == ticket) {
                        Some((_, answer)) => client.push(answer),
                        None if now >= until => client.push(&Answer::Refused(silent())),
                        None => continue,
                    }
                    client.waiting = Waiting::Nothing;
                }
                Waiting::Publication { question, asked } => {
                    match published.as_ref().filter(|published| self.is_new_enough(published, asked)) {
                        Some(published) => client.push(&answer(question, client.peer, published)),
                        None if now >= asked.plus(PUBLICATION_PATIENCE) => client.push(&Answer::Refused(silent())),
                        None => {
                            wanted = true;
                            continue;
                        }
                    }
                    client.waiting = Waiting::Nothing;
                }
            }
        }
        if wanted && self.may_want_at().is_none_or(|at| now >= at) {
            self.asked = Some(now);
            self.publisher.want();
            // Without a host, waiting clients are refused when their time is over.
            let _ = self.to_host.send(Input::Publish);
        }
    }

    /// Returns when a publication may be requested again; `None` if at once. A publication that does not come is
    /// requested again.
    fn may_want_at(&self) -> Option<Nanos> {
        let pause = if self.publisher.wanted() { PUBLICATION_PATIENCE } else { PUBLICATION };
        self.asked.map(|asked| asked.plus(pause))
    }

    /// Returns when [`RequestHandler::deliver`] must run for this client at the latest.
    pub(super) fn due(&self, client: &Client) -> Option<Nanos> {
        match client.waiting {
            Waiting::Nothing => None,
            Waiting::Host { until, .. } => Some(until),
            Waiting::Publication { asked, .. } => {
                let until = asked.plus(PUBLICATION_PATIENCE);
                Some(self.may_want_at().map_or(until, |at| at.min(until)))
            }
        }
    }

    /// Queues events for the output of a watching client, as many as there is room for.
    pub(super) fn show_events(&self, client: &mut Client) {
        while let Some(next) = client.watches.filter(|_| client.has_room()) {
            let chunk = self.publisher.events_from(next);
            if chunk.first > next {
                client.push(&Answer::Missed { events: chunk.first - next });
            }
            let mut seen = 0;
            for noted in &chunk.events {
                if !client.has_room() {
                    break;
                }
                seen += 1;
                if let Some(event) = client.peer.event(noted) {
                    client.push(&Answer::Event(Box::new(event)));
                }
            }
            client.watches = Some(chunk.first + seen);
            if chunk.events.is_empty() {
                return;
            }
        }
    }

    /// Reads the configuration again on a signal. Blocks this thread on the file system, as the request does.
    pub(super) fn reload(&mut self) {
        reload(&self.load, &self.publisher, &self.to_host);
        self.changed = clock::now();
    }
}

fn answer(question: Question, peer: Peer, published: &Published) -> Answer {
    match question {
        Question::Status => Answer::Status(Box::new(peer.status(&published.status))),
        // Totals by gpu, which every user may see.
        Question::Stats => Answer::Stats(Box::new(published.stats.clone())),
    }
}

fn log(
    publisher: &Publisher,
    peer: Peer,
    since_ms: Option<u64>,
    target: Option<&Target>,
    limit: Option<usize>,
) -> Answer {
    let mut events: Vec<Event> = Vec::new();
    let mut room = LONGEST_LINE - LOG_FRAME;
    let mut truncated = false;
    let mut before = publisher.next_event();
    'newest_first: loop {
        let chunk = publisher.events_before(before);
        if chunk.is_empty() {
            break;
        }
        before = before.saturating_sub(chunk.len() as u64);
        for noted in &chunk {
            // The wall clock may have been set back, so older ones are looked at even after one that is too old.
            let recent = since_ms.is_none_or(|since| noted.event.at_ms >= since);
            if !recent || !target.is_none_or(|target| is_about(&noted.event, target)) {
                continue;
            }
            let Some(event) = peer.event(noted) else { continue };
            let bytes = serde_json::to_vec(&event).map_or(0, |json| json.len() + 1);
            if bytes > room || limit.is_some_and(|limit| events.len() >= limit) {
                truncated = true;
                break 'newest_first;
            }
            room -= bytes;
            events.push(event);
        }
    }
    events.reverse();
    truncated |= forgot(publisher, since_ms);
    Answer::Log { events, truncated }
}

fn is_about(event: &Event, target: &Target) -> bool {
    match target {
        Target::Pid(pid) => event.pid == Some(*pid),
        Target::Job(job) => event.job.as_deref() == Some(job),
    }
}

/// Returns whether an event of that time can have been dropped.
fn forgot(publisher: &Publisher, since_ms: Option<u64>) -> bool {
    let oldest = publisher.events_from(0);
    let reaches_back = |since| oldest.events.first().is_none_or(|noted| noted.event.at_ms > since);
    oldest.first > 0 && since_ms.is_none_or(reaches_back)
}

fn busy(message: String) -> Refusal {
    Refusal { kind: RefusalKind::Busy, message }
}

fn silent() -> Refusal {
    busy("the daemon does not answer; it may still carry the request out".to_owned())
}

fn ending() -> Refusal {
    busy("the daemon is shutting down".to_owned())
}

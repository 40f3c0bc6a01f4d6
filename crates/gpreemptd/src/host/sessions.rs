//! The daemon's end of the actuator: its link, when it may be started again, and the commands under way.

use std::collections::BTreeMap;

use gpreempt_core::{Action, EntryNumber, Nanos, Why};
use gpreempt_proto::ActuatorKind;
use kfd::Pid;

use crate::actuate::{ActuatorCommand, Link, LinkReaper};

use super::world::TenantKey;

/// How long the actuator stays without a process to manage.
const IDLE: Nanos = Nanos::from_secs(5);

/// First and longest time before a lost actuator is started again.
pub(super) const RESTART: Nanos = Nanos::from_millis(50);
const RESTART_LONGEST: Nanos = Nanos::from_secs(2);

/// Of a command whose answer does not matter: the number of no entry.
pub(super) const NO_TICKET: u64 = 0;

/// A command to stop or resume queues that is under way.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) key: TenantKey,
    /// The entry of the plan that it carries out.
    pub(super) entry: EntryNumber,
    pub(super) action: Action,
    pub(super) why: Why,
    pub(super) queues: Vec<u32>,
    pub(super) sent_at: Nanos,
    /// When the work that caused it was first seen.
    pub(super) noticed: Option<Nanos>,
}

/// How an actuator was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    /// The cause, in words.
    pub(super) why: String,
    /// Whether the guardian ended it.
    pub(super) killed: bool,
}

#[derive(Debug, Default)]
enum State {
    /// There is no actuator.
    #[default]
    Down,
    /// The discovery thread was asked to start one. Its reports may overtake the answer, even that of its end.
    Starting {
        lost: Option<Loss>,
    },
    Up(Link),
}

/// Why an actuator is dismissed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dismissal {
    /// It has had no session for a while.
    Idle,
    /// The mode is observe now.
    Observing,
    /// The configuration names another actuator.
    Replaced,
    /// The scheduler in the kernel is to keep the policy for another time: the next actuator goes on with it.
    Renewed,
    /// The daemon ends.
    Shutdown,
}

impl Dismissal {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Dismissal::Idle => "no process to manage",
            Dismissal::Observing => "the daemon only observes now",
            Dismissal::Replaced => "the configuration names another actuator",
            Dismissal::Renewed => "the configuration has another keep_s",
            Dismissal::Shutdown => "the daemon ends",
        }
    }
}

/// What to do about an actuator without sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idleness {
    /// It has sessions, or there is none.
    Busy,
    /// To be considered again at this instant.
    Until(Nanos),
    /// It has been idle for long enough.
    Over,
}

/// The actuator as the deciding thread has it. No method waits for a process: links are dropped by `reaper`.
#[derive(Debug)]
pub(super) struct Sessions {
    state: State,
    reaper: LinkReaper,
    actuator_pid: Option<u32>,
    /// The one that serves, or served last.
    kind: Option<ActuatorKind>,
    /// The actuator of another daemon, as of the last attempt to start ours.
    other_daemon: Option<Pid>,
    start_at: Nanos,
    delay: Nanos,
    started_at: Nanos,
    idle_since: Option<Nanos>,
    /// Actuators that were dismissed and not yet reported lost, and when the last was.
    dismissed: u32,
    dismissed_at: Nanos,
    tickets: BTreeMap<EntryNumber, Ticket>,
}

impl Sessions {
    /// Makes the part without an actuator.
    pub(super) fn new(reaper: LinkReaper) -> Sessions {
        Sessions {
            state: State::Down,
            reaper,
            actuator_pid: None,
            kind: None,
            other_daemon: None,
            start_at: Nanos::ZERO,
            delay: Nanos::ZERO,
            started_at: Nanos::ZERO,
            idle_since: None,
            dismissed: 0,
            dismissed_at: Nanos::ZERO,
            tickets: BTreeMap::new(),
        }
    }

    /// Returns whether commands can be sent.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Returns the actuator's process, once it has reported.
    pub(super) fn actuator_pid(&self) -> Option<u32> {
        self.actuator_pid
    }

    /// Notes the actuator's process, and which actuator it is.
    pub(super) fn set_actuator(&mut self, pid: u32, kind: ActuatorKind) {
        (self.actuator_pid, self.kind) = (Some(pid), Some(kind));
    }

    /// Returns which actuator serves, or served last.
    pub(super) fn kind(&self) -> Option<ActuatorKind> {
        self.kind
    }

    /// Forgets which actuator served: the next may be another.
    pub(super) fn forget_kind(&mut self) {
        self.kind = None;
    }

    /// Returns the actuator of another daemon on these gpus, if that is why ours was not started.
    pub(super) fn other_daemon(&self) -> Option<Pid> {
        self.other_daemon
    }

    /// Returns whether a start is to be asked for now, and takes it for asked; else, when to try again.
    pub(super) fn begin_start(&mut self, now: Nanos) -> Result<bool, Nanos> {
        if !matches!(self.state, State::Down) {
            return Ok(false);
        }
        if now < self.start_at {
            return Err(self.start_at);
        }
        if self.dismissed > 0 && now.since(self.dismissed_at) < RESTART_LONGEST {
            // The one that was dismissed is still leaving, and would pass for another daemon's.
            return Err(now.plus(RESTART));
        }
        self.state = State::Starting { lost: None };
        Ok(true)
    }

    /// Takes the link of an actuator that was started. Returns how it was lost, if that was reported before.
    pub(super) fn started(&mut self, link: Link, now: Nanos) -> Option<Loss> {
        let before = std::mem::replace(&mut self.state, State::Up(link));
        (self.started_at, self.other_daemon) = (now, None);
        match before {
            State::Starting { lost } => lost,
            State::Down => None,
            State::Up(link) => {
                self.reaper.end(link);
                None
            }
        }
    }

    /// Notes that the actuator was not started, perhaps because of another daemon's. Returns when to try again.
    pub(super) fn not_started(&mut self, other_daemon: Option<Pid>, now: Nanos) -> Nanos {
        self.state = State::Down;
        self.other_daemon = other_daemon;
        self.back_off(now)
    }

    /// Puts the next start off, twice as long as the last. Returns when it may be.
    fn back_off(&mut self, now: Nanos) -> Nanos {
        self.delay = self.delay.times(2).clamp(RESTART, RESTART_LONGEST);
        self.start_at = now.plus(self.delay);
        self.start_at
    }

    /// Takes the report that an actuator is gone. Returns when the next may be started if the present one is meant;
    /// `None` for one that was dismissed, or that is still being started.
    pub(super) fn lost(&mut self, loss: &Loss, now: Nanos) -> Option<Nanos> {
        if self.dismissed > 0 {
            // Every actuator is lost once.
            self.dismissed -= 1;
            return None;
        }
        match std::mem::take(&mut self.state) {
            State::Down => return None,
            State::Starting { .. } => {
                self.state = State::Starting { lost: Some(loss.clone()) };
                return None;
            }
            State::Up(link) => self.reaper.end(link),
        }
        self.actuator_pid = None;
        self.tickets.clear();
        if now.since(self.started_at) > RESTART_LONGEST {
            // One that lived for a while gives no reason for a longer wait.
            self.delay = Nanos::ZERO;
        }
        Some(self.back_off(now))
    }

    /// Dismisses the actuator: all queues run, and no process is traced. Returns whether there was one.
    pub(super) fn dismiss(&mut self, now: Nanos) -> bool {
        self.idle_since = None;
        match std::mem::take(&mut self.state) {
            State::Up(link) => {
                self.dismissed += 1;
                self.dismissed_at = now;
                self.actuator_pid = None;
                self.reaper.end(link);
                true
            }
            other => {
                self.state = other;
                false
            }
        }
    }

    /// Returns what to do about an actuator that has sessions or not.
    pub(super) fn idleness(&mut self, has_sessions: bool, now: Nanos) -> Idleness {
        if has_sessions || !self.is_up() {
            self.idle_since = None;
            return Idleness::Busy;
        }
        let since = *self.idle_since.get_or_insert(now);
        if now.since(since) >= IDLE { Idleness::Over } else { Idleness::Until(since.plus(IDLE)) }
    }

    /// Sends a command. Returns false if the actuator does not take it: then it is lost, which its own report says.
    pub(super) fn send(&mut self, command: &ActuatorCommand) -> bool {
        match &mut self.state {
            State::Up(link) => link.send(command),
            State::Down | State::Starting { .. } => false,
        }
    }

    /// Gives the guardian a sign of life.
    pub(super) fn beat(&mut self) {
        if let State::Up(link) = &mut self.state {
            link.beat();
        }
    }

    /// Notes a command under way, by the number of its entry.
    pub(super) fn open_ticket(&mut self, ticket: Ticket) {
        self.tickets.insert(ticket.entry, ticket);
    }

    /// Returns the command that an answer is about, which is no longer under way.
    pub(super) fn close_ticket(&mut self, number: u64) -> Option<Ticket> {
        self.tickets.remove(&EntryNumber(number))
    }

    /// Forgets the commands for a process.
    pub(super) fn drop_tickets(&mut self, pid: Pid) {
        self.tickets.retain(|_, ticket| ticket.key.pid != pid);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::actuate::ActuatorChoice;

    fn link() -> Link {
        let (to, _inbox) = crate::os::channel::channel().unwrap();
        Link::start(Path::new("/bin/false"), ActuatorChoice::Auto, to).unwrap()
    }

    fn loss() -> Loss {
        Loss { why: "it failed".into(), killed: false }
    }

    #[test]
    fn an_actuator_whose_end_is_heard_before_its_start_is_lost_and_not_forgotten() {
        let (reaper, ended) = LinkReaper::detached();
        let (mut sessions, now) = (Sessions::new(reaper), Nanos::from_secs(1));
        assert_eq!(sessions.begin_start(now), Ok(true));
        assert_eq!(sessions.begin_start(now), Ok(false), "it is asked for once");
        assert_eq!(sessions.lost(&loss(), now), None);
        assert_eq!(sessions.started(link(), now), Some(loss()));
        assert!(sessions.is_up());
        let again = sessions.lost(&loss(), now).unwrap();
        assert!(ended.try_recv().is_ok(), "the reaper drops the link, which may wait");
        assert!(!sessions.is_up() && sessions.begin_start(now) == Err(again));
        assert_eq!(sessions.begin_start(again), Ok(true));
        assert_eq!(sessions.started(link(), again), None);
    }

    #[test]
    fn one_that_was_dismissed_is_not_missed_and_its_successor_waits_for_its_end() {
        let (reaper, ended) = LinkReaper::detached();
        let (mut sessions, now) = (Sessions::new(reaper), Nanos::from_secs(1));
        assert_eq!((sessions.begin_start(now), sessions.started(link(), now)), (Ok(true), None));
        assert!(matches!(sessions.idleness(false, now), Idleness::Until(_)));
        assert_eq!(sessions.idleness(false, now.plus(IDLE)), Idleness::Over);
        assert!(sessions.dismiss(now));
        assert!(ended.try_recv().is_ok(), "the reaper drops the link, which may wait");
        assert!(!sessions.dismiss(now), "there is none any more");
        assert!(!sessions.is_up() && !sessions.send(&ActuatorCommand::Detach { pid: 1 }));
        assert_eq!(sessions.begin_start(now), Err(now.plus(RESTART)));
        assert_eq!(sessions.lost(&loss(), now), None);
        assert_eq!(sessions.begin_start(now), Ok(true));
    }
}

//! What a user may see and ask for. Decided from the uid that the kernel names for a connection (`SO_PEERCRED`), and
//! from nothing that the client sends.

use std::collections::BTreeSet;

use gpreempt_proto::{Event, EventKind, Refusal, RefusalKind, Request, Status};

use super::publisher::Noted;

/// Shown instead of the name of a job that the peer may not see and whose level is unknown.
const FOREIGN: &str = "(another user's job)";

/// The user at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user, from the connection.
    pub uid: u32,
    /// The user who runs the daemon.
    pub daemon_uid: u32,
}

impl Peer {
    /// Returns whether this is an operator: root, or the user who runs the daemon. Operators see and change everything.
    #[must_use]
    pub fn is_operator(self) -> bool {
        self.uid == 0 || self.uid == self.daemon_uid
    }

    /// Returns whether this user may see and change what belongs to `owner`.
    #[must_use]
    pub fn owns(self, owner: u32) -> bool {
        self.is_operator() || self.uid == owner
    }

    /// Checks whether this user may make a request of this kind. The host checks the owner of the process or job.
    ///
    /// # Errors
    ///
    /// A refusal of kind [`RefusalKind::Forbidden`] for requests that only operators may make.
    pub fn may(self, request: &Request) -> Result<(), Refusal> {
        let action = match request {
            Request::Reload => "reload the configuration",
            Request::Unmanage { .. } => "unmanage processes",
            Request::Manage { .. } => "manage processes",
            _ => return Ok(()),
        };
        if self.is_operator() {
            return Ok(());
        }
        let message = format!(
            "user {} may not {action}; only root and user {}, who runs the daemon, may",
            self.uid, self.daemon_uid
        );
        Err(Refusal { kind: RefusalKind::Forbidden, message })
    }

    /// Reduces a status to what this user may see: every gpu, but only own tenants and jobs. Another user's job that
    /// holds a gpu or caused a stop is named by its level.
    #[must_use]
    pub fn status(self, status: &Status) -> Status {
        if self.is_operator() {
            return status.clone();
        }
        let tenants: Vec<_> = status.tenants.iter().filter(|tenant| self.owns(tenant.uid)).cloned().collect();
        let jobs: BTreeSet<&str> = tenants.iter().filter_map(|tenant| tenant.job.as_deref()).collect();
        let pids: BTreeSet<u32> = tenants.iter().map(|tenant| tenant.pid).collect();
        let name = |job: &String| {
            if jobs.contains(job.as_str()) {
                return job.clone();
            }
            let level = status.jobs.iter().find(|known| known.job == *job).map(|known| known.level);
            level.map_or_else(|| FOREIGN.to_owned(), |level| format!("(level {level})"))
        };

        // Built field by field, so that a key that is added later does not compile before it is decided upon here.
        let mut seen = Status {
            schema: status.schema,
            daemon_pid: status.daemon_pid,
            actuator_pid: status.actuator_pid,
            actuator: status.actuator,
            mode: status.mode,
            uptime_s: status.uptime_s,
            config: status.config.clone(),
            gpus: status.gpus.clone(),
            jobs: status.jobs.iter().filter(|job| jobs.contains(job.job.as_str())).cloned().collect(),
            tenants: tenants.clone(),
        };
        for gpu in &mut seen.gpus {
            gpu.holder = gpu.holder.as_ref().map(name);
        }
        for job in &mut seen.jobs {
            job.pids.retain(|pid| pids.contains(pid));
        }
        for why in seen.tenants.iter_mut().filter_map(|tenant| tenant.why.as_mut()) {
            why.by = why.by.as_ref().map(name);
        }
        seen
    }

    /// Reduces an event to what this user may see: `None` for events about other users; names of other users' jobs are
    /// replaced.
    pub(super) fn event(self, noted: &Noted) -> Option<Event> {
        let own = noted.event.uid.is_none_or(|uid| self.owns(uid));
        if !own {
            return None;
        }
        let mut event = noted.event.clone();
        let known = noted.cause_uid.map_or(self.is_operator(), |uid| self.owns(uid));
        if let EventKind::Preempted { by: Some(by), .. } | EventKind::WouldPreempt { by: Some(by), .. } =
            &mut event.kind
            && !known
        {
            FOREIGN.clone_into(by);
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpreempt_proto::{GpuStatus, JobStatus, Reason, Target, TenantStatus, Why};

    const ROOT: Peer = Peer { uid: 0, daemon_uid: 990 };
    const DAEMON: Peer = Peer { uid: 990, daemon_uid: 990 };
    const ALICE: Peer = Peer { uid: 1000, daemon_uid: 990 };
    const BOB: Peer = Peer { uid: 1001, daemon_uid: 990 };

    fn tenant(pid: u32, uid: u32, job: Option<&str>, by: Option<&str>) -> TenantStatus {
        let why = by.map(|by| Why { reason: Reason::HigherWants, by: Some(by.to_owned()) });
        TenantStatus { pid, uid, job: job.map(str::to_owned), why, ..TenantStatus::default() }
    }

    fn job(name: &str, level: u8, pids: &[u32]) -> JobStatus {
        JobStatus { job: name.to_owned(), level, pids: pids.to_vec(), ..JobStatus::default() }
    }

    fn status() -> Status {
        let holder = |name: &str| GpuStatus { holder: Some(name.to_owned()), ..GpuStatus::default() };
        Status {
            daemon_pid: 7,
            gpus: vec![holder("secret"), holder("train"), holder("forgotten"), GpuStatus::default()],
            jobs: vec![job("secret", 12, &[20]), job("shared", 5, &[11, 21]), job("train", 3, &[10])],
            tenants: vec![
                tenant(20, 1001, Some("secret"), None),
                tenant(11, 1000, Some("shared"), Some("train")),
                tenant(21, 1001, Some("shared"), None),
                tenant(10, 1000, Some("train"), Some("secret")),
                tenant(12, 1000, None, None),
                tenant(22, 1001, None, None),
            ],
            ..Status::default()
        }
    }

    #[test]
    fn root_and_the_daemons_user_see_all() {
        assert_eq!(ROOT.status(&status()), status());
        assert_eq!(DAEMON.status(&status()), status());
    }

    #[test]
    fn others_see_their_own_and_every_gpu() {
        let seen = ALICE.status(&status());
        let pids: Vec<u32> = seen.tenants.iter().map(|tenant| tenant.pid).collect();
        assert_eq!(pids, [11, 10, 12]);
        assert_eq!(seen.jobs, [job("shared", 5, &[11]), job("train", 3, &[10])]);
        let holders: Vec<_> = seen.gpus.iter().map(|gpu| gpu.holder.as_deref()).collect();
        assert_eq!(holders, [Some("(level 12)"), Some("train"), Some(FOREIGN), None]);
        let by: Vec<_> =
            seen.tenants.iter().map(|tenant| tenant.why.as_ref().and_then(|why| why.by.as_deref())).collect();
        assert_eq!(by, [Some("train"), Some("(level 12)"), None]);
        assert_eq!(seen.daemon_pid, 7);
    }

    #[test]
    fn nothing_that_is_anothers_is_in_the_text_of_a_status() {
        let text = serde_json::to_string(&ALICE.status(&status())).unwrap();
        for foreign in ["secret", "forgotten", "1001", "20", "21", "22"] {
            assert!(!text.contains(foreign), "{foreign} in {text}");
        }
    }

    #[test]
    fn events_are_for_their_owner_and_general_ones_for_all() {
        let by = |uid| Noted {
            event: Event {
                at_ms: 1,
                kind: EventKind::WouldPreempt { reason: Reason::HigherWants, by: Some("serve".to_owned()) },
                gpu: None,
                pid: Some(10),
                job: Some("train".to_owned()),
                uid: Some(1000),
            },
            cause_uid: uid,
        };
        let told = |peer: Peer, cause| {
            peer.event(&by(cause)).map(|event| match event.kind {
                EventKind::WouldPreempt { by, .. } => by.unwrap(),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(told(BOB, Some(1001)), None, "the victim's owner is another");
        assert_eq!(told(ALICE, Some(1000)).as_deref(), Some("serve"));
        assert_eq!(told(ALICE, Some(1001)).as_deref(), Some(FOREIGN));
        assert_eq!(told(ALICE, None).as_deref(), Some(FOREIGN));
        assert_eq!(told(ROOT, None).as_deref(), Some("serve"));
        assert_eq!(told(DAEMON, Some(1001)).as_deref(), Some("serve"));

        let event = Event { at_ms: 1, kind: EventKind::Recovered, gpu: None, pid: None, job: None, uid: None };
        assert!(BOB.event(&Noted { event, cause_uid: None }).is_some());
    }

    #[test]
    fn only_root_and_the_daemons_user_reload_unmanage_and_manage() {
        for request in [Request::Reload, Request::Unmanage { pid: 10 }, Request::Manage { pid: 10 }] {
            assert!(ROOT.may(&request).is_ok() && DAEMON.may(&request).is_ok());
            let refused = ALICE.may(&request).unwrap_err();
            assert_eq!(refused.kind, RefusalKind::Forbidden);
            assert!(refused.message.contains("1000") && refused.message.contains("990"), "{refused}");
        }
        assert!(ALICE.may(&Request::Set { target: Target::Pid(1), level: 3 }).is_ok(), "the host knows whose it is");
        assert!(ROOT.owns(1) && DAEMON.owns(1) && ALICE.owns(1000) && !ALICE.owns(0) && !ALICE.owns(990));
    }
}

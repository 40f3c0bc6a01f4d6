//! Serves requests of clients that change something.

use gpreempt_core::{Level, Nanos};
use gpreempt_proto::{Answer, EventKind, Mode, Refusal, RefusalKind, Request, Target};
use kfd::Pid;
use linux_host::clock::wall_ms;

use crate::control::Peer;
use crate::discovery::ProcessSet;
use crate::inbox::ClientRequest;

use super::{Host, must_succeed};

type Outcome = Result<Option<String>, Refusal>;

fn refuse(kind: RefusalKind, message: impl Into<String>) -> Refusal {
    Refusal { kind, message: message.into() }
}

impl Host {
    pub(super) fn client_request(&mut self, asked: ClientRequest, now: Nanos) {
        let allowed = self.peer(asked.uid).may(&asked.request);
        let outcome = allowed.and_then(|()| match &asked.request {
            Request::Set { target, level } => self.set_level(asked.uid, target, *level),
            Request::Hold { target, seconds } => self.hold(asked.uid, target, *seconds, now),
            Request::Release { target } => self.release(asked.uid, target),
            Request::Unmanage { pid } => self.unmanage(asked.uid, *pid, now),
            Request::Manage { pid } => self.manage(asked.uid, *pid, now),
            _ => Err(refuse(RefusalKind::Malformed, "this request changes nothing")),
        });
        let answer = match outcome {
            Ok(note) => Answer::Done { note },
            Err(refusal) => Answer::Refused(refusal),
        };
        self.overrides.answer_when_written(asked.answer, answer);
    }

    /// Returns the rights of a user.
    pub(super) fn peer(&self, uid: u32) -> Peer {
        Peer { uid, daemon_uid: self.own_uid }
    }

    /// The job that is meant, if the user may change it.
    fn job_of(&self, uid: u32, target: &Target) -> Result<String, Refusal> {
        let (name, said) = match target {
            Target::Job(name) => (Some(name.clone()), format!("job {name:?}")),
            Target::Pid(pid) => {
                let job = self.world.tenants_of(Pid(*pid)).find_map(|tenant| tenant.job.clone());
                (job, format!("process {pid}"))
            }
        };
        let known = name.and_then(|name| self.world.jobs.get(&name).map(|job| (name, job)));
        // Of a job that several users share none is the owner. Whether something of another user exists is not told
        // either.
        let owner = |pid: &Pid| self.world.processes.get(pid).is_some_and(|process| process.identity.uid == uid);
        let Some((name, _)) = known.filter(|(_, job)| self.peer(uid).is_operator() || job.pids.iter().all(owner))
        else {
            let message = format!("{said} is not managed, or not yours; `gpreempt ps` shows what is");
            return Err(refuse(RefusalKind::Unknown, message));
        };
        Ok(name)
    }

    /// The processes of a job, with their start times.
    fn members(&self, job: &str) -> ProcessSet {
        let pids = self.world.jobs.get(job).map(|job| &job.pids);
        let processes = pids.into_iter().flatten().filter_map(|pid| self.world.processes.get(pid));
        processes.map(|process| (process.identity.pid, process.identity.started)).collect()
    }

    fn set_level(&mut self, uid: u32, target: &Target, level: u8) -> Outcome {
        let Some(level) = Level::new(level) else {
            return Err(refuse(RefusalKind::Range, format!("level {level} is out of range; levels are 0 to 15")));
        };
        let name = self.job_of(uid, target)?;
        let trusted = self.peer(uid).is_operator();
        let Some(job) = self.world.jobs.get_mut(&name) else { return Ok(None) };
        if level > job.max_level && !trusted {
            let message = format!(
                "level {} is more than {name:?} may have: rule {:?} allows up to {}",
                level.get(),
                job.rule,
                job.max_level.get()
            );
            return Err(refuse(RefusalKind::Forbidden, message));
        }
        let from = job.level();
        (job.level, job.trusted) = (Some(level), trusted);
        must_succeed(self.core.set_job(job.core, job.effective()));
        let kept = job.override_key.clone();
        let members = self.members(&name);
        self.overrides.set_level(&kept, level.get(), trusted, members);
        self.pending.members_changed();
        self.note_job(&name, EventKind::LevelSet { from: from.get(), to: level.get(), by_uid: uid });
        Ok(Some(format!("{name}: level {} -> {}", from.get(), level.get())))
    }

    fn hold(&mut self, uid: u32, target: &Target, seconds: u64, now: Nanos) -> Outcome {
        if self.config.mode == Mode::Observe {
            let message = "the daemon only observes; set mode = \"enforce\" in its configuration";
            return Err(refuse(RefusalKind::Observing, message));
        }
        let longest = self.config.hold_max;
        if seconds == 0 || seconds > longest.as_secs() {
            let message = format!("a hold lasts 1 to {} seconds, not {seconds}", longest.as_secs());
            return Err(refuse(RefusalKind::Range, message));
        }
        let name = self.job_of(uid, target)?;
        let until = now.plus(Nanos::from(std::time::Duration::from_secs(seconds)));
        let Some(job) = self.world.jobs.get_mut(&name) else { return Ok(None) };
        job.held_until = Some(until);
        must_succeed(self.core.hold(job.core, until));
        let (kept, members) = (job.override_key.clone(), self.members(&name));
        self.overrides.set_hold(&kept, wall_ms().saturating_add(seconds.saturating_mul(1000)), members);
        self.timers.wake_at(until);
        self.pending.members_changed();
        self.note_job(&name, EventKind::Held { seconds, by_uid: uid });
        Ok(Some(format!("{name} is held for {seconds} s")))
    }

    fn release(&mut self, uid: u32, target: &Target) -> Outcome {
        let name = self.job_of(uid, target)?;
        let Some(job) = self.world.jobs.get_mut(&name) else { return Ok(None) };
        if job.held_until.take().is_none() {
            return Ok(Some(format!("{name} was not held")));
        }
        must_succeed(self.core.release(job.core));
        self.overrides.change(|overrides| {
            overrides.holds.remove(&job.override_key);
        });
        self.pending.members_changed();
        self.note_job(&name, EventKind::Released);
        Ok(Some(format!("{name} is released")))
    }

    /// Holds that ran out are forgotten.
    pub(super) fn end_holds(&mut self, now: Nanos) {
        let over = |until: Option<Nanos>| until.is_some_and(|until| now >= until);
        let names: Vec<String> =
            self.world.jobs.iter().filter(|(_, job)| over(job.held_until)).map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(job) = self.world.jobs.get_mut(&name) {
                job.held_until = None;
            }
            self.pending.members_changed();
            self.note_job(&name, EventKind::Released);
        }
    }

    /// Leaves a process alone until [`Host::manage`] or its end; what of it is stopped runs on.
    fn unmanage(&mut self, uid: u32, pid: u32, now: Nanos) -> Outcome {
        let Some(process) = self.world.processes.get_mut(&Pid(pid)) else {
            let message = format!("process {pid} has no compute queues; `gpreempt ps` shows those that have");
            return Err(refuse(RefusalKind::Unknown, message));
        };
        if std::mem::replace(&mut process.unmanaged, true) {
            return Ok(Some(format!("process {pid} was unmanaged already")));
        }
        let started = process.identity.started;
        // Before the tenants leave their job, which the event keys.
        self.note_process(Pid(pid), EventKind::Unmanaged { by_uid: uid });
        self.close_session(Pid(pid));
        let keys: Vec<_> = self.world.tenants_of(Pid(pid)).map(|tenant| tenant.key).collect();
        for key in keys {
            self.remove_member(key, now);
        }
        self.overrides.change(|overrides| {
            overrides.unmanaged.insert(pid, started);
        });
        self.pending.members_changed();
        Ok(Some(format!("process {pid} is unmanaged: never stopped, never protected")))
    }

    /// Applies the rules to an unmanaged process again.
    fn manage(&mut self, uid: u32, pid: u32, now: Nanos) -> Outcome {
        let kept = self.overrides.current().unmanaged.contains_key(&pid);
        self.overrides.change(|overrides| {
            overrides.unmanaged.remove(&pid);
        });
        let Some(process) = self.world.processes.get_mut(&Pid(pid)) else {
            // It may have destroyed its queues, and create others.
            if kept {
                return Ok(Some(format!("process {pid} is managed again as soon as it has a compute queue")));
            }
            let message = format!("process {pid} has no compute queues; `gpreempt ps` shows those that have");
            return Err(refuse(RefusalKind::Unknown, message));
        };
        if !std::mem::replace(&mut process.unmanaged, false) {
            return Ok(Some(format!("process {pid} was not unmanaged")));
        }
        let rule = process.assignment.as_ref().map(|assignment| assignment.rule.clone());
        let keys: Vec<_> = self.world.tenants_of(Pid(pid)).map(|tenant| tenant.key).collect();
        for key in keys {
            self.place_tenant(key, now);
        }
        self.note_process(Pid(pid), EventKind::Managed { by_uid: uid });
        self.pending.members_changed();
        Ok(Some(match rule {
            Some(rule) => format!("process {pid} is managed again, by rule {rule:?}"),
            None => format!("no rule gives process {pid} a level: never stopped, never protected"),
        }))
    }
}

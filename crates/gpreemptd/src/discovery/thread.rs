//! The discovery thread: scans at its period, and serves requests at once.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use kfd::{GpuId, Pid, Processes};

use super::gpus::Gpus;
use super::other_daemon;
use super::resume_cause::StoppedProcesses;
use super::survey::Survey;
use super::tracked::Tracked;
use super::warn_once::WarnOnce;
use super::{ActuatorStart, DiscoveryEvent, DiscoveryRequest, OccupancySample, Settings};
use crate::actuate::{ActuatorOptions, Link};
use crate::clock;
use crate::inbox::{Input, InputSender};

/// Time between two scans while no process has the driver open. A program that opens it takes longer than that until it
/// has a queue.
const IDLE: Duration = Duration::from_millis(50);

/// The receiver of the events is gone.
struct Unheard;

pub(super) struct Thread {
    scan: Duration,
    processes: Processes,
    survey: Survey,
    gpus: Gpus,
    stopped: StoppedProcesses,
    tracked: Tracked,
    warnings: WarnOnce,
    requests: Receiver<DiscoveryRequest>,
    to: InputSender,
}

impl Thread {
    pub(super) fn new(settings: Settings, requests: Receiver<DiscoveryRequest>, to: InputSender) -> Thread {
        let processes = Processes::default();
        Thread {
            scan: settings.scan,
            survey: Survey::new(processes.clone(), PathBuf::from(kfd::debugfs::DIRECTORY), settings.variables),
            processes,
            gpus: Gpus::default(),
            stopped: StoppedProcesses::default(),
            tracked: Tracked::default(),
            warnings: WarnOnce::default(),
            requests,
            to,
        }
    }

    pub(super) fn run(mut self) {
        let mut due = Instant::now();
        loop {
            let now = Instant::now();
            if now >= due {
                let Ok(pause) = self.scan(now) else { return };
                // A scan that took long is followed by a rest as long.
                due = (now + pause).max(Instant::now() + now.elapsed());
            }
            match self.requests.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(request) => {
                    if self.obey(request).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Scans, and answers after which time to scan again.
    fn scan(&mut self, now: Instant) -> Result<Duration, Unheard> {
        let at = clock::now();
        let mut found: Vec<DiscoveryEvent> = self.gpus.look(now, &mut self.warnings).into_iter().collect();
        if !found.is_empty() {
            // The host ignored processes on gpus that it did not know yet.
            self.survey.tell_again();
        }
        let in_use = self.survey.scan(now, &mut self.warnings, &mut found);
        self.stopped.look(&mut found);
        // Checked after the processes were read and reported before them: a job may take the name of one that has
        // ended.
        let is_new = found.iter().any(|event| matches!(event, DiscoveryEvent::Process(_)));
        if let Some(ended) = self.tracked.ended(now, is_new) {
            self.tell(DiscoveryEvent::TrackedEnded(ended))?;
        }
        found.push(DiscoveryEvent::Scanned { at });
        found.into_iter().try_for_each(|event| self.tell(event))?;
        Ok(if in_use { self.scan } else { IDLE.max(self.scan) })
    }

    fn obey(&mut self, request: DiscoveryRequest) -> Result<(), Unheard> {
        match request {
            DiscoveryRequest::SampleOccupancy(wanted) => {
                return wanted.into_iter().try_for_each(|(pid, gpu)| {
                    let sample = self.sample(pid, gpu);
                    self.tell(DiscoveryEvent::Occupancy(sample))
                });
            }
            DiscoveryRequest::RingsLost(pid) => self.survey.find_rings_again(pid),
            DiscoveryRequest::Stopped(pids) => self.stopped.set(pids),
            DiscoveryRequest::StartActuator { program, options } => {
                let outcome = self.start_actuator(&program, options);
                return self.tell(DiscoveryEvent::ActuatorStart(outcome));
            }
            DiscoveryRequest::Track(processes) => self.tracked.set(processes),
            DiscoveryRequest::Configure { scan, variables } => {
                self.scan = scan;
                self.survey.ask_for(variables);
            }
        }
        Ok(())
    }

    fn start_actuator(&self, program: &Path, options: ActuatorOptions) -> ActuatorStart {
        if let Some(pid) = other_daemon::find_actuator(&self.processes) {
            return ActuatorStart::OtherDaemon(pid);
        }
        match Link::start(program, options, self.to.clone()) {
            Ok(link) => ActuatorStart::Started(link),
            Err(error) => ActuatorStart::Failed(error),
        }
    }

    /// What cannot be read is not told; a process that is gone has nothing on a gpu, and is told to be gone.
    fn sample(&self, pid: Pid, gpu: GpuId) -> OccupancySample {
        let at = clock::now();
        let occupied = self.processes.cu_occupancy(pid, gpu).ok().flatten();
        OccupancySample {
            pid,
            gpu,
            at,
            occupied_cus: occupied.map(|units| units.try_into().unwrap_or(u32::MAX)),
            evicted_ms: self.processes.evicted_ms(pid, gpu).ok().flatten(),
        }
    }

    fn tell(&self, event: DiscoveryEvent) -> Result<(), Unheard> {
        self.to.send(Input::Discovery(event)).map_err(|_| Unheard)
    }
}

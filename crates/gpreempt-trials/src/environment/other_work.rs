//! Whether the machine was busy with work that is not the trial's own.
//!
//! Measured as processor time: that of the whole machine minus that of the trial's processes, over stretches in which
//! none of those ends. Time that a hypervisor gave to other machines counts as other work. Times and throughputs of a
//! trial mean nothing beside much other work, so they are not judged then, and neither where it is unknown.
//!
//! The run queue (`procs_running` of `/proc/stat`, `/proc/loadavg`) would say less. It does not tell the trial's own
//! threads from others, and a virtual gpu keeps more of them runnable than most machines have cores; it is a sample of
//! an instant, or an average over a minute that reaches back before the trial; and it does not have steal. Processor
//! time belongs to a process and covers exactly the stretch. The bench reports the load average beside it, unjudged.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use linux_host::machine::CpuTicks;
use linux_host::process::{self, ProcStat};
use serde::Serialize;

use super::gpu_under_test::GpuUnderTest;

/// How long the machine is observed before a trial begins.
const BEFORE: Duration = Duration::from_secs(1);
/// Other work below so many cores is background noise: services, and rounding to clock ticks.
const NOISE_CORES: f64 = 0.15;
/// On large machines, so is this share of all cores.
const NOISE_SHARE: f64 = 0.05;

/// Processor time of the machine and of the trial's processes at an instant, in clock ticks.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    machine: CpuTicks,
    /// The trial's processes by pid and start time.
    own: BTreeMap<(u32, u64), u64>,
}

/// Ticks of a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stretch {
    /// Work of other processes, and steal.
    other: u64,
    /// All ticks of all cores.
    total: u64,
}

impl Stretch {
    /// `None` if a process of the trial ended meanwhile: what it did last cannot be told from others' work.
    fn between(before: &Snapshot, after: &Snapshot) -> Option<Stretch> {
        if before.own.keys().any(|process| !after.own.contains_key(process)) {
            return None;
        }
        let ticks = |of: fn(&CpuTicks) -> u64| of(&after.machine).saturating_sub(of(&before.machine));
        let (busy, steal, idle) = (ticks(|cpu| cpu.busy), ticks(|cpu| cpu.steal), ticks(|cpu| cpu.idle));
        // A process that is new has done all of its work in the stretch.
        let grown =
            |(process, ticks): (&(u32, u64), &u64)| ticks.saturating_sub(before.own.get(process).copied().unwrap_or(0));
        let own: u64 = after.own.iter().map(grown).sum();
        Some(Stretch { other: busy.saturating_sub(own) + steal, total: busy + steal + idle })
    }

    fn plus(self, more: Stretch) -> Stretch {
        Stretch { other: self.other + more.other, total: self.total + more.total }
    }

    /// Cores that other work kept busy on average; `None` without any time.
    fn cores(self, cores: usize) -> Option<f64> {
        (self.total > 0).then(|| self.other as f64 / self.total as f64 * cores as f64)
    }
}

/// Other work on the machine, as a report tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct OtherWork {
    /// Cores that other work kept busy in the second before the trial, on average.
    pub(crate) before_cores: Option<f64>,
    /// The same while the trial measured.
    pub(crate) during_cores: Option<f64>,
    /// More than this is too much.
    pub(crate) limit_cores: f64,
    /// Cores of the machine.
    pub(crate) cores: usize,
    /// Whether either is above the limit.
    pub(crate) exceeded: bool,
}

impl OtherWork {
    fn of(before: Stretch, during: Stretch, cores: usize) -> OtherWork {
        let limit_cores = NOISE_CORES.max(NOISE_SHARE * cores as f64);
        let (before_cores, during_cores) = (before.cores(cores), during.cores(cores));
        let exceeded = [before_cores, during_cores].into_iter().flatten().any(|busy| busy > limit_cores);
        OtherWork { before_cores, during_cores, limit_cores, cores, exceeded }
    }

    /// Whether times and counts may be judged: there was little other work, and that is known.
    pub(crate) fn permits_judgement(&self) -> bool {
        !self.exceeded && self.during_cores.is_some()
    }

    /// What to tell the user if nothing is judged.
    pub(crate) fn complaint(&self) -> Option<String> {
        let show = |busy: Option<f64>| busy.map_or_else(|| "unknown".to_owned(), |busy| format!("{busy:.2}"));
        if self.permits_judgement() {
            return None;
        }
        if !self.exceeded {
            return Some(
                "Other work on the machine is unknown, because programs of the run ended in every stretch that was \
                 measured: nothing is judged."
                    .to_owned(),
            );
        }
        Some(format!(
            "The machine was busy with other work ({} of {} cores before, {} during the run): nothing is judged.",
            show(self.before_cores),
            self.cores,
            show(self.during_cores)
        ))
    }
}

/// A stretch that has begun.
pub(crate) struct OpenStretch(Snapshot);

/// Measures other work over the stretches of a trial.
pub(crate) struct OtherWorkMeter {
    supervisor: Option<u32>,
    before: Stretch,
    during: RefCell<Stretch>,
}

impl OtherWorkMeter {
    /// Observes the machine for a second. To be called before the trial starts programs.
    pub(crate) fn start(gpu: &GpuUnderTest) -> OtherWorkMeter {
        let supervisor = gpu.status().ok().flatten().map(|status| status.supervisor);
        let mut meter = OtherWorkMeter { supervisor, before: Stretch::default(), during: RefCell::default() };
        let first = meter.snapshot();
        thread::sleep(BEFORE);
        meter.before = Stretch::between(&first, &meter.snapshot()).unwrap_or_default();
        meter
    }

    /// Begins a stretch. It counts only if no process of the trial ends in it.
    pub(crate) fn begin(&self) -> OpenStretch {
        OpenStretch(self.snapshot())
    }

    /// Ends a stretch and adds it to what was measured.
    pub(crate) fn end(&self, open: &OpenStretch) {
        if let Some(stretch) = Stretch::between(&open.0, &self.snapshot()) {
            self.during.replace_with(|sum| sum.plus(stretch));
        }
    }

    /// Measures while `work` runs.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let open = self.begin();
        let result = work();
        self.end(&open);
        result
    }

    /// Everything measured so far.
    pub(crate) fn report(&self) -> OtherWork {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        OtherWork::of(self.before, *self.during.borrow(), cores)
    }

    fn snapshot(&self) -> Snapshot {
        let machine = CpuTicks::read().unwrap_or_default();
        let stats: Vec<(u32, ProcStat)> = process::pids().filter_map(|pid| Some((pid, ProcStat::read(pid)?))).collect();
        let parents = stats.iter().map(|(pid, stat)| (*pid, stat.parent)).collect();
        let own = family(&parents, [Some(std::process::id()), self.supervisor].into_iter().flatten());
        let is_own = |(pid, _): &&(u32, ProcStat)| own.contains(pid);
        let ticks = |(pid, stat): &(u32, ProcStat)| ((*pid, stat.start), stat.user_ticks + stat.system_ticks);
        Snapshot { machine, own: stats.iter().filter(is_own).map(ticks).collect() }
    }
}

/// These processes with their children, grandchildren and so on.
fn family(parents: &BTreeMap<u32, u32>, roots: impl Iterator<Item = u32>) -> BTreeSet<u32> {
    let mut family: BTreeSet<u32> = roots.collect();
    loop {
        let is_new = |(pid, parent): &(&u32, &u32)| family.contains(parent) && !family.contains(pid);
        let children: Vec<u32> = parents.iter().filter(is_new).map(|(pid, _)| *pid).collect();
        if children.is_empty() {
            return family;
        }
        family.extend(children);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(busy: u64, steal: u64, idle: u64, own: &[(u32, u64)]) -> Snapshot {
        let own = own.iter().map(|(pid, ticks)| ((*pid, 7), *ticks)).collect();
        Snapshot { machine: CpuTicks { busy, steal, idle }, own }
    }

    #[test]
    fn own_work_does_not_count_and_steal_does() {
        let before = snapshot(1000, 10, 5000, &[(1, 100), (2, 50)]);
        // Two cores for a second: 130 ticks of work, of which 70 of a known and 40 of a new process are ours.
        let after = snapshot(1130, 15, 5065, &[(1, 170), (2, 50), (3, 40)]);
        let stretch = Stretch::between(&before, &after).unwrap();
        assert_eq!(stretch, Stretch { other: 25, total: 200 });
        assert_eq!(stretch.cores(2), Some(0.25));
    }

    #[test]
    fn rounding_that_makes_ours_more_than_all_is_no_other_work() {
        let stretch = Stretch::between(&snapshot(0, 0, 0, &[]), &snapshot(100, 0, 100, &[(1, 103)])).unwrap();
        assert_eq!(stretch, Stretch { other: 0, total: 200 });
        assert_eq!(Stretch::default().cores(2), None);
    }

    #[test]
    fn a_stretch_in_which_a_process_of_ours_ends_does_not_count() {
        let before = snapshot(0, 0, 0, &[(1, 5), (2, 5)]);
        assert_eq!(Stretch::between(&before, &snapshot(100, 0, 100, &[(1, 50)])), None);
    }

    #[test]
    fn background_noise_is_allowed_and_half_a_core_is_not() {
        let stretch = |other| Stretch { other, total: 1000 };
        assert!(!OtherWork::of(stretch(70), stretch(20), 2).exceeded);
        assert!(OtherWork::of(stretch(250), stretch(0), 2).exceeded);
        let during = OtherWork::of(stretch(0), stretch(250), 2);
        assert!(during.exceeded);
        let said = during.complaint().unwrap();
        assert!(said.contains("(0.00 of 2 cores before, 0.50 during the run): nothing is judged."), "{said}");
        // One of 64 cores is noise.
        assert!(!OtherWork::of(stretch(15), stretch(15), 64).exceeded);
        assert_eq!(OtherWork::of(Stretch::default(), stretch(0), 2).complaint(), None);
    }

    #[test]
    fn unknown_other_work_is_not_taken_for_none() {
        let quiet = Stretch { other: 0, total: 1000 };
        let unknown = OtherWork::of(quiet, Stretch::default(), 2);
        assert!(!unknown.exceeded && !unknown.permits_judgement());
        assert!(unknown.complaint().unwrap().ends_with("nothing is judged."));
        assert!(OtherWork::of(quiet, quiet, 2).permits_judgement());
    }

    #[test]
    fn a_family_is_everything_below_its_roots() {
        let parents = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 5), (9, 0)].into_iter().collect();
        assert_eq!(family(&parents, [2, 9].into_iter()), [2, 3, 4, 9].into_iter().collect());
    }

    #[test]
    fn a_busy_child_counts_as_own_work() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let meter = OtherWorkMeter { supervisor: None, before: Stretch::default(), during: RefCell::default() };
        let pid = child.id();
        let ticks =
            |snapshot: &Snapshot| snapshot.own.iter().find(|((own, _), _)| *own == pid).map(|(_, ticks)| *ticks);
        let first = ticks(&meter.snapshot()).expect("it is a child");
        // However long that takes on a loaded machine.
        while ticks(&meter.snapshot()).expect("it is a child") <= first {
            thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

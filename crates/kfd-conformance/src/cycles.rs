//! Counts the cycles of a gpu from outside.
//!
//! A cycle is one unmap and map of the runlist. The driver announces none, but each leaves two traces: packets in the
//! driver's own queue (HIQ), whose write pointer debugfs shows in `hqds`, and a call of `amdkfd_fence_wait_timeout`,
//! which a kprobe counts where tracefs may be written.
//!
//! Source: `unmap_queues_cpsch` and `map_queues_cpsch` for the packets of a cycle, `kfd_packet_manager_v9.c` for their
//! sizes, `kq_acquire_packet_buffer` for how the ring wraps.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kfd::debugfs::{HqdPlace, parse_slots};
use kfd_abi::mqd;
use kfd_abi::sysfs::DEBUG_DIR;

use crate::bench::{Bench, Subject, driver_file};
use crate::transcript::Recorder;
use crate::verdict::{Trouble, Verdict, broken, equal, unchecked};

/// One cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cycle {
    /// With the grace period that the gpu has.
    Plain,
    /// With a grace period of its own, which is set before and set back after.
    Graced,
}

/// Words of the packets of a cycle.
const UNMAP_QUEUES: u32 = 6;
const QUERY_STATUS: u32 = 7;
const RUN_LIST: u32 = 4;
const WRITE_DATA: u32 = 5;
/// Words of the driver's own ring.
const RING: u32 = 512;

impl Cycle {
    const fn packets(self) -> &'static [u32] {
        match self {
            Cycle::Plain => &[UNMAP_QUEUES, QUERY_STATUS, RUN_LIST],
            Cycle::Graced => &[WRITE_DATA, UNMAP_QUEUES, QUERY_STATUS, WRITE_DATA, RUN_LIST],
        }
    }
}

/// Returns where the write pointer is after these cycles.
fn advance(from: u32, cycles: &[Cycle]) -> u32 {
    let packets = cycles.iter().flat_map(|cycle| cycle.packets());
    packets.fold(from % RING, |at, packet| {
        // A packet does not wrap: the rest of the ring is filled, and it starts at its beginning.
        if at + packet >= RING { *packet } else { at + packet }
    })
}

/// How long nothing must have happened before counting begins.
const QUIET: Duration = Duration::from_millis(25);
/// How long the gpu may take to become quiet.
const BECOMES_QUIET: Duration = Duration::from_secs(5);

/// A way to count.
#[derive(Debug)]
pub(crate) enum CycleCounter {
    /// By the write pointer of the driver's own queue.
    Pointer,
    /// By a kprobe.
    Probe(Probe),
    /// None: why.
    None(String),
}

impl CycleCounter {
    /// Finds a way to count on this machine. A way counts only if it notices a cycle that was made for it.
    pub(crate) fn find(subject: &Subject, actor: &[&str], alone: bool) -> CycleCounter {
        if !alone {
            return CycleCounter::None("other processes use the gpu and make cycles of their own".to_owned());
        }
        let mut reasons = Vec::new();
        let probe = Probe::place().map(CycleCounter::Probe).map_err(|error| format!("no kprobe: {error}"));
        for way in [probe, Ok(CycleCounter::Pointer)] {
            match way {
                Ok(counter) => match counter.notices(subject, actor) {
                    Ok(()) => return counter,
                    Err(Trouble::Broken(why) | Trouble::Unchecked(why)) => reasons.push(why),
                },
                Err(why) => reasons.push(why),
            }
        }
        CycleCounter::None(reasons.join("; "))
    }

    /// Returns how cycles are counted, for reports.
    pub(crate) fn name(&self) -> String {
        match self {
            CycleCounter::Pointer => "write pointer of the driver's own queue in debugfs".to_owned(),
            CycleCounter::Probe(_) => "kprobe on amdkfd_fence_wait_timeout".to_owned(),
            CycleCounter::None(why) => format!("not counted: {why}"),
        }
    }

    /// Checks the way with a cycle.
    fn notices(&self, subject: &Subject, actor: &[&str]) -> Verdict {
        let none = CycleCounter::None(String::new());
        let bench = Bench { subject, actor, counter: &none, recorder: &Recorder::default() };
        let mut client = bench.program()?;
        client.queue()?;
        let before = self.value(subject)?;
        client.queue()?;
        if self.value(subject)? == before {
            return broken("the pointers of the driver's own queue in debugfs do not move");
        }
        Ok(())
    }

    fn value(&self, subject: &Subject) -> Verdict<u64> {
        match self {
            CycleCounter::Pointer => pointer(subject),
            CycleCounter::Probe(probe) => probe.hits(),
            CycleCounter::None(why) => unchecked(why),
        }
    }

    /// Waits until no cycle happens.
    fn quiet(&self, subject: &Subject) -> Verdict<u64> {
        let begun = Instant::now();
        let mut last = self.value(subject)?;
        while begun.elapsed() < BECOMES_QUIET {
            // Each look reads thousands of registers of a real gpu.
            std::thread::sleep(QUIET);
            let now = self.value(subject)?;
            if now == last {
                return Ok(now);
            }
            last = now;
        }
        unchecked("cycles go on without end: something else uses the gpu")
    }

    /// Requires that something makes exactly these cycles. A kprobe counts them and cannot tell the kinds apart.
    pub(crate) fn expect(
        &self,
        subject: &Subject,
        what: &str,
        expected: &[Cycle],
        action: impl FnOnce() -> Verdict,
    ) -> Verdict {
        let before = self.quiet(subject)?;
        action()?;
        let after = self.quiet(subject)?;
        match self {
            CycleCounter::Probe(_) => equal(&format!("cycles of {what}"), after - before, expected.len() as u64),
            _ => {
                let wanted = advance(before as u32, expected);
                let seen = (after % u64::from(RING)) as u32;
                if seen == wanted {
                    return Ok(());
                }
                let words = seen.wrapping_sub(before as u32) % RING;
                broken(format_args!("{what}: {words} words in the driver's queue, not those of {expected:?}"))
            }
        }
    }
}

/// Returns the write pointer of the driver's own queue.
fn pointer(subject: &Subject) -> Verdict<u64> {
    let nodes = parse_slots(&driver_file(&format!("{DEBUG_DIR}/hqds"))?);
    let node = nodes.iter().find(|node| node.gpu_id == subject.id());
    let own = node.and_then(|node| node.slots.iter().find(|slot| matches!(slot.place, HqdPlace::Driver { .. })));
    match own.and_then(|slot| slot.register(mqd::PQ_WPTR)) {
        Some(pointer) => Ok(pointer.into()),
        None => unchecked("hqds does not show the driver's own queue"),
    }
}

/// A kprobe of the suite. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Probe {
    tracing: PathBuf,
}

/// Name of the probe: group and event.
const GROUP: &str = "gpreempt_conformance";
const EVENT: &str = "cycle";

impl Probe {
    fn place() -> std::io::Result<Probe> {
        let homes = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(Path::new);
        let Some(tracing) = homes.into_iter().find(|home| home.join("kprobe_events").exists()) else {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        };
        let probe = Probe { tracing: tracing.to_owned() };
        probe.append("kprobe_events", &format!("p:{GROUP}/{EVENT} amdkfd_fence_wait_timeout\n"))?;
        fs::write(probe.enable_file(), "1\n")?;
        Ok(probe)
    }

    fn enable_file(&self) -> PathBuf {
        self.tracing.join("events").join(GROUP).join(EVENT).join("enable")
    }

    fn append(&self, file: &str, text: &str) -> std::io::Result<()> {
        OpenOptions::new().append(true).open(self.tracing.join(file))?.write_all(text.as_bytes())
    }

    fn hits(&self) -> Verdict<u64> {
        let text = driver_file(&self.tracing.join("kprobe_profile").to_string_lossy())?;
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(EVENT));
        match line.and_then(|line| line.split_whitespace().nth(1)).and_then(|hits| hits.parse().ok()) {
            Some(hits) => Ok(hits),
            None => unchecked("the kprobe is not in kprobe_profile"),
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // A drop cannot report an error; a probe that stays is replaced by the next run.
        let _ = fs::write(self.enable_file(), "0\n");
        let _ = self.append("kprobe_events", &format!("-:{GROUP}/{EVENT}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pointer_wraps_as_the_ring_does() {
        assert_eq!(advance(8, &[Cycle::Plain]), 25);
        assert_eq!(advance(8, &[Cycle::Graced]), 35);
        assert_eq!(advance(0, &[]), 0);
        // 500 + 6 = 506; 7 more would reach beyond 512, so the next packet begins at 0.
        assert_eq!(advance(500, &[Cycle::Plain]), 11);
        // A packet that would end exactly at the end wraps as well.
        assert_eq!(advance(506, &[Cycle::Plain]), 17);
        assert_eq!(advance(512 + 8, &[Cycle::Plain]), 25);
    }
}

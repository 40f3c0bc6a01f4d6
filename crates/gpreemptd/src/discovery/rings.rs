//! Where rings are, from the driver's descriptors in debugfs. Reading them takes a lock of every process that uses the
//! driver, so it is done only when some rings are not known.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpreempt_observe::{RingFormat, RingPlace};
use kfd::debugfs::{self, MqdKind};
use kfd::{GpuId, Pid};

use super::Blind;

/// First pause while the descriptors do not match the queues; doubles up to [`LONGEST_PAUSE`].
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Pause while the descriptors cannot be read.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// Share of the time that may be spent on reading them, as one in so many.
const ONE_IN: u32 = 10;

/// What is known of the rings of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Rings {
    /// Nothing yet, or its queues changed since.
    #[default]
    Unknown,
    /// Where they are.
    Known(Vec<RingPlace>),
    /// Why they are not known. Asked again.
    Blind(Blind),
}

impl Rings {
    pub(super) fn are_known(&self) -> bool {
        matches!(self, Rings::Known(_))
    }
}

/// The rings of one tenant that are asked for.
pub(super) struct Wanted<'a> {
    pub(super) pid: Pid,
    pub(super) gpu: GpuId,
    /// Its compute queues there, those of all contexts.
    pub(super) count: usize,
    pub(super) rings: &'a mut Rings,
}

/// Reads descriptors, not more often than it helps.
#[derive(Debug)]
pub(super) struct Reader {
    directory: PathBuf,
    due: Option<Instant>,
    pause: Duration,
    /// Why the last reading failed, until one succeeds.
    refused: Option<String>,
}

impl Reader {
    /// Reads from this directory.
    pub(super) fn new(directory: PathBuf) -> Reader {
        Reader { directory, due: None, pause: Duration::ZERO, refused: None }
    }

    /// Finds rings, if it is time to. `changed` says that queues came or went since the last time, so that it is worth
    /// to look earlier than a repetition would.
    pub(super) fn find(&mut self, wanted: Vec<Wanted<'_>>, changed: bool, now: Instant) {
        if wanted.is_empty() {
            self.pause = Duration::ZERO;
            return;
        }
        let hurried = changed && self.refused.is_none() && self.pause > Duration::ZERO;
        if hurried {
            self.pause = Duration::ZERO;
            self.due = self.due.map(|due| due.min(now + SHORTEST_PAUSE));
        }
        if self.due.is_some_and(|due| now < due) {
            for Wanted { rings, .. } in wanted {
                if *rings == Rings::Unknown {
                    *rings = Rings::Blind(self.refused.clone().map_or_else(unmatched, refused));
                }
            }
            return;
        }
        let read = debugfs::read_queues_in(&self.directory);
        let took = now.elapsed();
        self.pause = match read {
            Ok(shown) => {
                self.refused = None;
                self.pause = (self.pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
                if fill(wanted, &shown) { SHORTEST_PAUSE } else { self.pause }
            }
            Err(error) => {
                let why = refusal(&self.directory, &error);
                wanted.into_iter().for_each(|wanted| *wanted.rings = Rings::Blind(refused(why.clone())));
                self.refused = Some(why);
                REFUSED_PAUSE
            }
        };
        self.due = Some(now + took + self.pause.max(took * ONE_IN));
    }

    /// Why descriptors cannot be read, if they cannot.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }
}

/// Gives each tenant its rings. Says whether all have theirs.
fn fill(wanted: Vec<Wanted<'_>>, shown: &[debugfs::MqdProcess]) -> bool {
    let mut complete = true;
    for Wanted { pid, gpu, count, rings } in wanted {
        // A process has a record for each of its contexts.
        let queues = shown.iter().filter(|process| process.pid == pid.0).flat_map(|process| &process.queues);
        let here = queues.filter(|queue| queue.kind == MqdKind::Compute && queue.gpu_id == gpu.0);
        let found: Option<Vec<RingPlace>> = here.map(ring).collect();
        *rings = match found.filter(|found| found.len() == count) {
            Some(found) => Rings::Known(found),
            None => Rings::Blind(unmatched()),
        };
        complete &= rings.are_known();
    }
    complete
}

fn ring(queue: &debugfs::MqdQueue) -> Option<RingPlace> {
    let format = if queue.is_aql()? { RingFormat::Aql } else { RingFormat::Pm4 };
    let ring = RingPlace {
        format,
        base: queue.ring()?,
        bytes: queue.ring_bytes()?,
        read_index: queue.rptr_address()?,
        write_index: queue.wptr_address()?,
    };
    (ring.base != 0 && ring.read_index != 0 && ring.write_index != 0).then_some(ring)
}

fn unmatched() -> Blind {
    let why = "the driver's descriptors do not match its queues yet; they are read again".to_owned();
    Blind { why, refused: false }
}

fn refused(why: String) -> Blind {
    Blind { why, refused: true }
}

fn refusal(directory: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "only the superuser may read it, and not in lockdown mode; run the daemon as root"
        }
        io::ErrorKind::NotFound => {
            "mount debugfs (`mount -t debugfs none /sys/kernel/debug`), on a kernel built with CONFIG_DEBUG_FS"
        }
        _ => "it is read again every second",
    };
    format!("cannot read {}: {error}; {remedy}", directory.join("mqds").display())
}

#[cfg(test)]
pub(super) mod tests;

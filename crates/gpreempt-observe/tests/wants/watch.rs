//! A probe of queues in the memory of this process, read as that of another.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;

use gpreempt_core::Nanos;
use gpreempt_observe::{
    PollError, ReadFailure, RingPlace, RingState, RingStorage, Scratch, TenantActivity, TenantMemory, TenantProbe,
    Unwatched,
};

/// States of as many rings as there are.
#[derive(Default)]
pub(crate) struct Growing(Vec<RingState>);

impl RingStorage for Growing {
    fn slots(&self) -> &[RingState] {
        &self.0
    }

    fn slots_mut(&mut self) -> &mut [RingState] {
        &mut self.0
    }

    fn make_room(&mut self, rings: usize) {
        self.0.resize_with(self.0.len().max(rings), || RingState::EMPTY);
    }
}

/// Says of each read whether it fails. Every read is of an instant of its own; this is where the tenant goes on before.
type BeforeRead = Box<dyn FnMut(u64) -> Result<(), ReadFailure>>;

/// The memory of this process.
pub(crate) struct OwnMemory {
    file: File,
    reads: Cell<u64>,
    before_read: RefCell<Option<BeforeRead>>,
}

impl OwnMemory {
    pub(crate) fn open() -> OwnMemory {
        let file = File::open("/proc/self/mem").unwrap();
        OwnMemory { file, reads: Cell::new(0), before_read: RefCell::new(None) }
    }

    /// Calls this before every read, or nothing.
    pub(crate) fn before_read(&self, call: Option<BeforeRead>) {
        *self.before_read.borrow_mut() = call;
    }
}

impl TenantMemory for OwnMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), ReadFailure> {
        self.reads.set(self.reads.get() + 1);
        if let Some(call) = self.before_read.borrow_mut().as_mut() {
            call(address)?;
        }
        self.file.read_exact_at(bytes, address).map_err(|_| ReadFailure::Gone)
    }
}

/// A probe with what it needs.
pub(crate) struct Watch {
    pub(crate) memory: OwnMemory,
    pub(crate) probe: TenantProbe<Growing>,
    scratch: Box<Scratch>,
}

impl Watch {
    pub(crate) fn new(rings: &[RingPlace]) -> Watch {
        let (memory, probe) = (OwnMemory::open(), TenantProbe::new(Growing::default()));
        let mut watch = Watch { memory, probe, scratch: Box::new(Scratch::EMPTY) };
        watch.set_rings(rings);
        watch
    }

    pub(crate) fn set_rings(&mut self, rings: &[RingPlace]) -> Unwatched {
        self.probe.set_rings(rings.iter().copied())
    }

    pub(crate) fn poll(&mut self, now: Nanos, stopped: bool) -> Result<TenantActivity, PollError> {
        self.probe.poll(&self.memory, &mut self.scratch, now, stopped)
    }

    pub(crate) fn sampled(&mut self, sample: &Sample, alone: bool) {
        self.probe.sampled(&self.memory, sample.at, sample.occupied_cus, Some(sample.evicted_ms), alone);
    }

    /// Polls and returns how often memory was read.
    pub(crate) fn count_reads(&mut self, now: Nanos) -> (TenantActivity, u64) {
        let before = self.memory.reads.get();
        let look = self.poll(now, false).unwrap();
        (look, self.memory.reads.get() - before)
    }
}

/// What the driver tells of the occupancy.
pub(crate) struct Sample {
    pub(crate) at: Nanos,
    pub(crate) occupied_cus: Option<u32>,
    pub(crate) evicted_ms: u64,
}

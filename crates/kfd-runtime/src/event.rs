//! Events: how the gpu wakes a process that sleeps.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use kfd_abi::event::{EVENT_PAGE_SIZE, EventData, EventType};

use crate::driver::{self, Driver};
use crate::error::Result;
use crate::memory::{Buffer, GpuAddr, Heap, Placement};

/// The process's event page and the events that mean something went wrong.
#[derive(Debug)]
pub(crate) struct Events {
    driver: Arc<Driver>,
    /// Never freed: the driver refuses that, with a line in its log, and frees it when the process ends.
    page: ManuallyDrop<Buffer>,
    memory_fault: u32,
    reset: u32,
}

impl Events {
    /// Gives the driver its event page, visible to all gpus, with the first event.
    pub(crate) fn create(heap: &Heap, gpu_ids: &[u32]) -> Result<Events> {
        let page = heap.allocate(EVENT_PAGE_SIZE as usize, Placement::Uncached, gpu_ids)?;
        let driver = Arc::clone(&heap.driver);
        // Both stay signalled: after a fault every wait of the process has to end, not only the next one.
        let (memory_fault, _) = driver.create_event(EventType::MEMORY, false, page.handle())?;
        let (reset, _) = driver.create_event(EventType::HW_EXCEPTION, false, 0)?;
        Ok(Events { driver, page: ManuallyDrop::new(page), memory_fault, reset })
    }

    /// Sleeps until one of `signals` happened, the gpu failed, or the time is up.
    pub(crate) fn wait(&self, signals: &[&SignalEvent], timeout: Duration) -> Result<()> {
        let entry = |event_id| EventData { event_id, ..EventData::default() };
        let mut entries = vec![entry(self.memory_fault), entry(self.reset)];
        entries.extend(signals.iter().map(|signal| entry(signal.event_id)));
        self.driver.wait(&mut entries, timeout)?;
        let fault = entries.first().and_then(driver::memory_fault);
        let reset = entries.get(1).and_then(driver::reset);
        fault.or(reset).map_or(Ok(()), Err)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // A drop cannot report an error; events end with the process, too.
        let _ = self.driver.destroy_event(self.memory_fault);
        let _ = self.driver.destroy_event(self.reset);
    }
}

/// An event that a packet raises by writing its id to its slot of the event page.
#[derive(Debug)]
pub(crate) struct SignalEvent {
    events: Arc<Events>,
    event_id: u32,
    slot: u32,
}

impl SignalEvent {
    pub(crate) fn create(events: &Arc<Events>) -> Result<SignalEvent> {
        let (event_id, slot) = events.driver.create_event(EventType::SIGNAL, true, 0)?;
        Ok(SignalEvent { events: Arc::clone(events), event_id, slot })
    }

    /// What is written to raise it.
    pub(crate) fn id(&self) -> u32 {
        self.event_id
    }

    /// Where it is written.
    pub(crate) fn mailbox(&self) -> GpuAddr {
        self.events.page.address().plus(u64::from(self.slot) * 8)
    }
}

impl Drop for SignalEvent {
    fn drop(&mut self) {
        // A drop cannot report an error; events end with the process, too.
        let _ = self.events.driver.destroy_event(self.event_id);
    }
}

//! Events. The driver knows which there are; raising them and waiting for them happens in memory that the client and
//! the device share.
//!
//! Source of the rules: `kfd_events.c` of Linux 6.12. Two limits are simpler here: all slots can be used whether or not
//! the program has mapped the driver's page, and a larger page of its own gives it no more of them.

use std::collections::BTreeMap;

use kfd_abi::event::{
    CreateEventArgs, DestroyEventArgs, EVENT_PAGE_SIZE, EventData, EventType, ResetEventArgs, SIGNAL_EVENT_LIMIT,
    SetEventArgs, WaitEventsArgs, WaitResult,
};
use kfd_abi::memory::{MmapKind, MmapOffset, handle_parts};

use super::call::MAX_WAIT_EVENTS;
use super::ids::Ids;
use super::{Backing, Call, Driver, Errno, EventWait, ProcessEffect, ProcessKey};

/// First id of an event without a slot (`KFD_FIRST_NONSIGNAL_EVENT_ID`).
const FIRST_OTHER: u32 = 0x4000_0000;

/// The event page of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// Not needed yet.
    None,
    /// The driver's, at its place in the kfd file.
    Driver,
    /// A buffer of the process.
    Buffer(u64),
}

#[derive(Debug)]
pub(super) struct Events {
    events: BTreeMap<u32, EventType>,
    /// Ids of events with a slot. Id 0 is never given out: interrupts without an id carry it.
    signal_ids: Ids,
    /// Ids of the others.
    other_ids: Ids,
    page: Page,
}

/// Whether the device can raise it: it has a slot in the event page.
fn has_slot(kind: EventType) -> bool {
    matches!(kind, EventType::SIGNAL | EventType::DEBUG_EVENT)
}

impl Events {
    pub(super) fn new() -> Events {
        Events {
            events: BTreeMap::new(),
            signal_ids: Ids::new(1..SIGNAL_EVENT_LIMIT),
            other_ids: Ids::new(FIRST_OTHER..i32::MAX as u32),
            page: Page::None,
        }
    }

    /// Handle of the buffer that is the event page.
    pub(super) fn page_handle(&self) -> Option<u64> {
        match self.page {
            Page::Buffer(handle) => Some(handle),
            Page::None | Page::Driver => None,
        }
    }

    pub(super) fn release(&mut self, effects: &mut Vec<ProcessEffect>) {
        effects.extend(std::mem::take(&mut self.events).into_keys().map(|id| ProcessEffect::DestroyEvent { id }));
    }

    /// An event that the process itself may signal.
    fn settable(&self, id: u32) -> Result<(), Errno> {
        if self.events.get(&id) == Some(&EventType::SIGNAL) { Ok(()) } else { Err(Errno::EINVAL) }
    }
}

impl Driver {
    pub(super) fn create_event(
        &mut self,
        caller: ProcessKey,
        args: &mut CreateEventArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        if args.event_page_offset != 0 {
            self.set_event_page(caller, args.event_page_offset, call)?;
        }
        let events = &mut self.process_mut(caller)?.events;
        args.event_page_offset = 0;
        let kind = args.event_type;
        let slot = has_slot(kind);
        let id = if slot { events.signal_ids.take() } else { events.other_ids.take() }.ok_or(Errno::ENOSPC)?;
        events.events.insert(id, kind);
        if slot {
            if events.page == Page::None {
                events.page = Page::Driver;
            }
            args.event_page_offset = MmapOffset::new(MmapKind::EVENTS, 0).0;
            args.event_slot_index = id;
        }
        args.event_id = id;
        args.event_trigger_data = id;
        let auto_reset = args.auto_reset != 0;
        call.effects.process.push(ProcessEffect::CreateEvent { id, kind, auto_reset, slot: slot.then_some(id) });
        Ok(0)
    }

    fn set_event_page(&mut self, caller: ProcessKey, handle: u64, call: &mut Call) -> Result<(), Errno> {
        if self.process(caller)?.events.page != Page::None {
            return Err(Errno::EINVAL);
        }
        let (gpu_id, id) = handle_parts(handle);
        let gpu = self.bound_gpu(caller, gpu_id, Errno::ENODEV)?;
        let process = self.process_mut(caller)?;
        let buffer = process.handle(gpu, id).and_then(|entry| process.held.get(&entry.buffer).copied());
        let buffer = buffer.ok_or(Errno::EINVAL)?;
        if !matches!(buffer.backing, Backing::Gtt { .. }) || buffer.size < EVENT_PAGE_SIZE.into() {
            return Err(Errno::EINVAL);
        }
        call.effects.process.push(ProcessEffect::EventPage { backing: buffer.backing, size: buffer.size });
        process.events.page = Page::Buffer(handle);
        Ok(())
    }

    pub(super) fn destroy_event(
        &mut self,
        caller: ProcessKey,
        args: &mut DestroyEventArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        let events = &mut self.process_mut(caller)?.events;
        let id = args.event_id;
        let kind = events.events.remove(&id).ok_or(Errno::EINVAL)?;
        if has_slot(kind) {
            events.signal_ids.put(id);
        } else {
            events.other_ids.put(id);
        }
        call.effects.process.push(ProcessEffect::DestroyEvent { id });
        Ok(0)
    }

    pub(super) fn set_event(
        &mut self,
        caller: ProcessKey,
        args: &mut SetEventArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        self.process(caller)?.events.settable(args.event_id)?;
        call.effects.process.push(ProcessEffect::SetEvent { id: args.event_id });
        Ok(0)
    }

    pub(super) fn reset_event(
        &mut self,
        caller: ProcessKey,
        args: &mut ResetEventArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        self.process(caller)?.events.settable(args.event_id)?;
        call.effects.process.push(ProcessEffect::ResetEvent { id: args.event_id });
        Ok(0)
    }

    /// Whether a process may wait for these events.
    ///
    /// # Errors
    /// `EINVAL` if one does not exist, `EBADF` if the process does not.
    pub fn wait_events(&self, process: ProcessKey, ids: &[u32]) -> Result<(), Errno> {
        let events = &self.process(process)?.events.events;
        if ids.iter().all(|id| events.contains_key(id)) { Ok(()) } else { Err(Errno::EINVAL) }
    }

    pub(super) fn wait_events_call(
        &mut self,
        caller: ProcessKey,
        args: &mut WaitEventsArgs,
        call: &mut Call,
    ) -> Result<i64, Errno> {
        // What is told unless the wait itself tells otherwise.
        args.wait_result = WaitResult::FAIL;
        if args.num_events > MAX_WAIT_EVENTS {
            return Err(Errno::EINVAL);
        }
        let list: Vec<EventData> = call.list(0, args.num_events)?;
        let ids: Vec<u32> = list.iter().map(|event| event.event_id).collect();
        self.wait_events(caller, &ids)?;
        call.wait = Some(EventWait { ids, all: args.wait_for_all != 0, timeout: args.timeout });
        Ok(0)
    }
}

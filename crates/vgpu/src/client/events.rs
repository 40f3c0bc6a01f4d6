//! Events: what threads of the program sleep on until the gpu, or a fault of it, wakes them.
//!
//! The table lives in the client process, where both the threads that wait and the executors that signal are. The rules
//! are those of `kfd_events.c`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kfd_abi::Union;
use kfd_abi::event::{
    EventData, EventType, HwException, MemoryException, SignalEvent, TIMEOUT_IMMEDIATE, TIMEOUT_INFINITE,
    UNSIGNALED_SLOT, WaitResult,
};

use crate::executor;
use crate::sys::{self, Map};

struct Event {
    kind: EventType,
    auto_reset: bool,
    signaled: bool,
    age: u64,
    data: Option<Union<4>>,
    slot: Option<u32>,
    /// Waits that this event is part of: number of the wait, position in it.
    waiting: Vec<(u64, usize)>,
}

/// A wait in progress.
struct Wait {
    activated: Vec<bool>,
    failed: bool,
}

#[derive(Default)]
struct Table {
    events: HashMap<u32, Event>,
    waits: HashMap<u64, Wait>,
    next_wait: u64,
    page: Option<Map>,
    lost: bool,
}

/// The events of one process.
#[derive(Default)]
pub(crate) struct Events {
    table: Mutex<Table>,
    /// Changes whenever a wait may have ended.
    changes: AtomicU32,
}

/// A thread that waits checks this often whether the gpu is lost.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

impl Events {
    /// Locks the table. `None` if an executor died with it.
    fn table(&self) -> Option<MutexGuard<'_, Table>> {
        executor::lock(&self.table)
    }

    /// Does something to the table, if there is one.
    fn change(&self, change: impl FnOnce(&mut Table)) {
        if let Some(mut table) = self.table() {
            change(&mut table);
        }
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        sys::wake(&self.changes);
    }

    pub(crate) fn set_page(&self, page: Map) {
        for slot in 0..page.length() / 8 {
            if let Some(word) = slot_word(&page, slot) {
                word.store(UNSIGNALED_SLOT, Ordering::SeqCst);
            }
        }
        self.change(|table| table.page = Some(page));
    }

    pub(crate) fn has_page(&self) -> bool {
        self.table().is_some_and(|table| table.page.is_some())
    }

    pub(crate) fn create(&self, id: u32, kind: EventType, auto_reset: bool, slot: Option<u32>) {
        let event = Event { kind, auto_reset, signaled: false, age: 1, data: None, slot, waiting: Vec::new() };
        self.change(|table| {
            table.events.insert(id, event);
        });
    }

    pub(crate) fn destroy(&self, id: u32) {
        self.change(|table| {
            for (wait, _) in table.events.remove(&id).map(|event| event.waiting).unwrap_or_default() {
                if let Some(wait) = table.waits.get_mut(&wait) {
                    wait.failed = true;
                }
            }
        });
        self.changed();
    }

    pub(crate) fn set(&self, id: u32) {
        self.change(|table| table.signal(id));
        self.changed();
    }

    pub(crate) fn reset(&self, id: u32) {
        self.change(|table| {
            if let Some(event) = table.events.get_mut(&id) {
                event.signaled = false;
            }
        });
    }

    /// An interrupt of the device. Without a number the event is found by the slot of the event page that was written.
    pub(crate) fn interrupt(&self, id: u32) {
        self.change(|table| {
            let named = table.events.get(&id).is_some_and(|event| event.slot.is_some());
            let ids = if named && id != 0 { vec![id] } else { table.written_slots() };
            for id in ids {
                table.clear_slot(id);
                table.signal(id);
            }
        });
        self.changed();
    }

    /// A fault of the gpu.
    pub(crate) fn memory_exception(&self, exception: &MemoryException) {
        self.change(|table| table.raise(EventType::MEMORY, Union::of(exception)));
        self.changed();
    }

    /// The gpu failed, or is gone for ever.
    pub(crate) fn hardware_exception(&self, exception: &HwException, lost: bool) {
        self.change(|table| {
            table.lost |= lost;
            table.raise(EventType::HW_EXCEPTION, Union::of(exception));
        });
        self.changed();
    }

    /// Waits for events; fills what the caller is told about them. After a signal `timeout` is what is left of it, and
    /// events that the wait had consumed are there again: a call that is repeated goes on waiting.
    ///
    /// # Errors
    /// EINTR after a signal, EIO if the gpu is lost, EINVAL if an event does not exist.
    pub(crate) fn wait(&self, events: &mut [EventData], all: bool, timeout: &mut u32) -> Result<WaitResult, i32> {
        let deadline = match *timeout {
            TIMEOUT_INFINITE => None,
            limit => Some(Instant::now() + Duration::from_millis(limit.into())),
        };
        let wait = self.table().ok_or(libc::EIO)?.begin(events)?;
        let outcome = loop {
            let seen = self.changes.load(Ordering::SeqCst);
            let Some(table) = self.table() else { return Err(libc::EIO) };
            let (ended, lost) = (table.ended(wait, all), table.lost);
            drop(table);
            if let Some(result) = ended {
                break Ok(result);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if *timeout == TIMEOUT_IMMEDIATE || left.is_some_and(|left| left.is_zero()) {
                break Ok(WaitResult::TIMEOUT);
            }
            if lost || executor::has_failed() {
                break Err(libc::EIO);
            }
            let interrupted =
                sys::wait(&self.changes, seen, Some(left.map_or(LONGEST_SLEEP, |left| left.min(LONGEST_SLEEP))));
            if interrupted {
                break Err(libc::EINTR);
            }
        };
        if let Some(deadline) = deadline.filter(|_| outcome == Err(libc::EINTR)) {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            *timeout = u32::try_from(left).unwrap_or(*timeout).min(*timeout);
        }
        self.change(|table| table.end(wait, events, &outcome));
        outcome
    }
}

impl Table {
    fn signal(&mut self, id: u32) {
        let Some(event) = self.events.get_mut(&id) else { return };
        // Threads that wait consume an event that resets itself.
        event.signaled = !event.auto_reset || event.waiting.is_empty();
        event.age += 1;
        for (wait, position) in &event.waiting {
            if let Some(wait) = self.waits.get_mut(wait) {
                wait.activated[*position] = true;
            }
        }
    }

    fn raise(&mut self, kind: EventType, data: Union<4>) {
        let ids: Vec<u32> = self.events.iter().filter(|(_, e)| e.kind == kind).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(event) = self.events.get_mut(&id) {
                event.data = Some(data);
            }
            self.signal(id);
        }
    }

    fn written_slots(&self) -> Vec<u32> {
        let Some(page) = &self.page else { return Vec::new() };
        let written = |slot: u32| {
            slot_word(page, slot as usize).is_some_and(|word| word.load(Ordering::SeqCst) != UNSIGNALED_SLOT)
        };
        self.events.iter().filter(|(_, event)| event.slot.is_some_and(written)).map(|(id, _)| *id).collect()
    }

    fn clear_slot(&self, id: u32) {
        let slot = self.events.get(&id).and_then(|event| event.slot);
        if let (Some(page), Some(slot)) = (&self.page, slot)
            && let Some(word) = slot_word(page, slot as usize)
        {
            word.store(UNSIGNALED_SLOT, Ordering::SeqCst);
        }
    }

    fn begin(&mut self, events: &[EventData]) -> Result<u64, i32> {
        if !events.iter().all(|event| self.events.contains_key(&event.event_id)) {
            return Err(libc::EINVAL);
        }
        self.next_wait += 1;
        let number = self.next_wait;
        let mut activated = vec![false; events.len()];
        for (position, data) in events.iter().enumerate() {
            let Some(event) = self.events.get_mut(&data.event_id) else { continue };
            activated[position] = event.signaled;
            event.signaled &= !event.auto_reset;
            if event.kind == EventType::SIGNAL {
                let age = data.data.get::<SignalEvent>().last_event_age;
                activated[position] |= age != 0 && age != event.age;
            }
            // One that has happened is not waited for: when it happens again, that is for the next wait.
            if !activated[position] {
                event.waiting.push((number, position));
            }
        }
        self.waits.insert(number, Wait { activated, failed: false });
        Ok(number)
    }

    fn ended(&self, number: u64, all: bool) -> Option<WaitResult> {
        let wait = self.waits.get(&number)?;
        if wait.failed {
            return Some(WaitResult::FAIL);
        }
        let mut activated = wait.activated.iter();
        let done = if all { activated.all(|&a| a) } else { wait.activated.is_empty() || activated.any(|&a| a) };
        done.then_some(WaitResult::COMPLETE)
    }

    /// Ends a wait. Only one that is complete tells about its events: after any other the caller comes back with the
    /// ages it had, and so misses nothing. One that a signal interrupted gives back what it consumed.
    fn end(&mut self, number: u64, events: &mut [EventData], outcome: &Result<WaitResult, i32>) {
        let activated = self.waits.remove(&number).map(|wait| wait.activated).unwrap_or_default();
        for (data, activated) in events.iter_mut().zip(activated) {
            let Some(event) = self.events.get_mut(&data.event_id) else { continue };
            event.waiting.retain(|(wait, _)| *wait != number);
            if !activated {
                continue;
            }
            match (outcome, event.kind) {
                (Ok(WaitResult::COMPLETE), EventType::SIGNAL) => {
                    // Callers that know no ages leave it 0, and it stays so.
                    let known = data.data.get::<SignalEvent>().last_event_age != 0;
                    let last_event_age = if known { event.age } else { 0 };
                    data.data = Union::of(&SignalEvent { last_event_age });
                }
                (Ok(WaitResult::COMPLETE), _) => data.data = event.data.unwrap_or(data.data),
                (Err(libc::EINTR), _) if event.auto_reset => self.signal(data.event_id),
                _ => {}
            }
        }
    }
}

/// A slot of the event page.
fn slot_word(page: &Map, slot: usize) -> Option<&AtomicU64> {
    if (slot + 1) * 8 > page.length() {
        return None;
    }
    // SAFETY: the word lies in the mapping and is aligned; every process accesses it as a whole.
    Some(unsafe { AtomicU64::from_ptr(page.start().add(slot * 8).cast()) })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn data(id: u32) -> EventData {
        EventData { event_id: id, ..Default::default() }
    }

    fn signal_event(events: &Events, id: u32, auto_reset: bool) {
        events.create(id, EventType::SIGNAL, auto_reset, Some(id));
    }

    #[test]
    fn an_event_signalled_before_the_wait_ends_it_at_once_and_only_once_if_it_resets_itself() {
        let events = Events::default();
        signal_event(&events, 1, true);
        events.set(1);
        assert_eq!(events.wait(&mut [data(1)], false, &mut 0), Ok(WaitResult::COMPLETE));
        assert_eq!(events.wait(&mut [data(1)], false, &mut 0), Ok(WaitResult::TIMEOUT));
        signal_event(&events, 2, false);
        events.set(2);
        for _ in 0..2 {
            assert_eq!(events.wait(&mut [data(2)], false, &mut 0), Ok(WaitResult::COMPLETE));
        }
        events.reset(2);
        assert_eq!(events.wait(&mut [data(2)], false, &mut 0), Ok(WaitResult::TIMEOUT));
    }

    #[test]
    fn waiting_for_all_needs_all_and_an_older_age_ends_the_wait() {
        let events = Events::default();
        signal_event(&events, 1, false);
        signal_event(&events, 2, false);
        events.set(1);
        assert_eq!(events.wait(&mut [data(1), data(2)], true, &mut 0), Ok(WaitResult::TIMEOUT));
        assert_eq!(events.wait(&mut [data(1), data(2)], false, &mut 0), Ok(WaitResult::COMPLETE));
        let mut aged = data(2);
        aged.data = Union::of(&SignalEvent { last_event_age: 7 });
        assert_eq!(events.wait(&mut [aged], false, &mut 0), Ok(WaitResult::COMPLETE));
    }

    fn aged(id: u32, last_event_age: u64) -> EventData {
        EventData { data: Union::of(&SignalEvent { last_event_age }), ..data(id) }
    }

    fn age(data: &EventData) -> u64 {
        data.data.get::<SignalEvent>().last_event_age
    }

    #[test]
    fn ages_are_told_to_those_who_know_them_when_the_wait_is_complete() {
        let events = Events::default();
        signal_event(&events, 1, true);
        signal_event(&events, 2, true);
        events.set(1);
        let mut waited = [aged(1, 1), aged(2, 1)];
        assert_eq!(events.wait(&mut waited, true, &mut 0), Ok(WaitResult::TIMEOUT));
        // The first event is not lost, although the wait consumed it: its age is still older.
        assert_eq!((age(&waited[0]), age(&waited[1])), (1, 1));
        events.set(2);
        assert_eq!(events.wait(&mut waited, true, &mut 0), Ok(WaitResult::COMPLETE));
        assert_eq!((age(&waited[0]), age(&waited[1])), (2, 2));
        events.set(1);
        let mut ageless = [data(1)];
        assert_eq!(events.wait(&mut ageless, true, &mut 0), Ok(WaitResult::COMPLETE));
        assert_eq!(age(&ageless[0]), 0);
    }

    #[test]
    fn an_event_that_happens_again_during_a_wait_is_there_for_the_next() {
        let events = Events::default();
        signal_event(&events, 1, true);
        signal_event(&events, 2, true);
        events.set(1);
        let both = [data(1), data(2)];
        let wait = events.table().expect("not lost").begin(&both).expect("both exist");
        events.set(1);
        events.table().expect("not lost").end(wait, &mut both.clone(), &Ok(WaitResult::TIMEOUT));
        assert_eq!(events.wait(&mut [data(1)], true, &mut 0), Ok(WaitResult::COMPLETE));
    }

    #[test]
    fn an_interrupted_wait_gives_back_what_it_consumed() {
        let events = Events::default();
        signal_event(&events, 1, true);
        signal_event(&events, 2, true);
        events.set(1);
        let mut both = [data(1), data(2)];
        let wait = events.table().expect("not lost").begin(&both).expect("both exist");
        events.table().expect("not lost").end(wait, &mut both, &Err(libc::EINTR));
        assert_eq!(events.wait(&mut [data(1)], true, &mut 0), Ok(WaitResult::COMPLETE));
        assert_eq!(events.wait(&mut [data(2)], true, &mut 0), Ok(WaitResult::TIMEOUT));
    }

    #[test]
    fn a_waiting_thread_is_woken_by_a_signal_by_destruction_and_by_loss() {
        let events = Arc::new(Events::default());
        signal_event(&events, 1, true);
        let begun = || events.table().expect("no executor died").waits.len();
        let sleeper = |events: &Arc<Events>| {
            let events = Arc::clone(events);
            std::thread::spawn(move || events.wait(&mut [data(1)], true, &mut { TIMEOUT_INFINITE }))
        };
        let until_begun = || {
            while begun() == 0 {
                std::thread::yield_now();
            }
        };
        let thread = sleeper(&events);
        until_begun();
        events.interrupt(1);
        assert_eq!(thread.join().expect("no panic"), Ok(WaitResult::COMPLETE));
        let thread = sleeper(&events);
        until_begun();
        events.destroy(1);
        assert_eq!(thread.join().expect("no panic"), Ok(WaitResult::FAIL));
        signal_event(&events, 1, true);
        let thread = sleeper(&events);
        until_begun();
        events.hardware_exception(&HwException::default(), true);
        assert_eq!(thread.join().expect("no panic"), Err(libc::EIO));
        assert_eq!(events.wait(&mut [data(9)], false, &mut 0), Err(libc::EINVAL));
    }

    #[test]
    fn a_fault_tells_where_it_happened() {
        let events = Events::default();
        events.create(5, EventType::MEMORY, false, None);
        let fault = MemoryException { va: 0x1000, gpu_id: 3, ..Default::default() };
        events.memory_exception(&fault);
        let mut waited = [data(5)];
        assert_eq!(events.wait(&mut waited, true, &mut { TIMEOUT_INFINITE }), Ok(WaitResult::COMPLETE));
        assert_eq!(waited[0].data.get::<MemoryException>(), fault);
    }

    #[test]
    fn a_wait_that_a_signal_interrupts_loses_no_event() {
        let mut table = Table::default();
        for id in [1, 2] {
            let event = Event {
                kind: EventType::SIGNAL,
                auto_reset: true,
                signaled: false,
                age: 1,
                data: None,
                slot: None,
                waiting: vec![],
            };
            table.events.insert(id, event);
        }
        let mut both = [data(1), data(2)];
        // One event came before the wait and one while it slept; the signal was faster than the sleeper.
        table.signal(1);
        let wait = table.begin(&both).expect("both exist");
        table.signal(2);
        table.end(wait, &mut both, &Err(libc::EINTR));
        assert_eq!(both, [data(1), data(2)], "an interrupted wait tells nothing");
        assert!(table.events.values().all(|event| event.signaled && event.waiting.is_empty()));
        let again = table.begin(&both).expect("both exist");
        assert_eq!(table.ended(again, true), Some(WaitResult::COMPLETE));
    }
}

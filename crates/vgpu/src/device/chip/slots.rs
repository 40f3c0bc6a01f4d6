//! Room on the compute units, shared with other processes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::super::cu::{Cursor, RECENT, Refused};
use super::super::cu_mask::CuMask;
use super::super::slots::{CuPlacement, Need, PriorityClass, SlotRequest, Slots};
use super::lock::Holder;
use super::repair::Locked;
use super::{Chip, CuWords, ProcessSlot, crash};
use crate::kill_points::{self, Point};

/// A request without borrowed parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    need: Need,
    class: PriorityClass,
    allowed: Option<CuMask>,
}

impl Asked {
    fn of(request: &SlotRequest<'_>) -> Self {
        Self { need: request.need, class: request.class, allowed: request.allowed.copied() }
    }
}

#[derive(Debug, Default)]
struct Memory {
    refused: Refused,
    /// What this process has published as its best waiting workgroup.
    published: Option<Asked>,
}

/// Access of one process to the compute units of one gpu.
#[derive(Debug)]
pub(crate) struct ChipSlots {
    chip: Arc<Chip>,
    process: ProcessSlot,
    gpu: u32,
    memory: Mutex<Memory>,
}

/// Reasons for which a workgroup gets no room.
enum Refusal {
    /// It fits on no compute unit.
    Full,
    /// Another process is to have the room first.
    Reserved,
}

impl ChipSlots {
    /// Gives a process access to a gpu. Returns `None` if there is no such gpu.
    pub(crate) fn new(chip: Arc<Chip>, process: ProcessSlot, gpu: u32) -> Option<Self> {
        (gpu < chip.gpus()).then(|| Self { chip, process, gpu, memory: Mutex::default() })
    }

    /// Takes the gpu's lock, unless the supervisor has taken everything back already.
    fn lock(&self) -> Option<Locked<'_>> {
        if self.chip.is_live(self.process) {
            self.chip.lock_gpu(self.gpu, Holder::Process(self.process), None)
        } else {
            None
        }
    }
}

impl Locked<'_> {
    /// Takes room. `few` names the compute units worth searching, if not all.
    fn take(
        &self,
        process: ProcessSlot,
        request: &SlotRequest<'_>,
        few: Option<&[u32]>,
    ) -> Result<CuPlacement, Refusal> {
        let size = self.chip.geometry();
        let totals = self.chip.totals(self.gpu);
        let words = self.words;
        let mut cursor = Cursor { next: words.next.load(Ordering::Relaxed), turn: words.turn.load(Ordering::Relaxed) };
        let found = cursor.find(size, &request.need, few, |cu| {
            totals.get(cu as usize).filter(|_| request.allows(cu)).map(CuWords::load)
        });
        let (index, total, simds) = found.ok_or(Refusal::Full)?;
        if let Some(other) = self.preferred(process, request.class) {
            self.call(other);
            return Err(Refusal::Reserved);
        }
        let part = self.chip.process_part(process, self.gpu).ok_or(Refusal::Full)?;
        let place = size.place(index, simds, request.need);
        let share = &self.chip.share(process, self.gpu)[index as usize];
        let mut own = share.load();
        own.add(&place);
        share.store(&own);
        totals[index as usize].store(&total);
        words.next.store(cursor.next, Ordering::Relaxed);
        words.turn.store(cursor.turn, Ordering::Relaxed);
        self.count(process, |waves| waves.saturating_add(request.need.waves));
        part.served.store(words.taken.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.call_next();
        Ok(place)
    }

    fn give(&self, process: ProcessSlot, place: &CuPlacement) {
        let index = place.cu as usize;
        let (Some(total), Some(share)) =
            (self.chip.totals(self.gpu).get(index), self.chip.share(process, self.gpu).get(index))
        else {
            return;
        };
        for words in [total, share] {
            let mut cu = words.load();
            cu.remove(place);
            words.store(&cu);
        }
        self.count(process, |waves| waves.saturating_sub(place.need.waves));
        let version = self.words.version.load(Ordering::Relaxed);
        self.words.recent[(version % RECENT) as usize].store(place.cu, Ordering::Relaxed);
        self.words.version.store(version.wrapping_add(1), Ordering::SeqCst);
        self.offer(place.cu);
        self.call_next();
    }

    fn count(&self, process: ProcessSlot, change: impl Fn(u32) -> u32) {
        let part = self.chip.process_part(process, self.gpu).map(|part| &part.waves);
        for word in part.into_iter().chain([&self.words.waves]) {
            crash::point();
            word.store(change(word.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }
}

impl Slots for ChipSlots {
    fn take(&self, request: &SlotRequest<'_>) -> Option<CuPlacement> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let worth = |refused: &Refused| {
            let gpu = self.chip.gpu(self.gpu)?;
            let recent = |number: u64| gpu.recent[(number % RECENT) as usize].load(Ordering::Relaxed);
            refused.worth(request, gpu.version.load(Ordering::SeqCst), recent)
        };
        // Without the lock: it is not needed to see that nothing has changed.
        if self.chip.is_closed(self.process) || worth(&memory.refused).is_some_and(|few| few.is_empty()) {
            return None;
        }
        let locked = self.lock()?;
        kill_points::hit(Point::SlotLock);
        let few = worth(&memory.refused);
        match locked.take(self.process, request, few.as_deref()) {
            Ok(place) => Some(place),
            Err(Refusal::Full) => {
                memory.refused.note(request, locked.words.version.load(Ordering::SeqCst));
                None
            }
            Err(Refusal::Reserved) => None,
        }
    }

    fn give(&self, place: &CuPlacement) {
        if let Some(locked) = self.lock() {
            locked.give(self.process, place);
        }
    }

    fn possible(&self, need: &Need) -> bool {
        self.chip.geometry().holds(need)
    }

    fn wait(&self, best: Option<&SlotRequest<'_>>) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = best.map(Asked::of);
        if memory.published == asked {
            return;
        }
        if let Some(locked) = self.lock() {
            locked.publish(self.process, best);
            memory.published = asked;
        }
    }
}

impl Chip {
    /// Returns the waves of all processes on a gpu.
    pub(crate) fn occupancy(&self, gpu: u32) -> u32 {
        self.gpu(gpu).map_or(0, |words| self.clamp(words.waves.load(Ordering::Relaxed)))
    }

    /// Returns the waves of one process on a gpu.
    pub(crate) fn occupancy_of(&self, process: ProcessSlot, gpu: u32) -> u32 {
        self.process_part(process, gpu).map_or(0, |part| self.clamp(part.waves.load(Ordering::Relaxed)))
    }

    fn clamp(&self, waves: u32) -> u32 {
        let size = self.geometry();
        waves.min(size.cus * super::super::cu::SIMDS as u32 * size.waves)
    }
}

//! Room on the compute units, shared with other processes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::super::cu::{Cursor, RECENT, Refused};
use super::super::cu_mask::CuMask;
use super::super::slots::{Class, Need, Place, Request, Slots};
use super::lock::Holder;
use super::repair::Locked;
use super::{Chip, CuWords, SeatId, crash};
use crate::points::{self, Point};

/// A request that outlives the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    need: Need,
    class: Class,
    allowed: Option<CuMask>,
}

impl Asked {
    fn of(request: &Request<'_>) -> Self {
        Self { need: request.need, class: request.class, allowed: request.allowed.copied() }
    }
}

#[derive(Debug, Default)]
struct Memory {
    refused: Refused,
    /// What others were told that this seat waits for.
    published: Option<Asked>,
}

/// The compute units of one gpu as one seat takes them.
#[derive(Debug)]
pub struct ChipSlots {
    chip: Arc<Chip>,
    seat: SeatId,
    gpu: u32,
    memory: Mutex<Memory>,
}

/// Why there is no place.
enum Refusal {
    /// It fits nowhere.
    Full,
    /// Somebody else is to have it.
    Reserved,
}

impl ChipSlots {
    /// A seat's access to a gpu; `None` if there is no such gpu.
    pub fn new(chip: Arc<Chip>, seat: SeatId, gpu: u32) -> Option<Self> {
        (gpu < chip.gpus()).then(|| Self { chip, seat, gpu, memory: Mutex::default() })
    }

    /// The gpu's lock, unless the supervisor has taken everything back already.
    fn lock(&self) -> Option<Locked<'_>> {
        if self.chip.is_live(self.seat) { self.chip.lock_gpu(self.gpu, Holder::Seat(self.seat), None) } else { None }
    }
}

impl Locked<'_> {
    /// Takes room; `few` compute units are worth asking, if not all.
    fn take(&self, seat: SeatId, request: &Request<'_>, few: Option<&[u32]>) -> Result<Place, Refusal> {
        let size = self.chip.geometry();
        let totals = self.chip.totals(self.gpu);
        let words = self.words;
        let mut cursor = Cursor { next: words.next.load(Ordering::Relaxed), turn: words.turn.load(Ordering::Relaxed) };
        let found = cursor.find(size, &request.need, few, |cu| {
            totals.get(cu as usize).filter(|_| request.allows(cu)).map(CuWords::load)
        });
        let (index, total, simds) = found.ok_or(Refusal::Full)?;
        if let Some(other) = self.preferred(seat, request.class) {
            self.call(other);
            return Err(Refusal::Reserved);
        }
        let part = self.chip.seat_part(seat, self.gpu).ok_or(Refusal::Full)?;
        let place = size.place(index, simds, request.need);
        let share = &self.chip.share(seat, self.gpu)[index as usize];
        let mut own = share.load();
        own.add(&place);
        share.store(&own);
        totals[index as usize].store(&total);
        words.next.store(cursor.next, Ordering::Relaxed);
        words.turn.store(cursor.turn, Ordering::Relaxed);
        self.count(seat, |waves| waves.saturating_add(request.need.waves));
        part.served.store(words.taken.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.call_next();
        Ok(place)
    }

    fn give(&self, seat: SeatId, place: &Place) {
        let index = place.cu as usize;
        let (Some(total), Some(share)) =
            (self.chip.totals(self.gpu).get(index), self.chip.share(seat, self.gpu).get(index))
        else {
            return;
        };
        for words in [total, share] {
            let mut cu = words.load();
            cu.remove(place);
            words.store(&cu);
        }
        self.count(seat, |waves| waves.saturating_sub(place.need.waves));
        let version = self.words.version.load(Ordering::Relaxed);
        self.words.recent[(version % RECENT) as usize].store(place.cu, Ordering::Relaxed);
        self.words.version.store(version.wrapping_add(1), Ordering::SeqCst);
        self.offer(place.cu);
        self.call_next();
    }

    fn count(&self, seat: SeatId, change: impl Fn(u32) -> u32) {
        let part = self.chip.seat_part(seat, self.gpu).map(|part| &part.waves);
        for word in part.into_iter().chain([&self.words.waves]) {
            crash::point();
            word.store(change(word.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }
}

impl Slots for ChipSlots {
    fn take(&self, request: &Request<'_>) -> Option<Place> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let worth = |refused: &Refused| {
            let gpu = self.chip.gpu(self.gpu)?;
            let recent = |number: u64| gpu.recent[(number % RECENT) as usize].load(Ordering::Relaxed);
            refused.worth(request, gpu.version.load(Ordering::SeqCst), recent)
        };
        // Without the lock: nobody needs it to learn that nothing has changed.
        if self.chip.is_closed(self.seat) || worth(&memory.refused).is_some_and(|few| few.is_empty()) {
            return None;
        }
        let locked = self.lock()?;
        points::hit(Point::SlotLock);
        let few = worth(&memory.refused);
        match locked.take(self.seat, request, few.as_deref()) {
            Ok(place) => Some(place),
            Err(Refusal::Full) => {
                memory.refused.note(request, locked.words.version.load(Ordering::SeqCst));
                None
            }
            Err(Refusal::Reserved) => None,
        }
    }

    fn give(&self, place: &Place) {
        if let Some(locked) = self.lock() {
            locked.give(self.seat, place);
        }
    }

    fn possible(&self, need: &Need) -> bool {
        self.chip.geometry().holds(need)
    }

    fn wait(&self, best: Option<&Request<'_>>) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = best.map(Asked::of);
        if memory.published == asked {
            return;
        }
        if let Some(locked) = self.lock() {
            locked.publish(self.seat, best);
            memory.published = asked;
        }
    }
}

impl Chip {
    /// Waves of all processes on a gpu.
    pub fn occupancy(&self, gpu: u32) -> u32 {
        self.gpu(gpu).map_or(0, |words| self.clamp(words.waves.load(Ordering::Relaxed)))
    }

    /// Waves of one process on a gpu.
    pub fn occupancy_of(&self, seat: SeatId, gpu: u32) -> u32 {
        self.seat_part(seat, gpu).map_or(0, |part| self.clamp(part.waves.load(Ordering::Relaxed)))
    }

    fn clamp(&self, waves: u32) -> u32 {
        let size = self.geometry();
        waves.min(size.cus * super::super::cu::SIMDS as u32 * size.waves)
    }
}

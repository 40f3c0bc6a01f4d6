//! Global wave sync: barriers and semaphores for waves of one process on one gpu.
//!
//! A process has no resources until the driver gives it some with one of its queues (ALLOC_QUEUE_GWS); then waves of
//! all its queues may use them, as the hardware checks the address space and not the queue. What a resource does is the
//! pseudo-code of the manuals (DS_GWS_INIT, DS_GWS_BARRIER, DS_GWS_SEMA_*). A wave that waits stays at its instruction.
//! When it is saved its arrival is withdrawn, and when it comes back it executes the instruction again: gfx9 "rewinds
//! and replays GWS operations if a wave is preempted" (LLVM, `hasGWSAutoReplay`). So a barrier is passed only if all
//! its waves arrive between two saves.
//!
//! Hardware has a unit in each XCC. Here one serves the whole gpu, because waves come back to any XCC.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use vgpu_isa::inst::{GwsOperation, GwsRequest};

/// Resources of a unit.
const RESOURCES: usize = 64;

/// Bits of a counter; values beyond are cut off.
const COUNTER_BITS: u32 = 24;

/// State of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Resource {
    /// Waves that a barrier still expects before the last one, or what a semaphore has to give.
    counter: u32,
    /// Waves that wait for the semaphore.
    queued: u32,
    /// Barriers completed so far.
    completed: u16,
}

impl Resource {
    const MASK: u64 = (1 << COUNTER_BITS) - 1;

    fn of_bits(bits: u64) -> Self {
        Self {
            counter: (bits & Self::MASK) as u32,
            queued: (bits >> COUNTER_BITS & Self::MASK) as u32,
            completed: (bits >> (2 * COUNTER_BITS)) as u16,
        }
    }

    fn bits(self) -> u64 {
        let counter = u64::from(self.counter) & Self::MASK;
        let queued = (u64::from(self.queued) & Self::MASK) << COUNTER_BITS;
        counter | queued | u64::from(self.completed) << (2 * COUNTER_BITS)
    }

    fn add(&mut self, more: u32) {
        self.counter = self.counter.saturating_add(more).min(Self::MASK as u32);
    }
}

/// What a wave waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GwsWait {
    resource: u8,
    /// Barriers that were completed when it arrived at one; none if it waits for a semaphore.
    arrived: Option<u16>,
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GwsAnswer {
    /// The wave goes on.
    Done,
    /// The wave waits.
    Wait(GwsWait),
    /// The process does not have the resource.
    Denied,
}

/// The unit, as one process sees it.
#[derive(Debug)]
pub(crate) struct Gws {
    /// Resources that the process has.
    available: AtomicU32,
    resources: [AtomicU64; RESOURCES],
}

impl Default for Gws {
    fn default() -> Self {
        Self { available: AtomicU32::new(0), resources: [const { AtomicU64::new(0) }; RESOURCES] }
    }
}

impl Gws {
    /// Gives the process so many resources, all of them reset.
    pub(crate) fn allocate(&self, count: u32) {
        for resource in &self.resources {
            resource.store(0, Ordering::Release);
        }
        self.available.store(count.min(RESOURCES as u32), Ordering::Release);
    }

    /// Carries a request out, or enters the wave as one that waits.
    pub(crate) fn ask(&self, request: &GwsRequest) -> GwsAnswer {
        if u32::from(request.resource) >= self.available.load(Ordering::Acquire) {
            return GwsAnswer::Denied;
        }
        let GwsRequest { operation, resource: number, value } = *request;
        let wait = |arrived| GwsAnswer::Wait(GwsWait { resource: number, arrived });
        self.change(number, |resource| match operation {
            GwsOperation::Init => {
                resource.counter = 0;
                resource.add(value);
                GwsAnswer::Done
            }
            GwsOperation::SemaV => {
                resource.add(1);
                GwsAnswer::Done
            }
            GwsOperation::SemaBr => {
                resource.add(value);
                GwsAnswer::Done
            }
            GwsOperation::SemaReleaseAll => {
                resource.counter = resource.queued;
                GwsAnswer::Done
            }
            GwsOperation::SemaP if resource.counter > 0 => {
                resource.counter -= 1;
                GwsAnswer::Done
            }
            GwsOperation::SemaP => {
                resource.queued += 1;
                wait(None)
            }
            // The last one completes the barrier and says how many the next one expects.
            GwsOperation::Barrier if resource.counter == 0 => {
                resource.completed = resource.completed.wrapping_add(1);
                resource.add(value);
                GwsAnswer::Done
            }
            GwsOperation::Barrier => {
                resource.counter -= 1;
                wait(Some(resource.completed))
            }
        })
    }

    /// Returns whether a wave that waits may go on; it no longer waits then.
    pub(crate) fn release(&self, wait: GwsWait) -> bool {
        self.change(wait.resource, |resource| match wait.arrived {
            Some(arrived) => resource.completed != arrived,
            None if resource.counter > 0 => {
                resource.counter -= 1;
                resource.queued = resource.queued.saturating_sub(1);
                true
            }
            None => false,
        })
    }

    /// Takes back the arrival of a wave that waits. Returns false, and changes nothing, if its barrier is complete.
    pub(crate) fn withdraw(&self, wait: GwsWait) -> bool {
        self.change(wait.resource, |resource| {
            match wait.arrived {
                Some(arrived) if resource.completed != arrived => return false,
                Some(_) => resource.add(1),
                None => resource.queued = resource.queued.saturating_sub(1),
            }
            true
        })
    }

    /// Changes a resource in one step. Workers die at any time: there is no lock that one of them could leave behind.
    fn change<T>(&self, number: u8, apply: impl Fn(&mut Resource) -> T) -> T {
        let cell = &self.resources[usize::from(number) % RESOURCES];
        let mut bits = cell.load(Ordering::Acquire);
        loop {
            let mut resource = Resource::of_bits(bits);
            let result = apply(&mut resource);
            match cell.compare_exchange_weak(bits, resource.bits(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return result,
                Err(now) => bits = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use GwsOperation::{Barrier, Init, SemaBr, SemaP, SemaReleaseAll, SemaV};

    fn unit() -> Gws {
        let gws = Gws::default();
        gws.allocate(64);
        gws
    }

    fn ask(gws: &Gws, operation: GwsOperation, value: u32) -> GwsAnswer {
        gws.ask(&GwsRequest { operation, resource: 5, value })
    }

    fn wait(gws: &Gws, operation: GwsOperation, value: u32) -> GwsWait {
        match ask(gws, operation, value) {
            GwsAnswer::Wait(wait) => wait,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_barrier_releases_all_waves_when_the_last_one_arrives_and_sets_the_next_one_up() {
        let gws = unit();
        assert_eq!(ask(&gws, Init, 2), GwsAnswer::Done);
        let (first, second) = (wait(&gws, Barrier, 2), wait(&gws, Barrier, 2));
        assert!(!gws.release(first) && !gws.release(second));
        assert_eq!(ask(&gws, Barrier, 1), GwsAnswer::Done);
        assert!(gws.release(first) && gws.release(second));
        // The last one said that the next barrier has two waves.
        let only = wait(&gws, Barrier, 0);
        assert!(!gws.release(only));
        assert_eq!(ask(&gws, Barrier, 0), GwsAnswer::Done);
        assert!(gws.release(only));
    }

    #[test]
    fn a_wave_that_is_saved_arrives_again() {
        let gws = unit();
        ask(&gws, Init, 1);
        let saved = wait(&gws, Barrier, 1);
        assert!(gws.withdraw(saved));
        let back = wait(&gws, Barrier, 1);
        assert!(!gws.release(back), "its first arrival does not count");
        assert_eq!(ask(&gws, Barrier, 1), GwsAnswer::Done);
        assert!(!gws.withdraw(back), "its barrier is complete");
        let gws = unit();
        assert!(gws.withdraw(wait(&gws, SemaP, 0)));
        assert_eq!(ask(&gws, SemaReleaseAll, 0), GwsAnswer::Done);
        wait(&gws, SemaP, 0);
    }

    #[test]
    fn semaphores_count() {
        let gws = unit();
        let (first, second) = (wait(&gws, SemaP, 0), wait(&gws, SemaP, 0));
        ask(&gws, SemaV, 0);
        assert!(gws.release(first));
        assert!(!gws.release(second));
        ask(&gws, SemaReleaseAll, 0);
        assert!(gws.release(second));
        wait(&gws, SemaP, 0);
        ask(&gws, SemaBr, 2);
        assert_eq!(ask(&gws, SemaP, 0), GwsAnswer::Done);
        assert_eq!(ask(&gws, SemaP, 0), GwsAnswer::Done);
        wait(&gws, SemaP, 0);
    }

    #[test]
    fn a_process_has_the_resources_that_the_driver_gave_it() {
        let gws = Gws::default();
        assert_eq!(ask(&gws, Init, 1), GwsAnswer::Denied);
        gws.allocate(6);
        assert_eq!(ask(&gws, Init, 1), GwsAnswer::Done);
        assert_eq!(gws.ask(&GwsRequest { operation: SemaV, resource: 6, value: 0 }), GwsAnswer::Denied);
        gws.allocate(0);
        assert_eq!(ask(&gws, Init, 1), GwsAnswer::Denied);
        // What is left of an earlier use does not show.
        gws.allocate(64);
        assert_eq!(ask(&gws, Barrier, 0), GwsAnswer::Done);
    }
}

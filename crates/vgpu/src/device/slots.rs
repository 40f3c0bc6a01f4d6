//! Room on the compute units: wave slots, vector and scalar registers, LDS.

use std::sync::{Mutex, PoisonError};

/// Most waves of a workgroup: 1024 work items.
pub(crate) const MAX_WAVES: usize = 16;
/// SIMDs of a compute unit.
const SIMDS: usize = 4;

/// What one workgroup occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Waves.
    pub waves: u32,
    /// Vector registers of each wave, architectural and accumulation together, as allocated.
    pub vgprs: u32,
    /// Scalar registers of each wave, as allocated.
    pub sgprs: u32,
    /// Bytes of LDS.
    pub lds: u32,
}

/// Where a workgroup runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Compute unit, counted over the whole device.
    pub cu: u32,
    /// XCC it belongs to.
    pub xcc: u32,
    /// SIMD of each wave.
    pub simds: [u8; MAX_WAVES],
    /// What it occupies there.
    pub need: Need,
}

/// The compute units as a dispatcher sees them. Shared by all processes of a device in the end.
pub trait Slots: Send + Sync {
    /// Occupies room for a workgroup, if there is any.
    fn take(&self, need: &Need) -> Option<Place>;

    /// Gives it back.
    fn give(&self, place: &Place);

    /// Whether an empty compute unit could hold the workgroup.
    fn possible(&self, need: &Need) -> bool;
}

/// Size of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Compute units of all XCCs.
    pub cus: u32,
    /// XCCs.
    pub xccs: u32,
    /// Wave slots of a SIMD.
    pub waves: u32,
    /// Vector registers of a SIMD lane.
    pub vgprs: u32,
    /// Scalar registers of a SIMD.
    pub sgprs: u32,
    /// Bytes of LDS of a compute unit.
    pub lds: u32,
}

impl Geometry {
    /// MI200 and MI300 with so many compute units.
    pub fn cdna(cus: u32, xccs: u32) -> Self {
        Self { cus: cus.max(1), xccs: xccs.max(1), waves: 8, vgprs: 512, sgprs: 800, lds: 64 << 10 }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Simd {
    waves: u32,
    vgprs: u32,
    sgprs: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cu {
    simds: [Simd; SIMDS],
    lds: u32,
}

impl Cu {
    /// Adds a workgroup; `None`, and nothing changed, if it does not fit.
    /// The search starts at SIMD `first`.
    fn with(mut self, need: &Need, size: &Geometry, first: usize) -> Option<(Self, [u8; MAX_WAVES])> {
        self.lds = self.lds.checked_add(need.lds).filter(|&lds| lds <= size.lds)?;
        let mut simds = [0; MAX_WAVES];
        for at in simds.get_mut(..need.waves as usize)? {
            let number = (first..first + SIMDS)
                .map(|number| number % SIMDS)
                .filter(|&number| {
                    let simd = &self.simds[number];
                    simd.waves < size.waves
                        && simd.vgprs + need.vgprs <= size.vgprs
                        && simd.sgprs + need.sgprs <= size.sgprs
                })
                .min_by_key(|&number| self.simds[number].waves)?;
            let simd = &mut self.simds[number];
            simd.waves += 1;
            simd.vgprs += need.vgprs;
            simd.sgprs += need.sgprs;
            *at = number as u8;
        }
        Some((self, simds))
    }

    fn without(&mut self, place: &Place) {
        let need = &place.need;
        self.lds = self.lds.saturating_sub(need.lds);
        for &number in place.simds.iter().take(need.waves as usize) {
            let simd = &mut self.simds[usize::from(number) % SIMDS];
            simd.waves = simd.waves.saturating_sub(1);
            simd.vgprs = simd.vgprs.saturating_sub(need.vgprs);
            simd.sgprs = simd.sgprs.saturating_sub(need.sgprs);
        }
    }
}

struct State {
    cus: Vec<Cu>,
    /// Where the search starts, so that workgroups spread over the device.
    next: usize,
    /// Changes with every workgroup, without a short period: which SIMD is asked first.
    turn: u32,
}

impl State {
    /// The SIMD to ask first.
    fn first_simd(&mut self) -> usize {
        self.turn = self.turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.turn >> 24) as usize % SIMDS
    }
}

/// Compute units of one process alone.
pub struct LocalSlots {
    size: Geometry,
    state: Mutex<State>,
}

impl LocalSlots {
    /// An empty device.
    pub fn new(size: Geometry) -> Self {
        Self { size, state: Mutex::new(State { cus: vec![Cu::default(); size.cus as usize], next: 0, turn: 0 }) }
    }

    /// Waves resident now.
    pub fn waves(&self) -> u32 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cus.iter().flat_map(|cu| cu.simds).map(|simd| simd.waves).sum()
    }

    /// Bytes of LDS in use now.
    pub fn lds(&self) -> u32 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).cus.iter().map(|cu| cu.lds).sum()
    }
}

impl Slots for LocalSlots {
    fn take(&self, need: &Need) -> Option<Place> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, first) = (state.cus.len(), state.first_simd());
        for n in 0..count {
            let index = (state.next + n) % count;
            if let Some((cu, simds)) = state.cus[index].with(need, &self.size, first) {
                state.cus[index] = cu;
                state.next = (index + 1) % count;
                let number = index as u32;
                return Some(Place { cu: number, xcc: number % self.size.xccs, simds, need: *need });
            }
        }
        None
    }

    fn give(&self, place: &Place) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cu) = state.cus.get_mut(place.cu as usize) {
            cu.without(place);
        }
    }

    fn possible(&self, need: &Need) -> bool {
        Cu::default().with(need, &self.size, 0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Need = Need { waves: 1, vgprs: 8, sgprs: 16, lds: 0 };

    #[test]
    fn every_resource_limits_a_compute_unit() {
        let fit = |need: Need| {
            let slots = LocalSlots::new(Geometry::cdna(1, 1));
            std::iter::from_fn(|| slots.take(&need)).count()
        };
        assert_eq!(fit(SMALL), 32, "wave slots");
        assert_eq!(fit(Need { vgprs: 128, ..SMALL }), 16, "vector registers");
        assert_eq!(fit(Need { sgprs: 112, ..SMALL }), 28, "scalar registers");
        assert_eq!(fit(Need { lds: 24 << 10, ..SMALL }), 2, "LDS");
        assert_eq!(fit(Need { waves: 16, vgprs: 128, ..SMALL }), 1, "the largest workgroup");
        assert_eq!(fit(Need { waves: 16, vgprs: 136, ..SMALL }), 0, "too many registers for one unit");
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let slots = LocalSlots::new(Geometry::cdna(2, 2));
        let need = Need { waves: 5, vgprs: 64, sgprs: 32, lds: 1024 };
        let places: Vec<_> = std::iter::from_fn(|| slots.take(&need)).collect();
        assert_eq!(places.len(), 12);
        assert_eq!(places.iter().filter(|place| place.xcc == 1).count(), 6);
        assert_eq!((slots.waves(), slots.lds()), (60, 12 << 10));
        places.iter().for_each(|place| slots.give(place));
        assert_eq!((slots.waves(), slots.lds()), (0, 0));
    }
}

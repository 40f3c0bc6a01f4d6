//! Room on the compute units: wave slots, vector and scalar registers, LDS.

use std::sync::{Mutex, PoisonError};

use super::cu::{Cu, Cursor, RECENT, Refused};
use super::cu_mask::CuMask;

/// Most waves of a workgroup: 1024 work items.
pub(crate) const MAX_WAVES: usize = 16;

/// Resources that one workgroup occupies.
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

/// Compute unit and SIMDs on which a workgroup runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuPlacement {
    /// Compute unit, counted over the whole device.
    pub cu: u32,
    /// XCC of the compute unit.
    pub xcc: u32,
    /// Shader engine of the XCC.
    pub engine: u32,
    /// Compute unit of the shader engine.
    pub unit: u32,
    /// SIMD of each wave.
    pub simds: [u8; MAX_WAVES],
    /// Resources it occupies there.
    pub need: Need,
}

/// How queues compete for room: the command processor knows three levels, whatever the 16 priorities are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PriorityClass {
    /// Priorities 0 to 6.
    Low,
    /// Priorities 7 to 10.
    Medium,
    /// Priorities 11 to 15.
    High,
}

impl PriorityClass {
    /// Returns the class of a queue's priority.
    pub fn of_priority(priority: u32) -> Self {
        match priority {
            0..=6 => Self::Low,
            7..=10 => Self::Medium,
            _ => Self::High,
        }
    }
}

/// Request of a workgroup for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRequest<'a> {
    /// Resources to occupy.
    pub need: Need,
    /// Class by which its queue competes with those of other processes.
    pub class: PriorityClass,
    /// Compute units it may use; `None` means all.
    pub allowed: Option<&'a CuMask>,
}

impl SlotRequest<'_> {
    /// Returns whether it may use a compute unit.
    pub(super) fn allows(&self, cu: u32) -> bool {
        self.allowed.is_none_or(|mask| mask.contains(cu))
    }
}

/// The compute units as a dispatcher sees them.
pub trait Slots: Send + Sync {
    /// Occupies room for a workgroup. Returns `None` if there is none, or if another process comes first.
    fn take(&self, request: &SlotRequest<'_>) -> Option<CuPlacement>;

    /// Gives the room of a workgroup back.
    fn give(&self, place: &CuPlacement);

    /// Returns whether an empty compute unit could hold the workgroup.
    fn possible(&self, need: &Need) -> bool;

    /// Publishes the first of the workgroups that found no room; `None` if none waits.
    fn wait(&self, best: Option<&SlotRequest<'_>>);
}

/// Dimensions of one gpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Compute units of all XCCs.
    pub cus: u32,
    /// XCCs.
    pub xccs: u32,
    /// Shader engines of an XCC.
    pub engines: u32,
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
    /// Returns the dimensions of an MI200 or MI300 with so many compute units.
    pub fn cdna(cus: u32, xccs: u32) -> Self {
        let (cus, xccs) = (cus.max(1), xccs.max(1));
        let engines = (cus / xccs).clamp(1, 4);
        Self { cus, xccs, engines, waves: 8, vgprs: 512, sgprs: 800, lds: 64 << 10 }
    }

    /// Returns where a compute unit is, as the placement of a workgroup that needs nothing.
    pub(crate) fn location(&self, cu: u32) -> CuPlacement {
        self.place(cu, [0; MAX_WAVES], Need { waves: 0, vgprs: 0, sgprs: 0, lds: 0 })
    }

    /// Returns a placement on a compute unit. Compute units are numbered so that neighbours lie on different XCCs, then
    /// on different shader engines.
    pub(super) fn place(&self, cu: u32, simds: [u8; MAX_WAVES], need: Need) -> CuPlacement {
        let (xccs, engines) = (self.xccs.max(1), self.engines.max(1));
        let in_xcc = cu / xccs;
        CuPlacement { cu, xcc: cu % xccs, engine: in_xcc % engines, unit: in_xcc / engines, simds, need }
    }

    /// Returns whether an empty compute unit could hold a workgroup.
    pub(super) fn holds(&self, need: &Need) -> bool {
        Cu::default().with(need, self, 0).is_some()
    }
}

struct State {
    cus: Vec<Cu>,
    cursor: Cursor,
    refused: Refused,
    /// Workgroups that have left.
    version: u64,
    /// Compute units of the last of them.
    recent: [u32; RECENT as usize],
}

/// Compute units that a single process uses, without shared memory.
pub struct LocalSlots {
    size: Geometry,
    state: Mutex<State>,
}

impl LocalSlots {
    /// Creates an empty device.
    pub fn new(size: Geometry) -> Self {
        let size = Geometry { cus: size.cus.max(1), ..size };
        let state = State {
            cus: vec![Cu::default(); size.cus as usize],
            cursor: Cursor::default(),
            refused: Refused::default(),
            version: 0,
            recent: [0; RECENT as usize],
        };
        Self { size, state: Mutex::new(state) }
    }

    /// Returns the number of resident waves.
    pub fn waves(&self) -> u32 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cus.iter().map(Cu::waves).sum()
    }

    /// Returns the bytes of LDS in use.
    pub fn lds(&self) -> u32 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).cus.iter().map(|cu| cu.lds).sum()
    }
}

impl Slots for LocalSlots {
    fn take(&self, request: &SlotRequest<'_>) -> Option<CuPlacement> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { cus, cursor, refused, version, recent } = &mut *state;
        let few = refused.worth(request, *version, |number| recent[(number % RECENT) as usize]);
        let found = cursor.find(&self.size, &request.need, few.as_deref(), |index| {
            cus.get(index as usize).filter(|_| request.allows(index)).copied()
        });
        let Some((index, cu, simds)) = found else {
            refused.note(request, *version);
            return None;
        };
        cus[index as usize] = cu;
        Some(self.size.place(index, simds, request.need))
    }

    fn give(&self, place: &CuPlacement) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { cus, version, recent, .. } = &mut *state;
        if let Some(cu) = cus.get_mut(place.cu as usize) {
            cu.remove(place);
            recent[(*version % RECENT) as usize] = place.cu;
            *version += 1;
        }
    }

    fn possible(&self, need: &Need) -> bool {
        self.size.holds(need)
    }

    /// Does nothing: no other process competes for this device.
    fn wait(&self, _best: Option<&SlotRequest<'_>>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Need = Need { waves: 1, vgprs: 8, sgprs: 16, lds: 0 };

    fn request(need: Need) -> SlotRequest<'static> {
        SlotRequest { need, class: PriorityClass::Medium, allowed: None }
    }

    #[test]
    fn every_resource_limits_a_compute_unit() {
        let fit = |need: Need| {
            let slots = LocalSlots::new(Geometry::cdna(1, 1));
            std::iter::from_fn(|| slots.take(&request(need))).count()
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
        let places: Vec<_> = std::iter::from_fn(|| slots.take(&request(need))).collect();
        assert_eq!(places.len(), 12);
        assert_eq!(places.iter().filter(|place| place.xcc == 1).count(), 6);
        assert_eq!((slots.waves(), slots.lds()), (60, 12 << 10));
        places.iter().for_each(|place| slots.give(place));
        assert_eq!((slots.waves(), slots.lds()), (0, 0));
    }

    #[test]
    fn a_mask_limits_the_compute_units() {
        let slots = LocalSlots::new(Geometry::cdna(12, 2));
        let mask = CuMask::of_dwords(&[1 << 3 | 1 << 8]);
        let masked = SlotRequest { allowed: Some(&mask), ..request(SMALL) };
        let places: Vec<_> = std::iter::from_fn(|| slots.take(&masked)).collect();
        assert_eq!(places.len(), 64);
        assert!(places.iter().all(|place| [3, 8].contains(&place.cu)));
        // The eighth bit is the fifth compute unit of the first XCC: the first of its engines, second round.
        let place = places.iter().find(|place| place.cu == 8).expect("both are used");
        assert_eq!((place.xcc, place.engine, place.unit), (0, 0, 1));
        let empty = CuMask::of_dwords(&[]);
        assert_eq!(slots.take(&SlotRequest { allowed: Some(&empty), ..masked }), None);
        assert!(slots.take(&request(SMALL)).is_some());
    }
}

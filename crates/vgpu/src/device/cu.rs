//! Arithmetic of one compute unit: whether a workgroup fits and what it leaves.

use std::collections::VecDeque;

use super::cu_mask::CuMask;
use super::slots::{CuPlacement, Geometry, MAX_WAVES, Need, SlotRequest};

/// SIMDs of a compute unit.
pub(super) const SIMDS: usize = 4;

/// Occupied resources of a SIMD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Simd {
    pub(super) waves: u32,
    pub(super) vgprs: u32,
    pub(super) sgprs: u32,
}

/// Occupied resources of a compute unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cu {
    pub(super) simds: [Simd; SIMDS],
    pub(super) lds: u32,
}

impl Cu {
    /// Returns the compute unit with a workgroup added, or `None` if that does not fit. The search starts at SIMD
    /// `first`.
    pub(super) fn with(mut self, need: &Need, size: &Geometry, first: usize) -> Option<(Self, [u8; MAX_WAVES])> {
        self.lds = self.lds.checked_add(need.lds).filter(|&lds| lds <= size.lds)?;
        let mut simds = [0; MAX_WAVES];
        for at in simds.get_mut(..need.waves as usize)? {
            let number = (first..first + SIMDS)
                .map(|number| number % SIMDS)
                .filter(|&number| {
                    let simd = &self.simds[number];
                    simd.waves < size.waves
                        && simd.vgprs.saturating_add(need.vgprs) <= size.vgprs
                        && simd.sgprs.saturating_add(need.sgprs) <= size.sgprs
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

    /// Adds a workgroup where it was decided that it fits.
    pub(super) fn add(&mut self, place: &CuPlacement) {
        self.each_wave(place, u32::saturating_add);
    }

    /// Takes a workgroup away.
    pub(super) fn remove(&mut self, place: &CuPlacement) {
        self.each_wave(place, u32::saturating_sub);
    }

    fn each_wave(&mut self, place: &CuPlacement, apply: fn(u32, u32) -> u32) {
        let need = &place.need;
        self.lds = apply(self.lds, need.lds);
        for &number in place.simds.iter().take(need.waves as usize) {
            let simd = &mut self.simds[usize::from(number) % SIMDS];
            simd.waves = apply(simd.waves, 1);
            simd.vgprs = apply(simd.vgprs, need.vgprs);
            simd.sgprs = apply(simd.sgprs, need.sgprs);
        }
    }

    /// Returns what two processes occupy together.
    pub(super) fn plus(mut self, other: &Self) -> Self {
        self.lds = self.lds.saturating_add(other.lds);
        for (simd, more) in self.simds.iter_mut().zip(&other.simds) {
            simd.waves = simd.waves.saturating_add(more.waves);
            simd.vgprs = simd.vgprs.saturating_add(more.vgprs);
            simd.sgprs = simd.sgprs.saturating_add(more.sgprs);
        }
        self
    }

    /// Returns the waves on all SIMDs.
    pub(super) fn waves(&self) -> u32 {
        self.simds.iter().map(|simd| simd.waves).sum()
    }
}

/// Start of the next search. It moves on with every workgroup, so that workgroups spread over the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Compute unit to try first.
    pub(super) next: u32,
    /// Number that selects the SIMD to try first; changes with every workgroup, without a short period.
    pub(super) turn: u32,
}

impl Cursor {
    /// Finds room: the compute unit, what it holds then, and the SIMD of each wave. `cu` tells what a compute unit
    /// holds, `None` if it may not be used. If only some compute units are worth trying, `few` names them.
    pub(super) fn find(
        &mut self,
        size: &Geometry,
        need: &Need,
        few: Option<&[u32]>,
        cu: impl Fn(u32) -> Option<Cu>,
    ) -> Option<(u32, Cu, [u8; MAX_WAVES])> {
        self.turn = self.turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let first = (self.turn >> 24) as usize % SIMDS;
        let ask = |index: u32| {
            let (cu, simds) = cu(index)?.with(need, size, first)?;
            Some((index, cu, simds))
        };
        let start = self.next % size.cus;
        let found = match few {
            Some(few) => few.iter().find_map(|&index| ask(index)),
            None => (start..size.cus).chain(0..start).find_map(ask),
        }?;
        self.next = (found.0 + 1) % size.cus;
        Some(found)
    }
}

/// Compute units that lost a workgroup lately are kept for so many losses.
pub(super) const RECENT: u64 = 64;

/// Kinds of workgroups that are remembered.
const KINDS: usize = 4;

/// Requests that fitted nowhere, with the number of workgroups that had left the device by then. Only workgroups that
/// leave later make room, so only their compute units need to be tried again.
#[derive(Debug, Default)]
pub(super) struct Refused {
    kinds: VecDeque<(Need, Option<CuMask>, u64)>,
}

impl Refused {
    /// Returns the compute units worth trying when `version` workgroups have left; `None` means all. `recent` tells
    /// which compute unit the workgroup of that number left.
    pub(super) fn worth(
        &self,
        request: &SlotRequest<'_>,
        version: u64,
        recent: impl Fn(u64) -> u32,
    ) -> Option<Vec<u32>> {
        let (.., then) = self.kinds.iter().find(|kind| Self::same(kind, request))?;
        (version.wrapping_sub(*then) <= RECENT).then(|| (*then..version).map(recent).collect())
    }

    /// Records that a request fits nowhere.
    pub(super) fn note(&mut self, request: &SlotRequest<'_>, version: u64) {
        self.kinds.retain(|kind| !Self::same(kind, request));
        if self.kinds.len() == KINDS {
            self.kinds.pop_front();
        }
        self.kinds.push_back((request.need, request.allowed.copied(), version));
    }

    fn same(kind: &(Need, Option<CuMask>, u64), request: &SlotRequest<'_>) -> bool {
        kind.0 == request.need && kind.1.as_ref() == request.allowed
    }
}

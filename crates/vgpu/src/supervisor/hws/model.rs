//! What a cycle costs on hardware beyond what it costs here.
//!
//! No such times have been published for an MI300. The numbers stand in the profile, where they are marked as
//! estimates, and are added to the real work of stopping and copying waves.

use std::time::Duration;

use crate::profile::{Cycle, Profile};

/// Bytes that a cycle moved, by where save areas live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes {
    pub(super) vram: u64,
    pub(super) host: u64,
}

impl Bytes {
    pub(super) fn add(&mut self, bytes: u64, host: bool) {
        *(if host { &mut self.host } else { &mut self.vram }) += bytes;
    }

    pub(super) fn plus(self, other: Bytes) -> Bytes {
        Bytes { vram: self.vram + other.vram, host: self.host + other.host }
    }

    pub(super) fn total(&self) -> u64 {
        self.vram + self.host
    }
}

/// The cost model of a profile.
pub(super) struct Model {
    cycle: Cycle,
    vram_mbps: u64,
    clock_mhz: u64,
}

/// What the caller gives for "as the hardware is set up".
const DEFAULT_GRACE: u32 = u32::MAX;
/// Bits of the register field.
const GRACE_FIELD: u32 = 0xFF;
/// Clocks of a step.
const GRACE_STEP: u64 = 1000;

impl Model {
    pub(super) fn new(profile: &Profile) -> Self {
        Self {
            cycle: profile.cycle.clone(),
            vram_mbps: u64::from(profile.memory_bandwidth_mbps.max(1)),
            clock_mhz: u64::from(profile.max_engine_clock_mhz.max(1)),
        }
    }

    /// Nanoseconds that waves may go on; `None` is for ever. The driver makes 0 a 1 and writes the rest to a field of
    /// eight bits, where multiples of 256 become 0, which the hardware takes as no limit.
    pub(super) fn grace(&self, given: Option<u32>) -> Option<u64> {
        let steps = match given {
            None | Some(DEFAULT_GRACE) => self.cycle.grace_steps,
            Some(0) => 1,
            Some(steps) => steps,
        } & GRACE_FIELD;
        (steps > 0).then(|| u64::from(steps) * GRACE_STEP * 1000 / self.clock_mhz)
    }

    fn transfer(&self, bytes: &Bytes) -> Duration {
        let nanoseconds = |bytes: u64, mbps: u64| bytes.saturating_mul(1000) / mbps.max(1);
        let host = nanoseconds(bytes.host, self.cycle.host_bandwidth_mbps);
        Duration::from_nanos(nanoseconds(bytes.vram, self.vram_mbps) + host)
    }

    /// Time of taking everything off the gpu, beyond the grace, which waves really have.
    pub(super) fn save(&self, given: Option<u32>, bytes: &Bytes) -> Duration {
        // Another grace period than the default is two more packets.
        let packets = if matches!(given, None | Some(DEFAULT_GRACE)) { 0 } else { 2 };
        let firmware = self.cycle.unmap_us + packets * self.cycle.packet_us;
        Duration::from_micros(firmware) + self.transfer(bytes)
    }

    /// Time of putting it back.
    pub(super) fn restore(&self, bytes: &Bytes) -> Duration {
        Duration::from_micros(self.cycle.map_us) + self.transfer(bytes)
    }

    /// How long a group of an over-subscribed runlist stays.
    pub(super) fn quantum(&self) -> Duration {
        Duration::from_millis(self.cycle.quantum_ms)
    }

    /// How long a reset takes.
    pub(super) fn reset(&self) -> Duration {
        Duration::from_millis(self.cycle.reset_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        Model::new(&Profile::load("mi300x").expect("built in"))
    }

    #[test]
    fn a_grace_period_has_eight_bits() {
        let model = model();
        let step = GRACE_STEP * 1000 / model.clock_mhz;
        assert_eq!(model.grace(Some(1)), Some(step));
        assert_eq!(model.grace(Some(0)), Some(step), "the driver makes it 1");
        assert_eq!(model.grace(Some(257)), model.grace(Some(1)));
        assert_eq!(model.grace(Some(256)), None, "what is cut off leaves 0: no limit");
        assert_eq!(model.grace(Some(512)), None);
        assert_eq!(model.grace(None), model.grace(Some(u32::MAX)));
        assert_eq!(model.grace(None), model.grace(Some(64)), "the reset value of the register");
    }

    #[test]
    fn host_memory_is_slower() {
        let model = model();
        let (vram, host) = (Bytes { vram: 100 << 20, host: 0 }, Bytes { vram: 0, host: 100 << 20 });
        assert!(model.save(None, &host) > 10 * model.save(None, &vram));
        assert!(model.save(Some(1), &vram) > model.save(None, &vram));
        assert!(model.restore(&host) > model.restore(&vram));
    }
}

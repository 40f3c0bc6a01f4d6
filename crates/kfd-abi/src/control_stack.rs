//! The control stack of gfx9: the list by which the hardware launches saved waves again, and so the map of where they
//! lie.
//!
//! 32-bit words from low addresses to high. Two belong to packets ([`CONTROL_STACK_SKIP`]); then a state word gives the
//! allocation of the wave words that follow it. The first wave listed lies highest: its end is
//! [`WaveState::wave_state_offset`](crate::save_area::WaveState), the next one's end is its start, and a list that is
//! whole uses up exactly the bytes of the header. The hardware keeps the stack in kernel memory; the user's copy exists
//! after a suspend through the debugger, or `GET_QUEUE_WAVE_STATE`.
//!
//! Source: ROCdbgapi 61dfa56 (`architecture.cpp`). No kernel source describes the words.

use crate::save_area::WaveLayout;

/// Words at the start of the control stack that are packets and not part of the list.
pub const CONTROL_STACK_SKIP: usize = 2;

/// The variants of gfx9 that save differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Up to gfx906: no accumulation registers.
    Gfx900,
    /// As many accumulation registers as ordinary ones.
    Gfx908,
    /// gfx90a and gfx942: both from one pool, divided by an offset.
    Gfx90a,
}

/// A word of the control stack, from low addresses to high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlWord {
    /// Bit 30, whatever bit 31 says: nothing of ours.
    Event(u32),
    /// Bit 31: the allocation of the waves that follow.
    State(StateWord),
    /// Neither: a wave.
    Wave(WaveWord),
}

impl ControlWord {
    const EVENT: u32 = 1 << 30;
    const STATE: u32 = 1 << 31;

    /// What the word is.
    #[must_use]
    pub const fn of(word: u32) -> ControlWord {
        if word & ControlWord::EVENT != 0 {
            ControlWord::Event(word)
        } else if word & ControlWord::STATE != 0 {
            ControlWord::State(StateWord(word))
        } else {
            ControlWord::Wave(WaveWord(word))
        }
    }
}

const fn bits(word: u32, low: u32, high: u32) -> u32 {
    word >> low & ((1 << (high - low + 1)) - 1)
}

/// Registers and local data of waves, as a word of the control stack.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateWord(pub u32);

impl StateWord {
    /// Bytes of one unit of local data here. The wave's own register counts in half as many.
    pub const LDS_UNIT: u32 = 512;
    /// Scalar registers that are counted here and saved elsewhere: the trap temporaries.
    pub const TTMPS: u32 = 16;

    /// The word for this layout on gfx90a and gfx942, fields cut to their width. `None` if the layout has counts these
    /// cannot allocate.
    #[must_use]
    pub const fn gfx90a(layout: &WaveLayout) -> Option<StateWord> {
        let vgprs = layout.arch_vgprs.saturating_add(layout.acc_vgprs);
        let sgprs = layout.sgprs.saturating_add(StateWord::TTMPS);
        let fits = vgprs >= 8
            && vgprs <= 512
            && vgprs.is_multiple_of(8)
            && layout.arch_vgprs >= 4
            && layout.arch_vgprs <= 256
            && layout.arch_vgprs.is_multiple_of(4)
            && sgprs <= 128
            && sgprs.is_multiple_of(16)
            && layout.lds_bytes.is_multiple_of(StateWord::LDS_UNIT)
            && layout.lds_bytes <= StateWord::LDS_UNIT * 0xFF;
        if !fits {
            return None;
        }
        Some(StateWord(
            ControlWord::STATE
                | (vgprs / 8 - 1)
                | (sgprs / 16 - 1) << 6
                | (layout.lds_bytes / StateWord::LDS_UNIT) << 9
                | (layout.arch_vgprs / 4 - 1) << 24,
        ))
    }

    /// What a wave of this allocation saves; the local data only with the first wave of its group.
    #[must_use]
    pub const fn layout(self, variant: Variant, first_in_group: bool) -> WaveLayout {
        let blocks = bits(self.0, 0, 5) + 1;
        let (arch_vgprs, acc_vgprs, lds_units) = match variant {
            Variant::Gfx900 => (blocks * 4, 0, bits(self.0, 9, 17)),
            Variant::Gfx908 => (blocks * 4, blocks * 4, bits(self.0, 9, 17)),
            Variant::Gfx90a => {
                let arch = (bits(self.0, 24, 29) + 1) * 4;
                (arch, (blocks * 8).saturating_sub(arch), bits(self.0, 9, 16))
            }
        };
        WaveLayout {
            arch_vgprs,
            acc_vgprs,
            sgprs: bits(self.0, 6, 8) * 16,
            lds_bytes: if first_in_group { lds_units * StateWord::LDS_UNIT } else { 0 },
        }
    }
}

/// A wave, as a word of the control stack.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveWord(pub u32);

impl WaveWord {
    const SCRATCH: u32 = 1 << 15;
    const LAST: u32 = 1 << 16;
    const FIRST: u32 = 1 << 17;

    /// The word of a wave on gfx90a and gfx942; its engine has 3 bits, its scratch slot 9.
    #[must_use]
    pub const fn gfx90a(engine: u32, scratch_slot: u32, scratch: bool, first: bool, last: bool) -> WaveWord {
        let mut word = scratch_slot & 0x1FF | (engine & 7) << 9;
        if scratch {
            word |= WaveWord::SCRATCH;
        }
        if last {
            word |= WaveWord::LAST;
        }
        if first {
            word |= WaveWord::FIRST;
        }
        WaveWord(word)
    }

    /// Its slot of scratch memory on the engine.
    #[must_use]
    pub const fn scratch_slot(self) -> u32 {
        bits(self.0, 0, 8)
    }

    /// Its shader engine.
    #[must_use]
    pub const fn engine(self, variant: Variant) -> u32 {
        match variant {
            Variant::Gfx900 => bits(self.0, 11, 12),
            Variant::Gfx908 => bits(self.0, 11, 13),
            Variant::Gfx90a => bits(self.0, 9, 11),
        }
    }

    /// Whether it is the last wave of its group in the list.
    #[must_use]
    pub const fn is_last(self) -> bool {
        self.0 & WaveWord::LAST != 0
    }

    /// Whether it is the first wave of its group: the one that saves the group's local data.
    #[must_use]
    pub const fn is_first(self) -> bool {
        self.0 & WaveWord::FIRST != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_word_says_what_was_put_into_it() {
        let layout = WaveLayout { arch_vgprs: 24, acc_vgprs: 8, sgprs: 112, lds_bytes: 1536 };
        let word = StateWord::gfx90a(&layout).unwrap();
        assert_eq!(word.0, 1 << 31 | 5 << 24 | 3 << 9 | 7 << 6 | 3);
        assert_eq!(ControlWord::of(word.0), ControlWord::State(word));
        assert_eq!(word.layout(Variant::Gfx90a, true), layout);
        assert_eq!(word.layout(Variant::Gfx90a, false), WaveLayout { lds_bytes: 0, ..layout });
        assert_eq!(word.layout(Variant::Gfx900, true).arch_vgprs, 16);
        assert_eq!(word.layout(Variant::Gfx908, true).acc_vgprs, 16);
        for broken in [
            WaveLayout { arch_vgprs: 22, ..layout },
            WaveLayout { arch_vgprs: 0, ..layout },
            WaveLayout { sgprs: 120, ..layout },
            WaveLayout { lds_bytes: 100, ..layout },
        ] {
            assert_eq!(StateWord::gfx90a(&broken), None);
        }
    }

    #[test]
    fn a_wave_word_says_what_was_put_into_it() {
        let wave = WaveWord::gfx90a(5, 0x123, true, true, false);
        assert_eq!(wave.0, 0x123 | 5 << 9 | 1 << 15 | 1 << 17);
        assert_eq!(ControlWord::of(wave.0), ControlWord::Wave(wave));
        assert_eq!((wave.engine(Variant::Gfx90a), wave.scratch_slot()), (5, 0x123));
        assert_eq!((wave.is_first(), wave.is_last()), (true, false));
        assert_eq!((WaveWord(5 << 11).engine(Variant::Gfx900), WaveWord(5 << 11).engine(Variant::Gfx908)), (1, 5));
    }

    #[test]
    fn an_event_is_an_event_even_with_the_state_bit() {
        assert_eq!(ControlWord::of(0xC000_0001), ControlWord::Event(0xC000_0001));
        assert_eq!(ControlWord::of(0x4000_0000), ControlWord::Event(0x4000_0000));
    }
}

//! A debugger's view of a save area: finds the waves by the documented layout alone.

use kfd_abi::Abi;
use kfd_abi::control_stack::{CONTROL_STACK_SKIP, ControlWord, StateWord, Variant};
use kfd_abi::save_area::{SaveAreaHeader, WaveLayout, hwreg};
use vgpu_isa::memory::Port;

/// A wave in the area.
pub(crate) struct SavedWave {
    /// Where it starts.
    pub(crate) at: u64,
    /// What it consists of.
    pub(crate) layout: WaveLayout,
}

impl SavedWave {
    /// Its program counter.
    pub(crate) fn pc(&self, memory: &mut Port<'_>) -> u64 {
        let mut word = |index| u64::from(memory.read_u32(self.at + u64::from(self.layout.hwreg(index))).unwrap());
        word(hwreg::PC_LO) | word(hwreg::PC_HI) << 32
    }
}

/// The waves of an XCC's part, first listed first. Panics unless list and waves use up exactly what the header says.
pub(crate) fn walk(memory: &mut Port<'_>, part: u64, control_stack: u32) -> Vec<SavedWave> {
    let mut bytes = [0; SaveAreaHeader::SIZE];
    memory.read(part, &mut bytes).unwrap();
    let header = SaveAreaHeader::decode(&bytes).unwrap().wave_state;
    let (start, end) = header.control_stack();
    assert_eq!(end, control_stack, "the list ends where the waves begin");
    let words = (start..end).step_by(4).map(|at| memory.read_u32(part + u64::from(at)).unwrap());
    let mut state: Option<StateWord> = None;
    let mut open = false;
    let mut found = Vec::new();
    let mut offset = header.wave_state_offset;
    for word in words.skip(CONTROL_STACK_SKIP) {
        match ControlWord::of(word) {
            ControlWord::Event(_) => {}
            ControlWord::State(next) => state = Some(next),
            ControlWord::Wave(wave) => {
                assert_eq!(wave.is_first(), !open, "a group starts when the one before it is whole");
                open = !wave.is_last();
                let layout = state.expect("a state comes first").layout(Variant::Gfx90a, wave.is_first());
                offset -= layout.size();
                found.push(SavedWave { at: part + u64::from(offset), layout });
            }
        }
    }
    assert!(!open, "the last group is whole");
    assert_eq!(header.wave_state_offset - offset, header.wave_state_size, "all of the wave state is used up");
    assert_eq!(offset, control_stack);
    found
}

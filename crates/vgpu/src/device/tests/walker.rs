//! A debugger's view of a save area, written from the documented layout with numbers of its own: it shares nothing with
//! what writes the area but the memory.

use vgpu_isa::memory::Port;

/// Dwords of the packet before the list.
const PACKET: u32 = 2;
/// A dword of the list that says what the waves after it consist of.
const STATE: u32 = 1 << 31;
/// One that is about nothing that was saved.
const EVENT: u32 = 1 << 30;
const LAST_OF_GROUP: u32 = 1 << 16;
const FIRST_OF_GROUP: u32 = 1 << 17;
/// Bytes of a vector register, of the hardware's registers, and between two waves.
const VECTOR: u32 = 64 * 4;
const HARDWARE: u32 = 128;
const GAP: u32 = 64;

/// Numbers of hardware registers.
pub(crate) const PC: [u32; 2] = [1, 2];
pub(crate) const EXEC: [u32; 2] = [3, 4];
pub(crate) const STATUS: u32 = 5;
pub(crate) const MODE: u32 = 9;

fn bits(word: u32, high: u32, low: u32) -> u32 {
    word >> low & ((1 << (high - low + 1)) - 1)
}

/// What a wave consists of, in the order of addresses.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) arch_vgprs: u32,
    pub(crate) acc_vgprs: u32,
    pub(crate) sgprs: u32,
    pub(crate) lds_bytes: u32,
}

impl Layout {
    fn of(state: u32, first_of_group: bool) -> Self {
        let (all, arch_vgprs) = ((bits(state, 5, 0) + 1) * 8, (bits(state, 29, 24) + 1) * 4);
        // Sixteen of the scalar registers are the trap handler's.
        let sgprs = (bits(state, 8, 6) + 1) * 16 - 16;
        let lds_bytes = if first_of_group { bits(state, 16, 9) * 512 } else { 0 };
        Self { arch_vgprs, acc_vgprs: all - arch_vgprs, sgprs, lds_bytes }
    }

    pub(crate) fn arch_vgpr(&self, n: u32) -> u32 {
        n * VECTOR
    }

    pub(crate) fn sgpr(&self, n: u32) -> u32 {
        (self.arch_vgprs + self.acc_vgprs) * VECTOR + n * 4
    }

    pub(crate) fn hwreg(&self, n: u32) -> u32 {
        self.sgpr(self.sgprs) + n * 4
    }

    pub(crate) fn ttmp(&self, n: u32) -> u32 {
        self.hwreg(0) + 0x40 + n * 4
    }

    fn size(&self) -> u32 {
        self.hwreg(0) + HARDWARE + self.lds_bytes + GAP
    }
}

/// A wave in the area.
pub(crate) struct SavedWave {
    /// Where it starts.
    pub(crate) at: u64,
    /// What it consists of.
    pub(crate) layout: Layout,
}

impl SavedWave {
    /// Its program counter.
    pub(crate) fn pc(&self, memory: &mut Port<'_>) -> u64 {
        let [low, high] = PC.map(|n| memory.read_u32(self.at + u64::from(self.layout.hwreg(n))).unwrap());
        u64::from(low) | u64::from(high) << 32
    }
}

/// The waves of an XCC's part, first listed first. Panics unless list and waves use up exactly what the header says.
pub(crate) fn walk(memory: &mut Port<'_>, part: u64, control_stack: u32) -> Vec<SavedWave> {
    let mut word = |offset: u32| memory.read_u32(part + u64::from(offset)).unwrap();
    let [list, list_size, waves_end, waves_size] = [0, 4, 8, 12].map(&mut word);
    assert_eq!(list + list_size, control_stack, "the list ends where the waves begin");
    let mut state = None;
    let mut open = false;
    let mut found = Vec::new();
    let mut offset = waves_end;
    for word in (0..list_size).step_by(4).map(|n| word(list + n)).skip(PACKET as usize) {
        if word & STATE != 0 {
            state = Some(word);
        } else if word & EVENT == 0 {
            let first = word & FIRST_OF_GROUP != 0;
            assert_eq!(first, !open, "a group starts when the one before it is whole");
            open = word & LAST_OF_GROUP == 0;
            let layout = Layout::of(state.expect("a state comes first"), first);
            offset -= layout.size();
            found.push(SavedWave { at: part + u64::from(offset), layout });
        }
    }
    assert!(!open, "the last group is whole");
    assert_eq!(waves_end - offset, waves_size, "all of the wave state is used up");
    assert_eq!(offset, control_stack);
    found
}

//! Reading the list of saved waves back.

use kfd_abi::Abi;
use kfd_abi::control_stack::{CONTROL_STACK_SKIP, ControlWord, StateWord, Variant};
use kfd_abi::save_area::{SaveAreaHeader, WaveState};
use vgpu_isa::memory::Port;

use super::{Remains, SaveArea, SaveError, layout};

/// Returns the addresses of the waves of an XCC's part, in the order of its list, which has to be the one of `groups`.
pub(super) fn read(
    memory: &mut Port<'_>,
    area: &SaveArea,
    xcc: u32,
    groups: &[Remains],
) -> Result<Vec<u64>, SaveError> {
    let damaged = |what| SaveError::Damaged { xcc, what };
    let base = area.part(xcc);
    let mut bytes = [0; WaveState::SIZE];
    memory.read(base, &mut bytes)?;
    let header = WaveState::decode(&bytes).ok_or(damaged("the header is cut off"))?;
    let (list_start, list_end) = header.control_stack();
    let (waves_start, waves_end) = header.waves();
    if list_end != area.control_stack || (list_start as usize) < SaveAreaHeader::SIZE {
        return Err(damaged("the header says that the list lies elsewhere"));
    }
    if waves_start != area.control_stack || waves_end > area.size {
        return Err(damaged("the header says that the waves lie elsewhere"));
    }
    let mut list = vec![0; header.control_stack_size as usize];
    memory.read(base.wrapping_add(list_start.into()), &mut list)?;
    let mut words = list.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let mut walk = Walk { state: None, end: waves_end, lowest: waves_start };
    let mut addresses = Vec::with_capacity(groups.len());
    words.by_ref().take(CONTROL_STACK_SKIP).for_each(drop);
    for remains in groups {
        let expected = StateWord::gfx90a(&layout(&remains.launch)).ok_or(damaged("its registers cannot be listed"))?;
        let count = remains.live.count_ones() as usize;
        for n in 0..count {
            let flags = (n == 0, n + 1 == count);
            let offset = walk.next(&mut words, expected, flags).map_err(damaged)?;
            addresses.push(base.wrapping_add(offset.into()));
        }
    }
    if words.any(|word| !matches!(ControlWord::of(word), ControlWord::Event(_))) {
        return Err(damaged("it goes on after the last wave"));
    }
    if walk.end != walk.lowest {
        return Err(damaged("its waves have fewer bytes than were saved"));
    }
    Ok(addresses)
}

struct Walk {
    state: Option<StateWord>,
    /// Where the next wave ends.
    end: u32,
    lowest: u32,
}

impl Walk {
    /// Returns the offset of the next wave, which has to have the registers and flags (first, last) expected.
    fn next(
        &mut self,
        words: &mut impl Iterator<Item = u32>,
        expected: StateWord,
        flags: (bool, bool),
    ) -> Result<u32, &'static str> {
        for word in words {
            match ControlWord::of(word) {
                ControlWord::Event(_) => {}
                ControlWord::State(state) => self.state = Some(state),
                ControlWord::Wave(wave) => {
                    let state = self.state.filter(|state| *state == expected).ok_or("a wave has other registers")?;
                    if (wave.is_first(), wave.is_last()) != flags {
                        return Err("a workgroup has other waves");
                    }
                    let size = state.layout(Variant::Gfx90a, wave.is_first()).size();
                    let start = self.end.checked_sub(size).filter(|start| *start >= self.lowest);
                    self.end = start.ok_or("its waves have more bytes than were saved")?;
                    return Ok(self.end);
                }
            }
        }
        Err("waves are missing")
    }
}

//! Layout of the waves of a queue in its save area, and the list that describes it.

use kfd_abi::Abi;
use kfd_abi::control_stack::{CONTROL_STACK_SKIP, StateWord, WaveWord};
use kfd_abi::save_area::{SaveAreaHeader, WaveLayout, WaveState};
use vgpu_isa::memory::Port;

use super::super::workgroup::{WaveProgress, Workgroup};
use super::{SaveArea, SaveError, layout, registers, special_registers};
use crate::driver::SaveExtent;

/// The packet that starts a list: a PM4 NOP with one word.
const PACKET: [u32; CONTROL_STACK_SKIP] = [0xC000_1000, 0];

/// A wave in the part of an XCC.
struct Slot {
    group: usize,
    wave: usize,
    layout: WaveLayout,
    /// Bytes from its start to the end of the part's wave state.
    to_end: u64,
}

/// The part of an XCC.
struct Part {
    /// The list, in the order of addresses.
    words: Vec<u32>,
    /// The last state word.
    state: Option<StateWord>,
    slots: Vec<Slot>,
    /// Workgroups in the order of the list.
    order: Vec<usize>,
    /// Bytes of wave state.
    bytes: u64,
}

impl Part {
    /// Returns a part without waves that has room for those of so many workgroups.
    fn with_capacity(groups: usize) -> Self {
        Self {
            words: Vec::with_capacity(groups),
            state: None,
            slots: Vec::with_capacity(groups),
            order: Vec::with_capacity(groups),
            bytes: 0,
        }
    }

    /// Adds a workgroup to the list. Returns `false`, and changes nothing, if there is no room for it.
    fn add(&mut self, area: &SaveArea, index: usize, group: &Workgroup) -> Result<bool, SaveError> {
        let first = layout(&group.launch);
        let others = WaveLayout { lds_bytes: 0, ..first };
        // Layouts that no list can describe do not come from a kernel descriptor.
        let state = StateWord::gfx90a(&first).ok_or(SaveError::TooSmall)?;
        let Some(last) = live(group).next_back() else { return Ok(true) };
        let waves = live(group).count();
        let more = u64::from(others.size()) * waves as u64 + u64::from(first.lds_bytes);
        let words = PACKET.len() + self.words.len() + waves + 1;
        let header = SaveAreaHeader::SIZE as u64;
        if self.bytes + more > u64::from(area.size.saturating_sub(area.control_stack))
            || header + 4 * words as u64 > u64::from(area.control_stack)
        {
            return Ok(false);
        }
        if self.state != Some(state) {
            self.words.push(state.0);
            self.state = Some(state);
        }
        self.order.push(index);
        for (n, wave) in live(group).enumerate() {
            let layout = if n == 0 { first } else { others };
            self.bytes += u64::from(layout.size());
            let engine = group.waves[wave].wave.hw_id >> 13 & 3;
            let scratch = group.launch.scratch > 0;
            let word = WaveWord::gfx90a(engine, self.slots.len() as u32, scratch, n == 0, wave == last);
            self.words.push(word.0);
            self.slots.push(Slot { group: index, wave, layout, to_end: self.bytes });
        }
        Ok(true)
    }

    /// Returns the bytes of the list.
    fn list_bytes(&self) -> u32 {
        if self.slots.is_empty() { 0 } else { 4 * (PACKET.len() + self.words.len()) as u32 }
    }

    /// Returns the words as they lie in memory; none if there are no waves.
    fn list(&self) -> Vec<u8> {
        if self.slots.is_empty() {
            return Vec::new();
        }
        let mut bytes = Vec::with_capacity(self.list_bytes() as usize);
        for word in PACKET.iter().chain(&self.words) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Returns the waves of a workgroup that have not ended.
fn live(group: &Workgroup) -> impl DoubleEndedIterator<Item = usize> {
    group.waves.iter().enumerate().filter(|(_, member)| member.state != WaveProgress::Ended).map(|(index, _)| index)
}

/// Layout of all parts.
pub(super) struct SavePlan {
    area: Option<SaveArea>,
    parts: Vec<Part>,
}

impl SavePlan {
    /// Puts each workgroup into the part of the XCC it ran on. One that came back from another XCC's part and has not
    /// found room since may find that part full: then it goes wherever there is room.
    pub(super) fn new(area: Option<SaveArea>, groups: &[Workgroup]) -> Result<Self, SaveError> {
        let Some(area) = area.filter(|area| area.xccs > 0) else {
            return if groups.is_empty() { Ok(Self { area: None, parts: Vec::new() }) } else { Err(SaveError::NoArea) };
        };
        let mut parts: Vec<_> =
            (0..area.xccs).map(|_| Part::with_capacity(groups.len() / area.xccs as usize)).collect();
        for (index, group) in groups.iter().enumerate() {
            let ran_on = group.was.map_or(0, |place| place.xcc) % area.xccs;
            let mut placed = false;
            for n in 0..area.xccs {
                placed = parts[((ran_on + n) % area.xccs) as usize].add(&area, index, group)?;
                if placed {
                    break;
                }
            }
            if !placed {
                return Err(SaveError::TooSmall);
            }
        }
        Ok(Self { area: Some(area), parts })
    }

    /// Returns the workgroups of each part, in the order of its list.
    pub(super) fn orders(&self) -> impl Iterator<Item = &Vec<usize>> {
        self.parts.iter().map(|part| &part.order)
    }

    /// Returns the totals of the plan.
    pub(super) fn extent(&self) -> SaveExtent {
        let first = SaveExtent {
            control_stack: self.parts.first().map_or(0, Part::list_bytes),
            wave_state: self.parts.first().map_or(0, |part| part.bytes as u32),
            ..SaveExtent::default()
        };
        self.parts.iter().fold(first, |sum, part| SaveExtent {
            waves: sum.waves + part.slots.len() as u32,
            bytes: sum.bytes + part.bytes + u64::from(part.list_bytes()),
            ..sum
        })
    }

    /// Writes waves, lists and headers.
    pub(super) fn write(&self, memory: &mut Port<'_>, groups: &[Workgroup]) -> Result<(), SaveError> {
        let Some(area) = self.area else { return Ok(()) };
        for (xcc, part) in (0..).zip(&self.parts) {
            let base = area.part(xcc);
            let end = u64::from(area.control_stack) + part.bytes;
            for slot in &part.slots {
                let group = &groups[slot.group];
                let at = base.wrapping_add(end - slot.to_end);
                let wave = &group.waves[slot.wave].wave;
                registers::write(memory, at, wave, &slot.layout, special_registers(&group.launch))?;
                if slot.layout.lds_bytes > 0 {
                    memory.write(at.wrapping_add(u64::from(slot.layout.lds())), &group.lds)?;
                }
            }
            let list = part.list();
            let control_stack_offset = area.control_stack.saturating_sub(list.len() as u32);
            memory.write(base.wrapping_add(control_stack_offset.into()), &list)?;
            let header = WaveState {
                control_stack_offset,
                control_stack_size: list.len() as u32,
                wave_state_offset: end as u32,
                wave_state_size: part.bytes as u32,
            };
            let mut bytes = [0; WaveState::SIZE];
            if header.encode(&mut bytes).is_some() {
                memory.write(base, &bytes)?;
            }
        }
        Ok(())
    }
}

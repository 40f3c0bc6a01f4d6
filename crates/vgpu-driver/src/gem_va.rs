//! The address space of a render node: `AMDGPU_GEM_VA`.
//!
//! Order of checks and errors: `amdgpu_gem_va_ioctl` and `amdgpu_vm_bo_*` of Linux 6.12. The address space that
//! `/dev/kfd` acquired is the gpu's; mappings of another opening are remembered, and no queue sees them.
//!
//! Where this differs from the kernel: memory without pages behind it (PRT) is refused, what `/dev/kfd` mapped cannot
//! be cleared or replaced through the render node, and what may only be written may be read as well.

use std::collections::BTreeMap;

use kfd_abi::drm::{GemVaArgs, VaFlags, VaOperation};
use kfd_abi::memory::AllocFlags;

use super::gem::Node;
use super::memory::{Mapping, MappingOf, VA_END};
use super::process::is_page_aligned;
use super::{Call, Driver, Errno, ProcessEffect};

/// Addresses below belong to the driver (`AMDGPU_VA_RESERVED_BOTTOM`).
const FIRST_ADDRESS: u64 = 1 << 16;
/// Bytes at the end that belong to the driver (`AMDGPU_VA_RESERVED_TOP`).
const RESERVED_TOP: u64 = (1 << 16) + (4 << 20);
/// Addresses between the two halves of the address space.
const HOLE: std::ops::Range<u64> = 1 << 47..0xFFFF_8000_0000_0000;

/// A range of addresses: start and bytes.
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    size: u64,
}

impl Range {
    /// `amdgpu_vm_verify_parameters`.
    fn of(args: &GemVaArgs, offset: u64, buffer_size: Option<u64>) -> Result<Range, Errno> {
        let GemVaArgs { va_address: start, map_size: size, .. } = *args;
        let aligned = [start, size, offset].into_iter().all(is_page_aligned);
        let fits = offset.checked_add(size).is_some_and(|end| buffer_size.is_none_or(|size| end <= size));
        let in_reach = start.checked_add(size).is_some_and(|end| end <= VA_END);
        if aligned && size > 0 && fits && in_reach { Ok(Range { start, size }) } else { Err(Errno::EINVAL) }
    }

    fn end(self) -> u64 {
        self.start + self.size
    }
}

impl Driver {
    pub(super) fn gem_va(&mut self, node: Node, args: &mut GemVaArgs, call: &mut Call) -> Result<i64, Errno> {
        if args.va_address < FIRST_ADDRESS || HOLE.contains(&args.va_address) {
            return Err(Errno::EINVAL);
        }
        args.va_address &= VA_END - 1;
        let end = args.va_address.checked_add(args.map_size);
        if end.is_none_or(|end| end > VA_END - RESERVED_TOP) {
            return Err(Errno::EINVAL);
        }
        if !args.flags.without(VaFlags::DEFINED.without(VaFlags::PRT)).is_empty() {
            return Err(Errno::EINVAL);
        }
        let effects = &mut call.effects.process;
        match args.operation {
            VaOperation::CLEAR => self.clear(node, Range::of(args, 0, None)?, effects)?,
            VaOperation::UNMAP => {
                let (buffer, _) = self.gem(node, args.handle)?;
                let is_it = |mapping: &Mapping| matches!(mapping.of, MappingOf::Gem { buffer: of, .. } if of == buffer);
                let mappings = self.address_space(node)?;
                let mapping = mappings.get(&args.va_address).filter(|mapping| is_it(mapping)).ok_or(Errno::ENOENT)?;
                let range = Range { start: args.va_address, size: mapping.size };
                self.clear(node, range, effects)?;
            }
            VaOperation::MAP | VaOperation::REPLACE => self.map_gem(node, args, effects)?,
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }

    fn map_gem(&mut self, node: Node, args: &GemVaArgs, effects: &mut Vec<ProcessEffect>) -> Result<(), Errno> {
        let (id, buffer) = self.gem(node, args.handle)?;
        let range = Range::of(args, args.offset_in_bo, Some(buffer.size))?;
        let mut flags = buffer.flags.both(AllocFlags::KINDS);
        for (flag, allowed) in
            [(VaFlags::WRITEABLE, AllocFlags::WRITABLE), (VaFlags::EXECUTABLE, AllocFlags::EXECUTABLE)]
        {
            if args.flags.has(flag) {
                flags = flags | allowed;
            }
        }
        if args.operation == VaOperation::REPLACE {
            self.clear(node, range, effects)?;
        } else if overlapping(self.address_space(node)?, range).next().is_some() {
            return Err(Errno::EINVAL);
        }
        // Without either the page table has entries, and no access succeeds.
        let accessible = args.flags.has(VaFlags::READABLE) || args.flags.has(VaFlags::WRITEABLE);
        let of = MappingOf::Gem { buffer: id, offset: args.offset_in_bo, accessible, flags };
        self.address_space(node)?.insert(range.start, Mapping { size: range.size, of, queue_users: 0 });
        if self.is_live(node) {
            effects.extend(self.map_effect(node, range, of));
        }
        Ok(())
    }

    /// Whether the address space of an opening is the one that queues use.
    fn is_live(&self, node: Node) -> bool {
        self.process(node.caller).is_ok_and(|process| process.gpus[node.gpu].vm == Some(node.file))
    }

    fn address_space(&mut self, node: Node) -> Result<&mut BTreeMap<u64, Mapping>, Errno> {
        if self.is_live(node) {
            return Ok(&mut self.process_mut(node.caller)?.on(node.gpu)?.mappings);
        }
        Ok(&mut self.opening(node)?.mappings)
    }

    fn map_effect(&self, node: Node, range: Range, of: MappingOf) -> Option<ProcessEffect> {
        let MappingOf::Gem { buffer, offset, accessible: true, flags } = of else { return None };
        let held = self.process(node.caller).ok()?.held.get(&buffer)?;
        let backing = held.backing.moved_to(held.backing.render_offset()? + offset);
        let Range { start: va, size } = range;
        Some(ProcessEffect::MapMemory { gpu: node.gpu as u32, handle: 0, va, size, backing, flags })
    }

    /// Unmaps whatever is in a range; mappings that reach beyond keep their rest.
    fn clear(&mut self, node: Node, range: Range, effects: &mut Vec<ProcessEffect>) -> Result<(), Errno> {
        let live = self.is_live(node);
        let mappings = self.address_space(node)?;
        let found: Vec<u64> = overlapping(mappings, range).collect();
        if found.iter().any(|at| matches!(mappings[at].of, MappingOf::Kfd { .. })) {
            return Err(Errno::EINVAL);
        }
        for start in found {
            let Some(mapping) = mappings.remove(&start) else { continue };
            let end = start + mapping.size;
            let cut = (start.max(range.start), end.min(range.end()));
            for (from, to) in [(start, cut.0), (cut.1, end)] {
                if let (true, MappingOf::Gem { buffer, offset, accessible, flags }) = (from < to, mapping.of) {
                    let of = MappingOf::Gem { buffer, offset: offset + (from - start), accessible, flags };
                    mappings.insert(from, Mapping { size: to - from, of, queue_users: 0 });
                }
            }
            if live {
                let (gpu, va, size) = (node.gpu as u32, cut.0, cut.1 - cut.0);
                effects.push(ProcessEffect::UnmapMemory { gpu, handle: 0, va, size });
            }
        }
        Ok(())
    }

    /// Unmaps a buffer whose handle is closed.
    pub(super) fn unmap_gem(&mut self, node: Node, id: u64, effects: &mut Vec<ProcessEffect>) -> Result<(), Errno> {
        let of_buffer = |mapping: &Mapping| matches!(mapping.of, MappingOf::Gem { buffer, .. } if buffer == id);
        let mappings = self.address_space(node)?.iter();
        let found: Vec<Range> = mappings
            .filter(|(_, mapping)| of_buffer(mapping))
            .map(|(start, mapping)| Range { start: *start, size: mapping.size })
            .collect();
        found.into_iter().try_for_each(|range| self.clear(node, range, effects))
    }

    /// `/dev/kfd` has acquired the address space of an opening: what is mapped there is the gpu's from now on.
    pub(super) fn adopt(&mut self, node: Node, effects: &mut Vec<ProcessEffect>) -> Result<(), Errno> {
        let mappings = std::mem::take(&mut self.opening(node)?.mappings);
        for (start, mapping) in &mappings {
            effects.extend(self.map_effect(node, Range { start: *start, size: mapping.size }, mapping.of));
        }
        self.process_mut(node.caller)?.on(node.gpu)?.mappings = mappings;
        Ok(())
    }
}

/// Starts of the mappings that overlap with a range.
fn overlapping(mappings: &BTreeMap<u64, Mapping>, range: Range) -> impl Iterator<Item = u64> {
    let below = mappings.range(..range.start).next_back();
    let reaching = below.filter(move |(start, mapping)| *start + mapping.size > range.start);
    reaching.into_iter().chain(mappings.range(range.start..range.end())).map(|(start, _)| *start)
}

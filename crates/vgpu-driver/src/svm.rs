//! Shared virtual memory: attributes of address ranges, remembered and reported back.
//!
//! Source of the rules: `kfd_svm.c` of Linux 6.12. Pages do not move here, so locations are only remembered; access and
//! permissions are told to the device. A gpu that loses access loses it at once; Linux 6.12 leaves the old mapping
//! (a comment in `svm_range_set_attr` says so), on which no program can rely. Whether the process has memory in a range
//! is for the client side to see, and ranges do not count in the account of system memory.

use std::collections::BTreeMap;

use kfd_abi::Abi;
use kfd_abi::svm::{LOCATION_SYSMEM, LOCATION_UNDEFINED, SvmArgs, SvmAttr, SvmAttribute, SvmFlags, SvmOp};

use super::process::{Process, is_page_aligned, is_user_address};
use super::{Call, Driver, Errno, ProcessEffect, ProcessKey};

/// Pages that move together unless told otherwise, as a power of two.
const DEFAULT_GRANULARITY: u32 = 9;
const MAX_GRANULARITY: u32 = 0x3F;
/// Answer for a range of which nothing is known yet; every real value is smaller.
const UNKNOWN_GRANULARITY: u32 = 0xFF;

/// Attributes of a range. Gpus are bits by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attributes {
    preferred: u32,
    prefetch: u32,
    access: u64,
    in_place: u64,
    flags: SvmFlags,
    granularity: u32,
}

impl Attributes {
    fn new(xnack: bool) -> Attributes {
        Attributes {
            preferred: LOCATION_UNDEFINED,
            prefetch: LOCATION_UNDEFINED,
            // With retried faults any gpu may touch any memory.
            access: if xnack { u64::MAX } else { 0 },
            in_place: 0,
            flags: SvmFlags::HOST_ACCESS | SvmFlags::COHERENT,
            granularity: DEFAULT_GRANULARITY,
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Preferred(place) => self.preferred = place,
            Change::Prefetch(place) => self.prefetch = place,
            Change::Access(kind, gpu) => {
                let bit = 1 << gpu;
                self.access &= !bit;
                self.in_place &= !bit;
                match kind {
                    SvmAttr::ACCESS => self.access |= bit,
                    SvmAttr::ACCESS_IN_PLACE => self.in_place |= bit,
                    _ => {}
                }
            }
            Change::SetFlags(flags) => self.flags = self.flags | flags,
            Change::ClearFlags(flags) => self.flags = self.flags.without(flags),
            Change::Granularity(value) => self.granularity = value.min(MAX_GRANULARITY),
        }
    }

    fn is_accessible(&self, gpu: usize) -> bool {
        (self.access | self.in_place) >> gpu & 1 == 1
    }
}

/// One attribute to set.
#[derive(Clone, Copy)]
enum Change {
    Preferred(u32),
    Prefetch(u32),
    Access(SvmAttr, usize),
    SetFlags(SvmFlags),
    ClearFlags(SvmFlags),
    Granularity(u32),
}

/// The ranges of a process: end and attributes by start. No two overlap.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, (u64, Attributes)>);

impl Ranges {
    /// Starts and ends of the ranges that overlap with one, with their attributes.
    fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, &Attributes)> {
        let before = self.0.range(..start).next_back().filter(move |(_, (last, _))| *last > start);
        before.into_iter().chain(self.0.range(start..end)).map(|(at, (end, attributes))| (*at, *end, attributes))
    }

    pub(super) fn overlaps(&self, start: u64, size: u64) -> bool {
        start < start.saturating_add(size) && self.within(start, start.saturating_add(size)).next().is_some()
    }

    pub(super) fn contains(&self, address: u64) -> bool {
        self.within(address, address.saturating_add(1)).next().is_some()
    }

    /// Whether all of it stays mapped in a gpu that has access.
    pub(super) fn always_mapped(&self, gpu: usize, start: u64, size: u64) -> bool {
        let Some(end) = start.checked_add(size) else { return false };
        let mut covered = start;
        for (at, last, attributes) in self.within(start, end) {
            let fits = attributes.is_accessible(gpu) && attributes.flags.has(SvmFlags::GPU_ALWAYS_MAPPED);
            if at > covered || !fits {
                return false;
            }
            covered = last;
        }
        covered >= end
    }

    /// Makes `at` the start of a range if it lies inside one.
    fn split(&mut self, at: u64) {
        if let Some((_, (end, attributes))) = self.0.range_mut(..at).next_back()
            && *end > at
        {
            let rest = (*end, *attributes);
            *end = at;
            self.0.insert(at, rest);
        }
    }

    /// Forgets exactly this range. Answers what it was.
    fn remove(&mut self, start: u64, end: u64) -> Vec<(u64, u64, Attributes)> {
        if start >= end {
            return Vec::new();
        }
        self.split(start);
        self.split(end);
        let found: Vec<u64> = self.0.range(start..end).map(|(at, _)| *at).collect();
        found.into_iter().filter_map(|at| self.0.remove(&at).map(|(last, attributes)| (at, last, attributes))).collect()
    }

    /// Applies changes to exactly this range; what is not known yet starts from `fresh`.
    fn change(&mut self, start: u64, end: u64, fresh: Attributes, changes: &[Change]) {
        self.split(start);
        self.split(end);
        let mut gaps = Vec::new();
        let mut covered = start;
        for (at, (last, attributes)) in self.0.range_mut(start..end) {
            if *at > covered {
                gaps.push((covered, *at));
            }
            changes.iter().for_each(|change| attributes.apply(*change));
            covered = *last;
        }
        if covered < end {
            gaps.push((covered, end));
        }
        for (at, last) in gaps {
            let mut attributes = fresh;
            changes.iter().for_each(|change| attributes.apply(*change));
            self.0.insert(at, (last, attributes));
        }
    }
}

impl Process {
    /// Start and end of a range that can be shared. `EFAULT` if the process cannot have memory there, `EADDRINUSE` if
    /// there is a buffer in a gpu's address space.
    fn shareable(&self, args: &SvmArgs) -> Result<(u64, u64), Errno> {
        let start = args.start_addr;
        let last = start.checked_add(args.size - 1).filter(|last| is_user_address(*last)).ok_or(Errno::EFAULT)?;
        if self.gpus.iter().any(|gpu| gpu.overlaps(start, args.size)) {
            return Err(Errno::EADDRINUSE);
        }
        Ok((start, last + 1))
    }
}

impl Driver {
    /// A process has unmapped memory, or mapped other memory over it: attributes of that range are forgotten, as the
    /// kernel's own notification does it. Answers what the device has to do.
    pub fn svm_unmapped(&mut self, process: ProcessKey, start: u64, size: u64) -> Vec<ProcessEffect> {
        let gpus = self.gpus.len();
        let (Some(process), Some(end)) = (self.processes.get_mut(&process), start.checked_add(size)) else {
            return Vec::new();
        };
        let mut effects = Vec::new();
        for (at, last, attributes) in process.svm.remove(start, end) {
            for gpu in (0..gpus).filter(|gpu| attributes.is_accessible(*gpu)) {
                let (gpu, va, size) = (gpu as u32, at, last - at);
                effects.push(ProcessEffect::SvmAccess {
                    gpu,
                    va,
                    size,
                    access: false,
                    writable: false,
                    executable: false,
                });
            }
        }
        effects
    }

    pub(super) fn svm(&mut self, caller: ProcessKey, args: &mut SvmArgs, call: &mut Call) -> Result<i64, Errno> {
        if caller.is_secondary() {
            return Err(Errno::EOPNOTSUPP);
        }
        if !is_page_aligned(args.start_addr) || !is_page_aligned(args.size) {
            return Err(Errno::EINVAL);
        }
        if args.start_addr == 0 || args.size == 0 {
            return Err(Errno::EINVAL);
        }
        let tail = (args.nattr as usize).checked_mul(SvmAttribute::SIZE).ok_or(Errno::EINVAL)?;
        let tail = call.args.get(SvmArgs::SIZE..).and_then(|rest| rest.get(..tail)).ok_or(Errno::EINVAL)?;
        let mut attributes: Vec<SvmAttribute> =
            tail.chunks_exact(SvmAttribute::SIZE).filter_map(SvmAttribute::decode).collect();
        match args.op {
            SvmOp::SET_ATTR => self.set_attributes(caller, args, &attributes, &mut call.effects.process)?,
            SvmOp::GET_ATTR => {
                self.get_attributes(caller, args, &mut attributes)?;
                let room = call.args[SvmArgs::SIZE..].chunks_exact_mut(SvmAttribute::SIZE);
                for (attribute, room) in attributes.iter().zip(room) {
                    attribute.encode(room).ok_or(Errno::EFAULT)?;
                }
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }

    fn set_attributes(
        &mut self,
        caller: ProcessKey,
        args: &SvmArgs,
        attributes: &[SvmAttribute],
        effects: &mut Vec<ProcessEffect>,
    ) -> Result<(), Errno> {
        let changes = attributes.iter().map(|attribute| self.change_of(*attribute)).collect::<Result<Vec<_>, _>>()?;
        let gpus = self.gpus.len();
        let process = self.process_mut(caller)?;
        // There is nothing to share memory with yet.
        if !(0..gpus).any(|gpu| process.is_bound(gpu)) {
            return Err(Errno::EINVAL);
        }
        let (start, end) = process.shareable(args)?;
        process.svm.change(start, end, Attributes::new(process.xnack), &changes);
        for (at, last, attributes) in process.svm.within(start, end) {
            for gpu in 0..gpus {
                let access = attributes.is_accessible(gpu);
                let named = changes.iter().any(|change| matches!(change, Change::Access(_, named) if *named == gpu));
                if access || named {
                    effects.push(ProcessEffect::SvmAccess {
                        gpu: gpu as u32,
                        va: at,
                        size: last - at,
                        access,
                        writable: !attributes.flags.has(SvmFlags::GPU_RO),
                        executable: attributes.flags.has(SvmFlags::GPU_EXEC),
                    });
                }
            }
        }
        Ok(())
    }

    fn change_of(&self, attribute: SvmAttribute) -> Result<Change, Errno> {
        let value = attribute.value;
        let place = || if value == LOCATION_SYSMEM { Ok(value) } else { self.gpu(value).map(|_| value) };
        Ok(match attribute.kind {
            SvmAttr::PREFERRED_LOC if value == LOCATION_UNDEFINED => Change::Preferred(value),
            SvmAttr::PREFERRED_LOC => Change::Preferred(place()?),
            // Memory cannot be moved to no place in particular.
            SvmAttr::PREFETCH_LOC => Change::Prefetch(place()?),
            kind @ (SvmAttr::ACCESS | SvmAttr::ACCESS_IN_PLACE | SvmAttr::NO_ACCESS) => {
                Change::Access(kind, self.gpu(value)?)
            }
            SvmAttr::SET_FLAGS => Change::SetFlags(SvmFlags(value)),
            SvmAttr::CLR_FLAGS => Change::ClearFlags(SvmFlags(value)),
            SvmAttr::GRANULARITY => Change::Granularity(value),
            _ => return Err(Errno::EINVAL),
        })
    }

    fn get_attributes(&self, caller: ProcessKey, args: &SvmArgs, attributes: &mut [SvmAttribute]) -> Result<(), Errno> {
        let process = self.process(caller)?;
        let (start, end) = process.shareable(args)?;
        let mut all: Vec<Attributes> = process.svm.within(start, end).map(|(_, _, attributes)| *attributes).collect();
        if all.is_empty() {
            all.push(Attributes::new(process.xnack));
        }
        // A place that only part of the range has is none.
        let same = |place: fn(&Attributes) -> u32| {
            let first = place(&all[0]);
            if all.iter().all(|attributes| place(attributes) == first) { first } else { LOCATION_UNDEFINED }
        };
        for attribute in attributes {
            match attribute.kind {
                SvmAttr::PREFERRED_LOC => attribute.value = same(|attributes| attributes.preferred),
                SvmAttr::PREFETCH_LOC => attribute.value = same(|attributes| attributes.prefetch),
                SvmAttr::ACCESS => {
                    let gpu = self.gpu(attribute.value)?;
                    let has =
                        |bits: fn(&Attributes) -> u64| all.iter().all(|attributes| bits(attributes) >> gpu & 1 == 1);
                    attribute.kind = if has(|attributes| attributes.access) {
                        SvmAttr::ACCESS
                    } else if has(|attributes| attributes.in_place) {
                        SvmAttr::ACCESS_IN_PLACE
                    } else {
                        SvmAttr::NO_ACCESS
                    };
                }
                SvmAttr::SET_FLAGS => {
                    attribute.value = all.iter().fold(u32::MAX, |flags, attributes| flags & attributes.flags.0);
                }
                SvmAttr::CLR_FLAGS => {
                    attribute.value = !all.iter().fold(0, |flags, attributes| flags | attributes.flags.0);
                }
                SvmAttr::GRANULARITY => {
                    let granularities = all.iter().map(|attributes| attributes.granularity);
                    attribute.value = granularities.min().unwrap_or(UNKNOWN_GRANULARITY);
                }
                _ => return Err(Errno::EINVAL),
            }
        }
        Ok(())
    }
}

//! Where things lie in the files that stand for the device.
//!
//! A process has two sparse files. The *kfd file* is what its `/dev/kfd` descriptors map: doorbells, the page of
//! registers and the driver's event page. The *render file* is what its render nodes map: every buffer at the offset
//! that its allocation answered.
//!
//! The driver packs kind and gpu into the upper bits of an offset of the kfd file (`kfd_abi::memory::MmapOffset`). No
//! file is long enough for that: [`kfd_offset`] says which part of the file is meant. The offsets of the render file
//! are file offsets.

use std::ops::Range;

use kfd_abi::PAGE_SIZE;
use kfd_abi::memory::{MmapKind, MmapOffset};
use kfd_abi::queue::DOORBELL_SLICE;

use crate::Errno;

/// First offset of buffers in the render file. Zero is no offset, and DRM starts there too.
pub const BUFFERS_START: u64 = 1 << 32;
/// End of the offsets of buffers.
pub const BUFFERS_END: u64 = 1 << 46;
/// First offset of the buffers of contexts beside the first of a process.
const CONTEXTS_START: u64 = 1 << 45;
/// Room for the buffers of one of them.
const CONTEXT_SIZE: u64 = 1 << 36;
/// How many of them a process may have.
pub(crate) const MAX_CONTEXTS: u32 = ((BUFFERS_END - CONTEXTS_START) / CONTEXT_SIZE) as u32;

/// Returns the offsets of the buffers of a process, or of one of its contexts: they share the render file.
pub(crate) fn buffers(context: Option<u16>) -> Range<u64> {
    match context.map(|context| CONTEXTS_START + u64::from(context) * CONTEXT_SIZE) {
        Some(start) => start..start + CONTEXT_SIZE,
        None => BUFFERS_START..CONTEXTS_START,
    }
}

/// Bytes of a gpu's doorbells in the kfd file.
pub const DOORBELLS_SIZE: u64 = DOORBELL_SLICE as u64;
/// Bytes of a gpu's page of registers.
pub const MMIO_SIZE: u64 = PAGE_SIZE as u64;
/// Offset of the event page in the kfd file, for processes that do not bring their own.
pub const EVENT_PAGE: u64 = 1 << 44;

/// Offset of a gpu's doorbells in the kfd file. The low 32 bits are zero.
#[must_use]
pub const fn doorbells(gpu_index: u32) -> u64 {
    (gpu_index as u64 + 1) << 32
}

/// Offset of a gpu's page of registers in the kfd file.
#[must_use]
pub const fn mmio(gpu_index: u32) -> u64 {
    (gpu_index as u64 + 1) << 40
}

/// Returns where the bytes lie that a program means with an offset of `/dev/kfd`, among gpus with these ids.
///
/// # Errors
/// As `kfd_mmap` answers: ENODEV for an unknown gpu, EINVAL for another length than that of the whole part.
pub fn kfd_offset(offset: u64, length: u64, gpu_ids: &[u32]) -> Result<u64, Errno> {
    let offset = MmapOffset(offset);
    let gpu = || gpu_ids.iter().position(|id| *id == offset.gpu_id()).map(|at| at as u32).ok_or(Errno::ENODEV);
    let (start, fits) = match offset.kind() {
        MmapKind::DOORBELL => (doorbells(gpu()?), length == DOORBELLS_SIZE),
        MmapKind::MMIO => (mmio(gpu()?), length == MMIO_SIZE),
        MmapKind::EVENTS => (EVENT_PAGE, length <= kfd_abi::event::EVENT_PAGE_SIZE.into()),
        _ => (0, false),
    };
    if fits { Ok(start) } else { Err(Errno::EINVAL) }
}

/// Bytes the kfd file must have so that everything in it can be mapped.
#[must_use]
pub const fn kfd_file_size() -> u64 {
    EVENT_PAGE + kfd_abi::event::EVENT_PAGE_SIZE as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::MAX_GPUS;

    #[test]
    fn an_offset_of_the_driver_leads_to_its_part_of_the_file() {
        let ids = [0xABCD, 0x1234];
        let MmapOffset(second) = MmapOffset::new(MmapKind::DOORBELL, 0x1234);
        assert_eq!(kfd_offset(second, 8192, &ids), Ok(doorbells(1)));
        assert_eq!(kfd_offset(second, 4096, &ids), Err(Errno::EINVAL));
        let MmapOffset(unknown) = MmapOffset::new(MmapKind::DOORBELL, 7);
        assert_eq!(kfd_offset(unknown, 8192, &ids), Err(Errno::ENODEV));
        let MmapOffset(registers) = MmapOffset::new(MmapKind::MMIO, 0xABCD);
        assert_eq!(kfd_offset(registers, 4096, &ids), Ok(mmio(0)));
        let MmapOffset(events) = MmapOffset::new(MmapKind::EVENTS, 0);
        assert_eq!(kfd_offset(events, 32768, &ids), Ok(EVENT_PAGE));
        assert_eq!(kfd_offset(events, 65536, &ids), Err(Errno::EINVAL));
    }

    #[test]
    fn the_parts_of_the_kfd_file_do_not_overlap() {
        let mut parts = vec![(EVENT_PAGE, u64::from(kfd_abi::event::EVENT_PAGE_SIZE))];
        for gpu in 0..MAX_GPUS {
            parts.push((doorbells(gpu), DOORBELLS_SIZE));
            parts.push((mmio(gpu), MMIO_SIZE));
            assert_eq!(doorbells(gpu) & 0xFFFF_FFFF, 0);
        }
        parts.sort_unstable();
        assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        assert!(parts.iter().all(|(start, size)| start % 4096 == 0 && start + size <= kfd_file_size()));
    }
}

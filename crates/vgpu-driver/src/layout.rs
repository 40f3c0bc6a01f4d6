//! Where things lie in the files that stand for the device.
//!
//! A process has two sparse files. The *kfd file* is what its `/dev/kfd` descriptors map: doorbells, the page of
//! registers and the driver's event page. The *render file* is what its render nodes map: every buffer at the offset
//! that its allocation answered. Programs map them with plain `mmap`, so the offsets in answers are file offsets.
//!
//! The real driver packs kind and gpu into the upper bits of an offset instead; only the driver looks at them.
//! One rule of its clients has to be kept: a runtime computes the first mapping of doorbells with their size still
//! unknown, which only works if the low 32 bits of the base are zero.

use kfd_abi::PAGE_SIZE;
use kfd_abi::queue::DOORBELL_SLICE;

/// First offset of buffers in the render file. Zero is no offset, and DRM starts there too.
pub const BUFFERS_START: u64 = 1 << 32;
/// End of the offsets of buffers.
pub const BUFFERS_END: u64 = 1 << 46;

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

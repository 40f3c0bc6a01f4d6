//! Shared virtual memory: attributes of address ranges.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h` of Linux 6.12. The attributes follow the argument in memory, and the
//! request counts them: [`SvmArgs::request`].

use crate::Abi;
use crate::ioctl::{Request, SVM};

numbers! {
    /// What to do with the attributes.
    SvmOp: u32 {
        /// Set them on the range, splitting what it overlaps.
        SET_ATTR = 0,
        /// Answer what the whole range has in common.
        GET_ATTR = 1,
    }
}

numbers! {
    /// Kind of an attribute; says what its value is.
    SvmAttr: u32 {
        /// Gpu id of the preferred place, 0 for system memory.
        PREFERRED_LOC = 0,
        /// Gpu id of the place to move to now.
        PREFETCH_LOC = 1,
        /// Gpu id that has access. A query answers by changing the kind to this or one of the next two.
        ACCESS = 2,
        /// Gpu id that has access without moving the memory.
        ACCESS_IN_PLACE = 3,
        /// Gpu id that has none.
        NO_ACCESS = 4,
        /// Flags to set: [`SvmFlags`].
        SET_FLAGS = 5,
        /// Flags to clear.
        CLR_FLAGS = 6,
        /// Pages that move together, as a power of two.
        GRANULARITY = 7,
    }
}

flags! {
    /// Properties of a range.
    SvmFlags: u32 {
        /// The host keeps access.
        HOST_ACCESS = 0x01,
        /// Coherent between all devices with access.
        COHERENT = 0x02,
        /// Any gpu of the hive may be the preferred one.
        HIVE_LOCAL = 0x04,
        /// Gpus only read: copies are allowed.
        GPU_RO = 0x08,
        /// Gpus may execute it.
        GPU_EXEC = 0x10,
        /// Gpus mostly read; writes fault.
        GPU_READ_MOSTLY = 0x20,
        /// Stays mapped in the gpu. A save area outside a buffer needs it.
        GPU_ALWAYS_MAPPED = 0x40,
        /// Coherent with atomics of device scope.
        EXT_COHERENT = 0x80,
    }
}

/// Location: system memory.
pub const LOCATION_SYSMEM: u32 = 0;
/// Location: none in particular, or no common one.
pub const LOCATION_UNDEFINED: u32 = 0xFFFF_FFFF;

/// One attribute (`kfd_ioctl_svm_attribute`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SvmAttribute {
    /// Its kind.
    pub kind: SvmAttr,
    /// Its value.
    pub value: u32,
}
plain!(SvmAttribute { kind, value });

/// Argument of `SVM` without the attributes behind it (`kfd_ioctl_svm_args`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SvmArgs {
    /// First address, page aligned.
    pub start_addr: u64,
    /// Bytes, whole pages.
    pub size: u64,
    /// What to do.
    pub op: SvmOp,
    /// Attributes that follow.
    pub nattr: u32,
}
plain!(SvmArgs { start_addr, size, op, nattr } for SVM);

impl SvmArgs {
    /// Most attributes a request can carry: its size field has 14 bits.
    pub const ATTRIBUTES_MAX: u32 = (((1 << 14) - 1) - SvmArgs::SIZE as u32) / SvmAttribute::SIZE as u32;

    /// The request for this many attributes; `None` if they are too many.
    #[must_use]
    pub const fn request(attributes: u32) -> Option<Request> {
        if attributes > SvmArgs::ATTRIBUTES_MAX {
            return None;
        }
        Some(SVM.request_with((attributes * SvmAttribute::SIZE as u32) as u16))
    }
}

/// [`SvmArgs`] and its attributes in one piece.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SvmCall<const N: usize> {
    /// The fixed part; `nattr` is `N`.
    pub args: SvmArgs,
    /// The attributes.
    pub attrs: [SvmAttribute; N],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(SvmAttribute, 8, { kind: 0, value: 4 });
        layout!(SvmArgs, 24, { start_addr: 0, size: 8, op: 16, nattr: 20 });
        assert_eq!(size_of::<SvmCall<6>>(), 72);
        assert_eq!(core::mem::offset_of!(SvmCall<6>, attrs), 24);
    }

    #[test]
    fn the_request_counts_the_attributes() {
        assert_eq!(SvmArgs::request(6), Some(Request(0xC048_4B20)));
        assert_eq!(SvmArgs::request(SvmArgs::ATTRIBUTES_MAX).map(Request::size), Some(16376));
        assert_eq!(SvmArgs::request(SvmArgs::ATTRIBUTES_MAX + 1), None);
    }
}

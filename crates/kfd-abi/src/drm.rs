//! What a compute process asks of the render node beside `/dev/kfd`.
//!
//! libdrm opens the device with `VERSION` and `GET_CLIENT` and a few `AMDGPU_INFO` queries; the runtime stops if that
//! fails. Source: `include/uapi/drm/drm.h` and `include/uapi/drm/amdgpu_drm.h` of Linux 6.12. Other numbers belong to
//! graphics.

use crate::ioctl::{Argument, Command, Direction, Request};
use crate::{Abi, Union};

/// First number of the commands that belong to one driver instead of all of DRM.
pub const COMMAND_BASE: u8 = 0x40;

/// Name and version of the driver.
pub const VERSION: Command = command(0x00, Direction::ReadWrite, 64, "VERSION");
/// A client that has the device open.
pub const GET_CLIENT: Command = command(0x05, Direction::ReadWrite, 40, "GET_CLIENT");
/// Close a buffer handle.
pub const GEM_CLOSE: Command = command(0x09, Direction::Write, 8, "GEM_CLOSE");
/// Turn a buffer handle into a DMA buffer.
pub const PRIME_HANDLE_TO_FD: Command = command(0x2D, Direction::ReadWrite, 12, "PRIME_HANDLE_TO_FD");
/// And back.
pub const PRIME_FD_TO_HANDLE: Command = command(0x2E, Direction::ReadWrite, 12, "PRIME_FD_TO_HANDLE");
/// Offset at which a buffer can be mapped.
pub const AMDGPU_GEM_MMAP: Command = command(COMMAND_BASE + 0x01, Direction::ReadWrite, 8, "AMDGPU_GEM_MMAP");
/// One of many questions about the device: [`InfoQuery`].
pub const AMDGPU_INFO: Command = command(COMMAND_BASE + 0x05, Direction::Write, 32, "AMDGPU_INFO");
/// Map a buffer into the address space of the render node.
pub const AMDGPU_GEM_VA: Command = command(COMMAND_BASE + 0x08, Direction::Write, 40, "AMDGPU_GEM_VA");

const fn command(nr: u8, direction: Direction, size: u16, name: &'static str) -> Command {
    Command { class: Request::DRM, nr, direction, size, name }
}

/// Argument of [`VERSION`] (`drm_version`). Asked twice: for the lengths, then with buffers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionArgs {
    /// Major version, filled.
    pub version_major: i32,
    /// Minor version, filled.
    pub version_minor: i32,
    /// Patch level, filled.
    pub version_patchlevel: i32,
    /// Padding of the C structure.
    pub pad: u32,
    /// Room at `name`, answered with the length.
    pub name_len: u64,
    /// Buffer for the driver's name, `amdgpu`.
    pub name: u64,
    /// Room at `date`, answered with the length.
    pub date_len: u64,
    /// Buffer for the driver's date.
    pub date: u64,
    /// Room at `desc`, answered with the length.
    pub desc_len: u64,
    /// Buffer for the driver's description.
    pub desc: u64,
}
plain!(VersionArgs {
    version_major,
    version_minor,
    version_patchlevel,
    pad,
    name_len,
    name,
    date_len,
    date,
    desc_len,
    desc
});

impl Argument for VersionArgs {
    const COMMAND: Command = VERSION;
}

/// Argument of [`GET_CLIENT`] (`drm_client`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientArgs {
    /// Which client is meant; libdrm asks for 0.
    pub idx: i32,
    /// Whether it is authenticated, filled. libdrm refuses a device on which it is not.
    pub auth: i32,
    /// Its process, filled.
    pub pid: u64,
    /// Its user, filled.
    pub uid: u64,
    /// Its authentication number, filled.
    pub magic: u64,
    /// Its calls so far, filled.
    pub iocs: u64,
}
plain!(ClientArgs { idx, auth, pid, uid, magic, iocs });

impl Argument for ClientArgs {
    const COMMAND: Command = GET_CLIENT;
}

numbers! {
    /// Questions of [`AMDGPU_INFO`] that a compute stack asks, or tools beside it.
    InfoQuery: u32 {
        /// Whether the device accepts work: a 32-bit 0 or 1. libdrm's first question.
        ACCEL_WORKING = 0x00,
        /// Version and rings of a hardware block.
        HW_IP_INFO = 0x02,
        /// Number of hardware blocks of a kind.
        HW_IP_COUNT = 0x03,
        /// The GPU's clock counter.
        TIMESTAMP = 0x05,
        /// Version of a firmware.
        FW_VERSION = 0x0E,
        /// Bytes of video memory in use.
        VRAM_USAGE = 0x10,
        /// Bytes of system memory in use by the GPU.
        GTT_USAGE = 0x11,
        /// Sizes of the heaps.
        VRAM_GTT = 0x14,
        /// Values of registers: [`ReadRegisters`]. libdrm asks for the tiling set-up.
        READ_MMR_REG = 0x15,
        /// The device itself: [`DeviceInfo`].
        DEV_INFO = 0x16,
        /// Bytes of host-visible video memory in use.
        VIS_VRAM_USAGE = 0x17,
        /// Heaps in detail.
        MEMORY = 0x19,
        /// A sensor.
        SENSOR = 0x1D,
    }
}

/// Argument of [`AMDGPU_INFO`] (`drm_amdgpu_info`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InfoArgs {
    /// Where the answer goes.
    pub return_pointer: u64,
    /// Bytes of room there; a longer answer is cut, a shorter one leaves the rest alone.
    pub return_size: u32,
    /// The question.
    pub query: InfoQuery,
    /// What the question needs: [`ReadRegisters`], or a 32-bit kind and an index.
    pub detail: Union<2>,
}
plain!(InfoArgs { return_pointer, return_size, query, detail });

impl Argument for InfoArgs {
    const COMMAND: Command = AMDGPU_INFO;
}

/// Detail of [`InfoQuery::READ_MMR_REG`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadRegisters {
    /// First register, in 32-bit words.
    pub dword_offset: u32,
    /// Number of registers.
    pub count: u32,
    /// Shader engine in bits 0-7, array in bits 8-15; all ones means every one.
    pub instance: u32,
    /// Zero.
    pub flags: u32,
}
plain!(ReadRegisters { dword_offset, count, instance, flags });

/// The start of the answer to [`InfoQuery::DEV_INFO`] (`drm_amdgpu_info_device`): what a compute stack reads of it. The
/// driver's structure goes on with graphics; a client whose room ends earlier gets what fits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// PCI device id.
    pub device_id: u32,
    /// Revision of the chip.
    pub chip_rev: u32,
    /// Revision within the family; with the family it names the chip.
    pub external_rev: u32,
    /// Revision in PCI configuration space; with the device id it selects the marketing name.
    pub pci_rev: u32,
    /// Family of chips: [`DeviceInfo::FAMILY_AI`].
    pub family: u32,
    /// Shader engines.
    pub num_shader_engines: u32,
    /// Shader arrays of each.
    pub num_shader_arrays_per_engine: u32,
    /// Frequency of the GPU clock counter in kHz.
    pub gpu_counter_freq: u32,
    /// Highest engine clock in kHz.
    pub max_engine_clock: u64,
    /// Highest memory clock in kHz.
    pub max_memory_clock: u64,
    /// Compute units that work.
    pub cu_active_number: u32,
    /// Not to be used.
    pub cu_ao_mask: u32,
    /// Compute units that work, a mask for each engine and array.
    pub cu_bitmap: [[u32; 4]; 4],
}
plain!(DeviceInfo {
    device_id,
    chip_rev,
    external_rev,
    pci_rev,
    family,
    num_shader_engines,
    num_shader_arrays_per_engine,
    gpu_counter_freq,
    max_engine_clock,
    max_memory_clock,
    cu_active_number,
    cu_ao_mask,
    cu_bitmap
});

impl DeviceInfo {
    /// Family of the gfx9 chips (`AMDGPU_FAMILY_AI`).
    pub const FAMILY_AI: u32 = 141;
    /// Bytes of the driver's whole structure in Linux 6.12.
    pub const FULL_SIZE: usize = 440;
}

const _: () = assert!(VersionArgs::SIZE == VERSION.size as usize && ClientArgs::SIZE == GET_CLIENT.size as usize);
const _: () = assert!(InfoArgs::SIZE == AMDGPU_INFO.size as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_numbers_seen_in_traces() {
        assert_eq!(VERSION.request(), Request(0xC040_6400));
        assert_eq!(GET_CLIENT.request(), Request(0xC028_6405));
        assert_eq!(AMDGPU_INFO.request(), Request(0x4020_6445));
        assert_eq!(AMDGPU_GEM_MMAP.request(), Request(0xC008_6441));
    }

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(VersionArgs, 64, { name_len: 16, name: 24, date_len: 32, desc: 56 });
        layout!(ClientArgs, 40, { auth: 4, pid: 8, iocs: 32 });
        layout!(InfoArgs, 32, { return_size: 8, query: 12, detail: 16 });
        layout!(DeviceInfo, 120, { family: 16, max_engine_clock: 32, cu_active_number: 48, cu_bitmap: 56 });
    }
}

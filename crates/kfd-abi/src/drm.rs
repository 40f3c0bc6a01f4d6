//! What a compute process asks of the render node beside `/dev/kfd`.
//!
//! libdrm opens the device with `VERSION` and `GET_CLIENT` and a few `AMDGPU_INFO` queries; the runtime stops if that
//! fails. Memory that a program places itself, and memory of other processes, is mapped with the calls on buffers
//! (GEM, PRIME). Source: `include/uapi/drm/drm.h` and `include/uapi/drm/amdgpu_drm.h` of Linux 6.12. Other numbers
//! belong to graphics.

pub use crate::ioctl::Command;
use crate::ioctl::{Argument, Direction, Request};
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
/// Allocate a buffer.
pub const AMDGPU_GEM_CREATE: Command = command(COMMAND_BASE, Direction::ReadWrite, 32, "AMDGPU_GEM_CREATE");
/// Offset at which a buffer can be mapped.
pub const AMDGPU_GEM_MMAP: Command = command(COMMAND_BASE + 0x01, Direction::ReadWrite, 8, "AMDGPU_GEM_MMAP");
/// One of many questions about the device: [`InfoQuery`].
pub const AMDGPU_INFO: Command = command(COMMAND_BASE + 0x05, Direction::Write, 32, "AMDGPU_INFO");
/// What graphics drivers attach to a buffer.
pub const AMDGPU_GEM_METADATA: Command = command(COMMAND_BASE + 0x06, Direction::ReadWrite, 288, "AMDGPU_GEM_METADATA");
/// Wait until a buffer is not in use.
pub const AMDGPU_GEM_WAIT_IDLE: Command =
    command(COMMAND_BASE + 0x07, Direction::ReadWrite, 16, "AMDGPU_GEM_WAIT_IDLE");
/// Map a buffer into the address space of the render node.
pub const AMDGPU_GEM_VA: Command = command(COMMAND_BASE + 0x08, Direction::Write, 40, "AMDGPU_GEM_VA");

/// Ask how a buffer was allocated.
pub const AMDGPU_GEM_OP: Command = command(COMMAND_BASE + 0x10, Direction::ReadWrite, 16, "AMDGPU_GEM_OP");

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

/// Argument of [`GEM_CLOSE`] (`drm_gem_close`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GemCloseArgs {
    /// The buffer.
    pub handle: u32,
    /// Zero.
    pub pad: u32,
}
plain!(GemCloseArgs { handle, pad });

impl Argument for GemCloseArgs {
    const COMMAND: Command = GEM_CLOSE;
}

/// Argument of [`PRIME_HANDLE_TO_FD`] and [`PRIME_FD_TO_HANDLE`] (`drm_prime_handle`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrimeHandleArgs {
    /// The buffer; filled by [`PRIME_FD_TO_HANDLE`].
    pub handle: u32,
    /// Flags of the new descriptor: `O_CLOEXEC`, `O_RDWR`.
    pub flags: u32,
    /// The DMA buffer; filled by [`PRIME_HANDLE_TO_FD`].
    pub fd: i32,
}
plain!(PrimeHandleArgs { handle, flags, fd });

/// Argument of [`AMDGPU_GEM_CREATE`] (`drm_amdgpu_gem_create`); the handle is answered in the place of the size.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GemCreateArgs {
    /// Bytes; answered with the handle.
    pub bo_size: u64,
    /// Alignment in physical memory.
    pub alignment: u64,
    /// Where it may lie: [`GemDomains`].
    pub domains: u64,
    /// Properties: [`GemCreateFlags`].
    pub domain_flags: u64,
}
plain!(GemCreateArgs { bo_size, alignment, domains, domain_flags });

impl Argument for GemCreateArgs {
    const COMMAND: Command = AMDGPU_GEM_CREATE;
}

flags! {
    /// Kinds of memory (`AMDGPU_GEM_DOMAIN_*`).
    GemDomains: u64 {
        /// System memory that the GPU does not see.
        CPU = 0x1,
        /// System memory.
        GTT = 0x2,
        /// Video memory.
        VRAM = 0x4,
        /// Data shared by all waves.
        GDS = 0x8,
        /// Global wave sync.
        GWS = 0x10,
        /// Ordered append.
        OA = 0x20,
        /// Doorbells.
        DOORBELL = 0x40,
    }
}

flags! {
    /// Properties of a new buffer (`AMDGPU_GEM_CREATE_*`) that a program may ask for.
    GemCreateFlags: u64 {
        /// The host has to reach it.
        CPU_ACCESS_REQUIRED = 1 << 0,
        /// The host never maps it.
        NO_CPU_ACCESS = 1 << 1,
        /// The host writes past its caches.
        CPU_GTT_USWC = 1 << 2,
        /// It starts as zeros.
        VRAM_CLEARED = 1 << 3,
        /// It belongs to one address space.
        VM_ALWAYS_VALID = 1 << 6,
        /// Work is ordered by the program.
        EXPLICIT_SYNC = 1 << 7,
        /// It is encrypted.
        ENCRYPTED = 1 << 10,
        /// Its contents may be lost.
        DISCARDABLE = 1 << 12,
        /// It is compressed.
        GFX12_DCC = 1 << 16,
    }
}

/// Argument of [`AMDGPU_GEM_MMAP`] (`drm_amdgpu_gem_mmap`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GemMmapArgs {
    /// The buffer, in the lower half; answered with the offset at which the render node maps it.
    pub handle_or_offset: u64,
}
plain!(GemMmapArgs { handle_or_offset });

impl Argument for GemMmapArgs {
    const COMMAND: Command = AMDGPU_GEM_MMAP;
}

/// Argument of [`AMDGPU_GEM_METADATA`] (`drm_amdgpu_gem_metadata`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GemMetadataArgs {
    /// The buffer.
    pub handle: u32,
    /// Whether it is set (1) or asked for (2).
    pub op: u32,
    /// For the programs that share it.
    pub flags: u64,
    /// Layout of an image.
    pub tiling_info: u64,
    /// Bytes of data.
    pub data_size_bytes: u32,
    /// The data.
    pub data: [[u32; 16]; 4],
    /// Padding of the C structure.
    pub pad: u32,
}
plain!(GemMetadataArgs { handle, op, flags, tiling_info, data_size_bytes, data, pad });

impl Argument for GemMetadataArgs {
    const COMMAND: Command = AMDGPU_GEM_METADATA;
}

impl GemMetadataArgs {
    /// Attach data.
    pub const SET: u32 = 1;
    /// Ask for it.
    pub const GET: u32 = 2;
    /// Bytes of data that a buffer has room for.
    pub const DATA_BYTES: u32 = 256;
}

/// Argument of [`AMDGPU_GEM_WAIT_IDLE`] (`drm_amdgpu_gem_wait_idle`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GemWaitIdleArgs {
    /// The buffer; answered with whether it is still in use.
    pub handle: u32,
    /// Zero; answered with zero.
    pub flags: u32,
    /// When to give up, absolute, in nanoseconds; answered with zero.
    pub timeout: u64,
}
plain!(GemWaitIdleArgs { handle, flags, timeout });

impl Argument for GemWaitIdleArgs {
    const COMMAND: Command = AMDGPU_GEM_WAIT_IDLE;
}

numbers! {
    /// What [`AMDGPU_GEM_VA`] does.
    VaOperation: u32 {
        /// Map part of a buffer at free addresses.
        MAP = 1,
        /// Undo that.
        UNMAP = 2,
        /// Unmap whatever is in a range.
        CLEAR = 3,
        /// Map part of a buffer over whatever is there.
        REPLACE = 4,
    }
}

flags! {
    /// What the GPU may do with a mapping, and how.
    VaFlags: u32 {
        /// Page tables are changed later.
        DELAY_UPDATE = 1 << 0,
        /// Read.
        READABLE = 1 << 1,
        /// Write.
        WRITEABLE = 1 << 2,
        /// Execute.
        EXECUTABLE = 1 << 3,
        /// There is no memory behind it.
        PRT = 1 << 4,
        /// Kind of caching.
        MTYPE = 0xF << 5,
        /// The last cache is left out.
        NOALLOC = 1 << 9,
    }
}

/// Argument of [`AMDGPU_GEM_VA`] (`drm_amdgpu_gem_va`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GemVaArgs {
    /// The buffer.
    pub handle: u32,
    /// Zero.
    pub pad: u32,
    /// What to do.
    pub operation: VaOperation,
    /// What the GPU may do with it.
    pub flags: VaFlags,
    /// Address on the GPU.
    pub va_address: u64,
    /// First byte of the buffer.
    pub offset_in_bo: u64,
    /// Bytes.
    pub map_size: u64,
}
plain!(GemVaArgs { handle, pad, operation, flags, va_address, offset_in_bo, map_size });

impl Argument for GemVaArgs {
    const COMMAND: Command = AMDGPU_GEM_VA;
}

/// Argument of [`AMDGPU_GEM_OP`] (`drm_amdgpu_gem_op`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GemOpArgs {
    /// The buffer.
    pub handle: u32,
    /// What to do.
    pub op: u32,
    /// Where the answer goes, for [`GemOpArgs::GET_CREATE_INFO`].
    pub value: u64,
}
plain!(GemOpArgs { handle, op, value });

impl GemOpArgs {
    /// How it was allocated: a [`GemCreateArgs`].
    pub const GET_CREATE_INFO: u32 = 0;
}

impl Argument for GemOpArgs {
    const COMMAND: Command = AMDGPU_GEM_OP;
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
        assert_eq!(AMDGPU_GEM_CREATE.request(), Request(0xC020_6440));
        assert_eq!(AMDGPU_GEM_VA.request(), Request(0x4028_6448));
        assert_eq!(AMDGPU_GEM_OP.request(), Request(0xC010_6450));
        assert_eq!(PRIME_FD_TO_HANDLE.request(), Request(0xC00C_642E));
    }

    #[test]
    fn structures_are_laid_out_as_in_c() {
        layout!(VersionArgs, 64, { name_len: 16, name: 24, date_len: 32, desc: 56 });
        layout!(ClientArgs, 40, { auth: 4, pid: 8, iocs: 32 });
        layout!(GemCloseArgs, 8, { pad: 4 });
        layout!(PrimeHandleArgs, 12, { flags: 4, fd: 8 });
        layout!(GemCreateArgs, 32, { alignment: 8, domains: 16, domain_flags: 24 });
        layout!(GemMetadataArgs, 288, { flags: 8, tiling_info: 16, data_size_bytes: 24, data: 28 });
        layout!(GemWaitIdleArgs, 16, { flags: 4, timeout: 8 });
        layout!(GemVaArgs, 40, { operation: 8, flags: 12, va_address: 16, map_size: 32 });
        layout!(GemOpArgs, 16, { op: 4, value: 8 });
        layout!(InfoArgs, 32, { return_size: 8, query: 12, detail: 16 });
        layout!(DeviceInfo, 120, { family: 16, max_engine_clock: 32, cu_active_number: 48, cu_bitmap: 56 });
    }
}

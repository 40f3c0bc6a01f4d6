//! Calls on a render node: what libdrm asks when it opens a device, and what runtimes and tools ask through it. Those
//! on buffers are in [`gem`](super::gem); those by which graphics submits work are refused.

use kfd_abi::Abi;
use kfd_abi::drm::{self, ClientArgs, DeviceInfo, InfoArgs, InfoQuery, ReadRegisters, VersionArgs};

use super::call::encode;
use super::gem::Node;
use super::{Call, Driver, Effects, Errno, FdKind, ProcessKey};
use crate::profile::IpVersion;

/// Longest of the texts that `VERSION` answers.
pub(super) const MAX_VERSION_TEXT: u64 = 64;
/// Interface version of amdgpu in Linux 6.12.
const DRIVER_VERSION: (i32, i32, i32) = (3, 59, 0);
const DRIVER_NAME: &str = "amdgpu";
const DRIVER_DATE: &str = "20150101";
const DRIVER_DESCRIPTION: &str = "AMD GPU";

/// The only register libdrm reads of a gfx9 gpu: the address layout.
const GB_ADDR_CONFIG: u32 = 0x263E;
/// Registers one query may read.
const MAX_REGISTERS: u32 = 128;
/// Kinds of hardware blocks that a compute gpu has.
const IP_COMPUTE: u32 = 1;
const IP_DMA: u32 = 2;
/// Kinds of hardware blocks that the interface knows.
const IP_KINDS: u32 = 10;
/// Kinds of firmware.
const FW_MEC: u32 = 0x08;
const FW_SDMA: u32 = 0x0B;
const FW_KINDS: u32 = 0x1A;
const VRAM_TYPE_HBM: u32 = 6;

impl Driver {
    /// A call on a render node, which is [`Call::fd`].
    ///
    /// # Errors
    /// `EINVAL` for calls and questions that are not known, `EBADF` for callers that are not, `EFAULT` for registers
    /// that may not be read.
    pub fn drm_ioctl(&mut self, caller: ProcessKey, nr: u32, call: &mut Call) -> Result<i64, Errno> {
        call.effects = Effects::default();
        let Some(FdKind::Render { minor, file }) = call.fd else { return Err(Errno::EBADF) };
        let gpu = self.gpus.iter().position(|state| state.gpu.render_minor == minor).ok_or(Errno::EBADF)?;
        let node = Node { caller, gpu, file };
        let is = |command: drm::Command| nr == u32::from(command.nr);
        match () {
            () if is(drm::VERSION) => version(call),
            () if is(drm::GET_CLIENT) => get_client(caller, call),
            () if is(drm::AMDGPU_INFO) => self.info(gpu, call),
            () if is(drm::GEM_CLOSE) => self.run_drm(node, call, Driver::gem_close),
            () if is(drm::PRIME_HANDLE_TO_FD) => self.run_drm(node, call, Driver::prime_handle_to_fd),
            () if is(drm::PRIME_FD_TO_HANDLE) => self.run_drm(node, call, Driver::prime_fd_to_handle),
            () if is(drm::AMDGPU_GEM_CREATE) => self.run_drm(node, call, Driver::gem_create),
            () if is(drm::AMDGPU_GEM_MMAP) => self.run_drm(node, call, Driver::gem_mmap),
            () if is(drm::AMDGPU_GEM_METADATA) => self.run_drm(node, call, Driver::gem_metadata),
            () if is(drm::AMDGPU_GEM_WAIT_IDLE) => self.run_drm(node, call, Driver::gem_wait_idle),
            () if is(drm::AMDGPU_GEM_VA) => self.run_drm(node, call, Driver::gem_va),
            () if is(drm::AMDGPU_GEM_OP) => self.run_drm(node, call, Driver::gem_op),
            () => Err(Errno::EINVAL),
        }
    }

    fn info(&self, gpu: usize, call: &mut Call) -> Result<i64, Errno> {
        let args: InfoArgs = call.decode();
        if args.return_size == 0 || args.return_pointer == 0 {
            return Err(Errno::EINVAL);
        }
        let mut answer = self.info_answer(gpu, &args, call)?;
        answer.truncate(args.return_size as usize);
        call.answer(0, answer)?;
        Ok(0)
    }

    fn info_answer(&self, gpu: usize, args: &InfoArgs, call: &Call) -> Result<Vec<u8>, Errno> {
        let profile = &self.profile;
        let (vram, gtt) = (profile.vram_bytes(), profile.gtt_bytes());
        let (vram_used, gtt_used) = (self.gpus[gpu].vram_used, self.system_used);
        let [kind, _] = args.detail.get::<[u32; 2]>();
        Ok(match args.query {
            InfoQuery::ACCEL_WORKING => encode(&1_u32),
            InfoQuery::TIMESTAMP => encode(&profile.gpu_clock(call.clocks.monotonic_raw_ns)),
            InfoQuery::VRAM_USAGE | InfoQuery::VIS_VRAM_USAGE => encode(&vram_used),
            InfoQuery::GTT_USAGE => encode(&gtt_used),
            InfoQuery::VRAM_GTT => encode(&[vram, vram, gtt]),
            // For each heap: size, usable size, use, largest allocation. All video memory is visible to the host.
            InfoQuery::MEMORY => {
                let heap = |size: u64, used: u64| [size, size, used, size / 4 * 3];
                encode(&[heap(vram, vram_used), heap(vram, vram_used), heap(gtt, gtt_used)])
            }
            InfoQuery::FW_VERSION => match kind {
                FW_MEC => encode(&[profile.gfx.mec_firmware(), 0]),
                FW_SDMA => encode(&[profile.gfx.sdma_firmware(), 0]),
                1..FW_KINDS => encode(&[0_u32, 0]),
                _ => return Err(Errno::EINVAL),
            },
            InfoQuery::HW_IP_COUNT => match kind {
                IP_COMPUTE | IP_DMA => encode(&1_u32),
                ..IP_KINDS => encode(&0_u32),
                _ => return Err(Errno::EINVAL),
            },
            InfoQuery::HW_IP_INFO => match kind {
                IP_COMPUTE => ip_info(profile.gfx.gc(), profile.cp_queues),
                IP_DMA => ip_info(profile.gfx.sdma(), profile.sdma_engines),
                ..IP_KINDS => vec![0; 32],
                _ => return Err(Errno::EINVAL),
            },
            InfoQuery::READ_MMR_REG => {
                let registers: ReadRegisters = args.detail.get();
                if registers.count > MAX_REGISTERS {
                    return Err(Errno::EINVAL);
                }
                if registers.dword_offset != GB_ADDR_CONFIG || registers.count != 1 {
                    return Err(Errno::EFAULT);
                }
                encode(&profile.gfx.gb_addr_config())
            }
            InfoQuery::DEV_INFO => self.device_info(),
            _ => return Err(Errno::EINVAL),
        })
    }

    fn device_info(&self) -> Vec<u8> {
        let profile = &self.profile;
        let engines = profile.engines_per_xcc();
        let mut cu_bitmap = [[0; 4]; 4];
        // The structure has room for four engines; the driver shows those of the first XCC.
        for (here, arrays) in profile.engine_cus().zip(&mut cu_bitmap) {
            arrays[0] = u32::try_from((1_u64 << here.min(32)) - 1).unwrap_or(u32::MAX);
        }
        let mut bytes = encode(&DeviceInfo {
            device_id: profile.device_id,
            chip_rev: profile.gfx.chip_revision(),
            external_rev: profile.gfx.chip_revision() + profile.gfx.first_external_revision(),
            pci_rev: profile.revision_id,
            family: DeviceInfo::FAMILY_AI,
            num_shader_engines: engines,
            num_shader_arrays_per_engine: 1,
            gpu_counter_freq: profile.timestamp_mhz * 1000,
            max_engine_clock: u64::from(profile.max_engine_clock_mhz) * 1000,
            max_memory_clock: u64::from(profile.memory_clock_mhz) * 1000,
            cu_active_number: profile.cus,
            cu_ao_mask: 0,
            cu_bitmap,
        });
        bytes.resize(DeviceInfo::FULL_SIZE, 0);
        // What libdrm sets its address allocator up with, and what tools show.
        let longs = [(144, 0x20_0000), (152, 1 << 47)];
        let words = [(160, 4096), (164, 2 << 20), (168, 4096), (176, VRAM_TYPE_HBM), (180, profile.memory_bus_bits)];
        let wave_front_size = [(240, 64)];
        for (offset, value) in longs {
            put(&mut bytes, offset, &u64::to_le_bytes(value));
        }
        for (offset, value) in words.into_iter().chain(wave_front_size) {
            put(&mut bytes, offset, &u32::to_le_bytes(value));
        }
        bytes
    }
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    if let Some(room) = bytes.get_mut(offset..offset + value.len()) {
        room.copy_from_slice(value);
    }
}

/// `drm_amdgpu_info_hw_ip`: version, capabilities, alignments, rings, version once more in one number.
fn ip_info(version: IpVersion, rings: u32) -> Vec<u8> {
    let rings = if rings >= 32 { u32::MAX } else { (1 << rings) - 1 };
    let discovery = version.major << 16 | version.minor << 8 | version.revision;
    encode(&[version.major, version.minor, 0, 0, 32, 32, rings, discovery])
}

fn version(call: &mut Call) -> Result<i64, Errno> {
    let mut args: VersionArgs = call.decode();
    (args.version_major, args.version_minor, args.version_patchlevel) = DRIVER_VERSION;
    let texts = [
        (&mut args.name_len, DRIVER_NAME),
        (&mut args.date_len, DRIVER_DATE),
        (&mut args.desc_len, DRIVER_DESCRIPTION),
    ];
    for (buffer, (room, text)) in texts.into_iter().enumerate() {
        let len = text.len().min(usize::try_from(*room).unwrap_or(usize::MAX));
        call.answer(buffer, text.as_bytes()[..len].to_vec())?;
        *room = text.len() as u64;
    }
    put_args(call, &args)
}

fn get_client(caller: ProcessKey, call: &mut Call) -> Result<i64, Errno> {
    let mut args: ClientArgs = call.decode();
    // Only the caller itself can be asked about.
    if args.idx != 0 {
        return Err(Errno::EINVAL);
    }
    args = ClientArgs { auth: 1, pid: caller.pid.into(), ..ClientArgs::ZERO };
    put_args(call, &args)
}

/// Puts the structure back into as many bytes as the caller gave.
pub(super) fn put_args<T: Abi>(call: &mut Call, args: &T) -> Result<i64, Errno> {
    let bytes = encode(args);
    let len = call.args.len().min(bytes.len());
    call.args[..len].copy_from_slice(&bytes[..len]);
    Ok(0)
}

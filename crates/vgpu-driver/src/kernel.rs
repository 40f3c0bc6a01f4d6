//! The kernels whose driver is imitated, and where programs can see that they differ.
//!
//! A kernel is a record of [`Behaviours`]; the code asks for a behaviour and never for a kernel. What is not in the
//! record is the same in all of them, as far as it was read. `docs/virtual-gpu.md` lists differences that are not
//! imitated.
//!
//! Sources, unless a field names another: Linux 6.12.107, 6.12.115 and 7.2.13 as Debian has them, in
//! `drivers/gpu/drm/amd/amdkfd`, and ROCm/amdgpu (AMD's DKMS driver) at the commits 00a363e (header), 01732e4
//! (descriptors), 005da88 (types) and 22bd2ef (debugger). What was not read of the last is taken from 6.12.115.

use std::str::FromStr;

use kfd_abi::Abi;
use kfd_abi::debug::{DeviceSnapshotEntry, LaterDeviceSnapshotEntry};
use kfd_abi::ioctl::{self, Lookup};
use kfd_abi::sysfs::SysfsQueueType;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::DebugPermission;

/// A kernel whose driver is imitated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelProfile {
    /// Linux 6.12.107.
    #[serde(rename = "6.12.107")]
    Linux6_12_107,
    /// Linux 6.12.115 and later of that series.
    #[default]
    #[serde(rename = "6.12.115")]
    Linux6_12_115,
    /// Linux 7.2.
    #[serde(rename = "7.2")]
    Linux7_2,
    /// AMD's own driver, as its packages build it for distributions' kernels.
    #[serde(rename = "dkms")]
    Dkms,
}

/// Why a text names no kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected 6.12.107, 6.12.115, 7.2 or dkms")]
pub struct KernelError;

impl KernelProfile {
    /// All of them, the oldest first.
    pub const ALL: [KernelProfile; 4] =
        [KernelProfile::Linux6_12_107, KernelProfile::Linux6_12_115, KernelProfile::Linux7_2, KernelProfile::Dkms];

    /// Returns the name that `--kernel` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            KernelProfile::Linux6_12_107 => "6.12.107",
            KernelProfile::Linux6_12_115 => "6.12.115",
            KernelProfile::Linux7_2 => "7.2",
            KernelProfile::Dkms => "dkms",
        }
    }

    /// Returns what the imitation rests on.
    #[must_use]
    pub const fn evidence(self) -> &'static str {
        match self {
            KernelProfile::Linux6_12_115 => "run beside the real driver (6.12.117)",
            KernelProfile::Linux6_12_107 | KernelProfile::Linux7_2 | KernelProfile::Dkms => "read, not run",
        }
    }

    /// Returns how the driver of this kernel behaves.
    #[must_use]
    pub const fn behaviours(self) -> Behaviours {
        match self {
            KernelProfile::Linux6_12_107 => LINUX_6_12_107,
            KernelProfile::Linux6_12_115 => LINUX_6_12_115,
            KernelProfile::Linux7_2 => LINUX_7_2,
            KernelProfile::Dkms => DKMS,
        }
    }
}

impl FromStr for KernelProfile {
    type Err = KernelError;

    fn from_str(text: &str) -> Result<Self, KernelError> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == text).ok_or(KernelError)
    }
}

/// Command numbers that a dispatcher knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Commands {
    /// 0x01 to 0x26.
    #[serde(rename = "0x01-0x26")]
    To26,
    /// 0x01 to 0x28: CREATE_PROCESS and PROFILER came.
    #[serde(rename = "0x01-0x28")]
    To28,
    /// 0x01 to 0x26, and a second range of which only the profiler is imitated.
    #[serde(rename = "0x01-0x26, 0x80-0x87")]
    SecondRange,
}

/// Where the drivers of kernels differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Behaviours {
    /// Minor version of the interface: `KFD_IOCTL_MINOR_VERSION` in `include/uapi/linux/kfd_ioctl.h`.
    pub minor_version: u32,
    /// Command numbers that are no ENOTTY: `kfd_ioctl` in `kfd_chardev.c`.
    pub commands: Commands,
    /// Rings have metadata behind them, whose size is checked: `set_queue_properties_from_user` in `kfd_chardev.c`.
    pub metadata_ring: bool,
    /// The mapping of a ring that is smaller than a page has to be one page; else any will do:
    /// `kfd_queue_acquire_buffers` in `kfd_queue.c`.
    pub exact_small_ring: bool,
    /// Bytes that GET_DEVICE_SNAPSHOT has for a gpu: `kfd_dbg_device_info_entry`.
    pub device_entry_bytes: usize,
    /// A gpu's properties have the line `capability2`: `node_show` in `kfd_topology.c`.
    pub capability2: bool,
    /// `pasid` in sysfs and the header of `mqds` tell the number of the address space. Else the file is 0 and the
    /// header has the pid once more, in decimal: `kfd_procfs_show` and `kfd_debugfs_mqds_by_process` in
    /// `kfd_process.c`.
    pub shows_pasid: bool,
    /// `type` of a copy queue between gpus in sysfs: `kfd_queue_type` in `kfd_priv.h`.
    pub xgmi_queue_type: u32,
    /// A descriptor has the priority 0 to 15 beside the pipe class: `set_priority` in `kfd_mqd_manager_v9.c`.
    pub queue_priority_in_mqd: bool,
    /// A second DESTROY_QUEUE gets EBUSY while one waits, and a signal that ends the wait takes the mark off the queue.
    /// Else the second waits, too, and a queue whose destruction was interrupted can never be stopped again:
    /// `destroy_queue_cpsch` in `kfd_device_queue_manager.c`.
    pub destroys_once: bool,
    /// ENABLE that cannot write its answer is undone. Else the process counts as debugged: `kfd_dbg_trap_enable` in
    /// `kfd_debug.c`.
    pub undoes_failed_enable: bool,
    /// The queues of a process that ends are destroyed before its debug sessions end, not after:
    /// `kfd_process_notifier_release_internal` in `kfd_process.c`.
    pub queues_end_first: bool,
    /// Which calls about another process are allowed: `kfd_ioctl_set_debug_trap` in `kfd_chardev.c`.
    pub debug_permission: DebugPermission,
    /// While a process samples program counters, every debug call about it gets EBUSY, RESUME_QUEUES and DISABLE among
    /// them: `kfd_ioctl_set_debug_trap`.
    pub sampling_excludes_debugging: bool,
}

const LINUX_6_12_115: Behaviours = Behaviours {
    minor_version: 17,
    commands: Commands::To26,
    metadata_ring: false,
    exact_small_ring: false,
    device_entry_bytes: DeviceSnapshotEntry::SIZE,
    capability2: false,
    shows_pasid: true,
    xgmi_queue_type: SysfsQueueType::SDMA_XGMI.0,
    queue_priority_in_mqd: true,
    destroys_once: true,
    undoes_failed_enable: true,
    queues_end_first: false,
    debug_permission: DebugPermission::Current,
    sampling_excludes_debugging: false,
};

const LINUX_6_12_107: Behaviours = Behaviours { destroys_once: false, undoes_failed_enable: false, ..LINUX_6_12_115 };

const LINUX_7_2: Behaviours = Behaviours {
    minor_version: 23,
    commands: Commands::To28,
    metadata_ring: true,
    exact_small_ring: true,
    device_entry_bytes: LaterDeviceSnapshotEntry::SIZE,
    capability2: true,
    shows_pasid: false,
    xgmi_queue_type: SysfsQueueType::SDMA_XGMI_7_2.0,
    queue_priority_in_mqd: false,
    queues_end_first: true,
    ..LINUX_6_12_115
};

const DKMS: Behaviours = Behaviours {
    minor_version: 18,
    commands: Commands::SecondRange,
    shows_pasid: false,
    xgmi_queue_type: SysfsQueueType::SDMA_XGMI_7_2.0,
    debug_permission: DebugPermission::Original,
    sampling_excludes_debugging: true,
    ..LINUX_6_12_115
};

impl Behaviours {
    /// Finds a command by number, as the dispatcher does.
    pub(super) fn lookup(&self, nr: u32) -> Lookup {
        let Ok(nr) = u8::try_from(nr) else { return Lookup::Unknown };
        match self.commands {
            Commands::To28 if nr == ioctl::CREATE_PROCESS.nr => Lookup::Known(ioctl::CREATE_PROCESS),
            Commands::To28 if nr == ioctl::PROFILER.nr => Lookup::Known(ioctl::PROFILER),
            Commands::SecondRange if nr == ioctl::DKMS_PROFILER.nr => Lookup::Known(ioctl::DKMS_PROFILER),
            Commands::SecondRange if ioctl::DKMS_COMMANDS.contains(&nr) => Lookup::Hole,
            _ => ioctl::lookup(nr),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_kernels() {
        for kernel in KernelProfile::ALL {
            assert_eq!(kernel.name().parse(), Ok(kernel));
            assert_eq!(serde_json::to_value(kernel).unwrap(), kernel.name());
        }
        assert_eq!("6.12".parse::<KernelProfile>(), Err(KernelError));
        assert_eq!(KernelProfile::default().evidence(), "run beside the real driver (6.12.117)");
    }

    #[test]
    fn each_dispatcher_ends_where_its_kernel_does() {
        let first_unknown =
            |kernel: KernelProfile| (1..).find(|nr| kernel.behaviours().lookup(*nr) == Lookup::Unknown).unwrap();
        assert_eq!(KernelProfile::ALL.map(first_unknown), [0x27, 0x27, 0x29, 0x27]);
        let dkms = KernelProfile::Dkms.behaviours();
        assert_eq!([0x7F, 0x88, 0x186].map(|nr| dkms.lookup(nr)), [Lookup::Unknown; 3]);
        assert_eq!([0x80, 0x85, 0x87].map(|nr| dkms.lookup(nr)), [Lookup::Hole; 3]);
        assert_eq!(dkms.lookup(0x86), Lookup::Known(ioctl::DKMS_PROFILER));
    }
}

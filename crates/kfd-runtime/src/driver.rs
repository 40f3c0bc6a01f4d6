//! The commands of `/dev/kfd` that a compute process needs, each as a function.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

use kfd::KfdDevice;
use kfd_abi::debug::{RuntimeEnableArgs, RuntimeMode};
use kfd_abi::event::{
    CreateEventArgs, DestroyEventArgs, EventData, EventType, HwException, MemoryException, TIMEOUT_INFINITE,
    WaitEventsArgs, WaitResult,
};
use kfd_abi::ioctl::Argument;
use kfd_abi::memory::{
    AllocFlags, AllocMemoryArgs, DeviceApertures, FreeMemoryArgs, GetProcessAperturesNewArgs, MapMemoryArgs,
    UnmapMemoryArgs,
};
use kfd_abi::process::AcquireVmArgs;
use kfd_abi::queue::{CreateQueueArgs, DestroyQueueArgs};

use crate::error::{Error, Result};
use crate::memory::GpuAddr;

/// Remedy when the driver has no memory left.
const OUT_OF_MEMORY: &str = "free video or system memory, or look at what else uses the gpu (`rocm-smi --showpids`)";
/// Remedy when nothing more specific is known.
const SEE_LOG: &str = "the kernel's log may say why (`dmesg | grep -i kfd`)";

/// An open driver. One for each process: the driver knows processes, not descriptors.
#[derive(Debug)]
pub(crate) struct Driver {
    kfd: KfdDevice,
    enabled: bool,
}

impl Driver {
    /// Opens the driver, checks its version and offers this process to debuggers and schedulers. That offer has to come
    /// before the first queue.
    pub(crate) fn open() -> Result<Driver> {
        Driver { kfd: KfdDevice::open()?, enabled: false }.enable()
    }

    fn enable(mut self) -> Result<Driver> {
        // No list of loaded code is offered: debuggers that want symbols look for another runtime's.
        let mut args = RuntimeEnableArgs { mode_mask: RuntimeMode::ENABLE, ..RuntimeEnableArgs::default() };
        self.plain("RUNTIME_ENABLE", &mut args, "another runtime in this process already did, or has queues")?;
        self.enabled = true;
        Ok(self)
    }

    /// Returns the open device, for mappings.
    pub(crate) fn file(&self) -> &File {
        self.kfd.file()
    }

    /// Calls a command whose argument holds no address that the driver follows at once.
    fn plain<A: Argument>(&self, operation: &'static str, args: &mut A, advice: &'static str) -> Result<()> {
        // SAFETY: callers pass arguments without addresses, or with addresses that only the gpu will use.
        unsafe { self.kfd.call(args) }.map(drop).map_err(|source| Error::Call { operation, source, advice })
    }

    /// Binds the process to the address space of an open render node.
    pub(crate) fn acquire_vm(&self, gpu_id: u32, render: &File) -> Result<()> {
        let mut args = AcquireVmArgs { drm_fd: render.as_raw_fd().cast_unsigned(), gpu_id };
        self.plain("ACQUIRE_VM", &mut args, "another runtime of this process may hold the gpu")
    }

    /// Returns the apertures of up to `count` gpus.
    pub(crate) fn apertures(&self, count: usize) -> Result<Vec<DeviceApertures>> {
        let mut apertures = vec![DeviceApertures::default(); count];
        let mut args = GetProcessAperturesNewArgs {
            kfd_process_device_apertures_ptr: apertures.as_mut_ptr().expose_provenance() as u64,
            num_of_nodes: count.try_into().unwrap_or(u32::MAX),
            pad: 0,
        };
        // SAFETY: the address is that of `count` entries, which live until the call returns and take any bytes.
        let result = unsafe { self.kfd.call(&mut args) };
        let failed = |source| Error::Call { operation: "GET_PROCESS_APERTURES_NEW", source, advice: SEE_LOG };
        result.map_err(failed)?;
        apertures.truncate(args.num_of_nodes as usize);
        Ok(apertures)
    }

    /// Allocates a buffer at a given address. Returns its handle and the offset at which the host maps it.
    pub(crate) fn allocate(&self, gpu_id: u32, at: GpuAddr, size: u64, flags: AllocFlags) -> Result<(u64, u64)> {
        // Memory of the process lies at the same address on the gpu.
        let mmap_offset = if flags.has(AllocFlags::USERPTR) { at.0 } else { 0 };
        let mut args = AllocMemoryArgs { va_addr: at.0, size, handle: 0, mmap_offset, gpu_id, flags };
        self.plain("ALLOC_MEMORY_OF_GPU", &mut args, OUT_OF_MEMORY)?;
        Ok((args.handle, args.mmap_offset))
    }

    /// Frees a buffer.
    pub(crate) fn free(&self, handle: u64) -> Result<()> {
        self.plain("FREE_MEMORY_OF_GPU", &mut FreeMemoryArgs { handle }, SEE_LOG)
    }

    /// Makes a buffer visible to gpus.
    pub(crate) fn map(&self, handle: u64, gpu_ids: &[u32]) -> Result<()> {
        let mut args = MapMemoryArgs {
            handle,
            device_ids_array_ptr: gpu_ids.as_ptr().expose_provenance() as u64,
            n_devices: gpu_ids.len().try_into().unwrap_or(u32::MAX),
            n_success: 0,
        };
        // SAFETY: the address is that of `n_devices` ids, which the driver only reads.
        let result = unsafe { self.kfd.call(&mut args) };
        result.map(drop).map_err(|source| Error::Call { operation: "MAP_MEMORY_TO_GPU", source, advice: OUT_OF_MEMORY })
    }

    /// Takes a buffer from gpus.
    pub(crate) fn unmap(&self, handle: u64, gpu_ids: &[u32]) -> Result<()> {
        let mut args = UnmapMemoryArgs {
            handle,
            device_ids_array_ptr: gpu_ids.as_ptr().expose_provenance() as u64,
            n_devices: gpu_ids.len().try_into().unwrap_or(u32::MAX),
            n_success: 0,
        };
        // SAFETY: the address is that of `n_devices` ids, which the driver only reads.
        let result = unsafe { self.kfd.call(&mut args) };
        result.map(drop).map_err(|source| Error::Call { operation: "UNMAP_MEMORY_FROM_GPU", source, advice: SEE_LOG })
    }

    /// Creates an event. The first one of a process brings the handle of the event page. Returns id and slot.
    pub(crate) fn create_event(&self, kind: EventType, auto_reset: bool, page: u64) -> Result<(u32, u32)> {
        let mut args = CreateEventArgs {
            event_page_offset: page,
            event_type: kind,
            auto_reset: auto_reset.into(),
            ..CreateEventArgs::default()
        };
        self.plain("CREATE_EVENT", &mut args, "a process has 4096 events: this one may have used them up")?;
        Ok((args.event_id, args.event_slot_index))
    }

    /// Destroys an event.
    pub(crate) fn destroy_event(&self, event_id: u32) -> Result<()> {
        self.plain("DESTROY_EVENT", &mut DestroyEventArgs { event_id, pad: 0 }, SEE_LOG)
    }

    /// Sleeps until one of `events` happened or the time is up. Afterwards the entries of faults and resets say more.
    pub(crate) fn wait(&self, events: &mut [EventData], timeout: Duration) -> Result<()> {
        let mut args = WaitEventsArgs {
            events_ptr: events.as_mut_ptr().expose_provenance() as u64,
            num_events: events.len().try_into().unwrap_or(u32::MAX),
            wait_for_all: 0,
            // A started millisecond counts: rounding down would turn a short wait into a busy one.
            timeout: u32::try_from(timeout.as_micros().div_ceil(1000)).map_or(TIMEOUT_INFINITE - 1, |ms| ms),
            wait_result: WaitResult::COMPLETE,
        };
        // SAFETY: the address is that of `num_events` entries, which live until the call returns and take any bytes.
        let result = unsafe { self.kfd.call(&mut args) };
        result.map(drop).map_err(|source| Error::Call { operation: "WAIT_EVENTS", source, advice: SEE_LOG })
    }

    /// Creates a queue; `args` come back with its id and doorbell.
    pub(crate) fn create_queue(&self, args: &mut CreateQueueArgs) -> Result<()> {
        self.plain("CREATE_QUEUE", args, "there may be too many queues, or the save area does not fit this driver")
    }

    /// Destroys a queue.
    pub(crate) fn destroy_queue(&self, queue_id: u32) -> Result<()> {
        self.plain("DESTROY_QUEUE", &mut DestroyQueueArgs { queue_id, pad: 0 }, SEE_LOG)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.enabled {
            // The last queue is gone by now; a driver that refuses notices the end of the process instead.
            let _ = self.plain("RUNTIME_ENABLE", &mut RuntimeEnableArgs::default(), SEE_LOG);
        }
    }
}

/// Returns the memory fault that an entry of a finished wait reports.
pub(crate) fn memory_fault(entry: &EventData) -> Option<Error> {
    let exception: MemoryException = entry.data.get();
    let failure = exception.failure;
    let reason = if failure.read_only != 0 {
        "it is only readable"
    } else if failure.no_execute != 0 {
        "it is not executable"
    } else if failure.not_present != 0 {
        "nothing is mapped there"
    } else {
        "the access failed in hardware"
    };
    (exception.gpu_id != 0).then_some(Error::MemoryFault { address: GpuAddr(exception.va), reason })
}

/// Returns the reset that an entry of a finished wait reports.
pub(crate) fn reset(entry: &EventData) -> Option<Error> {
    let exception: HwException = entry.data.get();
    (exception.gpu_id != 0).then_some(Error::Reset { gpu_id: exception.gpu_id })
}

#[cfg(test)]
mod tests {
    use kfd_abi::Union;
    use kfd_abi::event::MemoryFailure;

    use super::*;

    #[test]
    fn a_fault_names_its_address_and_an_untouched_entry_is_none() {
        assert!(memory_fault(&EventData::default()).is_none() && reset(&EventData::default()).is_none());
        let failure = MemoryFailure { not_present: 1, read_only: 1, ..MemoryFailure::default() };
        let exception = MemoryException { failure, va: 0x7000, gpu_id: 5, ..MemoryException::default() };
        let entry = EventData { data: Union::of(&exception), ..EventData::default() };
        let said = memory_fault(&entry).unwrap().to_string();
        assert_eq!(said, "the gpu faulted at 0x7000: it is only readable");
    }
}

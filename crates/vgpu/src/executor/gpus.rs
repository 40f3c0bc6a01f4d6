//! The gpus of one process: a device for each, and the doorbells and numbers of its queues.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::faults;
use crate::client::Memory;
use crate::device::{self, Doorbell, ProcessDevice};
use crate::driver::{Backing, QueueChange, QueueKind, QueueSettings, QueueSpec, layout};
use crate::sys::Map;

/// One gpu of a process.
pub(crate) struct ProcessGpu {
    /// Number by which ioctls name it.
    pub(crate) gpu_id: u32,
    /// Its queues and everything they have under way.
    pub(crate) device: Arc<Mutex<ProcessDevice>>,
    /// Its doorbells, mapped when the first queue is made.
    doorbells: Mutex<Option<Map>>,
}

impl ProcessGpu {
    pub(crate) fn new(gpu_id: u32, device: ProcessDevice) -> Self {
        Self { gpu_id, device: Arc::new(Mutex::new(device)), doorbells: Mutex::new(None) }
    }

    /// Locks the device.
    ///
    /// # Errors
    /// EIO if an executor died while it held the lock.
    pub(crate) fn device(&self) -> Result<MutexGuard<'_, ProcessDevice>, i32> {
        faults::lock(&self.device).ok_or(libc::EIO)
    }
}

/// All gpus of a process.
pub(crate) struct ProcessGpus {
    list: Vec<ProcessGpu>,
    memory: Arc<Memory>,
    /// XCCs of each.
    xccs: u32,
    /// Index of the gpu of each queue.
    queues: Mutex<HashMap<u32, usize>>,
}

impl ProcessGpus {
    pub(crate) fn new(list: Vec<ProcessGpu>, memory: Arc<Memory>, xccs: u32) -> Self {
        Self { list, memory, xccs, queues: Mutex::default() }
    }

    /// Iterates over the gpus in the order of their index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ProcessGpu> {
        self.list.iter()
    }

    /// Returns a gpu by its index.
    ///
    /// # Errors
    /// EINVAL if there is none.
    pub(crate) fn get(&self, index: u32) -> Result<&ProcessGpu, i32> {
        self.list.get(index as usize).ok_or(libc::EINVAL)
    }

    fn of_queue(&self, id: u32) -> Result<&ProcessGpu, i32> {
        let queues = faults::lock(&self.queues).ok_or(libc::EIO)?;
        queues.get(&id).and_then(|gpu| self.list.get(*gpu)).ok_or(libc::EINVAL)
    }

    /// Runs `act` on the device of a queue.
    ///
    /// # Errors
    /// EINVAL if there is no such queue, EIO if an executor died.
    pub(crate) fn with_queue<T>(
        &self,
        id: u32,
        act: impl FnOnce(&mut ProcessDevice, device::QueueId) -> T,
    ) -> Result<T, i32> {
        Ok(act(&mut *self.of_queue(id)?.device()?, device::QueueId(id)))
    }

    /// Changes a queue, which is off the device.
    ///
    /// # Errors
    /// EINVAL if there is no such queue or gpu, ENOMEM, EIO if an executor died.
    pub(crate) fn change_queue(&self, change: &QueueChange) -> Result<(), i32> {
        match change {
            QueueChange::Create(spec) => self.create_queue(spec),
            QueueChange::Update { id, settings } => self.update_queue(*id, settings),
            QueueChange::Destroy { id } => self.destroy_queue(*id),
            QueueChange::SetCuMask { id, mask } => self.set_cu_mask(*id, mask),
            QueueChange::AllocateGws { id, count } => self.with_queue(*id, |device, _| device.allocate_gws(*count)),
        }
    }

    /// Adds a queue. It stays off the device until it is mapped.
    ///
    /// # Errors
    /// ENOMEM, or EINVAL if there is no such gpu.
    fn create_queue(&self, spec: &QueueSpec) -> Result<(), i32> {
        let gpu = self.get(spec.gpu)?;
        let doorbell = {
            let mut doorbells = gpu.doorbells.lock().unwrap_or_else(PoisonError::into_inner);
            if doorbells.is_none() {
                let backing = Backing::Doorbell { offset: layout::doorbells(spec.gpu) };
                *doorbells = Some(self.memory.view(backing, layout::DOORBELLS_SIZE)?);
            }
            let page = doorbells.as_ref().ok_or(libc::ENOMEM)?;
            let offset = spec.doorbell as usize * 8;
            if offset + 8 > page.length() {
                return Err(libc::EINVAL);
            }
            // SAFETY: the word lies in the page, which stays mapped as long as this process lives.
            unsafe { Doorbell::new(page.start().add(offset).cast()) }.numbered(spec.doorbell)
        };
        faults::lock(&self.queues).ok_or(libc::EIO)?.insert(spec.id, spec.gpu as usize);
        let id = device::QueueId(spec.id);
        let mut device = gpu.device()?;
        device.create_queue(device::HardwareQueueSpec {
            id,
            kind: match spec.kind {
                QueueKind::Aql => device::PacketFormat::Aql,
                QueueKind::Pm4 => device::PacketFormat::Pm4,
                QueueKind::Sdma { .. } => device::PacketFormat::Sdma,
            },
            ring: spec.settings.ring,
            ring_bytes: spec.settings.ring_size,
            read_pointer: spec.rptr,
            write_pointer: spec.wptr,
            doorbell: Some(doorbell),
            priority: spec.settings.priority,
            percent: ON,
            save_area: (spec.ctx_save != 0).then_some(device::SaveArea {
                address: spec.ctx_save,
                size: spec.ctx_save_size,
                control_stack: spec.ctl_stack_size,
                xccs: self.xccs,
            }),
        });
        device.suspend(id);
        Ok(())
    }

    /// Changes a queue that is off the device.
    ///
    /// # Errors
    /// EINVAL if there is none.
    fn update_queue(&self, id: u32, settings: &QueueSettings) -> Result<(), i32> {
        let QueueSettings { ring, ring_size: ring_bytes, priority, .. } = *settings;
        let update = device::HardwareQueueUpdate { ring, ring_bytes, priority, percent: ON };
        self.with_queue(id, |device, id| device.update_queue(id, &update)).map(drop)
    }

    /// Restricts a queue to some compute units.
    ///
    /// # Errors
    /// EINVAL if there is none.
    fn set_cu_mask(&self, id: u32, mask: &[u32]) -> Result<(), i32> {
        let mask = device::CuMask::of_dwords(mask);
        self.with_queue(id, |device, id| device.set_cu_mask(id, Some(mask))).map(drop)
    }

    /// Removes a queue.
    ///
    /// # Errors
    /// EINVAL if there is none.
    fn destroy_queue(&self, id: u32) -> Result<(), i32> {
        self.with_queue(id, ProcessDevice::destroy_queue)?;
        faults::lock(&self.queues).ok_or(libc::EIO)?.remove(&id);
        Ok(())
    }
}

/// Percentage of every queue: whether a queue runs is decided by whether it is mapped.
const ON: u32 = 100;

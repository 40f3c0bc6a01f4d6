//! Wave save and restore: the workgroups of a queue in the application's own save area.
//!
//! [`ProcessDevice::save`] writes everything the waves of a queue consist of into the area, in the layout of gfx9
//! ([`kfd_abi::save_area`], [`kfd_abi::control_stack`]), and gives their records back; [`ProcessDevice::restore`] makes
//! waves of what it finds there. The area belongs to the application: a debugger may have changed a register, which is
//! then what the wave continues with, and a list that no longer fits what was saved stops the queue.
//!
//! What the area cannot express stays in a [`Remains`]: which dispatch and which number of the grid a workgroup
//! is, which of its waves have ended, and the private memory. On hardware that is ordinary memory of the process, which
//! no save touches; here waves carry it along, and so does the record.

mod list;
mod plan;
mod registers;

use std::sync::Arc;

use kfd_abi::exception::ExceptionCode;
use kfd_abi::save_area::WaveLayout;
use vgpu_isa::inst::Target;
use vgpu_isa::memory::{Fault, Port};
use vgpu_isa::wave::{Scratch, status};

use super::errors::Halt;
use super::kernel::properties;
use super::kernel_launch::KernelLaunch;
use super::pool::Pool;
use super::process_device::ProcessDevice;
use super::queue::{HardwareQueue, QueueId};
use super::slots::{CuPlacement, MAX_WAVES};
use super::workgroup::{WaveProgress, Workgroup, WorkgroupWave};
use crate::driver::SaveExtent;
use crate::kill_points::{self, Point};
use plan::SavePlan;

/// A queue's context save area, as the driver was told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveArea {
    /// Address of the first XCC's part. The others follow.
    pub address: u64,
    /// Bytes of an XCC's part: header, control stack and waves.
    pub size: u32,
    /// Bytes of header and control stack.
    pub control_stack: u32,
    /// XCCs.
    pub xccs: u32,
}

impl SaveArea {
    /// Address of an XCC's part.
    #[must_use]
    pub fn part(&self, xcc: u32) -> u64 {
        self.address.wrapping_add(u64::from(self.size) * u64::from(xcc))
    }
}

/// Reasons for which waves were not saved or restored. All but the first two stop the queue with a preemption error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaveError {
    /// No queue has this number.
    #[error("there is no such queue")]
    NoQueue,
    /// The queue was not taken off the device, or workers still hold workgroups of it.
    #[error("workgroups of the queue are on the device")]
    OnDevice,
    /// The queue was created without an area.
    #[error("the queue has waves and no save area")]
    NoArea,
    /// The waves, or their list, are larger than the area.
    #[error("the waves do not fit into the save area")]
    TooSmall,
    /// The area, or a part of it, is not mapped.
    #[error("the save area cannot be accessed at {0:#x}")]
    Memory(u64),
    /// The list of waves in the area is not the one that was written.
    #[error("the control stack of XCC {xcc} is damaged: {what}")]
    Damaged {
        /// XCC of the part.
        xcc: u32,
        /// Description of the difference.
        what: &'static str,
    },
}

impl From<Fault> for SaveError {
    fn from(fault: Fault) -> Self {
        Self::Memory(fault.address)
    }
}

/// Totals of saving and restoring since the device was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaveCounters {
    /// Queues saved.
    pub saves: u64,
    /// Queues restored.
    pub restores: u64,
    /// Waves saved.
    pub waves: u64,
    /// Bytes saved.
    pub bytes: u64,
    /// Workgroups that found room again after they had been off the device.
    pub landed: u64,
    /// Those among them that run on another compute unit or on other SIMDs than before.
    pub moved: u64,
    /// Saves without an order of the driver (`ProcessDevice::preempt`).
    pub storms: u64,
}

impl SaveCounters {
    /// Adds two totals.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            saves: self.saves.saturating_add(other.saves),
            restores: self.restores.saturating_add(other.restores),
            waves: self.waves.saturating_add(other.waves),
            bytes: self.bytes.saturating_add(other.bytes),
            landed: self.landed.saturating_add(other.landed),
            moved: self.moved.saturating_add(other.moved),
            storms: self.storms.saturating_add(other.storms),
        }
    }
}

/// A queue's workgroups while their waves are in the save area: what is left of them for each XCC, in the order of its
/// list.
#[derive(Debug)]
pub(crate) struct SavedQueue {
    parts: Vec<Vec<Remains>>,
    extent: SaveExtent,
}

/// What is left of a workgroup whose waves are in the save area.
#[derive(Debug)]
struct Remains {
    dispatch: u64,
    launch: Arc<KernelLaunch>,
    id: [u32; 3],
    was: Option<CuPlacement>,
    /// Its position among the workgroups of its queue that wait for their turn, of all XCCs.
    position: usize,
    /// Waves of the workgroup, ended ones included.
    count: usize,
    /// Waves that have not ended: a bit for each.
    live: u16,
    /// Private memory of those, if the kernel has any.
    scratch: Vec<Scratch>,
    /// Room for the waves.
    members: Vec<WorkgroupWave>,
}

const _: () = assert!(MAX_WAVES <= u16::BITS as usize);

/// Returns the registers that the waves of a dispatch save.
fn layout(launch: &KernelLaunch) -> WaveLayout {
    /// The control stack cannot say more. They are all there is: what follows are trap temporaries.
    const MOST_SGPRS: u32 = 112;
    let (vgprs, architectural) = launch.kernel.vgprs();
    WaveLayout {
        arch_vgprs: architectural,
        acc_vgprs: vgprs - architectural,
        sgprs: launch.kernel.sgprs().min(MOST_SGPRS),
        lds_bytes: launch.lds,
    }
}

/// Returns the number of scalar registers at the end of the allocation that are VCC, and with six XNACK_MASK and
/// FLAT_SCRATCH. A kernel for gfx90a that does not ask for FLAT_SCRATCH may use all but VCC as it likes.
fn special_registers(launch: &KernelLaunch) -> usize {
    let ordinary = launch.target == Target::Gfx90a && !launch.kernel.has(properties::FLAT_SCRATCH_INIT);
    if ordinary { 2 } else { 6 }
}

impl ProcessDevice {
    /// Returns whether a queue is off the device: it may not run, and no worker holds a workgroup of it.
    pub fn is_off_device(&self, id: QueueId) -> bool {
        self.queues.get(&id).is_some_and(HardwareQueue::is_off_device)
    }

    /// Returns whether the waves of a queue are in its save area.
    pub(crate) fn is_saved(&self, id: QueueId) -> bool {
        self.queues.get(&id).is_some_and(|queue| queue.saved.is_some())
    }

    /// Returns the totals of saving and restoring.
    pub fn save_counters(&self) -> SaveCounters {
        self.counters
    }

    /// Writes the waves of a queue that is off the device to its save area and gives their records back. The queue
    /// stays off the device until [`ProcessDevice::restore`], and its read index is that of a saved queue. What is
    /// saved already stays as it is.
    ///
    /// # Errors
    /// See [`SaveError`].
    pub fn save(&mut self, id: QueueId) -> Result<SaveExtent, SaveError> {
        let queue = self.queues.get(&id).ok_or(SaveError::NoQueue)?;
        if !queue.is_off_device() {
            return Err(SaveError::OnDevice);
        }
        self.with_queue(id, HardwareQueue::rewind);
        let queue = self.queues.get_mut(&id).ok_or(SaveError::NoQueue)?;
        if let Some(saved) = &queue.saved {
            return Ok(saved.extent);
        }
        queue.parked.iter_mut().for_each(Workgroup::leave_gws);
        let mut memory = Port::new(&self.space);
        let planned = SavePlan::new(queue.spec.save_area, &queue.parked);
        let plan = match planned.and_then(|plan| plan.write(&mut memory, &queue.parked).map(|()| plan)) {
            Ok(plan) => plan,
            Err(error) => return Err(self.fail(id, error)),
        };
        let extent = plan.extent();
        if extent.waves > 0 {
            kill_points::hit(Point::Save);
        }
        let mut groups: Vec<_> = std::mem::take(&mut queue.parked).into_iter().map(Some).collect();
        let pool = &mut self.pool;
        let mut leave = |order: &Vec<usize>| -> Vec<Remains> {
            order.iter().filter_map(|&index| Some(dissolve(groups.get_mut(index)?.take()?, index, pool))).collect()
        };
        queue.saved = Some(SavedQueue { parts: plan.orders().map(&mut leave).collect(), extent });
        self.counters.saves += u64::from(extent.waves > 0);
        self.counters.waves += u64::from(extent.waves);
        self.counters.bytes += extent.bytes;
        Ok(extent)
    }

    /// Makes waves of what is in the save area, if the queue was saved, and brings the queue back to the device.
    ///
    /// # Errors
    /// See [`SaveError`].
    pub fn restore(&mut self, id: QueueId) -> Result<(), SaveError> {
        let queue = self.queues.get_mut(&id).ok_or(SaveError::NoQueue)?;
        queue.suspended = false;
        if let Some(saved) = queue.saved.take() {
            let waves = saved.extent.waves;
            let mut memory = Port::new(&self.space);
            match assemble(&mut memory, queue, saved, &mut self.pool) {
                Ok(groups) => queue.parked.extend(groups),
                Err(error) => return Err(self.fail(id, error)),
            }
            self.counters.restores += u64::from(waves > 0);
        }
        self.with_queue(id, HardwareQueue::catch_up);
        self.settle(id);
        Ok(())
    }

    /// Stops a queue whose waves cannot be saved or restored.
    fn fail(&mut self, id: QueueId, error: SaveError) -> SaveError {
        self.halt(id, Halt::error(ExceptionCode::QUEUE_PREEMPTION_ERROR, error.to_string()));
        error
    }
}

/// Overwrites what was saved of a workgroup and gives its records back.
fn dissolve(group: Workgroup, position: usize, pool: &mut Pool) -> Remains {
    let Workgroup { dispatch, launch, id, waves: mut members, mut lds, was, .. } = group;
    let layout = layout(&launch);
    let (count, mut live, mut scratch) = (members.len(), 0, Vec::new());
    for (index, WorkgroupWave { mut wave, state }) in members.drain(..).enumerate() {
        if state != WaveProgress::Ended {
            live |= 1 << (index % MAX_WAVES);
            if launch.scratch > 0 {
                scratch.push(std::mem::take(&mut wave.scratch));
            }
        }
        registers::poison(&mut wave, &layout);
        pool.give_wave(wave);
    }
    lds.fill(registers::POISON as u8);
    pool.give_lds(lds);
    Remains { dispatch, launch, id, was, position, count, live, scratch, members }
}

/// Returns the workgroups of a save area, in the order in which they waited for their turn: if those of one XCC always
/// came first, the others would starve when saves are frequent.
fn assemble(
    memory: &mut Port<'_>,
    queue: &HardwareQueue,
    saved: SavedQueue,
    pool: &mut Pool,
) -> Result<Vec<Workgroup>, SaveError> {
    let mut groups = Vec::new();
    for (xcc, part) in (0..).zip(saved.parts).filter(|(_, part)| !part.is_empty()) {
        let area = queue.spec.save_area.ok_or(SaveError::NoArea)?;
        let mut places = list::read(memory, &area, xcc, &part)?.into_iter();
        for remains in part {
            kill_points::hit(Point::Restore);
            let position = remains.position;
            groups.push((position, assemble_group(memory, queue, remains, &mut places, pool)?));
        }
    }
    groups.sort_unstable_by_key(|(position, _)| *position);
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

/// Returns the next workgroup of a list; `places` are the addresses of its waves.
fn assemble_group(
    memory: &mut Port<'_>,
    queue: &HardwareQueue,
    remains: Remains,
    places: &mut impl Iterator<Item = u64>,
    pool: &mut Pool,
) -> Result<Workgroup, SaveError> {
    let Remains { dispatch, launch, id, was, count, live, scratch, mut members, .. } = remains;
    let layout = layout(&launch);
    let special = special_registers(&launch);
    let mut lds = pool.lds(launch.lds);
    let mut lds_unread = true;
    let mut scratch = scratch.into_iter();
    for index in 0..count {
        let mut wave = pool.wave(0);
        launch.allocate(&mut wave, index as u32);
        let mut state = WaveProgress::Ended;
        if live >> (index % MAX_WAVES) & 1 != 0 {
            let Some(at) = places.next() else { break };
            registers::read(memory, at, &mut wave, &layout, special)?;
            if std::mem::take(&mut lds_unread) {
                memory.read(at.wrapping_add(u64::from(layout.lds())), &mut lds)?;
            }
            wave.scratch = scratch.next().unwrap_or_default();
            state = if wave.status & status::IN_BARRIER == 0 { WaveProgress::Running } else { WaveProgress::AtBarrier };
        }
        members.push(WorkgroupWave { wave, state });
    }
    let (gws, queue_serial, queue) = (Arc::clone(&queue.gws), queue.serial, queue.spec.id);
    Ok(Workgroup { queue, queue_serial, dispatch, launch, id, waves: members, lds, place: None, was, gws })
}

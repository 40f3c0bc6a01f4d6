//! A process that has opened the gpu: its memory, its events, its executors.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kfd_abi::event::EVENT_PAGE_SIZE;
use kfd_abi::exception::ExceptionCode;
use vgpu_isa::memory::{Access, Fault, Space};

use super::events::Events;
use super::files::{KFD, RENDER};
use super::memory::{Memory, wait_until_unused};
use super::session::Session;
use crate::control::Control;
use crate::device::chip::{Chip, ChipSlots, ProcessSlot};
use crate::device::{self, DeviceConfig, Interrupts, ProcessDevice, TrapHandler};
use crate::driver::{Interrupt, ProcessEffect, ProcessKey, VmFault, layout};
use crate::executor::{self, ProcessGpus};
use crate::kill_points::{self, Point};
use crate::profile::{Gfx, Gpu};
use crate::protocol::{FILE_PREFIX, Reply, SupervisorRequest, Welcome};
use crate::sys::{self, Map};

/// The open gpus of this process.
pub(super) struct Attached {
    memory: Arc<Memory>,
    pub(super) events: Arc<Events>,
    gpus: Arc<ProcessGpus>,
    pub(super) control: Arc<Control>,
    /// The supervisor's key of this process.
    pub(super) process: ProcessKey,
    /// Ids of the gpus, in their order.
    gpu_ids: Vec<u32>,
}

impl Attached {
    pub(super) fn new(session: &'static Session) -> Result<Self, i32> {
        let failed = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::ENOMEM);
        let file = |path: &str, size: u64| {
            sys::memfd(&format!("{FILE_PREFIX}{path}"), size).and_then(sys::dup_above).map_err(failed)
        };
        let kfd = file(KFD, layout::kfd_file_size())?;
        let render = file(RENDER, layout::BUFFERS_END)?;
        let (control, control_file) = Control::new().map_err(failed)?;
        let (reply, files) = session
            .ask_for_files(&SupervisorRequest::Attach, &[kfd.as_fd(), control_file.as_fd()])
            .ok_or(libc::ENODEV)?;
        let Reply::Attached(welcome) = reply else { return Err(libc::ENODEV) };
        let Welcome { profile, options, slot, process } = *welcome;
        let chip = Chip::open(files.first().ok_or(libc::ENODEV)?.as_fd()).map_err(failed)?;
        let (chip, slot) = (Arc::new(chip), ProcessSlot::new(slot).ok_or(libc::ENODEV)?);
        if let Some(page) = &options.points {
            kill_points::set_client(session.pid.cast_unsigned());
            kill_points::use_page(page);
        }
        kill_points::hit(Point::Attach);
        let events = Arc::new(Events::default());
        let control = Arc::new(control);
        let target = match profile.gfx {
            Gfx::Gfx90a => vgpu_isa::inst::Target::Gfx90a,
            Gfx::Gfx942 => vgpu_isa::inst::Target::Gfx942,
        };
        let config = DeviceConfig { target, clock: sys::realtime_100mhz, read_index: profile.read_index };
        let gpu = |gpu: Gpu| {
            let (events, control) = (Arc::clone(&events), Arc::clone(&control));
            let interrupts = Arc::new(Wires { events, control, gpu: gpu.index, gpu_id: gpu.gpu_id });
            let slots = ChipSlots::new(Arc::clone(&chip), slot, gpu.index).ok_or(libc::ENODEV)?;
            Ok(executor::ProcessGpu::new(gpu.gpu_id, ProcessDevice::new(config, interrupts, Arc::new(slots))))
        };
        let list = profile.gpu_list();
        let gpu_ids = list.iter().map(|gpu| gpu.gpu_id).collect();
        let memory = Arc::new(Memory::new(kfd, render, list.len()));
        let gpus = Arc::new(ProcessGpus::new(
            list.into_iter().map(gpu).collect::<Result<_, i32>>()?,
            Arc::clone(&memory),
            profile.xcc,
        ));
        let shared = executor::ExecutorState {
            gpus: Arc::clone(&gpus),
            config,
            control: Arc::clone(&control),
            events: Arc::clone(&events),
            connection: session.connection(),
            chip,
            process_slot: slot,
            storm: options.storm,
            client: session.pid,
            order_queue: executor::OrderQueue::default(),
            lost: AtomicBool::new(false),
        };
        executor::start(&Arc::new(shared))?;
        Ok(Self { memory, events, gpus, control, process, gpu_ids })
    }

    /// The file behind this process's `/dev/kfd`.
    ///
    /// # Errors
    /// If the program has closed it.
    pub(super) fn kfd(&self) -> Result<BorrowedFd<'_>, i32> {
        self.memory.kfd().map(AsFd::as_fd)
    }

    /// Returns the file and the offset in it that an offset of `/dev/kfd` leads to.
    ///
    /// # Errors
    /// As the driver answers.
    pub(super) fn part_of_kfd(&self, offset: u64, size: u64) -> Result<(OwnedFd, u64), i32> {
        let size = size.next_multiple_of(4096);
        let at = layout::kfd_offset(offset, size, &self.gpu_ids).map_err(|errno| errno.0)?;
        Ok((self.open_kfd()?, at))
    }

    /// Another descriptor of `/dev/kfd`.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn open_kfd(&self) -> Result<OwnedFd, i32> {
        self.memory.kfd()?.try_clone().map_err(|error| error.raw_os_error().unwrap_or(libc::EMFILE))
    }

    /// A descriptor of `/dev/kfd`: an opening of its own, told by the file position.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn open_kfd_anew(&self) -> Result<OwnedFd, i32> {
        opened_anew(self.memory.kfd()?.as_fd(), 0)
    }

    /// Another descriptor of the file of buffers.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn buffers(&self) -> Result<OwnedFd, i32> {
        self.memory.render()?.try_clone().map_err(|error| error.raw_os_error().unwrap_or(libc::EMFILE))
    }

    /// Returns the file and the offset in it that an offset of a render node leads to, if that is the file of another
    /// process.
    pub(super) fn window(&self, offset: u64, size: u64) -> Option<(OwnedFd, u64)> {
        self.memory.window(offset, size)
    }

    /// A descriptor of a render node: an opening of its own, told by the file position.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn open_render(&self, minor: u32) -> Result<OwnedFd, i32> {
        opened_anew(self.memory.render()?.as_fd(), minor)
    }

    /// Applies the effects of a call to this process. `args` is the argument structure, for the effects that answer in
    /// it; `file` came with the answer.
    ///
    /// # Errors
    /// ENOMEM and the like, if this process cannot. The other effects are applied all the same.
    pub(super) fn apply(
        &self,
        effects: Vec<ProcessEffect>,
        args: &mut [u8],
        mut file: Option<OwnedFd>,
    ) -> Result<(), i32> {
        let apply = |effect| self.apply_one(effect, args, &mut file);
        effects.into_iter().map(apply).fold(Ok(()), Result::and)
    }

    fn apply_one(&self, effect: ProcessEffect, args: &mut [u8], file: &mut Option<OwnedFd>) -> Result<(), i32> {
        match effect {
            ProcessEffect::MapMemory { gpu, va, size, backing, flags, .. } => {
                let space = self.memory.map(gpu as usize, va, size, backing, flags)?;
                self.use_space(gpu, space)?;
            }
            ProcessEffect::UnmapMemory { gpu, va, size, .. } => return self.unmap(gpu, va, size),
            ProcessEffect::FreeMemory { backing, size, .. } => self.memory.free(backing, size),
            ProcessEffect::SvmAccess { gpu, va, size, access: true, writable, executable } => {
                let space = self.memory.map_own(gpu as usize, va, size, writable, executable);
                self.use_space(gpu, space)?;
            }
            ProcessEffect::SvmAccess { gpu, va, size, access: false, .. } => return self.unmap(gpu, va, size),
            ProcessEffect::EventPage { backing, size } => self.events.set_page(self.memory.view(backing, size)?),
            ProcessEffect::CreateEvent { id, kind, auto_reset, slot } => {
                self.create_event(id, kind, auto_reset, slot)?;
            }
            ProcessEffect::DestroyEvent { id } => self.events.destroy(id),
            ProcessEffect::SetEvent { id } => self.events.set(id),
            ProcessEffect::ResetEvent { id } => self.events.reset(id),
            ProcessEffect::ForgetMemory { backing, size } => self.memory.forget(backing, size),
            ProcessEffect::ImportMemory { backing, from, size } => {
                self.memory.import(backing, size, from, file.take().ok_or(libc::ENODEV)?)?;
            }
            ProcessEffect::ExportDmabuf { fd_flags, argument, .. } => {
                return export(file.take().ok_or(libc::ENODEV)?, fd_flags, argument, args);
            }
            // Where a program's own scratch memory lies does not matter here: the command processor owns scratch. No
            // page fault is ever retried.
            ProcessEffect::SetScratchBacking { .. } | ProcessEffect::XnackMode { .. } => {}
            ProcessEffect::SetTrapHandler { gpu, tba, tma } => {
                let handler = (tba != 0).then_some(TrapHandler { code: tba, memory: tma });
                self.gpus.get(gpu)?.device()?.set_trap_handler(handler);
            }
            ProcessEffect::RuntimeMode { enabled, .. } => {
                for gpu in self.gpus.iter() {
                    gpu.device()?.set_runtime_enabled(enabled);
                }
            }
        }
        Ok(())
    }

    fn create_event(
        &self,
        id: u32,
        kind: kfd_abi::event::EventType,
        auto_reset: bool,
        slot: Option<u32>,
    ) -> Result<(), i32> {
        if slot.is_some() && !self.events.has_page() {
            // A process that brings no event page gets the driver's, which /dev/kfd maps.
            let page = Map::new(self.memory.kfd()?.as_fd(), layout::EVENT_PAGE, EVENT_PAGE_SIZE as usize);
            self.events.set_page(page.map_err(|_| libc::ENOMEM)?);
        }
        self.events.create(id, kind, auto_reset, slot);
        Ok(())
    }

    fn use_space(&self, gpu: u32, space: Arc<Space>) -> Result<(), i32> {
        self.gpus.get(gpu)?.device()?.set_space(space);
        Ok(())
    }

    fn unmap(&self, gpu: u32, va: u64, size: u64) -> Result<(), i32> {
        let (space, old) = self.memory.unmap(gpu as usize, va, size);
        self.use_space(gpu, space)?;
        wait_until_unused(&old);
        Ok(())
    }
}

/// Opens the file of a device again, with a position of its own.
fn opened_anew(file: BorrowedFd<'_>, minor: u32) -> Result<OwnedFd, i32> {
    let file = sys::reopen(file).map_err(|error| error.raw_os_error().unwrap_or(libc::EMFILE))?;
    // SAFETY: moves the position of a descriptor of ours.
    unsafe { libc::lseek(file.as_raw_fd(), super::files::next_opening(minor), libc::SEEK_SET) };
    Ok(file)
}

/// Gives the program a descriptor that stands for a buffer.
fn export(file: OwnedFd, fd_flags: u32, argument: usize, args: &mut [u8]) -> Result<(), i32> {
    if fd_flags & libc::O_CLOEXEC as u32 == 0 {
        // SAFETY: a system call on a descriptor of ours.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
    }
    let room = args.get_mut(argument..argument + 4).ok_or(libc::EFAULT)?;
    room.copy_from_slice(&file.into_raw_fd().to_le_bytes());
    Ok(())
}

/// Interrupts of the device: signals go to the events of this process, errors to the driver.
struct Wires {
    events: Arc<Events>,
    control: Arc<Control>,
    /// Index of the gpu.
    gpu: u32,
    gpu_id: u32,
}

impl Interrupts for Wires {
    fn event(&self, event: u32) {
        self.events.interrupt(event);
    }

    fn mailbox(&self, _address: u64, _value: u64) {
        self.events.interrupt(0);
    }

    fn trap_message(&self, payload: u32) {
        self.control.interrupt(&Interrupt::TrapMessage { gpu: self.gpu, payload });
    }

    fn wave_stopped(&self, queue: device::QueueId, text: &str) {
        say(&format!("a wave of queue {} has trapped: {text}", queue.0));
    }

    fn fault(&self, _queue: device::QueueId, fault: Fault) {
        say(&format!("memory access fault at {:#x} on gpu {}: {fault:?}", fault.address, self.gpu_id));
        let fault = VmFault {
            // The hardware reports pages.
            va: fault.address & !0xFFF,
            not_present: !fault.mapped,
            read_only: fault.mapped && fault.access == Access::Write,
            no_execute: fault.mapped && fault.access == Access::Execute,
        };
        self.control.interrupt(&Interrupt::VmFault { gpu: self.gpu, fault });
    }

    fn queue_error(&self, queue: device::QueueId, code: ExceptionCode, text: &str) {
        say(&format!("queue {} stopped: {text} ({code:?})", queue.0));
        self.control.interrupt(&Interrupt::QueueError { queue: queue.0, exception: code.0 });
    }
}

/// Logs what the kernel log would hold. Standard error is the program's, but it has to learn why its queue stopped.
fn say(text: &str) {
    // It may be closed or full, which is no reason to fail.
    let _ = writeln!(std::io::stderr(), "vgpu: {text}");
}

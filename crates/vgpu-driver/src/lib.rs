//! The driver behind `/dev/kfd` and the render nodes, as a state machine in memory.
//!
//! [`Driver`] takes calls as bytes, checks them in the order and with the errors of a [kernel](KernelProfile), keeps
//! the driver's books, fills the answers, and lists what is to be done outside of it as [`Effects`]. Its owner brings
//! the caller's memory along in a [`Call`], executes the device effects, completes the call with their [`Outcome`], and
//! carries the answer back; vgpu's supervisor is that owner.
//!
//! No function here makes a system call, starts a thread or touches memory of the caller, except that
//! [`Profile::load`](profile::Profile::load) reads the file it is given. Everything that depends on time, on processes
//! or on the device is an argument, so every state can be reached in a test.
//!
//! Processes are independent of each other except for what they share on real hardware too, video memory, system
//! memory for gpus, the slots of queues, and buffers that one passes to the other, and except that one may debug the
//! other.
#![forbid(unsafe_code)]

mod buffers;
mod call;
mod complete;
mod context;
mod criu;
mod debug;
mod debugfs;
mod dmabuf;
mod drm;
mod effects;
mod errno;
mod events;
mod gem;
mod gem_va;
mod gws;
mod hardware;
mod ids;
mod info;
mod interrupts;
mod kernel;
pub mod layout;
mod memory;
mod mqd;
mod mutant;
mod observed;
mod own_queue;
mod proc;
mod process;
pub mod profile;
mod profiler;
mod queue_spec;
mod queues;
mod runlist;
mod smi;
mod snapshot;
mod svm;
pub mod sysfs;

use std::collections::BTreeMap;

use kfd_abi::ioctl::{self, Argument, Command, Direction, Lookup};

pub use call::{Blocked, BufferDirection, BufferSpec, Call, Clocks, FdKind, MAX_ARGS, buffers, drm_buffers};
pub use complete::Outcome;
pub use debug::{DebugPermission, WaveControl};
pub use effects::{Backing, Cause, DeviceEffect, Effects, EventWait, FollowUp, ProcessEffect, ShareEffect};
pub use errno::Errno;
pub use hardware::{Connected, SaveExtent, Span, UnmappedQueue};
use ids::Ids;
pub use interrupts::{Interrupt, VmFault};
pub use kernel::{Behaviours, Commands, KernelError, KernelProfile};
pub use mutant::Mutant;
pub use observed::{Observed, Unobserved};
use process::Process;
pub use process::ProcessKey;
use profile::{Gpu, Profile};
pub use queue_spec::{QueueChange, QueueKind, QueueSettings, QueueSpec};
pub use runlist::{HqdPlacement, HqdSlot, Mapped, MappedQueue, Runlist};
pub use snapshot::{DriverSnapshot, GpuSnapshot, ProcessSnapshot, QueueKindStatus, QueueSnapshot, QueueState};
use sysfs::{Host, Tree};

/// A gpu of the machine: what all processes share of it.
#[derive(Debug)]
struct GpuState {
    gpu: Gpu,
    vram_used: u64,
    /// Video memory in use with every buffer rounded up to the unit in which free memory is reported.
    vram_reserved: u64,
    /// Queues of all processes.
    queues: u32,
    sdma: queues::SdmaSlots,
    descriptors: hardware::Descriptors,
    own_queue: own_queue::OwnQueue,
}

/// The state of the driver for all processes of the machine.
#[derive(Debug)]
pub struct Driver {
    profile: Profile,
    tree: Tree,
    gpus: Vec<GpuState>,
    /// System memory in use by the gpus, of all processes.
    system_used: u64,
    /// Buffers of all processes.
    buffers: BTreeMap<u64, buffers::Buffer>,
    next_buffer: u64,
    /// Buffers by the tokens of their DMA buffers.
    dmabufs: BTreeMap<u64, u64>,
    next_dmabuf: u64,
    processes: BTreeMap<ProcessKey, Process>,
    /// Contexts beside the first of their process, by process and opening of the driver.
    contexts: BTreeMap<(ProcessKey, u64), ProcessKey>,
    pasids: Ids,
    kernel: Behaviours,
    /// How long a process counts as one that samples program counters after a stop of its queues: an injected fault.
    sampling_after_stop_ns: u64,
    /// What is broken on purpose.
    mutant: Option<Mutant>,
    /// Number of the newest queue of the machine.
    queue_serial: u64,
}

/// First number of an address space; the driver's numbers are 16 bits wide and start above those of the hardware's own.
const FIRST_PASID: u32 = 0x8000;
const LAST_PASID: u32 = 0xFFFF;

impl Driver {
    /// Creates the driver of a machine with this profile, as the default kernel has it.
    #[must_use]
    pub fn new(profile: Profile) -> Driver {
        Driver::of(profile, KernelProfile::default())
    }

    /// Creates the driver of a machine with this profile, as a kernel has it.
    #[must_use]
    pub fn of(profile: Profile, kernel: KernelProfile) -> Driver {
        let kernel = kernel.behaviours();
        let gpus = profile
            .gpu_list()
            .into_iter()
            .map(|gpu| GpuState {
                gpu,
                vram_used: 0,
                vram_reserved: 0,
                queues: 0,
                sdma: queues::SdmaSlots::new(&profile),
                descriptors: hardware::Descriptors::new(&profile),
                own_queue: own_queue::OwnQueue::default(),
            })
            .collect();
        Driver {
            tree: Tree::of(&profile, Host::default(), &kernel),
            gpus,
            system_used: 0,
            buffers: BTreeMap::new(),
            next_buffer: 1,
            dmabufs: BTreeMap::new(),
            next_dmabuf: 1,
            processes: BTreeMap::new(),
            contexts: BTreeMap::new(),
            pasids: Ids::new(FIRST_PASID..LAST_PASID),
            kernel,
            sampling_after_stop_ns: 0,
            mutant: None,
            queue_serial: 0,
            profile,
        }
    }

    /// Makes every process sample program counters for a while after its queues were stopped, where the kernel's driver
    /// knows that.
    pub fn set_sampling_after_stop(&mut self, nanoseconds: u64) {
        self.sampling_after_stop_ns = nanoseconds;
    }

    /// Breaks the driver on purpose.
    pub fn set_mutant(&mut self, mutant: Option<Mutant>) {
        self.mutant = mutant;
    }

    /// Returns whether the driver has this break.
    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Returns the profile of the machine.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the files of the topology. Files of processes are in [`Driver::sysfs`].
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Adds a process that opened `/dev/kfd`. Opening it again changes nothing.
    ///
    /// # Errors
    /// `ENOMEM` if there are too many processes.
    pub fn open(&mut self, process: ProcessKey) -> Result<(), Errno> {
        if self.processes.contains_key(&process) {
            return Ok(());
        }
        let pasid = self.pasids.take().ok_or(Errno::ENOMEM)?;
        self.processes.insert(process, Process::new(pasid, self.gpus.len(), process.context));
        Ok(())
    }

    /// Removes a process that is gone: everything it had is released, and processes that it debugged are resumed.
    /// Returns what is to be done; the process effects list what was released, for a process that is no longer there.
    pub fn close(&mut self, key: ProcessKey) -> Effects {
        let mut effects = Effects::default();
        self.close_contexts(key, &mut effects);
        self.close_entry(key, &mut effects);
        effects
    }

    /// Removes one entry: a process, or a context of one.
    fn close_entry(&mut self, key: ProcessKey, effects: &mut Effects) {
        if self.kernel.queues_end_first {
            self.end_queues(key, &mut effects.device);
            self.end_debugging(key, &mut effects.device);
        } else {
            self.end_debugging(key, &mut effects.device);
            self.end_queues(key, &mut effects.device);
        }
        let Some(mut process) = self.processes.remove(&key) else { return };
        self.release_memory(key, &mut process, effects);
        process.events.release(&mut effects.process);
        self.pasids.put(process.pasid);
    }

    /// Destroys the queues of a process that ends. That costs a cycle of every gpu, whether it has any or not
    /// (`process_termination_cpsch`).
    fn end_queues(&mut self, key: ProcessKey, effects: &mut Vec<DeviceEffect>) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        let queues = std::mem::take(&mut process.queues);
        for gpu in 0..if self.has(Mutant::ExitFree) { 0 } else { self.gpus.len() as u32 } {
            effects.push(DeviceEffect::Cycle { gpu, cause: Cause::ProcessEnd, grace: None });
        }
        for (id, queue) in queues {
            self.release_slots(&queue);
            effects.push(QueueChange::Destroy { id }.into());
        }
    }

    /// Returns the processes that have the driver open, in the order of [`Driver::snapshot`].
    pub fn processes(&self) -> impl Iterator<Item = ProcessKey> {
        self.processes.keys().copied()
    }

    /// Handles a call on `/dev/kfd` by a process that opened it.
    ///
    /// # Errors
    /// As the real driver answers: `ENOTTY` for numbers it does not know, `EBADF` for processes that did not open it,
    /// `EPERM` for the retired debugger calls, and what each command answers.
    pub fn ioctl(&mut self, caller: ProcessKey, nr: u32, call: &mut Call) -> Result<i64, Errno> {
        call.blocked = None;
        self.enter(caller, nr, call)
    }

    fn enter(&mut self, caller: ProcessKey, nr: u32, call: &mut Call) -> Result<i64, Errno> {
        call.effects = Effects::default();
        call.wait = None;
        let waited = call.blocked.take();
        let command = match self.kernel.lookup(nr) {
            Lookup::Known(command) => Some(command),
            Lookup::Hole => None,
            Lookup::Unknown if self.has(Mutant::UnknownNumberInvalid) => return Err(Errno::EINVAL),
            Lookup::Unknown => return Err(Errno::ENOTTY),
        };
        let caller = self.behind(caller, call.opening);
        if !self.processes.contains_key(&caller) {
            return Err(Errno::EBADF);
        }
        let command = command.ok_or(Errno::EINVAL)?;
        if command.is_retired() {
            return Err(if self.has(Mutant::RetiredNumberInvalid) { Errno::EINVAL } else { Errno::EPERM });
        }
        let given = call.args.len();
        if given > MAX_ARGS {
            return Err(Errno::EINVAL);
        }
        if command.direction == Direction::Read {
            call.args.fill(0);
        }
        call.args.resize(given.max(usize::from(command.size)), 0);
        if matches!(command, ioctl::DESTROY_QUEUE | ioctl::RUNTIME_ENABLE) {
            call.blocked = waited;
        }
        let result = self.dispatch(caller, command, call);
        call.args.truncate(given);
        if caller.is_secondary() {
            call.effects.keep_books();
        }
        result
    }

    /// Repeats a call that had to wait, with [`Call::blocked`] as it was filled. It may have to wait again.
    ///
    /// # Errors
    /// As the call itself.
    pub fn retry(&mut self, caller: ProcessKey, nr: u32, call: &mut Call) -> Result<i64, Errno> {
        self.enter(caller, nr, call)
    }

    /// Forgets a call that waited and is not repeated: a signal ended it, or its process is gone.
    pub fn abandon(&mut self, caller: ProcessKey, blocked: Blocked) {
        let taken_off = self.kernel.destroys_once;
        let Ok(process) = self.process_mut(caller) else { return };
        match blocked {
            Blocked::DestroyQueue { id } => {
                if let Some(queue) = process.queues.get_mut(&id).filter(|_| taken_off) {
                    queue.being_destroyed = false;
                }
            }
            Blocked::Runtime => process.runtime.retry = true,
        }
    }

    fn dispatch(&mut self, caller: ProcessKey, command: Command, call: &mut Call) -> Result<i64, Errno> {
        match command {
            ioctl::GET_VERSION => self.run(caller, call, Driver::get_version),
            ioctl::CREATE_QUEUE => self.run(caller, call, Driver::create_queue),
            ioctl::DESTROY_QUEUE => self.run(caller, call, Driver::destroy_queue),
            ioctl::SET_MEMORY_POLICY => self.run(caller, call, Driver::set_memory_policy),
            ioctl::GET_CLOCK_COUNTERS => self.run(caller, call, Driver::get_clock_counters),
            ioctl::GET_PROCESS_APERTURES => self.run(caller, call, Driver::get_process_apertures),
            ioctl::UPDATE_QUEUE => self.run(caller, call, Driver::update_queue),
            ioctl::CREATE_EVENT => self.run(caller, call, Driver::create_event),
            ioctl::DESTROY_EVENT => self.run(caller, call, Driver::destroy_event),
            ioctl::SET_EVENT => self.run(caller, call, Driver::set_event),
            ioctl::RESET_EVENT => self.run(caller, call, Driver::reset_event),
            ioctl::WAIT_EVENTS => self.run(caller, call, Driver::wait_events_call),
            ioctl::SET_SCRATCH_BACKING_VA => self.run(caller, call, Driver::set_scratch_backing_va),
            ioctl::GET_TILE_CONFIG => self.run(caller, call, Driver::get_tile_config),
            ioctl::SET_TRAP_HANDLER => self.run(caller, call, Driver::set_trap_handler),
            ioctl::GET_PROCESS_APERTURES_NEW => self.run(caller, call, Driver::get_process_apertures_new),
            ioctl::ACQUIRE_VM => self.run(caller, call, Driver::acquire_vm),
            ioctl::ALLOC_MEMORY_OF_GPU => self.run(caller, call, Driver::alloc_memory),
            ioctl::FREE_MEMORY_OF_GPU => self.run(caller, call, Driver::free_memory),
            ioctl::MAP_MEMORY_TO_GPU => self.run(caller, call, Driver::map_memory),
            ioctl::UNMAP_MEMORY_FROM_GPU => self.run(caller, call, Driver::unmap_memory),
            ioctl::SET_CU_MASK => self.run(caller, call, Driver::set_cu_mask),
            ioctl::GET_QUEUE_WAVE_STATE => self.run(caller, call, Driver::get_queue_wave_state),
            ioctl::GET_DMABUF_INFO => self.run(caller, call, Driver::get_dmabuf_info),
            ioctl::IMPORT_DMABUF => self.run(caller, call, Driver::import_dmabuf),
            ioctl::ALLOC_QUEUE_GWS => self.run(caller, call, Driver::alloc_queue_gws),
            ioctl::SMI_EVENTS => self.run(caller, call, Driver::smi_events),
            ioctl::SVM => self.run(caller, call, Driver::svm),
            ioctl::SET_XNACK_MODE => self.run(caller, call, Driver::set_xnack_mode),
            ioctl::CRIU_OP => self.run(caller, call, Driver::criu_op),
            ioctl::AVAILABLE_MEMORY => self.run(caller, call, Driver::available_memory),
            ioctl::EXPORT_DMABUF => self.run(caller, call, Driver::export_dmabuf),
            ioctl::RUNTIME_ENABLE => self.run(caller, call, Driver::runtime_enable),
            ioctl::DBG_TRAP => self.run(caller, call, Driver::dbg_trap),
            ioctl::CREATE_PROCESS => self.create_process(caller, call),
            ioctl::PROFILER | ioctl::DKMS_PROFILER => self.run(caller, call, Driver::profiler),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Runs a handler on the typed argument and puts it back whatever the handler says.
    fn run<T: Argument>(
        &mut self,
        caller: ProcessKey,
        call: &mut Call,
        handler: fn(&mut Driver, ProcessKey, &mut T, &mut Call) -> Result<i64, Errno>,
    ) -> Result<i64, Errno> {
        let mut args: T = call.decode();
        let result = handler(self, caller, &mut args, call);
        // The dispatcher has made room for the whole structure.
        args.encode(&mut call.args).ok_or(Errno::EFAULT)?;
        result
    }

    fn process(&self, key: ProcessKey) -> Result<&Process, Errno> {
        self.processes.get(&key).ok_or(Errno::EBADF)
    }

    fn process_mut(&mut self, key: ProcessKey) -> Result<&mut Process, Errno> {
        self.processes.get_mut(&key).ok_or(Errno::EBADF)
    }

    /// Returns the index of the gpu with this id; `EINVAL` if there is none.
    fn gpu(&self, gpu_id: u32) -> Result<usize, Errno> {
        self.gpus.iter().position(|state| state.gpu.gpu_id == gpu_id).ok_or(Errno::EINVAL)
    }

    /// Returns the index of the gpu with this id if the process has an address space on it. `EINVAL` if there is no
    /// such gpu, the given error if it has not.
    fn bound_gpu(&self, key: ProcessKey, gpu_id: u32, unbound: Errno) -> Result<usize, Errno> {
        let index = self.gpu(gpu_id)?;
        if self.process(key)?.is_bound(index) { Ok(index) } else { Err(unbound) }
    }
}

#[cfg(test)]
mod tests;

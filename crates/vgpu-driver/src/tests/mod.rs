//! The driver as programs see it.

mod complete;
mod contexts;
mod debug;
mod events;
mod gem;
mod gws;
mod hardware;
mod info;
mod kernels;
mod memory;
mod queues;
mod random;
mod runlist;
mod sharing;
mod svm;

use kfd_abi::Abi;
use kfd_abi::ioctl::Argument;
use kfd_abi::memory::{AllocFlags, AllocMemoryArgs, FreeMemoryArgs, MapMemoryArgs, UnmapMemoryArgs};
use kfd_abi::process::AcquireVmArgs;

use super::*;

pub(super) const ALICE: ProcessKey = ProcessKey::new(100, 1);
pub(super) const BOB: ProcessKey = ProcessKey::new(200, 2);
pub(super) const PAGE: u64 = 4096;
pub(super) const RW: AllocFlags = AllocFlags(AllocFlags::WRITABLE.0 | AllocFlags::EXECUTABLE.0);

/// What a call answered.
#[derive(Debug)]
pub(super) struct Answer<T> {
    pub(super) result: Result<i64, Errno>,
    pub(super) args: T,
    pub(super) call: Call,
}

impl<T> Answer<T> {
    pub(super) fn ok(self) -> T {
        assert_eq!(self.result, Ok(0));
        self.args
    }

    pub(super) fn errno(&self) -> Option<Errno> {
        self.result.err()
    }
}

/// A machine with two processes that have their address spaces.
pub(super) struct Machine {
    pub(super) driver: Driver,
}

impl Machine {
    pub(super) fn new(profile: &str) -> Machine {
        Machine::with(Profile::load(profile).unwrap())
    }

    pub(super) fn with(profile: Profile) -> Machine {
        Machine::of(profile, KernelProfile::default())
    }

    /// One with the driver of a kernel.
    pub(super) fn of(profile: Profile, kernel: KernelProfile) -> Machine {
        let mut machine = Machine { driver: Driver::of(profile, kernel) };
        for process in [ALICE, BOB] {
            machine.driver.open(process).unwrap();
            for gpu in 0..machine.driver.gpus.len() {
                assert_eq!(machine.acquire(process, gpu).errno(), None);
            }
        }
        machine
    }

    pub(super) fn gpu_id(&self, gpu: usize) -> u32 {
        self.driver.gpus[gpu].gpu.gpu_id
    }

    pub(super) fn acquire(&mut self, process: ProcessKey, gpu: usize) -> Answer<AcquireVmArgs> {
        let state = self.driver.gpus[gpu].gpu;
        let mut call = Call::new(&AcquireVmArgs { drm_fd: 5, gpu_id: state.gpu_id });
        call.fd = Some(FdKind::Render { minor: state.render_minor, file: 7 });
        self.call(process, call)
    }

    pub(super) fn call<T: Argument>(&mut self, process: ProcessKey, mut call: Call) -> Answer<T> {
        let result = self.driver.ioctl(process, T::COMMAND.nr.into(), &mut call);
        Answer { result, args: call.decode(), call }
    }

    pub(super) fn run<T: Argument>(&mut self, process: ProcessKey, args: T) -> Answer<T> {
        self.call(process, Call::new(&args))
    }

    pub(super) fn run_with<T: Argument>(&mut self, process: ProcessKey, args: T, words: &[u32]) -> Answer<T> {
        let mut call = Call::new(&args);
        call.buffers = vec![words.iter().flat_map(|word| word.to_le_bytes()).collect()];
        self.call(process, call)
    }

    pub(super) fn alloc(
        &mut self,
        process: ProcessKey,
        va_addr: u64,
        size: u64,
        flags: AllocFlags,
    ) -> Answer<AllocMemoryArgs> {
        let mmap_offset = if flags.has(AllocFlags::USERPTR) { va_addr } else { 0 };
        let gpu_id = self.gpu_id(0);
        self.run(process, AllocMemoryArgs { va_addr, size, mmap_offset, gpu_id, flags, handle: 0 })
    }

    pub(super) fn free(&mut self, process: ProcessKey, handle: u64) -> Answer<FreeMemoryArgs> {
        self.run(process, FreeMemoryArgs { handle })
    }

    pub(super) fn map(&mut self, process: ProcessKey, handle: u64, gpu_ids: &[u32]) -> Answer<MapMemoryArgs> {
        let n_devices = gpu_ids.len() as u32;
        let args = MapMemoryArgs { handle, device_ids_array_ptr: 1, n_devices, n_success: 0 };
        self.run_with(process, args, gpu_ids)
    }

    pub(super) fn unmap(&mut self, process: ProcessKey, handle: u64, gpu_ids: &[u32]) -> Answer<UnmapMemoryArgs> {
        let n_devices = gpu_ids.len() as u32;
        let args = UnmapMemoryArgs { handle, device_ids_array_ptr: 1, n_devices, n_success: 0 };
        self.run_with(process, args, gpu_ids)
    }

    /// A buffer that the first gpu sees. Answers its handle.
    pub(super) fn mapped(&mut self, process: ProcessKey, va: u64, size: u64, flags: AllocFlags) -> u64 {
        let handle = self.alloc(process, va, size, flags).ok().handle;
        let gpu_id = self.gpu_id(0);
        self.map(process, handle, &[gpu_id]).ok();
        handle
    }
}

#[test]
fn numbers_outside_the_table_are_no_commands() {
    let mut machine = Machine::new("mi300x");
    for nr in [0, 0x27, 0x82, 0xC0, 0x101, u32::MAX] {
        assert_eq!(machine.driver.ioctl(ALICE, nr, &mut Call::default()), Err(Errno::ENOTTY));
    }
    for nr in 0x0D..=0x10 {
        assert_eq!(machine.driver.ioctl(ALICE, nr, &mut Call::default()), Err(Errno::EPERM));
    }
}

#[test]
fn only_processes_that_opened_the_driver_may_call_it() {
    let mut machine = Machine::new("mi300x");
    let stranger = ProcessKey::new(ALICE.pid, 99);
    assert_eq!(machine.driver.ioctl(stranger, 1, &mut Call::default()), Err(Errno::EBADF));
    assert!(machine.driver.close(stranger).is_empty());
}

#[test]
fn short_and_long_arguments_keep_their_length() {
    let mut machine = Machine::new("mi300x");
    let mut short = Call { args: vec![0xAA; 4], ..Call::default() };
    assert_eq!(machine.driver.ioctl(ALICE, 1, &mut short), Ok(0));
    assert_eq!(short.args, 1_u32.to_le_bytes());
    let mut long = Call { args: vec![0xAA; 12], ..Call::default() };
    assert_eq!(machine.driver.ioctl(ALICE, 1, &mut long), Ok(0));
    assert_eq!(long.args[..8], [1, 0, 0, 0, 17, 0, 0, 0]);
    let mut endless = Call { args: vec![0; MAX_ARGS + 1], ..Call::default() };
    assert_eq!(machine.driver.ioctl(ALICE, 1, &mut endless), Err(Errno::EINVAL));
}

#[test]
fn death_gives_everything_back() {
    let mut machine = Machine::new("mi300x");
    let handle = machine.mapped(ALICE, 0x10_0000, 8 * PAGE, AllocFlags::VRAM | RW);
    let event = machine.run(ALICE, kfd_abi::event::CreateEventArgs::ZERO).ok().event_id;
    let size = 8 * PAGE;
    let backing = Backing::Vram { offset: layout::BUFFERS_START };
    assert_eq!(machine.driver.gpus[0].vram_used, size);
    assert_eq!(
        machine.driver.close(ALICE),
        Effects {
            device: vec![DeviceEffect::Cycle { gpu: 0, cause: Cause::ProcessEnd, grace: None }],
            process: vec![
                ProcessEffect::UnmapMemory { gpu: 0, handle, va: 0x10_0000, size },
                ProcessEffect::FreeMemory { handle, backing, size },
                ProcessEffect::DestroyEvent { id: event },
            ],
            ..Effects::default()
        }
    );
    assert_eq!(machine.driver.gpus[0].vram_used, 0);
    assert_eq!(machine.driver.processes().collect::<Vec<_>>(), [BOB]);
    // A later process with the same pid starts with nothing.
    machine.driver.open(ALICE).unwrap();
    assert_eq!(machine.alloc(ALICE, 0x10_0000, PAGE, AllocFlags::VRAM | RW).errno(), Some(Errno::ENODEV));
}

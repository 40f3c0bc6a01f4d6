//! The compute units below AMD's own driver: the executing engine of `kernel/vmi300`.
//!
//! In the virtual machine of `cargo xtask kernel` the driver is amdkfd, and a kernel module plays firmware and memory.
//! The module has code executed by processes of the guest. [`supervise`] waits for GPU address spaces and starts a
//! process for each; [`serve`] is that process. It sees the memory of its client through a window of the device file,
//! maps and unmaps queues as the firmware orders, and executes packets and waves with the device of the virtual gpu
//! ([`crate::device`]): the same interpreter, save and restore, below another driver.
//!
//! Bit-identity is all that may be concluded from a run: times are those of an emulated processor that emulates a gpu.

mod abi;
mod engine;
mod link;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use crate::device::Geometry;
use crate::device::chip::{self, Chip, ProcessSlot};
use crate::profile::MAX_GPUS;
use abi::NextArgs;
use engine::Engine;
use link::Link;

/// The device file of the kernel module.
pub const DEVICE: &str = "/dev/vmi300";

/// An address space to serve, as the supervising process tells it to the serving one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSpace {
    /// Number by which the module knows it.
    pub id: u64,
    /// Number of the gpu.
    pub gpu: u32,
    /// When the read index of AQL queues passes a packet, as a parameter of the module says it.
    pub read_index: u32,
    /// Slot of the serving process on the chip.
    pub slot: u32,
}

/// Waits for address spaces and starts a process for each, until a signal ends it. `command` makes the command line of
/// a process that calls [`serve`]; its standard input is the chip. A process that cannot be started is reported on
/// standard error: its program finds a gpu that does nothing, and the others are served.
///
/// # Errors
/// If the device cannot be opened or asked, or the chip cannot be made.
pub fn supervise(device: &Path, command: impl Fn(&AddressSpace) -> Command) -> io::Result<()> {
    let link = Link::open(device)?;
    let mut made: Option<(Arc<Chip>, OwnedFd)> = None;
    loop {
        let next = link.next()?;
        if made.is_none() {
            let size = Geometry::cdna(next.cus, next.xccs);
            let (shared, file) = Chip::create(size, MAX_GPUS, chip::tokens_of_machine())?;
            made = Some((Arc::new(shared), file));
        }
        let Some((chip, file)) = &made else { continue };
        if let Err(error) = start(&next, chip, file, &command) {
            eprintln!("error: a program has no engine: {error}");
        }
    }
}

/// Starts a process for an address space.
fn start(
    next: &NextArgs,
    chip: &Arc<Chip>,
    file: &OwnedFd,
    command: &impl Fn(&AddressSpace) -> Command,
) -> io::Result<()> {
    let file = file.try_clone()?;
    let slot = chip.add_process().ok_or_else(|| io::Error::other("too many programs use the gpu"))?;
    let space = AddressSpace { id: next.id, gpu: next.gpu, read_index: next.read_index, slot: slot.number() };
    let mut child = command(&space).stdin(Stdio::from(file)).spawn().inspect_err(|_| chip.release_process(slot))?;
    let chip = Arc::clone(chip);
    thread::spawn(move || {
        // What the process had on the chip is taken back however it ended.
        let _ = child.wait();
        chip.release_process(slot);
    });
    Ok(())
}

/// Serves an address space until it is closed. The chip is the standard input.
///
/// # Errors
/// If the device cannot be opened or asked, or the chip is not one.
pub fn serve(device: &Path, space: &AddressSpace) -> io::Result<()> {
    let chip = Arc::new(Chip::open(io::stdin().as_fd())?);
    let slot = ProcessSlot::new(space.slot).ok_or(io::ErrorKind::InvalidInput)?;
    let link = match Link::open(device)?.attach(space.id) {
        Ok(link) => link,
        // The program has ended already.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
        Err(error) => return Err(error),
    };
    chip.register_worker(slot, std::process::id());
    // Without the right to it, programs that spin on signals compete with the gpu.
    let _ = rustix::process::setpriority_process(None, -10);
    Engine::new(link, chip, slot, space)?.run()
}

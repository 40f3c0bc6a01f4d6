//! Device memory in the client's address space.
//!
//! Programs map buffers themselves, wherever and with whatever protection they like; the device has mappings of its
//! own, and a table of GPU addresses for each gpu. Changing a table makes a new one: workers finish their quantum with
//! the old, and unmapping waits for them, as a TLB flush would.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kfd_abi::memory::AllocFlags;
use vgpu_isa::memory::{Mapping, Space};

use crate::driver::Backing;
use crate::sys::{self, Map, VerifiedFd};

/// All buffers and address spaces of one process.
pub(crate) struct Memory {
    kfd: VerifiedFd<OwnedFd>,
    render: VerifiedFd<OwnedFd>,
    state: Mutex<State>,
}

struct State {
    /// The device's own mappings of buffers, by place in the file and size.
    maps: HashMap<(Backing, u64), Map>,
    /// Buffers of other processes.
    windows: Vec<Window>,
    /// One address space for each gpu.
    spaces: Vec<Arc<Space>>,
}

/// Where another process's buffer is to be seen in the render file.
struct Window {
    offset: u64,
    size: u64,
    /// The render file of that process.
    file: OwnedFd,
    /// Offset there.
    from: u64,
}

impl Window {
    /// Returns where a range is in the other process's file, if it lies in the window.
    fn find(&self, offset: u64, size: u64) -> Option<u64> {
        let into = offset.checked_sub(self.offset)?;
        (into.checked_add(size)? <= self.size).then_some(self.from + into)
    }
}

impl Memory {
    pub(crate) fn new(kfd: OwnedFd, render: OwnedFd, gpus: usize) -> Self {
        let spaces = (0..gpus).map(|_| Arc::new(Space::new())).collect();
        Self {
            kfd: VerifiedFd::new(kfd),
            render: VerifiedFd::new(render),
            state: Mutex::new(State { maps: HashMap::new(), windows: Vec::new(), spaces }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device's view of a buffer.
    ///
    /// # Errors
    /// ENOMEM, or ENODEV if the program closed our file.
    pub(crate) fn view(&self, backing: Backing, size: u64) -> Result<Map, i32> {
        self.view_in(&self.state().windows, backing, size)
    }

    fn view_in(&self, windows: &[Window], backing: Backing, size: u64) -> Result<Map, i32> {
        let (file, offset) = match backing {
            Backing::Vram { offset } | Backing::Gtt { offset } => (&self.render, offset),
            Backing::Doorbell { offset } | Backing::MmioRemap { offset } => (&self.kfd, offset),
            Backing::UserPtr { .. } => return Err(libc::EINVAL),
        };
        let window = backing.render_offset().and_then(|offset| {
            windows.iter().find_map(|window| Some((window.file.as_fd(), window.find(offset, size)?)))
        });
        let (file, offset) = match window {
            Some(found) => found,
            None => (file.descriptor().ok_or(libc::ENODEV)?, offset),
        };
        let size = usize::try_from(size).map_err(|_| libc::ENOMEM)?;
        Map::new(file, offset, size).map_err(|_| libc::ENOMEM)
    }

    /// Shows a buffer of another process in the render file.
    ///
    /// # Errors
    /// ENODEV if the file cannot be used.
    pub(crate) fn import(&self, backing: Backing, size: u64, from: u64, file: OwnedFd) -> Result<(), i32> {
        let offset = backing.render_offset().ok_or(libc::EINVAL)?;
        // A file that could become shorter would take the device down with it.
        if !from.checked_add(size).is_some_and(|end| sys::is_as_long_as(file.as_fd(), end)) {
            return Err(libc::ENODEV);
        }
        let file = sys::dup_above(file).map_err(|_| libc::EMFILE)?;
        self.state().windows.push(Window { offset, size, file, from });
        Ok(())
    }

    /// Returns the file and the offset in it that a range of the render file leads to, if it is another process's.
    pub(crate) fn window(&self, offset: u64, size: u64) -> Option<(OwnedFd, u64)> {
        let state = self.state();
        let found = state.windows.iter().find_map(|window| Some((&window.file, window.find(offset, size)?)));
        found.and_then(|(file, from)| Some((file.try_clone().ok()?, from)))
    }

    /// Makes a buffer visible to a gpu; returns the new address space.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn map(
        &self,
        gpu: usize,
        va: u64,
        size: u64,
        backing: Backing,
        flags: AllocFlags,
    ) -> Result<Arc<Space>, i32> {
        let mut state = self.state();
        let State { maps, windows, .. } = &mut *state;
        let (host, guarded) = match backing {
            Backing::UserPtr { address } => (std::ptr::with_exposed_provenance_mut(address as usize), true),
            _ => {
                let map = match maps.entry((backing, size)) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => new.insert(self.view_in(windows, backing, size)?),
                };
                (map.start(), false)
            }
        };
        let mapping = Mapping {
            start: va,
            end: va.saturating_add(size),
            host,
            writable: flags.has(AllocFlags::WRITABLE),
            executable: flags.has(AllocFlags::EXECUTABLE),
            guarded,
        };
        Ok(change(&mut state, gpu, mapping))
    }

    /// Makes memory of the process visible at its own address.
    pub(crate) fn map_own(&self, gpu: usize, va: u64, size: u64, writable: bool, executable: bool) -> Arc<Space> {
        let host = std::ptr::with_exposed_provenance_mut(va as usize);
        let mapping = Mapping { start: va, end: va.saturating_add(size), host, writable, executable, guarded: true };
        change(&mut self.state(), gpu, mapping)
    }

    /// Takes addresses away from a gpu; returns the new address space and the old one.
    pub(crate) fn unmap(&self, gpu: usize, va: u64, size: u64) -> (Arc<Space>, Arc<Space>) {
        let mut state = self.state();
        let old = Arc::clone(&state.spaces[gpu]);
        let mut space = (*old).clone();
        space.remove(va, va.saturating_add(size));
        state.spaces[gpu] = Arc::new(space);
        (Arc::clone(&state.spaces[gpu]), old)
    }

    /// Lets go of a buffer.
    pub(crate) fn forget(&self, backing: Backing, size: u64) {
        let mut state = self.state();
        let Some(offset) = backing.render_offset() else {
            state.maps.remove(&(backing, size));
            return;
        };
        let buffer = offset..offset.saturating_add(size);
        // The render node may have mapped parts of it.
        state.maps.retain(|(part, _), _| !part.render_offset().is_some_and(|at| buffer.contains(&at)));
        state.windows.retain(|window| window.offset != offset);
    }

    /// Gives the bytes of a buffer back.
    pub(crate) fn free(&self, backing: Backing, size: u64) {
        self.forget(backing, size);
        if let (Backing::Vram { offset } | Backing::Gtt { offset }, Ok(file)) = (backing, self.render()) {
            sys::punch_hole(file.as_fd(), offset, size);
        }
    }

    /// The file of doorbells.
    ///
    /// # Errors
    /// ENODEV if the program closed it.
    pub(crate) fn kfd(&self) -> Result<&OwnedFd, i32> {
        self.kfd.get().ok_or(libc::ENODEV)
    }

    /// The file of buffers.
    ///
    /// # Errors
    /// ENODEV if the program closed it.
    pub(crate) fn render(&self) -> Result<&OwnedFd, i32> {
        self.render.get().ok_or(libc::ENODEV)
    }
}

fn change(state: &mut State, gpu: usize, mapping: Mapping) -> Arc<Space> {
    let mut space = (*state.spaces[gpu]).clone();
    // SAFETY: buffers stay mapped until `free`, which the driver allows only after `unmap`; memory of the process
    // itself is guarded.
    unsafe { space.insert(mapping) };
    state.spaces[gpu] = Arc::new(space);
    Arc::clone(&state.spaces[gpu])
}

/// Waits until no executor uses an address space that was replaced. One that crashed keeps what it had for ever.
pub(crate) fn wait_until_unused(space: &Arc<Space>) {
    while Arc::strong_count(space) > 1 && !crate::executor::has_failed() {
        std::thread::yield_now();
    }
}

//! GPU virtual memory: which addresses exist, where their bytes are in this process, and what happens otherwise.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::guard;

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Load.
    Read,
    /// Store or atomic.
    Write,
    /// Instruction fetch.
    Execute,
}

/// An access outside any mapping, or one that its mapping forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// GPU address of the access.
    pub address: u64,
    /// Kind of the access.
    pub access: Access,
    /// Whether a mapping exists but forbids the access.
    pub mapped: bool,
}

/// One range of GPU addresses with the memory behind it.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// First GPU address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Where the first byte is in this process.
    pub host: *mut u8,
    /// Stores are allowed.
    pub writable: bool,
    /// Instructions may be fetched.
    pub executable: bool,
    /// The owner of the memory may take it away at any time (user pointers): access it only through [`guard`].
    pub guarded: bool,
}

// SAFETY: a mapping is a description. Code that dereferences `host` is responsible for it (see `Space::insert`).
unsafe impl Send for Mapping {}
// SAFETY: shared, it can only be read, and reading a description touches no memory behind it.
unsafe impl Sync for Mapping {}

/// The GPU address space of one process on one gpu.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Sorted by address, without overlaps.
    mappings: Vec<Mapping>,
}

impl Space {
    /// An empty address space.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a mapping; it replaces the parts of other mappings that it overlaps.
    ///
    /// # Safety
    /// The memory at `host` must stay readable (and writable, if `writable`) for `end - start` bytes until the mapping
    /// is removed, unless `guarded` is set. Others may read and write it at the same time: it is device memory.
    pub unsafe fn insert(&mut self, mapping: Mapping) {
        if mapping.start >= mapping.end {
            return;
        }
        self.remove(mapping.start, mapping.end);
        let at = self.mappings.partition_point(|m| m.start < mapping.start);
        self.mappings.insert(at, mapping);
    }

    /// Removes all addresses in `start..end`; mappings that reach beyond keep their rest.
    pub fn remove(&mut self, start: u64, end: u64) {
        let mut kept = Vec::with_capacity(self.mappings.len() + 1);
        for m in self.mappings.drain(..) {
            if m.end <= start || m.start >= end {
                kept.push(m);
                continue;
            }
            if m.start < start {
                kept.push(Mapping { end: start, ..m });
            }
            if m.end > end {
                let host = m.host.wrapping_add((end - m.start) as usize);
                kept.push(Mapping { start: end, host, ..m });
            }
        }
        self.mappings = kept;
    }

    /// Returns all mappings in order of address.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// Returns the mapping that holds an address.
    #[inline]
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|m| m.start <= address);
        let m = self.mappings.get(after.checked_sub(1)?)?;
        (address < m.end).then_some(m)
    }
}

/// A way into a [`Space`] that remembers where it was last: one per worker.
#[derive(Clone, Debug)]
pub struct Port<'a> {
    space: &'a Space,
    last: Mapping,
}

const NOWHERE: Mapping =
    Mapping { start: 1, end: 0, host: std::ptr::null_mut(), writable: false, executable: false, guarded: true };

impl<'a> Port<'a> {
    /// A port into an address space.
    pub fn new(space: &'a Space) -> Self {
        Self { space, last: NOWHERE }
    }

    /// The address space behind the port.
    pub fn space(&self) -> &'a Space {
        self.space
    }

    /// Where `length` bytes at `address` are in this process, if they lie in one unguarded mapping that allows the
    /// access. `None` means: take the careful way ([`Port::read`], [`Port::write`]), which splits, guards, and reports
    /// faults.
    #[inline(always)]
    pub fn direct(&mut self, address: u64, length: u64, access: Access) -> Option<*mut u8> {
        let m = &self.last;
        if !(address >= m.start && address.wrapping_add(length) <= m.end && address < m.end) {
            self.seek(address);
        }
        let m = &self.last;
        let inside = address >= m.start && address < m.end && length <= m.end - address;
        let allowed = match access {
            Access::Read => true,
            Access::Write => m.writable,
            Access::Execute => m.executable,
        };
        (inside && allowed && !m.guarded).then(|| m.host.wrapping_add((address - m.start) as usize))
    }

    #[cold]
    #[inline(never)]
    fn seek(&mut self, address: u64) {
        self.last = self.space.find(address).copied().unwrap_or(NOWHERE);
    }

    /// The piece of memory that starts at `address`: host address, bytes to the end of its mapping, guarded or not.
    fn piece(&self, address: u64, access: Access) -> Result<(*mut u8, u64, bool), Fault> {
        let Some(m) = self.space.find(address) else {
            return Err(Fault { address, access, mapped: false });
        };
        let allowed = match access {
            Access::Read => true,
            Access::Write => m.writable,
            Access::Execute => m.executable,
        };
        if !allowed {
            return Err(Fault { address, access, mapped: true });
        }
        Ok((m.host.wrapping_add((address - m.start) as usize), m.end - address, m.guarded))
    }

    /// Reads bytes, across mappings if necessary.
    pub fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.fetch(address, out, Access::Read)
    }

    /// Reads bytes for an instruction fetch or a load.
    pub fn fetch(&mut self, address: u64, out: &mut [u8], access: Access) -> Result<(), Fault> {
        let Some(host) = self.direct(address, out.len() as u64, access) else {
            return self.fetch_pieces(address, out, access);
        };
        // SAFETY: `direct` vouches for all bytes.
        unsafe { transfer(out.as_mut_ptr(), host, out.len(), false) };
        Ok(())
    }

    fn fetch_pieces(&self, mut address: u64, mut out: &mut [u8], access: Access) -> Result<(), Fault> {
        while !out.is_empty() {
            let (host, left, guarded) = self.piece(address, access)?;
            let length = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (now, later) = out.split_at_mut(length);
            // SAFETY: `host` is backed for `left` bytes by the promise made to `Space::insert`, or guarded.
            let done = unsafe { transfer(now.as_mut_ptr(), host, length, guarded) };
            if !done {
                return Err(Fault { address, access, mapped: true });
            }
            out = later;
            address = address.wrapping_add(length as u64);
        }
        Ok(())
    }

    /// Writes bytes, across mappings if necessary. Bytes before a fault are written.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let Some(host) = self.direct(address, bytes.len() as u64, Access::Write) else {
            return self.write_pieces(address, bytes);
        };
        // SAFETY: `direct` vouches for all bytes, which may be written.
        unsafe { transfer(host, bytes.as_ptr(), bytes.len(), false) };
        Ok(())
    }

    fn write_pieces(&self, mut address: u64, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let (host, left, guarded) = self.piece(address, Access::Write)?;
            let length = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (now, later) = bytes.split_at(length);
            // SAFETY: `host` is backed for `left` bytes by the promise made to `Space::insert`, or guarded.
            let done = unsafe { transfer(host, now.as_ptr(), length, guarded) };
            if !done {
                return Err(Fault { address, access: Access::Write, mapped: true });
            }
            bytes = later;
            address = address.wrapping_add(length as u64);
        }
        Ok(())
    }

    /// Reads one 32-bit word; aligned words are read whole.
    #[inline(always)]
    pub fn read_u32(&mut self, address: u64) -> Result<u32, Fault> {
        if let Some(host) = self.direct(address, 4, Access::Read) {
            // SAFETY: `direct` vouches for four bytes; volatile because clients write them meanwhile.
            return Ok(unsafe { load(host.cast::<u32>()) });
        }
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads one 64-bit word; aligned words are read whole.
    #[inline(always)]
    pub fn read_u64(&mut self, address: u64) -> Result<u64, Fault> {
        if let Some(host) = self.direct(address, 8, Access::Read) {
            // SAFETY: `direct` vouches for eight bytes.
            return Ok(unsafe { load(host.cast::<u64>()) });
        }
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes one 32-bit word; aligned words are written whole.
    #[inline(always)]
    pub fn write_u32(&mut self, address: u64, value: u32) -> Result<(), Fault> {
        if let Some(host) = self.direct(address, 4, Access::Write) {
            // SAFETY: `direct` vouches for four writable bytes.
            unsafe { store(host.cast::<u32>(), value) };
            return Ok(());
        }
        self.write(address, &value.to_le_bytes())
    }

    /// Writes one 64-bit word; aligned words are written whole.
    #[inline(always)]
    pub fn write_u64(&mut self, address: u64, value: u64) -> Result<(), Fault> {
        if let Some(host) = self.direct(address, 8, Access::Write) {
            // SAFETY: `direct` vouches for eight writable bytes.
            unsafe { store(host.cast::<u64>(), value) };
            return Ok(());
        }
        self.write(address, &value.to_le_bytes())
    }

    /// Replaces the 32-bit word at `address` by `change(old)` atomically; returns the old value. A misaligned address
    /// is a fault, as on hardware.
    pub fn atomic_u32(&mut self, address: u64, mut change: impl FnMut(u32) -> u32) -> Result<u32, Fault> {
        let Target { host, guarded } = self.atomic_target(address, 4)?;
        if guarded {
            // SAFETY: the word is aligned; guarded.
            let exchange = |old, new| unsafe { guard::compare_exchange_u32(host.cast(), old, new) };
            return update(0, change, exchange).ok_or(gone(address));
        }
        // SAFETY: `atomic_target` vouches for an aligned, writable word that only atomics and plain accesses of other
        // agents touch.
        let word = unsafe { AtomicU32::from_ptr(host.cast()) };
        let mut old = word.load(Ordering::SeqCst);
        loop {
            match word.compare_exchange_weak(old, change(old), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(old) => return Ok(old),
                Err(seen) => old = seen,
            }
        }
    }

    /// Replaces the 64-bit word at `address` by `change(old)` atomically; returns the old value.
    pub fn atomic_u64(&mut self, address: u64, mut change: impl FnMut(u64) -> u64) -> Result<u64, Fault> {
        let Target { host, guarded } = self.atomic_target(address, 8)?;
        if guarded {
            // SAFETY: the word is aligned; guarded.
            let exchange = |old, new| unsafe { guard::compare_exchange_u64(host.cast(), old, new) };
            return update(0, change, exchange).ok_or(gone(address));
        }
        // SAFETY: as in `atomic_u32`.
        let word = unsafe { AtomicU64::from_ptr(host.cast()) };
        let mut old = word.load(Ordering::SeqCst);
        loop {
            match word.compare_exchange_weak(old, change(old), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(old) => return Ok(old),
                Err(seen) => old = seen,
            }
        }
    }

    #[inline(always)]
    fn atomic_target(&mut self, address: u64, size: u64) -> Result<Target, Fault> {
        let target = match self.direct(address, size, Access::Write) {
            Some(host) => Target { host, guarded: false },
            None => self.careful_target(address, size)?,
        };
        let aligned = address.is_multiple_of(size) && (target.host.addr() as u64).is_multiple_of(size);
        if aligned { Ok(target) } else { Err(gone(address)) }
    }

    /// The same for an address that needs care, or that is none.
    #[cold]
    fn careful_target(&self, address: u64, size: u64) -> Result<Target, Fault> {
        if !address.is_multiple_of(size) {
            return Err(gone(address));
        }
        let (host, left, guarded) = self.piece(address, Access::Write)?;
        if left < size { Err(gone(address)) } else { Ok(Target { host, guarded }) }
    }
}

/// A word for an atomic.
struct Target {
    host: *mut u8,
    guarded: bool,
}

/// Returns the fault of a store that its mapping allows but that failed.
fn gone(address: u64) -> Fault {
    Fault { address, access: Access::Write, mapped: true }
}

/// Changes a word through a compare-exchange that returns the value it saw, or `None` if the word is missing.
fn update<T: Copy + PartialEq>(
    guess: T,
    mut change: impl FnMut(T) -> T,
    exchange: impl Fn(T, T) -> Option<T>,
) -> Option<T> {
    let mut old = guess;
    loop {
        let seen = exchange(old, change(old))?;
        if seen == old {
            return Some(old);
        }
        old = seen;
    }
}

/// # Safety
/// Both sides hold `length` bytes; with `guarded`, the device side (either) may be missing.
unsafe fn transfer(to: *mut u8, from: *const u8, length: usize, guarded: bool) -> bool {
    if guarded {
        // SAFETY: promised by the caller.
        return unsafe { guard::copy(to, from, length) };
    }
    // SAFETY: promised by the caller. Small aligned words go whole, because other agents look at them.
    unsafe {
        match length {
            4 if (to.addr() | from.addr()).is_multiple_of(4) => {
                to.cast::<u32>().write_volatile(from.cast::<u32>().read_volatile());
            }
            8 if (to.addr() | from.addr()).is_multiple_of(8) => {
                to.cast::<u64>().write_volatile(from.cast::<u64>().read_volatile());
            }
            _ => std::ptr::copy(from, to, length),
        }
    }
    true
}

/// # Safety
/// `from` points to a readable `T`, aligned or not.
#[inline(always)]
unsafe fn load<T: Copy>(from: *const T) -> T {
    // SAFETY: promised by the caller.
    unsafe { if from.is_aligned() { from.read_volatile() } else { from.read_unaligned() } }
}

/// # Safety
/// `to` points to a writable `T`, aligned or not.
#[inline(always)]
unsafe fn store<T: Copy>(to: *mut T, value: T) {
    // SAFETY: promised by the caller.
    unsafe { if to.is_aligned() { to.write_volatile(value) } else { to.write_unaligned(value) } }
}

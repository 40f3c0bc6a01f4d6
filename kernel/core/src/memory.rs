//! Memory of the caller. Pointers are checked for what can be seen of them: null, alignment, and a magic word.

use core::alloc::Layout;
use core::slice;

use crate::errno::Errno;

fn is_valid<T>(pointer: *const T) -> bool {
    !pointer.is_null() && pointer.is_aligned()
}

/// Copies an argument.
///
/// # Safety
/// A pointer that is neither null nor misaligned points to a `T`.
pub(crate) unsafe fn argument<T: Copy>(pointer: *const T) -> Result<T, Errno> {
    // SAFETY: the pointer was checked; the caller answers for the rest.
    if is_valid(pointer) { Ok(unsafe { pointer.read() }) } else { Err(Errno::Invalid) }
}

/// Writes a result.
///
/// # Safety
/// A pointer that is neither null nor misaligned points to memory for a `T` that nothing else uses.
pub(crate) unsafe fn store<T>(pointer: *mut T, value: T) -> Result<(), Errno> {
    if !is_valid(pointer) {
        return Err(Errno::Invalid);
    }
    // SAFETY: the pointer was checked; the caller answers for the rest.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Returns whether a result could be stored there.
pub(crate) fn can_store<T>(pointer: *mut T) -> Result<(), Errno> {
    if is_valid(pointer) { Ok(()) } else { Err(Errno::Invalid) }
}

/// Fills fresh memory with a value and returns it as a slice.
///
/// # Safety
/// The pointer is aligned and points to memory for `count` of `T`, which nothing else uses for `'a`.
pub(crate) unsafe fn fill<'a, T: Copy>(pointer: *mut T, count: usize, value: &T) -> &'a mut [T] {
    for index in 0..count {
        // SAFETY: there is memory for `count` of them.
        unsafe { pointer.add(index).write(*value) };
    }
    // SAFETY: all of them were written, and nothing else uses them.
    unsafe { slice::from_raw_parts_mut(pointer, count) }
}

/// Adds an array behind a layout, and returns where it begins.
pub(crate) fn after<T>(layout: Layout, count: usize) -> Option<(Layout, usize)> {
    layout.extend(Layout::array::<T>(count).ok()?).ok()
}

/// Alignment of what the caller allocates: a line of the processor's cache.
const ALIGN: usize = 64;

/// Checks memory that the caller has allocated.
pub(crate) fn check_memory(memory: *const u8, size: usize, needed: usize) -> Result<(), Errno> {
    let is_fit = !memory.is_null() && memory.addr().is_multiple_of(ALIGN) && size >= needed;
    if is_fit { Ok(()) } else { Err(Errno::Invalid) }
}

/// The first word of a structure that the caller holds: what it is, less its address. So a structure that was moved is
/// none, because what it points to was not.
#[repr(transparent)]
pub(crate) struct Magic(u64);

impl Magic {
    /// Returns the word of a structure of a kind at a place.
    pub(crate) fn at<T>(place: *const T, kind: u64) -> Magic {
        Magic(kind.wrapping_sub(place.addr() as u64))
    }

    /// Checks that a structure of a kind, whose first field is the word, lies at a place.
    ///
    /// # Safety
    /// A pointer that is neither null nor misaligned can be read.
    pub(crate) unsafe fn check<T>(place: *const T, kind: u64) -> Result<(), Errno> {
        if !is_valid(place) {
            return Err(Errno::Invalid);
        }
        // SAFETY: the caller's promise; any bytes are a number, and a word is not aligned more than the structure.
        let word = unsafe { place.cast::<u64>().read() };
        if word == Magic::at(place, kind).0 { Ok(()) } else { Err(Errno::Invalid) }
    }
}

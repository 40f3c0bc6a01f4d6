//! Guarded accesses: they survive missing memory, such as user pointers that their owner unmapped or never backed.
//!
//! Each access is one instruction in one function. A handler of SIGSEGV and SIGBUS must call [`recover`] first: if the
//! fault happened in such a function, the handler continues at the returned address, and the access reports its
//! failure.

/// Copies bytes; `false` if a page was missing and a handler recovered (see the module's text). Some bytes may have
/// been copied then.
///
/// # Safety
/// The ranges must not overlap a Rust reference in use. A missing page is a crash unless a handler uses [`recover`].
#[cfg(target_arch = "x86_64")]
pub unsafe fn copy(to: *mut u8, from: *const u8, length: usize) -> bool {
    // SAFETY: the function below follows the calling convention and touches only the two ranges.
    unsafe { guarded_copy(to, from, length) == 0 }
}

/// Writes `new` to a word if it holds `old`, atomically. Returns the previous value; `None` if the word is missing or
/// not writable and a handler recovered.
///
/// # Safety
/// The word must be aligned and only be touched by atomics and plain accesses of other agents. A missing page is a
/// crash unless a handler uses [`recover`].
#[cfg(target_arch = "x86_64")]
pub unsafe fn compare_exchange_u32(at: *mut u32, old: u32, new: u32) -> Option<u32> {
    let mut seen = 0;
    // SAFETY: the function follows the calling convention and touches only the word and `seen`.
    let failed = unsafe { guarded_exchange_32(at, old, new, &mut seen) };
    (failed == 0).then_some(seen)
}

/// Like [`compare_exchange_u32`], for 64 bits.
///
/// # Safety
/// As for [`compare_exchange_u32`].
#[cfg(target_arch = "x86_64")]
pub unsafe fn compare_exchange_u64(at: *mut u64, old: u64, new: u64) -> Option<u64> {
    let mut seen = 0;
    // SAFETY: the function follows the calling convention and touches only the word and `seen`.
    let failed = unsafe { guarded_exchange_64(at, old, new, &mut seen) };
    (failed == 0).then_some(seen)
}

/// Returns where to continue if the instruction at `at` is a guarded access.
#[cfg(target_arch = "x86_64")]
pub fn recover(at: usize) -> Option<usize> {
    let accesses = [
        ((guarded_copy as *const ()).addr(), COPY_BYTES),
        ((guarded_exchange_32 as *const ()).addr(), EXCHANGE_32_BYTES),
        ((guarded_exchange_64 as *const ()).addr(), EXCHANGE_64_BYTES),
    ];
    let inside = accesses.into_iter().any(|(start, bytes)| at >= start && at < start + bytes);
    inside.then(|| (guarded_failure as *const ()).addr())
}

/// Bytes of `guarded_copy` up to and including the copying instruction: `mov rcx, rdx` and `rep movsb`.
#[cfg(target_arch = "x86_64")]
const COPY_BYTES: usize = 5;
/// Bytes of `mov eax, esi` and `lock cmpxchg [rdi], edx`.
#[cfg(target_arch = "x86_64")]
const EXCHANGE_32_BYTES: usize = 6;
/// Bytes of `mov rax, rsi` and `lock cmpxchg [rdi], rdx`.
#[cfg(target_arch = "x86_64")]
const EXCHANGE_64_BYTES: usize = 8;

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "sysv64" fn guarded_copy(to: *mut u8, from: *const u8, length: usize) -> u64 {
    std::arch::naked_asm!("mov rcx, rdx", "rep movsb", "xor eax, eax", "ret")
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "sysv64" fn guarded_exchange_32(at: *mut u32, old: u32, new: u32, seen: *mut u32) -> u64 {
    std::arch::naked_asm!("mov eax, esi", "lock cmpxchg [rdi], edx", "mov [rcx], eax", "xor eax, eax", "ret")
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "sysv64" fn guarded_exchange_64(at: *mut u64, old: u64, new: u64, seen: *mut u64) -> u64 {
    std::arch::naked_asm!("mov rax, rsi", "lock cmpxchg [rdi], rdx", "mov [rcx], rax", "xor eax, eax", "ret")
}

/// Continues after a fault in a guarded access: the stack is as at its entry, so this returns to its caller.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "sysv64" fn guarded_failure() -> u64 {
    std::arch::naked_asm!("mov eax, 1", "ret")
}

/// Copies bytes, unguarded on this architecture.
///
/// # Safety
/// Both ranges must be mapped.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn copy(to: *mut u8, from: *const u8, length: usize) -> bool {
    // SAFETY: promised by the caller.
    unsafe { std::ptr::copy(from, to, length) };
    true
}

/// Writes `new` to a word if it holds `old`, atomically; unguarded on this architecture.
///
/// # Safety
/// The word must be mapped and aligned.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn compare_exchange_u32(at: *mut u32, old: u32, new: u32) -> Option<u32> {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    // SAFETY: promised by the caller.
    let (Ok(seen) | Err(seen)) = unsafe { AtomicU32::from_ptr(at) }.compare_exchange(old, new, SeqCst, SeqCst);
    Some(seen)
}

/// Like [`compare_exchange_u32`], for 64 bits.
///
/// # Safety
/// As for [`compare_exchange_u32`].
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn compare_exchange_u64(at: *mut u64, old: u64, new: u64) -> Option<u64> {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    // SAFETY: promised by the caller.
    let (Ok(seen) | Err(seen)) = unsafe { AtomicU64::from_ptr(at) }.compare_exchange(old, new, SeqCst, SeqCst);
    Some(seen)
}

/// There are no guarded accesses on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn recover(_at: usize) -> Option<usize> {
    None
}

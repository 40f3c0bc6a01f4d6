//! Copies that survive memory which is not there: user pointers that their owner unmapped, or never backed.
//!
//! The copy is one instruction in one function. Whoever installs a SIGSEGV and SIGBUS handler asks [`recover`] first: if
//! the fault happened in that function, the handler continues at the address it returns, and [`copy`] answers `false`.

/// Copies bytes; `false` if a page was missing and a handler recovered (see the module's text). Some bytes may have been
/// copied then.
///
/// # Safety
/// The ranges must not overlap a Rust reference in use. A missing page is a crash unless a handler uses [`recover`].
#[cfg(target_arch = "x86_64")]
pub unsafe fn copy(to: *mut u8, from: *const u8, length: usize) -> bool {
    // SAFETY: the function below follows the calling convention and touches only the two ranges.
    unsafe { guarded_copy(to, from, length) == 0 }
}

/// Where to continue if the instruction at `at` is the guarded copy.
#[cfg(target_arch = "x86_64")]
pub fn recover(at: usize) -> Option<usize> {
    let start = (guarded_copy as *const ()).addr();
    (at >= start && at < start + COPY_BYTES).then(|| (guarded_failure as *const ()).addr())
}

/// Bytes of `guarded_copy` up to and including the copying instruction: `mov rcx, rdx` and `rep movsb`.
#[cfg(target_arch = "x86_64")]
const COPY_BYTES: usize = 5;

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "sysv64" fn guarded_copy(to: *mut u8, from: *const u8, length: usize) -> u64 {
    std::arch::naked_asm!("mov rcx, rdx", "rep movsb", "xor eax, eax", "ret")
}

/// Continues after a fault in `guarded_copy`: the stack is as at its entry, so this returns to its caller.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "sysv64" fn guarded_failure() -> u64 {
    std::arch::naked_asm!("mov eax, 1", "ret")
}

/// Copies bytes, unguarded on this architecture.
///
/// # Safety
/// Both ranges must be there.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn copy(to: *mut u8, from: *const u8, length: usize) -> bool {
    // SAFETY: promised by the caller.
    unsafe { std::ptr::copy(from, to, length) };
    true
}

/// There is no guarded copy on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn recover(_at: usize) -> Option<usize> {
    None
}

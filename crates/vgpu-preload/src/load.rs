//! Loading libraries: one that prefers its own dependencies (RTLD_DEEPBIND) would find libc's functions before the
//! hooks and see no gpu, so that flag is dropped, as sanitizers do.
//!
//! libc looks at the return address of these functions: `$ORIGIN`, DT_RPATH, DT_RUNPATH and the namespace are those of
//! the calling library. The hooks therefore change a register and jump to libc's function, which returns to the caller.
//! Calling it would make this library the caller and lose libraries that are found by their caller's DT_RUNPATH.
//!
//! A program that asks libc itself for `mmap` (ctypes does) gets the hook: the driver's offsets mean nothing to the
//! kernel.

use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::map;
use crate::real::Real;

/// Returns libc's `dlopen`.
extern "C" fn real_dlopen() -> *mut c_void {
    static REAL: Real = Real::new(c"dlopen");
    or_failure(&REAL)
}

/// Returns libc's `dlmopen`.
extern "C" fn real_dlmopen() -> *mut c_void {
    static REAL: Real = Real::new(c"dlmopen");
    or_failure(&REAL)
}

/// Returns the address of a function, or of one that fails if this libc does not have it.
fn or_failure(real: &Real) -> *mut c_void {
    extern "C" fn failure() -> *mut c_void {
        std::ptr::null_mut()
    }
    let address = real.address();
    if address.is_null() { failure as extern "C" fn() -> *mut c_void as *mut c_void } else { address }
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    // Two words are saved and the stack is aligned for the call; the jump leaves it as the caller did.
    naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {real}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "and esi, {kept}",
        "jmp rax",
        real = sym real_dlopen,
        kept = const !libc::RTLD_DEEPBIND,
    )
}

/// Another namespace has a libc of its own and none of the hooks; there the flag changes nothing and stays.
///
/// # Safety
/// As the function of the same name in libc.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dlmopen(namespace: c_long, file: *const c_char, flags: c_int) -> *mut c_void {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "call {real}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rdi, rdi",
        "jnz 2f",
        "and edx, {kept}",
        "2:",
        "jmp rax",
        real = sym real_dlmopen,
        kept = const !libc::RTLD_DEEPBIND,
    )
}

/// Version of libc's own definitions of `dlsym` and `mmap` on this architecture.
const FIRST: &std::ffi::CStr = c"GLIBC_2.2.5";

/// Returns libc's definition of a function, which a search by name alone would not find behind the hook.
fn in_libc(name: &std::ffi::CStr) -> *mut c_void {
    // SAFETY: both are C strings.
    unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), FIRST.as_ptr()) }
}

/// Returns libc's `dlsym`.
extern "C" fn real_dlsym() -> *mut c_void {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let found = FOUND.load(Ordering::Relaxed);
    if !found.is_null() {
        return found;
    }
    let found = in_libc(c"dlsym");
    FOUND.store(found, Ordering::Relaxed);
    found
}

/// Returns the hook of a function that a program looks for in libc itself; null if it is to get what it asks for.
///
/// # Safety
/// `name` is a C string.
unsafe extern "C" fn hook_of(library: *mut c_void, name: *const c_char) -> *mut c_void {
    if library == libc::RTLD_DEFAULT || library == libc::RTLD_NEXT || name.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: as the caller vouches for.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    if name != c"mmap" && name != c"mmap64" {
        return std::ptr::null_mut();
    }
    let real = real_dlsym();
    if real.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the symbol has this type; both arguments are the caller's.
    let found = unsafe {
        let dlsym: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void = std::mem::transmute(real);
        dlsym(library, name.as_ptr())
    };
    if found != in_libc(name) || found.is_null() {
        return std::ptr::null_mut();
    }
    map::mmap as *const () as *mut c_void
}

/// # Safety
/// As the function of the same name in libc.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {hook}",
        "test rax, rax",
        "jnz 2f",
        "call {real}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        "2:",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "ret",
        hook = sym hook_of,
        real = sym real_dlsym,
    )
}

//! The functions behind the hooks: whatever would have been called without us.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function found by name once, after this library in the search order.
pub(crate) struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address, null if there is none.
    pub(crate) fn address(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: the name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Calls the function behind a hook; `$failure` with ENOSYS if this libc does not have it.
macro_rules! real {
    ($name:literal, $failure:expr, fn($($type:ty),*) -> $result:ty, $($argument:expr),*) => {{
        static REAL: $crate::real::Real = $crate::real::Real::new($name);
        let address = REAL.address();
        if address.is_null() {
            $crate::set_errno(libc::ENOSYS);
            $failure
        } else {
            // SAFETY: the symbol has this type in every libc that defines it; the arguments are the caller's own.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> $result = std::mem::transmute(address);
                function($($argument),*)
            }
        }
    }};
}

pub(crate) use real;

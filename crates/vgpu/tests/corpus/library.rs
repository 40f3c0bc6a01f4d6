//! The host's side of the corpus.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_ulong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::manifest::Input;

type Fill = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, c_long, c_ulong) -> c_int;
type Run = unsafe extern "C" fn(*const c_void, *mut c_void, c_int);

/// `libcorpus.so`, loaded for as long as the tests run.
pub(crate) struct Library(*mut c_void);

// SAFETY: a handle is a name for the library; looking symbols up is safe in any thread.
unsafe impl Sync for Library {}

impl Library {
    pub(crate) fn open(file: &Path) -> Library {
        let name = CString::new(file.as_os_str().as_bytes()).unwrap();
        // SAFETY: the library has no constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{} cannot be loaded", file.display());
        Library(handle)
    }

    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is open.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null(), "{} is not in the library", name.to_string_lossy());
        symbol
    }

    /// An input for a seed.
    pub(crate) fn fill(&self, input: &Input, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; input.bytes()];
        let element = CString::new(input.element.as_str()).unwrap();
        let kind = CString::new(input.fill.as_str()).unwrap();
        let symbol = self.symbol(c"corpus_fill");
        // SAFETY: this is the function's type, and the buffer has room for as many elements of that type.
        let done = unsafe {
            let fill = std::mem::transmute::<*mut c_void, Fill>(symbol);
            fill(bytes.as_mut_ptr().cast(), element.as_ptr(), kind.as_ptr(), input.count as c_long, seed)
        };
        assert_eq!(done, 0, "there is no input of type {} and kind {}", input.element, input.fill);
        bytes
    }

    /// Does on the host what a kernel does.
    pub(crate) fn run(&self, kernel: &str, input: &[u8], output: &mut [u8], items: i32) {
        let symbol = self.symbol(&CString::new(format!("{kernel}_host")).unwrap());
        // SAFETY: every function of that name has this type; the manifest has the sizes it needs.
        unsafe {
            let run = std::mem::transmute::<*mut c_void, Run>(symbol);
            run(input.as_ptr().cast(), output.as_mut_ptr().cast(), items);
        }
    }
}

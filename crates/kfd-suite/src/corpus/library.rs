//! The host's side of the corpus: `libcorpus.so`.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_ulong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use super::error::CorpusError;
use super::manifest::Input;

type Fill = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, c_long, c_ulong) -> c_int;
type Run = unsafe extern "C" fn(*const c_void, *mut c_void, c_int);

/// The library, loaded until the program ends.
#[derive(Debug)]
pub struct Library {
    path: PathBuf,
    handle: NonNull<c_void>,
}

// SAFETY: a handle is a name for the library; looking symbols up is safe in any thread.
unsafe impl Send for Library {}
// SAFETY: looking symbols up is safe in any thread. Its functions share nothing but one buffer for local memory, which
// `run` guards.
unsafe impl Sync for Library {}

/// Kernels that work in groups keep their local memory in a variable of the library.
static RUNNING: std::sync::Mutex<()> = std::sync::Mutex::new(());

impl Library {
    /// Loads the library.
    ///
    /// # Errors
    ///
    /// If it is missing or no library of this machine.
    pub fn open(path: &Path) -> Result<Library, CorpusError> {
        let failed = |message: &str| CorpusError::Library { path: path.to_owned(), message: message.to_owned() };
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| failed("its path has a zero byte"))?;
        // SAFETY: the library has no constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        let handle =
            NonNull::new(handle).ok_or_else(|| failed("it cannot be loaded; the corpus's build.sh makes it"))?;
        Ok(Library { path: path.to_owned(), handle })
    }

    fn failed(&self, message: String) -> CorpusError {
        CorpusError::Library { path: self.path.clone(), message }
    }

    fn symbol(&self, name: &CStr) -> Result<NonNull<c_void>, CorpusError> {
        // SAFETY: the handle stays open.
        let symbol = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        NonNull::new(symbol).ok_or_else(|| self.failed(format!("it has no {}", name.to_string_lossy())))
    }

    fn text(&self, text: &str) -> Result<CString, CorpusError> {
        CString::new(text).map_err(|_| self.failed(format!("{text:?} has a zero byte")))
    }

    /// Returns the input for a seed.
    ///
    /// # Errors
    ///
    /// If the library does not know the type or kind.
    pub fn fill(&self, input: &Input, seed: u64) -> Result<Vec<u8>, CorpusError> {
        let mut bytes = vec![0; input.bytes()];
        let (element, kind) = (self.text(&input.element)?, self.text(&input.fill)?);
        let symbol = self.symbol(c"corpus_fill")?;
        // SAFETY: this is the function's type, and the buffer has room for as many elements of that type.
        let done = unsafe {
            let fill = std::mem::transmute::<*mut c_void, Fill>(symbol.as_ptr());
            fill(bytes.as_mut_ptr().cast(), element.as_ptr(), kind.as_ptr(), input.count as c_long, seed)
        };
        if done != 0 {
            return Err(self.failed(format!("it has no input of type {} and kind {}", input.element, input.fill)));
        }
        Ok(bytes)
    }

    /// Runs the host's version of a kernel. `input` and `output` have the sizes of its manifest.
    ///
    /// # Errors
    ///
    /// If the library does not have the kernel.
    pub fn run(&self, kernel: &str, input: &[u8], output: &mut [u8], items: i32) -> Result<(), CorpusError> {
        let symbol = self.symbol(&self.text(&format!("{kernel}_host"))?)?;
        let _running = RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: every function of that name has this type; the manifest has the sizes it needs, and the lock keeps
        // its static buffer to one caller.
        unsafe {
            let run = std::mem::transmute::<*mut c_void, Run>(symbol.as_ptr());
            run(input.as_ptr().cast(), output.as_mut_ptr().cast(), items);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_its_remedy() {
        let said = Library::open(Path::new("/nonexistent/libcorpus.so")).unwrap_err().to_string();
        assert!(said.contains("/nonexistent/libcorpus.so") && said.contains("build.sh"), "{said}");
    }
}

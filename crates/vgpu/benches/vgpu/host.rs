//! The host's version of the kernels, compiled now by the compiler that made the kernels.

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

const SOURCE: &str = include_str!("host.c");
const COMPILER: &str = "clang-19";
const OPTIONS: [&str; 6] = ["-O2", "-fno-vectorize", "-fno-slp-vectorize", "-std=c11", "-shared", "-fPIC"];

/// Compiled functions; see `host.c`.
pub(crate) struct Host {
    /// `sum = a + b`.
    pub(crate) vadd: unsafe extern "C" fn(*const f32, *const f32, *mut f32, u32),
    /// `c = a * b`.
    pub(crate) matmul: unsafe extern "C" fn(*const f32, *const f32, *mut f32, u32),
    /// Rows and columns come last.
    pub(crate) softmax: unsafe extern "C" fn(*const f32, *mut f32, u32, u32),
}

impl Host {
    /// Compiles and loads them. They stay loaded.
    pub(crate) fn compile() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
        let (source, library) = (directory.path().join("host.c"), directory.path().join("libhost.so"));
        std::fs::write(&source, SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
        let compiled = Command::new(COMPILER).args(OPTIONS).arg(&source).arg("-o").arg(&library).arg("-lm").output();
        let compiled = compiled.map_err(|error| format!("{COMPILER} is needed for the host's side: {error}"))?;
        if !compiled.status.success() {
            return Err(format!("{COMPILER} failed: {}", String::from_utf8_lossy(&compiled.stderr).trim()));
        }
        let path = CString::new(library.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the library is the one just compiled; it has no constructors.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return Err(format!("{} cannot be loaded", library.display()));
        }
        let find = |name: &std::ffi::CStr| -> Result<*mut c_void, String> {
            // SAFETY: the handle is open.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            if found.is_null() { Err(format!("host.c has no {}", name.to_string_lossy())) } else { Ok(found) }
        };
        let (vadd, matmul, softmax) = (find(c"vadd")?, find(c"matmul")?, find(c"softmax")?);
        // SAFETY: the types are those of the definitions in host.c.
        unsafe {
            Ok(Self {
                vadd: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const f32, *const f32, *mut f32, u32)>(
                    vadd,
                ),
                matmul: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const f32, *const f32, *mut f32, u32)>(
                    matmul,
                ),
                softmax: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const f32, *mut f32, u32, u32)>(
                    softmax,
                ),
            })
        }
    }
}

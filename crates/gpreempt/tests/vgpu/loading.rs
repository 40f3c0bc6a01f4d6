//! Libraries that a program loads while it runs.

use std::ffi::{CString, c_int};
use std::path::Path;
use std::process::Command;

use gpreempt_testkit::this_test;

use super::faults::on_the_gpu;

/// Compiles a library.
fn compile(folder: &Path, name: &str, source: &str, flags: &[&str]) {
    let (from, to) = (folder.join(format!("{}.c", name.replace('/', "-"))), folder.join(name));
    std::fs::create_dir_all(to.parent().expect("in the folder")).expect("a folder");
    std::fs::write(&from, source).expect("can be written");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-D_GNU_SOURCE", "-o"]).args([&to, &from]).args(flags);
    assert!(compiler.status().expect("cc is installed").success());
}

/// Calls a function of a library that is loaded so that it prefers its own dependencies. Not 0 if it cannot be loaded.
fn call(load: impl FnOnce(*const libc::c_char, c_int) -> *mut libc::c_void, library: &Path) -> c_int {
    let path = CString::new(library.to_str().expect("text")).expect("text");
    // SAFETY: the libraries of these tests define `act` with this type and stay loaded.
    unsafe {
        let library = load(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_DEEPBIND);
        assert!(!library.is_null(), "{path:?} cannot be loaded");
        let act = libc::dlsym(library, c"act".as_ptr());
        assert!(!act.is_null());
        std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> c_int>(act)()
    }
}

/// Opens the gpu.
const OPENS: &str = "#include <fcntl.h>\nint act(void) { return open(\"/dev/kfd\", O_RDWR) < 0; }\n";
/// Loads another library, found through this one's own search path, and lets that open the gpu.
const LOADS: &str = "#include <dlfcn.h>\nint act(void) { void *next = dlopen(\"libnext.so\", RTLD_NOW | \
                     RTLD_DEEPBIND); return !next || ((int (*)(void))dlsym(next, \"act\"))(); }\n";

#[test]
#[ignore = "needs a C compiler"]
fn a_library_that_prefers_its_own_dependencies_finds_the_gpu() {
    on_the_gpu(this_test!(), || {
        let folder = tempfile::tempdir().expect("a folder");
        compile(folder.path(), "libopens.so", OPENS, &[]);
        compile(folder.path(), "libother.so", OPENS, &[]);
        // SAFETY: the path is a C string, and the library's constructors do nothing.
        assert_eq!(call(|path, flags| unsafe { libc::dlopen(path, flags) }, &folder.path().join("libopens.so")), 0);
        // SAFETY: the same, in the namespace of this program.
        let in_own_namespace = |path, flags| unsafe { libc::dlmopen(libc::LM_ID_BASE, path, flags) };
        assert_eq!(call(in_own_namespace, &folder.path().join("libother.so")), 0);
        Ok(())
    });
}

#[test]
#[ignore = "needs a C compiler"]
fn a_library_finds_others_through_its_own_search_path() {
    on_the_gpu(this_test!(), || {
        let folder = tempfile::tempdir().expect("a folder");
        compile(folder.path(), "libloads.so", LOADS, &["-Wl,--enable-new-dtags,-rpath,$ORIGIN/below"]);
        compile(folder.path(), "below/libnext.so", OPENS, &[]);
        // SAFETY: the path is a C string, and the library's constructors do nothing.
        assert_eq!(call(|path, flags| unsafe { libc::dlopen(path, flags) }, &folder.path().join("libloads.so")), 0);
        Ok(())
    });
}

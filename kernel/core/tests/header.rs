//! `gpreempt_core.h` agrees with this crate: a C compiler compares structures, constants and the types of functions.

use std::ffi::{c_int, c_void};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpreempt_kernel_abi::{RawGpuParams, RawJobParams};
use gpreempt_kernel_core::*;

/// A type that crosses the interface, as C spells it.
trait CType {
    fn c() -> String;
}

macro_rules! c_types {
    ($($rust:ty = $c:literal;)*) => {$(
        impl CType for $rust {
            fn c() -> String {
                $c.to_owned()
            }
        }
    )*};
}

c_types! {
    u32 = "u32";
    u64 = "u64";
    i64 = "s64";
    c_int = "int";
    bool = "bool";
    usize = "size_t";
    c_void = "void";
    Gpc = "struct gpc";
    GpcProbe = "struct gpc_probe";
    GpcLook = "struct gpc_look";
    GpcEntry = "struct gpc_entry";
    GpcReport = "struct gpc_report";
    GpcJobState = "struct gpc_job_state";
    GpcGpuState = "struct gpc_gpu_state";
    GpcRing = "struct gpc_ring";
    GpcMemory = "struct gpc_memory";
    GpcActivity = "struct gpc_activity";
    RawGpuParams = "struct gpreempt_gpu_params";
    RawJobParams = "struct gpreempt_job_params";
}

impl<T: CType> CType for *mut T {
    fn c() -> String {
        format!("{} *", T::c())
    }
}

impl<T: CType> CType for *const T {
    fn c() -> String {
        format!("const {} *", T::c())
    }
}

/// A function, as C spells the type of a pointer to it.
trait CFunction {
    fn c(&self) -> String;
}

macro_rules! c_functions {
    ($(($($argument:ident),*))*) => {$(
        impl<R: CType, $($argument: CType),*> CFunction for unsafe extern "C" fn($($argument),*) -> R {
            fn c(&self) -> String {
                let arguments: Vec<String> = vec![$($argument::c()),*];
                format!("{} (*)({})", R::c(), arguments.join(", "))
            }
        }
    )*};
}
c_functions! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

/// Names and types of functions; the number of arguments is written as underscores.
macro_rules! functions {
    ($($name:ident($($argument:tt),*);)*) => {
        vec![$((stringify!($name), ($name as unsafe extern "C" fn($($argument),*) -> _).c())),*]
    };
}

fn functions() -> Vec<(&'static str, String)> {
    functions! {
        gpc_size(_, _, _);
        gpc_init(_, _, _, _, _);
        gpc_set_gpu(_, _, _);
        gpc_remove_gpu(_, _);
        gpc_set_resetting(_, _, _);
        gpc_add_job(_, _, _);
        gpc_set_job(_, _, _);
        gpc_hold(_, _, _);
        gpc_remove_job(_, _);
        gpc_add_tenant(_, _, _, _, _);
        gpc_set_stoppable(_, _, _);
        gpc_remove_tenant(_, _);
        gpc_observe(_, _, _);
        gpc_decide(_, _, _, _, _);
        gpc_report(_, _, _, _);
        gpc_job_state(_, _, _);
        gpc_gpu_state(_, _, _);
        gpc_wants_occupancy(_, _);
        gpc_could_displace(_, _, _, _);
        gpc_could_throttle(_, _, _);
        gpc_probe_size(_);
        gpc_probe_init(_, _, _);
        gpc_probe_set_rings(_, _, _);
        gpc_probe_poll(_, _, _, _, _);
        gpc_probe_sampled(_, _, _, _, _, _);
        gpc_probe_index(_);
        gpc_probe_refute(_);
    }
}

/// Size of a structure, and offset and size of its fields.
macro_rules! structure {
    ($rows:ident, $c:literal, $name:ident { $($field:ident),* $(,)? }) => {
        $rows.push((concat!("sizeof(struct ", $c, ")").to_owned(), size_of::<$name>()));
        $(
            let field = stringify!($field);
            let offset = std::mem::offset_of!($name, $field);
            $rows.push((format!("offsetof(struct {}, {field})", $c), offset));
            let size = size_of_field(|value: &$name| &value.$field);
            $rows.push((format!("sizeof(((struct {} *)0)->{field})", $c), size));
        )*
    };
}

fn size_of_field<S, F>(_: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

fn structures() -> Vec<(String, usize)> {
    let mut rows = Vec::new();
    structure!(rows, "gpc_look", GpcLook { at_ns, since_ns, activity, occupancy, queues, stopped, reserved });
    structure!(rows, "gpc_entry", GpcEntry { number, tenant, job, cause, gpu, preempt, reason, bound, after_ns });
    structure!(rows, "gpc_report", GpcReport { at_ns, took_ns, cycles, stopped });
    structure!(rows, "gpc_job_state", GpcJobState { cause, stopped_at_ns, stopped, reason, works, reserved });
    structure!(rows, "gpc_gpu_state", GpcGpuState { holder, cycle_ns, cycles, measured, overcommitted });
    structure!(rows, "gpc_ring", GpcRing { base, bytes, read_index, write_index, is_aql, reserved });
    structure!(rows, "gpc_memory", GpcMemory { read, context });
    structure!(rows, "gpc_activity", GpcActivity { activity, unsure, since_ns, pending });
    rows
}

fn kernel(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

#[test]
fn every_function_and_field_of_the_header_is_compared() {
    let header = std::fs::read_to_string(kernel("core/gpreempt_core.h")).expect("the header");
    for (name, _) in functions() {
        assert!(header.contains(&format!("{name}(")), "{name} is not declared");
    }
    let declared =
        header.lines().filter(|line| line.contains(" gpc_") && line.contains('(') && !line.starts_with(" *"));
    assert_eq!(declared.count(), functions().len());
    let fields =
        header.lines().filter(|line| line.starts_with('\t') && line.ends_with(';') && !line.starts_with("\t\t"));
    assert_eq!(fields.count(), structures().iter().filter(|(row, _)| row.starts_with("offsetof")).count());
}

#[test]
#[ignore = "needs a C compiler"]
fn the_header_agrees() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    // What the kernel's own header has beyond that for programs.
    write(
        "linux/types.h",
        "#pragma once\n#include_next <linux/types.h>\n#include <stdbool.h>\n#include <stddef.h>\n\
         typedef __u16 u16; typedef __u32 u32; typedef __s32 s32;\n\
         typedef unsigned long long u64; typedef long long s64;\n",
    );
    let mut program = String::from("#include \"gpreempt_core.h\"\n");
    for (expression, expected) in structures() {
        writeln!(program, "_Static_assert({expression} == {expected}, \"is not {expected}\");").expect("text");
    }
    for (name, expected) in functions() {
        writeln!(
            program,
            "_Static_assert(__builtin_types_compatible_p(__typeof__(&{name}), {expected}), \"{name} is {expected}\");"
        )
        .expect("text");
    }
    for (name, number) in [("READ_GONE", 1), ("READ_AWAY", 2), ("INDEX_RETIRES", 1), ("INDEX_REFUTED", 2)] {
        writeln!(program, "_Static_assert(GPC_{name} == {number}, \"GPC_{name}\");").expect("text");
    }
    write("agrees.c", &program);
    let output = Command::new("cc")
        .args(["-std=gnu11", "-fsyntax-only", "-I"])
        .arg(folder.path())
        .arg("-I")
        .arg(kernel("core"))
        .arg("-I")
        .arg(kernel("gpreempt/uapi"))
        .arg(folder.path().join("agrees.c"))
        .output()
        .expect("cc is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

//! Small objects with one mistake each: checks that found nothing there would prove nothing about the core.

use super::*;

/// Compiles and links a text that exports `probe`, and returns what fails.
fn failures(body: &str, functions: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("probe.rs");
    fs::write(&source, format!("#![no_std]\n{body}\n")).unwrap();
    let library = library(folder.path(), "probe");
    run_quietly(rustc().args(["--crate-name", "probe"]).arg(&source).arg("-o").arg(&library)).unwrap();
    let object = folder.path().join("probe.o");
    let functions: Vec<String> = functions.iter().map(ToString::to_string).collect();
    link(&[library], &functions, &object).unwrap();
    let facts = Facts::read(&object, &with_frames(&object)).unwrap();
    let checks = judge::judge(&facts, &functions);
    checks.into_iter().filter(|check| !check.passed).map(|check| format!("{}: {}", check.what, check.found)).collect()
}

/// Expects that one check fails, and says this.
#[track_caller]
fn noticed(body: &str, what: &str, found: &str) {
    let failures = failures(body, &["gpc_probe"]);
    let [failure] = &failures[..] else { panic!("{failures:?}") };
    assert!(failure.starts_with(what) && failure.contains(found), "{failure}");
}

const FUNCTION: &str = "#[unsafe(no_mangle)] pub extern \"C\" fn gpc_probe";

#[test]
fn a_harmless_function_passes() {
    let body = format!("{FUNCTION}(a: &mut [u64; 9], f: fn()) {{ *a = [7; 9]; f(); a[3] = 1 }}");
    assert_eq!(failures(&body, &["gpc_probe"]), [""; 0]);
}

#[test]
fn vector_and_floating_point_registers_are_noticed() {
    for (instruction, register) in [("addps xmm0, xmm1", "%xmm1"), ("fadd st(0), st(1)", "%st"), ("fld1", "fld1")] {
        let body = format!("{FUNCTION}() {{ unsafe {{ core::arch::asm!(\"{instruction}\") }} }}");
        noticed(&body, "no floating point", register);
    }
}

#[test]
fn plain_returns_and_indirect_jumps_are_noticed() {
    for (instruction, found) in [("ret", "ret"), ("jmp rax", "*%rax"), ("call [rax]", "*(%rax)")] {
        let body = format!("{FUNCTION}() {{ unsafe {{ core::arch::asm!(\"{instruction}\") }} }}");
        noticed(&body, "returns and indirect jumps", found);
    }
}

#[test]
fn a_panic_is_noticed() {
    let body = format!("{FUNCTION}(s: &[u64; 4], i: usize) -> u64 {{ s[i] }}");
    noticed(&body, "uses only what the kernel has", "panic");
}

#[test]
fn a_function_of_another_library_is_noticed() {
    let body = format!("unsafe extern \"C\" {{ fn printk(); }}\n{FUNCTION}() {{ unsafe {{ printk() }} }}");
    noticed(&body, "uses only what the kernel has", "printk");
}

#[test]
fn relocations_that_modules_cannot_have_are_noticed() {
    let body = format!("{FUNCTION}() {{ unsafe {{ core::arch::asm!(\"mov rax, [rip + memcpy@GOTPCREL]\") }} }}");
    noticed(&body, "relocations", "type ");
}

#[test]
fn a_table_on_the_stack_is_noticed() {
    let body = format!("{FUNCTION}(f: fn(&mut [u64; 200])) {{ f(&mut [7; 200]) }}");
    noticed(&body, "frames of at most 1 KiB", "gpc_probe takes 16");
}

#[test]
fn writable_data_is_noticed() {
    let body = format!(
        "use core::sync::atomic::*;\nstatic COUNT: AtomicU64 = AtomicU64::new(5);\n\
         {FUNCTION}() -> u64 {{ COUNT.fetch_add(1, Ordering::Relaxed) }}"
    );
    noticed(&body, "no writable data", ".data");
}

#[test]
fn functions_that_are_missing_and_functions_that_no_header_declares_are_noticed() {
    let facts = Facts {
        exported: ["gpc_one", "gpc_two"].map(String::from).into(),
        frames: vec![("gpc_one".to_owned(), 8)],
        ..Facts::default()
    };
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(judge::judge(&facts, &names(&["gpc_one", "gpc_two"])).iter().all(|check| check.passed));
    for (declared, found) in
        [(&["gpc_one"][..], "gpc_two is not"), (&["gpc_one", "gpc_two", "gpc_three"], "gpc_three is")]
    {
        let checks = judge::judge(&facts, &names(declared));
        let failed: Vec<_> = checks.iter().filter(|check| !check.passed).collect();
        assert!(failed.len() == 1 && failed[0].found.contains(found), "{failed:?}");
    }
}

#[test]
fn the_functions_of_a_header_are_found() {
    let header =
        "/* gpc_not(this) */\nint gpc_b(struct gpc *gpc,\n\t   u32 a);\nsize_t gpc_a(void);\nint (*read)(void *);\n";
    assert_eq!(judge::functions(header), ["gpc_a", "gpc_b"]);
    assert!(CORE.functions().unwrap().contains(&"gpc_decide".to_owned()));
    assert_eq!(EXERCISE.functions().unwrap(), ["gpcx_init", "gpcx_result", "gpcx_run", "gpcx_size"]);
}

#[test]
fn the_notice_names_the_licences() {
    let notice = notice_text().unwrap();
    for part in ["MIT", "libcore", "Permission is hereby granted", "Apache-2.0"] {
        assert!(notice.contains(part), "{notice}");
    }
}

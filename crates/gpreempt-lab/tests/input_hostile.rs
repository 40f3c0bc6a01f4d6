//! No file, however broken, makes the laboratory panic or hang.

use std::fs;
use std::path::Path;

use gpreempt_lab::input::{InputError, MAX_FILE_BYTES};
use gpreempt_lab::{Profile, Workload};

fn path(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

#[test]
fn a_directory_is_not_a_file() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let error = Workload::load(path(folder.path())).expect_err("a directory");
    let said = error.to_string();
    assert!(said.contains("it is a directory; name the file in it"), "{said}");
}

#[test]
fn a_file_over_the_limit_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("big.toml");
    // A sparse file: it takes no space.
    let big = fs::File::create(&file).expect("a writable file");
    big.set_len(MAX_FILE_BYTES + 1).expect("a sparse file");
    let error = Profile::load(path(&file)).expect_err("too large");
    assert!(matches!(error, InputError::Unreadable { .. }));
    assert!(error.to_string().contains("larger than 64 MiB"), "{error}");
}

#[test]
fn an_endless_device_is_refused() {
    let error = Workload::load("/dev/zero").expect_err("endless");
    assert!(error.to_string().contains("larger than 64 MiB"), "{error}");
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_place() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("binary.toml");
    fs::write(&file, b"seconds = 1\nname = \"\xff\"\n").expect("a writable file");
    let error = Workload::load(path(&file)).expect_err("not text");
    let expected = "not UTF-8 text (line 2, column 9)";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn an_empty_name_and_a_missing_file_are_not_found() {
    for name in ["", "/no/such/file", "no\0such"] {
        let error = Workload::load(name).expect_err("nothing there");
        assert!(matches!(error, InputError::NotFound { .. }), "{error}");
    }
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("marked.toml");
    let text = format!("\u{feff}{}", Workload::builtins()[0].text);
    fs::write(&file, text).expect("a writable file");
    assert!(Workload::load(path(&file)).is_ok());
}

/// Many truncations and edits of valid files: each is refused or still means something, none panics.
#[test]
fn damaged_files_are_refused_or_read() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let json = r#"{ "time": 1, "tasks": [ { "id": "a", "load": { "type": "trace", "trace": [1, 2] },
                    "client": { "model_name": "vgg" } } ] }"#;
    let samples = [
        ("sample.toml", Workload::builtins()[0].text),
        ("sample.json", json),
        ("profile.toml", Profile::builtins()[0].text),
    ];
    let mut refused = 0;
    for (name, text) in samples {
        let file = folder.path().join(name);
        let load = |text: &[u8]| {
            fs::write(&file, text).expect("a writable file");
            if name == "profile.toml" {
                Profile::load(path(&file)).is_err()
            } else {
                Workload::load(path(&file)).is_err()
            }
        };
        let bytes = text.as_bytes();
        for end in (0..bytes.len()).step_by(29) {
            refused += usize::from(load(&bytes[..end]));
        }
        for position in (0..bytes.len()).step_by(37) {
            for byte in [b'"', b'-', b'[', b'9', b'\n', 0xff] {
                let mut damaged = bytes.to_vec();
                damaged[position] = byte;
                refused += usize::from(load(&damaged));
            }
        }
    }
    assert!(refused > 300, "only {refused} damaged files were refused");
}

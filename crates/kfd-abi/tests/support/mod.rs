//! A list of numbers that C and Rust must agree on, and the C program that says them.

use std::collections::HashMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints past the test harness, which would swallow the output of a test that passes.
pub(crate) fn notice(text: &str) {
    // A closed stderr cannot be reported.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The numbers.
#[derive(Default)]
pub(crate) struct Rows(Vec<Row>);

struct Row {
    /// Minor version of the interface that has it.
    since: u32,
    /// Macro that must be defined for the header to have it.
    defined: Option<String>,
    expression: String,
    expected: u64,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// An expression that every header from this minor version on knows.
    pub(crate) fn since(&mut self, since: u32, expression: &str, expected: impl Into<u64>) {
        self.0.push(Row { since, defined: None, expression: expression.to_string(), expected: expected.into() });
    }

    /// A macro, which the header is asked for.
    pub(crate) fn defined(&mut self, since: u32, name: &str, expected: impl Into<u64>) {
        let defined = Some(name.to_string());
        self.0.push(Row { since, defined, expression: name.to_string(), expected: expected.into() });
    }

    fn program(&self) -> String {
        let mut text = String::from(
            "#include <stddef.h>\n#include <stdio.h>\n#include <linux/kfd_ioctl.h>\n#include <linux/kfd_sysfs.h>\n\
             int main(void) {\nprintf(\"version %u\\n\", (unsigned)KFD_IOCTL_MINOR_VERSION);\n",
        );
        for (index, row) in self.0.iter().enumerate() {
            let defined = row.defined.as_ref().map_or(String::new(), |name| format!(" && defined({name})"));
            // Masks with bit 31 are negative in C; only 64-bit values may keep what is above.
            let cast = if row.expected > u64::from(u32::MAX) { "unsigned long long" } else { "unsigned int" };
            let Row { since, expression, .. } = row;
            let _ = writeln!(text, "#if KFD_IOCTL_MINOR_VERSION >= {since}{defined}");
            let _ = writeln!(text, "printf(\"{index} %llu\\n\", (unsigned long long)({cast})({expression}));\n#endif");
        }
        text.push_str("return 0;\n}\n");
        text
    }
}

/// Size and all listed fields of a structure.
#[macro_export]
macro_rules! structure {
    ($rows:ident, $since:literal, $c:literal, $name:ident { $($field:ident $(as $other:literal)?),* }) => {
        $rows.since($since, concat!("sizeof(struct ", $c, ")"), size_of::<$name>() as u64);
        $crate::fields!($rows, $since, $c, $name { $($field $(as $other)?),* });
    };
}

/// Listed fields of a structure.
#[macro_export]
macro_rules! fields {
    ($rows:ident, $since:literal, $c:literal, $name:ident { $($field:ident $(as $other:literal)?),* }) => {$(
        #[allow(unused_mut, unused_assignments, reason = "only some fields have another name in C")]
        {
            let mut c_name = stringify!($field);
            $(c_name = $other;)?
            let expression = format!("offsetof(struct {}, {c_name})", $c);
            $rows.since($since, &expression, std::mem::offset_of!($name, $field) as u64);
        }
    )*};
}

/// All values of an enumeration, named in C with this prefix.
#[macro_export]
macro_rules! enumeration {
    ($rows:ident, $since:literal, $prefix:literal, $name:path) => {{
        use $name as Enumeration;
        for value in Enumeration::DEFINED {
            $rows.since($since, &format!("{}{}", $prefix, value.name().unwrap_or_default()), value.0);
        }
    }};
}

/// All flags of a set that are macros with this prefix.
#[macro_export]
macro_rules! flag_set {
    ($rows:ident, $prefix:literal, $name:path) => {{
        use $name as Flags;
        for (flag, name) in Flags::NAMES {
            $rows.defined(1, &format!("{}{name}", $prefix), flag.0);
        }
    }};
}

/// A header and a compiler for it.
pub(crate) struct Header {
    include: PathBuf,
    compiler: String,
}

impl Header {
    /// The header of `KFD_ABI_INCLUDE`, or the installed one; what is missing otherwise.
    pub(crate) fn find() -> Result<Header, String> {
        let include = env::var_os("KFD_ABI_INCLUDE").map_or_else(|| PathBuf::from("/usr/include"), PathBuf::from);
        let header = include.join("linux/kfd_ioctl.h");
        if !header.exists() {
            return Err(format!("no {}", header.display()));
        }
        let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_string());
        match Command::new(&compiler).arg("--version").output() {
            Ok(answer) if answer.status.success() => Ok(Header { include, compiler }),
            _ => Err(format!("no C compiler {compiler}")),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.include.join("linux/kfd_ioctl.h").display().to_string()
    }

    /// Compares all rows the header has: its minor version, and how many they were.
    pub(crate) fn compare(&self, rows: &Rows) -> (u32, usize) {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("header-{}", std::process::id()));
        let (source, program) = (directory.join("say.c"), directory.join("say"));
        // The header includes <drm/drm.h> for the integer types only, and distributions ship that file apart from it.
        fs::create_dir_all(directory.join("drm")).expect("a directory is made");
        fs::write(directory.join("drm/drm.h"), "#include <linux/types.h>\n").expect("a stand-in is written");
        fs::write(&source, rows.program()).expect("the program is written");
        let built = Command::new(&self.compiler)
            .arg("-I")
            .arg(&self.include)
            .arg("-idirafter")
            .arg(&directory)
            .args([&source, Path::new("-o"), &program])
            .output()
            .expect("the compiler runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let answer = Command::new(&program).output().expect("the program runs");
        let answer = String::from_utf8(answer.stdout).expect("the program prints text");
        fs::remove_dir_all(&directory).expect("the directory is removed");

        let said: HashMap<&str, u64> = answer
            .lines()
            .map(|line| line.split_once(' ').expect("a key and a number"))
            .map(|(key, number)| (key, number.parse().expect("a number")))
            .collect();
        let mut wrong = String::new();
        let mut compared = 0;
        for (index, row) in rows.0.iter().enumerate() {
            let Some(&number) = said.get(index.to_string().as_str()) else { continue };
            compared += 1;
            if number != row.expected {
                let _ = writeln!(wrong, "{} is {number:#x}, not {:#x}", row.expression, row.expected);
            }
        }
        assert!(wrong.is_empty(), "{} disagrees:\n{wrong}", self.name());
        (said["version"] as u32, compared)
    }
}

//! What a machine needs before the tests can run: a list of requirements, each installed only if it is missing.

use anyhow::{Context, Result, bail};

use crate::rocm;
use crate::run::command;

/// One thing a machine needs.
struct Requirement {
    name: &'static str,
    /// What is there, or why that is not enough.
    check: fn() -> Result<String>,
    /// How to install it, if we may.
    install: Option<Install>,
}

/// How something is installed.
enum Install {
    /// By a command.
    Command(&'static [&'static str]),
    /// By a function of ours.
    Function(fn() -> Result<()>),
}

impl Install {
    fn run(&self) -> Result<()> {
        match self {
            Install::Command(words) => {
                version(words).map(|_| ()).with_context(|| format!("install it with `{}`", words.join(" ")))
            }
            Install::Function(install) => install(),
        }
    }

    /// What it does, in words.
    fn description(&self) -> String {
        match self {
            Install::Command(words) => format!("running `{}`", words.join(" ")),
            Install::Function(_) => "downloading it".to_string(),
        }
    }
}

const REQUIREMENTS: &[Requirement] = &[
    Requirement { name: "Rust toolchain", check: toolchain, install: None },
    Requirement {
        name: "rustfmt",
        check: || version(&["cargo", "fmt", "--version"]),
        install: Some(Install::Command(&["rustup", "component", "add", "rustfmt"])),
    },
    Requirement {
        name: "clippy",
        check: || version(&["cargo", "clippy", "--version"]),
        install: Some(Install::Command(&["rustup", "component", "add", "clippy"])),
    },
    Requirement {
        name: "clang 19 for amdgcn",
        check: || version(&["clang-19", "--version"]),
        install: Some(Install::Command(LLVM)),
    },
    Requirement {
        name: "llvm-mc 19",
        check: || version(&["llvm-mc-19", "--version"]),
        install: Some(Install::Command(LLVM)),
    },
    Requirement {
        name: "lld 19",
        check: || version(&["ld.lld-19", "--version"]),
        install: Some(Install::Command(LLVM)),
    },
    Requirement {
        name: "strace",
        check: || version(&["strace", "--version"]),
        install: Some(Install::Command(DEBUGGERS)),
    },
    Requirement { name: "gdb", check: || version(&["gdb", "--version"]), install: Some(Install::Command(DEBUGGERS)) },
    Requirement { name: "tinygrad", check: || version(TINYGRAD), install: Some(Install::Command(PIP)) },
    Requirement { name: "ROCm of Debian 13", check: rocm::check, install: Some(Install::Function(rocm::install)) },
];

/// Compilers and assembler for gfx942, and the libLLVM that tinygrad compiles with.
const LLVM: &[&str] = &[
    "sh",
    "-c",
    "apt-get -qq -o DPkg::Lock::Timeout=300 update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
     -o DPkg::Lock::Timeout=300 install --no-install-recommends clang-19 llvm-19 lld-19 libllvm19",
];

/// Debuggers that processes may be under, and must be left to.
const DEBUGGERS: &[&str] = &[
    "sh",
    "-c",
    "apt-get -qq -o DPkg::Lock::Timeout=300 update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
     -o DPkg::Lock::Timeout=300 install --no-install-recommends strace gdb",
];

/// The clients that are not ours. The version is fixed because tinygrad's interface moves.
const PIP: &[&str] = &[
    "sh",
    "-c",
    "PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet tinygrad==0.14.0 numpy",
];
const TINYGRAD: &[&str] = &[
    "python3",
    "-c",
    "import numpy, importlib.metadata as m; v = m.version('tinygrad'); print(v); raise SystemExit(v != '0.14.0')",
];

/// Checks all requirements, installs what is missing, and says what it did.
pub(crate) fn setup() -> Result<()> {
    for requirement in REQUIREMENTS {
        satisfy(requirement).with_context(|| format!("{} is missing", requirement.name))?;
    }
    Ok(())
}

fn satisfy(requirement: &Requirement) -> Result<()> {
    let name = requirement.name;
    let reason = match (requirement.check)() {
        Ok(found) => {
            println!("{name}: {found}");
            return Ok(());
        }
        Err(reason) => reason,
    };
    let Some(install) = &requirement.install else {
        return Err(reason);
    };
    println!("{name}: {reason:#}; {}", install.description());
    install.run()?;
    let found = (requirement.check)()?;
    println!("{name}: {found} (installed now)");
    Ok(())
}

/// Runs a command and returns the first line it prints.
fn version(words: &[&str]) -> Result<String> {
    let Some((program, arguments)) = words.split_first() else {
        bail!("there is nothing to run");
    };
    let output = command(program).args(arguments).output().with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("`{}` ended with {}", words.join(" "), output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_string())
}

fn toolchain() -> Result<String> {
    let found = version(&["rustc", "--version"])?;
    let required = env!("CARGO_PKG_RUST_VERSION");
    if !is_at_least(&found, required) {
        bail!("found {found}, expected {required} or newer; install it from https://rustup.rs");
    }
    Ok(found)
}

/// Whether a line such as "rustc 1.95.0 (...)" names at least this version.
fn is_at_least(found: &str, required: &str) -> bool {
    let numbers =
        |version: &str| -> Vec<u32> { version.split(['.', '-']).map_while(|part| part.parse().ok()).collect() };
    let found = found.split_whitespace().nth(1).unwrap_or_default();
    numbers(found) >= numbers(required)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(is_at_least("rustc 1.95.0 (59807616e 2026-04-14)", "1.95"));
        assert!(is_at_least("rustc 1.100.0-nightly (x)", "1.95"));
        assert!(!is_at_least("rustc 1.94.9 (x)", "1.95"));
        assert!(!is_at_least("rustc", "1.95"));
    }

    #[test]
    fn what_is_missing_and_cannot_be_installed_is_an_error() {
        let requirement = Requirement { name: "a unicorn", check: || bail!("there is none"), install: None };
        assert!(satisfy(&requirement).is_err());
        let requirement = Requirement { install: Some(Install::Command(&["no-such-program-anywhere"])), ..requirement };
        let error = satisfy(&requirement).expect_err("cannot be installed");
        assert!(format!("{error:#}").contains("install it with"), "{error:#}");
    }
}

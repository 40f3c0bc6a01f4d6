//! Requirements of the tests, each installed only if it is missing.
//!
//! The plan is printed before anything is installed: what, by which means, and where. Compilers and debuggers come from
//! the system's package manager; everything else stays below `target/`, and the system's Python is not touched.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::rocm::{JAX, ROCM13, ROCM64, ROCM72, Release};
use crate::run::{command, root, run_quietly};

/// One thing the tests need.
struct Requirement {
    name: &'static str,
    /// Returns what was found, or why that is not enough.
    check: fn() -> Result<String>,
    /// How to install it; `None` if that is left to the user.
    install: Option<Install>,
}

/// A way to install something.
enum Install {
    /// A component of the Rust toolchain.
    Rustup(&'static str),
    /// Packages of the distribution, installed into the system.
    Apt(&'static [&'static str]),
    /// Packages of Debian releases and of PyPI, unpacked below `target/`.
    Rocm(&'static Release),
    /// Python packages, in a virtual environment below `target/`.
    Venv(&'static [&'static str]),
}

impl Install {
    /// Says what is installed where.
    fn description(&self) -> String {
        match self {
            Install::Rustup(component) => format!("component {component} into the Rust toolchain, with rustup"),
            Install::Apt(packages) => format!("packages {} into the system, with apt-get", packages.join(" ")),
            Install::Rocm(release) => release.description(),
            Install::Venv(packages) => format!("{} into {}, with pip", packages.join(" "), venv().display()),
        }
    }

    fn run(&self) -> Result<()> {
        match self {
            Install::Rustup(component) => run(&["rustup", "component", "add", component]),
            Install::Apt(packages) => apt(packages),
            Install::Rocm(release) => release.install(),
            Install::Venv(packages) => install_venv(packages),
        }
    }
}

/// Compilers and assembler for gfx942, and the libLLVM that tinygrad compiles with.
const LLVM: Install = Install::Apt(&["clang-19", "llvm-19", "lld-19", "libllvm19"]);
/// Debuggers that tenants of the tests are under.
const DEBUGGERS: Install = Install::Apt(&["strace", "gdb"]);

/// What kernel modules are compiled and packages unpacked with.
const KERNEL_TOOLS: Install = Install::Apt(&["build-essential", "patch", "xz-utils"]);

const REQUIREMENTS: &[Requirement] = &[
    Requirement { name: "Rust toolchain", check: toolchain, install: None },
    Requirement {
        name: "rustfmt",
        check: || version(&["cargo", "fmt", "--version"]),
        install: Some(Install::Rustup("rustfmt")),
    },
    Requirement {
        name: "clippy",
        check: || version(&["cargo", "clippy", "--version"]),
        install: Some(Install::Rustup("clippy")),
    },
    Requirement { name: "clang 19 for amdgcn", check: || version(&["clang-19", "--version"]), install: Some(LLVM) },
    Requirement { name: "llvm-mc 19", check: || version(&["llvm-mc-19", "--version"]), install: Some(LLVM) },
    Requirement { name: "lld 19", check: || version(&["ld.lld-19", "--version"]), install: Some(LLVM) },
    Requirement { name: "strace", check: || version(&["strace", "--version"]), install: Some(DEBUGGERS) },
    Requirement { name: "gdb", check: || version(&["gdb", "--version"]), install: Some(DEBUGGERS) },
    Requirement { name: "make and gcc for kernel modules", check: kernel_tools, install: Some(KERNEL_TOOLS) },
    Requirement {
        name: "shellcheck",
        check: || version(&["shellcheck", "--version"]),
        install: Some(Install::Apt(&["shellcheck"])),
    },
    // Debian ships the module apart from Python. tinygrad, which comes next, is installed with it.
    Requirement { name: "Python's venv", check: venv_module, install: Some(Install::Apt(&["python3-venv"])) },
    Requirement {
        name: "tinygrad",
        check: tinygrad,
        // The version is fixed because tinygrad's interface moves.
        install: Some(Install::Venv(&["tinygrad==0.14.0", "numpy"])),
    },
    Requirement { name: "ROCm 6.1", check: || ROCM13.check(), install: Some(Install::Rocm(&ROCM13)) },
    Requirement { name: "ROCm 6.4", check: || ROCM64.check(), install: Some(Install::Rocm(&ROCM64)) },
    Requirement { name: "ROCm 7.2", check: || ROCM72.check(), install: Some(Install::Rocm(&ROCM72)) },
];

/// What a whole kernel is compiled with, which few need.
const KERNEL_BUILD: Install = Install::Apt(&["build-essential", "xz-utils", "flex", "bison", "bc", "libelf-dev"]);

const KERNEL_REQUIREMENTS: &[Requirement] = &[
    Requirement { name: "make and gcc", check: kernel_tools, install: Some(KERNEL_TOOLS) },
    Requirement { name: "flex", check: || version(&["flex", "--version"]), install: Some(KERNEL_BUILD) },
    Requirement { name: "bison", check: || version(&["bison", "--version"]), install: Some(KERNEL_BUILD) },
    Requirement { name: "bc", check: || version(&["bc", "--version"]), install: Some(KERNEL_BUILD) },
    Requirement { name: "headers of libelf", check: libelf, install: Some(KERNEL_BUILD) },
];

/// What `examples/jax_train.py` and `gpreempt demo --client jax` need beyond that: gigabytes.
const JAX_REQUIREMENT: Requirement =
    Requirement { name: "JAX", check: || JAX.check(), install: Some(Install::Rocm(&JAX)) };

/// Checks all requirements, prints what is missing and where it goes, and installs it unless `plan_only`. JAX is one of
/// them only if it is asked for.
///
/// # Errors
/// If a requirement is missing that cannot be installed.
pub(crate) fn setup(plan_only: bool, jax: bool) -> Result<()> {
    provide(REQUIREMENTS.iter().chain(jax.then_some(&JAX_REQUIREMENT)), plan_only, |line| println!("{line}"))
}

/// Checks and installs what a kernel is compiled with, beyond what modules are compiled with. Says so on stderr.
///
/// # Errors
/// If something is missing that cannot be installed.
pub(crate) fn kernel_build_tools() -> Result<()> {
    provide(KERNEL_REQUIREMENTS.iter(), false, |line| eprintln!("{line}"))
}

/// Checks requirements, says what is missing and where it goes, and installs it unless `plan_only`.
fn provide<'r>(requirements: impl Iterator<Item = &'r Requirement>, plan_only: bool, say: impl Fn(&str)) -> Result<()> {
    let mut missing = Vec::new();
    for requirement in requirements {
        match (requirement.check)() {
            Ok(found) => say(&format!("{}: {found}", requirement.name)),
            Err(reason) => {
                say(&format!("{}: missing ({reason:#})", requirement.name));
                missing.push((requirement, reason));
            }
        }
    }
    if missing.is_empty() {
        say("Nothing to install.");
        return Ok(());
    }
    say("\nAbout to install:");
    for line in plan(missing.iter().map(|(requirement, _)| *requirement)) {
        say(&format!("  {line}"));
    }
    if plan_only {
        return Ok(());
    }
    for (requirement, reason) in missing {
        satisfy(requirement, reason, &say).with_context(|| format!("{} is missing", requirement.name))?;
    }
    Ok(())
}

/// One line for each installation, with the requirements it serves.
fn plan<'r>(missing: impl Iterator<Item = &'r Requirement>) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for requirement in missing {
        let how =
            requirement.install.as_ref().map_or_else(|| "nothing: install it by hand".to_owned(), Install::description);
        match lines.iter_mut().find(|(line, _)| *line == how) {
            Some((_, names)) => names.push(requirement.name),
            None => lines.push((how, vec![requirement.name])),
        }
    }
    lines.into_iter().map(|(how, names)| format!("{how} (for {})", names.join(", "))).collect()
}

fn satisfy(requirement: &Requirement, reason: anyhow::Error, say: impl Fn(&str)) -> Result<()> {
    // One installation may serve several requirements.
    if (requirement.check)().is_ok() {
        return Ok(());
    }
    let Some(install) = &requirement.install else {
        return Err(reason);
    };
    install.run().with_context(|| format!("cannot install {}", install.description()))?;
    let found = (requirement.check)()?;
    say(&format!("{}, now: {found}", requirement.name));
    Ok(())
}

/// The virtual environment of the tests: `$GPREEMPT_VENV`, or `target/venv` of the workspace.
fn venv() -> PathBuf {
    env::var_os("GPREEMPT_VENV").map_or_else(|| root().join("target/venv"), PathBuf::from)
}

/// Checks the programs that `cargo xtask kernel` starts. The compiler is the release's own, as for its kernel.
fn kernel_tools() -> Result<String> {
    for program in ["make", "patch", "xz"] {
        version(&[program, "--version"])?;
    }
    version(&["gcc", "--version"])
}

/// Checks that programs can be compiled with libelf, as objtool is.
fn libelf() -> Result<String> {
    version(&["sh", "-c", "echo '#include <gelf.h>' | gcc -E -x c - > /dev/null && echo found"])
}

/// Checks that virtual environments can be made. The module `venv` alone is not enough: pip comes from `ensurepip`.
fn venv_module() -> Result<String> {
    version(&["python3", "-c", "import ensurepip, venv, platform; print('of Python', platform.python_version())"])
}

fn tinygrad() -> Result<String> {
    let python = venv().join("bin/python");
    let script =
        "import numpy, importlib.metadata as m; v = m.version('tinygrad'); print(v); raise SystemExit(v != '0.14.0')";
    version(&[&python.to_string_lossy(), "-c", script])
}

fn install_venv(packages: &[&str]) -> Result<()> {
    let venv = venv();
    let directory = venv.to_string_lossy().into_owned();
    run(&["python3", "-m", "venv", &directory])?;
    let pip = venv.join("bin/pip").to_string_lossy().into_owned();
    let mut words = vec![pip.as_str(), "install", "--quiet", "--disable-pip-version-check"];
    words.extend(packages);
    run(&words)
}

fn apt(packages: &[&str]) -> Result<()> {
    const WAIT: &str = "DPkg::Lock::Timeout=300";
    run(&["apt-get", "-qq", "-o", WAIT, "update"])?;
    let mut words = vec!["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y", "-o", WAIT, "install"];
    words.push("--no-install-recommends");
    words.extend(packages);
    run(&words)
}

/// Runs an installing command; the error names it and repeats what it printed.
fn run(words: &[&str]) -> Result<()> {
    let Some((program, arguments)) = words.split_first() else {
        bail!("there is nothing to run");
    };
    run_quietly(command(program).args(arguments))
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
        let reason = || anyhow::anyhow!("there is none");
        assert!(satisfy(&requirement, reason(), |_| ()).is_err());
        let requirement = Requirement { install: Some(Install::Rustup("no-such-component")), ..requirement };
        let error = satisfy(&requirement, reason(), |_| ()).expect_err("cannot be installed");
        assert!(format!("{error:#}").contains("cannot install component no-such-component"), "{error:#}");
    }

    #[test]
    fn every_installation_says_where_it_goes() {
        let requirements = REQUIREMENTS.iter().chain(KERNEL_REQUIREMENTS).chain([&JAX_REQUIREMENT]);
        for install in requirements.filter_map(|requirement| requirement.install.as_ref()) {
            let place = match install {
                Install::Rustup(_) => "the Rust toolchain".to_owned(),
                Install::Apt(_) => "the system".to_owned(),
                Install::Rocm(release) => release.directory().display().to_string(),
                Install::Venv(_) => venv().display().to_string(),
            };
            let text = install.description();
            assert!(text.contains(&format!(" into {place}, ")), "{text}");
        }
    }

    #[test]
    fn every_package_of_the_system_is_announced() {
        let lines = plan(REQUIREMENTS.iter()).join("\n");
        let tinygrad = lines.find("tinygrad==").expect("is planned");
        let module = lines.find("python3-venv").expect("is planned");
        assert!(module < tinygrad, "tinygrad needs a virtual environment:\n{lines}");
    }

    #[test]
    fn an_installation_that_serves_several_requirements_is_planned_once() {
        let lines = plan(REQUIREMENTS.iter().filter(|requirement| requirement.name.contains("19")));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].ends_with("(for clang 19 for amdgcn, llvm-mc 19, lld 19)"), "{lines:?}");
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_its_words() {
        let error = run(&["sh", "-c", "echo no luck >&2; exit 3"]).expect_err("fails");
        assert!(format!("{error:#}").contains("no luck"), "{error:#}");
        assert!(run(&["no-such-program-anywhere"]).is_err());
    }
}

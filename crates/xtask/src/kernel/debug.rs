//! `cargo xtask kernel debug`: the scenarios on a kernel of our own that looks for mistakes.
//!
//! Debian's kernel finds no use after free and no lock inversion. This one does, and is small, because it is compiled
//! here: `kernel/guest/debug.config` says what it has. Everything lies in `debug` of the directory of the kernels.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::build::last_lines;
use super::fetch::{self, Fetched, GuestKernel, unpack_source};
use super::scenario::{self, GuestTime, OnDebugKernel, Scenario};
use super::{Selection, directory, lock, remove_left_over, test};
use crate::packages::replace;
use crate::run::{command, root};
use crate::setup::kernel_build_tools;

/// How much longer a guest may take than on Debian's kernel: every access is checked, in an emulator.
const PATIENCE: u64 = 8;
/// Modules of the kernel that ours depend on. Others are not compiled.
const MODULES: [&str; 1] = ["drivers/gpu/drm/scheduler/gpu-sched.ko"];
/// Notes the version of the unpacked source.
const VERSION: &str = ".source-version";
/// Notes what a kernel was compiled from.
const RECIPE: &str = ".recipe";
/// Lines of the compiler's output that an error repeats.
const MOST_LINES: usize = 20;

/// What the kernel looks for beside what `debug.config` names. One excludes the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sanitizer {
    /// Bad accesses.
    Kasan,
    /// Data races.
    Kcsan,
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Sanitizer::Kasan => "kasan",
            Sanitizer::Kcsan => "kcsan",
        }
    }

    /// Returns patterns of lines that any scenario may cause and that are not ours to mend.
    fn known(self) -> &'static [&'static str] {
        match self {
            Sanitizer::Kasan => &[],
            // AMD's: it waits for a fence that firmware writes with plain reads. Our side of it is marked.
            Sanitizer::Kcsan => {
                &["BUG: KCSAN: data-race in amdkfd_fence_wait_timeout [amdgpu] / vmi300_mec_thread [amdgpu]"]
            }
        }
    }

    /// Returns variables for make.
    fn variables(self) -> &'static [&'static str] {
        match self {
            Sanitizer::Kasan => &[],
            // Modules are compiled without it: only they are looked at.
            Sanitizer::Kcsan => &["KCSAN_SANITIZE=n"],
        }
    }
}

/// Compiles the kernel if it is not there, and runs scenarios on it.
///
/// # Errors
/// If something is missing, or a scenario fails.
pub(super) fn debug(kcsan: bool, selection: &Selection) -> Result<()> {
    let begin = Instant::now();
    let sanitizer = if kcsan { Sanitizer::Kcsan } else { Sanitizer::Kasan };
    let selected = scenario::select(scenario::all()?, &selection.scenario, selection.full)?;
    let scenarios = adapted(selected, sanitizer, !selection.scenario.is_empty())?;
    let mut fetched = fetch::fetch(false)?;
    fetched.kernel = kernel(&fetched, sanitizer)?;
    test::run(&fetched, &scenarios, selection, begin)
}

/// Keeps the scenarios that can run, and makes them fit: more time, and processors that run at once.
///
/// # Errors
/// If one that is `named` cannot run.
fn adapted(scenarios: Vec<Scenario>, sanitizer: Sanitizer, named: bool) -> Result<Vec<Scenario>> {
    let mut fitting = Vec::new();
    for scenario in scenarios {
        match obstacle(&scenario, sanitizer) {
            None => fitting.push(adapt(scenario, sanitizer)),
            Some(reason) if named => bail!("{} cannot run on this kernel: {reason}", scenario.name),
            Some(reason) => eprintln!("left out: {} ({reason})", scenario.name),
        }
    }
    Ok(fitting)
}

/// Returns why a scenario cannot run.
fn obstacle(scenario: &Scenario, sanitizer: Sanitizer) -> Option<&'static str> {
    if scenario.executes() {
        return Some("it executes gpu code, which takes too long here");
    }
    match scenario.debug {
        OnDebugKernel::Never => Some("its file says so"),
        OnDebugKernel::Kasan if sanitizer != Sanitizer::Kasan => Some("it is for KASAN"),
        OnDebugKernel::Kcsan if sanitizer != Sanitizer::Kcsan => Some("it is for KCSAN"),
        OnDebugKernel::Also | OnDebugKernel::Kasan | OnDebugKernel::Kcsan => None,
    }
}

/// Gives a scenario more time and processors that run at once. Durations mean nothing then and are not judged; of a
/// scenario in counted time, ranges are not judged either, because they say how often something happens in some time.
fn adapt(mut scenario: Scenario, sanitizer: Sanitizer) -> Scenario {
    let counted = scenario.time == GuestTime::Icount;
    scenario.time = GuestTime::Multi;
    scenario.seconds *= PATIENCE;
    scenario.check.retain(|check| !(check.reads_duration() || counted && check.is_range()));
    scenario.may_log = std::mem::take(&mut scenario.debug_log);
    scenario.may_log.extend(sanitizer.known().iter().map(ToString::to_string));
    scenario
}

/// Returns the kernel, and compiles it if it is not there or was compiled from something else.
fn kernel(fetched: &Fetched, sanitizer: Sanitizer) -> Result<GuestKernel> {
    let begin = Instant::now();
    let everything = directory()?;
    let _lock = lock(&everything)?;
    let place = everything.join("debug");
    let work = place.join(sanitizer.name());
    let output = work.join("kernel");
    let configuration = configuration(sanitizer)?;
    let recipe = recipe(fetched, &place, &configuration)?;
    if fs::read_to_string(work.join(RECIPE)).ok().as_deref() == Some(&recipe) {
        eprintln!("debug kernel: found in {}", work.display());
        return find(&work, &output);
    }
    kernel_build_tools()?;
    fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
    let source = unpack(fetched, &place)?;
    let log = work.join("kernel.log");
    eprintln!("compiling a kernel with {} in {}; this takes a while", sanitizer.name(), output.display());
    configure(&source, &output, &configuration, &log)?;
    let jobs = format!("-j{}", available_parallelism().map_or(1, usize::from));
    let make = |targets: &[&str]| {
        let words: Vec<&str> = [jobs.as_str()].into_iter().chain(sanitizer.variables().iter().copied()).collect();
        make(&source, &output, &[&words, targets].concat(), &log)
    };
    make(&["bzImage"])?;
    make(&MODULES)?;
    copy_modules(&output, &work.join("modules"))?;
    let kernel = find(&work, &output)?;
    fs::write(work.join(RECIPE), recipe).context("cannot note what the kernel was compiled from")?;
    eprintln!("debug kernel {}: compiled ({:.0} s)", kernel.release, begin.elapsed().as_secs_f64());
    Ok(kernel)
}

/// Returns the kernel that make has left.
fn find(work: &Path, output: &Path) -> Result<GuestKernel> {
    let file = output.join("include/config/kernel.release");
    let release = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let image = output.join("arch/x86/boot/bzImage");
    ensure!(image.is_file(), "the kernel was compiled, but there is no {}", image.display());
    Ok(GuestKernel {
        release: release.trim().to_owned(),
        image,
        headers: output.to_owned(),
        modules: work.join("modules"),
        work: Some(work.to_owned()),
    })
}

/// Returns the lines that are given to Kconfig.
fn configuration(sanitizer: Sanitizer) -> Result<String> {
    let mut text = String::new();
    for name in ["debug", sanitizer.name()] {
        let path = root().join("kernel/guest").join(name).with_extension("config");
        text += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(text)
}

/// Describes all that a kernel is made of, and where: its makefiles name the place.
fn recipe(fetched: &Fetched, place: &Path, configuration: &str) -> Result<String> {
    let output = command("gcc").arg("--version").output();
    let compiler = output.context("cannot start gcc; `cargo xtask setup` installs it")?.stdout;
    let compiler = String::from_utf8_lossy(&compiler).lines().next().unwrap_or_default().to_owned();
    Ok(format!("{}\n{compiler}\n{}\n{configuration}", fetched.version, place.display()))
}

/// Unpacks the whole of the kernel's source, if that was not done.
fn unpack(fetched: &Fetched, place: &Path) -> Result<PathBuf> {
    let source = place.join("source");
    if fs::read_to_string(source.join(VERSION)).ok().as_deref() == Some(&fetched.version) {
        return Ok(source);
    }
    eprintln!("unpacking the source of Linux {} into {}", fetched.version, source.display());
    remove_left_over(place)?;
    let [new, old] = ["new", "old"].map(|name| place.join(format!("{name}.{}", std::process::id())));
    unpack_source(&fetched.source_package()?, &new, &[])?;
    fs::write(new.join(VERSION), &fetched.version).context("cannot note the version of the source")?;
    replace(&source, &new, &old)?;
    if old.exists() {
        fs::remove_dir_all(&old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    Ok(source)
}

/// Writes the configuration: what is asked for, and nothing else.
fn configure(source: &Path, output: &Path, configuration: &str, log: &Path) -> Result<()> {
    let wanted = output.join("wanted.config");
    fs::write(&wanted, configuration).with_context(|| format!("cannot write {}", wanted.display()))?;
    let all = format!("KCONFIG_ALLCONFIG={}", wanted.display());
    make(source, output, &[&all, "allnoconfig"], log)?;
    let path = output.join(".config");
    let written = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let refused = refused(configuration, &written);
    ensure!(refused.is_empty(), "the kernel's Kconfig does not take these lines: {}", refused.join(", "));
    Ok(())
}

/// Returns the lines of a configuration that another one lacks. What is off may be absent.
fn refused<'c>(wanted: &'c str, written: &str) -> Vec<&'c str> {
    let has = |line: &str| written.lines().any(|found| found == line);
    let is_off = |line: &str| {
        let name = line.strip_prefix("# ").and_then(|rest| rest.strip_suffix(" is not set"));
        name.is_some_and(|name| !written.lines().any(|found| found.starts_with(&format!("{name}="))))
    };
    let is_setting = |line: &&str| line.starts_with("CONFIG_") || line.starts_with("# CONFIG_");
    wanted.lines().filter(is_setting).filter(|line| !has(line) && !is_off(line)).collect()
}

/// Runs make for the kernel; its output is appended to `log`.
fn make(source: &Path, output: &Path, words: &[&str], log: &Path) -> Result<()> {
    let open = || File::options().create(true).append(true).open(log);
    let file = open().with_context(|| format!("cannot write {}", log.display()))?;
    // It takes long, and is not urgent.
    let status = command("nice")
        .args(["-n", "10", "make", "-C"])
        .arg(source)
        .arg(format!("O={}", output.display()))
        .args(words)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(file.try_clone().context("cannot share the log")?)
        .stderr(file)
        .status()
        .context("cannot start make")?;
    if !status.success() {
        let printed = fs::read(log).unwrap_or_default();
        let end = last_lines(&String::from_utf8_lossy(&printed), MOST_LINES);
        bail!("the kernel cannot be compiled; {} has all of it:\n{end}", log.display());
    }
    Ok(())
}

/// Copies the kernel's modules to where modules are looked for.
fn copy_modules(output: &Path, modules: &Path) -> Result<()> {
    let target = modules.join("kernel");
    fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
    for module in MODULES.map(|module| output.join(module)) {
        let copy = target.join(module.file_name().unwrap_or_default());
        fs::copy(&module, copy).with_context(|| format!("cannot copy {}", module.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(name: &str, more: &str) -> Scenario {
        let text = format!("shows = 'x'\nscript = 'true'\nseconds = 10\n{more}");
        let mut scenario: Scenario = toml::from_str(&text).expect("a valid scenario");
        name.clone_into(&mut scenario.name);
        scenario
    }

    #[test]
    fn scenarios_that_execute_code_are_left_out_and_refused_by_name() {
        let all = || {
            vec![
                scenario("timed", ""),
                scenario("executing", "module = ['engine=executing']\n"),
                scenario("rocm", "rocm = true\n"),
                scenario("never", "debug = 'never'\n"),
                scenario("bad accesses", "debug = 'kasan'\n"),
                scenario("races", "debug = 'kcsan'\n"),
            ]
        };
        let names = |sanitizer| {
            let kept = adapted(all(), sanitizer, false).unwrap();
            kept.into_iter().map(|scenario| scenario.name).collect::<Vec<_>>()
        };
        assert_eq!(names(Sanitizer::Kasan), ["timed", "bad accesses"]);
        assert_eq!(names(Sanitizer::Kcsan), ["timed", "races"]);
        let Err(error) = adapted(all(), Sanitizer::Kasan, true) else { panic!("one cannot run") };
        assert!(error.to_string().contains("executing cannot run on this kernel"), "{error}");
    }

    #[test]
    fn processors_run_at_once_with_patience_and_durations_are_not_judged() {
        let checks = "[[check]]\nwhat = 'ratio'\npointer = '/a/p50_us'\nto = '/b/p50_us'\nbelow = 2\n\
                      [[check]]\nwhat = 'number'\npointer = '/a/wait_ms'\nequals = 2\n\
                      [[check]]\nwhat = 'number'\npointer = '/cycles'\nbelow = 2\n\
                      [[check]]\nwhat = 'number'\npointer = '/failed'\nequals = 0\n";
        let kept = |time: &str| {
            let adapted = adapt(scenario("a", &format!("{time}{checks}")), Sanitizer::Kasan);
            assert_eq!((adapted.time, adapted.seconds), (GuestTime::Multi, 10 * PATIENCE));
            adapted.check.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(kept(""), ["/failed is 0"]);
        assert_eq!(kept("time = 'multi'\n"), ["/cycles is below 2", "/failed is 0"]);
    }

    #[test]
    fn lines_of_the_debug_kernel_are_allowed_there_alone() {
        let plain = scenario("a", "debug_log = ['BUG: KASAN: * in f*']\n");
        assert!(plain.may_log.is_empty());
        assert_eq!(adapt(plain, Sanitizer::Kasan).may_log, ["BUG: KASAN: * in f*"]);
        assert_eq!(adapt(scenario("a", ""), Sanitizer::Kcsan).may_log, Sanitizer::Kcsan.known());
    }

    #[test]
    fn a_line_that_kconfig_does_not_take_is_named() {
        let wanted = "# A comment.\nCONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\n# CONFIG_D is not set\n";
        assert!(refused(wanted, "CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\n").is_empty());
        assert_eq!(refused(wanted, "CONFIG_A=y\nCONFIG_B=y\nCONFIG_D=y\n"), ["CONFIG_B=m", "# CONFIG_D is not set"]);
    }

    #[test]
    fn both_kernels_have_a_configuration_with_their_sanitizer_and_lockdep() {
        for (sanitizer, line) in [(Sanitizer::Kasan, "CONFIG_KASAN=y"), (Sanitizer::Kcsan, "CONFIG_KCSAN=y")] {
            let text = configuration(sanitizer).unwrap();
            for line in [line, "CONFIG_PROVE_LOCKING=y", "CONFIG_DEBUG_ATOMIC_SLEEP=y"] {
                assert!(text.lines().any(|found| found == line), "{line} is missing for {}", sanitizer.name());
            }
        }
    }

    #[test]
    fn another_compiler_source_place_or_configuration_is_another_recipe() {
        let fetched = |version: &str| Fetched::at(Path::new("/packages"), "6.12.9", version);
        let first = recipe(&fetched("6.12.9-1"), Path::new("/a"), "CONFIG_A=y\n").unwrap();
        for other in [
            recipe(&fetched("6.12.9-2"), Path::new("/a"), "CONFIG_A=y\n").unwrap(),
            recipe(&fetched("6.12.9-1"), Path::new("/b"), "CONFIG_A=y\n").unwrap(),
            recipe(&fetched("6.12.9-1"), Path::new("/a"), "CONFIG_A=m\n").unwrap(),
        ] {
            assert_ne!(first, other);
        }
    }
}

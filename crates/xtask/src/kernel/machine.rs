//! A virtual machine: QEMU's process, its two serial lines, its end.
//!
//! The kernel's console (`ttyS0`) goes to a file. The scenario speaks on the second line (`ttyS1`), so that no kernel
//! message can break a line of its own. KVM is not used: counted instructions need the emulator.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::fetch::Fetched;
use super::image;
use super::scenario::{GuestTime, Scenario};

/// All that the emulator has but cmpxchg16b. With that instruction, which the kernel's allocator uses, QEMU 7.2 now and
/// then leaves a pointer in the flags; if it has the trap flag, the kernel warns of a debug exception.
const CPU: &str = "max,-cx16";
/// How often the console is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// The oldest lines of a run that is longer than this are dropped.
const MOST_BYTES: usize = 32 << 20;

/// What a machine printed until it ended.
pub(super) struct Ended {
    /// Lines of the scenario.
    pub(super) lines: Vec<String>,
    /// What the kernel wrote to its console.
    pub(super) console: String,
    /// Why it was ended, or how it ended itself; `None` if QEMU ended well.
    pub(super) failure: Option<String>,
    pub(super) time: Duration,
}

/// A process that is killed when it is dropped, so that an error leaves none behind.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended already needs no kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the command that starts a machine, without its serial lines.
fn qemu(fetched: &Fetched, scenario: &Scenario, initramfs: &Path) -> Result<Command> {
    let mut qemu = fetched.qemu();
    qemu.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-cpu", CPU]);
    match scenario.time {
        GuestTime::Icount => qemu.args(["-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off"]),
        GuestTime::Multi => qemu.args(["-accel", "tcg,thread=multi"]),
    };
    qemu.args(["-smp", &scenario.smp.to_string(), "-m", &scenario.memory]);
    qemu.arg("-kernel").arg(&fetched.kernel.image).arg("-initrd").arg(initramfs);
    qemu.args(["-append", &command_line(scenario.time)]);
    for _ in 0..scenario.gpus {
        qemu.args(["-device", "edu"]);
    }
    if scenario.rocm {
        qemu.arg("-drive").arg(format!("file={},format=raw,if=none,id=image,readonly=on", image::path()?.display()));
        qemu.args(["-device", "virtio-blk-pci,drive=image"]);
    }
    Ok(qemu)
}

/// Returns the kernel's command line.
fn command_line(time: GuestTime) -> String {
    // The log is judged at the end and must hold all of it.
    let line = "console=ttyS0 quiet panic=-1 oops=panic log_buf_len=4M";
    match time {
        GuestTime::Icount => line.to_owned(),
        // The kernel changes its code now and then. QEMU 7.2 drops the translation of a changed page before the store:
        // a second processor that translates it in between executes the old bytes for ever, and if these are the
        // breakpoint that the kernel puts there for the time of a change, that is an oops. So code changes while one
        // processor is online only: at boot and when modules are loaded, after which the guest's init brings the others
        // online. Later the clock's watchdog would change it, when a busy host lets the processors' counters look
        // unstable (`__sched_clock_stable`). A busy host may also make the kernel believe that its timer does not work.
        GuestTime::Multi => format!("{line} maxcpus=1 tsc=reliable no_timer_check"),
    }
}

/// Gives the terminal to a machine until it ends.
///
/// # Errors
/// If QEMU cannot be started or fails.
pub(super) fn interactive(fetched: &Fetched, scenario: &Scenario, initramfs: &Path) -> Result<()> {
    let mut qemu = qemu(fetched, scenario, initramfs)?;
    // Ctrl-C goes to the guest.
    qemu.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
    let status = Process(qemu.spawn().context("cannot start QEMU")?).0.wait().context("cannot wait for QEMU")?;
    if !status.success() {
        bail!("QEMU ended with {status}");
    }
    Ok(())
}

/// Runs a machine until it ends or its time is up. `show` gets each line as it comes.
///
/// # Errors
/// If QEMU cannot be started.
pub(super) fn run(
    fetched: &Fetched,
    scenario: &Scenario,
    initramfs: &Path,
    console: &Path,
    mut show: impl FnMut(&str),
) -> Result<Ended> {
    File::create(console).with_context(|| format!("cannot make {}", console.display()))?;
    let mut qemu = qemu(fetched, scenario, initramfs)?;
    qemu.arg("-chardev").arg(format!("file,id=console,path={}", console.display()));
    qemu.args(["-serial", "chardev:console", "-chardev", "stdio,id=scenario", "-serial", "chardev:scenario"]);
    watch(qemu, console, Duration::from_secs(scenario.seconds), &mut show)
}

/// Watches a process: its lines, the console file, its end, the clock.
fn watch(mut command: Command, console: &Path, limit: Duration, show: &mut impl FnMut(&str)) -> Result<Ended> {
    let begin = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Process(command.spawn().context("cannot start QEMU")?);
    let lines = process.0.stdout.take().map(read_lines).context("QEMU has no output")?;
    let errors = process.0.stderr.take().map(|mut stderr| {
        thread::spawn(move || {
            let mut text = String::new();
            // An unreadable message is no message.
            let _ = stderr.read_to_string(&mut text);
            text
        })
    });
    let mut seen = Seen::new(console);
    let mut timed_out = false;
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                show(&line);
                seen.push(line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        seen.read_console(show);
        if begin.elapsed() > limit {
            timed_out = true;
            break;
        }
    }
    if timed_out {
        // It is dropped, too, but its status is wanted now.
        let _ = process.0.kill();
    }
    let status = process.0.wait().context("cannot wait for QEMU")?;
    let printed = errors.and_then(|errors| errors.join().ok()).unwrap_or_default();
    let failure = if timed_out {
        Some(format!("the machine took longer than {} s, which its `seconds` allow", limit.as_secs()))
    } else if !status.success() {
        Some(format!("QEMU ended with {status}: {}", printed.trim()))
    } else {
        None
    };
    seen.read_console(show);
    Ok(Ended { lines: seen.lines, console: seen.console, failure, time: begin.elapsed() })
}

/// What was printed so far.
struct Seen {
    lines: Vec<String>,
    bytes: usize,
    path: PathBuf,
    console: String,
}

impl Seen {
    fn new(console: &Path) -> Seen {
        Seen { lines: Vec::new(), bytes: 0, path: console.to_owned(), console: String::new() }
    }

    fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push(line);
        if self.bytes > MOST_BYTES {
            let half = self.lines.len() / 2;
            self.bytes -= self.lines.drain(..half).map(|line| line.len()).sum::<usize>();
        }
    }

    /// Shows whole lines that the kernel has added to its console.
    fn read_console(&mut self, show: &mut impl FnMut(&str)) {
        let text = fs::read(&self.path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).replace('\r', "");
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let known = self.console.len();
        if let Some(new) = text.get(known..whole).filter(|new| !new.is_empty()) {
            new.lines().for_each(show);
            self.console += new;
        }
    }
}

/// Reads lines in a thread of its own, until the writer ends.
fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            line.clear();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Writes what a machine printed, for people.
pub(super) fn save(path: &Path, ended: &Ended) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    let text = format!("== console\n{}\n== scenario\n{}\n", ended.console.trim_end(), ended.lines.join("\n"));
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch_script(script: &str, limit: Duration) -> (Ended, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console");
        File::create(&console).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(&console);
        let mut shown = Vec::new();
        let ended = watch(shell, &console, limit, &mut |line: &str| shown.push(line.to_owned())).unwrap();
        (ended, shown)
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn both_lines_are_read_until_the_machine_ends() {
        let (ended, shown) = watch_script(r#"printf 'kernel\r\n' > "$1"; printf 'a\r\nb'"#, HOUR);
        assert_eq!(
            (ended.lines, ended.console.as_str(), ended.failure),
            (vec!["a".into(), "b".into()], "kernel\n", None)
        );
        assert!(shown.contains(&"kernel".to_owned()) && shown.contains(&"b".to_owned()), "{shown:?}");
    }

    #[test]
    fn a_machine_that_fails_says_why() {
        let (ended, _) = watch_script("echo no such device >&2; exit 1", HOUR);
        let failure = ended.failure.expect("it failed");
        assert!(failure.contains("exit status: 1") && failure.contains("no such device"), "{failure}");
    }

    #[test]
    fn a_machine_that_takes_too_long_is_killed() {
        let (ended, _) = watch_script("echo $$; exec sleep 1000", Duration::from_millis(500));
        assert!(ended.failure.expect("it failed").contains("longer than"));
        let pid = ended.lines.first().expect("it printed its id");
        assert!(!Path::new("/proc").join(pid).exists(), "it is gone and reaped");
    }
}

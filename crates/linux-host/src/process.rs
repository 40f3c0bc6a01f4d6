//! Processes and threads as `/proc` shows them. See proc(5), proc_pid_stat(5) and proc_pid_status(5).

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

/// Most bytes that are read of one file: the process may choose how long it is.
const READ_LIMIT: u64 = 64 << 10;

/// Reads the beginning of `/proc/PID/NAME`.
///
/// # Errors
/// If the file cannot be read; the message names it.
pub fn read(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    let path = format!("/proc/{pid}/{name}");
    let mut bytes = Vec::with_capacity(2048);
    match File::open(&path).and_then(|file| file.take(READ_LIMIT).read_to_end(&mut bytes)) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot read {path}: {error}"))),
    }
}

/// Numbers of all processes that `/proc` lists now.
pub fn pids() -> impl Iterator<Item = u32> {
    numbers(Path::new("/proc"))
}

/// Numbers of all threads of a process; none if it is gone.
pub fn threads(pid: u32) -> impl Iterator<Item = u32> {
    numbers(&Path::new("/proc").join(pid.to_string()).join("task"))
}

fn numbers(directory: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The fields of `/proc/PID/stat` that gpreempt uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStat {
    /// Name of the executable, at most 15 bytes; the process may have changed it.
    pub comm: String,
    /// One letter: R, S, D, T, t, Z, X and so on.
    pub state: char,
    /// Parent process.
    pub parent: u32,
    /// Time on a processor in user mode, in clock ticks.
    pub user_ticks: u64,
    /// Time on a processor in kernel mode, in clock ticks.
    pub system_ticks: u64,
    /// Nice value.
    pub nice: i64,
    /// Start time in clock ticks since boot: with the pid, it identifies a process.
    pub start: u64,
}

impl ProcStat {
    /// Reads the line of a process; `None` if it is gone.
    #[must_use]
    pub fn read(pid: u32) -> Option<ProcStat> {
        ProcStat::parse(&String::from_utf8_lossy(&read(pid, "stat").ok()?))
    }

    /// Parses a line. The name stands in parentheses and may contain blanks and parentheses itself.
    #[must_use]
    pub fn parse(line: &str) -> Option<ProcStat> {
        let (before, after) = line.rsplit_once(')')?;
        let (_, comm) = before.split_once('(')?;
        // Fields are numbered as in the manual page; the first one after the name is number 3.
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(ProcStat {
            comm: comm.to_owned(),
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            user_ticks: field(14)?.parse().ok()?,
            system_ticks: field(15)?.parse().ok()?,
            nice: field(19)?.parse().ok()?,
            start: field(22)?.parse().ok()?,
        })
    }

    /// Whether the process has ended, reaped or not.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether a signal or a tracer has halted the process.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Processor time in user and kernel mode, all threads together. Clock ticks are 10 ms usually.
    #[must_use]
    pub fn cpu(&self) -> Option<Duration> {
        let per_second = u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok()?;
        let ticks = self.user_ticks.saturating_add(self.system_ticks);
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1));
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

/// The fields of `/proc/PID/status` that gpreempt uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcStatus {
    /// One letter as in [`ProcStat::state`].
    pub state: char,
    /// Thread group, which is the process that a thread belongs to.
    pub thread_group: u32,
    /// The tracing thread.
    pub tracer: Option<u32>,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// The pid inside the process's own namespace, if that is another than the reader's.
    pub pid_in_namespace: Option<u32>,
    /// Pending signals of thread and process as a mask; bit 0 is signal 1.
    pub pending: u64,
    /// Effective capabilities as a mask; bit N is the capability of that number. `None` if the kernel shows none.
    pub capabilities: Option<u64>,
}

impl ProcStatus {
    /// Reads the file of a process or thread; `None` if it is gone.
    #[must_use]
    pub fn read(pid: u32) -> Option<ProcStatus> {
        ProcStatus::parse(&String::from_utf8_lossy(&read(pid, "status").ok()?))
    }

    /// Parses the file; `None` without state or user.
    #[must_use]
    pub fn parse(text: &str) -> Option<ProcStatus> {
        let mut status = ProcStatus::default();
        let (mut has_state, mut has_user) = (false, false);
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let mut words = value.split_ascii_whitespace();
            match name {
                "State" => (status.state, has_state) = (words.next()?.chars().next()?, true),
                "Tgid" => status.thread_group = words.next()?.parse().ok()?,
                "TracerPid" => status.tracer = words.next()?.parse().ok().filter(|tracer| *tracer != 0),
                // Real, effective, saved, filesystem.
                "Uid" => (status.uid, has_user) = (words.nth(1)?.parse().ok()?, true),
                "Gid" => status.gid = words.nth(1)?.parse().ok()?,
                // From the namespace of the reader to that of the process.
                "NSpid" => status.pid_in_namespace = words.skip(1).last().and_then(|word| word.parse().ok()),
                "CapEff" => status.capabilities = Some(u64::from_str_radix(words.next()?, 16).ok()?),
                "SigPnd" | "ShdPnd" => status.pending |= u64::from_str_radix(words.next()?, 16).ok()?,
                _ => {}
            }
        }
        (has_state && has_user).then_some(status)
    }

    /// Whether the process has ended, reaped or not.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Most bytes of `/proc/PID/task/TID/syscall`: a number of three digits and eight of eighteen, with blanks.
const LONGEST_CALL: usize = 256;

/// What a thread does, as `/proc/PID/task/TID/syscall` shows it. See proc_pid_syscall(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadCall {
    /// It runs or is ready to, in user mode or inside a call.
    Running,
    /// It is blocked outside of any call, by a page fault for instance.
    Blocked,
    /// It is blocked inside a system call.
    Inside {
        /// Number of the call, as `libc::SYS_*`.
        number: i64,
        /// Its arguments. Those that the call does not have hold any value.
        arguments: [u64; 6],
    },
}

impl ThreadCall {
    /// Reads the file of a thread; `None` if it is gone or belongs to another user. Does not allocate for the text.
    #[must_use]
    pub fn read(pid: u32, thread: u32) -> Option<ThreadCall> {
        let mut bytes = [0; LONGEST_CALL];
        let count = File::open(format!("/proc/{pid}/task/{thread}/syscall")).ok()?.read(&mut bytes).ok()?;
        ThreadCall::parse(std::str::from_utf8(bytes.get(..count)?).ok()?)
    }

    /// Parses the file: a number, six arguments and two addresses in hexadecimal; or -1 and two addresses; or one word.
    #[must_use]
    pub fn parse(text: &str) -> Option<ThreadCall> {
        let mut words = text.split_ascii_whitespace();
        let number = match words.next()? {
            "running" => return Some(ThreadCall::Running),
            number => number.parse().ok()?,
        };
        if number == -1 {
            return Some(ThreadCall::Blocked);
        }
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        Some(ThreadCall::Inside { number, arguments })
    }
}

impl fmt::Display for ThreadCall {
    /// Number and first two arguments of the call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThreadCall::Running => f.write_str("running"),
            ThreadCall::Blocked => f.write_str("blocked"),
            ThreadCall::Inside { number, arguments: [first, second, ..] } => {
                write!(f, "{number} {first:#x} {second:#x}")
            }
        }
    }
}

/// The process that traces a process. The kernel names a thread; this returns the thread's group.
#[must_use]
pub fn tracer(pid: u32) -> Option<u32> {
    let thread = ProcStatus::read(pid)?.tracer?;
    Some(ProcStatus::read(thread).map_or(thread, |status| status.thread_group))
}

/// Whether a process exists and has not ended.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    ProcStat::read(pid).is_some_and(|stat| !stat.is_dead())
}

/// Processes whose environment holds this variable with a value that begins with `prefix`.
pub fn with_variable(name: &str, prefix: &str) -> impl Iterator<Item = u32> + use<> {
    let entry = format!("{name}={prefix}").into_bytes();
    pids().filter(move |pid| {
        // Unlike names, environments may be longer than the limit of `read`.
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found.starts_with(&entry))
    })
}

/// One line for an error message: name, state, tracer, and the system call of each thread.
#[must_use]
pub fn describe(pid: u32) -> String {
    let Some(stat) = ProcStat::read(pid) else { return format!("process {pid}: gone") };
    let call =
        |thread: u32| ThreadCall::read(pid, thread).map_or_else(|| "unknown".to_owned(), |call| call.to_string());
    let calls: Vec<String> = threads(pid).map(call).collect();
    let tracer = tracer(pid).map_or_else(|| "none".to_owned(), |tracer| tracer.to_string());
    format!("process {pid} ({}): state {}, tracer {tracer}, system calls [{}]", stat.comm, stat.state, calls.join("; "))
}

/// Returns the control group in the hierarchy of a controller, from the text of `/proc/PID/cgroup`: lines of number,
/// controllers and path. The unified hierarchy of version 2 has no controllers: its name is empty.
#[must_use]
pub fn cgroup_in<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (names, path) = line.split_once(':')?.1.split_once(':')?;
        names.split(',').any(|name| name == controller).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    const LINE: &str = "12 (a ) R 1 (b) S 7 12 12 0 -1 4194304 100 0 0 0 150 50 0 0 20 -5 1 0 500 1000 10";

    #[test]
    fn a_name_with_parentheses_and_blanks_does_not_shift_the_fields() {
        let stat = ProcStat::parse(LINE).expect("is whole");
        assert_eq!((stat.comm.as_str(), stat.state, stat.parent), ("a ) R 1 (b", 'S', 7));
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.nice, stat.start), (150, 50, -5, 500));
    }

    #[test]
    fn a_line_that_is_cut_off_anywhere_is_no_stat() {
        let whole = LINE.find(" 1000").expect("is there");
        for end in 0..whole - 3 {
            assert_eq!(ProcStat::parse(&LINE[..end]), None, "cut at {end}");
        }
        assert_eq!(ProcStat::parse("12 (name) S 1 12 12 0 -1 4194304 100 0 0 0 many 50 0 0 20 0 1 0 500"), None);
    }

    #[test]
    fn a_status_has_the_effective_ids_and_all_pending_signals() {
        let text = "Name:\tx\nState:\tt (tracing stop)\nTgid:\t5\nTracerPid:\t0\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n\
                    NSpid:\t5\t1\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000004000\n\
                    CapPrm:\t0000000000000001\nCapEff:\t0000000000880000\n";
        let status = ProcStatus::parse(text).expect("is whole");
        assert_eq!((status.state, status.thread_group, status.tracer), ('t', 5, None));
        assert_eq!((status.uid, status.gid, status.pid_in_namespace, status.pending), (2, 6, Some(1), 0x4001));
        assert_eq!(status.capabilities, Some(1 << 19 | 1 << 23), "effective, not permitted");
        assert_eq!(ProcStatus::parse("State:\tS\n"), None, "there is no user");
        assert_eq!(ProcStatus::parse(""), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in any::<String>()) {
            let _ = (ProcStat::parse(&text), ProcStatus::parse(&text), ThreadCall::parse(&text));
        }
    }

    #[test]
    fn a_call_has_six_arguments_or_is_none() {
        let text = "16 0x3 0xc0084b03 0x7ffc 0x0 0x0 0xffffffffffffffff 0x7ffd 0x7f00\n";
        let call = ThreadCall::parse(text).expect("is whole");
        let arguments = [3, 0xc008_4b03, 0x7ffc, 0, 0, u64::MAX];
        assert_eq!(call, ThreadCall::Inside { number: 16, arguments });
        assert_eq!(call.to_string(), "16 0x3 0xc0084b03");
        assert_eq!(ThreadCall::parse("running\n"), Some(ThreadCall::Running));
        assert_eq!(ThreadCall::parse("-1 0x7ffd 0x7f00\n"), Some(ThreadCall::Blocked));
        assert_eq!((ThreadCall::parse(""), ThreadCall::parse("16 0x3 0xc0084b03\n")), (None, None));
    }

    #[test]
    fn a_child_that_reads_is_inside_a_call() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("starts");
        let pid = child.id();
        while !matches!(ThreadCall::read(pid, pid), Some(ThreadCall::Inside { arguments: [0, ..], .. })) {
            std::thread::yield_now();
        }
        drop(child.stdin.take());
        child.wait().expect("ends");
        assert_eq!(ThreadCall::read(pid, pid), None);
    }

    #[test]
    fn a_child_is_alive_then_a_zombie_then_gone() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("starts");
        let pid = child.id();
        assert!(is_alive(pid) && pids().any(|found| found == pid) && threads(pid).any(|found| found == pid));
        assert_eq!(ProcStat::read(pid).map(|stat| stat.parent), Some(std::process::id()));
        assert_eq!(tracer(pid), None);
        assert!(describe(pid).contains("cat"), "{}", describe(pid));
        drop(child.stdin.take());
        while is_alive(pid) {
            std::thread::yield_now();
        }
        assert!(ProcStat::read(pid).is_some_and(|stat| stat.is_dead()));
        child.wait().expect("ends");
        assert!(ProcStat::read(pid).is_none() && ProcStatus::read(pid).is_none() && threads(pid).next().is_none());
        assert!(describe(pid).contains("gone"));
    }

    #[test]
    fn processes_are_found_by_their_environment() {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).env("LINUX_HOST_TEST", "abc").spawn().expect("starts");
        // Until exec, the child shows the environment of its parent.
        while !with_variable("LINUX_HOST_TEST", "ab").any(|pid| pid == child.id()) {
            std::thread::yield_now();
        }
        assert!(!with_variable("LINUX_HOST_TEST", "x").any(|pid| pid == child.id()));
        drop(child.stdin.take());
        child.wait().expect("ends");
    }

    #[test]
    fn work_shows_in_the_time_of_a_process() {
        let process = || ProcStat::read(std::process::id()).and_then(|stat| stat.cpu()).expect("lives");
        let (before, mut sum) = (process(), 0u64);
        // The time only moves when work is done, however long that takes on a loaded machine.
        while process() <= before {
            sum = (0..100_000u64).fold(sum, |sum, n| std::hint::black_box(sum.wrapping_add(n * n)));
        }
    }

    #[test]
    fn a_control_group_is_found_in_its_hierarchy() {
        let text = "9:name=systemd:/\n6:cpu,freezer:/a:b\n0::/user.slice/x.scope\n";
        assert_eq!(cgroup_in(text, ""), Some("/user.slice/x.scope"));
        assert_eq!(cgroup_in(text, "freezer"), Some("/a:b"));
        assert_eq!((cgroup_in("0::/\n", "freezer"), cgroup_in("", "")), (None, None));
    }
}

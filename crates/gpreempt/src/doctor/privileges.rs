//! Checks of what this user may see and trace.

use std::fs;

use linux_host::process::ProcStatus;

use super::Check;

/// Numbers of capabilities.
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_NICE: u32 = 23;

pub(super) fn checks() -> Vec<Check> {
    let capabilities = ProcStatus::read(std::process::id()).and_then(|status| status.capabilities);
    let capable = |number| capabilities.map(|set| set >> number & 1 == 1);
    let can_trace = capable(CAP_SYS_PTRACE);
    let limits = read("/proc/self/limits");
    let debugfs = kfd::debugfs::read_queues().map(|_| ());
    vec![
        tracing(can_trace),
        yama(scope(), can_trace),
        rings(&debugfs),
        lockdown(read("/sys/kernel/security/lockdown").as_deref(), debugfs.is_ok()),
        urgency(capable(CAP_SYS_NICE), limits.as_deref().and_then(real_time_limit)),
    ]
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn tracing(can_trace: Option<bool>) -> Check {
    const NAME: &str = "trace permission";
    match can_trace {
        Some(true) => Check::ok(NAME, "CAP_SYS_PTRACE: processes of all users"),
        Some(false) => Check::warn(
            NAME,
            "only your own processes",
            "run the daemon as root or with CAP_SYS_PTRACE to manage those of other users",
        ),
        None => Check::unknown(NAME, "/proc/self/status does not show capabilities"),
    }
}

/// Restrictions of the Yama security module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Restricts(u8),
    Absent,
    Unknown,
}

fn scope() -> Scope {
    match read("/proc/sys/kernel/yama/ptrace_scope") {
        Some(text) => text.trim().parse().map_or(Scope::Unknown, Scope::Restricts),
        // Where other settings of the kernel can be read, that this one is missing means something.
        None if read("/proc/sys/kernel/osrelease").is_some() => Scope::Absent,
        None => Scope::Unknown,
    }
}

fn yama(scope: Scope, can_trace: Option<bool>) -> Check {
    const NAME: &str = "ptrace scope";
    match (scope, can_trace == Some(true)) {
        (Scope::Unknown, _) => Check::unknown(NAME, "kernel.yama.ptrace_scope cannot be read"),
        (Scope::Absent, _) => Check::ok(NAME, "not restricted: the kernel has no Yama"),
        (Scope::Restricts(0), _) => Check::ok(NAME, "0: not restricted"),
        (Scope::Restricts(scope @ (1 | 2)), true) => Check::ok(NAME, format!("{scope}: CAP_SYS_PTRACE is enough")),
        (Scope::Restricts(1), false) => Check::warn(
            NAME,
            "1: only programs that consent",
            "start programs with `gpreempt run`, which consents, or run the daemon as root",
        ),
        (Scope::Restricts(2), false) => Check::fail(
            NAME,
            "2: CAP_SYS_PTRACE is needed",
            "run the daemon as root, or `sysctl kernel.yama.ptrace_scope=1`",
        ),
        (Scope::Restricts(scope), _) => Check::fail(
            NAME,
            format!("{scope}: no process may trace"),
            "set kernel.yama.ptrace_scope to 1 or less in /etc/sysctl.d and reboot: it cannot be lowered before",
        ),
    }
}

fn rings(readable: &std::io::Result<()>) -> Check {
    const NAME: &str = "rings visible";
    match readable {
        Ok(()) => Check::ok(NAME, "debugfs shows them without attaching"),
        Err(error) => Check::warn(
            NAME,
            format!("/sys/kernel/debug/kfd/mqds: {error}"),
            "run as root with debugfs mounted (`mount -t debugfs none /sys/kernel/debug`); otherwise the daemon knows \
             rings only of processes that it is attached to, and in observe mode none",
        ),
    }
}

/// Checks kernel lockdown, which restricts debugfs, but neither tracing nor reading memory.
fn lockdown(text: Option<&str>, rings_visible: bool) -> Check {
    const NAME: &str = "lockdown";
    let Some(text) = text else {
        return Check::unknown(NAME, "/sys/kernel/security/lockdown cannot be read");
    };
    let mode = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text.trim(), |(mode, _)| mode);
    if mode == "none" || rings_visible {
        return Check::ok(NAME, mode);
    }
    Check::warn(NAME, mode, "lockdown may be what hides debugfs: see `rings visible`")
}

/// Returns the highest real-time priority that the limits allow.
fn real_time_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime priority"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

fn urgency(can_nice: Option<bool>, limit: Option<u64>) -> Check {
    const NAME: &str = "real-time priority";
    match (can_nice, limit) {
        (Some(true), _) => Check::ok(NAME, "CAP_SYS_NICE"),
        (_, Some(limit)) if limit > 0 => Check::ok(NAME, "permitted by RLIMIT_RTPRIO"),
        (None, None) => Check::unknown(NAME, "/proc/self shows neither capabilities nor limits"),
        _ => Check::warn(
            NAME,
            "not permitted",
            "stops are delayed on a busy machine; run as root, or set LimitRTPRIO=1 (`ulimit -r 1`)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckResult;
    use super::*;

    #[test]
    fn a_scope_restricts_those_without_the_capability() {
        let result = |scope, can_trace| yama(scope, Some(can_trace)).result;
        assert_eq!(result(Scope::Restricts(0), false), CheckResult::Ok);
        assert_eq!(result(Scope::Restricts(1), false), CheckResult::Warn);
        assert_eq!(result(Scope::Restricts(2), false), CheckResult::Fail);
        assert_eq!(result(Scope::Restricts(2), true), CheckResult::Ok);
        assert_eq!(result(Scope::Restricts(3), true), CheckResult::Fail);
        assert_eq!(result(Scope::Absent, false), CheckResult::Ok);
    }

    #[test]
    fn lockdown_matters_only_where_it_hides_rings() {
        let text = "none [integrity] confidentiality\n";
        assert_eq!(lockdown(Some(text), true).found, "integrity");
        assert_eq!(lockdown(Some(text), true).result, CheckResult::Ok);
        assert_eq!(lockdown(Some(text), false).result, CheckResult::Warn);
        assert_eq!(lockdown(None, true).result, CheckResult::Unknown);
    }

    #[test]
    fn limits_may_permit_real_time() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max realtime priority     1                    99                            \n";
        assert_eq!(real_time_limit(limits), Some(1));
        assert_eq!(urgency(Some(false), Some(1)).result, CheckResult::Ok);
        assert_eq!(urgency(Some(false), Some(0)).result, CheckResult::Warn);
    }
}

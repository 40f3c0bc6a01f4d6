//! Judging a run: results, exit code, and the kernel's log.
//!
//! The guest prints `@result {...}` lines, then `@exit CODE`, `@tainted MASK`, the kernel's log between `@log` and
//! `@end`. A run without `@end` has failed, whatever it printed before.

use serde_json::{Map, Value};

use super::build::last_lines;
use super::machine::Ended;
use super::scenario::Scenario;

/// Lines of the consoles that a failure repeats.
const MOST_LINES: usize = 30;
/// The kernel has printed a warning with a stack (`TAINT_WARN`).
const TAINT_WARN: u64 = 1 << 9;

/// What is wrong with a kernel when its log has a line with these words.
// tidy: table
const FORBIDDEN: &[(&str, &str)] = &[
    ("WARNING:", "warning"),
    ("BUG:", "bug"),
    ("kernel BUG at", "bug"),
    ("Oops", "oops"),
    ("Kernel panic", "panic"),
    ("Unable to handle", "bad access"),
    ("unable to handle", "bad access"),
    ("general protection", "general protection fault"),
    ("segfault at", "crash of a program"),
    ("stack-protector", "stack overrun"),
    ("stack guard page", "stack overrun"),
    ("refcount_t:", "reference count"),
    ("possible circular locking", "lockdep"),
    ("possible recursive locking", "lockdep"),
    ("possible irq lock inversion", "lockdep"),
    ("inconsistent lock state", "lockdep"),
    ("bad unlock balance", "lockdep"),
    ("DEBUG_LOCKS_WARN_ON", "lockdep"),
    ("suspicious RCU usage", "lockdep"),
    ("trying to register non-static key", "lockdep"),
    ("turning off the locking correctness validator", "lockdep"),
    ("Disabling lock debugging", "lockdep"),
    ("ODEBUG:", "object in use"),
    ("lock held when returning to user space", "lockdep"),
    ("detected stall", "RCU stall"),
    ("self-detected stall", "RCU stall"),
    ("kthread starved", "RCU stall"),
    ("blocked for more than", "hung task"),
    ("soft lockup", "lockup"),
    ("hard LOCKUP", "lockup"),
    ("list_add corruption", "list corruption"),
    ("list_del corruption", "list corruption"),
    ("UBSAN:", "undefined behaviour"),
    ("scheduling while atomic", "sleep in atomic context"),
    ("Out of memory", "out of memory"),
];

/// The verdict on a run.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// The merged results.
    pub(super) results: Map<String, Value>,
    /// Empty if it passed.
    pub(super) failures: Vec<String>,
}

/// What the guest said.
#[derive(Default)]
struct Said<'l> {
    results: Map<String, Value>,
    exit: Option<&'l str>,
    tainted: u64,
    log: Vec<&'l str>,
    ended: bool,
    failures: Vec<String>,
}

impl<'l> Said<'l> {
    fn read(lines: &'l [String]) -> Said<'l> {
        let mut said = Said::default();
        let mut in_log = false;
        for line in lines {
            if in_log {
                match line.as_str() {
                    "@end" => {
                        said.ended = true;
                        return said;
                    }
                    line => said.log.push(line),
                }
            } else if let Some(json) = line.strip_prefix("@result ") {
                match serde_json::from_str(json) {
                    Ok(Value::Object(object)) => merge(&mut said.results, object),
                    _ => said.failures.push(format!("this result is no JSON object: {json}")),
                }
            } else if let Some(reason) = line.strip_prefix("@failed ") {
                said.failures.push(reason.to_owned());
            } else if let Some(code) = line.strip_prefix("@exit ") {
                said.exit = Some(code);
            } else if let Some(mask) = line.strip_prefix("@tainted ") {
                said.tainted = mask.trim().parse().unwrap_or_default();
            } else if line == "@log" {
                in_log = true;
            }
        }
        said
    }
}

/// Adds the values of an object; objects with the same name become one, other values are replaced.
fn merge(results: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match (results.get_mut(&name), value) {
            (Some(Value::Object(known)), Value::Object(value)) => merge(known, value),
            (_, value) => {
                results.insert(name, value);
            }
        }
    }
}

/// Judges a run.
pub(super) fn judge(scenario: &Scenario, ended: &Ended) -> Verdict {
    let said = Said::read(&ended.lines);
    let mut failures: Vec<String> = ended.failure.iter().cloned().chain(said.failures).collect();
    let console = ended.console.lines();
    failures.extend(judge_log(said.log.iter().copied().chain(console), said.tainted, said.ended, scenario));
    if !said.ended {
        failures.push(format!(
            "the guest did not reach its end; the kernel's console:\n{}\nand the scenario's:\n{}",
            last_lines(&ended.console, MOST_LINES),
            last_lines(&ended.lines.join("\n"), MOST_LINES)
        ));
        return Verdict { results: said.results, failures };
    }
    if said.exit != Some("0") {
        failures.push(format!(
            "the script ended with {}; it printed:\n{}",
            said.exit.unwrap_or("no exit code"),
            last_lines(&before_exit(&ended.lines).join("\n"), MOST_LINES)
        ));
    }
    let document = Value::Object(said.results.clone()).to_string();
    for check in &scenario.check {
        if let Err(error) = check.apply(document.as_bytes(), b"") {
            failures.push(format!("expected: {check}; {error:#}"));
        }
    }
    Verdict { results: said.results, failures }
}

/// Returns what the script printed.
fn before_exit(lines: &[String]) -> &[String] {
    let end = lines.iter().position(|line| line.starts_with("@exit ")).unwrap_or(lines.len());
    &lines[..end]
}

/// Judges the lines of the kernel. A line may come twice: in the log, and on the console.
fn judge_log<'l>(lines: impl Iterator<Item = &'l str>, tainted: u64, ended: bool, scenario: &Scenario) -> Vec<String> {
    let expected = &scenario.expected_log;
    let mut failures: Vec<String> = Vec::new();
    let mut occurred = vec![false; expected.len()];
    let mut warned = false;
    for line in lines.map(message) {
        let matched = expected.iter().position(|pattern| matches(pattern, line));
        if let Some(index) = matched {
            occurred[index] = true;
        }
        let Some((_, kind)) = FORBIDDEN.iter().find(|(words, _)| line.contains(words)) else { continue };
        warned = true;
        let failure = format!("the kernel's log has a line that must not be there ({kind}): {line}");
        let allowed = matched.is_some() || scenario.may_log.iter().any(|pattern| matches(pattern, line));
        if !allowed && !failures.contains(&failure) {
            failures.push(failure);
        }
    }
    if tainted & TAINT_WARN != 0 && !warned {
        failures.push("the kernel has warned, and its log has lost the warning".to_owned());
    }
    // Without its end the log is not complete.
    for (pattern, _) in expected.iter().zip(occurred).filter(|(_, occurred)| ended && !occurred) {
        failures.push(format!("the kernel's log lacks the expected line: {pattern}"));
    }
    failures
}

/// Returns a line of the log without the time at its beginning.
fn message(line: &str) -> &str {
    let rest = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    match rest {
        Some((time, rest)) if time.trim().parse::<f64>().is_ok() => rest,
        _ => line,
    }
}

/// Whether a pattern describes a whole line; `*` stands for any text.
fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(mut part) = parts.next() else { return rest.is_empty() };
    for next in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        part = next;
    }
    rest.ends_with(part)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn scenario(more: &str) -> Scenario {
        toml::from_str(&format!("shows = 'x'\nscript = 'true'\n{more}")).expect("a valid scenario")
    }

    fn ended(text: &str) -> Ended {
        Ended {
            lines: text.lines().map(str::to_owned).collect(),
            console: String::new(),
            failure: None,
            time: Duration::ZERO,
        }
    }

    fn run(log: &str) -> Ended {
        ended(&format!("@exit 0\n@tainted 4096\n@log\n{log}\n@end\n"))
    }

    fn failures(scenario: &Scenario, ended: &Ended) -> String {
        judge(scenario, ended).failures.join("\n")
    }

    #[test]
    fn results_of_a_run_are_merged() {
        let text = "@result {\"a\": 1, \"t\": {\"x\": 1}}\nother\n@result {\"t\": {\"y\": 2}, \"a\": 3}\n@exit 0\n@log\n@end\n";
        let verdict = judge(&scenario("[[check]]\nwhat = 'number'\npointer = '/t/x'\nequals = 1\n"), &ended(text));
        assert!(verdict.failures.is_empty(), "{:?}", verdict.failures);
        assert_eq!(Value::Object(verdict.results), serde_json::json!({ "a": 3, "t": { "x": 1, "y": 2 } }));
        let broken = "@result [1]\n@result {\"a\"\n@exit 0\n@log\n@end\n";
        assert_eq!(judge(&scenario(""), &ended(broken)).failures.len(), 2);
    }

    #[test]
    fn a_check_that_does_not_hold_fails_the_run() {
        let strict = scenario("[[check]]\nwhat = 'truth'\npointer = '/ok'\nequals = true\n");
        let text = |value: &str| format!("@result {{\"ok\": {value}}}\n@exit 0\n@log\n@end\n");
        assert_eq!(failures(&strict, &ended(&text("true"))), "");
        assert!(failures(&strict, &ended(&text("false"))).contains("expected: /ok is true"));
        assert!(failures(&strict, &run("")).contains("there is no /ok"));
    }

    #[test]
    fn a_run_without_its_end_fails_with_the_last_lines() {
        let mut cut = ended("started\n@exit 0\n@log\nfine\n");
        cut.console = "last words\n".to_owned();
        let text = failures(&scenario(""), &cut);
        assert!(text.contains("did not reach its end") && text.contains("last words"), "{text}");
        cut.failure = Some("it took longer than 3 s".into());
        assert!(failures(&scenario(""), &cut).contains("longer than 3 s"));
    }

    #[test]
    fn a_script_that_fails_fails_the_run() {
        let text = failures(&scenario(""), &ended("no luck\n@exit 3\n@log\n@end\n"));
        assert!(text.contains("ended with 3") && text.contains("no luck"), "{text}");
        assert!(failures(&scenario(""), &ended("@log\n@end\n")).contains("no exit code"));
        let text = failures(&scenario(""), &ended("@failed cannot load amdgpu.ko\n@exit 0\n@log\n@end\n"));
        assert_eq!(text, "cannot load amdgpu.ko");
    }

    #[test]
    fn every_forbidden_kind_of_line_is_noticed() {
        let lines = [
            "[    3.1] WARNING: CPU: 0 PID: 84 at lib/refcount.c:25 refcount_warn_saturate+0x1/0x2",
            "[    3.1] BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "[    3.1] kernel BUG at mm/slub.c:448!",
            "[    3.1] Oops: 0002 [#1] PREEMPT SMP PTI",
            "[    3.1] Kernel panic - not syncing: Fatal exception",
            "[    3.1] general protection fault, probably for non-canonical address 0xdead",
            "[    3.1] gpreempt[84]: segfault at 0 ip 000055 sp 00007f error 4",
            "[    3.1] Kernel panic - not syncing: stack-protector: Kernel stack is corrupted in: x",
            "[    3.1] refcount_t: addition on 0; use-after-free.",
            "[    3.1] WARNING: possible circular locking dependency detected",
            "[    3.1] inconsistent lock state",
            "[    3.1] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "[    3.1] rcu: INFO: rcu_preempt self-detected stall on CPU",
            "[    3.1] INFO: task kworker/0:1:12 blocked for more than 120 seconds.",
            "[    3.1] watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [sh:1]",
            "[    3.1] list_del corruption. prev->next should be ffff, but was ffff",
            "[    3.1] BUG: KASAN: slab-use-after-free in f+0x1/0x2 [amdgpu]",
            "[    3.1] BUG: KCSAN: data-race in f [amdgpu] / g [amdgpu]",
            "[    3.1] BUG: sleeping function called from invalid context at kernel/locking/mutex.c:585",
            "[    3.1] WARNING: suspicious RCU usage",
            "[    3.1] INFO: trying to register non-static key.",
            "[    3.1] ODEBUG: free active (active state 0) object: ffff object type: timer_list",
            "[    3.1] UBSAN: array-index-out-of-bounds in x.c:1:2",
        ];
        for line in lines {
            assert!(failures(&scenario(""), &run(line)).contains("must not be there"), "{line}");
        }
        for fine in ["[    0.0] Linux version 6.12", "[    1.0] amdgpu: loading out-of-tree module taints kernel."] {
            assert_eq!(failures(&scenario(""), &run(fine)), "");
        }
        let mut only_on_console = run("");
        only_on_console.console = "[    3.1] BUG: unable to handle page fault\n".into();
        assert!(failures(&scenario(""), &only_on_console).contains("must not be there"));
    }

    #[test]
    fn each_entry_of_the_table_is_noticed() {
        for (words, _) in FORBIDDEN {
            assert!(!failures(&scenario(""), &run(&format!("[    3.1] x {words} y"))).is_empty(), "{words}");
        }
    }

    #[test]
    fn an_expected_line_is_allowed_and_must_occur() {
        let patient = scenario("expected_log = ['WARNING: CPU: * at *kfd_device.c:* kfd_x*']\n");
        let line = "[    3.1] WARNING: CPU: 1 PID: 8 at drivers/kfd_device.c:12 kfd_x+0x1/0x2";
        assert_eq!(failures(&patient, &run(line)), "");
        assert!(failures(&patient, &run("")).contains("lacks the expected line"));
        let other = format!("{line}\n[    3.2] WARNING: CPU: 1 PID: 8 at drivers/other.c:12 kfd_x+0x1/0x2");
        let text = failures(&patient, &run(&other));
        assert!(text.contains("other.c") && !text.contains("kfd_device.c:12"), "{text}");
    }

    #[test]
    fn a_line_that_may_occur_is_allowed_and_may_be_missing() {
        let mut patient = scenario("");
        patient.may_log = vec!["BUG: KASAN: * in f+*".to_owned()];
        assert_eq!(failures(&patient, &run("[    3.1] BUG: KASAN: slab-use-after-free in f+0x1/0x2 [amdgpu]")), "");
        assert_eq!(failures(&patient, &run("")), "");
        assert!(failures(&patient, &run("[    3.1] BUG: KASAN: slab-use-after-free in g+0x1/0x2")).contains("in g+"));
    }

    #[test]
    fn a_warning_that_the_log_has_lost_is_noticed() {
        let lost = ended("@exit 0\n@tainted 4608\n@log\n@end\n");
        assert!(failures(&scenario(""), &lost).contains("has lost the warning"));
    }

    #[test]
    fn patterns_describe_whole_lines() {
        assert!(matches("a*c*e", "abcde") && matches("abc", "abc") && matches("*", "") && matches("a*", "abc"));
        assert!(!matches("a*c", "abcd") && !matches("abc", "abcd") && !matches("b*", "abc") && !matches("a*b*b", "ab"));
    }
}

//! The header of the control device agrees with this crate: a C compiler says sizes, offsets, requests and constants.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use gpreempt_kernel_abi::*;

fn header() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/gpreempt/uapi/gpreempt.h"))
}

/// C expressions and the numbers that this crate has for them.
#[derive(Default)]
struct Rows(Vec<(String, u64)>);

impl Rows {
    fn add(&mut self, expression: impl Into<String>, expected: impl Into<u64>) {
        self.0.push((expression.into(), expected.into()));
    }
}

/// Size of a structure, and offset and size of all its fields.
macro_rules! structure {
    ($rows:ident, $c:literal, $name:ident { $($field:ident),* $(,)? }) => {
        $rows.add(concat!("sizeof(struct ", $c, ")"), size_of::<$name>() as u64);
        $rows.add(concat!("_Alignof(struct ", $c, ")"), align_of::<$name>() as u64);
        $(
            let offset = std::mem::offset_of!($name, $field) as u64;
            $rows.add(concat!("offsetof(struct ", $c, ", ", stringify!($field), ")"), offset);
            let size = size_of_val(&<$name as Abi>::ZERO.$field) as u64;
            $rows.add(concat!("sizeof(((struct ", $c, " *)0)->", stringify!($field), ")"), size);
        )*
    };
}

macro_rules! enumeration {
    ($rows:ident, $prefix:literal, $name:ident) => {
        for value in $name::DEFINED {
            $rows.add(format!("{}{}", $prefix, value.name().expect("defined")), value.0);
        }
    };
}

macro_rules! flag_set {
    ($rows:ident, $prefix:literal, $name:ident) => {
        for (flag, name) in $name::NAMES {
            $rows.add(format!("{}{name}", $prefix), flag.0);
        }
    };
}

// tidy: table
fn structures(rows: &mut Rows) {
    structure!(rows, "gpreempt_version", ModuleVersion { size, abi, hooks, features, max_jobs, max_tenants });
    structure!(rows, "gpreempt_claim", Claim { size, keep_ms });
    structure!(rows, "gpreempt_settings", ModuleSettings { size, mode, watch, period_us, net_ms, grace });
    structure!(
        rows,
        "gpreempt_gpu_params",
        RawGpuParams {
            policy,
            cycles_per_second,
            cycle_burst,
            small_permille,
            weigh,
            slice_ns,
            linger_max_ns,
            cycle_estimate_ns,
            report_timeout_ns,
        }
    );
    structure!(rows, "gpreempt_gpu", GpuArgs { size, gpu_id, managed, reserved, params });
    structure!(
        rows,
        "gpreempt_job_params",
        RawJobParams {
            level,
            patience,
            stop_share_permille,
            weight,
            request_permille,
            limit_permille,
            reserved,
            patience_ns,
            min_run_ns,
            max_stop_ns,
            age_step_ns,
            period_ns,
            deadline_ns,
            runtime_ns,
        }
    );
    structure!(rows, "gpreempt_job", JobArgs { size, reserved, job, hold_until_ns, params });
    structure!(rows, "gpreempt_remove_job", RemoveJobArgs { size, reserved, job });
    structure!(rows, "gpreempt_process", ProcessArgs { size, pid, start_time, job, flags, reserved });
    structure!(rows, "gpreempt_cgroup", CgroupArgs { size, fd, job, flags, reserved });
    structure!(rows, "gpreempt_query", QueryArgs { size, kind, records, record_size, room, count, reserved });
    structure!(rows, "gpreempt_times", Times { count, sum_ns, max_ns, buckets });
    structure!(
        rows,
        "gpreempt_gpu_status",
        GpuRecord {
            gpu_id,
            flags,
            holder,
            cycle_ns,
            inversions,
            preempts,
            resumes,
            failures,
            cycles,
            switches,
            wakeups,
            wakeups_doorbell,
            wakeups_completed,
            wakeups_queues,
            wakeups_period,
            wakeups_net,
            wakeups_core,
            missed_by_doorbell,
            looks,
            look_queues,
            away,
            armed,
            arm_failed,
            watchdog,
            detection,
            decision,
            look,
            preempt,
            resume,
            stopped,
        }
    );
    structure!(rows, "gpreempt_job_status", JobRecord { job, phase, reason, cause, stopped_at_ns, tenants, works });
    structure!(
        rows,
        "gpreempt_tenant_status",
        TenantRecord {
            pid,
            gpu_id,
            start_time,
            job,
            activity,
            flags,
            queues,
            stopped_queues,
            since_ns,
            stopped_at_ns,
            pending,
            preempted,
            stopped_ns,
        }
    );
    structure!(
        rows,
        "gpreempt_event",
        ModuleEvent {
            at_ns,
            sequence,
            lost,
            kind,
            pid,
            gpu_id,
            start_time,
            job,
            cause,
            reason,
            bound,
            after_ns,
            took_ns,
            seen_ns,
            cycles,
            queues,
            activity,
            status,
        }
    );
}

fn numbers(rows: &mut Rows) {
    rows.add("GPREEMPT_ABI_VERSION", ABI_VERSION);
    rows.add("GPREEMPT_MAX_GPUS", MAX_GPUS as u64);
    rows.add("GPREEMPT_MAX_JOBS", MAX_JOBS as u64);
    rows.add("GPREEMPT_MAX_TENANTS", MAX_TENANTS as u64);
    rows.add("GPREEMPT_MAX_CGROUPS", MAX_CGROUPS as u64);
    rows.add("GPREEMPT_BUCKETS", BUCKETS as u64);
    rows.add("GPREEMPT_IOC", VERSION.class);
    for command in COMMANDS {
        rows.add(format!("GPREEMPT_IOC_{}", command.name), command.request().0);
    }
    enumeration!(rows, "GPREEMPT_MODE_", ModuleMode);
    enumeration!(rows, "GPREEMPT_WATCH_", ModuleWatch);
    enumeration!(rows, "GPREEMPT_POLICY_", RawPolicy);
    enumeration!(rows, "GPREEMPT_PATIENCE_", RawPatience);
    enumeration!(rows, "GPREEMPT_QUERY_", QueryKind);
    enumeration!(rows, "GPREEMPT_ACTIVITY_", RawActivity);
    enumeration!(rows, "GPREEMPT_REASON_", RawReason);
    enumeration!(rows, "GPREEMPT_BOUND_", RawBound);
    enumeration!(rows, "GPREEMPT_EVENT_", ModuleEventKind);
    flag_set!(rows, "GPREEMPT_FEATURE_", Features);
    flag_set!(rows, "GPREEMPT_PROCESS_", ProcessFlags);
    flag_set!(rows, "GPREEMPT_GPU_", GpuFlags);
    flag_set!(rows, "GPREEMPT_TENANT_", TenantFlags);
}

fn rows() -> Rows {
    let mut rows = Rows::default();
    structures(&mut rows);
    numbers(&mut rows);
    rows
}

/// Words of the header with the prefix of its constants, except those in comments.
fn constants() -> BTreeSet<String> {
    let text = std::fs::read_to_string(header()).expect("the header");
    let mut code = String::new();
    for (index, part) in text.split("/*").enumerate() {
        code.push_str(if index == 0 { part } else { part.split_once("*/").expect("a comment ends").1 });
    }
    let words = code.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("GPREEMPT_")).map(str::to_owned).collect()
}

/// Fields of the structures of the header: declarations that end with a semicolon.
fn fields() -> usize {
    let text = std::fs::read_to_string(header()).expect("the header");
    text.lines().filter(|line| line.starts_with('\t') && line.ends_with(';')).count()
}

#[test]
fn every_constant_and_field_of_the_header_is_compared() {
    let rows = rows();
    let compared: BTreeSet<String> =
        rows.0.iter().map(|(name, _)| name.clone()).filter(|name| name.starts_with("GPREEMPT_")).collect();
    assert_eq!(compared, constants());
    let offsets = rows.0.iter().filter(|(name, _)| name.starts_with("offsetof")).count();
    assert_eq!(offsets, fields());
}

#[test]
#[ignore = "needs a C compiler"]
fn the_header_agrees() {
    let rows = rows();
    let mut program = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"{}\"\nint main(void) {{\n",
        header().canonicalize().expect("the header").display()
    );
    for (expression, _) in &rows.0 {
        writeln!(program, "printf(\"%llu\\n\", (unsigned long long)({expression}));").expect("text");
    }
    program.push_str("return 0;\n}\n");
    let folder = tempfile::tempdir().expect("a folder");
    let (source, binary) = (folder.path().join("say.c"), folder.path().join("say"));
    std::fs::write(&source, program).expect("written");
    let status = Command::new("cc").arg("-o").args([&binary, &source]).status().expect("cc is installed");
    assert!(status.success());
    let answer = Command::new(&binary).output().expect("the program runs");
    let answer = String::from_utf8(answer.stdout).expect("text");
    let said: Vec<u64> = answer.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(said.len(), rows.0.len());
    let wrong: Vec<_> = rows.0.iter().zip(said).filter(|((_, expected), said)| expected != said).collect();
    assert!(wrong.is_empty(), "the header says otherwise: {wrong:#?}");
}

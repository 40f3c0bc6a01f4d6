//! What processes get.

use gpreempt_core::{Level, Nanos, Patience, PolicyKind};

use super::{asking, parse, process};
use crate::config::{Assignment, RuleMatch};
use crate::identity::Identity;

const TWO: &str = "
[[rule]]
name = \"serving\"
uid = 1
executable = \"python*\"
command = \"*serve*\"
environment = { ROLE = \"online\" }
level = 12

[[rule]]
name = \"rest\"
user = \"*\"
level = 3
max_level = 5
";

#[test]
fn all_keys_of_a_rule_must_match_and_the_first_rule_decides() {
    let config = parse(TWO);
    let mut server = asking(1, "ROLE", "online");
    server.command = vec!["python3".to_string(), "serve.py".to_string()];
    let assignment = config.assignment(&server).expect("managed");
    assert_eq!((assignment.rule.as_str(), assignment.params.level.get()), ("serving", 12));

    let rest = |change: fn(&mut Identity)| {
        let mut process = server.clone();
        change(&mut process);
        config.assignment(&process).map(|assignment| assignment.rule)
    };
    assert_eq!(rest(|process| process.uid = 2).as_deref(), Some("rest"));
    assert_eq!(rest(|process| process.executable = "/usr/bin/perl".to_string()).as_deref(), Some("rest"));
    assert_eq!(rest(|process| process.command = vec!["train".to_string()]).as_deref(), Some("rest"));
    assert_eq!(rest(|process| process.environment.clear()).as_deref(), Some("rest"));
    assert_eq!(config.variables(), ["ROLE"]);
}

#[test]
fn a_process_that_matches_nothing_or_is_exempt_is_left_alone_and_it_is_known_why() {
    let config = parse("[[rule]]\nname = \"desk\"\nuid = 1\nmanage = false\n[[rule]]\nuid = 2\nlevel = 1\n");
    assert_eq!(config.match_rules(&process(1)), RuleMatch::Exempt { rule: "desk".to_string() });
    assert_eq!(config.match_rules(&process(3)), RuleMatch::Unmatched);
    assert_eq!((config.assignment(&process(1)), config.assignment(&process(3))), (None, None));
    assert_eq!(config.assignment(&process(2)).map(|assignment| assignment.rule).as_deref(), Some("rule-2"));
}

#[test]
fn a_level_asked_for_is_granted_up_to_the_highest_and_garbage_is_noted() {
    let config = parse(TWO);
    let level = |value: &str| {
        let assignment = config.assignment(&asking(2, "GPREEMPT_LEVEL", value)).expect("managed");
        (assignment.params.level.get(), assignment.notes)
    };
    assert_eq!(level("4"), (4, vec![]));
    assert_eq!(level("0"), (0, vec![]));
    assert_eq!(
        level("15"),
        (5, vec!["GPREEMPT_LEVEL=15 is above max_level of the rule: the process gets 5".to_string()])
    );
    let ignored = "GPREEMPT_LEVEL=\"\\u{1b}[2J\" is ignored: a level is a number from 0 to 15".to_string();
    assert_eq!(level("\u{1b}[2J"), (3, vec![ignored]));
    assert_eq!(level("-1").0, 3);
    assert_eq!(level("300").0, 3);
}

#[test]
fn a_highest_level_below_the_level_holds() {
    let config = parse("[[rule]]\nuid = 1\nlevel = 9\nmax_level = 4\n");
    assert_eq!(config.assignment(&process(1)).map(|assignment| assignment.params.level.get()), Some(4));
}

#[test]
fn jobs_that_users_name_stay_apart_from_those_of_others_and_of_rules() {
    let config = parse("[[rule]]\nuser = \"*\"\nlevel = 1\njob = \"batch\"\n");
    let job = |uid, name: &str| config.assignment(&asking(uid, "GPREEMPT_JOB", name)).map(|assignment| assignment.job);
    assert_eq!(job(0, "batch").as_deref(), Some("root/batch"));
    assert_eq!(job(3_999_999_999, "batch").as_deref(), Some("3999999999/batch"));
    for garbage in ["", "a/b", "../x", "x y", "\n", "ä", &"x".repeat(65)] {
        let assignment = config.assignment(&asking(0, "GPREEMPT_JOB", garbage)).expect("managed");
        assert_eq!((assignment.job.as_str(), assignment.notes.len()), ("batch", 1), "{garbage:?}");
    }
}

#[test]
fn rules_group_processes_by_what_the_kernel_says_of_them() {
    let job = |grouping: &str, cgroup: &str| {
        let config = parse(&format!("[[rule]]\nuser = \"*\"\nlevel = 1\njob = \"{grouping}\"\n"));
        let mut process = process(0);
        process.cgroup = cgroup.to_string();
        config.assignment(&process).map(|assignment| assignment.job).unwrap_or_default()
    };
    let slurm = "/system.slice/slurmstepd.scope/job_77/step_0/user/task_0";
    assert_eq!(job("process", slurm), "pid-4711");
    assert_eq!(job("cgroup", "/a/b"), "cgroup:/a/b");
    assert_eq!(job("cgroup", ""), "pid-4711");
    assert_eq!(job("user", slurm), "user:root");
    assert_eq!(job("slurm", slurm), "slurm-77");
    assert_eq!(job("slurm", "/slurm/uid_1000/job_5/step_batch"), "slurm-5");
    assert_eq!(job("slurm", "/user.slice/user-1000.slice/slurm/job_77"), "pid-4711");
    assert_eq!(job("slurm", "/system.slice/job_77"), "pid-4711");
    assert_eq!(job("train-{user}-{uid}-{slurm}", slurm), "train-root-0-77");
    assert_eq!(job("train-{slurm}", "/elsewhere"), "pid-4711");
}

#[test]
fn a_job_is_never_more_than_the_least_of_its_members() {
    let member = |level, max_level| {
        let config = parse(&format!("[[rule]]\nuser = \"*\"\nlevel = {level}\nmax_level = {max_level}\n"));
        config.assignment(&process(1)).expect("managed")
    };
    let (high, low) = (member(12, 14), member(5, 6));
    for members in [[&high, &low], [&low, &high]] {
        let job = Assignment::of_job(members).expect("it has members");
        assert_eq!((job.params.level.get(), job.max_level.get()), (5, 6));
    }
    assert_eq!(Assignment::of_job([]), None);
}

#[test]
fn containers_are_trusted_only_where_users_cannot_name_them() {
    let with = |lines: &str, cgroup: &str| {
        let config = parse(&format!("[[rule]]\ncontainer = \"web*\"\nlevel = 1\n{lines}"));
        let mut process = process(7);
        process.cgroup = cgroup.to_string();
        process.container = Some("web-1".to_string());
        config.assignment(&process).is_some()
    };
    let (system, users) = ("/system.slice/docker-0123.scope", "/user.slice/user-7.slice/libpod-0123.scope");
    assert!(with("", system));
    assert!(!with("", users));
    assert!(!with("user = \"*\"", users));
    assert!(with("uid = 7", users));
}

#[test]
fn executables_are_compared_by_path_if_the_pattern_has_a_slash() {
    let matches = |pattern: &str| {
        parse(&format!("[[rule]]\nuser = \"*\"\nexecutable = \"{pattern}\"\nlevel = 1"))
            .assignment(&process(1))
            .is_some()
    };
    assert!(matches("python3*") && matches("/usr/bin/*") && matches("*"));
    assert!(!matches("usr*") && !matches("/bin/*"));
}

#[test]
fn settings_reach_the_core_in_its_units() {
    let config = parse(
        "[[rule]]\nuid = 1\nlevel = 7\npatience_us = 150\nmin_run_ms = 2.5\nmax_stop_ms = 1000\nage_step_ms = 20\n\
         stop_share = 0.25\nweight = 3\nrequest = 0.1\nlimit = 0.9\nperiod_ms = 50\ndeadline_ms = 40\nruntime_ms = 5\n",
    );
    let params = config.assignment(&process(1)).expect("managed").params;
    assert_eq!(Some(params.level), Level::new(7));
    assert_eq!(params.patience, Patience::Fixed(Nanos::from_micros(150)));
    assert_eq!((params.min_run, params.max_stop), (Nanos::from_micros(2500), Nanos::from_secs(1)));
    assert_eq!((params.age_step, params.weight), (Nanos::from_millis(20), 3));
    assert_eq!((params.stop_share.get(), params.request.get(), params.limit.get()), (250, 100, 900));
    assert_eq!((params.period, params.deadline), (Nanos::from_millis(50), Nanos::from_millis(40)));
    assert_eq!(params.runtime, Nanos::from_millis(5));
}

#[test]
fn gpus_are_found_by_address_partitions_included() {
    let config = parse(
        "[[gpu]]\ngpu = \"0000:C1:00.0/3\"\nmanage = false\n[[gpu]]\ngpu = \"0000:c1:00.0\"\npolicy = \"fair\"\nslice_ms = 4\n",
    );
    assert!(!config.manages("0000:c1:00.0/3") && config.manages("0000:c1:00.0/4") && config.manages("0000:01:00.0"));
    assert_eq!(config.gpu("0000:c1:00.0/4").policy, PolicyKind::Fair);
    assert_eq!(config.gpu("0000:c1:00.0").slice, Nanos::from_millis(4));
    assert_eq!(config.gpu("0000:01:00.0"), gpreempt_core::GpuParams::default());
}

#[test]
fn a_control_group_has_one_job_where_its_rule_asks_for_nothing_else() {
    let of = |rules: &str, path: &str| {
        let process = Identity { cgroup: path.into(), uid: 5, ..Identity::default() };
        parse(rules).whole_cgroup(&process).map(str::to_owned)
    };
    let pods = "[[rule]]\ncgroup = \"/kubepods.slice/*\"\nlevel = 3\njob = \"cgroup\"\n";
    let path = "/kubepods.slice/kubepods-podx/c.scope";
    assert_eq!(of(pods, path).as_deref(), Some(path));
    let slurm = "[[rule]]\ncgroup = \"/system.slice/*slurmstepd.scope/job_*\"\njob = \"slurm\"\nlevel = 4\n";
    let step = "/system.slice/slurmstepd.scope/job_12/step_0/user/task_0";
    assert_eq!(of(slurm, step).as_deref(), Some("/system.slice/slurmstepd.scope/job_12"));
    for (narrowing, why) in [
        ("[[rule]]\nuid = 0\nlevel = 9\n", "an earlier rule may match some of them"),
        ("[[rule]]\ncgroup = \"/kubepods.slice/kubepods-podx/c.scope/special*\"\nlevel = 9\n", "or some below"),
        ("[[rule]]\nuser = \"*\"\nexecutable = \"serve\"\nlevel = 9\n", "or by what they claim"),
    ] {
        assert_eq!(of(&format!("{narrowing}{pods}"), path), None, "{why}");
    }
    let elsewhere = "[[rule]]\ncgroup = \"/system.slice/a*\"\nlevel = 9\n";
    assert_eq!(of(&format!("{elsewhere}{pods}"), path).as_deref(), Some(path), "a rule for others is in nobody's way");
    for (key, why) in [
        ("cgroup = \"/kubepods.slice/*\"\nuid = 5\njob = \"cgroup\"", "for one user"),
        ("cgroup = \"/kubepods.slice/*\"\nexecutable = \"*\"\njob = \"cgroup\"", "by claims"),
        ("cgroup = \"/kubepods.slice/*\"", "each process alone"),
        ("cgroup = \"/kubepods.slice/*\"\njob = \"of-{user}\"", "a job for each user"),
        ("cgroup = \"/kubepods.slice/*scope\"\njob = \"cgroup\"", "what is below may have another rule"),
    ] {
        assert_eq!(of(&format!("[[rule]]\nlevel = 3\n{key}\n"), path), None, "{why}");
    }
    let anywhere = "[[rule]]\ncgroup = \"*\"\nlevel = 3\njob = \"cgroup\"\n";
    assert_eq!(of(anywhere, "/user.slice/user-5.slice/x.scope"), None, "its user may make others below");
    assert_eq!(of(anywhere, "/"), None);
}

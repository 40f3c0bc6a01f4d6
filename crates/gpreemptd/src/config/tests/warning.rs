//! Warnings: each occurs where it should, and a sensible file has none.

use super::parse;

const SENSIBLE: &str =
    "mode = \"enforce\"\n[[rule]]\nname = \"a\"\nuid = 1\nlevel = 9\n[[rule]]\nname = \"b\"\nuser = \"*\"\nlevel = 2\n";

#[test]
fn a_sensible_file_has_no_warning() {
    assert_eq!(parse(SENSIBLE).warnings(), Vec::<String>::new());
}

#[test]
fn each_oddity_is_said_once() {
    let rule = |lines: &str| {
        format!("{SENSIBLE}[[rule]]\nname = \"z\"\ncgroup = \"/x\"\n{lines}\n").replace("user = \"*\"", "uid = 2")
    };
    let cases = [
        ("[[rule]]\nuid = 1\nlevel = 5\n[[rule]]\nuid = 2\nlevel = 1".to_string(), "mode is \"observe\""),
        ("mode = \"enforce\"".to_string(), "no rule gives a level"),
        (
            "mode = \"enforce\"\n[[rule]]\nuid = 1\nlevel = 5\n[[rule]]\nuid = 2\nlevel = 5".to_string(),
            "all rules give level 5",
        ),
        (rule("level = 9\nmax_level = 4"), "max_level 4 is below level 9"),
        (rule("level = 9\nstop_share = 0"), "stop_share is 0"),
        (
            rule("level = 9\nlimit = 0.2\nrequest = 0.5\n[[gpu]]\ngpu = \"*\"\npolicy = \"fair\""),
            "limit is below request",
        ),
        (rule("level = 9\nlimit = 0.2"), "only under policy = \"fair\""),
        (rule("level = 9\nperiod_ms = 5"), "only under policy = \"deadline\""),
        (
            rule("level = 9\nperiod_ms = 5\ndeadline_ms = 6\n[[gpu]]\ngpu = \"*\"\npolicy = \"deadline\""),
            "above period_ms",
        ),
        (
            rule("level = 9\nperiod_ms = 5\nruntime_ms = 6\n[[gpu]]\ngpu = \"*\"\npolicy = \"deadline\""),
            "cannot be met",
        ),
        (rule("level = 9\n[[rule]]\ncgroup = \"*/job_*\"\nlevel = 3"), "below /user.slice"),
        (rule("level = 9\njob = \"j\"\n[[rule]]\ncgroup = \"/y\"\nlevel = 3\njob = \"j\""), "make one job \"j\""),
        (
            rule("level = 9\n[[gpu]]\ngpu = \"0000:*\"\n[[gpu]]\ngpu = \"0000:c1:00.0\""),
            "gpu \"0000:c1:00.0\" is never reached",
        ),
        (rule("level = 9\n[[gpu]]\ngpu = \"*\"\ncycles_per_second = 50\ncycle_burst = 1"), "cycle_burst 1 is less"),
        (
            rule("level = 9\nmax_stop_ms = 10\n[[gpu]]\ngpu = \"*\"\ncycles_per_second = 50"),
            "no bound on waiting holds",
        ),
        (
            format!("[watch]\nspin_core = 4095\n{SENSIBLE}").replace("mode = \"enforce\"\n", ""),
            "watch.spin_core = 4095",
        ),
    ];
    for (text, expected) in cases {
        let warnings = parse(&text).warnings();
        let hits = warnings.iter().filter(|warning| warning.contains(expected)).count();
        assert_eq!(hits, 1, "{expected}: {warnings:?} for\n{text}");
        let others = warnings.iter().filter(|warning| !warning.contains(expected) && !warning.contains("observe"));
        assert_eq!(others.count(), 0, "{expected}: {warnings:?}");
    }
}

#[test]
fn a_rule_behind_one_that_matches_more_is_never_reached() {
    let reached = |earlier: &str, later: &str| {
        let text =
            format!("[[rule]]\nname = \"e\"\nlevel = 5\n{earlier}\n[[rule]]\nname = \"l\"\nlevel = 1\n{later}\n");
        !parse(&text).warnings().iter().any(|warning| warning.contains("rule \"l\" is never reached"))
    };
    let hidden = [
        ("user = \"*\"", "uid = 5"),
        ("uid = 5", "uid = 5\ncommand = \"x\""),
        ("uid = 0", "user = \"root\""),
        ("cgroup = \"/a/*\"", "cgroup = \"/a/b/*\"\nuid = 1"),
        ("cgroup = \"*\"", "uid = 1"),
        ("uid = 1\nexecutable = \"py*\"", "uid = 1\nexecutable = \"python3\""),
        ("uid = 1\nenvironment = { A = \"*\" }", "uid = 1\nenvironment = { A = \"x\", B = \"y\" }"),
        ("container = \"a*\"", "container = \"ab\""),
    ];
    for (earlier, later) in hidden {
        assert!(!reached(earlier, later), "{earlier} / {later}");
    }
    let seen = [
        ("uid = 5", "user = \"*\""),
        ("uid = 5\ncommand = \"x\"", "uid = 5"),
        ("cgroup = \"/a/b*\"", "cgroup = \"/a/*\""),
        ("uid = 1\nexecutable = \"*b*\"", "uid = 1\nexecutable = \"/a/b/c\""),
        ("uid = 1\nenvironment = { A = \"*\" }", "uid = 1"),
        ("container = \"a*\"", "container = \"ab\"\nuid = 1"),
        ("container = \"*\"", "uid = 1"),
    ];
    for (earlier, later) in seen {
        assert!(reached(earlier, later), "{earlier} / {later}");
    }
}

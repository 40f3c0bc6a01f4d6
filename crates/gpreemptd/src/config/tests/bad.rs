//! Bad files: the exact words.

use crate::config::Config;

/// What is said about a text.
fn said(text: &str) -> String {
    Config::parse("f.toml", text).expect_err("a bad file").to_string()
}

/// A rule with these lines in front.
fn rule(lines: &str) -> String {
    said(&format!("[[rule]]\n{lines}\n"))
}

#[test]
fn every_message_names_the_place_shows_the_line_and_says_what_to_write() {
    assert_eq!(
        said("mode = \"enforced\"\n"),
        "f.toml:1:8: mode: found \"enforced\", expected \"observe\" or \"enforce\"\n  1 | mode = \"enforced\"\n    |        ^^^^^^^^^^"
    );
    assert_eq!(
        said("\nscan_ms = 20"),
        "f.toml:2:11: scan_ms: found 20, expected a number from 1 to 10 ms\n  2 | scan_ms = 20\n    |           ^^"
    );
    assert_eq!(
        said("[watch]\ncpu = 3"),
        "f.toml:2:7: watch.cpu: found 3, expected a number from 0.001 to 1\n  2 | cpu = 3\n    |       ^"
    );
    assert_eq!(
        said("grace_kiloclocks = 256"),
        "f.toml:1:20: grace_kiloclocks: found 256, expected a whole number from 1 to 255\n  1 | grace_kiloclocks = 256\n    |                    ^^^"
    );
    assert_eq!(
        said("scan_mss = 5"),
        "f.toml:1:1: unknown key `scan_mss` in the top of the file; did you mean `scan_ms`?\n  1 | scan_mss = 5\n    | ^^^^^^^^"
    );
    assert_eq!(
        said("[watch]\ncolour = 1"),
        "f.toml:2:1: unknown key `colour` in [watch]; known are cpu, period_us, fixed, spin_core, method, kernel_period_ms, net_ms\n  2 | colour = 1\n    | ^^^^^^"
    );
    assert_eq!(
        said("[breaker]\npause_s = 100\nlongest_s = 50"),
        "f.toml:3:13: the first pause (100 s) is longer than the longest (50 s); raise longest_s or lower pause_s\n  3 | longest_s = 50\n    |             ^^"
    );
    assert_eq!(
        said("rule = 1"),
        "f.toml:1:8: rule: found 1, expected a list of tables, [[rule]]\n  1 | rule = 1\n    |        ^"
    );
    assert_eq!(
        said("watch = true"),
        "f.toml:1:9: watch: found true, expected a table, [watch]\n  1 | watch = true\n    |         ^^^^"
    );
}

#[test]
fn rules_without_a_trusted_key_or_a_level_are_refused_at_their_header() {
    assert_eq!(
        rule("command = \"*serve*\"\nlevel = 3"),
        "f.toml:1:1: this rule matches only what a process chooses itself; add user, group, cgroup or container (user = \"*\" matches every user)\n  1 | [[rule]]\n    | ^^^^^^^^"
    );
    assert_eq!(
        rule("user = \"*\""),
        "f.toml:1:1: this rule has no level: add level = 0 to 15, or manage = false\n  1 | [[rule]]\n    | ^^^^^^^^"
    );
    assert_eq!(
        said("[[gpu]]\nslice_ms = 5"),
        "f.toml:1:1: this [[gpu]] does not say which: add gpu = \"0000:c1:00.0\" (`gpreempt ps` shows addresses), or gpu = \"*\"\n  1 | [[gpu]]\n    | ^^^^^^^"
    );
}

#[test]
fn values_of_rules_are_checked_with_their_place() {
    let cases = [
        ("level = 16", "2:9: rule[0].level: found 16, expected a whole number from 0 to 15"),
        ("level = 1.5", "2:9: rule[0].level: found 1.5, expected a whole number from 0 to 15"),
        ("level = -1", "2:9: rule[0].level: found -1, expected a whole number from 0 to 15"),
        (
            "level = 99999999999999999999",
            "2:9: rule[0].level: found 99999999999999999999, expected a whole number from 0 to 15",
        ),
        ("level = 3\nmin_run_ms = nan", "3:14: rule[0].min_run_ms: found nan, expected a number from 0 to 60000 ms"),
        ("level = 3\nmax_stop_ms = 0", "3:15: rule[0].max_stop_ms: found 0, expected a number from 1 to 86400000 ms"),
        ("level = 3\nstop_share = 1.5", "3:14: rule[0].stop_share: found 1.5, expected a number from 0 to 1"),
        (
            "level = 3\nlimit = 0.0155",
            "3:9: rule[0].limit: found 0.0155, expected a number from 0.01 to 1 in steps of 0.001",
        ),
        (
            "level = 3\npatience_us = \"eager\"",
            "3:15: rule[0].patience_us: found \"eager\", expected a number from 0 to 1000000 us, or \"adaptive\"",
        ),
        (
            "level = 3\npatience_us = 5\npatience_max_us = 9",
            "4:19: patience_max_us has no effect beside a fixed patience; remove it, or write patience_us = \"adaptive\"",
        ),
        ("level = 3\ndeadline_ms = 5", "3:15: deadline_ms needs period_ms, the time between two releases"),
        ("manage = false\nlevel = 3", "3:9: `level` has no effect beside manage = false; remove one"),
        ("manage = \"no\"\nlevel = 3", "2:10: rule[0].manage: found \"no\", expected true or false"),
        ("level = 3\ncommand = \"a[b\"", "3:11: the pattern has a `[` without `]`; a literal bracket is `[[]`"),
        ("level = 3\nexecutable = 5", "3:14: rule[0].executable: found 5, expected a pattern in quotes, like \"*\""),
        (
            "level = 3\nenvironment = { A = 5 }",
            "3:21: rule[0].environment.A: found 5, expected a pattern in quotes, like \"*\"",
        ),
        (
            "level = 3\nenvironment = { \"A=B\" = \"*\" }",
            "3:17: the name of a variable consists of letters, digits and _ here",
        ),
        (
            "level = 3\njob = \"a/b\"",
            "3:7: a job's name has no slash: that is for names users choose, which become USER/NAME",
        ),
        ("level = 3\njob = \"{pid}\"", "3:7: in a job's name only {user}, {uid}, {cgroup}, {slurm} are filled in"),
        ("level = 3\nname = \"\"", "3:8: a name has 1 to 64 printable characters"),
        ("level = 3\nlevle = 4", "3:1: unknown key `levle` in [[rule]]; did you mean `level`?"),
    ];
    for (lines, expected) in cases {
        // The trusted key comes last, so that the lines of a case begin with the second.
        let said = rule(&format!("{lines}\nuser = \"*\""));
        assert_eq!(said.lines().next(), Some(format!("f.toml:{expected}").as_str()), "{lines}");
        assert_eq!(said.lines().count(), 3, "{lines}: one problem is reported once: {said}");
    }
}

#[test]
fn accounts_are_looked_up_when_the_file_is_read() {
    let first = |text: &str| rule(text).lines().next().map(str::to_string);
    assert_eq!(
        first("level = 3\nuser = \"no-such-user\"").as_deref(),
        Some("f.toml:3:8: there is no user \"no-such-user\" on this machine; `getent passwd` lists them")
    );
    assert_eq!(
        first("level = 3\ngroup = \"no-such-group\"").as_deref(),
        Some("f.toml:3:9: there is no group \"no-such-group\" on this machine; `getent group` lists them")
    );
    assert_eq!(
        first("level = 3\nuser = \"root\"\nuid = 0").as_deref(),
        Some("f.toml:4:7: user and uid say the same thing; remove one")
    );
    assert_eq!(
        first("level = 3\nuser = 5").as_deref(),
        Some("f.toml:3:8: rule[0].user: found 5, expected a name in quotes, or uid = N")
    );
}

#[test]
fn all_problems_are_reported_in_the_order_of_the_file() {
    let said = said(
        "scan_ms = 0\n[[rule]]\nname = \"a\"\nuid = 5\nlevel = 20\n[[rule]]\nname = \"a\"\nuid = 6\nlevel = 1\nweight = 0\n[[gpu]]\npolicy = \"fifo\"\n",
    );
    let places: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("f.toml:")).collect();
    assert_eq!(
        places,
        [
            "1:11: scan_ms: found 0, expected a number from 1 to 10 ms",
            "5:9: rule[0].level: found 20, expected a whole number from 0 to 15",
            "7:8: a second rule \"a\"; names tell rules apart in `gpreempt log`: choose another",
            "10:10: rule[1].weight: found 0, expected a whole number from 1 to 10000",
            "11:1: this [[gpu]] does not say which: add gpu = \"0000:c1:00.0\" (`gpreempt ps` shows addresses), or gpu = \"*\"",
            "12:10: gpu[0].policy: found \"fifo\", expected \"priority\", \"fair\" or \"deadline\"",
        ]
    );
}

#[test]
fn more_problems_than_anybody_reads_are_counted() {
    let said = said(&"[[rule]]\nuid = 1\nlevel = 16\nname = \"x\"\n".repeat(30));
    assert!(said.ends_with("\nf.toml: and 39 more"), "{said}");
}

#[test]
fn broken_syntax_is_reported_where_it_breaks_and_nothing_else_is() {
    let said = said("mode = observe\n[[rule]]\n");
    assert!(said.starts_with("f.toml:1:8: this is not TOML: "), "{said}");
    assert_eq!(said.matches("f.toml:").count(), 1, "{said}");
    let twice = self::said("mode = \"observe\"\nmode = \"enforce\"\n");
    assert!(twice.starts_with("f.toml:2:1: this is not TOML: duplicate key"), "{twice}");
}

#[test]
fn too_many_rules_are_refused() {
    let said = said(&"[[rule]]\nuid = 1\nlevel = 1\n".repeat(1001));
    assert!(said.contains("3001:1: more than 1000 [[rule]]; remove the others"), "{said}");
}

#[test]
fn deep_nesting_and_a_file_full_of_mistakes_end_in_a_report() {
    let deep = said(&format!("mode = {}{}", "[".repeat(200_000), "]".repeat(200_000)));
    assert!(deep.starts_with("f.toml:1:"), "{}", &deep[..deep.len().min(200)]);
    let tables = said(&format!("[{}a]\n", "a.".repeat(200_000)));
    assert!(tables.starts_with("f.toml:1:"), "{}", &tables[..tables.len().min(200)]);
    let keys: String = (0..20_000).map(|number| format!("levle{number} = 1\n")).collect();
    assert!(said(&keys).ends_with("f.toml: and 19980 more"));
}

#[test]
fn a_file_is_loaded_with_its_path_and_refused_with_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gpreempt.toml");
    std::fs::write(&path, "\u{feff}mode = \"enforce\"\n").expect("written");
    let config = Config::load(&path).expect("a good file");
    assert_eq!((config.source.as_deref(), config.mode), (Some(path.as_path()), gpreempt_proto::Mode::Enforce));
    std::fs::write(&path, "mode = 1\n").expect("written");
    let error = Config::load(&path).expect_err("a bad file").to_string();
    assert!(error.starts_with(&format!("{}:1:8: mode: found 1, expected", path.display())), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_refused_with_the_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gpreempt.toml");
    let said =
        || Config::load(&path).expect_err("is not readable").to_string().replace(path.to_str().expect("UTF-8"), "FILE");
    assert_eq!(said(), "FILE: there is no such file; `gpreempt config init` prints one to start from");
    std::fs::File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    assert_eq!(said(), "FILE: it is larger than 1 MiB, the most that is read; is it a configuration at all?");
}

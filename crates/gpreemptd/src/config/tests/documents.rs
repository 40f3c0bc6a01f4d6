//! What is printed and written about configurations.

use super::parse;
use crate::config::Config;
use crate::config::parse::{BREAKER_KEYS, GPU_KEYS, RULE_KEYS, TOP_KEYS, WATCH_KEYS};

const MANUAL: &str = include_str!("../../../../../docs/configuration.md");

/// The chapters of the manual, what precedes a key of theirs in a file, and the keys the parser knows there.
const CHAPTERS: [(&str, &str, &[&str]); 5] = [
    ("## Top of the file", "", TOP_KEYS),
    ("## `[watch]`", "[watch]", WATCH_KEYS),
    ("## `[breaker]`", "[breaker]", BREAKER_KEYS),
    ("## `[[rule]]`", "[[rule]]", RULE_KEYS),
    ("## `[[gpu]]`", "[[gpu]]", GPU_KEYS),
];

/// Key, default and range of each row of a chapter.
fn rows(title: &str) -> Vec<[String; 3]> {
    let (_, rest) = MANUAL.split_once(&format!("{title}\n")).unwrap_or_else(|| panic!("no chapter {title}"));
    let chapter = rest.split("\n## ").next().unwrap_or_default();
    // Values of one key have a table of their own; they are in quotes.
    let rows = chapter.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `\""));
    rows.map(|row| {
        let mut cells = row.split('|').skip(1).map(|cell| cell.trim().replace('`', ""));
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    })
    .collect()
}

#[test]
fn the_manual_has_a_row_for_every_key_in_the_chapter_of_its_table() {
    for (title, _, keys) in CHAPTERS {
        let found: Vec<String> = rows(title).into_iter().map(|[key, _, _]| key).collect();
        assert_eq!(found, keys, "{title}");
    }
}

#[test]
fn ranges_in_the_manual_are_those_of_the_parser() {
    let mut checked = 0;
    for (title, header, _) in CHAPTERS {
        for [key, _, range] in rows(title) {
            let range = range.split(',').next().unwrap_or_default();
            let Some((low, high)) = range.split_once(" to ") else {
                continue;
            };
            let (Ok(low), Ok(high)) = (low.parse::<f64>(), high.parse::<f64>()) else {
                continue;
            };
            let is_refused = |value: f64| {
                let error = Config::parse("f", &format!("{header}\n{key} = {value}\n")).err();
                error.is_some_and(|error| error.to_string().contains(&format!("{key}: found {value}, expected")))
            };
            assert!(!is_refused(low) && !is_refused(high), "{title} {key}: {range} is allowed");
            assert!(is_refused(high + 1.0), "{title} {key}: above {high}");
            assert!(is_refused(low - 0.0005) && is_refused(low - 1.0), "{title} {key}: below {low}");
            checked += 1;
        }
    }
    assert!(checked > 35, "only {checked} rows have a range");
}

#[test]
fn defaults_in_the_manual_are_those_that_are_printed() {
    let printed = parse("[[rule]]\nuser = \"*\"\nlevel = 3\n[[gpu]]\ngpu = \"*\"\n").print();
    let mut checked = 0;
    for (title, _, _) in CHAPTERS {
        for [key, default, _] in rows(title) {
            let is_value = default.starts_with(|first: char| first == '"' || first.is_ascii_digit());
            if is_value || default == "false" {
                assert!(printed.contains(&format!("\n{key} = {default}\n")), "{title} {key} = {default}:\n{printed}");
                checked += 1;
            }
        }
    }
    assert!(checked > 30, "only {checked} rows have a default");
}

#[test]
fn the_example_configurations_are_valid_and_give_no_warning() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let files = std::fs::read_dir(directory).expect("is there").map(|entry| entry.expect("is readable").path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let config = Config::load(&file).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.warnings(), Vec::<String>::new(), "{}", file.display());
        assert!(config.rules.len() >= 2, "{}", file.display());
    }
}

#[test]
fn print_shows_the_bounds_of_each_rule_term_by_term() {
    let config = parse(
        "mode = \"enforce\"\n[watch]\nperiod_us = 200\nfixed = true\n[[rule]]\nname = \"online\"\nuid = 1\nlevel = 12\n\
         patience_us = 100\n[[rule]]\nname = \"offline\"\nuid = 2\nlevel = 3\nmin_run_ms = 2\nmax_stop_ms = 1000\n\
         [[rule]]\nname = \"desk\"\nuid = 3\nmanage = false\n",
    );
    let printed = config.print();
    let comments: Vec<&str> = printed.lines().filter(|line| line.starts_with('#')).skip(3).collect();
    assert_eq!(
        comments,
        [
            "# With one process of every rule on any gpu and cycles of 200 us (estimate), a process of this rule",
            "# - waits for lower levels at most 23.5 ms = detection 200 us + patience 100 us + exempt time of lower levels 2.80 ms \
             + plans 1.60 ms + turn of a long-stopped job 2.80 ms + small jobs that run on 16.0 ms",
            "# - is never stopped: no rule has a higher level",
            "# With one process of every rule on any gpu and cycles of 200 us (estimate), a process of this rule",
            "# - never waits for lower levels: no rule has one",
            "# - stays stopped at most 1.01 s = longest stop 1.00 s + turns of others 8.00 ms + two cycles 400 us \
             + detection 200 us + plan 800 us",
            "# Its processes are never stopped and never protected.",
        ]
    );
}

#[test]
fn a_watch_that_may_slow_down_promises_no_more_than_the_scan() {
    let text = |watch: &str| format!("{watch}\n[[rule]]\nuid = 1\nlevel = 12\n[[rule]]\nuid = 2\nlevel = 3\n");
    assert!(parse(&text("scan_ms = 7")).print().contains("detection 7.00 ms"));
    assert!(parse(&text("[watch]\nfixed = true\nperiod_us = 300")).print().contains("detection 300 us"));
    assert!(parse(&text("[watch]\nspin_core = 0\nperiod_us = 300")).print().contains("detection 300 us"));
}

#[test]
fn policies_that_do_not_go_by_levels_promise_shares_or_only_turns() {
    let with = |policy: &str| {
        parse(&format!(
            "[[gpu]]\ngpu = \"*\"\npolicy = \"{policy}\"\n[[rule]]\nuid = 1\nlevel = 12\n[[rule]]\nuid = 2\nlevel = 3\n"
        ))
        .print()
    };
    let fair = with("fair");
    assert!(fair.contains("# - gets its share to within ") && !fair.contains("waits for"), "{fair}");
    let deadline = with("deadline");
    assert!(!deadline.contains("its share") && !deadline.contains("waits for"), "{deadline}");
    assert!(deadline.contains("# - stays stopped at most "), "{deadline}");
}

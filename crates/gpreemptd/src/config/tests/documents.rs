//! What is printed and written about configurations.

use super::parse;
use crate::config::parse::{BREAKER_KEYS, GPU_KEYS, RULE_KEYS, TOP_KEYS, WATCH_KEYS};

const MANUAL: &str = include_str!("../../../../../docs/configuration.md");

#[test]
fn the_manual_has_a_row_for_every_key_in_the_chapter_of_its_table() {
    let chapters = [
        ("## Top of the file", TOP_KEYS),
        ("## `[watch]`", WATCH_KEYS),
        ("## `[breaker]`", BREAKER_KEYS),
        ("## `[[rule]]`", RULE_KEYS),
        ("## `[[gpu]]`", GPU_KEYS),
    ];
    for (title, keys) in chapters {
        let (_, rest) = MANUAL.split_once(&format!("{title}\n")).unwrap_or_else(|| panic!("no chapter {title}"));
        let chapter = rest.split("\n## ").next().unwrap_or_default();
        for key in keys {
            assert!(chapter.contains(&format!("| `{key}`")), "{title} does not explain {key}");
        }
        // Values of one key have a table of their own; they are in quotes.
        let rows = chapter.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `\"")).count();
        assert_eq!(rows, keys.len(), "{title} has as many rows as there are keys");
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
            "# On any gpu, with one process of every rule there and cycles of 0.20 ms (estimate), a process of this rule",
            "# - waits for lower levels at most 23.50 ms = detection 0.20 ms + patience 0.10 ms + exempt time of others 2.80 ms \
             + plans 1.60 ms + turn of a long-stopped job 2.80 ms + sparing of small ones 16.00 ms",
            "# - is never stopped: no rule allows a higher level",
            "# On any gpu, with one process of every rule there and cycles of 0.20 ms (estimate), a process of this rule",
            "# - waits for nobody: no rule gives a lower level",
            "# - stays stopped at most 1009.40 ms = longest stop 1000.00 ms + turns of others 8.00 ms + two cycles 0.40 ms \
             + detection 0.20 ms + plan 0.80 ms",
            "# Its processes are never stopped and cause no stop.",
        ]
    );
}

#[test]
fn a_watch_that_may_slow_down_promises_no_more_than_the_scan() {
    let text = |watch: &str| format!("{watch}\n[[rule]]\nuid = 1\nlevel = 12\n[[rule]]\nuid = 2\nlevel = 3\n");
    assert!(parse(&text("scan_ms = 7")).print().contains("detection 7.00 ms"));
    assert!(parse(&text("[watch]\nfixed = true\nperiod_us = 300")).print().contains("detection 0.30 ms"));
    assert!(parse(&text("[watch]\nspin_core = 0\nperiod_us = 300")).print().contains("detection 0.30 ms"));
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

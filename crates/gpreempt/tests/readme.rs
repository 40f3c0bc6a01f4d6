//! The README shows what the program prints today. `UPDATE_README=1 cargo test -p gpreempt --test readme` rewrites it.

use std::path::Path;

use assert_cmd::Command;

const BEGIN: &str = "<!-- lab compare: begin -->\n";
const END: &str = "<!-- lab compare: end -->\n";

/// What `lab compare` prints, as a block of Markdown.
fn printed() -> String {
    let mut command = Command::cargo_bin("gpreempt").expect("the command is built");
    let output = command.args(["lab", "compare"]).output().expect("it runs");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let lines = text.lines().map(|line| format!("    {line}").trim_end().to_string());
    format!("\n{}\n\n", lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_table_in_the_readme_is_what_the_first_command_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(&path).expect("the README is readable");
    let (before, rest) = readme.split_once(BEGIN).expect("the README marks where the table begins");
    let (shown, after) = rest.split_once(END).expect("the README marks where the table ends");
    let printed = printed();
    if std::env::var_os("UPDATE_README").is_some() {
        let text = format!("{before}{BEGIN}{printed}{END}{after}");
        std::fs::write(&path, text).expect("the README is writable");
        return;
    }
    assert_eq!(shown, printed, "run: UPDATE_README=1 cargo test -p gpreempt --test readme");
}

//! Compares the keys of a report with the tables of its documentation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Returns a section of a document; the one before the first heading has no title.
fn section<'a>(document: &'a str, title: &str) -> &'a str {
    let mut sections = document.split("\n## ");
    let first = sections.next().unwrap_or_default();
    if title.is_empty() {
        return first;
    }
    let found = sections.find_map(|section| section.strip_prefix(title)?.strip_prefix('\n'));
    found.unwrap_or_else(|| panic!("there is no section {title}"))
}

/// Returns the words in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the names in the first column of a section's table of keys.
fn documented(section: &str) -> BTreeSet<&str> {
    let table = section.lines().skip_while(|line| !line.starts_with("| key |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    let mut names = BTreeSet::new();
    for name in rows.flat_map(|row| quoted(row.split('|').nth(1).unwrap_or_default())) {
        assert!(names.insert(name), "`{name}` stands there twice");
    }
    names
}

/// Collects the keys of all objects within a value.
fn nested<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            found.insert(key);
            nested(value, found);
        }),
        Value::Array(list) => list.iter().for_each(|value| nested(value, found)),
        _ => {}
    }
}

/// Lists how the keys of an object differ from the table of a section, and the keys further inside that the section
/// does not name, except those of `elsewhere`, which another section describes.
fn differences(document: &str, title: &str, value: &Value, elsewhere: &[&str]) -> Vec<String> {
    let section = section(document, title);
    let object = value.as_object().unwrap_or_else(|| panic!("{title}: {value} is no object"));
    let (documented, named) = (documented(section), quoted(section).collect::<BTreeSet<_>>());
    let printed: BTreeSet<&str> = object.keys().map(String::as_str).collect();
    let mut inside = BTreeSet::new();
    for (_, value) in object.iter().filter(|(key, _)| !elsewhere.contains(&key.as_str())) {
        nested(value, &mut inside);
    }
    let undocumented = printed.difference(&documented).map(|key| format!("`{key}` has no row"));
    let absent = documented.difference(&printed).map(|key| format!("`{key}` is not printed"));
    let unnamed = inside.difference(&named).map(|key| format!("`{key}` is not named"));
    undocumented.chain(absent).chain(unnamed).collect()
}

/// Asserts that a section of a document describes an object: see [`differences`].
pub(crate) fn assert_documented(document: &str, title: &str, value: &Value, elsewhere: &[&str]) {
    let found = differences(document, title, value, elsewhere);
    assert!(found.is_empty(), "section {title:?}: {found:?}");
}

// Does not provoke the panic: printing a backtrace disturbs `bench::thread`, which counts the sleeps of a thread.
#[test]
fn keys_without_a_row_rows_without_a_key_and_unnamed_inner_keys_are_found() {
    let document = "| key | meaning |\n|---|---|\n| `a`, `b` | with `c` |\n";
    let found = |value| differences(document, "", &value, &["b"]);
    assert!(found(json!({"a": {"c": 1}, "b": {"d": 1}})).is_empty());
    assert_eq!(found(json!({"a": 1, "b": 2, "e": 3})), ["`e` has no row"]);
    assert_eq!(found(json!({"a": 1})), ["`b` is not printed"]);
    assert_eq!(found(json!({"a": [{"d": 1}], "b": 2})), ["`d` is not named"]);
}

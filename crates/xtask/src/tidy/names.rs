//! One meaning per type name: no name of a public type in more than two crates.
//!
//! Two crates may share a name where one is a client of the other. `Error` is exempt: each crate has its own, and
//! callers write its path.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::{RustFile, is_test_item};

const RULE: &str = "names";
const EXEMPT: &[&str] = &["Error"];
const MOST_CRATES: usize = 2;

struct Definition<'f> {
    file: &'f RustFile,
    crate_name: &'f str,
    line: usize,
}

pub(super) fn check(files: &[RustFile], findings: &mut Vec<Finding>) {
    let mut definitions: BTreeMap<String, Vec<Definition<'_>>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        let Some(crate_name) = file.crate_name() else { continue };
        public_types(&file.syntax.items, &mut |ident| {
            let line = ident.span().start().line;
            definitions.entry(ident.to_string()).or_default().push(Definition { file, crate_name, line });
        });
    }
    for (name, places) in definitions.iter().filter(|(name, _)| !EXEMPT.contains(&name.as_str())) {
        let crates: BTreeSet<&str> = places.iter().map(|place| place.crate_name).collect();
        if crates.len() <= MOST_CRATES {
            continue;
        }
        let list = crates.iter().copied().collect::<Vec<_>>().join(", ");
        findings.extend(places.iter().map(|place| Finding {
            file: place.file.source.path.clone(),
            line: place.line,
            rule: RULE,
            message: format!(
                "`{name}` is public in {} crates: {list}; give each concept a name of its own",
                crates.len()
            ),
        }));
    }
}

/// Names of the types declared `pub`, in modules inside the file as well.
fn public_types(items: &[syn::Item], found: &mut impl FnMut(&syn::Ident)) {
    for item in items {
        let (visibility, ident) = match item {
            syn::Item::Struct(item) => (&item.vis, &item.ident),
            syn::Item::Enum(item) => (&item.vis, &item.ident),
            syn::Item::Union(item) => (&item.vis, &item.ident),
            syn::Item::Trait(item) => (&item.vis, &item.ident),
            syn::Item::Type(item) => (&item.vis, &item.ident),
            syn::Item::Mod(module) if !is_test_item(&module.attrs) => {
                if let Some((_, items)) = &module.content {
                    public_types(items, found);
                }
                continue;
            }
            _ => continue,
        };
        if matches!(visibility, syn::Visibility::Public(_)) {
            found(ident);
        }
    }
}

//! Files of at most 450 lines of code, functions of at most 80 lines.
//!
//! A line of code is one that is neither blank nor a comment. Files and modules of tests may be longer: a list of cases
//! is data. A function that is a table carries the comment `// tidy: table` above it.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::{RustFile, is_test_item};

const RULE: &str = "lengths";
const MOST_FILE_LINES: usize = 450;
const MOST_FUNCTION_LINES: usize = 80;
const TABLE: &str = "// tidy: table";

pub(super) fn check(file: &RustFile, findings: &mut Vec<Finding>) {
    let lines: Vec<&str> = file.source.text.lines().collect();
    let mut functions = Functions { file, lines: &lines, test_lines: 0, findings };
    functions.visit_file(&file.syntax);
    let code = lines_of_code(&lines).saturating_sub(functions.test_lines);
    if code > MOST_FILE_LINES && !file.is_test() {
        findings.push(Finding {
            file: file.source.path.clone(),
            line: 1,
            rule: RULE,
            message: format!("the file has {code} lines of code, {MOST_FILE_LINES} at most; split it by concern"),
        });
    }
}

/// Lines that are neither blank nor only a comment.
fn lines_of_code(lines: &[&str]) -> usize {
    lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

struct Functions<'f> {
    file: &'f RustFile,
    lines: &'f [&'f str],
    /// Lines of code inside test modules.
    test_lines: usize,
    findings: &'f mut Vec<Finding>,
}

impl Functions<'_> {
    fn function(&mut self, signature: &syn::Signature, attributes: &[syn::Attribute], block: &syn::Block) {
        let first = signature.span().start().line;
        let length = block.span().end().line + 1 - first;
        // Attributes and documentation may stand between the mark and the function.
        let top = attributes.iter().map(|attribute| attribute.span().start().line).min().unwrap_or(first).min(first);
        let above = top.checked_sub(2).and_then(|index| self.lines.get(index)).map_or("", |line| line.trim());
        if length > MOST_FUNCTION_LINES && !above.starts_with(TABLE) {
            self.findings.push(Finding {
                file: self.file.source.path.clone(),
                line: first,
                rule: RULE,
                message: format!("function `{}` has {length} lines, {MOST_FUNCTION_LINES} at most", signature.ident),
            });
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if is_test_item(&module.attrs) {
            let (first, last) = (module.span().start().line, module.span().end().line);
            self.test_lines += lines_of_code(self.lines.get(first - 1..last).unwrap_or_default());
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig, &function.attrs, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig, &function.attrs, block);
        }
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig, &function.attrs, &function.block);
        visit::visit_impl_item_fn(self, function);
    }
}

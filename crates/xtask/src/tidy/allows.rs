//! A lint is silenced with a reason or not at all.

use syn::spanned::Spanned;
use syn::visit::Visit;

use super::Finding;
use super::source::RustFile;

const RULE: &str = "allows";

pub(super) fn check(file: &RustFile, findings: &mut Vec<Finding>) {
    let mut attributes = Attributes { file, findings };
    attributes.visit_file(&file.syntax);
}

struct Attributes<'f> {
    file: &'f RustFile,
    findings: &'f mut Vec<Finding>,
}

impl<'ast> Visit<'ast> for Attributes<'_> {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let syn::Meta::List(list) = &attribute.meta else { return };
        let silences = list.path.is_ident("allow") || list.path.is_ident("expect");
        let has_reason = list.tokens.clone().into_iter().any(|token| token.to_string() == "reason");
        if silences && !has_reason {
            self.findings.push(Finding {
                file: self.file.source.path.clone(),
                line: attribute.span().start().line,
                rule: RULE,
                message: format!("`{}` needs `reason = \"...\"`", list.tokens),
            });
        }
    }
}

//! A lint is silenced with a reason or not at all, inside macros as well.

use proc_macro2::{TokenStream, TokenTree};
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

impl Attributes<'_> {
    /// Judges an attribute with this name and these arguments.
    fn attribute(&mut self, name: &str, arguments: &TokenStream, line: usize) {
        let silences = matches!(name, "allow" | "expect");
        let has_reason = arguments.clone().into_iter().any(|token| token.to_string() == "reason");
        if silences && !has_reason {
            self.findings.push(Finding {
                file: self.file.source.path.clone(),
                line,
                rule: RULE,
                message: format!("`{arguments}` needs `reason = \"...\"`"),
            });
        }
    }

    /// Looks for `[NAME(ARGUMENTS)]` behind `#` in tokens that have no syntax yet.
    fn tokens(&mut self, tokens: &TokenStream) {
        let mut is_attribute = false;
        for token in tokens.clone() {
            match &token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => is_attribute = true,
                // The mark of an inner attribute.
                TokenTree::Punct(mark) if mark.as_char() == '!' => {}
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().take(2).collect();
                    if let (true, [TokenTree::Ident(name), TokenTree::Group(arguments)]) = (is_attribute, &inner[..]) {
                        self.attribute(&name.to_string(), &arguments.stream(), group.span().start().line);
                    }
                    self.tokens(&group.stream());
                    is_attribute = false;
                }
                _ => is_attribute = false,
            }
        }
    }
}

impl<'ast> Visit<'ast> for Attributes<'_> {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let syn::Meta::List(list) = &attribute.meta else { return };
        let name = list.path.get_ident().map(ToString::to_string).unwrap_or_default();
        self.attribute(&name, &list.tokens, attribute.span().start().line);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(&call.tokens);
    }
}

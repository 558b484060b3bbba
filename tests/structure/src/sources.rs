//! The modules of a crate, and the paths in them. Tests do not count: what stands behind `#[cfg(test)]` is left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Expr, Item, ItemMod, Lit, Meta};

/// Names from the root of a crate down, such as `["job", "mapping"]`.
pub type Names = Vec<String>;

/// One module.
pub struct Module {
    /// The file in which it is.
    pub file: PathBuf,
    /// The paths in it that begin with `crate`, `super` or a module in it, from the root of the crate on.
    pub paths: Vec<Names>,
    /// All other words in it.
    pub words: Vec<String>,
}

/// The modules of the crate with this first file.
///
/// # Panics
/// If one of its files is missing or is not Rust.
#[must_use]
pub fn modules(root: &Path) -> BTreeMap<Names, Module> {
    let mut modules = BTreeMap::new();
    let folder = root.parent().expect("a file is in a folder").to_owned();
    read(&mut modules, Vec::new(), root.to_owned(), &folder);
    modules
}

/// Adds the module in a file whose submodules are in a folder.
fn read(modules: &mut BTreeMap<Names, Module>, name: Names, file: PathBuf, folder: &Path) {
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let items = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items;
    add(modules, name, file, folder, items);
}

fn add(modules: &mut BTreeMap<Names, Module>, name: Names, file: PathBuf, folder: &Path, items: Vec<Item>) {
    let (mut tokens, mut children) = (TokenStream::new(), Vec::new());
    for item in items {
        match item {
            Item::Mod(module) if !is_test(&module.attrs) => children.push(module),
            item if !is_test(attributes(&item)) => item.to_tokens(&mut tokens),
            _ => {}
        }
    }
    let names: Vec<String> = children.iter().map(|module| module.ident.to_string()).collect();
    let mut found = Found { module: &name, children: &names, paths: Vec::new(), words: Vec::new() };
    found.look(tokens);
    let module = Module { file: file.clone(), paths: found.paths, words: found.words };
    modules.insert(name.clone(), module);
    for child in children {
        let path = [&name[..], &[child.ident.to_string()]].concat();
        let below = folder.join(child.ident.to_string());
        match child.content {
            Some((_, items)) => add(modules, path, file.clone(), &below, items),
            None => {
                let (file, folder) = place(&child, &file, &below);
                read(modules, path, file, &folder);
            }
        }
    }
}

/// The file of a module, and the folder of its submodules.
fn place(module: &ItemMod, parent: &Path, below: &Path) -> (PathBuf, PathBuf) {
    if let Some(path) = module.attrs.iter().find_map(path_of) {
        let file = parent.with_file_name(path);
        let folder = if file.ends_with("mod.rs") { file.with_file_name("") } else { file.with_extension("") };
        return (file, folder);
    }
    let file = below.with_extension("rs");
    (if file.is_file() { file } else { below.join("mod.rs") }, below.to_owned())
}

fn path_of(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        Expr::Lit(literal) if pair.path.is_ident("path") => match &literal.lit {
            Lit::Str(path) => Some(path.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the attributes have `#[cfg(test)]`, or `test` among several conditions.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|one| {
        let Meta::List(list) = &one.meta else { return false };
        let condition = list.tokens.to_string();
        list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("any (test ,"))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// What the tokens of one module hold.
struct Found<'a> {
    module: &'a Names,
    children: &'a [String],
    paths: Vec<Names>,
    words: Vec<String>,
}

impl Found<'_> {
    fn look(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at = match &tokens[at] {
                TokenTree::Ident(_) if !continues_path(&tokens[..at]) => self.path(&tokens, at),
                TokenTree::Ident(word) => {
                    self.words.push(word.to_string());
                    at + 1
                }
                TokenTree::Group(group) => {
                    self.look(group.stream());
                    at + 1
                }
                _ => at + 1,
            };
        }
    }

    /// Takes the path that begins here, if it is one of this crate; returns where the rest goes on.
    fn path(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let first = tokens[at].to_string();
        let is_child = |name: &str| self.children.iter().any(|child| child == name);
        let mut base = match first.as_str() {
            // Else it is a visibility: `pub(crate)`.
            "crate" if is_colons(&tokens[at + 1..]) => Vec::new(),
            "super" if is_colons(&tokens[at + 1..]) => self.module[..self.module.len().saturating_sub(1)].to_vec(),
            name if is_child(name) && is_colons(&tokens[at + 1..]) => [&self.module[..], &[first]].concat(),
            _ => {
                self.words.push(first);
                return at + 1;
            }
        };
        let mut at = at + 1;
        while is_colons(&tokens[at..]) && tokens.get(at + 2).is_some_and(|next| next.to_string() == "super") {
            base.pop();
            at += 3;
        }
        self.rest(base, tokens, at)
    }

    /// Takes the rest of a path whose beginning is known: names, and braces with several.
    fn rest(&mut self, mut path: Names, tokens: &[TokenTree], mut at: usize) -> usize {
        while is_colons(&tokens[at..]) {
            match tokens.get(at + 2) {
                Some(TokenTree::Ident(name)) if *name == "self" => {}
                Some(TokenTree::Ident(name)) => path.push(name.to_string()),
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    self.branches(&path, group.stream());
                    return at + 3;
                }
                // A glob, or types in angle brackets.
                _ => break,
            }
            at += 3;
        }
        self.paths.push(path);
        at
    }

    /// Takes what stands in the braces of a `use`.
    fn branches(&mut self, path: &Names, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for branch in tokens.split(|token| token.to_string() == ",").filter(|branch| !branch.is_empty()) {
            let first = branch[0].to_string();
            let path = if first == "self" || first == "*" { path.clone() } else { [&path[..], &[first]].concat() };
            self.rest(path, branch, 1);
        }
    }
}

/// Whether the next tokens are `::`.
fn is_colons(tokens: &[TokenTree]) -> bool {
    let is_colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(colon)) if colon.as_char() == ':');
    is_colon(tokens.first()) && is_colon(tokens.get(1))
}

/// Whether what stands before makes the next word a part of something longer: `a::b`, `a.b`.
fn continues_path(before: &[TokenTree]) -> bool {
    let last = |back: usize| before.len().checked_sub(back).map(|at| &before[at]);
    let is = |token: Option<&TokenTree>, wanted: char| matches!(token, Some(TokenTree::Punct(one)) if one.as_char() == wanted);
    (is(last(1), ':') && is(last(2), ':')) || is(last(1), '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let (module, children) = (["room", "desk"].map(String::from).to_vec(), ["drawer".to_owned()]);
        let mut found = Found { module: &module, children: &children, paths: Vec::new(), words: Vec::new() };
        found.look(text.parse().expect("it is Rust"));
        found.paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn every_way_to_write_a_path_of_the_crate_is_understood() {
        assert_eq!(paths("use crate::{a, b::{self, C as D}, e::*};"), ["a", "b", "b::C", "e"]);
        assert_eq!(
            paths("use super::{chair, shelf::f}; drawer::open();"),
            ["room::chair", "room::shelf::f", "room::desk::drawer::open"]
        );
        assert_eq!(paths("use super::super::hall; use super::*;"), ["hall", "room"]);
        assert_eq!(paths("log!(a = crate::clock::now(), b = x.drawer);"), ["clock::now"]);
        assert!(paths("pub(crate) fn f(pub(super) x: std::drawer::X) { drawer }").is_empty());
    }
}

//! Which file of a crate imports which, and the circles among them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::sources::{Module, Names};

/// The files that each file imports.
pub type Graph = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Which file imports which. A module and the modules in it are parts of one thing: what they take of it is no import.
#[must_use]
pub fn graph(modules: &BTreeMap<Names, Module>) -> Graph {
    let mut graph = Graph::new();
    for (name, module) in modules {
        let imported = graph.entry(module.file.clone()).or_default();
        for target in module.paths.iter().map(|path| home(modules, path)) {
            let is_own = !target.is_empty() && name.starts_with(target);
            let file = &modules[target].file;
            if !is_own && *file != module.file {
                imported.insert(file.clone());
            }
        }
    }
    graph
}

/// The module in which the last name of a path is: the longest beginning that is one.
fn home<'a>(modules: &BTreeMap<Names, Module>, path: &'a [String]) -> &'a [String] {
    let ends = (0..=path.len()).rev();
    ends.map(|end| &path[..end]).find(|names| modules.contains_key(*names)).unwrap_or_default()
}

/// The circles: each a list of files of which every one imports, directly or by others, every other.
#[must_use]
pub fn circles(graph: &Graph) -> Vec<BTreeSet<&Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        graph.keys().map(|file| (file.as_path(), reach(graph, file))).collect();
    let mut circles: Vec<BTreeSet<&Path>> = Vec::new();
    for (file, others) in &reached {
        if !circles.iter().any(|circle| circle.contains(file)) && others.contains(file) {
            circles.push(others.iter().copied().filter(|other| reached[other].contains(file)).collect());
        }
    }
    circles
}

/// All that a file imports, directly or by others.
fn reach<'a>(graph: &'a Graph, file: &Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&PathBuf> = graph[file].iter().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next.as_path()) {
            open.extend(&graph[next]);
        }
    }
    reached
}

/// The same without the first file of the crate, which joins all others: whoever imports it is found by
/// [`importers_of_root`].
#[must_use]
pub fn without_root(mut graph: Graph, root: &Path) -> Graph {
    graph.remove(root);
    for imported in graph.values_mut() {
        imported.remove(root);
    }
    graph
}

/// The files that import something of the first file of the crate itself.
#[must_use]
pub fn importers_of_root(graph: &Graph, root: &Path) -> Vec<PathBuf> {
    graph.iter().filter(|(_, imported)| imported.contains(root)).map(|(file, _)| file.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(modules: &[(&str, &[&str])]) -> Graph {
        let names =
            |path: &str| -> Names { path.split("::").filter(|name| !name.is_empty()).map(Into::into).collect() };
        let module = |name: &str, paths: &[&str]| Module {
            file: format!("{name}.rs").into(),
            paths: paths.iter().map(|path| names(path)).collect(),
            words: Vec::new(),
        };
        graph(&modules.iter().map(|(name, paths)| (names(name), module(name, paths))).collect())
    }

    #[test]
    fn a_circle_has_those_files_that_import_each_other_and_no_others() {
        let graph = of(&[("", &[]), ("a", &["b::B"]), ("b", &["c::f"]), ("c", &["a", "d::D"]), ("d", &[])]);
        let circle: BTreeSet<&Path> = ["a.rs", "b.rs", "c.rs"].map(Path::new).into();
        assert_eq!(circles(&graph), [circle]);
    }

    #[test]
    fn a_module_and_those_in_it_are_no_circle_and_what_is_no_module_is_of_the_root() {
        let graph = of(&[("", &["a"]), ("a", &["a::b::f"]), ("a::b", &["a::A", "Thing"])]);
        assert!(circles(&without_root(graph.clone(), Path::new(".rs"))).is_empty());
        assert_eq!(importers_of_root(&graph, Path::new(".rs")), [PathBuf::from("a::b.rs")]);
    }
}

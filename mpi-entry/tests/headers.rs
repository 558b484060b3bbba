//! The list of functions is that of the installed headers, with both names of each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use mpi_entry::functions::{Class, FUNCTIONS};

const HEADERS: [&str; 2] = ["mpi.h", "mpiext_ftmpi_c.h"];

/// The text of a header of Open MPI, where `mpicc` would search for it. The extension's own are in a folder below.
fn header(name: &str) -> String {
    let answer = Command::new("mpicc").arg("--showme:incdirs").output();
    let answer = answer.expect("mpicc cannot be run: install the package libopenmpi-dev");
    let folders = String::from_utf8_lossy(&answer.stdout).into_owned();
    let mut files = folders
        .split_whitespace()
        .flat_map(|folder| ["", "openmpi/mpiext"].map(|below| PathBuf::from(folder).join(below).join(name)));
    let file = files.find(|file| file.exists());
    let file = file.unwrap_or_else(|| panic!("no {name} in {folders}: install the package libopenmpi-dev"));
    std::fs::read_to_string(file).expect("the header can be read")
}

/// The text without comments.
fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once("*/").map_or("", |(_, behind)| behind));
    rest.fold(first, |text, part| text + " " + part)
}

/// The prototypes in a header: by the name of the function, which is before the first parenthesis of a declaration,
/// what is before the name and what is behind it.
fn prototypes(text: &str) -> BTreeMap<String, [String; 2]> {
    let text = without_comments(text);
    let declarations = text.split("OMPI_DECLSPEC").skip(1).filter_map(|piece| Some(piece.split_once(';')?.0));
    let prototype = |declaration: &str| {
        let (before, arguments) = declaration.split_once('(')?;
        let before = before.trim();
        let name = before.rsplit(|letter: char| letter != '_' && !letter.is_alphanumeric()).next()?;
        let is_function = ["MPI_", "MPIX_", "PMPI_", "PMPIX_"].iter().any(|prefix| name.starts_with(prefix));
        let result = before.strip_suffix(name)?.trim();
        is_function.then(|| (name.to_owned(), [result, arguments].map(ToOwned::to_owned)))
    };
    declarations.filter_map(prototype).collect()
}

fn listed() -> BTreeSet<String> {
    let names = FUNCTIONS.iter().flat_map(|function| function.names);
    names.map(|name| name.to_str().expect("names are ASCII").to_owned()).collect()
}

#[test]
fn the_list_has_the_functions_of_the_headers_under_both_names_and_no_others() {
    let declared: BTreeSet<_> = HEADERS.iter().flat_map(|name| prototypes(&header(name)).into_keys()).collect();
    assert!(declared.len() > 900, "the headers have functions: {declared:?}");
    let listed = listed();
    let missing: Vec<_> = declared.difference(&listed).collect();
    let too_many: Vec<_> = listed.difference(&declared).collect();
    assert!(
        missing.is_empty() && too_many.is_empty(),
        "functions.rs lacks {missing:?}, and has {too_many:?} that the headers do not have"
    );
}

#[test]
fn each_function_that_may_be_refused_returns_a_code_and_has_no_floating_point_arguments() {
    let prototypes: BTreeMap<_, _> = HEADERS.iter().flat_map(|name| prototypes(&header(name))).collect();
    for function in FUNCTIONS.iter().filter(|function| function.class != Class::Local) {
        let name = function.names[1].to_str().expect("names are ASCII");
        let [result, arguments] = &prototypes[name];
        assert_eq!(result, "int", "{name}");
        let is_floating = ["double", "float", "..."].iter().any(|kind| arguments.contains(kind));
        assert!(!is_floating, "{name}({arguments}");
    }
}

#[test]
fn each_function_is_listed_once() {
    let mut names: Vec<_> = FUNCTIONS.iter().map(|function| function.name).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    assert!(twice.is_empty(), "listed twice: {twice:?}");
}

#[test]
fn a_prototype_is_found_behind_comments_and_over_lines() {
    let text = "/* OMPI_DECLSPEC int MPI_No(void); */ #define OMPI_DECLSPEC\nOMPI_DECLSPEC  int MPI_One(int (*f)(void),\n int b);\n\
        OMPI_DECLSPEC double /* here */ MPI_Two (void);\nOMPI_DECLSPEC extern struct a MPI_three;\nOMPI_DECLSPEC void *PMPI_One(void);";
    let found = prototypes(text);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["MPI_One", "MPI_Two", "PMPI_One"]);
    assert_eq!(found.values().map(|[result, _]| result).collect::<Vec<_>>(), ["int", "double", "void *"]);
}

//! The crates of the workspace, and what they depend on, as cargo says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// A crate of a package: its library, or one of its programs, tests and benchmarks.
pub struct Target {
    /// Name of the package.
    pub package: String,
    /// Its first file.
    pub root: PathBuf,
    /// Whether it is a test.
    pub is_test: bool,
}

/// The packages of the workspace.
pub struct Workspace {
    /// All crates in them.
    pub targets: Vec<Target>,
    /// The packages of the workspace that each package is built of, without those of its tests.
    dependencies: BTreeMap<String, BTreeSet<String>>,
}

impl Workspace {
    /// Asks cargo.
    ///
    /// # Panics
    /// If cargo does not answer.
    #[must_use]
    pub fn read() -> Self {
        let arguments = ["metadata", "--offline", "--no-deps", "--format-version", "1"];
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        let output = Command::new(cargo).args(arguments).args(["--manifest-path", manifest]).output();
        let output = output.expect("cargo starts");
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
        let mut workspace = Self { targets: Vec::new(), dependencies: BTreeMap::new() };
        for package in list(&metadata["packages"]) {
            let name = text(&package["name"]);
            workspace.targets.extend(list(&package["targets"]).iter().map(|target| Target {
                package: name.clone(),
                root: PathBuf::from(text(&target["src_path"])),
                is_test: list(&target["kind"]).contains(&"test".into()),
            }));
            let built_of =
                list(&package["dependencies"]).iter().filter(|one| one["kind"] != "dev" && one["path"].is_string());
            workspace.dependencies.insert(name, built_of.map(|one| text(&one["name"])).collect());
        }
        workspace
    }

    /// The packages of the workspace that a package is built of, and those that these are built of.
    ///
    /// # Panics
    /// If there is no such package.
    #[must_use]
    pub fn built_of(&self, package: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&String> = self.dependencies[package].iter().collect();
        while let Some(next) = open.pop() {
            if found.insert(next.as_str()) {
                open.extend(&self.dependencies[next]);
            }
        }
        found
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("cargo metadata has a list here")
}

fn text(value: &Value) -> String {
    value.as_str().expect("cargo metadata has a text here").to_owned()
}

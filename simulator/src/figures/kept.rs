//! Points of a figure that were computed earlier: an interrupted reproduction goes on from its CSV files.

use std::fs;
use std::path::Path;

use super::{WriteError, table};

/// The folder with the CSV files.
pub struct Kept<'a>(pub &'a Path);

impl Kept<'_> {
    /// The rows of a figure's file; none if there is no such file or its titles are others.
    pub fn rows(&self, name: &str, titles: &[&str]) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.0.join(format!("{name}.csv"))).unwrap_or_default();
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        if lines.next().is_some_and(|first| first == titles) { lines.collect() } else { vec![] }
    }

    /// Replaces a figure's file, whole or not at all.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&self, name: &str, titles: &[&str], rows: &[Vec<String>]) -> Result<(), WriteError> {
        let path = self.0.join(format!("{name}.csv"));
        let new = path.with_extension("csv.new");
        let written = fs::write(&new, table::csv(titles, rows.iter().cloned())).and_then(|()| fs::rename(&new, &path));
        written.map_err(|source| WriteError { path, source })
    }
}

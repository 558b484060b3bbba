//! Points of a figure that were computed earlier: an interrupted reproduction goes on from its CSV files.

use std::fs;
use std::path::Path;

use super::{News, WriteError, table};

/// The folder with the CSV files.
pub struct Kept<'a> {
    pub folder: &'a Path,
    pub tell: &'a dyn Fn(News<'_>),
}

impl Kept<'_> {
    /// The rows of a figure's file, if there is one, under the same titles, that are this version's own.
    pub fn rows(&self, name: &str, titles: &[&str], is_own: impl Fn(&Vec<String>) -> bool) -> Vec<Vec<String>> {
        let path = self.folder.join(format!("{name}.csv"));
        let Ok(text) = fs::read(&path) else { return vec![] };
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let same_titles = lines.next().is_some_and(|first| first == titles);
        let (own, others): (Vec<_>, Vec<_>) = lines.partition(|row| same_titles && is_own(row));
        if !same_titles || !others.is_empty() {
            (self.tell)(News::Foreign(&path));
        }
        own
    }

    /// Replaces a figure's file, whole or not at all.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&self, name: &str, titles: &[&str], rows: &[Vec<String>]) -> Result<(), WriteError> {
        replace(&self.folder.join(format!("{name}.csv")), &table::csv(titles, rows.iter().cloned()))
    }
}

/// Writes a file, whole or not at all: hours of computing are in the one that may be there.
///
/// # Errors
///
/// If it cannot be written.
pub fn replace(path: &Path, text: &str) -> Result<(), WriteError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.map_err(|source| WriteError { path: path.to_owned(), source })
}

//! Tables: CSV for programs, markdown for people.

use std::fmt::Write as _;

/// One line of the comparison with the paper.
#[derive(Clone, Debug)]
pub struct Row {
    /// What is compared.
    pub what: String,
    /// What the paper says.
    pub paper: String,
    /// What this project finds.
    pub ours: String,
    /// Why they differ, or that they agree.
    pub why: String,
}

/// Rows as comma-separated values under these titles. No value contains a comma.
pub fn csv(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = titles.join(",") + "\n";
    for row in rows {
        text += &row.join(",");
        text.push('\n');
    }
    text
}

/// The comparison as a markdown table.
pub fn comparison(rows: &[Row]) -> String {
    let mut text = String::from("| | paper | here | why they differ |\n|---|---|---|---|\n");
    for Row { what, paper, ours, why } in rows {
        writeln!(text, "| {what} | {paper} | {ours} | {why} |").expect("writing to memory cannot fail");
    }
    text
}

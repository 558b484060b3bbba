//! The paper's figures, drawn again.

pub mod chart;
mod fit;
mod kept;
mod plan;
mod point;
mod probing;
mod risk;
mod stabilization;
mod table;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kept::Kept;

pub use plan::{Plan, Sample};
pub use table::Row;

/// A figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Figure 3: the largest timeout for an accepted risk.
    Risk,
    /// Figure 4: as many failures as are tolerated within one timeout.
    Overlapping,
    /// Figure 5: failures at random.
    Random,
    /// Figure 6: rounds of random probing.
    Rounds,
    /// Figure 7: queues of random probing.
    Queue,
    /// The closed forms of section 3.4.2.
    ClosedForms,
}

/// A figure that was drawn.
#[derive(Clone, Debug)]
struct Drawing {
    /// The name of its files without their endings.
    name: &'static str,
    csv: String,
    svg: String,
    /// What of it can be compared with numbers in the paper's text.
    rows: Vec<Row>,
}

/// What happens while figures are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News<'a> {
    /// A file was written.
    Wrote(&'a Path),
    /// A CSV file has points that this version of the simulator would not find: they are computed again.
    Foreign(&'a Path),
}

/// A file that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be written: {source}", .path.display())]
pub struct WriteError {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl Figure {
    /// All of them.
    pub const ALL: [Figure; 6] =
        [Figure::Risk, Figure::Overlapping, Figure::Random, Figure::Rounds, Figure::Queue, Figure::ClosedForms];

    /// Its number in the paper, or that of its section.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Risk => "3",
            Figure::Overlapping => "4",
            Figure::Random => "5",
            Figure::Rounds => "6",
            Figure::Queue => "7",
            Figure::ClosedForms => "3.4.2",
        }
    }

    fn draw(self, plan: &Plan, kept: &Kept<'_>) -> Result<Vec<Drawing>, WriteError> {
        Ok(match self {
            Figure::Risk => vec![risk::draw(plan)],
            Figure::Overlapping => stabilization::draw_overlapping(plan, kept)?,
            Figure::Random => stabilization::draw_random(plan, kept)?,
            Figure::Rounds => vec![probing::draw_rounds(plan)],
            Figure::Queue => vec![probing::draw_queue(plan)],
            Figure::ClosedForms => vec![probing::draw_closed_forms(plan)],
        })
    }
}

/// Draws figures into a folder, which is made if need be: for each a CSV and an SVG file, and `comparison.md` with what
/// can be compared with the paper's text. `tell` hears of every file. The points of figures 4 and 5 are in their CSV
/// files as soon as they are computed, and those that are there from at least as many runs are not computed again.
///
/// # Errors
///
/// If a file cannot be written.
pub fn reproduce(
    figures: &[Figure],
    plan: &Plan,
    folder: &Path,
    tell: &dyn Fn(News<'_>),
) -> Result<String, WriteError> {
    fs::create_dir_all(folder).map_err(|source| WriteError { path: folder.to_owned(), source })?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        kept::replace(&path, text)?;
        tell(News::Wrote(&path));
        Ok(())
    };
    let mut rows = Vec::new();
    for figure in figures {
        for drawing in figure.draw(plan, &Kept { folder, tell })? {
            write(&format!("{}.csv", drawing.name), &drawing.csv)?;
            write(&format!("{}.svg", drawing.name), &drawing.svg)?;
            rows.extend(drawing.rows);
        }
    }
    let comparison = table::comparison(&rows);
    write("comparison.md", &comparison)?;
    Ok(comparison)
}

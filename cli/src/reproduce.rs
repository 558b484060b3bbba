//! `ringwatch reproduce`: the paper's figures.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use simulator::all_threads;
use simulator::figures::{self, Figure, News, Plan};

use crate::output::print;
use cli::values::{runs, threads};

/// The command line of `ringwatch reproduce`.
#[derive(Args)]
pub struct Arguments {
    /// Which: 3, 4, 5, 6, 7 or 3.4.2 [default: all]
    #[arg(value_name = "FIGURE", value_parser = figure)]
    figures: Vec<Figure>,
    /// From fewer runs, within five minutes on two processors; the pictures say so
    #[arg(long)]
    quick: bool,
    /// Where the files go; points of figures 4 and 5 that are there from as many runs or more are not computed again
    #[arg(long, default_value = "figures", value_name = "DIR")]
    out: PathBuf,
    /// Runs per point
    #[arg(long, default_value_t = 10_000, value_name = "COUNT", value_parser = runs, allow_hyphen_values = true)]
    runs: u64,
    /// Leave out platforms with more nodes in figures 4 and 5
    #[arg(long, default_value_t = 256_000, value_name = "NODES", value_parser = clap::value_parser!(u32).range(32..), allow_negative_numbers = true)]
    largest: u32,
    /// Number of threads [default: one per processor]
    #[arg(long, value_name = "COUNT", value_parser = threads, allow_hyphen_values = true)]
    threads: Option<NonZero<usize>>,
}

fn figure(text: &str) -> Result<Figure, String> {
    let named = Figure::ALL.into_iter().find(|figure| figure.name() == text);
    named.ok_or_else(|| "it must be 3, 4, 5, 6, 7 or 3.4.2".into())
}

/// Draws them.
pub fn reproduce(arguments: &Arguments) -> ExitCode {
    let asked = |figure: &Figure| arguments.figures.is_empty() || arguments.figures.contains(figure);
    let figures: Vec<_> = Figure::ALL.into_iter().filter(asked).collect();
    let plan = Plan {
        quick: arguments.quick,
        runs: arguments.runs,
        largest: arguments.largest,
        threads: arguments.threads.unwrap_or_else(all_threads),
        progress: true,
    };
    let tell = |news: News<'_>| match news {
        News::Wrote(path) => eprintln!("wrote {}", path.display()),
        News::Foreign(path) => {
            eprintln!("ringwatch: what {} has from another version is computed again.", path.display());
        }
    };
    match figures::reproduce(&figures, &plan, &arguments.out, &tell) {
        Ok(comparison) => {
            print(&comparison);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ringwatch: {error}.");
            ExitCode::FAILURE
        }
    }
}

//! `ringwatch manual`: manual pages and completions for shells, from the command line itself, for installations and
//! packages.

mod pages;
mod parameters;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::output::refuse;

/// The command line of `ringwatch manual`.
#[derive(Args)]
pub struct Arguments {
    /// The folder that gets man1, man3, man7, man8 and completions
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Shells with completions, and the name of the file of each.
const SHELLS: [(Shell, &str); 3] =
    [(Shell::Bash, "ringwatch.bash"), (Shell::Zsh, "_ringwatch"), (Shell::Fish, "ringwatch.fish")];

/// Writes all files for the command line `command`.
pub fn write(Arguments { folder }: &Arguments, command: Command) -> ExitCode {
    match write_all(folder, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&format!("the manual cannot be written into {}: {error}", folder.display())),
    }
}

fn write_all(folder: &Path, mut command: Command) -> io::Result<()> {
    for page in pages::of(command.clone())? {
        let section = folder.join(format!("man{}", page.section));
        fs::create_dir_all(&section)?;
        fs::write(section.join(format!("{}.{}", page.name, page.section)), page.text)?;
    }
    let completions = folder.join("completions");
    fs::create_dir_all(&completions)?;
    for (shell, name) in SHELLS {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, "ringwatch", &mut script);
        fs::write(completions.join(name), script)?;
    }
    Ok(())
}

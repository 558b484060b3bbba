//! `ringwatch`: shows what the `ringwatchd` processes of this node see, and simulates the protocol.

mod reproduce;
mod simulate;
mod status;
mod values;

use std::io::Write as _;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

/// The exit status of a command line that cannot be carried out.
const USAGE: u8 = 2;

#[derive(Parser)]
#[command(name = "ringwatch", version, about = "Shows how the nodes of fault-tolerant MPI jobs watch each other")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the ring of each of your jobs as this node sees it
    Status(status::Arguments),
    /// Simulate the protocol with failures of your choice and report what happens
    Simulate(simulate::Arguments),
    /// Draw the figures of the paper again, from simulations
    Reproduce(reproduce::Arguments),
    /// Print the version
    Version,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.kind() == ErrorKind::ValueValidation => {
            // The reason is the whole message; a hint at --help would only hide it.
            let text = error.to_string();
            let sentence = text.lines().next().unwrap_or_default();
            return refuse(sentence.strip_prefix("error: ").unwrap_or(sentence));
        }
        Err(error) => error.exit(),
    };
    match arguments.command {
        Command::Status(arguments) => status::show(&arguments),
        Command::Simulate(arguments) => simulate::simulate(&arguments),
        Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
        Command::Version => {
            print(&format!("ringwatch {}\n", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
    }
}

/// Prints, and does not mind that nobody reads to the end.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Ends with one sentence about the command line.
fn refuse(why: &str) -> ExitCode {
    eprintln!("ringwatch: {why}.");
    ExitCode::from(USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}

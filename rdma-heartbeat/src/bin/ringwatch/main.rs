//! `ringwatch`: shows what the `ringwatchd` processes of this node see and have seen, measures what they need, and
//! simulates the protocol.

mod calibrate;
mod events;
mod reproduce;
mod simulate;
mod status;

use std::io::Write as _;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use rdma_heartbeat::history::timeline::span;
use rdma_heartbeat::terminal;
use rdma_heartbeat::versions::RELEASE;

/// The exit status of a command line that cannot be carried out.
const USAGE: u8 = 2;

#[derive(Parser)]
#[command(name = "ringwatch", version = RELEASE, about = "Shows how the nodes of fault-tolerant MPI jobs watch each other")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the ring of each of your jobs as this node sees it
    Status(status::Arguments),
    /// Show what happened in your jobs: what died, when, who noticed, and how long each step took
    ///
    /// On the node of mpirun this is the history of the whole job, on every other node that node's part.
    Events(events::Arguments),
    /// Measure on your nodes how regularly heartbeats come, and recommend period and timeout
    ///
    /// Runs a fault-tolerant job of its own with mpirun, which finds the nodes as for any other job: in a batch system's
    /// allocation by itself, else by the options after --. The nodes should be idle otherwise.
    Calibrate(calibrate::Arguments),
    /// Keep this node busy: what ringwatch calibrate runs on every node
    #[command(hide = true)]
    Load(calibrate::load::Arguments),
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
        Err(error) if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.exit()
        }
        Err(error) => {
            // The first paragraph is the reason; a hint at --help would only hide it.
            let text = error.to_string();
            let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
            let sentence = lines.join(" ");
            return refuse(sentence.strip_prefix("error: ").unwrap_or(&sentence));
        }
    };
    match arguments.command {
        Command::Status(arguments) => status::show(&arguments),
        Command::Events(arguments) => events::show(&arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Load(arguments) => calibrate::load::load(&arguments),
        Command::Simulate(arguments) => simulate::simulate(&arguments),
        Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
        Command::Version => {
            print(&format!("ringwatch {}\n", RELEASE));
            ExitCode::SUCCESS
        }
    }
}

/// Prints what acts on no terminal, and does not mind that nobody reads to the end.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(terminal::text(text).as_bytes());
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

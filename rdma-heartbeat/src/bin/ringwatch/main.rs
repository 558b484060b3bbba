//! `ringwatch`: shows what the `ringwatchd` processes of this node see and have seen, measures what they need, and
//! simulates the protocol.

mod calibrate;
mod events;
mod reproduce;
mod simulate;
mod status;
mod timeline;
mod values;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
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

/// Prints, and does not mind that nobody reads to the end.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Ends with one sentence about the command line.
fn refuse(why: &str) -> ExitCode {
    eprintln!("ringwatch: {why}.");
    ExitCode::from(USAGE)
}

/// A time for people: three digits and a unit.
fn span(micros: u64) -> String {
    let time = Duration::from_micros(micros);
    match time.as_secs() {
        0 if micros < 1000 => format!("{micros} us"),
        0 if micros < 10_000 && micros % 1000 != 0 => format!("{:.2} ms", time.as_secs_f64() * 1e3),
        0 => format!("{} ms", micros / 1000),
        1..=9 if micros % 1_000_000 != 0 => format!("{:.2} s", time.as_secs_f64()),
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_fitting_units() {
        let shown: Vec<_> = [0, 999, 1000, 1500, 55_555, 1_000_000, 1_230_000, 61_000_000, 600_000_000, 7_200_000_000]
            .map(span)
            .to_vec();
        assert_eq!(shown, ["0 us", "999 us", "1 ms", "1.50 ms", "55 ms", "1 s", "1.23 s", "61 s", "10 min", "2 h"]);
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}

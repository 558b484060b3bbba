//! `ringwatch`: shows what the `ringwatchd` processes of this node see and have seen, measures what they need, and
//! simulates the protocol.

mod calibrate;
mod check;
mod events;
mod exporter;
mod group;
mod heard;
mod manual;
mod output;
mod past;
mod reports;
mod reproduce;
mod simulate;
mod status;
mod top;
mod unanswered;
mod wanted;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use node_abi::versions::RELEASE;
use output::{print, refuse};

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
    /// Show your jobs live in the terminal: ring, nodes, ranks, and deaths and recoveries as they come
    ///
    /// Keys: Tab and Shift-Tab for the next job and the one before, a for all events, arrows and Page Up and Page Down
    /// to scroll, q to leave.
    Top(top::Arguments),
    /// Print metrics of your jobs in the format of OpenMetrics, write them into a file, or serve them over HTTP
    Metrics(exporter::Arguments),
    /// Show what happened in your jobs: what died, when, who noticed, and how long each step took
    ///
    /// On the node of mpirun this is the history of the whole job, on every other node that node's part. Where no job
    /// of yours runs it is the history of the last one that was started there.
    Events(events::Arguments),
    /// Show the groups of recommended processes of your jobs: members, counters, thresholds and last tests
    ///
    /// On each node as its processes see it. With --out draws the members over time, and who left when, from the
    /// history: of running jobs, of the last one, or from files that psensor_ringwatch_events has kept.
    Group(group::Arguments),
    /// Check before a job whether nodes can take part: releases, components, rights, ports, clocks, space
    ///
    /// Starts itself on every host of the hostfile with the remote shell, and sends datagrams from each to each in the
    /// range of ports. Prints a table and one sentence for each fault. The status is 0 where there is none, 1 else.
    Check(check::Arguments),
    /// Measure on your nodes how regularly heartbeats come, and recommend period and timeout
    ///
    /// Runs a fault-tolerant job of its own with mpirun, which finds the nodes as for any other job: in a batch
    /// system's allocation by itself, else by the options after --. The nodes should be idle otherwise.
    Calibrate(calibrate::Arguments),
    /// Keep this node busy: what ringwatch calibrate runs on every node
    #[command(hide = true)]
    Load(calibrate::load::Arguments),
    /// Simulate the protocol with failures of your choice and report what happens
    Simulate(simulate::Arguments),
    /// Draw the figures of the paper again, from simulations
    Reproduce(reproduce::Arguments),
    /// Write manual pages and completions for shells into a folder: what an installation does
    #[command(hide = true)]
    Manual(manual::Arguments),
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
        Command::Top(arguments) => top::show(&arguments),
        Command::Metrics(arguments) => exporter::export(&arguments),
        Command::Events(arguments) => events::show(&arguments),
        Command::Group(arguments) => group::show(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Load(arguments) => calibrate::load::load(&arguments),
        Command::Simulate(arguments) => simulate::simulate(&arguments),
        Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
        Command::Manual(arguments) => manual::write(&arguments, <Arguments as clap::CommandFactory>::command()),
        Command::Version => {
            print(&format!("ringwatch {}\n", RELEASE));
            ExitCode::SUCCESS
        }
    }
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

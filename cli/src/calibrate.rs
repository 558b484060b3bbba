//! `ringwatch calibrate`: period and timeout for a wanted rate of false suspicions, from a measurement on these nodes.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use cli::parameter_file;
use cli::values::{Rate, rate, time};
use node_abi::parameters::show;
use rdma_heartbeat::history::{self, span};

use crate::output::{print, refuse};
use advice::{Advice, Measured, advise, most_lost};
use measure::Phase;
use picture::Curve;
use tail::Tail;

mod advice;
pub mod load;
mod measure;
mod picture;
mod tail;

/// Shortest measurement: there is nothing to say about a tail before.
const SHORTEST: Duration = Duration::from_secs(4);
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// Shorter timeouts may be over before a `ringwatchd` that hangs has been replaced (docs/limits.md).
const REPLACING: Duration = Duration::from_millis(80);
/// Rates for which the report names period and timeout, too.
const OTHER_RATES: [&str; 4] = ["1/h", "1/d", "1/y", "0.001/y"];

/// The command line of `ringwatch calibrate`.
#[derive(Args)]
pub struct Arguments {
    /// False suspicions that are acceptable for a node, COUNT/TIME with h, d or y, such as 1/y or 0.01/d; for a job of
    /// N nodes divide by N
    #[arg(long, default_value = "1/y", value_name = "RATE", value_parser = rate)]
    rate: Rate,
    /// How long to measure: half of it idle, half under load
    #[arg(long, default_value = "2min", value_name = "TIME", value_parser = measuring_time)]
    time: Duration,
    /// Busy threads on each node in the second half [default: two per processor]
    #[arg(long, value_name = "COUNT")]
    load: Option<u32>,
    /// Recommend a timeout for this period [default: about a tenth of the timeout]
    #[arg(long, value_name = "TIME", value_parser = period)]
    period: Option<Duration>,
    /// Where the picture of the distribution goes
    #[arg(long, default_value = "calibration.svg", value_name = "FILE")]
    out: PathBuf,
    /// Store what is recommended in the parameter file
    #[arg(long)]
    write: bool,
    /// The parameter file [default: yours, for root that of all users]
    #[arg(long, value_name = "FILE", requires = "write")]
    file: Option<PathBuf>,
    /// Take what jobs have measured that ran with psensor_ringwatch_events, instead of measuring; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "load", "options"])]
    from: Vec<PathBuf>,
    /// Options of mpirun that name the nodes, such as -- --hostfile hosts
    #[arg(last = true, value_name = "OPTIONS OF MPIRUN")]
    options: Vec<String>,
}

fn measuring_time(text: &str) -> Result<Duration, String> {
    let valid = time(text).ok().filter(|time| (SHORTEST..=LONGEST).contains(time));
    valid.ok_or_else(|| "a time from 4s to 7d was expected, such as 10min".into())
}

fn period(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(1)..=Duration::from_secs(60);
    let valid = time(text).ok().filter(|time| range.contains(time));
    valid.ok_or_else(|| "a time from 1ms to 60s was expected".into())
}

/// Measures, reports, draws, and stores if asked to.
pub fn calibrate(arguments: &Arguments) -> ExitCode {
    // Before minutes are spent.
    let file = match check(arguments) {
        Ok(file) => file,
        Err(why) => return refuse(&why),
    };
    match carry_out(arguments, file.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("ringwatch: {why}.");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything can be written, and the parameter file if that is to be.
fn check(Arguments { out, write, file, .. }: &Arguments) -> Result<Option<PathBuf>, String> {
    let is_new = !out.exists();
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(out)
        .map_err(|error| format!("the picture cannot be written to {}: {error}", out.display()))?;
    if is_new {
        let _ = std::fs::remove_file(out);
    }
    if !*write {
        return Ok(None);
    }
    let file = file.clone().map_or_else(parameter_file::locate, Ok)?;
    match std::fs::read(&file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(format!("the parameter file {} cannot be read: {error}", file.display()))
        }
        _ => match parameter_file::may_change(&file) {
            Err(error) => Err(format!("the parameter file {} cannot be changed: {error}", file.display())),
            Ok(()) => Ok(Some(file)),
        },
    }
}

fn carry_out(arguments: &Arguments, file: Option<&Path>) -> Result<(), String> {
    let phases = if arguments.from.is_empty() { measure(arguments)? } else { vec![read(&arguments.from)?] };
    let tails = phases.iter().map(tail_of).collect::<Result<Vec<_>, _>>()?;
    let curves: Vec<_> = phases.iter().zip(&tails).map(|(phase, tail)| Curve { phase, tail }).collect();
    let wanted = arguments.rate.per_hour;
    print(&describe(&curves));
    let advice = for_rate(&curves, wanted, arguments.period);
    let timeout = advice.as_ref().ok().map(|advice| advice.timeout);
    let svg = picture::svg(&curves, wanted, timeout, &subtitle(&phases));
    let out = &arguments.out;
    std::fs::write(out, svg).map_err(|error| format!("the picture cannot be written to {}: {error}", out.display()))?;
    let advice = advice?;
    print(&recommend(&curves, arguments, advice));
    print(&format!("The picture is in {}.\n", out.display()));
    if let Some(file) = file {
        store(file, advice)?;
        print(&format!("Stored in {}, for jobs that are started on this node.\n", file.display()));
    }
    Ok(())
}

fn measure(Arguments { time, load, options, .. }: &Arguments) -> Result<Vec<Phase>, String> {
    let half = *time / 2;
    let mut phases = vec![measure::run("idle", options, half, Some(0))?];
    if *load != Some(0) {
        phases.push(measure::run("loaded", options, half, *load)?);
    }
    Ok(phases)
}

fn read(files: &[PathBuf]) -> Result<Phase, String> {
    let mut text = String::new();
    for path in files {
        let bytes = std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        text += &String::from_utf8_lossy(&bytes);
        text.push('\n');
    }
    let phase = Phase::of("jobs", &history::read(&text).0);
    if phase.nodes == 0 {
        return Err("the files tell of no job that has ended in order and measured something".into());
    }
    Ok(phase)
}

fn tail_of(phase: &Phase) -> Result<Tail, String> {
    Tail::of(&phase.silences).ok_or_else(|| match (phase.silences.count(), phase.nodes) {
        (0, 0 | 1) => {
            "a single node sends no heartbeats: name at least two, as in 'ringwatch calibrate -- --hostfile hosts'"
                .into()
        }
        (count, _) => format!(
            "{count} heartbeats were heard, and {} are needed to say anything about rare silences: measure longer",
            tail::FEWEST
        ),
    })
}

/// The worst of what was measured decides.
fn for_rate(curves: &[Curve<'_>], wanted: f64, period: Option<Duration>) -> Result<Advice, String> {
    let stall = |Curve { phase, tail }: &Curve<'_>| {
        (tail.upper_level(wanted / 2.0) - phase.period.as_secs_f64() * 1e6).max(0.0)
    };
    let loss = |Curve { phase, .. }: &Curve<'_>| most_lost(phase.lost, phase.heard);
    let measured = Measured {
        stall_us: curves.iter().map(stall).fold(0.0, f64::max),
        loss: curves.iter().map(loss).fold(0.0, f64::max),
        period: curves.iter().map(|curve| curve.phase.period).max().unwrap_or(measure::PERIOD),
    };
    advise(measured, wanted, period)
}

fn describe(curves: &[Curve<'_>]) -> String {
    let mut text = format!(
        "{:8} {:>6} {:>10} {:>11} {:>6} {:>10} {:>10} {:>10} {:>12}\n",
        "", "nodes", "node-hours", "heartbeats", "lost", "half in", "99.9 % in", "longest", "timer missed"
    );
    for Curve { phase, .. } in curves {
        let silence = |share| span(phase.silences.quantile(share).unwrap_or(0));
        let half_period = phase.period.as_micros() as u64 / 2;
        let missed: u64 = phase.lateness.pairs().filter(|(late, _)| *late > half_period).map(|(_, count)| count).sum();
        let share = missed as f64 / (phase.lateness.count() as f64).max(1.0) * 100.0;
        let _ = writeln!(
            text,
            "{:8} {:>6} {:>10.3} {:>11} {:>6} {:>10} {:>10} {:>10} {:>10.3} %",
            phase.name,
            phase.nodes,
            tail::hours(&phase.silences),
            phase.heard,
            phase.lost,
            silence(0.5),
            silence(0.999),
            silence(1.0),
            share
        );
        if !phase.silent.is_empty() {
            let _ =
                writeln!(text, "{:8} nodes {:?} have not told what they measured and are left out", "", phase.silent);
        }
    }
    text + "Timer missed: how often ringwatchd ran more than half a period after its timer.\n\n"
}

fn recommend(curves: &[Curve<'_>], arguments: &Arguments, advice: Advice) -> String {
    let mut text = format!(
        "For {} false suspicions of a node:\n  psensor_ringwatch_period = {}\n  psensor_ringwatch_timeout = {}\n",
        arguments.rate.text,
        show(advice.period),
        show(advice.timeout)
    );
    let others = OTHER_RATES.into_iter().filter_map(|text| {
        let rate = rate(text).ok()?;
        let known = for_rate(curves, rate.per_hour, arguments.period);
        let times = |Advice { period, timeout, .. }| format!("{} and {}", show(period), show(timeout));
        Some(format!("{text}: {}", known.map_or_else(|_| "none".into(), times)))
    });
    let _ = writeln!(text, "For other rates: {}.", others.collect::<Vec<_>>().join("; "));
    let _ = writeln!(text, "Besides the longest stall so many heartbeats in a row may be lost: {}.", advice.spare);
    if advice.timeout < REPLACING {
        let _ = writeln!(
            text,
            "With a timeout below {} a ringwatchd that hangs or dies may not be replaced before its node is \
             declared dead.",
            show(REPLACING)
        );
    }
    text.push('\n');
    text + &limits(curves)
}

/// What a reader must know to believe neither too much nor too little.
fn limits(curves: &[Curve<'_>]) -> String {
    let mut text = String::from("How sure that is:\n");
    for Curve { phase, tail } in curves {
        let (hours, longest) = (tail::hours(&phase.silences), phase.silences.longest().unwrap_or(0));
        let _ = writeln!(
            text,
            "* {}: without any assumption only this is shown (95 % sure): silences above {} come less than {:.1} \
             times per node and hour. What is rarer is extrapolated with a generalised Pareto tail fitted to the {} \
             silences above {} (shape {:.2}; 0 is exponential, larger is heavier), at the upper end of a 95 % \
             interval.",
            phase.name,
            span(longest),
            3.0 / hours,
            tail.size(),
            span(tail.threshold() as u64),
            tail.shape(),
        );
    }
    text + "* The interval takes silences for independent; stalls of several nodes at once make it too narrow.\n\
            * What did not happen meanwhile is not in it: other jobs, backups, a moved virtual machine, a failing \
            switch. Measure longer, at other times, or with your own jobs: run them with psensor_ringwatch_events and \
            use --from.\n\
            * Only neighbours on the ring were measured. Node 0 asks a suspect before it declares it dead, so fewer \
            nodes are lost than suspected.\n"
}

fn subtitle(phases: &[Phase]) -> String {
    let parts = phases.iter().map(|phase| {
        format!(
            "{}: {} nodes, {:.2} node-hours, period {}",
            phase.name,
            phase.nodes,
            tail::hours(&phase.silences),
            show(phase.period)
        )
    });
    parts.collect::<Vec<_>>().join("; ")
}

fn store(file: &Path, advice: Advice) -> Result<(), String> {
    let values =
        [("psensor_ringwatch_period", show(advice.period)), ("psensor_ringwatch_timeout", show(advice.timeout))];
    parameter_file::store(file, &values)
        .map_err(|error| format!("the parameter file {} cannot be changed: {error}", file.display()))
}

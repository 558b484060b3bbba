//! What the transports cost and how small their period may be, between two processes; `scripts/bench transports` runs
//! it. The emitter's process serves, the observer's measures and prints a line of JSON per figure:
//!
//! ```text
//! transports serve 127.0.0.1
//! transports measure 127.0.0.1 127.0.0.1 udp --scale 1 --seconds 10
//! ```
//!
//! | file | part |
//! |---|---|
//! | this one | which figures there are |
//! | `end` | one end of a transport: the same code that `ringwatchd` runs |
//! | `trial` | heartbeats for a while, and what the kernel counted meanwhile |
//! | `line` | what the two processes say to each other |
//! | `serve` | the emitter's process |
//! | `daemons` | two real `ringwatchd` |

use std::net::IpAddr;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};

use end::{Carrier, End};
use line::Line;
use trial::{Load, Trial, Watch};

#[path = "../../tests/cluster/mod.rs"]
mod cluster;
mod daemons;
mod end;
mod line;
mod serve;
mod trial;

/// Measures the transports between two processes.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    side: Side,
    /// Given by `cargo bench`.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Side {
    /// The emitter: does what the other side asks until that hangs up.
    Serve { own: IpAddr },
    /// The observer: measures one transport and prints what it has found.
    Measure {
        own: IpAddr,
        peer: IpAddr,
        carrier: Carrier,
        /// By how much all times are longer than on a real machine.
        #[arg(long, default_value_t = 1)]
        scale: u32,
        /// Length of a measurement of processor time.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
        /// How long a period must survive.
        #[arg(long, default_value_t = 600)]
        survive: u64,
        /// How often the emitter falls silent.
        #[arg(long, default_value_t = 20)]
        silences: u32,
        /// Not all figures, but these.
        #[arg(long, value_enum, default_values_t = [Part::Costs, Part::Idle, Part::Busy])]
        part: Vec<Part>,
    },
}

/// What can be measured by itself.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Processor time, and the time to a suspicion.
    Costs,
    /// The smallest period that survives where nothing else runs.
    Idle,
    /// The same under load.
    Busy,
}

/// Period of the measurements of processor time, and how many of it make the timeout.
const PERIOD: Duration = Duration::from_millis(10);
const PERIODS: u32 = 5;
/// Period of the heartbeats during which the observer sleeps.
const FAST: Duration = Duration::from_millis(1);
/// Periods tried one after the other, in milliseconds: from the smallest that the parameter allows.
const LADDER: [u64; 7] = [1, 2, 5, 10, 20, 50, 100];
/// As in a job whose parameters are the defaults.
const DEFAULT_PERIODS: u32 = 10;

fn main() -> Result<(), String> {
    let _ = rdma_heartbeat::process::setup::prepare();
    match Arguments::parse().side {
        Side::Serve { own } => serve::serve(own),
        Side::Measure { own, peer, carrier, scale, seconds, survive, silences, part } => {
            let mut line = Line::call(own, peer)?;
            let mut bench = Bench { line: &mut line, carrier, scale, seconds: Duration::from_secs(seconds) };
            if part.contains(&Part::Costs) {
                bench.cost()?;
                bench.asleep()?;
                bench.detection(silences)?;
                bench.daemon(own)?;
            }
            for (load, part_of) in [(Load::Idle, Part::Idle), (Load::Busy, Part::Busy)] {
                if part.contains(&part_of) {
                    bench.survival(load, Duration::from_secs(survive))?;
                }
            }
            Ok(())
        }
    }
}

struct Bench<'a> {
    line: &'a mut Line,
    carrier: Carrier,
    scale: u32,
    seconds: Duration,
}

impl Bench<'_> {
    fn print(&self, figure: &str, values: &Value) {
        println!("{}", json!({"carrier": self.carrier.name(), "figure": figure, "values": values}));
    }

    fn end(&mut self, carrier: Carrier, period: Duration) -> Result<End, String> {
        self.line.connect(carrier, period)
    }

    fn trial(&self, period: Duration, periods: u32, time: Duration) -> Trial {
        let beats = u64::try_from(time.as_nanos() / period.as_nanos()).unwrap_or(u64::MAX).max(1);
        Trial { period, timeout: period * periods, beats, offset: Duration::ZERO, load: Load::Idle }
    }

    /// Processor time per period of both sides, with heartbeats and for waking up alone.
    fn cost(&mut self) -> Result<(), String> {
        let period = PERIOD * self.scale;
        let trial = self.trial(period, PERIODS, self.seconds);
        let mut turns = Vec::new();
        for carrier in [Carrier::None, self.carrier] {
            let mut end = self.end(carrier, period)?;
            let outcome = self.line.run(&mut end, &trial, Watch::Always)?;
            let per_beat = |nanoseconds: u64| nanoseconds as f64 / trial.beats as f64;
            turns.push([per_beat(outcome.emitter.processor), per_beat(outcome.observer.processor)]);
        }
        let values = json!({"beats": trial.beats, "period_ms": period.as_millis() as u64,
            "timer_ns": turns[0], "turn_ns": turns[1]});
        self.print("cost", &values);
        Ok(())
    }

    /// What heartbeats take from an observer that sleeps while they come, and what the look afterwards takes.
    fn asleep(&mut self) -> Result<(), String> {
        let period = FAST * self.scale;
        let trial = self.trial(period, PERIODS, self.seconds.min(period * 2000));
        for carrier in [Carrier::None, self.carrier] {
            let mut end = self.end(carrier, period)?;
            let outcome = self.line.run_asleep(&mut end, &trial)?;
            let values = json!({
                "beats": outcome.sent, "arrived": outcome.seen, "without": carrier == Carrier::None,
                "sleep_ns": outcome.observer.processor, "switches": outcome.observer.switches,
                "look_ns": outcome.look,
            });
            self.print("asleep", &values);
        }
        Ok(())
    }

    /// Time from the last heartbeat to the suspicion, with the silence at all places of the observer's period.
    fn detection(&mut self, silences: u32) -> Result<(), String> {
        let period = PERIOD * self.scale;
        let mut end = self.end(self.carrier, period)?;
        let mut times = Vec::new();
        for number in 0..silences {
            let offset = period * number / silences;
            let trial = Trial { offset, ..self.trial(period, PERIODS, period * 20) };
            times.push(self.line.run(&mut end, &trial, Watch::Always)?.detected.as_micros() as u64);
        }
        let values = json!({"period_ms": period.as_millis() as u64, "timeout_ms": (period * PERIODS).as_millis() as u64,
            "error_us": self.line.clock_error().as_micros() as u64, "times_us": times});
        self.print("detection", &values);
        Ok(())
    }

    /// Processor share and memory of the real daemons, which use this transport by themselves.
    fn daemon(&mut self, own: IpAddr) -> Result<(), String> {
        if self.carrier == Carrier::Shared {
            return Ok(());
        }
        let period = PERIOD * self.scale;
        let values = daemons::measure(self.line, own, self.carrier, period, self.seconds)?;
        self.print("daemon", &json!({"period_ms": period.as_millis() as u64, "nodes": values}));
        Ok(())
    }

    /// Smallest period of the ladder without a miss and without a false declaration.
    fn survival(&mut self, load: Load, time: Duration) -> Result<(), String> {
        for millis in LADDER {
            let period = Duration::from_millis(millis) * self.scale;
            let mut end = self.end(self.carrier, period)?;
            let trial = Trial { load, ..self.trial(period, DEFAULT_PERIODS, time) };
            let outcome = self.line.run(&mut end, &trial, Watch::UntilMissed)?;
            let is_held = outcome.misses == 0 && outcome.lost == 0 && !outcome.declared;
            let values = json!({
                "load": load, "period_ms": period.as_millis() as u64, "seconds": outcome.lasted.as_secs_f64(),
                "held": is_held, "misses": outcome.misses, "lost": outcome.lost, "declared": outcome.declared,
                "longest_us": outcome.longest.as_micros() as u64,
            });
            self.print("survival", &values);
            if is_held {
                break;
            }
        }
        Ok(())
    }
}

//! Time from the death of a member to the others' knowledge, in a ring of real processes on this machine;
//! `scripts/bench ring` runs it. Each call starts one ring, watches it idle, lets members die, and prints a line of
//! JSON per figure:
//!
//! ```text
//! ring measure ringwatch --members 64 --rate 100 --periods 10
//! ```
//!
//! | file | part |
//! |---|---|
//! | this one | which figures there are |
//! | `rings` | what a ring of either kind can do |
//! | `daemons` | a ring of `ringwatchd`, with a rank that sleeps on each node |
//! | `swim` | a group of members of the crate foca, or of memberlist (SWIM) |
//! | `member` | one process of a group of foca's |
//! | `deaths` | who dies, how, and when the others know it |
//! | `load` | processes that compute |

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};

use daemons::Daemons;
use deaths::{Place, die};
use load::Load;
use rings::{Fault, Ring, Settings, Usage};
use swim::Swim;

#[path = "../../tests/cluster/mod.rs"]
mod cluster;
mod daemons;
mod deaths;
mod load;
mod member;
mod rings;
mod swim;

/// Measures a ring.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    part: Part,
    /// Given by `cargo bench`.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Part {
    /// Starts a ring and measures it.
    Measure(Plan),
    /// One member of a group of foca's.
    Member,
}

/// What is measured of one ring.
#[derive(clap::Args)]
struct Plan {
    kind: Kind,
    /// The program of a member of memberlist's (scripts/lib/bench/memberlist.go).
    #[arg(long, required_if_eq("kind", "memberlist"))]
    program: Option<PathBuf>,
    #[arg(long)]
    members: u32,
    /// Datagrams that each member sends in a second.
    #[arg(long)]
    rate: f64,
    /// Timeout of `ringwatchd`, or time from suspicion to declaration of SWIM, in periods.
    #[arg(long)]
    periods: f64,
    /// How long the ring must stay without a false declaration.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How many members are cut off one by one, and how many are killed one by one.
    #[arg(long, default_value_t = 0)]
    singles: u32,
    /// Sizes of groups of members that are cut off at once, each as neighbours and scattered.
    #[arg(long, value_delimiter = ',')]
    groups: Vec<u32>,
    /// Beside two processes per core that compute.
    #[arg(long)]
    busy: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Ringwatch,
    Foca,
    Memberlist,
}

/// Between two deaths, in timeouts: the ring closes, and what is late comes.
const BETWEEN: u32 = 3;

fn main() -> Result<(), String> {
    match Arguments::parse().part {
        Part::Measure(plan) => plan.measure(),
        Part::Member => member::run(),
    }
}

fn print(figure: &str, values: &Value) {
    println!("{}", json!({"figure": figure, "values": values}));
}

impl Plan {
    fn measure(&self) -> Result<(), String> {
        let settings = Settings::new(self.members, self.rate, self.periods, self.kind != Kind::Ringwatch);
        rings::prepare();
        let started = match self.kind {
            Kind::Ringwatch => Daemons::start(&settings).map(|ring| Box::new(ring) as Box<dyn Ring>),
            Kind::Foca => Swim::start(&settings, None).map(|ring| Box::new(ring) as Box<dyn Ring>),
            Kind::Memberlist => {
                Swim::start(&settings, self.program.as_deref()).map(|ring| Box::new(ring) as Box<dyn Ring>)
            }
        };
        let mut ring = match started {
            Ok(ring) => ring,
            Err(problem) => {
                print("idle", &json!({"started": false, "why": problem}));
                return Ok(());
            }
        };
        let _load = Load::start(self.busy);
        match self.idle(&mut *ring) {
            Ok(idle) if ring.falsely_declared() == 0 => self.deaths(&mut *ring, &settings, &idle),
            Ok(_) => Ok(()),
            // A member that was cut off has ended.
            Err(problem) => {
                print("idle", &json!({"started": false, "why": problem}));
                Ok(())
            }
        }
    }

    /// What the ring costs while nothing happens, and whether it declares somebody.
    fn idle(&self, ring: &mut dyn Ring) -> Result<Usage, String> {
        let time = Duration::from_secs_f64(self.seconds);
        let used = usage_of(ring, time)?;
        let falsely = ring.falsely_declared();
        print(
            "idle",
            &json!({"started": true, "seconds": self.seconds, "datagrams": used.rate(time, self.members),
            "percent": used.percent(time, self.members), "false": falsely}),
        );
        Ok(used)
    }

    fn deaths(&self, ring: &mut dyn Ring, settings: &Settings, idle: &Usage) -> Result<(), String> {
        let before = (ring.usage()?, platform::clock::now());
        let mut number = 0;
        let mut died = 0;
        for _ in 0..self.singles {
            for fault in [Fault::Cut, Fault::Kill] {
                number += 1;
                died += u32::from(self.one(ring, settings, fault, 1, Place::Scattered, number)?);
            }
        }
        if died > 0 {
            // Of those that still live: what they sent beyond what they send anyway.
            let (after, at) = (ring.usage()?, platform::clock::now());
            let sent: f64 = after.sent_beyond(&before.0);
            let idle_sent = idle.rate(Duration::from_secs_f64(self.seconds), self.members)
                * (at - before.1).as_secs_f64()
                * ring.living().len() as f64;
            print("deaths", &json!({"deaths": died, "datagrams": (sent - idle_sent) / f64::from(died)}));
        }
        for &size in &self.groups {
            for place in [Place::Neighbours, Place::Scattered] {
                number += 1;
                self.one(ring, settings, Fault::Cut, size, place, number)?;
            }
        }
        if ring.has_ranks() {
            for _ in 0..self.singles {
                number += 1;
                self.one(ring, settings, Fault::KillRank, 1, Place::Scattered, number)?;
            }
        }
        let time = Duration::from_secs_f64(self.seconds.min(5.0));
        let used = usage_of(ring, time)?;
        let left = u32::try_from(ring.living().len()).unwrap_or(u32::MAX);
        print(
            "after",
            &json!({"members": left, "datagrams": used.rate(time, left), "percent": used.percent(time, left),
            "false": ring.falsely_declared()}),
        );
        Ok(())
    }

    /// Returns whether so many could die.
    fn one(
        &self,
        ring: &mut dyn Ring,
        settings: &Settings,
        fault: Fault,
        size: u32,
        place: Place,
        seed: u64,
    ) -> Result<bool, String> {
        let Some(outcome) = die(ring, settings, fault, size, place, seed)? else { return Ok(false) };
        print(
            "death",
            &json!({"fault": fault.name(), "at_once": size, "place": place.name(),
            "first_us": outcome.first.as_micros() as u64, "last_us": outcome.last.as_micros() as u64,
            "missing": outcome.missing, "members": ring.living().len()}),
        );
        std::thread::sleep(settings.silence() * BETWEEN);
        Ok(true)
    }
}

/// What the members use in this time.
fn usage_of(ring: &mut dyn Ring, time: Duration) -> Result<Usage, String> {
    let before = ring.usage()?;
    std::thread::sleep(time);
    Ok(ring.usage()?.since(&before))
}

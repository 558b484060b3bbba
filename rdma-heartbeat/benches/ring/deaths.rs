//! Who dies, how, and when the others know it.

use std::time::Duration;

use platform::clock;

use crate::rings::{Fault, Ring, Settings};

/// Which members die together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Neighbours on the ring.
    Neighbours,
    /// Spread over the ring at equal distances.
    Scattered,
}

impl Place {
    pub fn name(self) -> &'static str {
        match self {
            Self::Neighbours => "neighbours",
            Self::Scattered => "scattered",
        }
    }
}

/// Times from the death.
pub struct Outcome {
    /// Until the first other member knows of one of the dead.
    pub first: Duration,
    /// Until the last other member knows of all of them.
    pub last: Duration,
    /// How many times a member did not learn of a death in time.
    pub missing: usize,
}

/// How many silences a death may stay unknown, and at least.
const PATIENCE: u32 = 20;
const LEAST: Duration = Duration::from_secs(3);
/// Between two looks at whether all know it.
const LOOK: Duration = Duration::from_millis(2);

/// Lets so many members die at once; `None` where too few would be left.
pub fn die(
    ring: &mut dyn Ring,
    settings: &Settings,
    fault: Fault,
    size: u32,
    place: Place,
    seed: u64,
) -> Result<Option<Outcome>, String> {
    let living = ring.living();
    let mortal = if ring.first_is_needed() { &living[1..] } else { &living[..] };
    let size = size as usize;
    // At least two must be left to tell each other.
    if mortal.len() < size + 1 || living.len() < size + 2 {
        return Ok(None);
    }
    let step = if place == Place::Neighbours { 1 } else { mortal.len() / size };
    // A multiplier without a factor in common with any number of members below it: another place each time.
    let start = (seed as usize).wrapping_mul(7919) % mortal.len();
    let victims: Vec<u32> = (0..size).map(|index| mortal[(start + index * step) % mortal.len()]).collect();
    // At all places of the period.
    std::thread::sleep(settings.period.mul_f64((seed as f64 * 0.618_034).fract()));
    let begin = clock::now();
    ring.strike(&victims, fault);
    let limit = begin + (settings.silence() * PATIENCE).max(LEAST);
    while !ring.is_known(&victims, fault) && clock::now() < limit {
        std::thread::sleep(LOOK);
    }
    let others = ring.living().len() - usize::from(fault == Fault::KillRank);
    let (mut first, mut last, mut missing) = (Duration::MAX, Duration::ZERO, 0);
    for victim in victims {
        let times = ring.known_at(victim, fault)?;
        missing += others.saturating_sub(times.len());
        for at in times {
            first = first.min(at.saturating_sub(begin));
            last = last.max(at.saturating_sub(begin));
        }
    }
    Ok(Some(Outcome { first: first.min(last), last, missing }))
}

//! Heartbeats for a while, at both ends.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use platform::clock;
use propagation::Time;
use serde::{Deserialize, Serialize};

use crate::end::{Carrier, End};

/// What else the machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Load {
    /// Nothing of ours.
    Idle,
    /// Two processes per core and end that compute.
    Busy,
}

/// Heartbeats that come so often, so many of them, and then a silence.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    pub period: Duration,
    pub timeout: Duration,
    pub beats: u64,
    /// How much later than asked for the first comes.
    pub offset: Duration,
    pub load: Load,
}

impl Trial {
    /// From the first heartbeat to a period after the last.
    fn duration(&self) -> Duration {
        self.offset + self.period * u32::try_from(self.beats).unwrap_or(u32::MAX)
    }
}

/// When the observer looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Once a period, until it suspects.
    Always,
    /// The same, until something is missed.
    UntilMissed,
}

/// What the kernel has counted for a thread.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in nanoseconds.
    pub processor: u64,
    /// How often it was put on a core.
    pub switches: u64,
}

impl Usage {
    fn now() -> Self {
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a thread has a clock");
        let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("a thread has a record");
        let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
        Self {
            processor: time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs(),
            switches: switches.unsigned_abs(),
        }
    }

    fn since(self, before: Self) -> Self {
        Self { processor: self.processor - before.processor, switches: self.switches - before.switches }
    }
}

/// What the emitter knows of a trial.
#[derive(Debug, Serialize, Deserialize)]
pub struct Emitted {
    pub sent: u64,
    pub usage: Usage,
    /// The last one, on the emitter's clock.
    pub last: Time,
}

/// What the observer knows of a trial.
#[derive(Default)]
pub struct Observed {
    pub usage: Usage,
    /// Processor time of the look after a sleep, in nanoseconds.
    pub look: u64,
    /// Silences of more than two and a half periods: one that is two periods long may be an early heartbeat after a
    /// look and a late one.
    pub misses: u64,
    pub longest: Duration,
    pub declared: bool,
    pub suspected_at: Time,
    pub lasted: Duration,
}

/// Sleeps until then, exactly.
fn sleep_until(time: Time) {
    let time = nix::sys::time::TimeSpec::from_duration(time);
    // Interrupted only by the end of the process.
    let _ = clock_nanosleep(ClockId::CLOCK_BOOTTIME, ClockNanosleepFlags::TIMER_ABSTIME, &time);
}

/// Sends the heartbeats of a trial, unless the other side has had enough.
pub fn emit(end: &mut End, trial: &Trial, mut is_over: impl FnMut() -> bool) -> Emitted {
    let mut next = clock::now() + trial.offset;
    let before = Usage::now();
    let (mut sent, mut last) = (0, next);
    while sent < trial.beats && !is_over() {
        sleep_until(next);
        end.beat();
        sent += 1;
        last = clock::now();
        next = (next + trial.period).max(last);
    }
    Emitted { sent, usage: Usage::now().since(before), last }
}

/// Sleeps through the heartbeats of a trial, and looks then.
pub fn sleep_through(end: &mut End, trial: &Trial) -> Observed {
    let before = Usage::now();
    sleep_until(clock::now() + trial.duration() + trial.period * 20);
    let woken = Usage::now();
    end.look(clock::now());
    Observed { usage: woken.since(before), look: Usage::now().since(woken).processor, ..Observed::default() }
}

/// Watches the heartbeats of a trial from the first one on, and the silence after it.
pub fn observe(end: &mut End, trial: &Trial, watch: Watch) -> Observed {
    let mut observed = Observed::default();
    let mut next = clock::now();
    while end.look(next).is_none() {
        next += trial.period;
        sleep_until(next);
    }
    let (begin, before, mut last) = (next, Usage::now(), next);
    // The last heartbeat comes one period before the end.
    let over = begin + trial.duration().saturating_sub(trial.period);
    let mut is_missed = false;
    loop {
        next = (next + trial.period).max(clock::now());
        // As the daemon does: at the latest when it would suspect.
        sleep_until(next.min(last + trial.timeout));
        let now = clock::now();
        let seen = end.look(now).filter(|_| end.carrier != Carrier::None || now < over);
        if let Some(at) = seen {
            (last, is_missed) = (at.max(last), false);
        }
        let silence = now.saturating_sub(last);
        let regular = now < over;
        if regular {
            observed.usage = Usage::now().since(before);
            observed.longest = observed.longest.max(silence);
            observed.lasted = now - begin;
            observed.misses += u64::from(silence > trial.period * 5 / 2 && !is_missed);
            is_missed |= silence > trial.period * 5 / 2;
        }
        if silence >= trial.timeout || (is_missed && watch == Watch::UntilMissed && regular) {
            observed.declared = silence >= trial.timeout && regular;
            observed.suspected_at = now;
            return observed;
        }
    }
}

/// Processes that compute.
pub struct Burners(Vec<Child>);

impl Burners {
    pub fn start(load: Load) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = if load == Load::Busy { 2 * cores } else { 0 };
        let burner = || Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
        Self((0..count).filter_map(|_| burner().ok()).collect())
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for burner in &mut self.0 {
            let _ = burner.kill();
            let _ = burner.wait();
        }
    }
}

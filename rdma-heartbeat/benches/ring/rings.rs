//! What a ring of either kind can do.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rdma_heartbeat::process::setup;

/// How a member dies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is stopped (SIGSTOP): its sockets stay, and nothing comes from it any more.
    Cut,
    /// It is killed (SIGKILL).
    Kill,
    /// Its rank is killed; the member tells of it.
    KillRank,
}

impl Fault {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Kill => "killed",
            Self::KillRank => "rank killed",
        }
    }
}

/// How a ring is set up.
pub struct Settings {
    pub members: u32,
    /// Heartbeat period of `ringwatchd`, probe period of SWIM.
    pub period: Duration,
    /// Suspicion timeout of `ringwatchd`; time from suspicion to declaration of SWIM.
    pub timeout: Duration,
}

impl Settings {
    /// A heartbeat is one datagram a period, and a probe with its answer are two.
    pub fn new(members: u32, rate: f64, periods: f64, is_swim: bool) -> Self {
        let period = Duration::from_secs_f64(if is_swim { 2.0 } else { 1.0 } / rate);
        Self { members, period, timeout: period.mul_f64(periods) }
    }

    /// About as long as a death is not known.
    pub fn silence(&self) -> Duration {
        self.period + self.timeout
    }
}

/// What members have used so far.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Processor time of each.
    processor: BTreeMap<u32, Duration>,
    /// Datagrams that each has sent.
    sent: BTreeMap<u32, u64>,
}

impl Usage {
    pub fn add(&mut self, member: u32, processor: Duration, sent: u64) {
        self.processor.insert(member, processor);
        self.sent.insert(member, sent);
    }

    /// Of the members of both.
    pub fn since(mut self, before: &Self) -> Self {
        self.processor.retain(|member, time| {
            before.processor.get(member).is_some_and(|earlier| {
                *time = time.saturating_sub(*earlier);
                true
            })
        });
        self.sent.retain(|member, sent| {
            before.sent.get(member).is_some_and(|earlier| {
                *sent = sent.saturating_sub(*earlier);
                true
            })
        });
        self
    }

    pub fn sent_beyond(self, before: &Self) -> f64 {
        self.since(before).sent.values().sum::<u64>() as f64
    }

    /// Datagrams that a member sends in a second.
    pub fn rate(&self, time: Duration, members: u32) -> f64 {
        self.sent.values().sum::<u64>() as f64 / time.as_secs_f64() / f64::from(members)
    }

    /// Per cent of a core that a member takes.
    pub fn percent(&self, time: Duration, members: u32) -> f64 {
        self.processor.values().sum::<Duration>().as_secs_f64() / time.as_secs_f64() / f64::from(members) * 100.0
    }
}

/// Members in processes of their own.
pub trait Ring {
    /// Those that live, in the order of the ring.
    fn living(&self) -> Vec<u32>;
    /// The first may not die.
    fn first_is_needed(&self) -> bool;
    /// Whether a member has a rank that can die by itself.
    fn has_ranks(&self) -> bool;
    /// What the living have used so far.
    ///
    /// # Errors
    /// If one does not tell.
    fn usage(&mut self) -> Result<Usage, String>;
    /// How many declarations of living members there are.
    fn falsely_declared(&mut self) -> usize;
    /// Lets members die.
    fn strike(&mut self, victims: &[u32], fault: Fault);
    /// Whether each living member knows that all of these are dead.
    fn is_known(&mut self, victims: &[u32], fault: Fault) -> bool;
    /// When each living member that knows of this death learned of it, on the clock of `platform::clock`.
    ///
    /// # Errors
    /// If one does not tell.
    fn known_at(&mut self, victim: u32, fault: Fault) -> Result<Vec<Duration>, String>;
}

/// Gives this process what it needs to start so many others, and to act in time.
pub fn prepare() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    let _ = setup::raise_priority();
}

/// Processor time of all threads of a process, as the scheduler counts it.
pub fn processor(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let own = |task: fs::DirEntry| -> Option<u64> {
        fs::read_to_string(task.path().join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    Duration::from_nanos(tasks.filter_map(own).sum())
}

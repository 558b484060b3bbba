//! Does what nobody reports to this thread: it looks for it now and then, and only while something may be pending.

use std::time::Duration;

use node_abi::segment::{Entry, Phase};

use crate::job::Job;

/// Interval of looks for ranks without ringwatch's components. A fence of the ranks of this node looks for them, too.
const CLIENTS: Duration = Duration::from_millis(500);
/// Interval of looks for exchanges with dead processes, once there are dead ones.
const EXCHANGES: Duration = Duration::from_millis(100);
/// Interval of looks at jobs whose end or mapping waits, in prterun.
const WAITING: Duration = Duration::from_millis(20);
/// Interval of looks for such jobs there.
const IDLE: Duration = Duration::from_millis(500);

/// When each was looked for last, on [`platform::clock::awake`].
pub struct Errands {
    clients: Duration,
    exchanges: Duration,
    /// Number of log entries that have been read, and whether one of them is a dead rank.
    read: (u32, bool),
}

impl Errands {
    /// Begins at `now`.
    pub fn new(now: Duration) -> Self {
        Self { clients: now, exchanges: now, read: (0, false) }
    }

    /// Time from `now` to the next look; [`Duration::MAX`] while nothing is pending.
    pub fn wait(&mut self, job: &Job, now: Duration) -> Duration {
        let until = |last: Duration, interval| (last + interval).saturating_sub(now);
        let clients = if has_unknown(job) { until(self.clients, CLIENTS) } else { Duration::MAX };
        let exchanges = if self.has_dead(job) { until(self.exchanges, EXCHANGES) } else { Duration::MAX };
        let waiting = match job.runtime() {
            Some(_) if job.has_waiting_maps() || job.has_waiting_ends() => WAITING,
            Some(_) => IDLE,
            None => Duration::MAX,
        };
        clients.min(exchanges).min(waiting)
    }

    /// Does what is due at `now`.
    pub fn run(&mut self, job: &Job, now: Duration) {
        if now >= self.clients + CLIENTS && has_unknown(job) {
            self.clients = now;
            // SAFETY: PMIx is initialised.
            job.link.in_pmix(|| unsafe { c_shims::pmix::rw_pmix_look_at_clients() });
        }
        // Waits in this node's PMIx for processes that died before the wait began: no event reports them.
        if now >= self.exchanges + EXCHANGES && self.has_dead(job) {
            self.exchanges = now;
            // SAFETY: as above.
            job.link.in_pmix(|| unsafe { c_shims::pmix::rw_pmix_end_exchanges_with_the_dead() });
        }
        job.carry_on_with_maps();
        job.carry_on_with_ends();
    }

    fn has_dead(&mut self, job: &Job) -> bool {
        let (read, found) = self.read;
        let length = job.segment.len();
        let is_rank = |index| matches!(job.segment.entry(index), Some(Entry::Rank(_)));
        self.read = (length, found || (read..length).any(is_rank));
        self.read.1
    }
}

/// Whether a rank of this node has not registered. One without the components never does.
fn has_unknown(job: &Job) -> bool {
    job.launch.ranks_register && (0..job.segment.slots()).any(|slot| job.segment.occupant(slot).1 == Phase::Unknown)
}

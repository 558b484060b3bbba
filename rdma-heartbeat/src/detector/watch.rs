//! Watches the ranks of this node from outside: a rank only writes into its slot.
//!
//! A rank registers its process number in its slot; the watch pins the process, and the kernel then reports its end. A
//! rank that ends after `MPI_Finalize` has left in order; any other end is a death. If requested, the watch also
//! samples whether a rank is stopped, or dumps core, and before registration it samples the process that was started
//! for the rank.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use node_abi::defaults::Default;
use node_abi::rank_environment::is_rank;
use node_abi::segment::{Phase, Segment};
use platform::bell::Bell;
use platform::inquiry::Inquiries;
use platform::pin::{Environment, Pin, PinError};
use propagation::{RankReason, Time};
use tracing::{debug, error, info, warn};

use crate::detector::fate::reason_of;
use crate::detector::launched::{self, Launched, Search};
use crate::detector::lifeline;
use crate::detector::stopped::{StopCount, Window, sampling_interval};

#[cfg(test)]
mod tests;

/// Maximum time before a registration is noticed, while ranks are expected to register.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Time between two searches for the processes of ranks that have not registered, if the limit of stopped ranks is not
/// shorter.
const SEARCH_INTERVAL: Duration = Duration::from_millis(100);

/// A finding of the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// The process in this slot is pinned: poll its [`Watch::descriptor`].
    Pinned(u32),
    /// The process in this slot has been stopped for too long after `MPI_Finalize`: only mpirun waits for it.
    Stuck(u32),
    /// This rank ended without having finalised.
    Dead(u32, RankReason),
}

enum Occupant {
    /// No process has registered yet.
    Absent,
    /// The same, but the runtime daemon has started this process for it, and reports its end.
    Launched(Pin, StopCount),
    /// This process has registered. It does not descend from the runtime daemon; whether it is this rank is being
    /// checked.
    Claimed(Pin),
    /// The process is watched. If it descends from the runtime daemon, it is watched already while it is being checked.
    Pinned(Pin, StopCount),
    /// The process has ended, or cannot be watched.
    Gone,
}

struct Slot {
    rank: u32,
    /// Its namespace, and its rank there.
    name: (String, u32),
    occupant: Occupant,
    /// Changed defaults that have been logged.
    changed: u32,
    /// Whether only [`Watch::hold`], of this or an earlier incarnation, has stopped it.
    is_held: bool,
}

impl Slot {
    fn is_awaited(&self) -> bool {
        matches!(self.occupant, Occupant::Absent | Occupant::Launched(..))
    }

    /// Stops the process, unless another process has.
    fn stop(&mut self, number: u32, segment: &Segment) {
        if let Occupant::Pinned(pin, _) = &self.occupant {
            // First, so that a later incarnation knows of it in any case.
            segment.note_held(number, true);
            self.is_held = pin.stop();
            segment.note_held(number, self.is_held);
        }
    }

    /// Stops a process that an earlier incarnation meant to stop; it may have died before it did.
    fn stop_again(&self) {
        if let Occupant::Pinned(pin, _) = &self.occupant {
            pin.stop();
        }
    }

    /// Whether the kernel is writing the core file of its process.
    fn dumps_core(&self) -> bool {
        let (Occupant::Pinned(pin, _) | Occupant::Launched(pin, _)) = &self.occupant else { return false };
        pin.sample().is_some_and(|sample| pin.dumping(sample).is_some())
    }

    /// Continues the process, if it was stopped in this way.
    fn go_on(&mut self, number: u32, segment: &Segment) {
        let is_held = std::mem::take(&mut self.is_held);
        if let (Occupant::Pinned(pin, count), true) = (&mut self.occupant, is_held) {
            pin.go_on();
            *count = StopCount::default();
            segment.note_held(number, false);
        }
    }
}

/// A process with this number has registered in a slot, and its environment is being read.
struct Claim<E> {
    index: usize,
    pid: i32,
    environment: E,
}

/// The ranks of this node.
pub struct Watch {
    slots: Vec<Slot>,
    look_interval: Duration,
    next_look: Time,
    stop_limit: Option<Duration>,
    next_sample: Window,
    next_search: Time,
    kills: bool,
    /// Whether ranks are started stopped, which is no fault before they register.
    starts_stopped: bool,
    /// Whether a rank may be stopped at any time without fault.
    may_be_stopped: bool,
    /// Dead ranks: another process may have reused the registered number.
    dead: BTreeSet<u32>,
    /// Whether this watch has stopped the ranks, which is not their fault.
    holds: bool,
    /// When the whole job was last known to be suspended, which is not their fault either.
    suspended_at: Option<Time>,
    /// The runtime daemon, the ancestor of the ranks.
    runtime: i32,
    search: Search,
    bell: Bell,
    claims: Inquiries<Claim<Environment>, Claim<Vec<u8>>>,
    /// Inquiries for children of the runtime daemon, each with the known ones.
    passes: Inquiries<Vec<i32>, Vec<Launched>>,
    never: [Option<i32>; 2],
}

impl Watch {
    /// Watches the slots of a segment. `name_of` returns a rank's namespace and its rank there. With `kills`, processes
    /// may be killed. `runtime` is the runtime daemon's process number, which no slot may claim.
    ///
    /// # Errors
    /// If the process has no descriptors or threads left.
    pub fn new<'a>(
        segment: &Segment,
        name_of: impl Fn(u32) -> (&'a str, u32),
        period: Duration,
        stop_limit: Option<Duration>,
        kills: bool,
        runtime: i32,
    ) -> io::Result<Self> {
        let bell = Bell::new()?;
        let read = |Claim { index, pid, environment }: Claim<Environment>| Claim {
            index,
            pid,
            environment: environment.read(),
        };
        let mut watch = Self {
            slots: Vec::new(),
            look_interval: (period * 2).min(LOOK_INTERVAL),
            next_look: Time::ZERO,
            next_search: Time::ZERO,
            stop_limit,
            next_sample: if stop_limit.is_some() { Window::at(Time::ZERO) } else { Window::NEVER },
            kills,
            starts_stopped: false,
            may_be_stopped: false,
            dead: BTreeSet::new(),
            holds: false,
            suspended_at: None,
            runtime,
            search: Search::default(),
            claims: Inquiries::start(&bell, read)?,
            passes: Inquiries::start(&bell, move |known: Vec<i32>| launched::ranks_among_children(runtime, &known))?,
            bell,
            never: [Some(runtime), i32::try_from(std::process::id()).ok()],
        };
        watch.extend(segment, name_of);
        Ok(watch)
    }

    /// Notes that the ranks are started stopped, for a debugger: being stopped is no fault until they register.
    pub fn let_start_stopped(&mut self) {
        self.starts_stopped = true;
    }

    /// Allows ranks to be stopped without limit. They are still sampled as for this limit, because a suspension of the
    /// whole job concerns other nodes, too.
    pub fn let_be_stopped(&mut self, limit: Duration) {
        self.may_be_stopped = true;
        self.stop_limit = Some(limit);
        self.next_sample = Window::at(Time::ZERO);
    }

    /// Notes ranks that died before this watch began: other processes may have reused their numbers.
    pub fn doubt(&mut self, dead: impl IntoIterator<Item = u32>) {
        self.dead.extend(dead);
    }

    /// Whether inquiries about processes are pending.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.occupant, Occupant::Claimed(_)))
    }

    /// Watches slots that were added to the segment.
    pub fn extend<'a>(&mut self, segment: &Segment, name_of: impl Fn(u32) -> (&'a str, u32)) {
        for slot in slot_number(self.slots.len())..segment.slots() {
            let rank = segment.rank(slot);
            let (nspace, local) = name_of(rank);
            self.slots.push(Slot {
                rank,
                name: (nspace.to_owned(), local),
                occupant: Occupant::Absent,
                changed: 0,
                is_held: false,
            });
        }
        self.next_look = Time::ZERO;
        self.search.begin_again();
    }

    /// Latest time at which [`Watch::look`] has work.
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.next_look.min(self.next_sample.end())
    }

    /// Readable when [`Watch::look`] has work before its deadline.
    #[must_use]
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Handles new registrations and stopped ranks, if due, and answers to inquiries.
    pub fn look(&mut self, now: Time, segment: &Segment, out: &mut Vec<Sighting>) {
        let mut is_new = self.hear(out);
        if now >= self.next_look {
            let mut expects_more = false;
            for index in 0..self.slots.len() {
                if self.slots[index].is_awaited() {
                    self.register(index, segment, out);
                    expects_more |= self.slots[index].is_awaited();
                }
            }
            self.next_look = if expects_more { now + self.look_interval } else { Time::MAX };
        }
        if out.iter().any(|sighting| matches!(sighting, Sighting::Pinned(_))) {
            is_new = true;
            // Its lock may have been reported before the process was known.
            self.broken(segment, out);
        }
        if let (true, Some(limit)) = (is_new, self.stop_limit) {
            self.next_sample = self.next_sample.and(Window::after(now, limit));
        }
        if self.next_sample.is_open(now) {
            self.sample(now, segment, out);
        }
    }

    /// Handles answers to inquiries. Returns whether a process was found that has not registered.
    fn hear(&mut self, out: &mut Vec<Sighting>) -> bool {
        let mut is_found = false;
        while let Some(claim) = self.claims.collect() {
            self.judge(&claim, out);
        }
        while let Some(ranks) = self.passes.collect() {
            self.search.passed(ranks.len());
            for (pin, nspace, rank) in ranks {
                let slot = self.slots.iter_mut().find(|slot| slot.name.1 == rank && slot.name.0 == nspace);
                if let Some(slot) = slot.filter(|slot| matches!(slot.occupant, Occupant::Absent)) {
                    slot.occupant = Occupant::Launched(pin, StopCount::default());
                    is_found = true;
                }
            }
        }
        is_found
    }

    /// Decides whether a registered process is this rank.
    fn judge(&mut self, Claim { index, pid, environment }: &Claim<Vec<u8>>, out: &mut Vec<Sighting>) {
        let slot = &mut self.slots[*index];
        let rank = slot.rank;
        let (Occupant::Claimed(pin) | Occupant::Pinned(pin, _)) = &slot.occupant else { return };
        if pin.pid() != *pid {
            return;
        }
        if !is_rank(pin, environment, &slot.name.0, slot.name.1, self.runtime) {
            error!(rank, pid, "the rank claims to be a process that is not this rank; it is not watched");
            if slot.is_held {
                pin.go_on();
            }
            slot.occupant = Occupant::Gone;
        } else if matches!(slot.occupant, Occupant::Claimed(_)) {
            if let Occupant::Claimed(pin) = std::mem::replace(&mut slot.occupant, Occupant::Gone) {
                pin_down(slot, *index, pin, out);
            }
        }
    }

    /// Handles a registration.
    fn register(&mut self, index: usize, segment: &Segment, out: &mut Vec<Sighting>) {
        let (pid, phase) = segment.occupant(slot_number(index));
        if !phase.is_registered() {
            return;
        }
        let slot = &mut self.slots[index];
        let rank = slot.rank;
        slot.occupant = Occupant::Gone;
        if self.never.contains(&Some(pid)) {
            error!(rank, pid, "the rank claims to be a process of the runtime; it is not watched");
            return;
        }
        let taken = Pin::take(pid).and_then(|pin| Ok((pin.environment()?, pin)));
        match taken {
            Ok((environment, pin)) => {
                self.claims.ask(Claim { index, pid, environment });
                let is_past = phase == Phase::Finalised || self.dead.contains(&rank);
                if !is_past && pin.descends_from(self.runtime) {
                    pin_down(slot, index, pin, out);
                } else {
                    slot.occupant = Occupant::Claimed(pin);
                }
            }
            Err(PinError::Gone) if phase == Phase::Finalised => {}
            Err(PinError::Gone) => out.push(Sighting::Dead(rank, RankReason::Reported)),
            Err(error) => error!(rank, pid, %error, "the rank cannot be watched"),
        }
    }

    fn sample(&mut self, now: Time, segment: &Segment, out: &mut Vec<Sighting>) {
        let Some(limit) = self.stop_limit else { return };
        self.next_sample = Window::after(now, limit);
        if self.holds {
            return;
        }
        self.look_for_launched(now, limit);
        let has_process = |slot: &Slot| matches!(slot.occupant, Occupant::Pinned(..) | Occupant::Launched(..));
        if !self.slots.iter().any(has_process) {
            self.next_sample = Window::at(now + sampling_interval(limit).max(limit.min(SEARCH_INTERVAL)));
            return;
        }
        let excused = self.may_be_stopped || self.suspended_at.is_some_and(|at| now.saturating_sub(at) < limit);
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let is_launched = matches!(slot.occupant, Occupant::Launched(..));
            let (Occupant::Pinned(pin, count) | Occupant::Launched(pin, count)) = &mut slot.occupant else { continue };
            let excused = excused || (self.starts_stopped && is_launched);
            let (number, sample) = (slot_number(index), pin.sample());
            if let Some(reason) = sample.filter(|_| !is_launched).and_then(|sample| pin.dumping(sample)).map(reason_of)
            {
                // A death of a rank in MPI_Init ends the job, which would truncate the core file: that is left to be
                // written.
                if matches!(segment.occupant(number).1, Phase::Running | Phase::Finalising) {
                    info!(rank = slot.rank, pid = pin.pid(), %reason, "rank dumps core");
                    out.push(Sighting::Dead(slot.rank, reason));
                    // It ends by itself, and is ignored until then.
                    slot.occupant = Occupant::Gone;
                }
                continue;
            }
            let halted = sample.and_then(|sample| pin.halted(sample)).map(|(fate, done)| (reason_of(fate), done));
            let is_over = count.observe(now, halted.as_ref().map(|(_, done)| *done), limit);
            self.next_sample = self.next_sample.and(count.next(now, limit));
            if !is_over || excused {
                continue;
            }
            let reason = halted.map_or(RankReason::Stopped, |(reason, _)| reason);
            if let RankReason::Signaled { signal } = reason {
                warn!(
                    rank = slot.rank,
                    pid = pin.pid(),
                    signal,
                    "the rank hangs in its handler of the signal of a crash"
                );
            }
            out.push(match segment.occupant(number).1 {
                Phase::Finalised => Sighting::Stuck(number),
                _ => Sighting::Dead(slot.rank, reason),
            });
        }
    }

    /// Searches for processes of ranks that have not registered.
    fn look_for_launched(&mut self, now: Time, limit: Duration) {
        let is_absent = |slot: &Slot| matches!(slot.occupant, Occupant::Absent);
        if now < self.next_search || !self.slots.iter().any(is_absent) {
            return;
        }
        let launching = self.slots.iter().all(is_absent);
        if !self.search.begins(launching) {
            return;
        }
        self.next_search = now + limit.min(SEARCH_INTERVAL);
        let pids = self.slots.iter().filter_map(|slot| match &slot.occupant {
            Occupant::Pinned(pin, _) | Occupant::Launched(pin, _) | Occupant::Claimed(pin) => Some(pin.pid()),
            Occupant::Absent | Occupant::Gone => None,
        });
        self.passes.ask(pids.chain(self.never.into_iter().flatten()).collect());
    }

    /// Restarts the limit of stopped ranks, because the whole job is suspended.
    pub fn excuse(&mut self, now: Time) {
        self.suspended_at = Some(now);
    }

    /// Number of ranks of this node that another process has stopped for `span`, if none of this node can run.
    #[must_use]
    pub fn all_stopped(&self, now: Time, span: Duration, segment: &Segment) -> Option<u32> {
        let is_stopped = |count: &StopCount| count.since().is_some_and(|since| now.saturating_sub(since) >= span);
        let mut stopped = 0;
        for (index, slot) in self.slots.iter().enumerate() {
            match &slot.occupant {
                Occupant::Gone => {}
                Occupant::Pinned(..) if segment.occupant(slot_number(index)).1 == Phase::Finalised => {}
                Occupant::Pinned(_, count) | Occupant::Launched(_, count) if is_stopped(count) => stopped += 1,
                // The runtime daemon reports its end.
                Occupant::Launched(pin, _) if pin.has_ended() => {}
                // Whether it is stopped, too, shows when it could run again.
                Occupant::Pinned(pin, _) | Occupant::Launched(pin, _) if pin.cannot_run() => {}
                Occupant::Absent | Occupant::Launched(..) | Occupant::Claimed(_) | Occupant::Pinned(..) => return None,
            }
        }
        (!self.holds).then_some(stopped)
    }

    /// The descriptor that becomes readable when the process in a slot ends.
    #[must_use]
    pub fn descriptor(&self, slot: u32) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        match &self.slots.get(slot as usize)?.occupant {
            Occupant::Pinned(pin, _) => Some(pin.as_fd()),
            _ => None,
        }
    }

    /// Handles a slot's descriptor that became readable.
    pub fn ended(&mut self, slot: u32, segment: &Segment) -> Option<Sighting> {
        let entry = self.slots.get_mut(slot as usize)?;
        let Occupant::Pinned(pin, _) = &entry.occupant else { return None };
        let (pid, reason, phase) = (pin.pid(), reason_of(pin.end_reason()), segment.occupant(slot).1);
        entry.occupant = Occupant::Gone;
        if phase == Phase::Finalised {
            debug!(rank = entry.rank, pid, "rank has left after MPI_Finalize");
            return None;
        }
        info!(rank = entry.rank, pid, %reason, "rank has ended");
        Some(Sighting::Dead(entry.rank, reason))
    }

    /// Handles the end of a rank's process: one that never registered is no longer expected.
    pub fn left(&mut self, rank: u32, segment: &Segment) {
        if !self.is_registered(rank, segment) {
            let slot = self.slots.iter_mut().find(|slot| slot.rank == rank && slot.is_awaited());
            let _ = slot.map(|slot| slot.occupant = Occupant::Gone);
        }
    }

    /// Handles locks that have lost their owners: reports dying ranks before they have ended.
    pub fn broken(&mut self, segment: &Segment, out: &mut Vec<Sighting>) {
        let kills = self.kills;
        for (index, entry) in self.slots.iter_mut().enumerate() {
            let Occupant::Pinned(pin, _) = &entry.occupant else { continue };
            let slot = slot_number(index);
            if !lifeline::is_broken(segment, slot) || segment.occupant(slot).1 == Phase::Finalised {
                continue;
            }
            if let Some(reason) = pin.fate().map(reason_of) {
                info!(rank = entry.rank, pid = pin.pid(), %reason, "rank is ending");
                // If only the first thread has left with a status, the others would live on.
                if kills && matches!(reason, RankReason::Exited { .. }) {
                    if let Err(error) = pin.kill() {
                        error!(rank = entry.rank, pid = pin.pid(), %error, "the rank cannot be killed");
                    }
                }
                entry.occupant = Occupant::Gone;
                out.push(Sighting::Dead(entry.rank, reason));
            }
        }
    }

    /// Kills a rank of this node that lives and has not finalised; true if it did. Does nothing elsewhere. It also
    /// spares a rank that dumps core: it does not run any more, and its user wants the core file complete.
    pub fn fence(&self, rank: u32, segment: &Segment) -> bool {
        let slot = self.slots.iter().enumerate().find(|(_, slot)| slot.rank == rank);
        let may_run = |(index, slot): &(usize, &Slot)| {
            segment.occupant(slot_number(*index)).1 != Phase::Finalised && !slot.dumps_core()
        };
        slot.filter(may_run).is_some_and(|(_, slot)| self.kill(slot))
    }

    /// Stops all pinned processes, until [`Watch::release`]. Without fencing it does nothing.
    pub fn hold(&mut self, segment: &Segment) {
        if self.kills && !std::mem::replace(&mut self.holds, true) {
            for (index, slot) in self.slots.iter_mut().enumerate() {
                slot.stop(slot_number(index), segment);
            }
        }
    }

    /// Continues the ranks that [`Watch::hold`] has stopped. Ranks that are still stopped get the whole limit from now
    /// on.
    pub fn release(&mut self, now: Time, segment: &Segment) {
        if std::mem::take(&mut self.holds) {
            self.excuse(now);
            for (index, slot) in self.slots.iter_mut().enumerate() {
                slot.go_on(slot_number(index), segment);
            }
        }
    }

    /// Handles a newly pinned process. An earlier `ringwatchd` may have stopped it, or it may have to be stopped now.
    pub fn pinned(&mut self, slot: u32, segment: &Segment) {
        let Some(entry) = self.slots.get_mut(slot as usize) else { return };
        entry.is_held = segment.is_held(slot);
        match (self.holds, entry.is_held) {
            (true, false) => entry.stop(slot, segment),
            (false, true) => entry.go_on(slot, segment),
            (true, true) => entry.stop_again(),
            (false, false) => {}
        }
    }

    /// Kills all living ranks of this node, and returns them.
    pub fn fence_all(&self) -> Vec<u32> {
        self.slots.iter().filter(|slot| self.kill(slot)).map(|slot| slot.rank).collect()
    }

    /// Kills the process in a slot, finalised or not.
    pub fn end(&self, slot: u32) {
        if let Some(slot) = self.slots.get(slot as usize) {
            self.kill(slot);
        }
    }

    fn kill(&self, slot: &Slot) -> bool {
        let (Occupant::Pinned(pin, _) | Occupant::Launched(pin, _)) = &slot.occupant else { return false };
        let (rank, pid) = (slot.rank, pin.pid());
        if pin.has_ended() {
            return false;
        }
        if !self.kills {
            warn!(rank, pid, "fencing is off; the rank is not killed");
            return false;
        }
        let killed = pin.kill();
        match &killed {
            Ok(()) => info!(rank, pid, "fenced"),
            Err(error) => error!(rank, pid, %error, "the rank cannot be killed"),
        }
        killed.is_ok()
    }

    /// Whether every rank of this node that `counts` has returned from `MPI_Init`, as far as it would report that. A
    /// rank that died inside never does: Open MPI does not define the effect on the others, so such a job is ended.
    #[must_use]
    pub fn all_initialised(&self, segment: &Segment, counts: impl Fn(u32) -> bool) -> bool {
        let mut slots = (0..segment.slots()).filter(|slot| counts(segment.rank(*slot)));
        slots.all(|slot| segment.occupant(slot).1 >= Phase::Running)
    }

    /// Whether this rank of this node has entered `MPI_Init`.
    #[must_use]
    pub fn is_registered(&self, rank: u32, segment: &Segment) -> bool {
        segment.slot_of(rank).is_some_and(|slot| segment.occupant(slot).1.is_registered())
    }

    /// Whether this rank of this node has reached the runtime or `MPI_Init`.
    #[must_use]
    pub fn has_come(&self, rank: u32, segment: &Segment) -> bool {
        segment.slot_of(rank).is_some_and(|slot| segment.occupant(slot).1 != Phase::Unknown)
    }

    /// Whether this rank of this node has left `MPI_Init`.
    #[must_use]
    pub fn has_initialised(&self, rank: u32, segment: &Segment) -> bool {
        segment.slot_of(rank).is_some_and(|slot| segment.occupant(slot).1 >= Phase::Running)
    }

    /// Whether this daemon will see the end of a rank's process.
    #[must_use]
    pub fn is_watched(&self, rank: u32, segment: &Segment) -> bool {
        let is_watched = |slot: u32| {
            let occupant = self.slots.get(slot as usize).map(|slot| &slot.occupant);
            matches!(occupant, Some(Occupant::Pinned(..) | Occupant::Claimed(_)))
        };
        segment.slot_of(rank).is_some_and(is_watched)
    }

    /// Whether a rank of this node has entered `MPI_Init`.
    #[must_use]
    pub fn has_registered(&self, segment: &Segment) -> bool {
        (0..segment.slots()).any(|slot| segment.occupant(slot).1.is_registered())
    }

    /// Logs ranks without ringwatch's components.
    pub fn log_unserved(&self, segment: &Segment) {
        let unserved = (0..segment.slots()).filter(|slot| segment.occupant(*slot).1 == Phase::Unserved);
        let ranks: Vec<u32> = unserved.map(|slot| segment.rank(slot)).collect();
        if !ranks.is_empty() {
            let ranks = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            warn!(
                "ranks {ranks} are without ringwatch's components: they hear of deaths by PMIx events, some milliseconds later"
            );
        }
    }

    /// Logs defaults of Open MPI that the ranks of this node have changed since the last call.
    pub fn log_defaults(&mut self, segment: &Segment) {
        for (slot, entry) in (0..segment.slots()).zip(&mut self.slots) {
            let now = segment.changes(slot);
            let new = now & !std::mem::replace(&mut entry.changed, now);
            let changed: Vec<_> = Default::in_mask(new).map(Default::text).collect();
            if !changed.is_empty() {
                info!(rank = entry.rank, changed = %changed.join(" "), "defaults set for fault tolerance");
            }
        }
    }

    /// Whether a rank of this node that has not finalised is known to be alive.
    #[must_use]
    pub fn has_living(&self, segment: &Segment) -> bool {
        self.slots.iter().enumerate().any(|(index, slot)| {
            matches!(slot.occupant, Occupant::Pinned(..)) && segment.occupant(slot_number(index)).1 != Phase::Finalised
        })
    }

    /// Whether this rank of this node has finalised.
    #[must_use]
    pub fn has_finalised(&self, rank: u32, segment: &Segment) -> bool {
        segment.slot_of(rank).is_some_and(|slot| segment.occupant(slot).1 == Phase::Finalised)
    }
}

/// Begins to watch the process in a slot.
fn pin_down(slot: &mut Slot, index: usize, pin: Pin, out: &mut Vec<Sighting>) {
    debug!(rank = slot.rank, pid = pin.pid(), "rank is watched");
    slot.occupant = Occupant::Pinned(pin, StopCount::default());
    out.push(Sighting::Pinned(slot_number(index)));
}

fn slot_number(index: usize) -> u32 {
    u32::try_from(index).expect("a segment numbers its slots with 32 bits")
}

//! The ranks of this node, seen from outside: nothing is added to a rank but what it writes into its slot.
//!
//! A rank registers its process number in its slot; the watch pins the process and from then on hears from the kernel
//! when it ends. Whoever ended after `MPI_Finalize` left in order; everybody else is dead. If asked to, the watch also
//! samples whether a rank is stopped, or dumps core, and before it has registered the process that was started for it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use propagation::{RankReason, Time};
use tracing::{debug, error, info, warn};

use crate::bell::Bell;
use crate::defaults::Default;
use crate::inquiry::Inquiries;
use crate::launched::{self, Launched, Search};
use crate::lifeline;
use crate::pin::{Environment, Pin, PinError};
use crate::segment::{Phase, Segment};
use crate::stopped::{StopCount, Window};

#[cfg(test)]
mod tests;

/// Longest time in which a registration goes unseen while ranks are expected to register.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What the watch found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// The process in this slot is pinned: poll its [`Watch::descriptor`].
    Pinned(u32),
    /// The process in this slot has been stopped for too long after `MPI_Finalize`: nobody misses it but mpirun.
    Stuck(u32),
    /// This rank ended without having finalised.
    Dead(u32, RankReason),
}

enum Occupant {
    /// Nobody has registered yet.
    Absent,
    /// The same, but the runtime daemon has started this process for it, whose end that daemon reports.
    Launched(Pin, StopCount),
    /// This process has registered, which does not descend from the runtime daemon; whether it is this rank is asked.
    Claimed(Pin),
    /// The process is watched. If it descends from the runtime daemon that is so while it is asked, too.
    Pinned(Pin, StopCount),
    /// The process has ended, or can never be watched.
    Gone,
}

struct Slot {
    rank: u32,
    /// Its namespace, and its rank there.
    name: (String, u32),
    occupant: Occupant,
    /// The changed defaults that have been logged.
    changed: u32,
    /// [`Watch::hold`] has stopped it, or that of an earlier life, and nobody else.
    is_held: bool,
}

impl Slot {
    fn is_awaited(&self) -> bool {
        matches!(self.occupant, Occupant::Absent | Occupant::Launched(..))
    }

    /// Stops the process, unless somebody else has.
    fn stop(&mut self, number: u32, segment: &Segment) {
        if let Occupant::Pinned(pin, _) = &self.occupant {
            // First, so that a later life knows of it however this one ends.
            segment.note_held(number, true);
            self.is_held = pin.stop();
            segment.note_held(number, self.is_held);
        }
    }

    /// An earlier life meant to stop the process, and may have died before it did.
    fn stop_again(&self) {
        if let Occupant::Pinned(pin, _) = &self.occupant {
            pin.stop();
        }
    }

    /// Whether the kernel is writing the core of its process.
    fn dumps_core(&self) -> bool {
        let (Occupant::Pinned(pin, _) | Occupant::Launched(pin, _)) = &self.occupant else { return false };
        pin.sample().is_some_and(|sample| pin.dumping(sample).is_some())
    }

    /// Lets the process go on, if it was stopped so.
    fn go_on(&mut self, number: u32, segment: &Segment) {
        let is_held = std::mem::take(&mut self.is_held);
        if let (Occupant::Pinned(pin, count), true) = (&mut self.occupant, is_held) {
            pin.go_on();
            *count = StopCount::default();
            segment.note_held(number, false);
        }
    }
}

/// The process with this number has registered in a slot, and its environment is asked for.
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
    kills: bool,
    /// A process that is stopped before it registers is not at fault.
    starts_stopped: bool,
    /// Nor is a rank that is stopped at any time.
    may_be_stopped: bool,
    /// Ranks that are dead: the number of the process that has registered may be somebody else's by now.
    dead: BTreeSet<u32>,
    /// The ranks are stopped by this watch, which is not their fault.
    holds: bool,
    /// When the whole job was last known to be suspended, which is not their fault either.
    suspended_at: Option<Time>,
    /// The runtime daemon, from which the ranks descend.
    runtime: i32,
    search: Search,
    bell: Bell,
    claims: Inquiries<Claim<Environment>, Claim<Vec<u8>>>,
    /// Asked with the children of the runtime daemon that are known.
    passes: Inquiries<Vec<i32>, Vec<Launched>>,
    never: [Option<i32>; 2],
}

impl Watch {
    /// Watches the slots of a segment. `name_of` tells a rank's namespace and its rank there. `kills`: whether processes
    /// may be killed. `runtime` is the process number of the runtime daemon, which no slot may claim.
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
            look_interval: period.min(LOOK_INTERVAL),
            next_look: Time::ZERO,
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

    /// The ranks are started stopped, for a debugger: until they register that is no fault.
    pub fn let_start_stopped(&mut self) {
        self.starts_stopped = true;
    }

    /// Ranks may be stopped for ever. Whether they are is looked at all the same, as often as for this limit: that the whole
    /// job is suspended concerns others, too.
    pub fn let_be_stopped(&mut self, limit: Duration) {
        self.may_be_stopped = true;
        self.stop_limit = Some(limit);
        self.next_sample = Window::at(Time::ZERO);
    }

    /// These ranks have died before this watch began: the numbers of their processes may be somebody else's by now.
    pub fn doubt(&mut self, dead: impl IntoIterator<Item = u32>) {
        self.dead.extend(dead);
    }

    /// Whether it is still being asked whether a process is a rank.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.occupant, Occupant::Claimed(_)))
    }

    /// Watches the slots that the segment has got since.
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

    /// When [`Watch::look`] has something to do at the latest.
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.next_look.min(self.next_sample.end())
    }

    /// Readable when [`Watch::look`] has something to do before its deadline.
    #[must_use]
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Looks for new registrations and stopped ranks, if it is time to, and for what was asked.
    pub fn look(&mut self, now: Time, segment: &Segment, out: &mut Vec<Sighting>) {
        self.hear(out);
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
            // Its lock may have been told of before there was somebody to look at.
            self.broken(segment, out);
        }
        if self.next_sample.is_open(now) {
            self.sample(now, segment, out);
        }
    }

    /// Takes the answers that have come.
    fn hear(&mut self, out: &mut Vec<Sighting>) {
        while let Some(claim) = self.claims.collect() {
            self.judge(&claim, out);
        }
        while let Some(ranks) = self.passes.collect() {
            self.search.passed(ranks.len());
            for (pin, nspace, rank) in ranks {
                let slot = self.slots.iter_mut().find(|slot| slot.name.1 == rank && slot.name.0 == nspace);
                if let Some(slot) = slot.filter(|slot| matches!(slot.occupant, Occupant::Absent)) {
                    slot.occupant = Occupant::Launched(pin, StopCount::default());
                }
            }
        }
    }

    /// A process that has registered is this rank or not.
    fn judge(&mut self, Claim { index, pid, environment }: &Claim<Vec<u8>>, out: &mut Vec<Sighting>) {
        let slot = &mut self.slots[*index];
        let rank = slot.rank;
        let (Occupant::Claimed(pin) | Occupant::Pinned(pin, _)) = &slot.occupant else { return };
        if pin.pid() != *pid {
            return;
        }
        if !pin.is_rank(environment, &slot.name.0, slot.name.1, self.runtime) {
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

    /// Takes note of a registration.
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
        self.look_for_launched();
        let excused = self.may_be_stopped || self.suspended_at.is_some_and(|at| now.saturating_sub(at) < limit);
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let is_launched = matches!(slot.occupant, Occupant::Launched(..));
            let (Occupant::Pinned(pin, count) | Occupant::Launched(pin, count)) = &mut slot.occupant else { continue };
            let excused = excused || (self.starts_stopped && is_launched);
            let (number, sample) = (slot_number(index), pin.sample());
            if let Some(reason) = sample.filter(|_| !is_launched).and_then(|sample| pin.dumping(sample)) {
                // Without a rank that is in MPI_Init the job ends, which would cut its core off: that is left to be written.
                if matches!(segment.occupant(number).1, Phase::Running | Phase::Finalising) {
                    info!(rank = slot.rank, pid = pin.pid(), %reason, "rank dumps core");
                    out.push(Sighting::Dead(slot.rank, reason));
                    // It ends by itself, and is to be left alone until then.
                    slot.occupant = Occupant::Gone;
                }
                continue;
            }
            let halted = sample.and_then(|sample| pin.halted(sample));
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

    /// Looks for the processes of ranks that have not registered.
    fn look_for_launched(&mut self) {
        let is_absent = |slot: &Slot| matches!(slot.occupant, Occupant::Absent);
        if !self.slots.iter().any(is_absent) {
            return;
        }
        let launching = self.slots.iter().all(is_absent);
        if !self.search.begins(launching) {
            return;
        }
        let pids = self.slots.iter().filter_map(|slot| match &slot.occupant {
            Occupant::Pinned(pin, _) | Occupant::Launched(pin, _) | Occupant::Claimed(pin) => Some(pin.pid()),
            Occupant::Absent | Occupant::Gone => None,
        });
        self.passes.ask(pids.chain(self.never.into_iter().flatten()).collect());
    }

    /// The whole job is suspended: whoever is stopped has the whole limit from now on.
    pub fn excuse(&mut self, now: Time) {
        self.suspended_at = Some(now);
    }

    /// How many ranks of this node have been stopped for `span`, by somebody else, if none is left that could run.
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
                // Whether somebody has stopped it, too, shows when it could go on.
                Occupant::Pinned(pin, _) | Occupant::Launched(pin, _) if pin.cannot_run() => {}
                Occupant::Absent | Occupant::Launched(..) | Occupant::Claimed(_) | Occupant::Pinned(..) => return None,
            }
        }
        (!self.holds).then_some(stopped)
    }

    /// What becomes readable when the process in a slot ends.
    #[must_use]
    pub fn descriptor(&self, slot: u32) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        match &self.slots.get(slot as usize)?.occupant {
            Occupant::Pinned(pin, _) => Some(pin.as_fd()),
            _ => None,
        }
    }

    /// Takes note that the descriptor of a slot became readable.
    pub fn ended(&mut self, slot: u32, segment: &Segment) -> Option<Sighting> {
        let entry = self.slots.get_mut(slot as usize)?;
        let Occupant::Pinned(pin, _) = &entry.occupant else { return None };
        let (pid, reason, phase) = (pin.pid(), pin.end_reason(), segment.occupant(slot).1);
        entry.occupant = Occupant::Gone;
        if phase == Phase::Finalised {
            debug!(rank = entry.rank, pid, "rank has left after MPI_Finalize");
            return None;
        }
        info!(rank = entry.rank, pid, %reason, "rank has ended");
        Some(Sighting::Dead(entry.rank, reason))
    }

    /// Takes note that the process of a rank has ended: one that never registered is no longer awaited.
    pub fn left(&mut self, rank: u32, segment: &Segment) {
        if !self.is_registered(rank, segment) {
            let slot = self.slots.iter_mut().find(|slot| slot.rank == rank && slot.is_awaited());
            let _ = slot.map(|slot| slot.occupant = Occupant::Gone);
        }
    }

    /// Takes note that locks have lost their owners: reports the ranks that are dying, although they have not ended yet.
    pub fn broken(&mut self, segment: &Segment, out: &mut Vec<Sighting>) {
        let kills = self.kills;
        for (index, entry) in self.slots.iter_mut().enumerate() {
            let Occupant::Pinned(pin, _) = &entry.occupant else { continue };
            let slot = slot_number(index);
            if !lifeline::is_broken(segment, slot) || segment.occupant(slot).1 == Phase::Finalised {
                continue;
            }
            if let Some(reason) = pin.fate() {
                info!(rank = entry.rank, pid = pin.pid(), %reason, "rank is ending");
                // Where only the first thread has left with a status, the others would live on.
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

    /// Kills a rank of this node if it still lives and has not finalised; true if it did. Elsewhere does nothing. Nor does it to
    /// one that dumps core, which its user wants to have whole: it does not run any more.
    pub fn fence(&self, rank: u32, segment: &Segment) -> bool {
        let slot = self.slots.iter().enumerate().find(|(_, slot)| slot.rank == rank);
        let may_run = |(index, slot): &(usize, &Slot)| {
            segment.occupant(slot_number(*index)).1 != Phase::Finalised && !slot.dumps_core()
        };
        slot.filter(may_run).is_some_and(|(_, slot)| self.kill(slot))
    }

    /// Stops all processes that are pinned, until [`Watch::release`]. Without fencing nothing is done.
    pub fn hold(&mut self, segment: &Segment) {
        if self.kills && !std::mem::replace(&mut self.holds, true) {
            for (index, slot) in self.slots.iter_mut().enumerate() {
                slot.stop(slot_number(index), segment);
            }
        }
    }

    /// Lets the ranks go on that [`Watch::hold`] has stopped. Whoever is stopped all the same has the whole limit from now on.
    pub fn release(&mut self, now: Time, segment: &Segment) {
        if std::mem::take(&mut self.holds) {
            self.excuse(now);
            for (index, slot) in self.slots.iter_mut().enumerate() {
                slot.go_on(slot_number(index), segment);
            }
        }
    }

    /// A process has been pinned. An earlier `ringwatchd` may have stopped it, and it may be time to stop it now.
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

    /// Kills all ranks of this node that still live, and names them.
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

    /// Whether every rank of this node that `counts` has returned from `MPI_Init`, as far as it would say so. One that died inside
    /// never does: what the others make of it is left to chance by Open MPI, so such a job is ended.
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

    /// Whether this rank of this node has come to the runtime, or as far as `MPI_Init`.
    #[must_use]
    pub fn has_come(&self, rank: u32, segment: &Segment) -> bool {
        segment.slot_of(rank).is_some_and(|slot| segment.occupant(slot).1 != Phase::Unknown)
    }

    /// Whether this rank of this node has left `MPI_Init`.
    #[must_use]
    pub fn has_initialised(&self, rank: u32, segment: &Segment) -> bool {
        segment.slot_of(rank).is_some_and(|slot| segment.occupant(slot).1 >= Phase::Running)
    }

    /// Whether the end of a rank's process will be seen here.
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

    /// Logs who has none of ringwatch's components.
    pub fn log_unserved(&self, segment: &Segment) {
        let unserved = (0..segment.slots()).filter(|slot| segment.occupant(*slot).1 == Phase::Unserved);
        let ranks: Vec<u32> = unserved.map(|slot| segment.rank(slot)).collect();
        if !ranks.is_empty() {
            warn!(
                ?ranks,
                "without ringwatch's components; they hear of deaths by PMIx events, some milliseconds later"
            );
        }
    }

    /// Logs which defaults of Open MPI the ranks of this node have changed since the last time.
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

    /// Whether a rank of this node that has not finalised is alive, as far as is known.
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

/// From now on the process in a slot is watched.
fn pin_down(slot: &mut Slot, index: usize, pin: Pin, out: &mut Vec<Sighting>) {
    debug!(rank = slot.rank, pid = pin.pid(), "rank is watched");
    slot.occupant = Occupant::Pinned(pin, StopCount::default());
    out.push(Sighting::Pinned(slot_number(index)));
}

fn slot_number(index: usize) -> u32 {
    u32::try_from(index).expect("a segment numbers its slots with 32 bits")
}

//! The operations of one uniform communicator, in the order in which all of its members have them, of both groups if it has two.
//!
//! Members agree on operations that have ended for them, one agreement at a time. Each of them takes part in the next
//! agreement as soon as its first operation that is not agreed on has ended; that comes for every member, so all take part
//! in the same agreements. The first in which somebody has seen a death ends the communicator: the operations that are not
//! agreed on by then, and all that follow, fail at every member, without further agreement. A blocking operation needs none
//! as long as nobody dies: its members [confirm](Line::confirm) it if they are one group, and whoever has failed in that agrees.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::handles::Communicator;
use crate::internals::{Internals, SLOTS};
use crate::objects::Object;
use crate::requests::Request;
use crate::statement::{
    About, ERR_INTERN, ERR_OTHER, ERR_PROC_FAILED, Standing, Statement, Verdict, standing_of, statement, verdict,
};
use crate::{agreements, communicators, detached, members, numbers};

/// Most operations that are confirmed between two agreements, which count them in a `c_int`.
const MOST: c_int = 1 << 30;

/// Operations that are queued in all lines.
static QUEUED: AtomicUsize = AtomicUsize::new(0);

/// The operations of a communicator.
pub struct Line {
    comm: usize,
    rank: c_int,
    size: c_int,
    has_two_groups: bool,
    /// The first rank in the shadow of this process's group, and of the other one.
    first_ranks: [c_int; 2],
    /// See [`shadows`](crate::shadows).
    shadow: usize,
    agreements: usize,
    stock: [usize; SLOTS],
    /// All members were started at once, and so end MPI at once: whoever has left is there for the others until then.
    is_of_one_job: bool,
    saw_death: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A stock function is being called: what it calls in its turn is a part of it.
    inside: bool,
    /// Operations that were confirmed since the last agreement; the same for all members where the next begins.
    confirmed: c_int,
    /// Operations that are not agreed on.
    queue: VecDeque<Operation>,
    agreeing: Option<Agreement>,
    /// There has been an agreement.
    has_agreed: bool,
    /// This member has begun the last one, and no operation since.
    has_left: bool,
    /// The class with which all further operations end.
    ended: Option<c_int>,
    /// The communicator is freed.
    closed: bool,
}

/// An operation.
pub struct Operation {
    /// What it returned by itself.
    pub code: c_int,
    /// Its own request, as long as that has not ended.
    pub own: Option<*mut Request>,
    pub own_is_persistent: bool,
    /// This member has told the others that it was successful here.
    pub is_confirmed: bool,
    pub told: Told,
    pub about: About,
}

/// Who gets the result.
pub enum Told {
    Nobody,
    Caller(Arc<AtomicI32>),
    Request(*mut Request),
}

struct Agreement {
    request: *mut Request,
    statement: Box<Statement>,
}

/// How an operation begins.
pub enum Begin {
    /// As a part of one that has begun.
    Nested,
    /// Not at all, because it cannot succeed.
    Cut,
    Now,
}

// SAFETY: requests are used under the lock of their line only, by whichever thread drives progress.
unsafe impl Send for Operation {}
// SAFETY: as above.
unsafe impl Send for Agreement {}

/// Locks, whatever happened to a thread that held it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whether an operation of any communicator waits to be agreed on.
pub fn is_anything_queued() -> bool {
    QUEUED.load(Ordering::Relaxed) != 0
}

impl Line {
    /// For a communicator that has its collectives; `None` if there is no memory.
    pub fn new(mpi: &Internals, comm: Object) -> Option<Self> {
        // SAFETY: the communicator lives and has its collectives.
        let (shadow, agreements, stock, sides) = unsafe {
            let (shadow, agreements) = mpi.shadows.new_for(comm)?;
            // Those whom Open MPI has not met, too.
            members::processes(shadow);
            let slots = mpi.table(comm);
            let stock = std::array::from_fn(|slot| slots[slot].function as usize);
            (shadow as usize, agreements as usize, stock, members::of(comm).unwrap_or_default())
        };
        let is_of_one_job =
            sides.first().is_some_and(|own| sides.iter().flatten().all(|name| name.has_same_job(own[0])));
        // SAFETY: as above.
        let saw_death = AtomicBool::new(unsafe { mpi.has_dead_on_any_side(comm) });
        let behind = |side: usize| sides.get(side).map_or(0, |side| c_int::try_from(side.len()).unwrap_or(0));
        let first_ranks = if members::is_in_first(&sides) { [0, behind(0)] } else { [behind(1), 0] };
        Some(Self {
            comm: comm as usize,
            rank: mpi.rank_in(comm),
            size: mpi.size_of(comm),
            has_two_groups: sides.len() == 2,
            first_ranks,
            shadow,
            agreements,
            stock,
            is_of_one_job,
            saw_death,
            state: Mutex::default(),
        })
    }

    /// See [`shadows`](crate::shadows).
    pub fn shadow(&self) -> Object {
        self.shadow as Object
    }

    /// The rank in the shadow of a member of this process's group, or of the other one.
    pub fn rank_in_shadow(&self, rank: c_int, is_of_other: bool) -> c_int {
        self.first_ranks[usize::from(is_of_other)] + rank
    }

    /// The communicator.
    pub fn comm(&self) -> Object {
        self.comm as Object
    }

    /// Whether it has two groups.
    pub fn has_two_groups(&self) -> bool {
        self.has_two_groups
    }

    /// The functions that Open MPI chose for the communicator.
    pub fn stock(&self) -> [Object; SLOTS] {
        self.stock.map(|address| address as Object)
    }

    /// One of them.
    pub fn stock_function(&self, slot: usize) -> Object {
        self.stock[slot] as Object
    }

    /// A member is dead.
    pub fn see_death(&self) {
        self.saw_death.store(true, Ordering::Release);
    }

    /// Whether blocking operations are confirmed; otherwise all agree on each of them. Two groups have no ring; and of several jobs
    /// one may have ended MPI by the time somebody who was interrupted needs an agreement with those who have gone on.
    fn confirms(&self) -> bool {
        !self.has_two_groups && self.is_of_one_job
    }

    /// Whether nobody waits for an operation.
    pub fn is_idle(&self) -> bool {
        lock(&self.state).queue.iter().all(|operation| matches!(operation.told, Told::Nobody))
    }

    /// All members free the communicator, or end MPI, and have no further operation in it. Whoever was interrupted where this one
    /// has gone on needs it for an agreement, so all who have used it take part in a last one, on nothing. Nobody has gone on where
    /// all operations are agreed on.
    pub fn take_leave(&self, mpi: &Internals) {
        let is_awaited = self.confirms() && {
            let mut state = lock(&self.state);
            let is_used = state.confirmed > 0 || state.has_agreed;
            state.ended.is_none() && is_used && !std::mem::replace(&mut state.has_left, true)
        };
        if is_awaited && self.standing(mpi) == Standing::Sound {
            self.queue(Operation { code: 0, ..Operation::cut(Told::Nobody) });
        }
    }

    /// The communicator is being freed. Others may have agreed to the next operation as failed; so does this member if it
    /// knows why, while MPI `runs`. An agreement that is under way goes on by itself.
    pub fn close(&self, mpi: &Internals, runs: bool) {
        let mut state = lock(&self.state);
        if runs && state.agreeing.is_none() {
            self.step(mpi, &mut state);
        }
        state.closed = true;
        QUEUED.fetch_sub(std::mem::take(&mut state.queue).len(), Ordering::Relaxed);
        let shadow = (self.shadow(), self.agreements as Object);
        // SAFETY: no other agreement will be started there.
        unsafe {
            match state.agreeing.take() {
                Some(agreement) => detached::take_over(shadow, agreement.request, agreement.statement),
                None => {
                    agreements::forget(self.shadow());
                    mpi.shadows.free(&mpi.classes, shadow.0, shadow.1);
                }
            }
        }
    }

    fn standing(&self, mpi: &Internals) -> Standing {
        // SAFETY: called for lines that are not closed, so the communicator is not freed.
        let (is_revoked, has_no_collectives) =
            unsafe { (mpi.is_revoked(self.comm as Object), mpi.has_no_collectives(self.comm as Object)) };
        if is_revoked {
            Standing::Revoked
        } else if has_no_collectives || self.saw_death.load(Ordering::Acquire) {
            // Of the own side of two groups nobody may be dead, but of the other one.
            Standing::Damaged
        } else {
            Standing::Sound
        }
    }

    /// The next operation begins; after [`Begin::Now`] it has to [`end`](Self::end).
    pub fn begin(&self, mpi: &Internals) -> Begin {
        let mut state = lock(&self.state);
        if state.inside {
            Begin::Nested
        } else if state.ended.is_some() || self.standing(mpi) != Standing::Sound {
            Begin::Cut
        } else {
            state.inside = true;
            Begin::Now
        }
    }

    /// The operation that has begun waits for those before it, so that all its members confirm it, or none does. Returns whether
    /// it may succeed.
    pub fn drain(&self, mpi: &Internals) -> bool {
        loop {
            {
                let state = lock(&self.state);
                if state.queue.is_empty() {
                    return state.ended.is_none();
                }
            }
            self.advance(mpi);
            mpi.progress();
        }
    }

    /// The members tell each other whether an operation that has begun has been successful. True if all have said so and
    /// nothing is known against it: then the operation is over, and nobody can come to another conclusion. Otherwise it has to
    /// be agreed on.
    pub fn confirm(&self, mpi: &Internals, operation: &mut Operation) -> bool {
        if !self.confirms() || self.standing(mpi) != Standing::Sound || lock(&self.state).confirmed == MOST {
            return false;
        }
        operation.is_confirmed = operation.code == 0;
        // SAFETY: the communicator lives, and all members confirm the same operations.
        let all = unsafe {
            mpi.confirmations.all_are_well(operation.is_confirmed, self.comm as Object, self.rank, self.size)
        };
        match all {
            Ok(all) => {
                let is_over = all && self.standing(mpi) == Standing::Sound;
                let mut state = lock(&self.state);
                state.confirmed += c_int::from(is_over);
                state.has_left = false;
                is_over
            }
            Err(code) => {
                operation.code = code;
                if standing_of(code) == Standing::Sound {
                    // Those who have heard from all do not know that this member has not.
                    communicators::revoke(Communicator::from_handle(self.comm as Object));
                }
                false
            }
        }
    }

    /// No operation begins before this ends, and nothing is agreed on.
    pub fn hold(&self) {
        lock(&self.state).inside = true;
    }

    /// The stock function has returned, or nothing is held up any more.
    pub fn end(&self) {
        lock(&self.state).inside = false;
    }

    /// The operation that has begun, or could not, waits for its agreement.
    pub fn append(&self, operation: Operation) {
        lock(&self.state).has_left = false;
        self.queue(operation);
    }

    fn queue(&self, operation: Operation) {
        QUEUED.fetch_add(1, Ordering::Relaxed);
        lock(&self.state).queue.push_back(operation);
    }

    /// Does what can be done without waiting. Does nothing when another thread, or this one further up, does it.
    pub fn advance(&self, mpi: &Internals) {
        let Ok(mut state) = self.state.try_lock() else { return };
        if state.closed {
            return;
        }
        while self.step(mpi, &mut state) {}
    }

    /// One step; false if there is none.
    fn step(&self, mpi: &Internals, state: &mut State) -> bool {
        if let Some(agreement) = &state.agreeing {
            // SAFETY: the request is given back only here.
            let verdict = unsafe {
                if !Request::is_complete(agreement.request) {
                    return false;
                }
                let status = Request::code(agreement.request);
                Request::give_back(agreement.request);
                verdict(*agreement.statement, state.confirmed, if state.is_word() { 0 } else { status })
            };
            state.agreeing = None;
            state.apply(mpi, verdict);
            return true;
        }
        if let Some(class) = state.ended {
            return state.queue.front_mut().is_some_and(Operation::has_ended) && state.conclude(mpi, class);
        }
        let standing = self.standing(mpi);
        // Without an operation nothing but the standing is said.
        let about = state.queue.front().map_or(About::Members, |first| first.about);
        let of_kind = state.queue.iter_mut().take_while(|operation| operation.about == about);
        let codes: Vec<_> = of_kind.map_while(|operation| operation.has_ended().then_some(operation.code)).collect();
        // Where the next operation cannot succeed, and none is under way, the others may be waiting in it: Open MPI
        // refuses it here before this module hears of it.
        let is_cut = standing != Standing::Sound && state.queue.is_empty() && !state.inside;
        if codes.is_empty() && !is_cut {
            return false;
        }
        let is_confirmed = state.queue.front().is_some_and(|first| first.is_confirmed);
        let confirmed = state.confirmed + c_int::from(is_confirmed);
        let mut statement = Box::new(statement(about, confirmed, &codes, standing));
        state.has_agreed = true;
        // SAFETY: the statement stays in its box until the request has completed, or for ever.
        match unsafe { mpi.shadows.agree(&mut *statement, self.shadow(), self.agreements as Object) } {
            Ok(request) => state.agreeing = Some(Agreement { request, statement }),
            Err(_) => state.apply(mpi, Verdict::End { succeeded: 0, class: ERR_INTERN }),
        }
        true
    }
}

impl State {
    /// The members agree, or are about to, on what another group has said. The operation is the only one then.
    fn is_word(&self) -> bool {
        self.queue.front().is_some_and(|operation| operation.about == About::Word)
    }

    fn apply(&mut self, mpi: &Internals, verdict: Verdict) {
        self.confirmed = 0;
        let (Verdict::Go { succeeded, .. } | Verdict::End { succeeded, .. }) = verdict;
        for _ in 0..succeeded {
            self.conclude(mpi, 0);
        }
        match verdict {
            Verdict::End { class, .. } => {
                // Of a failure that others may have seen, and this process not yet.
                numbers::keep();
                self.ended = Some(class);
            }
            Verdict::Go { flawed, class, .. } => {
                if class.is_some() {
                    numbers::keep();
                }
                if flawed {
                    let own = self.queue.front().map(|operation| operation.code).filter(|code| *code != 0);
                    self.conclude(mpi, class.or(own).unwrap_or(ERR_OTHER));
                }
            }
        }
    }

    /// The first operation ends with this code for all. Returns true.
    fn conclude(&mut self, mpi: &Internals, code: c_int) -> bool {
        let Some(first) = self.queue.pop_front() else { return true };
        QUEUED.fetch_sub(1, Ordering::Relaxed);
        match first.told {
            Told::Nobody => {}
            Told::Caller(place) => place.store(code, Ordering::Release),
            Told::Request(request) => {
                // SAFETY: an active request of this library.
                unsafe { mpi.requests.complete(request, code) };
                if code != 0 {
                    mpi.turn.give_back(&mpi.shadows);
                }
            }
        }
        true
    }
}

impl Operation {
    /// One that is not begun, because it cannot succeed.
    pub fn cut(told: Told) -> Self {
        Self {
            code: ERR_PROC_FAILED,
            own: None,
            own_is_persistent: false,
            is_confirmed: false,
            told,
            about: About::Members,
        }
    }

    /// Whether it has ended by itself.
    fn has_ended(&mut self) -> bool {
        let Some(own) = self.own else { return true };
        // SAFETY: the request is given back only here, unless it is persistent.
        unsafe {
            if !Request::is_complete(own) {
                return false;
            }
            self.code = Request::code(own);
            if !self.own_is_persistent {
                Request::give_back(own);
            }
        }
        self.own = None;
        true
    }
}

//! Queues the collective operations of one uniform communicator until the members agree on their outcome.
//!
//! All members of a communicator call its collective operations in the same order, with an intercommunicator in both
//! groups. Each member keeps the operations that have ended locally in this queue.
//!
//! | step | what happens |
//! |---|---|
//! | confirm | Members of an intracommunicator notify each other that a blocking operation has succeeded ([`Line::confirm`]). A member that has heard from all needs no agreement. |
//! | agree | A member that has failed, or lacks a notification, starts an agreement. Each other member takes part as soon as its first operation without a result has ended. So all members take part in the same agreements. One agreement is under way at a time. |
//! | end | The first agreement in which a member knows of a death ends the communicator. Operations without a result then fail at every member. So do all later operations, without a further agreement. |

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::agreement::vote::{About, Standing, Statement, Verdict, standing_of, statement, verdict};
use crate::agreement::{background, era_guard, shadow_comm};
use crate::cid::{cid_hold, cid_turn};
use crate::failure::error_class;
use crate::properties::communicators;
use crate::uniform::dissemination;
use openmpi_internals::comm_api::Communicator;
use openmpi_internals::communicator::{Internals, SLOTS};
use openmpi_internals::error_class::{ERR_INTERN, ERR_OTHER, ERR_PROC_FAILED};
use openmpi_internals::group;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;

/// Maximum number of operations confirmed between two agreements; the agreements count them in a `c_int`.
const MOST: c_int = 1 << 30;

/// Number of queued operations of all communicators.
static QUEUED: AtomicUsize = AtomicUsize::new(0);

/// The operations of a communicator.
pub struct Line {
    comm: usize,
    rank: c_int,
    size: c_int,
    has_two_groups: bool,
    /// The first rank in the shadow of this process's group, and of the other group.
    first_ranks: [c_int; 2],
    /// See [`shadow_comm`](crate::agreement::shadow_comm).
    shadow: usize,
    agreements: usize,
    stock: [usize; SLOTS],
    /// All members were started together, and so finalise MPI together: a member that has left an operation stays
    /// reachable until then.
    is_of_one_job: bool,
    /// A member of either group is dead.
    has_dead_member: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A stock function is running; operations that it calls are part of it.
    inside: bool,
    /// Operations confirmed since the last agreement; equal at all members when the next agreement begins.
    confirmed: c_int,
    /// Operations without an agreed result.
    queue: VecDeque<Operation>,
    agreeing: Option<Agreement>,
    /// Whether there has been an agreement.
    has_agreed: bool,
    /// This member has begun the final agreement, and no operation since.
    has_left: bool,
    /// The class with which all further operations end.
    ended: Option<c_int>,
    /// The communicator is freed.
    closed: bool,
}

/// An operation.
pub struct Operation {
    /// The code that it returned locally.
    pub code: c_int,
    /// Open MPI's request, until that has ended.
    pub own: Option<*mut Request>,
    pub own_is_persistent: bool,
    /// This member has notified the others that it succeeded locally.
    pub is_confirmed: bool,
    pub told: Told,
    pub about: About,
}

/// The receiver of the result.
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
    /// As part of a running operation.
    Nested,
    /// Not at all, because it cannot succeed.
    Cut,
    Now,
}

// SAFETY: requests are used only under their queue's lock, by whichever thread drives progress.
unsafe impl Send for Operation {}
// SAFETY: as above.
unsafe impl Send for Agreement {}

/// Whether an operation of any communicator waits for an agreement.
pub fn is_anything_queued() -> bool {
    QUEUED.load(Ordering::Relaxed) != 0
}

impl Line {
    /// For a communicator that has its collectives; `None` if memory is exhausted.
    pub fn new(mpi: &Internals, comm: Object) -> Option<Self> {
        // SAFETY: the communicator is live and has its collectives.
        let (shadow, agreements, stock, sides) = unsafe {
            let (shadow, agreements) = shadow_comm::new_for(comm)?;
            // This resolves members that Open MPI has not resolved yet.
            group::processes(shadow);
            let slots = mpi.table(comm);
            let stock = std::array::from_fn(|slot| slots[slot].function as usize);
            (shadow as usize, agreements as usize, stock, group::of(comm).unwrap_or_default())
        };
        let is_of_one_job =
            sides.first().is_some_and(|own| sides.iter().flatten().all(|name| name.has_same_job(own[0])));
        // SAFETY: as above.
        let has_dead_member = AtomicBool::new(unsafe { mpi.has_dead_on_any_side(comm) });
        let behind = |side: usize| sides.get(side).map_or(0, |side| c_int::try_from(side.len()).unwrap_or(0));
        let first_ranks = if group::is_in_first(&sides) { [0, behind(0)] } else { [behind(1), 0] };
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
            has_dead_member,
            state: Mutex::default(),
        })
    }

    /// See [`shadow_comm`](crate::agreement::shadow_comm).
    pub fn shadow(&self) -> Object {
        self.shadow as Object
    }

    /// The rank in the shadow of a member of this process's group, or of the other group.
    pub fn rank_in_shadow(&self, rank: c_int, is_of_other: bool) -> c_int {
        self.first_ranks[usize::from(is_of_other)] + rank
    }

    /// The communicator.
    pub fn comm(&self) -> Object {
        self.comm as Object
    }

    /// Whether it is an intercommunicator.
    pub fn has_two_groups(&self) -> bool {
        self.has_two_groups
    }

    /// The functions that Open MPI chose for the communicator.
    pub fn stock(&self) -> [Object; SLOTS] {
        self.stock.map(|address| address as Object)
    }

    /// The function that Open MPI chose for a slot.
    pub fn stock_function(&self, slot: usize) -> Object {
        self.stock[slot] as Object
    }

    /// Notes that a member is dead.
    pub fn note_dead_member(&self) {
        self.has_dead_member.store(true, Ordering::Release);
    }

    /// Whether blocking operations are confirmed; otherwise each is agreed on. Intercommunicators have no
    /// dissemination. Of several jobs one may have finalised MPI when an interrupted member needs an agreement with
    /// members that have continued.
    fn confirms(&self) -> bool {
        !self.has_two_groups && self.is_of_one_job
    }

    /// Whether no caller waits for an operation.
    pub fn is_idle(&self) -> bool {
        lock(&self.state).queue.iter().all(|operation| matches!(operation.told, Told::Nobody))
    }

    /// Takes part in a final agreement without an operation, when all members free the communicator or finalise MPI. An
    /// interrupted member needs it if this one has continued. All members that have used the communicator take part. It
    /// is not needed if all operations are agreed on, because no member has continued then.
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

    /// Closes the queue when the communicator is freed. Other members may have agreed that the next operation fails;
    /// this member takes part if it knows the reason, while MPI `runs`. An agreement under way continues in the
    /// background.
    pub fn close(&self, mpi: &Internals, runs: bool) {
        let mut state = lock(&self.state);
        if runs && state.agreeing.is_none() {
            self.step(mpi, &mut state);
        }
        state.closed = true;
        QUEUED.fetch_sub(std::mem::take(&mut state.queue).len(), Ordering::Relaxed);
        let shadow = (self.shadow(), self.agreements as Object);
        // SAFETY: no other agreement begins on them.
        unsafe {
            match state.agreeing.take() {
                Some(agreement) => background::take_over(shadow, agreement.request, agreement.statement),
                None => {
                    era_guard::forget(self.shadow());
                    shadow_comm::free(mpi, shadow.0, shadow.1);
                }
            }
        }
    }

    fn standing(&self, mpi: &Internals) -> Standing {
        // SAFETY: called for open queues, so the communicator is not freed.
        unsafe {
            // The second flag is also set by a death in the other group.
            let is_damaged = || mpi.has_no_collectives(self.comm()) || self.has_dead_member.load(Ordering::Acquire);
            error_class::of_refusal(mpi, self.comm(), is_damaged).map_or(Standing::Sound, standing_of)
        }
    }

    /// Begins the next operation; after [`Begin::Now`] the caller calls [`end`](Self::end).
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

    /// Waits until earlier operations have results, so that all members confirm the begun operation or none does.
    /// Returns whether it may succeed.
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

    /// Exchanges with the other members whether the begun operation has succeeded. True if all have said so and no
    /// failure is known: the operation has its result, and every member reaches the same one. Otherwise the members
    /// have to agree on it.
    pub fn confirm(&self, mpi: &Internals, operation: &mut Operation) -> bool {
        if !self.confirms() || self.standing(mpi) != Standing::Sound || lock(&self.state).confirmed == MOST {
            return false;
        }
        operation.is_confirmed = operation.code == 0;
        // SAFETY: the communicator is live, and all members confirm the same operations.
        let all =
            unsafe { dissemination::all_are_well(operation.is_confirmed, self.comm as Object, self.rank, self.size) };
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
                    // Members that have heard from all do not know that this one has not.
                    communicators::revoke(Communicator::from_handle(self.comm as Object));
                }
                false
            }
        }
    }

    /// Prevents operations and agreements until [`end`](Self::end).
    pub fn hold(&self) {
        lock(&self.state).inside = true;
    }

    /// Ends an operation's stock function, or a [`hold`](Self::hold).
    pub fn end(&self) {
        lock(&self.state).inside = false;
    }

    /// Queues an operation for its agreement.
    pub fn append(&self, operation: Operation) {
        lock(&self.state).has_left = false;
        self.queue(operation);
    }

    fn queue(&self, operation: Operation) {
        QUEUED.fetch_add(1, Ordering::Relaxed);
        lock(&self.state).queue.push_back(operation);
    }

    /// Does all steps that do not wait. Does nothing if another thread, or this one further up the stack, does so
    /// already.
    pub fn advance(&self, mpi: &Internals) {
        let Ok(mut state) = self.state.try_lock() else { return };
        if state.closed {
            return;
        }
        while self.step(mpi, &mut state) {}
    }

    /// Does one step; false if there is none.
    fn step(&self, mpi: &Internals, state: &mut State) -> bool {
        if let Some(agreement) = &state.agreeing {
            // SAFETY: only this code releases the request.
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
        // Without an operation the statement contains only the standing.
        let about = state.queue.front().map_or(About::Members, |first| first.about);
        let of_kind = state.queue.iter_mut().take_while(|operation| operation.about == about);
        let codes: Vec<_> = of_kind.map_while(|operation| operation.has_ended().then_some(operation.code)).collect();
        // If the next operation cannot succeed and none is under way, other members may wait in it: Open MPI refuses it
        // here before this module sees it.
        let is_cut = standing != Standing::Sound && state.queue.is_empty() && !state.inside;
        if codes.is_empty() && !is_cut {
            return false;
        }
        let is_confirmed = state.queue.front().is_some_and(|first| first.is_confirmed);
        let confirmed = state.confirmed + c_int::from(is_confirmed);
        let mut statement = Box::new(statement(about, confirmed, &codes, standing));
        state.has_agreed = true;
        // SAFETY: the statement stays in its box until the request completes, or is leaked.
        match unsafe { shadow_comm::agree(&mut *statement, self.shadow(), self.agreements as Object) } {
            Ok(request) => state.agreeing = Some(Agreement { request, statement }),
            Err(_) => state.apply(mpi, Verdict::End { succeeded: 0, class: ERR_INTERN }),
        }
        true
    }
}

impl State {
    /// Whether the members agree on another group's answer, or are about to. It is then the only operation.
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
                // Another member may have seen a failure that this process has not seen yet.
                cid_hold::keep();
                self.ended = Some(class);
            }
            Verdict::Go { flawed, class, .. } => {
                if class.is_some() {
                    cid_hold::keep();
                }
                if flawed {
                    let own = self.queue.front().map(|operation| operation.code).filter(|code| *code != 0);
                    self.conclude(mpi, class.or(own).unwrap_or(ERR_OTHER));
                }
            }
        }
    }

    /// Ends the first operation with this code, which all members share. Returns true.
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
                    cid_turn::give_back();
                }
            }
        }
        true
    }
}

impl Operation {
    /// An operation that does not begin, because it cannot succeed.
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

    /// Whether it has ended locally.
    fn has_ended(&mut self) -> bool {
        let Some(own) = self.own else { return true };
        // SAFETY: only this code releases the request, unless it is persistent.
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

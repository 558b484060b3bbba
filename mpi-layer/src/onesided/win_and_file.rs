//! Makes windows and files so that all members get one or none does.
//!
//! Open MPI makes them from communicators: from a duplicate of the program's, and from others that it splits off the
//! duplicate. With ringwatch the duplicate is made from a private copy.
//! * The copy has scope group, so a death interrupts members that wait in the constructor.
//! * Any member revokes the copy when the program's communicator is revoked: otherwise members would wait in the copy
//!   for one that leaves because of the revocation.
//! * At the end all members agree on the result, if the program's communicator is uniform.
//!
//! Open MPI 5.0's `osc/rdma` crashes if its duplicate fails (osc_rdma_module.c:47 and 105). So ringwatch lets neither
//! the copy nor its duplicate fail: if the members cannot agree on its context id, it gets the one that this process
//! has proposed, and fails all collective operations. No message is sent in it.
//!
//! Any thread that drives progress may call the collectives and choose the context ids. So ringwatch finds the state of
//! a construction by its communicators, not by the thread.
//!
//! The communicators of a failed construction stay until the end, with their context ids, because messages may still
//! arrive in them ([`cid_hold`](crate::cid::cid_hold)). A member gets a context id only after all others have proposed
//! or accepted it. So it is held wherever messages with it can arrive.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem::transmute;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::agreement::vote::About;
use crate::cid::cid_hold;
use crate::failure::error_class;
use crate::in_front::{guard, in_front};
use crate::onesided::unwind;
use crate::properties::communicators::{self, Part};
use crate::properties::error_scope::Scope;
use crate::properties::error_uniformity::Uniformity;
use crate::properties::info_property::{SCOPE, UNIFORMITY};
use crate::uniform::operations;
use openmpi_internals::classes::Classes;
use openmpi_internals::comm_api::Communicator;
use openmpi_internals::communicator::{ALLREDUCE, Internals, NONBLOCKING};
use openmpi_internals::error_class::{ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use openmpi_internals::layout::mpi::MPI_IN_PLACE;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;

/// Constructions in progress.
static UNDER_WAY: Mutex<Vec<Construction>> = Mutex::new(Vec::new());

thread_local! {
    /// The first of [`Construction::bases`] of this thread's construction, or null.
    static MINE: Cell<usize> = const { Cell::new(0) };
}

/// Communicators that are being copied, each with the copy once that has its context id.
static COPIES: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

#[derive(Default)]
struct Construction {
    /// The program's communicator, and its copy once that exists.
    comm: usize,
    copy: Option<Part>,
    /// The parents of new communicators: the copy or the program's communicator, and communicators made from it. Each
    /// is paired with the function that [`iallreduce`] replaces.
    bases: Vec<(usize, usize)>,
    /// The communicator that has its context id and is about to get its collectives.
    present: usize,
    /// Communicators made so far, and those of them whose context id all members share.
    made: Vec<Communicator>,
    parts: Vec<Part>,
    /// A member has died, or the program's communicator was revoked.
    struck: bool,
    /// The members could not agree on the present communicator's context id.
    alone: bool,
    /// That agreement has ended.
    has_context_id: bool,
}

impl Construction {
    /// Adds a parent of new communicators. It has its collectives.
    fn base_on(&mut self, mpi: &Internals, comm: Object) {
        // SAFETY: a live communicator with its collectives.
        let slot = unsafe { &mut mpi.table(comm)[NONBLOCKING + ALLREDUCE] };
        self.bases.push((comm as usize, slot.function as usize));
        slot.function = iallreduce as Object;
    }

    fn is_of(&self, comm: usize) -> bool {
        self.bases.first().is_some_and(|base| base.0 == comm)
    }

    fn is_made_of(&self, comm: usize) -> bool {
        self.bases.iter().any(|base| base.0 == comm)
    }

    fn depends_on(&self, comm: usize) -> bool {
        self.comm == comm || self.is_of(comm)
    }

    /// Marks the construction as failed. Returns the communicators in which members may wait.
    fn strike(&mut self) -> Vec<Part> {
        self.struck = true;
        self.copy.iter().chain(&self.parts).copied().collect()
    }
}

/// Whether activations are interposed, so that a new communicator's parent is known.
static SEES_ACTIVATIONS: AtomicBool = AtomicBool::new(false);

/// Notes that activations are interposed.
pub fn activations_are_seen() {
    SEES_ACTIVATIONS.store(true, Ordering::Release);
}

/// Whether this thread can begin a construction, and is not inside one.
pub fn is_possible() -> bool {
    MINE.get() == 0 && SEES_ACTIVATIONS.load(Ordering::Acquire) && Internals::fitting().is_some()
}

/// Whether this thread is inside a construction.
pub fn is_under_way() -> bool {
    MINE.get() != 0
}

/// Copies a communicator by a blocking call. The members agree on nothing in it, since not all may use their copy.
pub fn copying<T>(comm: Object, make: impl FnOnce() -> T) -> T {
    lock(&COPIES).push((comm as usize, 0));
    let made = make();
    lock(&COPIES).retain(|copy| copy.0 != comm as usize);
    made
}

/// Runs `make`, which activates a communicator that has its context id: the child of another one, made by a blocking
/// call.
pub fn activating<T>(made: Object, comm: Object, make: impl FnOnce() -> T) -> T {
    let (made, comm) = (made as usize, comm as usize);
    lock(&COPIES).iter_mut().filter(|copy| **copy == (comm, 0)).for_each(|copy| copy.1 = made);
    lock(&UNDER_WAY).iter_mut().filter(|one| one.is_made_of(comm)).for_each(|one| one.present = made);
    let result = make();
    lock(&UNDER_WAY).iter_mut().filter(|one| one.present == made).for_each(|one| one.present = 0);
    result
}

/// Whether a communicator is such a copy.
pub fn is_copy(comm: Object) -> bool {
    lock(&COPIES).iter().any(|copy| copy.1 == comm as usize)
}

/// Makes a window or a file through `make`, which gets the parent communicator. Returns the code, on which the members
/// have agreed if `comm` is uniform, and the communicators of the result. `undo` removes a result that not all members
/// have.
pub fn run(comm: Object, make: impl FnOnce(Object) -> c_int, undo: impl FnOnce()) -> (c_int, Vec<Part>) {
    let Some(mpi) = Internals::fitting().filter(|_| is_possible()) else { return (make(comm), Vec::new()) };
    let (mut own, mut parts, mut made) = (ERR_PROC_FAILED, Vec::new(), Vec::new());
    let code = operations::agree_on(comm, About::Members, || {
        own = match (make_of_copy(mpi, comm, make, &mut parts, &mut made), damage(mpi, comm)) {
            // Other members may have failed, and must not be waited for in it.
            (0, Some(ERR_REVOKED)) => {
                parts.iter().for_each(Part::revoke);
                0
            }
            (0, _) => 0,
            // Any error: for example, a file that the dead process was to create.
            (_, Some(class)) => class,
            // A member that knows more has revoked the copy: of a death, or of a revocation of `comm` by its scope.
            (ERR_REVOKED, None) if Scope::from_value(communicators::values(comm)[SCOPE]) == Scope::Local => {
                ERR_PROC_FAILED
            }
            (code, None) => code,
        };
        own
    });
    if own == 0 && code != 0 {
        parts.iter().for_each(Part::revoke);
        undo();
    }
    if code == 0 && damage(mpi, comm).is_none() {
        // SAFETY: each is held since it was made.
        made.iter().for_each(|one| unsafe { mpi.classes.release(one.handle()) });
    }
    (code, if code == 0 { parts } else { Vec::new() })
}

fn make_of_copy(
    mpi: &Internals,
    comm: Object,
    make: impl FnOnce(Object) -> c_int,
    parts: &mut Vec<Part>,
    made: &mut Vec<Communicator>,
) -> c_int {
    if let Some(class) = damage(mpi, comm) {
        return class;
    }
    let (copy, first) = make_of_base(mpi, comm, None, || copying(comm, || mpi.duplicate(comm)));
    *made = first.made;
    let (copy, part) = match (copy, first.parts.first()) {
        (Ok(copy), Some(part)) => (copy, *part),
        (Ok(_), None) => return damage(mpi, comm).unwrap_or(ERR_PROC_FAILED),
        (Err(code), _) => return code,
    };
    communicators::bequeath(copy, SCOPE, Scope::Group.value());
    communicators::bequeath(copy, UNIFORMITY, Uniformity::Local.value());
    let (code, second) = make_of_base(mpi, comm, Some(part), || make(copy));
    mpi.free(copy);
    made.extend(second.made);
    let is_made_of_some = !second.parts.is_empty();
    *parts = second.parts;
    // Communicators that Open MPI has freed are held here only.
    // SAFETY: each is held since it was made.
    parts.retain(|part| unsafe { cid_hold::has_others(part.comm.handle()) });
    // A member that finds the shared memory removed dismantles the window and reports success (osc_sm_component.c:336).
    if code == 0 && is_made_of_some && parts.is_empty() { ERR_INTERN } else { code }
}

/// The class with which operations on a communicator fail, if they cannot succeed.
pub fn damage(mpi: &Internals, comm: Object) -> Option<c_int> {
    // SAFETY: a live communicator, in an Open MPI of the known layout.
    unsafe { error_class::of_refusal(mpi, comm, || mpi.has_dead_members(comm)) }
}

/// Makes an object from a communicator with its collectives, or from its copy; returns the communicators made
/// meanwhile, too.
fn make_of_base<T>(mpi: &Internals, comm: Object, copy: Option<Part>, make: impl FnOnce() -> T) -> (T, Construction) {
    let base = copy.map_or(comm, |part| part.comm.handle());
    let mut construction = Construction { comm: comm as usize, copy, ..Construction::default() };
    construction.base_on(mpi, base);
    lock(&UNDER_WAY).push(construction);
    // A death before this point was not reported to the construction.
    if damage(mpi, comm).is_some() {
        interrupted(comm);
    }
    MINE.set(base as usize);
    let result = make();
    MINE.set(0);
    let mut all = lock(&UNDER_WAY);
    let index = all.iter().position(|one| one.is_of(base as usize)).expect("it was added above");
    let construction = all.swap_remove(index);
    drop(all);
    for (comm, stock) in &construction.bases {
        // SAFETY: the first is the caller's, the others are held.
        unsafe { mpi.table(*comm as Object)[NONBLOCKING + ALLREDUCE].function = *stock as Object };
    }
    (result, construction)
}

/// Calls `with` with the construction for which `is_it` holds.
fn with_one<T>(is_it: impl Fn(&Construction) -> bool, with: impl FnOnce(&mut Construction) -> T) -> Option<T> {
    lock(&UNDER_WAY).iter_mut().find(|one| is_it(one)).map(with)
}

/// Calls `with` with the construction to which a communicator belongs.
fn with_whole<T>(part: Communicator, with: impl FnOnce(&mut Construction) -> T) -> Option<T> {
    with_one(|one| one.present == part.handle() as usize, with)
}

/// Registers a communicator that is being made.
pub fn joined(part: Part) {
    with_whole(part.comm, |construction| {
        // SAFETY: a live communicator.
        unsafe { Classes::hold(part.comm.handle()) };
        construction.made.push(part.comm);
        construction.parts.push(part);
    });
}

/// Handles a communicator that has its collectives. Returns whether it is usable.
pub fn completed(part: Communicator) -> bool {
    let is_alone = with_whole(part, |construction| {
        if construction.alone {
            construction.parts.retain(|one| one.comm != part);
        }
        std::mem::take(&mut construction.alone)
    });
    if let (Some(true), Some(mpi)) = (is_alone, Internals::get()) {
        // SAFETY: it has its collectives, and no other code uses it yet.
        let table = unsafe { mpi.table(part.handle()) };
        table.iter_mut().for_each(|slot| slot.function = refuse as Object);
        return false;
    }
    if with_whole(part, |construction| construction.struck) == Some(true) {
        communicators::revoke(part);
    }
    true
}

/// Handles a usable communicator.
pub fn equipped(part: Communicator) {
    if let Some(mpi) = Internals::get() {
        with_whole(part, |construction| construction.base_on(mpi, part.handle()));
    }
}

/// Whether this thread's construction has a dead member, as far as this process knows, or was interrupted.
pub fn is_struck() -> bool {
    let mine = MINE.get();
    let is_damaged = || Internals::get().is_some_and(|mpi| damage(mpi, mine as Object).is_some());
    with_one(|one| one.is_of(mine), |one| one.struck).is_some_and(|struck| struck || is_damaged())
}

/// Replaces all collectives of a communicator whose context id only this process has.
unsafe extern "C" fn refuse() -> c_int {
    ERR_PROC_FAILED
}

/// Handles the death of a communicator's member.
pub fn member_died(comm: Object) {
    if with_one(|one| one.depends_on(comm as usize), |_| ()).is_some() {
        unwind::note_damage();
    }
    interrupted(comm);
}

/// Interrupts constructions that depend on a communicator that was revoked or has a dead member.
pub fn interrupted(comm: Object) {
    let mut all = lock(&UNDER_WAY);
    let struck = all.iter_mut().filter(|one| one.depends_on(comm as usize));
    let parts: Vec<_> = struck.flat_map(Construction::strike).collect();
    drop(all);
    parts.iter().for_each(Part::revoke);
}

/// An agreement of the members on a context id, or on a later step.
struct CidAgreement {
    /// The communicator of the agreement.
    base: usize,
    /// Addresses of this process's proposal and of the result, and their number of integers.
    proposal: usize,
    choice: usize,
    count: usize,
    /// The last step: a reduction in place that only waits for the others.
    is_last: bool,
    /// The previous completion callback.
    on_complete: Option<OnComplete>,
}

type OnComplete = unsafe extern "C" fn(*mut Request) -> c_int;

/// Keyed by request.
static CID_AGREEMENTS: Mutex<BTreeMap<usize, CidAgreement>> = Mutex::new(BTreeMap::new());

impl CidAgreement {
    /// Adopts this process's own proposal.
    ///
    /// # Safety
    /// Arguments of Open MPI, which keeps them until the request is evaluated.
    unsafe fn fail(&self) {
        if !self.is_last {
            // SAFETY: as required of the caller.
            unsafe { (self.choice as *mut c_int).copy_from(self.proposal as *const c_int, self.count) };
            with_one(|one| one.is_made_of(self.base), |construction| construction.alone = true);
        }
    }
}

/// `mca_coll_base_module_iallreduce_fn_t` (coll.h), of integers
#[rustfmt::skip]
type Iallreduce = unsafe extern "C" fn(
    *const c_int, *mut c_int, c_int, Object, Object, Object, *mut *mut Request, Object,
) -> c_int;

in_front! { mpi = Internals::get(), or ERR_INTERN;
    /// Replaces `MPI_Iallreduce` where the members agree only on the context id of a duplicate. If that fails, this
    /// process adopts its own proposal without the others, and the request succeeds. It does not wait: Open MPI calls
    /// it in a step in front of which steps of other constructors may wait.
    unsafe extern "C" fn iallreduce(
        sendbuf: *const c_int, recvbuf: *mut c_int, count: c_int, datatype: Object, op: Object, comm: Object,
        request: *mut *mut Request, module: Object
    ) -> c_int {
        let is_last = sendbuf as usize == MPI_IN_PLACE || std::ptr::eq(sendbuf, recvbuf);
        let begin = |one: &mut Construction| {
            let stock = one.bases.iter().find(|base| base.0 == comm as usize)?.1;
            one.alone &= !one.has_context_id;
            one.has_context_id = is_last;
            Some((stock, one.alone || one.struck))
        };
        let begun = with_one(|one| one.is_made_of(comm as usize), begin).flatten();
        let Some((stock, is_hopeless)) = begun else { return ERR_INTERN };
        // SAFETY: the stock function of this slot.
        let stock = unsafe { transmute::<Object, Iallreduce>(stock as Object) };
        let mut agreement = CidAgreement {
            base: comm as usize,
            proposal: sendbuf as usize,
            choice: recvbuf as usize,
            count: usize::try_from(count).unwrap_or(0),
            is_last,
            on_complete: None,
        };
        // SAFETY: the stock function with its original arguments; Open MPI passes as many integers in and out, possibly
        // at the same address, and evaluates the request after this function has returned.
        unsafe {
            if is_hopeless || stock(sendbuf, recvbuf, count, datatype, op, comm, request, module) != 0 {
                agreement.fail();
                request.write(mpi.requests.empty());
                return 0;
            }
            let own = *request;
            if own != mpi.requests.empty() {
                agreement.on_complete = (*own).on_complete;
                lock(&CID_AGREEMENTS).insert(own as usize, agreement);
                (*own).on_complete = Some(cid_agreed);
                // Another thread may have completed it earlier.
                if Request::is_complete(own) {
                    settle(own);
                }
            }
        }
        0
    }
}

/// Handles the request of an agreement on a context id that is about to complete.
unsafe extern "C" fn cid_agreed(request: *mut Request) -> c_int {
    // SAFETY: Open MPI passes its request.
    guard((), || unsafe { settle(request) });
    0
}

/// # Safety
/// The request of an agreement on a context id that has ended.
unsafe fn settle(request: *mut Request) {
    let Some(agreement) = lock(&CID_AGREEMENTS).remove(&(request as usize)) else { return };
    // SAFETY: as required of the caller.
    unsafe {
        agreement.on_complete.into_iter().for_each(|hear| _ = hear(request));
        if Request::code(request) != 0 {
            agreement.fail();
            (*request).set_code(0);
        }
    }
}

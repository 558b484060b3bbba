//! How windows and files are made, so that all members get one or none does.
//!
//! Open MPI makes them of communicators: of a duplicate of the program's, and of others that it splits from that. Here
//! the duplicate is taken of a copy that nobody else knows. It hands on the scope group, so that whoever waits in the
//! constructor leaves it when a member dies; and it is revoked when the program's is, whoever does that, since others wait in
//! the copy for a member that leaves because of it. At the end all agree on the whole, if the program's communicator is uniform.
//!
//! Open MPI 5.0's `osc/rdma` crashes where its duplicate fails (osc_rdma_module.c:47 and 105). So the duplicate of a copy
//! does not fail, nor does the copy: where its number could not be agreed on it gets the one that this process has
//! proposed, and refuses all collective operations; no message is sent in it.
//!
//! With several threads Open MPI asks for collectives, and settles numbers, in whichever drives progress. So all that happens to a
//! communicator meanwhile is told by the communicator, and not by the thread.
//!
//! The communicators of what could not be made stay until the end, with their numbers, in which messages may arrive still
//! ([`numbers`](crate::numbers)). A member gets a number only when all others have proposed or accepted it, so wherever
//! messages of it can arrive, it is held.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem::transmute;
use std::panic::catch_unwind;
use std::sync::Mutex;

use crate::communicators::{self, Part};
use crate::handles::Communicator;
use crate::internals::{ALLREDUCE, Internals, NONBLOCKING};
use crate::line::lock;
use crate::objects::{Classes, Object};
use crate::property::{SCOPE, UNIFORMITY};
use crate::requests::Request;
use crate::scope::Scope;
use crate::statement::{About, ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use crate::uniformity::Uniformity;
use crate::{calls, groups, numbers, uniform};

/// What is being made.
static UNDER_WAY: Mutex<Vec<Construction>> = Mutex::new(Vec::new());

thread_local! {
    /// The first of [`Construction::bases`] of what this thread makes, or null.
    static MINE: Cell<usize> = const { Cell::new(0) };
}

/// Of which communicators copies are being made, each with the copy once that has its number.
static COPIES: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

#[derive(Default)]
struct Construction {
    /// The program's communicator, and the copy of it once there is one.
    comm: usize,
    copy: Option<Part>,
    /// The communicator of which it is made, one of these, and those that were made of that, each with its function in place of
    /// which [`number`] stands.
    bases: Vec<(usize, usize)>,
    /// What has its number and is about to get its collectives.
    present: usize,
    /// What has been made, and what of it has its number from all members.
    made: Vec<Communicator>,
    parts: Vec<Part>,
    /// A member has died, or the program's communicator was revoked.
    struck: bool,
    /// The number of the present communicator could not be agreed on.
    alone: bool,
    /// That numbering has ended.
    numbered: bool,
}

impl Construction {
    /// Communicators are going to be made of this one, which has its collectives.
    fn base_on(&mut self, mpi: &Internals, comm: Object) {
        // SAFETY: as said, and it lives.
        let slot = unsafe { &mut mpi.table(comm)[NONBLOCKING + ALLREDUCE] };
        self.bases.push((comm as usize, slot.function as usize));
        slot.function = number as Object;
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

    /// It cannot succeed any more. Returns what members may wait in.
    fn strike(&mut self) -> Vec<Part> {
        self.struck = true;
        self.copy.iter().chain(&self.parts).copied().collect()
    }
}

/// Whether this thread can make something here, and is not about it.
pub fn is_possible() -> bool {
    MINE.get() == 0 && groups::sees_activations() && Internals::fitting().is_some()
}

/// Whether this thread makes something.
pub fn is_under_way() -> bool {
    MINE.get() != 0
}

/// Makes a copy of a communicator by a call that blocks. Nothing in it is agreed on, since not all may use theirs.
pub fn copying<T>(comm: Object, make: impl FnOnce() -> T) -> T {
    lock(&COPIES).push((comm as usize, 0));
    let made = make();
    lock(&COPIES).retain(|copy| copy.0 != comm as usize);
    made
}

/// A communicator has its number, and `make` gives it its collectives: it is made of another one, by a call that blocks.
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

/// Makes a window or a file: `make` gets the communicator to make it of. Returns its code, on which the members have agreed
/// if `comm` is uniform, and the communicators that it consists of. If it was made here and not everywhere, `undo` takes it
/// away.
pub fn run(comm: Object, make: impl FnOnce(Object) -> c_int, undo: impl FnOnce()) -> (c_int, Vec<Part>) {
    let Some(mpi) = Internals::fitting().filter(|_| is_possible()) else { return (make(comm), Vec::new()) };
    let (mut own, mut parts, mut made) = (ERR_PROC_FAILED, Vec::new(), Vec::new());
    let code = uniform::agree_on(comm, About::Members, || {
        own = match (of_copy(mpi, comm, make, &mut parts, &mut made), damage(mpi, comm)) {
            // Others may have left without it, and nobody is to wait for them in it.
            (0, Some(ERR_REVOKED)) => {
                parts.iter().for_each(Part::revoke);
                0
            }
            (0, _) => 0,
            // Whatever went wrong: a file, say, that the dead was to create.
            (_, Some(class)) => class,
            // The copy was revoked by a member that knows more: of a death, or that `comm` is revoked, as its scope has it.
            (ERR_REVOKED, None) if Scope::of(communicators::values(comm)[SCOPE]) == Scope::Local => ERR_PROC_FAILED,
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

fn of_copy(
    mpi: &Internals,
    comm: Object,
    make: impl FnOnce(Object) -> c_int,
    parts: &mut Vec<Part>,
    made: &mut Vec<Communicator>,
) -> c_int {
    if let Some(class) = damage(mpi, comm) {
        return class;
    }
    let (copy, first) = of_base(mpi, comm, None, || copying(comm, || mpi.duplicate(comm)));
    *made = first.made;
    let (copy, part) = match (copy, first.parts.first()) {
        (Ok(copy), Some(part)) => (copy, *part),
        (Ok(_), None) => return damage(mpi, comm).unwrap_or(ERR_PROC_FAILED),
        (Err(code), _) => return code,
    };
    communicators::bequeath(copy, SCOPE, Scope::Group.value());
    communicators::bequeath(copy, UNIFORMITY, Uniformity::Local.value());
    let (code, second) = of_base(mpi, comm, Some(part), || make(copy));
    mpi.free(copy);
    made.extend(second.made);
    let is_made_of_some = !second.parts.is_empty();
    *parts = second.parts;
    // What Open MPI has freed is held here only.
    // SAFETY: each is held since it was made.
    parts.retain(|part| unsafe { numbers::has_others(part.comm.handle()) });
    // Who finds the memory gone that others share takes the window apart and calls that a success (osc_sm_component.c:336).
    if code == 0 && is_made_of_some && parts.is_empty() { ERR_INTERN } else { code }
}

/// The class with which operations on a communicator end, if they do.
pub fn damage(mpi: &Internals, comm: Object) -> Option<c_int> {
    // SAFETY: a communicator that lives, in an Open MPI that fits.
    match unsafe { mpi.is_revoked(comm) } {
        true => Some(ERR_REVOKED),
        false => mpi.has_dead_members(comm).then_some(ERR_PROC_FAILED),
    }
}

/// Makes something of a communicator, or of the copy of it, which has its collectives; returns what was made meanwhile, too.
fn of_base<T>(mpi: &Internals, comm: Object, copy: Option<Part>, make: impl FnOnce() -> T) -> (T, Construction) {
    let base = copy.map_or(comm, |part| part.comm.handle());
    let mut construction = Construction { comm: comm as usize, copy, ..Construction::default() };
    construction.base_on(mpi, base);
    lock(&UNDER_WAY).push(construction);
    // Until now it was not told.
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

fn with_one<T>(is_it: impl Fn(&Construction) -> bool, look: impl FnOnce(&mut Construction) -> T) -> Option<T> {
    lock(&UNDER_WAY).iter_mut().find(|one| is_it(one)).map(look)
}

/// What a communicator is a part of.
fn with_whole<T>(part: Communicator, look: impl FnOnce(&mut Construction) -> T) -> Option<T> {
    with_one(|one| one.present == part.handle() as usize, look)
}

/// A communicator is being made.
pub fn joined(part: Part) {
    with_whole(part.comm, |construction| {
        // SAFETY: a communicator that lives.
        unsafe { Classes::hold(part.comm.handle()) };
        construction.made.push(part.comm);
        construction.parts.push(part);
    });
}

/// It has its collectives. Returns whether it can be used.
pub fn completed(part: Communicator) -> bool {
    let is_alone = with_whole(part, |construction| {
        if construction.alone {
            construction.parts.retain(|one| one.comm != part);
        }
        std::mem::take(&mut construction.alone)
    });
    if let (Some(true), Some(mpi)) = (is_alone, Internals::get()) {
        // SAFETY: it has its collectives, and nobody has it yet.
        let table = unsafe { mpi.table(part.handle()) };
        table.iter_mut().for_each(|slot| slot.function = refuse as Object);
        return false;
    }
    if with_whole(part, |construction| construction.struck) == Some(true) {
        communicators::revoke(part);
    }
    true
}

/// It can be used.
pub fn equipped(part: Communicator) {
    if let Some(mpi) = Internals::get() {
        with_whole(part, |construction| construction.base_on(mpi, part.handle()));
    }
}

/// Whether somebody has died among those with whom this thread makes something, as far as is known here or was told.
pub fn is_struck() -> bool {
    let mine = MINE.get();
    let is_damaged = || Internals::get().is_some_and(|mpi| damage(mpi, mine as Object).is_some());
    with_one(|one| one.is_of(mine), |one| one.struck).is_some_and(|struck| struck || is_damaged())
}

/// Stands in place of all collectives of a communicator that this process has alone.
unsafe extern "C" fn refuse() -> c_int {
    ERR_PROC_FAILED
}

/// A member of a communicator is dead.
pub fn member_died(comm: Object) {
    if with_one(|one| one.depends_on(comm as usize), |_| ()).is_some() {
        calls::begin();
    }
    interrupted(comm);
}

/// A communicator was revoked, or a member of it is dead: who makes something of it is interrupted.
pub fn interrupted(comm: Object) {
    let mut all = lock(&UNDER_WAY);
    let struck = all.iter_mut().filter(|one| one.depends_on(comm as usize));
    let parts: Vec<_> = struck.flat_map(Construction::strike).collect();
    drop(all);
    parts.iter().for_each(Part::revoke);
}

/// The members agree on the number of a communicator, or on a step after that.
struct Numbering {
    /// The communicator in which they do.
    base: usize,
    /// What this process proposes, and where their choice is put: so many integers.
    proposal: usize,
    choice: usize,
    count: usize,
    /// The one in place comes last and waits for the others only.
    is_last: bool,
    /// Who else hears of its end.
    on_complete: Option<OnComplete>,
}

type OnComplete = unsafe extern "C" fn(*mut Request) -> c_int;

/// By their requests.
static NUMBERINGS: Mutex<BTreeMap<usize, Numbering>> = Mutex::new(BTreeMap::new());

impl Numbering {
    /// This process's own choice holds.
    ///
    /// # Safety
    /// What Open MPI has passed for it, which it keeps until the request has been looked at.
    unsafe fn fail(&self) {
        if !self.is_last {
            // SAFETY: as required of the caller.
            unsafe { (self.choice as *mut c_int).copy_from(self.proposal as *const c_int, self.count) };
            with_one(|one| one.is_made_of(self.base), |construction| construction.alone = true);
        }
    }
}

/// Stands in place of `MPI_Iallreduce` where only the number of a duplicate is agreed on. If that fails, this process's own
/// choice holds, and the others do not get it; the request ends well. It waits for nobody: Open MPI calls it in a step in front
/// of which steps of others may wait.
unsafe extern "C" fn number(
    sent: *const c_int,
    got: *mut c_int,
    count: c_int,
    kind: Object,
    operation: Object,
    comm: Object,
    request: *mut *mut Request,
    module: Object,
) -> c_int {
    type Stock = unsafe extern "C" fn(
        *const c_int,
        *mut c_int,
        c_int,
        Object,
        Object,
        Object,
        *mut *mut Request,
        Object,
    ) -> c_int;
    let is_last = sent as usize == IN_PLACE || std::ptr::eq(sent, got);
    let begin = |one: &mut Construction| {
        let stock = one.bases.iter().find(|base| base.0 == comm as usize)?.1;
        one.alone &= !one.numbered;
        one.numbered = is_last;
        Some((stock, one.alone || one.struck))
    };
    let begun = with_one(|one| one.is_made_of(comm as usize), begin).flatten();
    let (Some(mpi), Some((stock, is_hopeless))) = (Internals::get(), begun) else { return ERR_INTERN };
    // SAFETY: the stock function of this place.
    let stock = unsafe { transmute::<Object, Stock>(stock as Object) };
    let (base, proposal, choice) = (comm as usize, sent as usize, got as usize);
    let count_of = usize::try_from(count).unwrap_or(0);
    let mut numbering = Numbering { base, proposal, choice, count: count_of, is_last, on_complete: None };
    // SAFETY: the stock function with the arguments that were meant for it; Open MPI passes as many integers in and out, or
    // the same ones twice, and looks at the request when this has returned.
    unsafe {
        if is_hopeless || stock(sent, got, count, kind, operation, comm, request, module) != 0 {
            numbering.fail();
            request.write(mpi.requests.empty());
            return 0;
        }
        let own = *request;
        if own != mpi.requests.empty() {
            numbering.on_complete = (*own).on_complete;
            lock(&NUMBERINGS).insert(own as usize, numbering);
            (*own).on_complete = Some(numbered);
            // In another thread it may have been complete before that.
            if Request::is_complete(own) {
                settle(own);
            }
        }
    }
    0
}

/// The request of a numbering is about to complete.
unsafe extern "C" fn numbered(request: *mut Request) -> c_int {
    // SAFETY: Open MPI passes its request.
    let _ = catch_unwind(|| unsafe { settle(request) });
    0
}

/// # Safety
/// The request of a numbering that has ended.
unsafe fn settle(request: *mut Request) {
    let Some(numbering) = lock(&NUMBERINGS).remove(&(request as usize)) else { return };
    // SAFETY: as required of the caller.
    unsafe {
        numbering.on_complete.into_iter().for_each(|hear| _ = hear(request));
        if Request::code(request) != 0 {
            numbering.fail();
            (*request).set_code(0);
        }
    }
}

/// `MPI_IN_PLACE`.
const IN_PLACE: usize = 1;

//! How windows and files are made, so that all members get one or none does.
//!
//! Open MPI makes them of communicators: of a duplicate of the program's, and of others that it splits from that. Here
//! the duplicate is taken of a copy that nobody else knows. It hands on the scope group, so that whoever waits in the
//! constructor leaves it when a member dies. At the end all agree on the whole, if the program's communicator is uniform.
//!
//! Open MPI 5.0's `osc/rdma` crashes where its duplicate fails (osc_rdma_module.c:47 and 105). So the duplicate of a copy
//! does not fail: where its number could not be agreed on it gets one of this process's own, and refuses all collective
//! operations; no message is sent in it.

use std::cell::Cell;
use std::ffi::c_int;
use std::mem::transmute;
use std::sync::Mutex;

use crate::communicators::{self, Part};
use crate::handles::Communicator;
use crate::internals::{Internals, NONBLOCKING};
use crate::line::lock;
use crate::objects::Object;
use crate::property::{SCOPE, UNIFORMITY};
use crate::requests::Request;
use crate::scope::Scope;
use crate::statement::{ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use crate::uniform;
use crate::uniformity::Uniformity;

/// What is being made.
static UNDER_WAY: Mutex<Vec<Construction>> = Mutex::new(Vec::new());

thread_local! {
    /// The copy for what this thread makes, or null.
    static MINE: Cell<usize> = const { Cell::new(0) };
    /// It makes that copy.
    static COPIES: Cell<bool> = const { Cell::new(false) };
}

struct Construction {
    /// The handle of the copy, and its function in place of which [`number`] stands.
    copy: usize,
    iallreduce: usize,
    parts: Vec<Part>,
    /// A member has died meanwhile.
    struck: bool,
    /// The number of the next communicator could not be agreed on.
    alone: bool,
}

/// Whether this thread can make something here, and is not about it.
pub fn is_possible() -> bool {
    MINE.get() == 0 && Internals::fitting().is_some()
}

/// Whether a communicator that this thread makes is a copy: nothing in it is agreed on, since not all may get one.
pub fn is_copying() -> bool {
    COPIES.get()
}

/// Makes a window or a file: `make` gets the communicator to make it of. Returns its code, on which the members have agreed
/// if `comm` is uniform, and the communicators that it consists of. If it was made here and not everywhere, `undo` takes it
/// away.
pub fn run(comm: Object, make: impl FnOnce(Object) -> c_int, undo: impl FnOnce()) -> (c_int, Vec<Part>) {
    let Some(mpi) = Internals::fitting().filter(|_| is_possible()) else { return (make(comm), Vec::new()) };
    let (mut own, mut parts) = (ERR_PROC_FAILED, Vec::new());
    let code = uniform::agree_on(comm, || {
        (own, parts) = of_copy(mpi, comm, make);
        // It was the copy that was revoked, because of the death.
        if own == ERR_REVOKED && damage(mpi, comm) != Some(ERR_REVOKED) {
            own = ERR_PROC_FAILED;
        }
        own
    });
    if own == 0 && code != 0 {
        parts.iter().for_each(Part::revoke);
        undo();
    }
    (code, if code == 0 { parts } else { Vec::new() })
}

fn of_copy(mpi: &Internals, comm: Object, make: impl FnOnce(Object) -> c_int) -> (c_int, Vec<Part>) {
    if let Some(class) = damage(mpi, comm) {
        return (class, Vec::new());
    }
    COPIES.set(true);
    let copy = mpi.duplicate(comm);
    COPIES.set(false);
    let copy = match copy {
        Ok(copy) => copy,
        Err(code) => return (code, Vec::new()),
    };
    communicators::bequeath(copy, SCOPE, Scope::Group.value());
    communicators::bequeath(copy, UNIFORMITY, Uniformity::Local.value());
    begin(mpi, copy);
    let code = make(copy);
    let parts = end(copy);
    mpi.free(copy);
    (code, parts)
}

/// The class with which operations on a communicator end, if they do.
fn damage(mpi: &Internals, comm: Object) -> Option<c_int> {
    // SAFETY: a communicator that lives, in an Open MPI that fits.
    match unsafe { mpi.is_revoked(comm) } {
        true => Some(ERR_REVOKED),
        false => mpi.has_dead_members(comm).then_some(ERR_PROC_FAILED),
    }
}

fn begin(mpi: &Internals, copy: Object) {
    // SAFETY: the copy has its collectives, and nobody else knows it.
    let slot = unsafe { &mut mpi.table(copy)[NONBLOCKING + ALLREDUCE] };
    let iallreduce = std::mem::replace(&mut slot.function, number as Object) as usize;
    let struck = mpi.has_dead_members(copy);
    let construction = Construction { copy: copy as usize, iallreduce, parts: Vec::new(), struck, alone: false };
    lock(&UNDER_WAY).push(construction);
    MINE.set(copy as usize);
}

fn end(copy: Object) -> Vec<Part> {
    MINE.set(0);
    let mut all = lock(&UNDER_WAY);
    let index = all.iter().position(|one| one.copy == copy as usize);
    index.map_or(Vec::new(), |index| all.swap_remove(index).parts)
}

fn with_mine<T>(look: impl FnOnce(&mut Construction) -> T) -> Option<T> {
    let mine = Some(MINE.get()).filter(|copy| *copy != 0)?;
    lock(&UNDER_WAY).iter_mut().find(|one| one.copy == mine).map(look)
}

/// A communicator is being made in this thread.
pub fn joined(part: Part) {
    with_mine(|construction| construction.parts.push(part));
}

/// It has its collectives. Returns whether it can be used.
pub fn completed(part: Communicator) -> bool {
    let is_alone = with_mine(|construction| {
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
    if with_mine(|construction| construction.struck) == Some(true) {
        communicators::revoke(part);
    }
    true
}

/// Stands in place of all collectives of a communicator that this process has alone.
unsafe extern "C" fn refuse() -> c_int {
    ERR_PROC_FAILED
}

/// A communicator is being freed.
pub fn left(comm: Communicator) {
    lock(&UNDER_WAY).iter_mut().for_each(|one| one.parts.retain(|part| part.comm != comm));
}

/// A member of a communicator is dead: who makes something of it is interrupted.
pub fn member_died(comm: Object) {
    let mut parts = Vec::new();
    if let Some(construction) = lock(&UNDER_WAY).iter_mut().find(|one| one.copy == comm as usize) {
        construction.struck = true;
        parts = construction.parts.clone();
    }
    parts.iter().for_each(Part::revoke);
}

/// Stands in place of `MPI_Iallreduce` on a copy, where only the number of its duplicate is agreed on. If that fails, this
/// process's own choice holds.
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
    let stock = with_mine(|construction| construction.iallreduce as Object);
    let (Some(mpi), Some(stock)) = (Internals::get(), stock) else { return ERR_INTERN };
    let is_in_place = sent as usize == IN_PLACE || std::ptr::eq(sent, got);
    // SAFETY: the stock function with the arguments that were meant for it; Open MPI passes as many integers in and out, or
    // the same ones twice.
    unsafe {
        let mut own = std::ptr::null_mut();
        let mut code = transmute::<Object, Stock>(stock)(sent, got, count, kind, operation, comm, &mut own, module);
        if code == 0 {
            while !Request::is_complete(own) {
                mpi.progress();
            }
            code = Request::code(own);
            Request::give_back(own);
        }
        // The one in place comes last and waits for the others only.
        if code != 0 && !is_in_place {
            got.copy_from(sent, usize::try_from(count).unwrap_or(0));
            with_mine(|construction| construction.alone = true);
        }
        request.write(mpi.requests.empty());
    }
    0
}

/// Of a table of collective functions.
const ALLREDUCE: usize = 2;
/// `MPI_IN_PLACE`.
const IN_PLACE: usize = 1;

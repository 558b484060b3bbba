//! Constructors of Open MPI that end badly when they fail.
//!
//! `MPI_Comm_split` and `MPI_Comm_create`, and what is made of these, hand the program a communicator without a number and
//! without collectives where the members could not agree on its number (comm.c, the ends of `ompi_comm_split_with_info` and
//! `ompi_comm_create_w_info`). What was made by halves is freed here.
//!
//! What is made of a communicator with two groups begins with a duplicate of the own side, whose errors lose their class as those of
//! `MPI_Comm_idup` do. Where such a communicator cannot be of use any more, that is the class. If it is uniform, the members of both
//! groups agree on each constructor as a whole.
//!
//! `MPI_Comm_idup` has given its handle to the program long before it fails, so the program has it. But its class is lost:
//! the step after the numbering begins all the same and fails otherwise (`ompi_comm_idup_with_info_activate`). And it is
//! raised at `MPI_COMM_WORLD` (`ompi_errhandler_request_invoke`). Here the class is that of the
//! numbering, at the communicator that the program has called with.
//!
//! Functions of this module take the places of Open MPI's in libmpi's table of jumps.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::{Mutex, OnceLock};

use crate::groups;
use crate::internals::Internals;
use crate::line::lock;
use crate::mended::refusal;
use crate::numbering;
use crate::objects::Object;
use crate::openmpi::Library;
use crate::requests::Request;
use crate::statement::{About, ERR_INTERN, Standing, standing_of};
use crate::uniform::is_intercommunicator;
use crate::{communicators, uniform};

const SPLIT: &CStr = c"ompi_comm_split_with_info";
const CREATE: &CStr = c"ompi_comm_create_w_info";
const SPLIT_TYPE: &CStr = c"ompi_comm_split_type";
const DUP: &CStr = c"ompi_comm_dup_with_info";
const IDUP: &CStr = c"ompi_comm_idup";
const IDUP_WITH_INFO: &CStr = c"ompi_comm_idup_with_info";
const NUMBER: &CStr = c"ompi_comm_nextcid_nb";

type Split = unsafe extern "C" fn(Object, c_int, c_int, Object, *mut Object, bool) -> c_int;
type SplitType = unsafe extern "C" fn(Object, c_int, c_int, Object, *mut Object) -> c_int;
type Create = unsafe extern "C" fn(Object, Object, Object, *mut Object) -> c_int;
type Dup = unsafe extern "C" fn(Object, Object, *mut Object) -> c_int;
type Idup = unsafe extern "C" fn(Object, *mut Object, *mut *mut Request) -> c_int;
type IdupWithInfo = unsafe extern "C" fn(Object, Object, *mut Object, *mut *mut Request) -> c_int;
#[rustfmt::skip]
pub type Number =
    unsafe extern "C" fn(Object, Object, Object, *const c_void, *const c_void, bool, c_int, *mut *mut Request) -> c_int;

struct Stock {
    split: Split,
    split_type: SplitType,
    create: Create,
    dup: Dup,
    idup: Idup,
    idup_with_info: IdupWithInfo,
    number: Number,
    null: usize,
}

static STOCK: OnceLock<Stock> = OnceLock::new();
/// Communicators that `MPI_Comm_idup` is making, and the code with which the numbering of each has ended.
static DUPLICATES: Mutex<BTreeMap<usize, c_int>> = Mutex::new(BTreeMap::new());

/// Stands where communicators are made. At the end of `MPI_Init`.
pub fn watch() {
    if let (Some(library), Some(_)) = (Library::loaded(), Internals::fitting()) {
        let _ = stand(&library);
    }
}

fn stand(library: &Library) -> Option<()> {
    // SAFETY: the types are those of communicator.h; functions of the same types take their places.
    unsafe {
        let stock = Stock {
            split: library.function(SPLIT)?,
            split_type: library.function(SPLIT_TYPE)?,
            create: library.function(CREATE)?,
            dup: library.function(DUP)?,
            idup: library.function(IDUP)?,
            idup_with_info: library.function(IDUP_WITH_INFO)?,
            number: library.function(NUMBER)?,
            null: library.predefined(c"ompi_mpi_comm_null")? as usize,
        };
        STOCK.set(stock).ok()?;
        library.redirect_all(&[
            (SPLIT, split as *const c_void),
            (SPLIT_TYPE, split_type as *const _),
            (CREATE, create as *const _),
            (DUP, dup as *const _),
            (IDUP, idup as *const _),
            (IDUP_WITH_INFO, idup_with_info as *const _),
            (NUMBER, number as *const _),
        ]);
    }
    Some(())
}

unsafe extern "C" fn split(
    comm: Object,
    color: c_int,
    key: c_int,
    info: Object,
    made: *mut Object,
    keeps_topology: bool,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: the stock function with the arguments that were meant for it.
    unsafe {
        let make = || stock.ended(comm, (stock.split)(comm, color, key, info, made, keeps_topology), made);
        stock.agree(comm, made, make)
    }
}

unsafe extern "C" fn split_type(comm: Object, kind: c_int, key: c_int, info: Object, made: *mut Object) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: as above.
    unsafe {
        // Where it fails at once nothing stands there.
        made.write(stock.null as Object);
        stock.agree(comm, made, || stock.ended(comm, (stock.split_type)(comm, kind, key, info, made), made))
    }
}

unsafe extern "C" fn create(comm: Object, group: Object, info: Object, made: *mut Object) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: as above.
    unsafe { stock.agree(comm, made, || stock.ended(comm, (stock.create)(comm, group, info, made), made)) }
}

unsafe extern "C" fn dup(comm: Object, info: Object, made: *mut Object) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: as above.
    unsafe { stock.agree(comm, made, || class_of(comm, (stock.dup)(comm, info, made))) }
}

/// The code of a constructor that has been called with this communicator and this result.
///
/// # Safety
/// A communicator that lives.
unsafe fn class_of(comm: Object, code: c_int) -> c_int {
    let is_lost = code != 0 && standing_of(code) == Standing::Sound && is_intercommunicator(comm);
    if is_lost { refusal(comm).unwrap_or(code) } else { code }
}

impl Stock {
    /// What `make` makes of a uniform communicator with two groups all members get, or nobody does.
    ///
    /// # Safety
    /// A communicator that lives, and where `make` puts the new one.
    unsafe fn agree(&self, comm: Object, made: *mut Object, make: impl FnOnce() -> c_int) -> c_int {
        if !is_intercommunicator(comm) {
            return make();
        }
        let null = self.null as Object;
        // SAFETY: as required of the caller: where it could not be begun there is nothing.
        unsafe {
            made.write(null);
            let code = uniform::agree_on(comm, About::Members, || {
                let code = make();
                uniform::hold(made.read());
                code
            });
            communicators::settle(made, code, null);
            code
        }
    }

    /// The same of one that does not block, which `begin` begins with a request of its own.
    ///
    /// # Safety
    /// As of [`agree`](Self::agree).
    unsafe fn start(
        &self,
        comm: Object,
        made: *mut Object,
        request: *mut *mut Request,
        begin: impl FnOnce(*mut *mut Request) -> c_int,
    ) -> c_int {
        if !is_intercommunicator(comm) {
            return begin(request);
        }
        // SAFETY: as required of the caller.
        unsafe { made.write(self.null as Object) };
        uniform::start_whole(comm, request, begin)
    }

    /// A constructor that was called with `comm` has ended with this code.
    ///
    /// # Safety
    /// A communicator that lives, and where the new one was put.
    unsafe fn ended(&self, comm: Object, code: c_int, made: *mut Object) -> c_int {
        if code != 0 {
            // SAFETY: as required of the caller. Of a communicator with two groups a part may be missing, without which it
            // cannot be freed.
            unsafe {
                let half = made.replace(self.null as Object);
                let is_one = !half.is_null() && half as usize != self.null;
                let mpi = Internals::get().filter(|mpi| is_one && !mpi.is_intercommunicator(half));
                mpi.into_iter().for_each(|mpi| mpi.free(half));
            }
        }
        // SAFETY: as required of the caller.
        unsafe { class_of(comm, code) }
    }
}

unsafe extern "C" fn idup(comm: Object, made: *mut Object, request: *mut *mut Request) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: the stock function with the arguments that were meant for it.
    unsafe { stock.start(comm, made, request, |request| begun((stock.idup)(comm, made, request), made, request)) }
}

unsafe extern "C" fn idup_with_info(
    comm: Object,
    info: Object,
    made: *mut Object,
    request: *mut *mut Request,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: as above.
    unsafe {
        let begin = |request| begun((stock.idup_with_info)(comm, info, made, request), made, request);
        stock.start(comm, made, request, begin)
    }
}

/// `MPI_Comm_idup` has begun, with this code.
///
/// # Safety
/// Where it has put its communicator and its request.
unsafe fn begun(code: c_int, made: *mut Object, request: *mut *mut Request) -> c_int {
    if code == 0 {
        // SAFETY: as required of the caller.
        unsafe {
            let (made, request) = (*made, *request);
            if !Request::is_complete(request) && (*request).on_complete.is_none() {
                lock(&DUPLICATES).insert(made as usize, 0);
                (*request).on_complete_data = made;
                (*request).on_complete = Some(duplicated);
            }
        }
    }
    code
}

/// Its request is about to complete.
unsafe extern "C" fn duplicated(request: *mut Request) -> c_int {
    // SAFETY: Open MPI passes the request.
    let settle = || unsafe {
        let numbered = lock(&DUPLICATES).remove(&((*request).on_complete_data as usize));
        if Request::code(request) != 0 {
            numbered.filter(|code| *code > 0).into_iter().for_each(|code| (*request).set_code(code));
            (*request).be_collective();
        }
    };
    let _ = catch_unwind(settle);
    0
}

unsafe extern "C" fn number(
    made: Object,
    comm: Object,
    bridge: Object,
    first: *const c_void,
    second: *const c_void,
    sends_first: bool,
    mode: c_int,
    request: *mut *mut Request,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: the stock function with the arguments that were meant for it, which has put its request there.
    unsafe {
        if let Some(code) = numbering::begin(made, comm, mode, request) {
            return code;
        }
        let begin = || (stock.number)(made, comm, bridge, first, second, sends_first, mode, request);
        let code = groups::numbering(made, comm, mode, begin);
        let is_watched = code == 0 && lock(&DUPLICATES).contains_key(&(made as usize));
        if is_watched && !Request::is_complete(*request) && (**request).on_complete.is_none() {
            (**request).on_complete_data = made;
            (**request).on_complete = Some(numbered);
        }
        code
    }
}

/// A numbering is about to end.
unsafe extern "C" fn numbered(request: *mut Request) -> c_int {
    // SAFETY: Open MPI passes the request.
    let note = || unsafe {
        let made = (*request).on_complete_data as usize;
        lock(&DUPLICATES).get_mut(&made).into_iter().for_each(|code| *code = Request::code(request));
    };
    let _ = catch_unwind(note);
    0
}

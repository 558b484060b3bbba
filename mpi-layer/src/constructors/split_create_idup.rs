//! Corrects how Open MPI's split, create and duplicate constructors end when they fail.
//!
//! If the members cannot agree on the context id, `MPI_Comm_split` and `MPI_Comm_create`, and constructors based on
//! them, give the program a communicator without context id and collectives (comm.c, the ends of
//! `ompi_comm_split_with_info` and `ompi_comm_create_w_info`). ringwatch frees such an incomplete communicator.
//!
//! Constructors on an intercommunicator begin with a duplicate of the local side. Its errors lose their class, as those
//! of `MPI_Comm_idup` do. If the intercommunicator has failed, ringwatch returns its class. If it is uniform, the
//! members of both groups agree on each constructor as a whole.
//!
//! `MPI_Comm_idup` gives its handle to the program before it can fail, so the program keeps it. But its error class is
//! lost: the step after the agreement on the context id begins in spite of an error and fails with another one
//! (`ompi_comm_idup_with_info_activate`). And the error is raised at `MPI_COMM_WORLD`
//! (`ompi_errhandler_request_invoke`). ringwatch restores the class of the agreement, and raises it at the communicator
//! of the call.
//!
//! This module interposes on these functions through libmpi's procedure linkage table.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, OnceLock};

use crate::agreement::vote::{About, Standing, standing_of};
use crate::cid::cid_call::in_front_of_cid;
use crate::cid::parallel_cid;
use crate::constructors::{settle, steps};
use crate::in_front::{guard, in_front};
use crate::uniform::operations;
use crate::uniform::operations::is_intercommunicator;
use crate::uniform::request_errors::refusal;
use openmpi_internals::abi::{
    CommCreateWithInfo, CommDupWithInfo, CommIdup, CommIdupWithInfo, CommSplitType, CommSplitWithInfo, NextCid,
};
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::functions::{
    OMPI_COMM_CREATE_W_INFO, OMPI_COMM_DUP_WITH_INFO, OMPI_COMM_IDUP, OMPI_COMM_IDUP_WITH_INFO, OMPI_COMM_NEXTCID_NB,
    OMPI_COMM_SPLIT_TYPE, OMPI_COMM_SPLIT_WITH_INFO,
};
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::OMPI_MPI_COMM_NULL;

struct Stock {
    split: CommSplitWithInfo,
    split_type: CommSplitType,
    create: CommCreateWithInfo,
    dup: CommDupWithInfo,
    idup: CommIdup,
    idup_with_info: CommIdupWithInfo,
    nextcid: NextCid,
    null: usize,
}

static STOCK: OnceLock<Stock> = OnceLock::new();
/// Communicators that `MPI_Comm_idup` is making, with the code of the agreement on the context id.
static DUPLICATES: Mutex<BTreeMap<usize, c_int>> = Mutex::new(BTreeMap::new());

/// Interposes on these constructors. At the end of `MPI_Init`.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the types are those of communicator.h; functions of the same types take their places.
    unsafe {
        let stock = Stock {
            split: at.function(OMPI_COMM_SPLIT_WITH_INFO)?,
            split_type: at.function(OMPI_COMM_SPLIT_TYPE)?,
            create: at.function(OMPI_COMM_CREATE_W_INFO)?,
            dup: at.function(OMPI_COMM_DUP_WITH_INFO)?,
            idup: at.function(OMPI_COMM_IDUP)?,
            idup_with_info: at.function(OMPI_COMM_IDUP_WITH_INFO)?,
            nextcid: at.function(OMPI_COMM_NEXTCID_NB)?,
            null: at.predefined(OMPI_MPI_COMM_NULL)? as usize,
        };
        let _ = STOCK.set(stock);
        at.redirect_all(&[
            OMPI_COMM_SPLIT_WITH_INFO.by(split),
            OMPI_COMM_SPLIT_TYPE.by(split_type),
            OMPI_COMM_CREATE_W_INFO.by(create),
            OMPI_COMM_DUP_WITH_INFO.by(dup),
            OMPI_COMM_IDUP.by(idup),
            OMPI_COMM_IDUP_WITH_INFO.by(idup_with_info),
            OMPI_COMM_NEXTCID_NB.by(nextcid),
        ])?;
    }
    Ok(())
}

in_front! { stock = STOCK.get(), or ERR_INTERN;
    unsafe extern "C" fn split(
        comm: Object, color: c_int, key: c_int, info: Object, made: *mut Object, keeps_topology: bool
    ) -> c_int {
        // SAFETY: the stock function with its original arguments.
        unsafe {
            let make = || stock.ended(comm, (stock.split)(comm, color, key, info, made, keeps_topology), made);
            stock.agree(comm, made, make)
        }
    }

    unsafe extern "C" fn split_type(
        comm: Object, split_type: c_int, key: c_int, info: Object, made: *mut Object
    ) -> c_int {
        // SAFETY: as above.
        unsafe {
            // Open MPI writes nothing there if the call fails at once.
            made.write(stock.null as Object);
            stock.agree(comm, made, || stock.ended(comm, (stock.split_type)(comm, split_type, key, info, made), made))
        }
    }

    unsafe extern "C" fn create(comm: Object, group: Object, info: Object, made: *mut Object) -> c_int {
        // SAFETY: as above.
        unsafe { stock.agree(comm, made, || stock.ended(comm, (stock.create)(comm, group, info, made), made)) }
    }

    unsafe extern "C" fn dup(comm: Object, info: Object, made: *mut Object) -> c_int {
        // SAFETY: as above.
        unsafe { stock.agree(comm, made, || class_of(comm, (stock.dup)(comm, info, made))) }
    }

    unsafe extern "C" fn idup(comm: Object, made: *mut Object, request: *mut *mut Request) -> c_int {
        // SAFETY: as above.
        unsafe { stock.start(comm, made, request, |request| begun((stock.idup)(comm, made, request), made, request)) }
    }

    unsafe extern "C" fn idup_with_info(
        comm: Object, info: Object, made: *mut Object, request: *mut *mut Request
    ) -> c_int {
        // SAFETY: as above.
        unsafe {
            let begin = |request| begun((stock.idup_with_info)(comm, info, made, request), made, request);
            stock.start(comm, made, request, begin)
        }
    }
}

/// The code of a constructor that was called with `comm`, with its class restored.
///
/// # Safety
/// A live communicator.
unsafe fn class_of(comm: Object, code: c_int) -> c_int {
    let is_lost = code != 0 && standing_of(code) == Standing::Sound && is_intercommunicator(comm);
    if is_lost { refusal(comm).unwrap_or(code) } else { code }
}

impl Stock {
    /// Runs `make` on a communicator. With a uniform intercommunicator all members get the result or none does.
    ///
    /// # Safety
    /// A live communicator, and the place where `make` stores the new one.
    unsafe fn agree(&self, comm: Object, made: *mut Object, make: impl FnOnce() -> c_int) -> c_int {
        if !is_intercommunicator(comm) {
            return make();
        }
        let null = self.null as Object;
        // SAFETY: as required of the caller; the place is null if the constructor does not begin.
        unsafe {
            made.write(null);
            let code = operations::agree_on(comm, About::Members, || {
                let code = make();
                operations::hold(made.read());
                code
            });
            settle::settle(made, code, null);
            code
        }
    }

    /// The same for a nonblocking constructor, which `begin` begins with a request of its own.
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
        operations::start_whole(comm, request, begin)
    }

    /// Ends a constructor that was called with `comm`.
    ///
    /// # Safety
    /// A live communicator, and the place where the new one was stored.
    unsafe fn ended(&self, comm: Object, code: c_int, made: *mut Object) -> c_int {
        if code != 0 {
            // SAFETY: as required of the caller. An incomplete intercommunicator may lack a part without which it
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

/// Handles the begin of `MPI_Comm_idup`, with this code.
///
/// # Safety
/// The places where it has stored its communicator and its request.
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

/// Restores the class when the request of `MPI_Comm_idup` is about to complete.
unsafe extern "C" fn duplicated(request: *mut Request) -> c_int {
    // SAFETY: Open MPI passes the request.
    guard(0, || unsafe {
        let nextcid_code = lock(&DUPLICATES).remove(&((*request).on_complete_data as usize));
        if Request::code(request) != 0 {
            nextcid_code.filter(|code| *code > 0).into_iter().for_each(|code| (*request).set_code(code));
            (*request).be_collective();
        }
        0
    })
}

in_front_of_cid! { stock = STOCK.get();
    fn nextcid(call of Object, request) {
        let (made, comm, mode) = (call.made, call.comm, call.mode);
        // SAFETY: the stock function with its original arguments, which stores its request there.
        unsafe {
            if let Some(code) = parallel_cid::begin(made, comm, mode, request) {
                return code;
            }
            let code = steps::nextcid(made, comm, mode, || call.start(stock.nextcid, request));
            let is_watched = code == 0 && lock(&DUPLICATES).contains_key(&(made as usize));
            if is_watched && !Request::is_complete(*request) && (**request).on_complete.is_none() {
                (**request).on_complete_data = made;
                (**request).on_complete = Some(note_nextcid_code);
            }
            code
        }
    }
}

/// Notes the code of an agreement on a context id that is about to end.
unsafe extern "C" fn note_nextcid_code(request: *mut Request) -> c_int {
    // SAFETY: Open MPI passes the request.
    guard(0, || unsafe {
        let made = (*request).on_complete_data as usize;
        lock(&DUPLICATES).get_mut(&made).into_iter().for_each(|code| *code = Request::code(request));
        0
    })
}

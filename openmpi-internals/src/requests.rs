//! Creates and completes requests of ringwatch with Open MPI 5.0's functions (request.h).

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use crate::classes::Classes;
use crate::loaded::Library;
use crate::object::{Class, Object};
use crate::request::{COMPLETED, Request, Status};
use crate::v5_0::functions::{OMPI_GREQUEST_COMPLETE, OPAL_POINTER_ARRAY_SET_ITEM};
use crate::v5_0::layout::mpi::MPI_UNDEFINED;
use crate::v5_0::layout::request::{
    OMPI_REQUEST_ACTIVE, OMPI_REQUEST_COLL, OMPI_REQUEST_INACTIVE, OMPI_REQUEST_INVALID,
};
use crate::v5_0::variables::{
    OMPI_COLL_BASE_NBC_REQUEST_T_CLASS, OMPI_REQUEST_EMPTY, OMPI_REQUEST_F_TO_C_TABLE, OMPI_REQUEST_NULL,
};

/// What Open MPI has for requests.
pub struct Requests {
    class: *mut Class,
    null: *mut Request,
    empty: *mut Request,
    in_fortran: Object,
    set_in_fortran: unsafe extern "C" fn(Object, c_int, Object) -> c_int,
    complete: unsafe extern "C" fn(*mut Request) -> c_int,
}

impl Requests {
    /// `None` if this Open MPI lacks something.
    pub fn find(library: &Library) -> Option<Self> {
        Some(Self {
            class: library.variable(OMPI_COLL_BASE_NBC_REQUEST_T_CLASS)?,
            null: library.predefined(OMPI_REQUEST_NULL)?,
            empty: library.variable(OMPI_REQUEST_EMPTY)?,
            in_fortran: library.variable(OMPI_REQUEST_F_TO_C_TABLE)?,
            set_in_fortran: library.function(OPAL_POINTER_ARRAY_SET_ITEM)?,
            complete: library.function(OMPI_GREQUEST_COMPLETE)?,
        })
    }

    /// A new request of the kind that collectives without blocking have, with room for what Open MPI keeps there; null
    /// if there is no memory.
    pub fn request(&self, classes: &Classes) -> *mut Request {
        // SAFETY: a class of Open MPI.
        unsafe { classes.object(self.class).cast() }
    }

    /// `MPI_REQUEST_NULL`
    pub fn null(&self) -> *mut Request {
        self.null
    }

    /// Open MPI's request of operations that have ended well.
    pub fn empty(&self) -> *mut Request {
        self.empty
    }

    /// Makes a request ready for its use on `comm`. A persistent one is active from its start.
    ///
    /// # Safety
    /// A request of [`request`](Self::request) that is not in use.
    pub unsafe fn open(&self, request: *mut Request, comm: Object, persistent: bool) {
        // SAFETY: as required of the caller.
        unsafe {
            let request = &mut *request;
            request.kind = OMPI_REQUEST_COLL;
            request.status = Status { source: -1, tag: -1, error: 0, cancelled: 0, count: 0 };
            request.complete.store(if persistent { COMPLETED } else { std::ptr::null_mut() }, Ordering::Release);
            request.state = if persistent { OMPI_REQUEST_INACTIVE } else { OMPI_REQUEST_ACTIVE };
            request.persistent = persistent;
            (request.start, request.free, request.cancel) = (None, None, None);
            (request.on_complete, request.on_complete_data) = (None, std::ptr::null_mut());
            request.comm = comm;
        }
    }

    /// Makes a persistent request active.
    ///
    /// # Safety
    /// One that was opened as persistent and is not active.
    pub unsafe fn activate(&self, request: *mut Request) {
        // SAFETY: as required of the caller.
        unsafe {
            (*request).status.error = 0;
            (*request).complete.store(std::ptr::null_mut(), Ordering::Release);
            (*request).state = OMPI_REQUEST_ACTIVE;
        }
    }

    /// Completes a request with this status, and wakes up the threads that wait for it.
    ///
    /// # Safety
    /// An active request.
    pub unsafe fn complete(&self, request: *mut Request, error: c_int) {
        // SAFETY: as required of the caller. The function gives back the reference that is added.
        unsafe {
            (*request).status.error = error;
            (*request).base.references.fetch_add(1, Ordering::AcqRel);
            (self.complete)(request);
        }
    }

    /// What every request's free function does: takes the handle from its owner.
    ///
    /// # Safety
    /// The handle of a request that has ended.
    pub unsafe fn close(&self, handle: *mut *mut Request) {
        // SAFETY: as required of the caller; a number in Fortran is an index of that table.
        unsafe {
            let request = &mut **handle;
            request.state = OMPI_REQUEST_INVALID;
            if request.index != MPI_UNDEFINED {
                (self.set_in_fortran)(self.in_fortran, request.index, std::ptr::null_mut());
                request.index = MPI_UNDEFINED;
            }
            handle.write(self.null);
        }
    }
}

//! Requests of Open MPI 5.0 (request.h), and how to make some of our own.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::objects::{Base, Class, Classes, Object};
use crate::openmpi::Library;

/// `OMPI_REQUEST_PML`.
const TYPE_MESSAGE: c_int = 0;
/// `OMPI_REQUEST_COLL`, `OMPI_REQUEST_INVALID`, `OMPI_REQUEST_INACTIVE` and `OMPI_REQUEST_ACTIVE`.
const TYPE_COLLECTIVE: c_int = 4;
const STATE_INVALID: c_int = 0;
const STATE_INACTIVE: c_int = 1;
const STATE_ACTIVE: c_int = 2;
/// `REQUEST_COMPLETED`.
const COMPLETED: Object = 1 as Object;
/// `MPI_ANY_TAG`, the tag of a message that is still waited for.
const ANY_TAG: c_int = -1;
/// `MPI_UNDEFINED`.
const UNDEFINED: c_int = -32766;

/// Makes persistent requests active.
pub type Start = unsafe extern "C" fn(usize, *mut *mut Request) -> c_int;

/// `ompi_status_public_t`.
#[repr(C)]
struct Status {
    source: c_int,
    tag: c_int,
    error: c_int,
    cancelled: c_int,
    count: usize,
}

/// `ompi_request_t`.
#[repr(C)]
pub struct Request {
    base: Base,
    list: [Object; 2],
    on_list: c_int,
    registration: [Object; 2],
    kind: c_int,
    status: Status,
    complete: AtomicPtr<c_void>,
    state: c_int,
    persistent: bool,
    index: c_int,
    pub start: Option<Start>,
    pub free: Option<unsafe extern "C" fn(*mut *mut Request) -> c_int>,
    cancel: Option<unsafe extern "C" fn(*mut Request, c_int) -> c_int>,
    /// Called as the request completes.
    pub on_complete: Option<unsafe extern "C" fn(*mut Request) -> c_int>,
    pub on_complete_data: Object,
    pub comm: Object,
}

const _: () = assert!(std::mem::offset_of!(Request, status) == 0x40);
const _: () = assert!(std::mem::offset_of!(Request, complete) == 0x58);
const _: () = assert!(std::mem::offset_of!(Request, free) == 0x78);
const _: () = assert!(std::mem::offset_of!(Request, on_complete) == 0x88);

impl Request {
    /// Whether the operation has ended.
    ///
    /// # Safety
    /// A request that lives.
    pub unsafe fn is_complete(request: *const Self) -> bool {
        // SAFETY: as required of the caller.
        unsafe { (*request).complete.load(Ordering::Acquire) == COMPLETED }
    }

    /// How it has ended.
    ///
    /// # Safety
    /// A request that has ended.
    pub unsafe fn code(request: *const Self) -> c_int {
        // SAFETY: as required of the caller.
        unsafe { (*request).status.error }
    }

    /// Its errors are those of its communicator from now on.
    pub fn be_collective(&mut self) {
        self.kind = TYPE_COLLECTIVE;
    }

    /// Ends the operation otherwise.
    pub fn set_code(&mut self, code: c_int) {
        self.status.error = code;
    }

    /// Whether it is a collective's: Open MPI has others for those without effect.
    ///
    /// # Safety
    /// A request that lives.
    pub unsafe fn is_collective(request: *const Self) -> bool {
        // SAFETY: as required of the caller.
        unsafe { (*request).kind == TYPE_COLLECTIVE }
    }

    /// Whether it is that of a message.
    ///
    /// # Safety
    /// A request that lives.
    pub unsafe fn is_message(request: *const Self) -> bool {
        // SAFETY: as required of the caller.
        unsafe { (*request).kind == TYPE_MESSAGE }
    }

    /// Whether a message that is received has been told from others.
    ///
    /// # Safety
    /// The request of a message.
    pub unsafe fn has_begun_to_arrive(request: *const Self) -> bool {
        // SAFETY: as required of the caller.
        unsafe { (*request).status.tag != ANY_TAG }
    }

    /// The rank from which such a message comes.
    ///
    /// # Safety
    /// As of [`has_begun_to_arrive`](Self::has_begun_to_arrive), which it has.
    pub unsafe fn source(request: *const Self) -> c_int {
        // SAFETY: as required of the caller.
        unsafe { (*request).status.source }
    }

    /// Ends the operation without its effect, if that is still possible.
    ///
    /// # Safety
    /// A request that lives.
    pub unsafe fn cancel(request: *mut Self) {
        // SAFETY: as required of the caller.
        unsafe {
            if let Some(cancel) = (*request).cancel {
                cancel(request, 1);
            }
        }
    }

    /// Gives a request back to its maker.
    ///
    /// # Safety
    /// A request that has ended and is not used again.
    pub unsafe fn give_back(mut request: *mut Self) {
        // SAFETY: as required of the caller; every request has this function.
        unsafe {
            if let Some(free) = (*request).free {
                free(&mut request);
            }
        }
    }
}

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
        // SAFETY: the types are those of request.h, grequest.h, coll_base_util.h and opal_pointer_array.h.
        unsafe {
            Some(Self {
                class: library.symbol(c"ompi_coll_base_nbc_request_t_class")?.cast(),
                null: library.predefined(c"ompi_request_null")?.cast(),
                empty: library.symbol(c"ompi_request_empty")?.cast(),
                in_fortran: library.symbol(c"ompi_request_f_to_c_table")?,
                set_in_fortran: library.function(c"opal_pointer_array_set_item")?,
                complete: library.function(c"ompi_grequest_complete")?,
            })
        }
    }

    /// A new request of the kind that collectives without blocking have, with room for what Open MPI keeps there; null
    /// if there is no memory.
    pub fn request(&self, classes: &Classes) -> *mut Request {
        // SAFETY: a class of Open MPI.
        unsafe { classes.object(self.class).cast() }
    }

    /// Open MPI's request of operations that have ended well.
    pub fn empty(&self) -> *mut Request {
        self.empty
    }

    /// Makes a request ready for its use on `comm`. A persistent one is active from its start.
    ///
    /// # Safety
    /// A request of [`request`](Self::request) that nobody uses.
    pub unsafe fn open(&self, request: *mut Request, comm: Object, persistent: bool) {
        // SAFETY: as required of the caller.
        unsafe {
            let request = &mut *request;
            request.kind = TYPE_COLLECTIVE;
            request.status = Status { source: -1, tag: -1, error: 0, cancelled: 0, count: 0 };
            request.complete.store(if persistent { COMPLETED } else { std::ptr::null_mut() }, Ordering::Release);
            request.state = if persistent { STATE_INACTIVE } else { STATE_ACTIVE };
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
            (*request).state = STATE_ACTIVE;
        }
    }

    /// Completes a request with this status, and wakes up who waits for it.
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
            request.state = STATE_INVALID;
            if request.index != UNDEFINED {
                (self.set_in_fortran)(self.in_fortran, request.index, std::ptr::null_mut());
                request.index = UNDEFINED;
            }
            handle.write(self.null);
        }
    }
}

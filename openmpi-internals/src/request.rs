//! Requests of Open MPI 5.0 (request.h), and how to make some of our own.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::object::{Base, Object};
use crate::v5_0::layout;
use crate::v5_0::layout::mpi::MPI_ANY_TAG;
use crate::v5_0::layout::request::{OMPI_REQUEST_ACTIVE, OMPI_REQUEST_COLL, OMPI_REQUEST_PML, REQUEST_COMPLETED};
use crate::wait_sync::WaitSync;

/// In place of the waiting thread: the request has completed.
pub(crate) const COMPLETED: Object = REQUEST_COMPLETED as Object;

/// Makes persistent requests active.
pub type Start = unsafe extern "C" fn(usize, *mut *mut Request) -> c_int;

/// `ompi_status_public_t`, which is `MPI_Status`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// `MPI_SOURCE`
    pub source: c_int,
    /// `MPI_TAG`
    pub tag: c_int,
    /// `MPI_ERROR`
    pub error: c_int,
    /// Whether it was cancelled.
    pub cancelled: c_int,
    /// Bytes that have been received.
    pub count: usize,
}

impl Status {
    /// The status of a message of so many bytes.
    pub fn of(source: c_int, tag: c_int, count: usize) -> Self {
        Self { source, tag, error: 0, cancelled: 0, count }
    }
}

/// `ompi_request_t`.
#[repr(C)]
pub struct Request {
    pub(crate) base: Base,
    list: [Object; 2],
    on_list: c_int,
    registration: [Object; 2],
    pub(crate) kind: c_int,
    pub(crate) status: Status,
    pub(crate) complete: AtomicPtr<c_void>,
    pub(crate) state: c_int,
    pub(crate) persistent: bool,
    pub(crate) index: c_int,
    /// Starts persistent requests.
    pub start: Option<Start>,
    /// Gives a request back.
    pub free: Option<unsafe extern "C" fn(*mut *mut Request) -> c_int>,
    pub(crate) cancel: Option<unsafe extern "C" fn(*mut Request, c_int) -> c_int>,
    /// Called as the request completes.
    pub on_complete: Option<unsafe extern "C" fn(*mut Request) -> c_int>,
    /// What is passed to that.
    pub on_complete_data: Object,
    /// Its communicator.
    pub comm: Object,
}

const _: () = assert!(offset_of!(Request, kind) == layout::request::REQ_TYPE);
const _: () = assert!(offset_of!(Request, status) == layout::request::REQ_STATUS);
const _: () = assert!(offset_of!(Request, complete) == layout::request::REQ_COMPLETE);
const _: () = assert!(offset_of!(Request, state) == layout::request::REQ_STATE);
const _: () = assert!(offset_of!(Request, persistent) == layout::request::REQ_PERSISTENT);
const _: () = assert!(offset_of!(Request, index) == layout::request::REQ_F_TO_C_INDEX);
const _: () = assert!(offset_of!(Request, start) == layout::request::REQ_START);
const _: () = assert!(offset_of!(Request, free) == layout::request::REQ_FREE);
const _: () = assert!(offset_of!(Request, cancel) == layout::request::REQ_CANCEL);
const _: () = assert!(offset_of!(Request, on_complete) == layout::request::REQ_COMPLETE_CB);
const _: () = assert!(offset_of!(Request, on_complete_data) == layout::request::REQ_COMPLETE_CB_DATA);
const _: () = assert!(offset_of!(Request, comm) == layout::request::REQ_MPI_OBJECT);
const _: () = assert!(offset_of!(Request, status) + offset_of!(Status, error) == layout::request::REQ_STATUS_ERROR);
const _: () = assert!(size_of::<Request>() == layout::request::SIZE);

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

    /// The code of a persistent one, and success for any other, which a call that completes it may have freed.
    ///
    /// # Safety
    /// A request that lives, or that Open MPI has for all operations without effect.
    pub unsafe fn code_if_persistent(request: *const Self) -> c_int {
        // SAFETY: as required of the caller.
        unsafe { if (*request).persistent { (*request).status.error } else { 0 } }
    }

    /// Continues an operation that has not ended: no thread waits for it any more, and a persistent request is active.
    ///
    /// # Safety
    /// An active request that lives, at the end of the call that has waited for it.
    pub unsafe fn go_on(request: *mut Self) {
        // SAFETY: as required of the caller. A thread that completes it meanwhile has set the word.
        unsafe {
            let waiter = (*request).complete.load(Ordering::Acquire);
            if waiter == COMPLETED {
                return;
            }
            let nobody = std::ptr::null_mut();
            let _ = (*request).complete.compare_exchange(waiter, nobody, Ordering::AcqRel, Ordering::Acquire);
            if (*request).persistent {
                (*request).state = OMPI_REQUEST_ACTIVE;
            }
        }
    }

    /// Ends a persistent operation as it begins.
    ///
    /// # Safety
    /// A persistent request that is not active.
    pub unsafe fn end_at_once(request: *mut Self, code: c_int) {
        // SAFETY: as required of the caller; no thread waits for it yet.
        unsafe {
            (*request).status.error = code;
            (*request).state = OMPI_REQUEST_ACTIVE;
            (*request).complete.store(COMPLETED, Ordering::Release);
        }
    }

    /// Makes it active, without an error. Whether it has completed stays as it is.
    ///
    /// # Safety
    /// A request that lives.
    pub unsafe fn begin(request: *mut Self) {
        // SAFETY: as required of the caller.
        unsafe {
            (*request).state = OMPI_REQUEST_ACTIVE;
            (*request).status.error = 0;
        }
    }

    /// Marks it as completed. Returns the thread's wait for that, or null.
    ///
    /// # Safety
    /// An active request.
    pub unsafe fn end(request: *mut Self) -> *mut WaitSync {
        // SAFETY: as required of the caller.
        unsafe { (*request).complete.swap(COMPLETED, Ordering::AcqRel).cast() }
    }

    /// Its errors are those of its communicator from now on.
    pub fn be_collective(&mut self) {
        self.kind = OMPI_REQUEST_COLL;
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
        unsafe { (*request).kind == OMPI_REQUEST_COLL }
    }

    /// Whether it is that of a message.
    ///
    /// # Safety
    /// A request that lives.
    pub unsafe fn is_message(request: *const Self) -> bool {
        // SAFETY: as required of the caller.
        unsafe { (*request).kind == OMPI_REQUEST_PML }
    }

    /// Whether a message has been matched to this receive.
    ///
    /// # Safety
    /// The request of a message.
    pub unsafe fn has_begun_to_arrive(request: *const Self) -> bool {
        // SAFETY: as required of the caller.
        unsafe { (*request).status.tag != MPI_ANY_TAG }
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

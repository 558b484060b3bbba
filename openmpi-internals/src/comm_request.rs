//! Executes the schedules of steps by which Open MPI makes communicators (comm_request.h, comm_request.c).

use std::ffi::{c_int, c_void};
use std::mem::offset_of;

use crate::object::Base;
use crate::request::Request;
use crate::v5_0::layout;
use crate::v5_0::layout::comm_request::{OMPI_COMM_REQ_FLAG_RETAIN_SUBREQ, OMPI_COMM_REQUEST_MAX_SUBREQ};

/// `ompi_comm_request_t`
#[repr(C)]
pub struct Schedule {
    /// What its maker waits for.
    pub request: Request,
    context: *mut c_void,
    steps: List,
}

/// `opal_list_t`
#[repr(C)]
struct List {
    base: Base,
    ends: Item,
    length: usize,
}

/// `opal_list_item_t`
#[repr(C)]
struct Item {
    base: Base,
    next: *mut Item,
    previous: *mut Item,
    on_list: usize,
}

/// `ompi_comm_request_item_t`
#[repr(C)]
pub struct Step {
    item: Item,
    then: Option<unsafe extern "C" fn(*mut Schedule) -> c_int>,
    requests: [*mut Request; OMPI_COMM_REQUEST_MAX_SUBREQ],
    flags: u32,
    count: c_int,
}

const _: () = assert!(offset_of!(Schedule, request) == layout::comm_request::SUPER);
const _: () = assert!(offset_of!(Schedule, context) == layout::comm_request::CONTEXT);
const _: () = assert!(offset_of!(Schedule, steps) == layout::comm_request::SCHEDULE);
const _: () = assert!(size_of::<Schedule>() == layout::comm_request::SIZE);
const _: () = assert!(offset_of!(List, ends) == layout::list::OPAL_LIST_SENTINEL);
const _: () = assert!(offset_of!(List, length) == layout::list::OPAL_LIST_LENGTH);
const _: () = assert!(size_of::<List>() == layout::list::SIZE);
const _: () = assert!(offset_of!(Item, next) == layout::list_item::OPAL_LIST_NEXT);
const _: () = assert!(offset_of!(Item, previous) == layout::list_item::OPAL_LIST_PREV);
const _: () = assert!(size_of::<Item>() == layout::list_item::SIZE);
const _: () = assert!(offset_of!(Step, then) == layout::comm_request_item::CALLBACK);
const _: () = assert!(offset_of!(Step, requests) == layout::comm_request_item::SUBREQS);
const _: () = assert!(offset_of!(Step, flags) == layout::comm_request_item::FLAGS);
const _: () = assert!(offset_of!(Step, count) == layout::comm_request_item::SUBREQ_COUNT);
const _: () = assert!(size_of::<Step>() == layout::comm_request_item::SIZE);

impl Schedule {
    /// Whether it has no further step.
    ///
    /// # Safety
    /// A schedule that lives and that no other thread executes.
    pub unsafe fn is_empty(schedule: *const Self) -> bool {
        // SAFETY: as required of the caller.
        unsafe { (*schedule).steps.length == 0 }
    }

    /// Executes the first step if its requests have completed; returns the result of its function, else 0. `has_failed`
    /// ends a request that can no longer complete, and returns whether it has done so.
    ///
    /// # Safety
    /// A schedule that was started, has not completed, and is executed by no other thread.
    pub unsafe fn step(schedule: *mut Self, has_failed: unsafe extern "C" fn(*mut Request) -> bool) -> c_int {
        // SAFETY: as required of the caller: its list holds steps, each of which has as many requests as it says.
        unsafe {
            if Self::is_empty(schedule) {
                return 0;
            }
            let first = (*schedule).steps.ends.next.cast::<Step>();
            while let Ok(last) = usize::try_from((*first).count - 1) {
                let request = (*first).requests[last];
                // Open MPI's own steps wait for ever for a message from a dead process, or for one begun after the
                // notice of the death.
                if !Request::is_complete(request) && !has_failed(request) {
                    return 0;
                }
                let code = Request::code(request);
                if code != 0 {
                    (*schedule).request.set_code(code);
                }
                if (*first).flags & OMPI_COMM_REQ_FLAG_RETAIN_SUBREQ == 0 {
                    Request::give_back(request);
                }
                (*first).count -= 1;
            }
            let (next, previous) = ((*first).item.next, (*first).item.previous);
            (*previous).next = next;
            (*next).previous = previous;
            (*schedule).steps.length -= 1;
            let code = (*first).then.map_or(0, |then| then(schedule));
            libc::free(first.cast());
            code
        }
    }
}

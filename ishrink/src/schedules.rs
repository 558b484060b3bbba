//! How Open MPI makes communicators: a schedule of steps, each of which waits for requests and then calls a function. Open
//! MPI carries the schedules of all out in one callback of the progress loop, where such a function may wait for the
//! runtime (comm_cid.c, `ompi_comm_allreduce_pmix_reduce_complete`). Those that a fiber starts are carried out on its stack.
//!
//! Structs are those of request.h, comm_request.c and opal_list.h of Open MPI 5.0 on x86-64.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::fibers;
use crate::internals::Internals;
use crate::members;
use crate::openmpi::behind;

/// `OMPI_REQUEST_ACTIVE`, `REQUEST_COMPLETED` and `OMPI_COMM_REQ_FLAG_RETAIN_SUBREQ`.
const ACTIVE: c_int = 2;
const COMPLETED: *mut fibers::Sync = std::ptr::without_provenance_mut(1);
const RETAIN: u32 = 1;

/// `ompi_request_t` up to what is used here.
#[repr(C)]
struct Request {
    base: [usize; 7],
    kind: [c_int; 2],
    source_and_tag: [c_int; 2],
    error: c_int,
    cancelled: c_int,
    count: usize,
    /// Whether it has completed, or who waits for that.
    complete: *mut fibers::Sync,
    state: c_int,
    index: c_int,
    persistent: c_int,
    start: usize,
    free: Option<unsafe extern "C" fn(*mut *mut Self) -> c_int>,
    rest: [usize; 4],
}

/// `ompi_comm_request_t`
#[repr(C)]
pub struct Schedule {
    request: Request,
    context: *mut c_void,
    list: List,
}

/// `opal_list_t`
#[repr(C)]
struct List {
    base: [usize; 2],
    ends: Link,
    length: usize,
}

/// `opal_list_item_t`
#[repr(C)]
struct Link {
    base: [usize; 2],
    next: *mut Link,
    previous: *mut Link,
    on_list: usize,
}

/// `ompi_comm_request_item_t`
#[repr(C)]
struct Step {
    link: Link,
    then: Option<unsafe extern "C" fn(*mut Schedule) -> c_int>,
    requests: [*mut Request; 2],
    flags: u32,
    count: c_int,
}

const _: () = assert!(std::mem::offset_of!(Request, error) == 0x48);
const _: () = assert!(std::mem::offset_of!(Request, complete) == 0x58);
const _: () = assert!(std::mem::offset_of!(Request, state) == 0x60);
const _: () = assert!(std::mem::offset_of!(Request, free) == 0x78);
const _: () = assert!(std::mem::offset_of!(Schedule, list) == 0xa8);
const _: () = assert!(std::mem::offset_of!(Step, then) == 0x28);
/// Sizes of a schedule and of a step, which Open MPI's classes say, too.
pub const SIZES: [usize; 2] = [size_of::<Schedule>(), size_of::<Step>()];

/// The schedules that a fiber has started and that are not done.
#[derive(Default)]
pub struct Schedules {
    all: RefCell<Vec<*mut Schedule>>,
    /// A step is being carried out, and may have paused.
    advancing: Cell<bool>,
}

impl Schedules {
    /// Carries one step of each out, as far as nothing has to be waited for.
    pub fn advance(&self) {
        let Some(inside) = Internals::get() else { return };
        if self.advancing.replace(true) {
            return;
        }
        let mut index = 0;
        loop {
            let Some(schedule) = self.all.borrow().get(index).copied() else { break };
            // SAFETY: Open MPI's schedule, which nobody else carries out; its owner frees it after it has completed. A
            // step may start further ones.
            unsafe {
                let code = step(schedule, inside.has_failed);
                if (*schedule).list.length == 0 {
                    self.all.borrow_mut().remove(index);
                    complete(schedule, code);
                } else {
                    index += 1;
                }
            }
        }
        self.advancing.set(false);
    }
}

/// Does the first step if its requests have completed; returns what its function has returned, else 0.
///
/// # Safety
/// A schedule that was started and has not completed.
unsafe fn step(schedule: *mut Schedule, has_failed: unsafe extern "C" fn(*mut c_void) -> bool) -> c_int {
    // SAFETY: as required of the caller: its list holds steps, each of which has as many requests as it says.
    unsafe {
        if (*schedule).list.length == 0 {
            return 0;
        }
        let first = (*schedule).list.ends.next.cast::<Step>();
        while let Ok(last) = usize::try_from((*first).count - 1) {
            let mut request = (*first).requests[last];
            // Open MPI's own steps are left waiting where a message is to come from the dead, or was begun after the news.
            if (&raw const (*request).complete).read_volatile() != COMPLETED && !has_failed(request.cast()) {
                return 0;
            }
            if (*request).error != 0 {
                (*schedule).request.error = (*request).error;
            }
            if let Some(free) = (*request).free.filter(|_| (*first).flags & RETAIN == 0) {
                free(&mut request);
            }
            (*first).count -= 1;
        }
        let (next, previous) = ((*first).link.next, (*first).link.previous);
        (*previous).next = next;
        (*next).previous = previous;
        (*schedule).list.length -= 1;
        let code = (*first).then.map_or(0, |then| then(schedule));
        libc::free(first.cast());
        code
    }
}

/// # Safety
/// A schedule without further steps.
unsafe fn complete(schedule: *mut Schedule, code: c_int) {
    // SAFETY: as required of the caller; only the fiber waits for it.
    unsafe {
        // An error of a step's requests counts here, too: Open MPI would forget it, and try again for ever.
        if code != 0 {
            (*schedule).request.error = code;
        }
        let waiting = (&raw mut (*schedule).request.complete).replace(COMPLETED);
        if !waiting.is_null() {
            fibers::Sync::end(waiting, 0);
        }
    }
}

/// The error code of a request that has completed.
///
/// # Safety
/// A request of Open MPI's that lives.
pub unsafe fn result_of(request: *mut c_void) -> Option<c_int> {
    let request = request.cast::<Request>();
    // SAFETY: as required of the caller; another thread may complete it.
    unsafe {
        let complete = AtomicPtr::from_ptr(&raw mut (*request).complete).load(Ordering::Acquire);
        (complete == COMPLETED).then(|| (*request).error)
    }
}

/// Gives a request back.
///
/// # Safety
/// One that has completed, and that nobody else has.
pub unsafe fn give_back(request: *mut c_void) {
    let mut request = request.cast::<Request>();
    // SAFETY: as required of the caller.
    unsafe {
        if let Some(free) = (*request).free {
            free(&mut request);
        }
    }
}

type Start = unsafe extern "C" fn(*mut Schedule);

/// Starts a schedule.
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_comm_request_start(schedule: *mut Schedule) {
    static BEHIND: OnceLock<Option<Start>> = OnceLock::new();
    // SAFETY: the type is that of comm_request.h; passed on as it came, or a schedule that was filled in to be started.
    unsafe {
        match fibers::current() {
            None => BEHIND.get_or_init(|| behind(c"ompi_comm_request_start")).iter().for_each(|start| start(schedule)),
            Some(fiber) => {
                (*schedule).request.state = ACTIVE;
                (*schedule).request.error = 0;
                fiber.schedules.all.borrow_mut().push(schedule);
                if fiber.hands_turn_on.get() && fiber.schedules.advancing.get() {
                    // A step of another one, which has the turn to number communicators, waits for this one.
                    members::begin_to_hand_on_turn();
                }
            }
        }
    }
}

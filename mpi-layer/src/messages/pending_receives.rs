//! Corrects the results of the functions that complete requests after a death, above all for pending any-source
//! receives.
//!
//! All functions of MPI complete requests through one table, `ompi_request_functions` (request.h); ringwatch replaces
//! its entries.
//!
//! - Open MPI writes MPI_ERR_PROC_FAILED_PENDING into such a receive, and clears it only when it checks an incomplete
//!   request (`ompi_request_is_failed_fn`, req_ft.c). A request whose message arrives outside a wait, in any turn of
//!   the progress loop, keeps the error, and every later call returns it instead of the message. ringwatch clears the
//!   error at the start of each function; Open MPI sets it again where it still holds.
//! - MPI_Waitany and MPI_Waitsome return from a pending request with a pointer to their own stack frame left in it
//!   (req_wait.c, `ompi_request_default_wait_any` and `_wait_some`). Its message then overwrites stack memory,
//!   MPI_Request_get_status takes it for complete, and the next wait misses its completion. MPI_Waitsome also counts
//!   incomplete requests as complete beside it. After a death both poll MPI_Testany or MPI_Testsome instead. The call
//!   in which the death is first seen removes the pointers.
//! - MPI_Testany, MPI_Testall and MPI_Waitall return success although a persistent request failed; at best its status
//!   holds the error (same files). ringwatch returns the error.

use std::ffi::c_int;
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Once, OnceLock};

use crate::failure::deaths;
use crate::in_front::in_front;
use openmpi_internals::error_class::{ERR_IN_STATUS, ERR_INTERN, ERR_PROC_FAILED_PENDING};
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::request_functions;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::variables::OMPI_REQUEST_FUNCTIONS;

/// A status, or an array of them.
type Status = Object;
type Handles = *mut *mut Request;
type Test = unsafe extern "C-unwind" fn(Handles, *mut c_int, Status) -> c_int;
type TestAny = unsafe extern "C-unwind" fn(usize, Handles, *mut c_int, *mut c_int, Status) -> c_int;
type TestAll = unsafe extern "C-unwind" fn(usize, Handles, *mut c_int, Status) -> c_int;
type Several = unsafe extern "C-unwind" fn(usize, Handles, *mut c_int, *mut c_int, Status) -> c_int;
type Wait = unsafe extern "C-unwind" fn(Handles, Status) -> c_int;
type WaitAny = unsafe extern "C-unwind" fn(usize, Handles, *mut c_int, Status) -> c_int;
type WaitAll = unsafe extern "C-unwind" fn(usize, Handles, Status) -> c_int;

/// `ompi_request_fns_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct Functions {
    test: Test,
    test_any: TestAny,
    test_all: TestAll,
    test_some: Several,
    wait: Wait,
    wait_any: WaitAny,
    wait_all: WaitAll,
    wait_some: Several,
}

const _: () = assert!(offset_of!(Functions, test) == request_functions::REQ_TEST * size_of::<Object>());
const _: () = assert!(offset_of!(Functions, test_any) == request_functions::REQ_TEST_ANY * size_of::<Object>());
const _: () = assert!(offset_of!(Functions, test_all) == request_functions::REQ_TEST_ALL * size_of::<Object>());
const _: () = assert!(offset_of!(Functions, test_some) == request_functions::REQ_TEST_SOME * size_of::<Object>());
const _: () = assert!(offset_of!(Functions, wait) == request_functions::REQ_WAIT * size_of::<Object>());
const _: () = assert!(offset_of!(Functions, wait_any) == request_functions::REQ_WAIT_ANY * size_of::<Object>());
const _: () = assert!(offset_of!(Functions, wait_all) == request_functions::REQ_WAIT_ALL * size_of::<Object>());
const _: () = assert!(offset_of!(Functions, wait_some) == request_functions::REQ_WAIT_SOME * size_of::<Object>());

static TABLE: OnceLock<usize> = OnceLock::new();
static STOCK: OnceLock<Functions> = OnceLock::new();

/// Interposes on the functions that wait for several requests. At the end of `MPI_Init`.
pub fn install(at: &Installer) -> Result<(), Missing> {
    let table = at.variable(OMPI_REQUEST_FUNCTIONS)?;
    // SAFETY: the type is that of request.h; the thread in MPI_Init is alone in MPI.
    let _ = STOCK.set(unsafe { table.cast::<Functions>().read() });
    let _ = TABLE.set(table as usize);
    interpose(&[
        (offset_of!(Functions, wait_any), wait_any as Object),
        (offset_of!(Functions, wait_all), wait_all as Object),
        (offset_of!(Functions, wait_some), wait_some as Object),
    ]);
    if deaths::are_known() {
        member_died();
    }
    Ok(())
}

/// Handles the death of a communicator's member. The first call interposes on the remaining functions, which stay
/// untouched until then.
pub fn member_died() {
    static FIRST: Once = Once::new();
    if TABLE.get().is_some() {
        FIRST.call_once(|| {
            interpose(&[
                (offset_of!(Functions, test), test as Object),
                (offset_of!(Functions, test_any), test_any as Object),
                (offset_of!(Functions, test_all), test_all as Object),
                (offset_of!(Functions, test_some), test_some as Object),
                (offset_of!(Functions, wait), wait as Object),
            ]);
        });
    }
}

fn interpose(functions: &[(usize, Object)]) {
    let Some(table) = TABLE.get() else { return };
    for (place, function) in functions {
        // SAFETY: a word of that table, written atomically: a reader gets the old or the new function.
        unsafe { (*((table + place) as *const AtomicPtr<_>)).store(*function, Ordering::Release) };
    }
}

/// Clears the pending error of these requests.
///
/// # Safety
/// `count` live requests.
unsafe fn renew(count: usize, requests: Handles) {
    for index in 0..count {
        // SAFETY: as required of the caller.
        unsafe {
            let request = *requests.add(index);
            if Request::is_message(request) && Request::code(request) == ERR_PROC_FAILED_PENDING {
                (*request).set_code(0);
            }
        }
    }
}

/// Removes the pointers that a returned call left in incomplete requests. Persistent requests stay active.
///
/// # Safety
/// As of [`renew`]; no other thread waits for them.
unsafe fn detach(count: usize, requests: Handles) {
    for index in 0..count {
        // SAFETY: as required of the caller.
        unsafe {
            let request = *requests.add(index);
            if Request::is_message(request) && Request::code(request) == ERR_PROC_FAILED_PENDING {
                Request::go_on(request);
            }
        }
    }
}

/// The return code of a call that has completed all of these requests with success, as Open MPI sees it.
///
/// # Safety
/// As of [`renew`], or Open MPI's placeholder for completed requests.
unsafe fn code_of_persistent(count: usize, requests: Handles) -> c_int {
    // SAFETY: as required of the caller.
    let has_failed = |index| unsafe { Request::code_if_persistent(*requests.add(index)) != 0 };
    if (0..count).any(has_failed) { ERR_IN_STATUS } else { 0 }
}

in_front! { stock = STOCK.get(), or ERR_INTERN;
    unsafe extern "C-unwind" fn test(request: Handles, flag: *mut c_int, status: Status) -> c_int {
        // SAFETY: Open MPI passes a live request, for the stock function.
        unsafe {
            renew(1, request);
            (stock.test)(request, flag, status)
        }
    }

    unsafe extern "C-unwind" fn test_any(
        count: usize, requests: Handles, index: *mut c_int, flag: *mut c_int, status: Status
    ) -> c_int {
        // SAFETY: as above.
        unsafe {
            renew(count, requests);
            let code = (stock.test_any)(count, requests, index, flag, status);
            let place = usize::try_from(*index).ok().filter(|place| code == 0 && *flag != 0 && *place < count);
            place.map_or(code, |place| Request::code_if_persistent(*requests.add(place)))
        }
    }

    unsafe extern "C-unwind" fn test_all(
        count: usize, requests: Handles, flag: *mut c_int, statuses: Status
    ) -> c_int {
        // SAFETY: as above.
        unsafe {
            renew(count, requests);
            let code = (stock.test_all)(count, requests, flag, statuses);
            if code == 0 && *flag != 0 { code_of_persistent(count, requests) } else { code }
        }
    }

    unsafe extern "C-unwind" fn test_some(
        count: usize, requests: Handles, ended: *mut c_int, indices: *mut c_int, statuses: Status
    ) -> c_int {
        // SAFETY: as above.
        unsafe {
            renew(count, requests);
            (stock.test_some)(count, requests, ended, indices, statuses)
        }
    }

    unsafe extern "C-unwind" fn wait(request: Handles, status: Status) -> c_int {
        // SAFETY: as above.
        unsafe {
            renew(1, request);
            (stock.wait)(request, status)
        }
    }

    unsafe extern "C-unwind" fn wait_all(count: usize, requests: Handles, statuses: Status) -> c_int {
        // SAFETY: as above.
        unsafe {
            if deaths::are_known() {
                renew(count, requests);
            }
            let code = (stock.wait_all)(count, requests, statuses);
            if code == 0 && deaths::are_known() { code_of_persistent(count, requests) } else { code }
        }
    }

    unsafe extern "C-unwind" fn wait_any(
        count: usize, requests: Handles, index: *mut c_int, status: Status
    ) -> c_int {
        let mut has_ended = 0;
        // SAFETY: as above.
        unsafe {
            wait_for_one(
                (count, requests),
                || (stock.wait_any)(count, requests, index, status),
                || (test_any(count, requests, index, &mut has_ended, status), has_ended != 0),
            )
        }
    }

    unsafe extern "C-unwind" fn wait_some(
        count: usize, requests: Handles, ended: *mut c_int, indices: *mut c_int, statuses: Status
    ) -> c_int {
        // SAFETY: as above.
        unsafe {
            wait_for_one(
                (count, requests),
                || (stock.wait_some)(count, requests, ended, indices, statuses),
                || (test_some(count, requests, ended, indices, statuses), *ended != 0),
            )
        }
    }
}

/// Waits until a request is complete: through Open MPI's function while no death is known, and by polling afterwards.
/// `test` returns a code, and whether a request is complete.
///
/// # Safety
/// As of [`renew`].
unsafe fn wait_for_one(
    (count, requests): (usize, Handles),
    wait: impl FnOnce() -> c_int,
    mut test: impl FnMut() -> (c_int, bool),
) -> c_int {
    if !deaths::are_known() {
        let code = wait();
        if deaths::are_known() {
            // SAFETY: as required of the caller.
            unsafe { detach(count, requests) };
        }
        return code;
    }
    loop {
        let (code, has_ended) = test();
        if code != 0 || has_ended {
            return code;
        }
    }
}

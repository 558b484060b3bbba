//! Ends of requests.
//!
//! Which receive has ended is the protocol's matter where the program could see another one. A send has always ended.
//! Of several requests `MPI_Waitsome` and `MPI_Testsome` return one, as MPI allows.

mod ending;

use std::ffi::c_int;

use mpi_entry::entries::Handler;
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::layout::mpi::{MPI_ERR_REQUEST, MPI_UNDEFINED};
use openmpi_internals::request::{Request, Status};
use openmpi_internals::sync::lock;

use self::ending::{
    Handle, are_foreign, end_one, is_foreign, look_at, settle, slice, stock, tell_errors, wait_for, wait_one,
};
use crate::data::ok;
use crate::handlers::handlers;
use crate::layer::{Layer, answer_plainly};
use crate::progress;
use crate::requests::State;
use crate::statuses::{cancelled_status, empty_status, tell};

pub(super) const HANDLERS: &[Handler] = handlers! {
    "Wait" => wait, "Waitall" => waitall, "Waitany" => waitany, "Waitsome" => waitsome,
    "Test" => test, "Testall" => testall, "Testany" => testany, "Testsome" => testsome,
    "Request_get_status" => request_get_status, "Request_free" => request_free, "Cancel" => cancel,
};

unsafe extern "C-unwind" fn wait(request: Handle, status: *mut Status) -> c_int {
    type Wait = unsafe extern "C-unwind" fn(Handle, *mut Status) -> c_int;
    answer_plainly(|layer| {
        // SAFETY: the place of a handle, and room for a status, or none.
        unsafe {
            if is_foreign(layer, *request) {
                return ok(stock::<Wait>("Wait")?(request, status));
            }
            wait_one(layer, &mut *request, status)
        }
    })
}

unsafe extern "C-unwind" fn waitall(count: c_int, requests: Handle, statuses: *mut Status) -> c_int {
    type Waitall = unsafe extern "C-unwind" fn(c_int, Handle, *mut Status) -> c_int;
    answer_plainly(|layer| {
        // SAFETY: so many handles, and room for as many statuses, or none.
        unsafe {
            let all = slice(requests, count);
            if are_foreign(layer, all)? {
                return ok(stock::<Waitall>("Waitall")?(count, requests, statuses));
            }
            let mut codes = Vec::with_capacity(all.len());
            for (place, request) in all.iter_mut().enumerate() {
                let status = if statuses.is_null() { statuses } else { statuses.add(place) };
                codes.push(wait_one(layer, request, status).err().unwrap_or(0));
            }
            tell_errors(&codes, statuses)
        }
    })
}

unsafe extern "C-unwind" fn waitany(count: c_int, requests: Handle, index: *mut c_int, status: *mut Status) -> c_int {
    type Waitany = unsafe extern "C-unwind" fn(c_int, Handle, *mut c_int, *mut Status) -> c_int;
    answer_plainly(|layer| {
        // SAFETY: so many handles, and room for the answers.
        unsafe {
            let all = slice(requests, count);
            if are_foreign(layer, all)? {
                return ok(stock::<Waitany>("Waitany")?(count, requests, index, status));
            }
            *index = match end_one(layer, all, status, true)? {
                Some(place) => place.ok_or(ERR_INTERN)? as c_int,
                None => {
                    tell(status, empty_status());
                    MPI_UNDEFINED
                }
            };
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn waitsome(
    count: c_int,
    requests: Handle,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: so many handles, and room for the answers.
    answer_plainly(|layer| unsafe { some(layer, "Waitsome", true, count, requests, outcount, indices, statuses) })
}

unsafe extern "C-unwind" fn testsome(
    count: c_int,
    requests: Handle,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: so many handles, and room for the answers.
    answer_plainly(|layer| unsafe { some(layer, "Testsome", false, count, requests, outcount, indices, statuses) })
}

/// # Safety
/// So many handles, and room for the answers.
#[allow(clippy::too_many_arguments, reason = "the arguments of MPI's function")]
unsafe fn some(
    layer: &'static Layer,
    name: &str,
    waits: bool,
    count: c_int,
    requests: Handle,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> Result<(), c_int> {
    type Some_ = unsafe extern "C-unwind" fn(c_int, Handle, *mut c_int, *mut c_int, *mut Status) -> c_int;
    // SAFETY: as required of the caller.
    unsafe {
        let all = slice(requests, count);
        if are_foreign(layer, all)? {
            return ok(stock::<Some_>(name)?(count, requests, outcount, indices, statuses));
        }
        *outcount = match end_one(layer, all, statuses, waits)? {
            None => MPI_UNDEFINED,
            Some(None) => 0,
            Some(Some(place)) => {
                *indices = place as c_int;
                1
            }
        };
    }
    Ok(())
}

unsafe extern "C-unwind" fn test(request: Handle, flag: *mut c_int, status: *mut Status) -> c_int {
    type Test = unsafe extern "C-unwind" fn(Handle, *mut c_int, *mut Status) -> c_int;
    answer_plainly(|layer| {
        // SAFETY: the place of a handle, and room for the answers.
        unsafe {
            if is_foreign(layer, *request) {
                return ok(stock::<Test>("Test")?(request, flag, status));
            }
            let ended = end_one(layer, slice(request, 1), status, false)?;
            *flag = c_int::from(ended != Some(None));
            if ended.is_none() {
                tell(status, empty_status());
            }
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn testany(
    count: c_int,
    requests: Handle,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    type Testany = unsafe extern "C-unwind" fn(c_int, Handle, *mut c_int, *mut c_int, *mut Status) -> c_int;
    answer_plainly(|layer| {
        // SAFETY: so many handles, and room for the answers.
        unsafe {
            let all = slice(requests, count);
            if are_foreign(layer, all)? {
                return ok(stock::<Testany>("Testany")?(count, requests, index, flag, status));
            }
            let ended = end_one(layer, all, status, false)?;
            *flag = c_int::from(ended != Some(None));
            *index = ended.flatten().map_or(MPI_UNDEFINED, |place| place as c_int);
            if ended.is_none() {
                tell(status, empty_status());
            }
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn testall(count: c_int, requests: Handle, flag: *mut c_int, statuses: *mut Status) -> c_int {
    type Testall = unsafe extern "C-unwind" fn(c_int, Handle, *mut c_int, *mut Status) -> c_int;
    answer_plainly(|layer| {
        // SAFETY: so many handles, and room for the answers.
        unsafe {
            let all = slice(requests, count);
            if are_foreign(layer, all)? {
                return ok(stock::<Testall>("Testall")?(count, requests, flag, statuses));
            }
            *flag = 0;
            progress::poll(layer)?;
            let several = look_at(layer, all);
            if several.has_operation || (!several.receives.is_empty() && !settle(layer, all, &several)?) {
                return Ok(());
            }
            *flag = 1;
            let mut codes = Vec::with_capacity(all.len());
            for (place, request) in all.iter_mut().enumerate() {
                let status = if statuses.is_null() { statuses } else { statuses.add(place) };
                codes.push(wait_one(layer, request, status).err().unwrap_or(0));
            }
            tell_errors(&codes, statuses)
        }
    })
}

unsafe extern "C-unwind" fn request_get_status(request: *mut Request, flag: *mut c_int, status: *mut Status) -> c_int {
    type Get = unsafe extern "C-unwind" fn(*mut Request, *mut c_int, *mut Status) -> c_int;
    answer_plainly(|layer| {
        // SAFETY: a handle, and room for the answers.
        unsafe {
            if is_foreign(layer, request) {
                return ok(stock::<Get>("Request_get_status")?(request, flag, status));
            }
            progress::poll(layer)?;
            let several = look_at(layer, &[request]);
            let has_ended = several.receives.is_empty() || settle(layer, &[request], &several)?;
            *flag = c_int::from(has_ended && !several.has_operation);
            if *flag != 0 {
                let state = lock(&layer.requests).state(request);
                let ended = if matches!(state, State::Idle) { Ok(empty_status()) } else { wait_for(layer, request) };
                tell(status, ended?);
            }
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn request_free(request: Handle) -> c_int {
    type Free = unsafe extern "C-unwind" fn(Handle) -> c_int;
    answer_plainly(|layer| {
        // SAFETY: the place of a handle.
        unsafe {
            if is_foreign(layer, *request) {
                return ok(stock::<Free>("Request_free")?(request));
            }
            if lock(&layer.requests).is_null(*request) {
                return Err(MPI_ERR_REQUEST);
            }
            let state = lock(&layer.requests).state(*request);
            if let State::Receive(number, _) = state {
                lock(&layer.protocol).let_go(number)?;
            }
            lock(&layer.requests).free(request);
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn cancel(request: Handle) -> c_int {
    type Cancel = unsafe extern "C-unwind" fn(Handle) -> c_int;
    answer_plainly(|layer| {
        // SAFETY: the place of a handle.
        let request_of = unsafe { *request };
        if is_foreign(layer, request_of) {
            // SAFETY: as above.
            return ok(unsafe { stock::<Cancel>("Cancel")?(request) });
        }
        let state = lock(&layer.requests).state(request_of);
        match state {
            // It has ended already, with effect.
            State::Done(_) => {}
            State::Receive(number, _) => {
                if lock(&layer.protocol).cancel(number)? {
                    lock(&layer.requests).set(request_of, State::Done(Ok(cancelled_status())));
                }
            }
            State::Operation(_) | State::Idle | State::Foreign => return Err(MPI_ERR_REQUEST),
        }
        Ok(())
    })
}

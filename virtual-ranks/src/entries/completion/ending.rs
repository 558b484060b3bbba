//! How requests end: one that is named, one of several, or all of several at once.

use std::ffi::{c_int, c_void};

use mpi_entry::entries::next;
use openmpi_internals::error_class::{ERR_IN_STATUS, ERR_INTERN, ERR_UNSUPPORTED};
use openmpi_internals::request::{Request, Status};
use openmpi_internals::sync::lock;

use crate::layer::{Layer, status as status_of};
use crate::progress::{self, Event};
use crate::requests::State;
use crate::statuses::{empty_status, tell};

pub(super) type Handle = *mut *mut Request;

/// How a request has ended that the program has named.
pub(super) type End = Result<Status, c_int>;

/// Whether a request is not the layer's: one that the program completes itself.
pub(super) fn is_foreign(layer: &Layer, request: *mut Request) -> bool {
    let requests = lock(&layer.requests);
    !requests.is_null(request) && matches!(requests.state(request), State::Foreign)
}

pub(super) fn are_foreign(layer: &Layer, requests: &[*mut Request]) -> Result<bool, c_int> {
    match requests.iter().filter(|request| is_foreign(layer, **request)).count() {
        0 => Ok(false),
        _ if requests.iter().all(|request| is_foreign(layer, *request) || lock(&layer.requests).is_null(*request)) => {
            Ok(true)
        }
        _ => Err(ERR_UNSUPPORTED),
    }
}

/// Open MPI's function of a name.
///
/// # Safety
/// `F` is its type.
pub(super) unsafe fn stock<F: Copy>(name: &str) -> Result<F, c_int> {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) }
    let address = next(name).ok_or(ERR_INTERN)?;
    // SAFETY: as required of the caller.
    Ok(unsafe { std::mem::transmute_copy(&address) })
}

/// # Safety
/// So many handles.
pub(super) unsafe fn slice<'a>(requests: Handle, count: c_int) -> &'a mut [*mut Request] {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: as required of the caller.
    if count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(requests, count) } }
}

/// Ends a request for the program.
pub(super) fn end(layer: &Layer, place: &mut *mut Request, end: End, status: *mut Status) -> Result<(), c_int> {
    // SAFETY: the place of a handle; room for a status, or none.
    unsafe {
        lock(&layer.requests).end(place);
        tell(status, end?);
    }
    Ok(())
}

/// Waits for one request, which is the layer's.
pub(super) fn wait_for(layer: &'static Layer, request: *mut Request) -> End {
    let state = lock(&layer.requests).state(request);
    match state {
        State::Done(end) => end,
        State::Receive(number, comm) => progress::wait(layer, &comm, number),
        State::Operation(ending) => progress::finish(layer, &ending).map(|()| empty_status()),
        State::Idle | State::Foreign => Ok(empty_status()),
    }
}

pub(super) fn wait_one(layer: &'static Layer, request: &mut *mut Request, status: *mut Status) -> Result<(), c_int> {
    if is_inactive(layer, *request) {
        // SAFETY: room for a status, or none.
        unsafe { tell(status, empty_status()) };
        return Ok(());
    }
    let ended = wait_for(layer, *request);
    end(layer, request, ended, status)
}

pub(super) fn is_inactive(layer: &Layer, request: *mut Request) -> bool {
    let requests = lock(&layer.requests);
    requests.is_null(request) || matches!(requests.state(request), State::Idle)
}

/// # Safety
/// Room for as many statuses, or none.
pub(super) unsafe fn tell_errors(codes: &[c_int], statuses: *mut Status) -> Result<(), c_int> {
    if codes.iter().all(|code| *code == 0) {
        return Ok(());
    }
    if !statuses.is_null() {
        for (place, code) in codes.iter().enumerate() {
            // SAFETY: as required of the caller.
            unsafe { (*statuses.add(place)).error = *code };
        }
    }
    Err(ERR_IN_STATUS)
}

/// What several requests are, of which one is to end.
pub(super) struct Several {
    /// The first that has ended already.
    done: Option<usize>,
    /// Whether one is active.
    pub(super) is_active: bool,
    /// Receives, by their places.
    pub(super) receives: Vec<(usize, u64)>,
    /// Whether a collective operation has not ended.
    pub(super) has_operation: bool,
}

pub(super) fn look_at(layer: &Layer, requests: &[*mut Request]) -> Several {
    let table = lock(&layer.requests);
    let mut several = Several { done: None, is_active: false, receives: Vec::new(), has_operation: false };
    for (place, request) in requests.iter().enumerate().filter(|(_, request)| !table.is_null(**request)) {
        match table.state(*request) {
            State::Done(_) => several.done = several.done.or(Some(place)),
            State::Operation(ending) if ending.get().is_some() => several.done = several.done.or(Some(place)),
            State::Operation(_) => several.has_operation = true,
            State::Receive(number, _) => several.receives.push((place, number)),
            State::Idle | State::Foreign => continue,
        }
        several.is_active = true;
    }
    several
}

/// Ends one of several requests. Returns its place; `None` if none is active, and `Some(None)` if none has ended and
/// nobody `waits`.
pub(super) fn end_one(
    layer: &'static Layer,
    requests: &mut [*mut Request],
    status: *mut Status,
    waits: bool,
) -> Result<Option<Option<usize>>, c_int> {
    let (several, request, got) = loop {
        let several = look_at(layer, requests);
        if !several.is_active {
            return Ok(None);
        }
        if let Some(place) = several.done {
            let ended = wait_for(layer, requests[place]);
            end(layer, &mut requests[place], ended, status)?;
            return Ok(Some(Some(place)));
        }
        let numbers: Vec<u64> = several.receives.iter().map(|(_, number)| *number).collect();
        match progress::event(layer, &numbers, waits)? {
            Event::Nothing => return Ok(Some(None)),
            Event::Received(request, got) => break (several, request, got),
            Event::Advanced => {}
        }
    };
    let (place, _) = *several.receives.iter().find(|(_, number)| *number == request).ok_or(ERR_INTERN)?;
    let State::Receive(_, comm) = lock(&layer.requests).state(requests[place]) else { return Err(ERR_INTERN) };
    end(layer, &mut requests[place], status_of(&comm, got), status)?;
    Ok(Some(Some(place)))
}

/// Tests receives that all have to end at once. Returns whether they have.
pub(super) fn settle(layer: &Layer, requests: &[*mut Request], several: &Several) -> Result<bool, c_int> {
    let numbers = several.receives.iter().map(|(_, number)| *number).collect();
    let Some(received) = lock(&layer.protocol).end_all(numbers)? else { return Ok(false) };
    let mut table = lock(&layer.requests);
    for (got, (place, _)) in received.into_iter().zip(&several.receives) {
        if let State::Receive(_, comm) = table.state(requests[*place]) {
            table.set(requests[*place], State::Done(status_of(&comm, got)));
        }
    }
    Ok(true)
}

//! Operations go on: those for which the program waits, and those that go on meanwhile.
//!
//! | a call of the program | operations that have begun |
//! |---|---|
//! | waits for a message or an operation | go on with what has arrived until its end |
//! | tests or probes | go on with what has arrived |
//! | another one | rest |
//!
//! A replacement or a replica does the same: an operation goes on by calls of the protocol alone, which determines in
//! which order messages are seen where there is more than one to wait for. So the layer is a part of the program.

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use event_log::determinant::Rank;
use event_log::protocol::units::Request;
use openmpi_internals::request::Status;
use openmpi_internals::sync::lock;

use crate::comms::Comm;
use crate::data::ok;
use crate::layer::{Layer, status};
use crate::operation::{Ending, Operation};
use crate::protocol::Got;
use crate::schedule::Step;

/// What has happened.
pub enum Event {
    /// Nothing.
    Nothing,
    /// One of the receives has ended that were asked for.
    Received(Request, Got),
    /// An operation has gone on.
    Advanced,
}

/// The next of these receives that ends, or that an operation goes on.
///
/// # Errors
/// The error class.
pub fn event(layer: &'static Layer, wanted: &[Request], waits: bool) -> Result<Event, c_int> {
    let mut requests = wanted.to_vec();
    requests.extend(lock(&layer.operations).receives());
    let ended = lock(&layer.protocol).end_one(requests, waits)?;
    let Some((request, got)) = ended else { return Ok(Event::Nothing) };
    if wanted.contains(&request) {
        return Ok(Event::Received(request, got));
    }
    let taken = lock(&layer.operations).take(request);
    if let Some((operation, ending)) = taken {
        match got.bytes {
            Ok(_) => go_on(layer, operation, ending),
            Err(code) => _ = ending.set(Err(code)),
        }
    }
    Ok(Event::Advanced)
}

/// Whether an operation is under way of which the program does not wait for the end.
pub fn is_under_way(layer: &Layer) -> bool {
    !lock(&layer.operations).receives().is_empty()
}

/// Operations go on with what has arrived.
///
/// # Errors
/// The error class.
pub fn poll(layer: &'static Layer) -> Result<(), c_int> {
    while is_under_way(layer) && matches!(event(layer, &[], false)?, Event::Advanced) {}
    Ok(())
}

/// Waits for a receive of the program. Its status is that of a message in a communicator.
///
/// # Errors
/// The error class, also where the message was too long.
pub fn wait(layer: &'static Layer, comm: &Comm, request: Request) -> Result<Status, c_int> {
    status(comm, wait_for(layer, request)?)
}

fn wait_for(layer: &'static Layer, request: Request) -> Result<Got, c_int> {
    loop {
        if let Event::Received(_, got) = event(layer, &[request], true)? {
            return Ok(got);
        }
    }
}

/// Waits for the end of an operation.
///
/// # Errors
/// The error class.
pub fn finish(layer: &'static Layer, ending: &Ending) -> Result<(), c_int> {
    loop {
        match ending.get() {
            Some(result) => return *result,
            None => _ = event(layer, &[], true)?,
        }
    }
}

fn check(layer: &Layer, operation: &Operation) -> Result<(), c_int> {
    operation.buffers().filter(|buffer| buffer.count != 0).try_for_each(|buffer| layer.check(buffer).map(|_| ()))
}

/// Does all of an operation.
///
/// # Errors
/// The error class.
pub fn run(layer: &'static Layer, mut operation: Operation) -> Result<(), c_int> {
    check(layer, &operation)?;
    while let Some(receive) = advance(layer, &mut operation)? {
        wait_for(layer, receive)?.bytes?;
    }
    Ok(())
}

/// Begins an operation that goes on while the program does.
///
/// # Errors
/// The error class of an argument; later errors are in the ending.
pub fn begin(layer: &'static Layer, mut operation: Operation) -> Result<Ending, c_int> {
    check(layer, &operation)?;
    operation.hold(lock(&layer.protocol).data());
    let ending = Arc::new(OnceLock::new());
    go_on(layer, operation, ending.clone());
    Ok(ending)
}

fn go_on(layer: &'static Layer, mut operation: Operation, ending: Ending) {
    match advance(layer, &mut operation) {
        Ok(Some(receive)) => lock(&layer.operations).add(receive, operation, ending),
        Ok(None) => _ = ending.set(Ok(())),
        Err(code) => _ = ending.set(Err(code)),
    }
}

/// Does steps until one has to wait for a message. Returns its receive; `None` at the end.
fn advance(layer: &'static Layer, operation: &mut Operation) -> Result<Option<Request>, c_int> {
    let place = operation.place.clone();
    while let Some(step) = operation.steps.pop_front() {
        match step {
            Step::Send { to, data } => {
                let to: Vec<Rank> = to.iter().map(|place_of| place.comm.members[*place_of]).collect();
                // SAFETY: a buffer of the program or of the operation.
                unsafe { lock(&layer.protocol).send(&to, place.channel(), data)? };
            }
            Step::Receive { from, into } => {
                return lock(&layer.protocol).receive(place.pattern(from), into).map(Some);
            }
            Step::Copy { data, into } => {
                let mut protocol = lock(&layer.protocol);
                // SAFETY: buffers of the program or of the operation.
                unsafe {
                    let bytes = protocol.data().read(data)?;
                    protocol.data().write(&bytes, into)?;
                }
            }
            Step::Combine { lower, higher } => {
                let (count, datatype) = (lower.count, lower.datatype);
                // SAFETY: buffers of equal count and datatype. What combines may be the program's: the layer is not
                // locked.
                unsafe {
                    ok((layer.stock.reduce_local)(lower.address, higher.address, count, datatype, operation.op))?;
                }
            }
        }
    }
    operation.finish.take().map_or(Ok(()), |finish| finish())?;
    Ok(None)
}

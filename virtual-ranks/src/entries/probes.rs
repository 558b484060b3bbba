//! Probes.
//!
//! A matched probe is a probe, and a receive of the message that it has found, which the layer keeps until the program
//! asks for it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use mpi_entry::entries::Handler;
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::layout::mpi::MPI_ERR_REQUEST;
use openmpi_internals::object::Object;
use openmpi_internals::request::{Request, Status};
use openmpi_internals::sync::lock;

use crate::data::Buffer;
use crate::handlers::handlers;
use crate::layer::{Layer, answer, answer_plainly, status};
use crate::progress;
use crate::protocol::Got;
use crate::requests::State;
use crate::statuses::{status_of_nobody, tell};

pub(super) const HANDLERS: &[Handler] = handlers! {
    "Probe" => probe, "Iprobe" => iprobe, "Mprobe" => mprobe, "Improbe" => improbe, "Mrecv" => mrecv, "Imrecv" => imrecv,
};

/// Messages that the program has matched and not received.
static MATCHED: AtomicUsize = AtomicUsize::new(0);

/// Whether the program has matched a message that it has not received.
pub fn has_matched() -> bool {
    MATCHED.load(Ordering::Relaxed) > 0
}

/// What the handle of a matched message points to. Fortran looks for a number there and finds that of no message.
#[repr(C)]
struct Matched {
    unknown: [u8; 512],
    bytes: Vec<u8>,
    status: Status,
}

unsafe extern "C-unwind" fn probe(source: c_int, tag: c_int, comm: Object, place: *mut Status) -> c_int {
    answer(comm, |layer| {
        let found = look(layer, source, tag, comm, true)?.ok_or(ERR_INTERN)?;
        // SAFETY: room for a status, or none.
        unsafe { tell(place, found) };
        Ok(())
    })
}

unsafe extern "C-unwind" fn iprobe(
    source: c_int,
    tag: c_int,
    comm: Object,
    flag: *mut c_int,
    place: *mut Status,
) -> c_int {
    answer(comm, |layer| {
        let found = look(layer, source, tag, comm, false)?;
        // SAFETY: room for a flag and for a status, or none.
        unsafe {
            *flag = c_int::from(found.is_some());
            found.into_iter().for_each(|found| tell(place, found));
        }
        Ok(())
    })
}

/// Takes a message out of what has arrived.
fn take(
    layer: &'static Layer,
    source: c_int,
    tag: c_int,
    comm: Object,
    waits: bool,
) -> Result<Option<(Object, Status)>, c_int> {
    let Some(status) = look(layer, source, tag, comm, waits)? else { return Ok(None) };
    let comm = layer.comm(comm)?;
    let bytes = match layer.pattern(&comm, status.source, status.tag)? {
        None => Vec::new(),
        Some(pattern) => lock(&layer.protocol).take(pattern)?,
    };
    MATCHED.fetch_add(1, Ordering::Relaxed);
    let message = Box::into_raw(Box::new(Matched { unknown: [0; 512], bytes, status }));
    Ok(Some((message.cast(), status)))
}

unsafe extern "C-unwind" fn mprobe(
    source: c_int,
    tag: c_int,
    comm: Object,
    message: *mut Object,
    place: *mut Status,
) -> c_int {
    answer(comm, |layer| {
        let (taken, found) = take(layer, source, tag, comm, true)?.ok_or(ERR_INTERN)?;
        // SAFETY: room for a handle and for a status, or none.
        unsafe {
            *message = taken;
            tell(place, found);
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn improbe(
    source: c_int,
    tag: c_int,
    comm: Object,
    flag: *mut c_int,
    message: *mut Object,
    place: *mut Status,
) -> c_int {
    answer(comm, |layer| {
        let taken = take(layer, source, tag, comm, false)?;
        // SAFETY: room for a flag, a handle and a status, or none.
        unsafe {
            *flag = c_int::from(taken.is_some());
            if let Some((taken, found)) = taken {
                *message = taken;
                tell(place, found);
            }
        }
        Ok(())
    })
}

/// Puts a message that was taken out into the program's buffer.
///
/// # Safety
/// The place of a handle, which is null after that.
unsafe fn open(layer: &Layer, message: *mut Object, buffer: Buffer) -> Result<Status, c_int> {
    // SAFETY: as required of the caller.
    unsafe {
        if (*message).is_null() {
            return Err(MPI_ERR_REQUEST);
        }
        let matched = Box::from_raw((*message).cast::<Matched>());
        *message = std::ptr::null_mut();
        MATCHED.fetch_sub(1, Ordering::Relaxed);
        let buffer = layer.check(buffer)?;
        let count = lock(&layer.protocol).data().write(&matched.bytes, buffer)?;
        Ok(Status { count, ..matched.status })
    }
}

unsafe extern "C-unwind" fn mrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: Object,
    message: *mut Object,
    place: *mut Status,
) -> c_int {
    answer_plainly(|layer| {
        // SAFETY: the place of a handle, and room for a status, or none.
        unsafe { tell(place, open(layer, message, Buffer { address: buf, count, datatype })?) };
        Ok(())
    })
}

unsafe extern "C-unwind" fn imrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: Object,
    message: *mut Object,
    request: *mut *mut Request,
) -> c_int {
    answer_plainly(|layer| {
        // SAFETY: the place of a handle, and room for one.
        unsafe {
            let ended = open(layer, message, Buffer { address: buf, count, datatype });
            *request = lock(&layer.requests).add(layer.world, State::Done(ended), None)?;
        }
        Ok(())
    })
}

fn look(layer: &'static Layer, source: c_int, tag: c_int, comm: Object, waits: bool) -> Result<Option<Status>, c_int> {
    let comm = layer.comm(comm)?;
    let Some(pattern) = layer.pattern(&comm, source, tag)? else { return Ok(Some(status_of_nobody())) };
    loop {
        progress::poll(layer)?;
        let blocks = waits && !progress::is_under_way(layer);
        match lock(&layer.protocol).probe(pattern, blocks)? {
            Some((from, bytes)) => return status(&comm, Got { from, bytes: Ok(bytes) }).map(Some),
            None if waits => {}
            None => return Ok(None),
        }
    }
}

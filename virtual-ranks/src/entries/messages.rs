//! Sends and receives.
//!
//! A send of any mode has ended when the protocol has its message. So `MPI_Ssend` does not wait for its receive.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mpi_entry::entries::Handler;
use openmpi_internals::layout::mpi::MPI_ERR_REQUEST;
use openmpi_internals::object::Object;
use openmpi_internals::request::{Request, Status};
use openmpi_internals::sync::lock;

use crate::comms::Comm;
use crate::data::Buffer;
use crate::handlers::handlers;
use crate::layer::{Layer, answer, answer_plainly};
use crate::progress;
use crate::requests::{Message, Plan, State};
use crate::statuses::{empty_status, status_of_nobody, tell};

pub(super) const HANDLERS: &[Handler] = handlers! {
    "Send" => send, "Bsend" => send, "Ssend" => send, "Rsend" => send,
    "Isend" => isend, "Ibsend" => isend, "Issend" => isend, "Irsend" => isend,
    "Send_init" => send_init, "Bsend_init" => send_init, "Ssend_init" => send_init, "Rsend_init" => send_init,
    "Recv" => recv, "Irecv" => irecv, "Recv_init" => recv_init,
    "Sendrecv" => sendrecv, "Sendrecv_replace" => sendrecv_replace,
    "Isendrecv" => isendrecv, "Isendrecv_replace" => isendrecv_replace,
    "Start" => start, "Startall" => startall,
};

fn buffer(address: *const c_void, count: c_int, datatype: Object) -> Buffer {
    Buffer { address: address.cast_mut(), count, datatype }
}

unsafe extern "C-unwind" fn send(
    buf: *const c_void,
    count: c_int,
    datatype: Object,
    dest: c_int,
    tag: c_int,
    comm: Object,
) -> c_int {
    answer(comm, |layer| layer.send(&*layer.comm(comm)?, buffer(buf, count, datatype), dest, tag))
}

unsafe extern "C-unwind" fn isend(
    buf: *const c_void,
    count: c_int,
    datatype: Object,
    dest: c_int,
    tag: c_int,
    comm: Object,
    request: *mut *mut Request,
) -> c_int {
    answer(comm, |layer| {
        layer.send(&*layer.comm(comm)?, buffer(buf, count, datatype), dest, tag)?;
        // SAFETY: room for a handle.
        unsafe { *request = lock(&layer.requests).sent() };
        Ok(())
    })
}

unsafe extern "C-unwind" fn recv(
    buf: *mut c_void,
    count: c_int,
    datatype: Object,
    source: c_int,
    tag: c_int,
    comm: Object,
    status: *mut Status,
) -> c_int {
    // SAFETY: room for a status, or none.
    answer(comm, |layer| unsafe { receive(layer, buffer(buf, count, datatype), source, tag, comm, status) })
}

/// Receives, and waits for it.
///
/// # Safety
/// `MPI_STATUS_IGNORE`, or room for a status.
unsafe fn receive(
    layer: &'static Layer,
    buffer: Buffer,
    source: c_int,
    tag: c_int,
    comm: Object,
    place: *mut Status,
) -> Result<(), c_int> {
    let comm = layer.comm(comm)?;
    let status = match layer.pattern(&comm, source, tag)? {
        None => status_of_nobody(),
        Some(pattern) => {
            let request = layer.receive(pattern, buffer)?;
            progress::wait(layer, &comm, request)?
        }
    };
    // SAFETY: as required of the caller.
    unsafe { tell(place, status) };
    Ok(())
}

unsafe extern "C-unwind" fn irecv(
    buf: *mut c_void,
    count: c_int,
    datatype: Object,
    source: c_int,
    tag: c_int,
    comm: Object,
    request: *mut *mut Request,
) -> c_int {
    answer(comm, |layer| {
        let state = begin(layer, buffer(buf, count, datatype), source, tag, &layer.comm(comm)?)?;
        let handle = lock(&layer.requests).add(comm, state, None)?;
        // SAFETY: room for a handle.
        unsafe { *request = handle };
        Ok(())
    })
}

fn begin(layer: &Layer, buffer: Buffer, source: c_int, tag: c_int, comm: &Arc<Comm>) -> Result<State, c_int> {
    Ok(match layer.pattern(comm, source, tag)? {
        None => State::Done(Ok(status_of_nobody())),
        Some(pattern) => State::Receive(layer.receive(pattern, buffer)?, comm.clone()),
    })
}

unsafe extern "C-unwind" fn sendrecv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Object,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Object,
    source: c_int,
    recvtag: c_int,
    comm: Object,
    status: *mut Status,
) -> c_int {
    answer(comm, |layer| {
        layer.send(&*layer.comm(comm)?, buffer(sendbuf, sendcount, sendtype), dest, sendtag)?;
        // SAFETY: room for a status, or none.
        unsafe { receive(layer, buffer(recvbuf, recvcount, recvtype), source, recvtag, comm, status) }
    })
}

unsafe extern "C-unwind" fn sendrecv_replace(
    buf: *mut c_void,
    count: c_int,
    datatype: Object,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: Object,
    status: *mut Status,
) -> c_int {
    answer(comm, |layer| {
        let buffer = buffer(buf, count, datatype);
        layer.send(&*layer.comm(comm)?, buffer, dest, sendtag)?;
        // SAFETY: room for a status, or none.
        unsafe { receive(layer, buffer, source, recvtag, comm, status) }
    })
}

unsafe extern "C-unwind" fn isendrecv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Object,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Object,
    source: c_int,
    recvtag: c_int,
    comm: Object,
    request: *mut *mut Request,
) -> c_int {
    answer(comm, |layer| {
        let members = layer.comm(comm)?;
        layer.send(&members, buffer(sendbuf, sendcount, sendtype), dest, sendtag)?;
        let state = begin(layer, buffer(recvbuf, recvcount, recvtype), source, recvtag, &members)?;
        // SAFETY: room for a handle.
        unsafe { *request = lock(&layer.requests).add(comm, state, None)? };
        Ok(())
    })
}

unsafe extern "C-unwind" fn isendrecv_replace(
    buf: *mut c_void,
    count: c_int,
    datatype: Object,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: Object,
    request: *mut *mut Request,
) -> c_int {
    // SAFETY: as of that function. What is sent has been copied when the receive begins.
    unsafe { isendrecv(buf, count, datatype, dest, sendtag, buf, count, datatype, source, recvtag, comm, request) }
}

unsafe extern "C-unwind" fn send_init(
    buf: *const c_void,
    count: c_int,
    datatype: Object,
    dest: c_int,
    tag: c_int,
    comm: Object,
    request: *mut *mut Request,
) -> c_int {
    // SAFETY: room for a handle.
    answer(comm, |layer| unsafe { prepare(layer, true, buffer(buf, count, datatype), dest, tag, comm, request) })
}

unsafe extern "C-unwind" fn recv_init(
    buf: *mut c_void,
    count: c_int,
    datatype: Object,
    source: c_int,
    tag: c_int,
    comm: Object,
    request: *mut *mut Request,
) -> c_int {
    // SAFETY: room for a handle.
    answer(comm, |layer| unsafe { prepare(layer, false, buffer(buf, count, datatype), source, tag, comm, request) })
}

/// # Safety
/// Room for a handle.
unsafe fn prepare(
    layer: &Layer,
    is_send: bool,
    buffer: Buffer,
    peer: c_int,
    tag: c_int,
    handle: Object,
    request: *mut *mut Request,
) -> Result<(), c_int> {
    let buffer = layer.check(buffer)?;
    let datatype = lock(&layer.protocol).data().hold(buffer.datatype);
    let message = Message { is_send, comm: layer.comm(handle)?, buffer, peer, tag, _datatype: datatype };
    let plan = Plan::Message(message);
    let made = lock(&layer.requests).add(handle, State::Idle, Some(plan))?;
    // SAFETY: as required of the caller.
    unsafe { *request = made };
    Ok(())
}

unsafe extern "C-unwind" fn start(request: *mut *mut Request) -> c_int {
    // SAFETY: the place of a handle.
    answer_plainly(|layer| unsafe { start_one(layer, *request) })
}

unsafe extern "C-unwind" fn startall(count: c_int, requests: *mut *mut Request) -> c_int {
    answer_plainly(|layer| {
        // SAFETY: so many handles.
        (0..usize::try_from(count).unwrap_or(0)).try_for_each(|place| start_one(layer, unsafe { *requests.add(place) }))
    })
}

fn start_one(layer: &'static Layer, request: *mut Request) -> Result<(), c_int> {
    let plan = lock(&layer.requests).plan(request).ok_or(MPI_ERR_REQUEST)?;
    let state = match plan {
        Plan::Message(Message { is_send: true, comm, buffer, peer, tag, .. }) => {
            layer.send(&comm, buffer, peer, tag)?;
            State::Done(Ok(empty_status()))
        }
        Plan::Message(Message { comm, buffer, peer, tag, .. }) => begin(layer, buffer, peer, tag, &comm)?,
        Plan::Operation { recipe, .. } => State::Operation(progress::begin(layer, recipe()?)?),
    };
    lock(&layer.requests).set(request, state);
    Ok(())
}

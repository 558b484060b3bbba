//! What moves data.

use std::ffi::{c_int, c_void};

use openmpi_internals::object::Object;

use super::{buffer, equal_parts, is_in_place, listed_parts, root_of, typed_parts};
use crate::data::Buffer;
use crate::layer::Layer;
use crate::operation::{Operation, Place};

type Made = Result<Operation, c_int>;

/// The buffer of a member that may leave its data where the operation puts them.
fn unless_in_place(address: *const c_void, count: c_int, datatype: Object) -> Option<Buffer> {
    (!is_in_place(address)).then(|| buffer(address, count, datatype))
}

pub(super) unsafe fn barrier(layer: &Layer, place: &Place) -> Made {
    let nothing = buffer(std::ptr::null(), 0, layer.byte);
    Ok(Operation::of(place, place.member().barrier(nothing)))
}

pub(super) unsafe fn bcast(
    layer: &Layer,
    place: &Place,
    data: *mut c_void,
    count: c_int,
    datatype: Object,
    root: c_int,
) -> Made {
    let data = layer.check(buffer(data, count, datatype))?;
    Ok(Operation::of(place, place.member().broadcast(root_of(&place.comm, root)?, data)))
}

/// The parts of a root, which others do not have.
fn at_root(place: &Place, root: usize, parts: impl FnOnce(usize) -> Vec<Buffer>) -> Vec<Buffer> {
    if place.comm.rank == root { parts(place.comm.size()) } else { Vec::new() }
}

pub(super) unsafe fn gather(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Object,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Object,
    root: c_int,
) -> Made {
    let root = root_of(&place.comm, root)?;
    let parts = at_root(place, root, |size| equal_parts(layer, size, buffer(recvbuf, recvcount, recvtype)));
    let own = unless_in_place(sendbuf, sendcount, sendtype);
    Ok(Operation::of(place, place.member().gather(root, own, &parts)))
}

pub(super) unsafe fn gatherv(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Object,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: Object,
    root: c_int,
) -> Made {
    let root = root_of(&place.comm, root)?;
    // SAFETY: as many counts and displacements as there are members.
    let listed = |size| unsafe { listed_parts(layer, size, recvbuf, recvcounts, displs, recvtype) };
    let own = unless_in_place(sendbuf, sendcount, sendtype);
    Ok(Operation::of(place, place.member().gather(root, own, &at_root(place, root, listed))))
}

pub(super) unsafe fn scatter(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Object,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Object,
    root: c_int,
) -> Made {
    let root = root_of(&place.comm, root)?;
    let parts = at_root(place, root, |size| equal_parts(layer, size, buffer(sendbuf, sendcount, sendtype)));
    let own = unless_in_place(recvbuf, recvcount, recvtype);
    Ok(Operation::of(place, place.member().scatter(root, own, &parts)))
}

pub(super) unsafe fn scatterv(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    displs: *const c_int,
    sendtype: Object,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Object,
    root: c_int,
) -> Made {
    let root = root_of(&place.comm, root)?;
    // SAFETY: as many counts and displacements as there are members.
    let listed = |size| unsafe { listed_parts(layer, size, sendbuf, sendcounts, displs, sendtype) };
    let own = unless_in_place(recvbuf, recvcount, recvtype);
    Ok(Operation::of(place, place.member().scatter(root, own, &at_root(place, root, listed))))
}

pub(super) unsafe fn allgather(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Object,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Object,
) -> Made {
    let parts = equal_parts(layer, place.comm.size(), buffer(recvbuf, recvcount, recvtype));
    let own = unless_in_place(sendbuf, sendcount, sendtype);
    Ok(Operation::of(place, place.member().gather_for_all(own, &parts)))
}

pub(super) unsafe fn allgatherv(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Object,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    displs: *const c_int,
    recvtype: Object,
) -> Made {
    // SAFETY: as many counts and displacements as there are members.
    let parts = unsafe { listed_parts(layer, place.comm.size(), recvbuf, recvcounts, displs, recvtype) };
    let own = unless_in_place(sendbuf, sendcount, sendtype);
    Ok(Operation::of(place, place.member().gather_for_all(own, &parts)))
}

pub(super) unsafe fn alltoall(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: Object,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: Object,
) -> Made {
    let parts = |all| equal_parts(layer, place.comm.size(), all);
    let sent = unless_in_place(sendbuf, sendcount, sendtype).map(parts);
    let received = parts(buffer(recvbuf, recvcount, recvtype));
    Ok(Operation::of(place, place.member().exchange(sent.as_deref(), &received)))
}

pub(super) unsafe fn alltoallv(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: Object,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: Object,
) -> Made {
    let size = place.comm.size();
    // SAFETY: as many counts and displacements as there are members.
    let (sent, received) = unsafe {
        let sent = (!is_in_place(sendbuf)).then(|| listed_parts(layer, size, sendbuf, sendcounts, sdispls, sendtype));
        (sent, listed_parts(layer, size, recvbuf, recvcounts, rdispls, recvtype))
    };
    Ok(Operation::of(place, place.member().exchange(sent.as_deref(), &received)))
}

pub(super) unsafe fn alltoallw(
    _layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtypes: *const Object,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtypes: *const Object,
) -> Made {
    let size = place.comm.size();
    // SAFETY: as many counts, displacements and datatypes as there are members.
    let (sent, received) = unsafe {
        let sent = (!is_in_place(sendbuf)).then(|| typed_parts(size, sendbuf, sendcounts, sdispls, sendtypes));
        (sent, typed_parts(size, recvbuf, recvcounts, rdispls, recvtypes))
    };
    Ok(Operation::of(place, place.member().exchange(sent.as_deref(), &received)))
}

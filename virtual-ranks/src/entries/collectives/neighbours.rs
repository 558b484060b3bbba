//! What moves data between neighbours in a topology.

use std::ffi::{c_int, c_void};

use openmpi_internals::layout::mpi::MPI_ERR_TOPOLOGY;
use openmpi_internals::object::Object;

use super::{buffer, equal_parts, listed_parts, typed_parts};
use crate::data::Buffer;
use crate::layer::Layer;
use crate::operation::{Operation, Place};
use crate::schedule::Step;
use crate::topology::{Neighbours, somebody};

type Made = Result<Operation, c_int>;

fn neighbours(place: &Place) -> Result<Neighbours, c_int> {
    Ok(place.comm.topology.as_ref().ok_or(MPI_ERR_TOPOLOGY)?.neighbours(place.comm.rank))
}

/// Sends a part to each destination and gets one of each source.
fn exchange(place: &Place, neighbours: &Neighbours, sent: impl Fn(usize) -> Buffer, received: &[Buffer]) -> Operation {
    let sends = neighbours.order.iter().filter_map(|index| {
        somebody(neighbours.destinations[*index]).map(|to| Step::Send { to: vec![to], data: sent(*index) })
    });
    let receives = neighbours.sources.iter().zip(received);
    let receives = receives.filter_map(|(from, into)| somebody(*from).map(|from| Step::Receive { from, into: *into }));
    Operation::of(place, sends.chain(receives).collect())
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
    let neighbours = neighbours(place)?;
    let received = equal_parts(layer, neighbours.sources.len(), buffer(recvbuf, recvcount, recvtype));
    Ok(exchange(place, &neighbours, |_| buffer(sendbuf, sendcount, sendtype), &received))
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
    let neighbours = neighbours(place)?;
    // SAFETY: as many counts and displacements as there are sources.
    let received = unsafe { listed_parts(layer, neighbours.sources.len(), recvbuf, recvcounts, displs, recvtype) };
    Ok(exchange(place, &neighbours, |_| buffer(sendbuf, sendcount, sendtype), &received))
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
    let neighbours = neighbours(place)?;
    let sent = equal_parts(layer, neighbours.destinations.len(), buffer(sendbuf, sendcount, sendtype));
    let received = equal_parts(layer, neighbours.sources.len(), buffer(recvbuf, recvcount, recvtype));
    Ok(exchange(place, &neighbours, |index| sent[index], &received))
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
    let neighbours = neighbours(place)?;
    let (outgoing, incoming) = (neighbours.destinations.len(), neighbours.sources.len());
    // SAFETY: as many counts and displacements as there are neighbours.
    let (sent, received) = unsafe {
        (
            listed_parts(layer, outgoing, sendbuf, sendcounts, sdispls, sendtype),
            listed_parts(layer, incoming, recvbuf, recvcounts, rdispls, recvtype),
        )
    };
    Ok(exchange(place, &neighbours, |index| sent[index], &received))
}

pub(super) unsafe fn alltoallw(
    _layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const i64,
    sendtypes: *const Object,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const i64,
    recvtypes: *const Object,
) -> Made {
    let neighbours = neighbours(place)?;
    let (outgoing, incoming) = (neighbours.destinations.len(), neighbours.sources.len());
    // SAFETY: as many counts, displacements and datatypes as there are neighbours.
    let (sent, received) = unsafe {
        (
            typed_parts(outgoing, sendbuf, sendcounts, sdispls, sendtypes),
            typed_parts(incoming, recvbuf, recvcounts, rdispls, recvtypes),
        )
    };
    Ok(exchange(place, &neighbours, |index| sent[index], &received))
}

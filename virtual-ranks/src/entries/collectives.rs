//! Collective operations: each blocking, without blocking, and persistent.

#[allow(clippy::too_many_arguments, reason = "the arguments of MPI's functions")]
mod moves;
#[allow(clippy::too_many_arguments, reason = "the arguments of MPI's functions")]
mod neighbours;
#[allow(clippy::too_many_arguments, reason = "the arguments of MPI's functions")]
mod reductions;

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mpi_entry::entries::Handler;
use openmpi_internals::layout::mpi::{MPI_ERR_ROOT, MPI_IN_PLACE};
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;

use crate::comms::Comm;
use crate::data::Buffer;
use crate::layer::{Layer, answer};
use crate::operation::{Operation, Place};
use crate::progress;
use crate::requests::{Plan, Recipe, State};

/// The three functions of each operation: their names in MPI and here, what makes the operation, and the arguments
/// before the communicator.
macro_rules! collectives {
    ($([$($name:literal $function:ident)*] $plan:path: $arguments:tt;)*) => {
        $(collectives!(@functions $($function)*, $plan, $arguments);)*

        pub(super) const HANDLERS: &[Handler] =
            &[$($(Handler { name: $name, ours: $function as *const c_void },)*)*];
    };
    (@functions $now:ident $later:ident $again:ident, $plan:path, ($($argument:ident: $type:ty),*)) => {
        unsafe extern "C-unwind" fn $now($($argument: $type,)* comm: Object) -> c_int {
            answer(comm, |layer| {
                let place = Place::next(&layer.comm(comm)?);
                // SAFETY: buffers and lists of the program.
                progress::run(layer, unsafe { $plan(layer, &place, $($argument),*)? })
            })
        }

        unsafe extern "C-unwind" fn $later($($argument: $type,)* comm: Object, request: *mut *mut Request) -> c_int {
            answer(comm, |layer| {
                let place = Place::next(&layer.comm(comm)?);
                // SAFETY: buffers and lists that the program leaves to the operation, and room for a handle.
                unsafe { begin(layer, $plan(layer, &place, $($argument),*)?, request) }
            })
        }

        unsafe extern "C-unwind" fn $again(
            $($argument: $type,)*
            comm: Object,
            _info: Object,
            request: *mut *mut Request,
        ) -> c_int {
            answer(comm, |layer| {
                let place = Place::next(&layer.comm(comm)?);
                let comm = place.comm.clone();
                // SAFETY: buffers and lists that the program leaves to the request until it frees it.
                let recipe = move || unsafe { $plan(layer, &place, $($argument),*) };
                // SAFETY: room for a handle.
                unsafe { prepare(layer, &comm, Arc::new(recipe), request) }
            })
        }
    };
}

collectives! {
    ["Barrier" barrier "Ibarrier" ibarrier "Barrier_init" barrier_init] moves::barrier: ();
    ["Bcast" bcast "Ibcast" ibcast "Bcast_init" bcast_init]
        moves::bcast: (data: *mut c_void, count: c_int, datatype: Object, root: c_int);
    ["Gather" gather "Igather" igather "Gather_init" gather_init]
        moves::gather: (
            sendbuf: *const c_void, sendcount: c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcount: c_int, recvtype: Object, root: c_int
        );
    ["Gatherv" gatherv "Igatherv" igatherv "Gatherv_init" gatherv_init]
        moves::gatherv: (
            sendbuf: *const c_void, sendcount: c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Object, root: c_int
        );
    ["Scatter" scatter "Iscatter" iscatter "Scatter_init" scatter_init]
        moves::scatter: (
            sendbuf: *const c_void, sendcount: c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcount: c_int, recvtype: Object, root: c_int
        );
    ["Scatterv" scatterv "Iscatterv" iscatterv "Scatterv_init" scatterv_init]
        moves::scatterv: (
            sendbuf: *const c_void, sendcounts: *const c_int, displs: *const c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcount: c_int, recvtype: Object, root: c_int
        );
    ["Allgather" allgather "Iallgather" iallgather "Allgather_init" allgather_init]
        moves::allgather: (
            sendbuf: *const c_void, sendcount: c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcount: c_int, recvtype: Object
        );
    ["Allgatherv" allgatherv "Iallgatherv" iallgatherv "Allgatherv_init" allgatherv_init]
        moves::allgatherv: (
            sendbuf: *const c_void, sendcount: c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Object
        );
    ["Alltoall" alltoall "Ialltoall" ialltoall "Alltoall_init" alltoall_init]
        moves::alltoall: (
            sendbuf: *const c_void, sendcount: c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcount: c_int, recvtype: Object
        );
    ["Alltoallv" alltoallv "Ialltoallv" ialltoallv "Alltoallv_init" alltoallv_init]
        moves::alltoallv: (
            sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: Object
        );
    ["Alltoallw" alltoallw "Ialltoallw" ialltoallw "Alltoallw_init" alltoallw_init]
        moves::alltoallw: (
            sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtypes: *const Object,
            recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtypes: *const Object
        );
    ["Reduce" reduce "Ireduce" ireduce "Reduce_init" reduce_init]
        reductions::reduce: (
            sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Object, op: Object, root: c_int
        );
    ["Allreduce" allreduce "Iallreduce" iallreduce "Allreduce_init" allreduce_init]
        reductions::allreduce: (
            sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Object, op: Object
        );
    ["Scan" scan "Iscan" iscan "Scan_init" scan_init]
        reductions::scan: (sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Object, op: Object);
    ["Exscan" exscan "Iexscan" iexscan "Exscan_init" exscan_init]
        reductions::exscan: (sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Object, op: Object);
    ["Reduce_scatter" reduce_scatter "Ireduce_scatter" ireduce_scatter "Reduce_scatter_init" reduce_scatter_init]
        reductions::reduce_scatter: (
            sendbuf: *const c_void, recvbuf: *mut c_void, counts: *const c_int, datatype: Object, op: Object
        );
    ["Reduce_scatter_block" reduce_scatter_block "Ireduce_scatter_block" ireduce_scatter_block
     "Reduce_scatter_block_init" reduce_scatter_block_init]
        reductions::reduce_scatter_block: (
            sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Object, op: Object
        );
    ["Neighbor_allgather" neighbor_allgather "Ineighbor_allgather" ineighbor_allgather
     "Neighbor_allgather_init" neighbor_allgather_init]
        neighbours::allgather: (
            sendbuf: *const c_void, sendcount: c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcount: c_int, recvtype: Object
        );
    ["Neighbor_allgatherv" neighbor_allgatherv "Ineighbor_allgatherv" ineighbor_allgatherv
     "Neighbor_allgatherv_init" neighbor_allgatherv_init]
        neighbours::allgatherv: (
            sendbuf: *const c_void, sendcount: c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: Object
        );
    ["Neighbor_alltoall" neighbor_alltoall "Ineighbor_alltoall" ineighbor_alltoall
     "Neighbor_alltoall_init" neighbor_alltoall_init]
        neighbours::alltoall: (
            sendbuf: *const c_void, sendcount: c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcount: c_int, recvtype: Object
        );
    ["Neighbor_alltoallv" neighbor_alltoallv "Ineighbor_alltoallv" ineighbor_alltoallv
     "Neighbor_alltoallv_init" neighbor_alltoallv_init]
        neighbours::alltoallv: (
            sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: Object,
            recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: Object
        );
    ["Neighbor_alltoallw" neighbor_alltoallw "Ineighbor_alltoallw" ineighbor_alltoallw
     "Neighbor_alltoallw_init" neighbor_alltoallw_init]
        neighbours::alltoallw: (
            sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const i64, sendtypes: *const Object,
            recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const i64, recvtypes: *const Object
        );
}

/// Begins an operation, and gives the program a request of it.
///
/// # Safety
/// Room for a handle.
pub(in crate::entries) unsafe fn begin(
    layer: &'static Layer,
    operation: Operation,
    request: *mut *mut Request,
) -> Result<(), c_int> {
    let comm = operation.place.comm.handle as Object;
    let ending = progress::begin(layer, operation)?;
    let handle = lock(&layer.requests).add(comm, State::Operation(ending), None)?;
    // SAFETY: as required of the caller.
    unsafe { *request = handle };
    Ok(())
}

/// # Safety
/// Room for a handle.
unsafe fn prepare(layer: &'static Layer, comm: &Comm, recipe: Recipe, request: *mut *mut Request) -> Result<(), c_int> {
    // What the program may free until it frees the request.
    let mut first = recipe()?;
    first.hold(lock(&layer.protocol).data());
    let plan = Plan::Operation { recipe, _held: first.held() };
    let handle = lock(&layer.requests).add(comm.handle as Object, State::Idle, Some(plan))?;
    // SAFETY: as required of the caller.
    unsafe { *request = handle };
    Ok(())
}

fn is_in_place(address: *const c_void) -> bool {
    address as usize == MPI_IN_PLACE
}

fn root_of(comm: &Comm, root: c_int) -> Result<usize, c_int> {
    usize::try_from(root).ok().filter(|root| *root < comm.size()).ok_or(MPI_ERR_ROOT)
}

fn buffer(address: *const c_void, count: c_int, datatype: Object) -> Buffer {
    Buffer { address: address.cast_mut(), count, datatype }
}

/// A buffer that begins some bytes further.
fn further(buffer: Buffer, bytes: isize) -> Buffer {
    Buffer { address: buffer.address.wrapping_byte_offset(bytes), ..buffer }
}

/// Bytes from one item of a datatype to the next.
fn extent(layer: &Layer, datatype: Object) -> isize {
    lock(&layer.protocol).data().span(datatype, 1).0
}

/// So many parts of a buffer, of equal length.
fn equal_parts(layer: &Layer, parts: usize, all: Buffer) -> Vec<Buffer> {
    if all.count == 0 {
        return vec![all; parts];
    }
    let bytes = extent(layer, all.datatype) * all.count as isize;
    (0..parts).map(|part| further(all, bytes * part as isize)).collect()
}

/// Parts of a buffer.
///
/// # Safety
/// So many counts and displacements.
unsafe fn listed_parts(
    layer: &Layer,
    parts: usize,
    address: *const c_void,
    counts: *const c_int,
    displacements: *const c_int,
    datatype: Object,
) -> Vec<Buffer> {
    if parts == 0 {
        return Vec::new();
    }
    let extent = extent(layer, datatype);
    // SAFETY: as required of the caller.
    let part = |part| unsafe {
        further(buffer(address, *counts.add(part), datatype), extent * *displacements.add(part) as isize)
    };
    (0..parts).map(part).collect()
}

/// Parts of a buffer with a datatype each.
///
/// # Safety
/// So many counts, displacements in bytes, and datatypes.
unsafe fn typed_parts<D: Copy + Into<i64>>(
    parts: usize,
    address: *const c_void,
    counts: *const c_int,
    displacements: *const D,
    datatypes: *const Object,
) -> Vec<Buffer> {
    // SAFETY: as required of the caller.
    let part = |part| unsafe {
        let bytes: i64 = (*displacements.add(part)).into();
        further(buffer(address, *counts.add(part), *datatypes.add(part)), bytes as isize)
    };
    (0..parts).map(part).collect()
}

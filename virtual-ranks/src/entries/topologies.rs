//! Cartesian topologies.

use std::ffi::c_int;

use mpi_entry::entries::Handler;
use openmpi_internals::error_class::ERR_ARG;
use openmpi_internals::layout::mpi::{
    MPI_CART, MPI_DIST_GRAPH, MPI_ERR_DIMS, MPI_ERR_RANK, MPI_ERR_TOPOLOGY, MPI_GRAPH, MPI_UNDEFINED,
};
use openmpi_internals::object::Object;

use crate::comms::Comm;
use crate::entries::communicators::part;
use crate::grid::Grid;
use crate::handlers::handlers;
use crate::layer::answer;
use crate::topology::Topology;

pub(super) const HANDLERS: &[Handler] = handlers! {
    "Cart_create" => cart_create, "Cart_sub" => cart_sub, "Cart_get" => cart_get, "Cartdim_get" => cartdim_get,
    "Cart_coords" => cart_coords, "Cart_rank" => cart_rank, "Cart_shift" => cart_shift, "Cart_map" => cart_map,
    "Topo_test" => topo_test,
};

fn grid(comm: &Comm) -> Result<&Grid, c_int> {
    comm.topology.as_ref().and_then(Topology::grid).ok_or(MPI_ERR_TOPOLOGY)
}

/// # Safety
/// So many numbers.
pub(super) unsafe fn list<'a>(numbers: *const c_int, count: c_int) -> Result<&'a [c_int], c_int> {
    let count = usize::try_from(count).map_err(|_| ERR_ARG)?;
    // SAFETY: as required of the caller.
    Ok(if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(numbers, count) } })
}

/// # Safety
/// Room for `room` numbers.
pub(super) unsafe fn fill(place: *mut c_int, room: c_int, numbers: impl Iterator<Item = c_int>) {
    for (index, number) in numbers.take(usize::try_from(room).unwrap_or(0)).enumerate() {
        // SAFETY: as required of the caller.
        unsafe { *place.add(index) = number };
    }
}

unsafe extern "C-unwind" fn cart_create(
    comm: Object,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    _reorder: c_int,
    new: *mut Object,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        // SAFETY: lists of the program, and room for a handle.
        unsafe {
            let grid = Grid::new(list(dims, ndims)?, list(periods, ndims)?).ok_or(MPI_ERR_DIMS)?;
            let size = grid.size();
            if size == 0 || size > comm.size() {
                return Err(MPI_ERR_DIMS);
            }
            let color = if comm.rank < size { 0 } else { MPI_UNDEFINED };
            *new = part(layer, &comm, color, 0, |_| Some(Topology::Grid(grid)))?;
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn cart_sub(comm: Object, remain: *const c_int, new: *mut Object) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let whole = grid(&comm)?;
        // SAFETY: a list of the program, and room for a handle.
        unsafe {
            let remain: Vec<bool> =
                list(remain, whole.dims.len() as c_int)?.iter().map(|remains| *remains != 0).collect();
            let (grid, color, key) = whole.sub(comm.rank, &remain);
            *new = part(layer, &comm, color as c_int, key as c_int, |_| Some(Topology::Grid(grid)))?;
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn cart_get(
    comm: Object,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let grid = grid(&comm)?;
        // SAFETY: room for so many numbers.
        unsafe {
            fill(dims, maxdims, grid.dims.iter().copied());
            fill(periods, maxdims, grid.periods.iter().map(|is_ring| c_int::from(*is_ring)));
            fill(coords, maxdims, grid.coordinates(comm.rank).into_iter());
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn cartdim_get(comm: Object, ndims: *mut c_int) -> c_int {
    answer(comm, |layer| {
        // SAFETY: room for the answer.
        unsafe { *ndims = grid(&*layer.comm(comm)?)?.dims.len() as c_int };
        Ok(())
    })
}

unsafe extern "C-unwind" fn cart_coords(comm: Object, rank: c_int, maxdims: c_int, coords: *mut c_int) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let place = usize::try_from(rank).ok().filter(|place| *place < comm.size()).ok_or(MPI_ERR_RANK)?;
        // SAFETY: room for so many numbers.
        unsafe { fill(coords, maxdims, grid(&comm)?.coordinates(place).into_iter()) };
        Ok(())
    })
}

unsafe extern "C-unwind" fn cart_rank(comm: Object, coords: *const c_int, rank: *mut c_int) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let grid = grid(&comm)?;
        // SAFETY: a list of the program, and room for the answer.
        unsafe { *rank = grid.rank(list(coords, grid.dims.len() as c_int)?).ok_or(ERR_ARG)? as c_int };
        Ok(())
    })
}

unsafe extern "C-unwind" fn cart_shift(
    comm: Object,
    direction: c_int,
    displacement: c_int,
    source: *mut c_int,
    dest: *mut c_int,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let grid = grid(&comm)?;
        let dimension = usize::try_from(direction).ok().filter(|place| *place < grid.dims.len()).ok_or(MPI_ERR_DIMS)?;
        // SAFETY: room for the answers.
        unsafe { (*source, *dest) = grid.shift(comm.rank, dimension, displacement) };
        Ok(())
    })
}

unsafe extern "C-unwind" fn cart_map(
    comm: Object,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    new: *mut c_int,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        // SAFETY: lists of the program, and room for the answer.
        unsafe {
            let grid = Grid::new(list(dims, ndims)?, list(periods, ndims)?).ok_or(MPI_ERR_DIMS)?;
            *new = if comm.rank < grid.size() { comm.rank as c_int } else { MPI_UNDEFINED };
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn topo_test(comm: Object, status: *mut c_int) -> c_int {
    answer(comm, |layer| {
        let kind = match &layer.comm(comm)?.topology {
            None => MPI_UNDEFINED,
            Some(Topology::Grid(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::Edges(_)) => MPI_DIST_GRAPH,
        };
        // SAFETY: room for the answer.
        unsafe { *status = kind };
        Ok(())
    })
}

//! Groups. They are Open MPI's, of the processes with which the job has begun, whoever has taken their places. So two
//! groups have a rank in common if they have its first process.

use std::ffi::c_int;

use mpi_entry::entries::Handler;
use openmpi_internals::layout::mpi::{MPI_ERR_RANK, MPI_UNDEFINED};
use openmpi_internals::object::Object;

use crate::comms::Comm;
use crate::data::ok;
use crate::handlers::handlers;
use crate::layer::{Layer, answer, answer_plainly};

pub(super) const HANDLERS: &[Handler] = handlers! {
    "Comm_group" => comm_group, "Group_rank" => group_rank, "Group_translate_ranks" => group_translate_ranks,
    "Group_compare" => group_compare, "Group_union" => group_union, "Group_intersection" => group_intersection,
    "Group_difference" => group_difference,
};

unsafe extern "C-unwind" fn comm_group(comm: Object, group: *mut Object) -> c_int {
    answer(comm, |layer| {
        let ranks: Vec<c_int> = layer.comm(comm)?.members.iter().map(|rank| *rank as c_int).collect();
        // SAFETY: a group of at least as many members, and room for a handle.
        ok(unsafe { (layer.stock.group_incl)(layer.base, ranks.len() as c_int, ranks.as_ptr(), group) })
    })
}

/// Open MPI would look for this process, which a replaced rank is not in the group.
unsafe extern "C-unwind" fn group_rank(group: Object, rank: *mut c_int) -> c_int {
    answer_plainly(|layer| {
        let own = layer.rank as c_int;
        // SAFETY: groups, and room for the answer.
        ok(unsafe { (layer.stock.group_translate_ranks)(layer.base, 1, &own, group, rank) })
    })
}

unsafe extern "C-unwind" fn group_translate_ranks(
    from: Object,
    count: c_int,
    ranks: *const c_int,
    to: Object,
    translated: *mut c_int,
) -> c_int {
    // SAFETY: groups, a list, and room for as many answers.
    answer_plainly(|layer| ok(unsafe { (layer.stock.group_translate_ranks)(from, count, ranks, to, translated) }))
}

unsafe extern "C-unwind" fn group_compare(one: Object, other: Object, result: *mut c_int) -> c_int {
    // SAFETY: groups, and room for the answer.
    answer_plainly(|layer| ok(unsafe { (layer.stock.group_compare)(one, other, result) }))
}

unsafe extern "C-unwind" fn group_union(one: Object, other: Object, new: *mut Object) -> c_int {
    // SAFETY: groups, and room for a handle.
    answer_plainly(|layer| ok(unsafe { (layer.stock.group_union)(one, other, new) }))
}

unsafe extern "C-unwind" fn group_intersection(one: Object, other: Object, new: *mut Object) -> c_int {
    // SAFETY: groups, and room for a handle.
    answer_plainly(|layer| ok(unsafe { (layer.stock.group_intersection)(one, other, new) }))
}

unsafe extern "C-unwind" fn group_difference(one: Object, other: Object, new: *mut Object) -> c_int {
    // SAFETY: groups, and room for a handle.
    answer_plainly(|layer| ok(unsafe { (layer.stock.group_difference)(one, other, new) }))
}

/// The places in a communicator of the members of a group.
pub(super) fn places(layer: &Layer, comm: &Comm, group: Object) -> Result<Vec<usize>, c_int> {
    let mut size = 0;
    // SAFETY: groups, and room for the answers.
    let ranks = unsafe {
        ok((layer.stock.group_size)(group, &mut size))?;
        let members: Vec<c_int> = (0..size).collect();
        let mut ranks = vec![MPI_UNDEFINED; members.len()];
        let (from, to) = (members.as_ptr(), ranks.as_mut_ptr());
        ok((layer.stock.group_translate_ranks)(group, size, from, layer.base, to))?;
        ranks
    };
    let place = |rank: c_int| u32::try_from(rank).ok().and_then(|rank| comm.place_of(rank)).ok_or(MPI_ERR_RANK);
    ranks.into_iter().map(place).collect()
}

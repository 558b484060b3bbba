//! Communicators: made, freed, and asked for their members.

use std::ffi::c_int;
use std::sync::Arc;

use mpi_entry::entries::Handler;
use openmpi_internals::error_class::{ERR_COMM, ERR_INTERN, ERR_PROC_FAILED};
use openmpi_internals::layout::mpi::{MPI_CONGRUENT, MPI_IDENT, MPI_SIMILAR, MPI_UNDEFINED, MPI_UNEQUAL};
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;

use crate::comms::{Comm, split};
use crate::data::{Buffer, ok};
use crate::entries::collectives::begin;
use crate::entries::groups;
use crate::handlers::handlers;
use crate::layer::{Layer, answer, answer_plainly};
use crate::operation::{Operation, Place};
use crate::progress;
use crate::schedule::{Member, among};
use crate::topology::Topology;

pub(super) const HANDLERS: &[Handler] = handlers! {
    "Comm_rank" => comm_rank, "Comm_size" => comm_size, "Comm_compare" => comm_compare,
    "Comm_dup" => comm_dup, "Comm_dup_with_info" => comm_dup_with_info,
    "Comm_idup" => comm_idup, "Comm_idup_with_info" => comm_idup_with_info,
    "Comm_split" => comm_split, "Comm_split_type" => comm_split_type,
    "Comm_create" => comm_create, "Comm_create_group" => comm_create_group,
    "Comm_free" => comm_free, "Comm_disconnect" => comm_free,
    "Comm_get_parent" => comm_get_parent, "Finalize" => finalize, "Abort" => abort,
};

unsafe extern "C-unwind" fn comm_rank(comm: Object, rank: *mut c_int) -> c_int {
    answer(comm, |layer| {
        // SAFETY: room for the answer.
        unsafe { *rank = layer.comm(comm)?.rank as c_int };
        Ok(())
    })
}

unsafe extern "C-unwind" fn comm_size(comm: Object, size: *mut c_int) -> c_int {
    answer(comm, |layer| {
        // SAFETY: room for the answer.
        unsafe { *size = layer.comm(comm)?.size() as c_int };
        Ok(())
    })
}

unsafe extern "C-unwind" fn comm_compare(one: Object, other: Object, result: *mut c_int) -> c_int {
    answer(one, |layer| {
        let (first, second) = (layer.comm(one)?, layer.comm(other)?);
        let sorted = |comm: &Comm| {
            let mut members = comm.members.clone();
            members.sort_unstable();
            members
        };
        let answer = if one == other {
            MPI_IDENT
        } else if first.members == second.members {
            MPI_CONGRUENT
        } else if sorted(&first) == sorted(&second) {
            MPI_SIMILAR
        } else {
            MPI_UNEQUAL
        };
        // SAFETY: room for the answer.
        unsafe { *result = answer };
        Ok(())
    })
}

/// What each of these members of a communicator says: three numbers.
pub(super) fn hear(
    layer: &'static Layer,
    place: &Place,
    members: &[usize],
    mut own: [c_int; 3],
) -> Result<Vec<[c_int; 3]>, c_int> {
    let rank = members.iter().position(|member| *member == place.comm.rank).ok_or(ERR_INTERN)?;
    let mut all = vec![[0; 3]; members.len()];
    let buffer = |words: &mut [c_int; 3]| Buffer {
        address: words.as_mut_ptr().cast(),
        count: size_of_val(words) as c_int,
        datatype: layer.byte,
    };
    let parts: Vec<Buffer> = all.iter_mut().map(buffer).collect();
    let steps = Member { size: members.len(), rank }.gather_for_all(Some(buffer(&mut own)), &parts);
    progress::run(layer, Operation::of(place, among(steps, members)))?;
    Ok(all)
}

/// What each of these members says: two numbers; and a communicator number of the first of them, which nobody else
/// gives.
fn ask(
    layer: &'static Layer,
    place: &Place,
    members: &[usize],
    [color, key]: [c_int; 2],
) -> Result<(Vec<(c_int, c_int)>, u32), c_int> {
    let number = if members.first() == Some(&place.comm.rank) { lock(&layer.comms).reserve()? } else { 0 };
    let all = hear(layer, place, members, [color, key, number as c_int])?;
    Ok((all.iter().map(|[color, key, _]| (*color, *key)).collect(), all[0][2] as u32))
}

/// Makes a communicator of these members of another one, of which this process is one. Returns its handle.
pub(super) fn make(
    layer: &Layer,
    parent: &Comm,
    number: u32,
    places: &[usize],
    topology: Option<Topology>,
    keeps_attributes: bool,
) -> Result<Object, c_int> {
    let rank = places.iter().position(|place| *place == parent.rank).ok_or(ERR_INTERN)?;
    let (from, mut handle, mut handler) = (parent.handle as Object, std::ptr::null_mut(), std::ptr::null_mut());
    let is_own = from != layer.world && keeps_attributes;
    // SAFETY: communicators of this process alone: nobody else takes part.
    unsafe {
        ok((layer.stock.comm_dup)(if is_own { from } else { layer.own }, &mut handle))?;
        ok((layer.stock.comm_get_errhandler)(from, &mut handler))?;
        ok((layer.stock.comm_set_errhandler)(handle, handler))?;
        (layer.stock.errhandler_free)(&mut handler);
    }
    let members = places.iter().map(|place| parent.members[*place]).collect();
    lock(&layer.comms).add(Comm::new(handle, number, members, rank, topology));
    Ok(handle)
}

pub(super) fn all(comm: &Comm) -> Vec<usize> {
    (0..comm.size()).collect()
}

/// An operation that agrees on the number of a duplicate and makes it.
pub(super) fn duplicate(layer: &'static Layer, comm: Object, new: *mut Object) -> Result<Operation, c_int> {
    let comm = layer.comm(comm)?;
    let place = Place::next(&comm);
    let mut operation = Operation::new(&place);
    let number = operation.memory(lock(&layer.protocol).data(), size_of::<u32>() as c_int, layer.byte);
    let word = number.address.cast::<u32>();
    if comm.rank == 0 {
        // SAFETY: memory of the operation for a word.
        unsafe { word.write_unaligned(lock(&layer.comms).reserve()?) };
    }
    operation.steps = place.member().broadcast(0, number).into();
    operation.finish = Some(Box::new(move || {
        // SAFETY: memory of the operation, and room for a handle.
        unsafe { *new = make(layer, &comm, word.read_unaligned(), &all(&comm), comm.topology.clone(), true)? };
        Ok(())
    }));
    Ok(operation)
}

unsafe extern "C-unwind" fn comm_dup(comm: Object, new: *mut Object) -> c_int {
    answer(comm, |layer| progress::run(layer, duplicate(layer, comm, new)?))
}

unsafe extern "C-unwind" fn comm_dup_with_info(comm: Object, _info: Object, new: *mut Object) -> c_int {
    // SAFETY: as of that function. Hints may be ignored.
    unsafe { comm_dup(comm, new) }
}

unsafe extern "C-unwind" fn comm_idup(comm: Object, new: *mut Object, request: *mut *mut Request) -> c_int {
    // SAFETY: room for handles.
    answer(comm, |layer| unsafe { begin(layer, duplicate(layer, comm, new)?, request) })
}

unsafe extern "C-unwind" fn comm_idup_with_info(
    comm: Object,
    _info: Object,
    new: *mut Object,
    request: *mut *mut Request,
) -> c_int {
    // SAFETY: as of that function. Hints may be ignored.
    unsafe { comm_idup(comm, new, request) }
}

/// Ranks are near each other if their first processes were. A replacement may be on another node: what they would share
/// is refused.
unsafe extern "C-unwind" fn comm_split_type(
    comm: Object,
    kind: c_int,
    key: c_int,
    _info: Object,
    new: *mut Object,
) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let node = &layer.nodes[layer.rank as usize];
        let first = layer.nodes.iter().position(|other| other == node);
        let color = if kind == MPI_UNDEFINED { None } else { first };
        let color = color.map_or(MPI_UNDEFINED, |first| first as c_int);
        // SAFETY: room for a handle.
        unsafe { *new = part(layer, &comm, color, key, |_| None)? };
        Ok(())
    })
}

unsafe extern "C-unwind" fn comm_split(comm: Object, color: c_int, key: c_int, new: *mut Object) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        // SAFETY: room for a handle.
        unsafe { *new = part(layer, &comm, color, key, |_| None)? };
        Ok(())
    })
}

/// The part of a communicator in which this process is, or `MPI_COMM_NULL`.
pub(super) fn part(
    layer: &'static Layer,
    comm: &Arc<Comm>,
    color: c_int,
    key: c_int,
    topology: impl FnOnce(usize) -> Option<Topology>,
) -> Result<Object, c_int> {
    let (answers, number) = ask(layer, &Place::next(comm), &all(comm), [color, key])?;
    if color == MPI_UNDEFINED {
        return Ok(layer.null);
    }
    let places = split(&answers, comm.rank);
    let topology = topology(places.len());
    make(layer, comm, number, &places, topology, false)
}

unsafe extern "C-unwind" fn comm_create(comm: Object, group: Object, new: *mut Object) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let places = groups::places(layer, &comm, group)?;
        let (_, number) = ask(layer, &Place::next(&comm), &all(&comm), [0, 0])?;
        let is_member = places.contains(&comm.rank);
        // SAFETY: room for a handle.
        unsafe { *new = if is_member { make(layer, &comm, number, &places, None, false)? } else { layer.null } };
        Ok(())
    })
}

unsafe extern "C-unwind" fn comm_create_group(comm: Object, group: Object, tag: c_int, new: *mut Object) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        let places = groups::places(layer, &comm, group)?;
        // SAFETY: room for a handle.
        unsafe {
            *new = if places.contains(&comm.rank) {
                let (_, number) = ask(layer, &Place::of_some(&comm, tag), &places, [0, 0])?;
                make(layer, &comm, number, &places, None, false)?
            } else {
                layer.null
            };
        }
        Ok(())
    })
}

unsafe extern "C-unwind" fn comm_free(comm: *mut Object) -> c_int {
    answer_plainly(|layer| {
        // SAFETY: the place of a handle.
        unsafe {
            if *comm == layer.world || lock(&layer.comms).remove(*comm).is_none() {
                return Err(ERR_COMM);
            }
            ok((layer.stock.comm_free)(comm))
        }
    })
}

unsafe extern "C-unwind" fn comm_get_parent(parent: *mut Object) -> c_int {
    answer_plainly(|layer| {
        // SAFETY: room for a handle. Jobs with spares are not spawned.
        unsafe { *parent = layer.null };
        Ok(())
    })
}

/// Nobody leaves before all have what they need: a replacement asks all others.
unsafe extern "C-unwind" fn finalize() -> c_int {
    answer_plainly(|layer| {
        lock(&layer.protocol).end_output();
        let world = layer.comm(layer.world)?;
        // A rank that is dead for good has been said.
        let place = Place::next(&world);
        let nothing = Buffer { address: std::ptr::null_mut(), count: 0, datatype: layer.byte };
        let _ = progress::run(layer, Operation::of(&place, place.member().barrier(nothing)));
        lock(&layer.protocol).leave();
        // SAFETY: Open MPI's function, called once by the program.
        let code = unsafe { (layer.stock.finalize)() };
        // Every rank is through, and all is printed: a process that dies from now on is no loss.
        if code == ERR_PROC_FAILED { Ok(()) } else { ok(code) }
    })
}

/// What the program has printed leaves before the job ends.
unsafe extern "C-unwind" fn abort(_comm: Object, code: c_int) -> c_int {
    answer_plainly(|layer| {
        lock(&layer.protocol).end_output();
        lock(&layer.protocol).before_abort();
        // SAFETY: Open MPI's function: all processes of the job end.
        ok(unsafe { (layer.stock.abort)(layer.world, code) })
    })
}

//! What combines data.

use std::ffi::{c_int, c_void};

use openmpi_internals::object::Object;
use openmpi_internals::sync::lock;

use super::{buffer, equal_parts, is_in_place, listed_parts, root_of};
use crate::data::Buffer;
use crate::layer::Layer;
use crate::operation::{Operation, Place};

type Made = Result<Operation, c_int>;

/// An operation that combines the data of a member with those of others, with its own data and two buffers to do so.
fn begin(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    recvbuf: *const c_void,
    (count, datatype, op): (c_int, Object, Object),
) -> Result<(Operation, Buffer, [Buffer; 2]), c_int> {
    let own = layer.check(buffer(if is_in_place(sendbuf) { recvbuf } else { sendbuf }, count, datatype))?;
    let mut operation = Operation::new(place);
    operation.op = op;
    let mut protocol = lock(&layer.protocol);
    let spare = [(); 2].map(|()| operation.memory(protocol.data(), count, datatype));
    Ok((operation, own, spare))
}

pub(super) unsafe fn reduce(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Object,
    op: Object,
    root: c_int,
) -> Made {
    let root = root_of(&place.comm, root)?;
    let (mut operation, own, spare) = begin(layer, place, sendbuf, recvbuf, (count, datatype, op))?;
    let result = buffer(recvbuf, count, datatype);
    operation.steps = place.member().reduce(root, own, spare, result).into();
    Ok(operation)
}

pub(super) unsafe fn allreduce(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Object,
    op: Object,
) -> Made {
    let (mut operation, own, spare) = begin(layer, place, sendbuf, recvbuf, (count, datatype, op))?;
    let result = buffer(recvbuf, count, datatype);
    operation.steps = place.member().reduce_for_all(own, spare, result).into();
    Ok(operation)
}

fn prefix(
    layer: &Layer,
    place: &Place,
    is_inclusive: bool,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    items: (c_int, Object, Object),
) -> Made {
    let (mut operation, own, spare) = begin(layer, place, sendbuf, recvbuf, items)?;
    let result = buffer(recvbuf, items.0, items.1);
    operation.steps = place.member().prefix(is_inclusive, own, spare, result).into();
    Ok(operation)
}

pub(super) unsafe fn scan(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Object,
    op: Object,
) -> Made {
    prefix(layer, place, true, sendbuf, recvbuf, (count, datatype, op))
}

pub(super) unsafe fn exscan(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Object,
    op: Object,
) -> Made {
    prefix(layer, place, false, sendbuf, recvbuf, (count, datatype, op))
}

/// Data are combined at the first member, which gives each its part. `parts` are of a buffer of all data.
fn reduce_parts(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    items: (c_int, Object, Object),
    parts: impl FnOnce(Buffer) -> Vec<Buffer>,
    own_count: c_int,
) -> Made {
    let (mut operation, own, spare) = begin(layer, place, sendbuf, recvbuf, items)?;
    let (mut steps, folded) = place.member().fold(own, spare);
    steps.extend(place.member().scatter(0, Some(buffer(recvbuf, own_count, items.1)), &parts(folded)));
    operation.steps = steps.into();
    Ok(operation)
}

pub(super) unsafe fn reduce_scatter(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    counts: *const c_int,
    datatype: Object,
    op: Object,
) -> Made {
    let size = place.comm.size();
    // SAFETY: as many counts as there are members.
    let listed: Vec<c_int> = (0..size).map(|place| unsafe { *counts.add(place) }).collect();
    let starts: Vec<c_int> = listed.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count))).collect();
    let parts = |all: Buffer| {
        // SAFETY: as above.
        unsafe { listed_parts(layer, size, all.address, listed.as_ptr(), starts.as_ptr(), datatype) }
    };
    let items = (listed.iter().sum(), datatype, op);
    reduce_parts(layer, place, sendbuf, recvbuf, items, parts, listed[place.comm.rank])
}

pub(super) unsafe fn reduce_scatter_block(
    layer: &Layer,
    place: &Place,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: c_int,
    datatype: Object,
    op: Object,
) -> Made {
    let size = place.comm.size();
    let parts = |all: Buffer| equal_parts(layer, size, Buffer { count, ..all });
    reduce_parts(layer, place, sendbuf, recvbuf, (count * size as c_int, datatype, op), parts, count)
}

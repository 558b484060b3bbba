//! Functions of User Level Failure Mitigation, for a program that would repair itself. A death that is repaired is none
//! of its business: no process has failed.

use std::ffi::c_int;

use mpi_entry::entries::Handler;
use openmpi_internals::object::Object;

use crate::data::ok;
use crate::entries::communicators::{all, duplicate, hear};
use crate::handlers::handlers;
use crate::layer::answer;
use crate::operation::Place;
use crate::progress;

pub(super) const HANDLERS: &[Handler] = handlers! {
    "Comm_agree" => agree, "Comm_shrink" => shrink, "Comm_is_revoked" => is_revoked,
    "Comm_get_failed" => get_failed, "Comm_failure_get_acked" => get_failed,
    "Comm_ack_failed" => ack_failed, "Comm_failure_ack" => failure_ack,
};

/// The bitwise and of the flags of all members.
unsafe extern "C-unwind" fn agree(comm: Object, flag: *mut c_int) -> c_int {
    answer(comm, |layer| {
        let comm = layer.comm(comm)?;
        // SAFETY: a variable of the program.
        let own = unsafe { *flag };
        let flags = hear(layer, &Place::next(&comm), &all(&comm), [own, 0, 0])?;
        // SAFETY: as above.
        unsafe { *flag = flags.iter().fold(own, |agreed, [flag, ..]| agreed & flag) };
        Ok(())
    })
}

/// A communicator of all members.
unsafe extern "C-unwind" fn shrink(comm: Object, shrunk: *mut Object) -> c_int {
    answer(comm, |layer| progress::run(layer, duplicate(layer, comm, shrunk)?))
}

unsafe extern "C-unwind" fn is_revoked(comm: Object, flag: *mut c_int) -> c_int {
    answer(comm, |layer| {
        layer.comm(comm)?;
        // SAFETY: room for the answer.
        unsafe { *flag = 0 };
        Ok(())
    })
}

/// A group of nobody.
unsafe extern "C-unwind" fn get_failed(comm: Object, failed: *mut Object) -> c_int {
    answer(comm, |layer| {
        layer.comm(comm)?;
        // SAFETY: a group, and room for a handle.
        ok(unsafe { (layer.stock.group_incl)(layer.base, 0, std::ptr::null(), failed) })
    })
}

unsafe extern "C-unwind" fn ack_failed(comm: Object, _count: c_int, acked: *mut c_int) -> c_int {
    answer(comm, |layer| {
        layer.comm(comm)?;
        // SAFETY: room for the answer.
        unsafe { *acked = 0 };
        Ok(())
    })
}

unsafe extern "C-unwind" fn failure_ack(comm: Object) -> c_int {
    answer(comm, |layer| layer.comm(comm).map(drop))
}

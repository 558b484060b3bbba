//! Dispatches the last two steps of Open MPI's constructors of communicators to the constructor's module.
//!
//! In these steps the members choose the context id, and activate the communicator, which gives it its collectives.
//! This module interposes on Open MPI's functions for both.
//!
//! `MPI_Intercomm_merge` is a function of MPI only, without an internal constructor. So this module also makes the
//! members of a uniform communicator agree on its result: once, after its last step has ended or the previous one has
//! failed.

use std::ffi::c_int;
use std::sync::OnceLock;

use crate::agreement::vote::About;
use crate::cid::cid_call::{CidCall, in_front_of_cid};
use crate::cid::comm_epoch;
use crate::constructors::create_from_group;
use crate::constructors::creation_vote::{self, Activation};
use crate::constructors::steps::{called, making};
use crate::constructors::{connect_accept, intercomm_create};
use crate::onesided::win_and_file;
use crate::properties::communicators;
use crate::properties::error_uniformity::Uniformity;
use crate::properties::info_property::UNIFORMITY;
use crate::uniform::operations;
use openmpi_internals::abi::{Activate, ActivateAndWait, NextCidAndWait};
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::ERR_PROC_FAILED;
use openmpi_internals::functions::{OMPI_COMM_ACTIVATE, OMPI_COMM_ACTIVATE_NB, OMPI_COMM_NEXTCID};
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::cid_mode::{
    OMPI_COMM_CID_GROUP, OMPI_COMM_CID_INTER, OMPI_COMM_CID_INTRA_BRIDGE, OMPI_COMM_CID_INTRA_PMIX,
};
use openmpi_internals::object::Object;

struct Stock {
    activate: Activate,
    nextcid_and_wait: NextCidAndWait,
    activate_and_wait: ActivateAndWait,
}

static STOCK: OnceLock<Stock> = OnceLock::new();

/// Interposes on the functions that choose context ids and activate communicators.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the types are those of communicator.h; functions of the same types take their places.
    unsafe {
        let stock = Stock {
            activate: at.function(OMPI_COMM_ACTIVATE_NB)?,
            nextcid_and_wait: at.function(OMPI_COMM_NEXTCID)?,
            activate_and_wait: at.function(OMPI_COMM_ACTIVATE)?,
        };
        let _ = STOCK.set(stock);
        at.redirect_all(&[
            OMPI_COMM_ACTIVATE_NB.by(activate),
            OMPI_COMM_NEXTCID.by(nextcid_and_wait),
            OMPI_COMM_ACTIVATE.by(activate_and_wait),
        ])?;
    }
    win_and_file::activations_are_seen();
    Ok(())
}

in_front_of_cid! { stock = STOCK.get();
    fn activate(cid_call of Object, request) {
        let (comm, mode) = (cid_call.comm, cid_call.mode);
        // SAFETY: Open MPI passes the address of the new communicator's handle.
        let new = unsafe { cid_call.made.cast::<Object>().read() };
        // SAFETY: as above.
        let call = unsafe { called(new, comm, mode) };
        if let Some(call) = &call {
            call.note_context_id();
            // The new communicator would never learn of an earlier death.
            if let Some(class) = call.refusal().or_else(|| call.refusal_of(new)) {
                call.has_failed();
                return class;
            }
        }
        if mode == OMPI_COMM_CID_INTRA_PMIX {
            // SAFETY: as above.
            unsafe { connect_accept::note_context_id(new, comm) };
        }
        call.iter().for_each(|call| call.begin_activation());
        // SAFETY: as above; other members wait for this process in the activation.
        unsafe { comm_epoch::set_epoch(new, comm, mode) };
        // SAFETY: as above.
        making(call, || unsafe { cid_call.start(stock.activate, request) })
    }
}

/// Whether an intercommunicator is being merged.
///
/// # Safety
/// A communicator that is being made, and has its groups.
unsafe fn is_merge(made: Object, mode: c_int) -> bool {
    // SAFETY: as required of the caller.
    mode == OMPI_COMM_CID_INTER && Internals::fitting().is_some() && unsafe { Internals::own_side_of(made) }.is_none()
}

in_front_of_cid! { stock = STOCK.get();
    fn nextcid_and_wait(call of Object) {
        // SAFETY: the stock function with its original arguments.
        unsafe {
            if let Some(code) = create_from_group::settle_context_id(call.made, call.first, call.mode) {
                return code;
            }
            let code = call.run(stock.nextcid_and_wait);
            let is_lost_merge = code != 0 && is_merge(call.made, call.mode);
            if is_lost_merge { operations::agree_on(call.comm, About::Members, || code) } else { code }
        }
    }

    fn activate_and_wait(call of *mut Object) {
        // SAFETY: arguments of Open MPI for its function.
        unsafe { activate_whole(&call, stock.activate_and_wait) }
    }
}

/// Runs the last step of a blocking constructor.
///
/// # Safety
/// Arguments of Open MPI for its function, which is `stock`.
unsafe fn activate_whole(call: &CidCall<*mut Object>, stock: ActivateAndWait) -> c_int {
    let (comm, mode) = (call.comm, call.mode);
    // SAFETY: as required of the caller.
    let begin = || unsafe { call.run(stock) };
    // SAFETY: Open MPI passes the address of the new communicator's handle.
    let new = unsafe { call.made.read() };
    if mode != OMPI_COMM_CID_GROUP {
        let begin = || win_and_file::activating(new, comm, begin);
        let crossing = intercomm_create::present().filter(|_| mode == OMPI_COMM_CID_INTRA_BRIDGE);
        // SAFETY: both are live and the context id is chosen. Crossings exist only in an Open MPI of the known layout.
        return unsafe {
            match crossing {
                _ if is_merge(new, mode) => merge(new, comm, begin),
                Some(crossing) => {
                    comm_epoch::set_epoch(new, comm, mode);
                    crossing.activate(new, begin)
                }
                None if mode == OMPI_COMM_CID_INTRA_PMIX => connect_accept::activate(new, comm, begin),
                None => begin(),
            }
        };
    }
    // SAFETY: arguments of Open MPI, and its function.
    if let Some(code) = unsafe { create_from_group::activate(call.made, comm, mode, stock) } {
        return code;
    }
    let is_uniform = || Uniformity::from_value(communicators::values(comm)[UNIFORMITY]) != Uniformity::Local;
    // SAFETY: as above.
    let Some(made_with) = unsafe { called(new, comm, mode) }.filter(|_| is_uniform()) else { return begin() };
    let activate = || {
        let code = begin();
        Activation { code, has_begun: made_with.is_activating() }
    };
    // SAFETY: both are live and the context id is chosen. Uniform communicators need an Open MPI of the known layout.
    unsafe {
        comm_epoch::set_epoch(new, comm, mode);
        creation_vote::cast(new, comm, activate)
    }
}

/// Activates a merged communicator; the members agree on the result.
fn merge(new: Object, comm: Object, begin: impl FnOnce() -> c_int) -> c_int {
    let mut own = ERR_PROC_FAILED;
    let code = operations::agree_on(comm, About::Members, || {
        own = begin();
        if own == 0 {
            operations::hold(new);
        }
        own
    });
    if own == 0 {
        operations::decided(new, code);
    }
    code
}

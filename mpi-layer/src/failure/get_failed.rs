//! Makes the functions that query failed processes see current deaths.
//!
//! Open MPI does not turn its progress loop in them, so a program that only queries never learns of a death. When a
//! program calls them, ringwatch first processes pending work. Calls from inside ringwatch, in a turn or under a lock,
//! use Open MPI's own functions.

use std::ffi::c_int;
use std::sync::OnceLock;

use crate::failure::progress_hook;
use crate::in_front::{guard, in_front};
use openmpi_internals::abi::{CommAckFailed, CommGetFailed, OnObject};
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::functions::{
    OMPI_COMM_ACK_FAILED_INTERNAL, OMPI_COMM_FAILURE_ACK_INTERNAL, OMPI_COMM_GET_FAILED_INTERNAL,
};
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::object::Object;

struct Stock {
    get: CommGetFailed,
    acknowledge: CommAckFailed,
    acknowledge_all: OnObject,
}

static STOCK: OnceLock<Stock> = OnceLock::new();

/// Interposes on these functions. At the end of `MPI_Init`.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the types are those of communicator.h, and our functions have the same.
    unsafe {
        let _ = STOCK.set(Stock {
            get: at.function(OMPI_COMM_GET_FAILED_INTERNAL)?,
            acknowledge: at.function(OMPI_COMM_ACK_FAILED_INTERNAL)?,
            acknowledge_all: at.function(OMPI_COMM_FAILURE_ACK_INTERNAL)?,
        });
        at.redirect_all(&[
            OMPI_COMM_GET_FAILED_INTERNAL.by(get),
            OMPI_COMM_ACK_FAILED_INTERNAL.by(acknowledge),
            OMPI_COMM_FAILURE_ACK_INTERNAL.by(acknowledge_all),
        ])
    }
}

/// Open MPI's own functions, after pending work is processed.
fn stock() -> Option<&'static Stock> {
    guard((), progress_hook::catch_up);
    STOCK.get()
}

in_front! { stock = stock(), or ERR_INTERN;
    unsafe extern "C" fn get(comm: Object, failed: *mut Object) -> c_int {
        // SAFETY: the stock function with its original arguments.
        unsafe { (stock.get)(comm, failed) }
    }

    unsafe extern "C" fn acknowledge(comm: Object, count: c_int, acknowledged: *mut c_int) -> c_int {
        // SAFETY: as above.
        unsafe { (stock.acknowledge)(comm, count, acknowledged) }
    }

    unsafe extern "C" fn acknowledge_all(comm: Object) -> c_int {
        // SAFETY: as above.
        unsafe { (stock.acknowledge_all)(comm) }
    }
}

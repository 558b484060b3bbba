//! Passes attributes and the error handler from a shrunk communicator to the new one, as they were at the program's
//! call.
//!
//! Open MPI copies attributes in its progress loop, after the members have agreed on the living ones: a copy function
//! that makes a communicator would wait there for ever. So this module copies them during the program's call, to a
//! private communicator, and moves them later.

use std::ffi::c_int;

use openmpi_internals::layout::communicator::C_KEYHASH;

use crate::internals::Internals;
use crate::openmpi::Handle;

/// The attributes and the error handler of a communicator.
pub struct Inheritance {
    origin: Handle,
    /// The private communicator with the attributes.
    carrier: Handle,
    errhandler: Handle,
}

// SAFETY: MPI's handles belong to the process.
unsafe impl Send for Inheritance {}

impl Inheritance {
    /// Calls the attributes' copy functions; or returns such a function's error code.
    ///
    /// # Safety
    /// An intracommunicator that lives until this object is ended.
    pub unsafe fn new(internals: &Internals, origin: Handle) -> Result<Self, c_int> {
        let (nothing, no_ranks) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (mut group, mut carrier, mut errhandler) = (nothing, nothing, nothing);
        let (errors, comm_set) = (internals.errors_return, internals.comm_set);
        // SAFETY: as required of the caller, and places for the results; the list of ranks is not read if there is a
        // group.
        unsafe {
            (internals.comm_group)(origin, &mut group);
            let attributes = attributes_of(origin).read();
            let code = comm_set(&mut carrier, origin, 0, no_ranks, 0, no_ranks, attributes, errors, group, nothing, 0);
            (internals.group_free)(&mut group);
            if code != 0 {
                return Err(code);
            }
            match (internals.get_errhandler)(origin, &mut errhandler) {
                0 => Ok(Self { origin, carrier, errhandler }),
                code => {
                    internals.release(carrier);
                    Err(code)
                }
            }
        }
    }

    /// The shrunk communicator, and its error handler at the program's call.
    pub fn origin(&self) -> (Handle, Handle) {
        (self.origin, self.errhandler)
    }

    /// Moves the attributes to a communicator.
    ///
    /// # Safety
    /// A live communicator without attributes.
    pub unsafe fn hand_over(&self, newcomm: Handle) {
        // SAFETY: as required of the caller.
        unsafe { attributes_of(newcomm).write(attributes_of(self.carrier).replace(std::ptr::null_mut())) };
    }

    /// Deletes attributes that were not moved.
    pub fn end(mut self, internals: &Internals) {
        // SAFETY: no other code knows the communicator.
        unsafe {
            internals.release(self.carrier);
            (internals.errhandler_free)(&mut self.errhandler);
        }
    }
}

/// The place of a communicator's attributes.
fn attributes_of(comm: Handle) -> *mut Handle {
    comm.wrapping_byte_add(C_KEYHASH).cast()
}

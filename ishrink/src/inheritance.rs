//! What a communicator that is made by shrinking another one has from that: attributes and the error handler, as they were
//! when the program called.
//!
//! Open MPI copies attributes when the members have agreed on who lives, in its progress loop: a copy function that makes a
//! communicator itself would wait there for ever. So they are copied in the call of the program, for a communicator that
//! nobody knows, and handed over.

use std::ffi::c_int;

use crate::internals::Internals;
use crate::objects;
use crate::openmpi::Handle;

/// Of `ompi_communicator_t`: the table of its attributes, null if it has none.
const ATTRIBUTES: usize = 0x120;

/// What one communicator inherits.
pub struct Inheritance {
    origin: Handle,
    /// Has the attributes.
    carrier: Handle,
    errhandler: Handle,
}

// SAFETY: MPI's handles are the process's.
unsafe impl Send for Inheritance {}

impl Inheritance {
    /// Calls the copy functions of the attributes; or returns an error code, that of such a function.
    ///
    /// # Safety
    /// An intracommunicator that lives until this is given up.
    pub unsafe fn new(inside: &Internals, origin: Handle) -> Result<Self, c_int> {
        let (nothing, no_ranks) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (mut group, mut carrier, mut errhandler) = (nothing, nothing, nothing);
        let (errors, make_communicator) = (inside.errors_return, inside.make_communicator);
        // SAFETY: as required of the caller, and room for the answers; the list of ranks is not read where there is a group.
        unsafe {
            (inside.group)(origin, &mut group);
            let attributes = attributes_of(origin).read();
            let code = make_communicator(
                &mut carrier,
                origin,
                0,
                no_ranks,
                0,
                no_ranks,
                attributes,
                errors,
                group,
                nothing,
                0,
            );
            (inside.group_free)(&mut group);
            if code != 0 {
                return Err(code);
            }
            match (inside.errhandler)(origin, &mut errhandler) {
                0 => Ok(Self { origin, carrier, errhandler }),
                code => {
                    objects::let_go(inside, carrier);
                    Err(code)
                }
            }
        }
    }

    /// The communicator from which it comes, and its error handler then.
    pub fn origin(&self) -> (Handle, Handle) {
        (self.origin, self.errhandler)
    }

    /// Gives the attributes to a communicator.
    ///
    /// # Safety
    /// One that lives, and has none.
    pub unsafe fn hand_over(&self, made: Handle) {
        // SAFETY: as required of the caller.
        unsafe { attributes_of(made).write(attributes_of(self.carrier).replace(std::ptr::null_mut())) };
    }

    /// Nobody inherits any more: deletes the attributes that nobody has got.
    pub fn end(mut self, inside: &Internals) {
        // SAFETY: nobody else knows the communicator.
        unsafe {
            objects::let_go(inside, self.carrier);
            (inside.errhandler_free)(&mut self.errhandler);
        }
    }
}

/// Where a communicator has its attributes.
fn attributes_of(comm: Handle) -> *mut Handle {
    comm.wrapping_byte_add(ATTRIBUTES).cast()
}

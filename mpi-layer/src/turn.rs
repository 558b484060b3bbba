//! Open MPI's turn to number communicators.
//!
//! The number of a new communicator is agreed on with operations that do not block, on the communicator that it is made
//! from. Among several constructors that of the communicator with the lowest number goes first: a word of Open MPI 5.0
//! has its number, and all with higher ones wait, `MPIX_Comm_shrink` included. When such an operation fails, the
//! constructor leaves the word as it is (comm_cid.c:714 and 765), and they wait for ever.
//!
//! Here the turn is taken by one more constructor, which fails at once, so that Open MPI clears the word (comm_cid.c:697).
//! It is the first in the order, because it is for `MPI_COMM_WORLD`, and fails because it is for two groups, of which
//! that has one. It sends nothing, and takes no number, for this process would not be in its communicator.
//!
//! Nobody tells which operations are a constructor's, so each that fails is taken for one. Who has the turn by right
//! loses it, too, which does no harm: a number is taken only where all members have it free, and a constructor that has
//! met another one tries again in turn.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use crate::line::lock;
use crate::objects::{Base, Object};
use crate::openmpi::Library;
use crate::requests::Request;
use crate::shadows::Shadows;

/// `OMPI_COMM_CID_INTER`
const NUMBER_IN_TWO_GROUPS: c_int = 0x00000040;

type NextNumber =
    unsafe extern "C" fn(Object, Object, Object, *const c_void, *const c_void, bool, c_int, *mut *mut Request) -> c_int;

/// What Open MPI has to number communicators.
pub struct Turn {
    next_number: NextNumber,
    world: Object,
    null_communicator: Object,
    attempt: Mutex<Attempt>,
}

/// The constructor that fails.
struct Attempt {
    /// The communicator that it is for, which has no member.
    nobody: Object,
    /// The request of the last one.
    request: *mut Request,
}

impl Turn {
    /// `None` if this Open MPI lacks something.
    pub fn find(library: &Library) -> Option<Self> {
        let attempt = Mutex::new(Attempt { nobody: std::ptr::null_mut(), request: std::ptr::null_mut() });
        // SAFETY: the types are those of mpi.h and communicator.h.
        unsafe {
            Some(Self {
                next_number: library.function(c"ompi_comm_nextcid_nb")?,
                world: library.predefined(c"ompi_mpi_comm_world")?,
                null_communicator: library.predefined(c"ompi_mpi_comm_null")?,
                attempt,
            })
        }
    }

    /// An operation that does not block has failed: if it was a constructor's, the others have their turn. What has to be
    /// done for it is done in MPI's progress loop.
    ///
    /// A failed `MPI_Comm_idup` also gives back a reference to `MPI_COMM_NULL` that it has not taken (comm.c,
    /// `ompi_comm_idup_with_info_activate`), and the second one would free it: here is one.
    pub fn give_back(&self, shadows: &Shadows) {
        let mut attempt = lock(&self.attempt);
        // SAFETY: predefined communicators live; the request is given back only here, and the communicator of nobody,
        // which it uses, lives for ever.
        unsafe {
            (*self.null_communicator.cast::<Base>()).references.fetch_add(1, Ordering::AcqRel);
            if !attempt.request.is_null() {
                if !Request::is_complete(attempt.request) {
                    // It comes after this failure.
                    return;
                }
                Request::give_back(attempt.request);
                attempt.request = std::ptr::null_mut();
            }
            if attempt.nobody.is_null() && shadows.make_empty(&mut attempt.nobody, self.world) != 0 {
                return;
            }
            let (nobody, nothing) = (attempt.nobody, std::ptr::null());
            let request = &mut attempt.request;
            let bridge = std::ptr::null_mut();
            (self.next_number)(nobody, self.world, bridge, nothing, nothing, false, NUMBER_IN_TWO_GROUPS, request);
        }
    }
}

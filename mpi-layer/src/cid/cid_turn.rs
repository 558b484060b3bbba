//! Clears Open MPI's marker of the constructor that may choose a context id, after that constructor has failed.
//!
//! Members choose the context id of a new communicator with nonblocking operations on its parent. Among concurrent
//! constructors the one whose parent has the lowest context id runs first: Open MPI 5.0 stores that id in a variable,
//! and constructors on parents with higher ids wait, `MPIX_Comm_shrink` included. If an operation fails, the
//! constructor does not reset the variable (comm_cid.c:714 and 765), and the others wait for ever.
//!
//! ringwatch starts one more constructor that fails at once, so that Open MPI resets the variable (comm_cid.c:697). It
//! runs first because its parent is `MPI_COMM_WORLD`, and fails because it requests an intercommunicator mode on this
//! intracommunicator. It sends nothing and takes no context id, because this process is not a member of the result.
//!
//! ringwatch cannot tell which operations belong to a constructor, so it does this after each failed one. A running
//! constructor may lose its turn, too. That is harmless: a context id is taken only if all members have it free, and a
//! constructor that finds it taken tries again.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};

use openmpi_internals::abi::NextCid;
use openmpi_internals::comm_set;
use openmpi_internals::functions::OMPI_COMM_NEXTCID_NB;
use openmpi_internals::layout::cid_mode::OMPI_COMM_CID_INTER;
use openmpi_internals::loaded::Library;
use openmpi_internals::object::{Base, Object};
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::{OMPI_MPI_COMM_NULL, OMPI_MPI_COMM_WORLD};

/// Objects of Open MPI that take part in choosing context ids.
struct Turn {
    next_number: NextCid,
    world: Object,
    null_communicator: Object,
    attempt: Mutex<Attempt>,
}

/// The constructor that fails on purpose.
struct Attempt {
    /// Its result, which has no members.
    nobody: Object,
    /// The request of the last attempt.
    request: *mut Request,
}

// SAFETY: addresses of functions and of objects that live as long as libmpi; a lock protects the attempt.
unsafe impl Send for Turn {}
// SAFETY: as above.
unsafe impl Sync for Turn {}

/// Clears the marker after a nonblocking operation has failed: waiting constructors can continue. Called in MPI's
/// progress loop.
///
/// A failed `MPI_Comm_idup` also releases a reference to `MPI_COMM_NULL` that it never took (comm.c,
/// `ompi_comm_idup_with_info_activate`), and the second failure would free that object. This function adds a reference.
pub fn give_back() {
    Turn::get().into_iter().for_each(Turn::give_back);
}

impl Turn {
    /// `None` if this Open MPI lacks a symbol.
    fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Turn>> = OnceLock::new();
        FOUND.get_or_init(|| Self::find(&Library::loaded()?)).as_ref()
    }

    fn find(library: &Library) -> Option<Self> {
        let attempt = Mutex::new(Attempt { nobody: std::ptr::null_mut(), request: std::ptr::null_mut() });
        Some(Self {
            next_number: library.function(OMPI_COMM_NEXTCID_NB)?,
            world: library.predefined(OMPI_MPI_COMM_WORLD)?,
            null_communicator: library.predefined(OMPI_MPI_COMM_NULL)?,
            attempt,
        })
    }

    fn give_back(&self) {
        let mut attempt = lock(&self.attempt);
        // SAFETY: predefined communicators are live; only this code releases the request, and the communicator that it
        // uses is never freed.
        unsafe {
            (*self.null_communicator.cast::<Base>()).references.fetch_add(1, Ordering::AcqRel);
            if !attempt.request.is_null() {
                if !Request::is_complete(attempt.request) {
                    // The attempt is still under way, so it follows this failure.
                    return;
                }
                Request::give_back(attempt.request);
                attempt.request = std::ptr::null_mut();
            }
            if attempt.nobody.is_null() && comm_set::make_empty(&mut attempt.nobody, self.world) != 0 {
                return;
            }
            let (nobody, nothing) = (attempt.nobody, std::ptr::null());
            let request = &mut attempt.request;
            let bridge = std::ptr::null_mut();
            (self.next_number)(nobody, self.world, bridge, nothing, nothing, false, OMPI_COMM_CID_INTER, request);
        }
    }
}

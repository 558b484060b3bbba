//! Makes `MPI_Comm_create_from_group` succeed at all living members of the group, or at none, without waiting for dead
//! ones.
//!
//! Open MPI 5.0.7 chooses the context id in the runtime (`PMIx_Group_construct`), where a death blocks all members, and
//! makes them wait for messages of each other afterwards. With ringwatch the members agree on the context id, and on
//! whether any of them knows of a dead member. All survivors have the result of an agreement, so no later step waits.
//! This does not depend on uniformity: no communicator exists yet that could have the property.
//!
//! Members of several mpiruns still choose it in the runtime.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::agreement::vote::{Standing, Statement};
use crate::agreement::{background, shadow_comm};
use crate::cid::parallel_cid;
use crate::in_front::{guard, in_front};
use openmpi_internals::abi::ActivateAndWait;
use openmpi_internals::communicator::{ALLREDUCE, Internals, NONBLOCKING};
use openmpi_internals::error_class::{ERR_INTERN, ERR_PROC_FAILED};
use openmpi_internals::layout::cid_mode::{OMPI_COMM_CID_GROUP, OMPI_COMM_CID_GROUP_NEW, OMPI_COMM_CID_INTRA};
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::OMPI_MPI_COMM_SELF;
use openmpi_internals::{epoch_bits, group, proc};

thread_local! {
    /// Whether the communicator that this thread makes must fail here.
    static FAILS: Cell<bool> = const { Cell::new(false) };
    /// The communicator whose context id this thread has chosen, and the name of that call.
    static SETTLED: RefCell<Option<(usize, blake3::Hasher)>> = const { RefCell::new(None) };
    /// Whether this thread activates a communicator.
    static ACTIVATES: Cell<bool> = const { Cell::new(false) };
}

/// The function that [`reduce_alone`] replaces.
static REDUCTION: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Number of communicators that each group has made with each tag.
static COUNTS: Mutex<BTreeMap<[u8; 32], u32>> = Mutex::new(BTreeMap::new());

/// Chooses the context id of a communicator that is made from a group only, and returns the code; `None` if Open MPI
/// has to do it.
///
/// # Safety
/// Arguments of Open MPI for its function; in this mode `tag` is terminated text.
pub unsafe fn settle_context_id(made: Object, tag: *const c_void, mode: c_int) -> Option<c_int> {
    if mode != OMPI_COMM_CID_GROUP_NEW {
        return None;
    }
    // SAFETY: as required of the caller.
    let settle = || unsafe {
        let (mpi, tag) = (Internals::fitting()?, CStr::from_ptr(tag.cast::<c_char>()));
        if !parallel_cid::is_possible() {
            return None;
        }
        let names = group::of(made)?;
        Some(Call::new(mpi, made, tag, &names[0].iter().flat_map(|name| name.bytes()).collect::<Vec<_>>()).settle())
    };
    guard(Some(ERR_INTERN), settle)
}

/// Activates such a communicator once it has its context id. `None` if Open MPI has to do it.
///
/// # Safety
/// Arguments of Open MPI for its function, which is `stock`.
pub unsafe fn activate(made: *mut Object, comm: Object, mode: c_int, stock: ActivateAndWait) -> Option<c_int> {
    // SAFETY: as required of the caller. `MPI_COMM_SELF` replaces the new communicator, on which all members would wait
    // for each other.
    unsafe {
        let is_made_here = mode == OMPI_COMM_CID_GROUP && made.read() == comm && parallel_cid::has_given(comm);
        let alone = Library::loaded().filter(|_| is_made_here)?.predefined(OMPI_MPI_COMM_SELF)?;
        let (null, slot) = (std::ptr::null_mut(), &mut Internals::fitting()?.table(alone)[NONBLOCKING + ALLREDUCE]);
        if slot.function != reduce_alone as Object {
            REDUCTION.store(slot.function, Ordering::Release);
            slot.function = reduce_alone as Object;
        }
        ACTIVATES.set(true);
        let code = stock(made, alone, null, null.cast_const(), null.cast_const(), false, OMPI_COMM_CID_INTRA);
        ACTIVATES.set(false);
        Some(code)
    }
}

in_front! { mpi = Internals::get(), or ERR_INTERN;
    /// Replaces `MPI_Iallreduce` of `MPI_COMM_SELF`, which may be revoked by its scope. An activation needs no
    /// reduction, and must not fail here. But a member that returns may send and revoke in the new communicator. So all
    /// living members must first have given it its context id and added it to the PML: an earlier revocation is lost
    /// (`ompi_comm_rbcast_bml_recv_cb`).
    unsafe extern "C" fn reduce_alone(
        sendbuf: Object, recvbuf: Object, count: c_int, datatype: Object, op: Object, comm: Object,
        request: *mut *mut Request, module: Object
    ) -> c_int {
        // SAFETY: Open MPI passes the place of the request; the stock function gets its original arguments.
        unsafe {
            if ACTIVATES.get() && sendbuf == recvbuf {
                request.write(mpi.requests.empty());
                return SETTLED.take().map_or(0, |(made, name)| {
                    let call = Call { mpi, made: made as Object, name };
                    call.agree(LAST, 0).map_or(ERR_INTERN, |_| 0)
                });
            }
            let stock = transmute::<Object, Iallreduce>(REDUCTION.load(Ordering::Acquire));
            stock(sendbuf, recvbuf, count, datatype, op, comm, request, module)
        }
    }
}

/// `mca_coll_base_module_iallreduce_fn_t` (coll.h)
type Iallreduce =
    unsafe extern "C" fn(Object, Object, c_int, Object, Object, Object, *mut *mut Request, Object) -> c_int;

/// Runs `make`, which makes such a communicator. If this process `fails`, no member gets it, and none waits for it.
pub fn failing<T>(fails: bool, make: impl FnOnce() -> T) -> T {
    FAILS.set(fails);
    let made = make();
    FAILS.set(false);
    made
}

/// The last round, after the context id is chosen.
const LAST: u32 = u32::MAX;

struct Call<'a> {
    mpi: &'a Internals,
    made: Object,
    /// Equal at all members, and different at every other call.
    name: blake3::Hasher,
}

impl<'a> Call<'a> {
    fn new(mpi: &'a Internals, made: Object, tag: &CStr, names: &[u8]) -> Self {
        let mut name = blake3::Hasher::new();
        name.update(tag.to_bytes_with_nul()).update(names);
        let count = {
            let mut counts = lock(&COUNTS);
            let count = counts.entry(*name.finalize().as_bytes()).or_default();
            *count = count.wrapping_add(1);
            *count
        };
        name.update(&count.to_le_bytes());
        Self { mpi, made, name }
    }

    /// A number and a count that identify round `round` of the call; round 0 identifies the new communicator. Open
    /// MPI's agreements use 16 bits of a communicator's context id.
    fn identity(&self, round: u32) -> (u64, u32) {
        let hash = self.name.clone().update(&round.to_le_bytes()).finalize();
        let [low, high, first, second, third, fourth, ..] = *hash.as_bytes();
        (u64::from(u16::from_le_bytes([low, high])), u32::from_le_bytes([first, second, third, fourth]))
    }

    /// # Safety
    /// A communicator that is being made and has its members, in an Open MPI of the known layout.
    unsafe fn settle(&self) -> c_int {
        let mut floor = 0;
        for round in 1.. {
            let Some(own) = parallel_cid::claim_from(floor) else { return ERR_INTERN };
            // SAFETY: as required of the caller.
            let Some([least, most, standing]) = (unsafe { self.agree(round, own) }) else {
                parallel_cid::set_free(own);
                return ERR_INTERN;
            };
            if standing != Standing::Sound as c_int {
                parallel_cid::set_free(own);
                return ERR_PROC_FAILED;
            }
            if least == most {
                // SAFETY: as required of the caller; all living members have claimed the context id.
                unsafe { parallel_cid::give_claimed(self.made, own, epoch_bits::hashed(self.identity(0).1)) };
                SETTLED.set(Some((self.made as usize, self.name.clone())));
                return 0;
            }
            parallel_cid::set_free(own);
            floor = most;
        }
        ERR_INTERN
    }

    /// The minimum and maximum of the context ids that members have claimed, and the worst standing that a member
    /// knows.
    ///
    /// # Safety
    /// As of [`settle`](Self::settle); the communicator may also be complete.
    unsafe fn agree(&self, round: u32, own: c_int) -> Option<[c_int; 3]> {
        // SAFETY: as required of the caller; the shadow is freed with its agreement.
        unsafe {
            let (shadow, module) = shadow_comm::new_named(self.made, self.identity(round))?;
            let processes = group::processes(shadow)?;
            let is_damaged = FAILS.get() || processes.iter().any(|process| proc::is_dead(*process));
            let standing = if is_damaged { Standing::Damaged } else { Standing::Sound };
            let statement: Statement = [own, -own, standing as c_int, 0, 0];
            if !background::begin((shadow, module), processes, statement, false) {
                return None;
            }
            loop {
                // Another thread may be in the progress loop.
                background::request_check();
                background::tell_of_deaths();
                match background::take(self.mpi, shadow) {
                    Some([least, greatest, standing, ..]) => return Some([least, -greatest, standing]),
                    None => self.mpi.progress(),
                }
            }
        }
    }
}

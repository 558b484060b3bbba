//! `MPI_Comm_create_from_group` makes a communicator at all living members of the group, or at none, and waits for nobody who is
//! dead.
//!
//! Open MPI 5.0.7 settles its number in the runtime (`PMIx_Group_construct`), where a death leaves all waiting, and has the members
//! wait for messages of each other after that. Here they agree on the number, and on whether anybody knows of one of them that is
//! dead. What an agreement says all living members know, so what follows waits for nobody. It is whatever the uniformity, of which
//! no communicator says anything here.
//!
//! Members of several mpiruns settle it in the runtime as before.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::internals::{ALLREDUCE, Internals, NONBLOCKING};
use crate::line::lock;
use crate::objects::Object;
use crate::openmpi::Library;
use crate::requests::Request;
use crate::statement::{ERR_INTERN, ERR_PROC_FAILED, Standing, Statement};
use crate::{detached, endpoints, epochs, members, numbering};

const NUMBER: &CStr = c"ompi_comm_nextcid";
const ACTIVATE: &CStr = c"ompi_comm_activate";
/// `OMPI_COMM_CID_GROUP_NEW`, `OMPI_COMM_CID_GROUP` and `OMPI_COMM_CID_INTRA`
const MODE_NEW: c_int = 0x400;
const MODE_GROUP: c_int = 0x200;
const MODE_INTRA: c_int = 0x20;

pub type NumberAndWait =
    unsafe extern "C" fn(Object, Object, Object, *const c_void, *const c_void, bool, c_int) -> c_int;
pub type ActivateAndWait =
    unsafe extern "C" fn(*mut Object, Object, Object, *const c_void, *const c_void, bool, c_int) -> c_int;

thread_local! {
    /// What this thread makes fails here.
    static FAILS: Cell<bool> = const { Cell::new(false) };
    /// It activates a communicator.
    static ACTIVATES: Cell<bool> = const { Cell::new(false) };
}

/// In whose place [`reduce_alone`] stands.
static REDUCTION: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

struct Stock {
    number: NumberAndWait,
    activate: ActivateAndWait,
}

static STOCK: OnceLock<Stock> = OnceLock::new();
/// How often the same group has made a communicator with the same tag.
static COUNTS: Mutex<BTreeMap<[u8; 32], u32>> = Mutex::new(BTreeMap::new());

/// Stands where such communicators are made by a rank of a fault-tolerant job that is not watched: it has to do so as the others do. At
/// the end of `MPI_Init`.
pub fn watch() {
    let (Some(library), None) = (Library::loaded(), STOCK.get()) else { return };
    // SAFETY: the types are those of communicator.h; functions of the same types take their places.
    unsafe {
        let (Some(number), Some(activate)) = (library.function(NUMBER), library.function(ACTIVATE)) else { return };
        if STOCK.set(Stock { number, activate }).is_ok() {
            library
                .redirect_all(&[(NUMBER, number_and_wait as *const c_void), (ACTIVATE, activate_and_wait as *const _)]);
        }
    }
}

unsafe extern "C" fn number_and_wait(
    made: Object,
    comm: Object,
    bridge: Object,
    first: *const c_void,
    second: *const c_void,
    sends_first: bool,
    mode: c_int,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: what Open MPI passes, and its function with the arguments that were meant for it.
    unsafe {
        number(made, first, mode)
            .unwrap_or_else(|| (stock.number)(made, comm, bridge, first, second, sends_first, mode))
    }
}

unsafe extern "C" fn activate_and_wait(
    made: *mut Object,
    comm: Object,
    bridge: Object,
    first: *const c_void,
    second: *const c_void,
    sends_first: bool,
    mode: c_int,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: as above.
    unsafe {
        activate(made, comm, mode, stock.activate)
            .unwrap_or_else(|| (stock.activate)(made, comm, bridge, first, second, sends_first, mode))
    }
}

/// Settles the number of a communicator that is made of a group alone, and returns the code; `None` if Open MPI has to do it.
///
/// # Safety
/// What Open MPI passes to its function: for these `tag` is terminated text.
pub unsafe fn number(made: Object, tag: *const c_void, mode: c_int) -> Option<c_int> {
    if mode != MODE_NEW {
        return None;
    }
    // SAFETY: as required of the caller.
    let settle = || unsafe {
        let (mpi, tag) = (Internals::fitting()?, CStr::from_ptr(tag.cast::<c_char>()));
        if !numbering::is_possible() {
            return None;
        }
        let names = members::of(made)?;
        Some(Call::new(mpi, made, tag, &names[0].iter().flat_map(|name| name.bytes()).collect::<Vec<_>>()).settle())
    };
    catch_unwind(AssertUnwindSafe(settle)).unwrap_or(Some(ERR_INTERN))
}

/// Gives such a communicator, once it has its number, its collectives. `None` if Open MPI has to do it as it was about to.
///
/// # Safety
/// What Open MPI passes to its function, which is `stock`.
pub unsafe fn activate(made: *mut Object, comm: Object, mode: c_int, stock: ActivateAndWait) -> Option<c_int> {
    // SAFETY: as required of the caller. The communicator of this process alone takes the place of the new one, in which all
    // would wait for all.
    unsafe {
        let is_made_here = mode == MODE_GROUP && made.read() == comm && numbering::has_given(comm);
        let alone = Library::loaded().filter(|_| is_made_here)?.predefined(c"ompi_mpi_comm_self")?;
        let (null, slot) = (std::ptr::null_mut(), &mut Internals::fitting()?.table(alone)[NONBLOCKING + ALLREDUCE]);
        if slot.function != reduce_alone as Object {
            REDUCTION.store(slot.function, Ordering::Release);
            slot.function = reduce_alone as Object;
        }
        ACTIVATES.set(true);
        let code = stock(made, alone, null, null.cast_const(), null.cast_const(), false, MODE_INTRA);
        ACTIVATES.set(false);
        Some(code)
    }
}

/// In place of `MPI_Iallreduce` of the communicator of this process alone, which may be revoked by its scope: in an activation there is
/// nothing to reduce, and nothing to fail.
unsafe extern "C" fn reduce_alone(
    sent: Object,
    got: Object,
    count: c_int,
    kind: Object,
    operation: Object,
    comm: Object,
    request: *mut *mut Request,
    module: Object,
) -> c_int {
    type Reduction =
        unsafe extern "C" fn(Object, Object, c_int, Object, Object, Object, *mut *mut Request, Object) -> c_int;
    // SAFETY: Open MPI passes the place of the request; and the function that was there gets what was meant for it.
    unsafe {
        match Internals::get().filter(|_| ACTIVATES.get() && sent == got) {
            Some(mpi) => {
                request.write(mpi.requests.empty());
                0
            }
            None => {
                let stock = transmute::<Object, Reduction>(REDUCTION.load(Ordering::Acquire));
                stock(sent, got, count, kind, operation, comm, request, module)
            }
        }
    }
}

/// `make` makes such a communicator, in which this process `fails`: so nobody gets it, and nobody waits for it.
pub fn failing<T>(fails: bool, make: impl FnOnce() -> T) -> T {
    FAILS.set(fails);
    let made = make();
    FAILS.set(false);
    made
}

struct Call<'a> {
    mpi: &'a Internals,
    made: Object,
    /// The same at all members, and at no other call.
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

    /// A number and a count that stand for round `round` of the call, or, before any, for what it makes. Open MPI's agreements know 16
    /// bits of the number of a communicator.
    fn identity(&self, round: u32) -> (u64, u32) {
        let hash = self.name.clone().update(&round.to_le_bytes()).finalize();
        let [low, high, first, second, third, fourth, ..] = *hash.as_bytes();
        (u64::from(u16::from_le_bytes([low, high])), u32::from_le_bytes([first, second, third, fourth]))
    }

    /// # Safety
    /// A communicator that is being made and has its members, in an Open MPI that fits.
    unsafe fn settle(&self) -> c_int {
        let mut floor = 0;
        for round in 1.. {
            let Some(own) = numbering::claim_from(floor) else { return ERR_INTERN };
            // SAFETY: as required of the caller.
            let Some([least, most, standing]) = (unsafe { self.agree(round, own) }) else {
                numbering::set_free(own);
                return ERR_INTERN;
            };
            if standing != Standing::Sound as c_int {
                numbering::set_free(own);
                return ERR_PROC_FAILED;
            }
            if least == most {
                // SAFETY: as required of the caller; all living members have claimed the number.
                unsafe { numbering::give_claimed(self.made, own, epochs::made(self.identity(0).1)) };
                return 0;
            }
            numbering::set_free(own);
            floor = most;
        }
        ERR_INTERN
    }

    /// The least and the greatest of the numbers that the members have claimed, and the worst that one of them knows.
    ///
    /// # Safety
    /// As of [`settle`](Self::settle).
    unsafe fn agree(&self, round: u32, own: c_int) -> Option<[c_int; 3]> {
        // SAFETY: as required of the caller; the shadow is taken apart with its agreement.
        unsafe {
            let (shadow, module) = self.mpi.shadows.new_named(self.made, self.identity(round))?;
            let processes = members::processes(shadow)?;
            let is_damaged = FAILS.get() || processes.iter().any(|process| endpoints::is_dead(*process));
            let standing = if is_damaged { Standing::Damaged } else { Standing::Sound };
            let statement: Statement = [own, -own, standing as c_int, 0, 0];
            if !detached::begin(self.mpi, (shadow, module), processes, statement, false) {
                return None;
            }
            loop {
                // In a rank that is not watched nobody else asks.
                detached::somebody_died();
                detached::look();
                match detached::take(self.mpi, shadow) {
                    Some([least, greatest, standing, ..]) => return Some([least, -greatest, standing]),
                    None => self.mpi.progress(),
                }
            }
        }
    }
}

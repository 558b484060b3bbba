//! Chooses the context ids of several concurrent shrinks at the same time.
//!
//! Open MPI chooses one context id after the other, by two agreements each. Shrinks begun by `MPIX_Comm_ishrink` wait
//! for each other meanwhile; over a network this is most of their time. ringwatch [claims](crate::cid::claim) context
//! ids, and chooses each by one agreement, concurrently with others.
//!
//! A shrink begins with an agreement that only collects deaths. ringwatch makes the first claim with it, and usually
//! needs no further agreement on the context id.
//!
//! All living members take part: they belong to one mpirun, and have the same ringwatch. A death in the agreement
//! changes nothing: each survivor has claimed the context id.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, OnceLock};

use crate::cid::cid_hold::{CLAIMS, SENTINEL};
use crate::cid::claim::{Claim, Origin, Outcome};
use crate::failure::deaths;
use crate::in_front::{guard, in_front};
use openmpi_internals::abi::{Agree, CommRequestAppend, SetItem, TestAndSetItem};
use openmpi_internals::communicator::{IAGREE, Internals};
use openmpi_internals::epoch_bits;
use openmpi_internals::error_class::{ERR_INTERN, ERR_PROC_FAILED};
use openmpi_internals::functions::{
    OMPI_COMM_REQUEST_GET, OMPI_COMM_REQUEST_RETURN, OMPI_COMM_REQUEST_SCHEDULE_APPEND, OMPI_COMM_REQUEST_START,
    OPAL_POINTER_ARRAY_SET_ITEM, OPAL_POINTER_ARRAY_TEST_AND_SET_ITEM,
};
use openmpi_internals::group;
use openmpi_internals::layout::cid_mode::OMPI_COMM_CID_INTRA_FT;
use openmpi_internals::layout::communicator::{
    C_CONTEXTID, C_EPOCH, C_FLAGS, C_INDEX, CID_SUB, OMPI_COMM_GLOBAL_INDEX,
};
use openmpi_internals::layout::pml::PML_MAX_CONTEXTID;
use openmpi_internals::layout::status::OPAL_ERR_OUT_OF_RESOURCE;
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::{
    MCA_PML, OMPI_MPI_COMMUNICATORS, OMPI_MPI_GROUP_EMPTY, OMPI_MPI_INT, OMPI_MPI_OP_BAND, OMPI_REQUEST_EMPTY,
};

struct Stock {
    complete: *mut Request,
    table: Object,
    take: TestAndSetItem,
    set: SetItem,
    most: *const u32,
    integer: Object,
    and: Object,
    nobody: Object,
    request: unsafe extern "C" fn() -> *mut Request,
    append: CommRequestAppend,
    start: unsafe extern "C" fn(*mut Request),
    give_back: unsafe extern "C" fn(*mut Request),
}

// SAFETY: addresses of objects that live as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

/// A choice of a context id that is under way.
struct CidAgreement {
    made: usize,
    comm: usize,
    claim: Claim,
    origin: Origin,
    /// The buffer of the agreement.
    bits: Box<c_int>,
}

/// A claim made with the first agreement of a shrink.
struct Early {
    claim: Claim,
    origin: Origin,
    /// The buffer of the agreement.
    bits: Box<c_int>,
}

impl Early {
    /// Releases a claim that no communicator uses.
    fn give_back(mut self, stock: &Stock) {
        self.claim.settle(0, |number| stock.free(number));
        // The agreement of a failed shrink may still be under way and write there, so the buffer is leaked.
        std::mem::forget(self.bits);
    }
}

static STOCK: OnceLock<Option<Stock>> = OnceLock::new();
/// Keyed by the communicator that is shrunk, or its shadow.
static EARLY: Mutex<BTreeMap<usize, Early>> = Mutex::new(BTreeMap::new());
/// Keyed by request.
static UNDER_WAY: Mutex<BTreeMap<usize, CidAgreement>> = Mutex::new(BTreeMap::new());
/// Number of communicators made here from each parent (context id, epoch). A shadow has its communicator's context id.
static MADE: Mutex<BTreeMap<(u64, u32), u32>> = Mutex::new(BTreeMap::new());

/// Handles the begin of an agreement. If it is the first of a shrink, or its repetition after another death, claims
/// context ids and returns this process's contribution.
///
/// # Safety
/// Arguments of Open MPI.
pub unsafe fn claim_with(count: c_int, operation: Object, updates: bool, comm: Object) -> Option<Object> {
    let stock = Stock::get().filter(|stock| updates && count == 1 && operation == stock.and)?;
    let mut all = lock(&EARLY);
    // The shrink repeats its agreement, or an earlier one has failed.
    let before = all.remove(&(comm as usize));
    before.into_iter().for_each(|before| before.give_back(stock));
    // SAFETY: a live communicator, in an Open MPI of the known layout.
    let (mut claim, origin) = unsafe { claim_for(stock, comm) };
    let mut bits = Box::new(claim.stake(|number| stock.claim(number)));
    let contribution = (&raw mut *bits).cast();
    all.insert(comm as usize, Early { claim, origin, bits });
    Some(contribution)
}

/// Begins to choose the context id of a communicator made from `comm`, and returns the code; `None` if Open MPI has to
/// do it.
///
/// # Safety
/// Arguments of Open MPI; `request` receives a request for constructors.
pub unsafe fn begin(made: Object, comm: Object, mode: c_int, request: *mut *mut Request) -> Option<c_int> {
    if mode != OMPI_COMM_CID_INTRA_FT {
        return None;
    }
    let begin = || {
        let (mpi, stock) = (Internals::fitting()?, Stock::get()?);
        // SAFETY: both are live, and the first has its groups.
        unsafe {
            group::of(made)?;
            let agreement = match lock(&EARLY).remove(&(comm as usize)) {
                None => CidAgreement::new(stock, made, comm),
                Some(Early { mut claim, origin, bits }) => {
                    let outcome = claim.settle(*bits, |number| stock.free(number));
                    let agreement = CidAgreement::go_on(made, comm, claim, origin);
                    match outcome {
                        Outcome::Number(number) => {
                            agreement.give(number, stock);
                            request.write(stock.complete);
                            return Some(0);
                        }
                        Outcome::None => return Some(OPAL_ERR_OUT_OF_RESOURCE),
                        Outcome::Again => agreement,
                    }
                }
            };
            Some(match agreement.start(mpi, stock) {
                Ok(begun) => {
                    request.write(begun);
                    0
                }
                Err(code) => code,
            })
        }
    };
    guard(Some(ERR_INTERN), begin)
}

/// Whether context ids can be claimed in this Open MPI.
pub fn is_possible() -> bool {
    Stock::get().is_some()
}

/// Claims the lowest free context id that is at least `floor`; `None` if all are taken.
pub fn claim_from(floor: c_int) -> Option<c_int> {
    let stock = Stock::get()?;
    // SAFETY: a word of the PML's table.
    let most = c_int::try_from(unsafe { *stock.most }).unwrap_or(c_int::MAX);
    (floor..most).find(|number| stock.claim(*number))
}

/// Releases a claimed context id.
pub fn set_free(number: c_int) {
    Stock::get().into_iter().for_each(|stock| stock.free(number));
}

/// Gives a communicator a context id that all living members have claimed, and its epoch.
///
/// # Safety
/// A communicator that is being made, in an Open MPI of the known layout; no other thread uses it.
pub unsafe fn give_claimed(made: Object, number: c_int, epoch: u32) {
    // SAFETY: as required of the caller.
    Stock::get().into_iter().for_each(|stock| unsafe { stock.give(made, number, epoch) });
}

/// Whether a communicator's context id is the same at all members.
///
/// # Safety
/// A live communicator with its context id, in an Open MPI of the known layout.
pub unsafe fn has_given(comm: Object) -> bool {
    // SAFETY: as required of the caller.
    Internals::fitting().is_some()
        && unsafe { comm.byte_add(C_FLAGS).cast::<u32>().read() } & OMPI_COMM_GLOBAL_INDEX != 0
}

/// Forgets a communicator that is being freed and still has its context id. In an Open MPI of the known layout.
pub fn forget(comm: Object) {
    let left = lock(&EARLY).remove(&(comm as usize));
    if let (Some(left), Some(stock)) = (left, STOCK.get().and_then(Option::as_ref)) {
        left.give_back(stock);
    }
    let mut made = lock(&MADE);
    if !made.is_empty() {
        // SAFETY: callers pass a live communicator.
        let of = unsafe { (epoch_bits::number_of(comm), epoch_bits::epoch_of(comm)) };
        made.retain(|one, _| *one != of && !(one.0 == of.0 && epoch_bits::is_of_shrinks(one.1)));
    }
}

in_front! { (mpi, stock) = Internals::fitting().zip(Stock::get()), or ERR_INTERN;
    /// Continues when an agreement on a context id has ended.
    unsafe extern "C" fn agreed(request: *mut Request) -> c_int {
        let Some(agreement) = lock(&UNDER_WAY).remove(&(request as usize)) else { return ERR_INTERN };
        // SAFETY: Open MPI passes its request; the communicators live as long as the request.
        unsafe { agreement.settle(mpi, stock, request) }
    }
}

impl Stock {
    fn get() -> Option<&'static Self> {
        STOCK.get_or_init(|| Self::find(&Library::loaded()?)).as_ref()
    }

    /// `None` if this Open MPI lacks a symbol.
    fn find(library: &Library) -> Option<Self> {
        let world = Internals::fitting()?.world();
        // SAFETY: the types are those of mpi.h, communicator.h, comm_request.h, opal_pointer_array.h and pml.h.
        unsafe {
            let flags = world.byte_add(C_FLAGS).cast::<u32>().read();
            if flags & OMPI_COMM_GLOBAL_INDEX == 0 {
                return None;
            }
            Some(Self {
                complete: library.variable(OMPI_REQUEST_EMPTY)?,
                table: library.variable(OMPI_MPI_COMMUNICATORS)?,
                take: library.function(OPAL_POINTER_ARRAY_TEST_AND_SET_ITEM)?,
                set: library.function(OPAL_POINTER_ARRAY_SET_ITEM)?,
                most: library.variable(MCA_PML)?.byte_add(PML_MAX_CONTEXTID).cast(),
                integer: library.predefined(OMPI_MPI_INT)?,
                and: library.predefined(OMPI_MPI_OP_BAND)?,
                nobody: library.predefined(OMPI_MPI_GROUP_EMPTY)?,
                request: library.function(OMPI_COMM_REQUEST_GET)?,
                append: library.function(OMPI_COMM_REQUEST_SCHEDULE_APPEND)?,
                start: library.function(OMPI_COMM_REQUEST_START)?,
                give_back: library.function(OMPI_COMM_REQUEST_RETURN)?,
            })
        }
    }

    /// Claims a context id. Returns whether it was free.
    fn claim(&self, number: c_int) -> bool {
        let mut claims = lock(&CLAIMS);
        // SAFETY: a table entry is taken only if it is free.
        let is_free = unsafe { (self.take)(self.table, number, SENTINEL) };
        if is_free {
            claims.insert(number);
        }
        is_free
    }

    fn free(&self, number: c_int) {
        let mut claims = lock(&CLAIMS);
        claims.remove(&number);
        // SAFETY: this process has claimed the context id, and only the claimant frees it.
        unsafe { (self.set)(self.table, number, std::ptr::null_mut()) };
    }

    /// # Safety
    /// As of [`give_claimed`].
    unsafe fn give(&self, made: Object, number: c_int, epoch: u32) {
        // SAFETY: as required of the caller; the table entry belongs to this communicator.
        unsafe {
            *made.byte_add(C_FLAGS).cast::<u32>() |= OMPI_COMM_GLOBAL_INDEX;
            made.byte_add(C_EPOCH).cast::<u32>().write(epoch);
            made.byte_add(C_INDEX).cast::<c_int>().write(number);
            made.byte_add(C_CONTEXTID).cast::<u64>().write(0);
            made.byte_add(CID_SUB).cast::<u64>().write(u64::from(number.unsigned_abs()));
            (self.set)(self.table, number, made);
        }
        lock(&CLAIMS).remove(&number);
    }
}

/// An empty claim for the next communicator that is made from `comm`.
///
/// # Safety
/// A live communicator with its context id, in an Open MPI of the known layout.
unsafe fn claim_for(stock: &Stock, comm: Object) -> (Claim, Origin) {
    // SAFETY: as required of the caller.
    let (number, epoch, most) = unsafe { (epoch_bits::number_of(comm), epoch_bits::epoch_of(comm), *stock.most) };
    let count = {
        let mut all = lock(&MADE);
        let count = all.entry((number, epoch)).or_default();
        *count = count.wrapping_add(1);
        *count
    };
    let origin = Origin { number, epoch, count };
    (Claim::new(origin, most), origin)
}

impl CidAgreement {
    /// # Safety
    /// Live communicators, the second with its context id, in an Open MPI of the known layout.
    unsafe fn new(stock: &Stock, made: Object, comm: Object) -> Self {
        // SAFETY: as required of the caller.
        let (claim, origin) = unsafe { claim_for(stock, comm) };
        Self::go_on(made, comm, claim, origin)
    }

    /// A choice that already has a claim.
    fn go_on(made: Object, comm: Object, claim: Claim, origin: Origin) -> Self {
        Self { made: made as usize, comm: comm as usize, claim, origin, bits: Box::default() }
    }

    /// # Safety
    /// As of [`new`](Self::new).
    unsafe fn start(mut self, mpi: &Internals, stock: &Stock) -> Result<*mut Request, c_int> {
        // SAFETY: as required of the caller; no other thread knows the request until it is started.
        unsafe {
            let request = (stock.request)();
            if request.is_null() {
                return Err(OPAL_ERR_OUT_OF_RESOURCE);
            }
            (*request).comm = self.comm as Object;
            if let Err(code) = self.agree(mpi, stock, request) {
                (stock.give_back)(request);
                return Err(code);
            }
            lock(&UNDER_WAY).insert(request as usize, self);
            (stock.start)(request);
            Ok(request)
        }
    }

    /// Claims context ids and begins to agree on them; `request` continues after that.
    ///
    /// # Safety
    /// As of [`new`](Self::new), and a request for constructors.
    unsafe fn agree(&mut self, mpi: &Internals, stock: &Stock, request: *mut Request) -> Result<(), c_int> {
        *self.bits = self.claim.stake(|number| stock.claim(number));
        let (comm, bits, mut agreement) = (self.comm as Object, &raw mut *self.bits, std::ptr::null_mut());
        // SAFETY: as required of the caller. The function belongs to the module beside it; the bits stay in their box
        // until the agreement has ended; the group is not changed.
        let mut begin = |mut acknowledged: Object| unsafe {
            let slot = &mpi.table(comm)[IAGREE];
            let begin = std::mem::transmute::<Object, Agree>(slot.function);
            let (datatype, and) = (stock.integer, stock.and);
            begin(bits.cast(), 1, datatype, and, &mut acknowledged, false, comm, &mut agreement, slot.module)
        };
        // With an unacknowledged death Open MPI makes groups that it does not free (`era_update_return_value`).
        let begun = if deaths::are_known() {
            mpi.with_dead_members(comm, begin).unwrap_or(ERR_INTERN)
        } else {
            begin(stock.nobody)
        };
        let code = match begun {
            // SAFETY: as required of the caller.
            0 => unsafe { (stock.append)(request, Some(agreed), &raw const agreement, 1) },
            code => code,
        };
        if begun == 0 && code != 0 {
            // The agreement continues and writes there, so the buffer is leaked.
            std::mem::forget(std::mem::take(&mut self.bits));
        }
        if code == 0 {
            return Ok(());
        }
        self.claim.settle(0, |number| stock.free(number));
        Err(code)
    }

    /// # Safety
    /// As of [`new`](Self::new); `request` is its own, and the agreement has ended.
    unsafe fn settle(mut self, mpi: &Internals, stock: &Stock, request: *mut Request) -> c_int {
        // SAFETY: as required of the caller.
        let code = unsafe { Request::code(request) };
        let has_agreed = code == 0 || code == ERR_PROC_FAILED;
        let outcome = self.claim.settle(if has_agreed { *self.bits } else { 0 }, |number| stock.free(number));
        match outcome {
            _ if !has_agreed => code,
            Outcome::None => OPAL_ERR_OUT_OF_RESOURCE,
            Outcome::Number(number) => {
                // SAFETY: as required of the caller; the table entry belongs to this communicator.
                unsafe { self.give(number, stock) };
                0
            }
            Outcome::Again => {
                // SAFETY: as required of the caller.
                let begun = unsafe {
                    (*request).set_code(0);
                    self.agree(mpi, stock, request)
                };
                match begun {
                    Ok(()) => {
                        lock(&UNDER_WAY).insert(request as usize, self);
                        0
                    }
                    Err(code) => code,
                }
            }
        }
    }

    /// Gives the communicator its context id, as `ompi_comm_nextcid_check_flag` does.
    ///
    /// # Safety
    /// As of [`new`](Self::new); all living members have claimed the context id.
    unsafe fn give(&self, number: c_int, stock: &Stock) {
        // SAFETY: as required of the caller; no other thread uses the communicator before its request completes.
        unsafe { stock.give(self.made as Object, number, epoch_bits::claimed(self.origin.count)) };
    }
}

//! The numbers of communicators that are shrunk, several at the same time.
//!
//! Open MPI settles one number after the other, by two agreements each, and the shrinks that `MPIX_Comm_ishrink` has begun
//! wait for each other meanwhile: over a network most of their time. Here [`claims`] are settled by one agreement, beside others.
//!
//! A shrink begins with an agreement on nothing but who is dead: the first numbers are claimed with it, and mostly no other
//! agreement on them is needed.
//!
//! All living members are asked: they belong to one mpirun, and stand here alike. A death in the agreement changes nothing:
//! whoever lives has claimed the number.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::{Mutex, OnceLock};

use crate::agreements::{self, Begin};
use crate::claims::{Claim, Origin, Outcome};
use crate::constructors::Number;
use crate::epochs::{self, CONTEXT_BASE, CONTEXT_ID, EPOCH};
use crate::internals::{IAGREE, Internals};
use crate::line::lock;
use crate::members;
use crate::numbers::{NUMBER, SET_ITEM, SetItem};
use crate::objects::Object;
use crate::openmpi::Library;
use crate::requests::Request;
use crate::shadows;
use crate::statement::{ERR_INTERN, ERR_PROC_FAILED};

const NEXT: &CStr = c"ompi_comm_nextcid_nb";
/// `OMPI_COMM_CID_INTRA_FT`
const MODE_SHRINK: c_int = 0x800;
/// `OMPI_ERR_OUT_OF_RESOURCE`
const NO_ROOM: c_int = -2;
/// Of `mca_pml_base_module_t`: the highest number that its messages can name.
const MOST: usize = 21 * size_of::<Object>();
/// Of `ompi_communicator_t`, and `OMPI_COMM_GLOBAL_INDEX` in it: the number is the same at all members.
const FLAGS: usize = 0xe0;
const SAME_NUMBER: u32 = 0x0001_0000;
/// A bit of the count that Open MPI's own, which rise from 1, do not reach; see [`epochs`].
const CLAIMED: u32 = 1 << 28;

type Callback = unsafe extern "C" fn(*mut Request) -> c_int;

struct Stock {
    next: Number,
    complete: *mut Request,
    table: Object,
    take: unsafe extern "C" fn(Object, c_int, Object) -> bool,
    set: SetItem,
    most: *const u32,
    integer: Object,
    and: Object,
    nobody: Object,
    request: unsafe extern "C" fn() -> *mut Request,
    append: unsafe extern "C" fn(*mut Request, Callback, *const *mut Request, c_int) -> c_int,
    start: unsafe extern "C" fn(*mut Request),
    give_back: unsafe extern "C" fn(*mut Request),
}

// SAFETY: addresses of what lives as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

/// A number that is being settled.
struct Numbering {
    made: usize,
    comm: usize,
    claim: Claim,
    origin: Origin,
    /// What the agreement reads and writes.
    bits: Box<c_int>,
}

/// What is claimed with the first agreement of a shrink.
struct Early {
    claim: Claim,
    origin: Origin,
    /// What the agreement reads and writes.
    bits: Box<c_int>,
}

impl Early {
    /// Nobody makes a communicator of it.
    fn give_back(mut self, stock: &Stock) {
        self.claim.settle(0, |number| stock.free(number));
        // The agreement of a shrink that has failed may go on, and writes there.
        std::mem::forget(self.bits);
    }
}

static STOCK: OnceLock<Option<Stock>> = OnceLock::new();
/// By the communicators that are shrunk, or their shadows.
static EARLY: Mutex<BTreeMap<usize, Early>> = Mutex::new(BTreeMap::new());
/// The numbers that this process claims.
static CLAIMS: Mutex<BTreeSet<c_int>> = Mutex::new(BTreeSet::new());
/// By their requests.
static UNDER_WAY: Mutex<BTreeMap<usize, Numbering>> = Mutex::new(BTreeMap::new());
/// How many communicators were made here of each, by its number and its epoch. Its shadows have the same number.
static MADE: Mutex<BTreeMap<(u64, u32), u32>> = Mutex::new(BTreeMap::new());

/// Stands where numbers are settled by a rank of a fault-tolerant job that is not watched: it has to do so as the others do. At
/// the end of `MPI_Init`.
pub fn watch() {
    if let (Some(library), Some(_)) = (Library::loaded(), Stock::get()) {
        // SAFETY: a function of the same type.
        unsafe { library.redirect(NEXT, next as *const c_void) };
    }
}

unsafe extern "C" fn next(
    made: Object,
    comm: Object,
    bridge: Object,
    first: *const c_void,
    second: *const c_void,
    sends_first: bool,
    mode: c_int,
    request: *mut *mut Request,
) -> c_int {
    let Some(stock) = Stock::get() else { return ERR_INTERN };
    // SAFETY: what Open MPI passes, and its function with the arguments that were meant for it.
    unsafe {
        begin(made, comm, mode, request)
            .unwrap_or_else(|| (stock.next)(made, comm, bridge, first, second, sends_first, mode, request))
    }
}

/// An agreement begins. If it is the first one of a shrink, or that once more because another death was seen, numbers are
/// claimed with it: returns what this process contributes.
///
/// # Safety
/// What Open MPI passes.
pub unsafe fn claim_with(count: c_int, operation: Object, updates: bool, comm: Object) -> Option<Object> {
    let stock = Stock::get().filter(|stock| updates && count == 1 && operation == stock.and)?;
    let mut all = lock(&EARLY);
    // Of a shrink that goes on in another agreement, or has failed.
    let before = all.remove(&(comm as usize));
    before.into_iter().for_each(|before| before.give_back(stock));
    // SAFETY: a communicator that lives, in an Open MPI that fits.
    let (mut claim, origin) = unsafe { claim_for(stock, comm) };
    let mut bits = Box::new(claim.stake(|number| stock.claim(number)));
    let contribution = (&raw mut *bits).cast();
    all.insert(comm as usize, Early { claim, origin, bits });
    Some(contribution)
}

/// Begins to settle the number of a communicator that is made of `comm`, and returns the code; `None` if Open MPI has to do it.
///
/// # Safety
/// What Open MPI passes; `request` gets one of its own for constructors.
pub unsafe fn begin(made: Object, comm: Object, mode: c_int, request: *mut *mut Request) -> Option<c_int> {
    if mode != MODE_SHRINK {
        return None;
    }
    let begin = || {
        let (mpi, stock) = (Internals::fitting()?, Stock::get()?);
        // SAFETY: both live, and the first has its groups.
        unsafe {
            members::of(made)?;
            let numbering = match lock(&EARLY).remove(&(comm as usize)) {
                None => Numbering::new(stock, made, comm),
                Some(Early { mut claim, origin, bits }) => {
                    let outcome = claim.settle(*bits, |number| stock.free(number));
                    let numbering = Numbering::go_on(made, comm, claim, origin);
                    match outcome {
                        Outcome::Number(number) => {
                            numbering.give(number, stock);
                            request.write(stock.complete);
                            return Some(0);
                        }
                        Outcome::None => return Some(NO_ROOM),
                        Outcome::Again => numbering,
                    }
                }
            };
            Some(match numbering.start(mpi, stock) {
                Ok(begun) => {
                    request.write(begun);
                    0
                }
                Err(code) => code,
            })
        }
    };
    catch_unwind(std::panic::AssertUnwindSafe(begin)).unwrap_or(Some(ERR_INTERN))
}

/// Whether numbers can be claimed in this Open MPI.
pub fn is_possible() -> bool {
    Stock::get().is_some()
}

/// Claims the least free number that is not below this one; `None` if all are taken.
pub fn claim_from(floor: c_int) -> Option<c_int> {
    let stock = Stock::get()?;
    // SAFETY: a word of the table of functions that carry messages.
    let most = c_int::try_from(unsafe { *stock.most }).unwrap_or(c_int::MAX);
    (floor..most).find(|number| stock.claim(*number))
}

/// A number that was claimed is not needed.
pub fn set_free(number: c_int) {
    Stock::get().into_iter().for_each(|stock| stock.free(number));
}

/// Gives a communicator a number that all living members have claimed, and its epoch.
///
/// # Safety
/// One that is being made, in an Open MPI that fits; nobody else looks at it.
pub unsafe fn give_claimed(made: Object, number: c_int, epoch: u32) {
    // SAFETY: as required of the caller.
    Stock::get().into_iter().for_each(|stock| unsafe { stock.give(made, number, epoch) });
}

/// Whether a communicator that has its number has got it with the same one for all members.
///
/// # Safety
/// A communicator that lives, in an Open MPI that fits.
pub unsafe fn has_given(comm: Object) -> bool {
    // SAFETY: as required of the caller.
    Internals::fitting().is_some() && unsafe { comm.byte_add(FLAGS).cast::<u32>().read() } & SAME_NUMBER != 0
}

/// Whether a number is claimed here.
pub fn is_claimed(number: c_int) -> bool {
    lock(&CLAIMS).contains(&number)
}

/// A communicator is being freed.
///
/// # Safety
/// One that lives and has its number, in an Open MPI that fits.
pub unsafe fn forget(comm: Object) {
    let left = lock(&EARLY).remove(&(comm as usize));
    if let (Some(left), Some(stock)) = (left, STOCK.get().and_then(Option::as_ref)) {
        left.give_back(stock);
    }
    let mut made = lock(&MADE);
    if !made.is_empty() {
        // SAFETY: as required of the caller.
        let of = unsafe { (epochs::number_of(comm), epochs::epoch_of(comm)) };
        made.retain(|one, _| *one != of && !(one.0 == of.0 && shadows::is_for_shrinks(one.1)));
    }
}

/// The agreement of a numbering has ended.
unsafe extern "C" fn agreed(request: *mut Request) -> c_int {
    let settle = || {
        let (Some(mpi), Some(stock)) = (Internals::fitting(), Stock::get()) else { return ERR_INTERN };
        let Some(numbering) = lock(&UNDER_WAY).remove(&(request as usize)) else { return ERR_INTERN };
        // SAFETY: Open MPI passes its request; the communicators live as long as it.
        unsafe { numbering.settle(mpi, stock, request) }
    };
    catch_unwind(settle).unwrap_or(ERR_INTERN)
}

impl Stock {
    fn get() -> Option<&'static Self> {
        STOCK.get_or_init(|| Self::find(&Library::loaded()?)).as_ref()
    }

    /// `None` if this Open MPI lacks something.
    fn find(library: &Library) -> Option<Self> {
        let world = Internals::fitting()?.world();
        // SAFETY: the types are those of mpi.h, communicator.h, comm_request.h, opal_pointer_array.h and pml.h.
        unsafe {
            let flags = world.byte_add(FLAGS).cast::<u32>().read();
            if flags & SAME_NUMBER == 0 {
                return None;
            }
            Some(Self {
                next: library.function(NEXT)?,
                complete: library.symbol(c"ompi_request_empty")?.cast(),
                table: library.symbol(c"ompi_mpi_communicators")?,
                take: library.function(c"opal_pointer_array_test_and_set_item")?,
                set: library.function(SET_ITEM)?,
                most: library.symbol(c"mca_pml")?.byte_add(MOST).cast(),
                integer: library.predefined(c"ompi_mpi_int")?,
                and: library.predefined(c"ompi_mpi_op_band")?,
                nobody: library.predefined(c"ompi_mpi_group_empty")?,
                request: library.function(c"ompi_comm_request_get")?,
                append: library.function(c"ompi_comm_request_schedule_append")?,
                start: library.function(c"ompi_comm_request_start")?,
                give_back: library.function(c"ompi_comm_request_return")?,
            })
        }
    }

    /// Whether a number was free, which is claimed now.
    fn claim(&self, number: c_int) -> bool {
        /// What stands for a communicator that is being made (`OMPI_COMM_SENTINEL`).
        const SENTINEL: Object = 0x1 as Object;
        let mut claims = lock(&CLAIMS);
        // SAFETY: a place of the table is taken only if it is free.
        let is_free = unsafe { (self.take)(self.table, number, SENTINEL) };
        if is_free {
            claims.insert(number);
        }
        is_free
    }

    fn free(&self, number: c_int) {
        let mut claims = lock(&CLAIMS);
        claims.remove(&number);
        // SAFETY: this process has claimed the number, and nobody else sets it free.
        unsafe { (self.set)(self.table, number, std::ptr::null_mut()) };
    }

    /// # Safety
    /// As of [`give_claimed`].
    unsafe fn give(&self, made: Object, number: c_int, epoch: u32) {
        // SAFETY: as required of the caller; the place of the number is this communicator's.
        unsafe {
            *made.byte_add(FLAGS).cast::<u32>() |= SAME_NUMBER;
            made.byte_add(EPOCH).cast::<u32>().write(epoch);
            made.byte_add(NUMBER).cast::<c_int>().write(number);
            made.byte_add(CONTEXT_BASE).cast::<u64>().write(0);
            made.byte_add(CONTEXT_ID).cast::<u64>().write(u64::from(number.unsigned_abs()));
            (self.set)(self.table, number, made);
        }
        lock(&CLAIMS).remove(&number);
    }
}

/// A claim of nothing yet, for the next communicator that is made of `comm`.
///
/// # Safety
/// A communicator that lives and has its number, in an Open MPI that fits.
unsafe fn claim_for(stock: &Stock, comm: Object) -> (Claim, Origin) {
    // SAFETY: as required of the caller.
    let (number, epoch, most) = unsafe { (epochs::number_of(comm), epochs::epoch_of(comm), *stock.most) };
    let count = {
        let mut all = lock(&MADE);
        let count = all.entry((number, epoch)).or_default();
        *count = (*count + 1) % CLAIMED;
        *count
    };
    let origin = Origin { number, epoch, count };
    (Claim::new(origin, most), origin)
}

impl Numbering {
    /// # Safety
    /// Communicators that live, the second with its number, in an Open MPI that fits.
    unsafe fn new(stock: &Stock, made: Object, comm: Object) -> Self {
        // SAFETY: as required of the caller.
        let (claim, origin) = unsafe { claim_for(stock, comm) };
        Self::go_on(made, comm, claim, origin)
    }

    /// One that has claimed something before.
    fn go_on(made: Object, comm: Object, claim: Claim, origin: Origin) -> Self {
        Self { made: made as usize, comm: comm as usize, claim, origin, bits: Box::default() }
    }

    /// # Safety
    /// As of [`new`](Self::new).
    unsafe fn start(mut self, mpi: &Internals, stock: &Stock) -> Result<*mut Request, c_int> {
        // SAFETY: as required of the caller; nobody else knows the request until it has been started.
        unsafe {
            let request = (stock.request)();
            if request.is_null() {
                return Err(NO_ROOM);
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

    /// Claims numbers and begins to agree on them; `request` goes on after that.
    ///
    /// # Safety
    /// As of [`new`](Self::new), and a request for constructors.
    unsafe fn agree(&mut self, mpi: &Internals, stock: &Stock, request: *mut Request) -> Result<(), c_int> {
        *self.bits = self.claim.stake(|number| stock.claim(number));
        let (comm, bits, mut agreement) = (self.comm as Object, &raw mut *self.bits, std::ptr::null_mut());
        // SAFETY: as required of the caller. The function is that of the module beside it; the bits stay in their box until the
        // agreement has ended; the group is not changed.
        let mut begin = |mut acknowledged: Object| unsafe {
            let slot = &mpi.table(comm)[IAGREE];
            let begin = std::mem::transmute::<Object, Begin>(slot.function);
            let (kind, and) = (stock.integer, stock.and);
            begin(bits.cast(), 1, kind, and, &mut acknowledged, false, comm, &mut agreement, slot.module)
        };
        // For a death that nobody has acknowledged Open MPI makes groups that it does not give back (`era_update_return_value`).
        let begun = if agreements::somebody_died() {
            mpi.with_dead_members(comm, begin).unwrap_or(ERR_INTERN)
        } else {
            begin(stock.nobody)
        };
        // SAFETY: as required of the caller.
        let code = if begun == 0 { unsafe { (stock.append)(request, agreed, &raw const agreement, 1) } } else { begun };
        if begun == 0 && code != 0 {
            // It goes on, and writes there.
            std::mem::forget(std::mem::take(&mut self.bits));
        }
        if code == 0 {
            return Ok(());
        }
        self.claim.settle(0, |number| stock.free(number));
        Err(code)
    }

    /// # Safety
    /// As of [`new`](Self::new), and its request, whose agreement has ended.
    unsafe fn settle(mut self, mpi: &Internals, stock: &Stock, request: *mut Request) -> c_int {
        // SAFETY: as required of the caller.
        let code = unsafe { Request::code(request) };
        let has_agreed = code == 0 || code == ERR_PROC_FAILED;
        let outcome = self.claim.settle(if has_agreed { *self.bits } else { 0 }, |number| stock.free(number));
        match outcome {
            _ if !has_agreed => code,
            Outcome::None => NO_ROOM,
            Outcome::Number(number) => {
                // SAFETY: as required of the caller; the place of the number is this communicator's.
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

    /// The communicator gets its number, as in `ompi_comm_nextcid_check_flag`.
    ///
    /// # Safety
    /// As of [`new`](Self::new); all living members have claimed the number.
    unsafe fn give(&self, number: c_int, stock: &Stock) {
        // SAFETY: as required of the caller; nobody else looks at the communicator before its request completes.
        unsafe { stock.give(self.made as Object, number, CLAIMED | self.origin.count) };
    }
}

//! Prevents reuse of context ids that stale messages may still name after a failure.
//!
//! A message of Open MPI names its communicator only by the context id. A message that arrives for a free context id is
//! kept for the next communicator with that id (pml_ob1.c:273), and is matched there. The proper message with that
//! sequence number is then never received; and if the new communicator is smaller, the job may abort. Without failures
//! no member frees a communicator in which another may still send. But a member that is interrupted in an operation
//! leaves it at once, while others continue to send until they are interrupted, too. So ringwatch holds each
//! communicator that exists when this process sees a failure: it keeps its context id until `MPI_Finalize`. ringwatch
//! does not interrupt a held communicator once its program has freed it.
//!
//! Intercommunicators are not held: Open MPI dismantles half of one when it is freed (comm.c:2153), and cannot
//! interrupt it afterwards. If it was interrupted, ringwatch retires its context id: the table entry gets the value
//! that Open MPI puts there while a communicator is being made (`OMPI_COMM_SENTINEL`). Messages for such an entry wait
//! for ever.
//!
//! A constructor that fails after the members have proposed a context id frees it, even if this process has not taken
//! it because another communicator has it (`ompi_comm_nextcid_check_flag`). That communicator would then receive no
//! messages. With ringwatch only the owning communicator, or the module that has claimed it ([`CLAIMS`]), frees a
//! context id.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::cid::early_revocation;
use crate::in_front::{guard, in_front};
use openmpi_internals::abi::{Interrupt, SetItem};
use openmpi_internals::classes::Classes;
use openmpi_internals::communicator::Internals;
use openmpi_internals::functions::OPAL_POINTER_ARRAY_SET_ITEM;
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::communicator::{C_INDEX, OMPI_COMM_SENTINEL};
use openmpi_internals::layout::pml::{PML_ADD_COMM, PML_DEL_COMM, PML_REVOKE_COMM};
use openmpi_internals::object::Object;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::{MCA_PML, OMPI_MPI_COMMUNICATORS};

type Change = unsafe extern "C" fn(Object) -> c_int;
struct Stock {
    add: Change,
    delete: Change,
    interrupt: Interrupt,
}

/// The function that changes table entries, and the table of communicators by context id.
struct Table {
    set_item: SetItem,
    communicators: Object,
}

// SAFETY: addresses of objects that live as long as libmpi.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// Callbacks of higher modules for events of communicators.
pub struct Reactions {
    /// A communicator is about to be interrupted.
    pub interrupting: fn(),
    /// A communicator is interrupted.
    pub interrupted: fn(Object),
    /// A communicator is being freed, and still has its context id.
    pub freed: fn(Object),
}

static REACTIONS: OnceLock<Reactions> = OnceLock::new();

/// Sets the callbacks. Call it before [`install`].
pub fn react(reactions: Reactions) {
    let _ = REACTIONS.set(reactions);
}

static STOCK: OnceLock<Stock> = OnceLock::new();
static TABLE: OnceLock<Table> = OnceLock::new();
/// Communicators made since `MPI_Init`, by context id.
static TAKEN: Mutex<BTreeMap<c_int, usize>> = Mutex::new(BTreeMap::new());
/// Context ids that this process claims for communicators that are being made.
pub static CLAIMS: Mutex<BTreeSet<c_int>> = Mutex::new(BTreeSet::new());
/// Table entry of a communicator that is being made.
pub const SENTINEL: Object = OMPI_COMM_SENTINEL as Object;
/// Context ids of freed intercommunicators that were interrupted.
static RETIRED: Mutex<BTreeSet<c_int>> = Mutex::new(BTreeSet::new());
/// The context id of `MPI_COMM_WORLD`.
const WORLD: c_int = 0;
/// Intracommunicators made since `MPI_Init`, and whether each is held.
static ALL: Mutex<BTreeMap<usize, bool>> = Mutex::new(BTreeMap::new());
/// Whether there may be communicators that are not held yet.
static NEW: AtomicBool = AtomicBool::new(false);
/// Whether `MPI_Finalize` has begun.
static OVER: AtomicBool = AtomicBool::new(false);

/// Interposes on the PML's functions that add, delete and interrupt communicators. At the end of `MPI_Init`.
pub fn install(at: &Installer) -> Result<(), Missing> {
    let module = at.variable(MCA_PML)?;
    let communicators = at.variable(OMPI_MPI_COMMUNICATORS)?;
    // SAFETY: the function table of pml.h in an Open MPI of the known layout, and the type of opal_pointer_array.h; no
    // other thread runs in MPI yet.
    unsafe {
        let _ = TABLE.set(Table { set_item: at.function(OPAL_POINTER_ARRAY_SET_ITEM)?, communicators });
        at.redirect(OPAL_POINTER_ARRAY_SET_ITEM, set)?;
        let module = module.cast::<Object>();
        let (add, delete) = (module.add(PML_ADD_COMM).cast::<Option<Change>>(), module.add(PML_DEL_COMM).cast());
        let interrupt = module.add(PML_REVOKE_COMM).cast::<Option<Interrupt>>();
        let (Some(add_stock), Some(delete_stock), Some(interrupt_stock)) = (*add, *delete, *interrupt) else {
            return Err(Missing::Layout);
        };
        let _ = STOCK.set(Stock { add: add_stock, delete: delete_stock, interrupt: interrupt_stock });
        add.write(Some(added));
        delete.write(Some(deleted as Change));
        interrupt.write(Some(interrupted));
    }
    Ok(())
}

/// Replaces Open MPI's function that sets a table entry.
unsafe extern "C" fn set(table: Object, place: c_int, value: Object) -> c_int {
    let Some(stock) = TABLE.get() else { return 0 };
    let is_freed = value.is_null() && table == stock.communicators;
    let is_taken = || !OVER.load(Ordering::Acquire) && lock(&TAKEN).contains_key(&place);
    if is_freed && (is_taken() || lock(&CLAIMS).contains(&place)) {
        return 0;
    }
    let value = if is_freed && lock(&RETIRED).contains(&place) { SENTINEL } else { value };
    // SAFETY: the stock function with its original arguments.
    unsafe { (stock.set_item)(table, place, value) }
}

/// # Safety
/// A live communicator, in an Open MPI of the known layout.
unsafe fn context_id_of(comm: Object) -> c_int {
    // SAFETY: as required of the caller.
    unsafe { comm.byte_add(C_INDEX).cast::<c_int>().read() }
}

in_front! { stock = STOCK.get(), or 0;
    unsafe extern "C" fn added(comm: Object) -> c_int {
        // SAFETY: the stock function with its original argument.
        let code = unsafe { (stock.add)(comm) };
        // Open MPI does not announce the deletion of a communicator that was not added.
        if code == 0 {
            // SAFETY: Open MPI passes a communicator that has its context id.
            lock(&TAKEN).insert(unsafe { context_id_of(comm) }, comm as usize);
        }
        if code == 0 && Internals::get().is_some_and(|mpi| !mpi.is_intercommunicator(comm)) {
            lock(&ALL).insert(comm as usize, false);
            NEW.store(true, Ordering::Release);
        }
        code
    }

    unsafe extern "C" fn deleted(comm: Object) -> c_int {
        REACTIONS.get().into_iter().for_each(|reactions| (reactions.freed)(comm));
        lock(&ALL).remove(&(comm as usize));
        // SAFETY: as above, in an Open MPI of the known layout.
        let is_damaged = |mpi: &Internals| unsafe { mpi.is_intercommunicator(comm) && mpi.has_no_collectives(comm) };
        if !OVER.load(Ordering::Acquire) && Internals::fitting().is_some_and(is_damaged) {
            // SAFETY: as above.
            lock(&RETIRED).insert(unsafe { context_id_of(comm) });
        }
        // SAFETY: as above.
        lock(&TAKEN).remove(&unsafe { context_id_of(comm) });
        // SAFETY: as above.
        unsafe { (stock.delete)(comm) }
    }

    unsafe extern "C" fn interrupted(comm: Object, collectives_only: bool) -> c_int {
        // SAFETY: Open MPI passes a live communicator.
        if !collectives_only && unsafe { early_revocation::is_withheld(comm) } {
            return 0;
        }
        guard((), || {
            keep();
            REACTIONS.get().into_iter().for_each(|reactions| (reactions.interrupting)());
        });
        // Also for a freed communicator: only this call marks it as revoked, and an unmarked member forwards each
        // revocation. It also releases senders that wait for this process in a rendezvous.
        // SAFETY: as above.
        let code = unsafe { (stock.interrupt)(comm, collectives_only) };
        if !collectives_only {
            REACTIONS.get().into_iter().for_each(|reactions| guard((), || (reactions.interrupted)(comm)));
        }
        code
    }
}

/// Interrupts pending operations of a communicator, as a revocation does.
///
/// # Safety
/// A live communicator.
pub unsafe fn interrupt(comm: Object) {
    // SAFETY: as required of the caller.
    unsafe { interrupted(comm, false) };
}

/// The communicator with this context id: the world, or one made since `MPI_Init`.
pub fn communicator(number: c_int) -> Option<Object> {
    match number {
        WORLD => Internals::get().map(Internals::world),
        number => lock(&TAKEN).get(&number).map(|comm| *comm as Object),
    }
}

/// Holds all communicators that exist, because this process sees a failure.
pub fn keep() {
    if !NEW.swap(false, Ordering::AcqRel) || OVER.load(Ordering::Acquire) {
        return;
    }
    for (comm, held) in lock(&ALL).iter_mut().filter(|(_, held)| !**held) {
        // SAFETY: a thread that frees a communicator passes `deleted` before it releases the memory.
        *held = unsafe { Classes::hold_if_alive(*comm as Object) };
    }
}

/// Whether the program has freed a communicator that is held here.
pub fn is_abandoned(comm: Object) -> bool {
    // SAFETY: a held communicator is allocated.
    lock(&ALL).get(&(comm as usize)).is_some_and(|held| *held && unsafe { Classes::references(comm) } == 1)
}

/// Whether a communicator has references besides those of this module and the caller.
///
/// # Safety
/// The caller holds a reference.
pub unsafe fn has_others(comm: Object) -> bool {
    let all = lock(&ALL);
    let held = all.get(&(comm as usize)).is_some_and(|held| *held);
    // SAFETY: as required of the caller.
    unsafe { Classes::references(comm) > 1 + i32::from(held) }
}

/// Releases held communicators when `MPI_Finalize` begins, which frees the remaining ones.
pub fn give_back() {
    OVER.store(true, Ordering::Release);
    for (comm, held) in lock(&ALL).iter_mut().filter(|(_, held)| **held) {
        // SAFETY: it is held. The last reference stays with Open MPI.
        *held = !unsafe { Classes::give_back_if_shared(*comm as Object) };
    }
}

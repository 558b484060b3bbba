//! Numbers of communicators, which a failure must not set free.
//!
//! Messages of Open MPI say the number of their communicator and no more. One that arrives where that number is free waits
//! for the next communicator that gets it (pml_ob1.c:273) and is taken for one of its messages; the one whose place in the
//! sequence it has is never received; if the next one is smaller, the job may be ended. Without failures nobody frees a
//! communicator in which somebody may send still. But who is interrupted in an operation leaves it at once, while others
//! go on sending until they are interrupted, too. So a communicator that is there when this process sees a failure keeps
//! its number until `MPI_Finalize`: it is held. Once its program has freed it ringwatch interrupts it no more.
//!
//! Not so one with two groups: Open MPI takes half of it apart when it is freed (comm.c:2153), and then cannot interrupt it.
//!
//! A constructor that fails when the members have proposed a number sets it free, also where this process has not taken it
//! for the new communicator, because another one has it (`ompi_comm_nextcid_check_flag`). That one would get no message
//! any more. Here nobody sets a number free but the communicator that has it, or what has [claimed](numbering) it.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::construction;
use crate::gaps;
use crate::internals::Internals;
use crate::line::lock;
use crate::numbering;
use crate::objects::{Classes, Object};
use crate::openmpi::Library;

/// Of `mca_pml_base_module_t`: the functions that hear of a new communicator before anybody can send in it, of one that is
/// being freed, and of one that is interrupted before what waits in it is ended.
const ADD: usize = 4 * size_of::<Object>();
const DELETE: usize = 5 * size_of::<Object>();
pub const INTERRUPT: usize = 6 * size_of::<Object>();

/// Of `ompi_communicator_t`: its number in this process.
pub const NUMBER: usize = 0xd8;
/// In which libmpi changes a place of a table of pointers.
pub const SET_ITEM: &CStr = c"opal_pointer_array_set_item";

pub type SetItem = unsafe extern "C" fn(Object, c_int, Object) -> c_int;
type Change = unsafe extern "C" fn(Object) -> c_int;
/// What is interrupted, and whether only its collectives.
pub type Interrupt = unsafe extern "C" fn(Object, bool) -> c_int;

struct Stock {
    add: Change,
    delete: Change,
    interrupt: Interrupt,
}

/// How places of tables are changed, and the table of all communicators by their numbers.
struct Table {
    set_item: SetItem,
    communicators: Object,
}

// SAFETY: addresses of what lives as long as libmpi.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

static STOCK: OnceLock<Stock> = OnceLock::new();
static TABLE: OnceLock<Table> = OnceLock::new();
/// The communicators that were made since `MPI_Init`, by their numbers.
static TAKEN: Mutex<BTreeMap<c_int, usize>> = Mutex::new(BTreeMap::new());
/// The number of `MPI_COMM_WORLD`.
const WORLD: c_int = 0;
/// The communicators of one group that were made since `MPI_Init`, and whether each is held here.
static ALL: Mutex<BTreeMap<usize, bool>> = Mutex::new(BTreeMap::new());
/// There may be communicators that have seen no failure.
static NEW: AtomicBool = AtomicBool::new(false);
/// `MPI_Finalize` has begun.
static OVER: AtomicBool = AtomicBool::new(false);

/// Stands where Open MPI tells its messages of communicators. At the end of `MPI_Init`.
pub fn watch() {
    let Some(library) = Internals::fitting().and_then(|_| Library::loaded()) else { return };
    let Some(module) = library.symbol(c"mca_pml") else { return };
    // SAFETY: the table of functions of pml.h in an Open MPI that fits; nobody else runs in MPI yet.
    unsafe {
        let (add, delete) = (module.byte_add(ADD).cast::<Option<Change>>(), module.byte_add(DELETE).cast());
        let interrupt = module.byte_add(INTERRUPT).cast::<Option<Interrupt>>();
        let (Some(add_stock), Some(delete_stock), Some(interrupt_stock)) = (*add, *delete, *interrupt) else { return };
        if STOCK.set(Stock { add: add_stock, delete: delete_stock, interrupt: interrupt_stock }).is_ok() {
            add.write(Some(added));
            delete.write(Some(deleted as Change));
            interrupt.write(Some(interrupted));
            // SAFETY: the type is that of opal_pointer_array.h.
            let (set_item, communicators) = (library.function(SET_ITEM), library.symbol(c"ompi_mpi_communicators"));
            if let (Some(set_item), Some(communicators)) = (set_item, communicators) {
                let _ = TABLE.set(Table { set_item, communicators });
                library.redirect(SET_ITEM, set as *const _);
            }
        }
    }
}

/// In place of Open MPI's own function.
unsafe extern "C" fn set(table: Object, place: c_int, value: Object) -> c_int {
    let Some(stock) = TABLE.get() else { return 0 };
    let is_freed = value.is_null() && table == stock.communicators;
    let is_taken = || !OVER.load(Ordering::Acquire) && lock(&TAKEN).contains_key(&place);
    if is_freed && (is_taken() || numbering::is_claimed(place)) {
        return 0;
    }
    // SAFETY: the stock function with the arguments that were meant for it.
    unsafe { (stock.set_item)(table, place, value) }
}

/// # Safety
/// A communicator that lives, in an Open MPI that fits.
unsafe fn number_of(comm: Object) -> c_int {
    // SAFETY: as required of the caller.
    unsafe { comm.byte_add(NUMBER).cast::<c_int>().read() }
}

unsafe extern "C" fn added(comm: Object) -> c_int {
    let Some(stock) = STOCK.get() else { return 0 };
    // SAFETY: the stock function with the argument that was meant for it.
    let code = unsafe { (stock.add)(comm) };
    // Of one that was not added Open MPI does not say when it goes.
    if code == 0 {
        // SAFETY: Open MPI passes a communicator, which has its number.
        lock(&TAKEN).insert(unsafe { number_of(comm) }, comm as usize);
    }
    if code == 0 && Internals::get().is_some_and(|mpi| !mpi.is_intercommunicator(comm)) {
        lock(&ALL).insert(comm as usize, false);
        NEW.store(true, Ordering::Release);
    }
    code
}

unsafe extern "C" fn deleted(comm: Object) -> c_int {
    // SAFETY: Open MPI passes a communicator, which has its number still.
    unsafe { numbering::forget(comm) };
    lock(&ALL).remove(&(comm as usize));
    // SAFETY: as above.
    lock(&TAKEN).remove(&unsafe { number_of(comm) });
    // SAFETY: as above.
    STOCK.get().map_or(0, |stock| unsafe { (stock.delete)(comm) })
}

unsafe extern "C" fn interrupted(comm: Object, collectives_only: bool) -> c_int {
    let _ = catch_unwind(|| {
        keep();
        gaps::stand_first();
    });
    // Also if it has been freed: only this marks it as revoked, and who is not marked hands each revocation on; and whoever
    // waits for room here for a long message is let go.
    // SAFETY: as above.
    let code = STOCK.get().map_or(0, |stock| unsafe { (stock.interrupt)(comm, collectives_only) });
    if !collectives_only {
        let _ = catch_unwind(|| construction::interrupted(comm as Object));
    }
    code
}

/// The communicator with this number: the world, or one that was made since `MPI_Init`.
pub fn communicator(number: c_int) -> Option<Object> {
    match number {
        WORLD => Internals::get().map(Internals::world),
        number => lock(&TAKEN).get(&number).map(|comm| *comm as Object),
    }
}

/// This process sees a failure.
pub fn keep() {
    if !NEW.swap(false, Ordering::AcqRel) || OVER.load(Ordering::Acquire) {
        return;
    }
    for (comm, held) in lock(&ALL).iter_mut().filter(|(_, held)| !**held) {
        // SAFETY: who frees a communicator has to pass `deleted` before it gives back the memory.
        *held = unsafe { Classes::hold_if_alive(*comm as Object) };
    }
}

/// Whether its program has freed a communicator that is held here.
pub fn is_abandoned(comm: Object) -> bool {
    // SAFETY: what is held is there.
    lock(&ALL).get(&(comm as usize)).is_some_and(|held| *held && unsafe { Classes::references(comm) } == 1)
}

/// Whether anybody has a communicator besides this module and the caller.
///
/// # Safety
/// The caller holds it.
pub unsafe fn has_others(comm: Object) -> bool {
    let all = lock(&ALL);
    let held = all.get(&(comm as usize)).is_some_and(|held| *held);
    // SAFETY: as required of the caller.
    unsafe { Classes::references(comm) > 1 + i32::from(held) }
}

/// `MPI_Finalize` begins, in which Open MPI frees what is left.
pub fn give_back() {
    OVER.store(true, Ordering::Release);
    for (comm, held) in lock(&ALL).iter_mut().filter(|(_, held)| **held) {
        // SAFETY: it is held. The only reference is left to Open MPI.
        *held = !unsafe { Classes::give_back_if_shared(*comm as Object) };
    }
}

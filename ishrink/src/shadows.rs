//! Where the members of a communicator agree while it is being shrunk: on a shadow, which has the same members and which
//! nobody else knows.
//!
//! A shrink consists of several agreements. Those of one communicator are told apart by their order alone
//! (coll_ftagree_earlyreturning.c:3033), and the next one of a shrink begins when the one before has ended, at each member
//! before or after what else the program agrees on there. On a shadow of its own it meets nobody. Open MPI makes such shadows
//! for agreements among two groups (line 3248).
//!
//! Open MPI does not find a shadow when it tells communicators of deaths, so it is told here. And what Open MPI makes of a
//! shadow it makes of the communicator: attributes and error handler are those of that one, and copy functions get it.
//!
//! Without fault tolerance there is no such agreement, and no shadow.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock};

use crate::internals::{Internals, MemberDied};
use crate::objects;
use crate::openmpi::{Handle, OpenMpi};

/// Of `ompi_communicator_t`: what agreements tell communicators apart with, which is a name of two words and a count; the
/// number in this process; attributes; and the table of collective functions.
const NAME: usize = 0xa8;
const EPOCH: usize = 0xe8;
const NUMBER: usize = 0xd8;
const ATTRIBUTES: usize = 0x120;
const COLLECTIVES: usize = 0x158;
/// The size of all that.
pub const COMMUNICATOR_SIZE: usize = 384;
/// `MPI_UNDEFINED`: no number, which would be set free with the shadow.
const UNDEFINED: c_int = -32766;
/// In the table, the module of the agreement without blocking.
const AGREEMENT_MODULE: usize = 68 * 16 + 8;
/// A bit of the epoch that Open MPI's counts do not reach. Where ringwatch is in the job it knows these shadows by it.
const SHADOW: u32 = 1 << 30;

/// What a communicator has, as Open MPI names it to others.
type Name = ([u64; 2], u32);

/// The shadow of one shrink.
pub struct Shadow(usize);

/// What is known of a shadow.
struct Known {
    comm: usize,
    agreements: usize,
    /// Where its shrink has the group of dead members.
    group: Option<usize>,
}

/// Those of all shrinks under way.
static KNOWN: Mutex<BTreeMap<usize, Known>> = Mutex::new(BTreeMap::new());
/// How many shrinks of each communicator have begun, and the name that it had then: another one may have its address later.
static BEGUN: Mutex<BTreeMap<usize, (Name, u32)>> = Mutex::new(BTreeMap::new());
/// Who was told of the deaths of members before this library.
static NEXT_TO_BE_TOLD: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shadow {
    /// A new one, for the next shrink of `comm` in the order of the program; `None` without fault tolerance. Or an error code.
    ///
    /// # Safety
    /// An intracommunicator that lives until the shadow is freed.
    pub unsafe fn new(inside: &Internals, comm: Handle) -> Result<Option<Self>, c_int> {
        let (nothing, no_ranks) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (mut group, mut shadow, mut priority) = (nothing, nothing, 0);
        let errors = inside.errors_return;
        // SAFETY: as required of the caller; the shadow is filled in before it is used, and the list of ranks is not read
        // where there is a group.
        unsafe {
            let table = comm.byte_add(COLLECTIVES).cast::<Handle>().read();
            let stock = table.byte_add(AGREEMENT_MODULE).cast::<Handle>().read();
            (inside.group)(comm, &mut group);
            let code = (inside.make_communicator)(
                &mut shadow,
                comm,
                0,
                no_ranks,
                0,
                no_ranks,
                nothing,
                errors,
                group,
                nothing,
                0,
            );
            (inside.group_free)(&mut group);
            if code != 0 {
                return Err(code);
            }
            let agreements = (inside.agreements_of)(shadow, &mut priority);
            if agreements.is_null() {
                objects::let_go(inside, shadow);
                return Ok(None);
            }
            if stock.is_null() || objects::class_of(stock) != objects::class_of(agreements) {
                objects::let_go(inside, shadow);
                objects::destroy(agreements);
                return Ok(None);
            }
            watch_deaths(inside);
            let (words, epoch) = next_name(comm);
            shadow.byte_add(NAME).cast::<[u64; 2]>().write(words);
            shadow.byte_add(EPOCH).cast::<u32>().write(epoch);
            shadow.byte_add(NUMBER).cast::<c_int>().write(comm.byte_add(NUMBER).cast::<c_int>().read());
            shadow.byte_add(COLLECTIVES).cast::<Handle>().write(table);
            let known = Known { comm: comm as usize, agreements: agreements as usize, group: None };
            lock(&KNOWN).insert(shadow as usize, known);
            Ok(Some(Self(shadow as usize)))
        }
    }

    /// The communicator.
    pub fn handle(&self) -> Handle {
        self.0 as Handle
    }

    /// Its shrink has ended.
    pub fn free(self, inside: &Internals) {
        let known = lock(&KNOWN).remove(&self.0);
        let shadow = self.handle();
        // SAFETY: the communicator lives, whose number and functions it had; nobody begins an agreement on it any more, and
        // others that use it need neither.
        unsafe {
            shadow.byte_add(NUMBER).cast::<c_int>().write(UNDEFINED);
            shadow.byte_add(COLLECTIVES).cast::<Handle>().write(std::ptr::null_mut());
            objects::let_go(inside, shadow);
            known.into_iter().for_each(|known| objects::destroy(known.agreements as Handle));
        }
    }
}

/// The communicator that one stands for which may be a shadow.
pub fn origin_of(comm: Handle) -> Option<Handle> {
    lock(&KNOWN).get(&(comm as usize)).map(|known| known.comm as Handle)
}

/// The attributes of a communicator, for which Open MPI has the address of a table; null if it has none.
///
/// # Safety
/// One that lives.
pub unsafe fn attributes_of(comm: Handle) -> Handle {
    // SAFETY: as required of the caller.
    unsafe { comm.byte_add(ATTRIBUTES).cast::<Handle>().read() }
}

/// An agreement is begun on a communicator, with a group of its dead members that is in this place. If it is a shadow,
/// returns the module that counts its agreements, and whether the place belongs to the shrink, which has used it before.
pub fn agreement_begins(comm: Handle, group: *mut Handle) -> Option<(Handle, bool)> {
    let mut all = lock(&KNOWN);
    let known = all.get_mut(&(comm as usize))?;
    let was_used = known.group == Some(group as usize);
    known.group.get_or_insert(group as usize);
    Some((known.agreements as Handle, was_used))
}

/// The name of a shadow, the same at all members.
///
/// # Safety
/// A communicator that lives.
unsafe fn next_name(comm: Handle) -> Name {
    // SAFETY: as required of the caller.
    let name = unsafe { (comm.byte_add(NAME).cast::<[u64; 2]>().read(), comm.byte_add(EPOCH).cast::<u32>().read()) };
    let mut begun = lock(&BEGUN);
    let (named, count) = begun.entry(comm as usize).or_insert((name, 0));
    if *named != name {
        (*named, *count) = (name, 0);
    }
    *count = count.wrapping_add(1);
    let ([base, number], epoch) = name;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&base.to_le_bytes()).update(&number.to_le_bytes());
    hasher.update(&epoch.to_le_bytes()).update(&count.to_le_bytes());
    let [first, second, third, fourth, ..] = *hasher.finalize().as_bytes();
    (name.0, (u32::from_le_bytes([first, second, third, fourth]) % SHADOW) | SHADOW)
}

/// Has [`member_died`] called for every communicator that loses a member.
fn watch_deaths(inside: &Internals) {
    static WATCHES: Once = Once::new();
    WATCHES.call_once(|| {
        // SAFETY: a variable of Open MPI with the address of a function, or null, which lives for ever.
        let told = unsafe { AtomicPtr::from_ptr(inside.member_died) };
        let mut next = told.load(Ordering::Acquire);
        loop {
            // Whoever calls the one below finds the other here.
            NEXT_TO_BE_TOLD.store(next, Ordering::Release);
            match told.compare_exchange(next, member_died as *mut c_void, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(other) => next = other,
            }
        }
    });
}

/// Whether somebody beside Open MPI itself was told of deaths before this library: ringwatch is in the process. Once there is
/// a shadow.
pub fn ringwatch_is_told_of_deaths() -> bool {
    /// In which object an address is.
    fn object_of(address: *const c_void) -> usize {
        // SAFETY: any bytes, and room for the answer.
        unsafe {
            let mut found: libc::Dl_info = std::mem::zeroed();
            if libc::dladdr(address, &mut found) == 0 { 0 } else { found.dli_fbase as usize }
        }
    }
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    *IS_THERE.get_or_init(|| {
        let next = NEXT_TO_BE_TOLD.load(Ordering::Acquire);
        OpenMpi::get().is_some_and(|mpi| object_of(next) != object_of(mpi.agreement as *const c_void))
    })
}

/// A member of a communicator is dead, and so it is of the shadows.
unsafe extern "C" fn member_died(comm: Handle, rank: c_int, remote: bool) {
    let next = NEXT_TO_BE_TOLD.load(Ordering::Acquire);
    if next.is_null() {
        return;
    }
    // SAFETY: the function that was there before, with the arguments that were meant for it. Who is told may end a shrink,
    // whose shadow is held until then.
    unsafe {
        let next = std::mem::transmute::<*mut c_void, MemberDied>(next);
        next(comm, rank, remote);
        let Some(inside) = Internals::get() else { return };
        for shadow in shadows_of(comm) {
            next(shadow, rank, remote);
            objects::let_go(inside, shadow);
        }
    }
}

/// Those of a communicator, which are held.
fn shadows_of(comm: Handle) -> Vec<Handle> {
    if OpenMpi::get().is_none_or(OpenMpi::is_over) {
        return Vec::new();
    }
    let known = lock(&KNOWN);
    let all: Vec<_> =
        known.iter().filter(|(_, known)| known.comm == comm as usize).map(|(key, _)| *key as Handle).collect();
    // SAFETY: a shadow lives as long as it is known.
    all.iter().for_each(|shadow| unsafe { objects::hold(*shadow) });
    all
}

//! Where the members of a communicator agree while it is being shrunk: on a shadow, which has the same members and which
//! nobody else knows.
//!
//! A shrink consists of several agreements. Those of one communicator are told apart by their order alone
//! (coll_ftagree_earlyreturning.c:3033), and the next one of a shrink begins when the one before has ended, at each member
//! before or after what else the program agrees on there. On a shadow it meets nobody. Open MPI makes such shadows for
//! agreements among two groups (line 3248).
//!
//! A communicator has several, which its shrinks take in turn: one at a time agrees on each. Open MPI keeps what was agreed on
//! last on every communicator, and looks through all of that whenever something is agreed on.
//!
//! Open MPI does not find a shadow when it tells communicators of deaths, so it is told here.
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
/// number in this process; and the table of collective functions.
const NAME: usize = 0xa8;
const EPOCH: usize = 0xe8;
const NUMBER: usize = 0xd8;
const COLLECTIVES: usize = 0x158;
/// The size of all that.
pub const COMMUNICATOR_SIZE: usize = 384;
/// `MPI_UNDEFINED`: no number, which would be set free with the shadow.
const UNDEFINED: c_int = -32766;
/// In the table, the module of the agreement without blocking.
const AGREEMENT_MODULE: usize = 68 * 16 + 8;
/// A bit of the epoch that Open MPI's counts do not reach. Where ringwatch is in the job it knows these shadows by it.
const SHADOW: u32 = 1 << 30;

/// How many shadows a communicator has at most, where ringwatch's plugin is in the job. Otherwise Open MPI numbers what is made,
/// and takes two that come from the same communicator for each other (`comm_cid.c:646`).
const MOST: u32 = 16;

/// The shadow of one shrink, or of one vote, for as long as that goes on.
pub struct Shadow(usize);

/// What is known of a shadow.
struct Known {
    comm: usize,
    agreements: usize,
    /// Where its shrink has the group of dead members, once it has begun.
    group: Option<usize>,
    /// The shrinks that have it, or wait for it.
    users: usize,
    /// The communicator was freed.
    is_left: bool,
}

/// The shadows of a communicator, by their places in the turn.
#[derive(Default)]
struct Turn {
    begun: u32,
    shadows: BTreeMap<u32, usize>,
    /// How many shadows there were for votes.
    votes: u32,
}

static KNOWN: Mutex<BTreeMap<usize, Known>> = Mutex::new(BTreeMap::new());
/// By the communicators.
static TURNS: Mutex<BTreeMap<usize, Turn>> = Mutex::new(BTreeMap::new());
/// Who was told of the deaths of members before this library.
static NEXT_TO_BE_TOLD: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shadow {
    /// That of the next shrink of `comm` in the order of the program; `None` without fault tolerance. Or an error code.
    ///
    /// # Safety
    /// An intracommunicator that lives.
    pub unsafe fn take(inside: &Internals, comm: Handle) -> Result<Option<Self>, c_int> {
        // SAFETY: as required of the caller.
        unsafe { watch(inside, comm) }?;
        let mut turns = lock(&TURNS);
        let turn = turns.entry(comm as usize).or_default();
        let place = turn.begun % if ringwatch_is_told_of_deaths() { MOST } else { 1 };
        turn.begun = turn.begun.wrapping_add(1);
        let shadow = match turn.shadows.get(&place) {
            Some(shadow) => *shadow,
            None => {
                // SAFETY: as required of the caller.
                let Some((shadow, known)) = unsafe { make(inside, comm, place) }? else { return Ok(None) };
                turn.shadows.insert(place, shadow);
                lock(&KNOWN).insert(shadow, known);
                shadow
            }
        };
        lock(&KNOWN).get_mut(&shadow).into_iter().for_each(|known| known.users += 1);
        Ok(Some(Self(shadow)))
    }

    /// One for a single agreement of the next operation of `comm` in the order of the program; otherwise as [`take`](Self::take).
    ///
    /// # Safety
    /// As of [`take`](Self::take).
    pub unsafe fn for_vote(inside: &Internals, comm: Handle) -> Result<Option<Self>, c_int> {
        // SAFETY: as required of the caller.
        unsafe { watch(inside, comm) }?;
        let mut turns = lock(&TURNS);
        let turn = turns.entry(comm as usize).or_default();
        // Behind the places of shrinks.
        let place = turn.votes.wrapping_add(MOST);
        turn.votes = turn.votes.wrapping_add(1);
        // SAFETY: as required of the caller.
        let Some((shadow, known)) = unsafe { make(inside, comm, place) }? else { return Ok(None) };
        lock(&KNOWN).insert(shadow, Known { users: 1, is_left: true, ..known });
        Ok(Some(Self(shadow)))
    }

    /// The module that counts its agreements.
    pub fn agreements(&self) -> Handle {
        lock(&KNOWN).get(&self.0).map_or(std::ptr::null_mut(), |known| known.agreements as Handle)
    }

    /// The communicator, for a shrink that begins now.
    pub fn begin(&self) -> Handle {
        lock(&KNOWN).get_mut(&self.0).into_iter().for_each(|known| known.group = None);
        self.0 as Handle
    }

    /// The shrink has ended.
    pub fn give_back(self, inside: &Internals) {
        let mut all = lock(&KNOWN);
        let Some(known) = all.get_mut(&self.0) else { return };
        known.users -= 1;
        if known.users == 0 && known.is_left {
            let known = all.remove(&self.0);
            drop(all);
            // SAFETY: nobody begins an agreement on it any more.
            known.into_iter().for_each(|known| unsafe { free(inside, self.0, &known) });
        }
    }

    /// What tells it from others.
    pub fn key(&self) -> usize {
        self.0
    }
}

/// Whoever has a shadow of this communicator hears of deaths there, and of its end. Or an error code.
///
/// # Safety
/// As of [`Shadow::take`].
unsafe fn watch(inside: &Internals, comm: Handle) -> Result<(), c_int> {
    watch_deaths(inside);
    // SAFETY: as required of the caller.
    if lock(&TURNS).contains_key(&(comm as usize)) { Ok(()) } else { unsafe { watch_end(inside, comm) } }
}

/// Makes the shadow at a place in the turn of a communicator; see [`Shadow::take`].
///
/// # Safety
/// An intracommunicator that lives.
unsafe fn make(inside: &Internals, comm: Handle, place: u32) -> Result<Option<(usize, Known)>, c_int> {
    let (nothing, no_ranks) = (std::ptr::null_mut(), std::ptr::null_mut());
    let (mut group, mut shadow, mut priority) = (nothing, nothing, 0);
    let (errors, make_communicator) = (inside.errors_return, inside.make_communicator);
    // SAFETY: as required of the caller; the shadow is filled in before it is used, and the list of ranks is not read where
    // there is a group.
    unsafe {
        let table = comm.byte_add(COLLECTIVES).cast::<Handle>().read();
        let stock = table.byte_add(AGREEMENT_MODULE).cast::<Handle>().read();
        (inside.group)(comm, &mut group);
        let code = make_communicator(&mut shadow, comm, 0, no_ranks, 0, no_ranks, nothing, errors, group, nothing, 0);
        (inside.group_free)(&mut group);
        if code != 0 {
            return Err(code);
        }
        let agreements = (inside.agreements_of)(shadow, &mut priority);
        let fits =
            !agreements.is_null() && !stock.is_null() && objects::class_of(stock) == objects::class_of(agreements);
        if !fits {
            objects::let_go(inside, shadow);
            if !agreements.is_null() {
                objects::destroy(agreements);
            }
            return Ok(None);
        }
        let (words, epoch) = name_at(comm, place);
        shadow.byte_add(NAME).cast::<[u64; 2]>().write(words);
        shadow.byte_add(EPOCH).cast::<u32>().write(epoch);
        shadow.byte_add(NUMBER).cast::<c_int>().write(comm.byte_add(NUMBER).cast::<c_int>().read());
        shadow.byte_add(COLLECTIVES).cast::<Handle>().write(table);
        let (comm, agreements) = (comm as usize, agreements as usize);
        Ok(Some((shadow as usize, Known { comm, agreements, group: None, users: 0, is_left: false })))
    }
}

/// # Safety
/// A shadow that nobody else knows any more, whose communicator lives.
unsafe fn free(inside: &Internals, shadow: usize, known: &Known) {
    let shadow = shadow as Handle;
    // SAFETY: as required of the caller. Number and functions are the communicator's; others who have the shadow still, as
    // they are telling it of a death, need neither.
    unsafe {
        shadow.byte_add(NUMBER).cast::<c_int>().write(UNDEFINED);
        shadow.byte_add(COLLECTIVES).cast::<Handle>().write(std::ptr::null_mut());
        objects::let_go(inside, shadow);
        objects::destroy(known.agreements as Handle);
    }
}

/// Has [`ended`] called when a communicator is freed; or an error code.
///
/// # Safety
/// A communicator that lives.
unsafe fn watch_end(inside: &Internals, comm: Handle) -> Result<(), c_int> {
    static ATTRIBUTE: OnceLock<Result<c_int, c_int>> = OnceLock::new();
    let attribute = *ATTRIBUTE.get_or_init(|| {
        let mut key = 0;
        // SAFETY: functions that live for ever, since this library is never unloaded.
        let code = unsafe { (inside.create_attribute)(inside.copies_nothing, ended, &mut key, std::ptr::null_mut()) };
        if code == 0 { Ok(key) } else { Err(code) }
    });
    // SAFETY: as required of the caller; the value is not looked at.
    match unsafe { (inside.set_attribute)(comm, attribute?, std::ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(code),
    }
}

/// A communicator is being freed. Its shrinks that are under way go on, and keep it.
unsafe extern "C" fn ended(comm: Handle, _key: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
    let turn = lock(&TURNS).remove(&(comm as usize)).unwrap_or_default();
    let (Some(inside), Some(false)) = (Internals::get(), OpenMpi::get().map(OpenMpi::is_over)) else { return 0 };
    let mut free_ones = Vec::new();
    let mut all = lock(&KNOWN);
    for shadow in turn.shadows.into_values() {
        match all.get_mut(&shadow) {
            Some(known) if known.users > 0 => known.is_left = true,
            _ => free_ones.extend(all.remove(&shadow).map(|known| (shadow, known))),
        }
    }
    drop(all);
    // SAFETY: no shrink has them, and none will.
    free_ones.iter().for_each(|(shadow, known)| unsafe { free(inside, *shadow, known) });
    0
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

/// The words and the count by which agreements know a shadow, the same at all members.
///
/// # Safety
/// A communicator that lives.
unsafe fn name_at(comm: Handle, place: u32) -> ([u64; 2], u32) {
    // SAFETY: as required of the caller.
    let (words, epoch) =
        unsafe { (comm.byte_add(NAME).cast::<[u64; 2]>().read(), comm.byte_add(EPOCH).cast::<u32>().read()) };
    let mut hasher = blake3::Hasher::new();
    words.iter().for_each(|word| _ = hasher.update(&word.to_le_bytes()));
    hasher.update(&epoch.to_le_bytes()).update(&place.to_le_bytes());
    let [first, second, third, fourth, ..] = *hasher.finalize().as_bytes();
    (words, (u32::from_le_bytes([first, second, third, fourth]) % SHADOW) | SHADOW)
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

/// Whether somebody beside Open MPI itself was told of deaths before this library: ringwatch's plugin is in the process.
fn ringwatch_is_told_of_deaths() -> bool {
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

//! Provides shadows for agreements of shrinks: hidden communicators with the same members that are in no table of Open
//! MPI.
//!
//! A shrink consists of several agreements. Only their order distinguishes agreements of one communicator
//! (coll_ftagree_earlyreturning.c:3033). A shrink's next agreement begins when the previous one has ended, at each
//! member before or after other agreements of the program. A shadow has no other agreements. Open MPI makes such
//! shadows for agreements among two groups (line 3248).
//!
//! A communicator has several shadows, which its shrinks use in turn: one shrink at a time on each. The number is
//! limited because Open MPI keeps the last agreements of every communicator, and searches all of them in each
//! agreement.
//!
//! Open MPI does not find shadows when it notifies communicators of deaths, so this library notifies them.
//!
//! Without fault tolerance there are no such agreements, and no shadows.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, Once, OnceLock};

use openmpi_internals::classes::Classes;
use openmpi_internals::epoch_bits;
use openmpi_internals::layout::coll::IAGREE_MODULE;
use openmpi_internals::layout::communicator::{C_COLL, C_CONTEXTID, C_EPOCH, C_INDEX};
use openmpi_internals::layout::mpi::MPI_UNDEFINED;
use openmpi_internals::sync::lock;

use crate::internals::{Internals, MemberDied};
use crate::openmpi::{Handle, OpenMpi};

/// Maximum number of shadows for shrinks of a communicator, if ringwatch's plugin is in the job. Without the plugin
/// there is one: Open MPI then chooses the context ids of new communicators, and confuses two with the same parent
/// (`comm_cid.c:646`).
const MAX_SHADOWS: u32 = 16;

/// The shadow of one shrink, or of one vote, while that is under way.
pub struct Shadow(usize);

/// State of a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    comm: usize,
    agreements: usize,
    /// The address of its shrink's group of dead members, once the first agreement has begun.
    group: Option<usize>,
    /// Number of shrinks that use it or wait for it.
    users: usize,
    /// Whether its last user frees it.
    is_left: bool,
}

/// All shadows, by their addresses.
struct Shadows(BTreeMap<usize, Known>);

impl Shadows {
    /// Notes that a shrink begins on a shadow.
    fn begin(&mut self, shadow: usize) {
        self.0.get_mut(&shadow).into_iter().for_each(|known| known.group = None);
    }

    /// Handles an agreement whose group of dead members is at this address; `None` if it is not on a shadow. Returns
    /// the module that counts the shadow's agreements, and whether the shrink has passed the same address before: the
    /// group is freed then.
    fn begin_agreement(&mut self, comm: usize, group: usize) -> Option<(usize, bool)> {
        let known = self.0.get_mut(&comm)?;
        let is_freed = known.group == Some(group);
        known.group.get_or_insert(group);
        Some((known.agreements, is_freed))
    }

    /// Ends a use of a shadow. Returns it if it must be freed.
    fn give_back(&mut self, shadow: usize) -> Option<Known> {
        let known = self.0.get_mut(&shadow)?;
        known.users -= 1;
        if known.users == 0 && known.is_left { self.0.remove(&shadow) } else { None }
    }

    /// Handles the end of these shadows' communicator. Returns shadows that must be freed now; the others have users.
    fn leave(&mut self, shadows: impl IntoIterator<Item = usize>) -> Vec<(usize, Known)> {
        let mut unused = Vec::new();
        for shadow in shadows {
            match self.0.get_mut(&shadow) {
                Some(known) if known.users > 0 => known.is_left = true,
                _ => unused.extend(self.0.remove(&shadow).map(|known| (shadow, known))),
            }
        }
        unused
    }

    /// The shadows of a communicator.
    fn of_comm(&self, comm: usize) -> Vec<usize> {
        self.0.iter().filter(|(_, known)| known.comm == comm).map(|(shadow, _)| *shadow).collect()
    }
}

/// The order in which a communicator's operations use shadows, equal at all members.
#[derive(Default)]
struct Turn {
    shrinks: u32,
    votes: u32,
    /// The shadows for shrinks, by position.
    shadows: BTreeMap<u32, usize>,
}

impl Turn {
    /// The position of the next shrink, among this number of positions.
    fn next_shrink(&mut self, places: u32) -> u32 {
        let place = self.shrinks % places;
        self.shrinks = self.shrinks.wrapping_add(1);
        place
    }

    /// The position of the next vote, after those of shrinks.
    fn next_vote(&mut self) -> u32 {
        let place = self.votes.wrapping_add(MAX_SHADOWS);
        self.votes = self.votes.wrapping_add(1);
        place
    }
}

static SHADOWS: Mutex<Shadows> = Mutex::new(Shadows(BTreeMap::new()));
/// Keyed by communicator.
static TURNS: Mutex<BTreeMap<usize, Turn>> = Mutex::new(BTreeMap::new());
/// The callback that Open MPI called for deaths of members before this library's.
static NEXT_CALLBACK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

impl Shadow {
    /// The shadow of the program's next shrink of `comm`; `None` without fault tolerance. Or an error code.
    ///
    /// # Safety
    /// A live intracommunicator.
    pub unsafe fn for_shrink(internals: &Internals, comm: Handle) -> Result<Option<Self>, c_int> {
        // SAFETY: as required of the caller.
        unsafe { install_callbacks(internals, comm) }?;
        let mut turns = lock(&TURNS);
        let turn = turns.entry(comm as usize).or_default();
        let place = turn.next_shrink(if plugin_is_loaded() { MAX_SHADOWS } else { 1 });
        let shadow = match turn.shadows.get(&place) {
            Some(shadow) => *shadow,
            None => {
                // SAFETY: as required of the caller.
                let Some((shadow, known)) = unsafe { create_shadow(internals, comm, place) }? else { return Ok(None) };
                turn.shadows.insert(place, shadow);
                lock(&SHADOWS).0.insert(shadow, known);
                shadow
            }
        };
        lock(&SHADOWS).0.get_mut(&shadow).into_iter().for_each(|known| known.users += 1);
        Ok(Some(Self(shadow)))
    }

    /// A shadow for a single agreement of the program's next operation on `comm`; otherwise as
    /// [`for_shrink`](Self::for_shrink).
    ///
    /// # Safety
    /// As of [`for_shrink`](Self::for_shrink).
    pub unsafe fn for_vote(internals: &Internals, comm: Handle) -> Result<Option<Self>, c_int> {
        // SAFETY: as required of the caller.
        unsafe { install_callbacks(internals, comm) }?;
        let mut turns = lock(&TURNS);
        let place = turns.entry(comm as usize).or_default().next_vote();
        // SAFETY: as required of the caller.
        let Some((shadow, known)) = unsafe { create_shadow(internals, comm, place) }? else { return Ok(None) };
        lock(&SHADOWS).0.insert(shadow, Known { users: 1, is_left: true, ..known });
        Ok(Some(Self(shadow)))
    }

    /// The module that counts its agreements.
    pub fn agreements(&self) -> Handle {
        lock(&SHADOWS).0.get(&self.0).map_or(std::ptr::null_mut(), |known| known.agreements as Handle)
    }

    /// The communicator, for a shrink that begins now.
    pub fn begin(&self) -> Handle {
        lock(&SHADOWS).begin(self.0);
        self.0 as Handle
    }

    /// Ends the use by a shrink.
    pub fn give_back(self, internals: &Internals) {
        let unused = lock(&SHADOWS).give_back(self.0);
        // SAFETY: no further agreement begins on it.
        unused.into_iter().for_each(|known| unsafe { free_shadow(internals, self.0, &known) });
    }

    /// Identifies the shadow.
    pub fn key(&self) -> usize {
        self.0
    }
}

/// Installs callbacks for deaths and for the end of a communicator, on behalf of its shadows. Or an error code.
///
/// # Safety
/// As of [`Shadow::for_shrink`].
unsafe fn install_callbacks(internals: &Internals, comm: Handle) -> Result<(), c_int> {
    install_death_callback(internals);
    if lock(&TURNS).contains_key(&(comm as usize)) {
        return Ok(());
    }
    // SAFETY: as required of the caller.
    unsafe { install_end_callback(internals, comm) }
}

/// Makes the shadow at a position in a communicator's order; see [`Shadow::for_shrink`].
///
/// # Safety
/// A live intracommunicator.
unsafe fn create_shadow(internals: &Internals, comm: Handle, place: u32) -> Result<Option<(usize, Known)>, c_int> {
    let (nothing, no_ranks) = (std::ptr::null_mut(), std::ptr::null_mut());
    let (mut group, mut shadow, mut priority) = (nothing, nothing, 0);
    let (errors, comm_set) = (internals.errors_return, internals.comm_set);
    // SAFETY: as required of the caller; the shadow is filled in before its use, and the list of ranks is not read if
    // there is a group.
    unsafe {
        let table = comm.byte_add(C_COLL).cast::<Handle>().read();
        let comm_module = table.byte_add(IAGREE_MODULE).cast::<Handle>().read();
        (internals.comm_group)(comm, &mut group);
        let code = comm_set(&mut shadow, comm, 0, no_ranks, 0, no_ranks, nothing, errors, group, nothing, 0);
        (internals.group_free)(&mut group);
        if code != 0 {
            return Err(code);
        }
        let agreements = (internals.ftagree_comm_query)(shadow, &mut priority);
        let fits =
            !agreements.is_null() && !comm_module.is_null() && Classes::of(comm_module) == Classes::of(agreements);
        if !fits {
            internals.release(shadow);
            if !agreements.is_null() {
                Classes::destroy(agreements);
            }
            return Ok(None);
        }
        let (words, epoch) = identity(comm);
        shadow.byte_add(C_CONTEXTID).cast::<[u64; 2]>().write(words);
        shadow.byte_add(C_EPOCH).cast::<u32>().write(epoch_at(words, epoch, place));
        shadow.byte_add(C_INDEX).cast::<c_int>().write(comm.byte_add(C_INDEX).cast::<c_int>().read());
        shadow.byte_add(C_COLL).cast::<Handle>().write(table);
        let (comm, agreements) = (comm as usize, agreements as usize);
        Ok(Some((shadow as usize, Known { comm, agreements, group: None, users: 0, is_left: false })))
    }
}

/// # Safety
/// A shadow that no other code knows any more. Its communicator is live.
unsafe fn free_shadow(internals: &Internals, shadow: usize, known: &Known) {
    let shadow = shadow as Handle;
    // Frees the shadow without its context id, which would be released with it.
    // SAFETY: as required of the caller. Context id and functions belong to the communicator. A thread that still
    // notifies the shadow of a death needs neither.
    unsafe {
        shadow.byte_add(C_INDEX).cast::<c_int>().write(MPI_UNDEFINED);
        shadow.byte_add(C_COLL).cast::<Handle>().write(std::ptr::null_mut());
        internals.release(shadow);
        Classes::destroy(known.agreements as Handle);
    }
}

/// Calls [`comm_freed`] when a communicator is freed; or returns an error code.
///
/// # Safety
/// A live communicator.
unsafe fn install_end_callback(internals: &Internals, comm: Handle) -> Result<(), c_int> {
    static KEYVAL: OnceLock<Result<c_int, c_int>> = OnceLock::new();
    let keyval = *KEYVAL.get_or_init(|| {
        let mut key = 0;
        // SAFETY: functions that stay valid, since this library is never unloaded.
        let code =
            unsafe { (internals.create_keyval)(internals.null_copy_fn, comm_freed, &mut key, std::ptr::null_mut()) };
        if code == 0 { Ok(key) } else { Err(code) }
    });
    // SAFETY: as required of the caller; the value is not read.
    match unsafe { (internals.set_attr)(comm, keyval?, std::ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(code),
    }
}

/// Handles a communicator that is being freed. Shrinks under way continue, and hold it.
unsafe extern "C" fn comm_freed(comm: Handle, _key: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
    let turn = lock(&TURNS).remove(&(comm as usize)).unwrap_or_default();
    let (Some(internals), Some(false)) = (Internals::get(), OpenMpi::get().map(OpenMpi::is_finalized)) else {
        return 0;
    };
    let unused = lock(&SHADOWS).leave(turn.shadows.into_values());
    // SAFETY: no shrink uses them now or later.
    unused.iter().for_each(|(shadow, known)| unsafe { free_shadow(internals, *shadow, known) });
    0
}

/// Handles an agreement that begins on a communicator, with the group of its dead members at this address. On a shadow,
/// returns the module that counts its agreements, and whether that group is freed.
pub fn begin_agreement(comm: Handle, group: *mut Handle) -> Option<(Handle, bool)> {
    let (agreements, is_freed) = lock(&SHADOWS).begin_agreement(comm as usize, group as usize)?;
    Some((agreements as Handle, is_freed))
}

/// The context id of a communicator in words, and its epoch.
///
/// # Safety
/// A live communicator.
unsafe fn identity(comm: Handle) -> ([u64; 2], u32) {
    // SAFETY: as required of the caller.
    unsafe { (comm.byte_add(C_CONTEXTID).cast::<[u64; 2]>().read(), comm.byte_add(C_EPOCH).cast::<u32>().read()) }
}

/// The epoch of the shadow at a position in a communicator's order, equal at all members. Agreements identify the
/// shadow by it and by the communicator's context id.
fn epoch_at(words: [u64; 2], epoch: u32, place: u32) -> u32 {
    let mut hasher = blake3::Hasher::new();
    words.iter().for_each(|word| _ = hasher.update(&word.to_le_bytes()));
    hasher.update(&epoch.to_le_bytes()).update(&place.to_le_bytes());
    let [first, second, third, fourth, ..] = *hasher.finalize().as_bytes();
    epoch_bits::of_shrinks(u32::from_le_bytes([first, second, third, fourth]))
}

/// Calls [`member_died`] for every communicator that loses a member.
fn install_death_callback(internals: &Internals) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: a variable of Open MPI with the address of a function, which is never unloaded, or null.
        let callback = unsafe { AtomicPtr::<c_void>::from_ptr(internals.rank_failure_callback.cast()) };
        let mut next = callback.load(Ordering::Acquire);
        loop {
            // Stored first: the new function may be called at once, and reads it.
            NEXT_CALLBACK.store(next, Ordering::Release);
            match callback.compare_exchange(next, member_died as *mut c_void, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(other) => next = other,
            }
        }
    });
}

/// Whether ringwatch's plugin is in the process: the previous callback for deaths is not in Open MPI's library.
fn plugin_is_loaded() -> bool {
    /// The start of the loaded object that contains an address.
    fn object_of(address: *const c_void) -> usize {
        // SAFETY: any address may be passed, with a place for the result.
        unsafe {
            let mut found: libc::Dl_info = std::mem::zeroed();
            if libc::dladdr(address, &mut found) == 0 { 0 } else { found.dli_fbase as usize }
        }
    }
    static IS_LOADED: OnceLock<bool> = OnceLock::new();
    *IS_LOADED.get_or_init(|| {
        let next = NEXT_CALLBACK.load(Ordering::Acquire);
        OpenMpi::get().is_some_and(|mpi| object_of(next) != object_of(mpi.iagree as *const c_void))
    })
}

/// Notifies a communicator's shadows that a member is dead.
unsafe extern "C" fn member_died(comm: Handle, rank: c_int, remote: bool) {
    let next = NEXT_CALLBACK.load(Ordering::Acquire);
    if next.is_null() {
        return;
    }
    // SAFETY: the previous callback with its original arguments. It may end a shrink, whose shadow is held until then.
    unsafe {
        let next = std::mem::transmute::<*mut c_void, MemberDied>(next);
        next(comm, rank, remote);
        let Some(internals) = Internals::get() else { return };
        for shadow in held_shadows_of(comm) {
            next(shadow, rank, remote);
            internals.release(shadow);
        }
    }
}

/// The shadows of a communicator, with a reference for the caller each.
fn held_shadows_of(comm: Handle) -> Vec<Handle> {
    if OpenMpi::get().is_none_or(OpenMpi::is_finalized) {
        return Vec::new();
    }
    let shadows = lock(&SHADOWS);
    let held: Vec<_> = shadows.of_comm(comm as usize).into_iter().map(|shadow| shadow as Handle).collect();
    // SAFETY: a registered shadow is live.
    held.iter().for_each(|shadow| unsafe { Classes::hold(*shadow) });
    held
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const COMM: usize = 1;
    const AGREEMENTS: usize = 7;

    /// Shadows of a communicator, with these numbers of users.
    fn shadows(users: &[(usize, usize)]) -> Shadows {
        let known = |users| Known { comm: COMM, agreements: AGREEMENTS, group: None, users, is_left: false };
        Shadows(users.iter().map(|(shadow, users)| (*shadow, known(*users))).collect())
    }

    #[test]
    fn shrinks_take_the_shadows_of_their_communicator_in_turn() {
        let mut turn = Turn::default();
        let places: Vec<u32> = (0..5).map(|_| turn.next_shrink(3)).collect();
        assert_eq!(places, [0, 1, 2, 0, 1]);
        assert_eq!([turn.next_shrink(1), turn.next_shrink(1)], [0, 0]);
    }

    #[test]
    fn no_two_votes_have_the_same_place_nor_that_of_a_shrink() {
        let mut turn = Turn::default();
        let votes: BTreeSet<u32> = (0..100).map(|_| turn.next_vote()).collect();
        let shrinks = (0..100).map(|_| turn.next_shrink(MAX_SHADOWS)).collect();
        assert_eq!(votes.len(), 100);
        assert!(votes.is_disjoint(&shrinks));
    }

    #[test]
    fn shadows_of_a_communicator_differ_from_each_other_and_from_those_of_others() {
        let epochs: BTreeSet<u32> = (0..100).map(|place| epoch_at([3, 4], 1, place)).collect();
        assert_eq!(epochs.len(), 100);
        assert!(epochs.iter().all(|epoch| epoch_bits::is_of_shrinks(*epoch)));
        for (words, epoch) in [([3, 5], 1), ([4, 3], 1), ([3, 4], 2)] {
            assert!(!epochs.contains(&epoch_at(words, epoch, 0)));
        }
    }

    #[test]
    fn the_second_agreement_of_a_shrink_gets_a_new_group_and_others_keep_theirs() {
        let mut shadows = shadows(&[(20, 1)]);
        assert_eq!(shadows.begin_agreement(COMM, 50), None, "an agreement of the program");
        shadows.begin(20);
        assert_eq!(shadows.begin_agreement(20, 50), Some((AGREEMENTS, false)));
        assert_eq!(shadows.begin_agreement(20, 60), Some((AGREEMENTS, false)), "a group of another agreement");
        assert_eq!(shadows.begin_agreement(20, 50), Some((AGREEMENTS, true)));
        // The next shrink may have its group at the same address.
        shadows.begin(20);
        assert_eq!(shadows.begin_agreement(20, 50), Some((AGREEMENTS, false)));
    }

    #[test]
    fn the_shadows_of_a_freed_communicator_are_freed_when_no_shrink_has_them() {
        let mut shadows = shadows(&[(20, 0), (30, 2), (40, 1)]);
        let unused: Vec<_> = shadows.leave([20, 30]).into_iter().map(|(shadow, _)| shadow).collect();
        assert_eq!(unused, [20]);
        assert_eq!(shadows.give_back(30), None);
        assert!(shadows.give_back(30).is_some());
        assert_eq!(shadows.give_back(40), None, "its communicator lives");
        assert_eq!(shadows.of_comm(COMM), [40]);
    }

    #[test]
    fn only_the_shadows_of_a_communicator_hear_of_its_deaths() {
        let mut shadows = shadows(&[(20, 1), (30, 1)]);
        shadows.0.get_mut(&30).into_iter().for_each(|known| known.comm = 2);
        assert_eq!(shadows.of_comm(COMM), [20]);
        assert!(shadows.of_comm(3).is_empty());
    }
}

//! The error scope and the error uniformity of every communicator of this rank: where they come from, and what a death
//! does to it.
//!
//! Open MPI asks every collective component about every new communicator, and lets anybody subscribe to info keys; a
//! subscriber's answer is what `MPI_Comm_get_info` returns. So the keys work for every caller, in C, Fortran and Python,
//! without a place in front of any MPI function. `MPI_Comm_dup` hands both on in attributes.
//!
//! A death reaches a communicator of scope group or global as `MPIX_Comm_revoke` does, which interrupts operations that
//! are blocked on living peers. Scope global counts deaths from the moment it was set; scope group also earlier ones.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use rdma_heartbeat::logging::say;

use crate::handles::{Communicator, Handles};
use crate::internals::{Internals, NONBLOCKING};
use crate::keys::{self, SHOWN, Setting};
use crate::objects::Object;
use crate::property::{self, PROPERTIES, SCOPE, UNIFORMITY};
use crate::scope::Scope;
use crate::statement::ERR_PROC_FAILED;
use crate::uniform::End;
use crate::uniformity::Uniformity;
use crate::{
    abandoned, agreements, construction, detached, dynamic, mended, module, numbers, openmpi, owners, uniform, waiting,
};

/// See [`Handles::index`]: `MPI_COMM_WORLD`.
const WORLD: c_int = 0;

/// The parameters of the properties.
static DEFAULTS: [AtomicI32; 2] = [const { AtomicI32::new(0) }; 2];
static COMMUNICATORS: OnceLock<Option<Communicators>> = OnceLock::new();
/// After `MPI_Init`: freed communicators can be told from others.
static INITIALISED: AtomicBool = AtomicBool::new(false);
/// In `MPI_Finalize`.
static FINALISING: AtomicBool = AtomicBool::new(false);

struct Communicators {
    mpi: Handles,
    /// The attributes with which `MPI_Comm_dup` hands properties on.
    attributes: [OnceLock<Option<c_int>>; 2],
    known: Mutex<BTreeMap<Communicator, Known>>,
}

/// What is known about a communicator; the entry of one that was freed stays until its address is used again.
#[derive(Clone, Copy)]
struct Known {
    settings: [Setting; 2],
    /// It has its collectives.
    complete: bool,
    /// A member is dead.
    damaged: bool,
    /// See [`Handles::index`]; `None` for those of `MPI_Init`, which nobody can free.
    index: Option<c_int>,
}

/// A communicator of which a window or a file consists.
#[derive(Clone, Copy)]
pub struct Part {
    pub comm: Communicator,
    /// See [`Handles::index`].
    index: c_int,
}

impl Part {
    /// Interrupts every operation on it.
    pub fn revoke(&self) {
        if let Some(all) = present().filter(|all| all.lives(self.comm, Some(self.index))) {
            all.mpi.revoke(self.comm);
        }
    }

    /// Gives it a value of a property.
    pub fn set(&self, which: usize, value: c_int) {
        if present().is_some_and(|all| all.lives(self.comm, Some(self.index))) {
            set(self.comm.handle(), which, value);
        }
    }
}

impl Known {
    fn scope(&self) -> Scope {
        Scope::of(self.settings[SCOPE].value)
    }

    fn uniformity(&self) -> Uniformity {
        Uniformity::of(self.settings[UNIFORMITY].value)
    }
}

/// Registers the parameters of the component.
pub fn register_parameters(component: *const c_void) {
    for (property, default) in PROPERTIES.iter().zip(&DEFAULTS) {
        let values = [0, 1, 2].map(|value| (value as c_int, property.words[value]));
        openmpi::register_choice(component, property.parameter, property.help, &values, default);
    }
}

/// `comm_query` of the coll component: a communicator is being made; its members, attributes and info are in place.
/// Returns the module that hears of its further life, or null.
pub fn created(handle: *mut c_void) -> *mut c_void {
    let find = || {
        let mpi = Handles::find();
        if mpi.is_none() {
            say("ringwatch: this Open MPI lacks a function for error scopes; every communicator has the scope local");
        }
        agreements::watch(mpi.as_ref()?.watch_members(member_died));
        Some(Communicators { mpi: mpi?, attributes: Default::default(), known: Mutex::default() })
    };
    let Some(all) = COMMUNICATORS.get_or_init(find) else { return std::ptr::null_mut() };
    let comm = Communicator::from_handle(handle);
    waiting::moved();
    all.add(comm);
    if INITIALISED.load(Ordering::Relaxed) {
        construction::joined(Part { comm, index: all.mpi.index(comm) });
    }
    Internals::get().map_or(std::ptr::null_mut(), |mpi| module::of(mpi, handle))
}

/// A communicator has its collectives.
pub fn completed(handle: *mut c_void) {
    let Some(all) = COMMUNICATORS.get().and_then(Option::as_ref) else { return };
    let comm = Communicator::from_handle(handle);
    if !construction::completed(comm) {
        all.known().remove(&comm);
        return;
    }
    if let Some(known) = all.known().get_mut(&comm) {
        known.complete = true;
    }
    if INITIALISED.load(Ordering::Relaxed) {
        all.mend(comm);
        construction::equipped(comm);
    }
}

/// A communicator is being freed.
pub fn freed(handle: *mut c_void) {
    let Some(all) = COMMUNICATORS.get().and_then(Option::as_ref) else { return };
    owners::part_freed(Communicator::from_handle(handle));
    let end = match (INITIALISED.load(Ordering::Relaxed), FINALISING.load(Ordering::Relaxed)) {
        (false, _) => End::Unmade,
        (true, true) => End::Finalised,
        (true, false) => End::Freed,
    };
    uniform::forget(handle, end);
    agreements::forget(handle);
    all.known().remove(&Communicator::from_handle(handle));
}

/// End of `MPI_Init`.
pub fn initialised() {
    INITIALISED.store(true, Ordering::Relaxed);
    let Some(all) = present() else { return };
    let made: Vec<_> = all.known().keys().copied().collect();
    for comm in made {
        all.take_back_what_is_impossible(comm);
        all.mend(comm);
    }
}

/// `MPI_Finalize` begins. It closes files that are still open with a barrier among those who have opened them
/// (common_ompio_file_open.c); where one of these is dead, others may have left it already, and MPI with it.
pub fn finalising() {
    uniform::take_leave();
    FINALISING.store(true, Ordering::Relaxed);
    let Some(all) = present() else { return };
    let damaged: Vec<_> = all.known().iter().filter(|(_, known)| known.damaged).map(|(comm, _)| *comm).collect();
    damaged.into_iter().for_each(|comm| all.refuse_collectives(comm));
}

/// `MPI_Finalize` takes the library apart: nothing is interrupted any more.
pub fn closed() {
    INITIALISED.store(false, Ordering::Relaxed);
    detached::give_up();
}

/// What Open MPI has for communicators.
pub fn handles() -> Option<&'static Handles> {
    present().map(|all| &all.mpi)
}

/// What holds for a communicator, of each property.
pub fn values(handle: *mut c_void) -> [c_int; 2] {
    let known = present().and_then(|all| all.known().get(&Communicator::from_handle(handle)).copied());
    known.map_or([0; 2], |known| known.settings.map(|setting| setting.value))
}

/// Sets what the duplicates of a communicator begin with.
pub fn bequeath(handle: *mut c_void, which: usize, value: c_int) {
    if let Some(all) = present() {
        all.hand_on(Communicator::from_handle(handle), which, value);
    }
}

/// Gives a communicator that lives a value of a property.
pub fn set(handle: *mut c_void, which: usize, value: c_int) {
    if let Some(all) = present() {
        all.adopt(Communicator::from_handle(handle), which, value, SHOWN);
    }
}

/// Whether there is this communicator.
pub fn lives(handle: *mut c_void) -> bool {
    let comm = Communicator::from_handle(handle);
    present().is_some_and(|all| {
        let known = all.known().get(&comm).copied();
        known.is_some_and(|known| all.lives(comm, known.index))
    })
}

/// A constructor on whose end others have a say has this code, and its result here stands at `made`, or `null`. What others may
/// not have is nobody's: they would be waited for in it. It stays, with its number.
///
/// # Safety
/// Where a constructor has put what it has made, if it has.
pub unsafe fn settle(made: *mut Object, code: c_int, null: Object) {
    // SAFETY: as required of the caller.
    let new = unsafe { made.read() };
    if new.is_null() || new == null {
        return;
    }
    uniform::decided(new, code);
    if code != 0 {
        revoke(Communicator::from_handle(new));
        // SAFETY: as above.
        unsafe { made.write(null) };
    }
}

/// Interrupts every operation on a communicator that lives.
pub fn revoke(comm: Communicator) {
    if let Some(all) = present() {
        all.mpi.revoke(comm);
    }
}

/// A process of the job is dead: interrupts what has the scope global.
pub fn somebody_died() {
    if let Some(all) = present() {
        all.interrupt(|scope, _| scope == Scope::Global);
    }
}

fn present() -> Option<&'static Communicators> {
    COMMUNICATORS.get()?.as_ref().filter(|_| INITIALISED.load(Ordering::Relaxed))
}

unsafe extern "C" fn member_died(handle: *mut c_void, rank: c_int, remote: bool) {
    let comm = Communicator::from_handle(handle);
    let _ = catch_unwind(|| {
        abandoned::member_died();
        agreements::member_died(handle, rank, remote);
        detached::somebody_died();
        if let Some(all) = present() {
            // The first one that is told, and all ranks of the job are in it.
            if all.mpi.index(comm) == WORLD {
                crate::rank_died(rank as u32);
            }
            uniform::member_died(handle, rank, remote);
            construction::member_died(handle);
            owners::member_died(comm, rank);
            if let Some(known) = all.known().get_mut(&comm) {
                known.damaged = true;
            }
            if FINALISING.load(Ordering::Relaxed) {
                all.refuse_collectives(comm);
            }
            all.interrupt(|scope, one| scope == Scope::Global || (scope == Scope::Group && one == comm));
        }
    });
}

unsafe extern "C" fn key_changed(handle: *mut c_void, key: *const c_char, value: *const c_char) -> *const c_char {
    // SAFETY: Open MPI passes terminated strings.
    let (key, value) = unsafe { (CStr::from_ptr(key), CStr::from_ptr(value)) };
    let answer = catch_unwind(|| COMMUNICATORS.get()?.as_ref()?.changed(Communicator::from_handle(handle), key, value));
    answer.ok().flatten().map_or(std::ptr::null(), CStr::as_ptr)
}

impl Communicators {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Communicator, Known>> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn add(&self, comm: Communicator) {
        let settings = [SCOPE, UNIFORMITY].map(|which| {
            let inherited =
                self.attributes[which].get().copied().flatten().and_then(|key| self.mpi.attribute(comm, key));
            let value = inherited.unwrap_or_else(|| DEFAULTS[which].load(Ordering::Relaxed));
            let is_possible =
                is_possible(which, value, comm) && !(which == UNIFORMITY && construction::is_copy(comm.handle()));
            Setting::new(if is_possible { value } else { 0 })
        });
        let index = INITIALISED.load(Ordering::Relaxed).then(|| self.mpi.index(comm));
        self.known().insert(comm, Known { settings, complete: false, damaged: false, index });
        keys::subscribe(&self.mpi, comm, key_changed);
    }

    /// A key of the communicator's info has this value now; returns what it shall show.
    fn changed(&self, comm: Communicator, key: &CStr, value: &CStr) -> Option<&'static CStr> {
        let (which, spelling) = property::of_key(key)?;
        let property = &PROPERTIES[which];
        let shown = self.known().get(&comm)?.settings[which].shown(which, spelling);
        if !keys::is_given(value) {
            return shown;
        }
        let Some(value) = (property.parse)(value).filter(|value| is_possible(which, *value, comm)) else {
            self.refuse(comm, which, key, value);
            return shown;
        };
        self.adopt(comm, which, value, spelling);
        Some(property.words[value as usize])
    }

    fn adopt(&self, comm: Communicator, which: usize, value: c_int, spelling: usize) {
        let Known { settings, damaged, .. } = match self.known().get_mut(&comm) {
            None => return,
            Some(known) => {
                known.settings[which].take(value, spelling);
                *known
            }
        };
        settings[which].align(&self.mpi, comm, which, spelling);
        self.hand_on(comm, which, value);
        if which == UNIFORMITY {
            self.equip(comm);
        } else if Scope::of(value) != Scope::Local && damaged {
            self.mpi.revoke(comm);
        }
    }

    fn hand_on(&self, comm: Communicator, which: usize, value: c_int) {
        if let Some(attribute) = *self.attributes[which].get_or_init(|| self.mpi.inherited_attribute()) {
            self.mpi.set_attribute(comm, attribute, value);
        }
    }

    /// Of a communicator that `MPI_Init` has made: whether it can be uniform is known from now on.
    fn take_back_what_is_impossible(&self, comm: Communicator) {
        for which in [SCOPE, UNIFORMITY] {
            let setting = self.known().get(&comm).map(|known| known.settings[which]);
            if setting.is_some_and(|setting| !is_possible(which, setting.value, comm)) {
                let possible = Setting::new(0);
                if let Some(known) = self.known().get_mut(&comm) {
                    known.settings[which] = possible;
                }
                possible.write(&self.mpi, comm, which, SHOWN);
            }
        }
    }

    /// A communicator is made.
    fn mend(&self, comm: Communicator) {
        if self.known().get(&comm).is_some_and(|known| known.complete) {
            dynamic::made(comm.handle());
            mended::make(comm.handle());
            self.equip(comm);
            if agreements::somebody_died() {
                self.note_earlier_deaths(comm);
            }
        }
    }

    /// Of a communicator that is made: a member may have died before this module knew of it, and one may be made all the same,
    /// as by `MPI_Comm_spawn`.
    fn note_earlier_deaths(&self, comm: Communicator) {
        // SAFETY: the communicator lives and has its groups.
        let has_dead = |mpi: &'static Internals| unsafe { mpi.has_dead_on_any_side(comm.handle()) };
        if !Internals::fitting().is_some_and(has_dead) {
            return;
        }
        let scope = self.known().get_mut(&comm).map(|known| {
            known.damaged = true;
            known.scope()
        });
        if scope.is_some_and(|scope| scope != Scope::Local) {
            self.mpi.revoke(comm);
        }
    }

    /// Gives a communicator the functions that its uniformity asks for, once it is made.
    fn equip(&self, comm: Communicator) {
        let known = self.known().get(&comm).copied();
        if let Some(known) = known.filter(|known| known.complete && INITIALISED.load(Ordering::Relaxed)) {
            uniform::make(comm.handle(), known.uniformity());
        }
    }

    /// Whether its program has not freed a communicator.
    fn lives(&self, comm: Communicator, index: Option<c_int>) -> bool {
        index.is_none_or(|index| self.mpi.lives(comm, index)) && !numbers::is_abandoned(comm.handle())
    }

    /// From now on blocking collectives of a communicator with a dead member fail at once.
    fn refuse_collectives(&self, comm: Communicator) {
        let known = self.known().get(&comm).copied();
        let lives = |known: Known| known.complete && self.lives(comm, known.index);
        if let (Some(mpi), true) = (Internals::fitting(), known.is_some_and(lives)) {
            // SAFETY: the communicator lives and has its collectives.
            let table = unsafe { mpi.table(comm.handle()) };
            table[..NONBLOCKING].iter_mut().for_each(|slot| slot.function = refused as Object);
        }
    }

    fn refuse(&self, comm: Communicator, which: usize, key: &CStr, value: &CStr) {
        say(&property::refusal(which, key, value));
        self.mpi.raise(comm, keys::bad_value(&self.mpi, which));
    }

    fn interrupt(&self, concerns: impl Fn(Scope, Communicator) -> bool) {
        let concerned: Vec<_> = self
            .known()
            .iter()
            .filter(|(comm, known)| concerns(known.scope(), **comm))
            .map(|(comm, known)| (*comm, known.index))
            .collect();
        for (comm, index) in concerned {
            if self.lives(comm, index) {
                self.mpi.revoke(comm);
                owners::interrupted(comm);
            }
        }
    }
}

/// Any blocking collective: what it is given is the caller's to take back.
unsafe extern "C" fn refused() -> c_int {
    ERR_PROC_FAILED
}

/// Whether a communicator can have this value of a property.
fn is_possible(which: usize, value: c_int, comm: Communicator) -> bool {
    // Those of MPI_Init become uniform at its end.
    let made_later = INITIALISED.load(Ordering::Relaxed);
    which != UNIFORMITY
        || Uniformity::of(value) == Uniformity::Local
        || !made_later
        // SAFETY: one that is being made, or lives, and has its groups.
        || unsafe { uniform::can_be(comm.handle()) }
}

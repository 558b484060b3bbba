//! Manages error scope and error uniformity of each communicator of this rank, and interrupts communicators after a
//! death.
//!
//! Open MPI queries every collective component for every new communicator, and lets components subscribe to info keys;
//! a subscriber's answer is what `MPI_Comm_get_info` returns. So the keys work for every caller, in C, Fortran and
//! Python, without interposition on MPI functions. `MPI_Comm_dup` copies both properties as attributes.
//!
//! A death affects a communicator of scope group or global like `MPIX_Comm_revoke`, which interrupts operations that
//! wait for living peers. Scope global counts deaths since it was set; scope group also earlier ones.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use platform::say::say;

use crate::cid::cid_hold;
use crate::failure::deaths;
use crate::in_front::guard;
use crate::properties::error_scope::Scope;
use crate::properties::error_uniformity::Uniformity;
use crate::properties::info_keys::{self, SHOWN, Setting};
use crate::properties::info_property::{self, PROPERTIES, SCOPE, UNIFORMITY};
use openmpi_internals::comm_api::{Communicator, Handles};
use openmpi_internals::communicator::{Internals, NONBLOCKING};
use openmpi_internals::error_class::ERR_PROC_FAILED;
use openmpi_internals::loaded;
use openmpi_internals::loaded::ProcessName;
use openmpi_internals::object::Object;
use openmpi_internals::sync::lock;

/// See [`Handles::index`]: `MPI_COMM_WORLD`.
const WORLD: c_int = 0;

/// Callbacks of higher modules for events of communicators.
pub struct Reactions {
    /// Whether a new communicator is a copy for a window or a file, which is never uniform.
    pub is_copy: fn(Object) -> bool,
    /// Whether a communicator with its groups can be uniform.
    pub can_be_uniform: fn(Object) -> bool,
    /// Installs the collective functions for the uniformity of a complete communicator.
    pub equip: fn(Object, Uniformity),
    /// Called when this process is the only member of a communicator of scope global.
    pub hear_alone: fn(),
    /// Called when its scope has interrupted a communicator.
    pub interrupted: fn(Communicator),
}

static REACTIONS: OnceLock<Reactions> = OnceLock::new();

/// Default values of the properties, from MCA parameters.
static DEFAULTS: [AtomicI32; 2] = [const { AtomicI32::new(0) }; 2];
static COMMUNICATORS: OnceLock<Option<Communicators>> = OnceLock::new();
/// Set after `MPI_Init`: from then on freed communicators can be recognised.
static INITIALISED: AtomicBool = AtomicBool::new(false);
/// Set in `MPI_Finalize`.
static FINALISING: AtomicBool = AtomicBool::new(false);

struct Communicators {
    mpi: Handles,
    /// The attributes with which `MPI_Comm_dup` copies the properties.
    attributes: [OnceLock<Option<c_int>>; 2],
    known: Mutex<BTreeMap<Communicator, Known>>,
}

/// State of a communicator. The entry of a freed one stays until its address is reused.
#[derive(Clone, Copy)]
struct Known {
    settings: [Setting; 2],
    /// Whether it has its collectives.
    complete: bool,
    has_dead_member: bool,
    /// See [`Handles::index`]; `None` for those of `MPI_Init`, which cannot be freed.
    index: Option<c_int>,
}

/// A communicator that belongs to a window or a file.
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

    /// Sets a property of it.
    pub fn set(&self, which: usize, value: c_int) {
        if present().is_some_and(|all| all.lives(self.comm, Some(self.index))) {
            set(self.comm.handle(), which, value);
        }
    }
}

impl Known {
    fn scope(&self) -> Scope {
        Scope::from_value(self.settings[SCOPE].value)
    }

    fn uniformity(&self) -> Uniformity {
        Uniformity::from_value(self.settings[UNIFORMITY].value)
    }
}

/// Registers the MCA parameters of the properties.
pub fn register_parameters(component: *const c_void) {
    for (property, default) in PROPERTIES.iter().zip(&DEFAULTS) {
        let values = [0, 1, 2].map(|value| (value as c_int, property.words[value]));
        loaded::register_choice(component, property.parameter, property.help, &values, default);
    }
}

/// Whether the default error scope is local.
pub fn is_scope_local() -> bool {
    DEFAULTS[SCOPE].load(Ordering::Relaxed) == Scope::Local.value()
}

/// Sets the callbacks. Call it before the first communicator.
pub fn react(reactions: Reactions) {
    let _ = REACTIONS.set(reactions);
}

/// Finds Open MPI's functions for communicators; calls `found` with them once. Returns whether all are there.
pub fn find(found: impl FnOnce(&Handles)) -> bool {
    let find = || {
        let mpi = Handles::find();
        if mpi.is_none() {
            say("ringwatch: this Open MPI lacks a function for error scopes; every communicator has the scope local");
        }
        found(mpi.as_ref()?);
        Some(Communicators { mpi: mpi?, attributes: Default::default(), known: Mutex::default() })
    };
    COMMUNICATORS.get_or_init(find).is_some()
}

/// Registers a communicator that is being made and has its members, attributes and info. Returns it as a part, unless
/// `MPI_Init` makes it.
pub fn add(comm: Communicator) -> Option<Part> {
    let all = COMMUNICATORS.get()?.as_ref()?;
    all.add(comm);
    are_initialised().then(|| Part { comm, index: all.mpi.index(comm) })
}

/// Notes that a communicator has its collectives.
pub fn complete(comm: Communicator) {
    let Some(all) = COMMUNICATORS.get().and_then(Option::as_ref) else { return };
    if let Some(known) = all.known().get_mut(&comm) {
        known.complete = true;
    }
}

/// Forgets a communicator that is freed, or needs no management.
pub fn forget(comm: Communicator) {
    if let Some(all) = COMMUNICATORS.get().and_then(Option::as_ref) {
        all.known().remove(&comm);
    }
}

/// Whether a communicator has its collectives.
pub fn is_complete(comm: Communicator) -> bool {
    present().is_some_and(|all| all.known().get(&comm).is_some_and(|known| known.complete))
}

/// Installs the functions for a communicator's uniformity once it is complete.
pub fn equip(comm: Communicator) {
    if let Some(all) = present() {
        all.equip(comm);
    }
}

/// Checks a complete communicator for earlier deaths: a member may have died before this module knew the communicator,
/// and some constructors, such as `MPI_Comm_spawn`, succeed nevertheless.
pub fn note_earlier_deaths(comm: Communicator) {
    if let Some(all) = present() {
        all.note_earlier_deaths(comm);
    }
}

/// If this process is the only member of a complete communicator of scope global, makes calls on it see deaths
/// elsewhere.
pub fn hear_if_alone(comm: Communicator) {
    if let Some(all) = present() {
        all.hear_if_alone(comm);
    }
}

/// Handles the end of `MPI_Init`. Returns the communicators that it has made.
pub fn initialised() -> Vec<Communicator> {
    INITIALISED.store(true, Ordering::Relaxed);
    let Some(all) = present() else { return Vec::new() };
    let made: Vec<_> = all.known().keys().copied().collect();
    made.iter().for_each(|comm| all.take_back_what_is_impossible(*comm));
    made
}

/// Whether `MPI_Init` has ended, and `MPI_Finalize` has not torn the library down.
pub fn are_initialised() -> bool {
    INITIALISED.load(Ordering::Relaxed)
}

/// Whether `MPI_Finalize` has begun.
pub fn are_finalising() -> bool {
    FINALISING.load(Ordering::Relaxed)
}

/// Handles the begin of `MPI_Finalize`. It closes files that are still open with a barrier among their openers
/// (common_ompio_file_open.c); if one of these is dead, others may have left the barrier and MPI already.
pub fn finalising() {
    FINALISING.store(true, Ordering::Relaxed);
    let Some(all) = present() else { return };
    let damaged: Vec<_> =
        all.known().iter().filter(|(_, known)| known.has_dead_member).map(|(comm, _)| *comm).collect();
    damaged.into_iter().for_each(|comm| all.refuse_collectives(comm));
}

/// Stops interruptions when `MPI_Finalize` tears the library down.
pub fn closed() {
    INITIALISED.store(false, Ordering::Relaxed);
}

/// Open MPI's functions for communicators.
pub fn handles() -> Option<&'static Handles> {
    present().map(|all| &all.mpi)
}

/// The value of each property of a communicator.
pub fn values(handle: *mut c_void) -> [c_int; 2] {
    let known = present().and_then(|all| all.known().get(&Communicator::from_handle(handle)).copied());
    known.map_or([0; 2], |known| known.settings.map(|setting| setting.value))
}

/// Sets the value with which a communicator's duplicates begin.
pub fn bequeath(handle: *mut c_void, which: usize, value: c_int) {
    if let Some(all) = present() {
        all.hand_on(Communicator::from_handle(handle), which, value);
    }
}

/// Sets a property of a live communicator.
pub fn set(handle: *mut c_void, which: usize, value: c_int) {
    if let Some(all) = present() {
        all.adopt(Communicator::from_handle(handle), which, value, SHOWN);
    }
}

/// Whether this communicator exists.
pub fn lives(handle: *mut c_void) -> bool {
    let comm = Communicator::from_handle(handle);
    present().is_some_and(|all| {
        let known = all.known().get(&comm).copied();
        known.is_some_and(|known| all.lives(comm, known.index))
    })
}

/// Interrupts all operations on a live communicator.
pub fn revoke(comm: Communicator) {
    if let Some(all) = present() {
        all.mpi.revoke(comm);
    }
}

/// Interrupts communicators of scope global after a process of the job has died, unless the death was reported before.
pub fn interrupt_global(dead: ProcessName) {
    if let Some(all) = present().filter(|_| deaths::is_new(dead)) {
        all.interrupt(|scope, _| scope == Scope::Global);
    }
}

/// Whether this is `MPI_COMM_WORLD`, the first communicator to which a death is reported.
pub fn is_world(comm: Communicator) -> bool {
    present().is_some_and(|all| all.mpi.index(comm) == WORLD)
}

/// Interrupts the communicators that scopes select when a member of `comm` dies: `comm` if its scope is group or
/// global, and all of scope global if the death is new. `name` is the dead process, if known; a death without a name
/// counts as new.
pub fn interrupt_damaged(comm: Communicator, name: Option<ProcessName>) {
    let Some(all) = present() else { return };
    if let Some(known) = all.known().get_mut(&comm) {
        known.has_dead_member = true;
    }
    if are_finalising() {
        all.refuse_collectives(comm);
    }
    let is_new = name.is_none_or(deaths::is_new);
    all.interrupt(|scope, one| scope != Scope::Local && one == comm || scope == Scope::Global && is_new);
}

fn present() -> Option<&'static Communicators> {
    COMMUNICATORS.get()?.as_ref().filter(|_| INITIALISED.load(Ordering::Relaxed))
}

unsafe extern "C" fn key_changed(handle: *mut c_void, key: *const c_char, value: *const c_char) -> *const c_char {
    // SAFETY: Open MPI passes terminated strings.
    let (key, value) = unsafe { (CStr::from_ptr(key), CStr::from_ptr(value)) };
    let changed = || COMMUNICATORS.get()?.as_ref()?.changed(Communicator::from_handle(handle), key, value);
    guard(None, changed).map_or(std::ptr::null(), CStr::as_ptr)
}

impl Communicators {
    fn known(&self) -> MutexGuard<'_, BTreeMap<Communicator, Known>> {
        lock(&self.known)
    }

    fn add(&self, comm: Communicator) {
        let settings = [SCOPE, UNIFORMITY].map(|which| {
            let inherited =
                self.attributes[which].get().copied().flatten().and_then(|key| self.mpi.attribute(comm, key));
            let value = inherited.unwrap_or_else(|| DEFAULTS[which].load(Ordering::Relaxed));
            let is_copy = || REACTIONS.get().is_some_and(|reactions| (reactions.is_copy)(comm.handle()));
            let is_possible = is_possible(which, value, comm) && !(which == UNIFORMITY && is_copy());
            Setting::new(if is_possible { value } else { 0 })
        });
        let index = INITIALISED.load(Ordering::Relaxed).then(|| self.mpi.index(comm));
        self.known().insert(comm, Known { settings, complete: false, has_dead_member: false, index });
        info_keys::subscribe(&self.mpi, comm, key_changed);
    }

    /// Handles a new value of an info key; returns the value to show.
    fn changed(&self, comm: Communicator, key: &CStr, value: &CStr) -> Option<&'static CStr> {
        let (which, spelling) = info_property::of_key(key)?;
        let property = &PROPERTIES[which];
        let shown = self.known().get(&comm)?.settings[which].shown(which, spelling);
        if !info_keys::is_given(value) {
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
        let Known { settings, has_dead_member, .. } = match self.known().get_mut(&comm) {
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
        } else {
            if Scope::from_value(value) != Scope::Local && has_dead_member {
                self.mpi.revoke(comm);
            }
            self.hear_if_alone(comm);
        }
    }

    /// If this process is the only member of a complete communicator of scope global, makes calls on it see deaths
    /// elsewhere.
    fn hear_if_alone(&self, comm: Communicator) {
        let is_global = |known: &Known| known.complete && known.scope() == Scope::Global;
        let is_made = self.known().get(&comm).is_some_and(is_global) && INITIALISED.load(Ordering::Relaxed);
        if is_made && Internals::get().is_some_and(|mpi| !mpi.has_several_members(comm.handle())) {
            REACTIONS.get().into_iter().for_each(|reactions| (reactions.hear_alone)());
        }
    }

    fn hand_on(&self, comm: Communicator, which: usize, value: c_int) {
        if let Some(attribute) = *self.attributes[which].get_or_init(|| self.mpi.inherited_attribute()) {
            self.mpi.set_attribute(comm, attribute, value);
        }
    }

    /// Revokes impossible values of a communicator that `MPI_Init` has made: only now is known whether it can be
    /// uniform.
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

    /// Checks a complete communicator for earlier deaths: a member may have died before this module knew the
    /// communicator, and some constructors, such as `MPI_Comm_spawn`, succeed nevertheless.
    fn note_earlier_deaths(&self, comm: Communicator) {
        // SAFETY: the communicator is live and has its groups.
        let has_dead = |mpi: &'static Internals| unsafe { mpi.has_dead_on_any_side(comm.handle()) };
        if !Internals::fitting().is_some_and(has_dead) {
            return;
        }
        let scope = self.known().get_mut(&comm).map(|known| {
            known.has_dead_member = true;
            known.scope()
        });
        if scope.is_some_and(|scope| scope != Scope::Local) {
            self.mpi.revoke(comm);
        }
    }

    /// Installs the functions for a communicator's uniformity once it is complete.
    fn equip(&self, comm: Communicator) {
        let known = self.known().get(&comm).copied();
        let is_made = |known: &Known| known.complete && are_initialised();
        if let (Some(known), Some(reactions)) = (known.filter(is_made), REACTIONS.get()) {
            (reactions.equip)(comm.handle(), known.uniformity());
        }
    }

    /// Whether the program has not freed a communicator.
    fn lives(&self, comm: Communicator, index: Option<c_int>) -> bool {
        index.is_none_or(|index| self.mpi.lives(comm, index)) && !cid_hold::is_abandoned(comm.handle())
    }

    /// Makes blocking collectives of a communicator with a dead member fail at once.
    fn refuse_collectives(&self, comm: Communicator) {
        let known = self.known().get(&comm).copied();
        let lives = |known: Known| known.complete && self.lives(comm, known.index);
        if let (Some(mpi), true) = (Internals::fitting(), known.is_some_and(lives)) {
            // SAFETY: the communicator is live and has its collectives.
            let table = unsafe { mpi.table(comm.handle()) };
            table[..NONBLOCKING].iter_mut().for_each(|slot| slot.function = refused as Object);
        }
    }

    fn refuse(&self, comm: Communicator, which: usize, key: &CStr, value: &CStr) {
        say(&info_property::refusal(which, key, value));
        self.mpi.raise(comm, info_keys::bad_value(&self.mpi, which));
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
                REACTIONS.get().into_iter().for_each(|reactions| (reactions.interrupted)(comm));
            }
        }
    }
}

/// Replaces any blocking collective. It ignores its arguments, which the caller owns.
unsafe extern "C" fn refused() -> c_int {
    ERR_PROC_FAILED
}

/// Whether a communicator can have this value of a property.
fn is_possible(which: usize, value: c_int, comm: Communicator) -> bool {
    // Communicators of MPI_Init become uniform when it ends.
    let made_later = INITIALISED.load(Ordering::Relaxed);
    which != UNIFORMITY
        || Uniformity::from_value(value) == Uniformity::Local
        || !made_later
        || REACTIONS.get().is_some_and(|reactions| (reactions.can_be_uniform)(comm.handle()))
}

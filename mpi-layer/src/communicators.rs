//! The error scope and the error uniformity of every communicator of this rank: where they come from, and what a death
//! does to it.
//!
//! Open MPI asks every collective component about every new communicator, and lets anybody subscribe to info keys; a
//! subscriber's answer is what `MPI_Comm_get_info` returns. So the keys work for every caller, in C, Fortran and Python,
//! without a place in front of any MPI function. `MPI_Comm_dup` hands both on in attributes.
//!
//! A death reaches a communicator of scope group or global as `MPIX_Comm_revoke` does, which interrupts operations that
//! are blocked on living peers. Scope global counts deaths from the moment it was set; scope group also earlier ones.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use rdma_heartbeat::logging::say;

use crate::handles::{Communicator, Handles, MemberDied};
use crate::internals::{Internals, NONBLOCKING};
use crate::objects::Object;
use crate::property::{PROPERTIES, Property, SCOPE, UNIFORMITY};
use crate::scope::Scope;
use crate::statement::ERR_PROC_FAILED;
use crate::uniformity::Uniformity;
use crate::{dynamic, mended, module, openmpi, uniform};

/// Index of the key that every communicator shows.
const SHOWN: usize = 0;
/// See [`Handles::index`]: `MPI_COMM_WORLD`.
const WORLD: c_int = 0;
/// What a subscription reports where the key is absent; no program can set it, for MPI refuses an empty value.
const ABSENT: &CStr = c"";

/// The parameters of the properties.
static DEFAULTS: [AtomicI32; 2] = [const { AtomicI32::new(0) }; 2];
static COMMUNICATORS: OnceLock<Option<Communicators>> = OnceLock::new();
/// After `MPI_Init`: freed communicators can be told from others.
static INITIALISED: AtomicBool = AtomicBool::new(false);
/// In `MPI_Finalize`.
static FINALISING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// This thread makes the other spellings of a key agree with it.
    static ALIGNING: Cell<bool> = const { Cell::new(false) };
}

struct Communicators {
    mpi: Handles,
    next: Option<MemberDied>,
    /// The attributes with which `MPI_Comm_dup` hands properties on.
    attributes: [OnceLock<Option<c_int>>; 2],
    bad_values: [OnceLock<c_int>; 2],
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

/// What holds for a property of a communicator.
#[derive(Clone, Copy)]
struct Setting {
    value: c_int,
    /// Which of the spellings its info has, as a mask.
    spelled: u8,
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
        let next = mpi.as_ref()?.watch_members(member_died);
        let (attributes, bad_values) = Default::default();
        Some(Communicators { mpi: mpi?, next, attributes, bad_values, known: Mutex::default() })
    };
    let Some(all) = COMMUNICATORS.get_or_init(find) else { return std::ptr::null_mut() };
    all.add(Communicator::from_handle(handle));
    Internals::get().map_or(std::ptr::null_mut(), |mpi| module::of(mpi, handle))
}

/// A communicator has its collectives.
pub fn completed(handle: *mut c_void) {
    let Some(all) = COMMUNICATORS.get().and_then(Option::as_ref) else { return };
    if let Some(known) = all.known().get_mut(&Communicator::from_handle(handle)) {
        known.complete = true;
    }
    if INITIALISED.load(Ordering::Relaxed) {
        all.mend(Communicator::from_handle(handle));
    }
}

/// A communicator is being freed.
pub fn freed(handle: *mut c_void) {
    let Some(all) = COMMUNICATORS.get().and_then(Option::as_ref) else { return };
    uniform::forget(handle, INITIALISED.load(Ordering::Relaxed));
    all.known().remove(&Communicator::from_handle(handle));
}

/// End of `MPI_Init`.
pub fn initialised() {
    INITIALISED.store(true, Ordering::Relaxed);
    let Some(all) = present() else { return };
    let made: Vec<_> = all.known().keys().copied().collect();
    made.into_iter().for_each(|comm| all.mend(comm));
}

/// `MPI_Finalize` begins. It closes files that are still open with a barrier among those who have opened them
/// (common_ompio_file_open.c); where one of these is dead, others may have left it already, and MPI with it.
pub fn finalising() {
    FINALISING.store(true, Ordering::Relaxed);
    let Some(all) = present() else { return };
    let damaged: Vec<_> = all.known().iter().filter(|(_, known)| known.damaged).map(|(comm, _)| *comm).collect();
    damaged.into_iter().for_each(|comm| all.refuse_collectives(comm));
}

/// `MPI_Finalize` takes the library apart: nothing is interrupted any more.
pub fn closed() {
    INITIALISED.store(false, Ordering::Relaxed);
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
    let Some(all) = COMMUNICATORS.get().and_then(Option::as_ref) else { return };
    if let Some(next) = all.next {
        // SAFETY: what Open MPI would have called in our place, with its own arguments.
        unsafe { next(handle, rank, remote) };
    }
    let comm = Communicator::from_handle(handle);
    let _ = catch_unwind(|| {
        if let Some(all) = present() {
            // The first one that is told, and all ranks of the job are in it.
            if all.mpi.index(comm) == WORLD {
                crate::rank_died(rank as u32);
            }
            uniform::member_died(handle, rank, remote, all.next);
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
            Setting { value: if is_possible(which, value, comm) { value } else { 0 }, spelled: 1 << SHOWN }
        });
        let index = INITIALISED.load(Ordering::Relaxed).then(|| self.mpi.index(comm));
        self.known().insert(comm, Known { settings, complete: false, damaged: false, index });
        for key in PROPERTIES.iter().flat_map(|property| property.spellings) {
            self.mpi.subscribe(comm, key, ABSENT, key_changed);
        }
    }

    /// A key of the communicator's info has this value now; returns what it shall show.
    fn changed(&self, comm: Communicator, key: &CStr, value: &CStr) -> Option<&'static CStr> {
        let spelled = |property: &Property| property.spellings.iter().position(|known| *known == key);
        let which = PROPERTIES.iter().position(|property| spelled(property).is_some())?;
        let property = &PROPERTIES[which];
        let spelling = spelled(property)?;
        let setting = self.known().get(&comm)?.settings[which];
        let word = |value| property.words[value as usize];
        let shown = (setting.spelled & 1 << spelling != 0).then(|| word(setting.value));
        if value == ABSENT || ALIGNING.get() {
            return shown;
        }
        let Some(value) = (property.parse)(value).filter(|value| is_possible(which, *value, comm)) else {
            self.refuse(comm, which, key, value);
            return shown;
        };
        self.adopt(comm, which, value, spelling);
        Some(word(value))
    }

    fn adopt(&self, comm: Communicator, which: usize, value: c_int, spelling: usize) {
        let Known { settings, damaged, .. } = match self.known().get_mut(&comm) {
            None => return,
            Some(known) => {
                known.settings[which].value = value;
                known.settings[which].spelled |= 1 << spelling;
                *known
            }
        };
        let property = &PROPERTIES[which];
        ALIGNING.set(true);
        for (other, key) in property.spellings.iter().enumerate() {
            if other != spelling && settings[which].spelled & 1 << other != 0 {
                self.mpi.set_info(comm, key, property.words[value as usize]);
            }
        }
        ALIGNING.set(false);
        if let Some(attribute) = *self.attributes[which].get_or_init(|| self.mpi.inherited_attribute()) {
            self.mpi.set_attribute(comm, attribute, value);
        }
        if which == UNIFORMITY {
            self.equip(comm);
        } else if Scope::of(value) != Scope::Local && damaged {
            self.mpi.revoke(comm);
        }
    }

    /// A communicator is made.
    fn mend(&self, comm: Communicator) {
        if self.known().get(&comm).is_some_and(|known| known.complete) {
            dynamic::made(comm.handle());
            mended::make(comm.handle());
            self.equip(comm);
        }
    }

    /// Gives a communicator the functions that its uniformity asks for, once it is made.
    fn equip(&self, comm: Communicator) {
        let known = self.known().get(&comm).copied();
        if let Some(known) = known.filter(|known| known.complete && INITIALISED.load(Ordering::Relaxed)) {
            uniform::make(comm.handle(), known.uniformity());
        }
    }

    /// From now on blocking collectives of a communicator with a dead member fail at once.
    fn refuse_collectives(&self, comm: Communicator) {
        let known = self.known().get(&comm).copied();
        let lives = |known: Known| known.complete && known.index.is_none_or(|index| self.mpi.lives(comm, index));
        if let (Some(mpi), true) = (Internals::fitting(), known.is_some_and(lives)) {
            // SAFETY: the communicator lives and has its collectives.
            let table = unsafe { mpi.table(comm.handle()) };
            table[..NONBLOCKING].iter_mut().for_each(|slot| slot.function = refused as Object);
        }
    }

    fn refuse(&self, comm: Communicator, which: usize, key: &CStr, value: &CStr) {
        let refusal = PROPERTIES[which].refusal;
        let reason = refusal.to_string_lossy();
        say(&format!(
            "ringwatch: the info key {} cannot be '{}': {}",
            key.to_string_lossy(),
            value.to_string_lossy(),
            reason.trim_start_matches("MPI_ERR_INFO_VALUE: ")
        ));
        let code = *self.bad_values[which].get_or_init(|| self.mpi.info_value_error(refusal));
        self.mpi.raise(comm, code);
    }

    fn interrupt(&self, concerns: impl Fn(Scope, Communicator) -> bool) {
        let concerned: Vec<_> = self
            .known()
            .iter()
            .filter(|(comm, known)| concerns(known.scope(), **comm))
            .map(|(comm, known)| (*comm, known.index))
            .collect();
        for (comm, index) in concerned {
            if index.is_none_or(|index| self.mpi.lives(comm, index)) {
                self.mpi.revoke(comm);
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
    // Those of MPI_Init have one group, and become uniform at its end.
    let made_later = INITIALISED.load(Ordering::Relaxed);
    which != UNIFORMITY
        || Uniformity::of(value) == Uniformity::Local
        || !made_later
        || (uniform::is_possible() && !uniform::is_intercommunicator(comm.handle()))
}

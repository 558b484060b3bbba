//! The error scope of every communicator of this rank: where it comes from, and what a death does to it.
//!
//! Open MPI asks every collective component about every new communicator, and lets anybody subscribe to info keys; a
//! subscriber's answer is what `MPI_Comm_get_info` returns. So the keys work for every caller, in C, Fortran and Python,
//! without a place in front of any MPI function. `MPI_Comm_dup` hands the scope on in an attribute.
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
use crate::openmpi;
use crate::scope::{SPELLINGS, Scope};

/// Index of the key that every communicator shows.
const SHOWN: usize = 0;
/// What a subscription reports where the key is absent; no program can set it, for MPI refuses an empty value.
const ABSENT: &CStr = c"";

/// The parameter `coll_ringwatch_error_scope`.
static DEFAULT: AtomicI32 = AtomicI32::new(0);
static COMMUNICATORS: OnceLock<Option<Communicators>> = OnceLock::new();
/// After `MPI_Init`: freed communicators can be told from others.
static INITIALISED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// This thread makes the other spellings of a key agree with it.
    static ALIGNING: Cell<bool> = const { Cell::new(false) };
}

struct Communicators {
    mpi: Handles,
    next: Option<MemberDied>,
    /// The attribute with which `MPI_Comm_dup` hands a scope on.
    attribute: OnceLock<Option<c_int>>,
    bad_value: OnceLock<c_int>,
    known: Mutex<BTreeMap<Communicator, Known>>,
}

/// What is known about a communicator; the entry of one that was freed stays until its address is used again.
#[derive(Clone, Copy)]
struct Known {
    scope: Scope,
    /// Which of the spellings its info has, as a mask.
    spelled: u8,
    /// A member is dead.
    damaged: bool,
    /// See [`Handles::index`]; `None` for those of `MPI_Init`, which nobody can free.
    index: Option<c_int>,
}

/// Registers the parameter of the component.
pub fn register_parameter(component: *const c_void) {
    let values = Scope::ALL.map(|scope| (scope.value(), scope.word()));
    openmpi::register_choice(
        component,
        c"error_scope",
        c"Error scope of communicators whose info does not say otherwise: whose death interrupts their operations",
        &values,
        &DEFAULT,
    );
}

/// `comm_query` of the coll component: a communicator is being made; its members, attributes and info are in place.
pub fn created(handle: *mut c_void) {
    let find = || {
        let mpi = Handles::find();
        if mpi.is_none() {
            say("ringwatch: this Open MPI lacks a function for error scopes; every communicator has the scope local");
        }
        let next = mpi.as_ref()?.watch_members(member_died);
        let (attribute, bad_value, known) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        Some(Communicators { mpi: mpi?, next, attribute, bad_value, known })
    };
    if let Some(all) = COMMUNICATORS.get_or_init(find) {
        all.add(Communicator::from_handle(handle));
    }
}

/// End of `MPI_Init`.
pub fn initialised() {
    INITIALISED.store(true, Ordering::Relaxed);
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
            if let Some(known) = all.known().get_mut(&comm) {
                known.damaged = true;
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
        let inherited = self.attribute.get().copied().flatten().and_then(|key| self.mpi.attribute(comm, key));
        let scope = Scope::of(inherited.unwrap_or_else(|| DEFAULT.load(Ordering::Relaxed)));
        let index = INITIALISED.load(Ordering::Relaxed).then(|| self.mpi.index(comm));
        self.known().insert(comm, Known { scope, spelled: 1 << SHOWN, damaged: false, index });
        for key in SPELLINGS {
            self.mpi.subscribe(comm, key, ABSENT, key_changed);
        }
    }

    /// A key of the communicator's info has this value now; returns what it shall show.
    fn changed(&self, comm: Communicator, key: &CStr, value: &CStr) -> Option<&'static CStr> {
        let spelling = SPELLINGS.iter().position(|known| *known == key)?;
        let known = *self.known().get(&comm)?;
        let shown = (known.spelled & 1 << spelling != 0).then(|| known.scope.word());
        if value == ABSENT || ALIGNING.get() {
            return shown;
        }
        let Some(scope) = Scope::parse(value) else {
            self.refuse(comm, key, value);
            return shown;
        };
        self.adopt(comm, scope, spelling);
        Some(scope.word())
    }

    fn adopt(&self, comm: Communicator, scope: Scope, spelling: usize) {
        let Known { spelled, damaged, .. } = match self.known().get_mut(&comm) {
            None => return,
            Some(known) => {
                known.scope = scope;
                known.spelled |= 1 << spelling;
                *known
            }
        };
        ALIGNING.set(true);
        for (other, key) in SPELLINGS.iter().enumerate() {
            if other != spelling && spelled & 1 << other != 0 {
                self.mpi.set_info(comm, key, scope.word());
            }
        }
        ALIGNING.set(false);
        if let Some(attribute) = *self.attribute.get_or_init(|| self.mpi.inherited_attribute()) {
            self.mpi.set_attribute(comm, attribute, scope.value());
        }
        if scope != Scope::Local && damaged {
            self.mpi.revoke(comm);
        }
    }

    fn refuse(&self, comm: Communicator, key: &CStr, value: &CStr) {
        say(&format!(
            "ringwatch: the info key {} cannot be '{}': it is local, group or global; the communicator stays as it was",
            key.to_string_lossy(),
            value.to_string_lossy()
        ));
        let text = c"MPI_ERR_INFO_VALUE: an error scope is local, group or global; the communicator stays as it was";
        let code = *self.bad_value.get_or_init(|| self.mpi.info_value_error(text));
        self.mpi.raise(comm, code);
    }

    fn interrupt(&self, concerns: impl Fn(Scope, Communicator) -> bool) {
        let concerned: Vec<_> = self
            .known()
            .iter()
            .filter(|(comm, known)| concerns(known.scope, **comm))
            .map(|(comm, known)| (*comm, known.index))
            .collect();
        for (comm, index) in concerned {
            if index.is_none_or(|index| self.mpi.lives(comm, index)) {
                self.mpi.revoke(comm);
            }
        }
    }
}

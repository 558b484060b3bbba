//! Manages error scope and error uniformity of windows and files, and their state after a death.
//!
//! A window or a file consists of communicators ([`win_and_file`](crate::onesided::win_and_file)) with its scope and
//! uniformity: a death interrupts an operation that waits in one of them. The functions of
//! [`file`](crate::onesided::file) and [`window`](crate::onesided::window) replace Open MPI's from the beginning. For a
//! window whose waits cannot be left, they do so once a member is dead or the scope interrupts it.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

use platform::say::say;

use crate::cid::cid_hold;
use crate::in_front::guard;
use crate::onesided::sm_locks::Locks;
use crate::onesided::unwind::{self, Needs, Window};
use crate::properties::communicators::{self, Part};
use crate::properties::error_scope::Scope;
use crate::properties::error_uniformity::Uniformity;
use crate::properties::info_keys::{self, Setting};
use crate::properties::info_property::{self, PROPERTIES, SCOPE, UNIFORMITY};
use openmpi_internals::comm_api::Communicator;
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::{ERR_PROC_FAILED, ERR_REVOKED};
use openmpi_internals::loaded;
use openmpi_internals::object::Object;
use openmpi_internals::sync::lock;

/// The info key that makes fences of `osc/sm` wait in the kernel, where no death would reach them.
const BLOCKING_FENCE: &CStr = c"blocking_fence";

static OWNERS: Mutex<BTreeMap<usize, Arc<Owner>>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Window,
    File,
}

/// Our functions for a kind of object, and the place of Open MPI's.
pub struct Functions {
    pub kind: Kind,
    /// Offset in the object, in bytes.
    pub place: usize,
    /// Whether the address of the functions is there, and not the functions themselves.
    pub is_behind_address: bool,
    /// In Open MPI's order; null where its own function stays.
    pub all: fn() -> Vec<Object>,
}

/// A window or a file.
pub struct Owner {
    kind: Kind,
    functions: &'static Functions,
    object: usize,
    /// The parent communicator.
    comm: usize,
    state: Mutex<State>,
}

struct State {
    settings: [Setting; 2],
    parts: Vec<Part>,
    /// Ranks of dead members.
    dead: Vec<c_int>,
    /// Open MPI's functions, after ours have replaced them.
    stock: Vec<usize>,
    /// The locks of a window whose hopeless waits can be left.
    locks: Option<Locks>,
    /// Whether a wait has been left.
    is_broken: bool,
}

/// Registers a window or a file that is being made and has its info.
pub fn created(functions: &'static Functions, object: Object, comm: Object) {
    let kind = functions.kind;
    let settings = communicators::values(comm).map(Setting::new);
    let state =
        State { settings, parts: Vec::new(), dead: Vec::new(), stock: Vec::new(), locks: None, is_broken: false };
    let owner = Owner { kind, functions, object: object as usize, comm: comm as usize, state: Mutex::new(state) };
    lock(&OWNERS).insert(object as usize, Arc::new(owner));
    if let Some(mpi) = communicators::handles() {
        let object = Communicator::from_handle(object);
        info_keys::subscribe(mpi, object, key_changed);
        if kind == Kind::Window {
            info_keys::take_out(mpi, object, BLOCKING_FENCE);
        }
    }
}

/// Completes an object that consists of these communicators. With `locks`, hopeless waits in a window can be left.
pub fn completed(object: Object, parts: Vec<Part>, locks: Option<Locks>) {
    let Some(owner) = find(object) else { return };
    let settings = {
        let mut state = lock(&owner.state);
        state.parts = parts.clone();
        state.locks = locks;
        state.settings
    };
    // These died after the members had agreed on the object. Open MPI reports later deaths, possibly during this call.
    if let Some((mpi, part)) = Internals::get().zip(parts.first()) {
        let dead = mpi.dead_members(part.comm.handle());
        lock(&owner.state).dead.extend(dead);
    }
    for part in &parts {
        [UNIFORMITY, SCOPE].into_iter().for_each(|which| part.set(which, settings[which].value));
    }
    if locks.is_some() || owner.kind == Kind::File || owner.is_damaged() {
        owner.replace_functions();
    }
}

/// Forgets an object that is being freed, or whose constructor has failed.
pub fn forget(object: Object) {
    lock(&OWNERS).remove(&(object as usize));
}

/// Handles a communicator that is being freed. An object is forgotten with its last communicator.
pub fn part_freed(comm: Communicator) {
    lock(&OWNERS).retain(|_, owner| {
        let parts = &mut lock(&owner.state).parts;
        let was_made = !parts.is_empty();
        parts.retain(|part| part.comm != comm);
        !was_made || !parts.is_empty()
    });
}

/// The owner of an object of Open MPI.
pub fn find(object: Object) -> Option<Arc<Owner>> {
    lock(&OWNERS).get(&(object as usize)).cloned()
}

fn find_by_part(comm: Communicator) -> Option<Arc<Owner>> {
    // Open MPI has freed it. It is held for its context id only, and its object no longer exists.
    if cid_hold::is_abandoned(comm.handle()) {
        return None;
    }
    lock(&OWNERS).values().find(|owner| owner.has(comm)).cloned()
}

/// Handles the death of a communicator's member.
pub fn member_died(comm: Communicator, rank: c_int) {
    let Some(owner) = find_by_part(comm) else { return };
    unwind::note_damage();
    lock(&owner.state).dead.push(rank);
    owner.replace_functions();
    // A file's communicators carry only collective operations of all members, none of which can complete.
    if owner.kind == Kind::File {
        owner.parts().iter().for_each(Part::revoke);
    }
}

/// Handles the interruption of a communicator.
pub fn interrupted(comm: Communicator) {
    if let Some(owner) = find_by_part(comm) {
        // A wait in it is left, although all members may be alive.
        unwind::note_damage();
        owner.replace_functions();
    }
}

unsafe extern "C" fn key_changed(object: Object, key: *const c_char, value: *const c_char) -> *const c_char {
    // SAFETY: Open MPI passes terminated strings.
    let (key, value) = unsafe { (CStr::from_ptr(key), CStr::from_ptr(value)) };
    guard(None, || find(object)?.changed(key, value)).map_or(std::ptr::null(), CStr::as_ptr)
}

impl State {
    /// Whether one of its communicators is revoked.
    fn has_revoked(&self, mpi: &Internals) -> bool {
        // SAFETY: a part lives as long as its owner.
        self.parts.iter().any(|part| unsafe { mpi.is_revoked(part.comm.handle()) })
    }
}

impl Window for Owner {
    fn is_refused(&self, needs: Needs) -> bool {
        self.refusal(needs).is_some()
    }

    fn can_be_left(&self) -> bool {
        self.locks().is_some()
    }
}

impl Owner {
    /// Handles a new value of an info key; returns the value to show.
    fn changed(&self, key: &CStr, value: &CStr) -> Option<&'static CStr> {
        let (which, spelling) = info_property::of_key(key)?;
        let shown = lock(&self.state).settings[which].shown(which, spelling);
        if !info_keys::is_given(value) {
            return shown;
        }
        let Some(value) = (PROPERTIES[which].parse)(value) else {
            self.refuse(which, key, value);
            return shown;
        };
        let (parts, setting) = {
            let mut state = lock(&self.state);
            state.settings[which].take(value, spelling);
            (state.parts.clone(), state.settings[which])
        };
        setting.align(communicators::handles()?, Communicator::from_handle(self.object as Object), which, spelling);
        parts.iter().for_each(|part| part.set(which, value));
        Some(PROPERTIES[which].words[value as usize])
    }

    fn refuse(&self, which: usize, key: &CStr, value: &CStr) {
        say(&info_property::refusal(which, key, value));
        let Some(mpi) = communicators::handles() else { return };
        let code = info_keys::bad_value(mpi, which);
        let is_made = !lock(&self.state).parts.is_empty();
        match self.kind {
            // A window that is being made has no error handler of its own.
            Kind::Window if !is_made => mpi.raise(Communicator::from_handle(self.comm as Object), code),
            Kind::Window => loaded::raise(c"PMPI_Win_call_errhandler", self.object as Object, code),
            Kind::File => loaded::raise(c"PMPI_File_call_errhandler", self.object as Object, code),
        }
    }

    fn has(&self, comm: Communicator) -> bool {
        lock(&self.state).parts.iter().any(|part| part.comm == comm)
    }

    /// The communicators of the object.
    pub fn parts(&self) -> Vec<Part> {
        lock(&self.state).parts.clone()
    }

    /// Its first communicator, the duplicate of the program's.
    pub fn main_part(&self) -> Option<Object> {
        lock(&self.state).parts.first().map(|part| part.comm.handle())
    }

    /// Whether the members agree on all collective operations.
    pub fn is_uniform(&self) -> bool {
        Uniformity::from_value(lock(&self.state).settings[UNIFORMITY].value) == Uniformity::Coll
    }

    /// Whether a member is dead.
    pub fn is_damaged(&self) -> bool {
        !lock(&self.state).dead.is_empty()
    }

    /// The locks that a window holds in its node's memory and in its threads.
    pub fn locks(&self) -> Option<Locks> {
        lock(&self.state).locks
    }

    /// Whether this member is dead.
    pub fn has_lost(&self, rank: c_int) -> bool {
        lock(&self.state).dead.contains(&rank)
    }

    /// Marks the object as broken after a function of Open MPI was left: it cannot be used again.
    pub fn give_up(&self) {
        lock(&self.state).is_broken = true;
        if let Some(locks) = self.locks() {
            locks.give_back();
        }
    }

    /// The function that Open MPI chose for a slot.
    pub fn stock_function(&self, slot: usize) -> Object {
        lock(&self.state).stock[slot] as Object
    }

    /// The class with which an operation fails at once, if it cannot succeed.
    pub fn refusal(&self, needs: Needs) -> Option<c_int> {
        let mpi = Internals::get()?;
        if self.is_interrupted(mpi) {
            return Some(ERR_REVOKED);
        }
        let state = lock(&self.state);
        let fails = match needs {
            _ if state.is_broken => true,
            Needs::Nobody => false,
            // With scope local a member that knows of a death revokes a file's communicators.
            Needs::Everybody => !state.dead.is_empty() || state.has_revoked(mpi),
            Needs::Rank(rank) => state.dead.contains(&rank),
            _ if state.dead.is_empty() => false,
            Needs::Group(group) => {
                let whole = state.parts.first().map(|part| part.comm.handle());
                whole.is_some_and(|whole| mpi.group_has_any(group, whole, &state.dead))
            }
        };
        fails.then_some(ERR_PROC_FAILED)
    }

    fn is_local(&self) -> bool {
        Scope::from_value(lock(&self.state).settings[SCOPE].value) == Scope::Local
    }

    /// Whether its scope has interrupted it.
    fn is_interrupted(&self, mpi: &Internals) -> bool {
        !self.is_local() && lock(&self.state).has_revoked(mpi)
    }

    /// The class of an operation that ended with this one in its communicators.
    pub fn own_class(&self, code: c_int) -> c_int {
        if code == ERR_REVOKED && self.is_local() { ERR_PROC_FAILED } else { code }
    }

    /// Replaces Open MPI's functions by ours.
    fn replace_functions(&self) {
        let functions = (self.functions.all)();
        let mut state = lock(&self.state);
        // SAFETY: a live object that has its functions.
        let Some(table) = (unsafe { self.table(functions.len()) }).filter(|_| state.stock.is_empty()) else { return };
        state.stock = table.iter().map(|entry| entry.load(Ordering::Relaxed) as usize).collect();
        for (entry, function) in table.iter().zip(functions) {
            if !entry.load(Ordering::Relaxed).is_null() && !function.is_null() {
                entry.store(function.cast(), Ordering::Release);
            }
        }
    }

    /// # Safety
    /// A live object that has its functions.
    unsafe fn table<'a>(&self, length: usize) -> Option<&'a [AtomicPtr<std::ffi::c_void>]> {
        // SAFETY: as required of the caller; the offsets were checked when the first object was made.
        unsafe {
            let place = (self.object as Object).byte_add(self.functions.place);
            let first = if self.functions.is_behind_address { place.cast::<Object>().read() } else { place };
            (!first.is_null()).then(|| std::slice::from_raw_parts(first.cast(), length))
        }
    }
}

//! Windows and files: their error scope and uniformity, and what a death does to them.
//!
//! They consist of communicators ([`construction`](crate::construction)), on which their scope and uniformity hold: a
//! death reaches an operation that waits in one of these. Functions of [`onesided`](crate::onesided) stand
//! before those of a window, from the beginning or, where nobody who waits could leave, once a member is dead or the scope
//! interrupts it; before those of a file stand those of [`storage`](crate::storage).

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

use rdma_heartbeat::logging::say;

use crate::communicators::{self, Part};
use crate::handles::Communicator;
use crate::internals::Internals;
use crate::keys::{self, Setting};
use crate::line::lock;
use crate::locks::Locks;
use crate::objects::Object;
use crate::property::{self, PROPERTIES, SCOPE, UNIFORMITY};
use crate::scope::Scope;
use crate::statement::{ERR_PROC_FAILED, ERR_REVOKED};
use crate::uniformity::Uniformity;
use crate::{calls, numbers, onesided, openmpi, storage};

/// The key with which `osc/sm` has fences wait in the kernel, where no death would reach them.
const BLOCKING_FENCE: &CStr = c"blocking_fence";

static OWNERS: Mutex<BTreeMap<usize, Arc<Owner>>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Window,
    File,
}

/// A window or a file.
pub struct Owner {
    kind: Kind,
    object: usize,
    /// The communicator that it is made from.
    comm: usize,
    state: Mutex<State>,
}

struct State {
    settings: [Setting; 2],
    parts: Vec<Part>,
    /// Ranks of the dead.
    dead: Vec<c_int>,
    /// The functions that Open MPI chose, once others stand in their place.
    stock: Vec<usize>,
    /// The locks of a window in which a hopeless wait can be left.
    locks: Option<Locks>,
    /// That was done.
    is_broken: bool,
}

/// Without whom an operation cannot complete.
#[derive(Clone, Copy)]
pub enum Needs {
    Nobody,
    Rank(c_int),
    /// A group of members.
    Group(Object),
    Everybody,
}

/// A window or a file is being made; its info is in place.
pub fn created(kind: Kind, object: Object, comm: Object) {
    let settings = communicators::values(comm).map(Setting::new);
    let state =
        State { settings, parts: Vec::new(), dead: Vec::new(), stock: Vec::new(), locks: None, is_broken: false };
    let owner = Owner { kind, object: object as usize, comm: comm as usize, state: Mutex::new(state) };
    lock(&OWNERS).insert(object as usize, Arc::new(owner));
    if let Some(mpi) = communicators::handles() {
        let object = Communicator::from_handle(object);
        keys::subscribe(mpi, object, key_changed);
        if kind == Kind::Window {
            keys::take_out(mpi, object, BLOCKING_FENCE);
        }
    }
}

/// It consists of these communicators. If a window has `locks`, hopeless waits in it can be left.
pub fn completed(object: Object, parts: Vec<Part>, locks: Option<Locks>) {
    let Some(owner) = of(object) else { return };
    let settings = {
        let mut state = lock(&owner.state);
        state.parts = parts.clone();
        state.locks = locks;
        state.settings
    };
    // Who died since the members have agreed on the object. Of later deaths Open MPI tells, which may do so while it is asked.
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

/// It is being freed, or could not be made.
pub fn forget(object: Object) {
    lock(&OWNERS).remove(&(object as usize));
}

/// A communicator is being freed; with the last one goes what consisted of it.
pub fn part_freed(comm: Communicator) {
    lock(&OWNERS).retain(|_, owner| {
        let parts = &mut lock(&owner.state).parts;
        let was_made = !parts.is_empty();
        parts.retain(|part| part.comm != comm);
        !was_made || !parts.is_empty()
    });
}

/// The owner of an object of Open MPI.
pub fn of(object: Object) -> Option<Arc<Owner>> {
    lock(&OWNERS).get(&(object as usize)).cloned()
}

fn of_part(comm: Communicator) -> Option<Arc<Owner>> {
    // One that Open MPI has freed is held for its number only: what consisted of it is gone.
    if numbers::is_abandoned(comm.handle()) {
        return None;
    }
    lock(&OWNERS).values().find(|owner| owner.has(comm)).cloned()
}

/// A member of a communicator is dead.
pub fn member_died(comm: Communicator, rank: c_int) {
    let Some(owner) = of_part(comm) else { return };
    calls::begin();
    lock(&owner.state).dead.push(rank);
    owner.replace_functions();
    // Its communicators carry nothing but what all members of the file do together, none of which can complete.
    if owner.kind == Kind::File {
        owner.parts().iter().for_each(Part::revoke);
    }
}

/// A communicator was interrupted.
pub fn interrupted(comm: Communicator) {
    if let Some(owner) = of_part(comm) {
        // Who waits in it is left, although all of its members may live.
        calls::begin();
        owner.replace_functions();
    }
}

unsafe extern "C" fn key_changed(object: Object, key: *const c_char, value: *const c_char) -> *const c_char {
    // SAFETY: Open MPI passes terminated strings.
    let (key, value) = unsafe { (CStr::from_ptr(key), CStr::from_ptr(value)) };
    let answer = catch_unwind(AssertUnwindSafe(|| of(object)?.changed(key, value)));
    answer.ok().flatten().map_or(std::ptr::null(), CStr::as_ptr)
}

impl State {
    /// One of its communicators is revoked.
    fn has_revoked(&self, mpi: &Internals) -> bool {
        // SAFETY: a part lives as long as its owner.
        self.parts.iter().any(|part| unsafe { mpi.is_revoked(part.comm.handle()) })
    }
}

impl Owner {
    /// A key of the info has this value now; returns what it shall show.
    fn changed(&self, key: &CStr, value: &CStr) -> Option<&'static CStr> {
        let (which, spelling) = property::of_key(key)?;
        let shown = lock(&self.state).settings[which].shown(which, spelling);
        if !keys::is_given(value) {
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
        say(&property::refusal(which, key, value));
        let Some(mpi) = communicators::handles() else { return };
        let code = keys::bad_value(mpi, which);
        let is_made = !lock(&self.state).parts.is_empty();
        match self.kind {
            // A window that is being made has no error handler of its own yet.
            Kind::Window if !is_made => mpi.raise(Communicator::from_handle(self.comm as Object), code),
            Kind::Window => openmpi::raise(c"PMPI_Win_call_errhandler", self.object as Object, code),
            Kind::File => openmpi::raise(c"PMPI_File_call_errhandler", self.object as Object, code),
        }
    }

    fn has(&self, comm: Communicator) -> bool {
        lock(&self.state).parts.iter().any(|part| part.comm == comm)
    }

    /// The communicators of which it consists.
    pub fn parts(&self) -> Vec<Part> {
        lock(&self.state).parts.clone()
    }

    /// Its first communicator, the duplicate of the program's.
    pub fn main_part(&self) -> Option<Object> {
        lock(&self.state).parts.first().map(|part| part.comm.handle())
    }

    /// Whether the members agree on all that they do together.
    pub fn is_uniform(&self) -> bool {
        Uniformity::of(lock(&self.state).settings[UNIFORMITY].value) == Uniformity::Coll
    }

    /// A member is dead.
    pub fn is_damaged(&self) -> bool {
        !lock(&self.state).dead.is_empty()
    }

    /// Whether a hopeless wait in a function of Open MPI can be left.
    pub fn can_be_left(&self) -> bool {
        self.locks().is_some()
    }

    /// What a window holds back in the memory of its node, and in its threads.
    pub fn locks(&self) -> Option<Locks> {
        lock(&self.state).locks
    }

    /// Whether this member is dead.
    pub fn has_lost(&self, rank: c_int) -> bool {
        lock(&self.state).dead.contains(&rank)
    }

    /// A function of Open MPI was left in the middle: nothing can be done with it any more.
    pub fn give_up(&self) {
        lock(&self.state).is_broken = true;
        if let Some(locks) = self.locks() {
            locks.give_back();
        }
    }

    /// The function that Open MPI chose.
    pub fn stock_function(&self, slot: usize) -> Object {
        lock(&self.state).stock[slot] as Object
    }

    /// The class with which an operation ends at once, if it does.
    pub fn refusal(&self, needs: Needs) -> Option<c_int> {
        let mpi = Internals::get()?;
        if self.is_interrupted(mpi) {
            return Some(ERR_REVOKED);
        }
        let state = lock(&self.state);
        let fails = match needs {
            _ if state.is_broken => true,
            Needs::Nobody => false,
            // Under the scope local a file's communicators are revoked by a member that knows of a death already.
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
        Scope::of(lock(&self.state).settings[SCOPE].value) == Scope::Local
    }

    /// Its scope has it interrupted.
    fn is_interrupted(&self, mpi: &Internals) -> bool {
        !self.is_local() && lock(&self.state).has_revoked(mpi)
    }

    /// The class of an operation that has ended with this one in its communicators.
    pub fn own_class(&self, code: c_int) -> c_int {
        if code == ERR_REVOKED && self.is_local() { ERR_PROC_FAILED } else { code }
    }

    /// Puts the functions of ours in place.
    fn replace_functions(&self) {
        let functions = match self.kind {
            Kind::Window => onesided::functions(),
            Kind::File => storage::functions(),
        };
        let mut state = lock(&self.state);
        // SAFETY: an object that lives and has its functions.
        let Some(table) = (unsafe { self.table(functions.len()) }).filter(|_| state.stock.is_empty()) else { return };
        state.stock = table.iter().map(|entry| entry.load(Ordering::Relaxed) as usize).collect();
        for (entry, function) in table.iter().zip(functions) {
            if !entry.load(Ordering::Relaxed).is_null() && !function.is_null() {
                entry.store(function.cast(), Ordering::Release);
            }
        }
    }

    /// # Safety
    /// An object that lives and has its functions.
    unsafe fn table<'a>(&self, length: usize) -> Option<&'a [AtomicPtr<std::ffi::c_void>]> {
        // SAFETY: as required of the caller; the places were compared when the first object was made.
        unsafe {
            let first = match self.kind {
                Kind::Window => (self.object as Object).byte_add(onesided::MODULE).cast::<Object>().read(),
                Kind::File => (self.object as Object).byte_add(storage::MODULE),
            };
            (!first.is_null()).then(|| std::slice::from_raw_parts(first.cast(), length))
        }
    }
}

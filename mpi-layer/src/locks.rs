//! Locks within windows that nobody would give back: those that a killed process held in the memory of its node, and those
//! of threads whose call was [left](crate::calls).
//!
//! Open MPI's `osc/sm` takes a lock for each accumulate and its kin, in memory that the members share, and waits for it
//! without a turn of the progress loop. Here a word that has the rank of its holder is taken first: who waits for that turns
//! the loop, and takes it over from the dead. What these were accumulating into may be half done then, as MPI has it.
//!
//! The words lie where `osc/sm` has a mutex and a condition for fences that wait in the kernel, which is not done here
//! ([`owners`](crate::owners)).
//!
//! Offsets are those of osc_sm.h and osc_rdma.h on x86-64.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::internals::Internals;
use crate::objects::Object;

/// Of `ompi_osc_sm_module_t`: what all members share, and what each has there.
const SEGMENT: usize = 0x1120;
const GLOBAL: usize = 0x1168;
const OWN_STATE: usize = 0x1170;
const STATES: usize = 0x1178;
const SHARED_LOCK: usize = 0x1198;
/// Of `ompi_osc_sm_node_state_t`: its size, and the lock for accumulates.
const STATE_SIZE: usize = 20;
const ACCUMULATE: usize = 16;
/// Of `ompi_osc_sm_global_state_t`: a mutex and a condition.
const WORDS: usize = 8;
const WORD_COUNT: c_int = 22;
/// Of `ompi_osc_rdma_module_t`: its window, its locks, and how it keeps those of the program.
const WINDOW: usize = 0xe8;
const ASKING_LOCK: usize = 0x100;
const MODE: usize = 0x130;
const PEERS_LOCK: usize = 0x400;
/// `OMPI_OSC_RDMA_LOCKING_TWO_LEVEL`: no thread holds a lock of a peer while it waits for another process.
const TWO_LEVEL: c_int = 0;
/// Of a `pthread_mutex_t`, in `int`s: the thread that holds it.
const HOLDER: usize = 2;

/// Open MPI's components for windows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// `osc/rdma`
    Asking,
    /// `osc/sm`
    Sharing,
}

/// The locks of a window.
#[derive(Clone, Copy)]
pub struct Locks {
    component: Component,
    module: usize,
    /// Who takes words, and for how many members, if these share memory.
    rank: c_int,
    size: c_int,
}

impl Locks {
    /// Those of a window that has just been made of this communicator, before anybody uses it; `None` if they are not where
    /// they are expected.
    ///
    /// # Safety
    /// The module is that of the window, of this component, and lives as long as the result is used.
    pub unsafe fn of(
        component: Component,
        window: Object,
        module: Object,
        mpi: &Internals,
        comm: Object,
    ) -> Option<Self> {
        let locks = Self { component, module: module as usize, rank: mpi.rank_in(comm), size: mpi.size_of(comm) };
        let word = |at: usize| {
            // SAFETY: as required of the caller.
            unsafe { module.byte_add(at).cast::<usize>().read() }
        };
        match component {
            Component::Asking if word(WINDOW) == window as usize => {
                // SAFETY: as required of the caller. All members do so.
                unsafe { module.byte_add(MODE).cast::<c_int>().write(TWO_LEVEL) };
                Some(locks)
            }
            Component::Sharing => {
                let own = word(STATES) + locks.rank as usize * STATE_SIZE;
                (word(OWN_STATE) == own).then_some(locks)
            }
            Component::Asking => None,
        }
    }

    /// Takes what an accumulate at this member needs. Waits with `turn`, which may end the wait with a class.
    pub fn hold(
        &self,
        target: c_int,
        is_dead: impl Fn(c_int) -> bool,
        mut turn: impl FnMut() -> Option<c_int>,
    ) -> Result<Option<Held<'_>>, c_int> {
        let Some(word) = self.word(target) else { return Ok(None) };
        loop {
            let Err(holder) = word.compare_exchange(0, self.rank + 1, Ordering::AcqRel, Ordering::Acquire) else {
                return Ok(Some(Held(word)));
            };
            let is_left = holder > 0 && is_dead(holder - 1);
            if is_left && word.compare_exchange(holder, self.rank + 1, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                self.give_back_for_the_dead(target);
                return Ok(Some(Held(word)));
            }
            if let Some(class) = turn() {
                return Err(class);
            }
        }
    }

    /// The word for a member, which some have in common.
    fn word(&self, target: c_int) -> Option<&AtomicI32> {
        if self.component != Component::Sharing || !(0..self.size).contains(&target) {
            return None;
        }
        // SAFETY: the module lives, and where it has a segment the words lie in that.
        unsafe {
            let module = self.module as Object;
            if module.byte_add(SEGMENT).cast::<Object>().read().is_null() {
                return None;
            }
            let global = module.byte_add(GLOBAL).cast::<Object>().read();
            Some(AtomicI32::from_ptr(global.byte_add(WORDS).cast::<i32>().add((target % WORD_COUNT) as usize)))
        }
    }

    /// Open MPI's own locks below a word: all who take one of these have the word.
    fn give_back_for_the_dead(&self, target: c_int) {
        for member in (target % WORD_COUNT..self.size).step_by(WORD_COUNT as usize) {
            // SAFETY: as above; each member has a state.
            unsafe {
                let states = (self.module as Object).byte_add(STATES).cast::<Object>().read();
                let state = states.byte_add(member as usize * STATE_SIZE + ACCUMULATE);
                AtomicI32::from_ptr(state.cast()).store(0, Ordering::Release);
            }
        }
    }

    /// A call of this thread was left: gives back what it held, for which other threads wait in the kernel.
    pub fn give_back(&self) {
        let places: &[usize] = match self.component {
            Component::Asking => &[ASKING_LOCK, PEERS_LOCK],
            Component::Sharing => &[SHARED_LOCK],
        };
        for place in places {
            // SAFETY: the module lives and has a mutex there; only its holder gives it back.
            unsafe {
                let mutex = (self.module as Object).byte_add(*place).cast::<libc::pthread_mutex_t>();
                let holder = AtomicI32::from_ptr(mutex.cast::<i32>().add(HOLDER));
                // One of them may be held several times by the same thread.
                while holder.load(Ordering::Relaxed) == libc::gettid() && libc::pthread_mutex_unlock(mutex) == 0 {}
            }
        }
    }
}

/// What an accumulate holds.
pub struct Held<'a>(&'a AtomicI32);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

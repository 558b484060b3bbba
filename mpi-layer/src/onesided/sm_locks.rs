//! Releases locks of windows whose holder is gone: those that a killed process held in its node's memory, and those of
//! threads whose call was [left](crate::onesided::unwind).
//!
//! Open MPI's `osc/sm` takes a lock in shared memory for each accumulate and similar operation, and waits for it
//! without turning the progress loop. ringwatch takes a word with its holder's rank first: a waiting member turns the
//! loop, and takes the word over from a dead holder. The target of a dead process's accumulate may then be partly
//! updated, as MPI permits.
//!
//! The words are at the place where `osc/sm` has a mutex and a condition variable for fences that wait in the kernel.
//! ringwatch disables those ([`owner`](crate::onesided::owner)).

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use openmpi_internals::communicator::Internals;
use openmpi_internals::layout::{osc_rdma, osc_sm, osc_sm_global_state, osc_sm_node_state};
use openmpi_internals::object::Object;

/// Number of words in place of the mutex and the condition variable.
const WORD_COUNT: c_int = ((osc_sm_global_state::SENSE - osc_sm_global_state::MTX) / size_of::<i32>()) as c_int;
/// Index of the holder's thread id in a `pthread_mutex_t`, in `int`s.
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
    /// The rank that takes words, and the number of members, if they share memory.
    rank: c_int,
    size: c_int,
}

impl Locks {
    /// The locks of a window that was just made from this communicator and is not used yet; `None` if they are not at
    /// the expected place.
    ///
    /// # Safety
    /// The module of the window, of this component; it lives as long as the result is used.
    pub unsafe fn find(
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
            Component::Asking if word(osc_rdma::WIN) == window as usize => {
                // In this mode no thread holds a lock of a peer while it waits for another process.
                // SAFETY: as required of the caller. All members set it.
                unsafe {
                    module
                        .byte_add(osc_rdma::LOCKING_MODE)
                        .cast::<c_int>()
                        .write(osc_rdma::OMPI_OSC_RDMA_LOCKING_TWO_LEVEL)
                };
                Some(locks)
            }
            Component::Sharing => {
                let own = word(osc_sm::NODE_STATES) + locks.rank as usize * osc_sm_node_state::SIZE;
                (word(osc_sm::MY_NODE_STATE) == own).then_some(locks)
            }
            Component::Asking => None,
        }
    }

    /// Takes the word for an accumulate at this member. Waits with `turn`, which may end the wait with a class.
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

    /// The word for a member. Several members share one.
    fn word(&self, target: c_int) -> Option<&AtomicI32> {
        if self.component != Component::Sharing || !(0..self.size).contains(&target) {
            return None;
        }
        // SAFETY: the module is live; the words are in its segment, if it has one.
        unsafe {
            let module = self.module as Object;
            if module.byte_add(osc_sm::SEGMENT_BASE).cast::<Object>().read().is_null() {
                return None;
            }
            let global = module.byte_add(osc_sm::GLOBAL_STATE).cast::<Object>().read();
            Some(AtomicI32::from_ptr(
                global.byte_add(osc_sm_global_state::MTX).cast::<i32>().add((target % WORD_COUNT) as usize),
            ))
        }
    }

    /// Releases Open MPI's own locks below a word: only a holder of the word takes one of them.
    fn give_back_for_the_dead(&self, target: c_int) {
        for member in (target % WORD_COUNT..self.size).step_by(WORD_COUNT as usize) {
            // SAFETY: as above; each member has a state.
            unsafe {
                let states = (self.module as Object).byte_add(osc_sm::NODE_STATES).cast::<Object>().read();
                let state =
                    states.byte_add(member as usize * osc_sm_node_state::SIZE + osc_sm_node_state::ACCUMULATE_LOCK);
                AtomicI32::from_ptr(state.cast()).store(0, Ordering::Release);
            }
        }
    }

    /// Releases the locks of a call of this thread that was left: other threads wait for them in the kernel.
    pub fn give_back(&self) {
        let places: &[usize] = match self.component {
            Component::Asking => &[osc_rdma::LOCK, osc_rdma::PEER_LOCK],
            Component::Sharing => &[osc_sm::LOCK],
        };
        for place in places {
            // SAFETY: the module is live and has a mutex there; only its holder releases it.
            unsafe {
                let mutex = (self.module as Object).byte_add(*place).cast::<libc::pthread_mutex_t>();
                let holder = AtomicI32::from_ptr(mutex.cast::<i32>().add(HOLDER));
                // A thread may hold one of them several times.
                while holder.load(Ordering::Relaxed) == libc::gettid() && libc::pthread_mutex_unlock(mutex) == 0 {}
            }
        }
    }
}

/// The word held during an accumulate.
pub struct Held<'a>(&'a AtomicI32);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

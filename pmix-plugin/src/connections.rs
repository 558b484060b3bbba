//! Processes of several jobs wait in the runtime until all of them have come (`PMIx_Connect`, on which `MPI_Comm_spawn`
//! ends): whoever waits for the dead is told so, and does not wait for ever.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard};

use rdma_heartbeat::segment::Entry;

use crate::job::Job;

/// `PMIX_ERR_PROC_TERM_WO_SYNC`: one of the processes has ended.
const TERM_WITHOUT_SYNC: c_int = -200;
/// `PMIX_RANK_WILDCARD`: all processes of the namespace.
const EVERY_RANK: u32 = u32::MAX - 1;

/// `pmix_proc_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Process {
    nspace: [c_char; 256],
    rank: u32,
}

/// `pmix_op_cbfunc_t`
pub type Tell = unsafe extern "C" fn(c_int, *mut c_void);

/// Processes of this node that wait for others.
struct Waiting {
    id: usize,
    awaited: Vec<Process>,
    tell: Tell,
    data: usize,
}

static WAITING: Mutex<Vec<Waiting>> = Mutex::new(Vec::new());

/// All processes of this node that take part have come, and the others are waited for.
pub fn begin(id: usize, awaited: &[Process], tell: Tell, data: *mut c_void) {
    waiting().push(Waiting { id, awaited: awaited.to_vec(), tell, data: data as usize });
}

/// The runtime has come to an end of it; false if the processes have been told before.
pub fn end(id: usize) -> bool {
    let mut waiting = waiting();
    let index = waiting.iter().position(|one| one.id == id);
    index.map(|index| waiting.swap_remove(index)).is_some()
}

/// Whether one of these processes is known to be dead.
pub fn has_dead(job: &Job, processes: &[Process]) -> bool {
    let entries = (0..job.segment.len()).filter_map(|index| job.segment.entry(index));
    let mut names =
        entries.filter_map(|entry| if let Entry::Rank(rank) = entry { job.jobs.name_of(rank) } else { None });
    names.any(|(nspace, rank)| processes.iter().any(|process| process.is(&nspace, rank)))
}

/// Tells those who wait for one of the dead.
pub fn look(job: &Job) {
    // Not under the lock, which the runtime may want meanwhile.
    let told: Vec<Waiting> = {
        let mut waiting = waiting();
        let dead = |one: &Waiting| has_dead(job, &one.awaited);
        let (told, others) = std::mem::take(&mut *waiting).into_iter().partition(dead);
        *waiting = others;
        told
    };
    for one in told {
        // SAFETY: PMIx's own function with its own argument, once; it takes the call from any thread.
        unsafe { (one.tell)(TERM_WITHOUT_SYNC, one.data as *mut c_void) };
    }
}

impl Process {
    fn is(&self, nspace: &CStr, rank: u32) -> bool {
        // SAFETY: bytes are looked at as bytes.
        let bytes: &[u8; 256] = unsafe { &*(&raw const self.nspace).cast() };
        let same = CStr::from_bytes_until_nul(bytes).is_ok_and(|own| own == nspace);
        same && (self.rank == rank || self.rank == EVERY_RANK)
    }
}

fn waiting() -> MutexGuard<'static, Vec<Waiting>> {
    WAITING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

//! Processes of several jobs wait in the runtime for the word of one (`PMIx_Lookup`), and until all of them have come
//! (`PMIx_Connect`): on both `MPI_Comm_spawn` is built. Whoever waits for the dead is told so, and does not wait for ever.
//!
//! A node may be asked to connect processes with a job that it is yet to hear of: the ranks' messages and the runtime's
//! come over different connections, of which one may have to send again. PRRTE 3.0.8 drops such a call
//! (`prte_grpcomm_base_get_tracker`), and everybody would wait for ever. So it is postponed.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard};

use rdma_heartbeat::postponed::Postponed;
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
pub type TellConnected = unsafe extern "C" fn(c_int, *mut c_void);
/// `pmix_lookup_cbfunc_t`
pub type TellFound = unsafe extern "C" fn(c_int, *mut c_void, usize, *mut c_void);

/// PMIx's function for the answer to those who wait.
#[derive(Clone, Copy)]
pub enum Tell {
    /// Of `PMIx_Connect`.
    Connected(TellConnected),
    /// Of `PMIx_Lookup`.
    Found(TellFound),
}

/// Processes of this node that wait for others.
struct Waiting {
    id: usize,
    awaited: Vec<Process>,
    tell: Tell,
    data: usize,
}

static WAITING: Mutex<Vec<Waiting>> = Mutex::new(Vec::new());
static POSTPONED: Mutex<Postponed> = Mutex::new(Postponed::new());

/// Processes of this node have begun to wait for others.
pub fn begin(id: usize, awaited: Vec<Process>, tell: Tell, data: *mut c_void) {
    waiting().push(Waiting { id, awaited, tell, data: data as usize });
}

/// The runtime has come to an end of it; false if the processes have been told before.
pub fn end(id: usize) -> bool {
    let mut waiting = waiting();
    let index = waiting.iter().position(|one| one.id == id);
    index.map(|index| waiting.swap_remove(index)).is_some()
}

/// Whether a call has to wait until this node has heard of all jobs whose processes are to be connected.
pub fn postpones(job: &Job, id: usize, processes: &[Process]) -> bool {
    // Of other launchers' jobs it never hears, and of the first one it has.
    let is_spawned = |nspace: &CStr| {
        let name = nspace.to_str().unwrap_or_default();
        name != job.launch.nspace && job.jobs.number_in(name).is_some()
    };
    let names = processes.iter().map(Process::nspace).filter(|nspace| is_spawned(nspace));
    postponed().add(id, &names.map(CStr::to_owned).collect())
}

/// This node has heard of a job that was spawned, and so has PRRTE. In PMIx's own thread.
pub fn heard_of(nspace: &CStr) {
    let ready = postponed().hear(nspace);
    for id in ready {
        let is_wanted = waiting().iter().any(|one| one.id == id);
        // SAFETY: a call that was postponed, once; who waits has not been told, so what PMIx has passed is there.
        unsafe { c_shims::pmix::rw_pmix_connect(id as *mut c_void, is_wanted) };
    }
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
        let data = one.data as *mut c_void;
        // SAFETY: PMIx's own functions with their own argument, once; they take the call from any thread.
        unsafe {
            match one.tell {
                Tell::Connected(tell) => tell(TERM_WITHOUT_SYNC, data),
                Tell::Found(tell) => tell(TERM_WITHOUT_SYNC, std::ptr::null_mut(), 0, data),
            }
        }
    }
}

impl Process {
    /// A rank of a namespace, of which PMIx's limit is kept.
    pub fn new(nspace: &CStr, rank: u32) -> Self {
        Self::named(nspace.to_bytes(), Some(rank))
    }

    /// A rank of a namespace without a zero in its name, or all of it.
    pub fn named(nspace: &[u8], rank: Option<u32>) -> Self {
        let mut own = Self { nspace: [0; 256], rank: rank.unwrap_or(EVERY_RANK) };
        let bytes = nspace.iter().take(own.nspace.len() - 1);
        own.nspace.iter_mut().zip(bytes).for_each(|(place, byte)| *place = c_char::from_ne_bytes([*byte]));
        own
    }

    fn nspace(&self) -> &CStr {
        // SAFETY: bytes are looked at as bytes.
        let bytes: &[u8; 256] = unsafe { &*(&raw const self.nspace).cast() };
        CStr::from_bytes_until_nul(bytes).unwrap_or_default()
    }

    fn is(&self, nspace: &CStr, rank: u32) -> bool {
        self.nspace() == nspace && (self.rank == rank || self.rank == EVERY_RANK)
    }

    /// Whether it is among these.
    pub fn is_among(&self, processes: &[Self]) -> bool {
        processes.iter().any(|process| process.is(self.nspace(), self.rank))
    }
}

fn postponed() -> MutexGuard<'static, Postponed> {
    POSTPONED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn waiting() -> MutexGuard<'static, Vec<Waiting>> {
    WAITING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

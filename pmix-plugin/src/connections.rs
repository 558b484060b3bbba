//! Ends waits in the runtime for dead processes, and postpones connections with unknown jobs.
//!
//! `MPI_Comm_spawn` is built on two calls: processes of several jobs wait for data that one publishes (`PMIx_Lookup`),
//! and until all of them have called (`PMIx_Connect`). ringwatch reports an error to processes that wait for a dead
//! one.
//!
//! A node may be asked to connect processes with a job that it does not know yet: messages of ranks and of the runtime
//! use different connections, one of which may have to retransmit. PRRTE 3.0.8 drops such a call
//! (`prte_grpcomm_base_get_tracker`), and all processes would wait for ever. ringwatch postpones it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard};

use node_abi::postponed::Postponed;
use node_abi::segment::Entry;
use pmix_sys::{PMIX_ERR_PROC_TERM_WO_SYNC, PMIX_RANK_WILDCARD, pmix_nspace_t, pmix_proc_t, pmix_rank_t};

use crate::job::Job;

/// All processes of the namespace.
const EVERY_RANK: pmix_rank_t = PMIX_RANK_WILDCARD as pmix_rank_t;

/// A process, or all processes of a namespace, as PMIx passes them.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Process(pmix_proc_t);

/// `pmix_op_cbfunc_t`
pub type TellConnected = unsafe extern "C" fn(c_int, *mut c_void);
/// `pmix_lookup_cbfunc_t`
pub type TellFound = unsafe extern "C" fn(c_int, *mut c_void, usize, *mut c_void);

/// PMIx's callback for waiting processes.
#[derive(Clone, Copy)]
pub enum Tell {
    /// For `PMIx_Connect`.
    Connected(TellConnected),
    /// For `PMIx_Lookup`.
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

/// Registers processes of this node that begin to wait for others.
pub fn begin(id: usize, awaited: Vec<Process>, tell: Tell, data: *mut c_void) {
    waiting().push(Waiting { id, awaited, tell, data: data as usize });
}

/// Unregisters a call for which the runtime has an answer; false if the processes have got one already.
pub fn end(id: usize) -> bool {
    let mut waiting = waiting();
    let index = waiting.iter().position(|one| one.id == id);
    index.map(|index| waiting.swap_remove(index)).is_some()
}

/// Whether a call must wait until this node knows all jobs whose processes are to be connected.
pub fn postpones(job: &Job, id: usize, processes: &[Process]) -> bool {
    // It never learns of other launchers' jobs, and knows the first one.
    let is_spawned = |nspace: &CStr| {
        let name = nspace.to_str().unwrap_or_default();
        name != job.launch.nspace && job.jobs.number_in(name).is_some()
    };
    let names = processes.iter().map(Process::nspace).filter(|nspace| is_spawned(nspace));
    postponed().add(id, &names.map(CStr::to_owned).collect())
}

/// Continues postponed calls when this node and PRRTE have learned of a spawned job. In PMIx's own thread.
pub fn heard_of(nspace: &CStr) {
    let ready = postponed().hear(nspace);
    for id in ready {
        let is_wanted = waiting().iter().any(|one| one.id == id);
        // SAFETY: a postponed call, continued once; PMIx's arguments are valid until it is answered.
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

/// Reports an error to processes that wait for a dead one.
pub fn look(job: &Job) {
    // Without the lock, which the runtime may take meanwhile.
    let told: Vec<Waiting> = {
        let mut waiting = waiting();
        let dead = |one: &Waiting| has_dead(job, &one.awaited);
        let (told, others) = std::mem::take(&mut *waiting).into_iter().partition(dead);
        *waiting = others;
        told
    };
    for one in told {
        let data = one.data as *mut c_void;
        // SAFETY: PMIx's own callbacks with their own argument, once; any thread may call them.
        unsafe {
            match one.tell {
                Tell::Connected(tell) => tell(PMIX_ERR_PROC_TERM_WO_SYNC, data),
                Tell::Found(tell) => tell(PMIX_ERR_PROC_TERM_WO_SYNC, std::ptr::null_mut(), 0, data),
            }
        }
    }
}

impl Process {
    /// A rank of a namespace, truncated to PMIx's limit.
    pub fn new(nspace: &CStr, rank: u32) -> Self {
        Self::named(nspace.to_bytes(), Some(rank))
    }

    /// A rank of a namespace whose name contains no zero byte, or all of its ranks.
    pub fn named(nspace: &[u8], rank: Option<u32>) -> Self {
        let mut own = pmix_proc_t { nspace: [0; size_of::<pmix_nspace_t>()], rank: rank.unwrap_or(EVERY_RANK) };
        let bytes = nspace.iter().take(own.nspace.len() - 1);
        own.nspace.iter_mut().zip(bytes).for_each(|(place, byte)| *place = c_char::from_ne_bytes([*byte]));
        Self(own)
    }

    fn nspace(&self) -> &CStr {
        // SAFETY: reinterprets characters as bytes.
        let bytes: &[u8; size_of::<pmix_nspace_t>()] = unsafe { &*(&raw const self.0.nspace).cast() };
        CStr::from_bytes_until_nul(bytes).unwrap_or_default()
    }

    /// The namespace, if this names all of its processes.
    pub fn whole_namespace(&self) -> Option<&str> {
        self.nspace().to_str().ok().filter(|_| self.0.rank == EVERY_RANK)
    }

    fn is(&self, nspace: &CStr, rank: u32) -> bool {
        self.nspace() == nspace && (self.0.rank == rank || self.0.rank == EVERY_RANK)
    }

    /// Whether it is among these.
    pub fn is_among(&self, processes: &[Self]) -> bool {
        processes.iter().any(|process| process.is(self.nspace(), self.0.rank))
    }
}

fn postponed() -> MutexGuard<'static, Postponed> {
    POSTPONED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn waiting() -> MutexGuard<'static, Vec<Waiting>> {
    WAITING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

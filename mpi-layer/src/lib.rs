//! The component of ringwatch in every rank of a fault-tolerant job.
//!
//! It registers the process with the node's `ringwatchd`, reads the node's failure log from MPI's progress loop (one
//! relaxed load when nothing happened) and reports the dead to Open MPI, about 0.1 ms after the entry. It starts no
//! thread and opens no socket. Where the log is absent the PMIx events that the runtime daemon injects do the same,
//! later.
//!
//! It gives communicators an error scope and uniform errors, and sets the defaults without which recovery hangs on stock Open MPI, never over a value that somebody set.

mod abandoned;
mod agreements;
mod ballots;
mod bindings;
mod calls;
mod claims;
mod collectives;
mod communicators;
mod confirmations;
mod connections;
mod construction;
mod constructors;
mod crossing;
mod defaults;
mod detached;
mod dynamic;
mod early;
mod endpoints;
mod epochs;
mod errors;
mod from_groups;
mod from_two_groups;
mod gaps;
mod graphs;
mod groups;
mod handles;
mod idle;
mod inquiries;
mod internals;
mod keys;
mod line;
mod locks;
mod meetings;
mod members;
mod mended;
mod messages;
mod module;
mod numbering;
mod numbers;
mod objects;
mod onesided;
mod openmpi;
mod orphans;
mod owners;
mod progress;
mod property;
mod receivers;
mod requests;
mod scope;
mod shadows;
mod statement;
mod storage;
mod transfers;
mod turn;
mod two_groups;
mod uniform;
mod uniformity;
mod waiting;

use std::ffi::{CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

use connections::Connections;
use openmpi::OpenMpi;
use rdma_heartbeat::logging::say;
use rdma_heartbeat::segment::{Entry, FIRST_RANK_VARIABLE, Phase, SEGMENT_VARIABLE, Segment};
use waiting::Need;

/// Status of Open MPI's component functions.
const SUCCESS: c_int = 0;
/// `OMPI_ERR_NOT_AVAILABLE`: the component asks to be closed without a word.
const NOT_AVAILABLE: c_int = -16;

/// The series of releases whose behaviour is known; in others the component leaves the job alone.
const SERVED: (u32, u32) = (5, 0);

/// Number of the job that mpirun itself starts.
const FIRST_JOB: u32 = 1;

/// This process is not watched, and others of its job are: it has to agree as they do.
static IS_AMONG_WATCHED: AtomicBool = AtomicBool::new(false);
static RANK: OnceLock<Rank> = OnceLock::new();
/// How much of the log was reported to Open MPI.
static SEEN: AtomicU32 = AtomicU32::new(0);

/// This rank in a fault-tolerant job.
struct Rank {
    segment: Segment,
    slot: u32,
    /// Its number among all ranks.
    number: u32,
    mpi: OnceLock<Option<OpenMpi>>,
}

impl Rank {
    /// `None` in every job that did not ask for fault tolerance.
    fn join() -> Option<Self> {
        let path = std::env::var(SEGMENT_VARIABLE).ok()?;
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let first = number(FIRST_RANK_VARIABLE).unwrap_or(0);
        let rank = number("PMIX_RANK")?.checked_add(first)?;
        match openmpi::release() {
            Some((major, minor, _)) if (major, minor) == SERVED => {}
            release => {
                let named = release.map_or("an unknown release".into(), |(a, b, c)| format!("release {a}.{b}.{c}"));
                if rank == first {
                    say(&format!(
                        "ringwatch: this component serves Open MPI 5.0 and is loaded into {named}; the ranks run as without it"
                    ));
                }
                return None;
            }
        }
        let segment = match Segment::open_path(&path) {
            Ok(segment) => segment,
            Err(error) => {
                say(&format!(
                    "ringwatch: rank {rank} cannot open its node's failure log at {path} ({error}); it will learn of failures through PMIx events only"
                ));
                return None;
            }
        };
        let slot = segment.slot_of(rank)?;
        Some(Self { segment, slot, number: rank, mpi: OnceLock::new() })
    }

    /// Whether others of its job are watched, with this Open MPI, though it may not be.
    fn is_among_watched() -> bool {
        let is_served = || openmpi::release().is_some_and(|(major, minor, _)| (major, minor) == SERVED);
        std::env::var_os(SEGMENT_VARIABLE).is_some() && is_served()
    }

    fn enter(&self, phase: Phase) {
        self.segment.enter(self.slot, std::process::id(), phase);
    }

    fn mpi(&self) -> Option<&OpenMpi> {
        self.mpi
            .get_or_init(|| {
                let nspace = CString::new(std::env::var("PMIX_NAMESPACE").ok()?).ok()?;
                OpenMpi::find(&nspace)
            })
            .as_ref()
    }

    /// Reports the rank of this number to Open MPI, which knows it by its job.
    fn report(&self, mpi: &OpenMpi, number: u32) {
        let (job, first) = self.segment.spawned_job_of(number).map_or((FIRST_JOB, 0), |job| (job.number, job.first));
        mpi.report(job, number - first);
    }

    /// Does what there is to do, and says whether there will be more. Returns how many deaths were reported.
    #[cold]
    fn look(&self) -> c_int {
        let is_new = self.is_behind();
        if !is_new && waiting::is_resting() {
            return 0;
        }
        agreements::tell();
        let events = if is_new { self.catch_up() } else { 0 };
        // The others may have ended operations, by which agreements have deaths to be told of.
        let (need, watches) = (waiting::look(self.number), self.turn());
        let word = self.segment.call(self.slot);
        if watches || need != Need::Nothing {
            // Another thread may have cleared it.
            word.store(1, Ordering::Release);
        } else {
            word.swap(0, Ordering::AcqRel);
            // An entry may have come before that, or another thread may have reported one.
            if self.is_behind() || waiting::look(self.number) != Need::Nothing {
                watch_progress();
            }
        }
        if !watches {
            if need == Need::Rarely {
                waiting::rest();
            }
            // Another thread may have asked for more turns meanwhile.
            if self.turn() {
                watch_progress();
            }
        }
        events
    }

    /// Whether the log has entries that were not reported.
    fn is_behind(&self) -> bool {
        self.segment.len() != SEEN.load(Ordering::Relaxed)
    }

    /// Whoever has something to do in a turn of the progress loop; false if nobody needs a further one.
    fn turn(&self) -> bool {
        agreements::deliver()
            | calls::look()
            | detached::look()
            | agreements::tell()
            | groups::look()
            | meetings::look()
            | connections::look()
    }

    /// Reports what the log holds beyond `SEEN`; returns how many entries that was.
    fn catch_up(&self) -> c_int {
        let Some(mpi) = self.mpi() else {
            SEEN.store(self.segment.len(), Ordering::Relaxed);
            return 0;
        };
        if !mpi.accepts_failures() {
            return 0;
        }
        let length = self.segment.len();
        // Several threads may drive progress at once: each entry is reported by the one that takes it.
        let mut events = 0;
        while let Ok(index) =
            SEEN.fetch_update(Ordering::AcqRel, Ordering::Acquire, |seen| (seen < length).then(|| seen + 1))
        {
            if let Some(Entry::Rank(rank)) = self.segment.entry(index) {
                self.report(mpi, rank);
                // Of one who is in no communicator that lives nobody else tells.
                detached::somebody_died();
                communicators::somebody_died();
                errors::somebody_died();
                events += 1;
            }
        }
        if events > 0 {
            waiting::begin();
            self.segment.note_raised(self.slot, length, rdma_heartbeat::clock::now());
        }
        events
    }
}

/// Has the progress loop look for what there is to do.
fn watch_progress() {
    progress::ask();
    waiting::wake();
}

/// Open MPI holds a rank of this job dead from now on.
fn rank_died(rank: u32) {
    if let (Some(mpi), Some(connections)) = (RANK.get().and_then(Rank::mpi), Connections::get()) {
        connections.close(mpi.name(rank));
    }
}

/// Runs `body` so that no panic crosses into C.
fn guarded(body: impl FnOnce() -> c_int + std::panic::UnwindSafe) -> c_int {
    catch_unwind(body).unwrap_or(SUCCESS)
}

/// `open` of the hook component: in `MPI_Init`, before any other part of MPI is set up.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_open() -> c_int {
    guarded(|| {
        let Some(rank) = Rank::join() else {
            if !Rank::is_among_watched() {
                return NOT_AVAILABLE;
            }
            IS_AMONG_WATCHED.store(true, Ordering::Relaxed);
            stay_loaded();
            return SUCCESS;
        };
        stay_loaded();
        rdma_heartbeat::lifeline::hold(&rank.segment, rank.slot);
        rank.enter(Phase::Initialising);
        rank.segment.note_changes(rank.slot, defaults::before_processes_are_known());
        let _ = RANK.set(rank);
        SUCCESS
    })
}

/// `init_query` of the coll component: all collective components are known, no communicator exists yet.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_collectives_found() -> c_int {
    guarded(|| {
        let Some(rank) = RANK.get() else {
            if IS_AMONG_WATCHED.load(Ordering::Relaxed) {
                agreements::guard();
            }
            return NOT_AVAILABLE;
        };
        rank.segment.note_changes(rank.slot, defaults::before_collectives_are_chosen(rank.segment.slots()));
        early::watch();
        agreements::guard();
        progress::stand_in();
        SUCCESS
    })
}

/// `register` of the coll component, also where a tool lists the parameters.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_register() -> c_int {
    guarded(|| {
        communicators::register_parameters((&raw const mca_coll_ringwatch_component).cast());
        SUCCESS
    })
}

/// `comm_query` of the coll component: a communicator is being made. Returns a module for it, or null.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_communicator(handle: *mut c_void) -> *mut c_void {
    let created = || {
        if RANK.get().is_none() {
            return std::ptr::null_mut();
        }
        early::over();
        communicators::created(handle)
    };
    catch_unwind(created).unwrap_or(std::ptr::null_mut())
}

/// `init` of the osc and io components.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_is_served() -> c_int {
    if RANK.get().is_some() { SUCCESS } else { NOT_AVAILABLE }
}

/// `query` of the osc component: whether it takes part in the making of a window.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_wants_window(_window: *mut c_void, _comm: *mut c_void) -> bool {
    construction::is_possible()
}

/// `select` of the osc component: makes a window.
///
/// # Safety
/// Called by Open MPI, with what it passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_rank_make_window(
    window: *mut c_void,
    memory: *mut *mut c_void,
    size: usize,
    unit: c_int,
    comm: *mut c_void,
    flavor: c_int,
    model: *mut c_int,
) -> c_int {
    let plan = onesided::Plan { memory, size, unit, flavor, model };
    catch_unwind(AssertUnwindSafe(|| onesided::make(window, comm, plan))).unwrap_or(statement::ERR_INTERN)
}

/// `file_query` of the io component: whether it takes part in the opening of a file.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_wants_file(_file: *mut c_void) -> bool {
    construction::is_possible()
}

/// `file_open` of the io component's module: opens a file; `own_open` is the function of the module.
///
/// # Safety
/// Called by Open MPI, with what it passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_rank_open_file(file: *mut c_void, comm: *mut c_void, own_open: *mut c_void) -> c_int {
    static FIRST: Once = Once::new();
    let open = || {
        FIRST.call_once(|| {
            if let Some(rank) = RANK.get() {
                rank.segment.note_changes(rank.slot, defaults::before_files_are_opened());
            }
        });
        storage::open(file, comm, own_open)
    };
    catch_unwind(AssertUnwindSafe(open)).unwrap_or(statement::ERR_INTERN)
}

/// End of `MPI_Init`.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_init_done() {
    guarded(|| {
        if RANK.get().is_none() {
            epochs::watch();
            numbering::watch();
            from_groups::watch();
            from_two_groups::watch();
            meetings::watch();
        }
        if let Some(rank) = RANK.get() {
            rank.enter(Phase::Running);
            communicators::initialised();
            numbers::watch();
            constructors::watch();
            graphs::watch();
            groups::watch();
            inquiries::watch();
            onesided::watch();
            crossing::watch();
            from_two_groups::watch();
            meetings::watch();
            errors::watch();
            let _ = idle::watch();
            Connections::watch();
            abandoned::watch();
            // What has come before is looked at in the first turn.
            let word = rank.segment.call(rank.slot);
            word.store(1, Ordering::Release);
            if rank.mpi().is_some() && progress::begin(word) {
                rank.mpi().into_iter().for_each(early::tell_again);
            } else {
                say(
                    "ringwatch: this Open MPI lacks a function to report failures at once; they arrive as PMIx events, some milliseconds later",
                );
            }
        }
        SUCCESS
    });
}

/// Start of `MPI_Finalize`.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_finalize_begins() {
    guarded(|| {
        if let Some(rank) = RANK.get() {
            rank.enter(Phase::Finalising);
            communicators::finalising();
            numbers::give_back();
        }
        SUCCESS
    });
}

/// `close` of the hook component, when `MPI_Finalize` has synchronised with everybody and takes the library apart; or
/// the end of an `MPI_Finalize` that a failure has cut short.
#[unsafe(no_mangle)]
pub extern "C" fn rw_rank_close() -> c_int {
    guarded(|| {
        if let Some(rank) = RANK.get() {
            progress::end();
            communicators::closed();
            abandoned::closed();
            rank.enter(Phase::Finalised);
        }
        SUCCESS
    })
}

/// Keeps this library in the process: Open MPI unloads components before its last progress call.
fn stay_loaded() {
    // SAFETY: asks for the object that contains this very function and raises its reference count for ever.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(rw_rank_open as *const libc::c_void, &mut info) != 0 && !info.dli_fname.is_null() {
            libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NODELETE);
        }
    }
}

/// The component `hook/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static mca_hook_ringwatch_component: c_shims::Table = c_shims::Table::empty();

/// The component `coll/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static mca_coll_ringwatch_component: c_shims::Table = c_shims::Table::empty();

/// The component `osc/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static mca_osc_ringwatch_component: c_shims::Table = c_shims::Table::empty();

/// The component `io/ringwatch`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the framework looks for")]
pub static mca_io_ringwatch_component: c_shims::Table = c_shims::Table::empty();

/// Makes the linker take the tables out of the archive of C shims.
#[used]
static TABLES: TablesReference = TablesReference(&raw const c_shims::ompi::rw_ompi_tables);

struct TablesReference(#[allow(dead_code, reason = "only its presence matters")] *const c_int);

// SAFETY: never dereferenced.
unsafe impl Sync for TablesReference {}

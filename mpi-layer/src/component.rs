//! Composes the parts of this library: the order in which they handle deaths, the life of communicators and turns of
//! the progress loop, and the installation of features.

use std::ffi::{CString, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use node_abi::defaults::Default;
use node_abi::segment::{Entry, FIRST_RANK_VARIABLE, Phase, SEGMENT_VARIABLE, Segment};
use platform::clock;
use platform::say::say;

use crate::agreement::{background, era_guard};
use crate::cid::{cid_hold, parallel_cid};
use crate::constructors::{connect_accept, dynamic_processes, steps};
use crate::failure::hang_report::{self, Need};
use crate::failure::{deaths, deaths_during_init, error_report, progress_hook, wakeup};
use crate::features;
use crate::in_front::guard;
use crate::mca_defaults;
use crate::messages::tcp_to_the_dead::{self, Connections};
use crate::messages::{dead_rendezvous, pending_receives, sends_to_the_dead, sequence_gaps};
use crate::onesided::win_and_file;
use crate::onesided::{owner, unwind};
use crate::properties::communicators::{self, Part};
use crate::recovery;
use crate::uniform::operations::End;
use crate::uniform::single_member;
use crate::uniform::{coll_table, operations};
use openmpi_internals::comm_api::Communicator;
use openmpi_internals::communicator::Internals;
use openmpi_internals::interpose::Feature;
use openmpi_internals::loaded::{self, OpenMpi, ProcessName};
use openmpi_internals::object::Object;
use openmpi_internals::{coll_module, group};

/// The series of releases whose behaviour is known; with others the component does nothing.
const SERVED: (u32, u32) = (5, 0);

/// Number of the job that mpirun itself starts.
const FIRST_JOB: u32 = 1;

static RANK: OnceLock<Rank> = OnceLock::new();
/// Number of the log's entries that are reported to Open MPI.
static SEEN: AtomicU32 = AtomicU32::new(0);

/// This rank in a fault-tolerant job.
struct Rank {
    segment: Segment,
    slot: u32,
    /// Its number among all ranks.
    number: u32,
    /// Number of deaths in the log when it started; they precede this rank.
    earlier: u32,
    mpi: OnceLock<Option<OpenMpi>>,
}

impl Rank {
    /// `None` in a job that did not ask for fault tolerance.
    fn join() -> Option<Self> {
        let path = std::env::var(SEGMENT_VARIABLE).ok()?;
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let first = number(FIRST_RANK_VARIABLE).unwrap_or(0);
        let rank = number("PMIX_RANK")?.checked_add(first)?;
        match loaded::release() {
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
                // Its defaults would differ from those of other ranks.
                say(&format!(
                    "ringwatch: rank {rank} cannot open its node's failure log at {path} ({error}): let the ranks see this \
                     folder of their host; the job is ended"
                ));
                std::process::exit(1);
            }
        };
        let slot = segment.slot_of(rank)?;
        let earlier = segment.len();
        Some(Self { segment, slot, number: rank, earlier, mpi: OnceLock::new() })
    }

    /// Whether this job asked for fault tolerance, with a served Open MPI.
    fn is_wanted() -> bool {
        let is_served = || loaded::release().is_some_and(|(major, minor, _)| (major, minor) == SERVED);
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

    /// Open MPI's name of the rank with this number.
    fn name(&self, mpi: &OpenMpi, number: u32) -> ProcessName {
        let (job, first) = self.segment.spawned_job_of(number).map_or((FIRST_JOB, 0), |job| (job.number, job.first));
        mpi.name_in(job, number - first)
    }

    /// Does pending work, and decides whether turns are still needed. Returns the number of reported deaths.
    #[cold]
    fn take_turn(&self) -> c_int {
        let is_new = self.is_behind();
        if !is_new && wakeup::is_resting() {
            return 0;
        }
        era_guard::tell();
        let events = if is_new { self.catch_up() } else { 0 };
        // After the others: they may have ended operations whose agreements need reports of deaths.
        let (need, watches) = (hang_report::report_long_wait(self.number), self.run_parts());
        let word = self.segment.call(self.slot);
        if watches || need != Need::Nothing {
            // Another thread may have cleared it.
            word.store(1, Ordering::Release);
        } else {
            word.swap(0, Ordering::AcqRel);
            // An entry may have arrived before that, or another thread may have reported one.
            if self.is_behind() || hang_report::report_long_wait(self.number) != Need::Nothing {
                wakeup::request_turns();
            }
        }
        if !watches {
            if need == Need::Rarely {
                wakeup::rest();
            }
            // Another thread may have requested turns meanwhile.
            if self.run_parts() {
                wakeup::request_turns();
            }
        }
        events
    }

    /// Whether the log has unreported entries.
    fn is_behind(&self) -> bool {
        self.segment.len() != SEEN.load(Ordering::Relaxed)
    }

    /// Runs the parts of this library that have work in a turn of the progress loop; false if none needs a further one.
    fn run_parts(&self) -> bool {
        era_guard::deliver()
            | unwind::end_transfers_with_the_dead()
            | background::tell_of_deaths()
            | era_guard::tell()
            | steps::give_up_hopeless_calls()
            | connect_accept::interrupt_meetings()
            | tcp_to_the_dead::retry_deserted()
    }

    /// Reports the log's entries beyond `SEEN`; returns their number.
    fn catch_up(&self) -> c_int {
        let Some(mpi) = self.mpi() else {
            SEEN.store(self.segment.len(), Ordering::Relaxed);
            return 0;
        };
        if !mpi.accepts_failures() {
            return 0;
        }
        let length = self.segment.len();
        // Several threads may drive progress at once: each entry is reported by the thread that takes it.
        let mut events = 0;
        while let Ok(index) =
            SEEN.fetch_update(Ordering::AcqRel, Ordering::Acquire, |seen| (seen < length).then(|| seen + 1))
        {
            if let Some(Entry::Rank(rank)) = self.segment.entry(index) {
                let dead = self.name(mpi, rank);
                if index < self.earlier {
                    deaths::is_new(dead);
                }
                mpi.report(dead);
                recovery::note_death_of(rank);
                // If the dead process is in no live communicator, this is the only report of it.
                background::request_check();
                communicators::interrupt_global(dead);
                deaths::note_report();
                events += 1;
            }
        }
        if events > 0 {
            hang_report::begin();
            self.segment.note_raised(self.slot, length, clock::now());
        }
        events
    }
}

/// Closes connections to a rank of this job that Open MPI has marked as dead.
fn close_connections_to(rank: u32) {
    if let (Some(mpi), Some(connections)) = (RANK.get().and_then(Rank::mpi), Connections::get()) {
        connections.close(mpi.name(rank));
    }
}

/// Joins the job, in `MPI_Init` before any other part of MPI is set up. Returns whether the component is used.
pub fn open() -> bool {
    let Some(rank) = Rank::join() else { return false };
    node_abi::lifeline_lock::hold(&rank.segment, rank.slot);
    rank.enter(Phase::Initialising);
    // Ranks with different defaults cannot communicate. This wait blocks no process in the runtime: all other ranks
    // have yet to reach the exchange of addresses, or are not served, and the job ends.
    rank.segment.wait_to_be_let_in();
    rank.segment.note_changes(rank.slot, mca_defaults::before_processes_are_known());
    let _ = RANK.set(rank);
    install(&features::FIRST);
    true
}

/// Whether parameters leave all of ringwatch's components in use in this rank.
pub fn is_chosen() -> bool {
    !Rank::is_wanted() || !mca_defaults::exclude_collectives()
}

/// Whether ringwatch serves this rank.
pub fn is_served() -> bool {
    RANK.get().is_some()
}

/// Handles the state in which all collective components are known, and no communicator exists. Returns whether the
/// component is used.
pub fn collectives_found() -> bool {
    let Some(rank) = RANK.get() else { return false };
    rank.segment.note_changes(rank.slot, mca_defaults::before_collectives_are_chosen(rank.segment.slots()));
    era_guard::contribute_with(parallel_cid::claim_with);
    install(&features::BEFORE_COMMUNICATORS);
    // A user who sets the parameter has the addresses looked up as Open MPI does.
    if rank.segment.changes(rank.slot) & Default::AddProcsCutoff as u32 != 0 {
        install(&features::BEFORE_PROCESSES);
    }
    coll_module::hear(coll_module::Heard { completed: communicator_completed, freed: communicator_freed });
    communicators::react(communicators::Reactions {
        is_copy: win_and_file::is_copy,
        can_be_uniform: operations::can_be,
        equip: coll_table::make_uniform,
        hear_alone: single_member::begin,
        interrupted: owner::interrupted,
    });
    progress_hook::stand_in();
    true
}

/// Handles a communicator that is being made. Returns a module that observes its life, or null.
pub fn communicator_created(handle: Object) -> Object {
    deaths_during_init::over();
    if !communicators::find(|mpi| era_guard::hear(mpi.watch_members(member_died))) {
        return std::ptr::null_mut();
    }
    hang_report::moved();
    let part: Option<Part> = communicators::add(Communicator::from_handle(handle));
    part.into_iter().for_each(win_and_file::joined);
    Internals::get().map_or(std::ptr::null_mut(), |mpi| coll_module::of(mpi, handle))
}

/// Handles a communicator that has its collectives.
fn communicator_completed(handle: Object) {
    let comm = Communicator::from_handle(handle);
    if !win_and_file::completed(comm) {
        communicators::forget(comm);
        return;
    }
    communicators::complete(comm);
    if communicators::are_initialised() {
        mend(comm);
        win_and_file::equipped(comm);
    }
}

/// Installs the functions of a complete communicator.
fn mend(comm: Communicator) {
    if communicators::is_complete(comm) {
        dynamic_processes::made(comm.handle());
        coll_table::mend(comm.handle());
        communicators::equip(comm);
        if deaths::are_known() {
            communicators::note_earlier_deaths(comm);
        }
        communicators::hear_if_alone(comm);
    }
}

/// Handles a communicator that is being freed.
fn communicator_freed(handle: Object) {
    let comm = Communicator::from_handle(handle);
    owner::part_freed(comm);
    let end = match (communicators::are_initialised(), communicators::are_finalising()) {
        (false, _) => End::Unmade,
        (true, true) => End::Finalised,
        (true, false) => End::Freed,
    };
    operations::forget(handle, end);
    era_guard::forget(handle);
    communicators::forget(comm);
}

/// Notifies the parts of this library, in this order, that a member of a communicator is dead.
unsafe extern "C" fn member_died(handle: Object, rank: c_int, remote: bool) {
    let comm = Communicator::from_handle(handle);
    guard((), || {
        deaths::note();
        recovery::note_death();
        dead_rendezvous::member_died();
        era_guard::member_died(handle, rank, remote);
        pending_receives::member_died();
        sends_to_the_dead::member_died();
        background::request_check();
        if communicators::are_initialised() {
            // All ranks of the job are in it.
            if communicators::is_world(comm) {
                close_connections_to(rank as u32);
            }
            operations::member_died(handle, rank, remote);
            win_and_file::member_died(handle);
            owner::member_died(comm, rank);
            // SAFETY: Open MPI passes a live communicator, and a member of it.
            communicators::interrupt_damaged(comm, unsafe { group::name_of(handle, rank, remote) });
        }
    });
}

/// Handles the opening of a file, possibly the first one.
pub fn file_opened() {
    if let Some(rank) = RANK.get() {
        rank.segment.note_changes(rank.slot, mca_defaults::before_files_are_opened());
    }
}

/// Installs features. The first rank of a job reports those that are off.
fn install(features: &[Feature]) {
    features::install(features, RANK.get().is_some_and(|rank| rank.number == 0));
}

/// Installs the functions of a served rank.
fn stand_in_front() {
    cid_hold::react(cid_hold::Reactions {
        interrupting: sequence_gaps::stand_first,
        interrupted: win_and_file::interrupted,
        freed: parallel_cid::forget,
    });
    error_report::hand_to(|class, function| {
        if let Some(rank) = RANK.get() {
            rank.segment.note_error(rank.slot, class, function, clock::now());
        }
    });
    install(&features::FEATURES);
}

/// Handles the end of `MPI_Init`.
pub fn init_done() {
    let Some(rank) = RANK.get() else { return };
    rank.enter(Phase::Running);
    install(&features::BEFORE_PROPERTIES);
    communicators::initialised().into_iter().for_each(mend);
    stand_in_front();
    // The first turn handles earlier entries.
    let word = rank.segment.call(rank.slot);
    word.store(1, Ordering::Release);
    let turn = progress_hook::Turn { run: || RANK.get().map_or(0, Rank::take_turn), verdict: unwind::verdict };
    if rank.mpi().is_some() && progress_hook::begin(word, turn) {
        rank.mpi().into_iter().for_each(deaths_during_init::tell_again);
    } else {
        say(
            "ringwatch: this Open MPI lacks a function to report failures at once; they arrive as PMIx events, some milliseconds later",
        );
    }
    recovery::begin(&rank.segment, rank.slot);
}

/// Handles the begin of `MPI_Finalize`.
pub fn finalize_begins() {
    if let Some(rank) = RANK.get() {
        rank.enter(Phase::Finalising);
        operations::take_leave();
        communicators::finalising();
        cid_hold::give_back();
    }
}

/// Handles the point where `MPI_Finalize` tears the library down.
pub fn close() {
    if let Some(rank) = RANK.get() {
        progress_hook::end();
        communicators::closed();
        background::give_up();
        dead_rendezvous::closed();
        rank.enter(Phase::Finalised);
    }
}

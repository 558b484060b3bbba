//! Registers the hook component's parameters for the replacement or the replication of ranks, and starts it.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use checkpoints::table::{PARTNER, Table};
use message_logging::checkpointing;
use message_logging::start::Place;
use node_abi::rank_parameters;
use node_abi::segment::Segment;
use node_abi::segment::replicas::ReplicaOf;
use openmpi_internals::loaded;
use platform::clock;
use platform::say::say;
use replicated_ranks::tell::Tell;
use replication::machine::{Bound, OnMismatch};
use replication::method::Method;
use replication::replicas::Replica;
pub use virtual_ranks::carrier::{note_death, note_death_of};

use crate::properties::communicators;

/// Dead ranks are not replaced.
const NONE: c_int = 0;
/// Message logging.
const LOG: c_int = 1;
/// Replication.
const REPLICATE: c_int = 2;

/// The job ends where no majority settles a difference.
const END: c_int = 0;
/// It goes on.
const REPORT: c_int = 1;

/// The slot of this rank in its node's segment.
static SLOT: OnceLock<(&Segment, u32)> = OnceLock::new();
static RECOVERY: AtomicI32 = AtomicI32::new(NONE);
static SPARES: AtomicI32 = AtomicI32::new(0);
/// Whether processes are spawned in place of the dead.
static SPAWN: AtomicI32 = AtomicI32::new(1);
/// In MiB.
static LOG_LIMIT: AtomicI32 = AtomicI32::new(512);
/// A path, or null.
static CHECKPOINTS: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());
/// A text, or null.
static REPLICAS: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());
/// A place in [`METHODS`].
static METHOD: AtomicI32 = AtomicI32::new(3);
static ON_MISMATCH: AtomicI32 = AtomicI32::new(END);
/// In MiB.
static MEMORY: AtomicI32 = AtomicI32::new(64);
static UNVERIFIED: AtomicI32 = AtomicI32::new(4096);
/// A text, or null.
static CORRUPT: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// The methods, by their names as values.
const METHODS: [(Method, &CStr); 4] = [
    (Method::AllToAll, c"alltoall"),
    (Method::MsgPlusHash, c"msgplushash"),
    (Method::Async, c"async"),
    (Method::AsyncHash, c"asynchash"),
];

/// What `libringwatch` looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the other library looks for")]
pub static rw_checkpoints_2: Table = checkpointing::TABLE;

/// The parameters of the hook component.
pub fn register_parameters(component: *const c_void) {
    let words: [(c_int, &CStr); 3] = [(NONE, c"none"), (LOG, c"log"), (REPLICATE, c"replicate")];
    loaded::register_choice(
        component,
        rank_parameters::RECOVERY.name,
        rank_parameters::RECOVERY.help,
        &words,
        &RECOVERY,
    );
    loaded::register_number(component, rank_parameters::SPARES.name, rank_parameters::SPARES.help, &SPARES);
    let answers: [(c_int, &CStr); 2] = [(0, c"false"), (1, c"true")];
    loaded::register_choice(component, rank_parameters::SPAWN.name, rank_parameters::SPAWN.help, &answers, &SPAWN);
    loaded::register_number(component, rank_parameters::LOG_LIMIT.name, rank_parameters::LOG_LIMIT.help, &LOG_LIMIT);
    loaded::register_text(
        component,
        rank_parameters::CHECKPOINTS.name,
        rank_parameters::CHECKPOINTS.help,
        &CHECKPOINTS,
    );
    let methods: Vec<(c_int, &CStr)> = (0..).zip(METHODS).map(|(place, (_, name))| (place, name)).collect();
    let answers: [(c_int, &CStr); 2] = [(END, c"end"), (REPORT, c"report")];
    let choice = |one: rank_parameters::Definition, words: &[(c_int, &'static CStr)], storage: &'static AtomicI32| {
        loaded::register_choice(component, one.name, one.help, words, storage);
    };
    let text = |one: rank_parameters::Definition, storage: &'static AtomicPtr<c_char>| {
        loaded::register_text(component, one.name, one.help, storage);
    };
    text(rank_parameters::REPLICAS, &REPLICAS);
    choice(rank_parameters::REPLICAS_METHOD, &methods, &METHOD);
    choice(rank_parameters::REPLICAS_ON_MISMATCH, &answers, &ON_MISMATCH);
    let number = |one: rank_parameters::Definition, storage: &'static AtomicI32| {
        loaded::register_number(component, one.name, one.help, storage);
    };
    number(rank_parameters::REPLICAS_MEMORY, &MEMORY);
    number(rank_parameters::REPLICAS_UNVERIFIED, &UNVERIFIED);
    text(rank_parameters::CORRUPT, &CORRUPT);
}

/// A text that a parameter has, if it has one.
fn text(parameter: &AtomicPtr<c_char>) -> Option<&'static CStr> {
    let text = parameter.load(Ordering::Relaxed);
    // SAFETY: null, or a terminated text that Open MPI keeps.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?;
    (!text.is_empty()).then_some(text)
}

/// Starts the recovery that the parameters select. At the end of `MPI_Init`, in a served rank with this slot.
pub fn begin(segment: &'static Segment, slot: u32) {
    let recovery = RECOVERY.load(Ordering::Relaxed);
    let name = match recovery {
        LOG => "message logging",
        REPLICATE => "replication",
        _ => return,
    };
    if !communicators::is_scope_local() {
        end(&format!(
            "there is no {name} with another error scope than local: leave coll_ringwatch_error_scope as it is"
        ));
    }
    let _ = SLOT.set((segment, slot));
    let begun = if recovery == LOG { begin_logging() } else { begin_replication() };
    if let Err(reason) = begun {
        if !reason.is_empty() {
            say(&format!("ringwatch: there is no {name}: {reason}"));
        }
        std::process::exit(1);
    }
}

fn begin_logging() -> Result<(), String> {
    let number = |parameter: &AtomicI32| parameter.load(Ordering::Relaxed).max(0);
    let (spares, log_limit) = (number(&SPARES) as u32, (number(&LOG_LIMIT) as u64) << 20);
    let checkpoints = text(&CHECKPOINTS).map(|text| match text.to_bytes() {
        word if word == PARTNER.as_bytes() => Place::Partner,
        path => Place::Folder(OsStr::from_bytes(path).into()),
    });
    let spawns = number(&SPAWN) != 0;
    message_logging::start::begin(message_logging::start::Settings { spares, spawns, log_limit, checkpoints })
}

/// The value of a parameter that is a positive number.
///
/// # Errors
/// A sentence at the first rank, and nothing at others.
fn positive(definition: rank_parameters::Definition, parameter: &AtomicI32) -> Result<u64, String> {
    match parameter.load(Ordering::Relaxed) {
        number @ 1.. => Ok(number as u64),
        number if is_first() => {
            let name = definition.name.to_string_lossy();
            Err(format!("{}_{name} is a number above 0, not {number}", definition.component))
        }
        _ => Err(String::new()),
    }
}

fn begin_replication() -> Result<(), String> {
    let memory = positive(rank_parameters::REPLICAS_MEMORY, &MEMORY)?;
    let unverified = positive(rank_parameters::REPLICAS_UNVERIFIED, &UNVERIFIED)?;
    let words = |parameter, default: &str| text(parameter).map_or(default.into(), |text| text.to_string_lossy().into());
    let method = METHODS.get(METHOD.load(Ordering::Relaxed) as usize).map_or(Method::AsyncHash, |(method, _)| *method);
    let is_reported = ON_MISMATCH.load(Ordering::Relaxed) == REPORT;
    replicated_ranks::start::begin(&replicated_ranks::start::Settings {
        replicas: words(&REPLICAS, rank_parameters::REPLICAS.default),
        method,
        on_mismatch: if is_reported { OnMismatch::Report } else { OnMismatch::End },
        bound: Bound { unverified, kept: memory << 20 },
        tell: Tell { replica: note_replica, finding: note_finding },
        corrupt: words(&CORRUPT, ""),
    })
}

/// Notes for tools which replica this process is.
fn note_replica(Replica { rank, index }: Replica) {
    if let Some((segment, slot)) = SLOT.get() {
        segment.note_replica(*slot, ReplicaOf { of: rank, index: index.into() });
    }
}

/// Notes for tools what this replica has found.
fn note_finding(kind: &str, sentence: &str) {
    if let Some((segment, slot)) = SLOT.get() {
        segment.note_finding(*slot, kind, sentence, clock::now());
    }
}

/// Ends a rank for a reason common to all ranks. The first rank prints it.
fn end(reason: &str) -> ! {
    if is_first() {
        say(&format!("ringwatch: {reason}"));
    }
    std::process::exit(1);
}

fn is_first() -> bool {
    std::env::var("PMIX_RANK").is_ok_and(|rank| rank == "0")
}

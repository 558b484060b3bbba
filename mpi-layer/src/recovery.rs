//! Registers the hook component's parameters for the replacement of dead ranks, and starts it.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use checkpoints::table::Table;
use message_logging::checkpointing;
use message_logging::start::{self, Settings};
use node_abi::rank_parameters;
use openmpi_internals::loaded;
use platform::say::say;
pub use virtual_ranks::carrier::note_death;

use crate::properties::communicators;

/// Dead ranks are not replaced.
const NONE: c_int = 0;
/// Message logging.
const LOG: c_int = 1;

static RECOVERY: AtomicI32 = AtomicI32::new(NONE);
static SPARES: AtomicI32 = AtomicI32::new(0);
/// In MiB.
static LOG_LIMIT: AtomicI32 = AtomicI32::new(512);
/// A path, or null.
static CHECKPOINTS: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// What `libringwatch` looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that the other library looks for")]
pub static rw_checkpoints_1: Table = checkpointing::TABLE;

/// The parameters of the hook component.
pub fn register_parameters(component: *const c_void) {
    let words: [(c_int, &CStr); 2] = [(NONE, c"none"), (LOG, c"log")];
    loaded::register_choice(
        component,
        rank_parameters::RECOVERY.name,
        rank_parameters::RECOVERY.help,
        &words,
        &RECOVERY,
    );
    loaded::register_number(component, rank_parameters::SPARES.name, rank_parameters::SPARES.help, &SPARES);
    loaded::register_number(component, rank_parameters::LOG_LIMIT.name, rank_parameters::LOG_LIMIT.help, &LOG_LIMIT);
    loaded::register_text(
        component,
        rank_parameters::CHECKPOINTS.name,
        rank_parameters::CHECKPOINTS.help,
        &CHECKPOINTS,
    );
}

/// The folder of checkpoints.
fn checkpoints() -> Option<PathBuf> {
    let text = CHECKPOINTS.load(Ordering::Relaxed);
    // SAFETY: null, or a terminated text that Open MPI keeps.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?;
    (!text.is_empty()).then(|| OsStr::from_bytes(text.to_bytes()).into())
}

/// Starts the recovery that the parameters select. At the end of `MPI_Init`, in a served rank.
pub fn begin() {
    if RECOVERY.load(Ordering::Relaxed) != LOG {
        return;
    }
    if !communicators::is_scope_local() {
        end(
            "there is no message logging with another error scope than local: leave coll_ringwatch_error_scope as it is",
        );
    }
    let number = |parameter: &AtomicI32| parameter.load(Ordering::Relaxed).max(0);
    let (spares, log_limit) = (number(&SPARES) as u32, (number(&LOG_LIMIT) as u64) << 20);
    let settings = Settings { spares, log_limit, checkpoints: checkpoints() };
    if let Err(reason) = start::begin(settings) {
        if !reason.is_empty() {
            say(&format!("ringwatch: there is no message logging: {reason}"));
        }
        std::process::exit(1);
    }
}

/// Ends a rank for a reason common to all ranks. The first rank prints it.
fn end(reason: &str) -> ! {
    if std::env::var("PMIX_RANK").is_ok_and(|rank| rank == "0") {
        say(&format!("ringwatch: {reason}"));
    }
    std::process::exit(1);
}

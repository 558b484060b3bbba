//! The output of ranks with replicas, or with message logging, appears once ([`framed_output`](node_abi::framed_output)).

use std::ffi::{CStr, CString};
use std::sync::Mutex;

use node_abi::framed_output::Merger;
use platform::say::say;
use prte_hooks::{OutputFilter, Runtime};

use crate::parameters;
use crate::sync::lock;

/// Merges what comes to this daemon, by name of a job and rank in it.
struct Merge(Mutex<Option<Merger<(CString, u32)>>>);

static MERGE: Merge = Merge(Mutex::new(None));

impl OutputFilter for Merge {
    fn passes(&self, nspace: &CStr, rank: u32, bytes: &[u8]) -> Vec<u8> {
        let merged = lock(&self.0).get_or_insert_default().take((nspace.to_owned(), rank), bytes);
        for (rank, places) in merged.lost {
            say(&format!(
                "ringwatch: {} bytes that rank {rank} has printed are lost, after its first {}",
                places.end - places.start,
                places.start
            ));
        }
        merged.text
    }
}

/// Merges the output of ranks from now on.
///
/// # Errors
/// A sentence for the user if that is impossible, and the job needs it.
pub fn merge(runtime: &dyn Runtime) -> Result<(), String> {
    if runtime.filter_output(&MERGE) || parameters::recovery().is_none() {
        return Ok(());
    }
    Err("PRRTE's output of ranks cannot be merged (hook_ringwatch_recovery)".into())
}

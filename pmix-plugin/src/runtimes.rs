//! Finds the runtime of this process, which is prterun or another daemon.

use std::sync::OnceLock;

use prte_hooks::Runtime;

/// Set in prterun.
static LAUNCHER: OnceLock<Box<dyn Runtime>> = OnceLock::new();
/// Set in every other daemon, which only observes the ends of its own ranks.
static OTHER: OnceLock<Box<dyn Runtime>> = OnceLock::new();

/// The runtime in prterun, once it was [found](find_launcher).
pub fn launcher() -> Option<&'static dyn Runtime> {
    LAUNCHER.get().map(Box::as_ref)
}

/// The runtime in another daemon, once it was [found](find_other).
pub fn other() -> Option<&'static dyn Runtime> {
    OTHER.get().map(Box::as_ref)
}

/// The runtime of this process.
pub fn own() -> Option<&'static dyn Runtime> {
    launcher().or_else(other)
}

/// Finds the runtime in prterun.
///
/// # Errors
/// A sentence for the user.
pub fn find_launcher() -> Result<&'static dyn Runtime, String> {
    find(&LAUNCHER)
}

/// Finds the runtime in another daemon.
///
/// # Errors
/// A sentence for the user.
pub fn find_other() -> Result<&'static dyn Runtime, String> {
    find(&OTHER)
}

fn find(place: &'static OnceLock<Box<dyn Runtime>>) -> Result<&'static dyn Runtime, String> {
    if place.get().is_none() {
        let runtime = prte_hooks::find().map_err(|unsupported| unsupported.to_string())?;
        // Another thread may have found it, too.
        let _ = place.set(runtime);
    }
    place.get().map(Box::as_ref).ok_or_else(|| "PRRTE was not found".into())
}

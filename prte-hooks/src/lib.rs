//! Makes PRRTE treat the loss of a runtime daemon as the death of that daemon's ranks only.
//!
//! There is one interface, [`Runtime`], with an implementation for each generation of PRRTE. All symbols of PRRTE are
//! looked up at run time, so the plugin loads where PRRTE is absent and refuses unknown releases.

mod groups;
mod jumps;
mod output;
mod port;
mod prte3;
mod runtime;
mod symbols;

pub use runtime::{Doorkeeper, OutputFilter, Postponed, ProcessEvent, Runtime, Unsupported};

/// The runtime of this process.
///
/// # Errors
/// If ringwatch cannot serve it.
pub fn find() -> Result<Box<dyn Runtime>, Unsupported> {
    let release = symbols::text(c"prte_version_string").ok_or(Unsupported::NotPrrte)?;
    match numbers(&release) {
        Some([3, 0, patch]) => Ok(Box::new(prte3::Prte3::find(patch)?)),
        _ => Err(Unsupported::Release(release)),
    }
}

/// The numbers of a version such as `3.0.8` or `PRRTE v5.0`. A missing last number counts as 0.
#[must_use]
pub fn numbers(release: &str) -> Option<[u32; 3]> {
    let start = release.find(|c: char| c.is_ascii_digit())?;
    let mut numbers = release[start..].split('.').map(|part| part.split(|c: char| !c.is_ascii_digit()).next());
    let mut next = || numbers.next()??.parse().ok();
    Some([next()?, next()?, next().unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_recognised_with_and_without_a_prefix() {
        assert_eq!(numbers("3.0.8"), Some([3, 0, 8]));
        assert_eq!(numbers("PRRTE v5.0.1rc1"), Some([5, 0, 1]));
        assert_eq!(numbers("v3.0"), Some([3, 0, 0]));
        assert_eq!(numbers("unknown"), None);
    }
}

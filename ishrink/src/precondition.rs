//! Checks whether an operation can begin on a communicator, and reports the reason if it cannot.

use std::ffi::c_int;
use std::io::Write;

use crate::internals::Internals;
use crate::openmpi::{ERR_COMM, ERR_UNSUPPORTED, Handle, OpenMpi};
use crate::preload_agreement;

/// The reason why an operation cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    IsIntercommunicator,
    LoadedTooLate,
    OtherRelease,
}

impl Obstacle {
    /// The first obstacle. Later conditions are not evaluated.
    fn first(
        is_intercommunicator: bool,
        precedes_libmpi: impl FnOnce() -> bool,
        fits: impl FnOnce() -> bool,
    ) -> Option<Self> {
        if is_intercommunicator {
            Some(Self::IsIntercommunicator)
        } else if !precedes_libmpi() {
            Some(Self::LoadedTooLate)
        } else if !fits() {
            Some(Self::OtherRelease)
        } else {
            None
        }
    }

    /// The error class.
    fn class(self) -> c_int {
        match self {
            Self::IsIntercommunicator => ERR_COMM,
            Self::LoadedTooLate | Self::OtherRelease => ERR_UNSUPPORTED,
        }
    }

    /// An explanation for the user, unless the class is sufficient. `what` begins the sentence about a library that was
    /// loaded too late.
    fn explanation(self, what: &str) -> Option<String> {
        match self {
            Self::IsIntercommunicator => None,
            Self::LoadedTooLate => Some(format!(
                "{what}, because libringwatch was loaded after libmpi: link it before libmpi, preload it, or in Python import ringwatch before mpi4py.MPI"
            )),
            Self::OtherRelease => Some(
                "libringwatch needs an Open MPI whose communicators and requests are as in 5.0.7 on x86-64, and finds another one"
                    .to_owned(),
            ),
        }
    }
}

/// Checks that an operation can begin on a communicator. Otherwise calls its error handler, and returns the code.
/// `what` begins the sentence about a library that was loaded too late.
///
/// # Safety
/// A handle of the MPI in this process.
pub unsafe fn check(mpi: &OpenMpi, comm: Handle, what: &str) -> Result<(), c_int> {
    let mut inter = 0;
    // SAFETY: as required of the caller.
    let code = unsafe { (mpi.is_intercommunicator)(comm, &mut inter) };
    if code != 0 {
        return Err(code);
    }
    let precedes_libmpi = || preload_agreement::precedes_libmpi(mpi);
    let Some(obstacle) = Obstacle::first(inter != 0, precedes_libmpi, || Internals::get().is_some()) else {
        return Ok(());
    };
    if let Some(text) = obstacle.explanation(what) {
        // In one write: the runtime may insert other output between separate writes.
        let _ = std::io::stderr().write_all(format!("ringwatch: {text}\n").as_bytes());
    }
    // SAFETY: as required of the caller.
    Err(unsafe { mpi.call_errhandler(comm, obstacle.class()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_obstacle_counts_and_nothing_behind_it_is_asked_for() {
        let first = |is_inter, precedes, fits| Obstacle::first(is_inter, || precedes, || fits);
        assert_eq!(first(false, true, true), None);
        assert_eq!(first(false, true, false), Some(Obstacle::OtherRelease));
        assert_eq!(
            Obstacle::first(false, || false, || panic!("Open MPI's inside is not looked for")),
            Some(Obstacle::LoadedTooLate)
        );
        assert_eq!(
            Obstacle::first(true, || panic!("the loader is not asked"), || false),
            Some(Obstacle::IsIntercommunicator)
        );
    }

    #[test]
    fn a_library_that_was_loaded_too_late_says_what_to_do_and_a_wrong_communicator_is_the_programs_error() {
        let text = Obstacle::LoadedTooLate.explanation("MPIX_Comm_ispawn would block").unwrap_or_default();
        assert!(text.starts_with("MPIX_Comm_ispawn would block") && text.contains("preload it"), "{text}");
        assert_eq!(Obstacle::LoadedTooLate.class(), ERR_UNSUPPORTED);
        assert_eq!(Obstacle::IsIntercommunicator.class(), ERR_COMM);
        assert_eq!(Obstacle::IsIntercommunicator.explanation(""), None);
    }
}

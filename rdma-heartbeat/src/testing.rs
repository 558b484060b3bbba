//! Help for the unit tests.

use std::process::{Child, Command};
use std::time::Duration;

/// A process that does nothing for longer than any test.
pub fn sleeper() -> Child {
    Command::new("sleep").arg("60").spawn().expect("sleep is installed")
}

/// The same, started as a rank of a job.
pub fn sleeper_of(nspace: &str, rank: u32) -> Child {
    let mut command = Command::new("sleep");
    command.arg("60").env("PMIX_NAMESPACE", nspace).env("PMIX_RANK", rank.to_string());
    let child = command.spawn().expect("sleep is installed");
    // A child may be seen a moment before its environment.
    wait_until(|| std::fs::read(format!("/proc/{}/environ", child.id())).is_ok_and(|text| !text.is_empty()));
    child
}

/// Waits for something that is bound to happen.
pub fn wait_until(mut happened: impl FnMut() -> bool) {
    let limit = crate::clock::now() + Duration::from_secs(10);
    while !happened() {
        assert!(crate::clock::now() < limit, "in time");
        std::thread::yield_now();
    }
}

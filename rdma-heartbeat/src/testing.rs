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

/// What another user of this node gets who does this; nothing, and a word about it, where nobody can become another.
pub fn as_stranger<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    const NOBODY: libc::uid_t = 65534;
    let work = || {
        // SAFETY: takes three numbers. Other than the library's function, the call concerns the calling thread only.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        (result == 0).then(act)
    };
    let done = std::thread::scope(|scope| scope.spawn(work).join().expect("what a stranger does does not fail"));
    if done.is_none() {
        eprintln!("skipped: this user cannot become another");
    }
    done
}

/// Waits for something that is bound to happen.
pub fn wait_until(mut happened: impl FnMut() -> bool) {
    let limit = crate::clock::now() + Duration::from_secs(10);
    while !happened() {
        assert!(crate::clock::now() < limit, "in time");
        std::thread::yield_now();
    }
}

//! Restricts connections to PMIx in prterun and prted to processes of this host that belong to the job's user or root.
//!
//! PMIx 5.0.7 itself listens in prterun on an address that other hosts can reach (`pmix_server.c` of PRRTE 3.0.8 allows
//! remote tools), and trusts the user that a caller names (psec/native over TCP). A tool may have ranks killed and
//! programs started.

use std::os::fd::BorrowedFd;
use std::sync::Once;

use nix::unistd::geteuid;
use platform::say::{host, say};
use platform::socket_owner::{OtherEnd, other_end};

/// The process at the other end of a connection.
pub enum Caller {
    /// A process of this host that belongs to the job's user or root.
    Own,
    /// The process has gone: most likely a rank that died.
    Gone,
    /// A process of another host, as text.
    Elsewhere(String),
    /// Another process of this host, or one of an unknown user, as text.
    Stranger(String),
}

/// Determines the caller through the kernel.
pub fn caller(connection: BorrowedFd<'_>) -> Caller {
    match other_end(connection) {
        Ok(OtherEnd::User(user)) if user == 0 || user == geteuid().as_raw() => Caller::Own,
        Ok(OtherEnd::Closed) => Caller::Gone,
        Ok(OtherEnd::User(user)) => Caller::Stranger(format!("a process of user {user}")),
        Ok(OtherEnd::Elsewhere(address)) => Caller::Elsewhere(format!("a process of another host ({address})")),
        Err(error) => Caller::Stranger(format!("a process whose user the kernel does not tell ({error})")),
    }
}

/// Whether PMIx may accept a connection. Reports the first refused one.
pub fn admits(connection: BorrowedFd<'_>) -> bool {
    static FIRST: Once = Once::new();
    let stranger = match caller(connection) {
        Caller::Own => return true,
        Caller::Gone => return false,
        Caller::Elsewhere(stranger) | Caller::Stranger(stranger) => stranger,
    };
    FIRST.call_once(|| {
        say(&format!(
            "ringwatch: {stranger} connected to PMIx on {} and was turned away: only processes of that host and of the job's user are heard there",
            host()
        ));
    });
    false
}

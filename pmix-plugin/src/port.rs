//! Restricts connections to PRRTE's port in prterun and prted to the job's runtime daemons, and to the time of their
//! start.
//!
//! PRRTE 3.0.8 listens for other hosts, trusts any sender that claims to be a daemon, and obeys it. None of its daemons
//! ever reconnects: when its connection to prterun breaks, it ends. So prterun accepts no connection once all daemons
//! are connected, and a prted accepts none at all unless PRRTE's tree has daemons below it.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use platform::say::{host, say};
use propagation::NodeId;
use prte_hooks::{Doorkeeper, Runtime};

use crate::strangers::{Caller, caller};
use crate::{environment, runtimes};

/// Set in prterun when all daemons are connected.
static IS_COMPLETE: AtomicBool = AtomicBool::new(false);

struct Keeper;

/// Guards PRRTE's port in this process.
pub fn keep(runtime: &dyn Runtime) {
    if !runtime.keep_port(&Keeper) {
        say(&format!(
            "ringwatch: PRRTE's functions accept and recv on {} cannot be replaced: whoever reaches its port can take the place of a node",
            host()
        ));
    }
}

/// Closes the port when prterun launches the job on `universe` nodes, all of which are connected. While PRRTE's own
/// thread waits.
pub fn close(runtime: &dyn Runtime, universe: u32) {
    IS_COMPLETE.store(true, Ordering::SeqCst);
    runtime.clear_port(&|daemon| (1..universe).contains(&daemon));
}

impl Doorkeeper for Keeper {
    fn admits(&self, connection: BorrowedFd<'_>) -> bool {
        let awaits_somebody = if environment::is_launcher() {
            !IS_COMPLETE.load(Ordering::SeqCst)
        } else {
            !runtimes::own().is_some_and(Runtime::is_star)
        };
        match caller(connection) {
            Caller::Gone => false,
            Caller::Own | Caller::Elsewhere(_) if awaits_somebody => true,
            Caller::Own => turn_away("a process of this host", "no runtime daemon was awaited there"),
            Caller::Elsewhere(name) => turn_away(&name, "no runtime daemon was awaited there"),
            Caller::Stranger(name) => turn_away(&name, "the job belongs to another user"),
        }
    }

    fn takes(&self, connection: BorrowedFd<'_>, nspace: &CStr, daemon: NodeId, is_taken: bool) -> bool {
        // SAFETY: PMIx is initialised while PRRTE runs; its string is terminated and not freed.
        let (own, me) =
            unsafe { (CStr::from_ptr(c_shims::pmix::rw_pmix_my_nspace()), c_shims::pmix::rw_pmix_my_rank()) };
        let is_expected = nspace == own && runtimes::own().is_some_and(|runtime| runtime.may_connect(daemon, me));
        if is_expected && !is_taken {
            return true;
        }
        let name = match caller(connection) {
            Caller::Stranger(name) | Caller::Elsewhere(name) => name,
            Caller::Own | Caller::Gone => "a process of this host".into(),
        };
        let reason = if is_taken {
            format!("it says that it is runtime daemon {daemon}, which is connected")
        } else {
            "it is no runtime daemon that was awaited there".into()
        };
        turn_away(&name, &reason)
    }
}

/// Reports the first refused connection. Returns false.
fn turn_away(who: &str, why: &str) -> bool {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        say(&format!("ringwatch: {who} connected to PRRTE's port on {} and was turned away: {why}", host()));
    });
    false
}

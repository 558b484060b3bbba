//! Tracks groups of processes that connect to an intercommunicator, to end waits of their roots.
//!
//! The roots exchange lists of their members, all processes connect (`PMIx_Connect`), and then the roots complete the
//! communicator, each with its own group. In Open MPI 5.0.7 a root waits for the other one for ever if a process of the
//! other group dies meanwhile (`comm_cid.c`): it depends on all of that group.

use std::sync::{Mutex, MutexGuard};

use node_abi::ports::{Asked, asked, members};

use crate::connections::Process;

/// The connection of a root of this node.
struct Meeting {
    root: Process,
    port: String,
    /// All connecting processes. Empty before they connect, or if all are on this node: PMIx connects processes of one
    /// node by itself.
    members: Vec<Process>,
    /// The processes of the other group.
    others: Vec<Process>,
}

/// The latest connection of each root.
static MEETINGS: Mutex<Vec<Meeting>> = Mutex::new(Vec::new());

/// Registers a lookup. Returns the processes whose death makes it useless, as far as connections determine that.
pub fn join(process: &Process, key: &str) -> Vec<Process> {
    let mut meetings = meetings();
    let own = |meeting: &Meeting| process.is_among(&[meeting.root]);
    match asked(key) {
        Some(Asked::Members(port)) => {
            meetings.retain(|meeting| !own(meeting));
            meetings.push(Meeting { root: *process, port: port.to_owned(), members: Vec::new(), others: Vec::new() });
            Vec::new()
        }
        Some(Asked::More(port)) => {
            let meeting = meetings.iter().find(|meeting| own(meeting) && meeting.port == port);
            meeting.map(|meeting| [&meeting.members[..], &meeting.others].concat()).unwrap_or_default()
        }
        None => Vec::new(),
    }
}

/// Handles the other root's list of members.
pub fn hear(process: &Process, key: &str, list: &str) {
    let Some(Asked::Members(port)) = asked(key) else { return };
    let own = |meeting: &&mut Meeting| process.is_among(&[meeting.root]) && meeting.port == port;
    if let Some(meeting) = meetings().iter_mut().find(own) {
        meeting.others = members(list).map(|(nspace, rank)| Process::named(nspace.as_bytes(), rank)).collect();
    }
}

/// Registers processes that connect.
pub fn gather(members: &[Process]) {
    for meeting in meetings().iter_mut().filter(|meeting| meeting.members.is_empty()) {
        if meeting.root.is_among(members) {
            meeting.members = members.to_vec();
        }
    }
}

fn meetings() -> MutexGuard<'static, Vec<Meeting>> {
    MEETINGS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

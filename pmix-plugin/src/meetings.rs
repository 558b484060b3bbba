//! Two groups of processes that become an intercommunicator: their roots ask each other who is there, all come together
//! (`PMIx_Connect`), and then the roots settle the rest, each with its own group behind it. Open MPI 5.0.7 leaves a root
//! waiting for the other one when somebody of its group dies meanwhile (`comm_cid.c`): it waits for all of them.

use std::sync::{Mutex, MutexGuard};

use rdma_heartbeat::ports::{Asked, asked, members};

use crate::connections::Process;

/// The meeting of a root of this node.
struct Meeting {
    root: Process,
    port: String,
    /// All who have come together; nobody before they have, or if nobody of another node is among them: PMIx brings processes
    /// of one node together by itself.
    members: Vec<Process>,
    /// Those of the other side.
    others: Vec<Process>,
}

/// The last meeting of each root.
static MEETINGS: Mutex<Vec<Meeting>> = Mutex::new(Vec::new());

/// A process asks for what another one is to publish. Returns whose death makes that vain, as far as meetings go.
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

/// A root gets the word of the other one about who is there.
pub fn hear(process: &Process, key: &str, list: &str) {
    let Some(Asked::Members(port)) = asked(key) else { return };
    let own = |meeting: &&mut Meeting| process.is_among(&[meeting.root]) && meeting.port == port;
    if let Some(meeting) = meetings().iter_mut().find(own) {
        meeting.others = members(list).map(|(nspace, rank)| Process::named(nspace.as_bytes(), rank)).collect();
    }
}

/// These come together.
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

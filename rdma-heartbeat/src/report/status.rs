//! Answers status queries, for `ringwatch status`: one report per connection to an abstract Unix socket of the node.
//!
//! Only the job's owner and root are answered ([`greeting`]). A connection gets one report and is closed.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use node_abi::greeting::{self, Caller, Place, ToolKey};
use node_abi::hosts::Hosts;
use node_abi::segment::replicas::ReplicaOf;
use platform::poller::Poller;
use propagation::{NodeId, Time};
use recommended_group::report::{Standing, Verdict};
use serde::{Deserialize, Serialize};

use crate::process::token::Token;
use crate::session::calling;
use crate::session::door::Door;

/// Maximum number of concurrent reports; further callers are refused.
const CONNECTIONS: usize = 4;
/// Time limit of a reader.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of deaths in one report.
pub const MOST_DEAD: usize = 4096;
/// Maximum length of a report that a reader accepts, in bytes.
const LONGEST: u64 = 4 << 20;
/// Maximum length of the job's part in the socket's name: an address has 108 bytes.
const LONGEST_JOB: usize = 64;

/// Version of the reports: raised when a field goes or means something else, and not when one is added.
pub const VERSION: u32 = 1;

/// One node's view of its job. [docs/json.md](../../../../docs/json.md) has the fields for users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// Release of `ringwatchd`.
    pub release: String,
    /// PMIx namespace of the job.
    pub job: String,
    /// The user of the job.
    pub user: u32,
    /// Process number of mpirun.
    pub mpirun_pid: u32,
    /// Number of the job of Slurm in which mpirun runs.
    pub slurm_job: Option<String>,
    /// Host name of the node.
    pub host: String,
    /// Number of the node.
    pub node: NodeId,
    /// Number of nodes the job started with.
    pub universe: u32,
    /// Number of ranks of the job and of all that it has spawned.
    pub ranks_total: usize,
    /// Number of earlier starts of `ringwatchd` on this node for this job.
    pub incarnation: u32,
    /// Its process number.
    pub pid: u32,
    /// Process number of the runtime daemon.
    pub runtime_pid: i32,
    /// Its stage: `meeting` (the nodes learn each other's addresses), `watching` or `ending`.
    pub stage: String,
    /// Name of the transport; `none` for a job of one node.
    pub transport: String,
    /// The order of the ring: `ids`, `hosts` or the path of a topology file on the node of `mpirun`.
    pub ring_order: String,
    /// The nodes in ring order; empty for numerical order.
    pub ring: Vec<NodeId>,
    /// The host of each node, by its number.
    pub hosts: Hosts,
    /// How deaths are broadcast: `circulant` or `tree`.
    pub strategy: String,
    /// Heartbeat period in microseconds.
    pub period_us: u64,
    /// Suspicion timeout in microseconds.
    pub timeout_us: u64,
    /// Node whose heartbeats this one watches.
    pub emitter: Option<NodeId>,
    /// Node that watches this one's.
    pub observer: Option<NodeId>,
    /// The host of the node that it watches.
    pub emitter_host: Option<String>,
    /// The host of the node that watches it.
    pub observer_host: Option<String>,
    /// Means of the emitter's heartbeats, if they are not messages of the transport. Always set if another machine
    /// serves this node.
    pub emitter_means: Option<String>,
    /// Means of this node's heartbeats, if they are not messages of the transport.
    pub observer_means: Option<String>,
    /// The machine that runs this node's part in the ring, if it is not the node itself.
    pub offload: Option<String>,
    /// Means of this node's flag there, if it is not a packet.
    pub offload_means: Option<String>,
    /// Age of the last heartbeat of the emitter in microseconds.
    pub last_heartbeat_us: Option<u64>,
    /// Whether every rank of the job has left `MPI_Init`; known at node 0 only.
    pub all_ready: bool,
    /// The dead, in the order of detection; at most [`MOST_DEAD`].
    pub dead: Vec<Dead>,
    /// Total number of dead.
    pub dead_total: usize,
    /// Counters of the network, by name.
    pub counters: BTreeMap<String, u64>,
    /// Refused datagrams, by kind.
    pub rejected: BTreeMap<String, u64>,
    /// Rights that `ringwatchd` lacks, and that would help it to keep its deadlines.
    pub lacks: Vec<String>,
    /// The ranks of this node.
    pub ranks: Vec<LocalRank>,
    /// Stored data of this node's event logger, by rank.
    pub loggers: Vec<Held>,
    /// The sender logs of this node's processes, in a job with message logging.
    pub sender_logs: Vec<SenderLog>,
    /// The processes of this node that have taken the place of a rank.
    pub replacements: Vec<Replacement>,
    /// How each rank of this node sees its group of recommended processes.
    pub groups: Vec<GroupView>,
}

/// A group of recommended processes as one of them sees it. Ranks are those of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    /// The process that sees it so.
    pub rank: u32,
    /// The first process of the group: its name.
    pub group: u32,
    /// Number of its processes, in the group or not.
    pub processes: u32,
    /// Time between two tests of a process, in microseconds.
    pub interval_us: u64,
    /// Tests in a row before a return.
    pub passes: u32,
    /// The estimate of a threshold is multiplied by so many thousandths.
    pub multiplier: u32,
    /// Then so many microseconds are added.
    pub addend_us: u64,
    /// Whether who passes the tests comes back.
    pub returns: bool,
    /// Who tests whom: `all` or `vcube`.
    pub assignment: String,
    /// How many rounds are complete.
    pub round: u64,
    /// The number of the round's view.
    pub epoch: u64,
    /// Whether the program waits at the barrier.
    pub waits: bool,
    /// Time since the process has told this, in microseconds.
    pub age_us: u64,
    /// All processes of the group. Empty if the report has no room for them.
    pub rows: Vec<GroupRow>,
}

/// A process of a group, as another one or itself sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRow {
    /// The process.
    pub rank: u32,
    /// What is known of it.
    pub standing: Standing,
    /// Whether it takes part in the round.
    pub in_round: bool,
    /// Its counter: how often it has left the group or come back.
    pub counter: u32,
    /// Outside the group: how many tests in a row it has passed.
    pub streak: u32,
    /// The threshold of its next test, in microseconds.
    pub threshold_us: u64,
    /// The outcome of its last test by the process that sees it so.
    pub verdict: Option<Verdict>,
    /// The time of its answer in microseconds.
    pub reply_us: Option<u64>,
}

/// What a process keeps of the messages that it has sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderLog {
    /// The rank.
    pub rank: u32,
    /// Its process number.
    pub pid: i32,
    /// Size in bytes, as last told: it may have changed by a sixteenth.
    pub bytes: u64,
    /// The most that it may take, in bytes (`hook_ringwatch_log_limit`).
    pub limit: u64,
}

/// A process that has taken the place of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The rank.
    pub rank: u32,
    /// The number of the spare that it was, from 1.
    pub spare: u32,
    /// Its process number.
    pub pid: i32,
    /// How many events of the processes before it has to repeat.
    pub events: u64,
    /// How many of them are left.
    pub left: u64,
}

/// Stored data of one rank in an event logger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The rank.
    pub rank: u32,
    /// Number of determinants.
    pub determinants: u64,
    /// Approximate size in memory, in bytes.
    pub bytes: u64,
    /// The highest id of a determinant.
    pub last: u64,
    /// Id up to which determinants were removed, because a checkpoint covers them.
    pub trimmed: u64,
}

/// One death.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dead {
    /// The node of the death.
    pub node: Option<NodeId>,
    /// The host of that node.
    pub host: Option<String>,
    /// The rank; `None` if the node itself is dead.
    pub rank: Option<u32>,
    /// Which replica it was, if the job has replicas and this node knows that.
    pub replica: Option<ReplicaOf>,
    /// Time since this node has known it, in microseconds.
    pub age_us: u64,
    /// The reason.
    pub reason: String,
    /// Node that announced it.
    pub source: Option<NodeId>,
    /// The host of that node.
    pub source_host: Option<String>,
    /// Node that observed it.
    pub suspector: Option<NodeId>,
    /// The host of that node.
    pub suspector_host: Option<String>,
}

/// One rank of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalRank {
    /// The rank.
    pub rank: u32,
    /// Its process number; 0 before it has registered.
    pub pid: i32,
    /// Its progress through MPI.
    pub phase: String,
    /// Whether it is dead.
    pub dead: bool,
    /// Which replica it is, if the job has replicas.
    pub replica: Option<ReplicaOf>,
}

/// Prefix of these sockets' names.
pub const PREFIX: &str = "ringwatch";

/// Name of the abstract socket of a node, without the leading zero byte.
#[must_use]
pub fn socket_name(uid: u32, job: &str, node: NodeId) -> String {
    name_of(PREFIX, uid, job, node)
}

/// Name of an abstract socket of a node that begins with `prefix`, without the leading zero byte.
#[must_use]
pub fn name_of(prefix: &str, uid: u32, job: &str, node: NodeId) -> String {
    // The report itself names the job: the name only has to differ.
    let job =
        if job.len() <= LONGEST_JOB { job.to_owned() } else { format!("{}", blake3::hash(job.as_bytes()).to_hex()) };
    format!("{prefix}/{uid}/{job}/{node}")
}

/// The server side.
pub struct Server {
    name: String,
    door: Door,
    key: ToolKey,
    connections: Vec<Connection>,
}

struct Connection {
    caller: Caller,
    /// Set once the caller is authenticated.
    report: Option<Vec<u8>>,
    sent: usize,
    until: Time,
}

impl Server {
    /// Listens under the node's name, for callers with the key at this place.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(job: &str, node: NodeId, key: ToolKey, place: Place) -> io::Result<Self> {
        let name = socket_name(nix::unistd::getuid().as_raw(), job, node);
        let door = Door::open(&name, Token::Status, place)?;
        Ok(Self { name, door, key, connections: Vec::new() })
    }

    /// The descriptor that becomes readable when a caller connects.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.door.descriptor()
    }

    /// Accepts callers, and continues with present ones.
    pub fn accept(&mut self, now: Time, poller: &Poller, report: impl Fn() -> Report) {
        let callers = self.door.let_in(now, poller, CONNECTIONS.saturating_sub(self.connections.len()));
        let until = now + PATIENCE;
        self.connections.extend(callers.into_iter().map(|caller| Connection { caller, report: None, sent: 0, until }));
        self.serve(now, poller, report);
    }

    /// Continues with callers that can be read or written.
    pub fn serve(&mut self, now: Time, poller: &Poller, report: impl Fn() -> Report) {
        let Self { name, door, key, connections } = self;
        door.go_on(now, poller);
        connections.retain_mut(|connection| {
            now < connection.until
                && match connection.caller.is_known(key, name) {
                    Ok(true) => connection.hands_out(poller, &report),
                    Ok(false) => true,
                    Err(_) => false,
                }
        });
    }

    /// Whether reports are in transit: then [`Server::serve`] has work.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.connections.iter().any(|connection| connection.report.is_some())
    }

    /// Latest time at which [`Server::serve`] has work.
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.door.deadline()
    }
}

impl Connection {
    /// Whether more data must be sent.
    fn hands_out(&mut self, poller: &Poller, report: impl Fn() -> Report) -> bool {
        let report = self.report.get_or_insert_with(|| {
            // Its further input is not read.
            poller.remove(&self.caller.stream);
            postcard::to_stdvec(&report()).unwrap_or_default()
        });
        while self.sent < report.len() {
            match self.caller.stream.write(&report[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
            }
        }
        false
    }
}

/// Names of sockets of this network namespace's daemons that begin with `prefix` and that the caller may query.
///
/// # Errors
/// If the kernel's list cannot be read.
pub fn sockets(prefix: &str) -> io::Result<Vec<String>> {
    let list = std::fs::read("/proc/net/unix")?;
    let uid = nix::unistd::getuid().as_raw();
    Ok(names_in(&String::from_utf8_lossy(&list), prefix, (uid != 0).then_some(uid)))
}

/// Such names in the text of the kernel's list, to which any process can add entries.
#[must_use]
pub fn names_in(list: &str, prefix: &str, uid: Option<u32>) -> Vec<String> {
    let prefix = uid.map_or_else(|| format!("{prefix}/"), |uid| format!("{prefix}/{uid}/"));
    let mut names: Vec<String> = list
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(7)?.strip_prefix('@'))
        .filter(|name| name.starts_with(&prefix) && !name.contains(char::is_control))
        .map(ToOwned::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Queries the daemons behind these sockets, all within one time limit.
#[must_use]
pub fn ask_all(names: Vec<String>) -> Vec<(String, io::Result<Report>)> {
    calling::all(names, PATIENCE, report_of)
}

/// Queries the daemon behind a socket.
///
/// # Errors
/// If it has ended, does not answer in time, belongs to another user, lacks the key of the job, or has another version.
pub fn ask(name: &str) -> io::Result<Report> {
    report_of(name, calling::connect(name)?)
}

fn report_of(name: &str, mut stream: UnixStream) -> io::Result<Report> {
    stream.set_read_timeout(Some(PATIENCE))?;
    greeting::introduce(&mut stream, name)?;
    let mut bytes = Vec::new();
    stream.take(LONGEST).read_to_end(&mut bytes)?;
    let other = |_| io::Error::other("the answer is that of another version of ringwatchd");
    let report: Report = postcard::from_bytes(&bytes).map_err(other)?;
    // Of a daemon of another user no more is known than the kernel says.
    Ok(Report { user: greeting::user_in(name).unwrap_or(report.user), ..report })
}

#[cfg(test)]
mod tests {
    use node_abi::testing::tool_key;
    use platform::testing::{as_stranger, as_user};

    use super::*;
    use crate::session::door::CALLERS_PER_TURN;
    use std::os::fd::OwnedFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    /// The server of node 3, and the file of its key for tools.
    fn server(job: &str) -> io::Result<(Server, OwnedFd)> {
        let (key, file) = tool_key();
        Ok((Server::new(job, 3, key, Place::of(&file))?, file))
    }

    #[test]
    fn a_report_larger_than_the_socket_arrives_whole() {
        let job = format!("status-test-{}", std::process::id());
        let ((mut server, _file), poller) = (server(&job).unwrap(), Poller::new().unwrap());
        assert!(self::server(&job).is_ok_and(|(second, _)| second.descriptor().is_none()), "it waits for the name");
        let dead = Dead { node: Some(1), age_us: 1_000_000, reason: "x".repeat(200), ..Dead::default() };
        let report = Report { job: job.clone(), dead: vec![dead; MOST_DEAD], ..Report::default() };
        let name = socket_name(nix::unistd::getuid().as_raw(), &job, 3);
        assert!(sockets(PREFIX).unwrap().contains(&name));
        let reader = std::thread::spawn(move || ask(&name).unwrap());
        let limit = platform::clock::now() + Duration::from_secs(10);
        while !reader.is_finished() {
            assert!(platform::clock::now() < limit, "in time");
            server.accept(platform::clock::now(), &poller, || report.clone());
        }
        assert_eq!(reader.join().unwrap(), report);
        assert!(!server.is_busy());
    }

    #[test]
    fn a_stranger_is_neither_answered_nor_asked() {
        let job = format!("stranger-test-{}", std::process::id());
        let ((mut server, _file), poller) = (server(&job).unwrap(), Poller::new().unwrap());
        let name = socket_name(nix::unistd::getuid().as_raw(), &job, 3);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let Some(mut caller) = as_stranger(|| UnixStream::connect_addr(&address).unwrap()) else { return };
        server.accept(platform::clock::now(), &poller, || unreachable!("nobody makes a report for a stranger"));
        let mut answer = Vec::new();
        assert_eq!((caller.read_to_end(&mut answer).unwrap(), server.connections.len()), (0, 0));
        drop(server);
        let _listener = as_stranger(|| UnixListener::bind_addr(&address).unwrap());
        let error = as_user(65533, || ask(&name).unwrap_err()).unwrap();
        assert!(error.to_string().contains("another user"));
    }

    #[test]
    fn root_asks_daemons_of_other_users_and_knows_whose_they_are() {
        let job = format!("users-test-{}", std::process::id());
        let Some((mut server, _file)) = as_user(65533, || server(&job).unwrap()) else { return };
        let (name, poller) = (socket_name(65533, &job, 3), Poller::new().unwrap());
        let reader = std::thread::spawn(move || ask(&name));
        let limit = platform::clock::now() + Duration::from_secs(10);
        while !reader.is_finished() {
            assert!(platform::clock::now() < limit, "in time");
            // What it says itself of its user counts nothing.
            server.accept(platform::clock::now(), &poller, || Report { user: 0, ..Report::default() });
        }
        assert_eq!(reader.join().unwrap().unwrap().user, 65533);
        // Nobody speaks for another user.
        let address = SocketAddr::from_abstract_name(socket_name(65532, &job, 3)).unwrap();
        let _other = as_user(65533, || UnixListener::bind_addr(&address).unwrap());
        assert!(ask(&socket_name(65532, &job, 3)).unwrap_err().to_string().contains("another user"));
    }

    #[test]
    fn of_many_callers_only_a_few_are_looked_at_in_a_turn() {
        let job = format!("crowd-test-{}", std::process::id());
        let ((mut server, _file), poller) = (server(&job).unwrap(), Poller::new().unwrap());
        let name = socket_name(nix::unistd::getuid().as_raw(), &job, 3);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let call = |_| {
            let caller = UnixStream::connect_addr(&address).unwrap();
            caller.set_nonblocking(true).unwrap();
            caller
        };
        let mut callers: Vec<UnixStream> = (0..CALLERS_PER_TURN * 3).map(call).collect();
        let mut answered = 0;
        for turn in 1..=3 {
            server.accept(platform::clock::now(), &poller, Report::default);
            // Greeted or refused.
            callers.retain_mut(|caller| {
                let waits = caller.read(&mut [0; 64]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
                answered += usize::from(!waits);
                waits
            });
            assert_eq!(answered, turn * CALLERS_PER_TURN);
        }
    }

    #[test]
    fn names_are_found_once_and_only_those_of_the_user() {
        let list = "Num RefCount Protocol Flags Type St Inode Path\n\
            0: 00000002 00000000 00010000 0001 01 2 @ringwatch/7/job/0\n\
            0: 00000003 00000000 00000000 0001 03 3 @ringwatch/7/job/0\n\
            0: 00000002 00000000 00010000 0001 01 4 @ringwatch/70/job/1\n\
            0: 00000002 00000000 00010000 0001 01 5 /run/ringwatch/7\n\
            0: 00000002 00000000 00010000 0001 01 6\n";
        assert_eq!(names_in(list, PREFIX, Some(7)), ["ringwatch/7/job/0"]);
        assert_eq!(names_in(list, PREFIX, None), ["ringwatch/7/job/0", "ringwatch/70/job/1"]);
        assert_eq!(names_in(list, PREFIX, Some(8)), Vec::<String>::new());
    }

    #[test]
    fn what_strangers_call_their_sockets_harms_nobody() {
        let job = format!("names-test-{}", std::process::id());
        let (server, _file) = server(&job).unwrap();
        let own = socket_name(nix::unistd::getuid().as_raw(), &job, 3);
        let no_text = SocketAddr::from_abstract_name([job.as_bytes(), b"\xff\xc3"].concat()).unwrap();
        let _stranger = UnixListener::bind_addr(&no_text).unwrap();
        let coloured = SocketAddr::from_abstract_name(format!("{own}\x1b[31m")).unwrap();
        let _other = UnixListener::bind_addr(&coloured).unwrap();
        let mut found = sockets(PREFIX).unwrap();
        found.retain(|name| name.starts_with(&own));
        assert_eq!(found, [own]);
        drop(server);
    }

    #[test]
    fn a_long_job_name_fits_into_an_address() {
        let name = socket_name(u32::MAX, &"j".repeat(255), u32::MAX);
        assert!(SocketAddr::from_abstract_name(&name).is_ok());
        assert_ne!(name, socket_name(u32::MAX, &"k".repeat(255), u32::MAX));
    }
}

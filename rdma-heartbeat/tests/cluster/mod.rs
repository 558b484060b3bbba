//! Several nodes on one host: real `ringwatchd` processes, each with a sleeping process for a runtime daemon and one
//! for each rank. The test plays the plugins. Waiting is always for an event, with a deadline.

#![allow(dead_code, reason = "every test program uses its own part")]

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::Pid;
use node_abi::event_loggers::socket_name;
use node_abi::greeting::{Place, ToolKey};
use node_abi::hosts::Hosts;
use node_abi::launch::{
    Carrier, End, FromDaemon, LAUNCH_VERSION, LOGGER_FD, LaunchData, Origin, Parameters, Startup, ToDaemon,
};
use node_abi::seal::{Direction, Opener, Sealer};
use node_abi::segment::{Entry, FLAG_ALL_READY, Phase, Segment, SpawnedJob};
use node_abi::versions::{RELEASE, told_by_daemon};
use platform::pin::started;
use propagation::{EndReason, NodeReason};
use rdma_heartbeat::report::status::{self, Report};
use rdma_heartbeat::session::control::{Control, Received};

pub mod relay;

pub const PERIOD: Duration = Duration::from_millis(20);
pub const TIMEOUT: Duration = Duration::from_millis(300);
/// The numbers from here on are those of no rank.
const NO_RANK: u32 = 1 << 20;
/// Nothing that the tests wait for takes as long, however slow the machine is.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Waits for something that is bound to happen.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// One node, with the plugin's ends of what its daemon was given.
pub struct Node {
    pub me: u32,
    pub control: Control,
    pub segment: Segment,
    pub daemon: Child,
    pub runtime: Child,
    pub ranks: BTreeMap<u32, Child>,
    pub packets: Vec<FromDaemon>,
    pub address: SocketAddr,
    pub stderr: File,
    segment_file: OwnedFd,
    logger_file: OwnedFd,
    _tools_file: OwnedFd,
    socket: UdpSocket,
    startup: Startup,
}

/// A job on several nodes.
pub struct Cluster {
    pub nodes: Vec<Node>,
    pub launch: LaunchData,
}

/// The usual settings for a job with this many ranks on each node.
pub fn launch(ranks_per_node: &[u32]) -> LaunchData {
    static JOBS: AtomicU64 = AtomicU64::new(0);
    let job = JOBS.fetch_add(1, Ordering::Relaxed);
    let rank_nodes = (0u32..).zip(ranks_per_node).flat_map(|(node, ranks)| (0..*ranks).map(move |_| node)).collect();
    LaunchData {
        version: LAUNCH_VERSION,
        job: 0x7269_6e67_0000 + job,
        key: [7; 32],
        nspace: format!("test-{}-{job}@1", std::process::id()),
        origin: Origin::default(),
        universe: u32::try_from(ranks_per_node.len()).unwrap(),
        hosts: Hosts::new((1..=ranks_per_node.len()).map(|number| format!("h{number}")).collect()),
        ring: vec![],
        rank_nodes,
        rendezvous: Vec::new(),
        agent: "ssh".into(),
        rank_environment: Vec::new(),
        changes: Vec::new(),
        daemon: String::new(),
        ranks_register: true,
        ranks_start_stopped: false,
        parameters: Parameters {
            period: PERIOD,
            timeout: TIMEOUT,
            stop_timeout: None,
            fence: true,
            interfaces: Vec::new(),
            transport: Carrier::Auto,
            ring_order: "ids".into(),
            strategy: propagation::Strategy::Circulant,
            offload: Vec::new(),
            event_loggers: None,
            ports: (0, 0),
            log_level: "debug".into(),
            log: "stderr".into(),
            events: String::new(),
        },
    }
}

impl Cluster {
    /// A job whose nodes hold the rendezvous first, with all ranks registered and, if so wished, out of MPI_Init.
    pub fn start(mut launch: LaunchData, phase: Phase) -> Self {
        let sockets = sockets(&launch);
        launch.rendezvous = vec![sockets[0].local_addr().unwrap()];
        Self::start_with(launch, phase, sockets, |_| None)
    }

    /// A running job: every rank is out of MPI_Init, and node 0 knows.
    pub fn running(launch: LaunchData) -> Self {
        let mut cluster = Self::start(launch, Phase::Running);
        cluster.wait_until_ready();
        cluster
    }

    /// A job whose nodes are told where the others are.
    pub fn start_with(
        launch: LaunchData,
        phase: Phase,
        sockets: Vec<UdpSocket>,
        roster: impl Fn(u32) -> Option<Vec<SocketAddr>>,
    ) -> Self {
        let nodes =
            (0u32..).zip(sockets).map(|(me, socket)| Node::start(&launch, me, socket, roster(me), phase)).collect();
        Self { nodes, launch }
    }

    pub fn wait_until_ready(&mut self) {
        eventually("all ranks are ready", || (self.nodes[0].segment.flags() & FLAG_ALL_READY != 0).then_some(()));
        for node in &self.nodes {
            let name = node.status_name();
            eventually("the ring is closed", || {
                let report = status::ask(&name).ok()?;
                (report.emitter.is_none() || report.last_heartbeat_us.is_some()).then_some(())
            });
        }
    }

    pub fn node_of(&self, rank: u32) -> usize {
        self.launch.rank_nodes[rank as usize] as usize
    }

    pub fn signal_rank(&self, rank: u32, signal: Signal) {
        send_signal(&self.nodes[self.node_of(rank)].ranks[&rank], signal);
    }

    /// Waits until a rank's process has ended, and says how.
    pub fn rank_end(&mut self, rank: u32) -> ExitStatus {
        let node = self.node_of(rank);
        let child = self.nodes[node].ranks.get_mut(&rank).unwrap();
        eventually("the rank ends", || child.try_wait().unwrap())
    }

    pub fn rank_lives(&mut self, rank: u32) -> bool {
        let node = self.node_of(rank);
        self.nodes[node].ranks.get_mut(&rank).unwrap().try_wait().unwrap().is_none()
    }

    /// Waits until the plugins of these nodes have heard that exactly these ranks died together.
    pub fn expect_ranks_dead(&mut self, nodes: &[usize], ranks: &[u32]) -> String {
        let mut sentence = String::new();
        for node in nodes {
            sentence = self.nodes[*node].expect("RanksDead", |packet| match packet {
                FromDaemon::RanksDead { ranks: dead, why } if dead == ranks => Some(why.clone()),
                _ => None,
            });
            for rank in ranks {
                assert!(self.nodes[*node].deaths().contains(&Entry::Rank(*rank)));
            }
        }
        sentence
    }

    /// Waits until the plugins of these nodes have heard that a node died, and why.
    pub fn expect_node_dead(&mut self, nodes: &[usize], dead: u32) -> (NodeReason, Option<u32>) {
        let mut heard = Vec::new();
        for node in nodes {
            heard.push(self.nodes[*node].expect("NodeDead", |packet| match packet {
                FromDaemon::NodeDead { node, reason, suspector, .. } if *node == dead => Some((*reason, *suspector)),
                _ => None,
            }));
            assert!(self.nodes[*node].deaths().contains(&Entry::Node(dead)));
        }
        assert!(heard.windows(2).all(|pair| pair[0] == pair[1]), "all heard the same: {heard:?}");
        heard[0]
    }

    /// Waits until the loops of these nodes have turned for at least this long.
    pub fn let_pass(&self, nodes: &[usize], time: Duration) {
        let turns = u32::try_from(time.as_nanos() / PERIOD.as_nanos()).unwrap();
        let begin = Instant::now();
        for node in nodes {
            let segment = &self.nodes[*node].segment;
            let first = segment.beats();
            eventually("the daemon turns", || {
                (segment.beats() >= first + turns && begin.elapsed() >= time).then_some(())
            });
        }
    }

    pub fn assert_nobody_declared(&mut self) {
        for node in &mut self.nodes {
            node.drain();
            assert!(node.deaths().is_empty(), "node {}: {:?}", node.me, node.deaths());
            let is_good = |packet: &&FromDaemon| {
                let finished = End::Announced(EndReason::Finished);
                matches!(packet, FromDaemon::Roster(_))
                    || matches!(packet, FromDaemon::End { reason, .. } if *reason == finished)
            };
            let bad = node.packets.iter().find(|packet| !is_good(packet));
            assert!(bad.is_none(), "node {}: {bad:?}", node.me);
        }
    }
}

/// One UDP socket per node.
pub fn sockets(launch: &LaunchData) -> Vec<UdpSocket> {
    (0..launch.universe).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect()
}

impl Node {
    pub fn start(
        launch: &LaunchData,
        me: u32,
        socket: UdpSocket,
        roster: Option<Vec<SocketAddr>>,
        phase: Phase,
    ) -> Self {
        let runtime = sleeper();
        let local: Vec<u32> = launch.ranks_of(me).collect();
        let capacity = u32::try_from(launch.rank_nodes.len()).unwrap() + 2 * launch.universe;
        let (segment, segment_file) = Segment::create(&local, capacity).unwrap();
        let ranks: BTreeMap<_, _> = local.iter().map(|rank| (*rank, sleeper_of(&launch.nspace, *rank))).collect();
        for (slot, rank) in (0..).zip(&local) {
            segment.enter(slot, ranks[rank].id(), phase);
        }
        let runtime_pid = runtime.id() as i32;
        let tools_file = ToolKey::of(&launch.key).publish().unwrap();
        let startup = Startup {
            launch: launch.clone(),
            me,
            incarnation: 0,
            roster,
            runtime_pid,
            runtime_started: started(runtime_pid).unwrap(),
            tools: Place::of(&tools_file),
            spawned: Vec::new(),
            known: Vec::new(),
        };
        let stderr = File::from(memfd_create(c"stderr", MFdFlags::MFD_CLOEXEC).unwrap());
        // Two threads of the daemon write to it, and the kernel guards no shared offset of a memfd.
        fcntl(&stderr, FcntlArg::F_SETFL(OFlag::O_APPEND)).unwrap();
        let logger_file = memfd_create(c"logger", MFdFlags::MFD_CLOEXEC).unwrap();
        let (control, daemon) = start_daemon(&startup, &socket, &segment_file, &logger_file, &stderr);
        let address = socket.local_addr().unwrap();
        Self {
            me,
            control,
            segment,
            daemon,
            runtime,
            ranks,
            packets: Vec::new(),
            address,
            stderr,
            segment_file,
            logger_file,
            _tools_file: tools_file,
            socket,
            startup,
        }
    }

    /// What the plugin does when its daemon has died.
    pub fn restart_daemon(&mut self) {
        self.drain();
        let roster = self.packets.iter().find_map(|packet| match packet {
            FromDaemon::Roster(roster) => Some(roster.clone()),
            _ => None,
        });
        self.startup.incarnation += 1;
        self.startup.roster = self.startup.roster.take().or(roster);
        (self.control, self.daemon) =
            start_daemon(&self.startup, &self.socket, &self.segment_file, &self.logger_file, &self.stderr);
    }

    pub fn kill_daemon(&mut self) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
    }

    /// Takes what the daemon has said so far; false once it has hung up.
    pub fn drain(&mut self) -> bool {
        loop {
            match self.control.receive() {
                Received::Packet(packet) => self.packets.push(packet),
                Received::Nothing => return true,
                Received::Closed => return false,
                Received::Unknown => panic!("node {}: unknown packet", self.me),
            }
        }
    }

    pub fn expect<T>(&mut self, what: &str, pick: impl Fn(&FromDaemon) -> Option<T>) -> T {
        let what = format!("node {}: {what}", self.me);
        let mut seen = 0;
        eventually(&what, || {
            self.drain();
            let found = self.packets[seen..].iter().find_map(&pick);
            seen = self.packets.len();
            found
        })
    }

    pub fn expect_end(&mut self) -> (End, String) {
        self.expect("End", |packet| match packet {
            FromDaemon::End { reason, sentence } => Some((*reason, sentence.clone())),
            _ => None,
        })
    }

    pub fn daemon_exit(&mut self) -> ExitStatus {
        let daemon = &mut self.daemon;
        eventually("ringwatchd exits", || daemon.try_wait().unwrap())
    }

    pub fn runtime_lives(&mut self) -> bool {
        self.runtime.try_wait().unwrap().is_none()
    }

    pub fn runtime_end(&mut self) -> ExitStatus {
        let runtime = &mut self.runtime;
        eventually("the runtime daemon ends", || runtime.try_wait().unwrap())
    }

    /// The deaths in the node's failure log.
    pub fn deaths(&self) -> Vec<Entry> {
        let entries = (0..self.segment.len()).filter_map(|index| self.segment.entry(index));
        entries.filter(|entry| !matches!(entry, Entry::Ready(_))).collect()
    }

    pub fn tell(&mut self, packet: &ToDaemon) {
        self.control.send(packet);
    }

    /// What the daemon has written to standard error.
    pub fn stderr(&self) -> String {
        let mut bytes = vec![0; usize::try_from(self.stderr.metadata().unwrap().len()).unwrap()];
        let length = self.stderr.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// The name of the event logger's socket.
    pub fn logger_name(&self) -> String {
        socket_name(nix::unistd::geteuid().as_raw(), self.startup.launch.job, self.me)
    }

    /// Makes this process look like a rank of the node, to which nothing happens.
    pub fn be_a_rank(&self) {
        self.let_be_a_rank(std::process::id());
    }

    /// The same for another process.
    pub fn let_be_a_rank(&self, pid: u32) {
        let slot = self.segment.slots();
        assert!(self.segment.admit(SpawnedJob { first: NO_RANK, number: 1 }, &[NO_RANK + self.me]));
        self.segment.enter(slot, pid, Phase::Running);
    }

    /// Ends that.
    pub fn be_no_rank(&self) {
        self.segment.enter(self.segment.slots() - 1, 0, Phase::Running);
    }

    pub fn status_name(&self) -> String {
        status::socket_name(nix::unistd::getuid().as_raw(), &self.startup.launch.nspace, self.me)
    }

    pub fn report(&self) -> Report {
        status::ask(&self.status_name()).unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("node {}, daemon {}:\n{}", self.me, self.daemon.id(), self.stderr());
        }
        for child in self.ranks.values_mut().chain([&mut self.daemon, &mut self.runtime]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn sleeper() -> Child {
    Command::new("sleep").arg("120").stdin(Stdio::null()).spawn().unwrap()
}

/// The same, started as a rank of a job.
pub fn sleeper_of(nspace: &str, rank: u32) -> Child {
    let mut command = Command::new("sleep");
    command.arg("120").stdin(Stdio::null()).env("PMIX_NAMESPACE", nspace).env("PMIX_RANK", rank.to_string());
    let child = command.spawn().unwrap();
    // A child may be seen a moment before its environment.
    let environment = format!("/proc/{}/environ", child.id());
    eventually("the rank starts", || std::fs::read(&environment).is_ok_and(|text| !text.is_empty()).then_some(()));
    child
}

pub fn send_signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

pub fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGKILL)
}

/// The daemon. The tests of another crate take the one that was built beside their own program, if it is of these
/// sources.
fn daemon() -> &'static Path {
    static DAEMON: LazyLock<PathBuf> = LazyLock::new(|| {
        if let Some(built) = option_env!("CARGO_BIN_EXE_ringwatchd") {
            return built.into();
        }
        let beside = option_env!("CARGO_BIN_EXE_ringwatch").map(Path::new);
        let daemon = beside.expect("these tests belong to a program of ringwatch").with_file_name("ringwatchd");
        let told = Command::new(&daemon).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
        let told = String::from_utf8_lossy(&told).into_owned();
        let advice = "build it first with 'cargo build -p rdma-heartbeat'";
        assert_eq!(told_by_daemon(&told), Some(RELEASE), "{} is not of these sources: {advice}", daemon.display());
        daemon
    });
    &DAEMON
}

fn start_daemon(
    startup: &Startup,
    socket: &UdpSocket,
    segment: &OwnedFd,
    logger: &OwnedFd,
    stderr: &File,
) -> (Control, Child) {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
    let mut control = Control::new(ours).unwrap();
    control.send(startup);
    control.authenticate(Sealer::new(startup, Direction::ToDaemon), Opener::new(startup, Direction::FromDaemon));
    let mut command = Command::new(daemon());
    command.stdin(Stdio::null()).stderr(stderr.try_clone().unwrap());
    // Out of the way of the others' places.
    let logger = fcntl(logger, FcntlArg::F_DUPFD_CLOEXEC(30)).unwrap();
    hand_over(&mut command, [theirs.as_fd(), socket.as_fd(), segment.as_fd()]);
    // SAFETY: between fork and exec only dup2 is called, on a descriptor that is open.
    unsafe {
        command.pre_exec(move || match libc::dup2(logger, LOGGER_FD) {
            ..0 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let child = command.spawn().unwrap();
    nix::unistd::close(logger).unwrap();
    (control, child)
}

/// Has a program begin with these descriptors from `CONTROL_FD` on.
pub fn hand_over(command: &mut Command, descriptors: [BorrowedFd<'_>; 3]) {
    let sources = descriptors.map(|descriptor| descriptor.as_raw_fd());
    // SAFETY: between fork and exec only fcntl and dup2 are called, on descriptors that are open.
    unsafe {
        command.pre_exec(move || {
            // Out of the way first: a source may have the number of another's target.
            let away = sources.map(|source| libc::fcntl(source, libc::F_DUPFD_CLOEXEC, 20));
            for (source, target) in away.into_iter().zip(3..) {
                if source < 0 || libc::dup2(source, target) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
}

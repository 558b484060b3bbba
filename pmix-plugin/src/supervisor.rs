//! Starts `ringwatchd`, listens to it, and starts it again when it dies or hangs.

use std::collections::VecDeque;
use std::fs::{self, File, Metadata};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use rdma_heartbeat::greeting::{Place, ToolKey};
use rdma_heartbeat::launch::{
    CONTROL_FD, End, FromDaemon, LIFE_FD, SEGMENT_FD, Spawned, Startup, ToDaemon, UDP_FD, decode, encode,
};
use rdma_heartbeat::leftovers;
use rdma_heartbeat::logging::host;
use rdma_heartbeat::pin::{Pin, Started};
use rdma_heartbeat::seal::{Direction, Opener, Sealer};
use rdma_heartbeat::segment::{Entry, Phase};
use rdma_heartbeat::stall::Stall;

use crate::connections;
use crate::job::{Job, lock};

/// First descriptor that may be used for what is handed to `ringwatchd`, so that placing it cannot overwrite it.
const FIRST_FREE_FD: RawFd = 10;
/// Deaths of `ringwatchd` within [`RESTART_WINDOW`] after which it is given up.
const MAX_RESTARTS: usize = 8;
/// Time over which restarts are counted.
const RESTART_WINDOW: Duration = Duration::from_secs(10);
/// How long a start that the system had no room for is put off.
const SCARCE: Duration = Duration::from_millis(10);
/// Shortest time without a beat after which a `ringwatchd` counts as hung.
const MIN_STALL: Duration = Duration::from_millis(20);
/// How long a `ringwatchd` that has been started may take to its first beat: its program may have to be read from a disk.
const STARTING: Duration = Duration::from_secs(1);
/// How long a `ringwatchd` may write after the end of the job: twice what it takes itself for its log and its history.
const LAST_LINES: Duration = Duration::from_secs(4);
/// How long prterun waits for daemons that were told to end, and they for its word. One behind a link that was cut just then
/// never answers, and never hears it.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// How long a runtime daemon may take to end in order.
const LAST_STEPS: Duration = Duration::from_secs(1);
/// How often prterun looks whether it has come to that.
const LAST_LOOK: Duration = Duration::from_millis(100);
/// Buffer for packets of `ringwatchd`.
const PACKET: usize = 1 << 20;

/// The link to the `ringwatchd` of this node.
pub struct Supervisor {
    daemon: PathBuf,
    /// The program that was there at the launch.
    program: File,
    startup: Mutex<Startup>,
    socket: UdpSocket,
    segment: OwnedFd,
    /// Where tools find their key.
    _tools: OwnedFd,
    control: Mutex<Option<Channel>>,
    /// Process number of the present `ringwatchd`, and what stands for it as long as it lives.
    present: Mutex<Option<(i32, Started)>>,
    /// What the runtime has said about ranks: a `ringwatchd` that is started again knows nothing of it.
    reports: Mutex<Vec<ToDaemon>>,
    finished: AtomicBool,
    /// Whether `ringwatchd` may stop this process, as it does while its node is out of contact with that of prterun.
    holds: bool,
}

/// The way to `ringwatchd`, and what it has not taken yet.
struct Channel {
    socket: OwnedFd,
    sealer: Sealer,
    waiting: VecDeque<Vec<u8>>,
}

impl Channel {
    /// Sends what waits; true if something still does.
    fn flush(&mut self) -> bool {
        while let Some(packet) = self.waiting.front() {
            match send(self.socket.as_raw_fd(), packet, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
                Err(nix::Error::EAGAIN | nix::Error::EINTR) => return true,
                // Sent, or there is nobody any more who could take it.
                _ => drop(self.waiting.pop_front()),
            }
        }
        false
    }
}

/// A running `ringwatchd`.
struct Instance {
    control: OwnedFd,
    opener: Opener,
    process: Started,
    /// The other end of what it keeps open as long as it lives.
    _life: OwnedFd,
}

impl Supervisor {
    /// Prepares what every `ringwatchd` of the job on this node is started with.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn new(daemon: PathBuf, mut startup: Startup, socket: UdpSocket, segment: &OwnedFd) -> io::Result<Self> {
        let tools = ToolKey::of(&startup.launch.key).publish()?;
        startup.tools = Place::of(&tools);
        let holds = startup.me != 0;
        Ok(Self {
            _tools: tools,
            program: out_of_the_way(open_program(&daemon)?.as_raw_fd())?.into(),
            daemon,
            startup: Mutex::new(startup),
            socket,
            segment: segment.try_clone()?,
            control: Mutex::new(None),
            present: Mutex::new(None),
            reports: Mutex::default(),
            finished: AtomicBool::new(false),
            holds,
        })
    }

    /// Starts `ringwatchd` and the thread that looks after it.
    ///
    /// # Errors
    /// A sentence if it cannot be started.
    pub fn run(job: Arc<Job>) -> Result<(), String> {
        let first = job
            .supervisor
            .spawn()
            .map_err(|error| format!("{} cannot be started ({error})", job.supervisor.daemon.display()))?;
        let body = move || {
            // PRRTE handles its signals in its own thread.
            let _ = SigSet::all().thread_block();
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.supervisor.watch(&job, first)));
            if outcome.is_err() {
                job.supervisor.give_up(&job, "internal error in the supervisor of ringwatchd");
            }
            see_out(&job);
        };
        std::thread::Builder::new().name("ringwatch".into()).spawn(body).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Sends a packet, in its turn; a `ringwatchd` that is not there hears it never, which restarts make good.
    pub fn tell(&self, packet: &ToDaemon) {
        let Ok(mut bytes) = encode(packet) else { return };
        if let Some(channel) = lock(&self.control).as_mut() {
            channel.sealer.seal(&mut bytes);
            channel.waiting.push_back(bytes);
            channel.flush();
        }
    }

    /// Tells what every later `ringwatchd` has to know, too. One that is started just now may hear it twice.
    pub fn report(&self, packet: ToDaemon) {
        lock(&self.reports).push(packet.clone());
        self.tell(&packet);
    }

    fn repeat_reports(&self) {
        // What is taken back meanwhile was said before whatever follows from that.
        let reports = lock(&self.reports);
        reports.iter().for_each(|packet| self.tell(packet));
    }

    /// No rank is left on this node. Its `ringwatchd` is looked after all the same as long as the others go on: they would
    /// take the node for dead, with ranks that have ended in order.
    pub fn leave(&self) {
        self.report(ToDaemon::Finished);
    }

    /// The job, or this process, has come to its end: the next end of `ringwatchd` is not a failure.
    pub fn finish(&self) {
        if !self.finished.swap(true, Ordering::SeqCst) {
            self.report(ToDaemon::Finished);
        }
        // Whoever is in PMIx leaves it first: it may be taken down next.
        drop(lock(&self.control));
        // One that is stopped has nothing to say any more, and would keep prterun's folder.
        if self.is_stopped() {
            if let Some((_, process)) = lock(&self.present).as_ref() {
                process.kill();
            }
        }
    }

    fn is_stopped(&self) -> bool {
        let pid = lock(&self.present).as_ref().map(|(pid, _)| *pid);
        pid.is_some_and(|pid| Pin::take(pid).is_ok_and(|pin| pin.stopped().is_some()))
    }

    fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    /// Looks after `ringwatchd` until the job has ended.
    fn watch(&self, job: &Job, first: Instance) {
        let mut deaths: Vec<Instant> = Vec::new();
        let mut instance = first;
        loop {
            self.listen(job, &mut instance);
            if self.is_finished() {
                return;
            }
            instance = match self.start_again(job, &mut deaths) {
                Ok(instance) => instance,
                Err(why) => return self.give_up(job, &why),
            };
            // What the old one was told in its last moments it may not have passed on.
            self.repeat_reports();
            job.lost_daemons().into_iter().for_each(|daemon| self.tell(&ToDaemon::ConnectionLost(daemon)));
        }
    }

    /// One has died. The next one may, too, before it has taken its first packet.
    fn start_again(&self, job: &Job, deaths: &mut Vec<Instant>) -> Result<Instance, String> {
        let mut scarce = 0;
        loop {
            deaths.retain(|death| death.elapsed() < RESTART_WINDOW);
            deaths.push(Instant::now());
            if deaths.len() > MAX_RESTARTS {
                return Err("ringwatchd died again and again".into());
            }
            lock(&self.startup).incarnation += 1;
            repeat_news(job);
            match self.spawn() {
                // Its pid is free already, or the other end of its socket is closed.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EPIPE | libc::ECONNRESET)) => {}
                Err(error) if scarce < MAX_RESTARTS && is_scarce(&error) => {
                    scarce += 1;
                    // It is the same death.
                    deaths.pop();
                    std::thread::sleep(SCARCE);
                }
                started => return started.map_err(|error| format!("ringwatchd cannot be started again ({error})")),
            }
        }
    }

    /// Handles packets until this `ringwatchd` has ended.
    fn listen(&self, job: &Job, instance: &mut Instance) {
        let limit = (job.launch.parameters.timeout / 2).max(MIN_STALL);
        let mut buffer = vec![0; PACKET];
        let at_first = job.segment.beats();
        let mut stall = Stall::new(limit, at_first, Instant::now());
        loop {
            let waits = lock(&self.control).as_mut().is_some_and(Channel::flush);
            let room = if waits { PollFlags::POLLOUT } else { PollFlags::empty() };
            let mut fds = [
                PollFd::new(instance.control.as_fd(), PollFlags::POLLIN | room),
                PollFd::new(instance.process.as_fd(), PollFlags::POLLIN),
            ];
            let wait = PollTimeout::try_from(stall.wait()).unwrap_or(PollTimeout::MAX);
            let began = Instant::now();
            if poll(&mut fds, wait).is_err() {
                continue;
            }
            let looked = Instant::now();
            let ready = |fd: &PollFd| fd.revents().is_some_and(|events| !(events - PollFlags::POLLOUT).is_empty());
            let (talks, ended) = (ready(&fds[0]), ready(&fds[1]));
            if talks && !self.receive(job, instance, &mut buffer) {
                // The socket is closed: it is ending, and has its last lines to write, or it is broken beyond use.
                let limit = if self.is_finished() { limit.max(LAST_LINES) } else { limit };
                if !ends_within(&instance.process, limit) {
                    instance.process.kill();
                }
                return;
            }
            if ended && !talks {
                return;
            }
            let beats = job.segment.beats();
            if self.is_finished() {
                stall.excuse(looked);
            }
            if stall.look(began, looked, beats) {
                let starts = beats == at_first && stall.silence(looked) < STARTING;
                if !starts || self.is_stopped() {
                    instance.process.kill();
                    return;
                }
            }
            self.end_exchanges_with_the_dead(job);
            self.look_at_clients(job);
        }
    }

    /// A rank that has none of ringwatch's components says nothing of itself.
    fn look_at_clients(&self, job: &Job) {
        let is_unknown = |slot| job.segment.occupant(slot).1 == Phase::Unknown;
        if job.launch.ranks_register && (0..job.segment.slots()).any(is_unknown) {
            // SAFETY: PMIx is initialised.
            self.in_pmix(|| unsafe { c_shims::pmix::rw_pmix_look_at_clients() });
        }
    }

    /// Somebody may have begun to wait in PMIx, on this node, for one who was dead before: nothing tells of it.
    fn end_exchanges_with_the_dead(&self, job: &Job) {
        let is_rank = |index| matches!(job.segment.entry(index), Some(Entry::Rank(_)));
        if (0..job.segment.len()).any(is_rank) {
            // SAFETY: as above.
            self.in_pmix(|| unsafe { c_shims::pmix::rw_pmix_end_exchanges_with_the_dead() });
        }
    }

    /// Calls PMIx unless it may be taken down: [`Supervisor::finish`] waits for the call.
    fn in_pmix<T>(&self, call: impl FnOnce() -> T) {
        let _here = lock(&self.control);
        if !self.is_finished() {
            call();
        }
    }

    /// Handles one packet; false when there will be no more.
    fn receive(&self, job: &Job, instance: &mut Instance, buffer: &mut [u8]) -> bool {
        let length = match recv(instance.control.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => return true,
            Err(_) => return false,
        };
        let packet = instance.opener.open(&buffer[..length]).and_then(|packet| decode(packet).ok());
        match packet {
            Some(FromDaemon::Roster(roster)) => self.keep(roster),
            Some(FromDaemon::RanksDead { ranks, .. }) => {
                ranks.into_iter().for_each(|rank| notify(job, rank));
                connections::look(job);
            }
            Some(FromDaemon::Learned(known)) => lock(&self.startup).known.push(known),
            Some(FromDaemon::NodeDead { node, .. }) => job.node_dead(node),
            Some(FromDaemon::End { reason, sentence }) => {
                self.finished.store(true, Ordering::SeqCst);
                if reason != End::Announced(propagation::EndReason::Finished) {
                    job.end(&sentence);
                }
            }
            None => {}
        }
        true
    }

    /// For a `ringwatchd` that is started again.
    pub fn keep_spawned(&self, spawned: &Spawned) {
        lock(&self.reports).retain(|packet| !matches!(packet, ToDaemon::Finished));
        self.startup.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).spawned.push(spawned.clone());
    }

    fn keep(&self, roster: Vec<SocketAddr>) {
        lock(&self.startup).roster = Some(roster);
    }

    /// Without `ringwatchd` the others will declare this node: its ranks end before that is noticed.
    fn give_up(&self, job: &Job, why: &str) {
        self.finished.store(true, Ordering::SeqCst);
        let runtime = nix::unistd::Pid::this().as_raw();
        for slot in 0..job.segment.slots() {
            let (pid, phase) = job.segment.occupant(slot);
            if phase.is_registered() && phase != Phase::Finalised && job.launch.parameters.fence {
                // What stands in the slot any process of the user could have written.
                let is_rank = |pin: &Pin| {
                    let name = job.jobs.name_of(job.segment.rank(slot));
                    name.is_some_and(|(nspace, rank)| {
                        let environment = pin.environment().map(|way| way.read()).unwrap_or_default();
                        pin.is_rank(&environment, &nspace.to_string_lossy(), rank, runtime)
                    })
                };
                let pin = Pin::take(pid).ok().filter(is_rank);
                let _ = pin.map(|pin| pin.kill());
            }
        }
        job.end(&format!("{why} on prterun's node, so the job ends"));
        if job.me != 0 && job.launch.parameters.fence {
            leftovers::remove(Path::new(leftovers::FOLDER), &job.launch.nspace, &host());
            crate::environment::remove_session_folder();
            let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), Signal::SIGKILL);
        }
    }

    /// Where the program of the launch is: an upgrade may have put that of another release in its place.
    fn program(&self) -> PathBuf {
        let identity = |data: Metadata| (data.dev(), data.ino());
        let [there, then] = [fs::metadata(&self.daemon), self.program.metadata()].map(|data| data.ok().map(identity));
        // Of what a file server has lost nothing is known.
        if there == then || then.is_none() {
            return self.daemon.clone();
        }
        format!("/proc/self/fd/{}", self.program.as_raw_fd()).into()
    }

    /// Starts one `ringwatchd` and gives it its first packet.
    fn spawn(&self) -> io::Result<Instance> {
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        )?;
        let (life, their_life) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
        if self.holds {
            go_on_when_closed(&life)?;
        }
        let theirs = out_of_the_way(theirs.as_raw_fd())?;
        let their_life = out_of_the_way(their_life.as_raw_fd())?;
        let socket = out_of_the_way(self.socket.as_raw_fd())?;
        let segment = out_of_the_way(self.segment.as_raw_fd())?;
        let places = [
            (theirs.as_raw_fd(), CONTROL_FD),
            (socket.as_raw_fd(), UDP_FD),
            (segment.as_raw_fd(), SEGMENT_FD),
            (their_life.as_raw_fd(), LIFE_FD),
        ];
        let mut command = Command::new(self.program());
        command.arg0(&self.daemon);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: only dup2 is called between fork and exec, which is allowed there.
        unsafe {
            command.pre_exec(move || {
                for (from, to) in places {
                    if libc::dup2(from, to) < 0 {
                        return Err(io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let copy = ours.try_clone()?;
        let child = command.spawn()?;
        let process = Started::take(child.id())?;
        *lock(&self.present) = i32::try_from(child.id()).ok().zip(process.try_clone().ok());
        // First, so that a job that is spawned now is either in its first packet or told afterwards.
        let mut control = lock(&self.control);
        let startup = lock(&self.startup).clone();
        let packet = encode(&startup).map_err(io::Error::other)?;
        send(ours.as_raw_fd(), &packet, MsgFlags::MSG_NOSIGNAL)?;
        let sealer = Sealer::new(&startup, Direction::ToDaemon);
        *control = Some(Channel { socket: copy, sealer, waiting: VecDeque::new() });
        Ok(Instance { control: ours, opener: Opener::new(&startup, Direction::FromDaemon), process, _life: life })
    }
}

/// Has the kernel let this process go on when the other end closes, because it may be stopped then and could not see it.
fn go_on_when_closed(socket: &OwnedFd) -> io::Result<()> {
    /// `fcntl(2)`: which signal comes instead of SIGIO. The libc crate has no name for it.
    const F_SETSIG: libc::c_int = 10;
    let me = nix::unistd::Pid::this().as_raw();
    for (command, value) in [(libc::F_SETOWN, me), (F_SETSIG, libc::SIGCONT), (libc::F_SETFL, libc::O_ASYNC)] {
        // SAFETY: takes integers, and changes how a descriptor of this function's caller behaves.
        if unsafe { libc::fcntl(socket.as_raw_fd(), command, value) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Nothing watches the other nodes any more. In prterun: once all daemons have been told to end and have had their time,
/// whoever is still awaited counts as lost. In the others: who is not told to end in that time ends by itself, and its ranks
/// with it, unless nobody is to be fenced. It ends with the process.
fn see_out(job: &Job) {
    let Some(runtime) = job.runtime() else {
        if !job.launch.parameters.fence {
            return;
        }
        std::thread::sleep(LAST_WAIT);
        let end = |signal| nix::sys::signal::kill(nix::unistd::Pid::this(), signal);
        let _ = end(Signal::SIGTERM);
        std::thread::sleep(LAST_STEPS);
        // It hangs as it takes itself down.
        crate::environment::remove_session_folder();
        let _ = end(Signal::SIGKILL);
        return;
    };
    let mut told = None;
    loop {
        std::thread::sleep(LAST_LOOK);
        if runtime.ending() && told.get_or_insert_with(Instant::now).elapsed() > LAST_WAIT {
            return job.forget_everybody();
        }
    }
}

/// What a `ringwatchd` wrote into the log it may not have lived to tell; told twice is as good as once.
fn repeat_news(job: &Job) {
    for entry in (0..job.segment.len()).filter_map(|index| job.segment.entry(index)) {
        match entry {
            Entry::Rank(rank) => notify(job, rank),
            Entry::Node(node) => job.node_dead(node),
            Entry::Ready(_) => {}
        }
    }
}

/// Tells the ranks of this node, through PMIx, that a rank is dead.
fn notify(job: &Job, rank: u32) {
    let Some((nspace, rank)) = job.jobs.name_of(rank) else { return };
    // SAFETY: a terminated string; PMIx takes the call from any thread.
    unsafe { c_shims::pmix::rw_pmix_notify_dead(nspace.as_ptr(), rank) };
}

fn open_program(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_PATH).open(path)
}

/// A copy of a descriptor with a high number, closed on exec.
fn out_of_the_way(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: duplicates a valid descriptor.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, FIRST_FREE_FD) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Whether the system lacks something that it may have again in a moment.
fn is_scarce(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE))
}

/// Waits for the end of a process.
fn ends_within(process: &Started, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        let rest = until.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::try_from(rest).unwrap_or(PollTimeout::MAX)) {
            Err(nix::Error::EINTR) => {}
            ended => return ended.is_ok_and(|count| count > 0),
        }
    }
}

//! Starts the `ringwatchd` of this node and sends packets to it.

use std::collections::VecDeque;
use std::fs::{self, File, Metadata};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socketpair};
use node_abi::greeting::{Place, ToolKey};
use node_abi::launch::{CONTROL_FD, Known, LIFE_FD, LOGGER_FD, SEGMENT_FD, Spawned, Startup, ToDaemon, UDP_FD, encode};
use node_abi::seal::{Direction, Opener, Sealer};
use platform::pin::{Pin, Started};

use crate::sync::lock;

/// Lowest descriptor for copies of files that `ringwatchd` inherits, so that placing one cannot overwrite another.
const FIRST_FREE_FD: RawFd = 10;

/// The link to the `ringwatchd` of this node.
pub struct Link {
    daemon: PathBuf,
    /// The program file at the time of the launch.
    program: File,
    startup: Mutex<Startup>,
    socket: UdpSocket,
    segment: OwnedFd,
    /// The event logger's memory, which outlives a `ringwatchd`.
    logger: OwnedFd,
    /// The file in which tools find their key.
    _tools: OwnedFd,
    control: Mutex<Option<Channel>>,
    /// Process number of the current `ringwatchd`, with its handle.
    present: Mutex<Option<(i32, Started)>>,
    /// Reports of the runtime about ranks: a restarted `ringwatchd` lacks them.
    reports: Mutex<Vec<ToDaemon>>,
    finished: AtomicBool,
    /// Whether `ringwatchd` may stop this process, which it does while its node cannot reach prterun's node.
    holds: bool,
}

/// The channel to `ringwatchd`, and packets that it has not accepted yet.
struct Channel {
    socket: OwnedFd,
    sealer: Sealer,
    waiting: VecDeque<Vec<u8>>,
}

impl Channel {
    /// Sends pending packets; true if some remain.
    fn flush(&mut self) -> bool {
        while let Some(packet) = self.waiting.front() {
            match send(self.socket.as_raw_fd(), packet, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
                Err(nix::Error::EAGAIN | nix::Error::EINTR) => return true,
                // Sent, or the receiver is gone.
                _ => drop(self.waiting.pop_front()),
            }
        }
        false
    }
}

/// A running `ringwatchd`.
pub struct Instance {
    /// The socket of its packets.
    pub control: OwnedFd,
    /// The key to open them.
    pub opener: Opener,
    /// Its process.
    pub process: Started,
    /// A pipe whose other end it keeps open as long as it lives.
    _life: OwnedFd,
}

impl Link {
    /// Prepares the inheritance of every `ringwatchd` of the job on this node.
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
            logger: memfd_create(c"ringwatch-logger", MFdFlags::MFD_CLOEXEC)?,
            control: Mutex::new(None),
            present: Mutex::new(None),
            reports: Mutex::default(),
            finished: AtomicBool::new(false),
            holds,
        })
    }

    /// Sends a packet, in order. A `ringwatchd` that has died never gets it; the restart repairs that.
    pub fn tell(&self, packet: &ToDaemon) {
        let Ok(mut bytes) = encode(packet) else { return };
        if let Some(channel) = lock(&self.control).as_mut() {
            channel.sealer.seal(&mut bytes);
            channel.waiting.push_back(bytes);
            channel.flush();
        }
    }

    /// Sends a packet that every later `ringwatchd` needs, too. One that is just being started may get it twice.
    pub fn report(&self, packet: ToDaemon) {
        lock(&self.reports).push(packet.clone());
        self.tell(&packet);
    }

    pub fn repeat_reports(&self) {
        // A report that is withdrawn meanwhile was sent before any consequence of its withdrawal.
        let reports = lock(&self.reports);
        reports.iter().for_each(|packet| self.tell(packet));
    }

    /// Notes that no rank is left on this node. Its `ringwatchd` is still supervised while other nodes continue:
    /// without it they would declare this node dead, with ranks that have ended in order.
    pub fn leave(&self) {
        self.report(ToDaemon::Finished);
    }

    /// Notes the end of the job, or of this process: the next end of `ringwatchd` is not a failure.
    pub fn finish(&self) {
        if !self.finished.swap(true, Ordering::SeqCst) {
            self.report(ToDaemon::Finished);
        }
        // A call inside PMIx returns first: PMIx may be torn down next.
        drop(lock(&self.control));
        // A stopped one has nothing to report, and would keep prterun's folder.
        if self.is_stopped() {
            if let Some((_, process)) = lock(&self.present).as_ref() {
                process.kill();
            }
        }
    }

    pub fn is_stopped(&self) -> bool {
        let pid = lock(&self.present).as_ref().map(|(pid, _)| *pid);
        pid.is_some_and(|pid| Pin::take(pid).is_ok_and(|pin| pin.stopped().is_some()))
    }

    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    /// Calls PMIx unless it may be torn down: [`Link::finish`] waits for the call.
    pub fn in_pmix<T>(&self, call: impl FnOnce() -> T) {
        let _here = lock(&self.control);
        if !self.is_finished() {
            call();
        }
    }

    /// Sends pending packets; true if some remain.
    pub fn flush(&self) -> bool {
        lock(&self.control).as_mut().is_some_and(Channel::flush)
    }

    /// The program.
    pub fn daemon(&self) -> &Path {
        &self.daemon
    }

    /// Counts a further start.
    pub fn count_start(&self) {
        lock(&self.startup).incarnation += 1;
    }

    /// Notes that the next end of `ringwatchd` is not a failure, without a packet to it.
    pub fn is_over(&self) {
        self.finished.store(true, Ordering::SeqCst);
    }

    /// Keeps knowledge of the current `ringwatchd` for a restarted one.
    pub fn keep_known(&self, known: Known) {
        lock(&self.startup).known.push(known);
    }

    /// Keeps a spawned job for a restarted one.
    pub fn keep_spawned(&self, spawned: &Spawned) {
        lock(&self.reports).retain(|packet| !matches!(packet, ToDaemon::Finished));
        lock(&self.startup).spawned.push(spawned.clone());
    }

    pub fn keep(&self, roster: Vec<SocketAddr>) {
        lock(&self.startup).roster = Some(roster);
    }

    /// The path of the launch's program: an upgrade may have replaced it by another release.
    fn program(&self) -> PathBuf {
        let identity = |data: Metadata| (data.dev(), data.ino());
        let [there, then] = [fs::metadata(&self.daemon), self.program.metadata()].map(|data| data.ok().map(identity));
        // If a file server has lost the file, nothing can be compared.
        if there == then || then.is_none() {
            return self.daemon.clone();
        }
        format!("/proc/self/fd/{}", self.program.as_raw_fd()).into()
    }

    /// Starts one `ringwatchd` and gives it its first packet.
    pub fn spawn(&self) -> io::Result<Instance> {
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
        let logger = out_of_the_way(self.logger.as_raw_fd())?;
        let places = [
            (theirs.as_raw_fd(), CONTROL_FD),
            (socket.as_raw_fd(), UDP_FD),
            (segment.as_raw_fd(), SEGMENT_FD),
            (their_life.as_raw_fd(), LIFE_FD),
            (logger.as_raw_fd(), LOGGER_FD),
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
        // Taken first, so that a job spawned now is either in the first packet or sent afterwards.
        let mut control = lock(&self.control);
        let startup = lock(&self.startup).clone();
        let packet = encode(&startup).map_err(io::Error::other)?;
        send(ours.as_raw_fd(), &packet, MsgFlags::MSG_NOSIGNAL)?;
        let sealer = Sealer::new(&startup, Direction::ToDaemon);
        *control = Some(Channel { socket: copy, sealer, waiting: VecDeque::new() });
        Ok(Instance { control: ours, opener: Opener::new(&startup, Direction::FromDaemon), process, _life: life })
    }
}

/// Makes the kernel continue this process when the other end closes: it may be stopped then, and could not see that.
fn go_on_when_closed(socket: &OwnedFd) -> io::Result<()> {
    /// `fcntl(2)`: the signal that replaces SIGIO. The libc crate has no name for it.
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
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

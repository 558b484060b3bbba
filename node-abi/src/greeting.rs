//! Authenticates a tool and `ringwatchd` to each other with a key of the job, after the kernel has confirmed that both
//! belong to the same user.
//!
//! | step | sender | bytes | |
//! |---:|---|---:|---|
//! | 1 | `ringwatchd` | 4 | version of these steps |
//! | | | 16 | random |
//! | | | 4, 4 | process and descriptor under which the key for tools can be opened |
//! | 2 | tool | 16 | random |
//! | | | 32 | BLAKE3 of both random numbers, the sender's role and the name of the socket, keyed with that key |
//! | 3 | `ringwatchd` | 32 | the same |
//!
//! The key for tools is derived from that of the job; the derivation cannot be inverted. It is in an anonymous,
//! read-only file of the runtime daemon, so it leaves nothing behind. The kernel lets a process open it that has the
//! daemon's user, group and at least its rights, in its PID namespace; root, too. Root also asks daemons of other
//! users: of those whose socket's name has the number of the user to whom it belongs. They can send it anything, so a
//! tool reads a bounded number of bytes, within a time limit unless it follows, and says from which user it has them.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{getsockopt, sockopt};
use platform::random;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;
const PURPOSE: &str = "ringwatch tools";
const RANDOM: usize = 16;
const MAC: usize = 32;
const GREETING: usize = 4 + RANDOM + 4 + 4;
const ANSWER: usize = RANDOM + MAC;

type Random = [u8; RANDOM];

/// The key for the tools of a job.
#[derive(Clone)]
pub struct ToolKey([u8; 32]);

/// The place of the key: this descriptor of this process, the runtime daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its process number.
    pub pid: u32,
    /// The descriptor there.
    pub descriptor: u32,
}

impl Place {
    /// The place of a file in this process.
    #[must_use]
    pub fn of(file: &OwnedFd) -> Self {
        Self { pid: std::process::id(), descriptor: file.as_raw_fd().unsigned_abs() }
    }

    fn path(self) -> String {
        format!("/proc/{}/fd/{}", self.pid, self.descriptor)
    }
}

impl ToolKey {
    /// The key for the tools of the job with this key.
    #[must_use]
    pub fn of(job_key: &[u8; 32]) -> Self {
        Self(blake3::derive_key(PURPOSE, job_key))
    }

    /// Writes the key to a sealed file without a name.
    ///
    /// # Errors
    /// If the system has no memory or no descriptor left.
    pub fn publish(&self) -> io::Result<OwnedFd> {
        let file = memfd_create(c"ringwatch-tools", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let mut file = File::from(file);
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o400))?;
        file.write_all(&self.0)?;
        let seals = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Ok(file.into())
    }

    /// Reads the key at a place that `user` has named.
    fn read(place: Place, user: u32) -> io::Result<Self> {
        let mut key = [0; 32];
        let mut read = || {
            // Its owner has named the place: whatever else is there, a device too, is looked at without being opened.
            let found = File::options().read(true).custom_flags(libc::O_PATH).open(place.path())?;
            let data = found.metadata()?;
            if !data.is_file() || data.len() != key.len() as u64 || data.uid() != user {
                return Err(io::Error::other("something else is there"));
            }
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
            let path = format!("/proc/self/fd/{}", found.as_raw_fd());
            File::options().read(true).custom_flags(flags).open(path)?.read_exact(&mut key)
        };
        read().map_err(|error| {
            let path = place.path();
            io::Error::other(format!(
                "the key for tools in {path}, a file of mpirun or prted, cannot be read ({error}): who asks must have the user, \
                 the group and no fewer rights than that process, and see it"
            ))
        })?;
        Ok(Self(key))
    }

    fn mac(&self, who: Who, socket: &str, daemons: &Random, tools: &Random) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(daemons).update(tools).update(&[who as u8]).update(socket.as_bytes()).finalize()
    }
}

/// The role of the sender.
#[derive(Clone, Copy)]
enum Who {
    Tool,
    Daemon,
}

/// A process that has connected to `ringwatchd`.
pub struct Caller {
    /// The connection.
    pub stream: UnixStream,
    random: Random,
    heard: Vec<u8>,
    is_known: bool,
}

impl Caller {
    /// Sends the greeting to a caller that belongs to the daemon's user or root.
    ///
    /// # Errors
    /// If the caller is another user, or has disconnected.
    pub fn new(stream: UnixStream, place: Place) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        if !is_trusted(user_of(&stream)?) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let mut caller = Self { stream, random: random::bytes()?, heard: Vec::with_capacity(ANSWER), is_known: false };
        caller.greet(place)?;
        Ok(caller)
    }

    fn greet(&mut self, place: Place) -> io::Result<()> {
        let (pid, descriptor) = (place.pid.to_le_bytes(), place.descriptor.to_le_bytes());
        self.stream.write_all(&[&VERSION.to_le_bytes()[..], &self.random, &pid, &descriptor].concat())
    }

    /// Whether the caller has proved that it has the key and means the socket of this name; reads its answer.
    ///
    /// # Errors
    /// If it lacks the key, or has disconnected.
    pub fn is_known(&mut self, key: &ToolKey, socket: &str) -> io::Result<bool> {
        while !self.is_known {
            let mut piece = [0; ANSWER];
            match self.stream.read(&mut piece[self.heard.len()..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.heard.extend_from_slice(&piece[self.heard.len()..][..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            if let Some((tools, mac)) = answer(&self.heard) {
                // Comparison in constant time.
                if key.mac(Who::Tool, socket, &self.random, tools) != *mac {
                    return Err(ErrorKind::PermissionDenied.into());
                }
                let mac = key.mac(Who::Daemon, socket, &self.random, tools);
                // Almost nothing was sent to it yet, so there is room.
                self.stream.write_all(mac.as_bytes())?;
                self.is_known = true;
            }
        }
        Ok(true)
    }
}

fn answer(heard: &[u8]) -> Option<(&Random, &[u8; MAC])> {
    let (random, mac) = heard.split_first_chunk()?;
    Some((random, mac.try_into().ok()?))
}

/// Authenticates the `ringwatchd` at the other end, whose socket has this name, and this process to it.
///
/// # Errors
/// If it belongs to another user, lacks the key, has another version or does not answer; if the key cannot be read.
pub fn introduce(stream: &mut UnixStream, socket: &str) -> io::Result<()> {
    let user = check_user(stream, socket)?;
    let mut greeting = [0; GREETING];
    stream.read_exact(&mut greeting)?;
    let (daemons, place) = greeted(&greeting).ok_or_else(|| io::Error::other("it is another version of ringwatchd"))?;
    let (key, tools) = (ToolKey::read(place, user)?, random::bytes()?);
    stream.write_all(&[&tools[..], key.mac(Who::Tool, socket, &daemons, &tools).as_bytes()].concat())?;
    let mut mac = [0; MAC];
    stream.read_exact(&mut mac)?;
    if key.mac(Who::Daemon, socket, &daemons, &tools) == mac {
        Ok(())
    } else {
        Err(io::Error::other("who answers there has not the key of the job"))
    }
}

/// The user of the other end, whose socket has this name: this process's user, or root; for root the one in the name.
///
/// # Errors
/// If it is another user.
pub fn check_user(stream: &UnixStream, socket: &str) -> io::Result<u32> {
    let user = user_of(stream)?;
    let is_asked_by_root = || nix::unistd::geteuid().is_root() && user_in(socket) == Some(user);
    if is_trusted(user) || is_asked_by_root() {
        Ok(user)
    } else {
        Err(io::Error::other("the socket belongs to another user"))
    }
}

/// The user in the name of a daemon's socket.
#[must_use]
pub fn user_in(socket: &str) -> Option<u32> {
    socket.split('/').nth(1)?.parse().ok()
}

fn greeted(bytes: &[u8; GREETING]) -> Option<(Random, Place)> {
    let (version, rest) = bytes.split_first_chunk()?;
    let (random, rest) = rest.split_first_chunk()?;
    let (pid, rest) = rest.split_first_chunk()?;
    let descriptor = rest.first_chunk()?;
    let place = Place { pid: u32::from_le_bytes(*pid), descriptor: u32::from_le_bytes(*descriptor) };
    (u32::from_le_bytes(*version) == VERSION).then_some((*random, place))
}

/// The user of the other end: any process may connect to an abstract socket, or listen on one.
fn user_of(stream: &UnixStream) -> io::Result<u32> {
    Ok(getsockopt(stream, sockopt::PeerCredentials)?.uid())
}

/// Whether a user is root or this process's user.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == nix::unistd::getuid().as_raw()
}

#[cfg(test)]
mod tests {
    use platform::testing::wait_until;

    use super::*;

    const JOB_KEY: [u8; 32] = [7; 32];
    const SOCKET: &str = "ringwatch/7/job/0";

    fn called(place: Place) -> (Caller, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Caller::new(ours, place).unwrap(), theirs)
    }

    /// The results at the daemon and at the tool.
    fn meet(daemons: &ToolKey, place: Place) -> (io::Result<bool>, io::Result<()>) {
        let (mut caller, mut stream) = called(place);
        let tool = std::thread::spawn(move || introduce(&mut stream, SOCKET));
        let mut found = Ok(false);
        wait_until(|| {
            found = caller.is_known(daemons, SOCKET);
            !matches!(found, Ok(false))
        });
        drop(caller);
        (found, tool.join().unwrap())
    }

    #[test]
    fn a_tool_with_the_key_and_the_daemon_know_each_other() {
        let key = ToolKey::of(&JOB_KEY);
        let file = key.publish().unwrap();
        let (daemon, tool) = meet(&key, Place::of(&file));
        assert!(daemon.unwrap());
        tool.unwrap();
    }

    #[test]
    fn a_tool_with_another_key_is_refused() {
        let key = ToolKey::of(&JOB_KEY);
        let other = ToolKey::of(&[8; 32]).publish().unwrap();
        let (daemon, tool) = meet(&key, Place::of(&other));
        assert_eq!(daemon.unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(tool.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    /// A third process forwards the messages of both, through another socket of the same job.
    #[test]
    fn a_tool_that_means_another_socket_is_refused() {
        let key = ToolKey::of(&JOB_KEY);
        let file = key.publish().unwrap();
        let (mut caller, mut stream) = called(Place::of(&file));
        let tool = std::thread::spawn(move || introduce(&mut stream, "ringwatch-events/7/job/0"));
        let mut found = Ok(false);
        wait_until(|| {
            found = caller.is_known(&key, SOCKET);
            !matches!(found, Ok(false))
        });
        assert_eq!(found.unwrap_err().kind(), ErrorKind::PermissionDenied);
        drop(caller);
        assert!(tool.join().unwrap().is_err());
    }

    #[test]
    fn an_answer_that_was_heard_before_is_worth_nothing() {
        let key = ToolKey::of(&JOB_KEY);
        let place = Place::default();
        let (mut caller, mut stream) = called(place);
        let mut greeting = [0; GREETING];
        stream.read_exact(&mut greeting).unwrap();
        let (daemons, _) = greeted(&greeting).unwrap();
        let tools = random::bytes().unwrap();
        let answer = [&tools[..], key.mac(Who::Tool, SOCKET, &daemons, &tools).as_bytes()].concat();
        for half in answer.chunks(ANSWER / 2 + 1) {
            assert!(!caller.is_known(&key, SOCKET).unwrap());
            stream.write_all(half).unwrap();
        }
        assert!(caller.is_known(&key, SOCKET).unwrap());
        let (mut caller, mut stream) = called(place);
        stream.write_all(&answer).unwrap();
        assert_eq!(caller.is_known(&key, SOCKET).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_process_that_repeats_the_tools_answer_is_no_daemon() {
        let key = ToolKey::of(&JOB_KEY);
        let file = key.publish().unwrap();
        let (mut caller, mut stream) = called(Place::of(&file));
        let tool = std::thread::spawn(move || introduce(&mut stream, SOCKET));
        caller.stream.set_nonblocking(false).unwrap();
        let mut answer = [0; ANSWER];
        caller.stream.read_exact(&mut answer).unwrap();
        caller.stream.write_all(&answer[RANDOM..]).unwrap();
        assert!(tool.join().unwrap().unwrap_err().to_string().contains("has not the key"));
    }

    #[test]
    fn a_file_that_is_no_key_neither_blocks_nor_is_accepted() {
        let (pipe, other) = nix::unistd::pipe().unwrap();
        nix::unistd::write(&other, &[7; 64]).unwrap();
        let user = nix::unistd::getuid().as_raw();
        assert!(ToolKey::read(Place::of(&pipe), user).is_err());
        let mut piece = [0; 100];
        assert_eq!(nix::unistd::read(&pipe, &mut piece).unwrap(), 64, "all is still there");
        let long = memfd_create(c"long", MFdFlags::MFD_CLOEXEC).unwrap();
        nix::unistd::write(&long, &[7; 33]).unwrap();
        assert!(ToolKey::read(Place::of(&long), user).is_err());
        let key = ToolKey::of(&JOB_KEY).publish().unwrap();
        assert!(ToolKey::read(Place::of(&key), user + 1).is_err());
        assert!(ToolKey::read(Place::of(&key), user).is_ok());
        assert!(ToolKey::read(Place { pid: u32::MAX, descriptor: 0 }, user).is_err());
    }

    #[test]
    fn the_key_for_tools_is_not_the_jobs_and_nobody_can_change_it() {
        let key = ToolKey::of(&JOB_KEY);
        assert_ne!(key.0, JOB_KEY);
        let mut file = File::from(key.publish().unwrap());
        assert!(file.write_all(b"other").is_err());
        assert!(file.set_len(0).is_err());
    }
}

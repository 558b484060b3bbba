//! Answers queries for the history: an abstract Unix socket of the node that sends its lines, including future ones.
//!
//! Only the job's owner and root are answered ([`greeting`]). A caller that shuts down its side gets only existing
//! lines; its other input is discarded. The connections are closed at the end of the daemon.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use node_abi::greeting::{self, Caller, Place, ToolKey};
use platform::poller::Poller;
use propagation::{NodeId, Time};

use super::{Lines, MOST_BYTES};
use crate::process::token::Token;
use crate::report::status::name_of;
use crate::session::calling;
use crate::session::door::Door;

/// Prefix of these sockets' names.
pub const PREFIX: &str = "ringwatch-events";
/// Maximum number of concurrent callers; further ones are refused.
const CONNECTIONS: usize = 8;
/// Maximum length of an answer that a reader accepts, in bytes.
const LONGEST: u64 = 2 * MOST_BYTES as u64;
/// Time limit for a caller to read its data, and to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server side.
pub struct Feed {
    name: String,
    door: Door,
    key: ToolKey,
    connections: Vec<Connection>,
}

struct Connection {
    caller: Caller,
    is_known: bool,
    /// Number of bytes of the history that it has received or missed.
    sent: u64,
    ends: bool,
    moved: Time,
}

impl Feed {
    /// Listens under the node's name, for callers with the key at this place.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(job: &str, node: NodeId, key: ToolKey, place: Place) -> io::Result<Self> {
        let name = name_of(PREFIX, nix::unistd::getuid().as_raw(), job, node);
        let door = Door::open(&name, Token::Feed, place)?;
        Ok(Self { name, door, key, connections: Vec::new() })
    }

    /// The descriptor that becomes readable when a caller connects.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.door.descriptor()
    }

    /// Accepts callers.
    pub fn accept(&mut self, now: Time, poller: &Poller, lines: Lines<'_>) {
        let callers = self.door.let_in(now, poller, CONNECTIONS.saturating_sub(self.connections.len()));
        let connection = |caller| Connection { caller, is_known: false, sent: 0, ends: false, moved: now };
        self.connections.extend(callers.into_iter().map(connection));
        self.serve(now, lines);
    }

    /// Accepts callers again, see [`Door`].
    pub fn go_on(&mut self, now: Time, poller: &Poller) {
        self.door.go_on(now, poller);
    }

    /// Time at which [`Feed::go_on`] has work.
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.door.deadline()
    }

    /// Sends what is new.
    pub fn serve(&mut self, now: Time, lines: Lines<'_>) {
        let Self { name, key, connections, .. } = self;
        connections.retain_mut(|connection| match connection.caller.is_known(key, name) {
            Ok(true) => connection.goes_on(now, lines),
            Ok(false) => now < connection.moved + PATIENCE,
            Err(_) => false,
        });
    }

    /// Whether a caller has unread data: then [`Feed::serve`] has work.
    #[must_use]
    pub fn is_busy(&self, lines: Lines<'_>) -> bool {
        self.connections.iter().any(|connection| connection.is_known && !connection.unsent(lines).is_empty())
    }
}

impl Connection {
    fn unsent<'a>(&self, lines: Lines<'a>) -> &'a [u8] {
        let had = usize::try_from(self.sent.saturating_sub(lines.gone)).unwrap_or(usize::MAX);
        lines.bytes.get(had..).unwrap_or_default()
    }

    fn goes_on(&mut self, now: Time, lines: Lines<'_>) -> bool {
        self.is_known = true;
        let mut unread = [0; 256];
        // Bounded, because a caller may send without end.
        for _ in 0..4 {
            match self.caller.stream.read(&mut unread) {
                Ok(0) => self.ends = true,
                Ok(_) => continue,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return false,
            }
            break;
        }
        // A caller that has missed lines finds a line that says so.
        self.sent = self.sent.max(lines.gone);
        while !self.unsent(lines).is_empty() {
            match self.caller.stream.write(self.unsent(lines)) {
                Ok(length) => (self.sent, self.moved) = (self.sent + length as u64, now),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return now < self.moved + PATIENCE;
                }
                Err(_) => return false,
            }
        }
        self.moved = now;
        !self.ends
    }
}

/// Queries the daemons behind these sockets for their lines so far, all within one time limit.
#[must_use]
pub fn ask_all(names: Vec<String>) -> Vec<(String, io::Result<Vec<u8>>)> {
    calling::all(names, PATIENCE, |name, stream| {
        let mut lines = Vec::new();
        begin(name, stream, false)?.take(LONGEST).read_to_end(&mut lines)?;
        Ok(lines)
    })
}

/// The same for streams that continue until the daemon ends.
#[must_use]
pub fn follow_all(names: Vec<String>) -> Vec<(String, io::Result<UnixStream>)> {
    calling::all(names, PATIENCE, |name, stream| begin(name, stream, true))
}

/// Connects to the daemon behind a socket. The stream has its lines, and with `follow` continues until the daemon ends.
///
/// # Errors
/// If it has ended, belongs to another user, or lacks the key of the job.
pub fn call(name: &str, follow: bool) -> io::Result<UnixStream> {
    begin(name, calling::connect(name)?, follow)
}

fn begin(name: &str, mut stream: UnixStream, follow: bool) -> io::Result<UnixStream> {
    stream.set_read_timeout(Some(PATIENCE))?;
    greeting::introduce(&mut stream, name)?;
    if follow {
        stream.set_read_timeout(None)?;
    } else {
        stream.shutdown(Shutdown::Write)?;
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use node_abi::testing::tool_key;
    use platform::clock;
    use platform::testing::{as_stranger, as_user};

    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    /// The feed of node 3, and the file of its key for tools.
    fn feed(job: &str) -> (Feed, OwnedFd) {
        let (key, file) = tool_key();
        (Feed::new(job, 3, key, Place::of(&file)).unwrap(), file)
    }

    /// A complete history.
    fn all(bytes: &[u8]) -> Lines<'_> {
        Lines { gone: 0, bytes }
    }

    #[test]
    fn a_stranger_is_neither_answered_nor_asked() {
        let job = format!("feed-stranger-{}", std::process::id());
        let ((mut feed, _file), poller) = (feed(&job), Poller::new().unwrap());
        let name = name_of(PREFIX, nix::unistd::getuid().as_raw(), &job, 3);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let Some(mut caller) = as_stranger(|| UnixStream::connect_addr(&address).unwrap()) else { return };
        feed.accept(clock::now(), &poller, all(b"a line\n"));
        caller.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        assert_eq!((caller.read_to_end(&mut answer).unwrap(), feed.connections.len()), (0, 0));
        drop(feed);
        let _listener = as_stranger(|| UnixListener::bind_addr(&address).unwrap());
        let error = as_user(65533, || call(&name, true).unwrap_err()).unwrap();
        assert!(error.to_string().contains("another user"));
    }

    #[test]
    fn a_caller_gets_what_there_is_and_a_follower_what_comes() {
        let job = format!("feed-test-{}", std::process::id());
        let ((mut feed, _file), poller) = (feed(&job), Poller::new().unwrap());
        let name = name_of(PREFIX, nix::unistd::getuid().as_raw(), &job, 3);
        let mut lines = vec![b'x'; 1 << 20];
        let limit = clock::now() + Duration::from_secs(10);
        let caller = name.clone();
        let caller = std::thread::spawn(move || call(&caller, true).unwrap());
        while !caller.is_finished() {
            feed.accept(clock::now(), &poller, all(&lines));
            assert!(clock::now() < limit, "in time");
        }
        let mut follower = caller.join().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            call(&name, false).unwrap().read_to_end(&mut text).unwrap();
            text.len()
        });
        let mut followed = Vec::new();
        follower.set_nonblocking(true).unwrap();
        let mut serve_until = |feed: &mut Feed, lines: &[u8], done: &mut dyn FnMut(usize) -> bool| loop {
            feed.accept(clock::now(), &poller, all(lines));
            let _ = follower.read_to_end(&mut followed);
            if done(followed.len()) {
                return;
            }
            assert!(clock::now() < limit, "in time");
        };
        serve_until(&mut feed, &lines, &mut |length| reader.is_finished() && length == 1 << 20);
        assert_eq!(reader.join().unwrap(), 1 << 20);
        lines.extend_from_slice(b"more");
        assert!(feed.is_busy(all(&lines)));
        serve_until(&mut feed, &lines, &mut |length| length == (1 << 20) + 4);
        drop(follower);
        feed.serve(clock::now(), all(&lines));
        assert!(feed.connections.is_empty());
    }
}

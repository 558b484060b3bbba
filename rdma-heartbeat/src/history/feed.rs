//! Asking for a history: an abstract Unix socket of the node that hands out its lines, those to come included.
//!
//! Only the job's owner and root are answered ([`greeting`](crate::greeting)). A caller that shuts down its side wants no
//! more than there is; what it sends besides is thrown away. At the end of the daemon the connections are closed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use propagation::{NodeId, Time};

use super::Lines;
use crate::calling;
use crate::greeting::{self, Caller, Place, ToolKey};
use crate::poller::{Poller, Token};
use crate::status::{CALLERS_PER_TURN, name_of};

/// What the names of these sockets begin with.
pub const PREFIX: &str = "ringwatch-events";
/// How many callers are served at once; whoever comes when it is full is turned away.
const CONNECTIONS: usize = 8;
/// How long a caller may leave what it was sent unread, or unanswered.
const PATIENCE: Duration = Duration::from_secs(10);

/// The side of `ringwatchd`.
pub struct Feed {
    name: String,
    listener: UnixListener,
    key: ToolKey,
    place: Place,
    connections: Vec<Connection>,
}

struct Connection {
    caller: Caller,
    is_known: bool,
    /// How many bytes of the history it has had, or has missed.
    sent: u64,
    ends: bool,
    moved: Time,
}

impl Feed {
    /// Listens under the node's name, for those who have the key, which is in this place.
    ///
    /// # Errors
    /// If the name is taken or the system refuses.
    pub fn new(job: &str, node: NodeId, key: ToolKey, place: Place) -> io::Result<Self> {
        let name = name_of(PREFIX, nix::unistd::getuid().as_raw(), job, node);
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { name, listener, key, place, connections: Vec::new() })
    }

    /// What becomes readable when somebody calls.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Takes those who call.
    pub fn accept(&mut self, now: Time, poller: &Poller, lines: Lines<'_>) {
        for (stream, _) in (0..CALLERS_PER_TURN).map_while(|_| self.listener.accept().ok()) {
            if self.connections.len() >= CONNECTIONS {
                continue;
            }
            // Its end, too, is heard through the poller.
            let caller = Caller::new(stream, self.place);
            if let Some(caller) = caller.ok().filter(|caller| poller.add(&caller.stream, Token::Feed).is_ok()) {
                self.connections.push(Connection { caller, is_known: false, sent: 0, ends: false, moved: now });
            }
        }
        self.serve(now, lines);
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

    /// Whether somebody has not taken everything yet: then [`Feed::serve`] has something to do.
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
        // Bounded, because somebody may send without end.
        for _ in 0..4 {
            match self.caller.stream.read(&mut unread) {
                Ok(0) => self.ends = true,
                Ok(_) => continue,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return false,
            }
            break;
        }
        // Who is so far behind that it has missed something finds a line that says so.
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

/// Calls the daemons behind these sockets, all within the time that one has: for their lines so far.
#[must_use]
pub fn ask_all(names: Vec<String>) -> Vec<(String, io::Result<Vec<u8>>)> {
    calling::all(names, PATIENCE, |name, stream| {
        let mut lines = Vec::new();
        begin(name, stream, false)?.read_to_end(&mut lines)?;
        Ok(lines)
    })
}

/// The same for streams that go on until the daemon ends.
#[must_use]
pub fn follow_all(names: Vec<String>) -> Vec<(String, io::Result<UnixStream>)> {
    calling::all(names, PATIENCE, |name, stream| begin(name, stream, true))
}

/// Calls the daemon behind a socket. The stream has its lines, and with `follow` goes on until the daemon ends.
///
/// # Errors
/// If it is gone, is another user's, or has not the key of the job.
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
    use super::*;
    use crate::clock;
    use crate::testing::{as_stranger, as_user, tool_key};
    use std::os::fd::OwnedFd;

    /// That of node 3, and what holds its key for tools.
    fn feed(job: &str) -> (Feed, OwnedFd) {
        let (key, file) = tool_key();
        (Feed::new(job, 3, key, Place::of(&file)).unwrap(), file)
    }

    /// A history of which nothing is gone.
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

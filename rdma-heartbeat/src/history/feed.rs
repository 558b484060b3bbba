//! Asking for a history: an abstract Unix socket of the node that hands out its lines, those to come included.
//!
//! Only the job's owner and root are answered. A caller that shuts down its side wants no more than there is; what it
//! sends is not read. At the end of the daemon the connections are closed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use propagation::{NodeId, Time};

use super::Lines;
use crate::poller::{Poller, Token};
use crate::status::{CALLERS_PER_TURN, is_allowed, name_of};

/// What the names of these sockets begin with.
pub const PREFIX: &str = "ringwatch-events";
/// How many callers are served at once; whoever comes when it is full is turned away.
const CONNECTIONS: usize = 8;
/// How long a caller may leave what it was sent unread.
const PATIENCE: Duration = Duration::from_secs(10);

/// The side of `ringwatchd`.
pub struct Feed {
    listener: UnixListener,
    connections: Vec<Connection>,
}

struct Connection {
    stream: UnixStream,
    /// How many bytes of the history it has had, or has missed.
    sent: u64,
    ends: bool,
    moved: Time,
}

impl Feed {
    /// Listens under the node's name.
    ///
    /// # Errors
    /// If the name is taken or the system refuses.
    pub fn new(job: &str, node: NodeId) -> io::Result<Self> {
        let name = name_of(PREFIX, nix::unistd::getuid().as_raw(), job, node);
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, connections: Vec::new() })
    }

    /// What becomes readable when somebody calls.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Takes those who call.
    pub fn accept(&mut self, now: Time, poller: &Poller, lines: Lines<'_>) {
        for (stream, _) in (0..CALLERS_PER_TURN).map_while(|_| self.listener.accept().ok()) {
            let ready = stream.set_nonblocking(true).is_ok() && is_allowed(&stream);
            // Its end, too, is heard through the poller.
            if ready && self.connections.len() < CONNECTIONS && poller.add(&stream, Token::Feed).is_ok() {
                self.connections.push(Connection { stream, sent: 0, ends: false, moved: now });
            }
        }
        self.serve(now, lines);
    }

    /// Sends what is new.
    pub fn serve(&mut self, now: Time, lines: Lines<'_>) {
        self.connections.retain_mut(|connection| connection.goes_on(now, lines));
    }

    /// Whether somebody has not taken everything yet: then [`Feed::serve`] has something to do.
    #[must_use]
    pub fn is_busy(&self, lines: Lines<'_>) -> bool {
        self.connections.iter().any(|connection| !connection.unsent(lines).is_empty())
    }
}

impl Connection {
    fn unsent<'a>(&self, lines: Lines<'a>) -> &'a [u8] {
        let had = usize::try_from(self.sent.saturating_sub(lines.gone)).unwrap_or(usize::MAX);
        lines.bytes.get(had..).unwrap_or_default()
    }

    fn goes_on(&mut self, now: Time, lines: Lines<'_>) -> bool {
        let mut unread = [0; 256];
        // Bounded, because somebody may send without end.
        for _ in 0..4 {
            match self.stream.read(&mut unread) {
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
            match self.stream.write(self.unsent(lines)) {
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

/// Calls the daemon behind a socket. The stream has its lines, and with `follow` goes on until the daemon ends.
///
/// # Errors
/// If it is gone or is another user's.
pub fn call(name: &str, follow: bool) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    if !is_allowed(&stream) {
        return Err(io::Error::other("the socket belongs to another user"));
    }
    if !follow {
        stream.shutdown(Shutdown::Write)?;
        stream.set_read_timeout(Some(PATIENCE))?;
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::testing::as_stranger;

    /// A history of which nothing is gone.
    fn all(bytes: &[u8]) -> Lines<'_> {
        Lines { gone: 0, bytes }
    }

    #[test]
    fn a_stranger_is_neither_answered_nor_asked() {
        let job = format!("feed-stranger-{}", std::process::id());
        let (mut feed, poller) = (Feed::new(&job, 3).unwrap(), Poller::new().unwrap());
        let name = name_of(PREFIX, nix::unistd::getuid().as_raw(), &job, 3);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let Some(mut caller) = as_stranger(|| UnixStream::connect_addr(&address).unwrap()) else { return };
        feed.accept(clock::now(), &poller, all(b"a line\n"));
        caller.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        assert_eq!((caller.read_to_end(&mut answer).unwrap(), feed.connections.len()), (0, 0));
        drop(feed);
        let _listener = as_stranger(|| UnixListener::bind_addr(&address).unwrap());
        assert!(call(&name, true).unwrap_err().to_string().contains("another user"));
    }

    #[test]
    fn a_caller_gets_what_there_is_and_a_follower_what_comes() {
        let job = format!("feed-test-{}", std::process::id());
        let (mut feed, poller) = (Feed::new(&job, 3).unwrap(), Poller::new().unwrap());
        let name = name_of(PREFIX, nix::unistd::getuid().as_raw(), &job, 3);
        let mut lines = vec![b'x'; 1 << 20];
        let mut follower = call(&name, true).unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            call(&name, false).unwrap().read_to_end(&mut text).unwrap();
            text.len()
        });
        let limit = clock::now() + Duration::from_secs(10);
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

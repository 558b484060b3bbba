//! Manages a local socket of `ringwatchd` for tools. Any process of the node may call; only the job's user and root are
//! accepted.
//!
//! After a call of another user the socket rests: many calls cost one check per rest, and no wakeups in between.
//! Meanwhile tools of the job's user wait in the socket's queue.
//!
//! A name that another process still has, as a `ringwatchd` that is about to end may, is tried again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use node_abi::greeting::{Caller, Place};
use platform::poller::Poller;
use propagation::Time;

use crate::process::token::Token;

/// Maximum number of callers that are checked before heartbeats are handled again.
pub const CALLERS_PER_TURN: usize = 8;
/// Duration of the rest after a call of another user: short compared with tools' time limits.
const REST: Duration = Duration::from_millis(50);
/// Interval of attempts to get a name that is taken.
const TAKEN: Duration = Duration::from_millis(250);

/// The socket.
pub struct Door {
    address: SocketAddr,
    /// `None` while another process has the name.
    listener: Option<UnixListener>,
    token: Token,
    place: Place,
    /// End of the rest, or time of the next attempt.
    rests_until: Option<Time>,
}

impl Door {
    /// Listens under a name of the abstract namespace, as soon as no other process has it. Callers learn this place of
    /// the key.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open(name: &str, token: Token, place: Place) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(name)?;
        let listener = listen(&address)?;
        let rests_until = listener.is_none().then_some(Time::ZERO);
        Ok(Self { address, listener, token, place, rests_until })
    }

    /// The descriptor that becomes readable when a caller connects; [`Door::go_on`] adds a later one to its poller.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Accepts at most `room` callers; the others of this turn are refused.
    pub fn let_in(&mut self, now: Time, poller: &Poller, room: usize) -> Vec<Caller> {
        let (mut callers, mut is_calm) = (Vec::new(), true);
        let Some(listener) = &self.listener else { return callers };
        for (stream, _) in (0..CALLERS_PER_TURN).map_while(|_| listener.accept().ok()) {
            if callers.len() >= room {
                continue;
            }
            match Caller::new(stream, self.place) {
                // The poller also reports its end.
                Ok(caller) => callers.extend(poller.add(&caller.stream, self.token).is_ok().then_some(caller)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => is_calm = false,
                Err(_) => {}
            }
        }
        if !is_calm {
            poller.remove(listener);
            self.rests_until = Some(now + REST);
        }
        callers
    }

    /// Listens again when the rest is over, or when the name is free.
    pub fn go_on(&mut self, now: Time, poller: &Poller) {
        if self.rests_until.take_if(|until| now >= *until).is_none() {
            return;
        }
        if self.listener.is_none() {
            self.listener = listen(&self.address).ok().flatten();
        }
        let Some(listener) = &self.listener else {
            self.rests_until = Some(now + TAKEN);
            return;
        };
        if poller.add(listener, self.token).is_err() {
            self.rests_until = Some(now + REST);
        }
    }

    /// Time at which [`Door::go_on`] has work.
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.rests_until.unwrap_or(Time::MAX)
    }
}

/// A socket under this name; `None` if another process has it.
fn listen(address: &SocketAddr) -> io::Result<Option<UnixListener>> {
    match UnixListener::bind_addr(address) {
        Ok(listener) => listener.set_nonblocking(true).map(|()| Some(listener)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    use node_abi::testing::tool_key;
    use platform::testing::as_stranger;

    #[test]
    fn strangers_that_call_again_and_again_are_looked_at_once_in_a_rest() {
        let name = format!("door-test-{}", std::process::id());
        let (_, file) = tool_key();
        let mut door = Door::open(&name, Token::Status, Place::of(&file)).unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(door.descriptor().unwrap(), Token::Status).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let call = || UnixStream::connect_addr(&address).unwrap();
        let Some(_first) = as_stranger(call) else { return };
        let (now, mut ready) = (Time::from_secs(1), Vec::<Token>::new());
        assert!(door.let_in(now, &poller, 4).is_empty());

        let _second = as_stranger(call);
        let _own = call();
        poller.wait(Time::ZERO, &mut ready).unwrap();
        assert_eq!(ready, []);
        door.go_on(door.deadline() - Duration::from_nanos(1), &poller);
        poller.wait(Time::ZERO, &mut ready).unwrap();
        assert_eq!(ready, []);

        door.go_on(door.deadline(), &poller);
        poller.wait(Time::ZERO, &mut ready).unwrap();
        assert_eq!(ready, [Token::Status]);
        assert_eq!(door.let_in(now, &poller, 4).len(), 1);
    }

    #[test]
    fn a_name_that_another_process_leaves_later_is_taken_then() {
        let name = format!("door-later-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let (_, file) = tool_key();
        let before = UnixListener::bind_addr(&address).unwrap();
        let mut door = Door::open(&name, Token::Status, Place::of(&file)).unwrap();
        let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::<Token>::new());
        let now = Time::from_secs(1);
        door.go_on(now, &poller);
        assert!(door.descriptor().is_none() && door.deadline() == now + TAKEN);

        drop(before);
        door.go_on(now + TAKEN, &poller);
        let _caller = UnixStream::connect_addr(&address).unwrap();
        poller.wait(Time::ZERO, &mut ready).unwrap();
        assert_eq!(ready, [Token::Status]);
        assert_eq!(door.let_in(now, &poller, 4).len(), 1);
        assert_eq!(door.deadline(), Time::MAX);
    }
}

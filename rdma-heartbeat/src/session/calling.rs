//! Calls the daemons of a node for a tool: all at once and within one deadline, so that an unresponsive daemon does not
//! delay the others.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect as connect_to, socket};
use node_abi::greeting;

/// Interval of attempts on a socket with a full queue.
const PAUSE: Duration = Duration::from_millis(10);

/// Connects to the abstract socket of this name, without waiting.
///
/// # Errors
/// `WouldBlock` if too many callers wait there; another error if no process listens, or one of a user whose daemons this
/// process does not ask.
pub fn connect(name: &str) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect_to(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    let stream = UnixStream::from(socket);
    greeting::check_user(&stream, name)?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Queries the daemons behind all these sockets concurrently. Returns answers in order of arrival, and at the end the
/// daemons that have not answered in time. Only this user and root can keep a thread busy; a thread that is still busy
/// then is abandoned.
pub fn all<T, Ask>(names: Vec<String>, patience: Duration, ask: Ask) -> Vec<(String, io::Result<T>)>
where
    T: Send + 'static,
    Ask: Fn(&str, UnixStream) -> io::Result<T> + Clone + Send + 'static,
{
    let until = Instant::now() + patience;
    let (tell, answers) = channel();
    let mut open: BTreeSet<String> = names.into_iter().collect();
    let (mut waiting, mut answered) = (open.clone(), Vec::new());
    while !open.is_empty() {
        waiting.retain(|name| match connect(name) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => true,
            Err(error) => tell.send((name.clone(), Err(error))).is_err(),
            Ok(stream) => {
                let (name, ask, tell) = (name.clone(), ask.clone(), tell.clone());
                // After the deadline the answer is dropped.
                std::thread::spawn(move || tell.send((name.clone(), ask(&name, stream))).is_ok());
                false
            }
        });
        let left = until.saturating_duration_since(Instant::now());
        let first = answers.recv_timeout(if waiting.is_empty() { left } else { left.min(PAUSE) });
        if first.is_err() && left.is_zero() {
            break;
        }
        for (name, answer) in first.into_iter().chain(answers.try_iter()) {
            open.remove(&name);
            answered.push((name, answer));
        }
    }
    let late = || Err(io::Error::new(ErrorKind::TimedOut, "it does not answer in time"));
    answered.extend(open.into_iter().map(|name| (name, late())));
    answered
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::sync::Barrier;

    use nix::sys::socket::{Backlog, bind, listen};

    /// A listener that never answers, with room for `room` callers and one more.
    fn mute(name: &str, room: i32) -> OwnedFd {
        let listener = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).unwrap()).unwrap();
        listen(&listener, Backlog::new(room).unwrap()).unwrap();
        listener
    }

    fn names(what: &str, count: usize) -> Vec<String> {
        (0..count).map(|number| format!("calling-{what}-{}/{number:02}", std::process::id())).collect()
    }

    #[test]
    fn all_are_asked_at_the_same_time() {
        let names = names("all", 20);
        let _listeners: Vec<_> = names.iter().map(|name| mute(name, 8)).collect();
        // With sequential queries, the first would wait for ever.
        let barrier = std::sync::Arc::new(Barrier::new(names.len()));
        let answers = all(names.clone(), Duration::from_secs(60), move |_, _| {
            barrier.wait();
            Ok(())
        });
        let mut answered: Vec<_> = answers.into_iter().map(|(name, answer)| answer.map(|()| name).unwrap()).collect();
        answered.sort();
        assert_eq!(answered, names);
    }

    #[test]
    fn who_does_not_answer_or_has_no_room_takes_no_answer_from_others() {
        let mut names = names("mute", 12);
        let _listeners: Vec<_> = names.iter().map(|name| mute(name, 8)).collect();
        let full = format!("calling-full-{}", std::process::id());
        let _full = mute(&full, 0);
        let _callers: Vec<_> = std::iter::from_fn(|| connect(&full).ok()).collect();
        assert_eq!(connect(&full).unwrap_err().kind(), ErrorKind::WouldBlock);
        let nobody = format!("calling-nobody-{}", std::process::id());
        names.extend([full.clone(), nobody.clone()]);
        let last = names[11].clone();
        let speaks = last.clone();
        let answers = all(names.clone(), Duration::from_secs(2), move |name, mut stream| {
            if name == speaks { Ok(()) } else { stream.read_exact(&mut [0]) }
        });
        let kinds: Vec<_> =
            answers.iter().map(|(name, answer)| (name, answer.as_ref().map_err(io::Error::kind))).collect();
        assert_eq!(kinds.len(), names.len());
        assert!(
            kinds[..2].contains(&(&last, Ok(&())))
                && kinds[..2].contains(&(&nobody, Err(ErrorKind::ConnectionRefused)))
        );
        assert!(kinds[2..].iter().all(|(_, kind)| *kind == Err(ErrorKind::TimedOut)), "{kinds:?}");
    }

    #[test]
    fn a_place_that_becomes_free_is_taken() {
        let full = format!("calling-freed-{}", std::process::id());
        let listener = std::os::unix::net::UnixListener::from(mute(&full, 0));
        let callers = std::iter::from_fn(|| connect(&full).ok()).count();
        let free = std::thread::spawn(move || (0..=callers).map(|_| listener.accept().unwrap().0).collect::<Vec<_>>());
        let answers = all(vec![full.clone()], Duration::from_secs(60), |_, _| Ok(()));
        assert!(matches!(&answers[..], [(name, Ok(()))] if *name == full));
        assert_eq!(free.join().unwrap().len(), callers + 1);
    }
}

//! Filters connections to the port through which daemons of PRRTE 3.0 connect with each other.
//!
//! PRRTE asks for no credential, and lets a sender that claims to be a connected daemon replace that daemon's
//! connection (`oob_tcp_connection.c`, `retry`). libprrte calls `accept` only for new connections, and `recv` only for
//! their greetings, so ringwatch replaces these two functions. To PRRTE a refused connection looks closed by its
//! sender, and it forgets it.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::jumps;
use crate::runtime::Doorkeeper;

/// Length of `prte_oob_tcp_hdr_t`, equal in every 3.0 release, and offsets of the inspected fields.
const HEADER: usize = 568;
const RANK: usize = 256;
const LENGTH: usize = 528;
const TYPE: usize = 532;
/// `MCA_OOB_TCP_IDENT`: the sender identifies itself.
const IDENTITY: u8 = 1;
/// First two bytes after the header of a connection request.
const WANTS: [u8; 2] = [0, 1];
/// Maximum length of the data after the header: these two bytes and the name of a release.
const MOST: usize = 256;
/// Maximum time for which PRRTE's thread waits for a greeting.
const PATIENCE: libc::timeval = libc::timeval { tv_sec: 1, tv_usec: 0 };
/// `TCP_ESTABLISHED`
const ESTABLISHED: u8 = 1;

static KEEPER: OnceLock<&'static dyn Doorkeeper> = OnceLock::new();
static NEWCOMERS: Mutex<BTreeMap<RawFd, Newcomer>> = Mutex::new(BTreeMap::new());

/// A new connection.
struct Newcomer {
    /// The kernel's unique number of the socket.
    socket: u64,
    /// The daemon that it claims to be, once accepted.
    daemon: Option<u32>,
}

/// Makes libprrte, the library that contains `function`, ask this keeper. False if its procedure linkage table cannot
/// be written, or there is a keeper.
pub fn keep(function: *mut c_void, keeper: &'static dyn Doorkeeper) -> bool {
    // SAFETY: functions of the same types, in a library that stays loaded (the plugin keeps itself in the process of a
    // fault-tolerant job).
    KEEPER.set(keeper).is_ok()
        && unsafe {
            jumps::replace(function, "recv", receive as *const c_void)
                && jumps::replace(function, "accept", accept as *const c_void)
        }
}

/// Ends every accepted connection except those of daemons that `keeps` selects. Only while PRRTE's own thread waits.
pub fn clear(keeps: &dyn Fn(u32) -> bool) {
    for (descriptor, newcomer) in &*newcomers() {
        if number_of(*descriptor) == Some(newcomer.socket) && !newcomer.daemon.is_some_and(keeps) {
            // SAFETY: a system call; only PRRTE closes the socket, and it waits.
            unsafe { libc::shutdown(*descriptor, libc::SHUT_RDWR) };
        }
    }
}

/// Replaces `accept`.
unsafe extern "C" fn accept(listener: c_int, address: *mut libc::sockaddr, length: *mut libc::socklen_t) -> c_int {
    // SAFETY: the caller's own arguments.
    let descriptor = unsafe { libc::accept(listener, address, length) };
    if descriptor < 0 || catch_unwind(AssertUnwindSafe(|| lets_in(descriptor))).unwrap_or(true) {
        return descriptor;
    }
    // SAFETY: the accepted socket, which has no other user; PRRTE treats this error as a vanished caller.
    unsafe {
        libc::close(descriptor);
        *libc::__errno_location() = libc::EAGAIN;
    }
    -1
}

fn lets_in(descriptor: RawFd) -> bool {
    let Some(keeper) = KEEPER.get() else { return true };
    // Before the keeper decides: it may be about to clear the port.
    let Some(socket) = number_of(descriptor) else { return false };
    newcomers().insert(descriptor, Newcomer { socket, daemon: None });
    let (patience, size) = (PATIENCE, size_of::<libc::timeval>() as libc::socklen_t);
    // SAFETY: the socket that was accepted.
    unsafe {
        libc::setsockopt(descriptor, libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const patience).cast(), size);
        keeper.admits(BorrowedFd::borrow_raw(descriptor))
    }
}

/// Replaces `recv`.
unsafe extern "C" fn receive(descriptor: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize {
    if length == HEADER && catch_unwind(AssertUnwindSafe(|| is_turned_away(descriptor))).unwrap_or(false) {
        return 0;
    }
    // SAFETY: the caller's own arguments.
    unsafe { libc::recv(descriptor, buffer, length, flags) }
}

/// Whether this new connection has not identified itself as an acceptable daemon.
fn is_turned_away(descriptor: RawFd) -> bool {
    let (Some(keeper), Some(socket)) = (KEEPER.get(), number_of(descriptor)) else { return false };
    let is_new = |newcomer: &Newcomer| newcomer.socket == socket && newcomer.daemon.is_none();
    if !newcomers().get(&descriptor).is_some_and(is_new) {
        return false;
    }
    let mut message = [0; HEADER + MOST];
    let read = look_ahead(descriptor, &mut message);
    let Some((nspace, daemon)) = identity(&message[..read]) else { return true };
    let mut newcomers = newcomers();
    let is_taken = newcomers.iter().any(|(descriptor, newcomer)| {
        newcomer.daemon == Some(daemon) && number_of(*descriptor) == Some(newcomer.socket) && is_connected(*descriptor)
    });
    // SAFETY: PRRTE keeps the socket open during the call.
    let connection = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let is_believed = keeper.takes(connection, nspace, daemon, is_taken);
    if is_believed {
        newcomers.insert(descriptor, Newcomer { socket, daemon: Some(daemon) });
    }
    !is_believed
}

/// Peeks at the greeting of a new connection, which stays in the socket; returns the length that has arrived in time.
fn look_ahead(descriptor: RawFd, message: &mut [u8; HEADER + MOST]) -> usize {
    let mut look = |length: usize| {
        // SAFETY: writes at most to the end of the buffer.
        let read =
            unsafe { libc::recv(descriptor, message.as_mut_ptr().cast(), length, libc::MSG_PEEK | libc::MSG_WAITALL) };
        (usize::try_from(read) == Ok(length)).then(|| length_of(message))
    };
    look(HEADER).flatten().and_then(|length| look(HEADER + length).flatten()).map_or(0, |length| HEADER + length)
}

/// Length of the data after a header, if it is that of a greeting.
fn length_of(header: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(header[LENGTH..LENGTH + 4].try_into().ok()?);
    usize::try_from(length).ok().filter(|length| (WANTS.len()..=MOST).contains(length))
}

/// The daemon, and its job of daemons, that a greeting's sender claims to be.
fn identity(message: &[u8]) -> Option<(&CStr, u32)> {
    let is_greeting = *message.get(TYPE)? == IDENTITY && message.get(HEADER..HEADER + WANTS.len())? == WANTS;
    let nspace = CStr::from_bytes_until_nul(&message[..RANK]).ok().filter(|_| is_greeting)?;
    Some((nspace, u32::from_be_bytes(message[RANK..RANK + 4].try_into().ok()?)))
}

/// The kernel's number of a socket.
fn number_of(descriptor: RawFd) -> Option<u64> {
    let mut number = 0_u64;
    ask(descriptor, libc::SOL_SOCKET, libc::SO_COOKIE, &mut number).then_some(number)
}

/// Whether neither end of a connection has closed it.
fn is_connected(descriptor: RawFd) -> bool {
    // The first byte of `struct tcp_info`.
    let mut state = 0_u8;
    ask(descriptor, libc::IPPROTO_TCP, libc::TCP_INFO, &mut state) && state == ESTABLISHED
}

fn ask<T: Copy>(descriptor: RawFd, level: c_int, name: c_int, value: &mut T) -> bool {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: writes at most as many bytes as the number has; any descriptor may be passed.
    unsafe { libc::getsockopt(descriptor, level, name, (&raw mut *value).cast(), &raw mut size) == 0 }
}

fn newcomers() -> MutexGuard<'static, BTreeMap<RawFd, Newcomer>> {
    NEWCOMERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    fn greeting(nspace: &[u8], daemon: u32, kind: u8, rest: &[u8]) -> Vec<u8> {
        let mut message = vec![0; HEADER];
        message[..nspace.len()].copy_from_slice(nspace);
        message[RANK..RANK + 4].copy_from_slice(&daemon.to_be_bytes());
        message[LENGTH..LENGTH + 4].copy_from_slice(&(rest.len() as u32).to_be_bytes());
        message[TYPE] = kind;
        message.extend(rest);
        message
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, there)
    }

    #[test]
    fn a_greeting_says_who_sends_it_and_nothing_else_does() {
        let good = greeting(b"prterun-a-1@0", 7, IDENTITY, b"\0\x013.0.8\0");
        assert_eq!(identity(&good), Some((c"prterun-a-1@0", 7)));
        for bad in [
            greeting(b"prterun-a-1@0", 7, 2, b"\0\x013.0.8\0"),
            greeting(b"prterun-a-1@0", 7, IDENTITY, b"\0\x003.0.8\0"),
            greeting(&[b'x'; RANK], 7, IDENTITY, b"\0\x013.0.8\0"),
            good[..HEADER].to_vec(),
            Vec::new(),
        ] {
            assert_eq!(identity(&bad), None);
        }
        assert_eq!(length_of(&greeting(b"a", 1, IDENTITY, &[0; MOST])), Some(MOST));
        assert_eq!(length_of(&greeting(b"a", 1, IDENTITY, &[0; MOST + 1])), None);
        assert_eq!(length_of(&greeting(b"a", 1, IDENTITY, &[0])), None);
    }

    #[test]
    fn a_greeting_is_looked_at_whole_and_stays_to_be_read() {
        let (mut here, mut there) = pair();
        let sent = greeting(b"prterun-a-1@0", 7, IDENTITY, b"\0\x013.0.8\0");
        let mut message = [0; HEADER + MOST];
        std::thread::scope(|scope| {
            scope.spawn(|| sent.chunks(100).for_each(|part| there.write_all(part).unwrap()));
            assert_eq!(look_ahead(here.as_raw_fd(), &mut message), sent.len());
        });
        assert_eq!(message[..sent.len()], sent);
        let mut read = vec![0; sent.len()];
        here.read_exact(&mut read).unwrap();
        assert_eq!(read, sent);
        // Half of it, and then no more.
        there.write_all(&sent[..HEADER - 1]).unwrap();
        there.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(look_ahead(here.as_raw_fd(), &mut message), 0);
    }

    #[test]
    fn a_connection_is_whole_until_one_end_has_closed_it_and_has_a_number_of_its_own() {
        let (here, there) = pair();
        let (other, _) = pair();
        assert!(is_connected(here.as_raw_fd()));
        assert_ne!(number_of(here.as_raw_fd()).unwrap(), number_of(other.as_raw_fd()).unwrap());
        drop(there);
        assert!(!is_connected(here.as_raw_fd()));
    }
}

//! A network that can fall apart: every datagram goes through a socket of the test, which knows its sender by the
//! address it came from.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

const STOP: u64 = 1 << 63;

/// Most datagrams that are kept.
const KEPT: usize = 256;

/// A datagram that was forwarded.
#[derive(Clone)]
pub struct Passed {
    pub to: usize,
    pub bytes: Vec<u8>,
}

/// Forwards datagrams between up to 63 nodes until it is dropped.
pub struct Relay {
    addresses: Vec<SocketAddr>,
    /// Bit n: node n is on the other side. The highest bit ends the thread.
    cut: Arc<AtomicU64>,
    /// Whether datagrams are lost and come twice.
    is_bad: Arc<AtomicBool>,
    passed: Arc<Mutex<Vec<Passed>>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub fn new(nodes: &[UdpSocket]) -> Self {
        let real: Vec<_> = nodes.iter().map(|socket| socket.local_addr().unwrap()).collect();
        let sockets: Vec<_> = nodes.iter().map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let addresses = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
        let cut = Arc::new(AtomicU64::new(0));
        let passed = Arc::new(Mutex::new(Vec::new()));
        let is_bad = Arc::new(AtomicBool::new(false));
        let (shared, keep, bad) = (Arc::clone(&cut), Arc::clone(&passed), Arc::clone(&is_bad));
        let thread = std::thread::spawn(move || forward(&sockets, &real, &shared, &bad, &keep));
        Self { addresses, cut, is_bad, passed, thread: Some(thread) }
    }

    /// Where the nodes seem to be.
    pub fn roster(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    /// The first datagrams that were forwarded.
    pub fn passed(&self) -> Vec<Passed> {
        self.passed.lock().unwrap().clone()
    }

    /// From now on these nodes and the others do not hear each other.
    pub fn cut_off(&self, nodes: &[usize]) {
        self.cut.store(nodes.iter().fold(0, |bits, node| bits | 1 << node), Ordering::SeqCst);
    }
}

impl Relay {
    /// From now on every third datagram is lost, and every other one comes again after the next.
    pub fn go_bad(&self) {
        self.is_bad.store(true, Ordering::SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut.fetch_or(STOP, Ordering::SeqCst);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn forward(
    sockets: &[UdpSocket],
    real: &[SocketAddr],
    cut: &AtomicU64,
    is_bad: &AtomicBool,
    passed: &Mutex<Vec<Passed>>,
) {
    let mut buffer = vec![0; 65_536];
    let (mut count, mut late) = (0_u64, None::<(Vec<u8>, usize)>);
    loop {
        let mut waiting: Vec<_> = sockets.iter().map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)).collect();
        let _ = poll(&mut waiting, PollTimeout::from(20u8));
        let ready: Vec<_> = (0..sockets.len()).filter(|n| waiting[*n].any() == Some(true)).collect();
        let sides = cut.load(Ordering::SeqCst);
        if sides & STOP != 0 {
            return;
        }
        for to in ready {
            let Ok((length, from)) = sockets[to].recv_from(&mut buffer) else { continue };
            let Some(from) = real.iter().position(|address| *address == from) else { continue };
            if (sides >> from) & 1 == (sides >> to) & 1 {
                count += u64::from(is_bad.load(Ordering::SeqCst));
                if count % 3 == 1 {
                    continue;
                }
                let _ = sockets[to].send_to(&buffer[..length], real[to]);
                if let Some((bytes, to)) = late.take() {
                    let _ = sockets[to].send_to(&bytes, real[to]);
                } else if count > 0 {
                    late = Some((buffer[..length].to_vec(), to));
                }
                let mut passed = passed.lock().unwrap();
                if passed.len() < KEPT {
                    passed.push(Passed { to, bytes: buffer[..length].to_vec() });
                }
            }
        }
    }
}

//! A bad network: datagrams between the hosts pass through this process, which loses, doubles and delays them.
//!
//! The kernel's own `netem` is missing in many kernels. Here a filter at each host's port of the bridge turns UDP aside
//! into one link, and what arrives there is handed to the port of its receiver, or not. All else takes its usual way,
//! and the daemons are those that a user installs. Two hosts reach each other if the same bridge has both ports.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

use super::plan::Weather;
use crate::clock::now;
use crate::job::TIMEOUT;
use crate::lab::{hosts, port, run};
use crate::wire;

/// The link to which datagrams are turned aside, and its other end, where they are taken.
const ASIDE: &str = "rwc0";
const TAKEN: &str = "rwc1";

/// See [`Storm::late`].
type Lateness = Arc<Mutex<Vec<(Duration, Duration)>>>;

/// The weather, until it is dropped.
pub struct Storm {
    ends: Arc<AtomicBool>,
    relay: Option<JoinHandle<()>>,
    late: Lateness,
}

impl Storm {
    /// Turns the datagrams of all hosts aside.
    ///
    /// # Panics
    /// If the kernel cannot do that.
    #[must_use]
    pub fn begin(weather: Weather, seed: u64) -> Self {
        clear();
        run("ip", &["link", "add", ASIDE, "type", "veth", "peer", "name", TAKEN]);
        [ASIDE, TAKEN].iter().for_each(|link| drop(run("ip", &["link", "set", link, "up"])));
        let source = wire::open(TAKEN).expect("a new link can be listened to");
        let ends = Arc::new(AtomicBool::new(false));
        let mut relay = Relay::new(weather, seed, source);
        let (seen, late) = (Arc::clone(&ends), Arc::clone(&relay.late));
        let relay = thread::spawn(move || relay.run(&seen));
        for host in hosts() {
            let port = port(host);
            run("tc", &["qdisc", "add", "dev", &port, "ingress"]);
            let udp = "protocol ip u32 match ip protocol 17 0xff action mirred egress redirect dev rwc0";
            let words: Vec<&str> = udp.split(' ').collect();
            run("tc", &[&["filter", "add", "dev", &port, "parent", "ffff:"], &words[..]].concat());
        }
        Self { ends, relay: Some(relay), late }
    }

    /// When this process ran again after it was kept from running for a third of the daemons' timeout or more, and for
    /// how long it was: so much later than was meant datagrams may have come.
    #[must_use]
    pub fn late(&self) -> Vec<(Duration, Duration)> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        clear();
        if let Some(relay) = self.relay.take() {
            let _ = relay.join();
        }
    }
}

/// Takes away what this or an earlier process has set up.
fn clear() {
    for host in hosts() {
        let port = port(host);
        let turned = run("tc", &["qdisc", "show", "dev", &port]).contains("ingress");
        turned.then(|| run("tc", &["qdisc", "delete", "dev", &port, "ingress"]));
    }
    if fs::exists(format!("/sys/class/net/{ASIDE}")).unwrap_or(false) {
        run("ip", &["link", "delete", ASIDE]);
    }
}

/// A frame that waits for its time, the earliest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due: Duration,
    number: u64,
    from: u8,
    to: u8,
    frame: Vec<u8>,
}

struct Relay {
    weather: Weather,
    random: Pcg64Mcg,
    source: OwnedFd,
    waiting: BinaryHeap<Reverse<Waiting>>,
    count: u64,
    late: Lateness,
}

impl Relay {
    fn new(weather: Weather, seed: u64, source: OwnedFd) -> Self {
        let random = Pcg64Mcg::seed_from_u64(seed);
        Self { weather, random, source, waiting: BinaryHeap::new(), count: 0, late: Arc::default() }
    }

    fn run(&mut self, ends: &AtomicBool) {
        // The weather is no fault of the machine's load. Without the right to be first, lateness tells.
        let first = libc::sched_param { sched_priority: 1 };
        // SAFETY: a struct that lives here; 0 is this thread.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) };
        let mut buffer = vec![0; 65_536];
        let mut done = now();
        while !ends.load(Ordering::Relaxed) {
            let wait = self.wait();
            let late = now().saturating_sub(done + wait);
            if late > TIMEOUT / 3 {
                self.late.lock().unwrap_or_else(PoisonError::into_inner).push((now(), late));
            }
            while let Some(length) = receive(&self.source, &mut buffer) {
                self.take(&buffer[..length]);
            }
            let time = now();
            while self.waiting.peek().is_some_and(|Reverse(first)| first.due <= time) {
                let Some(Reverse(frame)) = self.waiting.pop() else { break };
                self.deliver(&frame);
            }
            done = time;
        }
    }

    /// Until a frame comes or is due, a few milliseconds at most; returns how long that was to be at the longest.
    fn wait(&self) -> Duration {
        let next = self.waiting.peek().map_or(Duration::MAX, |Reverse(first)| first.due.saturating_sub(now()));
        let wait = next.min(Duration::from_millis(20)).as_micros().div_ceil(1000);
        let wait = i32::try_from(wait).unwrap_or(20);
        let mut poll = libc::pollfd { fd: self.source.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one struct that lives here, and its count.
        unsafe { libc::poll(&raw mut poll, 1, wait) };
        Duration::from_millis(u64::try_from(wait).unwrap_or(0))
    }

    fn take(&mut self, frame: &[u8]) {
        let Some((from, to)) = ends_of(frame) else { return };
        let copies = if self.happens(self.weather.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            if self.happens(self.weather.loss) {
                continue;
            }
            let most = u64::from(self.weather.delay) * 1000 + 1;
            let due = now() + Duration::from_micros(self.random.next_u64() % most);
            self.count += 1;
            let (number, frame) = (self.count, without_checksum(frame));
            self.waiting.push(Reverse(Waiting { due, number, from, to, frame }));
        }
    }

    fn happens(&mut self, per_mille: u32) -> bool {
        self.random.next_u64() % 1000 < u64::from(per_mille)
    }

    fn deliver(&self, waiting: &Waiting) {
        let Waiting { from, to, frame, .. } = waiting;
        if bridge_of(*from).is_none() || bridge_of(*from) != bridge_of(*to) {
            return;
        }
        // A link that is down takes nothing, like any other.
        let _ = send(&self.source, &format!("v{to}"), frame);
    }
}

/// Numbers of the hosts between which a frame with IPv4 travels.
fn ends_of(frame: &[u8]) -> Option<(u8, u8)> {
    let (source, target) = (frame.get(26..30)?, frame.get(30..34)?);
    (source[..3] == [10, 77, 0] && target[..3] == [10, 77, 0]).then_some((source[3], target[3]))
}

/// The kernel leaves the checksum to a device that is not there; 0 stands for none.
fn without_checksum(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let udp = wire::ETHERNET + usize::from(frame[wire::ETHERNET] & 15) * 4;
    if let Some(checksum) = frame.get_mut(udp + 6..udp + 8) {
        checksum.fill(0);
    }
    frame
}

fn bridge_of(host: u8) -> Option<PathBuf> {
    fs::read_link(format!("/sys/class/net/v{host}/master")).ok()
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Option<usize> {
    // SAFETY: writes at most the length of the buffer into it.
    let length =
        unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
    usize::try_from(length).ok()
}

/// Sends a frame out of an interface, to the host behind it.
fn send(socket: &OwnedFd, interface: &str, frame: &[u8]) -> io::Result<()> {
    let address = wire::address(interface)?;
    let size = u32::try_from(size_of_val(&address)).expect("a small struct");
    // SAFETY: a buffer and a struct that live here, with their lengths.
    let sent = unsafe {
        libc::sendto(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, (&raw const address).cast(), size)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_frame_are_hosts() {
        let mut frame = vec![0; 50];
        frame[wire::ETHERNET] = 0x45;
        frame[26..34].copy_from_slice(&[10, 77, 0, 3, 10, 77, 0, 12]);
        frame[40..42].copy_from_slice(&[7, 7]);
        assert_eq!(ends_of(&frame), Some((3, 12)));
        assert_eq!(without_checksum(&frame)[40..42], [0, 0]);
        frame[30] = 224;
        assert_eq!(ends_of(&frame), None);
        assert_eq!(ends_of(&frame[..33]), None);
    }
}

//! Connections to and from processes that are in no communicator with this one: those that were spawned in place of the
//! dead.
//!
//! Each process listens from its start, and looks for callers once somebody has died. A spawned process calls all that
//! live. The first bytes of a connection say who calls, and with a key of the job that it may. A message follows the four
//! bytes of its length.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::packet::Packet;

/// Bytes of the key of a job.
pub const KEY: usize = 16;
/// Bytes of a [`Greeting`].
const GREETING: usize = KEY + 18;
/// Bytes of a length.
const LENGTH: usize = 4;
/// How long a living process may take to be called.
const CALL: Duration = Duration::from_secs(5);
/// Bytes that are read of a connection in one turn, and of a message at once.
const TURN: usize = 1 << 20;
/// Callers that have not said who they are.
const MOST_CALLERS: usize = 64;
/// Descriptors that are looked at in one turn.
const EVENTS: usize = 64;
/// The token of the listener; those of callers begin behind it.
const LISTENER: u64 = 1 << 32;

/// How a process is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number among the processes of the program.
    pub process: u32,
    /// Its number among all ranks of all jobs of this mpirun.
    pub number: u32,
    /// Where it listens.
    pub address: SocketAddrV4,
}

/// What a caller says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Greeting {
    key: [u8; KEY],
    /// The process that is called.
    to: u32,
    from: Peer,
}

impl Greeting {
    fn encode(&self) -> [u8; GREETING] {
        let mut bytes = [0; GREETING];
        let Peer { process, number, address } = self.from;
        let parts: [&[u8]; 6] = [
            &self.key,
            &self.to.to_le_bytes(),
            &process.to_le_bytes(),
            &number.to_le_bytes(),
            &address.ip().octets(),
            &address.port().to_le_bytes(),
        ];
        bytes.copy_from_slice(&parts.concat());
        bytes
    }

    fn decode(bytes: &[u8; GREETING]) -> Self {
        let (key, rest) = bytes.split_at(KEY);
        let word = |place: usize| <[u8; 4]>::try_from(&rest[4 * place..4 * place + 4]).unwrap_or_default();
        let port = u16::from_le_bytes([rest[16], rest[17]]);
        let address = SocketAddrV4::new(Ipv4Addr::from(word(3)), port);
        let from = Peer { process: u32::from_le_bytes(word(1)), number: u32::from_le_bytes(word(2)), address };
        Self { key: key.try_into().unwrap_or_default(), to: u32::from_le_bytes(word(0)), from }
    }
}

/// A connection.
struct Link {
    stream: TcpStream,
    waiting: VecDeque<Packet>,
    /// Bytes of the first waiting message, and of its length, that have left.
    gone: usize,
    arrived: Vec<u8>,
    /// Nothing can be written. What has arrived is still there.
    is_deaf: bool,
    is_cut: bool,
}

impl Link {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, waiting: VecDeque::new(), gone: 0, arrived: Vec::new(), is_deaf: false, is_cut: false })
    }

    /// Writes as much as there is room for.
    fn write(&mut self) {
        while let Some(packet) = self.waiting.front() {
            let length = (packet.len() as u32).to_le_bytes();
            let head = length.get(self.gone..).unwrap_or_default();
            let body = packet.get(self.gone.saturating_sub(LENGTH)..).unwrap_or_default();
            match self.stream.write_vectored(&[io::IoSlice::new(head), io::IoSlice::new(body)]) {
                Ok(count) => self.gone += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_deaf = true;
                    return self.waiting.clear();
                }
            }
            if self.waiting.front().is_some_and(|packet| self.gone == LENGTH + packet.len()) {
                self.waiting.pop_front();
                self.gone = 0;
            }
        }
    }

    /// Reads what has arrived.
    fn read(&mut self) {
        let mut bytes = [0; 1 << 16];
        let before = self.arrived.len();
        while !self.is_cut && self.arrived.len() < before + TURN {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.is_cut = true,
                Ok(count) => self.arrived.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.is_cut = true,
            }
        }
    }

    /// Takes the messages that are there as a whole.
    fn messages(&mut self, mut take: impl FnMut(Vec<u8>)) {
        let mut begin = 0;
        while let Some(length) = self.arrived.get(begin..begin + LENGTH) {
            let length = length.try_into().map_or(0, u32::from_le_bytes) as usize;
            let Some(message) = self.arrived.get(begin + LENGTH..begin + LENGTH + length) else { break };
            take(message.to_vec());
            begin += LENGTH + length;
        }
        self.arrived.drain(..begin);
    }

    /// The greeting of a caller, once it is there.
    fn greeting(&mut self) -> Option<Greeting> {
        let greeting = Greeting::decode(self.arrived.get(..GREETING)?.try_into().ok()?);
        self.arrived.drain(..GREETING);
        Some(greeting)
    }

    /// Whether everything has left and been received by the other machine, or nothing will.
    fn is_idle(&self) -> bool {
        let mut left = 0;
        // SAFETY: a socket of this process, and room for the answer.
        let asked = unsafe { libc::ioctl(self.stream.as_raw_fd(), libc::TIOCOUTQ, &mut left) };
        self.is_deaf || self.is_cut || self.waiting.is_empty() && (asked != 0 || left == 0)
    }
}

/// The connections of this process.
pub struct Links {
    key: [u8; KEY],
    own: Peer,
    listener: TcpListener,
    epoll: Epoll,
    links: BTreeMap<u32, Link>,
    peers: BTreeMap<u32, Peer>,
    /// The processes that were connected at some time.
    linked: BTreeSet<u32>,
    callers: BTreeMap<u64, Link>,
    next_caller: u64,
    /// Numbers of processes that were connected, or are in the communicator.
    met: BTreeSet<u32>,
    /// Numbers of processes that died without that.
    unmet: BTreeSet<u32>,
    is_looking: bool,
}

impl Links {
    /// Those of a process, which listens at a port that the system chooses. `own` gets that.
    ///
    /// # Errors
    /// The system's.
    pub fn listen(key: [u8; KEY], own: Peer) -> io::Result<Self> {
        let listener = TcpListener::bind(own.address)?;
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        let address = SocketAddrV4::new(*own.address.ip(), listener.local_addr()?.port());
        Ok(Self {
            key,
            own: Peer { address, ..own },
            listener,
            epoll,
            links: BTreeMap::new(),
            peers: BTreeMap::new(),
            linked: BTreeSet::new(),
            callers: BTreeMap::new(),
            next_caller: LISTENER + 1,
            met: BTreeSet::new(),
            unmet: BTreeSet::new(),
            is_looking: false,
        })
    }

    /// This process.
    pub fn own(&self) -> Peer {
        self.own
    }

    /// The key of the job.
    pub fn key(&self) -> [u8; KEY] {
        self.key
    }

    /// The key, where another process has drawn it, and the processes that are in the communicator.
    pub fn join(&mut self, key: [u8; KEY], peers: impl IntoIterator<Item = Peer>) {
        self.key = key;
        for peer in peers {
            self.met.insert(peer.number);
            self.peers.insert(peer.process, peer);
        }
    }

    /// Where a process is, dead or not, if that is known.
    pub fn peer(&self, process: u32) -> Option<Peer> {
        self.peers.get(&process).copied()
    }

    /// Calls a process. Returns whether it answers: else it is dead.
    pub fn call(&mut self, peer: Peer) -> bool {
        self.is_looking = true;
        let greeting = Greeting { key: self.key, to: peer.process, from: self.own };
        let link = TcpStream::connect_timeout(&peer.address.into(), CALL).and_then(|mut stream| {
            stream.write_all(&greeting.encode())?;
            Link::new(stream)
        });
        self.meet(peer);
        link.is_ok_and(|link| self.add(peer.process, link))
    }

    fn meet(&mut self, peer: Peer) {
        self.met.insert(peer.number);
        self.unmet.remove(&peer.number);
        self.linked.insert(peer.process);
        self.peers.insert(peer.process, peer);
    }

    fn add(&mut self, process: u32, link: Link) -> bool {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, process.into());
        let is_added = self.epoll.add(&link.stream, event).is_ok();
        if is_added {
            self.links.insert(process, link);
        }
        is_added
    }

    /// Sends to a process. One that is dead does not get it.
    pub fn send(&mut self, process: u32, packet: Packet) {
        if let Some(link) = self.links.get_mut(&process).filter(|link| !link.is_deaf) {
            link.waiting.push_back(packet);
            link.write();
        }
    }

    /// Whether everything that was sent has left.
    pub fn are_idle(&self) -> bool {
        self.links.values().all(Link::is_idle)
    }

    /// The processes with these numbers are dead, among others.
    pub fn note_dead(&mut self, numbers: &[u32]) {
        self.is_looking = true;
        let peers = self.peers.values().filter(|peer| numbers.contains(&peer.number));
        for process in peers.map(|peer| peer.process).collect::<Vec<_>>() {
            self.links.remove(&process);
        }
        self.unmet.extend(numbers.iter().filter(|number| !self.met.contains(number)));
    }

    /// How many processes have died that never called.
    pub fn unmet(&self) -> usize {
        self.unmet.len()
    }

    /// The processes that were connected, or called, and are dead.
    pub fn dead(&self) -> impl Iterator<Item = u32> {
        self.linked.iter().filter(|process| !self.links.contains_key(*process)).copied()
    }

    /// One turn. Adds the messages that are there, with their senders. Returns whether a connection has ended.
    pub fn turn(&mut self, there: &mut Vec<(u32, Vec<u8>)>) -> bool {
        if !self.is_looking {
            return false;
        }
        let mut events = [EpollEvent::empty(); EVENTS];
        let count = self.epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        for event in &events[..count] {
            match event.data() {
                LISTENER => self.accept(),
                caller if caller > LISTENER => self.hear(caller, there),
                process => self.read(process as u32, there),
            }
        }
        self.links.values_mut().filter(|link| !link.waiting.is_empty()).for_each(Link::write);
        let count = self.links.len();
        self.links.retain(|_, link| !link.is_cut);
        self.links.len() < count
    }

    fn read(&mut self, process: u32, there: &mut Vec<(u32, Vec<u8>)>) {
        if let Some(link) = self.links.get_mut(&process) {
            link.read();
            link.messages(|message| there.push((process, message)));
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let Ok(link) = Link::new(stream) else { continue };
            let token = self.next_caller;
            self.next_caller += 1;
            if self.epoll.add(&link.stream, EpollEvent::new(EpollFlags::EPOLLIN, token)).is_ok() {
                self.callers.insert(token, link);
            }
            if self.callers.len() > MOST_CALLERS {
                self.callers.pop_first();
            }
        }
    }

    /// A caller says who it is.
    fn hear(&mut self, token: u64, there: &mut Vec<(u32, Vec<u8>)>) {
        let Some(mut caller) = self.callers.remove(&token) else { return };
        caller.read();
        match caller.greeting() {
            None if !caller.is_cut => {
                self.callers.insert(token, caller);
            }
            Some(greeting) if greeting.key == self.key && greeting.to == self.own.process => {
                let _ = self.epoll.delete(caller.stream.as_fd());
                self.meet(greeting.from);
                // More may have come with the greeting.
                caller.messages(|message| there.push((greeting.from.process, message)));
                self.add(greeting.from.process, caller);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: [u8; KEY] = [7; KEY];

    fn links(key: [u8; KEY], process: u32) -> Links {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let mut links = Links::listen(key, Peer { process, number: process, address }).unwrap();
        links.note_dead(&[]);
        links
    }

    /// The messages that come until so many have, or a connection has ended.
    fn heard(links: &mut Links, count: usize) -> Vec<(u32, Vec<u8>)> {
        let mut there = Vec::new();
        while there.len() < count && !links.turn(&mut there) {
            std::thread::yield_now();
        }
        there
    }

    #[test]
    fn messages_arrive_whole_and_in_order_both_ways_until_one_end_is_dead() {
        let (mut one, mut other) = (links(JOB, 1), links(JOB, 8));
        assert!(other.call(one.own()));
        let long: Vec<u8> = (0..3 << 20).map(|place: u32| place as u8).collect();
        other.send(1, Packet::Own(b"short".to_vec()));
        other.send(1, Packet::Own(long.clone()));
        let mut there = Vec::new();
        while there.len() < 2 {
            one.turn(&mut there);
            other.turn(&mut Vec::new());
        }
        assert_eq!(there, [(8, b"short".to_vec()), (8, long)]);
        one.send(8, Packet::Own(Vec::new()));
        assert_eq!(heard(&mut other, 1), [(1, Vec::new())]);
        assert_eq!(one.peer(8), Some(other.own()));
        drop(other);
        assert_eq!(heard(&mut one, 1), []);
        assert_eq!(one.dead().collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn a_caller_without_the_key_or_for_another_process_is_not_heard() {
        let mut one = links(JOB, 1);
        let (mut stranger, mut lost, mut friend) = (links([8; KEY], 6), links(JOB, 7), links(JOB, 8));
        assert!(stranger.call(one.own()) && lost.call(Peer { process: 2, ..one.own() }) && friend.call(one.own()));
        for (links, to) in [(&mut stranger, 1), (&mut lost, 2), (&mut friend, 1)] {
            links.send(to, Packet::Own(b"word".to_vec()));
        }
        assert_eq!(heard(&mut one, 1), [(8, b"word".to_vec())]);
        assert!(heard(&mut stranger, 1).is_empty() && heard(&mut lost, 1).is_empty());
    }

    #[test]
    fn a_death_is_known_by_its_number_and_of_processes_that_never_called_by_count() {
        let (mut one, mut other) = (links(JOB, 1), links(JOB, 8));
        assert!(one.call(other.own()));
        one.note_dead(&[8, 20]);
        assert_eq!((one.dead().collect::<Vec<_>>(), one.unmet()), (vec![8], 1));
        other.turn(&mut Vec::new());
    }
}

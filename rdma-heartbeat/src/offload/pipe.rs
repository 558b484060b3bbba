//! Transfers packets over a stream: the standard input and output of a remote shell. A packet is its length in four
//! bytes and a value in postcard encoding, sealed once both ends have the key. Never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use node_abi::launch::{MAX_PACKET, encode};
use node_abi::seal::{Opener, Sealer, Seals};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::session::control::Received;

/// Maximum number of bytes read from the stream at once.
const CHUNK: usize = 64 << 10;

/// Both directions of a stream.
pub struct Pipe {
    input: std::fs::File,
    output: std::fs::File,
    seals: Seals,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    is_closed: bool,
}

impl Pipe {
    /// Takes over both ends.
    ///
    /// # Errors
    /// If the descriptors cannot be polled.
    pub fn new(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        for end in [&input, &output] {
            let flags = OFlag::from_bits_retain(fcntl(end, FcntlArg::F_GETFL)?);
            fcntl(end, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        }
        let (input, output) = (input.into(), output.into());
        Ok(Self { input, output, seals: Seals::default(), inbox: Vec::new(), outbox: Vec::new(), is_closed: false })
    }

    /// The descriptor that becomes readable when there is data.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Seals all packets from now on, and rejects unsealed ones.
    pub fn authenticate(&mut self, sealer: Sealer, opener: Opener) {
        self.seals = Seals::new(sealer, opener);
    }

    /// Reads the next packet. [`Received::Unknown`] means that the stream is unusable.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Received<T> {
        loop {
            if let Some((length, rest)) = self.inbox.split_first_chunk() {
                let length = u32::from_le_bytes(*length) as usize;
                if length > MAX_PACKET {
                    return Received::Unknown;
                }
                if let Some(bytes) = rest.get(..length) {
                    let packet = self.seals.read(bytes).map_or(Received::Unknown, Received::Packet);
                    self.inbox.drain(..4 + length);
                    return packet;
                }
            }
            if self.is_closed {
                return Received::Closed;
            }
            let filled = self.inbox.len();
            self.inbox.resize(filled + CHUNK, 0);
            let read = self.input.read(&mut self.inbox[filled..]);
            self.inbox.truncate(filled + read.as_ref().map_or(0, |length| *length));
            match read {
                Ok(0) => self.is_closed = true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Received::Nothing,
                Err(_) => self.is_closed = true,
            }
        }
    }

    /// Discards all data that has arrived; true if the stream has ended.
    pub fn discard(&mut self) -> bool {
        self.inbox.clear();
        let mut piece = [0; 4096];
        while !self.is_closed {
            match self.input.read(&mut piece) {
                Ok(0) => self.is_closed = true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(_) => self.is_closed = true,
            }
        }
        true
    }

    /// Sends a packet now, or with a later [`Pipe::flush`] if the other end is slow; drops it if that does not read.
    pub fn send<T: Serialize>(&mut self, packet: &T) {
        let Ok(mut bytes) = encode(packet) else { return };
        if self.outbox.len() + bytes.len() > MAX_PACKET {
            return;
        }
        self.seals.seal(&mut bytes);
        if let Ok(length) = u32::try_from(bytes.len()) {
            self.outbox.extend_from_slice(&length.to_le_bytes());
            self.outbox.extend_from_slice(&bytes);
            self.flush();
        }
    }

    /// Sends pending data as far as there is room.
    pub fn flush(&mut self) {
        while !self.outbox.is_empty() {
            match self.output.write(&self.outbox) {
                Ok(length) => drop(self.outbox.drain(..length)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The input will show the end.
                Err(_) => return self.outbox.clear(),
            }
        }
    }

    /// Whether data is pending for a later [`Pipe::flush`].
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        !self.outbox.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use node_abi::seal::Direction;
    use node_abi::testing::startup;

    use super::*;
    use nix::unistd::pipe;

    /// Two connected ends.
    fn pair() -> (Pipe, Pipe) {
        let ((a_in, b_out), (b_in, a_out)) = (pipe().unwrap(), pipe().unwrap());
        (Pipe::new(a_in, a_out).unwrap(), Pipe::new(b_in, b_out).unwrap())
    }

    #[test]
    fn what_is_discarded_leaves_only_the_end_to_be_seen() {
        let (mut a, mut b) = pair();
        (0..100_u32).for_each(|number| a.send(&number));
        assert!(!b.discard());
        assert!(matches!(b.receive::<u32>(), Received::Nothing));
        a.send(&7_u32);
        drop(a);
        assert!(b.discard());
        assert!(matches!(b.receive::<u32>(), Received::Closed));
    }

    #[test]
    fn packets_arrive_in_order_and_the_end_is_seen_after_the_last() {
        let (mut a, mut b) = pair();
        assert!(matches!(b.receive::<u32>(), Received::Nothing));
        let mut sent = 0_u32;
        while !a.has_backlog() {
            a.send(&sent);
            sent += 1;
        }
        for expected in 0..sent {
            assert!(matches!(b.receive::<u32>(), Received::Packet(n) if n == expected), "{expected}");
            a.flush();
        }
        a.send(&vec![7_u8; 100_000]);
        let mut whole = None;
        platform::testing::wait_until(|| {
            a.flush();
            if let Received::Packet(packet) = b.receive::<Vec<u8>>() {
                whole = Some(packet);
            }
            whole.is_some()
        });
        assert_eq!(whole, Some(vec![7; 100_000]));
        drop(a);
        assert!(matches!(b.receive::<u32>(), Received::Closed));
        b.send(&1_u32);
        assert!(!b.has_backlog());
    }

    #[test]
    fn what_the_other_end_has_not_sealed_is_no_packet() {
        let (mut a, mut b) = pair();
        let startup = startup();
        let (to, from) = (Direction::ToService, Direction::FromService);
        a.send(&1_u32);
        assert!(matches!(b.receive(), Received::Packet(1_u32)));
        a.authenticate(Sealer::new(&startup, to), Opener::new(&startup, from));
        b.authenticate(Sealer::new(&startup, from), Opener::new(&startup, to));
        a.send(&2_u32);
        b.send(&3_u32);
        assert!(matches!(b.receive(), Received::Packet(2_u32)));
        assert!(matches!(a.receive(), Received::Packet(3_u32)));
        a.seals = Seals::default();
        a.send(&4_u32);
        assert!(matches!(b.receive::<u32>(), Received::Unknown));
    }

    #[test]
    fn what_is_no_packet_is_not_waited_for() {
        for bytes in [&[0xff, 0xff, 0xff, 0xff][..], b"bash: ringwatchd: not found\n", &[1, 0, 0, 0, 0xff]] {
            let (input, output) = pipe().unwrap();
            nix::unistd::write(&output, bytes).unwrap();
            let mut pipe = Pipe::new(input, output).unwrap();
            assert!(matches!(pipe.receive::<super::super::FromService>(), Received::Unknown), "{bytes:?}");
        }
    }
}

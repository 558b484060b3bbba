//! Encodes messages as authenticated bytes.
//!
//! One datagram carries one message in one envelope. All integers are little endian.
//!
//! | offset | bytes | field | meaning |
//! |---:|---:|---|---|
//! | 0 | 2 | magic | `RW` (0x52 0x57) |
//! | 2 | 1 | version | 3 |
//! | 3 | 1 | flags | 0; any other value is malformed in version 3 |
//! | 4 | 8 | job | the job the message belongs to |
//! | 12 | 4 | from | the sender's node id |
//! | 16 | 4 | incarnation | incarnation of the sender, grows with every restart |
//! | 20 | 4 | life | incarnation of the receiver that it is meant for: the newest that the sender knows, 0 if it knows none |
//! | 24 | 8 | counter | grows with every message of that incarnation, from 0 |
//! | 32 | any | body | the [`Message`] in the [postcard format](https://postcard.jamesmunns.com) |
//! | end - 16 | 16 | MAC | the first 16 bytes of BLAKE3 keyed with the job's key over all the bytes before it and the receiver's node id |
//!
//! An envelope has at most [`MAX_LEN`] bytes. That leaves room for a [`Notice`](crate::Notice) with more than
//! 50,000 dead nodes, because their list is sent as gaps.
//!
//! # The body
//!
//! Integers of the body are varints: seven bits a byte, the lowest first, the top bit set in all bytes but the last;
//! signed ones are zigzag-encoded before. One byte integers and the variants below come as they are. An option is 0, or
//! 1 and the value; a list is its length and its entries. Seqs, counts, `first` and `sent_us` have 64 bits, parts and
//! ports 16, all others 32.
//!
//! The variant of an enum is its position; fields follow in the order of their declaration. [`Message`]:
//!
//! | byte | message | fields |
//! |---:|---|---|
//! | 0 | `Heartbeat` | count |
//! | 1 | `NewObserver` | |
//! | 2 | `Suspect` | node |
//! | 3 | `Notice` | see below |
//! | 4 | `Ack` | source, incarnation, seq |
//! | 5, 6 | `Probe`, `ProbeReply` | |
//! | 7 | `Verdict` | |
//! | 8, 9 | `Ready`, `ReadyAck` | |
//! | 10 | `Hello` | node, port |
//! | 11 | `Roster` | part, parts, list of runs: 0, 4 bytes of IPv4 and the port, or 1, 16 bytes of IPv6 and the port; length |
//! | 12 | `Spared` | node |
//! | 13, 14 | `Complete`, `Done` | source, incarnation, seq |
//! | 15 | `Leave` | |
//! | 16 | `Records` | incarnation, first, sent_us, list of bytes |
//! | 17 | `RecordsHeard` | incarnation, count |
//! | 18 | `AllStopped` | ranks |
//! | 19 | `JobSuspended` | |
//! | 20 | `Transport` | list of bytes |
//! | 21 | `Bundle` | list of [`Part`](crate::bundle::Part)s: 0 `Notice`, 1 `Ack`, 2 `Complete`, 3 `Done`, each as after its own byte above |
//! | 22 | `NewLife` | |
//! | 23 | `Logger` | list of bytes |
//! | 24 | `Group` | list of bytes |
//!
//! A [`Notice`](crate::Notice), which follows the byte 3:
//!
//! | field | bytes | meaning |
//! |---|---|---|
//! | source | 1 to 5 | the node that began the broadcast |
//! | incarnation | 1 to 5 | its incarnation |
//! | seq | 1 to 10 | the number of the broadcast in that incarnation |
//! | subject | 1 to 17 | [`Subject`](crate::Subject): 0 `Node`, node, reason; 1 `Rank`, rank, node, reason; 2 `End`, reason; 3 `Doubt`; 4 `Grown` |
//! | suspector | 1 to 6 | option of a node |
//! | dead | 1 or more | list of nodes: the first node, then for each further one the number of nodes skipped since the one before |
//! | reasons | 1 or more | list of their [reasons](crate::NodeReason), each with the number of successive entries that have it |
//! | universe | 1 to 5 | the number of nodes, initial and joined |
//! | route | 1 | [`Route`](crate::Route): 0 `Circulant`, 1 `Tree`, 2 `Rescue` |
//!
//! Reasons: [`NodeReason`](crate::NodeReason) 0 `Silent`, 1 `Resigned`, 2 `ConnectionLost`, 3 `Left`;
//! [`RankReason`](crate::RankReason) 0 `Exited` and the status, 1 `Signaled` and the signal, 2 `Stopped`, 3 `Reported`,
//! 4 `Early`, 5 `DumpsCore` and the signal;
//! [`EndReason`](crate::EndReason) 0 `Finished`, 1 `LauncherLost`, 2 `InitFailure`, 3 `FencingOff`, 4 `NoSurvivor`.
//!
//! # Versions
//!
//! All daemons of a job use the same version, because they come from one installation; another one is
//! [refused](Rejected::Version). New variants go to the end and keep the version. A field that is added, removed or
//! changed makes a new version: 2 added `left`, `universe` and `route` to a notice, and the receiver to the MAC; 3
//! added the receiver's incarnation; 4 put all reasons in the place of `left`.
//!
//! # Protection by the envelope
//!
//! A party with the key of the job can act as each of its nodes. A party without it can only delay, drop and repeat
//! datagrams, and repetitions are refused: per sender a new incarnation replaces older ones, and within one a
//! [window](Rejected::Replayed) of about 2,000 counters permits reordering. A datagram for one node is invalid at every
//! other. A datagram for an earlier incarnation of a node is [refused](Rejected::OtherLife) by the current one, which
//! cannot know what that one had received. So a datagram from before a restart proves nothing after it. Its sender gets
//! a [`Message::NewLife`], whose envelope contains the current incarnation. The content is not secret.

mod window;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::message::Message;
use crate::units::NodeId;
use window::Window;

/// Maximum number of bytes of an envelope: fits into a UDP datagram with room for any encapsulation.
pub const MAX_LEN: usize = 60_000;

/// Where the body of an envelope begins, in bytes.
pub const BODY_AT: usize = 32;

const MAGIC: [u8; 2] = *b"RW";
const VERSION: u8 = 4;
const FLAGS: u8 = 0;
const HEADER_LEN: usize = BODY_AT;
pub(crate) const MAC_LEN: usize = 16;

/// Makes envelopes for the messages of one sender.
pub struct Sealer {
    job: u64,
    key: [u8; 32],
    me: NodeId,
    incarnation: u32,
    counter: u64,
}

impl Sealer {
    /// A sealer for the messages of node `me`. Two sealers of the same node must differ in `incarnation`, and
    /// the later one must have the higher: the receivers refuse the other.
    pub fn new(job: u64, key: [u8; 32], me: NodeId, incarnation: u32) -> Sealer {
        Sealer { job, key, me, incarnation, counter: 0 }
    }

    /// Replaces the content of `buffer` by the next envelope, for this [life](Opener::life_of) of node `to`. Allocates
    /// only if the capacity does not suffice.
    ///
    /// A message too large for [`MAX_LEN`] is written nevertheless, and every [`Opener`] refuses it.
    pub fn seal(&mut self, to: NodeId, life: u32, message: &Message, buffer: &mut Vec<u8>) {
        buffer.clear();
        buffer.extend_from_slice(&MAGIC);
        buffer.extend_from_slice(&[VERSION, FLAGS]);
        buffer.extend_from_slice(&self.job.to_le_bytes());
        buffer.extend_from_slice(&self.me.to_le_bytes());
        buffer.extend_from_slice(&self.incarnation.to_le_bytes());
        buffer.extend_from_slice(&life.to_le_bytes());
        buffer.extend_from_slice(&self.counter.to_le_bytes());
        postcard::to_io(message, &mut *buffer).expect("writing a message to memory cannot fail");
        let mac = mac(&self.key, buffer, to);
        buffer.extend_from_slice(&mac);
        self.counter += 1;
    }
}

/// Opens the envelopes of all senders of one job to one incarnation of one node.
pub struct Opener {
    job: u64,
    key: [u8; 32],
    me: NodeId,
    incarnation: u32,
    senders: BTreeMap<NodeId, Window>,
}

/// The reason why an envelope was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Rejected {
    /// Shorter than an empty envelope.
    #[error("the datagram is too short")]
    Truncated,
    /// Longer than [`MAX_LEN`].
    #[error("the datagram is too long")]
    Oversized,
    /// It does not begin with the magic bytes.
    #[error("the datagram is not one of ours")]
    NotOurs,
    /// It has this version, which is not supported here.
    #[error("the datagram has the unknown version {0}")]
    Version(u8),
    /// It belongs to another job.
    #[error("the datagram belongs to another job")]
    Job,
    /// Its MAC does not fit: it was damaged, made without the key, or meant for another node.
    #[error("the datagram is damaged or forged")]
    Forged,
    /// It is genuine but holds no message that is known here.
    #[error("the datagram holds no known message")]
    Malformed,
    /// It is genuine but was received before, belongs to a former life of its sender, or is so far behind
    /// that sender's newest (more than 1,984 messages) that it might have been received before.
    #[error("the datagram was received before or is too old")]
    Replayed,
    /// It is genuine and new, but meant for another life of this node. The sender, given here, does not know of the
    /// present one: [`Message::NewLife`] tells it.
    #[error("the datagram was meant for another life of this node")]
    OtherLife(NodeId),
}

impl Opener {
    /// An opener for the messages of this job to this incarnation of node `me`.
    pub fn new(job: u64, key: [u8; 32], me: NodeId, incarnation: u32) -> Opener {
        Opener { job, key, me, incarnation, senders: BTreeMap::new() }
    }

    /// The newest incarnation of a node in genuine envelopes; 0, its first, without any.
    pub fn life_of(&self, node: NodeId) -> u32 {
        self.senders.get(&node).and_then(Window::incarnation).unwrap_or(0)
    }

    /// The sender and the message in an envelope.
    ///
    /// # Errors
    ///
    /// Why the envelope was refused. A refused one changes nothing, save that a genuine one that is
    /// [malformed](Rejected::Malformed) or for [another life](Rejected::OtherLife) counts as received.
    pub fn open(&mut self, envelope: &[u8]) -> Result<(NodeId, Message), Rejected> {
        if envelope.len() > MAX_LEN {
            return Err(Rejected::Oversized);
        }
        let (signed, mac) = envelope.split_last_chunk::<MAC_LEN>().ok_or(Rejected::Truncated)?;
        let (header, body) = signed.split_first_chunk().ok_or(Rejected::Truncated)?;
        let header = Header::parse(header);
        if header.magic != MAGIC {
            return Err(Rejected::NotOurs);
        }
        if header.version != VERSION {
            return Err(Rejected::Version(header.version));
        }
        if header.job != self.job {
            return Err(Rejected::Job);
        }
        if !is_equal(mac, &self::mac(&self.key, signed, self.me)) {
            return Err(Rejected::Forged);
        }
        let window = self.senders.entry(header.from).or_default();
        if !window.accept(header.incarnation, header.counter) {
            return Err(Rejected::Replayed);
        }
        if header.life != self.incarnation {
            return Err(Rejected::OtherLife(header.from));
        }
        match postcard::take_from_bytes(body) {
            Ok((message, [])) if header.flags == FLAGS => Ok((header.from, message)),
            _ => Err(Rejected::Malformed),
        }
    }
}

struct Header {
    magic: [u8; 2],
    version: u8,
    flags: u8,
    job: u64,
    from: NodeId,
    incarnation: u32,
    life: u32,
    counter: u64,
}

impl Header {
    fn parse(bytes: &[u8; HEADER_LEN]) -> Header {
        fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
            let (field, rest) = bytes.split_first_chunk().expect("the fields add up to the header");
            *bytes = rest;
            *field
        }
        let mut bytes = bytes.as_slice();
        Header {
            magic: take(&mut bytes),
            version: u8::from_le_bytes(take(&mut bytes)),
            flags: u8::from_le_bytes(take(&mut bytes)),
            job: u64::from_le_bytes(take(&mut bytes)),
            from: u32::from_le_bytes(take(&mut bytes)),
            incarnation: u32::from_le_bytes(take(&mut bytes)),
            life: u32::from_le_bytes(take(&mut bytes)),
            counter: u64::from_le_bytes(take(&mut bytes)),
        }
    }
}

fn mac(key: &[u8; 32], signed: &[u8], to: NodeId) -> [u8; MAC_LEN] {
    let hash = blake3::Hasher::new_keyed(key).update(signed).update(&to.to_le_bytes()).finalize();
    *hash.as_bytes().first_chunk().expect("a hash is longer than the MAC")
}

/// Compares in constant time, so that a MAC cannot be guessed byte by byte: blake3 compares whole hashes that way,
/// hence both sides are padded to one.
fn is_equal(a: &[u8; MAC_LEN], b: &[u8; MAC_LEN]) -> bool {
    let widen = |mac: &[u8; MAC_LEN]| {
        let mut bytes = [0; blake3::OUT_LEN];
        bytes[..MAC_LEN].copy_from_slice(mac);
        blake3::Hash::from_bytes(bytes)
    };
    widen(a) == widen(b)
}

//! Checkpoints in the memory of a partner: a rank keeps its last two, and so does its partner, a rank of another node.
//! Without I/O: pieces come in, and go out one by one.
//!
//! | message | from | to |
//! |---|---|---|
//! | `Copy`: a piece | a rank | its partner |
//! | `Copied`: all pieces of a version have come, or there is no room for it | the partner | the rank |
//! | `Recall` | a replacement | the partner of its rank |
//! | `Returned`: a piece; one of an empty checkpoint is the last | the partner | the replacement |
//!
//! A rank sends its checkpoints again when another process has become its partner.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use event_log::determinant::Rank;
use serde::{Deserialize, Serialize};

use crate::envelope::Kind;

/// Most bytes of a piece.
const PIECE: usize = 4 << 20;
/// How many versions of a rank stay.
const KEPT: usize = 2;

/// What stands before the bytes of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Piece {
    version: u32,
    /// Where it begins, and bytes of the whole.
    offset: u64,
    length: u64,
}

/// The answer to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// The version.
    pub version: u32,
    /// Whether the partner has it: else it has no room for it.
    pub is_kept: bool,
}

/// A checkpoint in memory, in the format of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The program's number of it.
    pub number: u32,
    /// The file.
    pub bytes: Arc<Vec<u8>>,
}

/// How far the copy of a version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The partner has not answered.
    Underway,
    /// The partner has it.
    Kept,
    /// The partner has no room for it.
    Refused,
}

/// A checkpoint of which pieces come.
#[derive(Debug, Default)]
struct Incoming {
    version: u32,
    length: u64,
    bytes: Vec<u8>,
}

/// What a piece makes of it.
enum Added {
    Nothing,
    Whole(Version),
    Refused(u32),
}

impl Incoming {
    /// Adds a piece, which follows the one before or is the first of a version. `room`: bytes that a new one may have.
    fn add(&mut self, piece: Piece, data: &[u8], room: u64) -> Added {
        if piece.offset == 0 {
            *self = Self { version: piece.version, length: piece.length, bytes: Vec::new() };
            let fits = usize::try_from(piece.length).is_ok_and(|length| self.bytes.try_reserve_exact(length).is_ok());
            if piece.length > room || !fits {
                *self = Self::default();
                return Added::Refused(piece.version);
            }
        }
        let is_next = (piece.version, piece.offset, piece.length)
            == (self.version, self.bytes.len() as u64, self.length)
            && piece.offset + data.len() as u64 <= self.length;
        if !is_next {
            return Added::Nothing;
        }
        self.bytes.extend_from_slice(data);
        if self.bytes.len() as u64 != self.length {
            return Added::Nothing;
        }
        let whole = std::mem::take(self);
        Added::Whole(Version { number: whole.version, bytes: Arc::new(whole.bytes) })
    }
}

/// What a partner has of a rank.
#[derive(Debug, Default)]
struct Held {
    /// The process that is the rank.
    process: u32,
    incoming: Incoming,
    /// The oldest first.
    whole: Vec<Version>,
    /// The newest version that a replacement has got.
    returned: Option<u32>,
}

/// A checkpoint that goes out, and how much of it has gone.
#[derive(Debug)]
struct Outgoing {
    process: u32,
    kind: Kind,
    version: Version,
    gone: usize,
}

/// The checkpoints of this rank, and those of the ranks whose partner it is.
#[derive(Debug)]
pub struct Copies {
    /// The partner of each rank.
    partners: Vec<Rank>,
    /// The process that gets those of this rank.
    partner: Option<u32>,
    /// Those of this rank, the oldest first.
    own: Vec<Version>,
    progress: Option<Copied>,
    held: BTreeMap<Rank, Held>,
    /// A checkpoint that comes back.
    coming_back: Incoming,
    /// Whether all have come back.
    has_returned: bool,
    outgoing: VecDeque<Outgoing>,
}

/// The partner of each rank: the rank with the same place on the next node, or else the next rank.
fn partners<N: Ord + Hash>(nodes: &[N]) -> Vec<Rank> {
    let mut ranks_of: Vec<(&N, Vec<Rank>)> = Vec::new();
    let mut place_of = BTreeMap::new();
    for (rank, node) in (0..).zip(nodes) {
        let place = *place_of.entry(node).or_insert_with(|| {
            ranks_of.push((node, Vec::new()));
            ranks_of.len() - 1
        });
        ranks_of[place].1.push(rank);
    }
    let mut partners = vec![0; nodes.len()];
    for (place, (_, ranks)) in ranks_of.iter().enumerate() {
        let (_, next) = &ranks_of[(place + 1) % ranks_of.len()];
        let shift = usize::from(ranks_of.len() == 1);
        for (index, rank) in ranks.iter().enumerate() {
            partners[*rank as usize] = next[(index + shift) % next.len()];
        }
    }
    partners
}

impl Copies {
    /// None yet, of ranks on these nodes.
    pub fn new<N: Ord + Hash>(nodes: &[N]) -> Self {
        Self {
            partners: partners(nodes),
            partner: None,
            own: Vec::new(),
            progress: None,
            held: BTreeMap::new(),
            coming_back: Incoming::default(),
            has_returned: false,
            outgoing: VecDeque::new(),
        }
    }

    /// The partner of a rank.
    pub fn partner_of(&self, rank: Rank) -> Rank {
        self.partners[rank as usize]
    }

    /// This rank has a new version, which its partner, this process, is to have.
    pub fn keep(&mut self, version: Version, partner: u32) {
        self.progress = None;
        self.own.push(version.clone());
        self.partner = Some(partner);
        self.send(partner, Kind::Copy, version);
    }

    /// How far a version is, the last one that was kept. One that is refused is forgotten, else older ones are.
    pub fn progress(&mut self, version: u32) -> Progress {
        let Some(copied) = self.progress.filter(|copied| copied.version == version) else { return Progress::Underway };
        if copied.is_kept {
            self.own.drain(..self.own.len().saturating_sub(KEPT));
            Progress::Kept
        } else {
            self.own.retain(|own| own.number != version);
            Progress::Refused
        }
    }

    fn send(&mut self, process: u32, kind: Kind, version: Version) {
        self.outgoing.push_back(Outgoing { process, kind, version, gone: 0 });
    }

    /// Another process may be a rank now. `rank` is the one that this process is.
    pub fn settle(&mut self, rank: Rank, process_of: impl Fn(Rank) -> u32) {
        for (rank, held) in &mut self.held {
            if std::mem::replace(&mut held.process, process_of(*rank)) != held.process {
                held.incoming = Incoming::default();
                // What a process has sent that was declared dead before is of no use to its replacement.
                if let Some(returned) = held.returned.take() {
                    held.whole.retain(|version| version.number <= returned);
                }
            }
        }
        let partner = process_of(self.partner_of(rank));
        if self.partner.replace(partner).is_some_and(|before| before != partner) {
            self.outgoing.retain(|outgoing| outgoing.kind != Kind::Copy);
            for version in self.own.clone() {
                self.send(partner, Kind::Copy, version);
            }
        }
    }

    /// A piece has come from a rank, which is this process. Returns the answer when there is one. `room`: bytes that a
    /// checkpoint may have.
    pub fn hear_copy(&mut self, owner: Rank, process: u32, bytes: &[u8], room: u64) -> Option<Copied> {
        let (piece, data) = postcard::take_from_bytes::<Piece>(bytes).ok()?;
        let held = self.held.entry(owner).or_default();
        held.process = process;
        match held.incoming.add(piece, data, room) {
            Added::Nothing => None,
            Added::Refused(version) => Some(Copied { version, is_kept: false }),
            Added::Whole(version) => {
                let number = version.number;
                // It may have come before.
                held.whole.retain(|known| known.number < number);
                held.whole.push(version);
                held.whole.drain(..held.whole.len().saturating_sub(KEPT));
                Some(Copied { version: number, is_kept: true })
            }
        }
    }

    /// The partner has answered.
    pub fn hear_copied(&mut self, bytes: &[u8]) {
        self.progress = postcard::from_bytes(bytes).ok();
    }

    /// A replacement of a rank asks for what is held of it.
    pub fn give_back(&mut self, owner: Rank, process: u32) {
        let held = self.held.get_mut(&owner);
        let whole = held.map_or(Vec::new(), |held| {
            held.returned = held.whole.last().map(|version| version.number);
            held.whole.clone()
        });
        let last = Version { number: 0, bytes: Arc::default() };
        for version in whole.into_iter().chain([last]) {
            self.send(process, Kind::Returned, version);
        }
    }

    /// This process takes the place of a rank whose partner is another one, and has asked that for its checkpoints.
    pub fn begin_recall(&mut self, partner: u32) {
        (self.partner, self.has_returned) = (Some(partner), false);
        self.own.clear();
    }

    /// A piece has come back.
    pub fn hear_returned(&mut self, bytes: &[u8]) {
        let Ok((piece, data)) = postcard::take_from_bytes::<Piece>(bytes) else { return };
        if piece.length == 0 {
            self.has_returned = true;
        } else if let Added::Whole(version) = self.coming_back.add(piece, data, u64::MAX) {
            self.own.push(version);
        }
    }

    /// The checkpoints that have come back, the oldest first, when all have.
    pub fn returned(&self) -> Option<&[Version]> {
        self.has_returned.then_some(&self.own)
    }

    /// Whether something is to go out.
    pub fn is_sending(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// The next message that goes out, behind an envelope: to a process, of this kind.
    pub fn next(&mut self, envelope: impl FnOnce(Kind) -> Vec<u8>) -> Option<(u32, Vec<u8>)> {
        let first = self.outgoing.front_mut()?;
        let (process, all) = (first.process, &first.version.bytes);
        let data = &all[first.gone..all.len().min(first.gone + PIECE)];
        let piece = Piece { version: first.version.number, offset: first.gone as u64, length: all.len() as u64 };
        let mut message = postcard::to_extend(&piece, envelope(first.kind)).ok()?;
        message.extend_from_slice(data);
        first.gone += data.len();
        if first.gone == all.len() {
            self.outgoing.pop_front();
        }
        Some((process, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 1 << 30;
    /// Processes of the tests: the rank, its partner, and one that replaces either.
    const OWNER: u32 = 0;
    const PARTNER: u32 = 1;
    const OTHER: u32 = 7;

    fn version(number: u32, length: usize) -> Version {
        Version { number, bytes: Arc::new((0..length).map(|byte| (byte as u32 * number) as u8).collect()) }
    }

    /// Two ranks on two nodes.
    fn pair() -> (Copies, Copies) {
        (Copies::new(&["a", "b"]), Copies::new(&["a", "b"]))
    }

    /// Everything that goes out of one comes into the other. Returns to whom it went.
    fn pass(from: &mut Copies, to: &mut Copies, process: u32, room: u64) -> Vec<u32> {
        let mut went = Vec::new();
        let mut kind = Kind::Data;
        while let Some((receiver, bytes)) = from.next(|of| {
            kind = of;
            Vec::new()
        }) {
            went.push(receiver);
            match kind {
                Kind::Copy => {
                    if let Some(copied) = to.hear_copy(0, process, &bytes, room) {
                        from.hear_copied(&postcard::to_stdvec(&copied).unwrap());
                    }
                }
                Kind::Returned => to.hear_returned(&bytes),
                _ => panic!("{kind:?} is no piece"),
            }
        }
        went
    }

    #[test]
    fn a_partner_is_a_rank_of_the_next_node() {
        assert_eq!(partners(&["a", "a", "b", "b", "c"]), [2, 3, 4, 4, 0]);
        assert_eq!(partners(&["a", "b", "a", "b"]), [1, 0, 3, 2]);
        assert_eq!(partners(&["a", "a", "a"]), [1, 2, 0], "there is no other node");
    }

    #[test]
    fn a_replacement_gets_back_the_last_two_versions() {
        let (mut owner, mut partner) = pair();
        for number in 1..=3 {
            owner.keep(version(number, 2 * PIECE + 5), PARTNER);
            assert_eq!(owner.progress(number), Progress::Underway);
            assert_eq!(pass(&mut owner, &mut partner, OWNER, ROOM), [PARTNER; 3]);
            assert_eq!(owner.progress(number), Progress::Kept);
        }
        let mut replacement = Copies::new(&["a", "b"]);
        replacement.begin_recall(PARTNER);
        partner.give_back(0, OTHER);
        assert_eq!(replacement.returned(), None);
        pass(&mut partner, &mut replacement, PARTNER, ROOM);
        assert_eq!(replacement.returned(), Some(&[version(2, 2 * PIECE + 5), version(3, 2 * PIECE + 5)][..]));
    }

    #[test]
    fn a_partner_without_checkpoints_says_so() {
        let (mut replacement, mut partner) = pair();
        replacement.begin_recall(PARTNER);
        partner.give_back(0, OTHER);
        pass(&mut partner, &mut replacement, PARTNER, ROOM);
        assert_eq!(replacement.returned(), Some(&[][..]));
    }

    #[test]
    fn a_version_without_room_is_refused_and_the_ones_before_stay() {
        let (mut owner, mut partner) = pair();
        owner.keep(version(1, 10), PARTNER);
        pass(&mut owner, &mut partner, OWNER, ROOM);
        assert_eq!(owner.progress(1), Progress::Kept);
        owner.keep(version(2, 100), PARTNER);
        pass(&mut owner, &mut partner, OWNER, 99);
        assert_eq!(owner.progress(2), Progress::Refused);
        assert_eq!((&owner.own, &partner.held[&0].whole), (&vec![version(1, 10)], &vec![version(1, 10)]));
    }

    #[test]
    fn another_process_that_is_the_partner_gets_all_again() {
        let (mut owner, mut partner) = pair();
        owner.keep(version(1, 10), PARTNER);
        pass(&mut owner, &mut partner, OWNER, ROOM);
        owner.settle(0, |rank| rank);
        assert!(!owner.is_sending(), "nothing has changed");
        // It dies with a half of the second one.
        owner.keep(version(2, 2 * PIECE), PARTNER);
        owner.next(|_| Vec::new()).unwrap();
        let mut other = Copies::new(&["a", "b"]);
        owner.settle(0, |rank| if rank == 1 { OTHER } else { rank });
        assert_eq!(pass(&mut owner, &mut other, OWNER, ROOM), [OTHER; 3]);
        assert_eq!(owner.progress(2), Progress::Kept);
        assert_eq!(other.held[&0].whole, [version(1, 10), version(2, 2 * PIECE)]);
    }

    #[test]
    fn pieces_of_a_process_that_was_declared_dead_do_not_count() {
        let (mut owner, mut partner) = pair();
        owner.keep(version(1, 10), PARTNER);
        pass(&mut owner, &mut partner, OWNER, ROOM);
        partner.give_back(0, OTHER);
        owner.keep(version(2, 10), PARTNER);
        pass(&mut owner, &mut partner, OWNER, ROOM);
        partner.settle(1, |rank| if rank == 0 { OTHER } else { rank });
        assert_eq!(partner.held[&0].whole, [version(1, 10)]);
    }

    #[test]
    fn what_is_no_piece_is_ignored() {
        let (mut owner, mut partner) = pair();
        owner.keep(version(1, PIECE + 1), PARTNER);
        let first = owner.next(|_| Vec::new()).unwrap().1;
        let second = owner.next(|_| Vec::new()).unwrap().1;
        for bytes in [&second[..], &first[..3], b"", &first, &first, &[&second[..], b"more"].concat()] {
            assert_eq!(partner.hear_copy(0, OWNER, bytes, ROOM), None);
        }
        assert_eq!(partner.hear_copy(0, OWNER, &second, ROOM), Some(Copied { version: 1, is_kept: true }));
    }
}

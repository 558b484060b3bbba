//! What a rank prints is compared, and appears once: a state machine without I/O.
//!
//! The lowest living replica prints. It says up to where it is going to, the others answer with the digest of the same
//! text, and when its program is in MPI it says that it prints, and prints. The others keep the text until then. A
//! successor goes on from the highest place that is known to be printed. Only a death between that word and the printing
//! loses the text: first the printing and then the word would be a longer time, since printing wakes who reads. Text that differs is told once: a program may print times of its own.

use event_log::protocol::units::Channel;
use replication::digest::{Digest, digest};
use replication::replicas::{Indices, MOST};
use serde::{Deserialize, Serialize};

/// The channel of the digests: none of a message.
const TEXT: Channel = Channel { communicator: u32::MAX, tag: -1 };

/// What replicas of a rank say to each other. Places are bytes since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// All before `from` is printed, and the sender is going to print up to a place.
    Print {
        /// Where that text begins.
        from: u64,
        /// Where it ends.
        up_to: u64,
    },
    /// The sender has printed the same, or other text.
    Ready {
        /// Up to here.
        up_to: u64,
        /// The digest of what the question is about.
        digest: Digest,
    },
    /// All before this place is printed. The replica that prints says so just before it, and each other one to its
    /// successor.
    Printed {
        /// The place.
        up_to: u64,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Say this to another replica of the rank.
    Tell(u8, Word),
    /// Print.
    Write(Vec<u8>),
    /// The program's text that is still in buffers of its libraries is wanted.
    Flush,
    /// A replica has printed other text than the two others. Comes once.
    Differs(u8),
    /// This replica and another one have printed different text. Comes once.
    Undecided(u8),
}

/// The text of one replica.
#[derive(Clone, Debug)]
pub struct Printing {
    me: u8,
    living: Indices,
    /// Text from `from` on.
    kept: Vec<u8>,
    /// All before is printed. Where replicas differ this one may have printed less.
    from: u64,
    /// The program has printed so much.
    fed: u64,
    has_ended: bool,
    /// The end of what is being asked about.
    asking: Option<u64>,
    answers: [Option<Digest>; MOST as usize],
    /// The end of what was asked about and is not there yet.
    asked: Option<u64>,
    /// The others that have told this replica, since it became the lowest, what they know to be printed.
    told: [bool; MOST as usize],
    /// Whether it has printed, or knows from where to go on.
    prints: bool,
    has_differed: bool,
}

impl Printing {
    /// That of replica `me` of these.
    pub fn new(me: u8, living: Indices) -> Self {
        Self {
            me,
            living,
            kept: Vec::new(),
            from: 0,
            fed: 0,
            has_ended: false,
            asking: None,
            answers: [None; MOST as usize],
            asked: None,
            told: [false; MOST as usize],
            prints: living.lowest() == Some(me),
            has_differed: false,
        }
    }

    fn others(&self) -> impl Iterator<Item = u8> + use<> {
        let me = self.me;
        self.living.iter().filter(move |index| *index != me)
    }

    /// The replicas of the rank that live.
    pub fn living(&self) -> Indices {
        self.living
    }

    /// Whether this replica prints.
    pub fn is_lowest(&self) -> bool {
        self.living.lowest() == Some(self.me)
    }

    /// Whether nothing is left for this replica to do.
    pub fn is_done(&self) -> bool {
        !self.is_lowest() || (self.prints && self.kept.is_empty())
    }

    /// The program has printed this.
    pub fn feed(&mut self, text: &[u8], acts: &mut Vec<Act>) {
        let is_printed = self.from.saturating_sub(self.fed).min(text.len() as u64);
        self.fed += text.len() as u64;
        self.kept.extend_from_slice(&text[is_printed as usize..]);
        self.go_on(acts);
    }

    /// The program prints nothing more.
    pub fn end(&mut self, acts: &mut Vec<Act>) {
        self.has_ended = true;
        self.go_on(acts);
    }

    /// Another replica says something.
    pub fn hear(&mut self, from: u8, word: Word, acts: &mut Vec<Act>) {
        match word {
            Word::Print { from, up_to } => {
                self.drop_to(from);
                self.asked = Some(up_to);
                if self.fed < up_to {
                    acts.push(Act::Flush);
                }
            }
            Word::Ready { up_to, digest } if self.asking == Some(up_to) => {
                self.answers[usize::from(from)] = Some(digest);
            }
            Word::Ready { .. } => {}
            Word::Printed { up_to } => {
                self.drop_to(up_to);
                self.told[usize::from(from)] = true;
            }
        }
        self.go_on(acts);
    }

    /// Another replica is dead.
    pub fn bury(&mut self, index: u8, acts: &mut Vec<Act>) {
        let before = self.living.lowest();
        if !self.living.remove(index) {
            return;
        }
        if let Some(lowest) = self.living.lowest().filter(|lowest| Some(*lowest) != before && *lowest != self.me) {
            self.asked = None;
            acts.push(Act::Tell(lowest, Word::Printed { up_to: self.from }));
        }
        self.go_on(acts);
    }

    fn drop_to(&mut self, place: u64) {
        let count = place.saturating_sub(self.from).min(self.kept.len() as u64);
        self.kept.drain(..count as usize);
        self.from = self.from.max(place);
    }

    fn text(&self, up_to: u64) -> &[u8] {
        let count = up_to.saturating_sub(self.from).min(self.kept.len() as u64);
        &self.kept[..count as usize]
    }

    fn go_on(&mut self, acts: &mut Vec<Act>) {
        if !self.is_lowest() {
            return self.answer(acts);
        }
        if !self.prints {
            if !self.others().all(|index| self.told[usize::from(index)]) {
                return;
            }
            self.prints = true;
        }
        while self.print(acts) {}
    }

    /// Answers the lowest, if the text is there.
    fn answer(&mut self, acts: &mut Vec<Act>) {
        let Some(up_to) = self.asked.filter(|up_to| *up_to <= self.fed || self.has_ended) else { return };
        let Some(lowest) = self.living.lowest() else { return };
        self.asked = None;
        acts.push(Act::Tell(lowest, Word::Ready { up_to, digest: digest(TEXT, self.text(up_to)) }));
    }

    /// Asks, or prints if all have answered. Returns whether there may be more to do.
    fn print(&mut self, acts: &mut Vec<Act>) -> bool {
        let Some(up_to) = self.asking else {
            let (from, up_to) = (self.from, self.from + self.kept.len() as u64);
            if self.kept.is_empty() {
                return false;
            }
            self.asking = Some(up_to);
            self.answers = [None; MOST as usize];
            acts.extend(self.others().map(|index| Act::Tell(index, Word::Print { from, up_to })));
            return true;
        };
        let own = digest(TEXT, self.text(up_to));
        let answers: Option<Vec<(u8, Digest)>> =
            self.others().map(|index| Some((index, self.answers[usize::from(index)]?))).collect();
        let Some(answers) = answers else { return false };
        let others: Vec<u8> = answers.iter().filter(|(_, other)| *other != own).map(|(index, _)| *index).collect();
        if let (Some(other), false) = (others.first(), self.has_differed) {
            self.has_differed = true;
            acts.push(match (answers.len(), others.len()) {
                (2, 1) => Act::Differs(*other),
                (2, _) if answers[0].1 == answers[1].1 => Act::Differs(self.me),
                _ => Act::Undecided(*other),
            });
        }
        acts.extend(self.others().map(|index| Act::Tell(index, Word::Printed { up_to })));
        acts.push(Act::Write(self.text(up_to).to_vec()));
        self.drop_to(up_to);
        self.asking = None;
        true
    }
}

#[cfg(test)]
mod tests;

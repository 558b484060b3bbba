//! What a rank prints is compared, and appears once: a state machine without I/O.
//!
//! The lowest living replica prints. It says up to where it is going to, and prints when the others have answered
//! with the digest of the same text. The others keep the text: a successor prints what may have been lost with the
//! dead, and goes on. `mpirun` takes each place of the text once ([`framed_output`](node_abi::framed_output)). At the
//! end all print what they keep, because the last text of the lowest may be lost with its node. Text that differs is
//! told once: a program may print times of its own.

use event_log::protocol::units::Channel;
use node_abi::framed_output::REPEATED;
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
    /// All is printed.
    End {
        /// No replica has printed other text.
        are_equal: bool,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Say this to another replica of the rank.
    Tell(u8, Word),
    /// Print the text of this place.
    Write(u64, Vec<u8>),
    /// The program's text that is still in buffers of its libraries is wanted.
    Flush,
    /// A replica has printed other text than the two others. Comes once.
    Differs(u8),
    /// This replica and another one have printed different text. Comes once.
    Undecided(u8),
}

/// A question of the replica that prints.
#[derive(Clone, Copy, Debug)]
struct Question {
    asker: u8,
    from: u64,
    up_to: u64,
}

/// The text of one replica.
#[derive(Clone, Debug)]
pub struct Printing {
    me: u8,
    living: Indices,
    /// Text from `kept_from` on, to the last that the program has printed.
    kept: Vec<u8>,
    kept_from: u64,
    /// All before is printed, as far as this replica knows.
    printed: u64,
    has_ended: bool,
    /// The end of what this replica is asking about.
    asking: Option<u64>,
    answers: [Option<Digest>; MOST as usize],
    /// What was asked about and is not answered yet.
    asked: Option<Question>,
    /// Where the last question began.
    last_from: u64,
    has_differed: bool,
    is_over: bool,
}

impl Printing {
    /// That of replica `me` of these.
    pub fn new(me: u8, living: Indices) -> Self {
        Self {
            me,
            living,
            kept: Vec::new(),
            kept_from: 0,
            printed: 0,
            has_ended: false,
            asking: None,
            answers: [None; MOST as usize],
            asked: None,
            last_from: 0,
            has_differed: false,
            is_over: false,
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

    /// Whether nothing is left for this replica to print.
    pub fn has_printed(&self) -> bool {
        !self.is_lowest() || self.printed >= self.fed()
    }

    /// Whether all that the program has printed to its end is printed.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The program has printed this.
    pub fn feed(&mut self, text: &[u8], acts: &mut Vec<Act>) {
        self.kept.extend_from_slice(text);
        self.go_on(acts);
    }

    /// The program prints nothing more.
    pub fn end(&mut self, acts: &mut Vec<Act>) {
        self.has_ended = true;
        self.go_on(acts);
    }

    /// Another replica says something. What the dead have said does not count.
    pub fn hear(&mut self, from: u8, word: Word, acts: &mut Vec<Act>) {
        if !self.living.contains(from) {
            return;
        }
        match word {
            Word::Print { from: place, up_to } => {
                self.printed = self.printed.max(place);
                self.asked = Some(Question { asker: from, from: place, up_to });
                // Another replica may not have heard this question, and ask the last one again.
                self.drop_to(self.last_from.saturating_sub(REPEATED));
                self.last_from = place;
                if self.fed() < up_to {
                    acts.push(Act::Flush);
                }
            }
            Word::Ready { up_to, digest } if self.asking == Some(up_to) => {
                self.answers[usize::from(from)] = Some(digest);
            }
            Word::Ready { .. } => {}
            Word::End { are_equal } => {
                if are_equal {
                    self.write(self.kept_from, self.fed(), acts);
                }
                self.is_over = true;
            }
        }
        self.go_on(acts);
    }

    /// Another replica is dead.
    pub fn bury(&mut self, index: u8, acts: &mut Vec<Act>) {
        let was_lowest = self.is_lowest();
        if !self.living.remove(index) {
            return;
        }
        self.asked.take_if(|question| question.asker == index);
        if self.is_lowest() && !was_lowest && !self.is_over {
            self.write(self.kept_from, self.printed, acts);
        }
        self.go_on(acts);
    }

    /// How much the program has printed.
    fn fed(&self) -> u64 {
        self.kept_from + self.kept.len() as u64
    }

    fn drop_to(&mut self, place: u64) {
        let count = place.saturating_sub(self.kept_from).min(self.kept.len() as u64);
        self.kept.drain(..count as usize);
        self.kept_from += count;
    }

    /// What this replica has of the text between two places.
    fn text(&self, from: u64, up_to: u64) -> &[u8] {
        let index = |place: u64| place.clamp(self.kept_from, self.fed()) - self.kept_from;
        self.kept.get(index(from) as usize..index(up_to) as usize).unwrap_or_default()
    }

    fn write(&self, from: u64, up_to: u64, acts: &mut Vec<Act>) {
        let text = self.text(from, up_to);
        if !text.is_empty() {
            acts.push(Act::Write(from, text.to_vec()));
        }
    }

    fn go_on(&mut self, acts: &mut Vec<Act>) {
        self.answer(acts);
        if self.is_lowest() {
            while self.print(acts) {}
        }
    }

    /// Answers a question, if the text is there.
    fn answer(&mut self, acts: &mut Vec<Act>) {
        let (fed, has_ended) = (self.fed(), self.has_ended);
        let Some(Question { asker, from, up_to }) = self.asked.take_if(|question| question.up_to <= fed || has_ended)
        else {
            return;
        };
        acts.push(Act::Tell(asker, Word::Ready { up_to, digest: digest(TEXT, self.text(from, up_to)) }));
    }

    /// Asks, or prints if all have answered. Returns whether there may be more to do.
    fn print(&mut self, acts: &mut Vec<Act>) -> bool {
        let Some(up_to) = self.asking else {
            let (from, up_to) = (self.printed, self.fed());
            if from < up_to {
                self.asking = Some(up_to);
                self.answers = [None; MOST as usize];
                acts.extend(self.others().map(|index| Act::Tell(index, Word::Print { from, up_to })));
                return true;
            }
            if self.has_ended && !self.is_over {
                self.is_over = true;
                let are_equal = !self.has_differed;
                acts.extend(self.others().map(|index| Act::Tell(index, Word::End { are_equal })));
            }
            return false;
        };
        let own = digest(TEXT, self.text(self.printed, up_to));
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
        self.write(self.printed, up_to, acts);
        self.printed = up_to;
        self.drop_to(up_to);
        self.asking = None;
        true
    }
}

#[cfg(test)]
mod tests;

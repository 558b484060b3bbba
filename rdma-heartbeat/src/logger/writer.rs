//! Runs the sequence of one connected rank: its proposer, with the count of output, and repetition of requests. No I/O.

use std::time::Duration;

use event_log::determinant::{Determinant, DeterminantId};
use event_log::logger::acceptor::{Reply, Request};
use event_log::logger::entry::Entry;
use event_log::logger::group::Group;
use event_log::logger::message::Message;
use event_log::logger::parallel::Proposer;
use event_log::logger::round::{Position, Round};
use event_log::logger::{Action, Logger, OutOfOrder};
use node_abi::event_loggers::{FromLogger, MOST_IN_A_PACKET};
use propagation::{NodeId, Time};

use crate::logger::words::{Word, fitting};

/// First interval of repetition: longer than a turn of a loaded node, and shorter than a timeout.
const RESEND: Duration = Duration::from_millis(10);
/// Maximum interval.
const LONGEST_RESEND: Duration = Duration::from_millis(200);

/// The outcome of an input.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Messages for nodes, including this one.
    pub words: Vec<(NodeId, Word)>,
    /// Packets for the rank.
    pub packets: Vec<FromLogger>,
}

/// The sequence of a rank as its current process writes it.
pub struct Writer {
    who: node_abi::event_loggers::Writer,
    proposer: Proposer,
    nodes: Vec<NodeId>,
    quorum: usize,
    phase: Phase,
    output: u64,
    /// By node: position up to which it is known to store all unstable determinants.
    covered: Vec<DeterminantId>,
    /// By node: count of output that it is known to store.
    kept: Vec<u64>,
    /// The last report to the rank.
    told: (Position, u64),
    again_at: Time,
    pause: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Preparing,
    /// These determinants were found. The count of output that was found is not stable yet.
    Found(Vec<Determinant>),
    Saving,
    /// Ended; the rank has got the reason.
    Ended,
}

/// The round of a process of a rank. A later process of the same rank has a higher one, and so has a later connection.
/// So a refused round was superseded.
#[must_use]
pub fn round_of(who: node_abi::event_loggers::Writer, node: NodeId) -> Round {
    let number = (u32::from(who.incarnation) << 16 | u32::from(who.attempt)).saturating_add(1);
    Round { number, proposer: node }
}

/// Divides a request into parts that fit into a datagram.
fn parts(request: Request<Entry>) -> Vec<Request<Entry>> {
    let Request::Accept { round, mut first, mut values } = request else { return vec![request] };
    let mut parts = Vec::new();
    loop {
        let rest = values.split_off(fitting(&values).min(values.len()));
        let next = first + values.len() as u64;
        parts.push(Request::Accept { round, first, values });
        if rest.is_empty() {
            return parts;
        }
        (first, values) = (next, rest);
    }
}

impl Writer {
    /// For a process of a rank whose sequence these nodes store; `me` may be among them. With `is_new` nothing of the
    /// rank was ever saved, and no node need be asked.
    #[must_use]
    pub fn new(who: node_abi::event_loggers::Writer, me: NodeId, nodes: &[NodeId], is_new: bool) -> Self {
        let mut nodes = nodes.to_vec();
        nodes.sort_by_key(|node| *node != me);
        let group =
            if nodes.first() == Some(&me) { Group::with_own(me, &nodes[1..]) } else { Group::remote(nodes.clone()) };
        let (round, quorum) = (round_of(who, me), group.quorum());
        Self {
            who,
            proposer: Proposer::in_round(who.rank, round, group),
            covered: vec![0; nodes.len()],
            kept: vec![0; nodes.len()],
            nodes,
            quorum,
            phase: if is_new { Phase::Saving } else { Phase::Preparing },
            output: 0,
            told: (Position::START, 0),
            again_at: Time::MAX,
            pause: RESEND,
        }
    }

    /// Begins, and requests determinants after this position.
    pub fn take(&mut self, now: Time, after: Position, out: &mut Outcome) {
        self.told.0 = after;
        if self.phase == Phase::Saving {
            let end = Some(Position::START);
            out.packets.push(FromLogger::Taken { determinants: Vec::new(), output: 0, end });
            return;
        }
        let mut actions = Vec::new();
        self.proposer.recover(after, &mut actions);
        self.follow(now, actions, out);
    }

    /// Saves determinants, in one message to each asked node.
    ///
    /// # Errors
    /// If the ids are not consecutive.
    pub fn save(&mut self, now: Time, determinants: &[Determinant], out: &mut Outcome) -> Result<(), OutOfOrder> {
        if self.phase != Phase::Saving {
            return Ok(());
        }
        determinants.iter().try_for_each(|determinant| self.proposer.save(*determinant))?;
        let mut actions = Vec::new();
        self.proposer.flush(&mut actions);
        self.follow(now, actions, out);
        Ok(())
    }

    /// Handles a count of written output.
    pub fn output(&mut self, now: Time, bytes: u64, out: &mut Outcome) {
        if self.phase == Phase::Saving && bytes > self.output {
            self.output = bytes;
            self.send_output(self.quorum, out);
            self.follow(now, Vec::new(), out);
        }
    }

    /// Removes determinants that a checkpoint covers.
    pub fn trim(&mut self, now: Time, up_to: DeterminantId, out: &mut Outcome) {
        if self.phase == Phase::Saving {
            let mut actions = Vec::new();
            self.proposer.trim(up_to.min(self.proposer.stable().id), &mut actions);
            self.follow(now, actions, out);
        }
    }

    /// Handles a node's answer.
    pub fn hear(&mut self, now: Time, from: NodeId, word: Word, out: &mut Outcome) {
        let Some(place) = self.nodes.iter().position(|node| *node == from) else { return };
        let own = self.proposer.round();
        match word {
            _ if self.phase == Phase::Ended => {}
            Word::Full { round, .. } if round == own => out.packets.push(FromLogger::Full),
            Word::Reply { reply: Reply::Refused { round, promised }, .. } => {
                if round == own && promised > own {
                    self.phase = Phase::Ended;
                    out.packets.push(FromLogger::Deposed);
                }
            }
            Word::Reply { rank, output, mut reply } => {
                let (Reply::Promise { round, .. } | Reply::Accepted { round, .. } | Reply::Refused { round, .. }) =
                    reply;
                if round != own || rank != self.who.rank {
                    return;
                }
                if self.phase == Phase::Preparing {
                    self.output = self.output.max(output);
                }
                self.kept[place] = self.kept[place].max(output);
                if let Reply::Accepted { first, last, .. } = &mut reply {
                    // If a request was sent in parts, the proposer learns of all parts up to the first missing one.
                    let covered = &mut self.covered[place];
                    if *first <= (*covered).max(self.proposer.stable().id) + 1 {
                        *covered = (*covered).max(*last);
                    }
                    *last = *covered;
                }
                let (mut actions, before) = (Vec::new(), self.proposer.stable());
                self.proposer.handle(from, Message::Reply { rank, reply }, &mut actions);
                if !actions.is_empty() || self.proposer.stable() != before {
                    // There was progress: the open requests were just sent.
                    (self.pause, self.again_at) = (RESEND, Time::MAX);
                }
                self.follow(now, actions, out);
            }
            Word::Full { .. } | Word::Request { .. } => {}
        }
    }

    /// Repeats unanswered requests.
    pub fn tick(&mut self, now: Time, out: &mut Outcome) {
        if now < self.again_at {
            return;
        }
        self.again_at = Time::MAX;
        let mut actions = Vec::new();
        self.proposer.retry(&mut actions);
        self.send_output(self.nodes.len(), out);
        let pause = (self.pause * 2).min(LONGEST_RESEND);
        self.follow(now, actions, out);
        self.pause = pause;
    }

    /// Time at which [`Writer::tick`] has work.
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.again_at
    }

    /// Number of unstable determinants.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.proposer.outstanding()
    }

    /// The rank of the sequence.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.who.rank
    }

    /// Counts the living nodes.
    pub fn count_living(&mut self, is_dead: impl Fn(NodeId) -> bool, out: &mut Outcome) {
        let living = self.nodes.iter().filter(|node| !is_dead(**node)).count();
        if living < self.quorum && self.phase != Phase::Ended {
            self.phase = Phase::Ended;
            self.again_at = Time::MAX;
            let [living, needed] = [living, self.quorum].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            out.packets.push(FromLogger::TooFew { living, needed });
        }
    }

    /// Sends the count of output, without determinants, to the first `most` nodes that are not known to store it.
    fn send_output(&self, most: usize, out: &mut Outcome) {
        if self.phase == Phase::Preparing || self.stable_output() >= self.output {
            return;
        }
        let (rank, output) = (self.who.rank, self.output);
        let first = self.proposer.stable().id + 1;
        let request = Request::Accept { round: self.proposer.round(), first, values: Vec::new() };
        let lacking = self.nodes.iter().zip(&self.kept).take(most).filter(|(_, kept)| **kept < output);
        out.words.extend(lacking.map(|(node, _)| (*node, Word::Request { rank, output, request: request.clone() })));
    }

    /// The highest count of output that enough nodes store.
    fn stable_output(&self) -> u64 {
        let mut kept = self.kept.clone();
        kept.sort_unstable_by(|a, b| b.cmp(a));
        kept[self.quorum - 1].min(self.output)
    }

    fn follow(&mut self, now: Time, actions: Vec<Action>, out: &mut Outcome) {
        let (rank, output) = (self.who.rank, self.output);
        for action in actions {
            match action {
                Action::Send { to, message: Message::Request { request, .. } }
                | Action::Store { to, message: Message::Request { request, .. } } => {
                    let parts = if to == self.proposer.round().proposer { vec![request] } else { parts(request) };
                    out.words.extend(parts.into_iter().map(|request| (to, Word::Request { rank, output, request })));
                }
                Action::Recovered(found) => {
                    self.phase = Phase::Found(found);
                    self.send_output(self.quorum, out);
                }
                Action::NewerCheckpoint(id) => {
                    self.phase = Phase::Ended;
                    out.packets.push(FromLogger::NewerCheckpoint(id));
                }
                Action::Deposed(_) => {
                    self.phase = Phase::Ended;
                    out.packets.push(FromLogger::Deposed);
                }
                // The parallel logger sends no other messages, and `stable` tells what is stable.
                Action::Send { .. } | Action::Store { .. } | Action::Stable(_) | Action::Fenced | Action::Full => {}
            }
        }
        self.tell(out);
        self.plan(now);
    }

    /// Reports news to the rank.
    fn tell(&mut self, out: &mut Outcome) {
        let present = (self.proposer.stable(), self.stable_output());
        match &mut self.phase {
            Phase::Found(found) if present.1 >= self.output => {
                let found = std::mem::take(found);
                let mut parts = found.chunks(MOST_IN_A_PACKET).peekable();
                while let Some(part) = parts.next() {
                    let end = parts.peek().is_none().then_some(present.0);
                    out.packets.push(FromLogger::Taken { determinants: part.to_vec(), output: present.1, end });
                }
                if found.is_empty() {
                    let end = Some(present.0);
                    out.packets.push(FromLogger::Taken { determinants: Vec::new(), output: present.1, end });
                }
                self.phase = Phase::Saving;
                self.told = present;
            }
            Phase::Saving if present != self.told => {
                out.packets.push(FromLogger::Stable { position: present.0, output: present.1 });
                self.told = present;
            }
            _ => {}
        }
    }

    fn plan(&mut self, now: Time) {
        let is_open = match self.phase {
            Phase::Ended => false,
            Phase::Preparing | Phase::Found(_) => true,
            Phase::Saving => self.proposer.outstanding() > 0 || self.stable_output() < self.output,
        };
        if !is_open {
            (self.again_at, self.pause) = (Time::MAX, RESEND);
        } else if self.again_at == Time::MAX {
            self.again_at = now + self.pause;
        }
    }
}

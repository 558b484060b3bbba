//! What the machine asks for is done.

use node_abi::framed_output::frames;
use replication::action::{Action, Input};
use replication::finding::Finding;
use replication::message::{Body, Message};
use replication::replicas::Replica;
use virtual_ranks::packet::{self, Packet};

use super::{Engine, OnWire};
use crate::envelope::{Envelope, Kind, LENGTH};
use crate::flips::{Hit, Where, flip};
use crate::printing::{Act, Word};
use crate::sealed::Sealed;

impl Engine {
    pub(super) fn step(&mut self, input: Input<Sealed>) {
        let mut actions = Vec::new();
        self.machine.step(input, &mut actions);
        self.queue.extend(actions);
    }

    /// Does all that the machine asks for.
    pub(super) fn run(&mut self) {
        while let Some(action) = self.queue.pop_front() {
            match action {
                Action::Transmit { to, message } if to == self.me => {
                    self.step(Input::Peer { from: self.me, message });
                }
                Action::Transmit { to, message } => self.transmit(to, message),
                Action::Return(outcome) => self.returned = Some(outcome),
                Action::Report(finding) => self.report(&finding),
                Action::End(finding) => {
                    (self.tell.finding)(finding.kind(), &finding.to_string());
                    self.end_job(&finding.to_string());
                }
                Action::Lost(rank) => self.lose(rank),
            }
        }
    }

    fn report(&mut self, finding: &Finding) {
        let sentence = finding.to_string();
        (self.tell.finding)(finding.kind(), &sentence);
        self.say(&sentence);
        match finding {
            Finding::Tainted { .. } => self.retire(),
            Finding::Corrupt { replica, .. } if *replica == self.me => self.retire(),
            Finding::Corrupt { replica, .. } => {
                self.send_to(*replica, Packet::Own(Envelope::of(Kind::Retire).bytes().to_vec()));
            }
            Finding::Undecided { .. } | Finding::Diverged { .. } => {}
        }
    }

    fn find_output(&self, sentence: &str) {
        (self.tell.finding)("output", sentence);
        self.say(sentence);
    }

    fn transmit(&mut self, to: Replica, message: Message<Sealed>) {
        let packet = match message {
            Message::Copy { number, channel, body: Body::Full(payload) } => {
                let header = Envelope::data(channel, number).bytes();
                match payload {
                    Sealed::Sent(bytes) => packet::with_header(bytes, &header),
                    Sealed::Got(_) => Packet::Own([&header, payload.data()].concat()),
                }
            }
            other => Packet::Own(encode(Kind::Protocol, &other)),
        };
        let packet = self.flip_on_wire(to, packet);
        self.send_to(to, packet);
    }

    /// Flips a bit of a message of the program, if that was asked for: in the first copy that leaves.
    fn flip_on_wire(&mut self, to: Replica, packet: Packet) -> Packet {
        let is_meant = |wire: &&OnWire| {
            let envelope = Envelope::decode(&packet);
            wire.to == to.rank && envelope.is_some_and(|it| it.kind == Kind::Data && it.number == wire.number)
        };
        let Some(OnWire { bit, call, number, .. }) = self.on_wire.as_ref().filter(is_meant) else { return packet };
        let (hit, mut bytes) = (Hit { call: *call, bit: *bit, place: Where::Wire }, packet.to_vec());
        let bit = flip(&mut bytes[LENGTH..], hit.bit);
        self.say_flip(hit, bit, &format!("what goes to replica {}", to.index), (to.rank, *number));
        self.on_wire = None;
        Packet::Own(bytes)
    }

    pub(super) fn send_to(&mut self, to: Replica, packet: Packet) {
        let Some(process) = self.places.process(to) else { return };
        if self.alive[process as usize] {
            self.carrier.send(process, packet);
        }
    }

    /// What the program has printed is compared and printed.
    pub(super) fn print(&mut self) {
        let text = self.output.take();
        if !text.is_empty() {
            let mut acts = Vec::new();
            self.printing.feed(&text, &mut acts);
            self.carry_out(acts);
        }
    }

    pub(super) fn hear_printing(&mut self, from: u8, word: Word) {
        let mut acts = Vec::new();
        self.printing.hear(from, word, &mut acts);
        self.carry_out(acts);
    }

    pub(super) fn carry_out(&mut self, acts: Vec<Act>) {
        let rank = self.me.rank;
        for act in acts {
            match act {
                Act::Tell(index, word) => {
                    self.send_to(Replica { rank, index }, Packet::Own(encode(Kind::Output, &word)));
                }
                Act::Write(place, text) => self.output.write(&frames(rank, place, &text)),
                Act::Flush => self.output.flush(),
                Act::Differs(index) => {
                    self.find_output(&format!(
                        "replica {index} of rank {rank} has printed other text than the other replicas"
                    ));
                }
                Act::Undecided(index) => {
                    let me = self.me.index;
                    self.find_output(&format!(
                        "replicas {me} and {index} of rank {rank} have printed different text: that of {me} counts"
                    ));
                }
            }
        }
    }
}

/// An envelope, and what follows it.
fn encode<T: serde::Serialize>(kind: Kind, what: &T) -> Vec<u8> {
    let bytes = postcard::to_stdvec(what).unwrap_or_default();
    [&Envelope::of(kind).bytes()[..], &bytes].concat()
}

//! What the machine asks for is done.

use std::sync::Arc;

use event_log::determinant::Rank;
use event_log::protocol::action::{Action, Input};
use event_log::protocol::units::{Channel, Envelope as From, Payload, Request};
use openmpi_internals::sync::lock;

use super::{Engine, Open};
use crate::envelope::{Envelope, Kind};
use crate::matching::Message;
use virtual_ranks::data::Buffer;
use virtual_ranks::packet::{self, Packet};

impl Engine {
    pub(super) fn step(&mut self, input: Input) {
        let Some(machine) = &mut self.machine else { return };
        let mut actions = Vec::new();
        let result = machine.step(input, &mut actions);
        self.queue.extend(actions);
        if let Err(error) = result {
            self.fail(&error.to_string());
        }
    }

    /// Does all that the machine asks for.
    pub(super) fn run(&mut self) {
        while let Some(action) = self.queue.pop_front() {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Transmit { to, channel, payload, .. } => self.transmit(to, channel, payload),
            Action::Tell { to, message } => {
                let bytes = postcard::to_stdvec(&message).unwrap_or_default();
                let envelope = self.envelope(Kind::Protocol, Channel { communicator: 0, tag: 0 });
                self.send_to(to, Packet::Own(envelope.encode(&bytes)));
            }
            Action::Post { request, pattern } => {
                if let Some(buffer) = self.starting.take() {
                    self.opened(request, buffer);
                }
                if let Some(message) = self.matching.post(request, pattern) {
                    self.complete(request, &message);
                }
            }
            Action::Withdraw { request } => {
                let is_done = self.matching.withdraw(request);
                self.step(Input::Withdrawn(is_done));
            }
            Action::Look { pattern, wait } => {
                let found = self.matching.find(&pattern).map(|message| (message.envelope, message.data().len()));
                match found {
                    Some((envelope, bytes)) => {
                        self.found = bytes;
                        self.step(Input::Seen(Some(envelope)));
                    }
                    None if wait => self.looking = Some(pattern),
                    None => self.step(Input::Seen(None)),
                }
            }
            Action::Save(determinant) => lock(&self.logger).save(determinant),
            Action::Return(outcome) => self.returned = Some(outcome),
            Action::ProtectionEnded { bytes, limit } => {
                const MIB: u64 = 1 << 20;
                let rank = self.rank.unwrap_or(0);
                self.end_protection(&format!(
                    "the messages that rank {rank} keeps would take {} MiB, and it may keep {} MiB (hook_ringwatch_log_limit)",
                    bytes.div_ceil(MIB),
                    limit / MIB
                ));
            }
            // The state is read when the call has returned, before anything else is done.
            Action::Capture => self.step(Input::Captured { state: Arc::from([]) }),
            Action::Store { checkpoint, bytes } => self.taken = Some((checkpoint, bytes)),
            Action::Trim { up_to } => self.trim(up_to),
            // The program takes checkpoints when it likes; no call of the layer leads to the others.
            Action::CheckpointWanted { .. } | Action::Enter { .. } | Action::Fetch { .. } => {}
        }
    }

    fn transmit(&mut self, to: Rank, channel: Channel, payload: Payload) {
        if Some(to) == self.rank {
            self.arrive(Message { envelope: From { source: to, channel }, packet: Packet::Shared(payload) });
        } else {
            let envelope = self.envelope(Kind::Data, channel);
            self.send_to(to, packet::with_header(payload, &envelope.bytes()));
        }
    }

    /// The envelope of a message that this rank sends now.
    pub(super) fn envelope(&self, kind: Kind, channel: Channel) -> Envelope {
        let Channel { communicator, tag } = channel;
        Envelope { kind, source: self.rank.unwrap_or(0), epoch: self.world.epoch(), tag, communicator }
    }

    pub(super) fn send_to(&mut self, to: Rank, packet: Packet) {
        let place = self.world.place(to);
        if place.is_alive && self.rank.is_some() {
            self.carrier.send(place.process, packet);
        }
    }

    pub(super) fn arrive(&mut self, message: Message) {
        let (envelope, bytes) = (message.envelope, message.data().len());
        if let Some((request, message)) = self.matching.arrive(message) {
            self.complete(request, &message);
        } else if self.looking.is_some_and(|pattern| pattern.covers(envelope)) {
            self.looking = None;
            self.found = bytes;
            self.step(Input::Seen(Some(envelope)));
        }
    }

    fn complete(&mut self, request: Request, message: &Message) {
        self.hear(request, message);
        self.step(Input::Completed { request, envelope: message.envelope });
    }

    /// A receive has started.
    pub(super) fn opened(&mut self, request: Request, buffer: Option<Buffer>) {
        let datatype = buffer.and_then(|buffer| self.data.hold(buffer.datatype));
        self.open.insert(request, Open { buffer, got: Ok(0), kept: Vec::new(), _datatype: datatype });
    }

    /// A receive has got its message.
    pub(super) fn fill(&mut self, request: Request, data: &[u8]) {
        let Some(open) = self.open.get_mut(&request) else { return };
        match open.buffer {
            // SAFETY: the program leaves the buffer to MPI until the receive has ended.
            Some(buffer) => open.got = unsafe { self.data.write(data, buffer) },
            None => open.kept = data.to_vec(),
        }
    }
}

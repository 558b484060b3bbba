//! What other processes say, and who is dead.

use std::sync::Arc;

use replication::action::Input;
use replication::message::{Body, Message};

use super::Engine;
use crate::envelope::{Envelope, Kind, LENGTH};
use crate::sealed::Sealed;

impl Engine {
    /// Looks for what has arrived, who has died, and what the program has printed.
    pub fn turn(&mut self) {
        self.sends = 0;
        let (messages, somebody_died) = self.carrier.turn();
        for (process, bytes) in messages {
            self.packet(process, bytes);
        }
        if somebody_died {
            self.note_deaths();
        }
        self.run();
        self.print();
    }

    fn packet(&mut self, process: u32, bytes: Vec<u8>) {
        let (Some(envelope), Some(from)) = (Envelope::decode(&bytes), self.places.replica(process)) else { return };
        match envelope.kind {
            Kind::Data => {
                let Envelope { channel, number, .. } = envelope;
                let body = Body::Full(Sealed::Got(Arc::new(bytes)));
                self.step(Input::Peer { from, message: Message::Copy { number, channel, body } });
                self.run();
            }
            Kind::Protocol => {
                if let Ok(message) = postcard::from_bytes(&bytes[LENGTH..]) {
                    self.step(Input::Peer { from, message });
                    self.run();
                }
            }
            Kind::Output => {
                if let (Ok(word), true) = (postcard::from_bytes(&bytes[LENGTH..]), from.rank == self.me.rank) {
                    self.hear_printing(from.index, word);
                }
            }
            Kind::Retire => self.retire(),
            Kind::Done => self.done[process as usize] = true,
        }
    }

    fn note_deaths(&mut self) {
        for process in self.carrier.dead() {
            let Some(replica) = self.places.replica(process) else { continue };
            if !std::mem::replace(&mut self.alive[process as usize], false) {
                continue;
            }
            self.step(Input::Died(replica));
            self.run();
            if replica.rank == self.me.rank {
                let mut acts = Vec::new();
                self.printing.bury(replica.index, &mut acts);
                self.carry_out(acts);
            }
        }
    }
}

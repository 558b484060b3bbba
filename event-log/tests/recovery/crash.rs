//! Ranks die and are replaced.

use std::collections::VecDeque;

use event_log::determinant::Rank;
use event_log::protocol::action::Input;
use event_log::protocol::checkpoint::{Checkpoint, last_whole};
use event_log::protocol::counters::Counts;
use event_log::protocol::message::Message;
use event_log::protocol::process::{Config, Process};
use event_log::protocol::variant::Variant;

use crate::mpi::{Collectives, Matching};
use crate::world::World;

impl<V: Variant> World<V> {
    /// One rank dies, or two; all in flight is lost; replacements take their places.
    pub fn crash(&mut self, replaying: bool) -> Result<(), String> {
        let ranks = self.nodes.len();
        let mut dead = vec![self.random.below(ranks)];
        if self.random.once_in(4) {
            dead.push((dead[0] + 1) % ranks);
        }
        self.has_given_up = false;
        self.figures.crashes += 1;
        self.figures.overlapping += usize::from(replaying);
        self.network.lose();
        self.control.iter_mut().for_each(VecDeque::clear);
        self.collectives = Collectives::default();
        for node in &mut self.nodes {
            node.running = None;
            node.matching = Matching::default();
        }
        for &rank in &dead {
            self.replace(rank)?;
        }
        self.replaced = dead.iter().map(|&rank| rank as Rank).collect();
        let mut order: Vec<usize> = (0..ranks).collect();
        self.random.shuffle(&mut order);
        order.into_iter().try_for_each(|rank| self.step(rank, Input::Repaired))
    }

    fn replace(&mut self, rank: usize) -> Result<(), String> {
        let node = &mut self.nodes[rank];
        node.logger.lose(&mut self.random, self.setting.has_no_fence);
        let mut files: Vec<Vec<u8>> = node.durable.take().into_iter().collect();
        if let Some((_, mut bytes)) = node.writing.take() {
            // It may be whole all the same, only nobody knew.
            if self.random.once_in(2) {
                bytes.truncate(self.random.below(bytes.len()));
            }
            files.push(bytes);
        }
        let last = last_whole(files.iter().map(Vec::as_slice));
        node.durable = last.as_ref().map(Checkpoint::encode);
        (node.program, node.may_call, node.is_own_call) = (None, false, false);
        node.memory.clear();
        let mut out = Vec::new();
        let config = Config { rank: rank as Rank, ..self.config };
        node.process = Process::recover(config, last, &mut out).map_err(|error| error.to_string())?;
        self.act(rank, out)
    }

    /// What a message between machines says where a test breaks a rule of it.
    pub fn falsify(&self, from: usize, to: usize, message: Message) -> Message {
        let pair = (to as Rank, from as Rank);
        match message {
            Message::Counters { received, completed } if self.setting.counts_per_peer => {
                let total: u64 = received.iter().map(|(_, count)| count).sum();
                let order = self.order.get(&pair).map_or(&[][..], Vec::as_slice);
                let mut counts = Counts::default();
                order.iter().take(total as usize).for_each(|&channel| _ = counts.add(channel));
                Message::Counters { received: counts, completed }
            }
            Message::Counters { completed, .. }
                if self.setting.tells_replaced_only
                    && !self.replaced.iter().any(|&rank| rank == pair.0 || rank == pair.1) =>
            {
                // As if it had all that was ever sent.
                let mut received = Counts::default();
                let order = self.order.get(&pair).map_or(&[][..], Vec::as_slice);
                order.iter().for_each(|&channel| _ = received.add(channel));
                Message::Counters { received, completed }
            }
            other => other,
        }
    }
}

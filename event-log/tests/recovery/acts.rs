//! What the machines ask for is done.

use std::collections::BTreeMap;

use event_log::determinant::Rank;
use event_log::protocol::action::{Action, Input};
use event_log::protocol::call::{Call, Gathered, Outcome};
use event_log::protocol::checkpoint::Checkpoint;
use event_log::protocol::message::Message;
use event_log::protocol::units::{Channel, Payload};
use event_log::protocol::variant::Variant;

use crate::mpi::InFlight;
use crate::node::state;
use crate::program::{Program, combine};
use crate::world::World;

impl<V: Variant> World<V> {
    /// Gives a machine an input and does what it asks for.
    pub fn step(&mut self, rank: usize, input: Input) -> Result<(), String> {
        let mut out = Vec::new();
        self.nodes[rank].process.step(input, &mut out).map_err(|error| format!("rank {rank}: {error}"))?;
        self.act(rank, out)
    }

    pub fn act(&mut self, rank: usize, actions: Vec<Action>) -> Result<(), String> {
        actions.into_iter().try_for_each(|action| self.act_one(rank, action))
    }

    fn act_one(&mut self, rank: usize, action: Action) -> Result<(), String> {
        let node = &mut self.nodes[rank];
        match action {
            Action::Transmit { to, channel, number, payload } => {
                self.transmit(rank as Rank, to, channel, number, payload)?
            }
            Action::Tell { to, message } => {
                self.figures.served += usize::from(matches!(message, Message::Give { .. }));
                self.control[rank * self.plan.ranks as usize + to as usize].push_back(message);
            }
            Action::Post { request, pattern } => node.matching.post(request, pattern),
            Action::Withdraw { request } => {
                let is_done = node.matching.withdraw(request);
                self.step(rank, Input::Withdrawn(is_done))?;
            }
            Action::Look { pattern, wait: false } => {
                let found = node.matching.look(pattern);
                self.step(rank, Input::Seen(found))?;
            }
            Action::Look { pattern, wait: true } => {
                node.matching.looking = Some(pattern);
                if let found @ Some(_) = node.matching.answer() {
                    self.step(rank, Input::Seen(found))?;
                }
            }
            Action::Enter { communicator, sequence, contribution } => {
                let Some(Call::Collective { needs, .. }) =
                    node.program.as_ref().and_then(|program| program.next(&self.plan.scripts[rank]))
                else {
                    return Err("an operation begins that no program has called".into());
                };
                node.running = Some((communicator, needs));
                self.collectives.enter(communicator, rank as Rank, sequence, contribution)?;
            }
            Action::Save(determinant) => {
                self.figures.determinants += 1;
                node.logger.save(determinant);
            }
            Action::Trim { up_to } => node.logger.trim(up_to),
            Action::Fetch { since } => node.logger.fetch(since),
            Action::Capture => {
                let program = node.program.as_ref().ok_or("the state of a program that does not run is asked for")?;
                let state = state(program, &node.memory);
                self.step(rank, Input::Captured { state })?;
            }
            Action::Store { checkpoint, bytes } => {
                self.figures.checkpoints += 1;
                if self.setting.trims_early {
                    let whole = Checkpoint::decode(&bytes).map_err(|error| error.to_string())?;
                    node.logger.trim(whole.last_determinant);
                }
                node.writing = Some((checkpoint, bytes));
            }
            Action::Return(outcome) => self.returned(rank, outcome)?,
            Action::CheckpointWanted { .. } | Action::ProtectionEnded { .. } if self.setting.limit.is_none() => {
                return Err("there is no limit".into());
            }
            Action::CheckpointWanted { .. } => node.wants_checkpoint = true,
            Action::ProtectionEnded { .. } => self.figures.unprotected += 1,
        }
        Ok(())
    }

    fn transmit(
        &mut self,
        from: Rank,
        to: Rank,
        channel: Channel,
        number: u64,
        payload: Payload,
    ) -> Result<(), String> {
        let known = self.sent.insert((from, to, channel, number), payload.clone());
        match known {
            None => self.order.entry((from, to)).or_default().push(channel),
            Some(before) if before == payload => self.figures.resent += 1,
            Some(_) => return Err(format!("message {number} from {from} to {to} on {channel:?} is another one now")),
        }
        self.network.send(from, to, InFlight { channel, payload });
        Ok(())
    }

    fn returned(&mut self, rank: usize, outcome: Outcome) -> Result<(), String> {
        let kind = self.kind(rank);
        let ranks = self.plan.ranks;
        let node = &mut self.nodes[rank];
        node.may_call = true;
        if let Outcome::Restored { state: saved } = outcome {
            let (program, memory) = match saved {
                None => (Program::new(rank as Rank, ranks), BTreeMap::new()),
                Some(state) => postcard::from_bytes(&state).map_err(|error| error.to_string())?,
            };
            node.history.truncate(program.calls);
            (node.program, node.memory) = (Some(program), memory);
            return Ok(());
        }
        if std::mem::take(&mut node.is_own_call) {
            return Ok(());
        }
        if let Outcome::Collective(gathered) = &outcome {
            let kind = kind.ok_or("an operation returned that no program has called")?;
            let result = match gathered {
                Gathered::Result(result) => result.clone(),
                Gathered::Contributions(contributions) => combine(kind, rank as Rank, contributions),
            };
            node.memory.insert(0, result);
        }
        let (program, memory) = (node.program.as_mut().expect("it called"), &node.memory);
        program.returned(&self.plan.scripts[rank], &outcome, &|request| memory[&request].clone());
        node.history.push(outcome);
        Ok(())
    }
}

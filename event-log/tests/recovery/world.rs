//! Ranks, MPI, loggers and files together, one event after another, with crashes.

use std::collections::{BTreeMap, VecDeque};

use event_log::determinant::Rank;
use event_log::protocol::action::Input;
use event_log::protocol::call::Call;
use event_log::protocol::message::Message;
use event_log::protocol::pessimism::Mode;
use event_log::protocol::process::Config;
use event_log::protocol::sender_log::{Limit, Policy};
use event_log::protocol::units::{Channel, Payload};
use event_log::protocol::variant::Variant;

use crate::mpi::{Collectives, Network};
use crate::node::Node;
use crate::plan::{Kind, Op, Plan};
use crate::program::combine;
use crate::random::Random;
use crate::reference::check;
use crate::setting::{Figures, Setting};

/// A job.
pub struct World<V> {
    pub plan: Plan,
    pub setting: Setting,
    pub random: Random,
    /// Of rank 0.
    pub config: Config,
    pub nodes: Vec<Node<V>>,
    pub network: Network,
    pub collectives: Collectives,
    pub control: Vec<VecDeque<Message>>,
    /// Every message that was ever sent, by sender, receiver, channel and number.
    pub sent: BTreeMap<(Rank, Rank, Channel, u64), Payload>,
    /// In the order of sending, by sender and receiver.
    pub order: BTreeMap<(Rank, Rank), Vec<Channel>>,
    pub replaced: Vec<Rank>,
    /// Whether nobody waits for room any more, because nobody could go on.
    pub has_given_up: bool,
    /// How much longer slow events take.
    pub slowness: usize,
    pub figures: Figures,
}

#[derive(Clone, Copy)]
enum Event {
    Program(usize),
    Arrive(usize),
    /// A small message, or any.
    Complete(usize, bool),
    Control(usize),
    Store(usize),
    Stable(usize),
    List(usize),
    Durable(usize),
    CollectiveDone(usize),
}

impl<V: Variant> World<V> {
    pub fn new(seed: u64, setting: Setting) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::new(&mut random);
        let mode = random.pick(&[Mode::BeforeNextSend, Mode::BeforeNextSend, Mode::Synchronous]);
        let mode = if setting.asynchronous { Mode::Asynchronous } else { mode };
        let bytes = setting.limit.unwrap_or(u64::MAX);
        let limit = Limit { bytes, policy: random.pick(&[Policy::Wait, Policy::Wait, Policy::EndProtection]) };
        let config = Config { rank: 0, ranks: plan.ranks, mode, limit };
        let nodes = (0..plan.ranks).map(|rank| Node::new(Config { rank, ..config }));
        Self {
            nodes: nodes.collect(),
            network: Network::new(plan.ranks),
            collectives: Collectives::default(),
            control: vec![VecDeque::new(); (plan.ranks * plan.ranks) as usize],
            sent: BTreeMap::new(),
            order: BTreeMap::new(),
            replaced: Vec::new(),
            figures: Figures::default(),
            slowness: random.pick(&[1, 4, 20]),
            plan,
            setting,
            random,
            config,
            has_given_up: false,
        }
    }

    /// Runs to the end and checks what has come out.
    pub fn run(mut self) -> Result<Figures, String> {
        let (mut events, mut slow) = (Vec::new(), Vec::new());
        while !self.is_done() {
            self.figures.events += 1;
            if self.figures.events > 200_000 {
                return Err("it does not end".into());
            }
            let may_crash = self.nodes.iter().all(|node| node.process.is_protected());
            if may_crash && self.figures.crashes < self.setting.crashes {
                let replaying = self.nodes.iter().any(|node| node.process.is_replaying());
                if self.random.once_in(if replaying { 30 } else { 120 }) {
                    self.crash(replaying)?;
                }
            }
            self.collect_events(&mut events, &mut slow);
            if events.is_empty() || self.random.once_in(self.slowness) {
                events.append(&mut slow);
            }
            if events.is_empty() {
                self.give_up_waiting()?;
                continue;
            }
            let event = self.random.pick(&events);
            self.happen(event)?;
        }
        let programs = self.nodes.iter().map(|node| (node.program.as_ref(), node.history.as_slice()));
        let programs: Option<Vec<_>> = programs.map(|(program, history)| Some((program?, history))).collect();
        check(&self.plan, &programs.ok_or("a rank is not restored")?)?;
        self.tidy_up()?;
        Ok(self.figures)
    }

    /// Nobody can go on: it may be for room in the logs.
    fn give_up_waiting(&mut self) -> Result<(), String> {
        if self.has_given_up || self.setting.limit.is_none() {
            return Err("nobody can go on".into());
        }
        self.has_given_up = true;
        (0..self.nodes.len()).try_for_each(|rank| self.step(rank, Input::StopWaitingForRoom))
    }

    /// With a checkpoint of everybody behind everything, all logs are garbage.
    fn tidy_up(&mut self) -> Result<(), String> {
        self.settle()?;
        if self.nodes.iter().any(|node| !node.process.is_protected()) {
            return Ok(());
        }
        for call in [Call::Checkpoint, Call::CollectGarbage] {
            for rank in 0..self.nodes.len() {
                self.nodes[rank].is_own_call = true;
                self.step(rank, Input::Call(call.clone()))?;
            }
            self.settle()?;
        }
        let left = self.nodes.iter().map(|node| (node.process.log_bytes(), node.process.left_to_replay()));
        let left: Vec<_> = left.collect();
        if left.iter().all(|left| *left == (0, 0)) { Ok(()) } else { Err(format!("in the end this is left: {left:?}")) }
    }

    /// Everything happens that is under way.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            let (mut events, mut slow) = (Vec::new(), Vec::new());
            self.collect_events(&mut events, &mut slow);
            let Some(&event) = events.iter().chain(&slow).next() else { return Ok(()) };
            self.happen(event)?;
        }
    }

    /// What a rank's program does.
    fn script(&self, rank: usize) -> &[Op] {
        &self.plan.scripts[rank]
    }

    fn is_done(&self) -> bool {
        self.nodes.iter().zip(&self.plan.scripts).all(|(node, script)| {
            node.may_call && node.program.as_ref().is_some_and(|program| program.next(script).is_none())
        })
    }

    /// What can happen next, and what takes longer than all of that.
    fn collect_events(&self, events: &mut Vec<Event>, slow: &mut Vec<Event>) {
        events.clear();
        slow.clear();
        for (rank, node) in self.nodes.iter().enumerate() {
            let script = self.script(rank);
            let wants = node.wants_checkpoint || node.wants_collection;
            if node.may_call && node.program.as_ref().is_some_and(|program| wants || program.next(script).is_some()) {
                events.push(Event::Program(rank));
            }
            let may = [
                (node.matching.incomplete.iter().any(|matched| !matched.is_large()), Event::Complete(rank, false)),
                (node.logger.has_answer(), Event::Stable(rank)),
                (node.logger.is_asked(), Event::List(rank)),
                (self.result(rank).is_some(), Event::CollectiveDone(rank)),
            ];
            events.extend(may.iter().filter(|(may, _)| *may).map(|(_, event)| event));
            let may = [
                (!node.matching.incomplete.is_empty(), Event::Complete(rank, true)),
                (node.logger.has_coming(), Event::Store(rank)),
                (node.writing.is_some(), Event::Durable(rank)),
            ];
            slow.extend(may.iter().filter(|(may, _)| *may).map(|(_, event)| event));
        }
        events.extend(self.network.waiting().map(Event::Arrive));
        let control = self.control.iter().enumerate().filter(|(_, queue)| !queue.is_empty());
        events.extend(control.map(|(queue, _)| Event::Control(queue)));
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Program(rank) => self.call(rank),
            Event::Arrive(queue) => {
                let (from, to, message) = self.network.take(queue);
                let matching = &mut self.nodes[to as usize].matching;
                matching.arrive(from, message);
                match matching.answer() {
                    None => Ok(()),
                    found => self.step(to as usize, Input::Seen(found)),
                }
            }
            Event::Complete(rank, is_any) => {
                let node = &mut self.nodes[rank];
                let incomplete = &mut node.matching.incomplete;
                let may = (0..incomplete.len()).filter(|&place| is_any || !incomplete[place].is_large());
                let matched = incomplete.remove(self.random.pick(&may.collect::<Vec<_>>()));
                node.memory.insert(matched.request, matched.payload);
                self.step(rank, Input::Completed { request: matched.request, envelope: matched.envelope })
            }
            Event::Control(queue) => {
                let message = self.control[queue].pop_front().expect("the queue is not empty");
                let ranks = self.nodes.len();
                let message = self.falsify(queue / ranks, queue % ranks, message);
                self.step(queue % ranks, Input::Peer { from: (queue / ranks) as Rank, message })
            }
            Event::Store(rank) => {
                self.nodes[rank].logger.store();
                Ok(())
            }
            Event::Stable(rank) => {
                let up_to = self.nodes[rank].logger.answer();
                self.step(rank, Input::Stable { up_to })
            }
            Event::List(rank) => {
                let list = self.nodes[rank].logger.list();
                self.step(rank, Input::Fetched(list))
            }
            Event::Durable(rank) => {
                let node = &mut self.nodes[rank];
                let (checkpoint, bytes) = node.writing.take().expect("one is being written");
                node.durable = Some(bytes);
                node.wants_collection = self.setting.limit.is_some();
                self.step(rank, Input::Durable { checkpoint })
            }
            Event::CollectiveDone(rank) => {
                let result = self.result(rank).expect("the operation is complete");
                self.nodes[rank].running = None;
                self.nodes[rank].memory.insert(0, result.clone());
                self.step(rank, Input::CollectiveDone { result })
            }
        }
    }

    /// The result of the operation that a rank has begun in MPI, once it is there.
    fn result(&self, rank: usize) -> Option<Payload> {
        let (communicator, needs) = self.nodes[rank].running.as_ref()?;
        let contributions = self.collectives.result(*communicator, rank as Rank, needs)?;
        Some(combine(self.kind(rank)?, rank as Rank, &contributions))
    }

    /// The operation that a rank's program calls.
    pub fn kind(&self, rank: usize) -> Option<Kind> {
        match self.nodes[rank].program.as_ref()?.op(self.script(rank)) {
            Some(Op::Collective(_, kind)) => Some(*kind),
            _ => None,
        }
    }

    /// The program's next call, or a checkpoint or a garbage collection between two of its calls.
    fn call(&mut self, rank: usize) -> Result<(), String> {
        let node = &self.nodes[rank];
        let program = node.program.as_ref().expect("the program runs");
        let call = match self.random.below(16) {
            _ if node.wants_checkpoint => Call::Checkpoint,
            _ if node.wants_collection => Call::CollectGarbage,
            0 => Call::Checkpoint,
            1 => Call::CollectGarbage,
            _ => program.next(self.script(rank)).expect("the program is not at its end"),
        };
        let now = self.random.below(1 << 31) as u64;
        let call = if matches!(call, Call::Clock { .. }) { Call::Clock { now } } else { call };
        let node = &mut self.nodes[rank];
        node.may_call = false;
        node.is_own_call = matches!(call, Call::Checkpoint | Call::CollectGarbage);
        node.wants_checkpoint &= call != Call::Checkpoint;
        node.wants_collection &= call != Call::CollectGarbage;
        self.step(rank, Input::Call(call))
    }
}

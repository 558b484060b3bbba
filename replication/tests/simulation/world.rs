//! Replicas and the network between them, one event after another, with deaths and flipped bits.

use std::collections::{BTreeMap, VecDeque};

use event_log::determinant::Rank;
use event_log::protocol::units::Channel;
use replication::action::{Action, Input};
use replication::call::{Call, Outcome};
use replication::finding::Finding;
use replication::machine::{Bound, Config, Machine};
use replication::message::{Body, Data, Message};
use replication::method::Method;
use replication::replicas::{Degrees, Replica};
use replication::variant::Variant;

use crate::plan::Plan;
use crate::program::{Payload, Program};
use crate::random::Random;
use crate::setting::{Figures, Flip, Setting};

/// Bytes of the largest message.
const LARGEST: u64 = 32;

pub struct Node<V> {
    pub replica: Replica,
    machine: Machine<Payload, V>,
    pub program: Program,
    /// The call that has not returned.
    calling: Option<Call<Payload>>,
    pub is_dead: bool,
    pub uncompared: u64,
}

/// Who gets how many of the events.
#[derive(Clone, Copy, Debug)]
enum Schedule {
    /// Any event.
    Uniform,
    /// The processes of one replica are slow: those of this index, or one process of it.
    Slow(u8, Option<Rank>),
    /// One process goes on for a while.
    Bursts,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Program(usize),
    Arrive(usize, usize),
    Notice(usize, usize),
    Retire(usize),
}

pub struct World<V> {
    pub plan: Plan,
    pub nodes: Vec<Node<V>>,
    pub method: Method,
    pub degrees: Degrees,
    random: Random,
    schedule: Schedule,
    bound: Bound,
    queues: BTreeMap<(usize, usize), VecDeque<Message<Payload>>>,
    /// Deaths of which a process does not know.
    notices: Vec<(usize, usize)>,
    /// Found corrupt and to be killed.
    condemned: Vec<usize>,
    deaths: Vec<usize>,
    step: usize,
    current: usize,
    /// Whose bit is flipped how, at which of its sends.
    flip: Option<(usize, Flip, usize)>,
    pub victim: Option<Replica>,
    pub has_flipped: bool,
    /// Whether something that is not right was sent.
    pub has_sent_flipped: bool,
    /// The data that is not right.
    buffer: Option<Payload>,
    pub reports: Vec<Finding>,
    pub ended: Option<Finding>,
    pub figures: Figures,
}

impl<V: Variant> World<V> {
    pub fn new(seed: u64, setting: Setting) -> Self {
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(3) as u32;
        let replicas = if setting.replicas == 0 { 2 + random.below(2) as u8 } else { setting.replicas };
        let method = random.pick(&Method::ALL);
        let plan = Plan::new(&mut random, ranks);
        let mut list: Vec<Rank> = (0..ranks).collect();
        random.shuffle(&mut list);
        list.truncate(1 + random.below(ranks as usize));
        let degrees = if setting.partial && random.once_in(2) {
            Degrees::partial(ranks, replicas, &list)
        } else {
            Degrees::uniform(ranks, replicas)
        };
        let degrees = degrees.expect("2 or 3 replicas");
        let all: Vec<Replica> = degrees.all().collect();
        let bound = Bound { unverified: random.pick(&[1, 2, 5, 1000]), kept: random.pick(&[0, 60, 10_000]) };
        let (report_every, polls_together) = (random.pick(&[1, 3, 64]), random.pick(&[1, 3, 32]));
        let node = |replica: &Replica| {
            let config =
                Config { bound, report_every, polls_together, ..Config::new(*replica, degrees.clone(), method) };
            Node {
                replica: *replica,
                machine: Machine::new(config),
                program: Program::new(replica.rank),
                calling: None,
                is_dead: false,
                uncompared: 0,
            }
        };
        let replicated: Vec<usize> = (0..all.len()).filter(|place| degrees.of(all[*place].rank).len() > 1).collect();
        let victim = random.pick(&replicated);
        let kind = random.pick(&[Flip::Buffer, Flip::Buffer, Flip::Memory, Flip::Wire]);
        let flip = setting.flips.then_some((victim, kind, random.below(6)));
        let index = random.below(usize::from(replicas)) as u8;
        let schedule = match random.below(4) {
            0 => Schedule::Uniform,
            1 => Schedule::Slow(index, None),
            2 => Schedule::Slow(index, Some(random.below(ranks as usize) as Rank)),
            _ => Schedule::Bursts,
        };
        let count = if setting.deaths == 0 { 0 } else { 1 + random.below(setting.deaths) };
        let most = random.pick(&[60, 300, 1000]);
        let mut deaths: Vec<usize> = (0..count).map(|_| random.below(most)).collect();
        deaths.sort_unstable();
        Self {
            nodes: all.iter().map(node).collect(),
            plan,
            method,
            random,
            schedule,
            bound,
            queues: BTreeMap::new(),
            notices: Vec::new(),
            condemned: Vec::new(),
            deaths,
            step: 0,
            current: 0,
            flip,
            victim: setting.flips.then_some(all[victim]),
            has_flipped: false,
            has_sent_flipped: false,
            buffer: None,
            reports: Vec::new(),
            ended: None,
            figures: Figures { jobs: 1, ..Figures::default() },
            degrees,
        }
    }

    /// Runs to the end.
    pub fn run(mut self) -> Result<Self, String> {
        loop {
            if self.deaths.first().is_some_and(|at| *at <= self.step) {
                self.deaths.remove(0);
                self.kill_any();
            }
            let events = self.events();
            let are_over = |node: &Node<V>| node.is_dead || node.program.is_over();
            if self.ended.is_some() || self.condemned.is_empty() && self.nodes.iter().all(are_over) {
                break;
            }
            if events.is_empty() || self.step > 200_000 {
                let stuck = self.nodes.iter().filter(|node| !are_over(node)).map(|node| (node.replica, &node.calling));
                let stuck: Vec<_> = stuck.collect();
                return Err(format!("{:?}: nobody goes on after {} events: {stuck:?}", self.method, self.step));
            }
            let event = self.choose(&events);
            self.step += 1;
            self.happen(event)?;
        }
        self.figures.found = u64::from(!self.reports.is_empty() || self.ended.is_some());
        self.figures.ended = u64::from(self.ended.is_some());
        self.figures.flips = u64::from(self.has_flipped);
        Ok(self)
    }

    fn events(&self) -> Vec<Event> {
        let may_call = |node: &Node<V>| !node.is_dead && node.calling.is_none() && !node.program.is_over();
        let mut events: Vec<Event> =
            (0..self.nodes.len()).filter(|place| may_call(&self.nodes[*place])).map(Event::Program).collect();
        let full = self.queues.iter().filter(|((_, to), queue)| !queue.is_empty() && !self.nodes[*to].is_dead);
        events.extend(full.map(|((from, to), _)| Event::Arrive(*from, *to)));
        events.extend(self.notices.iter().map(|(to, dead)| Event::Notice(*to, *dead)));
        events.extend(self.condemned.iter().map(|place| Event::Retire(*place)));
        events
    }

    fn choose(&mut self, events: &[Event]) -> Event {
        let place = |event: &Event| match *event {
            Event::Program(place) | Event::Retire(place) | Event::Notice(place, _) => place,
            Event::Arrive(_, to) => to,
        };
        let preferred: Vec<Event> = match self.schedule {
            Schedule::Uniform => Vec::new(),
            Schedule::Slow(..) if self.random.once_in(30) => Vec::new(),
            Schedule::Slow(index, rank) => {
                let is_slow = |event: &&Event| {
                    let Replica { rank: own, index: other } = self.nodes[place(event)].replica;
                    other == index && rank.is_none_or(|rank| rank == own)
                };
                events.iter().filter(|event| !is_slow(event)).copied().collect()
            }
            Schedule::Bursts => {
                if self.random.once_in(12) {
                    self.current = self.random.below(self.nodes.len());
                }
                events.iter().filter(|event| place(event) == self.current).copied().collect()
            }
        };
        if preferred.is_empty() { self.random.pick(events) } else { self.random.pick(&preferred) }
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Program(place) => self.call(place),
            Event::Arrive(from, to) => {
                let message = self.queues.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("it is not empty");
                self.figures.asks += u64::from(matches!(message, Message::Ask { .. }));
                self.figures.decisions += u64::from(matches!(message, Message::Decided(_)));
                self.step(to, Input::Peer { from: self.nodes[from].replica, message })
            }
            Event::Notice(to, dead) => {
                self.notices.retain(|notice| *notice != (to, dead));
                self.step(to, Input::Died(self.nodes[dead].replica))
            }
            Event::Retire(place) => {
                self.condemned.retain(|other| *other != place);
                if !self.nodes[place].is_dead {
                    self.figures.retired += 1;
                    if self.others_alive(place) == 0 && self.figures.deaths > 0 {
                        // The right ones are dead: the rank is lost, and the job ends with what was reported.
                        self.ended = self.reports.last().copied();
                        return Ok(());
                    }
                    if self.others_alive(place) == 0 {
                        return Err(format!("the last replica of a rank was found corrupt: {:?}", self.reports));
                    }
                    self.kill(place);
                }
                Ok(())
            }
        }
    }

    fn call(&mut self, place: usize) -> Result<(), String> {
        let own = self.step as u64 * 1000 + place as u64;
        let node = &mut self.nodes[place];
        let script = &self.plan.scripts[node.replica.rank as usize];
        let mut call = node.program.next(script, own);
        if let (Some((victim, kind, at)), Call::Send { .. }) = (self.flip, &call) {
            let sent = node.program.sent.len();
            if victim == place && sent == at && kind == Flip::Memory && !self.has_flipped {
                node.program.hash ^= 1 << 40;
                self.has_flipped = true;
                call = node.program.next(script, own);
            }
        }
        node.calling = Some(call.clone());
        if let (Some((victim, Flip::Buffer, at)), Call::Send { payload, .. }) = (self.flip, &mut call) {
            if victim == place && node.program.sent.len() == at && !self.has_flipped {
                self.has_flipped = true;
                *payload = flipped(payload);
                self.buffer = Some(payload.clone());
            }
        }
        self.step(place, Input::Call(call))
    }

    fn step(&mut self, place: usize, input: Input<Payload>) -> Result<(), String> {
        let mut actions = Vec::new();
        self.nodes[place].machine.step(input, &mut actions);
        for action in actions {
            match action {
                Action::Transmit { to, message } => self.transmit(place, to, message),
                Action::Return(outcome) => self.returned(place, outcome),
                Action::Report(finding) => self.report(finding),
                Action::End(finding) => self.ended = Some(finding),
                Action::Lost(rank) => return Err(format!("rank {rank} is lost, and a replica lives")),
            }
        }
        let machine = &self.nodes[place].machine;
        if machine.unverified() > self.bound.unverified {
            return Err(format!(
                "{} messages are unverified, and {} may be",
                machine.unverified(),
                self.bound.unverified
            ));
        }
        if machine.bytes().1 > self.bound.kept + LARGEST {
            return Err(format!("{} bytes are kept, and {} may be", machine.bytes().1, self.bound.kept));
        }
        Ok(())
    }

    fn transmit(&mut self, place: usize, to: Replica, message: Message<Payload>) {
        let to = self.nodes.iter().position(|node| node.replica == to).expect("there is such a replica");
        let message = self.falsify(place, message);
        if let (Some((victim, kind, _)), Message::Copy { channel, body, .. }) = (self.flip, &message) {
            let is_flipped = kind != Flip::Buffer
                || self.buffer.as_ref().is_some_and(|buffer| match body {
                    Body::Full(payload) => payload == buffer,
                    Body::Digest(digest) => *digest == buffer.digest(*channel),
                });
            self.has_sent_flipped |= self.has_flipped && victim == place && is_flipped;
        }
        if !self.nodes[to].is_dead && !self.nodes[place].is_dead {
            self.queues.entry((place, to)).or_default().push_back(message);
        }
    }

    fn falsify(&mut self, place: usize, message: Message<Payload>) -> Message<Payload> {
        match (self.flip, message) {
            (Some((victim, Flip::Wire, at)), Message::Copy { number, channel, body })
                if victim == place && !self.has_flipped && self.nodes[place].program.sent.len() >= at =>
            {
                self.has_flipped = true;
                let body = match body {
                    Body::Full(payload) => Body::Full(flipped(&payload)),
                    Body::Digest(mut digest) => {
                        digest.0 ^= 1 << 77;
                        Body::Digest(digest)
                    }
                };
                Message::Copy { number, channel, body }
            }
            (_, message) => message,
        }
    }

    fn returned(&mut self, place: usize, outcome: Outcome<Payload>) {
        let node = &mut self.nodes[place];
        let script = &self.plan.scripts[node.replica.rank as usize];
        let call = node.calling.take();
        if let Outcome::Finalized { compared, uncompared } = outcome {
            self.figures.compared += compared;
            self.figures.uncompared += uncompared;
            node.uncompared = uncompared;
        }
        let sent: Option<(Rank, Channel, Payload)> = match call {
            Some(Call::Send { to, channel, payload }) => Some((to, channel, payload)),
            _ => None,
        };
        node.program.returned(script, outcome, sent);
    }

    fn report(&mut self, finding: Finding) {
        let replica = match finding {
            Finding::Corrupt { replica, .. } | Finding::Tainted { replica, .. } => Some(replica),
            _ => None,
        };
        self.figures.tainted += u64::from(matches!(finding, Finding::Tainted { .. }));
        self.reports.push(finding);
        let place = self.nodes.iter().position(|node| Some(node.replica) == replica);
        self.condemned.extend(place.filter(|place| !self.condemned.contains(place) && !self.nodes[*place].is_dead));
    }

    fn others_alive(&self, place: usize) -> usize {
        let rank = self.nodes[place].replica.rank;
        let of_rank = self.nodes.iter().filter(|node| node.replica.rank == rank && !node.is_dead).count();
        of_rank - usize::from(!self.nodes[place].is_dead)
    }

    fn kill_any(&mut self) {
        let may = |place: &usize| !self.nodes[*place].is_dead && self.others_alive(*place) > 0;
        let candidates: Vec<usize> = (0..self.nodes.len()).filter(may).collect();
        if !candidates.is_empty() {
            self.figures.deaths += 1;
            // The one that decides more often than others.
            let first = self.random.once_in(2);
            let place = if first { candidates[0] } else { self.random.pick(&candidates) };
            self.kill(place);
        }
    }

    /// A process dies: some of what it has sent arrives.
    fn kill(&mut self, place: usize) {
        self.nodes[place].is_dead = true;
        for ((from, to), queue) in &mut self.queues {
            if *to == place {
                queue.clear();
            } else if *from == place {
                queue.truncate(self.random.below(queue.len() + 1));
                self.figures.late += queue.len() as u64;
            }
        }
        self.notices.retain(|(to, _)| *to != place);
        let alive = (0..self.nodes.len()).filter(|other| !self.nodes[*other].is_dead);
        self.notices.extend(alive.map(|other| (other, place)));
    }
}

fn flipped(payload: &Payload) -> Payload {
    let mut bytes = payload.to_vec();
    bytes[0] ^= 4;
    bytes.into()
}

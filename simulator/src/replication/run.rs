//! Hands calls and messages to the machines, and measures.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use event_log::protocol::units::{Channel, Pattern as Asked, Request};
use replication::action::{Action, Input};
use replication::call::{Call, Outcome};
use replication::digest::Digest;
use replication::machine::{Bound, Config, Machine};
use replication::message::{Body, Data, Message};
use replication::method::Method;
use replication::replicas::{Degrees, Replica};

use crate::random::{Purpose, Stream};
use crate::replication::network::Network;
use crate::replication::patterns::Op;
use crate::replication::scenario::{Figures, Scenario};

const CHANNEL: Channel = Channel { communicator: 0, tag: 0 };
const ENVELOPE: u64 = 20;
/// Between two looks at what is open, in nanoseconds.
const SAMPLE: u64 = 1_000_000;

/// Data that has a length only. All replicas send the same.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bytes(u64);

impl Data for Bytes {
    fn length(&self) -> u64 {
        self.0
    }

    fn digest(&self, _: Channel) -> Digest {
        Digest(u128::from(self.0))
    }
}

struct Process {
    machine: Machine<Bytes>,
    script: Vec<Op>,
    at: usize,
    posted: VecDeque<Request>,
    arrived: VecDeque<(Replica, Message<Bytes>)>,
    /// It does nothing else before that.
    busy: u64,
    /// Whether a call has not returned.
    is_waiting: bool,
    /// When it has come to `MPI_Finalize`, and when that has returned.
    ended: (Option<u64>, Option<u64>),
    processor: f64,
}

enum Event {
    /// The first byte of so many is at the port.
    Port(usize, u64, Replica, Message<Bytes>),
    Arrive(usize, Replica, Message<Bytes>),
    GoOn(usize),
    Sample,
}

struct Run {
    scenario: Scenario,
    degrees: Degrees,
    processes: Vec<Process>,
    network: Network,
    /// Time, place in the order of making, place in `events`.
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    count: u64,
    events: Vec<Option<Event>>,
    unused: Vec<usize>,
    chance: Stream,
    figures: Figures,
}

/// Simulates it.
///
/// # Panics
/// If the number of replicas is not 2 or 3, or the program does not end.
#[must_use]
pub fn run(scenario: &Scenario) -> Figures {
    let ranks = scenario.pattern.ranks;
    let degrees = match scenario.method {
        Some(_) => Degrees::uniform(ranks, scenario.replicas),
        None => Degrees::partial(ranks, 2, &[]),
    };
    let degrees = degrees.expect("2 or 3 replicas");
    let all: Vec<Replica> = degrees.all().collect();
    let config = |me: &Replica| {
        let mut config = Config::new(*me, degrees.clone(), scenario.method.unwrap_or(Method::Async));
        if scenario.method.is_none() {
            // Nothing waits for verification.
            config.bound = Bound { unverified: u64::MAX, kept: u64::MAX };
        }
        config
    };
    let process = |me: &Replica| Process {
        machine: Machine::new(config(me)),
        script: scenario.pattern.script(me.rank),
        at: 0,
        posted: VecDeque::new(),
        arrived: VecDeque::new(),
        busy: 0,
        is_waiting: false,
        ended: (None, None),
        processor: 0.0,
    };
    let mut run = Run {
        scenario: *scenario,
        processes: all.iter().map(process).collect(),
        network: Network::new(scenario.costs, all.len()),
        queue: BinaryHeap::new(),
        count: 0,
        events: Vec::new(),
        unused: Vec::new(),
        chance: Stream::new(scenario.seed, Purpose::Messages),
        figures: Figures::default(),
        degrees,
    };
    (0..all.len()).for_each(|place| run.push(0, Event::GoOn(place)));
    run.push(SAMPLE, Event::Sample);
    run.events();
    run.figures(&all)
}

impl Run {
    fn push(&mut self, time: u64, event: Event) {
        let place = self.unused.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.count += 1;
        self.queue.push(Reverse((time, self.count, place)));
    }

    fn events(&mut self) {
        while let Some(Reverse((now, _, place))) = self.queue.pop() {
            self.unused.push(place);
            match self.events[place].take().expect("it is there until it happens") {
                Event::Port(process, bytes, from, message) => {
                    let time = self.network.come(process, bytes, now);
                    self.push(time, Event::Arrive(process, from, message));
                }
                Event::Arrive(process, from, message) => {
                    self.processes[process].arrived.push_back((from, message));
                    self.go_on(process, now);
                }
                Event::GoOn(process) => self.go_on(process, now),
                Event::Sample if self.processes.iter().all(|process| process.ended.1.is_some()) => {}
                Event::Sample => {
                    let open = |process: &Process| process.machine.messages().0;
                    let sum: usize = self.processes.iter().map(open).sum();
                    self.figures.open.push((now as f64 / 1e9, sum as f64 / self.processes.len() as f64));
                    self.push(now + SAMPLE, Event::Sample);
                }
            }
        }
    }

    /// A process does one thing, if it has one to do and time.
    fn go_on(&mut self, place: usize, now: u64) {
        let process = &mut self.processes[place];
        if process.busy > now {
            return;
        }
        if let Some((from, message)) = process.arrived.pop_front() {
            let time = self.time_of(&message, false);
            return self.step(place, Input::Peer { from, message }, now, time);
        }
        if process.is_waiting || process.ended.0.is_some() {
            return;
        }
        let op = process.script.get(process.at).copied();
        let posted = process.posted.front().copied();
        match (op, posted) {
            (Some(Op::Compute(flops)), _) => {
                process.at += 1;
                let costs = self.scenario.costs;
                let noise = 1.0 + costs.noise * self.chance.below(1_000) as f64 / 1_000.0;
                process.busy = now + (flops / costs.flops * noise) as u64;
                let until = process.busy;
                self.push(until.max(now), Event::GoOn(place));
            }
            (Some(Op::WaitAll), None) => {
                process.at += 1;
                self.push(now, Event::GoOn(place));
            }
            (Some(Op::WaitAll), Some(request)) => self.call(place, Call::Wait { request }, now, 0.0),
            (Some(Op::Send(to, bytes)), _) => {
                process.at += 1;
                // Replicas keep a copy of what they send.
                let copy = if self.scenario.method.is_some() { self.scenario.costs.copy } else { 0.0 };
                self.call(place, Call::Send { to, channel: CHANNEL, payload: Bytes(bytes) }, now, copy * bytes as f64);
            }
            (Some(Op::Post(source)), _) => {
                process.at += 1;
                let pattern = Asked { communicator: 0, source: Some(source), tag: Some(0) };
                self.call(place, Call::Receive { pattern }, now, 0.0);
            }
            (None, _) => {
                process.ended.0 = Some(now);
                self.call(place, Call::Finalize, now, 0.0);
            }
        }
    }

    fn call(&mut self, place: usize, call: Call<Bytes>, now: u64, time: f64) {
        self.processes[place].is_waiting = true;
        self.step(place, Input::Call(call), now, time);
    }

    /// Processor time of a message at one of its ends.
    fn time_of(&self, message: &Message<Bytes>, is_sent: bool) -> f64 {
        let costs = self.scenario.costs;
        let Some(method) = self.scenario.method else {
            return if matches!(message, Message::Copy { .. }) { costs.message as f64 } else { 0.0 };
        };
        let hash = match message {
            // A receiver hashes the data. A sender does where it sends the digest; the length of the data is that of
            // the digest here.
            Message::Copy { body: Body::Full(data), .. } if !is_sent => data.0 as f64,
            Message::Copy { body: Body::Digest(digest), .. } if is_sent && method.sends_digests() => digest.0 as f64,
            _ => 0.0,
        };
        costs.message as f64 + hash * costs.hash
    }

    fn step(&mut self, place: usize, input: Input<Bytes>, now: u64, time: f64) {
        let mut actions = Vec::new();
        self.processes[place].machine.step(input, &mut actions);
        let mut time = time;
        for action in actions {
            match action {
                Action::Transmit { to, message } => {
                    time += self.time_of(&message, true);
                    self.transmit(place, to, message, now + time as u64);
                }
                Action::Return(outcome) => self.returned(place, outcome, now + time as u64),
                other => unreachable!("nothing is wrong here: {other:?}"),
            }
        }
        let process = &mut self.processes[place];
        process.processor += time;
        process.busy = now + time as u64;
        let (busy, (open, _), bytes) = (process.busy, process.machine.messages(), process.machine.bytes());
        self.figures.most_open = self.figures.most_open.max(open);
        self.figures.most_kept = self.figures.most_kept.max(bytes.0 + bytes.1);
        self.push(busy, Event::GoOn(place));
    }

    fn returned(&mut self, place: usize, outcome: Outcome<Bytes>, now: u64) {
        let process = &mut self.processes[place];
        process.is_waiting = false;
        match outcome {
            Outcome::Posted(request) => process.posted.push_back(request),
            Outcome::Received(_) => _ = process.posted.pop_front(),
            Outcome::Finalized { .. } => process.ended.1 = Some(now),
            _ => {}
        }
    }

    fn transmit(&mut self, from: usize, to: Replica, message: Message<Bytes>, now: u64) {
        let is_copy = matches!(message, Message::Copy { .. });
        let data = if let Message::Copy { body: Body::Full(data), .. } = &message { data.0 } else { 16 };
        let target = self.degrees.process(to).expect("there is such a replica") as usize;
        let bytes = data + ENVELOPE;
        // A job without replicas has no such messages: its machine has them to end only.
        if is_copy || self.scenario.method.is_some() {
            if is_copy {
                self.figures.messages += 1
            } else {
                self.figures.control += 1
            }
            self.figures.bytes += bytes;
        }
        let sent = if is_copy || self.scenario.method.is_some() { bytes } else { 0 };
        let sender = self.degrees.replica(from as u32).expect("it is one");
        if from == target {
            return self.push(now, Event::Arrive(target, sender, message));
        }
        let time = self.network.leave(from, target, sent, now);
        if self.network.is_within(from, target) {
            self.push(time, Event::Arrive(target, sender, message));
        } else {
            self.push(time, Event::Port(target, sent, sender, message));
        }
    }

    fn figures(mut self, all: &[Replica]) -> Figures {
        let ends: Vec<(u64, u64)> = self
            .processes
            .iter()
            .map(|process| (process.ended.0.unwrap_or(0), process.ended.1.expect("it ends")))
            .collect();
        let of = |index: u8| {
            let ends = all.iter().zip(&ends).filter(|(replica, _)| replica.index == index);
            ends.map(|(_, (program, _))| *program).max()
        };
        let first = (0..3).filter_map(of).min().unwrap_or(0);
        let last = ends.iter().map(|(_, end)| *end).max().unwrap_or(0);
        // Without replicas nothing is verified.
        let last = if self.scenario.method.is_some() { last } else { first };
        (self.figures.first, self.figures.time) = (first as f64 / 1e9, last as f64 / 1e9);
        let processor: f64 = self.processes.iter().map(|process| process.processor).sum();
        self.figures.processor = processor / 1e9 / self.processes.len() as f64;
        self.figures
    }
}

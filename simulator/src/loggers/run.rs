//! Hands the events to the machines, and measures.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use event_log::determinant::{Determinant, Event, Rank};
use event_log::logger::Action;
use event_log::logger::message::Message;
use event_log::logger::round::Address;

use crate::loggers::costs::Costs;
use crate::loggers::deployment::{Deployment, Place, nodes, rank, stores};
use crate::loggers::load::{determinants, is_memory};
use crate::loggers::processors::Processors;
use crate::loggers::scenario::{Figures, Scenario};
use crate::loggers::store::Store;
use crate::random::{Purpose, Stream};

struct Saver {
    place: Place,
    last: u64,
    since: u64,
}

/// Something that arrives; simultaneous events are in the order in which they were made.
type Arrival = Reverse<(u64, u64, usize)>;

struct Run {
    scenario: Scenario,
    savers: Vec<Saver>,
    processes: BTreeMap<Address, Store>,
    processors: Processors,
    queue: BinaryHeap<Arrival>,
    /// Sender, receiver, message of the arrivals.
    under_way: Vec<Option<(Address, Address, Message)>>,
    unused: Vec<usize>,
    count: u64,
    chance: Stream,
    latencies: Vec<u64>,
    stable: u64,
    /// When the first quarter was stable, and all; none: not yet.
    measured: (Option<u64>, Option<u64>),
    /// By node: processor time of its servers, acceptors or replicas.
    store_busy: Vec<u64>,
}

/// Simulates it.
///
/// # Panics
/// If there is no rank, or nothing to save.
#[must_use]
pub fn run(scenario: &Scenario) -> Figures {
    let Scenario { deployment, ranks, .. } = *scenario;
    assert!(ranks > 0 && scenario.batch > 0, "somebody saves something");
    let processors = nodes(deployment, ranks);
    let mut run = Run {
        scenario: *scenario,
        savers: (0..ranks).map(|me| Saver { place: rank(deployment, ranks, me), last: 0, since: 0 }).collect(),
        processes: BTreeMap::new(),
        processors: Processors::new(&processors),
        queue: BinaryHeap::new(),
        under_way: Vec::new(),
        unused: Vec::new(),
        count: 0,
        chance: Stream::new(scenario.seed, Purpose::Messages),
        latencies: Vec::new(),
        stable: 0,
        measured: (None, None),
        store_busy: vec![0; processors.len()],
    };
    for (address, node, store) in stores(deployment, ranks) {
        run.processors.place(address, node);
        run.processes.insert(address, store);
    }
    for me in 0..ranks {
        run.processors.place(me, me as usize);
        let first = std::mem::take(&mut run.savers[me as usize].place.first);
        if first.is_empty() {
            run.save(me, 0);
        } else {
            run.job(me, 0, 0, first);
        }
    }
    while let (None, Some(Reverse((now, _, number)))) = (run.measured.1, run.queue.pop()) {
        let (from, to, message) = run.under_way[number].take().expect("it is under way");
        run.unused.push(number);
        run.arrive(now, from, to, message);
    }
    run.figures()
}

impl Run {
    /// A rank saves a batch and is about to send.
    fn save(&mut self, me: Rank, now: u64) {
        let saver = &mut self.savers[me as usize];
        let mut out = Vec::new();
        for _ in 0..self.scenario.batch {
            saver.last += 1;
            let one = Determinant {
                id: saver.last,
                event: Event::Receive,
                communicator: 0,
                source: 0,
                tag: 0,
                request: 0,
                repetitions: 1,
            };
            saver.place.logger.save(one).expect("it is the next one");
        }
        saver.since = now;
        saver.place.logger.flush(&mut out);
        self.job(me, now, 0, out);
    }

    /// A message arrives: its receiver handles it when it has a processor.
    fn arrive(&mut self, now: u64, from: Address, to: Address, message: Message) {
        let takes = self.receive_time(&message);
        if (to as usize) < self.savers.len() {
            let mut out = Vec::new();
            self.savers[to as usize].place.logger.handle(from, message, &mut out);
            self.job(to, now, takes, out);
        } else {
            let is_memory = is_memory(&message);
            let out = self.processes.get_mut(&to).expect("it is there").handle(from, message);
            // Nobody there does anything.
            if is_memory { self.complete(now, to, out) } else { self.job(to, now, takes, out) }
        }
    }

    /// A process takes a processor for what it has received, and for what it does then.
    fn job(&mut self, process: Address, now: u64, takes: u64, actions: Vec<Action>) {
        let begin = self.processors.begin(process, now);
        let mut at = begin + takes;
        let mut todo: std::collections::VecDeque<Action> = actions.into();
        let mut is_stable = false;
        while let Some(action) = todo.pop_front() {
            match action {
                Action::Send { to, message } => {
                    let Costs { send, wire, post, write, .. } = self.scenario.costs;
                    let is_memory = is_memory(&message);
                    at += self.about(if is_memory { post } else { send });
                    self.send(at + if is_memory { write / 2 } else { wire }, process, to, message);
                }
                Action::Store { to, message } => {
                    at += self.about(self.scenario.costs.store);
                    for answer in self.processes.get_mut(&to).expect("it is there").handle(process, message) {
                        let Action::Send { message, .. } = answer else { continue };
                        let mut more = Vec::new();
                        self.savers[process as usize].place.logger.handle(to, message, &mut more);
                        todo.extend(more);
                    }
                }
                Action::Stable(id) => is_stable |= id == self.savers[process as usize].last,
                Action::Recovered(_) => is_stable = true,
                _ => {}
            }
        }
        self.processors.take(process, at);
        if process >= self.scenario.ranks {
            self.store_busy[self.processors.node(process)] += at - begin;
        }
        if is_stable {
            self.next(process, at);
        }
    }

    /// All that a rank has saved is stable: it saves the next batch.
    fn next(&mut self, me: Rank, now: u64) {
        let saver = &mut self.savers[me as usize];
        if saver.last > 0 {
            self.stable += self.scenario.batch;
        }
        match self.measured {
            (None, _) if 4 * self.stable >= self.scenario.determinants => {
                self.measured.0 = Some(now);
                self.store_busy.fill(0);
            }
            (None, _) => {}
            (Some(_), _) => self.latencies.push(now - saver.since),
        }
        if self.stable >= self.scenario.determinants {
            self.measured.1 = Some(now);
        }
        if self.scenario.deployment == Deployment::OneSided {
            // A checkpoint: only the rank needs to know, and its slots are free again.
            let last = saver.last;
            saver.place.logger.trim(last, &mut Vec::new());
        }
        self.save(me, now);
    }

    fn complete(&mut self, now: u64, from: Address, actions: Vec<Action>) {
        for action in actions {
            let Action::Send { to, message } = action else { continue };
            self.send(now + self.scenario.costs.write / 2, from, to, message);
        }
    }

    fn send(&mut self, at: u64, from: Address, to: Address, message: Message) {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.under_way.push(None);
            self.under_way.len() - 1
        });
        self.under_way[number] = Some((from, to, message));
        self.count += 1;
        self.queue.push(Reverse((at, self.count, number)));
    }

    fn receive_time(&mut self, message: &Message) -> u64 {
        let Costs { receive, determinant, poll, .. } = self.scenario.costs;
        if matches!(message, Message::Completion { .. }) {
            return self.about(poll);
        }
        self.about(receive + determinant * determinants(message).saturating_sub(1))
    }

    /// A time within 20 % of this one.
    fn about(&mut self, mean: u64) -> u64 {
        mean * 4 / 5 + self.chance.below(mean * 2 / 5 + 1)
    }

    fn figures(mut self) -> Figures {
        let (Some(begin), Some(end)) = self.measured else { panic!("the ranks wait for ever") };
        self.latencies.sort_unstable();
        let count = self.latencies.len().max(1);
        let busiest = self.store_busy.iter().copied().max().unwrap_or(0);
        Figures {
            rate: (self.latencies.len() as u64 * self.scenario.batch) as f64 * 1e6 / (end - begin) as f64,
            mean: self.latencies.iter().sum::<u64>() as f64 / count as f64,
            percentile_99: self.latencies.get(count * 99 / 100).copied().unwrap_or(0),
            store_processors: busiest as f64 / (end - begin) as f64,
        }
    }
}

//! Writers and stores of event loggers on a network that loses, doubles and reorders, with processes that come and go:
//! whatever a process is told to be stable, every later one finds.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::Duration;

use event_log::determinant::{Determinant, Event};
use event_log::logger::round::Position;
use nix::sys::memfd::{MFdFlags, memfd_create};
use node_abi::event_loggers::{FromLogger, Writer as Who};
use propagation::{NodeId, Time};
use rdma_heartbeat::logger::store::Store;
use rdma_heartbeat::logger::words::{self, Word};
use rdma_heartbeat::logger::writer::{Outcome, Writer};

const RANK: u32 = 3;
/// The nodes that keep its sequence. Node 0 is another one.
const NODES: [NodeId; 3] = [1, 2, 3];
const SEEDS: u64 = 60;
const STEPS: usize = 400;
const PROCESSES: u16 = 5;

/// What the rank's history has at this place, in the life of this process: no two lives go on alike.
fn determinant(id: u64, incarnation: u16) -> Determinant {
    let source = u32::from(incarnation);
    Determinant { id, event: Event::Probe, communicator: 0, source, tag: 0, request: id << 40, repetitions: u64::MAX }
}

/// One process of the rank.
struct Process {
    node: NodeId,
    incarnation: u16,
    writer: Writer,
    /// What it has saved or found; none before it has been told.
    history: Option<Vec<Determinant>>,
    output: u64,
    is_deposed: bool,
}

struct World {
    /// A stream of numbers from the seed.
    random: blake3::OutputReader,
    now: Time,
    stores: BTreeMap<NodeId, (OwnedFd, Store)>,
    /// Datagrams on their way: from, to, the process whose it is, and what.
    network: Vec<(NodeId, NodeId, usize, Vec<u8>)>,
    processes: Vec<Process>,
    /// What some process was told to be stable.
    stable: Vec<Determinant>,
    stable_output: u64,
    /// The incarnation that has read last.
    reader: u16,
}

impl World {
    fn new(seed: u64) -> Self {
        let store = |node| {
            let file = memfd_create(c"room-test", MFdFlags::MFD_CLOEXEC).unwrap();
            (node, (file.try_clone().unwrap(), Store::open(Some(file), true)))
        };
        let mut world = Self {
            random: blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof(),
            now: Duration::from_secs(1),
            stores: NODES.map(store).into(),
            network: Vec::new(),
            processes: Vec::new(),
            stable: Vec::new(),
            stable_output: 0,
            reader: 0,
        };
        world.enter(1, 0);
        world
    }

    fn below(&mut self, limit: usize) -> usize {
        let mut bytes = [0; 4];
        self.random.fill(&mut bytes);
        u32::from_le_bytes(bytes) as usize % limit
    }

    fn between(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    fn enter(&mut self, node: NodeId, incarnation: u16) {
        let who = Who { rank: RANK, incarnation, attempt: 0 };
        let writer = Writer::new(who, node, &NODES, incarnation == 0);
        self.processes.push(Process { node, incarnation, writer, history: None, output: 0, is_deposed: false });
        let mut out = Outcome::default();
        let index = self.processes.len() - 1;
        self.processes[index].writer.take(self.now, Position::START, &mut out);
        self.follow(index, out);
    }

    fn follow(&mut self, index: usize, mut out: Outcome) {
        loop {
            let node = self.processes[index].node;
            out.packets.drain(..).for_each(|packet| self.tell(index, packet));
            let mut answers = Vec::new();
            for (to, word) in out.words.drain(..) {
                match word {
                    Word::Request { rank, output, request } if to == node => {
                        answers.extend(self.stores.get_mut(&to).unwrap().1.handle(rank, output, request));
                    }
                    word => self.network.extend(words::pack(&[word]).into_iter().map(|bytes| (node, to, index, bytes))),
                }
            }
            if answers.is_empty() {
                return;
            }
            answers.into_iter().for_each(|word| self.processes[index].writer.hear(self.now, node, word, &mut out));
        }
    }

    /// What a process is told, and what must be true then.
    fn tell(&mut self, index: usize, packet: FromLogger) {
        let process = &mut self.processes[index];
        match packet {
            FromLogger::Stable { position, output } => {
                let count = usize::try_from(position.id).unwrap();
                let history = &process.history.as_ref().unwrap()[..count];
                let common = count.min(self.stable.len());
                assert_eq!(history[..common], self.stable[..common], "what is stable stays so");
                if process.incarnation < self.reader {
                    assert!(count <= self.stable.len(), "who was replaced makes nothing stable");
                    return;
                }
                if count > self.stable.len() {
                    self.stable = history.to_vec();
                }
                self.stable_output = self.stable_output.max(output);
            }
            FromLogger::Taken { determinants, output, end } => {
                let coming = process.history.get_or_insert_default();
                coming.extend(determinants);
                // One that was replaced before it heard of this is refused with what it saves.
                if end.is_some() && process.incarnation >= self.reader {
                    assert!(coming.len() >= self.stable.len(), "{} of {}", coming.len(), self.stable.len());
                    assert_eq!(coming[..self.stable.len()], self.stable);
                    assert!(output >= self.stable_output);
                    (self.stable, self.stable_output) = (coming.clone(), output);
                    self.reader = self.reader.max(process.incarnation);
                    process.output = output;
                }
            }
            FromLogger::Deposed => {
                process.is_deposed = true;
                let later = self.processes[index].incarnation < self.processes.last().unwrap().incarnation;
                assert!(later, "only a later process deposes one");
            }
            FromLogger::NewerCheckpoint(_) | FromLogger::Full | FromLogger::TooFew { .. } => panic!("{packet:?}"),
        }
    }

    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let at = self.below(self.network.len());
        let (from, to, index, bytes) =
            if self.below(5) == 0 { self.network[at].clone() } else { self.network.swap_remove(at) };
        if self.below(8) == 0 {
            return;
        }
        for word in words::read(&bytes).unwrap() {
            match word {
                Word::Request { rank, output, request } => {
                    let answer = self.stores.get_mut(&to).unwrap().1.handle(rank, output, request);
                    let answers = words::pack(answer.as_slice());
                    self.network.extend(answers.into_iter().map(|bytes| (to, from, index, bytes)));
                }
                word => {
                    let mut out = Outcome::default();
                    self.processes[index].writer.hear(self.now, from, word, &mut out);
                    self.follow(index, out);
                }
            }
        }
    }

    fn save(&mut self, index: usize) {
        let count = if self.below(10) == 0 { self.between(1..=200) } else { self.between(1..=3) } as u64;
        let process = &mut self.processes[index];
        let Some(history) = process.history.as_mut().filter(|_| !process.is_deposed) else { return };
        let first = history.len() as u64 + 1;
        let new: Vec<_> = (first..first + count).map(|id| determinant(id, process.incarnation)).collect();
        history.extend(&new);
        let mut out = Outcome::default();
        process.writer.save(self.now, &new, &mut out).unwrap();
        self.follow(index, out);
    }

    fn step(&mut self) {
        let passed = self.below(5) as u64;
        self.now += Duration::from_millis(passed);
        let index = self.below(self.processes.len());
        match self.below(24) {
            0..=3 => self.save(index),
            4 => {
                let mut out = Outcome::default();
                let process = &mut self.processes[index];
                if process.history.is_some() && !process.is_deposed {
                    process.output += 1;
                    process.writer.output(self.now, process.output, &mut out);
                }
                self.follow(index, out);
            }
            5..=7 => {
                let mut out = Outcome::default();
                self.processes[index].writer.tick(self.now, &mut out);
                self.follow(index, out);
            }
            // A ringwatchd is started again, without those who wrote on its node.
            8 => {
                let node = NODES[self.below(NODES.len())];
                if self.processes.iter().all(|process| process.node != node || process.is_deposed) {
                    let file = self.stores[&node].0.try_clone().unwrap();
                    self.stores.get_mut(&node).unwrap().1 = Store::open(Some(file), false);
                }
            }
            9 if self.below(4) == 0 && self.processes.len() < usize::from(PROCESSES) => {
                let node = self.below(4) as NodeId;
                self.enter(node, u16::try_from(self.processes.len()).unwrap());
            }
            _ => self.deliver(),
        }
    }

    /// The last process gets through once the network is well.
    fn end(&mut self) {
        let last = self.processes.len() - 1;
        for _ in 0..10_000 {
            let is_done =
                self.processes[last].history.as_ref().is_some_and(|history| history.len() == self.stable.len());
            if is_done && self.processes[last].writer.outstanding() == 0 {
                return;
            }
            self.now += Duration::from_millis(10);
            let mut out = Outcome::default();
            self.processes[last].writer.tick(self.now, &mut out);
            self.follow(last, out);
            (0..self.network.len().min(20)).for_each(|_| self.deliver());
        }
        panic!("it gets through");
    }
}

#[test]
fn whatever_was_stable_every_later_process_finds() {
    let (mut taken, mut kept) = (0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        (0..STEPS).for_each(|_| world.step());
        world.end();
        taken += usize::from(world.reader);
        kept += world.stable.len();
    }
    assert!(taken > 60 && kept > 6000, "{taken} replacements, {kept} determinants: too little happens");
}

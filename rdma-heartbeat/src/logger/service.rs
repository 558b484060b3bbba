//! Combines the sequences of connected ranks, this node's store, and messages of other nodes' loggers. The daemon calls
//! this module.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use event_log::determinant::{DeterminantId, Rank};
use event_log::logger::Holding;
use event_log::logger::entry::Entry;
use event_log::logger::round::Round;
use node_abi::event_loggers::{self, FromLogger, MOST_IN_A_PACKET, ToLogger, loggers_of, socket_name, survivable};
use node_abi::launch::Startup;
use node_abi::segment::Segment;
use platform::poller::Poller;
use propagation::{NodeId, Time};
use tracing::{info, warn};

use crate::history::Event;
use crate::logger::ranks::{Connection, Known, Ranks, Received};
use crate::logger::replacements::Replacements;
use crate::logger::store::Store;
use crate::logger::words::{self, Word};
use crate::logger::writer::{Outcome, Writer, round_of};
use crate::process::token::Token;
use crate::report::status::{Held, Replacement, SenderLog};

/// Maximum number of packets of one rank in a turn, so that heartbeats are not delayed.
const PACKETS_PER_TURN: usize = 16;
/// Maximum number of unstable determinants of a rank. With more, its packets are not read until half of them are
/// stable.
const MOST_OUTSTANDING: usize = 4096;
/// Interval of sending to a rank that does not read.
const SLOW_RANK: Duration = Duration::from_millis(5);

/// The event logger of this node.
pub struct Loggers {
    me: NodeId,
    universe: u32,
    ring: Vec<NodeId>,
    failures: u32,
    /// The node of each rank's first process.
    homes: Vec<NodeId>,
    ranks: Option<Ranks>,
    callers: BTreeMap<u32, Caller>,
    /// The number of the next connection.
    next: u32,
    /// The highest round in which a process of this node has written each rank's sequence.
    rounds: BTreeMap<Rank, Round>,
    store: Store,
    /// Messages for the next flush.
    posted: BTreeMap<NodeId, Vec<Word>>,
    dead: BTreeSet<NodeId>,
    /// The processes of this node that have taken the place of a rank.
    replacements: Replacements,
}

struct Caller {
    connection: Connection,
    /// Set once the rank has identified itself.
    writer: Option<Writer>,
    /// Whether its packets are not read at the moment.
    is_paused: bool,
    /// Bytes of its sender log, and their limit.
    keeps: Option<(u64, u64)>,
}

impl Loggers {
    /// The logger of a job that requests it. `file` preserves its state.
    #[must_use]
    pub fn new(startup: &Startup, file: Option<OwnedFd>) -> Option<Self> {
        let (launch, me) = (&startup.launch, startup.me);
        let failures = launch.parameters.event_loggers?;
        let possible = survivable(launch.universe, failures);
        if possible < failures && me == 0 {
            warn!(
                "event loggers for {failures} lost nodes need {} nodes, and the job has {}: what they keep survives {possible}",
                2 * failures + 1,
                launch.universe,
            );
        }
        let name = socket_name(nix::unistd::geteuid().as_raw(), launch.job, me);
        let ranks =
            Ranks::open(&name).map_err(|error| warn!(%error, name, "no rank of this node reaches the event logger"));
        Some(Self {
            me,
            universe: launch.universe,
            ring: launch.ring.clone(),
            failures,
            homes: launch.rank_nodes.clone(),
            ranks: ranks.ok(),
            callers: BTreeMap::new(),
            next: 0,
            rounds: BTreeMap::new(),
            store: Store::open(file, startup.incarnation == 0),
            posted: BTreeMap::new(),
            dead: BTreeSet::new(),
            replacements: Replacements::default(),
        })
    }

    /// The descriptor that becomes readable when a rank calls.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ranks.as_ref().map(Ranks::descriptor)
    }

    /// The nodes that store a rank's sequence.
    fn nodes_of(&self, rank: Rank) -> Option<Vec<NodeId>> {
        let home = *self.homes.get(rank as usize)?;
        Some(loggers_of(home, &self.ring, self.universe, self.failures))
    }

    /// Accepts calling ranks.
    pub fn let_in(&mut self, now: Time, poller: &Poller, segment: &Segment) {
        let Self { ranks: Some(ranks), callers, next, .. } = self else { return };
        let known = |pid: i32| match pid {
            _ if callers.values().any(|caller| caller.connection.pid == pid) => Known::Connected,
            1.. if (0..segment.slots()).any(|slot| segment.occupant(slot).0 == pid) => Known::Rank,
            _ => Known::Stranger,
        };
        for connection in ranks.let_in(now, poller, known) {
            callers.retain(|_, caller| caller.connection.pid != connection.pid);
            if poller.add(&connection, Token::Writer(*next)).is_ok() {
                callers.insert(*next, Caller { connection, writer: None, is_paused: false, keeps: None });
                *next = next.wrapping_add(1);
            }
        }
    }

    /// Handles packets of a rank.
    pub fn hear(&mut self, now: Time, number: u32, poller: &Poller) {
        for _ in 0..PACKETS_PER_TURN {
            let Some(caller) = self.callers.get_mut(&number) else { return };
            if caller.writer.as_ref().is_some_and(|writer| writer.outstanding() >= MOST_OUTSTANDING) {
                poller.remove(&caller.connection);
                caller.is_paused = true;
                return;
            }
            let is_understood = match caller.connection.receive() {
                Received::Packet(packet) => self.obey(now, number, packet),
                Received::Nothing => return,
                Received::Closed => false,
            };
            if !is_understood {
                self.callers.remove(&number);
                return;
            }
        }
    }

    /// Handles a packet; returns whether it is valid.
    fn obey(&mut self, now: Time, number: u32, packet: ToLogger) -> bool {
        let mut out = Outcome::default();
        if let ToLogger::Take { writer: who, after } = packet {
            let Some(writer) = self.writer(who).filter(|_| words::is_id(after.id)) else { return false };
            let Some(caller) = self.callers.get_mut(&number).filter(|caller| caller.writer.is_none()) else {
                return false;
            };
            // No two processes may have the same round: they would be indistinguishable.
            let round = round_of(who, self.me);
            if self.rounds.get(&who.rank).is_some_and(|last| *last >= round) || self.store.has_seen(who.rank, round) {
                caller.connection.send(&FromLogger::Deposed);
                return true;
            }
            self.rounds.insert(who.rank, round);
            info!(rank = who.rank, incarnation = who.incarnation, pid = caller.connection.pid, "logs its events");
            if who.attempt == 0 && who.incarnation > 0 {
                self.replacements.take(now, who.rank, who.incarnation, caller.connection.pid);
            }
            let writer = caller.writer.insert(writer);
            writer.count_living(|node| self.dead.contains(&node), &mut out);
            if out.packets.is_empty() {
                writer.take(now, after, &mut out);
            }
        } else {
            let Some(Caller { writer: Some(writer), keeps, .. }) = self.callers.get_mut(&number) else { return false };
            match packet {
                ToLogger::Save(determinants) => {
                    let is_short = determinants.len() <= MOST_IN_A_PACKET;
                    if !is_short || writer.save(now, &determinants, &mut out).is_err() {
                        warn!(rank = writer.rank(), "a rank saves determinants out of order and is not heard any more");
                        return false;
                    }
                }
                ToLogger::Output(bytes) => writer.output(now, bytes, &mut out),
                ToLogger::Trim(up_to) => writer.trim(now, up_to, &mut out),
                ToLogger::ToRepeat(left) => self.replacements.repeat(now, writer.rank(), left),
                ToLogger::Keeps { bytes, limit } => *keeps = Some((bytes, limit)),
                ToLogger::Take { .. } => {}
            }
        }
        self.carry_out(now, number, out);
        true
    }

    fn writer(&self, who: event_loggers::Writer) -> Option<Writer> {
        let nodes = self.nodes_of(who.rank)?;
        let is_home = self.homes.get(who.rank as usize) == Some(&self.me);
        let is_new = is_home && (who.incarnation, who.attempt) == (0, 0) && self.store.is_new(who.rank);
        Some(Writer::new(who, self.me, &nodes, is_new))
    }

    /// Carries out the outcome of a sequence. Messages to this node are answered at once.
    fn carry_out(&mut self, now: Time, number: u32, mut out: Outcome) {
        loop {
            let Some(caller) = self.callers.get_mut(&number) else { return };
            out.packets.drain(..).for_each(|packet| caller.connection.send(&packet));
            let mut answers = Vec::new();
            for (to, word) in out.words.drain(..) {
                match word {
                    Word::Request { rank, output, request } if to == self.me => {
                        answers.extend(self.store.handle(rank, output, request));
                    }
                    word => self.posted.entry(to).or_default().push(word),
                }
            }
            let Some(writer) = caller.writer.as_mut().filter(|_| !answers.is_empty()) else { return };
            answers.into_iter().for_each(|word| writer.hear(now, self.me, word, &mut out));
        }
    }

    /// Handles a message of another node's logger.
    pub fn take(&mut self, now: Time, from: NodeId, bytes: &[u8]) {
        for word in words::read(bytes).unwrap_or_default() {
            let rank = match word {
                Word::Request { rank, output, request } => {
                    // No node may make this one store other ranks' data.
                    if self.nodes_of(rank).is_some_and(|nodes| nodes.contains(&self.me)) {
                        let answer = self.store.handle(rank, output, request);
                        self.posted.entry(from).or_default().extend(answer);
                    }
                    continue;
                }
                Word::Reply { rank, .. } | Word::Full { rank, .. } => rank,
            };
            let writes = |caller: &Caller| caller.writer.as_ref().is_some_and(|writer| writer.rank() == rank);
            let numbers: Vec<u32> =
                self.callers.iter().filter(|(_, caller)| writes(caller)).map(|(number, _)| *number).collect();
            for number in numbers {
                let mut out = Outcome::default();
                if let Some(writer) = self.callers.get_mut(&number).and_then(|caller| caller.writer.as_mut()) {
                    writer.hear(now, from, word.clone(), &mut out);
                }
                self.carry_out(now, number, out);
            }
        }
    }

    /// Handles the death of a node: its stored data is lost.
    pub fn node_is_dead(&mut self, node: NodeId) {
        self.dead.insert(node);
        for caller in self.callers.values_mut() {
            let mut out = Outcome::default();
            if let Some(writer) = &mut caller.writer {
                writer.count_living(|node| self.dead.contains(&node), &mut out);
            }
            out.packets.iter().for_each(|packet| caller.connection.send(packet));
        }
    }

    /// Does all work that is due.
    pub fn tick(&mut self, now: Time, poller: &Poller) {
        if let Some(ranks) = &mut self.ranks {
            ranks.go_on(now, poller);
        }
        let numbers: Vec<u32> =
            self.callers.iter().filter(|(_, caller)| caller.is_due(now)).map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(caller) = self.callers.get_mut(&number) else { continue };
            caller.connection.flush();
            let mut out = Outcome::default();
            if let Some(writer) = &mut caller.writer {
                writer.tick(now, &mut out);
                let has_room = caller.is_paused && writer.outstanding() <= MOST_OUTSTANDING / 2;
                if has_room && poller.add(&caller.connection, Token::Writer(number)).is_ok() {
                    caller.is_paused = false;
                }
            }
            self.carry_out(now, number, out);
        }
    }

    /// Sends pending messages to other nodes.
    pub fn flush(&mut self, mut send: impl FnMut(NodeId, Vec<u8>)) {
        for (to, words) in std::mem::take(&mut self.posted) {
            words::pack(&words).into_iter().for_each(|word| send(to, word));
        }
    }

    /// Whether [`Loggers::flush`] has work.
    #[must_use]
    pub fn has_posted(&self) -> bool {
        !self.posted.is_empty()
    }

    /// Time at which [`Loggers::tick`] has work.
    #[must_use]
    pub fn deadline(&self, now: Time) -> Time {
        let callers = self.callers.values().map(|caller| caller.deadline(now));
        callers.chain(self.ranks.as_ref().map(Ranks::deadline)).min().unwrap_or(Time::MAX)
    }

    /// What has happened since the last time.
    pub fn take_news(&mut self) -> Vec<Event> {
        self.replacements.take_news()
    }

    /// The processes of this node that have taken the place of a rank.
    pub fn replacements(&self) -> impl Iterator<Item = Replacement> + '_ {
        self.replacements.reports()
    }

    /// The sender logs of this node's processes.
    pub fn sender_logs(&self) -> impl Iterator<Item = SenderLog> + '_ {
        self.callers.values().filter_map(|Caller { connection, writer, keeps, .. }| {
            let (bytes, limit) = (*keeps)?;
            Some(SenderLog { rank: writer.as_ref()?.rank(), pid: connection.pid, bytes, limit })
        })
    }

    /// This node's stored data of each rank.
    pub fn holdings(&self) -> impl Iterator<Item = Held> + '_ {
        let one = |Holding { rank, trimmed, last, count, .. }: Holding| Held {
            rank,
            determinants: count as u64,
            bytes: (count * size_of::<(DeterminantId, Round, Entry)>()) as u64,
            last,
            trimmed,
        };
        self.store.holdings().map(one)
    }
}

impl Caller {
    fn deadline(&self, now: Time) -> Time {
        let writer = self.writer.as_ref().map_or(Time::MAX, Writer::deadline);
        let slow = if self.connection.has_backlog() { now + SLOW_RANK } else { Time::MAX };
        writer.min(slow)
    }

    fn is_due(&self, now: Time) -> bool {
        let may_go_on = |writer: &Writer| self.is_paused && writer.outstanding() <= MOST_OUTSTANDING / 2;
        let writer = self.writer.as_ref().is_some_and(|writer| writer.deadline() <= now || may_go_on(writer));
        writer || self.connection.has_backlog()
    }
}

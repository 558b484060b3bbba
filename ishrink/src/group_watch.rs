//! Tells the `ringwatchd` of this node how this process sees its group of recommended processes, for `ringwatch group`
//! and the history. Without one, or where it does not listen, nothing is told, and nobody waits.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use group_client::parameters::Parameters;
use group_client::watcher::{Nobody, Watcher};
use node_abi::group_watch::{GROUP_VARIABLE, Group, ROWS, Word};
use node_abi::segment::FIRST_RANK_VARIABLE;
use recommended_group::report::{Change, Row, Sight};
use recommended_group::units::Rank;

/// Most words that wait until there is room, or `ringwatchd` is there again.
const MOST_WAITING: usize = 1024;

/// The number of this process among the ranks of all jobs; none if it was not started as one.
pub fn own_number() -> Option<u32> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    number("PMIX_RANK")?.checked_add(number(FIRST_RANK_VARIABLE)?)
}

/// Whoever tells `ringwatchd` of a group with these processes, by their numbers among all ranks.
pub fn watcher(parameters: &Parameters, numbers: Vec<Rank>) -> Box<dyn Watcher> {
    let name = std::env::var(GROUP_VARIABLE).ok();
    let to = name.and_then(|name| SocketAddr::from_abstract_name(name).ok());
    let socket = UnixDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    match (to, socket, numbers.first()) {
        (Some(to), Ok(socket), Some(first)) => {
            let group = Group {
                first: *first,
                processes: numbers.len() as u32,
                interval_us: 1000 * u64::from(parameters.interval_ms),
                passes: parameters.passes,
                multiplier: parameters.multiplier,
                addend_us: 1000 * u64::from(parameters.addend_ms),
                returns: parameters.returns,
                vcube: parameters.vcube,
            };
            Box::new(Teller { socket, to, group, numbers, waiting: VecDeque::new() })
        }
        _ => Box::new(Nobody),
    }
}

struct Teller {
    socket: UnixDatagram,
    to: SocketAddr,
    group: Group,
    numbers: Vec<Rank>,
    waiting: VecDeque<Vec<u8>>,
}

impl Teller {
    fn number(&self, rank: Rank) -> Rank {
        self.numbers.get(rank as usize).copied().unwrap_or(rank)
    }

    fn add(&mut self, word: &Word) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.extend(postcard::to_stdvec(word).ok());
        }
    }

    /// Sends as many words as there is room for.
    fn flush(&mut self) {
        while let Some(word) = self.waiting.front() {
            match self.socket.send_to_addr(word, &self.to) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It is full, or `ringwatchd` is being started again.
                Err(_) => return,
                Ok(_) => drop(self.waiting.pop_front()),
            }
        }
    }
}

impl Watcher for Teller {
    fn changes(&mut self, changes: Vec<Change>) {
        for change in changes {
            let change = Change { rank: self.number(change.rank), ..change };
            self.add(&Word::Changed { group: self.group.first, change });
        }
        self.flush();
    }

    fn sight(&mut self, sight: &Sight) {
        self.flush();
        // An older one waits: this one is told the next time.
        if !self.waiting.is_empty() {
            return;
        }
        let Sight { round, epoch, waits, rows } = sight;
        for (part, rows) in rows.chunks(ROWS).enumerate() {
            let rows = rows.iter().map(|row| Row { rank: self.number(row.rank), ..*row }).collect();
            let (group, from) = (self.group, (part * ROWS) as u32);
            self.add(&Word::Sight { group, round: *round, epoch: *epoch, waits: *waits, from, rows });
        }
        self.flush();
    }
}

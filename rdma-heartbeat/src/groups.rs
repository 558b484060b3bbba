//! Hears ranks of this node that take part in a group of recommended processes: for `ringwatch group`, and for the
//! history.
//!
//! Any process of the node may send datagrams to the socket. Those of the job's user are taken whose sender a rank has
//! written into the node's segment. After any other one the socket rests, so that many cost one look per rest.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::cmsg_space;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, UnixCredentials, bind, recvmsg,
    setsockopt, socket, sockopt,
};
use node_abi::group_watch::{Group, LONGEST_WORD, Word};
use node_abi::segment::Segment;
use platform::poller::Poller;
use propagation::Time;
use recommended_group::report::{Change, Row, Tested};

use crate::history::{Event, micros};
use crate::process::token::Token;
use crate::report::status::{GroupRow, GroupView};

/// Maximum number of datagrams that are taken before heartbeats are handled again.
const DATAGRAMS_PER_TURN: usize = 16;
/// How long the socket rests.
const REST: Duration = Duration::from_millis(50);
/// Maximum number of processes of a group that are shown, and of rows in all views of a report.
const MOST_ROWS: usize = 8192;

/// The socket, and what ranks have told.
pub struct Groups {
    socket: OwnedFd,
    buffer: Box<[u8]>,
    rests_until: Option<Time>,
    /// By the rank that has told it.
    sights: BTreeMap<u32, Seen>,
    news: Vec<Event>,
}

/// How a rank sees its group.
struct Seen {
    at: Time,
    group: Group,
    round: u64,
    epoch: u64,
    waits: bool,
    rows: Vec<Row>,
}

impl Groups {
    /// Listens under a name of the abstract namespace.
    ///
    /// # Errors
    /// If the name is taken or the system refuses.
    pub fn open(name: &str) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Datagram, flags, None)?;
        setsockopt(&socket, sockopt::PassCred, &true)?;
        bind(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
        let buffer = vec![0; LONGEST_WORD].into_boxed_slice();
        Ok(Self { socket, buffer, rests_until: None, sights: BTreeMap::new(), news: Vec::new() })
    }

    /// The descriptor that becomes readable when a rank tells something.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes what ranks have told.
    pub fn hear(&mut self, now: Time, poller: &Poller, segment: &Segment) {
        let user = nix::unistd::geteuid().as_raw();
        for _ in 0..DATAGRAMS_PER_TURN {
            let Some((length, sender)) = self.receive() else { return };
            let sender = sender.filter(|sender| sender.uid() == user && sender.pid() > 0).map(|sender| sender.pid());
            let slot = sender.and_then(|pid| (0..segment.slots()).find(|slot| segment.occupant(*slot).0 == pid));
            let word = postcard::from_bytes(&self.buffer[..length]).ok();
            let (Some(slot), Some(word)) = (slot, word) else {
                poller.remove(&self.socket);
                self.rests_until = Some(now + REST);
                return;
            };
            self.take(now, segment.rank(slot), word);
        }
    }

    fn receive(&mut self) -> Option<(usize, Option<UnixCredentials>)> {
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let mut space = cmsg_space!(UnixCredentials);
        let descriptor = self.socket.as_raw_fd();
        let message = recvmsg::<()>(descriptor, &mut parts, Some(&mut space), MsgFlags::MSG_DONTWAIT).ok()?;
        let sender = message.cmsgs().ok()?.find_map(|one| match one {
            ControlMessageOwned::ScmCredentials(sender) => Some(sender),
            _ => None,
        });
        Some((message.bytes, sender))
    }

    fn take(&mut self, now: Time, by: u32, word: Word) {
        match word {
            Word::Changed { group, change } => self.news.push(event_of(group, by, change)),
            Word::Sight { group, round, epoch, waits, from, rows } => {
                let known = self.sights.contains_key(&by);
                let seen = self.sights.entry(by).or_insert_with(|| Seen {
                    at: now,
                    group,
                    round,
                    epoch,
                    waits,
                    rows: Vec::new(),
                });
                (seen.at, seen.group, seen.round, seen.epoch, seen.waits) = (now, group, round, epoch, waits);
                let from = from as usize;
                if from <= seen.rows.len() && from + rows.len() <= MOST_ROWS.min(group.processes as usize) {
                    let end = seen.rows.len().min(from + rows.len());
                    seen.rows.splice(from..end, rows);
                }
                if !known && by == group.first {
                    self.news.push(Event::Grouped { group: by, processes: group.processes });
                }
            }
        }
    }

    /// Listens again when the rest is over.
    pub fn go_on(&mut self, now: Time, poller: &Poller) {
        if self.rests_until.take_if(|until| now >= *until).is_some() && poller.add(&self.socket, Token::Group).is_err()
        {
            self.rests_until = Some(now + REST);
        }
    }

    /// Time at which [`Groups::go_on`] has work.
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.rests_until.unwrap_or(Time::MAX)
    }

    /// What has happened since the last time.
    pub fn take_news(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.news)
    }

    /// How the ranks of this node see their groups. The rows of all views are limited: the last views may have none.
    pub fn views(&self, now: Time) -> impl Iterator<Item = GroupView> + '_ {
        let mut room = MOST_ROWS;
        self.sights.iter().map(move |(rank, seen)| {
            let rows = if seen.rows.len() <= room { &seen.rows[..] } else { &[] };
            room -= rows.len();
            let group = &seen.group;
            GroupView {
                rank: *rank,
                group: group.first,
                processes: group.processes,
                interval_us: group.interval_us,
                passes: group.passes,
                multiplier: group.multiplier,
                addend_us: group.addend_us,
                returns: group.returns,
                assignment: if group.vcube { "vcube" } else { "all" }.into(),
                round: seen.round,
                epoch: seen.epoch,
                waits: seen.waits,
                age_us: micros(now.saturating_sub(seen.at)),
                rows: rows.iter().map(row_of).collect(),
            }
        })
    }
}

fn event_of(group: u32, by: u32, Change { rank, counter, tested }: Change) -> Event {
    if recommended_group::counters::is_recommended(counter) {
        return Event::Returned { group, rank, by, counter };
    }
    let Tested { verdict, reply, threshold } = match tested {
        Some(tested) => tested,
        None => {
            return Event::Evicted { group, rank, by, counter, verdict: None, reply_us: None, threshold_us: None };
        }
    };
    let (reply_us, threshold_us) = (reply.map(micros), Some(micros(threshold)));
    Event::Evicted { group, rank, by, counter, verdict: Some(verdict), reply_us, threshold_us }
}

fn row_of(row: &Row) -> GroupRow {
    GroupRow {
        rank: row.rank,
        standing: row.standing,
        in_round: row.is_in_round,
        counter: row.counter,
        streak: row.streak,
        threshold_us: micros(row.threshold),
        verdict: row.tested.map(|tested| tested.verdict),
        reply_us: row.tested.and_then(|tested| tested.reply).map(micros),
    }
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    use node_abi::segment::Phase;
    use platform::testing::as_stranger;
    use recommended_group::report::{Standing, Verdict};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    struct Node {
        name: String,
        groups: Groups,
        poller: Poller,
        segment: Segment,
    }

    /// A node on which this process is rank 4.
    fn node(test: &str) -> Node {
        let name = format!("{test}-{}", std::process::id());
        let (groups, poller) = (Groups::open(&name).unwrap(), Poller::new().unwrap());
        poller.add(groups.descriptor(), Token::Group).unwrap();
        let (segment, _) = Segment::create(&[3, 4], 1).unwrap();
        segment.enter(1, std::process::id(), Phase::Running);
        Node { name, groups, poller, segment }
    }

    fn send(name: &str, bytes: &[u8]) {
        let to = SocketAddr::from_abstract_name(name).unwrap();
        UnixDatagram::unbound().unwrap().send_to_addr(bytes, &to).unwrap();
    }

    fn tell(name: &str, word: &Word) {
        send(name, &postcard::to_stdvec(word).unwrap());
    }

    fn row(rank: u32) -> Row {
        let tested = Some(Tested::of(Some(7 * MS), 5 * MS, false));
        let (standing, threshold) = (Standing::Member, 6 * MS);
        Row { rank, standing, is_in_round: true, counter: 2, streak: 0, threshold, tested }
    }

    fn sight(from: u32, rows: &[u32]) -> Word {
        let group = Group { first: 4, processes: 3, ..Group::default() };
        let rows = rows.iter().map(|rank| row(*rank)).collect();
        Word::Sight { group, round: 1, epoch: 2, waits: false, from, rows }
    }

    #[test]
    fn what_a_rank_tells_is_shown_and_what_it_decides_is_news() {
        let Node { name, mut groups, poller, segment } = node("groups-test");
        tell(&name, &sight(0, &[4, 5]));
        tell(&name, &sight(2, &[6]));
        tell(&name, &sight(3, &[7]));
        tell(&name, &sight(0, &[4]));
        let failed = Change { rank: 6, counter: 1, tested: row(6).tested };
        tell(&name, &Word::Changed { group: 4, change: failed });
        tell(&name, &Word::Changed { group: 4, change: Change { rank: 6, counter: 2, tested: None } });
        groups.hear(MS, &poller, &segment);
        let view = groups.views(3 * MS).next().unwrap();
        assert_eq!((view.rank, view.group, view.round, view.epoch, view.age_us), (4, 4, 1, 2, 2000));
        assert_eq!(
            view.rows.iter().map(|row| row.rank).collect::<Vec<_>>(),
            [4, 5, 6],
            "nobody is the fourth of three"
        );
        assert_eq!((view.rows[0].verdict, view.rows[0].reply_us), (Some(Verdict::Late), Some(7000)));
        let (verdict, reply_us, threshold_us) = (Some(Verdict::Late), Some(7000), Some(5000));
        let (group, rank, by) = (4, 6, 4);
        let evicted = Event::Evicted { group, rank, by, counter: 1, verdict, reply_us, threshold_us };
        let returned = Event::Returned { group, rank, by, counter: 2 };
        assert_eq!(groups.take_news(), [Event::Grouped { group, processes: 3 }, evicted, returned]);
    }

    #[test]
    fn who_is_no_rank_and_what_is_no_word_is_looked_at_once_in_a_rest() {
        let Node { name, mut groups, poller, segment } = node("groups-rest-test");
        let (other, _) = Segment::create(&[3], 1).unwrap();
        tell(&name, &sight(0, &[4]));
        groups.hear(MS, &poller, &other);
        assert_eq!((groups.views(MS).count(), groups.deadline()), (0, MS + REST));
        groups.go_on(MS + REST, &poller);
        assert_eq!(groups.deadline(), Time::MAX);
        send(&name, &[255; 40]);
        groups.hear(MS, &poller, &segment);
        assert_eq!((groups.views(MS).count(), groups.deadline()), (0, MS + REST));
    }

    #[test]
    fn another_user_is_not_heard() {
        let Node { name, mut groups, poller, segment } = node("groups-stranger-test");
        let Some(()) = as_stranger(|| tell(&name, &sight(0, &[4]))) else { return };
        groups.hear(MS, &poller, &segment);
        assert_eq!(groups.views(MS).count(), 0);
    }
}

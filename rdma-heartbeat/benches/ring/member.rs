//! One process of a group of foca's: SWIM over UDP on loopback, as foca's example has it, on the clock and with the
//! priority of `ringwatchd`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufRead, Write, stdin, stdout};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::time::Duration;

use foca::{Config, Foca, Member, NoCustomBroadcast, Notification, PostcardCodec, Runtime, Timer};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use platform::clock;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use rdma_heartbeat::process::setup;

use crate::swim::{Order, Said};

/// How many datagrams are read before timers are looked at again.
const AT_A_TIME: usize = 64;

type Swim = Foca<SocketAddr, PostcardCodec, Pcg64Mcg, NoCustomBroadcast>;

/// What foca wants done.
struct Outside {
    socket: UdpSocket,
    members: Vec<SocketAddr>,
    sent: u64,
    /// Timers, by when they are due and by their number.
    due: BinaryHeap<Reverse<(Duration, u64)>>,
    timers: std::collections::BTreeMap<u64, Timer<SocketAddr>>,
    count: u64,
    /// Whether a member went down, which the others are told at once.
    has_news: bool,
}

impl Runtime<SocketAddr> for Outside {
    fn notify(&mut self, notification: Notification<'_, SocketAddr>) {
        let said = match notification {
            Notification::MemberDown(member) => {
                self.has_news = true;
                let number = self.members.iter().position(|one| one == member).unwrap_or(usize::MAX);
                Said::Down { member: number as u32, at: clock::now() }
            }
            Notification::Defunct => Said::Defunct,
            _ => return,
        };
        say(&said);
    }

    fn send_to(&mut self, to: SocketAddr, data: &[u8]) {
        self.sent += 1;
        // What is lost is lost, as on any network.
        let _ = self.socket.send_to(data, to);
    }

    fn submit_after(&mut self, event: Timer<SocketAddr>, after: Duration) {
        self.count += 1;
        self.due.push(Reverse((clock::now() + after, self.count)));
        self.timers.insert(self.count, event);
    }
}

impl Outside {
    fn next_due(&mut self, now: Duration) -> Option<Timer<SocketAddr>> {
        let Reverse((at, number)) = *self.due.peek()?;
        if at > now {
            return None;
        }
        self.due.pop();
        self.timers.remove(&number)
    }
}

fn say(said: &Said) {
    let line = serde_json::to_string(said).expect("it is plain data");
    // Who started this process has ended if it cannot be written.
    let _ = writeln!(stdout().lock(), "{line}");
}

/// The settings of foca that SWIM's paper has, and that suit the number of members; nothing is sent beside the probes.
fn config(order: &Order) -> Config {
    let members = NonZeroU32::new(order.members.len() as u32).unwrap_or(NonZeroU32::MIN);
    Config {
        probe_period: order.period,
        probe_rtt: order.period / 3,
        suspect_to_down_after: order.timeout,
        notify_down_members: false,
        periodic_announce: None,
        periodic_gossip: None,
        ..Config::new_lan(members)
    }
}

/// Runs until standard input ends.
///
/// # Errors
/// A sentence if the system refuses what it needs.
pub fn run() -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let _ = setup::prepare();
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(told)?;
    socket.set_nonblocking(true).map_err(told)?;
    say(&Said::At(socket.local_addr().map_err(told)?));
    let mut line = String::new();
    stdin().lock().read_line(&mut line).map_err(told)?;
    let order: Order = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    let own = order.members[order.me as usize];
    let random = Pcg64Mcg::seed_from_u64(u64::from(order.me));
    let mut swim: Swim = Foca::new(own, config(&order), random, PostcardCodec);
    let mut outside = Outside {
        socket,
        members: order.members.clone(),
        sent: 0,
        due: BinaryHeap::new(),
        timers: std::collections::BTreeMap::new(),
        count: 0,
        has_news: false,
    };
    let others = order.members.iter().filter(|member| **member != own).map(|member| Member::alive(*member));
    let _ = swim.apply_many(others, false, &mut outside);
    let mut packet = [0; 1500];
    loop {
        while let Some(timer) = outside.next_due(clock::now()) {
            let _ = swim.handle_timer(timer, &mut outside);
        }
        for _ in 0..AT_A_TIME {
            let Ok((length, _)) = outside.socket.recv_from(&mut packet) else { break };
            let _ = swim.handle_data(&packet[..length], &mut outside);
        }
        if std::mem::take(&mut outside.has_news) {
            let _ = swim.gossip(&mut outside);
        }
        if wait(&outside)? {
            line.clear();
            match stdin().lock().read_line(&mut line) {
                Ok(1..) => say(&Said::Sent(outside.sent)),
                _ => return Ok(()),
            }
        }
    }
}

/// Waits for a datagram, a timer or a line; returns whether there is a line.
fn wait(outside: &Outside) -> Result<bool, String> {
    let input = stdin();
    let mut watched =
        [PollFd::new(input.as_fd(), PollFlags::POLLIN), PollFd::new(outside.socket.as_fd(), PollFlags::POLLIN)];
    let due = outside.due.peek().map(|Reverse((at, _))| TimeSpec::from_duration(at.saturating_sub(clock::now())));
    match ppoll(&mut watched, due, None) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(watched[0].any().unwrap_or(false)),
        Err(error) => Err(error.to_string()),
    }
}

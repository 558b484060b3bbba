//! A group of members of foca or memberlist (SWIM), each in a process of its own. This process starts them and reads
//! what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::cluster::send_signal;
use crate::rings::{Fault, Ring, Settings, Usage, processor};

/// How long the members may take to start, or to answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a group that has just started still says is over.
const SETTLED: Duration = Duration::from_secs(2);

/// What a member is told in its first line: the others, and the times.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub me: u32,
    /// Where the members are, by number.
    pub members: Vec<SocketAddr>,
    pub period: Duration,
    pub timeout: Duration,
}

/// What a member says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Said {
    /// Where it is.
    At(SocketAddr),
    /// A member is down, since this moment.
    Down { member: u32, at: Duration },
    /// It is declared down itself.
    Defunct,
    /// How many datagrams it has sent: the answer to a line.
    Sent(u64),
}

struct Member {
    child: Child,
    input: ChildStdin,
}

pub struct Swim {
    members: Vec<Member>,
    said: Receiver<(u32, Said)>,
    dead: BTreeSet<u32>,
    /// When each member learned of the deaths of others, by those.
    known: BTreeMap<u32, BTreeMap<u32, Duration>>,
    defunct: usize,
    sent: BTreeMap<u32, u64>,
}

impl Drop for Swim {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

/// A member of foca's is this program and asks for its own priority; all threads of another program get the same here.
fn command(program: Option<&Path>) -> std::io::Result<Command> {
    let Some(program) = program else {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("member");
        return Ok(command);
    };
    let mut command = Command::new("sh");
    let words = "chrt --fifo 1 true 2>/dev/null && exec chrt --fifo 1 \"$0\"; exec \"$0\"";
    command.args(["-c", words]).arg(program);
    Ok(command)
}

fn start(me: u32, program: Option<&Path>, saying: Sender<(u32, Said)>) -> std::io::Result<Member> {
    let mut child = command(program)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let (Some(input), Some(output)) = (input, output) else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let Ok(said) = serde_json::from_str(&line) else { return };
            if saying.send((me, said)).is_err() {
                return;
            }
        }
    });
    Ok(Member { child, input })
}

impl Swim {
    /// Members of foca, or of this program.
    ///
    /// # Errors
    /// A sentence if the members do not start.
    pub fn start(settings: &Settings, program: Option<&Path>) -> Result<Self, String> {
        let (saying, said) = channel();
        let started: std::io::Result<Vec<_>> =
            (0..settings.members).map(|me| start(me, program, saying.clone())).collect();
        let members = started.map_err(|error| format!("a member does not start: {error}"))?;
        let (dead, known, sent) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let mut group = Self { members, said, dead, known, defunct: 0, sent };
        let mut places = BTreeMap::new();
        while places.len() < group.members.len() {
            match group.said.recv_timeout(PATIENCE) {
                Ok((me, Said::At(at))) => places.insert(me, at),
                _ => return Err("a member does not say where it is".into()),
            };
        }
        let members: Vec<_> = places.into_values().collect();
        for (me, member) in (0..).zip(&mut group.members) {
            let order = Order { me, members: members.clone(), period: settings.period, timeout: settings.timeout };
            let line = serde_json::to_string(&order).map_err(|error| error.to_string())?;
            writeln!(member.input, "{line}").map_err(|error| format!("a member has ended: {error}"))?;
        }
        std::thread::sleep(SETTLED);
        Ok(group)
    }

    fn take(&mut self, (me, said): (u32, Said)) {
        match said {
            Said::Down { member, at } => {
                self.known.entry(member).or_default().entry(me).or_insert(at);
            }
            Said::Defunct => self.defunct += 1,
            Said::Sent(count) => {
                self.sent.insert(me, count);
            }
            Said::At(_) => {}
        }
    }

    fn hear(&mut self) {
        while let Ok(said) = self.said.try_recv() {
            self.take(said);
        }
    }
}

impl Ring for Swim {
    fn living(&self) -> Vec<u32> {
        (0..self.members.len() as u32).filter(|member| !self.dead.contains(member)).collect()
    }

    fn first_is_needed(&self) -> bool {
        false
    }

    fn has_ranks(&self) -> bool {
        false
    }

    fn usage(&mut self) -> Result<Usage, String> {
        let living = self.living();
        self.sent.clear();
        for me in &living {
            let input = &mut self.members[*me as usize].input;
            writeln!(input).map_err(|error| format!("member {me} has ended: {error}"))?;
        }
        let begin = Instant::now();
        while !living.iter().all(|me| self.sent.contains_key(me)) {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            let said = self.said.recv_timeout(left).map_err(|_| "a member does not answer".to_owned())?;
            self.take(said);
        }
        let mut usage = Usage::default();
        for me in living {
            usage.add(me, processor(self.members[me as usize].child.id()), self.sent[&me]);
        }
        Ok(usage)
    }

    fn falsely_declared(&mut self) -> usize {
        self.hear();
        let is_false = |(member, by): (&u32, &BTreeMap<u32, Duration>)| {
            !self.dead.contains(member) && by.keys().any(|me| !self.dead.contains(me))
        };
        self.known.iter().filter(|entry| is_false(*entry)).count().max(self.defunct)
    }

    fn strike(&mut self, victims: &[u32], fault: Fault) {
        let signal = if fault == Fault::Cut { Signal::SIGSTOP } else { Signal::SIGKILL };
        victims.iter().for_each(|victim| send_signal(&self.members[*victim as usize].child, signal));
        self.dead.extend(victims);
    }

    fn is_known(&mut self, victims: &[u32], _fault: Fault) -> bool {
        self.hear();
        let living = self.living();
        let knows = |victim: &u32, me: &u32| self.known.get(victim).is_some_and(|by| by.contains_key(me));
        victims.iter().all(|victim| living.iter().all(|me| knows(victim, me)))
    }

    fn known_at(&mut self, victim: u32, _fault: Fault) -> Result<Vec<Duration>, String> {
        self.hear();
        let by = self.known.get(&victim).cloned().unwrap_or_default();
        Ok(by.into_iter().filter(|(me, _)| !self.dead.contains(me)).map(|(_, at)| at).collect())
    }
}

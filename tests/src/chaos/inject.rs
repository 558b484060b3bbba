//! Runs a plan: strikes, and waits until whoever is left has dealt with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::later::{Lasting, Later, Over, Stopped, Undo};
use super::limits::{self, Evidence};
use super::plan::{Fault, Plan, When};
use super::pulse::Pulse;
use super::struck::{Carried, Struck};
use super::weather::Storm;
use crate::clock::{now, wait_until};
use crate::diary::Diaries;
use crate::job::{Job, SLACK, STOP_TIMEOUT, TIMEOUT};
use crate::lab::ALL_HOSTS;
use crate::lab::Lab;
use crate::process;
use crate::process::Process;
use crate::running::Running;

/// How long the survivors may take to go on before that counts as a hang: Linux 6.18 keeps a rank that yields from its
/// processor for a minute, where others do so, too.
const PATIENCE: Duration = Duration::from_secs(180);
/// A cut that is below every timeout of the job, from before it to after it: a node that has just heard of another
/// one's doubt gives the node of mpirun 0.7 timeouts.
const HARMLESS_CUT: Duration = Duration::from_millis(180);
/// A stop of one rank that is below its limit, from before it to after it.
const HARMLESS_STOP: Duration = STOP_TIMEOUT.saturating_sub(Duration::from_millis(40));
/// How often it is looked what is to be undone.
const STEP: Duration = Duration::from_millis(2);
/// How long after a link has healed the next heartbeat has come through at the latest, also on a bad network.
const JUST_AFTER: Duration = Duration::from_millis(100);

/// Where a job leaves its traces, and what happens around it.
pub struct Around<'a> {
    /// Its file of events.
    pub events: &'a Path,
    /// The bad network, if it has one.
    pub storm: Option<&'a Storm>,
    /// How well the machine lets processes run.
    pub pulse: &'a Pulse,
}

/// The job of a plan.
#[must_use]
pub fn job(plan: &Plan, events: &str) -> Job {
    let hosts = &ALL_HOSTS[..plan.hosts as usize];
    let families = plan.families.join(",");
    let job = Job::new().on(hosts, plan.per_host).parameter("events", events).limit(Duration::from_secs(600));
    let job = job.arguments(&["--op", "none", "--hold", "--mix", &families]);
    // Those who are spawned find no slot free.
    let job = if plan.spawns() { job.options(&["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]) } else { job };
    let job = match plan.faults.last() {
        Some((_, Fault::Init { rank, place, how })) => {
            job.arguments(&["--init-fault", &format!("{rank}:{place}:{how}")])
        }
        Some((_, Fault::Finalize { rank, place, how })) => {
            job.arguments(&["--finalize-fault", &format!("{rank}:{place}:{how}")])
        }
        _ => job,
    };
    let call = if plan.starts_badly() { "--init-fault" } else { "--finalize-fault" };
    match plan.late {
        Some(rank) => job.arguments(&[call, &format!("{rank}:late:none")]),
        None => job,
    }
}

/// Does to the job what is planned, up to its end.
///
/// # Panics
/// With everything that is known about the job, if it does not come through.
pub fn drive<'lab>(lab: &'lab Lab, job: &mut Running<'lab>, plan: &Plan, struck: &mut Struck, around: &Around<'_>) {
    let mut driver = Driver {
        lab,
        job,
        struck,
        around,
        struck_at: Duration::ZERO,
        last: Duration::ZERO,
        later: Later::default(),
        finalizes: false,
        deadly: false,
        unwatched: BTreeMap::new(),
        silences: Vec::new(),
        adjoining: Vec::new(),
    };
    if !plan.starts_badly() {
        let all = driver.job.ranks();
        driver.job.wait_for("carries-on", &all);
    }
    for (when, fault) in &plan.faults {
        match when {
            When::Recovery if driver.deadly || !driver.later.is_empty() => driver.wait_for_an_error(),
            When::Same => {}
            When::Recovery => driver.settle(),
            When::Calm(ms) => {
                driver.settle();
                sleep(Duration::from_millis(*ms));
            }
            When::Init(ms) => driver.wait_for_the_first("enters-init", *ms),
            When::Finalize(ms) => {
                driver.settle();
                driver.job.end();
                driver.finalizes = true;
                driver.wait_for_the_first("enters-finalize", *ms);
            }
            When::Own if plan.starts_badly() => {}
            When::Own => driver.settle(),
        }
        driver.strike(*when, fault);
    }
    let last = plan.faults.last().map(|(_, fault)| fault);
    // What dies in MPI_Init ends the job, or all go on without having met.
    if !plan.starts_badly() && !driver.finalizes {
        driver.settle();
    }
    if !matches!(last, Some(Fault::Launcher)) {
        driver.job.end();
    }
    if !driver.wait_until(PATIENCE, |job| !job.runs()) {
        driver.job.fail_hanging(&format!("mpirun hangs (not ended within {:?})", PATIENCE));
    }
    driver.undo_all();
    driver.note_limits();
}

struct Driver<'d, 'lab> {
    lab: &'lab Lab,
    job: &'d mut Running<'lab>,
    struck: &'d mut Struck,
    around: &'d Around<'d>,
    /// When the last fault struck.
    struck_at: Duration,
    /// When the last one struck or was over.
    last: Duration,
    /// What is over by itself.
    later: Later,
    /// Whether the job has been told to end.
    finalizes: bool,
    /// Whether the last fault made somebody's death certain.
    deadly: bool,
    /// Of each host the `ringwatchd` that was struck last.
    unwatched: BTreeMap<u32, Unwatched>,
    /// Which hosts could not be heard, or could not hear, and until when at the latest.
    silences: Vec<(u32, Duration)>,
    /// Hosts whose silences followed each other.
    adjoining: Vec<Adjoining>,
}

impl Driver<'_, '_> {
    fn strike(&mut self, when: When, fault: &Fault) {
        if let Fault::Kill { rank, .. } | Fault::Stop { rank, .. } = fault {
            self.job.wait_for("started", &[*rank]);
        }
        self.struck.log.push((now(), format!("strikes: {fault:?}")));
        (self.struck_at, self.last) = (now(), now());
        let diaries = self.job.diaries();
        let lives = |rank: &u32| diaries.pid(*rank).is_some_and(process::lives);
        let could_die: BTreeSet<u32> = self.job.ranks().into_iter().filter(lives).collect();
        let before = self.struck.must.clone();
        let carried = Carried { kind: fault.kind(), moment: when.moment(), overlaps: !self.later.is_empty() };
        let meets = self.meets(fault);
        match fault {
            Fault::Kill { rank, signal } => {
                let pid = self.job.pid(*rank);
                process::signal(pid, *signal);
                self.struck.seen.watch(vec![*rank], *signal, move || Some(pid));
                self.struck.must.insert(*rank);
            }
            Fault::Stop { rank, ms } => {
                let pid = self.job.pid(*rank);
                // The end of its node's wait for contact would undo this stop, too.
                let _ = wait_until(TIMEOUT * 2, || process::state(pid) != Some('T'));
                self.lasts(Undo::Continue { who: Stopped::Rank(*rank), pid }, *ms);
                process::signal(pid, libc::SIGSTOP);
                if ms.is_none() {
                    self.struck.seen.watch(vec![*rank], libc::SIGSTOP, move || Some(pid));
                    self.struck.must.insert(*rank);
                }
            }
            Fault::Node { host } => {
                self.loses(*host);
                let ranks = self.ranks_on(&[*host]);
                self.struck.must.extend(&ranks);
                self.job.kill_host(ALL_HOSTS[*host as usize]);
                self.struck.seen.note(ranks, now());
            }
            Fault::Cut { hosts, together, ms } => self.cut(hosts, *together, *ms),
            Fault::Alone { ms } => self.cut(&[0], false, *ms),
            Fault::Daemon { host, signal, ms } => {
                let Some(pid) = self.watcher(*host).map(|process| process.pid) else { return self.spare(fault) };
                let lines = self.job.log(ALL_HOSTS[*host as usize]).lines().count();
                self.lasts(Undo::Continue { who: Stopped::Daemon, pid }, *ms);
                process::signal(pid, *signal);
                // One after the other they keep the node silent for longer than its timeout.
                let before = self.unwatched.insert(*host, Unwatched { pid, at: now(), lines });
                if before.is_some_and(|before| now() - before.at < TIMEOUT * 2) {
                    self.may_lose(*host);
                    self.job.loses(ALL_HOSTS[*host as usize]);
                }
                self.struck.watchers.push((*host, self.last));
                self.note_silence(*host, TIMEOUT);
                self.silences.push((*host, now() + TIMEOUT));
            }
            Fault::Runtime { host, signal, ms } => {
                self.wait_for_a_watcher(*host);
                let name = ALL_HOSTS[*host as usize];
                // Where a job has been ended already nobody is left to find its prted stopped.
                let watched = !self.job.named(name, "ringwatchd").is_empty();
                let Some(pid) = self.runtime(name).filter(|_| watched) else { return self.spare(fault) };
                if ms.is_none() {
                    self.loses(*host);
                    let ranks = self.ranks_on(&[*host]);
                    self.struck.must.extend(&ranks);
                    self.struck.seen.watch(ranks, *signal, move || Some(pid));
                }
                self.job.loses(name);
                self.lasts(Undo::Continue { who: Stopped::Runtime(*host), pid }, *ms);
                process::signal(pid, *signal);
            }
            // It has ended with the job.
            Fault::Launcher if !meets => return self.spare(fault),
            Fault::Launcher => {
                self.wait_for_a_watcher(0);
                self.job.loses(ALL_HOSTS[0]);
                self.struck.must.extend(self.job.ranks());
                process::signal(self.job.launcher(), libc::SIGKILL);
            }
            // The rank does it itself.
            Fault::Init { rank, how, .. } | Fault::Finalize { rank, how, .. } => self.expects(*rank, how),
        }
        self.struck.carried.extend(meets.then_some(carried));
        let latest: BTreeSet<u32> = self.struck.must.difference(&before).copied().collect();
        // Who was away for too long is dead already, and nobody is told of that again.
        self.deadly = !latest.is_disjoint(&could_die);
        if self.finalizes {
            self.struck.finalizing.extend(&latest);
        }
        self.struck.at.extend(latest.into_iter().map(|rank| (rank, self.struck_at)));
    }

    /// A rank is going to strike itself, and says so in its diary a moment before.
    fn expects(&self, rank: u32, how: &str) {
        let signal = if how == "stop" { libc::SIGSTOP } else { libc::SIGKILL };
        let diary = self.job.folder().join(format!("diaries/rank.{rank}"));
        self.struck.seen.watch(vec![rank], signal, move || {
            let diary = Diaries::of_file(&diary);
            diary.pid(rank).filter(|_| diary.has(rank, "dies"))
        });
    }

    /// A fault that comes when the job has ended there.
    fn spare(&mut self, fault: &Fault) {
        self.struck.log.push((self.struck_at, format!("spared: {fault:?}, the job has ended there")));
    }

    /// Whether it finds somebody whom it can strike.
    fn meets(&mut self, fault: &Fault) -> bool {
        let is_there = |host: &u32| process::on_hosts().iter().any(|process| process.host == ALL_HOSTS[*host as usize]);
        match fault {
            Fault::Kill { rank, .. } | Fault::Stop { rank, .. } => process::lives(self.job.pid(*rank)),
            Fault::Node { host } => is_there(host),
            Fault::Cut { hosts, .. } => hosts.iter().any(is_there),
            Fault::Alone { .. } => is_there(&0),
            Fault::Daemon { .. } | Fault::Runtime { .. } | Fault::Launcher => self.job.runs(),
            // See `own`.
            Fault::Init { .. } | Fault::Finalize { .. } => false,
        }
    }

    fn cut(&mut self, hosts: &[u32], together: bool, ms: Option<u64>) {
        let length = ms.map_or(TIMEOUT, Duration::from_millis) + JUST_AFTER;
        hosts.iter().for_each(|host| self.note_silence(*host, length));
        self.lasts(Undo::Heal { hosts: hosts.to_vec() }, ms);
        self.job.split(&names(hosts), together);
        let behind = self.behind(hosts);
        if hosts.contains(&0) {
            self.job.keeps(ALL_HOSTS[0]);
            names(&behind).iter().for_each(|host| self.job.loses(host));
        }
        match ms.map(Duration::from_millis) {
            None => {
                behind.iter().for_each(|host| self.loses(*host));
                let ranks = self.ranks_on(&behind);
                self.struck.must.extend(&ranks);
                self.struck.seen.note(ranks, now());
            }
            Some(ms) => self.silences.extend(hosts.iter().map(|host| (*host, now() + ms + JUST_AFTER))),
        }
    }

    /// The hosts that have no contact with prterun's when these are cut off.
    fn behind(&self, hosts: &[u32]) -> Vec<u32> {
        let all = u32::try_from(self.job.job.hosts().len()).expect("not that many");
        if hosts.contains(&0) { (1..all).collect() } else { hosts.to_vec() }
    }

    /// A host is lost with all who are there.
    fn loses(&mut self, host: u32) {
        self.struck.lost.entry(host).or_insert(self.struck_at);
    }

    /// It may be.
    fn may_lose(&mut self, host: u32) {
        self.struck.doubts.push(now());
        self.struck.doubtful.insert(host);
        let ranks = self.ranks_on(&[host]);
        if self.finalizes {
            self.struck.finalizing.extend(&ranks);
        }
        self.struck.may.extend(ranks);
    }

    fn ranks_on(&self, hosts: &[u32]) -> Vec<u32> {
        hosts.iter().flat_map(|host| self.job.job.ranks_on(ALL_HOSTS[*host as usize])).collect()
    }

    /// What strikes now is undone after so many milliseconds, if ever.
    fn lasts(&mut self, undo: Undo, ms: Option<u64>) {
        if let Some(ms) = ms {
            let since = now();
            self.later.add(Lasting { undo, since, due: since + Duration::from_millis(ms) });
        }
    }

    /// Takes note of what was undone. Whoever was away for long may have died of it.
    fn note_undone(&mut self) {
        for Over { lasting: Lasting { undo, since, .. }, at: over, met } in self.later.take_over() {
            self.last = self.last.max(over);
            let away = over - since;
            match &undo {
                Undo::Continue { who: Stopped::Rank(rank), .. } => {
                    if away > HARMLESS_STOP {
                        self.struck.doubts.push(over);
                        self.struck.may.insert(*rank);
                    }
                }
                Undo::Continue { who: Stopped::Daemon, .. } => {}
                // Where a job has been ended a prted that is stopped is killed before that, and tidies up nothing.
                Undo::Continue { who: Stopped::Runtime(_), .. } if !met && away <= HARMLESS_STOP => {}
                Undo::Continue { who: Stopped::Runtime(host), .. } => self.is_back(&[*host], away > HARMLESS_STOP),
                Undo::Heal { hosts } => {
                    self.silences.extend(hosts.iter().map(|host| (*host, over + JUST_AFTER)));
                    self.is_back(&self.behind(hosts), away > HARMLESS_CUT);
                }
            }
            self.struck.log.push((over, format!("over after {} ms: {undo:?}", away.as_millis())));
        }
    }

    /// These hosts, which were lost for a while, live on; or they may be lost, if that took so long.
    fn is_back(&mut self, hosts: &[u32], too_late: bool) {
        for host in hosts {
            if too_late {
                self.may_lose(*host);
            } else {
                self.job.keeps(ALL_HOSTS[*host as usize]);
            }
        }
    }

    /// Until nothing lasts.
    fn undo_all(&mut self) {
        while !self.later.is_empty() {
            sleep(STEP);
            self.later.carry_out(self.lab);
        }
        self.note_undone();
    }

    /// Waits for the job, and undoes meanwhile what is due.
    fn wait(&mut self, what: &str, mut condition: impl FnMut(&Diaries, &Later) -> bool) {
        let Self { job, later, lab, .. } = self;
        job.wait(what, PATIENCE, |diaries| {
            later.carry_out(lab);
            condition(diaries, later)
        });
        self.note_undone();
    }

    /// The same, for what is not in the diaries.
    fn wait_until(&mut self, limit: Duration, mut condition: impl FnMut(&mut Running<'_>) -> bool) -> bool {
        let Self { job, later, lab, .. } = self;
        let held = wait_until(limit, || {
            later.carry_out(lab);
            condition(job)
        });
        self.note_undone();
        held
    }

    /// A host falls silent for about so long. If its neighbour on the ring, or it itself, could not be heard or could
    /// not hear just before, the two may count as one silence, of this host or of that neighbour.
    fn note_silence(&mut self, host: u32, length: Duration) {
        let living: BTreeSet<u32> = process::on_hosts()
            .iter()
            .filter(|process| process.name == "ringwatchd")
            .filter_map(|process| ALL_HOSTS.iter().position(|name| *name == process.host))
            .filter_map(|index| u32::try_from(index).ok())
            .chain([host])
            .collect();
        let observer = |of: u32| living.range(of + 1..).chain(living.iter()).next().copied();
        let recent: Vec<u32> =
            self.silences.iter().filter(|(_, until)| now() < *until).map(|(host, _)| *host).collect();
        for other in recent {
            let silent = match () {
                () if observer(host) == Some(other) || host == other => host,
                () if observer(other) == Some(host) => other,
                () => continue,
            };
            self.struck.log.push((now(), format!("{} may count as silent for both", ALL_HOSTS[silent as usize])));
            // One timeout to suspect, one to ask, and one for what else is late.
            let (since, until) = (now(), now() + length + TIMEOUT * 3);
            // From a launcher that is silent all others are cut off.
            let lost = if silent == 0 { self.behind(&[0]) } else { vec![silent] };
            self.adjoining.extend(lost.into_iter().map(|host| Adjoining { host, of: silent, since, until }));
        }
    }

    /// `ringwatchd` of a host; one that is just being replaced is waited for, unless the job has ended.
    fn watcher(&mut self, host: u32) -> Option<Process> {
        let host = ALL_HOSTS[host as usize];
        let mut found = None;
        let _ = self.wait_until(PATIENCE, |job| {
            found = job.named(host, "ringwatchd").into_iter().next();
            // A job that has ended gets no other.
            found.is_some() || !job.runs()
        });
        if found.is_none() && self.job.runs() {
            self.job.fail(&format!("{host} has a ringwatchd"));
        }
        found
    }

    /// Until a `ringwatchd` that was struck has been replaced, and the new one watches: somebody has to be left on the
    /// host who can end its ranks and say why. Where no rank is left there is no other.
    fn wait_for_a_watcher(&mut self, host: u32) {
        let Some(struck) = self.unwatched.get(&host).copied() else { return };
        let name = ALL_HOSTS[host as usize];
        let ranks = self.job.job.ranks_on(name);
        let lives = |diaries: &Diaries, rank: &u32| diaries.pid(*rank).is_some_and(process::lives);
        let is_empty = |job: &Running<'_>| {
            let diaries = job.diaries();
            !ranks.iter().any(|rank| lives(&diaries, rank))
        };
        // One that was continued in time watches on.
        let runs = || process::lives(struck.pid) && process::state(struck.pid) != Some('T');
        let goes_on = || now() > struck.at + TIMEOUT && runs();
        if !self.wait_until(PATIENCE, |job| is_empty(job) || goes_on() || watches_again(&job.log(name), struck)) {
            self.job.fail_hanging(&format!("{name} has another ringwatchd than {}", struck.pid));
        }
    }

    /// `prted` of a host: the shell there has started another, which is only its parent.
    fn runtime(&self, host: &str) -> Option<i32> {
        let all = self.job.named(host, "prted");
        let is_parent = |one: &Process| all.iter().any(|other| other.parent == one.pid);
        all.iter().find(|one| !is_parent(one)).map(|one| one.pid)
    }

    /// So many milliseconds after the first rank has come there.
    fn wait_for_the_first(&mut self, event: &str, ms: u64) {
        self.wait(&format!("a rank {event}"), |diaries, _| diaries.all(event).next().is_some());
        sleep(Duration::from_millis(ms));
    }

    /// Until somebody who lives is told of the last fault; of one that need not kill, until it is over.
    fn wait_for_an_error(&mut self) {
        let (since, deadly, dead) = (self.struck_at, self.deadly, self.struck.must.clone());
        self.wait("a survivor is told", |diaries, later| {
            // Whoever was about to repair already is told by the repair itself.
            let mut told = diaries.all("error").chain(diaries.all("shrunk"));
            let is_told = told.any(|entry| entry.at > since && !dead.contains(&entry.rank));
            is_told || (!deadly && later.is_empty())
        });
    }

    /// Until nothing lasts, the dead are gone and all others go on without them.
    fn settle(&mut self) {
        self.undo_all();
        if self.last == Duration::ZERO || self.struck.must.len() == self.job.ranks().len() {
            return;
        }
        let must: Vec<i32> = self.struck.must.iter().map(|rank| self.job.pid(*rank)).collect();
        self.job.wait_until_gone("the dead", &must, PATIENCE);
        if !self.struck.may.is_empty() || self.adjoining.iter().any(|one| now() < one.until) {
            // One timeout to suspect, one to ask and to kill.
            sleep((self.last + TIMEOUT * 2 + SLACK).saturating_sub(now()));
        }
        let end = now() + PATIENCE;
        loop {
            self.note_limits();
            let living = self.living();
            let what = format!("ranks {living:?} go on");
            let pids: Vec<i32> = living.iter().map(|rank| self.job.pid(*rank)).collect();
            let one_dies = || !pids.iter().all(|pid| process::lives(*pid));
            self.job.wait(&what, end.saturating_sub(now()), |diaries| goes_on(diaries, &living) || one_dies());
            if goes_on(&self.job.diaries(), &living) {
                return self.struck.log.push((now(), what));
            }
            // Nobody has struck it: a limit has to say why.
            let explained = wait_until(SLACK * 5, || {
                self.note_limits();
                self.living().iter().all(|rank| process::lives(self.job.pid(*rank)))
            });
            if !explained {
                self.job.fail(&format!("{what}, but not all of them live"));
            }
        }
    }

    /// Everybody who is not dead by what has been done.
    fn living(&self) -> Vec<u32> {
        let is_dead = |rank: &u32| {
            self.struck.must.contains(rank) || self.struck.may.contains(rank) && !process::lives(self.job.pid(*rank))
        };
        self.job.ranks().into_iter().filter(|rank| !is_dead(rank)).collect()
    }

    /// Whether such a host, which nothing else has struck for good, was declared in its time for the reason that is to
    /// be expected.
    fn has_taken(&self, one: &Adjoining, history: &str) -> bool {
        let host = ALL_HOSTS[one.host as usize];
        let is_new = !self.struck.lost.contains_key(&one.host) && !self.struck.doubtful.contains(&one.host);
        let is_cut_off = || self.job.log(host).contains("has lost contact with the node of mpirun");
        is_new
            && limits::declares(history, one.host, one.since..one.until)
                .is_some_and(|why| (one.of != 0 && why == "silent") || is_cut_off())
    }

    /// Whoever the machine has taken along may be dead. For those who are spawned nothing is planned.
    fn note_limits(&mut self) {
        let (late, starved) = (self.around.storm.map(Storm::late).unwrap_or_default(), self.around.pulse.late());
        let history = limits::history(self.around.events);
        let adjoining = std::mem::take(&mut self.adjoining);
        let (lost, adjoining): (Vec<_>, _) = adjoining.into_iter().partition(|one| self.has_taken(one, &history));
        self.adjoining = adjoining;
        for host in lost.into_iter().map(|one| one.host) {
            self.struck.limits.insert(limits::ADJOINING);
            self.struck.log.push((now(), format!("{} is excused: {}", ALL_HOSTS[host as usize], limits::ADJOINING)));
            self.job.loses(ALL_HOSTS[host as usize]);
            self.may_lose(host);
        }
        let evidence = Evidence { history, late: &late, starved: &starved };
        let diaries = self.job.diaries();
        for (rank, limit) in limits::taken(self.struck, &evidence) {
            let is_first = self.job.ranks().contains(&rank);
            if !is_first || diaries.pid(rank).is_some_and(process::lives) {
                continue;
            }
            let host = self.job.job.host_of(rank);
            self.job.loses(host);
            self.struck.doubtful.insert(rank / self.job.job.per_host);
            self.struck.doubts.push(now());
            self.struck.may.insert(rank);
            self.struck.limits.insert(limit);
            self.struck.log.push((now(), format!("rank {rank} is excused: {limit}")));
        }
    }
}

/// A host that two silences may have taken along, which count as one of the host `of`, and in which time that is said.
#[derive(Clone, Copy, Debug)]
struct Adjoining {
    host: u32,
    of: u32,
    since: Duration,
    until: Duration,
}

fn names(hosts: &[u32]) -> Vec<&'static str> {
    hosts.iter().map(|host| ALL_HOSTS[*host as usize]).collect()
}

/// A `ringwatchd` that was struck at this moment, when the log of its host had so many lines.
#[derive(Clone, Copy)]
struct Unwatched {
    pid: i32,
    at: Duration,
    lines: usize,
}

/// Whether, in the log of a host, another `ringwatchd` than the one that was struck has begun to watch since. That one
/// may have come to say that it had started or not.
fn watches_again(log: &str, struck: Unwatched) -> bool {
    let is_its = |line: &str| line.split_whitespace().any(|word| word == format!("pid={}", struck.pid));
    let mut lines = log.lines().skip(struck.lines);
    lines.any(|line| line.contains(" started ") && !is_its(line)) && lines.any(|line| line.contains(" watching "))
}

/// Whether these ranks, and nobody else, have repaired the communicator and use it.
fn goes_on(diaries: &Diaries, living: &[u32]) -> bool {
    let size = u32::try_from(living.len()).ok();
    living.iter().all(|rank| diaries.last(*rank, "carries-on").is_some_and(|entry| entry.number(0) == size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_struck_before_it_could_say_that_it_had_started_is_replaced_as_well() {
        let first =
            ["started pid=1 incarnation=0", "watching emitter=0"].map(|line| format!("t INFO h1 {line}\n")).concat();
        let second =
            ["started pid=2 incarnation=1", "watching emitter=0"].map(|line| format!("t INFO h1 {line}\n")).concat();
        let third = second.replace("pid=2", "pid=3");
        let struck = |pid, lines| Unwatched { pid, at: Duration::ZERO, lines };
        assert!(!watches_again(&first, struck(1, 2)) && !watches_again(&first, struck(1, 0)));
        assert!(watches_again(&format!("{first}{second}"), struck(1, 2)));
        assert!(!watches_again(&format!("{first}{second}"), struck(2, 2)));
        assert!(watches_again(&format!("{first}{second}{third}"), struck(2, 2)));
        assert!(watches_again(&format!("{first}{third}"), struck(2, 2)));
    }
}

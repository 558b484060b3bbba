//! How a job ended, and what is to be true then.

use std::cell::Cell;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::clock::wait_until;
use crate::diary::{Diaries, Entry, PENDING, PROC_FAILED, REVOKED};
use crate::job::{Job, SLACK};
use crate::scene::Scene;
use crate::{leftovers, process};

/// Exit status of mpirun for a job that could not go on.
const GIVEN_UP: i32 = 1;
/// The same for a launch that was refused.
const REFUSED: i32 = 2;

/// How long daemons that are about to end may take. They wait 10 s for each other.
const TIDY: Duration = Duration::from_secs(15);

/// A job that has ended.
pub struct Outcome {
    job: Job,
    scene: Scene,
    /// Hosts whose runtime daemon could not tidy up.
    lost: Vec<String>,
    /// Hosts where nobody could.
    killed: Vec<String>,
    lines_count: Cell<bool>,
    alone: Cell<bool>,
    /// When mpirun ended.
    pub ended_at: Duration,
    /// Exit status of mpirun; negative if a signal ended it.
    pub status: i32,
    /// Standard output of mpirun.
    pub stdout: String,
    /// Standard error of mpirun.
    pub stderr: String,
    /// The diaries of the ranks.
    pub diaries: Diaries,
}

impl Outcome {
    pub(crate) fn new(
        job: Job,
        scene: Scene,
        folder: &Path,
        status: ExitStatus,
        ended_at: Duration,
        [lost, killed]: [Vec<String>; 2],
    ) -> Self {
        let text = |name: &str| String::from_utf8_lossy(&fs::read(folder.join(name)).unwrap_or_default()).into_owned();
        Self {
            job,
            scene,
            lost,
            killed,
            lines_count: Cell::new(true),
            alone: Cell::new(true),
            ended_at,
            status: status.code().unwrap_or_else(|| -status.signal().unwrap_or(999)),
            stdout: text("stdout"),
            stderr: text("stderr"),
            diaries: Diaries::read(&folder.join("diaries")),
        }
    }

    /// Ends the test with everything that is known unless this holds.
    ///
    /// # Panics
    /// If it does not.
    pub fn require(&self, holds: bool, what: &str) -> &Self {
        if !holds {
            self.scene.fail(&format!("REQUIRED: {what} (mpirun's status {})", self.status));
        }
        self
    }

    /// The caller looks at the output by itself.
    pub fn without_the_output(&self) -> &Self {
        self.lines_count.set(false);
        self
    }

    /// Another job is still running on these hosts: what is left may be its.
    pub fn beside_others(&self) -> &Self {
        self.alone.set(false);
        self
    }

    /// The survivors went on without the dead: the whole promise of fault tolerance.
    pub fn recovered(&self, dead: &[u32]) -> &Self {
        self.finished_without(dead);
        self.losses_are_of(dead, true);
        for rank in self.survivors(dead) {
            let told = self.diaries.has(rank, "error");
            self.require(told, &format!("rank {rank} reports an error"));
        }
        self
    }

    /// The survivors came to their end in order, with all of their output, and mpirun says so.
    pub fn finished_without(&self, dead: &[u32]) -> &Self {
        let survivors = self.survivors(dead);
        let left = u32::try_from(survivors.len()).expect("a few ranks");
        self.no_lies();
        for rank in &survivors {
            let done = self.diaries.first(*rank, "done");
            self.require(done.is_some(), &format!("rank {rank} comes to its end"));
            let size = done.and_then(|entry| entry.number(0));
            self.require(size == Some(left), &format!("rank {rank} ends among {left} ranks, not {size:?}"));
            self.finalized(*rank);
            for line in [format!("survivor {rank} is done, {left} are left"), format!("survivor {rank} has finalized")]
            {
                let times = self.stdout.lines().filter(|known| self.is_line(known, &line)).count();
                self.require(
                    times == 1 || !self.lines_count.get(),
                    &format!("the output has '{line}' once, not {times} times"),
                );
            }
        }
        self.dead_stay_silent(dead);
        self.losses_are_of(dead, false);
        self.require(self.status == 0, "mpirun's exit status is 0");
        self.left_nothing()
    }

    /// Whether a line of the output is this one. After a help message of a rank, PMIx 5.0.7 writes the NUL at its end
    /// before that rank's next line (plog_stdfd.c:147, pmix_iof.c:1666).
    fn is_line(&self, known: &str, line: &str) -> bool {
        let help = self.stderr.lines().any(|line| line.starts_with("----------"));
        known == line || (help && known.strip_prefix('\0') == Some(line))
    }

    /// `MPI_Finalize` of this rank returned without an error.
    pub fn finalized(&self, rank: u32) -> &Self {
        let code = self.diaries.first(rank, "finalized").map(|entry| entry.number(0));
        self.require(code == Some(Some(0)), &format!("MPI_Finalize of rank {rank} returns MPI_SUCCESS, not {code:?}"))
    }

    /// No wrong data, and no error but those of fault tolerance; REVOKED only after somebody revoked.
    pub fn no_lies(&self) -> &Self {
        self.no_lies_but(|_| false)
    }

    /// The same, but for the class of some errors.
    pub fn no_lies_but(&self, excused: impl Fn(&Entry) -> bool) -> &Self {
        for event in ["corrupt", "hopeless", "woke"] {
            let entry = self.diaries.all(event).find(|entry| !self.is_woken_to_be_ended(entry));
            self.require(entry.is_none(), &format!("nobody writes '{event}', as in {entry:?}"));
        }
        let revoked_at = self.diaries.all("revoked").map(|entry| entry.at).min();
        for entry in self.diaries.all("error").filter(|entry| !excused(entry)) {
            let class = entry.details.first().map_or("", String::as_str);
            let known = [PROC_FAILED, PENDING, REVOKED].contains(&class);
            self.require(known, &format!("errors are of a class of fault tolerance, not {entry:?}"));
            // MPIX_Comm_revoke is on its way before the diary says so.
            let early = Duration::from_millis(100);
            let cause = class != REVOKED || self.first_failure().is_some_and(|first| first <= entry.at);
            let cause = cause || revoked_at.is_some_and(|first| first < entry.at + early);
            self.require(cause, &format!("nothing is revoked before somebody has revoked it: {entry:?}"));
        }
        self
    }

    /// PRRTE wakes a stopped rank of a job that it ends, before it ends it (odls_base_default_fns.c:1933).
    fn is_woken_to_be_ended(&self, entry: &Entry) -> bool {
        let last = self.diaries.of(entry.rank).last().map(|last| last.at);
        self.status != 0 && entry.event == "woke" && last == Some(entry.at)
    }

    /// Those who died come to no end and print no result.
    fn dead_stay_silent(&self, dead: &[u32]) {
        for rank in dead {
            let silent = !self.diaries.has(*rank, "finalized") && !self.diaries.has(*rank, "done");
            self.require(silent, &format!("rank {rank}, which is dead, does not come to its end"));
            // Where lines of several ranks are mixed, one can look like another.
            let printed = self.lines_count.get() && self.stdout.contains(&format!("survivor {rank} "));
            self.require(!printed, &format!("rank {rank}, which is dead, prints no result"));
        }
    }

    /// When the first rank was told of a failure, not of a revoke.
    #[must_use]
    pub fn first_failure(&self) -> Option<Duration> {
        self.diaries
            .all("error")
            .find(|entry| entry.details.first().is_some_and(|class| class != REVOKED))
            .map(|e| e.at)
    }

    /// Every survivor was told within `limit` of `since`. Who was not says how long others kept it from a processor
    /// meanwhile, and how long it ran.
    pub fn told_within(&self, dead: &[u32], since: Duration, limit: Duration) -> &Self {
        let survivors = self.survivors(dead);
        let told = |rank: &u32| self.diaries.first(*rank, "error").map(|entry| entry.at.saturating_sub(since));
        let times: Vec<_> = survivors.iter().map(told).collect();
        for (rank, told) in survivors.iter().zip(&times) {
            let [kept, ran] = [0, 1].map(|place| self.since_blocked(*rank, place));
            let what = format!(
                "rank {rank} is told within {limit:?} (+ {SLACK:?}), not {told:?}, of which others ran {kept:?} and it ran \
                 {ran:?}; ranks {survivors:?} after {times:?}"
            );
            self.require(told.is_some_and(|told| told <= limit + SLACK), &what);
        }
        self
    }

    /// What a rank's notes of itself grew by in this place from when it was blocked until it was told.
    fn since_blocked(&self, rank: u32, place: usize) -> Duration {
        let notes = self.diaries.of(rank).filter(|entry| entry.event == "kept");
        let mut notes = notes.filter_map(|entry| entry.number(place));
        match (notes.next(), notes.next()) {
            (Some(blocked), Some(told)) => Duration::from_millis(u64::from(told.saturating_sub(blocked))),
            _ => Duration::ZERO,
        }
    }

    /// Nobody was told earlier than `patience` after `since`.
    pub fn not_told_before(&self, since: Duration, patience: Duration) -> &Self {
        let first = self.diaries.all("error").next().map(|entry| entry.at.saturating_sub(since));
        self.require(
            first.is_none_or(|first| first >= patience),
            &format!("nobody is told before {patience:?}, not {first:?}"),
        )
    }

    /// The job ended because it could not go on: with README's status, and with one sentence that has these words.
    pub fn gave_up(&self, words: &[&str]) -> &Self {
        self.ended_with(GIVEN_UP, words)
    }

    /// The launch was refused: with the status of a bad command line, and with one sentence that has these words.
    pub fn was_refused(&self, words: &[&str]) -> &Self {
        self.ended_with(REFUSED, words)
    }

    /// prterun was killed, and others have said so in one sentence that has these words.
    pub fn lost_its_launcher(&self, words: &[&str]) -> &Self {
        self.ended_with(-libc::SIGKILL, words)
    }

    fn ended_with(&self, status: i32, words: &[&str]) -> &Self {
        self.require(self.status == status, &format!("mpirun's exit status is {status}"));
        let sentences: Vec<&str> = self.sentences();
        self.require(
            sentences.len() == 1,
            &format!("one sentence of ringwatch says why the job ends, not {sentences:?}"),
        );
        for word in words {
            let said = sentences.iter().any(|sentence| sentence.contains(word));
            self.require(said, &format!("the sentence says '{word}': {sentences:?}"));
        }
        self.left_nothing()
    }

    /// What ringwatch said to the user, but for [`losses`](Self::losses).
    #[must_use]
    pub fn sentences(&self) -> Vec<&str> {
        self.told().filter(|line| !is_loss(line)).collect()
    }

    /// What ringwatch said of each rank and node that was lost.
    #[must_use]
    pub fn losses(&self) -> Vec<&str> {
        self.told().filter(|line| is_loss(line)).collect()
    }

    fn told(&self) -> impl Iterator<Item = &str> {
        self.stderr.lines().filter(|line| line.starts_with("ringwatch: "))
    }

    /// Nobody but the dead was told to be lost, and nobody twice; `all`: each of them was.
    fn losses_are_of(&self, dead: &[u32], all: bool) {
        let losses = self.losses();
        let named: Vec<u32> =
            losses.iter().flat_map(|line| ranks_in(line)).filter(|rank| !self.is_spawned(*rank)).collect();
        for rank in &named {
            let times = named.iter().filter(|other| *other == rank).count();
            let is_right = dead.contains(rank) && times == 1;
            self.require(is_right, &format!("of ranks {dead:?} each is told once to be lost, not {losses:?}"));
        }
        let are_told = !all || !self.job.tells_of_losses() || dead.iter().all(|rank| named.contains(rank));
        self.require(are_told, &format!("of each of ranks {dead:?} a line says that it is lost, not {losses:?}"));
    }

    /// Nothing of the job is left on any host.
    pub fn left_nothing(&self) -> &Self {
        if !self.alone.get() {
            return self;
        }
        let gone = wait_until(TIDY, || process::on_hosts().is_empty());
        self.require(gone, &format!("no process of the job is left {TIDY:?} after mpirun"));
        let holders = process::holders_of_segments();
        self.require(holders.is_empty(), &format!("no process holds a node segment, not {holders:?}"));
        let left = self.files_left();
        self.require(left.is_empty(), &format!("no file of the job is left, not {left:?}"))
    }

    /// With what is in them, which says whose they are. Two kinds do not count: the folder of a runtime daemon that was
    /// lost, and what was left where nobody was who could tidy up. Names have the host where they have one.
    fn files_left(&self) -> Vec<PathBuf> {
        let is_excused = |path: &PathBuf| {
            let hosts = if path.starts_with("/dev/shm") { &self.killed } else { &self.lost };
            hosts.iter().any(|host| path.to_string_lossy().contains(&format!(".{host}.")))
        };
        let left = leftovers::all().into_iter().filter(|path| !is_excused(path));
        left.flat_map(leftovers::with_contents).collect()
    }

    /// Whether this is the number of a rank that was spawned.
    #[must_use]
    pub fn is_spawned(&self, rank: u32) -> bool {
        rank >= self.job.ranks
    }

    /// All ranks but the dead.
    #[must_use]
    pub fn survivors(&self, dead: &[u32]) -> Vec<u32> {
        (0..self.job.ranks).filter(|rank| !dead.contains(rank)).collect()
    }
}

/// Whether this says that somebody is lost, and how many go on.
fn is_loss(line: &str) -> bool {
    const ENDS: [&str; 4] =
        [" ranks go on", "; 1 rank goes on", "; no rank is left", "; not every rank has left MPI_Init"];
    ENDS.iter().any(|end| line.ends_with(end))
}

/// The ranks of the first job that such a line names: `rank 5 on h3 ...` or `node h3 (ranks 4, 5) ...`.
fn ranks_in(line: &str) -> Vec<u32> {
    if let Some((rank, _)) = line.strip_prefix("ringwatch: rank ").and_then(|rest| rest.split_once(" on ")) {
        return first_word(rank).parse().into_iter().collect();
    }
    let list = line.split_once(" (rank").and_then(|(_, rest)| rest.split_once(')')).map_or("", |(list, _)| list);
    list.trim_start_matches('s').split(',').filter_map(|rank| first_word(rank).parse().ok()).collect()
}

/// Without the replica that a process is.
fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or("")
}

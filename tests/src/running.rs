//! Jobs that run, and what can be done to them.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::clock::{now, wait_until};
use crate::diary::Diaries;
use crate::job::{Job, SLACK, TIMEOUT};
use crate::lab::Lab;
use crate::outcome::Outcome;
use crate::process::{self, Process};
use crate::scene::Scene;

/// How long the ranks may take to come to the point where the fault strikes.
const START_LIMIT: Duration = Duration::from_secs(60);

impl Job {
    /// Starts the job.
    ///
    /// # Panics
    /// If mpirun cannot be started.
    #[must_use]
    pub fn start<'a>(&self, lab: &'a Lab) -> Running<'a> {
        let folder = lab.folder();
        let words = self.command(&folder);
        let file = |name: &str| File::create(folder.join(name)).expect("a new folder can be written");
        let scene = Scene::new(folder.clone(), &words);
        // nsenter, unshare, the shell and mpirun each replace the one before: the child is prterun itself.
        let child = Command::new("rw-on")
            .arg(self.launcher_host())
            .args(&words)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .expect("rw-on can be started");
        Running {
            lab,
            job: self.clone(),
            scene,
            folder,
            child,
            limit: now() + self.limit,
            lost: Vec::new(),
            killed: Vec::new(),
        }
    }

    /// Starts the job and waits for its end.
    #[must_use]
    pub fn run(&self, lab: &Lab) -> Outcome {
        self.start(lab).finish()
    }
}

/// A job that runs.
pub struct Running<'a> {
    lab: &'a Lab,
    /// What was started.
    pub job: Job,
    scene: Scene,
    folder: PathBuf,
    child: Child,
    limit: Duration,
    /// Hosts whose runtime daemon cannot tidy up any more.
    lost: Vec<String>,
    killed: Vec<String>,
}

impl Running<'_> {
    /// Process number of prterun.
    #[must_use]
    pub fn launcher(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process numbers are small")
    }

    /// Signals the only `ringwatchd` of a host, waits until another one is in its place, and as long as a false
    /// declaration would take.
    ///
    /// # Panics
    /// If there is no other in time.
    pub fn replaces_watcher(&self, host: &str, signal: i32) {
        let old = self.watcher(host).pid;
        process::signal(old, signal);
        let back = wait_until(TIMEOUT + SLACK, || {
            self.named(host, "ringwatchd").iter().any(|process| process.pid != old) && !process::lives(old)
        });
        if !back {
            self.fail(&format!("ringwatchd {old} of {host} was not replaced in time"));
        }
        std::thread::sleep(TIMEOUT * 2);
    }

    /// What the ranks have written so far.
    #[must_use]
    pub fn diaries(&self) -> Diaries {
        Diaries::read(&self.folder.join("diaries"))
    }

    /// What mpirun has said so far on its standard error.
    #[must_use]
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.folder.join("stderr")).unwrap_or_default()
    }

    /// What it has said on its standard output.
    #[must_use]
    pub fn stdout(&self) -> String {
        fs::read_to_string(self.folder.join("stdout")).unwrap_or_default()
    }

    /// The folder with the traces of the job.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The UDP port on which `ringwatchd` of a host listens.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn port(&self, host: &str) -> u16 {
        let ports = Vec::from_iter(process::udp_ports(self.watcher(host).pid));
        match ports[..] {
            [port] => port,
            _ => self.fail(&format!("ringwatchd of {host} has one UDP port, not {ports:?}")),
        }
    }

    /// The log of the daemons of a host.
    #[must_use]
    pub fn log(&self, host: &str) -> String {
        fs::read_to_string(self.folder.join(format!("{host}.log"))).unwrap_or_default()
    }

    /// All ranks of the job.
    #[must_use]
    pub fn ranks(&self) -> Vec<u32> {
        (0..self.job.ranks).collect()
    }

    /// All but these.
    #[must_use]
    pub fn others(&self, dead: &[u32]) -> Vec<u32> {
        (0..self.job.ranks).filter(|rank| !dead.contains(rank)).collect()
    }

    /// Ends the test with everything that is known about the job.
    ///
    /// # Panics
    /// Always.
    pub fn fail(&self, why: &str) -> ! {
        self.scene.fail(why)
    }

    /// The same, with where the ranks are.
    ///
    /// # Panics
    /// Always.
    pub fn fail_hanging(&self, why: &str) -> ! {
        self.scene.fail_hanging(why)
    }

    /// Waits until a condition holds for the diaries.
    ///
    /// # Panics
    /// If it does not come to hold.
    pub fn wait(&mut self, what: &str, limit: Duration, mut condition: impl FnMut(&Diaries) -> bool) {
        let mut ended = false;
        let held = wait_until(limit, || {
            // In this order: what was written before the end is seen.
            ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            condition(&Diaries::read(&self.folder.join("diaries"))) || ended
        });
        if ended && !condition(&self.diaries()) {
            self.fail(&format!("mpirun ended before {what}"));
        }
        if !held {
            self.fail_hanging(&format!("not within {limit:?}: {what}"));
        }
    }

    /// Waits until all of these ranks have written about an event.
    ///
    /// # Panics
    /// If they do not.
    pub fn wait_for(&mut self, event: &str, ranks: &[u32]) {
        self.wait(&format!("ranks {ranks:?}: {event}"), START_LIMIT, |diaries| {
            ranks.iter().all(|rank| diaries.has(*rank, event))
        });
    }

    /// Waits until all ranks are in the operation in which the fault shall find them.
    pub fn wait_until_blocked(&mut self) {
        self.wait_for("blocked", &self.ranks());
    }

    /// Waits until these ranks have repaired the communicator and use it.
    pub fn wait_until_repaired(&mut self, survivors: &[u32]) {
        let size = u32::try_from(survivors.len()).expect("a few ranks");
        self.wait("the survivors carry on", START_LIMIT, |diaries| {
            survivors
                .iter()
                .all(|rank| diaries.last(*rank, "carries-on").is_some_and(|entry| entry.number(0) == Some(size)))
        });
    }

    /// The moment for the victims to die has come.
    pub fn go(&self) -> Duration {
        let at = now();
        self.tell("go");
        at
    }

    /// Ranks that have an error and are patient may revoke.
    pub fn revoke(&self) {
        self.tell("revoke");
    }

    /// Ranks that were told to hold may come to their end.
    pub fn end(&self) {
        self.tell("end");
    }

    /// Tells all ranks a word, for which they look in the folder of the diaries.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn tell(&self, word: &str) {
        File::create(self.folder.join("diaries").join(word)).expect("the folder can be written");
    }

    /// Process number of a rank.
    ///
    /// # Panics
    /// If it has not started.
    #[must_use]
    pub fn pid(&self, rank: u32) -> i32 {
        self.diaries().pid(rank).unwrap_or_else(|| self.fail(&format!("rank {rank} has not started")))
    }

    /// Sends a signal to a rank; returns when.
    #[must_use]
    pub fn signal_rank(&self, rank: u32, signal: i32) -> Duration {
        let (pid, at) = (self.pid(rank), now());
        process::signal(pid, signal);
        at
    }

    /// The processes on the virtual hosts.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        process::on_hosts()
    }

    /// Those of a host that have this name.
    #[must_use]
    pub fn named(&self, host: &str, name: &str) -> Vec<Process> {
        self.processes().into_iter().filter(|process| process.host == host && process.name == name).collect()
    }

    /// `ringwatchd` of a host.
    ///
    /// # Panics
    /// If there is not exactly one.
    #[must_use]
    pub fn watcher(&self, host: &str) -> Process {
        match &self.named(host, "ringwatchd")[..] {
            [one] => one.clone(),
            others => self.fail(&format!("{host} has {} ringwatchd: {others:?}", others.len())),
        }
    }

    /// The runtime daemon of a host: the parent of its `ringwatchd`.
    #[must_use]
    pub fn runtime(&self, host: &str) -> i32 {
        self.watcher(host).parent
    }

    /// A host dies.
    pub fn kill_host(&mut self, host: &str) -> Duration {
        self.loses_all(host);
        let at = now();
        self.lab.kill_host(host);
        at
    }

    /// A host loses its link.
    pub fn cut(&mut self, host: &str) -> Duration {
        self.loses(host);
        let at = now();
        self.lab.cut(host);
        at
    }

    /// These hosts are parted from the others, and unless `together` from each other.
    pub fn split(&mut self, hosts: &[&str], together: bool) -> Duration {
        hosts.iter().for_each(|host| self.loses(host));
        let at = now();
        self.lab.split(hosts, together);
        at
    }

    /// The runtime daemon of a host will not be able to tidy up.
    pub fn loses(&mut self, host: &str) {
        self.lost.push(host.to_owned());
    }

    /// Nor will its `ringwatchd`, nor anybody else.
    pub fn loses_all(&mut self, host: &str) {
        self.loses(host);
        self.killed.push(host.to_owned());
    }

    /// What it was lost to last is over, and it will be, after all.
    pub fn keeps(&mut self, host: &str) {
        let last = self.lost.iter().rposition(|lost| lost == host);
        last.map(|last| self.lost.remove(last));
    }

    /// Waits until none of these processes lives; returns when that was seen.
    ///
    /// # Panics
    /// If one lives on.
    pub fn wait_until_gone(&self, what: &str, pids: &[i32], limit: Duration) -> Duration {
        if !wait_until(limit, || !pids.iter().any(|pid| process::lives(*pid))) {
            let living: Vec<_> = pids.iter().filter(|pid| process::lives(**pid)).collect();
            self.fail(&format!("after {limit:?} {what} are not gone: {living:?}"));
        }
        now()
    }

    /// Whether mpirun has not ended.
    #[must_use]
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Waits for the end of mpirun.
    ///
    /// # Panics
    /// If it does not end in time.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        let mut status = None;
        let limit = self.limit.saturating_sub(now()).max(Duration::from_secs(1));
        let ended = wait_until(limit, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        });
        if !ended {
            self.scene.fail_hanging(&format!("mpirun hangs (not ended within {:?})", self.job.limit));
        }
        let ended_at = now();
        let status = status.expect("mpirun has ended");
        if status.signal().is_some() {
            // Its ringwatchd says why in its place.
            let _ = wait_until(SLACK, || self.named(self.job.launcher_host(), "ringwatchd").is_empty());
        }
        Outcome::new(
            self.job.clone(),
            self.scene.clone(),
            &self.folder,
            status,
            ended_at,
            [self.lost.clone(), self.killed.clone()],
        )
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Whatever else is left of the job, the lab kills.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

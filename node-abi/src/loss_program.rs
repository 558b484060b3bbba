//! Runs the user's program for each rank and node that is lost: in a thread of its own, a bounded number at once, and
//! each for a bounded time. A job never waits for it.

use std::fs::Metadata;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use platform::pin::Started;
use platform::say::say;

/// How many programs run at once.
pub const AT_ONCE: usize = 8;
/// How many losses wait for their program; further ones get none.
pub const WAITING: usize = 256;
/// Longest link of links to the program's file.
const MOST_FOLDERS: usize = 64;
/// Ends a program after a minute, and kills it 5 s later, also when mpirun has ended. Part of coreutils.
const BOUND: [&str; 4] = ["timeout", "-k", "5", "60"];

/// What is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// `rank` or `node`.
    pub kind: &'static str,
    /// The host.
    pub host: String,
    /// Its number in the job.
    pub node: u32,
    /// The ranks that are lost.
    pub ranks: Vec<u32>,
    /// The reason, in one word.
    pub reason: String,
    /// The sentence for the user.
    pub message: String,
    /// How many ranks go on; unknown while a rank may be in `MPI_Init`.
    pub left: Option<usize>,
    /// The job's PMIx namespace.
    pub job: String,
    /// When mpirun learned of it, in UTC.
    pub time: String,
}

impl Loss {
    /// The variables of the program's environment.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, String); 10] {
        let ranks: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
        [
            ("RINGWATCH_LOSS", self.kind.into()),
            ("RINGWATCH_HOST", self.host.clone()),
            ("RINGWATCH_NODE", self.node.to_string()),
            ("RINGWATCH_RANKS", ranks.join(",")),
            ("RINGWATCH_REASON", self.reason.clone()),
            ("RINGWATCH_MESSAGE", self.message.clone()),
            ("RINGWATCH_RANKS_LEFT", self.left.map_or_else(String::new, |left| left.to_string())),
            ("RINGWATCH_JOB", self.job.clone()),
            ("RINGWATCH_TIME", self.time.clone()),
            ("RINGWATCH_MPIRUN_PID", std::process::id().to_string()),
        ]
    }
}

/// Whether a program may be run: it, and each folder on the way to it, can be changed by root and this user only.
///
/// # Errors
/// What is wrong with it, as a part of a sentence.
pub fn check(path: &str) -> Result<PathBuf, String> {
    let user = nix::unistd::geteuid().as_raw();
    if !path.starts_with('/') {
        return Err("it must be an absolute path".into());
    }
    let file = std::fs::canonicalize(path).map_err(|error| format!("it cannot be found ({error})"))?;
    let found = std::fs::metadata(&file).map_err(|error| format!("it cannot be read ({error})"))?;
    if !found.is_file() {
        return Err("it is no file".into());
    }
    if nix::unistd::access(&file, nix::unistd::AccessFlags::X_OK).is_err() {
        return Err("it cannot be executed".into());
    }
    let data =
        |path: &Path| std::fs::metadata(path).map_err(|error| format!("{} cannot be read ({error})", path.display()));
    for place in file.ancestors().take(MOST_FOLDERS) {
        if others_write(&data(place)?, user) {
            return Err(format!("{} can be changed by other users", place.display()));
        }
    }
    Ok(file)
}

/// Whether another user than this one and root can write it, or put another one in its place. In a folder like `/tmp`
/// (sticky) they cannot replace what is not theirs.
fn others_write(found: &Metadata, user: u32) -> bool {
    let is_sticky = found.is_dir() && found.mode() & 0o1000 != 0;
    ![0, user].contains(&found.uid()) || (found.mode() & 0o022 != 0 && !is_sticky)
}

/// The thread that runs programs.
#[derive(Debug)]
pub struct Runner(SyncSender<(PathBuf, Loss)>);

impl Runner {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has none left.
    pub fn start() -> io::Result<Self> {
        let (tell, losses) = sync_channel(WAITING);
        let body = move || {
            // The process handles its signals in its own threads.
            let _ = SigSet::all().thread_block();
            run(&losses);
        };
        std::thread::Builder::new().name("losses".into()).spawn(body)?;
        Ok(Self(tell))
    }

    /// Has a program run for a loss; never waits. False if too many wait already.
    #[must_use]
    pub fn tell(&self, program: PathBuf, loss: Loss) -> bool {
        self.0.try_send((program, loss)).is_ok()
    }
}

fn run(losses: &Receiver<(PathBuf, Loss)>) {
    let mut running: Vec<Started> = Vec::new();
    for (program, loss) in losses {
        running.retain(|process| !has_ended(process, PollTimeout::ZERO));
        while running.len() >= AT_ONCE {
            wait_for_one(&running);
            running.retain(|process| !has_ended(process, PollTimeout::ZERO));
        }
        match spawn(&program, &loss) {
            Ok(process) => running.push(process),
            // It has ended already, and its status was collected.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => say(&format!(
                "ringwatch: the program of psensor_ringwatch_loss_program, {}, cannot be run: {error}",
                program.display()
            )),
        }
    }
}

/// Starts the program apart from the terminal and the descriptors of this process.
fn spawn(program: &Path, loss: &Loss) -> io::Result<Started> {
    let program = check(&program.display().to_string()).map_err(io::Error::other)?;
    let mut command = Command::new(BOUND[0]);
    command.args(&BOUND[1..]).arg(program).envs(loss.variables()).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: two system calls between fork and exec, which are allowed there, and no memory.
    unsafe {
        command.pre_exec(|| {
            let flags = libc::CLOSE_RANGE_CLOEXEC;
            // Linux before 5.11 has no such flag: then only what is marked so is closed.
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, flags);
            libc::setsid();
            Ok(())
        });
    }
    Started::take(command.spawn()?.id())
}

fn has_ended(process: &Started, wait: PollTimeout) -> bool {
    let ended = matches!(poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], wait), Ok(1..));
    if ended {
        // The runtime may have collected it.
        let _ = waitid(Id::PIDFd(process.as_fd()), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG);
    }
    ended
}

fn wait_for_one(running: &[Started]) {
    let mut all: Vec<_> = running.iter().map(|process| PollFd::new(process.as_fd(), PollFlags::POLLIN)).collect();
    let _ = poll(&mut all, PollTimeout::NONE);
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::testing::wait_until;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("ringwatch-losses-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn program(&self, text: &str) -> PathBuf {
            let path = self.0.join("program");
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn loss(rank: u32) -> Loss {
        Loss {
            kind: "rank",
            host: "h3".into(),
            node: 2,
            ranks: vec![rank],
            reason: "signal:9".into(),
            message: "rank 5 on h3 was killed by signal 9; 7 ranks go on".into(),
            left: Some(7),
            job: "job@1".into(),
            time: "2026-01-01T00:00:00.000000Z".into(),
        }
    }

    #[test]
    fn a_program_that_others_can_change_is_refused() {
        let folder = Folder::new("rights");
        let path = folder.program("");
        let told = |path: &Path| check(&path.display().to_string()).map(drop).map_err(|why| why.replace('/', " "));
        assert_eq!(told(&path), Ok(()));
        symlink(&path, folder.0.join("link")).unwrap();
        assert_eq!(check(folder.0.join("link").to_str().unwrap()), Ok(path.clone()));
        for mode in [0o775, 0o757] {
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert!(told(&path).unwrap_err().ends_with("program can be changed by other users"));
        }
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(told(&path).unwrap_err().contains("cannot be executed"));
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(told(&path).unwrap_err().contains("can be changed by other users"), "the folder is open");
        assert!(check("program").unwrap_err().contains("absolute path"));
        assert!(told(&folder.0).unwrap_err().contains("no file"));
        assert!(told(&folder.0.join("missing")).unwrap_err().contains("cannot be found"));
    }

    #[test]
    fn each_loss_has_a_program_with_its_facts_and_few_run_at_once() {
        let folder = Folder::new("run");
        // Each waits until it is let go, and leaves its facts.
        let program = folder.program(
            "d=$(dirname \"$0\"); : >\"$d/began.$RINGWATCH_RANKS\"; while [ ! -e \"$d/go\" ]; do sleep 0.01; done
            env | grep ^RINGWATCH_ >\"$d/facts.tmp.$RINGWATCH_RANKS\"; mv \"$d/facts.tmp.$RINGWATCH_RANKS\" \"$d/facts.$RINGWATCH_RANKS\"",
        );
        let runner = Runner::start().unwrap();
        let count = AT_ONCE as u32 + 2;
        assert!((0..count).all(|rank| runner.tell(program.clone(), loss(rank))));
        let named = |prefix: &str| {
            let names = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.starts_with(prefix) && !name.contains("tmp")).count()
        };
        wait_until(|| named("began.") == AT_ONCE);
        // It is full now, and whoever tells of more does not wait.
        let more = (count..).take(2 * WAITING).take_while(|rank| runner.tell(program.clone(), loss(*rank))).count();
        assert!(more < 2 * WAITING, "{more} are bounded");
        assert_eq!(named("began."), AT_ONCE);
        fs::write(folder.0.join("go"), "").unwrap();
        wait_until(|| named("facts.") >= count as usize);
        let facts = fs::read_to_string(folder.0.join("facts.1")).unwrap();
        for (name, value) in loss(1).variables() {
            assert!(facts.lines().any(|line| line == format!("{name}={value}")), "{name} in {facts}");
        }
        // The rest is not waited for: the folder goes, and with it the program.
    }
}

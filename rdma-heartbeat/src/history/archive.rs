//! The histories of a user's last jobs, in the state folder of that user on the node of `mpirun`.
//!
//! A job has a file of its own, and a second one with what was before when it grows: see [`MOST_BYTES`]. The files of
//! the last [`KEPT`] jobs stay, and those of jobs that run. Everything is done by the thread that writes: a home folder
//! whose file system hangs keeps nobody from heartbeats, and one that cannot be written is no error.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use platform::clock;
use platform::output_file;
use platform::sink::Sink;

/// How many jobs are kept.
pub const KEPT: usize = 16;
/// Most bytes of one file: with the second one of a job some 10,000 to 20,000 records, the newest.
const MOST_BYTES: u64 = 2 << 20;
/// How the names of files end.
const ENDING: &str = ".jsonl";
/// What the name of the second file of a job has besides.
const OLDER: &str = ".1";
/// Longest part of a name that is the job's.
const LONGEST_JOB: usize = 80;

/// The folder: `ringwatch` in `XDG_STATE_HOME`, else in `~/.local/state`. `None` if the environment names no absolute
/// path.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("ringwatch"))
}

/// A sink into the file of the job `nspace` with the random identity `id`, which is found again by that.
///
/// # Errors
/// If the system has no thread left. Where the folder cannot be used, what is written is dropped.
pub fn sink(folder: &Path, nspace: &str, id: u64) -> io::Result<Sink> {
    let (folder, nspace) = (folder.to_owned(), nspace.to_owned());
    Sink::from_opener(move || Archive::open(&folder, &nspace, id))
}

/// The files of jobs, the newest first.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(|path| is_named(path)).collect();
    files.sort_unstable();
    files.reverse();
    files
}

/// The lines of a job, from both of its files.
///
/// # Errors
/// If the newer file cannot be read.
pub fn read(path: &Path) -> io::Result<String> {
    let older = fs::read(older(path)).unwrap_or_default();
    let bytes = [older, fs::read(path)?].concat();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a file has a name that this module gives: when it began, the job, its identity.
fn is_named(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_suffix(ENDING));
    let id = name.and_then(|name| name.rsplit_once('-')).map(|(_, id)| id);
    id.is_some_and(|id| id.len() == 16 && id.chars().all(|digit| digit.is_ascii_hexdigit()))
}

fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OLDER);
    name.into()
}

/// The open file of a job that runs: nobody removes it, because it is locked.
struct Archive {
    path: PathBuf,
    file: Flock<File>,
    bytes: u64,
}

impl Archive {
    fn open(folder: &Path, nspace: &str, id: u64) -> io::Result<Self> {
        make_own(folder)?;
        let ending = format!("-{id:016x}{ENDING}");
        let is_of_job = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(&ending));
        // A daemon that takes another's place goes on with its file.
        let path = files(folder).into_iter().find(is_of_job).unwrap_or_else(|| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._@".contains(c);
            let job: String = nspace.chars().map(|c| if is_plain(c) { c } else { '_' }).take(LONGEST_JOB).collect();
            let began: String = clock::utc_now().chars().filter(|c| !"-:".contains(*c)).collect();
            folder.join(format!("{began}-{job}{ending}"))
        });
        let (file, bytes) = open_locked(&path)?;
        files(folder).iter().skip(KEPT).for_each(|path| remove_old(path));
        Ok(Self { path, file, bytes })
    }
}

impl Write for Archive {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Lines come whole.
        if self.bytes > 0 && self.bytes + bytes.len() as u64 > MOST_BYTES {
            fs::rename(&self.path, older(&self.path))?;
            (self.file, self.bytes) = open_locked(&self.path)?;
        }
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes a folder that belongs to this user and that nobody else can write.
fn make_own(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(Error::other("it is no folder that this user alone can write"));
    }
    Ok(())
}

/// Opens a file as logs are opened, and locks it; and its size.
fn open_locked(path: &Path) -> io::Result<(Flock<File>, u64)> {
    let file = output_file::open_now(path)?;
    let bytes = file.metadata()?.len();
    let locked = Flock::lock(file, FlockArg::LockSharedNonblock).map_err(|(_, error)| error)?;
    Ok((locked, bytes))
}

/// Removes both files of a job that is over, if they are files of this user.
fn remove_old(path: &Path) {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else { return };
    let is_own = file.metadata().is_ok_and(|found| found.is_file() && found.uid() == geteuid().as_raw());
    if is_own && Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok() {
        let _ = fs::remove_file(older(path));
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            Self(
                std::env::temp_dir().join(format!("ringwatch-archive-{name}-{}", std::process::id())).join("ringwatch"),
            )
        }

        fn keep(&self, id: u64, lines: &[&str]) {
            let sink = sink(&self.0, "prterun-h1-7@1", id).unwrap();
            lines.iter().for_each(|line| assert!(sink.write(line.as_bytes().to_vec())));
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.0.parent().unwrap());
        }
    }

    #[test]
    fn the_last_jobs_are_kept_and_those_that_run() {
        let folder = Folder::new("last");
        let running = Archive::open(&folder.0, "first", 1000).unwrap();
        for id in 0..20 {
            folder.keep(id, &["{}\n"]);
        }
        let foreign = folder.0.join("notes.jsonl");
        fs::write(&foreign, "mine").unwrap();
        folder.keep(20, &["a\n", "b\n"]);
        // A daemon that is started again goes on.
        folder.keep(20, &["c\n"]);
        let kept = files(&folder.0);
        assert_eq!(kept.len(), KEPT + 1, "{kept:?}");
        assert_eq!(read(&kept[0]).unwrap(), "a\nb\nc\n");
        assert_eq!(kept[KEPT], running.path, "the oldest, since it runs");
        assert!(foreign.exists());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder.0), mode(&kept[0])), (0o700, 0o600));
    }

    #[test]
    fn a_job_that_writes_without_end_keeps_its_newest_lines() {
        let folder = Folder::new("long");
        let mut archive = Archive::open(&folder.0, "job", 1).unwrap();
        let line = |number: u64| format!("{number:0>99}\n");
        let lines = 5 * MOST_BYTES / 200;
        (0..lines).for_each(|number| archive.write_all(line(number).as_bytes()).unwrap());
        let text = read(&archive.path).unwrap();
        let size = text.len() as u64;
        assert!(size > MOST_BYTES && size <= 2 * MOST_BYTES, "{size}");
        assert!(text.ends_with(&line(lines - 1)) && text.len() % 100 == 0);
    }

    #[test]
    fn what_others_can_write_or_have_prepared_is_not_written() {
        let folder = Folder::new("others");
        fs::create_dir_all(&folder.0).unwrap();
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Archive::open(&folder.0, "job", 1).is_err());
        fs::remove_dir(&folder.0).unwrap();
        let elsewhere = folder.0.with_file_name("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &folder.0).unwrap();
        folder.keep(1, &["dropped\n"]);
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}

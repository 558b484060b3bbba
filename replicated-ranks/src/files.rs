//! Files that a program writes appear once: the first replica of a rank writes them, the others write copies beside
//! them, with hidden names. At the end the copies of the lowest living replica take the places of the files, if the
//! first one is dead, and all other copies are removed.
//!
//! What a file has before it is appended to or changed is decided by one replica: its length.

pub(crate) mod entries;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use replication::replicas::{Indices, Replica};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it may be written.
    pub writes: bool,
    /// Whether what it has is kept.
    pub keeps: bool,
    /// Whether it must not be there.
    pub is_new: bool,
}

/// The files that the program has written in this process.
#[derive(Debug)]
pub struct Files {
    me: Replica,
    /// By path: the file that this process has in its place.
    written: BTreeMap<PathBuf, PathBuf>,
}

impl Files {
    /// Those of a replica at its start.
    pub fn new(me: Replica) -> Self {
        Self { me, written: BTreeMap::new() }
    }

    fn copy_of(&self, path: &Path, index: u8) -> PathBuf {
        let Some(name) = path.file_name() else { return path.to_owned() };
        let mut copy = OsString::from(".");
        copy.push(name);
        copy.push(format!(".replica-{}.{index}", self.me.rank));
        path.with_file_name(copy)
    }

    /// The file to open in place of an absolute path; `None` if it is that itself. `decide` gets a number of this
    /// process, and returns that of the replica that decides.
    ///
    /// # Errors
    /// If a copy cannot be made.
    pub fn open(
        &mut self,
        path: &Path,
        access: Access,
        decide: impl FnOnce(u64) -> Option<u64>,
    ) -> io::Result<Option<PathBuf>> {
        if let Some(known) = self.written.get(path) {
            return Ok(Some(known.clone()));
        }
        if !access.writes || is_no_file(path) {
            return Ok(None);
        }
        let mut length = 0;
        if access.keeps || access.is_new {
            // Its length, plus one, or zero if there is none.
            let own = fs::metadata(path).map_or(0, |file| file.len() + 1);
            let Some(decided) = decide(own) else { return Ok(None) };
            if access.is_new && decided > 0 {
                return Ok(None);
            }
            length = decided.saturating_sub(1);
        }
        let copy = if self.me.index == 0 { path.to_owned() } else { self.copy_of(path, self.me.index) };
        if self.me.index > 0 {
            let _ = fs::remove_file(&copy);
            if length > 0 {
                let mut old = fs::File::open(path)?.take(length);
                io::copy(&mut old, &mut fs::File::create(&copy)?)?;
            }
        }
        self.written.insert(path.to_owned(), copy.clone());
        Ok(Some(copy))
    }

    /// A file gets another name. Returns whether that was a copy's; the first replica renames the file itself.
    ///
    /// # Errors
    /// That of the system.
    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<bool> {
        let Some(present) = self.written.remove(from) else { return Ok(false) };
        if self.me.index == 0 {
            self.written.insert(to.to_owned(), to.to_owned());
            return Ok(false);
        }
        let copy = self.copy_of(to, self.me.index);
        fs::rename(&present, &copy)?;
        self.written.insert(to.to_owned(), copy);
        Ok(true)
    }

    /// A file is removed. Returns whether that was a copy.
    ///
    /// # Errors
    /// That of the system.
    pub fn remove(&mut self, path: &Path) -> io::Result<bool> {
        match self.written.remove(path) {
            Some(copy) if self.me.index > 0 => fs::remove_file(copy).map(|()| true),
            _ => Ok(false),
        }
    }

    /// The end: where the lowest of these living replicas is this one, its copies are the files.
    pub fn end(&mut self, living: Indices) {
        let is_lowest = living.lowest() == Some(self.me.index);
        for (path, own) in std::mem::take(&mut self.written) {
            if own != path {
                let _ = if is_lowest { fs::rename(&own, &path) } else { fs::remove_file(&own) };
            }
            if is_lowest {
                // Copies of the dead.
                let others = (1..=2).filter(|index| *index != self.me.index && !living.iter().any(|one| one == *index));
                others.for_each(|index| _ = fs::remove_file(self.copy_of(&path, index)));
            }
        }
    }
}

/// A terminal, a pipe, a device, or a name of the kernel's.
fn is_no_file(path: &Path) -> bool {
    let is_special = |file: fs::Metadata| {
        let kind = file.file_type();
        kind.is_dir() || kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device()
    };
    path.starts_with("/proc") || path.starts_with("/sys") || fs::metadata(path).is_ok_and(is_special)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Access = Access { writes: true, keeps: false, is_new: false };
    const APPEND: Access = Access { writes: true, keeps: true, is_new: false };

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("ringwatch-files-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let all = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = all.collect();
            names.sort_unstable();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn replicas() -> [Files; 2] {
        [0, 1].map(|index| Files::new(Replica { rank: 3, index }))
    }

    fn append(path: &Path, text: &str) {
        use std::io::Write;
        fs::File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_file_is_that_of_the_first_replica() {
        let folder = Folder::new("once");
        let path = folder.0.join("out");
        let [mut first, mut second] = replicas();
        let own = first.open(&path, WRITE, |_| None).unwrap().unwrap();
        let copy = second.open(&path, WRITE, |_| None).unwrap().unwrap();
        assert_eq!((&own, copy.file_name().unwrap().to_str()), (&path, Some(".out.replica-3.1")));
        append(&own, "one");
        append(&copy, "one");
        assert_eq!(second.open(&path, Access { writes: false, ..WRITE }, |_| None).unwrap(), Some(copy), "it is read");
        for files in [&mut first, &mut second] {
            files.end(Indices::first(2));
        }
        assert_eq!((folder.names(), fs::read_to_string(&path).unwrap()), (vec!["out".into()], "one".into()));
    }

    #[test]
    fn after_the_death_of_the_first_the_copy_takes_its_place_with_what_was_there_before() {
        let folder = Folder::new("dead");
        let path = folder.0.join("log");
        append(&path, "old ");
        let [mut first, mut second] = replicas();
        let own = first.open(&path, APPEND, Some).unwrap().unwrap();
        append(&own, "new ");
        // The first one has seen four bytes, and has written since.
        let copy = second.open(&path, APPEND, |_| Some(5)).unwrap().unwrap();
        append(&copy, "new ");
        append(&copy, "last");
        let mut living = Indices::first(2);
        living.remove(0);
        second.end(living);
        assert_eq!((folder.names(), fs::read_to_string(&path).unwrap()), (vec!["log".into()], "old new last".into()));
    }

    #[test]
    fn files_are_renamed_and_removed_by_each_replica_for_itself() {
        let folder = Folder::new("renamed");
        let (path, to) = (folder.0.join("new"), folder.0.join("state"));
        let [_, mut second] = replicas();
        append(&second.open(&path, WRITE, |_| None).unwrap().unwrap(), "text");
        assert!(second.rename(&path, &to).unwrap());
        assert_eq!(folder.names(), [".state.replica-3.1"]);
        assert!(second.remove(&to).unwrap() && !second.remove(&to).unwrap());
        assert!(folder.names().is_empty());
    }

    #[test]
    fn devices_are_no_files() {
        let [_, mut second] = replicas();
        assert_eq!(second.open(Path::new("/dev/null"), WRITE, |_| None).unwrap(), None);
    }
}

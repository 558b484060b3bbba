//! The folder of checkpoints: `rank-3.version-17` is version 17 of rank 3, and `job-1f.rank-3.version-17` of a job
//! under message logging, whose checkpoints are of no use to another job.
//!
//! A file gets its name when it is whole and on disk. What a process has written that died meanwhile has another name,
//! and goes when its rank writes the next one. A rank removes files of its own only.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::file::{self, Head, Unreadable};
use crate::whole::{Source, Whole};

/// How many versions of a rank stay: the last one, and the one before, which counts where the last one is damaged.
pub const KEPT: usize = 2;

/// The files of one rank.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    rank: u32,
    /// What all names of the job begin with.
    prefix: String,
    /// What tells the files that this process is writing from those of another process of the same rank.
    writer: String,
}

impl Folder {
    /// Those of a rank of a job under message logging, or of any job without (0); `process` is the number of this
    /// process on its host.
    #[must_use]
    pub fn new(path: &Path, job: u64, rank: u32, host: &str, process: u32) -> Self {
        let prefix = if job == 0 { "rank-".into() } else { format!("job-{job:x}.rank-") };
        Self { path: path.to_owned(), rank, prefix, writer: format!("{host}-{process}.new") }
    }

    /// The rank and the version of a file's name.
    fn of_name(&self, name: &str) -> Option<(u32, u32)> {
        let (rank, version) = name.strip_prefix(&self.prefix)?.split_once(".version-")?;
        Some((rank.parse().ok()?, version.parse().ok()?))
    }

    /// The rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file_of(&self, version: u32) -> PathBuf {
        self.path.join(format!("{}{}.version-{version}", self.prefix, self.rank))
    }

    /// The versions of each rank that have a file, by rank and version.
    fn all(&self) -> Vec<(u32, u32)> {
        let names = fs::read_dir(&self.path).into_iter().flatten().flatten();
        names.filter_map(|entry| self.of_name(entry.file_name().to_str()?)).collect()
    }

    /// The versions of this rank that have a file, the newest first.
    #[must_use]
    pub fn versions(&self) -> Vec<u32> {
        let own = |(rank, version)| (rank == self.rank).then_some(version);
        let mut versions: Vec<u32> = self.all().into_iter().filter_map(own).collect();
        versions.sort_unstable_by(|one, other| other.cmp(one));
        versions
    }

    /// Writes a version in one step: under its name there is nothing, what was there before, or all of it.
    ///
    /// # Errors
    /// Why it is not written, which leaves no part of it.
    pub fn write<'a>(&self, head: &Head, layer: &[u8], regions: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        let target = self.file_of(head.version);
        let mut new = target.clone().into_os_string();
        new.push(format!(".{}", self.writer));
        let new = PathBuf::from(new);
        let write = || {
            let mut file = BufWriter::with_capacity(1 << 16, File::create(&new)?);
            file::write(&mut file, head, layer, regions)?;
            file.flush()?;
            file.get_ref().sync_all()?;
            fs::rename(&new, &target)?;
            File::open(&self.path)?.sync_all()
        };
        let written = write();
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// One version, if it is whole; `None` if there is no such file.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn read(&self, version: u32) -> Result<Option<Whole>, Unreadable> {
        let path = self.file_of(version);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let length = file.metadata()?.len();
        let (head, layer) = file::check(io::BufReader::with_capacity(1 << 16, file), length)?;
        Ok(Some(Whole { source: Source::File(path), head, layer }))
    }

    /// The newest whole version below `below` whose head `is_wanted`; those that are not whole are told.
    pub fn last_whole(
        &self,
        below: u64,
        is_wanted: impl Fn(&Head) -> bool,
        mut tell: impl FnMut(&Path, &Unreadable),
    ) -> Option<Whole> {
        let older = self.versions().into_iter().filter(|version| u64::from(*version) < below);
        let read = |version| match self.read(version) {
            Ok(whole) => whole.filter(|whole| whole.head.rank == self.rank && is_wanted(&whole.head)),
            Err(reason) => {
                tell(&self.file_of(version), &reason);
                None
            }
        };
        older.into_iter().find_map(read)
    }

    /// Removes the versions of this rank below one, and what other processes of it have not ended writing.
    pub fn remove_below(&self, version: u32) {
        self.remove(|name| self.of_name(name).is_none_or(|(_, found)| found < version));
    }

    /// Removes all files of this rank.
    pub fn remove_all(&self) {
        self.remove(|_| true);
    }

    fn remove(&self, is_old: impl Fn(&str) -> bool) {
        let own = format!("{}{}.version-", self.prefix, self.rank);
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(&own) && is_old(name)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The last but one version of which all ranks have a file: all go back to that one, or a newer one.
    #[must_use]
    pub fn oldest_needed(&self, ranks: u32) -> Option<u32> {
        let mut count = std::collections::BTreeMap::<u32, u32>::new();
        for (rank, version) in self.all() {
            *count.entry(version).or_default() += u32::from(rank < ranks);
        }
        count.into_iter().rev().filter(|(_, found)| *found == ranks).nth(1).map(|(version, _)| version)
    }
}

//! Stores records in an anonymous file of the runtime daemon: a restarted `ringwatchd` finds all that the previous one
//! has promised to keep. The file ends with the node, like the node's part in the job.
//!
//! | offset | bytes | |
//! |---:|---:|---|
//! | 0 | 8 | magic |
//! | 8 | 8 | offset of the first record |
//! | 16 on | | records: length (4), checksum (4), content |
//!
//! A record is valid if its checksum is correct. An incomplete record, written when the process was killed, was not
//! acknowledged to any node.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::fcntl::{FallocateFlags, FcntlArg, fallocate, fcntl};

const MAGIC: [u8; 8] = *b"RWlogger";
const HEADER: u64 = 16;

/// The file.
pub struct Journal {
    file: File,
    start: u64,
    end: u64,
}

impl Journal {
    /// Opens the file and hands out its records, in order.
    ///
    /// # Errors
    /// If it is another kind of file.
    pub fn open(file: OwnedFd, mut take: impl FnMut(&[u8])) -> io::Result<Self> {
        // Only anonymous memory has seals.
        fcntl(file.as_fd(), FcntlArg::F_GET_SEALS)?;
        let file = File::from(file);
        if file.metadata()?.len() == 0 {
            file.write_all_at(&HEADER.to_le_bytes(), 8)?;
            file.write_all_at(&MAGIC, 0)?;
            return Ok(Self { file, start: HEADER, end: HEADER });
        }
        let (mut magic, mut start) = ([0; 8], [0; 8]);
        file.read_exact_at(&mut magic, 0)?;
        file.read_exact_at(&mut start, 8)?;
        let start = u64::from_le_bytes(start);
        if magic != MAGIC || start < HEADER {
            return Err(io::Error::other("the file is not one of an event logger"));
        }
        let mut journal = Self { file, start, end: start };
        while let Some(content) = journal.read() {
            take(&content);
            journal.end += 8 + content.len() as u64;
        }
        Ok(journal)
    }

    /// The next record after those that were read.
    fn read(&self) -> Option<Vec<u8>> {
        let mut head = [0; 8];
        self.file.read_exact_at(&mut head, self.end).ok()?;
        let (length, checksum) = head.split_at(4);
        let length = u32::from_le_bytes(length.try_into().ok()?);
        let rest = self.file.metadata().ok()?.len().saturating_sub(self.end + 8);
        if length == 0 || u64::from(length) > rest {
            return None;
        }
        let mut content = vec![0; length as usize];
        self.file.read_exact_at(&mut content, self.end + 8).ok()?;
        (checksum == self::checksum(&content)).then_some(content)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If there is no memory for it: then nothing is added.
    pub fn append(&mut self, content: &[u8]) -> io::Result<()> {
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        let record = [&length.to_le_bytes()[..], &checksum(content), content].concat();
        self.file.write_all_at(&record, self.end)?;
        self.end += record.len() as u64;
        Ok(())
    }

    /// Replaces all records by one.
    ///
    /// # Errors
    /// If there is no memory for it: then nothing changes.
    pub fn replace(&mut self, content: &[u8]) -> io::Result<()> {
        let (before, start) = (self.start, self.end);
        self.append(content)?;
        self.file.write_all_at(&start.to_le_bytes(), 8)?;
        self.start = start;
        let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let length = i64::try_from(start - before).map_err(io::Error::other)?;
        Ok(fallocate(&self.file, hole, i64::try_from(before).map_err(io::Error::other)?, length)?)
    }

    /// Bytes of all records.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.end - self.start
    }
}

fn checksum(content: &[u8]) -> [u8; 4] {
    *blake3::hash(content).as_bytes().first_chunk().expect("a hash is longer")
}

#[cfg(test)]
mod tests {
    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    fn file() -> OwnedFd {
        memfd_create(c"journal-test", MFdFlags::MFD_CLOEXEC).unwrap()
    }

    fn records(file: &OwnedFd) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        Journal::open(file.try_clone().unwrap(), |content| found.push(content.to_vec())).unwrap();
        found
    }

    #[test]
    fn records_are_found_again_up_to_one_that_was_cut_off_anywhere() {
        let file = file();
        let mut journal = Journal::open(file.try_clone().unwrap(), |_| unreachable!("it is empty")).unwrap();
        journal.append(b"one").unwrap();
        let end = journal.end;
        journal.append(b"another").unwrap();
        assert_eq!(records(&file), [b"one".to_vec(), b"another".to_vec()]);
        for length in end..journal.end {
            File::from(file.try_clone().unwrap()).set_len(length).unwrap();
            assert_eq!(records(&file), [b"one"], "{length}");
        }
        // The next record overwrites the rest.
        let mut journal = Journal::open(file.try_clone().unwrap(), |_| {}).unwrap();
        journal.append(b"a third").unwrap();
        assert_eq!(records(&file), [b"one".to_vec(), b"a third".to_vec()]);
    }

    #[test]
    fn what_was_replaced_takes_no_memory() {
        let file = file();
        let mut journal = Journal::open(file.try_clone().unwrap(), |_| {}).unwrap();
        for _ in 0..100 {
            journal.append(&[7; 10_000]).unwrap();
        }
        let blocks =
            || std::os::unix::fs::MetadataExt::blocks(&File::from(file.try_clone().unwrap()).metadata().unwrap());
        let before = blocks();
        journal.replace(b"all").unwrap();
        assert!(blocks() * 10 < before, "{} of {before} are left", blocks());
        journal.append(b"more").unwrap();
        assert_eq!(records(&file), [b"all".to_vec(), b"more".to_vec()]);
        assert_eq!(journal.size(), 8 + 3 + 8 + 4);
    }

    #[test]
    fn no_other_file_is_taken() {
        let open = |file: OwnedFd| Journal::open(file, |_| {}).is_err();
        assert!(open(File::open("/dev/null").unwrap().into()));
        let foreign = file();
        File::from(foreign.try_clone().unwrap()).write_all_at(&[1; 64], 0).unwrap();
        assert!(open(foreign));
    }
}

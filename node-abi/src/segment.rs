//! Implements the node segment: shared memory between `ringwatchd`, the plugin that made it and the ranks of one node.
//!
//! It holds one slot per local rank, with the rank's identity and progress, and the node's failure log. `ringwatchd`
//! appends to the log. A rank reads it from MPI's progress loop when the word in its slot requests that: one relaxed
//! load if there is no news. Spare slots are for ranks of jobs that are spawned later; untouched memory costs nothing.
//! The segment is an anonymous file (`memfd`), which ranks open through `/proc/<pid>/fd/<n>` of the runtime daemon, so
//! it vanishes with the last process that uses it.
//!
//! Only the owner of the job can open it. Its size is sealed. Every index read from it is checked, because a corrupted
//! rank may write anything.
//!
//! ```text
//! offset  size  field
//!      0     8  magic
//!      8     4  places: maximum number of slots
//!     12     4  capacity: entries the log can hold
//!     16     4  length of the log (atomic, released after the entry)
//!     20     4  beat: incremented by ringwatchd's main loop (atomic)
//!     24     4  flags (atomic, a futex): FLAG_ALL_READY, FLAG_HELD, FLAG_ENDED, FLAG_ALL_HERE
//!     28     4  slots: number in use (atomic, released after the rank)
//!     32     4  jobs: number of spawned jobs (atomic, released after the job)
//!     36     4  beat at: time of the last turn of that loop, in microseconds (atomic)
//!     40     4  news of replicas (atomic): incremented by a rank that has noted which replica it is, or a finding
//!     44    20  reserved
//!     64  8*16k spawned jobs: number of the first rank u32, number of the job u32
//! 131136 432*n  slots: pid u32, phase u32, rank u32, changed defaults u32, lifeline (a robust lock, 40 bytes),
//!               raised u32: log entries that the rank has reported to MPI, raised at u32: when, in microseconds,
//!               errors u32: errors of MPI noted, times two, odd while one is being written, error at u32: when the last
//!               was raised, its class (36 bytes of text), the function that raised it (36 bytes of text), held u32: whether
//!               ringwatchd has stopped the process, call u32 (atomic): whether the rank must read the log, set after each entry
//!               of the log, and by the rank itself; and what `replicas` says (276 bytes)
//!      …   8*c  log: kind u32, id u32
//! ```

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::stat::Mode;

/// Environment variable in which ranks find the path of their node's segment.
pub const SEGMENT_VARIABLE: &str = "RINGWATCH_SEGMENT";
/// Environment variable with the number that rank 0 of a rank's job has among the ranks of all jobs: zero, or more in a
/// job that was spawned.
pub const FIRST_RANK_VARIABLE: &str = "RINGWATCH_FIRST_RANK";
/// Environment variable with an IPv4 address of this node, one that heartbeats use.
pub const ADDRESS_VARIABLE: &str = "RINGWATCH_ADDRESS";
/// Set when every rank of the job has passed `MPI_Init` (node 0 only).
pub const FLAG_ALL_READY: u32 = 1;
/// Set while the ranks of the node are stopped by `ringwatchd`.
pub const FLAG_HELD: u32 = 2;
/// Set when the job cannot continue; the plugin is about to get the reason.
pub const FLAG_ENDED: u32 = 4;
/// Set when this node knows that every node of the job takes part.
pub const FLAG_ALL_HERE: u32 = 8;

/// Slots for spawned ranks on a node.
pub const SPARE_SLOTS: u32 = 4096;
/// Log entries for spawned ranks of all nodes.
pub const SPARE_ENTRIES: u32 = 64 << 10;
/// Maximum number of spawned jobs in a segment.
pub const MOST_JOBS: u32 = 16 << 10;

pub mod replicas;

const MAGIC: u64 = u64::from_le_bytes(*b"rngwtch7");
/// Offset of the flags.
const FLAGS: usize = 24;
const JOBS: usize = 64;
const JOB: usize = 8;
const HEADER: usize = JOBS + JOB * MOST_JOBS as usize;
const SLOT: usize = 432;
const ENTRY: usize = 8;
/// Offset of the lifeline in a slot.
const LIFELINE: usize = 16;
/// Offset of the number of log entries that a rank has reported to MPI.
const RAISED: usize = 56;
/// Offset of the last error noted by a rank.
const ERROR: usize = 64;
/// Offset of the flag that `ringwatchd` has stopped the process.
const HELD: usize = 144;
/// Offset of the word that requests the rank to read the log.
const CALL: usize = 148;
/// Bytes of a name: the longest class has 27 letters, the longest function 30.
const NAME: usize = 36;

/// Progress of a local rank through MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Phase {
    /// No process has registered in the slot.
    Unknown = 0,
    /// Inside `MPI_Init`.
    Initialising = 1,
    /// `MPI_Init` has returned.
    Running = 2,
    /// Inside `MPI_Finalize`.
    Finalising = 3,
    /// `MPI_Finalize` has returned: the end of the process is no failure.
    Finalised = 4,
    /// The rank has passed the point in `MPI_Init` where it registers, without ringwatch's component: its further
    /// progress is unknown.
    Unserved = 5,
}

impl Phase {
    /// Whether the component in the rank has registered this phase.
    #[must_use]
    pub fn is_registered(self) -> bool {
        !matches!(self, Self::Unknown | Self::Unserved)
    }

    fn from_raw(raw: u32) -> Self {
        match raw {
            1 => Self::Initialising,
            2 => Self::Running,
            3 => Self::Finalising,
            4 => Self::Finalised,
            5 => Self::Unserved,
            _ => Self::Unknown,
        }
    }
}

/// One entry of the failure log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A rank is dead.
    Rank(u32),
    /// A node is dead; its ranks have entries of their own.
    Node(u32),
    /// No failure: all ranks of a node have left `MPI_Init`. Only in the log of node 0, whose `ringwatchd` counts them.
    Ready(u32),
}

/// An error that MPI has raised in a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaisedError {
    /// Number of errors noted so far.
    pub count: u32,
    /// Time of the error; correct within half an hour.
    pub at: Duration,
    /// Its class, as in `mpi.h`.
    pub class: String,
    /// The function of MPI that raised it.
    pub function: String,
}

/// The reason why a segment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The operating system refused.
    #[error("node segment: {0}")]
    System(#[from] std::io::Error),
    /// The file is not a segment of this version.
    #[error("node segment: the file is not a segment of this version of ringwatch")]
    Foreign,
}

impl From<nix::Error> for SegmentError {
    fn from(error: nix::Error) -> Self {
        Self::System(error.into())
    }
}

/// A mapped node segment.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    bytes: usize,
    places: u32,
    capacity: u32,
}

/// A spawned job. Its ranks' numbers follow those of all earlier jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnedJob {
    /// Number of its first rank among all ranks.
    pub first: u32,
    /// Number of the job: its namespace is that of the first job, with this number behind the `@`.
    pub number: u32,
}

// SAFETY: all access to the mapping after construction goes through atomics.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes a segment for the given local ranks with room for `capacity` log entries, and returns it with its file.
    ///
    /// # Errors
    /// If the system has no memory or descriptors left.
    pub fn create(ranks: &[u32], capacity: u32) -> Result<(Self, OwnedFd), SegmentError> {
        let places = u32::try_from(ranks.len()).map_err(|_| SegmentError::Foreign)?.saturating_add(SPARE_SLOTS);
        let file = memfd_create(c"ringwatch", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        nix::sys::stat::fchmod(&file, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let bytes = size_of_segment(places, capacity);
        nix::unistd::ftruncate(&file, i64::try_from(bytes).map_err(|_| SegmentError::Foreign)?)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL))?;
        let segment = Self::map(&file, bytes, places, capacity)?;
        // SAFETY: the mapping is at least HEADER bytes long, page aligned, and has no other user yet.
        unsafe {
            segment.base.cast::<u64>().write(MAGIC);
            segment.base.add(8).cast::<u32>().write(places);
            segment.base.add(12).cast::<u32>().write(capacity);
        }
        segment.add_slots(ranks);
        Ok((segment, file))
    }

    /// Announces a spawned job, of which this node has `ranks`. Only one process may call it at a time (the plugin).
    /// Returns false, and changes nothing, if there is no room.
    pub fn admit(&self, job: SpawnedJob, ranks: &[u32]) -> bool {
        let known = self.word(32).load(Ordering::Acquire);
        let room = (self.places - self.slots()) as usize;
        if known >= MOST_JOBS || ranks.len() > room {
            return false;
        }
        let offset = JOBS + JOB * known as usize;
        self.word(offset).store(job.first, Ordering::Relaxed);
        self.word(offset + 4).store(job.number, Ordering::Relaxed);
        self.word(32).store(known + 1, Ordering::Release);
        self.add_slots(ranks);
        true
    }

    /// The spawned job of a rank; `None` for the first job.
    #[must_use]
    pub fn spawned_job_of(&self, rank: u32) -> Option<SpawnedJob> {
        let known = self.word(32).load(Ordering::Acquire).min(MOST_JOBS) as usize;
        (0..known)
            .rev()
            .map(|index| JOBS + JOB * index)
            .map(|offset| SpawnedJob {
                first: self.word(offset).load(Ordering::Relaxed),
                number: self.word(offset + 4).load(Ordering::Relaxed),
            })
            .find(|job| job.first <= rank)
    }

    fn add_slots(&self, ranks: &[u32]) {
        let used = self.word(28).load(Ordering::Acquire);
        let mut slot = used;
        for rank in ranks {
            self.word(HEADER + SLOT * slot as usize + 8).store(*rank, Ordering::Relaxed);
            slot += 1;
        }
        self.word(28).store(slot, Ordering::Release);
    }

    /// Maps the segment behind a descriptor.
    ///
    /// # Errors
    /// If it cannot be mapped or is not a segment.
    pub fn open(file: &impl AsFd) -> Result<Self, SegmentError> {
        let status = nix::sys::stat::fstat(file)?;
        let bytes = usize::try_from(status.st_size).map_err(|_| SegmentError::Foreign)?;
        if bytes < HEADER {
            return Err(SegmentError::Foreign);
        }
        let mut segment = Self::map(file, bytes, 0, 0)?;
        // SAFETY: the mapping is at least HEADER bytes long and page aligned; these fields never change after creation.
        let (magic, places, capacity) = unsafe {
            (
                segment.base.cast::<u64>().read(),
                segment.base.add(8).cast::<u32>().read(),
                segment.base.add(12).cast::<u32>().read(),
            )
        };
        if magic != MAGIC || size_of_segment(places, capacity) != bytes {
            return Err(SegmentError::Foreign);
        }
        segment.places = places;
        segment.capacity = capacity;
        Ok(segment)
    }

    /// Maps the segment at a path (`/proc/<pid>/fd/<n>`).
    ///
    /// # Errors
    /// As [`Segment::open`], and if the path cannot be opened.
    pub fn open_path(path: &str) -> Result<Self, SegmentError> {
        let file = File::options().read(true).write(true).open(path)?;
        Self::open(&file)
    }

    fn map(file: &impl AsFd, bytes: usize, places: u32, capacity: u32) -> Result<Self, SegmentError> {
        let length = std::num::NonZeroUsize::new(bytes).ok_or(SegmentError::Foreign)?;
        // SAFETY: a fresh shared mapping of a file whose size is sealed.
        let base =
            unsafe { mmap(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, file, 0)? };
        Ok(Self { base: base.cast(), bytes, places, capacity })
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= self.bytes && offset % 4 == 0, "offset inside the segment");
        // SAFETY: in bounds and aligned by the assertion; the mapping lives as long as self; all users access
        // atomically.
        unsafe { AtomicU32::from_ptr(self.base.add(offset).cast().as_ptr()) }
    }

    /// Number of local ranks, including spawned ones.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.word(28).load(Ordering::Acquire).min(self.places)
    }

    /// The rank of slot `slot`.
    #[must_use]
    pub fn rank(&self, slot: u32) -> u32 {
        self.word(self.slot_offset(slot) + 8).load(Ordering::Acquire)
    }

    /// Slot of a rank of this node.
    #[must_use]
    pub fn slot_of(&self, rank: u32) -> Option<u32> {
        (0..self.slots()).find(|slot| self.rank(*slot) == rank)
    }

    /// Process id that registered in a slot, and its phase.
    #[must_use]
    pub fn occupant(&self, slot: u32) -> (i32, Phase) {
        let offset = self.slot_offset(slot);
        let phase = Phase::from_raw(self.word(offset + 4).load(Ordering::Acquire));
        (i32::try_from(self.word(offset).load(Ordering::Acquire)).unwrap_or(0), phase)
    }

    /// Registers the calling process in a slot, or advances its phase.
    pub fn enter(&self, slot: u32, pid: u32, phase: Phase) {
        let offset = self.slot_offset(slot);
        self.word(offset).store(pid, Ordering::Release);
        self.word(offset + 4).store(phase as u32, Ordering::Release);
    }

    /// Notes that the rank of a slot has passed the point where it registers. Without a registration it lacks the
    /// component.
    pub fn pass_by(&self, slot: u32) {
        let phase = self.word(self.slot_offset(slot) + 4);
        let _ =
            phase.compare_exchange(Phase::Unknown as u32, Phase::Unserved as u32, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Adds to the defaults that a rank has changed (bits of [`crate::defaults::Default`]).
    pub fn note_changes(&self, slot: u32, mask: u32) {
        self.word(self.slot_offset(slot) + 12).fetch_or(mask, Ordering::AcqRel);
    }

    /// The defaults that a rank has changed.
    #[must_use]
    pub fn changes(&self, slot: u32) -> u32 {
        self.word(self.slot_offset(slot) + 12).load(Ordering::Acquire)
    }

    /// Notes that `ringwatchd` is about to stop the process in a slot, or has continued it.
    pub fn note_held(&self, slot: u32, held: bool) {
        self.word(self.slot_offset(slot) + HELD).store(u32::from(held), Ordering::Release);
    }

    /// Whether `ringwatchd`, in this or an earlier incarnation, has stopped the process in a slot.
    #[must_use]
    pub fn is_held(&self, slot: u32) -> bool {
        self.word(self.slot_offset(slot) + HELD).load(Ordering::Acquire) != 0
    }

    /// Notes that a rank has reported the first `count` log entries to MPI, at `now` on [`platform::clock`].
    pub fn note_raised(&self, slot: u32, count: u32, now: Duration) {
        let offset = self.slot_offset(slot) + RAISED;
        self.word(offset + 4).store(clock_word(now), Ordering::Relaxed);
        self.word(offset).store(count, Ordering::Release);
    }

    /// Number of log entries that a rank has reported to MPI, and the time on [`platform::clock`]; the time is correct
    /// within half an hour of `now`.
    #[must_use]
    pub fn raised(&self, slot: u32, now: Duration) -> (u32, Duration) {
        let offset = self.slot_offset(slot) + RAISED;
        let count = self.word(offset).load(Ordering::Acquire).min(self.len());
        (count, time_of(self.word(offset + 4).load(Ordering::Relaxed), now))
    }

    /// Notes that `function` of MPI has raised an error of this class in a rank, at `now` on [`platform::clock`]. Only
    /// one thread may call it at a time. Names are stored up to the first invalid character.
    pub fn note_error(&self, slot: u32, class: &str, function: &str, now: Duration) {
        let offset = self.slot_offset(slot) + ERROR;
        self.note(offset, now, || {
            self.write_text::<NAME>(offset + 8, class, is_of_a_name);
            self.write_text::<NAME>(offset + 8 + NAME, function, is_of_a_name);
        });
    }

    /// The last error that a rank has noted, if it is not one of the first `known` and is not being written.
    #[must_use]
    pub fn error_after(&self, slot: u32, known: u32, now: Duration) -> Option<RaisedError> {
        let offset = self.slot_offset(slot) + ERROR;
        let read = |offset| self.read_text::<NAME>(offset, is_of_a_name);
        let (count, at, (class, function)) =
            self.noted_after(offset, known, now, || (read(offset + 8), read(offset + 8 + NAME)))?;
        Some(RaisedError { count, at, class, function })
    }

    /// Writes a note that others read whole or not at all. Its first word counts notes, times two, and is odd while one
    /// is being written; the second is the time.
    fn note(&self, offset: usize, now: Duration, write: impl FnOnce()) {
        let notes = self.word(offset).load(Ordering::Relaxed) & !1;
        self.word(offset).store(notes | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.word(offset + 4).store(clock_word(now), Ordering::Relaxed);
        write();
        self.word(offset).store(notes.wrapping_add(2), Ordering::Release);
    }

    /// The last note, with its number and its time, if it is not one of the first `known` and is not being written.
    fn noted_after<T>(
        &self,
        offset: usize,
        known: u32,
        now: Duration,
        read: impl FnOnce() -> T,
    ) -> Option<(u32, Duration, T)> {
        let notes = self.word(offset).load(Ordering::Acquire);
        if notes / 2 == known || notes % 2 == 1 {
            return None;
        }
        let at = time_of(self.word(offset + 4).load(Ordering::Relaxed), now);
        let note = read();
        fence(Ordering::Acquire);
        (self.word(offset).load(Ordering::Relaxed) == notes).then_some((notes / 2, at, note))
    }

    fn write_text<const LENGTH: usize>(&self, offset: usize, text: &str, is_part: fn(&u8) -> bool) {
        let mut bytes = [0; LENGTH];
        bytes.iter_mut().zip(text.bytes().take_while(is_part)).for_each(|(place, byte)| *place = byte);
        for (index, word) in bytes.chunks_exact(4).enumerate() {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            self.word(offset + 4 * index).store(word, Ordering::Relaxed);
        }
    }

    fn read_text<const LENGTH: usize>(&self, offset: usize, is_part: fn(&u8) -> bool) -> String {
        let words = (0..LENGTH / 4).map(|index| self.word(offset + 4 * index).load(Ordering::Relaxed).to_le_bytes());
        words.flatten().take_while(is_part).map(char::from).collect()
    }

    /// First word of the lock of a slot: see [`crate::lifeline_lock`].
    #[must_use]
    pub fn lifeline(&self, slot: u32) -> &AtomicU32 {
        self.word(self.slot_offset(slot) + LIFELINE)
    }

    fn slot_offset(&self, slot: u32) -> usize {
        assert!(slot < self.places, "slot exists");
        HEADER + SLOT * slot as usize
    }

    /// The word that requests the rank of a slot to read the log (0: no request), which its progress loop reads. Set
    /// after each entry, and by the rank. The rank clears it by a swap with acquire ordering, and then checks the log
    /// once more.
    #[must_use]
    pub fn call(&self, slot: u32) -> &AtomicU32 {
        self.word(self.slot_offset(slot) + CALL)
    }

    /// Number of entries of the log.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.word(16).load(Ordering::Acquire).min(self.capacity)
    }

    /// Whether the log is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entry `index` of the log, which must be less than [`Segment::len`].
    #[must_use]
    pub fn entry(&self, index: u32) -> Option<Entry> {
        if index >= self.len() {
            return None;
        }
        let offset = HEADER + SLOT * self.places as usize + ENTRY * index as usize;
        let id = self.word(offset + 4).load(Ordering::Relaxed);
        match self.word(offset).load(Ordering::Relaxed) {
            1 => Some(Entry::Rank(id)),
            2 => Some(Entry::Node(id)),
            3 => Some(Entry::Ready(id)),
            _ => None,
        }
    }

    /// Appends to the log and requests all ranks to read it. Only one process may call it at a time (`ringwatchd`). A
    /// full log drops the entry and returns false; that cannot happen if the capacity is the number of ranks and nodes
    /// of the job.
    pub fn append(&self, entry: Entry) -> bool {
        let length = self.len();
        if length >= self.capacity {
            return false;
        }
        let (kind, id) = match entry {
            Entry::Rank(id) => (1, id),
            Entry::Node(id) => (2, id),
            Entry::Ready(id) => (3, id),
        };
        let offset = HEADER + SLOT * self.places as usize + ENTRY * length as usize;
        self.word(offset).store(kind, Ordering::Relaxed);
        self.word(offset + 4).store(id, Ordering::Relaxed);
        self.word(16).store(length + 1, Ordering::Release);
        self.call_all();
        true
    }

    /// Requests all ranks to read the log. A `ringwatchd` calls it when it begins, in place of one that has ended
    /// inside [`Segment::append`].
    pub fn call_all(&self) {
        (0..self.slots()).for_each(|slot| self.call(slot).store(1, Ordering::Release));
    }

    /// Counts a turn of `ringwatchd`'s loop, at `now` on [`platform::clock::awake`].
    pub fn beat(&self, now: Duration) {
        self.word(36).store(clock_word(now), Ordering::Relaxed);
        self.word(20).fetch_add(1, Ordering::Relaxed);
    }

    /// Time of the last turn of `ringwatchd`'s loop on [`platform::clock::awake`]; correct within half an hour of
    /// `now`, and zero before the first.
    #[must_use]
    pub fn last_beat(&self, now: Duration) -> Duration {
        match self.word(36).load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            word => time_of(word, now),
        }
    }

    /// Number of turns of `ringwatchd`'s loop.
    #[must_use]
    pub fn beats(&self) -> u32 {
        self.word(20).load(Ordering::Relaxed)
    }

    /// Sets flags.
    pub fn set_flags(&self, flags: u32) {
        self.word(FLAGS).fetch_or(flags, Ordering::AcqRel);
    }

    /// Releases the ranks that wait until every node of the job takes part.
    pub fn let_ranks_in(&self) {
        self.set_flags(FLAG_ALL_HERE);
        // SAFETY: wakes waiters of a word of this mapping.
        unsafe { libc::syscall(libc::SYS_futex, self.word(FLAGS).as_ptr(), libc::FUTEX_WAKE, c_int::MAX) };
    }

    /// Sleeps until every node of the job is known to take part. If one does not, the job ends, and this process with
    /// it.
    pub fn wait_to_be_let_in(&self) {
        loop {
            let flags = self.flags();
            if flags & FLAG_ALL_HERE != 0 {
                return;
            }
            let none = std::ptr::null::<libc::timespec>();
            // SAFETY: waits, without a time limit, while a word of this mapping has the value that was read.
            unsafe { libc::syscall(libc::SYS_futex, self.word(FLAGS).as_ptr(), libc::FUTEX_WAIT, flags, none) };
        }
    }

    /// Clears flags.
    pub fn clear_flags(&self, flags: u32) {
        self.word(FLAGS).fetch_and(!flags, Ordering::AcqRel);
    }

    /// Flags that are set.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.word(FLAGS).load(Ordering::Acquire)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and no reference into it outlives self.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}

/// The lower 32 bits of a monotonic clock's microseconds; they repeat after 71 minutes.
fn clock_word(now: Duration) -> u32 {
    (now.as_micros() & u128::from(u32::MAX)) as u32
}

/// The time within half an hour of `now` that such a word means.
fn time_of(word: u32, now: Duration) -> Duration {
    // Negative if the writer has stored the word after the reader has read its clock.
    let ago = clock_word(now).wrapping_sub(word) as i32;
    let apart = Duration::from_micros(u64::from(ago.unsigned_abs()));
    if ago < 0 { now + apart } else { now.saturating_sub(apart) }
}

/// Characters of MPI's names; a corrupted rank may write anything.
fn is_of_a_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

/// Path under which another process of the same user can open the segment of this one.
#[must_use]
pub fn path_of(file: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

fn size_of_segment(places: u32, capacity: u32) -> usize {
    HEADER + SLOT * places as usize + ENTRY * capacity as usize
}

#[cfg(test)]
mod tests;

//! The checkpoints of the ranks of this job: files of the program's memory, and what of the layer is in them.

use std::ffi::c_int;
use std::path::PathBuf;

use checkpoints::folder::Folder;
use checkpoints::whole::Whole;
use event_log::determinant::Rank;
use event_log::logger::round::Position;
use event_log::protocol::checkpoint::Checkpoint;
use event_log::protocol::units::Payload;
use platform::say::{host, say};
use serde::{Deserialize, Serialize};

/// What the layer keeps in a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The machine of the rank, as [`Checkpoint`] encodes it.
    pub machine: Vec<u8>,
    /// The last determinant before.
    pub position: Position,
    /// The calls before the restore point.
    pub set_up: Payload,
    /// Bytes of standard output before.
    pub printed: u64,
    /// The lowest number that no communicator has had.
    pub next_communicator: u32,
    /// Collective operations of each communicator, by its number.
    pub operations: Vec<(u32, c_int)>,
}

/// What a replacement starts from.
#[derive(Debug)]
pub struct Restored {
    /// The program's memory.
    pub whole: Whole,
    /// What the layer has kept in it.
    pub part: Part,
}

/// What is in a checkpoint, if the layer can read its part of it.
pub fn restored(whole: Whole) -> Option<(Restored, Checkpoint)> {
    let part: Part = postcard::from_bytes(&whole.layer).ok()?;
    let machine = Checkpoint::decode(&part.machine).ok()?;
    Some((Restored { whole, part }, machine))
}

/// Where a rank's checkpoints are.
#[derive(Clone, Debug)]
pub enum Place {
    /// Files of a folder that all nodes see.
    Folder(PathBuf),
    /// The memory of a rank of another node.
    Partner,
}

/// The checkpoints of a job.
#[derive(Clone, Debug)]
pub struct Store {
    place: Place,
    /// Random: nothing of another job is ever restored.
    job: u64,
}

impl Store {
    /// There.
    pub fn new(place: Place, job: u64) -> Self {
        Self { place, job }
    }

    /// The job.
    pub fn job(&self) -> u64 {
        self.job
    }

    /// The files of a rank, if its checkpoints are files.
    pub fn folder(&self, rank: Rank) -> Option<Folder> {
        match &self.place {
            Place::Folder(path) => Some(Folder::new(path, self.job, rank, &host(), std::process::id())),
            Place::Partner => None,
        }
    }

    /// The last whole file of a rank, and its machine. A sentence names each that is not whole.
    pub fn last(&self, rank: Rank) -> Option<(Restored, Checkpoint)> {
        let mut below = u64::MAX;
        let folder = self.folder(rank)?;
        loop {
            let whole = folder.last_whole(
                below,
                |head| head.job == self.job,
                |path, reason| say(&format!("ringwatch: the checkpoint {} {reason}", path.display())),
            )?;
            below = whole.head.version.into();
            let found = restored(whole);
            if found.is_some() {
                return found;
            }
        }
    }
}

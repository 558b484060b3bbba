//! The checkpoints of the ranks of this job: files of the program's memory, and what of the layer is in them.

use std::ffi::c_int;
use std::path::PathBuf;

use checkpoints::folder::{Folder, Whole};
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
    /// The file.
    pub whole: Whole,
    /// What the layer has kept in it.
    pub part: Part,
}

/// Where the checkpoints of a job are.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
    /// Random: nothing of another job is ever restored.
    job: u64,
}

impl Store {
    /// In this folder.
    pub fn new(path: PathBuf, job: u64) -> Self {
        Self { path, job }
    }

    /// The job.
    pub fn job(&self) -> u64 {
        self.job
    }

    /// The files of a rank.
    pub fn folder(&self, rank: Rank) -> Folder {
        Folder::new(&self.path, self.job, rank, &host(), std::process::id())
    }

    /// The last whole checkpoint of a rank, and its machine. A sentence names each that is not whole.
    pub fn last(&self, rank: Rank) -> Option<(Restored, Checkpoint)> {
        let mut below = u64::MAX;
        let folder = self.folder(rank);
        loop {
            let whole = folder.last_whole(
                below,
                |head| head.job == self.job,
                |path, reason| say(&format!("ringwatch: the checkpoint {} {reason}", path.display())),
            )?;
            below = whole.head.version.into();
            let part: Option<Part> = postcard::from_bytes(&whole.layer).ok();
            let machine = part.as_ref().and_then(|part| Checkpoint::decode(&part.machine).ok());
            if let (Some(part), Some(machine)) = (part, machine) {
                return Some((Restored { whole, part }, machine));
            }
        }
    }
}

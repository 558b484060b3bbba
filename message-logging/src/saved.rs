//! What this process has saved, and where.

use checkpoints::folder::Folder;
use event_log::determinant::Rank;
use platform::say::say;

/// The checkpoints of this process.
pub struct Checkpoints {
    /// The rank.
    pub rank: Rank,
    /// Its files; none where its partner has its checkpoints.
    pub folder: Option<Folder>,
    /// The job.
    pub job: u64,
    /// Numbers of the communicators at the restore point, once the program is there.
    pub communicators: Option<Vec<u32>>,
    /// The last version, and the one before.
    pub versions: (Option<u32>, Option<u32>),
    /// Whether a version that could not be written was told of.
    has_complained: bool,
    /// Whether the program saves nothing any more.
    pub has_ended: bool,
    /// Whether the files go at the end of the job.
    pub goes: bool,
}

impl Checkpoints {
    /// None yet.
    pub fn new(rank: Rank, folder: Option<Folder>, job: u64) -> Self {
        Self {
            rank,
            folder,
            job,
            communicators: None,
            versions: (None, None),
            has_complained: false,
            has_ended: false,
            goes: false,
        }
    }

    /// Says once why a version is not saved.
    pub fn complain(&mut self, version: u32, reason: &str) {
        if !std::mem::replace(&mut self.has_complained, true) {
            let folder = self.folder.as_ref().map(|folder| folder.path().display().to_string());
            let (rank, place) = (self.rank, folder.as_deref().unwrap_or("the memory of its partner"));
            say(&format!(
                "ringwatch: version {version} of rank {rank} is not saved in {place} ({reason}): the one before stays its last checkpoint"
            ));
        }
    }

    /// At the end of the job.
    pub fn leave(&self) {
        if let Some(folder) = self.folder.as_ref().filter(|_| self.goes) {
            folder.remove_all();
        }
    }
}

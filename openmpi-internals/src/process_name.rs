//! Open MPI's name of a process: a job and a rank.

use crate::v5_0::layout::process_name as layout;

/// The bits of Open MPI's name of a job that tell the jobs of one mpirun apart (`opal_pmix_convert_nspace`).
pub(crate) const JOB_NUMBER: u32 = 0xffff;

/// `opal_process_name_t`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProcessName {
    pub(crate) job: u32,
    pub(crate) rank: u32,
}

const _: () = assert!(std::mem::offset_of!(ProcessName, job) == layout::JOBID);
const _: () = assert!(std::mem::offset_of!(ProcessName, rank) == layout::VPID);
const _: () = assert!(size_of::<ProcessName>() == layout::SIZE);

impl ProcessName {
    /// The name of a rank of a job, by its number.
    pub fn new(job: u32, rank: u32) -> Self {
        Self { job, rank }
    }

    /// Whether both processes were started by the same mpirun.
    pub fn has_same_mpirun(self, other: Self) -> bool {
        self.job & !JOB_NUMBER == other.job & !JOB_NUMBER
    }

    /// Whether both processes were started at once.
    pub fn has_same_job(self, other: Self) -> bool {
        self.job == other.job
    }

    /// The same bytes in every process.
    pub fn bytes(self) -> [u8; 8] {
        (u64::from(self.job) << 32 | u64::from(self.rank)).to_le_bytes()
    }
}

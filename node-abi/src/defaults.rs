//! Lists the defaults of Open MPI that ranks of a fault-tolerant job change. Each is a bit in the rank's slot, so that
//! `ringwatchd` can log the changes. `docs/defaults.md` has the reasons.

/// One changed default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Default {
    /// Resolve every process at the start.
    AddProcsCutoff = 1,
    /// No barrier of the runtime in `MPI_Finalize`.
    AsyncFinalize = 2,
    /// No coll/han.
    NoHan = 4,
    /// Writing to a dead peer is an error, not a signal.
    IgnoreBrokenPipes = 8,
    /// `MPI_Allgatherv` by an algorithm that reports errors.
    HonestAllgatherv = 16,
    /// Collective I/O without fcoll/vulcan, by algorithms that tolerate failures.
    NoVulcan = 32,
    /// Fast boxes between the processes of a node from the first message on.
    EarlyFastBoxes = 64,
    /// As [`Self::NoVulcan`]: without fcoll/dynamic.
    NoDynamic = 128,
    /// The same: without fcoll/dynamic_gen2.
    NoDynamicGen2 = 256,
    /// Shared file pointers without sharedfp/sm, whose lock survives its dead holder.
    NoSharedMemoryPointers = 512,
}

impl Default {
    const ALL: [Self; 10] = [
        Self::AddProcsCutoff,
        Self::AsyncFinalize,
        Self::NoHan,
        Self::IgnoreBrokenPipes,
        Self::HonestAllgatherv,
        Self::EarlyFastBoxes,
        Self::NoVulcan,
        Self::NoDynamic,
        Self::NoDynamicGen2,
        Self::NoSharedMemoryPointers,
    ];

    /// The changes in a mask.
    pub fn in_mask(mask: u32) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |one| mask & *one as u32 != 0)
    }

    /// The change in the user's notation.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::AddProcsCutoff => "mpi_add_procs_cutoff=2147483647",
            Self::AsyncFinalize => "async_mpi_finalize=true",
            Self::NoHan => "coll_han_priority=-1",
            Self::IgnoreBrokenPipes => "SIGPIPE=ignored",
            Self::HonestAllgatherv => "coll_tuned_use_dynamic_rules=true coll_tuned_allgatherv_algorithm=2",
            Self::NoVulcan => "fcoll_vulcan_priority=0",
            Self::NoDynamic => "fcoll_dynamic_priority=0",
            Self::NoDynamicGen2 => "fcoll_dynamic_gen2_priority=0",
            Self::NoSharedMemoryPointers => "sharedfp_sm_priority=0",
            Self::EarlyFastBoxes => "btl_sm_fbox_threshold=1",
        }
    }
}

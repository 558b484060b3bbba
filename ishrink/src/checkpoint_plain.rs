//! Checkpoints of a job without message logging: all ranks restore the newest version that all of them have.

use std::ffi::c_int;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use checkpoints::file::Head;
use checkpoints::folder::Folder;
use checkpoints::region::Region;
use checkpoints::table::NONE;
use checkpoints::whole::Whole;
use openmpi_internals::error_class::{ERR_ARG, ERR_INTERN, ERR_IO, ERR_NO_SPACE, ERR_UNSUPPORTED};
use openmpi_internals::loaded::Library;
use openmpi_internals::variables::{OMPI_MPI_COMM_WORLD, OMPI_MPI_INT, OMPI_MPI_OP_MIN};

use crate::openmpi::Handle;

/// The files of this rank.
pub struct Plain {
    folder: Folder,
    rank: u32,
    ranks: u32,
    last: Option<u32>,
    has_complained: bool,
}

/// Says a sentence to the user.
pub fn say(line: &str) {
    // Nothing can be done where that fails.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Name of this host.
fn host() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: room for a name, which stays terminated.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

impl Plain {
    /// The rank of this process, and how many there are; `None` where MPI is not initialised.
    pub fn place() -> Option<(u32, u32)> {
        type Flag = unsafe extern "C" fn(*mut c_int) -> c_int;
        type Ask = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
        let library = Library::loaded()?;
        let world = library.predefined(OMPI_MPI_COMM_WORLD)?;
        let (mut begun, mut ended, mut rank, mut size) = (0, 0, 0, 0);
        // SAFETY: the types are those of mpi.h; room for the answers.
        unsafe {
            library.standard::<Flag>(c"PMPI_Initialized")?(&mut begun);
            library.standard::<Flag>(c"PMPI_Finalized")?(&mut ended);
            if begun == 0 || ended != 0 {
                return None;
            }
            library.standard::<Ask>(c"PMPI_Comm_rank")?(world, &mut rank);
            library.standard::<Ask>(c"PMPI_Comm_size")?(world, &mut size);
        }
        Some((rank as u32, size as u32))
    }

    /// In this folder; `None` where MPI is not initialised.
    pub fn new(path: &Path) -> Option<Self> {
        let (rank, ranks) = Self::place()?;
        let folder = Folder::new(path, 0, rank, &host(), std::process::id());
        Some(Self { folder, rank, ranks, last: None, has_complained: false })
    }

    /// The lowest number of all ranks.
    fn lowest(own: c_int) -> Result<c_int, c_int> {
        type Allreduce = unsafe extern "C" fn(*const c_int, *mut c_int, c_int, Handle, Handle, Handle) -> c_int;
        let find = || {
            let library = Library::loaded()?;
            let (world, int) = (library.predefined(OMPI_MPI_COMM_WORLD)?, library.predefined(OMPI_MPI_INT)?);
            let least = library.predefined(OMPI_MPI_OP_MIN)?;
            // SAFETY: the type is that of mpi.h.
            let allreduce: Allreduce = unsafe { library.standard(c"PMPI_Allreduce")? };
            Some((allreduce, int, least, world))
        };
        let (allreduce, int, least, world) = find().ok_or(ERR_UNSUPPORTED)?;
        let mut lowest = 0;
        // SAFETY: two variables of that type.
        let code = unsafe { allreduce(&own, &mut lowest, 1, int, least, world) };
        if code == 0 { Ok(lowest) } else { Err(code) }
    }

    /// The newest whole version below one.
    fn newest(&self, below: u64) -> Option<Whole> {
        let fits = |head: &Head| head.job == 0 && head.ranks == self.ranks && c_int::try_from(head.version).is_ok();
        let tell = |path: &Path, reason: &_| say(&format!("ringwatch: the checkpoint {} {reason}", path.display()));
        self.folder.last_whole(below, fits, tell)
    }

    /// Fills the regions with the newest version that all ranks have whole. Returns it, or [`NONE`]. All ranks call it.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` at all ranks if at one of them other memory is registered than was saved; that of MPI.
    ///
    /// # Safety
    /// The regions are there.
    pub unsafe fn restore(&mut self, regions: &[Region]) -> Result<c_int, c_int> {
        let mut below = u64::MAX;
        loop {
            let own = self.newest(below);
            let version = own.as_ref().map_or(NONE, |whole| whole.head.version as c_int);
            let lowest = Self::lowest(version)?;
            let Ok(wanted) = u32::try_from(lowest) else { return Ok(NONE) };
            below = u64::from(wanted) + 1;
            let own = own.filter(|whole| whole.head.version == wanted).or_else(|| self.newest(below));
            let own = own.filter(|whole| whole.head.version == wanted);
            if Self::lowest(c_int::from(own.is_some()))? == 0 {
                below = wanted.into();
                continue;
            }
            // SAFETY: as required of the caller.
            let loaded = own.map(|whole| (unsafe { whole.load(regions) }, whole.source));
            if let Some((Err(reason), source)) = &loaded {
                say(&format!("ringwatch: the checkpoint {source} {reason}"));
            }
            let is_right = matches!(loaded, Some((Ok(()), _)));
            if Self::lowest(c_int::from(is_right))? == 0 {
                return Err(ERR_ARG);
            }
            self.last = Some(wanted);
            return Ok(lowest);
        }
    }

    /// Saves the regions as a version. Older ones of this rank go, but for those that all ranks have of the last two.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` if it is not higher than all before; `MPI_ERR_NO_SPACE` or `MPI_ERR_IO` if it cannot be written.
    ///
    /// # Safety
    /// The regions are there.
    pub unsafe fn save(&mut self, regions: &[Region], version: c_int) -> Result<(), c_int> {
        let version = u32::try_from(version).map_err(|_| ERR_ARG)?;
        if self.last.is_some_and(|last| version <= last) {
            return Err(ERR_ARG);
        }
        let head = Head {
            job: 0,
            rank: self.rank,
            ranks: self.ranks,
            version,
            layer: 0,
            regions: regions.iter().map(|region| (region.id, region.bytes as u64)).collect(),
        };
        // SAFETY: as required of the caller.
        let memory = regions.iter().map(|region| unsafe { region.as_slice() });
        if let Err(error) = self.folder.write(&head, &[], memory) {
            if !std::mem::replace(&mut self.has_complained, true) {
                let (rank, folder) = (self.rank, self.folder.path().display());
                say(&format!(
                    "ringwatch: version {version} of rank {rank} is not saved in {folder} ({error}): the one before stays its last checkpoint"
                ));
            }
            let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
            return Err(if is_full { ERR_NO_SPACE } else { ERR_IO });
        }
        self.last = Some(version);
        if let Some(oldest) = self.folder.oldest_needed(self.ranks) {
            self.folder.remove_below(oldest);
        }
        Ok(())
    }

    /// Removes the files of this rank when all ranks have come here, unless they are kept.
    ///
    /// # Errors
    /// That of MPI.
    pub fn end(&self, keeps: bool) -> Result<(), c_int> {
        if Self::lowest(c_int::from(keeps)).map_err(|code| if code < 0 { ERR_INTERN } else { code })? == 0 && !keeps {
            self.folder.remove_all();
        }
        Ok(())
    }
}

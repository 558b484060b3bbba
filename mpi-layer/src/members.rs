//! The names of the members of a communicator.
//!
//! Structs are those of group.h and proc.h of Open MPI 5.0 on x86-64, looked at once through `/proc/self/mem`, where a wrong
//! address is an error and no crash.

use std::ffi::c_int;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use crate::internals::{GROUPS, Internals};
use crate::objects::Object;
use crate::openmpi::ProcessName;

/// Of `ompi_group_t`: how many are in it, the rank of this process, its processes, and the bit of a list of these.
const COUNT: usize = 0x10;
const OWN_RANK: usize = 0x14;
const PROCESSES: usize = 0x20;
const FLAGS: usize = 0x28;
const DENSE: u32 = 4;
/// Of `ompi_proc_t`.
pub const NAME: usize = 0x28;

/// The members of each group of a communicator. `None` if this process is none of them, or not all belong to its mpirun.
///
/// # Safety
/// A communicator that lives, in an Open MPI that fits.
pub unsafe fn of(comm: Object) -> Option<Vec<Vec<ProcessName>>> {
    static FITS: OnceLock<bool> = OnceLock::new();
    Internals::fitting().filter(|mpi| *FITS.get_or_init(|| fits(mpi).is_some()))?;
    // SAFETY: as required of the caller; the places were looked at.
    unsafe {
        let [own, other] = comm.byte_add(GROUPS).cast::<[Object; 2]>().read();
        let rank = usize::try_from(own.byte_add(OWN_RANK).cast::<c_int>().read()).ok()?;
        let mut sides = vec![names(own)?];
        if other != own {
            sides.push(names(other)?);
        }
        let name = *sides[0].get(rank)?;
        sides.iter().flatten().all(|other| other.has_same_mpirun(name)).then_some(sides)
    }
}

/// # Safety
/// A group that lives, in an Open MPI whose groups were looked at.
unsafe fn names(group: Object) -> Option<Vec<ProcessName>> {
    // SAFETY: as required of the caller.
    unsafe {
        if group.byte_add(FLAGS).cast::<u32>().read() & DENSE == 0 {
            return None;
        }
        let count = usize::try_from(group.byte_add(COUNT).cast::<c_int>().read()).ok()?;
        let list = group.byte_add(PROCESSES).cast::<*const usize>().read();
        let name = |index| match list.add(index).read() {
            // Open MPI has not met it yet (ompi_proc_sentinel_to_name).
            word if word & 1 == 1 => {
                ProcessName::new((word >> 16 << 16 | word >> 1 & 0x7fff) as u32, (word >> 32) as u32)
            }
            process => (process as Object).byte_add(NAME).cast::<ProcessName>().read(),
        };
        Some((0..count).map(name).collect())
    }
}

/// Whether the group of `MPI_COMM_WORLD` is where it is looked for, and this process in it.
fn fits(mpi: &Internals) -> Option<()> {
    let memory = File::open("/proc/self/mem").ok()?;
    let word = |address: usize| {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, address as u64).ok().map(|()| usize::from_ne_bytes(bytes))
    };
    let world = mpi.world();
    let (size, rank) = (mpi.size_of(world) as usize, mpi.rank_in(world) as usize);
    let group = word(world as usize + GROUPS)?;
    let is_group = word(group + COUNT)? == size | rank << 32 && word(group + FLAGS)? as u32 & DENSE != 0;
    let own = word(word(group + PROCESSES)? + 8 * rank)?;
    (is_group && own & 1 == 0 && word(own + NAME)? >> 32 == rank).then_some(())
}

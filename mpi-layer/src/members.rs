//! The members of a communicator.
//!
//! Structs are those of group.h and proc.h of Open MPI 5.0 on x86-64, looked at once through `/proc/self/mem`, where a wrong
//! address is an error and no crash.

use std::ffi::c_int;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::endpoints;
use crate::internals::{GROUPS, Internals};
use crate::objects::{Classes, Object};
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
/// A communicator that lives.
pub unsafe fn of(comm: Object) -> Option<Vec<Vec<ProcessName>>> {
    // SAFETY: as required of the caller; what is a list was looked at.
    unsafe {
        let [own, other] = comm.byte_add(GROUPS).cast::<[Object; 2]>().read();
        let mut sides = vec![names(own)?];
        if other != own {
            sides.push(names(other)?);
        }
        let rank = usize::try_from(own.byte_add(OWN_RANK).cast::<c_int>().read()).ok()?;
        let myself = *sides[0].get(rank)?;
        sides.iter().flatten().all(|name| name.has_same_mpirun(myself)).then_some(sides)
    }
}

/// The names of the members of a group. `None` if it has another form, or is not where it is looked for.
///
/// # Safety
/// A group that lives.
pub unsafe fn names(group: Object) -> Option<Vec<ProcessName>> {
    // SAFETY: as required of the caller.
    unsafe { Some(list(group)?.iter().map(|word| name(word.load(Ordering::Acquire))).collect()) }
}

/// Whether the own of these groups comes first for the members of both; the only one does.
pub fn is_in_first(sides: &[Vec<ProcessName>]) -> bool {
    let first = |side: &Vec<ProcessName>| side.first().map(|name| name.bytes());
    sides.get(1).is_none_or(|other| first(&sides[0]) < first(other))
}

/// The processes of the members of the own group, by their ranks; 0 for one that Open MPI does not know. It has met the others
/// then, as it would have with a message: its agreements do not believe that somebody is dead whom it has not met.
///
/// # Safety
/// As of [`of`].
pub unsafe fn processes(comm: Object) -> Option<Vec<usize>> {
    // SAFETY: as required of the caller.
    let words = unsafe { list(comm.byte_add(GROUPS).cast::<Object>().read())? };
    for word in words {
        let unmet = word.load(Ordering::Acquire);
        // SAFETY: of this list.
        let process = if is_unmet(unmet) { endpoints::process_named(unsafe { name(unmet) }) } else { 0 };
        if process != 0 && word.compare_exchange(unmet, process, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // SAFETY: Open MPI keeps the processes that it has met; the list has one more reference (`ompi_group_dense_lookup`).
            unsafe { Classes::hold(process as Object) };
        }
    }
    let met = |word: &AtomicUsize| Some(word.load(Ordering::Acquire)).filter(|word| !is_unmet(*word));
    Some(words.iter().map(|word| met(word).unwrap_or(0)).collect())
}

/// The processes of a group, some of which are [unmet](is_unmet). `None` if it has another form, or is not where it is looked
/// for.
///
/// # Safety
/// A group that lives as long as the list is used.
pub unsafe fn list<'a>(group: Object) -> Option<&'a [AtomicUsize]> {
    static FITS: OnceLock<bool> = OnceLock::new();
    Internals::get().filter(|mpi| *FITS.get_or_init(|| fits(mpi).is_some()))?;
    // SAFETY: as required of the caller; the places were looked at.
    unsafe {
        let is_list = group.byte_add(FLAGS).cast::<u32>().read() & DENSE != 0;
        let count = usize::try_from(group.byte_add(COUNT).cast::<c_int>().read()).ok()?;
        let words = group.byte_add(PROCESSES).cast::<*const AtomicUsize>().read();
        (is_list && count > 0).then(|| std::slice::from_raw_parts(words, count))
    }
}

/// Whether Open MPI has not met a process yet, and has its name in place of its address.
fn is_unmet(word: usize) -> bool {
    word & 1 == 1
}

/// # Safety
/// Of a [`list`].
unsafe fn name(word: usize) -> ProcessName {
    if is_unmet(word) {
        // `ompi_proc_sentinel_to_name`
        let job = (word >> 16 << 16) | (word >> 1 & 0x7fff);
        return ProcessName::new(job as u32, (word >> 32) as u32);
    }
    // SAFETY: as required of the caller.
    unsafe { (word as Object).byte_add(NAME).cast::<ProcessName>().read() }
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

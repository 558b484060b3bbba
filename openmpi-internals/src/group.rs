//! The members of a communicator.
//!
//! Before the first use a group is [compared](crate::v5_0::probe) with what it is held for.

use std::ffi::{CString, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::classes::Classes;
use crate::communicator::Internals;
use crate::loaded::{Library, OpenMpi};
use crate::object::Object;
use crate::proc;
use crate::process_name::ProcessName;
use crate::v5_0::functions::OMPI_GROUP_ALLOCATE_PLIST_W_PROCS;
use crate::v5_0::layout::communicator::C_LOCAL_GROUP;
use crate::v5_0::layout::group::{GRP_FLAGS, GRP_MY_RANK, GRP_PROC_COUNT, GRP_PROC_POINTERS, OMPI_GROUP_DENSE};
use crate::v5_0::layout::proc::PROC_NAME;
use crate::v5_0::probe::{self, Memory};

/// The members of each group of a communicator. `None` if this process is none of them, or not all belong to its
/// mpirun.
///
/// # Safety
/// A communicator that lives.
pub unsafe fn of(comm: Object) -> Option<Vec<Vec<ProcessName>>> {
    // SAFETY: as required of the caller; what is a list was looked at.
    unsafe {
        let [own, other] = comm.byte_add(C_LOCAL_GROUP).cast::<[Object; 2]>().read();
        let mut sides = vec![names(own)?];
        if other != own {
            sides.push(names(other)?);
        }
        let rank = usize::try_from(own.byte_add(GRP_MY_RANK).cast::<c_int>().read()).ok()?;
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

/// The name of a member of a communicator, of the other group if it has two and `remote` is said. `None` where names
/// are not found.
///
/// # Safety
/// A communicator that lives.
pub unsafe fn name_of(comm: Object, rank: c_int, remote: bool) -> Option<ProcessName> {
    // SAFETY: as required of the caller.
    unsafe {
        let [own, other] = comm.byte_add(C_LOCAL_GROUP).cast::<[Object; 2]>().read();
        let word = list(if remote { other } else { own })?.get(usize::try_from(rank).ok()?)?;
        Some(name(word.load(Ordering::Acquire)))
    }
}

/// Whether the own of these groups comes first for the members of both; the only one does.
pub fn is_in_first(sides: &[Vec<ProcessName>]) -> bool {
    let first = |side: &Vec<ProcessName>| side.first().map(|name| name.bytes());
    sides.get(1).is_none_or(|other| first(&sides[0]) < first(other))
}

/// The processes of the members of the own group, by their ranks; 0 for a process that Open MPI does not know. All
/// others then have a process object, as after a first message: Open MPI's agreements do not accept the death of a
/// process without one.
///
/// # Safety
/// As of [`of`].
pub unsafe fn processes(comm: Object) -> Option<Vec<usize>> {
    // SAFETY: as required of the caller.
    let words = unsafe { list(comm.byte_add(C_LOCAL_GROUP).cast::<Object>().read())? };
    for word in words {
        let unmet = word.load(Ordering::Acquire);
        // SAFETY: of this list.
        let process = if is_unmet(unmet) { proc::process_named(unsafe { name(unmet) }) } else { 0 };
        if process != 0 && word.compare_exchange(unmet, process, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // SAFETY: Open MPI keeps the processes that it has met; the list has one more reference
            // (`ompi_group_dense_lookup`).
            unsafe { Classes::hold(process as Object) };
        }
    }
    let met = |word: &AtomicUsize| Some(word.load(Ordering::Acquire)).filter(|word| !is_unmet(*word));
    Some(words.iter().map(|word| met(word).unwrap_or(0)).collect())
}

/// The processes of a group, some of which are [unmet](is_unmet). `None` if it has another form, or is not where it is
/// looked for.
///
/// # Safety
/// A group that lives as long as the list is used.
pub unsafe fn list<'a>(group: Object) -> Option<&'a [AtomicUsize]> {
    static FITS: OnceLock<bool> = OnceLock::new();
    Internals::get().filter(|mpi| *FITS.get_or_init(|| fits(mpi)))?;
    // SAFETY: as required of the caller; the places were looked at.
    unsafe {
        let is_list = group.byte_add(GRP_FLAGS).cast::<u32>().read() & OMPI_GROUP_DENSE != 0;
        let count = usize::try_from(group.byte_add(GRP_PROC_COUNT).cast::<c_int>().read()).ok()?;
        let words = group.byte_add(GRP_PROC_POINTERS).cast::<*const AtomicUsize>().read();
        (is_list && count > 0).then(|| std::slice::from_raw_parts(words, count))
    }
}

/// A group of the first processes of the first job of this mpirun, by their ranks there. Open MPI need not know them.
/// `None` if groups have another form, or nothing is known of that job.
///
/// # Safety
/// `like` is a group that lives.
pub unsafe fn of_first_job(like: Object, members: u32) -> Option<Object> {
    const FIRST_JOB: u32 = 1;
    let nspace = CString::new(std::env::var("PMIX_NAMESPACE").ok()?).ok()?;
    let (mpi, library) = (OpenMpi::find(&nspace)?, Library::loaded()?);
    let make = library.function(OMPI_GROUP_ALLOCATE_PLIST_W_PROCS)?;
    // SAFETY: as required of the caller. The list is of as many words, and Open MPI's, which frees it.
    unsafe {
        list(like)?;
        let words = libc::calloc(members as usize, size_of::<usize>()).cast::<usize>();
        if words.is_null() {
            return None;
        }
        for rank in 0..members {
            words.add(rank as usize).write(unmet(mpi.name_in(FIRST_JOB, rank)));
        }
        Some(make(like, words, members.try_into().ok()?)).filter(|group| !group.is_null())
    }
}

/// `ompi_proc_name_to_sentinel`
fn unmet(name: ProcessName) -> usize {
    let job = name.job as usize;
    (name.rank as usize) << 32 | job >> 16 << 16 | (job & 0x7fff) << 1 | 1
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
    unsafe { (word as Object).byte_add(PROC_NAME).cast::<ProcessName>().read() }
}

fn fits(mpi: &Internals) -> bool {
    let world = mpi.world();
    let (size, rank) = (mpi.size_of(world) as usize, mpi.rank_in(world) as usize);
    Memory::open().is_some_and(|memory| probe::has_groups(&memory, world, size, rank))
}

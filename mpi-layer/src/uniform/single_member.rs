//! Makes deaths interrupt a process that is the only member of a communicator of scope `global`.
//!
//! No call of such a process on its communicator turns MPI's progress loop: Open MPI 5.0.7 returns at once (bcast.c,
//! barrier.c, coll/self), and completes messages to the process itself when they are sent (btl/self). So with the first
//! such communicator this process's libraries call ringwatch's functions ([`symbol_table`]). They process pending work,
//! at the cost of one load if there is none, and continue in Open MPI's functions with the original arguments. A
//! revoked communicator then refuses them.
//!
//! The functions are machine code for the ABI of x86-64: each stores its index in `eax`, and none inspects the
//! arguments.

use std::arch::global_asm;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::transmute;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::failure::{error_report, progress_hook, wakeup};
use crate::in_front::guard;
use crate::properties::communicators;
use crate::uniform::pmpi_without_peers;
use crate::uniform::request_errors::refusal;
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::ERR_REVOKED;
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::symbol_table::{self, Replacement};

/// Maximum number of functions, and distance in bytes between their entry points.
const PLACES: usize = 96;
const DISTANCE: usize = 16;

/// Functions that communicate, or end communication, in a communicator.
const FUNCTIONS: &str = "Allgather Allgatherv Allreduce Alltoall Alltoallv Alltoallw Barrier Bcast Exscan Gather Gatherv \
    Reduce Reduce_scatter Reduce_scatter_block Scan Scatter Scatterv Iallgather Iallgatherv Iallreduce Ialltoall \
    Ialltoallv Ialltoallw Ibarrier Ibcast Iexscan Igather Igatherv Ireduce Ireduce_scatter Ireduce_scatter_block Iscan \
    Iscatter Iscatterv Neighbor_allgather Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw \
    Ineighbor_allgather Ineighbor_allgatherv Ineighbor_alltoall Ineighbor_alltoallv Ineighbor_alltoallw Start Startall \
    Send Bsend Ssend Rsend Isend Ibsend Issend Irsend Recv Irecv Sendrecv Sendrecv_replace Isendrecv \
    Isendrecv_replace Probe Iprobe Mprobe Improbe Mrecv Imrecv Wait Waitall Waitany Waitsome Test Testall Testany \
    Testsome";

/// The function that follows each of ours.
static NEXT: [AtomicPtr<c_void>; PLACES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; PLACES];
const IBCAST: &CStr = c"MPI_Ibcast";
/// The function that follows [`ibcast`].
static NEXT_IBCAST: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

global_asm!(
    ".pushsection .text",
    ".globl ringwatch_first_place",
    ".hidden ringwatch_first_place",
    ".balign {distance}",
    "ringwatch_first_place:",
    ".set ringwatch_place, 0",
    ".rept {places}",
    ".balign {distance}",
    "mov eax, ringwatch_place",
    "jmp 4f",
    ".set ringwatch_place, ringwatch_place + 1",
    ".endr",
    ".balign {distance}",
    "4:",
    ".cfi_startproc",
    "mov r11, qword ptr [rip + {word}]",
    "cmp dword ptr [r11], 0",
    "jne 6f",
    "5:",
    "lea r11, [rip + {next}]",
    "jmp qword ptr [r11 + rax * 8]",
    // The argument registers, and the index.
    "6:",
    "push rax",
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "push r8",
    "push r9",
    ".cfi_adjust_cfa_offset 56",
    "call {catch_up}",
    "pop r9",
    "pop r8",
    "pop rcx",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop rax",
    ".cfi_adjust_cfa_offset -56",
    "jmp 5b",
    ".cfi_endproc",
    ".popsection",
    distance = const DISTANCE,
    places = const PLACES,
    word = sym wakeup::WORD,
    next = sym NEXT,
    catch_up = sym catch_up,
);

unsafe extern "C" {
    /// The entry point of the first function; those of the others follow it.
    fn ringwatch_first_place();
}

unsafe extern "C" fn catch_up() {
    guard((), progress_hook::catch_up);
}

/// Handles a communicator of scope global in which this process is the only member.
pub fn begin() {
    static ARE_CALLED: Once = Once::new();
    ARE_CALLED.call_once(|| Library::loaded().iter().for_each(interpose));
}

fn interpose(library: &Library) {
    // First, since those call Open MPI's own functions. If scope global is the default, this precedes all other
    // features.
    pmpi_without_peers::are_announced();
    let mut replacements = Vec::new();
    for (place, name) in FUNCTIONS.split_whitespace().take(PLACES).enumerate() {
        let Some(names) = names_of(name) else { continue };
        // The symbol table has our functions already if [`pmpi_without_peers`] has announced them.
        let Some(present) = library.present(names[0]).map(|present| present.cast_const()) else { continue };
        let ours = (ringwatch_first_place as *const c_void).wrapping_byte_add(place * DISTANCE);
        NEXT[place].store(present.cast_mut(), Ordering::Release);
        if names[1] == IBCAST {
            NEXT_IBCAST.store(present.cast_mut(), Ordering::Release);
            NEXT[place].store(ibcast as *mut c_void, Ordering::Release);
        }
        replacements.push(Replacement { names, stock: present, ours });
    }
    // SAFETY: each continues in a function of MPI with its original arguments, and is never unloaded.
    unsafe {
        let _ = symbol_table::stand_in_front(&replacements);
    }
}

/// Both names of a function of MPI, with static lifetime.
fn names_of(name: &str) -> Option<[&'static CStr; 2]> {
    let own = |prefix| CString::new(format!("{prefix}{name}")).ok().map(|name| &*Box::leak(name.into_boxed_c_str()));
    Some([own("PMPI_")?, own("MPI_")?])
}

/// Replaces `MPI_Ibcast`: with one member Open MPI returns success without a check.
unsafe extern "C-unwind" fn ibcast(
    buffer: Object,
    count: c_int,
    datatype: Object,
    root: c_int,
    comm: Object,
    request: *mut *mut Request,
) -> c_int {
    type Function = unsafe extern "C-unwind" fn(Object, c_int, Object, c_int, Object, *mut *mut Request) -> c_int;
    let is_refused = || {
        let mpi = Internals::fitting().filter(|_| communicators::lives(comm))?;
        refusal(comm).filter(|class| *class == ERR_REVOKED && !mpi.has_several_members(comm))
    };
    if let Some(class) = is_refused() {
        error_report::raise(comm, class, IBCAST);
        return class;
    }
    // SAFETY: Open MPI's function with its original arguments.
    unsafe {
        transmute::<*mut c_void, Function>(NEXT_IBCAST.load(Ordering::Acquire))(
            buffer, count, datatype, root, comm, request,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;

    use super::*;
    use openmpi_internals::sync::lock;

    static GOT: Mutex<Vec<[usize; 8]>> = Mutex::new(Vec::new());

    type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> usize;

    unsafe extern "C" fn take(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize) -> usize {
        lock(&GOT).push([a, b, c, d, e, f, g, h]);
        42
    }

    #[test]
    fn all_arguments_arrive_whether_there_is_something_to_do_or_not() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        NEXT[7].store(take as *mut c_void, Ordering::Release);
        wakeup::read(Some(&WORD));
        let code = (ringwatch_first_place as *const c_void).wrapping_byte_add(7 * DISTANCE);
        for something in [0, 1] {
            WORD.store(something, Ordering::Release);
            // SAFETY: the code of a function that continues in that one.
            let answer = unsafe { transmute::<*const c_void, Function>(code)(1, 2, 3, 4, 5, 6, 7, 8) };
            assert_eq!(answer, 42);
        }
        assert_eq!(*lock(&GOT), [[1, 2, 3, 4, 5, 6, 7, 8]; 2]);
    }

    #[test]
    fn there_is_a_place_for_each() {
        assert!(FUNCTIONS.split_whitespace().count() <= PLACES);
    }
}

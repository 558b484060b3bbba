//! The defaults that make recovery work on stock Open MPI 5.0, set in fault-tolerant jobs only and never over a value
//! that the user or a parameter file set.
//!
//! `docs/defaults.md` has the measurement behind each.

use std::ffi::{CStr, c_int};

use rdma_heartbeat::defaults::Default;

use crate::openmpi::{self, Parameter};

/// Parameters that are read before the first contact with other processes. Returns what was changed, as a mask.
pub fn before_processes_are_known() -> u32 {
    // Know every process's address from the start: a lazy look-up of a dead one blocks for ever in the runtime.
    let cutoff = change(c"mpi", None, c"add_procs_cutoff", Default::AddProcsCutoff, |parameter| {
        parameter.set_integer(c_int::MAX);
    });
    // The barrier of MPI_Finalize in the runtime waits for the dead; MPI_Finalize of a fault-tolerant job has
    // synchronised the survivors by then.
    let finalize =
        change(c"async", Some(c"mpi"), c"finalize", Default::AsyncFinalize, |parameter| parameter.set_bool(true));
    cutoff | finalize | ignore_broken_pipes()
}

/// Parameters of the collective components, and of messages, before the first is sent; `neighbours`: how many ranks the
/// node has. Returns what was changed, as a mask.
pub fn before_collectives_are_chosen(neighbours: u32) -> u32 {
    without_han() | honest_allgatherv() | early_fast_boxes(neighbours)
}

/// Who dies between the two steps with which it queues a message for a neighbour leaves that one's queue broken for
/// everybody (`sm_fifo_write`). A fast box has one writer and one step. There are 32 for each receiver: where more ranks
/// share a node, they go to those who speak most.
fn early_fast_boxes(neighbours: u32) -> u32 {
    const BOXES: u32 = 32;
    if neighbours > BOXES + 1 {
        return 0;
    }
    change(c"btl", Some(c"sm"), c"fbox_threshold", Default::EarlyFastBoxes, |parameter| parameter.set_integer(1))
}

fn without_han() -> u32 {
    // coll/han drops errors of its inner collectives and so returns wrong data after a failure.
    let asked_for = Parameter::find(c"ompi", c"coll", None, None).map(|list| list.text()).unwrap_or_default();
    if !asked_for.starts_with('^') && asked_for.split(',').any(|name| name == "han") {
        return 0;
    }
    change(c"coll", Some(c"han"), c"priority", Default::NoHan, |parameter| parameter.set_integer(-1))
}

/// coll/tuned has an algorithm for few or short data that drops the error of its broadcast. Its rules have to be dynamic
/// for a choice of algorithm to count; whatever else they leave open is then decided as before.
fn honest_allgatherv() -> u32 {
    const BRUCK: c_int = 2;
    let tuned = |name| Parameter::find(c"ompi", c"coll", Some(c"tuned"), Some(name)).filter(Parameter::is_default);
    match (tuned(c"use_dynamic_rules"), tuned(c"allgatherv_algorithm")) {
        (Some(rules), Some(algorithm)) => {
            rules.set_bool(true);
            algorithm.set_integer(BRUCK);
            Default::HonestAllgatherv as u32
        }
        _ => 0,
    }
}

/// Parameters of I/O, whose components are known from the first file on. Returns what was changed.
pub fn before_files_are_opened() -> u32 {
    let without = |framework, component, what| {
        change(framework, Some(component), c"priority", what, |parameter| parameter.set_integer(0))
    };
    let mut changed = 0;
    if openmpi::register_framework(c"ompi_fcoll_base_framework") {
        // All but fcoll/individual use what they could not gather from the dead.
        changed |= without(c"fcoll", c"vulcan", Default::NoVulcan)
            | without(c"fcoll", c"dynamic", Default::NoDynamic)
            | without(c"fcoll", c"dynamic_gen2", Default::NoDynamicGen2);
    }
    if openmpi::register_framework(c"ompi_sharedfp_base_framework") {
        // Its semaphore stays taken when its holder dies, and whoever waits for it is out of reach (`sem_wait`). The kernel
        // gives back the lock on a file that sharedfp/lockedfile takes.
        changed |= without(c"sharedfp", c"sm", Default::NoSharedMemoryPointers);
    }
    changed
}

fn change(framework: &CStr, component: Option<&CStr>, name: &CStr, what: Default, set: impl FnOnce(&Parameter)) -> u32 {
    match Parameter::find(c"ompi", framework, component, Some(name)) {
        Some(parameter) if parameter.is_default() => {
            set(&parameter);
            what as u32
        }
        _ => 0,
    }
}

/// A write to the socket of a dead peer must be an error, not the end of the survivor: Open MPI's TCP transport writes
/// without asking for that. A handler that the program has set stays.
fn ignore_broken_pipes() -> u32 {
    // SAFETY: reads, and if nobody has changed it replaces, the disposition of one signal, with zeroed structs that
    // are valid; MPI_Init is not called concurrently with other changes of it.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        let known = libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut present) == 0;
        if !known || present.sa_sigaction != libc::SIG_DFL {
            return 0;
        }
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    Default::IgnoreBrokenPipes as u32
}

//! Sets the defaults that make recovery work on stock Open MPI 5.0, in fault-tolerant jobs only, and never over a value
//! that the user or a parameter file has set.
//!
//! `docs/defaults.md` has the measurement behind each.

use std::ffi::{CStr, c_int};

use node_abi::defaults::Default;

use openmpi_internals::loaded::{self, Parameter};
use openmpi_internals::variables::{OMPI_COLL_BASE_FRAMEWORK, OMPI_FCOLL_BASE_FRAMEWORK, OMPI_SHAREDFP_BASE_FRAMEWORK};

/// Whether a parameter excludes coll/ringwatch. Without it this rank would change some defaults and not others.
pub fn exclude_collectives() -> bool {
    if !loaded::register_framework(OMPI_COLL_BASE_FRAMEWORK) {
        return false;
    }
    let list = Parameter::find(c"ompi", c"coll", None, None).map(|list| list.text()).unwrap_or_default();
    list.strip_prefix('^').is_some_and(|excluded| excluded.split(',').any(|name| name == "ringwatch"))
}

/// Sets parameters that Open MPI reads before it contacts other processes. Returns a mask of the changes.
pub fn before_processes_are_known() -> u32 {
    // Has an entry for each process from the start: Open MPI holds one without an entry alive. Addresses are looked up
    // later (`messages::late_addresses`).
    let cutoff = change(c"mpi", None, c"add_procs_cutoff", Default::AddProcsCutoff, |parameter| {
        parameter.set_integer(c_int::MAX);
    });
    // The runtime's barrier in MPI_Finalize waits for dead processes; MPI_Finalize of a fault-tolerant job has
    // synchronised the survivors by then.
    let finalize =
        change(c"async", Some(c"mpi"), c"finalize", Default::AsyncFinalize, |parameter| parameter.set_bool(true));
    cutoff | finalize | ignore_broken_pipes()
}

/// Sets parameters of collective components and of messages, before the first message; `neighbours` is the number of
/// ranks on the node. Returns a mask of the changes.
pub fn before_collectives_are_chosen(neighbours: u32) -> u32 {
    without_han() | honest_allgatherv() | early_fast_boxes(neighbours)
}

/// Uses fast boxes from the first message on. A process that dies between the two steps of queueing a message for a
/// neighbour breaks that neighbour's queue for all senders (`sm_fifo_write`). A fast box has one writer and one step.
/// Each receiver has 32: if more ranks share a node, the busiest senders get them.
fn early_fast_boxes(neighbours: u32) -> u32 {
    const BOXES: u32 = 32;
    if neighbours > BOXES + 1 {
        return 0;
    }
    change(c"btl", Some(c"sm"), c"fbox_threshold", Default::EarlyFastBoxes, |parameter| parameter.set_integer(1))
}

fn without_han() -> u32 {
    // coll/han ignores errors of its inner collectives, and so returns wrong data after a failure.
    let asked_for = Parameter::find(c"ompi", c"coll", None, None).map(|list| list.text()).unwrap_or_default();
    if !asked_for.starts_with('^') && asked_for.split(',').any(|name| name == "han") {
        return 0;
    }
    change(c"coll", Some(c"han"), c"priority", Default::NoHan, |parameter| parameter.set_integer(-1))
}

/// Avoids an algorithm of coll/tuned for few or short data that ignores its broadcast's error. The choice of an
/// algorithm requires dynamic rules; their other decisions stay as before.
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

/// Sets parameters of I/O, whose components are loaded with the first file. Returns a mask of the changes.
pub fn before_files_are_opened() -> u32 {
    let without = |framework, component, what| {
        change(framework, Some(component), c"priority", what, |parameter| parameter.set_integer(0))
    };
    let mut changed = 0;
    if loaded::register_framework(OMPI_FCOLL_BASE_FRAMEWORK) {
        // All except fcoll/individual use data that they could not gather from dead processes.
        changed |= without(c"fcoll", c"vulcan", Default::NoVulcan)
            | without(c"fcoll", c"dynamic", Default::NoDynamic)
            | without(c"fcoll", c"dynamic_gen2", Default::NoDynamicGen2);
    }
    if loaded::register_framework(OMPI_SHAREDFP_BASE_FRAMEWORK) {
        // Its semaphore stays taken when its holder dies, and a wait for it cannot be interrupted (`sem_wait`). The
        // kernel releases the file lock of sharedfp/lockedfile.
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

/// Makes a write to a dead peer's socket an error instead of the survivor's end: Open MPI's TCP transport writes
/// without that option. A handler that the program has set stays.
fn ignore_broken_pipes() -> u32 {
    // SAFETY: reads, and if it is the default replaces, the disposition of one signal, with zeroed structs that are
    // valid; MPI_Init does not run concurrently with other changes of it.
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

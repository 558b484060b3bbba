//! Defers and repeats reports of deaths that arrive during `MPI_Init`.
//!
//! Open MPI's first communicator exists for a time before the PML knows it (between `ompi_comm_init_mpi3` and
//! `add_comm` in ompi_mpi_init.c). A report in that time revokes its messages through a null pointer
//! (`mca_pml_ob1_revoke_comm`). ringwatch keeps the report until the PML knows the communicator.
//!
//! If a death is reported before any communicator exists, Open MPI only marks the process as dead and ignores later
//! reports of it. Operations in `MPI_COMM_WORLD` would wait for the dead process and for members that do not wait.
//! ringwatch reports such deaths again when `MPI_Init` ends.

use std::ffi::c_int;
use std::sync::Mutex;

use crate::in_front::guard;
use openmpi_internals::abi::Interrupt;
use openmpi_internals::communicator::Internals;
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::pml::PML_REVOKE_COMM;
use openmpi_internals::loaded::{Library, OpenMpi};
use openmpi_internals::object::Object;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::MCA_PML;
use openmpi_internals::{group, proc};

/// Open MPI's own function while ours is interposed.
static STOCK: Mutex<Option<Interrupt>> = Mutex::new(None);
/// Deferred interruptions: communicator, and whether only its collectives. The first communicators live as long as MPI.
static KEPT: Mutex<Vec<(usize, bool)>> = Mutex::new(Vec::new());

/// Interposes on the PML's interruption of a communicator. The PML is chosen, and no communicator exists.
pub fn install(_: &Installer) -> Result<(), Missing> {
    let place = place().ok_or(MCA_PML.missing())?;
    // SAFETY: in `MPI_Init`, whose thread alone uses the table.
    unsafe {
        let stock = (*place).ok_or(Missing::Layout)?;
        *lock(&STOCK) = Some(stock);
        place.write(Some(interrupted));
    }
    Ok(())
}

/// Restores Open MPI's function and performs deferred interruptions, when the first communicator gets its collectives:
/// the PML knows it by then. Further calls do nothing.
pub fn over() {
    let Some(stock) = lock(&STOCK).take() else { return };
    let Some(place) = place() else { return };
    // SAFETY: still in `MPI_Init`, in the thread that drives progress; only that thread reports failures.
    unsafe { place.write(Some(stock)) };
    for (comm, collectives_only) in lock(&KEPT).drain(..) {
        // SAFETY: the call that Open MPI made.
        unsafe { stock(comm as Object, collectives_only) };
    }
}

/// Reports known deaths again at the end of `MPI_Init`.
pub fn tell_again(mpi: &OpenMpi) {
    let Some(inside) = Internals::fitting() else { return };
    // SAFETY: the world communicator is live.
    let Some(all) = (unsafe { group::processes(inside.world()) }) else { return };
    let dead = || (0..).zip(&all).filter(|(_, process)| proc::is_dead(**process));
    if dead().next().is_none() {
        return;
    }
    let told: Vec<c_int> = inside.dead_members(inside.world());
    for (_, process) in dead().filter(|(rank, _)| !told.contains(rank)) {
        proc::forget_death(*process);
        mpi.report_process(*process as Object);
    }
}

fn place() -> Option<*mut Option<Interrupt>> {
    let module = Library::loaded()?.variable(MCA_PML)?;
    // SAFETY: inside the function table of pml.h, which is the same in all releases of Open MPI 5.0.
    Some(unsafe { module.cast::<Object>().add(PML_REVOKE_COMM) }.cast())
}

unsafe extern "C" fn interrupted(comm: Object, collectives_only: bool) -> c_int {
    guard((), || lock(&KEPT).push((comm as usize, collectives_only)));
    0
}

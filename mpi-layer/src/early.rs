//! News of a death that comes in `MPI_Init`, while Open MPI's first communicator is there and nobody has told its messages
//! of it: they would be revoked through a null pointer (`mca_pml_ob1_revoke_comm`, between `ompi_comm_init_mpi3` and
//! `add_comm` in ompi_mpi_init.c). The news is kept until they have been told.
//!
//! And of a death before it has any communicator Open MPI notes nothing but that the process is dead, and drops what is said of
//! it later: operations in `MPI_COMM_WORLD` would wait for it, and for those who do not. So it is told once more.

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::Mutex;

use crate::internals::Internals;
use crate::line::lock;
use crate::numbers::{INTERRUPT, Interrupt};
use crate::objects::Object;
use crate::openmpi::{Library, OpenMpi};
use crate::{endpoints, members};

/// Open MPI's own function, as long as another stands in its place.
static STOCK: Mutex<Option<Interrupt>> = Mutex::new(None);
/// What Open MPI was to interrupt, and whether only its collectives; the first communicators live as long as MPI.
static KEPT: Mutex<Vec<(usize, bool)>> = Mutex::new(Vec::new());

/// Stands where Open MPI interrupts messages. What carries them has been chosen, and no communicator is there.
pub fn watch() {
    let Some(place) = place() else { return };
    // SAFETY: in `MPI_Init`, whose thread alone knows of the table.
    unsafe {
        let Some(stock) = *place else { return };
        if std::ptr::fn_addr_eq(stock, interrupted as Interrupt) {
            return;
        }
        *lock(&STOCK) = Some(stock);
        place.write(Some(interrupted));
    }
}

/// The first communicator is being given its collectives: messages know it. Open MPI's own function stands in its place
/// again. Further calls do nothing.
pub fn over() {
    let Some(stock) = lock(&STOCK).take() else { return };
    let Some(place) = place() else { return };
    // SAFETY: still in `MPI_Init`, in the thread that drives progress, from which alone failures are told.
    unsafe { place.write(Some(stock)) };
    for (comm, collectives_only) in lock(&KEPT).drain(..) {
        // SAFETY: what Open MPI would have done.
        unsafe { stock(comm as Object, collectives_only) };
    }
}

/// `MPI_Init` has ended.
pub fn tell_again(mpi: &OpenMpi) {
    let Some(inside) = Internals::fitting() else { return };
    // SAFETY: the world lives.
    let Some(all) = (unsafe { members::processes(inside.world()) }) else { return };
    let dead = || (0..).zip(&all).filter(|(_, process)| endpoints::is_dead(**process));
    if dead().next().is_none() {
        return;
    }
    let told: Vec<c_int> = inside.dead_members(inside.world());
    for (_, process) in dead().filter(|(rank, _)| !told.contains(rank)) {
        endpoints::forget_death(*process);
        mpi.report_process(*process as Object);
    }
}

fn place() -> Option<*mut Option<Interrupt>> {
    let module = Library::loaded()?.symbol(c"mca_pml")?;
    // SAFETY: inside the table of functions of pml.h, which is the same in all releases of Open MPI 5.0.
    Some(unsafe { module.byte_add(INTERRUPT) }.cast())
}

unsafe extern "C" fn interrupted(comm: Object, collectives_only: bool) -> c_int {
    let _ = catch_unwind(|| lock(&KEPT).push((comm as usize, collectives_only)));
    0
}

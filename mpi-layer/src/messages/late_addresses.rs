//! Has Open MPI look up the address of a process on another node at the first message to it, and not in `MPI_Init`.
//!
//! ringwatch has Open MPI keep an entry for every process of the job (`mpi_add_procs_cutoff`): it holds a process dead
//! only if it has an entry for it. With the entries Open MPI also looks up all addresses in `MPI_Init`, each in an
//! exchange with the runtime, so that a launch took a time that grew with the square of the ranks. So pml/ob1 gets the
//! processes of this node alone; it takes in each other one when it first needs it, as it does without entries. The
//! runtime daemon of the node has the addresses of all ranks from then on, also of dead ones.

use std::ffi::c_int;
use std::slice;
use std::sync::OnceLock;

use crate::in_front::in_front;
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::pml::{MCA_PML_BASE_FLAG_REQUIRE_WORLD, PML_FLAGS};
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::proc;
use openmpi_internals::variables::{MCA_PML, MCA_PML_OB1};

/// `mca_pml_base_module_add_procs_fn_t`
type AddProcesses = unsafe extern "C" fn(*const Object, usize) -> c_int;

static STOCK: OnceLock<AddProcesses> = OnceLock::new();

/// Interposes on the first addition of processes. In `MPI_Init`, when the PML is known and no process is added yet.
pub fn install(at: &Installer) -> Result<(), Missing> {
    if !proc::are_known() {
        return Err(Missing::Layout);
    }
    let (pml, ob1) = (at.variable(MCA_PML)?, at.variable(MCA_PML_OB1)?.cast::<AddProcesses>());
    // SAFETY: the types are those of pml.h, and ours has the same; the thread in MPI_Init is alone in MPI.
    unsafe {
        let (stock, flags) = (pml.cast::<AddProcesses>().read(), pml.byte_add(PML_FLAGS).cast::<c_int>().read());
        // Other PMLs, and some transports, need all processes at once.
        if stock as usize == ob1.read() as usize && flags & MCA_PML_BASE_FLAG_REQUIRE_WORLD == 0 {
            let _ = STOCK.set(stock);
            pml.cast::<AddProcesses>().write(add_near_processes);
        }
    }
    Ok(())
}

in_front! { stock = STOCK.get(), or 0;
    /// The first call adds the processes of the job.
    unsafe extern "C" fn add_near_processes(processes: *const Object, count: usize) -> c_int {
        // SAFETY: the table of the installation, and a list of processes; Open MPI's own function.
        unsafe {
            if let Some(pml) = Library::loaded().and_then(|library| library.variable(MCA_PML)) {
                pml.cast::<AddProcesses>().write(*stock);
            }
            let all = slice::from_raw_parts(processes, count);
            let near: Vec<Object> = all.iter().copied().filter(|process| proc::is_on_this_node(*process)).collect();
            stock(near.as_ptr(), near.len())
        }
    }
}

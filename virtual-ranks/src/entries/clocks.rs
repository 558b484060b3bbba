//! `MPI_Wtime` and `MPI_Wtick`, which a program may decide by: a replacement has to decide as the process before it did.
//! The resolution follows from the frequency of a processor, as Linux has measured it, and is another one in each process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use mpi_entry::entries::{self, Handler};
use openmpi_internals::sync::lock;

use crate::handlers::handlers;
use crate::layer;

pub(super) const HANDLERS: &[Handler] = handlers! { "Wtime" => wtime, "Wtick" => wtick };

type Clock = unsafe extern "C-unwind" fn() -> f64;

unsafe extern "C-unwind" fn wtime() -> f64 {
    static STOCK: OnceLock<Option<Clock>> = OnceLock::new();
    shown("Wtime", &STOCK)
}

unsafe extern "C-unwind" fn wtick() -> f64 {
    static STOCK: OnceLock<Option<Clock>> = OnceLock::new();
    shown("Wtick", &STOCK)
}

/// What the protocol says for what Open MPI's function returns.
fn shown(name: &str, stock: &OnceLock<Option<Clock>>) -> f64 {
    let stock = stock.get_or_init(|| {
        // SAFETY: the type is that of mpi.h.
        entries::stock(name).map(|function| unsafe { std::mem::transmute::<*const _, Clock>(function) })
    });
    // SAFETY: Open MPI's function.
    let own = stock.map_or(0.0, |clock| unsafe { clock() });
    let decided = |layer: &layer::Layer| lock(&layer.protocol).clock(own.to_bits());
    let decided = catch_unwind(AssertUnwindSafe(|| layer::present().map(decided))).ok().flatten();
    decided.map_or(own, f64::from_bits)
}

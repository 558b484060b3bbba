//! `MPI_Wtime`, which a program may decide by: a replacement has to decide as the process before it did.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use mpi_entry::entries::{self, Handler};
use openmpi_internals::sync::lock;

use crate::handlers::handlers;
use crate::layer;

pub(super) const HANDLERS: &[Handler] = handlers! { "Wtime" => wtime };

type Wtime = unsafe extern "C-unwind" fn() -> f64;

unsafe extern "C-unwind" fn wtime() -> f64 {
    static STOCK: OnceLock<Option<Wtime>> = OnceLock::new();
    let stock = STOCK.get_or_init(|| {
        // SAFETY: the type is that of mpi.h.
        entries::stock("Wtime").map(|function| unsafe { std::mem::transmute::<*const _, Wtime>(function) })
    });
    // SAFETY: Open MPI's function.
    let now = stock.map_or(0.0, |wtime| unsafe { wtime() });
    let shown = |layer: &layer::Layer| lock(&layer.protocol).clock(now.to_bits());
    let shown = catch_unwind(AssertUnwindSafe(|| layer::present().map(shown))).ok().flatten();
    shown.map_or(now, f64::from_bits)
}

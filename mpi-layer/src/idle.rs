//! Members that have nothing to do in a collective operation of two groups, and hear of its outcome all the same.
//!
//! From seven functions with a root Open MPI 5.0.7 returns, with success, at a member that gives `MPI_PROC_NULL` and a count of 0,
//! before it calls anything of a component: those in bcast.c, gather.c, reduce.c, scatter.c, ibcast.c, ireduce.c and reduce_init.c.
//! Where the communicator is uniform such a member is asked for its part in the agreement, and so is everybody else for whom there is nothing to
//! do: functions of ours call Open MPI's, which looks at the arguments, and then take part.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bindings::{self, Replacement};
use crate::internals::{BCAST, GATHER, NONBLOCKING, PERSISTENT, REDUCE, SCATTER};
use crate::objects::Object;
use crate::openmpi::Library;
use crate::requests::Request;
use crate::statement::ERR_INTERN;
use crate::{errors, uniform};

/// `MPI_ROOT`
const ROOT: c_int = -4;

/// Open MPI's functions, and what keeps the types and operations that a request needs.
struct Stock {
    functions: [Object; 7],
    retain_types: unsafe extern "C" fn(*mut Request, Object, Object) -> c_int,
    retain_operation: unsafe extern "C" fn(*mut Request, Object, Object) -> c_int,
}

// SAFETY: addresses of what lives as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

static STOCK: OnceLock<Stock> = OnceLock::new();
/// Programs call ours.
static ARE_CALLED: AtomicBool = AtomicBool::new(false);

/// Has programs call ours. At the end of `MPI_Init`.
pub fn watch() {
    if let Some(library) = Library::loaded().filter(|_| STOCK.get().is_none()) {
        let _ = stand(&library);
    }
}

fn stand(library: &Library) -> Option<()> {
    let functions = [
        ([c"MPI_Bcast", c"PMPI_Bcast"], bcast as *const c_void),
        ([c"MPI_Gather", c"PMPI_Gather"], gather as *const c_void),
        ([c"MPI_Reduce", c"PMPI_Reduce"], reduce as *const c_void),
        ([c"MPI_Scatter", c"PMPI_Scatter"], scatter as *const c_void),
        ([c"MPI_Ibcast", c"PMPI_Ibcast"], ibcast as *const c_void),
        ([c"MPI_Ireduce", c"PMPI_Ireduce"], ireduce as *const c_void),
        ([c"MPI_Reduce_init", c"PMPI_Reduce_init"], reduce_init as *const c_void),
    ];
    let mut replacements = Vec::new();
    for (names, ours) in functions {
        replacements.push(Replacement { names, stock: library.symbol(names[1])?, ours });
    }
    // SAFETY: the types are those of mpi.h and of coll_base_util.h.
    unsafe {
        let stock = Stock {
            functions: std::array::from_fn(|index| replacements[index].stock.cast_mut()),
            retain_types: library.function(c"ompi_coll_base_retain_datatypes")?,
            retain_operation: library.function(c"ompi_coll_base_retain_op")?,
        };
        STOCK.set(stock).ok()?;
        ARE_CALLED.store(bindings::replace(&replacements), Ordering::Relaxed);
    }
    Some(())
}

/// Whether those who have nothing to do are heard.
pub fn are_heard() -> bool {
    ARE_CALLED.load(Ordering::Relaxed)
}

/// Functions in place of the ones at these places of [`Stock::functions`]; each with whether there is nothing to do.
macro_rules! blocking {
    ($($ours:ident $place:literal $name:literal $slot:ident ($($word:ident: $type:ty),*) if $is_idle:expr;)*) => {$(
        unsafe extern "C-unwind" fn $ours($($word: $type,)* comm: Object) -> c_int {
            type Function = unsafe extern "C-unwind" fn($($type,)* Object) -> c_int;
            let Some(stock) = STOCK.get() else { return ERR_INTERN };
            // SAFETY: Open MPI's function with the arguments that were meant for it.
            let code = unsafe { transmute::<Object, Function>(stock.functions[$place])($($word,)* comm) };
            if code == 0 && $is_idle { take_part(comm, $slot, $name) } else { code }
        }
    )*};
}

blocking! {
    bcast 0 c"MPI_Bcast" BCAST (data: Object, count: c_int, kind: Object, root: c_int) if count == 0;
    gather 1 c"MPI_Gather" GATHER (
        sent: Object, count: c_int, kind: Object, got: Object, room: c_int, as_kind: Object, root: c_int
    ) if is_idle(count, room, root);
    reduce 2 c"MPI_Reduce" REDUCE (
        sent: Object, got: Object, count: c_int, kind: Object, operation: Object, root: c_int
    ) if count == 0;
    scatter 3 c"MPI_Scatter" SCATTER (
        sent: Object, count: c_int, kind: Object, got: Object, room: c_int, as_kind: Object, root: c_int
    ) if is_idle(room, count, root);
}

/// Of the first count one who is not the root has as much, of the second the root.
fn is_idle(of_others: c_int, of_root: c_int, root: c_int) -> bool {
    of_others == 0 && root != ROOT || of_root == 0 && root < 0
}

/// A member that has nothing to do in a blocking operation agrees on it. Returns its code, of which the error handler knows.
fn take_part(comm: Object, slot: usize, name: &'static CStr) -> c_int {
    if uniform::function_between_groups(comm, slot).is_none() {
        return 0;
    }
    let code = uniform::finish(comm, slot, |_| 0);
    if code != 0 {
        errors::raise(comm, code, name);
    }
    code
}

unsafe extern "C-unwind" fn ibcast(
    data: Object,
    count: c_int,
    kind: Object,
    root: c_int,
    comm: Object,
    request: *mut *mut Request,
) -> c_int {
    type Function = unsafe extern "C-unwind" fn(Object, c_int, Object, c_int, Object, *mut *mut Request) -> c_int;
    type OfTable = unsafe extern "C" fn(Object, c_int, Object, c_int, Object, *mut *mut Request, Object) -> c_int;
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: Open MPI's function with the arguments that were meant for it, and the one of that slot with the same.
    unsafe {
        let code = transmute::<Object, Function>(stock.functions[4])(data, count, kind, root, comm, request);
        if code != 0 || count != 0 {
            return code;
        }
        replace_request(comm, NONBLOCKING + BCAST, c"MPI_Ibcast", request, |function, module, own| {
            let code = transmute::<Object, OfTable>(function)(data, count, kind, root, comm, own, module);
            if code == 0 {
                (stock.retain_types)(*own, kind, std::ptr::null_mut());
            }
            code
        })
    }
}

unsafe extern "C-unwind" fn ireduce(
    sent: Object,
    got: Object,
    count: c_int,
    kind: Object,
    operation: Object,
    root: c_int,
    comm: Object,
    request: *mut *mut Request,
) -> c_int {
    #[rustfmt::skip]
    type Function =
        unsafe extern "C-unwind" fn(Object, Object, c_int, Object, Object, c_int, Object, *mut *mut Request) -> c_int;
    #[rustfmt::skip]
    type OfTable =
        unsafe extern "C" fn(Object, Object, c_int, Object, Object, c_int, Object, *mut *mut Request, Object) -> c_int;
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: as above.
    unsafe {
        let function = transmute::<Object, Function>(stock.functions[5]);
        let code = function(sent, got, count, kind, operation, root, comm, request);
        if code != 0 || count != 0 {
            return code;
        }
        replace_request(comm, NONBLOCKING + REDUCE, c"MPI_Ireduce", request, |function, module, own| {
            let function = transmute::<Object, OfTable>(function);
            let code = function(sent, got, count, kind, operation, root, comm, own, module);
            if code == 0 {
                (stock.retain_operation)(*own, operation, kind);
            }
            code
        })
    }
}

unsafe extern "C-unwind" fn reduce_init(
    sent: Object,
    got: Object,
    count: c_int,
    kind: Object,
    operation: Object,
    root: c_int,
    comm: Object,
    info: Object,
    request: *mut *mut Request,
) -> c_int {
    #[rustfmt::skip]
    type Function = unsafe extern "C-unwind" fn(
        Object, Object, c_int, Object, Object, c_int, Object, Object, *mut *mut Request,
    ) -> c_int;
    #[rustfmt::skip]
    type OfTable = unsafe extern "C" fn(
        Object, Object, c_int, Object, Object, c_int, Object, Object, *mut *mut Request, Object,
    ) -> c_int;
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: as above.
    unsafe {
        let function = transmute::<Object, Function>(stock.functions[6]);
        let code = function(sent, got, count, kind, operation, root, comm, info, request);
        if code != 0 || count != 0 {
            return code;
        }
        replace_request(comm, PERSISTENT + REDUCE, c"MPI_Reduce_init", request, |function, module, own| {
            let function = transmute::<Object, OfTable>(function);
            let code = function(sent, got, count, kind, operation, root, comm, info, own, module);
            if code == 0 {
                (stock.retain_operation)(*own, operation, kind);
            }
            code
        })
    }
}

/// A member that has nothing to do has the request without effect that Open MPI gives for that: where the communicator is uniform it gets one of
/// an operation that all have a part in, by the function and the module of the table.
///
/// # Safety
/// A communicator that lives, and the place of that request.
unsafe fn replace_request(
    comm: Object,
    slot: usize,
    name: &'static CStr,
    request: *mut *mut Request,
    begin: impl FnOnce(Object, Object, *mut *mut Request) -> c_int,
) -> c_int {
    let Some((function, module)) = uniform::function_between_groups(comm, slot) else { return 0 };
    let mut own = std::ptr::null_mut();
    let code = begin(function, module, &mut own);
    if code != 0 {
        errors::raise(comm, code, name);
        return code;
    }
    // SAFETY: as required of the caller; nobody has used the request that is there.
    unsafe {
        Request::give_back(*request);
        request.write(own);
    }
    0
}

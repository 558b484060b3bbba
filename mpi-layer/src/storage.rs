//! Files: how they are opened, and the functions that stand before Open MPI's own.
//!
//! What all members do together fails where a member is dead: before it begins, and when it has ended, since Open MPI's
//! components go on after most errors of the messages among them. Where the file is uniform, the members agree on it.

use std::ffi::c_int;
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::construction;
use crate::internals::{BARRIER, Internals};
use crate::objects::Object;
use crate::openmpi::Library;
use crate::owners::{self, Kind, Needs};
use crate::statement::{About, ERR_INTERN};
use crate::uniform;

/// Of `ompi_file_t`: its communicator, and its functions.
const COMMUNICATOR: usize = 0x60;
pub const MODULE: usize = 0x210;

/// Open MPI's choice among its components, which opens the file.
type Select = unsafe extern "C" fn(Object, Object) -> c_int;

/// Opens a file for the members of a communicator.
pub fn open(file: Object, comm: Object, own_open: Object) -> c_int {
    let Some(library) = Library::loaded() else { return ERR_INTERN };
    // SAFETY: the type is that of io/base/base.h.
    let Some(select) = (unsafe { library.function::<Select>(c"mca_io_base_file_select") }) else { return ERR_INTERN };
    let nobody = std::ptr::null_mut();
    // SAFETY: a file that is being opened by a module of this library.
    let is_in_place = unsafe {
        file.byte_add(COMMUNICATOR).cast::<Object>().read() == comm
            && file.byte_add(MODULE).cast::<Object>().read() == own_open
    };
    if !is_in_place {
        // SAFETY: the file, which this library has not changed.
        return unsafe { select(file, nobody) };
    }
    owners::created(Kind::File, file, comm);
    // SAFETY: the place was compared.
    let place = unsafe { &mut *file.byte_add(COMMUNICATOR).cast::<Object>() };
    let make = |copy| {
        *place = copy;
        // SAFETY: the file, with a duplicate of its communicator.
        let code = unsafe { select(file, nobody) };
        *place = comm;
        code
    };
    // What was opened here and not everywhere is closed by Open MPI, since this function fails.
    let (code, parts) = construction::run(comm, make, || ());
    match code {
        0 => owners::completed(file, parts, None),
        _ => owners::forget(file),
    }
    code
}

const CLOSE: usize = 1;

/// A file with a dead member, or an interrupted one, is closed without waiting for the others: Open MPI calls its barrier
/// without asking whether the communicator is revoked.
unsafe extern "C" fn close(file: Object) -> c_int {
    let Some(owner) = owners::of(file) else { return ERR_INTERN };
    let is_hopeless = owner.refusal(Needs::Everybody).is_some();
    if let (true, Some(mpi), Some(part)) = (is_hopeless, Internals::fitting(), owner.main_part()) {
        // SAFETY: the file's own communicator, which is freed as the file is closed.
        unsafe { mpi.table(part)[BARRIER].function = no_barrier as Object };
    }
    let stock = owner.stock_function(CLOSE);
    owners::forget(file);
    // SAFETY: the stock function with the argument that was meant for it.
    unsafe { transmute::<Object, unsafe extern "C" fn(Object) -> c_int>(stock)(file) }
}

unsafe extern "C" fn no_barrier(_comm: Object, _module: Object) -> c_int {
    0
}

/// Who calls a function of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Callers {
    /// This process alone.
    One,
    /// All members, and it may wait for them.
    All,
    /// All members, but none may have to wait for another before it has returned: others may be told only then to call it.
    Begun,
}

fn call(file: Object, slot: usize, callers: Callers, stock: impl FnOnce(Object) -> c_int) -> c_int {
    let call = || {
        let Some(owner) = owners::of(file) else { return ERR_INTERN };
        let refusal = || owner.refusal(if callers == Callers::One { Needs::Nobody } else { Needs::Everybody });
        let whole = || match refusal() {
            Some(class) => class,
            None => {
                let code = stock(owner.stock_function(slot));
                if callers == Callers::All { refusal().unwrap_or(code) } else { code }
            }
        };
        let code = match owner.main_part().filter(|_| callers == Callers::All && owner.is_uniform()) {
            Some(part) => uniform::agree_on(part, About::Members, whole),
            None => whole(),
        };
        owner.own_class(code)
    };
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(ERR_INTERN)
}

/// The functions, each with its slot, who calls it, and its arguments.
macro_rules! functions {
    ($($slot:literal $name:ident $callers:ident ($($word:ident: $type:ty),*);)*) => {
        $(unsafe extern "C" fn $name(file: Object, $($word: $type),*) -> c_int {
            type Stock = unsafe extern "C" fn(Object, $($type),*) -> c_int;
            // SAFETY: the stock function of this slot with the arguments that were meant for it.
            call(file, $slot, Callers::$callers, |stock| unsafe { transmute::<Object, Stock>(stock)(file, $($word),*) })
        })*

        /// The functions in the order of io.h; null where Open MPI's own stays.
        pub fn functions() -> Vec<Object> {
            let mut all = vec![std::ptr::null_mut(); SLOTS];
            all[CLOSE] = close as Object;
            $(all[$slot] = $name as Object;)*
            all
        }
    };
}

const SLOTS: usize = 53;

#[rustfmt::skip]
functions! {
    2 set_size All (size: i64);
    3 preallocate All (size: i64);
    8 set_view All (at: i64, kind: Object, as_kind: Object, form: Object, info: Object);
    10 read_at One (at: i64, data: Object, n: c_int, kind: Object, status: Object);
    11 read_at_all All (at: i64, data: Object, n: c_int, kind: Object, status: Object);
    12 write_at One (at: i64, data: Object, n: c_int, kind: Object, status: Object);
    13 write_at_all All (at: i64, data: Object, n: c_int, kind: Object, status: Object);
    14 iread_at One (at: i64, data: Object, n: c_int, kind: Object, request: Object);
    15 iwrite_at One (at: i64, data: Object, n: c_int, kind: Object, request: Object);
    16 iread_at_all Begun (at: i64, data: Object, n: c_int, kind: Object, request: Object);
    17 iwrite_at_all Begun (at: i64, data: Object, n: c_int, kind: Object, request: Object);
    18 read One (data: Object, n: c_int, kind: Object, status: Object);
    19 read_all All (data: Object, n: c_int, kind: Object, status: Object);
    20 write One (data: Object, n: c_int, kind: Object, status: Object);
    21 write_all All (data: Object, n: c_int, kind: Object, status: Object);
    22 iread One (data: Object, n: c_int, kind: Object, request: Object);
    23 iwrite One (data: Object, n: c_int, kind: Object, request: Object);
    24 iread_all Begun (data: Object, n: c_int, kind: Object, request: Object);
    25 iwrite_all Begun (data: Object, n: c_int, kind: Object, request: Object);
    29 read_shared One (data: Object, n: c_int, kind: Object, status: Object);
    30 write_shared One (data: Object, n: c_int, kind: Object, status: Object);
    31 iread_shared One (data: Object, n: c_int, kind: Object, request: Object);
    32 iwrite_shared One (data: Object, n: c_int, kind: Object, request: Object);
    33 read_ordered All (data: Object, n: c_int, kind: Object, status: Object);
    34 write_ordered All (data: Object, n: c_int, kind: Object, status: Object);
    35 seek_shared All (at: i64, whence: c_int);
    37 read_at_all_begin All (at: i64, data: Object, n: c_int, kind: Object);
    38 read_at_all_end All (data: Object, status: Object);
    39 write_at_all_begin All (at: i64, data: Object, n: c_int, kind: Object);
    40 write_at_all_end All (data: Object, status: Object);
    41 read_all_begin All (data: Object, n: c_int, kind: Object);
    42 read_all_end All (data: Object, status: Object);
    43 write_all_begin All (data: Object, n: c_int, kind: Object);
    44 write_all_end All (data: Object, status: Object);
    45 read_ordered_begin All (data: Object, n: c_int, kind: Object);
    46 read_ordered_end All (data: Object, status: Object);
    47 write_ordered_begin All (data: Object, n: c_int, kind: Object);
    48 write_ordered_end All (data: Object, status: Object);
    50 set_atomicity All (flag: c_int);
    52 sync All ();
}

//! Opens files, and replaces Open MPI's functions on damaged ones.
//!
//! A collective function of a file fails if a member is dead. ringwatch checks that before and after the call, because
//! Open MPI's components ignore most errors of messages between the members. If the file is uniform, the members agree
//! on the result.

use std::ffi::c_int;
use std::mem::transmute;

use crate::agreement::vote::About;
use crate::in_front::guard;
use crate::onesided::owner::{self, Functions, Kind};
use crate::onesided::unwind::Needs;
use crate::onesided::win_and_file;
use crate::uniform::operations;
use openmpi_internals::communicator::{BARRIER, Internals};
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::functions::MCA_IO_BASE_FILE_SELECT;
use openmpi_internals::layout::file::{F_COMM, F_IO_SELECTED_MODULE};
use openmpi_internals::layout::io;
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;

static FUNCTIONS: Functions =
    Functions { kind: Kind::File, place: F_IO_SELECTED_MODULE, is_behind_address: false, all: functions };

/// Opens a file for the members of a communicator.
pub fn open(file: Object, comm: Object, own_open: Object) -> c_int {
    let Some(library) = Library::loaded() else { return ERR_INTERN };
    let Some(select) = library.function(MCA_IO_BASE_FILE_SELECT) else { return ERR_INTERN };
    let nobody = std::ptr::null_mut();
    // SAFETY: a file that a module of this library is opening.
    let is_in_place = unsafe {
        file.byte_add(F_COMM).cast::<Object>().read() == comm
            && file.byte_add(F_IO_SELECTED_MODULE).cast::<Object>().read() == own_open
    };
    if !is_in_place {
        // SAFETY: the file, unchanged by this library.
        return unsafe { select(file, nobody) };
    }
    owner::created(&FUNCTIONS, file, comm);
    // SAFETY: the offset was checked above.
    let place = unsafe { &mut *file.byte_add(F_COMM).cast::<Object>() };
    let make = |copy| {
        *place = copy;
        // SAFETY: the file, with a duplicate of its communicator.
        let code = unsafe { select(file, nobody) };
        *place = comm;
        code
    };
    // Open MPI closes a file that was not opened at all members, because this function fails.
    let (code, parts) = win_and_file::run(comm, make, || ());
    match code {
        0 => owner::completed(file, parts, None),
        _ => owner::forget(file),
    }
    code
}

/// Closes a file. It does not wait for other members if one is dead or the file is interrupted: Open MPI calls its
/// barrier without checking whether the communicator is revoked.
unsafe extern "C" fn close(file: Object) -> c_int {
    let Some(owner) = owner::find(file) else { return ERR_INTERN };
    let is_hopeless = owner.refusal(Needs::Everybody).is_some();
    if let (true, Some(mpi), Some(part)) = (is_hopeless, Internals::fitting(), owner.main_part()) {
        // SAFETY: the file's own communicator, which is freed with the file.
        unsafe { mpi.table(part)[BARRIER].function = no_barrier as Object };
    }
    let stock = owner.stock_function(io::FILE_CLOSE);
    owner::forget(file);
    // SAFETY: the stock function with its original argument.
    unsafe { transmute::<Object, unsafe extern "C" fn(Object) -> c_int>(stock)(file) }
}

unsafe extern "C" fn no_barrier(_comm: Object, _module: Object) -> c_int {
    0
}

/// The members that call a function of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Callers {
    /// This process only.
    One,
    /// All members; the function may wait for them.
    All,
    /// All members, but none waits for another before it returns: the program may notify others only then.
    Begun,
}

fn call(file: Object, slot: usize, callers: Callers, stock: impl FnOnce(Object) -> c_int) -> c_int {
    let call = || {
        let Some(owner) = owner::find(file) else { return ERR_INTERN };
        let refusal = || owner.refusal(if callers == Callers::One { Needs::Nobody } else { Needs::Everybody });
        let whole = || match refusal() {
            Some(class) => class,
            None => {
                let code = stock(owner.stock_function(slot));
                if callers == Callers::All { refusal().unwrap_or(code) } else { code }
            }
        };
        let code = match owner.main_part().filter(|_| callers == Callers::All && owner.is_uniform()) {
            Some(part) => operations::agree_on(part, About::Members, whole),
            None => whole(),
        };
        owner.own_class(code)
    };
    guard(ERR_INTERN, call)
}

/// Defines the functions, each with its slot, its callers and its arguments.
macro_rules! functions {
    ($($slot:ident $name:ident $callers:ident ($($word:ident: $type:ty),*);)*) => {
        $(unsafe extern "C" fn $name(file: Object, $($word: $type),*) -> c_int {
            type Stock = unsafe extern "C" fn(Object, $($type),*) -> c_int;
            // SAFETY: the stock function of this slot with its original arguments.
            call(file, io::$slot, Callers::$callers, |stock| unsafe { transmute::<Object, Stock>(stock)(file, $($word),*) })
        })*

        /// The functions in the order of io.h; null where Open MPI's function stays.
        fn functions() -> Vec<Object> {
            let mut all = vec![std::ptr::null_mut(); io::SLOTS];
            all[io::FILE_CLOSE] = close as Object;
            $(all[io::$slot] = $name as Object;)*
            all
        }
    };
}

#[rustfmt::skip]
functions! {
    FILE_SET_SIZE set_size All (size: i64);
    FILE_PREALLOCATE preallocate All (size: i64);
    FILE_SET_VIEW set_view All (offset: i64, etype: Object, filetype: Object, datarep: Object, info: Object);
    FILE_READ_AT read_at One (offset: i64, buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_READ_AT_ALL read_at_all All (offset: i64, buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_WRITE_AT write_at One (offset: i64, buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_WRITE_AT_ALL write_at_all All (offset: i64, buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_IREAD_AT iread_at One (offset: i64, buffer: Object, count: c_int, datatype: Object, request: Object);
    FILE_IWRITE_AT iwrite_at One (offset: i64, buffer: Object, count: c_int, datatype: Object, request: Object);
    FILE_IREAD_AT_ALL iread_at_all Begun (offset: i64, buffer: Object, count: c_int, datatype: Object, request: Object);
    FILE_IWRITE_AT_ALL iwrite_at_all Begun (offset: i64, buffer: Object, count: c_int, datatype: Object, request: Object);
    FILE_READ read One (buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_READ_ALL read_all All (buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_WRITE write One (buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_WRITE_ALL write_all All (buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_IREAD iread One (buffer: Object, count: c_int, datatype: Object, request: Object);
    FILE_IWRITE iwrite One (buffer: Object, count: c_int, datatype: Object, request: Object);
    FILE_IREAD_ALL iread_all Begun (buffer: Object, count: c_int, datatype: Object, request: Object);
    FILE_IWRITE_ALL iwrite_all Begun (buffer: Object, count: c_int, datatype: Object, request: Object);
    FILE_READ_SHARED read_shared One (buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_WRITE_SHARED write_shared One (buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_IREAD_SHARED iread_shared One (buffer: Object, count: c_int, datatype: Object, request: Object);
    FILE_IWRITE_SHARED iwrite_shared One (buffer: Object, count: c_int, datatype: Object, request: Object);
    FILE_READ_ORDERED read_ordered All (buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_WRITE_ORDERED write_ordered All (buffer: Object, count: c_int, datatype: Object, status: Object);
    FILE_SEEK_SHARED seek_shared All (offset: i64, whence: c_int);
    FILE_READ_AT_ALL_BEGIN read_at_all_begin All (offset: i64, buffer: Object, count: c_int, datatype: Object);
    FILE_READ_AT_ALL_END read_at_all_end All (buffer: Object, status: Object);
    FILE_WRITE_AT_ALL_BEGIN write_at_all_begin All (offset: i64, buffer: Object, count: c_int, datatype: Object);
    FILE_WRITE_AT_ALL_END write_at_all_end All (buffer: Object, status: Object);
    FILE_READ_ALL_BEGIN read_all_begin All (buffer: Object, count: c_int, datatype: Object);
    FILE_READ_ALL_END read_all_end All (buffer: Object, status: Object);
    FILE_WRITE_ALL_BEGIN write_all_begin All (buffer: Object, count: c_int, datatype: Object);
    FILE_WRITE_ALL_END write_all_end All (buffer: Object, status: Object);
    FILE_READ_ORDERED_BEGIN read_ordered_begin All (buffer: Object, count: c_int, datatype: Object);
    FILE_READ_ORDERED_END read_ordered_end All (buffer: Object, status: Object);
    FILE_WRITE_ORDERED_BEGIN write_ordered_begin All (buffer: Object, count: c_int, datatype: Object);
    FILE_WRITE_ORDERED_END write_ordered_end All (buffer: Object, status: Object);
    FILE_SET_ATOMICITY set_atomicity All (flag: c_int);
    FILE_SYNC sync All ();
}

//! The module that the component gives every communicator: it has no collective function, and hears when the others
//! are in place and when the communicator is freed.

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::OnceLock;

use crate::communicator::Internals;
use crate::object::{Class, Object};
use crate::v5_0::layout::coll_module::COLL_MODULE_ENABLE;

/// The class of these modules, whose objects have the communicator behind Open MPI's own part.
static CLASS: OnceLock<usize> = OnceLock::new();

/// What is called with a communicator.
pub struct Heard {
    /// It has its collectives.
    pub completed: fn(Object),
    /// It is being freed.
    pub freed: fn(Object),
}

static HEARD: OnceLock<Heard> = OnceLock::new();

/// Names what is called. Before the first communicator.
pub fn hear(heard: Heard) {
    let _ = HEARD.set(heard);
}

/// A module for a communicator that is being made; null if there is no memory.
pub fn of(mpi: &Internals, comm: Object) -> Object {
    let make = || {
        // SAFETY: the class of all modules; this library is never unloaded.
        unsafe { mpi.classes.subclass(mpi.module_class(), freed, size_of::<Object>()) as usize }
    };
    let class = *CLASS.get_or_init(make) as *mut Class;
    // SAFETY: the class has room for the communicator at the end of its objects.
    unsafe {
        let module = mpi.classes.object(class);
        if !module.is_null() {
            module.byte_add(COLL_MODULE_ENABLE).cast::<unsafe extern "C" fn(Object, Object) -> c_int>().write(enabled);
            place(class, module).write(comm);
        }
        module
    }
}

/// # Safety
/// A module of this class.
unsafe fn place(class: *const Class, module: Object) -> *mut Object {
    // SAFETY: as required of the caller.
    unsafe { module.byte_add((*class).size - size_of::<Object>()).cast() }
}

unsafe extern "C" fn enabled(_module: Object, comm: Object) -> c_int {
    let _ = catch_unwind(|| HEARD.get().into_iter().for_each(|heard| (heard.completed)(comm)));
    0
}

unsafe extern "C" fn freed(module: Object) {
    let Some(class) = CLASS.get() else { return };
    // SAFETY: Open MPI destroys an object of this class.
    let comm = unsafe { *place(*class as *const Class, module) };
    let comm = comm as usize;
    let _ = catch_unwind(|| HEARD.get().into_iter().for_each(|heard| (heard.freed)(comm as Object)));
}

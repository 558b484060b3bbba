//! Defines the functions that Fortran calls, under each name that a compiler may look for.

/// Defines functions of all these names that call one function.
macro_rules! names {
    ($($name:ident)*: $function:path, $arguments:tt) => {$(
        $crate::fortran_names::name! { $name: $function, $arguments }
    )*};
}

/// Defines a function of this name.
macro_rules! name {
    ($name:ident: $function:path, ($($argument:ident: $kind:ty),*)) => {
        /// # Safety
        /// Called from Fortran with the arguments of the interface.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the name that a compiler looks for")]
        pub unsafe extern "C" fn $name($($argument: $kind),*) {
            // SAFETY: as required of the caller.
            unsafe { $function($($argument),*) }
        }
    };
}

pub(crate) use {name, names};

use std::ffi::c_int;

/// Stores an error class where Fortran wants it.
///
/// # Safety
/// Null, or a variable of Fortran.
pub unsafe fn tell(error: *mut c_int, code: c_int) {
    if !error.is_null() {
        // SAFETY: as required of the caller.
        unsafe { error.write(code) };
    }
}

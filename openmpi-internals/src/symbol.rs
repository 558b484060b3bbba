//! Names of what Open MPI has, each with its type: so a function is cast where it is named, once.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::marker::PhantomData;

/// Why a feature is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no such function, variable or object.
    Symbol(&'static CStr),
    /// No call of this function goes through a table of jumps.
    Calls(&'static CStr),
    /// Another feature stands in front of this function.
    Taken(&'static CStr),
    /// The structs are not where they are looked for.
    Layout,
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Symbol(name) => write!(out, "this Open MPI has no {}", name.to_string_lossy()),
            Self::Calls(name) => write!(out, "this Open MPI calls {} directly", name.to_string_lossy()),
            Self::Taken(name) => write!(out, "another feature stands in front of {}", name.to_string_lossy()),
            Self::Layout => write!(out, "the structs of this Open MPI are not those of 5.0"),
        }
    }
}

/// The name of a function of the type `F`.
pub struct Function<F> {
    name: &'static CStr,
    kind: PhantomData<fn() -> F>,
}

/// The name of a variable of the type `T`.
pub struct Variable<T> {
    name: &'static CStr,
    kind: PhantomData<fn() -> T>,
}

impl<F> Clone for Function<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Function<F> {}

impl<T> Clone for Variable<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Variable<T> {}

impl<F: Copy> Function<F> {
    /// # Safety
    /// `F` is the type of a pointer to the function of this name, wherever it is.
    pub const unsafe fn new(name: &'static CStr) -> Self {
        const { assert!(size_of::<F>() == size_of::<*const ()>()) }
        Self { name, kind: PhantomData }
    }

    /// The name.
    pub const fn name(self) -> &'static CStr {
        self.name
    }

    /// It is not there.
    pub const fn missing(self) -> Missing {
        Missing::Symbol(self.name)
    }

    /// A function of ours that is to stand in front of it.
    pub fn by(self, ours: F) -> Ours {
        // SAFETY: an address is as large, as compared above, and may be any.
        Ours { name: self.name, function: unsafe { std::mem::transmute_copy(&ours) } }
    }
}

/// A function of ours, and the name of that in front of which it is to stand. It has its type.
#[derive(Clone, Copy)]
pub struct Ours {
    /// The name.
    pub(crate) name: &'static CStr,
    /// The function.
    pub(crate) function: *const c_void,
}

/// An address as a function.
///
/// # Safety
/// That of a function to which `F` is a pointer.
pub(crate) unsafe fn address_as<F: Copy>(address: *const c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) }
    // SAFETY: as required of the caller; sizes are equal.
    unsafe { std::mem::transmute_copy(&address) }
}

impl<T> Variable<T> {
    /// # Safety
    /// `T` is the type of the variable of this name, wherever it is.
    pub const unsafe fn new(name: &'static CStr) -> Self {
        Self { name, kind: PhantomData }
    }

    /// The name.
    pub const fn name(self) -> &'static CStr {
        self.name
    }

    /// It is not there.
    pub const fn missing(self) -> Missing {
        Missing::Symbol(self.name)
    }
}

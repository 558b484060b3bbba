//! Functions of a layer are called in place of Open MPI's.
//!
//! | a function | the program calls |
//! |---|---|
//! | has a handler | the handler |
//! | is [`Class::Local`] and has none | what it has called before |
//! | another one | a trampoline that reports the first call, and goes on to what it has called before |
//!
//! What the program has called before may be a function of ours already: handlers are installed behind those features
//! of ringwatch that stand in front of single functions. A handler that does nothing for a call goes on to that
//! ([`next`]); what it does for the program it does by Open MPI's own ([`stock`]).

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::sync::OnceLock;

use openmpi_internals::loaded::Library;
use openmpi_internals::symbol_table::{self, Replacement};

use crate::functions::{Class, FUNCTIONS, Function, index_of};
use crate::trampolines;

/// What is called in place of one function.
#[derive(Clone, Copy)]
pub struct Handler {
    /// The function's name without prefix: `Send`.
    pub name: &'static str,
    /// A function of the same type.
    pub ours: *const c_void,
}

/// Why nothing has been installed, or not all.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no function of this name.
    NoFunction(&'static str),
    /// The processor is not one that trampolines are written for.
    Processor,
    /// There are handlers already.
    Installed,
    /// Calls of the program and its libraries could not be led to handlers, so that some of these may be called and
    /// others not.
    Calls,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::NoFunction(name) => write!(out, "MPI has no function {name}"),
            Self::Processor => write!(out, "MPI functions are intercepted on x86-64 only"),
            Self::Installed => write!(out, "MPI functions are intercepted already"),
            Self::Calls => write!(out, "the program's calls of MPI functions cannot be intercepted"),
        }
    }
}

impl std::error::Error for Failure {}

/// What the program has called before, in the order of [`FUNCTIONS`]; null where the library lacks a function.
struct Next(Vec<*const c_void>);

// SAFETY: addresses of functions.
unsafe impl Send for Next {}
// SAFETY: as above.
unsafe impl Sync for Next {}

static NEXT: OnceLock<Next> = OnceLock::new();

/// Has the program and its libraries call handlers in place of functions of `library`, which calls its own as before.
/// Once per process.
///
/// `not_covered` is told of a call that nobody handles. Where it returns 0 the call goes on, and the function is not
/// reported again (but of threads that make the first call at the same time each may be). Else the call has no effect
/// and returns that error code; no error handler of MPI is called for it.
///
/// # Errors
/// Why that could not be done.
///
/// # Safety
/// Handlers have the types of their functions, and stay for ever.
pub unsafe fn install(
    library: &Library,
    handlers: &[Handler],
    not_covered: fn(&'static Function) -> c_int,
) -> Result<(), Failure> {
    if NEXT.get().is_some() {
        return Err(Failure::Installed);
    }
    let mut ours = vec![None; FUNCTIONS.len()];
    for handler in handlers {
        ours[index_of(handler.name).ok_or(Failure::NoFunction(handler.name))?] = Some(handler.ours);
    }
    let address = |name: &CStr| library.present(name).map_or(std::ptr::null(), |address| address.cast_const());
    let next = Next(FUNCTIONS.iter().map(|function| address(function.names[0])).collect());
    let mut replacements = Vec::new();
    for (index, function) in FUNCTIONS.iter().enumerate().filter(|(index, _)| !next.0[*index].is_null()) {
        let ours = match (ours[index], function.class) {
            (Some(ours), _) => ours,
            (None, Class::Local) => continue,
            (None, _) => trampolines::trampoline(index, next.0[index]).ok_or(Failure::Processor)?,
        };
        replacements.extend(in_place_of(function, function.names.map(address), ours));
    }
    NEXT.set(next).map_err(|_| Failure::Installed)?;
    trampolines::report_to(not_covered);
    // SAFETY: as required of the caller; a trampoline goes on to the function that it stands for.
    if unsafe { symbol_table::stand_in_front(&replacements) } { Ok(()) } else { Err(Failure::Calls) }
}

/// Both names are those of one function, or, in the extension for fault tolerance, of two that do the same.
fn in_place_of(function: &Function, present: [*const c_void; 2], ours: *const c_void) -> Vec<Replacement> {
    let of = |names, stock| Replacement { names, stock, ours };
    let [profiling, standard] = function.names;
    if present[0] == present[1] {
        vec![of(function.names, present[0])]
    } else {
        vec![of([profiling; 2], present[0]), of([standard; 2], present[1])]
    }
}

/// Open MPI's own function, whatever stands in front of it.
#[must_use]
pub fn stock(name: &str) -> Option<*const c_void> {
    Library::loaded()?.symbol(FUNCTIONS[index_of(name)?].names[0]).map(<*mut _>::cast_const)
}

/// What the program has called before handlers were installed: Open MPI's own function, or what stood in front of it.
#[must_use]
pub fn next(name: &str) -> Option<*const c_void> {
    Some(NEXT.get()?.0[index_of(name)?]).filter(|address| !address.is_null())
}

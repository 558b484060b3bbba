//! Describes calls of Open MPI's functions that choose a communicator's context id (`ompi_comm_nextcid`) or activate it
//! (`ompi_comm_activate`). The blocking and nonblocking variants have the same arguments (communicator.h).

use std::ffi::{c_int, c_void};

use openmpi_internals::object::Object;
use openmpi_internals::request::Request;

/// Nonblocking variant. `M` is the type that passes the new communicator.
type Start<M> =
    unsafe extern "C" fn(M, Object, Object, *const c_void, *const c_void, bool, c_int, *mut *mut Request) -> c_int;
/// Blocking variant.
type Run<M> = unsafe extern "C" fn(M, Object, Object, *const c_void, *const c_void, bool, c_int) -> c_int;

/// The arguments of a call.
#[derive(Clone, Copy)]
pub struct CidCall<M> {
    pub made: M,
    /// The parent communicator.
    pub comm: Object,
    pub bridge: Object,
    /// The meaning of these two depends on the mode.
    pub first: *const c_void,
    pub second: *const c_void,
    /// Whether this leader sends first.
    pub sends_first: bool,
    pub mode: c_int,
}

impl<M: Copy> CidCall<M> {
    /// Calls a nonblocking function.
    ///
    /// # Safety
    /// The function to which Open MPI passed these arguments.
    pub unsafe fn start(&self, stock: Start<M>, request: *mut *mut Request) -> c_int {
        let Self { made, comm, bridge, first, second, sends_first, mode } = *self;
        // SAFETY: as required of the caller.
        unsafe { stock(made, comm, bridge, first, second, sends_first, mode, request) }
    }

    /// Calls a blocking function.
    ///
    /// # Safety
    /// As of [`start`](Self::start).
    pub unsafe fn run(&self, stock: Run<M>) -> c_int {
        let Self { made, comm, bridge, first, second, sends_first, mode } = *self;
        // SAFETY: as required of the caller.
        unsafe { stock(made, comm, bridge, first, second, sends_first, mode) }
    }
}

/// Defines interposed versions of these functions, as [`in_front`](crate::in_front::in_front) does.
macro_rules! in_front_of_cid {
    ($needed:pat_param = $found:expr; $(
        $(#[$about:meta])*
        fn $name:ident($call:ident of $made:ty $(, $request:ident)?) $body:block
    )+) => {
        $crate::in_front::in_front! { $needed = $found, or openmpi_internals::error_class::ERR_INTERN; $(
            $(#[$about])*
            unsafe extern "C" fn $name(
                made: $made,
                comm: openmpi_internals::object::Object,
                bridge: openmpi_internals::object::Object,
                first: *const std::ffi::c_void,
                second: *const std::ffi::c_void,
                sends_first: bool,
                mode: std::ffi::c_int
                $(, $request: *mut *mut openmpi_internals::request::Request)?
            ) -> std::ffi::c_int {
                let $call =
                    $crate::cid::cid_call::CidCall { made, comm, bridge, first, second, sends_first, mode };
                $body
            }
        )+ }
    };
}

pub(crate) use in_front_of_cid;

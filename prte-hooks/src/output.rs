//! Filters the standard output of ranks that passes through a runtime daemon.
//!
//! Each daemon hands what it has read of a rank's output, and prterun also what other daemons have sent, to PMIx's
//! `PMIx_server_IOF_deliver` (`iof_hnp_read.c`, `iof_hnp_receive.c`, `iof_prted_read.c`), which writes it to prterun's
//! output and to files that the user has asked for.

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use pmix_sys::{
    PMIX_ERROR, PMIX_FWD_STDOUT_CHANNEL, PMIX_SUCCESS, pmix_byte_object_t, pmix_info_t, pmix_iof_channel_t,
    pmix_proc_t, pmix_status_t,
};

use crate::jumps;
use crate::runtime::OutputFilter;
use crate::symbols;

type Done = Option<unsafe extern "C" fn(pmix_status_t, *mut c_void)>;
/// `PMIx_server_IOF_deliver` (pmix_server.h). It reads the bytes until it calls `done`; without that it waits.
type Deliver = unsafe extern "C" fn(
    *const pmix_proc_t,
    pmix_iof_channel_t,
    *const pmix_byte_object_t,
    *const pmix_info_t,
    usize,
    Done,
    *mut c_void,
) -> pmix_status_t;

static FILTER: OnceLock<(Deliver, &'static dyn OutputFilter)> = OnceLock::new();

/// Makes libprrte, the library that contains `function`, pass ranks' output through this filter. False if its procedure
/// linkage table cannot be written.
pub fn filter(function: *mut c_void, filter: &'static dyn OutputFilter) -> bool {
    let Some(stock) = symbols::address(c"PMIx_server_IOF_deliver") else { return false };
    // SAFETY: the type of pmix_server.h.
    let stock = unsafe { std::mem::transmute::<*mut c_void, Deliver>(stock) };
    if FILTER.set((stock, filter)).is_err() {
        return true;
    }
    // SAFETY: a function of the same type, in a library that stays loaded (the plugin keeps itself in the process of a
    // fault-tolerant job).
    unsafe { jumps::replace(function, "PMIx_server_IOF_deliver", deliver as *const c_void) }
}

/// Text that PMIx has not written yet, and what is called then.
struct Written {
    text: Vec<u8>,
    object: pmix_byte_object_t,
    done: Done,
    data: *mut c_void,
}

/// Replaces `PMIx_server_IOF_deliver`.
unsafe extern "C" fn deliver(
    source: *const pmix_proc_t,
    channel: pmix_iof_channel_t,
    bytes: *const pmix_byte_object_t,
    info: *const pmix_info_t,
    ninfo: usize,
    done: Done,
    data: *mut c_void,
) -> pmix_status_t {
    let Some((stock, filter)) = FILTER.get() else { return PMIX_ERROR };
    let filtered = || {
        // SAFETY: PRRTE's own process and bytes, which stay there during the call.
        unsafe {
            let (source, bytes) = (source.as_ref()?, bytes.as_ref()?);
            let nspace = CStr::from_ptr(source.nspace.as_ptr());
            let text = std::slice::from_raw_parts(bytes.bytes.cast_const().cast(), bytes.size);
            Some(filter.passes(nspace, source.rank, text))
        }
    };
    let is_output = i32::from(channel) == PMIX_FWD_STDOUT_CHANNEL && done.is_some();
    let text = if is_output { catch_unwind(AssertUnwindSafe(filtered)).ok().flatten() } else { None };
    match (text, done) {
        (Some(text), Some(done)) if text.is_empty() => {
            // SAFETY: the caller's own function and argument; PMIx calls it in another thread.
            unsafe { done(PMIX_SUCCESS, data) };
            PMIX_SUCCESS
        }
        (Some(text), done) => {
            let object = pmix_byte_object_t { bytes: std::ptr::null_mut(), size: text.len() };
            let written = Box::into_raw(Box::new(Written { text, object, done, data }));
            // SAFETY: `written` stays until PMIx calls `end`, which it does not if it refuses; the rest is the caller's.
            unsafe {
                (*written).object.bytes = (*written).text.as_mut_ptr().cast();
                let status =
                    stock(source, channel, &raw const (*written).object, info, ninfo, Some(end), written.cast());
                if status != PMIX_SUCCESS {
                    drop(Box::from_raw(written));
                }
                status
            }
        }
        // SAFETY: the caller's own arguments.
        (None, done) => unsafe { stock(source, channel, bytes, info, ninfo, done, data) },
    }
}

/// PMIx has written the text.
unsafe extern "C" fn end(status: pmix_status_t, written: *mut c_void) {
    // SAFETY: the argument of `deliver`, which PMIx gives back once.
    let written = unsafe { Box::from_raw(written.cast::<Written>()) };
    if let Some(done) = written.done {
        // SAFETY: the caller's own function and argument.
        unsafe { done(status, written.data) };
    }
}

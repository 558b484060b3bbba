//! Suppresses a wrong warning about process groups of remote shells that `prterun` starts.
//!
//! Parent and child both put the child into a group of its own, so that Ctrl-C does not reach it. If the child has
//! already begun its program, the parent's call is refused (`EACCES`, setpgid(2)). The parent then tells the user
//! "Warning: setpgid(...) failed in parent" (plm_ssh_module.c, process_launch_list), although the group is correct.

use std::ffi::{c_int, c_void};

use crate::jumps;

/// Makes libprrte, the library that contains `function`, ignore that refusal. Does nothing if its procedure linkage
/// table cannot be written.
pub fn begin_quietly(function: *mut c_void) {
    // SAFETY: a function of the same type, in a library that stays loaded (the plugin keeps itself in the process of a
    // fault-tolerant job).
    unsafe { jumps::replace(function, "setpgid", put_into_group as *const c_void) };
}

/// Replaces `setpgid`.
extern "C" fn put_into_group(process: libc::pid_t, group: libc::pid_t) -> c_int {
    // SAFETY: take numbers.
    unsafe {
        let result = libc::setpgid(process, group);
        let is_there = || *libc::__errno_location() == libc::EACCES && libc::getpgid(process) == group;
        if result != 0 && is_there() { 0 } else { result }
    }
}

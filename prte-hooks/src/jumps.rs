//! Replaces functions in libraries' procedure linkage tables.

use std::ffi::c_void;

use plthook::ObjectFile;

/// Makes the library that contains `function` call `replacement` for this name; false if its table cannot be written.
///
/// # Safety
/// `replacement` has the type of the function with this name, and is never unloaded.
pub unsafe fn replace(function: *mut c_void, name: &str, replacement: *const c_void) -> bool {
    // SAFETY: any address may be passed; the name is terminated and belongs to a loaded library; the handle is never
    // closed.
    let handle = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(function, &mut info) == 0 || info.dli_fname.is_null() {
            return false;
        }
        libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY)
    };
    if handle.is_null() {
        return false;
    }
    // SAFETY: the handle of a loaded library; the rest is required of the caller.
    let replaced =
        unsafe { ObjectFile::open_by_handle(handle).and_then(|object| object.replace(name, replacement.cast())) };
    replaced.map(|mut replaced| replaced.discard()).is_ok()
}

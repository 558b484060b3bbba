//! Loads libibverbs when a device is opened, and opens devices. So the library is not needed at build time, and a node
//! without it works.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::layout::*;
use crate::process::setup;

/// Declares the functions of the library: a struct of pointers, and its initialisation.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn load() -> io::Result<Self> {
                // SAFETY: the name is a C string; the library's initialisers ask nothing of this process.
                let library = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
                let library = NonNull::new(library)
                    .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "libibverbs.so.1 is not installed"))?;
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the library is loaded and never unloaded, the name ends with a zero byte.
                        let address = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr().cast()) };
                        if address.is_null() {
                            let what = concat!("libibverbs.so.1 has no function ", stringify!($name));
                            return Err(io::Error::other(what));
                        }
                        // SAFETY: the function of this name has this signature (manual page of the same name).
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>(address)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list: fn(*mut *mut ibv_device) -> ();
    ibv_get_device_name: fn(*mut ibv_device) -> *const c_char;
    ibv_open_device: fn(*mut ibv_device) -> *mut ibv_context;
    ibv_close_device: fn(*mut ibv_context) -> c_int;
    ibv_alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd: fn(*mut ibv_pd) -> c_int;
    ibv_reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    ibv_dereg_mr: fn(*mut ibv_mr) -> c_int;
    ibv_create_cq: fn(*mut ibv_context, c_int, *mut c_void, *mut c_void, c_int) -> *mut ibv_cq;
    ibv_destroy_cq: fn(*mut ibv_cq) -> c_int;
    ibv_create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    ibv_destroy_qp: fn(*mut ibv_qp) -> c_int;
}

/// The result of a constructor of the library: the object, or the error.
pub(super) fn made<T>(object: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(object).ok_or_else(io::Error::last_os_error)
}

/// The result of another function of the library: an error number, or zero.
pub(super) fn done(error: c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// An open RDMA device.
pub struct Device {
    pub(super) functions: Functions,
    pub(super) context: NonNull<ibv_context>,
    name: String,
}

// SAFETY: libibverbs may be called from any thread, by several at a time; the pointer is never changed.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// Opens the device of this name.
    ///
    /// # Errors
    /// If libibverbs or its part for this device is not installed, or this process may not use the device.
    pub fn open(name: &str) -> io::Result<Arc<Self>> {
        let functions = Functions::load()?;
        let wanted = CString::new(name).map_err(io::Error::other)?;
        // SAFETY: a null pointer is allowed where the number of devices would be stored.
        let list = made(unsafe { (functions.ibv_get_device_list)(ptr::null_mut()) })?;
        let mut context =
            Err(io::Error::new(io::ErrorKind::NotFound, "the packages for this device are not installed"));
        for index in 0.. {
            // SAFETY: the list ends with a null pointer, and the loop there.
            let device = unsafe { *list.as_ptr().add(index) };
            if device.is_null() {
                break;
            }
            // SAFETY: the device is in the list, which has not been freed; its name is a C string that lives as long.
            if unsafe { CStr::from_ptr((functions.ibv_get_device_name)(device)) } == wanted.as_c_str() {
                // SAFETY: as above. An open device may be used after its list has been freed.
                context = made(unsafe { (functions.ibv_open_device)(device) });
            }
        }
        // SAFETY: the list came from ibv_get_device_list and is not used any more.
        unsafe { (functions.ibv_free_device_list)(list.as_ptr()) };
        let context = context?;
        // SAFETY: an open device, of which the driver has filled in its functions.
        let poll = unsafe { context.as_ref() }.ops.poll_cq;
        poll.into_iter().for_each(|poll| setup::lock_library(poll as *const c_void));
        Ok(Arc::new(Self { context, functions, name: name.to_owned() }))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: whatever was made from the context holds an `Arc` of this value, so nothing is left of it.
        unsafe { (self.functions.ibv_close_device)(self.context.as_ptr()) };
    }
}

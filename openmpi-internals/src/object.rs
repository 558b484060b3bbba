//! Objects of Open MPI 5.0 (opal_object.h): they have a class, and are counted.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::AtomicI32;

use crate::v5_0::layout;
use crate::v5_0::layout::list::OPAL_LIST_LENGTH;
use crate::v5_0::layout::list_item::{OPAL_LIST_NEXT, OPAL_LIST_PREV};

/// An object of Open MPI.
pub type Object = *mut c_void;

/// Takes an item out of a list. Returns whether it was there.
///
/// # Safety
/// A list whose lock the caller has, and an item that was in one, if only once.
pub unsafe fn take_out(item: Object, list: Object) -> bool {
    let neighbour = |item: Object, way: usize| item.wrapping_byte_add(way).cast::<Object>();
    // SAFETY: as required of the caller.
    unsafe {
        let (next, previous) = (neighbour(item, OPAL_LIST_NEXT).read(), neighbour(item, OPAL_LIST_PREV).read());
        let length = list.byte_add(OPAL_LIST_LENGTH).cast::<usize>();
        let is_there = !next.is_null()
            && !previous.is_null()
            && neighbour(next, OPAL_LIST_PREV).read() == item
            && neighbour(previous, OPAL_LIST_NEXT).read() == item
            && length.read() > 0;
        if is_there {
            neighbour(previous, OPAL_LIST_NEXT).write(next);
            neighbour(next, OPAL_LIST_PREV).write(previous);
            length.write(length.read() - 1);
        }
        is_there
    }
}

/// `opal_class_t`.
#[repr(C)]
pub struct Class {
    pub(crate) name: *const c_char,
    pub(crate) parent: *mut Class,
    pub(crate) construct: Option<unsafe extern "C" fn(Object)>,
    pub(crate) destruct: Option<unsafe extern "C" fn(Object)>,
    pub(crate) initialised: c_int,
    pub(crate) depth: c_int,
    pub(crate) constructors: *mut Option<unsafe extern "C" fn(Object)>,
    pub(crate) destructors: *mut Option<unsafe extern "C" fn(Object)>,
    /// Bytes of an object.
    pub size: usize,
}

const _: () = assert!(std::mem::offset_of!(Class, constructors) == layout::class::CLS_CONSTRUCT_ARRAY);
const _: () = assert!(std::mem::offset_of!(Class, destructors) == layout::class::CLS_DESTRUCT_ARRAY);
const _: () = assert!(std::mem::offset_of!(Class, size) == layout::class::CLS_SIZEOF);

/// `opal_object_t`, with which every object begins.
#[repr(C)]
pub struct Base {
    pub(crate) class: *mut Class,
    /// How many owners the object has.
    pub references: AtomicI32,
}

const _: () = assert!(std::mem::offset_of!(Base, class) == layout::object::OBJ_CLASS);
const _: () = assert!(std::mem::offset_of!(Base, references) == layout::object::OBJ_REFERENCE_COUNT);
const _: () = assert!(size_of::<Base>() == layout::object::SIZE);

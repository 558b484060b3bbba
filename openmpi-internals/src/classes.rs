//! Classes of Open MPI 5.0 (opal_object.h): they make objects, count their owners, and destroy them.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::loaded::Library;
use crate::object::{Base, Class, Object};
use crate::v5_0::functions::OPAL_CLASS_INITIALIZE;

/// Open MPI's classes.
pub struct Classes {
    initialise: unsafe extern "C" fn(*mut Class),
}

impl Classes {
    /// `None` if this Open MPI has none.
    pub fn find(library: &Library) -> Option<Self> {
        Some(Self { initialise: library.function(OPAL_CLASS_INITIALIZE)? })
    }

    /// A new class with one more destructor and so many bytes more.
    ///
    /// # Safety
    /// A class of Open MPI, and a destructor that lives for ever.
    pub unsafe fn subclass(
        &self,
        parent: *mut Class,
        destruct: unsafe extern "C" fn(Object),
        more: usize,
    ) -> *mut Class {
        // SAFETY: as required of the caller; the new class lives for ever, too.
        unsafe {
            (self.initialise)(parent);
            let class = Box::into_raw(Box::new(Class {
                name: c"ringwatch_module".as_ptr(),
                parent,
                construct: None,
                destruct: Some(destruct),
                initialised: 0,
                depth: 0,
                constructors: std::ptr::null_mut(),
                destructors: std::ptr::null_mut(),
                size: (*parent).size + more,
            }));
            (self.initialise)(class);
            class
        }
    }

    /// Gives back the only reference to an object.
    ///
    /// # Safety
    /// An object that no other code knows, whose memory is from `malloc`.
    pub unsafe fn destroy(object: Object) {
        // SAFETY: as required of the caller; the list of destructors ends with null.
        unsafe {
            let mut destructor = (*(*object.cast::<Base>()).class).destructors;
            while let Some(destruct) = *destructor {
                destruct(object);
                destructor = destructor.add(1);
            }
            libc::free(object);
        }
    }

    /// Takes one more reference to an object.
    ///
    /// # Safety
    /// An object that lives.
    pub unsafe fn hold(object: Object) {
        // SAFETY: as required of the caller.
        unsafe { (*object.cast::<Base>()).references.fetch_add(1, Ordering::AcqRel) };
    }

    /// Gives back a reference.
    ///
    /// # Safety
    /// An object to which [`hold`](Self::hold) has taken it, whose memory is from `malloc`.
    pub unsafe fn release(&self, object: Object) {
        // SAFETY: as required of the caller: no other code knows an object with one reference.
        unsafe {
            if !Self::give_back_if_shared(object) && Self::change(object, |count| (count == 1).then_some(0)) {
                Self::destroy(object);
            }
        }
    }

    /// Takes one more reference to an object, unless its last one has been given back.
    ///
    /// # Safety
    /// An object that lives, or is being destroyed.
    pub unsafe fn hold_if_alive(object: Object) -> bool {
        // SAFETY: as required of the caller.
        unsafe { Self::change(object, |count| (count > 0).then_some(count + 1)) }
    }

    /// Gives back a reference, unless it is the only one.
    ///
    /// # Safety
    /// An object to which [`hold`](Self::hold) has taken it.
    pub unsafe fn give_back_if_shared(object: Object) -> bool {
        // SAFETY: as required of the caller.
        unsafe { Self::change(object, |count| (count > 1).then_some(count - 1)) }
    }

    unsafe fn change(object: Object, change: impl Fn(i32) -> Option<i32>) -> bool {
        // SAFETY: as required of the callers.
        let references = unsafe { &(*object.cast::<Base>()).references };
        references.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }

    /// The class of an object.
    ///
    /// # Safety
    /// An object that lives.
    pub unsafe fn of(object: Object) -> *const Class {
        // SAFETY: as required of the caller.
        unsafe { (*object.cast::<Base>()).class }
    }

    /// How many owners an object has.
    ///
    /// # Safety
    /// An object that lives.
    pub unsafe fn references(object: Object) -> i32 {
        // SAFETY: as required of the caller.
        unsafe { (*object.cast::<Base>()).references.load(Ordering::Acquire) }
    }

    /// A new object, zero but for what its constructors do; null if there is no memory.
    ///
    /// # Safety
    /// A class of Open MPI, or one of [`subclass`](Self::subclass).
    pub unsafe fn object(&self, class: *mut Class) -> Object {
        // SAFETY: as required of the caller: the size is the class's, and the list of constructors ends with null.
        unsafe {
            (self.initialise)(class);
            let object = libc::calloc(1, (*class).size);
            if !object.is_null() {
                let base = object.cast::<Base>();
                (*base).class = class;
                (*base).references = AtomicI32::new(1);
                let mut constructor = (*class).constructors;
                while let Some(construct) = *constructor {
                    construct(object);
                    constructor = constructor.add(1);
                }
            }
            object
        }
    }
}

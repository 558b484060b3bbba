//! What ringwatch uses of Open MPI to give communicators an error scope: the standard's own functions by their
//! profiling names, which no tool replaces, and the subscription to info keys.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::{CopyAttribute, DeleteAttribute};
pub use crate::abi::{KeyChanged, MemberDied};
use crate::error_class::ERR_INFO_VALUE;
use crate::loaded::Library;
use crate::v5_0::functions::{OMPI_COMM_REVOKE_INTERNAL, OPAL_INFOSUBSCRIBE_CHANGE_INFO, OPAL_INFOSUBSCRIBE_SUBSCRIBE};
use crate::v5_0::variables::OMPI_RANK_FAILURE_CBFUNC;

/// A communicator; the address of Open MPI's object is the handle in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Communicator(usize);

impl Communicator {
    /// The communicator of a handle that Open MPI has passed.
    pub fn from_handle(handle: *mut c_void) -> Self {
        Self(handle as usize)
    }

    /// The handle in C.
    pub fn handle(self) -> *mut c_void {
        self.0 as *mut c_void
    }
}

/// Functions and variables of the loaded Open MPI.
pub struct Handles {
    member_died: *mut Option<MemberDied>,
    subscribe: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, KeyChanged) -> c_int,
    change_info: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    revoke: unsafe extern "C" fn(*mut c_void) -> c_int,
    info_create: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    info_set: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> c_int,
    info_free: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    keyval_create: unsafe extern "C" fn(CopyAttribute, DeleteAttribute, *mut c_int, *mut c_void) -> c_int,
    attribute_get: unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_void, *mut c_int) -> c_int,
    attribute_set: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int,
    to_index: unsafe extern "C" fn(*mut c_void) -> c_int,
    from_index: unsafe extern "C" fn(c_int) -> *mut c_void,
    call_errhandler: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    add_error_code: unsafe extern "C" fn(c_int, *mut c_int) -> c_int,
    add_error_string: unsafe extern "C" fn(c_int, *const c_char) -> c_int,
}

// SAFETY: addresses of functions, and of one variable that is written once, before there is a second thread in MPI.
unsafe impl Send for Handles {}
// SAFETY: as above.
unsafe impl Sync for Handles {}

impl Handles {
    /// Finds everything; `None` if this Open MPI lacks something.
    pub fn find() -> Option<Self> {
        let library = Library::loaded()?;
        // SAFETY: the types are those of mpi.h, and of communicator.h and info_subscriber.h of Open MPI 5.0.
        unsafe {
            Some(Self {
                member_died: library.variable(OMPI_RANK_FAILURE_CBFUNC)?,
                subscribe: library.function(OPAL_INFOSUBSCRIBE_SUBSCRIBE)?,
                change_info: library.function(OPAL_INFOSUBSCRIBE_CHANGE_INFO)?,
                revoke: library.function(OMPI_COMM_REVOKE_INTERNAL)?,
                info_create: library.standard(c"PMPI_Info_create")?,
                info_set: library.standard(c"PMPI_Info_set")?,
                info_free: library.standard(c"PMPI_Info_free")?,
                keyval_create: library.standard(c"PMPI_Comm_create_keyval")?,
                attribute_get: library.standard(c"PMPI_Comm_get_attr")?,
                attribute_set: library.standard(c"PMPI_Comm_set_attr")?,
                to_index: library.standard(c"PMPI_Comm_c2f")?,
                from_index: library.standard(c"PMPI_Comm_f2c")?,
                call_errhandler: library.standard(c"PMPI_Comm_call_errhandler")?,
                add_error_code: library.standard(c"PMPI_Add_error_code")?,
                add_error_string: library.standard(c"PMPI_Add_error_string")?,
            })
        }
    }

    /// Registers `callback` for every communicator that loses a member; returns the callback registered so far. Call it
    /// once, while `MPI_Init` chooses the collectives of its first communicator.
    pub fn watch_members(&self, callback: MemberDied) -> Option<MemberDied> {
        // SAFETY: the address of libmpi's variable; no other thread runs in MPI yet.
        unsafe { self.member_died.replace(Some(callback)) }
    }

    /// Has `callback` called with what an info key of the communicator holds (else with `absent`), and whenever it is
    /// set.
    pub fn subscribe(&self, comm: Communicator, key: &CStr, absent: &CStr, callback: KeyChanged) {
        // SAFETY: a communicator begins with its subscriber; key and value are copied.
        unsafe { (self.subscribe)(comm.handle(), key.as_ptr(), absent.as_ptr(), callback) };
    }

    /// Sets an info key, with all that follows from it.
    pub fn set_info(&self, comm: Communicator, key: &CStr, value: &CStr) {
        let mut info = std::ptr::null_mut();
        // SAFETY: an info object of MPI begins with the one that the second function takes.
        unsafe {
            if (self.info_create)(&mut info) == 0 {
                (self.info_set)(info, key.as_ptr(), value.as_ptr());
                (self.change_info)(comm.handle(), info);
                (self.info_free)(&mut info);
            }
        }
    }

    /// Gives the communicator what an info object has, as `MPI_Comm_set_info` does.
    ///
    /// # Safety
    /// A communicator and an info object that live.
    pub unsafe fn take_info(&self, comm: Communicator, info: *mut c_void) {
        // SAFETY: as required of the caller; an info object of MPI begins with the one that the function takes.
        unsafe { (self.change_info)(comm.handle(), info) };
    }

    /// Interrupts every operation on the communicator, here and at all of its members; repeated calls do nothing.
    pub fn revoke(&self, comm: Communicator) {
        // SAFETY: a communicator that lives. Like `MPIX_Comm_revoke`, it drives no progress.
        unsafe { (self.revoke)(comm.handle()) };
    }

    /// A new kind of attribute that `MPI_Comm_dup` copies.
    pub fn inherited_attribute(&self) -> Option<c_int> {
        let mut keyval = 0;
        // SAFETY: both functions live for ever, since this library is never unloaded.
        let status = unsafe { (self.keyval_create)(copied, deleted, &mut keyval, std::ptr::null_mut()) };
        (status == 0).then_some(keyval)
    }

    /// An attribute that is a number.
    pub fn attribute(&self, comm: Communicator, keyval: c_int) -> Option<c_int> {
        let (mut value, mut found) = (std::ptr::null_mut(), 0);
        // SAFETY: a communicator whose attributes are in place, and room for the answer.
        let status = unsafe { (self.attribute_get)(comm.handle(), keyval, &mut value, &mut found) };
        (status == 0 && found != 0).then_some(value as usize as c_int)
    }

    /// Sets an attribute to a number.
    pub fn set_attribute(&self, comm: Communicator, keyval: c_int, value: c_int) {
        // SAFETY: the value is never followed as a pointer.
        unsafe { (self.attribute_set)(comm.handle(), keyval, value as usize as *mut c_void) };
    }

    /// Number of the communicator in Fortran, which no other has while it lives.
    pub fn index(&self, comm: Communicator) -> c_int {
        // SAFETY: a communicator that lives.
        unsafe { (self.to_index)(comm.handle()) }
    }

    /// Whether the communicator that had this number still has it, that is, was not freed.
    pub fn lives(&self, comm: Communicator, index: c_int) -> bool {
        // SAFETY: any number may be asked for.
        let present = unsafe { (self.from_index)(index) };
        present == comm.handle()
    }

    /// A new error code of the class `MPI_ERR_INFO_VALUE` that has this text.
    pub fn info_value_error(&self, text: &CStr) -> c_int {
        let mut code = ERR_INFO_VALUE;
        // SAFETY: room for the answer; the text is copied.
        unsafe {
            if (self.add_error_code)(ERR_INFO_VALUE, &mut code) == 0 {
                (self.add_error_string)(code, text.as_ptr());
            }
        }
        code
    }

    /// Calls the communicator's error handler.
    pub fn raise(&self, comm: Communicator, code: c_int) {
        // SAFETY: a communicator that lives.
        unsafe { (self.call_errhandler)(comm.handle(), code) };
    }
}

unsafe extern "C" fn copied(
    _from: *mut c_void,
    _keyval: c_int,
    _extra: *mut c_void,
    value: *mut c_void,
    copy: *mut *mut c_void,
    keep: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes room for both answers.
    unsafe {
        copy.write(value);
        keep.write(1);
    }
    0
}

unsafe extern "C" fn deleted(_of: *mut c_void, _keyval: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
    0
}

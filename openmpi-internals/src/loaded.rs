//! The functions and variables of the Open MPI in this process, found at run time.
//!
//! No header and no link dependency: a name that is missing switches off what needs it. Everything is looked up in
//! libmpi and what it is linked to, because libmpi itself may have been loaded privately (mpi4py does).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicPtr};

use crate::abi::Choice;
pub use crate::abi::Progress;
use crate::in_front;
use crate::process_name::JOB_NUMBER;
pub use crate::process_name::ProcessName;
use crate::protections::Protections;
use crate::release::of_text;
use crate::symbol::{Function, Variable, address_as};
use crate::symbol_table::LoadedObject;
use crate::v5_0::functions;
use crate::v5_0::layout::mca_var::{
    MCA_BASE_VAR_SCOPE_READONLY, MCA_BASE_VAR_SOURCE_DEFAULT, MCA_BASE_VAR_TYPE_INT, MCA_BASE_VAR_TYPE_STRING,
    OPAL_INFO_LVL_1,
};
use crate::v5_0::layout::mpi_state::{OMPI_MPI_STATE_FINALIZE_STARTED, OMPI_MPI_STATE_INIT_COMPLETED};
use crate::v5_0::variables::OMPI_MPI_STATE;

/// `PMIX_ERR_PROC_TERM_WO_SYNC`, the status under which Open MPI expects to hear of a dead process.
const TERM_WITHOUT_SYNC: c_int = -200;
/// Values of `ompi_mpi_state` between which failures may be reported: after `MPI_Init`, and until `MPI_Finalize` has
/// switched fault tolerance off.
const STATE_RUNNING: std::ops::RangeInclusive<i32> = OMPI_MPI_STATE_INIT_COMPLETED..=OMPI_MPI_STATE_FINALIZE_STARTED;

/// Whether MPI has begun to start, or more. False without Open MPI in this process.
pub fn has_begun() -> bool {
    let state = Library::loaded().and_then(|library| library.variable(OMPI_MPI_STATE));
    // SAFETY: an aligned atomic 32-bit integer that lives as long as libmpi.
    let load = |state| unsafe { AtomicI32::from_ptr(state) }.load(std::sync::atomic::Ordering::Relaxed);
    state.is_some_and(|state| load(state) != 0)
}

/// What ringwatch uses of Open MPI to report failures.
pub struct OpenMpi {
    job: u32,
    state: *const i32,
    proc_for_name: unsafe extern "C" fn(ProcessName) -> *mut c_void,
    proc_failed: unsafe extern "C" fn(*mut c_void, c_int, bool) -> c_int,
}

// SAFETY: addresses of functions and of one global that is only read atomically.
unsafe impl Send for OpenMpi {}
// SAFETY: as above.
unsafe impl Sync for OpenMpi {}

impl OpenMpi {
    /// Finds what is needed for a rank of the job `nspace`; `None` if this Open MPI lacks something.
    pub fn find(nspace: &CStr) -> Option<Self> {
        let library = Library::loaded()?;
        // SAFETY: the types are those of Open MPI 5.0 and 6.0.
        unsafe {
            let convert = library.function(functions::OPAL_PMIX_CONVERT_NSPACE)?;
            let mut job = 0;
            if convert(&mut job, nspace.as_ptr()) != 0 {
                return None;
            }
            Some(Self {
                job,
                state: library.variable(OMPI_MPI_STATE)?,
                proc_for_name: library.function(functions::OMPI_PROC_FOR_NAME)?,
                proc_failed: library.function(functions::OMPI_ERRHANDLER_PROC_FAILED_INTERNAL)?,
            })
        }
    }

    /// Whether failures may be reported now.
    pub fn accepts_failures(&self) -> bool {
        // SAFETY: `ompi_mpi_state` is an aligned atomic 32-bit integer that lives as long as libmpi.
        let state = unsafe { AtomicI32::from_ptr(self.state.cast_mut()) };
        STATE_RUNNING.contains(&state.load(std::sync::atomic::Ordering::Relaxed))
    }

    /// The name of a rank of this rank's own job.
    pub fn name(&self, rank: u32) -> ProcessName {
        ProcessName { job: self.job, rank }
    }

    /// The name of a rank of a job of this mpirun, by the number of that job.
    pub fn name_in(&self, job: u32, rank: u32) -> ProcessName {
        ProcessName { job: self.job & !JOB_NUMBER | job & JOB_NUMBER, rank }
    }

    /// Reports a process of this mpirun as dead; repeated reports do nothing. Only from MPI's progress loop.
    pub fn report(&self, dead: ProcessName) {
        // SAFETY: called in the thread that drives progress; both functions take their own locks.
        unsafe {
            self.report_process((self.proc_for_name)(dead));
        }
    }

    /// The same for a process that Open MPI knows, or null.
    pub fn report_process(&self, process: *mut c_void) {
        if !process.is_null() {
            // SAFETY: as above.
            unsafe { (self.proc_failed)(process, TERM_WITHOUT_SYNC, false) };
        }
    }
}

/// Makes the parameters of a framework known that is not open yet; false if there is none of this name.
pub fn register_framework(framework: Variable<c_void>) -> bool {
    let Some(library) = Library::loaded() else { return false };
    let register = library.function(functions::MCA_BASE_FRAMEWORK_REGISTER);
    let (Some(register), Some(framework)) = (register, library.variable(framework)) else { return false };
    // SAFETY: a framework (mca_base_framework.h).
    unsafe { register(framework, 0) == 0 }
}

/// Has one of MPI's functions `name` call the error handler of an object.
pub fn raise(name: &CStr, object: *mut c_void, code: c_int) {
    let Some(library) = Library::loaded() else { return };
    // SAFETY: callers name a function of that type, and pass an object of its kind that lives.
    unsafe {
        let call: Option<unsafe extern "C-unwind" fn(*mut c_void, c_int) -> c_int> = library.standard(name);
        if let Some(call) = call {
            call(object, code);
        }
    }
}

/// Has `callback` called in every turn of MPI's progress loop; false if this Open MPI has no such loop.
pub fn register_progress(callback: Progress) -> bool {
    progress_function(functions::OPAL_PROGRESS_REGISTER, callback)
}

/// Undoes [`register_progress`]; false if it was not done.
pub fn unregister_progress(callback: Progress) -> bool {
    progress_function(functions::OPAL_PROGRESS_UNREGISTER, callback)
}

/// One turn of MPI's progress loop, if this Open MPI has one.
pub fn turn_progress() {
    let function = Library::loaded().and_then(|library| library.function(functions::OPAL_PROGRESS));
    // SAFETY: called in a function of MPI, outside of progress.
    function.into_iter().for_each(|turn| unsafe { _ = turn() });
}

fn progress_function(function: Function<unsafe extern "C" fn(Progress) -> c_int>, callback: Progress) -> bool {
    let Some(function) = Library::loaded().and_then(|library| library.function(function)) else { return false };
    // SAFETY: the callback lives for ever, since this library is never unloaded.
    unsafe { function(callback) == 0 }
}

/// Release of the Open MPI in this process, e.g. (5, 0, 7).
pub fn release() -> Option<(u32, u32, u32)> {
    let library = Library::loaded()?;
    // SAFETY: the standard's function, which may be called at any time, with a buffer of
    // MPI_MAX_LIBRARY_VERSION_STRING.
    let text = unsafe {
        let function: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int =
            library.standard(c"MPI_Get_library_version")?;
        let mut buffer = [0 as c_char; 256];
        let mut length = 0;
        if function(buffer.as_mut_ptr(), &mut length) != 0 {
            return None;
        }
        CStr::from_ptr(buffer.as_ptr()).to_string_lossy().into_owned()
    };
    of_text(&text)
}

/// An MCA parameter of Open MPI.
pub struct Parameter {
    storage: *mut c_void,
    source: c_int,
}

impl Parameter {
    /// Finds a parameter by project, framework, component and name.
    pub fn find(project: &CStr, framework: &CStr, component: Option<&CStr>, name: Option<&CStr>) -> Option<Self> {
        let library = Library::loaded()?;
        let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: signatures of mca_base_var.h, the same in 5.0 and 6.0; the storage belongs to a registered variable.
        unsafe {
            let find = library.function(functions::MCA_BASE_VAR_FIND)?;
            let get = library.function(functions::MCA_BASE_VAR_GET_VALUE)?;
            let index = find(project.as_ptr(), framework.as_ptr(), pointer(component), pointer(name));
            let mut storage = std::ptr::null_mut();
            let mut source = -1;
            if index < 0 || get(index, &mut storage, &mut source, std::ptr::null_mut()) != 0 || storage.is_null() {
                return None;
            }
            Some(Self { storage, source })
        }
    }

    /// Whether it has its default: neither the user nor a parameter file has set it.
    pub fn is_default(&self) -> bool {
        self.source == MCA_BASE_VAR_SOURCE_DEFAULT
    }

    /// Value of a string parameter.
    pub fn text(&self) -> String {
        // SAFETY: the storage of a string parameter is a `char *`, null or terminated.
        let text = unsafe { *self.storage.cast::<*const c_char>() };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Changes an integer parameter.
    pub fn set_integer(&self, value: c_int) {
        // SAFETY: the storage of an integer parameter is an `int`.
        unsafe { self.storage.cast::<c_int>().write(value) }
    }

    /// Changes a boolean parameter.
    pub fn set_bool(&self, value: bool) {
        // SAFETY: the storage of a boolean parameter is a `bool`.
        unsafe { self.storage.cast::<bool>().write(value) }
    }
}

/// Registers an integer parameter of a component that is set with words; `storage` holds the default and receives the
/// value. Open MPI itself refuses other words, with a message that lists these.
pub fn register_choice(
    component: *const c_void,
    name: &CStr,
    help: &CStr,
    values: &[(c_int, &'static CStr)],
    storage: &'static AtomicI32,
) -> bool {
    let Some(library) = Library::loaded() else { return false };
    let mut list: Vec<Choice> =
        values.iter().map(|(value, word)| Choice { value: *value, word: word.as_ptr() }).collect();
    list.push(Choice { value: 0, word: std::ptr::null() });
    // SAFETY: signatures of mca_base_var.h and mca_base_var_enum.h of Open MPI 5.0; the list is copied, the storage and
    // the words live for ever.
    unsafe {
        let create = library.function(functions::MCA_BASE_VAR_ENUM_CREATE);
        let register = library.function(functions::MCA_BASE_COMPONENT_VAR_REGISTER);
        let (Some(create), Some(register)) = (create, register) else { return false };
        let mut choices = std::ptr::null_mut();
        create(name.as_ptr(), list.as_ptr(), &mut choices) == 0
            && register(
                component,
                name.as_ptr(),
                help.as_ptr(),
                MCA_BASE_VAR_TYPE_INT,
                choices,
                0,
                0,
                OPAL_INFO_LVL_1,
                MCA_BASE_VAR_SCOPE_READONLY,
                storage.as_ptr().cast(),
            ) >= 0
    }
}

/// Registers an integer parameter of a component; `storage` holds the default and receives the value.
pub fn register_number(component: *const c_void, name: &CStr, help: &CStr, storage: &'static AtomicI32) -> bool {
    register_plain(component, name, help, MCA_BASE_VAR_TYPE_INT, storage.as_ptr().cast())
}

/// Registers a text parameter of a component; `storage` is null where it is not set, and belongs to Open MPI.
pub fn register_text(component: *const c_void, name: &CStr, help: &CStr, storage: &'static AtomicPtr<c_char>) -> bool {
    register_plain(component, name, help, MCA_BASE_VAR_TYPE_STRING, storage.as_ptr().cast())
}

/// `place` has the type of this kind and lives for ever.
fn register_plain(component: *const c_void, name: &CStr, help: &CStr, kind: c_int, place: *mut c_void) -> bool {
    let register = Library::loaded().and_then(|library| library.function(functions::MCA_BASE_COMPONENT_VAR_REGISTER));
    let Some(register) = register else { return false };
    let (nothing, scope) = (std::ptr::null_mut(), MCA_BASE_VAR_SCOPE_READONLY);
    // SAFETY: the signature of mca_base_var.h of Open MPI 5.0; the storage lives for ever.
    unsafe {
        register(component, name.as_ptr(), help.as_ptr(), kind, nothing, 0, 0, OPAL_INFO_LVL_1, scope, place) >= 0
    }
}

/// A loaded library: libmpi, if nothing else is said.
#[derive(Clone)]
pub struct Library(*mut c_void);

impl Library {
    /// `None` before MPI is there.
    pub fn loaded() -> Option<Self> {
        // SAFETY: asks for libraries that are loaded already; the handle is kept for ever, as libmpi is.
        let open = |name: &CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        [c"libmpi.so.40", c"libopen_mpi.so.40"].into_iter().map(open).find(|handle| !handle.is_null()).map(Self)
    }

    /// The loaded library that has a function or a variable.
    pub fn with(symbol: *mut c_void) -> Option<Self> {
        // SAFETY: any address may be asked for; the name is that of a loaded library, terminated.
        unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            if libc::dladdr(symbol, &mut info) == 0 || info.dli_fname.is_null() {
                return None;
            }
            let handle = libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            (!handle.is_null()).then_some(Self(handle))
        }
    }

    /// The program itself.
    #[cfg(test)]
    pub fn of_this_program() -> Self {
        // SAFETY: no name stands for the program.
        Self(unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) })
    }

    /// The same for the same library.
    pub fn id(&self) -> usize {
        self.0 as usize
    }

    /// Has this library call `ours` wherever it calls `name`, which is its own or of a library below it, by its table
    /// of jumps. Returns what it has called until now, which another library may have defined; `None` if it has no such
    /// calls.
    ///
    /// # Safety
    /// `ours` is a function of the same type, which stays for ever.
    pub(crate) unsafe fn replace(&self, name: &CStr, ours: *const c_void) -> Option<*const c_void> {
        // SAFETY: the handle is that of a loaded library; the rest is required of the caller.
        unsafe { LoadedObject::of_handle(self.0)?.redirect(name, ours, &mut Protections::default()) }
    }

    /// Has this library call `ours` wherever it calls a function, by its table of jumps. False if it has no such calls.
    ///
    /// # Safety
    /// `ours` stays for ever, and does for its callers what the function does.
    pub unsafe fn stand<F: Copy>(&self, function: Function<F>, ours: F) -> bool {
        let ours = function.by(ours);
        // SAFETY: as required of the caller.
        unsafe { self.replace(ours.name, ours.function) }.is_some()
    }

    /// A function.
    pub fn function<F: Copy>(&self, function: Function<F>) -> Option<F> {
        // SAFETY: a name has its type.
        unsafe { self.standard(function.name()) }
    }

    /// A function that is not Open MPI's own, by its name.
    ///
    /// # Safety
    /// `F` is the type of a pointer to that function.
    pub unsafe fn standard<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: as required of the caller.
        self.symbol(name).map(|address| unsafe { address_as(address) })
    }

    /// Address of a variable.
    pub fn variable<T>(&self, variable: Variable<T>) -> Option<*mut T> {
        self.symbol(variable.name()).map(<*mut _>::cast)
    }

    /// Address of a symbol; if ringwatch interposes on it, the address of the library's own function.
    pub fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        self.present(name).map(|address| in_front::stock(address).cast_mut())
    }

    /// The same as the program sees it: the outermost interposed function.
    pub fn present(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a valid handle and a terminated name.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// Address of a predefined object: a program that names it has it in its own memory, and so have all libraries
    /// then.
    pub fn predefined<T>(&self, variable: Variable<T>) -> Option<*mut T> {
        // SAFETY: a terminated name, looked for as the dynamic linker does.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, variable.name().as_ptr()) };
        if address.is_null() { self.variable(variable) } else { Some(address.cast()) }
    }
}

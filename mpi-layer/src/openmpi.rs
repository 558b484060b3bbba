//! The functions and variables of the Open MPI in this process, found at run time.
//!
//! No header and no link dependency: a name that is missing switches off what needs it. Everything is looked up in
//! libmpi and what it is linked to, because libmpi itself may have been loaded privately (mpi4py does).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::AtomicI32;

use plthook::ObjectFile;
use rdma_heartbeat::versions;

/// `PMIX_ERR_PROC_TERM_WO_SYNC`, the status under which Open MPI expects to hear of a dead process.
const TERM_WITHOUT_SYNC: c_int = -200;
/// `MCA_BASE_VAR_SOURCE_DEFAULT`: nobody has set the parameter.
const SOURCE_DEFAULT: c_int = 0;
/// `MCA_BASE_VAR_TYPE_INT`, `OPAL_INFO_LVL_1` and `MCA_BASE_VAR_SCOPE_READONLY`.
const TYPE_INT: c_int = 0;
const LEVEL_BASIC: c_int = 0;
const SCOPE_READONLY: c_int = 1;
/// Values of `ompi_mpi_state` between which failures may be reported: after `MPI_Init`, and until `MPI_Finalize` has
/// switched fault tolerance off.
const STATE_RUNNING: std::ops::RangeInclusive<i32> = 2..=3;

/// The bits of Open MPI's name of a job that tell the jobs of one mpirun apart (`opal_pmix_convert_nspace`).
const JOB_NUMBER: u32 = 0xffff;

/// `opal_process_name_t`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProcessName {
    job: u32,
    rank: u32,
}

impl ProcessName {
    /// The name of a rank of a job, by its number.
    pub fn new(job: u32, rank: u32) -> Self {
        Self { job, rank }
    }

    /// Whether both processes were started by the same mpirun.
    pub fn has_same_mpirun(self, other: Self) -> bool {
        self.job & !JOB_NUMBER == other.job & !JOB_NUMBER
    }

    /// Whether both processes were started at once.
    pub fn has_same_job(self, other: Self) -> bool {
        self.job == other.job
    }

    /// The same for everybody.
    pub fn bytes(self) -> [u8; 8] {
        (u64::from(self.job) << 32 | u64::from(self.rank)).to_le_bytes()
    }
}

/// A part of MPI's progress loop.
pub type Progress = unsafe extern "C-unwind" fn() -> c_int;

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
            let convert: unsafe extern "C" fn(*mut u32, *const c_char) -> c_int =
                library.function(c"opal_pmix_convert_nspace")?;
            let mut job = 0;
            if convert(&mut job, nspace.as_ptr()) != 0 {
                return None;
            }
            Some(Self {
                job,
                state: library.symbol(c"ompi_mpi_state")?.cast(),
                proc_for_name: library.function(c"ompi_proc_for_name")?,
                proc_failed: library.function(c"ompi_errhandler_proc_failed_internal")?,
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

    /// Reports a rank of a job of this mpirun, by the number of that job, as dead; repeated reports do nothing. Only from
    /// MPI's progress loop.
    pub fn report(&self, job: u32, rank: u32) {
        let job = self.job & !JOB_NUMBER | job & JOB_NUMBER;
        // SAFETY: called in the thread that drives progress; both functions take their own locks.
        unsafe {
            self.report_process((self.proc_for_name)(ProcessName { job, rank }));
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
pub fn register_framework(name: &CStr) -> bool {
    let Some(library) = Library::loaded() else { return false };
    // SAFETY: the type is that of mca_base_framework.h, and the symbol is a framework.
    unsafe {
        let register: Option<unsafe extern "C" fn(*mut c_void, c_int) -> c_int> =
            library.function(c"mca_base_framework_register");
        let (Some(register), Some(framework)) = (register, library.symbol(name)) else { return false };
        register(framework, 0) == 0
    }
}

/// Has one of MPI's functions `name` call the error handler of an object.
pub fn raise(name: &CStr, object: *mut c_void, code: c_int) {
    let Some(library) = Library::loaded() else { return };
    // SAFETY: callers name a function of that type, and pass an object of its kind that lives.
    unsafe {
        let call: Option<unsafe extern "C-unwind" fn(*mut c_void, c_int) -> c_int> = library.function(name);
        if let Some(call) = call {
            call(object, code);
        }
    }
}

/// Has `callback` called in every turn of MPI's progress loop; false if this Open MPI has no such loop.
pub fn register_progress(callback: Progress) -> bool {
    progress_function(c"opal_progress_register", callback)
}

/// Undoes [`register_progress`]; false if it was not done.
pub fn unregister_progress(callback: Progress) -> bool {
    progress_function(c"opal_progress_unregister", callback)
}

/// One turn of MPI's progress loop, if this Open MPI has one.
pub fn turn_progress() {
    // SAFETY: a function without arguments.
    let function: Option<Progress> =
        unsafe { Library::loaded().and_then(|library| library.function(c"opal_progress")) };
    // SAFETY: called in a function of MPI, outside of progress.
    function.into_iter().for_each(|turn| unsafe { _ = turn() });
}

/// Where the library is loaded that has this address.
pub fn base_of(address: *const c_void) -> Option<*const c_void> {
    // SAFETY: any address may be asked for.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address, &mut info) != 0).then_some(info.dli_fbase.cast_const())
    }
}

/// Whether both addresses are in the same loaded library.
pub fn are_of_one_library(one: *const c_void, other: *const c_void) -> bool {
    base_of(one).is_some_and(|first| Some(first) == base_of(other))
}

fn progress_function(name: &CStr, callback: Progress) -> bool {
    let Some(library) = Library::loaded() else { return false };
    // SAFETY: both functions take a progress callback and return a status.
    let function: Option<unsafe extern "C" fn(Progress) -> c_int> = unsafe { library.function(name) };
    let Some(function) = function else { return false };
    // SAFETY: the callback lives for ever, since this library is never unloaded.
    unsafe { function(callback) == 0 }
}

/// Release of the Open MPI in this process, e.g. (5, 0, 7).
pub fn release() -> Option<(u32, u32, u32)> {
    let library = Library::loaded()?;
    // SAFETY: the standard's function, which may be called at any time, with a buffer of MPI_MAX_LIBRARY_VERSION_STRING.
    let text = unsafe {
        let function: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int =
            library.function(c"MPI_Get_library_version")?;
        let mut buffer = [0 as c_char; 256];
        let mut length = 0;
        if function(buffer.as_mut_ptr(), &mut length) != 0 {
            return None;
        }
        CStr::from_ptr(buffer.as_ptr()).to_string_lossy().into_owned()
    };
    versions::of_open_mpi(&text)
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
            let find: unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, *const c_char) -> c_int =
                library.function(c"mca_base_var_find")?;
            let get: unsafe extern "C" fn(c_int, *mut *mut c_void, *mut c_int, *mut *const c_char) -> c_int =
                library.function(c"mca_base_var_get_value")?;
            let index = find(project.as_ptr(), framework.as_ptr(), pointer(component), pointer(name));
            let mut storage = std::ptr::null_mut();
            let mut source = -1;
            if index < 0 || get(index, &mut storage, &mut source, std::ptr::null_mut()) != 0 || storage.is_null() {
                return None;
            }
            Some(Self { storage, source })
        }
    }

    /// Whether nobody has set it: not the user, not a parameter file.
    pub fn is_default(&self) -> bool {
        self.source == SOURCE_DEFAULT
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
        let create: Option<unsafe extern "C" fn(*const c_char, *const Choice, *mut *mut c_void) -> c_int> =
            library.function(c"mca_base_var_enum_create");
        let register: Option<RegisterVariable> = library.function(c"mca_base_component_var_register");
        let (Some(create), Some(register)) = (create, register) else { return false };
        let mut choices = std::ptr::null_mut();
        create(name.as_ptr(), list.as_ptr(), &mut choices) == 0
            && register(
                component,
                name.as_ptr(),
                help.as_ptr(),
                TYPE_INT,
                choices,
                0,
                0,
                LEVEL_BASIC,
                SCOPE_READONLY,
                storage.as_ptr().cast(),
            ) >= 0
    }
}

/// `mca_base_var_enum_value_t`.
#[repr(C)]
struct Choice {
    value: c_int,
    word: *const c_char,
}

type RegisterVariable = unsafe extern "C" fn(
    *const c_void,
    *const c_char,
    *const c_char,
    c_int,
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    *mut c_void,
) -> c_int;

/// The loaded libmpi.
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

    /// Has this library call `ours` wherever it calls `name`, which is its own or of a library below it, by its table of jumps.
    /// Returns whether it does.
    ///
    /// # Safety
    /// `ours` is a function of the same type, which stays for ever.
    pub unsafe fn redirect(&self, name: &CStr, ours: *const c_void) -> bool {
        // SAFETY: as required of the caller.
        unsafe { self.replace(name, ours) }.is_some()
    }

    /// The same, and returns what it has called until now, which another library may have defined.
    ///
    /// # Safety
    /// As of [`Library::redirect`].
    pub unsafe fn replace(&self, name: &CStr, ours: *const c_void) -> Option<*const c_void> {
        // SAFETY: the handle is that of a loaded library.
        let object = unsafe { ObjectFile::open_by_handle(self.0) }.ok()?;
        // SAFETY: as required of the caller.
        let mut replaced = unsafe { object.replace(&name.to_string_lossy(), ours.cast()) }.ok()?;
        replaced.discard();
        Some(replaced.original_address().cast())
    }

    /// The same for each of several.
    ///
    /// # Safety
    /// As of [`Library::redirect`].
    pub unsafe fn redirect_all(&self, functions: &[(&CStr, *const c_void)]) {
        for (name, ours) in functions {
            // SAFETY: as required of the caller.
            unsafe { self.redirect(name, *ours) };
        }
    }

    /// A function by its name.
    ///
    /// # Safety
    /// `F` is the type of a pointer to that function.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) }
        // SAFETY: as required of the caller; sizes are equal.
        self.symbol(name).map(|address| unsafe { std::mem::transmute_copy(&address) })
    }

    /// Address of a variable or a function.
    pub fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a valid handle and a terminated name.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// Address of a predefined object: a program that names it has it in its own memory, and so have all libraries then.
    pub fn predefined(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a terminated name, looked for as the dynamic linker does.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        if address.is_null() { self.symbol(name) } else { Some(address) }
    }
}

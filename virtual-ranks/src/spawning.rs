//! One more process of the program, which the runtime starts where it has room: it is a job of its own.
//!
//! `MPI_Comm_spawn` would connect it with this process, and both would wait for each other. The runtime's own function
//! does not wait.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::{env, fs, io};

use openmpi_internals::loaded::Library;
use pmix_sys::{PMIX_STRING, pmix_info_t, pmix_key_t, pmix_status_t, pmix_value__bindgen_ty_1, pmix_value_t};

/// Variables of the environment that belong to one process or node.
const OF_PROCESS: [&str; 10] =
    ["PMIX_", "PRTE_", "OMPI_", "RINGWATCH_", "HOSTNAME=", "PWD=", "OLDPWD=", "SHLVL=", "_=", "SLURM_"];
/// Those of them that all processes have.
const OF_ALL: &str = "OMPI_MCA_";

/// The runtime has not answered.
const OPEN: i32 = i32::MIN;
/// What the runtime has said to the last spawn.
static ANSWER: AtomicI32 = AtomicI32::new(OPEN);

/// `pmix_app_t`
#[repr(C)]
struct App {
    command: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    folder: *const c_char,
    processes: c_int,
    infos: *const pmix_info_t,
    infos_count: usize,
}

type Spawn = unsafe extern "C" fn(
    *const pmix_info_t,
    usize,
    *const App,
    usize,
    unsafe extern "C" fn(pmix_status_t, *const c_char, *mut c_void),
    *mut c_void,
) -> pmix_status_t;

/// How this process was started.
#[derive(Clone, Debug)]
pub struct CommandLine {
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    folder: CString,
}

/// Terminated strings, as the kernel shows them.
fn strings(path: &str) -> io::Result<Vec<CString>> {
    let bytes = fs::read(path)?;
    let strings = bytes.split_inclusive(|byte| *byte == 0).filter_map(|one| CStr::from_bytes_with_nul(one).ok());
    Ok(strings.map(CStr::to_owned).collect())
}

/// Whether all processes of the program have a variable with the same value.
fn is_common(variable: &CStr) -> bool {
    let bytes = variable.to_bytes();
    bytes.starts_with(OF_ALL.as_bytes()) || !OF_PROCESS.iter().any(|prefix| bytes.starts_with(prefix.as_bytes()))
}

/// The file that the first argument names, if that is this program.
fn named(argument: &CStr, folder: &Path, program: &Path) -> Option<PathBuf> {
    let name = Path::new(std::ffi::OsStr::from_bytes(argument.to_bytes()));
    let is_it = |path: &PathBuf| fs::canonicalize(path).is_ok_and(|path| path == program);
    if name.components().count() > 1 {
        return Some(folder.join(name)).filter(is_it);
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_it)
}

impl CommandLine {
    /// That of this process.
    ///
    /// # Errors
    /// The system's.
    pub fn of_this_process() -> io::Result<Self> {
        let (program, folder) = (fs::canonicalize("/proc/self/exe")?, env::current_dir()?);
        let mut arguments = strings("/proc/self/cmdline")?;
        let found = arguments.first().and_then(|first| named(first, &folder, &program));
        let text = |path: PathBuf| CString::new(path.into_os_string().into_vec()).map_err(io::Error::from);
        let is_found = found.is_some();
        let program = text(found.unwrap_or(program))?;
        // PMIx puts the program before arguments that begin with another name.
        match arguments.first_mut() {
            Some(first) if !is_found => *first = program.clone(),
            Some(_) => {}
            None => arguments.push(program.clone()),
        }
        let environment = strings("/proc/self/environ")?.into_iter().filter(|one| is_common(one)).collect();
        Ok(Self { program, arguments, environment, folder: text(folder)? })
    }

    /// Starts such a process with one more variable in its environment. [`answer`] tells what comes of it.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn spawn(&self, variable: CString) -> Result<(), String> {
        let library = Library::loaded().ok_or("libmpi is not loaded")?;
        // SAFETY: its type (pmix.h).
        let spawn: Spawn = unsafe { library.standard(c"PMIx_Spawn_nb") }.ok_or("PMIx has no PMIx_Spawn_nb")?;
        let list = |strings: &mut dyn Iterator<Item = &CString>| -> Vec<*const c_char> {
            strings.map(|one| one.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let arguments = list(&mut self.arguments.iter());
        let environment = list(&mut self.environment.iter().chain([&variable]));
        let app = App {
            command: self.program.as_ptr(),
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            folder: self.folder.as_ptr(),
            processes: 1,
            infos: std::ptr::null(),
            infos_count: 0,
        };
        // The node of the dead has a slot; where nodes are lost there may be none.
        let infos =
            [info(c"pmix.pers", c"ompi5"), info(c"pmix.mapby", c"slot:OVERSUBSCRIBE"), info(c"pmix.bindto", c"none")];
        ANSWER.store(OPEN, Ordering::Release);
        // SAFETY: PMIx copies all of that before it returns.
        match unsafe { spawn(infos.as_ptr(), infos.len(), &app, 1, answered, std::ptr::null_mut()) } {
            0 => Ok(()),
            status => Err(format!("the runtime refuses it with the status {status}")),
        }
    }
}

fn info(key: &CStr, text: &'static CStr) -> pmix_info_t {
    let mut bytes: pmix_key_t = [0; size_of::<pmix_key_t>()];
    bytes.iter_mut().zip(key.to_bytes()).for_each(|(place, byte)| *place = c_char::from_ne_bytes([*byte]));
    let data = pmix_value__bindgen_ty_1 { string: text.as_ptr().cast_mut() };
    pmix_info_t { key: bytes, flags: 0, value: pmix_value_t { type_: PMIX_STRING as u16, data } }
}

/// In PMIx's own thread.
unsafe extern "C" fn answered(status: pmix_status_t, _nspace: *const c_char, _: *mut c_void) {
    ANSWER.store(status, Ordering::Release);
}

/// What has come of the last spawn: `None` if that is not known, or an error of PMIx.
pub fn answer() -> Option<Result<(), c_int>> {
    match ANSWER.load(Ordering::Acquire) {
        OPEN => None,
        0 => Some(Ok(())),
        status => Some(Err(status)),
    }
}

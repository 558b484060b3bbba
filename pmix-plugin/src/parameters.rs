//! Registers the parameters with PMIx, and reads their values.

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use node_abi::parameters::{DEFINITIONS, Invalid, Settings, choose_event_loggers, read};
use node_abi::spelling::{OF_RANKS, VARIABLES, meant, names_in_file, names_in_words};

/// Options of `mpirun` that name files with further options.
const TUNE: [&str; 4] = ["--tune", "-tune", "--am", "-am"];
/// Open MPI's parameter files for all users: Debian's, and that of an installation in `/usr/local`.
const SYSTEM_FILES: [&str; 2] = ["/etc/openmpi/openmpi-mca-params.conf", "/usr/local/etc/openmpi-mca-params.conf"];

/// Places of the values: PMIx writes to them, and they are never freed.
struct Storage([*mut c_char; DEFINITIONS.len()]);

// SAFETY: PMIx writes during registration only, which it does in one thread; later accesses only read.
unsafe impl Send for Storage {}

static STORAGE: Mutex<Option<&'static mut Storage>> = Mutex::new(None);

/// Registers every parameter.
pub fn register() {
    let mut guard = STORAGE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let storage = guard.get_or_insert_with(|| Box::leak(Box::new(Storage([std::ptr::null_mut(); DEFINITIONS.len()]))));
    for (definition, slot) in DEFINITIONS.iter().zip(storage.0.iter_mut()) {
        let (Ok(name), Ok(help), Ok(default)) =
            (CString::new(definition.name), CString::new(definition.help), CString::new(definition.default))
        else {
            continue;
        };
        *slot = default.into_raw();
        // SAFETY: terminated strings; the storage is never freed. PMIx copies name, help and the default.
        unsafe { c_shims::pmix::rw_pmix_parameter(name.as_ptr(), help.as_ptr(), slot) };
    }
}

/// Refuses unknown names with ringwatch's prefix: in the environment, on the command line of `mpirun` and in the files
/// of its `--tune`, and in the parameter files of PMIx and Open MPI.
///
/// # Errors
/// A sentence with the first unknown name, and the most similar parameter.
pub fn check_names() -> Result<(), String> {
    let own = DEFINITIONS.map(|definition| format!("psensor_ringwatch_{}", definition.name));
    let known: Vec<&str> = own.iter().map(String::as_str).chain(OF_RANKS).collect();
    // SAFETY: PMIx has read its files before it opens a component; the result is null or a terminated string.
    let in_file = |index| unsafe {
        let name = c_shims::pmix::rw_pmix_name_in_parameter_file(index);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    };
    let in_environment = std::env::vars_os().filter_map(|(name, _)| {
        let name = name.into_string().ok()?;
        VARIABLES.iter().find_map(|prefix| name.strip_prefix(prefix)).map(ToOwned::to_owned)
    });
    let names = in_environment.chain((0..).map_while(in_file)).chain(on_command_line()).chain(in_files_of_open_mpi());
    let mut misspelt = names.filter_map(|name| meant(&name, &known).map(|meant| (name, meant)));
    misspelt.next().map_or(Ok(()), |(name, meant)| Err(format!("there is no parameter {name}: the nearest is {meant}")))
}

/// Names that the command line of this process sets, and the files that it gives to `--tune`.
fn on_command_line() -> Vec<String> {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let words: Vec<&str> = line.split('\0').collect();
    let files = words.windows(2).filter(|pair| TUNE.contains(&pair[0])).flat_map(|pair| pair[1].split(','));
    let text: String = files.filter_map(|path| std::fs::read_to_string(path).ok()).map(|text| text + "\n").collect();
    let in_files = names_in_words(text.split_whitespace());
    names_in_words(words.iter().copied()).into_iter().chain(in_files).map(ToOwned::to_owned).collect()
}

/// Names in Open MPI's parameter files, which the ranks read: the user's and the system's.
fn in_files_of_open_mpi() -> Vec<String> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".openmpi/mca-params.conf"));
    let paths = home.into_iter().chain(SYSTEM_FILES.map(PathBuf::from));
    let texts: Vec<String> = paths.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    texts.iter().flat_map(|text| names_in_file(text)).map(ToOwned::to_owned).collect()
}

/// The selected way to replace ranks, if the command line or the environment sets one.
pub fn recovery() -> Option<String> {
    std::env::var("OMPI_MCA_hook_ringwatch_recovery").ok()
}

/// The user's settings.
///
/// # Errors
/// The first value that cannot be used.
pub fn settings() -> Result<Settings, Invalid> {
    let guard = STORAGE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut values = DEFINITIONS.map(|definition| definition.default.to_owned());
    if let Some(storage) = guard.as_ref() {
        for (value, slot) in values.iter_mut().zip(storage.0) {
            if !slot.is_null() {
                // SAFETY: PMIx stores terminated strings here.
                *value = unsafe { CStr::from_ptr(slot) }.to_string_lossy().into_owned();
            } else {
                value.clear();
            }
        }
    }
    choose_event_loggers(&mut values, recovery().as_deref());
    read(&values)
}

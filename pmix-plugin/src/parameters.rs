//! Registers the parameters with PMIx, and reads their values.

use std::ffi::{CStr, CString, c_char};
use std::sync::Mutex;

use node_abi::parameters::{DEFINITIONS, Invalid, Settings, choose_event_loggers, read};
use node_abi::spelling::{OF_RANKS, meant};

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

/// Refuses unknown names with ringwatch's prefix, in the environment, where `mpirun` puts its command line's
/// parameters, and in PMIx's parameter files.
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
        ["PMIX_MCA_", "OMPI_MCA_"].iter().find_map(|prefix| name.strip_prefix(prefix)).map(ToOwned::to_owned)
    });
    let names = in_environment.chain((0..).map_while(in_file));
    let mut misspelt = names.filter_map(|name| meant(&name, &known).map(|meant| (name, meant)));
    misspelt.next().map_or(Ok(()), |(name, meant)| Err(format!("there is no parameter {name}: the nearest is {meant}")))
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

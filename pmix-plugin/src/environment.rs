//! What kind of process this is and what it was asked for.

use std::ffi::{CStr, CString, c_int};
use std::path::PathBuf;

use rdma_heartbeat::{request, versions};

/// Open MPI's search path for components, as an environment variable.
const COMPONENT_PATH: &str = "OMPI_MCA_mca_base_component_path";

/// Exit status of prterun when a parameter cannot be used.
pub const LAUNCH_REFUSED: c_int = 2;

/// Whether the job asked for fault tolerance: `mpirun --with-ft` leaves this in prterun's environment.
pub fn wants_fault_tolerance() -> bool {
    request::is_yes(&std::env::var("OMPI_MCA_mpi_ft_enable").unwrap_or_default())
}

/// Whether this process is prterun, which is one program with the persistent `prte`, told apart by the name it was
/// started under.
pub fn is_launcher() -> bool {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    matches!(name.trim(), "prterun" | "mpirun" | "mpiexec")
}

/// Whether prterun starts the ranks stopped, for a debugger.
pub fn starts_ranks_stopped() -> bool {
    std::fs::read("/proc/self/cmdline").is_ok_and(|line| request::starts_ranks_stopped(&line))
}

/// The remote shell with which PRRTE starts its daemons, with its options: the first of those that it is told to try.
pub fn remote_shell() -> String {
    request::first_shell(&std::env::var("PRTE_MCA_plm_ssh_agent").unwrap_or_default()).to_owned()
}

fn executable() -> Option<PathBuf> {
    std::fs::read_link("/proc/self/exe").ok()
}

/// Whether PMIx will open the component `pnet/ringwatch`: the framework is opened, and its parameter registered, only after
/// this one's.
pub fn has_net_component() -> bool {
    // SAFETY: PMIx has read its files before it opens a component; what it returns is null or a terminated string.
    let in_file = || unsafe {
        let value = c_shims::pmix::rw_pmix_in_parameter_file(c"pnet".as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
    };
    let list = std::env::var("PMIX_MCA_pnet").ok().or_else(in_file).unwrap_or_default();
    request::leaves_in(&list, "ringwatch")
}

/// Removes the folder that this runtime daemon has made for its session by now (`prterun.<host>.<pid>.<uid>`, or `prted`), which
/// it would remove itself only at its own end in order.
pub fn remove_session_folder() {
    // SAFETY: never fails.
    let own = format!(".{}.{}", std::process::id(), unsafe { libc::geteuid() });
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if ["prterun.", "prted."].iter().any(|kind| name.starts_with(kind)) && name.ends_with(&own) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Refuses a release of PMIx other than the one whose headers the shims were compiled against.
///
/// # Errors
/// A sentence for the user.
pub fn check_release() -> Result<(), String> {
    // SAFETY: both return constant terminated strings.
    let (loaded, built) = unsafe {
        (CStr::from_ptr(c_shims::pmix::PMIx_Get_version()), CStr::from_ptr(c_shims::pmix::rw_pmix_built_for()))
    };
    let (loaded, built) = (loaded.to_string_lossy(), built.to_string_lossy());
    if versions::is_pmix(&loaded, &built) {
        return Ok(());
    }
    Err(format!(
        "the plugin was built for PMIx {built} and is loaded into '{loaded}': install the build for this release"
    ))
}

/// Path of `ringwatchd`: as configured, else beside this program, else the first in PATH.
///
/// # Errors
/// A sentence for the user that says where it was looked for.
pub fn find_daemon(configured: &str) -> Result<PathBuf, String> {
    if !configured.is_empty() {
        let path = PathBuf::from(configured);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!("psensor_ringwatch_daemon names {configured}, which is no file on this node"))
        };
    }
    let beside = executable().and_then(|path| Some(path.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = beside.into_iter().chain(std::env::split_paths(&path)).collect();
    folders
        .iter()
        .map(|folder| folder.join("ringwatchd"))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| "ringwatchd is neither beside prted nor in PATH on this node: install ringwatch here, or set psensor_ringwatch_daemon".into())
}

/// Where ranks look for components of Open MPI, if somebody told them to look where PMIx keeps its own.
///
/// Debian's `pmix-mca-params.conf` sets `mca_base_component_path` for PMIx, PRRTE forwards it to the ranks under Open
/// MPI's name, and there it replaces Open MPI's default. A path that the user chose is left alone.
pub fn component_path() -> Option<(String, String)> {
    let chosen = std::env::var(COMPONENT_PATH).unwrap_or_default();
    let own = own_file().and_then(|file| Some(file.parent()?.to_owned()))?;
    (chosen.is_empty() || own == std::path::Path::new(&chosen))
        .then(|| (COMPONENT_PATH.to_owned(), "SYSTEM_DEFAULT:USER_DEFAULT".to_owned()))
}

/// Whether the ranks will open the component `hook/ringwatch`: the user may exclude it, or name others only.
pub fn ranks_have_component() -> bool {
    request::leaves_in(&std::env::var("OMPI_MCA_hook").unwrap_or_default(), "ringwatch")
}

/// The file this library was loaded from.
fn own_file() -> Option<PathBuf> {
    // SAFETY: asks for the object that contains this very function; the name it returns is terminated.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(own_file as *const libc::c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(PathBuf::from(CStr::from_ptr(info.dli_fname).to_str().ok()?))
    }
}

/// Keeps this library in the process: PMIx unloads components while the supervisor thread may still run.
pub fn stay_loaded() {
    let Some(name) = own_file().and_then(|file| CString::new(file.into_os_string().into_encoded_bytes()).ok()) else {
        return;
    };
    // SAFETY: a terminated name of an object that is loaded already; raises its reference count for ever.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NODELETE) };
}

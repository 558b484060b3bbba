//! What kind of process this is and what it was asked for.

use std::ffi::{CStr, CString, c_int};
use std::path::PathBuf;

use nix::sys::resource::{Resource, getrlimit};
use rdma_heartbeat::logging::host;
use rdma_heartbeat::{leftovers, request, versions};

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

/// How many daemons prterun may be connected with, each by a descriptor, and have some left for its ranks and its own use.
pub fn most_connections() -> u16 {
    // PRRTE's third power of it is an `int` (`radix_tree`).
    const MOST: u64 = 1024;
    let open = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    u16::try_from((open / 4).min(MOST)).unwrap_or(0)
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

/// Removes the folder of this runtime daemon's session.
pub fn remove_session_folder() {
    leftovers::remove_session(&std::env::temp_dir(), &host(), std::process::id());
}

/// The same when the process exits: PRRTE 3.0.8 removes it only with the last reference to its own job, and gives up where
/// something comes or goes meanwhile (`session_dir.c`).
pub fn remove_session_folder_at_exit() {
    extern "C" fn remove() {
        let _ = std::panic::catch_unwind(remove_session_folder);
    }
    // SAFETY: a function that stays loaded as long as this library, see `stay_loaded`.
    unsafe { libc::atexit(remove) };
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

//! Determines the kind of this process, and its requested settings.

use std::ffi::{CStr, CString, c_int};
use std::path::PathBuf;

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{AccessFlags, access};
use node_abi::{leftovers, request, versions};
use platform::early_clocks;
use platform::say::host;

/// Open MPI's search path for components, as an environment variable.
const COMPONENT_PATH: &str = "OMPI_MCA_mca_base_component_path";

/// Parameter that prterun gives to daemons of a fault-tolerant job: their plugins must report to it.
pub const REPORTS: &CStr = c"ringwatch_reports";

/// Names of `ringwatchd`. The first has the right to real-time priority, and only members of a group may run it
/// (`scripts/install --priority GROUP`).
const DAEMONS: [&str; 2] = ["ringwatchd-priority", "ringwatchd"];

/// Exit status of prterun when a parameter cannot be used.
pub const LAUNCH_REFUSED: c_int = 2;

/// Whether the job asked for fault tolerance: `mpirun --with-ft` leaves this in prterun's environment.
pub fn wants_fault_tolerance() -> bool {
    request::is_yes(&std::env::var("OMPI_MCA_mpi_ft_enable").unwrap_or_default())
}

/// Whether this process is prterun. It is the same program as the persistent `prte`; only its name differs.
pub fn is_launcher() -> bool {
    matches!(own_name().trim(), "prterun" | "mpirun" | "mpiexec")
}

/// Whether this process is prterun or one of its daemons. Other PMIx servers, such as `slurmstepd`, which runs as root,
/// take no part in a job and do not trust its launch data.
pub fn is_runtime_daemon() -> bool {
    is_launcher() || is_prted()
}

/// Whether this process is one of the daemons that prterun starts.
pub fn is_prted() -> bool {
    own_name().trim() == "prted"
}

fn own_name() -> String {
    std::fs::read_to_string("/proc/self/comm").unwrap_or_default()
}

/// Whether prterun asks its daemons to report their plugin.
pub fn is_to_report() -> bool {
    REPORTS.to_str().is_ok_and(|name| std::env::var_os(format!("PRTE_MCA_{name}")).is_some())
}

/// Whether prterun starts the ranks stopped, for a debugger.
pub fn starts_ranks_stopped() -> bool {
    std::fs::read("/proc/self/cmdline").is_ok_and(|line| request::starts_ranks_stopped(&line))
}

/// The remote shell with which PRRTE starts its daemons, with its options: the first in its list.
pub fn remote_shell() -> String {
    request::first_shell(&std::env::var("PRTE_MCA_plm_ssh_agent").unwrap_or_default()).to_owned()
}

/// Number of the job of Slurm in which this process runs.
pub fn slurm_job() -> Option<String> {
    std::env::var("SLURM_JOB_ID").ok().and_then(|number| request::slurm_job(&number))
}

/// Maximum number of daemons with a direct connection to prterun, each with a descriptor. Enough descriptors remain for
/// other use.
pub fn most_connections() -> u16 {
    // PRRTE computes its third power as an `int` (`radix_tree`).
    const MOST: u64 = 1024;
    let open = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    u16::try_from((open / 4).min(MOST)).unwrap_or(0)
}

fn executable() -> Option<PathBuf> {
    std::fs::read_link("/proc/self/exe").ok()
}

/// Whether PMIx will open the component `pnet/ringwatch`. PMIx opens that framework, and registers its parameter, only
/// after this component's.
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

/// Removes it when the process exits. PRRTE 3.0.8 does so only with the last reference to its own job, and gives up if
/// an entry appears or vanishes meanwhile (`session_dir.c`).
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

/// Path of `ringwatchd`: the configured one, or beside this program, or the first in PATH.
///
/// # Errors
/// A sentence for the user with the searched places.
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
    let usable = |candidate: &PathBuf| candidate.is_file() && access(candidate, AccessFlags::X_OK).is_ok();
    folders
        .iter()
        .flat_map(|folder| DAEMONS.map(|name| folder.join(name)))
        .find(usable)
        .ok_or_else(|| "ringwatchd is neither beside prted nor in PATH on this node: install ringwatch here, or set psensor_ringwatch_daemon".into())
}

/// Replacement for the ranks' component search path, if it is the one of PMIx.
///
/// Debian's `pmix-mca-params.conf` sets `mca_base_component_path` for PMIx. PRRTE forwards it to the ranks under Open
/// MPI's name, where it replaces Open MPI's default. A path that the user chose stays.
pub fn component_path() -> Option<(String, String)> {
    let chosen = std::env::var(COMPONENT_PATH).unwrap_or_default();
    let own = own_file().and_then(|file| Some(file.parent()?.to_owned()))?;
    (chosen.is_empty() || own == std::path::Path::new(&chosen))
        .then(|| (COMPONENT_PATH.to_owned(), "SYSTEM_DEFAULT:USER_DEFAULT".to_owned()))
}

/// The variable with libraries that are loaded before all others.
pub const PRELOAD: &str = "LD_PRELOAD";

/// The libraries that a rank with replicas on this node loads first: the one that notes [`early_clocks`], if it is
/// installed, and those of the user.
pub fn preloaded(of_user: &str) -> String {
    let own = own_file().map(|file| file.with_file_name(early_clocks::FILE)).filter(|file| file.is_file());
    let own = own.map(|file| file.display().to_string());
    own.into_iter().chain((!of_user.is_empty()).then(|| of_user.to_owned())).collect::<Vec<_>>().join(":")
}

/// Whether the ranks will open the component `hook/ringwatch`: the user may exclude it, or select only others.
pub fn ranks_have_component() -> bool {
    request::leaves_in(&std::env::var("OMPI_MCA_hook").unwrap_or_default(), "ringwatch")
}

/// The file this library was loaded from.
fn own_file() -> Option<PathBuf> {
    // SAFETY: looks up the object that contains this function; the returned name is terminated.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(own_file as *const libc::c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(PathBuf::from(CStr::from_ptr(info.dli_fname).to_str().ok()?))
    }
}

/// Keeps this library loaded: PMIx unloads components while the supervisor thread may still run.
pub fn stay_loaded() {
    let Some(name) = own_file().and_then(|file| CString::new(file.into_os_string().into_encoded_bytes()).ok()) else {
        return;
    };
    // SAFETY: a terminated name of a loaded object; raises its reference count permanently.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NODELETE) };
}

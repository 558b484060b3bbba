//! What a node tells of itself.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use node_abi::versions::RELEASE;
use platform::{interfaces, privileges};
use rdma_heartbeat::transport::verbs::port::{self, DEVICES};
use serde::{Deserialize, Serialize};

/// Raised when a field changes its meaning.
pub const FORM: u32 = 1;
/// The right to real-time priority (`CAP_SYS_NICE`).
const SYS_NICE: u64 = 1 << 23;

/// One node. What is missing could not be found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// [`FORM`] of who tells.
    pub form: u32,
    /// Release of this tool.
    pub release: String,
    /// What `ringwatchd --version` says, or why it says nothing.
    pub daemon: Result<String, String>,
    /// Components of PMIx and Open MPI that are not where these look for them.
    pub missing: Vec<String>,
    /// Whether `ringwatchd` may run at real-time priority.
    pub has_priority: bool,
    /// Memory that may be locked, in bytes.
    pub locked: u64,
    /// Files that may be open.
    pub files: u64,
    /// The wall clock, in microseconds since 1970.
    pub clock_us: u64,
    /// Folders in which jobs make files, with what is free there in KiB.
    pub free_kib: Vec<(String, u64)>,
    /// IPv4 addresses that heartbeats may use.
    pub addresses: Vec<Ipv4Addr>,
    /// Whether an active RDMA port has one of them.
    pub has_rdma: bool,
    /// The UDP port that was opened for the check, or why none was.
    pub port: Result<u16, String>,
}

impl Default for Facts {
    fn default() -> Self {
        let unknown = || "it does not tell".to_owned();
        Self {
            form: 0,
            release: unknown(),
            daemon: Err(unknown()),
            missing: Vec::new(),
            has_priority: false,
            locked: 0,
            files: 0,
            clock_us: 0,
            free_kib: Vec::new(),
            addresses: Vec::new(),
            has_rdma: false,
            port: Err(unknown()),
        }
    }
}

/// Gathers all but the port; `wanted` are interfaces as in `psensor_ringwatch_if_include`.
pub fn gather(wanted: &[String]) -> Facts {
    let priority = Path::new("ringwatchd-priority");
    let addresses = addresses(wanted);
    let daemon = find(Path::new("ringwatchd"));
    Facts {
        form: FORM,
        release: RELEASE.into(),
        daemon: daemon.as_deref().map_or_else(|| Err("it is not in PATH".into()), version_of),
        missing: missing(),
        has_priority: may_have_priority(find(priority).or(daemon).as_deref()),
        locked: limit(Resource::RLIMIT_MEMLOCK),
        files: limit(Resource::RLIMIT_NOFILE),
        clock_us: now_us(),
        free_kib: free(),
        has_rdma: addresses.iter().any(|address| port::find(Path::new(DEVICES), (*address).into()).is_some()),
        addresses,
        port: Err("it was not opened".into()),
    }
}

/// The wall clock in microseconds since 1970.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The program of this name in PATH that this user may run.
fn find(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| access(file.as_path(), AccessFlags::X_OK).is_ok())
}

fn version_of(program: &Path) -> Result<String, String> {
    let output = Command::new(program).arg("--version").output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim().strip_prefix("ringwatchd ").map(ToOwned::to_owned);
    version.ok_or_else(|| format!("{} does not tell its version", program.display()))
}

/// The components that a job needs on this node.
fn missing() -> Vec<String> {
    let wanted = [
        ("pmix_info", &["pmix_mca_psensor_ringwatch.so", "pmix_mca_pnet_ringwatch.so"][..]),
        ("ompi_info", &["mca_hook_ringwatch.so", "mca_coll_ringwatch.so"][..]),
    ];
    let mut missing = Vec::new();
    for (program, components) in wanted {
        let output = Command::new(program).args(["--path", "pkglibdir"]).output().ok();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let folder = text.lines().find_map(|line| line.trim_start().strip_prefix("Pkglibdir:")).map(str::trim);
        match folder {
            None => missing.push(program.to_owned()),
            Some(folder) => {
                let is_readable = |name: &str| {
                    let path = Path::new(folder).join(name);
                    let is_there = std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() > 0);
                    is_there && access(&path, AccessFlags::R_OK).is_ok()
                };
                missing.extend(components.iter().filter(|name| !is_readable(name)).map(|name| (*name).to_owned()));
            }
        }
    }
    missing
}

fn may_have_priority(daemon: Option<&Path>) -> bool {
    // Any capability of the file: an installation gives it that one only.
    let has_capability = daemon.is_some_and(|path| {
        let output = Command::new("getcap").arg(path).output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("cap_sys_nice"))
    });
    has_capability || privileges::permitted() & SYS_NICE != 0 || limit(Resource::RLIMIT_RTPRIO) > 0
}

fn limit(resource: Resource) -> u64 {
    getrlimit(resource).map_or(0, |(soft, _)| soft)
}

/// Free space where sessions, shared memory and histories are.
fn free() -> Vec<(String, u64)> {
    let sessions = std::env::var("TMPDIR").unwrap_or_else(|_| "/tmp".into());
    let folders = [sessions, "/dev/shm".into()];
    let kib = |folder: &String| statvfs(folder.as_str()).map(|all| all.blocks_available() * all.fragment_size() / 1024);
    folders.into_iter().filter_map(|folder| Some((folder.clone(), kib(&folder).ok()?))).collect()
}

/// As a job chooses them.
fn addresses(wanted: &[String]) -> Vec<Ipv4Addr> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    let up = all.filter(|one| one.flags.contains(InterfaceFlags::IFF_UP));
    let with_address = up.filter_map(|one| {
        let address = one.address.as_ref()?.as_sockaddr_in()?.ip();
        Some((one.interface_name, one.flags, address))
    });
    let is_meant = |name: &str, address| wanted.iter().any(|wanted| interfaces::is_meant(wanted, name, address));
    let chosen = with_address.filter(|(name, flags, address)| match wanted {
        [] => !flags.contains(InterfaceFlags::IFF_LOOPBACK),
        _ => is_meant(name, *address),
    });
    chosen.map(|(.., address)| address).collect()
}

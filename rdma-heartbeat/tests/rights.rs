//! What `ringwatchd` is allowed to do, what it says when that is little, and what other users are allowed to do with
//! it.

mod cluster;

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use cluster::{Cluster, Node, eventually, hand_over, launch};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::dup;
use node_abi::launch::SEGMENT_FD;
use node_abi::segment::Segment;
use platform::privileges;
use rdma_heartbeat::history::feed;
use rdma_heartbeat::report::status;

/// A user of every system, who is not the job's.
const NOBODY: u32 = 65534;
/// The second test changes limits, which are those of the whole program.
static LIMITS: Mutex<()> = Mutex::new(());

/// The value of a line of a thread's `status`.
fn line_of(status: &str, name: &str) -> String {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    value.unwrap_or_else(|| panic!("{name} in {status}")).to_owned()
}

/// The name and the `status` of each thread of a node's daemon.
fn threads(node: &Node) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", node.daemon.id())).unwrap();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok());
    texts.map(|text| (line_of(&text, "Name"), text)).collect()
}

/// A folder of this test alone.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ringwatch-{name}-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    folder
}

#[test]
fn a_daemon_that_serves_has_given_up_every_capability_that_it_does_not_need() {
    let _limits = LIMITS.lock();
    let folder = folder("rights");
    let mut launch = launch(&[1, 2]);
    launch.parameters.log = folder.join("%n.log").display().to_string();
    launch.parameters.events = folder.join("events").display().to_string();
    // A descriptor of the runtime daemon that every program it starts would inherit.
    let secret = folder.join("secret");
    let inheritable = dup(File::create(&secret).unwrap()).unwrap();
    let mut cluster = Cluster::running(launch);
    drop(inheritable);
    for node in &cluster.nodes {
        let open = fs::read_dir(format!("/proc/{}/fd", node.daemon.id())).unwrap();
        let targets: Vec<_> = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok()).collect();
        assert!(!targets.is_empty() && !targets.contains(&secret), "{targets:?}");
    }
    let own = privileges::permitted();
    // What may be needed, and nothing that the start has needed.
    let needed = privileges::needed(own, own);
    // The loop kills, and both look into processes; the others do neither.
    let rights = [("ringwatchd", needed), ("inquiry", needed), ("sink", 0), ("lifelines", 0)];
    for node in &cluster.nodes {
        for (name, kept) in rights {
            let expected = format!("{kept:016x}");
            let none = format!("{:016x}", 0);
            let status = eventually(name, || {
                let thread = threads(node).into_iter().find(|(thread, _)| thread == name);
                thread.map(|(_, status)| status).filter(|status| line_of(status, "CapPrm") == expected)
            });
            for (set, expected) in [("CapEff", &expected), ("CapInh", &none), ("CapAmb", &none)] {
                assert_eq!(line_of(&status, set), *expected, "{set} of the thread {name}");
            }
            assert_eq!(line_of(&status, "NoNewPrivs"), "1");
        }
        eventually("the thread that reads memory has ended", || {
            threads(node).iter().all(|(thread, _)| thread != "memory").then_some(())
        });
        let known = threads(node).iter().all(|(thread, _)| rights.iter().any(|(name, _)| name == thread));
        assert!(known, "this test looks at every thread: {:?}", threads(node));
    }
    // It still sees what became of its ranks, and kills.
    cluster.signal_rank(1, Signal::SIGSEGV);
    assert!(cluster.expect_ranks_dead(&[0, 1], &[1]).contains("signal 11"));
    cluster.nodes[1].kill_daemon();
    cluster.nodes[1].restart_daemon();
    cluster.signal_rank(2, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1], &[2]);
    fs::remove_dir_all(&folder).unwrap();
}

/// Gives a program the right to raise priorities, as `setcap cap_sys_nice=ep` does (capabilities(7)).
fn give_priority(program: &Path) -> io::Result<()> {
    const REVISION_2_EFFECTIVE: u32 = 0x0200_0001;
    const SYS_NICE: u32 = 1 << 23;
    let data: Vec<u8> = [REVISION_2_EFFECTIVE, SYS_NICE, 0, 0, 0].into_iter().flat_map(u32::to_le_bytes).collect();
    let path = CString::new(program.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: terminated names, and as many bytes as there are.
    let result =
        unsafe { libc::setxattr(path.as_ptr(), c"security.capability".as_ptr(), data.as_ptr().cast(), data.len(), 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn an_ordinary_users_daemon_has_raised_its_priority_and_lost_the_right_before_it_reads_anything() {
    let _limits = LIMITS.lock();
    let folder = folder("capable");
    let program = folder.join("ringwatchd");
    fs::copy(env!("CARGO_BIN_EXE_ringwatchd"), &program).unwrap();
    for path in [&folder, &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    if let Err(error) = give_priority(&program) {
        eprintln!("skipped: this system gives a file no capability ({error})");
        return fs::remove_dir_all(&folder).unwrap();
    }
    // The daemon takes only a socket that its own user has made.
    let as_nobody = || {
        // SAFETY: takes three numbers; concerns the calling thread only, which ends.
        unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap()
    };
    let (_ours, theirs) = std::thread::scope(|scope| scope.spawn(as_nobody).join().unwrap());
    let (_segment, file) = Segment::create(&[0], 16).unwrap();
    let nothing = File::open("/dev/null").unwrap();
    // Its parent is an ordinary user's, too, as prted is: the daemon keeps what its parent has.
    let mut command = Command::new("sh");
    command.args(["-c", "\"$0\" & exec sleep 60"]).arg(&program).uid(NOBODY).stdin(Stdio::null()).stderr(Stdio::null());
    hand_over(&mut command, [theirs.as_fd(), nothing.as_fd(), file.as_fd()]);
    let mut parent = command.spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", parent.id());
    let daemon: i32 = eventually("the daemon is started", || fs::read_to_string(&children).ok()?.trim().parse().ok());
    // It gets no packet.
    eventually("has its priority, and no capability any more", || {
        let status = fs::read_to_string(format!("/proc/{daemon}/status")).ok()?;
        // SAFETY: asks about a process.
        let policy = unsafe { libc::sched_getscheduler(daemon) } & !libc::SCHED_RESET_ON_FORK;
        let none = format!("{:016x}", 0);
        let has_none = ["CapPrm", "CapEff", "CapInh", "CapAmb"].iter().all(|set| line_of(&status, set) == none);
        (has_none && policy == libc::SCHED_FIFO).then_some(())
    });
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(daemon), Signal::SIGKILL).unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn who_has_no_right_to_priority_and_memory_is_told_so_once_and_how_to_get_it() {
    let _limits = LIMITS.lock();
    // Of this thread, and of the daemons that it starts: as an ordinary user's.
    let limited = std::thread::spawn(move || {
        privileges::keep(0);
        for (limit, value) in
            [(Resource::RLIMIT_MEMLOCK, 64 << 10), (Resource::RLIMIT_RTPRIO, 0), (Resource::RLIMIT_NICE, 0)]
        {
            setrlimit(limit, value, value).unwrap();
        }
        let mut launch = launch(&[1, 1]);
        launch.parameters.log_level = "warn".into();
        let cluster = Cluster::running(launch);
        let told = cluster.nodes[0].stderr();
        let lines: Vec<_> = told.lines().filter(|line| line.contains("has no right")).collect();
        assert_eq!(lines.len(), 1, "{told}");
        let notice = "has no right to raise its priority or to lock its memory: 'ringwatch status' says how to give it";
        assert!(lines[0].contains(" WARN ") && lines[0].ends_with(notice), "{told}");
        assert_eq!(cluster.nodes[1].stderr(), "", "one line for each job, where the user sees it");
        for node in &cluster.nodes {
            let lacks = node.report().lacks;
            assert_eq!(lacks.len(), 2);
            for part in ["scripts/install --priority", "rtprio 1", "memlock unlimited"] {
                assert!(lacks.iter().any(|right| right.contains(part)), "{part} in {lacks:?}");
            }
        }
    });
    limited.join().unwrap();
}

#[test]
fn what_a_daemon_keeps_and_writes_is_its_users_alone() {
    let _limits = LIMITS.lock();
    let folder = folder("modes");
    let mut launch = launch(&[1, 1]);
    launch.parameters.log = folder.join("%n.log").display().to_string();
    launch.parameters.events = folder.join("events").display().to_string();
    let cluster = Cluster::running(launch);
    for name in ["0.log", "1.log", "events"] {
        let mode = fs::metadata(folder.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let segment = format!("/proc/{}/fd/{SEGMENT_FD}", cluster.nodes[1].daemon.id());
    let head = |user: Option<u32>| {
        let mut command = Command::new("head");
        user.map(|user| command.uid(user));
        command.args(["-c", "1", &segment]).stderr(Stdio::null()).output()
    };
    if nix::unistd::getuid().is_root() {
        assert_eq!(fs::metadata(&segment).unwrap().mode() & 0o777, 0o600);
        assert_eq!(head(None).unwrap().stdout.len(), 1);
        match head(Some(NOBODY)) {
            Ok(output) => assert!(!output.status.success() && output.stdout.is_empty()),
            Err(error) => eprintln!("skipped: there is no other user here ({error})"),
        }
    } else {
        assert!(!head(None).unwrap().status.success(), "not even its own user's other processes");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// To be of the same user is not enough.
#[test]
fn who_has_not_the_key_of_the_job_is_told_nothing() {
    let _limits = LIMITS.lock();
    let cluster = Cluster::running(launch(&[1, 1]));
    let node = &cluster.nodes[1];
    for prefix in [status::PREFIX, feed::PREFIX] {
        let address = SocketAddr::from_abstract_name(node.status_name().replacen(status::PREFIX, prefix, 1)).unwrap();
        let mut stream = UnixStream::connect_addr(&address).unwrap();
        let mut greeting = [0; 28];
        stream.read_exact(&mut greeting).unwrap();
        stream.write_all(&[7; 48]).unwrap();
        let mut told = Vec::new();
        let end = stream.read_to_end(&mut told);
        assert!(told.is_empty(), "{prefix}: {end:?}, {} bytes", told.len());
    }
    assert_eq!(node.report().node, node.me);
}

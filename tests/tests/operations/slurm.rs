//! Jobs in allocations of Slurm, whose own reactions to a failure end what could go on.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::clock::wait_until;
use system_tests::process::Process;
use system_tests::programs::{compile_example, survivor};
use system_tests::slurm::{Allocation, Slurm};
use system_tests::{Lab, in_lab, leftovers, process};

/// How long a job may take to start and to end.
const LIMIT: Duration = Duration::from_secs(20);

/// Longer than the timeout of nodes, and than that of stopped ranks, which is the default.
const SUSPENDED: Duration = Duration::from_secs(3);

fn recover() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| compile_example("recover").display().to_string())
}

const PERIOD: [&str; 3] = ["--pmixmca", "psensor_ringwatch_period", "20ms"];
const TIMEOUT: [&str; 3] = ["--pmixmca", "psensor_ringwatch_timeout", "300ms"];

/// `mpirun` of a program with one rank on each node.
fn mpirun<'a>(nodes: &'a str, program: &[&'a str]) -> Vec<&'a str> {
    let words = ["mpirun", "--with-ft", "ulfm", "--bind-to", "none", "--map-by", "ppr:1:node", "-n", nodes];
    // A step succeeds at all survivors or at none, as `recover.c` needs it.
    let uniform = ["--mca", "coll_ringwatch_error_uniform", "coll"];
    [&words[..], &PERIOD, &TIMEOUT, &uniform, program].concat()
}

/// `examples/recover.c`, which goes on without the dead and says how many ranks there are, at work in an allocation.
fn start(slurm: &mut Slurm, options: &[&str], nodes: u32) -> Allocation {
    let nodes = nodes.to_string();
    let allocation = slurm.allocate(&[&["-N", &nodes], options].concat(), &mpirun(&nodes, &[recover()]));
    allocation.wait_for(&format!("step 0: {nodes} ranks"), LIMIT);
    allocation
}

/// The youngest process of this name: `prted` runs in a child of the one that `srun` starts.
fn on_host(host: &str, name: &str) -> i32 {
    let found = process::on_hosts().into_iter().rfind(|one| one.host == host && one.name == name);
    found.unwrap_or_else(|| panic!("{name} runs on {host}")).pid
}

/// The survivors have gone on to the end.
fn goes_on(allocation: Allocation, ranks: u32) {
    let (status, text) = allocation.finish();
    assert!(text.contains(&format!(": {ranks} ranks")), "{ranks} ranks go on: {text}");
    assert!(status.success(), "mpirun's exit status is 0, not {status}: {text}");
    assert!(!text.contains("every rank of the job is dead"), "{text}");
}

/// Nothing of the job runs or is left in folders that it shares with others.
fn leaves_nothing() {
    let is_gone = wait_until(LIMIT, || {
        let names = ["recover", "survivor", "prted", "ringwatchd", "prterun"];
        !process::on_hosts().iter().any(|one| names.contains(&&*one.name))
    });
    assert!(is_gone, "all processes of the job end: {:?}", process::on_hosts());
    let left = leftovers::all();
    assert!(left.iter().all(|path| !Path::exists(path)), "nothing is left: {left:?}");
}

/// The processes of `examples/recover.c`.
fn ranks() -> Vec<Process> {
    process::on_hosts().into_iter().filter(|one| one.name == "recover").collect()
}

fn with_slurm(test: impl Fn(&Lab, &mut Slurm)) {
    in_lab(|lab| test(lab, &mut Slurm::start(lab)));
}

#[test]
#[ignore = "as without Slurm: a part of scripts/test --full"]
fn a_rank_is_killed() {
    with_slurm(|_, slurm| {
        let allocation = start(slurm, &[], 3);
        process::signal(on_host("h2", "recover"), libc::SIGKILL);
        goes_on(allocation, 2);
        leaves_nothing();
    });
}

/// PRRTE takes the end of its only `srun` for the end of all daemons.
#[test]
fn the_prted_of_the_only_other_node_is_killed() {
    with_slurm(|_, slurm| {
        let allocation = start(slurm, &[], 2);
        process::signal(on_host("h2", "prted"), libc::SIGKILL);
        goes_on(allocation, 1);
    });
}

/// Slurm gives up the node long after ringwatch, and must leave the others alone.
#[test]
fn a_node_dies_in_an_allocation_that_is_to_be_kept() {
    with_slurm(|lab, slurm| {
        let allocation = start(slurm, &["--no-kill"], 3);
        lab.kill_host("h3");
        goes_on(allocation, 2);
    });
}

#[test]
fn a_job_that_is_cancelled_has_not_succeeded_and_leaves_nothing() {
    with_slurm(|_, slurm| {
        let allocation = start(slurm, &["--job-name", "cancelled"], 3);
        slurm.run(&["scancel", "--name", "cancelled"]);
        let (status, text) = allocation.finish();
        assert!(!status.success(), "the status of a job that was cancelled is not 0: {text}");
        assert!(text.contains("Slurm has ended the allocation"), "the reason is told: {text}");
        leaves_nothing();
    });
}

/// Slurm stops all processes of a batch job, the daemons among them, for longer than any timeout.
#[test]
#[ignore = "it waits for timeouts: a part of scripts/test --full"]
fn a_batch_job_that_is_suspended_and_resumed_loses_nothing() {
    with_slurm(|lab, slurm| {
        let diaries = lab.folder().join("diaries");
        let folder = diaries.display().to_string();
        let program = survivor().display().to_string();
        let words = mpirun("3", &[&program, "--events", &folder, "--op", "allreduce", "--hold"]);
        let batch = slurm.submit(&["-N", "3", "--no-kill", "--job-name", "suspended"], &words.join(" "));
        let at_work = || {
            let diary = |rank| std::fs::read_to_string(diaries.join(format!("rank.{rank}"))).unwrap_or_default();
            (0..3).all(|rank| diary(rank).contains("blocked allreduce"))
        };
        assert!(wait_until(LIMIT, at_work), "all ranks are at work: {}", batch.text());
        let number = slurm.run(&["squeue", "--noheader", "--name", "suspended", "--format", "%A"]);
        slurm.run(&["scontrol", "suspend", number.trim()]);
        let ranks = || process::on_hosts().into_iter().filter(|one| one.name == "survivor");
        let all_stand_still = || ranks().count() == 3 && ranks().all(|rank| rank.state == 'T');
        assert!(wait_until(LIMIT, all_stand_still), "Slurm stops the ranks: {:?}", process::on_hosts());
        // What has to be seen is that nothing follows from a time that is longer than the timeouts.
        std::thread::sleep(SUSPENDED);
        slurm.run(&["scontrol", "resume", number.trim()]);
        std::fs::write(diaries.join("end"), "").expect("the folder can be written");
        let is_done = wait_until(LIMIT, || batch.text().matches("is done, 3 are left").count() == 3);
        assert!(is_done, "the ranks go on: {}{:#?}", batch.text(), process::on_hosts());
        let (status, text) = batch.finish();
        assert!(status.success(), "the status is 0, not {status}: {text}");
        assert!(!text.contains("ringwatch:"), "nobody is lost: {text}");
        leaves_nothing();
    });
}

/// `mpirun` knows the hosts of an allocation.
#[test]
#[ignore = "it measures: a part of scripts/test --full"]
fn calibrate_measures_the_nodes_of_an_allocation() {
    with_slurm(|lab, slurm| {
        let picture = lab.folder().join("calibration.svg").display().to_string();
        let words = ["ringwatch", "calibrate", "--time", "4s", "--load", "1", "--rate", "60/h", "--out", &picture];
        let (status, text) = slurm.allocate(&["-N", "3", "--no-kill"], &words).finish();
        assert!(status.success(), "{status}: {text}");
        let row = text.lines().find(|line| line.starts_with("idle")).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(row.split_whitespace().nth(1), Some("3"), "all nodes have told: {text}");
        assert!(text.contains("psensor_ringwatch_timeout"), "{text}");
        leaves_nothing();
    });
}

/// Slurm's own PMIx server, in `slurmstepd` as root, loads the plugin, which must do nothing there; and before a job
/// `ringwatch check` says what Slurm would do to it.
#[test]
fn ranks_of_srun_are_left_alone() {
    with_slurm(|lab, slurm| {
        let hosts = lab.folder().join("hosts");
        std::fs::write(&hosts, "h1\nh2\n").expect("the folder can be written");
        let check = ["ringwatch", "check", "--agent", "/usr/local/bin/rw-ssh", &hosts.display().to_string()];
        let text = slurm.run(&check);
        assert!(text.contains("note: Slurm: it ends a job 10 s after the death of a node"), "{text}");
        assert!(text.contains("--no-requeue"), "{text}");

        // On one node: its server keeps files in /tmp, which the virtual hosts share.
        let job =
            slurm.allocate(&["-n", "2", "--job-name", "srun"], &["srun", "--unbuffered", "--mpi=pmix", recover()]);
        job.wait_for("step 0: 2 ranks", LIMIT);
        let all = process::on_hosts();
        assert!(!all.iter().any(|one| one.name.starts_with("ringwatch")), "no process of ringwatch runs: {all:?}");
        let servers: Vec<_> = all.iter().filter(|one| one.name == "slurmstepd" && serves(one.pid)).collect();
        assert_eq!(servers.len(), 1, "a server of PMIx with the plugin: {all:?}");
        for server in servers {
            assert!(!process::has_thread(server.pid, "ringwatch"), "no thread of ringwatch runs in {server}");
            assert!(process::udp_ports(server.pid).is_empty(), "no socket for heartbeats is open in {server}");
        }
        assert!(process::holders_of_segments().is_empty(), "there is no segment");
        for rank in ranks() {
            let variables = process::environment(rank.pid);
            assert!(!variables.keys().any(|name| name.starts_with("RINGWATCH_S")), "{rank}: {variables:?}");
        }
        let names = std::fs::read_to_string("/proc/net/unix").expect("the kernel tells its sockets");
        assert!(!names.contains("@ringwatch"), "no local socket has a name of ringwatch: {names}");
        slurm.run(&["scancel", "--name", "srun"]);
        let (status, text) = job.finish();
        assert!(!status.success() && !text.contains("ringwatch:"), "{status}: {text}");
        leaves_nothing();
    });
}

/// Whether the plugin is in the memory of a process.
fn serves(pid: i32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.contains("psensor_ringwatch")
}

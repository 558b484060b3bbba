//! Jobs in allocations of Slurm, whose own reactions to a failure end what could go on.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::programs::compile_example;
use system_tests::slurm::{Allocation, Slurm};
use system_tests::{Lab, in_lab, process};

/// How long a job may take to start and to end.
const LIMIT: Duration = Duration::from_secs(20);

fn recover() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| compile_example("recover").display().to_string())
}

/// `examples/recover.c`, which goes on without the dead and says how many ranks there are, with one rank on each node.
fn start(slurm: &mut Slurm, options: &[&str], nodes: u32) -> Allocation {
    let nodes = nodes.to_string();
    let times = ["--pmixmca", "psensor_ringwatch_period", "20ms", "--pmixmca", "psensor_ringwatch_timeout", "300ms"];
    let words = [
        &["mpirun", "--with-ft", "ulfm", "--bind-to", "none", "--map-by", "ppr:1:node", "-n", &nodes][..],
        &times,
        &[recover()],
    ];
    let allocation = slurm.allocate(&[&["-N", &nodes], options].concat(), &words.concat());
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
        let is_gone = system_tests::clock::wait_until(LIMIT, || {
            let names = ["recover", "prted", "ringwatchd", "prterun"];
            !process::on_hosts().iter().any(|one| names.contains(&&*one.name))
        });
        assert!(is_gone, "all processes of the job end");
        let left = system_tests::leftovers::all();
        assert!(left.iter().all(|path| !Path::exists(path)), "nothing is left: {left:?}");
    });
}

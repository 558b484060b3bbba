//! prterun or its node is lost: all ranks end within twice the timeout, and the user is told.

use std::time::Duration;

use system_tests::{Job, Lab, Outcome, Running, SLACK, in_lab, process};

/// For PRRTE to end a job: it gives ranks seconds to heed SIGTERM.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts a job that goes on until it is told to end, and returns it with the numbers of all of its processes but
/// prterun.
fn start<'a>(lab: &'a Lab, job: Job, operation: &str) -> (Running<'a>, Vec<i32>) {
    let mut job = job.blocked_in(operation, &[]).arguments(&["--hold"]).start(lab);
    job.wait_until_blocked();
    let launcher = job.launcher();
    let pids = job.processes().iter().map(|process| process.pid).filter(|pid| *pid != launcher).collect();
    (job, pids)
}

fn ranks_of(job: &Running<'_>, hosts: &[&str]) -> Vec<i32> {
    hosts.iter().flat_map(|host| job.job.ranks_on(host)).map(|rank| job.pid(rank)).collect()
}

/// No rank came to its end as if nothing had happened.
fn nobody_finished(outcome: &Outcome) {
    outcome.require(outcome.diaries.all("done").next().is_none(), "no rank comes to its end");
    outcome.require(outcome.status != 0, "mpirun's exit status is not 0");
}

fn prterun_is_killed(lab: &Lab, job: Job, operation: &str) {
    let timeout = job.timeout();
    let (mut job, _) = start(lab, job, operation);
    job.loses("h1");
    let ranks = ranks_of(&job, &["h1", "h2", "h3", "h4"]);
    process::signal(job.launcher(), libc::SIGKILL);
    job.wait_until_gone("ranks", &ranks, timeout * 2 + SLACK);
    // Whoever looks at standard error finds the message even if mpirun is no more.
    let _ = system_tests::clock::wait_until(SLACK, || job.stderr().contains("ringwatch: "));
    let outcome = job.finish();
    nobody_finished(&outcome);
    outcome.lost_its_launcher(&["prterun", "was lost", "ended"]);
}

#[test]
fn prterun_killed_in_allreduce() {
    in_lab(|lab| prterun_is_killed(lab, Job::new(), "allreduce"));
}

#[test]
fn prterun_killed_while_every_rank_does_something_else() {
    in_lab(|lab| prterun_is_killed(lab, Job::new(), "mixed"));
}

#[test]
fn prterun_killed_with_the_default_times() {
    in_lab(|lab| prterun_is_killed(lab, Job::new().with_default_times(), "any"));
}

/// Nobody may kill the ranks of its node then, and the message does not say that somebody has.
#[test]
fn prterun_killed_and_fencing_is_off() {
    in_lab(|lab| {
        let (mut job, _) = start(lab, Job::new().parameter("fence", "false"), "allreduce");
        job.loses("h1");
        let left = ranks_of(&job, &["h1"]);
        process::signal(job.launcher(), libc::SIGKILL);
        let told = system_tests::clock::wait_until(SLACK * 5, || job.stderr().contains("ringwatch: "));
        if !told {
            job.fail("somebody says that prterun was lost");
        }
        left.iter().for_each(|pid| process::signal(*pid, libc::SIGKILL));
        let outcome = job.finish();
        nobody_finished(&outcome);
        outcome.lost_its_launcher(&["prterun", "was lost", "fencing", "kill"]);
    });
}

/// It cannot hear that prterun is lost.
#[test]
fn prterun_killed_while_a_prted_is_stopped() {
    in_lab(|lab| {
        let (mut job, pids) = start(lab, Job::new(), "allreduce");
        ["h1", "h2", "h3", "h4"].iter().for_each(|host| job.loses(host));
        process::signal(job.runtime("h3"), libc::SIGSTOP);
        process::signal(job.launcher(), libc::SIGKILL);
        job.wait_until_gone("the job's processes", &pids, LIMIT);
        nobody_finished(&job.finish());
    });
}

/// Nobody but the kernel could have it go on.
#[test]
fn prterun_killed_while_its_ringwatchd_is_stopped() {
    in_lab(|lab| {
        let (mut job, pids) = start(lab, Job::new(), "allreduce");
        ["h1", "h2", "h3", "h4"].iter().for_each(|host| job.loses(host));
        process::signal(job.watcher("h1").pid, libc::SIGSTOP);
        process::signal(job.launcher(), libc::SIGKILL);
        job.wait_until_gone("the job's processes", &pids, LIMIT);
        nobody_finished(&job.finish());
    });
}

#[test]
fn the_node_of_prterun_killed() {
    in_lab(|lab| {
        let (mut job, _) = start(lab, Job::new(), "mixed");
        ["h2", "h3", "h4"].iter().for_each(|host| job.loses(host));
        let ranks = ranks_of(&job, &["h2", "h3", "h4"]);
        let timeout = job.job.timeout();
        let _ = job.kill_host("h1");
        job.wait_until_gone("ranks", &ranks, timeout * 2 + SLACK);
        // Nobody is left who could tell the user: it is in the logs.
        for host in ["h2", "h3", "h4"] {
            let sentence = "has lost contact with the node of mpirun; its ranks are ended";
            if !system_tests::clock::wait_until(SLACK, || job.log(host).contains(sentence)) {
                job.fail(&format!("the log of {host} says: {sentence}"));
            }
        }
        let outcome = job.finish();
        nobody_finished(&outcome);
        outcome.left_nothing();
    });
}

fn node_of_prterun_is_cut(lab: &Lab, job: Job, operation: &str) {
    let timeout = job.timeout();
    // Two ranks on each node, that of prterun included.
    let job = job.options(&["--map-by", "node"]);
    let (mut job, _) = start(lab, job, operation);
    ["h1", "h2", "h3", "h4"].iter().for_each(|host| job.loses(host));
    let others: Vec<i32> =
        ["h2", "h3", "h4"].iter().flat_map(|host| job.named(host, "survivor")).map(|process| process.pid).collect();
    if others.len() != 6 {
        job.fail("six ranks run on the other nodes");
    }
    let survivors: Vec<u32> = (0..8)
        .filter(|rank| job.diaries().first(*rank, "started").is_some_and(|entry| entry.text().ends_with("h1")))
        .collect();
    let dead = job.others(&survivors);
    let _ = job.cut("h1");
    job.wait_until_gone("ranks of the other nodes", &others, timeout * 2 + SLACK);
    job.end();
    // prterun's side lives, however small it is.
    job.finish().recovered(&dead);
}

#[test]
fn the_node_of_prterun_cut_off() {
    in_lab(|lab| node_of_prterun_is_cut(lab, Job::new(), "mixed"));
}

/// All others are alone, not together: nothing else is left to speak to.
#[test]
fn the_node_of_prterun_cut_off_with_the_default_times() {
    in_lab(|lab| node_of_prterun_is_cut(lab, Job::new().with_default_times(), "allreduce"));
}

/// A login node, say: mpirun runs there, and ranks on the other hosts alone.
fn beside_the_ranks() -> Job {
    Job::new().on(&["h2", "h3", "h4"], 2).launched_from("h1")
}

#[test]
fn a_rank_is_killed_and_prterun_has_none_beside_it() {
    in_lab(|lab| {
        let mut job = beside_the_ranks().blocked_in("mixed", &[3]).start(lab);
        job.wait_until_blocked();
        let at = job.signal_rank(3, libc::SIGKILL);
        job.finish().recovered(&[3]).told_within(&[3], at, Duration::ZERO);
    });
}

#[test]
fn a_prted_and_a_node_are_lost_and_prterun_has_no_rank_beside_it() {
    in_lab(|lab| {
        // The first recovery may be over before the host dies.
        let mut job = beside_the_ranks().blocked_in("allreduce", &[0, 1, 4, 5]).arguments(&["--hold"]).start(lab);
        job.wait_until_blocked();
        job.loses("h2");
        process::signal(job.runtime("h2"), libc::SIGKILL);
        let _ = job.kill_host("h4");
        job.end();
        job.finish().recovered(&[0, 1, 4, 5]);
    });
}

/// Nobody is left on its side.
#[test]
fn the_node_of_prterun_is_cut_off_and_has_no_rank() {
    in_lab(|lab| {
        let timeout = beside_the_ranks().timeout();
        let (mut job, _) = start(lab, beside_the_ranks(), "mixed");
        let ranks = ranks_of(&job, &["h2", "h3", "h4"]);
        ["h2", "h3", "h4"].iter().for_each(|host| job.loses(host));
        let _ = job.cut("h1");
        job.wait_until_gone("ranks", &ranks, timeout * 2 + SLACK);
        job.finish().gave_up(&["every rank", "dead"]);
    });
}

/// A user who presses Ctrl-C, or a batch system that ends the job, ends it.
fn is_told_to_end(lab: &Lab, signal: i32) {
    let (job, pids) = start(lab, Job::new(), "mixed");
    process::signal(job.launcher(), signal);
    job.wait_until_gone("processes of the job", &pids, Duration::from_secs(8));
    let outcome = job.finish();
    nobody_finished(&outcome);
    outcome.left_nothing();
}

#[test]
fn interrupted_by_the_user() {
    in_lab(|lab| is_told_to_end(lab, libc::SIGINT));
}

#[test]
fn terminated_by_the_batch_system() {
    in_lab(|lab| is_told_to_end(lab, libc::SIGTERM));
}

/// A user who stops mpirun means the job to wait, not to die.
#[test]
fn stopped_and_continued_by_the_user() {
    in_lab(|lab| {
        let (job, _) = start(lab, Job::new(), "allreduce");
        process::signal(job.launcher(), libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(1500));
        process::signal(job.launcher(), libc::SIGCONT);
        job.end();
        let outcome = job.finish();
        outcome.finished_without(&[]);
    });
}

/// Who ends a job knows why it ends: no sentence of ringwatch contradicts.
fn the_user_ends_it(lab: &Lab, job: Job, end: impl FnOnce(&Running<'_>)) {
    let (job, pids) = start(lab, job, "mixed");
    end(&job);
    job.wait_until_gone("the job's processes", &pids, LIMIT);
    let outcome = job.finish();
    nobody_finished(&outcome);
    let sentences = outcome.sentences();
    outcome.require(sentences.is_empty(), &format!("ringwatch says nothing, not {sentences:?}"));
    outcome.left_nothing();
}

#[test]
fn the_user_interrupts_prterun() {
    in_lab(|lab| the_user_ends_it(lab, Job::new(), |job| process::signal(job.launcher(), libc::SIGINT)));
}

#[test]
fn the_user_terminates_prterun() {
    in_lab(|lab| the_user_ends_it(lab, Job::new(), |job| process::signal(job.launcher(), libc::SIGTERM)));
}

#[test]
#[ignore = "waits long: a part of scripts/test --full"]
fn the_time_limit_passes() {
    in_lab(|lab| the_user_ends_it(lab, Job::new().options(&["--timeout", "5"]), |_| ()));
}

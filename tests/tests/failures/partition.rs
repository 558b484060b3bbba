//! The network falls into two halves: the one with prterun goes on, the other ends, and a healed link brings nobody
//! back.

use std::time::Duration;

use system_tests::clock::wait_until;
use system_tests::{Job, Lab, Running, SLACK, TIMEOUT, in_lab, process};

const FAR: [u32; 4] = [4, 5, 6, 7];

/// Waits until the ranks of h3 and h4, `ringwatchd` and prted have ended.
fn far_side_ends(job: &mut Running<'_>, timeout: Duration) {
    let pids: Vec<i32> = FAR.iter().map(|rank| job.pid(*rank)).collect();
    job.wait_until_gone("ranks of the cut-off side", &pids, timeout * 2 + SLACK);
    let limit = timeout * 2 + SLACK * 2;
    let empty = || !process::on_hosts().iter().any(|process| process.host == "h3" || process.host == "h4");
    if !wait_until(limit, empty) {
        job.fail("processes are left on the cut-off side");
    }
}

/// Starts a job that goes on until it is told to end, and parts h3 and h4 from it.
fn parted<'a>(lab: &'a Lab, job: Job, operation: &str, together: bool) -> (Running<'a>, Duration) {
    let timeout = job.timeout();
    let mut job = job.blocked_in(operation, &FAR).arguments(&["--hold"]).start(lab);
    job.wait_until_blocked();
    let at = job.split(&["h3", "h4"], together);
    far_side_ends(&mut job, timeout);
    (job, at)
}

fn heals_and_nobody_comes_back(lab: &Lab, job: Job, operation: &str, together: bool) {
    let timeout = job.timeout();
    let (mut job, at) = parted(lab, job, operation, together);
    job.wait_until_repaired(&[0, 1, 2, 3]);
    lab.heal("h3");
    lab.heal("h4");
    std::thread::sleep(timeout * 2);
    let back: Vec<_> = job.processes().into_iter().filter(|one| one.host == "h3" || one.host == "h4").collect();
    if !back.is_empty() {
        job.fail(&format!("the healed link brings nobody back, not {back:?}"));
    }
    job.end();
    // No second set of results: the dead stay silent is a part of this.
    let outcome = job.finish();
    outcome.recovered(&FAR).told_within(&FAR, at, timeout).not_told_before(at, timeout * 3 / 4);
    let far_repaired = FAR.iter().any(|rank| outcome.diaries.has(*rank, "agreed"));
    outcome.require(!far_repaired, "the cut-off side does not go on by itself");
}

#[test]
fn two_nodes_cut_off_each_alone() {
    in_lab(|lab| heals_and_nobody_comes_back(lab, Job::new(), "mixed", false));
}

#[test]
fn two_halves_in_allreduce() {
    in_lab(|lab| heals_and_nobody_comes_back(lab, Job::new(), "allreduce", true));
}

#[test]
fn two_halves_while_every_rank_does_something_else() {
    in_lab(|lab| heals_and_nobody_comes_back(lab, Job::new(), "mixed", true));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn two_halves_with_the_default_times() {
    in_lab(|lab| heals_and_nobody_comes_back(lab, Job::new().with_default_times(), "barrier", true));
}

/// Beside this timeout all else is short.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn two_nodes_cut_off_end_within_twice_a_long_timeout() {
    in_lab(|lab| {
        let job = Job::new().with_default_times().parameter("timeout", "4000ms");
        let (mut job, _) = parted(lab, job, "mixed", true);
        job.wait_until_repaired(&[0, 1, 2, 3]);
        job.end();
        job.finish().recovered(&FAR);
    });
}

/// Others that have finished look like others that have failed: that does not bring the cut-off side to life.
#[test]
fn healed_after_the_others_have_finished() {
    in_lab(|lab| {
        let dead = [4, 5];
        let mut job = Job::new().with_default_times().arguments(&["--op", "allreduce"]).start(lab);
        job.wait_until_blocked();
        let at = job.split(&["h3"], false);
        let pids: Vec<i32> = dead.iter().map(|rank| job.pid(*rank)).collect();
        job.wait_for("finalized", &[0, 1, 2, 3, 6, 7]);
        lab.heal("h3");
        let timeout = job.job.timeout();
        let left = (at + timeout * 2 + SLACK).saturating_sub(system_tests::clock::now());
        job.wait_until_gone("ranks of the node that was cut off", &pids, left);
        let outcome = job.finish();
        outcome.recovered(&dead);
        let repaired = dead.iter().find(|rank| outcome.diaries.has(**rank, "agreed"));
        outcome.require(repaired.is_none(), &format!("the dead do not go on by themselves, as {repaired:?} did"));
    });
}

/// The link comes back about when the halves give each other up: nobody was declared, or whoever was is dead.
fn healed_after(lab: &Lab, pause: Duration) {
    let mut job = Job::new().arguments(&["--op", "allreduce", "--hold"]).start(lab);
    job.wait_until_blocked();
    let _ = job.split(&["h3", "h4"], true);
    std::thread::sleep(pause);
    lab.heal("h3");
    lab.heal("h4");
    std::thread::sleep(TIMEOUT * 3);
    job.end();
    let outcome = job.finish();
    let dead: Vec<u32> = (0..8).filter(|rank| !outcome.diaries.has(*rank, "finalized")).collect();
    outcome.require(dead.iter().all(|rank| FAR.contains(rank)), "prterun's side lives");
    // Nobody among the dead has repaired anything or gone on.
    let repaired = dead.iter().find(|rank| outcome.diaries.has(**rank, "agreed"));
    outcome.require(repaired.is_none(), &format!("the dead do not go on by themselves, as {repaired:?} did"));
    outcome.finished_without(&dead);
}

#[test]
fn healed_shortly_before_the_timeout_ends_in_one_job() {
    in_lab(|lab| healed_after(lab, TIMEOUT * 3 / 4));
}

#[test]
fn healed_at_the_timeout_ends_in_one_job() {
    in_lab(|lab| healed_after(lab, TIMEOUT));
}

/// The dead hear of their own death, or of the others' deaths, before their own clock has run out.
#[test]
fn healed_shortly_after_the_timeout_ends_in_one_job() {
    in_lab(|lab| healed_after(lab, TIMEOUT * 5 / 4));
}

#[test]
fn healed_long_after_the_timeout_ends_in_one_job() {
    in_lab(|lab| healed_after(lab, TIMEOUT * 3 / 2));
}

/// When the cut-off side is about to end its ranks.
#[test]
fn healed_as_the_other_side_gives_up_ends_in_one_job() {
    in_lab(|lab| healed_after(lab, TIMEOUT * 7 / 4));
}

/// While a node is out of contact its `ringwatchd` has its ranks and prted wait. If it dies meanwhile prted goes on,
/// and starts another one, which ends them.
#[test]
fn a_ringwatchd_that_dies_while_its_node_waits() {
    in_lab(|lab| {
        let dead = [4, 5];
        let mut job = Job::new().blocked_in("allreduce", &dead).arguments(&["--hold"]).start(lab);
        job.wait_until_blocked();
        let (watcher, pids) = (job.watcher("h3").pid, dead.map(|rank| job.pid(rank)));
        let _ = job.cut("h3");
        if !wait_until(TIMEOUT * 2, || job.log("h3").contains("the ranks of this node wait")) {
            job.fail("a node that is cut off waits");
        }
        process::signal(watcher, libc::SIGKILL);
        job.wait_until_gone("ranks of the node that is cut off", &pids, TIMEOUT * 4 + SLACK);
        if !wait_until(SLACK * 2, || !process::on_hosts().iter().any(|process| process.host == "h3")) {
            job.fail("processes are left on the node that is cut off");
        }
        job.wait_until_repaired(&[0, 1, 2, 3, 6, 7]);
        job.end();
        job.finish().recovered(&dead);
    });
}

/// A new `ringwatchd` does not know how long there has been no contact, and the others count on.
#[test]
fn the_ranks_behind_a_cut_link_wait_though_their_ringwatchd_was_just_replaced() {
    in_lab(|lab| {
        let dead = [4, 5];
        let mut job = Job::new().arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let pids = dead.map(|rank| job.pid(rank));
        let _ = job.cut("h3");
        process::signal(job.watcher("h3").pid, libc::SIGKILL);
        job.wait_for("error", &[0]);
        let states = pids.map(process::state);
        if states.iter().any(|state| !matches!(state, None | Some('T' | 'Z' | 'X'))) {
            job.fail(&format!("ranks 4 and 5 wait when they are declared dead, not {states:?}"));
        }
        lab.heal("h3");
        job.wait_until_gone("ranks of the node that was cut off", &pids, TIMEOUT * 4 + SLACK);
        job.wait_until_repaired(&[0, 1, 2, 3, 6, 7]);
        job.end();
        let outcome = job.finish();
        outcome.recovered(&dead);
        let told = dead.iter().find(|rank| outcome.diaries.has(**rank, "error"));
        outcome.require(told.is_none(), &format!("the dead do not run again, as {told:?} did"));
    });
}

#[test]
fn ranks_that_an_earlier_ringwatchd_had_wait_go_on_when_the_link_is_whole_again() {
    in_lab(|lab| {
        // A link may take a second to come up.
        let job = Job::new().with_default_times().parameter("timeout", "5s");
        let mut job = job.blocked_in("allreduce", &[]).start(lab);
        job.wait_until_blocked();
        let _ = job.cut("h3");
        for waits in 1..=2 {
            process::signal(job.watcher("h3").pid, libc::SIGKILL);
            if !wait_until(SLACK, || job.log("h3").matches("the ranks of this node wait").count() == waits) {
                job.fail("a new ringwatchd has its ranks wait while it is out of contact");
            }
        }
        lab.heal("h3");
        job.keeps("h3");
        job.end();
        let outcome = job.finish();
        outcome.finished_without(&[]);
        outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
    });
}

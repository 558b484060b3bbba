//! A host whose part in the ring another machine carries: on the whole system, h4 for h3. What the loss of each means
//! is in docs/offload.md.

use system_tests::clock::now;
use system_tests::{Job, Lab, Running, SLACK, TIMEOUT, in_lab, process};

/// Six ranks on three hosts.
fn job() -> Job {
    Job::new().on(&["h1", "h2", "h3"], 2).parameter("offload", "h3=h4")
}

fn started(lab: &Lab, job: Job) -> Running<'_> {
    let mut job = job.start(lab);
    job.wait_until_blocked();
    // There is exactly one, or the test fails here.
    let _ = (job.watcher("h3"), job.watcher("h4"));
    job
}

#[test]
fn a_served_host_runs_its_part_of_the_job() {
    in_lab(|lab| {
        let job = started(lab, job().blocked_in("allreduce", &[]));
        std::thread::sleep(TIMEOUT * 3);
        job.end();
        let outcome = job.finish();
        outcome.finished_without(&[]);
        outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
    });
}

#[test]
fn a_rank_of_a_served_host_is_killed() {
    in_lab(|lab| {
        let job = started(lab, job().blocked_in("allreduce", &[4]));
        let at = job.signal_rank(4, libc::SIGKILL);
        job.finish().recovered(&[4]).told_within(&[4], at, TIMEOUT);
    });
}

/// What is chosen for heartbeats is not asked of a host that neither sends nor receives any.
#[test]
fn a_served_host_needs_no_interface_of_those_that_are_named() {
    in_lab(|lab| {
        let job = job().parameter("if_include", "10.77.0.1,10.77.0.2,10.77.0.4").blocked_in("recv", &[5]);
        let job = started(lab, job);
        let _ = job.signal_rank(5, libc::SIGKILL);
        job.finish().recovered(&[5]);
    });
}

#[test]
fn a_served_host_dies() {
    in_lab(|lab| {
        let mut job = started(lab, job().blocked_in("mixed", &[4, 5]));
        let at = job.kill_host("h3");
        job.finish().recovered(&[4, 5]).told_within(&[4, 5], at, TIMEOUT);
    });
}

#[test]
fn another_host_dies_beside_a_served_one() {
    in_lab(|lab| {
        let mut job = started(lab, job().blocked_in("allreduce", &[2, 3]));
        let at = job.kill_host("h2");
        job.finish().recovered(&[2, 3]).told_within(&[2, 3], at, TIMEOUT);
    });
}

#[test]
fn the_service_is_killed_and_started_again() {
    in_lab(|lab| {
        let job = started(lab, job().blocked_in("allreduce", &[]));
        for _ in 0..3 {
            job.replaces_watcher("h4", libc::SIGKILL);
        }
        job.end();
        let outcome = job.finish();
        outcome.finished_without(&[]);
        outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
    });
}

/// A machine that does not answer any more takes the host it serves with it.
#[test]
fn the_service_is_lost_for_good() {
    in_lab(|lab| {
        let mut job = started(lab, job().blocked_in("allreduce", &[4, 5]));
        let (service, ranks) = (job.watcher("h4").pid, [job.pid(4), job.pid(5)]);
        job.loses("h3");
        let at = now();
        process::signal(service, libc::SIGSTOP);
        job.wait_until_gone("ranks of the host that is not served any more", &ranks, TIMEOUT * 2 + SLACK);
        process::signal(service, libc::SIGCONT);
        job.finish().recovered(&[4, 5]).told_within(&[4, 5], at, TIMEOUT);
    });
}

#[test]
fn the_node_of_mpirun_cannot_be_served() {
    in_lab(|lab| {
        let job = Job::new().parameter("offload", "h1=h4").arguments(&["--op", "none"]);
        let outcome = job.run(lab);
        outcome.require(outcome.diaries.0.is_empty(), "no rank is started");
        outcome.was_refused(&["psensor_ringwatch_offload", "node of mpirun"]);
    });
}

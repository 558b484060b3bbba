//! A runtime daemon is killed or stopped: its ranks are dead, the job goes on. `ringwatchd` is killed: it is started
//! again, and nobody is dead.

use std::time::Duration;

use system_tests::{Job, Lab, SLACK, STOP_TIMEOUT, TIMEOUT, in_lab, process};

/// Signals the prted of a host, whose ranks are to be dead within `limit`.
fn prted_is_lost(lab: &Lab, job: Job, operation: &str, host: &str, signal: i32, limit: Duration) {
    let victims = job.ranks_on(host);
    let mut job = job.blocked_in(operation, &victims).start(lab);
    job.wait_until_blocked();
    let (runtime, watcher) = (job.runtime(host), job.watcher(host).pid);
    let pids: Vec<i32> = victims.iter().map(|rank| job.pid(*rank)).chain([watcher, runtime]).collect();
    job.loses(host);
    let at = system_tests::clock::now();
    process::signal(runtime, signal);
    job.wait_until_gone("ranks and daemons of the lost node", &pids, limit * 2 + SLACK);
    job.finish().recovered(&victims).told_within(&victims, at, limit);
}

#[test]
fn prted_killed_while_others_receive_from_its_rank() {
    in_lab(|lab| prted_is_lost(lab, Job::new(), "recv", "h3", libc::SIGKILL, TIMEOUT));
}

#[test]
fn prted_killed_while_others_receive_from_anybody() {
    in_lab(|lab| prted_is_lost(lab, Job::new(), "any", "h3", libc::SIGKILL, TIMEOUT));
}

#[test]
fn prted_killed_in_allreduce() {
    in_lab(|lab| prted_is_lost(lab, Job::new(), "allreduce", "h3", libc::SIGKILL, TIMEOUT));
}

#[test]
fn prted_killed_while_every_rank_does_something_else() {
    in_lab(|lab| prted_is_lost(lab, Job::new(), "mixed", "h2", libc::SIGKILL, TIMEOUT));
}

#[test]
fn prted_killed_with_the_default_times() {
    in_lab(|lab| {
        let job = Job::new().with_default_times();
        prted_is_lost(lab, job, "mixed", "h4", libc::SIGKILL, Duration::from_secs(1));
    });
}

#[test]
fn prted_crashes() {
    in_lab(|lab| prted_is_lost(lab, Job::new(), "allreduce", "h4", libc::SIGSEGV, TIMEOUT));
}

#[test]
fn prted_terminated() {
    in_lab(|lab| prted_is_lost(lab, Job::new(), "allreduce", "h4", libc::SIGTERM, TIMEOUT));
}

#[test]
fn prted_stopped_in_allreduce() {
    in_lab(|lab| prted_is_lost(lab, Job::new(), "allreduce", "h3", libc::SIGSTOP, STOP_TIMEOUT));
}

#[test]
fn prted_stopped_while_every_rank_does_something_else() {
    in_lab(|lab| prted_is_lost(lab, Job::new(), "mixed", "h2", libc::SIGSTOP, STOP_TIMEOUT));
}

/// Ranks may be stopped for ever there, but who serves them may not.
#[test]
fn prted_stopped_where_ranks_may_be_stopped_is_lost_after_two_seconds() {
    in_lab(|lab| {
        let job = Job::new().parameter("stop_timeout", "off");
        prted_is_lost(lab, job, "allreduce", "h3", libc::SIGSTOP, Duration::from_secs(2));
    });
}

/// Nobody waits for a node without ranks, and nobody but its `ringwatchd` knows of its prted.
#[test]
fn prted_stopped_when_the_job_ends_is_not_left_behind() {
    in_lab(|lab| {
        let mut job = Job::new().ranks(6).blocked_in("allreduce", &[]).start(lab);
        job.wait_until_blocked();
        let runtime = job.runtime("h4");
        job.loses("h4");
        process::signal(runtime, libc::SIGSTOP);
        job.end();
        job.finish().finished_without(&[]);
    });
}

/// It goes on, and ends the ranks of its node.
#[test]
fn prted_killed_while_its_ringwatchd_is_stopped() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("allreduce", &[4, 5]).start(lab);
        job.wait_until_blocked();
        let (watcher, runtime) = (job.watcher("h3").pid, job.runtime("h3"));
        job.loses("h3");
        process::signal(watcher, libc::SIGSTOP);
        process::signal(runtime, libc::SIGKILL);
        job.finish().recovered(&[4, 5]);
    });
}

/// Nobody else would find it.
#[test]
fn ringwatchd_stopped_when_the_job_ends_is_not_left_behind() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("allreduce", &[]).start(lab);
        job.wait_until_blocked();
        // The plugin would find it in half a timeout.
        ["h1", "h2"].iter().for_each(|host| process::signal(job.watcher(host).pid, libc::SIGSTOP));
        job.end();
        job.finish().finished_without(&[]);
    });
}

#[test]
fn two_prted_killed_at_once() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("allreduce", &[2, 3, 6, 7]).start(lab);
        job.wait_until_blocked();
        let runtimes = ["h2", "h4"].map(|host| job.runtime(host));
        ["h2", "h4"].iter().for_each(|host| job.loses(host));
        let at = system_tests::clock::now();
        runtimes.iter().for_each(|pid| process::signal(*pid, libc::SIGKILL));
        job.finish().recovered(&[2, 3, 6, 7]).told_within(&[2, 3, 6, 7], at, TIMEOUT);
    });
}

/// Signals `ringwatchd` of a host again and again: it comes back each time, and nobody is declared dead.
fn ringwatchd_comes_back(lab: &Lab, host: &str, signal: i32, times: u32) {
    let mut job = Job::new().blocked_in("allreduce", &[]).start(lab);
    job.wait_until_blocked();
    for _ in 0..times {
        job.replaces_watcher(host, signal);
    }
    job.end();
    let outcome = job.finish();
    outcome.finished_without(&[]);
    outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
}

#[test]
fn ringwatchd_killed_is_started_again() {
    in_lab(|lab| ringwatchd_comes_back(lab, "h3", libc::SIGKILL, 3));
}

#[test]
fn ringwatchd_killed_while_every_rank_does_something_else() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("mixed", &[5]).arguments(&["--die", "kill"]).start(lab);
        job.wait_until_blocked();
        job.replaces_watcher("h2", libc::SIGKILL);
        job.replaces_watcher("h1", libc::SIGSTOP);
        if let Some(entry) = job.diaries().all("error").next() {
            job.fail(&format!("nobody is declared dead, but {entry:?}"));
        }
        job.go();
        job.finish().recovered(&[5]);
    });
}

#[test]
fn ringwatchd_of_prterun_killed_is_started_again() {
    in_lab(|lab| ringwatchd_comes_back(lab, "h1", libc::SIGKILL, 3));
}

#[test]
fn ringwatchd_stopped_is_replaced() {
    in_lab(|lab| ringwatchd_comes_back(lab, "h2", libc::SIGSTOP, 2));
}

/// The others have asked it about a node that is silent, and take its silence for a cut before long.
#[test]
fn ringwatchd_of_prterun_hangs_while_others_wait_for_its_word() {
    in_lab(|lab| {
        for after in [0, 10, 30] {
            let mut job = Job::new().blocked_in("allreduce", &[4, 5]).start(lab);
            job.wait_until_blocked();
            let watcher = job.watcher("h1").pid;
            let at = job.cut("h3");
            // About then the observer of h3 begins to ask.
            std::thread::sleep(TIMEOUT + Duration::from_millis(after));
            process::signal(watcher, libc::SIGSTOP);
            job.finish().recovered(&[4, 5]).told_within(&[4, 5], at, TIMEOUT * 3);
            lab.restore();
        }
    });
}

/// The others would take the node for dead.
#[test]
#[ignore = "waits long: a part of scripts/test --full"]
fn ringwatchd_killed_after_the_ranks_of_its_node_have_ended() {
    in_lab(|lab| {
        for signal in [libc::SIGKILL, libc::SIGSTOP] {
            let mut job = Job::new().arguments(&["--op", "none", "--finalize-fault", "5:after:linger"]).start(lab);
            job.wait_for("finalized", &job.others(&[5]));
            let pids = [job.pid(6), job.pid(7)];
            job.wait_until_gone("the ranks of h4", &pids, SLACK * 5);
            // What its prted makes of that has no other trace.
            std::thread::sleep(SLACK);
            job.replaces_watcher("h4", signal);
            if job.log("h1").contains("declared") {
                job.fail("nobody is declared dead");
            }
            job.end();
            job.finish().finished_without(&[]);
        }
    });
}

/// A program in place of `ringwatchd` that does something else first as soon as a file is there; the names of both.
fn daemon_that(name: &str, does: &str) -> (String, String) {
    let daemon = format!("/tmp/system-tests/{name}");
    let armed = format!("{daemon}.armed");
    let script = format!("#!/bin/sh\nif [ -e {armed} ]; then {does}; fi\nexec ringwatchd \"$@\"\n");
    std::fs::write(&daemon, script).expect("/tmp can be written");
    system_tests::lab::run("chmod", &["755", &daemon]);
    let _ = std::fs::remove_file(&armed);
    (daemon, armed)
}

/// It is not one that is only slow to start.
#[test]
fn ringwatchd_stopped_as_it_is_started_is_replaced() {
    in_lab(|lab| {
        let (daemon, armed) = daemon_that("ringwatchd-stopped", "rm $0.armed; kill -STOP $$");
        let job = Job::new().parameter("timeout", "600ms").parameter("daemon", &daemon);
        let mut job = job.blocked_in("allreduce", &[]).start(lab);
        job.wait_until_blocked();
        for host in ["h1", "h3"] {
            std::fs::write(&armed, "").expect("/tmp can be written");
            job.replaces_watcher(host, libc::SIGKILL);
            if std::fs::exists(&armed).expect("/tmp can be read") {
                job.fail("one has been stopped as it was started");
            }
        }
        job.end();
        let outcome = job.finish();
        outcome.finished_without(&[]);
        outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
    });
}

/// A rank that dies while nobody watches it is found by the next `ringwatchd`.
#[test]
fn a_rank_dies_together_with_its_ringwatchd() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("mixed", &[5]).start(lab);
        job.wait_until_blocked();
        let watcher = job.watcher("h3").pid;
        process::signal(watcher, libc::SIGKILL);
        let at = job.signal_rank(5, libc::SIGKILL);
        job.finish().recovered(&[5]).told_within(&[5], at, TIMEOUT);
    });
}

/// After a failure has been dealt with, a new `ringwatchd` still knows of it.
#[test]
fn ringwatchd_killed_after_a_recovery() {
    in_lab(|lab| {
        let mut job = Job::new().arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let _ = job.signal_rank(5, libc::SIGKILL);
        let survivors = job.others(&[5]);
        job.wait_until_repaired(&survivors);
        for host in ["h1", "h2", "h3"] {
            process::signal(job.watcher(host).pid, libc::SIGKILL);
        }
        std::thread::sleep(TIMEOUT * 2);
        let _ = job.signal_rank(2, libc::SIGKILL);
        let survivors = job.others(&[2, 5]);
        job.wait_until_repaired(&survivors);
        job.end();
        job.finish().recovered(&[2, 5]);
    });
}

/// A `ringwatchd` beside `prterun` that cannot be started again: nobody is left to put deaths into one order.
#[test]
fn a_job_whose_ringwatchd_beside_prterun_cannot_come_back_ends() {
    in_lab(|lab| {
        let (daemon, armed) = daemon_that("ringwatchd-once", "exit 1");
        let job = Job::new().parameter("daemon", &daemon).blocked_in("mixed", &[]).arguments(&["--hold"]);
        let mut job = job.start(lab);
        job.wait_until_blocked();
        std::fs::write(&armed, "").expect("/tmp can be written");
        let pids: Vec<i32> = job.ranks().into_iter().map(|rank| job.pid(rank)).collect();
        ["h2", "h3", "h4"].iter().for_each(|host| job.loses(host));
        process::signal(job.watcher("h1").pid, libc::SIGKILL);
        job.wait_until_gone("ranks", &pids, TIMEOUT * 2 + SLACK);
        job.finish().gave_up(&["prterun's node"]);
    });
}

/// A `ringwatchd` that cannot be started again: its node counts as lost.
#[test]
fn a_node_whose_ringwatchd_cannot_come_back_is_lost() {
    in_lab(|lab| {
        let (daemon, armed) = daemon_that("ringwatchd-once", "exit 1");
        let mut job = Job::new().parameter("daemon", &daemon).blocked_in("mixed", &[4, 5]).start(lab);
        job.wait_until_blocked();
        std::fs::write(&armed, "").expect("/tmp can be written");
        let pids = [job.pid(4), job.pid(5), job.runtime("h3")];
        job.loses("h3");
        let at = system_tests::clock::now();
        process::signal(job.watcher("h3").pid, libc::SIGKILL);
        job.wait_until_gone("ranks and prted of the node", &pids, TIMEOUT * 2 + SLACK);
        job.finish().recovered(&[4, 5]).told_within(&[4, 5], at, TIMEOUT);
    });
}

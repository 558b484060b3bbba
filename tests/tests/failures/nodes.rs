//! A node dies with everything on it, or its link is cut: declared after the timeout, and the job goes on without it.

use std::time::Duration;

use system_tests::{Job, Lab, SLACK, TIMEOUT, in_lab, process};

fn is_killed(lab: &Lab, job: Job, operation: &str, host: &str) {
    let (victims, timeout) = (job.ranks_on(host), job.timeout());
    let mut job = job.blocked_in(operation, &victims).start(lab);
    job.wait_until_blocked();
    let at = job.kill_host(host);
    job.finish().recovered(&victims).told_within(&victims, at, timeout);
}

fn is_cut(lab: &Lab, job: Job, operation: &str, host: &str) {
    let (victims, timeout, period) = (job.ranks_on(host), job.timeout(), job.period());
    let mut job = job.blocked_in(operation, &victims).start(lab);
    job.wait_until_blocked();
    let pids: Vec<i32> = victims.iter().map(|rank| job.pid(*rank)).collect();
    let at = job.cut(host);
    let gone = job.wait_until_gone("ranks of the node that is cut off", &pids, timeout * 2 + SLACK);
    let outcome = job.finish();
    outcome.recovered(&victims).told_within(&victims, at, timeout);
    // The last heartbeat may be as old as a period when the link goes.
    outcome.not_told_before(at, timeout.saturating_sub(period * 2));
    eprintln!("ranks of the cut-off node ended after {:?}", gone.saturating_sub(at));
}

#[test]
fn killed_while_others_receive_from_its_rank() {
    in_lab(|lab| is_killed(lab, Job::new(), "recv", "h3"));
}

#[test]
fn killed_while_others_receive_from_anybody() {
    in_lab(|lab| is_killed(lab, Job::new(), "any", "h3"));
}

#[test]
fn killed_in_allreduce() {
    in_lab(|lab| is_killed(lab, Job::new(), "allreduce", "h3"));
}

#[test]
fn killed_in_sendrecv_with_its_neighbours() {
    in_lab(|lab| is_killed(lab, Job::new(), "ring", "h4"));
}

#[test]
fn killed_while_every_rank_does_something_else() {
    in_lab(|lab| is_killed(lab, Job::new(), "mixed", "h2"));
}

#[test]
fn killed_with_the_default_times() {
    in_lab(|lab| is_killed(lab, Job::new().with_default_times(), "mixed", "h3"));
}

#[test]
fn two_killed_at_once() {
    in_lab(|lab| {
        let dead = [2, 3, 6, 7];
        // The first recovery may be over before the second host dies.
        let mut job = Job::new().blocked_in("allreduce", &dead).arguments(&["--hold"]).start(lab);
        job.wait_until_blocked();
        let at = job.kill_host("h2");
        job.kill_host("h4");
        job.end();
        job.finish().recovered(&dead).told_within(&dead, at, TIMEOUT);
    });
}

/// All nodes but prterun's die, one after the other.
#[test]
fn all_others_one_after_the_other() {
    in_lab(|lab| {
        let mut job = Job::new().arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let mut dead = Vec::new();
        for host in ["h3", "h2", "h4"] {
            let _ = job.kill_host(host);
            dead.extend(job.job.ranks_on(host));
            let survivors = job.others(&dead);
            job.wait_until_repaired(&survivors);
        }
        job.end();
        job.finish().recovered(&dead);
    });
}

/// A node dies during the recovery from a rank's death.
#[test]
fn killed_during_the_recovery_from_a_rank() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("mixed", &[1]).arguments(&["--hold"]).start(lab);
        job.wait_until_blocked();
        let _ = job.signal_rank(1, libc::SIGKILL);
        job.wait("somebody is told", Duration::from_secs(10), |diaries| diaries.all("error").next().is_some());
        let _ = job.kill_host("h3");
        let survivors = job.others(&[1, 4, 5]);
        job.wait_until_repaired(&survivors);
        job.end();
        job.finish().recovered(&[1, 4, 5]);
    });
}

#[test]
fn cut_while_others_receive_from_its_rank() {
    in_lab(|lab| is_cut(lab, Job::new(), "recv", "h3"));
}

#[test]
fn cut_while_others_receive_from_anybody() {
    in_lab(|lab| is_cut(lab, Job::new(), "any", "h3"));
}

#[test]
fn cut_in_allreduce() {
    in_lab(|lab| is_cut(lab, Job::new(), "allreduce", "h3"));
}

#[test]
fn cut_while_every_rank_does_something_else() {
    in_lab(|lab| is_cut(lab, Job::new(), "mixed", "h2"));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn cut_with_the_default_times() {
    in_lab(|lab| is_cut(lab, Job::new().with_default_times(), "mixed", "h4"));
}

/// A link that comes back before the timeout was never away.
#[test]
fn cut_shorter_than_the_timeout_is_no_failure() {
    in_lab(|lab| {
        let mut job = Job::new().with_default_times().blocked_in("allreduce", &[]).start(lab);
        job.wait_until_blocked();
        for _ in 0..2 {
            lab.split(&["h3"], false);
            std::thread::sleep(Duration::from_millis(500));
            lab.heal("h3");
            std::thread::sleep(Duration::from_millis(1500));
        }
        job.end();
        let outcome = job.finish();
        outcome.finished_without(&[]);
        outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
    });
}

/// Nodes that host no rank of the job are none of its failures.
#[test]
fn a_node_without_ranks_dies() {
    in_lab(|lab| {
        let mut job = Job::new().ranks(6).blocked_in("allreduce", &[]).start(lab);
        job.wait_until_blocked();
        if job.named("h4", "prted").is_empty() {
            job.fail("h4 has a prted");
        }
        let _ = job.kill_host("h4");
        std::thread::sleep(TIMEOUT * 3);
        job.end();
        let outcome = job.finish();
        outcome.finished_without(&[]);
        outcome.require(outcome.diaries.all("error").next().is_none(), "no rank is declared dead");
        outcome.require(process::on_hosts().is_empty(), "nothing is left");
    });
}

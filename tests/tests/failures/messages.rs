//! Messages that were given up because their other end has died.

use std::time::Duration;

use system_tests::clock::wait_until;
use system_tests::diary::{Entry, PROC_FAILED};
use system_tests::lab::run;
use system_tests::programs::compile;
use system_tests::{Job, Lab, Running, in_lab};

const LIMIT: Duration = Duration::from_secs(30);

/// Sockets of a host in which something waits for the network, of the test's program or of anybody.
fn unsent(host: &str, whose: &str) -> usize {
    let sockets = run("ss", &["-N", host, "-Htnp"]);
    sockets.lines().filter(|line| line.split_whitespace().nth(2) != Some("0") && line.contains(whose)).count()
}

fn unread(host: &str) -> usize {
    let sockets = run("ss", &["-N", host, "-Htn"]);
    sockets.lines().filter(|line| line.split_whitespace().nth(1) != Some("0")).count()
}

fn start<'a>(lab: &'a Lab, arguments: &[&str]) -> Running<'a> {
    // Alone on h4 is rank 6.
    let job = Job::new().ranks(7).diarist(&compile("given_up", "mpicc")).arguments(arguments);
    let mut job = job.start(lab);
    job.wait_for("offered", &[3, 4, 5]);
    job.tell("leave");
    job.wait_for("left", &[6]);
    job
}

fn ends_well(job: Running<'_>) {
    let outcome = job.finish();
    for rank in 0..6 {
        let said = |event: &str| outcome.diaries.first(rank, event).map(Entry::text);
        let (told, clean, right) = (said("told"), said("clean"), said("right"));
        outcome.require(told.as_deref() == Some(PROC_FAILED), &format!("rank {rank} is told, not {told:?}"));
        outcome.require(clean.as_deref() == Some("1"), &format!("the memory of rank {rank} is its own, not {clean:?}"));
        outcome.require(right.as_deref() == Some("20"), &format!("rank {rank} gets 20 messages, not {right:?}"));
        outcome.finalized(rank);
    }
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
}

/// A cut link keeps what rank 6 has still sent about the messages to and from it, until it is held dead.
fn given_up(arguments: &[&str]) {
    const OTHERS: [&str; 3] = ["h1", "h2", "h3"];
    in_lab(|lab| {
        let mut job = start(lab, arguments);
        job.tell("accept");
        job.wait_for("accepted", &[3, 4, 5]);
        let asked = wait_until(LIMIT, || OTHERS.iter().all(|host| unsent(host, "given_up") == 0));
        let _ = job.cut("h4");
        job.tell("answer");
        let kept = wait_until(LIMIT, || unsent("h4", "given_up") >= 6);
        job.wait_for("told", &[0, 1, 2, 3, 4, 5]);
        lab.heal("h4");
        let came = wait_until(LIMIT, || unsent("h4", "") == 0 && OTHERS.iter().all(|host| unread(host) == 0));
        if !asked || !kept || !came {
            job.fail(&format!(
                "rank 6 is asked ({asked}), the link keeps what it has sent ({kept}) until it is whole again ({came})"
            ));
        }
        job.end();
        ends_well(job);
    });
}

#[test]
fn what_the_dead_had_sent_about_messages_that_were_given_up_does_no_harm() {
    given_up(&[]);
}

/// Open MPI waits for whoever might send what has begun to arrive from the dead.
#[test]
fn a_message_from_anybody_that_has_begun_to_arrive_from_the_dead_is_given_up() {
    given_up(&["--any"]);
}

/// Of which the rest is asked for in vain, from a connection that is closed.
#[test]
fn a_message_from_the_dead_that_anybody_might_have_sent_is_given_up_when_it_is_received() {
    in_lab(|lab| {
        let mut job = start(lab, &["--later"]);
        let _ = job.signal_rank(6, libc::SIGKILL);
        job.wait_for("told", &[0, 1, 2]);
        job.tell("accept");
        job.wait_for("told", &[3, 4, 5]);
        job.end();
        ends_well(job);
    });
}

/// What comes late of a collective that a death has ended is dropped. Open MPI 5.0.7 waits for it all the same before
/// it takes any later message of its sender (`pml_ob1_recvfrag.c:511` and `:1101`).
#[test]
fn the_living_hear_each_other_on_a_communicator_with_a_dead_member() {
    in_lab(|lab| {
        let mut job = Job::new().diarist(&compile("gaps", "mpicc")).start(lab);
        let living = job.others(&[7]);
        job.wait_for("finalized", &living);
        let outcome = job.finish();
        for rank in living {
            let got = outcome.diaries.first(rank, "got").map(|entry| entry.text());
            outcome.require(got.as_deref() == Some("42"), &format!("rank {rank} gets 42, not {got:?}")).finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// Two connect with each other at once; the connection that both keep is the one whose packets a cut link has lost, and
/// whose process is stopped when it is made at last. In the meantime the other one does not take it for dead.
#[test]
fn a_connection_that_is_made_late_is_waited_for() {
    in_lab(|lab| {
        let job = Job::new().with_default_times().on(&system_tests::lab::HOSTS, 1);
        let mut job = job.diarist(&compile("crossed", "mpicc")).start(lab);
        job.wait_for("ready", &[0, 1, 2, 3]);
        let _ = job.signal_rank(3, libc::SIGKILL);
        job.wait_for("knows", &[0, 1, 2]);
        lab.split(&["h3"], false);
        job.tell("first");
        job.wait_for("sent", &[1]);
        lab.join("h3");
        job.tell("second");
        job.wait_for("sent", &[2]);
        // Rank 1 closes what rank 2 has begun, and the kernel begins again what it has itself begun, a second after
        // that.
        std::thread::sleep(Duration::from_millis(200));
        let _ = job.signal_rank(1, libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(1500));
        let _ = job.signal_rank(1, libc::SIGCONT);
        let outcome = job.finish();
        for rank in [0, 1, 2] {
            let text = |event| outcome.diaries.first(rank, event).map(|entry| entry.text());
            let told = text("told");
            outcome.require(rank == 0 || told.as_deref() == Some("0 0"), &format!("both messages arrive: {told:?}"));
            let again = text("again");
            outcome.require(again.as_deref() == Some("0 3"), &format!("nobody else is dead: {again:?}"));
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

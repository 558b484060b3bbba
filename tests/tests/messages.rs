//! Messages that were given up because their other end has died.

use std::time::Duration;

use system_tests::clock::wait_until;
use system_tests::diary::{Entry, PROC_FAILED};
use system_tests::job::compile;
use system_tests::lab::run;
use system_tests::{Job, in_lab};

const LIMIT: Duration = Duration::from_secs(30);

/// A cut link keeps what rank 6 has still sent about the messages to and from it, until it is held dead.
fn given_up(arguments: &[&str]) {
    let waiting_in = |host: &str, column: usize| {
        let sockets = run("ss", &["-N", host, "-Htn"]);
        sockets.lines().filter(|line| line.split_whitespace().nth(column) != Some("0")).count()
    };
    let (unsent, unread) = (|| waiting_in("h4", 2), || ["h1", "h2", "h3"].map(|host| waiting_in(host, 1)));
    in_lab(|lab| {
        // Alone on h4 is rank 6.
        let job = Job::new().ranks(7).diarist(&compile("given_up", "mpicc")).arguments(arguments);
        let mut job = job.start(lab);
        job.wait_for("offered", &[3, 4, 5]);
        job.tell("leave");
        job.wait_for("left", &[6]);
        job.tell("accept");
        job.wait_for("accepted", &[3, 4, 5]);
        let _ = job.cut("h4");
        job.tell("answer");
        let kept = wait_until(LIMIT, || unsent() >= 6);
        job.wait_for("told", &[0, 1, 2, 3, 4, 5]);
        lab.heal("h4");
        let came = wait_until(LIMIT, || unsent() == 0 && unread() == [0; 3]);
        if !kept || !came {
            job.fail(&format!("the link keeps what rank 6 has sent ({kept}) until it is whole again ({came})"));
        }
        job.end();
        let outcome = job.finish();
        for rank in 0..6 {
            let said = |event: &str| outcome.diaries.first(rank, event).map(Entry::text);
            let (told, right) = (said("told"), said("right"));
            outcome.require(told.as_deref() == Some(PROC_FAILED), &format!("rank {rank} is told, not {told:?}"));
            outcome.require(right.as_deref() == Some("20"), &format!("rank {rank} gets 20 messages, not {right:?}"));
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
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

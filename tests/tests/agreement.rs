//! Open MPI's agreement meets a death while it is at work.

use std::time::Duration;

use system_tests::diary::PROC_FAILED;
use system_tests::job::compile;
use system_tests::{Job, in_lab};

const LIMIT: Duration = Duration::from_secs(40);

/// The message with the result finds its connection broken, and the agreement is over before the news of that death come
/// to it: Open MPI alone follows a pointer into what has been freed, which here is overwritten at once.
#[test]
fn a_message_finds_the_connection_broken() {
    in_lab(|lab| {
        let program = compile("broken", "mpicc");
        let job = Job::new().on(&["h1", "h2"], 1).options(&["-x", "MALLOC_PERTURB_=165"]).diarist(&program);
        let mut job = job.start(lab);
        job.wait("rank 0 has agreed", LIMIT, |diaries| diaries.has(0, "agreed"));
        let _ = job.signal_rank(1, libc::SIGKILL);
        let outcome = job.finish();
        let entry = |event: &str| outcome.diaries.first(0, event).map(|entry| entry.text());
        for (event, expected) in [("agreed", "0"), ("broken", "1"), ("again", PROC_FAILED), ("shrunk", "1")] {
            let text = entry(event);
            outcome.require(text.as_deref() == Some(expected), &format!("{event} {expected}, not {text:?}"));
        }
        outcome.finalized(0).require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

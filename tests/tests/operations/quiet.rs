//! Nobody is declared dead who is not.

use std::time::Duration;

use system_tests::lab::HOSTS;
use system_tests::{Job, Lab, in_lab};

/// Runs four busy ranks for every processor of this machine, without any fault.
fn nobody_is_declared(lab: &Lab, span: Duration) {
    let processors = std::thread::available_parallelism().expect("Linux tells").get();
    let mut job = Job::new()
        .on(&HOSTS, u32::try_from(processors).expect("not that many"))
        .with_default_times()
        .parameter("period", "10ms")
        .arguments(&["--op", "allreduce", "--busy"])
        .limit(span + Duration::from_secs(30))
        .start(lab);
    job.wait_until_blocked();
    std::thread::sleep(span);
    job.end();
    let outcome = job.finish();
    outcome.finished_without(&[]);
    outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
}

#[test]
fn under_load_for_a_while() {
    in_lab(|lab| nobody_is_declared(lab, Duration::from_secs(10)));
}

#[test]
#[ignore = "takes ten minutes: a part of scripts/test --full"]
fn under_load_for_ten_minutes() {
    nobody_is_declared(&Lab::open(), Duration::from_secs(600));
}

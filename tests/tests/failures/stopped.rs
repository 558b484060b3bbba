//! A rank that is stopped is declared dead and killed after a parameter of its own; one that is traced or waits for
//! slow I/O is not stopped.

use std::time::Duration;

use system_tests::clock::wait_until;
use system_tests::programs::compile;
use system_tests::{Job, Lab, Running, SLACK, STOP_TIMEOUT, in_lab, process};

const VICTIM: u32 = 5;
/// Twice as long as a rank may be stopped.
const TOO_LONG: Duration = Duration::from_millis(800);

fn is_stopped(lab: &Lab, job: Job, operation: &str, victim: u32, limit: Duration) {
    let mut job = job.blocked_in(operation, &[victim]).start(lab);
    job.wait_until_blocked();
    let pid = job.pid(victim);
    let at = job.signal_rank(victim, libc::SIGSTOP);
    let outcome = job.finish();
    outcome.recovered(&[victim]).told_within(&[victim], at, limit).not_told_before(at, limit * 3 / 4);
    outcome.require(!process::lives(pid), "the stopped rank has been killed");
}

/// A rank crashes in this way, and its handler of that waits for ever.
fn hangs_in_a_crash(lab: &Lab, how: &str) {
    let mut job = Job::new().blocked_in("allreduce", &[VICTIM]).arguments(&["--die", how]).start(lab);
    job.wait_until_blocked();
    let pid = job.pid(VICTIM);
    let at = job.go();
    let outcome = job.finish();
    outcome.recovered(&[VICTIM]).told_within(&[VICTIM], at, STOP_TIMEOUT);
    outcome.require(!process::lives(pid), "the rank has been killed");
}

/// Open MPI's handler of a crash prints the stack, and waits for ever where the crash was inside `malloc`.
#[test]
fn a_rank_that_hangs_in_its_handler_of_a_crash_is_dead() {
    in_lab(|lab| hangs_in_a_crash(lab, "hang"));
}

/// UCX's handler, too, would wait for the lock that `malloc` holds.
#[test]
fn a_rank_that_crashes_inside_malloc_is_dead() {
    in_lab(|lab| hangs_in_a_crash(lab, "heap"));
}

#[test]
fn stopped_while_others_receive_from_it() {
    in_lab(|lab| is_stopped(lab, Job::new(), "recv", VICTIM, STOP_TIMEOUT));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn stopped_while_others_receive_from_anybody() {
    in_lab(|lab| is_stopped(lab, Job::new(), "any", VICTIM, STOP_TIMEOUT));
}

#[test]
fn stopped_in_allreduce() {
    in_lab(|lab| is_stopped(lab, Job::new(), "allreduce", VICTIM, STOP_TIMEOUT));
}

#[test]
fn stopped_while_every_rank_does_something_else() {
    in_lab(|lab| is_stopped(lab, Job::new(), "mixed", VICTIM, STOP_TIMEOUT));
}

#[test]
fn stopped_on_the_host_of_prterun() {
    in_lab(|lab| is_stopped(lab, Job::new(), "mixed", 0, STOP_TIMEOUT));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn stopped_with_the_default_times() {
    in_lab(|lab| is_stopped(lab, Job::new().with_default_times(), "mixed", VICTIM, Duration::from_secs(2)));
}

/// A process lives on when its first thread has left: what is stopped then is the others.
#[test]
fn stopped_after_its_main_thread_has_left() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("allreduce", &[VICTIM]).arguments(&["--die", "leave"]).start(lab);
        job.wait_until_blocked();
        let pid = job.pid(VICTIM);
        let at = job.go();
        let outcome = job.finish();
        outcome.recovered(&[VICTIM]).told_within(&[VICTIM], at, STOP_TIMEOUT).not_told_before(at, STOP_TIMEOUT * 3 / 4);
        outcome.require(!process::lives(pid), "the stopped rank has been killed");
    });
}

#[test]
fn two_of_two_hosts_stop() {
    in_lab(|lab| {
        let victims = [3, 6];
        let mut job = Job::new().blocked_in("allreduce", &victims).start(lab);
        job.wait_until_blocked();
        let at = victims.map(|victim| job.signal_rank(victim, libc::SIGSTOP))[0];
        job.finish().recovered(&victims).told_within(&victims, at, STOP_TIMEOUT);
    });
}

/// The last rank is killed, and the one before it stops inside a call of the recovery. With several threads a message
/// that waits for it shares its memory with later ones to others.
fn stops_in_recovery(lab: &Lab, place: &str) {
    let second = format!("6:{place}:stop");
    let job = Job::new().blocked_in("allreduce", &[7]).arguments(&["--threads", "--second", &second]);
    let mut job = job.start(lab);
    job.wait_until_blocked();
    let _ = job.signal_rank(7, libc::SIGKILL);
    let outcome = job.finish();
    outcome.finished_without(&[6, 7]);
    outcome.require(outcome.diaries.has(6, "dies"), "the second victim comes to stop");
}

#[test]
fn another_one_stops_inside_shrink() {
    in_lab(|lab| stops_in_recovery(lab, "shrink"));
}

#[test]
fn another_one_stops_inside_agree() {
    in_lab(|lab| stops_in_recovery(lab, "agree"));
}

/// Runs a job in which something is done to a rank that must not count as a death.
fn is_left_alone(lab: &Lab, job: Job, disturb: impl FnOnce(i32)) {
    let mut job = job.blocked_in("allreduce", &[]).start(lab);
    job.wait_until_blocked();
    disturb(job.pid(VICTIM));
    job.end();
    let outcome = job.finish();
    outcome.finished_without(&[]);
    outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
}

#[test]
fn stopped_shorter_than_the_limit_while_every_rank_does_something_else() {
    in_lab(|lab| {
        let job = Job::new().parameter("stop_timeout", "2s").blocked_in("mixed", &[5]).arguments(&["--die", "kill"]);
        let mut job = job.start(lab);
        job.wait_until_blocked();
        for rank in [0, 2, 4] {
            let _ = job.signal_rank(rank, libc::SIGSTOP);
            std::thread::sleep(Duration::from_millis(500));
            let _ = job.signal_rank(rank, libc::SIGCONT);
        }
        if let Some(entry) = job.diaries().all("error").next() {
            job.fail(&format!("nobody is declared dead, but {entry:?}"));
        }
        job.go();
        job.finish().recovered(&[5]);
    });
}

#[test]
fn stopped_shorter_than_the_limit_is_not_dead() {
    in_lab(|lab| {
        is_left_alone(lab, Job::new().parameter("stop_timeout", "2s"), |pid| {
            for _ in 0..6 {
                process::signal(pid, libc::SIGSTOP);
                std::thread::sleep(Duration::from_millis(500));
                process::signal(pid, libc::SIGCONT);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
    });
}

/// What a batch system does: every process of the job is stopped, one host after the other within 300 ms, for much
/// longer than any timeout.
fn is_suspended(lab: &Lab, job: Job, with_ringwatchd: bool, span: Duration) {
    is_suspended_while(lab, job, with_ringwatchd, |_| std::thread::sleep(span));
}

fn is_suspended_while(lab: &Lab, job: Job, with_ringwatchd: bool, meanwhile: impl FnOnce(&mut Running<'_>)) {
    let mut job = job.blocked_in("allreduce", &[]).limit(Duration::from_secs(120)).start(lab);
    job.wait_until_blocked();
    let all = job.processes();
    let suspend = |signal: i32, hosts: [&str; 4]| {
        for host in hosts {
            let here = all.iter().filter(|process| process.host == host);
            for process in here.filter(|process| with_ringwatchd || process.name != "ringwatchd") {
                process::signal(process.pid, signal);
            }
            std::thread::sleep(Duration::from_millis(75));
        }
    };
    suspend(libc::SIGSTOP, ["h1", "h2", "h3", "h4"]);
    meanwhile(&mut job);
    suspend(libc::SIGCONT, ["h4", "h2", "h1", "h3"]);
    // Whoever is to be declared after the pause is declared within twice the longest timeout.
    std::thread::sleep(Duration::from_secs(4));
    job.end();
    let outcome = job.finish();
    outcome.finished_without(&[]);
    outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
}

#[test]
fn a_suspended_job_loses_nobody() {
    in_lab(|lab| is_suspended(lab, Job::new().with_default_times(), true, Duration::from_secs(6)));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn a_suspended_job_whose_watchers_run_on_loses_nobody() {
    in_lab(|lab| is_suspended(lab, Job::new().with_default_times(), false, Duration::from_secs(6)));
}

/// Whose nodes are not lost either, although a `prted` that is stopped alone is.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn a_suspended_job_whose_ranks_may_be_stopped_loses_nobody() {
    in_lab(|lab| {
        let job = Job::new().with_default_times().parameter("stop_timeout", "off");
        is_suspended(lab, job, false, Duration::from_secs(4));
    });
}

/// The others hold their ranks while they hear nothing from the node of mpirun, and release them afterwards: that is
/// not to resume what is suspended.
#[test]
#[ignore = "waits long: a part of scripts/test --full"]
fn a_suspended_job_stays_so_when_the_node_of_mpirun_was_out_of_contact() {
    in_lab(|lab| {
        is_suspended_while(lab, Job::new().with_default_times(), false, |job| {
            let watcher = job.watcher("h1").pid;
            process::signal(watcher, libc::SIGSTOP);
            let held = wait_until(SLACK * 3, || job.log("h3").contains("ranks of this node wait"));
            process::signal(watcher, libc::SIGCONT);
            let released = wait_until(SLACK, || job.log("h3").contains("ranks of this node go on"));
            if !held || !released {
                job.fail(&format!("the ranks of h3 are held ({held}) and released ({released})"));
            }
            let ranks = [4, 5].map(|rank| job.pid(rank));
            if !ranks.iter().all(|pid| process::state(*pid) == Some('T')) {
                job.fail("the ranks of h3 stay stopped");
            }
            // As long as stopped ranks of a job that is not suspended are left alone, and more.
            std::thread::sleep(Duration::from_secs(4));
        });
    });
}

#[test]
#[ignore = "takes minutes: a part of scripts/test --full"]
fn a_job_suspended_for_a_minute_loses_nobody() {
    let lab = Lab::open();
    for with_ringwatchd in [true, false] {
        is_suspended(&lab, Job::new().with_default_times(), with_ringwatchd, Duration::from_secs(60));
    }
}

#[test]
fn the_watch_for_stopped_ranks_can_be_off() {
    in_lab(|lab| {
        is_left_alone(lab, Job::new().parameter("stop_timeout", "off"), |pid| {
            process::signal(pid, libc::SIGSTOP);
            std::thread::sleep(Duration::from_millis(2500));
            process::signal(pid, libc::SIGCONT);
        });
    });
}

/// Under a debugger: a tracer holds the rank far longer than it may be stopped.
#[test]
fn a_traced_rank_is_not_dead() {
    in_lab(|lab| {
        is_left_alone(lab, Job::new(), |pid| held_by_a_tracer(pid, "trace", 't'));
    });
}

/// Under a debugger that has attached while the rank was stopped, which leaves it in a group stop.
#[test]
fn a_traced_rank_that_was_stopped_before_is_not_dead() {
    in_lab(|lab| {
        is_left_alone(lab, Job::new(), |pid| {
            held_by_a_tracer(pid, "trace-stopped", 't');
        });
    });
}

/// The same for every kind of operation: at the end one dies for whom the others wait.
fn is_left_alone_in_everything(lab: &Lab, how: &str, disturb: impl FnOnce(&mut Running<'_>)) {
    let mut job = Job::new().blocked_in("mixed", &[VICTIM]).arguments(&["--die", how]).start(lab);
    job.wait_until_blocked();
    disturb(&mut job);
    if let Some(entry) = job.diaries().all("error").next() {
        job.fail(&format!("nobody is declared dead, but {entry:?}"));
    }
    let _ = job.signal_rank(VICTIM, libc::SIGKILL);
    job.finish().recovered(&[VICTIM]);
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn a_traced_rank_is_not_dead_while_every_rank_does_something_else() {
    in_lab(|lab| {
        is_left_alone_in_everything(lab, "none", |job| held_by_a_tracer(job.pid(3), "trace", 't'));
    });
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn a_rank_in_uninterruptible_sleep_is_not_dead_while_every_rank_does_something_else() {
    in_lab(|lab| {
        is_left_alone_in_everything(lab, "sleep", |job| {
            let _ = job.go();
            job.wait_for("slept", &[VICTIM]);
        });
    });
}

fn held_by_a_tracer(pid: i32, how: &str, expected: char) {
    let tracer = compile("tracer", "gcc");
    let mut child = std::process::Command::new(tracer)
        .args([how, &pid.to_string(), "1500"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the tracer can be started");
    std::thread::sleep(TOO_LONG);
    let state = process::state(pid);
    let status = child.wait().expect("the tracer ends");
    assert!(status.success(), "the tracer could not trace");
    assert!(state.is_some_and(|state| state.eq_ignore_ascii_case(&expected)), "the rank is traced, not {state:?}");
}

/// A rank in uninterruptible sleep, as one that waits for slow I/O: here it waits for a child of `vfork`.
#[test]
fn a_rank_in_uninterruptible_sleep_is_not_dead() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("allreduce", &[VICTIM]).arguments(&["--die", "sleep"]).start(lab);
        job.wait_until_blocked();
        let pid = job.pid(VICTIM);
        let _ = job.go();
        job.wait_for("dies", &[VICTIM]);
        std::thread::sleep(TOO_LONG);
        let state = process::state(pid);
        if state != Some('D') {
            job.fail(&format!("the rank is in uninterruptible sleep, not {state:?}"));
        }
        job.wait_for("slept", &[VICTIM]);
        job.end();
        let outcome = job.finish();
        outcome.finished_without(&[]);
        outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
    });
}

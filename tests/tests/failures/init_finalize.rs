//! A rank or a node fails during `MPI_Init` or `MPI_Finalize`: the job ends or recovers, and never hangs.

use std::time::Duration;

use system_tests::diary::PROC_FAILED;
use system_tests::programs::{compile, compile_library};
use system_tests::{Job, Lab, Outcome, SLACK, in_lab, process};

const VICTIM: u32 = 5;
/// Open MPI takes itself apart in another order of events each time.
const REPETITIONS: usize = 5;

/// The job either ended with a status and a sentence that say so, or all ranks whose `MPI_Init` returned went on. (It
/// fails in some ranks and succeeds in others, as a death in it will have it.)
fn ended_or_recovered(outcome: &Outcome, dead: &[u32]) {
    if outcome.status != 0 {
        outcome.gave_up(&[]);
        return;
    }
    let initialised = |rank: &u32| outcome.diaries.has(*rank, "initialised");
    let survivors: Vec<u32> = outcome.survivors(dead).into_iter().filter(initialised).collect();
    outcome.require(!survivors.is_empty(), "mpirun's status is 0 only if there are survivors");
    for rank in survivors {
        outcome.finalized(rank);
        let line = format!("survivor {rank} has finalized");
        outcome.require(outcome.stdout.lines().any(|known| known == line), &format!("the output has '{line}'"));
    }
    outcome.require(outcome.diaries.all("corrupt").next().is_none(), "no result is wrong");
    outcome.left_nothing();
}

fn dies_in_init(lab: &Lab, rank: u32, place: &str, how: &str) -> Outcome {
    let fault = format!("{rank}:{place}:{how}");
    // Not blocked in anything: a fault during MPI_Init may leave nobody to be told.
    let outcome = Job::new().arguments(&["--op", "none", "--init-fault", &fault]).run(lab);
    outcome.require(outcome.diaries.has(rank, "dies"), "the victim comes to die");
    outcome
}

#[test]
fn killed_before_init() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, VICTIM, "before", "kill"), &[VICTIM]));
}

#[test]
fn exits_with_status_0_before_init() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, VICTIM, "before", "exit0"), &[VICTIM]));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn exits_with_status_3_before_init() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, VICTIM, "before", "exit3"), &[VICTIM]));
}

/// The runtime may tell of a death before ringwatch does, here because the latter's daemon hangs for a moment.
#[test]
fn a_death_before_there_is_a_communicator_is_not_forgotten() {
    in_lab(|lab| {
        let job = Job::new().on(&["h1", "h2", "h3"], 1).diarist(&compile("early", "mpicc"));
        let mut job = job.start(lab);
        job.wait_for("waits", &[0, 1, 2]);
        process::signal(job.watcher("h1").pid, libc::SIGSTOP);
        let _ = job.kill_host("h3");
        let outcome = job.finish();
        let class = |rank: u32, event: &str| outcome.diaries.first(rank, event).map(|entry| entry.text());
        for rank in [0, 1] {
            let duplicated = class(rank, "duplicated");
            outcome.require(duplicated.as_deref() == Some(PROC_FAILED), &format!("{rank} is told, not {duplicated:?}"));
            let shrunk = class(rank, "shrunk");
            outcome.require(shrunk.as_deref() == Some("2"), &format!("rank {rank} shrinks to 2 ranks, not {shrunk:?}"));
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn killed_before_init_on_the_host_of_prterun() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, 0, "before", "kill"), &[0]));
}

#[test]
fn killed_inside_init() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, VICTIM, "during", "kill"), &[VICTIM]));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn crashes_inside_init() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, VICTIM, "during", "segv"), &[VICTIM]));
}

#[test]
fn exits_inside_init() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, VICTIM, "during", "quit0"), &[VICTIM]));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn killed_inside_init_on_the_host_of_prterun() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, 0, "during", "kill"), &[0]));
}

/// Open MPI has made the world, but its messages do not know it yet: the news of the death crashes nobody.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn killed_halfway_through_init() {
    in_lab(|lab| {
        for _ in 0..2 {
            let outcome = dies_in_init(lab, VICTIM, "halfway", "kill");
            ended_or_recovered(&outcome, &[VICTIM]);
            outcome.require(!outcome.stderr.contains("(ompi_mpi_init+"), "the news of the death crashes nobody");
        }
    });
}

#[test]
fn stopped_before_init() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, VICTIM, "before", "stop"), &[VICTIM]));
}

#[test]
fn stopped_inside_init() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, VICTIM, "during", "stop"), &[VICTIM]));
}

#[test]
fn killed_right_after_init() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, VICTIM, "after", "kill"), &[VICTIM]));
}

#[test]
fn exits_right_after_init() {
    in_lab(|lab| ended_or_recovered(&dies_in_init(lab, VICTIM, "after", "exit0"), &[VICTIM]));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn killed_inside_init_with_the_default_times() {
    in_lab(|lab| {
        let fault = format!("{VICTIM}:during:kill");
        let job = Job::new().with_default_times().arguments(&["--op", "none", "--init-fault", &fault]);
        ended_or_recovered(&job.run(lab), &[VICTIM]);
    });
}

/// Meanwhile all ranks have been ended, and PRRTE, which has seen that, would be gone with the status 0.
#[test]
fn mpirun_waits_until_it_has_said_why() {
    in_lab(|lab| {
        let (fault, slow) =
            (format!("{VICTIM}:before:kill"), compile_library("slow_words", "gcc").display().to_string());
        let job = Job::new().environment("LD_PRELOAD", &slow).arguments(&["--op", "none", "--init-fault", &fault]);
        job.run(lab).gave_up(&[]);
    });
}

/// It has told PMIx who it is, and is gone when the answer comes. What PMIx 5.0.7 frees then it uses again at the end
/// of the job: here what is freed is overwritten, so that it does not get away with it.
#[test]
fn dies_while_it_connects_on_the_host_of_prterun() {
    in_lab(|lab| {
        let preload = format!("LD_PRELOAD={}", compile_library("connects", "gcc").display());
        let job =
            Job::new().options(&["-x", &preload, "-x", "DIES_CONNECTING=1"]).environment("MALLOC_PERTURB_", "128");
        let outcome = job.arguments(&["--op", "none"]).run(lab);
        outcome.require(outcome.diaries.has(1, "started"), "the victim comes to die");
        outcome.require(!outcome.diaries.has(1, "initialised"), "it dies while it connects");
        ended_or_recovered(&outcome, &[1]);
    });
}

/// Of 32 ranks that end at once PRRTE missed the end of one in 13 of 20 jobs, whose mpirun then waited for ever.
#[test]
fn all_end_at_once() {
    in_lab(|lab| {
        for (program, succeeds) in [("true", true), ("false", false)] {
            for _ in 0..2 {
                let job = Job::new().on(&system_tests::lab::HOSTS, 8).options(&["--oversubscribe"]);
                let outcome = job.program(&[program]).run(lab);
                let what = format!("32 times '{program}' end with a status that says so");
                outcome.require((outcome.status == 0) == succeeds, &what).left_nothing();
            }
        }
    });
}

/// Something happens to a node while rank 5 keeps all others inside `MPI_Init`.
fn node_fails_in_init(lab: &Lab, strike: impl FnOnce(&mut system_tests::Running<'_>)) -> Outcome {
    let mut job = Job::new().arguments(&["--op", "none", "--init-fault", "5:late:none"]).start(lab);
    job.wait_for("enters-init", &job.others(&[VICTIM]));
    strike(&mut job);
    job.finish()
}

#[test]
fn node_killed_inside_init() {
    in_lab(|lab| {
        let outcome = node_fails_in_init(lab, |job| {
            job.kill_host("h4");
        });
        ended_or_recovered(&outcome, &[6, 7]);
    });
}

#[test]
fn link_cut_inside_init() {
    in_lab(|lab| {
        let outcome = node_fails_in_init(lab, |job| {
            job.cut("h3");
        });
        ended_or_recovered(&outcome, &[4, 5]);
    });
}

/// Its ranks are ended, but its runtime daemon is never told that the job is over.
#[test]
#[ignore = "waits for a quarter of a minute: a part of scripts/test --full"]
fn link_cut_while_the_job_is_ended() {
    in_lab(|lab| {
        let outcome = node_fails_in_init(lab, |job| {
            job.wait_for("started", &[VICTIM]);
            let ranks = [6, 7].map(|rank| job.pid(rank));
            process::signal(job.launcher(), libc::SIGSTOP);
            let _ = job.signal_rank(VICTIM, libc::SIGKILL);
            job.wait_until_gone("the ranks of h4", &ranks, SLACK * 2);
            job.cut("h4");
            process::signal(job.launcher(), libc::SIGCONT);
        });
        outcome.gave_up(&[]);
    });
}

/// Heartbeats do not get through, a firewall being in the way, say, and then a cable is cut, too.
#[test]
#[ignore = "half a minute of waiting: a part of scripts/test --full"]
fn link_cut_before_the_nodes_have_found_each_other() {
    in_lab(|lab| {
        let job = Job::new().parameter("if_include", "lo").blocked_in("mixed", &[6, 7]).arguments(&["--hold"]);
        let mut job = job.start(lab);
        // Nobody leaves MPI_Init before the nodes have found each other.
        job.wait_for("enters-init", &job.ranks());
        let _ = job.cut("h4");
        // As far as they can tell they are cut off, too.
        for host in ["h2", "h3"] {
            job.loses(host);
        }
        job.finish().gave_up(&["did not report"]);
    });
}

#[test]
fn prted_killed_inside_init() {
    in_lab(|lab| {
        let outcome = node_fails_in_init(lab, |job| {
            job.loses("h2");
            process::signal(job.runtime("h2"), libc::SIGKILL);
        });
        ended_or_recovered(&outcome, &[2, 3]);
    });
}

#[test]
fn ringwatchd_killed_inside_init_is_started_again() {
    in_lab(|lab| {
        let outcome = node_fails_in_init(lab, |job| {
            for host in ["h1", "h3"] {
                process::signal(job.watcher(host).pid, libc::SIGKILL);
            }
        });
        outcome.finished_without(&[]);
    });
}

/// What its prted told the one that is stopped, its successor has to be told again.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn a_rank_exits_before_init_while_its_ringwatchd_is_stopped() {
    in_lab(|lab| {
        for how in ["exit0", "exit3"] {
            let fault = format!("{VICTIM}:told:{how}");
            let mut job = Job::new().arguments(&["--op", "none", "--init-fault", &fault]).start(lab);
            job.wait_for("enters-init", &job.others(&[VICTIM]));
            let watcher = job.watcher("h3").pid;
            process::signal(watcher, libc::SIGSTOP);
            let _ = job.go();
            job.wait_until_gone("the stopped ringwatchd", &[watcher], SLACK * 2);
            let outcome = job.finish();
            outcome.require(outcome.diaries.has(VICTIM, "dies"), "the victim comes to die");
            ended_or_recovered(&outcome, &[VICTIM]);
        }
    });
}

/// A node is gone before any of its ranks has started.
#[test]
fn node_killed_while_the_job_is_launched() {
    in_lab(|lab| {
        let mut job = Job::new().arguments(&["--op", "none"]).start(lab);
        let there = system_tests::clock::wait_until(Duration::from_secs(10), || !job.named("h3", "prted").is_empty());
        if !there {
            job.fail("h3 gets its prted");
        }
        let _ = job.kill_host("h3");
        let outcome = job.finish();
        outcome.require(outcome.status != 0 || outcome.diaries.has(0, "finalized"), "the status tells the truth");
        let wrong = outcome.stderr.contains("psensor_ringwatch_enable is off");
        outcome.require(!wrong, "the reason is not that ringwatch is switched off");
        outcome.left_nothing();
    });
}

fn dies_in_finalize(lab: &Lab, rank: u32, place: &str, how: &str) -> Outcome {
    let fault = format!("{rank}:{place}:{how}");
    let outcome = Job::new().arguments(&["--op", "none", "--finalize-fault", &fault]).run(lab);
    outcome.require(outcome.diaries.has(rank, "dies"), "the victim comes to die");
    outcome
}

/// `MPI_Finalize` returned, if only to say that a process has failed in it.
fn returned_from_finalize(outcome: &Outcome, rank: u32) {
    let code = outcome.diaries.first(rank, "finalized").map(|entry| entry.text());
    let known = code.as_deref() == Some("0") || code.as_deref() == Some(PROC_FAILED);
    outcome.require(known, &format!("MPI_Finalize of rank {rank} returns, not {code:?}"));
}

/// All survivors came to their end and mpirun says so; what the victim printed before does not matter.
fn survivors_finalized(outcome: &Outcome, victim: u32) {
    for rank in outcome.survivors(&[victim]) {
        returned_from_finalize(outcome, rank);
        let line = format!("survivor {rank} has finalized");
        outcome.require(outcome.stdout.lines().any(|known| known == line), &format!("the output has '{line}'"));
    }
    outcome.require(outcome.status == 0, "mpirun's exit status is 0");
    outcome.no_lies().left_nothing();
}

#[test]
fn killed_at_the_entry_of_finalize() {
    in_lab(|lab| survivors_finalized(&dies_in_finalize(lab, VICTIM, "entry", "kill"), VICTIM));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn exits_at_the_entry_of_finalize() {
    in_lab(|lab| survivors_finalized(&dies_in_finalize(lab, VICTIM, "entry", "quit0"), VICTIM));
}

#[test]
fn crashes_at_the_entry_of_finalize_on_the_host_of_prterun() {
    in_lab(|lab| survivors_finalized(&dies_in_finalize(lab, 0, "entry", "segv"), 0));
}

#[test]
fn killed_inside_finalize() {
    in_lab(|lab| survivors_finalized(&dies_in_finalize(lab, VICTIM, "during", "kill"), VICTIM));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn killed_inside_finalize_on_the_host_of_prterun() {
    in_lab(|lab| survivors_finalized(&dies_in_finalize(lab, 1, "during", "kill"), 1));
}

#[test]
fn stopped_inside_finalize() {
    in_lab(|lab| survivors_finalized(&dies_in_finalize(lab, VICTIM, "during", "stop"), VICTIM));
}

#[test]
fn killed_after_finalize() {
    in_lab(|lab| survivors_finalized(&dies_in_finalize(lab, VICTIM, "after", "kill"), VICTIM));
}

/// Stopped after it has finalised: no rank of the job any more, but mpirun must not wait for it for ever.
#[test]
fn stopped_after_finalize() {
    in_lab(|lab| survivors_finalized(&dies_in_finalize(lab, VICTIM, "after", "stop"), VICTIM));
}

/// Something happens to a node while rank 5 keeps all others inside `MPI_Finalize`.
fn node_fails_in_finalize(lab: &Lab, victims: &[u32], strike: impl FnOnce(&mut system_tests::Running<'_>)) {
    let mut job = Job::new().arguments(&["--op", "none", "--finalize-fault", "5:late:none"]).start(lab);
    job.wait_for("enters-finalize", &job.others(&[VICTIM]));
    strike(&mut job);
    let outcome = job.finish();
    for rank in outcome.survivors(victims) {
        returned_from_finalize(&outcome, rank);
    }
    outcome.require(outcome.status == 0, "mpirun's exit status is 0");
    outcome.no_lies().left_nothing();
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn node_killed_inside_finalize() {
    in_lab(|lab| {
        node_fails_in_finalize(lab, &[6, 7], |job| {
            job.kill_host("h4");
        });
    });
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn link_cut_inside_finalize() {
    in_lab(|lab| {
        node_fails_in_finalize(lab, &[6, 7], |job| {
            job.cut("h4");
        });
    });
}

/// A rank that has not entered `MPI_Finalize` yet dies while all others wait in it.
#[test]
fn killed_while_all_others_are_inside_finalize() {
    in_lab(|lab| {
        node_fails_in_finalize(lab, &[VICTIM], |job| {
            let _ = job.signal_rank(VICTIM, libc::SIGKILL);
        });
    });
}

/// One that waits in `MPI_Finalize` dies, and a late one finds it dead.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn one_of_those_inside_finalize_is_killed() {
    in_lab(|lab| {
        node_fails_in_finalize(lab, &[2], |job| {
            let _ = job.signal_rank(2, libc::SIGKILL);
        });
    });
}

#[test]
fn prted_killed_inside_finalize() {
    in_lab(|lab| {
        node_fails_in_finalize(lab, &[2, 3], |job| {
            job.loses("h2");
            process::signal(job.runtime("h2"), libc::SIGKILL);
        });
    });
}

#[test]
fn prterun_killed_inside_finalize() {
    in_lab(|lab| {
        let mut job = Job::new().arguments(&["--op", "none", "--finalize-fault", "5:late:none"]).start(lab);
        job.wait_for("enters-finalize", &job.others(&[VICTIM]));
        ["h1", "h2", "h3", "h4"].iter().for_each(|host| job.loses(host));
        let ranks: Vec<i32> = job.ranks().into_iter().map(|rank| job.pid(rank)).collect();
        process::signal(job.launcher(), libc::SIGKILL);
        job.wait_until_gone("ranks", &ranks, job.job.timeout() * 2 + SLACK);
        job.finish().left_nothing();
    });
}

/// `MPI_Finalize` closes files that are still open, with all who have opened them.
#[test]
#[ignore = "waits long: a part of scripts/test --full"]
fn a_file_is_left_open() {
    in_lab(|lab| {
        let program = compile("open_file", "mpicc");
        for _ in 0..REPETITIONS {
            let outcome = Job::new().ranks(7).diarist(&program).arguments(&["/tmp/open_file"]).run(lab);
            let _ = std::fs::remove_file("/tmp/open_file");
            for rank in outcome.survivors(&[0, 2]) {
                let code = outcome.diaries.first(rank, "finalized").map(|entry| entry.text());
                let known = code.as_deref() == Some("0") || code.as_deref() == Some(PROC_FAILED);
                outcome.require(known, &format!("MPI_Finalize of rank {rank} returns, not {code:?}"));
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

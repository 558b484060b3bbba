//! A profiling tool stands in front of MPI as it does without ringwatch: it sees each call of the program and none of
//! the plugin's, and the program gets the same errors.

use std::path::Path;

use system_tests::diary::{PROC_FAILED, REVOKED};
use system_tests::programs::{compile, compile_library};
use system_tests::{Job, Lab, Outcome, in_lab};

fn with_the_tool(job: Job) -> Job {
    job.options(&["-x", &format!("LD_PRELOAD={}", compile_library("tool", "mpicc").display())])
}

/// Calls of a function that the tool has seen at a rank, and how many of them failed.
fn seen(outcome: &Outcome, rank: u32, function: &str) -> Option<[u32; 2]> {
    let start = format!("tool {rank} {function} ");
    let counts = outcome.stdout.lines().find_map(|line| line.trim_start_matches('\0').strip_prefix(&start))?;
    let (calls, errors) = counts.split_once(' ')?;
    Some([calls.parse().ok()?, errors.parse().ok()?])
}

/// Rank 7 dies while others wait for rank 0. What the survivors wrote about the end of their wait.
fn interrupted(lab: &Lab, program: &Path, with_tool: bool) -> (Outcome, Vec<Option<String>>) {
    let job = Job::new().diarist(program).arguments(&["--scope", "group", "--victim-is", "inside", "recv"]);
    let mut job = if with_tool { with_the_tool(job) } else { job }.start(lab);
    job.wait_for("blocked", &[0, 1, 2, 3, 4, 5, 6]);
    let _ = job.signal_rank(7, libc::SIGKILL);
    let outcome = job.finish();
    let results = (0..7).map(|rank| outcome.diaries.first(rank, "result").map(|entry| entry.text())).collect();
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    (outcome, results)
}

#[test]
fn what_a_scope_interrupts_fails_below_it() {
    in_lab(|lab| {
        let program = compile("scoped", "mpicc");
        let (_, without) = interrupted(lab, &program, false);
        let (outcome, results) = interrupted(lab, &program, true);
        outcome
            .require(results == without, &format!("the errors are {without:?} as without the tool, not {results:?}"));
        for rank in 1..7 {
            let failed = results[rank as usize].as_deref() == Some(&format!("0 {REVOKED}"));
            let counts = seen(&outcome, rank, "MPI_Recv");
            outcome.require(failed && counts == Some([1, 1]), &format!("it sees the error of rank {rank}: {counts:?}"));
        }
    });
}

/// Rank 7 dies in the first operation, rank 6 in the second, each in a call of many.
#[test]
fn agreements_are_below_it() {
    in_lab(|lab| {
        let arguments = ["--uniform", "coll", "--how", "group", "--seed", "1", "allreduce", "iallreduce"];
        let job = Job::new().diarist(&compile("uniform", "mpicc")).arguments(&arguments);
        let outcome = with_the_tool(job).run(lab);
        let ends = |rank: u32| -> Vec<_> {
            outcome.diaries.of(rank).filter(|entry| entry.event == "ended").map(|entry| entry.details.clone()).collect()
        };
        let first = ends(0);
        for rank in outcome.survivors(&[6, 7]) {
            let ends = ends(rank);
            let uniform = ends.len() == 2 && ends == first;
            let known = ends.iter().flat_map(|end| &end[2..]).all(|class| [PROC_FAILED, REVOKED].contains(&&class[..]));
            outcome.require(uniform && known, &format!("all survivors have the same errors, not {ends:?} at {rank}"));
            // The first call that failed, and one more.
            let [blocking, begun] = [0, 1].map(|number: usize| ends[number][1].parse::<u32>().expect("a number") + 2);
            let counts = ["MPI_Allreduce", "MPI_Iallreduce", "MPI_Wait"].map(|name| seen(&outcome, rank, name));
            let what =
                format!("it sees {blocking} calls and {begun} at rank {rank}, four of which fail, not {counts:?}");
            let [Some(blocked), Some([calls, refused]), Some([waits, failed])] = counts else {
                panic!("{what}");
            };
            // Each call that has not failed is waited for.
            let right = blocked == [blocking, 2] && calls == begun && refused + failed == 2;
            outcome.require(right && waits == blocking - 2 + calls - refused, &what).finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// Who has nothing to do in an operation of two groups returns through it, too.
#[test]
fn it_sees_the_errors_of_those_who_have_nothing_to_do() {
    in_lab(|lab| {
        let job = Job::new().diarist(&compile("idle", "mpicc")).arguments(&["bcast", "direct"]);
        let mut job = with_the_tool(job).start(lab);
        job.wait_for("blocked", &[0, 1, 2, 3, 4, 5, 6]);
        let _ = job.signal_rank(7, libc::SIGKILL);
        let outcome = job.finish();
        for rank in 0..7 {
            let result = outcome.diaries.first(rank, "result").map(|entry| entry.text());
            let counts = seen(&outcome, rank, "MPI_Bcast");
            let failed = result.as_deref() == Some(PROC_FAILED) && counts == Some([1, 1]);
            outcome.require(failed, &format!("it sees the error of rank {rank}: {counts:?}, {result:?}"));
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// It has put itself where the program calls, before MPI was there.
#[test]
fn what_it_has_written_over_a_call_stays() {
    in_lab(|lab| {
        for bound in [&[][..], &["-x", "LD_BIND_NOW=1"]] {
            let outcome = Job::new().options(bound).diarist(&compile("hooked", "mpicc")).run(lab);
            for rank in outcome.survivors(&[]) {
                let seen = outcome.diaries.first(rank, "seen").map(|entry| entry.text());
                let what = format!("the tool sees both calls of rank {rank}, not {seen:?} ({bound:?})");
                outcome.require(seen.as_deref() == Some("2"), &what).finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

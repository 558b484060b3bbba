//! `MPIX_Comm_ispawn`, `MPIX_Comm_iaccept` and `MPIX_Comm_iconnect`: several at once, beside what the program does
//! itself, completed in every way, and with deaths at every moment.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::diary::{PROC_FAILED, REVOKED};
use system_tests::lab::run;
use system_tests::programs::compile_fortran;
use system_tests::{Job, Lab, Outcome, in_lab};

const LIMIT: Duration = Duration::from_secs(40);
/// Ranks of the first job, on the hosts h1 and h2, and of the spawned one, on h3 and h4.
const SIZE: u32 = 4;
/// `MPI_SUCCESS`, `MPI_ERR_IN_STATUS` and `MPI_ERR_SPAWN`.
const SUCCESS: &str = "0";
const IN_STATUS: &str = "18";
const NOT_SPAWNED: &str = "50";

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");

fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let target = PathBuf::from("/tmp/system-tests/ispawns");
        let (source, output) = (format!("{FOLDER}/ispawns.c"), target.display().to_string());
        run("mpicc", &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", &output, &source, "-lringwatch"]);
        target
    })
}

fn job(case: &str, how: &str, victim: Option<u32>) -> Job {
    job_of(program(), case, how, victim)
}

fn job_of(program: &Path, case: &str, how: &str, victim: Option<u32>) -> Job {
    let victim = victim.map_or("-1".to_owned(), |rank| rank.to_string());
    let arguments = ["--case", case, "--how", how, "--victim", &victim];
    Job::new().with_default_times().ranks(SIZE).diarist(program).arguments(&arguments)
}

/// Runs a job in which the victim is killed once these ranks have written that they are ready.
fn strike(lab: &Lab, case: &str, how: &str, victim: u32, ready: &[u32]) -> Outcome {
    let mut job = job(case, how, Some(victim)).start(lab);
    job.wait("everybody is ready", LIMIT, |diaries| ready.iter().all(|rank| diaries.has(*rank, "ready")));
    let _ = job.signal_rank(victim, libc::SIGKILL);
    job.finish()
}

/// All that a rank wrote about an event.
fn told(outcome: &Outcome, rank: u32, event: &str) -> Vec<String> {
    outcome.diaries.of(rank).filter(|entry| entry.event == event).map(|entry| entry.text()).collect()
}

fn require(outcome: &Outcome, ranks: impl IntoIterator<Item = u32>, event: &str, expected: &[&str]) {
    for rank in ranks {
        let all = told(outcome, rank, event);
        outcome.require(all == expected, &format!("{event} of {rank} is {expected:?}, not {all:?}"));
    }
}

/// These ranks have left in order, nothing went wrong, and nothing is left behind.
fn ended(outcome: &Outcome, ranks: impl IntoIterator<Item = u32>) {
    require(outcome, ranks, "finalized", &[SUCCESS]);
    let wrong: Vec<_> = outcome.diaries.all("wrong").map(|entry| entry.text()).collect();
    outcome.require(wrong.is_empty(), &format!("no message is wrong, as in {wrong:?}"));
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").without_the_output().left_nothing();
}

/// Four processes are spawned, and all of them have a communicator.
fn spawns(lab: &Lab, case: &str, how: &str) -> Outcome {
    let outcome = job(case, how, None).run(lab);
    if case != "free" {
        require(&outcome, 0..SIZE, "completed", &[SUCCESS]);
    }
    require(&outcome, 0..SIZE, "codes", &["0 0"]);
    joined(&outcome);
    outcome
}

/// Who was spawned and who spawned have one communicator, and all have left.
fn joined(outcome: &Outcome) {
    require(outcome, 0..2 * SIZE, "joined", &["8 28"]);
    ended(outcome, 0..2 * SIZE);
}

#[test]
fn in_every_way() {
    in_lab(|lab| {
        for how in ["wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome"] {
            spawns(lab, "one", how);
        }
    });
}

#[test]
fn in_a_program_with_threads() {
    in_lab(|lab| {
        spawns(lab, "one", "threads");
        connects(lab, "threads");
    });
}

/// The callers exchange messages on another communicator in the same loop.
#[test]
fn beside_messages() {
    in_lab(|lab| {
        let outcome = spawns(lab, "one", "work");
        let rounds = outcome.diaries.first(0, "rounds").and_then(|entry| entry.number(0));
        outcome.require(rounds > Some(1), &format!("more than one round of messages, not {rounds:?}"));
    });
}

/// The last one calls when the others are in a collective operation on another communicator, and he is in it before.
#[test]
fn beside_a_constructor_in_another_order() {
    in_lab(|lab| {
        spawns(lab, "late", "wait");
    });
}

#[test]
fn a_request_is_freed_early() {
    in_lab(|lab| {
        spawns(lab, "free", "wait");
    });
}

#[test]
fn two_at_once_on_one_communicator() {
    in_lab(|lab| {
        for how in ["waitall", "waitany", "work"] {
            let outcome = job("two", how, None).run(lab);
            require(&outcome, 0..SIZE, "completed", &[SUCCESS]);
            require(&outcome, 0..SIZE, "joined", &["6 15", "6 15"]);
            ended(&outcome, 0..SIZE);
        }
    });
}

/// Who accepts waits for a message that comes when the other side has begun to connect.
fn connects(lab: &Lab, how: &str) {
    connected(&job("connect", how, None).run(lab));
}

fn connected(outcome: &Outcome) {
    require(outcome, 0..SIZE, "completed", &[SUCCESS]);
    require(outcome, 0..SIZE, "joined", &["4 6"]);
    ended(outcome, 0..SIZE);
}

#[test]
fn a_connection_beside_messages() {
    in_lab(|lab| {
        for how in ["wait", "waitall", "test"] {
            connects(lab, how);
        }
    });
}

/// There is no such program: an error of the request at everybody, and the job goes on.
#[test]
fn nothing_to_spawn() {
    in_lab(|lab| {
        let outcome = job("bad", "wait", None).run(lab);
        require(&outcome, 0..SIZE, "completed", &[NOT_SPAWNED]);
        require(&outcome, 0..SIZE, "codes", &["50 50"]);
        require(&outcome, 0..SIZE, "finalized", &[SUCCESS]);
        outcome.left_nothing();
    });
}

/// However the request is completed, the error handler of the communicator that was called with is called, and nobody
/// else's, also when that communicator has been freed meanwhile.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn the_callers_error_handler_hears_of_an_error() {
    in_lab(|lab| {
        for (how, expected) in [
            ("wait", NOT_SPAWNED),
            ("test", NOT_SPAWNED),
            ("waitany", NOT_SPAWNED),
            ("waitall", IN_STATUS),
            ("testall", IN_STATUS),
            ("testsome", IN_STATUS),
        ] {
            let outcome = job("handler", how, None).run(lab);
            require(&outcome, 0..SIZE, "completed", &[expected; 2]);
            require(&outcome, 0..SIZE, "heard", &["1 0", "2 0"]);
            require(&outcome, 0..SIZE, "finalized", &[SUCCESS]);
            outcome.left_nothing();
        }
    });
}

#[test]
fn a_death_on_either_side_is_known_on_both() {
    in_lab(|lab| {
        for victim in [1, SIZE + 2] {
            let outcome = strike(lab, "one", "wait", victim, &(0..2 * SIZE).collect::<Vec<_>>());
            let survivors = || (0..2 * SIZE).filter(move |rank| *rank != victim);
            require(&outcome, survivors(), "result", &[PROC_FAILED]);
            ended(&outcome, survivors());
        }
    });
}

/// One of those who would spawn dies before, and another when all others have called and he has not: root or not,
/// nobody is spawned, everybody is told, and the job goes on.
#[test]
fn a_death_before_anybody_is_spawned() {
    in_lab(|lab| {
        for case in ["absent", "later"] {
            for victim in [1, 2] {
                let outcome = strike(lab, case, "wait", victim, &(0..SIZE).collect::<Vec<_>>());
                let survivors = || (0..SIZE).filter(move |rank| *rank != victim);
                require(&outcome, survivors(), "completed", &[PROC_FAILED]);
                ended(&outcome, survivors());
            }
        }
    });
}

/// Nobody connects to those who accept, and one of them dies.
#[test]
fn a_death_while_nobody_connects() {
    in_lab(|lab| {
        for victim in [0, 1] {
            let outcome = strike(lab, "dead", "test", victim, &[0, 1]);
            require(&outcome, [1 - victim], "completed", &[PROC_FAILED]);
            ended(&outcome, (0..SIZE).filter(|rank| *rank != victim));
        }
    });
}

/// Nobody connects to those who accept, and they give up.
#[test]
fn those_who_accept_revoke_their_communicator() {
    in_lab(|lab| {
        let outcome = job("revoke", "wait", None).run(lab);
        require(&outcome, [0, 1], "completed", &[REVOKED]);
        ended(&outcome, 0..SIZE);
    });
}

/// Nobody connects to those who accept, and they leave.
#[test]
fn a_request_is_under_way_in_finalize() {
    in_lab(|lab| {
        let outcome = job("leave", "wait", None).run(lab);
        ended(&outcome, 0..SIZE);
    });
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn in_fortran_with_mpif_h() {
    in_lab(|lab| in_fortran(lab, 1));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn in_fortran_with_the_module_mpi() {
    in_lab(|lab| in_fortran(lab, 2));
}

#[test]
fn in_fortran_with_the_module_mpi_f08() {
    in_lab(|lab| in_fortran(lab, 3));
}

/// With arguments, an info and error codes, and without; what is ignored is not written to, also when there is an
/// error.
fn in_fortran(lab: &Lab, binding: u32) {
    // Nobody waits for a death.
    let program = compile_fortran("ispawns", binding, &["-O3", "-Wno-unused-function", "-lringwatch"]);
    let run = |case, how| job_of(&program, case, how, None).run(lab);
    for (case, how, codes) in [("one", "wait", "0 0"), ("plain", "test", "-1 -1")] {
        let outcome = run(case, how);
        require(&outcome, 0..SIZE, "completed", &[SUCCESS]);
        require(&outcome, 0..SIZE, "codes", &[codes]);
        joined(&outcome);
    }
    let outcome = run("bad", "test");
    require(&outcome, 0..SIZE, "completed", &[NOT_SPAWNED]);
    require(&outcome, 0..SIZE, "wrong", &[]);
    require(&outcome, 0..SIZE, "finalized", &[SUCCESS]);
    outcome.left_nothing();
    connected(&run("connect", "wait"));
}

#[test]
fn in_python() {
    in_lab(|lab| {
        let outcome =
            Job::new().with_default_times().ranks(2).program(&["python3", &format!("{FOLDER}/ispawns.py")]).run(lab);
        for line in ["spawned 4", "connected 1"] {
            let count = outcome.stdout.lines().filter(|text| *text == line).count();
            outcome.require(count == 2, &format!("both ranks say {line:?}: {}", outcome.stdout));
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

//! `MPIX_Comm_ishrink`: several at once, completed in every way and in every language, while more ranks die.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::lab::run;
use system_tests::programs::compile_fortran;
use system_tests::{Job, Lab, Outcome, in_lab};

const LIMIT: Duration = Duration::from_secs(40);
/// The harness kills the last rank before the requests start.
const FIRST: u32 = 7;
/// The scopes that the program gives its communicators.
const SCOPES: [&str; 3] = ["local", "group", "global"];

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");

fn in_c() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let target = PathBuf::from("/tmp/system-tests/ishrinks");
        let (source, output) = (format!("{FOLDER}/ishrinks.c"), target.display().to_string());
        run("mpicc", &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", &output, &source, "-lringwatch"]);
        target
    })
}

/// Optimised as much as a user's program may be.
fn in_fortran(binding: u32) -> PathBuf {
    compile_fortran("ishrinks", binding, &["-O3", "-lringwatch"])
}

/// The last rank dies, `others` while the survivors do what they do with their requests; nothing fails, and all of them
/// come to their end.
fn survive(lab: &Lab, program: &Path, how: &str, count: usize, others: &[u32]) -> Outcome {
    let other = |index: usize| others.get(index).map_or("-1".to_owned(), u32::to_string);
    let job = Job::new().diarist(program).arguments(&[how, &count.to_string(), &other(0), &other(1)]);
    let mut job = job.start(lab);
    job.wait("all are ready", LIMIT, |diaries| (0..8).all(|rank| diaries.has(rank, "blocked")));
    let _ = job.signal_rank(FIRST, libc::SIGKILL);
    let outcome = job.finish();
    let wrong = outcome.diaries.all("wrong").next().map(|entry| entry.text());
    outcome.require(wrong.is_none(), &format!("no call fails, as in {wrong:?} ({how})"));
    for rank in outcome.survivors(&dead(others)) {
        outcome.finalized(rank);
    }
    outcome.require(!outcome.stderr.contains("Segmentation"), &format!("nobody crashes ({how})"));
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    outcome
}

fn dead(others: &[u32]) -> Vec<u32> {
    others.iter().copied().chain([FIRST]).collect()
}

/// Each of these ranks has `count` communicators of the survivors that work, with the scopes of those they come from.
fn has_shrunk(outcome: &Outcome, ranks: &[u32], count: usize, others: &[u32]) {
    let size = 7 - others.len();
    let expected: Vec<_> = (0..count).map(|number| format!("{number} {size} {}", SCOPES[number % 3])).collect();
    for rank in ranks {
        let shrunk: Vec<_> =
            outcome.diaries.of(*rank).filter(|entry| entry.event == "shrunk").map(|entry| entry.text()).collect();
        outcome.require(shrunk == expected, &format!("rank {rank} has {expected:?}, not {shrunk:?}"));
    }
}

/// Survivors shrink, and `others` die meanwhile.
fn shrink(lab: &Lab, program: &Path, how: &str, count: usize, others: &[u32]) -> Outcome {
    let outcome = survive(lab, program, how, count, others);
    for rank in others {
        let done = outcome.diaries.first(*rank, "dies").and_then(|entry| entry.number(0));
        outcome.require(done == Some(0), &format!("rank {rank} dies while its last request is under way ({how})"));
    }
    has_shrunk(&outcome, &outcome.survivors(&dead(others)), count, others);
    outcome
}

#[test]
fn one() {
    in_lab(|lab| {
        shrink(lab, in_c(), "wait", 1, &[]);
    });
}

#[test]
#[ignore = "takes long: a part of scripts/test --full"]
fn eight_at_once_in_every_way() {
    in_lab(|lab| {
        for how in ["wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome"] {
            shrink(lab, in_c(), how, 8, &[]);
        }
    });
}

#[test]
fn several_on_one_communicator() {
    in_lab(|lab| {
        for others in [&[][..], &[6], &[6, 2]] {
            shrink(lab, in_c(), "shared", 12, others);
        }
    });
}

#[test]
fn a_second_one_dies_meanwhile() {
    in_lab(|lab| {
        for count in [1, 4] {
            shrink(lab, in_c(), "waitall", count, &[6]);
        }
    });
}

#[test]
fn a_second_and_a_third_one_die_meanwhile() {
    in_lab(|lab| {
        for how in ["wait", "testall"] {
            shrink(lab, in_c(), how, 3, &[6, 2]);
        }
    });
}

/// Messages of another communicator come through in the same call that completes the requests.
#[test]
fn with_a_reload_from_a_neighbour() {
    in_lab(|lab| {
        for others in [&[][..], &[6], &[6, 2]] {
            let outcome = shrink(lab, in_c(), "reload", 4, others);
            for rank in outcome.survivors(&dead(others)) {
                let bytes = outcome.diaries.first(rank, "reloaded").and_then(|entry| entry.number(0));
                outcome.require(bytes == Some(4 << 20), &format!("rank {rank} has all of its data, not {bytes:?}"));
            }
        }
    });
}

/// Numbers of communicators are chosen for several at the same time, by ranks that have others of them free and come to
/// the same communicator at another time, while Open MPI numbers a duplicate.
#[test]
fn beside_each_other_and_a_duplicate_in_any_order() {
    in_lab(|lab| {
        shrink(lab, in_c(), "turns", 12, &[]);
    });
}

/// Agreements and other shrinks of the same communicator, which come before one step of a shrink at some ranks and
/// after it at others, are not taken for it.
#[test]
fn beside_agreements_on_the_same_communicator() {
    in_lab(|lab| {
        let count = 3;
        let outcome = shrink(lab, in_c(), "agreeing", count, &[]);
        for rank in outcome.survivors(&[FIRST]) {
            let agreed = outcome.diaries.first(rank, "agreed").and_then(|entry| entry.number(0));
            let all = 20 * 3 * count as u32;
            outcome.require(agreed == Some(all), &format!("rank {rank} has {all} right results, not {agreed:?}"));
        }
    });
}

/// All survivors hear the same of each agreement, and make the same communicators.
#[test]
fn beside_agreements_while_another_one_dies() {
    in_lab(|lab| {
        let outcome = survive(lab, in_c(), "agreeing-death", 1, &[6]);
        let rounds_of = |rank| -> Vec<_> {
            let rounds = outcome.diaries.of(rank).filter(|entry| entry.event == "round");
            rounds.map(|entry| entry.text()).collect()
        };
        let survivors = outcome.survivors(&[FIRST, 6]);
        let rounds = rounds_of(survivors[0]);
        outcome.require(rounds.len() == 20, &format!("twenty rounds: {rounds:?}"));
        for rank in survivors {
            outcome
                .require(rounds_of(rank) == rounds, &format!("rank {rank} has {rounds:?}, not {:?}", rounds_of(rank)));
        }
        outcome.require(rounds[19].ends_with(" 6"), &format!("the last communicator has six members: {}", rounds[19]));
    });
}

/// Copy functions of attributes may make communicators, and fail.
#[test]
fn attributes_and_error_handler_are_those_of_the_communicator() {
    in_lab(|lab| {
        let outcome = survive(lab, in_c(), "inherits", 2, &[]);
        for rank in outcome.survivors(&[FIRST]) {
            for (event, expected) in [("inherits", "1 1 1"), ("refused", "20 1")] {
                let seen = outcome.diaries.first(rank, event).map(|entry| entry.text());
                outcome.require(seen.as_deref() == Some(expected), &format!("rank {rank}: {event} {seen:?}"));
            }
        }
    });
}

/// Those that find all shadows of the communicator taken wait; and 3,200 of them leave less than 512 KiB behind, 160
/// bytes each.
#[test]
#[ignore = "takes long: a part of scripts/test --full"]
fn very_many_on_one_communicator() {
    in_lab(|lab| {
        let outcome = survive(lab, in_c(), "waves", 1, &[]);
        for rank in outcome.survivors(&[FIRST]) {
            let resident = outcome.diaries.of(rank).filter(|entry| entry.event == "resident");
            let kib: Vec<_> = resident.filter_map(|entry| entry.number(0)).collect();
            let holds = kib.len() == 3 && kib[2] < kib[1] + 512;
            outcome.require(holds, &format!("rank {rank} needs no more memory in the end, in KiB: {kib:?}"));
        }
    });
}

/// Without fault tolerance nobody can be missing, and agreements are collective operations.
#[test]
fn without_fault_tolerance_they_are_duplicates() {
    in_lab(|lab| {
        let job = Job::new().without_fault_tolerance().diarist(in_c());
        let outcome = job.arguments(&["whole", "12", "-1", "-1"]).run(lab);
        outcome.require(outcome.diaries.all("wrong").next().is_none(), "no call fails");
        for rank in 0..8 {
            let sizes = outcome.diaries.of(rank).filter(|entry| entry.event == "shrunk").map(|entry| entry.number(1));
            outcome.require(sizes.eq([Some(8); 12]), &format!("rank {rank} has twelve communicators of all"));
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// A request that is freed early is carried out all the same, and given back then.
#[test]
fn a_request_is_freed_early() {
    in_lab(|lab| {
        for others in [&[][..], &[6]] {
            let outcome = shrink(lab, in_c(), "free", 4, others);
            for rank in outcome.survivors(&dead(others)) {
                let numbers: Vec<_> = outcome.diaries.of(rank).filter(|entry| entry.event == "number").collect();
                let one = numbers.len() == 10 && numbers.iter().all(|entry| entry.details == numbers[0].details);
                outcome.require(one, &format!("rank {rank} has one number for all requests, not {numbers:?}"));
            }
        }
    });
}

/// Who leaves carries on with what others wait for; what nobody waits for is dropped.
#[test]
fn requests_are_under_way_in_finalize() {
    in_lab(|lab| {
        for how in ["leave", "leave-some", "leave-world"] {
            survive(lab, in_c(), how, 8, &[]);
            survive(lab, in_c(), how, 8, &[5]);
        }
        let outcome = survive(lab, in_c(), "leave-others", 8, &[]);
        has_shrunk(&outcome, &[1, 3, 5], 8, &[]);
    });
}

#[test]
fn in_fortran_with_mpif_h() {
    in_lab(|lab| in_another_language(lab, &in_fortran(1)));
}

#[test]
fn in_fortran_with_the_module_mpi() {
    in_lab(|lab| in_another_language(lab, &in_fortran(2)));
}

#[test]
fn in_fortran_with_the_module_mpi_f08() {
    in_lab(|lab| in_another_language(lab, &in_fortran(3)));
}

#[test]
fn in_python() {
    in_lab(|lab| in_another_language(lab, Path::new(&format!("{FOLDER}/ishrinks.py"))));
}

/// What was loaded after libmpi cannot stand in front of it, and says so rather than crash at the next failure.
#[test]
fn too_late_in_python() {
    const PROGRAM: &str = "
from mpi4py import MPI
import ringwatch
try:
    comm, request = ringwatch.ishrink(MPI.COMM_WORLD)
    request.Wait()
    print('made', comm.size)
except MPI.Exception as error:
    print('refused', error.Get_error_class() == MPI.ERR_UNSUPPORTED_OPERATION)
";
    in_lab(|lab| {
        let job = || Job::new().ranks(1).program(&["python3", "-c", PROGRAM]);
        let outcome = job().run(lab);
        outcome.require(outcome.stdout.trim() == "refused True", &format!("it is refused: {}", outcome.stdout));
        outcome.require(outcome.stderr.contains("import ringwatch before mpi4py.MPI"), "the sentence says what to do");
        let outcome = job().options(&["-x", "LD_PRELOAD=libringwatch.so"]).run(lab);
        outcome.require(outcome.stdout.trim() == "made 1", &format!("preloaded it works: {}", outcome.stdout));
    });
}

fn in_another_language(lab: &Lab, program: &Path) {
    shrink(lab, program, "waitall", 3, &[]);
    shrink(lab, program, "waitall", 3, &[6]);
}

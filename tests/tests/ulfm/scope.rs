//! Error scopes: whose death ends an operation that is blocked on living peers, and with which class.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::diary::{Diaries, Entry, PROC_FAILED, REVOKED};
use system_tests::keys::Property;
use system_tests::lab::run;
use system_tests::programs::{compile, compile_fortran};
use system_tests::{Job, Lab, in_lab};

/// The operation succeeds: the living peer comes, late.
const SUCCESS: &str = "0";
/// A blocked send is interrupted, or its receiver, when it is interrupted first, has thrown the message away and told
/// the sender that it may go on: Open MPI 5.0.7 does not distinguish that from a delivery.
const UNSENT: &str = "77 or 0";
/// Who waits for a word of the dead itself may meet that before the communicator is revoked.
const EITHER: &str = "77 or 75";
/// The root starts a persistent broadcast although it knows of the death, and whom its data reach before the news does
/// has what it asked for.
const REACHED: &str = "75 or 0";
/// `MPI_ERR_WIN`, to which most of Open MPI's constructors of windows turn every error.
const WIN: &str = "53";
/// Most operations of one job: each costs it a rank, and two must be left.
const AT_ONCE: usize = 6;
const LIMIT: Duration = Duration::from_secs(40);

/// The columns of the table: scopes, and for each whether the victim is a member or elsewhere, in the job or in one
/// that was spawned.
const SCOPES: [&str; 3] = ["local", "group", "global"];
const PLACES: [&str; 2] = ["inside", "outside"];
const SPAWNED: &str = "spawned";

/// How an operation ends for those who are blocked in it on rank 0, which lives and joins them when it knows of the
/// death. Rank 0 gets the same.
#[rustfmt::skip]
const BLOCKED: [(&str, [[&str; 2]; 3]); 65] = [
    //              local                   group               global
    ("recv",       [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("any",        [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("probe",      [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("iprobe",     [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("mprobe",     [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("improbe",    [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("recv_init",  [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("send",       [[SUCCESS,     SUCCESS], [UNSENT,  SUCCESS], [UNSENT,  UNSENT]]),
    ("ssend",      [[SUCCESS,     SUCCESS], [UNSENT,  SUCCESS], [UNSENT,  UNSENT]]),
    ("isend",      [[SUCCESS,     SUCCESS], [UNSENT,  SUCCESS], [UNSENT,  UNSENT]]),
    ("isend_testany",
                   [[SUCCESS,     SUCCESS], [UNSENT,  SUCCESS], [UNSENT,  UNSENT]]),
    ("sendrecv",   [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("waitall",    [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("waitany",    [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("waitsome",   [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("testall",    [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("testany",    [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("testsome",   [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("barrier",    [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("bcast",      [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("reduce",     [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("allreduce",  [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("gather",     [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("gatherv",    [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("scatter",    [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("scatterv",   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("alltoall",   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("alltoallv",  [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("alltoallw",  [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("allgather",  [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("allgatherv", [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("reduce_scatter",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("reduce_scatter_block",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("scan",       [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("exscan",     [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("neighbor_allgather",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("neighbor_allgatherv",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("neighbor_alltoall",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("neighbor_alltoallv",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("neighbor_alltoallw",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("ibarrier",   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("iallreduce", [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("ibcast",     [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("igather",    [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("iscatter",   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("ialltoall",  [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("iscan",      [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("ineighbor_alltoall",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("allreduce_init",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("bcast_init", [[REACHED,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("comm_dup",   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("comm_split", [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("comm_idup",  [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("comm_split_type",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("comm_create",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("cart_create",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("graph_create",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("dist_graph_create",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("dist_graph_create_adjacent",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("comm_create_group",
                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("intercomm_create",
                   [[PROC_FAILED, SUCCESS], [EITHER,  SUCCESS], [EITHER,  REVOKED]]),
    ("win_allocate",
                   [[WIN,         SUCCESS], [WIN,     SUCCESS], [WIN,     WIN    ]]),
    ("win_create", [[WIN,         SUCCESS], [WIN,     SUCCESS], [WIN,     WIN    ]]),
    ("win_create_dynamic",
                   [[WIN,         SUCCESS], [WIN,     SUCCESS], [WIN,     WIN    ]]),
    ("file_open",  [[PROC_FAILED, SUCCESS], [EITHER,  SUCCESS], [EITHER,  REVOKED]]),
];

/// Of these only the root waits for rank 0: rank 1. The others may be done before.
const ROOT_WAITS: [&str; 4] = ["reduce", "gather", "gatherv", "igather"];

fn expected(operation: &str, scope: &str, place: &str) -> &'static str {
    let row = BLOCKED.iter().find(|row| row.0 == operation).expect("a row of the table").1;
    let column = |names: &[&str], name| names.iter().position(|known| *known == name).expect("a column of the table");
    row[column(&SCOPES, scope)][column(&PLACES, if place == SPAWNED { "outside" } else { place })]
}

fn scoped() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compile("scoped", "mpicc"))
}

/// What a rank wrote about operation `number`.
fn about(diaries: &Diaries, rank: u32, event: &str, number: usize) -> Option<String> {
    let mut entries = diaries.of(rank).filter(|entry| entry.event == event);
    entries.find(|entry| entry.details[0] == number.to_string()).map(|entry| entry.details[1..].join(" "))
}

/// A rank dies in each of the operations, and the others end as the table has it.
fn strike(lab: &Lab, program: &Path, job: Job, scope: &str, how: &str, place: &str, operations: &[&str]) {
    let job = job.diarist(program).arguments(&["--scope", scope, "--how", how, "--victim-is", place]);
    let mut job = job.arguments(operations).start(lab);
    let mut dead = Vec::new();
    let size = u32::try_from(job.ranks().len()).expect("a few ranks");
    let at = |number: usize| u32::try_from(number).expect("a few operations");
    let victim_of = |number| if place == SPAWNED { size + at(number) } else { size - 1 - at(number) };
    for (number, operation) in operations.iter().enumerate() {
        let victim = victim_of(number);
        dead.push(victim);
        let living = job.others(&dead);
        let all_wrote =
            |diaries: &Diaries, event: &str| living.iter().all(|rank| about(diaries, *rank, event, number).is_some());
        let what = |event: &str| format!("{event} in {operation} ({scope}, {how}, {place})");
        let is_there = |diaries: &Diaries| place != SPAWNED || diaries.has(victim, "ready");
        job.wait(&what("blocked"), LIMIT, |diaries| all_wrote(diaries, "blocked") && is_there(diaries));
        let _ = job.signal_rank(victim, libc::SIGKILL);
        job.wait(&what("released"), LIMIT, |diaries| all_wrote(diaries, "result"));
    }
    let outcome = job.finish();
    for (number, operation) in operations.iter().enumerate() {
        for rank in 0..victim_of(number).min(size) {
            let (class, expected) =
                (about(&outcome.diaries, rank, "result", number), expected(operation, scope, place));
            let what =
                format!("{operation} at rank {rank} ends with {expected}, not {class:?} ({scope}, {how}, {place})");
            let waits = rank < 2 || !ROOT_WAITS.contains(operation);
            let one_of = |class: &str| expected.split(" or ").any(|one| one == class) || (!waits && class == SUCCESS);
            outcome.require(class.as_deref().is_some_and(one_of), &what);
        }
    }
    for rank in outcome.survivors(&dead) {
        outcome.finalized(rank);
    }
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
}

/// Every operation of the table, for one of its columns.
fn column(scope: &str, place: &str) {
    let all: Vec<&str> = BLOCKED.iter().map(|row| row.0).collect();
    let ranks = if place == SPAWNED { 4 } else { 8 };
    in_lab(|lab| {
        for operations in all.chunks(AT_ONCE) {
            strike(lab, scoped(), Job::new().ranks(ranks), scope, "set", place, operations);
        }
    });
}

#[test]
#[ignore = "takes long: a part of scripts/test --full"]
fn local_with_a_victim_inside() {
    column("local", "inside");
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn local_with_a_victim_outside() {
    column("local", "outside");
}

#[test]
fn group_with_a_victim_inside() {
    column("group", "inside");
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn group_with_a_victim_outside() {
    column("group", "outside");
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn global_with_a_victim_inside() {
    column("global", "inside");
}

#[test]
fn global_with_a_victim_outside() {
    column("global", "outside");
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn local_with_a_spawned_victim() {
    column("local", SPAWNED);
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn group_with_a_spawned_victim() {
    column("group", SPAWNED);
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn global_with_a_spawned_victim() {
    column("global", SPAWNED);
}

/// What `MPI_Comm_dup` hands on interrupts as what was set.
#[test]
fn a_duplicate_has_the_scope() {
    in_lab(|lab| {
        strike(lab, scoped(), Job::new(), "group", "dup", "inside", &["recv"]);
        strike(lab, scoped(), Job::new(), "global", "dup", "outside", &["recv"]);
    });
}

/// What repairs a communicator hands the scope on, too.
#[test]
fn a_shrunk_communicator_has_the_scope() {
    in_lab(|lab| {
        for how in ["shrink", "ishrink"] {
            let job = || Job::new().options(&["-x", "LD_PRELOAD=libringwatch.so"]);
            strike(lab, scoped(), job(), "group", how, "inside", &["recv"]);
            strike(lab, scoped(), job(), "global", how, "outside", &["allreduce"]);
            strike(lab, scoped(), job(), "local", how, "inside", &["recv"]);
        }
    });
}

/// The parameter holds for every communicator whose info says nothing.
#[test]
fn the_scope_is_a_parameter() {
    in_lab(|lab| {
        let by_default = |scope| Job::new().options(&["--mca", "coll_ringwatch_error_scope", scope]);
        strike(lab, scoped(), by_default("group"), "group", "default", "inside", &["recv"]);
        strike(lab, scoped(), by_default("global"), "global", "default", "outside", &["allreduce"]);
        strike(lab, scoped(), Job::new(), "local", "default", "inside", &["recv"]);
    });
}

/// An earlier death counts where a member is dead; what the living have is of use for a repair, whatever its scope.
#[test]
fn a_scope_that_is_given_after_a_death() {
    in_lab(|lab| {
        let outcome = Job::new().ranks(4).diarist(&compile("earlier", "mpicc")).run(lab);
        let said = |rank| outcome.diaries.of(rank).filter(|entry| entry.event == "revoked").map(Entry::text);
        let of_all: Vec<String> = said(0).filter(|text| text.starts_with("all")).collect();
        let right = of_all == ["all local 0 0", "all group 0 1", "all global 0 1"];
        outcome.require(right, &format!("one with a dead member is revoked at once: {of_all:?}"));
        for rank in 0..3 {
            let of_living: Vec<String> = said(rank).filter(|text| text.starts_with("living")).collect();
            let right = of_living == ["living local 0 0", "living group 0 0", "living global 0 0"];
            outcome.require(right, &format!("one of the living is not: {of_living:?}"));
            let barriers = outcome.diaries.of(rank).filter(|entry| entry.event == "barrier").map(Entry::text);
            let barriers: Vec<String> = barriers.collect();
            outcome.require(barriers == ["local 0", "group 0", "global 0"], &format!("and works: {barriers:?}"));
            outcome.finalized(rank);
        }
    });
}

/// What works in a communicator that has one member, and never waits for anybody there.
const ALONE: [&str; 16] = [
    "allreduce",
    "barrier",
    "bcast",
    "reduce",
    "gather",
    "alltoall",
    "scan",
    "ibarrier",
    "ibcast",
    "iallreduce",
    "ialltoall",
    "sendrecv",
    "iprobe",
    "isend",
    "probe",
    "mprobe",
];

/// Each rank but the last is alone in a communicator with one of these operations when that one dies.
fn alone(job: impl Fn() -> Job, how: &str, operations: &[&str], class: &str) {
    in_lab(|lab| {
        for some in operations.chunks(7) {
            let job = job().diarist(&compile("alone", "mpicc")).arguments(&[how]);
            let mut job = job.arguments(some).start(lab);
            job.wait_for("blocked", &job.ranks());
            let _ = job.signal_rank(7, libc::SIGKILL);
            let outcome = job.finish();
            for rank in 0..7 {
                let result = outcome.diaries.first(rank, "result").map(Entry::text);
                let right = format!("{} {class}", some[rank as usize % some.len()]);
                let what = format!("rank {rank} ends with '{right}', not {result:?} ({how})");
                outcome.require(result.as_deref() == Some(right.as_str()), &what).finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

/// Open MPI 5.0.7 turns no progress loop for such operations, by which a death would be heard.
#[test]
fn global_in_a_communicator_with_one_member() {
    alone(Job::new, "global", &ALONE, REVOKED);
}

#[test]
fn global_in_a_communicator_with_one_member_on_one_host() {
    alone(|| Job::new().on(&["h1"], 8).options(&["--bind-to", "none"]), "global", &ALONE[..7], REVOKED);
}

#[test]
fn global_as_a_parameter_in_a_communicator_with_one_member() {
    let job = || Job::new().options(&["--mca", "coll_ringwatch_error_scope", "global"]);
    alone(job, "default", &["allreduce", "bcast", "ibcast", "sendrecv", "iprobe", "ibarrier", "barrier"], REVOKED);
}

/// Nobody in it has died.
#[test]
fn group_in_a_communicator_with_one_member() {
    alone(Job::new, "group", &ALONE[..7], SUCCESS);
}

/// A death that was before a process came, or before a communicator was made, is nothing to it; a later one is.
#[test]
fn who_is_spawned_after_a_death_is_not_interrupted_by_it() {
    in_lab(|lab| {
        for hosts in [&["h1", "h2", "h3", "h4"][..], &["h1"]] {
            let per_host = 4 / u32::try_from(hosts.len()).expect("a few hosts");
            // One more place for who is spawned.
            let options = ["--oversubscribe", "--bind-to", "none", "--mca", "coll_ringwatch_error_scope", "global"];
            let job = Job::new().with_default_times().on(hosts, per_host).options(&options);
            let outcome = job.diarist(&compile("respawned", "mpicc")).run(lab);
            let require = |rank: u32, event: &str, right: &str| {
                let said = outcome.diaries.first(rank, event).map(Entry::text);
                let what = format!("{event} of {rank} is {right}, not {said:?} on {hosts:?}");
                outcome.require(said.as_deref() == Some(right), &what);
            };
            [0, 4].into_iter().for_each(|rank| require(rank, "talked", "0 42"));
            require(4, "alone", SUCCESS);
            [0, 1, 2, 4].into_iter().for_each(|rank| require(rank, "whole", "0 4"));
            [0, 2, 4].into_iter().for_each(|rank| require(rank, "again", REVOKED));
            [0, 2, 4].into_iter().for_each(|rank| require(rank, "finalized", SUCCESS));
            let sentences = outcome.sentences();
            outcome.require(sentences.is_empty(), &format!("nothing is said but who is lost, not {sentences:?}"));
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").without_the_output().left_nothing();
        }
    });
}

/// Every spelling and every word; what inherits; what is refused.
#[test]
fn info_keys() {
    let scope = Property {
        name: "scope",
        keys: &["mpix_error_scope", "mpix_error_range", "mpi_error_range", "mpix_assert_error_scope"],
        words: &[
            ("local", "local"),
            ("process", "local"),
            ("group", "group"),
            ("global", "global"),
            ("universe", "global"),
        ],
        inherited: "group",
        last: "global",
        choices: "local, group or global",
    };
    scope.is_kept();
}

/// Open MPI itself refuses a word that is none, and says which there are.
#[test]
fn a_bad_parameter_is_refused() {
    in_lab(|lab| {
        let keys = compile("keys", "mpicc");
        let options = ["--mca", "coll_ringwatch_error_scope", "everybody"];
        let outcome = Job::new().ranks(2).options(&options).diarist(&keys).run(lab);
        for word in ["everybody", "local", "group", "global"] {
            outcome.require(outcome.stderr.contains(word), &format!("the message has the word '{word}'"));
        }
        let scope = outcome.diaries.all("info").next().map(|entry| entry.text());
        outcome.require(scope.as_deref() == Some("world local"), &format!("the scope stays local, not {scope:?}"));
    });
}

/// The scope reaches programs whose calls take another way into Open MPI than those of C.
fn in_another_language(lab: &Lab, program: &Path) {
    strike(lab, program, Job::new(), "group", "set", "inside", &["recv"]);
    strike(lab, program, Job::new(), "global", "set", "outside", &["recv"]);
    strike(lab, program, Job::new(), "global", "set", "outside", &["allreduce"]);
    strike(lab, program, Job::new(), "local", "set", "inside", &["recv"]);
    strike(lab, program, Job::new(), "local", "set", "inside", &["allreduce"]);
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn in_fortran_with_mpif_h() {
    in_lab(|lab| in_another_language(lab, &compile_fortran("scoped", 1, &[])));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn in_fortran_with_the_module_mpi() {
    in_lab(|lab| in_another_language(lab, &compile_fortran("scoped", 2, &[])));
}

#[test]
fn in_fortran_with_the_module_mpi_f08() {
    in_lab(|lab| in_another_language(lab, &compile_fortran("scoped", 3, &[])));
}

#[test]
fn in_python() {
    let program = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/scoped.py"));
    in_lab(|lab| in_another_language(lab, program));
}

/// Objects of Python, with the recipe that docs/api.md has: some of their collectives run in a duplicate of mpi4py's
/// own.
#[test]
fn objects_of_python() {
    let source = include_str!("../../programs/objects.py");
    let recipe = source.split("# The recipe.\n").nth(1).and_then(|rest| rest.split("# Its end.").next());
    let lines: Vec<&str> = recipe.expect("the program has it").lines().collect();
    for line in &lines {
        assert!(include_str!("../../../docs/api.md").contains(line), "docs/api.md has the line '{line}'");
    }
    assert_eq!(lines.len(), 2, "the recipe has two lines");
    in_lab(|lab| {
        let program = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/objects.py"));
        let outcome = Job::new().on(&["h1", "h2", "h3", "h4"], 1).diarist(program).run(lab);
        for rank in 0..3_u32 {
            let said = |event: &str| -> Vec<String> {
                outcome.diaries.of(rank).filter(|entry| entry.event == event).map(Entry::text).collect()
            };
            let (left, shrunk) = (said("left"), said("shrunk"));
            let sizes: Vec<u32> = (rank + 2..=4).rev().collect();
            let right: Vec<String> = sizes.iter().map(|size| format!("{size} {REVOKED}")).collect();
            outcome.require(left == right, &format!("rank {rank} leaves {right:?}, not {left:?}"));
            let right: Vec<String> = sizes.iter().map(|size| format!("{0} {0}", size - 1)).collect();
            outcome.require(shrunk == right, &format!("rank {rank} goes on with {right:?}, not {shrunk:?}"));
        }
        outcome.finalized(0).require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// The example: a death in library 2 brings library 1 back to the application, too.
#[test]
fn in_two_libraries() {
    in_lab(|lab| {
        let program = "/tmp/system-tests/libraries";
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/libraries.c");
        run("mpicc", &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, source]);
        let outcome = Job::new().program(&[program, "--fail", "5@20"]).run(lab);
        for rank in outcome.survivors(&[5]) {
            let library = if rank < 2 { 1 } else { 2 };
            let start = format!("process {rank} leaves library {library} in step ");
            let interrupted: Vec<_> = outcome.stdout.lines().filter(|line| line.starts_with(&start)).collect();
            let class = if library == 1 { "MPI_ERR_REVOKED" } else { "MPI_ERR_" };
            let as_promised = interrupted.len() == 1 && interrupted[0].contains(class);
            outcome.require(as_promised, &format!("rank {rank} is interrupted once in its library: {interrupted:?}"));
            let end = format!("process {rank} has done 1000 steps, 7 processes are left");
            outcome.require(outcome.stdout.lines().any(|line| line == end), &end);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

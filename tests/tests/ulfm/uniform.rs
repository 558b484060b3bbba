//! Error uniformity: while a member dies, each collective operation fails at all survivors in the same call, with the
//! same class.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::diary::{Diaries, Entry, PROC_FAILED, REVOKED};
use system_tests::keys::Property;
use system_tests::programs::{compile, compile_fortran, compile_library};
use system_tests::{Job, Lab, in_lab};

/// `MPI_ERR_TRUNCATE`, and `MPI_ERR_OTHER` of those who had no error of their own.
const TRUNCATE: &str = "15";
const OTHER: &str = "16";
/// `MPI_ERR_WIN`, to which most of Open MPI's constructors of windows turn every error.
const WIN: &str = "53";
/// Most operations of one job: each costs it a rank.
const AT_ONCE: usize = 5;
/// Where each costs it two.
const PAIRS_AT_ONCE: usize = 3;
const LIMIT: Duration = Duration::from_secs(60);

const COLLECTIVES: [&str; 17] = [
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce_scatter",
    "reduce_scatter_block",
    "scan",
    "exscan",
];
const NEIGHBOURHOOD: [&str; 5] =
    ["neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"];
const CONSTRUCTORS: [&str; 12] = [
    "dup",
    "dup_with_info",
    "idup",
    "idup_with_info",
    "split",
    "split_type",
    "create",
    "cart_create",
    "cart_sub",
    "graph_create",
    "dist_graph_create",
    "dist_graph_adjacent",
];

const WINDOWS_AND_FILES: [&str; 4] = ["win_create", "win_allocate", "win_create_dynamic", "file_open"];
const TOGETHER: [&str; 6] = ["win_fence", "write_at_all", "read_at_all", "write_ordered", "set_view", "sync"];

fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compile("uniform", "mpicc"))
}

/// Seeds of the moments at which each operation is struck: no round has those of another, and the 20 of
/// `scripts/test --full` have 200.
fn moments(lab: &Lab) -> RangeInclusive<u32> {
    lab.seeds(if lab.is_repeated() { 10 } else { 1 })
}

/// What a survivor wrote about the end of operation `number`: call, class, and class of the next call.
fn end(diaries: &Diaries, rank: u32, number: usize) -> Option<String> {
    let mut ends = diaries.of(rank).filter(|entry| entry.event == "ended");
    ends.find(|entry| entry.details[0] == number.to_string()).map(|entry| entry.details[1..].join(" "))
}

/// One member after the other dies, each in one of the operations. Returns what the survivors wrote about each.
fn strike(lab: &Lab, job: Job, value: &str, how: &str, seed: u32, operations: &[&str]) -> Vec<Vec<String>> {
    strike_in(program(), lab, job, (value, how), seed, 1, operations)
}

/// The same with a program that is in another language, or with so many dying members for each operation.
fn strike_in(
    program: &Path,
    lab: &Lab,
    job: Job,
    (value, how): (&str, &str),
    seed: u32,
    dying: usize,
    operations: &[&str],
) -> Vec<Vec<String>> {
    let (seed_text, dying_text) = (seed.to_string(), dying.to_string());
    let job = job.diarist(program).limit(LIMIT);
    let mut arguments = vec!["--uniform", value, "--how", how, "--seed", &seed_text];
    if dying > 1 {
        arguments.extend(["--victims", &dying_text]);
    }
    let outcome = job.arguments(&arguments).arguments(operations).run(lab);
    let what = |text: &str| format!("{text} ({value}, {how}, seed {seed}, {dying} at once, {operations:?})");
    let wrong = outcome.diaries.all("wrong").next().map(Entry::text);
    outcome.require(wrong.is_none(), &what(&format!("a successful call has the right result: {wrong:?}")));
    let half = outcome.diaries.all("half-built").next().map(Entry::text);
    outcome.require(half.is_none(), &what(&format!("a constructor that fails leaves no handle: {half:?}")));
    // Of the first operation the last ranks.
    let left_by = |number: usize| 8 - u32::try_from((number + 1) * dying).expect("a few");
    let victims: Vec<u32> = (left_by(operations.len() - 1)..8).collect();
    let survivors = outcome.survivors(&victims);
    let mut ends = Vec::new();
    for (number, operation) in operations.iter().enumerate() {
        let living = (0..left_by(number)).map(|rank| end(&outcome.diaries, rank, number)).collect::<Option<Vec<_>>>();
        outcome.require(living.is_some(), &what(&format!("all survivors come out of {operation}")));
        ends.extend(living);
    }
    for rank in &survivors {
        outcome.finalized(*rank);
    }
    outcome.require(outcome.status == 0, &what("mpirun's exit status is 0")).left_nothing();
    if value != "local" {
        for (operation, ends) in operations.iter().zip(&ends) {
            let same = ends.iter().all(|end| *end == ends[0]);
            outcome.require(same, &what(&format!("{operation} ends in the same way at all survivors: {ends:?}")));
            let classes = ends[0].split_once(' ').map(|(_, classes)| classes);
            // Where a death revokes as well, the one or the other is met first.
            let expected: &[[&str; 2]] = match (*operation, how) {
                ("win_create" | "win_allocate" | "win_create_dynamic", _) => &[[WIN, WIN]],
                (_, "group") => &[[REVOKED, REVOKED], [PROC_FAILED, REVOKED], [PROC_FAILED, PROC_FAILED]],
                _ => &[[PROC_FAILED, PROC_FAILED]],
            };
            let failed = expected.iter().any(|pair| classes == Some(&pair.join(" ")));
            outcome.require(failed, &what(&format!("{operation} and the next call end as {expected:?}: {ends:?}")));
        }
    }
    ends
}

/// Every operation of a list, as often as is asked for.
fn strike_all(value: &str, form: &str, operations: &[&str]) {
    let names: Vec<String> = operations.iter().map(|name| format!("{form}{name}")).collect();
    in_lab(|lab| {
        for seed in moments(lab) {
            for group in names.chunks(AT_ONCE) {
                let group: Vec<&str> = group.iter().map(String::as_str).collect();
                strike(lab, Job::new(), value, "set", seed, &group);
            }
        }
    });
}

#[test]
fn blocking_collectives() {
    strike_all("coll", "", &COLLECTIVES);
}

/// The collectives of two groups, each as it is called: blocking, not blocking, persistent. Of the root's group the
/// others give nothing.
fn among_two_groups() -> Vec<String> {
    let of_two = COLLECTIVES.into_iter().filter(|name| !name.ends_with("scan"));
    ["", "i", "p"].iter().flat_map(|form| of_two.clone().map(move |name| format!("{form}{name}"))).collect()
}

/// One member after the other of communicators with two groups dies.
fn strike_two_groups(value: &str, how: &str, operations: &[String]) {
    let options = ["--mca", "coll_ringwatch_error_uniform", value];
    in_lab(|lab| {
        for seed in moments(lab) {
            for group in operations.chunks(AT_ONCE) {
                let group: Vec<&str> = group.iter().map(String::as_str).collect();
                let job = Job::new().options(if how == "default" { &options } else { &[] });
                strike(lab, job.arguments(&["--groups", "2"]), value, how, seed, &group);
            }
        }
    });
}

#[test]
fn collectives_among_two_groups() {
    strike_two_groups("coll", "set", &among_two_groups());
}

/// Of these Open MPI returns from most before it asks anybody, or looks whether somebody is dead.
#[test]
#[ignore = "half a minute: a part of scripts/test --full"]
fn collectives_of_nothing() {
    for form in ["z", "zi", "zp"] {
        strike_all("coll", form, &COLLECTIVES[1..]);
        strike_all("coll", form, &NEIGHBOURHOOD);
    }
    let of_two: Vec<String> = among_two_groups().iter().map(|name| format!("z{name}")).collect();
    strike_two_groups("coll", "set", &of_two);
}

/// In whichever way they call MPI, the members that have nothing to do in an operation wait for one that does not come
/// until it is dead, and all end with this class: it is from Open MPI's functions that they return before anybody could
/// ask them.
fn hear_of_a_death(lab: &Lab, options: &[&str], operation: &str, class: &str) {
    let library = compile_library("idle_caller", "mpicc").display().to_string();
    let ways: [&[&str]; 4] = [&["direct"], &["table"], &["asked"], &["loaded", &library]];
    for bound in [&[][..], &["-x", "LD_BIND_NOW=1"]] {
        for way in ways {
            let job = Job::new().options(options).options(bound).diarist(&compile("idle", "mpicc"));
            let mut job = job.arguments(&[operation]).arguments(way).start(lab);
            let living = job.others(&[7]);
            job.wait_for("blocked", &living);
            let death = job.signal_rank(7, libc::SIGKILL);
            let outcome = job.finish();
            for rank in living {
                let result = outcome.diaries.first(rank, "result");
                let (text, is_later) = (result.map(Entry::text), result.is_some_and(|result| result.at >= death));
                let what = format!(
                    "{operation} at rank {rank} ends with {class} after the death, not {text:?} ({way:?}, {bound:?})"
                );
                outcome.require(is_later && text.as_deref() == Some(class), &what).finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    }
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn of_two_groups_also_those_who_have_nothing_to_do() {
    in_lab(|lab| ["bcast", "ireduce"].iter().for_each(|operation| hear_of_a_death(lab, &[], operation, PROC_FAILED)));
}

/// No other communicator is made than that of MPI itself. All have success, since all have done what there was to do.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn of_the_world_by_the_parameter_also_those_who_have_nothing_to_do() {
    in_lab(|lab| hear_of_a_death(lab, &["--mca", "coll_ringwatch_error_uniform", "coll"], "nothing", "0"));
}

#[test]
fn constructors_of_two_groups() {
    // Open MPI's split_type waits for ever on an intercommunicator with members of both groups on one host, whoever
    // lives.
    let names = ["merge", "dup", "dup_with_info", "idup", "idup_with_info", "split", "create"];
    let names = names.map(String::from);
    strike_two_groups("create", "set", &names);
    // The communicators of which Open MPI makes them are uniform, too.
    strike_two_groups("coll", "default", &names);
}

/// In which members have more to send than goes at once: other algorithms, whose parts are interrupted one by one.
#[test]
#[ignore = "takes long: a part of scripts/test --full"]
fn long_messages() {
    let forms =
        ["", "i"].map(|form| COLLECTIVES[1..].iter().chain(&NEIGHBOURHOOD).map(move |name| format!("{form}{name}")));
    let names: Vec<String> = forms.into_iter().flatten().collect();
    in_lab(|lab| {
        for seed in moments(lab) {
            for group in names.chunks(AT_ONCE) {
                let group: Vec<&str> = group.iter().map(String::as_str).collect();
                // 100 KiB for each member.
                strike(lab, Job::new().arguments(&["--elements", "25600"]), "coll", "set", seed, &group);
            }
        }
    });
}

/// A second member dies while the others find out about the first one, or agree.
#[test]
fn two_members_die() {
    let names: Vec<String> =
        ["", "i"].iter().flat_map(|form| COLLECTIVES.map(|name| format!("{form}{name}"))).collect();
    in_lab(|lab| {
        for seed in moments(lab) {
            for group in names.chunks(PAIRS_AT_ONCE) {
                let group: Vec<&str> = group.iter().map(String::as_str).collect();
                strike_in(program(), lab, Job::new(), ("coll", "set"), seed, 2, &group);
            }
        }
    });
}

#[test]
fn collectives_that_do_not_block() {
    strike_all("coll", "i", &COLLECTIVES);
}

/// Operations that are under way together may share an agreement.
#[test]
fn several_collectives_at_once() {
    strike_all("coll", "s", &["barrier", "bcast", "reduce", "allreduce", "alltoallv", "scan"]);
}

#[test]
fn persistent_collectives() {
    strike_all("coll", "p", &COLLECTIVES);
}

#[test]
fn neighbourhood_collectives() {
    strike_all("coll", "", &NEIGHBOURHOOD);
    strike_all("coll", "i", &NEIGHBOURHOOD);
    strike_all("coll", "p", &NEIGHBOURHOOD);
}

/// The last member has none, and Open MPI returns there before it asks anybody.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn neighbourhood_collectives_of_a_member_without_neighbours() {
    let forms = ["", "i", "p"].map(|form| NEIGHBOURHOOD.map(|name| format!("{form}{name}")));
    in_lab(|lab| {
        for (seed, names) in moments(lab).flat_map(|seed| forms.iter().map(move |names| (seed, names))) {
            let group: Vec<&str> = names.iter().map(String::as_str).collect();
            strike(lab, Job::new().arguments(&["--alone"]), "coll", "set", seed, &group);
        }
    });
}

#[test]
fn constructors() {
    strike_all("create", "", &CONSTRUCTORS);
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn constructors_where_all_collectives_are_uniform() {
    strike_all("coll", "", &CONSTRUCTORS);
}

/// Its members settle the number by messages, and whoever has had the last one has a communicator.
#[test]
fn constructor_of_a_group() {
    strike_all("create", "", &["create_group"; AT_ONCE]);
}

/// Whatever the uniformity: no communicator says anything of it. In Open MPI the survivors wait for ever.
#[test]
fn constructor_from_a_group() {
    strike_all("create", "", &["from_group"; AT_ONCE]);
    // By which the communicator of each process alone is revoked, too.
    in_lab(|lab| {
        for seed in moments(lab) {
            let job = Job::new().options(&["--mca", "coll_ringwatch_error_scope", "global"]);
            strike(lab, job, "create", "set", seed, &["from_group"; AT_ONCE]);
        }
    });
}

/// Without any of it every survivor crashed here.
#[test]
fn constructors_of_windows_and_files() {
    strike_all("create", "", &WINDOWS_AND_FILES);
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn constructors_of_windows_and_files_where_all_collectives_are_uniform() {
    strike_all("coll", "", &WINDOWS_AND_FILES);
}

/// Of which Open MPI then settles the number, and chooses the collectives, in the thread that waits.
#[test]
fn constructors_while_other_threads_are_in_mpi() {
    in_lab(|lab| {
        for seed in moments(lab) {
            for group in CONSTRUCTORS.chunks(AT_ONCE).chain(WINDOWS_AND_FILES.chunks(AT_ONCE)) {
                strike(lab, Job::new().environment("RINGWATCH_TEST_WAITER", "1"), "create", "set", seed, group);
            }
        }
    });
}

/// Neither waits for the other, in whichever order each process comes to the two.
#[test]
fn two_threads_make_things_at_the_same_time() {
    in_lab(|lab| {
        for uniform in ["local", "create"] {
            let options = ["--mca", "coll_ringwatch_error_uniform", uniform];
            let job = Job::new().ranks(4).options(&options).diarist(&compile("makers", "mpicc")).limit(LIMIT);
            let outcome = job.run(lab);
            for rank in 0..4 {
                let made = outcome.diaries.first(rank, "made").map(Entry::text);
                outcome.require(made.as_deref() == Some("0"), &format!("rank {rank} makes all ({uniform}): {made:?}"));
                outcome.finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

/// Of processes that share memory.
#[test]
fn constructor_of_shared_windows() {
    in_lab(|lab| {
        for seed in moments(lab) {
            strike(
                lab,
                Job::new().on(&["h1"], 8).options(&["--bind-to", "none"]),
                "create",
                "set",
                seed,
                &["win_allocate_shared"],
            );
        }
    });
}

#[test]
fn what_all_members_do_with_windows_and_files() {
    strike_all("coll", "", &TOGETHER);
}

/// What the tests above rule out does happen where nothing is uniform: the root is ahead of the others.
#[test]
fn without_uniformity_survivors_differ() {
    in_lab(|lab| {
        let ends = strike(lab, Job::new(), "local", "set", 1, &["bcast"]);
        assert!(ends[0].iter().any(|end| *end != ends[0][0]), "no survivor differs from another: {ends:?}");
    });
}

/// Every spelling and every word; what inherits; what is refused.
#[test]
fn info_keys() {
    let uniformity = Property {
        name: "uniform",
        keys: &["mpix_error_uniform", "mpi_error_uniform", "mpix_assert_error_uniform"],
        words: &[("local", "local"), ("create", "create"), ("construct", "create"), ("coll", "coll"), ("all", "coll")],
        inherited: "coll",
        last: "create",
        choices: "local, create or coll",
    };
    uniformity.is_kept();
}

/// Also of what two groups have between them.
#[test]
fn info_of_a_spawned_process_shows_what_is_in_force() {
    in_lab(|lab| {
        let job = Job::new().ranks(2).environment("OMPI_MCA_coll_ringwatch_error_uniform", "coll");
        let outcome = job.diarist(&compile("keys", "mpicc")).arguments(&["uniform"]).run(lab);
        let infos: Vec<String> = outcome.diaries.of(0).filter(|entry| entry.event == "info").map(Entry::text).collect();
        for expected in ["world coll", "spawned-world coll", "spawned-parent coll", "spawner-child coll"] {
            outcome.require(infos.iter().any(|info| info == expected), &format!("{expected}: {infos:?}"));
        }
        outcome.finalized(0);
    });
}

/// The parameter holds for every communicator whose info says nothing, and `MPI_Comm_dup` hands on what was set.
#[test]
fn by_parameter_and_by_inheritance() {
    in_lab(|lab| {
        let by_default = Job::new().options(&["--mca", "coll_ringwatch_error_uniform", "coll"]);
        strike(lab, by_default, "coll", "default", 1, &["bcast", "scan", "ireduce", "split"]);
        strike(lab, Job::new(), "coll", "dup", 2, &["bcast", "scan", "ireduce", "split"]);
    });
}

/// Where a death revokes the communicator, all survivors are told that, in the same call.
#[test]
fn with_the_scope_group() {
    in_lab(|lab| {
        for seed in moments(lab) {
            strike(lab, Job::new(), "coll", "group", seed, &["bcast", "allreduce", "igather", "pscan", "split"]);
        }
    });
}

/// A program that revokes, shrinks and agrees works as before where everything is uniform.
#[test]
fn the_usual_recovery() {
    in_lab(|lab| {
        let job = Job::new().options(&["--mca", "coll_ringwatch_error_uniform", "coll"]);
        let job = job.blocked_in("allreduce", &[5]).arguments(&["--die", "kill"]);
        let mut job = job.arguments(&["--mix", "p2p,any,rooted,all,vector,nonblocking"]).start(lab);
        job.wait_until_blocked();
        let _ = job.go();
        job.finish().recovered(&[5]);
    });
}

/// Open MPI itself refuses a word that is none, and says which there are.
#[test]
fn a_bad_parameter_is_refused() {
    in_lab(|lab| {
        let options = ["--mca", "coll_ringwatch_error_uniform", "everything"];
        let job = Job::new().ranks(2).options(&options).diarist(&compile("keys", "mpicc")).arguments(&["uniform"]);
        let outcome = job.run(lab);
        for word in ["everything", "local", "create", "coll"] {
            outcome.require(outcome.stderr.contains(word), &format!("the message has the word '{word}'"));
        }
        let present = outcome.diaries.all("info").next().map(Entry::text);
        outcome.require(present.as_deref() == Some("world local"), &format!("it stays local, not {present:?}"));
    });
}

/// Uniformity reaches programs whose calls take another way into Open MPI than those of C.
fn in_another_language(program: &Path) {
    in_lab(|lab| {
        for (seed, operation) in (1..).zip(["bcast", "scan", "ireduce", "dup", "two_bcast", "two_ireduce"]) {
            strike_in(program, lab, Job::new(), ("coll", "set"), seed, 1, &[operation]);
        }
    });
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn in_fortran_with_mpif_h() {
    in_another_language(&compile_fortran("uniform", 1, &[]));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn in_fortran_with_the_module_mpi() {
    in_another_language(&compile_fortran("uniform", 2, &[]));
}

#[test]
fn in_fortran_with_the_module_mpi_f08() {
    in_another_language(&compile_fortran("uniform", 3, &[]));
}

#[test]
#[ignore = "takes long: a part of scripts/test --full"]
fn in_python() {
    in_another_language(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/uniform.py")));
}

/// Nobody dies: results are right, an error of one member is an error of that call only, and nothing is left behind.
#[test]
fn without_a_death() {
    in_lab(|lab| {
        let outcome = Job::new().ranks(4).diarist(&compile("calm", "mpicc")).run(lab);
        let wrong = outcome.diaries.all("wrong").next().map(Entry::text);
        outcome.require(wrong.is_none(), &format!("results are right, not {wrong:?}"));
        for rank in 0..4 {
            let own = if rank == 3 { TRUNCATE } else { OTHER };
            for (event, class) in [("own", own), ("next", "0"), ("freed", "0")] {
                let told = outcome.diaries.first(rank, event).map(Entry::text);
                outcome.require(told.as_deref() == Some(class), &format!("'{event}' is {class}, not {told:?}"));
            }
            let as_root = outcome.diaries.of(rank).filter(|entry| entry.event == "root").map(Entry::text);
            let (as_root, expected) =
                (as_root.collect::<Vec<_>>(), if rank < 2 { &["reduce 2", "gather 3"][..] } else { &[] });
            outcome.require(as_root == expected, &format!("rank {rank} gets {expected:?} as a root, not {as_root:?}"));
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

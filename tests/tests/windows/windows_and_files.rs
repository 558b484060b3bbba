//! Windows and files: how their operations end when a member dies, or somebody outside, for each error scope.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::clock::wait_until;
use system_tests::diary::{Diaries, Entry, PROC_FAILED, REVOKED};
use system_tests::lab::run;
use system_tests::programs::compile;
use system_tests::{Job, Lab, Running, in_lab, process};

const SUCCESS: &str = "0";
/// Who waits for the dead itself may meet that before the window is interrupted.
const EITHER: &str = "77 or 75";
/// `MPI_ERR_INFO_VALUE`.
const INFO_VALUE: &str = "33";
/// Most operations of one job: each costs it a rank, and two must be left.
const AT_ONCE: usize = 6;
const LIMIT: Duration = Duration::from_secs(40);

/// The columns of the table: scopes, and for each whether the victim is a member or elsewhere, in the job or in one
/// that was spawned.
const SCOPES: [&str; 3] = ["local", "group", "global"];
const PLACES: [&str; 2] = ["inside", "outside"];
const SPAWNED: &str = "spawned";

/// How an operation ends for those who wait in it for a living member when somebody dies; after the empty line, for
/// those who call it when they know of the death.
#[rustfmt::skip]
const ENDS: [(&str, [[&str; 2]; 3]); 18] = [
    //                          local                   group               global
    // The first: nobody of another window has died yet.
    ("win_lock_held",          [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("win_fence",              [[PROC_FAILED, SUCCESS], [EITHER,  SUCCESS], [EITHER,  REVOKED]]),
    ("write_ordered",          [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("set_view",               [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("set_size",               [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("sync",                   [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),

    ("after_win_put",          [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("after_win_get",          [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("after_win_fetch",        [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("after_win_lock",         [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("after_win_lock_all",     [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("after_win_post",         [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("after_win_fence",        [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("after_win_put_living",   [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("after_win_lock_living",  [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("after_write_at",         [[SUCCESS,     SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("after_write_at_all",     [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
    ("after_read_at_all",      [[PROC_FAILED, SUCCESS], [REVOKED, SUCCESS], [REVOKED, REVOKED]]),
];

fn expected(operation: &str, scope: &str, place: &str) -> &'static str {
    let row = ENDS.iter().find(|row| row.0 == operation).expect("a row of the table").1;
    let column = |names: &[&str], name| names.iter().position(|known| *known == name).expect("a column of the table");
    row[column(&SCOPES, scope)][column(&PLACES, if place == SPAWNED { "outside" } else { place })]
}

fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compile("owned", "mpicc"))
}

/// What a rank wrote about operation `number`.
fn about(diaries: &Diaries, rank: u32, event: &str, number: usize) -> Option<String> {
    let mut entries = diaries.of(rank).filter(|entry| entry.event == event);
    entries.find(|entry| entry.details[0] == number.to_string()).map(|entry| entry.details[1..].join(" "))
}

/// A rank dies in each of the operations, and the others end as the table has it; then windows and files are freed.
fn strike(lab: &Lab, job: Job, scope: &str, place: &str, operations: &[&str]) {
    strike_as(lab, job, scope, place, operations, |operation, _| expected(operation, scope, place));
}

fn strike_as(
    lab: &Lab,
    job: Job,
    scope: &str,
    place: &str,
    operations: &[&str],
    expected: impl Fn(&str, u32) -> &'static str,
) {
    let job = job.diarist(program()).arguments(&["--scope", scope, "--victim-is", place]);
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
        let what = |event: &str| format!("{event} in {operation} ({scope}, {place})");
        let is_there = |diaries: &Diaries| place != SPAWNED || diaries.has(victim, "ready");
        job.wait(&what("blocked"), LIMIT, |diaries| all_wrote(diaries, "blocked") && is_there(diaries));
        let _ = job.signal_rank(victim, libc::SIGKILL);
        let last = if place == "inside" { "freed" } else { "result" };
        job.wait(&what(last), LIMIT, |diaries| all_wrote(diaries, last));
    }
    let outcome = job.finish();
    for (number, operation) in operations.iter().enumerate() {
        for rank in 0..victim_of(number).min(size) {
            let require = |event: &str, expected: &str| {
                let class = about(&outcome.diaries, rank, event, number);
                let what =
                    format!("{event} of {operation} is {expected} at rank {rank}, not {class:?} ({scope}, {place})");
                let one_of = |class: &str| expected.split(" or ").any(|one| one == class);
                outcome.require(class.as_deref().is_some_and(one_of), &what);
            };
            require("result", expected(operation, rank));
            if place == "inside" {
                require("freed", SUCCESS);
            }
        }
    }
    for rank in outcome.survivors(&dead) {
        outcome.finalized(rank);
    }
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
}

/// Every operation of the table, for one of its columns.
fn column(scope: &str, place: &str) {
    let all: Vec<&str> = ENDS.iter().map(|row| row.0).collect();
    let ranks = if place == SPAWNED { 4 } else { 8 };
    in_lab(|lab| {
        for operations in all.chunks(AT_ONCE) {
            strike(lab, Job::new().ranks(ranks), scope, place, operations);
        }
    });
}

/// Eight ranks of one node, whose windows are of memory that they share.
fn sharing() -> Job {
    Job::new().on(&["h1"], 8).options(&["--bind-to", "none"]).arguments(&["--shared"])
}

/// The operations on windows in the table, for windows of shared memory.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn windows_of_shared_memory() {
    let windows: Vec<&str> = ENDS.iter().map(|row| row.0).filter(|name| name.contains("win_")).collect();
    in_lab(|lab| {
        for (scope, place) in SCOPES.into_iter().flat_map(|scope| PLACES.map(|place| (scope, place))) {
            for operations in windows.chunks(AT_ONCE) {
                strike(lab, sharing(), scope, place, operations);
            }
        }
    });
}

/// Who waits for a word of the dead in shared memory.
#[test]
fn what_waits_for_the_dead_in_shared_memory_ends() {
    in_lab(|lab| {
        for operation in ["win_start", "win_post_wait"] {
            strike_as(lab, sharing(), "local", "inside", &[operation], |_, _| PROC_FAILED);
            strike_as(lab, sharing(), "group", "inside", &[operation], |_, _| EITHER);
        }
    });
}

/// With this key Open MPI's own fences wait in the kernel, where nothing reaches them.
/// Open MPI never turns its progress loop there.
#[test]
fn who_only_puts_into_shared_memory_hears_of_a_death() {
    in_lab(|lab| {
        for (scope, class) in [("local", PROC_FAILED), ("group", REVOKED)] {
            strike_as(lab, sharing(), scope, "inside", &["win_put_until"], |_, _| class);
        }
    });
}

#[test]
fn a_fence_does_not_wait_in_the_kernel() {
    in_lab(|lab| {
        let job = || sharing().arguments(&["--blocking-fence"]);
        strike_as(lab, job(), "local", "inside", &["win_fence"], |_, _| PROC_FAILED);
        strike_as(lab, job(), "global", "outside", &["win_fence"], |_, _| REVOKED);
    });
}

/// It has Open MPI's lock for accumulates, in the memory of its node.
#[test]
fn a_member_dies_within_an_accumulate_in_shared_memory() {
    in_lab(|lab| {
        let job = Job::new().on(&["h1"], 4).options(&["--bind-to", "none"]);
        let outcome = job.diarist(&compile("holder", "mpicc")).limit(LIMIT).run(lab);
        for rank in outcome.survivors(&[3]) {
            let about = |event: &str| outcome.diaries.first(rank, event).map(Entry::text);
            for (event, promised) in [("result", "0"), ("lost", "0"), ("swapped", "0 1"), ("freed", "0")] {
                let seen = about(event);
                outcome.require(seen.as_deref() == Some(promised), &format!("{event} is {promised}, not {seen:?}"));
            }
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// Open MPI holds a lock while it asks another process where its memory is, or twice the same one while it asks for a
/// list of that, and other threads wait for it in the kernel.
#[test]
fn a_thread_does_not_wait_for_the_lock_of_one_that_asks_the_dead() {
    in_lab(|lab| {
        for kind in [&[][..], &["dynamic"]] {
            let job = Job::new().on(&system_tests::lab::HOSTS, 1).diarist(&compile("peers", "mpicc"));
            let mut job = job.arguments(kind).start(lab);
            job.wait_for("sleeps", &[3]);
            job.wait_for("waits", &[0]);
            let _ = job.signal_rank(3, libc::SIGKILL);
            let outcome = job.finish();
            let about = |event: &str| outcome.diaries.first(0, event).map(Entry::text);
            let (asked, other) = (about("asked"), about("other"));
            outcome.require(
                asked.as_deref() == Some(PROC_FAILED),
                &format!("who asks the dead is told, not {asked:?} ({kind:?})"),
            );
            let ends = other.as_deref().is_some_and(|class| ["0", PROC_FAILED].contains(&class));
            outcome.require(ends, &format!("the other thread comes out of its call, not {other:?} ({kind:?})"));
            for rank in 0..3 {
                outcome.finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

#[test]
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
fn group_with_a_spawned_victim() {
    column("group", SPAWNED);
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn global_with_a_spawned_victim() {
    column("global", SPAWNED);
}

/// What holds for the communicator holds for what is made from it, unless its own info says otherwise.
#[test]
fn info_keys() {
    in_lab(|lab| {
        let outcome = Job::new().ranks(2).diarist(program()).arguments(&["--keys"]).run(lab);
        for rank in 0..2 {
            for (name, expected) in [
                ("window", "group"),
                ("window-set", "global"),
                ("window-alias", "global"),
                ("window-after-bad", "global"),
                ("window-uniform", "coll"),
                ("window-made-with", "local"),
                ("window-made-bad", "local"),
                ("file", "group"),
                ("file-set", "global"),
                ("file-after-bad", "local"),
                ("file-opened-bad", "group"),
                ("file-opened-with", "coll"),
            ] {
                let mut all =
                    outcome.diaries.of(rank).filter(|entry| entry.event == "info" && entry.details[0] == name);
                let value = all.next().map(|entry| entry.details[1].clone());
                outcome.require(value.as_deref() == Some(expected), &format!("{name} is {expected}, not {value:?}"));
            }
            let handled: Vec<_> =
                outcome.diaries.of(rank).filter(|entry| entry.event == "handler").map(|entry| entry.text()).collect();
            let promised = ["window-bad", "window-made-bad", "file-bad", "file-opened-bad"];
            let promised = promised.map(|name| format!("{name} {INFO_VALUE}"));
            outcome.require(handled == promised, &format!("each bad value is an error of its object: {handled:?}"));
            outcome.finalized(rank);
        }
        let told = outcome.stderr.contains("mpix_error_scope cannot be 'everybody'");
        outcome.require(told, "the sentence names key and value").left_nothing();
    });
}

/// What had begun before the death, and waits for the answer of one who died, ends as well.
/// `shared` is what a member on the node of the dead may find, which reaches its memory without it.
fn begun_before(scope: &str, expected: &'static str, shared: &'static str) {
    const OPERATIONS: [&str; 10] = [
        "win_put",
        "win_get",
        "win_fetch",
        "win_accumulate",
        "win_rput",
        "win_rput_wait",
        "win_put_each",
        "win_put_fence",
        "win_start",
        "win_post_wait",
    ];
    in_lab(|lab| {
        // One at a time: the next victim is not in MPI either, and locks of its node's members may be in its memory.
        for operation in OPERATIONS.chunks(1) {
            strike_as(lab, Job::new(), scope, "inside", operation, |_, rank| if rank == 6 { shared } else { expected });
        }
    });
}

#[test]
fn what_waits_for_the_dead_ends() {
    begun_before("local", PROC_FAILED, "0 or 75");
}

#[test]
#[ignore = "a quarter of a minute: a part of scripts/test --full"]
fn what_waits_for_the_dead_is_interrupted() {
    begun_before("group", EITHER, "0 or 75 or 77");
}

/// A cut link keeps the answers of one who counts as dead, and brings them when it is whole again: nobody waits for
/// them any more, and what they would have been written to serves something else.
#[test]
fn answers_that_a_cut_link_has_kept_do_no_harm() {
    // Sockets of h4 in which something waits: in the second column for their process, in the third for the network.
    let waiting = |column: usize| {
        let sockets = run("ss", &["-N", "h4", "-Htn"]);
        sockets.lines().filter(|line| line.split_whitespace().nth(column) != Some("0")).count()
    };
    let (unread, unsent) = (|| waiting(1), || waiting(2));
    // Of ranks; the daemons of PRRTE have others.
    let open = || {
        let sockets = ["h1", "h2", "h3"].map(|host| run("ss", &["-N", host, "-Htnp", "state", "established"]));
        let is_one = |line: &&str| line.contains("10.77.0.4:") && line.contains("\"owned\"");
        sockets.iter().flat_map(|text| text.lines()).filter(is_one).count()
    };
    in_lab(|lab| {
        // Alone on h4 is rank 6.
        let job = Job::new().ranks(7).diarist(program()).arguments(&["--answers-late", "win_get", "win_fence"]);
        let mut job = job.start(lab);
        let wait = |job: &mut system_tests::Running<'_>, event: &str, number: usize, ranks: std::ops::Range<u32>| {
            let all = |diaries: &Diaries| ranks.clone().all(|rank| about(diaries, rank, event, number).is_some());
            job.wait(&format!("{event} of operation {number}"), LIMIT, all);
        };
        wait(&mut job, "blocked", 0, 0..6);
        // Rank 6 sleeps outside of MPI: what the five others ask for lies in its sockets.
        if !wait_until(LIMIT, || unread() >= 5) {
            job.fail("five ranks ask rank 6");
        }
        // Before the cut: a death that is known closes them.
        let asked = open();
        let _ = job.cut("h4");
        let _ = job.signal_rank(6, libc::SIGUSR1);
        let kept = wait_until(LIMIT, || unsent() > 0);
        wait(&mut job, "freed", 0, 0..6);
        wait(&mut job, "blocked", 1, 0..5);
        // Rank 0 has asked for nothing.
        let left = open();
        lab.heal("h4");
        let gone = wait_until(LIMIT, || unsent() == 0);
        if !kept || !gone || asked < 5 || left > 1 {
            job.fail(&format!(
                "the link keeps answers ({kept}) until it is whole again ({gone}); {asked} connections wait for them, then {left}"
            ));
        }
        let _ = job.signal_rank(5, libc::SIGKILL);
        let outcome = job.finish();
        for rank in 0..5 {
            outcome
                .require(about(&outcome.diaries, rank, "result", 0).as_deref() == Some(PROC_FAILED), "the get fails");
            outcome
                .require(about(&outcome.diaries, rank, "result", 1).as_deref() == Some(PROC_FAILED), "the fence fails");
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// The others end an operation on a file by revoking its communicators, and that may come to a member before the notice
/// of the death: everything on h2 that could tell it is stopped for a while.
#[test]
fn a_file_operation_that_others_end_fails_before_the_notice_comes() {
    in_lab(|lab| {
        let operations = ["set_view", "write_ordered", "set_size", "sync"];
        for (scope, operation) in ["local", "group"].iter().flat_map(|scope| operations.map(|one| (*scope, one))) {
            let job = Job::new().parameter("stop_timeout", "off").parameter("timeout", "10s").diarist(program());
            // With it ranks know all addresses from the start, and need no prted for a first message.
            let job = job.options(&["--mca", "mpi_add_procs_cutoff", "4096"]);
            let mut job = job.arguments(&["--scope", scope, "--victim-is", "inside", operation]).start(lab);
            job.wait_for("blocked", &[0, 1, 2, 3, 4, 5, 6]);
            let deaf = [job.runtime("h2"), job.watcher("h2").pid];
            deaf.iter().for_each(|pid| process::signal(*pid, libc::SIGSTOP));
            let _ = job.signal_rank(7, libc::SIGKILL);
            let what = format!("{operation} ends where no notice comes ({scope})");
            job.wait(&what, LIMIT, |diaries| [2, 3].iter().all(|rank| about(diaries, *rank, "result", 0).is_some()));
            deaf.iter().for_each(|pid| process::signal(*pid, libc::SIGCONT));
            let outcome = job.finish();
            let promised = expected(operation, scope, "inside");
            for rank in 0..7 {
                let class = about(&outcome.diaries, rank, "result", 0);
                let what = format!("{operation} is {promised} at rank {rank}, not {class:?} ({scope})");
                outcome.require(class.as_deref() == Some(promised), &what).finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

/// Who waits for a lock that the dead held is interrupted as in every operation, if the scope counts the dead.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn a_lock_that_the_dead_held_is_not_waited_for_with_scope_group() {
    in_lab(|lab| {
        for scope in ["group", "global"] {
            for job in [Job::new(), sharing()] {
                let job = job.arguments(&["--holds-lock"]);
                strike_as(lab, job, scope, "inside", &["win_lock_alone_living"], |_, _| REVOKED);
            }
        }
    });
}

/// A rank that waits for a lock which the dead rank held says so. Rank 0 asks for the lock `later` seconds after the
/// others.
fn a_wait_is_told(later: u32, is_told: impl Fn(&mut Running)) {
    in_lab(|lab| {
        let later = later.to_string();
        let arguments = ["--holds-lock", "--later", &later, "win_lock_alone_living"];
        let mut job = Job::new().diarist(program()).arguments(&arguments).start(lab);
        let waiting = [1, 2, 3, 4, 5, 6];
        job.wait("blocked at a lock", LIMIT, |diaries| {
            waiting.iter().all(|rank| about(diaries, *rank, "blocked", 0).is_some())
        });
        // Each is in MPI, where it asks for the lock again and again.
        std::thread::sleep(Duration::from_millis(200));
        let _ = job.signal_rank(7, libc::SIGKILL);
        let sentence = |rank: &u32| format!("ringwatch: rank {rank} has been in MPI_Win_lock for 10 s");
        let told = wait_until(LIMIT, || waiting.iter().all(|rank| job.stderr().contains(&sentence(rank))));
        if !told {
            job.fail("every rank says what it waits in");
        }
        is_told(&mut job);
        for rank in 0..7 {
            let _ = job.signal_rank(rank, libc::SIGKILL);
        }
        job.finish().left_nothing();
    });
}

#[test]
#[ignore = "waits for a quarter of a minute: a part of scripts/test --full"]
fn a_wait_that_nothing_ends_is_told() {
    a_wait_is_told(16, |_| ());
}

#[test]
#[ignore = "half a minute of waiting: a part of scripts/test --full"]
fn a_wait_that_begins_long_after_the_death_is_told() {
    a_wait_is_told(16, |job| {
        if !wait_until(LIMIT * 2, || job.stderr().contains("ringwatch: rank 0 has been in MPI_Win_lock for 1")) {
            job.fail("so does rank 0, which has asked for the lock when nobody had died for 16 s");
        }
    });
}

/// Answers to one-sided operations of a process that dies wait in connections to it, which break: that is no more than
/// its death.
#[test]
fn a_process_dies_to_which_others_owe_answers() {
    in_lab(|lab| {
        let program = compile("answers", "mpicc");
        let mut job = Job::new().on(&system_tests::lab::HOSTS, 1).diarist(&program).start(lab);
        job.wait_for("asked", &[3]);
        job.wait_for("answers", &[0, 1, 2]);
        // Until their connections are full, of which nothing else can be seen.
        std::thread::sleep(Duration::from_millis(300));
        let _ = job.signal_rank(3, libc::SIGKILL);
        let outcome = job.finish();
        for rank in 0..3 {
            let said = |event: &str| outcome.diaries.first(rank, event).map(|entry| entry.text());
            let (told, left) = (said("told"), said("left"));
            let is_told = [PROC_FAILED, REVOKED].map(Some).contains(&told.as_deref());
            outcome.require(is_told, &format!("rank {rank} is told, not {told:?}"));
            outcome.require(left.as_deref() == Some("3 3"), &format!("rank {rank} goes on, not {left:?}"));
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// A correct program may have a member begin only when another has begun, uniform or not.
#[test]
fn what_is_begun_with_a_uniform_file_waits_for_nobody() {
    in_lab(|lab| {
        let program = compile("begun", "mpicc");
        let uniform = ["--mca", "coll_ringwatch_error_uniform", "coll"];
        let outcome = Job::new().ranks(4).options(&uniform).diarist(&program).arguments(&["/tmp/begun"]).run(lab);
        let _ = std::fs::remove_file("/tmp/begun");
        for rank in 0..4 {
            let right = outcome.diaries.of(rank).filter(|entry| entry.event == "right").count();
            outcome.require(right == 4, &format!("rank {rank} has begun and ended four operations, not {right}"));
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// `victim` is killed in the last step of the constructor, in which all ask rank 0. `failing` have an error then.
fn in_the_last_step(how: &str, victim: u32, failing: &[u32]) {
    in_lab(|lab| {
        let job = Job::new().on(&["h1", "h2", "h3", "h4"], 1).diarist(&compile("leaders", "mpicc")).arguments(&[how]);
        let mut job = job.start(lab);
        job.wait_for("asks", &[0, 1, 2, 3]);
        let _ = job.signal_rank(victim, libc::SIGKILL);
        let outcome = job.finish();
        let class = |rank: u32, event: &str| outcome.diaries.first(rank, event).map(Entry::text);
        for rank in failing {
            let left = class(*rank, "left");
            outcome.require(
                left.as_deref().is_some_and(|class| class != "0"),
                &format!("{rank} has an error, not {left:?}"),
            );
        }
        for rank in outcome.survivors(&[victim]) {
            let again = class(rank, "again");
            outcome.require(again.as_deref() == Some("0"), &format!("rank {rank} makes another window, not {again:?}"));
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// Those who had asked it were never answered.
#[test]
fn rank_0_dies_while_others_ask_it_in_a_constructor() {
    in_the_last_step("dies", 0, &[1, 2, 3]);
}

/// What it had told them of was freed by then, and they crashed with what they found there.
#[test]
fn rank_0_leaves_a_constructor_with_an_error_before_others_ask_it() {
    in_the_last_step("fails", 3, &[0]);
}

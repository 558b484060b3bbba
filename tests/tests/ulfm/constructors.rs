//! Constructors of communicators that a death or a revoke interrupts: others go on, however often that happens.

use std::time::Duration;

use system_tests::diary::{Diaries, Entry, PROC_FAILED, REVOKED};
use system_tests::programs::compile;
use system_tests::{Job, Lab, Outcome, in_lab};

const SUCCESS: &str = "0";
/// `MPI_ERR_WIN`, to which most of Open MPI's constructors of windows turn every error.
const WIN: &str = "53";
/// Constructors that begin with the number of the new communicator.
const NUMBERING: [&str; 5] = ["dup", "idup", "create", "cart_create", "idup"];
/// What everybody does after each.
const AFTERWARDS: [&str; 7] = ["shrink", "dup", "idup", "split", "create", "create_group", "cart_create"];
const LIMIT: Duration = Duration::from_secs(40);

/// What a rank wrote about operation `number`.
fn about<'a>(diaries: &'a Diaries, rank: u32, event: &'a str, number: usize) -> impl Iterator<Item = String> + 'a {
    let entries =
        diaries.of(rank).filter(move |entry| entry.event == event && entry.number(0) == u32::try_from(number).ok());
    entries.map(|entry| entry.details[1..].join(" "))
}

/// All members but one are blocked in one constructor after the other when that one dies or revokes the communicator.
/// Open MPI numbers communicators in the order of those that they are made from, and keeps the turn of one whose number
/// was not agreed on.
fn newer_ones_go_on(how: &str, class: &str, operations: &[&str]) {
    in_lab(|lab| {
        let job = Job::new().diarist(&compile("numbers", "mpicc")).arguments(&["--how", how]);
        let mut job = job.arguments(operations).start(lab);
        let ones =
            operations.iter().enumerate().map(|(number, _)| 7 - u32::try_from(number).expect("a few operations"));
        let mut dead = Vec::new();
        for ((number, operation), one) in operations.iter().enumerate().zip(ones.clone()) {
            if how == "kill" {
                let all_blocked =
                    |diaries: &Diaries| (0..one).all(|rank| about(diaries, rank, "blocked", number).next().is_some());
                job.wait(&format!("blocked in {operation}"), LIMIT, all_blocked);
                let _ = job.signal_rank(one, libc::SIGKILL);
                dead.push(one);
            }
            let living = job.others(&dead);
            let all_made = |diaries: &Diaries| {
                living.iter().all(|rank| about(diaries, *rank, "made", number).count() == AFTERWARDS.len())
            };
            job.wait(&format!("others after {operation}"), LIMIT, all_made);
        }
        let outcome = job.finish();
        for ((number, operation), one) in operations.iter().enumerate().zip(ones) {
            for rank in 0..one {
                let of = |event| about(&outcome.diaries, rank, event, number).collect::<Vec<_>>();
                let result = of("result");
                let what = format!("{operation} at rank {rank} ends with {class}, not {result:?}");
                outcome.require(result == [class], &what);
                let half = of("half-built");
                outcome.require(half.is_empty(), &format!("{operation} leaves no handle at rank {rank}: {half:?}"));
                let (made, all) = (of("made"), AFTERWARDS.map(|name| format!("{name} {SUCCESS}")));
                outcome.require(made == all, &format!("after {operation} rank {rank} makes others: {made:?}"));
            }
        }
        for rank in outcome.survivors(&dead) {
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

#[test]
fn after_a_death() {
    newer_ones_go_on("kill", PROC_FAILED, &NUMBERING);
}

#[test]
fn after_a_revoke() {
    newer_ones_go_on("revoke", REVOKED, &NUMBERING);
}

/// In Open MPI 5.0.7 it waits for the dead, and for those who do not wait for them.
#[test]
fn of_a_group_waits_for_nobody_who_is_dead() {
    newer_ones_go_on("kill", PROC_FAILED, &["create_group"; 5]);
    newer_ones_go_on("revoke", REVOKED, &["create_group"; 5]);
}

/// All constructors, with so many rounds of each. In Open MPI 5.0.7 the last step of `MPI_Intercomm_create` runs in a
/// communicator that is revoked with what is made: without ringwatch's part in that half of a hundred rounds failed
/// somewhere.
const LEFT_EARLY: [(&str, usize); 19] = [
    ("dup", 10),
    ("idup", 10),
    ("split", 10),
    ("split_type", 10),
    ("create", 10),
    ("create_group", 10),
    ("create_from_group", 10),
    ("cart_create", 10),
    ("dist_graph_create", 10),
    ("dist_graph_create_adjacent", 10),
    ("shrink", 10),
    ("ishrink", 10),
    ("intercomm_create", 100),
    ("intercomm_create_from_groups", 10),
    ("intercomm_merge", 10),
    ("intercomm_dup", 10),
    ("intercomm_idup", 10),
    ("intercomm_split", 10),
    ("intercomm_create_of_group", 10),
];

fn members_that_leave_early(hosts: &[&'static str], options: &[&str]) {
    in_lab(|lab| {
        let words = LEFT_EARLY.map(|(name, rounds)| [name.to_owned(), rounds.to_string()]);
        let words: Vec<&str> = words.iter().flatten().map(String::as_str).collect();
        let per_host = 8 / u32::try_from(hosts.len()).expect("a few hosts");
        let job = Job::new()
            .on(hosts, per_host)
            .options(&["--bind-to", "none"])
            .options(&["-x", "LD_PRELOAD=libringwatch.so"])
            .options(options);
        let outcome = job.diarist(&compile("leavers", "mpicc")).arguments(&words).run(lab);
        for (rank, (name, rounds)) in (0..8).flat_map(|rank| LEFT_EARLY.map(|one| (rank, one))) {
            let right = format!("{name} {rounds} {SUCCESS}");
            let made = outcome.diaries.of(rank).filter(|entry| entry.event == "made").map(Entry::text);
            let made: Vec<String> = made.filter(|text| text.starts_with(&format!("{name} "))).collect();
            outcome.require(made == [right.as_str()], &format!("rank {rank} makes '{right}', not {made:?}"));
        }
        (0..8).for_each(|rank| _ = outcome.finalized(rank));
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

#[test]
fn who_leaves_early_may_revoke_what_others_still_make() {
    members_that_leave_early(&["h1", "h2", "h3", "h4"], &[]);
}

#[test]
#[ignore = "the same on one host, and with uniform errors"]
fn who_leaves_early_may_revoke_what_others_still_make_elsewhere() {
    members_that_leave_early(&["h1"], &[]);
    members_that_leave_early(&["h1", "h2", "h3", "h4"], &["--mca", "coll_ringwatch_error_uniform", "create"]);
}

/// Open MPI 5.0.7 refuses `MPI_Comm_create_group` where anybody of the communicator is dead, and gives up the messages
/// by which two groups settle their number.
fn beside_the_dead(hosts: &[&'static str], options: &[&str]) {
    in_lab(|lab| {
        for when in ["at-once", "later"] {
            let per_host = 8 / u32::try_from(hosts.len()).expect("a few hosts");
            let job = Job::new()
                .on(hosts, per_host)
                .options(&["--bind-to", "none"])
                .options(options)
                .diarist(&compile("bystanders", "mpicc"));
            let outcome = job.arguments(&[when]).run(lab);
            for rank in 0..7 {
                let others = if rank < 3 { 4 } else { 3 };
                let round = ["group 0 7".to_owned(), format!("two_groups 0 {others}")];
                let mut right = [round.clone(), round.clone(), round].concat();
                if rank > 0 {
                    right.extend([format!("with_the_dead {PROC_FAILED} -1"), "without 0 6".to_owned()]);
                }
                let made = outcome.diaries.of(rank).filter(|entry| entry.event == "made").map(Entry::text);
                let made: Vec<String> = made.collect();
                outcome.require(made == right, &format!("rank {rank} makes {right:?}, not {made:?} ({when})"));
                outcome.finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

#[test]
fn of_the_living_beside_the_dead() {
    beside_the_dead(&["h1", "h2", "h3", "h4"], &[]);
}

#[test]
fn of_the_living_beside_the_dead_on_one_host() {
    beside_the_dead(&["h1"], &[]);
}

#[test]
fn of_the_living_beside_the_dead_with_uniform_errors() {
    beside_the_dead(&["h1", "h2", "h3", "h4"], &["--mca", "coll_ringwatch_error_uniform", "create"]);
}

/// Open MPI says the number of a communicator in each message, and no more.
#[test]
fn messages_that_arrive_after_their_communicator_was_freed_are_not_taken_for_those_of_the_next_one() {
    in_lab(|lab| {
        let job = Job::new().on(&["h1", "h2", "h3", "h4"], 1).diarist(&compile("late", "mpicc"));
        let outcome = job.run(lab);
        let got = outcome.diaries.first(1, "got").map(|entry| entry.text());
        outcome.require(got.as_deref() == Some("200 201 202"), &format!("rank 1 gets 200, 201 and 202, not {got:?}"));
        for rank in outcome.survivors(&[3]) {
            // Heartbeats, and at the most what is left of the recovery; a revocation that goes round is thousands.
            let idle = outcome.diaries.first(rank, "idle").and_then(|entry| entry.number(0));
            outcome.require(idle.is_some_and(|idle| idle < 500), &format!("rank {rank} is left alone, not {idle:?}"));
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// Of graphs whose edges some other member tells.
#[test]
fn graphs_have_the_edges_that_the_members_told() {
    in_lab(|lab| {
        for uniform in ["local", "create", "coll"] {
            let options = ["--mca", "coll_ringwatch_error_uniform", uniform];
            let outcome = Job::new().options(&options).diarist(&compile("graphs", "mpicc")).run(lab);
            for rank in 0..8 {
                let right = outcome.diaries.of(rank).filter(|entry| entry.event == "right").count();
                outcome.require(right == 10, &format!("rank {rank} has ten graphs, not {right} ({uniform})"));
                outcome.finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

/// Each time of others, and of some again.
#[test]
fn of_two_groups_alone() {
    in_lab(|lab| {
        let outcome = Job::new().diarist(&compile("groups", "mpicc")).limit(LIMIT).run(lab);
        for rank in 0..8 {
            let right = outcome.diaries.of(rank).filter(|entry| entry.event == "right").count();
            outcome.require(right == 10, &format!("rank {rank} has ten intercommunicators, not {right}"));
            outcome.finalized(rank);
        }
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

/// A constructor that fails sets a number free that this process has not taken for the new communicator, since another
/// one has it: that one would get no message any more.
#[test]
#[ignore = "takes long: a part of scripts/test --full"]
fn a_constructor_that_fails_takes_no_other_communicators_number() {
    in_lab(|lab| {
        for (seed, op) in (1..=10).map(|seed| (seed, if seed % 2 == 0 { "create_group" } else { "dup" })) {
            let seed_text = seed.to_string();
            let arguments = ["--seed", &seed_text, "--by", op];
            let outcome = Job::new().diarist(&compile("taken", "mpicc")).arguments(&arguments).run(lab);
            for rank in 0..7 {
                let heard = outcome.diaries.first(rank, "heard").map(Entry::text);
                let what = format!("rank {rank} hears itself on its own communicators: {heard:?} (seed {seed})");
                outcome.require(heard.as_deref() == Some("6"), &what).finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

/// Also where one of the two was spawned by the other.
fn both_groups_without(victim: u32) -> Vec<u32> {
    (0..8).filter(|rank| *rank != victim).collect()
}

/// Starts `crossings` and kills the victim after this time in the operation; returns what the survivors wrote once they
/// are all together again.
fn strike_two_groups(lab: &Lab, job: Job, arguments: &[&str], victim: u32, after: Duration) -> Outcome {
    let victim_text = victim.to_string();
    let job = job.diarist(&compile("crossings", "mpicc")).arguments(arguments).arguments(&["--victim", &victim_text]);
    let mut job = job.start(lab);
    let living = both_groups_without(victim);
    job.wait_for("blocked", &living);
    std::thread::sleep(after);
    let _ = job.signal_rank(victim, libc::SIGKILL);
    job.wait("all survivors together", LIMIT, |diaries| living.iter().all(|rank| diaries.has(*rank, "finalized")));
    let outcome = job.finish();
    for rank in living {
        let again = outcome.diaries.first(rank, "again").map(Entry::text);
        let what = format!("rank {rank} and six others make one again, not {again:?} ({arguments:?}, victim {victim})");
        outcome.require(again.as_deref() == Some("0 7"), &what).finalized(rank);
        if let Some(group) = outcome.diaries.first(rank, "group").map(Entry::text) {
            let what = format!("the group of rank {rank}, which has lost nobody, goes on, not {group} ({arguments:?})");
            outcome.require(group == "0 4", &what);
        }
    }
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    outcome
}

fn two_groups_wait_for_nobody_who_is_dead(op: &str, bridge: &str, victims: &[u32], uniform: &str) {
    wait_for_nobody_who_is_dead(&Job::new(), [op, bridge], victims, uniform);
}

/// A member of one group is missing, its leader or another. Open MPI 5.0.7 waits for it, and for those who do not wait
/// either.
fn wait_for_nobody_who_is_dead(job: &Job, [op, bridge]: [&str; 2], victims: &[u32], uniform: &str) {
    in_lab(|lab| {
        for victim in victims {
            let arguments = ["--op", op, "--bridge", bridge];
            let job = job.clone().options(&["--mca", "coll_ringwatch_error_uniform", uniform]);
            let outcome = strike_two_groups(lab, job, &arguments, *victim, Duration::from_millis(100));
            for rank in both_groups_without(*victim) {
                let of = |event| outcome.diaries.first(rank, event).map(Entry::text);
                let result = of("result");
                let what =
                    format!("{op} at rank {rank} ends with {PROC_FAILED}, not {result:?} ({bridge}, victim {victim})");
                outcome.require(result.as_deref() == Some(PROC_FAILED), &what);
                outcome.require(of("half-built").is_none(), &format!("{op} leaves no handle at rank {rank}"));
            }
        }
    });
}

/// One group has spawned the other.
fn two_jobs() -> Job {
    Job::new().ranks(4).arguments(&["--jobs", "2"])
}

#[test]
#[ignore = "takes long: a part of scripts/test --full"]
fn of_two_groups_that_are_two_jobs() {
    wait_for_nobody_who_is_dead(&two_jobs(), ["create", "world"], &[6, 4, 0, 1], "local");
    wait_for_nobody_who_is_dead(&two_jobs(), ["create", "leaders"], &[6, 1], "create");
    wait_for_nobody_who_is_dead(&two_jobs(), ["groups", "world"], &[4, 6], "create");
}

#[test]
fn of_two_groups_with_the_world_as_bridge() {
    two_groups_wait_for_nobody_who_is_dead("create", "world", &[6, 4], "local");
}

/// Who dies is not in the bridge, or is the leader.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn of_two_groups_with_a_bridge_of_leaders() {
    two_groups_wait_for_nobody_who_is_dead("create", "leaders", &[6, 1, 0], "local");
    two_groups_wait_for_nobody_who_is_dead("create", "leaders", &[6, 1], "create");
}

/// Without a communicator before.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn of_two_groups_that_have_nothing_yet() {
    two_groups_wait_for_nobody_who_is_dead("groups", "leaders", &[6, 4, 0, 1], "local");
    two_groups_wait_for_nobody_who_is_dead("groups", "leaders", &[6, 4, 1], "create");
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn of_two_groups_that_are_merged() {
    two_groups_wait_for_nobody_who_is_dead("merge", "world", &[6, 4], "local");
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn of_two_groups_made_of_two() {
    two_groups_wait_for_nobody_who_is_dead("idup", "world", &[6], "local");
    two_groups_wait_for_nobody_who_is_dead("split", "world", &[4], "local");
}

#[test]
fn of_two_groups_at_any_moment() {
    in_lab(|lab| {
        for (round, op) in (0..6_u8).zip(["create", "merge", "groups"].iter().cycle()) {
            let arguments = ["--op", op, "--times", "1000000"];
            let after = Duration::from_micros(50_317 + 7_919 * u64::from(round));
            let victim = [6, 4, 0, 1, 6, 4][usize::from(round)];
            let outcome = strike_two_groups(lab, Job::new(), &arguments, victim, after);
            if *op == "groups" {
                let survivors = outcome.survivors(&[victim]).into_iter();
                let made: Vec<_> = survivors.map(|rank| outcome.diaries.first(rank, "made").map(Entry::text)).collect();
                let are_alike = made.iter().all(|one| *one == made[0]);
                outcome.require(are_alike, &format!("all have made as many, not {made:?} (victim {victim})"));
            }
        }
    });
}

/// Whoever dies, a leader or another.
fn two_uniform_groups_make_it_at_all_or_at_none(op: &str) {
    in_lab(|lab| {
        // Of 20 rounds each strikes at other moments.
        let moments = lab.seeds(if lab.is_repeated() { 10 } else { 5 }).map(|seed| u64::from(seed) * 3_571 % 50_000);
        // What a scope revokes has its class in both groups, of which one has lost nobody, if the program has called
        // with it.
        let told = if op == "groups" { PROC_FAILED } else { REVOKED };
        let scopes = [("local", PROC_FAILED), ("group", told), ("local", PROC_FAILED), ("global", told)];
        let ways = [6, 0, 1, 4, 7].into_iter().cycle().zip(scopes.into_iter().cycle());
        for ((victim, (scope, class)), after) in ways.zip(moments) {
            let job = Job::new().options(&["--mca", "coll_ringwatch_error_uniform", "create"]);
            let job = job.options(&["--mca", "coll_ringwatch_error_scope", scope]);
            let arguments = ["--op", op, "--bridge", "leaders", "--times", "1000000"];
            let after = Duration::from_micros(50_000 + after);
            let outcome = strike_two_groups(lab, job, &arguments, victim, after);
            let results: Vec<_> = outcome
                .survivors(&[victim])
                .into_iter()
                .map(|rank| {
                    let of = |event| outcome.diaries.first(rank, event).map(Entry::text);
                    (of("made"), of("result"))
                })
                .collect();
            let all_alike = results.iter().all(|result| *result == results[0]);
            outcome
                .require(all_alike, &format!("all have made as many and end alike, not {results:?} (victim {victim})"));
            let ends = results[0].1.as_deref() == Some(class);
            outcome.require(ends, &format!("the last one ends with {class}, not {:?} ({scope})", results[0].1));
        }
    });
}

#[test]
fn of_two_uniform_groups_is_made_at_all_or_at_none() {
    two_uniform_groups_make_it_at_all_or_at_none("create");
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn of_two_uniform_groups_that_have_nothing_yet() {
    two_uniform_groups_make_it_at_all_or_at_none("groups");
}

/// So many times one thing in a job, each of which costs it a rank.
const STRIKES: usize = 5;

/// With the error scope global: the death of somebody who is no member revokes what the members call with, at each at
/// another moment.
fn while_processes_die_outside(operations: &[&str], uniformities: &[&str]) {
    in_lab(|lab| {
        let ways = || uniformities.iter().copied().zip(lab.seeds(2));
        for (op, (uniform, seed)) in operations.iter().flat_map(|op| ways().map(move |way| (op, way))) {
            let job = Job::new().diarist(&compile("outsiders", "mpicc")).limit(LIMIT);
            let job = job.arguments(&["--uniform", uniform, "--seed", &seed.to_string()]);
            let outcome = job.arguments(&[*op; STRIKES]).run(lab);
            let classes: &[&str] = match (op.split_once('_'), uniform) {
                (Some(("win", _)), _) => &[WIN],
                (_, "local") => &[REVOKED, PROC_FAILED],
                _ => &[REVOKED],
            };
            for (number, victim) in (0..STRIKES).zip((0..8).rev()) {
                let end = |rank| about(&outcome.diaries, rank, "ended", number).next();
                let ends: Vec<_> = (0..victim).filter_map(end).collect();
                let what = format!("{op} for the {number}th time ({uniform}): {ends:?}");
                outcome.require(ends.len() == victim as usize, &format!("all members come out of {what}"));
                let fails = |end: &String| end.split_once(' ').is_some_and(|(_, class)| classes.contains(&class));
                outcome.require(ends.iter().all(fails), &format!("{classes:?} ends {what}"));
                let alike = uniform == "local" || ends.iter().all(|end| *end == ends[0]);
                outcome.require(alike, &format!("the same ends, everywhere after as many, {what}"));
            }
            let half = outcome.diaries.all("half-built").next().map(Entry::text);
            outcome.require(half.is_none(), &format!("{op} that fails leaves no handle: {half:?} ({uniform})"));
            for rank in 0..3 {
                outcome.finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

/// Members that had left were waited for; and of a window they had freed what others read, which crashed.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn of_windows_and_files_while_processes_die_outside() {
    while_processes_die_outside(
        &["win_create", "win_allocate", "win_create_dynamic", "file_open"],
        &["local", "create"],
    );
}

#[test]
fn of_communicators_while_processes_die_outside() {
    while_processes_die_outside(&["dup", "split"], &["local", "create"]);
}

/// Members that had not come to the new communicator, because theirs was revoked, were waited for there.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn of_two_groups_while_processes_die_outside() {
    while_processes_die_outside(&["intercomm_create"; 3], &["local", "create"]);
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn of_an_intercommunicator_while_processes_die_outside() {
    while_processes_die_outside(&["merge", "inter_dup", "inter_split"], &["local", "create"]);
}

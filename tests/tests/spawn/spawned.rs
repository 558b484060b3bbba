//! Jobs that ranks spawn: they come about, and a death on either side is known on both.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use system_tests::clock::wait_until;
use system_tests::diary::{Entry, PENDING, PROC_FAILED, REVOKED};
use system_tests::outcome::Outcome;
use system_tests::programs::compile;
use system_tests::running::Running;
use system_tests::{Job, Lab, in_lab, process};

const LIMIT: Duration = Duration::from_secs(40);
/// Ranks of the first job, on the hosts h1 and h2, and of the spawned one, on h3 and h4.
const SIZE: u32 = 4;
/// Longer than the first time after which TCP sends again, and much shorter than the timeout.
const CUT: Duration = Duration::from_millis(250);

fn spawner() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| compile("spawner", "mpicc"))
}

fn job(case: &str, victim: &str) -> Job {
    Job::new().with_default_times().ranks(SIZE).diarist(spawner()).arguments(&["--case", case, "--victim", victim])
}

fn everybody() -> Vec<u32> {
    (0..2 * SIZE).collect()
}

/// The first words that a rank wrote about an event.
fn told(outcome: &Outcome, rank: u32, event: &str) -> String {
    outcome.diaries.first(rank, event).map(|entry| entry.text()).unwrap_or_default()
}

fn require(outcome: &Outcome, rank: u32, event: &str, expected: &[&str]) {
    let text = told(outcome, rank, event);
    outcome
        .require(expected.contains(&text.as_str()), &format!("{event} of {rank} is one of {expected:?}, not {text:?}"));
}

/// Kills the victim once all are ready, and returns how everything ended.
fn strike(lab: &Lab, job: &Job, victim: u32) -> Outcome {
    let mut job: Running<'_> = job.start(lab);
    job.wait("everybody is ready", LIMIT, |diaries| everybody().iter().all(|rank| diaries.has(*rank, "ready")));
    let _ = job.signal_rank(victim, libc::SIGKILL);
    job.finish()
}

fn survivors(victim: u32) -> impl Iterator<Item = u32> {
    everybody().into_iter().filter(move |rank| *rank != victim)
}

fn ended(outcome: &Outcome, ranks: impl Iterator<Item = u32>) {
    for rank in ranks {
        require(outcome, rank, "finalized", &["0"]);
    }
    outcome.require(outcome.status == 0, "mpirun's exit status is 0").without_the_output().left_nothing();
}

fn with_uniform_errors(uniform: &str, job: Job) -> Job {
    job.options(&["--mca", "coll_ringwatch_error_uniform", uniform])
}

#[test]
fn parents_and_children_talk_and_part() {
    parents_and_children("local");
}

#[test]
fn parents_and_children_talk_and_part_with_uniform_errors() {
    parents_and_children("create");
}

fn parents_and_children(uniform: &str) {
    in_lab(|lab| {
        let outcome = with_uniform_errors(uniform, job("calm", "-1")).run(lab);
        for rank in everybody() {
            let (peer, sums) = ((rank + SIZE) % (2 * SIZE), [6, 22]);
            require(&outcome, rank, "exchanged", &[&format!("0 {peer}")]);
            require(&outcome, rank, "barrier", &["0"]);
            require(&outcome, rank, "allreduce", &[&format!("0 {}", sums[usize::from(rank < SIZE)])]);
            require(&outcome, rank, "merged", &["0 28"]);
            let parted: Vec<_> = outcome.diaries.of(rank).filter(|entry| entry.event == "disconnected").collect();
            outcome.require(parted.len() == 2, &format!("rank {rank} has disconnected twice"));
        }
        ended(&outcome, everybody().into_iter());
    });
}

/// What is to be spawned does not exist: all have the same error, and go on. Those that have parted from others, and
/// ended, were still sent parts of an agreement: what was spawned next where they had been got these, and was held
/// dead.
#[test]
fn nobody_asks_those_who_have_parted() {
    in_lab(|lab| {
        for end in ["disconnect", "free"] {
            // All that is spawned is on the first host.
            let job =
                with_uniform_errors("create", Job::new().ranks(4)).options(&["--map-by", "node", "--oversubscribe"]);
            let outcome = job.diarist(&compile("rounds", "mpicc")).arguments(&["--end", end]).run(lab);
            for rank in 0..4 {
                let rounds: Vec<_> =
                    outcome.diaries.of(rank).filter(|entry| entry.event == "round").map(Entry::text).collect();
                outcome.require(rounds == ["0 6"; 3], &format!("rank {rank} has three rounds, not {rounds:?} ({end})"));
                outcome.finalized(rank);
            }
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
        }
    });
}

#[test]
fn a_program_that_does_not_exist_is_an_error_at_all() {
    in_lab(|lab| {
        for uniform in ["local", "create"] {
            let outcome = with_uniform_errors(uniform, job("nobody", "-1")).run(lab);
            let expected = told(&outcome, 0, "spawned");
            outcome.require(!expected.is_empty() && !expected.starts_with("0 "), "an error");
            outcome.require(expected.ends_with(" 0"), "no communicator");
            for rank in 0..SIZE {
                require(&outcome, rank, "spawned", &[&expected]);
                require(&outcome, rank, "barrier", &["0"]);
                require(&outcome, rank, "finalized", &["0"]);
            }
            outcome.left_nothing();
        }
    });
}

/// The link to a node is cut for a moment as the job is launched, for longer than the runtime waits before it sends
/// again: the node hears of the job when it does so once more, and before that from its rank, which is to be connected
/// with it.
#[test]
fn a_node_hears_of_the_spawned_job_from_its_rank_first() {
    in_lab(|lab| {
        let mut job = job("on-go", "-1").start(lab);
        job.wait_for("ready", &[0, 1, 2, 3]);
        lab.split(&["h2"], true);
        let _ = job.go();
        if !wait_until(LIMIT, || job.log("h3").contains("spawned job=")) {
            job.fail("the job is launched");
        }
        std::thread::sleep(CUT);
        lab.join("h2");
        let outcome = job.finish();
        for rank in everybody() {
            require(&outcome, rank, "merged", &["0 28"]);
        }
        ended(&outcome, everybody().into_iter());
    });
}

/// The victim's own side and the other one, each in its own operation.
fn on_both_sides(case: &str, classes: &[&str]) {
    in_lab(|lab| {
        for victim in [1, SIZE + 2] {
            let outcome = strike(lab, &job(case, &victim.to_string()), victim);
            for rank in survivors(victim) {
                let beside = (rank < SIZE) == (victim < SIZE);
                require(&outcome, rank, "result", if beside { &[PROC_FAILED] } else { classes });
                require(&outcome, rank, "shrunk", &["7 0"]);
                require(&outcome, rank, "sum", &["0 7"]);
                require(&outcome, rank, "disconnected", &["0"]);
            }
            ended(&outcome, survivors(victim));
        }
    });
}

#[test]
fn a_receive_over_the_intercommunicator_fails() {
    on_both_sides("recv", &[PROC_FAILED]);
}

#[test]
fn a_receive_from_any_source_over_the_intercommunicator_fails() {
    on_both_sides("any", &[PROC_FAILED, PENDING]);
}

#[test]
fn a_barrier_over_the_intercommunicator_fails() {
    on_both_sides("barrier", &[PROC_FAILED]);
}

/// Scope global counts the death of a process that shares no communicator with the caller.
#[test]
fn a_spawned_stranger_interrupts_scope_global() {
    in_lab(|lab| {
        let victim = SIZE + 3;
        let outcome = strike(lab, &job("self", &victim.to_string()), victim);
        for rank in survivors(victim) {
            require(&outcome, rank, "result", if rank < SIZE { &[REVOKED] } else { &[PROC_FAILED] });
        }
        ended(&outcome, survivors(victim));
    });
}

/// Scope group counts the members on both sides: who waits for a living one of the other side is interrupted.
#[test]
fn scope_group_interrupts_both_sides() {
    in_lab(|lab| {
        for victim in [1, SIZE + 2] {
            let outcome = strike(lab, &job("group", &victim.to_string()), victim);
            for rank in survivors(victim) {
                require(&outcome, rank, "result", &[REVOKED]);
                require(&outcome, rank, "shrunk", &["7 0"]);
            }
            ended(&outcome, survivors(victim));
        }
    });
}

/// They come to the end of their program while one of those who spawned them has yet to look them up: the runtime has
/// forgotten their addresses, on its nodes alone, on prterun's, and on all.
#[test]
fn children_end_before_a_late_parent_looks_them_up() {
    in_lab(|lab| {
        let spread = ["--map-by", "node", "--bind-to", "none"];
        for (hosts, room, options) in
            [(&["h1", "h2", "h3", "h4"][..], 1, &[][..]), (&["h1", "h2"], 3, &spread), (&["h1", "h2"], 2, &spread)]
        {
            let (late, parents, children) = (1, [0, 1], [2, 3]);
            let job = job("brief", &late.to_string()).on(hosts, room).ranks(2).options(options);
            let mut job = job.start(lab);
            job.wait_for("finalized", &children);
            job.wait_for("late", &[late]);
            job.wait_until_gone("the spawned ranks", &children.map(|rank| job.pid(rank)), LIMIT);
            job.go();
            let outcome = job.finish();
            for rank in parents {
                require(&outcome, rank, "spawned", &["0"]);
                require(&outcome, rank, "agreed", &["0"]);
            }
            ended(&outcome, parents.into_iter().chain(children));
        }
    });
}

/// The first job has ended: those that it spawned are still watched, and mpirun waits for them.
#[test]
fn children_outlive_their_parents() {
    in_lab(|lab| {
        let victim = SIZE + 2;
        let mut job = job("outlive", &victim.to_string()).start(lab);
        job.wait("everybody is ready", LIMIT, |diaries| everybody().iter().all(|rank| diaries.has(*rank, "ready")));
        let parents: Vec<i32> = (0..SIZE).map(|rank| job.pid(rank)).collect();
        job.wait_until_gone("the ranks of the first job", &parents, LIMIT);
        let _ = job.signal_rank(victim, libc::SIGKILL);
        let outcome = job.finish();
        for rank in (SIZE..2 * SIZE).filter(|rank| *rank != victim) {
            require(&outcome, rank, "result", &[PROC_FAILED]);
            require(&outcome, rank, "shrunk", &["3 0"]);
            require(&outcome, rank, "sum", &["0 3"]);
        }
        ended(&outcome, survivors(victim));
    });
}

/// What spawning is for in a fault-tolerant job: somebody comes in the place of the dead.
#[test]
fn the_dead_are_replaced() {
    in_lab(|lab| {
        for victim in [1, 2] {
            let mut job = job("respawn", &victim.to_string()).start(lab);
            job.wait_for("ready", &[0, 1, 2, 3]);
            let _ = job.signal_rank(victim, libc::SIGKILL);
            let outcome = job.finish();
            let members = || (0..=SIZE).filter(|rank| *rank != victim);
            for rank in members() {
                require(&outcome, rank, "replaced", &["0 4 4"]);
            }
            ended(&outcome, members());
        }
    });
}

#[test]
fn survivors_that_only_free_the_intercommunicator_end_in_order() {
    in_lab(|lab| {
        for victim in [1, SIZE + 2] {
            let outcome = strike(lab, &job("free", &victim.to_string()), victim);
            ended(&outcome, survivors(victim));
        }
    });
}

/// A new `ringwatchd` knows the jobs that were spawned before it.
#[test]
fn a_spawned_rank_dies_after_its_watcher_was_replaced() {
    in_lab(|lab| {
        let victim = SIZE + 2;
        let mut job = job("recv", &victim.to_string()).start(lab);
        job.wait("everybody is ready", LIMIT, |diaries| everybody().iter().all(|rank| diaries.has(*rank, "ready")));
        for host in ["h1", "h4"] {
            job.replaces_watcher(host, libc::SIGKILL);
        }
        let _ = job.signal_rank(victim, libc::SIGKILL);
        let outcome = job.finish();
        for rank in survivors(victim) {
            require(&outcome, rank, "result", &[PROC_FAILED]);
        }
        ended(&outcome, survivors(victim));
    });
}

/// The same ones, and those that they spawn, on the host of `mpirun`.
fn on_one_host(job: Job) -> Job {
    job.on(&["h1"], 2 * SIZE).ranks(SIZE).options(&["--bind-to", "none", "--prtemca", "rmaps_default_inherit", "1"])
}

/// Those who spawned it wait for it in `MPI_Comm_spawn`, and the others of its job in `MPI_Init`.
#[test]
fn a_spawned_rank_that_never_comes_ends_the_job() {
    in_lab(|lab| {
        let on_others: fn(Job) -> Job = |job| job;
        let places = [on_others, on_one_host];
        let all = [("early", 0), ("early", 3), ("quits", 0), ("quits", 3), ("quits-alone", 0)];
        for ((case, rank), place) in all.into_iter().flat_map(|case| places.map(|place| (case, place))) {
            let outcome = place(job(case, &rank.to_string())).run(lab);
            outcome.require(outcome.status == 1, "mpirun's exit status is 1");
            let number = SIZE + rank;
            let start = format!("ringwatch: rank {number} on node ");
            let sentences = outcome.sentences();
            outcome.require(
                matches!(sentences[..], [one] if one.starts_with(&start)),
                &format!("one sentence about rank {number}, not {sentences:?}"),
            );
            outcome.without_the_output().left_nothing();
        }
    });
}

/// Nobody waits for it, and its end is no failure of a rank: not even to those with scope global.
#[test]
fn a_spawned_program_without_mpi_ends_as_it_likes() {
    in_lab(|lab| {
        let global = ["--mca", "coll_ringwatch_error_scope", "global"];
        for (status, of_all) in [("0", 0), ("3", 1)] {
            for job in [job("program", status), on_one_host(job("program", status))] {
                let outcome = job.options(&global).run(lab);
                require(&outcome, 0, "spawned", &["0 0"]);
                for rank in 0..SIZE {
                    require(&outcome, rank, "barrier", &["0"]);
                    require(&outcome, rank, "finalized", &["0"]);
                }
                outcome.require(outcome.status == of_all, &format!("mpirun's exit status is {of_all}"));
                outcome.require(outcome.sentences().is_empty(), "nothing is said").left_nothing();
            }
        }
    });
}

/// It is begun as soon as there is MPI, and never comes to MPI itself: that is no reason to take a later death for one
/// during `MPI_Init`.
#[test]
fn a_rank_dies_after_a_program_without_mpi_was_spawned() {
    in_lab(|lab| {
        for job in [job("helper", "1"), on_one_host(job("helper", "1"))] {
            let mut job = job.start(lab);
            job.wait_for("ready", &[0, 1, 2, 3]);
            let _ = job.signal_rank(1, libc::SIGKILL);
            let outcome = job.finish();
            for rank in [0, 2, 3] {
                require(&outcome, rank, "result", &[PROC_FAILED]);
            }
            ended(&outcome, [0, 2, 3].into_iter());
        }
    });
}

/// The job ends with a status and one sentence that says why.
fn gives_up(outcome: &Outcome) {
    outcome.require(outcome.status == 1, "mpirun's exit status is 1");
    outcome.require(outcome.sentences().len() == 1, &format!("one sentence, not {:?}", outcome.sentences()));
    outcome.without_the_output().left_nothing();
}

/// One of those who spawn dies, and all the others are in `MPI_Comm_spawn` and `MPI_Init`: they do not wait for ever.
#[test]
fn a_death_while_others_spawn_ends_the_job() {
    in_lab(|lab| {
        for victim in [1, 2] {
            let mut job = job("absent", &victim.to_string()).start(lab);
            job.wait_for("ready", &[0, 1, 2, 3]);
            job.wait("the spawned ranks run", LIMIT, |_| {
                let count =
                    |host| process::on_hosts().iter().filter(|one| one.host == host && one.name == "spawner").count();
                count("h3") + count("h4") == 4
            });
            let _ = job.signal_rank(victim, libc::SIGKILL);
            let outcome = job.finish();
            gives_up(&outcome);
        }
    });
}

/// The one that is spawned waits on the node of the dead, and of one who has left `MPI_Comm_spawn` with an error: PMIx
/// would have it wait for everybody of that node.
#[test]
fn nobody_waits_for_a_neighbour_who_will_not_come() {
    in_lab(|lab| {
        for (hosts, room) in [(&["h1", "h2"][..], 2), (&["h1"][..], 4)] {
            let victim = 2;
            let job = job("copy", &victim.to_string()).on(hosts, room).ranks(3).options(&["--bind-to", "none"]);
            let mut job = job.start(lab);
            job.wait_for("ready", &[0, 1, 2]);
            job.go();
            job.wait("the spawned rank runs", LIMIT, |_| {
                process::on_hosts().iter().filter(|one| one.name == "spawner").count() == 4
            });
            let _ = job.signal_rank(victim, libc::SIGKILL);
            let outcome = job.finish();
            gives_up(&outcome);
        }
    });
}

/// Those who are spawned wait for the word of the one who has launched them, and who is dead before it can give it.
#[test]
fn the_root_dies_while_it_launches() {
    in_lab(|lab| {
        let mut job = job("copy", "-1").on(&["h1", "h2"], 2).ranks(3).options(&["--bind-to", "none"]).start(lab);
        job.wait_for("ready", &[0, 1, 2]);
        // The launch is not complete before it goes on.
        let (root, runtime) = (job.pid(0), job.runtime("h2"));
        process::signal(runtime, libc::SIGSTOP);
        job.go();
        let begun = wait_until(LIMIT, || job.log("h1").contains("spawned job"));
        process::signal(root, libc::SIGKILL);
        job.wait_until_gone("the root", &[root], LIMIT);
        process::signal(runtime, libc::SIGCONT);
        let outcome = job.finish();
        outcome.require(begun, "the launch has begun");
        gives_up(&outcome);
    });
}

/// A node with spawned ranks dies.
#[test]
fn a_node_with_children_dies() {
    in_lab(|lab| {
        let mut job = job("recv", &(SIZE + 2).to_string()).start(lab);
        job.wait("everybody is ready", LIMIT, |diaries| everybody().iter().all(|rank| diaries.has(*rank, "ready")));
        job.kill_host("h4");
        let outcome = job.finish();
        for rank in 0..SIZE + 2 {
            require(&outcome, rank, "result", &[PROC_FAILED]);
            require(&outcome, rank, "shrunk", &["6 0"]);
        }
        ended(&outcome, 0..SIZE + 2);
    });
}

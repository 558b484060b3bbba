//! A rank is killed, crashes, or exits without `MPI_Finalize`: the survivors are told, repair and finish.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use system_tests::diary::Diaries;
use system_tests::lab::run;
use system_tests::{Job, Lab, Outcome, SLACK, in_lab, process};

/// Ranks of hosts in the middle and of prterun's own.
const VICTIM: u32 = 5;

const LIMIT: std::time::Duration = std::time::Duration::from_secs(40);

/// The victims die by themselves, all at the same moment.
fn dies(lab: &Lab, operation: &str, how: &str, victims: &[u32]) {
    let mut job = Job::new().blocked_in(operation, victims).arguments(&["--die", how]).start(lab);
    job.wait_until_blocked();
    let at = job.go();
    job.finish().recovered(victims).told_within(victims, at, std::time::Duration::ZERO);
}

/// The harness kills a rank.
fn is_killed(lab: &Lab, job: Job, operation: &str, victim: u32) {
    let mut job = job.blocked_in(operation, &[victim]).start(lab);
    job.wait_until_blocked();
    let at = job.signal_rank(victim, libc::SIGKILL);
    job.finish().recovered(&[victim]).told_within(&[victim], at, std::time::Duration::ZERO);
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn killed_while_others_receive_from_it() {
    in_lab(|lab| is_killed(lab, Job::new(), "recv", VICTIM));
}

#[test]
fn killed_while_others_send_to_it() {
    in_lab(|lab| is_killed(lab, Job::new(), "send", VICTIM));
}

#[test]
fn killed_while_others_receive_from_anybody() {
    in_lab(|lab| is_killed(lab, Job::new(), "any", VICTIM));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn killed_while_others_wait_for_a_request_from_anybody() {
    in_lab(|lab| is_killed(lab, Job::new(), "anywait", VICTIM));
}

#[test]
fn killed_in_allreduce() {
    in_lab(|lab| is_killed(lab, Job::new(), "allreduce", VICTIM));
}

#[test]
fn killed_in_barrier() {
    in_lab(|lab| is_killed(lab, Job::new(), "barrier", VICTIM));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn killed_in_bcast() {
    in_lab(|lab| is_killed(lab, Job::new(), "bcast", VICTIM));
}

/// Nobody takes what was in its memory before for the others' data, whether the root of an inner broadcast dies or
/// another.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn killed_in_allgatherv() {
    in_lab(|lab| [0, VICTIM].iter().for_each(|victim| dies(lab, "vector", "kill", &[*victim])));
}

#[test]
fn killed_in_sendrecv_with_its_neighbours() {
    in_lab(|lab| is_killed(lab, Job::new(), "ring", VICTIM));
}

#[test]
fn killed_while_every_rank_does_something_else() {
    in_lab(|lab| is_killed(lab, Job::new(), "mixed", VICTIM));
}

#[test]
fn killed_with_the_default_times() {
    in_lab(|lab| is_killed(lab, Job::new().with_default_times(), "mixed", VICTIM));
}

#[test]
fn killed_on_the_host_of_prterun() {
    in_lab(|lab| is_killed(lab, Job::new(), "mixed", 1));
}

#[test]
fn rank_0_is_killed() {
    in_lab(|lab| is_killed(lab, Job::new(), "mixed", 0));
}

#[test]
fn the_last_rank_is_killed() {
    in_lab(|lab| is_killed(lab, Job::new(), "allreduce", 7));
}

#[test]
fn killed_in_a_job_of_one_host() {
    in_lab(|lab| is_killed(lab, Job::new().on(&["h1"], 4).options(&["--bind-to", "none"]), "mixed", 2));
}

#[test]
fn crashes_with_a_segmentation_fault() {
    in_lab(|lab| dies(lab, "mixed", "segv", &[VICTIM]));
}

/// Until its core is written the process is there, and its connections are open.
#[test]
#[ignore = "takes long: a part of scripts/test --full"]
fn crashes_and_dumps_core() {
    if !writes_cores() {
        return;
    }
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("mixed", &[VICTIM]).arguments(&["--die", "dump"]).start(lab);
        job.wait_until_blocked();
        let (pid, folder, at) = (job.pid(VICTIM), job.folder().join("diaries"), job.go());
        job.wait_for("finalized", &job.others(&[VICTIM]));
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let outcome = job.finish();
        outcome.recovered(&[VICTIM]).told_within(&[VICTIM], at, std::time::Duration::ZERO);
        outcome.require(
            status.contains("\nCoreDumping:\t1\n"),
            "its core is still being written when the survivors are done",
        );
        has_whole_core(&outcome, &folder);
    });
}

/// Nobody is left, and the job does not end before the core is whole.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn the_last_one_crashes_and_dumps_core() {
    if !writes_cores() {
        return;
    }
    in_lab(|lab| {
        let mut job = Job::new().on(&["h1"], 1).blocked_in("allreduce", &[0]).arguments(&["--die", "dump"]).start(lab);
        job.wait_until_blocked();
        let folder = job.folder().join("diaries");
        let _ = job.go();
        let outcome = job.finish();
        outcome.gave_up(&["every rank", "dead"]);
        has_whole_core(&outcome, &folder);
    });
}

fn writes_cores() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let writes = !pattern.trim().is_empty() && !pattern.contains(['|', '@', '/']);
    if !writes {
        eprintln!("skipped: this system writes no cores, or somewhere else");
    }
    writes
}

/// Looks at the core, and takes it away.
fn has_whole_core(outcome: &Outcome, folder: &Path) {
    let core = core_in(folder);
    let lengths = core.as_deref().map(lengths_of_core);
    outcome.require(lengths.is_some_and(|[is, says]| is == says), &format!("the core is whole, not {lengths:?}"));
    let _ = core.map(fs::remove_file);
}

fn core_in(folder: &Path) -> Option<PathBuf> {
    let mut paths = fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    paths.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("core")))
}

/// How long a core is, and how long it would be by its table of segments: what is written of it is known from its
/// beginning on.
fn lengths_of_core(path: &Path) -> [u64; 2] {
    const HEADER: usize = 64;
    const SEGMENT: usize = 56;
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(1 << 20).read_to_end(&mut head));
    read.expect("a core can be read");
    let number =
        |at: usize| head.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight")));
    let segments = (number(HEADER - 8) & 0xffff) as usize;
    let ends = (0..segments).map(|segment| HEADER + segment * SEGMENT).map(|at| number(at + 8) + number(at + 32));
    [fs::metadata(path).map_or(0, |data| data.len()), ends.max().unwrap_or(u64::MAX)]
}

/// Open MPI holds it dead, because its connections are closed; its process would live on.
#[test]
fn closes_its_descriptors_and_lives_on() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("mixed", &[VICTIM]).arguments(&["--die", "hangup"]).start(lab);
        job.wait_until_blocked();
        let at = job.go();
        // It is given a second to end by itself.
        job.finish().recovered(&[VICTIM]).told_within(&[VICTIM], at, std::time::Duration::from_secs(1));
    });
}

/// Its other threads would live on.
#[test]
fn its_main_thread_leaves_with_a_status() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("mixed", &[VICTIM]).arguments(&["--die", "leave3"]).start(lab);
        job.wait_until_blocked();
        let (pid, at) = (job.pid(VICTIM), job.go());
        let outcome = job.finish();
        outcome.recovered(&[VICTIM]).told_within(&[VICTIM], at, std::time::Duration::ZERO);
        outcome.require(!process::lives(pid), "the rank has been killed");
    });
}

#[test]
fn calls_abort() {
    in_lab(|lab| dies(lab, "mixed", "abort", &[VICTIM]));
}

#[test]
fn exits_with_status_0() {
    in_lab(|lab| dies(lab, "mixed", "exit0", &[VICTIM]));
}

#[test]
fn exits_with_status_3() {
    in_lab(|lab| dies(lab, "mixed", "exit3", &[VICTIM]));
}

#[test]
fn exits_without_a_word() {
    in_lab(|lab| dies(lab, "allreduce", "quit0", &[VICTIM]));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn exits_with_status_3_on_the_host_of_prterun() {
    in_lab(|lab| dies(lab, "allreduce", "exit3", &[0]));
}

#[test]
fn two_of_one_host_at_once() {
    in_lab(|lab| dies(lab, "mixed", "kill", &[4, 5]));
}

#[test]
fn three_of_three_hosts_at_once() {
    in_lab(|lab| dies(lab, "allreduce", "kill", &[1, 2, 7]));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn all_but_two_at_once() {
    in_lab(|lab| dies(lab, "barrier", "kill", &[0, 2, 3, 5, 6, 7]));
}

/// Another rank dies at this point of the recovery.
fn dies_in_recovery(lab: &Lab, place: &str) {
    let second = format!("2:{place}");
    let mut job = Job::new().blocked_in("mixed", &[VICTIM]).arguments(&["--second", &second]).start(lab);
    job.wait_until_blocked();
    let at = job.signal_rank(VICTIM, libc::SIGKILL);
    let outcome = job.finish();
    outcome.finished_without(&[2, VICTIM]).told_within(&[2, VICTIM], at, std::time::Duration::ZERO);
    outcome.require(outcome.diaries.has(2, "dies"), "the second victim comes to die");
}

#[test]
fn another_one_dies_before_it_revokes() {
    in_lab(|lab| dies_in_recovery(lab, "error"));
}

#[test]
fn another_one_dies_after_it_has_revoked() {
    in_lab(|lab| dies_in_recovery(lab, "revoked"));
}

#[test]
fn another_one_dies_inside_shrink() {
    in_lab(|lab| dies_in_recovery(lab, "shrink"));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn another_one_dies_after_shrink() {
    in_lab(|lab| dies_in_recovery(lab, "shrunk"));
}

#[test]
fn another_one_dies_inside_agree() {
    in_lab(|lab| dies_in_recovery(lab, "agree"));
}

#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn another_one_dies_after_the_recovery() {
    in_lab(|lab| dies_in_recovery(lab, "after"));
}

/// Six of eight die one after the other, each after the recovery from the one before.
#[test]
fn one_after_the_other() {
    in_lab(|lab| {
        let mut job = Job::new().arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let mut dead = Vec::new();
        for victim in [7, 0, 3, 4, 5, 6] {
            let _ = job.signal_rank(victim, libc::SIGKILL);
            dead.push(victim);
            let survivors = job.others(&dead);
            job.wait_until_repaired(&survivors);
        }
        job.end();
        job.finish().recovered(&dead);
    });
}

/// What the survivors return after `MPI_Finalize` is the program's word about the job, and no death.
#[test]
fn the_status_of_the_survivors_is_told() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("allreduce", &[VICTIM]).arguments(&["--status", "3"]).start(lab);
        job.wait_until_blocked();
        let _ = job.signal_rank(VICTIM, libc::SIGKILL);
        let outcome = job.finish();
        outcome.require(outcome.diaries.all("done").count() == 7, "every survivor comes to its end");
        outcome.require(outcome.status == 1, "mpirun's exit status is 1");
        outcome.require(outcome.sentences().is_empty(), "ringwatch has nothing to say about it");
        outcome.left_nothing();
    });
}

/// What is printed right before `MPI_Finalize` arrives to the last byte. (The runtime forwards pieces, not lines.)
#[test]
fn long_output_of_the_survivors_arrives() {
    in_lab(|lab| {
        let mut job = Job::new().blocked_in("allreduce", &[VICTIM]).arguments(&["--lines", "3000"]).start(lab);
        job.wait_until_blocked();
        let _ = job.signal_rank(VICTIM, libc::SIGKILL);
        let outcome = job.finish();
        outcome.without_the_output().recovered(&[VICTIM]);
        let mut expected = String::new();
        for rank in outcome.survivors(&[VICTIM]) {
            expected.extend((0..3000).map(|line| format!("line {line} of survivor {rank}\n")));
            expected += &format!("survivor {rank} is done, 7 are left\nsurvivor {rank} has finalized\n");
        }
        let sorted = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            bytes.sort_unstable();
            bytes
        };
        let missing = expected.len().abs_diff(outcome.stdout.len());
        outcome.require(missing == 0, &format!("{missing} of {} bytes are missing", expected.len()));
        outcome.require(sorted(&expected) == sorted(&outcome.stdout), "the output is that of the ranks");
    });
}

/// Where the user keeps the component out of the ranks the runtime's event tells them. What the component mends is not:
/// SIGPIPE is the test's to ignore, and whether they recover is up to Open MPI.
#[test]
fn told_without_the_component_in_the_ranks() {
    in_lab(|lab| {
        let without = ["--mca", "hook", "^ringwatch", "env", "--ignore-signal=PIPE"];
        let mut job = Job::new().options(&without).blocked_in("recv", &[VICTIM]).start(lab);
        job.wait_until_blocked();
        let _ = job.signal_rank(VICTIM, libc::SIGKILL);
        job.wait_for("error", &job.others(&[VICTIM]));
    });
}

/// The same where mpirun cannot see that it is missing.
#[test]
#[ignore = "differs little from the others: a part of scripts/test --full"]
fn told_without_the_component_that_mpirun_expects_in_the_ranks() {
    in_lab(|lab| {
        let file = lab.folder().join("mca-params.conf");
        std::fs::write(&file, "hook = ^ringwatch\n").expect("a new folder can be written");
        let file = file.display().to_string();
        let ways = [("OMPI_MCA_mca_base_component_path", "/nonexistent"), ("OMPI_MCA_mca_base_param_files", &file)];
        for (name, value) in ways {
            let job = Job::new().environment(name, value).options(&["env", "--ignore-signal=PIPE"]);
            let mut job = job.blocked_in("recv", &[VICTIM]).start(lab);
            job.wait_until_blocked();
            // Longer than a job goes on in which somebody has died in MPI_Init.
            let at = job.signal_rank(VICTIM, libc::SIGKILL);
            job.wait_for("error", &job.others(&[VICTIM]));
            std::thread::sleep((at + SLACK * 3).saturating_sub(system_tests::clock::now()));
            if job.stderr().contains("the job is ended") {
                job.fail("nobody ends the job");
            }
        }
    });
}

/// The program that README shows, run as README says.
#[test]
fn the_program_of_the_readme_recovers() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/recover.c");
    let text = fs::read_to_string(source).expect("the example is there");
    assert!(include_str!("../../../README.md").contains(&text), "README shows examples/recover.c");
    in_lab(|lab| {
        let program = lab.folder().join("recover").display().to_string();
        run("mpicc", &["-Wall", "-Werror", "-o", &program, source]);
        let job = Job::new().on(&["h1", "h2", "h3", "h4"], 1).program(&[&program]);
        let mut job = job.options(&["--mca", "coll_ringwatch_error_uniform", "coll"]).start(lab);
        let output = job.folder().join("stdout");
        let says = |what: &'static str| {
            let output = output.clone();
            move |_: &Diaries| fs::read_to_string(&output).unwrap_or_default().matches(what).count() >= 3
        };
        job.wait("all print that they are four", LIMIT, says("4 ranks"));
        let victim = job.named("h3", "recover");
        process::signal(victim[0].pid, libc::SIGKILL);
        job.wait("all print that they are three", LIMIT, says("3 ranks"));
        let outcome = job.finish();
        outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
    });
}

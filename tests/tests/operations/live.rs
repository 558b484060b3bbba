//! What somebody sees who watches a job: the terminal, metrics, events as they come, and the program for losses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use system_tests::clock::wait_until;
use system_tests::terminal::Terminal;
use system_tests::{Job, in_lab};

/// How long it may take until a death is shown.
const SHOWN: Duration = Duration::from_secs(1);

/// Ends a program that never ends by itself.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_rank_is_shown_within_a_second_wherever_somebody_watches() {
    in_lab(|lab| {
        let folder = lab.folder();
        let at = |name: &str| folder.join(name).display().to_string();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let script = format!("#!/bin/sh\nenv | grep ^RINGWATCH_ >{0}.new; mv {0}.new {0}\n", at("facts"));
        fs::write(folder.join("program"), script).expect("the folder can be written");
        fs::set_permissions(folder.join("program"), PermissionsExt::from_mode(0o755)).expect("it is ours");
        let mut job = Job::new().arguments(&["--op", "allreduce", "--hold"]).parameter("loss_program", &at("program"));
        job = job.parameter("events", &at("%s.%p.jsonl"));
        let mut job = job.environment("SLURM_JOB_ID", "4242").start(lab);
        job.wait_until_blocked();
        let top = Terminal::start(&["rw-on", "h1", "ringwatch", "top"]);
        let start = |words: &[&str], output: &str| {
            let output = fs::File::create(folder.join(output)).expect("the folder can be written");
            let mut command = Command::new("rw-on");
            command.args(["h1", "ringwatch"]).args(words).stdin(Stdio::null()).stdout(output);
            Ended(command.spawn().expect("rw-on can be started"))
        };
        let metrics = start(&["metrics", "--textfile", &at("ringwatch.prom")], "metrics");
        let mut follower = start(&["events", "--follow", "--job", "4242"], "followed");
        let alive = |text: &str| text.contains("8 ranks, 0 dead; 4 nodes, 0 dead");
        let dead = |text: &str| text.contains("rank 5 of node 2 (h3) is dead (killed by signal 9)");
        let is_counted = |text: &str, count: &str| {
            text.lines().any(|line| {
                line.contains("_deaths_total{") && line.ends_with(&format!("reason=\"signal:9\"}} {count}"))
            })
        };
        let all_watch = wait_until(Duration::from_secs(10), || {
            alive(&top.text()) && is_counted(&read("ringwatch.prom"), "0") && read("followed").contains("in the ring")
        });
        assert!(all_watch, "{}\n{}\n{}", top.text(), read("ringwatch.prom"), read("followed"));
        assert!(top.text().contains("Slurm's job 4242"), "{}", top.text());
        let began = Instant::now();
        let _ = job.signal_rank(5, libc::SIGKILL);
        let all_show = wait_until(SHOWN, || {
            dead(&top.text())
                && top.text().contains("8 ranks, 1 dead")
                && is_counted(&read("ringwatch.prom"), "1")
                && dead(&read("followed"))
        });
        let took = began.elapsed();
        assert!(all_show && took < SHOWN, "{took:?}\n{}\n{}\n{}", top.text(), read("ringwatch.prom"), read("followed"));
        // The program's start is not bounded by ringwatch.
        let ran = wait_until(Duration::from_secs(10), || read("facts").contains("RINGWATCH_TIME="));
        assert!(ran, "the program has not run: {}", job.stderr());
        for fact in ["LOSS=rank", "HOST=h3", "NODE=2", "RANKS=5", "REASON=signal:9", "RANKS_LEFT=7"] {
            assert!(read("facts").contains(&format!("RINGWATCH_{fact}\n")), "{fact} in {}", read("facts"));
        }
        assert!(top.leave(b"q").success());
        drop(metrics);
        job.wait_until_repaired(&[0, 1, 2, 3, 4, 6, 7]);
        let file = folder.join(format!("4242.{}.jsonl", job.launcher()));
        job.end();
        job.finish().recovered(&[5]);
        assert!(file.exists(), "{} is named after Slurm's job and mpirun", file.display());
        assert!(follower.0.wait().expect("it is a child").success());
        let followed = read("followed");
        assert!(followed.starts_with("job prterun-h1-") && followed.contains("(Slurm's job 4242), 20"), "{followed}");
        let last = followed.lines().last().unwrap_or_default();
        assert!(last.starts_with("rank 5 of node 2 (h3) died: noticed by node 2 (h3)"), "{followed}");
    });
}

//! `ringwatch events` on the node of mpirun: what died, when, who noticed, and how long each step took.

use std::time::Duration;

use serde_json::Value;
use system_tests::clock::wait_until;
use system_tests::lab::run;
use system_tests::{Job, in_lab};

fn events(arguments: &[&str]) -> Vec<Value> {
    let text = run("rw-on", &[&["h1", "ringwatch", "events", "--json"], arguments].concat());
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

/// When, on the clock that all virtual hosts share.
fn at(event: &Value) -> Duration {
    Duration::from_micros(event["at_us"].as_u64().expect("a time"))
}

#[test]
fn without_a_job_the_last_one_is_shown() {
    in_lab(|lab| {
        let mut job = Job::new().arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let _ = job.signal_rank(5, libc::SIGKILL);
        job.wait_until_repaired(&[0, 1, 2, 3, 4, 6, 7]);
        job.end();
        job.finish().recovered(&[5]);
        let kept = events(&[]);
        assert_eq!(of_kind(&kept, "rank-dead").len(), 4, "{kept:#?}");
        assert_eq!(of_kind(&kept, "ended").len(), 1);
        let name = kept[0]["job"].as_str().expect("the name of the job");
        assert_eq!(events(&["--job", name]), kept);
        let text = run("rw-on", &["h1", "ringwatch", "events"]);
        assert!(
            text.lines().last().unwrap().starts_with("rank 5 of node 2 (h3) died: noticed by node 2 (h3)"),
            "{text}"
        );
    });
}

#[test]
fn every_step_of_a_death_is_there_while_the_job_runs_and_in_the_file() {
    in_lab(|lab| {
        let file = lab.folder().join("%j.jsonl");
        let job =
            Job::new().arguments(&["--op", "allreduce", "--hold"]).parameter("events", &file.display().to_string());
        let mut job = job.start(lab);
        job.wait_until_blocked();
        let killed = job.signal_rank(5, libc::SIGKILL);
        job.wait_until_repaired(&[0, 1, 2, 3, 4, 6, 7]);
        let mut found = Vec::new();
        let complete = wait_until(Duration::from_secs(5), || {
            found = events(&[]);
            of_kind(&found, "raised").len() == 7 && of_kind(&found, "error").len() == 7
        });
        if !complete {
            job.fail(&format!("seven ranks have raised the death: {found:#?}"));
        }
        let observed = of_kind(&found, "observed")[0];
        assert_eq!((observed["node"].as_u64(), observed["rank"].as_u64()), (Some(2), Some(5)));
        assert_eq!((observed["host"].as_str(), observed["reason"].as_str()), (Some("h3"), Some("signal:9")));
        let known = of_kind(&found, "rank-dead");
        assert_eq!(known.len(), 4, "{known:?}");
        // The host of the node on which it happened stands beside that.
        assert!(known.iter().all(|event| event["by"] == 2 && event["hosts"]["2"] == "h3"));
        // What MPI raised, the ranks wrote down themselves, on the same clock.
        for raised in of_kind(&found, "raised") {
            let rank = u32::try_from(raised["rank"].as_u64().unwrap()).unwrap();
            assert_eq!(raised["dead"], serde_json::json!([5]));
            let error = job.diaries().first(rank, "error").map(|entry| entry.at).expect("it has noted its error");
            let axis = Duration::from_millis(100);
            let fits = at(raised) >= killed && at(raised) <= error + axis;
            assert!(fits, "rank {rank} raised it at {:?}, after {killed:?} and before {error:?}", at(raised));
        }
        for raised in of_kind(&found, "error") {
            assert!(
                ["MPI_ERR_PROC_FAILED", "MPI_ERR_REVOKED"].contains(&raised["class"].as_str().unwrap()),
                "{raised}"
            );
            assert_eq!(raised["function"], "MPI_Allreduce");
        }
        let text = run("rw-on", &["h1", "ringwatch", "events"]);
        let sentence = text.lines().last().unwrap();
        let noticed = "rank 5 of node 2 (h3) died: noticed by node 2 (h3)";
        for part in [noticed, "known to 4 nodes", "known to MPI in 7 ranks", "MPI_ERR_PROC_FAILED in"] {
            assert!(sentence.contains(part), "'{part}' is in\n{text}");
        }
        job.end();
        job.finish().recovered(&[5]);
        let folder = file.parent().unwrap();
        let written = std::fs::read_dir(folder).unwrap().flatten().map(|file| file.path());
        let [path] = &written.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect::<Vec<_>>()[..]
        else {
            panic!("one file in {}", folder.display())
        };
        let kept = events(&[&path.display().to_string()]);
        assert!(found.iter().all(|event| kept.contains(event)));
        assert_eq!(of_kind(&kept, "ended").len(), 1);
    });
}

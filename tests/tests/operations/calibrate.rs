//! `ringwatch calibrate` measures on the hosts that mpirun finds, recommends, draws, and stores what the next job uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use system_tests::lab::run;
use system_tests::{Job, in_lab};

const HOSTS: &str = "h1,h2,h3,h4";

/// What mpirun needs to know about the virtual hosts.
fn on(hosts: &str) -> [&str; 6] {
    ["--", "--prtemca", "plm_ssh_agent", "/usr/local/bin/rw-ssh", "-H", hosts]
}

fn calibrate(arguments: &[&str]) -> Output {
    let words = [&["h1", "ringwatch", "calibrate"], arguments].concat();
    Command::new("rw-on").args(words).output().expect("rw-on can be started")
}

/// Its standard output, if it worked.
fn report(arguments: &[&str]) -> String {
    let output = calibrate(arguments);
    let (told, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {}: {told}{complaints}", output.status);
    told.into_owned()
}

/// The value that a report or a parameter file gives a parameter.
fn value<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix("= "));
    line.unwrap_or_else(|| panic!("{name} has a value in\n{text}"))
}

/// A time as ringwatch writes it.
fn micros(text: &str) -> u64 {
    let (digits, unit) = text.split_at(text.find(char::is_alphabetic).expect("a unit"));
    let factor = match unit {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "min" => 60_000_000,
        _ => panic!("the unit of {text}"),
    };
    digits.parse::<u64>().expect("a whole number") * factor
}

/// PMIx's parameter file of all users, put back as it was at the end.
struct ParameterFile {
    path: PathBuf,
    before: String,
}

impl ParameterFile {
    fn of_the_system() -> Self {
        let text = run("pmix_info", &["--path", "sysconfdir"]);
        let folder = text.trim().rsplit(' ').next().expect("pmix_info prints a folder");
        let path = Path::new(folder).join("pmix-mca-params.conf");
        Self { before: fs::read_to_string(&path).expect("the package brings it"), path }
    }
}

impl Drop for ParameterFile {
    fn drop(&mut self) {
        fs::write(&self.path, &self.before).expect("the file can be written");
    }
}

#[test]
fn what_calibrate_measures_is_stored_and_the_next_job_uses_it() {
    in_lab(|lab| {
        let file = ParameterFile::of_the_system();
        let folder = lab.folder();
        let picture = folder.join("calibration.svg");
        let out = picture.display().to_string();
        let arguments = ["--time", "6s", "--load", "2", "--rate", "60/h", "--out", &out, "--write"];
        let report = report(&[&arguments[..], &on(HOSTS)].concat());
        for phase in ["idle", "loaded"] {
            let row =
                report.lines().find(|line| line.starts_with(phase)).unwrap_or_else(|| panic!("{phase}: {report}"));
            let cells: Vec<_> = row.split_whitespace().collect();
            assert_eq!(cells[1], "4", "all nodes have told: {report}");
            let heard: u64 = cells[3].parse().expect("a number of heartbeats");
            // Four nodes, three seconds, 2 ms.
            assert!((3000..=6600).contains(&heard), "{heard} heartbeats: {report}");
            let missed: f64 = cells[cells.len() - 2].parse().expect("a share of missed timers");
            assert!(cells[cells.len() - 1] == "%" && (0.0..50.0).contains(&missed), "{report}");
        }
        assert!(fs::read_to_string(&picture).unwrap().contains("recommended timeout"));
        let stored = fs::read_to_string(&file.path).unwrap();
        assert!(stored.starts_with(&file.before), "what was there stays");
        let names = ["psensor_ringwatch_period", "psensor_ringwatch_timeout"];
        for name in names {
            assert_eq!(value(&stored, name), value(&report, name));
        }
        let mut job = Job::new().with_default_times().arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let status: Value = serde_json::from_str(&run("rw-on", &["h4", "ringwatch", "status", "--json"])).unwrap();
        for (name, field) in names.into_iter().zip(["period_us", "timeout_us"]) {
            assert_eq!(status[0][field].as_u64().unwrap(), micros(value(&report, name)), "{name}");
        }
        job.end();
        job.finish().finished_without(&[]);
    });
}

#[test]
fn calibrate_takes_what_own_jobs_have_measured() {
    in_lab(|lab| {
        let folder = lab.folder();
        let (history, out) = (folder.join("history.jsonl"), folder.join("picture.svg").display().to_string());
        let history = history.display().to_string();
        let job = Job::new().arguments(&["--op", "allreduce", "--hold"]).parameter("period", "2ms");
        let mut job = job.parameter("timeout", "2s").parameter("events", &history).start(lab);
        job.wait_until_blocked();
        let received = || {
            let text = run("rw-on", &["h2", "ringwatch", "status", "--json"]);
            let reports: Value = serde_json::from_str(&text).expect("the status is JSON");
            reports[0]["counters"]["heartbeats received"].as_u64().unwrap()
        };
        job.wait("every node hears 600 heartbeats", std::time::Duration::from_secs(30), |_| received() > 600);
        job.end();
        job.finish().finished_without(&[]);
        let report = report(&["--from", &history, "--out", &out, "--rate", "2/h"]);
        let row = report.lines().find(|line| line.starts_with("jobs")).expect("a row");
        assert_eq!(row.split_whitespace().nth(1), Some("4"), "{report}");
        assert!(report.contains("For 2/h false suspicions of a node"));
    });
}

#[test]
fn calibrate_says_in_one_sentence_what_cannot_be_carried_out() {
    in_lab(|lab| {
        let folder = lab.folder().display().to_string();
        let picture = format!("{folder}/picture.svg");
        let told = |arguments: &[&str], status: i32, part: &str| {
            let output = calibrate(arguments);
            let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(status), "{arguments:?}: {complaints}");
            // PRRTE ends its own complaint with a zero.
            let sentence = complaints.lines().last().unwrap_or_default().trim_start_matches('\0');
            assert!(sentence.starts_with("ringwatch: ") && sentence.contains(part), "{arguments:?}: {complaints}");
        };
        told(&["--rate", "often"], 2, "1/y");
        told(&["--time", "1s"], 2, "from 4s");
        told(&["--period", "1us"], 2, "from 1ms");
        told(&["--out", &format!("{folder}/nowhere/picture.svg")], 2, "the picture cannot be written");
        told(&["--out", &picture, "--write", "--file", &folder], 2, "the parameter file");
        told(&["--out", &picture, "--from", "/nowhere"], 1, "cannot be read");
        told(&[&["--out", &picture, "--time", "4s"][..], &on("h1")].concat(), 1, "name at least two");
        told(&["--out", &picture, "--time", "4s", "--", "--no-such-option"], 1, "mpirun could not run");
        assert!(!std::fs::exists(&picture).unwrap(), "nothing was measured");
        // Somebody who may not change the parameter file is told before anything is measured.
        let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "ringwatch", "calibrate"];
        let all_users = ["--out", "/tmp/picture-of-nobody.svg", "--write", "--file", "/etc/pmix-mca-params.conf"];
        let output = std::process::Command::new(nobody[0]).args(&nobody[1..]).args(all_users).output().unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaints}");
        assert!(complaints.contains("/etc/pmix-mca-params.conf cannot be changed"), "{complaints}");
    });
}

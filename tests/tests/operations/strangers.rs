//! Other users and other hosts are kept from what a job's runtime does for its user.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use system_tests::lab::{Lab, run};
use system_tests::programs::{compile, compile_for_pmix};
use system_tests::{Job, Running, in_lab, process};

/// Number of a user who is not the job's.
const STRANGER: &str = "65534";
/// Number of the job's user.
const OWNER: &str = "0";

/// What the intruder is told that a rank knows of its PMIx server.
fn known_by(job: &Running<'_>, rank: u32) -> BTreeMap<String, String> {
    process::environment(job.pid(rank))
}

#[test]
fn a_tool_of_another_user_or_host_is_turned_away() {
    in_lab(|lab| {
        let intruder = compile_for_pmix("intruder").display().to_string();
        let mut job = Job::new().arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        // One in prterun's care, which listens on the network, and one in that of a prted.
        for (rank, host, other) in [(0, "h1", "h2"), (5, "h3", "h1")] {
            let known = known_by(&job, rank);
            let (uri, nspace) = (&known["PMIX_SERVER_URI41"], &known["PMIX_NAMESPACE"]);
            let attack = |from: &str, user: &str, victim: &str| {
                run("rw-on", &[from, "timeout", "20", &intruder, uri, user, nspace, victim])
            };
            for (from, user, victim) in [(other, STRANGER, "1"), (other, OWNER, "1"), (host, STRANGER, "1")] {
                let told = attack(from, user, victim);
                if !told.starts_with("turned away") {
                    job.fail(&format!("a tool of user {user} on {from} is kept from PMIx on {host}: {told}"));
                }
            }
            let told = attack(host, OWNER, "-1");
            if told.trim() != "let in" {
                job.fail(&format!("a tool of the job's user on {host} itself is heard: {told}"));
            }
        }
        job.end();
        let outcome = job.finish();
        outcome.without_the_output().finished_without(&[]);
        outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
        let said = outcome.stderr.lines().filter(|line| line.contains("was turned away")).count();
        outcome.require(said == 1, &format!("mpirun says once that somebody was turned away, not {said} times"));
    });
}

/// Place of prterun's port of PRRTE's, and the name of its job of daemons, as everybody on the host of a prted can read
/// them there: `NSPACE.0;tcp://ADDRESS:PORT:...`.
fn port_of_prterun(job: &Running<'_>, host: &str) -> (String, String, String) {
    let line = fs::read(format!("/proc/{}/cmdline", job.runtime(host))).expect("the runtime daemon runs");
    let words = String::from_utf8_lossy(&line).into_owned();
    let found = words.split('\0').find_map(|word| {
        let (name, place) = word.trim_matches('"').split_once(";tcp://")?;
        let mut place = place.split(':').map(ToOwned::to_owned);
        Some((name.rsplit_once('.')?.0.to_owned(), place.next()?, place.next()?))
    });
    found.unwrap_or_else(|| job.fail(&format!("prted's command line names prterun's port: {words}")))
}

#[test]
fn who_calls_itself_a_runtime_daemon_takes_the_place_of_none() {
    in_lab(|lab| {
        let impostor = compile("impostor", "cc").display().to_string();
        let mut job = Job::new().arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let (nspace, address, port) = port_of_prterun(&job, "h2");
        let attack = |from: &str, user: &str, place: (&str, &str), daemon: &str, to: &str| {
            let told = run("rw-on", &[from, "timeout", "20", &impostor, place.0, place.1, user, &nspace, daemon, to]);
            if told.trim() != "turned away" {
                job.fail(&format!("user {user} on {from} is not taken for daemon {daemon} by daemon {to}: {told}"));
            }
        };
        for (from, user, daemon) in
            [("h4", STRANGER, "1"), ("h4", OWNER, "9"), ("h1", STRANGER, "2"), ("h1", OWNER, "3")]
        {
            attack(from, user, (&address, &port), daemon, "0");
        }
        let ports: Vec<u16> = process::open_tcp_ports(job.runtime("h3")).into_iter().collect();
        assert_eq!(ports.len(), 1, "prted hears other hosts at one port");
        for (from, user, daemon) in
            [("h4", STRANGER, "0"), ("h4", OWNER, "9"), ("h3", STRANGER, "0"), ("h3", OWNER, "1")]
        {
            attack(from, user, ("10.77.0.3", &ports[0].to_string()), daemon, "2");
        }
        job.end();
        let outcome = job.finish();
        outcome.without_the_output().finished_without(&[]);
        outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
        let said =
            outcome.stderr.lines().filter(|line| line.contains("PRRTE's port on h1 and was turned away")).count();
        outcome.require(said == 1, &format!("mpirun says once that somebody was turned away, not {said} times"));
    });
}

/// Where PRRTE has a daemon connect with another one than prterun, that is heard, and nobody else is.
#[test]
fn daemons_behind_others_are_heard_by_these() {
    in_lab(|lab| {
        let impostor = compile("impostor", "cc").display().to_string();
        let chain = ["--prtemca", "rml_base_radix", "1"];
        let mut job = Job::new().options(&chain).arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        let (nspace, ..) = port_of_prterun(&job, "h2");
        let ports = process::open_tcp_ports(job.runtime("h2"));
        let port = ports.first().expect("prted listens").to_string();
        // Only daemon 2 is behind daemon 1, and it is connected.
        for (from, user, daemon) in [("h2", STRANGER, "2"), ("h4", OWNER, "2"), ("h4", OWNER, "3")] {
            let told =
                run("rw-on", &[from, "timeout", "20", &impostor, "10.77.0.2", &port, user, &nspace, daemon, "1"]);
            if told.trim() != "turned away" {
                job.fail(&format!("user {user} on {from} is not taken for daemon {daemon}: {told}"));
            }
        }
        // The first daemon of the chain reaches the one behind it.
        job.end();
        job.finish().without_the_output().finished_without(&[]);
    });
}

#[test]
fn who_has_come_before_the_runtime_daemons_takes_the_place_of_none() {
    in_lab(|lab| {
        let impostor = compile("impostor", "cc").display().to_string();
        let folder = lab.folder();
        let (agent, now) = (folder.join("agent"), folder.join("now"));
        // Of those who have come before the daemon of h3, one is silent until the ranks are at work.
        let text = format!(
            r#"#!/bin/bash
[[ $* =~ ([^ .\"]*@[0-9]+)\.0\;tcp://([0-9.]+)[^:]*:([0-9]+) ]] || exit 1
attack() {{ rw-on "$1" {impostor} "${{BASH_REMATCH[2]}}" "${{BASH_REMATCH[3]}}" "$2" "${{BASH_REMATCH[1]}}" "$3" 0 "${{@:5}}" >"{folder}/$4"; }}
if [[ " $* " == *" h3 "* ]]; then
    attack h4 {STRANGER} 1 silent "{now}"
    attack h4 {STRANGER} 9 unknown
    attack h1 {STRANGER} 2 other-user
fi
exec rw-ssh "$@"
"#,
            folder = folder.display(),
            now = now.display(),
        );
        fs::write(&agent, text).expect("a new folder can be written");
        fs::set_permissions(&agent, Permissions::from_mode(0o755)).expect("the file is ours");
        let mut job = Job::new().agent(&agent).arguments(&["--op", "allreduce", "--hold"]).start(lab);
        job.wait_until_blocked();
        fs::write(&now, "").expect("a new folder can be written");
        let told = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        job.wait("the silent one has spoken", Duration::from_secs(20), |_| !told("silent").is_empty());
        for name in ["silent", "unknown", "other-user"] {
            if told(name).trim() != "turned away" {
                job.fail(&format!("who came early ({name}) is taken for nobody: {}", told(name)));
            }
        }
        job.end();
        let outcome = job.finish();
        outcome.without_the_output().finished_without(&[]);
        outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
    });
}

/// What may lie at the name of a file, and what ringwatch says of it.
const TRAPS: [(&str, &str); 3] =
    [("pipe", "no regular file"), ("link", "a symbolic link"), ("file", "belongs to user 65534")];

/// Has a stranger put something at the name of a log or a history.
fn set(trap: &str, path: &Path, victim: &Path) {
    let text = path.display().to_string();
    let command: Vec<&str> = match trap {
        "pipe" => vec!["mkfifo", "-m", "666", &text],
        "link" => vec!["ln", "-s", victim.to_str().expect("a plain name"), &text],
        _ => vec!["install", "-m", "666", "/dev/null", &text],
    };
    run("setpriv", &[&["--reuid", STRANGER, "--regid", STRANGER, "--clear-groups"], &command[..]].concat());
}

/// A folder in which everybody makes names, and in it a file of the job's user.
fn shared_folder(lab: &Lab) -> (PathBuf, PathBuf) {
    let folder = lab.folder();
    let victim = folder.join("victim");
    fs::write(&victim, "own\n").expect("a new folder can be written");
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("the folder is ours");
    (folder, victim)
}

#[test]
fn a_log_or_a_history_that_another_user_has_prepared_stops_the_launch() {
    in_lab(|lab| {
        let (folder, victim) = shared_folder(lab);
        for (trap, words) in TRAPS {
            let path = folder.join(trap);
            set(trap, &path, &victim);
            for name in ["log", "events"] {
                let job = Job::new().parameter(name, &path.display().to_string());
                job.run(lab).was_refused(&[&format!("psensor_ringwatch_{name}"), words]);
            }
        }
        assert_eq!(fs::read_to_string(&victim).expect("it is ours"), "own\n");
        assert_eq!(fs::read(folder.join("file")).expect("root reads everything"), b"");
    });
}

#[test]
fn a_log_that_another_user_has_prepared_on_another_node_is_not_written() {
    in_lab(|lab| {
        let (folder, victim) = shared_folder(lab);
        let log = |host: &str| folder.join(format!("{host}.log"));
        for ((trap, _), host) in TRAPS.into_iter().zip(["h2", "h3", "h4"]) {
            set(trap, &log(host), &victim);
        }
        let job = Job::new().blocked_in("allreduce", &[5]).parameter("log", &log("%h").display().to_string());
        let mut job = job.start(lab);
        job.wait_until_blocked();
        let _ = job.signal_rank(5, libc::SIGKILL);
        let outcome = job.finish();
        // The daemons of those nodes work, and none is left.
        outcome.recovered(&[5]);
        outcome.require(fs::metadata(log("h1")).is_ok_and(|file| file.len() > 0), "the log of h1 is written");
        assert_eq!(fs::read_to_string(&victim).expect("it is ours"), "own\n");
        assert_eq!(fs::read(log("h4")).expect("root reads everything"), b"");
    });
}

/// Another PMIx server, such as slurmstepd, which runs as root, does nothing with launch data that somebody sends it.
#[test]
fn launch_data_are_taken_in_runtime_daemons_only() {
    in_lab(|lab| {
        let (server, folder) = (compile_for_pmix("server"), lab.folder());
        let says = |name: &str| {
            let program = folder.join(name);
            fs::copy(&server, &program).expect("a new folder can be written");
            run("bash", &["-c", &format!("timeout 20 {} 2>&1", program.display())])
        };
        let (taken, left) = (says("prted"), says("slurmstepd"));
        assert!(taken.contains("this node goes on without ringwatch"), "prted takes launch data: {taken}");
        assert!(left.contains("set up: ") && !left.contains("ringwatch"), "slurmstepd takes none: {left}");
    });
}

#[test]
fn a_runtime_daemon_that_is_not_called_prted_takes_no_part() {
    in_lab(|lab| {
        let other = lab.folder().join("other");
        fs::copy("/usr/bin/prted", &other).expect("prted is installed");
        let agent = other.display().to_string();
        let job = Job::new().options(&["--prtemca", "prte_launch_agent", &agent]);
        let nodes = "node 1 (h2), node 2 (h3), node 3 (h4) have";
        job.run(lab).was_refused(&[nodes, "a runtime daemon that is not called prted"]);
    });
}

//! `ringwatch events`: one history per job, on the node of mpirun.

#[path = "../../rdma-heartbeat/tests/cluster/mod.rs"]
mod cluster;

use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use cluster::{Cluster, PERIOD, TIMEOUT, eventually, launch, send_signal};
use nix::sys::signal::Signal;
use node_abi::launch::ToDaemon;
use platform::clock;
use rdma_heartbeat::history::{Event, Record, VERSION, feed, micros, read};
use rdma_heartbeat::report::status::name_of;

fn ringwatch(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringwatch")).args(arguments).output().unwrap()
}

/// Somebody who follows a job, and the lines that it prints after the first.
fn follow(job: &str) -> (Child, impl Iterator<Item = String>) {
    let mut follower = Command::new(env!("CARGO_BIN_EXE_ringwatch"))
        .args(["events", "--follow", "--json", "--job", job])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    // It has called when its first line has come.
    assert!(lines.next().unwrap().contains("\"started\""));
    (follower, lines)
}

/// The history as one node has it.
fn history(cluster: &Cluster, node: u32) -> Vec<Record> {
    let name = name_of(feed::PREFIX, nix::unistd::getuid().as_raw(), &cluster.launch.nspace, node);
    // One that is being started does not listen yet.
    let answer = eventually("an answer", || feed::call(&name, false).ok());
    let text = std::io::read_to_string(answer).unwrap();
    let (records, strange) = read(&text);
    assert_eq!(strange, 0, "{text}");
    records
}

/// Waits until the history of node 0 has so many events of a kind.
fn wait_for(cluster: &Cluster, count: usize, kind: impl Fn(&Event) -> bool) -> Vec<Record> {
    eventually("the history is complete", || {
        let records = history(cluster, 0);
        (records.iter().filter(|record| kind(&record.event)).count() == count).then_some(records)
    })
}

fn find(records: &[Record], node: u32, kind: impl Fn(&Event) -> bool) -> &Record {
    records.iter().find(|record| record.node == node && kind(&record.event)).unwrap_or_else(|| panic!("{records:#?}"))
}

#[test]
fn the_death_of_a_rank_is_told_with_every_step_on_one_axis() {
    let mut cluster = Cluster::running(launch(&[1, 2, 1]));
    let before = clock::now();
    cluster.signal_rank(2, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[2]);
    // What the ranks do when they have told MPI.
    for node in &cluster.nodes {
        node.segment.note_raised(0, node.segment.len(), clock::now());
        node.segment.note_error(0, "MPI_ERR_PROC_FAILED: Process Failure", "MPI_Recv", clock::now());
    }
    let after = clock::now();
    let records = wait_for(&cluster, 3, |event| matches!(event, Event::Raised { dead, .. } if *dead == [2]));
    let error = |rank| Event::Error { rank, class: "MPI_ERR_PROC_FAILED".into(), function: "MPI_Recv".into() };
    wait_for(&cluster, 1, |event| *event == error(3));
    let observed =
        find(&records, 1, |event| matches!(event, Event::Observed { rank: 2, reason } if reason == "signal:9"));
    for node in 0..3 {
        let learned = |event: &Event| matches!(event, Event::RankDead { rank: 2, on: 1, by: 1, .. });
        find(&records, node, learned);
        find(&records, node, |event| matches!(event, Event::Started { incarnation: 0, .. }));
    }
    // All nodes have one clock here: it shows that the axis is right.
    for record in records.iter().filter(|record| record.at_us >= observed.at_us) {
        let late = 50_000;
        assert!(record.at_us >= micros(before) && record.at_us <= micros(after) + late, "{record:?}");
        assert_eq!(record.clock, 0);
    }
    // Other nodes have their own part.
    let part = history(&cluster, 2);
    assert!(part.iter().all(|record| (record.node, record.clock) == (2, 2)), "{part:#?}");
    find(&part, 2, |event| matches!(event, Event::Raised { rank: 3, .. }));
}

#[test]
fn the_death_of_a_node_is_told_from_the_suspicion_on() {
    let mut cluster = Cluster::running(launch(&[1, 1, 1, 1]));
    send_signal(&cluster.nodes[2].daemon, Signal::SIGSTOP);
    cluster.expect_node_dead(&[0, 1, 3], 2);
    send_signal(&cluster.nodes[2].daemon, Signal::SIGCONT);
    let records = wait_for(&cluster, 3, |event| matches!(event, Event::NodeDead { peer: 2, .. }));
    let suspected = find(&records, 3, |event| matches!(event, Event::Suspected { peer: 2, .. }));
    let Event::Suspected { silent_us: Some(silent), .. } = suspected.event else { panic!("{suspected:?}") };
    let timeout = u64::try_from(TIMEOUT.as_micros()).unwrap();
    assert!(silent >= timeout, "it was silent for a timeout, not for {silent} us");
    let asked = find(&records, 0, |event| *event == Event::Asked { peer: 2 });
    let declared = find(
        &records,
        0,
        |event| matches!(event, Event::NodeDead { reason, by: 0, suspector: Some(3), ranks, .. } if reason == "silent" && *ranks == [2]),
    );
    assert!(asked.at_us < declared.at_us && suspected.at_us < declared.at_us);
    let spared = records.iter().filter(|record| matches!(record.event, Event::Spared { .. })).count();
    assert_eq!(spared, 0);
}

#[test]
fn whoever_loses_its_runtime_daemon_says_so_and_whom_it_killed() {
    let mut cluster = Cluster::running(launch(&[1, 2, 1]));
    let pid = cluster.nodes[1].runtime.id() as i32;
    send_signal(&cluster.nodes[1].runtime, Signal::SIGKILL);
    cluster.expect_node_dead(&[0, 2], 1);
    let records = wait_for(&cluster, 2, |event| matches!(event, Event::Fenced { .. }));
    find(&records, 1, |event| *event == Event::RuntimeLost { pid, reason: "ended".into() });
    for rank in [1, 2] {
        find(&records, 1, |event| *event == Event::Fenced { rank });
    }
}

#[test]
fn a_restarted_daemon_of_node_0_gets_the_parts_of_the_others_again() {
    let mut cluster = Cluster::running(launch(&[1, 1, 2]));
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1, 2], &[1]);
    wait_for(&cluster, 3, |event| matches!(event, Event::RankDead { rank: 1, .. }));
    let job = cluster.launch.nspace.clone();
    let (mut follower, mut followed) = follow(&job);
    cluster.nodes[0].kill_daemon();
    cluster.nodes[0].restart_daemon();
    // Nobody else has died, and nothing else has happened that they would have to tell.
    let records = wait_for(&cluster, 2, |event| matches!(event, Event::RankDead { rank: 1, .. }));
    find(&records, 0, |event| matches!(event, Event::Started { incarnation: 1, .. }));
    for node in [1, 2] {
        find(&records, node, |event| matches!(event, Event::RankDead { rank: 1, .. }));
    }
    // Whoever follows hears both daemons, and of no death twice.
    let mut rest = Vec::new();
    while !rest.last().is_some_and(|line: &String| line.contains("\"incarnation\":1")) {
        rest.push(followed.next().expect("it calls again"));
    }
    cluster.nodes[0].tell(&ToDaemon::Finished);
    for node in &mut cluster.nodes {
        assert!(node.daemon_exit().success());
    }
    rest.extend(followed);
    assert!(follower.wait().unwrap().success());
    let count = |words: &[&str]| rest.iter().filter(|line| words.iter().all(|word| line.contains(word))).count();
    assert_eq!(count(&["\"started\"", "\"incarnation\":1"]), 1, "{rest:#?}");
    assert_eq!(count(&["\"rank-dead\"", "\"node\":2"]), 1, "{rest:#?}");
    assert_eq!(count(&["\"ended\"", "\"node\":0"]), 1, "{rest:#?}");
}

#[test]
fn the_command_tells_people_and_programs_the_same_as_the_file() {
    let folder = std::env::temp_dir().join(format!("ringwatch-events-{}", std::process::id()));
    let mut launch = launch(&[1, 1]);
    launch.parameters.events = folder.join("%j.%n.jsonl").display().to_string();
    let mut cluster = Cluster::running(launch);
    let job = cluster.launch.nspace.clone();
    let (mut follower, followed) = follow(&job);
    cluster.signal_rank(1, Signal::SIGKILL);
    cluster.expect_ranks_dead(&[0, 1], &[1]);
    wait_for(&cluster, 2, |event| matches!(event, Event::RankDead { .. }));

    let text = String::from_utf8(ringwatch(&["events", "--job", &job]).stdout).unwrap();
    let sentence = text.lines().last().unwrap();
    assert!(
        sentence.starts_with("rank 1 of node 1 (")
            && sentence.contains(") died: noticed by node 1")
            && sentence.contains("known to 2 nodes"),
        "{text}"
    );
    let (asked, strange) = read(&String::from_utf8(ringwatch(&["events", "--json", "--job", &job]).stdout).unwrap());
    assert_eq!(strange, 0);

    cluster.nodes[0].tell(&ToDaemon::Finished);
    for node in &mut cluster.nodes {
        assert!(node.daemon_exit().success());
    }
    let path: PathBuf = folder.join(format!("{job}.0.jsonl"));
    let output = ringwatch(&["events", "--json", path.to_str().unwrap()]);
    let (written, strange) = read(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(strange, 0);
    assert!(asked.iter().all(|record| written.contains(record)), "{asked:#?} is in {written:#?}");
    find(&written, 0, |event| matches!(event, Event::Ended { .. }));
    // Whoever follows hears the end, too, and comes to its own.
    let rest: Vec<String> = followed.collect();
    assert!(follower.wait().unwrap().success());
    assert_eq!(rest.len() + 1, written.len());
    std::fs::remove_dir_all(&folder).unwrap();

    let nothing = ringwatch(&["events", "--job", &job]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8(nothing.stderr).unwrap().contains("no ringwatchd of job"));
    let missing = ringwatch(&["events", "/nowhere/at.all"]);
    assert!(String::from_utf8(missing.stderr).unwrap().contains("cannot be read"));
}

/// Anybody can take the name of a socket before the job does.
#[test]
fn who_takes_the_name_of_node_0_hides_no_other_node() {
    let launch = launch(&[1, 1]);
    let name = name_of(feed::PREFIX, nix::unistd::getuid().as_raw(), &launch.nspace, 0);
    let stranger = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    std::thread::spawn(move || stranger.incoming().for_each(drop));
    let mut cluster = Cluster::running(launch);
    let own = history(&cluster, 1);
    let output = ringwatch(&["events", "--json", "--job", &cluster.launch.nspace]);
    let (records, _) = read(&String::from_utf8(output.stdout).unwrap());
    assert!(own.iter().all(|record| records.contains(record)), "{own:#?} is in {records:#?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains(&format!("no answer from {name}")));
    // Whoever follows the other node hears that it comes to its end, too.
    let (mut follower, followed) = follow(&cluster.launch.nspace);
    cluster.nodes[0].tell(&ToDaemon::Finished);
    for node in &mut cluster.nodes {
        assert!(node.daemon_exit().success());
    }
    let rest: Vec<String> = followed.collect();
    assert!(follower.wait().unwrap().success());
    let last = rest.last().unwrap();
    assert!(last.contains("\"ended\"") && last.contains("\"node\":1"), "{rest:#?}");
}

#[test]
fn what_stands_in_a_file_acts_on_no_terminal() {
    let strange = "h1\x1b[2J\u{9b}31m\x07\r\nnode 7 (h7)  kills rank 0";
    let record = |event| Record {
        version: VERSION,
        time: strange.into(),
        at_us: 1,
        job: strange.into(),
        slurm_job: Some(strange.into()),
        host: strange.into(),
        hosts: [(1, strange.into())].into(),
        event,
        ..Record::default()
    };
    let error = Event::Error { rank: 1, class: strange.into(), function: strange.into() };
    let records = [
        record(Event::Observed { rank: 2, reason: strange.into() }),
        record(Event::RankDead { rank: 2, replica: None, on: 0, reason: strange.into(), by: 1 }),
        record(Event::Raised { rank: 1, dead: vec![2] }),
        record(error),
        record(Event::Ended { why: strange.into() }),
    ];
    let path = std::env::temp_dir().join(format!("ringwatch-strange-{}.jsonl", std::process::id()));
    let lines: Vec<_> = records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n").collect();
    std::fs::write(&path, lines.concat() + strange).unwrap();
    let file = path.to_str().unwrap();
    let text = |output: Output| String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let (people, programs) = (text(ringwatch(&["events", file])), text(ringwatch(&["events", "--json", file])));
    for text in [&people, &programs] {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("node 7")), "{text}");
    }
    assert!(people.contains("died: noticed by node 0"), "{people}");
    assert_eq!(read(&programs).0, records);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn nothing_is_recorded_while_nothing_happens() {
    let cluster = Cluster::running(launch(&[1, 1, 1]));
    let before = wait_for(&cluster, 3, |event| matches!(event, Event::Watching { .. }));
    let sent = cluster.nodes[2].report().counters;
    cluster.let_pass(&[0, 1, 2], TIMEOUT);
    assert_eq!(history(&cluster, 0), before);
    let now = cluster.nodes[2].report().counters;
    let grown = |name: &str| now[name] - sent[name];
    assert!(grown("heartbeats sent") >= u64::try_from(TIMEOUT.as_nanos() / PERIOD.as_nanos() / 2).unwrap());
    assert_eq!(grown("messages sent"), grown("heartbeats sent"));
}

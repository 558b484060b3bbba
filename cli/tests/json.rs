//! docs/json.md has the fields that are printed, no more and no fewer.

use std::collections::{BTreeMap, BTreeSet};

use node_abi::segment::replicas::ReplicaOf;
use rdma_heartbeat::history::{Event, Measure, Record, VERSION};
use rdma_heartbeat::report::status::{
    self, Dead, GroupRow, GroupView, Held, LocalRank, Replacement, Report, SenderLog,
};
use recommended_group::report::{Standing, Verdict};
use serde_json::Value;

fn documentation() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md")).unwrap()
}

/// The tables of a section: the words in code style of each row, cell by cell.
fn tables(section: &str) -> Vec<Vec<Vec<BTreeSet<String>>>> {
    let text = documentation();
    let (_, text) =
        text.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("there is a section {section}"));
    let text = text.split("\n## ").next().unwrap();
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect();
    let table = |block: &str| {
        let rows = block.lines().filter(|line| line.starts_with("| `"));
        rows.map(|line| line.trim_matches('|').split('|').map(words).collect()).collect::<Vec<Vec<_>>>()
    };
    text.split("\n\n").map(table).filter(|table| !table.is_empty()).collect()
}

/// Of each row the words of a cell.
fn column(table: &[Vec<BTreeSet<String>>], cell: usize) -> BTreeSet<String> {
    table.iter().flat_map(|row| row[cell].clone()).collect()
}

/// The table as a map from its first cell to the words in the second.
fn map(table: &[Vec<BTreeSet<String>>]) -> BTreeMap<String, BTreeSet<String>> {
    table.iter().map(|row| (row[0].first().unwrap().clone(), row[1].clone())).collect()
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

/// The event after this one, with all its fields: a new one must be added here, or this does not compile.
fn next(event: &Event) -> Option<Event> {
    let (word, replica) = (String::from("word"), ReplicaOf { of: 1, index: 1 });
    Some(match event {
        Event::Started { .. } => Event::Watching { emitter: Some(1), observer: Some(1) },
        Event::Watching { .. } => Event::Observed { rank: 1, reason: word },
        Event::Observed { .. } => Event::RuntimeLost { pid: 1, reason: word },
        Event::RuntimeLost { .. } => Event::ConnectionLost { peer: 1 },
        Event::ConnectionLost { .. } => Event::Suspected { peer: 1, silent_us: Some(1) },
        Event::Suspected { .. } => Event::Asked { peer: 1 },
        Event::Asked { .. } => Event::Spared { peer: 1 },
        Event::Spared { .. } => Event::RankDead { rank: 1, replica: Some(replica), on: 1, reason: word, by: 1 },
        Event::RankDead { .. } => Event::NodeDead {
            peer: 1,
            reason: word,
            by: 1,
            suspector: Some(1),
            ranks: vec![1],
            replicas: vec![replica],
        },
        Event::NodeDead { .. } => Event::Fenced { rank: 1 },
        Event::Fenced { .. } => Event::RuntimeFenced { pid: 1 },
        Event::RuntimeFenced { .. } => Event::Held,
        Event::Held => Event::Released,
        Event::Released => Event::Raised { rank: 1, dead: vec![1] },
        Event::Raised { .. } => Event::Error { rank: 1, class: word.clone(), function: word },
        Event::Error { .. } => Event::Replaced { rank: 1, spare: 1, pid: 1 },
        Event::Replaced { .. } => Event::Repeated { rank: 1, events: 1, us: 1 },
        Event::Repeated { .. } => Event::Grouped { group: 1, processes: 1 },
        Event::Grouped { .. } => Event::Evicted {
            group: 1,
            rank: 1,
            by: 1,
            counter: 1,
            verdict: Some(Verdict::Late),
            reply_us: Some(1),
            threshold_us: Some(1),
        },
        Event::Evicted { .. } => Event::Returned { group: 1, rank: 1, by: 1, counter: 1 },
        Event::Returned { .. } => Event::Replica { rank: 1, replica },
        Event::Replica { .. } => Event::Finding { rank: 1, replica, kind: word.clone(), sentence: word, count: 1 },
        Event::Finding { .. } => Event::Late { us: 1 },
        Event::Late { .. } => Event::Omitted { records: 1 },
        Event::Omitted { .. } => Event::Measured { what: Measure::Silence, counts: vec![(1, 1)] },
        Event::Measured { .. } => Event::Farewell { period_us: 1, heard: 1, lost: 1 },
        Event::Farewell { .. } => Event::Ended { why: word },
        Event::Ended { .. } => return None,
    })
}

#[test]
fn the_fields_of_every_event_are_documented() {
    let [common, of_events] = &tables(&format!("Events: version {VERSION}"))[..] else { panic!("two tables") };
    let (common, mut documented) = (column(common, 0), map(of_events));
    let first = Event::Started { pid: 1, incarnation: 1 };
    for event in std::iter::successors(Some(first), next) {
        let record = Record {
            version: VERSION,
            slurm_job: Some("1".into()),
            user: Some(1),
            hosts: [(1, "h".into())].into(),
            event,
            ..Record::default()
        };
        let printed: Value = serde_json::from_str(&cli::narrator::json(&record)).unwrap();
        let name = printed["event"].as_str().unwrap();
        let own = documented.remove(name).unwrap_or_else(|| panic!("{name} is documented"));
        assert_eq!(keys(&printed), common.union(&own).cloned().collect(), "{name}");
    }
    assert!(documented.is_empty(), "no longer printed: {documented:?}");
}

#[test]
fn the_fields_of_a_report_are_documented() {
    let [of_report, of_parts] = &tables(&format!("Status: version {}", status::VERSION))[..] else {
        panic!("two tables")
    };
    let row = GroupRow {
        rank: 0,
        standing: Standing::Member,
        in_round: true,
        counter: 0,
        streak: 0,
        threshold_us: 0,
        verdict: None,
        reply_us: None,
    };
    let report = Report {
        dead: vec![Dead::default()],
        ranks: vec![LocalRank { rank: 0, pid: 0, phase: String::new(), dead: false, replica: None }],
        loggers: vec![Held { rank: 0, determinants: 0, bytes: 0, last: 0, trimmed: 0 }],
        replacements: vec![Replacement { rank: 0, spare: 1, pid: 0, events: 0, left: 0 }],
        sender_logs: vec![SenderLog { rank: 0, pid: 0, bytes: 0, limit: 0 }],
        groups: vec![GroupView { rows: vec![row], ..GroupView::default() }],
        ..Report::default()
    };
    let printed = serde_json::to_value(&report).unwrap();
    assert_eq!(keys(&printed), column(of_report, 0));
    for (part, fields) in map(of_parts) {
        let list = if part == "rows" { &printed["groups"][0][&part] } else { &printed[&part] };
        assert_eq!(keys(&list[0]), fields, "{part}");
    }
    let lists = ["dead", "ranks", "loggers", "replacements", "sender_logs", "groups", "rows"];
    let lists: BTreeSet<_> = lists.map(String::from).into();
    assert_eq!(column(of_parts, 0), lists);
}

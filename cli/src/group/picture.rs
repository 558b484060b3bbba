//! The picture of a group over time: how many are members, and who was outside when.

use std::collections::BTreeMap;

use rdma_heartbeat::history::{Event, Record};
use simulator::figures::chart::{Chart, Look, Series, sheet};

/// What the history has of one group.
struct Group<'a> {
    name: u32,
    job: &'a str,
    processes: u32,
    began_us: u64,
    /// When, who, and whether the process came back.
    changes: Vec<(u64, u32, bool)>,
}

/// The picture as the text of an SVG file, two charts for each group; none if the history has no group.
pub fn svg(records: &[Record]) -> Option<String> {
    let groups = groups(records);
    let titles: Vec<[String; 2]> = groups.iter().map(titles).collect();
    let mut charts = Vec::new();
    for (group, [over_time, outside]) in groups.iter().zip(&titles) {
        let ended = records.iter().filter(|record| record.job == group.job).map(|record| record.at_us).max();
        let ended = seconds(group, ended.unwrap_or(group.began_us));
        charts.push(chart(group, over_time, "members", vec![members(group, ended)]));
        let series = absences(group, ended);
        if !series.is_empty() {
            charts.push(chart(group, outside, "rank", series));
        }
    }
    (!charts.is_empty()).then(|| sheet(&charts))
}

fn titles(group: &Group<'_>) -> [String; 2] {
    let Group { name, processes, .. } = group;
    [format!("Members of the group of rank {name}, of {processes}"), format!("Outside the group of rank {name}")]
}

fn chart<'a>(group: &Group<'a>, title: &'a str, y: &'a str, series: Vec<Series>) -> Chart<'a> {
    let subtitle = group.job;
    Chart { title, subtitle, warning: "", x: "seconds", y, log: false, is_linear: true, series }
}

fn groups(records: &[Record]) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<(&str, u32), Group<'_>> = BTreeMap::new();
    for Record { event, job, at_us, .. } in records {
        let began_us = *at_us;
        match *event {
            Event::Grouped { group: name, processes } => {
                let new = Group { name, job, processes, began_us, changes: Vec::new() };
                groups.entry((job, name)).or_insert(new);
            }
            Event::Evicted { group, rank, .. } | Event::Returned { group, rank, .. } => {
                let is_return = matches!(event, Event::Returned { .. });
                if let Some(group) = groups.get_mut(&(job.as_str(), group)) {
                    group.changes.push((*at_us, rank, is_return));
                }
            }
            _ => {}
        }
    }
    groups.into_values().collect()
}

fn seconds(group: &Group<'_>, at_us: u64) -> f64 {
    at_us.saturating_sub(group.began_us) as f64 / 1e6
}

fn series(label: &str, colour: usize, look: Look, points: Vec<(f64, f64)>) -> Series {
    Series { label: label.into(), colour, look, points, band: Vec::new() }
}

/// A line with steps.
fn members(group: &Group<'_>, ended: f64) -> Series {
    let mut outside = BTreeMap::new();
    let mut points = vec![(0.0, f64::from(group.processes))];
    for (at_us, rank, is_return) in &group.changes {
        outside.insert(*rank, !is_return);
        let (at, before) = (seconds(group, *at_us), points[points.len() - 1].1);
        let absent = outside.values().filter(|is_outside| **is_outside).count();
        points.extend([(at, before), (at, f64::from(group.processes) - absent as f64)]);
    }
    points.push((ended, points[points.len() - 1].1));
    series("members", 0, Look::Line, points)
}

/// A line for each time that a process was outside, and marks where it has left and come back.
fn absences(group: &Group<'_>, ended: f64) -> Vec<Series> {
    let mut since: BTreeMap<u32, f64> = BTreeMap::new();
    let (mut pieces, mut leaves, mut returns) = (Vec::new(), Vec::new(), Vec::new());
    for (at_us, rank, is_return) in &group.changes {
        let (at, height) = (seconds(group, *at_us), f64::from(*rank));
        if *is_return {
            returns.push((at, height));
            if let Some(began) = since.remove(rank) {
                pieces.extend([(began, height), (at, height)]);
            }
        } else {
            leaves.push((at, height));
            since.entry(*rank).or_insert(at);
        }
    }
    pieces.extend(since.iter().flat_map(|(rank, began)| [(*began, f64::from(*rank)), (ended, f64::from(*rank))]));
    let all = [
        series("outside", 5, Look::Pieces, pieces),
        series("leaves", 1, Look::Marks, leaves),
        series("comes back", 2, Look::Marks, returns),
    ];
    all.into_iter().filter(|series| !series.points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at_us: u64, event: Event) -> Record {
        Record { at_us, job: "job@1".into(), event, ..Record::default() }
    }

    fn evicted(rank: u32, counter: u32) -> Event {
        Event::Evicted { group: 4, rank, by: 4, counter, verdict: None, reply_us: None, threshold_us: None }
    }

    fn history() -> Vec<Record> {
        vec![
            record(1_000_000, Event::Grouped { group: 4, processes: 8 }),
            record(2_000_000, evicted(6, 1)),
            record(3_000_000, evicted(7, 1)),
            record(5_000_000, Event::Returned { group: 4, rank: 6, by: 4, counter: 2 }),
            record(9_000_000, Event::Ended { why: String::new() }),
        ]
    }

    #[test]
    fn the_members_are_counted_from_the_beginning_to_the_end() {
        let records = history();
        let group = &groups(&records)[0];
        let steps = [(0.0, 8.0), (1.0, 8.0), (1.0, 7.0), (2.0, 7.0), (2.0, 6.0), (4.0, 6.0), (4.0, 7.0), (8.0, 7.0)];
        assert_eq!(members(group, 8.0).points, steps);
        let absences = absences(group, 8.0);
        assert_eq!(absences[0].points, [(1.0, 6.0), (4.0, 6.0), (2.0, 7.0), (8.0, 7.0)]);
        assert_eq!((absences[1].points.len(), absences[2].points.len()), (2, 1));
    }

    #[test]
    fn a_history_without_a_group_is_no_picture_and_one_in_which_nobody_left_is_one() {
        let records = history();
        assert_eq!(svg(&records[4..]), None);
        assert!(!svg(&records[..1]).unwrap().contains("Outside"));
        let text = svg(&records).unwrap();
        assert!(text.contains("Members of the group of rank 4, of 8") && text.contains("Outside the group of rank 4"));
    }
}

//! Reports in the text format of OpenMetrics, with names by Prometheus's conventions. No I/O.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use rdma_heartbeat::report::status::Report;

/// The type of the text, for HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of these reports at a moment, in seconds since 1970.
///
/// # Panics
/// Never: writing to memory cannot fail.
#[must_use]
pub fn text(reports: Vec<Report>, now: f64) -> String {
    let mut registry = Registry::with_prefix("ringwatch");
    registry.register_collector(Box::new(Families { reports, now }));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to memory cannot fail");
    text
}

#[derive(Debug)]
struct Families {
    reports: Vec<Report>,
    now: f64,
}

type Labels = Vec<(&'static str, String)>;

/// A family: its values with their labels.
struct Family<'a, 'b> {
    encoder: &'a mut DescriptorEncoder<'b>,
    reports: &'a [Report],
}

impl Family<'_, '_> {
    /// Writes a family of gauges; `values` gives those of one report.
    fn gauge(
        &mut self,
        (name, help, unit): (&str, &str, Option<Unit>),
        values: impl Fn(&Report) -> Vec<(Labels, f64)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        each(self.reports, &mut family, values, |value, one| ConstGauge::new(value).encode(one))
    }

    /// Writes a family of counters.
    fn counter(&mut self, (name, help): (&str, &str), values: impl Fn(&Report) -> Vec<(Labels, u64)>) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        each(self.reports, &mut family, values, |value, one| ConstCounter::new(value).encode(one))
    }
}

fn each<T>(
    reports: &[Report],
    family: &mut MetricEncoder<'_>,
    values: impl Fn(&Report) -> Vec<(Labels, T)>,
    write: impl Fn(T, MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    for report in reports {
        for (own, value) in values(report) {
            let labels: Vec<_> =
                common(report).into_iter().chain(own).map(|(key, text)| (key, escaped(&text))).collect();
            write(value, family.encode_family(&&labels[..])?)?;
        }
    }
    Ok(())
}

/// Which job this is, and which node says so.
fn common(report: &Report) -> Labels {
    let mut labels = vec![
        ("job_id", report.job.clone()),
        ("user", report.user.to_string()),
        ("node", report.node.to_string()),
        ("host", report.host.clone()),
    ];
    labels.extend(report.slurm_job.clone().map(|number| ("slurm_job", number)));
    labels
}

/// The library writes values as they are.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// One value without further labels.
fn plain<T>(value: T) -> Vec<(Labels, T)> {
    vec![(Vec::new(), value)]
}

/// The counters of a report under these names, with a label.
fn named(report: &Report, label: &'static str, names: &[(&str, &str)]) -> Vec<(Labels, u64)> {
    let value = |name: &str| report.counters.get(name).copied().unwrap_or(0);
    names.iter().map(|(name, text)| (vec![(label, (*text).to_owned())], value(name))).collect()
}

/// How many are dead, by kind and reason.
fn deaths(report: &Report) -> Vec<(Labels, u64)> {
    let mut counts: BTreeMap<(&str, &str), u64> = [(("node", "silent"), 0), (("rank", "signal:9"), 0)].into();
    for dead in &report.dead {
        *counts.entry((if dead.rank.is_some() { "rank" } else { "node" }, &dead.reason)).or_default() += 1;
    }
    let labels = |(kind, reason): (&str, &str)| vec![("kind", kind.to_owned()), ("reason", reason.to_owned())];
    counts.into_iter().map(|(key, count)| (labels(key), count)).collect()
}

/// How many live and are dead, of so many.
fn living(all: usize, dead: usize) -> Vec<(Labels, f64)> {
    let state = |name: &str, count: usize| (vec![("state", name.to_owned())], count as f64);
    vec![state("alive", all.saturating_sub(dead)), state("dead", dead)]
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self { reports, now } = self;
        let mut jobs = encoder.encode_descriptor("reports", "Daemons that have answered", None, MetricType::Gauge)?;
        jobs.encode_gauge(&reports.len())?;
        let mut families = Family { encoder: &mut encoder, reports };
        let second = || Some(Unit::Seconds);
        families.gauge(("daemon_info", "Release and transport of ringwatchd", None), |report| {
            let labels = vec![
                ("release", report.release.clone()),
                ("transport", report.transport.clone()),
                ("stage", report.stage.clone()),
            ];
            vec![(labels, 1.0)]
        })?;
        let dead_ranks = |report: &Report| report.dead.iter().filter(|dead| dead.rank.is_some()).count();
        families.gauge(("ranks", "Ranks of the job, as this node sees it", None), |report| {
            living(report.ranks_total, dead_ranks(report))
        })?;
        families.gauge(("nodes", "Nodes of the job, as this node sees it", None), |report| {
            living(report.universe as usize, report.dead.iter().filter(|dead| dead.rank.is_none()).count())
        })?;
        families.counter(("deaths", "Ranks and nodes that this node knows to be dead"), deaths)?;
        families.gauge(("death_timestamp", "When this node learned of a death", second()), |report| {
            let number = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
            let dead = report.dead.iter().map(|dead| {
                let labels = vec![
                    ("kind", if dead.rank.is_some() { "rank" } else { "node" }.to_owned()),
                    ("dead_rank", number(dead.rank)),
                    ("dead_node", number(dead.node)),
                    ("dead_host", dead.host.clone().unwrap_or_default()),
                    ("reason", dead.reason.clone()),
                ];
                // To the millisecond: the same death keeps its time.
                (labels, ((now - seconds(dead.age_us)) * 1e3).round() / 1e3)
            });
            dead.collect()
        })?;
        families.gauge(
            ("heartbeat_age", "Age of the last heartbeat of the node that this one watches", second()),
            |report| {
                let age = report.last_heartbeat_us.zip(report.emitter);
                age.map(|(age, from)| (vec![("from_node", from.to_string())], seconds(age))).into_iter().collect()
            },
        )?;
        families.gauge(("heartbeat_period", "Time between two heartbeats", second()), |report| {
            plain(seconds(report.period_us))
        })?;
        families.gauge(("suspicion_timeout", "Silence after which a node is suspected", second()), |report| {
            plain(seconds(report.timeout_us))
        })?;
        families.counter(("heartbeats", "Heartbeats as datagrams"), |report| {
            named(report, "direction", &[("heartbeats sent", "sent"), ("heartbeats received", "received")])
        })?;
        families.counter(("messages", "Datagrams, heartbeats included"), |report| {
            named(report, "direction", &[("messages sent", "sent"), ("messages received", "received")])
        })?;
        families.counter(("flags", "Heartbeats as RDMA writes"), |report| {
            named(report, "direction", &[("flags raised", "sent"), ("flags seen", "received")])
        })?;
        families.counter(("datagrams_refused", "Datagrams that were not of this job, or malformed"), |report| {
            report.rejected.iter().map(|(kind, count)| (vec![("kind", kind.clone())], *count)).collect()
        })?;
        families.counter(("daemon_restarts", "Earlier starts of ringwatchd for this job"), |report| {
            plain(u64::from(report.incarnation))
        })?;
        families.gauge(("replaced_ranks", "Ranks whose place a spare of this node has taken", None), |report| {
            plain(report.replacements.len() as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma_heartbeat::report::status::Dead;

    #[test]
    fn the_dead_are_counted_and_named() {
        let dead = Dead {
            node: Some(2),
            host: Some("h3".into()),
            rank: Some(5),
            replica: None,
            age_us: 2_500_000,
            reason: "signal:9".into(),
            ..Dead::default()
        };
        let report = Report {
            job: "a \"job\"\\\n".into(),
            user: 7,
            host: "h1".into(),
            ranks_total: 8,
            universe: 4,
            incarnation: 1,
            slurm_job: Some("42".into()),
            dead: vec![dead],
            last_heartbeat_us: Some(1500),
            emitter: Some(3),
            counters: [("heartbeats sent".to_owned(), 9)].into(),
            ..Report::default()
        };
        let text = text(vec![report], 1000.0);
        let labels = r#"job_id="a \"job\"\\\n",user="7",node="0",host="h1",slurm_job="42""#;
        for line in [
            "# TYPE ringwatch_deaths counter".to_owned(),
            format!(r#"ringwatch_deaths_total{{{labels},kind="rank",reason="signal:9"}} 1"#),
            format!(r#"ringwatch_ranks{{{labels},state="alive"}} 7.0"#),
            format!(r#"ringwatch_nodes{{{labels},state="dead"}} 0.0"#),
            format!(
                r#"ringwatch_death_timestamp_seconds{{{labels},kind="rank",dead_rank="5",dead_node="2",dead_host="h3",reason="signal:9"}} 997.5"#
            ),
            "# UNIT ringwatch_heartbeat_age_seconds seconds".into(),
            format!(r#"ringwatch_heartbeat_age_seconds{{{labels},from_node="3"}} 0.0015"#),
            format!(r#"ringwatch_heartbeats_total{{{labels},direction="sent"}} 9"#),
            format!("ringwatch_daemon_restarts_total{{{labels}}} 1"),
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn without_a_job_there_is_a_zero() {
        let text = text(Vec::new(), 0.0);
        assert!(text.contains("\nringwatch_reports 0\n") && !text.contains('{'), "{text}");
    }
}

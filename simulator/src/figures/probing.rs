//! Figures 6 and 7 and the closed forms of section 3.4.2: randomised probing as in SWIM.
//!
//! In a round every node probes one other node, chosen at random.

use crate::random::{Purpose, Stream};

use super::chart::{Chart, Look, Series, grouped};
use super::table::{Row, csv};
use super::{Drawing, Plan, Sample};

const SIZES: [u32; 9] = [1000, 2000, 5000, 10_000, 20_000, 40_000, 60_000, 80_000, 100_000];
const RISK: f64 = 1e-9;

/// How many rounds it takes until every node was probed.
pub fn rounds_until_all(nodes: u32, seed: u64) -> u32 {
    let mut round = Round::new(nodes, seed);
    let mut count = 0;
    while round.missed > 0 {
        round.play();
        count += 1;
    }
    count
}

/// How many nodes probe the same one in one round, at most.
pub fn longest_queue(nodes: u32, seed: u64) -> u32 {
    let mut round = Round::new(nodes, seed);
    round.play();
    round.probes.into_iter().max().unwrap_or(0)
}

struct Round {
    stream: Stream,
    /// How often each node was probed.
    probes: Vec<u32>,
    /// How many nodes never were.
    missed: u32,
}

impl Round {
    fn new(nodes: u32, seed: u64) -> Round {
        Round { stream: Stream::new(seed, Purpose::Probes), probes: vec![0; nodes as usize], missed: nodes }
    }

    /// Every node probes one of the others.
    fn play(&mut self) {
        let nodes = self.probes.len() as u32;
        for node in 0..nodes {
            let other = self.stream.below(u64::from(nodes) - 1) as u32;
            let target = &mut self.probes[(other + u32::from(other >= node)) as usize];
            self.missed -= u32::from(*target == 0);
            *target += 1;
        }
    }
}

/// The probability that a node is not probed in a round.
pub fn missed(nodes: u32) -> f64 {
    let nodes = f64::from(nodes);
    ((nodes - 1.0) / nodes).powf(nodes - 1.0)
}

/// How many rounds it takes until a node was probed but for [`RISK`].
pub fn rounds_for_certainty(nodes: u32) -> f64 {
    RISK.ln() / missed(nodes).ln()
}

/// Between which numbers the longest queue is with probability 1 - 1/n (Mitzenmacher and Upfal 2005, chapter 5).
pub fn queue_bounds(nodes: u32) -> (f64, f64) {
    let log = f64::from(nodes).ln();
    (log / log.ln(), 3.0 * log / log.ln())
}

fn samples(plan: &Plan, rounds: f64, run: impl Fn(u32, u64) -> u32 + Sync) -> Vec<(u32, Sample)> {
    let runs = |nodes: u32| plan.runs(f64::from(nodes) * rounds * 3e-9);
    let work = SIZES.map(|nodes| (nodes, runs(nodes)));
    let total = work.iter().map(|&(_, runs)| runs).sum();
    let bar = plan.progress("random probing", total);
    let done = work.map(|(nodes, runs)| {
        let results =
            plan.batch(runs, |number| f64::from(run(nodes, Stream::seed_of_run(u64::from(nodes), number))), &bar);
        (nodes, Sample::of(results))
    });
    bar.finish_and_clear();
    done.into()
}

fn table(samples: &[(u32, Sample)], what: &str) -> String {
    let titles = ["nodes", "runs", &format!("mean_{what}"), &format!("least_{what}"), &format!("most_{what}")];
    let rows = samples.iter().map(|(nodes, sample)| {
        vec![
            nodes.to_string(),
            sample.count.to_string(),
            format!("{:.4}", sample.mean),
            sample.least.to_string(),
            sample.most.to_string(),
        ]
    });
    csv(&titles, rows)
}

fn lines(samples: &[(u32, Sample)], mean: &str, most: &str) -> [Series; 2] {
    let points = |value: fn(&Sample) -> f64| samples.iter().map(|(nodes, s)| (f64::from(*nodes), value(s))).collect();
    [
        Series { label: mean.into(), colour: 0, look: Look::Dots, points: points(|s| s.mean), band: vec![] },
        Series { label: most.into(), colour: 1, look: Look::Dots, points: points(|s| s.most), band: vec![] },
    ]
}

fn at(samples: &[(u32, Sample)], nodes: u32) -> &Sample {
    &samples.iter().find(|(size, _)| *size == nodes).expect("a size that is simulated").1
}

fn published(label: &str, points: &[(f64, f64)]) -> Series {
    Series { label: label.into(), colour: 0, look: Look::Published, points: points.to_vec(), band: vec![] }
}

pub(super) fn draw_rounds(plan: &Plan) -> Drawing {
    let samples = samples(plan, 13.0, rounds_until_all);
    let mut series: Vec<_> = lines(&samples, "mean", "worst run").into();
    series.push(Series {
        label: "until one given node was probed but for 1e-9".into(),
        colour: 2,
        look: Look::Dashed,
        points: SIZES.iter().map(|&nodes| (f64::from(nodes), rounds_for_certainty(nodes))).collect(),
        band: vec![],
    });
    series.push(published(
        "paper: mean 11 and 13, worst 22, and 20.7 (3.4.2)",
        &[(20_000.0, 11.0), (100_000.0, 13.0), (100_000.0, 22.0), (100_000.0, 20.7)],
    ));
    let chart = Chart {
        title: "Figure 6: rounds of random probing until every node was probed",
        subtitle: "each node probes one other node per round",
        warning: &plan.warning(),
        x: "nodes",
        y: "rounds",
        log: false,
        is_linear: false,
        series,
    };
    let mean = |nodes| format!("{:.2}", at(&samples, nodes).mean);
    let expected = |nodes: u32| f64::from(nodes).ln() + 1.08;
    let is_expected = |nodes: u32| (at(&samples, nodes).mean - expected(nodes)).abs() < 0.1;
    let few = "the mean of so few runs is a matter of chance";
    let why = |nodes, agreed| if is_expected(nodes) { agreed } else { few };
    let row = |what: &str, paper: &str, ours: String, why: &str| Row {
        what: what.into(),
        paper: paper.into(),
        ours,
        why: why.into(),
    };
    let rounds = at(&samples, 100_000).mean.ceil();
    let fewer = if at(&samples, 100_000).count < 10_000 {
        "fewer runs here have a smaller worst case"
    } else {
        "they agree: the worst of 10,000 runs is 20 to 23 nine times out of ten"
    };
    let messages = 2 * 99_999 * rounds as u64;
    Drawing {
        name: "figure-6",
        csv: table(&samples, "rounds"),
        svg: chart.svg(),
        rows: vec![
            row("mean rounds at 20,000 nodes (figure 6)", "11", mean(20_000), why(20_000, "they agree: ln n + 1.08")),
            row(
                "mean rounds at 100,000 nodes (figure 6)",
                "13",
                mean(100_000),
                why(100_000, "they agree once rounded up"),
            ),
            row("worst run (figure 6)", "about 22", format!("{}", at(&samples, 100_000).most), fewer),
            row(
                "messages of SWIM until then, 100,000 nodes",
                "2,599,974",
                grouped(messages),
                if messages == 2_599_974 { "they agree: 2 x 99,999 per round" } else { few },
            ),
            row(
                "messages of the ring, 100,000 nodes",
                "99,999",
                grouped(100_000 - 1),
                "they agree: one heartbeat of each node alive",
            ),
        ],
    }
}

pub(super) fn draw_queue(plan: &Plan) -> Drawing {
    let samples = samples(plan, 1.0, longest_queue);
    let mut series: Vec<_> = lines(&samples, "mean of the longest queue", "longest of all runs").into();
    for (label, colour, value) in [
        ("ln n / ln ln n, lower bound", 2, (|bounds: (f64, f64)| bounds.0) as fn((f64, f64)) -> f64),
        ("3 ln n / ln ln n, upper bound", 3, |bounds| bounds.1),
    ] {
        let points = SIZES.iter().map(|&nodes| (f64::from(nodes), value(queue_bounds(nodes)))).collect();
        series.push(Series { label: label.into(), colour, look: Look::Dashed, points, band: vec![] });
    }
    series.push(published(
        "paper: 8 and 11, from 4.7 to 14.1 (3.4.2)",
        &[(20_000.0, 8.0), (100_000.0, 11.0), (100_000.0, 4.7), (100_000.0, 14.1)],
    ));
    let chart = Chart {
        title: "Figure 7: how many nodes probe the same one in a round",
        subtitle: "the longest queue of a round, each node probes one other node",
        warning: &plan.warning(),
        x: "nodes",
        y: "probes at one node",
        log: false,
        is_linear: false,
        series,
    };
    let few = "the longest of so few runs is a matter of chance";
    let row = |nodes, paper: &str, fits: fn(&Sample) -> bool, why: &str| {
        let sample = at(&samples, nodes);
        let why = if fits(sample) { why } else { few };
        Row {
            what: format!("longest queue at {} nodes (figure 7)", grouped(u64::from(nodes))),
            paper: paper.into(),
            ours: format!("mean {:.2}, most {}", sample.mean, sample.most),
            why: why.into(),
        }
    };
    Drawing {
        name: "figure-7",
        csv: table(&samples, "queue"),
        svg: chart.svg(),
        rows: vec![
            row(
                20_000,
                "8",
                |sample| (sample.mean..=sample.most).contains(&8.0),
                "theirs lies between the mean and the longest of all runs",
            ),
            row(
                100_000,
                "up to 11",
                |sample| sample.mean < 11.0 && sample.most >= 11.0,
                "the paper calls it an average in the caption and an upper end in the text; the mean is lower",
            ),
        ],
    }
}

pub(super) fn draw_closed_forms(_: &Plan) -> Drawing {
    let mut sizes: Vec<u32> =
        (0..=50).map(|step| (2.0 * 50_000_f64.powf(f64::from(step) / 50.0)).round() as u32).collect();
    sizes.dedup();
    let line = |label: &str, colour, look, value: &dyn Fn(u32) -> f64| Series {
        label: label.into(),
        colour,
        look,
        points: sizes.iter().map(|&nodes| (f64::from(nodes), value(nodes))).collect(),
        band: vec![],
    };
    let chart = Chart {
        title: "Section 3.4.2: the probability that a node is not probed in a round",
        subtitle: "((n - 1) / n)^(n - 1), which tends to 1/e; computed",
        warning: "",
        x: "nodes",
        y: "probability",
        log: false,
        is_linear: false,
        series: vec![
            line("not probed", 0, Look::Line, &missed),
            line("1/e", 1, Look::Dashed, &|_| 1.0 / std::f64::consts::E),
            published("paper: 0.367881 at 100,000 nodes", &[(100_000.0, 0.367_881)]),
        ],
    };
    let rows = sizes.iter().map(|&nodes| {
        // ln ln n is to be above 1.
        let bounds = (nodes >= 16).then(|| queue_bounds(nodes));
        let (least, most) = (bounds.map(|(least, _)| least), bounds.map(|(_, most)| most));
        let text = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
        let values = [Some(missed(nodes)), Some(rounds_for_certainty(nodes)), least, most];
        std::iter::once(nodes.to_string()).chain(values.map(text)).collect()
    });
    let nodes = 100_000;
    let (least, most) = queue_bounds(nodes);
    let row = |what: &str, paper: &str, ours: String, why: &str| Row {
        what: what.into(),
        paper: paper.into(),
        ours,
        why: why.into(),
    };
    Drawing {
        name: "section-3.4.2",
        csv: csv(&["nodes", "not_probed", "rounds_for_1e-9", "queue_least", "queue_most"], rows),
        svg: chart.svg(),
        rows: vec![
            row(
                "a node is not probed in a round, 100,000 nodes (3.4.2)",
                "0.367881",
                format!("{:.6}", missed(nodes)),
                "they agree",
            ),
            row("the limit 1/e", "0.367894", format!("{:.6}", (-1_f64).exp()), "a misprint: 1/e is 0.367879"),
            row("rounds for 1e-9 (3.4.2)", "20.7", format!("{:.2}", rounds_for_certainty(nodes)), "they agree"),
            row("longest queue, bounds (3.4.2)", "4.7 to 14.1", format!("{least:.2} to {most:.2}"), "they agree"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_have_the_published_values() {
        assert!((missed(100_000) - 0.367_881).abs() < 1e-6);
        assert!((rounds_for_certainty(100_000) - 20.7).abs() < 0.05);
        let (least, most) = queue_bounds(100_000);
        assert!((least - 4.7).abs() < 0.05 && (most - 14.1).abs() < 0.05);
    }

    #[test]
    fn two_nodes_probe_each_other_in_the_first_round() {
        assert_eq!((rounds_until_all(2, 1), longest_queue(2, 1)), (1, 1));
    }

    #[test]
    fn rounds_grow_like_the_logarithm() {
        // E[the largest of n geometric variables] is about ln n + 1.08 here.
        let mean = |nodes| (0..200).map(|seed| f64::from(rounds_until_all(nodes, seed))).sum::<f64>() / 200.0;
        for nodes in [500, 2000] {
            let expected = f64::from(nodes).ln() + 1.08;
            // Five standard errors: the deviation of a run is 1.3.
            assert!((mean(nodes) - expected).abs() < 0.46, "{nodes} nodes: {}, expected {expected}", mean(nodes));
        }
    }
}

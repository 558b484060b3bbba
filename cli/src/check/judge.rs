//! What is wrong, from what the nodes tell: no I/O.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{FORM, Facts};

/// Clocks may differ by so much: the times of histories are read by people.
const CLOCKS: u64 = 2_000_000;
/// What a job needs in each of its folders, in KiB.
const SPACE: u64 = 64 << 10;
/// Most partners that a sentence names.
const NAMED: usize = 4;

/// What is known of a node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name in the hostfile.
    pub name: String,
    /// What it has told, or why it has not.
    pub facts: Result<Facts, String>,
    /// When its facts arrived, on the clock of who asks, in microseconds since 1970.
    pub asked_us: (u64, u64),
    /// Whose datagrams it has heard; `None` if it has not told.
    pub heard: Option<BTreeSet<usize>>,
    /// What its part in a job needs.
    pub wanted: Wanted,
}

/// What the part of a node in a job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The components of PMIx and Open MPI.
    pub components: bool,
    /// An RDMA port, because the parameters ask for RDMA writes.
    pub rdma: bool,
}

/// One sentence about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the node.
    pub node: String,
    /// Without a full stop.
    pub sentence: String,
    /// Whether jobs suffer from it, or only under heavy load.
    pub is_fault: bool,
}

/// How far a node's clock is off, in microseconds, as far as the time of the question shows.
pub fn offset(node: &Node) -> Option<i128> {
    let clock = i128::from(node.facts.as_ref().ok()?.clock_us);
    let (first, last) = (i128::from(node.asked_us.0), i128::from(node.asked_us.1));
    Some(if clock < first { clock - first } else { (clock - last).max(0) })
}

/// All that is wrong. Nodes are compared with `own`, the facts of the node that asks.
pub fn findings(nodes: &[Node], own: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    for node in nodes {
        let mut say = |is_fault, sentence: String| all.push(Finding { node: node.name.clone(), sentence, is_fault });
        match &node.facts {
            Err(why) => say(true, format!("it does not answer ({why}): its jobs cannot start")),
            Ok(facts) if facts.form != FORM => {
                say(
                    true,
                    format!("it has ringwatch {}, and {} is here: install the same build", facts.release, own.release),
                );
            }
            Ok(facts) => of_node(facts, own, node, &mut say),
        }
    }
    all.extend(unheard(nodes));
    all
}

fn of_node(facts: &Facts, own: &Facts, node: &Node, say: &mut impl FnMut(bool, String)) {
    let offset = offset(node).unwrap_or(0);
    match &facts.daemon {
        Err(why) => say(true, format!("ringwatchd cannot be run ({why}): install ringwatch there")),
        Ok(release) if *release != own.release => {
            say(
                true,
                format!("ringwatchd is of release {release}, and {} is here: install the same build", own.release),
            );
        }
        Ok(_) => {}
    }
    if node.wanted.components && !facts.missing.is_empty() {
        say(true, format!("{} cannot be read: install ringwatch there", facts.missing.join(", ")));
    }
    if facts.addresses.is_empty() {
        say(true, "no interface has an IPv4 address that heartbeats may use (psensor_ringwatch_if_include)".into());
    }
    if let Err(why) = &facts.port {
        say(true, format!("{why}: choose others with psensor_ringwatch_port_range"));
    }
    for (folder, free) in facts.free_kib.iter().filter(|(_, free)| *free < SPACE) {
        say(true, format!("{folder} has {free} KiB free, and a job needs {SPACE}: make space there"));
    }
    if offset.unsigned_abs() > u128::from(CLOCKS) {
        let way = if offset > 0 { "ahead" } else { "behind" };
        say(true, format!("its clock is {} s {way}: have it set by NTP", offset.unsigned_abs() / 1_000_000));
    }
    if node.wanted.rdma && !facts.addresses.is_empty() && !facts.has_rdma {
        say(false, "no active RoCE v2 port has one of its addresses: its heartbeats are datagrams".into());
    }
    if !facts.has_priority {
        say(
            false,
            "ringwatchd has no real-time priority: heavy load may make the node look dead (scripts/install --priority)"
                .into(),
        );
    }
}

/// Pairs between which datagrams do not pass, told once for each node that does not hear.
fn unheard(nodes: &[Node]) -> Vec<Finding> {
    let takes_part =
        |node: &Node| node.facts.as_ref().is_ok_and(|facts| facts.port.is_ok() && !facts.addresses.is_empty());
    let part: Vec<usize> = (0..nodes.len()).filter(|index| takes_part(&nodes[*index])).collect();
    let mut deaf: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for &to in &part {
        let heard = nodes[to].heard.as_ref();
        let missing = part.iter().filter(|from| **from != to && !heard.is_some_and(|heard| heard.contains(from)));
        let missing: Vec<&str> = missing.map(|from| nodes[*from].name.as_str()).collect();
        if !missing.is_empty() {
            deaf.insert(to, missing);
        }
    }
    let sentence = |(to, from): (usize, Vec<&str>)| {
        let named = from[..from.len().min(NAMED)].join(", ");
        let more = if from.len() > NAMED { format!(" and {} more", from.len() - NAMED) } else { String::new() };
        Finding {
            node: nodes[to].name.clone(),
            sentence: format!(
                "UDP datagrams from {named}{more} do not arrive: open psensor_ringwatch_port_range in the firewall"
            ),
            is_fault: true,
        }
    };
    deaf.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            form: FORM,
            release: "1".into(),
            daemon: Ok("1".into()),
            has_priority: true,
            clock_us: 1_000_000_000,
            free_kib: vec![("/tmp".into(), SPACE)],
            addresses: vec![[10, 0, 0, 1].into()],
            port: Ok(4000),
            ..Facts::default()
        }
    }

    fn node(number: usize, change: impl Fn(&mut Facts)) -> Node {
        let mut facts = facts();
        change(&mut facts);
        let heard = (0..3).filter(|other| *other != number).collect();
        Node {
            name: format!("h{number}"),
            facts: Ok(facts),
            asked_us: (999_999_000, 1_000_001_000),
            heard: Some(heard),
            wanted: Wanted { components: true, rdma: false },
        }
    }

    /// The findings where the second of three nodes is changed.
    fn with(change: impl Fn(&mut Facts)) -> Vec<Finding> {
        findings(&[node(0, |_| ()), node(1, change), node(2, |_| ())], &facts())
    }

    fn one(findings: &[Finding], words: &str) {
        let [finding] = findings else { panic!("one sentence with '{words}', not {findings:#?}") };
        assert!(finding.node == "h1" && finding.is_fault && finding.sentence.contains(words), "{finding:?}");
    }

    #[test]
    fn nothing_is_said_of_nodes_that_are_well() {
        assert_eq!(with(|_| ()), []);
    }

    #[test]
    fn each_fault_is_one_sentence_about_its_node() {
        one(&with(|facts| facts.daemon = Ok("2".into())), "ringwatchd is of release 2, and 1 is here");
        one(&with(|facts| facts.daemon = Err("permission denied".into())), "cannot be run (permission denied)");
        one(
            &with(|facts| facts.missing = vec!["mca_hook_ringwatch.so".into()]),
            "mca_hook_ringwatch.so cannot be read",
        );
        one(&with(|facts| facts.port = Err("no UDP port from 1 to 2 is free".into())), "port_range");
        one(&with(|facts| facts.free_kib[0].1 = 10), "/tmp has 10 KiB free");
        one(&with(|facts| facts.clock_us += 3_600_000_000), "its clock is 3599 s ahead");
        one(&with(|facts| facts.clock_us -= 999_000_000), "behind");
        one(&with(|facts| facts.addresses.clear()), "no interface");
        one(&with(|facts| facts.form = 0), "install the same build");
    }

    #[test]
    fn a_right_that_only_load_asks_for_is_no_fault() {
        let found = with(|facts| facts.has_priority = false);
        assert!(matches!(&found[..], [finding] if !finding.is_fault && finding.node == "h1"), "{found:?}");
    }

    #[test]
    fn a_port_for_rdma_is_missed_where_parameters_ask_for_it() {
        let mut nodes = [node(0, |facts| facts.has_rdma = true), node(1, |_| ()), node(2, |_| ())];
        nodes[..2].iter_mut().for_each(|node| node.wanted.rdma = true);
        let found = findings(&nodes, &facts());
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert!(!finding.is_fault && finding.node == "h1" && finding.sentence.contains("RoCE v2"), "{finding:?}");
    }

    #[test]
    fn a_machine_that_serves_hosts_needs_no_components() {
        let mut nodes = [node(0, |_| ()), node(1, |facts| facts.missing = vec!["x.so".into()]), node(2, |_| ())];
        nodes[1].wanted.components = false;
        assert_eq!(findings(&nodes, &facts()), []);
    }

    #[test]
    fn who_does_not_answer_is_named_once_and_missed_by_nobody() {
        let mut nodes = [node(0, |_| ()), node(1, |_| ()), node(2, |_| ())];
        nodes[1].facts = Err("no route to host".into());
        nodes[1].heard = None;
        one(&findings(&nodes, &facts()), "does not answer (no route to host)");
        // One way only.
        let mut nodes = [node(0, |_| ()), node(1, |_| ()), node(2, |_| ())];
        nodes[1].heard = Some([0].into());
        one(&findings(&nodes, &facts()), "datagrams from h2 do not arrive");
    }
}

//! Computes a ring order that keeps nodes of one failure domain apart.
//!
//! Nodes that share a rack or a switch are lost together. If they are neighbours on the ring, they are detected one
//! after another, each after a timeout of its own, because only the first one's observer is alive. In the
//! [order](spread) of this module no two neighbours share a domain, as long as no domain has more than half of the
//! nodes: then all nodes of a lost domain are detected at once. If one has more, its runs are as short as possible.

use std::collections::{BTreeMap, BTreeSet};

use crate::ring::RingOrder;
use crate::units::NodeId;

/// The failure domains of a node, the largest first: a room, a rack in it, a switch in that.
pub type Domains = Vec<String>;

/// The error in a topology file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A line has no second word.
    #[error("line {line} of the topology names no failure domain for the host {host}; write `{host} RACK`")]
    NoDomain {
        /// The line, from 1.
        line: usize,
        /// Its first word.
        host: String,
    },
    /// A line has a third word.
    #[error(
        "line {line} of the topology goes on after the failure domain with `{rest}`; one host and one domain a line"
    )]
    Rest {
        /// The line, from 1.
        line: usize,
        /// Its third word.
        rest: String,
    },
    /// A part of a domain is empty.
    #[error(
        "line {line} of the topology has the failure domain `{domain}` with an empty part; write RACK or RACK/SWITCH"
    )]
    EmptyPart {
        /// The line, from 1.
        line: usize,
        /// The domain.
        domain: String,
    },
    /// A host is listed twice.
    #[error("line {line} of the topology names the host {host} again; each host has one line")]
    Again {
        /// The line, from 1.
        line: usize,
        /// The host.
        host: String,
    },
    /// A host of the job is missing.
    #[error("the topology has no line for the host {host}")]
    Missing {
        /// The host.
        host: String,
    },
}

/// The domains of `hosts` from a topology file: a line per host, `host domain[/subdomain...]`; the rest of a line after
/// `#` is a comment. It may contain other hosts.
///
/// # Errors
///
/// The first malformed line, or else the first host without a line.
pub fn from_file(text: &str, hosts: &[&str]) -> Result<Vec<Domains>, TopologyError> {
    let mut known = BTreeMap::new();
    for (line, content) in (1..).zip(text.lines()) {
        let mut words = content.split('#').next().unwrap_or_default().split_whitespace();
        let Some(host) = words.next() else { continue };
        let host = host.to_owned();
        let Some(domain) = words.next() else {
            return Err(TopologyError::NoDomain { line, host });
        };
        if let Some(rest) = words.next() {
            return Err(TopologyError::Rest { line, rest: rest.to_owned() });
        }
        let parts: Domains = domain.split('/').map(str::to_owned).collect();
        if parts.iter().any(String::is_empty) {
            return Err(TopologyError::EmptyPart { line, domain: domain.to_owned() });
        }
        if known.insert(host.clone(), parts).is_some() {
            return Err(TopologyError::Again { line, host });
        }
    }
    let find =
        |host: &&str| known.get(*host).cloned().ok_or_else(|| TopologyError::Missing { host: (*host).to_owned() });
    hosts.iter().map(find).collect()
}

/// The domains of `hosts` from their names: all numbers in a name except the last one denote domains, so `r12n04` is in
/// `r12` and `room1-rack2-n3.cluster` in `room1`, `-rack2`. A host with fewer than two numbers is a domain of its own.
pub fn from_host_names(hosts: &[&str]) -> Vec<Domains> {
    hosts.iter().map(|host| domains_of_name(host)).collect()
}

fn domains_of_name(host: &str) -> Domains {
    let name = host.split('.').next().unwrap_or_default();
    let mut parts = vec![String::new()];
    let mut in_number = false;
    for letter in name.chars() {
        if in_number && !letter.is_ascii_digit() {
            parts.push(String::new());
        }
        in_number = letter.is_ascii_digit();
        parts.last_mut().expect("there is one from the start").push(letter);
    }
    let has_number = |part: &String| part.ends_with(|letter: char| letter.is_ascii_digit());
    parts.retain(has_number);
    parts.pop();
    if parts.is_empty() { vec![name.to_owned()] } else { parts }
}

/// The ring order that keeps nodes of one domain apart; `domains` are those of node 0, 1 and so on.
///
/// If neighbours must share their largest domain, the next smaller domain keeps them apart.
pub fn spread(domains: &[Domains]) -> RingOrder {
    let nodes = (0..domains.len() as NodeId).collect();
    RingOrder::new(arrange(nodes, domains, 0)).expect("each node is placed once")
}

/// Arranges nodes that share all domains above `depth`.
fn arrange(nodes: Vec<NodeId>, domains: &[Domains], depth: usize) -> Vec<NodeId> {
    // A domain that all nodes share has no effect, at any number of levels.
    let is_shared = |depth: &usize| {
        let mut of_all = nodes.iter().map(|node| domains[*node as usize].get(*depth));
        of_all.next().flatten().is_some_and(|first| of_all.all(|domain| domain == Some(first)))
    };
    let depth = (depth..).find(|depth| !is_shared(depth)).unwrap_or(depth);
    let domain = |node: &NodeId| domains[*node as usize].get(depth);
    if nodes.iter().all(|node| domain(node).is_none()) {
        return nodes;
    }
    let mut groups: BTreeMap<Option<&String>, Vec<NodeId>> = BTreeMap::new();
    for node in nodes {
        groups.entry(domain(&node)).or_default().push(node);
    }
    let arranged = |(domain, group): (Option<&String>, _)| {
        if domain.is_some() { arrange(group, domains, depth + 1) } else { group }
    };
    let mut groups: Vec<_> = groups.into_iter().map(arranged).collect();
    // The largest first; the sort is stable, so all nodes compute the same.
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let largest = groups[0].len();
    let rest = groups.iter().map(Vec::len).sum::<usize>() - largest;
    if largest > rest { separate(&groups[0], groups[1..].concat()) } else { deal(groups.concat(), largest) }
}

/// Divides the nodes of the largest domain, which has more than all others, into runs of nearly equal length.
fn separate(largest: &[NodeId], others: Vec<NodeId>) -> Vec<NodeId> {
    let runs = others.len().max(1);
    let mut arranged = Vec::with_capacity(largest.len() + others.len());
    for run in 0..runs {
        arranged.extend(&largest[run * largest.len() / runs..(run + 1) * largest.len() / runs]);
        arranged.extend(others.get(run));
    }
    arranged
}

/// Arranges the nodes in as many columns as the largest domain needs, and reads them line by line.
///
/// A domain that does not end with a column continues in the next one, above the lines in which it began, because it is
/// no longer than a column. So its nodes come no closer than the number of columns less one. With two columns only the
/// largest domain could come so close, and it fills the first one.
fn deal(nodes: Vec<NodeId>, largest: usize) -> Vec<NodeId> {
    let columns = nodes.len() / largest;
    let (length, longer) = (nodes.len() / columns, nodes.len() % columns);
    let start = |column: usize| column * length + column.min(longer);
    let line = |line: usize| {
        let nodes = &nodes;
        (0..columns).filter_map(move |column| {
            let place = start(column) + line;
            (place < start(column + 1)).then(|| nodes[place])
        })
    };
    (0..=length).flat_map(line).collect()
}

/// The longest run of consecutive `lost` nodes on a ring of `universe` nodes: that number of timeouts passes until the
/// last of them is detected.
pub fn longest_run(order: &RingOrder, universe: u32, lost: &BTreeSet<NodeId>) -> u32 {
    let (mut longest, mut run) = (0, 0);
    // Twice around, because a run may cross the end.
    for place in (0..universe).chain(0..universe) {
        run = if lost.contains(&order.node(place)) { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest.min(lost.len() as u32)
}

//! Stores the names of a job's hosts by node number. The names of a cluster are mostly numbered, and each node gets all
//! of them: they are sent as ranges. In JSON they are a list.

use propagation::NodeId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of hosts that can be received.
const MOST_HOSTS: u32 = 1 << 20;

/// The host of each node, by number; empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<String>);

/// Names that differ in a number, which grows by one: `prefix`, the number in at least `width` digits, `suffix`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Range {
    prefix: String,
    first: u32,
    width: u8,
    suffix: String,
    count: u32,
}

impl Range {
    /// A range of one name. The number is the first one that is not too long.
    fn of(name: &str) -> Self {
        let is_digit = |c: char| c.is_ascii_digit();
        let begin = name.find(is_digit).unwrap_or(name.len());
        let end = name[begin..].find(|c| !is_digit(c)).map_or(name.len(), |length| begin + length);
        let digits = &name[begin..end];
        match (digits.parse(), u8::try_from(digits.len())) {
            (Ok(first), Ok(width)) => {
                Self { prefix: name[..begin].into(), first, width, suffix: name[end..].into(), count: 1 }
            }
            _ => Self { prefix: name.into(), first: 0, width: 0, suffix: String::new(), count: 1 },
        }
    }

    fn name(&self, index: u32) -> String {
        match self.width {
            0 => self.prefix.clone(),
            width => {
                let number = u64::from(self.first) + u64::from(index);
                format!("{}{number:0width$}{}", self.prefix, self.suffix, width = usize::from(width))
            }
        }
    }
}

impl Serialize for Hosts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return self.0.serialize(serializer);
        }
        let mut ranges = Vec::<Range>::new();
        for name in &self.0 {
            match ranges.last_mut() {
                Some(last) if last.name(last.count) == *name => last.count += 1,
                _ => ranges.push(Range::of(name)),
            }
        }
        ranges.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Hosts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return Vec::deserialize(deserializer).map(Self);
        }
        let ranges = Vec::<Range>::deserialize(deserializer)?;
        if ranges.iter().fold(0_u32, |sum, range| sum.saturating_add(range.count)) > MOST_HOSTS {
            return Err(D::Error::custom("too many hosts"));
        }
        Ok(Self(ranges.iter().flat_map(|range| (0..range.count).map(|index| range.name(index))).collect()))
    }
}

impl Hosts {
    /// The hosts of these nodes, by number.
    #[must_use]
    pub fn new(names: Vec<String>) -> Self {
        Self(names)
    }

    /// The host of a node, if it is known.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&str> {
        self.0.get(node as usize).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// A node for messages, e.g. `node 2 (h3)`.
    #[must_use]
    pub fn node(&self, node: NodeId) -> String {
        self.get(node).map_or_else(|| format!("node {node}"), |host| format!("node {node} ({host})"))
    }

    /// Several nodes for a sentence, e.g. `node 1 (h2), node 2 (h3) and 4 more`.
    #[must_use]
    pub fn nodes(&self, nodes: &[NodeId]) -> String {
        const NAMED: usize = 16;
        let names: Vec<_> = nodes.iter().take(NAMED).map(|node| self.node(*node)).collect();
        let more = if nodes.len() > NAMED { format!(" and {} more", nodes.len() - NAMED) } else { String::new() };
        format!("{}{more}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_names_of_their_hosts_where_they_are_known() {
        let hosts = Hosts::new(vec!["h1".into(), String::new(), "h3".into()]);
        assert_eq!((hosts.get(0), hosts.get(1), hosts.get(9)), (Some("h1"), None, None));
        assert_eq!(hosts.nodes(&[0, 1, 2]), "node 0 (h1), node 1, node 2 (h3)");
        assert!(hosts.nodes(&(0..20).collect::<Vec<_>>()).ends_with("node 15 and 4 more"));
    }

    #[test]
    fn numbered_hosts_take_few_bytes_and_any_names_survive() {
        let length = |names: Vec<String>| {
            let hosts = Hosts::new(names);
            let bytes = postcard::to_stdvec(&hosts).unwrap();
            assert_eq!(postcard::from_bytes::<Hosts>(&bytes).unwrap(), hosts);
            bytes.len()
        };
        assert!(length((1..=1024).map(|number| format!("node{number:04}.cluster")).collect()) < 40);
        assert!(length((95..=105).map(|number| format!("h{number}")).collect()) < 20);
        let odd =
            ["", "a", "", "a", "a", "h01", "h2", "h003", "h4b", "h5b", "h99999999999999999999", "r1n9", "r1n10", "9"];
        length(odd.map(String::from).to_vec());
        let long = "7".repeat(300);
        length(vec![long.clone(), long]);
    }

    #[test]
    fn hosts_without_end_are_refused() {
        let range = Range { prefix: "h".into(), first: 0, width: 1, suffix: String::new(), count: u32::MAX };
        assert!(postcard::from_bytes::<Hosts>(&postcard::to_stdvec(&vec![range]).unwrap()).is_err());
    }
}

//! Stores the names of a job's hosts by node number.

use propagation::NodeId;
use serde::{Deserialize, Serialize};

/// The host of each node, by number; empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts(Vec<String>);

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
}

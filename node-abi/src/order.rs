//! Parses the user's order of the nodes on the ring.

use std::fs;
use std::path::PathBuf;

use propagation::{NodeId, RingOrder, topology};

/// The order of the ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By node number.
    #[default]
    Ids,
    /// By racks derived from host names, so that neighbours are in different racks.
    Hosts,
    /// By failure domains from a topology file, so that neighbours are in different domains.
    File(PathBuf),
}

impl Order {
    /// The accepted values.
    pub const EXPECTED: &str = "it must be ids, hosts, or the absolute path of a topology file";

    /// Reads `ids`, `hosts` or an absolute path.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            word if word.eq_ignore_ascii_case("ids") => Some(Self::Ids),
            word if word.eq_ignore_ascii_case("hosts") => Some(Self::Hosts),
            path if path.starts_with('/') => Some(Self::File(path.into())),
            _ => None,
        }
    }

    /// The ring of `hosts`, the names of node 0, 1 and so on.
    ///
    /// # Errors
    /// A part of a sentence: the topology file cannot be read or understood, or lacks one of the hosts.
    pub fn ring(&self, hosts: &[&str]) -> Result<RingOrder, String> {
        Ok(match self {
            Self::Ids => RingOrder::default(),
            Self::Hosts => topology::spread(&topology::from_host_names(hosts)),
            Self::File(path) => {
                let text = fs::read_to_string(path).map_err(|error| format!("the file cannot be read ({error})"))?;
                topology::spread(&topology::from_file(&text, hosts).map_err(|error| error.to_string())?)
            }
        })
    }
}

/// The nodes in ring order; empty for numerical order.
#[must_use]
pub fn table(order: &RingOrder) -> Vec<NodeId> {
    (0..order.named().unwrap_or(0)).map(|place| order.node(place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_two_words_or_an_absolute_path() {
        assert_eq!(Order::parse("ids"), Some(Order::Ids));
        assert_eq!(Order::parse(" Hosts "), Some(Order::Hosts));
        assert_eq!(Order::parse("/etc/racks"), Some(Order::File("/etc/racks".into())));
        for bad in ["", "racks", "./racks", "topology.txt"] {
            assert_eq!(Order::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn racks_alternate_by_name_and_by_file() {
        let path = std::env::temp_dir().join(format!("ring-order-{}", std::process::id()));
        fs::write(&path, "a left\nb left\nc right\nd right\n").unwrap();
        let file = Order::File(path.clone());
        let ring = table(&file.ring(&["a", "b", "c", "d"]).unwrap());
        let missing = file.ring(&["a", "e"]).unwrap_err();
        fs::remove_file(&path).unwrap();
        assert_eq!(ring, [0, 2, 1, 3]);
        assert!(missing.contains("no line for the host e"), "{missing}");
        assert!(file.ring(&["a"]).unwrap_err().contains("cannot be read"));
        assert_eq!(table(&Order::Hosts.ring(&["r1n1", "r1n2", "r2n1", "r2n2"]).unwrap()), [0, 2, 1, 3]);
        assert_eq!(table(&Order::Ids.ring(&["a", "b"]).unwrap()), Vec::<NodeId>::new());
    }
}

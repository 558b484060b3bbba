//! Checks that a job runs the same release everywhere, and defines the data that nodes of different releases can
//! exchange. No I/O.
//!
//! The launch data begins with a [`Contact`], whose layout is common to all releases. A node refuses the job if it
//! finds another release there than its own, or if its `ringwatchd` and its plugin have different releases. It sends
//! node 0 a [`Refusal`], whose layout is common to all releases, too; node 0 ends the job with one sentence that names
//! the nodes. A node that cannot take part as the parameters require refuses in the same way.

use std::net::SocketAddr;

use propagation::NodeId;
use serde::{Deserialize, Serialize};

/// This release: the version, and a hash of its sources. Packagers may set another name when they build, with the
/// variable `RINGWATCH_RELEASE`.
pub const RELEASE: &str = match option_env!("RINGWATCH_RELEASE") {
    Some(release) => release,
    None => concat!(env!("CARGO_PKG_VERSION"), "+", env!("RINGWATCH_SOURCES")),
};

/// The begin of a refusal. No other datagram begins so.
const MAGIC: &[u8; 16] = b"ringwatch-other\0";
const MAC_LEN: usize = 32;
/// The purpose of the derived key.
const PURPOSE: &str = "ringwatch 2026 refusal of a node with another release";
/// Maximum length of a name in a refusal, in bytes.
const LONGEST_NAME: usize = 256;
/// Maximum length of a sentence in a refusal, in bytes.
const LONGEST_PROBLEM: usize = 320;
/// Maximum length of a refusal, in bytes.
pub const MAX_LEN: usize = 1200;
/// Maximum number of nodes named in a sentence.
const NAMED: usize = 16;

/// The begin of the launch data, in every release. It only changes together with its first number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// Layout of the data after this contact.
    pub version: u16,
    /// Release of ringwatch on prterun's node.
    pub release: String,
    /// Identity of the job.
    pub job: u64,
    /// Key of the job.
    pub key: [u8; 32],
    /// Addresses of node 0.
    pub rendezvous: Vec<SocketAddr>,
}

/// The first packet to the machine that serves a host. All releases share its layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The contact of the job.
    pub contact: Contact,
    /// The node to be served.
    pub node: NodeId,
    /// The name of its host.
    pub host: String,
}

/// A node's refusal to take part in the job: it has other releases of ringwatch, or cannot take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The node.
    pub node: NodeId,
    /// The name of its host.
    pub host: String,
    /// Release of its plugin.
    pub plugin: String,
    /// Release of its `ringwatchd`, if known.
    pub daemon: String,
    /// The reason why it cannot take part; empty if the releases differ.
    pub problem: String,
}

impl Refusal {
    /// A refusal because of another release, or of two.
    #[must_use]
    pub fn of_releases(node: NodeId, host: String, plugin: &str, daemon: &str) -> Self {
        Self { node, host, plugin: plugin.into(), daemon: daemon.into(), problem: String::new() }
    }

    /// A refusal with a reason, of which the first 320 bytes are kept.
    #[must_use]
    pub fn of_problem(node: NodeId, host: String, problem: &str) -> Self {
        let fits = (0..=LONGEST_PROBLEM.min(problem.len())).rev().find(|&end| problem.is_char_boundary(end));
        let problem = problem[..fits.unwrap_or(0)].replace(char::is_control, " ");
        Self { node, host, plugin: RELEASE.into(), daemon: RELEASE.into(), problem }
    }

    /// The datagram with the refusal in this job.
    #[must_use]
    pub fn seal(&self, job: u64, key: &[u8; 32]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(postcard::to_stdvec(self).unwrap_or_default());
        let mac = mac(&bytes, job, key);
        bytes.extend_from_slice(mac.as_bytes());
        bytes
    }

    /// Reads a refusal in this job from a datagram; `None` if it is another datagram, or was not made with the key.
    #[must_use]
    pub fn open(bytes: &[u8], job: u64, key: &[u8; 32]) -> Option<Self> {
        let (signed, found) = bytes.split_last_chunk::<MAC_LEN>()?;
        let body = signed.strip_prefix(MAGIC).filter(|_| bytes.len() <= MAX_LEN)?;
        // Comparison in constant time.
        if mac(signed, job, key) != *found {
            return None;
        }
        let refusal: Self = postcard::from_bytes(body).ok()?;
        let fits = |name: &str, longest| name.len() <= longest && !name.contains(char::is_control);
        let names = [&refusal.host, &refusal.plugin, &refusal.daemon];
        let all = names.iter().all(|name| fits(name, LONGEST_NAME)) && fits(&refusal.problem, LONGEST_PROBLEM);
        all.then_some(refusal)
    }
}

fn mac(signed: &[u8], job: u64, key: &[u8; 32]) -> blake3::Hash {
    let key = blake3::derive_key(PURPOSE, key);
    let mut hasher = blake3::Hasher::new_keyed(&key);
    hasher.update(&job.to_le_bytes()).update(signed);
    hasher.finalize()
}

/// The release of the daemon, from the output of `ringwatchd --version`.
#[must_use]
pub fn told_by_daemon(text: &str) -> Option<&str> {
    text.trim_end().strip_prefix("ringwatchd ").filter(|release| !release.is_empty() && release.len() <= LONGEST_NAME)
}

/// Whether the version string of a loaded PMIx names the release `built`, three numbers.
#[must_use]
pub fn is_pmix(loaded: &str, built: &str) -> bool {
    let built = numbers(built);
    built.len() == 3 && loaded.split([' ', ',']).any(|word| numbers(word) == built)
}

/// The numbers of a version: 5, 0, 7 for `5.0.7a1` as for `v5L.0L.7L`.
fn numbers(version: &str) -> Vec<u32> {
    let number = |part: &str| part.trim_start_matches('v').split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    version.split('.').map_while(number).collect()
}

/// One sentence for the user about the refusing nodes.
#[must_use]
pub fn sentence(refusals: &[Refusal]) -> String {
    let (releases, problems): (Vec<_>, Vec<_>) = refusals.iter().partition(|refusal| refusal.problem.is_empty());
    let mut parts = Vec::new();
    if !releases.is_empty() {
        let list = list(&releases, "have others, too", |Refusal { plugin, daemon, .. }| {
            if plugin == daemon {
                return format!("has {plugin}");
            }
            let daemon = if daemon.is_empty() { "that does not tell its release" } else { daemon };
            format!("has a plugin of {plugin} and a ringwatchd {daemon}")
        });
        parts.push(format!(
            "the node of mpirun has ringwatch {RELEASE}, but {list}: install the same release on every node"
        ));
    }
    if !problems.is_empty() {
        parts.push(list(&problems, "cannot, either", |refusal| format!("cannot take part ({})", refusal.problem)));
    }
    parts.push("the job is ended".into());
    parts.join("; ")
}

/// The items of a sentence, up to its maximum number of nodes.
fn list(refusals: &[&Refusal], others: &str, what: impl Fn(&Refusal) -> String) -> String {
    let named = refusals.iter().take(NAMED);
    let mut nodes: Vec<_> =
        named.map(|refusal| format!("node {} ({}) {}", refusal.node, refusal.host, what(refusal))).collect();
    let left = refusals.len().saturating_sub(NAMED);
    if left > 0 {
        nodes.push(format!("{left} more nodes {others}"));
    }
    nodes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal() -> Refusal {
        Refusal::of_releases(2, "h3".into(), "0.2.0", "0.2.0")
    }

    #[test]
    fn a_refusal_arrives_whole_or_not_at_all() {
        let (job, key) = (7, [3; 32]);
        let bytes = refusal().seal(job, &key);
        assert_eq!(Refusal::open(&bytes, job, &key), Some(refusal()));
        assert_eq!(Refusal::open(&bytes, 8, &key), None, "another job's");
        assert_eq!(Refusal::open(&bytes, job, &[4; 32]), None, "another key's");
        for length in 0..bytes.len() {
            assert_eq!(Refusal::open(&bytes[..length], job, &key), None, "cut to {length}");
            let mut forged = bytes.clone();
            forged[length] ^= 1;
            assert_eq!(Refusal::open(&forged, job, &key), None, "changed at {length}");
        }
        let loud = Refusal { host: "h3\u{1b}[31m".into(), ..refusal() };
        assert_eq!(Refusal::open(&loud.seal(job, &key), job, &key), None, "would write into the user's terminal");
        let long = Refusal { host: "h".repeat(LONGEST_NAME + 1), ..refusal() };
        assert_eq!(Refusal::open(&long.seal(job, &key), job, &key), None);
        let problem = Refusal::of_problem(2, "h3".into(), &"\u{e9}\n".repeat(LONGEST_PROBLEM));
        assert_eq!(Refusal::open(&problem.seal(job, &key), job, &key), Some(problem), "cut where it has to be");
    }

    #[test]
    fn the_layouts_stay_those_of_every_release() {
        let contact = Contact {
            version: 4,
            release: "0.1.0".into(),
            job: 1,
            key: [9; 32],
            rendezvous: vec!["10.0.0.1:7".parse().unwrap()],
        };
        let bytes = postcard::to_stdvec(&contact).unwrap();
        assert_eq!(bytes[..8], [4, 5, b'0', b'.', b'1', b'.', b'0', 1]);
        assert_eq!(bytes[8..], [&[9; 32][..], &[1, 0, 10, 0, 0, 1, 7]].concat());
        let bytes = refusal().seal(7, &[3; 32]);
        assert_eq!(bytes[..16], *MAGIC);
        assert_eq!(bytes[16..bytes.len() - MAC_LEN], *b"\x02\x02h3\x050.2.0\x050.2.0\0");
    }

    #[test]
    fn the_sentence_names_the_nodes() {
        let other = Refusal::of_releases(1, "h2".into(), "0.1.0", "");
        let told = sentence(&[other.clone(), refusal()]);
        assert!(told.contains("node 1 (h2) has a plugin of 0.1.0 and a ringwatchd that does not tell its release, "));
        assert!(told.contains("node 2 (h3) has 0.2.0: install the same release on every node; the job"), "{told}");
        assert!(sentence(&vec![refusal(); 20]).contains("4 more nodes"));
        let problem = Refusal::of_problem(3, "h4".into(), "no port is free");
        assert_eq!(
            sentence(std::slice::from_ref(&problem)),
            "node 3 (h4) cannot take part (no port is free); the job is ended"
        );
        let told = sentence(&[other, problem]);
        assert!(told.contains("on every node; node 3 (h4) cannot take part"), "{told}");
    }

    #[test]
    fn libraries_are_known_by_the_strings_that_they_show() {
        let shown = "OpenPMIx 5.0.7 (PMIx Standard: 4.2, Stable ABI: 0.0, Provisional ABI: 0.0)";
        assert!(is_pmix(shown, "5.0.7") && is_pmix(shown, "5L.0L.7L"));
        assert!(!is_pmix(shown, "5.0.8") && !is_pmix("OpenPMIx 15.0.7", "5.0.7") && !is_pmix(shown, "5.0"));
    }

    #[test]
    fn a_daemon_tells_its_release_in_its_own_words() {
        assert_eq!(told_by_daemon("ringwatchd 0.1.0\n"), Some("0.1.0"));
        for other in ["", "ringwatchd ", "something 1.0", "0.1.0"] {
            assert_eq!(told_by_daemon(other), None);
        }
    }
}

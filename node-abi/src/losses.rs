//! Formats the message to the user about each lost rank, node and runtime daemon: one line. No I/O.

use std::time::Duration;

use propagation::{NodeReason, RankReason};

use crate::parameters::show;
use crate::segment::replicas::ReplicaOf;

/// Maximum number of ranks named in a line.
const NAMED: usize = 16;

/// The times in the reasons.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Silence after which a node is suspected.
    pub timeout: Duration,
    /// How long a rank may be stopped.
    pub stop_timeout: Option<Duration>,
}

/// State of the job after a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// This number of ranks continues.
    GoOn(usize),
    /// A rank may still be in `MPI_Init`, which waits for all ranks.
    InInit,
}

/// The message about a lost rank: `who` is its name, such as `rank 5`, and `replica` which replica it was, if any.
#[must_use]
pub fn of_rank(
    who: &str,
    replica: Option<ReplicaOf>,
    host: &str,
    reason: RankReason,
    limits: Limits,
    after: After,
) -> String {
    let what = match reason {
        RankReason::Exited { status } => format!("exited with status {status} without MPI_Finalize"),
        RankReason::Signaled { signal } => format!("was killed by signal {signal}"),
        RankReason::Stopped => match limits.stop_timeout {
            Some(limit) => format!("was stopped for more than {}", show(limit)),
            None => "was stopped".into(),
        },
        RankReason::Reported => "ended, as the runtime reports".into(),
        RankReason::Early => "ended before it had left MPI_Init".into(),
        RankReason::DumpsCore { signal: 0 } => "has crashed and dumps core".into(),
        RankReason::DumpsCore { signal } => format!("was killed by signal {signal} and dumps core"),
    };
    let replica = replica.map_or_else(String::new, |replica| format!(" ({replica})"));
    format!("{who}{replica} on {host} {what}; {}", rest(after))
}

/// The message about a lost node with these ranks; `None` if it has left in order, which is no loss.
#[must_use]
pub fn of_node(host: &str, ranks: &[String], reason: NodeReason, limits: Limits, after: After) -> Option<String> {
    let why = match reason {
        NodeReason::Silent => format!("no heartbeat for {}", show(limits.timeout)),
        NodeReason::Resigned => "its runtime daemon (prted) ended or was stopped".into(),
        NodeReason::ConnectionLost => "mpirun lost the connection to its runtime daemon (prted)".into(),
        NodeReason::Left => return None,
    };
    let named: Vec<_> = ranks.iter().take(NAMED).map(String::as_str).collect();
    let more = if ranks.len() > NAMED { format!(" and {} more", ranks.len() - NAMED) } else { String::new() };
    let with = match ranks.len() {
        0 => String::new(),
        1 => format!(" (rank {})", named[0]),
        _ => format!(" (ranks {}{more})", named.join(", ")),
    };
    Some(format!("node {host}{with} was lost: {why}; {}", rest(after)))
}

/// The reason of a rank's death in one word.
#[must_use]
pub fn rank_reason(reason: RankReason) -> String {
    match reason {
        RankReason::Exited { status } => format!("exited:{status}"),
        RankReason::Signaled { signal } => format!("signal:{signal}"),
        RankReason::Stopped => "stopped".into(),
        RankReason::Reported => "reported".into(),
        RankReason::Early => "early".into(),
        RankReason::DumpsCore { signal } => format!("core:{signal}"),
    }
}

/// The reason of a node's death in one word.
#[must_use]
pub fn node_reason(reason: NodeReason) -> &'static str {
    match reason {
        NodeReason::Silent => "silent",
        NodeReason::Resigned => "resigned",
        NodeReason::ConnectionLost => "connection-lost",
        NodeReason::Left => "left",
    }
}

fn rest(after: After) -> String {
    match after {
        After::InInit => "not every rank has left MPI_Init".into(),
        After::GoOn(0) => "no rank is left".into(),
        After::GoOn(1) => "1 rank goes on".into(),
        After::GoOn(count) => format!("{count} ranks go on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { timeout: Duration::from_secs(1), stop_timeout: Some(Duration::from_millis(400)) };

    #[test]
    fn a_line_says_who_where_why_and_how_many_go_on() {
        let rank = |reason, count| of_rank("rank 5", None, "h3", reason, LIMITS, After::GoOn(count));
        assert_eq!(rank(RankReason::Signaled { signal: 9 }, 7), "rank 5 on h3 was killed by signal 9; 7 ranks go on");
        assert_eq!(rank(RankReason::Stopped, 1), "rank 5 on h3 was stopped for more than 400ms; 1 rank goes on");
        assert_eq!(
            rank(RankReason::Exited { status: 3 }, 0),
            "rank 5 on h3 exited with status 3 without MPI_Finalize; no rank is left"
        );
        let node = |ranks: &[&str], reason| {
            let ranks: Vec<String> = ranks.iter().map(|&rank| rank.to_owned()).collect();
            of_node("h3", &ranks, reason, LIMITS, After::GoOn(6))
        };
        assert_eq!(
            node(&["4", "5"], NodeReason::Silent).unwrap(),
            "node h3 (ranks 4, 5) was lost: no heartbeat for 1s; 6 ranks go on"
        );
        assert_eq!(
            node(&[], NodeReason::Resigned).unwrap(),
            "node h3 was lost: its runtime daemon (prted) ended or was stopped; 6 ranks go on"
        );
        assert_eq!(node(&["4"], NodeReason::Left), None);
        let replica = Some(ReplicaOf { of: 1, index: 1 });
        let killed = of_rank("rank 5", replica, "h3", RankReason::Stopped, LIMITS, After::GoOn(7));
        assert_eq!(killed, "rank 5 (replica 1 of rank 1) on h3 was stopped for more than 400ms; 7 ranks go on");
        let early = of_rank("rank 5", None, "h3", RankReason::Reported, LIMITS, After::InInit);
        assert_eq!(early, "rank 5 on h3 ended, as the runtime reports; not every rank has left MPI_Init");
    }
}

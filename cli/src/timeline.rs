//! A history for people: a line per event, and a summary of each death. Whatever its records hold acts on no terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use node_abi::segment::replicas::ReplicaOf;
use platform::terminal;
use rdma_heartbeat::history::{Event, Measure, Record, between, span};
use recommended_group::report::Verdict;

/// Maximum number of ranks named in a line.
const NAMED: usize = 8;

/// The whole text, job by job.
#[must_use]
pub fn of(records: &[Record]) -> String {
    let mut jobs: BTreeMap<(Option<u32>, &str), Vec<&Record>> = BTreeMap::new();
    for record in records {
        jobs.entry((record.user, &record.job)).or_default().push(record);
    }
    let texts: Vec<String> = jobs.into_values().map(|records| of_job(&records)).collect();
    texts.join("\n")
}

fn of_job(records: &[&Record]) -> String {
    let mut text = title(records);
    let mut before: Option<&Record> = None;
    for record in records {
        if before.is_some_and(|before| day(before) != day(record)) {
            text += &terminal::line(day(record));
        }
        text += &line(record, before);
        before = Some(record);
    }
    text + &summary(records)
}

/// The line above records of one job: the job, the day of the first one, and their clock.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn title(records: &[&Record]) -> String {
    let Record { job, slurm_job, user, .. } = records[0];
    let slurm = slurm_job.as_ref().map_or_else(String::new, |number| format!(" (Slurm's job {number})"));
    let user = user.map_or_else(String::new, |user| format!(" of user {user}"));
    terminal::line(&format!("job {job}{slurm}{user}, {}, {}", day(records[0]), axis(records)))
}

/// The day of a record.
#[must_use]
pub fn day(record: &Record) -> &str {
    record.time.get(..10).unwrap_or(&record.time)
}

/// One sentence for each death in the records of one job.
#[must_use]
pub fn summary(records: &[&Record]) -> String {
    let deaths: Vec<String> = records.iter().enumerate().filter_map(|(index, _)| death(records, index)).collect();
    if deaths.is_empty() { "nobody died\n".into() } else { deaths.concat() }
}

fn axis(records: &[&Record]) -> String {
    let clock = records[0].clock;
    match (records.iter().all(|record| record.clock == clock), clock) {
        (true, 0) => "on the clock of node 0".into(),
        (true, node) => format!("only what node {node} saw; ask on the node of mpirun for all"),
        (false, _) => "from several clocks: times of different nodes compare as well as their wall clocks do".into(),
    }
}

/// One event: time of day, time since the event before, node, what. An event that belongs before the other one is late.
#[must_use]
pub fn line(record: &Record, before: Option<&Record>) -> String {
    let since = match before.filter(|before| before.clock == record.clock) {
        None => String::new(),
        Some(before) if before.at_us > record.at_us => "late".into(),
        Some(before) => format!("+{}", span_of(before, record)),
    };
    let time = record.time.get(11..26).unwrap_or(&record.time);
    terminal::line(&format!("{time} {since:>9}  node {} ({})  {}", record.node, record.host, describe(record)))
}

/// A node with its host, as far as the record tells.
fn named(record: &Record, node: u32) -> String {
    let host = if node == record.node { Some(&record.host) } else { record.hosts.get(&node) };
    host.map_or_else(|| format!("node {node}"), |host| format!("node {node} ({host})"))
}

fn describe(record: &Record) -> String {
    let named = |node: &u32| named(record, *node);
    let or_nobody = |node: &Option<u32>| node.as_ref().map_or_else(|| "nobody".into(), named);
    match &record.event {
        Event::Started { pid, incarnation: 0 } => format!("ringwatchd starts (pid {pid})"),
        Event::Started { pid, incarnation } => format!("ringwatchd starts again (pid {pid}), the {incarnation}. time"),
        Event::Watching { emitter, observer } => {
            format!("in the ring: watches {}, is watched by {}", or_nobody(emitter), or_nobody(observer))
        }
        Event::Observed { rank, reason } => format!("rank {rank}: {}", reason_text(reason)),
        Event::RuntimeLost { pid, reason } => format!("its runtime daemon (pid {pid}): {}", reason_text(reason)),
        Event::ConnectionLost { peer } => format!("the runtime has lost the connection to {}", named(peer)),
        Event::Suspected { peer, silent_us } => {
            format!(
                "suspects {}: nothing heard for {}",
                named(peer),
                silent_us.map_or_else(|| "a timeout".into(), span)
            )
        }
        Event::Asked { peer } => format!("asks {}, which is suspected, for a sign of life", named(peer)),
        Event::Spared { peer } => format!("{} has given a sign of life", named(peer)),
        Event::RankDead { rank, replica, on, reason, by } => {
            let (on, by) = (named(on), named(by));
            let rank = rank_text(*rank, *replica);
            format!("knows that {rank} of {on} is dead ({}), declared by {by}", reason_text(reason))
        }
        Event::NodeDead { peer, reason, by, suspector, ranks, replicas } => {
            let seen = suspector.map_or_else(String::new, |node| format!(", suspected by {}", named(&node)));
            let (peer, by) = (named(peer), named(by));
            let with = if ranks.is_empty() { String::new() } else { format!(" with {}", ranks_text(ranks)) };
            let are: Vec<_> = replicas.iter().take(NAMED).map(ToString::to_string).collect();
            let with = if are.is_empty() { with } else { format!("{with} ({})", are.join(", ")) };
            format!("knows that {peer}{with} is dead ({}), declared by {by}{seen}", reason_text(reason))
        }
        Event::Fenced { rank } => format!("kills rank {rank}"),
        Event::RuntimeFenced { pid } => format!("kills its runtime daemon (pid {pid})"),
        Event::Held => "has no contact with node 0: its ranks wait".into(),
        Event::Released => "has contact again: its ranks go on".into(),
        Event::Raised { rank, dead } => format!("MPI knows the death of {} in rank {rank}", ranks_text(dead)),
        Event::Error { rank, class, function } => format!("{function} raises {class} in rank {rank}"),
        Event::Replaced { rank, spare, pid } => {
            format!("process {pid}, spare {spare}, takes the place of rank {rank}")
        }
        Event::Repeated { rank, events, us } => {
            format!("rank {rank} has repeated {events} events in {} and goes on", span(*us))
        }
        Event::Grouped { group, processes } => {
            format!("rank {group} and {} others make a group of recommended processes", processes.saturating_sub(1))
        }
        Event::Evicted { rank, by, verdict, reply_us, threshold_us, .. } => {
            format!("rank {rank} leaves the group, says rank {by}: {}", failure(*verdict, *reply_us, *threshold_us))
        }
        Event::Returned { rank, by, .. } => format!("rank {rank} comes back to the group, says rank {by}"),
        Event::Replica { rank, replica } => format!("rank {rank} is {replica}"),
        Event::Finding { rank, replica, kind: _, sentence, count } => {
            let more = if *count > 1 { format!(" (its {count}. finding)") } else { String::new() };
            format!("{} has found{more}: {sentence}", rank_text(*rank, Some(*replica)))
        }
        Event::Late { us } => format!("ringwatchd did not run for {}", span(*us)),
        Event::Omitted { records } => format!("{records} records before this moment are not kept"),
        Event::Measured { what, counts } => {
            let times = counts.iter().fold(0_u64, |times, (_, count)| times.saturating_add(*count));
            let longest = counts.last().map_or(0, |(micros, _)| *micros);
            let what = match what {
                Measure::Silence => "silences between two heartbeats",
                Measure::Lateness => "delays of its own timer",
            };
            format!("has measured {times} {what} of up to {}", span(longest))
        }
        Event::Farewell { period_us, heard, lost } => {
            format!("has heard {heard} heartbeats with a period of {}, {lost} were lost", span(*period_us))
        }
        Event::Ended { why } => format!("the end: {why}"),
    }
}

/// Why a process is not recommended any more.
fn failure(verdict: Option<Verdict>, reply_us: Option<u64>, threshold_us: Option<u64>) -> String {
    let shown = |micros: Option<u64>| micros.map_or_else(|| "an unknown time".into(), span);
    let (reply, threshold) = (shown(reply_us), shown(threshold_us));
    match verdict {
        None => "it is dead".into(),
        Some(Verdict::Silent) => format!("no answer to a test with the threshold {threshold}"),
        Some(Verdict::Late) => format!("an answer after {reply}, later than the threshold {threshold}"),
        Some(Verdict::Wrong | Verdict::Passed) => format!("a wrong answer after {reply}"),
    }
}

/// A reason, which is one word, for people.
#[must_use]
pub fn reason_text(reason: &str) -> String {
    match reason.split_once(':') {
        Some(("signal", number)) => format!("killed by signal {number}"),
        Some(("exited", status)) => format!("exited with status {status}"),
        _ => reason.replace('-', " "),
    }
}

/// A process, with the replica that it is.
fn rank_text(rank: u32, replica: Option<ReplicaOf>) -> String {
    replica.map_or_else(|| format!("rank {rank}"), |replica| format!("rank {rank} ({replica})"))
}

fn ranks_text(ranks: &[u32]) -> String {
    let names: Vec<_> = ranks.iter().take(NAMED).map(u32::to_string).collect();
    let more = if ranks.len() > NAMED { format!(" and {} more", ranks.len() - NAMED) } else { String::new() };
    format!("rank{} {}{more}", if ranks.len() == 1 { "" } else { "s" }, names.join(", "))
}

/// Who died.
#[derive(PartialEq, Eq)]
enum Victim {
    Rank(u32),
    Node(u32),
}

impl Victim {
    /// Whose death a record declares.
    fn of(record: &Record) -> Option<Self> {
        match &record.event {
            Event::RankDead { rank, .. } => Some(Self::Rank(*rank)),
            Event::NodeDead { peer, .. } => Some(Self::Node(*peer)),
            _ => None,
        }
    }

    /// Whether a record is the first sign of it.
    fn is_noticed_in(&self, record: &Record) -> bool {
        match (&record.event, self) {
            (Event::Observed { rank, .. }, Self::Rank(victim)) => rank == victim,
            (
                Event::Suspected { peer, .. } | Event::Asked { peer } | Event::ConnectionLost { peer },
                Self::Node(victim),
            ) => peer == victim,
            (Event::RuntimeLost { .. }, Self::Node(victim)) => record.node == *victim,
            _ => false,
        }
    }

    fn is_spared_in(&self, record: &Record) -> bool {
        matches!(&record.event, Event::Spared { peer } if *self == Self::Node(*peer))
    }
}

/// The summary of a death, at the first record that declares it.
fn death(records: &[&Record], index: usize) -> Option<String> {
    let declared = records[index];
    let victim = Victim::of(declared)?;
    let is_declared = |one: &&&Record| Victim::of(one).is_some_and(|other| other == victim);
    if records[..index].iter().any(|one| is_declared(&one)) {
        return None;
    }
    let (who, ranks) = match &declared.event {
        Event::RankDead { rank, replica, on, .. } => {
            (format!("{} of {}", rank_text(*rank, *replica), named(declared, *on)), vec![*rank])
        }
        Event::NodeDead { peer, ranks, .. } => (named(declared, *peer), ranks.clone()),
        _ => return None,
    };
    // What was noticed before the suspect was spared was not this. On the axis the notice may stand a little late.
    let begin = records[..index].iter().rposition(|one| victim.is_spared_in(one)).unwrap_or(0);
    let noticed = records[begin..].iter().find(|one| victim.is_noticed_in(one)).map_or(declared, |one| one);
    let mut text = format!("{who} died: noticed by node {} ({}) at {}", noticed.node, noticed.host, noticed.time);
    let _ = write!(text, "; declared after {}", span_of(noticed, declared));
    let known: Vec<_> = records[index..].iter().filter(is_declared).map(|record| (record.node, *record)).collect();
    // What is told twice, after a ringwatchd was replaced, is known once.
    let known = firsts(known);
    if let [_, .., last] = known[..] {
        let _ = write!(text, "; known to {} nodes after {}", known.len(), span_of(noticed, last));
    }
    let is_fenced = |one: &&&Record| matches!(&one.event, Event::Fenced { rank } if ranks.contains(rank));
    if let Some(fenced) = records.iter().find(is_fenced) {
        let _ = write!(text, "; fenced after {}", span_of(noticed, fenced));
    }
    let learned: Vec<usize> = (0..records.len()).filter(|index| tells_mpi_of(records[*index], &ranks)).collect();
    let of_rank = |record: &Record| if let Event::Raised { rank, .. } = &record.event { *rank } else { 0 };
    let knew = firsts(learned.iter().map(|index| (of_rank(records[*index]), records[*index])).collect());
    if let (Some(first), Some(last)) = (knew.first(), knew.last()) {
        let (first, last) = (span_of(noticed, first), span_of(noticed, last));
        let _ = write!(text, "; known to MPI in {} after {first} to {last}", count_of_ranks(knew.len()));
    }
    let errors =
        learned.iter().filter_map(|index| Some((of_rank(records[*index]), error_of(records, *index, noticed)?)));
    text += &errors_text(noticed, &firsts(errors.collect()));
    Some(terminal::line(&text))
}

/// The first record of each rank or node.
fn firsts(records: Vec<(u32, &Record)>) -> Vec<&Record> {
    let mut seen = BTreeSet::new();
    records.into_iter().filter(|(whose, _)| seen.insert(*whose)).map(|(_, record)| record).collect()
}

fn tells_mpi_of(record: &Record, ranks: &[u32]) -> bool {
    matches!(&record.event, Event::Raised { dead, .. } if dead.iter().any(|one| ranks.contains(one)))
}

/// The first error in the rank that learns of a death in record `index`, before it learns of another one. A broken
/// connection, or others who have revoked, may have told it before.
fn error_of<'a>(records: &[&'a Record], index: usize, noticed: &Record) -> Option<&'a Record> {
    let Event::Raised { rank: learner, .. } = &records[index].event else { return None };
    let is_of_it = |one: &&&'a Record| match &one.event {
        Event::Raised { rank, .. } | Event::Error { rank, .. } => rank == learner,
        _ => false,
    };
    let is_error = |one: &&&'a Record| matches!(one.event, Event::Error { .. });
    let before = records[..index].iter().rev().find(is_of_it).filter(is_error);
    let before = before.filter(|error| error.clock == noticed.clock && error.at_us >= noticed.at_us);
    before.or_else(|| records[index + 1..].iter().find(is_of_it).filter(is_error)).copied()
}

/// Which errors of MPI followed, in how many ranks, and when.
fn errors_text(noticed: &Record, errors: &[&Record]) -> String {
    let mut ranks: BTreeMap<&str, usize> = BTreeMap::new();
    for error in errors {
        if let Event::Error { class, .. } = &error.event {
            *ranks.entry(class).or_default() += 1;
        }
    }
    let spans = errors.iter().map(|error| between(noticed, error));
    let (Some(first), Some(last)) = (spans.clone().min(), spans.max()) else { return String::new() };
    let all: Vec<_> = ranks.iter().map(|(class, count)| format!("{class} in {}", count_of_ranks(*count))).collect();
    let micros = |time: Duration| span(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    format!("; {} after {} to {}", all.join(", "), micros(first), micros(last))
}

fn count_of_ranks(count: usize) -> String {
    format!("{count} rank{}", if count == 1 { "" } else { "s" })
}

fn span_of(earlier: &Record, later: &Record) -> String {
    span(u64::try_from(between(earlier, later).as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_that_somebody_has_edited_is_told_as_it_is() {
        let mut strange = record(1, 2, Event::Measured { what: Measure::Silence, counts: vec![(5, u64::MAX), (6, 1)] });
        // Its tenth byte is inside a letter.
        strange.time = "gestern früh".into();
        let text = of(&[strange]);
        assert!(text.contains("gestern früh") && text.contains("18446744073709551615 silences"), "{text}");
    }

    fn record(at_us: u64, node: u32, event: Event) -> Record {
        let time = format!("2026-01-01T00:00:00.{at_us:06}Z");
        Record { time, at_us, job: "job@1".into(), node, host: format!("h{node}"), event, ..Record::default() }
    }

    #[test]
    fn a_death_is_told_step_by_step_and_in_one_sentence() {
        let dead = |on| Event::RankDead { rank: 5, replica: None, on, reason: "signal:9".into(), by: 2 };
        let error = |rank| Event::Error { rank, class: "MPI_ERR_PROC_FAILED".into(), function: "MPI_Barrier".into() };
        let records = [
            record(1000, 2, Event::Observed { rank: 5, reason: "signal:9".into() }),
            record(1100, 2, dead(2)),
            record(1300, 0, dead(2)),
            record(2000, 0, Event::Raised { rank: 0, dead: vec![5] }),
            // Told again by a ringwatchd that was replaced.
            record(2000, 0, Event::Raised { rank: 0, dead: vec![5] }),
            record(2500, 0, error(0)),
            record(2500, 0, error(0)),
            record(3000, 3, error(3)),
            record(3100, 3, Event::Raised { rank: 3, dead: vec![5] }),
            record(4000, 1, Event::Raised { rank: 2, dead: vec![5] }),
            record(4100, 1, Event::Raised { rank: 2, dead: vec![7] }),
            record(4200, 1, error(2)),
        ];
        let text = of(&records);
        assert!(text.starts_with("job job@1, 2026-01-01, on the clock of node 0\n"), "{text}");
        assert!(
            text.contains(
                "00:00:00.001100   +100 us  node 2 (h2)  knows that rank 5 of node 2 (h2) is dead (killed by signal 9)"
            ),
            "{text}"
        );
        let last = text.lines().last().unwrap();
        assert_eq!(
            last,
            "rank 5 of node 2 (h2) died: noticed by node 2 (h2) at 2026-01-01T00:00:00.001000Z; declared after 100 us; \
             known to 2 nodes after 300 us; known to MPI in 3 ranks after 1 ms to 3 ms; MPI_ERR_PROC_FAILED in 2 ranks after 1.50 ms to 2 ms"
        );
    }

    #[test]
    fn a_node_that_fell_silent_is_noticed_by_who_suspects_it() {
        let records = [
            record(1000, 2, Event::Suspected { peer: 1, silent_us: Some(300_000) }),
            record(1200, 0, Event::Asked { peer: 1 }),
            record(
                5200,
                0,
                Event::NodeDead {
                    peer: 1,
                    reason: "silent".into(),
                    by: 0,
                    suspector: Some(2),
                    ranks: vec![2, 3],
                    replicas: Vec::new(),
                },
            ),
            record(5400, 1, Event::Fenced { rank: 3 }),
        ];
        let text = of(&records);
        assert!(text.contains("suspects node 1: nothing heard for 300 ms"), "{text}");
        assert!(
            text.contains("node 1 with ranks 2, 3 is dead (silent), declared by node 0 (h0), suspected by node 2"),
            "{text}"
        );
        assert!(text.contains("node 1 died: noticed by node 2") && text.contains("fenced after 4.40 ms"), "{text}");
    }
}

//! What the daemons of this node say of events: those of this user, for root those of all users.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use node_abi::greeting::user_in;
use rdma_heartbeat::history::repeats::Repeats;
use rdma_heartbeat::history::{Event, Record, VERSION, feed};
use rdma_heartbeat::report::status;

use crate::unanswered;

/// How long a daemon may be missing before its job counts as over: several times what its plugin needs to start
/// another.
const AGAIN: Duration = Duration::from_secs(5);
/// Longest line that is a record, in bytes.
const LONGEST_LINE: u64 = 1 << 20;
/// Most bytes that are heard of a daemon of another user, who could send without end.
const MOST_OF_OTHERS: u64 = 256 << 20;

/// The user of a daemon's socket, if that is another one than this process's.
pub fn foreign(name: &str) -> Option<u32> {
    user_in(name).filter(|user| *user != nix::unistd::getuid().as_raw())
}

/// The answers of this node's daemons, by name, without those of single nodes of a job whose node 0 has answered, too.
pub fn answers<T>(ask: impl FnOnce(Vec<String>) -> Vec<(String, io::Result<T>)>) -> Result<Vec<(String, T)>, String> {
    let names =
        status::sockets(feed::PREFIX).map_err(|error| format!("the list of local sockets cannot be read: {error}"))?;
    let all = ask(names);
    // A name alone proves nothing: any process can take the name of a node 0.
    let whole = all.iter().filter(|(name, answer)| name.ends_with("/0") && answer.is_ok());
    let whole: BTreeSet<String> = whole.map(|(name, _)| job_of(name).to_owned()).collect();
    let (mut answers, mut silent) = (Vec::new(), Vec::new());
    for (name, answer) in all.into_iter().filter(|(name, _)| name.ends_with("/0") || !whole.contains(job_of(name))) {
        match answer {
            Ok(answer) => answers.push((name, answer)),
            Err(error) => silent.push((name, error)),
        }
    }
    unanswered::complain(&silent);
    Ok(answers)
}

/// The part of a socket's name that the nodes of a job share.
pub fn job_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(job, _)| job)
}

/// Hears a daemon, and the one that takes its place, until the job has ended; a reader that was too slow calls again.
/// Each record is told once.
pub fn listen(name: &str, mut stream: UnixStream, tell: &Sender<Record>) {
    let user = foreign(name);
    let (mut repeats, mut room) = (Repeats::default(), user.map_or(u64::MAX, |_| MOST_OF_OTHERS));
    loop {
        let mut lines = BufReader::new(stream.take(room));
        let mut is_over = false;
        while let Some(line) = next_line(&mut lines) {
            let Some(mut record) = serde_json::from_slice::<Record>(&line).ok().filter(|one| one.version == VERSION)
            else {
                continue;
            };
            record.user = user;
            is_over |= record.node == record.clock && matches!(record.event, Event::Ended { .. });
            if repeats.is_news(&record) && tell.send(record).is_err() {
                return;
            }
        }
        room = lines.get_ref().limit();
        if is_over || room == 0 {
            return;
        }
        let until = Instant::now() + AGAIN;
        stream = loop {
            match feed::call(name, true) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() > until => return,
                Err(_) => std::thread::sleep(AGAIN / 50),
            }
        };
        repeats.begin_again();
    }
}

/// The next line; none at the end, and none where a line is longer than any record.
fn next_line(lines: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    lines.take(LONGEST_LINE).read_until(b'\n', &mut line).ok()?;
    line.ends_with(b"\n").then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_ends_the_talk() {
        let mut lines = BufReader::new(&b"{}\nhalf"[..]);
        assert_eq!((next_line(&mut lines), next_line(&mut lines)), (Some(b"{}\n".to_vec()), None));
        let long = vec![b'x'; 2 << 20];
        assert_eq!(next_line(&mut BufReader::new(&long[..])), None);
    }
}

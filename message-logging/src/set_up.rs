//! What a rank's program has heard before its restore point, which its checkpoints keep: a replacement passes through
//! it by itself, and nobody has to keep these messages for it (thesis, section 5.2.1; there the program leaves out what
//! was before).
//!
//! Calls are recorded with their outcomes and the messages that they have shown. A replacement answers the same calls
//! from the record, and sends nothing: what was sent before the checkpoint is in its log.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use event_log::protocol::call::{Call, Outcome};
use event_log::protocol::units::{Payload, Request};
use serde::{Deserialize, Serialize};

use crate::matching::Message;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What tells this call from others.
    print: u64,
    /// What it has returned.
    pub outcome: Outcome,
    /// Bytes of the message that the last probe had found.
    pub found: u64,
    /// The messages that it has shown, in the order of the outcome.
    pub messages: Vec<Vec<u8>>,
}

/// The calls before the restore point.
#[derive(Debug)]
pub enum SetUp {
    /// They are being made.
    Recording(Record),
    /// A replacement makes them again.
    Repeating(VecDeque<Step>, Payload),
    /// The program is beyond them: the record, as checkpoints keep it.
    Over(Payload),
    /// There are no checkpoints, or the record is of no use.
    Without,
}

/// What has been recorded.
#[derive(Debug)]
pub struct Record {
    steps: Vec<Step>,
    /// Messages of receives that the program has not seen the end of.
    heard: HashMap<Request, Message>,
    bytes: u64,
    limit: u64,
}

/// The receives that an outcome shows.
pub fn shown(outcome: &Outcome) -> Vec<Request> {
    match outcome {
        Outcome::Received { request, .. } => vec![*request],
        Outcome::ReceivedAll(all) => all.iter().map(|(request, _)| *request).collect(),
        _ => Vec::new(),
    }
}

/// What tells a call from others: its kind and arguments, without what it sends.
pub fn print(call: &Call) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::mem::discriminant(call).hash(&mut hasher);
    match call {
        Call::Send { to, channel, payload } => (to, channel, payload.len()).hash(&mut hasher),
        Call::Receive { pattern } | Call::Probe { pattern } | Call::Iprobe { pattern } => pattern.hash(&mut hasher),
        Call::Wait { request } | Call::Cancel { request } => request.hash(&mut hasher),
        Call::WaitAny { requests } | Call::Test { requests } | Call::TestAll { requests } => {
            requests.hash(&mut hasher);
        }
        // What it shows is its outcome.
        Call::Clock { .. } => {}
        // No call of the layer before the restore point.
        Call::AddCommunicator { .. } | Call::Collective { .. } | Call::Checkpoint | Call::CollectGarbage => {}
    }
    hasher.finish()
}

impl SetUp {
    /// At the start of a rank that keeps at most so many bytes.
    pub fn record(limit: u64) -> Self {
        Self::Recording(Record { steps: Vec::new(), heard: HashMap::new(), bytes: 0, limit })
    }

    /// The record of a checkpoint, to be made again; `None` if it is none.
    pub fn repeat(record: Payload) -> Option<Self> {
        let steps: Vec<Step> = postcard::from_bytes(&record).ok()?;
        Some(Self::Repeating(steps.into(), record))
    }

    /// A receive has got its message.
    pub fn hear(&mut self, request: Request, message: &Message) {
        if let Self::Recording(record) = self {
            record.bytes += message.data().len() as u64;
            record.heard.insert(request, message.clone());
        }
    }

    /// A call has had its outcome.
    pub fn note(&mut self, print: u64, outcome: &Outcome, found: usize) {
        let Self::Recording(record) = self else { return };
        let shown = shown(outcome);
        let messages = shown.iter().filter_map(|request| record.heard.remove(request));
        let messages = messages.map(|message| message.data().to_vec()).collect();
        record.steps.push(Step { print, outcome: outcome.clone(), found: found as u64, messages });
        record.bytes += size_of::<Step>() as u64;
        if record.bytes > record.limit {
            *self = Self::Without;
        }
    }

    /// The next call of the record; `None` if this is another one.
    pub fn next(&mut self, print: u64) -> Option<Step> {
        let Self::Repeating(steps, _) = self else { return None };
        steps.pop_front().filter(|step| step.print == print)
    }

    /// The program has come to its restore point. False if it has come there too early, by the record of its life
    /// before.
    pub fn end(&mut self) -> bool {
        let (over, is_right) = match std::mem::replace(self, Self::Without) {
            Self::Recording(record) => {
                let record = postcard::to_stdvec(&record.steps).map(|bytes| Self::Over(bytes.into()));
                (record.unwrap_or(Self::Without), true)
            }
            Self::Repeating(steps, record) => (Self::Over(record), steps.is_empty()),
            other => (other, true),
        };
        *self = over;
        is_right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::LENGTH;
    use event_log::protocol::units::{Channel, Envelope, Pattern};
    use virtual_ranks::packet::Packet;

    const CHANNEL: Channel = Channel { communicator: 0, tag: 5 };
    const FROM: Envelope = Envelope { source: 2, channel: CHANNEL };
    const PATTERN: Pattern = Pattern { communicator: 0, source: None, tag: Some(5) };

    fn message() -> Message {
        Message { envelope: FROM, packet: Packet::Own([&[0; LENGTH][..], &[7, 8]].concat()) }
    }

    /// A receive, its end, and a send.
    fn recorded(limit: u64) -> SetUp {
        let mut set_up = SetUp::record(limit);
        set_up.note(print(&Call::Receive { pattern: PATTERN }), &Outcome::Posted(1), 0);
        set_up.hear(1, &message());
        set_up.note(print(&Call::Wait { request: 1 }), &Outcome::Received { request: 1, envelope: FROM }, 9);
        set_up.note(print(&send(3)), &Outcome::Done, 9);
        set_up
    }

    fn send(length: usize) -> Call {
        Call::Send { to: 1, channel: CHANNEL, payload: vec![0; length].into() }
    }

    fn again() -> SetUp {
        let mut set_up = recorded(1 << 20);
        assert!(set_up.end());
        let SetUp::Over(record) = set_up else { panic!("it is over") };
        SetUp::repeat(record).unwrap()
    }

    #[test]
    fn calls_are_answered_as_they_were_with_the_messages_that_they_have_shown() {
        let mut set_up = again();
        assert_eq!(set_up.next(print(&Call::Receive { pattern: PATTERN })).unwrap().outcome, Outcome::Posted(1));
        let step = set_up.next(print(&Call::Wait { request: 1 })).unwrap();
        assert_eq!((step.messages, step.found), (vec![vec![7, 8]], 9));
        assert!(set_up.next(print(&send(3))).is_some());
        assert!(set_up.end() && matches!(set_up, SetUp::Over(_)));
    }

    #[test]
    fn another_call_and_an_early_restore_point_are_told() {
        assert!(again().next(print(&send(3))).is_none());
        assert!(!again().end());
        let mut set_up = again();
        for call in [Call::Receive { pattern: PATTERN }, Call::Wait { request: 1 }] {
            assert!(set_up.next(print(&call)).is_some());
        }
        assert!(set_up.next(print(&send(4))).is_none(), "another length");
        assert!(set_up.next(print(&send(3))).is_none(), "one call more");
    }

    #[test]
    fn a_record_that_is_too_long_is_dropped() {
        assert!(matches!(recorded(10), SetUp::Without));
    }
}

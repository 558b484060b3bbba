//! What a message is to the processors: how many determinants it carries, and whether a process handles it at all.

use event_log::logger::acceptor::Request;
use event_log::logger::classic::between::Between;
use event_log::logger::ledger::What;
use event_log::logger::message::Message;
use event_log::logger::onesided::region::Operation;

/// Whether it is an access to memory, of which no process there knows.
pub fn is_memory(message: &Message) -> bool {
    matches!(message, Message::Operation { operation: Operation::Read { .. } | Operation::Write { .. }, .. })
}

/// How many determinants a message carries.
pub fn determinants(message: &Message) -> u64 {
    let saved = |what: &What| if let What::Save(determinants) = what { determinants.len() } else { 0 };
    let count = match message {
        Message::Command(command) => saved(&command.what),
        Message::Request { request: Request::Accept { values, .. }, .. } => values.len(),
        Message::Between(Between::Request { request: Request::Accept { values, .. }, .. }) => {
            values.iter().flatten().map(|command| saved(&command.what)).sum()
        }
        _ => 0,
    };
    count as u64
}

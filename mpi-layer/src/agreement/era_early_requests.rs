//! Lets a parent serve orphaned members of an agreement that it does not count among its children.
//!
//! Open MPI's agreements run on a tree. A member whose parent has died sends its contribution to its grandparent. A
//! grandparent that has not sent its own contribution yet accepts it, but later sends the decision only to its known
//! children. If it has not heard of the death by then, it sends the decision to the dead process, and the orphan waits
//! for ever (coll_ftagree_earlyreturning.c: `msg_up` notes early requesters in another state only).
//!
//! ringwatch keeps recent contributions. When this process learns of a death, it replays each of them as a request for
//! the decision: a member that waits gets the decision, all others get data that they already have.
//!
//! A message is an `era_frag_t` around an `era_msg_header_t`.

use std::collections::VecDeque;
use std::sync::Mutex;

use openmpi_internals::layout::{era_frag, era_message};
use openmpi_internals::loaded::ProcessName;
use openmpi_internals::sync::lock;

/// Maximum number of kept contributions. A member that is waited for holds up the next agreement of its communicator,
/// so old contributions are not needed.
const MOST: usize = 256;
/// Bytes before the message header.
const FRAME: usize = era_frag::BYTES;
/// Bytes up to and including the header.
const WHOLE: usize = FRAME + era_message::SIZE;
/// Offsets in the frame: bytes of the whole message, bytes of this fragment.
const LENGTH: usize = era_frag::MSG_LEN;
const PART: usize = era_frag::FRAG_LEN;
/// Offsets in the header: type, number of values, number of newly reported deaths, number of acknowledged deaths.
const KIND: usize = FRAME + era_message::MSG_TYPE;
const COUNT: usize = FRAME + era_message::DT_COUNT;
const NEW_DEAD: usize = FRAME + era_message::NB_NEW_DEAD;
const ACKNOWLEDGED: usize = FRAME + era_message::NB_ACK;
const HEADER: usize = era_message::SIZE;

type Message = [u8; WHOLE];

static CONTRIBUTIONS: Mutex<VecDeque<Message>> = Mutex::new(VecDeque::new());

/// The sender of a message.
pub fn sender(message: &[u8]) -> Option<ProcessName> {
    Some(ProcessName::new(word(message, 0)?, word(message, 4)?))
}

/// Keeps a contribution as a request for the decision. Ignores other messages.
pub fn note(message: &[u8]) {
    let Some(request) = request(message) else { return };
    let mut kept = lock(&CONTRIBUTIONS);
    if kept.len() == MOST {
        kept.pop_front();
    }
    kept.push_back(request);
}

/// The kept requests.
pub fn requests() -> VecDeque<Message> {
    lock(&CONTRIBUTIONS).clone()
}

fn request(message: &[u8]) -> Option<Message> {
    let mut request: Message = message.get(..WHOLE)?.try_into().ok()?;
    // The first fragment of several carries the header, too; a fragment at a nonzero offset has none.
    let is_first = word(message, PART - 4)? == 0;
    if !is_first || word(message, KIND)? != era_message::MSG_UP {
        return None;
    }
    let mut set = |at: usize, value: u32| request[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    set(LENGTH, HEADER as u32);
    set(PART, HEADER as u32);
    set(KIND, era_message::MSG_RESULT_REQUEST);
    // A process that does not know the agreement answers a request about no values with success.
    set(COUNT, 1);
    set(NEW_DEAD, 0);
    set(ACKNOWLEDGED, 0);
    Some(request)
}

fn word(message: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of this type about three values, whose first byte has this offset in the whole.
    fn message(kind: u32, offset: u32) -> Vec<u8> {
        let mut message = vec![0; WHOLE + 12 + 4];
        let mut set = |at: usize, value: u32| message[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        set(0, 7);
        set(4, 5);
        set(LENGTH, 72);
        set(PART - 4, offset);
        set(PART, 72);
        set(KIND, kind);
        set(COUNT, 3);
        set(NEW_DEAD, 1);
        set(ACKNOWLEDGED, 2);
        set(FRAME + 8, 0xa9);
        message
    }

    #[test]
    fn a_contribution_becomes_a_request_for_the_same_agreement_without_values() {
        let request = request(&message(era_message::MSG_UP, 0)).unwrap();
        let words = [LENGTH, PART, KIND, COUNT, NEW_DEAD, ACKNOWLEDGED, FRAME + 8].map(|at| word(&request, at));
        assert_eq!(words, [56, 56, era_message::MSG_RESULT_REQUEST, 1, 0, 0, 0xa9].map(Some));
        assert!(sender(&request) == Some(ProcessName::new(7, 5)));
    }

    #[test]
    fn decisions_requests_later_parts_and_torn_messages_are_not_kept() {
        for other in [
            message(2, 0),
            message(era_message::MSG_RESULT_REQUEST, 0),
            message(era_message::MSG_UP, 56),
            message(era_message::MSG_UP, 0)[..80].to_vec(),
        ] {
            assert!(request(&other).is_none());
        }
        assert!(sender(&[0; 7]).is_none());
    }

    #[test]
    fn the_latest_contributions_are_kept() {
        for number in 0..MOST as u32 + 3 {
            let mut contribution = message(era_message::MSG_UP, 0);
            contribution[FRAME + 8..FRAME + 12].copy_from_slice(&number.to_ne_bytes());
            note(&contribution);
        }
        let kept = requests();
        assert_eq!((kept.len(), word(&kept[0], FRAME + 8)), (MOST, Some(3)));
    }
}

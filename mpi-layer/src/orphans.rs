//! Members of an agreement whose parent does not know that it is theirs.
//!
//! Open MPI's agreements run on a tree. A member whose parent has died sends its contribution to the next one above. Who
//! gets it before it has given its own on takes it, and tells the decision later to those that it takes for its children:
//! if it has not heard of the death by then, it tells the dead, and the other one waits for ever
//! (coll_ftagree_earlyreturning.c, `msg_up` notes early requesters in another state only). So contributions are kept for a
//! while, and when this process hears of a death, those who sent them have asked again: who waits gets the decision, all
//! others get what they know.
//!
//! A message is an `era_frag_t` around an `era_msg_header_t`; offsets are those of x86-64.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::line::lock;
use crate::openmpi::ProcessName;

/// So many contributions are kept: a member that is waited for holds up the next agreement of its communicator.
const MOST: usize = 256;
/// Bytes before the header: name of the sender, number, length, offset and length of this part.
const FRAME: usize = 28;
const LENGTH: usize = 16;
const PART: usize = 24;
/// Of the header: its type, how many values are agreed on, deaths that are told, and deaths that were acknowledged.
const KIND: usize = FRAME;
const COUNT: usize = FRAME + 40;
const NEW_DEAD: usize = FRAME + 48;
const ACKNOWLEDGED: usize = FRAME + 52;
/// `sizeof(era_msg_header_t)`, and with what is before it.
const HEADER: usize = 56;
const WHOLE: usize = FRAME + HEADER;
/// `MSG_UP` and `MSG_RESULT_REQUEST`.
const CONTRIBUTION: u32 = 1;
const REQUEST: u32 = 3;

type Message = [u8; WHOLE];

static CONTRIBUTIONS: Mutex<VecDeque<Message>> = Mutex::new(VecDeque::new());

/// Who has sent a message.
pub fn sender(message: &[u8]) -> Option<ProcessName> {
    Some(ProcessName::new(word(message, 0)?, word(message, 4)?))
}

/// Keeps a contribution as the request for the decision that it would be if it came again. Other messages are none.
pub fn note(message: &[u8]) {
    let Some(request) = request(message) else { return };
    let mut kept = lock(&CONTRIBUTIONS);
    if kept.len() == MOST {
        kept.pop_front();
    }
    kept.push_back(request);
}

/// What those who have contributed so far would ask for.
pub fn requests() -> VecDeque<Message> {
    lock(&CONTRIBUTIONS).clone()
}

fn request(message: &[u8]) -> Option<Message> {
    let mut request: Message = message.get(..WHOLE)?.try_into().ok()?;
    // The first part of several has the header, too; where it begins with an offset there is none.
    let is_first = word(message, PART - 4)? == 0;
    if !is_first || word(message, KIND)? != CONTRIBUTION {
        return None;
    }
    let mut set = |at: usize, value: u32| request[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    set(LENGTH, HEADER as u32);
    set(PART, HEADER as u32);
    set(KIND, REQUEST);
    // A request about no values is answered with success by who does not know the agreement.
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

    /// A message of this kind about three values, with this offset of its first byte in the whole.
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
        let request = request(&message(CONTRIBUTION, 0)).unwrap();
        let words = [LENGTH, PART, KIND, COUNT, NEW_DEAD, ACKNOWLEDGED, FRAME + 8].map(|at| word(&request, at));
        assert_eq!(words, [56, 56, REQUEST, 1, 0, 0, 0xa9].map(Some));
        assert!(sender(&request) == Some(ProcessName::new(7, 5)));
    }

    #[test]
    fn decisions_requests_later_parts_and_torn_messages_are_not_kept() {
        for other in
            [message(2, 0), message(REQUEST, 0), message(CONTRIBUTION, 56), message(CONTRIBUTION, 0)[..80].to_vec()]
        {
            assert!(request(&other).is_none());
        }
        assert!(sender(&[0; 7]).is_none());
    }

    #[test]
    fn the_latest_contributions_are_kept() {
        for number in 0..MOST as u32 + 3 {
            let mut contribution = message(CONTRIBUTION, 0);
            contribution[FRAME + 8..FRAME + 12].copy_from_slice(&number.to_ne_bytes());
            note(&contribution);
        }
        let kept = requests();
        assert_eq!((kept.len(), word(&kept[0], FRAME + 8)), (MOST, Some(3)));
    }
}

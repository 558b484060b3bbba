//! The bytes of a slot.

use event_log::determinant::{Determinant, Event};
use event_log::logger::entry::Entry;
use event_log::logger::onesided::slot::{EMPTY, decode, encode};
use event_log::logger::round::Round;

fn entry(id: u64, event: Event) -> Entry {
    let determinant = Determinant { id, event, communicator: 3, source: 17, tag: -5, request: 1 << 40, repetitions: 9 };
    Entry { origin: Round { number: 2, proposer: 40 }, is_first: id % 2 == 0, determinant }
}

#[test]
fn an_entry_comes_back_as_it_was_written() {
    let round = Round { number: 7, proposer: u32::MAX };
    for event in [Event::Receive, Event::Probe, Event::Iprobe, Event::Test, Event::WaitAny] {
        for id in [1, 2, u64::MAX] {
            assert_eq!(decode(&encode(round, &entry(id, event))), Some((round, entry(id, event))));
        }
    }
    assert_eq!(decode(&EMPTY), None);
}

#[test]
fn a_slot_that_was_written_in_part_is_recognised_wherever_it_was_cut() {
    let old = encode(Round::first(1), &entry(5, Event::Receive));
    let new = encode(Round::first(1), &entry(9, Event::Test));
    for cut in 0..=64 {
        for (from, to) in [(old, new), (EMPTY, new)] {
            // The front arrives first, or the back does.
            let front: Vec<u8> = [&to[..cut], &from[cut..]].concat();
            let back: Vec<u8> = [&from[..cut], &to[cut..]].concat();
            for torn in [front, back] {
                let torn = torn.try_into().expect("64 bytes");
                assert!(torn == from || torn == to || decode(&torn).is_none(), "cut at {cut}");
            }
        }
    }
}

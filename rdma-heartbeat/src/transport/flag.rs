//! Defines the value of a flag: a heartbeat's number, authenticated as the neighbour's.
//!
//! | bits | content |
//! |---:|---|
//! | 63 to 32 | number of the heartbeat through this slot, from 1 |
//! | 31 to 0 | the first 4 bytes of BLAKE3 over that number, with a key for this slot |
//!
//! RDMA packets are neither secret nor authenticated: any party that can read the link and send on it can write a slot.
//! A slot's key is derived from the job's key, both nodes and the number of the slot's offer, so only the two nodes can
//! make its values, and no value is valid in another slot or offer. A repeated value is not higher and has no effect. A
//! guess succeeds once in 2³² tries, and an observer checks one per millisecond: 25 days of continuous guesses on
//! average. A success delays the suspicion of that node by one timeout; or, if its count was far ahead, it makes the
//! node's own flags old, so that the node is suspected and has to answer a probe.
//!
//! # Memory ordering
//!
//! A flag is one aligned word and publishes no other data: a reader of a flag reads nothing else that was written
//! before it. So [`ORDERING`] is relaxed on both sides. The required property holds for every single atomic word: one
//! order of its values that all readers agree on. A reader then never sees an earlier heartbeat after a later one, sees
//! each at most once, and in finite time the last; a skipped value was overtaken, which the number shows. For shared
//! memory `flags/model.rs` checks every execution that the memory model permits. For RDMA the device writes the word:
//! the standard promises neither atomicity nor a time. The MAC covers the first; the second is a late heartbeat.

use std::sync::atomic::Ordering;

use propagation::NodeId;

/// Memory ordering of stores and loads of flags.
pub const ORDERING: Ordering = Ordering::Relaxed;

/// Makes and checks the values of one slot.
#[derive(Clone)]
pub struct FlagKey([u8; 32]);

impl FlagKey {
    /// The key of the slot of offer number `epoch`, in which `from` reports to `to`.
    #[must_use]
    pub fn new(job_key: &[u8; 32], from: NodeId, to: NodeId, epoch: u64) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(job_key);
        // 20 bytes: longer inputs of the same key authenticate datagrams.
        hasher.update(b"flag").update(&from.to_le_bytes()).update(&to.to_le_bytes()).update(&epoch.to_le_bytes());
        Self(*hasher.finalize().as_bytes())
    }

    /// The value of heartbeat `count`.
    #[must_use]
    pub fn value(&self, count: u32) -> u64 {
        u64::from(count) << 32 | u64::from(self.first_bytes(&count.to_le_bytes()))
    }

    /// The heartbeat number of a value; `None` if it was not made with this key.
    #[must_use]
    pub fn count(&self, value: u64) -> Option<u32> {
        let count = (value >> 32) as u32;
        (self.value(count) == value).then_some(count)
    }

    /// A secret number of 24 bits, common to both ends: the connection's first packet number.
    #[must_use]
    pub fn first_packet(&self) -> u32 {
        self.first_bytes(b"packet") >> 8
    }

    fn first_bytes(&self, input: &[u8]) -> u32 {
        let hash = blake3::keyed_hash(&self.0, input);
        u32::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash is longer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_for_its_slot_and_its_count_only() {
        let key = FlagKey::new(&[7; 32], 1, 2, 3);
        for count in [1, 2, 77, u32::MAX] {
            assert_eq!(key.count(key.value(count)), Some(count));
            for bit in 0..64 {
                assert_eq!(key.count(key.value(count) ^ 1 << bit), None, "{count} {bit}");
            }
        }
        for other in [([8; 32], 1, 2, 3), ([7; 32], 2, 1, 3), ([7; 32], 1, 3, 3), ([7; 32], 1, 2, 4)] {
            assert_eq!(FlagKey::new(&other.0, other.1, other.2, other.3).count(key.value(1)), None);
        }
        assert!(key.first_packet() < 1 << 24);
        assert_ne!(key.count(0), Some(0));
    }
}

//! The context id and the epoch of a communicator: what Open MPI's agreements and revocations name it by.
//!
//! Open MPI counts epochs from 1. Bits that its counts do not reach tell apart what both libraries of ringwatch make:
//!
//! | bit | communicator |
//! |---|---|
//! | 31 | a shadow for agreements of its own, made by the component in ranks |
//! | 30 | alone: a shadow for shrinks, made by `libringwatch`; with bit 31: a shadow of a communicator that is being made |
//! | 29 | its epoch is a hash of all that its members know of it ([`hashed`]) |
//! | 28 | its number was claimed ([`claimed`]) |

use crate::object::Object;
use crate::v5_0::layout::communicator::{C_EPOCH, CID_SUB};

const SHADOW: u32 = 1 << 31;
const EARLY: u32 = 1 << 30;
const HASHED: u32 = 1 << 29;
const CLAIMED: u32 = 1 << 28;

/// The number that a communicator has at all members.
///
/// # Safety
/// A communicator that lives and has its number, in an Open MPI that fits.
pub unsafe fn number_of(comm: Object) -> u64 {
    // SAFETY: as required of the caller.
    unsafe { comm.byte_add(CID_SUB).cast::<u64>().read() }
}

/// # Safety
/// As of [`number_of`].
pub unsafe fn epoch_of(comm: Object) -> u32 {
    // SAFETY: as required of the caller.
    unsafe { comm.byte_add(C_EPOCH).cast::<u32>().read() }
}

/// An epoch that is made of any hash.
pub fn hashed(hash: u32) -> u32 {
    (hash % HASHED) | HASHED
}

/// Whether an epoch is made of a hash.
pub fn is_hashed(epoch: u32) -> bool {
    epoch & HASHED != 0
}

/// An epoch that is made of a count of claimed numbers.
pub fn claimed(count: u32) -> u32 {
    (count % CLAIMED) | CLAIMED
}

/// The epoch of the shadow of a communicator with this epoch.
pub fn of_shadow(epoch: u32) -> u32 {
    epoch | SHADOW
}

/// The same of one that is being made.
pub fn of_early_shadow(epoch: u32) -> u32 {
    epoch | SHADOW | EARLY
}

/// The epoch of a shadow for shrinks, made of any hash.
pub fn of_shrinks(hash: u32) -> u32 {
    (hash % EARLY) | EARLY
}

/// Whether a communicator that lives is a shadow, in an Open MPI that fits; in another one the answer means nothing.
pub fn is_shadow(comm: Object) -> bool {
    // SAFETY: a word within any communicator.
    unsafe { epoch_of(comm) & (SHADOW | EARLY) != 0 }
}

/// Whether this is the epoch of a shadow for shrinks.
pub fn is_of_shrinks(epoch: u32) -> bool {
    epoch & (SHADOW | EARLY) == EARLY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_kinds_have_the_same_epoch() {
        for count in [1, 2, 77] {
            let kinds =
                [count, hashed(count), claimed(count), of_shadow(count), of_early_shadow(count), of_shrinks(count)];
            for (index, kind) in kinds.iter().enumerate() {
                assert!(!kinds[..index].contains(kind), "{kind:#x}");
            }
            assert_eq!(kinds.map(is_hashed), [false, true, false, false, false, false]);
            assert_eq!(kinds.map(is_of_shrinks), [false, false, false, false, false, true]);
        }
    }

    #[test]
    fn a_hash_has_no_bit_of_a_shadow() {
        assert_eq!(hashed(u32::MAX) >> 29, 1);
    }
}

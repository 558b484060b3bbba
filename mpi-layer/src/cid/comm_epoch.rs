//! Gives communicators epochs that distinguish any two of them.
//!
//! Open MPI's agreements and revocations name a communicator by its context id, which is reused, and by a counter, the
//! epoch. A new communicator gets a higher epoch than any of its members' counters, but each member then increments its
//! own counter only by one (`ompi_comm_nextcid_check_flag`). A process that belongs to one communicator and later to
//! another one with other members may see both with the same context id and epoch. The last decision of the first,
//! which its members keep for late requests, then answers a request of the second: one member continues alone, and the
//! others wait for it for ever.
//!
//! ringwatch hashes the epoch from all that members know of their communicator: its context id and Open MPI's epoch,
//! those of its parent, and the members. For the same parent and members Open MPI's epochs increase.

use std::ffi::c_int;

use openmpi_internals::communicator::Internals;
use openmpi_internals::epoch_bits::{self, epoch_of, number_of};
use openmpi_internals::group;
use openmpi_internals::layout::cid_mode::{
    OMPI_COMM_CID_GROUP, OMPI_COMM_CID_INTER, OMPI_COMM_CID_INTER_FT, OMPI_COMM_CID_INTRA, OMPI_COMM_CID_INTRA_BRIDGE,
    OMPI_COMM_CID_INTRA_FT,
};
use openmpi_internals::layout::communicator::{C_CONTEXTID, C_EPOCH};
use openmpi_internals::loaded::ProcessName;
use openmpi_internals::object::Object;

/// Modes in which all members belong to one parent. With another parent, or with two, the other side may still be in
/// `MPI_Init`, where ringwatch is not active yet.
const MODES: [c_int; 5] =
    [OMPI_COMM_CID_INTRA, OMPI_COMM_CID_INTER, OMPI_COMM_CID_GROUP, OMPI_COMM_CID_INTRA_FT, OMPI_COMM_CID_INTER_FT];

/// Sets the epoch of a communicator that is made from `comm`. It has its context id, and no member can have sent a
/// message in it. A second call does nothing.
///
/// # Safety
/// Arguments of Open MPI.
pub unsafe fn set_epoch(made: Object, comm: Object, mode: c_int) {
    if !MODES.contains(&mode) && mode != OMPI_COMM_CID_INTRA_BRIDGE || Internals::fitting().is_none() {
        return;
    }
    // SAFETY: as required of the caller; the offsets are those of the known layout.
    unsafe {
        if let Some(sides) = group::of(made).filter(|_| !epoch_bits::is_hashed(epoch_of(made))) {
            // With two parents each side has its own `comm`.
            let others = if mode == OMPI_COMM_CID_INTRA_BRIDGE { None } else { Some(comm) };
            let known: Vec<_> = Some(made).into_iter().chain(others).map(|comm| known_of(comm)).collect();
            made.byte_add(C_EPOCH).cast::<u32>().write(epoch(&known, &sides));
        }
    }
}

/// # Safety
/// As of [`number_of`].
unsafe fn known_of(comm: Object) -> (u64, u64, u32) {
    // SAFETY: as required of the caller.
    unsafe { (comm.byte_add(C_CONTEXTID).cast::<u64>().read(), number_of(comm), epoch_of(comm)) }
}

/// The epoch, equal at all members: on an intercommunicator each side lists its own group first, so sides are sorted.
fn epoch(known: &[(u64, u64, u32)], sides: &[Vec<ProcessName>]) -> u32 {
    let mut sides: Vec<Vec<u8>> =
        sides.iter().map(|side| side.iter().flat_map(|name| name.bytes()).collect()).collect();
    sides.sort();
    let mut hasher = blake3::Hasher::new();
    for (base, number, epoch) in known {
        hasher.update(&base.to_le_bytes()).update(&number.to_le_bytes()).update(&epoch.to_le_bytes());
    }
    for side in sides {
        hasher.update(&side.len().to_le_bytes()).update(&side);
    }
    let [first, second, third, fourth, ..] = *hasher.finalize().as_bytes();
    epoch_bits::hashed(u32::from_le_bytes([first, second, third, fourth]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[(u64, u64, u32)] = &[(0, 3, 7), (0, 0, 0)];

    fn side(ranks: &[u32]) -> Vec<ProcessName> {
        ranks.iter().map(|rank| ProcessName::new(0x1_0001, *rank)).collect()
    }

    #[test]
    fn what_is_made_of_another_or_with_others_has_another_epoch() {
        let first = epoch(KNOWN, &[side(&[0, 1])]);
        assert_eq!(first, epoch(KNOWN, &[side(&[0, 1])]));
        let others: [&[(u64, u64, u32)]; 4] =
            [&[(0, 3, 8), (0, 0, 0)], &[(0, 4, 7), (0, 0, 0)], &[(1, 3, 7), (0, 0, 0)], &[(0, 3, 7), (0, 3, 2)]];
        for known in others {
            assert_ne!(first, epoch(known, &[side(&[0, 1])]), "{known:?}");
        }
        for ranks in [[1, 0], [0, 2]] {
            assert_ne!(first, epoch(KNOWN, &[side(&ranks)]), "{ranks:?}");
        }
        assert_ne!(epoch(KNOWN, &[side(&[0]), side(&[1, 2])]), epoch(KNOWN, &[side(&[0, 1]), side(&[2])]));
    }

    #[test]
    fn both_sides_have_the_same() {
        let (one, other) = (side(&[0, 2]), side(&[1]));
        assert_eq!(epoch(KNOWN, &[one.clone(), other.clone()]), epoch(KNOWN, &[other, one]));
    }

    #[test]
    fn no_count_of_open_mpi_and_no_shadow_has_it() {
        for number in 0..1000 {
            let epoch = epoch(&[(0, number, 1), (0, 0, 0)], &[side(&[0, 1])]);
            assert_eq!(epoch >> 29, 1, "{epoch:#x}");
        }
    }
}

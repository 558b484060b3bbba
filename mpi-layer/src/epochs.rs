//! Two communicators are never taken for each other.
//!
//! Open MPI's agreements and revocations name a communicator by its number, which is used again, and by a count, the epoch.
//! A new one gets a higher epoch than any that its members have counted up to, but each of them then counts one further only
//! (`ompi_comm_nextcid_check_flag`): a process that is in one communicator, and after that was freed in one with others, may
//! find both with the same number and the same epoch. What the first has agreed on last, which its members keep for who may
//! ask later, is the answer of the second then: who asks first goes on without the others, and these wait for it in vain.
//!
//! Here the epoch is made of all that the members know of their communicator: Open MPI's number and epoch of it, those of the one
//! that it is made of, and who they are. Of the same one, and with the same members, Open MPI's epochs rise.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use crate::internals::Internals;
use crate::members;
use crate::objects::Object;
use crate::openmpi::{Library, ProcessName};
use crate::requests::Request;
use crate::statement::ERR_INTERN;

/// Of `ompi_communicator_t`: what revocations and agreements tell communicators apart with, and what is in front of that where
/// no number is settled (`MPI_Comm_create_from_group`).
pub const CONTEXT_ID: usize = 0xb0;
pub const EPOCH: usize = 0xe8;
pub const CONTEXT_BASE: usize = 0xa8;
/// A bit that no count of Open MPI's reaches, below those of the [`shadows`](crate::shadows).
const MADE: u32 = 1 << 29;
/// `OMPI_COMM_CID_INTRA`, `_INTER`, `_GROUP`, `_INTRA_FT` and `_INTER_FT`: made of a communicator that all members are in; and
/// `_INTRA_BRIDGE`, of two. Otherwise the other side may be in its `MPI_Init`, where ringwatch is not yet.
const MODES: [c_int; 5] = [0x20, 0x40, 0x200, 0x800, 0x1000];
const OF_TWO: c_int = 0x80;

const ACTIVATE: &CStr = c"ompi_comm_activate_nb";

#[rustfmt::skip]
pub type Activate =
    unsafe extern "C" fn(Object, Object, Object, *const c_void, *const c_void, bool, c_int, *mut *mut Request) -> c_int;

static STOCK: OnceLock<Activate> = OnceLock::new();

/// Stands where communicators are made by a rank of a fault-tolerant job that is not watched: it has to name them as the others
/// do. At the end of `MPI_Init`.
pub fn watch() {
    let (Some(library), None) = (Library::loaded(), STOCK.get()) else { return };
    // SAFETY: the type is that of communicator.h; a function of the same type takes its place.
    unsafe {
        if library.function(ACTIVATE).is_some_and(|stock| STOCK.set(stock).is_ok()) {
            library.redirect(ACTIVATE, activate as *const _);
        }
    }
}

unsafe extern "C" fn activate(
    made: Object,
    comm: Object,
    bridge: Object,
    first: *const c_void,
    second: *const c_void,
    sends_first: bool,
    mode: c_int,
    request: *mut *mut Request,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: Open MPI passes where the communicator that is being made stands; the stock function gets what was meant for it.
    unsafe {
        numbered(made.cast::<Object>().read(), comm, mode);
        stock(made, comm, bridge, first, second, sends_first, mode, request)
    }
}

/// A communicator that is made of `comm` has its number, and nobody can have sent anything in it. The second time does nothing.
///
/// # Safety
/// What Open MPI passes.
pub unsafe fn numbered(made: Object, comm: Object, mode: c_int) {
    if !MODES.contains(&mode) && mode != OF_TWO || Internals::fitting().is_none() {
        return;
    }
    // SAFETY: as required of the caller; the places are those of an Open MPI that fits.
    unsafe {
        if let Some(sides) = members::of(made).filter(|_| epoch_of(made) & MADE == 0) {
            // Each side has its own in `comm` where there are two.
            let others = if mode == OF_TWO { None } else { Some(comm) };
            let known: Vec<_> = Some(made).into_iter().chain(others).map(|comm| known_of(comm)).collect();
            made.byte_add(EPOCH).cast::<u32>().write(epoch(&known, &sides));
        }
    }
}

/// An epoch that is made of any count.
pub fn made(count: u32) -> u32 {
    (count % MADE) | MADE
}

/// The number that a communicator has at all members.
///
/// # Safety
/// A communicator that lives and has its number, in an Open MPI that fits.
pub unsafe fn number_of(comm: Object) -> u64 {
    // SAFETY: as required of the caller.
    unsafe { comm.byte_add(CONTEXT_ID).cast::<u64>().read() }
}

/// # Safety
/// As of [`number_of`].
pub unsafe fn epoch_of(comm: Object) -> u32 {
    // SAFETY: as required of the caller.
    unsafe { comm.byte_add(EPOCH).cast::<u32>().read() }
}

/// # Safety
/// As of [`number_of`].
unsafe fn known_of(comm: Object) -> (u64, u64, u32) {
    // SAFETY: as required of the caller.
    unsafe { (comm.byte_add(CONTEXT_BASE).cast::<u64>().read(), number_of(comm), epoch_of(comm)) }
}

/// The same at all members: of two sides each sees its own first.
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
    made(u32::from_le_bytes([first, second, third, fourth]))
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

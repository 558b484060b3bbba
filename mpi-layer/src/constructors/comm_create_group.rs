//! Lets `MPI_Comm_create_group` succeed although a process outside its group is dead.
//!
//! Open MPI 5.0.7 refuses it on a communicator with any dead member, in code that is inlined into the function
//! (`ompi_comm_iface_create_check` in communicator.h). So programs call ringwatch's function instead
//! ([`symbol_table`]), which omits that check. The constructor itself checks the members of the group
//! ([`steps`](crate::constructors::steps)).
//!
//! After a call that a death has ended, the program may call again for the survivors. Messages of the first call may
//! still be unreceived. In Open MPI they have the program's tag, so a second call with the same tag would receive them.
//! ringwatch uses a hash of the program's tag and the members as tag. A group whose call has failed has a dead member,
//! so no later call of that group succeeds.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use crate::constructors::steps;
use crate::failure::error_report;
use crate::in_front::in_front;
use crate::properties::communicators;
use openmpi_internals::abi::CommCreateGroup;
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::functions::OMPI_COMM_CREATE_GROUP;
use openmpi_internals::group;
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::object::Object;
use openmpi_internals::symbol_table::{self, Replacement};

const NAMES: [&CStr; 2] = [c"PMPI_Comm_create_group", c"MPI_Comm_create_group"];
/// Bit of ringwatch's tags. Tags of programs are least likely to have it.
const OURS: u32 = 1 << 30;

type AtProgram = unsafe extern "C-unwind" fn(Object, Object, c_int, *mut Object) -> c_int;

struct Stock {
    create: CommCreateGroup,
    at_program: AtProgram,
    own_rank: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
}

static STOCK: OnceLock<Stock> = OnceLock::new();

/// Interposes on this constructor. At the end of `MPI_Init`.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the types are those of mpi.h and communicator.h; functions of the same types take their places.
    unsafe {
        let stock = Stock {
            create: at.function(OMPI_COMM_CREATE_GROUP)?,
            at_program: at.standard(NAMES[0])?,
            own_rank: at.standard(c"PMPI_Group_rank")?,
        };
        let replacement =
            Replacement { names: NAMES, stock: stock.at_program as *const c_void, ours: at_program as *const c_void };
        let _ = STOCK.set(stock);
        at.redirect(OMPI_COMM_CREATE_GROUP, create)?;
        let is_called = symbol_table::announce(&[replacement]) && symbol_table::take_calls(&[replacement]);
        if is_called { Ok(()) } else { Err(Missing::Calls(NAMES[1])) }
    }
}

in_front! { stock = STOCK.get(), or ERR_INTERN;
    /// The function that a program calls.
    unsafe extern "C-unwind" fn at_program(comm: Object, group: Object, tag: c_int, made: *mut Object) -> c_int {
        let are_there = !group.is_null() && !made.is_null() && tag >= 0 && communicators::lives(comm);
        let mut rank = -1;
        // SAFETY: a group, and the arguments for Open MPI's function.
        unsafe {
            if !are_there || (stock.own_rank)(group, &mut rank) != 0 || rank < 0 {
                return (stock.at_program)(comm, group, tag, made);
            }
            let code = create(comm, group, tag, made);
            if code != 0 {
                error_report::raise(comm, code, NAMES[1]);
            }
            code
        }
    }
}

in_front! { stock = STOCK.get(), or ERR_INTERN;
    unsafe extern "C" fn create(comm: Object, group: Object, tag: c_int, made: *mut Object) -> c_int {
        // SAFETY: Open MPI's function with its original arguments.
        unsafe {
            let own_tag = group::names(group).map_or(tag, |names| {
                let mut hasher = blake3::Hasher::new();
                hasher.update(&tag.to_le_bytes());
                names.iter().for_each(|name| _ = hasher.update(&name.bytes()));
                tag_of(&hasher.finalize())
            });
            steps::creating(comm, group, || (stock.create)(comm, group, own_tag, made))
        }
    }
}

fn tag_of(hash: &blake3::Hash) -> c_int {
    let [first, second, third, fourth, ..] = *hash.as_bytes();
    (u32::from_le_bytes([first, second, third, fourth]) & (OURS - 1) | OURS) as c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_valid_and_are_those_of_a_group() {
        let tags: Vec<_> = (0_u32..1000).map(|name| tag_of(&blake3::hash(&name.to_le_bytes()))).collect();
        assert!(tags.iter().all(|tag| *tag >= OURS as c_int), "{tags:?}");
        let mut different = tags.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), tags.len());
    }
}

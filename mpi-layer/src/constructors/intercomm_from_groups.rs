//! Makes `MPI_Intercomm_create_from_groups` end at every member when a process dies in the call or before it.
//!
//! In Open MPI 5.0.7 the members of both groups choose the context id in the runtime (`PMIx_Group_construct`), where a
//! death blocks all of them. A leader that cannot continue leaves its group in a broadcast
//! (`ompi_intercomm_create_from_groups` in comm.c). ringwatch composes the constructor of ones that end: a communicator
//! of each group, one of the two leaders ([`create_from_group`](crate::constructors::create_from_group)), and with
//! these an `MPI_Intercomm_create` ([`intercomm_create`](crate::constructors::intercomm_create)). These communicators
//! are private, so a revocation there means a death.
//!
//! The call succeeds at all living members of both groups or at none, whatever the parameter for uniformity: a member
//! that gets an error has no communicator to revoke. Its next call with the same groups would wait for members that
//! left this call with success, and they would wait for it.
//!
//! If a group fails to make its communicator, its leader still takes part in the leaders' communicator, and reports its
//! failure there, so that the other leader does not wait. A leader without a leaders' communicator notifies its group.
//!
//! Leaders of several mpiruns still connect in the runtime.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::OnceLock;

use crate::constructors::{create_from_group, intercomm_create};
use crate::in_front::in_front;
use crate::properties::communicators;
use crate::properties::error_scope::Scope;
use crate::properties::error_uniformity::Uniformity;
use crate::properties::info_property::{SCOPE, UNIFORMITY};
use openmpi_internals::abi::{CommCreateFromGroup, IntercommCreateFromGroups};
use openmpi_internals::comm_api::Communicator;
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::{ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use openmpi_internals::functions::{OMPI_COMM_CREATE_FROM_GROUP, OMPI_INTERCOMM_CREATE_FROM_GROUPS};
use openmpi_internals::group;
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::loaded::ProcessName;
use openmpi_internals::object::Object;
use openmpi_internals::variables::OMPI_MPI_COMM_NULL;

struct Stock {
    of_one: CommCreateFromGroup,
    of_two: IntercommCreateFromGroups,
    own_rank: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    pick: unsafe extern "C" fn(Object, c_int, *const c_int, *mut Object) -> c_int,
    union: unsafe extern "C" fn(Object, Object, *mut Object) -> c_int,
    free: unsafe extern "C" fn(*mut Object) -> c_int,
    /// `MPI_COMM_NULL`
    null: Object,
}

// SAFETY: addresses of objects that live as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

static STOCK: OnceLock<Stock> = OnceLock::new();

/// Interposes on this constructor. At the end of `MPI_Init`.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the types are those of communicator.h and mpi.h; our function has the type of the replaced one.
    unsafe {
        let stock = Stock {
            of_one: at.function(OMPI_COMM_CREATE_FROM_GROUP)?,
            of_two: at.function(OMPI_INTERCOMM_CREATE_FROM_GROUPS)?,
            own_rank: at.standard(c"PMPI_Group_rank")?,
            pick: at.standard(c"PMPI_Group_incl")?,
            union: at.standard(c"PMPI_Group_union")?,
            free: at.standard(c"PMPI_Group_free")?,
            null: at.predefined(OMPI_MPI_COMM_NULL)?,
        };
        let _ = STOCK.set(stock);
        at.redirect(OMPI_INTERCOMM_CREATE_FROM_GROUPS, create)?;
    }
    Ok(())
}

in_front! { stock = STOCK.get(), or ERR_INTERN;
    unsafe extern "C" fn create(
        group: Object, leader: c_int, others: Object, other_leader: c_int, tag: *const c_char, info: Object,
        handler: Object, made: *mut Object
    ) -> c_int {
        // SAFETY: arguments of Open MPI, and its function with its original arguments.
        unsafe {
            let name = |group, rank: c_int| group::names(group)?.get(usize::try_from(rank).ok()?).copied();
            let make = || {
                let (Some(mpi), Some(own)) = (Internals::fitting(), name(group, leader)) else { return None };
                let mut rank = -1;
                (stock.own_rank)(group, &mut rank);
                let other = match rank == leader {
                    true => Some((others, other_leader, name(others, other_leader)?)),
                    false => None,
                };
                let call = Call { stock, mpi, tag: CStr::from_ptr(tag), info, handler };
                made.write(stock.null);
                Some(call.make((group, leader, own), other, made))
            };
            let of_two = || (stock.of_two)(group, leader, others, other_leader, tag, info, handler, made);
            make().unwrap_or_else(of_two)
        }
    }
}

/// A group, with the rank and the name of its leader.
type Led = (Object, c_int, ProcessName);

struct Call<'a> {
    stock: &'a Stock,
    mpi: &'a Internals,
    tag: &'a CStr,
    info: Object,
    handler: Object,
}

impl Call<'_> {
    /// Returns the code. Only the leader knows the other group.
    ///
    /// # Safety
    /// Live groups, in an Open MPI of the known layout, and the place of the new communicator.
    unsafe fn make(&self, own: Led, other: Option<Led>, made: *mut Object) -> c_int {
        // SAFETY: as required of the caller; no other code knows the communicators made here.
        unsafe {
            let local = self.of_group(own.0, own.2, "group");
            let bridge = other.map(|other| {
                let fails = local.is_err();
                let bridge = create_from_group::failing(fails, || self.of_leaders(own, other));
                if let (true, Ok(bridge)) = (fails, bridge) {
                    // Made in the runtime, which does not know of a failure.
                    communicators::revoke(Communicator::from_handle(bridge));
                }
                bridge
            });
            let code = match local {
                Err(code) => code,
                Ok(local) => {
                    let place = other.map_or(0, |other| c_int::from(own.2.bytes() < other.2.bytes()));
                    let code =
                        intercomm_create::cross(local, own.1, bridge.unwrap_or(Ok(self.stock.null)), place, made);
                    self.mpi.free(local);
                    if code == ERR_REVOKED { ERR_PROC_FAILED } else { code }
                }
            };
            if let Some(Ok(bridge)) = bridge {
                self.mpi.free(bridge);
            }
            if let (0, Some(handles)) = (code, communicators::handles()) {
                handles.take_info(Communicator::from_handle(*made), self.info);
            }
            code
        }
    }

    /// Makes a communicator of the two leaders, ordered by name.
    ///
    /// # Safety
    /// As of [`make`](Self::make).
    unsafe fn of_leaders(&self, own: Led, other: Led) -> Result<Object, c_int> {
        let (first, second) = if own.2.bytes() < other.2.bytes() { (own, other) } else { (other, own) };
        let mut groups = [std::ptr::null_mut(); 3];
        // SAFETY: as required of the caller; the groups are freed.
        unsafe {
            (self.stock.pick)(first.0, 1, &first.1, &mut groups[0]);
            (self.stock.pick)(second.0, 1, &second.1, &mut groups[1]);
            (self.stock.union)(groups[0], groups[1], &mut groups[2]);
            let made = self.of_group(groups[2], first.2, "leaders");
            groups.iter_mut().for_each(|group| _ = (self.stock.free)(group));
            made
        }
    }

    /// Makes a communicator of a group. `name` differs between the groups of this call.
    ///
    /// # Safety
    /// As of [`make`](Self::make).
    unsafe fn of_group(&self, group: Object, name: ProcessName, what: &str) -> Result<Object, c_int> {
        let name = u64::from_le_bytes(name.bytes());
        let tag = [self.tag.to_bytes(), format!("-ringwatch-{what}-{name:x}").as_bytes()].concat();
        let tag = CString::new(tag).map_err(|_| ERR_INTERN)?;
        let mut made = self.stock.null;
        // SAFETY: as required of the caller; the function with arguments of its types.
        match unsafe { (self.stock.of_one)(group, tag.as_ptr(), self.info, self.handler, &mut made) } {
            0 => {
                // A death, even before it was made, interrupts members that wait there for a living one.
                communicators::set(made, SCOPE, Scope::Group.value());
                communicators::set(made, UNIFORMITY, Uniformity::Create.value());
                Ok(made)
            }
            code if code < 0 || code == ERR_REVOKED => Err(ERR_PROC_FAILED),
            code => Err(code),
        }
    }
}

//! `MPI_Intercomm_create_from_groups` ends at everybody when somebody dies in it, or before it.
//!
//! Open MPI 5.0.7 has the members of both groups settle its number in the runtime (`PMIx_Group_construct`), where a death leaves all
//! waiting, and a leader that cannot go on leaves its group in a broadcast (`ompi_intercomm_create_from_groups` in comm.c). Here it is made
//! of what ends: a communicator of each group alone, one of the two leaders ([`from_groups`](crate::from_groups)), and with these
//! as `MPI_Intercomm_create` makes one ([`crossing`](crate::crossing)), uniform if these communicators are, by the parameter. Nobody
//! else knows these, so what is revoked there is a death.
//!
//! A leader whose group has none has a part in that of the leaders all the same, and says there that it fails: so the other one
//! does not wait for it. One that has none with the other leader tells its group.
//!
//! Leaders of several mpiruns still meet in the runtime.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::handles::Communicator;
use crate::internals::Internals;
use crate::objects::Object;
use crate::openmpi::{Library, ProcessName};
use crate::property::SCOPE;
use crate::scope::Scope;
use crate::statement::{ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use crate::{communicators, crossing, from_groups, members};

const CREATE: &CStr = c"ompi_intercomm_create_from_groups";

type OfOne = unsafe extern "C" fn(Object, *const c_char, Object, Object, *mut Object) -> c_int;
type OfTwo = unsafe extern "C" fn(Object, c_int, Object, c_int, *const c_char, Object, Object, *mut Object) -> c_int;

struct Stock {
    of_one: OfOne,
    of_two: OfTwo,
    own_rank: unsafe extern "C" fn(Object, *mut c_int) -> c_int,
    pick: unsafe extern "C" fn(Object, c_int, *const c_int, *mut Object) -> c_int,
    union: unsafe extern "C" fn(Object, Object, *mut Object) -> c_int,
    free: unsafe extern "C" fn(*mut Object) -> c_int,
    /// `MPI_COMM_NULL`
    null: Object,
}

// SAFETY: addresses of what lives as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

static STOCK: OnceLock<Stock> = OnceLock::new();

/// Stands where such communicators are made, also in a rank of a fault-tolerant job that is not watched. At the end of `MPI_Init`.
pub fn watch() {
    if let (Some(library), Some(_)) = (Library::loaded(), Internals::fitting()) {
        let _ = stand(&library);
    }
}

fn stand(library: &Library) -> Option<()> {
    // SAFETY: the types are those of communicator.h and mpi.h; a function of the same type takes the place of one.
    unsafe {
        let stock = Stock {
            of_one: library.function(c"ompi_comm_create_from_group")?,
            of_two: library.function(CREATE)?,
            own_rank: library.function(c"PMPI_Group_rank")?,
            pick: library.function(c"PMPI_Group_incl")?,
            union: library.function(c"PMPI_Group_union")?,
            free: library.function(c"PMPI_Group_free")?,
            null: library.predefined(c"ompi_mpi_comm_null")?,
        };
        STOCK.set(stock).ok()?;
        library.redirect(CREATE, create as *const c_void);
    }
    Some(())
}

unsafe extern "C" fn create(
    group: Object,
    leader: c_int,
    others: Object,
    other_leader: c_int,
    tag: *const c_char,
    info: Object,
    handler: Object,
    made: *mut Object,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: what Open MPI passes, and its function with the arguments that were meant for it.
    unsafe {
        let name = |group, rank: c_int| members::names(group)?.get(usize::try_from(rank).ok()?).copied();
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
        catch_unwind(AssertUnwindSafe(make))
            .unwrap_or(Some(ERR_INTERN))
            .unwrap_or_else(|| (stock.of_two)(group, leader, others, other_leader, tag, info, handler, made))
    }
}

/// A group, and the rank and the name of its leader.
type Led = (Object, c_int, ProcessName);

struct Call<'a> {
    stock: &'a Stock,
    mpi: &'a Internals,
    tag: &'a CStr,
    info: Object,
    handler: Object,
}

impl Call<'_> {
    /// Returns the code. The other group is known to the leader.
    ///
    /// # Safety
    /// Groups that live, in an Open MPI that fits, and where the new communicator is put.
    unsafe fn make(&self, own: Led, other: Option<Led>, made: *mut Object) -> c_int {
        // SAFETY: as required of the caller; what is made here nobody else knows.
        unsafe {
            let local = self.of_group(own.0, own.2, "group");
            let bridge = other.map(|other| {
                let fails = local.is_err();
                let bridge = from_groups::failing(fails, || self.of_leaders(own, other));
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
                    let code = crossing::cross(local, own.1, bridge.unwrap_or(Ok(self.stock.null)), place, made);
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

    /// A communicator of the two leaders, in which the one comes first whose name does.
    ///
    /// # Safety
    /// As of [`make`](Self::make).
    unsafe fn of_leaders(&self, own: Led, other: Led) -> Result<Object, c_int> {
        let (first, second) = if own.2.bytes() < other.2.bytes() { (own, other) } else { (other, own) };
        let mut groups = [std::ptr::null_mut(); 3];
        // SAFETY: as required of the caller; the groups are given back.
        unsafe {
            (self.stock.pick)(first.0, 1, &first.1, &mut groups[0]);
            (self.stock.pick)(second.0, 1, &second.1, &mut groups[1]);
            (self.stock.union)(groups[0], groups[1], &mut groups[2]);
            let made = self.of_group(groups[2], first.2, "leaders");
            groups.iter_mut().for_each(|group| _ = (self.stock.free)(group));
            made
        }
    }

    /// A communicator of a group, whose first name no other group of this call has.
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
                // Whoever waits there for a living member leaves it when somebody dies, or has died before it was made.
                communicators::set(made, SCOPE, Scope::Group.value());
                Ok(made)
            }
            code if code < 0 || code == ERR_REVOKED => Err(ERR_PROC_FAILED),
            code => Err(code),
        }
    }
}

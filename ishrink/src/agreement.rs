//! Where this library stands in front of Open MPI's own operation: in its agreements, where it makes the communicator, and where
//! it gives its request back. It does so by defining the exported names of these functions, so it must come before libmpi.
//!
//! The operation is called with a [shadow](crate::shadows). And when a member dies while it runs, its second agreement gets a
//! group that has been freed (`comm_ft.c:537` of 5.0.7): it is given a new one.
//!
//! In an Open MPI of another release all is passed on as it comes.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use crate::openmpi::{Agreement, ERR_UNSUPPORTED, GiveRequestBack, Handle, MakeCommunicator, OpenMpi, behind};
use crate::{operations, shadows};

/// Whether Open MPI's calls of its agreement come here.
pub fn is_in_front(mpi: &OpenMpi) -> bool {
    let own = mca_coll_ftagree_iera_intra as *const c_void;
    // SAFETY: the program itself is always loaded, and the name is terminated. Its scope comes first for every library.
    let first = unsafe {
        let program = libc::dlopen(std::ptr::null(), libc::RTLD_LAZY);
        libc::dlsym(program, c"mca_coll_ftagree_iera_intra".as_ptr())
    };
    // What joins that scope when libmpi is loaded already comes too late for it.
    first.cast_const() == own && loaded_as(own) < loaded_as(mpi.agreement as *const c_void)
}

/// How many objects were loaded before the one that has this address.
fn loaded_as(address: *const c_void) -> usize {
    struct Search {
        address: usize,
        before: usize,
    }
    unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader describes an object, whose headers stay; the last argument is what was passed below.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
        // SAFETY: as above.
        let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
        let has_it = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).any(|header| {
            let start = object.dlpi_addr as usize + header.p_vaddr as usize;
            (start..start + header.p_memsz as usize).contains(&search.address)
        });
        search.before += usize::from(!has_it);
        c_int::from(has_it)
    }
    let mut search = Search { address: address as usize, before: 0 };
    // SAFETY: the callback gets what it expects and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.before
}

/// Open MPI's agreement without blocking. Only agreements that use the group of an operation again get a new one: all
/// others pass a sound group, which would be lost.
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mca_coll_ftagree_iera_intra(
    contribution: *mut c_void,
    count: usize,
    datatype: *mut c_void,
    operation: *mut c_void,
    group: *mut Handle,
    update: bool,
    comm: Handle,
    request: *mut Handle,
    mut module: *mut c_void,
) -> c_int {
    static BEHIND: OnceLock<Option<Agreement>> = OnceLock::new();
    // SAFETY: the type is that of coll_ftagree.h.
    let Some(agree) = *BEHIND.get_or_init(|| unsafe { behind(c"mca_coll_ftagree_iera_intra") }) else {
        return ERR_UNSUPPORTED;
    };
    if let Some(mpi) = OpenMpi::get()
        && let Some((agreements, is_freed)) = shadows::agreement_begins(comm, group)
    {
        module = agreements;
        if is_freed {
            // SAFETY: a communicator that lives and a place for a group, both Open MPI's.
            unsafe { group.write(mpi.dead_members(comm)) };
        }
    }
    // SAFETY: passed on, to the module that belongs to the communicator.
    unsafe { agree(contribution, count, datatype, operation, group, update, comm, request, module) }
}

/// What makes a communicator of `comm` in Open MPI, with everything but its number and its collective functions.
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_comm_set_nb(
    made: *mut Handle,
    comm: Handle,
    local_size: c_int,
    local_ranks: *mut c_int,
    remote_size: c_int,
    remote_ranks: *mut c_int,
    attributes: Handle,
    errhandler: Handle,
    local_group: Handle,
    remote_group: Handle,
    flags: u32,
    request: *mut Handle,
) -> c_int {
    static BEHIND: OnceLock<Option<MakeCommunicator>> = OnceLock::new();
    // SAFETY: the type is that of communicator.h.
    let Some(stock) = *BEHIND.get_or_init(|| unsafe { behind(c"ompi_comm_set_nb") }) else { return ERR_UNSUPPORTED };
    // SAFETY: passed on; an operation's with what its communicator inherits, and no attributes yet.
    unsafe {
        let make = |comm, attributes, errhandler| {
            stock(
                made,
                comm,
                local_size,
                local_ranks,
                remote_size,
                remote_ranks,
                attributes,
                errhandler,
                local_group,
                remote_group,
                flags,
                request,
            )
        };
        let heir = operations::with_inheritance(made, |inheritance| {
            let (origin, errhandler) = inheritance.origin();
            let code = make(origin, std::ptr::null_mut(), errhandler);
            if code == 0 {
                inheritance.hand_over(*made);
            }
            code
        });
        heir.unwrap_or_else(|| make(comm, attributes, errhandler))
    }
}

/// Open MPI gives the request of an operation back when a step fails, and completes it after that: whoever waits for it would
/// give it back for the second time (`comm_ft.c:605` of 5.0.7, `comm_request.c:178`).
///
/// # Safety
/// Called by Open MPI in place of its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_comm_request_return(request: Handle) {
    static BEHIND: OnceLock<Option<GiveRequestBack>> = OnceLock::new();
    if OpenMpi::get().is_some() && operations::is_under_way(request) {
        return;
    }
    // SAFETY: the type is that of comm_request.h; passed on as it came.
    unsafe {
        let stock = *BEHIND.get_or_init(|| behind(c"ompi_comm_request_return"));
        stock.into_iter().for_each(|give_back: GiveRequestBack| give_back(request));
    }
}

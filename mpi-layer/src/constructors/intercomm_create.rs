//! Makes `MPI_Intercomm_create` end at every member if a member dies during the call or before it.
//!
//! In Open MPI 5.0.7 the two leaders exchange messages on the bridge, the communicator to which both belong.
//! Collectives of each group come between these messages (`ompi_intercomm_create` in comm.c). If a leader cannot
//! continue, its group waits for it for ever, though no member of the group is dead, and so does the other leader with
//! its group. With ringwatch:
//! * A leader that gets no message from the other one sends its group the three broadcasts that the group waits for,
//!   empty.
//! * A leader whose group has a dead member sends the other leader the two messages that it waits for, empty, and
//!   receives the other leader's messages. An empty list of members ends the call at all members of a group.
//! * ringwatch distinguishes a list that was not sent, because the other leader died, from one that was: Open MPI would
//!   read undefined memory as a list and crash.
//! * While the context id is chosen, collectives of the group run on the local side of the new communicator, which is
//!   private. A member that gives up revokes this side ([`steps`]). So does a member that finds the group's
//!   communicator revoked: a member that was interrupted there does not reach this step.
//! * At the end each leader sends its result to the other one. If a leader receives an error before its own end, it
//!   gives up.
//!
//! The last point needs ringwatch at both leaders. Leaders of two connected mpiruns work without it, and may hang as
//! before.
//!
//! If both groups are uniform, the members of both vote at the end
//! ([`creation_vote`](crate::constructors::creation_vote)): all succeed or none, regardless of deaths. A leader marks
//! the list of its members if its group is uniform, so the other group knows. If the vote fails or is not reached, each
//! group agrees on the error class, as it does if only one group is uniform: a leader sends the other one its group's
//! class, and the group agrees once more on the other leader's answer, regardless of deaths meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::cid::{cid_hold, early_revocation};
use crate::constructors::creation_vote::Joint;
use crate::constructors::leaders_exchange::{Exchange, Wire};
use crate::constructors::settle;
use crate::constructors::steps::{self, Led};
use crate::in_front::in_front;
use crate::messages::bridge_tags;
use crate::properties::communicators;
use crate::uniform::operations;
use crate::uniform::request_errors::refusal;
use openmpi_internals::abi::{IntercommCreate, ProcPack, ProcUnpack};
use openmpi_internals::communicator::{BCAST, Internals, NONBLOCKING, REDUCE};
use openmpi_internals::error_class::{ERR_COMM, ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use openmpi_internals::functions::{
    OMPI_COMM_REVOKE_INTERNAL, OMPI_INTERCOMM_CREATE, OMPI_PROC_PACK, ompi_proc_unpack,
};
use openmpi_internals::group;
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::status::{OPAL_ERR_BAD_PARAM, OPAL_ERROR};
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::OMPI_MPI_COMM_NULL;
use pmix_sys::{PMIX_BYTE, pmix_data_buffer_t, pmix_data_type_t, pmix_proc_t};

/// Appends to the list that a leader sends to the other one.
const ADD: &CStr = c"PMIx_Data_pack";
/// Suffix of the list of a uniform group. Open MPI reads only as many entries of a list as there are members.
const UNIFORM: &[u8; 16] = b"ringwatch:create";
/// Errors that are returned before any message is sent.
const WRONG_ARGUMENTS: [c_int; 2] = [OPAL_ERR_BAD_PARAM, ERR_COMM];
/// Slots of a communicator's table of collectives.
const IBCAST: usize = NONBLOCKING + BCAST;
const IREDUCE: usize = NONBLOCKING + REDUCE;
#[rustfmt::skip]
type Add = unsafe extern "C" fn(
    *const pmix_proc_t, *mut pmix_data_buffer_t, *const c_void, i32, pmix_data_type_t,
) -> c_int;
type Broadcast = unsafe extern "C" fn(*mut c_void, c_int, Object, c_int, Object, Object) -> c_int;
type Ibcast = unsafe extern "C" fn(*mut c_void, c_int, Object, c_int, Object, *mut *mut Request, Object) -> c_int;
#[rustfmt::skip]
type Ireduce = unsafe extern "C" fn(
    *const c_void, *mut c_void, c_int, Object, Object, c_int, Object, *mut *mut Request, Object,
) -> c_int;

struct Stock {
    intercomm_create: IntercommCreate,
    pack: ProcPack,
    add: Add,
    unpack: ProcUnpack<pmix_data_buffer_t>,
    wire: Wire,
    /// `MPI_COMM_NULL`
    null: Object,
}

// SAFETY: addresses of objects that live as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

static STOCK: OnceLock<Stock> = OnceLock::new();

thread_local! {
    /// The call in which this thread is.
    static PRESENT: RefCell<Option<Arc<Crossing>>> = const { RefCell::new(None) };
}

/// A call of `MPI_Intercomm_create`.
pub struct Crossing {
    /// Set at the leader.
    bridge: Option<usize>,
    /// The exchange with the other leader.
    exchange: Option<Exchange>,
    /// Whether the leader has begun to send its list of members.
    tells: AtomicBool,
    pub joint: Joint,
    /// The group's communicator, and its broadcast.
    local: usize,
    broadcast: Broadcast,
}

/// Local sides that serve collectives of a group during the call, by the group's communicator.
static SIDES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Interposes on this constructor. At the end of `MPI_Init`.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the types are those of communicator.h, proc.h and pml.h; functions of the same types take their places.
    unsafe {
        let stock = Stock {
            intercomm_create: at.function(OMPI_INTERCOMM_CREATE)?,
            pack: at.function(OMPI_PROC_PACK)?,
            add: at.standard(ADD)?,
            unpack: at.function(ompi_proc_unpack())?,
            wire: Wire::find(at)?,
            null: at.predefined(OMPI_MPI_COMM_NULL)?,
        };
        let _ = STOCK.set(stock);
        at.redirect_all(&[
            OMPI_INTERCOMM_CREATE.by(intercomm_create),
            OMPI_PROC_PACK.by(pack),
            ompi_proc_unpack().by(unpack),
        ])?;
    }
    Ok(())
}

/// The call in which this thread is.
pub fn present() -> Option<Arc<Crossing>> {
    PRESENT.with_borrow(Clone::clone)
}

impl Led for Crossing {
    /// Why the call cannot succeed any more: a failure of the group's communicator, or at the leader of the bridge or
    /// the other leader.
    fn refusal(&self) -> Option<c_int> {
        // Of the bridge's members only the leaders matter.
        let by_bridge =
            || refusal(self.bridge? as Object).filter(|class| *class != ERR_PROC_FAILED || self.is_other_dead());
        let by_other = || self.exchange.as_ref().and_then(Exchange::given_up);
        refusal(self.local as Object).or_else(by_bridge).or_else(by_other)
    }

    /// Runs the group's nonblocking collectives on the local side `side` of the new communicator from now on. The
    /// context id still belongs to a child of the group's communicator: Open MPI orders choices by it, equally at all
    /// members.
    fn run_on(&self, side: Object) {
        lock(&SIDES).insert(self.local, side as usize);
        self.set([ibcast as Object, ireduce as Object]);
    }

    fn step(&self, step: &mut dyn FnMut() -> c_int) -> c_int {
        match &self.exchange {
            Some(exchange) => bridge_tags::step(exchange.bridge, step),
            None => step(),
        }
    }

    fn begins_activation(&self) {
        self.joint.begins();
    }
}

impl Crossing {
    fn tells(&self) -> bool {
        self.tells.load(Ordering::Relaxed)
    }

    /// Runs the last step of the call, which gives `made` its collectives; returns its code.
    ///
    /// # Safety
    /// `made` has its context id and its epoch, in an Open MPI of the known layout.
    pub unsafe fn activate(&self, made: Object, begin: impl FnOnce() -> c_int) -> c_int {
        // SAFETY: as required of the caller; the group's communicator is live. If the step fails, nothing uses its
        // result.
        unsafe {
            early_revocation::withhold(
                made,
                || self.joint.activate(made, self.local as Object, begin),
                cid_hold::interrupt,
            )
        }
    }

    /// Restores these functions in the table, and forgets the local side.
    fn returns(&self, functions: [Object; 2]) {
        self.set(functions);
        lock(&SIDES).remove(&self.local);
    }

    fn set(&self, functions: [Object; 2]) {
        let Some(mpi) = Internals::fitting() else { return };
        // SAFETY: the caller's communicator, with its collectives; no other thread calls them meanwhile.
        let table = unsafe { mpi.table(self.local as Object) };
        (table[IBCAST].function, table[IREDUCE].function) = functions.into();
    }

    /// At a leader: whether the other leader is dead. If it belongs to another mpirun, any known death counts.
    fn is_other_dead(&self) -> bool {
        let is_dead = |exchange: &Exchange| Internals::fitting().is_some_and(|mpi| exchange.is_other_dead(mpi));
        self.exchange.as_ref().is_none_or(is_dead)
    }

    /// Whether the other leader's list may be missing.
    fn may_lack_list(&self) -> bool {
        self.refusal().is_some() || self.exchange.is_some() && self.is_other_dead()
    }
}

in_front! { stock = STOCK.get(), or ERR_INTERN;
    unsafe extern "C" fn pack(list: *const Object, count: c_int, buffer: Object) -> c_int {
        let crossing = present();
        crossing.iter().for_each(|crossing| crossing.tells.store(true, Ordering::Relaxed));
        // SAFETY: the stock function with its original arguments; the addition is copied.
        unsafe {
            let code = (stock.pack)(list, count, buffer);
            if code == 0 && crossing.is_some_and(|crossing| crossing.joint.is_uniform()) {
                let (mark, length) = (UNIFORM.as_ptr().cast(), UNIFORM.len() as i32);
                return (stock.add)(std::ptr::null(), buffer.cast(), mark, length, PMIX_BYTE as pmix_data_type_t);
            }
            code
        }
    }

    unsafe extern "C" fn unpack(
        list: *const pmix_data_buffer_t, count: c_int, processes: *mut Object, new: *mut c_int, new_processes: *mut Object
    ) -> c_int {
        // SAFETY: Open MPI passes a list in memory of that length; the stock function gets its original arguments.
        unsafe {
            if let Some(crossing) = present() {
                let bytes: &[u8] = match (*list).bytes_used {
                    0 => &[],
                    used => std::slice::from_raw_parts((*list).base_ptr.cast(), used),
                };
                if bytes.iter().all(|byte| *byte == 0) {
                    return OPAL_ERROR;
                }
                crossing.joint.other_is(bytes.ends_with(UNIFORM));
            }
            (stock.unpack)(list, count, processes, new, new_processes)
        }
    }

    unsafe extern "C" fn intercomm_create(
        local: Object, leader: c_int, bridge: Object, other: c_int, tag: c_int, made: *mut Object
    ) -> c_int {
        let Some(mpi) = Internals::fitting() else { return ERR_INTERN };
        // SAFETY: arguments of Open MPI.
        unsafe { stock.cross(mpi, (local, leader), (bridge, other, tag), None, made) }
    }
}

in_front! { (crossing, stock) = present().zip(STOCK.get()), or ERR_INTERN;
    /// Replaces the group's broadcast: Open MPI's divides by the length of an empty list
    /// (`ompi_coll_base_bcast_intra_generic`).
    unsafe extern "C" fn broadcast(
        buffer: *mut c_void, count: c_int, datatype: Object, root: c_int, comm: Object, module: Object
    ) -> c_int {
        if count == 0 {
            return 0;
        }
        // SAFETY: the stock function with its original arguments. Only lists are of type byte, in the caller's own
        // memory.
        unsafe {
            if datatype == stock.wire.byte && crossing.may_lack_list() {
                buffer.cast::<u8>().write_bytes(0, usize::try_from(count).unwrap_or(0));
            }
            (crossing.broadcast)(buffer, count, datatype, root, comm, module)
        }
    }
}

/// The slot of a local side's table that serves a group's communicator, and that side.
fn served(comm: Object, slot: usize) -> Option<(Object, Object, Object)> {
    let (mpi, side) = (Internals::fitting()?, lock(&SIDES).get(&(comm as usize)).copied()? as Object);
    // SAFETY: it is live while it is registered, and has its collectives.
    let slot = unsafe { &mpi.table(side)[slot] };
    Some((slot.function, slot.module, side))
}

in_front! { (function, module, side) = served(comm, IBCAST), or ERR_INTERN;
    unsafe extern "C" fn ibcast(
        buffer: *mut c_void, count: c_int, datatype: Object, root: c_int, comm: Object, request: *mut *mut Request,
        _module: Object
    ) -> c_int {
        // SAFETY: the function in that slot, with the arguments for the group's function.
        unsafe { transmute::<Object, Ibcast>(function)(buffer, count, datatype, root, side, request, module) }
    }
}

in_front! { (function, module, side) = served(comm, IREDUCE), or ERR_INTERN;
    unsafe extern "C" fn ireduce(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Object, op: Object, root: c_int,
        comm: Object, request: *mut *mut Request, _module: Object
    ) -> c_int {
        // SAFETY: as above.
        unsafe {
            let stock = transmute::<Object, Ireduce>(function);
            stock(sendbuf, recvbuf, count, datatype, op, root, side, request, module)
        }
    }
}

/// Runs the call with a private bridge, or at a leader that could not make one with the error. Returns the code.
///
/// # Safety
/// Live communicators, and the place of the new one.
pub unsafe fn cross(
    local: Object,
    leader: c_int,
    bridge: Result<Object, c_int>,
    other: c_int,
    made: *mut Object,
) -> c_int {
    // SAFETY: as required of the caller; the type is that of communicator.h.
    unsafe {
        match (STOCK.get(), Internals::fitting(), Library::loaded(), bridge) {
            (Some(stock), Some(mpi), ..) => {
                let (comm, failure) = (bridge.unwrap_or(stock.null), bridge.err());
                stock.cross(mpi, (local, leader), (comm, other, 0), failure, made)
            }
            // The feature is off: Open MPI makes the communicator; without a bridge the group is notified.
            (.., Some(library), Ok(bridge)) => library
                .function(OMPI_INTERCOMM_CREATE)
                .map_or(ERR_INTERN, |create| create(local, leader, bridge, other, 0, made)),
            (.., Some(library), Err(code)) => {
                let revoke = library.function(OMPI_COMM_REVOKE_INTERNAL);
                revoke.into_iter().for_each(|revoke| _ = revoke(local));
                code
            }
            _ => ERR_INTERN,
        }
    }
}

/// The class with which a call ends. A revoked communicator may be the private local side, and a list that could not be
/// unpacked may be an empty one: a process has died, or the leader's bridge was revoked, which other members cannot
/// see.
fn class_of(mpi: &Internals, code: c_int, local: Object, crossing: &Crossing) -> c_int {
    // SAFETY: the caller's communicators, in an Open MPI of the known layout.
    let is_revoked =
        || unsafe { mpi.is_revoked(local) || crossing.bridge.is_some_and(|bridge| mpi.is_revoked(bridge as Object)) };
    match code {
        OPAL_ERROR | ERR_REVOKED if is_revoked() => ERR_REVOKED,
        OPAL_ERROR | ERR_REVOKED => ERR_PROC_FAILED,
        0 | ERR_PROC_FAILED => code,
        code if WRONG_ARGUMENTS.contains(&code) => code,
        // For example, a duplicate without a context id fails because it lacks one
        // (`ompi_comm_idup_with_info_activate`).
        code => crossing.refusal().unwrap_or(code),
    }
}

impl Stock {
    /// Runs one call: with the bridge at the leader, or there with the error that makes it fail.
    ///
    /// # Safety
    /// Live communicators, in an Open MPI of the known layout, and the place of the new one.
    unsafe fn cross(
        &self,
        mpi: &Internals,
        (local, leader): (Object, c_int),
        (bridge, other, tag): (Object, c_int, c_int),
        failure: Option<c_int>,
        made: *mut Object,
    ) -> c_int {
        let is_leader = mpi.rank_in(local) == leader && communicators::lives(bridge);
        let is_served = || {
            let is_member = !mpi.is_intercommunicator(bridge) && (0..mpi.size_of(bridge)).contains(&other);
            // SAFETY: a live communicator.
            is_member && unsafe { group::of(bridge) }.is_some()
        };
        let exchange = if is_leader && is_served() { Exchange::begin(&self.wire, bridge, other, tag) } else { None };
        // SAFETY: a live communicator with its collectives, in an Open MPI of the known layout.
        let table = unsafe { &raw mut *mpi.table(local) };
        // SAFETY: the type of the function in that slot.
        let (stock_broadcast, module) =
            unsafe { (transmute::<Object, Broadcast>((*table)[BCAST].function), (*table)[BCAST].module) };
        // SAFETY: as above.
        let without_blocking = unsafe { [(*table)[IBCAST].function, (*table)[IREDUCE].function] };
        let crossing = Arc::new(Crossing {
            bridge: is_leader.then_some(bridge as usize),
            exchange,
            tells: AtomicBool::new(false),
            joint: Joint::new(local),
            local: local as usize,
            broadcast: stock_broadcast,
        });
        // Open MPI writes this first, but its function may not be called.
        // SAFETY: the caller passes a place for the handle.
        unsafe { made.write(self.null) };
        let begins = Cell::new(false);
        let call = || {
            begins.set(true);
            let before = (PRESENT.replace(Some(crossing.clone())), steps::be_led(Some(crossing.clone())));
            // SAFETY: the stock function with its original arguments; no other thread calls collectives of the group.
            let code = unsafe {
                (*table)[BCAST].function = broadcast as Object;
                failure.unwrap_or_else(|| (self.intercomm_create)(local, leader, bridge, other, tag, made))
            };
            steps::wait_for_giving_up();
            let releases = failure.is_some() || is_leader && !crossing.tells();
            if code != 0 && !WRONG_ARGUMENTS.contains(&code) && releases && refusal(local).is_none() {
                self.release_group(local, leader, module);
            }
            // SAFETY: as above. Open MPI has stored its result there.
            unsafe {
                (*table)[BCAST].function = stock_broadcast as Object;
                operations::hold(made.read());
            }
            crossing.returns(without_blocking);
            PRESENT.replace(before.0);
            steps::be_led(before.1);
            class_of(mpi, code, local, &crossing)
        };
        let tell = |code| match &crossing.exchange {
            Some(exchange) if WRONG_ARGUMENTS.contains(&code) => {
                exchange.withdraw();
                code
            }
            Some(exchange) => {
                if !begins.get() {
                    exchange.tell_size(&self.wire, mpi);
                }
                let end = exchange.end(&self.wire, mpi, code, crossing.tells());
                if crossing.joint.is_settled() { code } else { end }
            }
            None => code,
        };
        let end = operations::agree_with_others(local, call, || crossing.joint.is_settled(), tell);
        let end = crossing.joint.class(end, local);
        // SAFETY: as above.
        unsafe { settle::settle(made, end, self.null) };
        end
    }

    /// Sends what the group expects from its leader: size of the other group, length of its list, and the list.
    fn release_group(&self, local: Object, leader: c_int, module: Object) {
        for (mut number, count, datatype) in
            [(1, 1, self.wire.integer), (0, 1, self.wire.integer), (0, 0, self.wire.byte)]
        {
            // SAFETY: the arguments that Open MPI passes to its own broadcast.
            if unsafe { broadcast((&raw mut number).cast(), count, datatype, leader, local, module) } != 0 {
                return;
            }
        }
    }
}

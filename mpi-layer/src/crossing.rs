//! `MPI_Intercomm_create` ends at everybody when somebody dies in it, or before it.
//!
//! Open MPI 5.0.7 has the two leaders exchange messages on the communicator that both are in, the bridge, in turn with
//! collectives of each group (`ompi_intercomm_create` in comm.c). Where a leader cannot go on, its group, in which nobody may
//! be dead, waits for it, and so does the other leader, with its group. Here
//! * a leader that has no word from the other one gives its group three broadcasts of nothing, which is what that waits for;
//! * one whose group has been struck gives the other leader the two messages that it waits for, without contents, and takes
//!   those that come from there; a list of members without contents ends the call at all of a group;
//! * a list that the other leader did not live to send is told from one that it did: Open MPI takes apart whatever is in the
//!   memory then, and crashes;
//! * from then on, when the number of the new communicator is settled, collectives of the group run on the group's own side of it, which
//!   nobody else knows: whoever gives up revokes that ([`groups`]), and whoever sees that the group's own communicator is revoked:
//!   who was interrupted in that never comes to this one;
//! * each leader tells the other one at the end how it has ended, which is a reason to give up for one that is not so far yet.
//!
//! The last needs both to be served: leaders of two mpiruns that were connected do without it, and may wait as before.
//!
//! Where both groups are uniform, the members of both vote at the end ([`ballots`](crate::ballots)), so that all succeed or none,
//! whoever dies. That the own group is each member knows; that the other one is its leader adds to its list of members, in the
//! messages that Open MPI sends anyway. Where the vote fails, or nobody comes so far, each group agrees on why, as where it
//! alone is uniform: then what one leader tells the other is what its group has agreed on, and the group agrees once more on what
//! came back, whoever of it has died meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::ballots::Joint;
use crate::communicators;
use crate::groups;
use crate::internals::{BCAST, Internals, NONBLOCKING, REDUCE};
use crate::line::lock;
use crate::members;
use crate::mended::refusal;
use crate::messages::Messages;
use crate::objects::Object;
use crate::openmpi::Library;
use crate::requests::Request;
use crate::statement::{ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use crate::uniform;

const INTERCOMM_CREATE: &CStr = c"ompi_intercomm_create";
/// What a leader calls before it tells the other one of its members.
const PACK: &CStr = c"ompi_proc_pack";
/// What adds to it.
const ADD: &CStr = c"PMIx_Data_pack";
/// `PMIX_BYTE`
const BYTE: u16 = 2;
/// What the list of a uniform group ends with. Open MPI reads as much of a list as there are members, and no more.
const UNIFORM: &[u8; 16] = b"ringwatch:create";
/// What takes the other group's list apart.
const UNPACK: &CStr = c"ompi_proc_unpack";
/// `MCA_COLL_BASE_TAG_FT_BASE`, which nobody uses: such messages get through on a communicator with dead members.
const WORD: c_int = -27;
/// `OMPI_COMM_ALLREDUCE_TAG`: of the messages that settle the number.
const NUMBERING: c_int = -9;
/// `OMPI_ERR_BAD_PARAM` and `MPI_ERR_COMM`: said before any message.
const WRONG_ARGUMENTS: [c_int; 2] = [-5, 5];
/// `OMPI_ERROR`
const ERROR: c_int = -1;
/// Of `mca_pml_base_module_t`: those that do not block.
const RECEIVE: usize = 8;
const SEND: usize = 11;
const PROBE: usize = 13;
/// Of a communicator's table of collectives.
const IBCAST: usize = NONBLOCKING + BCAST;
const IREDUCE: usize = NONBLOCKING + REDUCE;
/// `MCA_PML_BASE_SEND_STANDARD`
const STANDARD: c_int = 0;

type IntercommCreate = unsafe extern "C" fn(Object, c_int, Object, c_int, c_int, *mut Object) -> c_int;
type Pack = unsafe extern "C" fn(*const Object, c_int, Object) -> c_int;
type Add = unsafe extern "C" fn(*const c_void, Object, *const c_void, i32, u16) -> c_int;
type Unpack = unsafe extern "C" fn(*const Buffer, c_int, *mut Object, *mut c_int, *mut Object) -> c_int;
type Irecv = unsafe extern "C" fn(*mut c_void, usize, Object, c_int, c_int, Object, *mut *mut Request) -> c_int;
type Isend =
    unsafe extern "C" fn(*const c_void, usize, Object, c_int, c_int, c_int, Object, *mut *mut Request) -> c_int;
type Iprobe = unsafe extern "C" fn(c_int, c_int, Object, *mut c_int, *mut c_void) -> c_int;
type Broadcast = unsafe extern "C" fn(*mut c_void, c_int, Object, c_int, Object, Object) -> c_int;
type Ibcast = unsafe extern "C" fn(*mut c_void, c_int, Object, c_int, Object, *mut *mut Request, Object) -> c_int;
#[rustfmt::skip]
type Ireduce = unsafe extern "C" fn(
    *const c_void, *mut c_void, c_int, Object, Object, c_int, Object, *mut *mut Request, Object,
) -> c_int;

/// `pmix_data_buffer_t`
#[repr(C)]
struct Buffer {
    base: *const u8,
    ends: [*const u8; 2],
    allocated: usize,
    used: usize,
}

struct Stock {
    intercomm_create: IntercommCreate,
    pack: Pack,
    add: Add,
    unpack: Unpack,
    messages: Messages,
    integer: Object,
    byte: Object,
    /// `MPI_COMM_NULL`
    null: Object,
}

// SAFETY: addresses of what lives as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

static STOCK: OnceLock<Stock> = OnceLock::new();

thread_local! {
    /// The call that this thread is in.
    static PRESENT: RefCell<Option<Arc<Crossing>>> = const { RefCell::new(None) };
}

/// A call of `MPI_Intercomm_create`.
pub struct Crossing {
    /// At the leader.
    bridge: Option<usize>,
    /// With the other leader.
    talk: Option<Talk>,
    /// The leader has come so far that it tells of its members.
    tells: AtomicBool,
    pub joint: Joint,
    /// The group's communicator, and its broadcast.
    local: usize,
    broadcast: Broadcast,
}

/// The own sides on which collectives run that Open MPI calls for a group, by the communicator of the group.
static SIDES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// What two leaders have to say to each other.
struct Talk {
    bridge: usize,
    other: c_int,
    tag: c_int,
    /// How it has ended for the other one, and the request that it comes with.
    word: usize,
    request: usize,
}

/// Stands where such communicators are made. At the end of `MPI_Init`.
pub fn watch() {
    if let (Some(library), Some(_)) = (Library::loaded(), Internals::fitting()) {
        let _ = stand(&library);
    }
}

fn stand(library: &Library) -> Option<()> {
    // SAFETY: the types are those of communicator.h, proc.h and pml.h; functions of the same types take their places.
    unsafe {
        let stock = Stock {
            intercomm_create: library.function(INTERCOMM_CREATE)?,
            pack: library.function(PACK)?,
            add: library.function(ADD)?,
            unpack: library.function(UNPACK)?,
            messages: Messages::find(library)?,
            integer: library.predefined(c"ompi_mpi_int")?,
            byte: library.predefined(c"ompi_mpi_byte")?,
            null: library.predefined(c"ompi_mpi_comm_null")?,
        };
        STOCK.set(stock).ok()?;
        library.redirect_all(&[
            (INTERCOMM_CREATE, intercomm_create as *const c_void),
            (PACK, pack as *const _),
            (UNPACK, unpack as *const _),
        ]);
    }
    Some(())
}

/// The call that this thread is in.
pub fn present() -> Option<Arc<Crossing>> {
    PRESENT.with_borrow(Clone::clone)
}

impl Crossing {
    /// Why it cannot succeed any more, as far as the group's communicator says, or at the leader the bridge or the other leader.
    pub fn refusal(&self) -> Option<c_int> {
        let by_bridge = || self.bridge.and_then(|bridge| refusal(bridge as Object));
        let by_other = || self.talk.as_ref().and_then(Talk::given_up);
        refusal(self.local as Object).or_else(by_bridge).or_else(by_other)
    }

    fn tells(&self) -> bool {
        self.tells.load(Ordering::Relaxed)
    }

    /// The last step of the call, which gives `made` its collectives; returns its code.
    ///
    /// # Safety
    /// A communicator that has its number and its epoch, in an Open MPI that fits.
    pub unsafe fn activate(&self, made: Object, begin: impl FnOnce() -> c_int) -> c_int {
        // SAFETY: as required of the caller; the group's communicator lives.
        unsafe { self.joint.activate(made, self.local as Object, begin) }
    }

    /// From now on what the group does without blocking it does on its side of what is being made. The number is still that of a
    /// communicator which is made of the group's: Open MPI settles them in that order, and it must be the same everywhere.
    pub fn runs_on(&self, side: Object) {
        lock(&SIDES).insert(self.local, side as usize);
        self.set([ibcast as Object, ireduce as Object]);
    }

    /// As it was, with these functions in the table.
    fn returns(&self, functions: [Object; 2]) {
        self.set(functions);
        lock(&SIDES).remove(&self.local);
    }

    fn set(&self, functions: [Object; 2]) {
        let Some(mpi) = Internals::fitting() else { return };
        // SAFETY: the caller's communicator, which has its collectives; nobody else calls them meanwhile.
        let table = unsafe { mpi.table(self.local as Object) };
        (table[IBCAST].function, table[IREDUCE].function) = functions.into();
    }

    /// Whether a list that was to come from the other leader may not have come.
    fn may_lack_list(&self) -> bool {
        let is_dead = || {
            let mpi = Internals::fitting()?;
            let talk = self.talk.as_ref()?;
            Some(mpi.dead_members(talk.bridge()).contains(&talk.other))
        };
        self.refusal().is_some() || is_dead().unwrap_or(false)
    }
}

unsafe extern "C" fn pack(list: *const Object, count: c_int, buffer: Object) -> c_int {
    let (Some(stock), crossing) = (STOCK.get(), present()) else { return ERR_INTERN };
    crossing.iter().for_each(|crossing| crossing.tells.store(true, Ordering::Relaxed));
    // SAFETY: the stock function with the arguments that were meant for it; what is added is copied.
    unsafe {
        let code = (stock.pack)(list, count, buffer);
        if code == 0 && crossing.is_some_and(|crossing| crossing.joint.is_uniform()) {
            return (stock.add)(std::ptr::null(), buffer, UNIFORM.as_ptr().cast(), UNIFORM.len() as i32, BYTE);
        }
        code
    }
}

unsafe extern "C" fn unpack(
    list: *const Buffer,
    count: c_int,
    processes: *mut Object,
    new: *mut c_int,
    new_processes: *mut Object,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: Open MPI passes a list, which is in memory of that length; the stock function gets its arguments.
    unsafe {
        if let Some(crossing) = present() {
            let bytes: &[u8] = match (*list).used {
                0 => &[],
                used => std::slice::from_raw_parts((*list).base, used),
            };
            if bytes.iter().all(|byte| *byte == 0) {
                return ERROR;
            }
            crossing.joint.other_is(bytes.ends_with(UNIFORM));
        }
        (stock.unpack)(list, count, processes, new, new_processes)
    }
}

/// In place of the group's: Open MPI's own divides by the length of a list without contents (`ompi_coll_base_bcast_intra_generic`).
unsafe extern "C" fn broadcast(
    room: *mut c_void,
    count: c_int,
    kind: Object,
    root: c_int,
    comm: Object,
    module: Object,
) -> c_int {
    let (Some(crossing), Some(stock)) = (present(), STOCK.get()) else { return ERR_INTERN };
    if count == 0 {
        return 0;
    }
    // SAFETY: the function that was there, with the arguments that were meant for it. Only lists are of bytes, in the caller's
    // own memory.
    unsafe {
        if kind == stock.byte && crossing.may_lack_list() {
            room.cast::<u8>().write_bytes(0, usize::try_from(count).unwrap_or(0));
        }
        (crossing.broadcast)(room, count, kind, root, comm, module)
    }
}

/// The slot of the own side's table that serves a group's communicator, and that side.
fn served(comm: Object, slot: usize) -> Option<(Object, Object, Object)> {
    let (mpi, side) = (Internals::fitting()?, lock(&SIDES).get(&(comm as usize)).copied()? as Object);
    // SAFETY: it lives as long as it stands there, and has its collectives.
    let slot = unsafe { &mpi.table(side)[slot] };
    Some((slot.function, slot.module, side))
}

unsafe extern "C" fn ibcast(
    room: *mut c_void,
    count: c_int,
    kind: Object,
    root: c_int,
    comm: Object,
    request: *mut *mut Request,
    _: Object,
) -> c_int {
    let Some((function, module, side)) = served(comm, IBCAST) else { return ERR_INTERN };
    // SAFETY: the function in that slot, with the arguments that were meant for the group's.
    unsafe { transmute::<Object, Ibcast>(function)(room, count, kind, root, side, request, module) }
}

unsafe extern "C" fn ireduce(
    what: *const c_void,
    room: *mut c_void,
    count: c_int,
    kind: Object,
    operation: Object,
    root: c_int,
    comm: Object,
    request: *mut *mut Request,
    _: Object,
) -> c_int {
    let Some((function, module, side)) = served(comm, IREDUCE) else { return ERR_INTERN };
    // SAFETY: as above.
    unsafe { transmute::<Object, Ireduce>(function)(what, room, count, kind, operation, root, side, request, module) }
}

unsafe extern "C" fn intercomm_create(
    local: Object,
    leader: c_int,
    bridge: Object,
    other: c_int,
    tag: c_int,
    made: *mut Object,
) -> c_int {
    let (Some(stock), Some(mpi)) = (STOCK.get(), Internals::fitting()) else { return ERR_INTERN };
    // SAFETY: what Open MPI passes.
    unsafe { stock.cross(mpi, (local, leader), (bridge, other, tag), None, made) }
}

/// The same with a bridge that nobody else knows, or at a leader that could not make one. Returns its code.
///
/// # Safety
/// Communicators that live, and where the new one is put.
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
            // A rank that is not watched, by which its group is told if it has no bridge.
            (.., Some(library), Ok(bridge)) => library
                .function::<IntercommCreate>(INTERCOMM_CREATE)
                .map_or(ERR_INTERN, |create| create(local, leader, bridge, other, 0, made)),
            (.., Some(library), Err(code)) => {
                let revoke = library.function::<unsafe extern "C" fn(Object) -> c_int>(c"ompi_comm_revoke_internal");
                revoke.into_iter().for_each(|revoke| _ = revoke(local));
                code
            }
            _ => ERR_INTERN,
        }
    }
}

/// The class with which a call ends. What was revoked may have been the group's own side, and what could not be taken apart a list
/// without contents: somebody has died, or the bridge of a leader was revoked, which the others do not know.
fn class_of(mpi: &Internals, code: c_int, local: Object, crossing: &Crossing) -> c_int {
    // SAFETY: the caller's communicators, in an Open MPI that fits.
    let is_revoked =
        || unsafe { mpi.is_revoked(local) || crossing.bridge.is_some_and(|bridge| mpi.is_revoked(bridge as Object)) };
    match code {
        ERROR | ERR_REVOKED if is_revoked() => ERR_REVOKED,
        ERROR | ERR_REVOKED => ERR_PROC_FAILED,
        0 | ERR_PROC_FAILED => code,
        code if WRONG_ARGUMENTS.contains(&code) => code,
        // A duplicate that got no number, say, fails for lack of one (`ompi_comm_idup_with_info_activate`).
        code => crossing.refusal().unwrap_or(code),
    }
}

impl Stock {
    /// One call, of a group's members with the bridge of its leader, or there with why it cannot succeed.
    ///
    /// # Safety
    /// Communicators that live, in an Open MPI that fits, and where the new one is put.
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
            // SAFETY: a communicator that lives.
            is_member && unsafe { members::of(bridge) }.is_some()
        };
        let talk = if is_leader && is_served() { self.talk(bridge, other, tag) } else { None };
        // SAFETY: a communicator that lives and has its collectives, in an Open MPI that fits.
        let table = unsafe { &raw mut *mpi.table(local) };
        // SAFETY: the type of the function in that slot.
        let (stock_broadcast, module) =
            unsafe { (transmute::<Object, Broadcast>((*table)[BCAST].function), (*table)[BCAST].module) };
        // SAFETY: as above.
        let without_blocking = unsafe { [(*table)[IBCAST].function, (*table)[IREDUCE].function] };
        let crossing = Arc::new(Crossing {
            bridge: is_leader.then_some(bridge as usize),
            talk,
            tells: AtomicBool::new(false),
            joint: Joint::of(local),
            local: local as usize,
            broadcast: stock_broadcast,
        });
        // As Open MPI does first of all, which may not come to it.
        // SAFETY: where the caller has room for it.
        unsafe { made.write(self.null) };
        let begins = Cell::new(false);
        let call = || {
            begins.set(true);
            let before = PRESENT.replace(Some(crossing.clone()));
            // SAFETY: the stock function with the arguments that were meant for it; nobody else calls collectives of the group.
            let code = unsafe {
                (*table)[BCAST].function = broadcast as Object;
                failure.unwrap_or_else(|| (self.intercomm_create)(local, leader, bridge, other, tag, made))
            };
            groups::wait_for_look();
            let releases = failure.is_some() || is_leader && !crossing.tells();
            if code != 0 && !WRONG_ARGUMENTS.contains(&code) && releases && refusal(local).is_none() {
                self.release_group(local, leader, module);
            }
            // SAFETY: as above. Open MPI has put there what it has made.
            unsafe {
                (*table)[BCAST].function = stock_broadcast as Object;
                uniform::hold(made.read());
            }
            crossing.returns(without_blocking);
            PRESENT.replace(before);
            class_of(mpi, code, local, &crossing)
        };
        let tell = |code| match &crossing.talk {
            Some(talk) if WRONG_ARGUMENTS.contains(&code) => {
                talk.withdraw();
                code
            }
            Some(talk) => {
                if !begins.get() {
                    talk.tell_size(self, mpi);
                }
                let end = talk.end(self, mpi, code, crossing.tells());
                if crossing.joint.is_settled() { code } else { end }
            }
            None => code,
        };
        let end = uniform::agree_with_others(local, call, || crossing.joint.is_settled(), tell);
        let end = crossing.joint.class(end, local);
        // SAFETY: as above.
        unsafe { communicators::settle(made, end, self.null) };
        end
    }

    fn talk(&self, bridge: Object, other: c_int, tag: c_int) -> Option<Talk> {
        let word = Box::into_raw(Box::new(0));
        // SAFETY: the room lives until the request has ended.
        let request = unsafe { self.receive(word.cast(), 1, self.integer, other, WORD, bridge)? };
        Some(Talk { bridge: bridge as usize, other, tag, word: word as usize, request: request as usize })
    }

    /// # Safety
    /// Room for so many that lives until the request has ended, and a communicator that lives.
    unsafe fn receive(
        &self,
        room: *mut c_void,
        count: usize,
        kind: Object,
        from: c_int,
        tag: c_int,
        comm: Object,
    ) -> Option<*mut Request> {
        let mut request = std::ptr::null_mut();
        // SAFETY: as required of the caller; the type is that of pml.h.
        let code =
            unsafe { self.messages.function::<Irecv>(RECEIVE)(room, count, kind, from, tag, comm, &mut request) };
        (code == 0).then_some(request)
    }

    /// # Safety
    /// As many as that which live until the request has ended, and a communicator that lives.
    unsafe fn send(
        &self,
        what: *const c_void,
        count: usize,
        kind: Object,
        to: c_int,
        tag: c_int,
        comm: Object,
    ) -> Option<*mut Request> {
        let mut request = std::ptr::null_mut();
        // SAFETY: as above.
        let code =
            unsafe { self.messages.function::<Isend>(SEND)(what, count, kind, to, tag, STANDARD, comm, &mut request) };
        (code == 0).then_some(request)
    }

    /// What the group waits for from its leader: how many the others are, how long their list is, and the list.
    fn release_group(&self, local: Object, leader: c_int, module: Object) {
        for (mut number, count, kind) in [(1, 1, self.integer), (0, 1, self.integer), (0, 0, self.byte)] {
            // SAFETY: the arguments that Open MPI passes for its own.
            if unsafe { broadcast((&raw mut number).cast(), count, kind, leader, local, module) } != 0 {
                return;
            }
        }
    }
}

impl Talk {
    /// Why the other leader has not succeeded, as far as it has said so.
    fn given_up(&self) -> Option<c_int> {
        let request = self.request as *const Request;
        // SAFETY: it lives as long as this is asked, and so does the word.
        unsafe {
            if !Request::is_complete(request) {
                return None;
            }
            match (Request::code(request), (self.word as *const c_int).read_volatile()) {
                (0, 0) => None,
                (0, ERR_REVOKED) => Some(ERR_REVOKED),
                _ => Some(ERR_PROC_FAILED),
            }
        }
    }

    fn bridge(&self) -> Object {
        self.bridge as Object
    }

    /// Whether nothing comes from the other leader any more.
    fn is_over(&self, mpi: &Internals) -> bool {
        // SAFETY: a communicator that lives, in an Open MPI that fits.
        unsafe {
            mpi.is_revoked(self.bridge())
                || (mpi.has_no_collectives(self.bridge()) && mpi.dead_members(self.bridge()).contains(&self.other))
        }
    }

    /// Waits for a message to or from the other leader; false if there will be none. Then its memory must stay.
    ///
    /// # Safety
    /// The request of a message, which is not used any more.
    unsafe fn wait(&self, mpi: &Internals, request: Option<*mut Request>) -> bool {
        let Some(request) = request else { return false };
        // SAFETY: as required of the caller.
        unsafe {
            while !Request::is_complete(request) {
                if self.is_over(mpi) {
                    Request::cancel(request);
                    return false;
                }
                mpi.progress();
            }
            let is_good = Request::code(request) == 0;
            Request::give_back(request);
            is_good
        }
    }

    /// Nothing was begun.
    fn withdraw(&self) {
        let request = self.request as *mut Request;
        // SAFETY: the request lives, and nobody asks for it again. The room for the word stays.
        unsafe {
            Request::cancel(request);
            if Request::is_complete(request) {
                Request::give_back(request);
            }
        }
    }

    /// This leader's call ends with this class; `tells`: the other one has this one's list. Returns with which it ends for both.
    fn end(&self, stock: &Stock, mpi: &Internals, code: c_int, tells: bool) -> c_int {
        if self.is_over(mpi) {
            self.withdraw();
            return code;
        }
        if code != 0 && !tells {
            self.give_nothing(stock, mpi);
        }
        let said = Box::into_raw(Box::new(code));
        // SAFETY: what is sent stays where it is unless it has arrived; the requests are used once.
        let end = unsafe {
            let sent = stock.send(said.cast(), 1, stock.integer, self.other, WORD, self.bridge());
            let request = self.request as *mut Request;
            while !Request::is_complete(request) && !self.is_over(mpi) {
                mpi.progress();
            }
            let end = if code == 0 { self.given_up().unwrap_or(0) } else { code };
            if self.wait(mpi, Some(request)) {
                drop(Box::from_raw(self.word as *mut c_int));
            }
            if self.wait(mpi, sent) {
                drop(Box::from_raw(said));
            }
            end
        };
        if end != 0 {
            self.take_what_is_left(stock, mpi);
        }
        end
    }

    /// Exchanges a number: how many there are in the group, or how long the list of them is. `None` if the other leader is lost.
    fn exchange(&self, stock: &Stock, mpi: &Internals, own: c_int) -> Option<c_int> {
        let numbers = Box::into_raw(Box::new([own, 0]));
        // SAFETY: the memory stays where it is unless both have ended; the requests are used once.
        unsafe {
            let [own, others] = [numbers.cast::<c_int>(), numbers.cast::<c_int>().add(1)];
            let received = stock.receive(others.cast(), 1, stock.integer, self.other, self.tag, self.bridge());
            let sent = stock.send(own.cast(), 1, stock.integer, self.other, self.tag, self.bridge());
            (self.wait(mpi, sent) & self.wait(mpi, received)).then(|| Box::from_raw(numbers)[1])
        }
    }

    /// What was not begun here the other leader has.
    fn tell_size(&self, stock: &Stock, mpi: &Internals) {
        let _ = self.exchange(stock, mpi, 1);
    }

    /// The length of the list of members, and the list, which the other leader waits for, and those that it sends.
    fn give_nothing(&self, stock: &Stock, mpi: &Internals) {
        let Some(length) = self.exchange(stock, mpi, 0).and_then(|length| usize::try_from(length).ok()) else { return };
        // SAFETY: as above.
        unsafe {
            let list = Box::leak(vec![0_u8; length].into_boxed_slice()).as_mut_ptr();
            let received = stock.receive(list.cast(), length, stock.byte, self.other, self.tag, self.bridge());
            let sent = stock.send(list.cast(), 0, stock.byte, self.other, self.tag, self.bridge());
            if self.wait(mpi, sent) & self.wait(mpi, received) {
                drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, length)));
            }
        }
    }

    /// The other leader's messages about the number, which the next call would take for its own. They came before its word.
    fn take_what_is_left(&self, stock: &Stock, mpi: &Internals) {
        loop {
            let (mut is_there, number) = (0, Box::into_raw(Box::new(0 as c_int)));
            // SAFETY: as above; nobody asks for the status.
            unsafe {
                let probe = stock.messages.function::<Iprobe>(PROBE);
                let code = probe(self.other, NUMBERING, self.bridge(), &mut is_there, std::ptr::null_mut());
                if code != 0 || is_there == 0 {
                    return drop(Box::from_raw(number));
                }
                let received = stock.receive(number.cast(), 1, stock.integer, self.other, NUMBERING, self.bridge());
                if !self.wait(mpi, received) {
                    return;
                }
                drop(Box::from_raw(number));
            }
        }
    }
}

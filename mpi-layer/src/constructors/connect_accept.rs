//! Makes `MPI_Comm_accept`, `MPI_Comm_connect` and `MPI_Comm_spawn` end at every member when a process dies; with
//! uniform communicators all members get the new communicator or none does.
//!
//! In Open MPI the roots exchange lists of their members and broadcast them to their groups. Then all members connect
//! in the runtime and choose the context id, with collectives of each group between these steps
//! (`ompi_dpm_connect_accept` in dpm.c). If the runtime reports to a member that a process of the other group is dead,
//! the member returns, and the rest of its group waits for it for ever. With ringwatch:
//! * A root whose exchange fails withdraws its published list. It broadcasts the code to its group, in the way in which
//!   Open MPI reports that no process was spawned.
//! * The rest of the call runs on a private duplicate of the group's communicator. A member that gives up revokes it.
//!   This does not apply to `MPI_Comm_spawn`: Open MPI names the world to the runtime by one keyword instead of by its
//!   members, and a spawned process that dies in `MPI_Init` ends the job.
//! * If the call fails after the new communicator has its context id, ringwatch revokes that, too: the other group may
//!   have it.
//! * A root whose group cannot succeed notifies the other root, which waits for its list.
//! * The members of a uniform communicator agree on the result. A root marks its list if its group is uniform. If both
//!   groups are, the members of both vote at the end ([`creation_vote`](crate::constructors::creation_vote)): all
//!   succeed or none, regardless of deaths. Otherwise each group agrees on its own; so it does for `MPI_Comm_spawn`,
//!   where the other group is in `MPI_Init`.
//! * A failed communicator keeps its context id, because the other side may still send in it ([`cid_hold`]).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute;
use std::sync::{Arc, Mutex, OnceLock};

use crate::agreement::vote::About;
use crate::cid::{cid_hold, cid_turn};
use crate::constructors::creation_vote::Joint;
use crate::constructors::{dynamic_processes, steps};
use crate::failure::wakeup;
use crate::in_front::in_front;
use crate::onesided::win_and_file;
use crate::properties::communicators;
use crate::properties::error_scope::Scope;
use crate::properties::info_property::SCOPE;
use crate::uniform::operations;
use openmpi_internals::abi::{CommSplit, DpmConnectAccept, DpmSpawn, OnObject, PmixExchange};
use openmpi_internals::classes::Classes;
use openmpi_internals::communicator::{BCAST, Internals};
use openmpi_internals::error_class::{ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use openmpi_internals::functions::{
    OMPI_COMM_REVOKE_INTERNAL, OMPI_COMM_SPLIT, OMPI_DPM_CONNECT_ACCEPT, OMPI_DPM_SPAWN, opal_pmix_base_exchange,
};
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::status::{OPAL_ERR_COMM_FAILURE, OPAL_ERR_PROC_ABORTED};
use openmpi_internals::object::Object;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::{OMPI_MPI_BYTE, OMPI_MPI_COMM_NULL};
use pmix_sys::{
    PMIX_ERR_LOST_CONNECTION, PMIX_ERR_PARTIAL_SUCCESS, PMIX_ERR_PROC_TERM_WO_SYNC, PMIX_MAX_KEYLEN, PMIX_PERSIST,
    PMIX_PERSIST_FIRST_READ, PMIX_STRING, pmix_info_t, pmix_key_t, pmix_pdata_t, pmix_value__bindgen_ty_1,
    pmix_value_t,
};

/// Replaces the port, in front of an error code, if there is no group to connect to.
const ERROR: &str = ":error=";
/// Offset of codes that a root broadcasts to its group. No function of Open MPI fails with a code in that range.
const BROADCAST_OFFSET: c_int = -1_000_000;
/// Statuses of an exchange that fails because of a death: PMIx's, and two of Open MPI's to which it translates others.
const DEATH_STATUSES: [c_int; 5] = [
    PMIX_ERR_PROC_TERM_WO_SYNC,
    PMIX_ERR_LOST_CONNECTION,
    PMIX_ERR_PARTIAL_SUCCESS,
    OPAL_ERR_COMM_FAILURE,
    OPAL_ERR_PROC_ABORTED,
];
/// Suffixes of the keys under which roots publish their lists.
const MEMBERS: [&[u8]; 2] = [b":accept", b":connect"];
/// Suffix of the list of a root whose group cannot connect. Open MPI takes it for an entry without a rank, and fails.
const REFUSAL: &[u8] = b".*";

/// Suffix of the list of a uniform group. Open MPI separates members by it, and ignores the empty last entry.
const UNIFORM: u8 = b':';

type Broadcast = unsafe extern "C" fn(*mut c_void, c_int, Object, c_int, Object, Object) -> c_int;
type Publish = unsafe extern "C" fn(*const pmix_info_t, usize) -> c_int;
type Unpublish = unsafe extern "C" fn(*const *const c_char, *const pmix_info_t, usize, OpCallback, Object) -> c_int;
/// `pmix_op_cbfunc_t`
type OpCallback = unsafe extern "C" fn(c_int, Object);

struct Stock {
    connect_accept: DpmConnectAccept,
    spawn: DpmSpawn,
    exchange: PmixExchange<pmix_info_t, pmix_pdata_t>,
    split: CommSplit,
    publish: Publish,
    unpublish: Unpublish,
    revoke: OnObject,
    byte: Object,
    /// `MPI_COMM_NULL`
    null: usize,
}

// SAFETY: addresses of objects that live as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

static STOCK: OnceLock<Stock> = OnceLock::new();
static MEETINGS: Mutex<Vec<Meeting>> = Mutex::new(Vec::new());
/// Ports of processes that this process has spawned and not yet connected to.
static SPAWNED: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());
/// Keys under which this process has published a refusal.
static REFUSED: Mutex<BTreeSet<CString>> = Mutex::new(BTreeSet::new());

struct Meeting {
    /// The program's communicator, and the one on which the call runs.
    comm: usize,
    own: usize,
    /// The new communicator, held from the time when it has its context id.
    made: Option<usize>,
    /// Whether the new communicator may be revoked before it is complete. False for spawned processes: any death then
    /// ends the job.
    can_be_revoked: bool,
    joint: Arc<Joint>,
    /// The broadcast of the group's communicator.
    broadcast: usize,
    /// The root's exchange with the other root.
    exchange: Option<RootExchange>,
}

/// An exchange of a root with the other one.
struct RootExchange {
    /// The key under which the root publishes its list.
    key: Vec<u8>,
    /// `None` for spawned processes.
    joint: Option<Arc<Joint>>,
    /// The group cannot connect.
    refuses: bool,
    /// Status of a failed exchange.
    failure: Option<c_int>,
}

impl RootExchange {
    /// Calls `with` with the exchange that has this key.
    fn find<T>(key: &[u8], with: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let mut meetings = lock(&MEETINGS);
        let mut all = meetings.iter_mut().filter_map(|meeting| meeting.exchange.as_mut());
        all.find(|asking| asking.key == key).map(with)
    }
}

/// A call of one of these functions.
struct Call<'a> {
    stock: &'a Stock,
    mpi: &'a Internals,
    comm: Object,
    root: c_int,
    /// Non-null at the root, and for spawned processes at the other members, too.
    port: *const c_char,
    connects: bool,
    made: *mut Object,
    joint: Arc<Joint>,
}

/// Interposes on the functions that connect groups. At the end of `MPI_Init`.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the types are those of dpm.h, communicator.h, pmix-internal.h and pmix.h; functions of the same types
    // take their places.
    unsafe {
        let stock = Stock {
            connect_accept: at.function(OMPI_DPM_CONNECT_ACCEPT)?,
            spawn: at.function(OMPI_DPM_SPAWN)?,
            exchange: at.function(opal_pmix_base_exchange())?,
            split: at.function(OMPI_COMM_SPLIT)?,
            publish: at.standard(c"PMIx_Publish")?,
            unpublish: at.standard(c"PMIx_Unpublish_nb")?,
            revoke: at.function(OMPI_COMM_REVOKE_INTERNAL)?,
            byte: at.predefined(OMPI_MPI_BYTE)?,
            null: at.predefined(OMPI_MPI_COMM_NULL)? as usize,
        };
        let _ = STOCK.set(stock);
        at.redirect_all(&[
            OMPI_DPM_CONNECT_ACCEPT.by(connect_accept),
            OMPI_DPM_SPAWN.by(spawn),
            opal_pmix_base_exchange().by(exchange),
        ])?;
    }
    Ok(())
}

/// Interrupts calls whose communicator is revoked. Called in a turn of the progress loop; false if no further turn is
/// needed.
pub fn interrupt_meetings() -> bool {
    let (Some(mpi), Some(stock)) = (Internals::get(), STOCK.get()) else { return false };
    // A thread that changes the list requests a turn if it needs one.
    let Ok(meetings) = MEETINGS.try_lock() else { return true };
    for meeting in meetings.iter() {
        let [comm, own] = [meeting.comm as Object, meeting.own as Object];
        // SAFETY: both live until the meeting is removed from the list.
        if unsafe { mpi.is_revoked(comm) && !mpi.is_revoked(own) } {
            // SAFETY: as above.
            unsafe { (stock.revoke)(own) };
        }
    }
    !meetings.is_empty()
}

/// Notes that an intercommunicator made from `own` has its context id: the other group may send in it from now on.
///
/// # Safety
/// `made` is live.
pub unsafe fn note_context_id(made: Object, own: Object) {
    let can_be_revoked = lock(&MEETINGS).iter_mut().find(|meeting| meeting.own == own as usize).map(|meeting| {
        // SAFETY: as required of the caller.
        unsafe { Classes::hold(made) };
        meeting.made = Some(made as usize);
        meeting.joint.begins();
        meeting.can_be_revoked
    });
    if can_be_revoked == Some(true) {
        dynamic_processes::has_context_id(made);
    }
}

/// Runs the last step of an intercommunicator made from `own`, which gives it its collectives; returns its code.
///
/// # Safety
/// Live communicators, the first with its context id, in an Open MPI of the known layout.
pub unsafe fn activate(made: Object, own: Object, begin: impl FnOnce() -> c_int) -> c_int {
    let meeting = |meeting: &&Meeting| meeting.own == own as usize;
    let joint = lock(&MEETINGS).iter().find(meeting).map(|meeting| meeting.joint.clone());
    match joint {
        // SAFETY: as required of the caller.
        Some(joint) => unsafe { joint.activate(made, own, begin) },
        None => begin(),
    }
}

in_front! { (stock, (function, joint)) = STOCK.get().zip(met_on(comm)), or ERR_INTERN;
    /// Replaces the broadcast of a connecting group: the root broadcasts the list of the other group.
    unsafe extern "C" fn broadcast(
        buffer: *mut c_void, count: c_int, datatype: Object, root: c_int, comm: Object, module: Object
    ) -> c_int {
        // SAFETY: the stock function with its original arguments; only the list is of type byte.
        unsafe {
            let code = transmute::<Object, Broadcast>(function)(buffer, count, datatype, root, comm, module);
            if code == 0 && datatype == stock.byte && count > 0 {
                joint.other_is(is_of_uniform_group(CStr::from_ptr(buffer.cast())));
            }
            code
        }
    }
}

/// The stock broadcast of a group that connects on this communicator, and the call's vote.
fn met_on(own: Object) -> Option<(Object, Arc<Joint>)> {
    let meetings = lock(&MEETINGS);
    let meeting = meetings.iter().find(|meeting| meeting.own == own as usize)?;
    Some((meeting.broadcast as Object, meeting.joint.clone()))
}

/// Whether a list of members belongs to a uniform group.
fn is_of_uniform_group(list: &CStr) -> bool {
    list.to_bytes().ends_with(&[UNIFORM])
}

in_front! { stock = STOCK.get(), or ERR_INTERN;
    unsafe extern "C" fn spawn(
        count: c_int, commands: *const *const c_char, arguments: *const *const *const c_char, numbers: *const c_int,
        infos: *const Object, port: *const c_char
    ) -> c_int {
        // SAFETY: Open MPI passes terminated text; the stock function gets its original arguments.
        unsafe {
            let code = (stock.spawn)(count, commands, arguments, numbers, infos, port);
            // Programs without MPI get no port, and do not connect.
            let port = CStr::from_ptr(port).to_bytes();
            if !port.is_empty() {
                lock(&SPAWNED).insert(port.to_vec());
            }
            code
        }
    }

    unsafe extern "C" fn exchange(own: *const pmix_info_t, others: *mut pmix_pdata_t, seconds: c_int) -> c_int {
        // Other code that runs in this thread during the wait makes no steps of the call.
        // SAFETY: Open MPI passes the published list, and the place of the answer.
        steps::apart(|| unsafe { stock.exchange_members(&*own, others, seconds) })
    }

    unsafe extern "C" fn connect_accept(
        comm: Object, root: c_int, port: *const c_char, connects: bool, made: *mut Object
    ) -> c_int {
        match Internals::fitting() {
            // SAFETY: arguments of Open MPI.
            Some(mpi) => unsafe {
                let joint = Arc::new(Joint::new(comm));
                Call { stock, mpi, comm, root, port, connects, made, joint }.carry_out()
            },
            // SAFETY: the stock function with its original arguments.
            None => unsafe { (stock.connect_accept)(comm, root, port, connects, made) },
        }
    }
}

impl Stock {
    /// Publishes this group's list, and waits for the other group's; returns the status.
    ///
    /// # Safety
    /// The list that Open MPI publishes, and the place of the answer.
    unsafe fn exchange_members(&self, own: &pmix_info_t, others: *mut pmix_pdata_t, seconds: c_int) -> c_int {
        // SAFETY: as required of the caller.
        unsafe {
            // Without an answer Open MPI frees the value, of which it has initialised only the key.
            (&raw mut (*others).value.type_).write(0);
            let key = CStr::from_ptr(own.key.as_ptr());
            if !MEMBERS.iter().any(|end| key.to_bytes().ends_with(end)) {
                return (self.exchange)(own, others, seconds);
            }
            if lock(&REFUSED).remove(key) {
                self.take_back(key);
            }
            if RootExchange::find(key.to_bytes(), |asking| asking.refuses) == Some(true) {
                lock(&REFUSED).insert(key.to_owned());
                return refuse(self, own);
            }
            let joint = RootExchange::find(key.to_bytes(), |asking| asking.joint.clone()).flatten();
            let marked = joint.as_ref().filter(|joint| joint.is_uniform()).and_then(|_| marked(own));
            let said = marked.as_ref().map_or(own, |(_, said)| said);
            let code = match (self.exchange)(said, others, seconds) {
                0 if is_refusal(&(*others).value) => PMIX_ERR_PROC_TERM_WO_SYNC,
                code => code,
            };
            if let (0, Some(joint)) = (code, joint) {
                joint.other_is(is_of_uniform_group(CStr::from_ptr((*others).value.data.string)));
            }
            if code != 0 {
                self.take_back(key);
                RootExchange::find(key.to_bytes(), |asking| asking.failure = Some(code));
            }
            code
        }
    }

    /// Withdraws a published entry that has not been read. Returns without waiting; a later publication follows it in
    /// order.
    ///
    /// # Safety
    /// The runtime is initialised.
    unsafe fn take_back(&self, key: &CStr) {
        let keys = [key.as_ptr(), std::ptr::null()];
        // SAFETY: as required of the caller; a terminated list, which is copied.
        let _ = unsafe { (self.unpublish)(keys.as_ptr(), std::ptr::null(), 0, taken_back, std::ptr::null_mut()) };
    }
}

unsafe extern "C" fn taken_back(_status: c_int, _data: Object) {}

/// Whether a root has published a refusal.
///
/// # Safety
/// A published value of a root.
unsafe fn is_refusal(published: &pmix_value_t) -> bool {
    // SAFETY: as required of the caller.
    let list = unsafe { CStr::from_ptr(published.data.string) }.to_bytes();
    list.ends_with(REFUSAL) && !list.contains(&b':')
}

/// A PMIx value that refers to this text.
fn value_of(text: &CStr) -> pmix_value_t {
    let data = pmix_value__bindgen_ty_1 { string: text.as_ptr().cast_mut() };
    pmix_value_t { type_: PMIX_STRING as u16, data }
}

/// The marked list of a uniform group, and its text, to which it refers.
///
/// # Safety
/// The list that Open MPI publishes.
unsafe fn marked(own: &pmix_info_t) -> Option<(CString, pmix_info_t)> {
    // SAFETY: as required of the caller: terminated text.
    let list = unsafe { CStr::from_ptr(own.value.data.string) }.to_bytes();
    let list = CString::new([list, &[UNIFORM]].concat()).ok()?;
    let value = value_of(&list);
    Some((list, pmix_info_t { value, ..*own }))
}

/// The attribute that removes a published entry when it is first read.
fn until_first_read() -> pmix_info_t {
    let name = c"pmix.persist".to_bytes();
    let mut key: pmix_key_t = [0; PMIX_MAX_KEYLEN as usize + 1];
    key.iter_mut().zip(name).for_each(|(place, byte)| *place = *byte as c_char);
    let data = pmix_value__bindgen_ty_1 { persist: PMIX_PERSIST_FIRST_READ as u8 };
    pmix_info_t { key, flags: 0, value: pmix_value_t { type_: PMIX_PERSIST as u16, data } }
}

/// Publishes a refusal in place of the list.
///
/// # Safety
/// The list that Open MPI publishes: processes as "JOB.RANK", separated by colons.
unsafe fn refuse(stock: &Stock, own: &pmix_info_t) -> c_int {
    // SAFETY: as required of the caller.
    let list = unsafe { CStr::from_ptr(own.value.data.string) }.to_bytes();
    let first = list.split(|byte| *byte == b':').next().unwrap_or_default();
    let job = first.rsplitn(2, |byte| *byte == b'.').last().unwrap_or_default();
    let Ok(nobody) = CString::new([job, REFUSAL].concat()) else { return ERR_INTERN };
    let infos = [pmix_info_t { value: value_of(&nobody), ..*own }, until_first_read()];
    // SAFETY: the runtime copies what it publishes.
    let _ = unsafe { (stock.publish)(infos.as_ptr(), infos.len()) };
    PMIX_ERR_PROC_TERM_WO_SYNC
}

impl Call<'_> {
    /// # Safety
    /// Arguments of Open MPI.
    unsafe fn carry_out(&self) -> c_int {
        // SAFETY: as required of the caller.
        unsafe {
            let is_root = self.mpi.rank_in(self.comm) == self.root;
            let spawns = if is_root { self.has_spawned() } else { !self.port.is_null() };
            let is_alone = !self.mpi.is_intracommunicator_of_several(self.comm);
            let mut own = None;
            let end = || {
                let code = if spawns || is_alone { self.meet_on(self.comm, !spawns).0 } else { self.meet_on_own() };
                *own.insert(self.class(code))
            };
            let code = operations::agree_unless_settled(self.comm, About::Others, end, || self.joint.is_settled());
            let code = if spawns { code } else { self.joint.class(code, self.comm) };
            match own {
                // It succeeded here, but not everywhere. It stays until the end, with its context id.
                Some(0) if code != 0 => _ = (self.stock.revoke)(self.made.read()),
                None => self.refuse(),
                _ => {}
            }
            if code != 0 {
                self.made.write(self.stock.null as Object);
            }
            if matches!(code, ERR_PROC_FAILED | ERR_REVOKED) {
                cid_hold::keep();
            }
            code
        }
    }

    /// # Safety
    /// As above, at the root.
    unsafe fn has_spawned(&self) -> bool {
        // SAFETY: as required of the caller.
        let Some(port) = (unsafe { self.port() }) else { return false };
        let (spawned, nobody) = port.split_once(ERROR).map_or((port.as_ref(), false), |(port, _)| (port, true));
        lock(&SPAWNED).remove(spawned.as_bytes()) || nobody
    }

    /// # Safety
    /// As above, at the root.
    unsafe fn port(&self) -> Option<Cow<'_, str>> {
        // SAFETY: as required of the caller: Open MPI passes terminated text, or null.
        (!self.port.is_null()).then(|| unsafe { CStr::from_ptr(self.port) }.to_string_lossy())
    }

    /// Runs the call on a private communicator.
    ///
    /// # Safety
    /// As above.
    unsafe fn meet_on_own(&self) -> c_int {
        let mut own = self.stock.null as Object;
        // SAFETY: as required of the caller; no other code knows the communicator that is made here.
        unsafe {
            let code = win_and_file::copying(self.comm, || (self.stock.split)(self.comm, 0, 0, &mut own, false));
            if code != 0 {
                self.refuse();
                return code;
            }
            // Its scope would be the job's default; a death outside the groups must not interrupt the call.
            communicators::set(own, SCOPE, Scope::Local.value());
            let (mut code, is_told) = self.meet_on(own, true);
            if code != 0 && !is_told {
                // Any result: a member has revoked the communicator of the call.
                if self.mpi.is_revoked(own) {
                    code = ERR_REVOKED;
                }
                (self.stock.revoke)(own);
            }
            if code != 0 {
                cid_turn::give_back();
            }
            steps::wait_for_giving_up();
            self.mpi.free(own);
            code
        }
    }

    /// Returns the code, and whether all members of the group have it from the root.
    ///
    /// # Safety
    /// As above; `own` has the same members in the same order.
    unsafe fn meet_on(&self, own: Object, can_be_revoked: bool) -> (c_int, bool) {
        // SAFETY: as required of the caller.
        unsafe {
            let (mut code, meeting) = self.ask_and_meet(own, can_be_revoked, false);
            let failure = meeting.as_ref().and_then(|meeting| meeting.exchange.as_ref()?.failure);
            // A root without an answer returned before the first collective, in which the other members wait.
            if let Some(Ok(port)) = failure.map(|reason| CString::new(format!("{ERROR}{}", reason + BROADCAST_OFFSET)))
            {
                code = (self.stock.connect_accept)(own, self.root, port.as_ptr(), self.connects, self.made);
            }
            if let Some(made) = meeting.and_then(|meeting| meeting.made) {
                let made = made as Object;
                if code == 0 {
                    self.mpi.classes.release(made);
                } else {
                    if dynamic_processes::given_up(made) {
                        (self.stock.revoke)(made);
                    }
                }
            }
            let is_told = code <= BROADCAST_OFFSET;
            (if is_told { code - BROADCAST_OFFSET } else { code }, is_told)
        }
    }

    /// Runs Open MPI's function; returns its code and the state of the meeting.
    ///
    /// # Safety
    /// As above.
    unsafe fn ask_and_meet(&self, own: Object, can_be_revoked: bool, refuses: bool) -> (c_int, Option<Meeting>) {
        // SAFETY: as required of the caller.
        unsafe {
            let is_root = self.mpi.rank_in(self.comm) == self.root;
            let exchange = is_root.then(|| self.port()).flatten().map(|port| {
                let key = [port.as_bytes(), MEMBERS[usize::from(self.connects)]].concat();
                let joint = can_be_revoked.then(|| self.joint.clone());
                RootExchange { key, joint, refuses, failure: None }
            });
            let (comm, joint, is_own) = (self.comm as usize, self.joint.clone(), own != self.comm);
            let slot = &mut self.mpi.table(own)[BCAST];
            let broadcast = slot.function as usize;
            lock(&MEETINGS).push(Meeting {
                comm,
                own: own as usize,
                made: None,
                can_be_revoked,
                joint,
                broadcast,
                exchange,
            });
            if is_own {
                slot.function = self::broadcast as Object;
            }
            wakeup::request_turns();
            let code = (self.stock.connect_accept)(own, self.root, self.port, self.connects, self.made);
            self.mpi.table(own)[BCAST].function = broadcast as Object;
            let mut meetings = lock(&MEETINGS);
            let place = meetings.iter().position(|meeting| meeting.own == own as usize);
            (code, place.map(|place| meetings.swap_remove(place)))
        }
    }

    /// Notifies the other root, which waits for this one's list, that this group cannot connect.
    ///
    /// # Safety
    /// As above.
    unsafe fn refuse(&self) {
        // SAFETY: as required of the caller.
        unsafe {
            let is_met =
                self.mpi.rank_in(self.comm) == self.root && self.port().is_some_and(|port| !port.contains(ERROR));
            if is_met {
                let _ = self.ask_and_meet(self.comm, false, true);
            }
        }
    }

    /// The error class that a code means for the members.
    fn class(&self, code: c_int) -> c_int {
        match (code, win_and_file::damage(self.mpi, self.comm)) {
            (0, _) => 0,
            (_, Some(class)) => class,
            // The call's communicator was revoked because of a death, or a process of the other group is dead.
            (ERR_REVOKED, None) => ERR_PROC_FAILED,
            (code, None) if DEATH_STATUSES.contains(&code) => ERR_PROC_FAILED,
            (_, None) => code,
        }
    }
}

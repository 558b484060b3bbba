//! Two groups that meet in `MPI_Comm_accept` and `MPI_Comm_connect`, or by `MPI_Comm_spawn`: nobody waits for a member of its
//! group that has given up, and of a uniform communicator all members have the new one or none has.
//!
//! Open MPI has the roots exchange who is there, tell their groups, bring all together in the runtime, and settle the number, in turn
//! with collectives of each group (`ompi_dpm_connect_accept` in dpm.c). Whoever is told there that somebody of the other group
//! is dead leaves, and all others of its own, in which nobody is dead, wait for it. Here
//! * a root whose exchange fails takes its word back, and gives its group the code, in the way in which Open MPI tells that
//!   nobody was spawned;
//! * the rest runs on a communicator of the group that nobody else has, and whoever gives up revokes that. Not where processes
//!   are spawned: Open MPI names the world to the runtime by one word in place of all its members, and a spawned process that
//!   dies before it has left `MPI_Init` ends the job;
//! * where it fails once the new communicator has its number, that one is revoked, too: the other group may have it;
//! * a root that cannot succeed tells the other one, which waits for its word;
//! * the members of a uniform communicator agree on how it has ended. If both groups are uniform, which a root adds to what it says of who
//!   is there, the members of both vote at the end ([`ballots`](crate::ballots)), so that all succeed or none, whoever dies. Otherwise,
//!   and where processes are spawned, which are in `MPI_Init`, each group agrees for itself;
//! * a communicator that fails keeps its number, in which the other side may send still ([`numbers`]).
//!
//! Functions of this module take the places of Open MPI's in libmpi's table of jumps.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::{offset_of, transmute};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use crate::ballots::Joint;
use crate::internals::{BCAST, Internals};
use crate::line::lock;
use crate::objects::{Classes, Object};
use crate::openmpi::Library;
use crate::property::SCOPE;
use crate::scope::Scope;
use crate::statement::{About, ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use crate::{communicators, construction, dynamic, groups, numbers, uniform};

const CONNECT_ACCEPT: &CStr = c"ompi_dpm_connect_accept";
/// What a root calls that has processes spawned, before the other.
const SPAWN: &CStr = c"ompi_dpm_spawn";
/// How a root asks the other one.
const EXCHANGE: &CStr = c"opal_pmix_base_exchange";
/// What stands in a port where there is nobody to meet, before the code.
const ERROR: &str = ":error=";
/// What a root adds to a code that it gives its group: no function of Open MPI fails with any like that.
const TOLD: c_int = -1_000_000;
/// The runtime's words about the dead: `PMIX_ERR_PROC_TERM_WO_SYNC`, `PMIX_ERR_LOST_CONNECTION` and `PMIX_ERR_PARTIAL_SUCCESS`, and
/// what Open MPI makes of others: `OPAL_ERR_COMM_FAILURE`, `OPAL_ERR_PROC_ABORTED`.
const DEATHS: [c_int; 5] = [-200, -61, -52, -51, -57];
/// How the keys end under which roots publish who is there.
const MEMBERS: [&[u8]; 2] = [b":accept", b":connect"];
/// How the list of a root ends whose group cannot meet. Open MPI takes it for one that lacks a number, and ends with an error.
const NOBODY: &[u8] = b".*";

/// How the list of a uniform group ends: for Open MPI what is between two of these is a member, and nothing is none.
const UNIFORM: u8 = b':';

type Broadcast = unsafe extern "C" fn(*mut c_void, c_int, Object, c_int, Object, Object) -> c_int;
type ConnectAccept = unsafe extern "C" fn(Object, c_int, *const c_char, bool, *mut Object) -> c_int;
type Spawn = unsafe extern "C" fn(c_int, Object, Object, *const c_int, *const Object, *const c_char) -> c_int;
type Exchange = unsafe extern "C" fn(*const Info, *mut Published, c_int) -> c_int;
type Split = unsafe extern "C" fn(Object, c_int, c_int, *mut Object, bool) -> c_int;
type Publish = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Unpublish = unsafe extern "C" fn(*const *const c_char, *const Info, usize, Done, Object) -> c_int;
type Done = unsafe extern "C" fn(c_int, Object);
type Revoke = unsafe extern "C" fn(Object) -> c_int;

/// `pmix_key_t`
type Key = [u8; 512];
const STRING: u16 = 3;
const PERSISTENCE: u16 = 30;
/// `PMIX_PERSIST_FIRST_READ`
const UNTIL_READ: u8 = 1;

/// `pmix_value_t`, of which these types of data are used.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    string: *mut c_char,
    number: u8,
    room: [u64; 3],
}

impl Value {
    /// # Safety
    /// What a root has published.
    unsafe fn is_refusal(&self) -> bool {
        // SAFETY: as required of the caller.
        let list = unsafe { CStr::from_ptr(self.data.string) }.to_bytes();
        list.ends_with(NOBODY) && !list.contains(&b':')
    }
}

/// `pmix_info_t`
#[repr(C)]
struct Info {
    key: Key,
    flags: u32,
    value: Value,
}

/// `pmix_pdata_t`
#[repr(C)]
struct Published {
    process: [u32; 65],
    key: Key,
    value: Value,
}

const _: () = assert!(size_of::<Value>() == 32 && size_of::<Info>() == 552);
const _: () = assert!(offset_of!(Info, value) == 520 && offset_of!(Published, value) == 776);

struct Stock {
    connect_accept: ConnectAccept,
    spawn: Spawn,
    exchange: Exchange,
    split: Split,
    publish: Publish,
    unpublish: Unpublish,
    revoke: Revoke,
    byte: Object,
    /// `MPI_COMM_NULL`
    null: usize,
}

// SAFETY: addresses of what lives as long as libmpi.
unsafe impl Send for Stock {}
// SAFETY: as above.
unsafe impl Sync for Stock {}

static STOCK: OnceLock<Stock> = OnceLock::new();
static MEETINGS: Mutex<Vec<Meeting>> = Mutex::new(Vec::new());
/// The ports at which this process has just had processes spawned, which are to be met.
static SPAWNED: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());
/// The keys under which this process has published that nobody comes.
static REFUSED: Mutex<BTreeSet<CString>> = Mutex::new(BTreeSet::new());

struct Meeting {
    /// The communicator with which the program has called, and the one on which the call runs.
    comm: usize,
    own: usize,
    /// The one that is made, held from when it has its number.
    made: Option<usize>,
    /// Somebody may revoke that before it is made: not where processes are spawned, as any death then ends the job.
    can_be_revoked: bool,
    joint: Arc<Joint>,
    /// The group's broadcast.
    broadcast: usize,
    /// The root's part.
    exchange: Option<Asking>,
}

/// What a root asks the other one.
struct Asking {
    /// The key under which it publishes who is there.
    key: Vec<u8>,
    /// Not where processes are spawned.
    joint: Option<Arc<Joint>>,
    /// Its group cannot meet.
    refuses: bool,
    /// Why there was no answer.
    failure: Option<c_int>,
}

impl Asking {
    /// With a root's exchange.
    fn find<T>(key: &[u8], look: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let mut meetings = lock(&MEETINGS);
        let mut all = meetings.iter_mut().filter_map(|meeting| meeting.exchange.as_mut());
        all.find(|asking| asking.key == key).map(look)
    }
}

/// A call.
struct Call<'a> {
    stock: &'a Stock,
    mpi: &'a Internals,
    comm: Object,
    root: c_int,
    /// At the root; and where processes are spawned not null at the others.
    port: *const c_char,
    connects: bool,
    made: *mut Object,
    joint: Arc<Joint>,
}

/// Stands where groups meet. At the end of `MPI_Init`, also in a rank that is not watched: all of a group have to do the same.
pub fn watch() {
    if let (Some(library), Some(_)) = (Library::loaded(), Internals::fitting()) {
        let _ = stand(&library);
    }
}

fn stand(library: &Library) -> Option<()> {
    // SAFETY: the types are those of dpm.h, communicator.h, pmix-internal.h and pmix.h; functions of the same types take
    // their places.
    unsafe {
        let stock = Stock {
            connect_accept: library.function(CONNECT_ACCEPT)?,
            spawn: library.function(SPAWN)?,
            exchange: library.function(EXCHANGE)?,
            split: library.function(c"ompi_comm_split")?,
            publish: library.function(c"PMIx_Publish")?,
            unpublish: library.function(c"PMIx_Unpublish_nb")?,
            revoke: library.function(c"ompi_comm_revoke_internal")?,
            byte: library.predefined(c"ompi_mpi_byte")?,
            null: library.predefined(c"ompi_mpi_comm_null")? as usize,
        };
        STOCK.set(stock).ok()?;
        library.redirect_all(&[
            (CONNECT_ACCEPT, connect_accept as *const c_void),
            (SPAWN, spawn as *const _),
            (EXCHANGE, exchange as *const _),
        ]);
    }
    Some(())
}

/// A turn of the progress loop: what runs for a communicator that was revoked is interrupted, too. False if no further turn is
/// needed.
pub fn look() -> bool {
    let (Some(mpi), Some(stock)) = (Internals::get(), STOCK.get()) else { return false };
    // Who changes the list needs another turn, or none.
    let Ok(meetings) = MEETINGS.try_lock() else { return true };
    for meeting in meetings.iter() {
        let [comm, own] = [meeting.comm as Object, meeting.own as Object];
        // SAFETY: both live until the meeting is taken off the list.
        if unsafe { mpi.is_revoked(comm) && !mpi.is_revoked(own) } {
            // SAFETY: as above.
            unsafe { (stock.revoke)(own) };
        }
    }
    !meetings.is_empty()
}

/// A communicator of two groups that is made on this one has its number: the others may send in it from now on.
///
/// # Safety
/// It lives.
pub unsafe fn is_numbered(made: Object, own: Object) {
    let can_be_revoked = lock(&MEETINGS).iter_mut().find(|meeting| meeting.own == own as usize).map(|meeting| {
        // SAFETY: as required of the caller.
        unsafe { Classes::hold(made) };
        meeting.made = Some(made as usize);
        meeting.joint.begins();
        meeting.can_be_revoked
    });
    if can_be_revoked == Some(true) {
        dynamic::numbered(made);
    }
}

/// The last step of what is made on this one, which gives it its collectives; returns its code.
///
/// # Safety
/// Communicators that live, the first with its number, in an Open MPI that fits.
pub unsafe fn activate(made: Object, own: Object, begin: impl FnOnce() -> c_int) -> c_int {
    let meeting = |meeting: &&Meeting| meeting.own == own as usize;
    let joint = lock(&MEETINGS).iter().find(meeting).map(|meeting| meeting.joint.clone());
    match joint {
        // SAFETY: as required of the caller.
        Some(joint) => unsafe { joint.activate(made, own, begin) },
        None => begin(),
    }
}

/// In place of the one of a group that meets: what its root sends is who the others are.
unsafe extern "C" fn broadcast(
    room: *mut c_void,
    count: c_int,
    kind: Object,
    root: c_int,
    comm: Object,
    module: Object,
) -> c_int {
    let meeting = |meeting: &&Meeting| meeting.own == comm as usize;
    let found = lock(&MEETINGS).iter().find(meeting).map(|meeting| (meeting.broadcast, meeting.joint.clone()));
    let (Some(stock), Some((function, joint))) = (STOCK.get(), found) else { return ERR_INTERN };
    // SAFETY: the function that was there, with the arguments that were meant for it; only the list is of bytes.
    unsafe {
        let code = transmute::<Object, Broadcast>(function as Object)(room, count, kind, root, comm, module);
        if code == 0 && kind == stock.byte && count > 0 {
            joint.other_is(is_of_uniform_group(CStr::from_ptr(room.cast())));
        }
        code
    }
}

/// Whether a list of members is that of a uniform group.
fn is_of_uniform_group(list: &CStr) -> bool {
    list.to_bytes().ends_with(&[UNIFORM])
}

unsafe extern "C" fn spawn(
    count: c_int,
    commands: Object,
    arguments: Object,
    numbers: *const c_int,
    infos: *const Object,
    port: *const c_char,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: Open MPI passes terminated text; the stock function gets the arguments that were meant for it.
    unsafe {
        let code = (stock.spawn)(count, commands, arguments, numbers, infos, port);
        // Programs without MPI, which get no port, meet nobody.
        let port = CStr::from_ptr(port).to_bytes();
        if !port.is_empty() {
            lock(&SPAWNED).insert(port.to_vec());
        }
        code
    }
}

unsafe extern "C" fn exchange(own: *const Info, others: *mut Published, seconds: c_int) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: Open MPI passes what it publishes, and room for the answer.
    let run = || unsafe {
        // If there is no answer, Open MPI frees what stands there, and has set the key alone.
        (&raw mut (*others).value.kind).write(0);
        let key = CStr::from_bytes_until_nul(&(*own).key).unwrap_or_default();
        if !MEMBERS.iter().any(|end| key.to_bytes().ends_with(end)) {
            return (stock.exchange)(own, others, seconds);
        }
        if lock(&REFUSED).remove(key) {
            stock.take_back(key);
        }
        if Asking::find(key.to_bytes(), |asking| asking.refuses) == Some(true) {
            lock(&REFUSED).insert(key.to_owned());
            return refuse(stock, &*own);
        }
        let joint = Asking::find(key.to_bytes(), |asking| asking.joint.clone()).flatten();
        let marked = joint.as_ref().filter(|joint| joint.is_uniform()).and_then(|_| marked(&*own));
        let said = marked.as_ref().map_or(own, |(_, said)| said);
        let code = match (stock.exchange)(said, others, seconds) {
            0 if (*others).value.is_refusal() => DEATHS[0],
            code => code,
        };
        if let (0, Some(joint)) = (code, joint) {
            joint.other_is(is_of_uniform_group(CStr::from_ptr((*others).value.data.string)));
        }
        if code != 0 {
            stock.take_back(key);
            Asking::find(key.to_bytes(), |asking| asking.failure = Some(code));
        }
        code
    };
    // Whoever else runs in this thread while this waits makes no steps of the call.
    catch_unwind(AssertUnwindSafe(|| groups::apart(run))).unwrap_or(ERR_INTERN)
}

impl Stock {
    /// Takes back what nobody has read. It waits for nothing: what is published later comes there later.
    ///
    /// # Safety
    /// While the runtime is there.
    unsafe fn take_back(&self, key: &CStr) {
        let keys = [key.as_ptr(), std::ptr::null()];
        // SAFETY: as required of the caller; a list with its end, which is copied.
        let _ = unsafe { (self.unpublish)(keys.as_ptr(), std::ptr::null(), 0, taken_back, std::ptr::null_mut()) };
    }
}

unsafe extern "C" fn taken_back(_status: c_int, _data: Object) {}

/// What a root of a uniform group publishes, with the text of which it is a part.
///
/// # Safety
/// What Open MPI publishes.
unsafe fn marked(own: &Info) -> Option<(CString, Info)> {
    // SAFETY: as required of the caller: terminated text.
    let list = unsafe { CStr::from_ptr(own.value.data.string) }.to_bytes();
    let list = CString::new([list, &[UNIFORM]].concat()).ok()?;
    let string = Data { string: list.as_ptr().cast_mut() };
    Some((list, Info { key: own.key, flags: own.flags, value: Value { kind: STRING, data: string } }))
}

/// Publishes that nobody comes in place of those who are there.
///
/// # Safety
/// What Open MPI publishes: a list of processes, "JOB.RANK" and so on with colons between them.
unsafe fn refuse(stock: &Stock, own: &Info) -> c_int {
    // SAFETY: as required of the caller.
    let list = unsafe { CStr::from_ptr(own.value.data.string) }.to_bytes();
    let first = list.split(|byte| *byte == b':').next().unwrap_or_default();
    let job = first.rsplitn(2, |byte| *byte == b'.').last().unwrap_or_default();
    let Ok(nobody) = CString::new([job, NOBODY].concat()) else { return ERR_INTERN };
    let mut persistence: Key = [0; 512];
    persistence[..c"pmix.persist".count_bytes()].copy_from_slice(c"pmix.persist".to_bytes());
    let string = Data { string: nobody.as_ptr().cast_mut() };
    let infos = [
        Info { key: own.key, flags: own.flags, value: Value { kind: STRING, data: string } },
        Info { key: persistence, flags: 0, value: Value { kind: PERSISTENCE, data: Data { number: UNTIL_READ } } },
    ];
    // SAFETY: the runtime copies what it publishes.
    let _ = unsafe { (stock.publish)(infos.as_ptr(), infos.len()) };
    DEATHS[0]
}

unsafe extern "C" fn connect_accept(
    comm: Object,
    root: c_int,
    port: *const c_char,
    connects: bool,
    made: *mut Object,
) -> c_int {
    let meet = || {
        let Some(stock) = STOCK.get() else { return ERR_INTERN };
        match Internals::fitting() {
            // SAFETY: what Open MPI passes.
            Some(mpi) => unsafe {
                let joint = Arc::new(Joint::of(comm));
                Call { stock, mpi, comm, root, port, connects, made, joint }.carry_out()
            },
            // SAFETY: the stock function with the arguments that were meant for it.
            None => unsafe { (stock.connect_accept)(comm, root, port, connects, made) },
        }
    };
    catch_unwind(AssertUnwindSafe(meet)).unwrap_or(ERR_INTERN)
}

impl Call<'_> {
    /// # Safety
    /// What Open MPI passes.
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
            let code = uniform::agree_unless_settled(self.comm, About::Others, end, || self.joint.is_settled());
            let code = if spawns { code } else { self.joint.class(code, self.comm) };
            match own {
                // It was made here, and not everywhere. It stays until the end, with its number.
                Some(0) if code != 0 => _ = (self.stock.revoke)(self.made.read()),
                None => self.refuse(),
                _ => {}
            }
            if code != 0 {
                self.made.write(self.stock.null as Object);
            }
            if matches!(code, ERR_PROC_FAILED | ERR_REVOKED) {
                numbers::keep();
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

    /// On a communicator that nobody else has.
    ///
    /// # Safety
    /// As above.
    unsafe fn meet_on_own(&self) -> c_int {
        let mut own = self.stock.null as Object;
        // SAFETY: as required of the caller; what is made here is nobody else's.
        unsafe {
            let code = construction::copying(self.comm, || (self.stock.split)(self.comm, 0, 0, &mut own, false));
            if code != 0 {
                self.refuse();
                return code;
            }
            // Otherwise it has what the job's parameter says: a death elsewhere is nothing to those who meet.
            communicators::set(own, SCOPE, Scope::Local.value());
            let (mut code, is_told) = self.meet_on(own, true);
            if code != 0 && !is_told {
                // Whatever came of it: somebody has revoked what the call ran on.
                if self.mpi.is_revoked(own) {
                    code = ERR_REVOKED;
                }
                (self.stock.revoke)(own);
            }
            if code != 0 {
                self.mpi.turn.give_back(&self.mpi.shadows);
            }
            groups::wait_for_look();
            self.mpi.free(own);
            code
        }
    }

    /// Returns the code, and whether all of the group have it from the root.
    ///
    /// # Safety
    /// As above, and a communicator of the same members in the same order.
    unsafe fn meet_on(&self, own: Object, can_be_revoked: bool) -> (c_int, bool) {
        // SAFETY: as required of the caller.
        unsafe {
            let (mut code, meeting) = self.ask_and_meet(own, can_be_revoked, false);
            let failure = meeting.as_ref().and_then(|meeting| meeting.exchange.as_ref()?.failure);
            // A root without an answer has left before the first collective, in which the others are.
            if let Some(Ok(port)) = failure.map(|reason| CString::new(format!("{ERROR}{}", reason + TOLD))) {
                code = (self.stock.connect_accept)(own, self.root, port.as_ptr(), self.connects, self.made);
            }
            if let Some(made) = meeting.and_then(|meeting| meeting.made) {
                let made = made as Object;
                if code == 0 {
                    self.mpi.classes.release(made);
                } else {
                    if dynamic::given_up(made) {
                        (self.stock.revoke)(made);
                    }
                }
            }
            let is_told = code <= TOLD;
            (if is_told { code - TOLD } else { code }, is_told)
        }
    }

    /// Open MPI's function; returns its code, and what has become of the meeting.
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
                Asking { key, joint, refuses, failure: None }
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
            crate::watch_progress();
            let code = (self.stock.connect_accept)(own, self.root, self.port, self.connects, self.made);
            self.mpi.table(own)[BCAST].function = broadcast as Object;
            let mut meetings = lock(&MEETINGS);
            let place = meetings.iter().position(|meeting| meeting.own == own as usize);
            (code, place.map(|place| meetings.swap_remove(place)))
        }
    }

    /// Tells the other root, which waits for this one's word, that this group cannot meet.
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

    /// What a code means for the members.
    fn class(&self, code: c_int) -> c_int {
        match (code, construction::damage(self.mpi, self.comm)) {
            (0, _) => 0,
            (_, Some(class)) => class,
            // The one on which the call has run was revoked, because of a death; or somebody of the other group is dead.
            (ERR_REVOKED, None) => ERR_PROC_FAILED,
            (code, None) if DEATHS.contains(&code) => ERR_PROC_FAILED,
            (_, None) => code,
        }
    }
}

//! Two groups that meet in `MPI_Comm_accept` and `MPI_Comm_connect`, or by `MPI_Comm_spawn`: nobody waits for a member of its
//! group that has given up, and of a uniform communicator all members have the new one or none has.
//!
//! Open MPI has the roots exchange who is there, tell their groups, bring all together in the runtime, and settle the number, in turn
//! with collectives of each group (`ompi_dpm_connect_accept` in dpm.c). Whoever is told there that somebody of the other group
//! is dead leaves, and all others of its own, in which nobody is dead, wait for it. Here
//! * a root whose exchange fails gives its group the code, in the way in which Open MPI tells that nobody was spawned;
//! * the rest runs on a communicator of the group that nobody else has, and whoever gives up revokes that. Not where processes
//!   are spawned: Open MPI names the world to the runtime by one word in place of all its members, and a spawned process that
//!   dies before it has left `MPI_Init` ends the job;
//! * a root that cannot succeed tells the other one, which waits for its word;
//! * the members of a uniform communicator agree on how it has ended. Each group does so for itself;
//! * a communicator that fails keeps its number, in which the other side may send still ([`numbers`]).
//!
//! Functions of this module take the places of Open MPI's in libmpi's table of jumps.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock};

use crate::handles::Communicator;
use crate::internals::Internals;
use crate::line::lock;
use crate::objects::{Classes, Object};
use crate::openmpi::Library;
use crate::statement::{About, ERR_INTERN, ERR_PROC_FAILED, ERR_REVOKED};
use crate::{communicators, construction, groups, numbers, uniform};

const CONNECT_ACCEPT: &CStr = c"ompi_dpm_connect_accept";
/// What a root calls that has processes spawned, before the other.
const SPAWN: &CStr = c"ompi_dpm_spawn";
/// How a root asks the other one.
const EXCHANGE: &CStr = c"opal_pmix_base_exchange";
/// What stands in a port where there is nobody to meet, before the code.
const ERROR: &str = ":error=";
/// The runtime's words about the dead: `PMIX_ERR_PROC_TERM_WO_SYNC`, `PMIX_ERR_LOST_CONNECTION` and `PMIX_ERR_PARTIAL_SUCCESS`, and
/// what Open MPI makes of others: `OPAL_ERR_COMM_FAILURE`, `OPAL_ERR_PROC_ABORTED`.
const DEATHS: [c_int; 5] = [-200, -61, -52, -51, -57];
/// How the keys end under which roots publish who is there.
const MEMBERS: [&[u8]; 2] = [b":accept", b":connect"];
/// How the list of a root ends whose group cannot meet. Open MPI takes it for one that lacks a number, and ends with an error.
const NOBODY: &[u8] = b".*";

type ConnectAccept = unsafe extern "C" fn(Object, c_int, *const c_char, bool, *mut Object) -> c_int;
type Spawn = unsafe extern "C" fn(c_int, Object, Object, *const c_int, *const Object, *const c_char) -> c_int;
type Exchange = unsafe extern "C" fn(*const Info, *mut Published, c_int) -> c_int;
type Split = unsafe extern "C" fn(Object, c_int, c_int, *mut Object, bool) -> c_int;
type Publish = unsafe extern "C" fn(*const Info, usize) -> c_int;

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

struct Stock {
    connect_accept: ConnectAccept,
    spawn: Spawn,
    exchange: Exchange,
    split: Split,
    publish: Publish,
    /// `MPI_COMM_NULL`
    null: usize,
}

static STOCK: OnceLock<Stock> = OnceLock::new();
static MEETINGS: Mutex<Vec<Meeting>> = Mutex::new(Vec::new());

thread_local! {
    /// This thread has just had processes spawned, which are to be met.
    static HAS_SPAWNED: Cell<bool> = const { Cell::new(false) };
    /// The root's group cannot meet.
    static REFUSES: Cell<bool> = const { Cell::new(false) };
    /// The ports at which a root of this thread has had no answer, each with the reason.
    static UNANSWERED: RefCell<BTreeMap<Vec<u8>, c_int>> = const { RefCell::new(BTreeMap::new()) };
}

struct Meeting {
    /// The communicator with which the program has called, and the one on which the call runs.
    comm: usize,
    own: usize,
    /// The one that is made, held from when it has its number.
    made: Option<usize>,
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
    let Some(mpi) = Internals::get() else { return false };
    // Who changes the list needs another turn, or none.
    let Ok(meetings) = MEETINGS.try_lock() else { return true };
    for meeting in meetings.iter() {
        let [comm, own] = [meeting.comm as Object, meeting.own as Object];
        // SAFETY: both live until the meeting is taken off the list.
        if unsafe { mpi.is_revoked(comm) && !mpi.is_revoked(own) } {
            communicators::revoke(Communicator::from_handle(own));
        }
    }
    !meetings.is_empty()
}

/// A communicator of two groups that is made on this one has its number: the others may send in it from now on.
///
/// # Safety
/// It lives.
pub unsafe fn is_numbered(made: Object, own: Object) {
    if let Some(meeting) = lock(&MEETINGS).iter_mut().find(|meeting| meeting.own == own as usize) {
        // SAFETY: as required of the caller.
        unsafe { Classes::hold(made) };
        meeting.made = Some(made as usize);
    }
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
        HAS_SPAWNED.set(!CStr::from_ptr(port).is_empty());
        code
    }
}

unsafe extern "C" fn exchange(own: *const Info, others: *mut Published, seconds: c_int) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: Open MPI passes what it publishes, and room for the answer.
    let run = || unsafe {
        // If there is no answer, Open MPI frees what stands there, and has set the key alone.
        (&raw mut (*others).value.kind).write(0);
        let key = CStr::from_bytes_until_nul(&(*own).key).map(CStr::to_bytes).unwrap_or_default();
        let Some(port) = MEMBERS.iter().find_map(|end| key.strip_suffix(*end)) else {
            return (stock.exchange)(own, others, seconds);
        };
        let code = match REFUSES.get() {
            true => refuse(stock, &*own),
            false => match (stock.exchange)(own, others, seconds) {
                0 if (*others).value.is_refusal() => DEATHS[0],
                code => code,
            },
        };
        if code != 0 {
            UNANSWERED.with_borrow_mut(|ports| ports.insert(port.to_vec(), code));
        }
        code
    };
    // Whoever else runs in this thread while this waits makes no steps of the call.
    catch_unwind(AssertUnwindSafe(|| groups::apart(run))).unwrap_or(ERR_INTERN)
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
    let has_spawned = HAS_SPAWNED.take();
    let meet = || {
        let Some(stock) = STOCK.get() else { return ERR_INTERN };
        match Internals::fitting() {
            // SAFETY: what Open MPI passes.
            Some(mpi) => unsafe { Call { stock, mpi, comm, root, port, connects, made }.carry_out(has_spawned) },
            // SAFETY: the stock function with the arguments that were meant for it.
            None => unsafe { (stock.connect_accept)(comm, root, port, connects, made) },
        }
    };
    catch_unwind(AssertUnwindSafe(meet)).unwrap_or(ERR_INTERN)
}

impl Call<'_> {
    /// # Safety
    /// What Open MPI passes.
    unsafe fn carry_out(&self, has_spawned: bool) -> c_int {
        // SAFETY: as required of the caller.
        unsafe {
            let is_root = self.mpi.rank_in(self.comm) == self.root;
            let spawns = if is_root { has_spawned || self.nobody_was_spawned() } else { !self.port.is_null() };
            let is_alone = !self.mpi.is_intracommunicator_of_several(self.comm);
            let mut own = None;
            let code = uniform::agree_on(self.comm, About::Others, || {
                let code = if spawns || is_alone { self.meet_on(self.comm) } else { self.meet_on_own() };
                *own.insert(self.class(code))
            });
            match own {
                // It was made here, and not everywhere. It stays until the end, with its number.
                Some(0) if code != 0 => communicators::revoke(Communicator::from_handle(self.made.read())),
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
    unsafe fn nobody_was_spawned(&self) -> bool {
        // SAFETY: as required of the caller: Open MPI passes terminated text, or null.
        !self.port.is_null() && unsafe { CStr::from_ptr(self.port) }.to_string_lossy().contains(ERROR)
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
            let mut code = self.meet_on(own);
            if code != 0 {
                // Whatever came of it: somebody has revoked what the call ran on.
                if self.mpi.is_revoked(own) {
                    code = ERR_REVOKED;
                }
                communicators::revoke(Communicator::from_handle(own));
                self.mpi.turn.give_back(&self.mpi.shadows);
            }
            groups::wait_for_look();
            self.mpi.free(own);
            code
        }
    }

    /// # Safety
    /// As above, and a communicator of the same members in the same order.
    unsafe fn meet_on(&self, own: Object) -> c_int {
        lock(&MEETINGS).push(Meeting { comm: self.comm as usize, own: own as usize, made: None });
        crate::watch_progress();
        // SAFETY: as required of the caller.
        unsafe {
            let mut code = (self.stock.connect_accept)(own, self.root, self.port, self.connects, self.made);
            // A root without an answer has left before the first collective, in which the others are.
            if let Some(reason) = self.was_unanswered() {
                if let Ok(port) = CString::new(format!("{ERROR}{reason}")) {
                    code = (self.stock.connect_accept)(own, self.root, port.as_ptr(), self.connects, self.made);
                }
            }
            let mut meetings = lock(&MEETINGS);
            let place = meetings.iter().position(|meeting| meeting.own == own as usize);
            let made = place.and_then(|place| meetings.swap_remove(place).made);
            if let Some(made) = made.filter(|_| code == 0) {
                self.mpi.classes.release(made as Object);
            }
            code
        }
    }

    /// # Safety
    /// As above.
    unsafe fn was_unanswered(&self) -> Option<c_int> {
        if self.mpi.rank_in(self.comm) != self.root || self.port.is_null() {
            return None;
        }
        // SAFETY: as required of the caller: Open MPI passes terminated text.
        UNANSWERED.with_borrow_mut(|ports| ports.remove(unsafe { CStr::from_ptr(self.port) }.to_bytes()))
    }

    /// Tells the other root, which waits for this one's word, that this group cannot meet.
    ///
    /// # Safety
    /// As above.
    unsafe fn refuse(&self) {
        // SAFETY: as required of the caller.
        unsafe {
            if self.mpi.rank_in(self.comm) == self.root && !self.nobody_was_spawned() {
                REFUSES.set(true);
                let _ = (self.stock.connect_accept)(self.comm, self.root, self.port, self.connects, self.made);
                REFUSES.set(false);
                self.was_unanswered();
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

//! What Open MPI's agreements need to end in the same way at all members, and to end at all.
//!
//! A member that has begun to decide anew, because who was to tell it the decision is dead, has told others that it knows
//! none. A message of the dead with that decision may still lie in shared memory or in a socket, and Open MPI would follow
//! it (coll_ftagree_earlyreturning.c, `msg_down`): so a message of somebody who is held dead is dropped.
//!
//! A decision tells of deaths, which Open MPI reports while it holds the lock of all agreements. Each of these notes such a
//! death in an event with its own address then, and may have ended and been freed before that comes to its turn
//! (`era_mark_process_failed`): so agreements are told of deaths when nobody is inside them.
//!
//! A message that arrives while another thread is inside would be put off by Open MPI, in memory where it writes three addresses
//! over what the message says (`era_cb_fn`, `era_bounce_event_t`): the members would agree on what nobody has said. So it is
//! put off here, and who begins an agreement waits for whoever is inside.
//!
//! Somebody who knows of a death earlier than others may have a parent who does not take it for its child yet: see
//! [`crate::orphans`].

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

use crate::handles::MemberDied;
use crate::internals::Internals;
use crate::line::lock;
use crate::objects::{Classes, Object};
use crate::openmpi::{Library, ProcessName};
use crate::receivers::{Descriptor, Receive, Segment};
use crate::requests::Request;
use crate::statement::ERR_INTERN;
use crate::{endpoints, numbering, orphans, progress, receivers, shadows};

/// `MCA_BTL_TAG_FT_AGREE`, the place of agreements among the receivers of messages.
const TAG: usize = 0x31;

/// Begins an agreement.
pub const BEGIN: &CStr = c"mca_coll_ftagree_iera_intra";

/// The contribution and where the result is put, how many values, of which type, the operation, who is acknowledged to be dead
/// and whether that is brought up to date, the communicator, the request, and the module.
pub type Begin =
    unsafe extern "C" fn(Object, c_int, Object, Object, *mut Object, bool, Object, *mut *mut Request, Object) -> c_int;

/// A death that agreements have not been told of. A shadow is held until then, since nobody says here that one is freed which
/// `libringwatch` has made.
struct Death {
    comm: usize,
    rank: c_int,
    remote: bool,
    is_held: bool,
}

impl Death {
    fn new(comm: Object, rank: c_int, remote: bool) -> Self {
        let is_held = shadows::is_one(comm);
        if is_held {
            // SAFETY: who says that a member is dead says it of a communicator that lives.
            unsafe { Classes::hold(comm) };
        }
        Self { comm: comm as usize, rank, remote, is_held }
    }

    /// The agreements know of it, or need not.
    fn end(self) {
        if let Some(mpi) = Internals::get().filter(|_| self.is_held) {
            // SAFETY: held above.
            unsafe { mpi.shadows.let_go(self.comm as Object) };
        }
    }
}

static DEATHS: Mutex<VecDeque<Death>> = Mutex::new(VecDeque::new());
/// What tells the agreements, and what receives their messages.
static TELL: OnceLock<MemberDied> = OnceLock::new();
static RECEIVE: OnceLock<Receive> = OnceLock::new();
/// Whether there is any.
static NOTED: AtomicBool = AtomicBool::new(false);
static SOMEBODY_DIED: AtomicBool = AtomicBool::new(false);
/// Taken while they are being told.
static TELLING: Mutex<()> = Mutex::new(());
/// What Open MPI itself has called to begin one.
static STOCK_BEGIN: OnceLock<Begin> = OnceLock::new();
/// Taken by who is inside Open MPI's agreements.
static INSIDE: Mutex<()> = Mutex::new(());
/// Messages that have arrived meanwhile.
static PUT_OFF: Mutex<VecDeque<Vec<u8>>> = Mutex::new(VecDeque::new());

thread_local! {
    /// By this thread.
    static IS_TELLING: Cell<bool> = const { Cell::new(false) };
}

/// Stands where Open MPI begins agreements, and notes what does. No communicator is there, whose table would know it.
pub fn guard() {
    let (Some(library), None) = (Library::loaded(), STOCK_BEGIN.get()) else { return };
    // SAFETY: the type is that of coll_ftagree.h; a function of the same type takes its place.
    unsafe {
        if let Some(stock) = library.replace(BEGIN, begin as *const _) {
            let _ = STOCK_BEGIN.set(std::mem::transmute::<*const c_void, Begin>(stock));
        }
    }
}

unsafe extern "C" fn begin(
    contribution: Object,
    count: c_int,
    kind: Object,
    operation: Object,
    acknowledged: *mut Object,
    updates: bool,
    comm: Object,
    request: *mut *mut Request,
    module: Object,
) -> c_int {
    let Some(stock) = STOCK_BEGIN.get() else { return ERR_INTERN };
    // SAFETY: what Open MPI passes. What a shrink contributes means nothing, and it does not look at the result.
    let contribution = unsafe { numbering::claim_with(count, operation, updates, comm) }.unwrap_or(contribution);
    // SAFETY: the stock function with the arguments that were meant for it.
    inside(|| unsafe { stock(contribution, count, kind, operation, acknowledged, updates, comm, request, module) })
}

/// Runs what begins an agreement, when nobody else is inside.
pub fn inside<T>(begin: impl FnOnce() -> T) -> T {
    let _inside = lock(&INSIDE);
    begin()
}

/// Stands between the agreements and what they hear; `tell` is Open MPI's function that tells them of a death. Once, while
/// `MPI_Init` chooses the collectives of its first communicator.
pub fn watch(tell: Option<MemberDied>) {
    let (Some(tell), Some(library)) = (tell, Library::loaded()) else { return };
    let _ = TELL.set(tell);
    if !endpoints::are_known() {
        return;
    }
    // SAFETY: what is not dropped goes to the one who stood there before.
    unsafe { receivers::stand(&library, TAG, receive, &RECEIVE) };
}

/// A member of a communicator is dead.
pub fn member_died(comm: Object, rank: c_int, remote: bool) {
    note(comm, rank, remote);
    tell_soon();
}

/// The same, and [`tell_soon`] follows.
pub fn note(comm: Object, rank: c_int, remote: bool) {
    SOMEBODY_DIED.store(true, Ordering::Release);
    let mut deaths = lock(&DEATHS);
    deaths.push_back(Death::new(comm, rank, remote));
    NOTED.store(true, Ordering::Release);
}

/// Agreements are told of what was noted.
pub fn tell_soon() {
    // Without a place in the progress loop nothing can be put off.
    if progress::looks() {
        crate::watch_progress();
    } else {
        tell();
    }
}

/// Whether any death is known.
pub fn somebody_died() -> bool {
    SOMEBODY_DIED.load(Ordering::Acquire)
}

/// A communicator is being freed. Waits for who may be telling of a death in it.
pub fn forget(comm: Object) {
    if SOMEBODY_DIED.load(Ordering::Acquire) {
        let mut deaths = lock(&DEATHS);
        let all = std::mem::take(&mut *deaths).into_iter();
        let (forgotten, kept): (Vec<_>, Vec<_>) = all.partition(|death| death.comm == comm as usize);
        *deaths = kept.into();
        drop(deaths);
        forgotten.into_iter().for_each(Death::end);
        if !IS_TELLING.get() {
            drop(lock(&TELLING));
        }
    }
}

/// Tells the agreements, from where nobody is inside them. Returns whether something is left.
pub fn tell() -> bool {
    if !NOTED.load(Ordering::Acquire) {
        return false;
    }
    let (Some(_telling), Some(_inside)) = (try_lock(&TELLING), try_lock(&INSIDE)) else { return true };
    IS_TELLING.set(true);
    let mut told = false;
    while let (Some(death), Some(tell)) = (next_death(), TELL.get()) {
        // SAFETY: Open MPI's own function with its own arguments; the communicator has not been freed.
        unsafe { tell(death.comm as Object, death.rank, death.remote) };
        death.end();
        told = true;
    }
    if told {
        orphans::requests().iter().for_each(|request| hand_on(request));
    }
    IS_TELLING.set(false);
    NOTED.load(Ordering::Acquire)
}

fn next_death() -> Option<Death> {
    let mut deaths = lock(&DEATHS);
    let death = deaths.pop_front();
    NOTED.store(!deaths.is_empty(), Ordering::Release);
    death
}

/// Hands the agreements the messages that were put off. Returns whether something is left.
pub fn deliver() -> bool {
    let mut is_left = !lock(&PUT_OFF).is_empty();
    while is_left {
        let Some(_inside) = try_lock(&INSIDE) else { return true };
        let message = lock(&PUT_OFF).pop_front();
        is_left = message.inspect(|message| hand_on(message)).is_some();
    }
    false
}

/// Locks, unless this thread or another one has.
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Ok(guard) => Some(guard),
    }
}

/// A message among agreements.
unsafe extern "C" fn receive(transport: Object, message: *const Descriptor) {
    let somebody_died = SOMEBODY_DIED.load(Ordering::Acquire);
    // SAFETY: one segment, which begins with the name of the sender, as Open MPI itself takes for granted here, with as many
    // bytes as it says.
    let bytes = unsafe {
        let segment = &*(*message).segments;
        std::slice::from_raw_parts(segment.message, usize::try_from(segment.length).unwrap_or(0))
    };
    if somebody_died && orphans::sender(bytes).is_some_and(is_dead) {
        return;
    }
    orphans::note(bytes);
    let inside = try_lock(&INSIDE);
    // Without a place in the progress loop nothing can be put off.
    if inside.is_some() || !progress::looks() {
        // SAFETY: with the arguments that were meant for it.
        RECEIVE.get().into_iter().for_each(|stock| unsafe { stock(transport, message) });
        drop(inside);
    } else {
        lock(&PUT_OFF).push_back(bytes.to_vec());
        crate::watch_progress();
    }
    if somebody_died {
        tell();
    }
}

fn is_dead(name: ProcessName) -> bool {
    endpoints::is_dead(endpoints::process_named(name))
}

/// Has the agreements take a message as if its sender had sent it just now. Nobody else is inside.
fn hand_on(message: &[u8]) {
    let Some(stock) = RECEIVE.get() else { return };
    if orphans::sender(message).is_none_or(is_dead) {
        return;
    }
    let null = std::ptr::null_mut();
    let segment = Segment { message: message.as_ptr(), length: message.len() as u64 };
    let tag = u8::try_from(TAG).unwrap_or(0);
    let descriptor = Descriptor { endpoint: null, segments: &raw const segment, segment_count: 1, tag, context: null };
    // SAFETY: the receiver reads the message and asks neither transport nor endpoint.
    unsafe { stock(null, &raw const descriptor) };
}

//! Keeps Open MPI's agreements correct and live after a death: filters, delays and orders what reaches them.
//!
//! - Open MPI 5.0: a member restarts a decision after the process that should send it has died, and tells others that
//!   it has none. A message of the dead process with that decision may still lie in shared memory or in a socket. Open
//!   MPI follows it (coll_ftagree_earlyreturning.c, `msg_down`), and members end differently. ringwatch drops messages
//!   whose sender Open MPI holds dead.
//! - A decision carries deaths. Open MPI reports them while it holds the lock of all agreements. Each agreement queues
//!   the death in an event with its own address; it may end and be freed before that event runs
//!   (`era_mark_process_failed`). ringwatch passes deaths on while no thread is inside the agreements.
//! - Open MPI defers a message that arrives while another thread is inside, in memory where it writes three addresses
//!   over the contents (`era_cb_fn`, `era_bounce_event_t`). Members then agree on a value that no member contributed.
//!   ringwatch defers the message itself; a thread that begins an agreement waits until no other thread is inside.
//! - A parent that has not heard of a death does not count an orphaned member among its children: see
//!   [`crate::agreement::era_early_requests`].

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::agreement::era_early_requests;
use crate::failure::{deaths, wakeup};
use crate::in_front::in_front;
use openmpi_internals::abi::Agree;
use openmpi_internals::btl::{Descriptor, Receive, Segment};
use openmpi_internals::classes::Classes;
use openmpi_internals::comm_api::MemberDied;
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::functions::MCA_COLL_FTAGREE_IERA_INTRA;
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::btl_receiver::MCA_BTL_TAG_FT_AGREE;
use openmpi_internals::loaded::{Library, ProcessName};
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::{lock, try_lock};
use openmpi_internals::{btl, epoch_bits, proc};

/// A death of a communicator's member that is not passed on to the agreements yet. It holds a reference to a shadow
/// communicator until then: `libringwatch` makes shadows too, and this library is not notified when they are freed.
struct PendingDeath {
    comm: usize,
    rank: c_int,
    remote: bool,
    is_held: bool,
}

impl PendingDeath {
    fn new(comm: Object, rank: c_int, remote: bool) -> Self {
        let is_held = epoch_bits::is_shadow(comm);
        if is_held {
            // SAFETY: a death is reported for a live communicator only.
            unsafe { Classes::hold(comm) };
        }
        Self { comm: comm as usize, rank, remote, is_held }
    }

    /// Releases the reference. The death is passed on, or its communicator is freed.
    fn end(self) {
        if let Some(mpi) = Internals::get().filter(|_| self.is_held) {
            // SAFETY: held above.
            unsafe { mpi.let_go(self.comm as Object) };
        }
    }
}

static PENDING_DEATHS: Mutex<VecDeque<PendingDeath>> = Mutex::new(VecDeque::new());
/// Open MPI's function that passes a death to the agreements, and its receiver of their messages.
static STOCK_MEMBER_DIED: OnceLock<MemberDied> = OnceLock::new();
static STOCK_RECEIVE: OnceLock<Receive> = OnceLock::new();
/// Whether [`PENDING_DEATHS`] has entries.
static HAS_PENDING_DEATHS: AtomicBool = AtomicBool::new(false);
/// Held while deaths are passed on.
static PASSING_ON: Mutex<()> = Mutex::new(());
/// Open MPI's function that begins an agreement.
static STOCK_BEGIN: OnceLock<Agree> = OnceLock::new();
/// Held by the thread that is inside Open MPI's agreements.
static INSIDE: Mutex<()> = Mutex::new(());
/// Messages that arrived while another thread was inside.
static DEFERRED: Mutex<VecDeque<Vec<u8>>> = Mutex::new(VecDeque::new());

thread_local! {
    /// Whether this thread is passing deaths on.
    static IS_PASSING_ON: Cell<bool> = const { Cell::new(false) };
}

/// Chooses the contribution of a shrink to its first agreement; see [`contribute_with`].
///
/// # Safety
/// The arguments are those of Open MPI's function that begins an agreement: number of values, operation, whether the
/// group of acknowledged processes is updated, communicator.
pub type Contribute = unsafe fn(c_int, Object, bool, Object) -> Option<Object>;

static CONTRIBUTE: OnceLock<Contribute> = OnceLock::new();

/// Sets the function whose result replaces a shrink's contribution. The original value has no meaning there. Call it
/// before [`install`].
pub fn contribute_with(contribute: Contribute) {
    let _ = CONTRIBUTE.set(contribute);
}

/// Interposes on the function that begins agreements. A communicator's table is no place for it: no communicator exists
/// yet.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the type is that of coll_ftagree.h; a function of the same type takes its place.
    unsafe {
        let stock = at.redirect(MCA_COLL_FTAGREE_IERA_INTRA, begin)?;
        let _ = STOCK_BEGIN.set(stock);
    }
    Ok(())
}

in_front! { stock = STOCK_BEGIN.get(), or ERR_INTERN;
    unsafe extern "C" fn begin(
        contribution: Object, count: c_int, datatype: Object, op: Object, acknowledged: *mut Object, updates: bool,
        comm: Object, request: *mut *mut Request, module: Object
    ) -> c_int {
        // SAFETY: arguments of Open MPI. A shrink ignores the result of its first agreement.
        let own = CONTRIBUTE.get().and_then(|contribute| unsafe { contribute(count, op, updates, comm) });
        let contribution = own.unwrap_or(contribution);
        // SAFETY: the stock function with its original arguments.
        inside(|| unsafe { stock(contribution, count, datatype, op, acknowledged, updates, comm, request, module) })
    }
}

/// Runs `begin`, which begins an agreement, while no other thread is inside.
pub fn inside<T>(begin: impl FnOnce() -> T) -> T {
    let _inside = lock(&INSIDE);
    begin()
}

/// Interposes on the receiver of agreement messages. `tell` is Open MPI's function that passes a death to the
/// agreements. Called once, when `MPI_Init` selects the collectives of its first communicator.
pub fn hear(tell: Option<MemberDied>) {
    let (Some(tell), Some(library)) = (tell, Library::loaded()) else { return };
    let _ = STOCK_MEMBER_DIED.set(tell);
    if !proc::are_known() {
        return;
    }
    // SAFETY: messages that are not dropped go to the stock receiver.
    unsafe { btl::stand(&library, MCA_BTL_TAG_FT_AGREE, receive, &STOCK_RECEIVE) };
}

/// Notes that a member of a communicator is dead, and requests that agreements are notified.
pub fn member_died(comm: Object, rank: c_int, remote: bool) {
    note(comm, rank, remote);
    tell_soon();
}

/// Notes that a member is dead. The caller calls [`tell_soon`] afterwards.
pub fn note(comm: Object, rank: c_int, remote: bool) {
    let mut pending = lock(&PENDING_DEATHS);
    pending.push_back(PendingDeath::new(comm, rank, remote));
    HAS_PENDING_DEATHS.store(true, Ordering::Release);
}

/// Passes noted deaths on in a later turn of the progress loop.
pub fn tell_soon() {
    // Without a progress hook nothing can be deferred.
    if wakeup::is_possible() {
        wakeup::request_turns();
    } else {
        tell();
    }
}

/// Forgets a communicator that is being freed. Waits for a thread that is passing on a death in it.
pub fn forget(comm: Object) {
    if deaths::are_known() {
        let mut pending = lock(&PENDING_DEATHS);
        let all = std::mem::take(&mut *pending).into_iter();
        let (forgotten, kept): (Vec<_>, Vec<_>) = all.partition(|death| death.comm == comm as usize);
        *pending = kept.into();
        drop(pending);
        forgotten.into_iter().for_each(PendingDeath::end);
        if !IS_PASSING_ON.get() {
            drop(lock(&PASSING_ON));
        }
    }
}

/// Passes noted deaths to the agreements if no thread is inside them. Returns whether deaths remain.
pub fn tell() -> bool {
    if !HAS_PENDING_DEATHS.load(Ordering::Acquire) {
        return false;
    }
    let (Some(_telling), Some(_inside)) = (try_lock(&PASSING_ON), try_lock(&INSIDE)) else { return true };
    IS_PASSING_ON.set(true);
    let mut has_passed_on = false;
    while let (Some(death), Some(tell)) = (next_pending_death(), STOCK_MEMBER_DIED.get()) {
        // SAFETY: Open MPI's own function with its own arguments; the communicator is not freed.
        unsafe { tell(death.comm as Object, death.rank, death.remote) };
        death.end();
        has_passed_on = true;
    }
    if has_passed_on {
        era_early_requests::requests().iter().for_each(|request| hand_on(request));
    }
    IS_PASSING_ON.set(false);
    HAS_PENDING_DEATHS.load(Ordering::Acquire)
}

fn next_pending_death() -> Option<PendingDeath> {
    let mut pending = lock(&PENDING_DEATHS);
    let death = pending.pop_front();
    HAS_PENDING_DEATHS.store(!pending.is_empty(), Ordering::Release);
    death
}

/// Hands deferred messages to the agreements. Returns whether messages remain.
pub fn deliver() -> bool {
    let mut is_left = !lock(&DEFERRED).is_empty();
    while is_left {
        let Some(_inside) = try_lock(&INSIDE) else { return true };
        let message = lock(&DEFERRED).pop_front();
        is_left = message.inspect(|message| hand_on(message)).is_some();
    }
    false
}

/// Receives a message of agreements.
unsafe extern "C" fn receive(transport: Object, message: *const Descriptor) {
    let somebody_died = deaths::are_known();
    // SAFETY: one segment of the stated length, which begins with the sender's name. Open MPI assumes the same here.
    let bytes = unsafe {
        let segment = &*(*message).segments;
        std::slice::from_raw_parts(segment.message, usize::try_from(segment.length).unwrap_or(0))
    };
    if somebody_died && era_early_requests::sender(bytes).is_some_and(is_dead) {
        return;
    }
    era_early_requests::note(bytes);
    let inside = try_lock(&INSIDE);
    // Without a progress hook nothing can be deferred.
    if inside.is_some() || !wakeup::is_possible() {
        // SAFETY: the stock function with its original arguments.
        STOCK_RECEIVE.get().into_iter().for_each(|stock| unsafe { stock(transport, message) });
        drop(inside);
    } else {
        lock(&DEFERRED).push_back(bytes.to_vec());
        wakeup::request_turns();
    }
    if somebody_died {
        tell();
    }
}

fn is_dead(name: ProcessName) -> bool {
    proc::is_dead(proc::process_named(name))
}

/// Hands a message to the agreements as if it had just arrived. No other thread is inside.
fn hand_on(message: &[u8]) {
    let Some(stock) = STOCK_RECEIVE.get() else { return };
    if era_early_requests::sender(message).is_none_or(is_dead) {
        return;
    }
    let null = std::ptr::null_mut();
    let segment = Segment { message: message.as_ptr(), length: message.len() as u64 };
    let tag = u8::try_from(MCA_BTL_TAG_FT_AGREE).unwrap_or(0);
    let descriptor = Descriptor { endpoint: null, segments: &raw const segment, segment_count: 1, tag, context: null };
    // SAFETY: the receiver reads the message and asks neither transport nor endpoint.
    unsafe { stock(null, &raw const descriptor) };
}

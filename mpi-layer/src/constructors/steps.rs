//! Makes stepwise constructors wait neither for dead members, nor for members that have given up.
//!
//! These are `MPI_Comm_create_group` ([`comm_create_group`](crate::constructors::comm_create_group)) and the
//! constructors of intercommunicators. Open MPI 5.0.7 chooses the context id in steps: by messages between the members
//! of the group (comm_cid.c, `ompi_comm_allreduce_group_nb`), or between the leaders of both groups with collectives
//! within each (`ompi_comm_allreduce_inter_nb`). It does not check whether a message's peer is dead, and a step ignores
//! the error of the previous one (comm_request.c:166).
//!
//! With ringwatch each step begins in a function of this module. It continues only if the previous step has succeeded
//! and no member of the group, or of either group, is dead. When a member dies, the call's pending messages are
//! cancelled. The same holds for `MPI_Intercomm_create`, where the leaders exchange messages and everything else runs
//! on the local side of the new communicator ([`Led`]), and for groups that connect in the runtime.
//!
//! So the call ends at every member: a member that knows of a death gives up, or is refused when it begins
//! (`ompi_comm_iface_create_check`), and finally all members know. A later call on the same communicator does not
//! receive a message of an abandoned call: a member that takes part in the later call knows of no death, and has
//! completed the earlier one with all of its messages. But these messages have the call's tag, and other receives with
//! that tag may match them.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::cid::cid_turn;
use crate::failure::wakeup;
use crate::in_front::in_front;
use crate::properties::communicators;
use crate::uniform::request_errors::refusal;
use openmpi_internals::abi::{CommRequestAppend, CommRequestAppendWithFlags, CommRequestCallback};
use openmpi_internals::comm_api::Communicator;
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::{ERR_INTERN, ERR_PROC_FAILED};
use openmpi_internals::functions::{OMPI_COMM_REQUEST_SCHEDULE_APPEND, OMPI_COMM_REQUEST_SCHEDULE_APPEND_W_FLAGS};
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::cid_mode::{
    OMPI_COMM_CID_GROUP, OMPI_COMM_CID_INTER, OMPI_COMM_CID_INTRA_BRIDGE, OMPI_COMM_CID_INTRA_PMIX,
};
use openmpi_internals::layout::comm_request::OMPI_COMM_REQ_FLAG_RETAIN_SUBREQ;
use openmpi_internals::object::Object;
use openmpi_internals::request::Request;
use openmpi_internals::sync::lock;

struct Stock {
    append: CommRequestAppend,
    append_with_flags: CommRequestAppendWithFlags,
}

static STOCK: OnceLock<Stock> = OnceLock::new();
/// A call of `MPI_Comm_create_group`, or one step of an intercommunicator's constructor: choice of the context id, or
/// activation. It lives while it has steps or is being made.
pub struct Call {
    comm: usize,
    kind: Kind,
    /// The context id is chosen.
    has_context_id: AtomicBool,
    /// The last step has begun.
    is_activating: AtomicBool,
    /// Pending messages of its steps. A step removes them when it frees them.
    messages: Mutex<Vec<usize>>,
}

enum Kind {
    /// The new communicator's group; other members of the parent do not matter.
    Group(usize),
    TwoGroups,
    Led(Arc<dyn Led>),
}

/// A call in which the leaders of two groups exchange messages, and everything else runs on the new communicator's
/// local side.
pub trait Led: Send + Sync {
    /// The class with which it must fail, if any.
    fn refusal(&self) -> Option<c_int>;

    /// Runs a step.
    fn step(&self, step: &mut dyn FnMut() -> c_int) -> c_int;

    /// Runs the group's nonblocking collectives on this local side of the new communicator.
    fn run_on(&self, side: Object);

    /// Notes that the last step begins.
    fn begins_activation(&self);
}

/// The continuation of a call after its requests have ended.
struct Step {
    call: Arc<Call>,
    callback: Option<CommRequestCallback>,
    requests: Vec<usize>,
    /// Whether it waits for messages or collectives. Other steps wait for such steps, and clean up after them.
    is_inner: bool,
}

static CALLS: Mutex<Vec<Weak<Call>>> = Mutex::new(Vec::new());
/// Keyed by request, in the order of arrival.
static STEPS: Mutex<BTreeMap<usize, VecDeque<Step>>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The call with leaders in which this thread is.
    static LED: RefCell<Option<Arc<dyn Led>>> = const { RefCell::new(None) };
    /// The call in which this thread is.
    static CALLED: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
    /// The call whose steps this thread appends.
    static MADE: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
}

/// Interposes on the functions with which constructors append their steps.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the types are those of comm_request.h; our function has the type of the replaced one.
    unsafe {
        let stock = Stock {
            append: at.function(OMPI_COMM_REQUEST_SCHEDULE_APPEND)?,
            append_with_flags: at.function(OMPI_COMM_REQUEST_SCHEDULE_APPEND_W_FLAGS)?,
        };
        let _ = STOCK.set(stock);
        at.redirect(OMPI_COMM_REQUEST_SCHEDULE_APPEND, append).map(drop)
    }
}

/// Sets the call with leaders in which this thread is. Returns the previous one.
pub fn be_led(call: Option<Arc<dyn Led>>) -> Option<Arc<dyn Led>> {
    LED.replace(call)
}

/// Cancels messages of calls that cannot succeed. Called in a turn of the progress loop; false if no further turn is
/// needed.
pub fn give_up_hopeless_calls() -> bool {
    let mut calls = lock(&CALLS);
    calls.retain(|call| call.upgrade().inspect(|call| call.give_up_if_hopeless()).is_some());
    !calls.is_empty()
}

impl Call {
    fn begin(comm: Object, kind: Kind) -> Arc<Self> {
        let (comm, has_context_id, is_activating) = (comm as usize, AtomicBool::new(false), AtomicBool::new(false));
        let call = Arc::new(Self { comm, kind, has_context_id, is_activating, messages: Mutex::default() });
        lock(&CALLS).push(Arc::downgrade(&call));
        wakeup::request_turns();
        call
    }

    /// The class with which the call must fail, if any.
    pub fn refusal(&self) -> Option<c_int> {
        let comm = self.comm as Object;
        match &self.kind {
            Kind::Group(group) => refusal(comm).filter(|class| *class != ERR_PROC_FAILED || has_dead(comm, *group)),
            Kind::TwoGroups => refusal(comm),
            Kind::Led(led) => refusal(comm).or_else(|| led.refusal()),
        }
    }

    /// Whether the result of a call with leaders would be useless: members other than leaders do not check the other
    /// group.
    pub fn refusal_of(&self, made: Object) -> Option<c_int> {
        let mpi = Internals::fitting().filter(|_| matches!(self.kind, Kind::Led(_)))?;
        // SAFETY: it is live, and has its groups.
        unsafe { mpi.has_dead_on_other_side(made) }.then_some(ERR_PROC_FAILED)
    }

    fn run(&self, mut step: impl FnMut() -> c_int) -> c_int {
        match &self.kind {
            Kind::Led(led) => led.step(&mut step),
            Kind::Group(_) | Kind::TwoGroups => step(),
        }
    }

    /// Handles the failure of the call at this member. Other constructors may choose their context ids. In a call with
    /// leaders no member may continue, because the group's members wait for each other.
    pub fn has_failed(&self) {
        if let Kind::Led(_) = self.kind {
            communicators::revoke(Communicator::from_handle(self.comm as Object));
        }
        if !matches!(self.kind, Kind::Group(_)) {
            give_turn_back();
        }
    }

    /// Notes that the context id is chosen.
    pub fn note_context_id(&self) {
        self.has_context_id.store(true, Ordering::Release);
    }

    /// Notes that the last step begins.
    pub fn begin_activation(&self) {
        self.is_activating.store(true, Ordering::Release);
        if let Kind::Led(led) = &self.kind {
            led.begins_activation();
        }
    }

    /// Whether the last step has begun.
    pub fn is_activating(&self) -> bool {
        self.is_activating.load(Ordering::Acquire)
    }

    fn give_up_if_hopeless(&self) {
        if self.refusal().is_none() {
            return;
        }
        // A member that is no leader waits for no message, but for other members of its group.
        if let Kind::Led(_) = self.kind {
            communicators::revoke(Communicator::from_handle(self.comm as Object));
        }
        for message in lock(&self.messages).iter() {
            let request = *message as *mut Request;
            // SAFETY: live until it is removed from the list. A message that has arrived, or is about to, is not
            // cancelled.
            unsafe {
                if !Request::is_complete(request) {
                    Request::cancel(request);
                }
            }
        }
    }
}

/// Runs a call of `MPI_Comm_create_group`, which `create` carries out; returns its code.
///
/// # Safety
/// A live communicator and a live group.
pub unsafe fn creating(comm: Object, group: Object, create: impl FnOnce() -> c_int) -> c_int {
    if STOCK.get().is_none() {
        return create();
    }
    let before = be_in(Some(Call::begin(comm, Kind::Group(group as usize))));
    let code = create();
    be_in(before);
    wait_for_giving_up();
    if code != 0 {
        give_turn_back();
    }
    code
}

/// Whether a member of this group of the communicator is dead.
fn has_dead(comm: Object, group: usize) -> bool {
    Internals::get().is_some_and(|mpi| mpi.group_has_any(group as Object, comm, &mpi.dead_members(comm)))
}

/// Waits until no thread is in [`give_up_hopeless_calls`]. The communicator may be freed after that.
pub fn wait_for_giving_up() {
    drop(lock(&CALLS));
}

fn give_turn_back() {
    if Internals::fitting().is_some() {
        cid_turn::give_back();
    }
}

/// Runs code that appends no steps to the call in which this thread is.
pub fn apart<T>(run: impl FnOnce() -> T) -> T {
    making(None, run)
}

/// Runs code that appends steps of `call`.
pub fn making<T>(call: Option<Arc<Call>>, make: impl FnOnce() -> T) -> T {
    let before = make_steps_of(call);
    let result = make();
    make_steps_of(before);
    result
}

/// Never inlined: a fiber (`ishrink`) may continue in another thread after it has waited.
#[inline(never)]
fn make_steps_of(call: Option<Arc<Call>>) -> Option<Arc<Call>> {
    MADE.replace(call)
}

/// The same for entering or leaving a call.
#[inline(never)]
fn be_in(call: Option<Arc<Call>>) -> Option<Arc<Call>> {
    CALLED.replace(call)
}

/// The call in which this thread is, if it is one for this communicator; or a new one.
///
/// # Safety
/// Arguments of Open MPI: the new communicator, its parent, and the mode.
pub unsafe fn called(made: Object, comm: Object, mode: c_int) -> Option<Arc<Call>> {
    match mode {
        OMPI_COMM_CID_GROUP => CALLED.with_borrow(Clone::clone).filter(|call| call.comm == comm as usize),
        OMPI_COMM_CID_INTER | OMPI_COMM_CID_INTRA_PMIX => Some(Call::begin(comm, Kind::TwoGroups)),
        OMPI_COMM_CID_INTRA_BRIDGE => {
            let led = LED.with_borrow(Clone::clone)?;
            // SAFETY: as required of the caller. Such calls need an Open MPI of the known layout.
            let side = unsafe { Internals::own_side_of(made) }.filter(|side| communicators::lives(*side))?;
            led.run_on(side);
            Some(Call::begin(side, Kind::Led(led)))
        }
        _ => None,
    }
}

/// Runs Open MPI's function that begins to choose the context id of `comm`'s child, and returns its code. The function
/// is interposed elsewhere.
///
/// # Safety
/// As of [`called`].
pub unsafe fn nextcid(made: Object, comm: Object, mode: c_int, begin: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as required of the caller.
    let call = unsafe { called(made, comm, mode) };
    // In other calls the first step fails instead: a caller with a request frees it twice if this function is refused
    // (`ompi_comm_idup_getcid`).
    let led = call.as_ref().filter(|call| matches!(call.kind, Kind::Led(_)));
    match led.and_then(|call| call.refusal().inspect(|_| call.has_failed())) {
        Some(class) => class,
        None => making(call, begin),
    }
}

in_front! { stock = STOCK.get(), or ERR_INTERN;
    unsafe extern "C" fn append(
        request: *mut Request, callback: Option<CommRequestCallback>, requests: *const *mut Request, count: c_int
    ) -> c_int {
        let Some(call) = MADE.with_borrow(Clone::clone) else {
            // SAFETY: the stock function with its original arguments.
            return unsafe { (stock.append)(request, callback, requests, count) };
        };
        let own = (0..usize::try_from(count).unwrap_or(0)).map(|index| {
            // SAFETY: Open MPI passes that many requests.
            unsafe { requests.add(index).read() as usize }
        });
        let own: Vec<usize> = own.collect();
        // SAFETY: they are live.
        let is_message = |one: &usize| unsafe { Request::is_message(*one as *const Request) };
        // SAFETY: as above.
        let is_collective = |one: &usize| unsafe { Request::is_collective(*one as *const Request) };
        let is_inner = own.iter().any(|one| is_message(one) || is_collective(one));
        lock(&call.messages).extend(own.iter().copied().filter(is_message));
        let step_of_call = Step { call: call.clone(), callback, requests: own, is_inner };
        lock(&STEPS).entry(request as usize).or_default().push_back(step_of_call);
        let flags = OMPI_COMM_REQ_FLAG_RETAIN_SUBREQ;
        // SAFETY: as above, with a function of the same type, which frees the requests.
        let code = unsafe { (stock.append_with_flags)(request, Some(step), requests, count, flags) };
        // The death may precede the messages.
        call.give_up_if_hopeless();
        code
    }
}

fn next_step(request: *mut Request) -> Option<Step> {
    let mut all = lock(&STEPS);
    let steps = all.get_mut(&(request as usize))?;
    let step = steps.pop_front();
    if steps.is_empty() {
        all.remove(&(request as usize));
    }
    step
}

in_front! { next = next_step(request), or ERR_INTERN;
    /// Continues when the requests of a step have ended.
    unsafe extern "C" fn step(request: *mut Request) -> c_int {
        // SAFETY: Open MPI passes its request.
        unsafe { next.run(request) }
    }
}

impl Step {
    /// Continues the call unless it has failed; returns the code.
    ///
    /// # Safety
    /// The request to which this step belongs.
    unsafe fn run(self, request: *mut Request) -> c_int {
        let Self { call, callback, requests, is_inner } = self;
        lock(&call.messages).retain(|message| !requests.contains(message));
        // SAFETY: as required of the caller; the requests of the step have ended, and no other code knows them.
        let code = unsafe {
            requests.iter().for_each(|one| Request::give_back(*one as *mut Request));
            Request::code(request)
        };
        let Some(callback) = callback else { return code };
        let result = match call.refusal() {
            Some(class) if is_inner => class,
            // After a failed choice Open MPI cleans up, and does not check anything in the step that follows.
            _ if code != 0 && (is_inner || call.has_context_id.load(Ordering::Acquire)) => code,
            // SAFETY: as above.
            _ => making(Some(call.clone()), || call.run(|| unsafe { callback(request) })),
        };
        if result != 0 && !is_inner {
            call.has_failed();
        }
        result
    }
}

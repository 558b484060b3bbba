//! `MPI_Comm_create_group`, and whatever is made of a communicator with two groups, does not wait for the dead, nor for those
//! who do not wait for them either.
//!
//! Open MPI 5.0.7 settles the number of such a communicator by messages between the members of the group (`comm_cid.c`,
//! ompi_comm_allreduce_group_nb), or between the first ones of both groups and collectives within each
//! (ompi_comm_allreduce_inter_nb), in steps that follow each other as these end. Nobody looks whether the other end of a message
//! is dead, and a step drops the error of what came before it (`comm_request.c:166`). Here each step is entered through a
//! function of ours, which goes on only if that has ended well and nobody has died in the communicator; and as soon as somebody
//! has, what is waited for is given up. So it is for `MPI_Intercomm_create`, where the leaders exchange messages and all else
//! runs on the own side of what is being made ([`crossing`]), and where groups meet in the runtime ([`meetings`](crate::meetings)).
//!
//! On the end of `MPI_Intercomm_merge`, which is a function of MPI's alone, the members of a uniform communicator agree here: once,
//! where its last part has ended, or the one before that has failed.
//!
//! That ends the call at every member: whoever knows of a death in the communicator gives up, or is refused as it begins
//! (`ompi_comm_iface_create_check`), and sooner or later all know. For the same reason nobody takes a message of a call that
//! was given up for one of a later call: who could send or receive that knows of no death, and has ended the earlier one with
//! all of its messages. But they bear the tag of the call, and stay where others may receive them.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::ballots::{self, Activation};
use crate::communicators;
use crate::construction;
use crate::crossing::{self, Crossing};
use crate::epochs::{self, Activate};
use crate::from_groups::{self, ActivateAndWait, NumberAndWait};
use crate::handles::Communicator;
use crate::internals::Internals;
use crate::line::lock;
use crate::meetings;
use crate::mended::refusal;
use crate::objects::Object;
use crate::openmpi::Library;
use crate::property::UNIFORMITY;
use crate::requests::Request;
use crate::statement::{About, ERR_INTERN, ERR_PROC_FAILED};
use crate::uniform;
use crate::uniformity::Uniformity;

const CREATE_GROUP: &CStr = c"ompi_comm_create_group";
const ACTIVATE: &CStr = c"ompi_comm_activate_nb";
const NUMBER_AND_WAIT: &CStr = c"ompi_comm_nextcid";
const ACTIVATE_AND_WAIT: &CStr = c"ompi_comm_activate";
const APPEND: &CStr = c"ompi_comm_request_schedule_append";
const APPEND_WITH_FLAGS: &CStr = c"ompi_comm_request_schedule_append_w_flags";
/// `OMPI_COMM_CID_GROUP`
const MODE_GROUP: c_int = 0x200;
/// `OMPI_COMM_CID_INTER`
const MODE_TWO_GROUPS: c_int = 0x40;
/// `OMPI_COMM_CID_INTRA_BRIDGE`
const MODE_BRIDGE: c_int = 0x80;
/// `OMPI_COMM_CID_INTRA_PMIX`
const MODE_RUNTIME: c_int = 0x100;
/// `OMPI_COMM_REQ_FLAG_RETAIN_SUBREQ`: who appends a step frees its requests.
const RETAIN: u32 = 1;

type CreateGroup = unsafe extern "C" fn(Object, Object, c_int, *mut Object) -> c_int;
type Callback = unsafe extern "C" fn(*mut Request) -> c_int;
type Append = unsafe extern "C" fn(*mut Request, Option<Callback>, *const *mut Request, c_int) -> c_int;
type AppendWithFlags = unsafe extern "C" fn(*mut Request, Option<Callback>, *const *mut Request, c_int, u32) -> c_int;

struct Stock {
    create_group: CreateGroup,
    activate: Activate,
    number_and_wait: NumberAndWait,
    activate_and_wait: ActivateAndWait,
    append: Append,
    append_with_flags: AppendWithFlags,
}

static STOCK: OnceLock<Stock> = OnceLock::new();
/// Open MPI activates communicators by a function of this module.
static SEES_ACTIVATIONS: AtomicBool = AtomicBool::new(false);

/// A call of `MPI_Comm_create_group`; or a number that is being settled, or what follows it, in two groups. It lives as long as
/// it has steps or is being made.
struct Call {
    comm: usize,
    kind: Kind,
    /// The number is settled.
    is_numbered: AtomicBool,
    /// The last step has begun.
    is_activating: AtomicBool,
    /// Messages that its steps wait for. They live until a step takes them out.
    messages: Mutex<Vec<usize>>,
}

enum Kind {
    Group,
    TwoGroups,
    Crossing(Arc<Crossing>),
}

/// What is to be done when its requests have ended.
struct Step {
    call: Arc<Call>,
    callback: Option<Callback>,
    requests: Vec<usize>,
    /// Whether it waits for messages or collectives: the others wait for such steps, and clean up after them.
    is_inner: bool,
}

static CALLS: Mutex<Vec<Weak<Call>>> = Mutex::new(Vec::new());
/// By the request to which they belong, in the order in which they come.
static STEPS: Mutex<BTreeMap<usize, VecDeque<Step>>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The call that this thread is in.
    static CALLED: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
    /// The call whose steps this thread is making.
    static MADE: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
}

/// Stands where such communicators are made.
pub fn watch() {
    if let (Some(library), None) = (Library::loaded(), STOCK.get()) {
        let _ = stand(&library);
    }
}

fn stand(library: &Library) -> Option<()> {
    // SAFETY: the types are those of communicator.h and comm_request.h; functions of the same types take their places.
    unsafe {
        let stock = Stock {
            create_group: library.function(CREATE_GROUP)?,
            activate: library.function(ACTIVATE)?,
            number_and_wait: library.function(NUMBER_AND_WAIT)?,
            activate_and_wait: library.function(ACTIVATE_AND_WAIT)?,
            append: library.function(APPEND)?,
            append_with_flags: library.function(APPEND_WITH_FLAGS)?,
        };
        STOCK.set(stock).ok()?;
        library.redirect_all(&[
            (CREATE_GROUP, create_group as *const c_void),
            (ACTIVATE, activate as *const _),
            (NUMBER_AND_WAIT, number_and_wait as *const _),
            (APPEND, append as *const _),
        ]);
        let is_seen = library.redirect(ACTIVATE_AND_WAIT, activate_and_wait as *const _);
        SEES_ACTIVATIONS.store(is_seen, Ordering::Release);
    }
    Some(())
}

/// Whether it is known which communicator is made of which.
pub fn sees_activations() -> bool {
    SEES_ACTIVATIONS.load(Ordering::Acquire)
}

/// A turn of the progress loop: what waits for messages in a communicator in which somebody has died, or that was revoked,
/// waits no longer. False if no further turn is needed.
pub fn look() -> bool {
    let mut calls = lock(&CALLS);
    calls.retain(|call| call.upgrade().inspect(|call| call.give_up_if_hopeless()).is_some());
    !calls.is_empty()
}

impl Call {
    fn begin(comm: Object, kind: Kind) -> Arc<Self> {
        let (comm, is_numbered, is_activating) = (comm as usize, AtomicBool::new(false), AtomicBool::new(false));
        let call = Arc::new(Self { comm, kind, is_numbered, is_activating, messages: Mutex::default() });
        lock(&CALLS).push(Arc::downgrade(&call));
        crate::watch_progress();
        call
    }

    /// Why it cannot succeed any more.
    fn refusal(&self) -> Option<c_int> {
        let by_leader = || match &self.kind {
            Kind::Crossing(crossing) => crossing.refusal(),
            Kind::Group | Kind::TwoGroups => None,
        };
        refusal(self.comm as Object).or_else(by_leader)
    }

    /// Why what is made with a leader would be of no use: who is not a leader has not been asked about the other group.
    fn refusal_of(&self, made: Object) -> Option<c_int> {
        let mpi = Internals::fitting().filter(|_| matches!(self.kind, Kind::Crossing(_)))?;
        // SAFETY: it lives, and has its groups.
        unsafe { mpi.has_dead_on_other_side(made) }.then_some(ERR_PROC_FAILED)
    }

    /// It has failed here. Others may settle their numbers, and of a call with a leader nobody may go on: all of the group wait
    /// for each other.
    fn has_failed(&self) {
        if let Kind::Crossing(_) = self.kind {
            communicators::revoke(Communicator::from_handle(self.comm as Object));
        }
        if !matches!(self.kind, Kind::Group) {
            give_turn_back();
        }
    }

    fn begin_activation(&self) {
        self.is_activating.store(true, Ordering::Release);
        if let Kind::Crossing(crossing) = &self.kind {
            crossing.joint.begins();
        }
    }

    fn give_up_if_hopeless(&self) {
        if self.refusal().is_none() {
            return;
        }
        // Who is no leader waits for no message, but for the others of its group.
        if let Kind::Crossing(_) = self.kind {
            communicators::revoke(Communicator::from_handle(self.comm as Object));
        }
        for message in lock(&self.messages).iter() {
            let request = *message as *mut Request;
            // SAFETY: it lives until it is taken off the list. A message that has arrived, or is about to, is not cancelled.
            unsafe {
                if !Request::is_complete(request) {
                    Request::cancel(request);
                }
            }
        }
    }
}

unsafe extern "C" fn create_group(comm: Object, group: Object, tag: c_int, made: *mut Object) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    let before = be_in(Some(Call::begin(comm, Kind::Group)));
    // SAFETY: the stock function with the arguments that were meant for it.
    let code = unsafe { (stock.create_group)(comm, group, tag, made) };
    be_in(before);
    wait_for_look();
    if code != 0 {
        give_turn_back();
    }
    code
}

/// Whoever leaves its call waits for a look that is going on, and may free the communicator then.
pub fn wait_for_look() {
    drop(lock(&CALLS));
}

fn give_turn_back() {
    if let Some(mpi) = Internals::fitting() {
        mpi.turn.give_back(&mpi.shadows);
    }
}

/// Runs what makes no steps of the call in which this thread is, nor lets others make some.
pub fn apart<T>(run: impl FnOnce() -> T) -> T {
    making(None, run)
}

/// Runs what appends steps of a call.
fn making<T>(call: Option<Arc<Call>>, make: impl FnOnce() -> T) -> T {
    let before = make_steps_of(call);
    let result = make();
    make_steps_of(before);
    result
}

/// Never in line: who waits on a stack of its own (`ishrink`) may wake up in another thread.
#[inline(never)]
fn make_steps_of(call: Option<Arc<Call>>) -> Option<Arc<Call>> {
    MADE.replace(call)
}

/// The same of a call that is entered, or left.
#[inline(never)]
fn be_in(call: Option<Arc<Call>>) -> Option<Arc<Call>> {
    CALLED.replace(call)
}

/// The call that this thread is in, if it is one for this communicator; or a new one.
///
/// # Safety
/// What Open MPI passes: a communicator that is being made, the one that it is made of, and the mode.
unsafe fn called(made: Object, comm: Object, mode: c_int) -> Option<Arc<Call>> {
    match mode {
        MODE_GROUP => CALLED.with_borrow(Clone::clone).filter(|call| call.comm == comm as usize),
        MODE_TWO_GROUPS | MODE_RUNTIME => Some(Call::begin(comm, Kind::TwoGroups)),
        MODE_BRIDGE => {
            let crossing = crossing::present()?;
            // SAFETY: as required of the caller. Such calls are there only in an Open MPI that fits.
            let side = unsafe { Internals::own_side_of(made) }.filter(|side| communicators::lives(*side))?;
            crossing.runs_on(side);
            Some(Call::begin(side, Kind::Crossing(crossing)))
        }
        _ => None,
    }
}

/// Runs Open MPI's function that begins to settle the number of a communicator which is made of another one, and returns its
/// code. Another function of ours stands in its place.
///
/// # Safety
/// As of [`called`].
pub unsafe fn numbering(made: Object, comm: Object, mode: c_int, begin: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as required of the caller.
    let call = unsafe { called(made, comm, mode) };
    // Elsewhere the first step fails: who calls this for a request gives that back twice if it is refused (`ompi_comm_idup_getcid`).
    let crossing = call.as_ref().filter(|call| matches!(call.kind, Kind::Crossing(_)));
    match crossing.and_then(|call| call.refusal().inspect(|_| call.has_failed())) {
        Some(class) => class,
        None => making(call, begin),
    }
}

unsafe extern "C" fn activate(
    made: Object,
    comm: Object,
    bridge: Object,
    first: *const c_void,
    second: *const c_void,
    sends_first: bool,
    mode: c_int,
    request: *mut *mut Request,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: Open MPI passes where the communicator that is being made stands.
    let (new, call) = unsafe { (made.cast::<Object>().read(), called(made.cast::<Object>().read(), comm, mode)) };
    if let Some(call) = &call {
        call.is_numbered.store(true, Ordering::Release);
        // Of a death until now the new communicator would never hear.
        if let Some(class) = call.refusal().or_else(|| call.refusal_of(new)) {
            call.has_failed();
            return class;
        }
    }
    if mode == MODE_RUNTIME {
        // SAFETY: as above.
        unsafe { meetings::is_numbered(new, comm) };
    }
    call.iter().for_each(|call| call.begin_activation());
    // SAFETY: as above; the others wait for this process in what follows.
    unsafe { epochs::numbered(new, comm, mode) };
    // SAFETY: as above.
    making(call, || unsafe { (stock.activate)(made, comm, bridge, first, second, sends_first, mode, request) })
}

/// Whether two groups become one.
///
/// # Safety
/// A communicator that is being made, and has its groups.
unsafe fn is_merge(made: Object, mode: c_int) -> bool {
    // SAFETY: as required of the caller.
    mode == MODE_TWO_GROUPS && Internals::fitting().is_some() && unsafe { Internals::own_side_of(made) }.is_none()
}

unsafe extern "C" fn number_and_wait(
    made: Object,
    comm: Object,
    bridge: Object,
    first: *const c_void,
    second: *const c_void,
    sends_first: bool,
    mode: c_int,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: the stock function with the arguments that were meant for it.
    unsafe {
        if let Some(code) = from_groups::number(made, first, mode) {
            return code;
        }
        let code = (stock.number_and_wait)(made, comm, bridge, first, second, sends_first, mode);
        if code != 0 && is_merge(made, mode) { uniform::agree_on(comm, About::Members, || code) } else { code }
    }
}

unsafe extern "C" fn activate_and_wait(
    made: *mut Object,
    comm: Object,
    bridge: Object,
    first: *const c_void,
    second: *const c_void,
    sends_first: bool,
    mode: c_int,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    // SAFETY: the stock function with the arguments that were meant for it.
    let begin = || unsafe { (stock.activate_and_wait)(made, comm, bridge, first, second, sends_first, mode) };
    // SAFETY: Open MPI passes where the communicator that is being made stands.
    let new = unsafe { made.read() };
    if mode != MODE_GROUP {
        let begin = || construction::activating(new, comm, begin);
        let crossing = crossing::present().filter(|_| mode == MODE_BRIDGE);
        // SAFETY: both live, and the number is settled. Crossings are there only in an Open MPI that fits.
        return unsafe {
            match crossing {
                _ if is_merge(new, mode) => merge(new, comm, begin),
                Some(crossing) => {
                    epochs::numbered(new, comm, mode);
                    crossing.activate(new, begin)
                }
                None if mode == MODE_RUNTIME => meetings::activate(new, comm, begin),
                None => begin(),
            }
        };
    }
    // SAFETY: what Open MPI passes, and its function.
    if let Some(code) = unsafe { from_groups::activate(made, comm, mode, stock.activate_and_wait) } {
        return code;
    }
    let is_uniform = || Uniformity::of(communicators::values(comm)[UNIFORMITY]) != Uniformity::Local;
    // SAFETY: as above.
    let Some(call) = unsafe { called(new, comm, mode) }.filter(|_| is_uniform()) else { return begin() };
    let activate = || {
        let code = begin();
        Activation { code, has_begun: call.is_activating.load(Ordering::Acquire) }
    };
    // SAFETY: both live, and the number is settled. There are uniform communicators only in an Open MPI that fits.
    unsafe {
        epochs::numbered(new, comm, mode);
        ballots::cast(new, comm, activate)
    }
}

/// Activates what two groups become; they agree on how that ends.
fn merge(new: Object, comm: Object, begin: impl FnOnce() -> c_int) -> c_int {
    let mut own = ERR_PROC_FAILED;
    let code = uniform::agree_on(comm, About::Members, || {
        own = begin();
        if own == 0 {
            uniform::hold(new);
        }
        own
    });
    if own == 0 {
        uniform::decided(new, code);
    }
    code
}

unsafe extern "C" fn append(
    request: *mut Request,
    callback: Option<Callback>,
    requests: *const *mut Request,
    count: c_int,
) -> c_int {
    let Some(stock) = STOCK.get() else { return ERR_INTERN };
    let Some(call) = MADE.with_borrow(Clone::clone) else {
        // SAFETY: as above.
        return unsafe { (stock.append)(request, callback, requests, count) };
    };
    let own = (0..usize::try_from(count).unwrap_or(0)).map(|index| {
        // SAFETY: Open MPI passes that many requests.
        unsafe { requests.add(index).read() as usize }
    });
    let own: Vec<usize> = own.collect();
    // SAFETY: they live.
    let is_message = |one: &usize| unsafe { Request::is_message(*one as *const Request) };
    // SAFETY: as above.
    let is_collective = |one: &usize| unsafe { Request::is_collective(*one as *const Request) };
    let is_inner = own.iter().any(|one| is_message(one) || is_collective(one));
    lock(&call.messages).extend(own.iter().copied().filter(is_message));
    let step_of_call = Step { call: call.clone(), callback, requests: own, is_inner };
    lock(&STEPS).entry(request as usize).or_default().push_back(step_of_call);
    // SAFETY: as above, with a function of the same type; the requests are freed in it.
    let code = unsafe { (stock.append_with_flags)(request, Some(step), requests, count, RETAIN) };
    // The death may have come before the messages.
    call.give_up_if_hopeless();
    code
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

/// The requests of a step have ended.
unsafe extern "C" fn step(request: *mut Request) -> c_int {
    let Some(Step { call, callback, requests, is_inner }) = next_step(request) else { return ERR_INTERN };
    lock(&call.messages).retain(|message| !requests.contains(message));
    // SAFETY: Open MPI passes its request; those of the step have ended, and nobody else knows them.
    let code = unsafe {
        requests.iter().for_each(|one| Request::give_back(*one as *mut Request));
        Request::code(request)
    };
    let Some(callback) = callback else { return code };
    let result = match call.refusal() {
        Some(class) if is_inner => class,
        // Open MPI cleans up after a number that was not settled, and looks at nothing in what comes then.
        _ if code != 0 && (is_inner || call.is_numbered.load(Ordering::Acquire)) => code,
        // SAFETY: as above.
        _ => making(Some(call.clone()), || unsafe { callback(request) }),
    };
    if result != 0 && !is_inner {
        call.has_failed();
    }
    result
}

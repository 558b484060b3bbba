//! Runs uniform collective operations, which succeed at all living members of a communicator or at none.
//!
//! The functions of [`coll_table`](crate::uniform::coll_table) call the stock ones through this module, which waits
//! until the members agree ([`op_queue`](crate::uniform::op_queue)).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use platform::say::say;

use crate::agreement::vote::About;
use crate::agreement::{background, era_guard};
use crate::in_front::{self, guard};
use crate::properties::error_uniformity::Uniformity;
use crate::uniform::dissemination;
use crate::uniform::op_queue::{self, Begin, Line, Operation, Told};
use openmpi_internals::communicator::{BARRIER, Internals, NONBLOCKING};
use openmpi_internals::error_class::ERR_INTERN;
use openmpi_internals::object::Object;
use openmpi_internals::own_request;
use openmpi_internals::request::{Request, Start};
use openmpi_internals::sync::lock;
use openmpi_internals::{group, loaded};

/// Placeholder while a blocked caller waits for a code of MPI.
const NO_CODE: c_int = c_int::MIN;

static LINES: Mutex<Lines> = Mutex::new(Lines { by_communicator: BTreeMap::new(), all: None });
/// Whether there are uniform communicators. Without them a turn of the progress loop costs one load.
static LINED: AtomicBool = AtomicBool::new(false);
/// Whether a uniform communicator has a dead member; a death elsewhere needs no work here. Before that, a communicator
/// without queued operations needs work only when it is revoked, which is checked in one of [`RARELY`] turns.
static HAS_DAMAGED: AtomicBool = AtomicBool::new(false);
static TURNS: AtomicU32 = AtomicU32::new(0);
const RARELY: u32 = 16;
thread_local! {
    /// Whether an operation of this thread has reached a function of this module.
    static IS_REACHED: Cell<bool> = const { Cell::new(false) };
}

/// The programs' persistent requests, by address.
static PREPARED: Mutex<BTreeMap<usize, Prepared>> = Mutex::new(BTreeMap::new());

/// The queues of this rank's uniform communicators, by handle.
struct Lines {
    by_communicator: BTreeMap<usize, Arc<Line>>,
    all: Option<Arc<[Arc<Line>]>>,
}

/// The queue and the stock request of a persistent request.
struct Prepared {
    line: Arc<Line>,
    own: usize,
}

fn line_of(comm: Object) -> Option<Arc<Line>> {
    lock(&LINES).by_communicator.get(&(comm as usize)).cloned()
}

/// Whether communicators of this Open MPI can be uniform. After `MPI_Init`.
pub fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let possible = Internals::fitting().is_some() && dissemination::are_possible() && loaded::register_progress(progress);
        if !possible {
            say(
                "ringwatch: the inside of this Open MPI is not that of 5.0 as Debian has it: no communicator can have uniform errors",
            );
        }
        possible
    })
}

/// Whether this communicator, which has its groups, can be uniform. Both groups must belong to one mpirun.
pub fn can_be(comm: Object) -> bool {
    // SAFETY: callers pass a communicator that is live or being made.
    is_possible() && (!is_intercommunicator(comm) || unsafe { group::of(comm) }.is_some())
}

/// Whether a communicator is an intercommunicator.
pub fn is_intercommunicator(comm: Object) -> bool {
    Internals::get().is_some_and(|mpi| mpi.is_intercommunicator(comm))
}

/// The queue of a communicator whose uniformity changes; it has its collectives. `None` if no operation needs
/// agreement, or memory is exhausted.
pub fn line_for(comm: Object, uniformity: Uniformity) -> Option<Arc<Line>> {
    if let Some(line) = line_of(comm) {
        return is_possible().then_some(line);
    }
    if uniformity == Uniformity::Local || !is_possible() {
        return None;
    }
    let mpi = Internals::get().filter(|mpi| mpi.has_several_members(comm))?;
    let line = Line::new(mpi, comm);
    if line.is_none() {
        say("ringwatch: no memory for a uniform communicator; it stays as it was");
    }
    line.map(|line| add(comm, line))
}

fn add(comm: Object, line: Line) -> Arc<Line> {
    let line = Arc::new(line);
    let mut lines = lock(&LINES);
    lines.by_communicator.insert(comm as usize, line.clone());
    lines.renew();
    line
}

/// Why a communicator ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The program frees it.
    Freed,
    /// `MPI_Finalize`: no member answers any more.
    Finalised,
    /// Its constructor has failed, or MPI is finalised.
    Unmade,
}

/// Ends the queue of a communicator that is being freed.
pub fn forget(comm: Object, end: End) {
    let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return };
    // Nonblocking operations may still be under way, and the program cannot wait for them later.
    while end != End::Unmade && !line.is_idle() {
        line.advance(mpi);
        mpi.progress();
    }
    if end == End::Freed {
        line.take_leave(mpi);
    }
    // Deaths had to reach it until now.
    let mut lines = lock(&LINES);
    lines.by_communicator.remove(&(comm as usize));
    lines.renew();
    drop(lines);
    line.close(mpi, end == End::Freed);
}

/// Makes all queues take part in their final agreement when `MPI_Finalize` begins, as if all communicators were freed:
/// another member may have freed one that this member has not.
pub fn take_leave() {
    let Some(mpi) = Internals::get() else { return };
    let all: Vec<_> = lock(&LINES).by_communicator.values().cloned().collect();
    for line in all.iter() {
        line.take_leave(mpi);
        line.advance(mpi);
    }
}

/// Holds a new communicator's operations until its constructor has a result. It has its collectives; some members may
/// lack them, and so could not agree.
pub fn hold(comm: Object) {
    line_of(comm).iter().for_each(|line| line.hold());
}

/// Ends the hold; the communicator exists if `code` is 0.
pub fn decided(comm: Object, code: c_int) {
    line_of(comm).iter().for_each(|line| line.end());
    if code != 0 {
        forget(comm, End::Unmade);
    }
}

/// Handles the death of a communicator's member.
pub fn member_died(comm: Object, rank: c_int, remote: bool) {
    {
        // A thread that frees the communicator first removes the queue, and then pending deaths of its shadow.
        let lines = lock(&LINES);
        let Some(line) = lines.by_communicator.get(&(comm as usize)) else { return };
        // Open MPI does not find the shadow.
        era_guard::note(line.shadow(), line.rank_in_shadow(rank, remote), false);
        line.note_dead_member();
        HAS_DAMAGED.store(true, Ordering::Relaxed);
    }
    era_guard::tell_soon();
}

/// Whether there are uniform communicators.
#[inline(always)]
pub fn are_there() -> bool {
    LINED.load(Ordering::Relaxed)
}

/// Calls an operation; returns its result, and whether it has reached a function of this module.
pub fn reaches<T>(call: impl FnOnce() -> T) -> (T, bool) {
    let before = IS_REACHED.replace(false);
    let result = call();
    (result, IS_REACHED.replace(before))
}

/// The function and the module of a slot if it is uniform.
pub fn function_of(comm: Object, slot: usize) -> Option<(Object, Object)> {
    let (mpi, line) = (Internals::get()?, line_of(comm)?);
    // SAFETY: a communicator with a queue is live and has its collectives, in an Open MPI of the known layout.
    let entry = unsafe { &mpi.table(comm)[slot] };
    (entry.function != line.stock_function(slot)).then_some((entry.function, entry.module))
}

/// Runs a blocking operation: `call` calls the stock function of a slot.
pub fn finish(comm: Object, slot: usize, call: impl FnOnce(Object) -> c_int) -> c_int {
    reach(comm, |mpi, line| {
        let mut operation = Operation::cut(Told::Nobody);
        match line.begin(mpi) {
            Begin::Nested => return call(line.stock_function(slot)),
            Begin::Cut => {}
            Begin::Now => {
                let is_over = line.drain(mpi) && {
                    operation.code = call(line.stock_function(slot));
                    line.confirm(mpi, &mut operation)
                };
                // It is queued before any agreement begins.
                let place = (!is_over).then(|| append(line, operation));
                line.end();
                return place.map_or(0, |place| wait_for_code(mpi, line, &place));
            }
        }
        await_agreement(mpi, line, operation)
    })
}

/// Runs the body of a function of this module, and notes that an operation of this thread has reached it.
fn reach(comm: Object, body: impl FnOnce(&Internals, &Arc<Line>) -> c_int) -> c_int {
    IS_REACHED.set(true);
    in_front::run(Internals::get().zip(line_of(comm)), ERR_INTERN, |(mpi, line)| body(mpi, &line))
}

/// Runs an operation that consists of several. If the communicator is uniform, the members agree on it as on one.
pub fn agree_on(comm: Object, about: About, call: impl FnOnce() -> c_int) -> c_int {
    agree_unless_settled(comm, about, call, || false)
}

/// The same. If `call` succeeds and `is_settled` holds, all other members have succeeded, and no agreement is needed.
pub fn agree_unless_settled(
    comm: Object,
    about: About,
    call: impl FnOnce() -> c_int,
    is_settled: impl FnOnce() -> bool,
) -> c_int {
    let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return call() };
    let mut operation = Operation::cut(Told::Nobody);
    operation.about = about;
    match line.begin(mpi) {
        Begin::Nested => return call(),
        Begin::Cut => {}
        Begin::Now => {
            operation.code = call();
            line.end();
            if operation.code == 0 && is_settled() {
                return 0;
            }
        }
    }
    await_agreement(mpi, &line, operation)
}

/// Runs a constructor of two groups, so that all members of this group return the same code.
///
/// 1. `call` runs the constructor at this member. If it succeeds and `is_settled` holds, all members of both groups
///    have succeeded: nothing is agreed on.
/// 2. The members of this group agree on one code.
/// 3. `then` exchanges this code with the other group. It returns the code of both groups.
/// 4. If step 2 has agreed on success, the members of this group agree on the code of step 3. A death between steps 2
///    and 4 changes nothing.
pub fn agree_with_others(
    comm: Object,
    call: impl FnOnce() -> c_int,
    is_settled: impl FnOnce() -> bool,
    then: impl FnOnce(c_int) -> c_int,
) -> c_int {
    let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return then(call()) };
    let begin = line.begin(mpi);
    let mut operation = Operation::cut(Told::Nobody);
    operation.about = About::Others;
    match begin {
        Begin::Nested => return then(call()),
        Begin::Cut => {}
        Begin::Now => operation.code = call(),
    }
    if operation.code == 0 && is_settled() {
        line.end();
        return then(0);
    }
    // The operation continues until its second part is queued: no agreement about a death comes in between.
    let code = await_agreement(mpi, &line, operation);
    let mut word = Operation::cut(Told::Nobody);
    (word.about, word.code) = (About::Word, then(code));
    if code != 0 {
        if matches!(begin, Begin::Now) {
            line.end();
        }
        return word.code;
    }
    let place = append(&line, word);
    line.end();
    wait_for_code(mpi, &line, &place)
}

fn await_agreement(mpi: &Internals, line: &Line, operation: Operation) -> c_int {
    wait_for_code(mpi, line, &append(line, operation))
}

/// Queues the operation for its agreement. Returns the place of its code, for the caller to wait on.
fn append(line: &Line, mut operation: Operation) -> Arc<AtomicI32> {
    let place = Arc::new(AtomicI32::new(NO_CODE));
    operation.told = Told::Caller(place.clone());
    line.append(operation);
    place
}

fn wait_for_code(mpi: &Internals, line: &Line, place: &AtomicI32) -> c_int {
    loop {
        line.advance(mpi);
        match place.load(Ordering::Acquire) {
            NO_CODE => mpi.progress(),
            code => return code,
        }
    }
}

/// Runs a nonblocking operation. Its errors are those of its request.
pub fn start(
    comm: Object,
    slot: usize,
    request: *mut *mut Request,
    call: impl FnOnce(Object, *mut *mut Request) -> c_int,
) -> c_int {
    reach(comm, |mpi, line| {
        let begin = line.begin(mpi);
        match begin {
            Begin::Nested => call(line.stock_function(slot), request),
            // The agreement alone proves that all members have reached it.
            _ if slot == NONBLOCKING + BARRIER => start_in(mpi, line, &begin, request, |_| 0),
            _ => start_in(mpi, line, &begin, request, |own| call(line.stock_function(slot), own)),
        }
    })
}

/// The same for an operation that consists of several, if the communicator is uniform: `call` begins it, with its
/// request.
pub fn start_whole(comm: Object, request: *mut *mut Request, call: impl FnOnce(*mut *mut Request) -> c_int) -> c_int {
    let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return call(request) };
    guard(ERR_INTERN, || match line.begin(mpi) {
        Begin::Nested => call(request),
        begin => start_in(mpi, &line, &begin, request, call),
    })
}

/// Begins an operation of the queue through `call`, unless it cannot succeed.
fn start_in(
    mpi: &Internals,
    line: &Line,
    begin: &Begin,
    request: *mut *mut Request,
    call: impl FnOnce(*mut *mut Request) -> c_int,
) -> c_int {
    let Some(told) = new_request(mpi, line.comm(), false) else { return ERR_INTERN };
    let mut operation = Operation::cut(Told::Request(told));
    if matches!(begin, Begin::Now) {
        let mut own = std::ptr::null_mut();
        operation.code = call(&mut own);
        operation.own = (operation.code == 0 && !own.is_null()).then_some(own);
        line.end();
    }
    // SAFETY: MPI passes a place for the request.
    unsafe { request.write(told) };
    line.append(operation);
    0
}

/// Prepares a persistent operation: each of its starts counts as an operation of the communicator.
pub fn prepare(
    comm: Object,
    slot: usize,
    request: *mut *mut Request,
    call: impl FnOnce(Object, *mut *mut Request) -> c_int,
) -> c_int {
    reach(comm, |mpi, line| {
        let mut own = std::ptr::null_mut();
        let code = call(line.stock_function(slot), &mut own);
        if code != 0 {
            return code;
        }
        let Some(told) = new_request(mpi, comm, true) else { return ERR_INTERN };
        lock(&PREPARED).insert(told as usize, Prepared { line: line.clone(), own: own as usize });
        // SAFETY: MPI passes a place for the request.
        unsafe { request.write(told) };
        0
    })
}

unsafe extern "C" fn restart(count: usize, requests: *mut *mut Request) -> c_int {
    guard(ERR_INTERN, || {
        for index in 0..count {
            // SAFETY: MPI passes that many requests, made by `prepare`.
            let told = unsafe { *requests.add(index) };
            let prepared = lock(&PREPARED).get(&(told as usize)).map(|known| (known.line.clone(), known.own));
            let (Some(mpi), Some((line, own))) = (Internals::get(), prepared) else { return ERR_INTERN };
            let mut own = own as *mut Request;
            // SAFETY: an inactive persistent request.
            unsafe { mpi.requests.activate(told) };
            let mut operation = Operation::cut(Told::Request(told));
            operation.own_is_persistent = true;
            if matches!(line.begin(mpi), Begin::Now) {
                // SAFETY: the stock request, inactive as well; without a start function it has no work.
                let started = unsafe { (*own).start.map(|start| start(1, &mut own)) };
                operation.code = started.unwrap_or(0);
                operation.own = (started == Some(0)).then_some(own);
                line.end();
            }
            line.append(operation);
        }
        0
    })
}

unsafe extern "C" fn give_back(handle: *mut *mut Request) -> c_int {
    // SAFETY: MPI frees a completed request of this module; no other code knows its stock request.
    unsafe {
        let told = *handle as usize;
        guard((), || {
            if let Some(prepared) = lock(&PREPARED).remove(&told) {
                Request::give_back(prepared.own as *mut Request);
            }
        });
        own_request::give_back(handle)
    }
}

fn new_request(mpi: &Internals, comm: Object, persistent: bool) -> Option<*mut Request> {
    let request = own_request::new(mpi, comm, persistent)?;
    // SAFETY: a new request.
    unsafe {
        (*request).free = Some(give_back);
        (*request).start = persistent.then_some(restart as Start);
    }
    Some(request)
}

unsafe extern "C-unwind" fn progress() -> c_int {
    let is_turn = || {
        let has_work = HAS_DAMAGED.load(Ordering::Relaxed) || op_queue::is_anything_queued();
        has_work || TURNS.fetch_add(1, Ordering::Relaxed) % RARELY == 0
    };
    let is_needed = || LINED.load(Ordering::Relaxed) || background::is_anything_left();
    if !is_needed() || !is_turn() {
        return 0;
    }
    guard((), || {
        let all = lock(&LINES).all.clone();
        let Some(mpi) = Internals::get() else { return };
        all.iter().flat_map(|all| all.iter()).for_each(|line| line.advance(mpi));
        if background::is_anything_left() {
            background::clear(mpi);
        }
    });
    0
}

impl Lines {
    fn renew(&mut self) {
        LINED.store(!self.by_communicator.is_empty(), Ordering::Relaxed);
        self.all = (!self.by_communicator.is_empty()).then(|| self.by_communicator.values().cloned().collect());
    }
}

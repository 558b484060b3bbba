//! Uniform collective operations: they succeed at all living members of a communicator, or at none.
//!
//! The functions of [`collectives`] call the stock ones here, and wait until the members agree ([`line`](crate::line)).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rdma_heartbeat::logging::say;

use crate::internals::{BARRIER, Internals, NONBLOCKING};
use crate::line::{self, Begin, Line, Operation, Told, lock};
use crate::objects::Object;
use crate::requests::{Request, Start};
use crate::statement::{About, ERR_INTERN};
use crate::uniformity::Uniformity;
use crate::{agreements, collectives, detached, members, openmpi};

/// Stands where a blocked caller waits for a code of MPI.
const NO_CODE: c_int = c_int::MIN;

static LINES: Mutex<Lines> = Mutex::new(Lines { by_communicator: BTreeMap::new(), all: None });
/// Whether there are any: until then, and without them, progress costs one look.
static LINED: AtomicBool = AtomicBool::new(false);
/// Whether a member of one has died. Before that only a revocation gives lines something to do that have no operation queued,
/// for which they look once in so many turns.
static DAMAGED: AtomicBool = AtomicBool::new(false);
static TURNS: AtomicU32 = AtomicU32::new(0);
const RARELY: u32 = 16;
thread_local! {
    /// An operation of this thread has come to a function of this module.
    static IS_REACHED: Cell<bool> = const { Cell::new(false) };
}

/// The persistent requests that programs have, by their addresses.
static PREPARED: Mutex<BTreeMap<usize, Prepared>> = Mutex::new(BTreeMap::new());
/// The requests that are not in use.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The uniform communicators of this rank, by the addresses of their handles.
struct Lines {
    by_communicator: BTreeMap<usize, Arc<Line>>,
    all: Option<Arc<[Arc<Line>]>>,
}

/// What a persistent request starts.
struct Prepared {
    line: Arc<Line>,
    own: usize,
}

fn line_of(comm: Object) -> Option<Arc<Line>> {
    lock(&LINES).by_communicator.get(&(comm as usize)).cloned()
}

/// Whether communicators of this Open MPI can be uniform; after `MPI_Init`.
pub fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let possible = Internals::fitting().is_some() && openmpi::register_progress(progress);
        if !possible {
            say(
                "ringwatch: the inside of this Open MPI is not that of 5.0 as Debian has it: no communicator can have uniform errors",
            );
        }
        possible
    })
}

/// Whether this one can be: of two groups all have to belong to one mpirun.
///
/// # Safety
/// One that lives and has its groups.
pub unsafe fn can_be(comm: Object) -> bool {
    // SAFETY: as required of the caller.
    is_possible() && (!is_intercommunicator(comm) || unsafe { members::of(comm) }.is_some())
}

/// Whether a communicator has two groups.
pub fn is_intercommunicator(comm: Object) -> bool {
    Internals::get().is_some_and(|mpi| mpi.is_intercommunicator(comm))
}

/// Makes the operations of a communicator uniform, or those of none; it has its collectives.
pub fn make(comm: Object, uniformity: Uniformity) {
    if uniformity == Uniformity::Local && line_of(comm).is_none() || !is_possible() {
        return;
    }
    let Some(mpi) = Internals::get() else { return };
    let line = match line_of(comm) {
        Some(line) => line,
        None if !mpi.has_several_members(comm) => return,
        None => match Line::new(mpi, comm) {
            Some(line) => add(comm, line),
            None => return say("ringwatch: no memory for a uniform communicator; it stays as it was"),
        },
    };
    let stock = line.stock();
    // SAFETY: the communicator lives, and nobody calls its collectives while its info changes.
    let slots = unsafe { mpi.table(comm) };
    for (slot, function) in slots.iter_mut().zip(collectives::table(uniformity, line.has_two_groups(), &stock)) {
        slot.function = function;
    }
}

fn add(comm: Object, line: Line) -> Arc<Line> {
    let line = Arc::new(line);
    let mut lines = lock(&LINES);
    lines.by_communicator.insert(comm as usize, line.clone());
    lines.renew();
    line
}

/// When a communicator ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its program frees it.
    Freed,
    /// In `MPI_Finalize`, where nobody answers any more.
    Finalised,
    /// It could not be made, or MPI is over.
    Unmade,
}

/// A communicator is being freed.
pub fn forget(comm: Object, end: End) {
    let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return };
    // What does not block may be under way still. Nobody can wait for it after this.
    while end != End::Unmade && !line.is_idle() {
        line.advance(mpi);
        mpi.progress();
    }
    if end == End::Freed {
        line.take_leave(mpi);
    }
    // Until now it had to hear of deaths.
    let mut lines = lock(&LINES);
    lines.by_communicator.remove(&(comm as usize));
    lines.renew();
    drop(lines);
    line.close(mpi, end == End::Freed);
}

/// `MPI_Finalize` begins, in which all come together once more: as if all communicators were freed. Somebody may have freed what
/// others have not.
pub fn take_leave() {
    let Some(mpi) = Internals::get() else { return };
    let all: Vec<_> = lock(&LINES).by_communicator.values().cloned().collect();
    for line in all.iter() {
        line.take_leave(mpi);
        line.advance(mpi);
    }
}

/// A communicator has its collectives, and it is not decided yet whether it comes to be. Some members may have no collectives
/// there to agree on.
pub fn hold(comm: Object) {
    line_of(comm).iter().for_each(|line| line.hold());
}

/// It does if this is 0.
pub fn decided(comm: Object, code: c_int) {
    line_of(comm).iter().for_each(|line| line.end());
    if code != 0 {
        forget(comm, End::Unmade);
    }
}

/// A member of a communicator is dead.
pub fn member_died(comm: Object, rank: c_int, remote: bool) {
    {
        // Who frees the communicator takes the line out first, and what was noted of its shadow after that.
        let lines = lock(&LINES);
        let Some(line) = lines.by_communicator.get(&(comm as usize)) else { return };
        // Open MPI does not find the shadow.
        agreements::note(line.shadow(), line.rank_in_shadow(rank, remote), false);
        line.see_death();
        DAMAGED.store(true, Ordering::Relaxed);
    }
    agreements::tell_soon();
}

/// Whether there are uniform communicators.
#[inline(always)]
pub fn are_there() -> bool {
    LINED.load(Ordering::Relaxed)
}

/// Runs a call of an operation; returns what it returns, and whether it has come to a function of this module.
pub fn reaches<T>(call: impl FnOnce() -> T) -> (T, bool) {
    let before = IS_REACHED.replace(false);
    let result = call();
    (result, IS_REACHED.replace(before))
}

/// The function and the module of a slot if it is uniform.
pub fn function_of(comm: Object, slot: usize) -> Option<(Object, Object)> {
    let (mpi, line) = (Internals::get()?, line_of(comm)?);
    // SAFETY: a communicator with a line lives and has its collectives, in an Open MPI that fits.
    let entry = unsafe { &mpi.table(comm)[slot] };
    (entry.function != line.stock_function(slot)).then_some((entry.function, entry.module))
}

/// A blocking operation: `call` calls the stock function of a slot.
pub fn finish(comm: Object, slot: usize, call: impl FnOnce(Object) -> c_int) -> c_int {
    IS_REACHED.set(true);
    guarded(|| {
        let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return ERR_INTERN };
        let mut operation = Operation::cut(Told::Nobody);
        match line.begin(mpi) {
            Begin::Nested => return call(line.stock_function(slot)),
            Begin::Cut => {}
            Begin::Now => {
                let is_over = line.drain(mpi) && {
                    operation.code = call(line.stock_function(slot));
                    line.confirm(mpi, &mut operation)
                };
                // Before anything is agreed on it stands in the line.
                let place = (!is_over).then(|| append(&line, operation));
                line.end();
                return place.map_or(0, |place| hear(mpi, &line, &place));
            }
        }
        await_agreement(mpi, &line, operation)
    })
}

/// An operation that is made of several, on which the members agree as on one if the communicator is uniform.
pub fn agree_on(comm: Object, about: About, call: impl FnOnce() -> c_int) -> c_int {
    agree_unless_settled(comm, about, call, || false)
}

/// The same; not if `call` has had success and that `is_settled`: then all others have it, too.
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

/// One that other groups have a part in: the members agree on what `call` has returned, then tell the others by `then`, which gets
/// that and returns what these say, and if that is success on both sides agree on that, whoever dies meanwhile. Not if `call` has
/// had success and that `is_settled`: then the others have it, too.
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
    // Until the second part is there the operation goes on: no agreement about a death comes before it.
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
    hear(mpi, &line, &place)
}

fn await_agreement(mpi: &Internals, line: &Line, operation: Operation) -> c_int {
    hear(mpi, line, &append(line, operation))
}

/// The operation waits for its agreement, and a caller for where its code will stand.
fn append(line: &Line, mut operation: Operation) -> Arc<AtomicI32> {
    let place = Arc::new(AtomicI32::new(NO_CODE));
    operation.told = Told::Caller(place.clone());
    line.append(operation);
    place
}

fn hear(mpi: &Internals, line: &Line, place: &AtomicI32) -> c_int {
    loop {
        line.advance(mpi);
        match place.load(Ordering::Acquire) {
            NO_CODE => mpi.progress(),
            code => return code,
        }
    }
}

/// An operation that does not block: its errors are those of its request.
pub fn start(
    comm: Object,
    slot: usize,
    request: *mut *mut Request,
    call: impl FnOnce(Object, *mut *mut Request) -> c_int,
) -> c_int {
    IS_REACHED.set(true);
    guarded(|| {
        let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return ERR_INTERN };
        let begin = line.begin(mpi);
        match begin {
            Begin::Nested => call(line.stock_function(slot), request),
            // That all have come to it they agree on.
            _ if slot == NONBLOCKING + BARRIER => start_in(mpi, &line, &begin, request, |_| 0),
            _ => start_in(mpi, &line, &begin, request, |own| call(line.stock_function(slot), own)),
        }
    })
}

/// The same of an operation that is made of several, if the communicator is uniform: `call` begins it, with its request.
pub fn start_whole(comm: Object, request: *mut *mut Request, call: impl FnOnce(*mut *mut Request) -> c_int) -> c_int {
    let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return call(request) };
    guarded(|| match line.begin(mpi) {
        Begin::Nested => call(request),
        begin => start_in(mpi, &line, &begin, request, call),
    })
}

/// `call` begins an operation of the line, unless it cannot succeed.
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
    // SAFETY: MPI passes room for the request.
    unsafe { request.write(told) };
    line.append(operation);
    0
}

/// A persistent operation: each of its starts is one in the order of the communicator.
pub fn prepare(
    comm: Object,
    slot: usize,
    request: *mut *mut Request,
    call: impl FnOnce(Object, *mut *mut Request) -> c_int,
) -> c_int {
    IS_REACHED.set(true);
    guarded(|| {
        let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return ERR_INTERN };
        let mut own = std::ptr::null_mut();
        let code = call(line.stock_function(slot), &mut own);
        if code != 0 {
            return code;
        }
        let Some(told) = new_request(mpi, comm, true) else { return ERR_INTERN };
        lock(&PREPARED).insert(told as usize, Prepared { line, own: own as usize });
        // SAFETY: MPI passes room for the request.
        unsafe { request.write(told) };
        0
    })
}

unsafe extern "C" fn restart(count: usize, requests: *mut *mut Request) -> c_int {
    guarded(|| {
        for index in 0..count {
            // SAFETY: MPI passes that many requests, which are those of `prepare`.
            let told = unsafe { *requests.add(index) };
            let prepared = lock(&PREPARED).get(&(told as usize)).map(|known| (known.line.clone(), known.own));
            let (Some(mpi), Some((line, own))) = (Internals::get(), prepared) else { return ERR_INTERN };
            let mut own = own as *mut Request;
            // SAFETY: a persistent request that is not active.
            unsafe { mpi.requests.activate(told) };
            let mut operation = Operation::cut(Told::Request(told));
            operation.own_is_persistent = true;
            if matches!(line.begin(mpi), Begin::Now) {
                // SAFETY: the stock request, which is not active either; without a start it has nothing to do.
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
    guarded(|| {
        let Some(mpi) = Internals::get() else { return ERR_INTERN };
        // SAFETY: MPI frees a request of this module that has ended; nobody else knows its own one.
        unsafe {
            let request = *handle;
            if let Some(prepared) = lock(&PREPARED).remove(&(request as usize)) {
                Request::give_back(prepared.own as *mut Request);
            }
            mpi.requests.close(handle);
            // Not freed: Open MPI still looks at it when this returns.
            lock(&FREE).push(request as usize);
        }
        0
    })
}

fn new_request(mpi: &Internals, comm: Object, persistent: bool) -> Option<*mut Request> {
    let free = lock(&FREE).pop().map(|address| address as *mut Request);
    let request = free.unwrap_or_else(|| mpi.requests.request(&mpi.classes));
    if request.is_null() {
        return None;
    }
    // SAFETY: new, or given back.
    unsafe {
        mpi.requests.open(request, comm, persistent);
        (*request).free = Some(give_back);
        (*request).start = persistent.then_some(restart as Start);
    }
    Some(request)
}

unsafe extern "C-unwind" fn progress() -> c_int {
    let is_turn = || {
        let has_work = DAMAGED.load(Ordering::Relaxed) || line::is_anything_queued();
        has_work || TURNS.fetch_add(1, Ordering::Relaxed) % RARELY == 0
    };
    let is_needed = || LINED.load(Ordering::Relaxed) || detached::is_anything_left();
    if !is_needed() || !is_turn() {
        return 0;
    }
    let advance = || {
        let all = lock(&LINES).all.clone();
        let Some(mpi) = Internals::get() else { return };
        all.iter().flat_map(|all| all.iter()).for_each(|line| line.advance(mpi));
        if detached::is_anything_left() {
            detached::clear(mpi);
        }
    };
    let _ = catch_unwind(advance);
    0
}

/// Runs `body` so that no panic crosses into C.
fn guarded(body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(ERR_INTERN)
}

impl Lines {
    fn renew(&mut self) {
        LINED.store(!self.by_communicator.is_empty(), Ordering::Relaxed);
        self.all = (!self.by_communicator.is_empty()).then(|| self.by_communicator.values().cloned().collect());
    }
}

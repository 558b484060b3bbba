//! Uniform collective operations: they succeed at all living members of a communicator, or at none.
//!
//! After an operation has ended for a member, the members agree on how it has ended for all, in the order of the
//! operations, one agreement at a time. The first one in which somebody has seen a death ends the communicator: this
//! operation and all that follow fail at every member, without further agreement.
//!
//! Open MPI refuses operations without a trace at members that know of a death. So such a member, as soon as it has no
//! operation under way, agrees to the next one as failed, in the background: the others may be waiting in it.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rdma_heartbeat::logging::say;

use crate::collectives;
use crate::handles::MemberDied;
use crate::internals::{IALLREDUCE, Internals, Object, Request, SLOTS};
use crate::openmpi;
use crate::uniformity::Uniformity;
use crate::verdict::{ERR_INTERN, ERR_PROC_FAILED, Verdict, bits};

/// Stands where a blocked caller waits for a code of MPI.
const NO_CODE: c_int = c_int::MIN;

static LINES: Mutex<Lines> = Mutex::new(Lines { by_communicator: BTreeMap::new(), all: None });
/// Persistent requests of this module, and free requests.
static PREPARED: Mutex<BTreeMap<usize, Prepared>> = Mutex::new(BTreeMap::new());
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The uniform communicators of this rank, by the addresses of their handles.
struct Lines {
    by_communicator: BTreeMap<usize, Arc<Line>>,
    all: Option<Arc<[Arc<Line>]>>,
}

/// The operations of one communicator, in the order in which all members have them.
struct Line {
    comm: usize,
    /// See [`Internals::shadow`].
    shadow: usize,
    agreements: usize,
    stock: [usize; SLOTS],
    saw_death: AtomicBool,
    /// There is something to do in MPI's progress loop.
    busy: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A stock function is being called: what it calls in its turn is a part of it.
    inside: bool,
    /// Operations whose agreement is not finished; the first is the one that is agreed on.
    queue: VecDeque<Operation>,
    agreeing: Option<Agreement>,
    /// The class with which all further operations end.
    ended: Option<c_int>,
    numbers: Numbers,
}

/// Open MPI's turn to number a communicator that was to be made from this one.
#[derive(Default)]
enum Numbers {
    #[default]
    Free,
    Kept,
    /// See [`Internals::release_numbers`].
    Released(*mut Request),
}

struct Operation {
    /// What it returned by itself.
    code: c_int,
    /// Its own request, as long as that has not ended.
    own: Option<*mut Request>,
    own_is_persistent: bool,
    /// It may be a part of numbering a communicator.
    numbers: bool,
    told: Told,
}

/// Who gets the result.
enum Told {
    Nobody,
    Caller(Arc<AtomicI32>),
    Request(*mut Request),
}

struct Agreement {
    request: *mut Request,
    bits: Box<c_int>,
}

/// What a persistent request starts.
struct Prepared {
    line: Arc<Line>,
    own: usize,
}

// SAFETY: requests are used under the lock of their line only, by whichever thread drives progress.
unsafe impl Send for Operation {}
// SAFETY: as above.
unsafe impl Send for Agreement {}
// SAFETY: as above.
unsafe impl Send for Numbers {}

/// Locks, whatever happened to a thread that held it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn line_of(comm: Object) -> Option<Arc<Line>> {
    lock(&LINES).by_communicator.get(&(comm as usize)).cloned()
}

/// Whether communicators of this Open MPI can be uniform; after `MPI_Init`.
pub fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let possible = Internals::get().is_some_and(Internals::fits) && openmpi::register_progress(progress);
        if !possible {
            say(
                "ringwatch: the inside of this Open MPI is not that of 5.0 as Debian has it: no communicator can have uniform errors",
            );
        }
        possible
    })
}

/// Whether a communicator has two groups, among which nothing is uniform.
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
        None if !mpi.is_intracommunicator_of_several(comm) => return,
        None => match Line::new(mpi, comm) {
            Some(line) => line,
            None => return say("ringwatch: no memory for a uniform communicator; it stays as it was"),
        },
    };
    let stock = line.stock.map(|address| address as Object);
    // SAFETY: the communicator lives, and nobody calls its collectives while its info changes.
    let slots = unsafe { mpi.table(comm) };
    for (slot, function) in slots.iter_mut().zip(collectives::table(uniformity, &stock)) {
        slot.function = function;
    }
}

/// A communicator is being freed.
pub fn forget(comm: Object) {
    let mut lines = lock(&LINES);
    if let Some(line) = lines.by_communicator.remove(&(comm as usize)) {
        lines.renew();
        if lock(&line.state).agreeing.is_some() {
            // Open MPI will write the result of the last agreement.
            std::mem::forget(line);
        }
    }
}

/// A member of a communicator is dead; `next` is what Open MPI calls.
pub fn member_died(comm: Object, rank: c_int, remote: bool, next: Option<MemberDied>) {
    let Some(line) = line_of(comm) else { return };
    if let Some(next) = next {
        // SAFETY: what Open MPI does for each of its communicators, here for one that it does not find.
        unsafe { next(line.shadow as Object, rank, remote) };
    }
    line.saw_death.store(true, Ordering::Release);
}

/// A blocking operation: `call` calls the stock function of a slot.
pub fn finish(comm: Object, slot: usize, call: impl FnOnce(Object) -> c_int) -> c_int {
    guarded(|| {
        let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return ERR_INTERN };
        let mut operation = Operation::cut(Told::Nobody);
        match line.begin(mpi) {
            Begin::Nested => return call(line.stock(slot)),
            Begin::Cut => {}
            Begin::Now => {
                operation.code = call(line.stock(slot));
                line.end();
            }
        }
        let code = Arc::new(AtomicI32::new(NO_CODE));
        operation.told = Told::Caller(code.clone());
        line.append(operation);
        loop {
            line.advance(mpi);
            match code.load(Ordering::Acquire) {
                NO_CODE => mpi.progress(),
                code => return code,
            }
        }
    })
}

/// An operation that does not block: its errors are those of its request.
pub fn start(
    comm: Object,
    slot: usize,
    request: *mut *mut Request,
    call: impl FnOnce(Object, *mut *mut Request) -> c_int,
) -> c_int {
    guarded(|| {
        let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return ERR_INTERN };
        let begin = line.begin(mpi);
        if matches!(begin, Begin::Nested) {
            return call(line.stock(slot), request);
        }
        let Some(told) = new_request(mpi, comm, false) else { return ERR_INTERN };
        let mut operation = Operation::cut(Told::Request(told));
        operation.numbers = slot == IALLREDUCE;
        if matches!(begin, Begin::Now) {
            let mut own = std::ptr::null_mut();
            operation.code = call(line.stock(slot), &mut own);
            operation.own = (operation.code == 0).then_some(own);
            line.end();
        }
        // SAFETY: MPI passes room for the request.
        unsafe { request.write(told) };
        line.append(operation);
        0
    })
}

/// The class with which all further operations of a communicator end, if they do.
pub fn ended(comm: Object) -> Option<c_int> {
    line_of(comm).and_then(|line| lock(&line.state).ended)
}

/// A persistent operation: each of its starts is one in the order of the communicator.
pub fn prepare(
    comm: Object,
    slot: usize,
    request: *mut *mut Request,
    call: impl FnOnce(Object, *mut *mut Request) -> c_int,
) -> c_int {
    guarded(|| {
        let (Some(mpi), Some(line)) = (Internals::get(), line_of(comm)) else { return ERR_INTERN };
        let mut own = std::ptr::null_mut();
        let code = call(line.stock(slot), &mut own);
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
            unsafe { mpi.activate(told) };
            let mut operation = Operation::cut(Told::Request(told));
            operation.own_is_persistent = true;
            if matches!(line.begin(mpi), Begin::Now) {
                // SAFETY: the stock request, which is not active either.
                operation.code = unsafe { (*own).start.map_or(ERR_INTERN, |start| start(1, &mut own)) };
                operation.own = (operation.code == 0).then_some(own);
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
            mpi.close(handle);
            // Not freed: Open MPI still looks at it when this returns.
            lock(&FREE).push(request as usize);
        }
        0
    })
}

fn new_request(mpi: &Internals, comm: Object, persistent: bool) -> Option<*mut Request> {
    let free = lock(&FREE).pop().map(|address| address as *mut Request);
    let request = free.unwrap_or_else(|| mpi.request());
    if request.is_null() {
        return None;
    }
    // SAFETY: new, or given back.
    unsafe {
        mpi.open(request, comm, persistent);
        (*request).free = Some(give_back);
        (*request).start = persistent.then_some(restart as unsafe extern "C" fn(usize, *mut *mut Request) -> c_int);
    }
    Some(request)
}

unsafe extern "C" fn progress() -> c_int {
    let advance = || {
        let all = lock(&LINES).all.clone();
        let (Some(mpi), Some(all)) = (Internals::get(), all) else { return };
        for line in all.iter() {
            if line.busy.load(Ordering::Acquire) || line.is_cut(mpi) {
                line.advance(mpi);
            }
        }
    };
    let _ = catch_unwind(advance);
    0
}

/// Runs `body` so that no panic crosses into C.
fn guarded(body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(ERR_INTERN)
}

enum Begin {
    /// Part of an operation that has begun.
    Nested,
    /// It cannot succeed and is not begun.
    Cut,
    Now,
}

impl Lines {
    fn renew(&mut self) {
        self.all = (!self.by_communicator.is_empty()).then(|| self.by_communicator.values().cloned().collect());
    }
}

impl Line {
    fn new(mpi: &Internals, comm: Object) -> Option<Arc<Self>> {
        // SAFETY: the communicator lives and has its collectives.
        let (shadow, agreements, stock) = unsafe {
            let (shadow, agreements) = mpi.shadow(comm)?;
            let slots = mpi.table(comm);
            (shadow as usize, agreements as usize, std::array::from_fn(|slot| slots[slot].function as usize))
        };
        let saw_death = AtomicBool::new(mpi.has_dead_members(comm));
        let (busy, state) = (AtomicBool::new(false), Mutex::default());
        let line = Arc::new(Self { comm: comm as usize, shadow, agreements, stock, saw_death, busy, state });
        let mut lines = lock(&LINES);
        lines.by_communicator.insert(comm as usize, line.clone());
        lines.renew();
        Some(line)
    }

    fn stock(&self, slot: usize) -> *mut c_void {
        self.stock[slot] as Object
    }

    fn is_revoked(&self, mpi: &Internals) -> bool {
        // SAFETY: a communicator is forgotten when it is freed.
        unsafe { mpi.is_revoked(self.comm as Object) }
    }

    /// No further operation can succeed.
    fn is_cut(&self, mpi: &Internals) -> bool {
        self.saw_death.load(Ordering::Acquire) || self.is_revoked(mpi)
    }

    fn begin(&self, mpi: &Internals) -> Begin {
        let mut state = lock(&self.state);
        if state.inside {
            Begin::Nested
        } else if state.ended.is_some() || self.is_cut(mpi) {
            Begin::Cut
        } else {
            state.inside = true;
            Begin::Now
        }
    }

    fn end(&self) {
        lock(&self.state).inside = false;
    }

    fn append(&self, operation: Operation) {
        lock(&self.state).queue.push_back(operation);
        self.busy.store(true, Ordering::Release);
    }

    /// Does what can be done without waiting. Does nothing when another thread, or this one further up, does it.
    fn advance(&self, mpi: &Internals) {
        let Ok(mut state) = self.state.try_lock() else { return };
        while self.step(mpi, &mut state) {}
        let releases = self.release_numbers(mpi, &mut state);
        self.busy.store(releases || !state.queue.is_empty(), Ordering::Release);
    }

    /// Whether communicators wait for their numbers until it has done more.
    fn release_numbers(&self, mpi: &Internals, state: &mut State) -> bool {
        match state.numbers {
            Numbers::Free => return false,
            // SAFETY: the communicator lives; its operations have ended, so the try fails at once.
            Numbers::Kept => match unsafe { mpi.release_numbers(self.comm as Object) } {
                Some(request) => state.numbers = Numbers::Released(request),
                None => state.numbers = Numbers::Free,
            },
            // SAFETY: the request is given back here only.
            Numbers::Released(request) => unsafe {
                if Request::is_complete(request) {
                    Request::give_back(request);
                    state.numbers = Numbers::Free;
                }
            },
        }
        !matches!(state.numbers, Numbers::Free)
    }

    /// One step; false if there is none.
    fn step(&self, mpi: &Internals, state: &mut State) -> bool {
        if let Some(agreement) = &state.agreeing {
            // SAFETY: the request is given back only below.
            let verdict = unsafe {
                if !Request::is_complete(agreement.request) {
                    return false;
                }
                let status = Request::code(agreement.request);
                Request::give_back(agreement.request);
                Verdict::of(*agreement.bits, status)
            };
            state.agreeing = None;
            state.conclude(mpi, verdict);
            return true;
        }
        let Some(first) = state.queue.front_mut() else {
            let closes = !state.inside && state.ended.is_none() && self.is_cut(mpi);
            if closes {
                state.queue.push_back(Operation::cut(Told::Nobody));
            }
            return closes;
        };
        if !first.has_ended() {
            return false;
        }
        if let Some(class) = state.ended {
            state.conclude(mpi, Verdict::Ended(class));
            return true;
        }
        let mut bits = Box::new(bits(first.code, self.saw_death.load(Ordering::Acquire), self.is_revoked(mpi)));
        // SAFETY: the bits stay in their box until the request has completed, or for ever.
        match unsafe { mpi.agree(&mut *bits, self.shadow as Object, self.agreements as Object) } {
            Ok(request) => state.agreeing = Some(Agreement { request, bits }),
            Err(_) => state.conclude(mpi, Verdict::Ended(ERR_INTERN)),
        }
        true
    }
}

impl State {
    /// The first operation has ended for all.
    fn conclude(&mut self, mpi: &Internals, verdict: Verdict) {
        if let Verdict::Ended(class) = verdict {
            self.ended = Some(class);
        }
        let Some(first) = self.queue.pop_front() else { return };
        let code = verdict.code(first.code);
        if first.numbers && self.ended.is_some() && matches!(self.numbers, Numbers::Free) {
            self.numbers = Numbers::Kept;
        }
        match first.told {
            Told::Nobody => {}
            Told::Caller(place) => place.store(code, Ordering::Release),
            // SAFETY: an active request of this module.
            Told::Request(request) => unsafe { mpi.complete(request, code) },
        }
    }
}

impl Operation {
    /// One that is not begun, because it cannot succeed.
    fn cut(told: Told) -> Self {
        Self { code: ERR_PROC_FAILED, own: None, own_is_persistent: false, numbers: false, told }
    }

    /// Whether it has ended by itself.
    fn has_ended(&mut self) -> bool {
        let Some(own) = self.own else { return true };
        // SAFETY: the request is given back here only, unless it is persistent.
        unsafe {
            if !Request::is_complete(own) {
                return false;
            }
            self.code = Request::code(own);
            if !self.own_is_persistent {
                Request::give_back(own);
            }
        }
        self.own = None;
        true
    }
}

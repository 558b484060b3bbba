//! What Open MPI waits for in the runtime where it spawns and connects: on a fiber the runtime is asked without blocking,
//! and calls back in a thread that it always has.
//!
//! Structs are those of pmix_common.h of PMIx 5.

use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::fibers::{self, Fiber};
use crate::internals::Internals;
use crate::openmpi::behind;

/// `PMIX_OPERATION_SUCCEEDED`, `PMIX_ERR_PROC_TERM_WO_SYNC`, `PMIX_ERROR` and `PMIX_ERR_NOT_FOUND`.
const DONE_AT_ONCE: c_int = -157;
const TERM_WITHOUT_SYNC: c_int = -200;
const ERROR: c_int = -1;
const NOT_FOUND: c_int = -46;
/// `PMIX_MAX_NSLEN` and `PMIX_MAX_KEYLEN`, with the terminating zero.
const NAME: usize = 256;
const KEY: usize = 512;
/// Bytes of `pmix_proc_t`.
const PROCESS: usize = NAME + 4;

/// `pmix_value_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Value([usize; 4]);

/// `pmix_pdata_t`
#[repr(C)]
pub struct Data {
    process: [u8; PROCESS],
    key: [c_char; KEY],
    value: Value,
}

const _: () = assert!(std::mem::offset_of!(Data, value) == 776);

/// `pmix_info_t`
#[repr(C)]
struct Info {
    key: [u8; KEY],
    flags: u32,
    value: Value,
}

const _: () = assert!(size_of::<Info>() == 552);

impl Info {
    /// # Panics
    /// If the key is longer than those of the runtime.
    fn new(key: &CStr, kind: usize, data: usize) -> Self {
        let mut room = [0; KEY];
        room[..key.count_bytes()].copy_from_slice(key.to_bytes());
        Self { key: room, flags: 0, value: Value([kind, data, 0, 0]) }
    }
}

/// `PMIX_STRING`, `PMIX_PERSIST`, and its value `PMIX_PERSIST_FIRST_READ`.
const STRING: usize = 3;
const PERSISTENCE: usize = 30;
const UNTIL_READ: usize = 1;

/// The keys under which this process has published that nobody comes.
static REFUSED: Mutex<BTreeSet<CString>> = Mutex::new(BTreeSet::new());

fn refused() -> MutexGuard<'static, BTreeSet<CString>> {
    REFUSED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Publishes that nobody comes in place of those who are there, for the root of another group that may wait for this one's word: a list of
/// processes that lacks a number, with which Open MPI's code ends (`ompi_dpm_connect_accept` in dpm.c).
///
/// # Safety
/// At the root of a group, on its fiber.
pub unsafe fn refuse(inside: &Internals, fiber: &Fiber, key: CString) {
    let job = std::env::var("PMIX_NAMESPACE").unwrap_or_default();
    let Some(nobody) = CString::new(format!("{job}.*")).ok().filter(|_| key.count_bytes() < KEY) else { return };
    let infos =
        [Info::new(&key, STRING, nobody.as_ptr() as usize), Info::new(c"pmix.persist", PERSISTENCE, UNTIL_READ)];
    // SAFETY: what is published stays until the runtime has called back.
    fiber.ask(&Wait::ToTheEnd, |theirs| unsafe { (inside.publish)(infos.as_ptr().cast(), infos.len(), done, theirs) });
    refused().insert(key);
}

/// Takes that back, if nobody has read it, before this process publishes who comes.
///
/// # Safety
/// As of [`refuse`].
pub unsafe fn take_refusal_back(inside: &Internals, fiber: &Fiber, key: &CStr) {
    if refused().remove(key) {
        let keys = [key.as_ptr(), std::ptr::null()];
        // SAFETY: as above.
        fiber.ask(&Wait::ToTheEnd, |theirs| unsafe {
            (inside.unpublish)(keys.as_ptr(), std::ptr::null(), 0, done, theirs)
        });
    }
}

/// What the runtime has called back with.
struct Answer {
    ready: AtomicBool,
    content: UnsafeCell<Content>,
}

#[derive(Clone, Copy)]
struct Content {
    status: c_int,
    name: [c_char; NAME],
    value: Option<Value>,
}

// SAFETY: the runtime's thread writes once, before it is ready, and the fiber reads afterwards.
unsafe impl Sync for Answer {}
// SAFETY: as above.
unsafe impl Send for Answer {}

/// Which of the waits may be given up when the operation has become hopeless.
enum Wait {
    ToTheEnd,
    WhileThereIsHope,
}

impl Fiber {
    /// Asks the runtime, and pauses until it has answered.
    fn ask(&self, wait: &Wait, ask: impl FnOnce(*mut c_void) -> c_int) -> Content {
        let content = Content { status: 0, name: [0; NAME], value: None };
        let answer = Arc::new(Answer { ready: AtomicBool::new(false), content: UnsafeCell::new(content) });
        let theirs = Arc::into_raw(answer.clone());
        let status = ask(theirs.cast_mut().cast());
        if status != 0 {
            // SAFETY: the runtime does not call back in this case.
            drop(unsafe { Arc::from_raw(theirs) });
            return Content { status: if status == DONE_AT_ONCE { 0 } else { status }, ..content };
        }
        while !answer.ready.load(Ordering::Acquire) {
            if matches!(wait, Wait::WhileThereIsHope) && Internals::get().is_some_and(|inside| inside.is_hopeless(self))
            {
                return Content { status: ERROR, ..content };
            }
            self.pause();
        }
        // SAFETY: it is ready, and not written to any more.
        let content = unsafe { *answer.content.get() };
        self.met_the_dead.set(self.met_the_dead.get() || content.status == TERM_WITHOUT_SYNC);
        content
    }
}

/// # Safety
/// The argument that [`Fiber::ask`] has given the runtime, once.
unsafe fn answer(theirs: *mut c_void, fill: impl FnOnce(&mut Content)) {
    // SAFETY: as required of the caller; the fiber does not look before it is ready.
    unsafe {
        let answer = Arc::from_raw(theirs.cast::<Answer>());
        fill(&mut *answer.content.get());
        answer.ready.store(true, Ordering::Release);
    }
}

unsafe extern "C" fn done(status: c_int, theirs: *mut c_void) {
    // SAFETY: the runtime calls back once.
    unsafe { answer(theirs, |content| content.status = status) }
}

unsafe extern "C" fn spawned(status: c_int, name: *const c_char, theirs: *mut c_void) {
    // SAFETY: as above, with a terminated name.
    unsafe {
        answer(theirs, |content| {
            content.status = status;
            if !name.is_null() {
                libc::strncpy(content.name.as_mut_ptr(), name, NAME - 1);
            }
        })
    }
}

unsafe extern "C" fn found(status: c_int, data: *const Data, count: usize, theirs: *mut c_void) {
    // SAFETY: as above, with as many data, which are copied.
    unsafe {
        answer(theirs, |content| {
            content.status = status;
            if let (0, 1.., Some(inside)) = (status, count, Internals::get()) {
                let mut copy = Value([0; 4]);
                content.status = (inside.copy_value)(&mut copy, &raw const (*data).value);
                content.value = (content.status == 0).then_some(copy);
            }
        })
    }
}

/// The right to connect with processes: the runtime tells what it waits for by the list of them alone, and mixes up what
/// is about the same ones. Who has it in one process and who in another need not have the same operation in mind: each
/// waits for all of them, as often as all the others.
struct Turn(Vec<u8>);

/// The lists of those who have it.
static CONNECTING: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

fn connecting() -> MutexGuard<'static, Vec<Vec<u8>>> {
    CONNECTING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Turn {
    fn take(fiber: &Fiber, processes: Vec<u8>) -> Self {
        while connecting().contains(&processes) {
            fiber.pause();
        }
        connecting().push(processes.clone());
        Self(processes)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        connecting().retain(|processes| *processes != self.0);
    }
}

/// Functions of the runtime as Open MPI calls them: on a fiber the body, elsewhere the runtime's own.
macro_rules! functions {
    ($(
        #[doc = $text:literal]
        fn $name:ident = $symbol:literal($($argument:ident: $kind:ty),*) |$inside:ident, $fiber:ident| $body:block
    )*) => {$(
        #[doc = $text]
        ///
        /// # Safety
        /// Called by Open MPI in place of the runtime's function.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the name of the runtime's function")]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            static BEHIND: OnceLock<Option<unsafe extern "C" fn($($kind),*) -> c_int>> = OnceLock::new();
            // SAFETY: the type is that of pmix.h; passed on as it came. The fiber keeps all of it until there is an answer.
            unsafe {
                match fibers::current().and_then(|fiber| Some((fiber, Internals::get()?))) {
                    Some(($fiber, $inside)) => $body,
                    None => BEHIND.get_or_init(|| behind($symbol)).map_or(ERROR, |function| function($($argument),*)),
                }
            }
        }
    )*};
}

functions! {
    /// Starts processes.
    fn PMIx_Spawn = c"PMIx_Spawn"(
        info: *const c_void, info_count: usize, programs: *const c_void, count: usize, name: *mut c_char
    ) |inside, fiber| {
        let content = fiber.ask(&Wait::ToTheEnd, |theirs| {
            (inside.spawn)(info, info_count, programs, count, spawned, theirs)
        });
        libc::strncpy(name, content.name.as_ptr(), NAME - 1);
        content.status
    }

    /// Lets others find data.
    fn PMIx_Publish = c"PMIx_Publish"(info: *const c_void, count: usize) |inside, fiber| {
        fiber.ask(&Wait::ToTheEnd, |theirs| (inside.publish)(info, count, done, theirs)).status
    }

    /// Waits until data can be found. On a fiber Open MPI never asks for more than one.
    fn PMIx_Lookup = c"PMIx_Lookup"(
        data: *mut Data, _count: usize, info: *const c_void, info_count: usize
    ) |inside, fiber| {
        let keys = [(&raw const (*data).key).cast::<c_char>(), std::ptr::null()];
        let content = fiber.ask(&Wait::WhileThereIsHope, |theirs| {
            (inside.look_up)(keys.as_ptr(), info, info_count, found, theirs)
        });
        match content.value {
            Some(value) => (*data).value = value,
            None if content.status == 0 => return NOT_FOUND,
            None => {}
        }
        content.status
    }

    /// Waits until processes of several jobs have come.
    fn PMIx_Connect = c"PMIx_Connect"(
        processes: *const c_void, count: usize, info: *const c_void, info_count: usize
    ) |inside, fiber| {
        let bytes = std::slice::from_raw_parts(processes.cast::<u8>(), count * PROCESS).to_vec();
        let turn = Turn::take(fiber, bytes);
        let ask = |theirs| (inside.connect)(processes, count, info, info_count, done, theirs);
        let status = fiber.ask(&Wait::ToTheEnd, ask).status;
        drop(turn);
        status
    }
}

//! Replaces blocking PMIx functions on fibers, in which Open MPI waits for the runtime when it spawns and connects.
//! They become their `_nb` variants, whose callbacks run in PMIx's own thread.

use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use openmpi_internals::sync::lock;
use pmix_sys::{
    PMIX_ERR_NOT_FOUND, PMIX_ERR_PROC_TERM_WO_SYNC, PMIX_ERROR, PMIX_MAX_NSLEN, PMIX_OPERATION_SUCCEEDED, PMIX_PERSIST,
    PMIX_PERSIST_FIRST_READ, PMIX_STRING, PMIX_SUCCESS, pmix_info_t, pmix_key_t, pmix_nspace_t, pmix_pdata_t,
    pmix_proc_t, pmix_status_t, pmix_value__bindgen_ty_1 as pmix_value_data, pmix_value_t,
};

use crate::fibers::{self, Fiber};
use crate::internals::Internals;
use crate::openmpi::original_by_name;

/// An info with a key and a value of this type; `None` if the key is longer than those of PMIx.
fn info(key: &CStr, data_type: i32, data: pmix_value_data) -> Option<pmix_info_t> {
    let mut bytes: pmix_key_t = [0; size_of::<pmix_key_t>()];
    if key.count_bytes() >= bytes.len() {
        return None;
    }
    bytes.iter_mut().zip(key.to_bytes()).for_each(|(place, byte)| *place = c_char::from_ne_bytes([*byte]));
    Some(pmix_info_t { key: bytes, flags: 0, value: pmix_value_t { type_: data_type.try_into().ok()?, data } })
}

/// The keys under which this process has published a refusal.
static REFUSED: Mutex<BTreeSet<CString>> = Mutex::new(BTreeSet::new());

/// Publishes a refusal in place of the list of processes, for the other group's root, which may wait for that list. It
/// is a list whose process lacks a number, with which Open MPI's code ends (`ompi_dpm_connect_accept` in dpm.c).
///
/// # Safety
/// At the root of a group, on its fiber.
pub unsafe fn publish_refusal(internals: &Internals, fiber: &Fiber, key: CString) {
    let job = std::env::var("PMIX_NAMESPACE").unwrap_or_default();
    let Ok(no_processes) = CString::new(format!("{job}.*")) else { return };
    let text = pmix_value_data { string: no_processes.as_ptr().cast_mut() };
    let until_read = pmix_value_data { persist: PMIX_PERSIST_FIRST_READ as u8 };
    let (Some(text), Some(persistence)) =
        (info(&key, PMIX_STRING, text), info(c"pmix.persist", PMIX_PERSIST, until_read))
    else {
        return;
    };
    let infos = [text, persistence];
    // SAFETY: the published data stays valid until the runtime has called back.
    fiber
        .ask(&Wait::ToTheEnd, |answer| unsafe { (internals.publish_nb)(infos.as_ptr(), infos.len(), op_done, answer) });
    lock(&REFUSED).insert(key);
}

/// Withdraws an unread refusal before this process publishes its list of processes.
///
/// # Safety
/// As of [`publish_refusal`].
pub unsafe fn unpublish_refusal(internals: &Internals, fiber: &Fiber, key: &CStr) {
    let was_refused = lock(&REFUSED).remove(key);
    if was_refused {
        let keys = [key.as_ptr(), std::ptr::null()];
        // SAFETY: as above.
        fiber.ask(&Wait::ToTheEnd, |answer| unsafe {
            (internals.unpublish_nb)(keys.as_ptr(), std::ptr::null(), 0, op_done, answer)
        });
    }
}

/// The runtime's answer.
struct Answer {
    ready: AtomicBool,
    content: UnsafeCell<Content>,
}

#[derive(Clone, Copy)]
struct Content {
    status: pmix_status_t,
    nspace: pmix_nspace_t,
    value: Option<pmix_value_t>,
}

// SAFETY: the runtime's thread writes once, before it sets `ready`; the fiber reads afterwards.
unsafe impl Sync for Answer {}
// SAFETY: as above.
unsafe impl Send for Answer {}

impl Content {
    fn of_status(status: pmix_status_t) -> Self {
        Self { status, nspace: [0; size_of::<pmix_nspace_t>()], value: None }
    }
}

impl Answer {
    fn new() -> Arc<Self> {
        let content = UnsafeCell::new(Content::of_status(PMIX_SUCCESS));
        Arc::new(Self { ready: AtomicBool::new(false), content })
    }

    /// The argument for the runtime, which calls back with it once.
    fn for_runtime(self: &Arc<Self>) -> *mut c_void {
        Arc::into_raw(self.clone()).cast_mut().cast()
    }

    /// The content of the runtime's answer, once it has called back.
    fn content(&self) -> Option<Content> {
        // SAFETY: it is ready, and not written any more.
        self.ready.load(Ordering::Acquire).then(|| unsafe { *self.content.get() })
    }
}

/// Whether a wait ends when the operation cannot complete.
enum Wait {
    ToTheEnd,
    WhileItCanComplete,
}

/// The status of a call that ended at once; `None` if the runtime calls back.
fn ended_at_once(status: pmix_status_t) -> Option<pmix_status_t> {
    match status {
        PMIX_SUCCESS => None,
        PMIX_OPERATION_SUCCEEDED => Some(PMIX_SUCCESS),
        error => Some(error),
    }
}

impl Fiber {
    /// Calls a nonblocking function of the runtime, and pauses until it has called back.
    fn ask(&self, wait: &Wait, call: impl FnOnce(*mut c_void) -> pmix_status_t) -> Content {
        let answer = Answer::new();
        let for_runtime = answer.for_runtime();
        if let Some(status) = ended_at_once(call(for_runtime)) {
            // SAFETY: the runtime does not call back in this case.
            drop(unsafe { Arc::from_raw(for_runtime.cast::<Answer>()) });
            return Content::of_status(status);
        }
        let content = loop {
            if let Some(content) = answer.content() {
                break content;
            }
            if matches!(wait, Wait::WhileItCanComplete)
                && Internals::get().is_some_and(|internals| self.cannot_complete(internals))
            {
                return Content::of_status(PMIX_ERROR);
            }
            self.pause();
        };
        self.met_the_dead.set(self.met_the_dead.get() || content.status == PMIX_ERR_PROC_TERM_WO_SYNC);
        content
    }
}

/// # Safety
/// The argument of [`Answer::for_runtime`], used once.
unsafe fn fill(answer: *mut c_void, fill: impl FnOnce(&mut Content)) {
    // SAFETY: as required of the caller; the fiber does not read before it is ready.
    unsafe {
        let answer = Arc::from_raw(answer.cast::<Answer>());
        fill(&mut *answer.content.get());
        answer.ready.store(true, Ordering::Release);
    }
}

/// The callback of [`Internals::publish_nb`] and other functions without a result.
unsafe extern "C" fn op_done(status: pmix_status_t, answer: *mut c_void) {
    // SAFETY: the runtime calls back once.
    unsafe { fill(answer, |content| content.status = status) }
}

/// The callback of [`Internals::spawn_nb`].
unsafe extern "C" fn spawned(status: pmix_status_t, nspace: *const c_char, answer: *mut c_void) {
    // SAFETY: as above, with a terminated name.
    unsafe {
        fill(answer, |content| {
            content.status = status;
            if !nspace.is_null() {
                libc::strncpy(content.nspace.as_mut_ptr(), nspace, PMIX_MAX_NSLEN as usize);
            }
        })
    }
}

/// The callback of [`Internals::lookup_nb`].
unsafe extern "C" fn found(status: pmix_status_t, data: *const pmix_pdata_t, count: usize, answer: *mut c_void) {
    // SAFETY: as above, with that many data, which are copied. All zeros are a valid value.
    unsafe {
        fill(answer, |content| {
            content.status = status;
            if let (PMIX_SUCCESS, 1.., Some(internals)) = (status, count, Internals::get()) {
                let mut copy: pmix_value_t = std::mem::zeroed();
                content.status = (internals.value_xfer)(&mut copy, &raw const (*data).value);
                content.value = (content.status == PMIX_SUCCESS).then_some(copy);
            }
        })
    }
}

/// The right to connect with processes. The runtime identifies collective operations only by their list of processes,
/// and confuses two with the same list. Processes that hold the right at the same time may mean different operations:
/// each waits for all of them, as often as all others.
struct ConnectRight(Vec<u8>);

/// Lists of processes that are being connected.
static CONNECTING: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

impl ConnectRight {
    /// The right, unless another operation of this process holds it.
    fn try_take(processes: &[u8]) -> Option<Self> {
        let mut connecting = lock(&CONNECTING);
        if connecting.iter().any(|other| other == processes) {
            return None;
        }
        connecting.push(processes.to_vec());
        Some(Self(processes.to_vec()))
    }

    fn wait_for(fiber: &Fiber, processes: &[u8]) -> Self {
        loop {
            match Self::try_take(processes) {
                Some(right) => return right,
                None => fiber.pause(),
            }
        }
    }
}

impl Drop for ConnectRight {
    fn drop(&mut self) {
        lock(&CONNECTING).retain(|processes| *processes != self.0);
    }
}

/// Defines PMIx functions that Open MPI calls: on a fiber they run the body, elsewhere PMIx's own function.
macro_rules! functions {
    ($(
        #[doc = $text:literal]
        fn $name:ident = $symbol:literal($($argument:ident: $kind:ty),*) |$internals:ident, $fiber:ident| $body:block
    )*) => {$(
        #[doc = $text]
        ///
        /// # Safety
        /// Called by Open MPI in place of PMIx's function.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the name of PMIx's function")]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> pmix_status_t {
            static ORIGINAL: OnceLock<Option<unsafe extern "C" fn($($kind),*) -> pmix_status_t>> = OnceLock::new();
            // SAFETY: the type is that of pmix.h; original arguments. The fiber keeps them valid until the answer.
            unsafe {
                match fibers::current().and_then(|fiber| Some((fiber, Internals::get()?))) {
                    Some(($fiber, $internals)) => $body,
                    None => ORIGINAL
                        .get_or_init(|| original_by_name($symbol))
                        .map_or(PMIX_ERROR, |function| function($($argument),*)),
                }
            }
        }
    )*};
}

functions! {
    /// Starts processes.
    fn PMIx_Spawn = c"PMIx_Spawn"(
        info: *const pmix_info_t, info_count: usize, programs: *const c_void, count: usize, nspace: *mut c_char
    ) |internals, fiber| {
        let content = fiber.ask(&Wait::ToTheEnd, |answer| {
            (internals.spawn_nb)(info, info_count, programs, count, spawned, answer)
        });
        libc::strncpy(nspace, content.nspace.as_ptr(), PMIX_MAX_NSLEN as usize);
        content.status
    }

    /// Lets others find data.
    fn PMIx_Publish = c"PMIx_Publish"(info: *const pmix_info_t, count: usize) |internals, fiber| {
        fiber.ask(&Wait::ToTheEnd, |answer| (internals.publish_nb)(info, count, op_done, answer)).status
    }

    /// Waits until data is published. On a fiber Open MPI never asks for more than one item.
    fn PMIx_Lookup = c"PMIx_Lookup"(
        data: *mut pmix_pdata_t, _count: usize, info: *const pmix_info_t, info_count: usize
    ) |internals, fiber| {
        let keys = [(&raw const (*data).key).cast::<c_char>(), std::ptr::null()];
        let content = fiber.ask(&Wait::WhileItCanComplete, |answer| {
            (internals.lookup_nb)(keys.as_ptr(), info, info_count, found, answer)
        });
        match content.value {
            Some(value) => (*data).value = value,
            None if content.status == PMIX_SUCCESS => return PMIX_ERR_NOT_FOUND,
            None => {}
        }
        content.status
    }

    /// Waits until processes of several jobs have called.
    fn PMIx_Connect = c"PMIx_Connect"(
        processes: *const pmix_proc_t, count: usize, info: *const pmix_info_t, info_count: usize
    ) |internals, fiber| {
        let list = std::slice::from_raw_parts(processes.cast::<u8>(), count * size_of::<pmix_proc_t>()).to_vec();
        let right = ConnectRight::wait_for(fiber, &list);
        let call = |answer| (internals.connect_nb)(processes, count, info, info_count, op_done, answer);
        let status = fiber.ask(&Wait::ToTheEnd, call).status;
        drop(right);
        status
    }
}

#[cfg(test)]
mod tests {
    use pmix_sys::PMIX_MAX_KEYLEN;

    use super::*;

    /// The answer that the runtime gives in a thread of its own.
    fn answered(call_back: impl FnOnce(*mut c_void) + Send) -> Content {
        let answer = Answer::new();
        assert!(answer.content().is_none());
        let for_runtime = answer.for_runtime() as usize;
        std::thread::scope(|scope| scope.spawn(move || call_back(for_runtime as *mut c_void)).join())
            .expect("the runtime's thread ends");
        answer.content().expect("the runtime has called back")
    }

    fn text(bytes: &[c_char]) -> Vec<u8> {
        bytes.iter().map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect()
    }

    #[test]
    fn a_call_that_has_ended_at_once_is_not_waited_for() {
        assert_eq!(ended_at_once(PMIX_SUCCESS), None);
        assert_eq!(ended_at_once(PMIX_OPERATION_SUCCEEDED), Some(PMIX_SUCCESS));
        assert_eq!(ended_at_once(PMIX_ERR_NOT_FOUND), Some(PMIX_ERR_NOT_FOUND));
    }

    #[test]
    fn an_answer_is_there_once_the_runtime_has_called_back() {
        // SAFETY: each is called back once, with a terminated name.
        unsafe {
            let content = answered(|answer| op_done(PMIX_ERR_PROC_TERM_WO_SYNC, answer));
            assert_eq!(content.status, PMIX_ERR_PROC_TERM_WO_SYNC);
            let content = answered(|answer| spawned(PMIX_SUCCESS, c"job.2".as_ptr(), answer));
            assert_eq!((content.status, text(&content.nspace)), (PMIX_SUCCESS, b"job.2".to_vec()));
            let content = answered(|answer| spawned(PMIX_ERROR, std::ptr::null(), answer));
            assert_eq!((content.status, text(&content.nspace)), (PMIX_ERROR, Vec::new()));
        }
    }

    #[test]
    fn a_namespace_longer_than_those_of_pmix_is_cut_and_stays_terminated() {
        let long = CString::new(vec![b'n'; 1000]).expect("no null in it");
        // SAFETY: called back once, with a terminated name.
        let content = answered(|answer| unsafe { spawned(PMIX_SUCCESS, long.as_ptr(), answer) });
        assert_eq!(text(&content.nspace).len(), PMIX_MAX_NSLEN as usize);
    }

    #[test]
    fn a_key_longer_than_those_of_pmix_makes_no_info() {
        let key = |length| CString::new(vec![b'k'; length]).expect("no null in it");
        let data = pmix_value_data { size: 0 };
        let longest = info(&key(PMIX_MAX_KEYLEN as usize), PMIX_STRING, data).expect("it fits");
        assert_eq!((text(&longest.key).len(), i32::from(longest.value.type_)), (PMIX_MAX_KEYLEN as usize, PMIX_STRING));
        assert!(info(&key(PMIX_MAX_KEYLEN as usize + 1), PMIX_STRING, data).is_none());
    }

    #[test]
    fn operations_with_the_same_processes_connect_one_after_another() {
        let first = ConnectRight::try_take(b"a b").expect("nobody has it");
        assert!(ConnectRight::try_take(b"a b").is_none());
        let other = ConnectRight::try_take(b"a c");
        assert!(other.is_some());
        drop(first);
        assert!(ConnectRight::try_take(b"a b").is_some());
    }
}

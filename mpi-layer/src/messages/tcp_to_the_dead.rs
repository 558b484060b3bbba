//! Closes TCP connections to a dead process that have queued fragments, before Open MPI ends their requests.
//!
//! Open MPI 5.0 cancels a message to a process that it holds dead, and reuses its request while a fragment of it may
//! still be queued on a TCP connection. When that connection fails later, the fragment completes the request a second
//! time: the unrelated message that now uses it fails, or the job aborts ("Send error after request freed",
//! `pml_ob1_sendreq.h:286`). A stopped process accumulates such fragments, because its kernel accepts connections that
//! it never answers. So ringwatch closes each such connection when Open MPI marks a process as dead, as if it had just
//! broken: the fragments complete their requests while these are still their own, and further messages are refused. A
//! connection without queued fragments stays open and delivers what the process sent before its death.
//!
//! Open MPI treats a connection that the peer closes during the handshake as the loser of two simultaneous connection
//! attempts: its fragments stay queued for the other attempt (`mca_btl_tcp_endpoint_recv_connect_ack`). But the peer
//! may have left MPI, for example because a death interrupted it before the message came. After a death, ringwatch
//! makes Open MPI reconnect where fragments have waited so for a second. If the peer's process has gone, the attempt is
//! refused. Otherwise the peer closes it again or accepts it: the other attempt may be late because its first packets
//! were lost or the process did not run.
//!
//! When a connection breaks, Open MPI calls the completion callback of each queued descriptor (`btl_tcp_endpoint.c`,
//! mca_btl_tcp_endpoint_close). An answer to a one-sided operation has none (`btl_base_am_rdma.c`, am_rdma_response),
//! and the call crashes. ringwatch sets a callback that does nothing.
//!
//! ringwatch checks the class of every object before it uses it.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::failure::{deaths, wakeup};
use openmpi_internals::abi::EndpointClose;
use openmpi_internals::classes::Classes;
use openmpi_internals::functions::{
    MCA_BTL_TCP_ENDPOINT_CLOSE, MCA_BTL_TCP_ENDPOINT_SEND, OPAL_PROC_TABLE_GET_VALUE,
    OPAL_PROGRESS_EVENT_USERS_INCREMENT,
};
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::btl_descriptor::DES_CBFUNC;
use openmpi_internals::layout::list::{OPAL_LIST_LENGTH, OPAL_LIST_SENTINEL};
use openmpi_internals::layout::list_item::{OPAL_LIST_NEXT, OPAL_LIST_PREV};
use openmpi_internals::layout::opal_proc;
use openmpi_internals::layout::tcp_component::TCP_PROCS;
use openmpi_internals::layout::tcp_endpoint::{
    ENDPOINT_FRAGS, ENDPOINT_PROC, ENDPOINT_SD, ENDPOINT_SEND_FRAG, ENDPOINT_SEND_LOCK, ENDPOINT_STATE,
    MCA_BTL_TCP_CLOSED, MCA_BTL_TCP_CONNECTED, MCA_BTL_TCP_CONNECTING, MCA_BTL_TCP_FAILED,
};
use openmpi_internals::layout::tcp_proc::{PROC_ENDPOINT_COUNT, PROC_ENDPOINTS, PROC_OPAL};
use openmpi_internals::loaded::{Library, ProcessName};
use openmpi_internals::object::{Class, Object, take_out};
use openmpi_internals::proc;
use openmpi_internals::sync::lock;
use openmpi_internals::variables::{
    MCA_BTL_TCP_COMPONENT, MCA_BTL_TCP_ENDPOINT_T_CLASS, MCA_BTL_TCP_PROC_T_CLASS, OPAL_LIST_T_CLASS,
    OPAL_PROC_TABLE_T_CLASS,
};

/// After this time a simultaneous connection attempt of the peer has normally arrived.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Processes that closed a connection on which fragments are queued, and the time of the closing.
static CLOSED_BY_PEER: Mutex<Vec<(ProcessName, Instant)>> = Mutex::new(Vec::new());

/// Selects connections to a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selection {
    All,
    /// Not connected, or with queued fragments.
    Unfinished,
    /// Closed already, with a queued fragment that was partly sent.
    ClosedByPeer,
}

/// What ringwatch uses of Open MPI's TCP transport.
pub struct Connections {
    component: Object,
    classes: TcpClasses,
    find: unsafe extern "C" fn(Object, ProcessName, *mut Object) -> c_int,
    close: EndpointClose,
    send: unsafe extern "C" fn(Object, Object) -> c_int,
    event_users_increment: unsafe extern "C" fn(),
}

/// Addresses of class descriptors.
struct TcpClasses {
    table: *const Class,
    process: *const Class,
    endpoint: *const Class,
    list: *const Class,
}

// SAFETY: addresses of functions and of objects that live as long as the library.
unsafe impl Send for Connections {}
// SAFETY: as above.
unsafe impl Sync for Connections {}

impl Connections {
    /// The TCP transport of this process; `None` if Open MPI has none, or one that differs from 5.0's.
    pub fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Connections>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    fn find() -> Option<Self> {
        let library = Library::loaded()?;
        Some(Self {
            component: library.variable(MCA_BTL_TCP_COMPONENT)?,
            classes: TcpClasses {
                table: library.variable(OPAL_PROC_TABLE_T_CLASS)?,
                process: library.variable(MCA_BTL_TCP_PROC_T_CLASS)?,
                endpoint: library.variable(MCA_BTL_TCP_ENDPOINT_T_CLASS)?,
                list: library.variable(OPAL_LIST_T_CLASS)?,
            },
            find: library.function(OPAL_PROC_TABLE_GET_VALUE)?,
            close: library.function(MCA_BTL_TCP_ENDPOINT_CLOSE)?,
            send: library.function(MCA_BTL_TCP_ENDPOINT_SEND)?,
            event_users_increment: library.function(OPAL_PROGRESS_EVENT_USERS_INCREMENT)?,
        })
    }

    /// Interposes on the function that closes connections.
    pub fn install(at: &Installer) -> Result<(), Missing> {
        let own = Self::get().ok_or(MCA_BTL_TCP_ENDPOINT_CLOSE.missing())?;
        let library = Library::with(own.close as *mut c_void).ok_or(MCA_BTL_TCP_ENDPOINT_CLOSE.missing())?;
        // SAFETY: the type is that of the replaced function (btl_tcp_endpoint.h).
        unsafe { at.redirect_in(&library, MCA_BTL_TCP_ENDPOINT_CLOSE, close) }.map(drop)
    }

    /// Closes unfinished connections to a process that Open MPI has just marked as dead. Called inside an MPI function.
    pub fn close(&self, name: ProcessName) {
        self.end(name, Selection::Unfinished);
    }

    fn end(&self, name: ProcessName, which: Selection) {
        // SAFETY: `each` passes a process with one of its endpoints.
        self.each(name, |process, endpoint| unsafe { self.fail(process, endpoint, which) });
    }

    /// Calls `visit` with the TCP process object and each of its endpoints.
    fn each(&self, name: ProcessName, visit: impl Fn(Object, Object)) {
        // SAFETY: the table belongs to the component; an object of an unexpected class is not used.
        unsafe {
            let table = self.component.byte_add(TCP_PROCS);
            let mut process = std::ptr::null_mut();
            if Classes::of(table) != self.classes.table
                || (self.find)(table, name, &mut process) != 0
                || process.is_null()
                || Classes::of(process) != self.classes.process
            {
                return;
            }
            let endpoints = process.byte_add(PROC_ENDPOINTS).cast::<*const Object>().read();
            let count = process.byte_add(PROC_ENDPOINT_COUNT).cast::<usize>().read();
            for index in 0..count {
                visit(process, endpoints.add(index).read());
            }
        }
    }

    /// Closes a connection as Open MPI does when it breaks. Open MPI ignores the error report, because it knows of the
    /// death.
    ///
    /// # Safety
    /// A process, and one of its endpoints.
    unsafe fn fail(&self, process: Object, endpoint: Object, which: Selection) {
        // SAFETY: the offsets are valid if the endpoint's class, its process and its list's class match; the lock keeps
        // other threads from writing into a socket that is being closed.
        unsafe {
            let fits =
                self.is_endpoint(endpoint) && endpoint.byte_add(ENDPOINT_PROC).cast::<Object>().read() == process;
            let state = endpoint.byte_add(ENDPOINT_STATE).cast::<c_int>();
            // A failed connection is closed, or our caller is closing it and holds the lock.
            if !fits || state.read_volatile() == MCA_BTL_TCP_FAILED {
                return;
            }
            let lock = endpoint.byte_add(ENDPOINT_SEND_LOCK).cast::<libc::pthread_mutex_t>();
            libc::pthread_mutex_lock(lock);
            let before = state.read();
            let has_waiting = has_waiting(endpoint);
            let closes = match which {
                Selection::All => true,
                Selection::Unfinished => before != MCA_BTL_TCP_CONNECTED || has_waiting,
                Selection::ClosedByPeer => before == MCA_BTL_TCP_CLOSED && has_waiting,
            };
            let socket = endpoint.byte_add(ENDPOINT_SD).cast::<c_int>();
            // Open MPI's close does nothing without a socket, even with queued fragments: lend one.
            let lends = closes && before == MCA_BTL_TCP_CLOSED && has_waiting && socket.read() < 0;
            if lends {
                socket.write(libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC));
            }
            if closes {
                state.write(MCA_BTL_TCP_FAILED);
            }
            libc::pthread_mutex_unlock(lock);
            if before == MCA_BTL_TCP_CONNECTING || (lends && socket.read() >= 0) {
                // Closing undoes this increment, which only an endpoint in the connecting state has made.
                (self.event_users_increment)();
            }
            if closes {
                close(endpoint);
            }
        }
    }

    /// Makes Open MPI connect once more if the connection is closed and has queued fragments.
    ///
    /// # Safety
    /// A process, and one of its endpoints.
    unsafe fn try_again(&self, process: Object, endpoint: Object) {
        // SAFETY: as of `fail`. The connecting function queues the last fragment last again.
        unsafe {
            if !self.is_endpoint(endpoint) || endpoint.byte_add(ENDPOINT_PROC).cast::<Object>().read() != process {
                return;
            }
            let lock = endpoint.byte_add(ENDPOINT_SEND_LOCK).cast::<libc::pthread_mutex_t>();
            libc::pthread_mutex_lock(lock);
            let is_closed = endpoint.byte_add(ENDPOINT_STATE).cast::<c_int>().read() == MCA_BTL_TCP_CLOSED;
            let is_whole = endpoint.byte_add(ENDPOINT_SEND_FRAG).cast::<Object>().read().is_null();
            let last = if is_closed && is_whole { take_last(endpoint.byte_add(ENDPOINT_FRAGS)) } else { None };
            libc::pthread_mutex_unlock(lock);
            match last {
                Some(fragment) => _ = (self.send)(endpoint, fragment),
                None => self.fail(process, endpoint, Selection::ClosedByPeer),
            }
        }
    }

    /// The process name of a closed endpoint with queued fragments.
    ///
    /// # Safety
    /// An object.
    unsafe fn closed_with_queued(&self, endpoint: Object) -> Option<ProcessName> {
        // SAFETY: the offsets are those of an endpoint with a list, and of its process.
        unsafe {
            if !self.is_endpoint_in(MCA_BTL_TCP_CLOSED, endpoint) || !has_waiting(endpoint) {
                return None;
            }
            let process = endpoint.byte_add(ENDPOINT_PROC).cast::<Object>().read();
            let opal = (Classes::of(process) == self.classes.process).then(|| process.byte_add(PROC_OPAL))?;
            Some(opal.cast::<Object>().read().byte_add(opal_proc::PROC_NAME).cast::<ProcessName>().read())
        }
    }

    /// Whether this is an endpoint in this state.
    ///
    /// # Safety
    /// An object.
    unsafe fn is_endpoint_in(&self, state: c_int, endpoint: Object) -> bool {
        // SAFETY: the state is read only after the object is known to be an endpoint.
        unsafe {
            self.is_endpoint(endpoint) && endpoint.byte_add(ENDPOINT_STATE).cast::<c_int>().read_volatile() == state
        }
    }

    /// Whether this is an endpoint with an initialised list.
    ///
    /// # Safety
    /// An object.
    unsafe fn is_endpoint(&self, endpoint: Object) -> bool {
        // SAFETY: as required of the caller; the endpoint's class is checked before its list is.
        unsafe {
            Classes::of(endpoint) == self.classes.endpoint
                && Classes::of(endpoint.byte_add(ENDPOINT_FRAGS)) == self.classes.list
        }
    }
}

/// Closes all connections to a dead process. No more data of it is received.
pub fn cut(process: usize) {
    if let Some(connections) = Connections::get() {
        connections.end(proc::name_of(process), Selection::All);
    }
}

/// Closes a connection, after it has given a callback to each descriptor that lacks one.
unsafe extern "C" fn close(endpoint: Object) {
    let Some(own) = Connections::get() else { return };
    // SAFETY: Open MPI passes an endpoint and holds its lock; queue items and the current fragment are descriptors.
    unsafe {
        if own.is_endpoint_in(MCA_BTL_TCP_FAILED, endpoint) {
            let current = endpoint.byte_add(ENDPOINT_SEND_FRAG).cast::<Object>().read();
            if !current.is_null() {
                ensure_callback(current);
            }
            let end = endpoint.byte_add(ENDPOINT_FRAGS + OPAL_LIST_SENTINEL);
            let mut item = next(end);
            while item != end {
                ensure_callback(item);
                item = next(item);
            }
        }
        (own.close)(endpoint);
        if let Some(name) = own.closed_with_queued(endpoint) {
            lock(&CLOSED_BY_PEER).push((name, Instant::now()));
            wakeup::request_turns();
        }
    }
}

/// Makes Open MPI reconnect where fragments have waited on a connection that the peer closed. Called in a turn of the
/// progress loop; false if no further turn is needed.
pub fn retry_deserted() -> bool {
    if !deaths::are_known() {
        return false;
    }
    let mut closed = lock(&CLOSED_BY_PEER);
    if closed.is_empty() {
        return false;
    }
    let (now, mut due) = (Instant::now(), Vec::new());
    closed.retain(|(name, since)| {
        let is_due = now.duration_since(*since) >= RETRY_AFTER;
        due.extend(is_due.then_some(*name));
        !is_due
    });
    let are_left = !closed.is_empty();
    drop(closed);
    if let Some(own) = Connections::get() {
        // SAFETY: as above.
        due.into_iter()
            .for_each(|name| own.each(name, |process, endpoint| unsafe { own.try_again(process, endpoint) }));
    }
    are_left
}

/// Whether an endpoint has queued fragments.
///
/// # Safety
/// An endpoint with a list.
unsafe fn has_waiting(endpoint: Object) -> bool {
    // SAFETY: as required of the caller.
    unsafe {
        !endpoint.byte_add(ENDPOINT_SEND_FRAG).cast::<Object>().read().is_null()
            || endpoint.byte_add(ENDPOINT_FRAGS + OPAL_LIST_LENGTH).cast::<usize>().read() > 0
    }
}

/// Takes the last item from a list.
///
/// # Safety
/// A list whose lock the caller holds.
unsafe fn take_last(list: Object) -> Option<Object> {
    // SAFETY: as required of the caller; the sentinel of an empty list is its own neighbour.
    unsafe {
        let sentinel = list.byte_add(OPAL_LIST_SENTINEL);
        let last = sentinel.byte_add(OPAL_LIST_PREV).cast::<Object>().read();
        (last != sentinel && take_out(last, list)).then_some(last)
    }
}

/// The item after one.
///
/// # Safety
/// An item of a list, or its sentinel.
unsafe fn next(item: Object) -> Object {
    // SAFETY: as required of the caller.
    unsafe { item.byte_add(OPAL_LIST_NEXT).cast::<Object>().read() }
}

/// Sets a completion callback on a descriptor that has none.
///
/// # Safety
/// A descriptor.
unsafe fn ensure_callback(descriptor: Object) {
    // SAFETY: as required of the caller.
    unsafe {
        let callback = descriptor.byte_add(DES_CBFUNC).cast::<*const c_void>();
        if callback.read().is_null() {
            callback.write(ignore_completion as *const c_void);
        }
    }
}

/// `mca_btl_base_completion_fn_t`
unsafe extern "C" fn ignore_completion(_transport: Object, _endpoint: Object, _descriptor: Object, _status: c_int) {}

//! Connections to the dead on which something waits are closed before Open MPI gives it up.
//!
//! Open MPI 5.0 cancels a message to a process that it holds dead, and uses its request again, although a fragment of it
//! may still wait for a TCP connection. When that connection fails later, the fragment ends the request a second time,
//! whatever it stands for by then: a message to somebody else fails, or the job is aborted ("Send error after request
//! freed", `pml_ob1_sendreq.h:286`). A stopped process collects such fragments, because its kernel takes new connections
//! that it never answers. So in the moment in which Open MPI marks a process as dead each such connection is closed as if
//! it had broken then: its fragments end their requests while they are still theirs, and further messages are refused.
//!
//! A connection on which nothing waits is left to its end, with what the dead had sent before.
//!
//! One that the other end closes while it is being made is taken for the loser of two that are being made at once: what waits
//! for it goes on waiting, for the other one (`mca_btl_tcp_endpoint_recv_connect_ack`). But the other end may have left MPI, as
//! somebody does who was interrupted by a death before the message came. After a death, Open MPI is made to connect once more
//! where something has waited so for a second. That is refused if the process has gone; else it is closed again, or comes to
//! be: the other one may be late, because its first packets were lost, or its process did not run.
//!
//! However a connection breaks, an answer to a one-sided operation that waits on it has no function that is to hear of its
//! end (`btl_base_am_rdma.c`, am_rdma_response), which is called all the same (`btl_tcp_endpoint.c`,
//! mca_btl_tcp_endpoint_close). It gets one that does nothing.
//!
//! Offsets are those of btl_tcp_component.h, btl_tcp_proc.h, btl_tcp_endpoint.h, btl.h and opal_list.h on x86-64, and every object is asked
//! for its class first.

use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::agreements::somebody_died;
use crate::line::lock;
use crate::objects::{LIST_LENGTH, NEXT, Object, PREVIOUS, take_out};
use crate::openmpi::{Library, ProcessName};

/// Of `mca_btl_tcp_component_t`: the table of processes.
const PROCESSES: usize = 0x180;
/// Of `mca_btl_tcp_proc_t`: the process of Open MPI, with its name; its endpoints, and how many.
const OPAL_PROCESS: usize = 0x28;
const NAME: usize = 0x28;
const ENDPOINTS: usize = 0x40;
const ENDPOINT_COUNT: usize = 0x48;
/// Of `mca_btl_base_endpoint_t`.
const PROCESS: usize = 0x30;
const SOCKET: usize = 0x40;
const CURRENT_FRAGMENT: usize = 0x60;
const STATE: usize = 0x70;
const FRAGMENTS: usize = 0x78;
const SEND_LOCK: usize = 0xc8;
/// Of `opal_list_t`: what stands before its first item.
const SENTINEL: usize = 0x10;
/// Of `mca_btl_base_descriptor_t`.
const CALLBACK: usize = 0x48;
/// Values of an endpoint's state.
const CONNECTING: c_int = 0;
const CLOSED: c_int = 2;
const FAILED: c_int = 3;
const CONNECTED: c_int = 4;

const CLOSE: &CStr = c"mca_btl_tcp_endpoint_close";

type Close = unsafe extern "C" fn(Object);

/// A connection that the other end has made itself has come by then, mostly.
const DESERTED: Duration = Duration::from_secs(1);

/// Processes for whose connections something waits that they have closed, and since when.
static DESERTERS: Mutex<Vec<(ProcessName, Instant)>> = Mutex::new(Vec::new());

/// Which connections to a process are closed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// That are not there yet, or on which something waits.
    Unfinished,
    /// That are closed already, and on which something waits that was partly sent.
    Deserted,
}

/// What ringwatch uses of Open MPI's TCP transport.
pub struct Connections {
    component: Object,
    classes: Classes,
    find: unsafe extern "C" fn(Object, ProcessName, *mut Object) -> c_int,
    close: Close,
    send: unsafe extern "C" fn(Object, Object) -> c_int,
    event_users_increment: unsafe extern "C" fn(),
}

/// Addresses of classes.
struct Classes {
    table: Object,
    process: Object,
    endpoint: Object,
    list: Object,
}

// SAFETY: addresses of functions and of objects that live as long as the library.
unsafe impl Send for Connections {}
// SAFETY: as above.
unsafe impl Sync for Connections {}

impl Connections {
    /// Those of the Open MPI in this process; `None` if it has no TCP transport, or another one than 5.0's.
    pub fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Connections>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    fn find() -> Option<Self> {
        let library = Library::loaded()?;
        // SAFETY: the types are those of the headers named above, of opal_hash_table.h and of opal_progress.h.
        unsafe {
            Some(Self {
                component: library.symbol(c"mca_btl_tcp_component")?,
                classes: Classes {
                    table: library.symbol(c"opal_proc_table_t_class")?,
                    process: library.symbol(c"mca_btl_tcp_proc_t_class")?,
                    endpoint: library.symbol(c"mca_btl_tcp_endpoint_t_class")?,
                    list: library.symbol(c"opal_list_t_class")?,
                },
                find: library.function(c"opal_proc_table_get_value")?,
                close: library.function(CLOSE)?,
                send: library.function(c"mca_btl_tcp_endpoint_send")?,
                event_users_increment: library.function(c"opal_progress_event_users_increment")?,
            })
        }
    }

    /// Stands where connections are closed.
    pub fn watch() {
        let Some(own) = Self::get() else { return };
        let Some(library) = Library::with(own.close as *mut c_void) else { return };
        // SAFETY: of the type of the function whose place it takes (btl_tcp_endpoint.h).
        unsafe { library.redirect(CLOSE, close as *const c_void) };
    }

    /// Closes connections to a process that Open MPI has just marked as dead, in a function of MPI.
    pub fn close(&self, name: ProcessName) {
        self.end(name, Which::Unfinished);
    }

    /// Closes all connections to a process that is dead: nothing comes from it any more.
    pub fn cut(&self, name: ProcessName) {
        self.end(name, Which::All);
    }

    fn end(&self, name: ProcessName, which: Which) {
        // SAFETY: what is passed is a process with its endpoint.
        self.each(name, |process, endpoint| unsafe { self.fail(process, endpoint, which) });
    }

    /// Looks at the connections to a process, each with the process.
    fn each(&self, name: ProcessName, look: impl Fn(Object, Object)) {
        // SAFETY: the table belongs to the component; what is not of the expected class is not looked at.
        unsafe {
            let table = self.component.byte_add(PROCESSES);
            let mut process = std::ptr::null_mut();
            if class(table) != self.classes.table
                || (self.find)(table, name, &mut process) != 0
                || process.is_null()
                || class(process) != self.classes.process
            {
                return;
            }
            let endpoints = process.byte_add(ENDPOINTS).cast::<*const Object>().read();
            let count = process.byte_add(ENDPOINT_COUNT).cast::<usize>().read();
            for index in 0..count {
                look(process, endpoints.add(index).read());
            }
        }
    }

    /// Does what Open MPI does itself when a connection breaks; the error that it reports upwards is no news by now.
    ///
    /// # Safety
    /// A process, and one of its endpoints.
    unsafe fn fail(&self, process: Object, endpoint: Object, which: Which) {
        // SAFETY: the offsets are those of an endpoint if its class, its process and the class of its list are right; the
        // lock keeps other threads from writing into a socket that is being closed.
        unsafe {
            let fits = self.is_endpoint(endpoint) && endpoint.byte_add(PROCESS).cast::<Object>().read() == process;
            let state = endpoint.byte_add(STATE).cast::<c_int>();
            // One that has failed is closed, or is being closed by our caller, who holds the lock.
            if !fits || state.read_volatile() == FAILED {
                return;
            }
            let lock = endpoint.byte_add(SEND_LOCK).cast::<libc::pthread_mutex_t>();
            libc::pthread_mutex_lock(lock);
            let before = state.read();
            let has_waiting = has_waiting(endpoint);
            let closes = match which {
                Which::All => true,
                Which::Unfinished => before != CONNECTED || has_waiting,
                Which::Deserted => before == CLOSED && has_waiting,
            };
            let socket = endpoint.byte_add(SOCKET).cast::<c_int>();
            // Without a socket closing does nothing, whatever waits.
            let lends = closes && before == CLOSED && has_waiting && socket.read() < 0;
            if lends {
                socket.write(libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC));
            }
            if closes {
                state.write(FAILED);
            }
            libc::pthread_mutex_unlock(lock);
            if before == CONNECTING || (lends && socket.read() >= 0) {
                // Closing takes back what only an endpoint that waits for an answer has done.
                (self.event_users_increment)();
            }
            if closes {
                close(endpoint);
            }
        }
    }

    /// Has Open MPI connect once more if this is closed and something waits on it.
    ///
    /// # Safety
    /// A process, and one of its endpoints.
    unsafe fn try_again(&self, process: Object, endpoint: Object) {
        // SAFETY: as of `fail`. What waits last is queued last again, by the function that connects.
        unsafe {
            if !self.is_endpoint(endpoint) || endpoint.byte_add(PROCESS).cast::<Object>().read() != process {
                return;
            }
            let lock = endpoint.byte_add(SEND_LOCK).cast::<libc::pthread_mutex_t>();
            libc::pthread_mutex_lock(lock);
            let is_closed = endpoint.byte_add(STATE).cast::<c_int>().read() == CLOSED;
            let is_whole = endpoint.byte_add(CURRENT_FRAGMENT).cast::<Object>().read().is_null();
            let last = if is_closed && is_whole { take_last(endpoint.byte_add(FRAGMENTS)) } else { None };
            libc::pthread_mutex_unlock(lock);
            match last {
                Some(fragment) => _ = (self.send)(endpoint, fragment),
                None => self.fail(process, endpoint, Which::Deserted),
            }
        }
    }

    /// If this is an endpoint that is closed, and something waits for it: the name of its process.
    ///
    /// # Safety
    /// An object.
    unsafe fn deserter(&self, endpoint: Object) -> Option<ProcessName> {
        // SAFETY: the offsets are those of an endpoint, with a list, and of its process.
        unsafe {
            if !self.is_endpoint_in(CLOSED, endpoint) || !has_waiting(endpoint) {
                return None;
            }
            let process = endpoint.byte_add(PROCESS).cast::<Object>().read();
            let opal = (class(process) == self.classes.process).then(|| process.byte_add(OPAL_PROCESS))?;
            Some(opal.cast::<Object>().read().byte_add(NAME).cast::<ProcessName>().read())
        }
    }

    /// Whether this is an endpoint in this state.
    ///
    /// # Safety
    /// An object.
    unsafe fn is_endpoint_in(&self, state: c_int, endpoint: Object) -> bool {
        // SAFETY: the state is that of an endpoint, once it was found to be one.
        unsafe { self.is_endpoint(endpoint) && endpoint.byte_add(STATE).cast::<c_int>().read_volatile() == state }
    }

    /// Whether this is an endpoint, with a list.
    ///
    /// # Safety
    /// An object.
    unsafe fn is_endpoint(&self, endpoint: Object) -> bool {
        // SAFETY: as required of the caller; what comes first is asked first.
        unsafe { class(endpoint) == self.classes.endpoint && class(endpoint.byte_add(FRAGMENTS)) == self.classes.list }
    }
}

/// Closes a connection. What has nobody to hear of its end has nobody to be told.
unsafe extern "C" fn close(endpoint: Object) {
    let Some(own) = Connections::get() else { return };
    // SAFETY: Open MPI passes an endpoint and holds its lock; items of its list, and what it is sending, are descriptors.
    unsafe {
        if own.is_endpoint_in(FAILED, endpoint) {
            let current = endpoint.byte_add(CURRENT_FRAGMENT).cast::<Object>().read();
            if !current.is_null() {
                be_heard(current);
            }
            let end = endpoint.byte_add(FRAGMENTS + SENTINEL);
            let mut item = next(end);
            while item != end {
                be_heard(item);
                item = next(item);
            }
        }
        (own.close)(endpoint);
        if let Some(name) = own.deserter(endpoint) {
            lock(&DESERTERS).push((name, Instant::now()));
            crate::watch_progress();
        }
    }
}

/// A turn of the progress loop; false if no further one is needed.
pub fn look() -> bool {
    if !somebody_died() {
        return false;
    }
    let mut deserters = lock(&DESERTERS);
    if deserters.is_empty() {
        return false;
    }
    let (now, mut due) = (Instant::now(), Vec::new());
    deserters.retain(|(name, since)| {
        let is_due = now.duration_since(*since) >= DESERTED;
        due.extend(is_due.then_some(*name));
        !is_due
    });
    let are_left = !deserters.is_empty();
    drop(deserters);
    if let Some(own) = Connections::get() {
        // SAFETY: as above.
        due.into_iter()
            .for_each(|name| own.each(name, |process, endpoint| unsafe { own.try_again(process, endpoint) }));
    }
    are_left
}

/// Whether something waits on an endpoint.
///
/// # Safety
/// An endpoint with a list.
unsafe fn has_waiting(endpoint: Object) -> bool {
    // SAFETY: as required of the caller.
    unsafe {
        !endpoint.byte_add(CURRENT_FRAGMENT).cast::<Object>().read().is_null()
            || endpoint.byte_add(FRAGMENTS + LIST_LENGTH).cast::<usize>().read() > 0
    }
}

/// Takes the last item from a list.
///
/// # Safety
/// A list whose lock the caller has.
unsafe fn take_last(list: Object) -> Option<Object> {
    // SAFETY: as required of the caller; the sentinel of an empty list is its own neighbour.
    unsafe {
        let sentinel = list.byte_add(SENTINEL);
        let last = sentinel.byte_add(PREVIOUS).cast::<Object>().read();
        (last != sentinel && take_out(last, list)).then_some(last)
    }
}

/// The item after one.
///
/// # Safety
/// An item of a list, or its sentinel.
unsafe fn next(item: Object) -> Object {
    // SAFETY: as required of the caller.
    unsafe { item.byte_add(NEXT).cast::<Object>().read() }
}

/// Gives a descriptor that has none a function that hears of its end.
///
/// # Safety
/// A descriptor.
unsafe fn be_heard(descriptor: Object) {
    // SAFETY: as required of the caller.
    unsafe {
        let callback = descriptor.byte_add(CALLBACK).cast::<*const c_void>();
        if callback.read().is_null() {
            callback.write(hear_nothing as *const c_void);
        }
    }
}

/// `mca_btl_base_completion_fn_t`
unsafe extern "C" fn hear_nothing(_transport: Object, _endpoint: Object, _descriptor: Object, _status: c_int) {}

/// Address of an object's class.
///
/// # Safety
/// The address of at least one word.
unsafe fn class(object: Object) -> *mut c_void {
    // SAFETY: as required of the caller: objects begin with the address of their class.
    unsafe { object.cast::<*mut c_void>().read() }
}

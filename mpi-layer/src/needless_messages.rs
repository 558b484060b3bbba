//! Suppresses messages that are meaningless in a rank that ringwatch serves.
//!
//! | message | cause | remedy |
//! |---|---|---|
//! | libevent: "Epoll ADD(4) on fd N failed ... Bad file descriptor" | A send that finds its connection broken closes the socket, and is queued on it nevertheless (`mca_btl_tcp_endpoint_send`, btl_tcp_endpoint.c). Open MPI's report of the death ends it. | libopen-pal does not pass a closed descriptor to libevent, which could only refuse it |
//! | a box: "The selected 'osc' module ... is not tested for post-failure operation" | Open MPI's list of tested components is empty (osc_base_init.c, io_base_file_select.c, topo_base_comm_select.c), so it names any chosen component. | it is not shown; docs/limits.md has the known limits |

use std::ffi::{CStr, c_char, c_int, c_short, c_void};
use std::sync::OnceLock;

use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::loaded::Library;
use openmpi_internals::symbol::Function;
use openmpi_internals::variables::{MCA_BTL_TCP_COMPONENT, OPAL_SHOW_HELP, OPAL_SHOW_VHELP};

/// `EV_READ` and `EV_WRITE` (event.h)
const OF_DESCRIPTORS: c_short = 0x02 | 0x04;

type Event = *mut c_void;
type Add = unsafe extern "C" fn(Event, *const c_void) -> c_int;

/// The functions of libevent that are used.
struct Events {
    add: Add,
    descriptor: unsafe extern "C" fn(Event) -> c_int,
    kinds: unsafe extern "C" fn(Event) -> c_short,
}

// SAFETY: the type of event.h.
const EVENT_ADD: Function<Add> = unsafe { Function::new(c"event_add") };

static EVENTS: OnceLock<Events> = OnceLock::new();

/// Suppresses them from now on.
pub fn install(at: &Installer) -> Result<(), Missing> {
    // SAFETY: the types of event.h, and of the two variables of opal/util/show_help.h.
    unsafe {
        let events = Events {
            add: at.function(EVENT_ADD)?,
            descriptor: at.standard(c"event_get_fd")?,
            kinds: at.standard(c"event_get_events")?,
        };
        let transports = Library::with(at.variable(MCA_BTL_TCP_COMPONENT)?).ok_or(MCA_BTL_TCP_COMPONENT.missing())?;
        let (help, list) = (at.variable(OPAL_SHOW_HELP)?, at.variable(OPAL_SHOW_VHELP)?);
        let _ = EVENTS.set(events);
        at.redirect_in(&transports, EVENT_ADD, add)?;
        c_shims::ompi::rw_ompi_look_at_help(help, list);
    }
    Ok(())
}

/// Replaces `event_add`.
///
/// # Safety
/// Arguments of Open MPI.
unsafe extern "C" fn add(event: Event, time: *const c_void) -> c_int {
    let Some(events) = EVENTS.get() else { return -1 };
    // SAFETY: libevent's own functions, with an event that Open MPI has made.
    unsafe {
        let is_closed = || libc::fcntl((events.descriptor)(event), libc::F_GETFD) < 0;
        if (events.kinds)(event) & OF_DESCRIPTORS != 0 && is_closed() { -1 } else { (events.add)(event, time) }
    }
}

/// Whether a help message is meaningful.
pub fn has_to_say(file: &CStr, topic: &CStr) -> bool {
    (file, topic) != (c"help-mpi-ft.txt", c"module:untested:failundef")
}

/// Whether a help message is shown.
///
/// # Safety
/// Terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rw_rank_has_to_say(file: *const c_char, topic: *const c_char) -> bool {
    // SAFETY: as required of the caller.
    file.is_null() || topic.is_null() || unsafe { has_to_say(CStr::from_ptr(file), CStr::from_ptr(topic)) }
}

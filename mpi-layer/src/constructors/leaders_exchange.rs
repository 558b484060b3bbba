//! What the two leaders of an `MPI_Intercomm_create` send each other on the bridge: results, and what the other leader
//! waits for in place of a call that is not begun or not finished.

use std::ffi::{c_int, c_void};

use crate::messages::bridge_tags::{self, CONTEXT_ID_TAG};
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::{ERR_PROC_FAILED, ERR_REVOKED};
use openmpi_internals::interpose::{Installer, Missing};
use openmpi_internals::layout::coll_tag::MCA_COLL_BASE_TAG_FT_BASE;
use openmpi_internals::layout::pml::{PML_IPROBE, PML_IRECV, PML_ISEND};
use openmpi_internals::layout::send_mode::MCA_PML_BASE_SEND_SYNCHRONOUS;
use openmpi_internals::object::Object;
use openmpi_internals::pml::Messages;
use openmpi_internals::request::Request;
use openmpi_internals::variables::{MCA_PML, OMPI_MPI_BYTE, OMPI_MPI_INT};

type Iprobe = unsafe extern "C" fn(c_int, c_int, Object, *mut c_int, *mut c_void) -> c_int;

/// Open MPI's own messages.
pub struct Wire {
    messages: Messages,
    /// `MPI_INT`
    pub integer: Object,
    /// `MPI_BYTE`
    pub byte: Object,
}

/// The exchange of results between two leaders.
pub struct Exchange {
    /// The bridge.
    pub bridge: usize,
    other: c_int,
    tag: c_int,
    /// The other leader's result, and the request that receives it.
    word: usize,
    request: usize,
}

impl Wire {
    /// Finds them in the loaded library.
    ///
    /// # Errors
    /// What this Open MPI lacks.
    pub fn find(at: &Installer) -> Result<Self, Missing> {
        Ok(Self {
            messages: Messages::find(at.library()).ok_or(MCA_PML.missing())?,
            integer: at.predefined(OMPI_MPI_INT)?,
            byte: at.predefined(OMPI_MPI_BYTE)?,
        })
    }

    /// # Safety
    /// A buffer of `count` elements that lives until the request has ended, and a live communicator.
    unsafe fn receive(
        &self,
        buffer: *mut c_void,
        count: usize,
        datatype: Object,
        source: c_int,
        tag: c_int,
        comm: Object,
    ) -> Option<*mut Request> {
        let mut request = std::ptr::null_mut();
        // SAFETY: as required of the caller; the type is that of pml.h.
        let code = unsafe {
            let receive = self.messages.function::<bridge_tags::Receive>(PML_IRECV);
            receive(buffer, count, datatype, source, tag, comm, &mut request)
        };
        (code == 0).then_some(request)
    }

    /// # Safety
    /// `count` elements that live until the request has ended, and a live communicator.
    unsafe fn send(
        &self,
        buffer: *const c_void,
        count: usize,
        datatype: Object,
        dest: c_int,
        tag: c_int,
        comm: Object,
    ) -> Option<*mut Request> {
        let mut request = std::ptr::null_mut();
        // SAFETY: as above.
        let code = unsafe {
            let send = self.messages.function::<bridge_tags::Send>(PML_ISEND);
            send(buffer, count, datatype, dest, tag, MCA_PML_BASE_SEND_SYNCHRONOUS, comm, &mut request)
        };
        (code == 0).then_some(request)
    }
}

impl Exchange {
    /// Begins to receive the other leader's result.
    pub fn begin(wire: &Wire, bridge: Object, other: c_int, tag: c_int) -> Option<Self> {
        let word = Box::into_raw(Box::new(0));
        // SAFETY: the buffer lives until the request has ended.
        let request = unsafe { wire.receive(word.cast(), 1, wire.integer, other, MCA_COLL_BASE_TAG_FT_BASE, bridge)? };
        Some(Self { bridge: bridge as usize, other, tag, word: word as usize, request: request as usize })
    }

    /// The other leader's error, if it has sent one.
    pub fn given_up(&self) -> Option<c_int> {
        let request = self.request as *const Request;
        // SAFETY: the request and its buffer live as long as this object.
        unsafe {
            if !Request::is_complete(request) {
                return None;
            }
            match (Request::code(request), (self.word as *const c_int).read_volatile()) {
                (0, 0) => None,
                (0, ERR_REVOKED) => Some(ERR_REVOKED),
                _ => Some(ERR_PROC_FAILED),
            }
        }
    }

    fn bridge(&self) -> Object {
        self.bridge as Object
    }

    /// Whether this process knows that the other leader is dead.
    pub fn is_other_dead(&self, mpi: &Internals) -> bool {
        mpi.dead_members(self.bridge()).contains(&self.other)
    }

    /// Whether the other leader can send nothing more.
    fn is_over(&self, mpi: &Internals) -> bool {
        // SAFETY: a live communicator, in an Open MPI of the known layout.
        unsafe { mpi.is_revoked(self.bridge()) || (mpi.has_no_collectives(self.bridge()) && self.is_other_dead(mpi)) }
    }

    /// Waits for a message to or from the other leader; false if it cannot complete. Its buffer must stay then.
    ///
    /// # Safety
    /// The request of a message, which the caller does not use afterwards.
    unsafe fn wait(&self, mpi: &Internals, request: Option<*mut Request>) -> bool {
        let Some(request) = request else { return false };
        // SAFETY: as required of the caller.
        unsafe {
            while !Request::is_complete(request) {
                if self.is_over(mpi) {
                    Request::cancel(request);
                    return false;
                }
                mpi.progress();
            }
            let is_good = Request::code(request) == 0;
            Request::give_back(request);
            is_good
        }
    }

    /// Cancels the exchange of a call that was not begun.
    pub fn withdraw(&self) {
        let request = self.request as *mut Request;
        // SAFETY: the request is live and not used again. Its buffer is leaked.
        unsafe {
            Request::cancel(request);
            if Request::is_complete(request) {
                Request::give_back(request);
            }
        }
    }

    /// Ends this leader's call with this class, and returns the class for both leaders. `tells`: the other one has this
    /// one's list.
    pub fn end(&self, wire: &Wire, mpi: &Internals, code: c_int, tells: bool) -> c_int {
        if self.is_over(mpi) {
            self.withdraw();
            return code;
        }
        if code != 0 && !tells {
            self.give_nothing(wire, mpi);
        }
        let said = Box::into_raw(Box::new(code));
        // SAFETY: the buffer stays allocated unless the message has arrived; each request is used once.
        let end = unsafe {
            let sent = wire.send(said.cast(), 1, wire.integer, self.other, MCA_COLL_BASE_TAG_FT_BASE, self.bridge());
            let request = self.request as *mut Request;
            while !Request::is_complete(request) && !self.is_over(mpi) {
                mpi.progress();
            }
            let end = if code == 0 { self.given_up().unwrap_or(0) } else { code };
            if self.wait(mpi, Some(request)) {
                drop(Box::from_raw(self.word as *mut c_int));
            }
            if self.wait(mpi, sent) {
                drop(Box::from_raw(said));
            }
            end
        };
        if end != 0 {
            self.take_what_is_left(wire, mpi);
        }
        end
    }

    /// Exchanges a number, the size of the group or the length of its list. `None` if the other leader is lost.
    fn exchange(&self, wire: &Wire, mpi: &Internals, own: c_int) -> Option<c_int> {
        let numbers = Box::into_raw(Box::new([own, 0]));
        // SAFETY: the buffers stay allocated unless both messages have ended; each request is used once.
        unsafe {
            let [own, others] = [numbers.cast::<c_int>(), numbers.cast::<c_int>().add(1)];
            let received = wire.receive(others.cast(), 1, wire.integer, self.other, self.tag, self.bridge());
            let sent = wire.send(own.cast(), 1, wire.integer, self.other, self.tag, self.bridge());
            (self.wait(mpi, sent) & self.wait(mpi, received)).then(|| Box::from_raw(numbers)[1])
        }
    }

    /// Exchanges the size of the group in place of a call that was not begun here: the other leader has begun it.
    pub fn tell_size(&self, wire: &Wire, mpi: &Internals) {
        let _ = self.exchange(wire, mpi, 1);
    }

    /// Exchanges an empty list for the other leader's list: it waits for the length and the list.
    fn give_nothing(&self, wire: &Wire, mpi: &Internals) {
        let Some(length) = self.exchange(wire, mpi, 0).and_then(|length| usize::try_from(length).ok()) else { return };
        // SAFETY: as above.
        unsafe {
            let list = Box::leak(vec![0_u8; length].into_boxed_slice()).as_mut_ptr();
            let received = wire.receive(list.cast(), length, wire.byte, self.other, self.tag, self.bridge());
            let sent = wire.send(list.cast(), 0, wire.byte, self.other, self.tag, self.bridge());
            if self.wait(mpi, sent) & self.wait(mpi, received) {
                drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, length)));
            }
        }
    }

    /// Receives the other leader's remaining messages about the context id, which the next call would take for its own.
    /// They arrived before its result.
    fn take_what_is_left(&self, wire: &Wire, mpi: &Internals) {
        loop {
            let (mut is_there, number) = (0, Box::into_raw(Box::new(0 as c_int)));
            // SAFETY: as above; the status is not used.
            unsafe {
                let probe = wire.messages.function::<Iprobe>(PML_IPROBE);
                let code = probe(self.other, CONTEXT_ID_TAG, self.bridge(), &mut is_there, std::ptr::null_mut());
                if code != 0 || is_there == 0 {
                    return drop(Box::from_raw(number));
                }
                let received = wire.receive(number.cast(), 1, wire.integer, self.other, CONTEXT_ID_TAG, self.bridge());
                if !self.wait(mpi, received) {
                    return;
                }
                drop(Box::from_raw(number));
            }
        }
    }
}

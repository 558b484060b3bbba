//! Messages between processes: over a communicator of all processes of the job that is never revoked, whoever is dead is
//! left out; and over [`Links`] to and from processes that were spawned later.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use openmpi_internals::layout::mpi::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_UNDEFINED};
use openmpi_internals::object::Object;
use openmpi_internals::request::{Request, Status};
use openmpi_internals::sync::lock;

use crate::links::Links;
use crate::packet::Packet;
use crate::stock::Stock;

/// The tag of all messages.
const TAG: c_int = 1;

/// Whether somebody has died since the last turn. Probes of any source do not tell (`MPI_Improbe` of Open MPI 5.0.7).
static SOMEBODY_DIED: AtomicBool = AtomicBool::new(false);

/// A process of the job is dead.
pub fn note_death() {
    SOMEBODY_DIED.store(true, Ordering::Release);
}

/// The dead, by their numbers among all ranks of all jobs of this mpirun.
static NUMBERS_OF_THE_DEAD: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The process with this number is dead, also where it is in no communicator of this process.
pub fn note_death_of(number: u32) {
    lock(&NUMBERS_OF_THE_DEAD).push(number);
    note_death();
}

/// A message that is being sent.
struct Sending {
    request: *mut Request,
    _packet: Packet,
}

/// A message that is being received, and whether that has ended: with success or without.
struct Receiving {
    request: *mut Request,
    /// Empty until then, with room for so many bytes.
    bytes: Vec<u8>,
    count: usize,
    ended: Option<bool>,
}

impl Receiving {
    /// The message, if it has come as a whole.
    fn whole(mut self) -> Option<Vec<u8>> {
        if self.ended != Some(true) {
            return None;
        }
        // SAFETY: there is room for them, and MPI has written them all.
        unsafe { self.bytes.set_len(self.count) };
        Some(self.bytes)
    }
}

/// The messages of this process.
pub struct Carrier {
    stock: &'static Stock,
    comm: Object,
    group: Object,
    byte: Object,
    sending: VecDeque<Sending>,
    /// By sender, in the order of sending.
    receiving: BTreeMap<u32, VecDeque<Receiving>>,
    /// How many processes are in the communicator, by their ranks there.
    joined: u32,
    links: Option<Links>,
}

// SAFETY: handles of MPI, which is initialised for the threads that the program has.
unsafe impl Send for Carrier {}

impl Carrier {
    /// Over `comm`, which is nobody else's and whose errors return; `byte` is `MPI_BYTE`.
    ///
    /// # Errors
    /// The error class of MPI.
    pub(crate) fn new(stock: &'static Stock, comm: Object, byte: Object) -> Result<Self, c_int> {
        let mut group = std::ptr::null_mut();
        // SAFETY: a communicator.
        match unsafe { (stock.comm_group)(comm, &mut group) } {
            0 => Ok(Self {
                stock,
                comm,
                group,
                byte,
                sending: VecDeque::new(),
                receiving: BTreeMap::new(),
                joined: u32::MAX,
                links: None,
            }),
            code => Err(code),
        }
    }

    /// The processes from this one on are reached over links.
    #[must_use]
    pub fn with_links(self, joined: u32, links: Links) -> Self {
        Self { joined, links: Some(links), ..self }
    }

    /// The links, if there are any.
    pub fn links(&mut self) -> Option<&mut Links> {
        self.links.as_mut()
    }

    /// Sends to a process. One that is dead does not get it.
    pub fn send(&mut self, process: u32, packet: Packet) {
        if process >= self.joined {
            self.links.iter_mut().for_each(|links| links.send(process, packet.clone()));
            return;
        }
        let Ok(count) = c_int::try_from(packet.len()) else { return };
        let mut request = std::ptr::null_mut();
        // SAFETY: the bytes stay where they are until the request has ended.
        let code = unsafe {
            (self.stock.isend)(packet.as_ptr().cast(), count, self.byte, process as c_int, TAG, self.comm, &mut request)
        };
        if code == 0 && self.test(&mut request).is_none() {
            self.sending.push_back(Sending { request, _packet: packet });
        }
    }

    /// Whether everything that was sent has left.
    pub fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.links.as_ref().is_none_or(Links::are_idle)
    }

    /// How a request has ended; `None` if it has not.
    fn test(&self, request: &mut *mut Request) -> Option<bool> {
        let mut has_ended = 0;
        // SAFETY: an active request.
        let code = unsafe { (self.stock.test)(request, &mut has_ended, std::ptr::null_mut()) };
        (code != 0 || has_ended != 0).then_some(code == 0)
    }

    /// One turn, in which at most one more message is taken. Returns the messages that are there, with their senders,
    /// and whether somebody has died.
    pub fn turn(&mut self) -> (Vec<(u32, Vec<u8>)>, bool) {
        // A test is a look at the whole network: the first that has not left is the last in this turn.
        while let Some(mut sending) = self.sending.pop_front() {
            if self.test(&mut sending.request).is_none() {
                self.sending.push_back(sending);
                break;
            }
        }
        // One at a time: a look that finds nothing may give the processor away, and the program may have what it waits
        // for.
        let is_refused = self.take().is_err();
        let somebody_died = SOMEBODY_DIED.load(Ordering::Relaxed) && SOMEBODY_DIED.swap(false, Ordering::AcqRel);
        let mut there = self.received();
        let mut is_cut = false;
        if let Some(links) = &mut self.links {
            if somebody_died {
                links.note_dead(&lock(&NUMBERS_OF_THE_DEAD));
            }
            is_cut = links.turn(&mut there);
        }
        (there, is_refused || somebody_died || is_cut)
    }

    /// Begins to receive a message, if one has arrived.
    ///
    /// # Errors
    /// The error class of MPI: somebody has died.
    fn take(&mut self) -> Result<(), c_int> {
        let (mut found, mut message, mut status) = (0, std::ptr::null_mut(), Status::of(0, 0, 0));
        // SAFETY: room for the answers.
        let code =
            unsafe { (self.stock.improbe)(MPI_ANY_SOURCE, TAG, self.comm, &mut found, &mut message, &mut status) };
        if code != 0 {
            return Err(code);
        }
        if found == 0 {
            return Ok(());
        }
        let mut bytes = Vec::<u8>::with_capacity(status.count);
        let mut request = std::ptr::null_mut();
        // SAFETY: the bytes stay where they are until the request has ended.
        let code = unsafe {
            let room = bytes.as_mut_ptr().cast();
            (self.stock.imrecv)(room, status.count as c_int, self.byte, &mut message, &mut request)
        };
        let ended = if code == 0 { self.test(&mut request) } else { Some(false) };
        self.receiving.entry(status.source as u32).or_default().push_back(Receiving {
            request,
            bytes,
            count: status.count,
            ended,
        });
        Ok(())
    }

    /// The messages that are there, of each sender in the order of sending.
    fn received(&mut self) -> Vec<(u32, Vec<u8>)> {
        let mut there = Vec::new();
        let mut all = std::mem::take(&mut self.receiving);
        for (process, queue) in &mut all {
            while let Some(first) = queue.front_mut() {
                if first.ended.is_none() {
                    first.ended = self.test(&mut first.request);
                }
                match first.ended {
                    None => break,
                    Some(_) => {
                        let bytes = queue.pop_front().and_then(Receiving::whole);
                        there.extend(bytes.map(|bytes| (*process, bytes)));
                    }
                }
            }
        }
        all.retain(|_, queue| !queue.is_empty());
        self.receiving = all;
        there
    }

    /// The processes that are dead. Receives from any process go on after that.
    pub fn dead(&mut self) -> Vec<u32> {
        let (mut failed, mut size, mut known) = (std::ptr::null_mut(), 0, 0);
        // SAFETY: room for the answers; the group is freed.
        unsafe {
            if (self.stock.comm_get_failed)(self.comm, &mut failed) != 0 {
                return Vec::new();
            }
            (self.stock.group_size)(failed, &mut size);
            let members: Vec<c_int> = (0..size).collect();
            let mut ranks = vec![MPI_UNDEFINED; members.len()];
            (self.stock.group_translate_ranks)(failed, size, members.as_ptr(), self.group, ranks.as_mut_ptr());
            (self.stock.group_free)(&mut failed);
            (self.stock.comm_ack_failed)(self.comm, size, &mut known);
            let joined = ranks.into_iter().filter_map(|rank| u32::try_from(rank).ok());
            joined.chain(self.links.iter().flat_map(Links::dead)).collect()
        }
    }
}

const _: () = assert!(MPI_ANY_TAG != TAG);

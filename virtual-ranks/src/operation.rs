//! A collective operation of a communicator, from its start to its end: steps that are left, and what it keeps for
//! them.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

use event_log::protocol::units::{Channel, Pattern, Request};
use openmpi_internals::object::Object;

use crate::comms::Comm;
use crate::data::{Buffer, Data, Held};
use crate::schedule::{Member, Step, Steps};

/// Where an operation is: its communicator, and the tag of its messages.
#[derive(Clone)]
pub struct Place {
    /// The communicator.
    pub comm: Arc<Comm>,
    tag: c_int,
}

impl Place {
    /// The next collective operation of a communicator.
    pub fn next(comm: &Arc<Comm>) -> Self {
        Self { comm: comm.clone(), tag: comm.next_operation() }
    }

    /// An operation of some members, who name it by a tag of theirs.
    pub fn of_some(comm: &Arc<Comm>, tag: c_int) -> Self {
        // Tags of collective operations are not negative.
        Self { comm: comm.clone(), tag: -1 - (tag & c_int::MAX) }
    }

    /// This process among the members.
    pub fn member(&self) -> Member {
        Member { size: self.comm.size(), rank: self.comm.rank }
    }

    /// The channel of its messages.
    pub fn channel(&self) -> Channel {
        Channel { communicator: self.comm.number + 1, tag: self.tag }
    }

    /// What comes from a member.
    pub fn pattern(&self, from: usize) -> Pattern {
        let Channel { communicator, tag } = self.channel();
        Pattern { communicator, source: Some(self.comm.members[from]), tag: Some(tag) }
    }
}

/// What is done when all steps are.
pub type Finish = Box<dyn FnOnce() -> Result<(), c_int>>;

/// How an operation has ended, as soon as it has.
pub type Ending = Arc<OnceLock<Result<(), c_int>>>;

/// An operation.
pub struct Operation {
    /// Where it is.
    pub place: Place,
    /// Steps that are left.
    pub steps: VecDeque<Step<Buffer>>,
    /// What combines data.
    pub op: Object,
    /// What is done at the end.
    pub finish: Option<Finish>,
    memories: Vec<Vec<u8>>,
    held: Vec<Arc<Held>>,
}

// SAFETY: handles of MPI, and buffers that the program leaves to the operation until its end.
unsafe impl Send for Operation {}

impl Operation {
    /// One without steps.
    pub fn new(place: &Place) -> Self {
        Self {
            place: place.clone(),
            steps: VecDeque::new(),
            op: std::ptr::null_mut(),
            finish: None,
            memories: Vec::new(),
            held: Vec::new(),
        }
    }

    /// One that moves data.
    pub fn of(place: &Place, steps: Steps<Buffer>) -> Self {
        Self { steps: steps.into(), ..Self::new(place) }
    }

    /// Memory for `count` items, which lives as long as the operation.
    pub fn memory(&mut self, data: &Data, count: c_int, datatype: Object) -> Buffer {
        let (_, length, low) = data.span(datatype, usize::try_from(count).unwrap_or(0));
        let mut bytes = vec![0_u8; length];
        let address = bytes.as_mut_ptr().wrapping_byte_offset(-low).cast::<c_void>();
        self.memories.push(bytes);
        Buffer { address, count, datatype }
    }

    /// Its buffers.
    pub fn buffers(&self) -> impl Iterator<Item = Buffer> {
        self.steps.iter().flat_map(|step| match step {
            Step::Send { data, .. } => [*data, *data],
            Step::Receive { into, .. } => [*into, *into],
            Step::Copy { data, into } => [*data, *into],
            Step::Combine { lower, higher } => [*lower, *higher],
        })
    }

    /// Keeps its datatypes and what combines them, which the program may free before the end.
    pub fn hold(&mut self, data: &mut Data) {
        let mut datatypes: Vec<Object> = self.buffers().map(|buffer| buffer.datatype).collect();
        datatypes.sort_unstable();
        datatypes.dedup();
        self.held.extend(datatypes.into_iter().filter_map(|datatype| data.hold(datatype)));
        if !self.op.is_null() {
            self.held.push(Held::new(self.op));
        }
    }

    /// What it keeps of the program's.
    pub fn held(&self) -> Vec<Arc<Held>> {
        self.held.clone()
    }
}

/// An operation that waits for a message.
struct Waiting {
    receive: Request,
    operation: Operation,
    ending: Ending,
}

/// Operations under way of which the program waits for none, in the order in which they have begun to wait.
#[derive(Default)]
pub struct Operations {
    waiting: Vec<Waiting>,
}

impl Operations {
    /// Whether one is under way.
    pub fn is_any(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The receives for which they wait.
    pub fn receives(&self) -> Vec<Request> {
        self.waiting.iter().map(|waiting| waiting.receive).collect()
    }

    /// One waits for a message.
    pub fn add(&mut self, receive: Request, operation: Operation, ending: Ending) {
        self.waiting.push(Waiting { receive, operation, ending });
    }

    /// Takes the one out that waits for a message.
    pub fn take(&mut self, receive: Request) -> Option<(Operation, Ending)> {
        let place = self.waiting.iter().position(|waiting| waiting.receive == receive)?;
        let Waiting { operation, ending, .. } = self.waiting.remove(place);
        Some((operation, ending))
    }
}

//! One process: the machine of its replica ([`replication`]), and what is done for it.
//!
//! | module | idea |
//! |---|---|
//! | `calls` | a call of the program, from its start to its outcome |
//! | `actions` | what the machine asks for is done |
//! | `arrivals` | what other processes say, and who is dead |
//! | `ending` | what ends a replica or the job |

mod actions;
mod arrivals;
mod calls;
mod ending;

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::sync::Arc;

use event_log::protocol::units::Request;
use openmpi_internals::object::Object;
use replication::action::Action;
use replication::call::Outcome;
use replication::machine::{Bound, Config, Machine, OnMismatch};
use replication::method::Method;
use replication::replicas::Replica;
use virtual_ranks::carrier::Carrier;
use virtual_ranks::data::{Buffer, Data, Held};
use virtual_ranks::stock::Stock;

use crate::flips::Flips;
use crate::output::Output;
use crate::places::Places;
use crate::printing::Printing;
use crate::sealed::Sealed;
use crate::tell::Tell;

/// A receive, from its start until the program knows of its message.
struct Open {
    buffer: Buffer,
    _datatype: Option<Arc<Held>>,
}

/// A bit that is to be flipped in what is sent of one message to one replica.
struct OnWire {
    to: u32,
    number: u64,
    bit: u64,
    call: u64,
}

/// What an engine is set up with.
pub struct Setting {
    /// Which process is which replica.
    pub places: Places,
    /// This one.
    pub me: Replica,
    /// How messages are compared.
    pub method: Method,
    /// What happens where no majority settles a difference.
    pub on_mismatch: OnMismatch,
    /// How much may wait for verification.
    pub bound: Bound,
    /// Where the job's tools learn of replicas.
    pub tell: Tell,
    /// The bits that this replica flips.
    pub flips: Flips,
    /// Open MPI's functions.
    pub stock: &'static Stock,
    /// A communicator of all processes.
    pub everywhere: Object,
    /// Messages between processes.
    pub carrier: Carrier,
    /// The program's buffers.
    pub data: Data,
    /// Standard output.
    pub output: Output,
}

/// The engine of one process.
pub struct Engine {
    /// Copies data.
    pub data: Data,
    places: Places,
    me: Replica,
    tell: Tell,
    flips: Flips,
    stock: &'static Stock,
    everywhere: Object,
    carrier: Carrier,
    machine: Machine<Sealed>,
    queue: VecDeque<Action<Sealed>>,
    open: HashMap<Request, Open>,
    returned: Option<Outcome<Sealed>>,
    /// The number of the last message to each rank.
    numbers: Vec<u64>,
    on_wire: Option<OnWire>,
    /// Sends since the last turn.
    sends: u32,
    output: Output,
    printing: Printing,
    /// By process.
    alive: Vec<bool>,
    done: Vec<bool>,
    /// An operation cannot go on: all replicas of a rank are dead.
    failure: Option<c_int>,
}

// SAFETY: handles of MPI, which is initialised for the threads that the program has.
unsafe impl Send for Engine {}

impl Engine {
    /// That of this process.
    pub fn new(setting: Setting) -> Self {
        let Setting { places, me, method, on_mismatch, bound, tell, flips, stock, everywhere, carrier, data, output } =
            setting;
        let degrees = places.degrees().clone();
        let (ranks, living) = (degrees.ranks() as usize, degrees.of(me.rank));
        let processes = degrees.all().count();
        let config = Config { on_mismatch, bound, ..Config::new(me, degrees, method) };
        Self {
            data,
            places,
            me,
            tell,
            flips,
            stock,
            everywhere,
            carrier,
            machine: Machine::new(config),
            queue: VecDeque::new(),
            open: HashMap::new(),
            returned: None,
            numbers: vec![0; ranks],
            on_wire: None,
            sends: 0,
            output,
            printing: Printing::new(me.index, living),
            alive: vec![true; processes],
            done: vec![false; processes],
            failure: None,
        }
    }
}

//! One process: the machine of its rank ([`event_log::protocol`]), and what is done for it.
//!
//! | the machine asks for | it gets |
//! |---|---|
//! | a message to a rank | an envelope and the data, to the process that is the rank; nothing where that is dead |
//! | a receive, a probe | [`Matching`] of what has arrived |
//! | an event logger | the [`logger`](crate::logger) |
//! | a repair | a new epoch: what was sent in an earlier one is not read, what is sent in a later one waits |
//!
//! | module | idea |
//! |---|---|
//! | `calls` | a call of the program, from its start to its outcome |
//! | `actions` | what the machine asks for is done |
//! | `arrivals` | what other processes and the event logger say |
//! | `checkpoints` | the machine is saved, and starts from what was saved |
//! | `partner` | checkpoints in the memory of another rank |
//! | `replacement` | a spare takes the place of a dead rank |
//! | `vacancies` | a process is spawned where no spare is left |
//! | `ending` | where protection ends, and where the job does |

mod actions;
mod arrivals;
mod calls;
pub mod checkpoints;
mod ending;
pub mod partner;
mod replacement;
pub mod vacancies;

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::sync::Arc;

use event_log::determinant::{DeterminantId, Rank};
use event_log::logger::round::Position;
use event_log::protocol::action::Action;
use event_log::protocol::call::Outcome;
use event_log::protocol::pessimism::Mode;
use event_log::protocol::process::{Config, Process};
use event_log::protocol::sender_log::Limit;
use event_log::protocol::units::{Pattern, Request};
use openmpi_internals::sync::lock;

use crate::copies::Copies;
use crate::logger::Shared;
use crate::matching::Matching;
use crate::resent::Resent;
use crate::set_up::SetUp;
use crate::store::{Restored, Store};
use crate::world::World;
use vacancies::Spawner;
use virtual_ranks::carrier::Carrier;
use virtual_ranks::data::{Buffer, Data, Held};

/// A receive, from its start until the program knows of its message.
struct Open {
    /// The program's, if it has named one.
    buffer: Option<Buffer>,
    /// Bytes that it has got, or the error class.
    got: Result<usize, c_int>,
    /// The message, if there is no buffer yet.
    kept: Vec<u8>,
    _datatype: Option<Arc<Held>>,
}

/// The engine of one process.
pub struct Engine {
    /// Who is who.
    pub world: World,
    /// Copies data.
    pub data: Data,
    carrier: Carrier,
    logger: Shared,
    process: u32,
    rank: Option<Rank>,
    limit: Limit,
    machine: Option<Process>,
    matching: Matching,
    queue: VecDeque<Action>,
    open: HashMap<Request, Open>,
    /// The buffer of the receive that is being started, if it has one.
    starting: Option<Option<Buffer>>,
    looking: Option<Pattern>,
    /// Bytes of the message that a probe has found.
    found: usize,
    returned: Option<Outcome>,
    /// Messages of later epochs.
    early: Vec<(u32, Vec<u8>)>,
    stable: DeterminantId,
    /// How many events this replacement has to repeat, and how many were left when that was last told.
    replay: Option<(usize, usize)>,
    /// Bytes of the sender log, when that was last told.
    told_kept: u64,
    /// Bytes of standard output that earlier processes of this rank have printed.
    printed: u64,
    sends: u32,
    /// Where checkpoints are, if there are any.
    store: Option<Store>,
    /// Those in memory, if that is where they are.
    copies: Option<Copies>,
    set_up: SetUp,
    /// What this process has started from, until the program comes to its restore point.
    restored: Option<Box<Restored>>,
    /// The machine in the checkpoint that is being taken.
    taken: Option<(u64, Vec<u8>)>,
    /// What the event loggers may drop when there is another checkpoint.
    trims: Option<DeterminantId>,
    resent: Resent,
    /// How a process is spawned, where that may be.
    spawner: Option<Spawner>,
    /// Whether a rank is dead.
    is_short: bool,
    done: Vec<bool>,
    /// Whether all ranks are through with each other.
    is_over: bool,
    /// Whether no death is repaired any more.
    is_unprotected: bool,
    /// Whether a rank is dead that nobody replaces.
    has_failed: bool,
}

impl Engine {
    /// That of a process, a rank or a spare.
    ///
    /// # Errors
    /// Why the event logger does not serve it.
    pub fn new(
        world: World,
        process: u32,
        carrier: Carrier,
        data: Data,
        logger: Shared,
        limit: Limit,
        store: Option<Store>,
    ) -> Result<Self, String> {
        let ranks = world.ranks();
        let mut engine = Self {
            done: vec![false; ranks as usize],
            world,
            data,
            carrier,
            logger,
            process,
            rank: None,
            limit,
            machine: None,
            matching: Matching::default(),
            queue: VecDeque::new(),
            open: HashMap::new(),
            starting: None,
            looking: None,
            found: 0,
            returned: None,
            early: Vec::new(),
            stable: 0,
            replay: None,
            told_kept: 0,
            printed: 0,
            sends: 0,
            set_up: if store.is_some() { SetUp::record(limit.bytes) } else { SetUp::Without },
            store,
            copies: None,
            restored: None,
            taken: None,
            trims: None,
            resent: Resent::default(),
            spawner: None,
            is_short: false,
            is_over: false,
            is_unprotected: false,
            has_failed: false,
        };
        if process < ranks {
            engine.rank = Some(process);
            engine.machine = Some(Process::new(engine.config(process)));
            lock(&engine.logger).take(process, 0, Position::START)?;
        }
        Ok(engine)
    }

    fn config(&self, rank: Rank) -> Config {
        Config { rank, ranks: self.world.ranks(), mode: Mode::BeforeNextSend, limit: self.limit }
    }

    /// The rank that this process is.
    pub fn rank(&self) -> Option<Rank> {
        self.rank
    }

    /// Bytes of standard output that earlier processes of this rank have printed.
    pub fn printed(&self) -> u64 {
        self.printed
    }
}

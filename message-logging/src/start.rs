//! The start of message logging, at the end of `MPI_Init`.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use event_log::protocol::sender_log::{Limit, Policy};
use mpi_entry::entries::install;
use mpi_entry::functions::Function;
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::ERR_UNSUPPORTED;
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::variables::{
    OMPI_MPI_BYTE, OMPI_MPI_COMM_NULL, OMPI_MPI_COMM_SELF, OMPI_MPI_COMM_WORLD, OMPI_MPI_DATATYPE_NULL,
    OMPI_MPI_ERRORS_RETURN, OMPI_MPI_PACKED,
};
use platform::say::say;

use crate::carrier::Carrier;
use crate::comms::{Comm, Comms};
use crate::data::{Data, ok};
use crate::engine::Engine;
use crate::layer::{self, Layer};
use crate::logger::Logger;
use crate::output;
use crate::requests::Requests;
use crate::saved::Checkpoints;
use crate::stock::Stock;
use crate::store::Store;
use crate::world::World;
use crate::{comms, entries, processor_names};

pub use crate::carrier::note_death;

/// What a job asks for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many of the job's processes are spares: the last ones.
    pub spares: u32,
    /// Bytes that a rank keeps of what it has sent.
    pub log_limit: u64,
    /// The folder of checkpoints.
    pub checkpoints: Option<PathBuf>,
}

/// How long an idle spare rests between two looks. Its looks take the processor from ranks where there is none for it.
const REST: Duration = Duration::from_millis(1);

/// Puts the layer in front of MPI. A spare returns when it is a rank, or never: it ends with the job.
///
/// # Errors
/// Why the job cannot have message logging; empty where another process says that.
pub fn begin(settings: Settings) -> Result<(), String> {
    static STOCK: OnceLock<Stock> = OnceLock::new();
    let library = Library::loaded().ok_or("libmpi is not loaded")?;
    let missing = |name: &str| format!("this Open MPI has no {name}");
    let mpi = Internals::fitting().ok_or("the structs of this Open MPI are not those of 5.0")?;
    let found = Stock::find(&library).map_err(|name| missing(&name.to_string_lossy()))?;
    let stock = STOCK.get_or_init(|| found);
    let known = |variable| library.predefined(variable).ok_or_else(|| missing("predefined handle"));
    let (world, byte, errors_return) =
        (known(OMPI_MPI_COMM_WORLD)?, known(OMPI_MPI_BYTE)?, known(OMPI_MPI_ERRORS_RETURN)?);
    let (alone, packed) = (known(OMPI_MPI_COMM_SELF)?, known(OMPI_MPI_PACKED)?);
    let (null, null_type) = (known(OMPI_MPI_COMM_NULL)?, known(OMPI_MPI_DATATYPE_NULL)?);
    let failed = |code: c_int| format!("a function of MPI has failed with the error class {code}");
    let quiet = |comm: Object| {
        let mut copy = std::ptr::null_mut();
        // SAFETY: communicators; all processes of the job take part, or this one alone.
        unsafe {
            ok((stock.comm_dup)(comm, &mut copy))?;
            ok((stock.comm_set_errhandler)(copy, errors_return))?;
        }
        Ok(copy)
    };
    let (mut processes, mut process, mut group, mut base) = (0, 0, std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: room for the answers.
    unsafe {
        (stock.comm_size)(world, &mut processes);
        (stock.comm_rank)(world, &mut process);
    }
    let (processes, process) = (processes as u32, process as u32);
    let ranks = processes.checked_sub(settings.spares).filter(|ranks| *ranks > 0).ok_or_else(|| {
        let told = format!("{} of {processes} processes are to be spares, and none would be left", settings.spares);
        // All find that out.
        if process == 0 { told } else { String::new() }
    })?;
    let everywhere: Object = quiet(world).map_err(failed)?;
    let nodes = processor_names::gather(stock, everywhere, byte, processes).map_err(failed)?;
    let own: Object = quiet(alone).map_err(failed)?;
    let first: Vec<c_int> = (0..ranks as c_int).collect();
    // SAFETY: a group of at least as many members.
    unsafe {
        ok((stock.comm_group)(world, &mut group)).map_err(failed)?;
        ok((stock.group_incl)(group, ranks as c_int, first.as_ptr(), &mut base)).map_err(failed)?;
        (stock.group_free)(&mut group);
    }
    if settings.spares == 0 && process == 0 {
        say("ringwatch: message logging without spares (hook_ringwatch_spares): a rank that dies is not replaced");
    }
    let store = settings.checkpoints.map(|path| store(stock, path, everywhere, byte));
    let store = store.transpose().map_err(failed)?;
    let logger = Logger::connect()?;
    let carrier = Carrier::new(stock, everywhere, byte).map_err(failed)?;
    let data = Data::new(stock, own, packed);
    let limit = Limit { bytes: settings.log_limit, policy: Policy::EndProtection };
    let world_of_ranks = World::new(ranks, settings.spares);
    let mut engine = Engine::new(world_of_ranks, process, carrier, data, logger.clone(), limit, store.clone())?;
    if !engine.stand_by(REST) {
        // SAFETY: the end of a process of which the program knows nothing.
        unsafe {
            (stock.finalize)();
            libc::_exit(0);
        }
    }
    let rank = engine.rank().unwrap_or(process);
    output::begin(&logger, engine.printed());
    let mut comms = Comms::new(rank, ranks);
    comms.add(Comm::new(world, 0, (0..ranks).collect(), rank as usize, None));
    comms.add(Comm::new(alone, comms::NUMBERS, vec![rank], 0, None));
    layer::set(Layer {
        stock,
        world,
        own,
        base,
        null,
        byte,
        null_type,
        rank,
        nodes,
        engine: Mutex::new(engine),
        comms: Mutex::new(comms),
        requests: Mutex::new(Requests::new(mpi)),
        operations: Mutex::default(),
        checkpoints: Mutex::new(store.map(|store| Checkpoints::new(store.folder(rank), store.job()))),
    });
    // SAFETY: each handler has the type of its function in mpi.h, and stays for ever.
    unsafe { install(&library, &entries::all(), refuse) }.map_err(|failure| failure.to_string())
}

/// The checkpoints of this job, which has a random number that the first process draws. All processes take part.
///
/// # Errors
/// The error class of MPI.
fn store(stock: &Stock, path: PathBuf, comm: Object, byte: Object) -> Result<Store, c_int> {
    let mut job = [0_u8; size_of::<u64>()];
    // SAFETY: a buffer of that size.
    unsafe {
        libc::getrandom(job.as_mut_ptr().cast(), job.len(), 0);
        ok((stock.bcast)(job.as_mut_ptr().cast(), job.len() as c_int, byte, 0, comm))?;
    }
    Ok(Store::new(path, u64::from_le_bytes(job).max(1)))
}

/// A function that the layer does not cover would see processes where the program means ranks.
fn refuse(function: &'static Function) -> c_int {
    let name = function.names[1].to_string_lossy();
    say(&format!("ringwatch: message logging does not cover {name}: it fails with MPI_ERR_UNSUPPORTED_OPERATION"));
    layer::answer_plainly(|_| Err(ERR_UNSUPPORTED))
}

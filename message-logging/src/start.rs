//! The start of message logging, at the end of `MPI_Init`.

use std::ffi::c_int;
use std::path::PathBuf;
use std::time::Duration;

use event_log::protocol::sender_log::{Limit, Policy};
use platform::say::say;
use virtual_ranks::data::ok;
use virtual_ranks::start::{Processes, Program, failed};

use crate::engine::Engine;
use crate::logged::{self, Logged};
use crate::logger::Logger;
use crate::output;
use crate::saved::Checkpoints;
use crate::store::Store;
use crate::world::World;

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
    let (processes, ranks) = Processes::gather(|count, process| {
        count.checked_sub(settings.spares).filter(|ranks| *ranks > 0).ok_or_else(|| {
            let told = format!("{} of {count} processes are to be spares, and none would be left", settings.spares);
            // All find that out.
            if process == 0 { told } else { String::new() }
        })
    })?;
    let process = processes.process;
    if settings.spares == 0 && process == 0 {
        say("ringwatch: message logging without spares (hook_ringwatch_spares): a rank that dies is not replaced");
    }
    let store = settings.checkpoints.map(|path| store(&processes, path)).transpose().map_err(failed)?;
    let logger = Logger::connect()?;
    let limit = Limit { bytes: settings.log_limit, policy: Policy::EndProtection };
    let world = World::new(ranks, settings.spares);
    let (carrier, data) = (processes.carrier()?, processes.data());
    let mut engine = Engine::new(world, process, carrier, data, logger.clone(), limit, store.clone())?;
    if !engine.stand_by(REST) {
        // SAFETY: the end of a process of which the program knows nothing.
        unsafe {
            (processes.stock.finalize)();
            libc::_exit(0);
        }
    }
    let rank = engine.rank().unwrap_or(process);
    output::begin(&logger, engine.printed());
    let checkpoints = store.map(|store| Checkpoints::new(store.folder(rank), store.job()));
    let logged = logged::set(Logged { engine, checkpoints });
    let nodes = processes.nodes.clone();
    processes.stand_behind(Program { rank, ranks, nodes }, logged, "message logging")
}

/// The checkpoints of this job, which has a random number that the first process draws. All processes take part.
///
/// # Errors
/// The error class of MPI.
fn store(processes: &Processes, path: PathBuf) -> Result<Store, c_int> {
    let mut job = [0_u8; size_of::<u64>()];
    // SAFETY: a buffer of that size.
    unsafe {
        libc::getrandom(job.as_mut_ptr().cast(), job.len(), 0);
        let (byte, comm) = (processes.byte, processes.everywhere);
        ok((processes.stock.bcast)(job.as_mut_ptr().cast(), job.len() as c_int, byte, 0, comm))?;
    }
    Ok(Store::new(path, u64::from_le_bytes(job).max(1)))
}

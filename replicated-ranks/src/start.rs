//! The start of replication, at the end of `MPI_Init`.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use platform::say::say;
use replication::machine::{Bound, OnMismatch};
use replication::method::Method;
use replication::replicas::Replica;
use virtual_ranks::processor_names::Name;
use virtual_ranks::start::{Processes, Program};
use virtual_ranks::system_clocks;

use crate::degree::degrees;
use crate::engine::{Engine, Setting};
use crate::files::entries;
use crate::flips::Flips;
use crate::output::Output;
use crate::places::Places;
use crate::replicated::Replicated;
use crate::tell::Tell;

/// The setting of `mallopt` that has new memory filled (mallopt(3)).
const PERTURB: c_int = -6;
/// What it is filled with: the complement of this byte.
const FILL: c_int = 0xff;

/// What a job asks for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many replicas which ranks have, as [`degree`](crate::degree) says.
    pub replicas: String,
    /// How messages are compared.
    pub method: Method,
    /// What happens where no majority settles a difference.
    pub on_mismatch: OnMismatch,
    /// How much may wait for verification.
    pub bound: Bound,
    /// Where the job's tools learn of replicas.
    pub tell: Tell,
    /// Bits that are flipped, as [`flips`](crate::flips) says.
    pub corrupt: String,
}

/// Puts the layer in front of MPI.
///
/// # Errors
/// Why the job cannot be replicated; empty where another process says that.
pub fn begin(settings: &Settings) -> Result<(), String> {
    let flips_of = |me| Flips::of(&settings.corrupt, me).map_err(|wrong| wrong.to_string());
    let (processes, degrees) = Processes::gather(|count, process| {
        let checked = degrees(&settings.replicas, count).map_err(|unfit| unfit.to_string());
        let checked = checked.and_then(|degrees| flips_of(Replica { rank: 0, index: 0 }).map(|_| degrees));
        // All find the same.
        checked.map_err(|reason| if process == 0 { reason } else { String::new() })
    })?;
    let (process, ranks) = (processes.process, degrees.ranks());
    let places = Places::new(degrees, &processes.nodes);
    let me = places.replica(process).ok_or("this process is no replica")?;
    let flips = flips_of(me)?;
    (settings.tell.replica)(me);
    // A program may send parts of its memory that it has not written.
    // SAFETY: a setting of the C library, which has no condition.
    unsafe { libc::mallopt(PERTURB, FILL) };
    if let (0, Some(Replica { rank, .. })) = (process, places.sharing(&processes.nodes)) {
        say(&format!(
            "ringwatch: replicas of rank {rank} are on one node, and die with it: give mpirun more nodes, or at most {ranks} processes on each"
        ));
    }
    let first = |rank| places.process(Replica { rank, index: 0 }).unwrap_or(0) as usize;
    let nodes: Vec<Name> = (0..ranks).map(|rank| processes.nodes[first(rank)]).collect();
    let engine = Engine::new(Setting {
        places,
        me,
        method: settings.method,
        on_mismatch: settings.on_mismatch,
        bound: settings.bound,
        tell: settings.tell,
        flips,
        stock: processes.stock,
        everywhere: processes.everywhere,
        carrier: processes.carrier()?,
        data: processes.data(),
        output: Output::begin()?,
    });
    let replicated = Arc::new(Mutex::new(Replicated { engine }));
    processes.stand_behind(Program { rank: me.rank, ranks, nodes }, replicated, "replication")?;
    if !(system_clocks::take() && entries::take(me)) {
        return Err("the program's calls of the C library cannot be intercepted".into());
    }
    Ok(())
}

//! The start of message logging, at the end of `MPI_Init`.

use std::ffi::c_int;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use event_log::protocol::sender_log::{Limit, Policy};
use node_abi::segment::{ADDRESS_VARIABLE, FIRST_RANK_VARIABLE};
use platform::say::say;
use virtual_ranks::carrier::Carrier;
use virtual_ranks::data::ok;
use virtual_ranks::links::{KEY, Links, Peer};
use virtual_ranks::processor_names::Name;
use virtual_ranks::spawning::CommandLine;
use virtual_ranks::start::{Processes, Program, failed};

use crate::copies::Copies;
use crate::engine::Engine;
use crate::engine::vacancies::Spawner;
use crate::logged::{self, Logged};
use crate::logger::{Logger, Shared};
use crate::output;
use crate::saved::Checkpoints;
pub use crate::store::Place;
use crate::store::Store;
use crate::summons::{self, Summons};
use crate::world::World;

/// What a job asks for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many of the job's processes are spares: the last ones.
    pub spares: u32,
    /// Whether processes are spawned where no spare is left.
    pub spawns: bool,
    /// Bytes that a rank keeps of what it has sent.
    pub log_limit: u64,
    /// Where checkpoints are.
    pub checkpoints: Option<Place>,
}

/// How long an idle spare rests between two looks. Its looks take the processor from ranks where there is none for it.
const REST: Duration = Duration::from_millis(1);

/// Puts the layer in front of MPI. A spare returns when it is a rank, or never: it ends with the job.
///
/// # Errors
/// Why the job cannot have message logging; empty where another process says that.
pub fn begin(settings: Settings) -> Result<(), String> {
    if let Some(summons) = Summons::take()? {
        return begin_spawned(settings, &summons);
    }
    let (processes, ranks) = Processes::gather(|count, process| {
        count.checked_sub(settings.spares).filter(|ranks| *ranks > 0).ok_or_else(|| {
            let told = format!("{} of {count} processes are to be spares, and none would be left", settings.spares);
            // All find that out.
            if process == 0 { told } else { String::new() }
        })
    })?;
    let process = processes.process;
    if settings.spares == 0 && !settings.spawns && process == 0 {
        say("ringwatch: message logging without spares (hook_ringwatch_spares): a rank that dies is not replaced");
    }
    let world = World::new(ranks, settings.spares, settings.spawns);
    let store = settings.checkpoints.clone().map(|place| store(&processes, place)).transpose().map_err(failed)?;
    if process == 0 && matches!(settings.checkpoints, Some(Place::Partner)) {
        tell_of_partners(&processes.nodes[..ranks as usize]);
    }
    let mut carrier = processes.carrier()?;
    if settings.spawns {
        let joined = world.launched();
        carrier = carrier.with_links(joined, exchange_addresses(&processes)?);
    }
    let mut process = Process::new(&settings, &processes, world, carrier, store)?;
    if !process.engine.stand_by(REST) {
        end(&processes);
    }
    process.run(processes, ranks)
}

/// The same in a process that was spawned in place of a dead rank.
fn begin_spawned(settings: Settings, summons: &Summons) -> Result<(), String> {
    let world = World::new(summons.ranks, summons.spares, true);
    let number = world.process_of(summons.number);
    let processes = Processes::join(summons.names(), number)?;
    let mut links = listen(number, summons.key)?;
    let peers = summons.peers().filter(|peer| links.call(*peer));
    let living: Vec<u32> = peers.map(|peer| peer.process).collect();
    let store = settings.checkpoints.clone().zip(summons.job).map(|(place, job)| Store::new(place, job));
    let carrier = processes.carrier()?.with_links(0, links);
    let mut process = Process::new(&settings, &processes, world, carrier, store)?;
    if living.is_empty() || !process.engine.step_in(summons.rank, summons.number, &summons.taken, &living) {
        end(&processes);
    }
    process.run(processes, summons.ranks)
}

/// The end of a process of which the program knows nothing.
fn end(processes: &Processes) -> ! {
    // SAFETY: nothing of MPI is under way.
    unsafe {
        (processes.stock.finalize)();
        libc::_exit(0);
    }
}

/// A process before the program knows of it.
struct Process {
    engine: Engine,
    logger: Shared,
    store: Option<Store>,
}

impl Process {
    fn new(
        settings: &Settings,
        processes: &Processes,
        world: World,
        carrier: Carrier,
        store: Option<Store>,
    ) -> Result<Self, String> {
        let logger = Logger::connect()?;
        let limit = Limit { bytes: settings.log_limit, policy: Policy::EndProtection };
        let (data, process) = (processes.data(), processes.process);
        let mut engine = Engine::new(world, process, carrier, data, logger.clone(), limit, store.clone())?;
        if matches!(settings.checkpoints, Some(Place::Partner)) {
            let ranks = engine.world.ranks() as usize;
            engine.copy_with(Copies::new(&processes.nodes[..ranks]));
        }
        if settings.spawns {
            let command =
                CommandLine::of_this_process().map_err(|error| format!("the program is not found: {error}"))?;
            engine.spawn_with(Spawner::new(command, summons::shorten(&processes.nodes)));
        }
        Ok(Self { engine, logger, store })
    }

    /// The program runs, as a rank.
    fn run(self, processes: Processes, ranks: u32) -> Result<(), String> {
        let Self { engine, logger, store } = self;
        let rank = engine.rank().unwrap_or(processes.process);
        output::begin(&logger, rank, engine.printed());
        let checkpoints = store.map(|store| Checkpoints::new(rank, store.folder(rank), store.job()));
        let logged = logged::set(Logged { engine, checkpoints });
        let nodes = processes.nodes.clone();
        processes.stand_behind(Program { rank, ranks, nodes }, logged, "message logging")
    }
}

/// Links of this process, without any yet.
fn listen(process: u32, key: [u8; KEY]) -> Result<Links, String> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let number = number("PMIX_RANK").zip(number(FIRST_RANK_VARIABLE)).map_or(process, |(rank, first)| first + rank);
    let address = std::env::var(ADDRESS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let address = SocketAddrV4::new(address.unwrap_or(Ipv4Addr::LOCALHOST), 0);
    let links = Links::listen(key, Peer { process, number, address });
    links.map_err(|error| format!("no port of {} is free: {error}", address.ip()))
}

/// Links of this process, which knows where all others listen. All processes take part.
fn exchange_addresses(processes: &Processes) -> Result<Links, String> {
    let mut key = [0; KEY];
    // SAFETY: a buffer of that size.
    unsafe { libc::getrandom(key.as_mut_ptr().cast(), key.len(), 0) };
    let mut links = listen(processes.process, key)?;
    let own = postcard::to_stdvec(&(key, links.own().address.ip().octets(), links.own().address.port().to_le_bytes()));
    let all = processes.exchange(&own.unwrap_or_default()).map_err(failed)?;
    let all: Vec<([u8; KEY], [u8; 4], [u8; 2])> =
        all.iter().filter_map(|bytes| postcard::from_bytes(bytes).ok()).collect();
    let peers = (0..).zip(&all).map(|(process, (_, ip, port))| {
        let address = SocketAddrV4::new((*ip).into(), u16::from_le_bytes(*port));
        Peer { process, number: process, address }
    });
    // The first process has drawn the key of all.
    links.join(all.first().map_or(key, |first| first.0), peers);
    Ok(links)
}

/// Says what the memory of partners does not protect from.
fn tell_of_partners(nodes: &[Name]) {
    if nodes.len() == 1 {
        say("ringwatch: a single rank has no partner: its checkpoints are lost with it");
    } else if nodes.iter().all(|node| *node == nodes[0]) {
        say("ringwatch: all ranks are on one node: partners protect from the death of a rank, not of the node");
    }
}

/// The checkpoints of this job, which has a random number that the first process draws. All processes take part.
///
/// # Errors
/// The error class of MPI.
fn store(processes: &Processes, place: Place) -> Result<Store, c_int> {
    let mut job = [0_u8; size_of::<u64>()];
    // SAFETY: a buffer of that size.
    unsafe {
        libc::getrandom(job.as_mut_ptr().cast(), job.len(), 0);
        let (byte, comm) = (processes.byte, processes.everywhere);
        ok((processes.stock.bcast)(job.as_mut_ptr().cast(), job.len() as c_int, byte, 0, comm))?;
    }
    Ok(Store::new(place, u64::from_le_bytes(job).max(1)))
}

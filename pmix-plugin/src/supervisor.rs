//! Supervises `ringwatchd`: handles its packets, and restarts it when it dies or hangs.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{MsgFlags, recv};
use nix::sys::time::TimeSpec;
use node_abi::launch::{End, FromDaemon, ToDaemon, decode};
use node_abi::segment::{Entry, Phase};
use node_abi::stall::Stall;
use node_abi::{leftovers, rank_environment};
use platform::clock;
use platform::pin::{Pin, Started};
use platform::say::host;
use propagation::EndReason;

use crate::errands::Errands;
use crate::job::Job;
use crate::link::Instance;
use crate::{connections, environment, losses};

/// Number of deaths of `ringwatchd` within [`RESTART_WINDOW`] after which it is given up.
const MAX_RESTARTS: usize = 8;
/// Time over which restarts are counted.
const RESTART_WINDOW: Duration = Duration::from_secs(10);
/// Delay before a failed start is repeated, if the system lacked resources.
const SCARCE: Duration = Duration::from_millis(10);
/// Minimum time without a heartbeat after which a `ringwatchd` counts as hung.
const MIN_STALL: Duration = Duration::from_millis(20);
/// Time limit from a `ringwatchd`'s start to its first heartbeat: its program may have to be read from a disk.
const STARTING: Duration = Duration::from_secs(1);
/// Time limit for a `ringwatchd` to write after the job's end: twice its own limit for log and history.
const LAST_LINES: Duration = Duration::from_secs(4);
/// How long prterun waits for daemons that were told to end, and they for its order. A daemon behind a broken link
/// never answers, and never gets the order.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// Time limit for a runtime daemon to end in order.
const LAST_STEPS: Duration = Duration::from_secs(1);
/// Maximum time for the shutdown of prterun after its event loop; it takes some milliseconds.
const LAST_SHUTDOWN: Duration = Duration::from_secs(3);
/// Interval at which prterun checks that.
const LAST_LOOK: Duration = Duration::from_millis(100);
/// Buffer for packets of `ringwatchd`.
const PACKET: usize = 1 << 20;

/// Starts `ringwatchd` and the thread that supervises it.
///
/// # Errors
/// A sentence if it cannot be started.
pub fn run(job: Arc<Job>) -> Result<(), String> {
    let first =
        job.link.spawn().map_err(|error| format!("{} cannot be started ({error})", job.link.daemon().display()))?;
    let body = move || {
        // PRRTE handles its signals in its own thread.
        let _ = SigSet::all().thread_block();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| supervise(&job, first)));
        if outcome.is_err() {
            give_up(&job, "internal error in the supervisor of ringwatchd");
        }
        see_out(&job);
    };
    std::thread::Builder::new().name("ringwatch".into()).spawn(body).map_err(|error| error.to_string())?;
    Ok(())
}

/// Supervises `ringwatchd` until the job has ended.
fn supervise(job: &Job, first: Instance) {
    let mut deaths: Vec<Instant> = Vec::new();
    let mut instance = first;
    loop {
        listen(job, &mut instance);
        if job.link.is_finished() {
            return;
        }
        instance = match start_again(job, &mut deaths) {
            Ok(instance) => instance,
            Err(why) => return give_up(job, &why),
        };
        // The previous one may not have forwarded the last packets that it got.
        job.link.repeat_reports();
        job.lost_daemons().into_iter().for_each(|daemon| job.link.tell(&ToDaemon::ConnectionLost(daemon)));
    }
}

/// Restarts one that has died. The next one may die, too, before it has received its first packet.
fn start_again(job: &Job, deaths: &mut Vec<Instant>) -> Result<Instance, String> {
    let mut scarce = 0;
    loop {
        deaths.retain(|death| death.elapsed() < RESTART_WINDOW);
        deaths.push(Instant::now());
        if deaths.len() > MAX_RESTARTS {
            return Err("ringwatchd died again and again".into());
        }
        job.link.count_start();
        repeat_news(job);
        match job.link.spawn() {
            // Its pid is free already, or the other end of its socket is closed.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EPIPE | libc::ECONNRESET)) => {}
            Err(error) if scarce < MAX_RESTARTS && is_scarce(&error) => {
                scarce += 1;
                // It counts as the same death.
                deaths.pop();
                std::thread::sleep(SCARCE);
            }
            started => return started.map_err(|error| format!("ringwatchd cannot be started again ({error})")),
        }
    }
}

/// Handles packets until this `ringwatchd` has ended.
fn listen(job: &Job, instance: &mut Instance) {
    let limit = (job.launch.parameters.timeout / 2).max(MIN_STALL);
    let mut buffer = vec![0; PACKET];
    let at_first = job.segment.beats();
    let mut stall = Stall::new(limit, clock::awake());
    let mut errands = Errands::new(clock::awake());
    loop {
        let waits = job.link.flush();
        let room = if waits { PollFlags::POLLOUT } else { PollFlags::empty() };
        let mut fds = [
            PollFd::new(instance.control.as_fd(), PollFlags::POLLIN | room),
            PollFd::new(instance.process.as_fd(), PollFlags::POLLIN),
        ];
        let began = clock::awake();
        let wait = stall.wait().min(errands.wait(job, began));
        if ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None).is_err() {
            continue;
        }
        let looked = clock::awake();
        let ready = |fd: &PollFd| fd.revents().is_some_and(|events| !(events - PollFlags::POLLOUT).is_empty());
        let (talks, ended) = (ready(&fds[0]), ready(&fds[1]));
        if talks && !receive(job, instance, &mut buffer) {
            // The socket is closed: it is ending and writes its last lines, or it is broken.
            let limit = if job.link.is_finished() { limit.max(LAST_LINES) } else { limit };
            if !ends_within(&instance.process, limit) {
                instance.process.kill();
            }
            return;
        }
        if ended && !talks {
            return;
        }
        if job.link.is_finished() {
            stall.excuse(looked);
        }
        if stall.look(began, looked, job.segment.last_beat(looked)) {
            let starts = job.segment.beats() == at_first && stall.silence(looked) < STARTING;
            if !starts || job.link.is_stopped() {
                instance.process.kill();
                return;
            }
        }
        errands.run(job, looked);
    }
}

/// Handles one packet; false if no more will come.
fn receive(job: &Job, instance: &mut Instance, buffer: &mut [u8]) -> bool {
    let length = match recv(instance.control.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
        Ok(0) => return false,
        Ok(length) => length,
        Err(nix::Error::EAGAIN | nix::Error::EINTR) => return true,
        Err(_) => return false,
    };
    let packet = instance.opener.open(&buffer[..length]).and_then(|packet| decode(packet).ok());
    match packet {
        Some(FromDaemon::Roster(roster)) => job.link.keep(roster),
        Some(FromDaemon::RanksDead { ranks, .. }) => {
            ranks.into_iter().for_each(|rank| notify(job, rank));
            connections::look(job);
        }
        Some(FromDaemon::Replicas(replicas)) => losses::note_replicas(replicas),
        Some(FromDaemon::Learned(known)) => {
            losses::tell(job, &known.fact);
            job.link.keep_known(known);
        }
        Some(FromDaemon::NodeDead { node, .. }) => job.node_dead(node),
        Some(FromDaemon::End { reason, sentence }) => {
            job.link.is_over();
            match reason {
                End::Announced(EndReason::Finished) => {}
                End::Announced(EndReason::NoSurvivor | EndReason::InitFailure) => job.end_ranks(&sentence),
                _ => job.end(&sentence),
            }
        }
        None => {}
    }
    true
}

/// Gives up. Without `ringwatchd` the other nodes declare this node dead: its ranks end before that.
fn give_up(job: &Job, why: &str) {
    job.link.is_over();
    let runtime = nix::unistd::Pid::this().as_raw();
    for slot in 0..job.segment.slots() {
        let (pid, phase) = job.segment.occupant(slot);
        if phase.is_registered() && phase != Phase::Finalised && job.launch.parameters.fence {
            // Any process of the user could have written the slot's contents.
            let is_rank = |pin: &Pin| {
                let name = job.jobs.name_of(job.segment.rank(slot));
                name.is_some_and(|(nspace, rank)| {
                    let environment = pin.environment().map(|way| way.read()).unwrap_or_default();
                    rank_environment::is_rank(pin, &environment, &nspace.to_string_lossy(), rank, runtime)
                })
            };
            let pin = Pin::take(pid).ok().filter(is_rank);
            let _ = pin.map(|pin| pin.kill());
        }
    }
    job.end(&format!("{why} on prterun's node, so the job ends"));
    if job.me != 0 && job.launch.parameters.fence {
        leftovers::remove(Path::new(leftovers::FOLDER), &job.launch.nspace, &host());
        environment::remove_session_folder();
        let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), Signal::SIGKILL);
    }
}

/// Ends this node's part after supervision has stopped. In prterun: when all daemons have been told to end and have had
/// their time, the remaining ones count as lost. In others: a daemon without an order to end in that time ends by
/// itself, with its ranks, unless fencing is off. This thread ends with the process.
fn see_out(job: &Job) {
    let Some(runtime) = job.runtime() else {
        if !job.launch.parameters.fence {
            return;
        }
        std::thread::sleep(LAST_WAIT);
        let end = |signal| nix::sys::signal::kill(nix::unistd::Pid::this(), signal);
        let _ = end(Signal::SIGTERM);
        std::thread::sleep(LAST_STEPS);
        // It hangs during its own shutdown.
        environment::remove_session_folder();
        let _ = end(Signal::SIGKILL);
        return;
    };
    let (mut told, mut finalizing, mut is_forgotten) = (None, None, false);
    loop {
        std::thread::sleep(LAST_LOOK);
        if !is_forgotten {
            job.carry_on_with_maps();
            job.carry_on_with_ends();
            is_forgotten = runtime.ending() && told.get_or_insert_with(Instant::now).elapsed() > LAST_WAIT;
            if is_forgotten {
                job.forget_everybody();
            }
        }
        // PMIx 5.0.7 may wait for ever in PMIx_server_finalize: its thread hangs in `pmix_pending_resolve`, over a
        // request that it has freed, if a rank of this node died while another one asked for its address.
        if runtime.finalizing() && finalizing.get_or_insert_with(Instant::now).elapsed() > LAST_SHUTDOWN {
            environment::remove_session_folder();
            // SAFETY: ends the process. Output of ranks was written before PRRTE began to shut down.
            unsafe { libc::_exit(runtime.exit_status()) };
        }
    }
}

/// Reports log entries again that a `ringwatchd` may not have reported before its death. A repetition does no harm.
fn repeat_news(job: &Job) {
    for entry in (0..job.segment.len()).filter_map(|index| job.segment.entry(index)) {
        match entry {
            Entry::Rank(rank) => notify(job, rank),
            Entry::Node(node) => job.node_dead(node),
            Entry::Ready(_) => {}
        }
    }
}

/// Reports a rank's death to the ranks of this node, through PMIx.
fn notify(job: &Job, rank: u32) {
    let Some((nspace, rank)) = job.jobs.name_of(rank) else { return };
    // SAFETY: a terminated string; PMIx takes the call from any thread.
    unsafe { c_shims::pmix::rw_pmix_notify_dead(nspace.as_ptr(), rank) };
}

/// Whether the system lacks a resource that may become available soon.
fn is_scarce(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE))
}

/// Waits for the end of a process.
fn ends_within(process: &Started, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        let rest = until.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::try_from(rest).unwrap_or(PollTimeout::MAX)) {
            Err(nix::Error::EINTR) => {}
            ended => return ended.is_ok_and(|count| count > 0),
        }
    }
}

//! The group of recommended processes: the functions `RW_Group_*` as C calls them, see `ringwatch.h`, and what they
//! have in common with those of Fortran.
//!
//! A thread of this process tests the others ([`group_client`]). The functions here are called in the program's own
//! thread, and look after what MPI knows: a process that it knows to be dead is told from one that is slow. No function
//! calls an error handler, but for those of MPI in `RW_Group_join`.

use std::ffi::{c_int, c_longlong};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use group_client::client::{Client, Waited};
use group_client::process::Process;
use group_client::question::{Function, Question};
use openmpi_internals::error_class::{ERR_ARG, ERR_INTERN, ERR_OTHER, ERR_UNSUPPORTED};
use openmpi_internals::layout::mpi::MPI_UNDEFINED;
use openmpi_internals::loaded::turn_progress;
use openmpi_internals::sync::lock;
use platform::clock;
use recommended_group::report::Standing;

use crate::checkpoint_layer;
use crate::group_calls::Processes;
use crate::openmpi::{Handle, OpenMpi};

/// How long MPI's progress rests while the program waits.
const PAUSE: Duration = Duration::from_micros(500);
/// How soon it is looked again who is dead.
const LOOK: Duration = Duration::from_millis(10);

/// `RW_Group_test_function`
pub type TestFunction = unsafe extern "C" fn() -> c_longlong;

struct Session {
    client: Client,
    processes: Processes,
    mpi: &'static OpenMpi,
    look_at: Duration,
}

// SAFETY: a handle of a communicator, which is used in the program's calls only.
unsafe impl Send for Session {}

/// How far the program is.
enum Stage {
    /// With the program's test, if it has one.
    Outside(Option<TestFunction>),
    Joined(Session),
    Left,
}

static STAGE: Mutex<Stage> = Mutex::new(Stage::Outside(None));

/// An error class; 0 for success.
fn class(body: impl FnOnce() -> Result<(), c_int>) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(ERR_INTERN)).err().unwrap_or(0)
}

/// Whether `MPI_Finalize` was called: nothing of MPI may be used any more.
fn is_finalized() -> bool {
    OpenMpi::get().is_some_and(OpenMpi::is_finalized)
}

fn in_session<R>(body: impl FnOnce(&mut Session) -> Result<R, c_int>) -> Result<R, c_int> {
    match &mut *lock(&STAGE) {
        Stage::Joined(session) if !session.mpi.is_finalized() => body(session),
        _ => Err(ERR_OTHER),
    }
}

fn with_session(body: impl FnOnce(&mut Session) -> Result<(), c_int>) -> c_int {
    class(|| in_session(body))
}

impl Session {
    fn look_for_dead(&mut self) {
        let now = clock::now();
        if now >= self.look_at {
            self.look_at = now + LOOK;
            // SAFETY: the program keeps the communicator until it leaves.
            let dead = unsafe { self.processes.look_for_dead(self.mpi) };
            if !dead.is_empty() {
                self.client.with(|process| dead.into_iter().for_each(|rank| process.died(rank)));
            }
        }
    }
}

/// Waits for the next round. False: there is none. Other threads may call the functions here meanwhile.
fn wait(client: &Client) -> Result<bool, c_int> {
    loop {
        match client.wait(PAUSE) {
            Waited::Round => return Ok(true),
            Waited::Ended => return Ok(false),
            Waited::Broken => return Err(ERR_INTERN),
            Waited::Waits => {
                turn_progress();
                in_session(|session| {
                    session.look_for_dead();
                    Ok(())
                })?;
            }
        }
    }
}

/// See `ringwatch.h`.
#[unsafe(no_mangle)]
pub extern "C" fn RW_Group_set_test(test: Option<TestFunction>) -> c_int {
    class(|| match &mut *lock(&STAGE) {
        Stage::Outside(set) if !is_finalized() => {
            *set = test;
            Ok(())
        }
        _ => Err(ERR_OTHER),
    })
}

/// See `ringwatch.h`.
///
/// # Safety
/// Handles of MPI; all processes of the communicator call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RW_Group_join(comm: Handle, info: Handle) -> c_int {
    class(|| {
        let mut stage = lock(&STAGE);
        let Stage::Outside(test) = *stage else { return Err(ERR_OTHER) };
        if is_finalized() {
            return Err(ERR_OTHER);
        }
        if checkpoint_layer::is_layered() {
            // What a replaced process has told the others is in no log, and replicas do not hear the same.
            return Err(ERR_UNSUPPORTED);
        }
        let mpi = OpenMpi::get().ok_or(ERR_UNSUPPORTED)?;
        let function = test.map(|test| {
            // SAFETY: a function of the program, which says that any thread may call it.
            let function: Function = Arc::new(move || unsafe { test() });
            function
        });
        // SAFETY: as required of the caller.
        let (processes, client) = unsafe {
            let processes = Processes::of(mpi, comm)?;
            let client = processes.join(info, || Question::new(function))?;
            (processes, client)
        };
        *stage = Stage::Joined(Session { client, processes, mpi, look_at: Duration::ZERO });
        Ok(())
    })
}

/// See `ringwatch.h`.
///
/// # Safety
/// Room for two numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RW_Group_barrier(complete: c_int, size: *mut c_int, place: *mut c_int) -> c_int {
    class(|| {
        let client = in_session(|session| {
            if size.is_null() || place.is_null() {
                return Err(ERR_ARG);
            }
            session.client.with(|process| process.arrive(complete != 0));
            Ok(session.client.clone())
        })?;
        let goes_on = wait(&client)?;
        let (members, own) = in_session(|session| {
            let me = session.processes.me;
            Ok(session.client.with(|process| (process.round().members.len(), process.round().place(me))))
        })?;
        let own = own.filter(|_| goes_on).and_then(|own| c_int::try_from(own).ok());
        // SAFETY: as required of the caller.
        unsafe {
            *size = if goes_on { members as c_int } else { 0 };
            *place = own.unwrap_or(MPI_UNDEFINED);
        }
        Ok(())
    })
}

/// See `ringwatch.h`.
///
/// # Safety
/// Room for the ranks of all members of the round.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RW_Group_members(ranks: *mut c_int) -> c_int {
    // SAFETY: as required of the caller.
    with_session(|session| unsafe { fill(ranks, &session.client.with(members)) })
}

fn members(process: &mut Process) -> Vec<u32> {
    process.round().members.iter().collect()
}

/// # Safety
/// Null, or room for so many ranks.
unsafe fn fill(ranks: *mut c_int, all: &[u32]) -> Result<(), c_int> {
    if ranks.is_null() {
        return Err(ERR_ARG);
    }
    // SAFETY: as required of the caller.
    all.iter().enumerate().for_each(|(place, rank)| unsafe { *ranks.add(place) = *rank as c_int });
    Ok(())
}

/// See `ringwatch.h`.
///
/// # Safety
/// Room for three numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RW_Group_round(round: *mut c_int, epoch: *mut c_int, base: *mut c_int) -> c_int {
    with_session(|session| {
        if round.is_null() || epoch.is_null() || base.is_null() {
            return Err(ERR_ARG);
        }
        let view = session.client.with(|process| process.round().clone());
        // SAFETY: as required of the caller. No number of a view is higher.
        unsafe {
            (*round, *epoch, *base) = (view.round as c_int, view.number as c_int, view.base as c_int);
        }
        Ok(())
    })
}

/// See `ringwatch.h`.
///
/// # Safety
/// Room for a number, and for the ranks of all processes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RW_Group_returned(count: *mut c_int, ranks: *mut c_int) -> c_int {
    with_session(|session| {
        if count.is_null() {
            return Err(ERR_ARG);
        }
        let returned = session.client.with(|process| process.returned().to_vec());
        // SAFETY: as required of the caller.
        unsafe {
            *count = returned.len() as c_int;
            fill(ranks, &returned)
        }
    })
}

/// See `ringwatch.h`.
///
/// # Safety
/// Room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RW_Group_lost(count: *mut c_int) -> c_int {
    with_session(|session| {
        if count.is_null() {
            return Err(ERR_ARG);
        }
        session.look_for_dead();
        let lost = session
            .client
            .with(|process| if process.has_ended() { process.round().members.len() } else { process.lost() });
        // SAFETY: as required of the caller.
        unsafe { *count = lost as c_int };
        Ok(())
    })
}

/// See `ringwatch.h`.
///
/// # Safety
/// Room for two numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RW_Group_state(rank: c_int, state: *mut c_int, evictions: *mut c_int) -> c_int {
    with_session(|session| {
        let known = u32::try_from(rank).ok().filter(|rank| *rank < session.processes.count);
        let rank = known.filter(|_| !state.is_null() && !evictions.is_null()).ok_or(ERR_ARG)?;
        session.look_for_dead();
        let (standing, counter) = session.client.with(|process| (process.standing(rank), process.counter(rank)));
        // SAFETY: as required of the caller.
        unsafe {
            *state = match standing {
                Standing::Member => 0,
                Standing::Evicted => 1,
                Standing::Dead => 2,
                Standing::Left => 3,
            };
            *evictions = counter.div_ceil(2) as c_int;
        }
        Ok(())
    })
}

/// See `ringwatch.h`.
#[unsafe(no_mangle)]
pub extern "C" fn RW_Group_leave() -> c_int {
    class(|| {
        let mut stage = lock(&STAGE);
        let Stage::Joined(session) = &*stage else { return Err(ERR_OTHER) };
        if session.mpi.is_finalized() {
            return Err(ERR_OTHER);
        }
        // The thread goes on: it tells the end to whoever has not heard of it.
        session.client.with(Process::leave);
        *stage = Stage::Left;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_mpi_nobody_joins_and_nothing_is_known_of_a_group() {
        let (mut one, mut other) = (7, 7);
        // SAFETY: no handles, and room for the numbers.
        unsafe {
            assert_eq!(RW_Group_join(std::ptr::null_mut(), std::ptr::null_mut()), ERR_UNSUPPORTED);
            assert_eq!(RW_Group_barrier(1, &mut one, &mut other), ERR_OTHER);
            assert_eq!(RW_Group_lost(&mut one), ERR_OTHER);
        }
        assert_eq!((one, other), (7, 7));
        assert_eq!(RW_Group_leave(), ERR_OTHER);
    }
}

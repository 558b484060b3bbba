//! When Open MPI's agreement is told of a death: never while it is at work.
//!
//! It may be the one who finds out, when it sends to a process that is dead. Open MPI then reports the death at once, and
//! the agreement, which cannot take news in the middle of its work, puts them aside with the address of what it is
//! working on; by the time it takes them up that may have been freed (`coll_ftagree_earlyreturning.c:1940` of 5.0.7). So
//! it is told at once only of what comes from the progress loop, and of everything else from the event loop, which runs
//! the very next time that MPI makes progress.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::{c_int, c_short, c_void};
use std::panic::catch_unwind;
use std::sync::{Mutex, MutexGuard};

use crate::communicators;
use crate::handles::{Communicator, MemberDied};
use crate::openmpi;

thread_local! {
    /// This thread comes from the progress loop, and the agreement is not at work in it.
    static OUTSIDE: Cell<bool> = const { Cell::new(false) };
}

static PUT_OFF: Mutex<VecDeque<News>> = Mutex::new(VecDeque::new());

/// A member of a communicator is dead.
#[derive(Clone, Copy)]
pub struct News {
    /// Who is to be told.
    pub listener: MemberDied,
    /// The communicator.
    pub comm: Communicator,
    /// The rank in it.
    pub rank: c_int,
    /// Whether it is in the other group of an intercommunicator.
    pub remote: bool,
}

/// Runs `report`, which comes from the progress loop and may report deaths.
pub fn outside<T>(report: impl FnOnce() -> T) -> T {
    OUTSIDE.set(true);
    let result = report();
    OUTSIDE.set(false);
    result
}

/// Tells the agreement, now or as soon as it is not at work.
pub fn tell(news: News) {
    if OUTSIDE.take() {
        // What it sends now may fail in its turn.
        news.comm.tell(news.listener, news.rank, news.remote);
        OUTSIDE.set(true);
        return;
    }
    put_off().push_back(news);
    if !openmpi::in_event_loop(take_up) {
        put_off().pop_back();
        news.comm.tell(news.listener, news.rank, news.remote);
    }
}

fn put_off() -> MutexGuard<'static, VecDeque<News>> {
    PUT_OFF.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

unsafe extern "C" fn take_up(_descriptor: c_int, _what: c_short, _argument: *mut c_void) {
    let _ = catch_unwind(|| {
        loop {
            let Some(news) = put_off().pop_front() else { break };
            if communicators::lives(news.comm) {
                news.comm.tell(news.listener, news.rank, news.remote);
            }
        }
    });
}

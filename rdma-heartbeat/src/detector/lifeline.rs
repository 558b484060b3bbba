//! Detects the death of a rank as soon as it begins, by robust locks.
//!
//! A process descriptor becomes readable when the *last* thread of a process has left and its memory is released: with
//! some gigabytes, or a contended processor, that takes tens to hundreds of milliseconds. But first of all the kernel
//! marks the robust locks that a dying thread holds, and wakes their waiters. So every rank holds such a lock in its
//! slot of the node segment, taken in `MPI_Init`, and a thread of `ringwatchd` waits for all of them.
//!
//! A mark means that a *thread* has died. The kernel is then asked whether the process is dying
//! ([`Pin::fate`](platform::pin::Pin::fate)). If the kernel cannot wait for several locks (before 5.16), or the lock is
//! missing, the process descriptor serves instead, later.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use node_abi::segment::Segment;
use platform::bell::Bell;
use platform::privileges;

use crate::process::setup;
use nix::errno::Errno;

/// Set by the kernel in the lock of a dead thread.
const OWNER_DIED: u32 = 0x4000_0000;
/// Makes the kernel wake a waiter when it sets [`OWNER_DIED`].
const WAITERS: u32 = 0x8000_0000;
/// The thread that holds a lock.
const OWNER: u32 = 0x3fff_ffff;
/// Maximum number of words of one `futex_waitv`; one of them is the request to check again.
const MOST: usize = 128;
const STACK: usize = 64 << 10;

/// Whether the thread that held the lock of a slot has died.
#[must_use]
pub fn is_broken(segment: &Segment, slot: u32) -> bool {
    segment.lifeline(slot).load(Ordering::Acquire) & OWNER_DIED != 0
}

/// The waiting thread.
pub struct Lifelines {
    bell: Bell,
    call: Arc<AtomicU32>,
}

/// `struct futex_waitv`
#[repr(C)]
struct Wait {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

impl Lifelines {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn start(segment: &OwnedFd) -> io::Result<Self> {
        let segment = Segment::open(segment).map_err(io::Error::other)?;
        let bell = Bell::new()?;
        let call = Arc::new(AtomicU32::new(0));
        let (told, called) = (bell.clone(), Arc::clone(&call));
        std::thread::Builder::new().name("lifelines".into()).stack_size(STACK).spawn(move || {
            // The first thread was refused it, too, and has reported that.
            let _ = setup::raise_priority();
            privileges::keep(0);
            wait_for_all(&segment, &called, &told);
        })?;
        Ok(Self { bell, call })
    }

    /// Makes the thread wait for a further lock, because a rank has registered.
    pub fn look_again(&self) {
        self.call.fetch_add(1, Ordering::AcqRel);
        // SAFETY: wakes the waiters of a word of this process.
        unsafe { libc::syscall(libc::SYS_futex, self.call.as_ptr(), libc::FUTEX_WAKE, 1) };
    }

    /// Rings when a lock has lost its owner.
    #[must_use]
    pub fn bell(&self) -> &Bell {
        &self.bell
    }
}

fn wait_for_all(segment: &Segment, call: &AtomicU32, bell: &Bell) {
    let mut told = Vec::new();
    let mut waits = Vec::with_capacity(MOST);
    loop {
        waits.clear();
        waits.push(wait_on(call, call.load(Ordering::Acquire)));
        told.resize(segment.slots() as usize, false);
        for (slot, told) in (0..segment.slots()).zip(&mut told) {
            let word = segment.lifeline(slot);
            let value = word.load(Ordering::Acquire);
            if value & OWNER_DIED != 0 {
                if !std::mem::replace(told, true) {
                    bell.ring();
                }
            } else if value & OWNER != 0 && waits.len() < MOST {
                // The value has changed: the next turn handles it.
                if word.compare_exchange(value, value | WAITERS, Ordering::AcqRel, Ordering::Acquire).is_err() {
                    waits[0].value = waits[0].value.wrapping_sub(1) & u64::from(u32::MAX);
                }
                waits.push(wait_on(word, value | WAITERS));
            }
        }
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: the list and its words outlive the call, which has no time limit.
        let result = unsafe {
            libc::syscall(libc::SYS_futex_waitv, waits.as_ptr(), waits.len(), 0, none, libc::CLOCK_MONOTONIC)
        };
        if result < 0 && !matches!(Errno::last(), Errno::EAGAIN | Errno::EINTR) {
            return;
        }
    }
}

fn wait_on(word: &AtomicU32, value: u32) -> Wait {
    const FUTEX_32: u32 = 2;
    Wait { value: u64::from(value), address: word.as_ptr() as u64, flags: FUTEX_32, reserved: 0 }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use node_abi::lifeline_lock::hold;
    use platform::testing::wait_until;

    use super::*;

    #[test]
    fn the_death_of_a_holder_is_told_once_and_nothing_else_is() {
        let (segment, file) = Segment::create(&[4, 5], 8).unwrap();
        let lifelines = Lifelines::start(&file).unwrap();
        let segment = Arc::new(segment);
        let (dying, leave) = (Arc::clone(&segment), Arc::new(AtomicU32::new(0)));
        let (left, ready) = (Arc::clone(&leave), Arc::new(AtomicU32::new(0)));
        let held = Arc::clone(&ready);
        let holder = std::thread::spawn(move || {
            hold(&dying, 1);
            held.store(1, Ordering::Release);
            wait_until(|| left.load(Ordering::Acquire) == 1);
        });
        wait_until(|| ready.load(Ordering::Acquire) == 1);
        lifelines.look_again();
        let readable = || {
            let mut wait = [nix::poll::PollFd::new(lifelines.bell().as_fd(), nix::poll::PollFlags::POLLIN)];
            matches!(nix::poll::poll(&mut wait, nix::poll::PollTimeout::ZERO), Ok(1..))
        };
        // Wait until the thread waits, which sets the waiter mark.
        wait_until(|| segment.lifeline(1).load(Ordering::Acquire) & WAITERS != 0);
        assert!(!readable() && !is_broken(&segment, 1));
        leave.store(1, Ordering::Release);
        holder.join().unwrap();
        wait_until(readable);
        assert!(is_broken(&segment, 1) && !is_broken(&segment, 0));
        lifelines.bell().clear();
        assert!(!readable());
    }
}

//! Watches this node's runtime daemon, prterun or prted. The end of that process is the end of the node.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use platform::pin::{Pin, PinError};
use propagation::Time;
use tracing::{error, info};

use crate::detector::stopped::{StopCount, Window};

/// Time after the control socket was closed in which the process may still be seen to end, or the end of the job may
/// arrive.
const GRACE: Duration = Duration::from_millis(100);

/// The reason why the runtime daemon is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process ended.
    Ended,
    /// It closed the control socket.
    HungUp,
    /// It has been stopped for too long.
    Stopped,
}

impl Loss {
    /// One word for the history.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::HungUp => "hung-up",
            Self::Stopped => "stopped",
        }
    }
}

/// The watched runtime daemon.
pub struct Runtime {
    pid: i32,
    pin: Option<Pin>,
    stop_limit: Option<Duration>,
    count: StopCount,
    next_sample: Window,
    hung_up: Option<Time>,
    ended: Option<Time>,
    reported: bool,
    /// Whether this daemon has stopped it, which is no loss.
    held: bool,
    /// Whether it was running when it was stopped.
    goes_on: bool,
    /// When the whole job was last known to be suspended, which is no loss either.
    suspended_at: Option<Time>,
}

impl Runtime {
    /// Pins the runtime daemon: the process with this number and this start time ([`started`](platform::pin::started)).
    /// It counts as lost after it was stopped for `stop_limit`; a user may stop mpirun itself, so prterun has no limit.
    ///
    /// # Errors
    /// If the process cannot be pinned, except because it has ended.
    pub fn new(pid: i32, started: u64, stop_limit: Option<Duration>, now: Time) -> Result<Self, PinError> {
        let pin = match Pin::take(pid) {
            Err(PinError::Gone) => None,
            other => Some(other?).filter(|pin| pin.sample().is_some_and(|sample| sample.started == started)),
        };
        Ok(Self {
            pid,
            ended: pin.is_none().then_some(now),
            next_sample: if pin.is_some() && stop_limit.is_some() { Window::at(now) } else { Window::NEVER },
            pin,
            stop_limit,
            count: StopCount::default(),
            hung_up: None,
            reported: false,
            held: false,
            goes_on: false,
            suspended_at: None,
        })
    }

    /// Process number, for messages.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The descriptor that becomes readable when the process ends; `None` if it had ended at the start.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pin.as_ref().map(AsFd::as_fd)
    }

    /// Notes that the control socket was closed.
    pub fn hang_up(&mut self, now: Time) {
        self.hung_up.get_or_insert(now);
    }

    /// Notes that the descriptor became readable.
    pub fn end(&mut self, now: Time) {
        self.ended.get_or_insert(now);
    }

    /// Whether the daemon is lost; reported once. With `urgent`, ranks exist that must not outlive it. Otherwise the
    /// end of the job, which has a moment to arrive, decides whether it ended in order.
    pub fn look(&mut self, now: Time, urgent: bool) -> Option<Loss> {
        if self.reported {
            return None;
        }
        let stopped = self.sample(now);
        let wait = if urgent { Duration::ZERO } else { GRACE };
        let loss = match (self.ended, self.hung_up) {
            (Some(at), _) if now >= at + wait => Some(Loss::Ended),
            (_, Some(at)) if now >= at + GRACE => Some(Loss::HungUp),
            _ if stopped => Some(Loss::Stopped),
            _ => None,
        };
        self.reported = loss.is_some();
        loss
    }

    fn sample(&mut self, now: Time) -> bool {
        let (Some(pin), Some(limit)) = (&self.pin, self.stop_limit) else { return false };
        if !self.next_sample.is_open(now) {
            return false;
        }
        if self.held {
            self.next_sample = Window::after(now, limit);
            return false;
        }
        let excused = self.suspended_at.is_some_and(|at| now.saturating_sub(at) < limit);
        let is_over = self.count.observe(now, pin.stopped(), limit);
        self.next_sample = self.count.next(now, limit);
        is_over && !excused
    }

    /// Whether it has ended, or closed its socket, and [`Runtime::look`] is about to decide.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        !self.reported && (self.ended.is_some() || self.hung_up.is_some())
    }

    /// Whether the process is known to have ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether another process has stopped it.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        !self.held && self.pin.as_ref().is_some_and(|pin| pin.stopped().is_some())
    }

    /// Restarts the limit for a stopped runtime daemon, because the whole job is suspended.
    pub fn excuse(&mut self, now: Time) {
        self.suspended_at = Some(now);
    }

    /// Stops the runtime daemon until [`Runtime::release`]: a late order to end its ranks would first make it continue
    /// them for a moment.
    pub fn hold(&mut self) {
        if let (Some(pin), false) = (&self.pin, std::mem::replace(&mut self.held, true)) {
            self.goes_on = pin.stop();
        }
    }

    /// Continues the runtime daemon, unless another process had stopped it before.
    pub fn release(&mut self) {
        if let (Some(pin), true) = (&self.pin, std::mem::take(&mut self.held)) {
            if self.goes_on {
                pin.go_on();
            }
            self.count = StopCount::default();
        }
    }

    /// Latest time at which [`Runtime::look`] has work.
    #[must_use]
    pub fn deadline(&self) -> Time {
        if self.reported {
            return Time::MAX;
        }
        let after_grace = |at: Option<Time>| at.map_or(Time::MAX, |at| at + GRACE);
        self.next_sample.end().min(after_grace(self.ended)).min(after_grace(self.hung_up))
    }

    /// Kills the runtime daemon if it still lives; true if it did.
    pub fn kill(&self) -> bool {
        let Some(pin) = self.pin.as_ref().filter(|pin| !pin.has_ended()) else { return false };
        let killed = pin.kill();
        match &killed {
            Ok(()) => info!(pid = self.pid, "runtime daemon killed"),
            Err(error) => error!(pid = self.pid, %error, "the runtime daemon cannot be killed"),
        }
        killed.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use platform::pin::started;
    use platform::testing::{sleeper, wait_until};

    use super::*;

    fn ms(n: u64) -> Time {
        Duration::from_millis(n)
    }

    #[test]
    fn an_end_counts_at_once_only_if_ranks_are_left_and_is_said_once() {
        let mut runtime = Runtime::new(i32::MAX, 0, None, ms(5)).unwrap();
        assert!(runtime.descriptor().is_none());
        assert_eq!(runtime.look(ms(5), false), None);
        assert_eq!((runtime.deadline(), runtime.is_leaving()), (ms(105), true));
        assert_eq!(runtime.look(ms(6), true), Some(Loss::Ended));
        assert!(!runtime.is_leaving());
        assert_eq!(runtime.look(ms(200), true), None);
        assert_eq!(runtime.deadline(), Time::MAX);
    }

    #[test]
    fn who_has_the_number_of_one_that_has_ended_is_not_taken_for_it() {
        let mut child = sleeper();
        let pid = child.id() as i32;
        let mut runtime = Runtime::new(pid, started(pid).unwrap() - 1, None, ms(5)).unwrap();
        assert!(!runtime.kill());
        assert_eq!(runtime.look(ms(5), true), Some(Loss::Ended));
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_closed_socket_counts_after_a_moment_and_a_stop_after_its_limit() {
        let mut child = sleeper();
        let pid = child.id() as i32;
        let mut hung_up = Runtime::new(pid, started(pid).unwrap(), None, ms(0)).unwrap();
        assert!(!hung_up.is_leaving());
        hung_up.hang_up(ms(10));
        assert_eq!((hung_up.look(ms(109), true), hung_up.is_leaving()), (None, true));
        assert_eq!(hung_up.look(ms(110), true), Some(Loss::HungUp));

        let mut stopped = Runtime::new(pid, started(pid).unwrap(), Some(ms(16)), ms(0)).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGSTOP).unwrap();
        let pin = Pin::take(pid).unwrap();
        wait_until(|| pin.stopped().is_some());
        for now in 0..16 {
            assert_eq!(stopped.look(ms(now), true), None);
        }
        assert_eq!(stopped.look(ms(16), true), Some(Loss::Stopped));
        stopped.kill();
        child.wait().unwrap();
        assert!(pin.has_ended());
    }

    #[test]
    fn what_somebody_else_has_stopped_stays_so_when_it_is_released() {
        let mut child = sleeper();
        let pid = child.id() as i32;
        let mut runtime = Runtime::new(pid, started(pid).unwrap(), None, ms(0)).unwrap();
        let pin = Pin::take(pid).unwrap();
        for by_somebody_else in [false, true] {
            if by_somebody_else {
                pin.stop();
                wait_until(|| pin.stopped().is_some());
            }
            runtime.hold();
            wait_until(|| pin.stopped().is_some());
            runtime.release();
            wait_until(|| pin.stopped().is_some() == by_somebody_else);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

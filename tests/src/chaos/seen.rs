//! Since when those who were struck are down, as can be seen from outside: a process dies or stops only when it comes
//! to run, and that is the kernel's choice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::clock::{now, wait_until};
use crate::job::STOP_TIMEOUT;
use crate::process;

/// Who is not down by then is not looked at any more.
const LONG: Duration = Duration::from_secs(180);

/// Of each rank that is down for good: when that was seen, or when a stop of it has lasted for as long as it may.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<Mutex<BTreeMap<u32, Duration>>>);

impl Seen {
    /// These are down now, unless they were before.
    pub fn note(&self, ranks: impl IntoIterator<Item = u32>, at: Duration) {
        let mut seen = self.lock();
        for rank in ranks {
            seen.entry(rank).or_insert(at);
        }
    }

    /// Looks until the process that got this signal is down, and these ranks with it, or nobody asks any more.
    pub fn watch(&self, ranks: Vec<u32>, signal: i32, pid: impl Fn() -> Option<i32> + Send + 'static) {
        let seen = Arc::downgrade(&self.0);
        let look = move || {
            let Some(seen) = seen.upgrade().map(Self) else { return true };
            let down = pid().is_some_and(|pid| is_down(pid, signal));
            if down {
                let patience = if signal == libc::SIGSTOP { STOP_TIMEOUT } else { Duration::ZERO };
                seen.note(ranks.iter().copied(), now() + patience);
            }
            down
        };
        thread::spawn(move || wait_until(LONG, look));
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> BTreeMap<u32, Duration> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this signal has done its work.
fn is_down(pid: i32, signal: i32) -> bool {
    !process::lives(pid) || (signal == libc::SIGSTOP && process::state(pid) == Some('T'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_down_when_its_signal_has_struck_and_what_is_known_stays() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let (seen, before) = (Seen::default(), now());
        seen.watch(vec![1, 2], libc::SIGSTOP, move || Some(pid));
        assert!(seen.all().is_empty());
        process::signal(pid, libc::SIGSTOP);
        assert!(wait_until(LONG, || seen.all().len() == 2));
        assert!(seen.all()[&2] >= before + STOP_TIMEOUT);
        let first = seen.all();
        seen.note([2, 3], Duration::from_secs(1));
        assert_eq!((seen.all()[&2], seen.all()[&3]), (first[&2], Duration::from_secs(1)));
        assert!(is_down(pid, libc::SIGSTOP) && !is_down(pid, libc::SIGKILL));
        process::signal(pid, libc::SIGKILL);
        child.wait().unwrap();
        assert!(is_down(pid, libc::SIGKILL));
    }
}

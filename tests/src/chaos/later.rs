//! Faults that are over by themselves: links that heal and processes that go on. Others may strike meanwhile.

use std::time::Duration;

use crate::clock::now;
use crate::lab::ALL_HOSTS;
use crate::lab::Lab;
use crate::process;

/// How such a fault is undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undo {
    /// A stopped process goes on.
    Continue {
        /// Who.
        who: Stopped,
        /// Its process.
        pid: i32,
    },
    /// Links heal.
    Heal {
        /// Of these hosts.
        hosts: Vec<u32>,
    },
}

/// Whose process was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// A rank's.
    Rank(u32),
    /// `ringwatchd`, which is replaced or goes on.
    Daemon,
    /// `prted` of this host.
    Runtime(u32),
}

/// A fault that lasts for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lasting {
    /// How it ends.
    pub undo: Undo,
    /// A moment before it struck.
    pub since: Duration,
    /// When it is to end.
    pub due: Duration,
}

/// One that was undone.
#[derive(Debug)]
pub struct Over {
    /// What it was.
    pub lasting: Lasting,
    /// A moment after that.
    pub at: Duration,
    /// Whether a stopped process was still there to go on.
    pub met: bool,
}

/// What is to be undone, and what was.
#[derive(Debug, Default)]
pub struct Later {
    pending: Vec<Lasting>,
    over: Vec<Over>,
}

impl Later {
    /// Takes note of one that has struck.
    pub fn add(&mut self, lasting: Lasting) {
        self.pending.push(lasting);
        self.pending.sort_by_key(|lasting| lasting.due);
    }

    /// Whether all is undone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Undoes what is due, in the order of time.
    pub fn carry_out(&mut self, lab: &Lab) {
        while let Some(lasting) = self.take_due(now()) {
            let mut met = true;
            match &lasting.undo {
                Undo::Continue { pid, .. } => {
                    met = process::lives(*pid);
                    process::signal(*pid, libc::SIGCONT);
                }
                Undo::Heal { hosts } => hosts.iter().for_each(|host| lab.join(ALL_HOSTS[*host as usize])),
            }
            self.over.push(Over { lasting, at: now(), met });
        }
    }

    /// What was undone since the last time.
    #[must_use]
    pub fn take_over(&mut self) -> Vec<Over> {
        std::mem::take(&mut self.over)
    }

    fn take_due(&mut self, time: Duration) -> Option<Lasting> {
        self.pending.first().is_some_and(|first| first.due <= time).then(|| self.pending.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_first_is_undone_first() {
        let lasting = |host: u32, due: u64| Lasting {
            undo: Undo::Heal { hosts: vec![host] },
            since: Duration::ZERO,
            due: Duration::from_millis(due),
        };
        let mut later = Later::default();
        [lasting(1, 300), lasting(2, 100), lasting(3, 200)].into_iter().for_each(|one| later.add(one));
        assert_eq!(later.take_due(Duration::from_millis(99)), None);
        assert_eq!(later.take_due(Duration::from_millis(250)), Some(lasting(2, 100)));
        assert_eq!(later.take_due(Duration::from_millis(250)), Some(lasting(3, 200)));
        assert_eq!(later.take_due(Duration::from_millis(250)), None);
        assert!(!later.is_empty());
    }
}

//! Tracks received counters of one sender.

/// Number of words of the window. It must cover all pending messages of a sender, to any receiver, because its counter
/// is common to all. A node that loses hundreds of ranks sends thousands of copies. If its heartbeats among them were
/// refused as too old, it would be suspected.
const WORDS: u64 = 32;

/// The newest incarnation of a sender and its received latest counters.
///
/// A ring of words, as in RFC 6479: counter c is bit c % 64 of word c / 64 % [`WORDS`], and entering a new
/// word clears it. Nothing is ever shifted.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// `None` before the first message.
    incarnation: Option<u32>,
    /// c / 64 of the highest counter c received.
    newest: u64,
    received: [u64; WORDS as usize],
}

impl Window {
    /// The newest incarnation; `None` before the first message.
    pub fn incarnation(&self) -> Option<u32> {
        self.incarnation
    }

    /// Marks a counter as received; false if it was received before, or is too old to be known.
    pub fn accept(&mut self, incarnation: u32, counter: u64) -> bool {
        let word = counter / 64;
        if Some(incarnation) < self.incarnation {
            return false;
        }
        if Some(incarnation) > self.incarnation {
            *self = Window { incarnation: Some(incarnation), newest: word, received: Default::default() };
        }
        if word > self.newest {
            let entered = (word - self.newest).min(WORDS);
            for back in 0..entered {
                self.received[((word - back) % WORDS) as usize] = 0;
            }
            self.newest = word;
        }
        if self.newest - word >= WORDS {
            return false;
        }
        let bits = &mut self.received[(word % WORDS) as usize];
        let bit = 1 << (counter % 64);
        let is_new = *bits & bit == 0;
        *bits |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum distance behind the newest counter at which a datagram is certainly accepted.
    const REACH: u64 = (WORDS - 1) * 64;

    #[test]
    fn counters_may_overtake_each_other_within_the_window() {
        let mut window = Window::default();
        // 7919 is prime: every counter below REACH occurs once, far out of order.
        for step in 0..REACH {
            let counter = 64 + step * 7919 % REACH;
            assert!(window.accept(0, counter));
            assert!(!window.accept(0, counter));
        }
        assert!(window.accept(0, 0));
        assert!(window.accept(0, 64 + REACH));
        assert!(!window.accept(0, 1), "too old");
    }

    #[test]
    fn a_leap_forgets_everything_before() {
        let mut window = Window::default();
        assert!(window.accept(0, 0));
        assert!(window.accept(0, u64::MAX));
        assert!(!window.accept(0, 0));
        assert!(window.accept(0, u64::MAX - REACH));
        assert!(!window.accept(0, u64::MAX - REACH - 64));
    }

    #[test]
    fn a_new_incarnation_starts_afresh_and_ends_the_old_one() {
        let mut window = Window::default();
        assert!(window.accept(1, 100));
        assert!(!window.accept(0, 101));
        assert!(window.accept(2, 0));
        assert!(!window.accept(1, 102));
        assert!(!window.accept(2, 0));
    }
}

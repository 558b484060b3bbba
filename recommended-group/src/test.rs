//! A test has a question whose answer can be checked. Its cost is what a process is measured by.

/// A test, the same at all processes.
pub trait Test {
    /// The question of an interval.
    fn question(&self, interval: u64) -> u64;
    /// Works the answer out: at the tested process, on the processor that the program has.
    fn answer(&self, question: u64) -> u64;
    /// Whether an answer is right: at the tester, at next to no cost.
    fn is_right(&self, question: u64, answer: u64) -> bool;
}

/// The paper's test: how many primes are below a number, by trial division.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Primes {
    below: u64,
    count: u64,
}

impl Primes {
    /// Primes below this number.
    #[must_use]
    pub fn below(below: u64) -> Self {
        Self { below, count: count(below) }
    }
}

impl Default for Primes {
    /// Primes below 1,000, of which there are 168.
    fn default() -> Self {
        Self::below(1000)
    }
}

impl Test for Primes {
    fn question(&self, _: u64) -> u64 {
        self.below
    }

    fn answer(&self, question: u64) -> u64 {
        count(question)
    }

    fn is_right(&self, question: u64, answer: u64) -> bool {
        question == self.below && answer == self.count
    }
}

fn count(below: u64) -> u64 {
    let is_prime = |number: &u64| (2..).take_while(|divisor| divisor * divisor <= *number).all(|by| number % by != 0);
    (2..below).filter(is_prime).count() as u64
}

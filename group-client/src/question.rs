//! The test: the program's function, or the paper's primes.

use std::sync::Arc;

use recommended_group::test::{Primes, Test};

/// A function of the program that returns the same number at every process; how long it takes is what a process is
/// measured by.
pub type Function = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A test.
#[derive(Clone)]
pub enum Question {
    /// How many primes are below 1,000.
    Primes(Primes),
    /// The program's function, and what it returns here.
    Program {
        /// The function.
        function: Function,
        /// What it has returned when the process has joined.
        answer: i64,
    },
}

impl Question {
    /// With this function, which is called once; or with primes.
    #[must_use]
    pub fn new(function: Option<Function>) -> Self {
        match function {
            None => Self::Primes(Primes::default()),
            Some(function) => Self::Program { answer: function(), function },
        }
    }
}

impl Test for Question {
    fn question(&self, interval: u64) -> u64 {
        match self {
            Self::Primes(primes) => primes.question(interval),
            Self::Program { .. } => 0,
        }
    }

    fn answer(&self, question: u64) -> u64 {
        match self {
            // A question that is not the test's own would let another process decide how long it takes.
            Self::Primes(primes) if question == primes.question(0) => primes.answer(question),
            Self::Primes(_) => 0,
            Self::Program { function, .. } => function() as u64,
        }
    }

    fn is_right(&self, question: u64, answer: u64) -> bool {
        match self {
            Self::Primes(primes) => primes.is_right(question, answer),
            Self::Program { answer: own, .. } => answer == *own as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_right_and_nobody_makes_a_process_work_for_longer() {
        let test = Question::new(None);
        let question = test.question(1);
        assert!(test.is_right(question, test.answer(question)));
        assert_eq!(test.answer(u64::MAX), 0);
        assert!(!test.is_right(question, test.answer(question) + 1));
    }

    #[test]
    fn the_function_of_a_program_is_right_where_it_returns_the_same() {
        let test = Question::new(Some(Arc::new(|| -5)));
        assert!(test.is_right(0, test.answer(0)));
        assert!(!test.is_right(0, Question::new(Some(Arc::new(|| 5))).answer(0)));
    }
}

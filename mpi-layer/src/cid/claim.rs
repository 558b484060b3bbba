//! Chooses the context id of a new communicator while other choices are under way.
//!
//! Open MPI chooses one context id at a time: each member proposes its lowest free id, all agree on the maximum, and
//! agree again on whether it is free at all members (`comm_cid.c`). Two concurrent choices could block each other's
//! proposals repeatedly, so the second waits for the first, for two agreements.
//!
//! ringwatch's members draw the same candidate ids from a hash of the new communicator's origin. Each member claims the
//! first few that are free, which reserves them in its process, and one agreement determines the ids that all have
//! claimed. Other communicators draw other candidates, so choices need not wait for each other. If no candidate is
//! common, the members draw again from a larger range.

use std::ffi::c_int;

/// Number of candidates of a draw: one bit of a nonnegative `c_int` each.
const DRAWN: usize = 31;
/// Number of candidates that a member claims.
const CLAIMED: usize = 4;
/// Upper bound of the first draw's candidates; it doubles with each draw. Open MPI's communicator table grows with the
/// highest context id.
const FIRST_SPAN: u32 = 256;
/// Maximum number of draws. With one id in a hundred free at all members, all draws fail once in 10⁸ times.
const DRAWS: u32 = 64;

/// Identifies the choice of a context id, equally at all members: context id and epoch of the parent, and number of
/// communicators made from it before.
#[derive(Clone, Copy)]
pub struct Origin {
    pub number: u64,
    pub epoch: u32,
    pub count: u32,
}

/// The context ids that a process claims for a communicator.
pub struct Claim {
    origin: Origin,
    /// Exclusive upper bound of context ids, at least 1.
    most: u32,
    draws: u32,
    /// Pairs of bit and context id.
    claimed: Vec<(c_int, c_int)>,
}

/// The conclusion of an agreement.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Number(c_int),
    /// Claim again.
    Again,
    /// Too few context ids are free.
    None,
}

impl Claim {
    pub fn new(origin: Origin, most: u32) -> Self {
        Self { origin, most: most.max(1), draws: 0, claimed: Vec::new() }
    }

    /// Claims candidates through `take`, which returns whether an id was free. Returns the bits to agree on with AND.
    pub fn stake(&mut self, mut take: impl FnMut(c_int) -> bool) -> c_int {
        let drawn = (0..).map(|bit| 1 << bit).zip(self.draw());
        self.claimed = drawn.filter(|(_, number)| take(*number)).take(CLAIMED).collect();
        self.claimed.iter().fold(0, |bits, (bit, _)| bits | bit)
    }

    /// Evaluates the agreed bits. Releases, through `free`, the claims that this communicator does not use.
    pub fn settle(&mut self, agreed: c_int, mut free: impl FnMut(c_int)) -> Outcome {
        let mut number = None;
        for (bit, claimed) in self.claimed.drain(..) {
            if number.is_none() && agreed & bit != 0 {
                number = Some(claimed);
            } else {
                free(claimed);
            }
        }
        self.draws += 1;
        match number {
            Some(number) => Outcome::Number(number),
            None if self.draws < DRAWS => Outcome::Again,
            None => Outcome::None,
        }
    }

    fn draw(&self) -> [c_int; DRAWN] {
        let mut bytes = [0; DRAWN * size_of::<u32>()];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.origin.number.to_le_bytes()).update(&self.origin.epoch.to_le_bytes());
        hasher.update(&self.origin.count.to_le_bytes()).update(&self.draws.to_le_bytes());
        hasher.finalize_xof().fill(&mut bytes);
        let span = (FIRST_SPAN << self.draws.min(16)).min(self.most);
        std::array::from_fn(|index| {
            let word = &bytes[index * 4..][..4];
            let word = word.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
            c_int::try_from(word % span).unwrap_or(0)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MOST: u32 = 65535;

    fn origin(number: u64, count: u32) -> Origin {
        Origin { number, epoch: 7, count }
    }

    /// A process: its used context ids, and its claim for each communicator.
    struct Process {
        taken: BTreeSet<c_int>,
        claims: Vec<Claim>,
    }

    /// Pseudo-random numbers from a seed.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % limit
        }
    }

    /// Lets several processes choose context ids of several communicators concurrently, in different orders. Returns
    /// the context ids, and the number of agreements of the slowest choice.
    fn number_at_once(dice: &mut Dice, processes: usize, communicators: usize, taken: usize) -> (Vec<c_int>, usize) {
        let mut all: Vec<_> = (0..processes)
            .map(|_| Process {
                taken: (0..taken).map(|_| dice.below(400) as c_int).collect(),
                claims: (0..communicators).map(|number| Claim::new(origin(number as u64 + 3, 0), MOST)).collect(),
            })
            .collect();
        let mut numbers = vec![None; communicators];
        let mut bits = vec![vec![None; communicators]; processes];
        // The next step of each process for each communicator: to claim, or to receive the agreed bits.
        let mut agreed = vec![vec![None; communicators]; processes];
        let mut rounds = vec![0; communicators];
        while numbers.contains(&None) {
            let (process, number) = (dice.below(processes), dice.below(communicators));
            let Process { taken, claims } = &mut all[process];
            if let Some(result) = agreed[process][number].take() {
                match claims[number].settle(result, |free| assert!(taken.remove(&free))) {
                    Outcome::Number(chosen) => {
                        assert!(numbers[number].is_none_or(|other| other == chosen));
                        numbers[number] = Some(chosen);
                        bits[process][number] = Some(0);
                    }
                    Outcome::Again => {}
                    Outcome::None => panic!("no number"),
                }
            } else if bits[process][number].is_none() {
                bits[process][number] = Some(claims[number].stake(|number| taken.insert(number)));
                if bits.iter().all(|of| of[number].is_some()) {
                    let result = bits.iter().fold(-1, |all, of| all & of[number].unwrap_or(0));
                    for process in 0..processes {
                        agreed[process][number] = Some(result);
                        bits[process][number] = None;
                    }
                    rounds[number] += 1;
                }
            }
        }
        (numbers.into_iter().flatten().collect(), rounds.into_iter().max().unwrap_or(0))
    }

    #[test]
    fn numbers_that_are_chosen_at_once_are_chosen_by_one_agreement_and_differ() {
        let mut dice = Dice(1);
        let mut further = 0;
        for _ in 0..200 {
            let (numbers, rounds) = number_at_once(&mut dice, 4, 16, 0);
            assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 16, "{numbers:?}");
            further += usize::from(rounds > 1);
        }
        assert!(further <= 10, "{further} of 200 needed another agreement");
    }

    #[test]
    fn members_whose_numbers_are_taken_by_others_find_one() {
        let mut dice = Dice(2);
        for _ in 0..200 {
            let (numbers, rounds) = number_at_once(&mut dice, 5, 8, 300);
            assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 8, "{numbers:?}");
            assert!(rounds < 10, "{rounds}");
        }
    }

    #[test]
    fn a_table_in_which_one_number_in_a_hundred_is_free_has_one() {
        for number in 0..200 {
            let mut claim = Claim::new(origin(number, 1), MOST);
            let outcome = loop {
                let bits = claim.stake(|number| number % 100 == 0);
                match claim.settle(bits, |_| {}) {
                    Outcome::Again => {}
                    outcome => break outcome,
                }
            };
            assert!(matches!(outcome, Outcome::Number(number) if number % 100 == 0), "{outcome:?}");
        }
    }

    #[test]
    fn a_full_table_has_none_and_loses_none() {
        let mut claim = Claim::new(origin(3, 0), MOST);
        for draw in 1..=DRAWS {
            assert_eq!(claim.stake(|_| false), 0);
            let outcome = claim.settle(0, |_| panic!("nothing was claimed"));
            assert_eq!(outcome, if draw < DRAWS { Outcome::Again } else { Outcome::None });
        }
    }

    #[test]
    fn no_number_is_higher_than_the_transport_allows() {
        for most in [1, 300, MOST] {
            let mut claim = Claim::new(origin(9, 4), most);
            for _ in 0..20 {
                assert!(claim.draw().iter().all(|number| (0..most as c_int).contains(number)));
                assert_ne!(claim.stake(|_| true), 0);
                assert_eq!(claim.settle(0, |_| {}), Outcome::Again);
            }
        }
    }
}

//! What a member says about its operations, and what all members conclude.
//!
//! A statement is five numbers, and the members agree on the least of each: on how many operations all have confirmed, how
//! many have ended, which of them somebody had an own error in, on what that was, and on the worst that anybody knows. So
//! one agreement serves all operations of one kind that have ended by then.
//!
//! A blocking operation is confirmed: members that have had success tell each other, and whoever has heard that from all
//! goes on without an agreement. Others may have been interrupted, and agree. Confirmed operations are therefore counted from
//! the last agreement on, in which all take part. The other counts begin with the first operation that has not been agreed on,
//! and are used where nobody knows of a death: then that is the same operation for all, and so is its kind.
//!
//! An operation with members of another group ends with what has happened there, and says nothing about this one.

use std::ffi::c_int;

/// Error classes of Open MPI.
pub const ERR_OTHER: c_int = 16;
pub const ERR_INTERN: c_int = 17;
pub const ERR_PROC_FAILED: c_int = 75;
pub const ERR_PROC_FAILED_PENDING: c_int = 76;
pub const ERR_REVOKED: c_int = 77;

/// The numbers of a statement: operations that have been confirmed, that have ended, the first one with an own error, what has
/// happened in another group to that one, and the standing.
pub type Statement = [c_int; 5];

/// No operation has an own error.
const NONE: c_int = c_int::MAX;

/// What a member knows about the communicator, from bad to good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Revoked,
    /// A member is dead.
    Damaged,
    Sound,
}

impl Standing {
    fn of(number: c_int) -> Self {
        match number {
            ..=0 => Self::Revoked,
            1 => Self::Damaged,
            2.. => Self::Sound,
        }
    }

    /// The class with which operations end; `None` if they may succeed.
    pub fn class(self) -> Option<c_int> {
        match self {
            Self::Revoked => Some(ERR_REVOKED),
            Self::Damaged => Some(ERR_PROC_FAILED),
            Self::Sound => None,
        }
    }
}

/// What an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The members of the communicator.
    Members,
    /// Another group, too: what it ends with may have happened there.
    Others,
    /// What another group says: who has died here does not change it.
    Word,
}

/// What follows from an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// So many operations have succeeded, and then one has not, because of somebody's own error or with this class because of
    /// what has happened in another group, or has not been agreed on.
    Go { succeeded: usize, flawed: bool, class: Option<c_int> },
    /// So many operations have succeeded, and all others end with this class.
    End { succeeded: usize, class: c_int },
}

/// What a code of an operation says of those whom it is about.
pub fn standing_of(code: c_int) -> Standing {
    match code {
        ERR_REVOKED => Standing::Revoked,
        ERR_PROC_FAILED | ERR_PROC_FAILED_PENDING => Standing::Damaged,
        _ => Standing::Sound,
    }
}

/// The statement of a member that has confirmed so many operations since the last agreement, and whose further operations,
/// all of one kind, have ended with these codes; it may have confirmed the first of them. Whoever knows of a death says so even
/// if all was successful: Open MPI's algorithms have lost errors before.
pub fn statement(about: About, confirmed: c_int, codes: &[c_int], known: Standing) -> Statement {
    let number = |index: usize| c_int::try_from(index).unwrap_or(NONE);
    let flawed = codes.iter().position(|code| *code != 0);
    let of_flawed = || flawed.map_or(Standing::Sound, |index| standing_of(codes[index]));
    let (elsewhere, standing) = match about {
        About::Members => (Standing::Sound, codes.iter().map(|code| standing_of(*code)).fold(known, Standing::min)),
        About::Others => (of_flawed(), known),
        About::Word => (of_flawed(), Standing::Sound),
    };
    [confirmed, number(codes.len()), flawed.map_or(NONE, number), elsewhere as c_int, standing as c_int]
}

/// What a member that has gone on from so many confirmed operations concludes from the least of all numbers, and from the
/// status of the agreement: it is not 0 if that has met a dead member. Whoever has gone on from an operation knows that all
/// have confirmed it, so it has succeeded for those, too, who were interrupted then.
pub fn verdict(least: Statement, gone: c_int, status: c_int) -> Verdict {
    let [confirmed, ended, flawed, elsewhere, standing] = least;
    let met = if status == 0 { Standing::Sound } else { Standing::Damaged };
    match Standing::of(standing).min(met).class() {
        Some(class) => Verdict::End { succeeded: usize::try_from(confirmed - gone).unwrap_or(0), class },
        None => Verdict::Go {
            succeeded: ended.min(flawed).max(0) as usize,
            flawed: flawed < ended,
            class: Standing::of(elsewhere).class(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(statements: &[Statement], status: c_int) -> Verdict {
        let least = |place: usize| statements.iter().map(|statement| statement[place]).min().unwrap_or(NONE);
        verdict(std::array::from_fn(least), 0, status)
    }

    fn all_failed() -> Verdict {
        Verdict::End { succeeded: 0, class: ERR_PROC_FAILED }
    }

    fn one(about: About, code: c_int, known: Standing) -> Statement {
        statement(about, 0, &[code], known)
    }

    #[test]
    fn a_word_passes_over_the_dead() {
        let word = |code, known| one(About::Word, code, known);
        let statements = [word(0, Standing::Damaged), word(0, Standing::Sound)];
        assert_eq!(agreed(&statements, 0), Verdict::Go { succeeded: 1, flawed: false, class: None });
        let statements = [word(ERR_REVOKED, Standing::Sound), word(0, Standing::Damaged)];
        assert_eq!(agreed(&statements, 0), Verdict::Go { succeeded: 0, flawed: true, class: Some(ERR_REVOKED) });
    }

    #[test]
    fn a_failure_in_another_group_ends_one_operation_and_one_in_the_own_group_all() {
        let failed = |about, known| [one(about, ERR_PROC_FAILED, known), one(about, 0, Standing::Sound)];
        let elsewhere = Verdict::Go { succeeded: 0, flawed: true, class: Some(ERR_PROC_FAILED) };
        assert_eq!(agreed(&failed(About::Others, Standing::Sound), 0), elsewhere);
        assert_eq!(agreed(&failed(About::Others, Standing::Damaged), 0), all_failed());
        assert_eq!(agreed(&failed(About::Others, Standing::Sound), 1), all_failed());
        assert_eq!(agreed(&failed(About::Members, Standing::Sound), 0), all_failed());
    }

    #[test]
    fn those_that_all_have_ended_succeed_up_to_the_first_with_an_error() {
        let codes = |codes: &[c_int]| statement(About::Members, 0, codes, Standing::Sound);
        let statements = [codes(&[0, 0, 0]), codes(&[0, 0])];
        assert_eq!(agreed(&statements, 0), Verdict::Go { succeeded: 2, flawed: false, class: None });
        let statements = [codes(&[0, 0, 0]), codes(&[0, ERR_OTHER])];
        assert_eq!(agreed(&statements, 0), Verdict::Go { succeeded: 1, flawed: true, class: None });
    }

    #[test]
    fn what_one_has_gone_on_from_has_succeeded_for_those_who_were_interrupted() {
        // It has gone on from the third, and fails in the fourth; the other had confirmed the third, and was interrupted.
        let gone = statement(About::Members, 3, &[ERR_PROC_FAILED], Standing::Damaged);
        let interrupted = statement(About::Members, 3, &[0], Standing::Damaged);
        let least = std::array::from_fn(|place| gone[place].min(interrupted[place]));
        assert_eq!(verdict(least, 3, 1), all_failed());
        assert_eq!(verdict(least, 2, 1), Verdict::End { succeeded: 1, class: ERR_PROC_FAILED });
        // Nobody can have gone on where somebody has not confirmed.
        let unconfirmed = statement(About::Members, 2, &[ERR_PROC_FAILED], Standing::Damaged);
        let least = std::array::from_fn(|place| unconfirmed[place].min(interrupted[place]));
        assert_eq!(verdict(least, 2, 1), all_failed());
    }
}

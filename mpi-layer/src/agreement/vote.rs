//! Computes a member's statement about its operations, and the verdict that all members draw from the agreed minimum.
//!
//! A statement has five numbers; the members agree on the minimum of each. They are: operations that all have
//! confirmed, operations that have ended, the first operation with a local error, the result of that operation in
//! another group, and the worst standing known. One agreement covers all ended operations of one kind.
//!
//! A blocking operation is confirmed by messages: members that succeeded notify each other, and a member that has heard
//! from all continues without an agreement. Interrupted members start an agreement instead. So confirmed operations are
//! counted from the last agreement, in which all members take part. The other counts begin with the first operation
//! that is not agreed on. They are used only if no member knows of a death; that first operation, and so its kind, is
//! then the same for all members.
//!
//! An operation that involves another group ends with that group's result, which says nothing about this group.

use std::ffi::c_int;

use openmpi_internals::error_class::{ERR_PROC_FAILED, ERR_PROC_FAILED_PENDING, ERR_REVOKED};

/// The numbers of a statement: confirmed operations, ended operations, index of the first with a local error, standing
/// of the other group in that one, standing of the communicator.
pub type Statement = [c_int; 5];

/// No operation has a local error.
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
    fn from_number(number: c_int) -> Self {
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

/// The processes that can make an operation fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The members of the communicator.
    Members,
    /// Another group as well: the result may come from a failure there.
    Others,
    /// Only the other group's answer. Deaths in this group do not change it.
    Word,
}

/// The conclusion of an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first `succeeded` operations have succeeded. The next one has a local error of a member (`flawed`), or has
    /// failed with `class` because of the other group, or is not agreed on yet.
    Go { succeeded: usize, flawed: bool, class: Option<c_int> },
    /// The first `succeeded` operations have succeeded. All others end with `class`.
    End { succeeded: usize, class: c_int },
}

/// The standing that an operation's error code implies for the processes that it involves.
pub fn standing_of(code: c_int) -> Standing {
    match code {
        ERR_REVOKED => Standing::Revoked,
        ERR_PROC_FAILED | ERR_PROC_FAILED_PENDING => Standing::Damaged,
        _ => Standing::Sound,
    }
}

/// The statement of a member: `confirmed` operations since the last agreement, and the codes of its further ended
/// operations, all of one kind. It may have confirmed the first of those. A member that knows of a death states it even
/// if all its operations succeeded: Open MPI's algorithms have lost errors before.
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

/// The verdict of a member that has continued after `gone` confirmed operations, from the agreed minimum and the status
/// of the agreement (nonzero if a member died in it). A member continues only after all have confirmed an operation. So
/// that operation has also succeeded for the members that were interrupted in it.
pub fn verdict(least: Statement, gone: c_int, status: c_int) -> Verdict {
    let [confirmed, ended, flawed, elsewhere, standing] = least;
    let met = if status == 0 { Standing::Sound } else { Standing::Damaged };
    match Standing::from_number(standing).min(met).class() {
        Some(class) => Verdict::End { succeeded: usize::try_from(confirmed - gone).unwrap_or(0), class },
        None => Verdict::Go {
            succeeded: ended.min(flawed).max(0) as usize,
            flawed: flawed < ended,
            class: Standing::from_number(elsewhere).class(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openmpi_internals::error_class::ERR_OTHER;

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
    fn deaths_do_not_change_the_other_groups_answer() {
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
    fn operations_that_all_have_ended_succeed_up_to_the_first_error() {
        let codes = |codes: &[c_int]| statement(About::Members, 0, codes, Standing::Sound);
        let statements = [codes(&[0, 0, 0]), codes(&[0, 0])];
        assert_eq!(agreed(&statements, 0), Verdict::Go { succeeded: 2, flawed: false, class: None });
        let statements = [codes(&[0, 0, 0]), codes(&[0, ERR_OTHER])];
        assert_eq!(agreed(&statements, 0), Verdict::Go { succeeded: 1, flawed: true, class: None });
    }

    #[test]
    fn an_operation_after_which_one_member_continues_has_succeeded_for_interrupted_members() {
        // One continues after the third and fails in the fourth. The other confirmed the third and was interrupted.
        let gone = statement(About::Members, 3, &[ERR_PROC_FAILED], Standing::Damaged);
        let interrupted = statement(About::Members, 3, &[0], Standing::Damaged);
        let least = std::array::from_fn(|place| gone[place].min(interrupted[place]));
        assert_eq!(verdict(least, 3, 1), all_failed());
        assert_eq!(verdict(least, 2, 1), Verdict::End { succeeded: 1, class: ERR_PROC_FAILED });
        // No member can have continued if one has not confirmed.
        let unconfirmed = statement(About::Members, 2, &[ERR_PROC_FAILED], Standing::Damaged);
        let least = std::array::from_fn(|place| unconfirmed[place].min(interrupted[place]));
        assert_eq!(verdict(least, 2, 1), all_failed());
    }
}

//! The rules of the protocol that a test breaks, one at a time, to show that the simulation sees each.
//!
//! Which rules are kept is a property of a type: the real machine has no trace of it.

/// A rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Messages are numbered from 1: counted first, then stamped (S1).
    CountedThenStamped,
    /// A message goes into the log when the determinants before it are stable (S3 before S2): what is in the log may be
    /// sent again.
    LoggedWhenStable,
    /// What a peer has received stops only the messages that it has (S4), not all while replaying.
    OnlyReceivedIsSuppressed,
    /// Messages of the restored log that a peer lacks are sent again (X5b).
    RestoredLogIsResent,
    /// A peer's newest counters hold, lower ones too, while replaying (X5c).
    NewestCountersHold,
    /// Nothing new goes to a peer before what it lacks has been sent again.
    ResentBeforeNew,
    /// New determinants follow the last one fetched (X7).
    IdsGoOn,
    /// No checkpoint while replaying (X7).
    NoCheckpointInReplay,
    /// A poll that saw nothing sees nothing again.
    RepetitionsAreRepeated,
    /// A receive that was cancelled takes no message in a replay.
    CancelledReceivesAreNotPosted,
    /// A clock shows in a replay what it has shown.
    ClocksShowTheSame,
    /// Polls that saw nothing are recorded before a send.
    PollsAreRecordedBeforeSend,
    /// A message counts after those of earlier receives that could have had it.
    CountedInOrder,
    /// The sender log is in the checkpoint.
    LogIsInCheckpoint,
    /// A collective operation that somebody has completed is served, not run again.
    CompletedIsServed,
    /// A collective's entry is kept until all members' checkpoints lie behind it.
    EntriesWaitForAllMembers,
    /// A receive with the arguments of the probe before it gets what the probe found.
    ProbedIsReceived,
    /// Receives that are not counted are posted again (F5).
    OpenReceivesArePostedAgain,
}

/// Which rules a machine keeps.
pub trait Variant {
    /// Whether a rule is kept.
    fn keeps(rule: Rule) -> bool;
}

/// The protocol as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sound;

impl Variant for Sound {
    fn keeps(_: Rule) -> bool {
        true
    }
}

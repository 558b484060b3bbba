//! The rules of the protocol that a test breaks, one at a time, to show that the simulation sees each.
//!
//! Which rules are kept is a property of a type: the real machine has no trace of it.

/// A rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Copies that differ are seen.
    CopiesAreCompared,
    /// A replica that has used what the majority contradicts says so.
    UsedCopyIsCompared,
    /// With three senders a receiver goes on with the copy of its own number, or with two that agree.
    OwnCopyOrTwo,
    /// A receiver with fewer than three replicas waits for a majority of three senders.
    FewReceiversWait,
    /// A digest comes from another sender than the message.
    DigestOfAnother,
    /// A third sender is asked where message and digest differ.
    ThirdIsAsked,
    /// Who is asked for a message that it has not sent yet answers when it sends it.
    LaterSendAnswers,
    /// A sender keeps messages until receivers have settled them.
    KeptUntilSettled,
    /// After a death the others send what it owed.
    OthersSendAfterDeath,
    /// Nobody waits for copies of the dead.
    DeadAreNotAwaited,
    /// What the dead have sent does not count once their death is known.
    DeadAreNotHeard,
    /// Messages of a source become ready in the order of sending.
    ReadyInOrder,
    /// A receive from any source is decided by one replica.
    OneDecides,
    /// A later receive gets no message that an earlier, undecided one might get.
    UndecidedGoesFirst,
    /// A send waits until all replicas know the decisions before it.
    SendWaitsForDecisions,
    /// Decisions count as known at others when they have said so.
    OthersSayWhatTheyKnow,
    /// Calls that found nothing are told before a send.
    PollsAreTold,
    /// Who decides after a death first gets what the others know.
    SuccessorAsks,
    /// What a successor has learnt goes to all others.
    SuccessorTells,
    /// The receiver waits where too much is unverified.
    BoundHolds,
    /// The sender waits where too much is kept.
    SenderWaits,
    /// `MPI_Finalize` waits until all is verified.
    FinalizeWaits,
}

/// Which rules a machine keeps.
pub trait Variant: std::fmt::Debug {
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

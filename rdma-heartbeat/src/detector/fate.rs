//! Maps the end of a process to the protocol's reasons.

use platform::pin::Fate;
use propagation::RankReason;

/// The reason of death of a rank whose process has this fate.
#[must_use]
pub fn reason_of(fate: Fate) -> RankReason {
    match fate {
        Fate::Exited { status } => RankReason::Exited { status },
        Fate::Signaled { signal } => RankReason::Signaled { signal },
        Fate::Stopped => RankReason::Stopped,
        Fate::DumpsCore { signal } => RankReason::DumpsCore { signal },
        Fate::Unseen => RankReason::Reported,
    }
}

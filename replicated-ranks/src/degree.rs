//! The parameter that says how many replicas which ranks have: `2`, `3`, or `2:0,3,5` for some ranks only.

use event_log::determinant::Rank;
use replication::replicas::{DegreeError, Degrees};
use thiserror::Error;

/// Why a job cannot be replicated so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unfit {
    /// The text is no such parameter.
    #[error(
        "hook_ringwatch_replicas is 2 or 3, or one of these with the ranks that are replicated, such as 2:0,3, not {0}"
    )]
    Text(String),
    /// The processes are no multiple of the replicas.
    #[error("{0} processes cannot be ranks with {1} replicas each")]
    Processes(u32, u8),
    /// There are too few processes for the ranks of the list.
    #[error("{0} processes are too few for {1} ranks with {2} replicas each")]
    TooFew(u32, usize, u8),
    /// The number or a rank is none.
    #[error(transparent)]
    Degree(#[from] DegreeError),
}

/// The replicas of all ranks of a job of so many processes.
///
/// # Errors
/// Why that cannot be.
pub fn degrees(text: &str, processes: u32) -> Result<Degrees, Unfit> {
    let wrong = || Unfit::Text(text.to_owned());
    let (number, list) = text.split_once(':').map_or((text, None), |(number, list)| (number, Some(list)));
    let replicas: u8 = number.trim().parse().map_err(|_| wrong())?;
    let Some(list) = list else {
        let degrees = Degrees::uniform(processes / u32::from(replicas.max(1)), replicas)?;
        let is_multiple = processes % u32::from(replicas) == 0;
        return if is_multiple { Ok(degrees) } else { Err(Unfit::Processes(processes, replicas)) };
    };
    let mut ranks =
        list.split(',').map(|rank| rank.trim().parse()).collect::<Result<Vec<Rank>, _>>().map_err(|_| wrong())?;
    ranks.sort_unstable();
    ranks.dedup();
    let too_few = || Unfit::TooFew(processes, ranks.len(), replicas);
    let more = (u32::from(replicas).saturating_sub(1)).checked_mul(ranks.len() as u32).ok_or_else(too_few)?;
    let all = processes.checked_sub(more).filter(|all| *all > 0).ok_or_else(too_few)?;
    Ok(Degrees::partial(all, replicas, &ranks)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ranks_or_some_have_replicas() {
        let all = degrees("2", 8).unwrap();
        assert_eq!((all.ranks(), all.of(3).len()), (4, 2));
        assert_eq!(degrees("3", 9).unwrap().of(2).len(), 3);
        let some = degrees("3: 1,0,1", 8).unwrap();
        assert_eq!((some.ranks(), some.of(0).len(), some.of(1).len(), some.of(2).len()), (4, 3, 3, 1));
    }

    #[test]
    fn what_cannot_be_is_said() {
        assert_eq!(degrees("2", 7), Err(Unfit::Processes(7, 2)));
        assert_eq!(degrees("3:0,1", 4), Err(Unfit::TooFew(4, 2, 3)));
        assert_eq!(degrees("2:9", 4), Err(Unfit::Degree(DegreeError::Rank(9, 3))));
        assert_eq!(degrees("4", 8), Err(Unfit::Degree(DegreeError::Degree(4))));
        assert_eq!(degrees("0", 8), Err(Unfit::Degree(DegreeError::Degree(0))));
        for text in ["", "two", "2:", "2:0,x"] {
            assert_eq!(degrees(text, 8), Err(Unfit::Text(text.to_owned())), "{text}");
        }
    }
}

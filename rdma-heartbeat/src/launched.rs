//! The processes that the runtime daemon has started for ranks, before any of them has registered.

use std::fs;

use crate::pin::Pin;

/// Pins the child of `runtime` that was started as this rank, if there is one by now. A wrapper around the rank counts.
#[must_use]
pub fn process_of(runtime: i32, nspace: &str, rank: u32) -> Option<Pin> {
    children(runtime).filter_map(|pid| Pin::take(pid).ok()).find(|pin| pin.is_started_as(nspace, rank))
}

/// Process numbers of the children of all its threads.
fn children(pid: i32) -> impl Iterator<Item = i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sleeper_of;

    #[test]
    fn a_child_is_found_by_the_rank_it_was_started_as_and_nobody_else_is() {
        let me = i32::try_from(std::process::id()).unwrap();
        let mut child = sleeper_of("launched@1", 5);
        let found = |rank| process_of(me, "launched@1", rank).map(|pin| pin.pid());
        assert_eq!((found(5), found(4)), (i32::try_from(child.id()).ok(), None));
        assert!(process_of(1, "launched@1", 5).is_none(), "it is not a child of this one");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found(5), None);
    }
}

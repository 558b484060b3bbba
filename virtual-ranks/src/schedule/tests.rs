//! All members of a job run their steps, one after the other, until nobody can go on.

use std::collections::{HashMap, VecDeque};

use super::*;

/// The buffers of a member: words that say which members' data they have.
type Memory = Vec<String>;

/// Runs all members to their ends. Returns their buffers.
fn run(size: usize, buffers: usize, steps: impl Fn(Member) -> Steps<usize>) -> Vec<Memory> {
    let (memories, left, sent) = run_until_nobody_can(size, buffers, steps);
    assert!(left.iter().all(VecDeque::is_empty), "all come to the end: {left:?}");
    assert!(sent.values().all(VecDeque::is_empty), "all that was sent is received: {sent:?}");
    memories
}

type Sent = HashMap<(usize, usize), VecDeque<String>>;

/// Returns buffers, the steps that are left, and messages that nobody has received, by sender and receiver.
fn run_until_nobody_can(
    size: usize,
    buffers: usize,
    steps: impl Fn(Member) -> Steps<usize>,
) -> (Vec<Memory>, Vec<VecDeque<Step<usize>>>, Sent) {
    let named = |rank: usize| (0..buffers).map(|buffer| format!("{rank}.{buffer}")).collect();
    let mut memories: Vec<Memory> = (0..size).map(named).collect();
    let mut left: Vec<VecDeque<Step<usize>>> = (0..size).map(|rank| steps(Member { size, rank }).into()).collect();
    let mut sent = Sent::new();
    let mut has_moved = true;
    while std::mem::take(&mut has_moved) {
        for rank in 0..size {
            while let Some(step) = left[rank].front().cloned() {
                match step {
                    Step::Send { to, data } => {
                        for place in to {
                            sent.entry((rank, place)).or_default().push_back(memories[rank][data].clone());
                        }
                    }
                    Step::Receive { from, into } => {
                        let Some(data) = sent.get_mut(&(from, rank)).and_then(VecDeque::pop_front) else { break };
                        memories[rank][into] = data;
                    }
                    Step::Copy { data, into } => memories[rank][into] = memories[rank][data].clone(),
                    Step::Combine { lower, higher } => {
                        memories[rank][higher] = format!("{}+{}", memories[rank][lower], memories[rank][higher]);
                    }
                }
                left[rank].pop_front();
                has_moved = true;
            }
        }
    }
    (memories, left, sent)
}

/// The data that `buffer` has at first at members, combined in their order.
fn all(members: std::ops::Range<usize>) -> String {
    members.map(|rank| format!("{rank}.0")).collect::<Vec<_>>().join("+")
}

#[test]
fn a_broadcast_reaches_all_from_any_root() {
    for size in 1..10 {
        for root in 0..size {
            let ends = run(size, 1, |member| member.broadcast(root, 0));
            assert!(ends.iter().all(|end| end[0] == format!("{root}.0")), "{size} members, root {root}: {ends:?}");
        }
    }
}

#[test]
fn nobody_passes_a_barrier_before_the_last_has_come() {
    for size in 2..10 {
        for late in 0..size {
            let steps = |member: Member| if member.rank == late { Vec::new() } else { member.barrier(0) };
            let (_, left, _) = run_until_nobody_can(size, 1, steps);
            assert!((0..size).all(|rank| rank == late || !left[rank].is_empty()), "{late} has not begun: {left:?}");
        }
        run(size, 1, |member| member.barrier(0));
    }
}

#[test]
fn data_are_combined_in_the_order_of_members_bit_by_bit_alike() {
    for size in 1..10 {
        for root in 0..size {
            let ends = run(size, 4, |member| member.reduce(root, 0, [1, 2], 3));
            assert_eq!(ends[root][3], all(0..size));
        }
        let ends = run(size, 4, |member| member.reduce_for_all(0, [1, 2], 3));
        assert!(ends.iter().all(|end| end[3] == all(0..size) && end[0].ends_with(".0")));
        let ends = run(size, 4, |member| member.prefix(true, 0, [1, 2], 3));
        assert!((0..size).all(|rank| ends[rank][3] == all(0..rank + 1)));
        let ends = run(size, 4, |member| member.prefix(false, 0, [1, 2], 3));
        assert!((1..size).all(|rank| ends[rank][3] == all(0..rank)));
        assert_eq!(ends[0][3], "0.3");
    }
}

#[test]
fn parts_come_where_they_belong() {
    for size in 1..7 {
        let (sent, received): (Vec<usize>, Vec<usize>) = ((0..size).collect(), (size..2 * size).collect());
        let ends = run(size, 2 * size, |member| member.exchange(Some(&sent), &received));
        for (rank, end) in ends.iter().enumerate() {
            assert!((0..size).all(|from| end[received[from]] == format!("{from}.{rank}")));
        }
        // In place: what is sent is sent before anything comes.
        let ends = run(size, size, |member| member.exchange(None, &sent));
        assert!((0..size).all(|rank| (0..size).all(|from| ends[rank][from] == format!("{from}.{rank}"))));
        let ends = run(size, 2 * size, |member| member.gather_for_all(Some(0), &received));
        assert!(ends.iter().all(|end| (0..size).all(|from| end[received[from]] == format!("{from}.0"))));
        for root in 0..size {
            let ends = run(size, 2 * size, |member| member.gather(root, Some(0), &received));
            assert!((0..size).all(|from| ends[root][received[from]] == format!("{from}.0")));
            let ends = run(size, size + 1, |member| member.scatter(root, Some(size), &sent));
            assert!((0..size).all(|rank| ends[rank][size] == format!("{root}.{rank}")));
        }
    }
}

#[test]
fn some_members_are_named_by_their_places() {
    let steps = among(Member { size: 2, rank: 0 }.broadcast(0, 7), &[4, 9]);
    assert_eq!(steps, [Step::Send { to: vec![9], data: 7 }]);
}

//! B04 to B06: clusters and owners.

use recommended_group::cluster::{cluster, dimension, owner};

/// The papers' definition.
fn recursive(i: u32, s: u32) -> Vec<u32> {
    let first = i ^ 1 << (s - 1);
    let rest = (1..s).flat_map(|t| recursive(first, t));
    std::iter::once(first).chain(rest).collect()
}

#[test]
fn b04_clusters_are_those_of_the_table_and_of_the_definition() {
    let table = [
        ["1", "0", "3", "2", "5", "4", "7", "6"],
        ["23", "32", "01", "10", "67", "76", "45", "54"],
        ["4567", "5476", "6745", "7654", "0123", "1032", "2301", "3210"],
    ];
    for (row, s) in table.iter().zip(1..) {
        for (text, i) in row.iter().zip(0..) {
            let members: String = cluster(i, s).map(|rank| rank.to_string()).collect();
            assert_eq!(members, *text, "c({i},{s})");
        }
    }
    for (i, s) in (0..64).flat_map(|i| (1..=6).map(move |s| (i, s))) {
        assert_eq!(cluster(i, s).collect::<Vec<_>>(), recursive(i, s), "c({i},{s})");
    }
    assert_eq!([1, 2, 3, 8, 9].map(dimension), [0, 1, 2, 3, 4]);
}

#[test]
fn b05_the_owner_is_the_first_recommended_process_of_the_smallest_cluster() {
    for dimension in 0..=4 {
        let count = 1_u32 << dimension;
        for bad in 0..1_u32 << count {
            let is_good = |rank: u32| bad >> rank & 1 == 0;
            for v in 0..count {
                let found = owner(v, dimension, is_good);
                let order = (1..=dimension).flat_map(|s| recursive(v, s));
                assert_eq!(found, std::iter::once(v).chain(order).find(|rank| is_good(*rank)));
                assert_eq!(found.is_none(), bad + 1 == 1 << count, "none only if nobody is recommended");
            }
        }
    }
}

#[test]
fn b06_the_papers_examples() {
    let without = |v, bad: &[u32]| owner(v, 3, |rank| !bad.contains(&rank));
    assert_eq!(without(4, &[4]), Some(5));
    assert_eq!(without(4, &[4, 5]), Some(6));
    // The papers' text says that nobody stands in for 4: it forgets 7.
    assert_eq!(without(4, &[4, 5, 6]), Some(7));
    // Process 3 does the work of slot 2 with process 6.
    assert_eq!((without(2, &[2]), without(2 ^ 4, &[2])), (Some(3), Some(6)));
    // The whole upper half is lost: two slots of it are with different processes.
    assert_eq!((without(4, &[4, 5, 6, 7]), without(5, &[4, 5, 6, 7])), (Some(0), Some(1)));
}

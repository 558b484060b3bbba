//! The ring order that keeps failure domains apart.

use std::collections::{BTreeMap, BTreeSet};

use propagation::RingOrder;
use propagation::topology::{Domains, TopologyError, from_file, from_host_names, longest_run, spread};

fn runs(order: &RingOrder, domains: &[Domains]) -> Vec<u32> {
    let universe = domains.len() as u32;
    let mut racks: BTreeMap<&String, BTreeSet<u32>> = BTreeMap::new();
    for (node, domain) in (0..).zip(domains) {
        racks.entry(&domain[0]).or_default().insert(node);
    }
    racks.values().map(|rack| longest_run(order, universe, rack)).collect()
}

#[test]
fn a_lost_rack_is_a_run_of_deaths_in_the_order_of_the_ids_and_single_deaths_in_the_spread_one() {
    let hosts: Vec<_> = (0..96).map(|node| format!("r{}n{:02}", node / 12, node % 12)).collect();
    let domains = from_host_names(&hosts.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(runs(&RingOrder::default(), &domains), [12; 8]);
    let order = spread(&domains);
    assert_eq!(runs(&order, &domains), [1; 8]);
    // Seven others are between any two of a rack, so two lost racks are runs of at most two.
    let lost = (0..96).filter(|node| [3, 4].contains(&(node / 12))).collect();
    assert!(longest_run(&order, 96, &lost) <= 2);
}

/// All ways of writing `total` as a sum, with the summands in falling order.
fn partitions(total: usize, largest: usize) -> Vec<Vec<usize>> {
    if total == 0 {
        return vec![vec![]];
    }
    let with = |first| partitions(total - first, first).into_iter().map(move |rest| [vec![first], rest].concat());
    (1..=largest.min(total)).flat_map(with).collect()
}

#[test]
fn no_lost_rack_is_a_run_longer_than_it_must_be_whatever_the_racks() {
    for universe in 1..=22 {
        for racks in partitions(universe, universe) {
            let of_rack = |(rack, &size)| std::iter::repeat_n(vec![format!("rack{rack:02}")], size);
            let domains: Vec<Domains> = (0..).zip(&racks).flat_map(of_rack).collect();
            let order = spread(&domains);
            // The others can cut the nodes of a rack into no more runs than there are others.
            let shortest = |size: usize| size.div_ceil((universe - size).clamp(1, size)) as u32;
            let expected: Vec<_> = racks.iter().map(|&size| shortest(size)).collect();
            assert_eq!(runs(&order, &domains), expected, "{racks:?}");
        }
    }
}

#[test]
fn where_racks_must_be_neighbours_their_switches_are_kept_apart() {
    let domains: Vec<Domains> = (0..12).map(|node| vec!["room".into(), format!("switch{}", node / 4)]).collect();
    let order = spread(&domains);
    for switch in 0..3 {
        let lost = (switch * 4..switch * 4 + 4).collect();
        assert_eq!(longest_run(&order, 12, &lost), 1);
    }
}

#[test]
fn host_names_tell_their_racks() {
    let domains = from_host_names(&["r12n04", "room1-rack2-n3.cluster", "node17", "login", "r12n05"]);
    assert_eq!(domains, [vec!["r12"], vec!["room1", "-rack2"], vec!["node17"], vec!["login"], vec!["r12"]]);
}

#[test]
fn a_file_tells_domains_line_by_line() {
    let text = "# our cluster\n\na  rack1/switch2\nb rack1/switch3 # new\nc rack2\n";
    let domains = from_file(text, &["c", "a"]).unwrap();
    assert_eq!(domains, [vec!["rack2"], vec!["rack1", "switch2"]]);
}

#[test]
fn bad_files_are_refused_in_one_sentence() {
    let refused = |text, hosts: &[&str]| from_file(text, hosts).unwrap_err().to_string();
    assert_eq!(
        refused("a r1\nb\n", &[]),
        "line 2 of the topology names no failure domain for the host b; write `b RACK`"
    );
    assert!(refused("a r1 r2", &[]).contains("line 1 of the topology goes on after the failure domain with `r2`"));
    assert!(refused("\na r1//s", &[]).contains("line 2 of the topology has the failure domain `r1//s`"));
    assert!(refused("a r1\n#\na r2", &[]).contains("line 3 of the topology names the host a again"));
    assert_eq!(from_file("a r1", &["a", "z"]), Err(TopologyError::Missing { host: "z".into() }));
}

#[test]
fn a_domain_of_very_many_parts_is_a_domain() {
    let deep = vec!["a"; 200_000].join("/");
    let text = format!("w {deep}/1\nx {deep}/1\ny {deep}/2\nz {deep}/2\n");
    let ring = spread(&from_file(&text, &["w", "x", "y", "z"]).unwrap());
    assert_eq!((0..4).map(|place| ring.node(place)).collect::<Vec<_>>(), [0, 2, 1, 3]);
}

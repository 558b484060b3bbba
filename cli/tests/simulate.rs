//! `ringwatch simulate` and `ringwatch reproduce`, as a user calls them.

use std::process::{Command, Output};

fn ringwatch(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringwatch")).args(arguments).output().expect("ringwatch starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn a_scenario_that_cannot_be_gets_one_sentence_and_status_2() {
    for (arguments, named) in [
        (&["--nodes", "0"][..], "number of nodes is 0"),
        (&["--nodes", "-3"], "-3"),
        (&["--nodes", "many"], "many"),
        (&["--nodes", "8", "--failures", "9"], "only 8 nodes"),
        (&["--nodes", "1000000", "--failures", "200000"], "take 768 GiB"),
        (&["--nodes", "1000000", "--mtbf", "1us"], "take 3841 GiB"),
        (&["--failures", "0"], "no failure"),
        (&["--failures", "-1"], "-1"),
        (&["--seed", "-1"], "from 0 to 18446744073709551615"),
        (&["--nodes", "8", "--fail", "8@0s"], "nodes are 0 to 7"),
        (&["--fail", "3@0s,3@1s"], "fail twice"),
        (&["--fail", "3@-1s"], "'3@-1s'"),
        (&["--fail", "3"], "such as 5@1.2s"),
        (&["--fail", "-3@1s"], "such as 5@1.2s"),
        (&["--timeout", "-1s"], "'-1s'"),
        (&["--timeout", "5"], "with its unit"),
        (&["--timeout", "50ms"], "longer than the heartbeat period"),
        (&["--tau", "0ms"], "tau is zero"),
        (&["--mtbf", "0s"], "mean time between failures is zero"),
        (&["--loss", "1"], "less than 1"),
        (&["--duplication", "NaN"], "from 0 to 1"),
        (&["--horizon", "1e300y"], "with its unit"),
        (&["--strategy", "gossip"], "gossip"),
        (&["--ring-order", "racks"], "ids, hosts, or the absolute path"),
        (&["--ring-order", "/nonexistent/racks"], "cannot be read"),
        (&["--hosts", "/etc/hosts"], "--hosts has no effect"),
        (&["--fail", "3@0s", "--within", "1s"], "'--fail <NODE@TIME>' cannot be used with '--within"),
        (&["--mtbf", "1y", "--within", "1s"], "'--mtbf <TIME>' cannot be used with '--within"),
        (&["--runs", "18446744073709551615"], "from 1 to 100000000"),
        (&["--within", "1s"], "--within has no effect"),
        (&["--runs", "2", "--threads", "1000000"], "from 1 to 1024"),
        (&["--threads", "2"], "--threads has no effect"),
        (&["--ring-order", "hosts", "--hosts", "/nonexistent/hosts"], "/nonexistent/hosts cannot be read"),
        (&["--log", "loud"], "[possible values: none, events, messages]"),
        (&["--horizon"], "'--horizon <TIME>'"),
        (&["--gossip"], "'--gossip'"),
        (&["5"], "'5'"),
    ] {
        let output = ringwatch(&[&["simulate"], arguments].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.starts_with("ringwatch: ") && told.contains(named), "{told}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_run_is_reported_and_the_same_every_time() {
    let arguments = ["simulate", "--nodes", "20", "--fail", "5@0s,6@100ms", "--seed", "7"];
    let output = ringwatch(&arguments);
    assert!(output.status.success());
    let told = text(&output.stdout);
    for part in ["node 5 dies", "node 7 declares node 6 dead", "the death of node 5 is known by all", "stable after"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert_eq!(ringwatch(&arguments), output);
    let quiet = ringwatch(&[&arguments[..], &["--quiet"]].concat());
    assert!(told.ends_with(text(&quiet.stdout)) && quiet.stdout.len() < output.stdout.len());
}

#[test]
fn many_runs_are_summed_up_alike_on_any_number_of_threads() {
    let play = |threads| ringwatch(&["simulate", "--nodes", "50", "--runs", "20", "--threads", threads]).stdout;
    let told = play("1");
    assert!(text(&told).contains("20 of 20 runs became stable"), "{}", text(&told));
    assert_eq!(play("3"), told);
}

#[test]
fn every_figure_is_drawn_and_compared() {
    let folder = std::env::temp_dir().join(format!("ringwatch-figures-{}", std::process::id()));
    let folder = folder.to_str().expect("a plain path");
    let output = ringwatch(&["reproduce", "--quick", "--runs", "3", "--largest", "64", "--out", folder]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = |name: String| std::fs::read_to_string(format!("{folder}/{name}")).expect("a file");
    let figures_4_and_5 =
        ["figure-4-lownoise", "figure-4-lowlat", "figure-5-lownoise", "figure-5-lownoise-failures", "figure-5-lowlat"];
    let simulated = [&figures_4_and_5[..], &["figure-6", "figure-7"]].concat();
    for name in ["figure-3", "section-3.4.2"].into_iter().chain(simulated.iter().copied()) {
        let (svg, csv) = (read(format!("{name}.svg")), read(format!("{name}.csv")));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.contains("quick: fewer runs"), simulated.contains(&name), "{name}");
        let width = csv.lines().next().expect("titles").split(',').count();
        assert!(csv.lines().count() > 2 && csv.lines().all(|line| line.split(',').count() == width), "{csv}");
    }
    let comparison = read("comparison.md".into());
    assert_eq!(comparison, text(&output.stdout));
    for figure in ["figure 3", "figure-4", "figure-5", "figure 6", "figure 7", "3.4.2"] {
        assert!(comparison.contains(figure), "{figure} is not in {comparison}");
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let output = ringwatch(&["reproduce", "3", "--out", "/proc/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/proc/nowhere"), "{}", text(&output.stderr));
    assert_eq!(ringwatch(&["reproduce", "8"]).status.code(), Some(2));
}

/// Sixteen nodes are a rack; in the order of the ids they are found one after the other.
#[test]
fn a_lost_rack_is_found_at_once_where_racks_are_kept_apart() {
    let rack: Vec<String> = (16..32).map(|node| format!("{node}@0s")).collect();
    let stable_after = |order: &str| {
        let output = ringwatch(&["simulate", "--quiet", "--ring-order", order, "--fail", &rack.join(",")]);
        let told = text(&output.stdout).to_owned();
        let after = told.lines().find_map(|line| line.strip_prefix("stable after ")?.split(' ').next()?.parse().ok());
        (after.unwrap_or_else(|| panic!("{told}")), told)
    };
    let (by_id, told): (f64, _) = stable_after("ids");
    assert!(by_id > 16.0 && told.contains("longest run of lost neighbours on the ring: 16"), "{told}");
    let (apart, told) = stable_after("hosts");
    assert!(apart < 1.1 && told.contains("longest run of lost neighbours on the ring: 1\n"), "{told}");
}

/// What was computed stays: the file is made whole again by the points that it lacks, and no others.
#[test]
fn a_reproduction_goes_on_where_it_was_interrupted() {
    let folder = std::env::temp_dir().join(format!("ringwatch-continued-{}", std::process::id()));
    let out = folder.to_str().expect("a plain path");
    let reproduce = |runs: &str| {
        let output = ringwatch(&["reproduce", "5", "--out", out, "--runs", runs, "--largest", "64"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        ["figure-5-lownoise.csv", "figure-5-lownoise.svg", "figure-5-lowlat.csv"]
            .map(|name| std::fs::read_to_string(folder.join(name)).expect("it was written"))
    };
    let whole = reproduce("20");
    let path = folder.join("figure-5-lownoise.csv");
    let lines: Vec<&str> = whole[0].lines().collect();
    assert_eq!(lines.len(), 3);
    std::fs::write(&path, format!("{}\n{}\n", lines[0], lines[2])).expect("the folder can be written");
    assert_eq!(reproduce("20"), whole, "the point of 32 nodes is there again, and the same");
    // A point that is there is taken as it is.
    let marked = lines[2].replacen(",20,0,", ",30,0,", 1);
    std::fs::write(&path, format!("{}\n{marked}\n", lines[0])).expect("the folder can be written");
    assert_eq!(reproduce("20")[0], format!("{}\n{}\n{marked}\n", lines[0], lines[1]));
    // One from fewer runs is not.
    assert_eq!(reproduce("40")[0].matches(",40,0,").count(), 2);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn points_of_another_version_are_computed_again_and_a_sentence_says_so() {
    let folder = std::env::temp_dir().join(format!("ringwatch-foreign-{}", std::process::id()));
    let path = folder.join("figure-5-lowlat.csv");
    let out = folder.to_str().expect("a plain path");
    let reproduce = || {
        let output = ringwatch(&["reproduce", "5", "--out", out, "--runs", "20", "--largest", "32"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let csv = std::fs::read_to_string(&path).expect("it was written");
        (csv, text(&output.stderr).contains("figure-5-lowlat.csv has from another version is computed again"))
    };
    let (csv, told) = reproduce();
    assert!(!told);
    assert_eq!(reproduce(), (csv.clone(), false));
    let (titles, row) = csv.trim_end().split_once('\n').expect("titles and a row");
    let (values, probe) = row.rsplit_once(',').expect("values");
    let other = format!("{}1", probe);
    let foreign = [
        format!("{titles}\n{values},{other}\n"),
        format!("nodes,runs\n{row}\n"),
        format!("{titles}\n{}\n", row.replacen("32,", "33,", 1)),
        format!("{titles}\n32,20,0,NaN{}\n", &values[values.match_indices(',').nth(3).expect("values").0..]),
        "\0\u{1}not a table".to_owned(),
    ];
    for text in foreign {
        std::fs::write(&path, &text).expect("the folder can be written");
        assert_eq!(reproduce(), (csv.clone(), true), "{text}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}

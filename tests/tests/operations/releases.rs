//! A job whose nodes have different releases of ringwatch, or of which some lack a part of it, is refused with one
//! sentence that names the nodes.
//!
//! The other release is a build of its own, with another version number; a host gets it, or an empty file, by a mount
//! that only the processes of that host see.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use system_tests::lab::run;
use system_tests::programs::{compile, compile_library};
use system_tests::{Job, Lab, in_lab};

/// Where `scripts/test` puts the other release, and what that calls itself.
const OTHER: &str = "/src/target/trixie/other/debug";
const OTHER_RELEASE: &str = "0.0.0-other";

/// The daemon that is installed.
const DAEMON: &str = "/usr/bin/ringwatchd";

/// The installed plugin, or its other component.
fn component(framework: &str) -> PathBuf {
    let text = run("pmix_info", &["--path", "pkglibdir"]);
    let folder = text.trim().rsplit(' ').next().expect("pmix_info prints a folder").to_owned();
    Path::new(&folder).join(format!("pmix_mca_{framework}_ringwatch.so"))
}

fn plugin() -> PathBuf {
    component("psensor")
}

/// The installed components of the ranks.
fn rank_components() -> Vec<PathBuf> {
    let text = run("ompi_info", &["--parsable", "--path", "pkglibdir"]);
    let folder = Path::new(text.trim().rsplit(':').next().expect("ompi_info prints a folder"));
    let files = ["hook", "coll", "osc", "io"].map(|framework| folder.join(format!("mca_{framework}_ringwatch.so")));
    assert!(files.iter().all(|file| file.exists()), "{files:?} are there");
    files.into()
}

/// What starts PRRTE's daemons so that on these hosts files of the other release stand in place of the installed ones.
fn agent(lab: &Lab, hosts: &[&str], places: &[(&str, &Path)]) -> PathBuf {
    let places: Vec<_> = places.iter().map(|(other, place)| (Path::new(OTHER).join(other), *place)).collect();
    agent_that_mounts(lab, hosts, &places)
}

/// The same with empty files.
fn agent_that_hides(lab: &Lab, hosts: &[&str], places: &[PathBuf]) -> PathBuf {
    let empty = lab.folder().join("empty");
    fs::write(&empty, "")
        .and_then(|()| fs::set_permissions(&empty, Permissions::from_mode(0o755)))
        .expect("a new folder");
    agent_that_mounts(lab, hosts, &places.iter().map(|place| (empty.clone(), place.as_path())).collect::<Vec<_>>())
}

fn agent_that_mounts(lab: &Lab, hosts: &[&str], places: &[(PathBuf, &Path)]) -> PathBuf {
    let path = lab.folder().join("agent");
    let mounts: Vec<String> =
        places.iter().map(|(other, place)| format!("mount --bind {} {}", other.display(), place.display())).collect();
    let text = format!(
        "#!/bin/bash\nfor word; do case $word in {}) exec unshare --mount -- bash -c '{} && exec rw-ssh \"$@\"' agent \"$@\" ;; esac; done\n\
         exec rw-ssh \"$@\"\n",
        hosts.join("|"),
        mounts.join(" && ")
    );
    fs::write(&path, text).expect("a new folder can be written");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("the file is ours");
    path
}

/// Runs a job on such hosts; returns the one sentence with which it is refused.
fn refused(lab: &Lab, hosts: &[&str], places: &[(&str, &Path)]) -> String {
    refused_job(lab, Job::new(), hosts, places)
}

fn refused_job(lab: &Lab, job: Job, hosts: &[&str], places: &[(&str, &Path)]) -> String {
    started_in_vain(lab, &job.agent(&agent(lab, hosts, places)), 1)
}

/// Runs a job of which no rank leaves `MPI_Init`; returns the one sentence that says why.
fn started_in_vain(lab: &Lab, job: &Job, status: i32) -> String {
    // Less than a node may take to report to the node of mpirun.
    let job = job.clone().limit(Duration::from_secs(25));
    let outcome = job.arguments(&["--op", "allreduce", "--hold"]).run(lab);
    outcome.require(outcome.status == status, &format!("mpirun's status is {status}"));
    outcome.require(outcome.diaries.all("initialised").next().is_none(), "no rank leaves MPI_Init");
    let sentences = outcome.sentences();
    outcome.require(sentences.len() == 1, &format!("one sentence says why, not {sentences:?}"));
    outcome.left_nothing();
    sentences[0].to_owned()
}

/// Ranks with ringwatch's defaults and ranks without do not understand each other: of nodes that lack it, or a part of
/// it, no rank leaves `MPI_Init`, and neither does one of another node.
#[test]
fn a_node_that_lacks_ringwatch_or_a_part_of_it_is_named_before_a_rank_leaves_init() {
    in_lab(|lab| {
        let (daemon, ranks, plugin) = (vec![DAEMON.into()], rank_components(), ["psensor", "pnet"].map(component));
        let all = [&daemon[..], &ranks, &plugin].concat();
        let told = |hidden: &[PathBuf], hosts: &[&str], status| {
            let job = Job::new().agent(&agent_that_hides(lab, hosts, hidden));
            started_in_vain(lab, &job, status)
        };
        let lacks = "no ringwatch that fits its PMIx and PRRTE";
        let several = told(&all, &["h2", "h4"], 2);
        assert!(several.contains(&format!("node 1 (h2), node 3 (h4) have {lacks}")), "{several}");
        for hidden in [&all[..], &plugin, &plugin[1..]] {
            let told = told(hidden, &["h3"], 2);
            assert!(told.contains(&format!("node 2 (h3) has {lacks}")), "{told}");
        }
        let of_daemon = told(&daemon, &["h3"], 1);
        assert!(of_daemon.contains("node 2 (h3) has a plugin of"), "{of_daemon}");
        let of_ranks = told(&ranks, &["h2", "h3"], 1);
        let named = "on node 1 (h2, ranks 2, 3), node 2 (h3, ranks 4, 5) Open MPI does not open the components";
        assert!(of_ranks.contains(named), "{of_ranks}");
    });
}

/// A copy of the folder without its links, as `rsync -r` makes it.
#[test]
fn a_node_that_lacks_some_of_the_components_of_ranks_is_named_before_a_rank_leaves_init() {
    in_lab(|lab| {
        let links = &rank_components()[1..];
        let installed = links[0].parent().expect("a file has a folder");
        let copy = lab.folder().join("components");
        run("cp", &["-a", &installed.display().to_string(), &copy.display().to_string()]);
        for link in links {
            fs::remove_file(copy.join(link.file_name().expect("a file has a name"))).expect("the copy is ours");
            let agent = agent_that_mounts(lab, &["h3"], &[(copy.clone(), installed)]);
            let told = started_in_vain(lab, &Job::new().agent(&agent), 1);
            assert!(told.contains(LACKS), "{told}");
        }
    });
}

/// A parameter file of one node excludes a component.
#[test]
fn a_node_whose_parameters_exclude_a_component_of_ranks_is_named_before_a_rank_leaves_init() {
    in_lab(|lab| {
        let installed = Path::new("/etc/openmpi/openmpi-mca-params.conf");
        let copy = lab.folder().join("parameters");
        let present = fs::read_to_string(installed).expect("the package has this file");
        for framework in ["hook", "coll"] {
            fs::write(&copy, format!("{present}\n{framework} = ^ringwatch\n")).expect("the copy is ours");
            let agent = agent_that_mounts(lab, &["h3"], &[(copy.clone(), installed)]);
            let told = started_in_vain(lab, &Job::new().agent(&agent), 1);
            assert!(told.contains(LACKS), "{framework}: {told}");
        }
    });
}

/// What is said of a node of whose ranks components are missing.
const LACKS: &str = "on node 2 (h3, ranks 4, 5) Open MPI does not open the components";

/// Also where all ranks of a spawned job are on that node, and no other rank is.
#[test]
fn a_node_without_the_components_is_named_when_processes_are_spawned_there_alone() {
    in_lab(|lab| {
        let hidden = agent_that_hides(lab, &["h3"], &rank_components());
        let program = compile("elsewhere", "mpicc").display().to_string();
        let job = Job::new().on(&["h1", "h2", "h3"], 2).ranks(4).agent(&hidden).program(&[&program, "h3:2"]);
        let outcome = job.limit(Duration::from_secs(25)).run(lab);
        outcome.require(outcome.status == 1, "mpirun's status is 1");
        let named = "on node 2 (h3, ranks 4, 5) Open MPI does not open the components";
        let sentences = outcome.sentences();
        outcome.require(sentences.len() == 1 && sentences[0].contains(named), &format!("{named}, not {sentences:?}"));
        outcome.left_nothing();
    });
}

/// Where no rank has the components, whose node has them or not, all have the same defaults.
#[test]
fn nodes_that_all_lack_the_same_run() {
    in_lab(|lab| {
        let ranks = rank_components();
        let hidden = agent_that_hides(lab, &["h2", "h3"], &ranks);
        // Without ranks on the node of mpirun.
        let job = Job::new().on(&["h2", "h3"], 2).launched_from("h1").agent(&hidden);
        let outcome = job.arguments(&["--op", "none"]).run(lab);
        outcome.require(outcome.status == 0, "mpirun's exit status is 0");
        for rank in 0..4 {
            outcome.finalized(rank);
        }
        outcome.left_nothing();
    });
}

/// Of a PMIx that it was not built for, or a PRRTE that it does not know, the plugin says so, and the job is one of
/// stock.
#[test]
fn a_plugin_in_a_release_that_it_cannot_serve_leaves_the_job_alone() {
    in_lab(|lab| {
        let library = compile_library("releases", "gcc").display().to_string();
        // PRRTE itself refuses daemons of another release.
        for (job, variable, release, said) in [
            (Job::new(), "OTHER_PMIX", "OpenPMIx 5.0.6", "is loaded into 'OpenPMIx 5.0.6'"),
            (Job::new().on(&["h1"], 2), "OTHER_PRRTE", "4.1.0", "ringwatch knows PRRTE 3.0, this is 4.1.0"),
        ] {
            let job = job.environment("LD_PRELOAD", &library).environment(variable, release);
            let mut job = job.arguments(&["--op", "allreduce", "--hold"]).start(lab);
            job.wait_until_blocked();
            if job.processes().iter().any(|process| process.name == "ringwatchd") {
                job.fail("no node has a ringwatchd");
            }
            job.end();
            let outcome = job.finish();
            outcome.require(outcome.status == 0, "mpirun's exit status is 0");
            let done = |rank: &u32| outcome.diaries.has(*rank, "done");
            outcome.require(outcome.survivors(&[]).iter().all(done), "every rank comes to its end");
            let sentences = outcome.sentences();
            let is_said = |sentence: &&str| sentence.contains(said) && sentence.ends_with("runs as without ringwatch");
            outcome
                .require(sentences.len() == 1 && sentences.iter().all(is_said), &format!("{said}, not {sentences:?}"));
            outcome.left_nothing();
        }
    });
}

/// Of a function that Open MPI lacks the component says what is as without ringwatch; all else is as before.
#[test]
fn a_function_that_open_mpi_lacks_turns_one_feature_off() {
    in_lab(|lab| {
        let library = format!("LD_PRELOAD={}", compile_library("lacks", "gcc").display());
        let job = Job::new().options(&["-x", &library, "-x", "LACKED=ompi_intercomm_create"]);
        let mut job = job.blocked_in("allreduce", &[2]).start(lab);
        job.wait_until_blocked();
        let _ = job.signal_rank(2, libc::SIGKILL);
        let outcome = job.finish();
        let said =
            ["ringwatch: this Open MPI has no ompi_intercomm_create: MPI_Intercomm_create may hang after a death"];
        outcome.require(outcome.sentences() == said, &format!("{said:?}, not {:?}", outcome.sentences()));
        outcome.recovered(&[2]).left_nothing();
    });
}

#[test]
fn releases_that_differ_between_hosts_are_refused_naming_the_hosts() {
    in_lab(|lab| {
        let (plugin, daemon) = (plugin(), Path::new(DAEMON));
        let places = [("libringwatch_pmix.so", plugin.as_path()), ("ringwatchd", daemon)];
        let told = refused(lab, &["h2", "h4"], &places);
        for part in
            ["node 1 (h2) has 0.0.0-other", "node 3 (h4) has 0.0.0-other", "install the same release on every node"]
        {
            assert!(told.contains(part), "'{part}' is in '{told}'");
        }
        assert!(!told.contains("node 2"), "h3 is as it should be: {told}");
    });
}

#[test]
fn releases_of_a_plugin_alone_or_a_daemon_alone_are_refused_naming_the_host() {
    in_lab(|lab| {
        let told = refused(lab, &["h3"], &[("libringwatch_pmix.so", &plugin())]);
        assert!(told.contains(&format!("node 2 (h3) has a plugin of {OTHER_RELEASE} and a ringwatchd ")), "{told}");
        let told = refused(lab, &["h3"], &[("ringwatchd", Path::new(DAEMON))]);
        assert!(told.contains("node 2 (h3) has a plugin of "), "{told}");
        assert!(told.contains(&format!("and a ringwatchd {OTHER_RELEASE}: ")), "{told}");
    });
}

/// A job goes on with the release with which it has begun, also where another one is installed meanwhile.
#[test]
fn a_release_that_is_replaced_while_a_job_runs_serves_that_job_to_its_end() {
    in_lab(|lab| {
        let installed = lab.folder().join("ringwatchd");
        let put = |from: &str| {
            let new = installed.with_extension("new");
            fs::copy(from, &new).and_then(|_| fs::rename(&new, &installed)).expect("a new folder can be written");
        };
        put(DAEMON);
        let job = Job::new().parameter("daemon", &installed.display().to_string()).blocked_in("allreduce", &[5]);
        let mut job = job.start(lab);
        job.wait_until_blocked();
        let program = |pid: i32| fs::metadata(format!("/proc/{pid}/exe")).expect("the process lives").ino();
        let first = program(job.watcher("h3").pid);
        put(&format!("{OTHER}/ringwatchd"));
        job.replaces_watcher("h3", libc::SIGKILL);
        if program(job.watcher("h3").pid) != first {
            job.fail("the ringwatchd that comes next is that of the launch");
        }
        let _ = job.signal_rank(5, libc::SIGKILL);
        job.finish().recovered(&[5]);
    });
}

#[test]
fn another_release_on_the_machine_that_serves_a_host_is_refused_naming_both() {
    in_lab(|lab| {
        let job = Job::new().on(&["h1", "h2", "h3"], 2).parameter("offload", "h3=h4");
        let told = refused_job(lab, job, &["h4"], &[("ringwatchd", Path::new(DAEMON))]);
        let names = format!("node 2 (h4, which is to serve h3) has {OTHER_RELEASE}: install the same release");
        assert!(told.contains(&names), "{told}");
    });
}

#[test]
fn releases_that_differ_on_the_node_of_mpirun_are_refused_before_anything_is_launched() {
    in_lab(|lab| {
        let job = Job::new().parameter("daemon", &format!("{OTHER}/ringwatchd"));
        let outcome = job.run(lab);
        outcome.require(outcome.status != 0, "mpirun's status is not 0");
        let told = outcome.stderr.trim();
        let says = told.contains("h1 has a plugin of ringwatch ") && told.contains("nothing was launched");
        outcome.require(says && told.lines().count() == 1, "one sentence says why");
        outcome.require(told.contains(OTHER_RELEASE), "and which release the daemon is");
        outcome.left_nothing();
    });
}

//! A job whose nodes have different releases of ringwatch is refused with one sentence that names the nodes.
//!
//! The other release is a build of its own, with another version number; a host gets it by a mount that only the
//! processes of that host see.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use system_tests::job::compile_library;
use system_tests::lab::run;
use system_tests::{Job, Lab, in_lab};

/// Where `scripts/test` puts the other release, and what that calls itself.
const OTHER: &str = "/src/target/trixie/other/debug";
const OTHER_RELEASE: &str = "0.0.0-other";

/// The installed plugin.
fn plugin() -> PathBuf {
    let text = run("pmix_info", &["--path", "pkglibdir"]);
    let folder = text.trim().rsplit(' ').next().expect("pmix_info prints a folder").to_owned();
    Path::new(&folder).join("pmix_mca_psensor_ringwatch.so")
}

/// What starts PRRTE's daemons so that on these hosts other files stand in place of the installed ones.
fn agent(lab: &Lab, hosts: &[&str], places: &[(&str, &Path)]) -> PathBuf {
    let path = lab.folder().join("agent");
    let mounts: Vec<String> =
        places.iter().map(|(other, place)| format!("mount --bind {OTHER}/{other} {}", place.display())).collect();
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
    let outcome = job.agent(&agent(lab, hosts, places)).arguments(&["--op", "allreduce", "--hold"]).run(lab);
    outcome.require(outcome.status == 1, "mpirun's status is 1");
    outcome.require(outcome.diaries.all("done").next().is_none(), "no rank comes to its end");
    let sentences = outcome.sentences();
    outcome.require(sentences.len() == 1, &format!("one sentence says why, not {sentences:?}"));
    outcome.left_nothing();
    sentences[0].to_owned()
}

/// Of a PMIx that it was not built for, or a PRRTE that it does not know, the plugin says so, and the job is one of stock.
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

#[test]
fn releases_that_differ_between_hosts_are_refused_naming_the_hosts() {
    in_lab(|lab| {
        let (plugin, daemon) = (plugin(), Path::new("/usr/bin/ringwatchd"));
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
        let told = refused(lab, &["h3"], &[("ringwatchd", Path::new("/usr/bin/ringwatchd"))]);
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
        put("/usr/bin/ringwatchd");
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
        let told = refused_job(lab, job, &["h4"], &[("ringwatchd", Path::new("/usr/bin/ringwatchd"))]);
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

//! `ringwatch check` finds what keeps nodes from a job, before there is one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use system_tests::lab::run;
use system_tests::{Lab, in_lab};

/// The remote shell of the tests, with what is planted on each host; `$command` is what it shall run there.
const AGENT: &str = r#"#!/bin/bash
host=$1; shift; command=$*
to() { rw-ssh "$host" "$@"; }
case $host in
HOSTS
*) to "$command" ;;
esac
"#;

/// What `ringwatch check` on h1 says of these hosts, and whether it finds no fault; with `parameters` in the user's file.
fn check(lab: &Lab, hosts: &str, planted: &str, parameters: &str) -> (bool, String) {
    let folder = lab.folder();
    fs::create_dir(folder.join(".pmix")).expect("the folder can be written");
    fs::write(folder.join(".pmix/mca-params.conf"), parameters).expect("the folder can be written");
    let (agent, file) = (folder.join("agent"), folder.join("hosts"));
    fs::write(&agent, AGENT.replace("HOSTS", planted)).expect("the agent can be written");
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("it can be made a program");
    fs::write(&file, hosts.replace(' ', " slots=2\n")).expect("the hostfile can be written");
    let words = ["h1", "ringwatch", "check", "--agent", &agent.display().to_string()].map(str::to_owned);
    let output = Command::new("rw-on").args(words).arg(&file).env("HOME", &folder).output().expect("rw-on runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// The sentences about faults, without the table and the notes.
fn faults(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| line.split(' ').next().is_some_and(|word| word.ends_with(':') && word != "note:"))
        .collect()
}

#[test]
fn each_planted_fault_is_one_sentence_and_nodes_that_are_well_have_none() {
    in_lab(|lab| {
        let parameters = "psensor_ringwatch_port_range = 40000-40099\npsensor_ringwatch_transport = verbs\n";
        let (is_well, text) = check(lab, "h1 h2 h3 h4 ", "", parameters);
        assert!(is_well && faults(&text).is_empty(), "{text}");
        assert_eq!(
            text.lines().filter(|line| line.starts_with("note: h") && line.contains("RoCE v2")).count(),
            4,
            "{text}"
        );
        assert_eq!(text.lines().filter(|line| line.contains(" 3/3 ")).count(), 4, "{text}");

        let other = lab.folder().join("other");
        fs::create_dir_all(&other).expect("a folder");
        fs::write(other.join("ringwatchd"), "#!/bin/sh\necho ringwatchd 0.0.0-other\n").expect("another release");
        fs::set_permissions(other.join("ringwatchd"), fs::Permissions::from_mode(0o755)).expect("a program");
        let component = run("find", &["/usr/lib", "-name", "mca_hook_ringwatch.so"]);
        assert!(Path::new(component.trim()).exists());
        let planted = format!(
            r#"h1) to "setpriv --bounding-set -all --inh-caps -all $command" ;;
h2) to "PATH={}:\$PATH; $command" ;;
h3) to "unshare --mount bash -c 'mount -t tmpfs -o size=1m full /dev/shm; mount --bind /dev/null {}; $command'" ;;
h4) to "$command" | sed -u 's/"clock_us":1/"clock_us":2/' ;;"#,
            other.display(),
            component.trim(),
        );
        let (is_well, text) = check(lab, "h1 h2 h3 h4 h9 ", &planted, "");
        assert!(!is_well);
        assert!(text.contains("note: h1: ringwatchd has no real-time priority"), "{text}");
        let found = faults(&text);
        for expected in [
            "h2: ringwatchd is of release 0.0.0-other",
            "h3: mca_hook_ringwatch.so",
            "h3: /dev/shm has 1024 KiB free",
            "h4: its clock is",
            "h9: it does not answer (rw-on: there is no virtual host h9)",
        ] {
            assert_eq!(found.iter().filter(|line| line.starts_with(expected)).count(), 1, "{expected}: {text}");
        }
        assert_eq!(found.len(), 5, "{text}");

        lab.cut("h4");
        let (is_well, text) = check(lab, "h1 h2 h4 ", "", "");
        assert!(!is_well);
        let found = faults(&text);
        assert_eq!(found.len(), 3, "{text}");
        assert!(found[0].starts_with("h1: UDP datagrams from h4 do not arrive"), "{text}");
        assert!(found[2].starts_with("h4: UDP datagrams from h1, h2 do not arrive"), "{text}");
        lab.heal("h4");

        let (is_well, text) = check(lab, "h1 h2 ", "", "psensor_ringwatch_if_include = eth9\n");
        assert!(!is_well);
        assert!(faults(&text).iter().all(|line| line.contains("no interface has an IPv4 address")), "{text}");
        assert_eq!(faults(&text).len(), 2, "{text}");
        let (is_well, text) = check(lab, "h1 ", "", "psensor_ringwatch_port_range = some\n");
        assert!(!is_well && text.contains("parameter psensor_ringwatch_port_range: it must be two ports"), "{text}");
    });
}

//! Parameters are MCA parameters: listed by `pmix_info`, settable by environment, parameter file and command line for
//! all nodes; a value out of range stops the launch.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use system_tests::clock::wait_until;
use system_tests::lab::run;
use system_tests::process::{frames_sent, lives};
use system_tests::{Job, Lab, Running, in_lab};

/// All parameters, with their defaults as `pmix_info` shows them.
const DEFAULTS: [(&str, &str); 17] = [
    ("enable", "true"),
    ("period", "100ms"),
    ("timeout", "10"),
    ("stop_timeout", "2s"),
    ("fence", "true"),
    ("if_include", ""),
    ("transport", "auto"),
    ("ring_order", "ids"),
    ("strategy", "circulant"),
    ("offload", ""),
    ("event_loggers", "auto"),
    ("port_range", "0"),
    ("log_level", "warn"),
    ("log", "stderr"),
    ("events", "last"),
    ("loss_program", ""),
    ("daemon", ""),
];

fn number(host: &str, name: &str) -> u64 {
    let text = run("rw-on", &[host, "ringwatch", "status", "--json"]);
    let reports: Value = serde_json::from_str(&text).expect("the status is JSON");
    reports[0][name].as_u64().unwrap_or_else(|| panic!("{name} is a number in {text}"))
}

/// A job that goes on until it is told to end, with no parameter on its command line.
fn plain() -> Job {
    Job::new().with_default_times().arguments(&["--op", "allreduce", "--hold"])
}

fn started(lab: &Lab, job: Job) -> Running<'_> {
    let mut job = job.start(lab);
    job.wait_until_blocked();
    job
}

/// The times in microseconds that every node has, and then the end of the job.
fn times_everywhere(mut job: Running<'_>, period: u64, timeout: u64) {
    for host in ["h1", "h2", "h3", "h4"] {
        let found = (number(host, "period_us"), number(host, "timeout_us"));
        if found != (period, timeout) {
            job.fail(&format!("period and timeout on {host} are {period} and {timeout} us, not {found:?}"));
        }
    }
    assert!(job.runs());
    job.end();
    job.finish().finished_without(&[]);
}

/// A parameter file, put back as it was at the end.
struct ParameterFile {
    path: PathBuf,
    before: Option<String>,
}

impl ParameterFile {
    fn with(path: PathBuf, lines: &str) -> Self {
        let before = fs::read_to_string(&path).ok();
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("the folder can be made");
        fs::write(&path, before.clone().unwrap_or_default() + "\n" + lines).expect("the file can be written");
        Self { path, before }
    }

    fn of_the_user(lines: &str) -> Self {
        Self::with(PathBuf::from("/root/.pmix/mca-params.conf"), lines)
    }

    fn of_the_system(lines: &str) -> Self {
        let text = run("pmix_info", &["--path", "sysconfdir"]);
        let folder = text.trim().rsplit(' ').next().expect("pmix_info prints a folder").to_owned();
        Self::with(PathBuf::from(folder).join("pmix-mca-params.conf"), lines)
    }
}

impl Drop for ParameterFile {
    fn drop(&mut self) {
        let _ = match &self.before {
            Some(text) => fs::write(&self.path, text),
            None => fs::remove_file(&self.path),
        };
    }
}

#[test]
fn pmix_info_lists_every_parameter() {
    let text = run("pmix_info", &["--parsable", "--param", "psensor", "ringwatch"]);
    for (name, default) in DEFAULTS {
        let full = format!("psensor_ringwatch_{name}");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(&format!("{full}:"))).collect();
        assert!(
            lines.iter().any(|line| line.ends_with(&format!(":value:{default}"))),
            "{full} is '{default}' in\n{text}"
        );
        let help = lines.iter().find_map(|line| line.split_once(":help:")).map_or("", |(_, help)| help);
        assert!(help.len() > 20, "{full} has a help text in\n{text}");
    }
}

#[test]
fn the_defaults_are_those_of_the_manual() {
    in_lab(|lab| times_everywhere(started(lab, plain()), 100_000, 1_000_000));
}

#[test]
fn set_on_the_command_line() {
    in_lab(|lab| {
        let job = plain().parameter("period", "30ms").parameter("timeout", "20");
        times_everywhere(started(lab, job), 30_000, 600_000);
    });
}

#[test]
fn set_in_the_environment() {
    in_lab(|lab| {
        let job = plain()
            .environment("PMIX_MCA_psensor_ringwatch_period", "0.04s")
            .environment("PMIX_MCA_psensor_ringwatch_timeout", "500000us");
        times_everywhere(started(lab, job), 40_000, 500_000);
    });
}

#[test]
fn set_in_the_parameter_file_of_the_user() {
    in_lab(|lab| {
        let _file = ParameterFile::of_the_user("psensor_ringwatch_period = 50ms\n");
        times_everywhere(started(lab, plain()), 50_000, 500_000);
    });
}

#[test]
fn set_in_the_parameter_file_of_the_system() {
    in_lab(|lab| {
        let _file = ParameterFile::of_the_system("psensor_ringwatch_timeout = 2s\n");
        times_everywhere(started(lab, plain()), 100_000, 2_000_000);
    });
}

#[test]
fn the_command_line_goes_before_the_environment_and_that_before_the_file() {
    in_lab(|lab| {
        let _file = ParameterFile::of_the_user("psensor_ringwatch_period = 50ms\npsensor_ringwatch_timeout = 700ms\n");
        let job = plain()
            .environment("PMIX_MCA_psensor_ringwatch_period", "40ms")
            .environment("PMIX_MCA_psensor_ringwatch_timeout", "600ms")
            .parameter("period", "30ms");
        times_everywhere(started(lab, job), 30_000, 600_000);
    });
}

/// A launch that is refused: one sentence with parameter, value and range, a status, and no rank.
fn is_refused(lab: &Lab, job: Job, words: &[&str]) {
    let outcome = job.arguments(&["--op", "none"]).run(lab);
    outcome.require(outcome.diaries.0.is_empty(), "no rank is started");
    outcome.was_refused(words);
}

#[test]
fn values_out_of_range_stop_the_launch() {
    in_lab(|lab| {
        // A program that everybody may write.
        fs::write("/tmp/system-tests/loss", "#!/bin/sh\n").expect("the folder can be written");
        fs::set_permissions("/tmp/system-tests/loss", PermissionsExt::from_mode(0o777)).expect("it is ours");
        for (name, value, range) in [
            ("enable", "perhaps", "true or false"),
            ("period", "0.5ms", "1ms"),
            ("period", "2min", "1min"),
            ("period", "10", "unit"),
            ("period", "fast", "unit"),
            ("timeout", "2", "300ms"),
            ("timeout", "1h", "10min"),
            ("stop_timeout", "1ms", "10ms"),
            ("stop_timeout", "never", "unit"),
            ("fence", "maybe", "true or false"),
            ("ring_order", "racks", "ids, hosts, or the absolute path"),
            ("ring_order", "/nonexistent/racks", "cannot be read"),
            ("strategy", "star", "circulant, tree"),
            ("port_range", "80-90", "1024"),
            ("port_range", "5000-4000", "1024"),
            ("log_level", "loud", "error, warn, info, debug, trace"),
            ("offload", "h3", "HOST=MACHINE"),
            ("log", "ring.log", "stderr or an absolute path"),
            ("events", "history.jsonl", "an absolute path"),
            ("transport", "pigeon", "auto"),
            ("event_loggers", "many", "0 to 8"),
            ("loss_program", "mail", "it must be an absolute path"),
            ("loss_program", "/tmp/system-tests/loss", "can be changed by other users"),
            ("port_range", "70000-70001", "1024"),
        ] {
            let job = Job::new().with_default_times().parameter(name, value);
            is_refused(lab, job, &[&format!("psensor_ringwatch_{name}"), &format!("'{value}'"), range]);
        }
    });
}

#[test]
fn a_value_out_of_range_in_the_environment_stops_the_launch() {
    in_lab(|lab| {
        let job = Job::new().with_default_times().environment("PMIX_MCA_psensor_ringwatch_period", "1us");
        is_refused(lab, job, &["psensor_ringwatch_period", "'1us'", "1ms"]);
    });
}

#[test]
fn a_value_out_of_range_in_a_file_stops_the_launch() {
    in_lab(|lab| {
        let _file = ParameterFile::of_the_user("psensor_ringwatch_timeout = 1ms\n");
        is_refused(lab, Job::new().with_default_times(), &["psensor_ringwatch_timeout", "'1ms'", "300ms"]);
    });
}

/// An interface that no node has cannot be used any more than a time out of range.
#[test]
fn an_interface_that_is_not_there_stops_the_launch() {
    in_lab(|lab| {
        is_refused(
            lab,
            Job::new().with_default_times().parameter("if_include", "eth7"),
            &["psensor_ringwatch_if_include", "eth7"],
        );
    });
}

#[test]
fn a_subnet_that_no_node_is_in_stops_the_launch() {
    in_lab(|lab| {
        let job = Job::new().with_default_times().parameter("if_include", "192.168.77.0/24");
        is_refused(lab, job, &["psensor_ringwatch_if_include", "192.168.77.0/24"]);
    });
}

/// What only another node than mpirun's cannot do is known when that node is asked to.
#[test]
fn an_interface_that_one_node_lacks_ends_the_job_naming_it() {
    in_lab(|lab| {
        let job = Job::new().parameter("if_include", "10.77.0.1/32,10.77.0.2/31,10.77.0.77");
        let words = ["node 3 (h4) cannot take part", "psensor_ringwatch_if_include", "10.77.0.77"];
        job.arguments(&["--op", "allreduce", "--hold"]).run(lab).gave_up(&words);
    });
}

#[test]
fn a_port_that_one_node_lacks_ends_the_job_naming_it() {
    in_lab(|lab| {
        let take = "import socket, sys; taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
                    taken.bind(('', 41000)); print(flush=True); sys.stdin.read()";
        let mut other = Command::new("rw-on")
            .args(["h3", "python3", "-c", take])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("rw-on can be started");
        let ready = other.stdout.take().expect("it is piped").read_exact(&mut [0]);
        ready.expect("the port is taken");
        let job = Job::new().parameter("port_range", "41000-41000").arguments(&["--op", "allreduce", "--hold"]);
        let outcome = job.run(lab);
        drop(other.stdin.take());
        other.wait().expect("it ends with its input");
        outcome.gave_up(&["node 2 (h3) cannot take part", "41000", "psensor_ringwatch_port_range"]);
    });
}

/// A daemon that is not there cannot watch.
#[test]
fn a_daemon_that_is_not_there_stops_the_launch() {
    in_lab(|lab| {
        is_refused(
            lab,
            Job::new().with_default_times().parameter("daemon", "/nonexistent/ringwatchd"),
            &["psensor_ringwatch_daemon", "/nonexistent/ringwatchd"],
        );
    });
}

/// One half of the plugin could not keep what it promises.
#[test]
fn a_component_of_the_plugin_that_is_left_out_stops_the_launch() {
    in_lab(|lab| {
        for (framework, other) in [("psensor", "pnet"), ("pnet", "psensor")] {
            let job = Job::new().with_default_times().options(&["--pmixmca", framework, "^ringwatch"]);
            is_refused(lab, job, &[&format!("{framework}/ringwatch is left out"), other]);
            let _file = ParameterFile::of_the_user(&format!("{framework} = ^ringwatch\n"));
            is_refused(lab, plain(), &[&format!("{framework}/ringwatch is left out"), other]);
        }
    });
}

#[test]
fn ports_are_taken_from_the_range() {
    in_lab(|lab| {
        let job = started(lab, plain().parameter("port_range", "41000-41003"));
        for host in ["h1", "h2", "h3", "h4"] {
            let port = job.port(host);
            if !(41000..=41003).contains(&port) {
                job.fail(&format!("the port of {host} is from 41000 to 41003, not {port}"));
            }
        }
        job.end();
        job.finish().finished_without(&[]);
    });
}

/// A port that somebody else has is passed over.
#[test]
fn a_port_of_the_range_that_is_taken_is_passed_over() {
    in_lab(|lab| {
        let holder = "import socket,time; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('0.0.0.0',41000)); time.sleep(60)";
        let mut child = std::process::Command::new("rw-on")
            .args(["h3", "python3", "-c", holder])
            .spawn()
            .expect("python3 is there");
        let pid = i32::try_from(child.id()).expect("process numbers are small");
        assert!(wait_until(Duration::from_secs(10), || system_tests::process::udp_ports(pid) == [41000].into()));
        let job = started(lab, plain().parameter("port_range", "41000-41001"));
        let ports = ["h1", "h3"].map(|host| job.port(host));
        child.kill().and_then(|()| child.wait()).expect("it can be killed");
        assert!(!lives(pid));
        if ports != [41000, 41001] {
            job.fail(&format!("h3 passes port 41000 over: {ports:?}"));
        }
        job.end();
        job.finish().finished_without(&[]);
    });
}

/// Frames that a host sends over each interface while heartbeats flow for a while.
fn frames(job: &Running<'_>, host: &str) -> [u64; 2] {
    let pid = job.watcher(host).pid;
    let count = || ["eth0", "eth1"].map(|interface| frames_sent(pid, interface));
    let before = count();
    std::thread::sleep(Duration::from_millis(1000));
    let after = count();
    [after[0] - before[0], after[1] - before[1]]
}

/// Heartbeats take the interface that is named, by name or by subnet, whatever MPI takes.
#[test]
fn heartbeats_take_the_interface_that_is_named() {
    in_lab(|lab| {
        lab.second_network();
        for named in ["eth1", "10.88.0.0/24"] {
            // Nobody is in MPI: what flows is heartbeats.
            let job = Job::new().parameter("if_include", named).blocked_in("recv", &[0]).arguments(&["--die", "exit0"]);
            let job = started(lab, job);
            let [_, second] = frames(&job, "h3");
            // One heartbeat every 20 ms.
            if !(25..=100).contains(&second) {
                job.fail(&format!("with {named} about 50 frames a second leave by eth1, not {second}"));
            }
            job.go();
            job.finish().recovered(&[0]);
        }
        let job = started(lab, Job::new().blocked_in("recv", &[0]).arguments(&["--die", "exit0"]));
        let [first, second] = frames(&job, "h3");
        if second > 10 || first < 25 {
            job.fail(&format!(
                "by default heartbeats go where prte_if_include says: {first} frames on eth0, {second} on eth1"
            ));
        }
        job.go();
        job.finish().recovered(&[0]);
    });
}

#[test]
fn the_log_goes_where_the_parameter_says() {
    in_lab(|lab| {
        let folder = lab.folder();
        let pattern = folder.join("of-%h-%n-%j.txt").display().to_string();
        let job = started(lab, plain().parameter("log", &pattern).parameter("log_level", "info"));
        let _ = job.signal_rank(5, libc::SIGKILL);
        let mut job = job;
        job.wait_until_repaired(&[0, 1, 2, 3, 4, 6, 7]);
        let space = format!("prterun-h1-{}@1", job.launcher());
        job.end();
        job.finish().recovered(&[5]);
        for (node, host) in ["h1", "h2", "h3", "h4"].iter().enumerate() {
            let path = folder.join(format!("of-{host}-{node}-{space}.txt"));
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(text.contains("declared rank=5"), "{}:\n{text}", path.display());
        }
        let files = fs::read_dir(folder).expect("the folder can be read").flatten();
        let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("of-")).count();
        assert_eq!(logs, 4, "each node has one log");
    });
}

#[test]
fn the_log_has_what_its_level_lets_through() {
    in_lab(|lab| {
        for (level, some, none) in
            [("error", "", "INFO"), ("warn", "", "INFO"), ("info", "INFO", "DEBUG"), ("debug", "DEBUG", "TRACE")]
        {
            let job = started(lab, plain().parameter("log_level", level));
            job.end();
            let folder = job.folder().to_owned();
            job.finish().finished_without(&[]);
            let logs: String = ["h1", "h2", "h3", "h4"]
                .iter()
                .map(|host| fs::read_to_string(folder.join(format!("{host}.log"))).unwrap_or_default())
                .collect();
            assert!(logs.contains(some), "level {level} has {some}:\n{logs}");
            assert!(!logs.contains(none), "level {level} has no {none}:\n{logs}");
        }
    });
}

/// Who asks for a log or a history has a reason to.
#[test]
fn a_log_or_a_history_that_cannot_be_written_stops_the_launch() {
    in_lab(|lab| {
        for name in ["log", "events"] {
            let job = Job::new().parameter(name, "/proc/nonexistent/%h.log");
            let parameter = format!("psensor_ringwatch_{name}");
            let why = "/proc/nonexistent/h1.log cannot be written on the node of mpirun";
            is_refused(lab, job, &[&parameter, why, "nothing was launched"]);
        }
    });
}

/// A name that nobody knows would otherwise change nothing, without a word.
#[test]
fn a_misspelt_parameter_stops_the_launch_naming_the_nearest() {
    in_lab(|lab| {
        let period = "there is no parameter psensor_ringwatch_perod: the nearest is psensor_ringwatch_period";
        is_refused(lab, Job::new().parameter("perod", "10ms"), &[period]);
        is_refused(lab, plain().environment("PMIX_MCA_psensor_ringwatch_perod", "10ms"), &[period]);
        let component = "psensor_ringwach_period: the nearest is psensor_ringwatch_period";
        is_refused(lab, plain().environment("PMIX_MCA_psensor_ringwach_period", "10ms"), &[component]);
        let scope = "coll_ringwatch_error_scop: the nearest is coll_ringwatch_error_scope";
        is_refused(lab, plain().options(&["--mca", "coll_ringwatch_error_scop", "global"]), &[scope]);
        is_refused(lab, plain().options(&["-x", "OMPI_MCA_coll_ringwatch_error_scop=global"]), &[scope]);
        let tuned = lab.folder().join("tuned").display().to_string();
        fs::write(&tuned, "-x HOME\n--mca coll_ringwatch_error_scop global\n").expect("/tmp can be written");
        is_refused(lab, plain().options(&["--tune", &tuned]), &[scope]);
        {
            let lines = "# psensor_ringwatch_perod = 10ms\ncoll_ringwatch_error_scop = global\n";
            let _file = ParameterFile::with(PathBuf::from("/root/.openmpi/mca-params.conf"), lines);
            is_refused(lab, plain(), &[scope]);
        }
        let _file = ParameterFile::of_the_user("psensor_ringwatch_perod = 10ms\n");
        is_refused(lab, plain(), &[period]);
    });
}

/// What ringwatch changes for a fault-tolerant job is logged, and never over a value that the user has set.
#[test]
fn values_of_the_user_stay() {
    in_lab(|lab| {
        let names = [
            "coll_han_priority",
            "mpi_add_procs_cutoff",
            "async_mpi_finalize",
            "coll_tuned_allgatherv_algorithm",
            "btl_sm_fbox_threshold",
        ];
        let told = |job: Job| {
            let job = started(lab, job);
            job.end();
            let folder = job.folder().to_owned();
            job.finish().finished_without(&[]);
            // On every node, for both of its ranks.
            names.map(|name| {
                ["h1", "h2", "h3", "h4"].iter().all(|host| {
                    let log = fs::read_to_string(folder.join(format!("{host}.log"))).unwrap_or_default();
                    log.lines().filter(|line| line.contains("defaults") && line.contains(&format!("{name}="))).count()
                        == 2
                })
            })
        };
        assert_eq!(told(plain()), [true; 5]);
        assert_eq!(told(plain().options(&["--mca", "coll_han_priority", "0"])), [false, true, true, true, true]);
        assert_eq!(told(plain().options(&["--mca", "mpi_add_procs_cutoff", "1024"])), [true, false, true, true, true]);
        assert_eq!(told(plain().environment("OMPI_MCA_async_mpi_finalize", "0")), [true, true, false, true, true]);
        let rules = ["--mca", "coll_tuned_use_dynamic_rules", "0"];
        assert_eq!(told(plain().options(&rules)), [true, true, true, false, true]);
        let boxes = ["--mca", "btl_sm_fbox_threshold", "16"];
        assert_eq!(told(plain().options(&boxes)), [true, true, true, true, false]);
    });
}

/// What a rank changes only as it opens its first file, and what prterun changes of PRRTE and of the environment.
#[test]
fn values_of_the_user_stay_for_files_and_in_the_runtime() {
    in_lab(|lab| {
        let told = |options: &[&str], environment: &[(&str, &str)]| {
            let program = system_tests::programs::compile("begun", "mpicc");
            let job = Job::new().ranks(4).options(options).diarist(&program).arguments(&["/tmp/begun"]);
            let job = environment.iter().fold(job, |job, (name, value)| job.environment(name, value)).start(lab);
            let folder = job.folder().to_owned();
            let outcome = job.finish();
            outcome.require(outcome.status == 0, "mpirun's exit status is 0").left_nothing();
            let _ = fs::remove_file("/tmp/begun");
            let log = fs::read_to_string(folder.join("h1.log")).unwrap_or_default();
            [
                "fcoll_vulcan_priority=0",
                "fcoll_dynamic_priority=0",
                "fcoll_dynamic_gen2_priority=0",
                "sharedfp_sm_priority=0",
                "state_base_recoverable=true",
                "state_base_notify_errors=true",
                "odls_base_max_threads=0",
                "rml_base_radix=",
                "plm_ssh_num_concurrent=",
                "UCX_HANDLE_ERRORS=none",
                "OMPI_MCA_mca_base_component_path=",
            ]
            .map(|name| log.lines().any(|line| line.contains("set for fault tolerance") && line.contains(name)))
        };
        assert_eq!(told(&[], &[]), [true; 11]);
        // PRRTE takes the second for granted only beside the first.
        let runtime = ["--prtemca", "state_base_recoverable", "1", "--prtemca", "state_base_notify_errors", "1"];
        // Shells of which fewer may be open would wait for the daemons, and the other way round.
        let files =
            [&["--mca", "fcoll_dynamic_priority", "30", "--prtemca", "rml_base_radix", "64"], &runtime[..]].concat();
        assert_eq!(told(&files, &[]), [true, false, true, true, false, false, true, false, false, true, true]);
        let path = "/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi40";
        let threads = ("PRTE_MCA_odls_base_max_threads", "4");
        let ucx = ("UCX_HANDLE_ERRORS", "bt");
        let shells = ("PRTE_MCA_plm_ssh_num_concurrent", "128");
        let own = [
            ("OMPI_MCA_mca_base_component_path", path),
            ("PRTE_MCA_state_base_recoverable", "1"),
            threads,
            shells,
            ucx,
        ];
        assert_eq!(told(&[], &own), [true, true, true, true, false, true, false, false, false, false, false]);
    });
}

/// Who asks for RDMA hears on which nodes there is none.
#[test]
fn verbs_without_a_device_is_a_line_in_the_log_of_each_node() {
    let has_device = fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some());
    in_lab(|lab| {
        let job = started(lab, plain().parameter("transport", "verbs"));
        let said = ["h1", "h2", "h3", "h4"].map(|host| job.log(host).matches("has no RDMA device").count());
        assert_eq!(said, [usize::from(!has_device); 4], "lines of each host");
        job.end();
        job.finish().finished_without(&[]);
    });
}

/// As long as all is well nobody hears of ringwatch, and what it has to say comes in whole lines.
#[test]
fn nothing_is_said_while_all_is_well() {
    in_lab(|lab| {
        let job = started(lab, plain().parameter("log", "stderr").parameter("log_level", "warn"));
        job.end();
        let outcome = job.finish();
        outcome.finished_without(&[]);
        let said: Vec<&str> = outcome.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        outcome.require(said.is_empty(), &format!("mpirun says nothing, not {said:?}"));
    });
}

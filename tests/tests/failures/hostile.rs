//! Bad input on the daemon's socket is counted, logged once, and dropped; the job does not notice.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;

use serde_json::Value;
use system_tests::clock::{now, wait_until};
use system_tests::lab::run;
use system_tests::wire::sniff;
use system_tests::{Job, Lab, Running, TIMEOUT, in_lab};

/// Offsets in the envelope of a message, see `propagation/src/wire.rs`.
const VERSION: usize = 2;
const JOB: usize = 4;
const FROM: usize = 12;

fn start(lab: &Lab) -> Running<'_> {
    let mut job = Job::new().arguments(&["--op", "allreduce", "--hold"]).start(lab);
    job.wait_until_blocked();
    job
}

fn rejected(host: &str) -> BTreeMap<String, u64> {
    let text = run("rw-on", &[host, "ringwatch", "status", "--json"]);
    let reports: Vec<Value> = serde_json::from_str(&text).expect("the status is JSON");
    serde_json::from_value(reports[0]["rejected"].clone()).expect("counters by name")
}

/// Datagrams of all bad kinds that can be made without the key of the job; `real` are some of the job's own.
fn bad_datagrams(real: &[Vec<u8>]) -> Vec<(&'static str, Vec<u8>)> {
    let changed = |at: usize| {
        let mut datagram = real[0].clone();
        datagram[at] ^= 0x41;
        datagram
    };
    let last = real[0].len() - 1;
    vec![
        ("truncated", Vec::new()),
        ("truncated", vec![b'R']),
        ("truncated", real[0][..20].to_vec()),
        ("oversized", vec![b'R'; 65_000]),
        ("not ours", vec![0; 100]),
        ("not ours", (0..=255).collect()),
        ("version", changed(VERSION)),
        ("other job", changed(JOB)),
        ("forged", changed(FROM)),
        ("forged", changed(last)),
        ("forged", changed(last - 20)),
        ("forged", real[0][..last].to_vec()),
        ("replayed", real[0].clone()),
        ("replayed", real[real.len() - 1].clone()),
    ]
}

fn nobody_was_disturbed(job: Running<'_>) {
    job.end();
    let outcome = job.finish();
    outcome.finished_without(&[]);
    outcome.require(outcome.diaries.all("error").next().is_none(), "nobody is declared dead");
}

#[test]
fn every_kind_is_counted_logged_once_and_dropped() {
    in_lab(|lab| {
        let job = start(lab);
        for host in ["h1", "h3"] {
            let port = job.port(host);
            let real = sniff(host, port, 5);
            let bad = bad_datagrams(&real);
            let before = rejected(host);
            let socket = UdpSocket::bind("10.77.0.254:0").expect("the bridge has this address");
            let rounds = 3;
            for _ in 0..rounds {
                for (_, datagram) in &bad {
                    socket.send_to(datagram, (format!("10.77.0.{}", &host[1..]), port)).expect("datagrams can be sent");
                }
            }
            let mut expected = before.clone();
            for (kind, _) in &bad {
                *expected.entry((*kind).to_owned()).or_default() += rounds;
            }
            let mut found = BTreeMap::new();
            let counted = wait_until(Duration::from_secs(5), || {
                found = rejected(host);
                found == expected
            });
            if !counted {
                job.fail(&format!("{host} counts what it refuses: {expected:?}, not {found:?}"));
            }
            for kind in ["truncated", "oversized", "not ours", "version", "other job", "forged", "replayed"] {
                let log = job.log(host);
                let lines = log.lines().filter(|line| line.contains("refused") && line.contains(kind)).count();
                if lines != 1 {
                    job.fail(&format!("the log of {host} says once that '{kind}' was refused, not {lines} times"));
                }
            }
        }
        std::thread::sleep(TIMEOUT * 2);
        nobody_was_disturbed(job);
    });
}

/// Sends datagrams to all daemons as fast as it can for some time; returns how many.
fn flood(job: &Running<'_>, real: &[Vec<u8>], span: Duration) -> u64 {
    let targets: Vec<String> =
        ["h1", "h2", "h3", "h4"].iter().map(|host| format!("10.77.0.{}:{}", &host[1..], job.port(host))).collect();
    let socket = UdpSocket::bind("10.77.0.254:0").expect("the bridge has this address");
    let bad: Vec<Vec<u8>> =
        bad_datagrams(real).into_iter().map(|(_, datagram)| datagram).filter(|one| one.len() < 1000).collect();
    let (end, mut count) = (now() + span, 0);
    while now() < end {
        for target in &targets {
            for datagram in &bad {
                count += u64::from(socket.send_to(datagram, target).is_ok());
            }
        }
        // Ten thousands a second: what one machine that went wild sends, while two processors have a job to do.
        std::thread::sleep(Duration::from_millis(5));
    }
    count
}

#[test]
fn a_flood_is_no_failure() {
    in_lab(|lab| {
        let job = start(lab);
        let real = sniff("h2", job.port("h2"), 3);
        let sent = flood(&job, &real, Duration::from_secs(2));
        let counted: u64 = rejected("h4").values().sum();
        if counted < sent / 8 || job.log("h4").lines().count() > 40 {
            job.fail(&format!("of {sent} datagrams to four hosts h4 counts {counted} and logs few lines"));
        }
        nobody_was_disturbed(job);
    });
}

#[test]
fn a_failure_in_a_flood_is_found() {
    in_lab(|lab| {
        let mut job = start(lab);
        let real = sniff("h2", job.port("h2"), 3);
        flood(&job, &real, Duration::from_millis(300));
        let at = job.split(&["h4"], false);
        flood(&job, &real, Duration::from_millis(600));
        job.wait_until_repaired(&[0, 1, 2, 3, 4, 5]);
        job.end();
        job.finish().recovered(&[6, 7]).told_within(&[6, 7], at, TIMEOUT);
    });
}

/// While the nodes still learn each other's addresses.
#[test]
fn bad_datagrams_from_the_first_moment() {
    in_lab(|lab| {
        let mut job =
            Job::new().parameter("port_range", "41000-41000").arguments(&["--op", "allreduce", "--hold"]).start(lab);
        let socket = UdpSocket::bind("10.77.0.254:0").expect("the bridge has this address");
        let made_up = [b"RW\x01\x00".as_slice(), &[7; 60]].concat();
        let limit = now() + Duration::from_secs(15);
        while !job.ranks().iter().all(|rank| job.diaries().has(*rank, "blocked")) && now() < limit {
            for host in 1..=4 {
                for datagram in [&made_up[..], &made_up[..10], b"hello"] {
                    // Refused by the kernel as long as nobody listens.
                    let _ = socket.send_to(datagram, format!("10.77.0.{host}:41000"));
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        job.wait_until_blocked();
        assert!(rejected("h1").values().sum::<u64>() > 0, "some arrived");
        nobody_was_disturbed(job);
    });
}

/// Datagrams that were genuine in an earlier job are nothing in the next one on the same port.
#[test]
fn datagrams_of_an_earlier_job_are_refused() {
    in_lab(|lab| {
        let job = || Job::new().parameter("port_range", "41000-41000").arguments(&["--op", "allreduce", "--hold"]);
        let mut first = job().start(lab);
        first.wait_until_blocked();
        let old = sniff("h3", 41000, 10);
        nobody_was_disturbed(first);
        let mut second = job().start(lab);
        second.wait_until_blocked();
        let socket = UdpSocket::bind("10.77.0.254:0").expect("the bridge has this address");
        for datagram in &old {
            socket.send_to(datagram, "10.77.0.3:41000").expect("datagrams can be sent");
        }
        let counted = wait_until(Duration::from_secs(5), || rejected("h3").get("other job") == Some(&10));
        if !counted {
            second.fail(&format!("all are refused as of another job: {:?}", rejected("h3")));
        }
        nobody_was_disturbed(second);
    });
}

/// Whoever connects to the socket of `ringwatch status` and says nothing, or nonsense, disturbs nobody.
#[test]
fn callers_of_the_status_socket_that_never_hang_up() {
    in_lab(|lab| {
        let job = start(lab);
        let caller = "
import socket,time
names=[line.split()[7] for line in open('/proc/net/unix') if 'ringwatch/' in line]
all=[]
for i in range(200):
    s=socket.socket(socket.AF_UNIX); s.setblocking(False)
    try:
        s.connect('\\0'+names[0][1:]); s.send(b'x'*1000)
    except OSError: pass
    all.append(s)
time.sleep(3)
";
        let mut child = std::process::Command::new("rw-on")
            .args(["h2", "python3", "-c", caller])
            .spawn()
            .expect("python3 is there");
        let status = child.wait().expect("it ends");
        assert!(status.success());
        assert!(!rejected("h2").is_empty(), "ringwatch status still answers");
        nobody_was_disturbed(job);
    });
}

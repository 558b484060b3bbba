//! `ringwatch top` in a terminal, and the metrics, as a user has them.

#[path = "../../rdma-heartbeat/tests/cluster/mod.rs"]
mod cluster;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cluster::{Cluster, LIMIT, eventually, launch};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::Signal;
use vt100::Parser;

/// How long it may take until a death is shown.
const SHOWN: Duration = Duration::from_secs(1);

/// A program in a terminal.
struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<Parser>>,
}

impl Terminal {
    fn start(mut command: Command) -> Self {
        let size = Winsize { ws_row: 40, ws_col: 130, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
        let end = |slave: &OwnedFd| Stdio::from(slave.try_clone().unwrap());
        let command = command.env("TERM", "xterm-256color").stdin(end(&slave)).stdout(end(&slave)).stderr(end(&slave));
        let child = command.spawn().unwrap();
        drop(slave);
        let keys = File::from(master);
        let (mut output, screen) = (keys.try_clone().unwrap(), Arc::new(Mutex::new(Parser::new(40, 130, 0))));
        let shown = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..length]);
            }
        });
        Self { child, keys, screen }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn wait_for(&self, what: &str) -> String {
        let until = Instant::now() + LIMIT;
        while !self.text().contains(what) {
            assert!(Instant::now() < until, "{what:?} is not in\n{}", self.text());
            std::thread::sleep(Duration::from_millis(1));
        }
        self.text()
    }
}

#[test]
fn top_shows_a_killed_rank_within_a_second_and_leaves_the_terminal_as_it_was() {
    let cluster = Cluster::running(launch(&[1, 2, 1]));
    let job = cluster.launch.nspace.clone();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringwatch"));
    command.args(["top", "--job", &job]);
    let mut terminal = Terminal::start(command);
    let before = terminal.wait_for("alive, watched by node 0");
    for part in [&job, "4 ranks, 0 dead; 3 nodes, 0 dead", "ring: 0 (h1) > 1 (h2) > 2 (h3) > 0 (h1)"] {
        assert!(before.contains(part), "{part:?} in\n{before}");
    }
    let began = Instant::now();
    cluster.signal_rank(1, Signal::SIGKILL);
    terminal.wait_for("4 ranks, 1 dead");
    terminal.wait_for("knows that rank 1 of node 1 (h2) is dead (killed by signal 9)");
    let took = began.elapsed();
    assert!(took < SHOWN, "it took {took:?}");
    // All nodes learn of it, which is one event, until all are asked for.
    assert_eq!(terminal.text().matches("knows that rank 1").count(), 1, "{}", terminal.text());
    terminal.keys.write_all(b"a").unwrap();
    terminal.wait_for("in the ring: watches");
    // Another report of the same job, as node 1 sees it.
    terminal.keys.write_all(b"\t").unwrap();
    terminal.wait_for("seen by node 1 (");
    terminal.keys.write_all(b"q").unwrap();
    assert!(terminal.child.wait().unwrap().success());
    eventually("the first screen is back", || {
        let screen = terminal.screen.lock().unwrap();
        (!screen.screen().alternate_screen() && !screen.screen().hide_cursor()).then_some(())
    });
}

#[test]
fn without_a_terminal_top_says_so() {
    let output = Command::new(env!("CARGO_BIN_EXE_ringwatch")).arg("top").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("ringwatch: the terminal cannot be used"), "{said}");
}

/// The metrics of a job over HTTP.
fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    std::io::read_to_string(stream).unwrap()
}

#[test]
fn metrics_count_a_killed_rank_within_a_second_in_a_file_and_over_http() {
    let cluster = Cluster::running(launch(&[1, 2]));
    let job = cluster.launch.nspace.clone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ringwatch.prom");
    let start = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringwatch"));
        command.args(["metrics", "--job", &job]).args(options).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut writer = start(&["--textfile", path.to_str().unwrap()]);
    let mut server = start(&["--http", "127.0.0.1:0"]);
    let mut said = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let address =
        said.trim().strip_prefix("ringwatch: metrics are at http://").unwrap().strip_suffix("/metrics.").unwrap();
    let of_node = |text: &str, node: u32| {
        let is_it = |line: &&str| {
            line.starts_with("ringwatch_deaths_total{")
                && line.contains("signal:9")
                && line.contains(&format!("node=\"{node}\""))
        };
        text.lines().find(is_it).and_then(|line| line.rsplit_once(' ')).map(|(_, value)| value.to_owned())
    };
    let written = || std::fs::read_to_string(&path).unwrap_or_default();
    eventually("a file with nobody dead", || (of_node(&written(), 0)? == "0").then_some(()));
    let began = Instant::now();
    cluster.signal_rank(2, Signal::SIGKILL);
    eventually("a file with the dead", || (of_node(&written(), 0)? == "1").then_some(()));
    let text = eventually("an answer with the dead", || {
        Some(scrape(address)).filter(|text| of_node(text, 1).as_deref() == Some("1"))
    });
    let took = began.elapsed();
    assert!(took < SHOWN, "it took {took:?}");
    assert!(text.contains("application/openmetrics-text; version=1.0.0"), "{text}");
    assert!(text.contains("dead_rank=\"2\",dead_node=\"1\",dead_host=\"h2\",reason=\"signal:9\""), "{text}");
    for child in [&mut writer, &mut server] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let refused =
        Command::new(env!("CARGO_BIN_EXE_ringwatch")).args(["metrics", "--http", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("loopback"));
}

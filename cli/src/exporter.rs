//! `ringwatch metrics`: what Prometheus and its kin collect of the jobs of this node.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use cli::metrics::{CONTENT_TYPE, text};
use cli::values::time;
use tiny_http::{Header, Method, Request, Response, Server};

use crate::output::{print, refuse};
use crate::reports;
use crate::wanted::Wanted;

/// How many requests are answered at a time: one that stops reading keeps no other waiting.
const READERS: usize = 8;

/// The command line of `ringwatch metrics`.
#[derive(Args)]
pub struct Arguments {
    /// Write them into this file again and again, a whole file in the old one's place each time: for the textfile
    /// collector of Prometheus's node exporter, *.prom
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// Time between two files, from 10ms on
    #[arg(long, value_parser = time, default_value = "500ms", requires = "textfile")]
    interval: Duration,
    /// Write one file and end
    #[arg(long, requires = "textfile")]
    once: bool,
    /// Answer GET /metrics over HTTP at this loopback address, such as 127.0.0.1:9477, where all users of the node
    /// reach it
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "textfile")]
    http: Option<SocketAddr>,
    #[command(flatten)]
    wanted: Wanted,
}

/// Prints the metrics, writes them, or serves them.
pub fn export(arguments: &Arguments) -> ExitCode {
    let Arguments { textfile, interval, once, http, wanted } = arguments;
    if *interval < Duration::from_millis(10) {
        return refuse("the interval must be 10ms or longer");
    }
    match (textfile, http) {
        (Some(path), _) => keep_written(path, *interval, *once, wanted),
        (None, Some(address)) if !address.ip().is_loopback() => {
            refuse("metrics are served at a loopback address only, such as 127.0.0.1:9477")
        }
        (None, Some(address)) => serve(*address, wanted),
        (None, None) => match now(wanted) {
            Ok(text) => {
                print(&text);
                ExitCode::SUCCESS
            }
            Err(error) => failed(&format!("the list of local sockets cannot be read: {error}")),
        },
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("ringwatch: {why}.");
    ExitCode::FAILURE
}

/// The present metrics. Daemons that do not answer are missing, and said on standard error once.
fn now(wanted: &Wanted) -> io::Result<String> {
    let (reports, _) = reports::ask(wanted)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(text(reports, now.as_secs_f64()))
}

fn keep_written(path: &Path, interval: Duration, once: bool, wanted: &Wanted) -> ExitCode {
    loop {
        if let Err(error) = now(wanted).and_then(|text| write(path, &text)) {
            return failed(&format!("{} cannot be written: {error}", path.display()));
        }
        if once {
            return ExitCode::SUCCESS;
        }
        std::thread::sleep(interval);
    }
}

/// Puts a whole file in the place of the old one. The collector is another user.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file =
        tempfile::Builder::new().prefix(".ringwatch").permissions(Permissions::from_mode(0o644)).tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

fn serve(address: SocketAddr, wanted: &Wanted) -> ExitCode {
    let server = match Server::http(address) {
        Ok(server) => server,
        Err(error) => return failed(&format!("{address} cannot be served: {error}")),
    };
    // Whoever asked for port 0 learns which one it is.
    eprintln!("ringwatch: metrics are at http://{}/metrics.", server.server_addr());
    std::thread::scope(|threads| {
        for _ in 0..READERS {
            threads.spawn(|| server.incoming_requests().for_each(|request| answer(request, wanted)));
        }
    });
    ExitCode::SUCCESS
}

fn answer(request: Request, wanted: &Wanted) {
    let path = request.url().split('?').next().unwrap_or_default();
    // Whoever has asked may have gone.
    let _ = match (request.method(), path) {
        (Method::Get | Method::Head, "/metrics") => match now(wanted) {
            Ok(text) => {
                let kind = Header::from_bytes("Content-Type", CONTENT_TYPE).expect("it is a header");
                request.respond(Response::from_string(text).with_header(kind))
            }
            Err(error) => request.respond(Response::from_string(error.to_string()).with_status_code(500)),
        },
        _ => request.respond(Response::from_string("GET /metrics\n").with_status_code(404)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_everybody_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ringwatch.prom");
        write(&path, "a longer text\n").unwrap();
        let open = std::fs::File::open(&path).unwrap();
        write(&path, "short\n").unwrap();
        assert_eq!(io::read_to_string(open).unwrap(), "a longer text\n", "who reads the old one reads all of it");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
        assert!(write(&folder.path().join("missing/ringwatch.prom"), "").is_err());
    }
}

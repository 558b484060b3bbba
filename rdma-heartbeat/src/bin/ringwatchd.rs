//! `ringwatchd`: watches one node of one job. Started by the plugin in prterun and prted, never by hand.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::process::ExitCode;

use nix::fcntl::{FcntlArg, fcntl};
use node_abi::launch::{CONTROL_FD, LIFE_FD, LOGGER_FD, SEGMENT_FD, UDP_FD};
use node_abi::versions::RELEASE;
use rdma_heartbeat::process::allocations::Counting;
use rdma_heartbeat::process::{logging, setup};
use rdma_heartbeat::session::control::Control;
use rdma_heartbeat::{daemon, offload};

const HELP: &str = "\
ringwatchd watches one node of one MPI job. mpirun starts it on every node of a
job that asks for fault tolerance; it takes no arguments and is not for use by
hand. See 'ringwatch status' for what it sees.

  --for HOST  serve that host from this machine; its ringwatchd starts this
              with a remote shell, see docs/offload.md
  --help     this text
  --version  the version";

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The job is over here, or this daemon has ended it: no work remains.
const DONE: u8 = 0;
/// Something failed; another start may work.
const FAILED: u8 = 1;
/// It was started in a wrong way, and another start will not help.
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    setup::drop_driver_variables();
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    ExitCode::from(match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve(),
        ["--for", host] => serve_host(host),
        ["--help" | "-h"] => {
            println!("{HELP}");
            DONE
        }
        ["--version" | "-V"] => {
            println!("ringwatchd {}", RELEASE);
            DONE
        }
        _ => {
            eprintln!("ringwatchd: takes no arguments but --for HOST, --help and --version");
            MISUSED
        }
    })
}

fn serve() -> u8 {
    let control = adopt(CONTROL_FD).and_then(|socket| Control::new(socket).ok());
    let (Some(control), Some(segment)) = (control, adopt(SEGMENT_FD)) else {
        eprintln!(
            "ringwatchd: is started by mpirun on every node of a fault-tolerant job, not by hand; see 'ringwatch status'."
        );
        return MISUSED;
    };
    // A job on one node has no network.
    let socket = adopt(UDP_FD);
    let _life = adopt(LIFE_FD);
    let logger = adopt(LOGGER_FD);
    setup::be_called_by_name();
    setup::share_one_heap();
    setup::detach(LOGGER_FD.unsigned_abs() + 1);
    setup::give_up_privileges();
    setup::go_on_when_the_runtime_ends();
    let ended = daemon::run(control, socket, &segment, logger);
    logging::finish();
    match ended {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("ringwatchd: {error}.");
            if matches!(error, daemon::Failure::Version | daemon::Failure::Settings(_)) { MISUSED } else { FAILED }
        }
    }
}

/// Runs the part of another host in its job.
fn serve_host(host: &str) -> u8 {
    let (Some(input), Some(output)) = (adopt(0), adopt(1)) else {
        eprintln!("ringwatchd: --for {host} needs its standard input and output.");
        return MISUSED;
    };
    setup::share_one_heap();
    setup::detach(3);
    setup::give_up_privileges();
    let ended = offload::service::run(host, input, output);
    logging::finish();
    match ended {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("ringwatchd: {error}.");
            MISUSED
        }
    }
}

/// Takes over a descriptor that the parent left open.
fn adopt(descriptor: i32) -> Option<OwnedFd> {
    // SAFETY: only checks whether the descriptor is open.
    let probe = unsafe { BorrowedFd::borrow_raw(descriptor) };
    fcntl(probe, FcntlArg::F_GETFD).ok()?;
    // SAFETY: it is open, no code of this process has opened it, and each is adopted once.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

//! RDMA between real `ringwatchd`s in two virtual machines. `scripts/test` runs this program in both at the same time,
//! test by test; a test meets its other half through files of the folder that both see.

#[path = "../cluster/mod.rs"]
mod cluster;
mod half;
mod notices;
mod offload;
mod ring;
mod slots;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::eventually;

/// An emulated machine takes its time.
const PERIOD: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(4);
const SHARED: &str = "/run/guests";

fn guest() -> u32 {
    let guest = std::env::var("RW_GUEST").ok().and_then(|guest| guest.parse().ok());
    guest.expect("these tests need two virtual machines with RDMA: run scripts/test")
}

fn address_of(job: u64, node: u32) -> SocketAddr {
    let port = 7000 + 10 * u16::try_from(job).unwrap() + u16::try_from(node).unwrap();
    ([10, 78, 0, 1 + u8::try_from(node % 2).unwrap()], port).into()
}

fn shared(name: &str) -> PathBuf {
    Path::new(SHARED).join(name)
}

/// Waits until the other guest has come to the same place.
fn meet(place: &str) {
    let file = |guest| format!("{SHARED}/{place}.{guest}");
    std::fs::write(file(guest()), "").unwrap();
    eventually(place, || Path::new(&file(3 - guest())).exists().then_some(()));
}

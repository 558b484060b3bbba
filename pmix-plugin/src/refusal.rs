//! A node that takes no part in a job: it says so to node 0, which ends the job, and this process with it.

use std::time::Instant;

use nix::sys::signal::SigSet;
use rdma_heartbeat::refusing;
use rdma_heartbeat::versions::{Contact, Refusal};

/// Tells node 0 again and again.
///
/// # Errors
/// A sentence if that cannot be begun.
pub fn send(contact: Contact, refusal: Refusal) -> Result<(), String> {
    let body = move || {
        // PRRTE handles its signals in its own thread.
        let _ = SigSet::all().thread_block();
        let begun = Instant::now();
        while begun.elapsed() < refusing::LIMIT {
            refusing::send(&contact, &refusal);
            std::thread::sleep(refusing::INTERVAL);
        }
    };
    std::thread::Builder::new().name("ringwatch".into()).spawn(body).map(drop).map_err(|error| error.to_string())
}

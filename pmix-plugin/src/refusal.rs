//! Reports to node 0 that this node takes no part in a job. Node 0 ends the job, and with it this process.

use std::time::Instant;

use nix::sys::signal::SigSet;
use node_abi::refusing;
use node_abi::versions::{Contact, Refusal};

/// Sends the refusal repeatedly.
///
/// # Errors
/// A sentence if the thread cannot be started.
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

//! Whether notices would gain by RDMA writes.

use std::net::UdpSocket;
use std::time::Duration;

use rdma_heartbeat::transport::{Means, Verbs};

use crate::{PERIOD, address_of, guest, meet, shared};

/// Median of the round trips, on the guest that begins; the other one answers.
fn median_round_trip(mut turn: impl FnMut(u64)) -> Duration {
    const ROUNDS: u64 = 400;
    let mut times: Vec<Duration> = (1..=ROUNDS)
        .map(|round| {
            let begin = std::time::Instant::now();
            turn(round);
            begin.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// Hands bytes to the other guest and takes its own.
fn exchange(place: &str, bytes: &[u8]) -> Vec<u8> {
    std::fs::write(shared(&format!("{place}.bytes.{}", guest())), bytes).unwrap();
    meet(place);
    std::fs::read(shared(&format!("{place}.bytes.{}", 3 - guest()))).unwrap()
}

/// What a notice would gain: datagrams to a process that sleeps until they come, as they are, and RDMA writes to one
/// that looks for them ten thousand times a second.
#[test]
#[ignore = "a measurement, see docs/decisions/rdma.md"]
fn round_trips_of_notices() {
    const JOB: u64 = 13;
    let begins = guest() == 1;
    let socket = UdpSocket::bind(address_of(JOB, guest() - 1)).unwrap();
    socket.connect(address_of(JOB, 2 - guest())).unwrap();
    meet("datagrams");
    // A notice of one dead node has about as many bytes.
    let mut notice = [0; 64];
    let datagrams = median_round_trip(|_| {
        if begins {
            socket.send(&notice).unwrap();
        }
        socket.recv(&mut notice).unwrap();
        if !begins {
            socket.send(&notice).unwrap();
        }
    });
    let peer = address_of(JOB, 2 - guest());
    let mut verbs = Verbs::new(PERIOD).expect("a virtual machine has an RDMA device");
    let mut inlet = verbs.open(peer, guest()).unwrap();
    let offer = exchange("offers", &inlet.offer());
    let mut outlet = verbs.attach(peer, &offer, 3 - guest()).unwrap();
    let answer = exchange("answers", &outlet.answer());
    inlet.connect(&answer).unwrap();
    meet("writes");
    let writes = median_round_trip(|round| {
        if begins {
            outlet.store(round).unwrap();
        }
        while inlet.load() < round {
            std::thread::sleep(Duration::from_micros(100));
        }
        if !begins {
            outlet.store(round).unwrap();
        }
    });
    meet("written");
    if begins {
        println!("round trip in the median: {datagrams:?} by datagrams, {writes:?} by RDMA writes");
    }
}

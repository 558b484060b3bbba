//! Sealed packets of a connection, in the hands of somebody who has its wire but not its key.

use std::fs::File;
use std::io::Write;

use nix::unistd::pipe;
use node_abi::launch::Startup;
use node_abi::seal::{Direction, Opener, Sealer};
use rdma_heartbeat::offload::pipe::Pipe;
use rdma_heartbeat::session::control::Received;

use crate::bytes::Bytes;
use crate::local::launch;

/// Most steps of one sequence.
const STEPS: usize = 100;

/// Packets that are handed on, held back, repeated, damaged, cut, made longer, brought from another connection, or made
/// up: what is taken was sent by the other side, later than all that was taken before, and as it was sent.
pub fn sealed(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let ((input, wire), (_, output)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    let (mut wire, mut stream) = (File::from(wire), Pipe::new(input, output).expect("two pipes"));
    let startup = startup(0);
    let sealer = |startup: &Startup, direction| Sealer::new(startup, direction);
    let mut genuine = sealer(&startup, Direction::ToService);
    // What this end says itself, what is said to the next life of it, and what is said elsewhere.
    let mut others = [
        sealer(&startup, Direction::FromService),
        sealer(&self::startup(1), Direction::ToService),
        sealer(&startup, Direction::ToDaemon),
    ];
    stream.authenticate(sealer(&startup, Direction::FromService), Opener::new(&startup, Direction::ToService));
    let (mut sent, mut next) = (Vec::<Vec<u8>>::new(), 0_u32);
    for _ in 0..STEPS {
        let Some((what, which)) = bytes.byte().zip(bytes.byte()) else { return };
        let old = sent.get(usize::from(which)).cloned().unwrap_or_default();
        let mut expected = None;
        let packet = match what {
            // A new one; every other is held back.
            0..64 => {
                let number = u32::try_from(sent.len()).expect("a few");
                sent.push(seal(&mut genuine, number));
                if what % 2 == 1 {
                    continue;
                }
                expected = Some(number);
                sent[number as usize].clone()
            }
            64..112 => {
                let number = u32::from(which);
                expected = (number >= next && !old.is_empty()).then_some(number);
                old
            }
            112..144 => {
                let Some((at, change)) = bytes.byte().zip(bytes.byte()) else { return };
                let mut packet = old;
                match packet.get_mut(usize::from(at)) {
                    Some(byte) if change != 0 => *byte ^= change,
                    _ => continue,
                }
                packet
            }
            144..176 => {
                let length = usize::from(bytes.byte().unwrap_or(0)).min(old.len().saturating_sub(1));
                old[..length].to_vec()
            }
            176..192 => [&old[..], &[which]].concat(),
            192..224 => {
                let count = others.len();
                seal(&mut others[usize::from(what) % count], u32::from(which))
            }
            224..250 => {
                let (packet, rest) = bytes.0.split_at(usize::from(which).min(bytes.0.len()));
                bytes.0 = rest;
                packet.to_vec()
            }
            // And what has not even a length: after it nothing is in its place.
            _ => {
                wire.write_all(bytes.0).expect("an empty pipe has room");
                drop(wire);
                assert!(!matches!(stream.receive::<u32>(), Received::Packet(_)), "nobody guesses a MAC");
                return;
            }
        };
        let length = u32::try_from(packet.len()).expect("a short packet");
        wire.write_all(&[&length.to_le_bytes()[..], &packet].concat()).expect("an empty pipe has room");
        match (stream.receive::<u32>(), expected) {
            (Received::Packet(taken), Some(expected)) => {
                assert_eq!(taken, expected);
                next = taken + 1;
            }
            (Received::Unknown, None) => {}
            (received, expected) => panic!("{received:?} in place of {expected:?}"),
        }
        assert!(matches!(stream.receive::<u32>(), Received::Nothing));
    }
}

fn seal(sealer: &mut Sealer, number: u32) -> Vec<u8> {
    let mut packet = node_abi::launch::encode(&number).expect("a number can be written");
    sealer.seal(&mut packet);
    packet
}

fn startup(incarnation: u32) -> Startup {
    Startup {
        launch: launch(),
        me: 1,
        incarnation,
        roster: None,
        runtime_pid: 0,
        runtime_started: 0,
        tools: node_abi::greeting::Place::default(),
        spawned: Vec::new(),
        known: Vec::new(),
    }
}

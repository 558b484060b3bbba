//! What the kernel says, into which strangers may have put names, and what comes over streams.

use std::ffi::CString;
use std::net::Ipv6Addr;

use nix::unistd::{pipe, write};
use node_abi::jobs::Jobs;
use node_abi::ports::{Asked, asked, members, number_of, owner};
use node_abi::rank_environment::names_rank;
use platform::privileges::permitted_in;
use platform::procfs::{Sample, dumps_core, is_about_to_stop, number_in, stops};
use rdma_heartbeat::offload::pipe::Pipe;
use rdma_heartbeat::offload::{Assignment, FromService, ToService};
use rdma_heartbeat::report::status::names_in;
use rdma_heartbeat::session::control::Received;
use rdma_heartbeat::transport::verbs::port;
use serde::de::DeserializeOwned;

/// Files of `/proc/<pid>`: whatever a process calls itself, and whatever it has in its environment, the kernel's own
/// words are read.
pub fn processes(bytes: &[u8]) {
    let _ =
        (Sample::parse(bytes), stops(bytes), dumps_core(bytes), is_about_to_stop(bytes), names_rank(bytes, "job@1", 3));
    let _ = permitted_in(&String::from_utf8_lossy(bytes));
    // What the kernel keeps of a name.
    let name: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0).take(15).collect();
    let fields: String = (5..=52).map(|field| format!(" {field}")).collect();
    let stat = [b"7 (", &name[..], b") T 1", fields.as_bytes()].concat();
    let sample = Sample { state: b'T', ran: 29, started: 22, exit_code: 52, crash: None, is_signaled: false };
    assert_eq!(Sample::parse(&stat), Some(sample));
    // There it escapes what would end the line.
    let escaped: Vec<u8> = name
        .iter()
        .flat_map(|byte| match byte {
            b'\n' => b"\\n".to_vec(),
            b'\\' => b"\\\\".to_vec(),
            other => vec![*other],
        })
        .collect();
    let rest = b"\nState:\tT (stopped)\nTracerPid:\t0\nUid:\t1000\t0\t0\t0\nvoluntary_ctxt_switches:\t5\n";
    let status = [b"Name:\t", &escaped[..], rest].concat();
    assert_eq!((number_in(&status, "Uid:"), stops(&status)), (Some(1000), Some(5)));
    let environ = [bytes, b"\0PMIX_NAMESPACE=job@1\0PMIX_RANK=3\0"].concat();
    assert!(names_rank(&environ, "job@1", 3));
}

/// The list of local sockets, in which everybody can have entries: only names that are a daemon's of this user are
/// called, and nothing in them acts on a terminal.
pub fn sockets(bytes: &[u8]) {
    let list = String::from_utf8_lossy(bytes);
    for name in names_in(&list, "ringwatch", Some(7)) {
        assert!(name.starts_with("ringwatch/7/") && !name.contains(char::is_control) && !name.contains(' '));
    }
    let own = format!("{list}\n0: 00000002 00000000 00010000 0001 01 2 @ringwatch/7/job/0\n");
    assert!(names_in(&own, "ringwatch", Some(7)).iter().any(|name| name == "ringwatch/7/job/0"));
}

/// A stream between a host and who serves it: it ends with the first thing that is no packet.
pub fn stream(bytes: &[u8]) {
    fn take<T: DeserializeOwned>(bytes: &[u8]) {
        let ((input, there), (_here, output)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
        let mut stream = Pipe::new(input, output).expect("two pipes");
        let mut left = bytes.len();
        for piece in bytes.chunks(700) {
            write(&there, piece).expect("an empty pipe has room");
            while let Received::Packet(packet) = stream.receive::<T>() {
                drop(packet);
                left = left.checked_sub(4).expect("no packet without its length");
            }
        }
        drop(there);
        while let Received::Packet(packet) = stream.receive::<T>() {
            drop(packet);
            left = left.checked_sub(4).expect("no packet without its length");
        }
    }
    take::<FromService>(bytes);
    take::<ToService>(bytes);
    take::<Assignment>(bytes);
}

/// Keys under which something is published: those of a port are a part of the key, and their owner is a job that is
/// known. What is published: lists of processes, of which each is a part.
pub fn keys(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (nspace, key) = text.split_once('\n').unwrap_or(("job@1", &text));
    if let Some(Asked::Members(port) | Asked::More(port)) = asked(key) {
        assert!(key.starts_with(port) && key.len() > port.len());
    }
    if let Some((job, _)) = owner(key, [nspace]) {
        assert_eq!(job, nspace);
    }
    for (nspace, _) in members(key) {
        assert!(key.contains(nspace) && !nspace.contains(':'));
    }
}

/// Addresses of RDMA ports: what the kernel writes is read as what it means, and whatever is read is one address.
pub fn addresses(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(address) = port::parse(&text) {
        assert_eq!(port::parse(&Ipv6Addr::from(address).to_string()), Some(address));
    }
    if let Some(address) = bytes.first_chunk::<16>() {
        let words: Vec<_> = address.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect();
        assert_eq!(port::parse(&words.join(":")), Some(*address));
    }
}

/// Names of jobs: one that was spawned has a number, and the rest of its name from the first.
pub fn names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (first, other) = text.split_once('\n').unwrap_or(("prterun-h1-7@1", &text));
    let Ok(name) = CString::new(first) else { return };
    let jobs = Jobs::new(&name, 4);
    if let Some(number) = jobs.number_in(other) {
        let (before, after) = other.rsplit_once('@').expect("a name with a number");
        assert!(first.starts_with(before) && after.trim_start_matches(['+', '0']).len() <= 10, "{other}: {number}");
        assert!(number_of(other).is_some());
    }
    if let Some((before, _)) = first.rsplit_once('@') {
        assert_eq!(jobs.number_in(&format!("{before}@4294967295")), Some(u32::MAX));
        assert_eq!(jobs.number_in(&format!("{before}@4294967296")), None);
    }
}

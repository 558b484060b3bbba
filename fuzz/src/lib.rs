//! What every parser of ringwatch must bear, from whatever bytes: no panic, no promise broken, no memory without bound.
//!
//! Each function is one target. `cargo test -p fuzz` feeds it with the kept corpus (`tests/__fuzz__`) and random bytes;
//! `scripts/fuzz` lets libFuzzer look for bytes that reach new code, and keeps them; `scripts/test` has it look for a
//! moment.
//!
//! | module | parsers |
//! |---|---|
//! | [`network`] | datagrams, rendezvous, the protocol's machine, records on their way, words about flags and RDMA ports, of event loggers, and of a group of recommended processes |
//! | [`local`] | launch data, control socket, releases, status, history, parameters, interfaces, the node segment, packets and the file of an event logger, output of ranks |
//! | [`files`] | topology, parameter file and its folder, histories for people, names in /dev/shm |
//! | [`sealed`] | packets between the plugin or a service and `ringwatchd`, in strange hands |
//! | [`system`] | what the kernel says about processes, sockets and RDMA ports, streams, names of ports and jobs |
//! | [`words`] | values of info keys, command line and environment of `mpirun` |

#![forbid(unsafe_code)]

mod bytes;
pub mod files;
pub mod local;
pub mod network;
pub mod sealed;
pub mod system;
pub mod words;

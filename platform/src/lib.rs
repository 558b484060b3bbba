//! The operating system, and what else knows of no job.
//!
//! | module | one idea |
//! |---|---|
//! | [`clock`] | the clocks |
//! | [`early_clocks`] | what clocks have shown a process first |
//! | [`say`] | lines on standard error, and the name of this host |
//! | [`pin`] | a process that is held fast while it is watched, by its pidfd |
//! | [`procfs`] | what the kernel says about a process: no I/O |
//! | [`inquiry`], [`bell`] | asking what may take its time away from a loop, and waking that up |
//! | [`poller`] | waiting for descriptors and for a point in time |
//! | [`sink`] | files that are written without waiting |
//! | [`output_file`] | opening a file that is written: no other than the user means, without waiting for ever |
//! | [`interfaces`] | names, addresses and subnets of interfaces |
//! | [`socket_owner`] | which user is at the other end of a connection within this host |
//! | [`spelling`] | how alike two names are: no I/O |
//! | [`terminal`] | text that acts on no terminal: no I/O |
//! | [`privileges`] | capabilities |
//! | [`random`] | random numbers |

pub mod bell;
pub mod clock;
pub mod early_clocks;
pub mod inquiry;
pub mod interfaces;
pub mod output_file;
pub mod pin;
pub mod poller;
pub mod privileges;
pub mod procfs;
pub mod random;
pub mod say;
pub mod sink;
pub mod socket_owner;
pub mod spelling;
pub mod terminal;
#[cfg(any(test, feature = "testing"))]
#[allow(missing_docs, reason = "each is named by what it does")]
pub mod testing;

//! Whole-system tests of ringwatch: a real mpirun starts real ranks on four virtual hosts, real faults strike them, and
//! what every rank itself has to say decides.
//!
//! | module | what |
//! |---|---|
//! | [`chaos`] | random jobs under random faults, from a seed |
//! | [`lab`] | the virtual hosts, for one test at a time |
//! | [`job`] | jobs: what is started |
//! | [`programs`] | the programs of this package, compiled |
//! | [`packages`] | programs of Debian's packages |
//! | [`running`] | jobs that run: wait for their ranks, strike them |
//! | [`keys`] | what is promised of every info key |
//! | [`leftovers`] | files of jobs that nobody wants to find afterwards |
//! | [`replaced`], [`replicated`] | jobs whose ranks are replaced, or have replicas |
//! | [`diary`] | what the ranks write down |
//! | [`outcome`] | how a job ended, and what is to be true then |
//! | [`process`] | the processes on the virtual hosts |
//! | [`scene`] | what a failed test shows |
//! | [`terminal`] | a program in a terminal, and what it shows |
//! | [`wire`] | datagrams as they pass the bridge |
//!
//! Run them with `scripts/test`. `SYSTEM_TESTS_REPEAT=20` repeats every fault. `scripts/chaos` runs [`chaos`].

pub mod chaos;
pub mod clock;
pub mod diary;
pub mod job;
pub mod keys;
pub mod lab;
pub mod leftovers;
pub mod outcome;
pub mod packages;
pub mod process;
pub mod programs;
pub mod replaced;
pub mod replicated;
pub mod running;
pub mod scene;
pub mod slurm;
pub mod terminal;
pub mod wire;

pub use job::{Job, SLACK, STOP_TIMEOUT, TIMEOUT};
pub use lab::{Lab, in_lab};
pub use outcome::Outcome;
pub use running::Running;

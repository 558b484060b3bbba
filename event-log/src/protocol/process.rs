//! One rank's machine: [`Input`](super::action::Input)s go in, [`Action`](super::action::Action)s come out.
//!
//! | module | steps | |
//! |---|---|---|
//! | `state` | | what a rank knows |
//! | `step` | | which input goes where |
//! | `sends` | S1 to S5 | what leaves the rank |
//! | `events` | Q1 to Q5 | receives, waits, tests |
//! | `probes` | Q2 to Q5 | probes |
//! | `collectives` | | operations of all members, run in MPI or served |
//! | `checkpoints` | K1 to K4, G1, G2 | checkpoints and garbage |
//! | `survivor` | F1 to F5, X4, X5, X5b, X5c | after a repair, at everybody |
//! | `recovery` | X1 to X3, X6, X7 | the start of a replacement |

mod checkpoints;
mod collectives;
mod events;
mod probes;
mod recovery;
mod sends;
mod state;
mod step;
mod survivor;

pub use state::{Config, Process};

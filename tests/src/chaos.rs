//! Chaos: random jobs on virtual hosts under random faults and on a bad network, judged by what every user is promised.
//!
//! A seed is one job. What is planned is a function of the seed alone; when exactly a fault meets the job is the
//! machine's choice, so a seed replays as far as that goes.
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | from the seed: hosts, families of operations, weather, faults |
//! | [`weather`] | loss, duplication and delay of the daemons' datagrams, in user space |
//! | [`inject`] | runs a plan: strikes, and waits until the survivors have dealt with it |
//! | [`later`] | what is over by itself after a while, and may overlap with others |
//! | [`seen`] | since when those who were struck are down |
//! | [`spawned`] | who was spawned, and came to an end |
//! | [`declared`] | whom the history declares dead, and who had to be, and by when |
//! | [`verdict`] | what is to be true then |
//! | [`limits`] | what docs/limits.md excuses of it, and nothing else |
//! | [`pulse`] | how well the machine let processes run meanwhile |
//! | [`bundle`] | what a broken promise leaves for people to read |

pub mod bundle;
pub mod declared;
pub mod inject;
pub mod later;
pub mod limits;
pub mod plan;
pub mod pulse;
pub mod seen;
pub mod spawned;
pub mod struck;
pub mod verdict;
pub mod weather;

//! The group in a world with a clock and a network: each feature of the specification that concerns the machine, by its
//! number, and every interleaving of small groups.

mod agreement;
mod counters;
mod evictions;
mod model;
mod returns;
mod rounds;
mod slots;
mod tests;
mod world;

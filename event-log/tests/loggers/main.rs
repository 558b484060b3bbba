//! The event loggers: what they cost, what they survive, and every interleaving of small ones.

mod chaos;
mod costs;
mod deployment;
mod faults;
mod model;
mod mutation;
mod network;
mod slots;

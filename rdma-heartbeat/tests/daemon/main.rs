//! Real `ringwatchd` processes on this host, a file a subject.

#[path = "../cluster/mod.rs"]
mod cluster;
mod ends;
mod hostile;
mod loggers;
mod nodes;
mod observed;
mod offload;
mod ranks;

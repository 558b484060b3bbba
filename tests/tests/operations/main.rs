//! What users and administrators see and set, and what strangers try.

mod calibrate;
mod check;
mod events;
mod inert;
mod live;
mod loggers;
mod offload;
mod parameters;
mod quiet;
mod releases;
mod ring_order;
mod secrecy;
mod slurm;
mod status;
mod strangers;

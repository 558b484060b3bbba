//! Faults of every kind: the survivors are told, repair and finish.

mod cannot_go_on;
mod checkpoints;
mod daemons;
mod hostile;
mod hostile_machine;
mod init_finalize;
mod launcher;
mod logged_examples;
mod losses;
mod message_logging;
mod messages;
mod nodes;
mod packaged;
mod partition;
mod ranks;
mod recommended_group;
mod replicas_found;
mod replicas_killed;
mod replicas_packaged;
mod replicas_watched;
mod replication;
mod requests;
mod soak;
mod stopped;
